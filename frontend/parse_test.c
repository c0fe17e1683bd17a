/* parse_test.c - `test` blocks: straight into the data that `spc check` reads (frontend.h). */
#include <math.h>

#include "frontend/parse.h"

/* ---- literals ------------------------------------------------------------------------------ */
typedef struct literal {
  IR_VEC(double) values;
  int rank;
  int64_t dim[IR_MAX_RANK];
} literal;

static bool at_constant(const fe_parser *p) {
  return fe_at(p, FE_T_INT) || fe_at(p, FE_T_NUMBER) || fe_at(p, FE_T_MINUS) ||
         fe_at_word(p, FE_W_INF) || fe_at_word(p, FE_W_NAN);
}

static bool parse_constant(fe_parser *p, double *value) {
  fe_expr *e = fe_parse_const(p);
  if (!e) return false;
  *value = e->number;
  return true;
}

static bool ragged_list(fe_parser *p, ir_span begin) {
  fe_fault(p, IR_DIAG_TEST, fe_span_since(p, begin),
           "the parts of a nested list differ in length or depth");
  return false;
}

static bool parse_list(fe_parser *p, literal *l, int depth);

static bool parse_element(fe_parser *p, literal *l, int depth, bool *is_list) {
  *is_list = fe_at(p, FE_T_LBRACKET);
  if (*is_list) return parse_list(p, l, depth + 1);
  double value = 0;
  if (!parse_constant(p, &value)) return false;
  IR_PUSH(p->arena, &l->values, value);
  return true;
}

static bool parse_list(fe_parser *p, literal *l, int depth) {
  ir_span begin = fe_token_span(p, fe_peek(p));
  if (depth >= IR_MAX_RANK) {
    fe_fault(p, IR_DIAG_NESTING, begin,
             "lists nest at most %d deep, the most dimensions that a tensor has", IR_MAX_RANK);
    return false;
  }
  fe_skip(p);
  int64_t count = 0;
  do {
    bool is_list;
    if (!parse_element(p, l, depth, &is_list)) return false;
    if (!is_list && l->rank == 0) l->rank = depth + 1;
    if (is_list == (l->rank == depth + 1)) return ragged_list(p, begin);
    count++;
  } while (fe_take(p, FE_T_COMMA));
  if (!fe_need(p, FE_T_RBRACKET, "`,` or `]`")) return false;
  if (l->dim[depth] == 0) l->dim[depth] = count;
  return l->dim[depth] == count || ragged_list(p, begin);
}

static bool parse_literal(fe_parser *p, fe_source *source) {
  literal l = {.rank = 0};
  double value = 0;
  if (fe_at(p, FE_T_LBRACKET) ? !parse_list(p, &l, 0) : !parse_constant(p, &value)) return false;
  if (!l.rank) IR_PUSH(p->arena, &l.values, value);
  source->literal = l.values.at;
  source->literal_rank = l.rank;
  memcpy(source->literal_dim, l.dim, sizeof l.dim);
  return true;
}

/* ---- generators ---------------------------------------------------------------------------- */
typedef struct generator {
  const char *name;
  int args;
  const char *usage;
} generator;
static const generator generators[] = {{"rand", 1, "rand(seed)"},
                                       {"randint", 3, "randint(seed,lo,hi)"},
                                       {"sparse", 2, "sparse(seed,density)"},
                                       {"offsets", 1, "offsets(seed)"},
                                       {"iota", 0, "iota"},
                                       {"eye", 0, "eye"}};

static const generator *generator_find(const char *name) {
  for (int i = 0; i < IR_COUNT(generators); i++)
    if (!strcmp(generators[i].name, name)) return &generators[i];
  return NULL;
}

static bool unknown_generator(fe_parser *p, const fe_name *name) {
  const char *known[IR_COUNT(generators)];
  for (int i = 0; i < IR_COUNT(generators); i++) known[i] = generators[i].name;
  const char *nearest = ir_nearest(name->text, known, IR_COUNT(known));
  ir_diag *d =
      fe_fault(p, IR_DIAG_TEST, name->span,
               "there is no generator `%s`; there are rand, randint, sparse, offsets, iota, eye",
               name->text);
  if (nearest) ir_diag_fix(p->sink, d, name->span, nearest, "did you mean `%s`?", nearest);
  return false;
}

