/* random_writer.h - random well-typed `.spx` programs.
 *
 * A program is one line a declaration or statement, so that a failing one can be made smaller by
 * leaving lines out.  Its first line is a comment that says how to run it (`// run N=5 M=8 ...
 * backend=cpu`). */
#ifndef SPC_TESTS_FUZZ_RANDOM_WRITER_H
#define SPC_TESTS_FUZZ_RANDOM_WRITER_H

#include "ir/base.h"

typedef struct dice {
  uint64_t state;
} dice;
int dice_roll(dice *d, int sides); /* 0 .. sides-1 */

/* The whole text of program number `seed`. */
const char *random_program(ir_arena *arena, uint64_t seed);

#endif
