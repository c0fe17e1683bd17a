/* Runs whose workspace would exceed a limit go by rows, with the same results. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/driver_open.h"

enum { ALIGN = 256, D = 24, H = 96, MOST = 1100 };

/* Two matrices of H columns lie between the stages, with lists of what is zero; a weight's sums are made once a run. */
static const char layer_text[] =
    "spx 1; dim T: dyn; dim D: dyn; dim H: dyn; kernel k { in x: f32[T,D]; in G: f32[D,H] const; in U: f32[D,H] const; in V: f32[H,D] const;"
    " let s[h] = max[d] U[d,h]; let g[t,h] = relu(sum[d] x[t,d]*G[d,h] - 2) ~ zeros(dynamic, density=0.05);"
    " let u[t,h] = sum[d] x[t,d]*U[d,h]; let h_[t,h] = g[t,h]*u[t,h]*s[h]; out y[t,o] = sum[h] h_[t,h]*V[h,o] : f32[T,D]; }";

typedef struct layer {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[6];
  int count;
  float x[MOST * (D + 8)], w[3][D * H], y[MOST * (D + 4)];
  void *packed;
  spc_error err;
} layer;

static float uniform(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(*state >> 40) / (float)(1 << 24) - 0.5f;
}

static void shape(layer *l, int64_t rows, bool padded) {
  l->t[0] = f32_matrix("x", l->x, rows, D);
  l->t[1] = f32_matrix("G", l->w[0], D, H);
  l->t[2] = f32_matrix("U", l->w[1], D, H);
  l->t[3] = f32_matrix("V", l->w[2], H, D);
  l->t[4] = f32_matrix("y", l->y, rows, D);
  l->count = 5;
  if (!padded) return;
  l->t[0].pitch = D + 8;
  l->t[4].pitch = D + 4;
  l->t[0].value_count = rows * (D + 8);
  l->t[4].value_count = rows * (D + 4);
}

static layer *open_layer(int64_t limit, const char *padded) {
  layer *l = calloc(1, sizeof *l);
  uint64_t state = 7;
  l->err = (spc_error)SPC_ERROR_INIT;
  spc_program_options options = {.struct_size = sizeof options, .workspace_limit = limit, .padded = padded, .packed = 1};
  l->plan = open_plan("cpu", 2, layer_text, &options, &l->context, &l->program);
  cr_assert_eq(spc_plan_prepare(l->plan, &l->err), SPC_OK, "%s", l->err.message);
  for (int i = 0; i < MOST * (D + 8); i++) l->x[i] = uniform(&state) * 2;
  for (int w = 0; w < 3; w++)
    for (int i = 0; i < D * H; i++) l->w[w][i] = uniform(&state) * 2;
  shape(l, MOST, padded);
  return l;
}

static void close_layer(layer *l) {
  free(l->packed);
  close_plan(l->plan, l->program, l->context);
  free(l);
}

static size_t workspace(layer *l) {
  size_t bytes;
  cr_assert_eq(spc_workspace(l->plan, l->t, l->count, &bytes, &l->err), SPC_OK, "%s", l->err.message);
  return bytes;
}

/* With just so much room, poisoned, and a fence behind it. */
static void enqueue(layer *l, size_t bytes) {
  char *room = aligned_alloc(ALIGN, bytes + ALIGN);
  memset(room, 0xff, bytes + ALIGN);
  memset(l->y, 0xff, sizeof l->y);
  cr_assert_eq(spc_enqueue(l->plan, l->t, l->count, room, bytes, NULL, &l->err), SPC_OK, "%s", l->err.message);
  for (size_t i = bytes; i < bytes + ALIGN; i++) cr_assert_eq((unsigned char)room[i], 0xff, "byte %zu behind the workspace", i - bytes);
  free(room);
}

static void pack(layer *l) {
  size_t bytes;
  cr_assert_eq(spc_plan_pack(l->plan, l->t, 5, NULL, &bytes, NULL, &l->err), SPC_OK, "%s", l->err.message);
  cr_assert(bytes > 0);
  l->packed = aligned_alloc(ALIGN, bytes);
  cr_assert_eq(spc_plan_pack(l->plan, l->t, 5, l->packed, &bytes, NULL, &l->err), SPC_OK, "%s", l->err.message);
  l->t[l->count++] = spc_packed(l->packed, bytes);
}

static void goes_by_rows(const char *padded, bool packs) {
  static const int64_t rows[] = {MOST, 0, 1, 128, 129, 300, 511, 1024, MOST};
  enum { LIMIT = 400000 }; /* some 200 rows */
  layer *whole = open_layer(INT64_MAX, padded), *parts = open_layer(LIMIT, padded);
  size_t least = 0, most = workspace(parts);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    shape(whole, rows[i], padded);
    shape(parts, rows[i], padded);
    if (packs) pack(whole), pack(parts);
    size_t all = workspace(whole), some = workspace(parts);
    enqueue(whole, all);
    enqueue(parts, some);
    cr_expect(!memcmp(whole->y, parts->y, sizeof whole->y), "%d rows: by rows something else", (int)rows[i]);
    cr_expect(some <= all && some <= most, "%d rows take %zu, at once %zu, the most %zu", (int)rows[i], some, all, most);
    if (i + 1 < sizeof rows / sizeof *rows && i > 1) cr_expect(some >= least, "%d rows take %zu, fewer %zu", (int)rows[i], some, least);
    if (i > 0) least = some;
    if (rows[i] == MOST) cr_expect(some <= LIMIT && all > 3 * some, "%zu, not %zu", some, all);
    if (packs) free(whole->packed), free(parts->packed), whole->packed = parts->packed = NULL;
  }
  close_layer(whole);
  close_layer(parts);
}

Test(driver_chunks, rows_of_a_layer) { goes_by_rows(NULL, false); }
Test(driver_chunks, padded_rows) { goes_by_rows("x, y", false); }
Test(driver_chunks, with_what_was_packed) { goes_by_rows(NULL, true); }

Test(driver_chunks, too_small_a_workspace) {
  layer *l = open_layer(40000, NULL);
  size_t need = workspace(l);
  char *room = aligned_alloc(ALIGN, need), text[64];
  cr_expect_eq(spc_enqueue(l->plan, l->t, 5, room, need - ALIGN, NULL, &l->err), SPC_CAPACITY);
  snprintf(text, sizeof text, "these sizes take %zu", need);
  cr_expect(strstr(l->err.message, text), "%s", l->err.message);
  free(room);
  close_layer(l);
}

Test(driver_chunks, a_negative_limit) {
  spc_error err = SPC_ERROR_INIT;
  spc_context *context;
  spc_program *program;
  spc_context_options here = {.struct_size = sizeof here, .backend = "interp"};
  spc_program_options options = {.struct_size = sizeof options, .workspace_limit = -1};
  cr_assert_eq(spc_context_new(&here, &context, &err), SPC_OK);
  cr_expect_eq(spc_program_from_text(context, layer_text, strlen(layer_text), &options, &program, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "workspace_limit"), "%s", err.message);
  spc_context_free(context);
}
