/* format_padded.c - dense matrices whose rows are no multiples of 16 bytes: copies whose rows are.
 *
 *     C[i,j] = sum[k] A[i,k]*B[k,j]           A_rows[i,c] = where(c < 4095, A[i,min(c,4094)], 0)    c < 4096
 *       (all of 4095 x 4095, bf16; a GPU)     B_rows[k,c] = ..
 *                                         ->  C_rows[i,j] = sum[k] A_rows[i,k]*B_rows[k,j]
 *                                             C[i,j] = C_rows[i,j]
 *
 * The engine that moves boxes takes no other rows, and without it a product's tiles are copied element by element: so is
 * the library's.  A copy reads and writes a matrix once, which a product of some size wins back many times; what is
 * `const` is copied once (stage_once.c).  The padding holds zeros: whoever reads a whole chunk of 16 bytes at a row's end
 * multiplies by nothing.  Sizes that are known when a run begins only are not padded: there a kernel that takes any rows
 * stands beside the chosen one. */
#include <math.h>

#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/storage.h"

static const double MOST_BYTES = 1 << 30, COPY_SHARE = 0.6; /* of the bandwidth, as measured: docs/performance.md */

enum { SIDE_A, SIDE_B, SIDE_RESULT, SIDES };

typedef struct padded {
  pass_context *context;
  ir_kernel *kernel;
  int at; /* the statement's place */
  pass_sum sum;
  ir_tensor *copy[SIDES]; /* NULL: it stays as it is */
} padded;

/* ---- which matrices -------------------------------------------------------------------------- */
/* Elements of a row; 0: they are not known yet. */
static int64_t row_of(const ir_tensor *t) {
  int64_t size;
  return ir_size_known(t->dim[ir_last_dim(t)], &size) ? size : 0;
}

static int64_t rounded_up(const ir_tensor *t) {
  int64_t element = (int64_t)ir_dtype_bytes(t->dtype);
  return (row_of(t) * element + PASS_BOX_BYTES - 1) / PASS_BOX_BYTES * PASS_BOX_BYTES / element;
}

static bool needs_padding(const ir_tensor *t) {
  if (t->rank < 2 || !t->dtype || t->like || t->pitch[0] || (t->format && !ir_format_is_dense(t->format))) return false;
  return row_of(t) > 0 && rounded_up(t) != row_of(t);
}

static double bytes_of(const padded *p, const ir_tensor *t) {
  double bytes = (double)ir_dtype_bytes(t->dtype);
  for (int d = 0; d < t->rank; d++) bytes *= pass_size_assumed(p->context, t->dim[d]);
  return bytes;
}

static ir_tensor *padded_like(const padded *p, const ir_tensor *source) {
  ir_arena *arena = p->context->arena;
  ir_tensor *copy = IR_NEW(arena, ir_tensor);
  copy->role = IR_ROLE_TEMP;
  copy->dtype = source->dtype;
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->dim[ir_last_dim(source)] = ir_int(arena, rounded_up(source));
  copy->format = source->format;
  copy->pattern = source->pattern;
  copy->constant = source->constant;
  copy->format_why = ir_format_text(arena, "`%s` with rows of %lld elements for %lld: boxes of matrices want rows of multiples of 16 bytes",
                                    source->name, (long long)rounded_up(source), (long long)row_of(source));
  return copy;
}

static bool is_made_once(const padded *p, const ir_tensor *copy) { return copy->constant && !p->context->program->unpacked; }

/* ---- what it takes --------------------------------------------------------------------------- */
static double copy_cost(const padded *p, int side, const ir_tensor *source) {
  const pass_profile *profile = p->context->profile;
  if (side != SIDE_RESULT && is_made_once(p, p->copy[side])) return 0;
  return profile->launch_us + 2 * bytes_of(p, source) / (profile->bandwidth_gbs * COPY_SHARE * 1e3);
}

/* The statement on padded matrices. */
static ir_stmt *on_copies(const padded *p) {
  ir_arena *arena = p->context->arena;
  ir_stmt *stmt = IR_NEW(arena, ir_stmt);
  *stmt = *p->sum.stmt;
  if (p->copy[SIDE_A]) pass_format_read(arena, stmt, p->sum.a, p->copy[SIDE_A]);
  if (p->copy[SIDE_B]) pass_format_read(arena, stmt, p->sum.b, p->copy[SIDE_B]);
  if (p->copy[SIDE_RESULT]) stmt->target = p->copy[SIDE_RESULT];
  return stmt;
}

static bool pays(const padded *p) {
  const ir_tensor *source[SIDES] = {p->sum.a->tensor, p->sum.b->tensor, p->sum.stmt->target};
  double copies = 0, bytes = 0;
  for (int i = 0; i < SIDES; i++) {
    if (!p->copy[i]) continue;
    copies += copy_cost(p, i, source[i]);
    bytes += bytes_of(p, source[i]);
  }
  pass_sum sum;
  if (bytes == 0 || bytes > MOST_BYTES || !pass_sum_of(p->context, on_copies(p), &sum) || !sum.matrices) return false;
  return pass_matrix_cost(p->context, &p->sum) > copies + pass_matrix_cost(p->context, &sum);
}

