/* Dense tensors whose rows are padded: kernels x pitches x sizes x back ends, against the
 * interpreter on tensors without padding.  Padding holds NaNs before a run and the same bytes after
 * it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "driver/api.h"
#include "ir/dtype.h"
#include "tests/unit/driver_open.h"

enum { MOST = 6, ALIGN = 256, POISON = 0xff };

/* Every dense input and output of two axes or more may be padded. */
typedef struct example {
  const char *name, *text, *padded;
} example;

static const example examples[] = {
    {"product", "in x: f32[N,K]; in W: f32[K,M]; out y[i,j] = sum[k] x[i,k]*W[k,j];", "x,W,y"},
    {"by rows of W", "in x: f64[N,K]; in W: f64[M,K]; out y[i,j] = sum[k] x[i,k]*W[j,k];", "x W y"},
    {"turned", "in x: f32[K,N]; in W: f32[K,M] as dense_t; out y[j,i] = sum[k] x[k,i]*W[k,j];",
     "x,W,y"},
    {"bf16",
     "in x: bf16[N,K]; in W: bf16[K,M]; in r: bf16[N,M]; out y[i,j] = relu(sum[k] x[i,k]*W[k,j] + "
     "r[i,j]) : bf16 acc "
     "f32;",
     "x, W, r, y"},
    {"elementwise",
     "in x: f32[N,M]; in r: f32[N,M]; in b: f32[M]; out y[i,j] = relu(x[i,j]) + r[i,j]*b[j];",
     "x,r,y"},
    {"turned elementwise", "in x: i32[M,N]; out y[i,j] = 2*x[j,i];", "x,y"},
    {"rows", "in x: f32[N,M]; out m[i] = max[j] x[i,j]; out y[i,j] = x[i,j] - m[i];", "x,y"},
    {"three axes",
     "in x: f32[K,N,M]; in W: f32[N,M]; out y[k,i,j] = x[k,i,j]*W[i,j]; out s[k,i] = sum[j] "
     "x[k,i,j];",
     "x,W,y,s"},
    {"batches of products", "in x: f32[K,N,M]; in W: f32[K,M,N]; out y[k,i,j] = sum[m] x[k,i,m]*W[k,m,j];", "x,W,y"},
    {"batches turned",
     "in x: f32[K,N,M]; in W: f32[K,N,M]; in r: f32[K,N,N]; out y[k,i,j] = relu(sum[m] x[k,i,m]*W[k,j,m]) + r[k,i,j];",
     "x,W,r,y"},
    {"one matrix for all", "in x: bf16[K,N,M]; in W: bf16[M,N]; out y[k,i,j] = sum[m] x[k,i,m]*W[m,j] : bf16 acc f32;",
     "x,W,y"},
    {"heads",
     "in q: f32[K,M,N,N]; in p: f32[K,M,N,N]; let s[k,m,i,j] = sum[d] q[k,m,i,d]*p[k,m,j,d]; out y[k,m,i,j] = "
     "s[k,m,i,j] - max[l] s[k,m,i,l];",
     "q,p,y"},
    {"sums along the slowest", "in x: f32[K,N,M]; out y[i,j] = sum[k] x[k,i,j]; out s[k,j] = max[i] x[k,i,j];", "x,y,s"},
    {"batches with zeros",
     "in x: f32[K,N,M]; in A: f32[N,M] as csr; out y[k,i,j] = x[k,i,j] * A[i,j];", "x,y"},
    {"some of a batch",
     "in x: f32[K,N,M]; in b: f32[N]; out y[k,i,j] = x[k,i,j] on b[i] > 0 fill 7;", "x,y"},
    {"sent to batches", "in p: i32[N]; in x: f32[N,M,K]; out y[p[i],j,k] += x[i,j,k] : f32[N,M,K];", "x,y"},
    {"csr x dense", "in A: f32[N,K] as csr; in x: f32[K,M]; out y[i,j] = sum[k] A[i,k]*x[k,j];",
     "x,y"},
    {"sampled",
     "in A: f32[N,M] as csr; in x: f32[N,K]; in W: f32[M,K]; out z[i,j] = A[i,j]*(sum[k] "
     "x[i,k]*W[j,k]) as "
     "like(A);",
     "x,W"},
    {"lists",
     "in x: f32[N,K]; in W: f32[K,M]; in V: f32[M,K]; let h[i,j] = relu(sum[k] x[i,k]*W[k,j]) ~ "
     "zeros(dynamic, "
     "density=0.02..0.3); out y[i,k] = sum[j] h[i,j]*V[j,k]; } schedule k { compact h axis=j "
     "gran=4x1;",
     "x,W,V,y"},
    {"lists of an input",
     "in x: f32[N,K] ~ zeros(dynamic, density=0.01..0.03, gran=4x1); in W: f32[K,M]; out y[i,j] = "
     "sum[k] x[i,k]*W[k,j];",
     "x,W,y"},
    {"csr as dense", "in A: f32[N,M] as csr; in x: f32[N,M]; out y[i,j] = A[i,j] * x[i,j];", "x,y"},
    {"on a condition",
     "in A: f32[N,M] as csr; in x: f32[N,M]; out y[i,j] = x[i,j] + 1 on A[i,j] > 3 fill 5;", "x,y"},
    {"csr turned", "in A: f32[N,K] as csr; in x: f32[N,M]; out y[k,j] = sum[i] A[i,k]*x[i,j];",
     "x,y"},
    {"added where it says", "in p: i32[N]; in x: f32[N,M]; out y[p[i],j] += x[i,j] : f32[N,M];",
     "x,y"},
};

