/* cublaslt.c - products by cuBLASLt, see cublaslt.h.
 *
 * Search order: SPC_CUBLASLT_LIB, the loader's path, the toolkit's folder.  It is looked for once
 * in a process and never unloaded.  The library thinks in columns: a row-major T = A B is its T^T =
 * B^T A^T, so our B is its first operand and our n its rows.  Algorithms that round partial sums to
 * the result's type are not asked for: sums stay in the accumulator. */
#include "runtime/cublaslt.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/cuda_driver.h"

/* ---- numbers of its interface ---------------------------------------------------------------- */
enum {
  DESC_TRANS_A = 3,
  DESC_TRANS_B = 4,
  DESC_EPILOGUE = 7,
  DESC_BIAS = 8,
  DESC_BIAS_TYPE = 26,
  LAYOUT_BATCHES = 5,
  LAYOUT_BATCH_STRIDE = 6,
  PREFER_WORKSPACE = 1,
  PREFER_REDUCTION = 3,
  PREFER_ALIGNMENT = 5, /* of its A; of B, C and D the next three */
  EPILOGUE_NONE = 1,
  EPILOGUE_RELU = 2,
  EPILOGUE_BIAS = 4,
  REDUCTION_IN_ACCUMULATOR = 2,
  COMPUTE_F32 = 68,
  COMPUTE_F64 = 70,
  COMPUTE_I32 = 72
};

typedef struct lt_algorithm {
  uint64_t opaque[8];
} lt_algorithm;
typedef struct lt_found {
  lt_algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} lt_found;

#define LT_FUNCTIONS(F)                                                                            \
  F(create, "cublasLtCreate", (void **handle))                                                     \
  F(destroy, "cublasLtDestroy", (void *handle))                                                    \
  F(desc_new, "cublasLtMatmulDescCreate", (void **desc, int compute, int scale))                   \
  F(desc_set, "cublasLtMatmulDescSetAttribute",                                                    \
    (void *desc, int what, const void *value, size_t bytes))                                       \
  F(desc_free, "cublasLtMatmulDescDestroy", (void *desc))                                          \
  F(layout_new, "cublasLtMatrixLayoutCreate",                                                      \
    (void **layout, int type, uint64_t rows, uint64_t columns, int64_t pitch))                     \
  F(layout_set, "cublasLtMatrixLayoutSetAttribute",                                                \
    (void *layout, int what, const void *value, size_t bytes))                                     \
  F(layout_free, "cublasLtMatrixLayoutDestroy", (void *layout))                                    \
  F(prefer_new, "cublasLtMatmulPreferenceCreate", (void **preference))                             \
  F(prefer_set, "cublasLtMatmulPreferenceSetAttribute",                                            \
    (void *preference, int what, const void *value, size_t bytes))                                 \
  F(prefer_free, "cublasLtMatmulPreferenceDestroy", (void *preference))                            \
  F(find, "cublasLtMatmulAlgoGetHeuristic",                                                        \
    (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int wanted,   \
     lt_found *found, int *count))                                                                 \
  F(multiply, "cublasLtMatmul",                                                                    \
    (void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b,    \
     void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,     \
     const lt_algorithm *algorithm, void *workspace, size_t workspace_bytes, void *stream))

typedef struct lt_library {
  void *open;
  char why[320]; /* it is not there */
#define LT_FIELD(FIELD, NAME, PARAMETERS) int(*FIELD) PARAMETERS;
  LT_FUNCTIONS(LT_FIELD)
#undef LT_FIELD
} lt_library;

static lt_library library; /* written once, under `once` */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- finding it ------------------------------------------------------------------------------ */
static bool find_symbols(void) {
#define LT_FIND(FIELD, NAME, PARAMETERS)                                                           \
  {                                                                                                \
    void *symbol = dlsym(library.open, NAME);                                                      \
    if (!symbol) return false;                                                                     \
    memcpy(&library.FIELD, &symbol, sizeof symbol);                                                \
  }
  LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
  return true;
}

static bool open_path(const char *path) {
  library.open = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library.open && find_symbols()) return true;
  library.open = NULL; /* it stays loaded: unloading loses what its C++ library holds */
  return false;
}

