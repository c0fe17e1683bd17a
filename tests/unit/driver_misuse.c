/* The misuse of the public interface as one table: each has a status and a message that names the
 * argument, writes no result, and leaves the same handles fit for use: after each of them the plan
 * runs again, both ways, and the result is compared.
 *
 * Misuses of DLPack tensors (driver_dlpack.c) and of builders (driver_builder.c) stand beside what
 * they build on. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "spc.h"

enum { N = 6, M = 5, STORED = 9, ALIGN = 256 };
static const char text[] =
    "spx 1; dim N: dyn <= 100; dim M: dyn % 5; kernel k { in A: f32[N,M] as csr; in x: f32[M];"
    " out y[i] = sum[j] A[i,j] * x[j]; out z[i,j] = 2 * A[i,j] as like(A); }"
    " kernel add { in A: f32[N,M] as csr; in B: f32[N,M] as csr; out C[i,j] = A[i,j] + B[i,j] as "
    "csr; }";

typedef struct stand {
  spc_context *context;
  spc_program *program;
  spc_plan *plan, *cold, *add;
  spc_tensor t[4], c[3]; /* of k: A, x, y, z; of add: A, B, C */
  int32_t pos[N + 1], crd[STORED], cpos[N + 1], ccrd[STORED];
  float a[STORED], x[M], y[N], z[STORED], cv[STORED];
  char *workspace;
  size_t bytes;
  spc_error err;
} stand;

static spc_tensor tensor(const char *name, int rank, int64_t rows, int64_t columns, void *values,
                         int64_t count) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = rank};
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.values = values;
  t.value_count = count;
  return t;
}

static spc_tensor csr(const char *name, int32_t *pos, int32_t *crd, float *values) {
  spc_tensor t = tensor(name, 2, N, M, values, STORED);
  t.pos[1] = pos;
  t.crd[1] = crd;
  t.pos_count[1] = N + 1;
  t.crd_count[1] = STORED;
  return t;
}

/* Tensors as they should be, results poisoned. */
static void reset(stand *s) {
  s->err = (spc_error)SPC_ERROR_INIT;
  memset(s->y, 0xff, sizeof s->y);
  memset(s->z, 0xff, sizeof s->z);
  memset(s->cv, 0xff, sizeof s->cv);
  memset(s->ccrd, 0xff, sizeof s->ccrd);
  memset(s->cpos, 0xff, sizeof s->cpos);
  s->t[0] = csr("A", s->pos, s->crd, s->a);
  s->t[1] = tensor("x", 1, M, 0, s->x, M);
  s->t[2] = tensor("y", 1, N, 0, s->y, N);
  s->t[3] = tensor("z", 2, N, M, s->z, STORED);
  s->c[0] = s->t[0];
  s->c[1] = csr("B", s->pos, s->crd, s->a);
  s->c[2] = csr("C", s->cpos, s->ccrd, s->cv);
}

static bool all_ff(const void *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i++)
    if (((const unsigned char *)at)[i] != 0xff) return false;
  return true;
}

static bool nothing_written(const stand *s) {
  return all_ff(s->y, sizeof s->y) && all_ff(s->z, sizeof s->z) && all_ff(s->cv, sizeof s->cv) &&
         all_ff(s->ccrd, sizeof s->ccrd) && all_ff(s->cpos, sizeof s->cpos);
}

static stand *stand_new(void) {
  stand *s = calloc(1, sizeof *s);
  spc_context_options options = {.struct_size = sizeof options, .backend = "cpu", .threads = 2};
  for (int i = 0; i < STORED; i++) {
    s->crd[i] = i < 5 ? i : i - 5;
    s->a[i] = (float)(i + 1);
  }
  for (int i = 0; i <= N; i++) s->pos[i] = i == 0 ? 0 : i < 3 ? 5 : STORED;
  for (int j = 0; j < M; j++) s->x[j] = (float)(1 << j);
  reset(s);
  cr_assert_eq(spc_context_new(&options, &s->context, &s->err), SPC_OK);
  cr_assert_eq(spc_program_from_text(s->context, text, strlen(text), NULL, &s->program, &s->err),
               SPC_OK, "%s\n%s", s->err.message, s->err.diagnostics);
  cr_assert_eq(spc_plan_new(s->program, "k", NULL, 0, &s->plan, &s->err), SPC_OK);
  cr_assert_eq(spc_plan_new(s->program, "k", NULL, 0, &s->cold, &s->err), SPC_OK);
  cr_assert_eq(spc_plan_new(s->program, "add", NULL, 0, &s->add, &s->err), SPC_OK);
  cr_assert_eq(spc_plan_prepare(s->plan, &s->err), SPC_OK);
  cr_assert_eq(spc_workspace(s->plan, s->t, 4, &s->bytes, &s->err), SPC_OK);
  s->workspace = aligned_alloc(ALIGN, s->bytes + 2 * ALIGN - s->bytes % ALIGN);
  return s;
}

static void stand_free(stand *s) {
  free(s->workspace);
  spc_plan_free(s->plan);
  spc_plan_free(s->cold);
  spc_plan_free(s->add);
  spc_program_free(s->program);
  spc_context_free(s->context);
  free(s);
}

