/* cache_folder.c - the cache's folder: making it, what lies in it, what has to go.
 *
 * Only names that the cache itself gives are counted or removed; anything else is somebody's file.
 * Recency is the time of modification, which a hit renews: access times are often not kept. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cache_file.h"

enum { PART_LIVES = 3600 }; /* seconds after which a file in the making is somebody's remains */

int rt_folder_make(const char *folder) {
  char path[RT_CACHE_PATH];
  size_t length = strlen(folder);
  if (length >= sizeof path) return ENAMETOOLONG;
  if (!mkdir(folder, 0700) || errno == EEXIST) return 0;
  if (errno != ENOENT) return errno;
  memcpy(path, folder, length + 1);
  for (size_t i = 1; i <= length; i++) {
    if (path[i] && path[i] != '/') continue;
    char kept = path[i];
    path[i] = 0;
    if (mkdir(path, 0700) && errno != EEXIST) return errno;
    path[i] = kept;
  }
  return 0;
}

/* ---- what lies in it ------------------------------------------------------------------------- */
bool rt_folder_is_part(const char *name) { return !strncmp(name, "part-", 5); }

static bool is_ours(const char *name) {
  size_t digits = strspn(name, "0123456789abcdef"), length = strlen(name);
  if (length >= sizeof((rt_folder_file *)0)->name) return false;
  return rt_folder_is_part(name) || (digits == RT_ENTRY_NAME && name[digits] == '.');
}

static bool add(rt_folder_list *list, const char *name, const struct stat *info) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 64;
    void *grown = realloc(list->at, capacity * sizeof *list->at);
    if (!grown) return false;
    list->at = grown;
    list->capacity = capacity;
  }
  rt_folder_file *file = &list->at[list->count++];
  strcpy(file->name, name);
  file->bytes = info->st_size;
  file->used = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const rt_folder_file *)a)->name, ((const rt_folder_file *)b)->name);
}

bool rt_folder_read(const char *folder, rt_folder_list *out) {
  *out = (rt_folder_list){0};
  DIR *stream = opendir(folder);
  if (!stream) return true;
  bool good = true;
  for (struct dirent *e; good && (e = readdir(stream));) {
    struct stat info;
    if (is_ours(e->d_name) && !fstatat(dirfd(stream), e->d_name, &info, AT_SYMLINK_NOFOLLOW) &&
        S_ISREG(info.st_mode))
      good = add(out, e->d_name, &info);
  }
  closedir(stream);
  if (good && out->count) qsort(out->at, out->count, sizeof *out->at, by_name);
  if (!good) free(out->at);
  return good;
}

/* ---- what has to go -------------------------------------------------------------------------- */
/* An entry and the source beside it: files of one name up to the dot. */
typedef struct group {
  size_t first, count;
  int64_t bytes, used;
} group;

static int by_use(const void *a, const void *b) {
  const group *x = a, *y = b;
  return x->used < y->used ? -1 : x->used > y->used;
}

static size_t grouped(const rt_folder_list *list, group *groups) {
  size_t count = 0;
  for (size_t i = 0; i < list->count; i++) {
    const rt_folder_file *file = &list->at[i];
    bool more = count && !rt_folder_is_part(file->name) &&
                !strncmp(file->name, list->at[groups[count - 1].first].name, RT_ENTRY_NAME);
    if (!more) groups[count++] = (group){.first = i};
    group *g = &groups[count - 1];
    g->count++;
    g->bytes += file->bytes;
    if (file->used > g->used) g->used = file->used;
  }
  return count;
}

static void remove_group(const char *folder, const rt_folder_list *list, const group *g) {
  char path[RT_CACHE_PATH];
  for (size_t i = 0; i < g->count; i++)
    if (rt_entry_path(path, folder, list->at[g->first + i].name, "")) unlink(path);
}

static int64_t shrink(const char *folder, const rt_folder_list *list, group *groups,
                      int64_t limit) {
  size_t count = grouped(list, groups);
  int64_t bytes = 0, gone = 0, now = (int64_t)time(NULL) * 1000000000;
  for (size_t i = 0; i < count; i++) bytes += groups[i].bytes;
  qsort(groups, count, sizeof *groups, by_use);
  bool over = bytes > limit;
  for (size_t i = 0; i < count; i++) {
    bool part = rt_folder_is_part(list->at[groups[i].first].name);
    bool goes = part ? limit < 0 || groups[i].used < now - (int64_t)PART_LIVES * 1000000000
                     : over && bytes > limit - limit / 8; /* room for more before the next time */
    if (!goes) continue;
    remove_group(folder, list, &groups[i]);
    bytes -= groups[i].bytes;
    gone += !part;
  }
  return gone;
}

int64_t rt_folder_shrink(const char *folder, int64_t limit) {
  rt_folder_list list;
  int64_t gone = 0;
  if (!rt_folder_read(folder, &list)) return 0;
  group *groups = calloc(list.count + 1, sizeof *groups);
  if (groups && list.count) gone = shrink(folder, &list, groups, limit);
  free(groups);
  free(list.at);
  return gone;
}
