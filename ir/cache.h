/* cache.h - where compiled code is kept from one process to the next, as code generators see it.
 *
 * A key is everything that the code was made from; the same key means the same code.  Behind it
 * stands runtime/cache.h.  A cache is never a reason to fail: what cannot be kept is made again.
 * Both calls may come from several threads at once. */
#ifndef SPC_IR_CACHE_H
#define SPC_IR_CACHE_H

#include "ir/base.h"

enum { IR_KEY_PARTS = 10 };

typedef struct ir_cache_key {
  const char *kind; /* of the data, and the ending of its file: "cubin", "o", "memo" */
  const char *part[IR_KEY_PARTS];
  int count;
} ir_cache_key;

/* malloc'ed; the note is text: what the compiler said. */
typedef struct ir_cached {
  void *data;
  size_t bytes;
  char *note;
} ir_cached;

typedef struct ir_cache {
  void *user;
  /* false: nothing is there, or nothing whole.  The caller frees data and note. */
  bool (*find)(void *user, const ir_cache_key *key, ir_cached *out);
  /* source (may be NULL) is put beside the data, for people; its file ends in source_ending. */
  void (*keep)(void *user, const ir_cache_key *key, const ir_cached *what, const char *source,
               const char *source_ending);
} ir_cache;

#endif
