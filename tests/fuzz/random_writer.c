/* random_writer.c - writes random programs: expressions (random_expr.c) x formats x dtypes x
 * conditions, gathers, scatters, ragged rows and their segments, windows, several statements and
 * outputs, schedules, switches of the pipeline. */
#include "tests/fuzz/random_writer.h"

#include <stdlib.h>

#include "tests/fuzz/random_expr.h"

static int roll(writer *w, int sides) { return writer_roll(w, sides); }
static void put(writer *w, const char *s) { writer_put(w, s); }

/* ---- formats and shapes ---------------------------------------------------------------------- */
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

static bool is_sparse(const char *format) { return format[0] && strcmp(format, "dense_t") != 0; }

static void write_shape(writer *w, const char *letters) {
  put(w, "[");
  for (int i = 0; letters[i]; i++)
    ir_text_printf(&w->text, "%s%s", i ? "," : "", writer_size(letters[i]));
  put(w, "]");
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
  writer_learn(w, name, letters, is_sparse(format));
}

/* ---- statements ------------------------------------------------------------------------------ */
typedef struct target {
  const char *kind, *name, *letters, *dtype, *format;
  bool scatter;
  bool renamed; /* its indices are a, b, c, and its segments `f`: not those that its rows lie in */
} target;

static const char *index_of(const target *t, char letter) {
  static const char own[] = "i\0j\0k\0r\0e", others[] = "a\0b\0c\0r\0f";
  return (t->renamed ? others : own) + 2 * (strchr("ijkre", letter) - "ijkre");
}

/* The indices of the left side, and the segment of its row. */
static scope scope_of(const target *t) {
  scope s = {0};
  for (int i = 0; t->letters[i]; i++) writer_bring(&s, t->letters[i], index_of(t, t->letters[i]));
  snprintf(s.rows, sizeof s.rows, "%s", t->renamed ? "" : t->letters);
  if (strchr(t->letters, 'r') && !strchr(t->letters, 'e')) writer_bring(&s, 'e', "e");
  return s;
}

static void write_clauses(writer *w, const target *t, bool conditional) {
  scope s = scope_of(t);
  if (strchr(t->letters, 'r') && !strchr(t->letters, 'e')) s.count--; /* not of the left side */
  if (conditional) {
    put(w, " on ");
    writer_condition(w, 1, &s);
    if (!t->scatter && !t->format[0] && roll(w, 3) == 0) put(w, " fill -1");
  }
  ir_text_printf(&w->text, " : %s", t->dtype);
  write_shape(w, t->letters);
  if (t->format[0]) ir_text_printf(&w->text, " as %s", t->format);
  if (!t->scatter && strcmp(t->dtype, "b1") && roll(w, 8) == 0) put(w, " ~ zeros(dynamic)");
  put(w, ";\n");
}

static void write_left(writer *w, const target *t) {
  const char *gather = strchr(t->letters, 'r') ? "p[r]" : "g[i]";
  ir_text_printf(&w->text, "  %s %s[", t->kind, t->name);
  for (int i = 0; t->letters[i]; i++) {
    if (i) put(w, ",");
    if (!i && t->scatter)
      put(w, gather);
    else
      put(w, index_of(t, t->letters[i]));
  }
  put(w, t->scatter ? (roll(w, 3) ? "] += " : roll(w, 2) ? "] max= " : "] min= ") : "] = ");
}

static void write_value(writer *w, const target *t) {
  scope s = scope_of(t);
  int depth = 1 + roll(w, 3);
  if (t->format[0] && is_sparse(t->format) && roll(w, 6) && writer_sparse_expr(w, depth, &s))
    return;
  if (!strcmp(t->dtype, "b1"))
    writer_condition(w, 2, &s);
  else if (s.rows[0] && roll(w, 7) == 0)
    writer_row_op(w, depth, &s);
  else
    writer_expr(w, depth, &s);
}

