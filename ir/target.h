/* target.h - the machines code is made for, as data. */
#ifndef SPC_IR_TARGET_H
#define SPC_IR_TARGET_H

#include "ir/base.h"

typedef enum ir_target_kind { IR_TARGET_INTERP, IR_TARGET_CPU, IR_TARGET_CUDA } ir_target_kind;

typedef struct ir_target {
  const char *name; /* "interp", "cpu", "sm_80", "sm_90a", "sm_100a", ... */
  ir_target_kind kind;
  int arch;         /* CUDA: 80, 90, 100; else 0 */
  int vector_bits;  /* CPU: 512 or 256 (AVX-512, AVX2), 128 otherwise */
  int shared_bytes; /* CUDA: most shared memory a block can have */
} ir_target;

const ir_target *ir_target_find(const char *name); /* NULL when unknown */
int ir_target_count(void);
const ir_target *ir_target_at(int i);

#endif
