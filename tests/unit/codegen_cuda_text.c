/* codegen_cuda_text.c - what is printed for loop IR and for configs, to the letter; products are
 * read in every order of factors and dimensions. */
#include <criterion/criterion.h>

#include "codegen/cuda.h"
#include "codegen_cuda_case.h"

static const char *text_of(cuda_cases *c, int code) {
  cg_options options = {.target = ir_target_find("sm_90a")};
  ir_image *image = NULL;
  cr_assert_eq(cg_cuda_emit(c->arena, c->kernel, &options, c->sink, &image), SPC_OK);
  return image->codes.at[code].source;
}

static void has(const char *text, const char *wanted) {
  cr_expect(strstr(text, wanted), "missing:\n%s\nin:\n%s", wanted, text);
}

Test(codegen_cuda_text, a_generic_kernel) {
  cuda_cases c;
  cuda_cases_new(&c);
  cuda_case_op(&c, IR_OP_RELU, IR_BF16);
  has(text_of(&c, 0), "extern \"C\" __global__ void __launch_bounds__(128)\n"
                      "relu_bf16(const __grid_constant__ spc_args args) {\n"
                      "  ptx_follow_grid();\n"
                      "  const spc_bf16 *x = (const spc_bf16 *)args.buf[0];\n"
                      "  spc_bf16 *y = (spc_bf16 *)args.buf[1];\n"
                      "  const long long M = args.size[0];\n"
                      "  for (long long i = spc_first(); i < M; i += spc_stride()) {\n"
                      "    y[i] = spc_put_bf16(spc_to_bf16(spc_relu(spc_get(x[i]))));\n"
                      "  }\n"
                      "}\n");
  cuda_cases_free(&c);
}

Test(codegen_cuda_text, integers_keep_their_width) {
  cuda_cases c;
  cuda_cases_new(&c);
  cuda_case_op(&c, IR_OP_ADD, IR_I32);
  cuda_case_op(&c, IR_OP_MUL, IR_U4);
  cuda_case_op(&c, IR_OP_ADD, IR_I64);
  cuda_case_op(&c, IR_OP_LT, IR_I8);
  has(text_of(&c, 0), "y[i] = spc_wrap_add(x[i], z[i]);");
  has(text_of(&c, 1), "y[i] = spc_to_u4(x[i] * z[i]);");
  has(text_of(&c, 2), "y[i] = x[i] + z[i];");
  has(text_of(&c, 3), "y[i] = x[i] < z[i];");
  cuda_cases_free(&c);
}

Test(codegen_cuda_text, a_config_with_an_epilogue_and_detection) {
  static const product_case p = {
      "gemm_mma_128x128x32", IR_BF16, IR_BF16, 'r', 'r', 'c', false, 0, 0, 64, 1,
      CASE_BIAS_RELU,        0,       .way = CASE_STRAIGHT};
  cuda_cases c;
  cuda_cases_new(&c);
  cuda_case_product(&c, &p);
  const char *text = text_of(&c, 0);
  has(text, "// cases, stage s0: gemm_mma_128x128x32\n");
  has(text, "// because the test asks for it\n");
  has(text, "static constexpr char layout_a = 'r', layout_b = 'r', layout_t = 'c';");
  has(text,
      "static constexpr bool gathers = false, samples = false, packed = false, detects = true;");
  has(text, "    const float *bias0_vals = (const float *)args.buf[4];\n"
            "    return spc_relu(acc + bias0_vals[n]);\n");
  cuda_cases_free(&c);
}

Test(codegen_cuda_text, a_guarded_gather) {
  static const product_case p = {"gemm_kgather_mma_64x128x32",
                                 IR_F16,
                                 IR_F16,
                                 'c',
                                 'r',
                                 'r',
                                 false,
                                 64,
                                 2,
                                 0,
                                 0,
                                 CASE_PLAIN,
                                 1,
                                 .way = CASE_STRAIGHT};
  cuda_cases c;
  cuda_cases_new(&c);
  cuda_case_product(&c, &p);
  const char *text = text_of(&c, 0);
  has(text, "static constexpr int strip = 64, gran = 2;");
  has(text, "static constexpr bool guarded = true, dense_branch = false;");
  has(text, "// m = i, n = j, k = k");
  cuda_cases_free(&c);
}

Test(codegen_cuda_text, names_are_identifiers) {
  ir_arena *a = ir_arena_new();
  cr_expect_str_eq(cg_cuda_name(a, "x.vals"), "x_vals");
  cr_expect_str_eq(cg_cuda_name(a, "int"), "v_int");
  cr_expect_str_eq(cg_cuda_name(a, "threadIdx"), "v_threadIdx");
  cr_expect_str_eq(cg_cuda_name(a, "spc_relu"), "v_spc_relu");
  ir_arena_free(a);
}

/* Exchanging roles twice changes nothing; exchanged, A is the other operand with its layout turned.
 */
Test(codegen_cuda_text, products_can_be_transposed) {
  static const product_case p = {
      "gemm_mma_64x64x32", IR_BF16, IR_BF16, 'r', 'c', 'r', true, 0, 0, 0, 0, CASE_PLAIN, 0, .way = CASE_STRAIGHT};
  cuda_cases c;
  cg_product product;
  const char *why;
  cuda_cases_new(&c);
  ir_stage *s = cuda_case_product(&c, &p);
  cr_assert(cg_product_read(c.arena, s->stmts.at[0], &product, &why), "%s", why);
  cr_expect(product.a.layout == 'r' && product.b.layout == 'c' && product.t.layout == 'r');
  cr_expect_eq(product.batch_count, 1);
  const ir_tensor *a = product.a.tensor;
  cg_product_swap(&product);
  cr_expect(product.b.tensor == a && product.a.layout == 'r' && product.b.layout == 'c' &&
            product.t.layout == 'c');
  cg_product_swap(&product);
  cr_expect(product.a.tensor == a && product.t.layout == 'r' && !product.swapped);
  cuda_cases_free(&c);
}

Test(codegen_cuda_text, logs_are_read) {
  cg_nvrtc_result r = {0};
  cg_nvrtc_read_log("ptxas info    : Function properties for f\n"
                    "    16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
                    "ptxas info    : Used 71 registers, used 1 barriers, 1024 bytes smem\n",
                    &r);
  cr_expect(r.registers == 71 && r.spill_bytes == 12 && r.stack_bytes == 16 &&
            r.shared_bytes == 1024 && !r.serialised);
  cg_nvrtc_read_log(
      "ptxas info    : (C7515) Potential Performance Loss\nptxas info    : Used 9 registers\n", &r);
  cr_expect(r.serialised && r.registers == 9);
  cg_nvrtc_read_log("", &r);
  cr_expect_eq(r.registers, -1);
}
