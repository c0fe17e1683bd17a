/* gpu_parts.c - rows whose sums are cut: two functions in place of one.
 *
 *     team for i in 0 .. R {               team for part_i in 0 .. R * P {
 *       let acc = 0                          let i = part_i / P, share = part_i % P
 *       for j in 0 .. N { acc += .. }   ->   let acc = 0
 *       y[i] = f(acc)                        for j in share of 0 .. N { acc += .. }
 *     }                                      parts[part_i] = acc
 *                                          }
 *                                          team for i in 0 .. R {
 *                                            let acc = 0
 *                                            for share in 0 .. P { acc += parts[i * P + share] }
 *                                            y[i] = f(acc)
 *                                          }
 * or, where what lies along the rows is read as words, one function whose threads meet in shared memory:
 *
 *     columns C for run in 0 .. R / 8 {
 *       let acc[8] = 0
 *       shares S for j in 0 .. N { lanes 8 for i in run * 8 .. run * 8 + 8 { acc[i - run * 8] += .. } }
 *       for w in 0 .. 8 { y[run * 8 + w] = f(acc[w]) }
 *     } */
#include "passes/gpu_map.h"
#include "passes/stage.h"

enum {
  PARTS_PER_SUM = 2, /* arrays: the place of the largest has its value beside it */
  PARTS_AHEAD = 64   /* that a thread loads at a time: few threads add up, each waits for memory */
};

typedef struct cutting {
  gpu_rows *r;
  const gpu_cut *cut;
  ir_arena *arena;
  ir_builder b;
  IR_VEC(ir_buf *) parts; /* PARTS_PER_SUM a sum */
} cutting;

static ir_expr *op(const cutting *c, ir_op o, ir_expr *x, ir_expr *y) { return ir_apply(c->arena, o, x, y); }

static ir_expr *number(const cutting *c, int64_t value) { return ir_int(c->arena, value); }

static ir_expr *ref(const cutting *c, ir_var *var) { return ir_var_ref(c->arena, var); }

static ir_expr *let(cutting *c, const char *name, ir_expr *value) { return ref(c, ir_let(&c->b, name, IR_I64, value)); }

static void push(cutting *c, ir_code *code) { IR_PUSH(c->arena, &c->b.block->codes, code); }

static ir_expr *rows(const cutting *c) { return c->r->loop ? c->r->loop->hi : number(c, 1); }

/* ---- where parts are kept --------------------------------------------------------------------- */
static ir_buf *parts_new(cutting *c, const ir_var *var) {
  ir_kernel *kernel = c->r->kernel;
  const char *name = ir_format_text(c->arena, "%s.parts.%s", c->r->stage->name, var->name);
  for (int n = 2, taken = 1; taken; n++) {
    taken = 0;
    for (int i = 0; i < kernel->workspaces.count; i++) taken |= !strcmp(kernel->workspaces.at[i]->name, name);
    if (taken) name = ir_format_text(c->arena, "%s.parts.%s_%d", c->r->stage->name, var->name, n);
  }
  ir_expr *count = c->r->loop ? op(c, IR_OP_MUL, rows(c), c->cut->parts) : c->cut->parts;
  ir_buf *buf = pass_workspace_new(c->r->context, kernel, name, var->dtype, count);
  buf->first = buf->last = c->r->stage->number;
  return buf;
}

static void make_parts(cutting *c) {
  for (int i = 0; i < c->cut->sums.at.count; i++) {
    const ir_loop_sum *sum = &c->cut->sums.at.at[i];
    IR_PUSH(c->arena, &c->parts, parts_new(c, sum->var));
    IR_PUSH(c->arena, &c->parts, sum->best ? parts_new(c, sum->best) : NULL);
  }
}

static ir_expr *place_of(const cutting *c, ir_expr *row, ir_expr *share) {
  if (!row) return share;
  return c->cut->rows_last ? op(c, IR_OP_ADD, op(c, IR_OP_MUL, share, rows(c)), row)
                           : op(c, IR_OP_ADD, op(c, IR_OP_MUL, row, c->cut->parts), share);
}

/* ---- what a function touches ------------------------------------------------------------------ */
static void use_loads(ir_func *func, const ir_expr *e) {
  if (e->kind == IR_LOAD && e->buf->kind != IR_BUF_LOCAL) ir_func_use(func, e->buf);
  for (int i = 0; i < e->arg_count; i++) use_loads(func, e->args[i]);
}

