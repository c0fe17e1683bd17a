/* kernels.c - the table of composed CUDA kernels, made from kernels.def. */
#include "ir/kernels.h"

const ir_kernel_row ir_kernel_rows[] = {
#define SPC_KERNEL(NAME, SKELETON, LOAD_A, LOAD_B, MULTIPLY, SCHEDULE, STORE, M, N, K, DEPTH,      \
                   THREADS, DTYPES, A, B, ALIGN, LEAST, MOST, PROFILE)                             \
  {#NAME,                                                                                          \
   #SKELETON,                                                                                      \
   IR_LOADER_##LOAD_A,                                                                             \
   IR_LOADER_##LOAD_B,                                                                             \
   IR_MULTIPLY_##MULTIPLY,                                                                         \
   #SCHEDULE,                                                                                      \
   #STORE,                                                                                         \
   M,                                                                                              \
   N,                                                                                              \
   K,                                                                                              \
   DEPTH,                                                                                          \
   THREADS,                                                                                        \
   DTYPES,                                                                                         \
   A,                                                                                              \
   B,                                                                                              \
   ALIGN,                                                                                          \
   LEAST,                                                                                          \
   MOST,                                                                                           \
   PROFILE},
#include "ir/kernels.def"
#undef SPC_KERNEL
    {.name = NULL} /* the end; not counted */
};
const int ir_kernel_row_count = IR_COUNT(ir_kernel_rows) - 1;

const ir_kernel_row *ir_kernel_row_named(const char *name) {
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (!strcmp(ir_kernel_rows[i].name, name)) return &ir_kernel_rows[i];
  return NULL;
}
