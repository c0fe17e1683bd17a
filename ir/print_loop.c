/* print_loop.c - functions as text: the loop dialect.
 *
 * Buffers are written @name, locals %name.  Names are collected before a function is printed and
 * made unique in it, since a pass may copy a loop with its locals' names. */
#include "ir/print.h"

/* ---- names of one function ----------------------------------------------------------------- */
static void collect(ir_arena *arena, ir_names *names, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_FOR || code->kind == IR_LET)
      ir_names_add(arena, names, code->var, code->var->name);
    if (code->kind == IR_LOCAL) ir_names_add(arena, names, code->buf, code->buf->name);
    collect(arena, names, &code->body);
    collect(arena, names, &code->orelse);
  }
}

static ir_names *names_of(ir_arena *arena, const ir_names *workspaces, const ir_func *func) {
  ir_names *names = ir_names_new(arena, workspaces);
  for (int i = 0; i < func->bufs.count; i++)
    ir_names_add(arena, names, func->bufs.at[i], func->bufs.at[i]->name);
  for (int i = 0; i < func->params.count; i++)
    ir_names_add(arena, names, func->params.at[i], func->params.at[i]->name);
  collect(arena, names, &func->body);
  return names;
}

/* ---- statements ---------------------------------------------------------------------------- */
static void indent(ir_writer *w, int depth) {
  for (int i = 0; i < depth; i++) ir_text_put(w->out, "  ");
}

static void put_block(ir_writer *w, const ir_block *block, int depth);

static void put_body(ir_writer *w, const ir_block *body, int depth) {
  ir_text_put(w->out, " {\n");
  put_block(w, body, depth + 1);
  indent(w, depth);
  ir_text_put(w->out, "}");
}

static void put_for(ir_writer *w, const ir_code *code, int depth) {
  if (code->run != IR_RUN_SEQUENTIAL) ir_text_printf(w->out, "%s ", ir_words_run[code->run]);
  if (code->width) ir_text_printf(w->out, "%d ", code->width);
  ir_text_put(w->out, "for ");
  ir_put_var(w, code->var);
  ir_text_put(w->out, " = ");
  ir_put_expr(w, code->lo);
  ir_text_put(w->out, " .. ");
  ir_put_expr(w, code->hi);
  double step;
  if (code->step && !(ir_const_value(code->step, &step) && step == 1)) {
    ir_text_put(w->out, " step ");
    ir_put_expr(w, code->step);
  }
  put_body(w, &code->body, depth);
}

static void put_if(ir_writer *w, const ir_code *code, int depth) {
  ir_text_put(w->out, "if ");
  ir_put_expr(w, code->cond);
  put_body(w, &code->body, depth);
  if (!code->orelse.codes.count) return;
  ir_text_put(w->out, " else");
  put_body(w, &code->orelse, depth);
}

static void put_let(ir_writer *w, const ir_code *code) {
  ir_text_put(w->out, "let ");
  ir_put_var(w, code->var);
  ir_text_put(w->out, " : ");
  ir_put_type(w->out, code->var->dtype, code->var->lanes);
  if (code->value) {
    ir_text_put(w->out, " = ");
    ir_put_expr(w, code->value);
  }
  ir_text_put(w->out, ";");
}

static void put_store(ir_writer *w, const ir_code *code) {
  if (code->atomic) ir_text_put(w->out, "atomic ");
  ir_put_buf(w, code->buf);
  ir_text_put(w->out, "[");
  ir_put_expr(w, code->offset);
  ir_text_put(w->out, "] ");
  if (code->combine == IR_OP_ADD)
    ir_text_put(w->out, "+");
  else if (code->combine != IR_OP_COUNT)
    ir_text_put(w->out, ir_op_rows[code->combine].mnemonic);
  ir_text_put(w->out, "= ");
  ir_put_expr(w, code->value);
  if (code->cond) {
    ir_text_put(w->out, " mask ");
    ir_put_expr(w, code->cond);
  }
  if (code->compressed) ir_text_put(w->out, " compressed");
  ir_text_put(w->out, ";");
}