static void use_block(ir_func *func, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    const ir_expr *parts[] = {code->lo, code->hi, code->step, code->cond, code->value, code->offset};
    for (int k = 0; k < IR_COUNT(parts); k++)
      if (parts[k]) use_loads(func, parts[k]);
    if (code->kind == IR_STORE && code->buf->kind != IR_BUF_LOCAL) ir_func_use(func, code->buf);
    use_block(func, &code->body);
    use_block(func, &code->orelse);
  }
}

void gpu_finish(ir_func *func, ir_block body) {
  func->body = body;
  func->bufs.count = 0;
  use_block(func, &body);
}

/* ---- the first function ------------------------------------------------------------------------ */
/* Of equal values the first one is wanted: then parts stand in the order of what they are made of. */
static bool finds_places(const cutting *c) {
  for (int i = 0; i < c->cut->sums.at.count; i++)
    if (c->cut->sums.at.at[i].best) return true;
  return false;
}

/* This part's share of lo .. hi, in multiples of `round`. */
static void cut_loop(cutting *c, ir_code *loop, ir_expr *share) {
  ir_expr *lo = loop->lo, *round = number(c, c->cut->round);
  ir_code *part = IR_NEW(c->arena, ir_code);
  *part = *loop;
  if (c->cut->team == 1 && !finds_places(c)) { /* what parts read at a time lies side by side */
    part->lo = op(c, IR_OP_ADD, lo, share);
    part->step = c->cut->parts;
    push(c, part);
    return;
  }
  bool whole = lo->kind == IR_CONST && lo->i == 0;
  ir_expr *length = whole ? loop->hi : op(c, IR_OP_SUB, loop->hi, lo);
  ir_expr *unit = op(c, IR_OP_MUL, c->cut->parts, round);
  ir_expr *up = op(c, IR_OP_ADD, length, op(c, IR_OP_SUB, unit, number(c, 1)));
  ir_expr *step = let(c, "length", op(c, IR_OP_MUL, op(c, IR_OP_DIV, up, unit), round));
  ir_expr *first = op(c, IR_OP_MUL, share, step);
  first = let(c, "first", whole ? first : op(c, IR_OP_ADD, lo, first));
  part->lo = first;
  part->hi = let(c, "last", op(c, IR_OP_MIN, loop->hi, op(c, IR_OP_ADD, first, step)));
  push(c, part);
}

/* The nest with the one loop cut. */
static void cut_nest(cutting *c, ir_code *code, ir_expr *share) {
  if (code == c->cut->loop) {
    cut_loop(c, code, share);
    return;
  }
  if (code->kind != IR_FOR) {
    push(c, code);
    return;
  }
  ir_code *copy = IR_NEW(c->arena, ir_code);
  *copy = *code;
  copy->body = (ir_block){{NULL, 0, 0}};
  push(c, copy);
  ir_block *outer = c->b.block;
  c->b.block = &copy->body;
  for (int i = 0; i < code->body.codes.count; i++) cut_nest(c, code->body.codes.at[i], share);
  c->b.block = outer;
}

static ir_func *parts_function(cutting *c) {
  const ir_func *whole = c->r->func;
  ir_func *func = ir_func_new(c->r->kernel, ir_format_text(c->arena, "%s.parts", whole->name));
  for (int i = 0; i < whole->vars.count; i++) IR_PUSH(c->arena, &func->vars, whole->vars.at[i]);
  return func;
}

/* What stands before the rows, which is cheap to repeat. */
static void push_before(cutting *c, const ir_func *whole) {
  for (int i = 0; c->r->loop && i < whole->body.codes.count && whole->body.codes.at[i] != c->r->loop; i++)
    push(c, whole->body.codes.at[i]);
}

static ir_expr *bind_row(cutting *c, ir_expr *point, ir_expr **share) {
  const gpu_cut *cut = c->cut;
  if (!c->r->loop) return *share = point, NULL;
  ir_expr *by = cut->rows_inner ? rows(c) : cut->parts;
  ir_expr *outer = op(c, IR_OP_DIV, point, by), *inner = op(c, IR_OP_MOD, point, by);
  *share = let(c, "share", cut->rows_inner ? outer : inner);
  ir_code *row = IR_NEW(c->arena, ir_code);
  *row = (ir_code){.kind = IR_LET, .var = c->r->loop->var, .combine = IR_OP_COUNT};
  row->value = cut->rows_inner ? inner : outer;
  push(c, row);
  return ref(c, c->r->loop->var);
}

