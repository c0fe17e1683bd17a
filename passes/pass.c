/* pass.c - the pass table, made from pass.def. */
#include "passes/pass.h"

const pass_row pass_rows[] = {
#define SPC_PASS(NUMBER, NAME, FUNCTION, NEEDS, KEEPS, MEANING)                                    \
  {NUMBER, NAME, FUNCTION, NEEDS, KEEPS, MEANING},
#include "passes/pass.def"
#undef SPC_PASS
};
const int pass_row_count = IR_COUNT(pass_rows);

const pass_row *pass_find(const char *name) {
  for (int i = 0; i < pass_row_count; i++)
    if (strcmp(pass_rows[i].name, name) == 0) return &pass_rows[i];
  return NULL;
}
