/* gpu_rows.c - what the loops of a row are like: which can be shared, how long they are, what lies along them. */
#include <math.h>

#include "passes/gpu_map.h"
#include "passes/storage.h"

bool gpu_is_size(const ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM) return true;
  if (e->kind != IR_OP) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!gpu_is_size(e->args[i])) return false;
  return true;
}

static bool is_int(const ir_expr *e, int64_t value) { return e->kind == IR_CONST && e->i == value; }

/* ---- length ---------------------------------------------------------------------------------- */
static const ir_buf *positions_of(const ir_expr *e) {
  if (e->kind == IR_LOAD && e->buf->kind == IR_BUF_POS) return e->buf;
  for (int i = 0; i < e->arg_count; i++)
    if (positions_of(e->args[i])) return positions_of(e->args[i]);
  return NULL;
}

/* Entries of a row of a stored operand, or of all its rows. */
static double entries(const gpu_rows *r, const ir_buf *pos, bool of_all) {
  const ir_tensor *x = pos->tensor;
  const ir_format *f = x->format;
  double density = pass_zeros_of(r->context, x).likely, all = 1, row = 1;
  for (int d = 0; d < x->rank; d++) all *= pass_size_assumed(r->context, x->dim[d]);
  for (int l = pos->level; f && l < f->level_count; l++)
    if (f->level[l].map != IR_MAP_DIV) row *= pass_size_assumed(r->context, x->dim[f->level[l].dim]);
  return density * (of_all ? all : row);
}

static bool goes_through_all(const ir_code *loop) {
  const ir_expr *lo = loop->lo;
  while (lo->kind == IR_CAST) lo = lo->args[0];
  return lo->kind == IR_LOAD && is_int(lo->args[0], 0);
}

double gpu_trips(const gpu_rows *r, const ir_code *loop) {
  const double unknown = 32;
  if (gpu_is_size(loop->hi) && gpu_is_size(loop->lo))
    return pass_size_assumed(r->context, ir_apply(r->context->arena, IR_OP_SUB, loop->hi, loop->lo));
  const ir_buf *pos = positions_of(loop->hi);
  if (!pos || !pos->tensor) return unknown;
  return fmax(1, entries(r, pos, goes_through_all(loop)));
}

ir_expr *gpu_places(const gpu_rows *r, const ir_code *loop) {
  const ir_buf *pos = positions_of(loop->hi);
  const ir_format *f = pos && pos->tensor ? pos->tensor->format : NULL;
  if (!f || !f->level[pos->level].unique || goes_through_all(loop)) return NULL;
  const ir_level *level = &f->level[pos->level];
  ir_expr *size = pos->tensor->dim[level->dim];
  if (level->map == IR_MAP_MOD) return ir_int(r->context->arena, level->factor);
  return level->map == IR_MAP_DIV ? ir_ceil_div(r->context->arena, size, level->factor) : size;
}

static double loop_work(const gpu_rows *r, const ir_block *block) {
  double work = 0;
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    double inside = loop_work(r, &c->body);
    work += c->kind == IR_FOR ? gpu_trips(r, c) * fmax(1, inside) : inside + loop_work(r, &c->orelse);
  }
  return work;
}

double gpu_work(const gpu_rows *r, const ir_block *block) { return fmax(1, loop_work(r, block)); }

/* ---- nests that are one loop ------------------------------------------------------------------ */
static ir_expr *with_args(ir_arena *a, const ir_expr *e, ir_expr *(*each)(void *user, ir_expr *e), void *user) {
  ir_expr *args[3];
  if (!e->arg_count) return (ir_expr *)e;
  for (int i = 0; i < e->arg_count; i++) args[i] = each(user, e->args[i]);
  return ir_copy_with(a, e, args);
}

typedef struct flattening {
  ir_arena *arena;
  const ir_var *outer, *inner;
  const ir_expr *width; /* of the inner loop */
  ir_var *flat;
} flattening;

