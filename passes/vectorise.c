/* vectorise.c - pass 100: registers and vectors for the loops of the CPU.
 *
 * Needs: functions of the loop dialect as `lower` writes them: scalar, spatial loops outside,
 *        reductions inside with scalar accumulators.
 * Keeps: what is computed, each product and each rounding; the order of additions within one
 *        element, except that a reduction over consecutive memory is summed by lanes.
 * Breaks: nothing; other targets are left alone.
 *
 *     for t parallel { for o {                  for t step 6 parallel { for o step 64 {
 *       let acc = 0                               24 vectors acc
 *       for k { acc = acc + x[t,k]*W[k,o] }       for k { 4 loads of W, 6 splats of x, 24 sums }
 *       y[t,o] = acc } }                          24 stores } }     (edges: single rows, masks)
 *
 * A chain of perfectly nested loops is taken as a whole.  For each loop of the chain the work of
 * its body is estimated when done for a vector of iterations; against that stands summing the
 * innermost reductions by lanes (dot products of rows).  The loop around the chosen one gives the
 * rows. */
#include <math.h>

#include "passes/choice.h"
#include "passes/vectorise.h"

enum { MOST_CHAIN = 8 };

typedef struct vectoriser {
  ir_arena *arena;
  ir_builder b;
  int bits;             /* of a vector register */
  int units;            /* cores */
  bool batch_invariant; /* a row's sums have one order, however many rows there are */
} vectoriser;

typedef vec_shape shape;
typedef vec_tile tile;

static void write_block(vectoriser *v, const ir_block *block);

/* ---- chains ---------------------------------------------------------------------------------- */
typedef struct chain {
  const ir_code *loop[MOST_CHAIN];
  ir_block before[MOST_CHAIN]; /* what stands before loop[i] in the body of loop[i-1] */
  int count;
} chain;

static const ir_code *only_loop(const ir_block *block) {
  int count = block->codes.count;
  if (!count || block->codes.at[count - 1]->kind != IR_FOR) return NULL;
  for (int i = 0; i < count - 1; i++)
    if (block->codes.at[i]->kind != IR_LET && block->codes.at[i]->kind != IR_COMMENT) return NULL;
  return block->codes.at[count - 1];
}

static bool sets_var(const ir_block *block, const ir_var *var) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_SET && code->var == var) return true;
    if (sets_var(&code->body, var) || sets_var(&code->orelse, var)) return true;
  }
  return false;
}

/* The `let`s before the inner loop may be repeated only when nothing changes them. */
static bool is_steady(const ir_block *before, const ir_code *inner) {
  for (int i = 0; i < before->codes.count; i++)
    if (before->codes.at[i]->kind == IR_LET && sets_var(&inner->body, before->codes.at[i]->var))
      return false;
  return true;
}

static chain chain_of(const ir_code *loop) {
  chain c = {.loop = {loop}, .count = 1};
  while (c.count < MOST_CHAIN) {
    const ir_block *body = &c.loop[c.count - 1]->body;
    const ir_code *inner = only_loop(body);
    ir_block before = *body;
    before.codes.count--;
    if (!inner || inner->run == IR_RUN_PARALLEL || !is_steady(&before, inner)) break;
    c.before[c.count] = before;
    c.loop[c.count++] = inner;
  }
  return c;
}

/* ---- estimates ------------------------------------------------------------------------------- */
static vec_region *region_of(vectoriser *v, const ir_code *loop) {
  return pass_vec_region(v->arena, NULL, loop->var, NULL, &loop->body);
}

static bool steps_by_one(const ir_code *loop) {
  return !loop->step || (loop->step->kind == IR_CONST && loop->step->i == 1);
}

static int lanes_for(const vectoriser *v, const vec_region *g, const ir_code *loop) {
  int lanes = v->bits / pass_vec_bits(g, &loop->body);
  int64_t trips = pass_vec_trips(loop, lanes);
  while (lanes > 2 && lanes / 2 >= trips) lanes /= 2;
  return lanes;
}

/* Share of the scalar work that is left; above 1 when it cannot be done. */
static double share_by_lanes(vectoriser *v, const ir_code *loop) {
  int64_t most = pass_vec_most_trips(loop);
  if (!steps_by_one(loop) || (most >= 0 && most < 2)) return 2;
  vec_region *g = region_of(v, loop);
  if (!pass_vec_legal(g, &loop->body, true, false)) return 2;
  return pass_vec_cost(g, &loop->body, lanes_for(v, g, loop)) /
         (pass_vec_cost(g, &loop->body, 1) + 1e-9);
}

static bool reducible(vectoriser *v, const ir_code *loop, vec_region **g) {
  *g = region_of(v, loop);
  return pass_vec_reducible(*g, loop) && pass_vec_trips(loop, 64) >= lanes_for(v, *g, loop);
}

