/* random_writer.c - writes random programs: expressions x formats x dtypes x conditions, gathers,
 * scatters, ragged rows, softmax, topk, several statements, schedules, switches of the pipeline.
 *
 * Each axis letter has a size of its own: i N, j M, k K, r R (ragged rows), e E (their segments).
 * A scope lists the indices in reach, each with the letter that it ranges over; a leaf is a tensor
 * whose letters are all in reach.  Programs are EXACT (small integers and functions that keep them
 * so, where comparisons and topk decide alike everywhere) or SMOOTH (real functions, nothing that
 * jumps). */
#include "tests/fuzz/random_writer.h"

#include <stdlib.h>

typedef enum nature { EXACT, SMOOTH, INTEGER } nature;

typedef struct known_tensor {
  char name[8], letters[5];
} known_tensor;

typedef struct scope {
  int count;
  char letter[12], name[12][16];
} scope;

typedef struct writer {
  ir_text text;
  dice d;
  nature nature;
  const char *dtype;
  known_tensor tensors[16];
  int tensor_count, bound;
  bool gathers, pattern;
  bool empty; /* sizes may be 0: in floats no max or min, whose value over nothing is an infinity,
                 and 0 * inf is free */
} writer;

int dice_roll(dice *d, int sides) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  return (int)((d->state >> 33) % (uint64_t)sides);
}

static int roll(writer *w, int sides) { return dice_roll(&w->d, sides); }
static void put(writer *w, const char *s) { ir_text_put(&w->text, s); }

static const char *size_of(char letter) {
  return letter == 'i'   ? "N"
         : letter == 'j' ? "M"
         : letter == 'k' ? "K"
         : letter == 'r' ? "R"
                         : "E";
}

/* ---- scopes and leaves ----------------------------------------------------------------------- */
static void bring(scope *s, char letter, const char *name) {
  s->letter[s->count] = letter;
  snprintf(s->name[s->count++], sizeof s->name[0], "%s", name);
}

static const char *name_for(writer *w, const scope *s, char letter, const char *prefer) {
  int places[12], n = 0;
  for (int i = 0; i < s->count; i++)
    if (s->letter[i] == letter) places[n++] = i;
  for (int i = 0; prefer && i < n; i++)
    if (!strcmp(s->name[places[i]], prefer)) return prefer;
  return n ? s->name[places[roll(w, n)]] : NULL;
}

static bool reachable(const scope *s, const char *letters) {
  for (; *letters; letters++)
    if (!memchr(s->letter, *letters, (size_t)s->count)) return false;
  return true;
}

static void write_subscript(writer *w, const scope *s, char letter, const char *prefer) {
  const char *name = name_for(w, s, letter, prefer);
  bool preferred = prefer && !strcmp(name, prefer);
  if (letter == 'i' && w->gathers && !preferred && roll(w, 8) == 0)
    ir_text_printf(&w->text, "g[%s]", name);
  else
    put(w, name);
}

static void write_access(writer *w, const scope *s, const known_tensor *t, const char *prefer) {
  ir_text_printf(&w->text, "%s[", t->name);
  for (int i = 0; t->letters[i]; i++) {
    if (i) put(w, ",");
    write_subscript(w, s, t->letters[i], prefer);
  }
  put(w, "]");
}

/* A tensor in reach, one with `letter` when that is not 0; NULL when there is none. */
static const known_tensor *choose_tensor(writer *w, const scope *s, char letter) {
  int places[16], n = 0;
  for (int i = 0; i < w->tensor_count; i++)
    if (reachable(s, w->tensors[i].letters) && (!letter || strchr(w->tensors[i].letters, letter)))
      places[n++] = i;
  return n ? &w->tensors[places[roll(w, n)]] : NULL;
}

static void write_leaf(writer *w, const scope *s) {
  const known_tensor *t = choose_tensor(w, s, 0);
  if (!t || roll(w, 12) == 0)
    put(w, roll(w, 2) ? "2" : "1");
  else
    write_access(w, s, t, NULL);
}

/* ---- expressions ----------------------------------------------------------------------------- */
static void write_expr(writer *w, int depth, scope *s);