static bool is_ref(const ir_expr *e, const ir_var *var) { return e->kind == IR_VAR && e->var == var; }

/* outer * width + inner */
static bool is_flat(const flattening *f, const ir_expr *e) {
  if (e->kind != IR_OP || e->op != IR_OP_ADD || !is_ref(e->args[1], f->inner)) return false;
  const ir_expr *m = e->args[0];
  return m->kind == IR_OP && m->op == IR_OP_MUL && is_ref(m->args[0], f->outer) &&
         ir_expr_equal(m->args[1], f->width);
}

static ir_expr *flattened(void *user, ir_expr *e) {
  const flattening *f = user;
  return is_flat(f, e) ? ir_var_ref(f->arena, f->flat) : with_args(f->arena, e, flattened, user);
}

static bool uses_only_flat(const flattening *f, const ir_expr *e) {
  if (is_flat(f, e)) return true;
  if (is_ref(e, f->outer) || is_ref(e, f->inner)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!uses_only_flat(f, e->args[i])) return false;
  return true;
}

static ir_expr **part_of(ir_code *c, int k) {
  ir_expr **parts[] = {&c->lo, &c->hi, &c->step, &c->cond, &c->value, &c->offset};
  return k < IR_COUNT(parts) ? parts[k] : NULL;
}

static bool block_uses_only_flat(const flattening *f, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    for (int k = 0; part_of(c, k); k++)
      if (*part_of(c, k) && !uses_only_flat(f, *part_of(c, k))) return false;
    if (!block_uses_only_flat(f, &c->body) || !block_uses_only_flat(f, &c->orelse)) return false;
  }
  return true;
}

static void flatten_block(flattening *f, ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    for (int k = 0; part_of(c, k); k++)
      if (*part_of(c, k)) *part_of(c, k) = flattened(f, *part_of(c, k));
    flatten_block(f, &c->body);
    flatten_block(f, &c->orelse);
  }
}

ir_code *gpu_only_loop(const ir_code *loop) {
  ir_code *found = NULL;
  for (int i = 0; i < loop->body.codes.count; i++) {
    ir_code *c = loop->body.codes.at[i];
    if (c->kind == IR_COMMENT) continue;
    if (found || c->kind != IR_FOR) return NULL;
    found = c;
  }
  return found;
}

bool gpu_steps_by_one(const ir_code *c) { return !c->step || is_int(c->step, 1); }

/* for i in 0 .. M { for j in 0 .. N { x[i*N + j] } }      for i in 0 .. M*N { x[i] } */
static bool join_dense(gpu_rows *r, ir_code *outer, ir_code *inner) {
  ir_arena *a = r->context->arena;
  flattening f = {a, outer->var, inner->var, inner->hi, NULL};
  if (!is_int(outer->lo, 0) || !is_int(inner->lo, 0) || !gpu_is_size(outer->hi) || !gpu_is_size(inner->hi))
    return false;
  if (!block_uses_only_flat(&f, &inner->body)) return false;
  f.flat = outer->var;
  flatten_block(&f, &inner->body);
  outer->hi = ir_apply(a, IR_OP_MUL, outer->hi, inner->hi);
  outer->body = inner->body;
  return true;
}

typedef struct moved {
  ir_arena *arena;
  const ir_var *var;
  ir_expr *to;
} moved;

static ir_expr *with_var(void *user, ir_expr *e) {
  const moved *m = user;
  return is_ref(e, m->var) ? m->to : with_args(m->arena, e, with_var, user);
}

ir_expr *gpu_with(ir_arena *a, ir_expr *e, const ir_var *var, ir_expr *to) { return with_var(&(moved){a, var, to}, e); }

