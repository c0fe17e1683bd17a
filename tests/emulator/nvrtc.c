/* nvrtc.c - NVRTC for the emulated device: the real one, asked for PTX wherever a cubin is wanted.
 *
 * The real library is found where codegen/cuda_nvrtc.c finds it; SPC_EMULATED_NVRTC names another. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct nvrtc_program nvrtc_program;
enum { NO_LIBRARY = 5, MOST_OPTIONS = 32 }; /* NVRTC_ERROR_INVALID_OPTION: the nearest that there is */

/* Name, parameters, arguments: handed on as they are. */
#define HANDED_ON(F)                                                                               \
  F(nvrtcVersion, (int *major, int *minor), (major, minor))                                        \
  F(nvrtcCreateProgram,                                                                            \
    (nvrtc_program * *program, const char *source, const char *name, int count,                    \
     const char *const *texts, const char *const *names),                                          \
    (program, source, name, count, texts, names))                                                  \
  F(nvrtcDestroyProgram, (nvrtc_program * *program), (program))                                    \
  F(nvrtcGetProgramLogSize, (nvrtc_program * program, size_t *bytes), (program, bytes))            \
  F(nvrtcGetProgramLog, (nvrtc_program * program, char *log), (program, log))                      \
  F(nvrtcGetPTXSize, (nvrtc_program * program, size_t *bytes), (program, bytes))                   \
  F(nvrtcGetPTX, (nvrtc_program * program, char *text), (program, text))
#define SHOWN __attribute__((visibility("default")))

static struct {
#define FIELD(NAME, PARAMETERS, ARGUMENTS) int(*NAME) PARAMETERS;
  HANDED_ON(FIELD)
#undef FIELD
  int (*nvrtcCompileProgram)(nvrtc_program *, int, const char *const *);
} real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *open_in(const char *folder) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
    char path[1024];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", names[n]);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
  }
  return NULL;
}
static void *open_below(const char *root) {
  static const char *const folders[] = {"", "/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", "/lib", "/lib64"};
  void *library = NULL;
  for (size_t n = 0; n < sizeof folders / sizeof *folders && !library; n++) {
    char folder[900];
    snprintf(folder, sizeof folder, "%s%s", root, folders[n]);
    library = open_in(folder);
  }
  return library;
}

static void find_library(void) {
  const char *named = getenv("SPC_EMULATED_NVRTC"), *root = getenv("SPC_NVRTC_DIR");
  void *library = named && *named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : open_in("");
  if (!library) library = open_in("/usr/local/cuda/lib64");
  if (!library && root && *root) library = open_below(root);
  if (!library) return;
#define FIND(NAME, PARAMETERS, ARGUMENTS) *(void **)&real.NAME = dlsym(library, #NAME);
  HANDED_ON(FIND)
#undef FIND
  *(void **)&real.nvrtcCompileProgram = dlsym(library, "nvrtcCompileProgram");
}

#define HAND_ON(NAME, PARAMETERS, ARGUMENTS)                                                       \
  SHOWN int NAME PARAMETERS;                                                                       \
  int NAME PARAMETERS {                                                                            \
    pthread_once(&once, find_library);                                                             \
    return real.NAME ? real.NAME ARGUMENTS : NO_LIBRARY;                                           \
  }
HANDED_ON(HAND_ON)

/* ---- what differs ---------------------------------------------------------------------------- */
SHOWN int nvrtcCompileProgram(nvrtc_program *program, int count, const char *const *options);
SHOWN int nvrtcGetCUBINSize(nvrtc_program *program, size_t *bytes);
SHOWN int nvrtcGetCUBIN(nvrtc_program *program, char *code);

int nvrtcCompileProgram(nvrtc_program *program, int count, const char *const *options) {
  static const char architecture[] = "--gpu-architecture=sm_", assembler[] = "--ptxas-options";
  const char *asked[MOST_OPTIONS];
  char virtual[64];
  int kept = 0;
  pthread_once(&once, find_library);
  if (!real.nvrtcCompileProgram || count > MOST_OPTIONS) return NO_LIBRARY;
  for (int n = 0; n < count; n++) {
    if (!strncmp(options[n], assembler, sizeof assembler - 1)) continue;
    asked[kept++] = options[n];
    if (strncmp(options[n], architecture, sizeof architecture - 1)) continue;
    snprintf(virtual, sizeof virtual, "--gpu-architecture=compute_%s", options[n] + sizeof architecture - 1);
    asked[kept - 1] = virtual;
  }
  return real.nvrtcCompileProgram(program, kept, asked);
}
int nvrtcGetCUBINSize(nvrtc_program *program, size_t *bytes) { return nvrtcGetPTXSize(program, bytes); }
int nvrtcGetCUBIN(nvrtc_program *program, char *code) { return nvrtcGetPTX(program, code); }
