/* loop_sums.c - what a loop adds up, when its iterations may run side by side.
 *
 *     for %j = 0 .. N { %acc = %acc + x[j]; %most = max(%most, x[j]); }      acc by +, most by max
 *     for %j = 0 .. N { if x[j] > %best .. { %best = x[j]; %at = j; } }      at, the place of the best
 *     for %j = 0 .. N { %acc = x[j] - %acc; }                                no sum: false
 *     for %k = 0 .. M { for %j = 0 .. 8 { @acc[j] = @acc[j] + x[k, j]; } }   the array acc, by +
 *
 * An iteration may combine a value with a variable from outside, by an op whose order does not matter, as
 * often as it likes and behind conditions, but nothing else may ask for that variable. */
#include "ir/loop.h"

bool ir_expr_uses_var(const ir_expr *e, const ir_var *var) {
  if (e->kind == IR_VAR) return e->var == var;
  for (int i = 0; i < e->arg_count; i++)
    if (ir_expr_uses_var(e->args[i], var)) return true;
  return false;
}

bool ir_block_any(const ir_block *block, bool (*is)(const ir_code *, const void *), const void *what) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (is(c, what) || ir_block_any(&c->body, is, what) || ir_block_any(&c->orelse, is, what)) return true;
  }
  return false;
}

static bool declares(const ir_code *c, const void *var) { return (c->kind == IR_LET || c->kind == IR_FOR) && c->var == var; }
static bool stores(const ir_code *c, const void *buf) { return c->kind == IR_STORE && c->buf == buf; }
static bool loops(const ir_code *c, const void *unused) { return (void)unused, c->kind == IR_FOR || c->kind == IR_WHILE; }
static bool declares_buf(const ir_code *c, const void *buf) { return c->kind == IR_LOCAL && c->buf == buf; }

bool ir_block_has_loop(const ir_block *block) { return ir_block_any(block, loops, NULL); }
bool ir_block_declares(const ir_block *block, const ir_var *var) { return ir_block_any(block, declares, var); }
bool ir_block_stores(const ir_block *block, const ir_buf *buf) { return ir_block_any(block, stores, buf); }
bool ir_block_declares_buf(const ir_block *block, const ir_buf *buf) { return ir_block_any(block, declares_buf, buf); }

ir_expr *ir_value_is_better(ir_arena *a, ir_expr *value, ir_expr *best, ir_expr *place) {
  ir_expr *none = ir_apply(a, IR_OP_LT, place, ir_int(a, 0));
  ir_expr *better = ir_apply(a, IR_OP_OR, ir_apply(a, IR_OP_GT, value, best), none);
  if (!ir_dtype_is_float(value->dtype)) return better;
  ir_expr *first_nan = ir_apply(a, IR_OP_AND, ir_apply(a, IR_OP_NE, value, value),
                                ir_apply(a, IR_OP_EQ, best, best));
  return ir_apply(a, IR_OP_OR, better, first_nan);
}

/* ---- sums ------------------------------------------------------------------------------------ */
typedef struct scan {
  ir_arena *arena;
  const ir_code *loop;
  bool stores;
  ir_loop_sums *sums;
} scan;

static bool is_outside(const scan *s, const ir_var *var) {
  return var != s->loop->var && !ir_block_declares(&s->loop->body, var);
}

static bool is_ref(const ir_expr *e, const ir_var *var) { return e->kind == IR_VAR && e->var == var; }

static bool in_any_order(ir_op op) {
  return op == IR_OP_ADD || op == IR_OP_MUL || op == IR_OP_MIN || op == IR_OP_MAX ||
         op == IR_OP_AND || op == IR_OP_OR;
}

/* var = var op rest; a difference is a sum. */
static const ir_expr *combined_with(const ir_code *set, ir_op *op) {
  const ir_expr *e = set->value;
  if (!e || e->kind != IR_OP || e->arg_count != 2 || set->var->lanes != 1) return NULL;
  bool first = is_ref(e->args[0], set->var);
  if (e->op == IR_OP_SUB && first) return *op = IR_OP_ADD, e->args[1];
  if (!in_any_order(e->op) || (!first && !is_ref(e->args[1], set->var))) return NULL;
  *op = e->op;
  return e->args[first ? 1 : 0];
}

