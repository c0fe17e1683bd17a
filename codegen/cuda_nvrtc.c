/* cuda_nvrtc.c - NVRTC, loaded at run time: one compile from memory, and what its log says.
 *
 * Search order: SPC_NVRTC_LIB, the loader's path, the toolkit's folder, SPC_NVRTC_DIR (also laid
 * out as NVIDIA's Python wheels are).  The library is looked for once in a process and never
 * unloaded: it keeps its own threads' state.  Kernel files come from memory and keep their names in
 * messages. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "codegen/cuda.h"
#include "codegen/embedded.h"

typedef struct nvrtc_program nvrtc_program;

typedef struct nvrtc_library {
  void *handle;
  int major, minor;
  char version[320]; /* "NVRTC 13.0 (/path)", or why it is not there */
  int (*get_version)(int *major, int *minor);
  int (*create)(nvrtc_program **, const char *source, const char *name, int count,
                const char *const *texts, const char *const *names);
  int (*destroy)(nvrtc_program **);
  int (*compile)(nvrtc_program *, int count, const char *const *options);
  int (*log_size)(nvrtc_program *, size_t *);
  int (*log)(nvrtc_program *, char *);
  int (*cubin_size)(nvrtc_program *, size_t *);
  int (*cubin)(nvrtc_program *, char *);
  int (*ptx_size)(nvrtc_program *, size_t *);
  int (*ptx)(nvrtc_program *, char *);
} nvrtc_library;

static nvrtc_library library; /* written once, under `once` */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- finding it ------------------------------------------------------------------------------ */
static bool find_symbols(nvrtc_library *l) {
  const struct {
    void *to;
    const char *name;
  } wanted[] = {{&l->get_version, "nvrtcVersion"},        {&l->create, "nvrtcCreateProgram"},
                {&l->destroy, "nvrtcDestroyProgram"},     {&l->compile, "nvrtcCompileProgram"},
                {&l->log_size, "nvrtcGetProgramLogSize"}, {&l->log, "nvrtcGetProgramLog"},
                {&l->cubin_size, "nvrtcGetCUBINSize"},    {&l->cubin, "nvrtcGetCUBIN"},
                {&l->ptx_size, "nvrtcGetPTXSize"},        {&l->ptx, "nvrtcGetPTX"}};
  for (int i = 0; i < IR_COUNT(wanted); i++) {
    void *symbol = dlsym(l->handle, wanted[i].name);
    if (!symbol) return false;
    memcpy(wanted[i].to, &symbol, sizeof symbol);
  }
  return true;
}

static bool open_path(const char *path) {
  library.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library.handle) return false;
  if (!find_symbols(&library)) {
    dlclose(library.handle);
    library.handle = NULL;
    return false;
  }
  int major = 0, minor = 0;
  library.get_version(&major, &minor);
  library.major = major;
  library.minor = minor;
  snprintf(library.version, sizeof library.version, "NVRTC %d.%d (%s)", major, minor, path);
  return true;
}

static bool open_in(const char *folder) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (int i = 0; i < IR_COUNT(names); i++) {
    char path[1024];
    int length = snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", names[i]);
    if (length > 0 && (size_t)length < sizeof path && open_path(path)) return true;
  }
  return false;
}

static bool open_below(const char *root) {
  static const char *const folders[] = {"", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", "/lib",
                                        "/lib64"};
  for (int i = 0; i < IR_COUNT(folders); i++) {
    char folder[900];
    int length = snprintf(folder, sizeof folder, "%s%s", root, folders[i]);
    if (length > 0 && (size_t)length < sizeof folder && open_in(folder)) return true;
  }
  return false;
}

static void find_library(void) {
  const char *path = getenv("SPC_NVRTC_LIB"), *root = getenv("SPC_NVRTC_DIR");
  if (path && *path) {
    if (!open_path(path))
      snprintf(library.version, sizeof library.version,
               "NVRTC was not found: SPC_NVRTC_LIB names `%.200s`, which cannot be loaded", path);
    return;
  }
  if (open_in("") || open_in("/usr/local/cuda/lib64") || (root && *root && open_below(root)))
    return;
  snprintf(library.version, sizeof library.version,
           "NVRTC was not found: libnvrtc.so.13 or .12 is neither in the loader's path nor in "
           "/usr/local/cuda/lib64 (install the CUDA toolkit or the wheel nvidia-cuda-nvrtc, or set "
           "SPC_NVRTC_LIB)");
}

static const nvrtc_library *nvrtc(void) {
  pthread_once(&once, find_library);
  return &library;
}

bool cg_nvrtc_available(void) { return nvrtc()->handle != NULL; }

const char *cg_nvrtc_version(void) { return nvrtc()->version; }

bool cg_nvrtc_describe(char *number, size_t number_bytes, char *path, size_t path_bytes) {
  const nvrtc_library *l = nvrtc();
  Dl_info info;
  void *symbol;
  if (!l->handle) return false;
  memcpy(&symbol, &l->get_version, sizeof symbol);
  snprintf(number, number_bytes, "%d.%d", l->major, l->minor);
  snprintf(path, path_bytes, "%s", dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "");
  return true;
}

/* ---- one compile ----------------------------------------------------------------------------- */

