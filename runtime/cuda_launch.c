/* cuda_launch.c - modules, launches, streams, graphs, timing.
 *
 * A module is one cubin with one entry; its attributes are set when it is loaded, so that a launch
 * is one driver call: no allocation, no lock, no synchronisation (it can be captured). */
#include "ir/target.h"
#include "runtime/cuda_driver.h"

enum { FUNCTION_MAX_DYNAMIC_SHARED = 8, CAPTURE_THREAD_LOCAL = 1, STREAM_NON_BLOCKING = 1 };
enum { STATIC_SHARED_LIMIT = 48 * 1024 };
enum { MAY_START_EARLY = 6 }; /* CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION */

spc_status rt_cuda_load(rt_cuda *cuda, const ir_code_image *code, rt_cuda_module **out) {
  rt_cuda_module *m = ir_take(cuda->allocator, sizeof *m, IR_TAKE_ALIGN);
  *out = NULL;
  if (!m) return SPC_OUT_OF_MEMORY;
  m->threads = code->threads;
  m->shared_bytes = code->shared_bytes;
  m->blocks_per_sm = code->blocks_per_sm > 0 ? code->blocks_per_sm : 1;
  m->capped = code->capped;
  m->evenly = code->evenly;
  m->cluster = code->cluster > 0 ? code->cluster : 1;
  /* Emitted kernels wait for the grid before them (ptx_wait_grid, kernels/ptx.cuh); one that was edited may not. */
  const ir_target *target = ir_target_find(cuda->arch);
  m->follows = !code->path && target && target->arch >= 90;
  spc_status status = RT_CUDA(cuda, module_load, &m->module, code->cubin);
  if (!status) status = RT_CUDA(cuda, module_function, &m->function, m->module, code->entry);
  if (!status && m->shared_bytes > STATIC_SHARED_LIMIT)
    status = RT_CUDA(cuda, function_attribute, m->function, FUNCTION_MAX_DYNAMIC_SHARED,
                     m->shared_bytes);
  if (status) {
    rt_cuda_unload(cuda, m);
    return status;
  }
  cuda->counters.module_loads++;
  *out = m;
  return SPC_OK;
}

void rt_cuda_unload(rt_cuda *cuda, rt_cuda_module *module) {
  if (!module) return;
  int mode = rt_cuda_relax(cuda);
  if (module->module) (void)RT_CUDA(cuda, module_unload, module->module);
  rt_cuda_restore(cuda, mode);
  ir_give_back(cuda->allocator, module);
}

spc_status rt_cuda_launch(rt_cuda *cuda, rt_cuda_module *module, const int64_t grid[3],
                          const spc_args *args, const spc_tensor_maps *maps, void *stream) {
  void *parameters[] = {(void *)args, (void *)maps};
  int64_t resident = (int64_t)module->blocks_per_sm * cuda->multiprocessors, x = grid[0];
  bool some = module->evenly && x > resident / 3 && x <= resident / 4 * 3;
  if (!x || some || (module->capped && x > resident)) x = resident - resident % module->cluster;
  if (x > INT32_MAX || grid[1] > UINT16_MAX || grid[2] > UINT16_MAX) {
    snprintf(cuda->error, sizeof cuda->error,
             "launch: a grid of %lld x %lld x %lld blocks is beyond the device's limit",
             (long long)x, (long long)grid[1], (long long)grid[2]);
    return SPC_INTERNAL;
  }
  cu_launch_attribute early = {.id = MAY_START_EARLY, .value = {.number = 1}};
  cu_launch_config config = {.grid = {(unsigned)x, (unsigned)grid[1], (unsigned)grid[2]},
                             .block = {(unsigned)module->threads, 1, 1},
                             .shared_bytes = (unsigned)module->shared_bytes,
                             .stream = stream,
                             .attributes = &early,
                             .attribute_count = module->follows ? 1 : 0};
  cuda->counters.launches++;
  return rt_driver_check(cuda, "launch",
                         cuda->driver.launch(&config, module->function, parameters, NULL));
}

/* ---- streams and graphs ---------------------------------------------------------------------- */
spc_status rt_cuda_stream_new(rt_cuda *cuda, void **stream) {
  cu_stream *made = NULL;
  spc_status status = RT_CUDA(cuda, stream_new, &made, STREAM_NON_BLOCKING);
  *stream = made;
  return status;
}

void rt_cuda_stream_free(rt_cuda *cuda, void *stream) {
  if (stream) (void)RT_CUDA(cuda, stream_free, stream);
}

spc_status rt_cuda_capture_begin(rt_cuda *cuda, void *stream) {
  return RT_CUDA(cuda, capture_begin, stream, CAPTURE_THREAD_LOCAL);
}

spc_status rt_cuda_capture_end(rt_cuda *cuda, void *stream, void **graph_exec) {
  cu_graph *graph = NULL;
  cu_graph_exec *exec = NULL;
  *graph_exec = NULL;
  SPC_TRY(RT_CUDA(cuda, capture_end, stream, &graph));
  spc_status status = RT_CUDA(cuda, graph_instantiate, &exec, graph, 0);
  (void)RT_CUDA(cuda, graph_free, graph);
  *graph_exec = exec;
  return status;
}

spc_status rt_cuda_graph_launch(rt_cuda *cuda, void *graph_exec, void *stream) {
  return RT_CUDA(cuda, graph_launch, graph_exec, stream);
}

void rt_cuda_graph_free(rt_cuda *cuda, void *graph_exec) {
  if (graph_exec) (void)RT_CUDA(cuda, graph_exec_free, graph_exec);
}

/* ---- timing ---------------------------------------------------------------------------------- */
spc_status rt_cuda_time_begin(rt_cuda *cuda, void *stream) {
  if (!cuda->begin) SPC_TRY(RT_CUDA(cuda, event_new, &cuda->begin, 0));
  if (!cuda->end) SPC_TRY(RT_CUDA(cuda, event_new, &cuda->end, 0));
  return RT_CUDA(cuda, event_record, cuda->begin, stream);
}

spc_status rt_cuda_time_end(rt_cuda *cuda, void *stream, double *milliseconds) {
  float elapsed = 0;
  SPC_TRY(RT_CUDA(cuda, event_record, cuda->end, stream));
  cuda->counters.synchronisations++;
  SPC_TRY(RT_CUDA(cuda, event_wait, cuda->end));
  SPC_TRY(RT_CUDA(cuda, event_elapsed, &elapsed, cuda->begin, cuda->end));
  *milliseconds = (double)elapsed;
  return SPC_OK;
}
