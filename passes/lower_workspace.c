/* lower_workspace.c - a row of a sparse result that is summed in a workspace.
 *
 *     C[i,k] = sum[j] A[i,j]*B[j,k]      for j in A[i,:] { for k in B[j,:] { sums[k] += A*B;  take
 * k } } (Gustavson, TOMS 1978)             for k taken, ascending { entry(k, sums[k]);  sums[k] = 0
 * }
 *
 * The row of sums is dense, but only what was taken is visited: `bits[0]` has a bit for every
 * place, `bits[1]` one for every word of bits[0] that is not empty, `bits[2]` one for every such
 * word of bits[1].  Going down from bits[2] finds the places in ascending order, in time for what
 * was taken and one word for every 2^18 places; nothing is sorted.  Counting needs the bits alone,
 * which stay in the caches where the sums would not.
 *
 * Whether a word was empty is a question that nobody can foresee.  Where the row has few words it
 * is not asked: bits[1] and bits[2] stay empty, and all words are visited.  Nor is it asked how many
 * bits a word has, where a look at some words says that they are few: two places of each are put on a
 * list, and count if they are there.
 *
 * A row of as many words as a word has bits keeps in a register which of them hold something: where these are few, they alone are
 * visited.
 *
 * The workspaces belong to one thread each (ir_buf.each), zero before and after every row. */
#include "passes/lower.h"

enum { WORD = 64, DEPTH = 3 };
/* Places of rows whose words are all visited: to clear them takes less than to look at them. */
enum { FLAT_COUNTED = 1 << 15, FLAT_VISITED = 1 << 12 };

static ir_buf *workspace(lower_state *s, const char *part, ir_dtype dtype, ir_expr *count) {
  const char *name = ir_format_text(s->arena, "%s.%s", s->stmt->target->name, part);
  ir_buf *buf = pass_code_workspace(s, name, dtype, count);
  buf->zeroed = buf->each = true;
  buf->tensor = s->stmt->target;
  return buf;
}

/* Zeros that were not visited take part, and do not come out as the identity. */
static bool counts_seen(const ir_expr *hole) {
  return hole->reducer == IR_RED_MAX || hole->reducer == IR_RED_MIN;
}

/* Empty words put a place on the list too, which nothing counts: behind the last one. */
static ir_buf *places_workspace(lower_state *s, ir_expr *extent) {
  const ir_target *machine = s->context->options->target;
  if (machine && machine->kind == IR_TARGET_CUDA) return NULL;
  ir_expr *most = pass_code_op(s, IR_OP_MIN, extent, pass_code_int(s, FLAT_VISITED));
  const char *name = ir_format_text(s->arena, "%s.places", s->stmt->target->name);
  ir_buf *buf = pass_code_workspace(s, name, IR_I32, pass_code_add(s, most, pass_code_int(s, 1)));
  buf->each = true;
  return buf;
}

void pass_row_open(lower_state *s, lower_row *row) {
  ir_expr *words = row->last->extent;
  row->places = places_workspace(s, words);
  row->sums = workspace(s, "sums", pass_value_dtype(s, row->hole->dtype), words);
  if (counts_seen(row->hole)) row->seen = workspace(s, "seen", IR_I64, words);
  for (int d = 0; d < DEPTH; d++) {
    words = ir_ceil_div(s->arena, words, WORD);
    row->bits[d] = workspace(s, ir_format_text(s->arena, "bits%d", d), IR_I64, words);
  }
}

/* ---- into the row -----------------------------------------------------------------------------
 */
static ir_expr *bit_at(lower_state *s, ir_expr *place) {
  ir_expr *in_word = pass_code_op(s, IR_OP_MOD, place, pass_code_int(s, WORD));
  return pass_code_op(s, IR_OP_SHL, pass_code_int(s, 1), in_word);
}

static void set_bit(lower_state *s, ir_buf *bits, ir_expr *place) {
  ir_expr *at = pass_code_op(s, IR_OP_DIV, place, pass_code_int(s, WORD));
  pass_code_store(s, bits, at, bit_at(s, place))->combine = IR_OP_BOR;
}

static int64_t flat_limit(const lower_row *row) {
  return row->values ? FLAT_VISITED : FLAT_COUNTED;
}

