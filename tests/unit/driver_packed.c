/* What const inputs give is made once: runs that are handed it do the rest, with the same results. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "tests/unit/driver_open.h"

enum { ALIGN = 256, MOST = 100 };

/* Lists of a weight's zeros, with their guard; what is left is a product. */
static const char lists[] =
    "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in x: f32[K,T]; in W: f32[N,K] ~ "
    "zeros(static, density=0.05, gran=4x1) const; out y[n,t] = sum[k] W[n,k]*x[k,t]; }";

/* Two reductions of a weight, one through the other; a third statement that knows x. */
static const char sums[] =
    "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in x: f32[T,K]; in W: f32[K,N] const;"
    " let m[k] = max[n] W[k,n]; let s = sum[k] m[k]*m[k]; let l[t] = sum[k] x[t,k]*m[k];"
    " out y[t,n] = sum[k] x[t,k]*W[k,n]*m[k] + s*l[t]; }";

/* The operand that rows of zeros meet, packed over strips of 64 columns. */
static const char strips[] =
    "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in x: f32[T,K] ~ zeros(dynamic, "
    "density=0.05); in W: f32[K,N] const; out y[t,n] = sum[k] x[t,k]*W[k,n]; }"
    " schedule k { tile y t=1 n=64; }";

typedef struct layer {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  bool turned;     /* x[k,t], W[n,k], y[n,t] */
  bool sparse;     /* most of x is zero */
  spc_tensor t[4]; /* x, W, y, and what was packed */
  float x[MOST * MOST], w[MOST * MOST], y[MOST * MOST], want[MOST * MOST];
  void *packed, *workspace;
  size_t bytes, room;
  spc_error err;
  uint64_t random;
} layer;

static float uniform(layer *l) {
  l->random = l->random * 6364136223846793005u + 1442695040888963407u;
  return (float)(l->random >> 40) / (float)(1 << 24) - 0.5f;
}

static void shape(layer *l, int64_t t, int64_t k, int64_t n) {
  static const char *const names[] = {"x", "W", "y"};
  float *values[] = {l->x, l->w, l->y};
  int64_t sizes[][2] = {{t, k}, {k, n}, {t, n}};
  for (int i = 0; l->turned && i < 3; i++) {
    int64_t rows = sizes[i][0];
    sizes[i][0] = sizes[i][1];
    sizes[i][1] = rows;
  }
  for (int i = 0; i < 3; i++) {
    spc_tensor one = {.struct_size = sizeof one, .name = names[i], .dtype = "f32", .rank = 2};
    memcpy(one.shape, sizes[i], sizeof sizes[i]);
    one.values = values[i];
    one.value_count = sizes[i][0] * sizes[i][1];
    l->t[i] = one;
  }
}

/* In blocks of four rows and a column. */
static void draw_weight(layer *l, double kept) {
  int64_t rows = l->t[1].shape[0], columns = l->t[1].shape[1];
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i += 4) {
      bool live = uniform(l) + 0.5 < kept;
      for (int64_t r = i; r < i + 4 && r < rows; r++)
        l->w[r * columns + j] = live ? uniform(l) : 0;
    }
}

static layer *open_layer(const char *text, int64_t k, int64_t n) {
  layer *l = calloc(1, sizeof *l);
  l->err = (spc_error)SPC_ERROR_INIT;
  l->random = 5;
  l->turned = text == lists;
  l->sparse = text == strips;
  spc_program_options options = {.struct_size = sizeof options, .packed = l->sparse};
  l->plan = open_plan("cpu", 2, text, &options, &l->context, &l->program);
  cr_assert_eq(spc_plan_prepare(l->plan, &l->err), SPC_OK, "%s", l->err.message);
  shape(l, 33, k, n);
  draw_weight(l, 0.1);
  return l;
}

static void close_layer(layer *l) {
  free(l->packed);
  free(l->workspace);
  close_plan(l->plan, l->program, l->context);
  free(l);
}