static void find_library(void) {
  static const char *const paths[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                      "/usr/local/cuda/lib64/libcublasLt.so.13",
                                      "/usr/local/cuda/lib64/libcublasLt.so.12"};
  const char *named = getenv("SPC_CUBLASLT_LIB");
  if (named && *named) {
    if (!open_path(named))
      snprintf(library.why, sizeof library.why,
               "SPC_CUBLASLT_LIB names `%.200s`, which cannot be loaded", named);
    return;
  }
  for (int i = 0; i < IR_COUNT(paths); i++)
    if (open_path(paths[i])) return;
  snprintf(library.why, sizeof library.why, "libcublasLt.so.13 or .12 was not found");
}

const char *rt_cublaslt_missing(void) {
  pthread_once(&once, find_library);
  return library.open ? NULL : library.why;
}

void rt_cublaslt_close(rt_cuda *cuda) {
  if (cuda->cublaslt) library.destroy(cuda->cublaslt);
  cuda->cublaslt = NULL;
}

/* ---- one call -------------------------------------------------------------------------------- */
typedef union lt_scalar {
  float f32;
  double f64;
  int32_t i32;
} lt_scalar;

enum { A, B, C, D, OPERANDS }; /* the library's */

typedef struct lt_sizes {
  int64_t m, n, k, batches, pitch[OPERANDS], apart[OPERANDS];
} lt_sizes;

struct rt_cublaslt_call {
  const spc_allocator *from;
  void *handle, *desc, *layout[OPERANDS];
  void *at[OPERANDS], *workspace;
  size_t workspace_bytes;
  lt_scalar alpha, beta;
  lt_algorithm algorithm;
  lt_sizes sizes; /* it was settled for these, and for arrays so aligned */
  uint32_t alignment[OPERANDS];
};

static int type_of(ir_dtype t) {
  switch (t) {
  case IR_F32: return 0;
  case IR_F64: return 1;
  case IR_F16: return 2;
  case IR_I8: return 3;
  case IR_I32: return 10;
  case IR_BF16: return 14;
  default: return -1;
  }
}

static ir_dtype accumulator_of(ir_dtype t) {
  return t == IR_F64 ? IR_F64 : t == IR_I8 ? IR_I32 : IR_F32;
}

static lt_scalar scalar_of(ir_dtype t, double value) {
  lt_scalar s = {0};
  if (t == IR_F64) s.f64 = value;
  if (t == IR_F32) s.f32 = (float)value;
  if (t == IR_I32) s.i32 = (int32_t)value;
  return s;
}

/* Sizes of a call as numbers; false where one cannot be computed or is 0. */
static bool matrix_sizes(const ir_library_matrix *m, const int64_t *sizes, int64_t *pitch,
                         int64_t *apart) {
  *apart = 0;
  return ir_size_value(m->pitch, sizes, pitch) && *pitch > 0 &&
         (!m->batch_stride || ir_size_value(m->batch_stride, sizes, apart));
}

static bool sizes_of(const ir_library_call *c, const int64_t *sizes, lt_sizes *s) {
  s->batches = 1;
  bool good = ir_size_value(c->m, sizes, &s->m) && ir_size_value(c->n, sizes, &s->n) &&
              ir_size_value(c->k, sizes, &s->k) &&
              (!c->batch || ir_size_value(c->batch, sizes, &s->batches)) &&
              matrix_sizes(&c->b, sizes, &s->pitch[A], &s->apart[A]) &&
              matrix_sizes(&c->a, sizes, &s->pitch[B], &s->apart[B]) &&
              matrix_sizes(&c->t, sizes, &s->pitch[D], &s->apart[D]);
  s->pitch[C] = s->pitch[D];
  s->apart[C] = s->apart[D];
  return good && s->m > 0 && s->n > 0 && s->k > 0 && s->batches > 0 && s->m <= INT32_MAX &&
         s->n <= INT32_MAX && s->k <= INT32_MAX && s->batches <= UINT16_MAX;
}

static int new_layout(const lt_sizes *s, int operand, ir_dtype dtype, int64_t rows, int64_t columns,
                      void **out) {
  int32_t batches = (int32_t)s->batches;
  int64_t apart = s->apart[operand], pitch = s->pitch[operand];
  int status = library.layout_new(out, type_of(dtype), (uint64_t)rows, (uint64_t)columns,
                                  pitch < rows ? rows : pitch); /* of one column it says nothing */
  if (!status && batches > 1)
    status = library.layout_set(*out, LAYOUT_BATCHES, &batches, sizeof batches);
  if (!status && batches > 1)
    status = library.layout_set(*out, LAYOUT_BATCH_STRIDE, &apart, sizeof apart);
  return status;
}

