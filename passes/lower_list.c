/* lower_list.c - index lists on the CPU: detection from values, and the density guard.
 *
 *     detect   for strip parallel { flags = 0; for t, f { flags[f/gran] |= h[t,f] != 0 }; pack them
 * } for row parallel { for f { if h[t,f] != 0 { append f and h[t,f] } } }    single rows guard
 * verdict = sum(counts) / (strips * capacity) >= threshold; of an operand that is stored sparse what it stores is counted
 *
 * The flags of a strip are kept where its ids go: packing moves entries to the left only. */
#include "passes/lower.h"

/* ---- detection ------------------------------------------------------------------------------- */
typedef struct detection {
  const ir_list *list;
  ir_expr *strip, *base; /* number of the strip, start of its ids */
  ir_index *dim[IR_MAX_RANK];
  const ir_expr *access;
} detection;

static void flag_leaf(lower_state *s, lower_env *env, const detection *d) {
  const ir_list *list = d->list;
  ir_expr *value = pass_value(s, env, d->access);
  ir_expr *is_set = pass_code_cast(s, IR_I32, pass_code_cast(s, IR_B1, value));
  ir_expr *at = pass_env_find(env, d->dim[list->axis_dim])->value;
  ir_expr *tile = pass_code_op(s, IR_OP_DIV, at, pass_code_int(s, list->gran));
  pass_code_store(s, list->ids, pass_code_add(s, d->base, tile), is_set)->combine = IR_OP_MAX;
}

/* Loops over the tensor in the order it is stored, the strip's dimension cut to the strip. */
static void flag_loops(lower_state *s, lower_env *env, const detection *d, int level) {
  const ir_format *format = pass_level_format(s, d->list->tensor);
  while (level < format->level_count && format->level[level].map == IR_MAP_MOD) level++;
  if (level == format->level_count) {
    pass_level_resolve(s, env);
    flag_leaf(s, env, d);
    return;
  }
  int dim = format->level[level].dim;
  const ir_index *index = d->dim[dim];
  ir_expr *lo = pass_code_int(s, 0), *hi = index->extent;
  if (dim == d->list->strip_dim) {
    lo = pass_code_mul(s, d->strip, pass_code_int(s, d->list->strip));
    hi = pass_code_op(s, IR_OP_MIN, pass_code_add(s, lo, pass_code_int(s, d->list->strip)), hi);
  }
  ir_block *outer;
  ir_var *var = ir_open_for(&s->b, index->name, lo, hi, IR_RUN_SEQUENTIAL, &outer);
  lower_env *inner = pass_env_copy(s, env);
  pass_env_bind(inner, index, pass_code_ref(s, var));
  flag_loops(s, inner, d, level + 1);
  ir_close(&s->b, outer);
}

static void pack_flags(lower_state *s, const detection *d) {
  const ir_list *list = d->list;
  ir_var *count = ir_let(&s->b, "count", IR_I64, pass_code_int(s, 0));
  ir_block *loop, *branch;
  ir_expr *tile = pass_code_ref(
      s, ir_open_for(&s->b, "tile", pass_code_int(s, 0), list->capacity, IR_RUN_SEQUENTIAL, &loop));
  ir_expr *flag = pass_code_load_int(s, list->ids, pass_code_add(s, d->base, tile), NULL);
  ir_open_if(&s->b, pass_code_op(s, IR_OP_NE, flag, pass_code_int(s, 0)), &branch);
  pass_code_store(s, list->ids, pass_code_add(s, d->base, pass_code_ref(s, count)), tile);
  ir_set(&s->b, count, pass_code_add(s, pass_code_ref(s, count), pass_code_int(s, 1)));
  ir_close(&s->b, branch);
  ir_close(&s->b, loop);
  pass_code_store(s, list->counts, d->strip, pass_code_ref(s, count));
}

