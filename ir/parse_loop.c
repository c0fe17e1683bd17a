/* parse_loop.c - functions of IR text: the loop dialect.
 *
 *     func ffn.y {
 *       buf @x.vals : bf16[] vals of x;      an array of a tensor, or
 *       buf @h.ids;                          a workspace of the kernel
 *       parallel for %t = 0 .. T step 64 { ... }
 *     }
 * A buffer that two functions of a kernel declare alike is one buffer.  Locals are visible from
 * their declaration on; the verifier checks that their block is still open. */
#include "ir/parse.h"
#include "ir/print.h"

static ir_code *new_code(ir_reader *r, ir_code_kind kind) {
  ir_code *code = IR_NEW(r->arena, ir_code);
  code->kind = kind;
  code->span = r->token.span;
  code->combine = IR_OP_COUNT;
  return code;
}

static const char *read_new_name(ir_reader *r) {
  ir_read_expect(r, "%");
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (!r->failed && ir_read_room(r, r->func->vars.count) && ir_table_find(&r->locals, name))
    ir_read_fail(r, span, "the local `%%%s` is declared twice", name);
  return name;
}

static ir_var *new_var(ir_reader *r, const char *name, ir_dtype dtype, int lanes) {
  ir_var *var = IR_NEW(r->arena, ir_var);
  *var = (ir_var){name, dtype, lanes};
  return var;
}

/* Visible from here on. */
static void declare(ir_reader *r, ir_var *var) {
  IR_PUSH(r->arena, &r->func->vars, var);
  ir_table_add(r->arena, &r->locals, var->name, var);
}

/* ---- statements ---------------------------------------------------------------------------- */
static void read_block(ir_reader *r, ir_block *block);

static ir_code *read_for(ir_reader *r, ir_run run) {
  ir_code *code = new_code(r, IR_FOR);
  code->run = run;
  bool wide = run == IR_RUN_TEAM || run == IR_RUN_LANES || run == IR_RUN_COLUMNS || run == IR_RUN_SHARES || (run == IR_RUN_UNROLL && !ir_read_at(r, "for"));
  if (wide) code->width = (int)ir_read_int(r, 1, 1024);
  ir_read_expect(r, "for");
  code->var = new_var(r, read_new_name(r), IR_I64, 1);
  ir_read_expect(r, "=");
  code->lo = ir_read_expr(r);
  ir_read_expect(r, "..");
  code->hi = ir_read_expr(r);
  code->step = ir_read_if(r, "step") ? ir_read_expr(r) : ir_int(r->arena, 1);
  declare(r, code->var);
  read_block(r, &code->body);
  return code;
}

static ir_code *read_while(ir_reader *r) {
  ir_code *code = new_code(r, IR_WHILE);
  code->cond = ir_read_expr(r);
  read_block(r, &code->body);
  return code;
}

static ir_code *read_if(ir_reader *r) {
  ir_code *code = new_code(r, IR_IF);
  code->cond = ir_read_expr(r);
  read_block(r, &code->body);
  if (ir_read_if(r, "else")) read_block(r, &code->orelse);
  return code;
}

static ir_code *read_let(ir_reader *r) {
  ir_code *code = new_code(r, IR_LET);
  int lanes = 1;
  const char *name = read_new_name(r);
  ir_read_expect(r, ":");
  ir_dtype dtype = ir_read_type(r, &lanes);
  code->var = new_var(r, name, dtype, lanes);
  if (ir_read_if(r, "=")) code->value = ir_read_expr(r);
  declare(r, code->var);
  ir_read_expect(r, ";");
  return code;
}

static ir_code *read_local(ir_reader *r) {
  ir_code *code = new_code(r, IR_LOCAL);
  ir_read_expect(r, "@");
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  code->buf = ir_read_buf_rest(r, name);
  if (code->buf->kind != IR_BUF_LOCAL)
    ir_read_fail(r, span, "`local` declares a buffer of kind `local`");
  if (ir_read_room(r, r->func->locals.count)) IR_PUSH(r->arena, &r->func->locals, code->buf);
  ir_read_expect(r, ";");
  return code;
}

static ir_code *read_set(ir_reader *r) {
  ir_code *code = new_code(r, IR_SET);
  code->var = ir_read_var(r);
  ir_read_expect(r, "=");
  code->value = ir_read_expr(r);
  ir_read_expect(r, ";");
  return code;
}

static ir_op read_combine(ir_reader *r) {
  if (ir_read_if(r, "=")) return IR_OP_COUNT;
  if (ir_read_if(r, "+=")) return IR_OP_ADD;
  ir_span span = r->token.span;
  ir_op op = ir_op_find(ir_read_name(r));
  if (op == IR_OP_COUNT || ir_op_rows[op].arity != 2)
    ir_read_fail(r, span, "expected `=`, `+=`, `max=` or another op of two operands and `=`");
  ir_read_expect(r, "=");
  return op;
}

static ir_code *read_store(ir_reader *r, bool atomic) {
  ir_code *code = new_code(r, IR_STORE);
  code->atomic = atomic;
  code->buf = ir_read_buf(r);
  ir_read_expect(r, "[");
  code->offset = ir_read_expr(r);
  ir_read_expect(r, "]");
  code->combine = read_combine(r);
  code->value = ir_read_expr(r);
  if (ir_read_if(r, "mask")) code->cond = ir_read_expr(r);
  code->compressed = ir_read_if(r, "compressed");
  ir_read_expect(r, ";");
  return code;
}

