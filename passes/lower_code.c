/* lower_code.c - offsets, conditions, loads, buffers and functions, as every step of `lower` writes
 * them.
 *
 * Offsets are i64 and folded as they are built.  Conditions are b1 expressions where NULL is true,
 * so that what is certain leaves no trace in the code. */
#include <math.h>

#include "passes/lower.h"
#include "passes/stage.h"

/* ---- arithmetic ------------------------------------------------------------------------------ */
ir_expr *pass_code_int(lower_state *s, int64_t value) { return ir_int(s->arena, value); }

ir_expr *pass_code_op(lower_state *s, ir_op op, ir_expr *x, ir_expr *y) {
  return ir_apply(s->arena, op, x, y);
}

ir_expr *pass_code_add(lower_state *s, ir_expr *x, ir_expr *y) {
  return ir_apply(s->arena, IR_OP_ADD, x, y);
}

ir_expr *pass_code_sub(lower_state *s, ir_expr *x, ir_expr *y) {
  return ir_apply(s->arena, IR_OP_SUB, x, y);
}

ir_expr *pass_code_mul(lower_state *s, ir_expr *x, ir_expr *y) {
  return ir_apply(s->arena, IR_OP_MUL, x, y);
}

/* ---- conditions ------------------------------------------------------------------------------ */
ir_expr *pass_code_bool(lower_state *s, bool value) { return ir_const_i(s->arena, IR_B1, value); }

static bool is_bool(const ir_expr *e, bool value) {
  return e && e->kind == IR_CONST && e->dtype == IR_B1 && (e->i != 0) == value;
}

bool pass_code_is_false(const ir_expr *condition) { return is_bool(condition, false); }

ir_expr *pass_code_and(lower_state *s, ir_expr *x, ir_expr *y) {
  if (!x || is_bool(x, true) || is_bool(y, false)) return is_bool(y, true) ? NULL : y;
  if (!y || is_bool(y, true) || is_bool(x, false) || ir_expr_equal(x, y)) return x;
  return ir_apply(s->arena, IR_OP_AND, x, y);
}

ir_expr *pass_code_or(lower_state *s, ir_expr *x, ir_expr *y) {
  if (!x || !y || is_bool(x, true) || is_bool(y, true)) return NULL;
  if (is_bool(x, false) || ir_expr_equal(x, y)) return y;
  return is_bool(y, false) ? x : ir_apply(s->arena, IR_OP_OR, x, y);
}

ir_expr *pass_code_where(lower_state *s, ir_expr *condition, ir_expr *x, ir_expr *y) {
  if (!condition || is_bool(condition, true)) return x;
  return is_bool(condition, false) ? y : ir_apply3(s->arena, IR_OP_WHERE, condition, x, y);
}

/* ---- values ---------------------------------------------------------------------------------- */
ir_expr *pass_code_cast(lower_state *s, ir_dtype t, ir_expr *x) {
  if (x->dtype == t) return x;
  double value;
  if (t == IR_B1) {
    ir_expr *zero = ir_dtype_is_float(x->dtype) ? ir_const_f(s->arena, x->dtype, 0)
                                                : ir_const_i(s->arena, x->dtype, 0);
    return ir_apply(s->arena, IR_OP_NE, x, zero);
  }
  if (ir_const_value(x, &value)) {
    if (!ir_dtype_is_float(t) && !ir_dtype_is_float(x->dtype))
      return ir_const_i(s->arena, t, ir_dtype_wrap(t, x->i));
    if (ir_dtype_is_float(t)) return ir_const_f(s->arena, t, ir_dtype_round(t, value));
  }
  return ir_cast(s->arena, t, x);
}

ir_expr *pass_code_ref(lower_state *s, ir_var *var) { return ir_var_ref(s->arena, var); }

ir_expr *pass_code_let(lower_state *s, const char *name, ir_expr *value) {
  return ir_var_ref(s->arena, ir_let(&s->b, name, value->dtype, value));
}

ir_expr *pass_code_load(lower_state *s, ir_buf *buf, ir_expr *offset, ir_expr *mask) {
  if (buf->kind != IR_BUF_LOCAL) ir_func_use(s->b.func, buf);
  ir_expr *load = ir_load(s->arena, buf, offset);
  if (mask) {
    load->args[1] = mask;
    load->arg_count = 2;
  }
  return load;
}

ir_expr *pass_code_load_int(lower_state *s, ir_buf *buf, ir_expr *offset, ir_expr *mask) {
  return pass_code_cast(s, IR_I64, pass_code_load(s, buf, offset, mask));
}

