/* files_read.c - from a file's contents to the dtype, rank and format that a declaration wants. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files.h"

typedef struct reading {
  ir_arena *arena;
  ir_sink *sink;
  const char *path;
  const rt_wanted *wanted;
} reading;

static bool has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && !strcmp(path + n - m, ending);
}

static spc_status unfit(reading *r, const char *format, ...) IR_PRINTF(2, 3);
static spc_status unfit(reading *r, const char *format, ...) {
  va_list args;
  ir_text text = ir_text_new(r->arena);
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  ir_diag_add(r->sink, IR_DIAG_FILE_FIT, IR_NOWHERE, "`%s` does not fit `%s`: %s", r->path,
              r->wanted->name, text.data);
  return SPC_INVALID_INPUT;
}

static spc_status malformed(reading *r, const char *why) {
  ir_diag_add(r->sink, IR_DIAG_FILE_FORMAT, IR_NOWHERE, "`%s` is malformed: %s", r->path, why);
  return SPC_IO;
}

static spc_status load(reading *r, const char *path, unsigned char **data, size_t *bytes) {
  struct stat info;
  const char *fault = NULL;
  int file = open(path, O_RDONLY | O_NONBLOCK); /* a pipe that nobody writes does not hold us */
  size_t got = 0;
  if (file < 0 || fstat(file, &info))
    fault = strerror(errno);
  else if (!S_ISREG(info.st_mode))
    fault = S_ISDIR(info.st_mode) ? "it is a folder" : "it is a pipe or a device, not a file";
  if (!fault) {
    *bytes = (size_t)info.st_size;
    *data = ir_alloc(r->arena, *bytes + 1);
    for (ssize_t n = 1; n > 0 && got<*bytes; got += n> 0 ? (size_t)n : 0)
      n = read(file, *data + got, *bytes - got);
    if (got < *bytes) fault = "it ended before the length that it had";
  }
  if (file >= 0) close(file);
  if (!fault) return SPC_OK;
  ir_diag_add(r->sink, IR_DIAG_FILE_READ, IR_NOWHERE, "cannot read `%s`: %s", path, fault);
  return SPC_IO;
}

/* FILE.safetensors:TENSOR */
static const char *tensor_part(const char *path) {
  const char *at = strstr(path, ".safetensors:");
  return at ? at + strlen(".safetensors:") : NULL;
}

static spc_status parse(reading *r, const unsigned char *data, size_t bytes, rt_contents *out) {
  const char *why = "";
  spc_status status;
  *out = (rt_contents){0};
  if (tensor_part(r->path))
    status = rt_safetensors_parse(r->arena, data, bytes, tensor_part(r->path), &why, &out->dense);
  else if (has_ending(r->path, ".npz"))
    status = rt_npz_parse(r->arena, data, bytes, &why, out);
  else if (has_ending(r->path, ".smtx"))
    status = rt_smtx_parse(r->arena, data, bytes, &why, out);
  else if (has_ending(r->path, ".mtx"))
    status = rt_mtx_parse(r->arena, data, bytes, &why, out);
  else if (has_ending(r->path, ".tns"))
    status = rt_tns_parse(r->arena, data, bytes, &why, out);
  else if (has_ending(r->path, ".npy"))
    status = rt_npy_parse(r->arena, data, bytes, &why, &out->dense);
  else
    return malformed(r, "its ending is none of .npy, .npz, .mtx, .smtx, .tns, .safetensors:TENSOR");
  if (status) return malformed(r, why);
  if (!out->sparse) {
    out->rank = out->dense.rank;
    memcpy(out->dim, out->dense.dim, sizeof out->dim);
    out->kind = out->dense.kind;
    out->bytes = out->dense.bytes;
  }
  return SPC_OK;
}

/* NumPy's numbers that no dtype here stands for (complex, dates, long doubles) are read as far as
 * their name. */
static bool is_real(char kind, int bytes) {
  return kind != 'c' && kind != 'm' && kind != 'M' && kind != 'S' && kind != 'U' &&
         (kind != 'f' || bytes <= 8);
}

