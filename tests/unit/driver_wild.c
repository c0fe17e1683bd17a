/* Wild tensors: every field of every tensor of a call, one at a time and two at a time, holds what no caller means.
 * Nothing crashes (the suite runs this under the address sanitizer), what fails has a message and writes nothing, and
 * the same handles go on. Arrays are as long as they say: of that no library can know. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "spc.h"

enum { B = 2, N = 6, M = 5, STORED = 9, TENSORS = 5, ALIGN = 256 };
static const char text[] =
    "spx 1; dim B: dyn; dim N: dyn <= 100; dim M: dyn % 5; kernel k { in A: f32[N,M] as csr; in x: f32[B,M,N];"
    " out y[b,i,j] = sum[m] A[i,m] * x[b,m,j]; out z[i,m] = 2 * A[i,m] as like(A);"
    " out C[i,m] = A[i,m] + A[i,m] as csr; }"
    " kernel e { in A: f32[N,M] as csr; in x: f32[B,M,N]; out y[b,i,j] = sum[m] A[i,m] * x[b,m,j];"
    " out z[i,m] = 2 * A[i,m] as like(A); }";

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *run, *ready;
  spc_tensor t[TENSORS];
  int32_t pos[N + 1], crd[STORED], cpos[N + 1], ccrd[STORED];
  float a[STORED], x[B * M * N], y[B * N * N], z[STORED], c[STORED];
  void *workspace;
  size_t bytes;
} stand;

/* ---- tensors as they should be ---------------------------------------------------------------- */
static spc_tensor tensor(const char *name, int rank, const int64_t *shape, void *values, int64_t count) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = rank};
  memcpy(t.shape, shape, sizeof *shape * (size_t)rank);
  t.values = values;
  t.value_count = count;
  return t;
}

static spc_tensor csr(const char *name, int32_t *pos, int32_t *crd, float *values) {
  spc_tensor t = tensor(name, 2, (int64_t[]){N, M}, values, STORED);
  t.pos[1] = pos, t.crd[1] = crd;
  t.pos_count[1] = N + 1, t.crd_count[1] = STORED;
  return t;
}

static void reset(stand *s) {
  memset(s->y, 0xff, sizeof s->y);
  memset(s->z, 0xff, sizeof s->z);
  memset(s->c, 0xff, sizeof s->c);
  memset(s->cpos, 0xff, sizeof s->cpos);
  memset(s->ccrd, 0xff, sizeof s->ccrd);
  s->t[0] = csr("A", s->pos, s->crd, s->a);
  s->t[1] = tensor("x", 3, (int64_t[]){B, M, N}, s->x, B * M * N);
  s->t[2] = tensor("y", 3, (int64_t[]){B, N, N}, s->y, B * N * N);
  s->t[3] = tensor("z", 2, (int64_t[]){N, M}, s->z, STORED);
  s->t[4] = csr("C", s->cpos, s->ccrd, s->c);
}

static bool untouched(const void *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (((const unsigned char *)at)[i] != 0xff) return false;
  return true;
}

static bool nothing_written(const stand *s) {
  return untouched(s->y, sizeof s->y) && untouched(s->z, sizeof s->z) && untouched(s->c, sizeof s->c) &&
         untouched(s->cpos, sizeof s->cpos) && untouched(s->ccrd, sizeof s->ccrd);
}

static bool is_right(const stand *s) {
  for (int b = 0; b < B; b++)
    for (int i = 0; i < N; i++)
      for (int j = 0; j < N; j++) {
        float want = 0;
        for (int p = s->pos[i]; p < s->pos[i + 1]; p++) want += s->a[p] * s->x[(b * M + s->crd[p]) * N + j];
        if (s->y[(b * N + i) * N + j] != want) return false;
      }
  return s->z[STORED - 1] == 2 * s->a[STORED - 1];
}

/* ---- calls -------------------------------------------------------------------------------------- */
static spc_status call(stand *s, int which, spc_error *err) {
  size_t bytes = 0;
  spc_dl_view view;
  switch (which) {
  case 0: return spc_run(s->run, s->t, 5, err);
  case 1: return spc_enqueue(s->ready, s->t, 4, s->workspace, s->bytes, NULL, err);
  case 2: return spc_workspace(s->ready, s->t, 4, &bytes, err);
  case 3: return spc_plan_pack(s->ready, s->t, 4, NULL, &bytes, NULL, err);
  case 4: return spc_plan_shapes(s->run, s->t, 5, err);
  case 5: return spc_count(s->run, s->t, 5, err);
  default: return spc_tensor_to_dlpack(s->run, &s->t[which - 6], SPC_FOR_RUN, SPC_PART_VALUES, 0, &view, err);
  }
}
enum { CALLS = 6 + TENSORS };

static stand *stand_new(const char *backend) {
  stand *s = calloc(1, sizeof *s);
  spc_context_options options = {.struct_size = sizeof options, .backend = backend, .threads = 1};
  spc_program_options padded = {.struct_size = sizeof padded, .padded = "x,y"};
  for (int i = 0; i < STORED; i++) s->crd[i] = i < 5 ? i : i - 5, s->a[i] = (float)(i + 1);
  for (int i = 0; i <= N; i++) s->pos[i] = i == 0 ? 0 : i < 3 ? 5 : STORED;
  for (int i = 0; i < B * M * N; i++) s->x[i] = (float)(i % 7);
  reset(s);
  cr_assert_eq(spc_context_new(&options, &s->context, NULL), SPC_OK);
  cr_assert_eq(spc_program_from_text(s->context, text, strlen(text), &padded, &s->program, NULL), SPC_OK);
  cr_assert_eq(spc_plan_new(s->program, "k", NULL, 0, &s->run, NULL), SPC_OK);
  cr_assert_eq(spc_plan_new(s->program, "e", NULL, 0, &s->ready, NULL), SPC_OK);
  if (spc_plan_prepare(s->ready, NULL) == SPC_OK)
    cr_assert_eq(spc_workspace(s->ready, s->t, 4, &s->bytes, NULL), SPC_OK);
  s->workspace = aligned_alloc(ALIGN, s->bytes + 2 * ALIGN - s->bytes % ALIGN);
  return s;
}

