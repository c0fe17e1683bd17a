/* sizes.c - sizes of dims from the shapes of bound tensors, and what must hold once they are known.
 *
 * A size is an expression over dims.  With one unknown it is inverted step by step:
 * N+4 = 12 gives N = 8; K/128 = 3 gives K = 384; what cannot be inverted waits for another tensor.
 */
#include "ir/interp.h"

/* ---- solving ----------------------------------------------------------------------------- */
static int unknowns(const ir_expr *e, const int64_t *sizes) {
  if (e->kind == IR_DIM) return sizes[e->dim->number] < 0;
  int count = 0;
  for (int i = 0; i < e->arg_count; i++) count += unknowns(e->args[i], sizes);
  return count;
}

typedef struct equation {
  ir_dim *dim;
  int64_t value;
} equation;

static bool solve(const ir_expr *e, int64_t value, const int64_t *sizes, equation *out);

static bool solve_left(const ir_expr *e, int64_t value, int64_t right, const int64_t *sizes,
                       equation *out) {
  int64_t wanted;
  if (e->op == IR_OP_ADD)
    wanted = value - right;
  else if (e->op == IR_OP_SUB && value <= INT64_MAX - right)
    wanted = value + right;
  else if (e->op == IR_OP_MUL && right != 0 && value % right == 0)
    wanted = value / right;
  else if (e->op == IR_OP_DIV && right > 0 && value <= INT64_MAX / right)
    wanted = value * right;
  else
    return false;
  return solve(e->args[0], wanted, sizes, out);
}

static bool solve_right(const ir_expr *e, int64_t value, int64_t left, const int64_t *sizes,
                        equation *out) {
  int64_t wanted;
  if (e->op == IR_OP_ADD)
    wanted = value - left;
  else if (e->op == IR_OP_SUB)
    wanted = left - value;
  else if (e->op == IR_OP_MUL && left != 0 && value % left == 0)
    wanted = value / left;
  else if (e->op == IR_OP_DIV && value != 0 && left % value == 0)
    wanted = left / value;
  else
    return false;
  return solve(e->args[1], wanted, sizes, out);
}

/* One unknown dim stands in e: the value that makes e equal to `value`. */
static bool solve(const ir_expr *e, int64_t value, const int64_t *sizes, equation *out) {
  int64_t known;
  if (e->kind == IR_DIM) return *out = (equation){e->dim, value}, value >= 0;
  if (e->kind != IR_OP || e->arg_count != 2) return false;
  if (unknowns(e->args[1], sizes) == 0)
    return ir_size_value(e->args[1], sizes, &known) && solve_left(e, value, known, sizes, out);
  return ir_size_value(e->args[0], sizes, &known) && solve_right(e, value, known, sizes, out);
}

/* ---- disagreement ------------------------------------------------------------------------ */
static const ir_dim *first_dim(const ir_expr *e) {
  if (e->kind == IR_DIM) return e->dim;
  for (int i = 0; i < e->arg_count; i++) {
    const ir_dim *dim = first_dim(e->args[i]);
    if (dim) return dim;
  }
  return NULL;
}

static const char *size_text(ir_sink *sink, const ir_expr *e) {
  ir_text text = ir_text_new(sink->arena);
  ir_print_expr(e, &text);
  return text.data;
}

/* Another bound axis that agrees with the size that is held for `dim`, for the message. */
static bool find_witness(const ir_bindings *bindings, const ir_dim *dim, const int64_t *sizes,
                         const ir_tensor *but, int but_axis, const ir_binding **by, int *axis) {
  for (int b = 0; b < bindings->list.count; b++) {
    const ir_binding *x = &bindings->list.at[b];
    for (int d = 0; d < ir_declared(x->tensor)->rank && d < x->view.rank; d++) {
      int64_t size;
      if ((x->tensor == but && d == but_axis) || !ir_expr_uses_dim(ir_declared(x->tensor)->dim[d], dim)) continue;
      if (!ir_size_value(ir_declared(x->tensor)->dim[d], sizes, &size) || size != x->view.dim[d]) continue;
      *by = x;
      *axis = d;
      return true;
    }
  }
  return false;
}

