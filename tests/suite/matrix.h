/* matrix.h - of the programs here that see the public header alone: a whole matrix of bf16 as a run is given it. */
#ifndef SPC_TESTS_SUITE_MATRIX_H
#define SPC_TESTS_SUITE_MATRIX_H

#include "spc.h"

static spc_tensor tensor(const char *name, int64_t rows, int64_t columns, void *at) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "bf16", .rank = 2};
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.values = at;
  t.value_count = rows * columns;
  return t;
}

#endif
