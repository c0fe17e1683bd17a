/* gpu_join.c - stages that go through the same rows, one after the other: one launch, which has a row near when it needs it again.
 *
 *     for t { m = max over n of x[t,n];  y0[t] = m }               for t {
 *     for t { s = sum over n of exp(x[t,n] - y0[t]);  y1[t] = s }    m = ..;  y0[t] = m
 *     for t { for n { y[t,n] = exp(x[t,n] - y0[t]) / y1[t] } }  ->   s = .. - m;  y1[t] = s
 *                                                                    for n { y[t,n] = exp(x[t,n] - m) / s }
 *                                                                  }
 *
 * What a row of one stage gives the next ones is a number of its own, which all threads of the row's team have.  Rows must be
 * many, or so short that nobody would cut them: then each is a team's either way, and its sums keep their order. */
#include "passes/gpu_map.h"

enum { MOST_BUFS = 16, SHORT = 4096 };

typedef struct joining {
  pass_context *context;
  ir_arena *arena;
  ir_func *into;              /* the later stage's */
  ir_code *row, *next;        /* the loops whose iterations are a row: of the earlier stage, of the later one */
  IR_VEC(ir_code *) outer;    /* loops around them, of both by turns, theirs last */
  IR_VEC(const ir_code *) kept; /* what the earlier one stores once a row */
  IR_VEC(ir_var *) value;     /* of each: what it stores */
  bool fails;
} joining;

/* ---- which functions are of this kind -------------------------------------------------------------- */
static bool is_plain(const ir_stage *s) {
  return s->kind == IR_STAGE_COMPUTE && !strcmp(s->row, "loop") && s->funcs.count == 1 && !s->assembled && !s->detects &&
         !s->when.list && !s->reads.count && s->funcs.at[0]->kind == IR_FUNC_KERNEL && s->funcs.at[0]->bufs.count <= MOST_BUFS;
}

static ir_code *only_code(const ir_func *func) {
  ir_code *found = NULL;
  for (int i = 0; i < func->body.codes.count; i++) {
    ir_code *c = func->body.codes.at[i];
    if (c->kind == IR_COMMENT) continue;
    if (found || c->kind != IR_FOR || c->run != IR_RUN_PARALLEL) return NULL;
    found = c;
  }
  return found;
}

static bool same_range(const ir_code *x, const ir_code *y) {
  return gpu_starts_at_zero(x) && gpu_starts_at_zero(y) && gpu_steps_by_one(x) && gpu_steps_by_one(y) && gpu_is_size(x->hi) &&
         ir_expr_equal(x->hi, y->hi);
}

/* Both go through the same indices in the same order, down to rows of the earlier one that are more than a loop. */
static bool find_rows(joining *j, ir_code *x, ir_code *y) {
  while (x && y && same_range(x, y)) {
    IR_PUSH(j->arena, &j->outer, x);
    IR_PUSH(j->arena, &j->outer, y);
    j->row = x, j->next = y;
    x = gpu_only_loop(x);
    if (!x) return true;
    y = gpu_only_loop(y);
    if (!y || !gpu_is_independent(x) || !gpu_is_independent(y)) return false;
  }
  return false;
}

/* Of a row: lets, sums over what lies along them, elements that are stored by themselves, and numbers stored once. */
static bool row_fits(const joining *j, gpu_rows *r) {
  bool many = gpu_has_rows(r, 2 * j->context->profile->units);
  for (int i = 0; i < r->block->codes.count; i++) {
    const ir_code *c = r->block->codes.at[i];
    ir_loop_sums sums;
    if (c->kind == IR_LET || c->kind == IR_COMMENT || c->kind == IR_STORE) continue;
    bool entries = c->kind == IR_FOR && !gpu_is_size(c->hi); /* of a row: they are never cut */
    if (c->kind != IR_FOR || !gpu_steps_by_one(c) || (!entries && !gpu_starts_at_zero(c)) || !gpu_is_leaf(&c->body)) return false;
    if (!gpu_is_element_loop(c) && !(ir_loop_sums_of(j->arena, c, false, &sums) && sums.at.count)) return false;
    if (!gpu_strides_of(r, c).along_loop || (!many && !entries && !gpu_is_bounded(c, SHORT))) return false;
  }
  return true;
}

