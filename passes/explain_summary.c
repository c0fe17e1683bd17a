/* explain_summary.c - a kernel as a whole: the conclusion in one line, and what it is worth against
 * dense at the ends and in the middle of the assumed densities.
 *
 *     ffn for sm_90a: h dense 128x256x64; y f lists of h, 128x1, tile 128x256x64 below cover 0.93,
 * else dense 128x256x64; 720 us expected, dense 884 us (1.23x) */
#include "passes/cost.h"
#include "passes/choice.h"
#include "passes/explain.h"
#include "passes/stage.h"

static bool is_listed(const ir_candidate *c) { return c->operand && c->axis; }

double pass_explain_dense_time(const ir_kernel *kernel, const ir_candidate *chosen) {
  const ir_candidate *branch = chosen->guarded && chosen->operand ? pass_dense_branch(kernel, chosen->target) : NULL;
  double least = branch ? branch->microseconds : -1;
  for (int i = 0; i < kernel->candidates.count && !branch; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    bool usable = c->target == chosen->target && !c->operand && c->microseconds > 0 &&
                  strcmp(c->row, "library");
    if (usable && (least < 0 || c->microseconds < least)) least = c->microseconds;
  }
  return least < 0 ? chosen->microseconds : least;
}

static void add_listed(pass_summary *s, const ir_candidate *c) {
  s->low += c->microseconds_low;
  s->likely += c->microseconds_likely;
  s->high += c->microseconds_high;
  if (!s->listed++) s->first = c;
}

static void add_everywhere(pass_summary *s, double microseconds) {
  s->low += microseconds;
  s->likely += microseconds;
  s->high += microseconds;
}

static bool computes(const ir_stage *stage, const ir_tensor *target) {
  for (int i = 0; i < stage->stmts.count; i++)
    if (stage->stmts.at[i]->target == target) return true;
  return false;
}

/* Another statement's stage computes it on its way. */
static bool is_on_chip(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->stages.count; i++)
    if (computes(kernel->stages.at[i], target)) return !kernel->stages.at[i]->beside.count && ir_stage_stmt(kernel->stages.at[i])->target != target;
  return false;
}

static bool is_made_once(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->stages.count; i++)
    if (kernel->stages.at[i]->once && computes(kernel->stages.at[i], target)) return true;
  return false;
}

pass_summary pass_explain_summary(const ir_program *program, const ir_kernel *kernel) {
  pass_summary s = {0};
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict != IR_CHOSEN || is_on_chip(kernel, c->target)) continue;
    if (!program->unpacked && is_made_once(kernel, c->target)) {
      s.once += c->expected;
      continue;
    }
    s.expected += c->expected;
    s.dense += pass_explain_dense_time(kernel, c);
    if (is_listed(c))
      add_listed(&s, c);
    else
      add_everywhere(&s, c->microseconds);
  }
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    if (stage->kind != IR_STAGE_CONVERT) continue;
    if (!program->unpacked && stage->once) {
      s.once += stage->microseconds;
      continue;
    }
    s.expected += stage->microseconds;
    add_everywhere(&s, stage->microseconds);
  }
  return s;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static bool kernel_uses_dim(const ir_kernel *kernel, const ir_dim *dim) {
  for (int i = 0; i < kernel->tensors.count; i++)
    for (int d = 0; d < kernel->tensors.at[i]->rank; d++)
      if (ir_expr_uses_dim(kernel->tensors.at[i]->dim[d], dim)) return true;
  return false;
}

static void put_assumed(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  int shown = 0;
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    if (dim->value >= 0 || dim->assumed <= 0 || !kernel_uses_dim(kernel, dim)) continue;
    ir_text_printf(out, "%s%s=%lld", shown++ ? " " : " at ", dim->name, (long long)dim->assumed);
  }
}

/* ---- one line -------------------------------------------------------------------------------- */
/* Why a statement whose operand has zeros runs without lists; NULL: the question did not arise. */
static const char *why_no_list(const ir_kernel *kernel, const ir_tensor *target, ir_arena *arena) {
  const ir_candidate *best = NULL;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target != target || !c->operand) continue;
    if (!c->axis && !strcmp(c->row, "loop")) return ir_format_text(arena, "no lists of %s: %s", c->operand->name, c->why);
    if (c->axis && c->expected > 0 && (!best || c->expected < best->expected)) best = c;
  }
  if (!best) return NULL;
  return ir_format_text(arena, "lists of %s: %s", best->operand->name, best->why);
}

/* Where a guard asks how much of an operand is stored: what walks it, and what writes it out. */
static void put_weighed(const ir_kernel *kernel, const ir_stage *stage, const ir_candidate *chosen, ir_text *out) {
  const ir_candidate *other = pass_stored_branch(kernel, chosen);
  const ir_candidate *walks = chosen->expanded ? other : chosen, *whole = chosen->expanded ? chosen : other;
  ir_text_printf(out, "%s %s below %.2g of it, else %s", stage->name, walks ? walks->label : "nothing", chosen->break_even,
                 whole ? whole->label : "nothing");
}