static bool is_right(const stand *s) {
  for (int i = 0; i < N; i++) {
    float want = 0;
    for (int p = s->pos[i]; p < s->pos[i + 1]; p++) want += s->a[p] * s->x[s->crd[p]];
    if (s->y[i] != want) return false;
  }
  for (int p = 0; p < STORED; p++)
    if (s->z[p] != 2 * s->a[p]) return false;
  return true;
}

/* The same handles still do their work. */
static bool still_works(stand *s) {
  reset(s);
  if (spc_run(s->plan, s->t, 4, &s->err) || !is_right(s)) return false;
  reset(s);
  if (spc_enqueue(s->plan, s->t, 4, s->workspace, s->bytes, NULL, &s->err) || !is_right(s))
    return false;
  reset(s);
  return !spc_run(s->add, s->c, 3, &s->err) && s->cv[8] == 2 * s->a[8] && s->cpos[N] == STORED;
}

/* ---- calls ----------------------------------------------------------------------------------- */
static spc_status run(stand *s) { return spc_run(s->plan, s->t, 4, &s->err); }
static spc_status count(stand *s) { return spc_count(s->add, s->c, 3, &s->err); }
static spc_status add(stand *s) { return spc_run(s->add, s->c, 3, &s->err); }
static spc_status enqueue(stand *s) {
  return spc_enqueue(s->plan, s->t, 4, s->workspace, s->bytes, NULL, &s->err);
}
static spc_status shapes(stand *s) { return spc_plan_shapes(s->plan, s->t, 4, &s->err); }

static spc_status context_with(stand *s, spc_context_options o) {
  spc_context *none = (spc_context *)s;
  spc_status status = spc_context_new(&o, &none, &s->err);
  cr_expect(!none, "the out parameter is NULL");
  return status;
}
static spc_status program_with(stand *s, const char *what, const spc_program_options *o) {
  spc_program *none = (spc_program *)s;
  spc_status status = spc_program_from_text(s->context, what, strlen(what), o, &none, &s->err);
  cr_expect(!none, "the out parameter is NULL");
  return status;
}
static spc_status plan_with(stand *s, const char *kernel, spc_size size) {
  spc_plan *none = (spc_plan *)s;
  spc_status status = spc_plan_new(s->program, kernel, &size, 1, &none, &s->err);
  cr_expect(!none, "the out parameter is NULL");
  return status;
}

static void *no_memory(void *user, spc_memory kind, size_t bytes, size_t alignment) {
  (void)user, (void)kind, (void)bytes, (void)alignment;
  return NULL;
}
static void no_release(void *user, spc_memory kind, void *at) { (void)user, (void)kind, (void)at; }
static spc_status context_of(stand *s, const spc_allocator *a) {
  return context_with(s, (spc_context_options){.struct_size = sizeof(spc_context_options),
                                               .backend = "cpu",
                                               .allocator = a});
}

/* Lines of the table: a name, what the message holds, the status, and the misuse. */
typedef struct misuse {
  const char *what, *words;
  spc_status status;
  spc_status (*call)(stand *s);
} misuse;

/* clang-format off */
#define M_(NAME, ...) static spc_status NAME(stand *s) { __VA_ARGS__ }
/* contexts */
M_(ctx_null, return spc_context_new(NULL, NULL, &s->err);)
M_(ctx_backend, return context_with(s, (spc_context_options){.struct_size = sizeof(spc_context_options), .backend = "abacus"});)
M_(ctx_threads, return context_with(s, (spc_context_options){.struct_size = sizeof(spc_context_options), .threads = -3});)
M_(ctx_size, return context_with(s, (spc_context_options){.backend = "cpu"});)
M_(ctx_newer, struct { spc_context_options o; char more[8]; } n = {.o = {.struct_size = sizeof n}, .more = {1}};
   spc_context *none; return spc_context_new(&n.o, &none, &s->err);)
M_(ctx_alloc_size, spc_allocator a = {.allocate = no_memory, .release = no_release}; return context_of(s, &a);)
M_(ctx_alloc_take, spc_allocator a = {.struct_size = sizeof a, .release = no_release}; return context_of(s, &a);)
M_(ctx_alloc_give, spc_allocator a = {.struct_size = sizeof a, .allocate = no_memory}; return context_of(s, &a);)
M_(ctx_alloc_newer, struct { spc_allocator a; char more[8]; } n = {.a = {.struct_size = sizeof n, .allocate = no_memory, .release = no_release}, .more = {1}};
   return context_of(s, &n.a);)
