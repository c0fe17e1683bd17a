/* bench_steer.c - a wanted share and granularity of zeros for `h[m,n] = relu(sum[k]
 * A[m,k]*B[k,n])`.
 *
 * The last k is a constant 1 in A and a threshold in B: of normal sums, the wanted share exceeds
 * it. R consecutive rows of A are equal, and so are C consecutive columns of B, so zeros come in
 * blocks of R x C.  New rows of A give a new mask; B changes with the density only. */
#include <math.h>

#include "driver/bench.h"

/* The standard normal value that is exceeded with this probability (bisection on erfc). */
static double exceeded_with(double probability) {
  double low = -9, high = 9;
  if (probability >= 1) return low;
  for (int i = 0; i < 60; i++) {
    double middle = (low + high) / 2;
    if (0.5 * erfc(middle / sqrt(2)) > probability)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* ---- finding --------------------------------------------------------------------------------- */
/* Through casts and the relu; through a sum of terms to the one with a reduction. */
static const ir_expr *inside(const ir_expr *e, ir_kind kind) {
  while (e->kind == IR_CAST || (e->kind == IR_OP && e->op == IR_OP_RELU)) e = e->args[0];
  if (kind == IR_REDUCE && e->kind == IR_OP && e->op == IR_OP_ADD) {
    const ir_expr *left = inside(e->args[0], kind), *right = inside(e->args[1], kind);
    return left && right ? NULL : left ? left : right;
  }
  return e->kind == kind ? e : NULL;
}

/* Free inputs that stand beside the reduction. */
static void clear_biases(bench *b, const ir_expr *e) {
  while (e->kind == IR_CAST || (e->kind == IR_OP && e->op == IR_OP_RELU)) e = e->args[0];
  if (e->kind == IR_OP && e->op == IR_OP_ADD) {
    clear_biases(b, e->args[0]);
    clear_biases(b, e->args[1]);
  }
  bench_operand *o = e->kind == IR_ACCESS ? bench_operand_named(b, e->tensor->name) : NULL;
  if (o && !o->bound && !o->copied && o->kind == BENCH_FIXED)
    memset(o->dense.vals.data, 0, (size_t)o->dense.vals.count * ir_dtype_bytes(o->dense.dtype));
}

static bool has_relu(const ir_expr *e) {
  while (e->kind == IR_CAST) e = e->args[0];
  return e->kind == IR_OP && e->op == IR_OP_RELU;
}

static int dim_of(const ir_expr *access, const ir_index *index) {
  int found = -1;
  for (int d = 0; d < access->arg_count; d++)
    if (ir_is_bare(access->args[d], index)) found = d;
  return found;
}

/* A free dense input with two bare subscripts, one of them the summed index. */
static bench_operand *factor(bench *b, const ir_expr *e, const ir_index *summed, int *sum_dim) {
  while (e->kind == IR_CAST) e = e->args[0];
  bench_operand *o = e->kind == IR_ACCESS ? bench_operand_named(b, e->tensor->name) : NULL;
  if (!o || o->tensor->rank != 2 || !ir_dtype_is_float(o->tensor->dtype) || o->bound) return NULL;
  *sum_dim = dim_of(e, summed);
  bool bare = e->args[0]->kind == IR_INDEX && e->args[1]->kind == IR_INDEX;
  return bare && *sum_dim >= 0 && o->kind != BENCH_MASKED ? o : NULL;
}

static const ir_index *free_index(const ir_expr *access, int sum_dim) {
  while (access->kind == IR_CAST) access = access->args[0];
  return access->args[1 - sum_dim]->index;
}

static bool take(bench *b, const ir_stmt *stmt, const ir_expr *left, const ir_expr *right,
                 const ir_index *summed) {
  int left_sum, right_sum;
  bench_operand *rows = factor(b, left, summed, &left_sum),
                *cols = factor(b, right, summed, &right_sum);
  if (!rows || !cols || rows == cols || rows->kind == BENCH_COLS || cols->kind != BENCH_FIXED)
    return false;
  if (!ir_is_bare(stmt->subs[0], free_index(left, left_sum)) ||
      !ir_is_bare(stmt->subs[1], free_index(right, right_sum)))
    return false;
  rows->kind = BENCH_ROWS;
  cols->kind = BENCH_COLS;
  rows->sum_dim = left_sum;
  cols->sum_dim = right_sum;
  rows->row_dim = 1 - left_sum;
  cols->row_dim = 1 - right_sum;
  rows->steers = cols->steers = stmt->target;
  return true;
}

void bench_steer_find(bench *b) {
  for (int i = 0; i < b->kernel->stmts.count; i++) {
    const ir_stmt *stmt = b->kernel->stmts.at[i];
    const ir_tensor *t = stmt->target;
    if (t->role != IR_ROLE_LET || t->rank != 2 || stmt->cond) continue;
    if (!has_relu(stmt->value)) {
      if (t->pattern.zeros != IR_ZEROS_UNKNOWN)
        bench_note(b, "the zeros of %s are what its inputs give: it is no relu of a sum", t->name);
      continue;
    }
    const ir_expr *sum = inside(stmt->value, IR_REDUCE);
    const ir_expr *product = sum && sum->bound_count == 1 && sum->reducer == IR_RED_SUM
                                 ? inside(sum->args[0], IR_OP)
                                 : NULL;
    bool steered = product && product->op == IR_OP_MUL &&
                   (take(b, stmt, product->args[0], product->args[1], sum->bound[0]) ||
                    take(b, stmt, product->args[1], product->args[0], sum->bound[0]));
    if (steered)
      clear_biases(b, stmt->value);
    else
      bench_note(b,
                 "the zeros of %s are what its inputs give: they are bound, or it is no relu of a "
                 "product of two dense inputs",
                 t->name);
  }
}

/* ---- filling --------------------------------------------------------------------------------- */
typedef struct strides {
  int64_t rows, sums;         /* extents */
  int64_t row_step, sum_step; /* in elements */
} strides;

static strides strides_of(const bench_operand *o) {
  const int64_t *dim = o->dense.dim;
  strides s = {dim[o->row_dim], dim[o->sum_dim], o->row_dim == 0 ? dim[1] : 1,
               o->sum_dim == 0 ? dim[1] : 1};
  return s;
}

static void copy_row(bench_operand *o, const strides *s, int64_t to, int64_t from) {
  size_t bytes = ir_dtype_bytes(o->dense.dtype);
  char *data = o->dense.vals.data;
  if (s->sum_step == 1) {
    memcpy(data + (size_t)(to * s->row_step) * bytes, data + (size_t)(from * s->row_step) * bytes,
           (size_t)s->sums * bytes);
    return;
  }
  for (int64_t k = 0; k < s->sums; k++)
    memcpy(data + (size_t)(to * s->row_step + k * s->sum_step) * bytes,
           data + (size_t)(from * s->row_step + k * s->sum_step) * bytes, bytes);
}

void bench_steer_fill(bench *b, bench_operand *o, const bench_mask *mask, bool changed) {
  strides s = strides_of(o);
  bool rows = o->kind == BENCH_ROWS;
  if ((!rows && !changed) || s.sums < 2) return;
  double scale = rows ? 1 : 1 / sqrt((double)(s.sums - 1));
  double last = rows ? 1 : -exceeded_with(mask->density);
  int64_t group = rows ? mask->rows : mask->cols;
  bench_random_values(b, &o->dense, scale);
  for (int64_t r = 0; r < s.rows; r++) {
    ir_dtype_store(o->dense.dtype, o->dense.vals.data, r * s.row_step + (s.sums - 1) * s.sum_step,
                   last);
    if (r % group) copy_row(o, &s, r, r - 1);
  }
}
