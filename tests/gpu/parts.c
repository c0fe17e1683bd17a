/* parts.c - runs every composed kernel, the list kernels and every op on a GPU, against float64 on
 * the host.
 *
 * Sizes are multiples of nothing; lists are empty, full and ragged; arrays start at odd addresses
 * when the case says so; results are poisoned (NaN) and stand between canaries.
 * Usage: gpu-parts [check | small | time] [ROW [I/N]]
 *   check  everything    small  a subset for compute-sanitizer    time  rates of the gemm rows
 *   ROW    only products whose row's name holds this, or `lists` or `ops` alone
 *   I/N    share I of N: every Nth product; lists go with the first share, ops with the last */
#include <math.h>
#include <stdlib.h>

#include "ir/tensor.h"
#include "runtime/cuda.h"
#include "tests/unit/codegen_cuda_case.h"

enum { CANARY = 256, FIRST_RANDOM = 12345 };
typedef struct array { /* one buffer of a launch */
  const ir_buf *buf;
  void *host, *device; /* device points behind the front canary */
  size_t bytes, shift;
  int64_t count;
  double *real; /* an operand's values while a result is looked at, which asks for each of them many times */
} array;

typedef struct bench {
  rt_cuda *cuda;
  cuda_cases cases;
  ir_image *image;
  int64_t size[CASE_DIMS];
  array array[64];
  int array_count, checks, failures, boxes; /* boxes: launches that moved data by tensor map */
  bool unfit;                               /* the last such launch's maps did not fit */
  double break_even;                        /* of the guard that a launch decides for */
  int share, shares;                        /* this process checks product i where i % shares == share */
  size_t shift;
  uint64_t random;
  int64_t place[2048]; /* of a row in its list's order */
} bench;

static void fail(bench *b, const ir_stage *s, const char *row, const char *what, double at,
                 double got, double want) {
  if (b->failures++ < 40)
    printf("FAIL %s %s M=%lld N=%lld K=%lld shift=%zu: %s at %.0f: %g, expected %g\n", s->name, row,
           (long long)b->size[0], (long long)b->size[1], (long long)b->size[2], b->shift, what, at,
           got, want);
}

static double uniform(bench *b) {
  b->random = b->random * 6364136223846793005ull + 1442695040888963407ull;
  return (double)(b->random >> 11) / 9007199254740992.0;
}

static double value(bench *b) { return 2 * uniform(b) - 1; }

/* ---- device arrays --------------------------------------------------------------------------- */
static void die(bench *b, const char *what) {
  printf("FAIL %s: %s\n", what, rt_cuda_error(b->cuda));
  exit(3);
}

static array *find(bench *b, const char *stem) {
  for (int i = 0; i < b->array_count; i++)
    if (b->array[i].buf->kind == IR_BUF_VALS && !strncmp(b->array[i].buf->name, stem, strlen(stem))) return &b->array[i];
  return NULL;
}

static int64_t block_array_count(const bench *b, const ir_buf *buf);
static bool is_in_blocks(const ir_tensor *t);

static int64_t count_of(bench *b, const ir_buf *buf) {
  int64_t count = 1, extent;
  if (buf->kind == IR_BUF_WORKSPACE) return ir_size_value(buf->count, b->size, &count) ? count : 0;
  if (is_in_blocks(buf->tensor)) return block_array_count(b, buf);
  for (int d = 0; d < buf->tensor->rank; d++)
    count *= ir_size_value(buf->tensor->dim[d], b->size, &extent) ? extent : 0;
  return count;
}

static array *array_of(bench *b, const ir_buf *buf) {
  for (int i = 0; i < b->array_count; i++)
    if (b->array[i].buf == buf ||
        (buf->kind != IR_BUF_WORKSPACE && b->array[i].buf->tensor == buf->tensor &&
         b->array[i].buf->kind == buf->kind && b->array[i].buf->level == buf->level))
      return &b->array[i];
  array *a = &b->array[b->array_count++];
  *a = (array){.buf = buf, .count = count_of(b, buf)};
  a->shift = buf->kind == IR_BUF_VALS ? b->shift * ir_dtype_bytes(buf->dtype) : 0;
  a->bytes = (size_t)a->count * ir_dtype_bytes(buf->dtype);
  a->host = malloc(a->bytes + 16);
  memset(a->host, 0xff, a->bytes + 16);
  return a;
}

static void upload(bench *b, array *a) {
  size_t all = a->bytes + a->shift + 2 * CANARY;
  unsigned char *image = malloc(all);
  void *device;
  memset(image, 0xa5, all);
  memcpy(image + CANARY + a->shift, a->host, a->bytes);
  if (rt_cuda_alloc(b->cuda, all, &device) || rt_cuda_upload(b->cuda, device, image, all))
    die(b, "upload");
  a->device = (char *)device + CANARY + a->shift;
  free(image);
}

static bool download(bench *b, array *a) {
  size_t all = a->bytes + a->shift + 2 * CANARY;
  unsigned char *image = malloc(all);
  bool whole = true;
  if (rt_cuda_download(b->cuda, image, (char *)a->device - CANARY - a->shift, all))
    die(b, "download");
  for (size_t i = 0; i < all; i++)
    if (i < CANARY + a->shift || i >= CANARY + a->shift + a->bytes)
      whole = whole && image[i] == 0xa5;
  memcpy(a->host, image + CANARY + a->shift, a->bytes);
  free(image);
  return whole;
}