ir_code *pass_code_store(lower_state *s, ir_buf *buf, ir_expr *offset, ir_expr *value) {
  if (buf->kind != IR_BUF_LOCAL) ir_func_use(s->b.func, buf);
  return ir_store(&s->b, buf, offset, pass_code_cast(s, buf->dtype, value));
}

/* ---- buffers --------------------------------------------------------------------------------- */
static const char *buffer_name(lower_state *s, const ir_tensor *tensor, ir_buf_kind kind,
                               int level) {
  if (kind == IR_BUF_VALS) return ir_format_text(s->arena, "%s.vals", tensor->name);
  return ir_format_text(s->arena, "%s.%s%d", tensor->name, kind == IR_BUF_POS ? "pos" : "crd",
                        level);
}

static ir_dtype buffer_dtype(lower_state *s, const ir_tensor *tensor, ir_buf_kind kind, int level) {
  if (kind == IR_BUF_VALS) return tensor->dtype;
  ir_level_kind level_kind = pass_level_format(s, tensor)->level[level].kind;
  bool bytes = kind == IR_BUF_CRD && (level_kind == IR_LEVEL_NM || level_kind == IR_LEVEL_BITMAP);
  return bytes ? IR_U8 : ir_index_dtype(s->kernel, tensor);
}

ir_buf *pass_code_buffer(lower_state *s, const ir_tensor *tensor, ir_buf_kind kind, int level) {
  if (tensor->view_of) tensor = tensor->view_of;
  if (kind != IR_BUF_VALS)
    tensor = ir_tensor_owner(tensor);
  else if (s->sums && tensor == s->sums)
    return s->sums_buf;
  for (int f = 0; f < s->kernel->funcs.count; f++) {
    const ir_func *func = s->kernel->funcs.at[f];
    for (int i = 0; i < func->bufs.count; i++) {
      ir_buf *buf = func->bufs.at[i];
      if (buf->kind == kind && buf->tensor == tensor && buf->level == level) return buf;
    }
  }
  ir_buf *buf = ir_buf_new(s->arena, buffer_name(s, tensor, kind, level), kind,
                           buffer_dtype(s, tensor, kind, level));
  buf->tensor = (ir_tensor *)tensor;
  buf->level = level;
  return buf;
}

ir_buf *pass_code_workspace(lower_state *s, const char *name, ir_dtype dtype, ir_expr *count) {
  for (int i = 0; i < s->kernel->workspaces.count; i++)
    if (!strcmp(s->kernel->workspaces.at[i]->name, name)) return s->kernel->workspaces.at[i];
  ir_buf *buf = pass_workspace_new(s->context, s->kernel, name, dtype, count);
  buf->first = buf->last = s->stage->number;
  return buf;
}

/* ---- functions ------------------------------------------------------------------------------- */
static const char *function_name(lower_state *s, const char *suffix) {
  const char *name = ir_format_text(s->arena, "%s.%s%s%s", s->kernel->name, s->stage->name,
                                    suffix ? "." : "", suffix ? suffix : "");
  const char *unique = name;
  for (int n = 2, taken = 1; taken; n++) {
    taken = 0;
    for (int i = 0; i < s->kernel->funcs.count && !taken; i++)
      taken = !strcmp(s->kernel->funcs.at[i]->name, unique);
    if (taken) unique = ir_format_text(s->arena, "%s_%d", name, n);
  }
  return unique;
}

static void say_source(lower_state *s) {
  ir_text text = ir_text_new(s->arena);
  ir_print_stmt(s->stmt, &text);
  while (text.length && text.data[text.length - 1] == '\n') text.data[--text.length] = 0;
  ir_comment(&s->b, "%s", text.data);
}

ir_func *pass_code_function(lower_state *s, const char *suffix) {
  ir_func *func = ir_func_new(s->kernel, function_name(s, suffix));
  s->b = (ir_builder){.arena = s->arena, .func = func, .block = &func->body};
  IR_PUSH(s->arena, &s->stage->funcs, func);
  if (s->stmt) say_source(s);
  return func;
}

void pass_code_fill(lower_state *s, const char *name, ir_buf *buf, ir_expr *count, ir_expr *value) {
  ir_builder saved = s->b;
  pass_code_function(s, name);
  bool sized = count->kind == IR_CONST || count->kind == IR_DIM || count->kind == IR_OP;
  ir_block *outer;
  ir_var *n = ir_open_for(&s->b, "n", pass_code_int(s, 0), count,
                          sized ? IR_RUN_PARALLEL : IR_RUN_SEQUENTIAL, &outer);
  pass_code_store(s, buf, pass_code_ref(s, n), value);
  ir_close(&s->b, outer);
  s->b = saved;
}