static spc_status disagree(const ir_bindings *bindings, const ir_binding *b, int axis,
                           const int64_t *sizes, ir_sink *sink) {
  const ir_dim *dim = first_dim(ir_declared(b->tensor)->dim[axis]);
  const ir_binding *by = NULL;
  int by_axis = 0;
  if (!sink) return SPC_INVALID_INPUT;
  const char *size = size_text(sink, ir_declared(b->tensor)->dim[axis]);
  if (dim && sizes[dim->number] < 0) {
    ir_diag_add(sink, IR_DIAG_SIZE_DISAGREES, b->tensor->span,
                "`%s` has size %lld along axis %d, but no size of `%s` makes `%s` that",
                b->tensor->name, (long long)b->view.dim[axis], axis, dim->name, size);
  } else if (!dim) {
    ir_diag_add(sink, IR_DIAG_SIZE_DISAGREES, b->tensor->span,
                "`%s` has size %lld along axis %d, its declaration says %s", b->tensor->name,
                (long long)b->view.dim[axis], axis, size);
  } else if (find_witness(bindings, dim, sizes, b->tensor, axis, &by, &by_axis)) {
    ir_diag_add(
        sink, IR_DIAG_SIZE_DISAGREES, b->tensor->span,
        "`%s` has size %lld along axis %d (`%s`), but `%s` has size %lld along axis %d (`%s`)",
        b->tensor->name, (long long)b->view.dim[axis], axis, size, by->tensor->name,
        (long long)by->view.dim[by_axis], by_axis, size_text(sink, ir_declared(by->tensor)->dim[by_axis]));
  } else {
    ir_diag_add(sink, IR_DIAG_SIZE_DISAGREES, b->tensor->span,
                "`%s` has size %lld along axis %d (`%s`), but `%s` is %lld", b->tensor->name,
                (long long)b->view.dim[axis], axis, size, dim->name, (long long)sizes[dim->number]);
  }
  return SPC_INVALID_INPUT;
}

/* ---- the walk over bound tensors ----------------------------------------------------------- */
static spc_status check_rank(const ir_binding *b, ir_sink *sink) {
  if (ir_declared(b->tensor)->rank == b->view.rank) return SPC_OK;
  ir_diag_add(sink, IR_DIAG_BINDING, b->tensor->span,
              "`%s` is declared with %d dimension%s, the array has %d", b->tensor->name,
              ir_declared(b->tensor)->rank, ir_declared(b->tensor)->rank == 1 ? "" : "s", b->view.rank);
  return SPC_INVALID_INPUT;
}

static bool solve_some(const ir_bindings *bindings, int64_t *sizes) {
  bool progress = false;
  for (int b = 0; b < bindings->list.count; b++) {
    const ir_binding *x = &bindings->list.at[b];
    for (int d = 0; d < ir_declared(x->tensor)->rank; d++) {
      equation found;
      if (unknowns(ir_declared(x->tensor)->dim[d], sizes) != 1) continue;
      if (!solve(ir_declared(x->tensor)->dim[d], x->view.dim[d], sizes, &found)) continue;
      sizes[found.dim->number] = found.value;
      progress = true;
    }
  }
  return progress;
}

static spc_status check_shapes(const ir_bindings *bindings, const int64_t *sizes, ir_sink *sink) {
  for (int b = 0; b < bindings->list.count; b++) {
    const ir_binding *x = &bindings->list.at[b];
    for (int d = 0; d < ir_declared(x->tensor)->rank; d++) {
      int64_t size;
      int open = unknowns(ir_declared(x->tensor)->dim[d], sizes);
      if (open > 1 ||
          (open == 1 && solve(ir_declared(x->tensor)->dim[d], x->view.dim[d], sizes, &(equation){0})))
        continue;
      if (open == 1 || !ir_size_value(ir_declared(x->tensor)->dim[d], sizes, &size) || size != x->view.dim[d])
        return disagree(bindings, x, d, sizes, sink);
    }
  }
  return SPC_OK;
}

