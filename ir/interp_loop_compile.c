/* interp_loop_compile.c - functions of the loop dialect with every name resolved to its memory. */
#include "ir/interp_loop.h"

void loop_defect(loop_run *r, const char *format, ...) {
  if (r->status) return;
  r->status = SPC_INVALID_INPUT; /* of the text that was given; the passes' own is tested */
  ir_text text = ir_text_new(r->arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  ir_diag_add(r->sink, IR_DIAG_BUFFER_RANGE, IR_NOWHERE, "function `%s`: %s", r->func->name,
              text.data);
}

/* ---- names ------------------------------------------------------------------------------ */
memory *loop_memory_new(loop_run *r, const ir_buf *buf, ir_array array) {
  memory *m = IR_NEW(r->arena, memory);
  *m = (memory){buf, array};
  if (array.dtype != IR_NONE && array.data &&
      ir_dtype_bytes(array.dtype) != ir_dtype_bytes(buf->dtype))
    loop_defect(r, "buffer `%s` is %s, the array given for it is %s", buf->name,
                ir_dtype_text(buf->dtype), ir_dtype_text(array.dtype));
  m->array.dtype = buf->dtype;
  IR_PUSH(r->arena, &r->memories, m);
  return m;
}

static memory *find_memory(loop_run *r, const ir_buf *buf) {
  for (int i = 0; i < r->memories.count; i++)
    if (r->memories.at[i]->buf == buf) return r->memories.at[i];
  if (buf->kind != IR_BUF_LOCAL) {
    loop_defect(r, "it uses the buffer `%s`, which it does not list", buf->name);
    return loop_memory_new(r, buf, (ir_array){NULL, 0, buf->dtype});
  }
  int64_t count = 0;
  if (!buf->count || !ir_size_value(buf->count, r->sizes, &count) || count < 0 ||
      count > (int64_t)1 << 30)
    loop_defect(r, "the size of the local buffer `%s` is not known", buf->name);
  return loop_memory_new(r, buf, ir_array_new(r->arena, buf->dtype, r->status ? 0 : count));
}

static cell *find_local(loop_run *r, const ir_var *var) {
  for (int i = r->locals.count; i-- > 0;)
    if (r->locals.at[i].var == var) return r->locals.at[i].value;
  local l = {var, IR_NEW_ARRAY(r->arena, cell, var->lanes > 0 ? var->lanes : 1)};
  IR_PUSH(r->arena, &r->locals, l);
  return l.value;
}

/* ---- expressions ------------------------------------------------------------------------- */
static int64_t size_of_dim(const loop_run *r, const ir_dim *dim) {
  int64_t size = r->sizes ? r->sizes[dim->number] : -1;
  return size >= 0 ? size : dim->value;
}

static lnode *compile(loop_run *r, const ir_expr *e) {
  if (!e) return NULL;
  lnode *n = IR_NEW(r->arena, lnode);
  *n = (lnode){.kind = e->kind,
               .dtype = e->dtype,
               .lanes = e->lanes > 0 ? e->lanes : 1,
               .count = e->arg_count,
               .op = e->op,
               .reducer = e->reducer};
  if (n->lanes > LOOP_MAX_LANES || n->count > 3)
    loop_defect(r, "a vector of %d lanes is wider than the interpreter's %d", n->lanes,
                LOOP_MAX_LANES);
  for (int i = 0; i < e->arg_count && i < 3; i++) n->args[i] = compile(r, e->args[i]);
  if (e->kind == IR_CONST) {
    if (ir_dtype_is_float(e->dtype))
      n->value.f = e->f;
    else
      n->value.i = e->i;
  } else if (e->kind == IR_DIM) {
    n->value.i = size_of_dim(r, e->dim);
  } else if (e->kind == IR_OP) {
    n->row = &ir_op_rows[e->op];
    n->operand = e->args[e->op == IR_OP_WHERE ? 1 : 0]->dtype;
  } else if (e->kind == IR_VAR) {
    n->var = find_local(r, e->var);
  } else if (e->kind == IR_LOAD) {
    n->memory = find_memory(r, e->buf);
  } else if (e->kind != IR_CAST && !(e->kind == IR_REDUCE && e->bound_count == 0)) {
    loop_defect(r, "an expression of the ein dialect stands in it");
  }
  return n;
}

/* ---- statements ---------------------------------------------------------------------------- */
static lcode compile_code(loop_run *r, const ir_code *code) {
  lcode c = {.code = code};
  c.var = code->var ? find_local(r, code->var) : NULL;
  c.memory = code->buf ? find_memory(r, code->buf) : NULL;
  c.lo = compile(r, code->lo);
  c.hi = compile(r, code->hi);
  c.step = compile(r, code->step);
  c.cond = compile(r, code->cond);
  c.value = compile(r, code->value);
  c.offset = compile(r, code->offset);
  c.body = loop_compile(r, &code->body);
  c.orelse = loop_compile(r, &code->orelse);
  return c;
}

lblock loop_compile(loop_run *r, const ir_block *block) {
  lblock out = {block->codes.count, IR_NEW_ARRAY(r->arena, lcode, block->codes.count)};
  for (int i = 0; i < block->codes.count; i++) out.codes[i] = compile_code(r, block->codes.at[i]);
  return out;
}
