/* DLPack tensors in and out: what is taken as it lies, and what is said of the rest. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/unit/driver_open.h"

static const char text[] =
    "spx 1; dim N: dyn; dim M: dyn; kernel k { in x: f32[N,M]; in W: bf16[N,M] as dense_t; "
    "in A: f32[N,M] as csr; in B: f32[N,M] as bsr(2,4);"
    " out y[i,j] = x[i,j] + W[i,j]; out z[i,j] = 2 * A[i,j] as like(A);"
    " out v[i] = sum[j] B[i,j]; }";

enum { N = 4, M = 8 };

typedef struct scene {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
} scene;

static scene scene_new(void) {
  scene s;
  s.plan = open_plan("interp", 1, text, NULL, &s.context, &s.program);
  return s;
}

static void scene_free(scene *s) {
  close_plan(s->plan, s->program, s->context);
}

/* A DLPack tensor with room for its sizes. */
typedef struct dl {
  spc_dl_tensor t;
  int64_t shape[SPC_MAX_RANK], strides[SPC_MAX_RANK];
} dl;

static void dl_set(dl *d, void *data, int code, int bits, int rank, int64_t a, int64_t b) {
  memset(d, 0, sizeof *d);
  d->t.data = data;
  d->t.device.device_type = 1;
  d->t.ndim = rank;
  d->t.dtype = (spc_dl_dtype){(uint8_t)code, (uint8_t)bits, 1};
  d->t.shape = d->shape;
  d->shape[0] = a;
  d->shape[1] = b;
}

static void dl_strides(dl *d, int64_t a, int64_t b) {
  d->t.strides = d->strides;
  d->strides[0] = a;
  d->strides[1] = b;
}

/* ---- there and back -------------------------------------------------------------------------- */
static int32_t pos[N + 1] = {0, 2, 2, 3, 5}, crd[5] = {1, 7, 0, 3, 4}, bpos[3] = {0, 1, 3},
                       bcrd[3] = {1, 0, 1};
static float x[N * M + 1], y[N * M], a[5] = {1, 2, 3, 4, 5}, z[5], blocks[3][2][4], v[N];
static uint16_t w[M][N];

static void take_all(scene *s, spc_tensor t[7], dl d[12]) {
  spc_error err = SPC_ERROR_INIT;
  int64_t shape[2] = {N, M};
  dl_set(&d[0], x, 2, 32, 2, N, M);
  d[0].t.byte_offset = 4;
  dl_set(&d[1], w, 4, 16, 2, N, M);
  dl_strides(&d[1], 1, N);
  dl_set(&d[2], a, 2, 32, 1, 5, 0);
  dl_set(&d[3], pos, 0, 32, 1, N + 1, 0);
  dl_set(&d[4], crd, 0, 32, 1, 5, 0);
  dl_set(&d[5], blocks, 2, 32, 3, 3, 2);
  d[5].shape[2] = 4;
  dl_set(&d[6], bpos, 0, 32, 1, 3, 0);
  dl_set(&d[7], bcrd, 0, 32, 1, 3, 0);
  dl_set(&d[8], y, 2, 32, 2, N, M);
  dl_set(&d[9], z, 2, 32, 1, 5, 0);
  dl_set(&d[10], v, 2, 32, 1, N, 0);
  spc_dl_level csr[2] = {{NULL, NULL}, {&d[3].t, &d[4].t}};
  spc_dl_level bsr[4] = {{NULL, NULL}, {&d[6].t, &d[7].t}, {NULL, NULL}, {NULL, NULL}};
  for (int i = 0; i < 7; i++) t[i].struct_size = sizeof t[i];
  const struct {
    const char *name;
    int number;
  } dense[4] = {{"x", 0}, {"W", 1}, {"y", 8}, {"v", 10}};
  for (int i = 0; i < 4; i++)
    cr_assert_eq(spc_tensor_from_dlpack(s->plan, dense[i].name, SPC_FOR_RUN, &d[dense[i].number].t,
                                        &t[i], &err),
                 SPC_OK, "%s", err.message);
  cr_assert_eq(spc_tensor_from_dlpack_levels(s->plan, "A", SPC_FOR_RUN, 2, shape, &d[2].t, csr, 2,
                                             &t[4], &err),
               SPC_OK, "%s", err.message);
  cr_assert_eq(spc_tensor_from_dlpack_levels(s->plan, "B", SPC_FOR_RUN, 2, shape, &d[5].t, bsr, 4,
                                             &t[5], &err),
               SPC_OK, "%s", err.message);
  cr_assert_eq(spc_tensor_from_dlpack_levels(s->plan, "z", SPC_FOR_RUN, 2, shape, &d[9].t, NULL, 0,
                                             &t[6], &err),
               SPC_OK, "%s", err.message);
}

