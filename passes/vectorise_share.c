/* vectorise_share.c - outer loops as one, which threads share.
 *
 *     for b in 0 .. B parallel            for b_h in 0 .. B*H parallel
 *       for h in 0 .. H                     b = b_h / H;  h = b_h % H
 *         for i, j { .. }                   for i, j { .. }
 *
 * One batch of many heads is work for every thread, and where batches are few, rows of a tile are
 * cut.  Two loops stay: rows and columns of a tile, or places of a row that may be too short to pay
 * for a division. */
#include "passes/vectorise.h"

enum { MOST_SHARED = 8 };

static bool is_size(const ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_size(e->args[i])) return false;
  return e->kind == IR_OP;
}

bool pass_vec_counts_all(const ir_code *code) {
  return code->kind == IR_FOR && code->lo->kind == IR_CONST && code->lo->i == 0 &&
         is_size(code->hi) && (!code->step || (code->step->kind == IR_CONST && code->step->i == 1));
}

/* The one thing in the block; NULL: there is none, or more. */
static ir_code *only(const ir_block *block) {
  return block->codes.count == 1 ? block->codes.at[0] : NULL;
}

static bool holds_loop(const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_FOR || code->kind == IR_WHILE || holds_loop(&code->body) ||
        holds_loop(&code->orelse))
      return true;
  }
  return false;
}

static const ir_expr *value_of(const ir_block *block, const ir_var *var) {
  const ir_expr *found = NULL;
  for (int i = 0; i < block->codes.count && !found; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_LET && code->var == var) return code->value;
    if (!(found = value_of(&code->body, var))) found = value_of(&code->orelse, var);
  }
  return found;
}

static bool uses(const ir_block *body, const ir_expr *e, const ir_var *var) {
  if (e->kind == IR_VAR && e->var == var) return true;
  const ir_expr *value = e->kind == IR_VAR ? value_of(body, e->var) : NULL;
  if (value && uses(body, value, var)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (uses(body, e->args[i], var)) return true;
  return false;
}

/* What is loaded in one iteration of the loop is loaded in the next one too. */
static bool expr_repeats(const ir_block *body, const ir_expr *e, const ir_var *var) {
  if (!e) return false;
  if (e->kind == IR_LOAD && !uses(body, e->args[0], var)) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (expr_repeats(body, e->args[i], var)) return true;
  return false;
}

static bool repeats(const ir_block *body, const ir_block *block, const ir_var *var) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    const ir_expr *const in[] = {code->lo, code->hi, code->cond, code->value, code->offset};
    for (int k = 0; k < IR_COUNT(in); k++)
      if (expr_repeats(body, in[k], var)) return true;
    if (repeats(body, &code->body, var) || repeats(body, &code->orelse, var)) return true;
  }
  return false;
}

/* Loops that stay: rows and columns of a tile; places of a row that may be too short to pay for a
 * division; none where a loop is inside and every iteration looks at memory of its own. */
static int kept(ir_code *const *loop, int count) {
  const ir_block *body = &loop[count - 1]->body;
  if (!holds_loop(body)) return 2;
  for (int i = 0; i < count; i++)
    if (repeats(body, body, loop[i]->var)) return 2;
  return 0;
}

static void set_value(ir_arena *arena, ir_block *block, ir_var *var, ir_expr *value) {
  ir_code *code = IR_NEW(arena, ir_code);
  code->kind = IR_LET;
  code->var = var;
  code->value = value;
  IR_PUSH(arena, &block->codes, code);
}

/* The values of so many loops, of their number in all together. */
static void set_values(ir_builder *b, ir_code *const *loop, int count, ir_expr *at) {
  for (int i = count - 1; i > 0; i--) {
    set_value(b->arena, b->block, loop[i]->var, ir_apply(b->arena, IR_OP_MOD, at, loop[i]->hi));
    at = ir_apply(b->arena, IR_OP_DIV, at, loop[i]->hi);
  }
  set_value(b->arena, b->block, loop[0]->var, at);
}

static ir_expr *all_of(ir_arena *a, ir_code *const *loop, int count, const char **name) {
  ir_expr *all = loop[0]->hi;
  *name = loop[0]->var->name;
  for (int i = 1; i < count; i++) {
    all = ir_apply(a, IR_OP_MUL, all, loop[i]->hi);
    *name = ir_format_text(a, "%s_%s", *name, loop[i]->var->name);
  }
  return all;
}

