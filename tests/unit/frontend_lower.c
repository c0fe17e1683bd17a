/* What statements become: the text of the ein dialect. */
#include "tests/unit/frontend_compile.h"

typedef struct lowered {
  const char *kernel;  /* declarations and statements */
  const char *want[4]; /* lines that the printed program holds */
} lowered;

#define DIMS "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; "

static const lowered cases[] = {
    /* rule 1: each term is summed over what it uses */
    {"in A: f32[N,M]; in x: f32[M]; in b: f32[N]; out y[i] += A[i,j]*x[j] - 2*b[i];",
     {"stmt y[i] = sum[j](A[i, j] * x[j]) - 2.0_f32 * b[i]"}},
    {"in A: f32[N,M]; out y[i] max= A[i,j];", {"stmt y[i] = max[j](A[i, j])"}},
    {"in A: f32[N,M]; in p: i32[N]; out y[p[i]] += A[i,j] : f32[K];",
     {"stmt y[cast[i64](p[i])] += sum[j](A[i, j])", "for i acc f32 race fixed"}},
    {"in x: f32[N]; out y[i+1] = x[i] : f32[N+1];", {"stmt y[i + 1] += x[i]", "race fixed"}},
    /* rule 3 */
    {"in x: bf16[N]; out y[i] = 0.5*x[i];", {"stmt y[i] = 0.5_bf16 * x[i]", "acc f32"}},
    {"in q: i8[N]; in w: i8[N]; out y = sum[i] q[i]*w[i] : i32;",
     {"sum[i](cast[i32](q[i]) * cast[i32](w[i]))", "acc i32"}},
    {"in q: i8[N]; in s: f16[N]; out y[i] = s[i]*q[i];", {"s[i] * cast[f16](q[i])"}},
    {"in q: i8[N]; out y[i] = q[i];", {"stmt y[i] = q[i]\n"}},
    {"in x: f32[N]; in z: f16[N]; out y[i] = x[i] + z[i];",
     {"x[i] + cast[f32](z[i])", "out y : f32[N]"}},
    {"in x: f16[N]; in z: bf16[N]; out y[i] = x[i] + z[i];",
     {"cast[f32](x[i]) + cast[f32](z[i])", "out y : f32[N]"}},
    {"in n: i32[N]; out y[i] = cast[f32](n[i]) + cast[f32](i)*cast[f32](N);",
     {"cast[f32](n[i]) + cast[f32](i) * cast[f32](N)"}},
    {"in x: f32[N]; out y[i] = i + 2 : i64[N]; out z[i] = x[i];",
     {"stmt y[i] = i + 2", "out y : i64[N]"}},
    {"in x: f32[N]; out y[i] = argmax[j] x[j] : i32[M];", {"argmax[j](x[j])", "out y : i32[M]"}},
    {"in x: f32[N]; out y[i] = where(x[i] > 1, x[i], 0);",
     {"where(x[i] > 1.0_f32, x[i], 0.0_f32)"}},
    /* rule 5 */
    {"in x: f32[N]; in g: i8[N]; out y[i] = x[i] on g[i] and not (i < 2) fill 1;",
     {"on g[i] != 0_i8 and not i < 2 fill 1"}},
    /* rule 7, storage */
    {"in S: f32[N,M] as csr; let h[i,j] = 2*S[i,j] as like(S); out y[i,j] = h[i,j]*3 as like(h);",
     {"let h : f32[N, M] as csr like S;", "out y : f32[N, M] as csr like h;"}},
    {"in S: f32[N,M] ~ zeros(dynamic, gran=1x32, axis=M) const; out y[i] += S[i,j];",
     {"in S : f32[N, M] const as dense ~ zeros(dynamic, gran=1x32, axis=1);"}},
    /* rule 12 */
    {"in x: f32[N]; in w: f32[M]; out y[i] = sum[q] w[q]*x[i+q] : f32[K];",
     {"needs x dim 0 from 0 to K - 1 + (M - 1)", "x[i + q]"}},
    {"in x: f32[N]; in w: f32[3]; out y[i] = sum[q] w[q]*x[i+q] : f32[N-2];", {"index i : N - 2;"}},
    {"in q: i8[N,M] as nm(2,4); out y[i] += q[i,j] : i32;", {"needs q dim 1 multiple 4"}},
};