/* Its A is our B: n x k in columns when our rows are k, else to be transposed; B likewise. */
static int new_layouts(rt_cublaslt_call *call, const ir_library_call *c, const lt_sizes *s) {
  bool turn_a = c->b.layout == 'c', turn_b = c->a.layout == 'c';
  int32_t transposed = 1;
  int status =
      new_layout(s, A, c->b.dtype, turn_a ? s->k : s->n, turn_a ? s->n : s->k, &call->layout[A]);
  if (!status)
    status =
        new_layout(s, B, c->a.dtype, turn_b ? s->m : s->k, turn_b ? s->k : s->m, &call->layout[B]);
  if (!status) status = new_layout(s, C, c->t.dtype, s->n, s->m, &call->layout[C]);
  if (!status) status = new_layout(s, D, c->t.dtype, s->n, s->m, &call->layout[D]);
  if (!status && turn_a)
    status = library.desc_set(call->desc, DESC_TRANS_A, &transposed, sizeof transposed);
  if (!status && turn_b)
    status = library.desc_set(call->desc, DESC_TRANS_B, &transposed, sizeof transposed);
  return status;
}

static int set_epilogue(rt_cublaslt_call *call, const ir_library_call *c) {
  uint32_t epilogue = (c->relu ? EPILOGUE_RELU : 0) | (c->bias >= 0 ? EPILOGUE_BIAS : 0);
  int32_t type = type_of(c->t.dtype);
  if (!epilogue) epilogue = EPILOGUE_NONE;
  int status = library.desc_set(call->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (status || c->bias < 0) return status;
  return library.desc_set(call->desc, DESC_BIAS_TYPE, &type, sizeof type);
}

bool rt_cublaslt_aim(rt_cublaslt_call *call, const ir_library_call *c, void *const *buf) {
  call->at[A] = buf[c->b.buf];
  call->at[B] = buf[c->a.buf];
  call->at[D] = buf[c->t.buf];
  call->at[C] = c->residual >= 0 ? buf[c->residual] : call->at[D];
  call->workspace = buf[c->workspace];
  return c->bias < 0 ||
         !library.desc_set(call->desc, DESC_BIAS, &buf[c->bias], sizeof buf[c->bias]);
}

static uint32_t alignment_of(const void *at, int64_t pitch, int64_t apart, ir_dtype dtype) {
  uint64_t bytes = ir_dtype_bytes(dtype);
  uint64_t all = (uint64_t)(uintptr_t)at | (uint64_t)pitch * bytes | (uint64_t)apart * bytes | 256;
  return (uint32_t)(all & (~all + 1));
}

static void note_alignments(rt_cublaslt_call *call, const ir_library_call *c, const lt_sizes *s) {
  const ir_dtype dtype[OPERANDS] = {c->b.dtype, c->a.dtype, c->t.dtype, c->t.dtype};
  for (int i = 0; i < OPERANDS; i++)
    call->alignment[i] = alignment_of(call->at[i], s->pitch[i], s->apart[i], dtype[i]);
}

/* The first of what the library proposes.  Its status says nothing but "none". */
static bool find_algorithm(rt_cublaslt_call *call) {
  uint32_t reduction = REDUCTION_IN_ACCUMULATOR;
  void *preference = NULL;
  lt_found found = {.state = -1};
  int count = 0;
  int status = library.prefer_new(&preference);
  if (!status)
    status = library.prefer_set(preference, PREFER_WORKSPACE, &call->workspace_bytes,
                                sizeof call->workspace_bytes);
  if (!status)
    status = library.prefer_set(preference, PREFER_REDUCTION, &reduction, sizeof reduction);
  for (int i = 0; i < OPERANDS && !status; i++)
    status = library.prefer_set(preference, PREFER_ALIGNMENT + i, &call->alignment[i],
                                sizeof call->alignment[i]);
  if (!status)
    status = library.find(call->handle, call->desc, call->layout[A], call->layout[B],
                          call->layout[C], call->layout[D], preference, 1, &found, &count);
  if (preference) library.prefer_free(preference);
  call->algorithm = found.algorithm;
  return !status && count > 0 && !found.state && found.workspace <= call->workspace_bytes;
}

/* Stands for arrays that are not known yet. */
static bool aim_at_any(rt_cublaslt_call *call, const ir_library_call *c) {
  void *any = (void *)(uintptr_t)RT_LIBRARY_ALIGN;
  for (int i = 0; i < OPERANDS; i++) call->at[i] = any;
  return c->bias < 0 || !library.desc_set(call->desc, DESC_BIAS, &any, sizeof any);
}

static bool settle(rt_cublaslt_call *call, const ir_library_call *c, const lt_sizes *s,
                   void *const *buf) {
  ir_dtype acc = accumulator_of(c->a.dtype);
  int compute = acc == IR_F64 ? COMPUTE_F64 : acc == IR_I32 ? COMPUTE_I32 : COMPUTE_F32;
  call->workspace_bytes = c->workspace_bytes;
  call->alpha = scalar_of(acc, c->alpha);
  call->beta = scalar_of(acc, c->residual >= 0);
  call->sizes = *s;
  if (library.desc_new(&call->desc, compute, type_of(acc)) || new_layouts(call, c, s) ||
      set_epilogue(call, c) || !(buf ? rt_cublaslt_aim(call, c, buf) : aim_at_any(call, c)))
    return false;
  note_alignments(call, c, s);
  return find_algorithm(call);
}

bool rt_cublaslt_again(rt_cublaslt_call *call, const ir_library_call *c, const int64_t *sizes,
                       void *const *buf) {
  uint32_t before[OPERANDS];
  lt_sizes s = {0};
  if (!sizes_of(c, sizes, &s) || memcmp(&s, &call->sizes, sizeof s) != 0) return false;
  memcpy(before, call->alignment, sizeof before);
  if (!rt_cublaslt_aim(call, c, buf)) return false;
  note_alignments(call, c, &s);
  return !memcmp(before, call->alignment, sizeof before);
}

/* Plans of one device share it and may be settled by several threads. */
static bool have_handle(rt_cuda *cuda) {
  static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&creating);
  if (!cuda->cublaslt && library.create(&cuda->cublaslt)) cuda->cublaslt = NULL;
  pthread_mutex_unlock(&creating);
  return cuda->cublaslt != NULL;
}

