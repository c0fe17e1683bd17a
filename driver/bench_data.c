/* bench_data.c - operands of a bench: random values, and another mask for every repetition.
 *
 * Random values are copied in windows out of a pool of normal values in the operand's dtype, so
 * that a repetition costs about a copy.  Masks are drawn block by block.  The dense form of an
 * operand is made first; a sparse format is converted from it, so the dense twin sees the same
 * matrix. */
#include <math.h>

#include "driver/bench.h"
#include "passes/cost.h"
#include "passes/storage.h"

enum { POOL = 1 << 16, WINDOW = 512 };

/* ---- random ---------------------------------------------------------------------------------- */
uint64_t bench_bits(bench_random *random) { /* SplitMix64 */
  uint64_t z = random->state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

double bench_uniform(bench_random *random) {
  return ((double)(bench_bits(random) >> 12) + 0.5) * (1.0 / 4503599627370496.0);
}

static const bench_pool *pool_of(bench *b, ir_dtype dtype, double scale) {
  for (int i = 0; i < b->pools.count; i++)
    if (b->pools.at[i].values.dtype == dtype && b->pools.at[i].scale == scale)
      return &b->pools.at[i];
  bench_pool pool = {.scale = scale};
  int64_t count = POOL;
  double seed = (double)(bench_bits(&b->random) >> 33);
  ir_view_dense(b->arena, dtype, 1, &count, &pool.values);
  (void)ir_generate(b->arena, "rand", &seed, 1, 0, &pool.values); /* dense: it cannot fail */
  void *data = pool.values.vals.data;
  for (int64_t i = 0; scale != 1 && i < count; i++)
    ir_dtype_store(dtype, data, i, scale * ir_dtype_load(dtype, data, i));
  IR_PUSH(b->arena, &b->pools, pool);
  return &b->pools.at[b->pools.count - 1];
}

void bench_random_values(bench *b, ir_view *view, double scale) {
  const bench_pool *pool = pool_of(b, view->dtype, scale);
  size_t bytes = ir_dtype_bytes(view->dtype);
  for (int64_t i = 0; i < view->vals.count; i += WINDOW) {
    int64_t count = view->vals.count - i < WINDOW ? view->vals.count - i : WINDOW;
    size_t from = (size_t)(bench_bits(&b->random) % (POOL - WINDOW));
    memcpy((char *)view->vals.data + (size_t)i * bytes,
           (const char *)pool->values.vals.data + from * bytes, (size_t)count * bytes);
  }
}

/* ---- masks ----------------------------------------------------------------------------------- */
typedef struct matrix { /* the last two dimensions; the others count as more rows */
  int64_t rows, cols;
} matrix;

static matrix matrix_of(const ir_view *view) {
  matrix m = {1, view->rank ? view->dim[view->rank - 1] : 1};
  for (int d = 0; d + 1 < view->rank; d++) m.rows *= view->dim[d];
  return m;
}

static void clear(ir_view *view, int64_t cols, int64_t row, int64_t row_end, int64_t col,
                  int64_t col_end) {
  size_t bytes = ir_dtype_bytes(view->dtype);
  for (int64_t r = row; r < row_end; r++)
    memset((char *)view->vals.data + (size_t)(r * cols + col) * bytes, 0,
           (size_t)(col_end - col) * bytes);
}

static void draw_mask(bench *b, ir_view *view, const bench_mask *mask) {
  matrix m = matrix_of(view);
  uint64_t keep = (uint64_t)(mask->density * 18446744073709549568.0);
  if (mask->density >= 1) return;
  for (int64_t r = 0; r < m.rows; r += mask->rows)
    for (int64_t c = 0; c < m.cols; c += mask->cols) {
      if (bench_bits(&b->random) < keep) continue;
      int64_t row_end = r + mask->rows < m.rows ? r + mask->rows : m.rows;
      int64_t col_end = c + mask->cols < m.cols ? c + mask->cols : m.cols;
      clear(view, m.cols, r, row_end, c, col_end);
    }
}

/* n of every m along the last axis are kept: what nm(n,m) can hold. */
static void draw_n_of_m(bench *b, ir_view *view, int64_t n, int64_t m) {
  size_t bytes = ir_dtype_bytes(view->dtype);
  for (int64_t i = 0; i + m <= view->vals.count; i += m) {
    int64_t left = n;
    for (int64_t k = 0; k < m; k++) {
      if ((int64_t)(bench_bits(&b->random) >> 33) % (m - k) < left)
        left--;
      else
        memset((char *)view->vals.data + (size_t)(i + k) * bytes, 0, bytes);
    }
  }
}

static const ir_level *level_of_kind(const ir_format *format, ir_level_kind kind) {
  for (int l = 0; format && l < format->level_count; l++)
    if (format->level[l].kind == kind) return &format->level[l];
  return NULL;
}

/* ---- which operands -------------------------------------------------------------------------- */
static bool can_mask(const ir_tensor *tensor) {
  if (level_of_kind(tensor->format, IR_LEVEL_NM) || tensor->rank < 1) return false;
  return pass_tensor_is_sparse(tensor) || tensor->pattern.zeros != IR_ZEROS_UNKNOWN;
}

bool bench_sweeps(const bench *b) {
  for (int i = 0; i < b->operands.count; i++)
    if (b->operands.at[i].kind != BENCH_FIXED) return true;
  return false;
}

bench_operand *bench_operand_named(bench *b, const char *name) {
  for (int i = 0; i < b->operands.count; i++)
    if (!strcmp(b->operands.at[i].tensor->name, name)) return &b->operands.at[i];
  return NULL;
}

typedef struct subscript_search {
  const ir_tensor *tensor;
  const ir_tensor *into; /* the tensor that it is a subscript of */
  int dim;
} subscript_search;

static bool finds_subscript(void *user, ir_expr *e) {
  subscript_search *search = user;
  for (int d = 0; e->kind == IR_ACCESS && d < e->arg_count; d++) {
    const ir_expr *sub = e->args[d];
    while (sub->kind == IR_CAST) sub = sub->args[0];
    if (sub->kind != IR_ACCESS || sub->tensor != search->tensor) continue;
    search->into = e->tensor;
    search->dim = d;
  }
  return true;
}

/* x[perm[r]]: what `perm` may hold. */
static int64_t subscript_limit(bench *b, const ir_tensor *tensor) {
  subscript_search search = {.tensor = tensor};
  int64_t limit = 0;
  for (int i = 0; i < b->kernel->stmts.count; i++) {
    ir_stmt *stmt = b->kernel->stmts.at[i];
    ir_expr *target = ir_access(b->arena, stmt->target, stmt->subs);
    (void)ir_expr_walk(target, finds_subscript, &search);
    (void)ir_expr_walk(stmt->value, finds_subscript, &search);
  }
  if (search.into) (void)ir_size_value(search.into->dim[search.dim], b->sizes, &limit);
  return limit;
}

static bool bounds_ragged(const bench *b, const ir_tensor *tensor) {
  for (int i = 0; i < b->kernel->indices.count; i++)
    if (b->kernel->indices.at[i]->offsets == tensor) return true;
  return false;
}

/* ---- making them ----------------------------------------------------------------------------- */
static spc_status new_dense(bench *b, bench_operand *o) {
  int64_t dims[IR_MAX_RANK], elements = 1;
  const ir_tensor *declared = ir_declared(o->tensor);
  for (int d = 0; d < declared->rank; d++) {
    if (!ir_size_value(declared->dim[d], b->sizes, &dims[d])) return SPC_INVALID_INPUT;
    if (dims[d] && elements > ((int64_t)1 << 34) / dims[d]) {
      ir_diag_add(b->s->sink, IR_DIAG_BUFFER_SIZE, o->tensor->span,
                  "`%s` is too large to be measured at these sizes", o->tensor->name);
      return SPC_INVALID_INPUT;
    }
    elements *= dims[d];
  }
  ir_dtype dtype = o->tensor->dtype == IR_NONE ? IR_B1 : o->tensor->dtype;
  ir_view_dense(b->arena, dtype, declared->rank, dims, &o->dense);
  return SPC_OK;
}

static bool is_stored(const ir_view *view, int64_t i) {
  static const char zero[8];
  size_t bytes = ir_dtype_bytes(view->dtype);
  return memcmp((const char *)view->vals.data + (size_t)i * bytes, zero, bytes) != 0;
}

/* What is not zero, in row-major order: packing finds it sorted. */
static void entries_of(ir_arena *arena, const ir_view *view, ir_entries *out) {
  int64_t count = 0, total = view->vals.count, next = 0;
  for (int64_t i = 0; i < total; i++) count += is_stored(view, i);
  bool floats = ir_dtype_is_float(view->dtype);
  *out = (ir_entries){.rank = view->rank, .count = count, .capacity = count};
  out->at = IR_NEW_ARRAY(arena, int64_t, count * view->rank + 1);
  if (floats)
    out->value = IR_NEW_ARRAY(arena, double, count + 1);
  else
    out->int_value = IR_NEW_ARRAY(arena, int64_t, count + 1);
  for (int64_t i = 0; i < total; i++) {
    if (!is_stored(view, i)) continue;
    int64_t rest = i;
    for (int d = view->rank; d-- > 0; rest /= view->dim[d])
      out->at[next * view->rank + d] = rest % view->dim[d];
    if (floats)
      out->value[next++] = ir_dtype_load(view->dtype, view->vals.data, i);
    else
      out->int_value[next++] = ir_dtype_load_int(view->dtype, view->vals.data, i);
  }
}

/* The stored form from the dense one. */
static spc_status store(bench *b, bench_operand *o, const char **why) {
  if (!o->copied) {
    o->stored = o->dense;
    return SPC_OK;
  }
  ir_arena_free(o->arena);
  o->arena = bench_arena(b);
  ir_entries entries;
  entries_of(o->arena, &o->dense, &entries);
  SPC_TRY(ir_view_pack(o->arena, o->dense.dtype, o->dense.dim, o->tensor->format, IR_I32, &entries,
                       &o->stored, why));
  if (o->tensor->dtype == IR_NONE) {
    o->stored.dtype = IR_NONE;
    o->stored.vals.data = NULL;
  }
  return SPC_OK;
}

/* A pattern stores entries, whatever their value: all of them, until a mask takes some. */
static void fill_any(bench *b, bench_operand *o) {
  if (o->tensor->dtype == IR_NONE)
    memset(o->dense.vals.data, 1, (size_t)o->dense.vals.count);
  else
    bench_random_values(b, &o->dense, 1);
}

static void fill_fixed(bench *b, bench_operand *o) {
  const ir_level *nm = level_of_kind(o->tensor->format, IR_LEVEL_NM);
  int64_t limit = subscript_limit(b, o->tensor);
  double args[3] = {(double)(bench_bits(&b->random) >> 33), 0, (double)limit};
  if (bounds_ragged(b, o->tensor)) {
    int64_t end = 0;
    for (int i = 0; i < b->kernel->indices.count; i++)
      if (b->kernel->indices.at[i]->offsets == o->tensor)
        (void)ir_size_value(b->kernel->indices.at[i]->extent, b->sizes, &end);
    (void)ir_generate(b->arena, "offsets", args, 1, end, &o->dense);
  } else if (limit > 0) {
    (void)ir_generate(b->arena, "randint", args, 3, 0, &o->dense);
  } else {
    fill_any(b, o);
  }
  if (nm) draw_n_of_m(b, &o->dense, nm->parameter, nm->factor);
}

spc_status bench_data_dense(bench *b, bench_operand *o) {
  const char *why = "";
  if (o->dense.vals.data) return SPC_OK;
  const ir_format *row_major = ir_format_builtin(b->arena, "dense", ir_declared(o->tensor)->rank, NULL, 0, &why);
  return ir_view_convert(b->arena, &o->stored, row_major, IR_I32, &o->dense, &why);
}

static spc_status open_operand(bench *b, ir_tensor *tensor, const ir_bindings *given) {
  bench_operand o = {.tensor = tensor};
  o.copied = tensor->dtype == IR_NONE || !ir_format_is_row_major(tensor->format);
  for (int i = 0; i < given->list.count; i++) {
    if (given->list.at[i].tensor != tensor) continue;
    o.bound = true;
    o.stored = given->list.at[i].view;
    if (!o.copied) o.dense = o.stored;
  }
  if (!o.bound) {
    const char *why = "";
    SPC_TRY(new_dense(b, &o));
    o.kind = can_mask(tensor) ? BENCH_MASKED : BENCH_FIXED;
    fill_fixed(b, &o);
    if (o.kind == BENCH_FIXED && store(b, &o, &why)) {
      ir_diag_add(b->s->sink, IR_DIAG_PACK, tensor->span, "values for `%s`: %s", tensor->name, why);
      return SPC_INVALID_INPUT;
    }
  }
  IR_PUSH(b->arena, &b->operands, o);
  return SPC_OK;
}

/* Sizes that nothing gives are what estimates take; said once. */
static spc_status settle_sizes(bench *b) {
  pass_options options = {.target = b->target, .sizes = b->sizes};
  pass_context context = {b->s->program, b->arena, b->s->sink, &options,
                          pass_profile_of(b->arena, b->target)};
  pass_dims_assumed(&context);
  for (int d = 0; d < b->s->program->dims.count; d++) {
    const ir_dim *dim = b->s->program->dims.at[d];
    if (b->sizes[d] >= 0) continue;
    b->sizes[d] = dim->assumed;
    bench_note(b, "%s is taken as %lld; -D %s=N changes it", dim->name, (long long)dim->assumed,
               dim->name);
  }
  return ir_check_sizes(b->kernel, b->sizes, b->s->sink);
}

spc_status bench_data_open(bench *b) {
  ir_bindings given = {0};
  b->sizes = IR_NEW_ARRAY(b->arena, int64_t, b->s->program->dims.count + 1);
  SPC_TRY(drv_sizes_from_defines(b->s, b->sizes));
  SPC_TRY(drv_bind_given(b->s, b->kernel, b->sizes, &given));
  SPC_TRY(settle_sizes(b));
  for (int i = 0; i < b->kernel->tensors.count; i++)
    if (b->kernel->tensors.at[i]->role == IR_ROLE_IN)
      SPC_TRY(open_operand(b, b->kernel->tensors.at[i], &given));
  bench_steer_find(b);
  return SPC_OK;
}

void bench_data_close(bench *b) {
  for (int i = 0; i < b->operands.count; i++) ir_arena_free(b->operands.at[i].arena);
  b->operands.count = 0;
}

spc_status bench_data_fill(bench *b, const bench_mask *mask, bool changed, const char **why) {
  for (int i = 0; i < b->operands.count; i++) {
    bench_operand *o = &b->operands.at[i];
    if (o->kind == BENCH_FIXED) continue;
    if (o->kind == BENCH_MASKED) {
      fill_any(b, o);
      draw_mask(b, &o->dense, mask);
    } else {
      bench_steer_fill(b, o, mask, changed);
    }
    SPC_TRY(store(b, o, why));
  }
  return SPC_OK;
}