/* programs */
M_(prog_ctx, spc_program *p; return spc_program_from_text(NULL, text, 1, NULL, &p, &s->err);)
M_(prog_text, spc_program *p; return spc_program_from_text(s->context, NULL, 1, NULL, &p, &s->err);)
M_(prog_out, return spc_program_from_text(s->context, text, sizeof text - 1, NULL, NULL, &s->err);)
M_(prog_empty, return program_with(s, "", NULL);)
M_(prog_syntax, return program_with(s, "spx 1; kernel k { in x: f32[; }", NULL);)
M_(prog_unbound, return program_with(s, "spx 1; dim N: dyn; kernel k { in x: f32[N]; out y[i] = x[j]; }", NULL);)
M_(prog_utf8, return program_with(s, "spx 1; // \xff\xfe\n", NULL);)
M_(prog_size, spc_program_options o = {.reproducible = 1}; return program_with(s, text, &o);)
M_(prog_fixed, spc_size f = {"Q", 3}; spc_program_options o = {.struct_size = sizeof o, .fixed = &f, .fixed_count = 1}; return program_with(s, text, &o);)
M_(prog_fixed_null, spc_program_options o = {.struct_size = sizeof o, .fixed_count = 1}; return program_with(s, text, &o);)
M_(prog_fixed_name, spc_size f = {NULL, 3}; spc_program_options o = {.struct_size = sizeof o, .fixed = &f, .fixed_count = 1}; return program_with(s, text, &o);)
M_(prog_fixed_count, spc_program_options o = {.struct_size = sizeof o, .fixed_count = -1}; return program_with(s, text, &o);)
M_(prog_positions, spc_program_options o = {.struct_size = sizeof o, .positions = "i16"}; return program_with(s, text, &o);)
M_(file_missing, spc_program *p; return spc_program_from_file(s->context, "/nowhere/at/all.spx", NULL, &p, &s->err);)
M_(file_folder, spc_program *p; return spc_program_from_file(s->context, "/", NULL, &p, &s->err);)
M_(file_null, spc_program *p; return spc_program_from_file(s->context, NULL, NULL, &p, &s->err);)
M_(builder_ctx, spc_builder *b; return spc_builder_new(NULL, &b, &s->err);)
M_(builder_null, spc_program *p; return spc_program_from_builder(NULL, NULL, &p, &s->err);)
/* plans */
M_(plan_prog, spc_plan *p; return spc_plan_new(NULL, "k", NULL, 0, &p, &s->err);)
M_(plan_out, return spc_plan_new(s->program, "k", NULL, 0, NULL, &s->err);)
M_(plan_several, spc_plan *p; return spc_plan_new(s->program, NULL, NULL, 0, &p, &s->err);)
M_(plan_unknown, spc_plan *p; return spc_plan_new(s->program, "K", NULL, 0, &p, &s->err);)
M_(plan_sizes, spc_plan *p; return spc_plan_new(s->program, "k", NULL, 2, &p, &s->err);)
M_(plan_dim, return plan_with(s, "k", (spc_size){"Q", 3});)
M_(plan_dim_null, return plan_with(s, "k", (spc_size){NULL, 3});)
M_(plan_negative, return plan_with(s, "k", (spc_size){"N", -3});)
M_(prepare_null, return spc_plan_prepare(NULL, &s->err);)
M_(prepare_never, return spc_plan_prepare(s->add, &s->err);)
M_(info_i, spc_tensor_info i = {.struct_size = sizeof i}; return spc_plan_tensor(s->plan, 4, &i, &s->err);)
M_(info_null, return spc_plan_tensor(s->plan, 0, NULL, &s->err);)
M_(info_size, spc_tensor_info i = {0}; return spc_plan_tensor(s->plan, 0, &i, &s->err);)
M_(describe_null, return spc_plan_describe(s->plan, NULL, &s->err);)
M_(describe_plan, spc_plan_info i = {.struct_size = sizeof i}; return spc_plan_describe(NULL, &i, &s->err);)
M_(launch_i, spc_launch_info i = {.struct_size = sizeof i}; return spc_plan_launch(s->plan, -1, &i, &s->err);)
M_(guard_i, spc_guard_info i = {.struct_size = sizeof i}; return spc_plan_guard(s->plan, 0, &i, &s->err);)
/* tensors of a run */
M_(run_plan, return spc_run(NULL, s->t, 4, &s->err);)
M_(run_tensors, return spc_run(s->plan, NULL, 4, &s->err);)
M_(run_count, return spc_run(s->plan, s->t, -1, &s->err);)
M_(run_input, return spc_run(s->plan, s->t + 1, 3, &s->err);)
M_(run_output, return spc_run(s->plan, s->t, 3, &s->err);)
M_(run_name, s->t[1].name = "X"; return run(s);)
M_(run_nameless, s->t[1].name = NULL; return run(s);)
M_(run_twice, s->t[3].name = "y"; return run(s);)
M_(run_size, s->t[0].struct_size = 16; return run(s);)
M_(run_size_later, s->t[2].struct_size += 8; return run(s);)
M_(run_rank, s->t[1].rank = 2; return run(s);)
M_(run_rank_huge, s->t[0].rank = 99; return run(s);)
M_(run_dtype, s->t[1].dtype = "f64"; return run(s);)
M_(run_dtype_null, s->t[1].dtype = NULL; return run(s);)
M_(run_index, s->t[0].index_dtype = "i8"; return run(s);)
M_(run_negative, s->t[1].shape[0] = -5; return run(s);)
M_(run_disagree, s->t[1].shape[0] = 10; return run(s);)
M_(run_bound, s->t[0].shape[0] = 101; s->t[2].shape[0] = s->t[3].shape[0] = 101;
   s->t[0].pos_count[1] = 102; s->t[2].value_count = 101; return enqueue(s);)
