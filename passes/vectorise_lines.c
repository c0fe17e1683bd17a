/* vectorise_lines.c - elements that lie along another index than the result's, a tile of lines at a
 * time.
 *
 *     for j in 0 .. J parallel            for j_line in 0 .. (J + 31) / 32 parallel, i_line in 0 ..
 * (I + 31) / 32 for i in 0 .. I                     for i in i_line*32 .. min(.., I), j in
 * j_line*32 .. min(.., J) y[j*I + i] = x[i*J + j]             turned[(j - j_line*32)*32 + i -
 * i_line*32] = x[i*J + j] for j in j_line*32 .. min(.., J), i in i_line*32 .. min(.., I) y[j*I + i]
 * = turned[(j - j_line*32)*32 + i - i_line*32]
 *
 * What one j reads of x is an element of each of I lines; here all of a line is read at once, and
 * written at once, and a tile's lines lie on few pages. */
#include "passes/vectorise.h"

enum { MOST_LOOPS = 8, TILE = 32 };

/* The one store of a body that has nothing else but `let`s. */
static const ir_code *only_store(const ir_block *body) {
  int last = body->codes.count - 1;
  for (int i = 0; i < last; i++)
    if (body->codes.at[i]->kind != IR_LET) return NULL;
  const ir_code *store = last >= 0 ? body->codes.at[last] : NULL;
  bool plain = store && store->kind == IR_STORE && store->combine == IR_OP_COUNT &&
               !store->atomic && !store->cond;
  return plain && store->buf->kind != IR_BUF_LOCAL ? store : NULL;
}

static bool loads_of(const ir_expr *e, const ir_buf *buf) {
  if (e->kind == IR_LOAD && e->buf == buf) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (loads_of(e->args[i], buf)) return true;
  return false;
}

typedef struct nest {
  ir_arena *arena;
  ir_code *loop[MOST_LOOPS]; /* outermost first */
  int count;
  const ir_code *store;
} nest;

static bool is_stride(const nest *n, int loop, const ir_expr *e, int64_t want) {
  const vec_region *g =
      pass_vec_region(n->arena, NULL, n->loop[loop]->var, NULL, &n->loop[n->count - 1]->body);
  int64_t stride;
  return pass_vec_stride(g, e, &stride) && stride == want;
}

/* Of nothing but the loops' variables: what is read does not wait for anything in the body. */
static bool is_plain(const nest *n, const ir_expr *e) {
  bool plain = e->kind != IR_VAR && e->kind != IR_LOAD;
  for (int i = 0; i < n->count; i++) plain |= e->kind == IR_VAR && e->var == n->loop[i]->var;
  for (int i = 0; i < e->arg_count; i++) plain = plain && is_plain(n, e->args[i]);
  return plain;
}

/* The loop along which the load is consecutive, where it is not the last one; -1: it is none of
 * these. */
static int turned_along(const nest *n, const ir_expr *load) {
  int found = -1, last = n->count - 1;
  if (load->kind != IR_LOAD || load->arg_count != 1 || load->buf->kind == IR_BUF_LOCAL ||
      !is_plain(n, load->args[0]))
    return -1;
  if (is_stride(n, last, load->args[0], 1) || is_stride(n, last, load->args[0], 0)) return -1;
  for (int i = 0; i < last; i++)
    if (is_stride(n, i, load->args[0], 1)) found = i;
  return found;
}

/* Operands that are looked at where another one says so stay where they are. */
static bool is_lazy(const ir_expr *e, int arg) {
  return arg && e->kind == IR_OP &&
         (e->op == IR_OP_WHERE || e->op == IR_OP_AND || e->op == IR_OP_OR);
}

/* The innermost of the loops along which what e loads is turned; -1: there is none. */
static int other_way(const nest *n, const ir_expr *e) {
  int found = turned_along(n, e);
  for (int i = 0; i < e->arg_count; i++) {
    int other = is_lazy(e, i) ? -1 : other_way(n, e->args[i]);
    if (other > found) found = other;
  }
  return found;
}

static bool nest_of(ir_arena *arena, const ir_func *func, nest *n) {
  ir_code *code = func->body.codes.count ? func->body.codes.at[func->body.codes.count - 1] : NULL;
  *n = (nest){.arena = arena};
  while (code && n->count < MOST_LOOPS && pass_vec_counts_all(code) &&
         code->run == (n->count ? IR_RUN_SEQUENTIAL : IR_RUN_PARALLEL)) {
    n->loop[n->count++] = code;
    code = code->body.codes.count == 1 ? code->body.codes.at[0] : NULL;
  }
  if (n->count < 2 || !(n->store = only_store(&n->loop[n->count - 1]->body))) return false;
  bool own = !loads_of(n->store->value, n->store->buf);
  const ir_block *body = &n->loop[n->count - 1]->body;
  for (int i = 0; i + 1 < body->codes.count; i++)
    own = own && !loads_of(body->codes.at[i]->value, n->store->buf);
  for (int i = 0; i < n->count; i++) own = own && ir_expr_uses_var(n->store->offset, n->loop[i]->var);
  return own && is_stride(n, n->count - 1, n->store->offset, 1);
}