static int embedded_files(const char **names, const char **texts) {
  int count = 0;
  for (; cg_embedded_files[count].name; count++) {
    names[count] = cg_embedded_files[count].name;
    texts[count] = cg_embedded_files[count].text;
  }
  return count;
}

static char *log_of(const nvrtc_library *l, nvrtc_program *program) {
  size_t bytes = 0;
  l->log_size(program, &bytes);
  char *log = calloc(bytes + 1, 1);
  if (log && bytes) l->log(program, log);
  return log;
}

static void take_code(const nvrtc_library *l, nvrtc_program *program, bool ptx, cg_nvrtc_raw *out) {
  out->failed = (ptx ? l->ptx_size : l->cubin_size)(program, &out->bytes) != 0 || !out->bytes;
  if (out->failed) return;
  out->data = calloc(out->bytes + 1, 1);
  out->failed = !out->data || (ptx ? l->ptx : l->cubin)(program, out->data) != 0;
  if (ptx && out->bytes) out->bytes--; /* the size counts the final NUL */
}

int cg_nvrtc_options(const cg_nvrtc_job *job, char arch[64], const char *list[CG_NVRTC_OPTIONS]) {
  int count = 0;
  /* A virtual architecture gives PTX, a real one a cubin. */
  snprintf(arch, 64, "--gpu-architecture=%s%s", job->ptx ? "compute_" : "sm_",
           strncmp(job->arch, "sm_", 3) ? job->arch : job->arch + 3);
  list[count++] = arch;
  list[count++] = "--std=c++17";
  list[count++] = "--ptxas-options=-v";
  list[count++] = "--device-as-default-execution-space";
  list[count++] = "--modify-stack-limit=false"; /* of the whole process, which is not ours */
  if (job->line_info) list[count++] = "--generate-line-info";
  return count;
}

void cg_nvrtc_raw_compile(const cg_nvrtc_job *job, cg_nvrtc_raw *out) {
  const nvrtc_library *l = nvrtc();
  const char *names[CG_MOST_EMBEDDED], *texts[CG_MOST_EMBEDDED], *options[CG_NVRTC_OPTIONS];
  char arch[64];
  *out = (cg_nvrtc_raw){.failed = true};
  if (!l->handle) return;
  int option_count = cg_nvrtc_options(job, arch, options);
  /* NVRTC 13 keeps a cache of its own, whose answers have no log to judge. */
  if (l->major >= 13) options[option_count++] = "--no-cache";
  nvrtc_program *program = NULL;
  int count = embedded_files(names, texts);
  if (l->create(&program, job->source, job->name, count, texts, names)) return;
  bool bad = l->compile(program, option_count, options) != 0;
  out->log = log_of(l, program);
  if (!bad) take_code(l, program, job->ptx, out);
  l->destroy(&program);
}

/* ---- the log --------------------------------------------------------------------------------- */
static int number_before(const char *text, const char *mark) {
  const char *at = text;
  int sum = 0;
  while ((at = strstr(at, mark)) != NULL) {
    const char *digit = at;
    while (digit > text && digit[-1] >= '0' && digit[-1] <= '9') digit--;
    sum += digit < at ? atoi(digit) : 0;
    at += strlen(mark);
  }
  return sum;
}

void cg_nvrtc_read_log(const char *log, cg_nvrtc_result *out) {
  out->registers = out->spill_bytes = out->stack_bytes = out->shared_bytes = -1;
  if (!log || !strstr(log, "registers")) return;
  out->registers = number_before(log, " registers");
  out->spill_bytes =
      number_before(log, " bytes spill stores") + number_before(log, " bytes spill loads");
  out->stack_bytes = number_before(log, " bytes stack frame");
  out->shared_bytes = number_before(log, " bytes smem");
  out->serialised = strstr(log, "(C75") != NULL;
}

static const char *tail(const char *log) {
  size_t length = strlen(log);
  return length > 1500 ? log + length - 1500 : log;
}

spc_status cg_nvrtc_compile(ir_arena *arena, const char *name, const char *source, const char *arch,
                            bool ptx, const cg_options *options, ir_sink *sink,
                            cg_nvrtc_result *out) {
  cg_nvrtc_raw raw;
  memset(out, 0, sizeof *out);
  if (!cg_nvrtc_available()) {
    ir_diag_add(sink, IR_DIAG_NO_NVRTC, IR_NOWHERE, "%s", cg_nvrtc_version());
    return SPC_UNAVAILABLE;
  }
  const cg_nvrtc_job job = {name, source, arch, ptx, options && options->line_info};
  cg_nvrtc_raw_compile(&job, &raw);
  out->log = ir_strdup(arena, raw.log ? raw.log : "");
  cg_nvrtc_read_log(out->log, out);
  if (!raw.failed) {
    out->data = ir_alloc(arena, raw.bytes + 1);
    memcpy(out->data, raw.data, raw.bytes);
    out->bytes = raw.bytes;
  }
  free(raw.data);
  free(raw.log);
  if (!raw.failed) return SPC_OK;
  ir_diag_add(sink, IR_DIAG_INTERNAL, IR_NOWHERE, "NVRTC rejects the text of `%s` for %s:\n%s",
              name, arch, tail(out->log));
  return SPC_INTERNAL;
}
