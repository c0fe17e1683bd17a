/* files_write.c - .npy and scipy's .npz (stored members; formats scipy lacks are written as coo).
 */
#include <stdio.h>
#include <zlib.h>

#include "runtime/files.h"

typedef struct writer {
  ir_arena *arena;
  ir_text out; /* bytes, not text */
  IR_VEC(size_t) starts;
  ir_text directory;
  int members;
} writer;

static void put16(ir_text *t, uint32_t v) {
  char b[2] = {(char)(v & 255), (char)(v >> 8 & 255)};
  ir_text_putn(t, b, 2);
}
static void put32(ir_text *t, uint32_t v) {
  put16(t, v & 0xffff);
  put16(t, v >> 16);
}

/* The .npy bytes of `count` elements already in file form. */
static void npy_bytes(ir_text *out, const char *descr, int rank, const int64_t *dim,
                      const void *data, size_t bytes) {
  char shape[256] = "", header[512];
  size_t n = 0;
  for (int d = 0; d < rank; d++)
    n += (size_t)snprintf(shape + n, sizeof shape - n, "%lld,%s", (long long)dim[d],
                          d + 1 < rank ? " " : "");
  int used = snprintf(header, sizeof header,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
  size_t total = ((size_t)used + 1 + 10 + 63) / 64 * 64 - 10;
  ir_text_putn(out, "\x93NUMPY\x01\x00", 8);
  put16(out, (uint32_t)total);
  ir_text_putn(out, header, (size_t)used);
  for (size_t i = (size_t)used; i + 1 < total; i++) ir_text_putn(out, " ", 1);
  ir_text_putn(out, "\n", 1);
  ir_text_putn(out, data, bytes);
}

/* Values in the dtype that files use: bf16 and f8 as float32, i4 as int8, b1 as bool. */
static void *file_values(ir_arena *arena, ir_dtype dtype, const void *data, int64_t count,
                         size_t *bytes) {
  bool widen = dtype == IR_BF16 || dtype == IR_F8E4M3 || dtype == IR_F8E5M2;
  size_t size = widen ? 4 : ir_dtype_bytes(dtype);
  *bytes = (size_t)count * size;
  char *out = ir_alloc(arena, *bytes + 1);
  if (!widen) {
    if (*bytes) memcpy(out, data, *bytes);
    return out;
  }
  for (int64_t i = 0; i < count; i++) ir_dtype_store(IR_F32, out, i, ir_dtype_load(dtype, data, i));
  return out;
}

static spc_status save(const char *path, const ir_text *bytes, ir_sink *sink) {
  int fault = rt_file_save(path, bytes->data, bytes->length);
  if (!fault) return SPC_OK;
  ir_diag_add(sink, IR_DIAG_FILE_WRITE, IR_NOWHERE, "cannot write `%s`: %s", path, strerror(fault));
  return SPC_IO;
}

static spc_status fails(ir_sink *sink, const char *path, const char *why) {
  ir_diag_add(sink, IR_DIAG_FILE_WRITE, IR_NOWHERE, "cannot write `%s`: %s", path, why);
  return SPC_INVALID_INPUT;
}

static spc_status write_npy(ir_arena *arena, const char *path, const ir_view *view, ir_sink *sink) {
  ir_view dense = *view;
  const char *why = "";
  size_t bytes;
  ir_text out = ir_text_new(arena);
  const ir_format *format = ir_format_builtin(arena, "dense", view->rank, NULL, 0, &why);
  if (!ir_format_is_row_major(view->format) &&
      ir_view_convert(arena, view, format, IR_I32, &dense, &why))
    return fails(sink, path, why);
  void *values = file_values(arena, dense.dtype, dense.vals.data, dense.vals.count, &bytes);
  npy_bytes(&out, ir_dtype_rows[dense.dtype].npy, dense.rank, dense.dim, values, bytes);
  return save(path, &out, sink);
}

/* ---- .npz ------------------------------------------------------------------------------------ */
static void add_member(writer *w, const char *name, const char *descr, int rank, const int64_t *dim,
                       const void *data, size_t bytes) {
  ir_text npy = ir_text_new(w->arena), *d = &w->directory;
  npy_bytes(&npy, descr, rank, dim, data, bytes);
  uint32_t crc = (uint32_t)crc32(0, (const Bytef *)npy.data, (uInt)npy.length),
           start = (uint32_t)w->out.length;
  size_t n = strlen(name);
  for (int central = 0; central < 2; central++) {
    ir_text *t = central ? d : &w->out;
    put32(t, central ? 0x02014b50u : 0x04034b50u);
    if (central) put16(t, 20);
    put16(t, 20);
    put16(t, 0);
    put16(t, 0);
    put32(t, 0x00210000u); /* 1 January 1980: the same bytes every time */
    put32(t, crc);
    put32(t, (uint32_t)npy.length);
    put32(t, (uint32_t)npy.length);
    put16(t, (uint32_t)n);
    put16(t, 0);
    if (central) {
      put16(t, 0);
      put16(t, 0);
      put16(t, 0);
      put32(t, 0);
      put32(t, start);
    }
    ir_text_putn(t, name, n);
  }
  ir_text_putn(&w->out, npy.data, npy.length);
  w->members++;
}

static void finish(writer *w) {
  uint32_t start = (uint32_t)w->out.length, length = (uint32_t)w->directory.length;
  ir_text_putn(&w->out, w->directory.data, w->directory.length);
  put32(&w->out, 0x06054b50u);
  put32(&w->out, 0);
  put16(&w->out, (uint32_t)w->members);
  put16(&w->out, (uint32_t)w->members);
  put32(&w->out, length);
  put32(&w->out, start);
  put16(&w->out, 0);
}

static void add_indices(writer *w, const char *name, const ir_array *array) {
  add_member(w, name, array->dtype == IR_I64 ? "<i8" : "<i4", 1, &array->count, array->data,
             (size_t)array->count * ir_dtype_bytes(array->dtype));
}

static void add_values(writer *w, const ir_view *view, int rank, const int64_t *dim) {
  size_t bytes;
  void *values = file_values(w->arena, view->dtype, view->vals.data, view->vals.count, &bytes);
  add_member(w, "data.npy", ir_dtype_rows[view->dtype].npy, rank, dim, values, bytes);
}

static void add_head(writer *w, const char *format, const ir_view *view) {
  int64_t rank = view->rank;
  add_member(w, "format.npy", "|S3", 0, NULL, format, 3);
  add_member(w, "shape.npy", "<i8", 1, &rank, view->dim, sizeof(int64_t) * (size_t)rank);
}

static bool named(const ir_view *view, const char *name) {
  return !strcmp(view->format->name, name);
}

static bool is_wide(const ir_view *view) {
  bool wide = false;
  for (int l = 0; l < view->format->level_count; l++)
    wide = wide || view->pos[l].dtype == IR_I64 || view->crd[l].dtype == IR_I64;
  for (int d = 0; d < view->rank; d++) wide = wide || view->dim[d] > INT32_MAX;
  return wide;
}

static spc_status add_coo(writer *w, const ir_view *view) {
  ir_entries e;
  ir_view_entries(w->arena, view, &e);
  add_head(w, "coo", view);
  ir_dtype index = is_wide(view) ? IR_I64 : IR_I32;
  const char *descr = ir_dtype_rows[index].npy;
  int64_t both[2] = {view->rank, e.count};
  ir_array axis = ir_array_new(w->arena, index, e.count * view->rank);
  for (int d = 0; d < view->rank; d++)
    for (int64_t i = 0; i < e.count; i++)
      ir_array_put(&axis, d * e.count + i, e.at[i * view->rank + d]);
  size_t bytes = (size_t)e.count * ir_dtype_bytes(index);
  if (view->rank == 2) {
    add_member(w, "row.npy", descr, 1, &e.count, axis.data, bytes);
    add_member(w, "col.npy", descr, 1, &e.count, (char *)axis.data + bytes, bytes);
  } else {
    add_member(w, "coords.npy", descr, 2, both, axis.data, bytes * (size_t)view->rank);
  }
  size_t value_bytes = ir_dtype_bytes(view->dtype);
  char *values = ir_alloc(w->arena, (size_t)e.count * value_bytes + 1);
  for (int64_t i = 0; i < e.count; i++) {
    if (e.value)
      ir_dtype_store(view->dtype, values, i, e.value[i]);
    else if (e.int_value)
      ir_dtype_store_int(view->dtype, values, i, e.int_value[i]);
  }
  ir_view flat = *view;
  flat.vals = (ir_array){values, e.count, view->dtype};
  add_values(w, &flat, 1, &e.count);
  return SPC_OK;
}

static spc_status write_npz(ir_arena *arena, const char *path, const ir_view *view, ir_sink *sink) {
  writer w = {.arena = arena, .out = ir_text_new(arena), .directory = ir_text_new(arena)};
  if ((uint64_t)view->vals.count * 8 * (uint64_t)(view->rank + 1) > 0xf0000000u)
    return fails(sink, path, "more than 4 GB in one .npz is not supported");
  if (named(view, "csr") || named(view, "csc")) {
    add_head(&w, view->format->name, view);
    add_indices(&w, "indptr.npy", &view->pos[1]);
    add_indices(&w, "indices.npy", &view->crd[1]);
    add_values(&w, view, 1, &view->vals.count);
  } else if (named(view, "bsr") && view->dim[0] % view->format->argument[0] == 0 &&
             view->dim[1] % view->format->argument[1] == 0) {
    int64_t blocks[3] = {view->crd[1].count, view->format->argument[0], view->format->argument[1]};
    add_head(&w, "bsr", view);
    add_indices(&w, "indptr.npy", &view->pos[1]);
    add_indices(&w, "indices.npy", &view->crd[1]);
    add_values(&w, view, 3, blocks);
  } else {
    SPC_TRY(add_coo(&w, view));
  }
  finish(&w);
  return save(path, &w.out, sink);
}

spc_status rt_file_write(ir_arena *arena, const char *path, const ir_view *view, ir_sink *sink) {
  size_t n = strlen(path);
  if (n >= 4 && !strcmp(path + n - 4, ".npz")) return write_npz(arena, path, view, sink);
  return write_npy(arena, path, view, sink);
}
