/* cuda_cache.c - cubins from the cache, so that NVRTC is not even loaded when it has them all.
 *
 * A cubin's key is its text, the kernel files, the options and which NVRTC there is; nothing of
 * this machine's paths.  The compiler's log is kept with it: a cubin that the gate rejects is
 * rejected again.  Which NVRTC there is takes 8 ms to find out (it is a library of 100 MB), so the
 * store keeps a memo: the file that the loader took, for these search paths.  The memo holds as
 * long as that file and the folders of the search path are what they were. */
#include <stdlib.h>
#include <sys/stat.h>

#include "codegen/cuda.h"
#include "codegen/embedded.h"

/* ---- which NVRTC there is -------------------------------------------------------------------- */
/* What changes when a file or folder is replaced. */
static void put_stamp(ir_text *text, const char *path) {
  struct stat info;
  if (stat(path, &info))
    ir_text_printf(text, "%s absent\n", path);
  else
    ir_text_printf(text, "%s %llx %llx %lld %lld.%09ld\n", path, (unsigned long long)info.st_dev,
                   (unsigned long long)info.st_ino, (long long)info.st_size,
                   (long long)info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

/* Everything that decides which file the loader takes. */
static const char *search_path(ir_arena *arena) {
  static const char *const switches[] = {"SPC_NVRTC_LIB", "SPC_NVRTC_DIR", "LD_LIBRARY_PATH"};
  static const char *const below[] = {"/nvidia/cu13/lib", "/nvidia/cuda_nvrtc/lib", "/lib",
                                      "/lib64"};
  ir_text text = ir_text_new(arena);
  for (int i = 0; i < IR_COUNT(switches); i++) {
    const char *value = getenv(switches[i]);
    ir_text_printf(&text, "%s=%s\n", switches[i], value ? value : "");
    for (const char *at = value ? value : ""; *at;) {
      size_t length = i == 2 ? strcspn(at, ":") : strlen(at);
      if (length) put_stamp(&text, ir_strndup(arena, at, length));
      at += length + (at[length] == ':');
    }
  }
  const char *root = getenv("SPC_NVRTC_DIR");
  for (int i = 0; root && *root && i < IR_COUNT(below); i++)
    put_stamp(&text, ir_format_text(arena, "%s%s", root, below[i]));
  put_stamp(&text, "/etc/ld.so.cache");
  put_stamp(&text, "/usr/local/cuda/lib64");
  return text.data;
}

/* "13.0, 109123456 bytes": the number alone does not tell patch releases apart. */
static const char *identity_text(ir_arena *arena, const char *number, const char *path) {
  struct stat info;
  long long bytes = stat(path, &info) ? 0 : (long long)info.st_size;
  return ir_format_text(arena, "NVRTC %s, %lld bytes", number, bytes);
}

static const char *stamp_of(ir_arena *arena, const char *path) {
  ir_text text = ir_text_new(arena);
  put_stamp(&text, path);
  return text.data;
}

/* A memo is the library's path, its stamp, and its identity, one a line. */
static const char *read_memo(ir_arena *arena, const char *memo) {
  size_t length = strcspn(memo, "\n");
  const char *path = ir_strndup(arena, memo, length);
  const char *stamp = stamp_of(arena, path), *rest = memo + length + (memo[length] == '\n');
  if (strncmp(rest, stamp, strlen(stamp))) return NULL;
  rest += strlen(stamp);
  return *rest ? ir_strdup(arena, rest) : NULL;
}

const char *cg_nvrtc_identity(ir_arena *arena, const ir_cache *cache) {
  ir_cache_key key = {.kind = "memo", .part = {"NVRTC", search_path(arena)}, .count = 2};
  ir_cached memo;
  char number[32], path[1024];
  const char *known = NULL;
  if (cache && cache->find(cache->user, &key, &memo)) {
    known = read_memo(arena, memo.data);
    free(memo.data);
    free(memo.note);
  }
  if (known || !cg_nvrtc_describe(number, sizeof number, path, sizeof path)) return known;
  known = identity_text(arena, number, path);
  char *text = ir_format_text(arena, "%s\n%s%s", path, stamp_of(arena, path), known);
  memo = (ir_cached){text, strlen(text), NULL};
  if (cache && *path == '/') cache->keep(cache->user, &key, &memo, NULL, NULL);
  return known;
}

bool cg_nvrtc_found(const ir_cache *cache) {
  ir_arena *arena = cache ? ir_arena_new() : NULL;
  if (!arena) return cg_nvrtc_available();
  jmp_buf out_of_memory;
  bool found;
  if (setjmp(out_of_memory)) {
    found = cg_nvrtc_available();
  } else {
    ir_arena_guard(arena, &out_of_memory);
    found = cg_nvrtc_identity(arena, cache) != NULL;
  }
  ir_arena_guard(arena, NULL);
  ir_arena_free(arena);
  return found;
}

/* ---- one cubin ------------------------------------------------------------------------------- */
void cg_cubin_make(const cg_nvrtc_job *job, const char *identity, const ir_cache *cache,
                   bool recall, cg_nvrtc_raw *out) {
  const char *list[CG_NVRTC_OPTIONS];
  char arch[64], options[512] = "";
  ir_cache_key key = {.kind = "cubin",
                      .part = {identity, options, job->name, job->source, cg_embedded_digest},
                      .count = 5};
  ir_cached entry;
  int count = cg_nvrtc_options(job, arch, list);
  for (int i = 0; i < count; i++) {
    strncat(options, list[i], sizeof options - strlen(options) - 1);
    strncat(options, "\n", sizeof options - strlen(options) - 1);
  }
  if (cache && cache->find(cache->user, &key, &entry)) {
    *out = (cg_nvrtc_raw){entry.data, entry.bytes, entry.note, .cached = true};
    return;
  }
  *out = (cg_nvrtc_raw){.failed = true};
  if (recall) return;
  cg_nvrtc_raw_compile(job, out);
  entry = (ir_cached){out->data, out->bytes, out->log};
  if (cache && !out->failed) cache->keep(cache->user, &key, &entry, job->source, "cu");
}
