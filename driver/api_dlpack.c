/* api_dlpack.c - DLPack's tensors as tensors of a call, and back.
 *
 * Nothing is copied or converted: what a kernel cannot read as it lies is an error that names the
 * argument, the field and the axis.  The structs are DLPack's own layout, declared in spc.h. */
#include "driver/api.h"

_Static_assert(sizeof(spc_dl_tensor) == 48 && offsetof(spc_dl_tensor, shape) == 24 &&
                   offsetof(spc_dl_tensor, byte_offset) == 40,
               "the layout of DLTensor");

enum { DL_INT, DL_UINT, DL_FLOAT, DL_BFLOAT = 4, DL_BOOL = 6, DL_E4M3FN = 10, DL_E5M2 = 12 };
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { ALIGN_ENQUEUED = 16 };

/* One array that is read: for messages, and what it must be. */
typedef struct dl_reading {
  const char *call, *tensor, *array; /* "values", "levels[1].crd" */
  const spc_plan *plan;
  spc_use use;
  spc_error *err;
} dl_reading;

static spc_status fault(const dl_reading *r, spc_status status, const char *format, ...)
    IR_PRINTF(3, 4);
static spc_status fault(const dl_reading *r, spc_status status, const char *format, ...) {
  char what[300];
  va_list args;
  va_start(args, format);
  vsnprintf(what, sizeof what, format, args);
  va_end(args);
  return drv_api_fail(r->err, status, NULL, "%s: tensor `%s`: `%s`: %s", r->call, r->tensor,
                      r->array, what);
}

static bool on_device(const dl_reading *r) {
  return r->use == SPC_FOR_ENQUEUE && r->plan->program->context->cuda;
}

/* ---- dtype, device, place -------------------------------------------------------------------- */
static spc_dl_dtype dtype_of(ir_dtype t) {
  const ir_dtype_row *row = &ir_dtype_rows[t];
  int code = row->class_ == 'F' ? DL_FLOAT : row->class_ == 'S' ? DL_INT : DL_UINT;
  if (t == IR_BF16) code = DL_BFLOAT;
  if (t == IR_F8E4M3) code = DL_E4M3FN;
  if (t == IR_F8E5M2) code = DL_E5M2;
  if (t == IR_B1) code = DL_BOOL;
  return (spc_dl_dtype){(uint8_t)code, (uint8_t)(8 * row->bytes), 1};
}

static spc_status check_kind(const dl_reading *r, const spc_dl_tensor *dl, ir_dtype dtype) {
  spc_dl_dtype want = dtype_of(dtype);
  if (dl->dtype.code != want.code || dl->dtype.bits != want.bits || dl->dtype.lanes != 1)
    return fault(r, SPC_INVALID_INPUT,
                 "`dtype` is {code %d, bits %d, lanes %d}, and {code %d, bits %d, lanes 1} is %s",
                 dl->dtype.code, dl->dtype.bits, dl->dtype.lanes, want.code, want.bits,
                 ir_dtype_text(dtype));
  int device = dl->device.device_type;
  if (on_device(r) ? device != DL_CUDA && device != DL_CUDA_MANAGED
                   : device != DL_CPU && device != DL_CUDA_HOST)
    return fault(r, SPC_INVALID_INPUT, "`device.device_type` is %d, and %s reads %s memory", device,
                 r->use == SPC_FOR_ENQUEUE ? "spc_enqueue" : "spc_run",
                 on_device(r) ? "CUDA (2)" : "host (1)");
  if (on_device(r) && dl->device.device_id != 0)
    return fault(r, SPC_INVALID_INPUT, "`device.device_id` is %d, the plan's is 0",
                 dl->device.device_id);
  return SPC_OK;
}

