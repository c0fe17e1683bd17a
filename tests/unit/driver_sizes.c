/* One text compiled for several sizes of a dynamic dim: which code runs, what it takes, and that nothing is compiled later. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/api.h"
#include "tests/unit/driver_open.h"

enum { ALIGN = 256, D = 24, H = 96, MOST = 700 };

/* A matrix of H columns lies between the stages, with a list of what is zero; a weight's sums are made once. */
static const char layer_text[] =
    "spx 1; dim T: dyn <= 100000; dim D: dyn; dim H: dyn; dim N = 3; kernel k { in x: f32[T,D]; in G: f32[D,H] const; in V: f32[H,D] const;"
    " let s[h] = max[d] G[d,h]; let g[t,h] = relu(sum[d] x[t,d]*G[d,h] - 1) ~ zeros(dynamic, density=0.05);"
    " out y[t,o] = sum[h] g[t,h]*s[h]*V[h,o] : f32[T,D]; }";
static const spc_size usual[] = {{"T", 512}, {"T", 1}, {"T", 64}, {"T", 64}}; /* in any order; one said twice */

typedef struct layer {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[5];
  int count;
  float x[MOST * D], w[2][D * H], y[MOST * D];
  void *packed;
  spc_error err;
} layer;

static void shape(layer *l, int64_t rows) {
  l->t[0] = f32_matrix("x", l->x, rows, D);
  l->t[1] = f32_matrix("G", l->w[0], D, H);
  l->t[2] = f32_matrix("V", l->w[1], H, D);
  l->t[3] = f32_matrix("y", l->y, rows, D);
  l->count = 4;
}

static layer *open_layer(const char *backend, const spc_program_options *given) {
  layer *l = calloc(1, sizeof *l);
  uint64_t state = 11;
  spc_program_options options = *given;
  options.struct_size = sizeof options;
  l->err = (spc_error)SPC_ERROR_INIT;
  l->plan = open_plan(backend, 2, layer_text, &options, &l->context, &l->program);
  float *all[] = {l->x, l->w[0], l->w[1]};
  const int counts[] = {MOST * D, D * H, D * H};
  for (int a = 0; a < 3; a++)
    for (int i = 0; i < counts[a]; i++) state = state * 6364136223846793005u + 1442695040888963407u, all[a][i] = (float)(state >> 40) / (float)(1 << 23) - 1;
  shape(l, MOST);
  return l;
}

static layer *open_sized(const char *backend) { return open_layer(backend, &(spc_program_options){.usual = usual, .usual_count = 4}); }

static void close_layer(layer *l) {
  free(l->packed);
  close_plan(l->plan, l->program, l->context);
  free(l);
}

static void must(const layer *l, spc_status status) { cr_assert_eq(status, SPC_OK, "%s", l->err.message); }

static size_t workspace(layer *l) {
  size_t bytes = 0;
  must(l, spc_workspace(l->plan, l->t, l->count, &bytes, &l->err));
  return bytes;
}

static void enqueue(layer *l, size_t bytes) {
  char *room = aligned_alloc(ALIGN, bytes + ALIGN);
  memset(room, 0xff, bytes + ALIGN);
  memset(l->y, 0xff, sizeof l->y);
  must(l, spc_enqueue(l->plan, l->t, l->count, room, bytes, NULL, &l->err));
  for (size_t i = bytes; i < bytes + ALIGN; i++) cr_assert_eq((unsigned char)room[i], 0xff, "byte %zu behind the workspace", i - bytes);
  free(room);
}

static void compare(const layer *want, const layer *got, int64_t rows) {
  for (int i = 0; i < rows * D; i++) cr_assert(fabsf(want->y[i] - got->y[i]) <= 1e-4f * (1 + fabsf(want->y[i])), "%d rows: y[%d] %g, not %g", (int)rows, i, (double)got->y[i], (double)want->y[i]);
}

static int taken(const layer *l) { return drv_plan_last(l->plan)->sized_at; }

/* Nearest by ratio; the bounds are 8 and 181.02. */
static const struct { int64_t rows; int code; } runs[] = {{MOST, 2}, {0, 0}, {1, 0}, {7, 0}, {8, 1}, {64, 1}, {181, 1}, {182, 2}, {512, 2}, {3, 0}, {100, 1}};