Test(driver_dlpack, runs_on_the_memory_of_others) {
  scene s = scene_new();
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t[7] = {0};
  dl d[12];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) {
      x[1 + i * M + j] = (float)(10 * i + j);
      w[j][i] = i == 2 ? 0x3f80 : 0; /* 1 in row 2 */
    }
  for (int i = 0; i < 3 * 2 * 4; i++) (&blocks[0][0][0])[i] = 1;
  take_all(&s, t, d);
  cr_assert_eq(spc_run(s.plan, t, 7, &err), SPC_OK, "%s\n%s", err.message, err.diagnostics);
  for (int i = 0; i < N * M; i++) cr_expect_eq(y[i], x[1 + i] + (i / M == 2));
  for (int i = 0; i < 5; i++) cr_expect_eq(z[i], 2 * a[i]);
  cr_expect(v[0] == 4 && v[1] == 4 && v[2] == 8 && v[3] == 8);
  scene_free(&s);
}

Test(driver_dlpack, there_and_back) {
  scene s = scene_new();
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t[7] = {0}, again = {.struct_size = sizeof again};
  dl d[12];
  spc_dl_view view, p, c;
  take_all(&s, t, d);
  cr_assert_eq(spc_tensor_to_dlpack(s.plan, &t[1], SPC_FOR_RUN, SPC_PART_VALUES, 0, &view, &err),
               SPC_OK, "%s", err.message);
  cr_expect(view.tensor.data == w && view.tensor.ndim == 2 && view.tensor.dtype.code == 4 &&
            view.tensor.shape[0] == N && view.strides[0] == 1 && view.strides[1] == N);
  cr_assert_eq(spc_tensor_from_dlpack(s.plan, "W", SPC_FOR_RUN, &view.tensor, &again, &err), SPC_OK,
               "%s", err.message);
  cr_expect(!memcmp(&again, &t[1], sizeof again), "W");
  cr_assert_eq(spc_tensor_to_dlpack(s.plan, &t[4], SPC_FOR_RUN, SPC_PART_VALUES, 0, &view, &err),
               SPC_OK);
  cr_assert_eq(spc_tensor_to_dlpack(s.plan, &t[4], SPC_FOR_RUN, SPC_PART_POS, 1, &p, &err), SPC_OK);
  cr_assert_eq(spc_tensor_to_dlpack(s.plan, &t[4], SPC_FOR_RUN, SPC_PART_CRD, 1, &c, &err), SPC_OK);
  cr_expect(p.tensor.data == pos && p.shape[0] == N + 1 && c.shape[0] == 5 && !c.tensor.dtype.code);
  spc_dl_level levels[2] = {{NULL, NULL}, {&p.tensor, &c.tensor}};
  cr_assert_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, t[4].shape, &view.tensor,
                                             levels, 2, &again, &err),
               SPC_OK, "%s", err.message);
  cr_expect(!memcmp(&again, &t[4], sizeof again), "A");
  cr_expect_eq(spc_tensor_to_dlpack(s.plan, &t[4], SPC_FOR_RUN, SPC_PART_POS, 0, &p, &err),
               SPC_INVALID_ARGUMENT, "a dense level has no positions");
  scene_free(&s);
}

Test(driver_dlpack, sizes_of_one_and_none_have_any_stride) {
  scene s = scene_new();
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t = {.struct_size = sizeof t};
  dl d;
  dl_set(&d, x, 2, 32, 2, 1, M);
  dl_strides(&d, 777, 1);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "x", SPC_FOR_RUN, &d.t, &t, &err), SPC_OK, "%s",
               err.message);
  dl_set(&d, NULL, 2, 32, 2, 0, M);
  dl_strides(&d, 3, 5);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "x", SPC_FOR_RUN, &d.t, &t, &err), SPC_OK, "%s",
               err.message);
  cr_expect(t.value_count == 0 && t.shape[1] == M);
  scene_free(&s);
}

/* ---- what is refused ------------------------------------------------------------------------- */
static void rank(dl *d) { d->t.ndim = 1; }
static void rank_negative(dl *d) { d->t.ndim = -1; }
static void shapeless(dl *d) { d->t.shape = NULL; }
static void negative(dl *d) { d->shape[1] = -3; }
static void huge(dl *d) { d->shape[0] = d->shape[1] = INT64_MAX / 2; }
static void wide(dl *d) { d->t.dtype.bits = 64; }
static void whole(dl *d) { d->t.dtype.code = 0; }
static void lanes(dl *d) { d->t.dtype.lanes = 4; }
static void device(dl *d) { d->t.device.device_type = 2; }
static void nowhere(dl *d) { d->t.data = NULL; }
static void askew(dl *d) { d->t.byte_offset = 2; }
static void overlapping(dl *d) { dl_strides(d, 4, 1); }
static void turned(dl *d) { dl_strides(d, 1, N); }
static void backwards(dl *d) { dl_strides(d, -M, 1); }
static void stepped(dl *d) { dl_strides(d, 2 * M, 2); }
static void repeated(dl *d) { dl_strides(d, 0, 1); }

