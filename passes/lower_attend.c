/* lower_attend.c - what a kernel of attention (ir/attend.h) asks of the program, as scalar functions.
 *
 *     p = 0.125 * sum[d] q*k  on j <= i              score(acc, m, n, batch)    n <= m ? 0.125 * acc : -inf
 *     a = softmax[j](p)                              inside(..)                 0.125 * acc: where first <= n < behind
 *     o = sum[j] a*v                                 epilogue(acc, m, n, batch) acc
 *                                                    first(m, batch), behind(m, batch)   0, m + 1
 *                                                    visits(m, n, batch)                 1: of blocks that m and n lie in
 *
 *     .. on j <= i and M[b,i,j]                      asked(m, n, plane)                  M[plane,m,n]: by the launch that takes notes
 *                                                    plane(batch)                        b: the notes that a batch shares with others
 *                                                    step_m, step_n                      1, 1: what is asked is the same for so many; 0: for all
 *
 * acc is the sum of a pair's products, or the mean of a row's v. */
#include <math.h>

#include "passes/attend.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/lower.h"

typedef struct fragment {
  ir_func *func;
  ir_expr *acc, *m, *n, *batch;
} fragment;

static fragment open_fragment(lower_state *s, const char *name) {
  fragment f = {.func = pass_code_function(s, name)};
  f.func->kind = IR_FUNC_FRAGMENT;
  f.acc = pass_fragment_parameter(s, f.func, "acc", IR_F32);
  f.m = pass_fragment_parameter(s, f.func, "m", IR_I64);
  f.n = pass_fragment_parameter(s, f.func, "n", IR_I64);
  f.batch = pass_fragment_parameter(s, f.func, "batch", IR_I64);
  return f;
}

/* `batches`: those that the fragment's batch numbers. */
static void close_over(lower_state *s, const fragment *f, const ir_attend *t, const ir_flat *columns, const ir_flat *batches, ir_expr *value, ir_dtype dtype) {
  ir_expr *root = ir_cast(s->arena, dtype, value);
  lower_env *env = pass_fragment_open(s, root);
  pass_fragment_bind(s, env, &t->roles.m, f->m);
  pass_fragment_bind(s, env, columns, f->n);
  pass_fragment_bind(s, env, batches, f->batch);
  pass_fragment_close(s, env, f->func, root);
}

static void close_fragment(lower_state *s, const fragment *f, const ir_attend *t, const ir_flat *columns, ir_expr *value, ir_dtype dtype) {
  close_over(s, f, t, columns, &t->roles.batch, value, dtype);
}

/* ---- scores --------------------------------------------------------------------------------------- */
typedef struct change {
  const ir_expr *score;
  ir_expr *value;
} change;

static ir_expr *put_value(void *user, ir_expr *node) {
  change *c = user;
  return ir_expr_equal(node, c->score) ? c->value : node;
}

/* What is exponentiated, of a sum of products. */
static ir_expr *argument_of(lower_state *s, const ir_attend *t, ir_expr *acc) {
  pass_contraction_info info;
  if (!pass_contraction(s->arena, t->scores, &info)) return NULL;
  ir_expr *value = pass_epilogue_with(s->arena, &info, pass_finished_sum(s, &info, acc)), *cond = t->scores->cond;
  if (cond && !(t->condition && pass_implies(s->arena, t->condition, cond)))
    value = ir_apply3(s->arena, IR_OP_WHERE, cond, value, ir_const_f(s->arena, value->dtype, t->scores->fill));
  change c = {t->score, value};
  return pass_rewrite(s->arena, (ir_expr *)t->argument, put_value, &c);
}

static void lower_scores(lower_state *s, const ir_attend *t, const char *name, ir_expr *condition, bool seen) {
  s->stmt = seen ? NULL : t->scores; /* whose words stand above it once */
  fragment f = open_fragment(s, name);
  s->stmt = t->scores;
  ir_expr *value = ir_cast(s->arena, IR_F32, argument_of(s, t, f.acc));
  if (condition) value = ir_apply3(s->arena, IR_OP_WHERE, condition, value, ir_const_f(s->arena, IR_F32, -INFINITY));
  close_fragment(s, &f, t, &t->roles.n, value, IR_F32);
}

/* ---- the result ----------------------------------------------------------------------------------- */
static void lower_result(lower_state *s, const ir_attend *t) {
  pass_contraction_info info;
  ir_flat column = {.at = {t->column}, .count = 1};
  ir_stmt *stmt = t->result, copy = *stmt;
  s->stmt = stmt;
  fragment f = open_fragment(s, "epilogue");
  if (!pass_contraction(s->arena, stmt, &info)) return;
  copy.value = pass_epilogue_with(s->arena, &info, pass_finished_sum(s, &info, f.acc));
  s->stmt = &copy;
  close_fragment(s, &f, t, &column, pass_lower_root(s), IR_F32);
  s->stmt = stmt;
}

/* ---- columns that are seen ------------------------------------------------------------------------ */
static void lower_bound_of(lower_state *s, const ir_attend *t, const char *name, ir_op op, ir_expr *const *at, int count, ir_expr *otherwise) {
  s->stmt = NULL;
  fragment f = open_fragment(s, name);
  s->stmt = t->scores;
  ir_expr *value = otherwise;
  for (int i = 0; i < count; i++) value = ir_apply(s->arena, op, value, at[i]);
  close_fragment(s, &f, t, &t->roles.n, value, IR_I64);
}