static void run_by(ir_code *loop, int team) {
  loop->run = team > 1 ? IR_RUN_TEAM : IR_RUN_THREAD;
  loop->width = team > 1 ? team : 0;
}

/* ---- the first function, a thread some rows ------------------------------------------------------- */
typedef struct widening {
  const cutting *c;
  IR_VEC(ir_buf *) locals; /* one a sum */
  ir_expr *at;             /* which of the rows */
  const ir_var *row_var;   /* stands for row, where that is not NULL */
  ir_expr *row;
} widening;

static int sum_of(const widening *w, const ir_var *var) {
  for (int i = 0; i < w->c->cut->sums.at.count; i++)
    if (w->c->cut->sums.at.at[i].var == var) return i;
  return -1;
}

static ir_expr *widened(const widening *w, ir_expr *e) {
  if (!e) return NULL;
  if (e->kind == IR_VAR && w->row && e->var == w->row_var) return w->row;
  if (e->kind == IR_VAR)
    return sum_of(w, e->var) < 0 ? e : ir_load(w->c->arena, w->locals.at[sum_of(w, e->var)], w->at);
  if (!e->arg_count) return e;
  ir_expr *args[3];
  for (int i = 0; i < e->arg_count; i++) args[i] = widened(w, e->args[i]);
  return ir_copy_with(w->c->arena, e, args);
}

static void widen_block(const widening *w, const ir_block *from, ir_block *to) {
  for (int i = 0; i < from->codes.count; i++) {
    const ir_code *code = from->codes.at[i];
    ir_code *copy = IR_NEW(w->c->arena, ir_code);
    *copy = *code;
    copy->lo = widened(w, code->lo), copy->hi = widened(w, code->hi), copy->cond = widened(w, code->cond);
    copy->value = widened(w, code->value), copy->offset = widened(w, code->offset);
    if (code->kind == IR_SET && sum_of(w, code->var) >= 0) {
      copy->kind = IR_STORE;
      copy->buf = w->locals.at[sum_of(w, code->var)];
      copy->offset = w->at;
      copy->combine = IR_OP_COUNT;
    }
    copy->body = copy->orelse = (ir_block){{NULL, 0, 0}};
    widen_block(w, &code->body, &copy->body);
    widen_block(w, &code->orelse, &copy->orelse);
    IR_PUSH(w->c->arena, &to->codes, copy);
  }
}

static void begin_sums(cutting *c, widening *w) {
  for (int i = 0; i < c->cut->sums.at.count; i++) {
    const ir_var *var = c->cut->sums.at.at[i].var;
    ir_expr *first = NULL;
    for (int k = 0; k < c->cut->at; k++)
      if (c->r->block->codes.at[k]->var == var) first = c->r->block->codes.at[k]->value;
    ir_buf *local = ir_local(&c->b, ir_format_text(c->arena, "%s_of", var->name), var->dtype, c->cut->wide);
    IR_PUSH(c->arena, &w->locals, local);
    ir_block *outer;
    ir_var *row = ir_open_for(&c->b, "w", number(c, 0), number(c, c->cut->wide), IR_RUN_UNROLL, &outer);
    ir_store(&c->b, local, ref(c, row), first);
    ir_close(&c->b, outer);
  }
}

static void store_sums(cutting *c, const widening *w, ir_expr *column, ir_expr *share) {
  for (int i = 0; i < c->cut->sums.at.count; i++) {
    ir_block *outer, *inside;
    ir_var *row = ir_open_for(&c->b, "w", number(c, 0), number(c, c->cut->wide), IR_RUN_UNROLL, &outer);
    ir_expr *at = op(c, IR_OP_ADD, column, ref(c, row));
    ir_open_if(&c->b, op(c, IR_OP_LT, at, rows(c)), &inside);
    ir_store(&c->b, c->parts.at[i * PARTS_PER_SUM], place_of(c, at, share), ir_load(c->arena, w->locals.at[i], ref(c, row)));
    ir_close(&c->b, inside);
    ir_close(&c->b, outer);
  }
}

