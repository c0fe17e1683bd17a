/* passes_a_random.c - random well-typed programs, before and after the passes.
 *
 * Square f32 tensors of every kind (dense, csr, hinted, a pattern), lets and outputs of random
 * expressions over them: products, epilogues, softmax, topk, conditions, transposed reads. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/passes_a_meaning.h"
#include "tests/unit/passes_a_run.h"

typedef struct dice {
  uint64_t state;
} dice;

static int roll(dice *d, int sides) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  return (int)((d->state >> 33) % (uint64_t)sides);
}

typedef struct writer {
  ir_text text;
  dice d;
  int lets; /* L0 .. are readable */
  int bound;
} writer;

/* An element of some tensor at [row, column], now and then transposed. */
static void write_leaf(writer *w, const char *row, const char *column) {
  static const char *const inputs[] = {"A", "B", "S", "R", "Z"};
  int pick = roll(&w->d, 5 + 2 * w->lets);
  bool swap = roll(&w->d, 6) == 0;
  const char *x = swap ? column : row, *y = swap ? row : column;
  if (pick < 5)
    ir_text_printf(&w->text, "%s[%s,%s]", inputs[pick], x, y);
  else
    ir_text_printf(&w->text, "L%d[%s,%s]", (pick - 5) / 2, x, y);
}

static void write_expr(writer *w, int depth, const char *row, const char *column);

static void write_call(writer *w, const char *name, int depth, const char *row,
                       const char *column) {
  ir_text_printf(&w->text, "%s(", name);
  write_expr(w, depth - 1, row, column);
  ir_text_put(&w->text, ")");
}

static void write_binary(writer *w, const char *op, int depth, const char *row,
                         const char *column) {
  ir_text_put(&w->text, "(");
  write_expr(w, depth - 1, row, column);
  ir_text_put(&w->text, op);
  write_expr(w, depth - 1, row, column);
  ir_text_put(&w->text, ")");
}

static void write_where(writer *w, int depth, const char *row, const char *column) {
  static const char *const conditions[] = {"M[%s,%s]", "%s <= %s", "A[%s,%s] > 0.3",
                                           "S[%s,%s] != 0"};
  ir_text_put(&w->text, "where(");
  ir_text_printf(&w->text, conditions[roll(&w->d, 4)], row, column); /* NOLINT: two names each */
  ir_text_put(&w->text, ", ");
  write_expr(w, depth - 1, row, column);
  ir_text_put(&w->text, roll(&w->d, 3) ? ", 0)" : ", 1)");
}

static void write_reduce(writer *w, int depth, const char *row, const char *column) {
  char name[16];
  static const char *const reducers[] = {"sum", "sum", "sum", "max", "min"};
  snprintf(name, sizeof name, "k%d", w->bound++);
  ir_text_printf(&w->text, "(%s[%s] (", reducers[roll(&w->d, 5)], name);
  write_expr(w, depth - 1, row, name);
  ir_text_put(&w->text, roll(&w->d, 4) ? " * " : " + ");
  write_expr(w, depth - 2, name, column);
  ir_text_put(&w->text, "))");
}

static void write_row_op(writer *w, int depth) {
  bool softmax = roll(&w->d, 2);
  ir_text_put(&w->text, softmax ? "softmax[j](" : "topk[j](");
  write_expr(w, depth - 1, "i", "j");
  ir_text_put(&w->text, softmax ? ")" : ", 2)");
}

static void write_expr(writer *w, int depth, const char *row, const char *column) {
  static const char *const calls[] = {"relu", "abs", "tanh", "step", "sigmoid"};
  if (depth <= 0) {
    write_leaf(w, row, column);
    return;
  }
  switch (roll(&w->d, 12)) {
  case 0:
  case 1:
  case 2: write_binary(w, " * ", depth, row, column); break;
  case 3: write_binary(w, " + ", depth, row, column); break;
  case 4: write_binary(w, " - ", depth, row, column); break;
  case 5:
  case 6: write_call(w, calls[roll(&w->d, 5)], depth, row, column); break;
  case 7: write_where(w, depth, row, column); break;
  case 8:
  case 9: write_reduce(w, depth, row, column); break;
  case 10:
    ir_text_printf(&w->text, "(%d.5 * ", roll(&w->d, 3));
    write_leaf(w, row, column);
    ir_text_put(&w->text, ")");
    break;
  default: write_leaf(w, row, column);
  }
}

static void write_stmt(writer *w, const char *kind, const char *name, bool row_ops) {
  ir_text_printf(&w->text, "  %s %s[i,j] = 0 * A[i,j] + ", kind, name);
  if (row_ops && roll(&w->d, 4) == 0)
    write_row_op(w, 2);
  else
    write_expr(w, 3, "i", "j");
  int condition = roll(&w->d, 6);
  if (condition == 0) ir_text_put(&w->text, " on M[i,j]");
  if (condition == 1) ir_text_put(&w->text, " on M[i,j] and j <= i");
  ir_text_put(&w->text, ";\n");
}

static const char *write_program(ir_arena *arena, uint64_t seed) {
  writer w = {.text = ir_text_new(arena), .d = {seed * 977 + 1}};
  ir_text_put(&w.text,
              "spx 1; dim N: dyn;\nkernel t {\n"
              "  in A: f32[N,N]; in B: f32[N,N]; in S: f32[N,N] as csr; in R: f32[N,N] as csr;\n"
              "  in Z: f32[N,N] ~ zeros(dynamic); in M: pattern[N,N] as csr;\n");
  int lets = 1 + roll(&w.d, 4);
  for (int i = 0; i < lets; i++) {
    write_stmt(&w, "let", ir_format_text(arena, "L%d", i), true);
    w.lets++;
  }
  write_stmt(&w, "out", "y", true);
  if (roll(&w.d, 2)) write_stmt(&w, "out", "z", false);
  ir_text_put(&w.text, "}\n");
  return w.text.data;
}

Test(meaning, random_programs, .timeout = 120) {
  const char *more = getenv("SPC_RANDOM_PROGRAMS");
  int count = more != NULL ? atoi(more) : 300;
  for (int seed = 1; seed <= count; seed++) {
    ir_arena *arena = ir_arena_new();
    const char *text = write_program(arena, (uint64_t)seed);
    a_check_meaning(ir_format_text(arena, "seed %d:\n%s", seed, text), text, true, seed % 4 == 0);
    ir_arena_free(arena);
  }
}
