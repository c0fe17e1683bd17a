/* ways_attend.c - two products with a softmax between them in one kernel, scores and weights on chip (ir/attend.h).
 *
 *     p[b,h,i,j] = sum[d] q*k on j <= i fill -inf        o   attention 128x128: `p`, `a.0`, `a.1` and `a` on the way
 *     a[b,h,i,j] = softmax[j](p)                     ->
 *     o[b,h,i,e] = sum[j] a*v
 *
 * The way stands among those of the last statement; it is compared with what all five take in stages of their own (choose.c). */
#include <math.h>

#include "ir/image.h"
#include "passes/attend.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

/* ---- what it takes ---------------------------------------------------------------------------- */
static bool is_16_bit(ir_dtype t) { return t == IR_BF16 || t == IR_F16; }

static bool is_dense(const ir_tensor *tensor) { return !tensor->like && (!tensor->format || ir_format_is_dense(tensor->format)); }

/* -1: it is known at run time only. */
static int64_t fixed_size(const ir_expr *e) {
  int64_t size;
  return ir_size_known(e, &size) ? size : -1;
}

/* The schedule has something to say about a tensor that would not be there. */
static const char *scheduled(pass_context *context, const ir_kernel *kernel, const ir_attend *t) {
  const ir_stmt *inner[] = {t->scores, t->most, t->total, t->weights};
  for (int i = 0; kernel->schedule && i < kernel->schedule->directives.count; i++)
    for (int n = 0; n < IR_COUNT(inner); n++)
      if (kernel->schedule->directives.at[i].tensor && !strcmp(kernel->schedule->directives.at[i].tensor, inner[n]->target->name))
        return ir_format_text(context->arena, "the schedule speaks of `%s`, which would stay on chip", inner[n]->target->name);
  return NULL;
}

static const char *stored_misfit(pass_context *context, const ir_attend *t) {
  const ir_tensor *all[] = {t->q->tensor, t->k->tensor, t->v->tensor, t->result->target}; /* scores and weights lie nowhere */
  for (int i = 0; i < IR_COUNT(all); i++)
    if (!is_dense(all[i])) return ir_format_text(context->arena, "`%s` is not stored dense", all[i]->name);
  return NULL;
}

static const char *dtype_misfit(pass_context *context, const ir_attend *t) {
  ir_dtype f = t->q->tensor->dtype;
  if (!is_16_bit(f) || t->k->tensor->dtype != f || t->v->tensor->dtype != f)
    return ir_format_text(context->arena, "`%s`, `%s` and `%s` are not all bf16, or all f16", t->q->tensor->name, t->k->tensor->name, t->v->tensor->name);
  ir_dtype o = t->result->target->dtype;
  if (!is_16_bit(o) && o != IR_F32) return "its result is of 16 bits, or f32";
  return t->scores->acc == IR_F64 || t->result->acc == IR_F64 ? "its sums are f32, and the statement's are f64" : NULL;
}

static const char *lies_misfit(pass_context *context, const ir_attend *t) {
  const ir_index *d = ir_flat_last(&t->roles.k), *e = t->column;
  const ir_expr *bad = pass_contiguous_index(t->q, false) != d ? t->q : pass_contiguous_index(t->k, false) != d ? t->k : pass_contiguous_index(t->v, false) != e ? t->v : NULL;
  if (bad)
    return ir_format_text(context->arena, "the elements of %s do not lie side by side in `%s`", bad == t->v ? e->name : d->name, bad->tensor->name);
  if (!pass_result_ends_in(t->result, e)) return ir_format_text(context->arena, "the elements of %s do not lie side by side in the result", e->name);
  return NULL;
}

static const char *head_misfit(pass_context *context, const ir_attend *t, const ir_kernel_row *row) {
  const int64_t most = 256, step = row->align ? 8 : 1;
  const int widest_masked = 128, highest_asked = 128;
  for (int column = 0; column < 2; column++) {
    const char *name = column ? t->column->name : ir_flat_last(&t->roles.k)->name;
    int64_t size = fixed_size(column ? t->column->extent : ir_flat_size(context->arena, &t->roles.k));
    if (size < 0) return ir_format_text(context->arena, "the size of %s is not fixed", name);
    if (size < 1 || size > most) return ir_format_text(context->arena, "%s has %lld elements, and it takes %lld at most", name, (long long)size, (long long)most);
    if (size % step) return pass_alignment_why(context, row);
  }
  int head = (int)fixed_size(ir_flat_size(context->arena, &t->roles.k)), head_v = (int)fixed_size(t->column->extent), bytes, boxes;
  if (!ir_attend_fits(row, head, head_v, t->result->target->dtype, &bytes, &boxes)) return "tiles of so long rows have no room";
  bool narrow = (t->condition && row->n > widest_masked) || (row->m > highest_asked && pass_seen_of(context->arena, t).rest);
  return narrow ? "beside so many sums the condition has no registers" : NULL;
}