static void write_stmt(writer *w, const char *kind, const char *name, const char *letters) {
  target t = {kind, name, letters, w->dtype, "", false, false};
  t.renamed = !strchr(letters, 'r') && roll(w, 4) == 0;
  bool out = !strcmp(kind, "out");
  t.scatter = letters[0] == 'i' && w->gathers && out && !t.renamed && roll(w, 4) == 0;
  if (!t.scatter && roll(w, 3) == 0) t.format = some_format(w, (int)strlen(letters), false);
  if (out && !t.scatter && letters[0] && roll(w, 14) == 0) t.dtype = "b1";
  write_left(w, &t);
  write_value(w, &t);
  write_clauses(w, &t, roll(w, 4) == 0);
  if (!t.scatter && strcmp(t.dtype, "b1")) writer_learn(w, name, letters, is_sparse(t.format));
}

/* Rows of all segments, scattered to where p says. */
static void write_row_scatter(writer *w, const char *name) {
  target t = {"out", name, "rj", w->dtype, "", true, false};
  scope s = scope_of(&t);
  write_left(w, &t);
  writer_expr(w, 1 + roll(w, 2), &s);
  ir_text_printf(&w->text, " : %s[N,M];\n", w->dtype);
}

/* The positions of a sparse input, and another value there. */
static bool write_like(writer *w, const char *name) {
  scope s = {.rows = ""};
  for (int i = 0; i < w->tensor_count; i++) {
    const known_tensor *t = &w->tensors[i];
    if (!t->sparse || strlen(t->letters) != 2 || t->letters[0] == t->letters[1] ||
        strchr("LyzS", t->name[0]) || roll(w, 2))
      continue;
    const char *row = (char[]){t->letters[0], 0}, *column = (char[]){t->letters[1], 0};
    writer_bring(&s, t->letters[0], row);
    writer_bring(&s, t->letters[1], column);
    if (strchr(t->letters, 'r')) writer_bring(&s, 'e', "e");
    ir_text_printf(&w->text, "  out %s[%s,%s] = %s[%s,%s] * ", name, row, column, t->name, row,
                   column);
    writer_expr(w, 2, &s);
    ir_text_printf(&w->text, " : %s", w->dtype);
    write_shape(w, t->letters);
    ir_text_printf(&w->text, " as like(%s);\n", t->name);
    return true;
  }
  return false;
}

/* sums of the rows of each segment, or of all rows with what their segments say */
static void write_segment_sum(writer *w, const char *name) {
  scope s = {0};
  bool all = roll(w, 3) == 0;
  writer_bring(&s, 'r', "r"), writer_bring(&s, 'e', "e"), writer_bring(&s, 'j', "j");
  ir_text_printf(&w->text, "  out %s[%sj] = sum[r] (X[r,j] * ", name, all ? "" : "e,");
  writer_expr(w, 1, &s);
  ir_text_printf(&w->text, ") : %s[%sM];\n", w->dtype, all ? "" : "E,");
}

/* Sums over what the left side does not name. */
static void write_implied_sum(writer *w, const char *name) {
  static const char *const sums[] = {"[i] += A[i,j]", "[j] += A[i,j]", "[] += A[i,j]",
                                     "[j] max= A[i,j]", "[i] min= A[i,j]"};
  int kind = roll(w, w->empty && w->nature != INTEGER ? 3 : 5);
  const char *sizes[] = {"[N]", "[M]", "[]", "[M]", "[N]"};
  scope s = {0};
  writer_bring(&s, 'i', "i"), writer_bring(&s, 'j', "j");
  ir_text_printf(&w->text, "  out %s%s * ", name, sums[kind]);
  put(w, roll(w, 2) ? "A[i,j]" : "2");
  ir_text_printf(&w->text, " : %s%s;\n", w->dtype, sizes[kind]);
}

/* Some of these letters, in some order; at least one. */
static void some_of(writer *w, const char *letters, char *out) {
  int left = (int)strlen(letters), count = 0;
  char rest[8];
  snprintf(rest, sizeof rest, "%s", letters);
  for (int n = 1 + roll(w, left); n > 0; n--) {
    int at = roll(w, left);
    out[count++] = rest[at];
    memmove(rest + at, rest + at + 1, (size_t)(left-- - at));
  }
  out[count] = 0;
}

static void add_letters(char *to, const char *letters, const char *without) {
  for (size_t n = strlen(to); *letters; letters++)
    if (!strchr(to, *letters) && !strchr(without, *letters)) to[n++] = *letters, to[n] = 0;
}

static void put_letters(writer *w, const char *letters) {
  for (int i = 0; letters[i]; i++) ir_text_printf(&w->text, "%s%c", i ? "," : "", letters[i]);
}