/* Whether the upper words are kept; NULL: always. */
static ir_expr *is_deep(lower_state *s, const lower_row *row) {
  int64_t limit = flat_limit(row), known;
  if (ir_size_known(row->last->extent, &known)) return known > limit ? NULL : pass_code_bool(s, false);
  return pass_code_op(s, IR_OP_GT, row->last->extent, pass_code_int(s, limit));
}

/* Sets the bit of a place; what is above it too, where its word was empty.  Returns whether it was
 * set before. */
static ir_expr *take(lower_state *s, lower_row *row, ir_expr *place) {
  ir_block *outer;
  ir_expr *at = pass_code_let(s, "word", pass_code_op(s, IR_OP_DIV, place, pass_code_int(s, WORD)));
  ir_expr *bit = pass_code_let(s, "bit", bit_at(s, place)), *zero = pass_code_int(s, 0);
  ir_expr *old = pass_code_let(s, "old", pass_code_load(s, row->bits[0], at, NULL));
  pass_code_store(s, row->bits[0], at, pass_code_op(s, IR_OP_BOR, old, bit));
  if (row->words) ir_set(&s->b, row->words, pass_code_op(s, IR_OP_BOR, pass_code_ref(s, row->words), bit_at(s, at)));
  if (!row->deep || !pass_code_is_false(row->deep)) {
    ir_open_if(&s->b, pass_code_and(s, row->deep, pass_code_op(s, IR_OP_EQ, old, zero)), &outer);
    set_bit(s, row->bits[1], at);
    set_bit(s, row->bits[2], pass_code_op(s, IR_OP_DIV, at, pass_code_int(s, WORD)));
    ir_close(&s->b, outer);
  }
  return pass_code_op(s, IR_OP_NE, pass_code_op(s, IR_OP_BAND, old, bit), zero);
}

/* max, min: the first value of a place is taken as it is, and places are counted. */
static void keep_best(lower_state *s, lower_row *row, ir_expr *place, ir_expr *value,
                      ir_expr *was_there) {
  ir_expr *old = pass_code_load(s, row->sums, place, NULL);
  ir_expr *best = pass_reduce_combine(s, row->hole->reducer, row->sums->dtype, old, value);
  pass_code_store(s, row->sums, place, pass_code_where(s, was_there, best, value));
  pass_code_store(s, row->seen, place, pass_code_int(s, 1))->combine = IR_OP_ADD;
}

static void add_to_row(lower_state *s, lower_env *env, lower_row *row) {
  ir_expr *place = pass_env_find(env, row->last)->value, *value = NULL;
  if (row->values)
    value = pass_code_cast(s, row->sums->dtype, pass_value(s, env, row->hole->args[0]));
  if (row->seen && value) value = pass_code_let(s, "value", value);
  ir_expr *was_there = take(s, row, place);
  if (row->counter) {
    ir_expr *one = pass_code_where(s, was_there, pass_code_int(s, 0), pass_code_int(s, 1));
    ir_set(&s->b, row->counter, pass_code_add(s, pass_code_ref(s, row->counter), one));
  }
  if (row->seen && value)
    keep_best(s, row, place, value, pass_code_let(s, "again", was_there));
  else if (value)
    pass_code_store(s, row->sums, place, value)->combine =
        ir_reducer_rows[row->hole->reducer].combine;
}

static void accumulate(lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  lower_row *row = nest->user;
  ir_expr *here = pass_value_condition(s, env, row->points);
  if (here && env->holds && ir_expr_equal(here, env->holds)) here = NULL;
  ir_block *outer = NULL;
  if (here) ir_open_if(&s->b, here, &outer);
  add_to_row(s, here ? pass_env_copy(s, env) : env, row);
  if (here) ir_close(&s->b, outer);
}

void pass_row_accumulate(lower_state *s, lower_env *env, lower_row *row) {
  ir_expr *value = row->hole->args[0], *zero = pass_value_const(s, value->dtype, 0);
  ir_expr *root = (ir_expr *)row->points;
  if (row->values) root = ir_apply3(s->arena, IR_OP_WHERE, root, value, zero);
  lower_nest nest = {.s = s,
                     .root = root,
                     .only = row->points,
                     .driver = -1,
                     .target = -1,
                     .index = row->index,
                     .count = row->index_count,
                     .skips = true,
                     .row = row,
                     .shallow = true,
                     .leaf = accumulate,
                     .user = row};
  row->deep = is_deep(s, row);
  if (row->deep && !pass_code_is_false(row->deep)) row->deep = pass_code_let(s, "deep", row->deep);
  row->words = row->places && row->values ? ir_let(&s->b, "words", IR_I64, pass_code_int(s, 0)) : NULL;
  pass_nest_from(&nest, pass_env_copy(s, env), 0);
}