/* Which file dtypes a declared dtype takes; 't' is text, which every numeric dtype takes. */
static bool dtype_fits(ir_dtype want, char kind, int bytes, bool integer) {
  if (kind == 't') return ir_dtype_is_float(want) || integer;
  if (want == IR_BF16)
    return (kind == 'h') || (kind == 'u' && bytes == 2) || (kind == 'f' && bytes == 4);
  if (want == IR_F8E4M3)
    return kind == 'e' || (kind == 'u' && bytes == 1) || (kind == 'f' && bytes == 4);
  if (want == IR_F8E5M2)
    return kind == 'g' || (kind == 'u' && bytes == 1) || (kind == 'f' && bytes == 4);
  if (want == IR_B1) return bytes == 1 && (kind == 'b' || kind == 'u');
  if (want == IR_I4 || want == IR_U4) return bytes == 1 && (kind == 'i' || kind == 'u');
  if (bytes != (int)ir_dtype_bytes(want)) return false;
  char class_ = ir_dtype_rows[want].class_;
  return (class_ == 'F' && kind == 'f') || (class_ == 'S' && kind == 'i') ||
         (class_ == 'U' && kind == 'u');
}

static const char *kind_text(reading *r, char kind, int bytes) {
  switch (kind) {
  case 'h': return "bf16";
  case 'e': return "f8e4m3";
  case 'g': return "f8e5m2";
  case 'b': return "bool";
  case 't': return "real text";
  case 'S':
  case 'U': return "text";
  case 'm':
  case 'M': return "dates";
  case 'c': return ir_format_text(r->arena, "complex%d", bytes * 8);
  default:
    return ir_format_text(r->arena, "%s%d",
                          kind == 'f'   ? "float"
                          : kind == 'i' ? "int"
                                        : "uint",
                          bytes * 8);
  }
}

static spc_status check_fit(reading *r, const rt_contents *c) {
  const rt_wanted *w = r->wanted;
  if (c->rank != w->rank)
    return unfit(r, "it has %d axes, the declaration has %d", c->rank, w->rank);
  if (w->dtype == IR_NONE) return SPC_OK;
  if (c->pattern) return unfit(r, "it is a pattern without values; declare `pattern[...]`");
  if (!dtype_fits(w->dtype, c->kind, c->bytes, c->integer))
    return unfit(r, "it holds %s, the declaration is %s (nothing is converted silently)",
                 kind_text(r, c->kind, c->bytes), ir_dtype_text(w->dtype));
  return SPC_OK;
}

/* Linear storage index of row-major element i of a raw array. */
static int64_t storage_index(const rt_raw *raw, int64_t i) {
  if (!raw->fortran) return i;
  int64_t at[IR_MAX_RANK], out = 0;
  for (int d = raw->rank; d-- > 0;) {
    at[d] = i % raw->dim[d];
    i /= raw->dim[d];
  }
  for (int d = raw->rank; d-- > 0;) out = out * raw->dim[d] + at[d];
  return out;
}

static bool bits_of(ir_dtype want, char kind) {
  return kind == 'u' && (want == IR_BF16 || want == IR_F8E4M3 || want == IR_F8E5M2);
}

static spc_status copy_dense(reading *r, const rt_raw *raw, ir_dtype dtype, ir_view *out) {
  ir_view_dense(r->arena, dtype, raw->rank, raw->dim, out);
  bool same_bits = !raw->fortran && (bits_of(dtype, raw->kind) ||
                                     ((size_t)raw->bytes == ir_dtype_bytes(dtype) &&
                                      dtype != IR_I4 && dtype != IR_U4 && dtype != IR_B1 &&
                                      !(raw->kind == 'f' && raw->bytes == 4 && dtype != IR_F32)));
  if (same_bits) {
    memcpy(out->vals.data, raw->data, (size_t)raw->count * (size_t)raw->bytes);
    return SPC_OK;
  }
  for (int64_t i = 0; i < raw->count; i++) {
    int64_t from = storage_index(raw, i);
    if (bits_of(dtype, raw->kind)) {
      memcpy((char *)out->vals.data + i * raw->bytes, raw->data + from * raw->bytes,
             (size_t)raw->bytes);
    } else if (ir_dtype_is_float(dtype)) {
      ir_dtype_store(dtype, out->vals.data, i, rt_raw_float(raw, from));
    } else {
      int64_t value = rt_raw_int(raw, from);
      if (dtype == IR_B1) value = value != 0;
      if (ir_dtype_wrap(dtype, value) != value)
        return unfit(r, "element %lld is %lld, which %s does not hold", (long long)i,
                     (long long)value, ir_dtype_text(dtype));
      ir_dtype_store_int(dtype, out->vals.data, i, value);
    }
  }
  return SPC_OK;
}

static void remark_packed(reading *r, const char *what) {
  ir_text format = ir_text_new(r->arena);
  ir_format_print(r->wanted->format, &format);
  ir_diag_add(r->sink, IR_DIAG_PACKED, IR_NOWHERE, "`%s`: %s was packed into %s for `%s`", r->path,
              what, format.data, r->wanted->name);
}

