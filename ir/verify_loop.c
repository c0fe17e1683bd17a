/* verify_loop.c - the rules of functions: scopes of locals, buffers, types of what is stored. */
#include "ir/verify.h"

static void check_block(ir_checker *c, const ir_block *block, bool inside_parallel);

/* ---- values -------------------------------------------------------------------------------- */
static void check_scalar(ir_checker *c, const ir_expr *e, ir_dtype dtype, const char *what) {
  int before = c->faults;
  ir_check_dtype(c, e, dtype, what);
  if (c->faults == before && e->lanes != 1)
    ir_fault(c, c->span, "%s is a scalar, not a vector", what);
}

static void check_assigned(ir_checker *c, const ir_var *var, const ir_expr *value) {
  int before = c->faults;
  ir_check_dtype(c, value, var->dtype, "the value of a local");
  if (c->faults == before && value->lanes != 1 && value->lanes != var->lanes)
    ir_fault(c, c->span, "the local `%s` has %d lanes, its value %d", var->name, var->lanes,
             value->lanes);
}

static void declare(ir_checker *c, const ir_var *var) {
  if (!var || var->dtype <= IR_NONE || var->dtype >= IR_DTYPE_COUNT || var->lanes < 1) {
    ir_fault(c, c->span, "a local without a type");
    return;
  }
  for (int i = 0; i < c->scope->vars.count; i++)
    if (c->scope->vars.at[i] == var)
      ir_fault(c, c->span, "the local `%s` is declared inside itself", var->name);
  IR_PUSH(c->arena, &c->scope->vars, var);
}

static bool var_is_visible(const ir_checker *c, const ir_var *var) {
  for (int i = c->scope->vars.count - 1; i >= 0; i--)
    if (c->scope->vars.at[i] == var) return true;
  return false;
}

static bool buf_is_visible(const ir_checker *c, const ir_buf *buf) {
  for (int i = 0; i < c->scope->bufs.count; i++)
    if (c->scope->bufs.at[i] == buf) return true;
  return false;
}

/* ---- statements ---------------------------------------------------------------------------- */
static void check_nested(ir_checker *c, const ir_block *block, bool inside_parallel) {
  int vars = c->scope->vars.count, bufs = c->scope->bufs.count;
  check_block(c, block, inside_parallel);
  c->scope->vars.count = vars;
  c->scope->bufs.count = bufs;
}

/* An unrolled loop may have a width too: so many iterations at a time. */
static void check_team(ir_checker *c, const ir_code *code) {
  bool team = code->run == IR_RUN_TEAM, lanes = code->run == IR_RUN_LANES;
  bool columns = code->run == IR_RUN_COLUMNS, shares = code->run == IR_RUN_SHARES;
  if (!team && !lanes && !columns && !shares && code->run != IR_RUN_UNROLL && code->width) ir_fault(c, c->span, "a loop that is no team's has a width");
  if ((team || lanes || columns || shares) && (code->width < 1 || code->width > 1024 || (code->width & (code->width - 1))))
    ir_fault(c, c->span, "the width of a team, of lanes, of columns or of shares is a power of two up to 1024");
  if (columns && !ir_shape_of_columns(code).shares)
    ir_fault(c, c->span, "inside columns are loops of shares of one width, none inside another, and both together are the work of 32 to 4096 threads");
  if (shares && !ir_shares_fit(c->arena, code))
    ir_fault(c, c->span, "shares combine values in arrays, or in variables, and depend on one another in no other way");
  double step = 1;
  ir_loop_sums sums;
  if (lanes && !ir_loop_sums_of(c->arena, code, true, &sums))
    ir_fault(c, c->span, "lanes share a loop whose iterations sum values and store them, and depend on one another in no other way");
  if (lanes && code->step && (!ir_const_value(code->step, &step) || step != 1))
    ir_fault(c, c->span, "lanes share a loop that steps by one");
}

static void check_for(ir_checker *c, const ir_code *code, bool inside_parallel) {
  double step = 1;
  bool parallel = code->run == IR_RUN_PARALLEL;
  if ((unsigned)code->run > IR_RUN_SHARES) ir_fault(c, c->span, "a loop runs in no known way");
  if (parallel && inside_parallel) ir_fault(c, c->span, "a parallel loop inside another");
  check_team(c, code);
  check_scalar(c, code->lo, IR_I64, "the start of a loop");
  check_scalar(c, code->hi, IR_I64, "the end of a loop");
  if (code->step) check_scalar(c, code->step, IR_I64, "the step of a loop");
  if (ir_const_value(code->step, &step) && step < 1)
    ir_fault(c, c->span, "the step of a loop is at least 1");
  if (!code->var || code->var->dtype != IR_I64 || code->var->lanes != 1) {
    ir_fault(c, c->span, "the variable of a loop is an i64 scalar");
    return;
  }
  int vars = c->scope->vars.count;
  declare(c, code->var);
  check_nested(c, &code->body, inside_parallel || parallel);
  c->scope->vars.count = vars;
}