static void put_choice(const ir_kernel *kernel, const ir_stage *stage, ir_text *out) {
  const ir_candidate *chosen = pass_chosen(kernel, ir_stage_stmt(stage)->target);
  bool weighs = chosen && chosen->guarded && !chosen->operand;
  if (weighs) {
    put_weighed(kernel, stage, chosen, out);
    return;
  }
  const char *what = stage->beside.count          ? "of columns side by side, spread"
                     : chosen                     ? chosen->label
                     : strcmp(stage->row, "loop") ? stage->row
                                                  : "generated loops";
  ir_text_printf(out, "%s %s", stage->name, what);
  if (chosen && chosen->guarded) {
    const ir_candidate *dense = pass_dense_branch(kernel, chosen->target);
    ir_text_printf(out, " below cover %.2g, else ", chosen->break_even);
    const ir_candidate *instead = pass_instead(kernel, chosen->target);
    if (instead) ir_text_printf(out, "%s below cover %.2g, else ", instead->label, instead->break_even);
    ir_text_put(out, dense ? dense->label : "nothing");
  }
  const char *why =
      chosen && !is_listed(chosen) ? why_no_list(kernel, chosen->target, out->arena) : NULL;
  if (why) ir_text_printf(out, " (%s)", why);
}

static void put_estimate(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  pass_summary s = pass_explain_summary(program, kernel);
  if (s.expected <= 0) return;
  ir_text_printf(out, "; %s %s", pass_time_text(out->arena, s.expected),
                 s.listed ? "expected" : "predicted");
  put_assumed(program, kernel, out);
  if (s.listed)
    ir_text_printf(out, ", dense %s (%.2fx)", pass_time_text(out->arena, s.dense),
                   s.dense / s.expected);
  if (s.once > 0) ir_text_printf(out, "; once, by spc_plan_pack, %s more", pass_time_text(out->arena, s.once));
}

void pass_explain_line(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  ir_text_printf(out, "%s for %s:", kernel->name, program->target ? program->target : "interp");
  int shown = 0;
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    if (stage->kind != IR_STAGE_COMPUTE || (stage->when.list && stage->when.above)) continue;
    if (stage->when.list && stage->when.list->replaces) continue; /* said of the stage whose place it takes */
    if (stage->kept) continue; /* what it does is said of the stage whose place it takes */
    ir_text_put(out, shown++ ? "; " : " ");
    put_choice(kernel, stage, out);
  }
  if (!shown)
    ir_text_put(out, " interpreted");
  else
    put_estimate(program, kernel, out);
}

/* ---- the first lines ------------------------------------------------------------------------- */
static void put_size(const ir_dim *dim, ir_text *out) {
  if (dim->value >= 0) {
    ir_text_printf(out, "%s = %lld", dim->name, (long long)dim->value);
    return;
  }
  ir_text_printf(out, "%s dyn", dim->name);
  if (dim->bound > 0) ir_text_printf(out, ", at most %lld", (long long)dim->bound);
  if (dim->assumed > 0) ir_text_printf(out, ", taken as %lld", (long long)dim->assumed);
}

static void put_sizes(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  int shown = 0;
  bool open = false;
  for (int i = 0; i < program->dims.count; i++) {
    if (!kernel_uses_dim(kernel, program->dims.at[i])) continue;
    ir_text_put(out, shown++ ? "; " : "  sizes: ");
    put_size(program->dims.at[i], out);
    open = open || program->dims.at[i]->value < 0;
  }
  if (open && program->batch_invariant) ir_text_put(out, "; whatever they are (batch invariance)");
  if (shown) ir_text_put(out, "\n");
}

static bool is_one_density(const ir_candidate *c) {
  return c->density_high <= c->density_low * 1.01;
}

static void put_speed_up(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  pass_summary s = pass_explain_summary(program, kernel);
  if (!s.listed) return;
  const ir_candidate *c = s.first;
  if (is_one_density(c))
    ir_text_printf(out, "  against dense: %.2fx at density %.3g of `%s`\n", s.dense / s.expected,
                   c->density, c->operand->name);
  else
    ir_text_printf(out,
                   "  against dense: %.2fx at density %.3g of `%s`, %.2fx at %.3g, %.2fx at %.3g; "
                   "%.2fx expected\n",
                   s.dense / s.low, c->density_low, c->operand->name, s.dense / s.likely,
                   c->density, s.dense / s.high, c->density_high, s.dense / s.expected);
}

void pass_explain_head(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  pass_explain_line(program, kernel, out);
  ir_text_put(out, "\n");
  put_sizes(program, kernel, out);
  put_speed_up(program, kernel, out);
}