/* Who is padded: the operands, and the result where boxes of it are stored. */
static bool choose(padded *p) {
  const ir_stmt *stmt = p->sum.stmt;
  bool whole = !stmt->cond && !stmt->sample && !stmt->target->by_value && ir_dtype_bytes(stmt->target->dtype) == 2;
  bool same = p->sum.a->tensor == p->sum.b->tensor;
  if (needs_padding(p->sum.a->tensor)) p->copy[SIDE_A] = padded_like(p, p->sum.a->tensor);
  if (needs_padding(p->sum.b->tensor)) p->copy[SIDE_B] = same ? p->copy[SIDE_A] : padded_like(p, p->sum.b->tensor);
  if (whole && needs_padding(stmt->target)) p->copy[SIDE_RESULT] = padded_like(p, stmt->target);
  return pays(p);
}

/* ---- rewriting ------------------------------------------------------------------------------- */
/* copy[.., c] = where(c < size, source[.., min(c, size - 1)], 0) */
static ir_stmt *copying(const padded *p, ir_tensor *source, ir_tensor *copy) {
  ir_arena *arena = p->context->arena;
  ir_stmt *stmt = pass_format_copy(p->context, p->kernel, source, copy);
  int last = ir_last_dim(source);
  ir_expr *subs[IR_MAX_RANK], *c = stmt->subs[last], *size = ir_int(arena, row_of(source));
  c->index->extent = copy->dim[last];
  memcpy(subs, stmt->subs, sizeof subs);
  subs[last] = ir_apply(arena, IR_OP_MIN, c, ir_int(arena, row_of(source) - 1));
  stmt->value = ir_apply3(arena, IR_OP_WHERE, ir_apply(arena, IR_OP_LT, c, size), ir_access(arena, source, subs),
                          ir_dtype_is_float(source->dtype) ? ir_const_f(arena, source->dtype, 0) : ir_const_i(arena, source->dtype, 0));
  return stmt;
}

/* A copy of the same that stands before. */
static ir_tensor *copy_there(const padded *p, const ir_tensor *source) {
  for (int i = 0; i < p->at; i++) {
    ir_stmt *stmt = p->kernel->stmts.at[i];
    ir_tensor *t = stmt->target;
    if (t->role == IR_ROLE_TEMP && t->rank == source->rank && stmt->value->kind == IR_OP && stmt->value->op == IR_OP_WHERE &&
        stmt->value->args[1]->kind == IR_ACCESS && stmt->value->args[1]->tensor == source &&
        t->dim[ir_last_dim(t)]->kind == IR_CONST && t->dim[ir_last_dim(t)]->i == rounded_up(source))
      return t;
  }
  return NULL;
}

static ir_tensor *declared(const padded *p, const ir_tensor *source, const ir_tensor *like) {
  const char *name = ir_fresh_name(p->kernel, ir_format_text(p->context->arena, "%s_rows", source->name));
  ir_tensor *t = ir_tensor_new(p->kernel, name, IR_ROLE_TEMP, like->dtype);
  name = t->name;
  *t = *like;
  t->name = name;
  return t;
}

static void pad_operand(padded *p, int side) {
  ir_expr *access = side == SIDE_A ? p->sum.a : p->sum.b;
  ir_tensor *copy = copy_there(p, access->tensor);
  if (!copy) {
    copy = declared(p, access->tensor, p->copy[side]);
    pass_format_insert(p->context->arena, p->kernel, p->at++, copying(p, access->tensor, copy));
  }
  pass_format_read(p->context->arena, p->kernel->stmts.at[p->at], access, copy);
}

static void pad_result(padded *p) {
  ir_stmt *stmt = p->kernel->stmts.at[p->at];
  ir_tensor *result = stmt->target, *copy = declared(p, result, p->copy[SIDE_RESULT]);
  stmt->target = copy;
  copy->def = stmt;
  ir_stmt *back = pass_format_copy(p->context, p->kernel, result, result);
  ir_expr *subs[IR_MAX_RANK];
  memcpy(subs, back->subs, sizeof subs);
  back->value = ir_access(p->context->arena, copy, subs);
  pass_format_insert(p->context->arena, p->kernel, ++p->at, back);
  pass_schedule_rename(p->kernel, result->name, copy->name);
}

void pass_format_padded(pass_context *context, ir_kernel *kernel) {
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) return;
  for (int s = 0; s < kernel->stmts.count; s++) {
    padded p = {.context = context, .kernel = kernel, .at = s};
    ir_stmt *stmt = kernel->stmts.at[s];
    if (!pass_sum_of(context, stmt, &p.sum) || !p.sum.matrices || !p.sum.k || !choose(&p)) continue;
    if (p.copy[SIDE_A]) pad_operand(&p, SIDE_A);
    if (p.copy[SIDE_B]) pad_operand(&p, SIDE_B);
    if (p.copy[SIDE_RESULT]) pad_result(&p);
    s = p.at;
  }
}