M_(run_multiple, s->t[0].shape[1] = s->t[1].shape[0] = s->t[3].shape[1] = 4; return enqueue(s);)
M_(run_null, s->t[1].values = NULL; return run(s);)
M_(run_no_pos, s->t[0].pos[1] = NULL; return run(s);)
M_(run_short_pos, s->t[0].pos_count[1]--; return run(s);)
M_(run_short_crd, s->t[0].crd_count[1]--; return run(s);)
M_(run_bad_pos, s->pos[2]++; s->pos[1] += 3; spc_status r = run(s); s->pos[2]--; s->pos[1] -= 3; return r;)
M_(run_bad_crd, s->crd[1] = M; spc_status r = run(s); s->crd[1] = 1; return r;)
M_(run_unsorted, s->crd[0] = 1; s->crd[1] = 0; spc_status r = run(s); s->crd[0] = 0; s->crd[1] = 1; return r;)
M_(out_shape, s->t[2].shape[0]--; return run(s);)
M_(out_room, s->t[2].value_count--; return run(s);)
M_(out_like_room, s->t[3].value_count = 0; return run(s);)
M_(out_null, s->t[2].values = NULL; return run(s);)
M_(out_sparse_room, s->c[2].crd_count[1]--; return add(s);)
M_(out_sparse_null, s->c[2].pos[1] = NULL; return add(s);)
M_(count_plan, return spc_count(NULL, s->c, 3, &s->err);)
M_(count_input, return spc_count(s->add, s->c, 1, &s->err);)
M_(count_name, s->c[2].name = "D"; return count(s);)
M_(shapes_plan, return spc_plan_shapes(NULL, s->t, 4, &s->err);)
M_(shapes_disagree, s->t[1].shape[0] = 10; return shapes(s);)
/* runs on the caller's stream */
M_(enq_cold, return spc_enqueue(s->cold, s->t, 4, s->workspace, s->bytes, NULL, &s->err);)
M_(enq_plan, return spc_enqueue(NULL, s->t, 4, s->workspace, s->bytes, NULL, &s->err);)
M_(enq_count, return spc_enqueue(s->plan, s->t, -4, s->workspace, s->bytes, NULL, &s->err);)
M_(enq_align, return spc_enqueue(s->plan, s->t, 4, s->workspace + 8, s->bytes, NULL, &s->err);)
M_(enq_null, return spc_enqueue(s->plan, s->t, 4, NULL, s->bytes + 1, NULL, &s->err);)
M_(enq_missing, return spc_enqueue(s->plan, s->t, 2, s->workspace, s->bytes, NULL, &s->err);)
M_(enq_values, s->t[1].values = NULL; return enqueue(s);)
M_(enq_room, s->t[2].value_count--; return enqueue(s);)
M_(enq_name, s->t[1].name = "X"; return enqueue(s);)
M_(enq_nameless, s->t[1].name = NULL; return enqueue(s);)
M_(enq_twice, s->t[2].name = "x"; return enqueue(s);)
M_(enq_struct, s->t[0].struct_size = 8; return enqueue(s);)
M_(enq_rank, s->t[1].rank = 100; return enqueue(s);)
M_(enq_dtype, s->t[1].dtype = "f64"; return enqueue(s);)
M_(enq_negative, s->t[1].shape[0] = -1; return enqueue(s);)
M_(enq_huge, s->t[0].shape[0] = s->t[0].shape[1] = INT64_MAX; return enqueue(s);)
M_(enq_disagree, s->t[1].shape[0] = 10; return enqueue(s);)
M_(enq_shape, s->t[2].shape[0]--; return enqueue(s);)
M_(enq_nowhere, s->t[2].values = NULL; return enqueue(s);)
M_(enq_like_room, s->t[3].value_count--; return enqueue(s);)
M_(run_pitch, s->t[1].pitch = M - 1; return run(s);)
M_(run_pitch_sparse, s->t[0].pitch = M + 1; return run(s);)
M_(enq_pitch, s->t[1].pitch = -4; return enqueue(s);)
M_(run_strides, s->t[1].strides[0] = 2; return run(s);)
M_(run_strides_sparse, s->t[0].strides[1] = 1; return run(s);)
M_(run_strides_pitch, s->t[1].strides[0] = 1; s->t[1].pitch = M; return run(s);)
M_(enq_strides, s->t[1].strides[0] = -1; return enqueue(s);)
M_(prog_padded, spc_program_options o = {.struct_size = sizeof o, .padded = "A"}; return program_with(s, text, &o);)
M_(enq_pos, s->t[0].pos_count[1]--; return enqueue(s);)
M_(enq_pos_null, s->t[0].pos[1] = NULL; return enqueue(s);)
M_(enq_crd_null, s->t[0].crd[1] = NULL; return enqueue(s);)
M_(enq_index, s->t[0].index_dtype = "i64"; return enqueue(s);)
M_(enq_packed_twice, spc_tensor t[6]; memcpy(t, s->t, sizeof s->t); t[4] = t[5] = spc_packed(NULL, 0);
   return spc_enqueue(s->plan, t, 6, s->workspace, s->bytes, NULL, &s->err);)
