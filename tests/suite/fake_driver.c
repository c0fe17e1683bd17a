/* A CUDA driver that does nothing, for tests of the host's side on machines without a GPU: memory
 * is the host's, launches succeed and compute nothing.  Every function of runtime/cuda_driver.h is
 * here under its own name, with its prototype; one that is missing or differs does not compile.
 *   FAKE_FAILS=cuMemAlloc_v2   that function answers 719
 *   FAKE_MEMORY=none           all memory is refused: it must come from somewhere else
 * A capture in the global mode ends with an error when a thread that is not relaxed makes a call that takes memory,
 * loads or waits meanwhile, or when any thread uses the default stream.
 * Usage: SPC_CUDA_LIB=libfake_driver.so ... */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda_driver.h"

/* A function named fake_FIELD here, and as the driver names it in the library. */
#define DECLARE(FIELD, NAME, PARAMETERS)                                                           \
  __attribute__((visibility("default"))) cu_result fake_##FIELD PARAMETERS __asm__(NAME);
RT_DRIVER_FUNCTIONS(DECLARE)
#undef DECLARE

enum { FAILED = 719, NO_MEMORY = 2, SOME_HANDLE = 8 };
enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 };

static const char *failing;
static int no_memory;
__attribute__((constructor)) static void read_environment(void) {
  const char *memory = getenv("FAKE_MEMORY");
  failing = getenv("FAKE_FAILS");
  no_memory = memory && !strcmp(memory, "none");
}

/* ---- captures -------------------------------------------------------------------------------- */
enum { GLOBAL = 0, RELAXED = 2, CAPTURE_BROKEN = 901, CAPTURE_UNSAFE = 900 };
static atomic_int capturing, broken; /* under way in the global mode; spoilt */
static _Thread_local __attribute__((tls_model("initial-exec"))) int own_mode = GLOBAL; /* asks for no memory */

static cu_result unsafe(bool default_stream) {
  if (!atomic_load(&capturing) || (own_mode == RELAXED && !default_stream)) return 0;
  atomic_store(&broken, 1);
  return CAPTURE_UNSAFE;
}

static cu_result result_of(const char *name) {
  return failing && !strcmp(failing, name) ? FAILED : 0;
}
#define UNLESS_FAILS(NAME, ...)                                                                    \
  cu_result result = result_of(NAME);                                                              \
  if (result) return result;                                                                       \
  __VA_ARGS__;                                                                                     \
  return 0
#define UNLESS_BREAKS(DEFAULT_STREAM)                                                              \
  if (unsafe(DEFAULT_STREAM)) return CAPTURE_UNSAFE
#define HANDLE(to) *(void **)(to) = (void *)(uintptr_t)SOME_HANDLE

/* ---- the device
 * ---------------------------------------------------------------------------------- */
cu_result fake_init(unsigned flags) { UNLESS_FAILS("cuInit", (void)flags); }
cu_result fake_driver_version(int *version) {
  UNLESS_FAILS("cuDriverGetVersion", *version = 13000);
}
cu_result fake_device_count(int *count) { UNLESS_FAILS("cuDeviceGetCount", *count = 1); }
cu_result fake_device_get(int *device, int number) {
  UNLESS_FAILS("cuDeviceGet", *device = number);
}
cu_result fake_device_name(char *name, int length, int device) {
  (void)device;
  UNLESS_FAILS("cuDeviceGetName", strncpy(name, "none", (size_t)length));
}
cu_result fake_device_attribute(int *value, int attribute, int device) {
  (void)device;
  UNLESS_FAILS("cuDeviceGetAttribute", *value = attribute == MAJOR             ? 9
                                                : attribute == MINOR           ? 0
                                                : attribute == MULTIPROCESSORS ? 132
                                                                               : 232448);
}
cu_result fake_context_retain(cu_context **context, int device) {
  (void)device;
  UNLESS_FAILS("cuDevicePrimaryCtxRetain", HANDLE(context));
}
cu_result fake_context_release(int device) {
  UNLESS_FAILS("cuDevicePrimaryCtxRelease_v2", (void)device);
}
cu_result fake_context_set(cu_context *context) { UNLESS_FAILS("cuCtxSetCurrent", (void)context); }

/* ---- memory: what is freed is gone, whatever is said of it
 * --------------------------------------- */
static cu_result allocate(const char *name, void *to, size_t bytes) {
  void *at = NULL;
  cu_result result = result_of(name);
  if (!result) result = unsafe(false);
  if (result || no_memory) return result ? result : NO_MEMORY;
  if (posix_memalign(&at, 256, bytes)) return NO_MEMORY;
  memset(at, 0, bytes);
  memcpy(to, &at, sizeof at);
  return 0;
}
cu_result fake_allocate(cu_address *address, size_t bytes) {
  return allocate("cuMemAlloc_v2", address, bytes);
}
cu_result fake_release(cu_address address) {
  free((void *)(uintptr_t)address);
  cu_result result = unsafe(false);
  return result ? result : result_of("cuMemFree_v2");
}
cu_result fake_host_allocate(void **host, size_t bytes, unsigned flags) {
  (void)flags;
  return allocate("cuMemHostAlloc", host, bytes);
}
cu_result fake_host_release(void *host) {
  free(host);
  cu_result result = unsafe(false);
  return result ? result : result_of("cuMemFreeHost");
}
cu_result fake_host_address(cu_address *address, void *host, unsigned flags) {
  (void)flags;
  UNLESS_FAILS("cuMemHostGetDevicePointer_v2", *address = (cu_address)(uintptr_t)host);
}
cu_result fake_upload(cu_address to, const void *from, size_t bytes) {
  UNLESS_BREAKS(true);
  UNLESS_FAILS("cuMemcpyHtoD_v2", memcpy((void *)(uintptr_t)to, from, bytes));
}
cu_result fake_upload_on(cu_address to, const void *from, size_t bytes, cu_stream *stream) {
  UNLESS_BREAKS(!stream);
  UNLESS_FAILS("cuMemcpyHtoDAsync_v2", memcpy((void *)(uintptr_t)to, from, bytes));
}
cu_result fake_download(void *to, cu_address from, size_t bytes) {
  UNLESS_BREAKS(true);
  UNLESS_FAILS("cuMemcpyDtoH_v2", memcpy(to, (const void *)(uintptr_t)from, bytes));
}
cu_result fake_fill(cu_address to, unsigned char byte, size_t bytes, cu_stream *stream) {
  (void)stream;
  UNLESS_FAILS("cuMemsetD8Async", memset((void *)(uintptr_t)to, byte, bytes));
}