static double cost_with_reductions(vectoriser *v, const vec_region *any, const ir_block *block) {
  double cost = 0;
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *code = block->codes.at[i];
    ir_block one = {0};
    vec_region *g;
    IR_PUSH(v->arena, &one.codes, code);
    if (code->kind != IR_FOR) {
      cost += pass_vec_cost(any, &one, 1);
      continue;
    }
    double trips = fmin(64, (double)pass_vec_trips(code, 16)); /* as pass_vec_cost counts them */
    const ir_code *flat = pass_vec_positions(v->arena, code, NULL);
    if (flat != code) trips *= 2;
    if (reducible(v, flat, &g))
      cost += trips * pass_vec_cost(g, &flat->body, lanes_for(v, g, flat));
    else
      cost += trips * cost_with_reductions(v, any, &code->body);
  }
  return cost;
}

static double share_by_reductions(vectoriser *v, const ir_code *loop) {
  vec_region *g = region_of(v, loop);
  return cost_with_reductions(v, g, &loop->body) / (pass_vec_cost(g, &loop->body, 1) + 1e-9);
}

/* ---- shapes of register tiles ---------------------------------------------------------------- */
enum { ONE_TILE = 4 }; /* vectors: that few columns, as in a strip, are copied without a loop */

static int at_most(int64_t a, int b) { return a < b ? (int)a : b; }

static shape tile_shape(const vectoriser *v, const ir_code *row, const ir_code *col, int lanes,
                        int accumulators) {
  bool wide = v->bits == 512;
  int64_t rows = row ? pass_vec_most_trips(row) : 1, cols = pass_vec_most_trips(col);
  shape s = {1, cols > 0 && cols <= ONE_TILE * lanes ? ONE_TILE : 2, lanes};
  if (accumulators) {
    s = wide ? (shape){6, 4, lanes} : (shape){6, 2, lanes};
    if (rows == 1)
      s = (shape){1, 8, lanes};
    else if (rows > 0 && rows % 8 == 0)
      s = wide ? (shape){8, 3, lanes} : (shape){4, 3, lanes};
    else if (rows > 0 && rows % 4 == 0)
      s = wide ? (shape){4, 4, lanes} : (shape){4, 3, lanes};
    else if (rows > 0)
      s.rows = at_most(rows, s.rows);
  }
  if (cols >= 0) s.cols = at_most((cols + lanes - 1) / lanes, s.cols);
  if (s.cols < 1) s.cols = 1;
  while (accumulators > 1 && s.rows * s.cols * accumulators > (wide ? 24 : 12)) {
    if (s.rows > 1)
      s.rows = (s.rows + 1) / 2;
    else if (s.cols > 1)
      s.cols /= 2;
    else
      break;
  }
  return s;
}

/* The region of loop[at] with the rows of the loop around it, when both may run side by side. */
static tile tile_of(vectoriser *v, chain *c, int at, const ir_block *body, bool lanes) {
  tile t = {.b = &v->b, .col = c->loop[at], .body = body, .units = v->units};
  const ir_code *row = at > 0 ? c->loop[at - 1] : NULL;
  if (row && steps_by_one(row) && pass_vec_accumulators(body)) {
    t.g = pass_vec_region(v->arena, row->var, t.col->var, &c->before[at], body);
    unsigned bounds = pass_vec_deps(t.g, t.col->lo) | pass_vec_deps(t.g, t.col->hi);
    if (!bounds && pass_vec_legal(t.g, body, lanes, false)) {
      t.row = row;
      t.before = &c->before[at];
      return t;
    }
  }
  t.g = pass_vec_region(v->arena, NULL, t.col->var, NULL, body);
  return t;
}

/* ---- loops that stay ------------------------------------------------------------------------- */
static ir_code *open_same(vectoriser *v, const ir_code *loop, ir_block **outer) {
  ir_code *copy = IR_NEW(v->arena, ir_code);
  *copy = *loop;
  copy->body = copy->orelse = (ir_block){0};
  IR_PUSH(v->arena, &v->b.block->codes, copy);
  *outer = v->b.block;
  v->b.block = &copy->body;
  return copy;
}

/* Loops outside the tile, with what stands between them. */
static void open_outer(vectoriser *v, chain *c, int count, ir_block **outer) {
  *outer = v->b.block;
  for (int i = 0; i < count; i++) {
    ir_block *ignored;
    if (i) write_block(v, &c->before[i]);
    open_same(v, c->loop[i], &ignored);
  }
  if (count && count < c->count) write_block(v, &c->before[count]);
}

