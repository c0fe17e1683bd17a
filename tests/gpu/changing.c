/* changing.c - masks that change from run to run, one run right behind the other: nobody waits between them.
 *
 * Runs share a plan and a workspace, so each finds there what the one before it has left: its verdict, its lists, what its
 * front has told.  Masks come by turns, of nothing, of a tenth and of all; every run has a result of its own, and all are
 * compared when the last has ended.  Then the same captured, and replayed.
 * Usage: gpu-changing [JOB], a part of the names of those that run.  Exit 77 without a GPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/api.h"
#include "ir/dtype.h"
#include "runtime/cuda_driver.h"

/* Launches take no time, and one tile is fast that can stand in front: it does at any size. */
#define LISTS "floor_odds = 0\n" /* whatever looking in vain costs */
#define FRONTS LISTS "launch_us = 0.01\nstart_us = 0.01\nsample_us = 0.01\nfront_us = 0.01\ncolumn_tile_us = 0.01\nspread_us = 0.01\nexchange_us = 1000\nrate tma_128x256 = 50\n"
#define PAIRS "rate kpack_tma_128 = 50\nmove_us = 0.01\npair_list_us = 0.01\npair_tile_us = 0.01\n"
#define OF_A(LAYOUT, GRAN)                                                                                                          \
  "spx 1; dim M: dyn <= 4096; dim K: dyn <= 4096; dim N: dyn <= 4096; kernel k { in A: bf16[M,K]" LAYOUT " ~ zeros(dynamic, "       \
  "density=0.1, gran=" GRAN "); in B: bf16[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"
#define UNTOLD                                                                                                                      \
  "spx 1; dim M: dyn <= 4096; dim K: dyn <= 4096; dim N: dyn <= 4096; kernel k { in A: bf16[M,K] ~ zeros(dynamic); in B: bf16[K,N]; " \
  "out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"
#define ASKED(GRAN)                                                                                                                 \
  "spx 1; dim M: dyn <= 4096; dim N: dyn <= 4096; dim K: dyn <= 4096; kernel k { in A: bf16[M,K]; in B: bf16[N,K]; in W: b1[M,N] ~ " \
  "zeros(dynamic, density=0.1, gran=" GRAN "); out C[m,n] = sum[k] A[m,k]*B[n,k] on W[m,n] : bf16 acc f32; }"

#define FEW                                                                                                                         \
  "spx 1; dim M: dyn <= 40; dim K: dyn <= 4096; dim N: dyn <= 4096; kernel k { in A: bf16[M,K] ~ zeros(dynamic, density=0.01, gran=8x1); " \
  "in B: bf16[K,N]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; } schedule k { tile C m=8 n=64 k=256; }"

typedef struct job {
  const char *name, *text, *profile;
  int rows, columns; /* of a block of the mask */
  int64_t m, n, k;
  bool transposed, asked; /* A lies column by column; the mask is of the result */
  bool untold;            /* two lists may be made: instead of nothing a tenth of whole rows holds something */
} job;

static const job jobs[] = {
    {"A row by row", OF_A("", "128x1"), LISTS, 128, 1, 1024, 264, 1088, false, false, false},
    {"A row by row, behind a front", OF_A("", "128x1"), FRONTS, 128, 1, 1024, 264, 1088, false, false, false},
    {"A row by row, strips of 64", OF_A("", "64x1"), PAIRS LISTS, 64, 1, 1024, 264, 1088, false, false, false},
    {"A row by row, strips of 64, behind a front", OF_A("", "64x1"), PAIRS FRONTS, 64, 1, 1000, 264, 1088, false, false, false},
    {"A column by column", OF_A(" as dense_t", "128x1"), LISTS, 128, 1, 1024, 264, 1024, true, false, false},
    {"blocks of A", OF_A("", "128x64"), LISTS, 128, 64, 1024, 264, 1024, false, false, false},
    {"whole rows, behind a front", OF_A("", "1x4096"), FRONTS, 1, 1088, 2048, 264, 1088, false, false, false},
    {"rows by blocks of k, behind a front", OF_A("", "1x64") " schedule k { tile C m=512 n=64 k=64; }", FRONTS, 1, 64, 1100, 264, 1088, false, false, false},
    {"columns or whole rows, behind a front", UNTOLD, FRONTS, 128, 1, 2048, 264, 1088, false, false, true},
    {"columns of the result, behind a front", ASKED("128x1"), FRONTS, 128, 1, 1024, 2048, 40, false, true, false},
    {"blocks of the result", ASKED("128x64"), LISTS, 128, 64, 1024, 1024, 72, false, true, false},
    {"few rows, a sample of their values", FEW, LISTS, 8, 1, 40, 520, 4096, false, false, false},
};

