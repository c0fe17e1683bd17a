/* gpu_walk.c - walks over stored entries, for warps: what 32 threads that follow the same entries share.
 *
 * A product's rows hold entries that every column of the dense operand meets: lanes stand on consecutive columns (gpu_columns.c).
 *
 * A copy's rows are put in place by lanes that take every 32nd entry:
 *
 *     for o parallel { for p = pos[o] .. pos[o + 1] {      for point thread { let lane, o
 *       W[o*K + crd[p]] = vals[p] } }                 ->     for p = pos[o] + lane .. pos[o + 1] step 32 { .. } }
 *
 * A matrix that is turned is written line by line, and each thread reads a whole sector of it:
 *
 *     for k parallel { for t {                             for point thread { let k = 16 .. , t
 *       x_t[k*T + t] = x[t*K + k] } }                ->      let v = x[t*K + k], v_2 = x[t*K + k + 1], ..
 *                                                          x_t[k*T + t] = v;  x_t[(k + 1)*T + t] = v_2 .. }
 *
 * Sums keep their order: one thread adds up an element. */
#include "passes/gpu_walk.h"

#include <math.h>

#include "passes/cost.h"
#include "passes/gpu_map.h"
#include "passes/storage.h"
#include "passes/vectorise.h"

enum { WARP = 32 };

static ir_expr *number(const gpu_walk *m, int64_t n) { return ir_int(m->arena, n); }

static ir_expr *apply(const gpu_walk *m, ir_op op, ir_expr *x, ir_expr *y) {
  return ir_apply(m->arena, op, x, y);
}

static void bind(const gpu_walk *m, ir_block *block, ir_var *var, ir_expr *value) {
  ir_code *code = IR_NEW(m->arena, ir_code);
  *code = (ir_code){.kind = IR_LET, .var = var, .value = value, .combine = IR_OP_COUNT};
  IR_PUSH(m->arena, &block->codes, code);
}

ir_expr *gpu_open_points(const gpu_walk *m, ir_builder *b, ir_block *body, ir_expr *iterations) {
  ir_var *point = IR_NEW(m->arena, ir_var);
  *point = (ir_var){ir_format_text(m->arena, "point_%s", m->outer->var->name), IR_I64, 1};
  IR_PUSH(m->arena, &m->func->vars, point);
  *b = (ir_builder){m->arena, m->func, body};
  m->outer->var = point;
  m->outer->lo = number(m, 0);
  m->outer->hi = iterations;
  m->outer->run = IR_RUN_THREAD;
  return ir_var_ref(m->arena, point);
}

ir_expr *gpu_size_of_nest(const gpu_walk *m, int but) {
  ir_expr *size = number(m, 1);
  for (int i = 0; i < m->count; i++)
    if (i != but)
      size = apply(m, IR_OP_MUL, size, apply(m, IR_OP_SUB, m->loops[i]->hi, m->loops[i]->lo));
  return size;
}

void gpu_bind_nest(const gpu_walk *m, ir_block *block, ir_expr *at, int but) {
  ir_expr *inner = number(m, 1);
  int outermost = but == 0 ? 1 : 0;
  for (int i = m->count - 1; i >= 0; i--) {
    if (i == but) continue;
    ir_expr *size = apply(m, IR_OP_SUB, m->loops[i]->hi, m->loops[i]->lo);
    ir_expr *value = apply(m, IR_OP_DIV, at, inner);
    if (i > outermost) value = apply(m, IR_OP_MOD, value, size);
    bind(m, block, m->loops[i]->var, apply(m, IR_OP_ADD, m->loops[i]->lo, value));
    inner = apply(m, IR_OP_MUL, size, inner);
  }
}

static const ir_block *innermost(const gpu_walk *m) { return &m->loops[m->count - 1]->body; }

