/* doctor.c - `spc doctor`: what was found on this machine, and what to do about what was not. */
#include <dlfcn.h>
#include <stdlib.h>

#include "driver/driver.h"

typedef struct finding {
  const char *what;
  bool there;
  const char *detail, *remedy;
} finding;

static const char *gpu_text(drv_session *s, bool *there) {
  rt_cuda *cuda = NULL;
  const char *why = "";
  *there = rt_cuda_open(&cuda, &why) == SPC_OK;
  if (!*there) return ir_strdup(s->arena, why);
  int version = rt_cuda_driver_version(cuda);
  const char *text = ir_format_text(
      s->arena, "%s, %s, %d multiprocessors, driver for CUDA %d.%d", rt_cuda_name(cuda),
      rt_cuda_arch(cuda), rt_cuda_multiprocessors(cuda), version / 1000, version % 1000 / 10);
  rt_cuda_close(cuda);
  return text;
}

static const char *cublas_text(bool *there) {
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12"};
  for (int i = 0; i < IR_COUNT(names); i++) {
    void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    if (!library) continue; /* stays loaded: unloading it loses what its C++ library holds */
    *there = true;
    return names[i];
  }
  *there = false;
  return "libcublasLt.so.13 or .12 was not found";
}

static void print_findings(drv_session *s, const finding *all, int count) {
  ir_text t = ir_text_new(s->arena);
  for (int i = 0; i < count && s->options.json; i++) {
    ir_text_put(&t, i ? ",\n " : "[");
    ir_text_put(&t, "{\"what\":");
    ir_text_json(&t, all[i].what);
    ir_text_printf(&t, ",\"found\":%s,\"detail\":", all[i].there ? "true" : "false");
    ir_text_json(&t, all[i].detail);
    ir_text_put(&t, "}");
  }
  if (s->options.json) ir_text_put(&t, "]\n");
  for (int i = 0; i < count && !s->options.json; i++) {
    ir_text_printf(&t, "%-9s %-4s %s\n", all[i].what, all[i].there ? "ok" : "no", all[i].detail);
    if (!all[i].there && all[i].remedy) ir_text_printf(&t, "%-14s -> %s\n", "", all[i].remedy);
  }
  fputs(t.data, stdout);
}

/* "/home/ada/.cache/spc: 12 entries, 3.4 of 1024 MiB", or why nothing is kept. */
static const char *cache_text(drv_session *s, bool *there) {
  rt_cache_probe(s->cache);
  const char *why = rt_cache_why(s->cache), *state = rt_cache_state(s->cache);
  rt_cache_size size = rt_cache_measure(s->cache);
  *there = strcmp(state, "off") != 0;
  ir_text text = ir_text_new(s->arena);
  if (*rt_cache_folder(s->cache)) ir_text_printf(&text, "%s: ", rt_cache_folder(s->cache));
  if (*there)
    ir_text_printf(&text, "%lld entries, %.1f of %.0f MiB", (long long)size.entries,
                   (double)size.bytes / (1 << 20), (double)size.limit / (1 << 20));
  if (*there && strcmp(state, "on")) ir_text_put(&text, ", only read");
  if (*why) ir_text_printf(&text, "%s%s", *there ? "; " : "", why);
  return text.data;
}

int drv_doctor(drv_session *s) {
  bool gpu, cublas, cache;
  const char *cache_detail = cache_text(s, &cache);
  const char *gpu_detail = gpu_text(s, &gpu);
  const char *cublas_detail = cublas_text(&cublas);
  const char *cpu =
      ir_format_text(s->arena, "%s%s%s, vectors of %d bits", cg_cpu_version(),
                     cg_cpu_available() ? ", host " : "", cg_cpu_available() ? cg_cpu_host() : "",
                     cg_cpu_available() ? cg_cpu_vector_bits(s->options.mcpu) : 0);
  const finding all[] = {
      {"spc", true, SPC_VERSION ", spx 1", NULL},
      {"LLVM", cg_cpu_available(), cpu,
       "build with llvm-19-dev and libzstd-dev; --backend=interp runs without it"},
      {"NVRTC", cg_nvrtc_available(), cg_nvrtc_version(),
       "pip install nvidia-cuda-nvrtc, then SPC_NVRTC_DIR=its folder; CUDA text is printed without "
       "it"},
      {"GPU", gpu, gpu_detail,
       "without a GPU the cpu back end runs; --target=sm_90a still compiles"},
      {"cuBLASLt", cublas, cublas_detail,
       "it is only a candidate for dense products; spc has its own"},
      {"cache", cache, cache_detail, "every process compiles anew; docs/cache.md says what to set"},
  };
  if (s->arguments.items.count) return drv_usage_error(s, "doctor takes no file");
  print_findings(s, all, IR_COUNT(all));
  return 0;
}