static bool block_uses(const ir_block *block, const ir_var *var) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    for (int k = 0; part_of(c, k); k++)
      if (*part_of(c, k) && ir_expr_uses_var(*part_of(c, k), var)) return true;
    if (block_uses(&c->body, var) || block_uses(&c->orelse, var)) return true;
  }
  return false;
}

/* for i in 0 .. M { for p in pos[i] .. pos[i + 1] { .. } }      for p in pos[0] .. pos[M] { .. } */
static bool join_segments(gpu_rows *r, ir_code *outer, ir_code *inner) {
  ir_arena *a = r->context->arena;
  ir_expr *next = ir_apply(a, IR_OP_ADD, ir_var_ref(a, outer->var), ir_int(a, 1));
  if (!positions_of(inner->lo) || !ir_expr_uses_var(inner->lo, outer->var)) return false;
  if (!gpu_is_size(outer->lo) || !gpu_is_size(outer->hi) || block_uses(&inner->body, outer->var)) return false;
  if (!ir_expr_equal(inner->hi, gpu_with(a, inner->lo, outer->var, next))) return false;
  ir_expr *start = inner->lo;
  ir_expr *lo = gpu_with(a, start, outer->var, outer->lo);
  ir_expr *hi = gpu_with(a, start, outer->var, outer->hi);
  outer->var = inner->var;
  outer->lo = lo;
  outer->hi = hi;
  outer->body = inner->body;
  return true;
}

/* Inner nests first: offsets are ((i*J) + j)*K + k, and the outer pair is one factor of it. */
static void join_nest(gpu_rows *r, ir_code *outer) {
  ir_code *inner = gpu_only_loop(outer);
  bool joined = inner && gpu_steps_by_one(outer) && gpu_steps_by_one(inner) &&
                (join_dense(r, outer, inner) || join_segments(r, outer, inner));
  if (joined)
    join_nest(r, outer);
  else if (inner)
    join_nest(r, inner);
}

/* ---- which loops can be shared ---------------------------------------------------------------- */
static bool find_in(gpu_rows *r, ir_block *block);

static ir_code *inner_loop(const ir_block *block) {
  ir_code *found = NULL;
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    if (c->kind == IR_FOR && found) return NULL;
    if (c->kind == IR_FOR) found = c;
    else if (ir_block_has_loop(&c->body) || ir_block_has_loop(&c->orelse)) return NULL;
  }
  return found;
}

/* Of a nest of sums the loop that is long and has its operands contiguous. */
static ir_code *best_of_nest(gpu_rows *r, ir_code *outer) {
  const double few = 32;
  ir_code *inner = inner_loop(&outer->body);
  if (!inner || !gpu_steps_by_one(inner)) return outer;
  ir_code *best = best_of_nest(r, inner);
  ir_loop_sums sums;
  if (!ir_loop_sums_of(r->context->arena, best, false, &sums)) return outer;
  bool contiguous = gpu_strides_of(r, best).bytes > 0;
  return contiguous && (gpu_trips(r, best) >= few || gpu_trips(r, outer) < few) ? best : outer;
}

static bool find_loop(gpu_rows *r, ir_code *loop) {
  ir_loop_sums sums;
  if (loop->run != IR_RUN_SEQUENTIAL) return false;
  if (gpu_steps_by_one(loop) && ir_loop_sums_of(r->context->arena, loop, false, &sums) && sums.at.count) {
    join_nest(r, loop);
    IR_PUSH(r->context->arena, &r->shared, best_of_nest(r, loop));
    return true;
  }
  return ir_block_has_loop(&loop->body) && find_in(r, &loop->body);
}

/* A search that halves what is left: all threads of a team may do it, at the cost of one. */
static bool is_search(const ir_code *loop) {
  const ir_code *first = loop->body.codes.count ? loop->body.codes.at[0] : NULL;
  return first && first->kind == IR_LET && first->value && first->value->kind == IR_OP &&
         first->value->op == IR_OP_DIV && is_int(first->value->args[1], 2);
}

