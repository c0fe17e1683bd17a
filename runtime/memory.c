/* memory.c - buffers of one run, sized and bound: see memory.h; copies and fences: memory_device.c.
 */
#include "runtime/memory.h"

void rt_memory_new(rt_memory *memory, ir_arena *arena, const ir_kernel *kernel,
                   const int64_t *sizes, rt_cuda *cuda, ir_sink *sink) {
  *memory =
      (rt_memory){.arena = arena, .kernel = kernel, .sizes = sizes, .cuda = cuda, .sink = sink};
  for (int i = 0; i < kernel->tensors.count; i++)
    IR_PUSH(arena, &memory->tensors, ((rt_tensor_slots){.tensor = kernel->tensors.at[i]}));
  /* Slots are pointed at from now on: the vector has its final size. */
  for (int i = 0; i < kernel->workspaces.count; i++)
    IR_PUSH(arena, &memory->workspaces, ((rt_workspace_slot){.buf = kernel->workspaces.at[i]}));
}

static void slot_release(rt_memory *memory, rt_slot *slot) {
  if (!slot || !slot->device) return;
  if (!slot->lent)
    rt_cuda_release(memory->cuda, (char *)slot->device - (memory->fenced ? RT_FENCE : 0));
  slot->device = NULL;
}

/* Level arrays may be shared with a model (`like`): the first release clears them for all. */
static void tensor_release(rt_memory *memory, rt_tensor_slots *t) {
  slot_release(memory, t->vals);
  for (int l = 0; l < IR_MAX_LEVELS; l++) {
    slot_release(memory, t->pos[l]);
    slot_release(memory, t->crd[l]);
  }
}

void rt_memory_release(rt_memory *memory) {
  if (!memory->cuda) return;
  for (int i = 0; i < memory->tensors.count; i++) tensor_release(memory, &memory->tensors.at[i]);
  for (int i = 0; i < memory->workspaces.count; i++)
    slot_release(memory, &memory->workspaces.at[i].slot);
}

rt_tensor_slots *rt_memory_tensor(rt_memory *memory, const ir_tensor *tensor) {
  for (int i = 0; i < memory->tensors.count; i++)
    if (memory->tensors.at[i].tensor == tensor) return &memory->tensors.at[i];
  return NULL;
}

static rt_slot *slot_new(rt_memory *memory, const char *name, ir_array array, bool filled) {
  rt_slot *slot = IR_NEW(memory->arena, rt_slot);
  *slot = (rt_slot){.name = name, .host = array, .filled = filled};
  return slot;
}

static spc_status too_big(rt_memory *memory, const char *name) {
  ir_diag_add(memory->sink, IR_DIAG_BUFFER_SIZE, IR_NOWHERE,
              "the size of `%s` is unknown or too large for memory at the sizes given", name);
  return SPC_INVALID_INPUT;
}

spc_status rt_memory_bind(rt_memory *memory, const ir_tensor *tensor, const ir_view *view) {
  rt_tensor_slots *t = rt_memory_tensor(memory, tensor);
  ir_view own = *view;
  const char *why = "";
  if (!ir_view_as_computed(tensor, memory->sizes, &own)) return too_big(memory, tensor->name);
  if (ir_view_index(memory->arena, &own, ir_index_dtype(memory->kernel, tensor), &why)) {
    ir_diag_add(memory->sink, IR_DIAG_PACK, tensor->span, "`%s`: %s", tensor->name, why);
    return SPC_INVALID_INPUT;
  }
  tensor_release(memory, t);
  t->view = *(view = &own);
  t->vals = slot_new(memory, tensor->name, view->vals, true);
  for (int l = 0; view->format && l < view->format->level_count; l++) {
    if (view->pos[l].data) t->pos[l] = slot_new(memory, tensor->name, view->pos[l], true);
    if (view->crd[l].data) t->crd[l] = slot_new(memory, tensor->name, view->crd[l], true);
  }
  t->ready = true;
  return SPC_OK;
}

static spc_status host_array(rt_memory *memory, const char *name, ir_dtype dtype, int64_t count,
                             ir_array *out) {
  if (count < 0 || count > (int64_t)1 << 40) return too_big(memory, name);
  size_t bytes = (size_t)count * ir_dtype_bytes(dtype);
  *out = (ir_array){.data = ir_alloc_vectors(memory->arena, bytes), .count = count, .dtype = dtype};
  return SPC_OK;
}

static spc_status solve_dims(rt_memory *memory, rt_tensor_slots *t) {
  const ir_tensor *tensor = t->tensor;
  t->view.dtype = tensor->dtype;
  t->view.rank = tensor->rank;
  for (int d = 0; d < tensor->rank; d++)
    if (!ir_size_value(tensor->dim[d], memory->sizes, &t->view.dim[d]))
      return too_big(memory, tensor->name);
  return SPC_OK;
}