static spc_status count_elements(const dl_reading *r, const spc_dl_tensor *dl, int64_t *count) {
  *count = 1;
  if (dl->ndim < 0 || dl->ndim > SPC_MAX_RANK || (dl->ndim && !dl->shape))
    return fault(r, SPC_INVALID_ARGUMENT, "`ndim` is %d%s", dl->ndim,
                 dl->ndim > 0 && !dl->shape ? ", and `shape` is NULL" : "");
  for (int d = 0; d < dl->ndim; d++) {
    if (dl->shape[d] < 0 || (dl->shape[d] && *count > INT64_MAX / dl->shape[d]))
      return fault(r, SPC_INVALID_ARGUMENT, "`shape[%d]` is %lld", d, (long long)dl->shape[d]);
    *count *= dl->shape[d];
  }
  return SPC_OK;
}

static spc_status place_of(const dl_reading *r, const spc_dl_tensor *dl, ir_dtype dtype,
                           int64_t count, void **out) {
  uintptr_t at = (uintptr_t)dl->data + (uintptr_t)dl->byte_offset;
  bool values = !strcmp(r->array, "values");
  size_t align = values && on_device(r) ? ALIGN_ENQUEUED : ir_dtype_bytes(dtype);
  *out = NULL;
  if (!count) return SPC_OK;
  if (!dl->data) return fault(r, SPC_INVALID_ARGUMENT, "`data` is NULL");
  if (at % align)
    return fault(r, SPC_INVALID_INPUT, "`data` + `byte_offset` (%llu) is not aligned to %zu bytes",
                 (unsigned long long)dl->byte_offset, align);
  *out = (void *)at;
  return SPC_OK;
}

static int64_t stride_of(const spc_dl_tensor *dl, int axis) {
  int64_t row_major = 1;
  for (int k = axis + 1; k < dl->ndim; k++) row_major *= dl->shape[k];
  return dl->strides ? dl->strides[axis] : row_major;
}

static spc_status wrong_stride(const dl_reading *r, const spc_dl_tensor *dl, int axis, const char *format,
                               int64_t want) {
  return fault(r, SPC_INVALID_INPUT, "`strides[%d]` is %lld%s, and `%s` has %lld along axis %d", axis,
               (long long)stride_of(dl, axis), dl->strides ? "" : " (NULL: row-major)", format, (long long)want, axis);
}

/* Of an array whose elements follow one another. */
static spc_status check_flat(const dl_reading *r, const spc_dl_tensor *dl, int64_t count) {
  int64_t stride = 1;
  for (int d = dl->ndim - 1; d >= 0 && count > 0; d--) {
    if (dl->shape[d] > 1 && stride_of(dl, d) != stride) return wrong_stride(r, dl, d, "an array", stride);
    stride *= dl->shape[d];
  }
  return SPC_OK;
}

/* order: the dimensions from the slowest to the fastest.  Sets pitch where rows alone are padded, strides where more
 * is not as the shape says. */
static spc_status take_strides(const dl_reading *r, const spc_dl_tensor *dl, const int *order, const char *format,
                               int64_t count, spc_tensor *t) {
  int64_t stride = 1;
  bool padded = false, rows_alone = true;
  for (int i = dl->ndim - 1; i >= 0 && count > 0; i--) {
    int d = order[i];
    int64_t have = stride_of(dl, d);
    bool last = i == dl->ndim - 1, row = i == dl->ndim - 2;
    if (dl->shape[d] > 1 && (last ? have != 1 : have < 0)) return wrong_stride(r, dl, d, format, stride);
    if (dl->shape[d] > 1 && have != stride) {
      padded = true;
      rows_alone = rows_alone && row && have > stride;
      if (row) stride = have;
    }
    stride *= dl->shape[d];
  }
  for (int d = 0; d < dl->ndim && padded && !rows_alone; d++) t->strides[d] = dl->shape[d] > 1 ? stride_of(dl, d) : 1;
  if (padded && rows_alone) t->pitch = stride_of(dl, order[dl->ndim - 2]);
  return SPC_OK;
}

/* An array whose elements follow one another, of any rank. */
static spc_status read_flat(const dl_reading *r, const spc_dl_tensor *dl, ir_dtype dtype,
                            void **out, int64_t *count) {
  SPC_TRY(check_kind(r, dl, dtype));
  SPC_TRY(count_elements(r, dl, count));
  SPC_TRY(check_flat(r, dl, *count));
  return place_of(r, dl, dtype, *count, out);
}