/* The loop's body for the columns from `column` on. */
static void widen_loop(cutting *c, widening *w, ir_code *loop, ir_expr *column) {
  ir_block row = loop->body, *block = c->b.block, *inner;
  loop->body = (ir_block){{NULL, 0, 0}};
  c->b.block = &loop->body;
  ir_expr *end = op(c, IR_OP_MIN, rows(c), op(c, IR_OP_ADD, column, number(c, c->cut->wide)));
  ir_open_for(&c->b, "j", column, end, IR_RUN_LANES, &inner);
  ir_code *lanes = loop->body.codes.at[0];
  lanes->var = c->r->loop->var;
  lanes->width = c->cut->wide;
  w->at = op(c, IR_OP_SUB, ref(c, lanes->var), column);
  widen_block(w, &row, &lanes->body);
  c->b.block = block;
}

/* team 1 for part in 0 .. columns * P { for i in share .. M step P { lanes 8 for j in column .. column + 8 { .. } } } */
static ir_func *write_wide_parts(cutting *c) {
  ir_func *func = parts_function(c);
  ir_block body = {{NULL, 0, 0}}, *outer;
  widening w = {.c = c};
  c->b = (ir_builder){c->arena, func, &body};
  push_before(c, c->r->func);
  ir_expr *columns = ir_ceil_div(c->arena, rows(c), c->cut->wide);
  ir_var *point = ir_open_for(&c->b, "part", number(c, 0), op(c, IR_OP_MUL, columns, c->cut->parts), IR_RUN_TEAM, &outer);
  body.codes.at[body.codes.count - 1]->width = 1;
  ir_expr *share = let(c, "share", op(c, IR_OP_DIV, ref(c, point), columns));
  ir_expr *column = op(c, IR_OP_MUL, op(c, IR_OP_MOD, ref(c, point), columns), number(c, c->cut->wide));
  column = let(c, "column", column);
  begin_sums(c, &w);
  cut_loop(c, c->cut->nest, share);
  widen_loop(c, &w, c->b.block->codes.at[c->b.block->codes.count - 1], column);
  store_sums(c, &w, column, share);
  ir_close(&c->b, outer);
  gpu_finish(func, body);
  return func;
}

/* What follows the sum, for each of a thread's columns. */
static void widen_rest(cutting *c, widening *w, const ir_block *row, ir_expr *column) {
  ir_block *outer, *inside, rest = {{NULL, 0, 0}};
  ir_var *which = ir_open_for(&c->b, "w", number(c, 0), number(c, c->cut->wide), IR_RUN_UNROLL, &outer);
  for (int i = c->cut->at + 1; i < row->codes.count; i++) IR_PUSH(c->arena, &rest.codes, row->codes.at[i]);
  w->at = ref(c, which);
  w->row_var = c->r->loop->var;
  w->row = op(c, IR_OP_ADD, column, ref(c, which));
  ir_open_if(&c->b, op(c, IR_OP_LT, w->row, rows(c)), &inside);
  widen_block(w, &rest, c->b.block);
  ir_close(&c->b, inside);
  ir_close(&c->b, outer);
}

static void write_columns(cutting *c) {
  ir_func *func = c->r->func;
  const ir_block row = *c->r->block;
  ir_block body = {{NULL, 0, 0}}, *outer;
  widening w = {.c = c};
  c->b = (ir_builder){c->arena, func, &body};
  push_before(c, func);
  ir_var *run = ir_open_for(&c->b, "run", number(c, 0), ir_ceil_div(c->arena, rows(c), c->cut->wide), IR_RUN_COLUMNS, &outer);
  body.codes.at[body.codes.count - 1]->width = c->cut->columns;
  ir_expr *column = let(c, "column", op(c, IR_OP_MUL, ref(c, run), number(c, c->cut->wide)));
  begin_sums(c, &w);
  ir_code *shares = IR_NEW(c->arena, ir_code);
  *shares = *c->cut->nest;
  shares->run = IR_RUN_SHARES;
  shares->width = c->cut->shares;
  push(c, shares);
  widen_loop(c, &w, shares, column);
  widen_rest(c, &w, &row, column);
  ir_close(&c->b, outer);
  gpu_finish(func, body);
}