static ir_code *read_prefetch(ir_reader *r) {
  ir_code *code = new_code(r, IR_PREFETCH);
  code->buf = ir_read_buf(r);
  ir_read_expect(r, "[");
  code->offset = ir_read_expr(r);
  ir_read_expect(r, "]");
  code->early = ir_read_if(r, "early");
  ir_read_expect(r, ";");
  return code;
}

static ir_code *read_note(ir_reader *r) {
  ir_code *code = new_code(r, IR_COMMENT);
  code->text = ir_read_string(r);
  ir_read_expect(r, ";");
  return code;
}

static ir_code *read_barrier(ir_reader *r) {
  ir_read_expect(r, ";");
  return new_code(r, IR_BARRIER);
}

static ir_code *read_loop(ir_reader *r) {
  for (int run = 0; ir_words_run[run]; run++)
    if (ir_read_if(r, ir_words_run[run])) return read_for(r, (ir_run)run);
  return read_for(r, IR_RUN_SEQUENTIAL);
}

static ir_code *read_code(ir_reader *r) {
  if (ir_read_at(r, "%")) return read_set(r);
  if (ir_read_at(r, "@")) return read_store(r, false);
  if (ir_read_if(r, "atomic")) return read_store(r, true);
  if (ir_read_if(r, "let")) return read_let(r);
  if (ir_read_if(r, "local")) return read_local(r);
  if (ir_read_if(r, "while")) return read_while(r);
  if (ir_read_if(r, "if")) return read_if(r);
  if (ir_read_if(r, "prefetch")) return read_prefetch(r);
  if (ir_read_if(r, "barrier")) return read_barrier(r);
  if (ir_read_if(r, "note")) return read_note(r);
  return read_loop(r);
}

static void read_block(ir_reader *r, ir_block *block) {
  ir_read_enter(r);
  ir_read_expect(r, "{");
  while (!ir_read_done(r, "}")) IR_PUSH(r->arena, &block->codes, read_code(r));
  ir_read_expect(r, "}");
  ir_read_leave(r);
}

/* ---- functions ----------------------------------------------------------------------------- */
static bool same_buf(const ir_buf *a, const ir_buf *b) {
  return a->kind == b->kind && a->tensor == b->tensor && a->level == b->level &&
         a->dtype == b->dtype && a->zeroed == b->zeroed && a->each == b->each &&
         a->first == b->first && a->last == b->last && !strcmp(a->name, b->name) &&
         ir_expr_equal(a->count, b->count);
}

static ir_buf *shared_buf(ir_reader *r, ir_buf *buf) {
  ir_same_name *same = ir_table_find(&r->bufs, buf->name);
  if (!same) {
    same = IR_NEW(r->arena, ir_same_name);
    ir_table_add(r->arena, &r->bufs, buf->name, same);
  }
  for (int i = 0; i < same->bufs.count; i++)
    if (same_buf(same->bufs.at[i], buf)) return same->bufs.at[i];
  if (ir_read_room(r, same->bufs.count)) IR_PUSH(r->arena, &same->bufs, buf);
  return buf;
}

static ir_buf *workspace(ir_reader *r, const char *name, ir_span span) {
  ir_buf *buf = ir_table_find(&r->workspaces, name);
  if (buf) return buf;
  int count = r->kernel->workspaces.count;
  const char **known = IR_NEW_ARRAY(r->arena, const char *, count + 1);
  for (int i = 0; i < count; i++) known[i] = r->kernel->workspaces.at[i]->name;
  ir_read_unknown(r, span, "workspace", name, known, count);
  return NULL;
}

static void read_func_buf(ir_reader *r) {
  ir_read_expect(r, "@");
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (r->failed || !ir_read_room(r, r->func->bufs.count)) return;
  for (int i = 0; i < r->func->bufs.count; i++)
    if (!strcmp(r->func->bufs.at[i]->name, name))
      ir_read_fail(r, span, "the buffer `@%s` is declared twice", name);
  ir_buf *buf =
      ir_read_at(r, ":") ? shared_buf(r, ir_read_buf_rest(r, name)) : workspace(r, name, span);
  ir_read_expect(r, ";");
  if (buf) IR_PUSH(r->arena, &r->func->bufs, buf);
}

static void read_param(ir_reader *r) {
  int lanes = 1;
  const char *name = read_new_name(r);
  ir_read_expect(r, ":");
  ir_dtype dtype = ir_read_type(r, &lanes);
  ir_read_expect(r, ";");
  if (!ir_read_room(r, r->func->params.count)) return;
  ir_var *var = new_var(r, name, dtype, lanes);
  IR_PUSH(r->arena, &r->func->params, var);
  ir_table_add(r->arena, &r->locals, name, var);
}

static void read_func_body(ir_reader *r) {
  ir_read_expect(r, "{");
  while (ir_read_if(r, "buf")) read_func_buf(r);
  while (ir_read_if(r, "param")) read_param(r);
  while (!ir_read_done(r, "}") && !ir_read_at(r, "result"))
    IR_PUSH(r->arena, &r->func->body.codes, read_code(r));
  if (ir_read_if(r, "result")) {
    r->func->result = ir_read_expr(r);
    ir_read_expect(r, ";");
  }
  ir_read_expect(r, "}");
}

void ir_read_func(ir_reader *r, ir_func_kind kind) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (r->failed || !ir_read_room(r, r->kernel->funcs.count)) return;
  r->func = ir_func_new(r->kernel, name);
  if (!ir_table_add(r->arena, &r->funcs, name, r->func))
    ir_read_fail(r, span, "the function `%s` is declared twice", name);
  r->locals = (ir_table){0};
  r->func->kind = kind;
  r->func->span = span;
  read_func_body(r);
  r->func = NULL;
}