/* ---- modules, launches, maps
 * --------------------------------------------------------------------- */
cu_result fake_module_load(cu_module **module, const void *image) {
  (void)image;
  UNLESS_BREAKS(false);
  UNLESS_FAILS("cuModuleLoadData", HANDLE(module));
}
cu_result fake_module_unload(cu_module *module) { UNLESS_BREAKS(false); UNLESS_FAILS("cuModuleUnload", (void)module); }
cu_result fake_module_function(cu_function **function, cu_module *module, const char *name) {
  (void)module, (void)name;
  UNLESS_FAILS("cuModuleGetFunction", HANDLE(function));
}
cu_result fake_function_attribute(cu_function *function, int attribute, int value) {
  (void)function, (void)attribute;
  UNLESS_FAILS("cuFuncSetAttribute", (void)value);
}
cu_result fake_launch(const cu_launch_config *config, cu_function *function, void **parameters,
                      void **extra) {
  (void)config, (void)function, (void)parameters;
  UNLESS_FAILS("cuLaunchKernelEx", (void)extra);
}
cu_result fake_tensor_map(spc_tensor_map *map, int element, unsigned rank, void *base,
                          const unsigned long long *extent, const unsigned long long *stride,
                          const unsigned *box, const unsigned *step, int interleave, int swizzle,
                          int promotion, int fill) {
  (void)element, (void)rank, (void)base, (void)extent, (void)stride, (void)box, (void)step;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  UNLESS_FAILS("cuTensorMapEncodeTiled", memset(map, 0, sizeof *map));
}

/* ---- streams, graphs, events
 * --------------------------------------------------------------------- */
cu_result fake_stream_new(cu_stream **stream, unsigned flags) {
  (void)flags;
  UNLESS_FAILS("cuStreamCreate", HANDLE(stream));
}
cu_result fake_stream_free(cu_stream *stream) { UNLESS_FAILS("cuStreamDestroy_v2", (void)stream); }
cu_result fake_stream_wait(cu_stream *stream) { UNLESS_BREAKS(!stream); UNLESS_FAILS("cuStreamSynchronize", (void)stream); }
cu_result fake_capture_mode(int *mode) {
  int before = own_mode;
  own_mode = *mode;
  UNLESS_FAILS("cuThreadExchangeStreamCaptureMode", *mode = before);
}
cu_result fake_capture_begin(cu_stream *stream, int mode) {
  if (mode == GLOBAL) atomic_fetch_add(&capturing, 1);
  UNLESS_FAILS("cuStreamBeginCapture_v2", (void)stream);
}
cu_result fake_capture_end(cu_stream *stream, cu_graph **graph) {
  (void)stream;
  if (atomic_exchange(&capturing, 0) && atomic_exchange(&broken, 0)) return CAPTURE_BROKEN;
  UNLESS_FAILS("cuStreamEndCapture", HANDLE(graph));
}
cu_result fake_graph_instantiate(cu_graph_exec **exec, cu_graph *graph, unsigned long long flags) {
  (void)graph, (void)flags;
  UNLESS_FAILS("cuGraphInstantiateWithFlags", HANDLE(exec));
}
cu_result fake_graph_launch(cu_graph_exec *exec, cu_stream *stream) {
  (void)exec;
  UNLESS_FAILS("cuGraphLaunch", (void)stream);
}
cu_result fake_graph_free(cu_graph *graph) { UNLESS_FAILS("cuGraphDestroy", (void)graph); }
cu_result fake_graph_exec_free(cu_graph_exec *exec) {
  UNLESS_FAILS("cuGraphExecDestroy", (void)exec);
}
cu_result fake_event_new(cu_event **event, unsigned flags) {
  (void)flags;
  UNLESS_FAILS("cuEventCreate", HANDLE(event));
}
cu_result fake_event_free(cu_event *event) { UNLESS_FAILS("cuEventDestroy_v2", (void)event); }
cu_result fake_event_record(cu_event *event, cu_stream *stream) {
  (void)event;
  UNLESS_FAILS("cuEventRecord", (void)stream);
}
cu_result fake_event_wait(cu_event *event) { UNLESS_FAILS("cuEventSynchronize", (void)event); }
cu_result fake_event_elapsed(float *milliseconds, cu_event *begin, cu_event *end) {
  (void)begin, (void)end;
  UNLESS_FAILS("cuEventElapsedTime", *milliseconds = 0);
}
cu_result fake_error_text(cu_result result, const char **text) {
  (void)result;
  *text = "the fake driver fails";
  return result_of("cuGetErrorString");
}
cu_result fake_error_name(cu_result result, const char **text) {
  (void)result;
  *text = "CUDA_ERROR_FAKE";
  return result_of("cuGetErrorName");
}