static ir_func *write_parts(cutting *c) {
  ir_func *func = parts_function(c);
  ir_block body = {{NULL, 0, 0}}, *outer;
  c->b = (ir_builder){c->arena, func, &body};
  push_before(c, c->r->func);
  ir_expr *all = c->r->loop ? op(c, IR_OP_MUL, rows(c), c->cut->parts) : c->cut->parts, *share;
  ir_var *point = ir_open_for(&c->b, "part", number(c, 0), all, IR_RUN_TEAM, &outer);
  run_by(body.codes.at[body.codes.count - 1], c->cut->team);
  ir_expr *row = bind_row(c, ref(c, point), &share);
  for (int i = 0; i < c->cut->at; i++) push(c, c->r->block->codes.at[i]);
  cut_nest(c, c->cut->nest, share);
  for (int i = 0; i < c->cut->sums.at.count; i++) {
    const ir_loop_sum *sum = &c->cut->sums.at.at[i];
    ir_buf *const *parts = &c->parts.at[i * PARTS_PER_SUM];
    ir_store(&c->b, parts[0], place_of(c, row, share), ref(c, sum->var));
    if (parts[1]) ir_store(&c->b, parts[1], place_of(c, row, share), ref(c, sum->best));
  }
  ir_close(&c->b, outer);
  gpu_finish(func, body);
  return func;
}

/* ---- the second --------------------------------------------------------------------------------- */
static void add_part(cutting *c, const ir_loop_sum *sum, ir_buf *const *parts, ir_expr *at) {
  ir_block *some, *better;
  ir_expr *part = ir_load(c->arena, parts[0], at);
  if (!sum->best) {
    ir_set(&c->b, sum->var, op(c, sum->combine, ref(c, sum->var), part));
    return;
  }
  ir_expr *place = let(c, "place", part);
  ir_var *value = ir_let(&c->b, "value", sum->best->dtype, ir_load(c->arena, parts[1], at));
  ir_open_if(&c->b, op(c, IR_OP_GE, place, number(c, 0)), &some);
  ir_open_if(&c->b, ir_value_is_better(c->arena, ref(c, value), ref(c, sum->best), ref(c, sum->var)), &better);
  ir_set(&c->b, sum->best, ref(c, value));
  ir_set(&c->b, sum->var, place);
  ir_close(&c->b, better);
  ir_close(&c->b, some);
}

static void write_sums(cutting *c, ir_expr *row) {
  ir_block *outer;
  int at = c->b.block->codes.count;
  ir_var *share = ir_open_for(&c->b, "share", number(c, 0), c->cut->parts, IR_RUN_LANES, &outer);
  for (int i = 0; i < c->cut->sums.at.count; i++)
    add_part(c, &c->cut->sums.at.at[i], &c->parts.at[i * PARTS_PER_SUM], place_of(c, row, ref(c, share)));
  ir_close(&c->b, outer);
  ir_code *loop = c->b.block->codes.at[at];
  loop->run = c->cut->last_team > 1 ? IR_RUN_LANES : IR_RUN_UNROLL;
  loop->width = c->cut->last_team > 1 ? 1 : PARTS_AHEAD;
}

static void write_rows(cutting *c) {
  ir_func *func = c->r->func;
  const ir_block row_body = *c->r->block;
  ir_block body = {{NULL, 0, 0}}, *outer;
  c->b = (ir_builder){c->arena, func, &body};
  push_before(c, func);
  ir_open_for(&c->b, "row", number(c, 0), rows(c), IR_RUN_TEAM, &outer);
  ir_code *loop = body.codes.at[body.codes.count - 1];
  if (c->r->loop) loop->var = c->r->loop->var;
  run_by(loop, c->cut->last_team);
  for (int i = 0; i < c->cut->at; i++) push(c, row_body.codes.at[i]);
  write_sums(c, c->r->loop ? ref(c, loop->var) : NULL);
  for (int i = c->cut->at + 1; i < row_body.codes.count; i++) push(c, row_body.codes.at[i]);
  ir_close(&c->b, outer);
  gpu_finish(func, body);
}

void gpu_cut_rows(gpu_rows *r, const gpu_cut *cut) {
  cutting c = {.r = r, .cut = cut, .arena = r->context->arena};
  if (cut->columns) {
    write_columns(&c);
    return;
  }
  make_parts(&c);
  ir_func *parts = cut->wide > 1 ? write_wide_parts(&c) : write_parts(&c);
  write_rows(&c);
  int at = 0;
  while (r->stage->funcs.at[at] != r->func) at++;
  IR_PUSH(c.arena, &r->stage->funcs, NULL);
  for (int i = r->stage->funcs.count - 1; i > at; i--) r->stage->funcs.at[i] = r->stage->funcs.at[i - 1];
  r->stage->funcs.at[at] = parts;
}