static void lower(const lowered *l) {
  ir_arena *arena = ir_arena_new();
  char *text = ir_format_text(arena, DIMS "kernel k { %s }", l->kernel);
  compiled c = compile(text);
  cr_assert_eq(c.status, SPC_OK, "%s\n%s", text, messages(&c));
  for (int i = 0; i < IR_COUNT(l->want) && l->want[i]; i++)
    cr_expect(strstr(printed(&c), l->want[i]) != NULL, "no `%s` in\n%s", l->want[i], printed(&c));
  done(&c);
  ir_arena_free(arena);
}

Test(frontend_lower, statements) {
  for (int i = 0; i < IR_COUNT(cases); i++) lower(&cases[i]);
}

Test(frontend_lower, ragged) {
  compiled c = compile(
      "spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i32[S+1]; in x: f32[R]; in w: f32[S];"
      " ragged r in off[e]..off[e+1]; out y[r] = x[r]*w[e]; out n[e] = off[e+1] - off[e]; out s[e] "
      "+= x[r]; }");
  cr_assert_eq(c.status, SPC_OK, "%s", messages(&c));
  const char *want[] = {"index e : S;", "index r : R in off[e];",
                        "stmt y[r] = x[r] * w[e]\n    for r", "stmt s[e] = sum[r](x[r])\n    for e",
                        "off[e + 1] - off[e]"};
  for (int i = 0; i < IR_COUNT(want); i++)
    cr_expect(strstr(printed(&c), want[i]) != NULL, "no `%s` in\n%s", want[i], printed(&c));
  done(&c);
}

Test(frontend_lower, spans_lead_back_to_the_text) {
  const char *text = "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = relu(x[i]) + 1; }";
  compiled c = compile(text);
  const ir_stmt *s = c.program->kernels.at[0]->stmts.at[0];
  cr_assert(!strncmp(text + s->value->span.begin, "relu(x[i]) + 1",
                     s->value->span.end - s->value->span.begin));
  cr_assert(!strncmp(text + s->value->args[0]->span.begin, "relu(x[i])",
                     s->value->args[0]->span.end - s->value->args[0]->span.begin));
  cr_assert(!strncmp(text + s->target->span.begin, "y", 1));
  cr_assert(!strncmp(text + s->span.begin, "out y[i]", 8));
  cr_assert(!strncmp(text + c.program->dims.at[0]->span.begin, "N", 1));
  done(&c);
}

Test(frontend_lower, schedules_are_data) {
  compiled c = compile("spx 1; dim N: dyn; kernel k { in x: f32[N,N]; let h[i] = relu(sum[j] "
                       "x[i,j]); out y[i] = h[i]; }"
                       " schedule k for sm_90 { compact h axis=i gran=64x1; tile h i=128 j=64; "
                       "fuse h into y; stages 3; }");
  cr_assert_eq(c.status, SPC_OK, "%s", messages(&c));
  const ir_schedule *s = c.program->schedules.at[0];
  cr_assert_str_eq(s->target, "sm_90");
  cr_assert_eq(s->directives.count, 4);
  cr_assert_eq(s->directives.at[0].gran_rows, 64);
  cr_assert_str_eq(s->directives.at[0].name[0], "i");
  cr_assert_eq(s->directives.at[1].size[1], 64);
  cr_assert_str_eq(s->directives.at[2].into, "y");
  cr_assert_eq(s->directives.at[3].number, 3);
  done(&c);
}