/* ---- tensors in ------------------------------------------------------------------------------ */
static const ir_tensor *declared_of(const spc_plan *plan, const char *name) {
  const ir_tensor *t = plan && name ? ir_tensor_named(plan->kernel, name) : NULL;
  return t && (t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT) ? t : NULL;
}

static spc_status begin(dl_reading *r, const ir_tensor **declared, const void *out, size_t least) {
  *declared = declared_of(r->plan, r->tensor);
  if (*declared) *declared = ir_declared(*declared);
  if (out && *(const size_t *)out < least)
    return drv_api_fail(r->err, SPC_INVALID_ARGUMENT, NULL,
                        "%s: `tensor`: `struct_size` is %zu, not sizeof(spc_tensor)", r->call,
                        *(const size_t *)out);
  if (r->plan && out && *declared && (r->use == SPC_FOR_RUN || r->use == SPC_FOR_ENQUEUE))
    return SPC_OK;
  if (r->plan && out && r->tensor && !*declared)
    return drv_api_fail(r->err, SPC_INVALID_ARGUMENT, NULL,
                        "%s: tensor `%s`: the kernel has no input or output of that name", r->call,
                        r->tensor);
  return drv_api_fail(r->err, SPC_INVALID_ARGUMENT, NULL, "%s: `%s` is not valid", r->call,
                      !r->plan     ? "plan"
                      : !r->tensor ? "name"
                      : !out       ? "tensor"
                                   : "use");
}

/* As much as the caller's struct holds. */
static void give(spc_tensor *to, spc_tensor *full) {
  full->struct_size = to->struct_size;
  memcpy(to, full, to->struct_size < sizeof *full ? to->struct_size : sizeof *full);
}

static spc_tensor blank(const ir_tensor *declared) {
  spc_tensor t = {.struct_size = sizeof t, .name = declared->name, .rank = declared->rank};
  t.dtype = declared->dtype == IR_NONE ? NULL : ir_dtype_text(declared->dtype);
  return t;
}

spc_status spc_tensor_from_dlpack(const spc_plan *plan, const char *name, spc_use use,
                                  const spc_dl_tensor *values, spc_tensor *tensor, spc_error *err) {
  dl_reading r = {"spc_tensor_from_dlpack", name, "values", plan, use, err};
  const ir_tensor *declared;
  int order[SPC_MAX_RANK];
  SPC_TRY(begin(&r, &declared, tensor, DRV_LEAST_TENSOR));
  if (!values) return fault(&r, SPC_INVALID_ARGUMENT, "it is NULL");
  if (declared->like || !ir_format_is_dense(declared->format))
    return fault(&r, SPC_INVALID_ARGUMENT,
                 "it is stored `as %s`; spc_tensor_from_dlpack_levels takes its arrays",
                 declared->format && declared->format->name ? declared->format->name : "like");
  spc_tensor t = blank(declared);
  if (values->ndim != declared->rank)
    return fault(&r, SPC_INVALID_INPUT, "`ndim` is %d, declared %d", values->ndim, declared->rank);
  for (int d = 0; d < t.rank; d++) order[d] = declared->format ? declared->format->level[d].dim : d;
  SPC_TRY(check_kind(&r, values, declared->dtype));
  SPC_TRY(count_elements(&r, values, &t.value_count));
  for (int d = 0; d < t.rank; d++) t.shape[d] = values->shape[d];
  SPC_TRY(take_strides(&r, values, order,
                       declared->format && declared->format->name ? declared->format->name : "dense", t.value_count, &t));
  bool strides = false;
  for (int d = 0; d < t.rank; d++) strides = strides || t.strides[d];
  if (tensor->struct_size < (strides ? sizeof t : t.pitch ? offsetof(spc_tensor, strides) : 0))
    return fault(&r, SPC_INVALID_INPUT, "%s, and `spc_tensor` is of an older header",
                 strides ? "it has strides of its own" : "its rows are padded");
  api_tensors one = {r.call, plan->kernel, &t, 1, err, false};
  SPC_TRY(drv_tensor_check_rows(&one, &t, declared));
  SPC_TRY(place_of(&r, values, declared->dtype, t.value_count, &t.values));
  api_rows rows;
  drv_tensor_rows(&t, declared, &rows);
  bool copied = use == SPC_FOR_RUN && declared->role == IR_ROLE_IN;
  if (!copied) SPC_TRY(drv_rows_apart(&one, &t, declared, &rows));
  t.value_count = rows.span;
  give(tensor, &t);
  return SPC_OK;
}