static bool parse_generator(fe_parser *p, fe_source *source) {
  fe_name name;
  if (!fe_need_name(p, "a generator, a number or a list", &name)) return false;
  const generator *g = generator_find(name.text);
  if (!g) return unknown_generator(p, &name);
  source->generator = g->name;
  if (fe_take(p, FE_T_LPAREN)) {
    do {
      double value = 0;
      if (!parse_constant(p, &value)) return false;
      if (source->arg_count < IR_COUNT(source->args)) source->args[source->arg_count] = value;
      source->arg_count++;
    } while (fe_take(p, FE_T_COMMA));
    if (!fe_need(p, FE_T_RPAREN, "`,` or `)`")) return false;
  }
  if (source->arg_count == g->args) return true;
  fe_fault(p, IR_DIAG_TEST, fe_span_since(p, name.span), "write `%s`", g->usage);
  return false;
}

static bool parse_source(fe_parser *p, fe_source *source) {
  source->span = fe_token_span(p, fe_peek(p));
  bool written = fe_at(p, FE_T_LBRACKET) || at_constant(p);
  if (!(written ? parse_literal(p, source) : parse_generator(p, source))) return false;
  source->span = fe_span_since(p, source->span);
  return true;
}

/* ---- the block ----------------------------------------------------------------------------- */
static bool parse_set(fe_parser *p, fe_test *test) {
  fe_set set = {0};
  fe_name name;
  if (!fe_need_name(p, "an input, a dim or `expect`", &name) || !fe_need(p, FE_T_ASSIGN, "`=`"))
    return false;
  set.name = name.text;
  set.span = name.span;
  set.is_size = fe_at(p, FE_T_INT);
  if (set.is_size) {
    int at = p->at;
    if (!fe_need_int(p, "a size", &set.size, NULL)) return false;
    p->at = at;
  }
  if (!parse_source(p, &set.source)) return false;
  IR_PUSH(p->arena, &test->sets, set);
  return true;
}

static bool parse_expect(fe_parser *p, fe_test *test) {
  fe_expect expect = {.rtol = 0};
  fe_name name;
  if (!fe_need_name(p, "an output", &name) || !fe_need(p, FE_T_NEAR, "`~=`")) return false;
  expect.name = name.text;
  expect.span = name.span;
  expect.against_ref = fe_take_word(p, FE_W_REF);
  if (!expect.against_ref && !parse_source(p, &expect.source)) return false;
  if (fe_take(p, FE_T_COMMA)) {
    ir_span begin = fe_token_span(p, fe_peek(p));
    if (!fe_need_word(p, FE_W_RTOL) || !fe_need(p, FE_T_ASSIGN, "`=`") ||
        !fe_need_number(p, "a tolerance", &expect.rtol))
      return false;
    if (!isfinite(expect.rtol)) {
      fe_fault(p, IR_DIAG_NUMBER, fe_span_since(p, begin), "a tolerance is a finite number");
      return false;
    }
  }
  IR_PUSH(p->arena, &test->expects, expect);
  return true;
}

static bool parse_line(fe_parser *p, fe_test *test) {
  if (fe_take_word(p, FE_W_EXPECT))
    return parse_expect(p, test) && fe_need_semi(p, "an expectation");
  do {
    if (!parse_set(p, test)) return false;
  } while (fe_take(p, FE_T_COMMA));
  return fe_need_semi(p, "a setting");
}

/* The word `test` has been taken. */
fe_test *fe_parse_test(fe_parser *p) {
  fe_test *test = IR_NEW(p->arena, fe_test);
  fe_name name;
  if (!fe_need_name(p, "the name of a kernel", &name)) return NULL;
  test->kernel = name.text;
  test->span = name.span;
  if (!fe_need(p, FE_T_LBRACE, "`{`")) return NULL;
  while (!fe_at(p, FE_T_RBRACE) && !fe_at(p, FE_T_END)) {
    int begin = p->at;
    if (!parse_line(p, test)) {
      test->broken = true;
      fe_recover(p, true, begin);
    }
    if (fe_at_item(p) && fe_first_on_line(p, fe_peek(p))) break;
  }
  if (!fe_need(p, FE_T_RBRACE, "`}` to close the test")) p->panic = false;
  return test;
}
