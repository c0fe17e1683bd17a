/* table.h - hash tables in arenas: things by name, numbers by address.
 *
 * All zero is empty.  Names and things are not copied.  A table that is only read may be shared by
 * threads. */
#ifndef SPC_IR_TABLE_H
#define SPC_IR_TABLE_H

#include "ir/base.h"

/* ---- things by name -------------------------------------------------------------------------- */
typedef struct ir_table_row {
  const char *name; /* NULL: never used */
  void *thing;      /* NULL: removed, or never used */
  uint64_t hash;
} ir_table_row;
typedef struct ir_table {
  ir_table_row *rows;
  int used, capacity; /* used: removed rows count; capacity: a power of two, or 0 */
} ir_table;

void *ir_table_find(const ir_table *table, const char *name); /* NULL: nothing has this name */
/* False, and nothing changes, when something has this name. thing is not NULL. */
bool ir_table_add(ir_arena *arena, ir_table *table, const char *name, void *thing);
void ir_table_remove(ir_table *table, const char *name);

/* ---- numbers by address ---------------------------------------------------------------------- */
typedef struct ir_map {
  const void **keys;
  int *values;
  int used, capacity;
} ir_map;

int ir_map_find(const ir_map *map, const void *key, int otherwise);
void ir_map_set(ir_arena *arena, ir_map *map, const void *key, int value); /* key is not NULL */

/* ---- names that nothing has ------------------------------------------------------------------ */
/* Where the search for stem_2, stem_3, .. may begin: all below are taken. */
typedef struct ir_stems {
  ir_table next; /* stem to int */
} ir_stems;
typedef bool ir_name_taken(const void *user, const char *name);

/* stem itself, or stem_N with the least N >= 2 that is not taken. */
const char *ir_stems_fresh(ir_arena *arena, ir_stems *stems, const char *stem, ir_name_taken *taken,
                           const void *user);
void ir_stems_freed(ir_arena *arena, ir_stems *stems, const char *name); /* not taken any more */

#endif