/* ---- what the earlier one gives the later one -------------------------------------------------------- */
static bool keep_stores(joining *j, const ir_block *row) {
  for (int i = 0; i < row->codes.count; i++) {
    const ir_code *c = row->codes.at[i];
    if (c->kind != IR_STORE) continue;
    if (c->combine != IR_OP_COUNT || c->atomic || c->cond || c->value->lanes > 1 || c->value->dtype != c->buf->dtype) return false;
    IR_PUSH(j->arena, &j->kept, c);
  }
  return j->kept.count > 0;
}

/* Nothing that one of them stores is stored by the other one, or read by the earlier one. */
static bool keeps_apart(const joining *j, const ir_block *later) {
  for (int i = 0; i < later->codes.count; i++) {
    const ir_code *c = later->codes.at[i];
    if (c->kind == IR_STORE && (ir_block_stores(&j->row->body, c->buf) || gpu_block_loads(&j->row->body, c->buf))) return false;
    if (!keeps_apart(j, &c->body) || !keeps_apart(j, &c->orelse)) return false;
  }
  return true;
}

/* The later one's expression in the earlier one's indices, with its numbers in place of loads. */
static ir_expr *moved(joining *j, ir_expr *e) {
  ir_expr *args[3];
  if (!e) return NULL;
  if (e->kind == IR_VAR)
    for (int i = 0; i + 1 < j->outer.count; i += 2)
      if (e->var == j->outer.at[i + 1]->var) return ir_var_ref(j->arena, j->outer.at[i]->var);
  if (!e->arg_count) return e;
  for (int i = 0; i < e->arg_count; i++) args[i] = moved(j, e->args[i]);
  ir_expr *copy = ir_copy_with(j->arena, e, args);
  if (e->kind != IR_LOAD) return copy;
  for (int i = 0; i < j->kept.count; i++)
    if (j->kept.at[i]->buf == e->buf && ir_expr_equal(j->kept.at[i]->offset, copy->args[0])) return ir_var_ref(j->arena, j->value.at[i]);
  j->fails = j->fails || ir_block_stores(&j->row->body, e->buf); /* another row's */
  return copy;
}

static void move_block(joining *j, const ir_block *from, ir_block *to) {
  for (int i = 0; i < from->codes.count; i++) {
    ir_code *c = IR_NEW(j->arena, ir_code);
    *c = *from->codes.at[i];
    c->lo = moved(j, c->lo), c->hi = moved(j, c->hi), c->step = moved(j, c->step), c->cond = moved(j, c->cond);
    c->value = moved(j, c->value), c->offset = moved(j, c->offset);
    c->body = c->orelse = (ir_block){{NULL, 0, 0}};
    move_block(j, &from->codes.at[i]->body, &c->body);
    move_block(j, &from->codes.at[i]->orelse, &c->orelse);
    IR_PUSH(j->arena, &to->codes, c);
  }
}

/* Its indices are the earlier one's from now on. */
static bool is_index_of_later(const joining *j, const ir_var *var) {
  for (int i = 0; i + 1 < j->outer.count; i += 2)
    if (j->outer.at[i + 1]->var == var) return true;
  return false;
}

/* Of two functions' variables with one name the earlier one's gets another. */
static void take_vars(joining *j, const ir_func *from) {
  int kept = 0;
  for (int i = 0; i < j->into->vars.count; i++)
    if (!is_index_of_later(j, j->into->vars.at[i])) j->into->vars.at[kept++] = j->into->vars.at[i];
  j->into->vars.count = kept;
  for (int i = 0; i < from->vars.count; i++) {
    ir_var *var = from->vars.at[i];
    const char *stem = var->name;
    for (int n = 2; ir_func_has_name(j->into, var->name); n++) var->name = ir_format_text(j->arena, "%s_%d", stem, n);
    IR_PUSH(j->arena, &j->into->vars, var);
  }
}