static void forget(bench *b) {
  for (int i = 0; i < b->array_count; i++) {
    array *a = &b->array[i];
    if (a->device) rt_cuda_release(b->cuda, (char *)a->device - CANARY - a->shift);
    free(a->host);
  }
  b->array_count = 0;
}

static void collect(bench *b, const ir_stage *s) {
  for (int i = 0; i < b->image->codes.count; i++)
    for (int n = 0; b->image->codes.at[i].stage == s && n < b->image->codes.at[i].bufs.count; n++)
      array_of(b, b->image->codes.at[i].bufs.at[n]);
}

/* Whether the launch's tensor maps fit: where they do not, the code that stands in is launched. */
static bool maps_of(bench *b, const ir_code_image *code, const spc_args *args,
                    spc_tensor_maps *maps) {
  for (int i = 0; i < code->maps.count; i++) {
    const ir_box_map *map = &code->maps.at[i];
    bool fits = true;
    if (map->buf >= 0 &&
        rt_cuda_map(b->cuda, map, b->size, args->buf[map->buf], &maps->map[i], &fits))
      die(b, "tensor map");
    if (!fits) return false;
  }
  return true;
}

static void launch(bench *b, const ir_code_image *code, rt_cuda_module *module) {
  spc_args args;
  spc_tensor_maps maps;
  int64_t grid[3] = {0, 1, 1};
  memset(&args, 0, sizeof args);
  args.threshold = code->weighs ? (float)b->break_even : 0;
  for (int n = 0; n < code->bufs.count; n++) args.buf[n] = array_of(b, code->bufs.at[n])->device;
  for (int d = 0; d < CASE_DIMS; d++) args.size[d] = b->size[d];
  for (int d = 0; d < 3; d++)
    if (code->grid[d] && !ir_size_value(code->grid[d], b->size, &grid[d])) die(b, "grid");
  if (!code->stands_in) b->unfit |= !maps_of(b, code, &args, &maps);
  if (b->unfit != code->stands_in || (code->grid[0] && grid[0] == 0)) return;
  if (code->maps.count) b->boxes++;
  if (rt_cuda_launch(b->cuda, module, grid, &args, &maps, NULL)) die(b, "launch");
}

static void run(bench *b, const ir_stage *s) {
  b->unfit = false; /* one of the stage's kernels is, then another stands in for all of them */
  for (int i = 0; i < b->array_count; i++) upload(b, &b->array[i]);
  for (int i = 0; i < b->image->codes.count; i++) {
    const ir_code_image *code = &b->image->codes.at[i];
    rt_cuda_module *module;
    if (code->stage != s) continue;
    if (rt_cuda_load(b->cuda, code, &module)) die(b, code->entry);
    launch(b, code, module);
    if (rt_cuda_synchronise(b->cuda, NULL)) die(b, code->entry);
    rt_cuda_unload(b->cuda, module);
  }
  for (int i = 0; i < b->array_count; i++)
    if (!download(b, &b->array[i])) fail(b, s, s->row, b->array[i].buf->name, 0, 0, 0);
  b->checks++;
}

/* ---- products -------------------------------------------------------------------------------- */
static void fill_values(bench *b, array *a) {
  double scale = a && a->buf->dtype == IR_I8 ? 128 : 1;
  for (int64_t i = 0; a && i < a->count; i++)
    ir_dtype_store(a->buf->dtype, a->host, i, scale * value(b));
}

#include "tests/gpu/lists.h"

static int64_t element(const bench *b, char layout, int64_t g, int64_t x, int64_t y, int dx,
                       int dy) {
  int64_t X = b->size[dx], Y = b->size[dy];
  return g * X * Y + (layout == 'r' ? x * Y + y : y * X + x);
}

typedef struct sums {
  double sum, magnitude;
} sums;

#include "tests/gpu/bsr.h"

static void decode(array *a) {
  if (!a || a->real) return;
  a->real = malloc(sizeof(double) * (size_t)(a->count + 1));
  for (int64_t i = 0; i < a->count; i++) a->real[i] = ir_dtype_load(a->buf->dtype, a->host, i);
}

static void drop(array *a) {
  if (a) free(a->real), a->real = NULL;
}

/* blocks: A's, where it is stored so; at: where A holds k. */
static void add(bench *b, const product_case *p, const array *A, const array *blocks, const array *B, int64_t g,
                int64_t m, int64_t n, int64_t k, int64_t at, sums *s) {
  double x = blocks ? block_value(p, blocks, m, k) : A->real[element(b, p->layout_a, g, m, at, CASE_M, CASE_K)];
  double y = B->real[element(b, p->layout_b, g, k, n, CASE_K, CASE_N)];
  if (p->group > 0) {
    int64_t groups = (b->size[CASE_K] + p->group - 1) / p->group, row = A->buf->dtype == IR_I8 ? m : n;
    y *= ir_dtype_load(IR_F32, find(b, "factors")->host, row * groups + k / p->group);
  }
  s->sum += x * y;
  s->magnitude += fabs(x * y);
}