static const struct {
  const char *words;
  spc_status status;
  void (*spoil)(dl *);
} refused[] = {
    {"`ndim` is 1, declared 2", SPC_INVALID_INPUT, rank},
    {"`ndim` is -1", SPC_INVALID_INPUT, rank_negative},
    {"`shape` is NULL", SPC_INVALID_ARGUMENT, shapeless},
    {"`shape[1]` is -3", SPC_INVALID_ARGUMENT, negative},
    {"`shape[1]` is 46", SPC_INVALID_ARGUMENT, huge},
    {"bits 64", SPC_INVALID_INPUT, wide},
    {"{code 0,", SPC_INVALID_INPUT, whole},
    {"lanes 4", SPC_INVALID_INPUT, lanes},
    {"`device.device_type` is 2", SPC_INVALID_INPUT, device},
    {"`data` is NULL", SPC_INVALID_ARGUMENT, nowhere},
    {"not aligned to 4 bytes", SPC_INVALID_INPUT, askew},
    {"`strides[0]` is 4, and elements of different places are one", SPC_INVALID_INPUT, overlapping},
    {"`strides[1]` is 4, and `dense` has 1 along axis 1", SPC_INVALID_INPUT, turned},
    {"`strides[0]` is -8", SPC_INVALID_INPUT, backwards},
    {"`strides[1]` is 2", SPC_INVALID_INPUT, stepped},
    {"`strides[0]` is 0, and elements of different places are one", SPC_INVALID_INPUT, repeated},
};

Test(driver_dlpack, what_cannot_be_read_as_it_lies_is_named) {
  scene s = scene_new();
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    spc_error err = SPC_ERROR_INIT;
    spc_tensor t = {.struct_size = sizeof t, .rank = 77};
    dl d;
    dl_set(&d, x, 2, 32, 2, N, M);
    refused[i].spoil(&d);
    bool shares = refused[i].spoil == overlapping || refused[i].spoil == repeated; /* spc_run copies these */
    spc_status status = spc_tensor_from_dlpack(s.plan, "x", shares ? SPC_FOR_ENQUEUE : SPC_FOR_RUN, &d.t, &t, &err);
    cr_expect_eq(status, refused[i].status, "%s: %d, %s", refused[i].words, status, err.message);
    cr_expect(strstr(err.message, refused[i].words) && strstr(err.message, "`x`"), "%s: %s",
              refused[i].words, err.message);
    cr_expect_eq(t.rank, 77, "nothing is written");
  }
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t = {.struct_size = sizeof t};
  dl d;
  dl_set(&d, w, 4, 16, 2, N, M);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "W", SPC_FOR_RUN, &d.t, &t, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`dense_t`"), "%s", err.message);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "A", SPC_FOR_RUN, &d.t, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "`as csr`"), "%s", err.message);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "no", SPC_FOR_RUN, &d.t, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "x", SPC_FOR_RUN, NULL, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_tensor_from_dlpack(NULL, "x", SPC_FOR_RUN, &d.t, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_tensor_from_dlpack(s.plan, "x", SPC_FOR_RUN, &d.t, NULL, &err),
               SPC_INVALID_ARGUMENT);
  int64_t shape[2] = {N, M};
  dl values, p, c;
  dl_set(&values, a, 2, 32, 1, 5, 0);
  dl_set(&p, pos, 0, 64, 1, N + 1, 0);
  dl_set(&c, crd, 0, 32, 1, 5, 0);
  spc_dl_level levels[2] = {{NULL, NULL}, {&p.t, &c.t}};
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, shape, &values.t, levels,
                                             2, &t, &err),
               SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "levels[1].crd") && strstr(err.message, "has i64"), "%s",
            err.message);
  c.t.dtype.bits = 64;
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, shape, &values.t, levels,
                                             2, &t, &err),
               SPC_OK, "%s", err.message);
  cr_expect_str_eq(t.index_dtype, "i64");
  p.t.dtype.bits = 16;
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, shape, &values.t, levels,
                                             2, &t, &err),
               SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "levels[1].pos") && strstr(err.message, "bits 16"), "%s",
            err.message);
  levels[1].pos = NULL;
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, shape, &values.t, levels,
                                             2, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "levels[1].pos"), "%s", err.message);
  levels[0].crd = &c.t;
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, shape, &values.t, levels,
                                             2, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "levels[0].crd"), "%s", err.message);
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 2, shape, &values.t, levels,
                                             1, &t, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect_eq(spc_tensor_from_dlpack_levels(s.plan, "A", SPC_FOR_RUN, 1, shape, &values.t, levels,
                                             2, &t, &err),
               SPC_INVALID_INPUT);
  scene_free(&s);
}
