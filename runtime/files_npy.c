/* files_npy.c - NumPy's .npy: the header (versions 1 to 3), elements, and safetensors, which is a
 * header of another kind before the same sort of data. Layouts: NumPy Enhancement Proposal 1; the
 * safetensors format page of its project. */
#include <stdlib.h>

#include "runtime/files.h"

static spc_status bad(ir_arena *arena, const char **why, const char *text) {
  *why = ir_strdup(arena, text);
  return SPC_IO;
}

double rt_raw_float(const rt_raw *raw, int64_t i) {
  const unsigned char *p = raw->data + i * raw->bytes;
  double d;
  float f;
  uint16_t h;
  if (raw->kind == 'h' || raw->kind == 'e' || raw->kind == 'g' ||
      (raw->kind == 'f' && raw->bytes == 2)) {
    memcpy(&h, p, raw->bytes == 2 ? 2 : 1);
    unsigned char byte = *p;
    if (raw->kind == 'e') return ir_dtype_load(IR_F8E4M3, &byte, 0);
    if (raw->kind == 'g') return ir_dtype_load(IR_F8E5M2, &byte, 0);
    return ir_dtype_load(raw->kind == 'h' ? IR_BF16 : IR_F16, &h, 0);
  }
  if (raw->kind != 'f') return (double)rt_raw_int(raw, i);
  if (raw->bytes == 4) {
    memcpy(&f, p, 4);
    return (double)f;
  }
  memcpy(&d, p, 8);
  return d;
}

int64_t rt_raw_int(const rt_raw *raw, int64_t i) {
  const unsigned char *p = raw->data + i * raw->bytes;
  uint64_t value = 0;
  for (int b = 0; b < raw->bytes && b < 8; b++) value |= (uint64_t)p[b] << (8 * b);
  if (raw->kind == 'i' && raw->bytes < 8) {
    uint64_t sign = (uint64_t)1 << (8 * raw->bytes - 1);
    return (int64_t)((value ^ sign) - sign);
  }
  return (int64_t)value;
}

/* ---- the header of .npy: a Python dictionary with three keys -------------------------------- */
typedef struct cursor {
  const char *at, *end;
} cursor;

static void skip_space(cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r'))
    c->at++;
}
static bool eat(cursor *c, const char *text) {
  skip_space(c);
  size_t n = strlen(text);
  if ((size_t)(c->end - c->at) < n || memcmp(c->at, text, n)) return false;
  c->at += n;
  return true;
}
static bool quoted(cursor *c, char *out, size_t room) {
  skip_space(c);
  if (c->at >= c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  size_t n = 0;
  while (c->at < c->end && *c->at != quote && n + 1 < room) out[n++] = *c->at++;
  out[n] = 0;
  return c->at < c->end && *c->at++ == quote;
}
static bool integer(cursor *c, int64_t *value) {
  skip_space(c);
  int64_t v = 0;
  int digits = 0;
  for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++, digits++) {
    if (v > (INT64_MAX - 9) / 10) return false;
    v = v * 10 + (*c->at - '0');
  }
  *value = v;
  return digits > 0;
}

static bool shape(cursor *c, rt_raw *out) {
  if (!eat(c, "(")) return false;
  while (!eat(c, ")")) {
    if (out->rank == IR_MAX_RANK || !integer(c, &out->dim[out->rank])) return false;
    out->rank++;
    (void)eat(c, "L");
    if (!eat(c, ",") && (skip_space(c), c->at >= c->end || *c->at != ')')) return false;
  }
  return true;
}

static bool descr(const char *text, rt_raw *out, bool *big_endian) {
  *big_endian = text[0] == '>';
  if (!strchr("<>|=", text[0]) || !text[0] || !strchr("fiubcmMSU", text[1]) || !text[1])
    return false;
  out->kind = text[1];
  out->bytes = atoi(text + 2);
  if (out->kind == 'U') out->bytes *= 4;
  if (out->bytes < 1 || out->bytes > 1024) return false;
  int n = out->bytes;
  if (out->kind == 'b') return n == 1;
  if (out->kind == 'f') return n == 2 || n == 4 || n == 8 || n == 12 || n == 16;
  if (out->kind == 'i' || out->kind == 'u') return n == 1 || n == 2 || n == 4 || n == 8;
  return true;
}