static void write_condition(writer *w, int depth, scope *s) {
  const known_tensor *t = choose_tensor(w, s, 0);
  const char *a = s->count ? s->name[roll(w, s->count)] : "1",
             *b = s->count ? s->name[roll(w, s->count)] : "0";
  int kind = roll(w, depth > 0 ? 7 : 5);
  if (kind == 0 && w->pattern && reachable(s, "ij")) {
    ir_text_printf(&w->text, "P[%s,%s]", name_for(w, s, 'i', NULL), name_for(w, s, 'j', NULL));
  } else if (kind <= 1 || !t || w->nature == SMOOTH) {
    ir_text_printf(&w->text, "%s %s %s", a, roll(w, 2) ? "<=" : ">", b);
  } else if (kind <= 4) {
    static const char *const tests[] = {" > 0", " != 0", " < 0", " >= 1", " == 0", ""};
    write_access(w, s, t, NULL);
    put(w, tests[roll(w, 5)]);
  } else {
    put(w, kind == 6 && roll(w, 2) ? "not (" : "(");
    write_condition(w, depth - 1, s);
    put(w, roll(w, 2) ? ") and (" : ") or (");
    write_condition(w, depth - 1, s);
    put(w, ")");
  }
}

static void write_pair(writer *w, const char *open, const char *between, int depth, scope *s) {
  put(w, open);
  write_expr(w, depth - 1, s);
  put(w, between);
  write_expr(w, depth - 1, s);
  put(w, ")");
}

static void write_call(writer *w, int depth, scope *s) {
  static const char *const exact[] = {"relu", "abs", "step", "sign", "relu"};
  static const char *const smooth[] = {"relu", "tanh", "sigmoid", "silu", "gelu"};
  ir_text_printf(&w->text, "%s(", w->nature == SMOOTH ? smooth[roll(w, 5)] : exact[roll(w, 5)]);
  write_expr(w, depth - 1, s);
  put(w, ")");
}

static void write_where(writer *w, int depth, scope *s) {
  put(w, "where(");
  write_condition(w, 1, s);
  put(w, ", ");
  write_expr(w, depth - 1, s);
  put(w, ", ");
  if (roll(w, 2))
    put(w, "0");
  else
    write_expr(w, depth - 2, s);
  put(w, ")");
}

/* (sum[k1] (leaf with k1 * expression)): the leaf gives the index its size. */
static void write_reduction(writer *w, int depth, scope *s) {
  static const char letters[] = "ijk", *const reducers[] = {"sum", "sum", "sum",
                                                            "sum", "max", "min"};
  scope inner = *s;
  char name[16], letter = letters[roll(w, 3)];
  snprintf(name, sizeof name, "%cx%d", letter, ++w->bound);
  if (s->count >= 8) {
    write_leaf(w, s);
    return;
  }
  bring(&inner, letter, name);
  const known_tensor *t = choose_tensor(w, &inner, letter);
  if (!t) {
    write_leaf(w, s);
    return;
  }
  bool sums = w->empty && w->nature != INTEGER;
  ir_text_printf(&w->text, "(%s[%s] (", reducers[roll(w, sums ? 4 : 6)], name);
  write_access(w, &inner, t, name);
  put(w, roll(w, 5) ? " * " : " + ");
  write_expr(w, depth - 1, &inner);
  put(w, "))");
}

static void write_expr(writer *w, int depth, scope *s) {
  if (depth <= 0) {
    write_leaf(w, s);
    return;
  }
  switch (roll(w, 14)) {
  case 0:
  case 1:
  case 2: write_pair(w, "(", " * ", depth, s); break;
  case 3:
  case 4: write_pair(w, "(", " + ", depth, s); break;
  case 5: write_pair(w, "(", " - ", depth, s); break;
  case 6: write_pair(w, roll(w, 2) ? "max(" : "min(", ", ", depth, s); break;
  case 7:
  case 8: write_call(w, depth, s); break;
  case 9: write_where(w, depth, s); break;
  case 10:
  case 11:
  case 12: write_reduction(w, depth, s); break;
  default: write_leaf(w, s);
  }
}

/* ---- statements ------------------------------------------------------------------------------ */
static const char *some_format(writer *w, int rank, bool input) {
  static const char *const one[] = {"", "", "coo"};
  static const char *const two[] = {
      "",    "",     "",           "dense_t",  "csr",    "csr",         "csc",
      "coo", "dcsr", "twell(4,1)", "bsr(2,3)", "own(2)", "bitmap(4,4)", "ell(40)"};
  static const char *const three[] = {"", "coo", "csf"};
  if (rank == 1) return one[roll(w, 3)];
  if (rank == 2)
    return two[roll(w, input ? IR_COUNT(two) : 10)]; /* blocks are no format of a result */
  return rank == 3 ? three[roll(w, 3)] : "";
}

static void write_shape(writer *w, const char *letters) {
  put(w, "[");
  for (int i = 0; letters[i]; i++)
    ir_text_printf(&w->text, "%s%s", i ? "," : "", size_of(letters[i]));
  put(w, "]");
}

