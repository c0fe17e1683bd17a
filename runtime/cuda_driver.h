/* cuda_driver.h - shared by runtime/cuda_*.c only: the driver's functions as a table, and the
 * handle.
 *
 * Prototypes are our own (the build needs no CUDA header); names with _v2 are what cuda.h maps the
 * plain names to.  Every call goes through RT_CUDA, which keeps the driver's words for
 * rt_cuda_error. */
#ifndef SPC_RUNTIME_CUDA_DRIVER_H
#define SPC_RUNTIME_CUDA_DRIVER_H

#include "runtime/cuda.h"

typedef int cu_result;
typedef unsigned long long cu_address;
typedef struct cu_context cu_context;
typedef struct cu_module cu_module;
typedef struct cu_function cu_function;
typedef struct cu_stream cu_stream;
typedef struct cu_event cu_event;
typedef struct cu_graph cu_graph;
typedef struct cu_graph_exec cu_graph_exec;

/* What cuLaunchKernelEx takes; of the attribute's value, whose size is 64 bytes, one number. */
typedef struct cu_launch_attribute {
  int id;
  union {
    long long whole[8];
    int number;
  } value;
} cu_launch_attribute;

typedef struct cu_launch_config {
  unsigned grid[3], block[3], shared_bytes;
  cu_stream *stream;
  cu_launch_attribute *attributes;
  unsigned attribute_count;
} cu_launch_config;

/* Name of the field, name in the library, parameters. */
#define RT_DRIVER_FUNCTIONS(F)                                                                     \
  F(init, "cuInit", (unsigned flags))                                                              \
  F(driver_version, "cuDriverGetVersion", (int *version))                                          \
  F(device_count, "cuDeviceGetCount", (int *count))                                                \
  F(device_get, "cuDeviceGet", (int *device, int number))                                          \
  F(device_name, "cuDeviceGetName", (char *name, int length, int device))                          \
  F(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))             \
  F(context_retain, "cuDevicePrimaryCtxRetain", (cu_context * *context, int device))               \
  F(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                 \
  F(context_set, "cuCtxSetCurrent", (cu_context * context))                                        \
  F(allocate, "cuMemAlloc_v2", (cu_address * address, size_t bytes))                               \
  F(release, "cuMemFree_v2", (cu_address address))                                                 \
  F(host_allocate, "cuMemHostAlloc", (void **host, size_t bytes, unsigned flags))                  \
  F(host_release, "cuMemFreeHost", (void *host))                                                   \
  F(host_address, "cuMemHostGetDevicePointer_v2",                                                  \
    (cu_address * address, void *host, unsigned flags))                                            \
  F(upload, "cuMemcpyHtoD_v2", (cu_address to, const void *from, size_t bytes))                    \
  F(upload_on, "cuMemcpyHtoDAsync_v2",                                                             \
    (cu_address to, const void *from, size_t bytes, cu_stream *stream))                            \
  F(download, "cuMemcpyDtoH_v2", (void *to, cu_address from, size_t bytes))                        \
  F(fill, "cuMemsetD8Async", (cu_address to, unsigned char byte, size_t bytes, cu_stream *stream)) \
  F(module_load, "cuModuleLoadData", (cu_module * *module, const void *image))                     \
  F(module_unload, "cuModuleUnload", (cu_module * module))                                         \
  F(module_function, "cuModuleGetFunction",                                                        \
    (cu_function * *function, cu_module * module, const char *name))                               \
  F(function_attribute, "cuFuncSetAttribute", (cu_function * function, int attribute, int value))  \
  F(launch, "cuLaunchKernelEx",                                                                    \
    (const cu_launch_config *config, cu_function *function, void **parameters, void **extra))      \
  F(tensor_map, "cuTensorMapEncodeTiled",                                                          \
    (spc_tensor_map * map, int element, unsigned rank, void *base,                                 \
     const unsigned long long *extent, const unsigned long long *stride, const unsigned *box,      \
     const unsigned *step, int interleave, int swizzle, int promotion, int fill))                  \
  F(stream_new, "cuStreamCreate", (cu_stream * *stream, unsigned flags))                           \
  F(stream_free, "cuStreamDestroy_v2", (cu_stream * stream))                                       \
  F(stream_wait, "cuStreamSynchronize", (cu_stream * stream))                                      \
  F(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *mode))                                \
  F(capture_begin, "cuStreamBeginCapture_v2", (cu_stream * stream, int mode))                      \
  F(capture_end, "cuStreamEndCapture", (cu_stream * stream, cu_graph * *graph))                    \
  F(graph_instantiate, "cuGraphInstantiateWithFlags",                                              \
    (cu_graph_exec * *exec, cu_graph * graph, unsigned long long flags))                           \
  F(graph_launch, "cuGraphLaunch", (cu_graph_exec * exec, cu_stream * stream))                     \
  F(graph_free, "cuGraphDestroy", (cu_graph * graph))                                              \
  F(graph_exec_free, "cuGraphExecDestroy", (cu_graph_exec * exec))                                 \
  F(event_new, "cuEventCreate", (cu_event * *event, unsigned flags))                               \
  F(event_free, "cuEventDestroy_v2", (cu_event * event))                                           \
  F(event_record, "cuEventRecord", (cu_event * event, cu_stream * stream))                         \
  F(event_wait, "cuEventSynchronize", (cu_event * event))                                          \
  F(event_elapsed, "cuEventElapsedTime", (float *milliseconds, cu_event *begin, cu_event *end))    \
  F(error_text, "cuGetErrorString", (cu_result result, const char **text))                         \
  F(error_name, "cuGetErrorName", (cu_result result, const char **text))

typedef struct rt_driver {
#define RT_FIELD(FIELD, NAME, PARAMETERS) cu_result(*FIELD) PARAMETERS;
  RT_DRIVER_FUNCTIONS(RT_FIELD)
#undef RT_FIELD
} rt_driver;

struct rt_cuda {
  const spc_allocator *allocator; /* NULL: memory is the driver's and the C library's */
  void *library;
  rt_driver driver;
  int device, version, multiprocessors, shared_bytes;
  cu_context *context;
  void *cublaslt;        /* the library's handle (cublaslt.c); made on first use, lives as long */
  cu_event *begin, *end; /* of rt_cuda_time_begin and _end; made on first use */
  const char *arch;
  char name[128], error[256];
  rt_cuda_counters counters;
};

struct rt_cuda_module {
  cu_module *module;
  cu_function *function;
  int threads, shared_bytes, blocks_per_sm, cluster;
  bool capped, evenly, follows; /* follows: it waits for the grid before it by itself */
};

/* Makes the context current, runs the call, keeps its words when it fails. */
#define RT_CUDA(cuda, FIELD, ...)                                                                  \
  (rt_driver_enter(cuda) ? SPC_INTERNAL                                                            \
                         : rt_driver_check((cuda), #FIELD, (cuda)->driver.FIELD(__VA_ARGS__)))
spc_status rt_driver_enter(rt_cuda *cuda);
void rt_cublaslt_close(rt_cuda *cuda); /* cublaslt.c; the context is current */
spc_status rt_driver_check(rt_cuda *cuda, const char *what, cu_result result);

static inline cu_address rt_address(const void *device) { return (cu_address)(uintptr_t)device; }

#endif
