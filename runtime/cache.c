/* cache.c - the cache as an object: where it is, whether it may write, what went wrong.
 *
 * The first failure to write ends writing for this process: a full or read-only disk is found out
 * once.  Reading goes on. */
#include "runtime/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cache_file.h"

typedef enum cache_mode { CACHE_OFF, CACHE_READ, CACHE_WRITE } cache_mode;

struct rt_cache {
  char folder[RT_CACHE_PATH - 100]; /* leaves room for a file's name */
  cache_mode mode;
  int64_t limit;
  ir_cache face;
  atomic_int kept, damaged;
  atomic_llong fresh; /* bytes kept since the folder was last looked at */
  atomic_bool failed; /* no writing any more */
  pthread_mutex_t lock;
  char why[400];
};

/* ---- by the environment ---------------------------------------------------------------------- */
static const char *given(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

static bool name_folder(rt_cache *cache) {
  const char *own = given("SPC_CACHE_DIR"), *cached = given("XDG_CACHE_HOME");
  const char *home = given("HOME");
  int n = -1;
  if (own)
    n = snprintf(cache->folder, sizeof cache->folder, "%s", own);
  else if (cached && *cached == '/')
    n = snprintf(cache->folder, sizeof cache->folder, "%s/spc", cached);
  else if (home)
    n = snprintf(cache->folder, sizeof cache->folder, "%s/.cache/spc", home);
  if (n >= 0 && (size_t)n < sizeof cache->folder) return true;
  cache->folder[0] = 0;
  if (cache->mode != CACHE_OFF)
    snprintf(cache->why, sizeof cache->why, "%s",
             n < 0 ? "none of SPC_CACHE_DIR, XDG_CACHE_HOME and HOME is set"
                   : "the name of its folder is too long");
  return false;
}

static cache_mode mode_of(rt_cache *cache) {
  const char *mode = given("SPC_CACHE");
  if (!mode || !strcmp(mode, "on")) return CACHE_WRITE;
  if (!strcmp(mode, "readonly")) return CACHE_READ;
  if (!strcmp(mode, "off")) {
    snprintf(cache->why, sizeof cache->why, "SPC_CACHE=off");
    return CACHE_OFF;
  }
  snprintf(cache->why, sizeof cache->why,
           "SPC_CACHE=%.100s is not on, off or readonly, so it is off", mode);
  return CACHE_OFF;
}

bool rt_cache_size_read(const char *text, int64_t *bytes) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  bool good = end != text && !end[shift ? 1 : 0] && !errno && n >= 0 && n <= INT64_MAX >> shift;
  *bytes = good ? (int64_t)n << shift : 0;
  return good;
}

static int64_t limit_of(rt_cache *cache) {
  const int64_t usual = (int64_t)1 << 30;
  const char *text = given("SPC_CACHE_SIZE");
  int64_t limit;
  if (!text) return usual;
  if (rt_cache_size_read(text, &limit)) return limit;
  snprintf(cache->why, sizeof cache->why,
           "SPC_CACHE_SIZE=%.100s is no size like 300M or 2G, so the bound is 1G", text);
  return usual;
}

/* ---- what code generators see ---------------------------------------------------------------- */
static void fail(rt_cache *cache, const char *what, int fault) {
  pthread_mutex_lock(&cache->lock);
  if (!atomic_exchange(&cache->failed, true))
    snprintf(cache->why, sizeof cache->why, "nothing is kept: %s: %s", what, strerror(fault));
  pthread_mutex_unlock(&cache->lock);
}

static bool find_entry(void *user, const ir_cache_key *key, ir_cached *out) {
  rt_cache *cache = user;
  rt_entry_id id;
  rt_entry_identify(key, &id);
  rt_entry_found found =
      rt_entry_read(cache->folder, &id, key->kind, cache->mode == CACHE_WRITE, out);
  if (found == RT_ENTRY_DAMAGED) atomic_fetch_add(&cache->damaged, 1);
  return found == RT_ENTRY_WHOLE;
}

static void keep_entry(void *user, const ir_cache_key *key, const ir_cached *what,
                       const char *source, const char *source_ending) {
  rt_cache *cache = user;
  rt_entry_id id;
  if (cache->mode != CACHE_WRITE || atomic_load(&cache->failed)) return;
  int fault = rt_folder_make(cache->folder);
  if (fault) {
    fail(cache, "its folder cannot be made", fault);
    return;
  }
  rt_entry_identify(key, &id);
  if (source) fault = rt_entry_write_text(cache->folder, &id, source_ending, source);
  if (!fault) fault = rt_entry_write(cache->folder, &id, key->kind, what);
  if (fault) {
    fail(cache, "a file cannot be written", fault);
    return;
  }
  atomic_fetch_add(&cache->kept, 1);
  if (atomic_fetch_add(&cache->fresh, (long long)what->bytes) < cache->limit / 8) return;
  atomic_store(&cache->fresh, 0); /* a process that lives long does not wait for its end */
  rt_folder_shrink(cache->folder, cache->limit);
}

/* ---- the object ------------------------------------------------------------------------------ */
rt_cache *rt_cache_open(void) {
  rt_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return NULL;
  pthread_mutex_init(&cache->lock, NULL);
  cache->face = (ir_cache){cache, find_entry, keep_entry};
  cache->limit = limit_of(cache);
  cache->mode = mode_of(cache);
  bool named = name_folder(cache);
  if (cache->mode != CACHE_OFF &&
      (!named || !rt_folder_is_trusted(cache->folder, cache->why, sizeof cache->why)))
    cache->mode = CACHE_OFF;
  return cache;
}

void rt_cache_close(rt_cache *cache) {
  if (!cache) return;
  if (atomic_load(&cache->kept)) rt_folder_shrink(cache->folder, cache->limit);
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}

