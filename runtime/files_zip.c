/* files_zip.c - scipy's .npz: a ZIP of .npy members (stored or deflated), read through its central
 * directory. Layout: PKWARE APPNOTE, sections 4.3 and 4.4; member names: scipy.sparse.save_npz. */
#include <zlib.h>

#include "runtime/files.h"

typedef struct zip {
  ir_arena *arena;
  const unsigned char *data;
  size_t bytes;
  const char **why;
} zip;

static spc_status bad(zip *z, const char *text) {
  *z->why = ir_strdup(z->arena, text);
  return SPC_IO;
}

static uint32_t u16(const unsigned char *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8; }
static uint32_t u32(const unsigned char *p) { return u16(p) | u16(p + 2) << 16; }
static uint64_t u64(const unsigned char *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

enum { END = 22, CENTRAL = 46, LOCAL = 30, MOST_EXPANSION = 1100 };

static const unsigned char *find_end(const zip *z) {
  if (z->bytes < END) return NULL;
  size_t least = z->bytes > END + 65535 ? z->bytes - END - 65535 : 0;
  for (size_t at = z->bytes - END + 1; at-- > least;)
    if (u32(z->data + at) == 0x06054b50u) return z->data + at;
  return NULL;
}

/* Sizes over 4 GiB stand in an extra field (tag 1). */
static void zip64_sizes(const unsigned char *extra, size_t length, uint64_t *size, uint64_t *packed,
                        uint64_t *offset) {
  for (size_t at = 0; at + 4 <= length;) {
    size_t tag = u16(extra + at), n = u16(extra + at + 2);
    const unsigned char *p = extra + at + 4;
    if (n > length - at - 4) return;
    if (tag == 1) {
      if (*size == 0xffffffffu && n >= 8) *size = u64(p), p += 8, n -= 8;
      if (*packed == 0xffffffffu && n >= 8) *packed = u64(p), p += 8, n -= 8;
      if (*offset == 0xffffffffu && n >= 8) *offset = u64(p);
      return;
    }
    at += 4 + n;
  }
}

static spc_status inflate_member(zip *z, const unsigned char *from, uint64_t packed, uint64_t size,
                                 unsigned char **out) {
  if (size / MOST_EXPANSION > packed + 1)
    return bad(z, "a member claims to expand more than deflate can");
  *out = ir_alloc(z->arena, (size_t)size + 1);
  z_stream stream = {0};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return bad(z, "zlib could not start");
  uint64_t in = 0, made = 0;
  int state = Z_OK;
  while (state == Z_OK) {
    uInt chunk_in = (uInt)(packed - in > 1u << 30 ? 1u << 30 : packed - in);
    uInt chunk_out = (uInt)(size - made > 1u << 30 ? 1u << 30 : size - made);
    unsigned char spare;
    stream.next_in = (Bytef *)(uintptr_t)(from + in);
    stream.avail_in = chunk_in;
    stream.next_out = chunk_out ? *out + made : &spare;
    stream.avail_out = chunk_out ? chunk_out : 1;
    uInt room = stream.avail_out;
    state = inflate(&stream, Z_NO_FLUSH);
    in += chunk_in - stream.avail_in;
    made += room - stream.avail_out;
    if (made > size || (stream.avail_in == chunk_in && room == stream.avail_out && state == Z_OK))
      break;
  }
  inflateEnd(&stream);
  return state == Z_STREAM_END && made == size ? SPC_OK : bad(z, "a compressed member is damaged");
}

static spc_status member_data(zip *z, const unsigned char *central, const unsigned char **data,
                              size_t *bytes) {
  uint64_t packed = u32(central + 20), size = u32(central + 24), offset = u32(central + 42);
  zip64_sizes(central + CENTRAL + u16(central + 28), u16(central + 30), &size, &packed, &offset);
  if (u16(central + 8) & 1) return bad(z, "a member is encrypted");
  if (offset > z->bytes || z->bytes - offset < LOCAL || u32(z->data + offset) != 0x04034b50u)
    return bad(z, "a member's header is not where the directory says");
  const unsigned char *local = z->data + offset;
  uint64_t start = offset + LOCAL + u16(local + 26) + u16(local + 28);
  if (start > z->bytes || packed > z->bytes - start)
    return bad(z, "a member is longer than the file");
  unsigned method = u16(central + 10);
  *bytes = (size_t)size;
  if (method == 0) {
    if (size != packed) return bad(z, "a stored member's sizes disagree");
    *data = z->data + start;
  } else if (method == 8) {
    unsigned char *inflated;
    SPC_TRY(inflate_member(z, z->data + start, packed, size, &inflated));
    *data = inflated;
  } else {
    return bad(z, "a member is compressed by a method other than deflate");
  }
  uLong crc = crc32(0, NULL, 0);
  for (size_t at = 0; at < *bytes; at += 1u << 30)
    crc = crc32(crc, *data + at, (uInt)(*bytes - at > 1u << 30 ? 1u << 30 : *bytes - at));
  return crc == u32(central + 16) ? SPC_OK : bad(z, "a member's checksum is wrong");
}

static bool named(const unsigned char *central, const char *name) {
  size_t n = strlen(name);
  return u16(central + 28) == n + 4 && !memcmp(central + CENTRAL, name, n) &&
         !memcmp(central + CENTRAL + n, ".npy", 4);
}

/* The member NAME.npy; SPC_OK with found = false when there is none. */
static spc_status member(zip *z, const char *name, bool *found, rt_raw *out) {
  const unsigned char *end = find_end(z);
  *found = false;
  if (!end) return bad(z, "it is not a ZIP file");
  uint64_t at = u32(end + 16), count = u16(end + 10);
  for (uint64_t i = 0; i < count; i++) {
    if (at > z->bytes || z->bytes - at < CENTRAL || u32(z->data + at) != 0x02014b50u)
      return bad(z, "the directory of the ZIP file is damaged");
    const unsigned char *central = z->data + at;
    uint64_t length = CENTRAL + u16(central + 28) + u16(central + 30) + u16(central + 32);
    if (length > z->bytes - at) return bad(z, "the directory of the ZIP file is damaged");
    if (named(central, name)) {
      const unsigned char *data;
      size_t bytes;
      *found = true;
      SPC_TRY(member_data(z, central, &data, &bytes));
      return rt_npy_parse(z->arena, data, bytes, z->why, out);
    }
    at += length;
  }
  return SPC_OK;
}

static spc_status need(zip *z, const char *name, rt_raw *out) {
  bool found;
  SPC_TRY(member(z, name, &found, out));
  if (found) return SPC_OK;
  *z->why = ir_format_text(
      z->arena, "it has no member `%s.npy`; was it written by scipy.sparse.save_npz?", name);
  return SPC_IO;
}

static bool is_integer(const rt_raw *raw) { return raw->kind == 'i' || raw->kind == 'u'; }

static spc_status set_values(zip *z, const rt_raw *data, rt_contents *out) {
  bool floats = data->kind == 'f';
  if (!floats && !is_integer(data) && data->kind != 'b') return bad(z, "data.npy is not numeric");
  out->kind = data->kind;
  out->bytes = data->bytes;
  out->integer = !floats;
  if (floats)
    out->entries.value = IR_NEW_ARRAY(z->arena, double, data->count + 1);
  else
    out->entries.int_value = IR_NEW_ARRAY(z->arena, int64_t, data->count + 1);
  return SPC_OK;
}

static void put_value(rt_contents *out, const rt_raw *data, int64_t to, int64_t from) {
  if (out->integer)
    out->entries.int_value[to] = rt_raw_int(data, from);
  else
    out->entries.value[to] = rt_raw_float(data, from);
}

static spc_status set_shape(zip *z, rt_contents *out) {
  rt_raw shape;
  SPC_TRY(need(z, "shape", &shape));
  if (!is_integer(&shape) || shape.rank != 1 || shape.count < 1 || shape.count > IR_MAX_RANK)
    return bad(z, "shape.npy is not a list of 1 to 8 integers");
  out->rank = (int)shape.count;
  for (int d = 0; d < out->rank; d++) {
    out->dim[d] = rt_raw_int(&shape, d);
    if (out->dim[d] < 0) return bad(z, "shape.npy has a negative size");
  }
  return SPC_OK;
}

static spc_status put_entry(zip *z, rt_contents *out, const int64_t *at) {
  for (int d = 0; d < out->rank; d++)
    if (at[d] < 0 || at[d] >= out->dim[d]) return bad(z, "an index is outside the shape");
  memcpy(out->entries.at + out->entries.count * out->rank, at, sizeof *at * (size_t)out->rank);
  out->entries.count++;
  return SPC_OK;
}

static void start_entries(zip *z, rt_contents *out, int64_t count) {
  out->sparse = true;
  out->entries.rank = out->rank;
  out->entries.capacity = count;
  out->entries.at = IR_NEW_ARRAY(z->arena, int64_t, count * out->rank + 1);
}

/* csr, csc and bsr share indptr and indices; a bsr block has r x c values. */
static spc_status read_compressed(zip *z, bool by_row, bool blocks, rt_contents *out) {
  rt_raw data, indices, indptr;
  SPC_TRY(need(z, "data", &data));
  SPC_TRY(need(z, "indices", &indices));
  SPC_TRY(need(z, "indptr", &indptr));
  if (out->rank != 2) return bad(z, "the shape of a compressed matrix does not have two axes");
  if (!is_integer(&indices) || !is_integer(&indptr) || data.rank != (blocks ? 3 : 1) ||
      indices.rank != 1 || indptr.rank != 1 || indptr.count < 1)
    return bad(z, "indices, indptr or data have the wrong dtype or rank");
  if (data.fortran) return bad(z, "data.npy is in Fortran order");
  out->wide = indices.bytes == 8 || indptr.bytes == 8;
  int64_t r = blocks ? data.dim[1] : 1, c = blocks ? data.dim[2] : 1;
  int64_t stored = blocks ? data.dim[0] : data.count;
  int64_t outer = by_row ? out->dim[0] : out->dim[1];
  if (r < 1 || c < 1 || outer / r != indptr.count - 1 || stored != indices.count)
    return bad(z, "indptr, indices, data and shape disagree");
  start_entries(z, out, data.count);
  SPC_TRY(set_values(z, &data, out));
  int64_t last = 0;
  for (int64_t o = 0; o + 1 < indptr.count; o++) {
    int64_t begin = rt_raw_int(&indptr, o), end = rt_raw_int(&indptr, o + 1);
    if (begin != last || end < begin || end > stored)
      return bad(z, "indptr is not monotone or leaves indices");
    last = end;
    for (int64_t p = begin; p < end; p++)
      for (int64_t e = 0; e < r * c; e++) {
        int64_t i = rt_raw_int(&indices, p);
        int64_t at[2] = {by_row ? o * r + e / c : i, by_row ? i * c + e % c : o};
        if (i < 0 || i > INT64_MAX / 2 / c) return bad(z, "an index is outside the shape");
        put_value(out, &data, out->entries.count, p * r * c + e);
        SPC_TRY(put_entry(z, out, at));
      }
  }
  return last == stored ? SPC_OK : bad(z, "indptr does not cover indices");
}

static spc_status read_coo(zip *z, rt_contents *out) {
  rt_raw data, coordinate[IR_MAX_RANK], both;
  bool found;
  SPC_TRY(need(z, "data", &data));
  SPC_TRY(member(z, "coords", &found, &both));
  for (int d = 0; d < out->rank && !found; d++) {
    if (out->rank != 2) return bad(z, "coords.npy is missing");
    SPC_TRY(need(z, d ? "col" : "row", &coordinate[d]));
    if (!is_integer(&coordinate[d]) || coordinate[d].count != data.count)
      return bad(z, "row, col and data disagree");
  }
  if (found && (!is_integer(&both) || both.fortran || both.rank != 2 || both.dim[0] != out->rank ||
                both.dim[1] != data.count))
    return bad(z, "coords and data disagree");
  out->wide = found ? both.bytes == 8 : coordinate[0].bytes == 8;
  start_entries(z, out, data.count);
  SPC_TRY(set_values(z, &data, out));
  for (int64_t e = 0; e < data.count; e++) {
    int64_t at[IR_MAX_RANK];
    for (int d = 0; d < out->rank; d++)
      at[d] = found ? rt_raw_int(&both, d * data.count + e) : rt_raw_int(&coordinate[d], e);
    put_value(out, &data, e, e);
    SPC_TRY(put_entry(z, out, at));
  }
  return SPC_OK;
}

static bool format_is(const rt_raw *raw, const char *name) {
  int step = raw->kind == 'U' ? 4 : 1, n = (int)strlen(name);
  if (raw->bytes / step < n) return false;
  for (int i = 0; i < raw->bytes / step; i++)
    if (raw->data[i * step] != (i < n ? (unsigned char)name[i] : 0)) return false;
  return true;
}

spc_status rt_npz_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_contents *out) {
  zip z = {arena, data, bytes, why};
  rt_raw format;
  *out = (rt_contents){0};
  SPC_TRY(need(&z, "format", &format));
  if ((format.kind != 'S' && format.kind != 'U') || format.count != 1)
    return bad(&z, "format.npy is not one string");
  SPC_TRY(set_shape(&z, out));
  if (format_is(&format, "csr")) return read_compressed(&z, true, false, out);
  if (format_is(&format, "csc")) return read_compressed(&z, false, false, out);
  if (format_is(&format, "bsr")) return read_compressed(&z, true, true, out);
  if (format_is(&format, "coo")) return read_coo(&z, out);
  return bad(&z, "its scipy format is not csr, csc, bsr or coo (dia: convert it with .tocsr())");
}