/* ---- out of the row ---------------------------------------------------------------------------
 */
/* Zeros that were not visited take part where not all points were. */
static ir_expr *with_unseen(lower_state *s, lower_row *row, ir_expr *place, ir_expr *value) {
  if (!row->seen) return value;
  ir_expr *points = pass_code_int(s, 1);
  for (int i = 0; i < row->hole->bound_count; i++)
    points = pass_code_mul(s, points, row->hole->bound[i]->extent);
  ir_dtype t = row->sums->dtype;
  ir_expr *zero = pass_code_cast(s, t, pass_code_int(s, 0));
  ir_expr *all = pass_code_op(s, IR_OP_GE, pass_code_load(s, row->seen, place, NULL), points);
  ir_expr *both = pass_reduce_combine(s, row->hole->reducer, t, value, zero);
  return pass_code_where(s, all, value, both);
}

typedef struct flush {
  lower_row *row;
  lower_env *env;
  void (*entry)(void *user, lower_env *env);
  void *user;
} flush;

static bool asks_for(const ir_stmt *stmt, const ir_index *index) {
  return ir_expr_depends_on(stmt->value, index) || (stmt->cond && ir_expr_depends_on(stmt->cond, index)) ||
         (stmt->stores && ir_expr_depends_on(stmt->stores, index));
}

/* The segment of a place of a ragged index, which was forgotten when its sum was put by: the first that ends behind it. */
static void find_segment(lower_state *s, lower_env *env, const ir_index *ragged, ir_expr *place) {
  const ir_index *segment = ragged->segment;
  if (!segment || pass_env_find(env, segment) || !asks_for(s->stmt, segment)) return;
  ir_block *outer;
  ir_buf *offsets = pass_code_buffer(s, ragged->offsets, IR_BUF_VALS, 0);
  ir_expr *one = pass_code_int(s, 1);
  ir_var *low = ir_let(&s->b, "segment", IR_I64, pass_code_int(s, 0)), *high = ir_let(&s->b, "high", IR_I64, segment->extent);
  ir_expr *from = pass_code_ref(s, low), *to = pass_code_ref(s, high);
  ir_open_while(&s->b, pass_code_op(s, IR_OP_LT, from, pass_code_sub(s, to, one)), &outer);
  ir_expr *middle = pass_code_let(s, "middle", pass_code_op(s, IR_OP_DIV, pass_code_add(s, from, to), pass_code_int(s, 2)));
  ir_expr *begins = pass_code_load_int(s, offsets, middle, NULL);
  ir_expr *within = pass_code_let(s, "within", pass_code_op(s, IR_OP_LE, begins, place));
  ir_set(&s->b, low, pass_code_where(s, within, middle, from));
  ir_set(&s->b, high, pass_code_where(s, within, to, middle));
  ir_close(&s->b, outer);
  pass_env_bind(env, (ir_index *)segment, from);
  find_segment(s, env, segment, from);
}

static void visit_place(lower_state *s, flush *f, ir_expr *place) {
  lower_row *row = f->row;
  lower_env *env = pass_env_copy(s, f->env);
  pass_env_bind(env, row->last, place);
  find_segment(s, env, row->last, place);
  ir_expr *sum = pass_code_load(s, row->sums, place, NULL);
  sum = pass_code_let(s, "total", with_unseen(s, row, place, sum));
  pass_env_keep(env, (lower_memo){.node = row->hole, .value = {sum, NULL}});
  f->entry(f->user, env);
  ir_expr *zero = pass_code_cast(s, row->sums->dtype, pass_code_int(s, 0));
  pass_code_store(s, row->sums, place, zero);
  if (row->seen) pass_code_store(s, row->seen, place, pass_code_int(s, 0));
}

