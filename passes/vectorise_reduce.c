/* vectorise_reduce.c - a loop that accumulates, with a vector of partial results.
 *
 *     for k { acc = acc + f(k) }      part = splat(0); for k step 16 { part = part + f(k .. k+16) }
 *                                     (the rest under a mask);  acc = acc + sum of part's lanes
 *
 * The order of additions differs from the loop's, but is fixed: lanes, then a tree. */
#include "passes/vectorise.h"

static ir_reducer reducer_of(ir_op op) {
  for (int r = 0; r < IR_RED_COUNT; r++)
    if (ir_reducer_rows[r].combine == op) return (ir_reducer)r;
  return IR_RED_COUNT;
}

static bool is_outer(const vec_region *g, const ir_var *var) {
  const vec_local *l = pass_vec_local(g, var);
  return l && l->set && !l->inside;
}

static bool uses_outer(const vec_region *g, const ir_expr *e) {
  if (e->kind == IR_VAR && is_outer(g, e->var)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (uses_outer(g, e->args[i])) return true;
  return false;
}

/* var = op(var, f) or op(f, var), f free of accumulators */
static bool accumulates(const vec_region *g, const ir_code *set) {
  const ir_expr *e = set->value;
  if (e->kind != IR_OP || e->arg_count != 2 || reducer_of(e->op) == IR_RED_COUNT) return false;
  for (int i = 0; i < 2; i++)
    if (e->args[i]->kind == IR_VAR && e->args[i]->var == set->var)
      return !uses_outer(g, e->args[1 - i]);
  return false;
}

static bool only_accumulates(const vec_region *g, const ir_block *block, int *sets) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_FOR || code->kind == IR_STORE) return false;
    if (code->cond && uses_outer(g, code->cond)) return false;
    if (code->kind == IR_SET && is_outer(g, code->var)) {
      ++*sets;
      if (!accumulates(g, code)) return false;
    } else if (code->value && uses_outer(g, code->value)) {
      return false;
    }
    if (!only_accumulates(g, &code->body, sets) || !only_accumulates(g, &code->orelse, sets))
      return false;
  }
  return true;
}

/* The ops of one accumulator must agree: a sum and a maximum cannot share partial results. */
static bool one_op_each(const vec_region *g, const ir_block *block, const ir_var *var, ir_op *op) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_SET && code->var == var) {
      if (*op != IR_OP_COUNT && *op != code->value->op) return false;
      *op = code->value->op;
    }
    if (!one_op_each(g, &code->body, var, op) || !one_op_each(g, &code->orelse, var, op))
      return false;
  }
  return true;
}

/* An accumulator has a partial result a lane, even where all that it adds up is the same for all
 * columns. */
static void parts_vary(const vec_region *g) {
  for (int i = 0; i < g->capacity; i++)
    if (g->table[i].var && is_outer(g, g->table[i].var)) g->table[i].deps |= VEC_COL;
}

bool pass_vec_reducible(const vec_region *g, const ir_code *loop) {
  int sets = 0;
  if (loop->step && (loop->step->kind != IR_CONST || loop->step->i != 1)) return false;
  if (!only_accumulates(g, &loop->body, &sets) || !sets ||
      !pass_vec_legal(g, &loop->body, true, true))
    return false;
  for (int i = 0; i < g->capacity; i++) {
    ir_op op = IR_OP_COUNT;
    if (!g->table[i].var || !is_outer(g, g->table[i].var)) continue;
    if (!one_op_each(g, &loop->body, g->table[i].var, &op) || reducer_of(op) == IR_RED_COUNT)
      return false;
  }
  parts_vary(g);
  return true;
}

/* ---- writing it ------------------------------------------------------------------------------ */
typedef struct partial {
  const ir_var *var;
  ir_op op;
  ir_var *part[8];
} partial;

enum { MOST_AHEAD = 4 };

typedef struct reduction {
  ir_builder *b;
  const vec_region *g;
  const ir_code *loop;
  int lanes, copies;
  ir_expr *lo, *hi;
  IR_VEC(partial) partials;
  bool gathers;
  int ahead_count;
  ir_buf *ahead[MOST_AHEAD]; /* arrays that are read as they lie */
} reduction;