M_(run_packed, spc_tensor t[5]; memcpy(t, s->t, sizeof s->t); t[4] = spc_packed(NULL, 0); return spc_run(s->plan, t, 5, &s->err);)
M_(pack_plan, size_t n = 0; return spc_plan_pack(NULL, s->t, 4, NULL, &n, NULL, &s->err);)
M_(pack_bytes, return spc_plan_pack(s->plan, s->t, 4, s->workspace, NULL, NULL, &s->err);)
M_(pack_tensors, size_t n = 0; return spc_plan_pack(s->plan, NULL, 4, NULL, &n, NULL, &s->err);)
M_(pack_align, size_t n = 8; return spc_plan_pack(s->plan, s->t, 4, s->workspace + 8, &n, NULL, &s->err);)
M_(pack_cold, size_t n = 0; return spc_plan_pack(s->cold, s->t, 4, NULL, &n, NULL, &s->err);)
M_(pack_missing, size_t n = 0; return spc_plan_pack(s->plan, s->t, 3, NULL, &n, NULL, &s->err);)
M_(ws_plan, size_t n; return spc_workspace(NULL, s->t, 4, &n, &s->err);)
M_(ws_cold, size_t n; return spc_workspace(s->cold, s->t, 4, &n, &s->err);)
M_(ws_bytes, return spc_workspace(s->plan, s->t, 4, NULL, &s->err);)
M_(ws_missing, size_t n; return spc_workspace(s->plan, s->t, 1, &n, &s->err);)
M_(reserve_plan, return spc_plan_reserve(NULL, s->t, 4, &s->err);)
M_(reserve_tensors, return spc_plan_reserve(s->plan, NULL, 4, &s->err);)
M_(reserve_count, return spc_plan_reserve(s->plan, s->t, -1, &s->err);)
M_(reserve_cold, return spc_plan_reserve(s->cold, s->t, 4, &s->err);)
M_(reserve_missing, return spc_plan_reserve(s->plan, s->t, 1, &s->err);)
M_(reserve_huge, s->t[0].shape[0] = s->t[0].shape[1] = INT64_MAX; return spc_plan_reserve(s->plan, s->t, 4, &s->err);)

