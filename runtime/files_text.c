/* files_text.c - text formats: Matrix Market (.mtx), DLMC's .smtx (pattern only), FROSTT's .tns.
 * Formats: NIST's Matrix Market page; the DLMC README; frostt.io, file formats. */
#include <ctype.h>
#include <stdlib.h>

#include "runtime/files.h"

typedef struct reader {
  ir_arena *arena;
  const char *at, *end;
  int line;
  const char **why;
} reader;

static spc_status bad(reader *r, const char *text) {
  *r->why = ir_format_text(r->arena, "line %d: %s", r->line, text);
  return SPC_IO;
}

static void skip_blank(reader *r) {
  while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')) r->at++;
}

static bool line_end(reader *r) {
  skip_blank(r);
  return r->at >= r->end || *r->at == '\n';
}

static void next_line(reader *r) {
  while (r->at < r->end && *r->at != '\n') r->at++;
  if (r->at < r->end) r->at++;
  r->line++;
}

/* Moves to the next line that is neither empty nor a comment; false at the end of the file. */
static bool content_line(reader *r, char comment) {
  for (;;) {
    if (r->at >= r->end) return false;
    if (!line_end(r) && *r->at != comment) return true;
    next_line(r);
  }
}

static bool read_integer(reader *r, int64_t *value) {
  skip_blank(r);
  bool negative = r->at < r->end && *r->at == '-';
  if (r->at < r->end && (*r->at == '-' || *r->at == '+')) r->at++;
  int64_t v = 0;
  int digits = 0;
  for (; r->at < r->end && isdigit((unsigned char)*r->at); r->at++, digits++) {
    if (v > (INT64_MAX - 9) / 10) return false;
    v = v * 10 + (*r->at - '0');
  }
  *value = negative ? -v : v;
  return digits > 0;
}

static bool read_real(reader *r, double *value) {
  char text[512];
  size_t n = 0;
  skip_blank(r);
  while (r->at < r->end && !isspace((unsigned char)*r->at) && n + 1 < sizeof text)
    text[n++] = *r->at++;
  text[n] = 0;
  char *end;
  *value = strtod(text, &end);
  return n > 0 && end == text + n;
}

static bool word_is(reader *r, const char *word) {
  skip_blank(r);
  size_t n = strlen(word);
  if ((size_t)(r->end - r->at) < n) return false;
  for (size_t i = 0; i < n; i++)
    if (tolower((unsigned char)r->at[i]) != word[i]) return false;
  if (r->at + n < r->end && !isspace((unsigned char)r->at[n])) return false;
  r->at += n;
  return true;
}

/* A line of an entry has at least `least` bytes: what a count may claim is bounded by the file's
 * length. */
static spc_status start(reader *r, rt_contents *out, int64_t count, int64_t expand) {
  if (count < 0 || count > r->end - r->at + 1)
    return bad(r, "the file is too short for the number of entries it claims");
  out->sparse = true;
  out->kind = 't';
  out->entries.rank = out->rank;
  out->entries.capacity = count * expand;
  out->entries.at = IR_NEW_ARRAY(r->arena, int64_t, out->entries.capacity * out->rank + 1);
  if (out->pattern) return SPC_OK;
  if (out->integer)
    out->entries.int_value = IR_NEW_ARRAY(r->arena, int64_t, out->entries.capacity + 1);
  else
    out->entries.value = IR_NEW_ARRAY(r->arena, double, out->entries.capacity + 1);
  return SPC_OK;
}

static void put(rt_contents *out, const int64_t *at, double value, int64_t integer) {
  int64_t e = out->entries.count++;
  memcpy(out->entries.at + e * out->rank, at, sizeof *at * (size_t)out->rank);
  if (out->pattern) return;
  if (out->integer)
    out->entries.int_value[e] = integer;
  else
    out->entries.value[e] = value;
}

typedef struct mtx_header {
  bool coordinate, symmetric, skew;
} mtx_header;

