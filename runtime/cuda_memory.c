/* cuda_memory.c - device memory: allocation, copies, fills; every byte that crosses is counted. */
#include "runtime/cuda_driver.h"

enum { DEVICE_ALIGN = 256, PINNED_ALIGN = 64 };

/* Of the caller's allocator, with the context current. */
static spc_status take(rt_cuda *cuda, spc_memory kind, size_t bytes, size_t alignment, void **at) {
  SPC_TRY(rt_driver_enter(cuda));
  *at = ir_take_kind(cuda->allocator, kind, bytes ? bytes : 1, alignment);
  if (*at) return SPC_OK;
  snprintf(cuda->error, sizeof cuda->error,
           "the caller's allocator gave no %s memory of %zu bytes, aligned to %zu",
           kind == SPC_MEMORY_DEVICE ? "device" : "pinned", bytes, alignment);
  return SPC_OUT_OF_MEMORY;
}

static void give_back(rt_cuda *cuda, spc_memory kind, void *at) {
  (void)rt_driver_enter(cuda);
  cuda->allocator->release(cuda->allocator->user, kind, at);
}

spc_status rt_cuda_alloc(rt_cuda *cuda, size_t bytes, void **device) {
  cu_address address = 0;
  *device = NULL;
  if (cuda->allocator) return take(cuda, SPC_MEMORY_DEVICE, bytes, DEVICE_ALIGN, device);
  SPC_TRY(RT_CUDA(cuda, allocate, &address, bytes ? bytes : 1));
  cuda->counters.allocations++;
  *device = (void *)(uintptr_t)address;
  return SPC_OK;
}

void rt_cuda_release(rt_cuda *cuda, void *device) {
  if (!device) return;
  int mode = rt_cuda_relax(cuda);
  if (cuda->allocator)
    give_back(cuda, SPC_MEMORY_DEVICE, device);
  else
    (void)RT_CUDA(cuda, release, rt_address(device));
  rt_cuda_restore(cuda, mode);
}

enum { HOST_PORTABLE = 1, HOST_MAPPED = 2 };

spc_status rt_cuda_alloc_mapped(rt_cuda *cuda, size_t bytes, void **host, void **device) {
  cu_address address = 0;
  *host = *device = NULL;
  if (cuda->allocator) {
    SPC_TRY(take(cuda, SPC_MEMORY_PINNED, bytes, PINNED_ALIGN, host));
  } else {
    SPC_TRY(RT_CUDA(cuda, host_allocate, host, bytes ? bytes : 1, HOST_PORTABLE | HOST_MAPPED));
    cuda->counters.allocations++;
  }
  spc_status status = RT_CUDA(cuda, host_address, &address, *host, 0);
  if (status) {
    rt_cuda_release_mapped(cuda, *host);
    *host = NULL;
  }
  *device = (void *)(uintptr_t)address;
  return status;
}

void rt_cuda_release_mapped(rt_cuda *cuda, void *host) {
  if (!host) return;
  int mode = rt_cuda_relax(cuda);
  if (cuda->allocator)
    give_back(cuda, SPC_MEMORY_PINNED, host);
  else
    (void)RT_CUDA(cuda, host_release, host);
  rt_cuda_restore(cuda, mode);
}

spc_status rt_cuda_upload(rt_cuda *cuda, void *device, const void *host, size_t bytes) {
  if (!bytes) return SPC_OK;
  cuda->counters.to_device_bytes += (int64_t)bytes;
  return RT_CUDA(cuda, upload, rt_address(device), host, bytes);
}

spc_status rt_cuda_upload_apart(rt_cuda *cuda, void *device, const void *host, size_t bytes) {
  void *stream;
  SPC_TRY(rt_cuda_stream_new(cuda, &stream));
  cuda->counters.to_device_bytes += (int64_t)bytes;
  spc_status status = RT_CUDA(cuda, upload_on, rt_address(device), host, bytes, stream);
  if (!status) status = rt_cuda_synchronise(cuda, stream);
  rt_cuda_stream_free(cuda, stream);
  return status;
}

spc_status rt_cuda_download(rt_cuda *cuda, void *host, const void *device, size_t bytes) {
  if (!bytes) return SPC_OK;
  cuda->counters.to_host_bytes += (int64_t)bytes;
  cuda->counters.synchronisations++;
  return RT_CUDA(cuda, download, host, rt_address(device), bytes);
}

spc_status rt_cuda_fill(rt_cuda *cuda, void *device, unsigned char byte, size_t bytes,
                        void *stream) {
  if (!bytes) return SPC_OK;
  return RT_CUDA(cuda, fill, rt_address(device), byte, bytes, stream);
}

spc_status rt_cuda_zero(rt_cuda *cuda, void *device, size_t bytes, void *stream) {
  return rt_cuda_fill(cuda, device, 0, bytes, stream);
}

spc_status rt_cuda_synchronise(rt_cuda *cuda, void *stream) {
  cuda->counters.synchronisations++;
  return RT_CUDA(cuda, stream_wait, stream);
}