/* ---- writing ----------------------------------------------------------------------------------
 */
typedef struct turning {
  const nest *n;
  ir_func *func;
  int loop; /* that goes along lines of what is turned */
  int64_t line;
  ir_expr *place;          /* in a tile, of the innermost loops' variables */
  IR_VEC(ir_expr *) loads; /* that are turned */
  IR_VEC(ir_buf *) tiles;
} turning;

static ir_expr *from_tiles(turning *t, ir_builder *b, ir_expr *e) {
  if (turned_along(t->n, e) == t->loop) {
    int at = 0;
    while (at < t->loads.count && !ir_expr_equal(t->loads.at[at], e)) at++;
    if (at == t->loads.count) {
      IR_PUSH(b->arena, &t->loads, e);
      IR_PUSH(b->arena, &t->tiles, ir_local(b, "turned", e->buf->dtype, t->line * t->line));
    }
    return ir_load(b->arena, t->tiles.at[at], t->place);
  }
  if (!e->arg_count) return e;
  ir_expr **args = IR_NEW_ARRAY(b->arena, ir_expr *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++)
    args[i] = is_lazy(e, i) ? e->args[i] : from_tiles(t, b, e->args[i]);
  return ir_copy_with(b->arena, e, args);
}

static ir_expr *times(ir_arena *a, ir_expr *e, int64_t n) {
  return ir_apply(a, IR_OP_MUL, e, ir_int(a, n));
}

/* A loop over the places of one line, with the original's variable. */
static ir_code *line_loop(const turning *t, const ir_code *like, ir_expr *first) {
  ir_arena *a = t->n->arena;
  ir_code *loop = IR_NEW(a, ir_code);
  *loop = *like;
  loop->run = IR_RUN_SEQUENTIAL;
  loop->lo = first;
  loop->hi = ir_apply(a, IR_OP_MIN, ir_apply(a, IR_OP_ADD, first, ir_int(a, t->line)), like->hi);
  loop->body = (ir_block){0};
  return loop;
}

/* Loops `outer` and `last` over lines, and what is inside of them. */
static void write_lines(turning *t) {
  const nest *n = t->n;
  ir_arena *a = n->arena;
  ir_code *outer = n->loop[t->loop], *last = n->loop[n->count - 1];
  const ir_code j = *outer, i = *last;
  ir_block inside = {0}, scratch = {0}, *around;
  ir_builder b = {a, t->func, &scratch};
  ir_var *j_line = ir_open_for(&b, ir_format_text(a, "%s_line", j.var->name), ir_int(a, 0), j.hi,
                               j.run, &around);
  ir_var *i_line = ir_open_for(&b, ir_format_text(a, "%s_line", i.var->name), ir_int(a, 0), i.hi,
                               i.run, &around);
  ir_expr *j_first = times(a, ir_var_ref(a, j_line), t->line),
          *i_first = times(a, ir_var_ref(a, i_line), t->line);
  ir_expr *j_in = ir_apply(a, IR_OP_SUB, ir_var_ref(a, j.var), j_first),
          *i_in = ir_apply(a, IR_OP_SUB, ir_var_ref(a, i.var), i_first);
  t->place = ir_apply(a, IR_OP_ADD, times(a, j_in, t->line), i_in);
  b.block = &inside;
  ir_block body = {0};
  for (int c = 0; c < i.body.codes.count; c++) {
    ir_code *copy = IR_NEW(a, ir_code);
    *copy = *i.body.codes.at[c];
    copy->value = from_tiles(t, &b, copy->value);
    IR_PUSH(a, &body.codes, copy);
  }
  ir_code *rows = line_loop(t, &i, i_first), *along = line_loop(t, &j, j_first);
  b.block = &along->body;
  for (int l = 0; l < t->loads.count; l++) ir_store(&b, t->tiles.at[l], t->place, t->loads.at[l]);
  IR_PUSH(a, &rows->body.codes, along);
  IR_PUSH(a, &inside.codes, rows);
  ir_code *columns = line_loop(t, &j, j_first), *across = line_loop(t, &i, i_first);
  across->body = body;
  IR_PUSH(a, &columns->body.codes, across);
  IR_PUSH(a, &inside.codes, columns);
  outer->var = j_line;
  outer->hi = ir_ceil_div(a, j.hi, t->line);
  last->var = i_line;
  last->hi = ir_ceil_div(a, i.hi, t->line);
  last->body = inside;
}

void pass_vec_lines(ir_arena *arena, ir_func *func) {
  nest n;
  if (!nest_of(arena, func, &n)) return;
  int turned = -1;
  const ir_block *body = &n.loop[n.count - 1]->body;
  for (int i = 0; i < body->codes.count; i++) {
    int other = other_way(&n, body->codes.at[i]->value);
    if (other > turned) turned = other;
  }
  turning t = {.n = &n, .func = func, .loop = turned, .line = TILE};
  if (turned >= 0) write_lines(&t);
}