static const char *dictionary(cursor *c, rt_raw *out) {
  bool has_descr = false, has_order = false, has_shape = false, big = false;
  char key[32], text[32];
  if (!eat(c, "{")) return "the header is not a dictionary";
  while (!eat(c, "}")) {
    if (!quoted(c, key, sizeof key) || !eat(c, ":")) return "the header's dictionary is malformed";
    if ((has_descr && !strcmp(key, "descr")) || (has_shape && !strcmp(key, "shape")))
      return "the header gives a key twice";
    if (!strcmp(key, "descr")) {
      if (!quoted(c, text, sizeof text)) return "a structured dtype is not supported";
      if (!descr(text, out, &big)) return "the dtype is not one of numbers, b1 and text";
      has_descr = true;
    } else if (!strcmp(key, "fortran_order")) {
      out->fortran = eat(c, "True");
      if (!out->fortran && !eat(c, "False")) return "fortran_order is neither True nor False";
      has_order = true;
    } else if (!strcmp(key, "shape")) {
      if (!shape(c, out)) return "the shape is malformed or has more than 8 axes";
      has_shape = true;
    } else {
      return "the header has an unknown key";
    }
    if (!eat(c, ",") && (skip_space(c), c->at >= c->end || *c->at != '}'))
      return "the header is malformed";
  }
  if (big && out->bytes > 1)
    return "big-endian data are not supported; write it with dtype.newbyteorder('<')";
  return has_descr && has_order && has_shape ? NULL
                                             : "the header lacks descr, fortran_order or shape";
}

/* As NumPy has it: sizes beside a 0 must not overflow either, whatever their order. */
static bool count_elements(rt_raw *raw) {
  bool empty = false;
  raw->count = 1;
  for (int d = 0; d < raw->rank; d++) {
    empty = empty || !raw->dim[d];
    if (!raw->dim[d]) continue;
    if (raw->count > INT64_MAX / 2 / raw->bytes / raw->dim[d]) return false;
    raw->count *= raw->dim[d];
  }
  if (empty) raw->count = 0;
  return true;
}

spc_status rt_npy_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_raw *out) {
  const unsigned char *p = data;
  *out = (rt_raw){0};
  if (bytes < 10 || memcmp(p, "\x93NUMPY", 6))
    return bad(arena, why, "it does not begin with NumPy's magic bytes");
  if (p[6] < 1 || p[6] > 3) return bad(arena, why, "the .npy version is not 1, 2 or 3");
  size_t start = p[6] == 1 ? 10 : 12;
  if (bytes < start) return bad(arena, why, "the file ends inside the header");
  size_t length =
      p[6] == 1 ? (size_t)p[8] | (size_t)p[9] << 8
                : (size_t)p[8] | (size_t)p[9] << 8 | (size_t)p[10] << 16 | (size_t)p[11] << 24;
  if (length > bytes - start) return bad(arena, why, "the file ends inside the header");
  cursor c = {(const char *)p + start, (const char *)p + start + length};
  const char *fault = dictionary(&c, out);
  if (fault) return bad(arena, why, fault);
  if (!count_elements(out)) return bad(arena, why, "the shape overflows");
  out->data = p + start + length;
  size_t rest = bytes - start - length;
  if ((uint64_t)out->count * (uint64_t)out->bytes > rest) {
    *why = ir_format_text(arena, "the shape wants %llu bytes of data and the file has %zu",
                          (unsigned long long)out->count * (unsigned long long)out->bytes, rest);
    return SPC_IO;
  }
  return SPC_OK;
}

/* ---- safetensors: u64 length, a JSON object, data -------------------------------------------- */
typedef struct st_dtype {
  const char *name;
  char kind;
  int bytes;
} st_dtype;
static const st_dtype st_dtypes[] = {
    {"F64", 'f', 8},     {"F32", 'f', 4}, {"F16", 'f', 2}, {"BF16", 'h', 2}, {"F8_E4M3", 'e', 1},
    {"F8_E5M2", 'g', 1}, {"I64", 'i', 8}, {"I32", 'i', 4}, {"I16", 'i', 2},  {"I8", 'i', 1},
    {"U8", 'u', 1},      {"U16", 'u', 2}, {"BOOL", 'b', 1}};

/* A JSON string with its escapes left as they are (tensor names rarely have any). */
static bool json_string(cursor *c, const char **text, size_t *length) {
  if (!eat(c, "\"")) return false;
  *text = c->at;
  while (c->at < c->end && *c->at != '"') c->at += *c->at == '\\' && c->at + 1 < c->end ? 2 : 1;
  if (c->at >= c->end) return false;
  *length = (size_t)(c->at - *text);
  c->at++;
  return true;
}