static const misuse table[] = {
    {"nowhere to put a context", "`context`", SPC_INVALID_ARGUMENT, ctx_null},
    {"a back end that is none", "`abacus`", SPC_INVALID_ARGUMENT, ctx_backend},
    {"fewer than no threads", "`threads` is -3", SPC_INVALID_ARGUMENT, ctx_threads},
    {"options without their size", "`struct_size` is 0", SPC_INVALID_ARGUMENT, ctx_size},
    {"options that are not known yet", "newer header", SPC_INVALID_ARGUMENT, ctx_newer},
    {"an allocator without its size", "`allocator`: `struct_size` is 0", SPC_INVALID_ARGUMENT, ctx_alloc_size},
    {"an allocator that gives nothing", "`allocator`: `allocate` is NULL", SPC_INVALID_ARGUMENT, ctx_alloc_take},
    {"an allocator that takes nothing back", "`allocator`: `release` is NULL", SPC_INVALID_ARGUMENT, ctx_alloc_give},
    {"an allocator that is not known yet", "newer header", SPC_INVALID_ARGUMENT, ctx_alloc_newer},
    {"no context", "`context`", SPC_INVALID_ARGUMENT, prog_ctx},
    {"no text", "`text`", SPC_INVALID_ARGUMENT, prog_text},
    {"nowhere to put a program", "`program`", SPC_INVALID_ARGUMENT, prog_out},
    {"an empty text", "`spx 1;`", SPC_INVALID_INPUT, prog_empty},
    {"a text that breaks off", "expected", SPC_INVALID_INPUT, prog_syntax},
    {"an index that is not bound", "`j`", SPC_INVALID_INPUT, prog_unbound},
    {"bytes that are no text", "UTF-8", SPC_INVALID_INPUT, prog_utf8},
    {"options without their size", "`struct_size` is 0", SPC_INVALID_ARGUMENT, prog_size},
    {"a fixed dim that is none", "`Q`", SPC_INVALID_INPUT, prog_fixed},
    {"fixed dims that are not there", "`fixed`", SPC_INVALID_ARGUMENT, prog_fixed_null},
    {"a fixed dim without a name", "`fixed[0]`", SPC_INVALID_ARGUMENT, prog_fixed_name},
    {"fewer than no fixed dims", "`fixed_count`", SPC_INVALID_ARGUMENT, prog_fixed_count},
    {"positions of 16 bits", "`positions`", SPC_INVALID_ARGUMENT, prog_positions},
    {"a file that is not there", "/nowhere/at/all.spx", SPC_IO, file_missing},
    {"a folder", "`/`", SPC_IO, file_folder},
    {"no path", "`path`", SPC_INVALID_ARGUMENT, file_null},
    {"a builder of no context", "`context`", SPC_INVALID_ARGUMENT, builder_ctx},
    {"no builder", "`builder`", SPC_INVALID_ARGUMENT, builder_null},
    {"a plan of nothing", "`program`", SPC_INVALID_ARGUMENT, plan_prog},
    {"nowhere to put a plan", "`plan`", SPC_INVALID_ARGUMENT, plan_out},
    {"one of several kernels", "2 kernels", SPC_INVALID_ARGUMENT, plan_several},
    {"a kernel that is not there", "`K`", SPC_INVALID_ARGUMENT, plan_unknown},
    {"sizes that are not there", "`sizes`", SPC_INVALID_ARGUMENT, plan_sizes},
    {"a dim that is none", "`Q`", SPC_INVALID_ARGUMENT, plan_dim},
    {"a dim without a name", "sizes[0]", SPC_INVALID_ARGUMENT, plan_dim_null},
    {"a negative size", "`N` = -3", SPC_INVALID_ARGUMENT, plan_negative},
    {"preparing nothing", "`plan`", SPC_INVALID_ARGUMENT, prepare_null},
    {"preparing what cannot be enqueued", "`add`", SPC_UNAVAILABLE, prepare_never},
    {"a tensor past the last", "`i`", SPC_INVALID_ARGUMENT, info_i},
    {"nowhere to put what is asked", "`info`", SPC_INVALID_ARGUMENT, info_null},
    {"a struct without its size", "`info`", SPC_INVALID_ARGUMENT, info_size},
    {"nowhere to put what is asked", "`info`", SPC_INVALID_ARGUMENT, describe_null},
    {"describing nothing", "`plan`", SPC_INVALID_ARGUMENT, describe_plan},
    {"a launch before the first", "`i`", SPC_INVALID_ARGUMENT, launch_i},
    {"a guard where there is none", "`i`", SPC_INVALID_ARGUMENT, guard_i},
    {"running nothing", "`plan`", SPC_INVALID_ARGUMENT, run_plan},
    {"no tensors", "`tensors`", SPC_INVALID_ARGUMENT, run_tensors},
    {"fewer than no tensors", "`count`", SPC_INVALID_ARGUMENT, run_count},
    {"an input left out", "`A` is missing", SPC_INVALID_ARGUMENT, run_input},
    {"an output left out", "`z` is missing", SPC_INVALID_ARGUMENT, run_output},
    {"a tensor of another name", "`X`", SPC_INVALID_ARGUMENT, run_name},
    {"a tensor without a name", "(null)", SPC_INVALID_ARGUMENT, run_nameless},
    {"a tensor given twice", "`y`", SPC_INVALID_ARGUMENT, run_twice},
    {"a tensor without its size", "`struct_size` is 16", SPC_INVALID_ARGUMENT, run_size},
    {"tensors of two headers", "tensors[2]", SPC_INVALID_ARGUMENT, run_size_later},
    {"another rank", "`x`: rank 2", SPC_INVALID_INPUT, run_rank},
    {"a rank beyond any", "`A`: rank 99", SPC_INVALID_INPUT, run_rank_huge},
    {"another dtype", "`x`: dtype f64", SPC_INVALID_INPUT, run_dtype},
    {"no dtype", "`x`: dtype (none)", SPC_INVALID_INPUT, run_dtype_null},
    {"positions of 8 bits", "`index_dtype`", SPC_INVALID_ARGUMENT, run_index},
    {"a negative size", "`x`", SPC_INVALID_ARGUMENT, run_negative},
    {"sizes that disagree", "`x`", SPC_INVALID_INPUT, run_disagree},
    {"a size beyond its bound", "`N`", SPC_INVALID_INPUT, run_bound},
    {"a size that is no multiple", "`M`", SPC_INVALID_INPUT, run_multiple},
    {"an input that is nowhere", "`x`: `values`", SPC_INVALID_ARGUMENT, run_null},
    {"no positions", "`A`", SPC_INVALID_INPUT, run_no_pos},
    {"too few positions", "`A`", SPC_INVALID_INPUT, run_short_pos},
    {"too few coordinates", "`A`", SPC_INVALID_INPUT, run_short_crd},
    {"positions that go back", "`A`", SPC_INVALID_INPUT, run_bad_pos},
    {"a coordinate out of range", "`A`", SPC_INVALID_INPUT, run_bad_crd},
    {"coordinates out of order", "`A`", SPC_INVALID_INPUT, run_unsorted},
    {"a result of another size", "`y`", SPC_INVALID_INPUT, out_shape},
    {"a result without room", "`y`", SPC_CAPACITY, out_room},
    {"a result like another, without room", "`z`", SPC_CAPACITY, out_like_room},
    {"a result that is nowhere", "`y`: `values`", SPC_INVALID_ARGUMENT, out_null},
    {"a computed pattern without room", "`C`", SPC_CAPACITY, out_sparse_room},
    {"a computed pattern that is nowhere", "`C`", SPC_CAPACITY, out_sparse_null},
    {"counting for nothing", "`plan`", SPC_INVALID_ARGUMENT, count_plan},
    {"counting without an input", "`B` is missing", SPC_INVALID_ARGUMENT, count_input},
    {"counting what is not there", "`D`", SPC_INVALID_ARGUMENT, count_name},
    {"shapes for nothing", "`plan`", SPC_INVALID_ARGUMENT, shapes_plan},
    {"shapes that disagree", "`x`", SPC_INVALID_INPUT, shapes_disagree},
    {"a cold plan", "spc_plan_prepare", SPC_INVALID_ARGUMENT, enq_cold},
    {"enqueueing nothing", "`plan`", SPC_INVALID_ARGUMENT, enq_plan},
    {"fewer than no tensors", "`tensors`", SPC_INVALID_ARGUMENT, enq_count},
    {"a workspace that is not aligned", "`workspace`", SPC_INVALID_ARGUMENT, enq_align},
    {"a workspace that is nowhere", "`workspace`", SPC_INVALID_ARGUMENT, enq_null},
    {"an output left out", "`y` is missing", SPC_INVALID_ARGUMENT, enq_missing},
    {"an input that is nowhere", "`x`: `values`", SPC_INVALID_ARGUMENT, enq_values},
    {"a result without room", "`y`: `value_count`", SPC_INVALID_INPUT, enq_room},
    {"a tensor of another name", "`X`", SPC_INVALID_ARGUMENT, enq_name},
    {"a tensor without a name", "(null)", SPC_INVALID_ARGUMENT, enq_nameless},
    {"a tensor given twice", "`x`: it is given twice", SPC_INVALID_ARGUMENT, enq_twice},
    {"a tensor without its size", "`struct_size` is 8", SPC_INVALID_ARGUMENT, enq_struct},
    {"a rank beyond any", "`x`: rank 100", SPC_INVALID_INPUT, enq_rank},
    {"another dtype", "`x`: dtype f64", SPC_INVALID_INPUT, enq_dtype},
    {"a negative size", "`x`", SPC_INVALID_ARGUMENT, enq_negative},
    {"more elements than numbers", "`A`: its `shape` has too many", SPC_INVALID_ARGUMENT, enq_huge},
    {"sizes that disagree", "`x`", SPC_INVALID_INPUT, enq_disagree},
    {"a result of another size", "`y`", SPC_INVALID_INPUT, enq_shape},
    {"a result that is nowhere", "`y`: `values`", SPC_INVALID_ARGUMENT, enq_nowhere},
    {"a result like another, without room", "`z`: `value_count`", SPC_INVALID_INPUT, enq_like_room},
    {"a pitch that is too short", "`x`: `pitch` is 4", SPC_INVALID_INPUT, run_pitch},
    {"a pitch of what has no rows", "`A`: `pitch`", SPC_INVALID_ARGUMENT, run_pitch_sparse},
    {"a negative pitch", "`x`: `pitch` is -4", SPC_INVALID_INPUT, enq_pitch},
    {"a stride inside a row", "`x`: `strides[0]` is 2", SPC_INVALID_INPUT, run_strides},
    {"strides of what is stored sparse", "`A`: `strides` are given", SPC_INVALID_ARGUMENT, run_strides_sparse},
    {"a pitch and strides", "`x`: `pitch` and `strides`", SPC_INVALID_ARGUMENT, run_strides_pitch},
    {"a row that goes backwards", "`x`: `strides[0]` is -1", SPC_INVALID_INPUT, enq_strides},
    {"padding of what has no rows", "`A`", SPC_INVALID_INPUT, prog_padded},
    {"too few positions", "`A`: `pos[1]`", SPC_INVALID_INPUT, enq_pos},
    {"no positions", "`A`: `pos[1]`", SPC_INVALID_ARGUMENT, enq_pos_null},
    {"no coordinates", "`A`: `crd[1]`", SPC_INVALID_ARGUMENT, enq_crd_null},
    {"positions of another width", "`A`", SPC_INVALID_INPUT, enq_index},
    {"what was packed, twice", "given twice", SPC_INVALID_ARGUMENT, enq_packed_twice},
    {"what was packed, to a copying run", "spc_enqueue", SPC_INVALID_ARGUMENT, run_packed},
    {"packing nothing", "`plan`", SPC_INVALID_ARGUMENT, pack_plan},
    {"packing without a room's size", "`bytes`", SPC_INVALID_ARGUMENT, pack_bytes},
    {"packing no tensors", "`tensors`", SPC_INVALID_ARGUMENT, pack_tensors},
    {"packing to an odd place", "256 bytes", SPC_INVALID_ARGUMENT, pack_align},
    {"packing for a cold plan", "spc_plan_prepare", SPC_INVALID_ARGUMENT, pack_cold},
    {"packing without a result's shape", "`z` is missing", SPC_INVALID_ARGUMENT, pack_missing},
    {"the workspace of no plan", "`plan`", SPC_INVALID_ARGUMENT, ws_plan},
    {"the workspace of a cold plan", "spc_plan_prepare", SPC_INVALID_ARGUMENT, ws_cold},
    {"nowhere to put the bytes", "`bytes`", SPC_INVALID_ARGUMENT, ws_bytes},
    {"a workspace without tensors", "is missing", SPC_INVALID_ARGUMENT, ws_missing},
    {"reserving for no plan", "`plan`", SPC_INVALID_ARGUMENT, reserve_plan},
    {"reserving for no tensors", "`tensors`", SPC_INVALID_ARGUMENT, reserve_tensors},
    {"reserving for fewer than none", "`tensors`", SPC_INVALID_ARGUMENT, reserve_count},
    {"reserving for a cold plan", "spc_plan_prepare", SPC_INVALID_ARGUMENT, reserve_cold},
    {"reserving without tensors", "is missing", SPC_INVALID_ARGUMENT, reserve_missing},
    {"reserving for more than numbers", "`A`: its `shape` has too many", SPC_INVALID_ARGUMENT, reserve_huge},
};
/* clang-format on */