#include "tests/gpu/groups.h"

static sums reference(bench *b, const product_case *p, const ir_list *l, int64_t g, int64_t m,
                      int64_t n) {
  array *A = find(b, "A"), *B = find(b, "B"), *blocks = cuda_case_bsr(p) ? block_array(b, IR_BUF_VALS) : NULL;
  sums s = {0, 0};
  if (cuda_case_groups(p)) return group_of(b, m) < 0 ? s : group_reference(b, p, m, n);
  bool all = ((ir_kernel_k_blocks(cuda_case_row(p)) || cuda_case_brings(p)) && b->unfit) || /* a dense one ran */
             ((p->way == CASE_BOTH || p->way == CASE_ALONE) && ((int32_t *)array_of(b, l->verdict)->host)[0] > 0);
  if (!l || all || cuda_case_samples(p) || cuda_case_picks(p) || cuda_case_is_live(p) || cuda_case_is_krows(p)) { /* of live rows the others are zeros, and of pieces */
    for (int64_t k = 0; k < b->size[CASE_K]; k++) add(b, p, A, blocks, B, g, m, n, k, k, &s);
    return s;
  }
  array *counts = array_of(b, l->counts), *ids = array_of(b, l->ids);
  int64_t strip = strip_of(b, l, m), capacity = room_of(b, l);
  positions there = cuda_case_is_packed(p) && l->pairs ? written_for(b, l, m) : (positions){0, INT64_MAX};
  for (int i = 0; i < ((int32_t *)counts->host)[strip]; i++)
    for (int64_t r = 0; r < l->gran; r++) {
      int64_t k = ((int32_t *)ids->host)[strip * capacity + i] * l->gran + r;
      int64_t at = cuda_case_is_packed(p) ? i * l->gran + r : k;
      if (at >= there.begin && at < there.end && k < b->size[CASE_K]) add(b, p, A, blocks, B, g, m, n, k, at, &s);
    }
  return s;
}

/* at: where T holds column n. */
static void check_element(bench *b, const ir_stage *s, const product_case *p, int64_t g, int64_t m,
                          int64_t n, int64_t place) {
  int64_t stored = cuda_case_sdd(p) ? stored_at(p, m, n) : 0;
  if (stored < 0) return;
  sums r = reference(b, p, s->reads.count ? s->reads.at[0] : NULL, g, m, n);
  double want = r.sum;
  if (p->epilogue == CASE_BIAS_RELU) {
    want += ir_dtype_load(IR_F32, find(b, "bias")->host, n);
    want = want > 0 ? want : 0;
  } else if (p->epilogue == CASE_SCALES) {
    double scale = ir_dtype_load(IR_F16, find(b, "scale")->host, m);
    want = want * scale + ir_dtype_load(IR_F32, find(b, "bias")->host, n);
    r.magnitude *= fabs(scale);
  } else if (p->epilogue == CASE_RESIDUAL || p->epilogue == CASE_FLOATS) {
    ir_dtype dtype = p->epilogue == CASE_FLOATS ? IR_F32 : IR_BF16;
    want += ir_dtype_load(dtype, find(b, "residual")->host, m * b->size[CASE_N] + n);
  } else if (p->epilogue == CASE_GATE) {
    double gate = ir_dtype_load(IR_BF16, find(b, "gate")->host, n * b->size[CASE_M] + m);
    want *= gate;
    r.magnitude *= fabs(gate);
  } else if (p->epilogue == CASE_PLACE || p->epilogue == CASE_PLACE_FLOATS) {
    double factor = ir_dtype_load(stored_values(b)->buf->dtype, stored_values(b)->host, stored);
    want *= factor;
    r.magnitude *= fabs(factor);
  } else if (p->epilogue == CASE_MASK) {
    int64_t masked = element(b, p->layout_t, g, m, n, CASE_M, CASE_N);
    if (!ir_dtype_load_int(IR_B1, find(b, "mask")->host, masked)) want = CASE_FILL;
  }
  if (cuda_case_groups(p) && group_of(b, m) < 0) want = 0;
  if (cuda_case_picks(p) && !b->unfit && !is_picked(b, s->reads.at[0], m, n)) want = CASE_FILL;
  int64_t at = cuda_case_sdd(p) ? stored : element(b, p->layout_t, g, m, place, CASE_M, CASE_N);
  double got = ir_dtype_load(p->out, find(b, "T")->host, at);
  double bound =
      4e-6 * (r.magnitude + 1) + 1.01 * ir_dtype_epsilon(p->out) * (fabs(want) + 1e-6) + 1e-7;
  if (p->out == IR_F16) bound += 3e-8;
  if (ir_kernel_precision(cuda_case_row(p)) == IR_PRECISION_TF32)
    bound += r.magnitude / 1000; /* each factor to 11 bits */
  if (p->in == IR_F8E4M3 || p->in == IR_F8E5M2) bound += r.magnitude / 8192; /* sums of 14 bits */
  if (p->out == IR_I32) bound = 0;
  if (!(fabs(got - want) <= bound)) fail(b, s, p->row, "T", (double)at, got, want);
}

