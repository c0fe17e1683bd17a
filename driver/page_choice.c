/* page_choice.c - stages as steps, and what each statement could have been: candidates with their
 * times as bars, verdicts and reasons. */
#include "driver/page.h"
#include "passes/explain.h"
#include "passes/stage.h"

/* ---- stages ---------------------------------------------------------------------------------- */
static const char *kind_text(const ir_stage *stage) {
  switch (stage->kind) {
  case IR_STAGE_COMPUTE: return "computes";
  case IR_STAGE_DETECT: return "builds a list";
  case IR_STAGE_CONVERT: return "converts";
  case IR_STAGE_GUARD: return "decides";
  }
  return "";
}

static void put_stage(page *p, const ir_stage *stage) {
  bool small = stage->kind != IR_STAGE_COMPUTE;
  ir_text_printf(&p->out, "<li class=\"%s\"><h4><code>",
                 stage->when.list ? "branch"
                 : small          ? "small"
                                  : "main");
  page_put(p, stage->name);
  ir_text_printf(&p->out, "</code> <span class=\"tag\">%s", kind_text(stage));
  if (stage->when.list) {
    page_raw(p, ", only when the cover of <code>");
    page_put(p, stage->when.list->name);
    ir_text_printf(&p->out, "</code> is %s %.3g", stage->when.above ? "at least" : "below",
                   stage->when.threshold);
  }
  page_raw(p, "</span>");
  if (stage->microseconds > 0) {
    page_raw(p, "<span class=\"time\">");
    page_put(p, page_time(p, stage->microseconds));
    page_raw(p, "</span>");
  }
  page_raw(p, "</h4>\n");
  for (int i = 0; i < stage->stmts.count; i++) {
    ir_text text = ir_text_new(p->arena);
    ir_print_stmt(stage->stmts.at[i], &text);
    page_raw(p, "<p><code>");
    page_put(p, text.data);
    page_raw(p, "</code></p>\n");
  }
  page_raw(p, "<p class=\"soft\">");
  page_put(p, !strcmp(stage->row, "loop") ? "generated loops" : stage->row);
  if (stage->why && *stage->why) {
    page_raw(p, " &#8212; ");
    page_put(p, stage->why);
  }
  page_raw(p, "</p></li>\n");
}

/* ---- candidates ------------------------------------------------------------------------------ */
static double time_of(const ir_candidate *c) {
  return c->expected > 0 ? c->expected : c->microseconds;
}

static double longest(const ir_kernel *kernel, const ir_tensor *target) {
  const ir_candidate *chosen = pass_chosen(kernel, target);
  double most = 0, bound = chosen ? 4 * time_of(chosen) : 0;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->target == target && time_of(c) > most) most = time_of(c);
  }
  return bound > 0 && most > bound ? bound : most; /* what is far off fills its cell */
}

static void put_cell_time(page *p, double microseconds) {
  page_raw(p, "<td class=\"num\">");
  page_put(p, microseconds > 0 ? page_time(p, microseconds) : "");
  page_raw(p, "</td>");
}

static void put_candidate(page *p, const ir_candidate *c, double most, bool measured) {
  static const char *const classes[] = {"chosen", "runner", "runner", "rejected"};
  double share = most > 0 ? time_of(c) / most : 0;
  ir_text_printf(&p->out, "<tr class=\"%s\"><td class=\"verdict\">%s</td><td>", classes[c->verdict],
                 pass_explain_verdict(c->verdict));
  page_put(p, c->label);
  page_raw(p, "</td>");
  put_cell_time(p, time_of(c));
  if (measured) put_cell_time(p, c->measured);
  ir_text_printf(&p->out, "<td class=\"bar\">");
  if (share > 0)
    ir_text_printf(&p->out, "<i style=\"width:%.1f%%\"></i>", 100 * (share > 1 ? 1 : share));
  page_raw(p, "</td><td>");
  page_put(p, c->why ? c->why : "");
  page_raw(p, "</td></tr>\n");
}

static bool is_measured(const ir_kernel *kernel, const ir_tensor *target) {
  for (int i = 0; i < kernel->candidates.count; i++)
    if (kernel->candidates.at[i]->target == target && kernel->candidates.at[i]->measured > 0)
      return true;
  return false;
}

static void put_candidates(page *p, const ir_kernel *kernel, const ir_tensor *target) {
  double most = longest(kernel, target);
  bool measured = is_measured(kernel, target);
  page_raw(p, "<h3>Ways to compute <code>");
  page_put(p, target->name);
  page_raw(
      p, "</code></h3>\n<div class=\"scroll\"><table><thead><tr><th scope=\"col\">verdict</th><th "
         "scope=\"col\">candidate</th><th scope=\"col\" class=\"num\">expected</th>");
  if (measured) page_raw(p, "<th scope=\"col\" class=\"num\">measured</th>");
  page_raw(p, "<th scope=\"col\">time, to 4 times the chosen</th><th "
              "scope=\"col\">why</th></tr></thead><tbody>\n");
  for (int verdict = IR_CHOSEN; verdict <= IR_REJECTED; verdict++)
    for (int i = 0; i < kernel->candidates.count; i++) {
      const ir_candidate *c = kernel->candidates.at[i];
      if (c->target == target && (int)c->verdict == verdict) put_candidate(p, c, most, measured);
    }
  page_raw(p, "</tbody></table></div>\n");
}

/* Targets in order of their first candidate, each once. */
static bool is_first(const ir_kernel *kernel, int i) {
  for (int k = 0; k < i; k++)
    if (kernel->candidates.at[k]->target == kernel->candidates.at[i]->target) return false;
  return true;
}

static void put_fact(page *p, const char *value, const char *what) {
  page_raw(p, "<li><b>");
  page_put(p, value);
  page_raw(p, "</b><span>");
  page_put(p, what);
  page_raw(p, "</span></li>\n");
}

static void put_facts(page *p, const ir_kernel *kernel) {
  pass_summary s = pass_explain_summary(p->s->program, kernel);
  page_raw(p, "<ul class=\"facts\">\n");
  if (s.expected > 0) put_fact(p, page_time(p, s.expected), "expected, all stages of a run");
  if (s.once > 0) put_fact(p, page_time(p, s.once), "once, what is packed");
  if (s.dense > 0) put_fact(p, page_time(p, s.dense), "with every choice dense");
  if (s.expected > 0 && s.dense > 0)
    put_fact(p, ir_format_text(p->arena, "%.2f\xc3\x97", s.dense / s.expected), "against dense");
  put_fact(p, ir_format_text(p->arena, "%d", kernel->stages.count), "stages");
  page_raw(p, "</ul>\n");
}

void page_choice(page *p, const ir_kernel *kernel) {
  ir_text line = ir_text_new(p->arena);
  pass_explain_line(p->s->program, kernel, &line);
  page_raw(p, "<p>");
  page_put(p, line.data);
  page_raw(p, "</p>\n");
  put_facts(p, kernel);
  page_raw(p, "<h3>What runs, in order</h3>\n<ol class=\"stages\">\n");
  for (int i = 0; i < kernel->stages.count; i++) put_stage(p, kernel->stages.at[i]);
  page_raw(p, "</ol>\n");
  for (int i = 0; i < kernel->candidates.count; i++)
    if (is_first(kernel, i)) put_candidates(p, kernel, kernel->candidates.at[i]->target);
}
