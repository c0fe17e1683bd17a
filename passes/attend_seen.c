/* attend_seen.c - which columns a row of attention may see: bounds out of comparisons, so that whole tiles are left out.
 *
 *     on j <= i                        0 <= j < i + 1
 *     on j <= i and i - j < 512        i - 511 <= j < i + 1
 *     on j < len[b]                    0 <= j < len[b]
 *
 * Other terms of the condition are asked by a launch before: pair by pair, or once for the rows and columns that they do not differ by,
 *
 *     on M[i/128, j/128]               once for 128 rows and 128 columns
 *
 * Few rows ask for themselves: for such blocks once a tile, and for anything else pair by pair. */
#include <math.h>
#include <stdlib.h>

#include "passes/attend.h"
#include "passes/expr.h"

/* ---- a comparison as a bound of j -------------------------------------------------------------- */
typedef struct added {
  ir_expr *value; /* i64 */
  int sign;
} added;

typedef struct linear {
  ir_arena *arena;
  const ir_attend *attend;
  int along; /* how often j is added */
  IR_VEC(added) terms;
  int64_t number;       /* and a constant */
  bool rises, falls;    /* no term falls (rises) as the row rises */
} linear;

static bool uses_rows(const linear *l, const ir_expr *e) {
  for (int i = 0; i < l->attend->roles.m.count; i++)
    if (ir_expr_depends_on(e, l->attend->roles.m.at[i])) return true;
  return false;
}

/* It does not fall as the row rises. */
static bool rises_with_rows(const linear *l, const ir_expr *e) {
  double by;
  if (e->kind == IR_CAST) return rises_with_rows(l, e->args[0]);
  if (e->kind == IR_INDEX) return l->attend->roles.m.count == 1 && e->index == l->attend->roles.m.at[0];
  bool scaled = e->kind == IR_OP && (e->op == IR_OP_MUL || e->op == IR_OP_DIV) && ir_const_value(e->args[1], &by) && by > 0;
  return scaled && rises_with_rows(l, e->args[0]);
}

static void keep(linear *l, const ir_expr *e, int sign) {
  if (e->kind == IR_CONST) l->number += sign * e->i;
  else IR_PUSH(l->arena, &l->terms, ((added){ir_cast(l->arena, IR_I64, (ir_expr *)e), sign}));
}

/* All but j, times `sign`, and a number more; what is added stands first. */
static ir_expr *value_of_rest(const linear *l, int sign, int64_t more) {
  ir_expr *sum = NULL;
  int64_t number = sign * l->number + more;
  for (int way = 1; way >= -1; way -= 2)
    for (int i = 0; i < l->terms.count; i++) {
      const added *t = &l->terms.at[i];
      if (t->sign * sign != way) continue;
      if (!sum && way < 0) sum = ir_int(l->arena, number), number = 0;
      sum = sum ? ir_apply(l->arena, way > 0 ? IR_OP_ADD : IR_OP_SUB, sum, t->value) : t->value;
    }
  if (!sum) return ir_int(l->arena, number);
  if (!number) return sum;
  return ir_apply(l->arena, number > 0 ? IR_OP_ADD : IR_OP_SUB, sum, ir_int(l->arena, number > 0 ? number : -number));
}

static bool add(linear *l, const ir_expr *e, int sign) {
  const ir_index *along = l->attend->roles.n.at[0];
  if (ir_is_bare(e, along)) return l->along += sign, true;
  if (e->kind == IR_CAST && ir_is_bare(e->args[0], along)) return l->along += sign, true;
  if (e->kind == IR_OP && (e->op == IR_OP_ADD || e->op == IR_OP_SUB))
    return add(l, e->args[0], sign) && add(l, e->args[1], e->op == IR_OP_SUB ? -sign : sign);
  if (ir_dtype_is_float(e->dtype) || ir_expr_depends_on(e, along)) return false;
  if (uses_rows(l, e)) {
    if (!rises_with_rows(l, e)) return false;
    if (sign > 0) l->falls = false;
    else l->rises = false;
  }
  keep(l, e, sign);
  return true;
}