static void pack(layer *l) {
  cr_assert_eq(spc_plan_pack(l->plan, l->t, 3, NULL, &l->bytes, NULL, &l->err), SPC_OK, "%s",
               l->err.message);
  cr_assert(l->bytes > 0, "there is something to keep");
  free(l->packed);
  l->packed = aligned_alloc(ALIGN, l->bytes);
  memset(l->packed, 0xff, l->bytes);
  size_t bytes = l->bytes;
  cr_assert_eq(spc_plan_pack(l->plan, l->t, 3, l->packed, &bytes, NULL, &l->err), SPC_OK, "%s",
               l->err.message);
  cr_assert_eq(bytes, l->bytes);
  l->t[3] = spc_packed(l->packed, l->bytes);
}

/* Runs into y, with a poisoned workspace; returns its bytes. */
static size_t enqueue(layer *l, int count) {
  size_t need;
  cr_assert_eq(spc_workspace(l->plan, l->t, count, &need, &l->err), SPC_OK, "%s", l->err.message);
  free(l->workspace);
  l->workspace = aligned_alloc(ALIGN, need + ALIGN);
  memset(l->workspace, 0xff, need + ALIGN);
  memset(l->y, 0xff, sizeof l->y);
  cr_assert_eq(spc_enqueue(l->plan, l->t, count, l->workspace, need, NULL, &l->err), SPC_OK, "%s",
               l->err.message);
  return need;
}

static void same_with_what_was_packed(layer *l) {
  size_t bytes = sizeof(float) * (size_t)l->t[2].value_count;
  for (int64_t i = 0; i < l->t[0].value_count; i++)
    l->x[i] = l->sparse && i % 17 ? 0 : uniform(l);
  size_t whole = enqueue(l, 3);
  memcpy(l->want, l->y, bytes);
  size_t rest = enqueue(l, 4);
  cr_expect(!memcmp(l->want, l->y, bytes), "%g, not %g", (double)l->y[0], (double)l->want[0]);
  cr_expect(rest < whole, "the workspace is smaller: %zu, %zu", rest, whole);
}

static void packs(const char *text) {
  layer *l = open_layer(text, 64, 40);
  pack(l);
  static const int64_t rows[] = {33, 1, 100, 0, 33};
  for (int i = 0; i < 5; i++) { /* other sizes of what is not const */
    shape(l, rows[i], 64, 40);
    l->t[3] = spc_packed(l->packed, l->bytes);
    same_with_what_was_packed(l);
  }
  for (int i = 0; i < 3; i++) { /* other weights, other sizes of them */
    shape(l, 7, 20 + 30 * i, 77 - 20 * i);
    draw_weight(l, 0.45 * i);
    pack(l);
    same_with_what_was_packed(l);
  }
  close_layer(l);
}

Test(driver_packed, lists_of_a_weight) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  packs(lists);
}

Test(driver_packed, sums_of_a_weight) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  packs(sums);
}

Test(driver_packed, strips_of_a_weight) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  packs(strips);
}

/* Were the lists made in each run, they would know of the new weights. */
Test(driver_packed, is_made_once) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  layer *l = open_layer(lists, 8, 8);
  memset(l->w, 0, sizeof l->w);
  for (int i = 0; i < MOST * MOST; i++) l->x[i] = 1;
  l->w[0] = 1; /* the first micro-tile alone */
  pack(l);
  l->w[4] = 2;
  enqueue(l, 4);
  cr_expect_eq(l->y[0], 1, "the list that was kept: %g", (double)l->y[0]);
  pack(l);
  enqueue(l, 4);
  cr_expect_eq(l->y[0], 3, "packed again: %g", (double)l->y[0]);
  int once = 0, launches = 0;
  spc_launch_info info = {.struct_size = sizeof info};
  while (!spc_plan_launch(l->plan, launches, &info, &l->err)) once += info.once, launches++;
  cr_expect(once >= 2 && once < launches, "%d of %d launches", once, launches);
  close_layer(l);
}