static void learn(writer *w, const char *name, const char *letters) {
  if (w->tensor_count == IR_COUNT(w->tensors)) return;
  known_tensor *t = &w->tensors[w->tensor_count++];
  snprintf(t->name, sizeof t->name, "%s", name);
  snprintf(t->letters, sizeof t->letters, "%s", letters);
}

static void write_input(writer *w, const char *name, const char *letters) {
  const char *format = some_format(w, (int)strlen(letters), true);
  ir_text_printf(&w->text, "  in %s: %s", name, w->dtype);
  write_shape(w, letters);
  if (format[0])
    ir_text_printf(&w->text, " as %s", format);
  else if (roll(w, 4) == 0 && letters[0])
    put(w, " ~ zeros(dynamic)");
  put(w, ";\n");
  learn(w, name, letters);
}

static void write_row_op(writer *w, scope *s) {
  const char *along = s->name[roll(
      w, s->count - (s->name[s->count - 1][0] == 'e' && s->count > 1))]; /* not the segment */
  ir_text_printf(&w->text, "%s[%s](", w->nature == SMOOTH ? "softmax" : "topk", along);
  write_expr(w, 1, s);
  put(w, w->nature == SMOOTH ? ")" : ", 2)");
}

static void write_clauses(writer *w, const char *letters, scope *s, bool scatter) {
  if (roll(w, 4) == 0) {
    put(w, " on ");
    write_condition(w, 1, s);
    if (!scatter && roll(w, 3) == 0) put(w, " fill -1");
  }
  ir_text_printf(&w->text, " : %s", w->dtype);
  write_shape(w, letters);
  const char *format = scatter ? "" : some_format(w, (int)strlen(letters), false);
  if (format[0] && roll(w, 3) == 0) ir_text_printf(&w->text, " as %s", format);
  if (!scatter && roll(w, 5) == 0) put(w, " ~ zeros(dynamic)");
}

static void write_stmt(writer *w, const char *kind, const char *name, const char *letters) {
  scope s = {0};
  bool scatter = letters[0] == 'i' && w->gathers && !strcmp(kind, "out") && roll(w, 4) == 0;
  for (int i = 0; letters[i]; i++) bring(&s, letters[i], (char[]){letters[i], 0});
  if (strchr(letters, 'r')) bring(&s, 'e', "e");
  ir_text_printf(&w->text, "  %s %s[", kind, name);
  for (int i = 0; letters[i]; i++)
    ir_text_printf(&w->text, !i && scatter ? "g[%c]" : i ? ",%c" : "%c", letters[i]);
  put(w, scatter ? (roll(w, 3) ? "] += " : roll(w, 2) ? "] max= " : "] min= ") : "] = ");
  if (letters[0] && !scatter && roll(w, 7) == 0)
    write_row_op(w, &s);
  else
    write_expr(w, 1 + roll(w, 3), &s);
  if (strchr(letters, 'r')) s.count--;
  write_clauses(w, letters, &s, scatter);
  put(w, ";\n");
  if (!scatter) learn(w, name, letters);
}

/* sums of the rows of each segment */
static void write_segment_sum(writer *w, const char *name) {
  scope s = {0};
  bring(&s, 'r', "r"), bring(&s, 'e', "e"), bring(&s, 'j', "j");
  ir_text_printf(&w->text, "  out %s[e,j] = sum[r] (X[r,j] * ", name);
  write_expr(w, 1, &s);
  ir_text_printf(&w->text, ") : %s[E,M];\n", w->dtype);
}

/* ---- programs -------------------------------------------------------------------------------- */
static void write_run_line(writer *w) {
  static const char *const disabled[] = {"", "", "", "fuse", "vectorise", "fuse,vectorise"};
  static const int sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33};
  static const char *const datas[] = {"sparse", "sparse", "zero", "full", "explicit", "hub"};
  put(w, "// run");
  for (const char *c = "NMKER"; *c; c++) {
    int value = sizes[roll(w, 4) ? 3 + roll(w, 9) : roll(w, IR_COUNT(sizes))];
    if (value == 0 && !w->empty) value = 1;
    ir_text_printf(&w->text, " %c=%d", *c, w->nature == SMOOTH || value < 20 ? value : 19);
  }
  ir_text_printf(&w->text, " data=%s backend=%s guard=%d", datas[roll(w, 6)],
                 roll(w, 3) ? "cpu" : "loop", roll(w, 3));
  const char *off = disabled[roll(w, 6)];
  if (off[0]) ir_text_printf(&w->text, " disable=%s", off);
  int modes = roll(w, 8);
  if (modes < 3)
    put(w, modes == 0 ? " strict_nan" : modes == 1 ? " reproducible" : " batch_invariant");
  put(w, "\n");
}