static void check_column(bench *b, const ir_stage *s, const product_case *p, int64_t m, int64_t at) {
  const ir_list *l = s->reads.at[0];
  int64_t n = listed(b, l, m, at), place = element(b, p->layout_t, 0, m, at, CASE_M, CASE_N);
  double got = ir_dtype_load(p->out, find(b, "T")->host, place);
  positions there = l->pairs ? written_for(b, l, m) : (positions){0, INT64_MAX};
  if (at < there.begin || at >= there.end) return;
  if (n >= 0)
    check_element(b, s, p, 0, m, n, at);
  else if (is_written(b, l, m, at) && got != 0)
    fail(b, s, p->row, "T past the list", (double)place, got, 0);
}

static void check_bits(bench *b, const ir_stage *s, const product_case *p) {
  const ir_list *l = s->detects;
  array *bits = array_of(b, l->bits), *t = find(b, "T");
  int64_t strips = (b->size[CASE_M] + l->strip - 1) / l->strip,
          capacity = (b->size[CASE_N] + l->gran - 1) / l->gran;
  int64_t words = (capacity + 31) / 32;
  for (int64_t i = 0; i < strips * words * 32; i++) {
    int64_t strip = i / (words * 32), tile = i % (words * 32);
    bool want = false, got = ((uint32_t *)bits->host)[i / 32] >> (i % 32) & 1;
    for (int64_t m = strip * l->strip; m < (strip + 1) * l->strip && m < b->size[CASE_M]; m++)
      for (int64_t n = tile * l->gran; n < (tile + 1) * l->gran && n < b->size[CASE_N]; n++)
        want |=
            ir_dtype_load(p->out, t->host, element(b, p->layout_t, 0, m, n, CASE_M, CASE_N)) != 0;
    if (got != want) fail(b, s, p->row, "bit", (double)i, got, want);
  }
}

/* Every element when there are few, a sample with all edges otherwise. */
static void check_product(bench *b, const ir_stage *s, const product_case *p) {
  int64_t M = b->size[CASE_M], N = b->size[CASE_N], G = p->batched ? b->size[CASE_BATCH] : 1;
  int64_t step = M * N * G > 1000000 ? 97 : M * N * G > 40000 ? 7 : 1;
  array *operands[] = {find(b, "A"), find(b, "B"), cuda_case_bsr(p) ? block_array(b, IR_BUF_VALS) : NULL};
  for (int i = 0; i < 3; i++) decode(operands[i]);
  for (int64_t g = 0; g < G; g++)
    for (int64_t m = 0; m < M; m++)
      for (int64_t n = 0; n < N; n++)
        if (step == 1 || (m * 31 + n * 17) % step == 0 || m + 2 > M || n + 2 > N) {
          if (cuda_case_samples(p))
            check_column(b, s, p, m, n);
          else
            check_element(b, s, p, g, m, n, n);
        }
  for (int i = 0; i < 3; i++) drop(operands[i]);
  if (s->detects) check_bits(b, s, p);
  if (cuda_case_sdd(p)) check_stored(b, s, p);
}

static void check_untouched(bench *b, const ir_stage *s, const product_case *p) {
  const array *t = find(b, "T");
  for (size_t i = 0; i < t->bytes; i++)
    if (((unsigned char *)t->host)[i] != 0xff) {
      fail(b, s, p->row, "written although the guard said no", (double)i, 0, 0);
      return;
    }
}

/* What its writer leaves behind the list: zeros to the end of a tile, then what was there before; so it does where the other of two strips has
 * entries alone. */
static void fill_behind(bench *b, const ir_list *l, const product_case *p, array *a) {
  enum { TILE = 128 };
  array *counts = array_of(b, l->counts);
  for (int64_t m = 0; m < b->size[CASE_M]; m++) {
    int64_t count = ((int32_t *)counts->host)[strip_of(b, l, m)] * l->gran;
    for (int64_t k = count; k < b->size[CASE_K]; k++)
      ir_dtype_store(p->in, a->host, element(b, p->layout_a, 0, m, k, CASE_M, CASE_K),
                     k < (count + TILE - 1) / TILE * TILE ? 0 : NAN);
    positions there = l->pairs ? written_for(b, l, m) : (positions){0, INT64_MAX};
    for (int64_t k = 0; k < b->size[CASE_K]; k++)
      if (k < there.begin || k >= there.end) ir_dtype_store(p->in, a->host, element(b, p->layout_a, 0, m, k, CASE_M, CASE_K), NAN);
  }
}

/* Columns without a value, others with some; -0 is a zero. */
static void thin_out(bench *b, array *a, char layout, int dx, int dy) {
  for (int64_t y = 0; a && y < b->size[dy]; y++) {
    double keep = uniform(b) < 0.6 ? 0 : uniform(b) < 0.3 ? 1 : 0.2;
    for (int64_t x = 0; x < b->size[dx]; x++)
      if (uniform(b) >= keep)
        ir_dtype_store(a->buf->dtype, a->host, element(b, layout, 0, x, y, dx, dy),
                       uniform(b) < 0.5 ? 0.0 : -0.0);
  }
}

#include "tests/gpu/compact.h"
#include "tests/gpu/rows.h"

static bool skips(const product_case *p) {
  const ir_kernel_row *row = cuda_case_row(p);
  return row && ir_kernel_skips(row);
}