Test(driver_misuse, each_has_a_status_and_names_its_argument_and_breaks_nothing) {
  if (!cg_cpu_available()) cr_skip("no LLVM");
  int rows = (int)(sizeof table / sizeof *table);
  cr_assert_geq(rows, 60);
  stand *s = stand_new();
  cr_assert(still_works(s), "%s", s->err.message);
  for (int i = 0; i < rows; i++) {
    reset(s);
    spc_status status = table[i].call(s);
    cr_expect(status == table[i].status && s->err.status == status, "%s: %s (%d): %s",
              table[i].what, spc_status_name(status), status, s->err.message);
    cr_expect(strstr(s->err.message, table[i].words), "%s: %s", table[i].what, s->err.message);
    cr_expect(nothing_written(s), "%s: nothing is written", table[i].what);
    cr_expect(still_works(s), "after %s: %s", table[i].what, s->err.message);
  }
  stand_free(s);
}

/* ---- structs of other headers ------------------------------------------------------------------
 */
/* The struct cut behind each of its fields: what is missing is the default. */
Test(driver_misuse, smaller_and_larger_structs_are_taken) {
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  for (size_t size = sizeof(size_t); size <= sizeof(spc_context_options) + 16; size += 8) {
    struct {
      spc_context_options o;
      char more[16];
    } given = {.o = {.struct_size = size, .backend = "interp"}};
    spc_error err = SPC_ERROR_INIT;
    cr_assert_eq(spc_context_new(&given.o, &context, &err), SPC_OK, "%zu: %s", size, err.message);
    spc_context_free(context);
  }
  spc_context_options options = {.struct_size = sizeof options, .backend = "interp"};
  cr_assert_eq(spc_context_new(&options, &context, NULL), SPC_OK);
  for (size_t size = sizeof(size_t); size <= sizeof(spc_program_options); size += 8) {
    spc_program_options o = {.struct_size = size};
    cr_assert_eq(spc_program_from_text(context, text, strlen(text), &o, &program, NULL), SPC_OK);
    cr_assert_eq(spc_plan_new(program, "k", NULL, 0, &plan, NULL), SPC_OK);
    for (size_t bytes = sizeof(size_t); bytes <= sizeof(spc_tensor_info) + 8; bytes += 8) {
      unsigned char room[sizeof(spc_tensor_info) + 32];
      memset(room, 0x77, sizeof room);
      memcpy(room, &bytes, sizeof bytes);
      cr_expect_eq(spc_plan_tensor(plan, 0, (spc_tensor_info *)(void *)room, NULL), SPC_OK);
      for (size_t i = bytes; i < sizeof room; i++) cr_assert_eq(room[i], 0x77, "beyond %zu", bytes);
    }
    for (size_t bytes = sizeof(size_t); bytes <= sizeof(spc_plan_info); bytes += 8) {
      unsigned char room[sizeof(spc_plan_info) + 32];
      memset(room, 0x77, sizeof room);
      memcpy(room, &bytes, sizeof bytes);
      cr_expect_eq(spc_plan_describe(plan, (spc_plan_info *)(void *)room, NULL), SPC_OK);
      for (size_t i = bytes; i < sizeof room; i++) cr_assert_eq(room[i], 0x77, "beyond %zu", bytes);
    }
    spc_plan_free(plan);
    spc_program_free(program);
  }
  for (size_t size = 0; size <= sizeof(spc_error); size += 4) {
    unsigned char room[sizeof(spc_error) + 16];
    memset(room, 0x77, sizeof room);
    memcpy(room, &size, sizeof size);
    cr_expect_eq(spc_context_new(NULL, NULL, (spc_error *)(void *)room), SPC_INVALID_ARGUMENT);
    for (size_t i = size > 8 ? size : 8; i < sizeof room; i++)
      cr_assert_eq(room[i], 0x77, "%zu", i);
  }
  spc_context_free(context);
}