const ir_cache *rt_cache_face(const rt_cache *cache) {
  return cache && cache->mode != CACHE_OFF ? &cache->face : NULL;
}

const char *rt_cache_state(const rt_cache *cache) {
  if (!cache || cache->mode == CACHE_OFF) return "off";
  return cache->mode == CACHE_READ || atomic_load(&cache->failed) ? "readonly" : "on";
}

const char *rt_cache_folder(const rt_cache *cache) { return cache ? cache->folder : ""; }

const char *rt_cache_why(const rt_cache *cache) {
  return cache ? cache->why : "there was no memory for it";
}

int rt_cache_damaged(const rt_cache *cache) { return cache ? atomic_load(&cache->damaged) : 0; }

/* ---- for people ------------------------------------------------------------------------------ */
void rt_cache_probe(rt_cache *cache) {
  static const ir_cache_key key = {.kind = "probe"};
  static const ir_cached nothing = {0};
  rt_entry_id id;
  char path[RT_CACHE_PATH];
  if (!cache || cache->mode != CACHE_WRITE) return;
  keep_entry(cache, &key, &nothing, NULL, NULL);
  rt_entry_identify(&key, &id);
  if (rt_entry_path(path, cache->folder, id.name, key.kind)) unlink(path);
}

static bool begins_entry(const rt_folder_list *list, size_t i) {
  if (rt_folder_is_part(list->at[i].name)) return false;
  return !i || strncmp(list->at[i].name, list->at[i - 1].name, RT_ENTRY_NAME) != 0;
}

rt_cache_size rt_cache_measure(const rt_cache *cache) {
  rt_cache_size size = {0};
  rt_folder_list list;
  if (!cache) return size;
  size.limit = cache->limit;
  if (!*cache->folder || !rt_folder_read(cache->folder, &list)) return size;
  for (size_t i = 0; i < list.count; i++) {
    size.entries += begins_entry(&list, i);
    size.bytes += list.at[i].bytes;
  }
  free(list.at);
  return size;
}

int64_t rt_cache_clear(rt_cache *cache) {
  return cache && *cache->folder ? rt_folder_shrink(cache->folder, -1) : 0;
}

static int newest_first(const void *a, const void *b) {
  const rt_folder_file *x = a, *y = b;
  return x->used > y->used ? -1 : x->used < y->used;
}

/* The first line of the text that it was made from: "ffn, stage y: gemm_mma_128x128x32". */
static void read_about(const rt_cache *cache, const char *name, char *about, size_t bytes) {
  char path[RT_CACHE_PATH], hash[RT_ENTRY_NAME + 1];
  *about = 0;
  memcpy(hash, name, RT_ENTRY_NAME);
  hash[RT_ENTRY_NAME] = 0;
  if (!rt_entry_path(path, cache->folder, hash, "cu")) return;
  FILE *stream = fopen(path, "r");
  if (!stream) return;
  if (fgets(about, (int)bytes, stream)) about[strcspn(about, "\n")] = 0;
  if (!strncmp(about, "// ", 3)) memmove(about, about + 3, strlen(about + 3) + 1);
  fclose(stream);
}

bool rt_cache_list(const rt_cache *cache, void (*tell)(void *user, const rt_cache_item *item),
                   void *user) {
  rt_folder_list list;
  if (!cache || !*cache->folder) return true;
  if (!rt_folder_read(cache->folder, &list)) return false;
  if (list.count) qsort(list.at, list.count, sizeof *list.at, newest_first);
  for (size_t i = 0; i < list.count; i++) {
    const rt_folder_file *file = &list.at[i];
    char about[160];
    if (rt_folder_is_part(file->name)) continue;
    read_about(cache, file->name, about, sizeof about);
    rt_cache_item item = {.name = file->name,
                          .kind = file->name + RT_ENTRY_NAME + 1,
                          .about = about,
                          .bytes = file->bytes,
                          .age = difftime(time(NULL), (time_t)(file->used / 1000000000))};
    tell(user, &item);
  }
  free(list.at);
  return true;
}

/* Entries carry a digest; texts beside them and files in the making do not. */
static bool is_entry(const rt_folder_file *file) {
  return !rt_folder_is_part(file->name) && strcmp(file->name + RT_ENTRY_NAME, ".cu") != 0;
}

/* With the text beside it. */
static void remove_entry(const rt_cache *cache, const char *name) {
  char path[RT_CACHE_PATH], hash[RT_ENTRY_NAME + 1];
  snprintf(hash, sizeof hash, "%.*s", (int)RT_ENTRY_NAME, name);
  if (rt_entry_path(path, cache->folder, name, "")) unlink(path);
  if (rt_entry_path(path, cache->folder, hash, "cu")) unlink(path);
}

bool rt_cache_verify(const rt_cache *cache, bool removes, rt_cache_verified *out,
                     void (*tell)(void *user, const char *file, const char *wrong), void *user) {
  rt_folder_list list;
  *out = (rt_cache_verified){0};
  if (!cache || !*cache->folder) return true;
  if (!rt_folder_read(cache->folder, &list)) return false;
  for (size_t i = 0; i < list.count; i++) {
    const char *wrong =
        is_entry(&list.at[i]) ? rt_entry_verify(cache->folder, list.at[i].name) : NULL;
    out->entries += is_entry(&list.at[i]);
    if (!wrong) continue;
    out->wrong++;
    if (tell) tell(user, list.at[i].name, wrong);
    if (removes) remove_entry(cache, list.at[i].name);
  }
  free(list.at);
  return true;
}

int64_t rt_cache_prune(rt_cache *cache, int64_t limit) {
  if (!cache || !*cache->folder) return 0;
  return rt_folder_shrink(cache->folder, limit < 0 ? cache->limit : limit);
}
