/* print_tile.c - candidates, workspaces, lists and stages as text: the tile dialect.
 *
 * Each is a block of `key value;` lines; a field that has its default is left out. */
#include "ir/print.h"

static void put_text(ir_writer *w, const char *key, const char *text) {
  if (!text) return;
  ir_text_printf(w->out, "    %s ", key);
  ir_put_string(w->out, text);
  ir_text_put(w->out, ";\n");
}

static void put_named(ir_writer *w, const char *key, const char *name) {
  if (!name) return;
  ir_text_printf(w->out, "    %s ", key);
  ir_put_name(w->out, name);
  ir_text_put(w->out, ";\n");
}

static void put_int(ir_writer *w, const char *key, int64_t value, int64_t otherwise) {
  if (value != otherwise) ir_text_printf(w->out, "    %s %lld;\n", key, (long long)value);
}

static void put_double(ir_writer *w, const char *key, double value) {
  if (value == 0) return;
  ir_text_printf(w->out, "    %s ", key);
  ir_put_number(w->out, value);
  ir_text_put(w->out, ";\n");
}

static void put_flag(ir_writer *w, const char *key, bool value) {
  if (value) ir_text_printf(w->out, "    %s;\n", key);
}

static void put_sizes(ir_writer *w, const ir_tile_size *tiles, int count) {
  if (!count) return;
  ir_text_put(w->out, "    tile");
  for (int i = 0; i < count; i++) {
    ir_text_put(w->out, " ");
    ir_put_name(w->out, tiles[i].index->name);
    ir_text_printf(w->out, "=%lld", (long long)tiles[i].size);
  }
  ir_text_put(w->out, ";\n");
}

/* ---- candidates ---------------------------------------------------------------------------- */
static void put_candidate(ir_writer *w, const ir_candidate *c, int number) {
  ir_text_printf(w->out, "  candidate %d", number);
  if (c->target) ir_text_put(w->out, " for ");
  if (c->target) ir_put_name(w->out, c->target->name);
  ir_text_printf(w->out, " %s {\n", ir_words_verdict[c->verdict]);
  put_text(w, "label", c->label);
  put_named(w, "row", c->row);
  put_text(w, "fusion", c->fusion);
  put_text(w, "formats", c->formats);
  put_named(w, "operand", c->operand ? c->operand->name : NULL);
  put_named(w, "axis", c->axis ? c->axis->name : NULL);
  put_named(w, "strip_index", c->strip_index ? c->strip_index->name : NULL);
  put_int(w, "strip", c->strip, 0);
  put_int(w, "gran", c->gran, 0);
  put_sizes(w, c->tiles.at, c->tiles.count);
  put_double(w, "density", c->density);
  put_double(w, "cover", c->cover);
  put_double(w, "microseconds", c->microseconds);
  put_double(w, "index_microseconds", c->index_microseconds);
  put_double(w, "expected", c->expected);
  put_double(w, "density_low", c->density_low);
  put_double(w, "density_high", c->density_high);
  put_double(w, "microseconds_low", c->microseconds_low);
  put_double(w, "microseconds_likely", c->microseconds_likely);
  put_double(w, "microseconds_high", c->microseconds_high);
  put_flag(w, "whole", c->whole);
  put_flag(w, "expanded", c->expanded);
  put_flag(w, "regrouped", c->regrouped);
  put_flag(w, "asked", c->asked);
  put_flag(w, "guarded", c->guarded);
  put_double(w, "break_even", c->break_even);
  put_text(w, "why", c->why);
  ir_text_put(w->out, "  }\n");
}

/* ---- workspaces and lists ------------------------------------------------------------------ */
void ir_put_buf_decl(ir_writer *w, const ir_buf *buf) {
  ir_put_buf(w, buf);
  ir_text_printf(w->out, " : %s[", buf->dtype ? ir_dtype_text(buf->dtype) : "pattern");
  if (buf->count) ir_put_expr(w, buf->count);
  ir_text_printf(w->out, "] %s", ir_words_buf[buf->kind]);
  if (buf->tensor) {
    ir_text_put(w->out, " of ");
    ir_put_name(w->out, buf->tensor->name);
  }
  if (buf->level) ir_text_printf(w->out, " level %d", buf->level);
  if (buf->zeroed) ir_text_put(w->out, " zeroed");
  if (buf->each) ir_text_put(w->out, " each");
  if (buf->first != -1 || buf->last != -1)
    ir_text_printf(w->out, " life %d..%d", buf->first, buf->last);
}

static void put_workspace(ir_writer *w, const ir_buf *buf) {
  ir_text_put(w->out, "  buf ");
  ir_put_buf_decl(w, buf);
  ir_text_put(w->out, ";\n");
}

static void put_buf_field(ir_writer *w, const char *key, const ir_buf *buf) {
  if (!buf) return;
  ir_text_printf(w->out, "    %s ", key);
  ir_put_buf(w, buf);
  ir_text_put(w->out, ";\n");
}

static void put_size(ir_writer *w, const char *key, const ir_expr *e) {
  if (!e) return;
  ir_text_printf(w->out, "    %s ", key);
  ir_put_expr(w, e);
  ir_text_put(w->out, ";\n");
}

