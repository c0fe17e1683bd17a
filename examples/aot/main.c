/* Runs kernels that were compiled ahead of time: no .spx file, no LLVM, no NVRTC.
 *     spc export examples/ffn.spx -D D=64 -D F=256 --target=cpu,interp -o ffn
 *     cc -I. examples/aot/main.c ffn.c -lspc -o ffn && ./ffn        (./ffn interp: the reference) */
#include "ffn.h"
#include <stdio.h>

enum { T = 12 };
static uint16_t x[T * ffn_D], W1[ffn_D * ffn_F], W2[ffn_F * ffn_D], y[T * ffn_D]; /* bits of bf16 */

static spc_tensor matrix(const char *name, uint16_t *bits, int64_t rows, int64_t cols, unsigned seed) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "bf16", .rank = 2, .shape = {rows, cols},
                  .values = bits, .value_count = rows * cols};
  for (int64_t i = 0; seed && i < rows * cols; i++) { /* 0.25 to 0.5, and the same below zero */
    seed = seed * 1664525 + 1013904223;
    bits[i] = (uint16_t)(0x3e80 | seed >> 25 | (seed >> 9 & 1) << 15);
  }
  return t;
}

int main(int argc, char **argv) {
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = argc > 1 ? argv[1] : NULL, .load_only = 1};
  spc_context *context = NULL;
  spc_program *program = NULL;
  spc_plan *plan = NULL;
  spc_tensor tensors[] = {matrix("x", x, T, ffn_D, 1), matrix("W1", W1, ffn_D, ffn_F, 2),
                          matrix("W2", W2, ffn_F, ffn_D, 3), matrix("y", y, T, ffn_D, 0)};
  if (spc_context_new(&options, &context, &err) || ffn_load(context, &program, &err) ||
      spc_plan_new(program, NULL, NULL, 0, &plan, &err) || spc_run(plan, tensors, 4, &err))
    return fprintf(stderr, "%s\n", err.message), 1;
  for (int i = 0; i < T; i++) printf("%04x%c", y[i * ffn_D], i + 1 < T ? ' ' : '\n');
  spc_plan_free(plan);
  spc_program_free(program);
  spc_context_free(context);
  return 0;
}