static void runs_the_nearest(bool packs) {
  layer *plain = open_layer("cpu", &(spc_program_options){.packed = packs}), *sized = open_layer("cpu", &(spc_program_options){.packed = packs, .usual = usual, .usual_count = 4});
  must(plain, spc_plan_prepare(plain->plan, &plain->err));
  must(sized, spc_plan_prepare(sized->plan, &sized->err));
  const size_t most = workspace(sized);
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    shape(plain, runs[i].rows), shape(sized, runs[i].rows);
    if (packs) {
      size_t bytes = 0;
      must(sized, spc_plan_pack(sized->plan, sized->t, 4, NULL, &bytes, NULL, &sized->err));
      cr_assert(bytes > 0 && bytes % (3 * ALIGN) == 0, "%zu", bytes);
      sized->packed = aligned_alloc(ALIGN, bytes);
      must(sized, spc_plan_pack(sized->plan, sized->t, 4, sized->packed, &bytes, NULL, &sized->err));
      sized->t[sized->count++] = spc_packed(sized->packed, bytes);
    }
    enqueue(plain, workspace(plain));
    size_t need = workspace(sized);
    cr_expect(need <= most, "%d rows take %zu, the most %zu", (int)runs[i].rows, need, most);
    enqueue(sized, need);
    cr_expect_eq(taken(sized), runs[i].code, "%d rows", (int)runs[i].rows);
    compare(plain, sized, runs[i].rows);
    enqueue(sized, most);
    if (packs) free(sized->packed), sized->packed = NULL;
  }
  close_layer(plain), close_layer(sized);
}
Test(driver_sizes, the_nearest_runs) { runs_the_nearest(false); }
Test(driver_sizes, with_what_was_packed) { runs_the_nearest(true); }

Test(driver_sizes, copying_runs_and_a_kept_workspace) {
  layer *plain = open_layer("cpu", &(spc_program_options){0}), *sized = open_sized("cpu");
  must(sized, spc_plan_prepare(sized->plan, &sized->err));
  must(sized, spc_plan_reserve(sized->plan, sized->t, sized->count, &sized->err));
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
    shape(plain, runs[i].rows), shape(sized, runs[i].rows);
    must(plain, spc_run(plain->plan, plain->t, plain->count, &plain->err));
    must(sized, spc_run(sized->plan, sized->t, sized->count, &sized->err));
    cr_expect_eq(taken(sized), runs[i].code, "%d rows", (int)runs[i].rows);
    compare(plain, sized, runs[i].rows);
    memset(sized->y, 0xff, sizeof sized->y);
    must(sized, spc_enqueue(sized->plan, sized->t, sized->count, NULL, 0, NULL, &sized->err));
    compare(plain, sized, runs[i].rows);
  }
  shape(sized, 1);
  must(sized, spc_run(sized->plan, sized->t, sized->count, &sized->err));
  spc_plan_info info = {.struct_size = sizeof info};
  must(sized, spc_plan_describe(sized->plan, &info, &sized->err));
  cr_expect(info.reserved_bytes > 0 && info.prepared && info.usual == 1, "%zu, %d", info.reserved_bytes, (int)info.usual);
  close_layer(plain), close_layer(sized);
}

/* ---- what is compiled ------------------------------------------------------------------------ */
static void count_compiles(void *user, const char *phase, const char *name, int begins) {
  (void)name;
  *(int *)user += begins && !strcmp(phase, "compile");
}

Test(driver_sizes, no_size_compiles_anything_later) {
  spc_error err = SPC_ERROR_INIT;
  int compiles = 0;
  spc_context *context;
  spc_program *program;
  spc_context_options here = {.struct_size = sizeof here, .backend = "cpu", .threads = 1, .trace = count_compiles, .user = &compiles};
  spc_program_options options = {.struct_size = sizeof options, .usual = usual, .usual_count = 4};
  layer *l = calloc(1, sizeof *l);
  l->err = err;
  if (spc_context_new(&here, &context, &err) == SPC_UNAVAILABLE) cr_skip_test("%s", err.message);
  cr_assert_eq(spc_program_from_text(context, layer_text, strlen(layer_text), &options, &program, &err), SPC_OK, "%s", err.message);
  cr_expect_eq(compiles, 3, "%d", compiles);
  cr_assert_eq(spc_plan_new(program, NULL, NULL, 0, &l->plan, &err), SPC_OK, "%s", err.message);
  must(l, spc_plan_prepare(l->plan, &l->err));
  for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) shape(l, runs[i].rows), enqueue(l, workspace(l));
  cr_expect_eq(compiles, 3, "%d", compiles);
  close_plan(l->plan, program, context);
  free(l);
}

static int codes_of(const char *backend, const spc_program_options *options) {
  layer *l = open_layer(backend, options);
  int codes = l->plan->sized_count;
  must(l, spc_run(l->plan, l->t, l->count, &l->err));
  close_layer(l);
  return codes;
}

Test(driver_sizes, one_code) {
  const spc_program_options one = {.usual = usual, .usual_count = 1}, alike = {.usual = usual, .usual_count = 4, .batch_invariant = 1}, all = {.usual = usual, .usual_count = 4};
  cr_expect_eq(codes_of("cpu", &one), 0);
  cr_expect_eq(codes_of("cpu", &alike), 0, "a row's bits must not depend on how many there are");
  cr_expect_eq(codes_of("interp", &all), 0);
  cr_expect_eq(codes_of("cpu", &all), 3);
}