/* ---- what the library says when it is asked -----------------------------------------------------
 */
typedef struct heard {
  int notes, warnings, depth, deepest;
  char phases[400], texts[2000];
} heard;

static void on_log(void *user, spc_log_level level, const char *line) {
  heard *h = user;
  *(level == SPC_LOG_WARNING ? &h->warnings : &h->notes) += 1;
  if (!strchr(line, '\n')) strncat(h->texts, line, sizeof h->texts - strlen(h->texts) - 1);
}

static void on_trace(void *user, const char *phase, const char *name, int begins) {
  heard *h = user;
  h->depth += begins ? 1 : -1;
  if (h->depth > h->deepest) h->deepest = h->depth;
  if (begins) strcat(strcat(strcat(strcat(h->phases, phase), " "), name), ";");
}

Test(driver_misuse, log_and_trace) {
  heard h = {0};
  stand *s = calloc(1, sizeof *s);
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = "interp", .user = &h};
  const char *wasteful =
      "spx 1; dim N: dyn; dim Q: dyn; kernel k { in x: f32[N]; out y[i] = x[i]; }";
  options.log = on_log;
  options.trace = on_trace;
  float x[2] = {1, 2}, y[2];
  spc_tensor t[2] = {tensor("x", 1, 2, 0, x, 2), tensor("y", 1, 2, 0, y, 2)};
  cr_assert_eq(spc_context_new(&options, &s->context, &err), SPC_OK);
  cr_expect(h.notes == 1 && strstr(h.texts, "back end: interp"), "%s", h.texts);
  cr_assert_eq(
      spc_program_from_text(s->context, wasteful, strlen(wasteful), NULL, &s->program, &err),
      SPC_OK);
  cr_expect(h.warnings == 1 && strstr(h.texts, "`Q` is never used"), "%s", h.texts);
  cr_assert_eq(spc_plan_new(s->program, NULL, NULL, 0, &s->plan, &err), SPC_OK);
  cr_assert_eq(spc_run(s->plan, t, 2, &err), SPC_OK, "%s", err.message);
  t[1].shape[0] = 3;
  cr_assert_eq(spc_run(s->plan, t, 2, &err), SPC_INVALID_INPUT, "ends are traced on failure too");
  cr_expect_str_eq(h.phases, "parse <text>;compile <text>;run k;run k;");
  cr_expect(h.depth == 0 && h.deepest == 1);
  spc_plan_free(s->plan);
  spc_program_free(s->program);
  spc_context_free(s->context);
  free(s);
}