/* The places below one word of bits[depth]; the word is cleared. */
static void visit_word(lower_state *s, flush *f, int depth, ir_expr *at) {
  static const char *const names[] = {"place", "word", "group"};
  ir_buf *bits = f->row->bits[depth];
  ir_block *outer;
  if (depth == 0 && !f->entry) {
    pass_code_store(s, bits, at, pass_code_int(s, 0));
    return;
  }
  ir_var *left = ir_let(&s->b, "left", IR_I64, pass_code_load(s, bits, at, NULL));
  ir_expr *rest = pass_code_ref(s, left), *one = pass_code_int(s, 1);
  pass_code_store(s, bits, at, pass_code_int(s, 0));
  ir_open_while(&s->b, pass_code_op(s, IR_OP_NE, rest, pass_code_int(s, 0)), &outer);
  ir_expr *first = pass_code_mul(s, at, pass_code_int(s, WORD));
  ir_expr *place = pass_code_add(s, first, pass_code_op(s, IR_OP_CTZ, rest, NULL));
  place = pass_code_let(s, depth ? names[depth] : f->row->last->name, place);
  ir_set(&s->b, left, pass_code_op(s, IR_OP_BAND, rest, pass_code_sub(s, rest, one)));
  if (depth)
    visit_word(s, f, depth - 1, place);
  else
    visit_place(s, f, place);
  ir_close(&s->b, outer);
}

/* All words of one depth. */
static void visit_words(lower_state *s, flush *f, int depth) {
  ir_block *outer;
  ir_var *at = ir_open_for(&s->b, depth ? "top" : "word", pass_code_int(s, 0),
                           f->row->bits[depth]->count, IR_RUN_SEQUENTIAL, &outer);
  visit_word(s, f, depth, pass_code_ref(s, at));
  ir_close(&s->b, outer);
}

/* ---- words that are all visited -------------------------------------------------------------- */
enum { FEW = 2 };

static ir_expr *lowest(lower_state *s, ir_expr *word, ir_expr *left) {
  ir_expr *first = pass_code_mul(s, word, pass_code_int(s, WORD));
  return pass_code_cast(s, IR_I32, pass_code_add(s, first, pass_code_op(s, IR_OP_CTZ, left, NULL)));
}

static void drop_lowest(lower_state *s, ir_var *left) {
  ir_expr *rest = pass_code_ref(s, left);
  ir_set(&s->b, left, pass_code_op(s, IR_OP_BAND, rest, pass_code_sub(s, rest, pass_code_int(s, 1))));
}

static void count_one(lower_state *s, ir_var *count, ir_expr *more) {
  ir_set(&s->b, count, pass_code_add(s, pass_code_ref(s, count), more));
}

/* FEW places without a question, the others as long as there are any. */
static void list_word(lower_state *s, const lower_row *row, ir_expr *word, ir_var *count) {
  ir_block *outer;
  ir_expr *one = pass_code_int(s, 1), *zero = pass_code_int(s, 0);
  ir_var *left = ir_let(&s->b, "left", IR_I64, pass_code_load(s, row->bits[0], word, NULL));
  ir_expr *rest = pass_code_ref(s, left), *more = pass_code_op(s, IR_OP_NE, rest, zero);
  pass_code_store(s, row->bits[0], word, zero);
  for (int i = 0; i < FEW; i++) {
    pass_code_store(s, row->places, pass_code_ref(s, count), lowest(s, word, rest));
    count_one(s, count, pass_code_where(s, more, one, zero));
    drop_lowest(s, left);
  }
  ir_open_while(&s->b, more, &outer);
  pass_code_store(s, row->places, pass_code_ref(s, count), lowest(s, word, rest));
  count_one(s, count, one);
  drop_lowest(s, left);
  ir_close(&s->b, outer);
}

static void list_all(lower_state *s, const lower_row *row, ir_var *count) {
  ir_block *outer;
  ir_var *word = ir_open_for(&s->b, "word", pass_code_int(s, 0), row->bits[0]->count, IR_RUN_SEQUENTIAL, &outer);
  list_word(s, row, pass_code_ref(s, word), count);
  ir_close(&s->b, outer);
}

/* Those that hold something. */
static void list_taken(lower_state *s, const lower_row *row, ir_var *count) {
  ir_block *outer;
  ir_expr *left = pass_code_ref(s, row->words);
  ir_open_while(&s->b, pass_code_op(s, IR_OP_NE, left, pass_code_int(s, 0)), &outer);
  ir_expr *word = pass_code_let(s, "word", pass_code_op(s, IR_OP_CTZ, left, NULL));
  drop_lowest(s, row->words);
  list_word(s, row, word, count);
  ir_close(&s->b, outer);
}