static const int64_t sizes[][3] = {{7, 13, 9}, {1, 1, 1}, {33, 64, 40}, {5, 0, 3}, {64, 17, 128}};
/* Elements between rows; between what lies around them; whether the axes around rows are in the other order. */
typedef struct padding {
  int64_t rows, apart;
  bool turned;
} padding;
static const padding pads[] = {{0, 0, false}, {1, 0, false},  {5, 0, false}, {16, 0, false},
                               {0, 7, false}, {3, 16, false}, {0, 0, true},  {2, 5, true}};

/* ---- tensors of a kernel, from what its plan says
 * ------------------------------------------------ */
typedef struct scene {
  spc_tensor t[MOST];
  void *owned[4 * MOST];
  size_t bytes[MOST]; /* of the values, padding included */
  int count, owned_count;
} scene;

static void *own(scene *s, size_t bytes) {
  void *at = aligned_alloc(64, (bytes + 128) / 64 * 64);
  memset(at, POISON, bytes);
  return s->owned[s->owned_count++] = at;
}

static void scene_free(scene *s) {
  while (s->owned_count > 0) free(s->owned[--s->owned_count]);
}

static int64_t size_of(const char *dim, const int64_t *size) {
  return dim[0] == 'N' ? size[0] : dim[0] == 'M' ? size[1] : size[2];
}

/* Whole numbers, so that any order of sums gives the same bits; many zeros. */
static double number(int64_t i) { return i * 7 % 5 < 2 ? 0 : (double)(i * 13 % 7 - 3); }

static void fill_rows(spc_tensor *t, const api_rows *rows, ir_dtype dtype, const int64_t *size) {
  for (int64_t r = 0; r < rows->count; r++)
    for (int64_t c = 0; c < rows->length; c++)
      ir_dtype_store(dtype, t->values, drv_rows_at(rows, r) + c,
                     t->rank == 1 && dtype == IR_I32 ? (double)(c * 3 % (size[0] ? size[0] : 1))
                                                     : number(r * rows->length + c));
}

static void add_csr(scene *s, spc_tensor *t) {
  int64_t rows = t->shape[0], columns = t->shape[1];
  int32_t *pos = own(s, sizeof *pos * (size_t)(rows + 1)),
          *crd = own(s, sizeof *crd * (size_t)(rows * columns + 1));
  float *values = own(s, sizeof *values * (size_t)(rows * columns + 1));
  pos[0] = 0;
  for (int64_t i = 0; i < rows; i++) {
    pos[i + 1] = pos[i];
    for (int64_t j = 0; j < columns; j++)
      if ((i * 5 + j * 3) % 4 == 0)
        crd[pos[i + 1]] = (int32_t)j, values[pos[i + 1]++] = (float)(i + j + 1);
  }
  t->pos[1] = pos;
  t->crd[1] = crd;
  t->values = values;
  t->pos_count[1] = rows + 1;
  t->crd_count[1] = t->value_count = pos[rows];
}