static void put_set(ir_writer *w, const ir_code *code) {
  ir_put_var(w, code->var);
  ir_text_put(w->out, " = ");
  ir_put_expr(w, code->value);
  ir_text_put(w->out, ";");
}

static void put_local(ir_writer *w, const ir_buf *buf) {
  ir_text_put(w->out, "local ");
  ir_put_buf_decl(w, buf);
  ir_text_put(w->out, ";");
}

static void put_code(ir_writer *w, const ir_code *code, int depth) {
  switch (code->kind) {
  case IR_FOR: put_for(w, code, depth); break;
  case IR_WHILE:
    ir_text_put(w->out, "while ");
    ir_put_expr(w, code->cond);
    put_body(w, &code->body, depth);
    break;
  case IR_IF: put_if(w, code, depth); break;
  case IR_LET: put_let(w, code); break;
  case IR_SET: put_set(w, code); break;
  case IR_LOCAL: put_local(w, code->buf); break;
  case IR_STORE: put_store(w, code); break;
  case IR_PREFETCH:
    ir_text_put(w->out, "prefetch ");
    ir_put_buf(w, code->buf);
    ir_text_put(w->out, "[");
    ir_put_expr(w, code->offset);
    ir_text_put(w->out, code->early ? "] early;" : "];");
    break;
  case IR_BARRIER: ir_text_put(w->out, "barrier;"); break;
  case IR_COMMENT:
    ir_text_put(w->out, "note ");
    ir_put_string(w->out, code->text ? code->text : "");
    ir_text_put(w->out, ";");
    break;
  }
}

static void put_block(ir_writer *w, const ir_block *block, int depth) {
  for (int i = 0; i < block->codes.count; i++) {
    indent(w, depth);
    put_code(w, block->codes.at[i], depth);
    ir_text_put(w->out, "\n");
  }
}

/* ---- functions ----------------------------------------------------------------------------- */
/* A workspace is declared by its kernel, and a function printed alone declares it too. */
static void put_func_buf(ir_writer *w, const ir_buf *buf) {
  ir_text_put(w->out, "    buf ");
  if (ir_names_of(w->names->outer, buf, NULL)) /* a workspace of the kernel */
    ir_put_buf(w, buf);
  else
    ir_put_buf_decl(w, buf);
  ir_text_put(w->out, ";\n");
}

static void put_param(ir_writer *w, const ir_var *var) {
  ir_text_put(w->out, "    param ");
  ir_put_var(w, var);
  ir_text_put(w->out, " : ");
  ir_put_type(w->out, var->dtype, var->lanes);
  ir_text_put(w->out, ";\n");
}

static void put_func(ir_writer *w, const ir_func *func) {
  ir_text_put(w->out, func->kind == IR_FUNC_FRAGMENT ? "  fragment " : "  func ");
  ir_put_name(w->out, func->name);
  ir_text_put(w->out, " {\n");
  for (int i = 0; i < func->bufs.count; i++) put_func_buf(w, func->bufs.at[i]);
  for (int i = 0; i < func->params.count; i++) put_param(w, func->params.at[i]);
  put_block(w, &func->body, 2);
  if (func->result) {
    ir_text_put(w->out, "    result ");
    ir_put_expr(w, func->result);
    ir_text_put(w->out, ";\n");
  }
  ir_text_put(w->out, "  }\n");
}

void ir_put_funcs(ir_writer *w) {
  ir_names *workspaces = w->names;
  for (int i = 0; i < w->kernel->funcs.count; i++) {
    const ir_func *func = w->kernel->funcs.at[i];
    w->names = names_of(w->out->arena, workspaces, func);
    put_func(w, func);
  }
  w->names = workspaces;
}

void ir_print_func(const ir_kernel *kernel, const ir_func *func, ir_text *out) {
  ir_writer w = {.out = out, .kernel = kernel, .names = names_of(out->arena, NULL, func)};
  put_func(&w, func);
}