static spc_status check_dim(const ir_dim *dim, int64_t size, ir_sink *sink) {
  if (dim->value < 0 && dim->bound > 0 && size > dim->bound)
    ir_diag_add(sink, IR_DIAG_SIZE_PROMISE, dim->span,
                "`%s` is %lld, its declaration promises `dyn <= %lld`", dim->name, (long long)size,
                (long long)dim->bound);
  else if (dim->value < 0 && dim->multiple > 1 && size % dim->multiple != 0)
    ir_diag_add(sink, IR_DIAG_SIZE_PROMISE, dim->span,
                "`%s` is %lld, its declaration promises `dyn %% %lld`", dim->name, (long long)size,
                (long long)dim->multiple);
  else
    return SPC_OK;
  return SPC_INVALID_INPUT;
}

spc_status ir_solve_sizes(const ir_kernel *kernel, ir_bindings *bindings, int64_t *sizes,
                          ir_sink *sink) {
  const ir_program *program = kernel->program;
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    if (sizes[dim->number] < 0 && dim->value >= 0) sizes[dim->number] = dim->value;
  }
  for (int b = 0; b < bindings->list.count; b++) SPC_TRY(check_rank(&bindings->list.at[b], sink));
  while (solve_some(bindings, sizes)) continue;
  SPC_TRY(check_shapes(bindings, sizes, sink));
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    if (sizes[dim->number] >= 0) SPC_TRY(check_dim(dim, sizes[dim->number], sink));
  }
  return SPC_OK;
}

/* ---- subscripts that can leave their axis ---------------------------------------------------- */
typedef struct interval {
  int64_t low, high;
  bool known; /* false: it depends on memory, which is clamped at run time instead */
} interval;

typedef struct bounds {
  const ir_kernel *kernel;
  const int64_t *sizes;
  ir_sink *sink;
  spc_status status;
} bounds;

static interval interval_of(const bounds *b, const ir_expr *e);

static interval span_of(int64_t a, int64_t c, int64_t d, int64_t f) {
  int64_t low = a, high = a, all[] = {c, d, f};
  for (int i = 0; i < 3; i++) {
    low = all[i] < low ? all[i] : low;
    high = all[i] > high ? all[i] : high;
  }
  return (interval){low, high, true};
}

static bool is_small(interval x) {
  const int64_t most = (int64_t)1 << 31;
  return x.low >= -most && x.high <= most;
}

static interval interval_of_two(ir_op op, interval x, interval y) {
  interval unknown = {0, 0, false};
  int64_t low[] = {x.low, y.low}, high[] = {x.high, y.high}, up[] = {x.low, y.high},
          down[] = {x.high, y.low};
  if (!x.known || !y.known) return unknown;
  if (op == IR_OP_MOD && y.low == y.high && y.low > 0)
    return x.low >= 0 && x.high < y.low ? x : (interval){0, y.low - 1, true};
  if (op == IR_OP_DIV && y.low <= 0) return unknown;
  if (op == IR_OP_MUL && !(is_small(x) && is_small(y))) return unknown;
  if (op != IR_OP_ADD && op != IR_OP_SUB && op != IR_OP_MUL && op != IR_OP_DIV) return unknown;
  int64_t (*eval)(const int64_t *) = ir_op_rows[op].eval_int;
  return span_of(eval(low), eval(high), eval(up), eval(down));
}

static interval interval_of(const bounds *b, const ir_expr *e) {
  interval unknown = {0, 0, false};
  int64_t value;
  if (e->kind == IR_CONST) return (interval){e->i, e->i, true};
  if (e->kind == IR_DIM)
    return (interval){b->sizes[e->dim->number], b->sizes[e->dim->number], true};
  if (e->kind == IR_CAST) return interval_of(b, e->args[0]);
  if (e->kind == IR_INDEX)
    return ir_size_value(e->index->extent, b->sizes, &value) ? (interval){0, value - 1, true}
                                                             : unknown;
  if (e->kind != IR_OP || e->arg_count != 2) return unknown;
  return interval_of_two(e->op, interval_of(b, e->args[0]), interval_of(b, e->args[1]));
}