static void pad_tensor(spc_tensor *t, const ir_tensor *declared, const api_rows *rows, padding pad) {
  int last = t->rank - 1;
  int64_t step = rows->length + pad.rows;
  if (t->rank < 2) return;
  if (!pad.apart && !pad.turned) {
    t->pitch = pad.rows ? step : 0;
    return;
  }
  for (int n = 0; n < t->rank; n++) {
    int l = n == 0 ? last : pad.turned ? n - 1 : last - n, axis = declared->format ? declared->format->level[l].dim : l;
    t->strides[axis] = n ? step : 1;
    if (n) step = step * (t->shape[axis] ? t->shape[axis] : 1) + pad.apart;
  }
}

static void add(scene *s, const spc_plan *plan, const spc_tensor_info *info, const int64_t *size, padding pad) {
  spc_tensor *t = &s->t[s->count];
  const ir_tensor *declared = ir_tensor_named(plan->kernel, info->name);
  *t = (spc_tensor){
      .struct_size = sizeof *t, .name = info->name, .dtype = info->dtype, .rank = info->rank};
  for (int d = 0; d < t->rank; d++) t->shape[d] = size_of(info->dims[d], size);
  api_rows rows;
  drv_tensor_rows(t, declared, &rows);
  if (!strcmp(info->format, "csr") && !info->pattern_of) {
    add_csr(s, t);
  } else if (info->pattern_of) {
    for (int i = 0; i < s->count; i++)
      if (!strcmp(s->t[i].name, info->pattern_of)) t->value_count = s->t[i].value_count;
    t->values = own(s, s->bytes[s->count] = (size_t)t->value_count * sizeof(float));
  } else {
    pad_tensor(t, declared, &rows, pad);
    drv_tensor_rows(t, declared, &rows);
    t->value_count = rows.span;
    s->bytes[s->count] = (size_t)t->value_count * ir_dtype_bytes(declared->dtype);
    t->values = own(s, s->bytes[s->count]);
    if (!info->is_output) fill_rows(t, &rows, declared->dtype, size);
  }
  s->count++;
}

static void scene_of(scene *s, const spc_plan *plan, const int64_t *size, padding pad) {
  *s = (scene){.count = 0};
  for (int i = 0; i < spc_plan_tensor_count(plan); i++) {
    spc_tensor_info info = {.struct_size = sizeof info};
    cr_assert_eq(spc_plan_tensor(plan, i, &info, NULL), SPC_OK);
    add(s, plan, &info, size, pad);
  }
}

/* ---- comparing
 * ----------------------------------------------------------------------------------- */
static bool is_poison(const char *at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i++)
    if ((unsigned char)at[i] != POISON) return false;
  return true;
}

static void compare(const scene *have, const scene *want, const spc_plan *plan, const char *what) {
  for (int i = 0; i < have->count; i++) {
    const spc_tensor *t = &have->t[i], *w = &want->t[i];
    const ir_tensor *declared = ir_tensor_named(plan->kernel, t->name);
    if (declared->role != IR_ROLE_OUT) continue;
    api_rows rows;
    drv_tensor_rows(t, declared, &rows);
    if (declared->like) rows = (api_rows){.count = 1, .length = t->value_count, .span = t->value_count};
    int64_t element = (int64_t)ir_dtype_bytes(declared->dtype);
    bool *is_element = calloc((size_t)rows.span + 1, sizeof *is_element);
    for (int64_t r = 0; r < rows.count && rows.length; r++) {
      int64_t at = drv_rows_at(&rows, r);
      for (int64_t c = 0; c < rows.length; c++) {
        is_element[at + c] = true;
        double got = ir_dtype_load(declared->dtype, t->values, at + c);
        double wanted = ir_dtype_load(declared->dtype, w->values, r * rows.length + c);
        cr_assert(got == wanted, "%s: `%s`[%d][%d] is %g, wanted %g", what, t->name, (int)r, (int)c,
                  got, wanted);
      }
    }
    for (int64_t n = 0; n < rows.span; n++)
      cr_assert(is_element[n] || is_poison((const char *)t->values + n * element, element),
                "%s: element %d of `%s` is padding", what, (int)n, t->name);
    free(is_element);
  }
}

