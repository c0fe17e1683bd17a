/* take.c - host memory of the caller's allocator, or the C library's; see base.h. */
#include <stdlib.h>

#include "ir/base.h"

void *ir_take_kind(const spc_allocator *from, spc_memory kind, size_t bytes, size_t alignment) {
  void *at = from->allocate(from->user, kind, bytes, alignment);
  if (!at || (uintptr_t)at % alignment == 0) return at;
  from->release(from->user, kind, at);
  return NULL;
}

void *ir_take(const spc_allocator *from, size_t bytes, size_t alignment) {
  if (bytes > SIZE_MAX - alignment) return NULL;
  size_t rounded = bytes ? (bytes + alignment - 1) / alignment * alignment : alignment;
  void *at = from ? ir_take_kind(from, SPC_MEMORY_HOST, rounded, alignment)
                  : aligned_alloc(alignment, rounded);
  if (at) memset(at, 0, rounded);
  return at;
}

void ir_give_back(const spc_allocator *from, void *at) {
  if (!at) return;
  if (from)
    from->release(from->user, SPC_MEMORY_HOST, at);
  else
    free(at);
}