static bool find_in(gpu_rows *r, ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    if (c->kind == IR_BARRIER) return false;
    if (c->kind == IR_FOR && r->shared.count && gpu_is_element_loop(c)) {
      IR_PUSH(r->context->arena, &r->shared, c);
    } else if (c->kind == IR_FOR) {
      if (!find_loop(r, c)) return false;
    } else if (c->kind == IR_WHILE && !ir_block_has_loop(&c->body)) {
      if (!is_search(c)) return false;
    } else if (!find_in(r, &c->body) || !find_in(r, &c->orelse)) {
      return false;
    }
  }
  return true;
}

static bool loads_from(const ir_expr *e, const ir_buf *buf) {
  if (e->kind == IR_LOAD && e->buf == buf) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (loads_from(e->args[i], buf)) return true;
  return false;
}

bool gpu_block_loads(const ir_block *block, const ir_buf *buf) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    for (int k = 0; part_of(c, k); k++)
      if (*part_of(c, k) && loads_from(*part_of(c, k), buf)) return true;
    if (gpu_block_loads(&c->body, buf) || gpu_block_loads(&c->orelse, buf)) return true;
  }
  return false;
}

/* One of a team's threads stores: no other one may wait for what it stored.  In loops nothing is stored but elements that an
 * iteration has for itself, behind a sum. */
static bool stores_fit(const gpu_rows *r, const ir_block *block, bool inside) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind == IR_STORE && c->buf->kind != IR_BUF_LOCAL &&
        (inside || c->atomic || c->combine != IR_OP_COUNT || c->value->lanes > 1 || gpu_block_loads(r->block, c->buf)))
      return false;
    bool elements = c->kind == IR_FOR && gpu_is_element_loop(c);
    bool loop = inside || (c->kind == IR_FOR && !elements) || c->kind == IR_WHILE;
    if (!stores_fit(r, &c->body, loop) || !stores_fit(r, &c->orelse, loop)) return false;
  }
  return true;
}

bool gpu_find_shared(gpu_rows *r) {
  return stores_fit(r, r->block, false) && find_in(r, r->block) && r->shared.count > 0;
}

/* ---- one sum ---------------------------------------------------------------------------------- */
/* The let that begins the sum gives what combining with changes nothing. */
static bool begins_neutral(const ir_code *let, const ir_loop_sum *sum) {
  double value;
  if (!let->value || !ir_const_value(let->value, &value)) return false;
  switch (sum->combine) {
  case IR_OP_ADD: return value == 0;
  case IR_OP_MUL: return value == 1;
  case IR_OP_COUNT: return let->var != sum->var || value == -1;
  default: return true;
  }
}

static bool begins(const ir_block *block, int at, const ir_loop_sum *sum) {
  bool var = false, best = !sum->best;
  for (int i = 0; i < at; i++) {
    const ir_code *c = block->codes.at[i];
    if (c->kind != IR_LET || !begins_neutral(c, sum)) continue;
    var = var || c->var == sum->var;
    best = best || c->var == sum->best;
  }
  return var && best;
}

ir_code *gpu_only_sum(const gpu_rows *r, int *at, ir_loop_sums *sums) {
  ir_code *nest = NULL;
  for (int i = 0; i < r->block->codes.count; i++) {
    ir_code *c = r->block->codes.at[i];
    bool loop = c->kind == IR_FOR || c->kind == IR_WHILE || ir_block_has_loop(&c->body) || ir_block_has_loop(&c->orelse);
    if (loop && (nest || c->kind != IR_FOR)) return NULL;
    if (!nest && !loop && c->kind != IR_LET && c->kind != IR_COMMENT) return NULL;
    if (c->kind == IR_LOCAL) return NULL;
    if (loop) nest = c, *at = i;
  }
  if (!nest || !ir_loop_sums_of(r->context->arena, nest, false, sums)) return NULL;
  for (int i = 0; i < sums->at.count; i++)
    if (!begins(r->block, *at, &sums->at.at[i])) return NULL;
  return nest;
}

