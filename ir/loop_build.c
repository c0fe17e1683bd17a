/* loop_build.c - building functions of the loop dialect.
 *
 * A builder appends to the block that is open.  Names of locals and local buffers are made unique
 * in the function as they are declared, so that the printed text needs no scopes to be read. */
#include "ir/loop.h"

ir_func *ir_func_new(ir_kernel *kernel, const char *name) {
  ir_arena *arena = kernel->program->arena;
  ir_func *func = IR_NEW(arena, ir_func);
  func->arena = arena;
  func->name = ir_strdup(arena, name);
  IR_PUSH(arena, &kernel->funcs, func);
  return func;
}

ir_buf *ir_workspace_of(const ir_kernel *kernel, const ir_tensor *tensor, const char *suffix) {
  const size_t length = strlen(tensor->name);
  for (int i = 0; i < kernel->workspaces.count; i++) {
    const char *name = kernel->workspaces.at[i]->name;
    if (!strncmp(name, tensor->name, length) && name[length] == '.' && !strcmp(name + length + 1, suffix)) return kernel->workspaces.at[i];
  }
  return NULL;
}

ir_buf *ir_buf_new(ir_arena *a, const char *name, ir_buf_kind kind, ir_dtype dtype) {
  ir_buf *buf = IR_NEW(a, ir_buf);
  *buf =
      (ir_buf){.name = ir_strdup(a, name), .kind = kind, .dtype = dtype, .first = -1, .last = -1};
  return buf;
}

void ir_func_use(ir_func *func, ir_buf *buf) {
  for (int i = 0; i < func->bufs.count; i++)
    if (func->bufs.at[i] == buf) return;
  IR_PUSH(func->arena, &func->bufs, buf);
}

/* ---- names --------------------------------------------------------------------------------- */
bool ir_func_has_name(const ir_func *func, const char *name) {
  for (int i = 0; i < func->vars.count; i++)
    if (!strcmp(func->vars.at[i]->name, name)) return true;
  for (int i = 0; i < func->params.count; i++)
    if (!strcmp(func->params.at[i]->name, name)) return true;
  for (int i = 0; i < func->locals.count; i++)
    if (!strcmp(func->locals.at[i]->name, name)) return true;
  return false;
}

static const char *fresh_name(const ir_func *func, const char *stem) {
  const char *name = ir_strdup(func->arena, stem);
  for (int n = 2; ir_func_has_name(func, name); n++)
    name = ir_format_text(func->arena, "%s_%d", stem, n);
  return name;
}

/* ---- statements ---------------------------------------------------------------------------- */
static ir_code *append(ir_builder *b, ir_code_kind kind) {
  ir_code *code = IR_NEW(b->arena, ir_code);
  code->kind = kind;
  code->combine = IR_OP_COUNT;
  IR_PUSH(b->arena, &b->block->codes, code);
  return code;
}

static ir_var *new_var(ir_builder *b, const char *name, ir_dtype dtype, int lanes) {
  ir_var *var = IR_NEW(b->arena, ir_var);
  *var = (ir_var){fresh_name(b->func, name), dtype, lanes};
  IR_PUSH(b->arena, &b->func->vars, var);
  return var;
}

ir_var *ir_let(ir_builder *b, const char *name, ir_dtype dtype, ir_expr *value) {
  return ir_let_lanes(b, name, dtype, value ? value->lanes : 1, value);
}

ir_var *ir_let_lanes(ir_builder *b, const char *name, ir_dtype dtype, int lanes, ir_expr *value) {
  ir_code *code = append(b, IR_LET);
  code->var = new_var(b, name, dtype, lanes);
  code->value = value;
  return code->var;
}

void ir_set(ir_builder *b, ir_var *var, ir_expr *value) {
  ir_code *code = append(b, IR_SET);
  code->var = var;
  code->value = value;
}

ir_code *ir_store(ir_builder *b, ir_buf *buf, ir_expr *offset, ir_expr *value) {
  ir_code *code = append(b, IR_STORE);
  code->buf = buf;
  code->offset = offset;
  code->value = value;
  return code;
}

ir_buf *ir_local(ir_builder *b, const char *name, ir_dtype dtype, int64_t count) {
  ir_buf *buf = ir_buf_new(b->arena, fresh_name(b->func, name), IR_BUF_LOCAL, dtype);
  buf->count = ir_int(b->arena, count);
  IR_PUSH(b->arena, &b->func->locals, buf);
  append(b, IR_LOCAL)->buf = buf;
  return buf;
}

ir_code *ir_prefetch(ir_builder *b, ir_buf *buf, ir_expr *offset) {
  ir_code *code = append(b, IR_PREFETCH);
  code->buf = buf;
  code->offset = offset;
  return code;
}

void ir_comment(ir_builder *b, const char *format, ...) {
  ir_text text = ir_text_new(b->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  append(b, IR_COMMENT)->text = text.data;
}

/* ---- blocks -------------------------------------------------------------------------------- */
static void enter(ir_builder *b, ir_block *inner, ir_block **outer) {
  *outer = b->block;
  b->block = inner;
}

ir_var *ir_open_for(ir_builder *b, const char *name, ir_expr *lo, ir_expr *hi, ir_run run,
                    ir_block **outer) {
  ir_code *code = append(b, IR_FOR);
  code->run = run;
  code->var = new_var(b, name, IR_I64, 1);
  code->lo = lo;
  code->hi = hi;
  code->step = ir_int(b->arena, 1);
  enter(b, &code->body, outer);
  return code->var;
}

void ir_open_while(ir_builder *b, ir_expr *cond, ir_block **outer) {
  ir_code *code = append(b, IR_WHILE);
  code->cond = cond;
  enter(b, &code->body, outer);
}

ir_code *ir_open_if(ir_builder *b, ir_expr *cond, ir_block **outer) {
  ir_code *code = append(b, IR_IF);
  code->cond = cond;
  enter(b, &code->body, outer);
  return code;
}

void ir_open_else(ir_builder *b, ir_code *the_if) { b->block = &the_if->orelse; }

void ir_close(ir_builder *b, ir_block *outer) { b->block = outer; }

/* ---- expressions --------------------------------------------------------------------------- */
ir_expr *ir_var_ref(ir_arena *a, ir_var *var) {
  ir_expr *e = ir_node_new(a, IR_VAR, var->dtype, var->lanes, 0);
  e->var = var;
  return e;
}

ir_expr *ir_load(ir_arena *a, ir_buf *buf, ir_expr *offset) {
  ir_expr *e = ir_node_new(a, IR_LOAD, buf->dtype, offset->lanes, 2); /* room for a mask */
  e->arg_count = 1;
  e->args[0] = offset;
  e->buf = buf;
  return e;
}

ir_expr *ir_splat(ir_arena *a, ir_expr *scalar, int lanes) {
  if (lanes == scalar->lanes) return scalar;
  ir_expr *e = ir_node_new(a, IR_CAST, scalar->dtype, lanes, 1);
  e->args[0] = scalar;
  return e;
}