/* ---- the two ways ---------------------------------------------------------------------------- */
static void write_by_lanes(vectoriser *v, chain *c, int at) {
  const ir_code *col = c->loop[at];
  tile t = tile_of(v, c, at, &col->body, true);
  t.shape = tile_shape(v, t.row, col, lanes_for(v, t.g, col), pass_vec_accumulators(&col->body));
  if (!t.row) t.shape.rows = 1;
  if (pass_vec_branches(t.g, &col->body)) t.shape.cols = 1;
  ir_block *outer;
  open_outer(v, c, t.row ? at - 1 : at, &outer);
  if (!pass_vec_panel(&t)) pass_vec_tile(&t);
  ir_close(&v->b, outer);
}

static bool write_reduction(vectoriser *v, const ir_code *loop, int copies) {
  vec_region *g;
  if (!reducible(v, loop, &g)) return false;
  const ir_expr *lo = loop->lo;
  if (lo->kind == IR_OP && lo->op == IR_OP_MUL && lo->args[1]->kind == IR_CONST)
    g->slots = lo->args[1]->i;
  g->window = v->bits == 512 ? 32 : v->bits == 256 ? 8 : 0;
  if (pass_vec_branches(g, &loop->body)) copies = 1;
  int lanes = lanes_for(v, g, loop);
  while (copies > 1 && pass_vec_trips(loop, 1 << 20) < (int64_t)copies * lanes) copies /= 2;
  pass_vec_reduce(&v->b, g, loop, lanes, copies);
  return true;
}

static bool write_positions(vectoriser *v, const ir_code *loop, int copies) {
  ir_code *rest = NULL;
  if (!write_reduction(v, pass_vec_positions(v->arena, loop, &rest), copies)) return false;
  if (rest) IR_PUSH(v->arena, &v->b.block->codes, rest);
  return true;
}

/* The body with its reductions by lanes; several copies of partial sums unless tiles give enough.
 */
static ir_block with_reductions(vectoriser *v, const ir_block *block, int copies) {
  ir_block made = {0}, *outer = v->b.block;
  v->b.block = &made;
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *code = block->codes.at[i];
    ir_block *ignored;
    if (code->kind == IR_FOR && write_positions(v, code, copies)) continue;
    if (code->kind != IR_FOR) {
      IR_PUSH(v->arena, &v->b.block->codes, code);
      continue;
    }
    ir_code *same = open_same(v, code, &ignored);
    same->body = with_reductions(v, &code->body, copies);
    v->b.block = &made;
  }
  v->b.block = outer;
  return made;
}

static void write_by_reductions(vectoriser *v, chain *c) {
  int last = c->count - 1;
  const ir_code *col = c->loop[last];
  tile t = tile_of(v, c, last, &col->body, false);
  bool tiled = t.row && steps_by_one(col) && pass_vec_legal(t.g, &col->body, false, false);
  ir_block body = with_reductions(v, &col->body, tiled ? 1 : 4), *outer;
  if (tiled) {
    int side = v->bits == 512 ? 4 : 3;
    t = tile_of(v, c, last, &body, false);
    tiled = t.row != NULL;
    int64_t rows = t.row ? pass_vec_most_trips(t.row) : 1;
    t.shape =
        (shape){rows < 0 ? side : at_most(rows, side), at_most(pass_vec_trips(col, side), side), 1};
  }
  if (tiled && t.shape.rows > 0 && t.shape.cols > 0) {
    open_outer(v, c, last - 1, &outer);
    pass_vec_tile(&t);
  } else {
    ir_block *ignored;
    open_outer(v, c, last, &outer);
    open_same(v, col, &ignored)->body = body;
  }
  ir_close(&v->b, outer);
}

/* Operands that are consecutive along the sum, turned while they are packed; few rows by
 * reductions. */
static bool write_turned(vectoriser *v, chain *c) {
  int last = c->count - 1;
  const ir_code *col = c->loop[last];
  if (v->batch_invariant) return false;
  tile t = tile_of(v, c, last, &col->body, true);
  if (!t.row || pass_vec_branches(t.g, &col->body)) return false;
  t.shape = tile_shape(v, t.row, col, lanes_for(v, t.g, col), pass_vec_accumulators(&col->body));
  if (!pass_vec_panel_turns(&t)) return false;
  ir_block few = with_reductions(v, &col->body, 1), *outer;
  t.few = &few;
  open_outer(v, c, last - 1, &outer);
  pass_vec_panel(&t);
  ir_close(&v->b, outer);
  return true;
}

/* Loops that stand side by side and write memory each: packing, then what reads it. */
static bool stores_something(const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_STORE && code->buf->kind != IR_BUF_LOCAL) return true;
    if (stores_something(&code->body) || stores_something(&code->orelse)) return true;
  }
  return false;
}