Test(frontend_lower, tests_are_data) {
  const char *text =
      "spx 1; dim N: dyn; kernel k { in x: f32[N,2]; in a: f32[]; out y[i] = a*x[i,0]; }"
      " test k { N=3; x = [[1,2],[3,-4],[5,inf]]; a = 2; expect y ~= ref, rtol=1e-2; expect y ~= "
      "iota; }";
  ir_arena *arena = ir_arena_new();
  fe_file *file = NULL;
  ir_program *program = NULL;
  cr_assert_eq(fe_parse(arena, "t", text, strlen(text), NULL, &file), SPC_OK);
  cr_assert_eq(fe_lower(arena, file, NULL, NULL, &program), SPC_OK);
  cr_assert_eq(fe_test_count(file), 1);
  const fe_test *t = fe_test_at(file, 0);
  cr_assert_str_eq(t->kernel, "k");
  cr_assert(t->sets.at[0].is_size && t->sets.at[0].size == 3);
  cr_assert(!t->sets.at[2].is_size && t->sets.at[2].source.literal[0] == 2);
  cr_assert_eq(t->sets.at[1].source.literal_rank, 2);
  cr_assert_eq(t->sets.at[1].source.literal_dim[0], 3);
  cr_assert_eq(t->sets.at[1].source.literal[3], -4);
  cr_assert(t->expects.at[0].against_ref && t->expects.at[0].rtol == 1e-2);
  cr_assert_str_eq(t->expects.at[1].source.generator, "iota");
  ir_arena_free(arena);
}

/* ---- rows ---------------------------------------------------------------------------------------- */
typedef struct by_rows {
  const char *body, *dim; /* NULL: nothing */
} by_rows;

static const by_rows row_cases[] = {
    {"out y[t,o] = sum[d] x[t,d]*W[d,o];", "T"},
    {"let h[t,o] = relu(sum[d] x[t,d]*W[d,o]); out y[t,d] = sum[o] h[t,o]*W[d,o]; out q[t] = max[o] h[t,o];", "T"},
    {"let s[d] = sum[o] W[d,o]; out y[t,d] = x[t,d]*s[d];", "T"},
    {"out y[t,d] = softmax[d](x[t,d]) on x[t,d] > v[t];", "T"},
    {"out y[t,o] = sum[d] x[t,d]*W[d,o]; out s[d] = max[t] x[t,d];", NULL}, /* a result without rows */
    {"let s[d] = sum[t] x[t,d]; out y[t,d] = x[t,d]*s[d];", NULL},          /* rows summed */
    {"out y[d,t] = x[t,d];", NULL},                                        /* not the first dimension */
    {"out y[t,d] = x[t,d]/cast[f32](T);", NULL},                                      /* their number */
    {"out y[t,d] = x[t,d] on d <= t;", NULL},                              /* a row's number */
    {"out y[t,d] = softmax[t](x[t,d]);", NULL},
    {"out y[t,r] = sum[d] x[t,d]*z[r,d];", NULL}, /* one row and all rows */
    {"out y[t,d] = x[p[t],d];", NULL},            /* other rows */
    {"out y[p[t],d] += x[t,d] : f32[T,D];", NULL},
    {"in w: f32[T+1]; out y[t,d] = x[t,d]; out q[t] = v[t] + w[t+1];", NULL}, /* a dimension of T+1 */
    {"out y[t,d] = x[t,d] : f32[T,D] as csr ~ zeros(dynamic);", NULL},
    {"out y[t,d] = x[t,d] : f32[T,D] as dense_t;", NULL},
    {"in c: f32[T,D] const; out y[t,o] = sum[d] c[t,d]*W[d,o];", NULL}, /* const rows are packed whole */
    {"out y[d,o] = W[d,o];", NULL}, /* x has columns of that size */
};

Test(frontend_lower, the_size_along_which_rows_do_not_depend_on_each_other) {
  for (size_t i = 0; i < sizeof row_cases / sizeof *row_cases; i++) {
    char text[1000];
    const by_rows *k = &row_cases[i];
    snprintf(text, sizeof text, "spx 1; dim T: dyn; dim D: dyn; dim O: dyn; kernel k { in x: f32[T,D]; in z: f32[T,D]; in W: f32[D,O]; in v: f32[T]; "
             "in p: i32[T]; %s }", k->body);
    compiled c = compile(text);
    cr_assert(c.program, "%s\n%s", k->body, messages(&c));
    const ir_dim *dim = ir_chunk_dim(c.program->kernels.at[0]);
    cr_expect(!dim == !k->dim && (!dim || !strcmp(dim->name, k->dim)), "%s: %s", k->body, dim ? dim->name : "none");
    done(&c);
  }
}