static void check_store(ir_checker *c, const ir_code *code) {
  if (!buf_is_visible(c, code->buf)) {
    ir_fault(c, c->span, "a store to a buffer that the function does not declare");
    return;
  }
  int before = c->faults;
  ir_check_dtype(c, code->offset, IR_I64, "an offset");
  ir_check_dtype(c, code->value, code->buf->dtype, "a stored value");
  if (code->cond) ir_check_dtype(c, code->cond, IR_B1, "a mask");
  if (c->faults != before) return;
  int lanes = code->value->lanes > code->offset->lanes ? code->value->lanes : code->offset->lanes;
  if (code->offset->lanes != 1 && code->offset->lanes != lanes)
    ir_fault(c, c->span, "a store has one offset, or as many as lanes");
  if (code->cond && code->cond->lanes != 1 && code->cond->lanes != lanes)
    ir_fault(c, c->span, "a mask has as many lanes as the value");
  if ((unsigned)code->combine > IR_OP_COUNT ||
      (code->combine != IR_OP_COUNT && ir_op_rows[code->combine].arity != 2))
    ir_fault(c, c->span, "a store combines with an op of two operands");
  if (code->compressed && (!code->cond || code->cond->lanes != lanes || lanes < 2 ||
                           code->offset->lanes != 1 || code->combine != IR_OP_COUNT))
    ir_fault(c, c->span, "a compressed store has one offset and a mask of as many lanes as values");
  if (code->atomic && code->combine == IR_OP_COUNT)
    ir_fault(c, c->span, "an atomic store combines values");
}

static void check_prefetch(ir_checker *c, const ir_code *code) {
  if (!buf_is_visible(c, code->buf))
    ir_fault(c, c->span, "a prefetch from a buffer that the function does not declare");
  else
    check_scalar(c, code->offset, IR_I64, "an offset");
}

static void check_local(ir_checker *c, const ir_buf *buf) {
  double count = 0;
  if (!buf || buf->kind != IR_BUF_LOCAL || buf->dtype <= IR_NONE || buf->dtype >= IR_DTYPE_COUNT ||
      !ir_const_value(buf->count, &count) || count < 1) {
    ir_fault(c, c->span, "a local buffer has a dtype and a constant number of elements");
    return;
  }
  IR_PUSH(c->arena, &c->scope->bufs, buf);
}

static void check_let(ir_checker *c, const ir_code *code) {
  int before = c->faults;
  if (code->value) ir_check_expr(c, code->value);
  declare(c, code->var);
  if (code->value && c->faults == before) check_assigned(c, code->var, code->value);
}

static void check_set(ir_checker *c, const ir_code *code) {
  if (!code->var || !var_is_visible(c, code->var))
    ir_fault(c, c->span, "a local is set outside its block");
  else
    check_assigned(c, code->var, code->value);
}

static void check_code(ir_checker *c, const ir_code *code, bool inside_parallel) {
  switch (code->kind) {
  case IR_FOR: check_for(c, code, inside_parallel); break;
  case IR_WHILE:
    check_scalar(c, code->cond, IR_B1, "the condition of a loop");
    check_nested(c, &code->body, inside_parallel);
    break;
  case IR_IF:
    check_scalar(c, code->cond, IR_B1, "the condition of an if");
    check_nested(c, &code->body, inside_parallel);
    check_nested(c, &code->orelse, inside_parallel);
    break;
  case IR_LET: check_let(c, code); break;
  case IR_SET: check_set(c, code); break;
  case IR_LOCAL: check_local(c, code->buf); break;
  case IR_STORE: check_store(c, code); break;
  case IR_PREFETCH: check_prefetch(c, code); break;
  case IR_BARRIER:
  case IR_COMMENT: break;
  }
}

static void check_block(ir_checker *c, const ir_block *block, bool inside_parallel) {
  for (int i = 0; i < block->codes.count && c->faults < IR_MOST_FAULTS; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->span.file) c->span = code->span;
    check_code(c, code, inside_parallel);
  }
}

/* ---- functions ----------------------------------------------------------------------------- */
static bool has_array(const ir_level *l, const ir_buf *buf) {
  const ir_level_row *row = &ir_level_rows[l->kind];
  if (buf->kind == IR_BUF_CRD) return row->crd != IR_ARRAY_NONE;
  return l->kind == IR_LEVEL_PACKED ? l->has_pos : row->pos != IR_ARRAY_NONE;
}