static ir_expr *identity(ir_arena *a, ir_op op, ir_dtype t, int lanes) {
  ir_reducer r = reducer_of(op);
  ir_expr *e = ir_dtype_is_float(t) ? ir_const_f(a, t, ir_reducer_identity(r, t))
                                    : ir_const_i(a, t, ir_reducer_identity_int(r, t));
  return ir_splat(a, e, lanes);
}

static bool has_partial(const reduction *r, const ir_var *var) {
  for (int i = 0; i < r->partials.count; i++)
    if (r->partials.at[i].var == var) return true;
  return false;
}

/* In order of the statements, so that the text does not depend on addresses. */
static void open_partials(reduction *r, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_SET && is_outer(r->g, code->var) && !has_partial(r, code->var)) {
      partial p = {.var = code->var, .op = code->value->op};
      for (int u = 0; u < r->copies; u++)
        p.part[u] = pass_vec_let(r->b, "part", code->var->dtype, r->lanes,
                                 identity(r->b->arena, p.op, code->var->dtype, r->lanes));
      IR_PUSH(r->b->arena, &r->partials, p);
    }
    open_partials(r, &code->body);
    open_partials(r, &code->orelse);
  }
}

/* ---- reading ahead ----------------------------------------------------------------------------
 */
enum { AHEAD_BYTES = 2048, LINE_BYTES = 64, MOST_AT_ONCE = 32 /* rows are often short */ };

static void each_load(reduction *r, const ir_expr *e) {
  int64_t stride;
  if (e->kind == IR_LOAD && e->buf->kind != IR_BUF_LOCAL) {
    const ir_expr *at = e->args[0];
    bool listed = at->kind == IR_VAR && at->var == r->loop->var;
    if (!pass_vec_stride(r->g, at, &stride)) r->gathers = true;
    for (int i = 0; i < r->ahead_count; i++) listed = listed && r->ahead[i] != e->buf;
    if (listed && r->ahead_count < MOST_AHEAD) r->ahead[r->ahead_count++] = e->buf;
  }
  for (int i = 0; i < e->arg_count; i++) each_load(r, e->args[i]);
}

/* Stored entries and what lies at their coordinates: arrays that are read as they lie are fetched
 * some lines ahead, also behind the end of a row, where the next one begins.  Waiting for the
 * places that coordinates name, a core asks for too little else by itself. */
static void find_ahead(reduction *r) {
  for (int i = 0; i < r->loop->body.codes.count; i++)
    if (r->loop->body.codes.at[i]->value) each_load(r, r->loop->body.codes.at[i]->value);
  if (!r->gathers) r->ahead_count = 0;
}

/* The lines that `elements` elements from `at` on will be followed by. */
static void fetch_ahead(reduction *r, ir_expr *at, int64_t elements) {
  ir_arena *a = r->b->arena;
  for (int i = 0; i < r->ahead_count; i++) {
    int64_t bytes = (int64_t)ir_dtype_bytes(r->ahead[i]->dtype);
    for (int64_t line = 0; line < elements * bytes; line += LINE_BYTES)
      ir_prefetch(r->b, r->ahead[i],
                  ir_apply(a, IR_OP_ADD, at, ir_int(a, (AHEAD_BYTES + line) / bytes)));
  }
}

/* ---- names that nothing reads ---------------------------------------------------------------- */
static bool reads_var(const ir_expr *e, const ir_var *var) {
  if (!e) return false;
  if (e->kind == IR_VAR && e->var == var) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads_var(e->args[i], var)) return true;
  return false;
}

static bool block_reads(const ir_block *block, int from, const ir_var *var) {
  for (int i = from; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (reads_var(c->value, var) || reads_var(c->offset, var) || reads_var(c->cond, var) ||
        reads_var(c->lo, var) || reads_var(c->hi, var) || block_reads(&c->body, 0, var) ||
        block_reads(&c->orelse, 0, var))
      return true;
  }
  return false;
}

static bool sets_var(const ir_block *block, int from, const ir_var *var) {
  for (int i = from; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_SET && c->var == var) return true;
    if (sets_var(&c->body, 0, var) || sets_var(&c->orelse, 0, var)) return true;
  }
  return false;
}

static void drop_unread(ir_block *block) {
  for (int i = block->codes.count - 1; i >= 0; i--) {
    const ir_code *code = block->codes.at[i];
    if (code->kind != IR_LET || block_reads(block, i + 1, code->var) ||
        sets_var(block, i + 1, code->var))
      continue;
    for (int j = i; j + 1 < block->codes.count; j++) block->codes.at[j] = block->codes.at[j + 1];
    block->codes.count--;
  }
}