enum { NOTHING, A_TENTH, ALL, MASKS };
enum { A, B, W, C, TENSORS };
/* Each mask behind each other one, and behind itself. */
static const int turns[] = {A_TENTH, ALL, A_TENTH, A_TENTH, NOTHING, ALL, ALL, NOTHING, NOTHING, A_TENTH};
enum { TURNS = sizeof turns / sizeof *turns, FEW_TURNS = 6, REPLAYS = 3 };

typedef struct stand {
  const job *job;
  spc_context *context;
  spc_program *program;
  spc_plan *plan;
  rt_cuda *cuda;
  void *stream, *workspace;
  size_t room;
  void *masked[MASKS], *factor[2], *result[TURNS]; /* on the device: A or W by masks, A and B, C by turns */
  float *want[MASKS], *values[2];
} stand;

static int checks, failures;

static void check(bool good, const char *test, const char *what, int turn) {
  checks++;
  if (good) return;
  if (failures++ < 20) printf("FAIL %s: %s, turn %d\n", test, what, turn);
}

static void must(int status, const spc_error *err, const char *what) {
  if (!status) return;
  printf("FAIL %s: %s\n%s\n", what, err ? err->message : "", err ? err->diagnostics : "");
  exit(3);
}

static uint64_t seed = 17;
static double uniform(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(seed >> 11) / (double)(1ll << 52) - 1;
}

static bool is_kept(const job *j, int mask, int64_t r, int64_t c) {
  const uint64_t block = (uint64_t)(r / j->rows) * 40503u + (uint64_t)(c / j->columns) * 2654435761u;
  if (mask == NOTHING && j->untold) return (uint64_t)r * 2654435761u / 128 % 10 == 0;
  return mask == ALL || (mask == A_TENTH && (block >> 7) % 10 == 0);
}

static void reference(stand *s, int mask) {
  const job *j = s->job;
  float *want = s->want[mask] = calloc((size_t)(j->m * j->n), sizeof *want);
  for (int64_t m = 0; m < j->m; m++)
    for (int64_t k = 0; k < j->k; k++) {
      if (!j->asked && !is_kept(j, mask, m, k)) continue;
      const float a = s->values[A][m * j->k + k];
      for (int64_t n = 0; n < j->n; n++) want[m * j->n + n] += a * s->values[B][k * j->n + n];
    }
  for (int64_t m = 0; m < j->m && j->asked; m++)
    for (int64_t n = 0; n < j->n; n++)
      if (!is_kept(j, mask, m, n)) want[m * j->n + n] = 0;
}

static void *sent(stand *s, const void *values, size_t bytes) {
  void *there;
  must(rt_cuda_alloc(s->cuda, bytes + 256, &there), NULL, "memory");
  must(rt_cuda_upload(s->cuda, there, values, bytes), NULL, "uploading");
  return there;
}

/* Of a matrix in bf16: what the mask leaves of it; turned: it lies column by column. */
static void *sent_matrix(stand *s, const float *values, int64_t rows, int64_t columns, bool turned, int mask) {
  const size_t bytes = (size_t)(rows * columns) * 2;
  void *made = malloc(bytes);
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      ir_dtype_store(IR_BF16, made, turned ? c * rows + r : r * columns + c, is_kept(s->job, mask, r, c) ? values[r * columns + c] : 0);
  void *there = sent(s, made, bytes);
  free(made);
  return there;
}

static void *sent_mask(stand *s, int mask) {
  const job *j = s->job;
  unsigned char *made = malloc((size_t)(j->m * j->n));
  for (int64_t i = 0; i < j->m * j->n; i++) made[i] = is_kept(j, mask, i / j->n, i % j->n);
  void *there = sent(s, made, (size_t)(j->m * j->n));
  free(made);
  return there;
}

