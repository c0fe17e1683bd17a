/* tensor_convert.c - a tensor as a list of entries, and from there into another format.
 *
 * What a sparse format stores survives a conversion, zeros included: explicit zeros of csr, all
 * elements of a stored block inside the shape.  Zeros of a layout that stores every element do not
 * become entries of a sparse one. */
#include "ir/lists.h"
#include "ir/reorder.h"
#include "ir/rows.h"

typedef struct gather {
  const ir_view *view;
  ir_entries *out; /* NULL arrays while counting */
  bool drop_zeros;
} gather;

static bool is_zero(const ir_view *view, int64_t p) {
  if (view->dtype == IR_NONE) return false;
  if (ir_dtype_is_float(view->dtype)) return ir_dtype_load(view->dtype, view->vals.data, p) == 0.0;
  return ir_dtype_load_int(view->dtype, view->vals.data, p) == 0;
}

static bool count_entry(void *user, const int64_t *at, int64_t p) {
  (void)at;
  gather *g = user;
  g->out->capacity += !(g->drop_zeros && is_zero(g->view, p));
  return true;
}

static bool take_entry(void *user, const int64_t *at, int64_t p) {
  gather *g = user;
  ir_entries *out = g->out;
  if (g->drop_zeros && is_zero(g->view, p)) return true;
  int64_t e = out->count++;
  for (int d = 0; d < out->rank; d++) out->at[e * out->rank + d] = at[d];
  if (out->value) out->value[e] = ir_dtype_load(g->view->dtype, g->view->vals.data, p);
  if (out->int_value) out->int_value[e] = ir_dtype_load_int(g->view->dtype, g->view->vals.data, p);
  return true;
}

static void collect(ir_arena *arena, const ir_view *view, bool drop_zeros, ir_entries *out) {
  *out = (ir_entries){.rank = view->rank};
  gather g = {view, out, drop_zeros};
  ir_view_walk(view, count_entry, &g);
  out->at = ir_array_new(arena, IR_I64, out->capacity * (view->rank ? view->rank : 1)).data;
  if (ir_dtype_is_float(view->dtype))
    out->value = ir_array_new(arena, IR_F64, out->capacity).data;
  else if (view->dtype != IR_NONE)
    out->int_value = ir_array_new(arena, IR_I64, out->capacity).data;
  ir_view_walk(view, take_entry, &g);
}

void ir_view_entries(ir_arena *arena, const ir_view *view, ir_entries *out) {
  collect(arena, view, false, out);
}

static void count_rows(void *rows, int64_t begin, int64_t end) { ir_rows_count(rows, begin, end); }
static void fill_rows(void *rows, int64_t begin, int64_t end) { ir_rows_fill(rows, begin, end); }

static bool convert_rows(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                         const ir_format *format, ir_dtype index_dtype, ir_view *out) {
  ir_rows rows;
  if (!ir_rows_begin(arena, from, format, index_dtype, &rows)) return false;
  int64_t ns = rows.count * rows.length; /* about one a value */
  ir_crew_for(crew, rows.count, ns, count_rows, &rows);
  if (!ir_rows_room(arena, &rows)) return false;
  ir_crew_for(crew, rows.count, ns, fill_rows, &rows);
  *out = rows.to;
  return true;
}

/* What is not zero of a dense tensor, in the order in which it lies. */
static bool list_values(ir_arena *arena, const ir_crew *crew, const ir_view *from, ir_view *out) {
  ir_format *lists = IR_NEW(arena, ir_format);
  *lists = *from->format;
  lists->level[lists->level_count - 1].kind = IR_LEVEL_COMPRESSED;
  ir_format_settle(lists);
  return convert_rows(arena, crew, from, lists, IR_I32, out);
}

static bool reorder(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                    const ir_format *format, ir_dtype index_dtype, ir_view *out) {
  return ir_lists_convert(arena, crew, from, format, index_dtype, out) ||
         ir_reorder(arena, from, format, index_dtype, out);
}

static bool reorders(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                     const ir_format *format, ir_dtype index_dtype, ir_view *out) {
  bool drops = !ir_format_lists_entries(from->format) && ir_format_lists_entries(format);
  if (!drops) return reorder(arena, crew, from, format, index_dtype, out);
  ir_view lists;
  if (!ir_format_is_dense(from->format) || from->rank == 0 || !ir_reorders(from, format))
    return false;
  return list_values(arena, crew, from, &lists) &&
         reorder(arena, crew, &lists, format, index_dtype, out);
}

static bool is_index(const ir_array *array) {
  return array->dtype == IR_I32 || array->dtype == IR_I64;
}

static bool same_index(const ir_view *view, ir_dtype index_dtype) {
  for (int l = 0; l < view->format->level_count; l++)
    if ((is_index(&view->pos[l]) && view->pos[l].dtype != index_dtype) ||
        (is_index(&view->crd[l]) && view->crd[l].dtype != index_dtype))
      return false;
  return true;
}

static spc_status set_index(ir_arena *arena, ir_array *array, ir_dtype index_dtype,
                            const char **why) {
  if (!is_index(array) || array->dtype == index_dtype) return SPC_OK;
  ir_array to = ir_array_new(arena, index_dtype, array->count);
  for (int64_t i = 0; i < array->count; i++) {
    int64_t value = ir_array_int(array, i);
    if (ir_dtype_wrap(index_dtype, value) != value) {
      if (why)
        *why = ir_format_text(arena,
                              "positions and coordinates reach %lld, which does not fit in "
                              "i32; ask for i64 positions",
                              (long long)value);
      return SPC_INVALID_INPUT;
    }
    ir_array_put(&to, i, value);
  }
  *array = to;
  return SPC_OK;
}

spc_status ir_view_index(ir_arena *arena, ir_view *view, ir_dtype index_dtype, const char **why) {
  if (!view->format || same_index(view, index_dtype)) return SPC_OK;
  for (int l = 0; l < view->format->level_count; l++) {
    SPC_TRY(set_index(arena, &view->pos[l], index_dtype, why));
    SPC_TRY(set_index(arena, &view->crd[l], index_dtype, why));
  }
  return SPC_OK;
}

spc_status ir_view_convert(ir_arena *arena, const ir_view *from, const ir_format *format,
                           ir_dtype index_dtype, ir_view *out, const char **why) {
  return ir_view_convert_by(arena, NULL, from, format, index_dtype, out, why);
}

spc_status ir_view_convert_by(ir_arena *arena, const ir_crew *crew, const ir_view *from,
                              const ir_format *format, ir_dtype index_dtype, ir_view *out,
                              const char **why) {
  if (ir_format_equal(from->format, format)) {
    *out = *from;
    out->format = format;
    return ir_view_index(arena, out, index_dtype, why);
  }
  if (from->rank != format->rank) {
    if (why)
      *why = ir_format_text(arena, "a tensor of %d dimensions does not fit `%s`, which has %d",
                            from->rank, format->name, format->rank);
    return SPC_INVALID_INPUT;
  }
  if (convert_rows(arena, crew, from, format, index_dtype, out)) return SPC_OK;
  if (reorders(arena, crew, from, format, index_dtype, out)) return SPC_OK;
  ir_entries entries;
  collect(arena, from, !ir_format_lists_entries(from->format), &entries);
  return ir_view_pack(arena, from->dtype, from->dim, format, index_dtype, &entries, out, why);
}