static spc_status mtx_banner(reader *r, mtx_header *h, rt_contents *out) {
  if (!word_is(r, "%%matrixmarket") || !word_is(r, "matrix"))
    return bad(r, "it does not begin with `%%MatrixMarket matrix`");
  h->coordinate = word_is(r, "coordinate");
  if (!h->coordinate && !word_is(r, "array"))
    return bad(r, "the layout is neither coordinate nor array");
  out->integer = word_is(r, "integer");
  out->pattern = !out->integer && word_is(r, "pattern");
  if (!out->integer && !out->pattern && !word_is(r, "real") && !word_is(r, "double"))
    return bad(r, "the values are not real, integer or pattern (complex is not supported)");
  h->symmetric = word_is(r, "symmetric");
  h->skew = !h->symmetric && word_is(r, "skew-symmetric");
  if (!h->symmetric && !h->skew && !word_is(r, "general"))
    return bad(r, "the symmetry is not general, symmetric or skew-symmetric");
  if (out->pattern && (!h->coordinate || h->skew))
    return bad(r, "a pattern is neither an array nor skew-symmetric");
  next_line(r);
  return SPC_OK;
}

static spc_status mtx_value(reader *r, const rt_contents *out, double *value, int64_t *integer) {
  if (out->pattern) return SPC_OK;
  if (out->integer ? !read_integer(r, integer) : !read_real(r, value))
    return bad(r, "a value is malformed");
  return SPC_OK;
}

static void put_with_mirror(const mtx_header *h, rt_contents *out, const int64_t *at, double value,
                            int64_t integer) {
  int64_t mirror[2] = {at[1], at[0]};
  put(out, at, value, integer);
  if ((h->symmetric || h->skew) && at[0] != at[1])
    put(out, mirror, h->skew ? -value : value, h->skew ? -integer : integer);
}

static spc_status mtx_coordinates(reader *r, const mtx_header *h, rt_contents *out, int64_t count) {
  SPC_TRY(start(r, out, count, h->symmetric || h->skew ? 2 : 1));
  for (int64_t e = 0; e < count; e++) {
    int64_t at[2], integer = 0;
    double value = 0;
    if (!content_line(r, '%')) return bad(r, "the file ends before its last entry");
    if (!read_integer(r, &at[0]) || !read_integer(r, &at[1]))
      return bad(r, "an entry has no row and column");
    if (at[0] < 1 || at[0] > out->dim[0] || at[1] < 1 || at[1] > out->dim[1])
      return bad(r, "an entry is outside the matrix");
    at[0]--, at[1]--;
    SPC_TRY(mtx_value(r, out, &value, &integer));
    if (!line_end(r)) return bad(r, "there is more on the line than an entry");
    put_with_mirror(h, out, at, value, integer);
    next_line(r);
  }
  return content_line(r, '%') ? bad(r, "there are more entries than the header says") : SPC_OK;
}

static spc_status mtx_array(reader *r, const mtx_header *h, rt_contents *out) {
  int64_t room = r->end - r->at + 1, mirrored = h->symmetric || h->skew ? 2 : 1;
  bool empty = !out->dim[0] || !out->dim[1];
  if (!empty && out->dim[1] > room * mirrored / out->dim[0] + mirrored)
    return bad(r, "the file is too short for its size");
  SPC_TRY(start(r, out, empty ? 0 : room, mirrored));
  if (empty)
    return content_line(r, '%') ? bad(r, "there are more values than the header says") : SPC_OK;
  for (int64_t j = 0; j < out->dim[1]; j++)
    for (int64_t i = h->symmetric ? j : h->skew ? j + 1 : 0; i < out->dim[0]; i++) {
      int64_t at[2] = {i, j}, integer = 0;
      double value = 0;
      if (!content_line(r, '%')) return bad(r, "the file ends before its last value");
      SPC_TRY(mtx_value(r, out, &value, &integer));
      put_with_mirror(h, out, at, value, integer);
      if (line_end(r)) next_line(r);
    }
  return content_line(r, '%') ? bad(r, "there are more values than the header says") : SPC_OK;
}

spc_status rt_mtx_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_contents *out) {
  reader r = {arena, data, (const char *)data + bytes, 1, why};
  mtx_header h = {0};
  int64_t count = 0;
  *out = (rt_contents){.rank = 2};
  SPC_TRY(mtx_banner(&r, &h, out));
  if (!content_line(&r, '%') || !read_integer(&r, &out->dim[0]) ||
      !read_integer(&r, &out->dim[1]) || (h.coordinate && !read_integer(&r, &count)) ||
      !line_end(&r))
    return bad(&r, h.coordinate ? "the size line is not `rows columns entries`"
                                : "the size line is not `rows columns`");
  if (out->dim[0] < 0 || out->dim[1] < 0 || count < 0) return bad(&r, "a size is negative");
  if ((h.symmetric || h.skew) && out->dim[0] != out->dim[1])
    return bad(&r, "a symmetric matrix is not square");
  next_line(&r);
  return h.coordinate ? mtx_coordinates(&r, &h, out, count) : mtx_array(&r, &h, out);
}

