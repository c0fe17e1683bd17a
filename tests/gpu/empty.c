/* empty.c - see empty.h.  The driver is called straight: nothing of the library stands between. */
#include "tests/gpu/empty.h"

#include <stdlib.h>

#include "codegen/codegen.h"
#include "runtime/cuda_driver.h"

enum { THREADS = 128, MAY_START_EARLY = 6 };

struct empty_kernel {
  rt_cuda *cuda;
  ir_arena *arena;
  rt_cuda_module *module;
  spc_args args;
  spc_tensor_maps *maps;
};

static const char *text_of(ir_arena *arena, int maps) {
  if (maps < 0) return "extern \"C\" __global__ void empty() {}\n";
  const char *more = maps ? ", const __grid_constant__ maps m" : "";
  return ir_format_text(arena,
                        "struct args { long long word[%d]; };\n"
                        "struct alignas(64) maps { long long word[%d]; };\n"
                        "extern \"C\" __global__ void empty(const __grid_constant__ args a%s) {}\n",
                        (int)(sizeof(spc_args) / 8), (int)(sizeof(spc_tensor_maps) / 8), more);
}

empty_kernel *empty_new(rt_cuda *cuda, int maps, int shared_bytes) {
  empty_kernel *k = calloc(1, sizeof *k);
  cg_nvrtc_result made = {0};
  k->cuda = cuda;
  k->arena = ir_arena_new();
  if (maps > 0) k->maps = aligned_alloc(64, sizeof *k->maps);
  ir_sink *sink = ir_sink_new(k->arena);
  if (!cg_nvrtc_compile(k->arena, "empty.cu", text_of(k->arena, maps), rt_cuda_arch(cuda), false,
                        NULL, sink, &made)) {
    ir_code_image code = {
        .entry = "empty", .cubin = made.data, .threads = THREADS, .shared_bytes = shared_bytes};
    code.cubin_bytes = made.bytes;
    if (!rt_cuda_load(cuda, &code, &k->module)) return k;
  }
  empty_free(k);
  return NULL;
}

int empty_launch(const empty_kernel *k, void *stream) {
  void *parameters[] = {(void *)&k->args, k->maps};
  cu_launch_attribute early = {.id = MAY_START_EARLY, .value = {.number = 1}};
  cu_launch_config config = {.grid = {132, 1, 1},
                             .block = {THREADS, 1, 1},
                             .shared_bytes = (unsigned)k->module->shared_bytes,
                             .stream = stream,
                             .attributes = &early,
                             .attribute_count = 1};
  return k->cuda->driver.launch(&config, k->module->function, parameters, NULL);
}

void empty_free(empty_kernel *k) {
  if (!k) return;
  rt_cuda_unload(k->cuda, k->module);
  ir_arena_free(k->arena);
  free(k->maps);
  free(k);
}