/* A kernel that alone reads a list decides; one that walks bits leaves their counts. */
static void leave_alone(bench *b, const product_case *p, const ir_list *l, int verdict) {
  b->break_even = verdict ? -1 : INFINITY;
  if (ir_kernel_k_blocks(cuda_case_row(p))) memset(array_of(b, l->counts)->host, 0xff, array_of(b, l->counts)->bytes);
}

/* Whether the launch does nothing under this verdict: the other branch is meant, and it is not both. */
static bool leaves(const bench *b, const product_case *p, int verdict) {
  bool alone = p->way == CASE_ALONE, both = p->way == CASE_BOTH || (alone && cuda_case_row(p)->m == 128 && cuda_case_row(p)->n == 256); /* the twin's */
  if (alone && b->unfit) return false; /* nobody decides where another stands in */
  return p->guard && (verdict == 1) != (p->guard == 2) && (!both || b->unfit);
}

/* All beside A. */
static void fill_rest(bench *b) {
  static const char *const names[] = {"B", "bias", "residual", "scale", "gate", "factors"};
  for (int i = 0; i < IR_COUNT(names); i++) fill_values(b, find(b, names[i]));
  fill_groups(b);
}

static void product(bench *b, const ir_stage *s, const product_case *p, int kind, int verdict) {
  collect(b, s);
  if (cuda_case_sdd(p)) fill_stored(b, p, kind);
  if (cuda_case_bsr(p)) fill_blocks(b, p, kind);
  else fill_values(b, find(b, "A"));
  fill_rest(b);
  array *mask = find(b, "mask");
  for (int64_t i = 0; mask && i < mask->count; i++)
    ir_dtype_store_int(IR_B1, mask->host, i, uniform(b) < 0.5);
  if (skips(p)) thin_out(b, find(b, "gate"), 'c', CASE_M, CASE_N);
  if (skips(p)) thin_out(b, find(b, "A"), p->layout_a, CASE_M, CASE_K);
  /* Half of the result's columns are dead under relu, so that detection has something to find. */
  array *bias = find(b, "bias");
  for (int64_t n = 0; bias && p->epilogue == CASE_BIAS_RELU && n < bias->count; n++)
    if (uniform(b) < 0.5) ((float *)bias->host)[n] = -1e6f;
  if (s->reads.count && s->reads.at[0]->pairs) fill_pairs(b, s->reads.at[0], p, kind);
  else if (cuda_case_is_krows(p)) list_pieces(b, s->reads.at[0], p, kind);
  else if (s->reads.count) fill_list(b, s->reads.at[0], kind);
  if (cuda_case_regroups(p)) fill_order(b, s->reads.at[0]);
  if (cuda_case_is_live(p)) pack_rows(b, s->reads.at[0], p);
  if (cuda_case_brings(p)) bring_side_by_side(b, s->reads.at[0], p);
  if (cuda_case_is_packed(p)) fill_behind(b, s->reads.at[0], p, find(b, "A"));
  if (p->guard) ((int32_t *)array_of(b, s->when.list->verdict)->host)[0] = p->way == CASE_ALONE ? 0 : verdict;
  if (p->way == CASE_ALONE) leave_alone(b, p, s->when.list, verdict);
  run(b, s);
  (leaves(b, p, verdict) ? check_untouched : check_product)(b, s, p);
  forget(b);
}

/* ---- lists ----------------------------------------------------------------------------------- */
static const double special[] = {0.0, -0.0, 1e-7, NAN, -1};

static void fill_sparse(bench *b, array *v) {
  bool integer = !ir_dtype_is_float(v->buf->dtype);
  double keep = uniform(b) < 0.3 ? 0.5 : 0.01;
  for (int64_t i = 0; i < v->count; i++) {
    double x = uniform(b) < keep   ? value(b)
               : uniform(b) < 0.02 ? special[(int)(uniform(b) * 5)]
                                   : 0;
    if (integer)
      ir_dtype_store_int(v->buf->dtype, v->host, i, uniform(b) < keep);
    else
      ir_dtype_store(v->buf->dtype, v->host, i, x);
  }
}

static bool is_set(bench *b, const list_case *c, const array *v, int64_t m, int64_t n) {
  int64_t at = c->strip ? element(b, c->layout, 0, m, n, CASE_M, CASE_N) : n;
  return ir_dtype_is_float(c->dtype) ? ir_dtype_load(c->dtype, v->host, at) != 0
                                     : ir_dtype_load_int(c->dtype, v->host, at) != 0;
}

/* Of the values: whether micro-tile `tile` of strip t holds a non-zero; `order` NULL: rows lie as they are. */
static bool is_covered(bench *b, const list_case *c, const array *v, const int32_t *order, int64_t t, int64_t tile) {
  int64_t M = c->strip ? b->size[CASE_M] : 1, strip = c->strip ? c->strip : 1;
  for (int64_t m = t * strip; m < (t + 1) * strip && m < M; m++)
    for (int64_t f = tile * c->gran; f < (tile + 1) * c->gran && f < b->size[CASE_N]; f++)
      if (is_set(b, c, v, order ? order[m] : m, f)) return true;
  return false;
}