static void put_list(ir_writer *w, const ir_list *list) {
  ir_text_put(w->out, "  list ");
  ir_put_name(w->out, list->name);
  ir_text_put(w->out, " {\n");
  put_named(w, "tensor", list->tensor ? list->tensor->name : NULL);
  put_named(w, "strip_index", list->strip_index ? list->strip_index->name : NULL);
  put_named(w, "axis", list->axis ? list->axis->name : NULL);
  put_int(w, "strip_dim", list->strip_dim, INT64_MIN);
  put_int(w, "axis_dim", list->axis_dim, INT64_MIN);
  put_int(w, "strip", list->strip, 0);
  put_int(w, "gran", list->gran, 0);
  put_int(w, "section", list->section, 0);
  put_size(w, "strips", list->strips);
  put_size(w, "capacity", list->capacity);
  put_buf_field(w, "counts", list->counts);
  put_buf_field(w, "ids", list->ids);
  put_buf_field(w, "bits", list->bits);
  put_buf_field(w, "starts", list->starts);
  put_buf_field(w, "vals", list->vals);
  put_buf_field(w, "marks", list->marks);
  put_buf_field(w, "order", list->order);
  put_buf_field(w, "packed", list->packed);
  put_buf_field(w, "partial", list->partial);
  put_buf_field(w, "sums", list->sums);
  put_buf_field(w, "arrived", list->arrived);
  put_buf_field(w, "verdict", list->verdict);
  put_buf_field(w, "threshold", list->threshold);
  put_buf_field(w, "front", list->front);
  put_named(w, "replaces", list->replaces ? list->replaces->name : NULL);
  put_double(w, "break_even", list->break_even);
  put_int(w, "most", list->most, 0);
  put_flag(w, "pairs", list->pairs);
  put_flag(w, "fused", list->fused);
  ir_text_put(w->out, "  }\n");
}

/* ---- stages -------------------------------------------------------------------------------- */
static void put_names(ir_writer *w, const char *key, const char *const *names, int count) {
  for (int i = 0; i < count; i++) {
    ir_text_printf(w->out, i ? ", " : "    %s ", key);
    ir_put_name(w->out, names[i]);
  }
  if (count) ir_text_put(w->out, ";\n");
}

static void put_stage_names(ir_writer *w, const ir_stage *s) {
  ir_arena *arena = w->out->arena;
  const char **names = IR_NEW_ARRAY(arena, const char *, s->stmts.count + s->reads.count + s->beside.count + 1);
  for (int i = 0; i < s->stmts.count; i++) names[i] = s->stmts.at[i]->target->name;
  put_names(w, "computes", names, s->stmts.count);
  for (int i = 0; i < s->reads.count; i++) names[i] = s->reads.at[i]->name;
  put_names(w, "reads", names, s->reads.count);
  for (int i = 0; i < s->beside.count; i++) names[i] = s->beside.at[i]->name;
  put_names(w, "beside", names, s->beside.count);
}

static void put_guard(ir_writer *w, const ir_guard *guard) {
  if (!guard->list) return;
  ir_text_put(w->out, "    when ");
  ir_put_name(w->out, guard->list->name);
  ir_text_put(w->out, guard->above ? " above " : " below ");
  ir_put_number(w->out, guard->threshold);
  ir_text_put(w->out, ";\n");
}

static void put_runners_up(ir_writer *w, const ir_stage *s, const ir_map *places) {
  int shown = 0;
  for (int i = 0; i < s->runners_up.count; i++) {
    int n = ir_map_find(places, s->runners_up.at[i], -1);
    if (n >= 0) ir_text_printf(w->out, shown++ ? ", %d" : "    runners_up %d", n);
  }
  if (shown) ir_text_put(w->out, ";\n");
}

static void put_stage_funcs(ir_writer *w, const ir_stage *s) {
  const char **names = IR_NEW_ARRAY(w->out->arena, const char *, s->funcs.count + 1);
  for (int i = 0; i < s->funcs.count; i++) names[i] = s->funcs.at[i]->name;
  put_names(w, "funcs", names, s->funcs.count);
}

/* places: of candidates in the kernel's table */
static void put_stage(ir_writer *w, const ir_stage *s, const ir_map *places) {
  ir_text_printf(w->out, "  stage %d ", s->number);
  ir_put_name(w->out, s->name);
  ir_text_printf(w->out, " %s {\n", ir_words_stage[s->kind]);
  put_named(w, "row", s->row);
  put_sizes(w, s->tiles.at, s->tiles.count);
  put_stage_names(w, s);
  put_named(w, "detects", s->detects ? s->detects->name : NULL);
  put_named(w, "source", s->source ? s->source->name : NULL);
  put_named(w, "dest", s->dest ? s->dest->name : NULL);
  put_named(w, "strips", s->strips ? s->strips->name : NULL);
  put_named(w, "full", s->full ? s->full->name : NULL);
  put_guard(w, &s->when);
  put_flag(w, "whole", s->whole);
  put_flag(w, "assembled", s->assembled);
  put_flag(w, "once", s->once);
  put_flag(w, "kept", s->kept);
  put_flag(w, "unkept", s->unkept);
  put_int(w, "stages_deep", s->stages_deep, 0);
  put_int(w, "warps", s->warps, 0);
  put_double(w, "microseconds", s->microseconds);
  put_runners_up(w, s, places);
  put_stage_funcs(w, s);
  put_text(w, "why", s->why);
  ir_text_put(w->out, "  }\n");
}

void ir_put_tile(ir_writer *w) {
  const ir_kernel *kernel = w->kernel;
  ir_map places = {0};
  for (int i = 0; i < kernel->candidates.count; i++) {
    put_candidate(w, kernel->candidates.at[i], i);
    ir_map_set(w->out->arena, &places, kernel->candidates.at[i], i);
  }
  for (int i = 0; i < kernel->workspaces.count; i++) put_workspace(w, kernel->workspaces.at[i]);
  for (int i = 0; i < kernel->lists.count; i++) put_list(w, kernel->lists.at[i]);
  for (int i = 0; i < kernel->stages.count; i++) put_stage(w, kernel->stages.at[i], &places);
}
