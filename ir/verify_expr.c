/* verify_expr.c - the typing rules of expressions.
 *
 * Operands agree before an op is applied: nothing is converted silently.  In the ein dialect all is
 * scalar; in functions a scalar beside a vector stands for each of its lanes. */
#include "ir/verify.h"

static const char *text_of(const ir_checker *c, const ir_expr *e) {
  ir_text text = ir_text_new(c->arena);
  ir_print_expr(e, &text);
  if (text.length > 60) memcpy(text.data + 57, "...", 4);
  return text.data;
}

static ir_span span_of(const ir_checker *c, const ir_expr *e) {
  return e->span.file ? e->span : c->span;
}

static void fault_at(ir_checker *c, const ir_expr *e, const char *what) {
  ir_fault(c, span_of(c, e), "`%s` %s", text_of(c, e), what);
}

/* ---- ops ----------------------------------------------------------------------------------- */
static void check_same_dtype(ir_checker *c, const ir_expr *e, int from) {
  for (int i = from + 1; i < e->arg_count; i++)
    if (e->args[i]->dtype != e->args[from]->dtype)
      ir_fault(c, span_of(c, e), "the operands of `%s` are %s and %s; one needs a cast",
               text_of(c, e), ir_dtype_text(e->args[from]->dtype),
               ir_dtype_text(e->args[i]->dtype));
}

static void check_traits(ir_checker *c, const ir_expr *e, const ir_op_row *row) {
  for (int i = 0; i < e->arg_count; i++) {
    if ((row->traits & IR_FLOAT_ONLY) && !ir_dtype_is_float(e->args[i]->dtype))
      ir_fault(c, span_of(c, e), "`%s` is for floats, its operand is %s", row->mnemonic,
               ir_dtype_text(e->args[i]->dtype));
    if ((row->traits & IR_BOOL_ONLY) && e->args[i]->dtype != IR_B1)
      ir_fault(c, span_of(c, e), "`%s` is for b1, its operand is %s", row->mnemonic,
               ir_dtype_text(e->args[i]->dtype));
    if ((row->traits & IR_WORD_ONLY) && e->args[i]->dtype != IR_I64)
      ir_fault(c, span_of(c, e), "`%s` is for i64, its operand is %s", row->mnemonic,
               ir_dtype_text(e->args[i]->dtype));
  }
}

static void check_lanes(ir_checker *c, const ir_expr *e) {
  int most = 1;
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i]->lanes > most) most = e->args[i]->lanes;
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i]->lanes != 1 && e->args[i]->lanes != most)
      fault_at(c, e, "has vectors of different lengths");
  if (e->lanes != most) fault_at(c, e, "does not have the lanes of its operands");
}

static void check_op(ir_checker *c, const ir_expr *e) {
  if ((unsigned)e->op >= IR_OP_COUNT || e->arg_count != ir_op_rows[e->op].arity) {
    ir_fault(c, span_of(c, e), "an op that does not exist, or with a wrong number of operands");
    return;
  }
  const ir_op_row *row = &ir_op_rows[e->op];
  bool selects = row->result == IR_RESULT_RIGHT;
  ir_dtype result = row->result == IR_RESULT_BOOL ? IR_B1 : e->args[selects]->dtype;
  if (selects && e->args[0]->dtype != IR_B1)
    fault_at(c, e->args[0], "is a condition and must be b1");
  check_same_dtype(c, e, selects);
  check_traits(c, e, row);
  check_lanes(c, e);
  if (e->dtype != result)
    ir_fault(c, span_of(c, e), "`%s` is marked %s but gives %s", text_of(c, e),
             ir_dtype_text(e->dtype), ir_dtype_text(result));
}

/* ---- indices ------------------------------------------------------------------------------- */
/* In scope: bound here, free in the statement, or the segment of one that is. */
static bool in_scope(const ir_checker *c, const ir_index *index) {
  if (c->any_index) return true;
  for (int i = 0; i < c->bound.count; i++) {
    const ir_index *at = c->bound.at[i];
    for (int hops = 0; at && hops <= c->kernel->indices.count; hops++, at = at->segment)
      if (at == index) return true;
  }
  return false;
}

static void check_index(ir_checker *c, const ir_expr *e) {
  if (!c->kernel || !ir_owns(c, e->index))
    ir_fault(c, span_of(c, e), "an index that the kernel does not have");
  else if (c->scope)
    fault_at(c, e, "is an index; functions have locals only");
  else if (!in_scope(c, e->index))
    fault_at(c, e, "is an index that nothing binds here");
}

static bool check_bound(ir_checker *c, const ir_expr *e) {
  for (int i = 0; i < e->bound_count; i++)
    if (!c->kernel || !ir_owns(c, e->bound[i])) {
      ir_fault(c, span_of(c, e), "an index that the kernel does not have");
      return false;
    }
  return true;
}

