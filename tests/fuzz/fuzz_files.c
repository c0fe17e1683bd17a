/* Fuzz target: every file reader over the same bytes, as each kind of file, into a dtype and a
 * format that the bytes themselves choose.  What is read keeps the promises of its format.
 *
 * A mutation of a ZIP file gets its checksums mended, or none would come past them. */
#include <stdlib.h>
#include <zlib.h>

#include "runtime/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

enum { MOST_ELEMENTS = 100000 };

static const char *const kinds[] = {"f.npy",  "f.npz", "f.mtx",
                                    "f.smtx", "f.tns", "f.safetensors:a"};
static const struct {
  const char *name;
  int args[2], arg_count, rank; /* 0: any rank */
} formats[] = {{"dense", {0}, 0, 0},    {"csr", {0}, 0, 2},   {"csc", {0}, 0, 2},
               {"coo", {0}, 0, 0},      {"csf", {0}, 0, 0},   {"dcsr", {0}, 0, 2},
               {"bsr", {2, 3}, 2, 2},   {"ell", {5}, 1, 2},   {"bitmap", {4, 4}, 2, 2},
               {"twell", {4, 8}, 2, 2}, {"nm", {2, 4}, 2, 2}, {"dense_t", {0}, 0, 2}};

static bool is_small(const rt_contents *c) {
  int64_t elements = 1;
  for (int d = 0; d < c->rank; d++) {
    if (c->dim[d] > MOST_ELEMENTS) return false; /* a format may store a position a row */
    elements *= c->dim[d] ? c->dim[d] : 1;
    if (elements > MOST_ELEMENTS) return false;
  }
  return true;
}

/* The sizes that a file claims: what is large on purpose is not packed here. */
static bool claims_little(ir_arena *arena, int kind, const uint8_t *data, size_t size,
                          rt_contents *c) {
  const char *why = "";
  *c = (rt_contents){0};
  spc_status status = kind == 0   ? rt_npy_parse(arena, data, size, &why, &c->dense)
                      : kind == 1 ? rt_npz_parse(arena, data, size, &why, c)
                      : kind == 2 ? rt_mtx_parse(arena, data, size, &why, c)
                      : kind == 3 ? rt_smtx_parse(arena, data, size, &why, c)
                      : kind == 4 ? rt_tns_parse(arena, data, size, &why, c)
                                  : rt_safetensors_parse(arena, data, size, "a", &why, &c->dense);
  if (status && !*why) abort(); /* a refusal says why */
  if (!c->sparse) {
    c->rank = c->dense.rank;
    memcpy(c->dim, c->dense.dim, sizeof c->dim);
  }
  return !status && is_small(c);
}

/* The dtype that a declaration of this file would have, most of the time. */
static ir_dtype choose_dtype(const rt_contents *c, uint32_t choice) {
  char kind = c->sparse ? c->kind : c->dense.kind;
  int bytes = c->sparse ? c->bytes : c->dense.bytes;
  if (choice % 4 == 0) return (ir_dtype)(choice / 4 % IR_DTYPE_COUNT);
  if (c->pattern) return IR_NONE;
  for (int t = 0; t < IR_DTYPE_COUNT; t++) {
    char class_ = ir_dtype_rows[t].class_;
    bool same = kind == 'f' ? class_ == 'F' : kind == 'i' ? class_ == 'S' : class_ == 'U';
    if (t != IR_NONE && same && (int)ir_dtype_bytes((ir_dtype)t) == bytes) return (ir_dtype)t;
  }
  return kind == 'b' ? IR_B1 : kind == 'h' ? IR_BF16 : c->integer ? IR_I32 : IR_F64;
}

static void decode(ir_arena *arena, int kind, const uint8_t *data, size_t size, uint32_t choice) {
  const char *why = "";
  ir_view view;
  rt_contents c;
  int n = (int)(choice / 1024 % IR_COUNT(formats));
  if (!claims_little(arena, kind, data, size, &c)) return;
  if (formats[n].rank && formats[n].rank != c.rank) n = 0;
  int64_t args[2] = {formats[n].args[0], formats[n].args[1]};
  rt_wanted wanted = {.name = "x",
                      .dtype = choose_dtype(&c, choice),
                      .rank = c.rank,
                      .index_dtype = choice & 1 << 20 ? IR_I64 : IR_I32};
  wanted.format =
      ir_format_builtin(arena, formats[n].name, c.rank, args, formats[n].arg_count, &why);
  if (!wanted.format) return;
  ir_sink *sink = ir_sink_new(arena);
  spc_status status = rt_file_decode(arena, kinds[kind], data, size, &wanted, sink, &view);
  if ((status != SPC_OK) != (sink->errors > 0)) abort();
  if (!status && ir_view_check(arena, &view, &why)) abort(); /* the format's promises are kept */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint32_t choice = (uint32_t)crc32(0, data, (uInt)size);
  for (int kind = 0; kind < IR_COUNT(kinds); kind++) {
    ir_arena *arena = ir_arena_new();
    decode(arena, kind, data, size, choice);
    ir_arena_free(arena);
  }
  return 0;
}

/* ---- mending ----------------------------------------------------------------------------------
 */
static uint32_t number(const uint8_t *p, int bytes) {
  uint32_t value = 0;
  for (int b = 0; b < bytes; b++) value |= (uint32_t)p[b] << 8 * b;
  return value;
}

static void mend_member(uint8_t *data, size_t size, uint8_t *central) {
  size_t offset = number(central + 42, 4), length = number(central + 24, 4);
  if (number(central + 10, 2) || offset + 30 > size) return;
  size_t start = offset + 30 + number(data + offset + 26, 2) + number(data + offset + 28, 2);
  if (start > size || length > size - start) return;
  uint32_t crc = (uint32_t)crc32(0, data + start, (uInt)length);
  for (int b = 0; b < 4; b++) central[16 + b] = (uint8_t)(crc >> 8 * b);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 8)
    for (size_t at = 0; at + 46 <= size; at++)
      if (number(data + at, 4) == 0x02014b50u) mend_member(data, size, data + at);
  return size;
}