/* left - right <= 0, or < 0. */
static bool take_bound(ir_arena *arena, const ir_attend *t, const ir_expr *left, const ir_expr *right, bool strict, pass_seen *seen) {
  linear l = {.arena = arena, .attend = t, .rises = true, .falls = true};
  if (!add(&l, left, 1) || !add(&l, right, -1) || abs(l.along) != 1) return false;
  if (l.along > 0) { /* j + rest <= 0: the rest must not rise */
    if (!l.falls) return false;
    IR_PUSH(arena, &seen->behind, value_of_rest(&l, -1, strict ? 0 : 1));
    return true;
  }
  if (!l.rises) return false; /* j >= rest */
  IR_PUSH(arena, &seen->first, value_of_rest(&l, 1, strict ? 1 : 0));
  return true;
}

static bool take_term(ir_arena *arena, const ir_attend *t, const ir_expr *e, pass_seen *seen) {
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  const ir_expr *x = e->args[0], *y = e->args[1];
  if (e->op == IR_OP_LT || e->op == IR_OP_LE) return take_bound(arena, t, x, y, e->op == IR_OP_LT, seen);
  if (e->op == IR_OP_GT || e->op == IR_OP_GE) return take_bound(arena, t, y, x, e->op == IR_OP_GT, seen);
  return false;
}

/* ---- blocks ------------------------------------------------------------------------------------ */
static int64_t common(int64_t a, int64_t b) {
  for (int64_t rest; b; b = rest) rest = a % b, a = b;
  return a;
}

/* A tensor that is stored in blocks is asked whether it has one: of a pattern all elements of a block are entries.  0: it differs from element to
 * element. */
static int64_t stored_block(const ir_expr *access, const ir_index *index) {
  const ir_tensor *tensor = access->tensor;
  int64_t step = 0;
  if (tensor->dtype != IR_NONE || !tensor->format) return 0;
  for (int l = 0; l < tensor->format->level_count; l++) {
    const ir_level *level = &tensor->format->level[l];
    if (level->map == IR_MAP_MOD && level->kind != IR_LEVEL_DENSE) return 0;
    if (!ir_is_bare(access->args[level->dim], index)) continue;
    if (level->map == IR_MAP_WHOLE) return 0;
    step = level->factor;
  }
  return step;
}

/* The index is asked for by its quotients alone: *step becomes what divides them all. */
static bool by_quotients(const ir_expr *e, const ir_index *index, int64_t *step) {
  if (ir_is_bare(e, index)) return false;
  if (e->kind == IR_ACCESS) {
    int64_t block = stored_block(e, index);
    if (block) return *step = common(*step, block), true;
  }
  bool quotient = e->kind == IR_OP && e->op == IR_OP_DIV && ir_is_bare(e->args[0], index) && e->args[1]->kind == IR_CONST && e->args[1]->i > 0;
  if (quotient) return *step = common(*step, e->args[1]->i), true;
  for (int i = 0; i < e->arg_count; i++)
    if (!by_quotients(e->args[i], index, step)) return false;
  return true;
}

static bool take_blocks(ir_arena *arena, const ir_attend *t, ir_expr *term, pass_seen *seen) {
  const int64_t least = 16; /* smaller ones would be asked for too often */
  int64_t m = seen->block_m, n = seen->block_n;
  if (t->roles.m.count != 1 || !by_quotients(term, t->roles.m.at[0], &m) || !by_quotients(term, t->roles.n.at[0], &n)) return false;
  if ((m && m < least) || (n && n < least)) return false;
  seen->block_m = m, seen->block_n = n;
  seen->blocks = pass_and(arena, seen->blocks, term);
  return true;
}