/* ---- what lies along -------------------------------------------------------------------------- */
/* e = var + something without it */
static bool is_unit(const ir_expr *e, const ir_var *var) {
  if (e->kind == IR_VAR) return e->var == var;
  if (e->kind != IR_OP || e->op != IR_OP_ADD) return false;
  bool left = ir_expr_uses_var(e->args[0], var), right = ir_expr_uses_var(e->args[1], var);
  return left != right && is_unit(e->args[left ? 0 : 1], var);
}

typedef struct strides {
  const gpu_rows *r;
  const ir_code *loop;
  const ir_var *row; /* the innermost index of the rows, NULL: there is one row */
  bool by_data;      /* the loop's ends are loaded: what lies along it is a row's own */
  gpu_strides out;
} strides;

static bool is_of_row(const strides *s, const ir_expr *e) {
  if (e->kind == IR_VAR) return (s->r->loop && e->var == s->r->loop->var) || ir_block_declares(s->r->block, e->var);
  for (int i = 0; i < e->arg_count; i++)
    if (is_of_row(s, e->args[i])) return true;
  return false;
}

/* The offset depends on which row it is: more than the loop's own variables. */
static bool depends_on_row(const strides *s, const ir_expr *e) {
  if (e->kind == IR_VAR) {
    if (e->var == s->loop->var || ir_block_declares(&s->loop->body, e->var)) return false;
    return is_of_row(s, e);
  }
  for (int i = 0; i < e->arg_count; i++)
    if (depends_on_row(s, e->args[i])) return true;
  return false;
}

static void note_load(strides *s, const ir_expr *load, bool each) {
  const ir_expr *offset = load->args[0];
  if (offset->lanes > 1) return;
  int64_t bytes = (int64_t)ir_dtype_bytes(load->buf->dtype);
  if (is_unit(offset, s->loop->var)) {
    bool own = !s->r->loop || s->by_data || depends_on_row(s, offset);
    s->out.along_loop = s->out.along_loop || own;
    if (each && (!s->out.bytes || bytes < s->out.bytes)) s->out.bytes = bytes;
  } else if (s->row && is_unit(offset, s->row) && ir_expr_uses_var(offset, s->loop->var)) {
    s->out.along_rows = true;
    if (each && (!s->out.row_bytes || bytes < s->out.row_bytes)) s->out.row_bytes = bytes;
  }
}

static void note_loads(strides *s, const ir_expr *e, bool each) {
  if (e->kind == IR_LOAD) note_load(s, e, each);
  for (int i = 0; i < e->arg_count; i++) note_loads(s, e->args[i], each);
}

/* each: what every iteration does, not an inner loop */
static void note_block(strides *s, const ir_block *block, bool each) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    for (int k = 0; part_of(c, k); k++)
      if (*part_of(c, k)) note_loads(s, *part_of(c, k), each && c->kind != IR_FOR);
    note_block(s, &c->body, false);
    note_block(s, &c->orelse, false);
  }
}

/* Joined loops begin with the innermost index: point % N. */
static const ir_var *innermost_row(const gpu_rows *r) {
  if (!r->loop) return NULL;
  const ir_code *first = r->block->codes.count ? r->block->codes.at[0] : NULL;
  bool taken_apart = first && first->kind == IR_LET && first->value && first->value->kind == IR_OP &&
                     first->value->op == IR_OP_MOD && is_ref(first->value->args[0], r->loop->var);
  return taken_apart ? first->var : r->loop->var;
}

gpu_strides gpu_strides_of(const gpu_rows *r, const ir_code *shared) {
  strides s = {.r = r, .loop = shared, .row = innermost_row(r), .by_data = !gpu_is_size(shared->hi)};
  note_block(&s, &shared->body, true);
  return s.out;
}
