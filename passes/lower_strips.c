/* lower_strips.c - a product with listed or stored entries over strips of columns, its dense
 * operand packed.
 *
 * A dense operand that is read at the coordinates of entries is read all over. Packed in strips of
 * a few vectors of columns, a strip stays in a core's own cache while rows walk their entries, and
 * its columns are consecutive however the operand lies:
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]      for strip of 64 t x block of o parallel {
 *     W stored, strips of 64 t             for k, t in 64: packed[k][t] = x[t,k]
 *                                          for o in block { for t in 64 { acc = 0
 *                                            for entries p of W's row o { acc += W[p] *
 *                                              packed[k(p)][t] }
 *                                            y[t,o] = acc } } }
 *
 * Who walks a strip has packed it: the strip is in its cache when it begins.  The stage asks for
 * it: a tile of one index of the result, and no list but one over single rows (lower_list.c). */
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/lower.h"

/* Levels of the packed operand: the summed index, the place in the strip. */
static const ir_format *strip_format(lower_state *s, const ir_expr *e, int column_dim) {
  ir_format *format = IR_NEW(s->arena, ir_format);
  ir_level level = {.kind = IR_LEVEL_DENSE, .unique = true};
  *format = (ir_format){.name = "strips", .rank = e->tensor->rank, .level_count = 2};
  format->level[0] = format->level[1] = level;
  format->level[0].dim = 1 - column_dim;
  format->level[1].dim = column_dim;
  format->level[1].map = IR_MAP_MOD;
  format->level[1].factor = s->strips.width;
  return format;
}

/* No strip is narrower than the others, as far as the sizes tell. */
static bool all_are_whole(const lower_strips *strips) {
  const ir_expr *columns = strips->index->extent;
  int64_t known = columns->kind == IR_CONST ? columns->i
                  : columns->kind != IR_DIM ? 1
                  : columns->dim->value >= 0 ? columns->dim->value
                                             : columns->dim->multiple;
  return known % strips->width == 0;
}

static ir_expr *places_of(lower_state *s, ir_expr *first) {
  const lower_strips *strips = &s->strips;
  ir_expr *width = pass_code_int(s, strips->width);
  if (all_are_whole(strips)) return width;
  return pass_code_op(s, IR_OP_MIN, width, pass_code_sub(s, strips->index->extent, first));
}

/* The columns of the strip that is open; the innermost loop of the left side. */
static ir_expr *open_places(lower_state *s, lower_env *env, ir_block **outer) {
  const lower_strips *strips = &s->strips;
  ir_expr *first = pass_code_mul(s, strips->number, pass_code_int(s, strips->width));
  ir_var *place = ir_open_for(&s->b, ir_format_text(s->arena, "%s_in", strips->index->name),
                              pass_code_int(s, 0), places_of(s, first), IR_RUN_SEQUENTIAL, outer);
  ir_expr *rest = pass_code_ref(s, place);
  pass_env_bind(env, strips->index, pass_code_add(s, first, rest));
  lower_bound *bound = pass_env_find(env, strips->index);
  bound->block = strips->number;
  bound->rest = rest;
  bound->factor = strips->width;
  return rest;
}

/* The lines of a strip in a matrix whose rows are consecutive, of a later row: a row's are too far
 * from those of the next one for a core to ask for them by itself.  Rows are often a multiple of a
 * page apart, so that all of a strip's lines share a few sets of the first cache: they wait in the
 * second one.  To pack a row takes no time: what it reads is asked for long before, at a strip's end
 * in the next one. */
enum { ROWS_AHEAD = 8, PACKED_AHEAD = 64, LINE_BYTES = 64 };

/* rows: how many there are, where the next strip follows the last one; NULL: nothing does. */
static void ask_ahead(lower_state *s, ir_buf *buf, ir_expr *row, int64_t ahead, ir_expr *rows) {
  const lower_strips *strips = &s->strips;
  int64_t bytes = (int64_t)ir_dtype_bytes(buf->dtype), line = bytes ? LINE_BYTES / bytes : 1;
  ir_expr *first = pass_code_mul(s, strips->number, pass_code_int(s, strips->width));
  ir_expr *later = pass_code_add(s, row, pass_code_int(s, ahead));
  ir_expr *at = pass_code_add(s, pass_code_mul(s, later, strips->index->extent), first);
  if (rows) {
    ir_expr *inside = pass_code_op(s, IR_OP_LT, later, rows), *width = pass_code_int(s, strips->width);
    ir_expr *back = pass_code_sub(s, width, pass_code_mul(s, rows, strips->index->extent));
    at = pass_code_add(s, at, pass_code_where(s, inside, pass_code_int(s, 0), back));
    at = pass_code_let(s, "ahead", at);
  }
  ir_func_use(s->b.func, buf);
  for (int64_t place = 0; place < strips->width; place += line)
    ir_prefetch(&s->b, buf, pass_code_add(s, at, pass_code_int(s, place)))->early = true;
}

