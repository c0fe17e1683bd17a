/* api_results.c - room for results: what can be known is decided on before anything is computed,
 * and nothing is written as long as one result lacks room. */
#include "driver/api.h"

/* Whether its level arrays are written: another format's, and not a model's. */
static bool is_assembled(const ir_tensor *declared) {
  return !declared->like && !ir_format_is_dense(declared->format);
}

static spc_status no_room(const api_tensors *given, const spc_tensor *t) {
  return drv_api_fail(given->err, SPC_CAPACITY, NULL,
                      "%s: output `%s` needs room for %lld values; the counts needed are in the "
                      "tensors, and nothing was written",
                      given->call, t->name, (long long)t->value_count);
}

/* ---- before ---------------------------------------------------------------------------------- */
static spc_status check_shape(const api_tensors *given, const ir_tensor *declared,
                              const int64_t *sizes, const spc_tensor *t, int64_t *count) {
  *count = 1;
  declared = ir_declared(declared);
  for (int d = 0; d < declared->rank; d++) {
    int64_t size;
    if (!ir_size_value(declared->dim[d], sizes, &size)) return *count = -1, SPC_OK;
    if (t->shape[d] != size)
      return drv_api_fail(given->err, SPC_INVALID_INPUT, NULL,
                          "%s: output `%s`: axis %d has the size %lld, the result %lld",
                          given->call, t->name, d, (long long)t->shape[d], (long long)size);
    *count = size && *count > INT64_MAX / size ? INT64_MAX : *count * size;
  }
  return SPC_OK;
}

/* Elements of the caller's array that a dense result of `count` spans; of another one `count`. */
static int64_t with_padding(const spc_tensor *t, const ir_tensor *declared, int64_t count) {
  api_rows rows;
  declared = ir_declared(declared);
  if (declared->like || !ir_format_is_dense(declared->format) || count <= 0) return count;
  drv_tensor_rows(t, declared, &rows);
  return rows.span;
}

static spc_status check_apart(const api_tensors *given, const spc_tensor *t, const ir_tensor *declared) {
  api_rows rows;
  if (declared->like || !ir_format_is_dense(declared->format)) return SPC_OK;
  drv_tensor_rows(t, declared, &rows);
  return drv_rows_apart(given, t, declared, &rows);
}

/* How many values its model has; -1: the model's pattern is computed, or has none. */
static int64_t model_count(const ir_bindings *inputs, const ir_tensor *declared) {
  declared = ir_tensor_owner(declared);
  for (int i = 0; i < inputs->list.count; i++)
    if (inputs->list.at[i].tensor == declared) return inputs->list.at[i].view.vals.count;
  return -1;
}

spc_status drv_results_expect(const api_tensors *given, const ir_bindings *inputs,
                              const int64_t *sizes) {
  const spc_tensor *short_of = NULL;
  for (int i = 0; i < given->kernel->tensors.count; i++) {
    const ir_tensor *declared = given->kernel->tensors.at[i];
    if (declared->role != IR_ROLE_OUT) continue;
    spc_tensor *t;
    int64_t count;
    SPC_TRY(drv_tensor_find(given, declared, &t));
    SPC_TRY(check_shape(given, declared, sizes, t, &count));
    if (is_assembled(declared)) continue;
    if (declared->like) count = model_count(inputs, declared);
    SPC_TRY(check_apart(given, t, declared));
    count = with_padding(t, declared, count);
    if (count > 0 && !t->values && t->value_count >= count)
      return drv_tensor_misuse(given, t, "`values` is NULL");
    if (count < 0 || t->value_count >= count) continue;
    t->value_count = count;
    if (!short_of) short_of = t;
  }
  return short_of ? no_room(given, short_of) : SPC_OK;
}

/* ---- after ----------------------------------------------------------------------------------- */
static bool has_room(const void *to, int64_t room, const ir_array *from) {
  return from->count == 0 || (to && room >= from->count);
}

static bool has_rows_room(const spc_tensor *t, const ir_binding *result) {
  int64_t need = with_padding(t, result->tensor, result->view.vals.count);
  return need == 0 || (t->values && t->value_count >= need);
}

static bool fits(const spc_tensor *t, const ir_binding *result) {
  const ir_view *view = &result->view;
  bool good = has_rows_room(t, result);
  for (int l = 0; is_assembled(result->tensor) && l < view->format->level_count; l++)
    good = has_room(t->pos[l], t->pos_count[l], &view->pos[l]) &&
           has_room(t->crd[l], t->crd_count[l], &view->crd[l]) && good;
  return good;
}

static void set_counts(spc_tensor *t, const ir_binding *result) {
  const ir_view *view = &result->view;
  t->value_count = with_padding(t, result->tensor, view->vals.count);
  for (int l = 0; is_assembled(result->tensor) && l < view->format->level_count; l++) {
    t->pos_count[l] = view->pos[l].count;
    t->crd_count[l] = view->crd[l].count;
  }
}

static void copy_out(void *to, const ir_array *from) {
  if (from->count) memcpy(to, from->data, (size_t)from->count * ir_dtype_bytes(from->dtype));
}

/* Row by row where the caller's are padded: padding is not written. */
static void copy_values(const spc_tensor *t, const ir_binding *result) {
  const ir_array *from = &result->view.vals;
  if (result->tensor->like || !ir_format_is_dense(result->tensor->format)) {
    copy_out(t->values, from);
    return;
  }
  api_rows to, made;
  drv_tensor_rows(t, result->tensor, &to);
  drv_rows_kept(t->shape, result->tensor, &made);
  if (from->count) drv_rows_copy(t->values, &to, from->data, &made, ir_dtype_bytes(from->dtype));
}

static void write_arrays(const spc_tensor *t, const ir_binding *result) {
  const ir_view *view = &result->view;
  copy_values(t, result);
  for (int l = 0; is_assembled(result->tensor) && l < view->format->level_count; l++) {
    copy_out(t->pos[l], &view->pos[l]);
    copy_out(t->crd[l], &view->crd[l]);
  }
}

static const ir_binding *result_of(const ir_bindings *bindings, const ir_tensor *tensor) {
  for (int i = 0; i < bindings->list.count; i++)
    if (bindings->list.at[i].tensor == tensor) return &bindings->list.at[i];
  return NULL;
}

spc_status drv_results_write(const api_tensors *given, const ir_bindings *bindings) {
  const spc_tensor *short_of = NULL;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 0; i < given->kernel->tensors.count; i++) {
      const ir_tensor *declared = given->kernel->tensors.at[i];
      const ir_binding *result = result_of(bindings, declared);
      spc_tensor *t = drv_tensor_given(given, declared->name);
      if (declared->role != IR_ROLE_OUT || !result || !t) continue;
      if (pass == 0 && !fits(t, result) && !short_of) short_of = t;
      if (pass == 1 && !short_of) write_arrays(t, result);
      if (pass == 1) set_counts(t, result);
    }
  return short_of ? no_room(given, short_of) : SPC_OK;
}

spc_status drv_results_count(const api_tensors *given, const ir_bindings *bindings) {
  for (int i = 0; i < bindings->list.count; i++) {
    const ir_binding *result = &bindings->list.at[i];
    spc_tensor *t = drv_tensor_given(given, result->tensor->name);
    if (result->tensor->role != IR_ROLE_OUT || !is_assembled(result->tensor) || !t) continue;
    t->rank = result->view.rank;
    memcpy(t->shape, result->view.dim, sizeof(int64_t) * (size_t)t->rank);
    set_counts(t, result);
  }
  return SPC_OK;
}
