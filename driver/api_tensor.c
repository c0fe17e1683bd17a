/* api_tensor.c - what callers hand in as tensors, against what the kernel declares. */
#include "driver/api.h"

spc_status drv_tensor_misuse(const api_tensors *run, const spc_tensor *t, const char *what) {
  return drv_api_fail(run->err, SPC_INVALID_ARGUMENT, NULL, "%s: tensor `%s`: %s", run->call,
                      t->name ? t->name : "(null)", what);
}

spc_tensor *drv_tensor_at(const api_tensors *given, int i) {
  size_t size = given->tensors->struct_size;
  if (size < DRV_LEAST_TENSOR) size = sizeof(spc_tensor); /* refused when it is looked at */
  return (spc_tensor *)(void *)((char *)given->tensors + (size_t)i * size);
}

static const char *index_text(const spc_tensor *t) {
  return t->struct_size >= offsetof(spc_tensor, pitch) ? t->index_dtype : NULL;
}


ir_dtype drv_tensor_index(const api_tensors *given, const spc_tensor *t,
                          const ir_tensor *declared) {
  const char *text = index_text(t);
  return !text ? ir_index_dtype(given->kernel, declared) : strcmp(text, "i64") ? IR_I32 : IR_I64;
}

spc_tensor *drv_tensor_given(const api_tensors *given, const char *name) {
  for (int i = 0; i < given->count; i++) {
    spc_tensor *t = drv_tensor_at(given, i);
    if (t->name && !strcmp(t->name, name)) return t;
  }
  return NULL;
}

/* Sizes that arithmetic on them does not leave 64 bits for: each one, and of what is stored dense all together. */
static bool is_countable(const spc_tensor *t, const ir_tensor *declared) {
  const int64_t most = INT64_MAX / 64;
  int64_t count = 1;
  bool dense = !declared->like && ir_format_is_dense(declared->format);
  for (int d = 0; d < t->rank; d++) {
    if (t->shape[d] > (dense ? most / count : most)) return false;
    if (dense && t->shape[d] > 1) count *= t->shape[d];
  }
  return true;
}

spc_status drv_tensor_check(const api_tensors *run, const spc_tensor *t,
                            const ir_tensor *declared) {
  declared = ir_declared(declared);
  if (index_text(t) && strcmp(index_text(t), "i32") && strcmp(index_text(t), "i64"))
    return drv_tensor_misuse(run, t, "`index_dtype` is not i32 or i64");
  if (t->rank != declared->rank)
    return drv_api_fail(run->err, SPC_INVALID_INPUT, NULL, "tensor `%s`: rank %d, declared %d",
                        t->name, t->rank, declared->rank);
  const char *want = declared->dtype == IR_NONE ? NULL : ir_dtype_text(declared->dtype);
  if (want ? !t->dtype || strcmp(t->dtype, want) : t->dtype != NULL)
    return drv_api_fail(run->err, SPC_INVALID_INPUT, NULL, "tensor `%s`: dtype %s, declared %s",
                        t->name, t->dtype ? t->dtype : "(none)", want ? want : "pattern");
  for (int d = 0; d < t->rank; d++)
    if (t->shape[d] < 0) return drv_tensor_misuse(run, t, "a size in `shape` is negative");
  if (!is_countable(t, declared)) return drv_tensor_misuse(run, t, "its `shape` has too many elements");
  return drv_tensor_check_rows(run, t, declared);
}

spc_status drv_tensor_place(const api_tensors *given, const ir_tensor *declared, int *place) {
  for (*place = 0; *place < given->count; ++*place) {
    const spc_tensor *t = drv_tensor_at(given, *place);
    if (t->name && !strcmp(t->name, declared->name)) return SPC_OK;
  }
  return drv_api_fail(given->err, SPC_INVALID_ARGUMENT, NULL, "%s: %s `%s` is missing", given->call,
                      declared->role == IR_ROLE_IN ? "input" : "output", declared->name);
}

spc_status drv_tensor_find(const api_tensors *given, const ir_tensor *declared, spc_tensor **out) {
  int place;
  *out = NULL;
  SPC_TRY(drv_tensor_place(given, declared, &place));
  *out = drv_tensor_at(given, place);
  return drv_tensor_check(given, *out, declared);
}

void drv_tensor_view(const api_tensors *run, const spc_tensor *t, const ir_tensor *declared,
                     ir_view *view) {
  ir_dtype index = drv_tensor_index(run, t, declared);
  declared = ir_declared(declared);
  *view = (ir_view){.dtype = declared->dtype, .rank = t->rank, .format = declared->format};
  memcpy(view->dim, t->shape, sizeof(int64_t) * (size_t)t->rank);
  view->vals = (ir_array){t->values, t->value_count, declared->dtype};
  for (int l = 0; declared->format && l < declared->format->level_count; l++) {
    const ir_level_row *row = &ir_level_rows[declared->format->level[l].kind];
    bool bytes = row->crd == IR_ARRAY_BITS || row->crd == IR_ARRAY_POSITIONS;
    if (t->pos[l]) view->pos[l] = (ir_array){t->pos[l], t->pos_count[l], index};
    if (t->crd[l]) view->crd[l] = (ir_array){t->crd[l], t->crd_count[l], bytes ? IR_U8 : index};
  }
}

spc_status drv_tensor_names(const api_tensors *run) {
  for (int i = 0; i < run->count; i++) {
    const spc_tensor *t = drv_tensor_at(run, i);
    if (t->struct_size != run->tensors->struct_size || t->struct_size < DRV_LEAST_TENSOR)
      return drv_api_fail(run->err, SPC_INVALID_ARGUMENT, NULL,
                          "%s: tensors[%d]: `struct_size` is %zu, not sizeof(spc_tensor)",
                          run->call, i, t->struct_size);
    if (t->name && !strcmp(t->name, SPC_PACKED)) {
      if (!run->takes_packed)
        return drv_tensor_misuse(run, t,
                                 "it is for spc_workspace and spc_enqueue: this call makes what it "
                                 "holds anew; leave it out");
      if (drv_tensor_given(run, SPC_PACKED) != t)
        return drv_tensor_misuse(run, t, "it is given twice");
      continue;
    }
    const ir_tensor *tensor = t->name ? ir_tensor_named(run->kernel, t->name) : NULL;
    if (!tensor || (tensor->role != IR_ROLE_IN && tensor->role != IR_ROLE_OUT))
      return drv_tensor_misuse(run, t, "the kernel has no input or output of that name");
    if (drv_tensor_given(run, tensor->name) != t)
      return drv_tensor_misuse(run, t, "it is given twice");
  }
  return SPC_OK;
}