static bool asks_ahead(const ir_code *loop) {
  for (int i = 0; i < loop->body.codes.count; i++)
    if (loop->body.codes.at[i]->kind == IR_PREFETCH) return true;
  return false;
}

static bool holds_steps(const ir_code *loop) {
  int steps = 0; /* asking for memory ahead is one, also inside */
  for (int i = 0; i < loop->body.codes.count; i++) {
    const ir_code *code = loop->body.codes.at[i];
    bool is_step = code->kind == IR_FOR || code->kind == IR_PREFETCH;
    if (code->kind != IR_LET && code->kind != IR_COMMENT && !is_step) return false;
    if (code->kind == IR_FOR && !stores_something(&code->body) && !asks_ahead(code)) return false;
    steps += is_step + (code->kind == IR_FOR && asks_ahead(code));
  }
  return steps > 1;
}

static bool holds_compressing(vectoriser *v, const ir_code *loop) {
  for (int i = 0; i < loop->body.codes.count; i++)
    if (pass_vec_compresses(v->arena, loop->body.codes.at[i])) return true;
  return false;
}

/* What is inside is looked at by itself. */
static void write_inside(vectoriser *v, const ir_code *loop) {
  ir_block *outer;
  open_same(v, loop, &outer);
  write_block(v, &loop->body);
  ir_close(&v->b, outer);
}

static void write_loop(vectoriser *v, const ir_code *loop) {
  if (v->bits == 512 && pass_vec_compresses(v->arena, loop)) {
    pass_vec_compress(&v->b, loop);
    return;
  }
  if (holds_steps(loop) || holds_compressing(v, loop)) {
    write_inside(v, loop);
    return;
  }
  chain c = chain_of(loop);
  double best = 0.75, share;
  int at = -1;
  for (int i = 0; i < c.count; i++)
    if ((share = share_by_lanes(v, c.loop[i])) <= best) best = share, at = i;
  vec_region *g;
  if (reducible(v, c.loop[c.count - 1], &g)) {
    ir_block *outer;
    int last = c.count - 1;
    if (at < 0 || pass_vec_cost(g, &c.loop[last]->body, lanes_for(v, g, c.loop[last])) /
                          (pass_vec_cost(g, &c.loop[last]->body, 1) + 1e-9) <=
                      best) {
      open_outer(v, &c, last, &outer);
      write_reduction(v, c.loop[last], 4);
      ir_close(&v->b, outer);
      return;
    }
  }
  share = share_by_reductions(v, c.loop[c.count - 1]);
  if (share < best) {
    if (!write_turned(v, &c)) write_by_reductions(v, &c);
  } else if (at >= 0 && at < c.count - 1 && write_turned(v, &c)) {
    /* an outer loop has the vectors, so results would be scattered: panels give both */
  } else if (at >= 0) {
    write_by_lanes(v, &c, at);
  } else {
    write_inside(v, loop);
  }
}

static void write_branch(vectoriser *v, const ir_code *code) {
  ir_block *outer;
  ir_code *copy = open_same(v, code, &outer);
  write_block(v, &code->body);
  v->b.block = &copy->orelse;
  write_block(v, &code->orelse);
  ir_close(&v->b, outer);
}

static void write_block(vectoriser *v, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *code = block->codes.at[i];
    if (code->kind == IR_FOR)
      write_loop(v, code);
    else if (code->kind == IR_IF || code->kind == IR_WHILE)
      write_branch(v, code);
    else
      IR_PUSH(v->arena, &v->b.block->codes, code);
  }
}

/* ---- the pass -------------------------------------------------------------------------------- */
static void vectorise_function(pass_context *context, ir_func *func, int bits) {
  ir_block body = {0};
  const pass_profile *profile = context->profile;
  vectoriser v = {.arena = context->arena,
                  .bits = bits,
                  .units = profile && profile->units > 1 ? (int)profile->units : 1,
                  .batch_invariant = context->program->batch_invariant};
  pass_vec_lines(context->arena, func);
  pass_vec_share(context->arena, func, v.units);
  v.b = (ir_builder){context->arena, func, &body};
  write_block(&v, &func->body);
  func->body = body;
}

spc_status pass_vectorise(pass_context *context, ir_kernel *kernel) {
  const ir_target *target = context->options->target;
  if (!target || target->kind != IR_TARGET_CPU) return SPC_OK;
  pass_context_prepare(context);
  int bits = target->vector_bits >= 128 ? target->vector_bits : 256;
  for (int s = 0; s < kernel->stages.count; s++)
    for (int f = 0; f < kernel->stages.at[s]->funcs.count; f++)
      if (kernel->stages.at[s]->funcs.at[f]->kind == IR_FUNC_KERNEL)
        vectorise_function(context, kernel->stages.at[s]->funcs.at[f], bits);
  return SPC_OK;
}
