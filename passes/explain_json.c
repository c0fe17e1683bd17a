/* explain_json.c - the same decisions as one JSON object a kernel: what tools and tests read. */
#include <math.h>

#include "ir/loop.h"
#include "passes/explain.h"

static void key(ir_text *out, const char *name, bool first) {
  if (!first) ir_text_put(out, ",");
  ir_text_json(out, name);
  ir_text_put(out, ":");
}

static void text_field(ir_text *out, const char *name, const char *text, bool first) {
  key(out, name, first);
  if (text)
    ir_text_json(out, text);
  else
    ir_text_put(out, "null");
}

static void number_field(ir_text *out, const char *name, double value) {
  key(out, name, false);
  if (isfinite(value))
    ir_text_printf(out, "%.9g", value);
  else
    ir_text_put(out, "null");
}

static void flag_field(ir_text *out, const char *name, bool value) {
  key(out, name, false);
  ir_text_put(out, value ? "true" : "false");
}

static void tiles_field(ir_text *out, const ir_tile_size *tiles, int count) {
  key(out, "tile", false);
  ir_text_put(out, "{");
  for (int i = 0; i < count; i++) {
    key(out, tiles[i].index->name, i == 0);
    ir_text_printf(out, "%lld", (long long)tiles[i].size);
  }
  ir_text_put(out, "}");
}

static void put_candidate(const ir_candidate *c, ir_text *out) {
  ir_text_put(out, "{");
  text_field(out, "statement", c->target->name, true);
  text_field(out, "label", c->label, false);
  text_field(out, "kernel", c->row, false);
  text_field(out, "formats", c->formats, false);
  text_field(out, "operand", c->operand ? c->operand->name : NULL, false);
  text_field(out, "axis", c->axis ? c->axis->name : NULL, false);
  number_field(out, "strip", (double)c->strip);
  number_field(out, "gran", (double)c->gran);
  tiles_field(out, c->tiles.at, c->tiles.count);
  number_field(out, "density", c->density);
  number_field(out, "cover", c->cover);
  number_field(out, "microseconds", c->microseconds);
  number_field(out, "index_microseconds", c->index_microseconds);
  number_field(out, "expected_microseconds", c->expected);
  number_field(out, "measured_microseconds", c->measured > 0 ? c->measured : NAN);
  text_field(out, "verdict", pass_explain_verdict(c->verdict), false);
  flag_field(out, "guarded", c->guarded);
  if (c->guarded) number_field(out, "break_even_cover", c->break_even);
  text_field(out, "why", c->why, false);
  ir_text_put(out, "}");
}

static void put_list(const ir_list *list, ir_text *out) {
  ir_text_put(out, "{");
  text_field(out, "name", list->name, true);
  text_field(out, "tensor", list->tensor->name, false);
  text_field(out, "axis", list->axis->name, false);
  text_field(out, "strip_index", list->strip_index ? list->strip_index->name : NULL, false);
  number_field(out, "strip", (double)list->strip);
  number_field(out, "gran", (double)list->gran);
  flag_field(out, "fused", list->fused);
  flag_field(out, "guarded", list->verdict != NULL);
  if (list->verdict) number_field(out, "break_even_cover", list->break_even);
  ir_text_put(out, "}");
}

static void put_stage(const ir_stage *stage, ir_text *out) {
  static const char *const kinds[] = {"compute", "detect", "convert", "guard"};
  ir_text_put(out, "{");
  text_field(out, "stage", stage->name, true);
  text_field(out, "kind", kinds[stage->kind], false);
  text_field(out, "kernel", stage->row, false);
  tiles_field(out, stage->tiles.at, stage->tiles.count);
  text_field(out, "reads", stage->reads.count ? stage->reads.at[0]->name : NULL, false);
  text_field(out, "detects", stage->detects ? stage->detects->name : NULL, false);
  text_field(out, "when",
             !stage->when.list   ? "always"
             : stage->when.above ? "dense"
                                 : "sparse",
             false);
  if (stage->when.list) number_field(out, "threshold", stage->when.threshold);
  flag_field(out, "assembled", stage->assembled);
  flag_field(out, "once", stage->once);
  flag_field(out, "kept", stage->kept);
  flag_field(out, "unkept", stage->unkept);
  number_field(out, "microseconds", stage->microseconds);
  text_field(out, "why", stage->why, false);
  ir_text_put(out, "}");
}

static void put_format(const ir_tensor *tensor, ir_text *out) {
  ir_text format = ir_text_new(out->arena);
  if (tensor->format) ir_format_print(tensor->format, &format);
  ir_text_put(out, "{");
  text_field(out, "tensor", tensor->name, true);
  text_field(out, "format", tensor->format ? format.data : NULL, false);
  text_field(out, "like", tensor->like ? tensor->like->name : NULL, false);
  text_field(out, "why", tensor->format_why, false);
  ir_text_put(out, "}");
}

static void put_axes(const ir_stmt *stmt, ir_text *out) {
  ir_text_put(out, "{");
  text_field(out, "statement", stmt->target->name, true);
  text_field(out, "fusion", stmt->fused_why, false);
  key(out, "axes", false);
  ir_text_put(out, "[");
  for (int i = 0; i < stmt->axes.count; i++) {
    ir_text_put(out, i ? ",{" : "{");
    text_field(out, "index", stmt->axes.at[i].index->name, true);
    flag_field(out, "any_order", stmt->axes.at[i].invariant);
    flag_field(out, "reduction", stmt->axes.at[i].reduction);
    text_field(out, "why", stmt->axes.at[i].why, false);
    ir_text_put(out, "}");
  }
  ir_text_put(out, "]}");
}

/* ,"name":[put(item), ...] for every item of a vector of the kernel. */
#define PUT_ARRAY(OUT, NAME, VECTOR, PUT)                                                          \
  do {                                                                                             \
    key((OUT), (NAME), false);                                                                     \
    ir_text_put((OUT), "[");                                                                       \
    for (int item_ = 0; item_ < (VECTOR).count; item_++) {                                         \
      if (item_) ir_text_put((OUT), ",");                                                          \
      PUT((VECTOR).at[item_], (OUT));                                                              \
    }                                                                                              \
    ir_text_put((OUT), "]");                                                                       \
  } while (0)

void pass_explain_json(const ir_program *program, const ir_kernel *kernel, ir_text *out) {
  ir_text_put(out, "{");
  text_field(out, "kernel", kernel->name, true);
  text_field(out, "target", program->target, false);
  pass_summary summary = pass_explain_summary(program, kernel);
  number_field(out, "expected_microseconds", summary.expected);
  number_field(out, "dense_microseconds", summary.dense);
  number_field(out, "once_microseconds", summary.once);
  number_field(out, "low_microseconds", summary.low);
  number_field(out, "likely_microseconds", summary.likely);
  number_field(out, "high_microseconds", summary.high);
  PUT_ARRAY(out, "stages", kernel->stages, put_stage);
  PUT_ARRAY(out, "lists", kernel->lists, put_list);
  PUT_ARRAY(out, "formats", kernel->tensors, put_format);
  PUT_ARRAY(out, "statements", kernel->stmts, put_axes);
  PUT_ARRAY(out, "candidates", kernel->candidates, put_candidate);
  ir_text_put(out, "}");
}