static void poison(scene *s, const spc_plan *plan) {
  for (int i = 0; i < s->count; i++)
    if (ir_tensor_named(plan->kernel, s->t[i].name)->role == IR_ROLE_OUT)
      memset(s->t[i].values, POISON, s->bytes[i]);
}

static void enqueues(scene *s, const scene *want, spc_plan *plan, const char *what) {
  spc_error err = SPC_ERROR_INIT;
  poison(s, plan);
  cr_assert_eq(spc_plan_reserve(plan, s->t, s->count, &err), SPC_OK, "%s: %s", what, err.message);
  cr_assert_eq(spc_enqueue(plan, s->t, s->count, NULL, 0, NULL, &err), SPC_OK, "%s: %s", what,
               err.message);
  compare(s, want, plan, what);
}

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
} stand;

static stand stand_of(const char *backend, const example *e, const char *padded) {
  stand s;
  char text[1000];
  spc_program_options options = {.struct_size = sizeof options, .padded = padded};
  snprintf(text, sizeof text, "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { %s }",
           e->text);
  s.plan = open_plan(backend, 2, text, &options, &s.context, &s.program);
  return s;
}

static void stand_free(stand *s) { close_plan(s->plan, s->program, s->context); }

/* want: of the interpreter. */
static void tried(const example *e, stand *plain, const scene *want, stand *run, stand *ready, const int64_t *size,
                  padding pad) {
  scene have;
  char what[200];
  spc_error err = SPC_ERROR_INIT;
  snprintf(what, sizeof what, "%s: %d x %d x %d, padded by %d, %d%s", e->name, (int)size[0], (int)size[1], (int)size[2],
           (int)pad.rows, (int)pad.apart, pad.turned ? " turned" : "");
  scene_of(&have, plain->plan, size, pad);
  bool small = size[0] * size[1] * size[2] < 1000;
  stand *both[] = {small ? plain : NULL, run, ready};
  for (int i = 0; i < 3; i++) {
    if (!both[i]) continue;
    poison(&have, plain->plan);
    cr_assert_eq(spc_run(both[i]->plan, have.t, have.count, &err), SPC_OK, "%s: %s", what, err.message);
    compare(&have, want, plain->plan, what);
  }
  if (ready) enqueues(&have, want, ready->plan, what);
  scene_free(&have);
}

static void tried_all(const example *e, stand *plain, stand *run, stand *ready) {
  spc_error err = SPC_ERROR_INIT;
  for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
    bool small = strstr(e->text, "K,M,N,N") != NULL; /* five loops are too much for the interpreter */
    if (small && sizes[n][0] * sizes[n][1] * sizes[n][2] > 1000) continue;
    scene want;
    scene_of(&want, plain->plan, sizes[n], pads[0]);
    cr_assert_eq(spc_run(plain->plan, want.t, want.count, &err), SPC_OK, "%s: %s", e->name, err.message);
    for (size_t p = 0; p < sizeof pads / sizeof *pads; p++) tried(e, plain, &want, run, ready, sizes[n], pads[p]);
    scene_free(&want);
  }
}

Test(driver_padded, kernels_pitches_and_sizes, .timeout = 120) {
  bool cpu = cg_cpu_available();
  for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
    stand plain = stand_of("interp", &examples[e], NULL), run, ready;
    if (cpu) {
      run = stand_of("cpu", &examples[e], NULL);
      ready = stand_of("cpu", &examples[e], examples[e].padded);
      cr_assert_eq(spc_plan_prepare(ready.plan, NULL), SPC_OK, "%s", examples[e].name);
    }
    tried_all(&examples[e], &plain, cpu ? &run : NULL, cpu ? &ready : NULL);
    stand_free(&plain);
    if (!cpu) continue;
    stand_free(&run);
    stand_free(&ready);
  }
}

