/* Tensors that are computed with fewer dimensions than callers know: they see what they declared. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/driver_open.h"

enum { B = 3, T = 5, D = 7, F = 40, ALIGN = 256 };

static const char layer[] =
    "spx 1; dim B: dyn; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f32[B,T,D]; in W: f32[F,D]; in V: f32[F,D]; "
    "let h[b,t,f] = relu(sum[d] x[b,t,d]*W[f,d]) ~ zeros(dynamic, density=0.05); out y[b,t,o] = sum[f] h[b,t,f]*V[f,o]; }";

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  spc_tensor t[4];
  float x[B * T * D], w[2][F * D], y[B * T * D];
} stand;

static spc_tensor tensor(const char *name, float *values, int rank, const int64_t *shape) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = rank, .values = values, .value_count = 1};
  for (int d = 0; d < rank; d++) t.value_count *= t.shape[d] = shape[d];
  return t;
}

static stand *stand_of(const char *backend, const spc_program_options *options) {
  stand *s = calloc(1, sizeof *s);
  s->plan = open_plan(backend, 2, layer, options, &s->context, &s->program);
  for (int i = 0; i < B * T * D; i++) s->x[i] = (float)(i * 37 % 19) / 9 - 1;
  for (int i = 0; i < F * D; i++) s->w[0][i] = (float)(i * 29 % 23) / 11 - 1, s->w[1][i] = (float)(i * 31 % 17) / 8 - 1;
  s->t[0] = tensor("x", s->x, 3, (int64_t[]){B, T, D});
  s->t[1] = tensor("W", s->w[0], 2, (int64_t[]){F, D});
  s->t[2] = tensor("V", s->w[1], 2, (int64_t[]){F, D});
  s->t[3] = tensor("y", s->y, 3, (int64_t[]){B, T, D});
  return s;
}

static void stand_free(stand *s) {
  close_plan(s->plan, s->program, s->context);
  free(s);
}

static void is_right(const stand *s) {
  for (int r = 0; r < B * T; r++)
    for (int o = 0; o < D; o++) {
      double want = 0;
      for (int f = 0; f < F; f++) {
        double h = 0;
        for (int d = 0; d < D; d++) h += (double)s->x[r * D + d] * s->w[0][f * D + d];
        if (h > 0) want += h * s->w[1][f * D + o];
      }
      cr_assert_float_eq(s->y[r * D + o], want, 1e-4 * (1 + (want < 0 ? -want : want)), "row %d, column %d: %g, not %g", r, o, (double)s->y[r * D + o], want);
    }
}

Test(driver_joined, runs_give_what_was_declared) {
  static const char *const backends[] = {"interp", "cpu"};
  for (int b = 0; b < 2; b++) {
    spc_error err = SPC_ERROR_INIT;
    stand *s = stand_of(backends[b], NULL);
    memset(s->y, 0xff, sizeof s->y);
    cr_assert_eq(spc_run(s->plan, s->t, 4, &err), SPC_OK, "%s", err.message);
    is_right(s);
    stand_free(s);
  }
}

Test(driver_joined, enqueued_runs_too) {
  spc_error err = SPC_ERROR_INIT;
  spc_program_options options = {.struct_size = sizeof options, .padded = "x"}; /* which may lie apart, and stays as it is */
  for (int padded = 0; padded < 2; padded++) {
    stand *s = stand_of("cpu", padded ? &options : NULL);
    size_t bytes;
    cr_assert_eq(spc_plan_prepare(s->plan, &err), SPC_OK, "%s", err.message);
    cr_assert_eq(spc_workspace(s->plan, s->t, 4, &bytes, &err), SPC_OK, "%s", err.message);
    void *room = aligned_alloc(ALIGN, bytes + ALIGN);
    memset(s->y, 0xff, sizeof s->y);
    cr_assert_eq(spc_enqueue(s->plan, s->t, 4, room, bytes, NULL, &err), SPC_OK, "%s", err.message);
    is_right(s);
    free(room);
    stand_free(s);
  }
}

Test(driver_joined, shapes_are_those_declared) {
  spc_error err = SPC_ERROR_INIT;
  stand *s = stand_of("cpu", NULL);
  spc_tensor_info info = {.struct_size = sizeof info};
  cr_assert_eq(spc_plan_tensor(s->plan, 0, &info, &err), SPC_OK, "%s", err.message);
  cr_expect_eq(info.rank, 3);
  cr_expect_str_eq(info.dims[0], "B");
  cr_expect_str_eq(info.dims[1], "T");
  cr_expect_eq(info.level_count, 3);
  spc_tensor flat = s->t[0];
  flat.rank = 2, flat.shape[0] = B * T, flat.shape[1] = D;
  s->t[0] = flat;
  cr_expect_eq(spc_run(s->plan, s->t, 4, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "rank 2, declared 3"), "%s", err.message);
  s->t[0] = tensor("x", s->x, 3, (int64_t[]){B, T, D});
  s->t[3].shape[0] = T, s->t[3].shape[1] = B; /* as many elements */
  cr_expect_eq(spc_run(s->plan, s->t, 4, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "axis 0"), "%s", err.message);
  stand_free(s);
}