/* ---- copies ---------------------------------------------------------------------------------- */
bool pass_gpu_stores_once(const ir_stage *stage) {
  if (stage->kind != IR_STAGE_COMPUTE || stage->stmts.count != 1 || stage->assembled) return false;
  const ir_stmt *stmt = stage->stmts.at[0];
  return !ir_is_scatter(stmt) && (stmt->target->like || !pass_tensor_is_sparse(stmt->target));
}

/* Plain stores to memory, and no local that is not its own. */
static bool is_own(const ir_block *block, const vec_region *g, int *stores) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    const vec_local *set = c->kind == IR_SET ? pass_vec_local(g, c->var) : NULL;
    if (c->kind == IR_BARRIER || (c->kind == IR_SET && !(set && set->inside))) return false;
    if (c->kind == IR_STORE && (c->combine != IR_OP_COUNT || c->atomic || c->buf->kind == IR_BUF_LOCAL))
      return false;
    *stores += c->kind == IR_STORE;
    if (!is_own(&c->body, g, stores) || !is_own(&c->orelse, g, stores)) return false;
  }
  return true;
}

static bool loads_stored(const vec_region *g, const ir_block *block) {
  for (int i = 0; i < g->stores.count; i++)
    if (gpu_block_loads(block, g->stores.at[i]->buf)) return true;
  return false;
}

static bool is_definition(const ir_code *c) { return c->kind == IR_LET || c->kind == IR_COMMENT; }

/* The one loop behind definitions that the block is; NULL: it is something else. */
static ir_code *last_loop(const ir_block *block) {
  int count = block->codes.count;
  for (int i = 0; i < count - 1; i++)
    if (!is_definition(block->codes.at[i])) return NULL;
  return count && block->codes.at[count - 1]->kind == IR_FOR ? block->codes.at[count - 1] : NULL;
}

/* lo .. lo + n, or 0 .. min(n, rest): the most iterations it has; 0: not known. */
static int64_t most_trips(const ir_code *loop) {
  const ir_expr *hi = loop->hi;
  bool zero = loop->lo->kind == IR_CONST && loop->lo->i == 0;
  if (zero && hi->kind == IR_CONST) return hi->i;
  if (hi->kind != IR_OP || hi->arg_count != 2) return 0;
  if (zero && hi->op == IR_OP_MIN)
    for (int i = 0; i < 2; i++)
      if (hi->args[i]->kind == IR_CONST) return hi->args[i]->i;
  bool sum = hi->op == IR_OP_ADD && ir_expr_equal(hi->args[0], loop->lo) && hi->args[1]->kind == IR_CONST;
  return sum ? hi->args[1]->i : 0;
}

/* `for p { lets; for c = lo .. lo + n { .. } }` is one loop over p*n + c. */
static void write_lanes(const gpu_walk *m, ir_builder *b, const ir_code *loop, ir_expr *lane) {
  ir_code *in = last_loop(&loop->body);
  int64_t slots = in && gpu_steps_by_one(in) ? most_trips(in) : 0;
  if (slots < 2) slots = 0;
  ir_expr *each = number(m, slots ? slots : 1);
  ir_expr *lo = ir_var_ref(m->arena, ir_let(b, "first", IR_I64, apply(m, IR_OP_MUL, loop->lo, each)));
  ir_expr *hi = ir_var_ref(m->arena, ir_let(b, "end", IR_I64, apply(m, IR_OP_MUL, loop->hi, each)));
  ir_block *outer, *inside = NULL;
  ir_var *at = ir_open_for(b, slots ? "place" : loop->var->name, apply(m, IR_OP_ADD, lo, lane), hi,
                           IR_RUN_SEQUENTIAL, &outer);
  outer->codes.at[outer->codes.count - 1]->step = number(m, WARP);
  ir_expr *place = ir_var_ref(m->arena, at);
  bind(m, b->block, loop->var, slots ? apply(m, IR_OP_DIV, place, each) : place);
  int definitions = loop->body.codes.count - (slots ? 1 : 0);
  for (int i = 0; i < definitions; i++) IR_PUSH(m->arena, &b->block->codes, loop->body.codes.at[i]);
  if (slots) {
    bind(m, b->block, in->var, apply(m, IR_OP_ADD, in->lo, apply(m, IR_OP_MOD, place, each)));
    ir_expr *there = apply(m, IR_OP_LT, ir_var_ref(m->arena, in->var), in->hi);
    if (in->hi->kind == IR_OP && in->hi->op == IR_OP_MIN) ir_open_if(b, there, &inside);
    for (int i = 0; i < in->body.codes.count; i++) IR_PUSH(m->arena, &b->block->codes, in->body.codes.at[i]);
    if (inside) ir_close(b, inside);
  }
  ir_close(b, outer);
}

