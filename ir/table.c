/* table.c - open addressing, at most half full.  A removed name keeps its row until the table
 * grows, so that what was found behind it is still found. */
#include "ir/table.h"

#include <stdlib.h>

/* ---- things by name -------------------------------------------------------------------------- */
/* The row of the name, or the free one where it belongs. */
static ir_table_row *row_of(const ir_table *table, const char *name, uint64_t hash) {
  uint64_t mask = (uint64_t)table->capacity - 1;
  for (uint64_t at = hash & mask;; at = (at + 1) & mask) {
    ir_table_row *row = &table->rows[at];
    if (!row->name || (row->hash == hash && !strcmp(row->name, name))) return row;
  }
}

static void table_grow(ir_arena *arena, ir_table *table) {
  ir_table old = *table;
  table->capacity = old.capacity ? old.capacity * 2 : 16;
  table->rows = IR_NEW_ARRAY(arena, ir_table_row, table->capacity);
  table->used = 0;
  for (int i = 0; i < old.capacity; i++) {
    if (!old.rows[i].thing) continue;
    *row_of(table, old.rows[i].name, old.rows[i].hash) = old.rows[i];
    table->used++;
  }
}

static uint64_t hash_of(const char *name) { return ir_hash(0, name, strlen(name)); }

void *ir_table_find(const ir_table *table, const char *name) {
  return table->capacity ? row_of(table, name, hash_of(name))->thing : NULL;
}

bool ir_table_add(ir_arena *arena, ir_table *table, const char *name, void *thing) {
  if (ir_table_find(table, name)) return false;
  if ((table->used + 1) * 2 > table->capacity) table_grow(arena, table);
  uint64_t hash = hash_of(name);
  ir_table_row *row = row_of(table, name, hash);
  table->used += !row->name;
  *row = (ir_table_row){name, thing, hash};
  return true;
}

void ir_table_remove(ir_table *table, const char *name) {
  if (table->capacity) row_of(table, name, hash_of(name))->thing = NULL;
}

/* ---- numbers by address ---------------------------------------------------------------------- */
static int slot_of(const ir_map *map, const void *key) {
  uint64_t hash = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
  int at = (int)(hash >> 32) & (map->capacity - 1);
  while (map->keys[at] && map->keys[at] != key) at = (at + 1) & (map->capacity - 1);
  return at;
}

static void map_grow(ir_arena *arena, ir_map *map) {
  ir_map old = *map;
  map->capacity = old.capacity ? old.capacity * 2 : 16;
  map->keys = IR_NEW_ARRAY(arena, const void *, map->capacity);
  map->values = IR_NEW_ARRAY(arena, int, map->capacity);
  for (int i = 0; i < old.capacity; i++) {
    if (!old.keys[i]) continue;
    int at = slot_of(map, old.keys[i]);
    map->keys[at] = old.keys[i];
    map->values[at] = old.values[i];
  }
}

int ir_map_find(const ir_map *map, const void *key, int otherwise) {
  if (!map->capacity) return otherwise;
  int at = slot_of(map, key);
  return map->keys[at] ? map->values[at] : otherwise;
}

void ir_map_set(ir_arena *arena, ir_map *map, const void *key, int value) {
  if ((map->used + 1) * 2 > map->capacity) map_grow(arena, map);
  int at = slot_of(map, key);
  map->used += !map->keys[at];
  map->keys[at] = key;
  map->values[at] = value;
}

/* ---- names that nothing has ------------------------------------------------------------------ */
static int *next_of(ir_arena *arena, ir_stems *stems, const char *stem) {
  int *next = ir_table_find(&stems->next, stem);
  if (next) return next;
  next = IR_NEW(arena, int);
  *next = 2;
  ir_table_add(arena, &stems->next, ir_strdup(arena, stem), next);
  return next;
}

const char *ir_stems_fresh(ir_arena *arena, ir_stems *stems, const char *stem, ir_name_taken *taken,
                           const void *user) {
  if (!taken(user, stem)) return stem;
  int *next = next_of(arena, stems, stem);
  for (;; ++*next) {
    const char *name = ir_format_text(arena, "%s_%d", stem, *next);
    if (!taken(user, name)) return name;
  }
}

void ir_stems_freed(ir_arena *arena, ir_stems *stems, const char *name) {
  const char *line = strrchr(name, '_');
  if (!line) return;
  int *next = ir_table_find(&stems->next, ir_strndup(arena, name, (size_t)(line - name)));
  long number = strtol(line + 1, NULL, 10);
  if (next && number >= 2 && number < *next) *next = (int)number;
}