static void fill(stand *s) {
  const job *j = s->job;
  const int64_t counts[2] = {j->m * j->k, j->k * j->n};
  for (int i = 0; i < 2; i++) {
    s->values[i] = malloc((size_t)counts[i] * sizeof(float));
    for (int64_t k = 0; k < counts[i]; k++) { /* as bf16 has them */
      uint16_t word;
      ir_dtype_store(IR_BF16, &word, 0, uniform() + (i == A ? 2 : 0));
      s->values[i][k] = (float)ir_dtype_load(IR_BF16, &word, 0);
    }
  }
  for (int mask = 0; mask < MASKS; mask++) {
    reference(s, mask);
    s->masked[mask] = j->asked ? sent_mask(s, mask) : sent_matrix(s, s->values[A], j->m, j->k, j->transposed, mask);
  }
  s->factor[A] = sent_matrix(s, s->values[A], j->m, j->k, false, ALL);
  s->factor[B] = sent_matrix(s, s->values[B], j->k, j->n, j->asked, ALL);
  for (int t = 0; t < TURNS; t++) must(rt_cuda_alloc(s->cuda, (size_t)(j->m * j->n) * 2 + 256, &s->result[t]), NULL, "memory");
}

static spc_tensor tensor_of(const char *name, const char *dtype, int64_t rows, int64_t columns, void *values) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = dtype, .rank = 2, .shape = {rows, columns}, .value_count = rows * columns, .values = values};
  return t;
}

/* The tensors of one turn; returns how many. */
static int tensors_of(const stand *s, int turn, spc_tensor *t) {
  const job *j = s->job;
  int count = 0;
  void *masked = s->masked[turns[turn]];
  t[count++] = tensor_of("A", "bf16", j->m, j->k, j->asked ? s->factor[A] : masked);
  t[count++] = tensor_of("B", "bf16", j->asked ? j->n : j->k, j->asked ? j->k : j->n, s->factor[B]);
  if (j->asked) t[count++] = tensor_of("W", "b1", j->m, j->n, masked);
  t[count++] = tensor_of("C", "bf16", j->m, j->n, s->result[turn]);
  return count;
}

static void compile(stand *s) {
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t[TENSORS];
  char profile[] = "/tmp/spc-changing-XXXXXX";
  spc_program_options options = {.struct_size = sizeof options};
  if (s->job->profile) {
    FILE *file = fdopen(mkstemp(profile), "w");
    if (!file || fputs(s->job->profile, file) < 0 || fclose(file)) must(1, NULL, "a profile");
    options.profile = profile;
  }
  must(spc_program_from_text(s->context, s->job->text, strlen(s->job->text), &options, &s->program, &err), &err, "compiling");
  if (s->job->profile) unlink(profile);
  must(spc_plan_new(s->program, NULL, NULL, 0, &s->plan, &err), &err, "a plan");
  must(spc_plan_prepare(s->plan, &err), &err, "preparing");
  must(spc_workspace(s->plan, t, tensors_of(s, 0, t), &s->room, &err), &err, "the workspace");
  must(rt_cuda_alloc(s->cuda, s->room + 256, &s->workspace), NULL, "memory");
  must(rt_cuda_fill(s->cuda, s->workspace, 0xff, s->room, NULL), NULL, "poisoning");
}

static void begin(stand *s, const job *j) {
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = "cuda"};
  *s = (stand){.job = j};
  if (spc_context_new(&options, &s->context, &err) == SPC_UNAVAILABLE) {
    printf("%s\n", err.message);
    exit(77);
  }
  s->cuda = s->context->cuda;
  must(rt_cuda_stream_new(s->cuda, &s->stream), NULL, "a stream");
  fill(s);
  compile(s);
}

static void end(stand *s) {
  for (int i = 0; i < 2; i++) rt_cuda_release(s->cuda, s->factor[i]), free(s->values[i]);
  for (int i = 0; i < MASKS; i++) rt_cuda_release(s->cuda, s->masked[i]), free(s->want[i]);
  for (int i = 0; i < TURNS; i++) rt_cuda_release(s->cuda, s->result[i]);
  rt_cuda_release(s->cuda, s->workspace);
  spc_plan_free(s->plan);
  spc_program_free(s->program);
  rt_cuda_stream_free(s->cuda, s->stream);
  spc_context_free(s->context);
}

