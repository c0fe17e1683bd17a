/* attend.c - see attend.h. */
#include <math.h>

#include "ir/attend.h"

/* ---- pieces of expressions ------------------------------------------------------------------- */
typedef struct found {
  ir_expr *reduce;
  int heavy;
} found;

static bool note_heavy(void *user, ir_expr *node) {
  found *f = user;
  if (node->kind != IR_REDUCE && node->kind != IR_SOFTMAX && node->kind != IR_TOPK) return true;
  f->reduce = node->kind == IR_REDUCE ? node : NULL;
  f->heavy++;
  return false;
}

static ir_expr *only_reduction(const ir_stmt *stmt, ir_reducer reducer) {
  found f = {0};
  ir_expr_walk(stmt->value, note_heavy, &f);
  return f.heavy == 1 && f.reduce && f.reduce->reducer == reducer ? f.reduce : NULL;
}

static const ir_expr *through_casts(const ir_expr *e) {
  while (e->kind == IR_CAST && ir_dtype_is_float(e->dtype) && ir_dtype_is_float(e->args[0]->dtype)) e = e->args[0];
  return e;
}

static bool is_op(const ir_expr *e, ir_op op) { return e->kind == IR_OP && e->op == op; }

static bool is_number(const ir_expr *e, double value) {
  double is;
  return ir_const_value(e, &is) && is == value;
}

static bool factors_of(const ir_expr *reduce, ir_expr **a, ir_expr **b) {
  const ir_expr *product = through_casts(reduce->args[0]);
  if (!is_op(product, IR_OP_MUL)) return false;
  *a = (ir_expr *)through_casts(product->args[0]);
  *b = (ir_expr *)through_casts(product->args[1]);
  return (*a)->kind == IR_ACCESS && (*b)->kind == IR_ACCESS;
}

/* ---- the softmax ------------------------------------------------------------------------------ */
/* exp(x - r) or exp(x - r) / z, wherever casts stand. */
static bool take_exponent(const ir_expr *e, const ir_expr **x, const ir_expr **most) {
  e = through_casts(e);
  if (!is_op(e, IR_OP_EXP)) return false;
  const ir_expr *difference = through_casts(e->args[0]);
  if (!is_op(difference, IR_OP_SUB)) return false;
  *x = difference->args[0];
  *most = through_casts(difference->args[1]);
  return (*most)->kind == IR_ACCESS;
}

static const ir_expr *take_weights(ir_attend *t, const ir_expr **most) {
  const ir_expr *e = through_casts(t->weights->value), *x, *same;
  if (!is_op(e, IR_OP_WHERE) || !is_number(e->args[1], 0) || !is_op(e->args[0], IR_OP_EQ)) return NULL;
  *most = e->args[0]->args[0];
  if ((*most)->kind != IR_ACCESS || !is_number(e->args[0]->args[1], -INFINITY)) return NULL;
  const ir_expr *quotient = through_casts(e->args[2]), *total;
  if (!is_op(quotient, IR_OP_DIV) || !take_exponent(quotient->args[0], &x, &same) || !ir_expr_equal(same, *most)) return NULL;
  total = through_casts(quotient->args[1]);
  if (total->kind != IR_ACCESS) return NULL;
  t->argument = x;
  return total;
}

/* The body of a reduction under where(c, .., identity), or without. */
static const ir_expr *guarded_body(const ir_expr *reduce, const ir_expr **condition) {
  const ir_expr *body = through_casts(reduce->args[0]);
  *condition = NULL;
  if (!is_op(body, IR_OP_WHERE) || !is_number(body->args[2], ir_reducer_identity(reduce->reducer, body->dtype))) return body;
  *condition = body->args[0];
  return body->args[1];
}

static bool same_condition(const ir_expr *a, const ir_expr *b) { return !a || !b ? a == b : ir_expr_equal(a, b); }

static bool runs_along(const ir_expr *reduce, const ir_index *along) {
  return reduce && reduce->bound_count == 1 && reduce->bound[0] == along && !along->offsets;
}

static bool is_plain(const ir_stmt *stmt) { return stmt && !ir_is_scatter(stmt); }

/* The statements between scores and weights are the row's maximum and the sum of its exponentials. */
static bool take_softmax(ir_attend *t, const ir_index *along) {
  const ir_expr *most, *total = take_weights(t, &most), *condition, *x, *same;
  if (!total || !is_plain(most->tensor->def) || !is_plain(total->tensor->def)) return false;
  t->most = most->tensor->def;
  t->total = total->tensor->def;
  t->condition = t->weights->cond;
  const ir_expr *max = only_reduction(t->most, IR_RED_MAX), *sum = only_reduction(t->total, IR_RED_SUM);
  if (!runs_along(max, along) || !runs_along(sum, along) || t->most->value != max || t->total->value != sum || t->most->cond || t->total->cond) return false;
  const ir_expr *body = guarded_body(max, &condition);
  if (!same_condition(condition, t->condition) || !ir_expr_equal(through_casts(body), through_casts(t->argument))) return false;
  body = guarded_body(sum, &condition);
  return same_condition(condition, t->condition) && take_exponent(body, &x, &same) && ir_expr_equal(x, t->argument) && ir_expr_equal(same, most);
}