/* `rows, columns, entries`, then row offsets, then column numbers. */
static bool smtx_number(reader *r, int64_t *value) {
  while (r->at < r->end && (isspace((unsigned char)*r->at) || *r->at == ','))
    r->line += *r->at++ == '\n';
  return read_integer(r, value);
}

spc_status rt_smtx_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                         rt_contents *out) {
  reader r = {arena, data, (const char *)data + bytes, 1, why};
  int64_t count, last = 0;
  *out = (rt_contents){.rank = 2, .pattern = true};
  if (!smtx_number(&r, &out->dim[0]) || !smtx_number(&r, &out->dim[1]) || !smtx_number(&r, &count))
    return bad(&r, "it does not begin with `rows, columns, entries`");
  if (out->dim[0] < 0 || out->dim[1] < 0 || out->dim[0] > r.end - r.at)
    return bad(&r, "the file is too short for its rows");
  SPC_TRY(start(&r, out, count, 1));
  int64_t *offset = IR_NEW_ARRAY(arena, int64_t, out->dim[0] + 1);
  for (int64_t i = 0; i <= out->dim[0]; i++) {
    if (!smtx_number(&r, &offset[i])) return bad(&r, "the file ends inside the row offsets");
    if (offset[i] < last || offset[i] > count || (i == 0 && offset[0] != 0))
      return bad(&r, "the row offsets are not monotone from 0");
    last = offset[i];
  }
  if (last != count) return bad(&r, "the row offsets do not end at the number of entries");
  for (int64_t i = 0; i < out->dim[0]; i++)
    for (int64_t p = offset[i]; p < offset[i + 1]; p++) {
      int64_t at[2] = {i, 0};
      if (!smtx_number(&r, &at[1])) return bad(&r, "the file ends inside the column numbers");
      if (at[1] < 0 || at[1] >= out->dim[1])
        return bad(&r, "a column number is outside the matrix");
      put(out, at, 1, 1);
    }
  while (r.at < r.end && isspace((unsigned char)*r.at)) r.at++;
  return r.at < r.end ? bad(&r, "there is more after the last column number") : SPC_OK;
}

/* One entry a line, `i j k value`, from 1; the sizes are the largest coordinates. */
spc_status rt_tns_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_contents *out) {
  reader r = {arena, data, (const char *)data + bytes, 1, why};
  *out = (rt_contents){0};
  int64_t lines = 1;
  for (size_t i = 0; i < bytes; i++) lines += ((const char *)data)[i] == '\n';
  while (content_line(&r, '#')) {
    double field[IR_MAX_RANK + 1];
    int fields = 0;
    while (!line_end(&r)) {
      if (fields > IR_MAX_RANK) return bad(&r, "an entry has more than 8 coordinates");
      if (!read_real(&r, &field[fields++])) return bad(&r, "a number is malformed");
    }
    if (!out->rank) {
      out->rank = fields - 1;
      if (out->rank < 1) return bad(&r, "an entry has no coordinates");
      SPC_TRY(start(&r, out, 0, 1));
      out->entries.at = IR_NEW_ARRAY(arena, int64_t, lines * out->rank);
      out->entries.value = IR_NEW_ARRAY(arena, double, lines);
      out->entries.capacity = lines;
    }
    if (fields != out->rank + 1)
      return bad(&r, "an entry has another number of coordinates than the first");
    int64_t at[IR_MAX_RANK];
    for (int d = 0; d < out->rank; d++) {
      if (!(field[d] >= 1) || field[d] > 9e15 || field[d] != (double)(int64_t)field[d])
        return bad(&r, "a coordinate is not a positive integer");
      at[d] = (int64_t)field[d] - 1;
      if (at[d] >= out->dim[d]) out->dim[d] = at[d] + 1;
    }
    put(out, at, field[out->rank], 0);
    next_line(&r);
  }
  return out->rank ? SPC_OK : bad(&r, "it has no entries");
}