spc_status rt_cublaslt_settle(rt_cuda *cuda, const ir_library_call *call, const int64_t *sizes,
                              void *const *buf, rt_cublaslt_call **out) {
  lt_sizes s = {0};
  *out = NULL;
  if (rt_cublaslt_missing() || !sizes_of(call, sizes, &s)) return SPC_OK;
  SPC_TRY(rt_driver_enter(cuda));
  if (!have_handle(cuda)) return SPC_OK;
  rt_cublaslt_call *made = ir_take(cuda->allocator, sizeof *made, IR_TAKE_ALIGN);
  if (!made) return SPC_OUT_OF_MEMORY;
  made->from = cuda->allocator;
  cuda->counters.library_settled++;
  made->handle = cuda->cublaslt;
  if (settle(made, call, &s, buf))
    *out = made;
  else
    rt_cublaslt_free(made);
  return SPC_OK;
}

spc_status rt_cublaslt_run(rt_cuda *cuda, const rt_cublaslt_call *c, void *stream) {
  int status =
      library.multiply(c->handle, c->desc, &c->alpha, c->at[A], c->layout[A], c->at[B],
                       c->layout[B], &c->beta, c->at[C], c->layout[C], c->at[D], c->layout[D],
                       &c->algorithm, c->workspace, c->workspace_bytes, stream);
  cuda->counters.launches++;
  cuda->counters.library_calls++;
  if (!status) return SPC_OK;
  snprintf(cuda->error, sizeof cuda->error, "cublasLtMatmul: status %d", status);
  return SPC_INTERNAL;
}

void rt_cublaslt_free(rt_cublaslt_call *call) {
  if (!call) return;
  for (int i = 0; i < OPERANDS; i++)
    if (call->layout[i]) library.layout_free(call->layout[i]);
  if (call->desc) library.desc_free(call->desc);
  ir_give_back(call->from, call);
}