/* ---- the scores ------------------------------------------------------------------------------- */
typedef struct search {
  const ir_kernel *kernel;
  const ir_expr *found;
  int products; /* tensors that are sums */
} search;

/* The let that the exponent reads and that is a sum of products. */
static bool note_scores(void *user, ir_expr *node) {
  search *s = user;
  ir_expr *a, *b, *reduce;
  if (node->kind != IR_ACCESS || !is_plain(node->tensor->def)) return true;
  reduce = only_reduction(node->tensor->def, IR_RED_SUM);
  if (!reduce || !factors_of(reduce, &a, &b)) return true;
  if (s->found && ir_expr_equal(s->found, node)) return true;
  s->found = node;
  s->products++;
  return true;
}

static bool in_place(const ir_expr *access, const ir_stmt *stmt) {
  for (int d = 0; d < stmt->target->rank; d++)
    if (!ir_expr_equal(access->args[d], stmt->subs[d])) return false;
  return true;
}

static bool take_scores(ir_arena *arena, const ir_kernel *kernel, ir_attend *t, const char **why) {
  search s = {.kernel = kernel};
  ir_expr_walk((ir_expr *)t->argument, note_scores, &s);
  *why = "what is exponentiated is no product of two matrices";
  if (s.products != 1) return false;
  t->score = s.found;
  t->scores = s.found->tensor->def;
  t->products = only_reduction(t->scores, IR_RED_SUM);
  *why = ir_format_text(arena, "`%s` is not read where its statement has it", t->scores->target->name);
  if (!in_place(t->score, t->scores)) return false;
  return factors_of(t->products, &t->q, &t->k);
}

/* ---- who reads -------------------------------------------------------------------------------- */
bool ir_attend_has(const ir_attend *t, const ir_stmt *stmt) {
  return stmt == t->scores || stmt == t->most || stmt == t->total || stmt == t->weights;
}

static bool uses(const ir_stmt *stmt, const ir_tensor *tensor) {
  return (stmt->value && ir_expr_uses_tensor(stmt->value, tensor)) || (stmt->cond && ir_expr_uses_tensor(stmt->cond, tensor));
}

/* NULL: none of what lies between. */
static const ir_tensor *read_elsewhere(const ir_kernel *kernel, const ir_attend *t) {
  const ir_stmt *inner[] = {t->scores, t->most, t->total, t->weights};
  for (int n = 0; n < IR_COUNT(inner); n++) {
    const ir_tensor *tensor = inner[n]->target;
    if (tensor->role == IR_ROLE_OUT) return tensor;
    for (int i = 0; i < kernel->stmts.count; i++) {
      const ir_stmt *stmt = kernel->stmts.at[i];
      if (stmt != t->result && !ir_attend_has(t, stmt) && uses(stmt, tensor)) return tensor;
    }
  }
  return NULL;
}

/* ---- roles ------------------------------------------------------------------------------------ */
static bool has(const ir_expr *access, const ir_index *index) {
  for (int d = 0; d < access->arg_count; d++)
    if (ir_is_bare(access->args[d], index)) return true;
  return false;
}

static bool in_target(const ir_stmt *stmt, const ir_index *index) {
  for (int d = 0; d < stmt->target->rank; d++)
    if (ir_is_bare(stmt->subs[d], index)) return true;
  return false;
}

static void exchange(ir_attend *t) {
  ir_expr *q = t->q;
  ir_flat m = t->roles.m;
  t->q = t->k;
  t->k = q;
  t->roles.m = t->roles.n;
  t->roles.n = m;
}

/* The result has the scores' batches and rows, and one index that v alone has. */
static bool takes_rest(ir_attend *t) {
  const ir_stmt *stmt = t->result;
  int count = t->roles.batch.count + t->roles.m.count + 1;
  t->column = NULL;
  for (int d = 0; d < stmt->target->rank; d++) {
    const ir_expr *sub = stmt->subs[d];
    if (sub->kind != IR_INDEX) return false;
    if (ir_flat_has(&t->roles.batch, sub->index) || ir_flat_has(&t->roles.m, sub->index)) continue;
    if (t->column || !has(t->v, sub->index) || sub->index->offsets) return false;
    t->column = sub->index;
  }
  if (!t->column || stmt->target->rank != count || stmt->free.count != count) return false;
  for (int i = 0; i < t->roles.batch.count; i++)
    if (!in_target(stmt, t->roles.batch.at[i])) return false;
  for (int i = 0; i < t->roles.m.count; i++)
    if (!in_target(stmt, t->roles.m.at[i]) || has(t->v, t->roles.m.at[i])) return false;
  return true;
}

