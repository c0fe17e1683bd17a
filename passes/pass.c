/* pass.c - the pass table, made from pass.def. */
#include "passes/pass.h"

const pass_row pass_rows[] = {
#define SPC_PASS(NUMBER, NAME, FUNCTION, TARGET, NEEDS, KEEPS, MEANING)                            \
  {NUMBER, NAME, FUNCTION, PASS_FOR_##TARGET, NEEDS, KEEPS, MEANING},
#include "passes/pass.def"
#undef SPC_PASS
};
const int pass_row_count = IR_COUNT(pass_rows);

const pass_row *pass_find(const char *name) {
  for (int i = 0; i < pass_row_count; i++)
    if (strcmp(pass_rows[i].name, name) == 0) return &pass_rows[i];
  return NULL;
}

const pass_row *pass_next(int number, ir_target_kind kind) {
  const pass_row *next = NULL;
  for (int i = 0; i < pass_row_count; i++) {
    const pass_row *row = &pass_rows[i];
    bool fits = row->target == PASS_FOR_ANY ||
                (row->target == PASS_FOR_CPU && kind == IR_TARGET_CPU) ||
                (row->target == PASS_FOR_CUDA && kind == IR_TARGET_CUDA);
    if (fits && row->number > number && (next == NULL || row->number < next->number)) next = row;
  }
  return next;
}
