/* The capacity contract: what results need is known before, and without room nothing is written. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/unit/driver_open.h"

enum { N = 24, M = 17, MOST = 4000, FILL = 0x5a };

static const char *backends[] = {"interp", "cpu"};
static int backend_count(void) { return cg_cpu_available() ? 2 : 1; }

typedef struct scene {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
} scene;

static scene scene_of(const char *backend, const char *text) {
  scene s;
  s.plan = open_plan(backend, 2, text, NULL, &s.context, &s.program);
  return s;
}

static void scene_free(scene *s) {
  close_plan(s->plan, s->program, s->context);
}

/* ---- arrays ---------------------------------------------------------------------------------- */
typedef struct arrays {
  int32_t pos[4][MOST], crd[4][MOST];
  float values[MOST];
} arrays;

static spc_tensor tensor(const char *name, int rank, int64_t rows, int64_t columns) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = rank};
  t.shape[0] = rows;
  t.shape[1] = columns;
  return t;
}

static spc_tensor csr(const char *name, arrays *a, unsigned seed) {
  spc_tensor t = tensor(name, 2, N, M);
  int32_t count = 0;
  for (int i = 0; i < N; i++) {
    a->pos[1][i] = count;
    for (int j = 0; j < M; j++) {
      seed = seed * 1664525u + 1013904223u;
      if (seed >> 30 || i % 5 == 2) continue;
      a->crd[1][count] = j;
      a->values[count++] = (float)(seed >> 24 & 7) + 1;
    }
  }
  a->pos[1][N] = count;
  t.pos[1] = a->pos[1];
  t.crd[1] = a->crd[1];
  t.values = a->values;
  t.pos_count[1] = N + 1;
  t.crd_count[1] = t.value_count = count;
  return t;
}

/* Room for anything; every byte of it is known. */
static spc_tensor roomy(const char *name, arrays *a, int64_t rows, int64_t columns) {
  spc_tensor t = tensor(name, 2, rows, columns);
  memset(a, FILL, sizeof *a);
  for (int l = 0; l < 4; l++) {
    t.pos[l] = a->pos[l];
    t.crd[l] = a->crd[l];
    t.pos_count[l] = t.crd_count[l] = MOST;
  }
  t.values = a->values;
  t.value_count = MOST;
  return t;
}

static bool untouched(const arrays *a) {
  const unsigned char *bytes = (const unsigned char *)a;
  for (size_t i = 0; i < sizeof *a; i++)
    if (bytes[i] != FILL) return false;
  return true;
}

static bool same_counts(const spc_tensor *a, const spc_tensor *b, int levels) {
  bool same = a->value_count == b->value_count && a->rank == b->rank && a->shape[0] == b->shape[0];
  for (int l = 0; l < levels; l++)
    same = same && a->pos_count[l] == b->pos_count[l] && a->crd_count[l] == b->crd_count[l];
  return same;
}

/* ---- counting -------------------------------------------------------------------------------- */
#define HEAD                                                                                       \
  "spx 1; dim N: dyn; dim M: dyn; kernel k { in A: f32[N,M] as csr; in B: f32[N,M] as csr; "
static const struct {
  const char *text;
  int64_t rows, columns;
} counted[] = {
    {HEAD "out C[i,j] = A[i,j] + B[i,j] as csr; }", N, M},
    {HEAD "out C[i,j] = A[i,j] * B[i,j] as csr; }", N, M},
    {HEAD "out C[i,j] = A[i,j] + B[i,j] as csc; }", N, M},
    {HEAD "out C[i,j] = A[i,j] + B[i,j] as coo; }", N, M},
    {HEAD "out C[i,j] = A[i,j] + B[i,j] as dcsr; }", N, M},
    {HEAD "out C[i,k] = sum[j] A[i,j] * B[k,j] as csr; }", N, N},
    {HEAD "let S[i,j] = A[i,j] + B[i,j] as csr; out C[i,j] = S[i,j] * B[i,j] as csr; }", N, M},
    {HEAD "out C[i,j] = A[i,j] + B[i,j] as csr; out y[i] = sum[j] C[i,j]; }", N, M},
    {HEAD "let d[i,j] = A[i,j] + B[i,j] as dense; out C[i,j] = d[i,j] * A[i,j] as csr; "
          "out y[i] = sum[j] d[i,j]; }",
     N, M},
};