/* v is read by the summed index, the column and indices of batch, all bare. */
static bool takes_v(const ir_attend *t) {
  for (int d = 0; d < t->v->arg_count; d++) {
    const ir_expr *sub = t->v->args[d];
    if (sub->kind != IR_INDEX) return false;
    if (sub->index != t->column && sub->index != t->roles.n.at[0] && !ir_flat_has(&t->roles.batch, sub->index)) return false;
  }
  return has(t->v, t->roles.n.at[0]);
}

static bool take_roles(ir_attend *t, const ir_index *along, const char **why) {
  *why = "the indices of the scores are not rows, columns, one summed and batches";
  if (!ir_roles_of(t->scores, t->q, t->k, t->products->bound, t->products->bound_count, &t->roles)) return false;
  if (!ir_flat_has(&t->roles.n, along)) exchange(t);
  if (t->roles.n.count != 1 || t->roles.n.at[0] != along) return false;
  *why = "the result's indices are not the scores' batches and rows, and one of what is summed";
  return takes_rest(t) && takes_v(t);
}

/* ---- the whole -------------------------------------------------------------------------------- */
bool ir_attend_of(ir_arena *arena, const ir_kernel *kernel, ir_stmt *result, ir_attend *t, const char **why) {
  ir_expr *a, *b;
  *t = (ir_attend){.result = result};
  *why = NULL;
  t->sum = is_plain(result) ? only_reduction(result, IR_RED_SUM) : NULL;
  if (!t->sum || t->sum->bound_count != 1 || t->sum->bound[0]->offsets || !factors_of(t->sum, &a, &b)) return false;
  for (int turn = 0; turn < 2; turn++) {
    t->weights = (turn ? b : a)->tensor->def;
    t->v = turn ? a : b;
    if (!is_plain(t->weights) || !take_softmax(t, t->sum->bound[0])) continue;
    *why = ir_format_text(arena, "`%s` is not read where its statement has it", t->weights->target->name);
    if (!in_place(turn ? b : a, t->weights)) return false;
    if (!take_scores(arena, kernel, t, why) || !take_roles(t, t->sum->bound[0], why)) return false;
    const ir_tensor *other = read_elsewhere(kernel, t);
    if (other) return *why = ir_format_text(arena, "`%s` is read by others too, or is a result", other->name), false;
    return true;
  }
  return false;
}

bool ir_attend_read(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage, ir_attend *t) {
  const char *why;
  if (stage->stmts.count != 5 || !ir_attend_of(arena, kernel, stage->stmts.at[4], t, &why)) return false;
  for (int i = 0; i < 4; i++)
    if (!ir_attend_has(t, stage->stmts.at[i])) return false;
  return true;
}

/* ---- what fits ---------------------------------------------------------------------------------- */
enum { SHARED_LIMIT = 232448, SLAB = 64, ROWS_A_GROUP = 64 };

static int slabs(int elements) { return (elements + SLAB - 1) / SLAB; }

/* Rows are whole chunks of 16 bytes, and one between; then the staged values. */
static int bytes_of_mma(const ir_kernel_row *row, int head, int head_v) {
  int wide = (head + 15) / 16 * 16, wide_v = (head_v + 15) / 16 * 16;
  int loaded = (row->m + row->n) * (wide + 8) * 2 + row->n * (wide_v + 8) * 2, staged = row->m * (wide_v * 4 + 32);
  return loaded > staged ? loaded : staged;
}

bool ir_attend_fits(const ir_kernel_row *row, int head, int head_v, ir_dtype result, int *bytes, int *boxes) {
  int groups = ir_kernel_workers(row) / 128, split = ir_kernel_split(row), box = groups * ROWS_A_GROUP * SLAB * 2, wide_v = (head_v + 15) / 16 * 16;
  *boxes = 0;
  *bytes = bytes_of_mma(row, head, head_v);
  if (!ir_kernel_moves_boxes(row)) return *bytes <= 160 << 10; /* of an sm_80 */
  const int registers = groups > 2 ? 128 : 200; /* for sums of both products, and weights */
  const int q_bytes = slabs(head) * row->m * SLAB * 2;
  *bytes = q_bytes + row->depth * row->n * SLAB * 2 * (slabs(head) + slabs(head_v)) + 96 + 32 * row->depth;
  bool by_turns = groups * ROWS_A_GROUP > row->m; /* warpgroups share rows: stored from registers, as where a cluster's blocks do */
  if (split > 1 || by_turns) return *bytes <= SHARED_LIMIT && wide_v % (8 * split) == 0 && row->n * 3 / 4 + wide_v / 2 <= registers;
  if (ir_dtype_bytes(result) == 2)
    while (*boxes < slabs(head_v) && *bytes + box <= SHARED_LIMIT) ++*boxes, *bytes += box;
  if (*bytes + q_bytes <= SHARED_LIMIT) *bytes += q_bytes; /* a second tile of q */
  return *bytes <= SHARED_LIMIT && (*boxes || ir_dtype_bytes(result) != 2) && row->n * 3 / 4 + wide_v / 2 <= registers;
}