/* Every row has a place. */
static bool check_order(bench *b, const ir_stage *s) {
  array *order = array_of(b, s->detects->order);
  bool *seen = calloc((size_t)order->count + 1, sizeof *seen), all = true;
  for (int64_t i = 0; i < order->count; i++) {
    int32_t row = ((int32_t *)order->host)[i];
    bool good = row >= 0 && row < order->count && !seen[row];
    if (good) seen[row] = true;
    if (!good && all) fail(b, s, s->row, "order", (double)i, row, -1);
    all = all && good;
  }
  free(seen);
  return all;
}

static double check_pairs(bench *b, const ir_stage *s, const list_case *c, bool counted) {
  int64_t lists = lists_there(b, s->detects), room = room_of(b, s->detects), sum = 0;
  int64_t strips = (b->size[CASE_M] + c->strip - 1) / c->strip;
  unsigned char *held = calloc((size_t)room + 1, 1);
  for (int64_t pair = 0; pair < lists; pair++) {
    for (int64_t tile = 0; tile < room; tile++)
      held[tile] = (unsigned char)(is_covered(b, c, find(b, "V"), NULL, 2 * pair, tile) |
                                   is_covered(b, c, find(b, "V"), NULL, 2 * pair + 1, tile) << 1);
    sum += check_pair(b, s, pair, held, counted);
  }
  free(held);
  return strips && room ? (double)sum / (double)(strips * room) : 0;
}

/* The lists of the values, entry by entry unless `counted` alone; returns the cover. */
static double check_lists(bench *b, const ir_stage *s, const list_case *c, bool counted) {
  const ir_list *l = s->detects;
  array *v = find(b, "V"), *counts = array_of(b, l->counts), *ids = array_of(b, l->ids);
  int64_t capacity = (b->size[CASE_N] + c->gran - 1) / c->gran, sum = 0;
  if (c->way == LIST_ROWS) return check_rows(b, s, c, counted);
  if (c->way == LIST_KROWS) return check_pieces(b, s, c, counted);
  if (l->packed && !counted) check_side_by_side(b, s, c);
  if (l->pairs) return check_pairs(b, s, c, counted);
  if (c->way == LIST_REGROUPED && !check_order(b, s)) return 0;
  const int32_t *order = c->way == LIST_REGROUPED ? array_of(b, s->detects->order)->host : NULL;
  for (int64_t t = 0; t < counts->count; t++) {
    int n = 0;
    for (int64_t tile = 0; tile < capacity; tile++) {
      if (!is_covered(b, c, v, order, t, tile)) continue;
      int32_t got = ((int32_t *)ids->host)[t * capacity + n++];
      if (got != tile && !counted)
        fail(b, s, s->row, "id", (double)(t * capacity + n - 1), got, (double)tile);
    }
    if (((int32_t *)counts->host)[t] != n && !counted)
      fail(b, s, s->row, "count", (double)t, ((int32_t *)counts->host)[t], n);
    sum += n;
  }
  return counts->count && capacity ? (double)sum / (double)(counts->count * capacity) : 0;
}

/* A sample may decide: where the cover is near the threshold, either verdict is right. It looks at
 * a part of long micro-tiles, and may find less than there is: enough for dense all the same. */
static void check_verdict(bench *b, const ir_stage *s, double cover, double threshold) {
  const double near = 0.15;
  int verdict = ((int32_t *)array_of(b, s->detects->verdict)->host)[0];
  int measured = verdict < 0 ? -verdict : verdict; /* 1 + in 65536ths */
  if (measured < 1 || measured > 65537) fail(b, s, s->row, "verdict", threshold, verdict, cover);
  if ((verdict > 0) != (cover >= threshold) && fabs(cover - threshold) > near) fail(b, s, s->row, "verdict", threshold, verdict, cover);
  double found = (measured - 1) / 65536.0;
  if ((found > cover + near || (found < cover - near && found < threshold)))
    fail(b, s, s->row, "cover in the verdict", threshold, found, cover);
}

static array *values_of(bench *b) {
  array *v = NULL;
  for (int i = 0; i < b->array_count; i++)
    if (b->array[i].buf->kind == IR_BUF_VALS) v = &b->array[i];
  return v;
}

static void lists(bench *b, const ir_stage *s, const list_case *c) {
  static const double thresholds[] = {INFINITY, -1, 0.2, 0.8};
  for (int t = 0; t < (c->guarded ? IR_COUNT(thresholds) : 1); t++) {
    collect(b, s);
    fill_sparse(b, values_of(b));
    if (c->way == LIST_ROWS) empty_rows(b, c, values_of(b));
    if (c->way == LIST_KROWS) empty_pieces(b, c->dtype, c->layout, values_of(b), CASE_N, uniform(b) < 0.3 ? 0.02 : uniform(b));
    if (c->guarded) b->break_even = thresholds[t];
    run(b, s);
    bool dense = c->guarded && ((int32_t *)array_of(b, s->detects->verdict)->host)[0] > 0;
    bool unordered = dense && c->way == LIST_REGROUPED; /* a sample may have said so: there is no order then */
    double cover = unordered ? 1 : check_lists(b, s, c, dense);
    bool alone = c->way == LIST_ALONE || c->way == LIST_BROUGHT_ALONE || c->way == LIST_BROUGHT_PAIRS_ALONE || c->way == LIST_KROWS; /* who reads it decides; a sample may have */
    if (alone && dense && cover < thresholds[t] - 0.15) fail(b, s, s->row, "verdict", thresholds[t], 1, cover);
    if (unordered && thresholds[t] > 1) fail(b, s, s->row, "verdict", thresholds[t], 1, 0);
    else if (c->guarded && !unordered && !alone) check_verdict(b, s, cover, thresholds[t]);
    forget(b);
  }
}