/* A product of two tensors over several indices, in any order, with an epilogue now and then. */
static void write_product(writer *w, const char *name) {
  char side[2][8], all[8] = "", left[8], summed[8] = "";
  for (int n = 0; n < 2; n++) {
    some_of(w, "ijke", side[n]);
    write_input(w, n ? "H" : "G", side[n]);
    add_letters(all, side[n], "");
  }
  some_of(w, all, left);
  add_letters(summed, all, left);
  ir_text_printf(&w->text, "  out %s[", name);
  put_letters(w, left);
  put(w, "] = ");
  if (roll(w, 3) == 0) {
    target t = {"out", name, (char[]){left[roll(w, (int)strlen(left))], 0}, w->dtype, "",
                false, false};
    scope s = scope_of(&t);
    writer_expr(w, 1, &s);
    put(w, " + ");
  }
  if (summed[0]) {
    put(w, "sum[");
    put_letters(w, summed);
    put(w, "] ");
  }
  put(w, "G[");
  put_letters(w, side[0]);
  put(w, "] * H[");
  put_letters(w, side[1]);
  ir_text_printf(&w->text, "] : %s", w->dtype);
  write_shape(w, left);
  put(w, ";\n");
}

/* ---- heads in groups -------------------------------------------------------------------------- */
/* Subscripts, or sizes, of letters among which is h, that goes through `by` heads of E groups, or its quotient. */
static void put_heads(writer *w, const char *letters, bool sizes, bool quotient, int by) {
  put(w, "[");
  for (int i = 0; letters[i]; i++) {
    if (i) put(w, ",");
    if (letters[i] != 'h') ir_text_printf(&w->text, "%.*s", sizes ? 9 : 1, sizes ? writer_size(letters[i]) : letters + i);
    else if (sizes) ir_text_printf(&w->text, quotient ? "E" : "%d*E", by);
    else ir_text_printf(&w->text, quotient ? "h/%d" : "h", by);
  }
  put(w, "]");
}

/* A product of which one side is read by the quotient of what the other side has, indices in any order. */
static void write_grouped(writer *w, const char *name) {
  char query[8], key[8], all[8] = "", left[8], summed[8] = "";
  int by = 2 + roll(w, 3);
  some_of(w, "hijk", query), some_of(w, "hijk", key);
  if (!strchr(query, 'h') || !strchr(key, 'h')) return;
  add_letters(all, query, ""), add_letters(all, key, "");
  some_of(w, all, left);
  if (!strchr(left, 'h')) add_letters(left, "h", "");
  add_letters(summed, all, left);
  for (int n = 0; n < 2; n++) {
    ir_text_printf(&w->text, "  in %s: %s", n ? "Hk" : "Hq", w->dtype);
    put_heads(w, n ? key : query, true, n, by);
    put(w, ";\n");
  }
  ir_text_printf(&w->text, "  out %s", name);
  put_heads(w, left, false, false, by);
  put(w, " = ");
  for (int i = 0; summed[i]; i++) ir_text_printf(&w->text, "%s%c%s", i ? "," : "sum[", summed[i], summed[i + 1] ? "" : "] ");
  put(w, "Hq");
  put_heads(w, query, false, false, by);
  put(w, " * Hk");
  put_heads(w, key, false, true, by);
  if (roll(w, 4) == 0) ir_text_printf(&w->text, roll(w, 2) ? " on h %% %d == 1" : " on h / %d > 1", by);
  ir_text_printf(&w->text, " : %s", w->dtype);
  put_heads(w, left, true, false, by);
  put(w, ";\n");
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
  if (!roll(w, 4)) put(w, " positions=i64");
  put(w, "\n");
}