static void check_level(ir_checker *c, const ir_buf *buf) {
  const ir_tensor *model = buf->tensor;
  while (model->like && !model->format) model = model->like;
  const ir_format *f = model->format;
  if (!ir_dtype_is_int(buf->dtype))
    ir_fault(c, c->span, "`@%s` holds positions and must be integers", buf->name);
  else if (ir_dtype_bytes(buf->dtype) > 1 && buf->dtype != ir_index_dtype(c->kernel, buf->tensor))
    ir_fault(c, c->span, "`@%s` holds positions, which are %s here", buf->name,
             ir_dtype_text(ir_index_dtype(c->kernel, buf->tensor)));
  if (buf->level < 0 || buf->level >= (f ? f->level_count : IR_MAX_LEVELS))
    ir_fault(c, c->span, "`@%s` belongs to a level that its tensor's format does not have",
             buf->name);
  else if (f && !has_array(&f->level[buf->level], buf))
    ir_fault(c, c->span, "`@%s`: level %d of `%s` has no such array", buf->name, buf->level,
             buf->tensor->name);
}

static void check_outside_buf(ir_checker *c, const ir_buf *buf) {
  if (buf->dtype <= IR_NONE || buf->dtype >= IR_DTYPE_COUNT) {
    ir_fault(c, c->span, "`@%s` has no dtype", buf->name);
    return;
  }
  bool of_tensor = buf->kind == IR_BUF_VALS || buf->kind == IR_BUF_POS || buf->kind == IR_BUF_CRD;
  if (buf->count) ir_check_size(c, buf->count, "the size of a buffer");
  if (buf->kind == IR_BUF_LOCAL)
    ir_fault(c, c->span, "`@%s` is local and is declared in the body", buf->name);
  if (buf->kind == IR_BUF_WORKSPACE && !ir_owns(c, buf))
    ir_fault(c, c->span, "`@%s` is no workspace of the kernel", buf->name);
  if (of_tensor && (!buf->tensor || !ir_owns(c, buf->tensor)))
    ir_fault(c, c->span, "`@%s` is an array of a tensor that the kernel does not have", buf->name);
  else if (of_tensor && buf->kind != IR_BUF_VALS)
    check_level(c, buf);
  else if (of_tensor && buf->dtype != buf->tensor->dtype)
    ir_fault(c, c->span, "`@%s` does not have the dtype of its tensor", buf->name);
}

static bool is_cheap(const ir_code *code) {
  return code->kind == IR_LET || code->kind == IR_COMMENT;
}

/* Sequential, or one parallel loop after lets that are cheap to repeat. */
static void check_shape(ir_checker *c, const ir_func *func) {
  int parallel = 0, others = 0;
  for (int i = 0; i < func->body.codes.count; i++) {
    const ir_code *code = func->body.codes.at[i];
    if (code->kind == IR_FOR && code->run == IR_RUN_PARALLEL)
      parallel++;
    else
      others += !is_cheap(code);
  }
  if (parallel > 1 || (parallel && others))
    ir_fault(c, func->span, "a body is sequential, or one parallel loop after `let`s");
}

static void check_result(ir_checker *c, const ir_func *func) {
  bool fragment = func->kind == IR_FUNC_FRAGMENT;
  if (!fragment && (func->result || func->params.count))
    ir_fault(c, func->span, "only fragments have parameters and a result");
  if (func->result) ir_check_expr(c, func->result);
}

static void check_func(ir_checker *c, const ir_func *func) {
  ir_scope scope = {0};
  c->scope = &scope;
  c->bound.count = 0;
  c->where = ir_format_text(c->arena, "function `%s`", func->name);
  c->span = func->span;
  if (!ir_table_add(c->arena, &c->functions, func->name, c))
    ir_fault(c, func->span, "two functions of the program have this name");
  for (int i = 0; i < func->bufs.count; i++) {
    check_outside_buf(c, func->bufs.at[i]);
    IR_PUSH(c->arena, &scope.bufs, func->bufs.at[i]);
  }
  for (int i = 0; i < func->params.count; i++) declare(c, func->params.at[i]);
  check_shape(c, func);
  check_block(c, &func->body, false);
  check_result(c, func);
  c->scope = NULL;
}

void ir_check_funcs(ir_checker *c) {
  for (int i = 0; i < c->kernel->funcs.count && c->faults < IR_MOST_FAULTS; i++)
    check_func(c, c->kernel->funcs.at[i]);
}