/* ---- reductions ---------------------------------------------------------------------------- */
static ir_dtype reduced_dtype(const ir_expr *e) {
  if (e->reducer == IR_RED_ARGMAX) return IR_I64;
  bool logical = ir_op_rows[ir_reducer_rows[e->reducer].combine].result == IR_RESULT_BOOL;
  return logical ? IR_B1 : e->args[0]->dtype;
}

static void check_reduce_types(ir_checker *c, const ir_expr *e) {
  bool logical = e->reducer == IR_RED_ANY || e->reducer == IR_RED_ALL;
  if (logical && e->args[0]->dtype != IR_B1) fault_at(c, e, "reduces b1 values only");
  if (e->reducer == IR_RED_ARGMAX && e->bound_count != 1) fault_at(c, e, "has more than one index");
  if (e->dtype != reduced_dtype(e)) fault_at(c, e, "does not have the dtype of what it reduces");
  if (e->lanes != 1) fault_at(c, e, "is a reduction and gives a scalar");
}

static void check_reduce(ir_checker *c, const ir_expr *e) {
  if ((unsigned)e->reducer >= IR_RED_COUNT || e->arg_count != 1 || !check_bound(c, e)) {
    ir_fault(c, c->span, "a reducer that does not exist");
    return;
  }
  if (c->scope ? e->bound_count != 0 : e->bound_count == 0)
    fault_at(c, e,
             c->scope ? "reduces over an index; functions have none" : "reduces over nothing");
  int depth = c->bound.count;
  for (int i = 0; i < e->bound_count; i++) {
    for (int k = 0; k < c->bound.count; k++)
      if (c->bound.at[k] == e->bound[i]) fault_at(c, e, "binds an index that is bound already");
    IR_PUSH(c->arena, &c->bound, e->bound[i]);
  }
  ir_check_expr(c, e->args[0]);
  c->bound.count = depth;
  check_reduce_types(c, e);
}

static void check_row_op(ir_checker *c, const ir_expr *e) {
  if (e->arg_count != 1 || e->bound_count != 1 || !check_bound(c, e)) {
    ir_fault(c, c->span, "softmax and topk have one operand and one index");
    return;
  }
  ir_check_expr(c, e->args[0]);
  if (c->scope)
    fault_at(c, e, "does not stand in functions");
  else if (!in_scope(c, e->bound[0]))
    fault_at(c, e, "goes along an index that nothing binds here");
  if (e->kind == IR_SOFTMAX && !ir_dtype_is_float(e->args[0]->dtype))
    fault_at(c, e, "is for floats");
  if (e->kind == IR_TOPK && e->i < 1) fault_at(c, e, "keeps at least one value");
  if (e->dtype != e->args[0]->dtype) fault_at(c, e, "does not have the dtype of its operand");
}

/* ---- memory -------------------------------------------------------------------------------- */
static void check_access(ir_checker *c, const ir_expr *e) {
  if (!c->kernel || !ir_owns(c, e->tensor)) {
    ir_fault(c, span_of(c, e), "a tensor that the kernel does not have");
    return;
  }
  if (c->scope) fault_at(c, e, "is a tensor; functions have buffers only");
  if (e->arg_count != e->tensor->rank) {
    ir_fault(c, span_of(c, e), "`%s` has %d dimensions and %d subscripts", e->tensor->name,
             e->tensor->rank, e->arg_count);
    return;
  }
  for (int i = 0; i < e->arg_count; i++) ir_check_dtype(c, e->args[i], IR_I64, "a subscript");
  ir_dtype dtype = e->tensor->dtype ? e->tensor->dtype : IR_B1;
  if (e->dtype != dtype) fault_at(c, e, "does not have the dtype of its tensor");
}

static void check_stored(ir_checker *c, const ir_expr *e) {
  if (c->scope) fault_at(c, e, "is about a tensor; functions have buffers only");
  if (e->arg_count != 1 || e->args[0]->kind != IR_ACCESS)
    ir_fault(c, span_of(c, e), "`stored` asks about one access of a tensor");
  else
    ir_check_expr(c, e->args[0]);
  if (e->dtype != IR_B1) fault_at(c, e, "is a condition and must be b1");
}

static bool is_visible_buf(const ir_checker *c, const ir_buf *buf) {
  if (!c->scope) return false;
  for (int i = 0; i < c->scope->bufs.count; i++)
    if (c->scope->bufs.at[i] == buf) return true;
  return false;
}

static bool is_visible_var(const ir_checker *c, const ir_var *var) {
  if (!c->scope) return false;
  for (int i = c->scope->vars.count - 1; i >= 0; i--)
    if (c->scope->vars.at[i] == var) return true;
  return false;
}