/* One loop in the place of the first `count`. */
static void write_shared(ir_builder *b, ir_code *const *loop, int count) {
  const char *name;
  ir_block *outer;
  ir_expr *all = all_of(b->arena, loop, count, &name);
  ir_var *at = ir_open_for(b, name, ir_int(b->arena, 0), all, IR_RUN_PARALLEL, &outer);
  set_values(b, loop, count, ir_var_ref(b->arena, at));
  for (int i = 0; i < loop[count - 1]->body.codes.count; i++)
    IR_PUSH(b->arena, &b->block->codes, loop[count - 1]->body.codes.at[i]);
  ir_close(b, outer);
}

/* ---- rows of a tile, where batches are few --------------------------------------------------- */
enum { LEAST_ROWS = 128 };

/* How many parts the rows of each batch come in: sizes alone decide. */
static ir_expr *parts_of(ir_arena *a, ir_expr *batches, ir_expr *rows, int wanted) {
  ir_expr *each =
      ir_apply(a, IR_OP_DIV, ir_int(a, wanted), ir_apply(a, IR_OP_MAX, batches, ir_int(a, 1)));
  ir_expr *most = ir_ceil_div(a, rows, LEAST_ROWS);
  return ir_apply(a, IR_OP_MAX, ir_apply(a, IR_OP_MIN, most, each), ir_int(a, 1));
}

/*     for b in 0 .. B parallel            for b_part in 0 .. B*parts parallel
 *       for i in 0 .. I                     b = b_part / parts;  first = b_part % parts * step
 *         for j { .. }                      for i in first .. min(first + step, I), j { .. } */
static void write_cut(ir_builder *b, ir_code *const *loop, int count, int wanted) {
  ir_arena *a = b->arena;
  const char *name;
  ir_block *outer;
  ir_code *rows = IR_NEW(a, ir_code);
  *rows = *loop[count];
  ir_expr *batches = all_of(a, loop, count, &name), *parts = parts_of(a, batches, rows->hi, wanted);
  ir_var *at = ir_open_for(b, ir_format_text(a, "%s_part", name), ir_int(a, 0),
                           ir_apply(a, IR_OP_MUL, batches, parts), IR_RUN_PARALLEL, &outer);
  ir_expr *number = ir_var_ref(a, at), *count_of = ir_var_ref(a, ir_let(b, "parts", IR_I64, parts));
  set_values(b, loop, count, ir_apply(a, IR_OP_DIV, number, count_of));
  ir_expr *up = ir_apply(a, IR_OP_ADD, rows->hi, ir_apply(a, IR_OP_SUB, count_of, ir_int(a, 1)));
  ir_expr *step = ir_var_ref(a, ir_let(b, "each", IR_I64, ir_apply(a, IR_OP_DIV, up, count_of)));
  ir_expr *first =
      ir_var_ref(a, ir_let(b, "first", IR_I64,
                           ir_apply(a, IR_OP_MUL, ir_apply(a, IR_OP_MOD, number, count_of), step)));
  ir_expr *end =
      ir_var_ref(a, ir_let(b, "end", IR_I64,
                           ir_apply(a, IR_OP_MIN, ir_apply(a, IR_OP_ADD, first, step), rows->hi)));
  rows->lo = first;
  rows->hi = end;
  IR_PUSH(a, &b->block->codes, rows);
  ir_close(b, outer);
}

/* A tile of sums, with as few batches around it as that, and rows for more than one part. */
static bool wants_parts(ir_code *const *loop, int count, int wanted) {
  int64_t batches = 1;
  const ir_expr *rows = loop[count]->hi;
  if (!holds_loop(&loop[count + 1]->body) || (rows->kind == IR_CONST && rows->i <= LEAST_ROWS))
    return false;
  for (int i = 0; i < count; i++)
    if (loop[i]->hi->kind == IR_CONST) batches *= loop[i]->hi->i;
  return batches < wanted;
}

void pass_vec_share(ir_arena *arena, ir_func *func, int units) {
  ir_block *body = &func->body, shared = {0};
  ir_code *loop[MOST_SHARED];
  int count = 0;
  ir_code *code = body->codes.count ? body->codes.at[body->codes.count - 1] : NULL;
  if (!code || code->kind != IR_FOR || code->run != IR_RUN_PARALLEL) return;
  for (; code && count < MOST_SHARED && pass_vec_counts_all(code) &&
         (!count || code->run == IR_RUN_SEQUENTIAL);
       code = only(&code->body))
    loop[count++] = code;
  int stay = count ? kept(loop, count) : 0;
  count -= stay;
  bool cut = count >= 1 && stay == 2 && wants_parts(loop, count, 2 * units);
  if (count < 2 && !cut) return;
  ir_builder b = {arena, func, &shared};
  if (cut)
    write_cut(&b, loop, count, 2 * units);
  else
    write_shared(&b, loop, count);
  body->codes.at[body->codes.count - 1] = shared.codes.at[0];
}