static bool note(scan *s, ir_loop_sum sum) {
  for (int i = 0; i < s->sums->at.count; i++)
    if (s->sums->at.at[i].var == sum.var)
      return s->sums->at.at[i].combine == sum.combine && s->sums->at.at[i].best == sum.best;
  IR_PUSH(s->arena, &s->sums->at, sum);
  return true;
}

/* if better { best = value; place = where; } */
static bool is_place_of_best(const scan *s, const ir_code *c, ir_loop_sum *out) {
  if (c->kind != IR_IF || c->body.codes.count != 2 || c->orelse.codes.count) return false;
  const ir_code *best = c->body.codes.at[0], *place = c->body.codes.at[1];
  if (best->kind != IR_SET || place->kind != IR_SET || place->var->dtype != IR_I64) return false;
  if (!is_outside(s, best->var) || !is_outside(s, place->var)) return false;
  ir_expr *condition =
      ir_value_is_better(s->arena, best->value, ir_var_ref(s->arena, best->var),
                         ir_var_ref(s->arena, place->var));
  *out = (ir_loop_sum){place->var, best->var, IR_OP_COUNT};
  return ir_expr_equal(c->cond, condition);
}

static bool find_sums(scan *s, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    ir_loop_sum sum = {.var = c->var};
    if (c->kind == IR_BARRIER) return false;
    bool own = c->buf && c->buf->kind == IR_BUF_LOCAL && ir_block_declares_buf(&s->loop->body, c->buf);
    if (c->kind == IR_STORE && !own && !s->stores) return false;
    if (is_place_of_best(s, c, &sum)) {
      if (!note(s, sum)) return false;
      continue;
    }
    if (c->kind == IR_SET && is_outside(s, c->var) &&
        (!combined_with(c, &sum.combine) || !note(s, sum)))
      return false;
    if (!find_sums(s, &c->body) || !find_sums(s, &c->orelse)) return false;
  }
  return true;
}

/* ---- nothing else asks for them -------------------------------------------------------------- */
static bool asks(const scan *s, const ir_expr *e) {
  for (int i = 0; e && i < s->sums->at.count; i++) {
    const ir_loop_sum *sum = &s->sums->at.at[i];
    if (ir_expr_uses_var(e, sum->var) || (sum->best && ir_expr_uses_var(e, sum->best))) return true;
  }
  return false;
}

static bool block_asks(const scan *s, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    ir_loop_sum best;
    ir_op op;
    if (is_place_of_best(s, c, &best)) {
      if (asks(s, c->body.codes.at[0]->value) || asks(s, c->body.codes.at[1]->value)) return true;
      continue;
    }
    const ir_expr *value = c->value;
    if (c->kind == IR_SET && is_outside(s, c->var)) value = combined_with(c, &op);
    const ir_expr *parts[] = {c->lo, c->hi, c->step, c->cond, value, c->offset};
    for (int k = 0; k < IR_COUNT(parts); k++)
      if (asks(s, parts[k])) return true;
    if (block_asks(s, &c->body) || block_asks(s, &c->orelse)) return true;
  }
  return false;
}

bool ir_loop_sums_of(ir_arena *a, const ir_code *loop, bool stores, ir_loop_sums *out) {
  scan s = {a, loop, stores, out};
  *out = (ir_loop_sums){0};
  return find_sums(&s, &loop->body) && !block_asks(&s, &loop->body);
}

/* ---- sums in arrays ---------------------------------------------------------------------------- */
static bool loads_array(const ir_expr *e, const ir_buf *buf) {
  if (e->kind == IR_LOAD && e->buf == buf) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (loads_array(e->args[i], buf)) return true;
  return false;
}

static bool is_element(const ir_expr *e, const ir_code *store) {
  return e->kind == IR_LOAD && e->buf == store->buf && ir_expr_equal(e->args[0], store->offset);
}

/* array[i] = array[i] op rest */
static const ir_expr *combined_in(const ir_code *store, ir_op *op) {
  const ir_expr *e = store->value;
  if (store->cond || store->combine != IR_OP_COUNT || e->kind != IR_OP || e->arg_count != 2 || e->lanes != 1 || !in_any_order(e->op))
    return NULL;
  bool first = is_element(e->args[0], store);
  *op = e->op;
  return first || is_element(e->args[1], store) ? e->args[first ? 1 : 0] : NULL;
}

