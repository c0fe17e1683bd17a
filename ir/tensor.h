/* tensor.h - a plain view of a tensor in memory, and what can be done with any format.
 *
 * A view owns nothing.  Values of a `pattern` are absent (vals.data NULL, dtype IR_NONE). */
#ifndef SPC_IR_TENSOR_H
#define SPC_IR_TENSOR_H

#include "ir/crew.h"
#include "ir/diag.h"
#include "ir/format.h"

typedef struct ir_array {
  void *data;
  int64_t count; /* elements */
  ir_dtype dtype;
} ir_array;

typedef struct ir_view {
  ir_dtype dtype;
  int rank;
  int64_t dim[IR_MAX_RANK];
  const ir_format *format;
  ir_array pos[IR_MAX_LEVELS], crd[IR_MAX_LEVELS]; /* empty where the level has none */
  ir_array vals;
} ir_view;

ir_array ir_array_new(ir_arena *arena, ir_dtype dtype, int64_t count); /* zeroed; IR_NONE: empty */
/* The same, of any content: for arrays that are written whole. */
ir_array ir_array_room(ir_arena *arena, ir_dtype dtype, int64_t count);
static inline int64_t ir_array_int(const ir_array *array, int64_t i) {
  if (array->dtype == IR_I32) return ((const int32_t *)array->data)[i];
  if (array->dtype == IR_I64) return ((const int64_t *)array->data)[i];
  return ir_dtype_load_int(array->dtype, array->data, i);
}

static inline void ir_array_put(ir_array *array, int64_t i, int64_t value) {
  if (array->dtype == IR_I32)
    ((int32_t *)array->data)[i] = (int32_t)value;
  else if (array->dtype == IR_I64)
    ((int64_t *)array->data)[i] = value;
  else
    ir_dtype_store_int(array->dtype, array->data, i, value);
}

/* Coordinates and values as a list: the common currency of conversions.  Entry e has coordinates
 * at[e * rank .. +rank) and value[e] (value NULL: pattern). Values are exact: f64 holds floats of
 * up to 64 bits, int_value holds integers. */
typedef struct ir_entries {
  int rank;
  int64_t count, capacity;
  int64_t *at;
  double *value;
  int64_t *int_value; /* used instead of value when the dtype is an integer or b1 */
} ir_entries;

/* Every stored entry in storage order, explicit zeros included, padding not. Stops when `visit`
 * returns false.  `position` indexes vals. */
typedef bool ir_visit(void *user, const int64_t *coordinates, int64_t position);
void ir_view_walk(const ir_view *view, ir_visit *visit, void *user);
/* Only the entries whose coordinate along axis d is fixed[d]; -1: any. */
void ir_view_walk_where(const ir_view *view, const int64_t *fixed, ir_visit *visit, void *user);

/* Position in vals of the element at `coordinates`, or -1 when it is not stored (its value is 0).
 */
int64_t ir_view_locate(const ir_view *view, const int64_t *coordinates);

/* The element's value, 0 where nothing is stored; a pattern gives 1 where an entry is stored. */
double ir_view_value(const ir_view *view, const int64_t *coordinates);
int64_t ir_view_value_int(const ir_view *view, const int64_t *coordinates);

/* Checks every structural promise of the format: monotone positions, coordinates in range, sorted,
 * unique, counts within capacity.  Returns SPC_INVALID_INPUT and *why (arena text) at the first
 * fault. */
spc_status ir_view_check(ir_arena *arena, const ir_view *view, const char **why);

/* Packs entries (any order; duplicates are summed) into `format`; all arrays from the arena.
 * index_dtype is IR_I32 or IR_I64 for pos and crd.  SPC_INVALID_INPUT with *why when they do not
 * fit (three of four in nm(2,4); ell width). */
spc_status ir_view_pack(ir_arena *arena, ir_dtype dtype, const int64_t *dims,
                        const ir_format *format, ir_dtype index_dtype, ir_entries *entries,
                        ir_view *out, const char **why);
void ir_view_entries(ir_arena *arena, const ir_view *view, ir_entries *out);
spc_status ir_view_convert(ir_arena *arena, const ir_view *from, const ir_format *format,
                           ir_dtype index_dtype, ir_view *out, const char **why);
/* The same by several threads, with the same result; crew NULL: by the caller's. */
spc_status ir_view_convert_by(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                              const ir_format *format, ir_dtype index_dtype, ir_view *out,
                              const char **why);
/* Positions and coordinates as index_dtype (bits and places of n:m stay bytes): new arrays where
 * they differ, SPC_INVALID_INPUT with *why where one does not fit. */
spc_status ir_view_index(ir_arena *arena, ir_view *view, ir_dtype index_dtype, const char **why);
/* Keeps the coordinates alone: the view becomes a pattern. */
void ir_view_drop_values(ir_view *view);
/* A dense row-major view with zeroed values. */
void ir_view_dense(ir_arena *arena, ir_dtype dtype, int rank, const int64_t *dims, ir_view *out);
int64_t ir_view_elements(const ir_view *view); /* product of dims; -1 on overflow */
/* How many positions the levels before `level` give; level_count: how many values are stored. */
int64_t ir_view_positions(const ir_view *view, int level);

#endif