/* The loop that ends the block, perhaps under conditions; what stands before it every lane does. */
static ir_code *loop_at_end(const ir_block *block) {
  ir_code *last = block->codes.count ? block->codes.at[block->codes.count - 1] : NULL;
  if (last && last->kind == IR_IF && !last->orelse.codes.count) return loop_at_end(&last->body);
  return last && last->kind == IR_FOR ? last : NULL;
}

static void write_block(const gpu_walk *m, ir_builder *b, const ir_block *block, ir_expr *lane) {
  int before = block->codes.count - 1;
  ir_block *outer;
  for (int i = 0; i < before; i++) IR_PUSH(m->arena, &b->block->codes, block->codes.at[i]);
  const ir_code *last = block->codes.at[before];
  if (last->kind == IR_FOR) {
    write_lanes(m, b, last, lane);
    return;
  }
  ir_open_if(b, last->cond, &outer);
  write_block(m, b, &last->body, lane);
  ir_close(b, outer);
}

static bool can_copy(const gpu_walk *m, const ir_code *loop) {
  const ir_block *body = innermost(m);
  int all = 0, stores = 0;
  vec_region *whole = pass_vec_region(m->arena, NULL, m->loops[m->count - 1]->var, NULL, body);
  vec_region *g = pass_vec_region(m->arena, NULL, loop->var, NULL, &loop->body);
  return is_own(body, whole, &all) && is_own(&loop->body, g, &stores) && stores && stores == all &&
         !loads_stored(whole, body);
}

static bool map_copy(const gpu_walk *m) {
  const ir_block *body = innermost(m);
  const ir_code *loop = loop_at_end(body);
  if (!loop || !pass_gpu_stores_once(m->stage) || !gpu_steps_by_one(loop) || most_trips(loop) == 1 || !can_copy(m, loop))
    return false;
  ir_block made = {{NULL, 0, 0}};
  ir_builder b;
  ir_expr *warp = number(m, WARP), *rows = gpu_size_of_nest(m, -1);
  ir_expr *point = gpu_open_points(m, &b, &made, apply(m, IR_OP_MUL, rows, warp));
  ir_expr *lane = ir_var_ref(m->arena, ir_let(&b, "lane", IR_I64, apply(m, IR_OP_MOD, point, warp)));
  gpu_bind_nest(m, b.block, apply(m, IR_OP_DIV, point, warp), -1);
  write_block(m, &b, body, lane);
  m->outer->body = made;
  return true;
}

/* ---- matrices that are turned ---------------------------------------------------------------- */
/* The one store that the body is, where what it loads lies along the outer loop and its place along the inner one. */
static const ir_code *turning_store(const gpu_walk *m, const vec_region *rows, const vec_region *cols) {
  int64_t along, across;
  const ir_block *body = innermost(m);
  const ir_code *store = body->codes.count ? body->codes.at[body->codes.count - 1] : NULL;
  for (int i = 0; i < body->codes.count - 1; i++)
    if (body->codes.at[i]->kind != IR_COMMENT) return NULL;
  if (!store || store->kind != IR_STORE || store->combine != IR_OP_COUNT || store->atomic || store->cond) return NULL;
  const ir_expr *load = store->value;
  while (load->kind == IR_CAST) load = load->args[0];
  if (load->kind != IR_LOAD || load->arg_count != 1 || load->buf == store->buf) return NULL;
  if (!pass_vec_stride(rows, load->args[0], &along) || along != 1) return NULL;
  if (pass_vec_stride(cols, load->args[0], &across) && across == 1) return NULL;
  return pass_vec_stride(cols, store->offset, &across) && across == 1 ? store : NULL;
}

