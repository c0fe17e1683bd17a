/* random_expr.c - random expressions: products, sums, functions, conditions, reductions, rows.
 *
 * Each axis letter has a size of its own: i N, j M, k K, r R (ragged rows), e E (their segments).
 * A leaf is a tensor whose letters are all in reach; subscripts may gather (g[i], p[r]) or be moved
 * (T[i+1]).  Programs are EXACT (small integers and functions that keep them so, where comparisons
 * and topk decide alike everywhere) or SMOOTH (real functions, nothing that jumps). */
#include "tests/fuzz/random_expr.h"

int dice_roll(dice *d, int sides) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  return (int)((d->state >> 33) % (uint64_t)sides);
}

int writer_roll(writer *w, int sides) { return dice_roll(&w->d, sides); }
void writer_put(writer *w, const char *s) { ir_text_put(&w->text, s); }
static int roll(writer *w, int sides) { return writer_roll(w, sides); }
static void put(writer *w, const char *s) { writer_put(w, s); }

const char *writer_size(char letter) {
  return letter == 'i'   ? "N"
         : letter == 'j' ? "M"
         : letter == 'k' ? "K"
         : letter == 'r' ? "R"
                         : "E";
}

void writer_learn(writer *w, const char *name, const char *letters, bool sparse) {
  if (w->tensor_count == IR_COUNT(w->tensors)) return;
  known_tensor *t = &w->tensors[w->tensor_count++];
  snprintf(t->name, sizeof t->name, "%s", name);
  snprintf(t->letters, sizeof t->letters, "%s", letters);
  t->sparse = sparse;
}

/* ---- scopes and leaves ----------------------------------------------------------------------- */
void writer_bring(scope *s, char letter, const char *name) {
  s->letter[s->count] = letter;
  snprintf(s->name[s->count++], sizeof s->name[0], "%s", name);
}

static const char *name_for(writer *w, const scope *s, char letter, const char *prefer) {
  int places[16], n = 0;
  for (int i = 0; i < s->count; i++)
    if (s->letter[i] == letter) places[n++] = i;
  for (int i = 0; prefer && i < n; i++)
    if (!strcmp(s->name[places[i]], prefer)) return prefer;
  return n ? s->name[places[roll(w, n)]] : NULL;
}

static bool has_name(const scope *s, const char *name) {
  for (int i = 0; i < s->count; i++)
    if (!strcmp(s->name[i], name)) return true;
  return false;
}

static bool has_letter(const scope *s, char letter) {
  return memchr(s->letter, letter, (size_t)s->count) != NULL;
}

static bool reachable(const scope *s, const char *letters) {
  for (; *letters; letters++)
    if (!has_letter(s, *letters)) return false;
  return true;
}

