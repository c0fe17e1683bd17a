/* nvrtc.c - NVRTC for the emulated device: the real one, asked for PTX wherever a cubin is wanted.
 *
 * The real library is found where codegen/cuda_nvrtc.c finds it; SPC_EMULATED_NVRTC names another.  Most of the time of a run
 * of tests goes into compiling the same kernels again: SPC_EMULATED_CACHE is a folder that keeps them, by their texts.  Of
 * programs that want the same one at a time one compiles it, and the others wait. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct nvrtc_program nvrtc_program;
enum { NO_LIBRARY = 5, MOST_OPTIONS = 32 }; /* NVRTC_ERROR_INVALID_OPTION: the nearest that there is */

#define REAL(F)                                                                                    \
  F(nvrtcVersion, (int *major, int *minor))                                                        \
  F(nvrtcCreateProgram, (nvrtc_program * *program, const char *source, const char *name,           \
                         int count, const char *const *texts, const char *const *names))           \
  F(nvrtcDestroyProgram, (nvrtc_program * *program))                                               \
  F(nvrtcCompileProgram, (nvrtc_program * program, int count, const char *const *options))         \
  F(nvrtcGetProgramLogSize, (nvrtc_program * program, size_t *bytes))                              \
  F(nvrtcGetProgramLog, (nvrtc_program * program, char *log))                                      \
  F(nvrtcGetPTXSize, (nvrtc_program * program, size_t *bytes))                                     \
  F(nvrtcGetPTX, (nvrtc_program * program, char *text))

typedef struct em_program em_program;
#define SHOWN __attribute__((visibility("default")))
SHOWN int nvrtcVersion(int *major, int *minor);
SHOWN int nvrtcCreateProgram(em_program **to, const char *source, const char *name, int count, const char *const *texts,
                             const char *const *names);
SHOWN int nvrtcDestroyProgram(em_program **program);
SHOWN int nvrtcCompileProgram(em_program *program, int count, const char *const *options);
SHOWN int nvrtcGetProgramLogSize(em_program *program, size_t *bytes);
SHOWN int nvrtcGetProgramLog(em_program *program, char *log);
SHOWN int nvrtcGetPTXSize(em_program *program, size_t *bytes);
SHOWN int nvrtcGetPTX(em_program *program, char *text);
SHOWN int nvrtcGetCUBINSize(em_program *program, size_t *bytes);
SHOWN int nvrtcGetCUBIN(em_program *program, char *code);

static struct {
#define FIELD(NAME, PARAMETERS) int(*NAME) PARAMETERS;
  REAL(FIELD)
#undef FIELD
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
#define FIND(NAME, PARAMETERS) *(void **)&real.NAME = dlsym(library, #NAME);
  REAL(FIND)
#undef FIND
}

static int version_major, version_minor;
static void find_once(void) {
  find_library();
  if (real.nvrtcVersion) real.nvrtcVersion(&version_major, &version_minor);
}

/* ---- what was compiled before ---------------------------------------------------------------- */
/* A program: the real one, and its text's hash; what a file of the cache had in its place. */
struct em_program {
  nvrtc_program *real;
  uint64_t key[2];
  char *kept;
  size_t kept_bytes;
};

static void add_bytes(uint64_t key[2], const char *text, size_t bytes) {
  for (size_t n = 0; n < bytes; n++) {
    key[0] = (key[0] ^ (unsigned char)text[n]) * 1099511628211u;
    key[1] = (key[1] + (unsigned char)text[n] + 1) * 6364136223846793005u;
    key[1] ^= key[1] >> 29;
  }
}
static void add_text(uint64_t key[2], const char *text) {
  if (text) add_bytes(key, text, strlen(text) + 1);
}

static bool path_of(const em_program *p, char *path, size_t bytes, const char *ending) {
  const char *folder = getenv("SPC_EMULATED_CACHE");
  if (!folder || !*folder) return false;
  mkdir(folder, 0777);
  return (size_t)snprintf(path, bytes, "%s/%016llx%016llx%s", folder, (unsigned long long)p->key[0],
                          (unsigned long long)p->key[1], ending) < bytes;
}

static bool read_kept(em_program *p) {
  static const char end[] = "}\n";
  char path[1024];
  FILE *file = path_of(p, path, sizeof path, ".ptx") ? fopen(path, "rb") : NULL;
  if (!file) return false;
  fseek(file, 0, SEEK_END);
  long bytes = ftell(file);
  rewind(file);
  p->kept = bytes > 0 ? calloc((size_t)bytes + 1, 1) : NULL;
  bool whole = p->kept && fread(p->kept, 1, (size_t)bytes, file) == (size_t)bytes && strstr(p->kept, end);
  fclose(file);
  p->kept_bytes = (size_t)bytes + 1;
  if (whole) return true;
  free(p->kept);
  p->kept = NULL;
  return false;
}