static void write_schedule(writer *w, int lets) {
  static const char *const sparse[] = {"csr", "coo", "dense", "dense_t", "csc"};
  put(w, "schedule t {\n");
  for (int i = 0; i < 2; i++) {
    int let = roll(w, lets + 1);
    bool out = let == lets;
    const char *name = out ? "y" : ir_format_text(w->text.arena, "L%d", let);
    switch (out ? 3 + roll(w, 2) : roll(w, 5)) {
    case 0: ir_text_printf(&w->text, "  format %s = %s;\n", name, sparse[roll(w, 5)]); break;
    case 1: ir_text_printf(&w->text, "  dense %s;\n", name); break;
    case 2: ir_text_printf(&w->text, "  fuse %s into y;\n", name); break;
    case 3:
      ir_text_printf(&w->text, "  compact %s axis=j gran=%dx%d;\n", name, 1 << roll(w, 7),
                     1 << roll(w, 3));
      break;
    default:
      ir_text_printf(&w->text, "  tile %s i=%d j=%d;\n", name, 8 << roll(w, 3), 8 << roll(w, 3));
    }
  }
  put(w, "}\n");
}

static void choose_kind(writer *w) {
  static const char *const floats[] = {"f32", "f32", "f32", "f64", "bf16", "f16"};
  static const char *const ints[] = {"i32", "i64", "i8", "u8", "i16"};
  int kind = roll(w, 8);
  w->nature = kind < 3 ? SMOOTH : kind < 6 ? EXACT : INTEGER;
  w->dtype = w->nature == INTEGER ? ints[roll(w, 5)]
             : w->nature == EXACT ? floats[roll(w, 4)]
                                  : floats[roll(w, 6)];
  w->gathers = roll(w, 4) == 0;
  w->pattern = roll(w, 2);
  w->empty = roll(w, 2);
}

static void write_inputs(writer *w, bool ragged) {
  static const char *const more[] = {"", "i", "j", "ij", "jk", "ji", "ki", "ii", "ijk"};
  write_input(w, "A", "ij");
  write_input(w, "B", roll(w, 2) ? "ij" : "jk");
  int extra = roll(w, 4);
  for (int n = 0; n < extra; n++)
    write_input(w, ir_format_text(w->text.arena, "C%d", n), more[roll(w, 9)]);
  if (w->pattern)
    ir_text_printf(&w->text, "  in P: pattern[N,M] as %s;\n", roll(w, 3) ? "csr" : "bsr(2,3)");
  if (w->gathers) put(w, "  in g: i32[N];\n");
  if (!ragged) return;
  write_input(w, "X", "rj");
  write_input(w, "Q", roll(w, 2) ? "ej" : "e");
  put(w, "  in off: i32[E+1];\n  ragged r in off[e]..off[e+1];\n");
}

const char *random_program(ir_arena *arena, uint64_t seed) {
  static const char *const shapes[] = {"ij", "ij", "ij", "ik", "i", "j", "ji", "jk", "", "ijk"};
  writer w = {.text = ir_text_new(arena), .d = {seed * 0x9e3779b97f4a7c15u + 1}};
  for (int i = 0; i < 4; i++) roll(&w, 2);
  choose_kind(&w);
  bool ragged = roll(&w, 6) == 0;
  write_run_line(&w);
  put(&w, "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; dim E: dyn; dim R: dyn;\n"
          "format own(b) = [i,j] -> [ j/b: compressed, i: compressed, j%b: dense ];\nkernel t {\n");
  write_inputs(&w, ragged);
  int lets = roll(&w, 4);
  for (int n = 0; n < lets; n++)
    write_stmt(&w, "let", ir_format_text(arena, "L%d", n),
               ragged && roll(&w, 2) ? "rj" : shapes[roll(&w, 10)]);
  if (ragged && roll(&w, 2)) write_segment_sum(&w, "s");
  write_stmt(&w, "out", "y", ragged && roll(&w, 2) ? "rj" : shapes[roll(&w, 10)]);
  if (roll(&w, 3) == 0) write_stmt(&w, "out", "z", shapes[roll(&w, 10)]);
  put(&w, "}\n");
  if (roll(&w, 4) == 0) write_schedule(&w, lets);
  return w.text.data;
}