static bool find_array_sums(ir_arena *a, const ir_code *loop, const ir_block *block, ir_array_sums *out) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    ir_array_sum sum = {.buf = c->buf};
    if (c->kind == IR_BARRIER || c->kind == IR_WHILE) return false;
    if (c->kind == IR_SET && !ir_block_declares(&loop->body, c->var)) return false;
    if (c->kind == IR_STORE && !ir_block_declares_buf(&loop->body, c->buf)) {
      if (c->buf->kind != IR_BUF_LOCAL || !combined_in(c, &sum.combine)) return false;
      bool known = false;
      for (int k = 0; k < out->at.count; k++) {
        if (out->at.at[k].buf != sum.buf) continue;
        if (out->at.at[k].combine != sum.combine) return false;
        known = true;
      }
      if (!known) IR_PUSH(a, &out->at, sum);
    }
    if (!find_array_sums(a, loop, &c->body, out) || !find_array_sums(a, loop, &c->orelse, out)) return false;
  }
  return true;
}

static bool block_loads_array(const ir_block *block, const ir_buf *buf) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    ir_op op;
    bool sums = c->kind == IR_STORE && c->buf == buf;
    const ir_expr *parts[] = {c->lo, c->hi, c->step, c->cond, sums ? combined_in(c, &op) : c->value, c->offset};
    for (int k = 0; k < IR_COUNT(parts); k++)
      if (parts[k] && loads_array(parts[k], buf)) return true;
    if (block_loads_array(&c->body, buf) || block_loads_array(&c->orelse, buf)) return true;
  }
  return false;
}

bool ir_array_sums_of(ir_arena *a, const ir_code *loop, ir_array_sums *out) {
  *out = (ir_array_sums){0};
  if (!find_array_sums(a, loop, &loop->body, out)) return false;
  for (int i = 0; i < out->at.count; i++)
    if (block_loads_array(&loop->body, out->at.at[i].buf)) return false;
  return true;
}

static bool stores_to_outer(const ir_code *c, const void *loop) {
  return c->kind == IR_STORE && c->buf->kind == IR_BUF_LOCAL && !ir_block_declares_buf(&((const ir_code *)loop)->body, c->buf);
}

bool ir_shares_fit(ir_arena *a, const ir_code *shares) {
  ir_array_sums arrays;
  ir_loop_sums sums;
  if (ir_array_sums_of(a, shares, &arrays)) return true;
  if (!ir_loop_sums_of(a, shares, true, &sums) || ir_block_any(&shares->body, stores_to_outer, shares)) return false;
  for (int i = 0; i < sums.at.count; i++)
    if (sums.at.at[i].best) return false; /* a place goes with it: two variables at once */
  return true;
}

/* ---- columns ------------------------------------------------------------------------------------- */
static bool is_shares(const ir_code *c, const void *unused) { return (void)unused, c->kind == IR_FOR && c->run == IR_RUN_SHARES; }

/* The first loop of shares; another one that does not go with it makes `fits` false. */
static const ir_code *find_shares(const ir_block *block, const ir_code *found, bool *fits) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (is_shares(c, NULL)) {
      *fits = *fits && (!found || c->width == found->width) && !ir_block_any(&c->body, is_shares, NULL);
      if (!found) found = c;
      continue;
    }
    found = find_shares(&c->body, found, fits);
    found = find_shares(&c->orelse, found, fits);
  }
  return found;
}

ir_columns_shape ir_shape_of_columns(const ir_code *columns) {
  const int block = 512, cluster = 8;
  bool fits = true;
  ir_columns_shape shape = {find_shares(&columns->body, NULL, &fits), 0, 1};
  int threads = shape.shares ? shape.shares->width * columns->width : 0;
  if (!fits || threads < 32 || threads > block * cluster) return (ir_columns_shape){NULL, 0, 1};
  shape.threads = threads < block ? threads : block;
  shape.blocks = threads / shape.threads;
  return shape;
}