static void write_loop(reduction *r, ir_expr *lo, ir_expr *hi, int copies, bool tail) {
  ir_arena *a = r->b->arena;
  ir_block *outer;
  ir_var *k = ir_open_for(r->b, r->loop->var->name, lo, hi, IR_RUN_VECTOR, &outer);
  outer->codes.at[outer->codes.count - 1]->step = ir_int(a, (int64_t)copies * r->lanes);
  vec_copier c = {.g = r->g,
                  .b = r->b,
                  .arena = a,
                  .rows = 1,
                  .cols = copies,
                  .lanes = r->lanes,
                  .only_row = -1,
                  .col_at = ir_var_ref(a, k),
                  .mask_sets = true};
  if (tail) c.tail = pass_vec_tail(r->b, c.col_at, r->hi, r->lanes);
  if (!tail) fetch_ahead(r, c.col_at, (int64_t)copies * r->lanes);
  if (pass_vec_block_wants_lanes(r->g, &r->loop->body))
    c.lane = pass_vec_lanes(r->b, IR_I64, r->lanes);
  for (int i = 0; i < r->partials.count; i++)
    for (int u = 0; u < copies; u++)
      pass_vec_bind(&c, r->partials.at[i].var, 0, u, r->partials.at[i].part[u]);
  pass_vec_block(&c, &r->loop->body, NULL);
  drop_unread(r->b->block);
  ir_close(r->b, outer);
}

/* The first multiple of `step` after lo from which fewer than step are left. */
static ir_expr *rest_from(ir_arena *a, ir_expr *lo, ir_expr *hi, int64_t step) {
  ir_expr *span = ir_apply(a, IR_OP_MAX, ir_apply(a, IR_OP_SUB, hi, lo), ir_int(a, 0));
  ir_expr *whole = ir_apply(a, IR_OP_DIV, span, ir_int(a, step));
  return ir_apply(a, IR_OP_ADD, lo, ir_apply(a, IR_OP_MUL, whole, ir_int(a, step)));
}

static void close_partials(reduction *r) {
  ir_arena *a = r->b->arena;
  for (int i = 0; i < r->partials.count; i++) {
    partial *p = &r->partials.at[i];
    for (int half = r->copies / 2; half; half /= 2)
      for (int u = 0; u < half; u++)
        ir_set(r->b, p->part[u],
               ir_apply(a, p->op, ir_var_ref(a, p->part[u]), ir_var_ref(a, p->part[u + half])));
    ir_expr *all = ir_reduce(a, reducer_of(p->op), NULL, 0, ir_var_ref(a, p->part[0]));
    all->dtype = p->var->dtype;
    all->lanes = 1;
    ir_var *var = (ir_var *)p->var;
    ir_set(r->b, var, ir_apply(a, p->op, ir_var_ref(a, var), all));
  }
}

static ir_expr *once(ir_builder *b, const char *name, ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM || e->kind == IR_VAR) return e;
  return ir_var_ref(b->arena, pass_vec_let(b, name, IR_I64, 1, e));
}

void pass_vec_reduce(ir_builder *b, const vec_region *g, const ir_code *loop, int lanes,
                     int copies) {
  ir_arena *a = b->arena;
  reduction r = {.b = b, .g = g, .loop = loop, .lanes = lanes, .copies = copies};
  find_ahead(&r);
  while (r.ahead_count && r.copies > 1 && r.copies * lanes > MOST_AT_ONCE) r.copies /= 2;
  copies = r.copies;
  int64_t step = (int64_t)lanes * copies;
  r.lo = once(b, "first", loop->lo);
  r.hi = once(b, "end", loop->hi);
  fetch_ahead(&r, r.lo, 1);
  open_partials(&r, &loop->body);
  ir_expr *last = ir_apply(a, IR_OP_SUB, r.hi, ir_int(a, step - 1));
  write_loop(&r, r.lo, last, copies, false);
  if (!pass_vec_divides(loop, step))
    write_loop(&r, once(b, "rest", rest_from(a, r.lo, r.hi, step)), r.hi, 1, true);
  close_partials(&r);
}
