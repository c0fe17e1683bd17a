/* cache.h - compiled code on disk, found again by what it was made from.
 *
 * One file an entry, in one flat folder: SPC_CACHE_DIR, else $XDG_CACHE_HOME/spc, else
 * $HOME/.cache/spc.  The file's name is the SHA-256 of the key, its contents are verified by
 * another SHA-256 at every read, and it appears by rename: so any number of processes share the
 * folder without locks, and a torn, damaged or foreign file is a miss that the next compile
 * replaces. Nothing that happens here fails a compile.  docs/cache.md is the page for users. */
#ifndef SPC_RUNTIME_CACHE_H
#define SPC_RUNTIME_CACHE_H

#include "ir/cache.h"

typedef struct rt_cache rt_cache;

/* By the environment (SPC_CACHE, SPC_CACHE_DIR, SPC_CACHE_SIZE); touches no file.  NULL without
 * memory, and every call below takes that for a cache that is off. */
rt_cache *rt_cache_open(void);
/* Evicts the least recently used entries when this cache has kept any and the folder has outgrown
 * its bound. */
void rt_cache_close(rt_cache *cache);

/* NULL when it is off. */
const ir_cache *rt_cache_face(const rt_cache *cache);

const char *rt_cache_state(const rt_cache *cache);  /* "on", "readonly", "off" */
const char *rt_cache_folder(const rt_cache *cache); /* "" where none can be named */
/* Why nothing is read or written, or what went wrong last; "" when all is well.  For the thread
 * that opened it, when no compile is under way. */
const char *rt_cache_why(const rt_cache *cache);
int rt_cache_damaged(const rt_cache *cache); /* entries that did not verify */

/* Makes the folder and a file in it, as a compile would; the answer is in state and why. */
void rt_cache_probe(rt_cache *cache);

typedef struct rt_cache_size {
  int64_t entries, bytes, limit; /* bytes: of entries and the sources beside them */
} rt_cache_size;
rt_cache_size rt_cache_measure(const rt_cache *cache);
/* Removes every entry, and no file that is not the cache's; the number of entries. */
int64_t rt_cache_clear(rt_cache *cache);
/* Calls tell for every entry, newest first; false without memory. */
typedef struct rt_cache_item {
  const char *name, *kind;
  const char *about; /* "ffn, stage y: ..." where a text says; else "" */
  int64_t bytes;
  double age; /* seconds since it was used */
} rt_cache_item;
bool rt_cache_list(const rt_cache *cache, void (*tell)(void *user, const rt_cache_item *item),
                   void *user);

/* Reads every entry and compares its digest; tell (may be NULL) hears of those that are damaged or
 * that others could have written, which nothing loads.  removes: they go.  False without memory. */
typedef struct rt_cache_verified {
  int64_t entries, wrong;
} rt_cache_verified;
bool rt_cache_verify(const rt_cache *cache, bool removes, rt_cache_verified *out,
                     void (*tell)(void *user, const char *file, const char *wrong), void *user);
/* Evicts what was used longest ago until `limit` bytes are left (negative: the bound). */
int64_t rt_cache_prune(rt_cache *cache, int64_t limit);
bool rt_cache_size_read(const char *text, int64_t *bytes); /* 300M, 2G, bytes without a letter */

#endif
