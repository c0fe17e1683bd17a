/* cuda_driver.c - finds the CUDA driver and the device, and keeps its words when a call fails.
 *
 * Search order: SPC_CUDA_LIB, then libcuda.so.1 of the loader.  One device (number 0 of what the
 * process sees) and its primary context, shared with whatever else the process runs on it.  A
 * machine without driver or GPU gets SPC_UNAVAILABLE and one sentence. */
#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/cuda_driver.h"

enum {
  ATTRIBUTE_MULTIPROCESSORS = 16,
  ATTRIBUTE_MAJOR = 75,
  ATTRIBUTE_MINOR = 76,
  ATTRIBUTE_SHARED_OPTIN = 97
};

spc_status rt_driver_check(rt_cuda *cuda, const char *what, cu_result result) {
  if (!result) return SPC_OK;
  const char *name = "unknown error", *text = "";
  cuda->driver.error_name(result, &name);
  cuda->driver.error_text(result, &text);
  snprintf(cuda->error, sizeof cuda->error, "%s: %s (%s, %d)", what, text, name, result);
  return result == 2 ? SPC_OUT_OF_MEMORY : SPC_INTERNAL;
}

spc_status rt_driver_enter(rt_cuda *cuda) {
  return rt_driver_check(cuda, "context_set", cuda->driver.context_set(cuda->context));
}

int rt_cuda_relax(rt_cuda *cuda) {
  enum { RELAXED = 2 };
  int mode = RELAXED;
  if (!cuda) return mode;
  return RT_CUDA(cuda, capture_mode, &mode) ? RELAXED : mode;
}

void rt_cuda_restore(rt_cuda *cuda, int mode) {
  if (cuda) (void)RT_CUDA(cuda, capture_mode, &mode);
}

spc_status rt_cuda_enter(rt_cuda *cuda) { return rt_driver_enter(cuda); }

/* ---- the library ----------------------------------------------------------------------------- */
static const char *find_symbols(rt_cuda *cuda) {
#define RT_FIND(FIELD, NAME, PARAMETERS)                                                           \
  {                                                                                                \
    void *symbol = dlsym(cuda->library, NAME);                                                     \
    if (!symbol) return "the CUDA driver is too old: it lacks " NAME;                              \
    memcpy(&cuda->driver.FIELD, &symbol, sizeof symbol);                                           \
  }
  RT_DRIVER_FUNCTIONS(RT_FIND)
#undef RT_FIND
  return NULL;
}

static const char *open_library(rt_cuda *cuda) {
  const char *path = getenv("SPC_CUDA_LIB");
  cuda->library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda->library) return find_symbols(cuda);
  return path && *path
             ? "the library that SPC_CUDA_LIB names cannot be loaded"
             : "libcuda.so.1 was not found: no NVIDIA driver is installed on this machine";
}

/* ---- the device ------------------------------------------------------------------------------ */
static const char *target_of(int major, int minor) {
  if (major == 8) return "sm_80";
  if (major == 9) return minor == 0 ? "sm_90a" : "sm_90";
  if (major == 10) return minor == 0 ? "sm_100a" : "sm_100";
  return major >= 12 ? "sm_120" : NULL;
}

static const char *open_device(rt_cuda *cuda) {
  const rt_driver *d = &cuda->driver;
  int count = 0, major = 0, minor = 0;
  if (d->init(0)) return "the CUDA driver does not start (cuInit failed): is there a GPU?";
  if (d->device_count(&count) || count == 0) return "the CUDA driver sees no GPU";
  if (d->device_get(&cuda->device, 0) || d->driver_version(&cuda->version) ||
      d->device_name(cuda->name, (int)sizeof cuda->name, cuda->device) ||
      d->device_attribute(&cuda->multiprocessors, ATTRIBUTE_MULTIPROCESSORS, cuda->device) ||
      d->device_attribute(&cuda->shared_bytes, ATTRIBUTE_SHARED_OPTIN, cuda->device) ||
      d->device_attribute(&major, ATTRIBUTE_MAJOR, cuda->device) ||
      d->device_attribute(&minor, ATTRIBUTE_MINOR, cuda->device))
    return "the CUDA driver does not describe its first GPU";
  cuda->arch = target_of(major, minor);
  if (!cuda->arch)
    return "the GPU is older than compute capability 8.0, the oldest that kernels are made for";
  return d->context_retain(&cuda->context, cuda->device)
             ? "the GPU gives no context: is it used exclusively?"
             : NULL;
}

spc_status rt_cuda_open(rt_cuda **out, const char **why) {
  const char *fault = "no memory";
  rt_cuda *cuda = calloc(1, sizeof *cuda);
  *out = NULL;
  if (cuda) fault = open_library(cuda);
  if (cuda && !fault) fault = open_device(cuda);
  if (!fault) {
    *out = cuda;
    return SPC_OK;
  }
  if (why) *why = fault;
  if (cuda && cuda->library) dlclose(cuda->library);
  free(cuda);
  return SPC_UNAVAILABLE;
}

void rt_cuda_close(rt_cuda *cuda) {
  if (!cuda) return;
  if (!rt_driver_enter(cuda)) {
    int mode = rt_cuda_relax(cuda);
    rt_cublaslt_close(cuda);
    if (cuda->begin) cuda->driver.event_free(cuda->begin);
    if (cuda->end) cuda->driver.event_free(cuda->end);
    rt_cuda_restore(cuda, mode);
  }
  cuda->driver.context_release(cuda->device);
  dlclose(cuda->library);
  free(cuda);
}

void rt_cuda_use_allocator(rt_cuda *cuda, const spc_allocator *allocator) {
  cuda->allocator = allocator;
}

const char *rt_cuda_name(const rt_cuda *cuda) { return cuda->name; }
const char *rt_cuda_arch(const rt_cuda *cuda) { return cuda->arch; }
int rt_cuda_multiprocessors(const rt_cuda *cuda) { return cuda->multiprocessors; }
int rt_cuda_driver_version(const rt_cuda *cuda) { return cuda->version; }
rt_cuda_counters *rt_cuda_count(rt_cuda *cuda) { return &cuda->counters; }
const char *rt_cuda_error(const rt_cuda *cuda) { return cuda->error; }
