/* check_tests.c - `test` blocks: every input has a value, every size can be known, every name
 * exists. */
#include "frontend/check.h"

typedef struct block {
  fe_check *c;
  const fe_test *test;
  const ir_kernel *kernel;
  bool bad;
} block;

static const fe_set *set_of(const fe_test *test, const char *name) {
  for (int i = 0; i < test->sets.count; i++)
    if (!strcmp(test->sets.at[i].name, name)) return &test->sets.at[i];
  return NULL;
}

static void unknown(block *b, const char *name, ir_span span, bool outputs) {
  b->bad = true;
  if (fe_is_lost(b->c, name)) return;
  IR_VEC(const char *) known = {0};
  for (int i = 0; i < b->kernel->tensors.count; i++)
    if ((b->kernel->tensors.at[i]->role != IR_ROLE_IN) == outputs)
      IR_PUSH(b->c->arena, &known, b->kernel->tensors.at[i]->name);
  for (int i = 0; i < b->c->program->dims.count && !outputs; i++)
    IR_PUSH(b->c->arena, &known, b->c->program->dims.at[i]->name);
  ir_diag *d = fe_error(b->c, IR_DIAG_TEST, span, "`%s` is neither an input of `%s` nor a dim",
                        name, b->kernel->name);
  if (outputs)
    d->text =
        ir_format_text(b->c->arena, "`%s` is not a `let` or `out` of `%s`", name, b->kernel->name);
  const char *nearest = ir_nearest(name, known.at, known.count);
  if (nearest) ir_diag_fix(b->c->sink, d, span, nearest, "did you mean `%s`?", nearest);
}

static void check_rank(block *b, const fe_source *source, const ir_tensor *t) {
  if (source->generator || source->literal_rank == t->rank) return;
  fe_error(b->c, IR_DIAG_TEST, source->span, "this list has %d dimension%s, `%s` has %d",
           source->literal_rank, source->literal_rank == 1 ? "" : "s", t->name, t->rank);
  b->bad = true;
}

/* The parser takes every integer for a size; a scalar input takes it as its value. */
static void check_set(block *b, fe_set *set) {
  const ir_tensor *t = ir_tensor_named(b->kernel, set->name);
  const ir_dim *dim = ir_dim_named(b->c->program, set->name);
  if (t && t->role == IR_ROLE_IN) {
    set->is_size = false;
    check_rank(b, &set->source, t);
  } else if (!dim) {
    unknown(b, set->name, set->span, false);
  } else if (!set->is_size) {
    fe_error(b->c, IR_DIAG_TEST, set->source.span, "`%s` is a dim: its size is an integer",
             set->name);
    b->bad = true;
  } else if (dim->value < 0 &&
             ((dim->bound && set->size > dim->bound) || set->size % dim->multiple)) {
    fe_error(b->c, IR_DIAG_TEST, set->source.span,
             "%lld breaks what the declaration of `%s` promises", (long long)set->size, set->name);
    b->bad = true;
  }
}

static void check_sets(block *b) {
  for (int i = 0; i < b->test->sets.count; i++) {
    fe_set *set = &b->test->sets.at[i];
    const fe_set *first = set_of(b->test, set->name);
    if (first != set) {
      ir_diag *d = fe_error(b->c, IR_DIAG_TEST, set->span, "`%s` is set twice", set->name);
      ir_diag_note(b->c->sink, d, first->span, "the first time");
      b->bad = true;
    } else {
      check_set(b, set);
    }
  }
}

static void check_expects(block *b) {
  for (int i = 0; i < b->test->expects.count; i++) {
    const fe_expect *expect = &b->test->expects.at[i];
    const ir_tensor *t = ir_tensor_named(b->kernel, expect->name);
    if (!t || t->role == IR_ROLE_IN)
      unknown(b, expect->name, expect->span, true);
    else if (!expect->against_ref)
      check_rank(b, &expect->source, t);
  }
  if (b->test->expects.count || b->test->broken) return;
  fe_error(b->c, IR_DIAG_TEST, b->test->span,
           "this test expects nothing; write `expect NAME ~= ref;`");
}

/* ---- sizes --------------------------------------------------------------------------------- */
static bool has_size(block *b, const ir_dim *dim) {
  if (set_of(b->test, dim->name)) return true;
  for (int i = 0; i < b->kernel->tensors.count; i++) { /* a list gives its sizes */
    const ir_tensor *t = b->kernel->tensors.at[i];
    const fe_set *set = t->role == IR_ROLE_IN ? set_of(b->test, t->name) : NULL;
    for (int k = 0; set && !set->source.generator && k < t->rank; k++)
      if (t->dim[k]->kind == IR_DIM && t->dim[k]->dim == dim) return true;
  }
  return false;
}

typedef struct need {
  block *b;
  const ir_dim *missing;
} need;
static bool visit_size(void *user, ir_expr *e) {
  need *n = user;
  if (e->kind == IR_DIM && e->dim->value < 0 && !has_size(n->b, e->dim)) n->missing = e->dim;
  return !n->missing;
}

static void check_complete(block *b) {
  need n = {b, NULL};
  for (int i = 0; i < b->kernel->tensors.count; i++) {
    const ir_tensor *t = b->kernel->tensors.at[i];
    for (int k = 0; k < t->rank && !n.missing; k++)
      if (t->dim[k]) ir_expr_walk(t->dim[k], visit_size, &n);
    if (t->role != IR_ROLE_IN || set_of(b->test, t->name)) continue;
    fe_error(b->c, IR_DIAG_TEST, b->test->span, "the test gives no value to the input `%s`",
             t->name);
    return;
  }
  if (n.missing)
    fe_error(b->c, IR_DIAG_TEST, b->test->span, "the test gives no size to the dyn dim `%s`",
             n.missing->name);
}

void fe_test_check(fe_check *c, const fe_test *test) {
  block b = {.c = c, .test = test, .kernel = fe_kernel_of(c, test->kernel, test->span)};
  if (!b.kernel || !fe_kernel_is_whole(fe_kernel_syntax(c, test->kernel))) return;
  check_sets(&b);
  check_expects(&b);
  if (!b.bad && !test->broken) check_complete(&b);
}