/* ---- ops ------------------------------------------------------------------------------------- */
static double operand_value(bench *b, ir_dtype t, int64_t i) {
  static const double edges[] = {0, -0.0, 1, -1, NAN, INFINITY, -INFINITY, 0.5, -2.5, 3};
  if (t == IR_B1) return (double)(i % 2);
  if (!ir_dtype_is_float(t)) return floor(uniform(b) * 256 - 128);
  return i % 3 == 0 ? edges[(int)(uniform(b) * 10)] : 4 * value(b);
}

static void fill_operand(bench *b, array *a) {
  for (int64_t i = 0; i < a->count; i++) {
    double x = operand_value(b, a->buf->dtype, i);
    if (ir_dtype_is_float(a->buf->dtype))
      ir_dtype_store(a->buf->dtype, a->host, i, x);
    else
      ir_dtype_store_int(a->buf->dtype, a->host, i, ir_dtype_wrap(a->buf->dtype, (int64_t)x));
  }
}

static bool agree(ir_dtype t, double got, double want) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (got == want) return true;
  return fabs(got - want) <=
         (t == IR_F64 ? 1e-13 : 32 * ir_dtype_epsilon(t)) * (fabs(want) + 1e-30) + 1e-37;
}

static void check_op(bench *b, const ir_stage *s, ir_op op, ir_dtype t) {
  const ir_func *f = s->funcs.at[0];
  int arity = ir_op_rows[op].arity;
  array *y = array_of(b, f->bufs.at[arity]);
  for (int64_t i = 0; i < b->size[CASE_M]; i++) {
    double x[3] = {0}, want, got;
    int64_t xi[3] = {0};
    for (int n = 0; n < arity; n++) {
      array *a = array_of(b, f->bufs.at[n]);
      x[n] = ir_dtype_load(a->buf->dtype, a->host, i);
      xi[n] = ir_dtype_is_float(a->buf->dtype) ? 0 : ir_dtype_load_int(a->buf->dtype, a->host, i);
    }
    bool integer = !ir_dtype_is_float(t) && ir_op_rows[op].eval_int;
    want = integer ? (double)ir_op_rows[op].eval_int(xi) : ir_op_rows[op].eval(x);
    got = ir_dtype_load(y->buf->dtype, y->host, i);
    if (ir_dtype_is_float(y->buf->dtype))
      want = ir_dtype_round(y->buf->dtype, want);
    else
      want = (double)ir_dtype_wrap(y->buf->dtype, (int64_t)want);
    if (!agree(y->buf->dtype, got, want)) {
      char text[128];
      snprintf(text, sizeof text, "%s(%g, %g)", f->name, x[0], x[1]);
      fail(b, s, text, "y", (double)i, got, want);
    }
  }
}

static void op(bench *b, const ir_stage *s, ir_op which, ir_dtype t) {
  collect(b, s);
  for (int n = 0; n < ir_op_rows[which].arity; n++)
    fill_operand(b, array_of(b, s->funcs.at[0]->bufs.at[n]));
  run(b, s);
  check_op(b, s, which, t);
  forget(b);
}

/* ---- whole runs ------------------------------------------------------------------------------ */
static void compile(bench *b) {
  cg_options options = {.target = ir_target_find(rt_cuda_arch(b->cuda))};
  spc_status status =
      cg_cuda_compile(b->cases.arena, b->cases.kernel, &options, b->cases.sink, &b->image);
  ir_text text = ir_text_new(b->cases.arena);
  ir_sink_render(b->cases.sink, &text, false);
  if (text.length) printf("%s\n", text.data);
  if (status) exit(4);
}

/* Blocks of such a row walk many tiles: it takes a large result to see the second one. */
static bool walks_tiles(const product_case *p) {
  const ir_kernel_row *row = cuda_case_row(p);
  return row && (ir_kernel_moves_boxes(row) || ir_kernel_is_grouped(row));
}

