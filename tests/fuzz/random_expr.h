/* random_expr.h - what the writer of random programs knows while it writes: tensors, the indices in
 * reach, and random expressions over them (random_expr.c); statements are random_writer.c's. */
#ifndef SPC_TESTS_FUZZ_RANDOM_EXPR_H
#define SPC_TESTS_FUZZ_RANDOM_EXPR_H

#include "tests/fuzz/random_writer.h"

typedef enum nature { EXACT, SMOOTH, INTEGER } nature;

typedef struct known_tensor {
  char name[8], letters[5];
  bool sparse; /* its format leaves elements out */
} known_tensor;

/* Indices in reach, each with the letter that it ranges over. */
typedef struct scope {
  int count;
  char letter[16], name[16][16];
  char rows[6]; /* names of indices that a softmax or topk may go along */
} scope;

typedef struct writer {
  ir_text text;
  dice d;
  nature nature;
  const char *dtype;
  known_tensor tensors[20];
  int tensor_count, bound;
  bool gathers, pattern, ragged, windows;
  bool empty; /* sizes may be 0: in floats no max or min, whose value over nothing is an infinity,
                 and 0 * inf is free */
} writer;

int writer_roll(writer *w, int sides);
void writer_put(writer *w, const char *s);
const char *writer_size(char letter); /* the dim of an axis */
void writer_bring(scope *s, char letter, const char *name);
void writer_learn(writer *w, const char *name, const char *letters, bool sparse);

void writer_expr(writer *w, int depth, scope *s);
/* Not zero only where something sparse stores; false, and nothing is written, where none is in
 * reach. */
bool writer_sparse_expr(writer *w, int depth, scope *s);
void writer_condition(writer *w, int depth, scope *s);
void writer_row_op(writer *w, int depth, scope *s);

#endif
