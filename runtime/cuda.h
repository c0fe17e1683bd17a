/* cuda.h - the CUDA driver, loaded at run time with our own prototypes; one device, one context.
 *
 * Nothing here is linked: rt_cuda_open answers SPC_UNAVAILABLE with *why ("libcuda.so.1 was not
 * found") on a machine without a GPU.  Counters of host-visible traffic let tests prove promise 3.
 */
#ifndef SPC_RUNTIME_CUDA_H
#define SPC_RUNTIME_CUDA_H

#include "ir/image.h"
#include "ir/tensor.h"
#include "runtime/abi.h"

typedef struct rt_cuda rt_cuda;
typedef struct rt_cuda_module rt_cuda_module; /* one cubin, one entry, attributes set */

typedef struct rt_cuda_counters {
  int64_t launches, library_calls, synchronisations, to_host_bytes, to_device_bytes, allocations,
      module_loads, library_settled;
} rt_cuda_counters;

spc_status rt_cuda_open(rt_cuda **out, const char **why);
void rt_cuda_close(rt_cuda *cuda);
/* Where rt_cuda_alloc and rt_cuda_alloc_mapped, and what this handle makes for plans, take memory
 * from now on; outlives all of it. */
void rt_cuda_use_allocator(rt_cuda *cuda, const spc_allocator *allocator);
const char *rt_cuda_name(const rt_cuda *cuda); /* "NVIDIA H200" */
const char *rt_cuda_arch(const rt_cuda *cuda); /* the best target of it: "sm_90a" */
int rt_cuda_multiprocessors(const rt_cuda *cuda);
int rt_cuda_driver_version(const rt_cuda *cuda); /* 13000 */
rt_cuda_counters *rt_cuda_count(rt_cuda *cuda);

spc_status rt_cuda_alloc(rt_cuda *cuda, size_t bytes, void **device);
void rt_cuda_release(rt_cuda *cuda, void *device);
/* What takes or frees memory, or loads a module, would break a capture that is under way in any thread (of the global
 * mode, the default): a request compiles and prepares, a collector of garbage frees, when they like.  Between the two
 * this thread may; they nest, and a NULL handle is of no GPU. */
int rt_cuda_relax(rt_cuda *cuda);
void rt_cuda_restore(rt_cuda *cuda, int mode);
/* Host memory that the device reads and writes too: its two addresses. */
spc_status rt_cuda_alloc_mapped(rt_cuda *cuda, size_t bytes, void **host, void **device);
void rt_cuda_release_mapped(rt_cuda *cuda, void *host);
spc_status rt_cuda_upload(rt_cuda *cuda, void *device, const void *host, size_t bytes);
/* The same on a stream of its own, and waits: the default stream waits for others, which breaks their captures. */
spc_status rt_cuda_upload_apart(rt_cuda *cuda, void *device, const void *host, size_t bytes);
spc_status rt_cuda_download(rt_cuda *cuda, void *host, const void *device, size_t bytes);
spc_status rt_cuda_zero(rt_cuda *cuda, void *device, size_t bytes, void *stream);
spc_status rt_cuda_fill(rt_cuda *cuda, void *device, unsigned char byte, size_t bytes,
                        void *stream);
spc_status rt_cuda_synchronise(rt_cuda *cuda, void *stream); /* also surfaces earlier faults */
const char *rt_cuda_error(const rt_cuda *cuda); /* text of the last driver error of this handle */

spc_status rt_cuda_load(rt_cuda *cuda, const ir_code_image *code, rt_cuda_module **out);
void rt_cuda_unload(rt_cuda *cuda, rt_cuda_module *module);
/* The map of an array of these sizes at `device`; *fits false where the engine cannot read it. */
spc_status rt_cuda_map(rt_cuda *cuda, const ir_box_map *map, const int64_t *sizes, void *device,
                       spc_tensor_map *out, bool *fits);
/* Makes the device's context the calling thread's: once before launches. */
spc_status rt_cuda_enter(rt_cuda *cuda);
/* grid[0] = 0: persistent, code->blocks_per_sm blocks a multiprocessor; of a capped code grid[0]
 * counts tiles and as many blocks share them at most; `evenly` may want all of these blocks for fewer tiles.  maps: NULL where the code has none. */
spc_status rt_cuda_launch(rt_cuda *cuda, rt_cuda_module *module, const int64_t grid[3],
                          const spc_args *args, const spc_tensor_maps *maps, void *stream);

/* Streams, events and graphs, for tests and benches. */
spc_status rt_cuda_stream_new(rt_cuda *cuda, void **stream);
void rt_cuda_stream_free(rt_cuda *cuda, void *stream);
spc_status rt_cuda_capture_begin(rt_cuda *cuda, void *stream);
spc_status rt_cuda_capture_end(rt_cuda *cuda, void *stream, void **graph_exec);
spc_status rt_cuda_graph_launch(rt_cuda *cuda, void *graph_exec, void *stream);
void rt_cuda_graph_free(rt_cuda *cuda, void *graph_exec);
spc_status rt_cuda_time_begin(rt_cuda *cuda, void *stream);
spc_status rt_cuda_time_end(rt_cuda *cuda, void *stream, double *milliseconds);

#endif