/* A job keeps copies: what it was given may be gone. */
Test(driver_sizes, compiled_in_the_background) {
  layer *l = open_layer("cpu", &(spc_program_options){0});
  char name[] = "T";
  spc_size sizes[] = {{name, 16}, {name, 256}};
  spc_program_options options = {.struct_size = sizeof options, .usual = sizes, .usual_count = 2};
  spc_source source = {layer_text, strlen(layer_text), &options};
  spc_job *job;
  spc_program *made;
  spc_plan *plan;
  must(l, spc_program_begin(l->context, &source, 1, &job, &l->err));
  name[0] = 'Q', sizes[0].value = sizes[1].value = -1;
  cr_assert(spc_job_wait(job, -1));
  must(l, spc_job_take(job, &made, &l->err));
  must(l, spc_plan_new(made, NULL, NULL, 0, &plan, &l->err));
  cr_expect_eq(plan->sized_count, 2);
  shape(l, 20);
  must(l, spc_run(plan, l->t, l->count, &l->err));
  cr_expect_eq(drv_plan_last(plan)->sized_at, 0);
  spc_plan_free(plan);
  spc_program_free(made);
  spc_job_free(job);
  close_layer(l);
}

/* Where the plan has the size no tensor is asked; where nobody shows it the largest runs. */
Test(driver_sizes, who_says_the_size) {
  static const char text[] = "spx 1; dim T: dyn; kernel k { in x: f32[2*T]; out y[i] = x[i] : f32[2*T]; }";
  float x[40] = {0}, y[40];
  spc_error err = SPC_ERROR_INIT;
  spc_context *context;
  spc_program *program;
  const spc_size sizes[] = {{"T", 4}, {"T", 4000}}, given = {"T", 20};
  spc_program_options options = {.struct_size = sizeof options, .usual = sizes, .usual_count = 2};
  spc_tensor t[] = {{.struct_size = sizeof *t, .name = "x", .dtype = "f32", .rank = 1, .shape = {40}, .values = x, .value_count = 40},
                    {.struct_size = sizeof *t, .name = "y", .dtype = "f32", .rank = 1, .shape = {40}, .values = y, .value_count = 40}};
  spc_plan *untold = open_plan("cpu", 1, text, &options, &context, &program), *told;
  cr_assert_eq(spc_plan_new(program, NULL, &given, 1, &told, &err), SPC_OK, "%s", err.message);
  cr_expect_eq(spc_run(told, t, 2, &err), SPC_OK, "%s", err.message);
  cr_expect_eq(drv_plan_last(told)->sized_at, 0);
  (void)spc_run(untold, t, 2, &err); /* solves T from 2*T, or does not: with the code for many either way */
  cr_expect_eq(drv_plan_last(untold)->sized_at, 1);
  spc_plan_free(told);
  close_plan(untold, program, context);
}

/* ---- what is refused --------------------------------------------------------------------------- */
Test(driver_sizes, what_is_no_usual_size) {
  static const spc_size unknown[] = {{"Q", 1}}, fixed[] = {{"N", 1}}, two[] = {{"T", 1}, {"D", 2}}, none[] = {{"T", 0}}, nameless[] = {{NULL, 1}}, more[] = {{"T", 100001}}, many[9] = {{"T", 1}};
  const struct { spc_program_options options; const char *says; } cases[] = {
      {{.usual = unknown, .usual_count = 1}, "`Q` names no dim"},
      {{.usual = fixed, .usual_count = 1}, "`N` is fixed"},
      {{.usual = two, .usual_count = 2}, "`usual[1]` is of another dim"},
      {{.usual = none, .usual_count = 1}, "`T` = 0 is no size"},
      {{.usual = nameless, .usual_count = 1}, "`usual[0]` has no name"},
      {{.usual = more, .usual_count = 1}, "`T` = 100001 is more than its bound, 100000"},
      {{.usual = many, .usual_count = 9}, "8 are the most"},
      {{.usual = usual, .usual_count = -1}, "`usual_count` is not valid"},
      {{.usual_count = 1}, "`usual` is not valid"},
      {{.usual = usual, .usual_count = 4, .tiered = 1}, "`tiered` do not go together"},
  };
  const char *const backends[] = {"interp", "cpu"};
  for (int b = 0; b < 2; b++)
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
      spc_error err = SPC_ERROR_INIT;
      spc_context *context;
      spc_program *program = NULL;
      spc_program_options options = cases[i].options;
      spc_context_options here = {.struct_size = sizeof here, .backend = backends[b]};
      options.struct_size = sizeof options;
      if (spc_context_new(&here, &context, &err) == SPC_UNAVAILABLE) continue;
      cr_expect_eq(spc_program_from_text(context, layer_text, strlen(layer_text), &options, &program, &err), SPC_INVALID_ARGUMENT, "%s", cases[i].says);
      cr_expect(strstr(err.message, cases[i].says), "%s, not %s", err.message, cases[i].says);
      cr_expect_null(program);
      spc_context_free(context);
    }
}