/* What positions and coordinates are stored in. */
static ir_dtype index_dtype(const reading *r, const rt_contents *c) {
  if (r->wanted->index_dtype != IR_NONE) return r->wanted->index_dtype;
  bool wide = c->wide || c->entries.count > INT32_MAX || c->dense.count > INT32_MAX;
  for (int d = 0; d < c->rank; d++) wide = wide || c->dim[d] > INT32_MAX;
  return wide ? IR_I64 : IR_I32;
}

static spc_status pack_dense(reading *r, const rt_contents *c, ir_view *out) {
  const rt_wanted *w = r->wanted;
  ir_view dense;
  const char *why = "";
  ir_dtype dtype = w->dtype == IR_NONE ? IR_F64 : w->dtype;
  if (w->dtype == IR_NONE && c->kind != 'f') dtype = IR_I64;
  if (w->dtype == IR_NONE && !is_real(c->kind, c->bytes))
    return unfit(r, "it holds %s; the non-zeros of a pattern come from real numbers",
                 kind_text(r, c->kind, c->bytes));
  SPC_TRY(copy_dense(r, &c->dense, dtype, &dense));
  if (w->dtype != IR_NONE && (!w->format || ir_format_is_row_major(w->format))) {
    *out = dense;
    return SPC_OK;
  }
  if (ir_view_convert(r->arena, &dense, w->format, index_dtype(r, c), out, &why))
    return unfit(r, "%s", why);
  if (w->dtype == IR_NONE) ir_view_drop_values(out);
  if (!ir_format_is_dense(w->format)) remark_packed(r, "a dense array");
  return SPC_OK;
}

static spc_status integers_to_floats(reading *r, rt_contents *c) {
  ir_entries *e = &c->entries;
  e->value = IR_NEW_ARRAY(r->arena, double, e->count + 1);
  for (int64_t i = 0; i < e->count; i++) e->value[i] = (double)e->int_value[i];
  e->int_value = NULL;
  return SPC_OK;
}

static spc_status check_range(reading *r, const rt_contents *c) {
  for (int64_t i = 0; c->entries.int_value && i < c->entries.count; i++)
    if (ir_dtype_wrap(r->wanted->dtype, c->entries.int_value[i]) != c->entries.int_value[i] &&
        r->wanted->dtype != IR_B1)
      return unfit(r, "a value is %lld, which %s does not hold", (long long)c->entries.int_value[i],
                   ir_dtype_text(r->wanted->dtype));
  return SPC_OK;
}

static spc_status pack_sparse(reading *r, rt_contents *c, ir_view *out) {
  const rt_wanted *w = r->wanted;
  const char *why = "";
  if (w->dtype == IR_NONE)
    c->entries.value = NULL, c->entries.int_value = NULL;
  else if (ir_dtype_is_float(w->dtype) && c->integer)
    SPC_TRY(integers_to_floats(r, c));
  else if (!ir_dtype_is_float(w->dtype))
    SPC_TRY(check_range(r, c));
  for (int64_t i = 0; bits_of(w->dtype, c->kind) && c->entries.value && i < c->entries.count; i++) {
    uint16_t bits = (uint16_t)c->entries.value[i];
    c->entries.value[i] = ir_dtype_load(w->dtype, &bits, 0);
  }
  const ir_format *format =
      w->format ? w->format : ir_format_builtin(r->arena, "dense", w->rank, NULL, 0, &why);
  if (ir_view_pack(r->arena, w->dtype, c->dim, format, index_dtype(r, c), &c->entries, out, &why))
    return unfit(r, "%s", why);
  if (ir_format_is_dense(format)) remark_packed(r, "a sparse file");
  return SPC_OK;
}

spc_status rt_file_decode(ir_arena *arena, const char *path, const void *data, size_t bytes,
                          const rt_wanted *wanted, ir_sink *sink, ir_view *out) {
  reading r = {arena, sink, path, wanted};
  rt_contents contents;
  SPC_TRY(parse(&r, data, bytes, &contents));
  SPC_TRY(check_fit(&r, &contents));
  return contents.sparse ? pack_sparse(&r, &contents, out) : pack_dense(&r, &contents, out);
}

spc_status rt_file_read(ir_arena *arena, const char *path, const rt_wanted *wanted, ir_sink *sink,
                        ir_view *out) {
  reading r = {arena, sink, path, wanted};
  unsigned char *data;
  size_t bytes;
  const char *tensor = tensor_part(path);
  const char *file = tensor ? ir_strndup(arena, path, (size_t)(tensor - 1 - path)) : path;
  SPC_TRY(load(&r, file, &data, &bytes));
  return rt_file_decode(arena, path, data, bytes, wanted, sink, out);
}
