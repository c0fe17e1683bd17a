/* format_whole.c - stored operands that tensor cores read faster whole: a dense copy in front.
 *
 *     y[t,o] = sum[k] x[t,k]*W[o,k]           W_whole[o,k] = W[o,k]   ~ zeros(dynamic, gran=64x64)
 *       (W bf16, bsr(64,64); sm_90a)      ->  y[t,o] = sum[k] x[t,k]*W_whole[o,k]
 *
 * The loops that walk stored entries use no tensor cores. The copy is a product of matrices with
 * zeros like any other: its blocks are listed where that pays, and of a `const` operand copy and
 * lists are made once (stage_once.c). It costs the memory of a dense matrix. Blocks are copied by
 * what is predicted; single entries (csr, coo) only where a hint says how many there are, for
 * there may be very few. */
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

static const double MOST_BYTES = 1 << 30, MARGIN = 1.5;

typedef struct whole {
  pass_context *context;
  const ir_stmt *stmt;
  ir_expr *stored; /* the factor that is copied */
  double m, n, k;
} whole;

static bool is_half(ir_dtype dtype) { return dtype == IR_BF16 || dtype == IR_F16; }

static bool in_blocks(const ir_format *format) {
  for (int l = 0; format && l < format->level_count; l++)
    if (format->level[l].map == IR_MAP_MOD) return true;
  return false;
}

static bool is_matrix(const ir_expr *e, const ir_index *k) {
  return e->kind == IR_ACCESS && e->arg_count == 2 && pass_bare_access(e) &&
         is_half(e->tensor->dtype) && pass_dim_of(e, k) >= 0;
}

static const ir_index *free_of(const ir_expr *e, const ir_index *k) {
  return e->args[1 - pass_dim_of(e, k)]->index;
}

/* One stored factor, one dense one, a dense result. */
static bool fits(whole *w, const pass_sum *sum) {
  const ir_stmt *stmt = sum->stmt;
  if (!sum->k || sum->k->offsets || sum->factors.count != 2 || stmt->free.count != 2) return false;
  if (ir_is_scatter(stmt) || stmt->acc == IR_F64 || stmt->target->like ||
      pass_tensor_is_sparse(stmt->target))
    return false;
  const ir_expr *a = sum->factors.at[0], *b = sum->factors.at[1];
  if (!is_matrix(a, sum->k) || !is_matrix(b, sum->k) || a->tensor->dtype != b->tensor->dtype)
    return false;
  bool first = pass_tensor_is_sparse(a->tensor);
  if (first == pass_tensor_is_sparse(b->tensor)) return false;
  const ir_index *rows = free_of(a, sum->k), *columns = free_of(b, sum->k);
  if (rows == columns || rows->offsets || columns->offsets) return false;
  w->stored = sum->factors.at[first ? 0 : 1];
  w->m = pass_index_assumed(w->context, rows);
  w->n = pass_index_assumed(w->context, columns);
  w->k = pass_index_assumed(w->context, sum->k);
  return true;
}

/* Loops over the entries against the product whole, the copy in every run. */
static bool pays(const whole *w) {
  const pass_profile *p = w->context->profile;
  const ir_tensor *tensor = w->stored->tensor;
  const ir_pattern *hint = &tensor->pattern;
  if (!in_blocks(tensor->format) && hint->density_low <= 0 && hint->density_high <= 0) return false;
  double bytes = 2; /* an element's */
  for (int d = 0; d < 2; d++) bytes *= pass_size_assumed(w->context, tensor->dim[d]);
  double products = w->m * w->n * w->k, density = pass_zeros_of(w->context, tensor).likely;
  double loops = products * density / (p->loop_gathered_gops * 1e3);
  double dense = 2 * products / (p->library16_tflops * 1e6);
  double copy = 2 * p->launch_us + 2 * bytes / (p->bandwidth_gbs * 1e3);
  return bytes <= MOST_BYTES && loops > MARGIN * (dense + copy);
}

static ir_tensor *copy_there(const ir_kernel *kernel, const ir_tensor *source, int at) {
  for (int i = 0; i < at; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && pass_stmt_converts(stmt) == source &&
        ir_format_is_dense(stmt->target->format))
      return stmt->target;
  }
  return NULL;
}

static ir_tensor *dense_copy(const whole *w, ir_kernel *kernel, int at) {
  ir_arena *arena = w->context->arena;
  ir_tensor *source = w->stored->tensor;
  const char *why = "",
             *name = ir_fresh_name(kernel, ir_format_text(arena, "%s_whole", source->name));
  ir_tensor *copy = ir_tensor_new(kernel, name, IR_ROLE_TEMP, source->dtype);
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->format = ir_format_builtin(arena, "dense", source->rank, NULL, 0, &why);
  copy->pattern = source->pattern;
  copy->pattern.zeros = IR_ZEROS_DYNAMIC;
  if (in_blocks(source->format) && source->format->argument_count == 2) {
    copy->pattern.gran_rows = (int)source->format->argument[0];
    copy->pattern.gran_cols = (int)source->format->argument[1];
  }
  copy->constant = source->constant;
  copy->format_why = ir_format_text(
      arena, "a dense copy of `%s`: tensor cores are faster than a walk over its entries",
      source->name);
  pass_format_insert(arena, kernel, at, pass_format_copy(w->context, kernel, source, copy));
  return copy;
}

void pass_format_whole(pass_context *context, ir_kernel *kernel) {
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) return;
  for (int s = 0; s < kernel->stmts.count; s++) {
    ir_stmt *stmt = kernel->stmts.at[s];
    pass_sum sum;
    whole w = {.context = context, .stmt = stmt};
    if (!pass_sum_of(context, stmt, &sum) || !fits(&w, &sum) || !pays(&w)) continue;
    ir_tensor *copy = copy_there(kernel, w.stored->tensor, s);
    int before = kernel->stmts.count;
    if (!copy) copy = dense_copy(&w, kernel, s);
    pass_format_read(context->arena, stmt, w.stored, copy);
    s += kernel->stmts.count - before;
  }
}