static void check_load(ir_checker *c, const ir_expr *e) {
  if (!is_visible_buf(c, e->buf)) {
    ir_fault(c, span_of(c, e), "a load from a buffer that the function does not declare");
    return;
  }
  if (e->arg_count < 1 || e->arg_count > 2) {
    ir_fault(c, span_of(c, e), "a load has an offset and at most a mask");
    return;
  }
  ir_check_dtype(c, e->args[0], IR_I64, "an offset");
  if (e->args[0]->lanes != 1 && e->args[0]->lanes != e->lanes)
    fault_at(c, e, "has as many offsets as lanes, or one");
  if (e->arg_count == 2) {
    ir_check_dtype(c, e->args[1], IR_B1, "a mask");
    if (e->args[1]->lanes != 1 && e->args[1]->lanes != e->lanes)
      fault_at(c, e, "has a mask of other lanes");
  }
  if (e->dtype != e->buf->dtype) fault_at(c, e, "does not have the dtype of its buffer");
}

static void check_var(ir_checker *c, const ir_expr *e) {
  if (!is_visible_var(c, e->var))
    ir_fault(c, span_of(c, e), "a local is used outside its block");
  else if (e->dtype != e->var->dtype || e->lanes != e->var->lanes)
    fault_at(c, e, "does not have the type of its local");
}

/* ---- any node ------------------------------------------------------------------------------ */
static void check_leaf_lanes(ir_checker *c, const ir_expr *e) {
  if (e->lanes < 1)
    ir_fault(c, c->span, "an expression without lanes");
  else if (e->lanes != 1 && !c->scope)
    fault_at(c, e, "is a vector; only functions have them");
}

static void check_dim(ir_checker *c, const ir_expr *e) {
  if (!e->dim || ir_map_find(&c->dims, e->dim, -1) < 0)
    ir_fault(c, c->span, "a dim that the program does not have");
  else if (e->dtype != IR_I64)
    fault_at(c, e, "is a size and must be i64");
}

static void check_cast(ir_checker *c, const ir_expr *e) {
  if (e->arg_count != 1) {
    ir_fault(c, c->span, "a cast has one operand");
    return;
  }
  ir_check_expr(c, e->args[0]);
  if (!e->args[0]->dtype) fault_at(c, e, "casts something without a dtype");
  if (e->args[0]->lanes != 1 && e->args[0]->lanes != e->lanes)
    fault_at(c, e, "changes the lanes of a vector");
}

static void check_args(ir_checker *c, const ir_expr *e) {
  for (int i = 0; i < e->arg_count; i++) ir_check_expr(c, e->args[i]);
}

void ir_check_expr(ir_checker *c, const ir_expr *e) {
  if (c->faults >= IR_MOST_FAULTS) return;
  if (!e || e->dtype <= IR_NONE || e->dtype >= IR_DTYPE_COUNT) {
    ir_fault(c, e ? span_of(c, e) : c->span, "an expression that is missing or has no dtype");
    return;
  }
  check_leaf_lanes(c, e);
  switch (e->kind) {
  case IR_CONST:
    if (!ir_dtype_is_float(e->dtype) && ir_dtype_wrap(e->dtype, e->i) != e->i)
      fault_at(c, e, "does not fit its dtype");
    break;
  case IR_DIM: check_dim(c, e); break;
  case IR_INDEX: check_index(c, e); break;
  case IR_ACCESS: check_access(c, e); break;
  case IR_OP:
    check_args(c, e);
    if (c->faults < IR_MOST_FAULTS) check_op(c, e);
    break;
  case IR_CAST: check_cast(c, e); break;
  case IR_REDUCE: check_reduce(c, e); break;
  case IR_SOFTMAX:
  case IR_TOPK: check_row_op(c, e); break;
  case IR_STORED: check_stored(c, e); break;
  case IR_VAR: check_var(c, e); break;
  case IR_LOAD: check_load(c, e); break;
  }
}

void ir_check_dtype(ir_checker *c, const ir_expr *e, ir_dtype dtype, const char *what) {
  int before = c->faults;
  ir_check_expr(c, e);
  if (c->faults == before && e->dtype != dtype)
    ir_fault(c, span_of(c, e), "`%s` is %s and must be %s, not %s", text_of(c, e), what,
             ir_dtype_text(dtype), ir_dtype_text(e->dtype));
}

static bool is_size_op(ir_op op) {
  return op == IR_OP_ADD || op == IR_OP_SUB || op == IR_OP_MUL || op == IR_OP_DIV ||
         op == IR_OP_MOD || op == IR_OP_MIN || op == IR_OP_MAX;
}

static bool is_size(const ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM) return true;
  if (e->kind != IR_OP || !is_size_op(e->op)) return false;
  return is_size(e->args[0]) && is_size(e->args[1]);
}

void ir_check_size(ir_checker *c, const ir_expr *e, const char *what) {
  int before = c->faults;
  ir_check_dtype(c, e, IR_I64, what);
  if (c->faults == before && !is_size(e))
    ir_fault(c, span_of(c, e), "`%s` is %s and may use numbers and dims only", text_of(c, e), what);
}