/* Where blocks of the condition are asked for once a tile. */
static const char *block_misfit(pass_context *context, const ir_attend *t, const ir_kernel_row *row) {
  bool divides = PASS_ATTEND_BLOCK % row->m == 0 && PASS_ATTEND_BLOCK % row->n == 0;
  return pass_seen_of(context->arena, t).whole && !divides ? "blocks of the condition are no multiples of its tile" : NULL;
}

/* Maps have the first batches of all. */
static const char *batch_misfit(pass_context *context, const ir_attend *t, const ir_kernel_row *row) {
  const ir_expr *operands[] = {t->q, t->k, t->v};
  if (!row->align) return NULL;
  if (t->roles.batch.count > IR_MAP_BATCHES) return ir_format_text(context->arena, "it takes %d batch indices at most", IR_MAP_BATCHES);
  for (int n = 0; n < IR_COUNT(operands); n++) {
    bool ended = false;
    for (int i = 0; i < t->roles.batch.count; i++) {
      bool has = pass_dim_of(operands[n], t->roles.batch.at[i]) >= 0;
      if (has && ended) return ir_format_text(context->arena, "`%s` has other indices of batch than its first ones", operands[n]->tensor->name);
      ended |= !has;
    }
  }
  return NULL;
}

static const char *misfit(pass_context *context, const ir_kernel *kernel, const ir_attend *t, const ir_kernel_row *row) {
  const char *why = stored_misfit(context, t);
  if (!why) why = dtype_misfit(context, t);
  if (!why) why = lies_misfit(context, t);
  if (!why) why = head_misfit(context, t, row);
  if (!why) why = batch_misfit(context, t, row);
  if (!why) why = block_misfit(context, t, row);
  if (!why) why = scheduled(context, kernel, t);
  if (!why && context->program->strict_nan && t->condition) why = "strict NaN: what a row does not see would count where v is not finite";
  if (!why && context->program->batch_invariant && ir_kernel_split(row) > 1) why = "batch invariance: whether rows are shared would be chosen by their number";
  return why ? why : "";
}

/* ---- time --------------------------------------------------------------------------------------- */
static double flat_size(const pass_context *context, const ir_flat *role) {
  double size = 1;
  for (int i = 0; i < role->count; i++) size *= pass_index_assumed(context, role->at[i]);
  return size;
}

/* The launch that asks what is no comparison, pair by pair or block by block, for all batches that differ in it. */
static double notes_cost(pass_context *context, const ir_attend *t) {
  pass_seen seen = pass_seen_of(context->arena, t);
  double planes = 1, pairs = flat_size(context, &t->roles.m) * pass_index_assumed(context, t->roles.n.at[0]);
  if (!seen.noted) return 0;
  for (int i = 0; i < t->roles.batch.count; i++)
    if (ir_expr_depends_on(seen.rest, t->roles.batch.at[i])) planes *= pass_index_assumed(context, t->roles.batch.at[i]);
  double alike = fmin(seen.rest_m ? (double)seen.rest_m : IR_ATTEND_NOTED, IR_ATTEND_NOTED); /* rows that are asked about once */
  double asked = planes * pairs / alike;
  if (!pass_expr_reads_sparse(seen.rest)) return pass_cost_loops(context->profile, asked, 0, planes * pairs / 8);
  double entries = pass_stored_share(context, seen.rest) * pass_index_assumed(context, t->roles.n.at[0]), steps = log2(2 + entries); /* looked for by halves */
  return pass_cost_loops(context->profile, 0, asked * steps, planes * pairs / 8);
}

static double attend_cost(pass_context *context, const ir_attend *t, const ir_kernel_row *row) {
  pass_attention a = {.batch = flat_size(context, &t->roles.batch),
                      .m = flat_size(context, &t->roles.m),
                      .n = flat_size(context, &t->roles.n),
                      .head = flat_size(context, &t->roles.k),
                      .head_v = pass_index_assumed(context, t->column),
                      .share = pass_seen_share(context, t, row->m, row->n)};
  const ir_tensor *all[] = {t->q->tensor, t->k->tensor, t->v->tensor, t->result->target};
  for (int i = 0; i < IR_COUNT(all); i++) a.bytes += pass_tensor_bytes(context, all[i]);
  return pass_cost_attention(context->profile, row, &a) + notes_cost(context, t);
}