/* ---- what is refused
 * ------------------------------------------------------------------------------ */
Test(driver_padded, what_is_refused_says_what_to_do) {
  static const struct {
    const char *padded, *words;
  } options[] = {{"q", "`q`"}, {"b", "`b`"}, {"x;y", "`x`"}, {"x%0", "`x`"}, {"%8", "``"}};
  const example *e = &examples[4];
  char text[1000];
  spc_error err = SPC_ERROR_INIT;
  spc_context *context;
  spc_program *program;
  spc_context_options interp = {.struct_size = sizeof interp, .backend = "interp"};
  cr_assert_eq(spc_context_new(&interp, &context, &err), SPC_OK);
  snprintf(text, sizeof text, "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; kernel k { %s }",
           e->text);
  for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
    spc_program_options o = {.struct_size = sizeof o, .padded = options[i].padded};
    cr_expect_eq(spc_program_from_text(context, text, strlen(text), &o, &program, &err),
                 SPC_INVALID_INPUT);
    cr_expect(strstr(err.message, "padded") && strstr(err.message, options[i].words), "%s",
              err.message);
  }
  spc_context_free(context);
  if (!cg_cpu_available()) cr_skip("no LLVM");
  stand s = stand_of("cpu", e, "x%8");
  scene have;
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK);
  scene_of(&have, s.plan, sizes[0], (padding){.rows = 3}); /* x: 13 columns, pitch 16; r is padded and not named */
  cr_expect_eq(spc_enqueue(s.plan, have.t, have.count, NULL, 0, NULL, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`r`: `pitch` is 16") &&
                strstr(err.message, "spc_program_options.padded"),
            "%s", err.message);
  scene_free(&have);
  scene_of(&have, s.plan, sizes[0], (padding){.rows = 2});
  for (int i = 1; i < have.count; i++) have.t[i].pitch = 0;
  cr_expect_eq(spc_enqueue(s.plan, have.t, have.count, NULL, 0, NULL, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "pitch") && strstr(err.message, "15") && strstr(err.message, "8"),
            "%s", err.message);
  have.t[0].pitch = 12;
  cr_expect_eq(spc_run(s.plan, have.t, have.count, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`x`: `pitch` is 12, and a row has 13"), "%s", err.message);
  have.t[0].pitch = INT64_MAX / 2;
  cr_expect_eq(spc_run(s.plan, have.t, have.count, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "too many elements"), "%s", err.message);
  scene_free(&have);
  scene_of(&have, s.plan, sizes[0], (padding){.rows = 3});
  int64_t room = have.t[3].value_count--;
  cr_expect_eq(spc_run(s.plan, have.t, have.count, &err), SPC_CAPACITY);
  cr_expect_eq(have.t[3].value_count, room, "the room that padded rows take");
  scene_free(&have);
  stand_free(&s);
}

/* Strides of a tensor of three axes that are none, or too many, or make two elements one. */
Test(driver_padded, strides_that_are_refused) {
  static const struct {
    int64_t strides[3], pitch;
    bool runs; /* an input of spc_run may be so */
    const char *words;
    spc_status status;
  } cases[] = {{{90, 18, 2}, 0, false, "`x`: `strides[2]` is 2", SPC_INVALID_INPUT},
               {{-90, 18, 1}, 0, false, "`x`: `strides[0]` is -90", SPC_INVALID_INPUT},
               {{INT64_MAX / 2, 18, 1}, 0, false, "`x`: its `shape` and `strides` have too many", SPC_INVALID_ARGUMENT},
               {{90, 18, 1}, 18, false, "`x`: `pitch` and `strides` are given", SPC_INVALID_ARGUMENT},
               {{0, 18, 1}, 0, true, "`x`: `strides[0]` is 0, and elements of different", SPC_INVALID_INPUT},
               {{40, 18, 1}, 0, true, "`x`: `strides[0]` is 40, and elements of different", SPC_INVALID_INPUT}};
  if (!cg_cpu_available()) cr_skip("no LLVM");
  spc_error err = SPC_ERROR_INIT;
  stand s = stand_of("cpu", &examples[7], "x,y%4");
  cr_assert_eq(spc_plan_prepare(s.plan, &err), SPC_OK);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    scene have;
    scene_of(&have, s.plan, sizes[0], pads[0]);
    memcpy(have.t[0].strides, cases[i].strides, sizeof cases[i].strides);
    have.t[0].pitch = cases[i].pitch;
    cr_expect_eq(spc_enqueue(s.plan, have.t, have.count, NULL, 0, NULL, &err), cases[i].status);
    cr_expect(strstr(err.message, cases[i].words), "%s", err.message);
    err.message[0] = 0;
    have.t[0].shape[0] = 0; /* nothing is read */
    cr_expect_neq(spc_run(s.plan, have.t, have.count, &err), SPC_OK);
    scene_free(&have);
  }
  scene have;
  scene_of(&have, s.plan, sizes[0], (padding){.apart = 1}); /* y: rows of 13 */
  cr_expect_eq(spc_enqueue(s.plan, have.t, have.count, NULL, 0, NULL, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "k.y.") && strstr(err.message, "dyn % 4"), "%s", err.message);
  cr_expect_eq(spc_run(s.plan, have.t, have.count, &err), SPC_OK, "%s", err.message);
  memset(have.t[0].strides, 0, sizeof have.t[0].strides); /* x, W, y: a result whose rows are one row */
  int64_t flat[] = {13, 0, 1};
  memcpy(have.t[2].strides, flat, sizeof flat);
  cr_expect_eq(spc_run(s.plan, have.t, have.count, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`y`: `strides[1]` is 0"), "%s", err.message);
  scene_free(&have);
  stand_free(&s);
}

/* Multiples that rows are not: spc_run keeps what was promised to the code in its own memory. */
Test(driver_padded, runs_of_what_promises_multiples) {
  static const char *const backends[] = {"interp", "cpu"};
  for (int b = 0; b < (cg_cpu_available() ? 2 : 1); b++)
    for (size_t e = 0; e < sizeof examples / sizeof *examples; e++) {
      char padded[80], *to = padded;
      for (const char *at = examples[e].padded; *at; at++) {
        bool ends = at[1] == ',' || at[1] == ' ' || !at[1];
        if (*at != ' ' && *at != ',') to += snprintf(to, 6, ends ? "%c%%8," : "%c", *at);
      }
      to[-1] = 0;
      stand plain = stand_of("interp", &examples[e], NULL), run = stand_of(backends[b], &examples[e], padded);
      tried_all(&examples[e], &plain, &run, NULL);
      stand_free(&plain);
      stand_free(&run);
    }
}

/* ---- DLPack
 * ---------------------------------------------------------------------------------------- */
typedef struct dl {
  spc_dl_tensor t;
  int64_t shape[3], strides[3];
} dl;

static void dl_of(dl *d, float *at, int rank, const int64_t *shape, const int64_t *strides) {
  *d = (dl){.t = {.data = at, .device = {1, 0}, .ndim = rank, .dtype = {2, 32, 1}}};
  memcpy(d->shape, shape, sizeof *shape * (size_t)rank);
  memcpy(d->strides, strides, sizeof *strides * (size_t)rank);
  d->t.shape = d->shape;
  d->t.strides = d->strides;
}

Test(driver_padded, strides_of_dlpack_are_pitches) {
  static float x[2 * 4 * 16], W[8 * 16], y[2 * 4 * 16], s[64];
  const int64_t shape[] = {2, 4, 5}, strides[] = {64, 16, 1}, wide[] = {80, 16, 1};
  stand made = stand_of("interp", &examples[7], NULL);
  spc_error err = SPC_ERROR_INIT;
  dl d, w, out;
  spc_tensor t[4] = {
      {.struct_size = sizeof *t}, {.struct_size = sizeof *t}, {.struct_size = sizeof *t}};
  for (int i = 0; i < 2 * 4 * 16; i++) x[i] = i % 16 < 5 ? (float)i : -1e30f, y[i] = -7;
  for (int i = 0; i < 8 * 16; i++) W[i] = i % 16 < 5 ? 2 : -1e30f;
  dl_of(&d, x, 3, shape, strides);
  dl_of(&w, W, 2, shape + 1, strides + 1);
  dl_of(&out, y, 3, shape, strides);
  cr_assert_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &t[0], &err), SPC_OK, "%s",
               err.message);
  cr_expect(t[0].pitch == 16 && t[0].value_count == 7 * 16 + 5);
  cr_assert_eq(spc_tensor_from_dlpack(made.plan, "W", SPC_FOR_RUN, &w.t, &t[1], &err), SPC_OK, "%s",
               err.message);
  cr_assert_eq(spc_tensor_from_dlpack(made.plan, "y", SPC_FOR_RUN, &out.t, &t[2], &err), SPC_OK,
               "%s", err.message);
  t[3] = (spc_tensor){.struct_size = sizeof *t,
                      .name = "s",
                      .dtype = "f32",
                      .rank = 2,
                      .shape = {2, 4},
                      .values = s,
                      .value_count = 8};
  cr_assert_eq(spc_run(made.plan, t, 4, &err), SPC_OK, "%s", err.message);
  for (int i = 0; i < 7 * 16 + 5; i++) cr_expect_eq(y[i], i % 16 < 5 ? 2 * x[i] : -7);
  spc_dl_view view;
  cr_assert_eq(spc_tensor_to_dlpack(made.plan, &t[2], SPC_FOR_RUN, SPC_PART_VALUES, 0, &view, &err),
               SPC_OK);
  cr_expect(!memcmp(view.strides, strides, sizeof strides) &&
            !memcmp(view.shape, shape, sizeof shape));
  dl_of(&d, x, 3, shape, wide);
  cr_assert_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &t[0], &err), SPC_OK, "%s", err.message);
  cr_expect(!t[0].pitch && !memcmp(t[0].strides, wide, sizeof wide) && t[0].value_count == 80 + 3 * 16 + 5);
  cr_assert_eq(spc_tensor_to_dlpack(made.plan, &t[0], SPC_FOR_RUN, SPC_PART_VALUES, 0, &view, &err), SPC_OK);
  cr_expect(!memcmp(view.strides, wide, sizeof wide));
  const int64_t same[] = {0, 0, 1}; /* one row for all, as NumPy's broadcast_to has it */
  dl_of(&d, x, 3, shape, same);
  cr_assert_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &t[0], &err), SPC_OK, "%s", err.message);
  cr_assert_eq(spc_run(made.plan, t, 4, &err), SPC_OK, "%s", err.message);
  for (int i = 0; i < 7 * 16 + 5; i++) cr_expect_eq(y[i], i % 16 < 5 ? 2 * x[i % 16] : -7);
  dl_of(&out, y, 3, shape, same);
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "y", SPC_FOR_RUN, &out.t, &t[2], &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`y`: `strides["), "%s", err.message);
  const int64_t back[] = {64, -16, 1}, every[] = {64, 16, 2}, one[] = {1, 4, 5};
  dl_of(&d, x, 3, shape, back);
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &t[0], &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`strides[1]` is -16"), "%s", err.message);
  dl_of(&d, x, 3, shape, every);
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &t[0], &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "`strides[2]` is 2"), "%s", err.message);
  dl_of(&d, x, 3, one, back); /* of an axis of one place a stride says nothing, of others it does */
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &t[0], &err), SPC_INVALID_INPUT);
  spc_tensor before = {.struct_size = offsetof(spc_tensor, strides)};
  dl_of(&d, x, 3, shape, wide);
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &before, &err), SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "older header"), "%s", err.message);
  dl_of(&d, x, 3, shape, strides);
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &before, &err), SPC_OK, "%s", err.message);
  cr_expect_eq(before.pitch, 16);
  spc_tensor old = {.struct_size = offsetof(spc_tensor, pitch)};
  cr_expect_eq(spc_tensor_from_dlpack(made.plan, "x", SPC_FOR_RUN, &d.t, &old, &err),
               SPC_INVALID_INPUT);
  cr_expect(strstr(err.message, "older header"), "%s", err.message);
  stand_free(&made);
}