static void open_dimensions(lower_state *s, detection *d) {
  ir_tensor *tensor = d->list->tensor;
  ir_expr *subs[IR_MAX_RANK];
  for (int i = 0; i < tensor->rank; i++) {
    ir_index *index = IR_NEW(s->arena, ir_index);
    const char *name = i == d->list->axis_dim && d->list->axis ? d->list->axis->name
                       : i == d->list->strip_dim && d->list->strip_index
                           ? d->list->strip_index->name
                           : ir_format_text(s->arena, "i%d", i);
    *index = (ir_index){.name = name, .extent = tensor->dim[i]};
    d->dim[i] = index;
    subs[i] = ir_index_ref(s->arena, index);
  }
  d->access = ir_access(s->arena, tensor, subs);
  s->accesses.count = 0;
  pass_access_collect(s, d->access);
}

/* An element that is not zero goes where the last one ended. */
static void compress_row(lower_state *s, const detection *d, ir_expr *row, ir_var *end) {
  const ir_list *list = d->list;
  ir_block *loop, *branch;
  ir_expr *start = pass_code_let(s, "start", pass_code_ref(s, end)), *to = pass_code_ref(s, end);
  ir_expr *f =
      pass_code_ref(s, ir_open_for(&s->b, d->dim[list->axis_dim]->name, pass_code_int(s, 0),
                                   list->capacity, IR_RUN_SEQUENTIAL, &loop));
  lower_env *env = pass_env_new(s);
  pass_env_bind(env, d->dim[list->strip_dim], row);
  pass_env_bind(env, d->dim[list->axis_dim], f);
  pass_level_resolve(s, env);
  ir_buf *vals = pass_code_buffer(s, list->tensor, IR_BUF_VALS, 0);
  ir_expr *value = pass_code_let(s, "value", pass_code_load(s, vals, env->cursor[0].pos, NULL));
  ir_open_if(&s->b, pass_code_cast(s, IR_B1, value), &branch);
  pass_code_store(s, list->ids, to, pass_code_cast(s, IR_I32, f));
  pass_code_store(s, list->vals, to, value);
  ir_set(&s->b, end, pass_code_add(s, to, pass_code_int(s, 1)));
  ir_close(&s->b, branch);
  ir_close(&s->b, loop);
  pass_code_store(s, list->starts, row, start);
  pass_code_store(s, list->counts, row, pass_code_cast(s, IR_I32, pass_code_sub(s, to, start)));
}

/* A group of rows one after the other: a few pages instead of one or more a row. */
static void compress_group(lower_state *s, const detection *d) {
  const ir_list *list = d->list;
  ir_block *rows;
  ir_expr *first = pass_code_mul(s, d->strip, pass_code_int(s, IR_LIST_GROUP));
  ir_expr *last = pass_code_add(s, first, pass_code_int(s, IR_LIST_GROUP));
  ir_var *end = ir_let(&s->b, "end", IR_I64, pass_code_mul(s, first, list->capacity));
  ir_var *row = ir_open_for(&s->b, "row", first, pass_code_op(s, IR_OP_MIN, last, list->strips),
                            IR_RUN_SEQUENTIAL, &rows);
  compress_row(s, d, pass_code_ref(s, row), end);
  ir_close(&s->b, rows);
}

/* Which micro-tiles of the strip hold something, then their numbers. */
static void list_strip(lower_state *s, const detection *d) {
  const ir_list *list = d->list;
  ir_block *clear;
  ir_var *tile =
      ir_open_for(&s->b, "tile", pass_code_int(s, 0), list->capacity, IR_RUN_SEQUENTIAL, &clear);
  pass_code_store(s, list->ids, pass_code_add(s, d->base, pass_code_ref(s, tile)),
                  pass_code_int(s, 0));
  ir_close(&s->b, clear);
  flag_loops(s, pass_env_new(s), d, 0);
  pack_flags(s, d);
}