static bool lies_by_rows(const ir_expr *access, const ir_index *columns) {
  const ir_tensor *t = access->tensor;
  bool dense = !t->like && (!t->format || ir_format_is_dense(t->format));
  return dense && t->rank == 2 && pass_contiguous_index(access, false) == columns;
}

static void ask_for_result(lower_state *s, lower_env *env) {
  const ir_stmt *stmt = s->stmt;
  const ir_expr *target = ir_access(s->arena, stmt->target, (ir_expr **)stmt->subs);
  const lower_bound *row = pass_env_find(env, s->strips.rows);
  if (row && lies_by_rows(target, s->strips.index))
    ask_ahead(s, pass_code_buffer(s, stmt->target, IR_BUF_VALS, 0), row->value, ROWS_AHEAD, NULL);
}

void pass_strips_columns(lower_nest *nest, lower_env *env, int n) {
  lower_state *s = nest->s;
  ask_for_result(s, env);
  ir_block *outer;
  lower_env *inner = pass_env_copy(s, env);
  open_places(s, inner, &outer);
  pass_level_resolve(s, inner);
  pass_nest_from(nest, inner, n + 1);
  ir_close(&s->b, outer);
}

/* The strip that is open, before anything walks it.  first: where it begins, in rows. */
static void write_packing(lower_state *s, ir_expr *first) {
  const lower_strips *strips = &s->strips;
  ir_block *depth, *places;
  ir_expr *at = pass_code_ref(s, ir_open_for(&s->b, strips->k->name, pass_code_int(s, 0),
                                             strips->k->extent, IR_RUN_SEQUENTIAL, &depth));
  lower_env *env = pass_env_new(s);
  pass_env_bind(env, strips->k, at);
  if (lies_by_rows(strips->packed, strips->index))
    ask_ahead(s, pass_code_buffer(s, strips->packed->tensor, IR_BUF_VALS, 0), at, PACKED_AHEAD,
              strips->k->extent);
  ir_expr *place = open_places(s, env, &places);
  ir_expr *row = first ? pass_code_add(s, first, at) : at;
  ir_expr *to = pass_code_add(s, pass_code_mul(s, row, pass_code_int(s, strips->width)), place);
  pass_code_store(s, strips->buf, to, pass_value(s, env, strips->packed));
  ir_close(&s->b, places);
  ir_close(&s->b, depth);
}

/* A list of single rows with their values: what is walked in place of stored entries. */
static const ir_list *row_list(const ir_stage *stage) {
  return stage->reads.count == 1 && stage->reads.at[0]->vals ? stage->reads.at[0] : NULL;
}

static const ir_tensor *listed_of(const ir_stage *stage) {
  return row_list(stage) ? row_list(stage)->tensor : NULL;
}

/* The one tile, beside that of a list's strips. */
static const ir_tile_size *strip_tile(const ir_stage *stage) {
  const ir_list *list = row_list(stage);
  const ir_tile_size *found = NULL;
  if (stage->reads.count && !list) return NULL;
  for (int i = 0; i < stage->tiles.count; i++) {
    if (list && stage->tiles.at[i].index == list->strip_index) continue;
    if (found) return NULL;
    found = &stage->tiles.at[i];
  }
  return found;
}

/* Packed by the walk itself, a strip at a time; or all of it, by a stage before. */
static ir_buf *strips_buffer(lower_state *s, const ir_expr *packed, ir_expr *count) {
  if (s->stage->strips) return pass_code_buffer(s, s->stage->strips, IR_BUF_VALS, 0);
  ir_buf *buf = pass_code_workspace(s, ir_format_text(s->arena, "%s.packed", s->stage->name),
                                    pass_value_dtype(s, packed->tensor->dtype), count);
  buf->each = true;
  return buf;
}