static void stand_free(stand *s) {
  free(s->workspace);
  spc_plan_free(s->run);
  spc_plan_free(s->ready);
  spc_program_free(s->program);
  spc_context_free(s->context);
  free(s);
}

/* ---- what is spoilt ----------------------------------------------------------------------------- */
static const int64_t numbers[] = {-1, 0, 1, 4, 10, 99, (int64_t)1 << 31, (int64_t)1 << 40, INT64_MAX, INT64_MIN};
static const char *const texts[] = {NULL, "", "f64", "x", "A", "i64", "(packed)", "\xff"};
enum { NUMBERS = sizeof numbers / sizeof *numbers, TEXTS = sizeof texts / sizeof *texts, FIELDS = 21 };

/* Counts of arrays are never more than there is. */
static int64_t at_most(int64_t value, int64_t most) { return value > most ? most : value; }

/* False: there is no such value. */
static bool spoil(spc_tensor *t, int field, int value) {
  int64_t n = value < NUMBERS ? numbers[value] : 0;
  const char *word = value < TEXTS ? texts[value] : NULL;
  bool number = value < NUMBERS;
  switch (field) {
  case 0: t->name = word; return value < TEXTS;
  case 1: t->dtype = word; return value < TEXTS;
  case 2: t->index_dtype = word; return value < TEXTS;
  case 3: t->values = NULL; return value == 0;
  case 4: t->pos[1] = NULL; return value == 0;
  case 5: t->crd[1] = NULL; return value == 0;
  case 6: t->rank = (int)(n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : n); return number;
  case 7: t->value_count = at_most(n, t->value_count); return number;
  case 8: t->pos_count[1] = at_most(n, t->pos_count[1]); return number;
  case 9: t->crd_count[1] = at_most(n, t->crd_count[1]); return number;
  case 10: t->struct_size = (size_t)at_most(n < 0 ? 0 : n, (int64_t)sizeof *t - 8); return number;
  case 11: t->pitch = n; return number;
  case 12: t->struct_size = offsetof(spc_tensor, strides); return value == 0;
  case 13: t->pos[0] = t->crd[0] = t->values, t->pos_count[0] = n; return number;
  default: break;
  }
  if (field < 17) return t->shape[field - 14] = n, number;
  return t->strides[field - 17] = n, number && field < 20;
}

static void tried(stand *s, const int *tensors, const int *fields, const int *values, int count) {
  for (int which = 0; which < CALLS; which++) {
    spc_error err = SPC_ERROR_INIT;
    reset(s);
    for (int i = 0; i < count; i++)
      if (!spoil(&s->t[tensors[i]], fields[i], values[i])) return;
    spc_status status = call(s, which, &err);
    if (!status) continue;
    cr_assert(err.message[0] && status != SPC_INTERNAL && err.status == status, "call %d, tensor %d, field %d, value %d: %d, %s",
              which, tensors[0], fields[0], values[0], status, err.message);
    cr_assert(nothing_written(s), "call %d, tensor %d, field %d, value %d writes, and says: %s", which, tensors[0],
              fields[0], values[0], err.message);
  }
}

static void still_works(stand *s) {
  spc_error err = SPC_ERROR_INIT;
  reset(s);
  cr_assert(!spc_run(s->run, s->t, 5, &err) && is_right(s), "%s", err.message);
  reset(s);
  if (spc_plan_prepare(s->ready, NULL)) return;
  cr_assert(!spc_enqueue(s->ready, s->t, 4, s->workspace, s->bytes, NULL, &err) && is_right(s), "%s", err.message);
}

static void each_field(const char *backend) {
  stand *s = stand_new(backend);
  for (int t = 0; t < TENSORS; t++)
    for (int field = 0; field < FIELDS; field++) {
      for (int value = 0; value < NUMBERS; value++) tried(s, &t, &field, &value, 1);
      still_works(s);
    }
  stand_free(s);
}

/* Strides that fit and lie beyond the array would be read: those are the caller's word, so shapes and what is NULL. */
static void two_fields(const char *backend, int rounds) {
  stand *s = stand_new(backend);
  uint64_t random = 7;
  for (int i = 0; i < rounds; i++) {
    int tensors[2], fields[2], values[2];
    for (int k = 0; k < 2; k++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      tensors[k] = (int)(random >> 33) % TENSORS, fields[k] = (int)(random >> 40) % 17;
      values[k] = (int)(random >> 48) % NUMBERS;
    }
    if (fields[0] >= 11 && fields[1] >= 11) continue; /* two sizes that agree on what is not there */
    bool hollow = false; /* nowhere, and said to be empty: what positions say of it is trusted by spc_enqueue */
    for (int k = 0; k < 2; k++) hollow |= fields[k] >= 3 && fields[k] <= 5 && fields[1 - k] >= 7 && fields[1 - k] <= 9;
    if (hollow) continue;
    tried(s, tensors, fields, values, 2);
    if (i % 64 == 0) still_works(s);
  }
  still_works(s);
  stand_free(s);
}

Test(driver_wild, each_field_of_each_tensor, .timeout = 100) {
  each_field("interp");
  if (cg_cpu_available()) each_field("cpu");
}

Test(driver_wild, two_fields_at_once, .timeout = 100) {
  two_fields("interp", 1000);
  if (cg_cpu_available()) two_fields("cpu", 4000);
}
