/* target.c - the machines that code is made for.  Shared memory: the most that one block can have
 * (CUDA programming guide, table of technical specifications).  The CPU's row is the width that
 * every AVX2 machine has; the driver replaces it by what the machine or --mcpu has. */
#include "ir/target.h"

enum { KB = 1024 };

static const ir_target targets[] = {
    {"interp", IR_TARGET_INTERP, 0, 0, 0},         {"cpu", IR_TARGET_CPU, 0, 256, 0},
    {"sm_80", IR_TARGET_CUDA, 80, 0, 163 * KB},    {"sm_90", IR_TARGET_CUDA, 90, 0, 227 * KB},
    {"sm_90a", IR_TARGET_CUDA, 90, 0, 227 * KB},   {"sm_100", IR_TARGET_CUDA, 100, 0, 227 * KB},
    {"sm_100a", IR_TARGET_CUDA, 100, 0, 227 * KB}, {"sm_120", IR_TARGET_CUDA, 120, 0, 99 * KB},
};

int ir_target_count(void) { return IR_COUNT(targets); }

const ir_target *ir_target_at(int i) { return &targets[i]; }

const ir_target *ir_target_find(const char *name) {
  for (int i = 0; i < IR_COUNT(targets); i++)
    if (!strcmp(targets[i].name, name)) return &targets[i];
  return NULL;
}
