/* lower_strips.c - a product with stored entries over strips of columns, its dense operand packed.
 *
 * A dense operand that is read at the coordinates of stored entries is read all over. Packed in
 * strips of a few vectors of columns, a strip stays in a core's own cache while a block of rows
 * walks its entries, and its columns are consecutive however the operand lies:
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]      for strip, k, t in 64:  packed[strip][k][t] = x[t,k]
 *     W stored, strips of 64 t           for block of o parallel { for strip { for o in block {
 *                                          for t in 64 { acc = 0
 *                                            for entries p of W's row o { acc += W[p] *
 *                                              packed[strip][k(p)][t] }
 *                                            y[t,o] = acc } } } }
 *
 * The stage asks for it: a tile of one index of the result, and no list. */
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/lower.h"

/* Levels of the packed operand: its strip, the summed index, the place in the strip. */
static const ir_format *strip_format(lower_state *s, const ir_expr *e, int column_dim) {
  ir_format *format = IR_NEW(s->arena, ir_format);
  ir_level level = {.kind = IR_LEVEL_DENSE, .unique = true};
  *format = (ir_format){.name = "strips", .rank = e->tensor->rank, .level_count = 3};
  for (int l = 0; l < 3; l++) format->level[l] = level;
  format->level[0].dim = format->level[2].dim = column_dim;
  format->level[1].dim = 1 - column_dim;
  format->level[0].map = IR_MAP_DIV;
  format->level[2].map = IR_MAP_MOD;
  format->level[0].factor = format->level[2].factor = s->strips.width;
  return format;
}

/* The columns of the strip that is open; the innermost loop of the left side. */
static ir_expr *open_places(lower_state *s, lower_env *env, ir_block **outer) {
  const lower_strips *strips = &s->strips;
  ir_expr *first = pass_code_mul(s, strips->number, pass_code_int(s, strips->width));
  ir_expr *room = pass_code_sub(s, strips->index->extent, first);
  ir_var *place = ir_open_for(
      &s->b, ir_format_text(s->arena, "%s_in", strips->index->name), pass_code_int(s, 0),
      pass_code_op(s, IR_OP_MIN, pass_code_int(s, strips->width), room), IR_RUN_SEQUENTIAL, outer);
  ir_expr *rest = pass_code_ref(s, place);
  pass_env_bind(env, strips->index, pass_code_add(s, first, rest));
  lower_bound *bound = pass_env_find(env, strips->index);
  bound->block = strips->number;
  bound->rest = rest;
  bound->factor = strips->width;
  return rest;
}

void pass_strips_columns(lower_nest *nest, lower_env *env, int n) {
  lower_state *s = nest->s;
  ir_block *outer;
  lower_env *inner = pass_env_copy(s, env);
  open_places(s, inner, &outer);
  pass_level_resolve(s, inner);
  pass_nest_from(nest, inner, n + 1);
  ir_close(&s->b, outer);
}

/* The function that packs, before the one that computes. */
static void write_packing(lower_state *s, const ir_expr *e, const ir_index *k, ir_buf *buf) {
  ir_block *strip, *depth, *places;
  pass_code_function(s, "pack");
  ir_expr *strips = ir_ceil_div(s->arena, s->strips.index->extent, s->strips.width);
  s->strips.number = pass_code_ref(
      s, ir_open_for(&s->b, "strip", pass_code_int(s, 0), strips, IR_RUN_PARALLEL, &strip));
  ir_expr *at = pass_code_ref(
      s, ir_open_for(&s->b, k->name, pass_code_int(s, 0), k->extent, IR_RUN_SEQUENTIAL, &depth));
  lower_env *env = pass_env_new(s);
  pass_env_bind(env, k, at);
  ir_expr *place = open_places(s, env, &places);
  ir_expr *row = pass_code_add(s, pass_code_mul(s, s->strips.number, k->extent), at);
  ir_expr *to = pass_code_add(s, pass_code_mul(s, row, pass_code_int(s, s->strips.width)), place);
  pass_code_store(s, buf, to, pass_value(s, env, e));
  ir_close(&s->b, places);
  ir_close(&s->b, depth);
  ir_close(&s->b, strip);
}

static const ir_tile_size *strip_tile(const ir_stage *stage) {
  return stage->tiles.count == 1 && !stage->reads.count ? &stage->tiles.at[0] : NULL;
}

bool pass_strips_open(lower_state *s, lower_loops *order) {
  const ir_tile_size *tile = strip_tile(s->stage);
  pass_sum sum;
  pass_strips fit;
  s->strips = (lower_strips){0};
  pass_context_prepare(s->context);
  if (!tile || tile->size < 1 || !pass_sum_of(s->context, s->stmt, &sum) ||
      !pass_strips_fit(&sum, tile->index, &fit))
    return false;
  const ir_expr *e = fit.packed;
  int number = pass_access_number(s, e);
  if (number < 0) return false;
  s->strips = (lower_strips){.index = tile->index, .rows = fit.rows, .width = tile->size};
  ir_expr *strips = ir_ceil_div(s->arena, tile->index->extent, tile->size);
  ir_expr *count =
      pass_code_mul(s, pass_code_mul(s, strips, sum.k->extent), pass_code_int(s, tile->size));
  ir_buf *buf = pass_code_workspace(s, ir_format_text(s->arena, "%s.packed", s->stage->name),
                                    pass_value_dtype(s, e->tensor->dtype), count);
  write_packing(s, e, sum.k, buf);
  s->accesses.at[number].buf = buf;
  s->accesses.at[number].format = strip_format(s, e, fit.column_dim);
  pass_loops_edge(order, fit.rows, tile->index);
  return true;
}

void pass_strips_nest(lower_nest *nest) {
  lower_state *s = nest->s;
  ir_block *block, *strip;
  const ir_index *rows = s->strips.rows;
  ir_expr *step = pass_strips_block(s->context, rows);
  ir_expr *first =
      pass_code_ref(s, ir_open_for(&s->b, ir_format_text(s->arena, "block_%s", rows->name),
                                   pass_code_int(s, 0), rows->extent, IR_RUN_PARALLEL, &block));
  block->codes.at[block->codes.count - 1]->step = step;
  s->part_index = rows;
  s->part_lo = first;
  s->part_hi = pass_code_op(s, IR_OP_MIN, pass_code_add(s, first, step), rows->extent);
  ir_expr *strips = ir_ceil_div(s->arena, s->strips.index->extent, s->strips.width);
  s->strips.number = pass_code_ref(
      s, ir_open_for(&s->b, "strip", pass_code_int(s, 0), strips, IR_RUN_SEQUENTIAL, &strip));
  nest->parallel = false;
  pass_nest(nest, pass_env_new(s));
  ir_close(&s->b, strip);
  ir_close(&s->b, block);
  s->part_index = NULL;
  s->strips = (lower_strips){0};
}