/* ---- what a launch before may find out ----------------------------------------------------------- */
/* Few rows are asked about by one tile: what it finds out nobody else wants to know. */
static bool has_few_rows(ir_arena *arena, const ir_attend *t) {
  const ir_expr *size = ir_flat_size(arena, &t->roles.m);
  double rows = IR_ATTEND_NOTED;
  if (size->kind == IR_DIM && size->dim->value > 0) rows = (double)size->dim->value;
  else ir_const_value(size, &rows);
  return rows < IR_ATTEND_NOTED;
}

static void note_rest(const ir_attend *t, pass_seen *seen) {
  int64_t m = 0, n = 0;
  seen->noted = true;
  seen->rest_m = t->roles.m.count == 1 && by_quotients(seen->rest, t->roles.m.at[0], &m) ? m : 1;
  seen->rest_n = by_quotients(seen->rest, t->roles.n.at[0], &n) ? n : 1;
}

pass_seen pass_seen_of(ir_arena *arena, const ir_attend *t) {
  pass_seen seen = {.rest = NULL};
  pass_terms terms = {{0}};
  bool few = has_few_rows(arena, t);
  if (t->condition) pass_terms_of(arena, t->condition, &terms);
  for (int i = 0; i < terms.list.count; i++)
    if (!take_term(arena, t, terms.list.at[i], &seen) && !(few && take_blocks(arena, t, terms.list.at[i], &seen)))
      seen.rest = pass_and(arena, seen.rest, terms.list.at[i]);
  seen.whole = seen.blocks && seen.block_m % PASS_ATTEND_BLOCK == 0 && seen.block_n % PASS_ATTEND_BLOCK == 0;
  if (seen.blocks && !seen.whole) seen.rest = pass_and(arena, seen.rest, seen.blocks);
  if (seen.rest && !few) note_rest(t, &seen);
  return seen;
}

/* ---- how much that is -------------------------------------------------------------------------- */
typedef struct sample {
  const pass_context *context;
  const ir_attend *attend;
  double row;
} sample;

/* False where it depends on what is read from memory. */
static bool value_of(const sample *s, const ir_expr *e, double *out) {
  double x, y;
  if (ir_const_value(e, out)) return true;
  switch (e->kind) {
  case IR_DIM: return *out = pass_size_assumed(s->context, e), true;
  case IR_INDEX: return *out = ir_flat_has(&s->attend->roles.m, e->index) ? s->row : 0, true;
  case IR_CAST: return value_of(s, e->args[0], out);
  case IR_OP: break;
  default: return false;
  }
  if (e->arg_count != 2 || !value_of(s, e->args[0], &x) || !value_of(s, e->args[1], &y)) return false;
  if (e->op == IR_OP_ADD) return *out = x + y, true;
  if (e->op == IR_OP_SUB) return *out = x - y, true;
  if (e->op == IR_OP_MUL) return *out = x * y, true;
  return e->op == IR_OP_DIV && y > 0 ? (*out = floor(x / y), true) : false;
}

static double seen_columns(const sample *s, const pass_seen *seen, double all, double tile_m, double tile_n) {
  double first = 0, behind = all, value;
  for (int i = 0; i < seen->first.count; i++)
    if (value_of(s, seen->first.at[i], &value)) first = fmax(first, value);
  for (int i = 0; i < seen->behind.count; i++)
    if (value_of(s, seen->behind.at[i], &value)) behind = fmin(behind, value);
  double met = fmax(0, behind - first);
  return fmin(all, met + (met < all ? (tile_m + tile_n) / 2 : 0)); /* tiles are whole */
}

double pass_seen_share(const pass_context *context, const ir_attend *t, double tile_m, double tile_n) {
  enum { SAMPLES = 16 };
  pass_seen seen = pass_seen_of(context->arena, t);
  double rows = pass_index_assumed(context, ir_flat_last(&t->roles.m)), columns = pass_index_assumed(context, t->roles.n.at[0]), sum = 0;
  for (int i = 0; i < SAMPLES; i++) {
    sample s = {context, t, floor((i + 0.5) / SAMPLES * rows)};
    sum += seen_columns(&s, &seen, columns, tile_m, tile_n);
  }
  return columns > 0 ? sum / SAMPLES / columns : 1;
}