/* The dtype of a level's array, IR_I32 for positions and coordinates; IR_NONE: it has none. */
static ir_dtype level_dtype(const ir_level *level, bool pos) {
  const ir_level_row *row = &ir_level_rows[level->kind];
  ir_level_array kind = pos ? row->pos : row->crd;
  if (kind == IR_ARRAY_NONE || (pos && level->kind == IR_LEVEL_PACKED && !level->has_pos))
    return IR_NONE;
  return kind == IR_ARRAY_BITS || kind == IR_ARRAY_POSITIONS ? IR_U8 : IR_I32;
}

/* Positions and coordinates are int32 or int64, all of a tensor alike. */
static spc_status take_index(const dl_reading *r, const spc_dl_tensor *dl, ir_dtype *dtype,
                             spc_tensor *t) {
  if (dl->dtype.code == DL_INT && dl->dtype.bits == 64) *dtype = IR_I64;
  const char *text = ir_dtype_text(*dtype);
  if (t->index_dtype && strcmp(t->index_dtype, text))
    return fault(r, SPC_INVALID_INPUT, "`dtype` is %s, and another array of the tensor has %s",
                 text, t->index_dtype);
  t->index_dtype = text;
  return SPC_OK;
}

static spc_status read_level(dl_reading *r, const ir_format *f, int level, bool pos,
                             const spc_dl_tensor *dl, spc_tensor *t) {
  char array[40];
  ir_dtype dtype = level_dtype(&f->level[level], pos);
  snprintf(array, sizeof array, "levels[%d].%s", level, pos ? "pos" : "crd");
  r->array = array;
  spc_status status = SPC_OK;
  if (dtype == IR_I32 && dl) status = take_index(r, dl, &dtype, t);
  if (!status && dtype == IR_NONE && dl)
    status = fault(r, SPC_INVALID_ARGUMENT, "a %s level has none",
                   ir_level_rows[f->level[level].kind].text);
  else if (!status && dtype != IR_NONE && !dl)
    status = fault(r, SPC_INVALID_ARGUMENT, "it is NULL");
  else if (!status && dl)
    status = read_flat(r, dl, dtype, pos ? &t->pos[level] : &t->crd[level],
                       pos ? &t->pos_count[level] : &t->crd_count[level]);
  r->array = "values";
  return status;
}

spc_status spc_tensor_from_dlpack_levels(const spc_plan *plan, const char *name, spc_use use,
                                         int rank, const int64_t *shape,
                                         const spc_dl_tensor *values, const spc_dl_level *levels,
                                         int level_count, spc_tensor *tensor, spc_error *err) {
  dl_reading r = {"spc_tensor_from_dlpack_levels", name, "values", plan, use, err};
  const ir_tensor *declared;
  SPC_TRY(begin(&r, &declared, tensor, DRV_LEAST_TENSOR));
  spc_tensor t = blank(declared);
  bool shared = declared->like != NULL; /* its pattern is its model's */
  int want = shared || !declared->format ? 0 : declared->format->level_count;
  r.array = "shape";
  if (rank != declared->rank || (rank && !shape))
    return fault(&r, SPC_INVALID_INPUT, "rank %d%s, declared %d", rank,
                 rank && !shape ? " of NULL" : "", declared->rank);
  for (int d = 0; d < rank; d++) {
    if (shape[d] < 0)
      return fault(&r, SPC_INVALID_ARGUMENT, "[%d] is %lld", d, (long long)shape[d]);
    t.shape[d] = shape[d];
  }
  r.array = "levels";
  if (level_count != want || (want && !levels))
    return fault(&r, SPC_INVALID_ARGUMENT, "%d are given, %s has %d", levels ? level_count : 0,
                 shared ? "a tensor `as like`" : "its format", want);
  r.array = "values";
  if ((declared->dtype == IR_NONE) != !values)
    return fault(&r, SPC_INVALID_ARGUMENT, values ? "a pattern has none" : "it is NULL");
  if (values) SPC_TRY(read_flat(&r, values, declared->dtype, &t.values, &t.value_count));
  for (int l = 0; l < want; l++) {
    SPC_TRY(read_level(&r, declared->format, l, true, levels[l].pos, &t));
    SPC_TRY(read_level(&r, declared->format, l, false, levels[l].crd, &t));
  }
  give(tensor, &t);
  return SPC_OK;
}

