/* tensor_pack.h - what sorting and packing of entries share; nobody else includes it. */
#ifndef SPC_IR_TENSOR_PACK_H
#define SPC_IR_TENSOR_PACK_H

#include "ir/tensor.h"

/* Entries in storage order of a format.  order[e] is the entry's place in the caller's list;
 * change[e] is the first level whose coordinate differs from the entry before (level_count: a
 * duplicate; entry 0 has change 0). */
typedef struct ir_sorted {
  int64_t count;
  int64_t *order;
  uint8_t *change;
} ir_sorted;

int64_t ir_level_coordinate(const ir_level *level, const int64_t *coordinates);
void ir_entries_sort(ir_arena *arena, const ir_format *format, const int64_t *dims,
                     const ir_entries *entries, ir_sorted *out);

#endif
