/* cuda_product.c - a statement read as a matrix product with an epilogue.
 *
 *     T[.., m, .., n, ..] = e(sum[k] A[.., m, .., k, ..] * B[.., k, .., n, ..])
 *
 * An index in A and T only is m, in B and T only is n, in A, B and T a batch index, in A and B only
 * k; several that follow one another are one (ir/roles.h). A is the factor that holds the first index of T that only one factor has: the order of the
 * factors in the text says nothing.  Strides come from the dense formats of the tensors, whatever
 * their order of dimensions; the layout is which of the two indices of an operand has stride 1. */
#include "codegen/cuda.h"

/* ---- strides --------------------------------------------------------------------------------- */
bool cg_dense_strides(ir_arena *arena, const ir_tensor *tensor, ir_expr **strides) {
  ir_expr *stride = ir_int(arena, 1);
  if (tensor->like || (tensor->format && !ir_format_is_dense(tensor->format))) return false;
  for (int l = tensor->rank - 1; l >= 0; l--) {
    int d = tensor->format ? tensor->format->level[l].dim : l;
    strides[d] = stride;
    stride = l && tensor->pitch[0] ? tensor->pitch[l - 1] : ir_apply(arena, IR_OP_MUL, tensor->dim[d], stride);
  }
  return true;
}

static bool is_one(const ir_expr *e) { return e && e->kind == IR_CONST && e->i == 1; }

/* ---- finding the parts ----------------------------------------------------------------------- */
typedef struct found {
  ir_expr *reduce;
  int count;
} found;

static bool note_reduction(void *user, ir_expr *node) {
  found *f = user;
  if (node->kind == IR_SOFTMAX || node->kind == IR_TOPK) f->count += 2;
  if (node->kind != IR_REDUCE) return true;
  f->reduce = node;
  f->count++;
  return false;
}

static ir_expr *through_casts(ir_expr *e) {
  for (; e->kind == IR_CAST; e = e->args[0]) {
    bool floats = ir_dtype_is_float(e->dtype) && ir_dtype_is_float(e->args[0]->dtype);
    if (!floats && (e->dtype != IR_I32 || e->args[0]->dtype != IR_I8)) break;
  }
  return e;
}

static int place_of(ir_expr *const *subs, int count, const ir_index *index) {
  for (int d = 0; d < count; d++)
    if (ir_is_bare(subs[d], index)) return d;
  return -1;
}

static bool all_bare(ir_expr *const *subs, int count) {
  for (int d = 0; d < count; d++) {
    if (subs[d]->kind != IR_INDEX) return false;
    if (place_of(subs, d, subs[d]->index) >= 0) return false;
  }
  return true;
}

static bool has(const ir_expr *access, const ir_index *index) {
  return place_of(access->args, access->arg_count, index) >= 0;
}

static bool take_factors(ir_stmt *stmt, ir_expr **a, ir_expr **b, ir_expr **sum, const char **why) {
  found f = {0};
  ir_expr_walk(stmt->value, note_reduction, &f);
  *why = "its value has not exactly one reduction";
  if (f.count != 1) return false;
  *why = "its reduction is not a sum";
  if (f.reduce->reducer != IR_RED_SUM || !f.reduce->bound_count) return false;
  ir_expr *product = through_casts(f.reduce->args[0]);
  *why = "what it sums is not the product of two tensors";
  if (product->kind != IR_OP || product->op != IR_OP_MUL) return false;
  *a = through_casts(product->args[0]);
  *b = through_casts(product->args[1]);
  if ((*a)->kind != IR_ACCESS || (*b)->kind != IR_ACCESS) return false;
  *sum = f.reduce;
  *why = "a subscript is not a bare index";
  return all_bare((*a)->args, (*a)->arg_count) && all_bare((*b)->args, (*b)->arg_count) && all_bare(stmt->subs, stmt->target->rank);
}

/* A is the factor that holds the first index of T that only one has. */
static void take_sides(const ir_stmt *stmt, ir_expr **a, ir_expr **b) {
  for (int d = 0; d < stmt->target->rank; d++) {
    bool in_a = has(*a, stmt->subs[d]->index), in_b = has(*b, stmt->subs[d]->index);
    if (in_a == in_b) continue;
    ir_expr *first = in_a ? *a : *b;
    if (in_b) *b = *a;
    *a = first;
    return;
  }
}

static bool take_roles(ir_arena *arena, cg_product *p, const ir_expr *a, const ir_expr *b, const ir_expr *sum, const char **why) {
  ir_roles roles;
  *why = "its indices are not one m, one n, one k and batches, nor such as follow one another";
  if (!ir_roles_of(p->stmt, a, b, sum->bound, sum->bound_count, &roles)) return false;
  p->m = ir_flat_last(&roles.m);
  p->n = ir_flat_last(&roles.n);
  p->k = ir_flat_last(&roles.k);
  p->size_m = ir_flat_size(arena, &roles.m);
  p->size_n = ir_flat_size(arena, &roles.n);
  p->size_k = ir_flat_size(arena, &roles.k);
  p->batch_count = roles.batch.count;
  memcpy(p->batch, roles.batch.at, sizeof p->batch);
  return true;
}