/* Published by its name: who reads sees all of it or nothing. */
static void write_kept(const em_program *p) {
  char path[1024], beside[1100];
  size_t bytes = 0;
  if (!path_of(p, path, sizeof path, ".ptx") || real.nvrtcGetPTXSize(p->real, &bytes) || bytes < 2) return;
  char *text = malloc(bytes);
  snprintf(beside, sizeof beside, "%s.%ld.%lx", path, (long)getpid(), (unsigned long)pthread_self());
  FILE *file = text && !real.nvrtcGetPTX(p->real, text) ? fopen(beside, "wb") : NULL;
  if (file) {
    bool whole = fwrite(text, 1, bytes - 1, file) == bytes - 1;
    if (fclose(file) || !whole || rename(beside, path)) remove(beside);
  }
  free(text);
}

/* Held until it is closed, by one program and thread at a time; -1: there is no cache. */
static int lock_of(const em_program *p) {
  char path[1024];
  struct flock place = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(p->key[0] >> 2), .l_len = 1};
  const em_program locks = {0}; /* one file for all: a byte each */
  int file = path_of(&locks, path, sizeof path, ".locks") ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (file >= 0) fcntl(file, F_OFD_SETLKW, &place);
  return file;
}

/* ---- the library's functions ----------------------------------------------------------------- */
int nvrtcVersion(int *major, int *minor) {
  pthread_once(&once, find_once);
  *major = version_major;
  *minor = version_minor;
  return real.nvrtcVersion ? 0 : NO_LIBRARY;
}

int nvrtcCreateProgram(em_program **to, const char *source, const char *name, int count, const char *const *texts,
                       const char *const *names) {
  pthread_once(&once, find_once);
  em_program *p = calloc(1, sizeof *p);
  *to = NULL;
  if (!p || !real.nvrtcCreateProgram) return free(p), NO_LIBRARY;
  int result = real.nvrtcCreateProgram(&p->real, source, name, count, texts, names);
  if (result) return free(p), result;
  p->key[0] = 14695981039346656037u;
  add_text(p->key, source);
  add_text(p->key, name);
  for (int n = 0; n < count; n++) add_text(p->key, names[n]), add_text(p->key, texts[n]);
  add_bytes(p->key, (const char *)&version_major, sizeof version_major);
  add_bytes(p->key, (const char *)&version_minor, sizeof version_minor);
  *to = p;
  return 0;
}

int nvrtcDestroyProgram(em_program **program) {
  em_program *p = *program;
  int result = real.nvrtcDestroyProgram(&p->real);
  free(p->kept);
  free(p);
  *program = NULL;
  return result;
}

int nvrtcCompileProgram(em_program *p, int count, const char *const *options) {
  static const char architecture[] = "--gpu-architecture=sm_", assembler[] = "--ptxas-options";
  const char *asked[MOST_OPTIONS];
  char virtual[64];
  int kept = 0;
  if (count > MOST_OPTIONS) return NO_LIBRARY;
  for (int n = 0; n < count; n++) {
    if (!strncmp(options[n], assembler, sizeof assembler - 1)) continue;
    asked[kept++] = options[n];
    if (strncmp(options[n], architecture, sizeof architecture - 1)) continue;
    snprintf(virtual, sizeof virtual, "--gpu-architecture=compute_%s", options[n] + sizeof architecture - 1);
    asked[kept - 1] = virtual;
  }
  for (int n = 0; n < kept; n++) add_text(p->key, asked[n]);
  if (read_kept(p)) return 0;
  int lock = lock_of(p), result = 0;
  if (lock < 0 || !read_kept(p)) {
    result = real.nvrtcCompileProgram(p->real, kept, asked);
    if (!result) write_kept(p);
  }
  if (lock >= 0) close(lock);
  return result;
}

int nvrtcGetPTXSize(em_program *p, size_t *bytes) {
  if (!p->kept) return real.nvrtcGetPTXSize(p->real, bytes);
  *bytes = p->kept_bytes;
  return 0;
}
int nvrtcGetPTX(em_program *p, char *text) {
  if (!p->kept) return real.nvrtcGetPTX(p->real, text);
  memcpy(text, p->kept, p->kept_bytes);
  return 0;
}
int nvrtcGetCUBINSize(em_program *p, size_t *bytes) { return nvrtcGetPTXSize(p, bytes); }
int nvrtcGetCUBIN(em_program *p, char *code) { return nvrtcGetPTX(p, code); }

int nvrtcGetProgramLogSize(em_program *p, size_t *bytes) {
  if (!p->kept) return real.nvrtcGetProgramLogSize(p->real, bytes);
  *bytes = 1;
  return 0;
}
int nvrtcGetProgramLog(em_program *p, char *log) {
  if (!p->kept) return real.nvrtcGetProgramLog(p->real, log);
  *log = 0;
  return 0;
}
