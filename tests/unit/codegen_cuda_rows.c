/* codegen_cuda_rows.c - every row of the kernel table, and every op's CUDA spelling, becomes a
 * cubin without spills, stack frames or C75xx notes for each architecture that NVRTC knows. Skipped
 * without NVRTC.  SPC_ALIKE=I/N: of every row its first case, and of the others every Nth. */
#include <criterion/criterion.h>

#include "codegen_cuda_case.h"

static const char *const targets[] = {"sm_80", "sm_90a", "sm_100a", "sm_120"};

static void need_nvrtc(void) {
  if (!cg_nvrtc_available()) cr_skip_test("%s", cg_nvrtc_version());
}

static const char *messages(cuda_cases *c) {
  ir_text text = ir_text_new(c->arena);
  ir_sink_render(c->sink, &text, false);
  return text.data ? text.data : "";
}

static ir_image *compiled(cuda_cases *c, const char *target) {
  cg_options options = {.target = ir_target_find(target), .threads = 2, .alone = true};
  ir_image *image = NULL;
  cr_assert_eq(cg_cuda_compile(c->arena, c->kernel, &options, c->sink, &image), SPC_OK, "%s",
               messages(c));
  return image;
}

/* Registers that a row may use: two blocks of 128 x 128 and four of 64 x 64 fit a multiprocessor.
 */
static int budget(const char *label, bool blackwell) {
  if (strstr(label, "tma_64x8x") || strstr(label, "tma_64x16x")) return 64;
  if (strstr(label, "tma_64x32x") || strstr(label, "tma_64x64x")) return 128;
  if (strstr(label, "widen_stream_8x16")) return 80; /* three blocks of 256 threads */
  if (strstr(label, "widen_stream")) return 128;
  if (strstr(label, "widen_64x64")) return 200;   /* 256 threads */
  if (strstr(label, "tma") || strstr(label, "widen")) return 168;           /* 384 threads; they trade registers by role */
  if (strstr(label, "nskip_8x32x")) return 128;   /* one block of 512 threads */
  if (strstr(label, "kskip_8x320x")) return 200;  /* one block of 320 threads */
  if (strstr(label, "skip")) return 128; /* two blocks of 256 threads */
  if (strstr(label, "group_mma_16") || strstr(label, "group_mma_64") || strstr(label, "group_fma")) return 128;
  if (strstr(label, "stream")) return 80; /* three blocks of 256 threads */
  if (strstr(label, "wgmma_128x128")) return 128; /* two blocks of 256 threads */
  if (strstr(label, "mma32_128")) return 255;
  if (strstr(label, "mma32_64") || strstr(label, "mma32x3_64")) return 176;
  if (strstr(label, "mma8_64") || strstr(label, "mma8f_64")) return 168;
  if (strstr(label, "mma8f_128")) return 255;
  if (strstr(label, "mma64")) return 168; /* three blocks of 128 threads */
  if (strstr(label, "mma_128") || strstr(label, "mma8_128")) return 255;
  if (strstr(label, "mma_64x128") || strstr(label, "wgmma_64")) return 168;
  if (strstr(label, "mma_64")) return 128;
  if (strstr(label, "fma_128") || strstr(label, "fma_64x128")) return blackwell ? 176 : 128; /* 64 sums a thread; 512 threads in all */
  if (strstr(label, "fma")) return blackwell ? 128 : 96; /* five blocks of 128 threads, 32 sums a thread */
  return 64;
}

static void check(cuda_cases *c, const ir_image *image, const char *target) {
  bool blackwell = !strcmp(target, "sm_100a") || !strcmp(target, "sm_120");
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    cr_expect(code->cubin_bytes > 0, "%s %s: no code", target, code->entry);
    if (!strcmp(code->label, "loop")) continue;
    cr_expect_eq(code->spill_bytes, 0, "%s %s (%s) spills %d bytes", target, code->entry,
                 code->label, code->spill_bytes);
    cr_expect(code->registers > 0 && code->registers <= budget(code->label, blackwell),
              "%s %s (%s) uses %d registers", target, code->entry, code->label, code->registers);
  }
  cr_expect_str_empty(messages(c), "%s: %s", target, messages(c));
}

static bool is_first_of_row(int i) {
  for (int n = 0; n < i; n++)
    if (!strcmp(cuda_product_cases[n].row, cuda_product_cases[i].row)) return false;
  return true;
}

static bool is_first_of_way(int i) {
  for (int n = 0; n < i; n++)
    if (cuda_list_cases[n].way == cuda_list_cases[i].way) return false;
  return true;
}

/* All cases, the first of every row at least. */
static void all_cases(cuda_cases *c, const char *target) {
  int others = 0;
  for (int i = 0; i < cuda_product_case_count; i++)
    if (cuda_case_fits(&cuda_product_cases[i], target) && (is_first_of_row(i) || cuda_case_is_its_turn(others++)))
      cuda_case_product(c, &cuda_product_cases[i]);
  for (int i = 0; i < cuda_list_case_count; i++)
    if (is_first_of_way(i) || cuda_case_is_its_turn(i)) cuda_case_list(c, &cuda_list_cases[i]);
}