static void write_subscript(writer *w, const scope *s, char letter, const char *prefer) {
  const char *name = name_for(w, s, letter, prefer);
  bool preferred = prefer && !strcmp(name, prefer), gathers = w->gathers && !preferred;
  if (letter == 'i' && gathers && w->ragged && has_letter(s, 'r') && roll(w, 6) == 0)
    ir_text_printf(&w->text, "p[%s]", name_for(w, s, 'r', NULL));
  else if (letter == 'i' && gathers && roll(w, 8) == 0)
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

/* A tensor in reach, one with `letter` when that is not 0, a sparse one; NULL: there is none. */
static const known_tensor *choose_tensor(writer *w, const scope *s, char letter, bool sparse) {
  int places[20], n = 0;
  for (int i = 0; i < w->tensor_count; i++)
    if (reachable(s, w->tensors[i].letters) && (w->tensors[i].sparse || !sparse) &&
        (!letter || strchr(w->tensors[i].letters, letter)))
      places[n++] = i;
  return n ? &w->tensors[places[roll(w, n)]] : NULL;
}

/* T has two rows more than N, U twice as many. */
static void write_moved(writer *w, const scope *s) {
  const char *i = name_for(w, s, 'i', NULL), *j = name_for(w, s, 'j', NULL);
  if (j && roll(w, 2))
    ir_text_printf(&w->text, "T[%s+%d,%s]", i, roll(w, 3), j);
  else
    ir_text_printf(&w->text, roll(w, 2) ? "U[2*%s+%d]" : "U[%s+%d]", i, roll(w, 2)); /* NOLINT */
}

static void write_leaf(writer *w, const scope *s) {
  const known_tensor *t = choose_tensor(w, s, 0, false);
  if (w->windows && has_letter(s, 'i') && roll(w, 6) == 0)
    write_moved(w, s);
  else if (!t || roll(w, 12) == 0)
    put(w, roll(w, 2) ? "2" : "1");
  else
    write_access(w, s, t, NULL);
}

/* ---- conditions ------------------------------------------------------------------------------ */
static void write_test(writer *w, const scope *s, const known_tensor *t, const char *prefer) {
  static const char *const tests[] = {" > 0", " != 0", " < 0", " >= 1", " == 0"};
  write_access(w, s, t, prefer);
  put(w, tests[roll(w, 5)]);
}

/* any[ix1] (a test with ix1 and a condition) */
static bool write_quantified(writer *w, int depth, const scope *s) {
  char name[16], letter = "ijk"[roll(w, 3)];
  scope inner = *s;
  if (s->count >= 10 || w->nature == SMOOTH) return false;
  snprintf(name, sizeof name, "%cx%d", letter, ++w->bound);
  writer_bring(&inner, letter, name);
  const known_tensor *t = choose_tensor(w, &inner, letter, false);
  if (!t) return false;
  ir_text_printf(&w->text, "(%s[%s] ((", roll(w, 3) ? "any" : "all", name);
  write_test(w, &inner, t, name);
  put(w, ") and (");
  writer_condition(w, depth - 1, &inner);
  put(w, ")))");
  return true;
}

void writer_condition(writer *w, int depth, scope *s) {
  const known_tensor *t = choose_tensor(w, s, 0, false);
  const char *a = s->count ? s->name[roll(w, s->count)] : "1",
             *b = s->count ? s->name[roll(w, s->count)] : "0";
  int kind = roll(w, depth > 0 ? 8 : 5);
  if (kind == 7 && write_quantified(w, depth, s)) return;
  if (kind == 0 && w->pattern && reachable(s, "ij")) {
    ir_text_printf(&w->text, "P[%s,%s]", name_for(w, s, 'i', NULL), name_for(w, s, 'j', NULL));
  } else if (kind <= 1 || !t || w->nature == SMOOTH) {
    ir_text_printf(&w->text, "%s %s %s", a, roll(w, 2) ? "<=" : ">", b);
  } else if (kind <= 4) {
    write_test(w, s, t, NULL);
  } else {
    put(w, kind == 6 && roll(w, 2) ? "not (" : "(");
    writer_condition(w, depth - 1, s);
    put(w, roll(w, 2) ? ") and (" : ") or (");
    writer_condition(w, depth - 1, s);
    put(w, ")");
  }
}

/* ---- expressions ----------------------------------------------------------------------------- */
static void write_pair(writer *w, const char *open, const char *between, int depth, scope *s) {
  put(w, open);
  writer_expr(w, depth - 1, s);
  put(w, between);
  writer_expr(w, depth - 1, s);
  put(w, ")");
}

static void write_call(writer *w, int depth, scope *s) {
  static const char *const exact[] = {"relu", "abs", "step", "sign", "relu"};
  static const char *const smooth[] = {"relu", "tanh", "sigmoid", "silu", "gelu"};
  ir_text_printf(&w->text, "%s(", w->nature == SMOOTH ? smooth[roll(w, 5)] : exact[roll(w, 5)]);
  writer_expr(w, depth - 1, s);
  put(w, ")");
}

static void write_where(writer *w, int depth, scope *s) {
  put(w, "where(");
  writer_condition(w, 1, s);
  put(w, ", ");
  writer_expr(w, depth - 1, s);
  put(w, ", ");
  if (roll(w, 2))
    put(w, "0");
  else
    writer_expr(w, depth - 2, s);
  put(w, ")");
}

/* Segments may be empty whatever the sizes. */
static const char *some_reducer(writer *w, bool may_be_empty) {
  static const char *const reducers[] = {"sum", "sum", "sum", "sum", "max", "min"};
  if (w->nature == INTEGER && roll(w, 12) == 0) return "prod";
  return reducers[roll(w, may_be_empty && w->nature != INTEGER ? 4 : 6)];
}

/* The name of an index that a reducer binds: ragged rows have two, r and q, in one segment. */
static bool name_bound(writer *w, const scope *s, char letter, char *name) {
  if (letter != 'r') {
    snprintf(name, 16, "%cx%d", letter, ++w->bound);
    return true;
  }
  const char *row = has_name(s, "r") ? "q" : "r";
  snprintf(name, 16, "%s", row);
  return !has_name(s, row);
}

/* (sum[k1] (leaf with k1 * expression)): the leaf gives the index its size. */
static bool write_reduction(writer *w, int depth, scope *s) {
  scope inner = *s;
  char name[16], letter = "ijkr"[roll(w, w->ragged ? 4 : 3)];
  if (s->count >= 9 || !name_bound(w, s, letter, name)) return false;
  writer_bring(&inner, letter, name);
  if (letter == 'r' && !has_letter(s, 'e')) writer_bring(&inner, 'e', "e");
  const known_tensor *t = choose_tensor(w, &inner, letter, false);
  if (!t) return false;
  bool place = w->nature != SMOOTH && letter != 'r' && roll(w, 14) == 0;
  if (place) /* where the largest is */
    ir_text_printf(&w->text, "(cast[%s](argmax[%s] (", w->dtype, name);
  else
    ir_text_printf(&w->text, "(%s[%s] (", some_reducer(w, w->empty || letter == 'r'), name);
  write_access(w, &inner, t, name);
  put(w, roll(w, 5) ? " * " : " + ");
  writer_expr(w, depth - 1, &inner);
  put(w, place ? ")))" : "))");
  return true;
}

void writer_row_op(writer *w, int depth, scope *s) {
  const char along[2] = {s->rows[roll(w, (int)strlen(s->rows))], 0};
  ir_text_printf(&w->text, "%s[%s](", w->nature == SMOOTH ? "softmax" : "topk", along);
  writer_expr(w, depth - 1, s);
  put(w, w->nature == SMOOTH ? ")" : roll(w, 2) ? ", 2)" : ", 1)");
}

void writer_expr(writer *w, int depth, scope *s) {
  if (depth <= 0) {
    write_leaf(w, s);
    return;
  }
  switch (roll(w, 15)) {
  case 0:
  case 1:
  case 2: write_pair(w, "(", " * ", depth, s); return;
  case 3:
  case 4: write_pair(w, "(", " + ", depth, s); return;
  case 5: write_pair(w, "(", " - ", depth, s); return;
  case 6: write_pair(w, roll(w, 2) ? "max(" : "min(", ", ", depth, s); return;
  case 7:
  case 8: write_call(w, depth, s); return;
  case 9: write_where(w, depth, s); return;
  case 10:
    if (!s->rows[0] || roll(w, 4)) break;
    writer_row_op(w, depth, s);
    return;
  case 11:
  case 12:
  case 13:
    if (write_reduction(w, depth, s)) return;
    break;
  default: break;
  }
  write_leaf(w, s);
}

/* ---- what only sparse operands make non-zero ------------------------------------------------- */
/* (sum[k1] (sparse with k1 * sparse or anything)) */
static bool write_sparse_sum(writer *w, int depth, scope *s) {
  scope inner = *s;
  char name[16], letter = "ijkr"[roll(w, w->ragged ? 4 : 3)];
  if (s->count >= 9 || !name_bound(w, s, letter, name)) return false;
  writer_bring(&inner, letter, name);
  if (letter == 'r' && !has_letter(s, 'e')) writer_bring(&inner, 'e', "e");
  const known_tensor *t = choose_tensor(w, &inner, letter, true);
  if (!t) return false;
  ir_text_printf(&w->text, "(sum[%s] (", name);
  write_access(w, &inner, t, name);
  put(w, " * ");
  if (roll(w, 2) || !writer_sparse_expr(w, depth - 1, &inner)) writer_expr(w, depth - 1, &inner);
  put(w, "))");
  return true;
}

static bool write_sparse_product(writer *w, int depth, scope *s) {
  const known_tensor *t = choose_tensor(w, s, 0, true);
  if (!t) return false;
  put(w, "(");
  write_access(w, s, t, NULL);
  put(w, " * ");
  writer_expr(w, depth - 1, s);
  put(w, ")");
  return true;
}

bool writer_sparse_expr(writer *w, int depth, scope *s) {
  static const char *const keeps[] = {"relu(", "abs(", "sign(", "(2 * "};
  const known_tensor *t = choose_tensor(w, s, 0, true);
  int kind = depth > 0 ? roll(w, 9) : 0;
  if (!t) return write_sparse_sum(w, depth, s);
  if (kind == 1 && write_sparse_sum(w, depth, s)) return true;
  if (kind == 2 || kind == 3) return write_sparse_product(w, depth, s);
  if (kind == 4 || kind == 5) {
    put(w, "(");
    writer_sparse_expr(w, depth - 1, s);
    put(w, kind == 4 ? " + " : " - ");
    writer_sparse_expr(w, depth - 1, s);
    put(w, ")");
  } else if (kind == 6) {
    put(w, w->nature == SMOOTH ? "tanh(" : keeps[roll(w, 4)]);
    writer_sparse_expr(w, depth - 1, s);
    put(w, ")");
  } else if (kind == 7) {
    put(w, "where(");
    writer_condition(w, 1, s);
    put(w, ", ");
    writer_sparse_expr(w, depth - 1, s);
    put(w, roll(w, 2) ? ", 0)" : ", ");
    if (w->text.data[w->text.length - 1] == ')') return true;
    writer_sparse_expr(w, depth - 1, s);
    put(w, ")");
  } else if (kind == 8 && s->rows[0] && w->nature != SMOOTH) {
    ir_text_printf(&w->text, "topk[%c](", s->rows[roll(w, (int)strlen(s->rows))]);
    writer_sparse_expr(w, depth - 1, s);
    put(w, ", 2)");
  } else {
    write_access(w, s, t, NULL);
  }
  return true;
}