static spc_status need_like(rt_memory *memory, rt_tensor_slots *t, bool *there) {
  SPC_TRY(rt_memory_need(memory, t->tensor->like, there));
  if (!*there) return SPC_OK;
  rt_tensor_slots *model = rt_memory_tensor(memory, t->tensor->like);
  ir_array vals;
  int64_t count = model->view.vals.data
                      ? model->view.vals.count
                      : ir_view_positions(&model->view, model->view.format->level_count);
  t->view.format = model->view.format;
  SPC_TRY(host_array(memory, t->tensor->name, t->tensor->dtype, count, &vals));
  t->view.vals = vals;
  memcpy(t->view.pos, model->view.pos, sizeof t->view.pos);
  memcpy(t->view.crd, model->view.crd, sizeof t->view.crd);
  memcpy(t->pos, model->pos, sizeof t->pos);
  memcpy(t->crd, model->crd, sizeof t->crd);
  t->vals = slot_new(memory, t->tensor->name, vals, false);
  t->ready = true;
  return SPC_OK;
}

static bool all_dense(const ir_format *format) {
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].kind != IR_LEVEL_DENSE) return false;
  return true;
}

/* Elements of a dense tensor's array; false: too many. */
static bool stored_count(const rt_memory *memory, const rt_tensor_slots *t, int64_t *count) {
  const ir_format *format = t->view.format;
  *count = 1;
  for (int l = format->level_count - 1; l >= 0; l--) {
    int64_t extent = ir_format_extent(format, l, t->view.dim), step = *count;
    if (extent > 1 && l + 1 < format->level_count && t->tensor->pitch[0] &&
        !ir_size_value(t->tensor->pitch[l], memory->sizes, &step))
      return false;
    if (extent > 0 && step > INT64_MAX / extent) return false;
    *count = extent * step;
  }
  return true;
}

spc_status rt_memory_need(rt_memory *memory, const ir_tensor *tensor, bool *there) {
  rt_tensor_slots *t = rt_memory_tensor(memory, tensor);
  *there = true;
  if (t->ready) return SPC_OK;
  SPC_TRY(solve_dims(memory, t));
  if (tensor->like) return need_like(memory, t, there);
  if (tensor->format && !all_dense(tensor->format)) {
    *there = false;
    return SPC_OK;
  }
  const char *why;
  t->view.format = tensor->format
                       ? tensor->format
                       : ir_format_builtin(memory->arena, "dense", tensor->rank, NULL, 0, &why);
  int64_t count = 1;
  if (!stored_count(memory, t, &count)) return too_big(memory, tensor->name);
  SPC_TRY(host_array(memory, tensor->name, tensor->dtype, count, &t->view.vals));
  t->vals = slot_new(memory, tensor->name, t->view.vals, false);
  t->ready = true;
  return SPC_OK;
}

static rt_workspace_slot *find_workspace(rt_memory *memory, const ir_buf *buf) {
  for (int i = 0; i < memory->workspaces.count; i++)
    if (memory->workspaces.at[i].buf == buf) return &memory->workspaces.at[i];
  return NULL;
}

spc_status rt_memory_workspace(rt_memory *memory, const ir_buf *buf, int64_t count, rt_slot **out) {
  rt_workspace_slot *w = find_workspace(memory, buf);
  if (!w) return too_big(memory, buf->name);
  *out = &w->slot;
  if (w->slot.host.data && w->slot.host.count >= count) return SPC_OK;
  slot_release(memory, &w->slot);
  w->slot.on_device = false;
  w->slot.name = buf->name;
  SPC_TRY(host_array(memory, buf->name, buf->dtype, count, &w->slot.host));
  memory->workspace_bytes += count * (int64_t)ir_dtype_bytes(buf->dtype);
  return SPC_OK;
}

void *rt_memory_each(rt_memory *memory, const ir_buf *buf, int set, int sets) {
  rt_workspace_slot *w = find_workspace(memory, buf);
  if (!w->each) w->each = IR_NEW_ARRAY(memory->arena, void *, sets);
  if (!w->each[set]) {
    int64_t bytes = w->slot.host.count * (int64_t)ir_dtype_bytes(buf->dtype);
    w->each[set] = ir_alloc_vectors(memory->arena, (size_t)bytes);
    memory->workspace_bytes += bytes;
  }
  return w->each[set];
}

static spc_status missing_array(rt_memory *memory, const ir_buf *buf) {
  ir_diag_add(memory->sink, IR_DIAG_INTERNAL, IR_NOWHERE,
              "the buffer `%s` has no memory: its tensor is not packed yet", buf->name);
  return SPC_INTERNAL;
}

spc_status rt_memory_buffer(rt_memory *memory, const ir_buf *buf, rt_slot **out) {
  if (buf->kind == IR_BUF_WORKSPACE) {
    rt_workspace_slot *w = find_workspace(memory, buf);
    int64_t count = 0;
    if (!buf->count) {
      *out = w ? &w->slot : NULL;
      return w && w->slot.host.data ? SPC_OK : missing_array(memory, buf);
    }
    if (!ir_size_value(buf->count, memory->sizes, &count)) return too_big(memory, buf->name);
    return rt_memory_workspace(memory, buf, count, out);
  }
  bool there;
  SPC_TRY(rt_memory_need(memory, buf->tensor, &there));
  rt_tensor_slots *t = rt_memory_tensor(memory, buf->tensor);
  *out = !there                     ? NULL
         : buf->kind == IR_BUF_VALS ? t->vals
         : buf->kind == IR_BUF_POS  ? t->pos[buf->level]
                                    : t->crd[buf->level];
  return *out ? SPC_OK : missing_array(memory, buf);
}