static void products(bench *b, bool small, const char *named) {
  /* The first two, rows that are not aligned and rows that are, are all of the small subset. */
  static const int64_t sizes[][4] = {{37, 53, 29, 3}, {40, 24, 80, 3}, {300, 77, 515, 2}, {256, 256, 256, 2}, {1, 1, 1, 1},
                                     {200, 136, 64, 1}, {64, 200, 0, 2}, {515, 264, 40, 1}, {129, 130, 131, 2},
                                     {328, 520, 200, 2}, {312, 592, 136, 1}, {1032, 2056, 144, 2}, {9, 72, 6000, 1},
                                     {61, 24, 20000, 1}, {40, 1040, 2064, 1}, {9, 70000, 16, 1}};
  const ir_stage **stages = calloc((size_t)cuda_product_case_count, sizeof *stages);
  cuda_cases_new(&b->cases);
  for (int i = 0; i < cuda_product_case_count; i++)
    stages[i] = cuda_case_fits(&cuda_product_cases[i], rt_cuda_arch(b->cuda)) &&
                        strstr(cuda_product_cases[i].row, named) &&
                        i % b->shares == b->share
                    ? cuda_case_product(&b->cases, &cuda_product_cases[i])
                    : NULL;
  compile(b);
  for (int z = 0; z < (small ? 2 : IR_COUNT(sizes)); z++)
    for (int i = 0; i < cuda_product_case_count; i++) {
      memcpy(b->size, sizes[z], sizeof b->size);
      const product_case *p = &cuda_product_cases[i];
      if (!stages[i] || (b->size[0] > 1000 && !walks_tiles(p))) continue;
      /* A warp finds more than it has room for; several slots a row, several windows a block. */
      if ((b->size[2] > 5000 && !skips(p)) || (z > 13 && !ir_kernel_brings_rows(cuda_case_row(p)))) continue;
      for (int kind = 0; kind < (p->strip ? 3 : 1); kind++)
        for (int verdict = 0; verdict < (p->guard ? 2 : 1); verdict++)
          for (b->shift = 0; b->shift < (small ? 1 : 2); b->shift++)
            product(b, stages[i], p, kind, verdict);
    }
  printf("%d launches moved boxes\n", b->boxes);
  if (!b->boxes && !*named && !strcmp(rt_cuda_arch(b->cuda), "sm_90a")) b->failures++;
  free(stages);
  cuda_cases_free(&b->cases);
}

static void list_kernels(bench *b, bool small) {
  /* The first two, rows that are aligned and rows that are not, are all of the small subset. */
  static const int64_t sizes[][4] = {{48, 53, 0, 0},    {37, 1030, 0, 0},  {300, 1030, 0, 0},
                                     {1, 1, 0, 0},      {129, 9000, 0, 0}, {16, 20000, 0, 0}, {64, 32, 0, 0},
                                     {272, 9000, 0, 0}, {64, 0, 0, 0},    {5000, 72, 0, 0}};
  const ir_stage *stages[64];
  cuda_cases_new(&b->cases);
  b->shift = 0;
  b->random = FIRST_RANDOM; /* whatever products there were: a sample that decides is the same one each time */
  for (int i = 0; i < cuda_list_case_count; i++)
    stages[i] = cuda_case_list(&b->cases, &cuda_list_cases[i]);
  compile(b);
  for (int z = 0; z < (small ? 2 : IR_COUNT(sizes)); z++) {
    memcpy(b->size, sizes[z], sizeof b->size);
    for (int i = 0; i < cuda_list_case_count; i++) lists(b, stages[i], &cuda_list_cases[i]);
  }
  cuda_cases_free(&b->cases);
}

static void ops(bench *b, bool small) {
  const ir_stage *stages[IR_OP_COUNT][IR_DTYPE_COUNT] = {{NULL}};
  cuda_cases_new(&b->cases);
  b->shift = 0;
  for (int o = 0; o < IR_OP_COUNT; o++)
    for (int t = IR_NONE + 1; t < IR_DTYPE_COUNT; t++)
      if (!small || t == IR_F32) stages[o][t] = cuda_case_op(&b->cases, (ir_op)o, (ir_dtype)t);
  compile(b);
  memcpy(b->size, (int64_t[]){1000, 1, 1, 1}, sizeof b->size);
  for (int o = 0; o < IR_OP_COUNT; o++)
    for (int t = 0; t < IR_DTYPE_COUNT; t++)
      if (stages[o][t]) op(b, stages[o][t], (ir_op)o, (ir_dtype)t);
  cuda_cases_free(&b->cases);
}

#include "tests/gpu/rates.h"

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "check", *named = argc > 2 ? argv[2] : "", *why = "";
  bench b = {.random = FIRST_RANDOM, .shares = 1};
  setvbuf(stdout, NULL, _IOLBF, 1 << 12); /* what was found stays, should a limit of time end this */
  if (rt_cuda_open(&b.cuda, &why)) {
    printf("skipped: %s\n", why);
    return 77;
  }
  if (argc > 3 && (sscanf(argv[3], "%d/%d", &b.share, &b.shares) != 2 || b.share-- < 1 ||
                   b.share >= b.shares)) {
    printf("a share is I/N with I from 1 to N, not %s\n", argv[3]);
    return 2;
  }
  printf("%s, %s, driver %d, %s\n", rt_cuda_name(b.cuda), rt_cuda_arch(b.cuda),
         rt_cuda_driver_version(b.cuda), cg_nvrtc_version());
  bool small = !strcmp(mode, "small");
  if (!strcmp(mode, "time"))
    time_rows(&b, named);
  else {
    products(&b, small, named);
    if (strstr("lists", named) && b.share == 0) list_kernels(&b, small);
    if (strstr("ops", named) && b.share == b.shares - 1) ops(&b, small);
    printf("%d passed, %d failed\n", b.checks, b.failures);
  }
  rt_cuda_close(b.cuda);
  return b.failures ? 3 : 0;
}