static bool is_empty(const bounds *b, const ir_expr *e) { /* an index of it has no values */
  int64_t extent;
  if (e->kind == IR_INDEX) return ir_size_value(e->index->extent, b->sizes, &extent) && extent == 0;
  for (int i = 0; i < e->arg_count; i++)
    if (is_empty(b, e->args[i])) return true;
  return false;
}

static void check_subscript(bounds *b, const ir_tensor *tensor, int axis, const ir_expr *sub) {
  interval at = interval_of(b, sub);
  int64_t size;
  if (b->status || !at.known || is_empty(b, sub) ||
      !ir_size_value(tensor->dim[axis], b->sizes, &size))
    return;
  if (at.low >= 0 && at.high < size) return;
  b->status = SPC_INVALID_INPUT;
  if (!b->sink) return;
  ir_diag_add(b->sink, IR_DIAG_SUBSCRIPT_LEAVES, sub->span,
              "the subscript `%s` of `%s` runs from %lld to %lld, but axis %d has size %lld",
              size_text(b->sink, sub), tensor->name, (long long)at.low, (long long)at.high, axis,
              (long long)size);
}

static bool check_access(void *user, ir_expr *e) {
  bounds *b = user;
  for (int a = 0; e->kind == IR_ACCESS && a < e->arg_count; a++)
    check_subscript(b, e->tensor, a, e->args[a]);
  return b->status == SPC_OK;
}

/* ---- everything known ---------------------------------------------------------------------- */
static bool check_known(void *user, ir_expr *e) {
  bounds *b = user;
  if (e->kind != IR_DIM || b->sizes[e->dim->number] >= 0) return true;
  ir_diag_add(b->sink, IR_DIAG_SIZE_UNKNOWN, e->dim->span,
              "the size of `%s` is not known: no bound tensor has it; give it with -D %s=VALUE",
              e->dim->name, e->dim->name);
  b->status = SPC_INVALID_INPUT;
  return false;
}

static void check_size(bounds *b, ir_expr *size, const char *name, ir_span span) {
  int64_t value;
  if (b->status || !size || !ir_expr_walk(size, check_known, b)) return;
  if (ir_size_value(size, b->sizes, &value) && value >= 0) return;
  b->status = SPC_INVALID_INPUT;
  if (b->sink)
    ir_diag_add(b->sink, IR_DIAG_SIZE_PROMISE, span,
                "the size `%s` of `%s` is negative, does not divide or is too large",
                size_text(b->sink, size), name);
}

spc_status ir_check_sizes(const ir_kernel *kernel, const int64_t *sizes, ir_sink *sink) {
  bounds b = {kernel, sizes, sink, SPC_OK};
  for (int t = 0; t < kernel->tensors.count; t++)
    for (int d = 0; d < kernel->tensors.at[t]->rank; d++)
      check_size(&b, kernel->tensors.at[t]->dim[d], kernel->tensors.at[t]->name,
                 kernel->tensors.at[t]->span);
  for (int i = 0; i < kernel->indices.count; i++)
    check_size(&b, kernel->indices.at[i]->extent, kernel->indices.at[i]->name,
               kernel->indices.at[i]->span);
  for (int s = 0; s < kernel->stmts.count && !b.status; s++) {
    const ir_stmt *stmt = kernel->stmts.at[s];
    ir_expr_walk(stmt->value, check_known, &b);
    if (stmt->cond) ir_expr_walk(stmt->cond, check_known, &b);
    if (b.status) break;
    for (int d = 0; d < stmt->target->rank; d++) {
      check_subscript(&b, stmt->target, d, stmt->subs[d]);
      ir_expr_walk(stmt->subs[d], check_access, &b);
    }
    ir_expr_walk(stmt->value, check_access, &b);
    if (stmt->cond) ir_expr_walk(stmt->cond, check_access, &b);
  }
  return b.status;
}
