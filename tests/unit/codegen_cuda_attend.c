/* codegen_cuda_attend.c - every row of the kernel table that computes attention becomes a cubin without spills, stack frames or
 * C75xx notes, for the sizes of rows and the masks that people have.  Skipped without NVRTC.  SPC_ALIKE=I/N: of every row the first
 * case that it takes, and of the others every Nth. */
#include <criterion/criterion.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/kernels.h"
#include "passes/pass.h"
#include "tests/unit/codegen_cuda_case.h"

typedef struct attended {
  int head, head_v;
  const char *given, *mask, *result;
} attended;

static const attended cases[] = {
    {64, 64, "", "", ""},
    {128, 128, "", "", ""},
    {128, 128, "", "on j <= i fill -inf", ""},
    {64, 64, "", "on j <= i and i - j < 512 fill -inf", " : f32"},
    {80, 96, "in n: i32[B];", "on j < n[b] fill -inf", ""},
    {128, 128, "in M: u8[N,N];", "on M[i/128,j/128] and j <= i fill -inf", ""},
    {64, 64, "in M: u8[S,S];", "on M[i,j] fill -inf", ""},
    {128, 128, "in M: pattern[S,S] as bsr(64,64);", "on M[i,j] and j <= i fill -inf", ""},
    {256, 128, "in D: i32[B,S];", "on D[b,i] == D[b,j] fill -inf", ""},
    {128, 128, "in M: u8[B,4*G,S,S];", "on M[b,h,i,j] and j <= i fill -inf", " : f32"},
    {256, 256, "", "on j <= i fill -inf", ""},
    {192, 128, "", "", " : f32"},
};

static const char *program_of(ir_arena *arena, const attended *a) {
  return ir_format_text(arena,
                        "spx 1; dim B: dyn; dim G: dyn; dim S: dyn; %s\n"
                        "kernel k { in q: bf16[B,4*G,S,%d]; in k: bf16[B,G,S,%d]; in v: bf16[B,G,S,%d]; %s\n"
                        "  let p[b,h,i,j] = 0.125 * sum[d] q[b,h,i,d]*k[b,h/4,j,d] %s;  let a[b,h,i,j] = softmax[j](p[b,h,i,j]);\n"
                        "  out o[b,h,i,e] = sum[j] a[b,h,i,j]*v[b,h/4,j,e]%s; }\n",
                        strstr(a->given, "N,N") ? "dim N: dyn;" : "", a->head, a->head, a->head_v, a->given, a->mask, a->result);
}

static const char *messages(const ir_sink *sink, ir_arena *arena) {
  ir_text text = ir_text_new(arena);
  ir_sink_render(sink, &text, false);
  return text.data ? text.data : "";
}

static const ir_stage *last_stage(const ir_kernel *kernel) { return kernel->stages.at[kernel->stages.count - 1]; }

/* NULL: the row does not take these sizes. */
static ir_program *staged(ir_arena *arena, ir_sink *sink, const ir_kernel_row *row, const attended *a, const ir_target *target) {
  ir_program *program = NULL;
  int split = ir_kernel_split(row);
  const char *label = ir_format_text(arena, "attention %dx%d%s%s", row->m, row->n, ir_kernel_moves_boxes(row) ? " boxes" : "",
                                     split > 1 ? ir_format_text(arena, ", j split in %d", split) : "");
  pass_pin pin = {.target = "o", .label = label};
  pass_options options = {.target = target, .pin = &pin};
  const char *text = program_of(arena, a);
  if (fe_compile(arena, "k", text, strlen(text), NULL, sink, &program)) return NULL;
  cr_assert_eq(pass_pipeline(program, &options, sink), SPC_OK);
  return strcmp(last_stage(program->kernels.at[0])->row, row->name) ? NULL : program;
}

/* Whether the row takes the case at all.  taken: how many before it. */
static bool check_case(const ir_kernel_row *row, const attended *a, const char *target, int taken) {
  ir_arena *arena = ir_arena_new();
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = staged(arena, sink, row, a, ir_target_find(target));
  if (program && (taken == 0 || cuda_case_is_its_turn(taken + (int)(row - ir_kernel_rows)))) {
    ir_kernel *kernel = program->kernels.at[0];
    ir_image *image = NULL;
    cg_options options = {.target = ir_target_find(target), .threads = 2, .alone = true};
    cr_assert_eq(cg_cuda_compile(arena, kernel, &options, sink, &image), SPC_OK, "%s %d %s: %s", row->name, a->head, a->mask, messages(sink, arena));
    cr_assert(image->codes.count > 0);
    for (int i = 0; i < image->codes.count; i++) {
      const ir_code_image *code = &image->codes.at[i];
      cr_expect(code->cubin_bytes > 0);
      cr_expect_eq(code->spill_bytes, 0, "%s %s %d, %d, `%s` spills %d bytes in `%s`", target, row->name, a->head, a->head_v, a->mask, code->spill_bytes, code->entry);
    }
    cr_expect_str_empty(messages(sink, arena), "%s %s: %s", target, row->name, messages(sink, arena));
  }
  ir_arena_free(arena);
  return program != NULL;
}

Test(codegen_cuda_attend, every_row_for_every_case) {
  static const char *const targets[] = {"sm_80", "sm_90a"};
  if (!cg_nvrtc_available()) cr_skip_test("%s", cg_nvrtc_version());
  for (int t = 0; t < IR_COUNT(targets); t++)
    for (int r = 0; r < ir_kernel_row_count; r++) {
      const ir_kernel_row *row = &ir_kernel_rows[r];
      bool hopper = !strcmp(targets[t], "sm_90a");
      if (!ir_kernel_attends(row) || (row->least_arch > 80 && !hopper)) continue;
      const int enough = hopper && row->least_arch <= 80 ? 2 : IR_COUNT(cases); /* of the instructions that the one before runs too */
      int taken = 0;
      for (int i = 0; i < IR_COUNT(cases) && taken < enough; i++) taken += check_case(row, &cases[i], targets[t], taken);
      cr_expect(taken >= 2, "%s takes %d cases", row->name, taken);
    }
}