static void poison(stand *s) {
  for (int t = 0; t < TURNS; t++) must(rt_cuda_fill(s->cuda, s->result[t], 0xff, (size_t)(s->job->m * s->job->n) * 2, NULL), NULL, "poisoning");
  must(rt_cuda_synchronise(s->cuda, NULL), NULL, "waiting");
}

static void enqueue(stand *s, int from, int until) {
  spc_error err = SPC_ERROR_INIT;
  spc_tensor t[TENSORS];
  for (int turn = from; turn < until; turn++) must(spc_enqueue(s->plan, t, tensors_of(s, turn, t), s->workspace, s->room, s->stream, &err), &err, s->job->name);
}

static spc_branch branch_of(const stand *s, int number) {
  spc_guard_info guard = {.struct_size = sizeof guard};
  must(spc_plan_guard(s->plan, number, &guard, NULL), NULL, "a guard");
  return guard.branch;
}

/* The branch of the last run, which has ended; of two lists the one that was not meant has not been measured. */
static void reported(const stand *s, int turn) {
  const int mask = turns[turn];
  const bool rows = s->job->untold && mask == NOTHING;
  check(branch_of(s, rows ? 1 : 0) == (mask == ALL ? SPC_BRANCH_DENSE : SPC_BRANCH_SPARSE), s->job->name, "the branch", turn);
  if (s->job->untold) check(branch_of(s, rows ? 0 : 1) == (mask == ALL ? SPC_BRANCH_DENSE : SPC_BRANCH_NONE), s->job->name, "the branch of the other list", turn);
}

static void compare(const stand *s, int from, int until) {
  const int64_t count = s->job->m * s->job->n;
  uint16_t *got = malloc((size_t)count * 2);
  must(rt_cuda_synchronise(s->cuda, s->stream), NULL, s->job->name);
  for (int turn = from; turn < until; turn++) {
    const float *want = s->want[turns[turn]];
    double error = 0, norm = 0;
    must(rt_cuda_download(s->cuda, got, s->result[turn], (size_t)count * 2), NULL, s->job->name);
    for (int64_t i = 0; i < count; i++) {
      const double w = (double)want[i], d = ir_dtype_load(IR_BF16, got, i) - w;
      error += d * d, norm += w * w;
    }
    check(sqrt(error) <= 1e-2 * sqrt(norm), s->job->name, "the result", turn); /* a NaN fails */
  }
  free(got);
}

static void one_by_one(stand *s) {
  poison(s);
  for (int turn = 0; turn < (getenv("SPC_EMULATED_CACHE") ? FEW_TURNS : TURNS); turn++) { /* an emulated device is slow */
    enqueue(s, turn, turn + 1);
    compare(s, turn, turn + 1);
    reported(s, turn);
  }
}

static void behind_one_another(stand *s) {
  poison(s);
  enqueue(s, 0, TURNS);
  compare(s, 0, TURNS);
  reported(s, TURNS - 1);
}

static void captured(stand *s) {
  void *graph;
  must(rt_cuda_capture_begin(s->cuda, s->stream), NULL, "capturing");
  enqueue(s, 0, TURNS);
  must(rt_cuda_capture_end(s->cuda, s->stream, &graph), NULL, "the capture is whole");
  for (int r = 0; r < REPLAYS; r++) {
    poison(s);
    must(rt_cuda_graph_launch(s->cuda, graph, s->stream), NULL, "a replay");
    compare(s, 0, TURNS);
  }
  rt_cuda_graph_free(s->cuda, graph);
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    stand s;
    if (argc > 1 && !strstr(jobs[i].name, argv[1])) continue;
    begin(&s, &jobs[i]);
    one_by_one(&s);
    if (!getenv("SPC_EMULATED_CACHE")) { /* an emulated device runs one launch after the other, slowly */
      behind_one_another(&s);
      captured(&s);
    }
    end(&s);
  }
  printf("%d passed, %d failed\n", checks - failures, failures);
  return failures ? 1 : 0;
}
