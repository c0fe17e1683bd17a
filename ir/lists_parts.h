/* lists_parts.h - what the files lists*.c share; no other file includes it. */
#ifndef SPC_IR_LISTS_PARTS_H
#define SPC_IR_LISTS_PARTS_H

#include "ir/lists.h"

/* One list a row, as csr has them; a "row" may be a column of the tensor. */
typedef struct ir_lists {
  ir_arena *arena;
  const ir_crew *crew;
  int row, column; /* dimensions of the tensor */
  int64_t rows, columns, count;
  ir_dtype dtype;
  int32_t *pos, *crd; /* [rows + 1], [count] */
  void *vals;         /* NULL: a pattern */
  bool owned;         /* crd and vals are nobody else's: they may become the result's; pos is not
                         another's either then */
} ir_lists;

/* Positions rise, coordinates lie within the columns and rise within each row. */
bool ir_lists_in_order(const ir_lists *l);
/* Blocks into lists and back; false: not sound, or too many. */
bool ir_lists_unfold(ir_lists *l, const ir_view *from);
bool ir_lists_fold(const ir_lists *l, ir_view *to);
/* Columns become the lists instead of rows; false: a coordinate is outside. */
bool ir_lists_turn(ir_lists *l);

/* Memory that is written whole. */
static inline int32_t *ir_lists_numbers(const ir_lists *l, int64_t count) {
  return ir_array_room(l->arena, IR_I32, count).data;
}

/* What moving so many entries takes, about. */
static inline int64_t ir_lists_ns(int64_t entries) { return 2 * entries; }

#endif
