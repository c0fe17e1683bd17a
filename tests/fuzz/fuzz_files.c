/* Fuzz target: every file reader over the same bytes; whatever parses is packed and walked. */
#include <stdlib.h>

#include "runtime/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(ir_arena *arena, rt_contents *c) {
  ir_view view;
  const char *why = "";
  int64_t elements = 1;
  for (int d = 0; d < c->rank; d++) {
    if (c->dim[d] && elements > 100000 / c->dim[d]) return;
    elements *= c->dim[d];
  }
  const ir_format *format =
      ir_format_builtin(arena, c->rank == 2 ? "csr" : "coo", c->rank, NULL, 0, &why);
  ir_dtype dtype = c->pattern ? IR_NONE : c->integer ? IR_I64 : IR_F64;
  if (format && !ir_view_pack(arena, dtype, c->dim, format, IR_I32, &c->entries, &view, &why) &&
      ir_view_check(arena, &view, &why))
    abort(); /* what the packer made must keep the format's promises */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ir_arena *arena = ir_arena_new();
  const char *why = "";
  rt_raw raw;
  rt_contents c;
  volatile double sink = 0;
  if (!rt_npy_parse(arena, data, size, &why, &raw))
    for (int64_t i = 0; i < raw.count && i < 4096; i++)
      sink = sink + (raw.kind == 'S' || raw.kind == 'U' ? 0 : rt_raw_float(&raw, i));
  if (!rt_safetensors_parse(arena, data, size, "a", &why, &raw))
    for (int64_t i = 0; i < raw.count && i < 4096; i++) sink = sink + rt_raw_float(&raw, i);
  if (!rt_npz_parse(arena, data, size, &why, &c)) use(arena, &c);
  if (!rt_mtx_parse(arena, data, size, &why, &c)) use(arena, &c);
  if (!rt_smtx_parse(arena, data, size, &why, &c)) use(arena, &c);
  if (!rt_tns_parse(arena, data, size, &why, &c)) use(arena, &c);
  ir_arena_free(arena);
  return 0;
}
