/* codegen_cpu_cast.c - conversions: every 16-bit and 8-bit pattern, roundings of f32 and f64,
 * integers. */
#include <criterion/criterion.h>
#include <math.h>

#include "codegen_cpu_run.h"

enum { COUNT = 65536 };
static uint64_t in[COUNT], out[COUNT];

/* for i = 0 .. COUNT step lanes { out[i] = cast[to](in[i]) } */
static void convert(ir_dtype from, ir_dtype to, int lanes, const char *mcpu) {
  cpu_case k = cpu_case_new();
  ir_buf *target = cpu_case_buf(&k, "out", to), *source = cpu_case_buf(&k, "in", from);
  ir_block *outer;
  ir_var *i = ir_open_for(&k.build, "i", ir_int(k.arena, 0), ir_int(k.arena, COUNT),
                          IR_RUN_SEQUENTIAL, &outer);
  outer->codes.at[0]->step = ir_int(k.arena, lanes);
  ir_expr *value = cpu_case_load(&k, source, ir_var_ref(k.arena, i), lanes);
  ir_store(&k.build, target, ir_var_ref(k.arena, i), cpu_case_cast(&k, to, value));
  ir_close(&k.build, outer);
  cpu_case_compile(&k, mcpu);
  void *buffers[2] = {out, in};
  cpu_case_call(&k, buffers, NULL, 0, 1);
  cpu_case_free(&k);
}

static void compare(ir_dtype from, ir_dtype to) {
  int wrong = 0;
  for (int i = 0; i < COUNT && wrong < 5; i++) {
    uint64_t cell = 0;
    if (ir_dtype_is_float(from) || ir_dtype_is_float(to))
      ir_dtype_store(to, &cell, 0, ir_dtype_load(from, in, i));
    else
      ir_dtype_store_int(to, &cell, 0, ir_dtype_load_int(from, in, i));
    double want = ir_dtype_load(to, &cell, 0), got = ir_dtype_load(to, out, i);
    bool same = ir_dtype_is_float(to)
                    ? (got == want && signbit(got) == signbit(want)) || (isnan(got) && isnan(want))
                    : ir_dtype_load_int(to, &cell, 0) == ir_dtype_load_int(to, out, i);
    wrong += !same;
    cr_expect(same, "%s -> %s: %.17g gives %.17g, want %.17g", ir_dtype_text(from),
              ir_dtype_text(to), ir_dtype_load(from, in, i), got, want);
  }
}

static void both(ir_dtype from, ir_dtype to, const char *mcpu) {
  for (int lanes = 1; lanes <= 16; lanes *= 16) {
    convert(from, to, lanes, mcpu);
    compare(from, to);
  }
}

/* Every pattern of 16 bits, as the top or the middle of a float, with what decides a rounding
 * below. */
static void fill_f32(uint32_t low, int shift) {
  for (uint32_t i = 0; i < COUNT; i++)
    ((uint32_t *)in)[i] = shift ? (i << shift) ^ low : i << 16 | low;
}

Test(codegen_cpu_cast, from_small) {
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version());
  static const ir_dtype small[] = {IR_F16, IR_BF16, IR_F8E4M3, IR_F8E5M2};
  static const ir_dtype to[] = {IR_F32, IR_F64,  IR_I32, IR_I8,    IR_B1,
                                IR_U8,  IR_BF16, IR_F16, IR_F8E4M3};
  for (int s = 0; s < IR_COUNT(small); s++)
    for (int t = 0; t < IR_COUNT(to); t++) {
      for (int i = 0; i < COUNT; i++) {
        if (ir_dtype_bytes(small[s]) == 2)
          ((uint16_t *)in)[i] = (uint16_t)i;
        else
          ((uint8_t *)in)[i] = (uint8_t)i;
      }
      if (small[s] != to[t]) both(small[s], to[t], NULL);
    }
}

static void round_f32(const char *mcpu) {
  static const ir_dtype small[] = {IR_F16, IR_BF16, IR_F8E4M3, IR_F8E5M2};
  static const uint32_t low[] = {0, 0x8000, 0x7fff, 0x8001};
  for (int s = 0; s < IR_COUNT(small); s++) {
    for (int l = 0; l < IR_COUNT(low); l++) {
      fill_f32(low[l], 0);
      both(IR_F32, small[s], mcpu);
    }
    fill_f32(0x38000000u, 9);
    both(IR_F32, small[s], mcpu);
  }
}

Test(codegen_cpu_cast, f32_to_small) {
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version());
  round_f32(NULL);
  round_f32("x86-64-v2"); /* no F16C */
}

Test(codegen_cpu_cast, f64_rounds_once) {
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version());
  static const ir_dtype small[] = {IR_F32, IR_F16, IR_BF16, IR_F8E4M3, IR_F8E5M2};
  static const double nudge[] = {0, 1e-12, -1e-12, 3e-9};
  for (int s = 0; s < IR_COUNT(small); s++)
    for (int n = 0; n < IR_COUNT(nudge); n++) {
      for (int i = 0; i < COUNT; i++) {
        uint16_t bits = (uint16_t)i;
        double exact = ir_dtype_load(IR_F16, &bits, 0), ulp = ir_dtype_epsilon(small[s]);
        ((double *)in)[i] = exact * (1 + (i % 3) * ulp) * (1 + nudge[n]);
      }
      both(IR_F64, small[s], NULL);
    }
}

Test(codegen_cpu_cast, integers) {
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version());
  static const ir_dtype ints[] = {IR_I64, IR_I32, IR_I16, IR_I8, IR_U8, IR_I4, IR_U4, IR_B1};
  static const ir_dtype to[] = {IR_I64, IR_I32, IR_I16, IR_I8,  IR_U8, IR_I4,
                                IR_U4,  IR_B1,  IR_F64, IR_F32, IR_F16};
  for (int s = 0; s < IR_COUNT(ints); s++)
    for (int t = 0; t < IR_COUNT(to); t++) {
      for (int i = 0; i < COUNT; i++)
        ir_dtype_store_int(ints[s], in, i, (int64_t)(i - 30000) * (i % 5 ? 1 : 0x10001));
      if (ints[s] == IR_I64 && to[t] == IR_F32)
        continue; /* one rounding here, two in the reference */
      if (ints[s] != to[t]) both(ints[s], to[t], NULL);
    }
}

Test(codegen_cpu_cast, floats_to_integers_saturate) {
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version());
  static const ir_dtype to[] = {IR_I64, IR_I32, IR_I16, IR_I8, IR_U8, IR_I4, IR_U4, IR_B1};
  for (int t = 0; t < IR_COUNT(to); t++) {
    fill_f32(0x4000, 0);
    both(IR_F32, to[t], NULL);
  }
}
