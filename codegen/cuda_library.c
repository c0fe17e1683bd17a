/* cuda_library.c - a stage that a library of dense products computes: the call as data, and a text
 * that says what is called in the place of CUDA C.
 *
 * The pass that chose it has looked at the statement by ir/library.h; here only strides, buffers
 * and the workspace are added.  T is made row-major by exchanging m and n. */
#include "codegen/cuda.h"
#include "ir/library.h"

static ir_library_matrix matrix_of(ir_arena *arena, cg_launch *l, const cg_operand *o) {
  return (ir_library_matrix){.buf = cg_buffer_use(arena, l, cg_values_buffer(arena, o->tensor)),
                             .dtype = o->tensor->dtype,
                             .layout = o->layout,
                             .pitch = o->pitch,
                             .batch_stride = l->product.batch_count ? o->stride_batch[0] : NULL};
}

static int use_tensor(ir_arena *arena, cg_launch *l, const ir_tensor *tensor) {
  return tensor ? cg_buffer_use(arena, l, cg_values_buffer(arena, tensor)) : -1;
}

const char *cg_library_select(ir_arena *arena, const ir_kernel *kernel, cg_launch *l) {
  ir_library_product read;
  cg_product *p = &l->product;
  const char *why = NULL;
  if (!ir_library_read(l->stage->stmts.at[0], &read, &why)) return why;
  if (!cg_product_read(arena, l->stage->stmts.at[0], p, &why)) return why;
  if (!cg_product_is_dense(p)) return "an operand is not stored dense";
  if (p->t.layout == 'c') cg_product_swap(p);
  if (p->batch_count > 1) return "it takes one batch index at most";
  ir_buf *workspace = ir_workspace_of(kernel, p->stmt->target, "library");
  int64_t bytes;
  if (!workspace || !workspace->count || !ir_size_value(workspace->count, NULL, &bytes))
    return "it has no workspace";
  ir_library_call *call = IR_NEW(arena, ir_library_call);
  call->m = p->size_m;
  call->n = p->size_n;
  call->k = p->size_k;
  call->batch = p->batch_count ? p->batch[0]->extent : NULL;
  call->a = matrix_of(arena, l, &p->a);
  call->b = matrix_of(arena, l, &p->b);
  call->t = matrix_of(arena, l, &p->t);
  call->bias = use_tensor(arena, l, read.bias);
  call->residual = use_tensor(arena, l, read.residual);
  call->workspace = cg_buffer_use(arena, l, workspace);
  call->workspace_bytes = (size_t)bytes;
  call->alpha = read.alpha;
  call->relu = read.relu;
  l->library = call;
  return NULL;
}

void cg_library_print(ir_arena *arena, const cg_launch *l, ir_text *out) {
  const ir_library_call *c = l->library;
  ir_text statement = ir_text_new(arena);
  ir_print_stmt(l->stage->stmts.at[0], &statement);
  ir_text_printf(out, "// stage %s: a call of cublasLtMatmul, no kernel of spc's\n// ",
                 l->stage->name);
  for (const char *t = statement.data; *t; t++) {
    ir_text_putn(out, t, 1);
    if (*t == '\n' && t[1]) ir_text_put(out, "// ");
  }
  ir_text_put(out, "\n");
  if (l->stage->why) ir_text_printf(out, "// because %s\n", l->stage->why);
  ir_text_printf(out, "// A `%s` %c, B `%s` %c, T `%s`", l->product.a.tensor->name, c->a.layout,
                 l->product.b.tensor->name, c->b.layout, l->product.t.tensor->name);
  ir_text_printf(out, "; alpha %g%s%s%s\n", c->alpha, c->bias >= 0 ? ", a bias" : "",
                 c->residual >= 0 ? ", a residual" : "", c->relu ? ", relu" : "");
}