/* ---- candidates --------------------------------------------------------------------------------- */
static bool runs(const pass_context *context, const ir_kernel_row *row) {
  const ir_target *target = pass_target_of(context);
  if (!ir_kernel_attends(row)) return false;
  if (row->multiply == IR_MULTIPLY_WGMMA && strcmp(target->name, "sm_90a") != 0) return false;
  return target->arch >= row->least_arch && (!row->most_arch || target->arch <= row->most_arch);
}

static const char *names_of(pass_context *context, const ir_attend *t) {
  return ir_format_text(context->arena, "`%s`, `%s`, `%s`, `%s`", t->scores->target->name, t->most->target->name, t->total->target->name,
                        t->weights->target->name);
}

static void add(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const ir_attend *t, const ir_kernel_row *row) {
  int split = ir_kernel_split(row);
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->label = ir_format_text(context->arena, "attention %dx%d%s%s", row->m, row->n, ir_kernel_moves_boxes(row) ? " boxes" : "",
                                    split > 1 ? ir_format_text(context->arena, ", %s split in %d", t->roles.n.at[0]->name, split) : "");
  candidate->fusion = names_of(context, t);
  candidate->why = misfit(context, kernel, t, row);
  pass_candidate_tile(context, candidate, ir_flat_last(&t->roles.m), row->m);
  pass_candidate_tile(context, candidate, t->roles.n.at[0], row->n);
  candidate->microseconds = candidate->expected = attend_cost(context, t, row);
}

/* It is one but for something that is said. */
static void refuse(pass_context *context, pass_ways *ways, const char *why) {
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->label = "attention in one kernel";
  candidate->why = why;
}

void pass_ways_attend(pass_context *context, const ir_kernel *kernel, pass_ways *all, int count) {
  for (int s = 0; s < count; s++) {
    ir_attend t;
    const char *why;
    if (!ir_attend_of(context->arena, kernel, all[s].stmt, &t, &why)) {
      if (why) refuse(context, &all[s], why);
      continue;
    }
    for (int i = 0; i < ir_kernel_row_count; i++)
      if (runs(context, &ir_kernel_rows[i])) add(context, kernel, &all[s], &t, &ir_kernel_rows[i]);
  }
}

/* ---- the choice --------------------------------------------------------------------------------- */
bool pass_is_attention(const ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_attends(row);
}

/* What a candidate other than attention takes at least. */
static double least(const pass_ways *ways, bool weights) {
  double best = INFINITY;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    if (!*way->candidate->why && !way->struck && !pass_is_attention(way->candidate))
      best = fmin(best, weights ? way->weight : way->candidate->expected);
  }
  return isfinite(best) ? best : 0;
}

void pass_attend_weigh(pass_context *context, const ir_kernel *kernel, pass_ways *all, int count) {
  for (int s = 0; s < count; s++) {
    ir_attend t;
    const char *why;
    double weights = 0;
    if (!ir_attend_of(context->arena, kernel, all[s].stmt, &t, &why)) continue;
    for (int i = 0; i < count; i++)
      if (ir_attend_has(&t, all[i].stmt)) all[s].before += least(&all[i], false), weights += least(&all[i], true);
    for (int i = 0; i < all[s].list.count; i++)
      if (pass_is_attention(all[s].list.at[i].candidate)) all[s].list.at[i].weight -= weights;
  }
}

const char *pass_attend_why(pass_context *context, const pass_ways *ways, const ir_candidate *chosen) {
  return ir_format_text(context->arena, "%s are computed on the way, and never lie in memory: %s, against %s for stages of their own", chosen->fusion,
                        pass_time_text(context->arena, chosen->expected), pass_time_text(context->arena, ways->before + least(ways, false)));
}

void pass_attend_say_noted(pass_context *context, const ir_kernel *kernel, const pass_ways *ways, ir_candidate *chosen) {
  ir_attend t;
  const char *why;
  if (!pass_is_attention(chosen) || !ir_attend_of(context->arena, kernel, ways->stmt, &t, &why)) return;
  pass_seen seen = pass_seen_of(context->arena, &t);
  if (!seen.noted) return;
  ir_text text = ir_text_new(context->arena);
  ir_print_expr(seen.rest, &text);
  chosen->why = ir_format_text(context->arena, "%s; a launch before it asks `%s` of every pair, once: tiles without any are not visited", chosen->why, text.data);
}

bool pass_is_on_chip(pass_context *context, const ir_kernel *kernel, const ir_stmt *stmt) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    const ir_kernel_row *row = ir_kernel_row_named(c->row);
    ir_attend t;
    const char *why;
    if (c->verdict == IR_CHOSEN && row && ir_kernel_attends(row) && ir_attend_of(context->arena, kernel, c->target->def, &t, &why) &&
        ir_attend_has(&t, stmt))
      return true;
  }
  return false;
}