/* ---- tensors out ----------------------------------------------------------------------------- */
static void view_flat(spc_dl_view *view, void *data, int64_t count, ir_dtype dtype) {
  view->tensor.data = data;
  view->tensor.ndim = 1;
  view->tensor.dtype = dtype_of(dtype);
  view->shape[0] = count;
  view->strides[0] = 1;
}

static void view_dense(spc_dl_view *view, const spc_tensor *t, const ir_tensor *declared) {
  int64_t stride = 1;
  api_rows rows;
  drv_tensor_rows(t, declared, &rows);
  view->tensor.data = t->values;
  view->tensor.ndim = t->rank;
  view->tensor.dtype = dtype_of(declared->dtype);
  for (int i = t->rank - 1; i >= 0; i--) {
    int d = declared->format ? declared->format->level[i].dim : i;
    view->shape[d] = t->shape[d];
    if (i < rows.levels && t->shape[d] > 1) stride = rows.step[i];
    view->strides[d] = stride;
    stride *= t->shape[d] > 1 ? t->shape[d] : 1;
  }
}

spc_status spc_tensor_to_dlpack(const spc_plan *plan, const spc_tensor *tensor, spc_use use,
                                spc_part part, int level, spc_dl_view *view, spc_error *err) {
  dl_reading r = {"spc_tensor_to_dlpack", tensor ? tensor->name : NULL, "values", plan, use, err};
  const ir_tensor *declared;
  if (!tensor || tensor->struct_size < DRV_LEAST_TENSOR)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "%s: `tensor` is not valid", r.call);
  SPC_TRY(begin(&r, &declared, view, 0));
  if (tensor->rank != declared->rank)
    return fault(&r, SPC_INVALID_INPUT, "rank %d, declared %d", tensor->rank, declared->rank);
  api_tensors one = {r.call, plan->kernel, (spc_tensor *)tensor, 1, err, false};
  SPC_TRY(drv_tensor_check(&one, tensor, declared));
  bool whole = !declared->like && ir_format_is_dense(declared->format);
  int levels = declared->format ? declared->format->level_count : 0;
  memset(view, 0, sizeof *view);
  view->tensor.shape = view->shape;
  view->tensor.strides = view->strides;
  view->tensor.device.device_type = on_device(&r) ? DL_CUDA : DL_CPU;
  r.array = part == SPC_PART_VALUES ? "values" : part == SPC_PART_POS ? "pos" : "crd";
  if (part == SPC_PART_VALUES && declared->dtype != IR_NONE) {
    if (whole)
      view_dense(view, tensor, declared);
    else
      view_flat(view, tensor->values, tensor->value_count, declared->dtype);
    return SPC_OK;
  }
  bool pos = part == SPC_PART_POS;
  ir_dtype dtype = part != SPC_PART_VALUES && level >= 0 && level < levels
                       ? level_dtype(&declared->format->level[level], pos)
                       : IR_NONE;
  if (dtype == IR_NONE) return fault(&r, SPC_INVALID_ARGUMENT, "level %d has none", level);
  api_tensors given = {.kernel = plan->kernel};
  if (dtype == IR_I32) dtype = drv_tensor_index(&given, tensor, declared);
  view_flat(view, pos ? tensor->pos[level] : tensor->crd[level],
            pos ? tensor->pos_count[level] : tensor->crd_count[level], dtype);
  return SPC_OK;
}