static void write_turned(const gpu_walk *m, ir_builder *b, const vec_region *g, const ir_code *store, ir_expr *at,
                         int rows) {
  ir_block body = {{NULL, 0, 0}};
  ir_var *value = IR_NEW(m->arena, ir_var);
  ir_code *last = IR_NEW(m->arena, ir_code);
  *value = (ir_var){"v", store->value->dtype, 1};
  *last = *store;
  last->value = ir_var_ref(m->arena, value);
  bind(m, &body, value, store->value);
  IR_PUSH(m->arena, &body.codes, last);
  g = pass_vec_region(m->arena, g->row, g->col, NULL, &body); /* it knows the value */
  vec_copier k = {.g = g, .b = b, .arena = m->arena, .rows = rows, .cols = 1, .lanes = 1, .only_row = -1,
                  .row_at = at, .col_at = ir_var_ref(m->arena, m->loops[1]->var)};
  pass_vec_block(&k, &body, NULL);
}

static bool map_turned(const gpu_walk *m) {
  if (m->count != 2) return false;
  const ir_code *row = m->loops[0], *col = m->loops[1];
  const vec_region *along = pass_vec_region(m->arena, NULL, row->var, NULL, innermost(m));
  const vec_region *g = pass_vec_region(m->arena, row->var, col->var, NULL, innermost(m));
  const ir_code *store = turning_store(m, along, g);
  const double sector = 32;
  if (!store || row->lo->kind != IR_CONST || row->lo->i || pass_size_assumed(m->context, col->hi) < WARP) return false;
  int rows = (int)(sector / fmax(2, (double)ir_dtype_bytes(store->buf->dtype)));
  ir_block body = {{NULL, 0, 0}}, *outer, *edge;
  ir_builder b;
  ir_expr *each = number(m, rows), *size = row->hi, *count = ir_ceil_div(m->arena, size, rows);
  ir_expr *point = gpu_open_points(m, &b, &body, apply(m, IR_OP_MUL, count, col->hi));
  bind(m, b.block, col->var, apply(m, IR_OP_MOD, point, col->hi));
  ir_expr *first = apply(m, IR_OP_MUL, apply(m, IR_OP_DIV, point, col->hi), each);
  first = ir_var_ref(m->arena, ir_let(&b, "first", IR_I64, first));
  ir_expr *end = apply(m, IR_OP_ADD, first, each);
  ir_code *test = ir_open_if(&b, apply(m, IR_OP_LE, end, size), &outer);
  write_turned(m, &b, g, store, first, rows);
  ir_open_else(&b, test);
  ir_var *one = ir_open_for(&b, "edge", first, size, IR_RUN_SEQUENTIAL, &edge);
  write_turned(m, &b, g, store, ir_var_ref(m->arena, one), 1);
  ir_close(&b, edge);
  ir_close(&b, outer);
  m->outer->body = body;
  return true;
}

bool pass_gpu_walk(pass_context *context, ir_stage *stage, ir_func *func, ir_code *const *loops,
                   int count) {
  ir_code first = *loops[0], *nest[8] = {&first}; /* as it was: loops[0] is written anew */
  for (int i = 1; i < count; i++) nest[i] = loops[i];
  gpu_walk m = {context, context->arena, stage, func, loops[0], nest, count};
  return gpu_map_columns(&m) || map_copy(&m) || map_turned(&m);
}
