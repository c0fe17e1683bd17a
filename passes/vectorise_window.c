/* vectorise_window.c - what a few slots of n:m name lies close together: those of a vector of slots
 * are picked out of one or two registers instead of gathered from memory.
 *
 *     for p = x*2 .. { let b = p/2 - x;            window = packed[(p/2 - x)*4 .. + 16]
 *       let k = b*4 + crd[p]; .. packed[k] .. }     .. window<8>[lane/2*4 + crd<8>[p]] ..
 *
 * A vector begins with the first slot of a group, so the group of each lane is known but for a
 * constant, and the place in it is less than m by the format.  Elements behind the operand's end
 * are read as zeros; no slot names them. */
#include "passes/vectorise.h"

typedef struct window {
  vec_copier *k;
  int row, col;
  ir_expr *base;     /* of the first lane */
  int64_t line;      /* elements a lane */
  int64_t group;     /* elements a group of slots */
  const ir_expr *in; /* the place in the group, as it is stored */
  int64_t places;
} window;

static void add_base(window *w, const ir_expr *e, int64_t times) {
  ir_arena *a = w->k->arena;
  ir_expr *part = pass_vec_scalar(w->k, e, w->row, w->col);
  if (times != 1) part = ir_apply(a, IR_OP_MUL, part, ir_int(a, times));
  w->base = w->base ? ir_apply(a, IR_OP_ADD, w->base, part) : part;
}

static bool is_place(const window *w, const ir_expr *e, int64_t *places) {
  int64_t stride;
  *places = pass_vec_places(e);
  return *places && pass_vec_stride(w->k->g, e->args[0], &stride) && stride == 1;
}

static bool is_group(const window *w, const ir_expr *e) {
  const vec_region *g = w->k->g;
  return g->slots > 1 && e->kind == IR_OP && e->op == IR_OP_DIV && e->args[0]->kind == IR_VAR &&
         e->args[0]->var == g->col && e->args[1]->kind == IR_CONST && e->args[1]->i == g->slots;
}

static bool add_terms(window *w, const ir_expr *e, int64_t times);

static bool add_op(window *w, const ir_expr *e, int64_t times) {
  const ir_expr *x = e->args[0], *y = e->args[1];
  if (e->op == IR_OP_MUL && y->kind == IR_CONST) return add_terms(w, x, times * y->i);
  if (e->op == IR_OP_ADD) return add_terms(w, x, times) && add_terms(w, y, times);
  return e->op == IR_OP_SUB && add_terms(w, x, times) && add_terms(w, y, -times);
}

static bool add_terms(window *w, const ir_expr *e, int64_t times) {
  const vec_region *g = w->k->g;
  int64_t stride;
  if (e->dtype == IR_I64 && pass_vec_stride(g, e, &stride)) {
    w->line += stride * times;
    add_base(w, e, times);
    return true;
  }
  if (is_group(w, e)) {
    w->group += times;
    add_base(w, e, times);
    return true;
  }
  if (e->kind == IR_VAR) {
    const vec_local *l = pass_vec_local(g, e->var);
    return l && !l->set && l->value && add_terms(w, l->value, times);
  }
  if (e->kind == IR_CAST && times == 1 && !w->in && is_place(w, e->args[0], &w->places)) {
    w->in = e->args[0];
    return true;
  }
  return e->kind == IR_OP && e->arg_count == 2 && add_op(w, e, times);
}

/* Elements that the lanes may name, from the base on, as whole registers; 0: they do not fit. */
static int registers_of(const window *w) {
  const vec_copier *k = w->k;
  if (!w->in || !w->base || w->line < 0 || w->group < 0) return 0;
  int64_t groups = k->g->slots > 1 ? k->lanes / k->g->slots : 1;
  int64_t count = (k->lanes - 1) * w->line + (groups - 1) * w->group + w->places;
  int most = k->g->window;
  for (int n = 8; n <= most; n *= 2)
    if (count <= n) return n;
  return 0;
}

/* The last group of an operand may reach behind its end. */
static ir_expr *inside(vec_copier *k, const ir_buf *buf, ir_expr *base, int elements) {
  ir_arena *a = k->arena;
  ir_expr *left = ir_apply(a, IR_OP_SUB, buf->count, base);
  left = ir_apply(a, IR_OP_MIN, left, ir_int(a, elements));
  ir_expr *number = ir_splat(a, ir_cast(a, IR_I32, left), elements);
  if (!k->place || k->place->lanes != elements) k->place = pass_vec_lanes(k->b, IR_I32, elements);
  return ir_apply(a, IR_OP_LT, k->place, number);
}

static ir_expr *lane_number(window *w) {
  vec_copier *k = w->k;
  ir_arena *a = k->arena;
  ir_expr *lane = ir_cast(a, IR_I32, k->lane), *at = NULL;
  if (w->group) {
    at = ir_apply(a, IR_OP_DIV, lane, ir_splat(a, ir_const_i(a, IR_I32, k->g->slots), k->lanes));
    at = ir_apply(a, IR_OP_MUL, at, ir_splat(a, ir_const_i(a, IR_I32, w->group), k->lanes));
  }
  if (w->line) {
    ir_expr *times = ir_splat(a, ir_const_i(a, IR_I32, w->line), k->lanes);
    ir_expr *line = ir_apply(a, IR_OP_MUL, lane, times);
    at = at ? ir_apply(a, IR_OP_ADD, at, line) : line;
  }
  return at;
}

static ir_buf *registers(window *w, ir_buf *buf, int elements) {
  vec_copier *k = w->k;
  ir_expr *base = ir_var_ref(k->arena, pass_vec_let(k->b, "window_at", IR_I64, 1, w->base));
  ir_expr *mask = inside(k, buf, base, elements), *all = ir_load(k->arena, buf, base);
  all->lanes = elements;
  all->args[all->arg_count++] = mask;
  ir_buf *local = ir_local(k->b, "window", buf->dtype, elements);
  ir_store(k->b, local, ir_int(k->arena, 0), all);
  return local;
}

static ir_expr *places(window *w) {
  vec_copier *k = w->k;
  ir_expr *at = lane_number(w);
  ir_expr *place =
      ir_load(k->arena, w->in->buf, pass_vec_scalar(k, w->in->args[0], w->row, w->col));
  place->lanes = k->lanes;
  place = ir_cast(k->arena, IR_I32, place);
  return ir_cast(k->arena, IR_I64, at ? ir_apply(k->arena, IR_OP_ADD, at, place) : place);
}

ir_expr *pass_vec_window(vec_copier *k, const ir_expr *load, int row, int col) {
  window w = {.k = k, .row = row, .col = col};
  const ir_buf *buf = load->buf;
  bool suits = k->g->window && k->lane && !k->tail && load->arg_count == 1 && buf->count &&
               buf->kind == IR_BUF_WORKSPACE && buf->dtype == IR_F32;
  if (!suits || (k->g->slots > 1 && k->lanes % k->g->slots)) return NULL;
  int elements = add_terms(&w, load->args[0], 1) ? registers_of(&w) : 0;
  if (!elements) return NULL;
  ir_expr *picked = ir_load(k->arena, registers(&w, load->buf, elements), places(&w));
  picked->lanes = k->lanes;
  return picked;
}