static void visit_listed(lower_state *s, flush *f, void (*list)(lower_state *s, const lower_row *row, ir_var *count)) {
  const lower_row *row = f->row;
  ir_block *outer;
  ir_expr *zero = pass_code_int(s, 0);
  ir_var *count = ir_let(&s->b, "listed", IR_I64, zero);
  list(s, row, count);
  ir_var *n = ir_open_for(&s->b, "n", zero, pass_code_ref(s, count), IR_RUN_SEQUENTIAL, &outer);
  ir_expr *place = pass_code_load_int(s, row->places, pass_code_ref(s, n), NULL);
  visit_place(s, f, pass_code_let(s, row->last->name, place));
  ir_close(&s->b, outer);
}

/* 1: the word has more than FEW bits. */
static ir_expr *has_many(lower_state *s, const lower_row *row, ir_expr *word) {
  ir_expr *left = pass_code_let(s, "some", pass_code_load(s, row->bits[0], word, NULL));
  ir_expr *one = pass_code_int(s, 1), *zero = pass_code_int(s, 0);
  for (int i = 0; i < FEW; i++)
    left = pass_code_let(s, "fewer", pass_code_op(s, IR_OP_BAND, left, pass_code_sub(s, left, one)));
  return pass_code_where(s, pass_code_op(s, IR_OP_NE, left, zero), one, zero);
}

/* A look at SAMPLE words in equal distances: at most half of them have many bits. */
static ir_expr *has_few(lower_state *s, const lower_row *row) {
  enum { SAMPLE = 4 };
  ir_block *outer;
  ir_expr *words = row->bits[0]->count, *most = pass_code_int(s, SAMPLE), *many = pass_code_int(s, 0);
  ir_var *few = ir_let(&s->b, "few", IR_B1, pass_code_bool(s, false));
  ir_open_if(&s->b, pass_code_op(s, IR_OP_GE, words, most), &outer);
  for (int i = 0; i < SAMPLE; i++) {
    ir_expr *word = pass_code_mul(s, words, pass_code_int(s, i));
    many = pass_code_add(s, many, has_many(s, row, pass_code_op(s, IR_OP_DIV, word, most)));
  }
  ir_set(&s->b, few, pass_code_op(s, IR_OP_LE, many, pass_code_int(s, SAMPLE / 2)));
  ir_close(&s->b, outer);
  return pass_code_ref(s, few);
}

/* No more of them than MOST, dropped one by one without a question, and the row has others. */
static ir_expr *takes_few_words(lower_state *s, const lower_row *row) {
  enum { MOST = 20 };
  ir_expr *left = pass_code_ref(s, row->words), *one = pass_code_int(s, 1);
  for (int i = 0; i < MOST; i++)
    left = pass_code_let(s, "fewer", pass_code_op(s, IR_OP_BAND, left, pass_code_sub(s, left, one)));
  ir_expr *few = pass_code_op(s, IR_OP_EQ, left, pass_code_int(s, 0));
  return pass_code_and(s, pass_code_op(s, IR_OP_GT, row->bits[0]->count, pass_code_int(s, MOST)), few);
}

/* The list has room for rows that are flat while sums are made. */
static void visit_flat(lower_state *s, flush *f) {
  ir_block *outer;
  if (!f->entry || !f->row->places || !f->row->values) {
    visit_words(s, f, 0);
    return;
  }
  ir_code *taken = ir_open_if(&s->b, takes_few_words(s, f->row), &outer);
  visit_listed(s, f, list_taken);
  ir_open_else(&s->b, taken);
  ir_block *within;
  ir_code *either = ir_open_if(&s->b, has_few(s, f->row), &within);
  visit_listed(s, f, list_all);
  ir_open_else(&s->b, either);
  visit_words(s, f, 0);
  ir_close(&s->b, within);
  ir_close(&s->b, outer);
}

void pass_row_flush(lower_state *s, lower_env *env, lower_row *row,
                    void (*entry)(void *user, lower_env *env), void *user) {
  flush f = {row, env, entry, user};
  ir_block *outer;
  if (row->deep && pass_code_is_false(row->deep)) {
    visit_flat(s, &f);
    return;
  }
  ir_code *either = row->deep ? ir_open_if(&s->b, row->deep, &outer) : NULL;
  visit_words(s, &f, DEPTH - 1);
  if (!either) return;
  ir_open_else(&s->b, either);
  visit_flat(s, &f);
  ir_close(&s->b, outer);
}
