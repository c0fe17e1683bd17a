/* bench.c - `spc bench`: each kernel and its dense twin over densities and granularities of the
 * zeros, checked, as a table, JSON and a chart; or every candidate of the choice. */
#include "driver/bench.h"

#include <stdlib.h>

enum { RUNS = 51, SECONDS = 60, MOST_GRAN = 1 << 20 };
static const char *const default_sweep = "0.01,0.02,0.05,0.1,0.25,0.5,0.75,0.9,1";
static const char *const default_grans = "1x1,1x8,8x1,32x1,128x1,64x64";

ir_arena *bench_arena(bench *b) {
  ir_arena *arena = ir_arena_new();
  if (!arena) longjmp(*b->out_of_memory, 1);
  ir_arena_guard(arena, b->out_of_memory);
  return arena;
}

void bench_note(bench *b, const char *format, ...) {
  ir_text text = ir_text_new(b->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  IR_PUSH(b->arena, &b->notes, text.data);
}

/* ---- what is asked for ----------------------------------------------------------------------- */
static spc_status bad_sweep(bench *b, const char *text) {
  drv_usage_error(b->s,
                  "--sweep wants densities and block sizes, as in 0.01,0.1,1:1x1,32x1 (either "
                  "side may be empty), or none; not `%s`",
                  text);
  return SPC_INVALID_ARGUMENT;
}

static spc_status read_densities(bench *b, const char *whole, const char *text) {
  while (*text && *text != ':') {
    char *end;
    double value = strtod(text, &end);
    if (end == text || !(value > 0 && value <= 1) || (*end && *end != ',' && *end != ':'))
      return bad_sweep(b, whole);
    IR_PUSH(b->arena, &b->densities, value);
    text = *end == ',' ? end + 1 : end;
  }
  return SPC_OK;
}

static spc_status read_grans(bench *b, const char *whole, const char *text) {
  while (*text) {
    char *end;
    long rows = strtol(text, &end, 10);
    if (*end != 'x' || rows < 1 || rows > MOST_GRAN) return bad_sweep(b, whole);
    long cols = strtol(end + 1, &end, 10);
    if (cols < 1 || cols > MOST_GRAN || (*end && *end != ',')) return bad_sweep(b, whole);
    IR_PUSH(b->arena, &b->grans, ((bench_mask){.rows = (int)rows, .cols = (int)cols}));
    text = *end ? end + 1 : end;
  }
  return SPC_OK;
}

static int by_density(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static spc_status read_sweep(bench *b) {
  const char *text = b->s->options.sweep ? b->s->options.sweep : "";
  if (!strcmp(text, "none")) return SPC_OK;
  const char *colon = strchr(text, ':');
  bool densities = *text && *text != ':', grans = colon && colon[1];
  SPC_TRY(read_densities(b, text, densities ? text : default_sweep));
  SPC_TRY(read_grans(b, text, grans ? colon + 1 : default_grans));
  qsort(b->densities.at, (size_t)b->densities.count, sizeof(double), by_density);
  return SPC_OK;
}

static spc_status read_options(bench *b) {
  const drv_options *o = &b->s->options;
  b->cold = o->cold;
  b->runs = RUNS;
  b->seconds = o->seconds ? (double)o->seconds : SECONDS;
  b->random.state = 0x5bc0ffee + (uint64_t)o->seed;
  if (o->candidates && strcmp(o->candidates, "all")) {
    drv_usage_error(b->s, "--candidates is all, not `%s`", o->candidates);
    return SPC_INVALID_ARGUMENT;
  }
  return read_sweep(b);
}

/* ---- the machine ----------------------------------------------------------------------------- */
static spc_status open_evict(bench *b) {
  if (!b->cold) return SPC_OK;
  b->evict_bytes = (size_t)256 << 20; /* larger than any last cache so far */
  if (b->cuda) return rt_cuda_alloc(b->cuda, b->evict_bytes, &b->evict);
  b->evict = calloc(1, b->evict_bytes);
  return b->evict ? SPC_OK : SPC_OUT_OF_MEMORY;
}

spc_status bench_open_machine(bench *b) {
  SPC_TRY(drv_pick_backend(b->s, &b->backend, &b->cuda));
  if (b->backend == DRV_INTERP) {
    drv_usage_error(b->s, "the interpreter is the reference, slow on purpose: there is nothing to "
                          "measure; use --backend=cpu or cuda");
    return SPC_INVALID_ARGUMENT;
  }
  b->target = drv_target_of(b->s, b->backend, b->cuda);
  if (!b->target) return SPC_INVALID_ARGUMENT;
  if (b->backend == DRV_CPU) b->pool = rt_pool_new((int)b->s->options.threads);
  if (b->cuda && rt_cuda_stream_new(b->cuda, &b->stream)) return SPC_INTERNAL;
  return open_evict(b);
}

void bench_close_machine(bench *b) {
  if (b->cuda && b->evict) rt_cuda_release(b->cuda, b->evict);
  if (!b->cuda) free(b->evict);
  rt_pool_free(b->pool);
  if (b->cuda && b->stream) rt_cuda_stream_free(b->cuda, b->stream);
  if (b->cuda) rt_cuda_close(b->cuda);
}

/* ---- one kernel ------------------------------------------------------------------------------ */
/* Formats of blocks store whole blocks: finer zeros in them would say nothing. */
static void block_of(const ir_format *format, int64_t *rows, int64_t *cols) {
  *rows = *cols = 1;
  for (int l = 0; format && format->rank == 2 && l < format->level_count; l++)
    if (format->level[l].kind == IR_LEVEL_DENSE && format->level[l].map == IR_MAP_MOD)
      *(format->level[l].dim == 0 ? rows : cols) = format->level[l].factor;
}

static const char *misfit(bench *b, const bench_mask *gran) {
  for (int i = 0; i < b->operands.count; i++) {
    const bench_operand *o = &b->operands.at[i];
    int64_t rows, cols;
    if (o->kind == BENCH_FIXED) continue;
    block_of(o->tensor->format, &rows, &cols);
    if (o->kind == BENCH_MASKED && (gran->rows % rows || gran->cols % cols))
      return ir_format_text(b->arena, "%s is stored in blocks of %lldx%lld", o->tensor->name,
                            (long long)rows, (long long)cols);
    int64_t high = o->kind == BENCH_COLS ? 1 : o->dense.dim[o->kind == BENCH_ROWS ? o->row_dim : 0];
    if (o->tensor->rank == 2 && o->kind != BENCH_COLS && gran->rows > 1 && gran->rows > high)
      return ir_format_text(b->arena, "%s has %lld rows", o->tensor->name, (long long)high);
  }
  return NULL;
}

/* A format's own block stands for granularities that it cannot tell apart. */
static void add_block_gran(bench *b) {
  for (int i = 0; i < b->operands.count; i++) {
    const bench_operand *o = &b->operands.at[i];
    int64_t rows, cols;
    block_of(o->tensor->format, &rows, &cols);
    if (o->kind != BENCH_MASKED || rows * cols == 1) continue;
    bench_mask own = {.rows = (int)rows, .cols = (int)cols};
    for (int g = 0; g < b->grans.count; g++)
      if (b->grans.at[g].rows == own.rows && b->grans.at[g].cols == own.cols) return;
    IR_PUSH(b->arena, &b->grans, own);
    return;
  }
}

/* Operands stored sparse that nothing was bound to: even without a sweep they are filled, as estimates take them. */
static bool stores_unbound(const bench *b) {
  for (int i = 0; i < b->operands.count; i++) {
    const bench_operand *o = &b->operands.at[i];
    if (o->kind == BENCH_MASKED && o->tensor->format && !ir_format_is_dense(o->tensor->format)) return true;
  }
  return false;
}

static void plan_points(bench *b) {
  if (!bench_sweeps(b) || !b->densities.count) {
    bench_point point = {.mask = bench_assumed_mask(b->kernel), .swept = stores_unbound(b)};
    IR_PUSH(b->arena, &b->points, point);
    return;
  }
  add_block_gran(b);
  int kept = 0;
  for (int g = 0; g < b->grans.count; g++) {
    const char *why = misfit(b, &b->grans.at[g]);
    if (why)
      bench_note(b, "zeros of %dx%d are left out: %s", b->grans.at[g].rows, b->grans.at[g].cols,
                 why);
    else
      b->grans.at[kept++] = b->grans.at[g];
  }
  b->grans.count = kept;
  for (int g = 0; g < b->grans.count; g++)
    for (int d = 0; d < b->densities.count; d++) {
      bench_point point = {.mask = b->grans.at[g], .swept = true};
      point.mask.density = b->densities.at[d];
      IR_PUSH(b->arena, &b->points, point);
    }
}

static spc_status open_sides(bench *b) {
  bench_want ours = {.label = "spc"}, dense = {.label = "dense", .dense = true, .quiet = true};
  SPC_TRY(bench_side_open(b, &ours, &b->ours));
  if (bench_side_open(b, &dense, &b->dense))
    bench_note(b, "no dense program to compare with: it does not compile");
  return SPC_OK;
}

static spc_status measure_points(bench *b) {
  for (int i = 0; i < b->points.count; i++) {
    bench_point *p = &b->points.at[i];
    double left = b->seconds - (drv_now_ms() - b->begin) / 1e3;
    if (left <= 0 && i)
      p->left_out = "the time is up (--seconds gives more)";
    else
      SPC_TRY(bench_point_measure(b, p, left > 0 ? left / (b->points.count - i) : 0));
    if (p->left_out && i && b->points.at[i - 1].left_out == p->left_out) continue;
    bench_table_point(b, p);
  }
  bench_table_end(b);
  return SPC_OK;
}

static bool is_wrong(const bench *b) {
  for (int i = 0; i < b->points.count; i++)
    if (b->points.at[i].check.done && !b->points.at[i].check.right) return true;
  return false;
}

static void close_kernel(bench *b) {
  bench_side_close(b->ours);
  bench_side_close(b->dense);
  bench_data_close(b);
  b->ours = b->dense = NULL;
}

static spc_status run_kernel(bench *b) {
  SPC_TRY(bench_data_open(b));
  SPC_TRY(open_sides(b));
  plan_points(b);
  bench_table_head(b);
  SPC_TRY(measure_points(b));
  if (b->s->options.candidates) {
    SPC_TRY(bench_candidates(b));
    bench_table_candidates(b);
  }
  drv_measured_keep(b->s, b);
  return is_wrong(b) ? SPC_MISMATCH : SPC_OK;
}

/* ---- all kernels ----------------------------------------------------------------------------- */
typedef struct report {
  ir_text json, svg;
  int count;
} report;

static int wanted_kernels(const drv_session *s) {
  return s->options.kernel ? 1 : s->program->kernels.count;
}

static spc_status run_one(drv_session *s, const bench *whole, ir_kernel *kernel, report *r) {
  bench b = *whole; /* its sweep and its machine */
  int grans = b.grans.count;
  b.kernel = kernel;
  b.begin = drv_now_ms();
  b.grans.at = IR_NEW_ARRAY(s->arena, bench_mask, grans + 1);
  b.grans.capacity = grans + 1;
  memcpy(b.grans.at, whole->grans.at, sizeof(bench_mask) * (size_t)grans);
  if (r->count) puts("");
  spc_status status = run_kernel(&b);
  if (!status || status == SPC_MISMATCH) {
    ir_text_put(&r->json, r->count ? ",\n" : "[");
    bench_json(&b, &r->json);
    bench_svg(&b, r->count++, &r->svg);
  }
  close_kernel(&b);
  return status;
}

static spc_status run_all(bench *b) {
  drv_session *s = b->s;
  report r = {ir_text_new(s->arena), ir_text_new(s->arena), 0};
  ir_kernel *only = NULL;
  spc_status status = SPC_OK, worst = SPC_OK;
  if (s->options.kernel || s->options.binds.items.count) SPC_TRY(drv_pick_kernel(s, &only));
  bench_svg_open(&r.svg, only ? 1 : wanted_kernels(s));
  for (int k = 0; k < s->program->kernels.count && !status; k++) {
    ir_kernel *kernel = s->program->kernels.at[k];
    if (only && kernel != only) continue;
    status = run_one(s, b, kernel, &r);
    if (status == SPC_MISMATCH) worst = status, status = SPC_OK;
  }
  if (status) return status;
  ir_text_put(&r.json, "]\n");
  bench_svg_close(&r.svg);
  if (s->options.json_file)
    SPC_TRY(drv_write_file(s, s->options.json_file, r.json.data, r.json.length));
  if (s->options.svg) SPC_TRY(drv_write_file(s, s->options.svg, r.svg.data, r.svg.length));
  return worst;
}

static spc_status guarded(drv_session *s, bench *b) {
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory)) {
    fputs("spc: out of memory\n", stderr);
    return SPC_OUT_OF_MEMORY;
  }
  b->out_of_memory = &out_of_memory;
  SPC_TRY(read_options(b));
  SPC_TRY(drv_load(s, s->arguments.items.at[0]));
  if (s->program->after > 0) {
    drv_usage_error(s,
                    "bench compiles the program several times: start from the .spx file, not from "
                    "IR after pass %d",
                    s->program->after);
    return SPC_INVALID_ARGUMENT;
  }
  SPC_TRY(bench_open_machine(b));
  return run_all(b);
}

int drv_bench(drv_session *s) {
  if (s->arguments.items.count != 1)
    return drv_usage_error(s, "bench wants one file; see `spc help bench`");
  bench *b = IR_NEW(s->arena, bench);
  b->s = s;
  b->arena = s->arena;
  spc_status status = guarded(s, b);
  bench_close_machine(b);
  return drv_finish(s, status);
}