static bool skip_value(cursor *c, int depth) {
  const char *text;
  size_t n;
  skip_space(c);
  if (depth > 32 || c->at >= c->end) return false;
  if (*c->at == '"') return json_string(c, &text, &n);
  if (*c->at == '{' || *c->at == '[') {
    char close = *c->at == '{' ? '}' : ']';
    bool object = *c->at++ == '{';
    for (;;) {
      skip_space(c);
      if (c->at < c->end && *c->at == close) return c->at++, true;
      if (object && (!json_string(c, &text, &n) || !eat(c, ":"))) return false;
      if (!skip_value(c, depth + 1)) return false;
      if (!eat(c, ",") && (skip_space(c), c->at >= c->end || *c->at != close)) return false;
    }
  }
  const char *begin = c->at;
  while (c->at < c->end && !strchr(",}] \n\t\r", *c->at)) c->at++;
  return c->at > begin;
}

static const char *st_entry(cursor *c, rt_raw *out, int64_t offsets[2]) {
  bool typed = false, shaped = false, placed = false;
  if (!eat(c, "{")) return "a tensor's entry is not an object";
  while (!eat(c, "}")) {
    const char *key, *text;
    size_t n, m;
    if (!json_string(c, &key, &n) || !eat(c, ":")) return "the header's JSON is malformed";
    if (n == 5 && ((typed && !memcmp(key, "dtype", 5)) || (shaped && !memcmp(key, "shape", 5))))
      return "a tensor's entry gives a key twice";
    if (n == 5 && !memcmp(key, "dtype", 5)) {
      if (!json_string(c, &text, &m)) return "dtype is not a string";
      for (int i = 0; i < IR_COUNT(st_dtypes); i++)
        if (strlen(st_dtypes[i].name) == m && !memcmp(st_dtypes[i].name, text, m)) {
          out->kind = st_dtypes[i].kind;
          out->bytes = st_dtypes[i].bytes;
          typed = true;
        }
      if (!typed) return "the dtype is not supported";
    } else if (n == 5 && !memcmp(key, "shape", 5)) {
      if (!eat(c, "[")) return "shape is not a list";
      while (!eat(c, "]")) {
        if (out->rank == IR_MAX_RANK || !integer(c, &out->dim[out->rank]))
          return "the shape is malformed or has more than 8 axes";
        out->rank++;
        (void)eat(c, ",");
      }
      shaped = true;
    } else if (n == 12 && !memcmp(key, "data_offsets", 12)) {
      if (!eat(c, "[") || !integer(c, &offsets[0]) || !eat(c, ",") || !integer(c, &offsets[1]) ||
          !eat(c, "]"))
        return "data_offsets is malformed";
      placed = true;
    } else if (!skip_value(c, 0)) {
      return "the header's JSON is malformed";
    }
    (void)eat(c, ",");
  }
  return typed && shaped && placed ? NULL : "a tensor's entry lacks dtype, shape or data_offsets";
}

spc_status rt_safetensors_parse(ir_arena *arena, const void *data, size_t bytes, const char *tensor,
                                const char **why, rt_raw *out) {
  const unsigned char *p = data;
  uint64_t length = 0;
  *out = (rt_raw){0};
  if (bytes < 8) return bad(arena, why, "the file is shorter than its length field");
  for (int b = 0; b < 8; b++) length |= (uint64_t)p[b] << (8 * b);
  if (length > bytes - 8) return bad(arena, why, "the header is longer than the file");
  cursor c = {(const char *)p + 8, (const char *)p + 8 + length};
  ir_text names = ir_text_new(arena);
  if (!eat(&c, "{")) return bad(arena, why, "the header is not a JSON object");
  while (!eat(&c, "}")) {
    const char *key;
    size_t n;
    if (!json_string(&c, &key, &n) || !eat(&c, ":"))
      return bad(arena, why, "the header's JSON is malformed");
    if (n == strlen(tensor) && !memcmp(key, tensor, n)) {
      int64_t offsets[2] = {0};
      const char *fault = st_entry(&c, out, offsets);
      if (fault) return bad(arena, why, fault);
      if (!count_elements(out)) return bad(arena, why, "the shape overflows");
      if (offsets[0] < 0 || offsets[1] < offsets[0] || (uint64_t)offsets[1] > bytes - 8 - length ||
          offsets[1] - offsets[0] != out->count * out->bytes)
        return bad(arena, why, "data_offsets do not fit the shape or the file");
      out->data = p + 8 + length + offsets[0];
      return SPC_OK;
    }
    if (names.length < 200 && n < 100) {
      ir_text_putn(&names, key, n);
      ir_text_put(&names, " ");
    }
    if (!skip_value(&c, 0)) return bad(arena, why, "the header's JSON is malformed");
    (void)eat(&c, ",");
  }
  *why = ir_format_text(arena, "it has no tensor `%s`; it has: %s", tensor, names.data);
  return SPC_IO;
}
