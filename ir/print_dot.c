/* print_dot.c - a program as a graph for Graphviz: tensors, and what each is computed from.
 *
 * A box a tensor, an edge from each tensor that its statement reads; the edge says which stage
 * computes it and by which kernel row.  Intermediates are dashed, sparse formats are named. */
#include "ir/print.h"

static void put_label(ir_text *out, const char *text) {
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\') ir_text_put(out, "\\");
    if ((unsigned char)*c >= 0x20) ir_text_putn(out, c, 1);
  }
}

static void put_node_name(ir_text *out, int kernel, const ir_tensor *t) {
  ir_text_printf(out, "\"k%d.", kernel);
  put_label(out, t->name);
  ir_text_put(out, "\"");
}

static void put_type(ir_text *out, const ir_tensor *t) {
  ir_writer w = {.out = out};
  ir_text_put(out, t->dtype ? ir_dtype_text(t->dtype) : "pattern");
  ir_text_put(out, "[");
  for (int i = 0; i < t->rank; i++) {
    if (i) ir_text_put(out, ", ");
    ir_put_expr(&w, t->dim[i]);
  }
  ir_text_put(out, "]");
  if (t->format && !ir_format_is_row_major(t->format)) {
    ir_text_put(out, "\\nas ");
    ir_format_print(t->format, out);
  }
}

static void put_node(ir_text *out, int kernel, const ir_tensor *t) {
  static const char *const styles[] = {"filled", "dashed", "bold", "dotted"};
  ir_text_put(out, "    ");
  put_node_name(out, kernel, t);
  ir_text_printf(out, " [shape=box, style=%s, label=\"", styles[t->role]);
  put_label(out, t->name);
  ir_text_put(out, "\\n");
  put_type(out, t);
  ir_text_put(out, "\"];\n");
}

static const ir_stage *stage_of(const ir_kernel *kernel, const ir_stmt *stmt) {
  for (int i = 0; i < kernel->stages.count; i++)
    for (int k = 0; k < kernel->stages.at[i]->stmts.count; k++)
      if (kernel->stages.at[i]->stmts.at[k] == stmt) return kernel->stages.at[i];
  return NULL;
}

static bool reads(const ir_stmt *stmt, const ir_tensor *t) {
  bool used = ir_expr_uses_tensor(stmt->value, t) || ir_expr_uses_tensor(stmt->cond, t);
  for (int i = 0; i < stmt->target->rank; i++) used = used || ir_expr_uses_tensor(stmt->subs[i], t);
  return used;
}

static void put_edge(ir_text *out, int kernel, const ir_tensor *from, const ir_stmt *stmt,
                     const ir_stage *stage) {
  ir_text_put(out, "    ");
  put_node_name(out, kernel, from);
  ir_text_put(out, " -> ");
  put_node_name(out, kernel, stmt->target);
  if (stage) {
    ir_text_put(out, " [label=\"");
    put_label(out, stage->name);
    ir_text_put(out, stage->row ? ": " : "");
    put_label(out, stage->row ? stage->row : "");
    ir_text_put(out, "\"]");
  }
  ir_text_put(out, ";\n");
}

static void put_stmt_edges(ir_text *out, int number, const ir_kernel *kernel, const ir_stmt *stmt) {
  const ir_stage *stage = stage_of(kernel, stmt);
  for (int i = 0; i < kernel->tensors.count; i++)
    if (reads(stmt, kernel->tensors.at[i]))
      put_edge(out, number, kernel->tensors.at[i], stmt, stage);
}

static void put_kernel(ir_text *out, int number, const ir_kernel *kernel) {
  ir_text_printf(out, "  subgraph cluster_%d {\n    label=\"", number);
  put_label(out, kernel->name);
  ir_text_put(out, "\";\n");
  for (int i = 0; i < kernel->tensors.count; i++) put_node(out, number, kernel->tensors.at[i]);
  for (int i = 0; i < kernel->stmts.count; i++)
    put_stmt_edges(out, number, kernel, kernel->stmts.at[i]);
  ir_text_put(out, "  }\n");
}

void ir_print_dot(const ir_program *program, ir_text *out) {
  ir_text_put(out, "digraph spc {\n  rankdir=LR;\n  node [fontname=\"monospace\"];\n");
  for (int i = 0; i < program->kernels.count; i++) put_kernel(out, i, program->kernels.at[i]);
  ir_text_put(out, "}\n");
}
