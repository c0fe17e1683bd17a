/* interp_ein.c - the reference interpreter's entry: bindings are checked, tensors decoded, and the
 * statements run in order.  See interp.h for what is meant where the language leaves room. */
#include "ir/interp_ein.h"

int ein_slot(const interp *r, const ir_index *index) {
  int slot = 0;
  while (r->kernel->indices.at[slot] != index) slot++;
  return slot;
}

bool ein_step(interp *r) {
  if (++r->steps > r->limit && !r->status) {
    ir_diag_add(r->sink, IR_DIAG_STEP_LIMIT, r->kernel->span,
                "kernel `%s` needs more than %lld steps of the interpreter", r->kernel->name,
                (long long)r->limit);
    r->status = SPC_CAPACITY;
  }
  return r->status == SPC_OK;
}

void ein_out_of_range(interp *r, const char *format, ...) {
  if (r->bindings->out_of_range) return;
  ir_text text = ir_text_new(r->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  r->bindings->out_of_range = text.data;
}

/* ---- tensors ------------------------------------------------------------------------------ */
store *ein_store(const interp *r, const ir_tensor *tensor) {
  for (int i = 0; i < r->stores.count; i++)
    if (r->stores.at[i]->tensor == tensor) return r->stores.at[i];
  return NULL;
}

static void decode_values(interp *r, store *s) {
  const ir_array *vals = &s->view.vals;
  ir_dtype t = s->view.dtype;
  if (t == IR_F64)
    s->f = vals->data;
  else if (t == IR_I64)
    s->i = vals->data;
  else if (ir_dtype_is_float(t)) {
    s->f = ir_array_new(r->arena, IR_F64, vals->count).data;
    for (int64_t p = 0; p < vals->count; p++) s->f[p] = ir_dtype_load(t, vals->data, p);
  } else if (t != IR_NONE) {
    s->i = ir_array_new(r->arena, IR_I64, vals->count).data;
    for (int64_t p = 0; p < vals->count; p++) s->i[p] = ir_dtype_load_int(t, vals->data, p);
  }
}

static void set_strides(store *s) {
  int64_t stride = 1;
  const ir_format *f = s->view.format;
  for (int k = f->level_count - 1; k >= 0; k--) {
    s->stride[f->level[k].dim] = stride;
    stride *= s->view.dim[f->level[k].dim];
  }
}

store *ein_store_new(interp *r, ir_tensor *tensor, const ir_view *view) {
  store *s = IR_NEW(r->arena, store);
  *s = (store){.tensor = tensor,
               .view = *view,
               .fill = tensor->fill,
               .dense = ir_format_is_dense(view->format)};
  decode_values(r, s);
  if (s->dense) set_strides(s);
  IR_PUSH(r->arena, &r->stores, s);
  return s;
}

/* ---- bindings ------------------------------------------------------------------------------ */
static spc_status refuse(interp *r, const ir_tensor *tensor, const char *what) {
  ir_diag_add(r->sink, IR_DIAG_BINDING, tensor->span, "kernel `%s`: `%s` %s", r->kernel->name,
              tensor->name, what);
  return SPC_INVALID_INPUT;
}

static spc_status bind_input(interp *r, ir_tensor *tensor) {
  const ir_view *view = NULL;
  const char *why = NULL;
  for (int b = 0; b < r->bindings->list.count; b++) {
    if (r->bindings->list.at[b].tensor != tensor) continue;
    if (view) return refuse(r, tensor, "is bound twice");
    view = &r->bindings->list.at[b].view;
  }
  if (!view) return refuse(r, tensor, "is not bound");
  if (view->dtype != tensor->dtype)
    return refuse(r, tensor,
                  ir_format_text(r->arena, "is declared %s, the array has dtype %s",
                                 ir_dtype_text(tensor->dtype), ir_dtype_text(view->dtype)));
  ir_view own = *view;
  if (!ir_view_as_computed(tensor, r->sizes, &own)) return refuse(r, tensor, "has a size that is not known");
  if (ir_view_check(r->arena, &own, &why)) {
    ir_diag_add(r->sink, IR_DIAG_STORAGE, tensor->span, "the arrays of `%s` break its format: %s",
                tensor->name, why);
    return SPC_INVALID_INPUT;
  }
  ein_store_new(r, tensor, &own);
  return SPC_OK;
}

static spc_status bind_inputs(interp *r, const int64_t *sizes) {
  int64_t *copy = IR_NEW_ARRAY(r->arena, int64_t, r->kernel->program->dims.count);
  if (r->kernel->program->dims.count)
    memcpy(copy, sizes, sizeof(int64_t) * (size_t)r->kernel->program->dims.count);
  SPC_TRY(ir_solve_sizes(r->kernel, r->bindings, copy, r->sink));
  SPC_TRY(ir_check_sizes(r->kernel, copy, r->sink));
  r->sizes = copy;
  for (int t = 0; t < r->kernel->tensors.count; t++)
    if (r->kernel->tensors.at[t]->role == IR_ROLE_IN)
      SPC_TRY(bind_input(r, r->kernel->tensors.at[t]));
  return SPC_OK;
}

spc_status ir_interp_ein(ir_arena *arena, const ir_kernel *kernel, const int64_t *sizes,
                         ir_bindings *bindings, const ir_interp_options *options, ir_sink *sink) {
  interp r = {
      .arena = arena, .kernel = kernel, .options = options, .sink = sink, .bindings = bindings};
  r.limit = options && options->max_steps > 0 ? options->max_steps : INT64_MAX;
  r.at = IR_NEW_ARRAY(arena, int64_t, kernel->indices.count);
  r.known = IR_NEW_ARRAY(arena, bool, kernel->indices.count);
  bindings->out_of_range = NULL;
  r.where_stored = IR_NEW_ARRAY(arena, ir_expr *, kernel->stmts.count);
  ir_stores_of_kernel(arena, kernel, r.where_stored);
  SPC_TRY(bind_inputs(&r, sizes));
  for (int s = 0; s < kernel->stmts.count; s++) SPC_TRY(ein_statement(&r, kernel->stmts.at[s]));
  return SPC_OK;
}
