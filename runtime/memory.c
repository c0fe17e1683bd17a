/* memory.c - buffers of one run: see memory.h. */
#include "runtime/memory.h"

void rt_memory_new(rt_memory *memory, ir_arena *arena, const ir_kernel *kernel,
                   const int64_t *sizes, rt_cuda *cuda, ir_sink *sink) {
  *memory = (rt_memory){.arena = arena, .kernel = kernel, .sizes = sizes, .cuda = cuda, .sink = sink};
  for (int i = 0; i < kernel->tensors.count; i++)
    IR_PUSH(arena, &memory->tensors, ((rt_tensor_slots){.tensor = kernel->tensors.at[i]}));
  /* Slots are pointed at from now on: the vector has its final size. */
  for (int i = 0; i < kernel->workspaces.count; i++)
    IR_PUSH(arena, &memory->workspaces, ((rt_workspace_slot){.buf = kernel->workspaces.at[i]}));
}

static void slot_release(rt_memory *memory, rt_slot *slot) {
  if (slot && slot->device) rt_cuda_release(memory->cuda, slot->device);
  if (slot) slot->device = NULL;
}

void rt_memory_release(rt_memory *memory) {
  if (!memory->cuda) return;
  for (int i = 0; i < memory->tensors.count; i++) {
    rt_tensor_slots *t = &memory->tensors.at[i];
    slot_release(memory, t->vals);
    for (int l = 0; l < IR_MAX_LEVELS; l++) {
      slot_release(memory, t->pos[l]);
      slot_release(memory, t->crd[l]);
    }
  }
  for (int i = 0; i < memory->workspaces.count; i++)
    slot_release(memory, &memory->workspaces.at[i].slot);
}

rt_tensor_slots *rt_memory_tensor(rt_memory *memory, const ir_tensor *tensor) {
  for (int i = 0; i < memory->tensors.count; i++)
    if (memory->tensors.at[i].tensor == tensor) return &memory->tensors.at[i];
  return NULL;
}

static rt_slot *slot_new(rt_memory *memory, ir_array array) {
  rt_slot *slot = IR_NEW(memory->arena, rt_slot);
  slot->host = array;
  return slot;
}

spc_status rt_memory_bind(rt_memory *memory, const ir_tensor *tensor, const ir_view *view) {
  rt_tensor_slots *t = rt_memory_tensor(memory, tensor);
  t->view = *view;
  t->vals = slot_new(memory, view->vals);
  for (int l = 0; view->format && l < view->format->level_count; l++) {
    if (view->pos[l].data) t->pos[l] = slot_new(memory, view->pos[l]);
    if (view->crd[l].data) t->crd[l] = slot_new(memory, view->crd[l]);
  }
  t->ready = true;
  return SPC_OK;
}

static spc_status too_big(rt_memory *memory, const char *name) {
  ir_diag_add(memory->sink, IR_DIAG_BUFFER_SIZE, IR_NOWHERE,
              "the size of `%s` is unknown or too large for memory at the sizes given", name);
  return SPC_INVALID_INPUT;
}

static spc_status host_array(rt_memory *memory, const char *name, ir_dtype dtype, int64_t count,
                             ir_array *out) {
  if (count < 0 || count > (int64_t)1 << 40) return too_big(memory, name);
  size_t bytes = (size_t)count * ir_dtype_bytes(dtype);
  *out = (ir_array){.data = ir_alloc(memory->arena, bytes ? bytes : 1), .count = count, .dtype = dtype};
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
  int64_t count = model->view.vals.count;
  if (!model->view.vals.data) { /* a pattern: one value a stored entry */
    int last = model->view.format->level_count - 1;
    count = model->view.crd[last].data ? model->view.crd[last].count : count;
  }
  t->view.format = model->view.format;
  SPC_TRY(host_array(memory, t->tensor->name, t->tensor->dtype, count, &vals));
  t->view.vals = vals;
  memcpy(t->view.pos, model->view.pos, sizeof t->view.pos);
  memcpy(t->view.crd, model->view.crd, sizeof t->view.crd);
  for (int l = 0; l < IR_MAX_LEVELS; l++) {
    t->pos[l] = model->pos[l] ? slot_new(memory, model->pos[l]->host) : NULL;
    t->crd[l] = model->crd[l] ? slot_new(memory, model->crd[l]->host) : NULL;
  }
  t->vals = slot_new(memory, vals);
  t->ready = true;
  return SPC_OK;
}

static bool all_dense(const ir_format *format) {
  for (int l = 0; l < format->level_count; l++)
    if (format->level[l].kind != IR_LEVEL_DENSE) return false;
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
  for (int l = 0; l < t->view.format->level_count; l++) {
    int64_t extent = ir_format_extent(t->view.format, l, t->view.dim);
    if (extent > 0 && count > INT64_MAX / extent) return too_big(memory, tensor->name);
    count *= extent;
  }
  SPC_TRY(host_array(memory, tensor->name, tensor->dtype, count, &t->view.vals));
  t->vals = slot_new(memory, t->view.vals);
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
  SPC_TRY(host_array(memory, buf->name, buf->dtype, count, &w->slot.host));
  memory->workspace_bytes += count * (int64_t)ir_dtype_bytes(buf->dtype);
  return SPC_OK;
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
  *out = !there                       ? NULL
         : buf->kind == IR_BUF_VALS ? t->vals
         : buf->kind == IR_BUF_POS  ? t->pos[buf->level]
                                    : t->crd[buf->level];
  return *out ? SPC_OK : missing_array(memory, buf);
}

static size_t slot_bytes(const rt_slot *slot) {
  return (size_t)slot->host.count * ir_dtype_bytes(slot->host.dtype);
}

static spc_status driver_failed(rt_memory *memory) {
  ir_diag_add(memory->sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "the CUDA driver reports: %s",
              rt_cuda_error(memory->cuda));
  return SPC_INTERNAL;
}

spc_status rt_slot_to_host(rt_memory *memory, rt_slot *slot) {
  if (!slot->on_device || !slot_bytes(slot)) return SPC_OK;
  if (rt_cuda_download(memory->cuda, slot->host.data, slot->device, slot_bytes(slot)))
    return driver_failed(memory);
  return SPC_OK;
}

spc_status rt_slot_to_device(rt_memory *memory, rt_slot *slot) {
  if (slot->device) return SPC_OK;
  size_t bytes = slot_bytes(slot);
  if (rt_cuda_alloc(memory->cuda, bytes ? bytes : 16, &slot->device)) return driver_failed(memory);
  if (bytes && rt_cuda_upload(memory->cuda, slot->device, slot->host.data, bytes))
    return driver_failed(memory);
  return SPC_OK;
}
