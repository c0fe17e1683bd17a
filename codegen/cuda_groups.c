/* cuda_groups.c - a statement read as a product whose rows come in ragged groups.
 *
 *     T[r, n] = e(sum[k] A[r, k] * B[g, k, n])           r ragged, g its segment
 *     T[r, n] = e(sum[k] A[p[r], k] * B[g, k, n])        p: a vector of integers
 *
 * m is r, and g is a batch index that only B has a stride for: a group's rows are consecutive in T,
 * and wherever they lie in A the row's own number, or p, says so. */
#include "codegen/cuda.h"

static bool note_reduction(void *user, ir_expr *node) {
  ir_expr **found = user;
  if (node->kind == IR_REDUCE) *found = node;
  return node->kind != IR_REDUCE;
}

static ir_expr *through_casts(ir_expr *e) {
  while (e->kind == IR_CAST) e = e->args[0];
  return e;
}

static bool uses_bare(const ir_expr *access, const ir_index *index) {
  for (int d = 0; d < access->arg_count; d++)
    if (ir_is_bare(access->args[d], index)) return true;
  return false;
}

/* The subscript of A that says which row: r itself, or p[r]. */
static bool take_row(const ir_expr *sub, const ir_index *r, cg_groups *groups) {
  if (ir_is_bare(sub, r)) return true;
  const ir_expr *name = ir_row_name(sub);
  if (!name || !ir_is_bare(name->args[0], r)) return false;
  groups->rows = name->tensor;
  return true;
}

static bool take_a(ir_arena *arena, const ir_expr *a, cg_product *p, cg_groups *groups) {
  ir_expr *strides[IR_MAX_RANK];
  if (a->arg_count != 2 || !cg_dense_strides(arena, a->tensor, strides)) return false;
  int k = ir_is_bare(a->args[1], p->k) ? 1 : 0;
  if (!ir_is_bare(a->args[k], p->k) || !take_row(a->args[1 - k], p->m, groups)) return false;
  p->a = (cg_operand){.tensor = a->tensor, .subs = a->args, .stride_k = strides[k], .stride_m = strides[1 - k]};
  p->a.stride_batch[0] = ir_int(arena, 0);
  groups->a_rows = a->tensor->dim[1 - k];
  return true;
}

static bool take_b(ir_arena *arena, const ir_expr *b, cg_product *p, const ir_index *segment) {
  ir_expr *strides[IR_MAX_RANK];
  if (b->arg_count != 3 || !cg_dense_strides(arena, b->tensor, strides)) return false;
  p->b = (cg_operand){.tensor = b->tensor, .subs = b->args};
  p->b.stride_k = cg_stride_of(strides, b->args, 3, p->k);
  p->b.stride_n = cg_stride_of(strides, b->args, 3, p->n);
  p->b.stride_batch[0] = cg_stride_of(strides, b->args, 3, segment);
  p->b.batches = 1;
  return p->b.stride_k && p->b.stride_n && p->b.stride_batch[0];
}

static bool take_t(ir_arena *arena, cg_product *p) {
  ir_expr *strides[IR_MAX_RANK];
  const ir_tensor *target = p->stmt->target;
  if (target->rank != 2 || !cg_dense_strides(arena, target, strides)) return false;
  p->t = (cg_operand){.tensor = target, .subs = p->stmt->subs};
  p->t.stride_m = cg_stride_of(strides, p->stmt->subs, 2, p->m);
  p->t.stride_n = cg_stride_of(strides, p->stmt->subs, 2, p->n);
  p->t.stride_batch[0] = ir_int(arena, 0);
  return p->t.stride_m && p->t.stride_n;
}

static bool take_indices(cg_product *p) {
  for (int i = 0; i < p->stmt->free.count; i++) {
    ir_index *index = p->stmt->free.at[i];
    if (index->offsets && !p->m) p->m = index;
    else if (!index->offsets && !p->n) p->n = index;
    else return false;
  }
  if (!p->m || !p->n) return false;
  p->size_m = p->m->extent;
  p->size_n = p->n->extent;
  p->size_k = p->k->extent;
  return true;
}

bool cg_groups_read(ir_arena *arena, ir_stmt *stmt, cg_product *out, cg_groups *groups, const char **why) {
  ir_expr *reduce = NULL;
  *out = (cg_product){.stmt = stmt};
  *groups = (cg_groups){.buf_offsets = -1, .buf_rows = -1};
  ir_expr_walk(stmt->value, note_reduction, &reduce);
  *why = "it is not a sum of products whose rows are ragged";
  if (ir_is_scatter(stmt) || !reduce || reduce->reducer != IR_RED_SUM || reduce->bound_count != 1) return false;
  out->k = reduce->bound[0];
  ir_expr *product = through_casts(reduce->args[0]);
  if (!take_indices(out) || product->kind != IR_OP || product->op != IR_OP_MUL) return false;
  ir_expr *a = through_casts(product->args[0]), *b = through_casts(product->args[1]);
  ir_index *segment = out->m->segment;
  if (a->kind != IR_ACCESS || b->kind != IR_ACCESS) return false;
  if (uses_bare(a, segment)) {
    ir_expr *other = a;
    a = b;
    b = other;
  }
  *why = "an operand does not lie as its kernel reads it";
  if (!take_a(arena, a, out, groups) || !take_b(arena, b, out, segment) || !take_t(arena, out)) return false;
  cg_take_layouts(out);
  out->batch[out->batch_count++] = segment;
  groups->segment = segment;
  groups->offsets = out->m->offsets;
  return out->a.layout == 'r' && out->b.layout && out->t.layout;
}
