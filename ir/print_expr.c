/* print_expr.c - expressions as text.
 *
 * Infix where index notation has it (+ - * / % comparisons, and, or, not, minus), a call by
 * mnemonic for every other op.  Parentheses stand exactly where the tree needs them, so that
 * reading the text makes the same tree. */
#include "ir/number.h"
#include "ir/print.h"

/* How tightly an expression holds together, as in the grammar of `.spx`. */
enum { PREC_OR, PREC_AND, PREC_NOT, PREC_COMPARE, PREC_SUM, PREC_TERM, PREC_UNARY, PREC_PRIMARY };

typedef struct infix {
  ir_op op;
  const char *text;
  int precedence;
} infix;
static const infix infixes[] = {{IR_OP_OR, " or ", PREC_OR},      {IR_OP_AND, " and ", PREC_AND},
                                {IR_OP_LT, " < ", PREC_COMPARE},  {IR_OP_LE, " <= ", PREC_COMPARE},
                                {IR_OP_GT, " > ", PREC_COMPARE},  {IR_OP_GE, " >= ", PREC_COMPARE},
                                {IR_OP_EQ, " == ", PREC_COMPARE}, {IR_OP_NE, " != ", PREC_COMPARE},
                                {IR_OP_ADD, " + ", PREC_SUM},     {IR_OP_SUB, " - ", PREC_SUM},
                                {IR_OP_MUL, " * ", PREC_TERM},    {IR_OP_DIV, " / ", PREC_TERM},
                                {IR_OP_MOD, " % ", PREC_TERM}};

static const infix *infix_of(ir_op op) {
  for (int i = 0; i < IR_COUNT(infixes); i++)
    if (infixes[i].op == op) return &infixes[i];
  return NULL;
}

static int precedence_of(const ir_expr *e) {
  if (e->kind != IR_OP) return PREC_PRIMARY;
  if (e->op == IR_OP_NOT) return PREC_NOT;
  if (e->op == IR_OP_NEG) return e->args[0]->kind == IR_CONST ? PREC_PRIMARY : PREC_UNARY;
  const infix *in = infix_of(e->op);
  return in ? in->precedence : PREC_PRIMARY;
}

static void put_within(ir_writer *w, const ir_expr *e, int precedence) {
  bool parens = precedence_of(e) < precedence;
  if (parens) ir_text_put(w->out, "(");
  ir_put_expr(w, e);
  if (parens) ir_text_put(w->out, ")");
}

static void put_args(ir_writer *w, const ir_expr *e, const char *open, const char *close) {
  ir_text_put(w->out, open);
  for (int i = 0; i < e->arg_count; i++) {
    if (i) ir_text_put(w->out, ", ");
    ir_put_expr(w, e->args[i]);
  }
  ir_text_put(w->out, close);
}

/* ---- nodes --------------------------------------------------------------------------------- */
static void put_suffix(ir_writer *w, const ir_expr *e) {
  if (e->dtype == IR_I64 && e->lanes == 1) return;
  ir_text_put(w->out, "_");
  ir_put_type(w->out, e->dtype, e->lanes);
}

static void put_const(ir_writer *w, const ir_expr *e) {
  if (e->dtype == IR_B1 && e->lanes == 1) {
    ir_text_put(w->out, e->i ? "true" : "false");
    return;
  }
  if (ir_dtype_is_float(e->dtype)) {
    char buffer[IR_NUMBER_BYTES];
    ir_text_put(w->out, ir_number_print(e->f, buffer));
    if (!strpbrk(buffer, ".en")) ir_text_put(w->out, ".0");
  } else {
    ir_text_printf(w->out, "%lld", (long long)e->i);
  }
  put_suffix(w, e);
}

static void put_op(ir_writer *w, const ir_expr *e) {
  const infix *in = infix_of(e->op);
  if (in) {
    bool compares = in->precedence == PREC_COMPARE;
    put_within(w, e->args[0], compares ? PREC_SUM : in->precedence);
    ir_text_put(w->out, in->text);
    put_within(w, e->args[1], in->precedence + 1);
  } else if (e->op == IR_OP_NOT) {
    ir_text_put(w->out, "not ");
    put_within(w, e->args[0], PREC_COMPARE);
  } else if (e->op == IR_OP_NEG && e->args[0]->kind != IR_CONST) {
    ir_text_put(w->out, "-");
    put_within(w, e->args[0], PREC_PRIMARY);
  } else {
    ir_text_put(w->out, ir_op_rows[e->op].mnemonic);
    put_args(w, e, "(", ")");
  }
}

static void put_bound(ir_writer *w, const char *word, const ir_expr *e) {
  ir_text_printf(w->out, "%s[", word);
  for (int i = 0; i < e->bound_count; i++) {
    if (i) ir_text_put(w->out, ", ");
    ir_put_name(w->out, e->bound[i]->name);
  }
  ir_text_put(w->out, "]");
}

static void put_load(ir_writer *w, const ir_expr *e) {
  ir_put_buf(w, e->buf);
  if (e->lanes != e->args[0]->lanes) ir_text_printf(w->out, "<%d>", e->lanes);
  put_args(w, e, "[", "]");
}

static void put_cast(ir_writer *w, const ir_expr *e) {
  ir_text_put(w->out, "cast[");
  ir_put_type(w->out, e->dtype, e->lanes);
  put_args(w, e, "](", ")");
}

static void put_topk(ir_writer *w, const ir_expr *e) {
  put_bound(w, "topk", e);
  put_args(w, e, "(", "");
  ir_text_printf(w->out, ", %lld)", (long long)e->i);
}

void ir_put_expr(ir_writer *w, const ir_expr *e) {
  switch (e->kind) {
  case IR_CONST: put_const(w, e); break;
  case IR_DIM: ir_put_name(w->out, e->dim->name); break;
  case IR_INDEX: ir_put_name(w->out, e->index->name); break;
  case IR_ACCESS:
    ir_put_name(w->out, e->tensor->name);
    put_args(w, e, "[", "]");
    break;
  case IR_OP: put_op(w, e); break;
  case IR_CAST: put_cast(w, e); break;
  case IR_REDUCE:
    put_bound(w, ir_reducer_rows[e->reducer].text, e);
    put_args(w, e, "(", ")");
    break;
  case IR_SOFTMAX:
    put_bound(w, "softmax", e);
    put_args(w, e, "(", ")");
    break;
  case IR_TOPK: put_topk(w, e); break;
  case IR_STORED:
    ir_text_put(w->out, "stored");
    put_args(w, e, "(", ")");
    break;
  case IR_VAR: ir_put_var(w, e->var); break;
  case IR_LOAD: put_load(w, e); break;
  }
}

void ir_put_buf(ir_writer *w, const ir_buf *buf) {
  ir_text_put(w->out, "@");
  ir_put_name(w->out, ir_names_of(w->names, buf, buf->name));
}

void ir_put_var(ir_writer *w, const ir_var *var) {
  ir_text_put(w->out, "%");
  ir_put_name(w->out, ir_names_of(w->names, var, var->name));
}

void ir_print_expr(const ir_expr *e, ir_text *out) {
  ir_writer w = {.out = out};
  ir_put_expr(&w, e);
}
