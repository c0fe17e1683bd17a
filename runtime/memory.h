/* memory.h - where each buffer of a running plan lives.
 *
 * One rt_memory a run: host arrays of every tensor and workspace, and on CUDA their device twins.
 * Host arrays of lets, outputs and workspaces come from the run's arena; device memory is released
 * by rt_memory_release. */
#ifndef SPC_RUNTIME_MEMORY_H
#define SPC_RUNTIME_MEMORY_H

#include "runtime/plan.h"

/* One flat array: host pointer, and device pointer where the plan runs on CUDA. */
typedef struct rt_slot {
  ir_array host;
  void *device;
  const char *name;
  bool on_device; /* the device copy is the newer one */
  bool filled;    /* the host copy holds something: it is uploaded with the device's */
  bool lent;      /* the device memory is the caller's */
} rt_slot;

enum {
  RT_FENCE = 256
}; /* bytes of canary on either side, where memory is fenced; keeps alignment */

typedef struct rt_tensor_slots {
  const ir_tensor *tensor;
  ir_view view; /* dims, format; arrays mirror the slots' host side */
  rt_slot *vals, *pos[IR_MAX_LEVELS], *crd[IR_MAX_LEVELS];
  bool ready; /* arrays are there: bound, allocated or packed */
} rt_tensor_slots;

typedef struct rt_workspace_slot {
  const ir_buf *buf;
  rt_slot slot;
  void **each; /* further sets of a buffer of which every part has its own; NULL until asked for */
} rt_workspace_slot;

typedef struct rt_memory {
  ir_arena *arena;
  const ir_kernel *kernel;
  const int64_t *sizes;
  rt_cuda *cuda; /* NULL: host only */
  ir_sink *sink;
  IR_VEC(rt_tensor_slots) tensors;
  IR_VEC(rt_workspace_slot) workspaces;
  int64_t workspace_bytes;
  bool fenced; /* device arrays: poisoned, between canaries */
} rt_memory;

void rt_memory_new(rt_memory *memory, ir_arena *arena, const ir_kernel *kernel,
                   const int64_t *sizes, rt_cuda *cuda, ir_sink *sink);
void rt_memory_release(rt_memory *memory);
spc_status rt_memory_bind(rt_memory *memory, const ir_tensor *tensor, const ir_view *view);
rt_tensor_slots *rt_memory_tensor(rt_memory *memory, const ir_tensor *tensor);

/* Makes sure that a tensor's arrays are there: dense formats by size, `like` by sharing the model's
 * level arrays.  False (no diagnostic) when its pattern is not known yet. */
spc_status rt_memory_need(rt_memory *memory, const ir_tensor *tensor, bool *there);
spc_status rt_memory_workspace(rt_memory *memory, const ir_buf *buf, int64_t count, rt_slot **out);
/* Zeroed memory like that of a workspace that is there, for set 1 .. sets-1 (ir_buf.each). */
void *rt_memory_each(rt_memory *memory, const ir_buf *buf, int set, int sets);
spc_status rt_memory_buffer(rt_memory *memory, const ir_buf *buf, rt_slot **out);

/* The newest bytes on the host, or on the device. */
spc_status rt_slot_to_host(rt_memory *memory, rt_slot *slot);
spc_status rt_slot_to_device(rt_memory *memory, rt_slot *slot);
spc_status rt_memory_check_fences(rt_memory *memory); /* after the device has finished */

#endif
