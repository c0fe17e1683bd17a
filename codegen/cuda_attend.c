/* cuda_attend.c - a stage read as attention: operands, strides, the functions that lowering has made.
 *
 *     T[.., m, .., e] = f(sum[n] softmax[n](e(sum[k] Q[.., m, .., k] * K[.., n, .., k])) * V[.., n, .., e])
 *
 * Roles of indices are those of the scores (ir/attend.h); m and n may stand in any order in the text. */
#include "codegen/cuda.h"
#include "ir/attend.h"

static bool fixed_size(const ir_expr *e, int *out) {
  int64_t size = -1, low = 0;
  if (e->kind == IR_CONST) size = e->i;
  if (e->kind == IR_DIM) size = e->dim->value;
  if (e->kind == IR_OP && e->op == IR_OP_MUL) {
    int x, y;
    if (fixed_size(e->args[0], &x) && fixed_size(e->args[1], &y)) size = (int64_t)x * y;
  }
  *out = (int)size;
  return size > low && size <= 256;
}

static bool is_one(const ir_expr *e) { return e && e->kind == IR_CONST && e->i == 1; }

static void take_sizes(ir_arena *arena, const ir_attend *t, cg_product *p) {
  p->m = ir_flat_last(&t->roles.m);
  p->n = ir_flat_last(&t->roles.n);
  p->k = ir_flat_last(&t->roles.k);
  p->size_m = ir_flat_size(arena, &t->roles.m);
  p->size_n = ir_flat_size(arena, &t->roles.n);
  p->size_k = ir_flat_size(arena, &t->roles.k);
  p->batch_count = t->roles.batch.count;
  memcpy(p->batch, t->roles.batch.at, sizeof p->batch);
}

/* v and the result have the column where q and k have neither m, n nor k. */
static bool take_columns(ir_arena *arena, const ir_attend *t, cg_product *p, cg_operand *v, const char **why) {
  cg_product of = *p;
  of.n = t->column;
  of.k = p->n;
  if (!cg_operand_read(arena, &of, t->v->tensor, t->v->args, v, why) ||
      !cg_operand_read(arena, &of, t->result->target, t->result->subs, &p->t, why))
    return false;
  v->pitch = v->stride_k;
  p->t.pitch = p->t.stride_m;
  v->layout = p->t.layout = 'r';
  *why = "the columns of v or of the result do not lie side by side";
  return is_one(v->stride_n) && is_one(p->t.stride_n);
}

static const char *take_noting(const ir_stage *stage, cg_attend *out) {
  ir_func *const *f = stage->funcs.at + 6;
  if (f[1]->bufs.count < 2) return "the memory that notes lie in is not there";
  out->asked = f[0], out->plane = f[1], out->step_m = f[2], out->step_n = f[3];
  out->notes = f[1]->bufs.at[f[1]->bufs.count - 2], out->mask = f[1]->bufs.at[f[1]->bufs.count - 1];
  return NULL;
}

static const char *take_functions(const ir_stage *stage, cg_attend *out) {
  enum { FUNCTIONS = 6, NOTING = 10 };
  const int count = stage->funcs.count;
  if (count != FUNCTIONS && count != NOTING) return "its functions are not there";
  for (int i = 0; i < FUNCTIONS; i++)
    if (stage->funcs.at[i]->kind != IR_FUNC_FRAGMENT || !stage->funcs.at[i]->result || stage->funcs.at[i]->params.count < 4)
      return "its functions are no fragments";
  out->score = stage->funcs.at[0];
  out->inside = stage->funcs.at[1];
  out->epilogue = stage->funcs.at[2];
  out->first = stage->funcs.at[3];
  out->behind = stage->funcs.at[4];
  out->visits = stage->funcs.at[5];
  return count == NOTING ? take_noting(stage, out) : NULL;
}

/* No comparison bounds the columns of a row. */
static bool sees_all(const cg_attend *t, const cg_product *p) {
  double first;
  return ir_const_value(t->first->result, &first) && first == 0 && ir_expr_equal(t->behind->result, p->size_n);
}