/* A directive about a let or an output that is there; most apply. */
static void write_directive(writer *w) {
  static const char *const sparse[] = {"csr", "coo", "dense", "dense_t", "csc", "twell(4,1)"};
  const known_tensor *t = &w->tensors[roll(w, w->tensor_count)];
  bool let = t->name[0] == 'L', out = t->name[0] == 'y' || t->name[0] == 'z';
  if ((!let && !out) || !t->letters[0]) return;
  char last = t->letters[strlen(t->letters) - 1];
  switch (let ? roll(w, 5) : 3 + roll(w, 2)) {
  case 0: ir_text_printf(&w->text, "  format %s = %s;\n", t->name, sparse[roll(w, 6)]); break;
  case 1: ir_text_printf(&w->text, "  dense %s;\n", t->name); break;
  case 2: ir_text_printf(&w->text, "  fuse %s into y;\n", t->name); break;
  case 3:
    ir_text_printf(&w->text, "  compact %s axis=%c gran=%dx%d;\n", t->name, last, 1 << roll(w, 7),
                   1 << roll(w, 3));
    break;
  default:
    ir_text_printf(&w->text, "  tile %s %c=%d %c=%d;\n", t->name, t->letters[0], 8 << roll(w, 3),
                   last, 8 << roll(w, 3));
  }
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
  w->ragged = roll(w, 4) == 0;
  w->windows = roll(w, 6) == 0;
}

static void write_inputs(writer *w) {
  static const char *const more[] = {"", "i", "j", "ij", "jk", "ji", "ki", "ii", "ijk"};
  write_input(w, "A", "ij");
  write_input(w, "B", roll(w, 2) ? "ij" : "jk");
  int extra = roll(w, 4);
  for (int n = 0; n < extra; n++)
    write_input(w, ir_format_text(w->text.arena, "C%d", n), more[roll(w, 9)]);
  if (w->pattern)
    ir_text_printf(&w->text, "  in P: pattern[N,M] as %s;\n", roll(w, 3) ? "csr" : "bsr(2,3)");
  if (w->gathers) put(w, "  in g: i32[N];\n");
  if (w->windows)
    ir_text_printf(&w->text, "  in T: %s[N+2,M]%s;\n  in U: %s[2*N+1];\n", w->dtype,
                   roll(w, 2) ? " as csr" : "", w->dtype);
  if (!w->ragged) return;
  write_input(w, "X", "rj");
  write_input(w, "Q", roll(w, 2) ? "ej" : "e");
  put(w, "  in off: i32[E+1];\n  ragged r in off[e]..off[e+1];\n  ragged q in off[e]..off[e+1];\n");
  if (w->gathers) put(w, "  in p: i32[R];\n");
}

static const char *some_letters(writer *w) {
  static const char *const shapes[] = {"ij", "ij", "ij", "ik", "i", "j", "ji", "jk", "", "ijk"};
  static const char *const rows[] = {"rj", "rj", "rj", "r", "e", "ej", "er", "jr"};
  return w->ragged && roll(w, 2) ? rows[roll(w, 8)] : shapes[roll(w, 10)];
}

static void write_outputs(writer *w) {
  write_stmt(w, "out", "y", some_letters(w));
  if (roll(w, 3) == 0) write_stmt(w, "out", "z", some_letters(w));
  if (roll(w, 5) == 0) write_stmt(w, "out", "z2", some_letters(w));
  if (w->ragged && roll(w, 2)) write_segment_sum(w, "s");
  if (w->ragged && w->gathers && roll(w, 2)) write_row_scatter(w, "v");
  if (roll(w, 6) == 0) write_like(w, "u");
  if (roll(w, 8) == 0) write_implied_sum(w, "t2");
  if (roll(w, 4) == 0) write_product(w, "w");
  if (roll(w, 4) == 0) write_grouped(w, "x");
}

const char *random_program(ir_arena *arena, uint64_t seed) {
  writer w = {.text = ir_text_new(arena), .d = {seed * 0x9e3779b97f4a7c15u + 1}};
  for (int i = 0; i < 4; i++) roll(&w, 2);
  choose_kind(&w);
  write_run_line(&w);
  put(&w, "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; dim E: dyn; dim R: dyn;\n"
          "format own(b) = [i,j] -> [ j/b: compressed, i: compressed, j%b: dense ];\nkernel t {\n");
  write_inputs(&w);
  int lets = roll(&w, 4);
  for (int n = 0; n < lets; n++)
    write_stmt(&w, "let", ir_format_text(arena, "L%d", n), some_letters(&w));
  write_outputs(&w);
  put(&w, "}\n");
  if (roll(&w, 5) == 0) {
    put(&w, "schedule t {\n");
    write_directive(&w);
    if (roll(&w, 3) == 0) write_directive(&w);
    put(&w, "}\n");
  }
  return w.text.data;
}