static bool is_set(const ir_block *block, const ir_var *var) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    if ((c->kind == IR_SET && c->var == var) || is_set(&c->body, var) || is_set(&c->orelse, var)) return true;
  }
  return false;
}

/* The earlier row, each number that it stores in a variable first, then the later one. */
static ir_block joined_rows(joining *j) {
  ir_block all = {{NULL, 0, 0}};
  ir_builder b = {j->arena, j->into, &all};
  for (int i = 0; i < j->row->body.codes.count; i++) {
    ir_code *c = j->row->body.codes.at[i];
    if (c->kind == IR_STORE) {
      bool named = c->value->kind == IR_VAR && !is_set(&j->row->body, c->value->var);
      ir_var *var = named ? c->value->var : ir_let(&b, "of_row", c->value->dtype, c->value);
      IR_PUSH(j->arena, &j->value, var);
      c->value = ir_var_ref(j->arena, var);
    }
    IR_PUSH(j->arena, &all.codes, c);
  }
  move_block(j, &j->next->body, &all);
  return all;
}

/* ---- joining ------------------------------------------------------------------------------------------- */
static void drop(ir_kernel *kernel, const ir_func *func) {
  int kept = 0;
  for (int i = 0; i < kernel->funcs.count; i++)
    if (kernel->funcs.at[i] != func) kernel->funcs.at[kept++] = kernel->funcs.at[i];
  kernel->funcs.count = kept;
}

static void put_together(joining *j, ir_stage *first, ir_stage *second, const ir_block *row) {
  ir_func *from = first->funcs.at[0];
  ir_block body = {{NULL, 0, 0}};
  for (int i = 0; i < from->body.codes.count; i++)
    if (from->body.codes.at[i]->kind == IR_COMMENT) IR_PUSH(j->arena, &body.codes, from->body.codes.at[i]);
  for (int i = 0; i < j->into->body.codes.count; i++)
    if (j->into->body.codes.at[i]->kind == IR_COMMENT) IR_PUSH(j->arena, &body.codes, j->into->body.codes.at[i]);
  IR_PUSH(j->arena, &body.codes, only_code(from));
  j->row->body = *row;
  gpu_finish(j->into, body);
  for (int i = 0; i < j->into->bufs.count; i++) {
    ir_buf *buf = j->into->bufs.at[i];
    if (buf->first > first->number) buf->first = first->number;
    if (buf->last >= 0 && buf->last < second->number) buf->last = second->number;
  }
  first->funcs.count = 0;
}

static bool join(pass_context *context, ir_kernel *kernel, ir_stage *first, ir_stage *second) {
  if (!is_plain(first) || !is_plain(second) || first->once != second->once) return false;
  joining j = {.context = context, .arena = context->arena, .into = second->funcs.at[0]};
  ir_func *from = first->funcs.at[0];
  if (!find_rows(&j, only_code(from), only_code(j.into))) return false;
  gpu_rows rows[] = {{.context = context, .kernel = kernel, .stage = first, .func = from, .loop = j.row, .block = &j.row->body},
                     {.context = context, .kernel = kernel, .stage = second, .func = j.into, .loop = j.next, .block = &j.next->body}};
  if (!row_fits(&j, &rows[0]) || !row_fits(&j, &rows[1])) return false;
  if (!keep_stores(&j, &j.row->body) || !keeps_apart(&j, &j.next->body)) return false;
  /* Whether all it reads of the earlier one is its own row's is seen on a trial. */
  joining trial = j;
  ir_block none = {{NULL, 0, 0}};
  for (int i = 0; i < trial.kept.count; i++) IR_PUSH(j.arena, &trial.value, j.row->var);
  move_block(&trial, &j.next->body, &none);
  if (trial.fails) return false;
  take_vars(&j, from);
  ir_block row = joined_rows(&j);
  put_together(&j, first, second, &row);
  drop(kernel, from);
  return true;
}

void gpu_join_rows(pass_context *context, ir_kernel *kernel) {
  for (int s = 0; s + 1 < kernel->stages.count; s++) (void)join(context, kernel, kernel->stages.at[s], kernel->stages.at[s + 1]);
}