/* ---- operands -------------------------------------------------------------------------------- */
ir_expr *cg_stride_of(ir_expr *const *strides, ir_expr *const *subs, int rank,
                      const ir_index *index) {
  int d = index ? place_of(subs, rank, index) : -1;
  return d >= 0 ? strides[d] : NULL;
}

bool cg_operand_read(ir_arena *arena, const cg_product *p, const ir_tensor *tensor,
                     ir_expr *const *subs, cg_operand *out, const char **why) {
  ir_expr *strides[IR_MAX_RANK];
  out->tensor = tensor;
  out->subs = subs;
  *why = ir_format_text(arena, "`%s` is not stored dense", tensor->name);
  if (!cg_dense_strides(arena, tensor, strides) && !cg_block_strides(arena, tensor, strides)) return false;
  out->stride_m = cg_stride_of(strides, subs, tensor->rank, p->m);
  out->stride_n = cg_stride_of(strides, subs, tensor->rank, p->n);
  out->stride_k = cg_stride_of(strides, subs, tensor->rank, p->k);
  out->batches = 0;
  for (int i = 0; i < p->batch_count; i++) {
    ir_expr *stride = cg_stride_of(strides, subs, tensor->rank, p->batch[i]);
    out->stride_batch[i] = stride ? stride : ir_int(arena, 0);
    out->batches += stride != NULL;
  }
  return true;
}

/* 'r' when `fast` is contiguous, 'c' when `slow` is, 0 when neither is. */
static void take_layout(cg_operand *o, ir_expr *fast, ir_expr *slow) {
  o->layout = is_one(fast) ? 'r' : is_one(slow) ? 'c' : 0;
  o->pitch = o->layout == 'r' ? slow : fast;
}

void cg_take_layouts(cg_product *p) {
  take_layout(&p->a, p->a.stride_k, p->a.stride_m);
  take_layout(&p->b, p->b.stride_n, p->b.stride_k);
  take_layout(&p->t, p->t.stride_n, p->t.stride_m);
}

bool cg_product_of(ir_arena *arena, ir_stmt *stmt, ir_expr *a, ir_expr *b, const ir_expr *sum, cg_product *out, const char **why) {
  *out = (cg_product){.stmt = stmt};
  take_sides(stmt, &a, &b);
  if (!take_roles(arena, out, a, b, sum, why)) return false;
  if (!cg_operand_read(arena, out, a->tensor, a->args, &out->a, why) ||
      !cg_operand_read(arena, out, b->tensor, b->args, &out->b, why) ||
      !cg_operand_read(arena, out, stmt->target, stmt->subs, &out->t, why))
    return false;
  cg_take_layouts(out);
  const cg_operand *bad = !out->a.layout ? &out->a : !out->b.layout ? &out->b : &out->t;
  *why = ir_format_text(arena, "neither matrix index of `%s` is contiguous in memory",
                        bad->tensor->name);
  return out->a.layout && out->b.layout && out->t.layout;
}

bool cg_product_read(ir_arena *arena, ir_stmt *stmt, cg_product *out, const char **why) {
  ir_expr *a, *b, *sum;
  *why = "it is a scatter";
  return !ir_is_scatter(stmt) && take_factors(stmt, &a, &b, &sum, why) && cg_product_of(arena, stmt, a, b, sum, out, why);
}

bool cg_product_is_dense(const cg_product *p) {
  const ir_format *a = p->a.tensor->format, *b = p->b.tensor->format;
  bool factors = (!a || ir_format_is_dense(a)) && (!b || ir_format_is_dense(b));
  return factors && !p->t.tensor->like && (!p->t.tensor->format || ir_format_is_dense(p->t.tensor->format));
}

bool cg_product_asked(ir_arena *arena, const cg_product *p, cg_operand *out) {
  const ir_expr *access = ir_asked_matrix(p->stmt);
  const char *why;
  return access && access->tensor->dtype != IR_NONE &&
         cg_operand_read(arena, p, access->tensor, access->args, out, &why);
}

static void exchange_operand(cg_operand *o) {
  ir_expr *m = o->stride_m;
  o->stride_m = o->stride_n;
  o->stride_n = m;
}

void cg_product_swap(cg_product *p) {
  cg_operand a = p->a;
  ir_index *m = p->m;
  ir_expr *size = p->size_m;
  p->a = p->b;
  p->b = a;
  p->m = p->n;
  p->n = m;
  p->size_m = p->size_n;
  p->size_n = size;
  exchange_operand(&p->a);
  exchange_operand(&p->b);
  exchange_operand(&p->t);
  cg_take_layouts(p);
  p->swapped = !p->swapped;
}