bool pass_strips_open(lower_state *s, lower_loops *order) {
  const ir_tile_size *tile = strip_tile(s->stage);
  pass_sum sum;
  pass_strips fit;
  s->strips = (lower_strips){0};
  pass_context_prepare(s->context);
  if (!tile || tile->size < 1 || !pass_sum_of(s->context, s->stmt, &sum) ||
      !pass_strips_fit(&sum, tile->index, listed_of(s->stage), &fit) ||
      pass_access_number(s, fit.packed) < 0)
    return false;
  ir_expr *count = pass_code_mul(s, sum.k->extent, pass_code_int(s, tile->size));
  s->strips = (lower_strips){.index = tile->index,
                             .rows = fit.rows,
                             .k = sum.k,
                             .packed = fit.packed,
                             .column_dim = fit.column_dim,
                             .width = tile->size,
                             .buf = strips_buffer(s, fit.packed, count)};
  pass_loops_edge(order, fit.rows, tile->index);
  return true;
}

/* Strips outside, so that parts which follow each other walk the same one. */
void pass_strips_nest(lower_nest *nest) {
  lower_state *s = nest->s;
  ir_block *part;
  const ir_index *rows = s->strips.rows;
  int number = pass_access_number(s, s->strips.packed);
  ir_expr *strips = ir_ceil_div(s->arena, s->strips.index->extent, s->strips.width);
  ir_expr *step = pass_strips_block(s->context, rows, strips);
  ir_expr *up = pass_code_add(s, rows->extent, pass_code_sub(s, step, pass_code_int(s, 1)));
  ir_expr *blocks = pass_code_op(s, IR_OP_DIV, up, step);
  ir_expr *at =
      pass_code_ref(s, ir_open_for(&s->b, "part", pass_code_int(s, 0),
                                   pass_code_mul(s, strips, blocks), IR_RUN_PARALLEL, &part));
  ir_expr *first = pass_code_let(s, "block", pass_code_op(s, IR_OP_MOD, at, blocks));
  s->strips.number = pass_code_let(s, "strip", pass_code_op(s, IR_OP_DIV, at, blocks));
  s->part_index = rows;
  s->part_lo = pass_code_let(s, "first", pass_code_mul(s, first, step));
  s->part_hi = pass_code_let(
      s, "end", pass_code_op(s, IR_OP_MIN, pass_code_add(s, s->part_lo, step), rows->extent));
  if (!s->stage->strips) write_packing(s, NULL);
  s->accesses.at[number].buf = s->strips.buf;
  s->accesses.at[number].format =
      s->stage->strips ? s->stage->strips->format
                       : strip_format(s, s->strips.packed, s->strips.column_dim);
  nest->parallel = false;
  pass_nest(nest, pass_env_new(s));
  ir_close(&s->b, part);
  s->part_index = NULL;
  s->strips = (lower_strips){0};
}

/* ---- all strips, for who keeps them ---------------------------------------------------------- */
/* W_strips[k,o] = W[k,o], where the copy's levels are o/64, k, o%64: o, and the place of o. */
static bool copies_strips(const lower_state *s, int *column_dim) {
  const ir_format *format = s->stmt->target->format;
  if (!s->stage->kept || s->stage->strips || !format || format->level_count != 3) return false;
  *column_dim = format->level[0].dim;
  return format->level[0].map == IR_MAP_DIV && format->level[2].map == IR_MAP_MOD &&
         s->stmt->value->kind == IR_ACCESS;
}

bool pass_lower_strips(lower_state *s) {
  int column_dim;
  if (!copies_strips(s, &column_dim)) return false;
  const ir_stmt *stmt = s->stmt;
  s->accesses.count = 0;
  pass_access_collect(s, stmt->value);
  pass_code_function(s, NULL);
  s->strips = (lower_strips){.index = stmt->subs[column_dim]->index,
                             .k = stmt->subs[1 - column_dim]->index,
                             .packed = stmt->value,
                             .column_dim = column_dim,
                             .width = stmt->target->format->level[0].factor,
                             .buf = pass_code_buffer(s, stmt->target, IR_BUF_VALS, 0)};
  ir_block *outer;
  ir_expr *count = ir_ceil_div(s->arena, s->strips.index->extent, s->strips.width);
  s->strips.number = pass_code_ref(
      s, ir_open_for(&s->b, "strip", pass_code_int(s, 0), count, IR_RUN_PARALLEL, &outer));
  write_packing(s, pass_code_mul(s, s->strips.number, s->strips.k->extent));
  ir_close(&s->b, outer);
  s->strips = (lower_strips){0};
  return true;
}