/* The condition, but what is asked for once a tile, or was noted. */
static ir_expr *asked_of_pairs(lower_state *s, const ir_attend *t, const pass_seen *seen) {
  pass_terms all = {{0}}, known = {{0}};
  ir_expr *left = NULL;
  if (!t->condition) return NULL;
  pass_terms_of(s->arena, t->condition, &all);
  if (seen->whole) pass_terms_of(s->arena, seen->blocks, &known);
  if (seen->noted) pass_terms_of(s->arena, seen->rest, &known);
  for (int i = 0; i < all.list.count; i++) {
    bool found = false;
    for (int n = 0; n < known.list.count; n++) found |= ir_expr_equal(all.list.at[i], known.list.at[n]);
    if (!found) left = pass_and(s->arena, left, all.list.at[i]);
  }
  return left;
}

/* 1 where the tile that begins at m and n may be seen, as far as blocks tell. */
static void lower_blocks(lower_state *s, const ir_attend *t, const pass_seen *seen) {
  s->stmt = NULL;
  fragment f = open_fragment(s, "visits");
  s->stmt = t->scores;
  ir_expr *one = ir_int(s->arena, 1);
  close_fragment(s, &f, t, &t->roles.n, seen->blocks ? ir_apply3(s->arena, IR_OP_WHERE, seen->blocks, one, ir_int(s->arena, 0)) : one, IR_I64);
}

/* ---- what is noted before ------------------------------------------------------------------------- */
/* The batches that it differs by. */
static ir_flat batches_of(const ir_attend *t, const ir_expr *e) {
  ir_flat of = {.count = 0};
  for (int i = 0; i < t->roles.batch.count; i++)
    if (ir_expr_depends_on(e, t->roles.batch.at[i])) of.at[of.count++] = t->roles.batch.at[i];
  return of;
}

static void lower_number(lower_state *s, const ir_attend *t, const char *name, int64_t number) {
  s->stmt = NULL;
  fragment f = open_fragment(s, name);
  s->stmt = t->scores;
  close_fragment(s, &f, t, &t->roles.n, ir_int(s->arena, number), IR_I64);
}

/* Notes of tiles and bits of pairs (kernels/tile_mask.cuh), with room for any kernel's tiles: rows of bits are IR_ATTEND_WORDS longer than they
 * must be. */

static void take_room(lower_state *s, const ir_attend *t, const ir_flat *planes, ir_func *func) {
  ir_arena *a = s->arena;
  const char *name = t->result->target->name;
  ir_expr *rows = ir_ceil_div(a, ir_flat_size(a, &t->roles.m), IR_ATTEND_NOTED), *columns = ir_ceil_div(a, ir_flat_size(a, &t->roles.n), IR_ATTEND_NOTED);
  ir_expr *strips = ir_apply(a, IR_OP_MUL, ir_flat_size(a, planes), rows), *line = ir_apply(a, IR_OP_MUL, ir_apply(a, IR_OP_ADD, ir_ceil_div(a, ir_flat_size(a, &t->roles.n), IR_ATTEND_WORDS * 32), ir_int(a, 1)), ir_int(a, IR_ATTEND_WORDS));
  ir_expr *words = ir_apply(a, IR_OP_MUL, ir_apply(a, IR_OP_MUL, strips, ir_int(a, IR_ATTEND_NOTED)), line);
  IR_PUSH(a, &func->bufs, pass_code_workspace(s, ir_format_text(a, "%s.notes", name), IR_U8, ir_apply(a, IR_OP_MUL, strips, columns)));
  IR_PUSH(a, &func->bufs, pass_code_workspace(s, ir_format_text(a, "%s.mask", name), IR_I32, ir_apply(a, IR_OP_ADD, words, ir_int(a, IR_ATTEND_WORDS))));
}

static void lower_notes(lower_state *s, const ir_attend *t, const pass_seen *seen) {
  ir_flat planes = batches_of(t, seen->rest);
  ir_expr *number = ir_int(s->arena, 0), *one = ir_int(s->arena, 1);
  s->stmt = NULL;
  fragment asked = open_fragment(s, "asked");
  s->stmt = t->scores;
  close_over(s, &asked, t, &t->roles.n, &planes, ir_apply3(s->arena, IR_OP_WHERE, seen->rest, one, ir_int(s->arena, 0)), IR_I64);
  s->stmt = NULL;
  fragment plane = open_fragment(s, "plane");
  s->stmt = t->scores;
  for (int i = 0; i < planes.count; i++)
    number = ir_apply(s->arena, IR_OP_ADD, ir_apply(s->arena, IR_OP_MUL, number, planes.at[i]->extent), ir_index_ref(s->arena, planes.at[i]));
  close_fragment(s, &plane, t, &t->roles.n, number, IR_I64);
  take_room(s, t, &planes, plane.func);
  lower_number(s, t, "step_m", seen->rest_m);
  lower_number(s, t, "step_n", seen->rest_n);
}

bool pass_lower_attend(lower_state *s) {
  ir_attend t;
  if (!ir_attend_read(s->arena, s->kernel, s->stage, &t)) return false;
  pass_seen seen = pass_seen_of(s->arena, &t);
  lower_scores(s, &t, "score", asked_of_pairs(s, &t, &seen), false);
  lower_scores(s, &t, "inside", seen.noted ? NULL : seen.rest, true);
  lower_result(s, &t);
  lower_bound_of(s, &t, "first", IR_OP_MAX, seen.first.at, seen.first.count, ir_int(s->arena, 0));
  lower_bound_of(s, &t, "behind", IR_OP_MIN, seen.behind.at, seen.behind.count, t.roles.n.at[0]->extent);
  lower_blocks(s, &t, &seen);
  if (seen.noted) lower_notes(s, &t, &seen);
  return true;
}