Test(driver_packed, only_what_is_const) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  static const char *const texts[] = {
      "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in x: f32[T,K]; in W: f32[K,N];"
      " let m[k] = max[n] W[k,n]; out y[t,n] = sum[k] x[t,k]*W[k,n]*m[k]; }",
      "spx 1; dim T: dyn; dim K: dyn; dim N: dyn; kernel k { in x: f32[T,K]; in W: f32[K,N] const;"
      " let m[t] = max[k] x[t,k]; out y[t,n] = sum[k] x[t,k]*W[k,n]*m[t]; }"};
  for (int i = 0; i < 2; i++) {
    layer *l = open_layer(texts[i], 8, 8);
    size_t bytes = 1;
    cr_assert_eq(spc_plan_pack(l->plan, l->t, 3, NULL, &bytes, NULL, &l->err), SPC_OK, "%s",
                 l->err.message);
    cr_expect_eq(bytes, 0);
    l->t[3] = spc_packed(NULL, 0);
    enqueue(l, 4);
    close_layer(l);
  }
}

Test(driver_packed, says_what_is_wrong) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  layer *l = open_layer(lists, 64, 40);
  pack(l);
  enqueue(l, 4);
  size_t less = l->bytes - 1;
  cr_expect_eq(spc_plan_pack(l->plan, l->t, 3, l->packed, &less, NULL, &l->err), SPC_CAPACITY);
  cr_expect(strstr(l->err.message, "`packed`"), "%s", l->err.message);
  cr_expect_eq(less, l->bytes, "says how much");
  l->t[3].value_count--;
  cr_expect_eq(spc_enqueue(l->plan, l->t, 4, l->workspace, 1 << 20, NULL, &l->err), SPC_CAPACITY);
  cr_expect(strstr(l->err.message, "(packed)"), "%s", l->err.message);
  l->t[3] = spc_packed((char *)l->packed + 8, l->bytes);
  cr_expect_eq(spc_workspace(l->plan, l->t, 4, &less, &l->err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(l->err.message, "256"), "%s", l->err.message);
  l->t[1].values = NULL; /* its values are read, those of x are not */
  cr_expect_eq(spc_plan_pack(l->plan, l->t, 3, l->packed, &l->bytes, NULL, &l->err),
               SPC_INVALID_ARGUMENT);
  cr_expect(strstr(l->err.message, "`W`"), "%s", l->err.message);
  l->t[1].values = l->w;
  l->t[0].values = l->t[2].values = NULL;
  cr_expect_eq(spc_plan_pack(l->plan, l->t, 3, l->packed, &l->bytes, NULL, &l->err), SPC_OK, "%s",
               l->err.message);
  close_layer(l);
}

Test(driver_packed, is_assumed_where_it_was_asked_for) {
  static const char *const backends[] = {"interp", "cpu"};
  for (int b = 0; b < (cg_cpu_available() ? 2 : 1); b++)
    for (int packed = 0; packed < 2; packed++) {
      spc_context *context;
      spc_program *program;
      spc_plan_info info = {.struct_size = sizeof info};
      spc_program_options options = {.struct_size = sizeof options, .packed = packed};
      spc_plan *plan = open_plan(backends[b], 1, sums, &options, &context, &program);
      cr_assert_eq(spc_plan_describe(plan, &info, NULL), SPC_OK);
      cr_expect_eq(info.packed, packed);
      options.struct_size = offsetof(spc_program_options, packed); /* a caller of an older header packs nothing */
      close_plan(plan, program, context);
      plan = open_plan(backends[b], 1, sums, &options, &context, &program);
      cr_assert_eq(spc_plan_describe(plan, &info, NULL), SPC_OK);
      cr_expect_eq(info.packed, 0);
      close_plan(plan, program, context);
    }
}