/* The first of every row: enough for architectures that run the same instructions.  The two Blackwells take turns: each row is of one of them at least. */
static void first_cases(cuda_cases *c, const char *target) {
  bool alone = !strcmp(target, "sm_80");
  int turn = !strcmp(target, "sm_120");
  for (int i = 0; i < cuda_product_case_count; i++)
    if (is_first_of_row(i) && cuda_case_fits(&cuda_product_cases[i], target) && (alone || cuda_case_is_its_turn(turn++)))
      cuda_case_product(c, &cuda_product_cases[i]);
  for (int i = 0; i < 2; i++) cuda_case_list(c, &cuda_list_cases[i]);
}

Test(codegen_cuda_rows, every_row_has_a_case) {
  for (int r = 0; r < ir_kernel_row_count; r++) {
    bool found = ir_kernel_rows[r].multiply == IR_MULTIPLY_NONE || ir_kernel_attends(&ir_kernel_rows[r]); /* codegen_cuda_attend.c */
    for (int i = 0; i < cuda_product_case_count; i++)
      found |= !strcmp(cuda_product_cases[i].row, ir_kernel_rows[r].name);
    cr_expect(found, "no test case for the row %s", ir_kernel_rows[r].name);
  }
}

Test(codegen_cuda_rows, compile_within_their_budgets) {
  need_nvrtc();
  for (int t = 0; t < IR_COUNT(targets); t++) {
    if (!ir_target_find(targets[t])) continue;
    cuda_cases c;
    cuda_cases_new(&c);
    if (!strcmp(targets[t], "sm_90a")) all_cases(&c, targets[t]);
    else first_cases(&c, targets[t]);
    check(&c, compiled(&c, targets[t]), targets[t]);
    cuda_cases_free(&c);
  }
}

Test(codegen_cuda_rows, every_op_compiles_for_every_dtype) {
  need_nvrtc();
  cuda_cases c;
  cuda_cases_new(&c);
  for (int op = 0; op < IR_OP_COUNT; op++)
    for (int t = IR_NONE + 1; t < IR_DTYPE_COUNT; t++)
      if (t == IR_F32 || t == IR_F64 || t == IR_BF16 || t == IR_I32 || t == IR_U4 || t == IR_I64 ||
          t == IR_B1)
        cuda_case_op(&c, (ir_op)op, (ir_dtype)t);
  check(&c, compiled(&c, "sm_90a"), "sm_90a");
  cuda_cases_free(&c);
}

/* A stage that no kernel can run is refused with a sentence, never compiled to something else. */
Test(codegen_cuda_rows, misfits_are_refused) {
  static const product_case misfits[] = {
      {"gemm_kgather_mma_64x128x32", IR_BF16, IR_BF16, 'r', 'r', 'r', false, 64, 1, 0, 0,
       CASE_PLAIN, 0, .way = CASE_STRAIGHT},
      {"gemm_kgather_mma_128x128x32", IR_BF16, IR_BF16, 'c', 'r', 'r', false, 64, 1, 0, 0,
       CASE_PLAIN, 0, .way = CASE_STRAIGHT},
      {"gemm_kgather_mma_64x128x32", IR_BF16, IR_BF16, 'c', 'r', 'r', false, 64, 3, 0, 0,
       CASE_PLAIN, 0, .way = CASE_STRAIGHT},
      {"gemm_mma_64x64x32", IR_F32, IR_F32, 'r', 'r', 'r', false, 0, 0, 0, 0, CASE_PLAIN, 0, .way = CASE_STRAIGHT},
      {"gemm_kgather_mma_64x128x32", IR_BF16, IR_BF16, 'c', 'r', 'r', false, 0, 0, 0, 0, CASE_PLAIN,
       0, .way = CASE_STRAIGHT},
      {"gemm_kblock_tma_128x256x64", IR_BF16, IR_BF16, 'r', 'r', 'r', false, 128, 32, 0, 0,
       CASE_PLAIN, 0, .way = CASE_STRAIGHT},
      {"gemm_nblock_tma_128x256x64", IR_BF16, IR_BF16, 'r', 'r', 'c', false, 128, 64, 0, 0,
       CASE_PLAIN, 0, .way = CASE_STRAIGHT},
      {"gemm_nspread_tma_128x256x64", IR_BF16, IR_BF16, 'r', 'c', 'c', false, 128, 1, .epilogue = CASE_MASK},
      {"gemm_nspread_tma_128x256x64", IR_BF16, IR_BF16, 'r', 'c', 'r', false, 256, 1, .epilogue = CASE_MASK},
      {"gemm_nspread_tma_128x256x64", IR_BF16, IR_F32, 'r', 'c', 'r', false, 128, 1, .epilogue = CASE_MASK},
      {"gemm_nspread_tma_128x256x64", IR_BF16, IR_BF16, 'r', 'c', 'r', false, 128, 64, .epilogue = CASE_MASK},
      {"no_such_row", IR_BF16, IR_BF16, 'r', 'r', 'r', false, 0, 0, 0, 0, CASE_PLAIN, 0, .way = CASE_STRAIGHT}};
  for (int i = 0; i < IR_COUNT(misfits); i++) {
    cuda_cases c;
    cuda_cases_new(&c);
    cuda_case_product(&c, &misfits[i]);
    cg_options options = {.target = ir_target_find("sm_90a")};
    ir_image *image;
    cr_expect_eq(cg_cuda_emit(c.arena, c.kernel, &options, c.sink, &image), SPC_INVALID_INPUT,
                 "case %d", i);
    cr_expect_eq(c.sink->errors, 1);
    cuda_cases_free(&c);
  }
}
