/* cache_file.h - shared by cache*.c only: entries as files, and the folder that they lie in. */
#ifndef SPC_RUNTIME_CACHE_FILE_H
#define SPC_RUNTIME_CACHE_FILE_H

#include <sys/stat.h>

#include "runtime/cache.h"
#include "runtime/sha256.h"

enum { RT_ENTRY_NAME = 2 * RT_SHA256_BYTES, RT_CACHE_PATH = 1200 };

/* ---- one entry (cache_entry.c) --------------------------------------------------------------- */
typedef struct rt_entry_id {
  uint8_t digest[RT_SHA256_BYTES];
  char name[RT_ENTRY_NAME + 1]; /* the digest in hexadecimal */
} rt_entry_id;
void rt_entry_identify(const ir_cache_key *key, rt_entry_id *out);

typedef enum rt_entry_found { RT_ENTRY_WHOLE, RT_ENTRY_ABSENT, RT_ENTRY_DAMAGED } rt_entry_found;
/* touch: an entry that is used becomes the newest. */
rt_entry_found rt_entry_read(const char *folder, const rt_entry_id *id, const char *kind,
                             bool touch, ir_cached *out);
/* What is wrong with the entry of that file, in words; NULL: nothing. */
const char *rt_entry_verify(const char *folder, const char *file);
/* 0, or the errno of what failed; nothing is left behind then. */
int rt_entry_write(const char *folder, const rt_entry_id *id, const char *kind,
                   const ir_cached *what);
int rt_entry_write_text(const char *folder, const rt_entry_id *id, const char *ending,
                        const char *text);
/* A path in the folder; false when it is too long. */
bool rt_entry_path(char path[RT_CACHE_PATH], const char *folder, const char *name,
                   const char *ending);

/* ---- whose it is (cache_trust.c) ------------------------------------------------------------- */
bool rt_folder_is_trusted(const char *folder, char *why, size_t bytes);
bool rt_file_is_trusted(const struct stat *info);

/* ---- the folder (cache_folder.c) ------------------------------------------------------------- */
int rt_folder_make(const char *folder); /* with its parents, for the user alone; errno */
/* Everything in the folder that is the cache's: entries, sources beside them, files in the making.
 */
typedef struct rt_folder_file {
  char name[RT_ENTRY_NAME + 16];
  int64_t bytes, used; /* used: nanoseconds */
} rt_folder_file;
typedef struct rt_folder_list {
  rt_folder_file *at;
  size_t count, capacity;
} rt_folder_list;
bool rt_folder_read(const char *folder, rt_folder_list *out); /* sorted by name; free out->at */
bool rt_folder_is_part(const char *name);                     /* a file in the making */
/* Removes what was used longest ago until `limit` bytes are left, and parts that nobody finished;
 * limit < 0: removes everything.  The number of entries that are gone. */
int64_t rt_folder_shrink(const char *folder, int64_t limit);

#endif