void pass_lower_detect(lower_state *s) {
  detection d = {.list = s->stage->detects};
  const ir_list *list = d.list;
  open_dimensions(s, &d);
  pass_code_function(s, NULL);
  ir_comment(&s->b, "%s: non-zeros of %s, tiles of %lld along axis %d in strips of %lld",
             list->name, list->tensor->name, (long long)list->gran, list->axis_dim,
             (long long)list->strip);
  ir_block *strips;
  ir_expr *count = list->vals ? ir_ceil_div(s->arena, list->strips, IR_LIST_GROUP) : list->strips;
  d.strip = pass_code_ref(s, ir_open_for(&s->b, list->vals ? "group" : "strip", pass_code_int(s, 0),
                                         count, IR_RUN_PARALLEL, &strips));
  d.base = pass_code_mul(s, d.strip, list->capacity);
  if (list->vals)
    compress_group(s, &d);
  else
    list_strip(s, &d);
  ir_close(&s->b, strips);
}

/* ---- the guard ------------------------------------------------------------------------------- */
static ir_expr *counted(lower_state *s, const ir_list *list) {
  ir_var *total = ir_let(&s->b, "total", IR_I64, pass_code_int(s, 0));
  ir_block *outer;
  ir_var *strip =
      ir_open_for(&s->b, "strip", pass_code_int(s, 0), list->strips, IR_RUN_SEQUENTIAL, &outer);
  ir_expr *count = pass_code_load_int(s, list->counts, pass_code_ref(s, strip), NULL);
  ir_set(&s->b, total, pass_code_add(s, pass_code_ref(s, total), count));
  ir_close(&s->b, outer);
  return pass_code_ref(s, total);
}

/* With its cover where nothing else tells it: 1 + the cover in 65536ths, negative where entries are walked. */
static void store_verdict(lower_state *s, const ir_list *list, ir_expr *cover, ir_expr *dense) {
  const double parts = 65536;
  if (list->counts) {
    pass_code_store(s, list->verdict, pass_code_int(s, 0), pass_code_cast(s, IR_I32, dense));
    return;
  }
  ir_expr *most = pass_value_const(s, IR_F64, 1);
  ir_expr *share = pass_code_op(s, IR_OP_MUL, pass_code_op(s, IR_OP_MIN, cover, most), pass_value_const(s, IR_F64, parts));
  ir_expr *told = pass_code_let(s, "told", pass_code_add(s, pass_code_cast(s, IR_I64, share), pass_code_int(s, 1)));
  ir_expr *signed_told = pass_code_where(s, dense, told, pass_code_sub(s, pass_code_int(s, 0), told));
  pass_code_store(s, list->verdict, pass_code_int(s, 0), pass_code_cast(s, IR_I32, signed_told));
}

void pass_lower_guard(lower_state *s) {
  const ir_list *list = s->stage->reads.at[0];
  pass_code_function(s, NULL);
  ir_comment(&s->b, "cover of %s against its break-even: %s is dense", list->name, list->counts ? "1" : "above 0");
  ir_expr *total = list->counts ? counted(s, list) : pass_code_let(s, "stored", pass_level_stored(s, list->tensor));
  ir_expr *elements = pass_code_mul(s, list->strips, list->capacity);
  ir_expr *all = pass_code_op(s, IR_OP_MAX, elements, pass_code_int(s, 1));
  ir_expr *cover = pass_code_op(s, IR_OP_DIV, pass_code_cast(s, IR_F64, total), pass_code_cast(s, IR_F64, all));
  ir_expr *limit = pass_code_load(s, list->threshold, pass_code_int(s, 0), NULL);
  ir_expr *dense = pass_code_op(s, IR_OP_GE, cover, pass_code_cast(s, IR_F64, limit));
  if (list->most) dense = pass_code_and(s, dense, pass_code_op(s, IR_OP_LE, elements, pass_code_int(s, list->most)));
  store_verdict(s, list, cover, dense);
}