const char *cg_attend_read(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage, cg_product *p, cg_attend *out) {
  ir_attend t;
  const char *why = "it is no attention: two products with a softmax between them";
  *out = (cg_attend){.is = true, .buf_v = -1};
  *p = (cg_product){.stmt = ir_stage_stmt(stage)};
  if (!ir_attend_read(arena, kernel, stage, &t)) return why;
  take_sizes(arena, &t, p);
  out->column = t.column;
  if (!cg_operand_read(arena, p, t.q->tensor, t.q->args, &p->a, &why) || !cg_operand_read(arena, p, t.k->tensor, t.k->args, &p->b, &why) ||
      !take_columns(arena, &t, p, &out->v, &why))
    return why;
  p->a.layout = 'r', p->b.layout = 'c';
  p->a.pitch = p->a.stride_m, p->b.pitch = p->b.stride_n;
  if (!is_one(p->a.stride_k) || !is_one(p->b.stride_k)) return "the elements of a row of q or k do not lie side by side";
  if (!fixed_size(p->size_k, &out->head) || !fixed_size(t.column->extent, &out->head_v)) return "its rows are not of fixed sizes up to 256";
  if ((why = take_functions(stage, out))) return why;
  out->masked = t.condition && !(out->asked && sees_all(out, p));
  return NULL;
}

/* ---- boxes -------------------------------------------------------------------------------------- */
enum { SLAB = 64, BOX_ROWS = 64 }; /* elements of a box's row; rows of a box of the result */

bool cg_attend_share(cg_launch *l) {
  l->depth = l->row->depth;
  return ir_attend_fits(l->row, l->attend.head, l->attend.head_v, l->product.t.tensor->dtype, &l->shared_bytes, &l->store_boxes);
}

static void add_map(ir_arena *arena, const cg_launch *l, const cg_operand *o, int buf, ir_expr *fast, ir_expr *slow, int tall, ir_code_image *out) {
  const cg_product *p = &l->product;
  ir_box_map map = {.buf = buf, .dtype = o->tensor->dtype, .rank = 2, .box = {SLAB, tall}, .swizzle = 128};
  map.extent[0] = fast;
  map.extent[1] = slow;
  map.stride[1] = o->pitch;
  for (int i = 0; i < o->batches; i++, map.rank++) {
    map.extent[map.rank] = p->batch[i]->extent;
    map.stride[map.rank] = o->stride_batch[i];
    map.box[map.rank] = 1;
  }
  IR_PUSH(arena, &out->maps, map);
}

void cg_attend_maps(ir_arena *arena, const cg_launch *l, ir_code_image *out) {
  const cg_product *p = &l->product;
  const cg_attend *t = &l->attend;
  add_map(arena, l, &p->a, l->buf_a, p->size_k, p->size_m, l->row->m, out);
  add_map(arena, l, &p->b, l->buf_b, p->size_k, p->size_n, l->row->n, out);
  add_map(arena, l, &p->t, l->store_boxes ? l->buf_t : -1, t->column->extent, p->size_m, BOX_ROWS, out);
  add_map(arena, l, &t->v, t->buf_v, t->column->extent, p->size_n, l->row->n, out);
}

/* ---- what fragments are known to be ----------------------------------------------------------- */
bool cg_attend_is_linear(const ir_func *f, double *scale) {
  const ir_expr *e = f->result;
  while (e->kind == IR_CAST) e = e->args[0];
  *scale = 1;
  for (int i = 0; i < f->body.codes.count; i++)
    if (f->body.codes.at[i]->kind != IR_COMMENT) return false;
  if (e->kind == IR_VAR) return e->var == f->params.at[0];
  if (e->kind != IR_OP || e->op != IR_OP_MUL) return false;
  for (int i = 0; i < 2; i++) {
    const ir_expr *acc = e->args[i];
    while (acc->kind == IR_CAST) acc = acc->args[0];
    if (acc->kind == IR_VAR && acc->var == f->params.at[0] && ir_const_value(e->args[1 - i], scale)) return *scale > 0;
  }
  return false;
}

/* What all numbers that a parameter is divided by are multiples of; 0: it is not asked for. */
typedef struct divided {
  const ir_var *var;
  int64_t step;
} divided;

static bool note_divisor(void *user, ir_expr *e) {
  divided *d = user;
  if (e->kind != IR_OP || e->op != IR_OP_DIV || e->args[0]->kind != IR_VAR || e->args[0]->var != d->var || e->args[1]->kind != IR_CONST) return true;
  int64_t a = e->args[1]->i, b = d->step;
  for (int64_t rest; b; b = rest) rest = a % b, a = b;
  d->step = a;
  return true;
}

int64_t cg_attend_step_of(const ir_func *f, int parameter) {
  divided d = {f->params.at[parameter], 0};
  for (int i = 0; i < f->body.codes.count; i++)
    if (f->body.codes.at[i]->kind == IR_LET) ir_expr_walk(f->body.codes.at[i]->value, note_divisor, &d);
  ir_expr_walk(f->result, note_divisor, &d);
  return d.step;
}
