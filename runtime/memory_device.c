/* memory_device.c - the device twins of a run's arrays: allocation, copies, fences.
 *
 * Only arrays that hold something are uploaded.  In a fenced run the rest is filled with 0xff bytes
 * (NaN in every float), and every array stands between two canaries: a kernel that reads what
 * nothing wrote, or writes beside its array, is found without a tool. */
#include "runtime/memory.h"

enum { CANARY = 0xa5, POISON = 0xff };

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

static spc_status fill_fresh(rt_memory *memory, rt_slot *slot, size_t bytes) {
  rt_cuda *cuda = memory->cuda;
  if (memory->fenced &&
      (rt_cuda_fill(cuda, (char *)slot->device - RT_FENCE, CANARY, bytes + 2 * RT_FENCE, NULL) ||
       rt_cuda_fill(cuda, slot->device, POISON, bytes, NULL)))
    return driver_failed(memory);
  if (slot->filled && bytes && rt_cuda_upload(cuda, slot->device, slot->host.data, bytes))
    return driver_failed(memory);
  return SPC_OK;
}

spc_status rt_slot_to_device(rt_memory *memory, rt_slot *slot) {
  if (slot->device) return SPC_OK;
  size_t bytes = slot_bytes(slot), fence = memory->fenced ? RT_FENCE : 0;
  void *base;
  spc_status status = rt_cuda_alloc(memory->cuda, (bytes ? bytes : 16) + 2 * fence, &base);
  if (status) (void)driver_failed(memory);
  SPC_TRY(status);
  slot->device = (char *)base + fence;
  return fill_fresh(memory, slot, bytes);
}

/* ---- fences ---------------------------------------------------------------------------------- */
static spc_status check_side(rt_memory *memory, const rt_slot *slot, const char *at,
                             const char *side) {
  unsigned char seen[RT_FENCE];
  if (rt_cuda_download(memory->cuda, seen, at, sizeof seen)) return driver_failed(memory);
  for (int i = 0; i < RT_FENCE; i++) {
    if (seen[i] == CANARY) continue;
    ir_diag_add(memory->sink, IR_DIAG_INTERNAL, IR_NOWHERE, "a kernel wrote %s the array of `%s`",
                side, slot->name);
    return SPC_INTERNAL;
  }
  return SPC_OK;
}

static spc_status check_fence(rt_memory *memory, const rt_slot *slot) {
  if (!slot || !slot->device || slot->lent) return SPC_OK;
  SPC_TRY(check_side(memory, slot, (const char *)slot->device - RT_FENCE, "before"));
  return check_side(memory, slot, (const char *)slot->device + slot_bytes(slot), "behind");
}

spc_status rt_memory_check_fences(rt_memory *memory) {
  for (int i = 0; i < memory->tensors.count; i++) {
    const rt_tensor_slots *t = &memory->tensors.at[i];
    SPC_TRY(check_fence(memory, t->vals));
    for (int l = 0; l < IR_MAX_LEVELS; l++) {
      SPC_TRY(check_fence(memory, t->pos[l]));
      SPC_TRY(check_fence(memory, t->crd[l]));
    }
  }
  for (int i = 0; i < memory->workspaces.count; i++)
    SPC_TRY(check_fence(memory, &memory->workspaces.at[i].slot));
  return SPC_OK;
}