Test(driver_capacity, counts_are_those_of_the_run) {
  static arrays a, b, c, untold;
  float y[N];
  for (int e = 0; e < backend_count(); e++)
    for (size_t k = 0; k < sizeof counted / sizeof *counted; k++) {
      scene s = scene_of(backends[e], counted[k].text);
      spc_error err = SPC_ERROR_INIT;
      int64_t rows = counted[k].rows, columns = counted[k].columns;
      spc_tensor t[4] = {csr("A", &a, 1), csr("B", &b, 2), roomy("C", &c, rows, columns),
                         tensor("y", 1, N, 0)};
      spc_tensor asked[3] = {t[0], t[1], roomy("C", &untold, 0, 0)};
      int count = spc_plan_tensor_count(s.plan);
      t[3].values = y;
      t[3].value_count = N;
      cr_assert_eq(spc_count(s.plan, asked, 3, &err), SPC_OK, "%s: %s\n%s", counted[k].text,
                   err.message, err.diagnostics);
      cr_assert_eq(spc_run(s.plan, t, count, &err), SPC_OK, "%s\n%s", err.message, err.diagnostics);
      cr_expect(same_counts(&asked[2], &t[2], 4), "%s on %s: %lld, %lld", counted[k].text,
                backends[e], (long long)asked[2].value_count, (long long)t[2].value_count);
      cr_expect(t[2].value_count > 3, "%s: %lld", counted[k].text, (long long)t[2].value_count);
      cr_expect(untouched(&untold), "counting writes nothing");
      cr_assert_eq(spc_count(s.plan, asked, 2, &err), SPC_OK, "outputs may be left out");
      scene_free(&s);
    }
}

/* ---- all or nothing -------------------------------------------------------------------------- */
static const char several[] = HEAD "out C[i,j] = A[i,j] + B[i,j] as csr; out y[i] = sum[j] A[i,j]; "
                                   "out V[i,j] = 2 * A[i,j] as like(A); }";

Test(driver_capacity, without_room_for_one_nothing_is_written) {
  static arrays a, b, c, y, v, counts;
  for (int e = 0; e < backend_count(); e++) {
    scene s = scene_of(backends[e], several);
    spc_error err = SPC_ERROR_INIT;
    spc_tensor good[5] = {csr("A", &a, 1), csr("B", &b, 2), roomy("C", &c, N, M),
                          roomy("y", &y, N, 0), roomy("V", &v, N, M)};
    good[3].rank = 1;
    spc_tensor asked[3] = {good[0], good[1], roomy("C", &counts, 0, 0)};
    cr_assert_eq(spc_count(s.plan, asked, 3, &err), SPC_OK);
    int64_t need[6] = {N + 1, asked[2].crd_count[1], asked[2].value_count, N, a.pos[1][N]};
    for (int spoilt = 0; spoilt < 5; spoilt++) {
      spc_tensor t[5];
      memcpy(t, good, sizeof t);
      int64_t *room = spoilt == 0   ? &t[2].pos_count[1]
                      : spoilt == 1 ? &t[2].crd_count[1]
                      : spoilt == 2 ? &t[2].value_count
                      : spoilt == 3 ? &t[3].value_count
                                    : &t[4].value_count;
      *room = need[spoilt] - 1;
      cr_expect_eq(spc_run(s.plan, t, 5, &err), SPC_CAPACITY, "%d", spoilt);
      cr_expect(strstr(err.message, spoilt < 3    ? "`C`"
                                    : spoilt == 3 ? "`y`"
                                                  : "`V`"),
                "%s", err.message);
      cr_expect_eq(*room, need[spoilt], "%d: what is needed", spoilt);
      cr_expect(untouched(&c) && untouched(&y) && untouched(&v), "%s, %d", backends[e], spoilt);
    }
    spc_tensor t[5];
    memcpy(t, good, sizeof t);
    t[2].value_count = 0;
    cr_expect_eq(spc_run(s.plan, t, 3, &err), SPC_INVALID_ARGUMENT, "missing comes before room");
    cr_expect(strstr(err.message, "`y` is missing"), "%s", err.message);
    cr_expect_eq(t[2].value_count, 0, "and before anything is computed");
    t[3].value_count = t[4].value_count = 1;
    cr_expect_eq(spc_run(s.plan, t, 5, &err), SPC_CAPACITY);
    cr_expect(t[3].value_count == N && t[4].value_count == a.pos[1][N] && t[2].value_count == 0,
              "shapes tell these, nothing was computed");
    cr_expect(untouched(&c) && untouched(&y) && untouched(&v));
    cr_expect_eq(spc_run(s.plan, good, 5, &err), SPC_OK, "%s", err.message);
    cr_expect(!untouched(&c) && !untouched(&y) && !untouched(&v));
    scene_free(&s);
  }
}
