/* cuda_print.c - loop IR to CUDA C: expressions, statements, generic kernels, fragments.
 *
 * Names are the IR's.  A narrow float is a float in arithmetic (spc_get at loads, spc_put_X at
 * stores); an integer narrower than 32 bits is cut back after each operation; i32 sums wrap through
 * spc_wrap_*.
 *
 *     for j in 0 .. N thread { y.vals[j] = relu(x.vals[j]) }
 * becomes
 *     for (long long j = spc_first(); j < N; j += spc_stride())
 *       y_vals[j] = spc_put_bf16(spc_relu(spc_get(x_vals[j]))); */
#include <math.h>

#include "codegen/cuda.h"
#include "ir/op_spelling.h"

/* ---- names and types ------------------------------------------------------------------------- */
static const char *const reserved[] = {
    "alignas",   "alignof",   "and",      "args",     "asm",      "auto",      "bool",
    "break",     "case",      "catch",    "char",     "class",    "const",     "continue",
    "decltype",  "default",   "delete",   "do",       "double",   "else",      "enum",
    "explicit",  "export",    "extern",   "false",    "float",    "for",       "friend",
    "goto",      "if",        "inline",   "int",      "long",     "main",      "mutable",
    "namespace", "new",       "noexcept", "not",      "nullptr",  "operator",  "or",
    "private",   "protected", "public",   "register", "return",   "short",     "signed",
    "sizeof",    "static",    "struct",   "switch",   "template", "this",      "throw",
    "true",      "try",       "typedef",  "typeid",   "typename", "union",     "unsigned",
    "using",     "virtual",   "void",     "volatile", "while",    "xor",       "threadIdx",
    "blockIdx",  "blockDim",  "gridDim",  "warpSize", "bitand",   "bitor",     "compl",
    "and_eq",    "or_eq",     "not_eq",   "xor_eq",   "wchar_t",  "constexpr", "min",
    "max",       "abs",       "exp",      "log",      "sqrt",     "pow"};

const char *cg_cuda_name(ir_arena *arena, const char *name) {
  char *out = ir_strdup(arena, name);
  for (char *c = out; *c; c++)
    if (!(*c == '_' || (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z')))
      *c = '_';
  bool taken = !strncmp(out, "spc_", 4) || !strncmp(out, "ptx_", 4) ||
               (*out >= '0' && *out <= '9') || !strncmp(out, "__", 2);
  for (int i = 0; i < IR_COUNT(reserved) && !taken; i++) taken = !strcmp(out, reserved[i]);
  return taken ? ir_format_text(arena, "v_%s", out) : out;
}

static bool is_narrow_float(ir_dtype t) {
  return ir_dtype_is_float(t) && ir_dtype_rows[t].bits < 32;
}

const char *cg_value_type(ir_dtype t) {
  if (t == IR_B1) return "bool";
  return is_narrow_float(t) ? "float" : ir_dtype_rows[t].cuda;
}

static ir_arena *arena_of(const cg_printer *p) { return p->out->arena; }

static void put(const cg_printer *p, const char *text) { ir_text_put(p->out, text); }

static void put_name(const cg_printer *p, const char *name) {
  put(p, cg_cuda_name(arena_of(p), name));
}

/* Variables of the printer's own are named as they are. */
static void put_var(const cg_printer *p, const ir_var *var) {
  if (strncmp(var->name, "spc_", 4))
    put_name(p, var->name);
  else
    put(p, var->name);
}

/* "x.vals" is x_vals, unless a local has that name. */
static const char *buffer_name(const cg_printer *p, const ir_buf *buf) {
  const char *name = cg_cuda_name(arena_of(p), buf->name);
  if (buf->kind == IR_BUF_LOCAL || !ir_func_has_name(p->func, name)) return name;
  return ir_format_text(arena_of(p), "buf_%s", name);
}

static void put_dim(const cg_printer *p, const ir_dim *dim) {
  if (ir_func_has_name(p->func, dim->name)) put(p, "size_");
  put_name(p, dim->name);
}

/* ---- constants ------------------------------------------------------------------------------- */
static void put_real(ir_text *out, ir_dtype t, double value) {
  if (isnan(value))
    ir_text_put(out, "spc_nan()");
  else if (isinf(value))
    ir_text_put(out, value > 0 ? "spc_inf()" : "(-spc_inf())");
  else {
    char digits[64];
    snprintf(digits, sizeof digits, t == IR_F64 ? "%.17g" : "%.9g", value);
    bool whole = !strpbrk(digits, ".e");
    ir_text_printf(out, value < 0 || signbit(value) ? "(%s%s%s)" : "%s%s%s", digits,
                   whole ? ".0" : "", t == IR_F64 ? "" : "f");
  }
}

static void put_const(ir_text *out, const ir_expr *e, bool typed) {
  if (ir_dtype_is_float(e->dtype))
    put_real(out, e->dtype, e->f);
  else if (e->dtype == IR_B1)
    ir_text_put(out, e->i ? "true" : "false");
  else if (e->i == INT64_MIN)
    ir_text_put(out, "(-0x7fffffffffffffffll - 1)");
  else if (e->dtype == IR_I64 && (typed || e->i > INT32_MAX || e->i < INT32_MIN))
    ir_text_printf(out, e->i < 0 ? "(%lldll)" : "%lldll", (long long)e->i);
  else if (typed && e->dtype != IR_I32)
    ir_text_printf(out, "(%s)%lld", ir_dtype_rows[e->dtype].cuda, (long long)e->i);
  else if (e->i == INT32_MIN)
    ir_text_put(out, "(-0x7fffffff - 1)");
  else
    ir_text_printf(out, e->i < 0 ? "(%lld)" : "%lld", (long long)e->i);
}

static void put_zero(const cg_printer *p, ir_dtype t) {
  put(p, t == IR_B1 ? "false" : t == IR_F64 ? "0.0" : ir_dtype_is_float(t) ? "0.0f" : "0");
}

/* ---- expressions ----------------------------------------------------------------------------- */
/* Spellings for i32, where C++ leaves overflow undefined and the language wraps. */
static const char *const wrapping[IR_OP_COUNT] = {[IR_OP_NEG] = "spc_wrap_neg(%0)",
                                                  [IR_OP_ADD] = "spc_wrap_add(%0, %1)",
                                                  [IR_OP_SUB] = "spc_wrap_sub(%0, %1)",
                                                  [IR_OP_MUL] = "spc_wrap_mul(%0, %1)"};

/* What an operand stands in: decides about parentheses and about the type of constants. */
typedef enum place { IN_INFIX, IN_CALL, ALONE } place;

static void put_expr(const cg_printer *p, const ir_expr *e, place where);

static const char *spelling(ir_op op, ir_dtype t) {
  return t == IR_I32 && wrapping[op] ? wrapping[op] : ir_op_rows[op].cuda;
}

static bool is_cut(ir_op op, ir_dtype t) { /* the result must be cut back to its width */
  return ir_op_rows[op].result == IR_RESULT_SAME && ir_dtype_is_int(t) &&
         ir_dtype_rows[t].bits < 32;
}

static void put_spelled(const cg_printer *p, const char *text, size_t length, ir_expr *const *args,
                        place inner) {
  for (size_t i = 0; i < length; i++) {
    if (text[i] == '%' && i + 1 < length && text[i + 1] >= '0' && text[i + 1] <= '2')
      put_expr(p, args[text[++i] - '0'], inner);
    else
      ir_text_putn(p->out, text + i, 1);
  }
}

static void put_op_args(const cg_printer *p, ir_op op, ir_dtype t, ir_dtype operand,
                        ir_expr *const *args, place where) {
  const char *text = spelling(op, operand);
  size_t length = strlen(text);
  bool infix = text[0] == '(', cut = is_cut(op, t);
  if (cut) ir_text_printf(p->out, "spc_to_%s(", ir_dtype_text(t));
  if (infix && (where == ALONE || where == IN_CALL || cut))
    put_spelled(p, text + 1, length - 2, args, IN_INFIX);
  else
    put_spelled(p, text, length, args, infix ? IN_INFIX : IN_CALL);
  if (cut) put(p, ")");
}

static void put_buffer_element(const cg_printer *p, const ir_buf *buf, const ir_expr *offset) {
  put(p, buffer_name(p, buf));
  put(p, "[");
  put_expr(p, offset, ALONE);
  put(p, "]");
}

/* The kernel brings this buffer's element along: what the fragment calls it; else NULL. */
static const char *brought_name(const cg_printer *p, const ir_buf *buf) {
  static const char *const columns[] = {"spc_at.column[0]", "spc_at.column[1]"};
  static const char *const rows[] = {"spc_at.row[0]", "spc_at.row[1]"};
  const cg_brought *b = &p->launch->brought;
  int number = cg_buffer_number(p->launch, buf);
  if (b->place >= 0 && b->place == number) return "spc_at.here";
  if (b->fetched >= 0 && b->fetched == number) return "spc_at.fetched";
  for (int i = 0; i < b->columns; i++)
    if (b->column[i] == number) return columns[i];
  for (int i = 0; i < b->rows; i++)
    if (b->row[i] == number) return rows[i];
  return NULL;
}

/* The shared loop hands its iterations this element. */
static const char *near_name(const cg_printer *p, const ir_expr *load) {
  for (int i = 0; i < p->near_count; i++)
    if (p->near[i].buf == load->buf && ir_expr_equal(p->near[i].offset, load->args[0])) return p->near[i].name;
  return NULL;
}

static void put_load(const cg_printer *p, const ir_expr *e) {
  bool masked = e->arg_count > 1, get = is_narrow_float(e->buf->dtype), b1 = e->buf->dtype == IR_B1;
  const char *brought = brought_name(p, e->buf);
  if (masked || b1) put(p, "(");
  if (masked) {
    put_expr(p, e->args[1], IN_INFIX);
    put(p, " ? ");
  }
  put(p, get && !brought ? "spc_get(" : "");
  if (brought)
    put(p, brought);
  else if (near_name(p, e))
    put(p, near_name(p, e));
  else
    put_buffer_element(p, e->buf, e->args[0]);
  put(p, get && !brought ? ")" : b1 ? " != 0" : "");
  if (masked) {
    put(p, " : ");
    put_zero(p, e->buf->dtype);
  }
  if (masked || b1) put(p, ")");
}

static bool reads_dim(const ir_expr *e) {
  if (e->kind != IR_OP) return e->kind == IR_DIM;
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i]->kind != IR_CONST && !reads_dim(e->args[i])) return false;
  return true;
}

/* A row's or a column's number, several indices as one, or what is left of it when the last of them are taken off. */
static bool is_number(const cg_printer *p, const ir_expr *e) {
  enum { M = 1, N = 2 }; /* parameters of an epilogue: acc, m, n, batch */
  const ir_func *f = p->func;
  if (e->kind == IR_OP) return e->op == IR_OP_DIV && reads_dim(e->args[1]) && is_number(p, e->args[0]);
  return e->kind == IR_VAR && f->params.count > N && (e->var == f->params.at[M] || e->var == f->params.at[N]);
}

/* It is taken apart by a size that is known when the kernel runs. */
static bool takes_apart(const cg_printer *p, const ir_expr *e) {
  return p->func->kind == IR_FUNC_FRAGMENT && p->launch->product.m && (e->op == IR_OP_DIV || e->op == IR_OP_MOD) && reads_dim(e->args[1]) &&
         is_number(p, e->args[0]);
}

static void put_part(const cg_printer *p, const ir_expr *e) {
  put(p, e->op == IR_OP_DIV ? "spc_short_div(" : "spc_short_mod(");
  put_expr(p, e->args[0], IN_CALL);
  put(p, ", ");
  put_expr(p, e->args[1], IN_CALL);
  put(p, ")");
}

static void put_expr(const cg_printer *p, const ir_expr *e, place where) {
  switch (e->kind) {
  case IR_CONST: put_const(p->out, e, where == IN_CALL); break;
  case IR_DIM: put_dim(p, e->dim); break;
  case IR_VAR: put_var(p, e->var); break;
  case IR_LOAD: put_load(p, e); break;
  case IR_OP:
    if (takes_apart(p, e))
      put_part(p, e);
    else if (ir_op_rows[e->op].spelled)
      put_expr(p, ir_op_spelled(arena_of(p), e->op, e->args), where);
    else
      put_op_args(p, e->op, e->dtype, e->args[e->arg_count - 1]->dtype, e->args, where);
    break;
  case IR_CAST:
    if (e->dtype == IR_F32 && !strcmp(cg_value_type(e->args[0]->dtype), "float")) {
      put_expr(p, e->args[0], where); /* a narrow float is a float already */
      break;
    }
    ir_text_printf(p->out, "spc_to_%s(", ir_dtype_text(e->dtype));
    put_expr(p, e->args[0], IN_CALL);
    put(p, ")");
    break;
  case IR_INDEX:
  case IR_ACCESS:
  case IR_REDUCE:
  case IR_SOFTMAX:
  case IR_TOPK:
  case IR_STORED:
    put(p, "/* not of the loop dialect */"); /* does not compile: a defect shows itself */
    break;
  }
}

/* ---- sizes in config structs: dims come from args -------------------------------------------- */
void cg_print_size(ir_arena *arena, const ir_expr *e, ir_text *out) {
  if (e->kind == IR_CONST)
    put_const(out, e, true);
  else if (e->kind == IR_DIM)
    ir_text_printf(out, "args.size[%d]", e->dim->number);
  else if (e->kind == IR_OP) {
    for (const char *c = ir_op_rows[e->op].cuda; *c; c++) {
      if (*c == '%')
        cg_print_size(arena, e->args[*++c - '0'], out);
      else
        ir_text_putn(out, c, 1);
    }
  }
}

const char *cg_size_text(ir_arena *arena, const ir_expr *size) {
  ir_text text = ir_text_new(arena);
  cg_print_size(arena, size, &text);
  return text.data;
}

/* ---- statements ------------------------------------------------------------------------------ */
static void put_block(cg_printer *p, const ir_block *block);

static void indent(const cg_printer *p) {
  for (int i = 0; i < p->depth; i++) put(p, "  ");
}

static void put_body(cg_printer *p, const ir_block *block) {
  put(p, " {\n");
  p->depth++;
  put_block(p, block);
  p->depth--;
  indent(p);
  put(p, "}");
}

static bool is_arithmetic(const ir_expr *e) { /* binds tighter than a comparison */
  return e->kind == IR_OP && ir_op_rows[e->op].result == IR_RESULT_SAME;
}

/* Of a loop whose iterations are dealt out: the first one that is ours, the distance of the next. */
static void put_dealt(const cg_printer *p, const ir_code *c, const char *thread, const char *team) {
  if (c->run == IR_RUN_TEAM)
    ir_text_printf(p->out, "%s<%d>()", team, c->width);
  else
    ir_text_printf(p->out, "%s()", thread);
}

static void put_for(cg_printer *p, const ir_code *c) {
  bool threads = c->run == IR_RUN_THREAD || c->run == IR_RUN_TEAM ||
                 (c->run == IR_RUN_PARALLEL && p->depth == 1);
  if (c->run == IR_RUN_COLUMNS || (c->run == IR_RUN_SHARES && p->columns)) {
    cg_print_columns(p, c);
    return;
  }
  if (c->run == IR_RUN_LANES && p->team) {
    cg_print_shared(p, c);
    return;
  }
  if (cg_is_rows_of_lanes(p, c)) {
    cg_print_rows_of_lanes(p, c);
    return;
  }
  if (cg_print_steps(p, c)) return;
  if (c->run == IR_RUN_TEAM) p->team = c->width;
  if (c->run == IR_RUN_UNROLL) {
    put(p, "#pragma unroll");
    if (c->width) ir_text_printf(p->out, " %d", c->width);
    put(p, "\n");
    indent(p);
  }
  put(p, "for (long long ");
  put_name(p, c->var->name);
  put(p, " = ");
  bool zero = c->lo->kind == IR_CONST && c->lo->i == 0;
  if (!threads || !zero) put_expr(p, c->lo, threads ? IN_INFIX : ALONE);
  if (threads && !zero) put(p, " + ");
  if (threads) put_dealt(p, c, "spc_first", "spc_team");
  put(p, "; ");
  put_name(p, c->var->name);
  put(p, " < ");
  put_expr(p, c->hi, is_arithmetic(c->hi) ? ALONE : IN_INFIX);
  put(p, "; ");
  put_name(p, c->var->name);
  if (threads) {
    put(p, " += ");
    put_dealt(p, c, "spc_stride", "spc_teams");
  } else if (!c->step || (c->step->kind == IR_CONST && c->step->i == 1))
    put(p, "++");
  else {
    put(p, " += ");
    put_expr(p, c->step, ALONE);
  }
  put(p, ")");
  put_body(p, &c->body);
}

static void put_let(const cg_printer *p, const ir_code *c) {
  ir_text_printf(p->out, "%s ", cg_value_type(c->var->dtype));
  put_name(p, c->var->name);
  if (c->value) {
    put(p, " = ");
    put_expr(p, c->value, ALONE);
  }
  put(p, ";");
}

/* A value as it is stored in an element of type t. */
static void put_stored(const cg_printer *p, ir_dtype t, const ir_expr *value) {
  if (is_narrow_float(t)) ir_text_printf(p->out, "spc_put_%s(", ir_dtype_text(t));
  put_expr(p, value, is_narrow_float(t) ? IN_CALL : ALONE);
  if (is_narrow_float(t)) put(p, ")");
}

static ir_expr *combined(const cg_printer *p, const ir_code *c, ir_expr *old) {
  return ir_apply(arena_of(p), c->combine, old, c->value);
}

static void put_atomic(const cg_printer *p, const ir_code *c) {
  ir_dtype t = c->buf->dtype;
  bool native = c->combine == IR_OP_ADD && (t == IR_F32 || t == IR_F64 || t == IR_I32);
  put(p, native ? "atomicAdd(&" : "spc_atomic(&");
  put_buffer_element(p, c->buf, c->offset);
  put(p, ", ");
  if (native)
    put_expr(p, c->value, IN_CALL);
  else {
    ir_var *old = IR_NEW(arena_of(p), ir_var);
    *old = (ir_var){"old_value", t, 1};
    ir_text_printf(p->out, "[&](%s old_bits) { %s old_value = %s(old_bits)%s; return ",
                   ir_dtype_rows[t].cuda, cg_value_type(t), t == IR_B1 ? "" : "spc_get",
                   t == IR_B1 ? " != 0" : "");
    if (!is_narrow_float(t)) ir_text_printf(p->out, "(%s)(", ir_dtype_rows[t].cuda);
    put_stored(p, t, combined(p, c, ir_var_ref(arena_of(p), old)));
    put(p, is_narrow_float(t) ? "; }" : "); }");
  }
  put(p, ");");
}

static void put_store(cg_printer *p, const ir_code *c) {
  if (p->columns && !p->shared && c->buf->kind != IR_BUF_LOCAL) put(p, "if (spc_stores) ");
  if (p->team && !p->shared && c->buf->kind != IR_BUF_LOCAL) /* all threads of the team have the value */
    ir_text_printf(p->out, "if (spc_lane<%d>() == 0) ", p->team);
  if (c->cond) {
    put(p, "if (");
    put_expr(p, c->cond, ALONE);
    put(p, ") ");
  }
  if (c->combine != IR_OP_COUNT && c->atomic) {
    put_atomic(p, c);
    return;
  }
  put_buffer_element(p, c->buf, c->offset);
  put(p, " = ");
  ir_expr *value = c->combine == IR_OP_COUNT
                       ? c->value
                       : combined(p, c, ir_load(arena_of(p), c->buf, c->offset));
  put_stored(p, c->buf->dtype, value);
  put(p, ";");
}

static void put_if(cg_printer *p, const ir_code *c) {
  put(p, "if (");
  put_expr(p, c->cond, ALONE);
  put(p, ")");
  put_body(p, &c->body);
  if (!c->orelse.codes.count) return;
  put(p, " else");
  put_body(p, &c->orelse);
}

static void put_code(cg_printer *p, const ir_code *c) {
  indent(p);
  switch (c->kind) {
  case IR_FOR: put_for(p, c); break;
  case IR_WHILE:
    put(p, "while (");
    put_expr(p, c->cond, ALONE);
    put(p, ")");
    put_body(p, &c->body);
    break;
  case IR_IF: put_if(p, c); break;
  case IR_LET: put_let(p, c); break;
  case IR_SET:
    put_name(p, c->var->name);
    put(p, " = ");
    put_expr(p, c->value, ALONE);
    put(p, ";");
    break;
  case IR_LOCAL:
    ir_text_printf(p->out, "%s ", ir_dtype_rows[c->buf->dtype].cuda);
    put_name(p, c->buf->name);
    ir_text_printf(p->out, "[%lld];", (long long)c->buf->count->i);
    break;
  case IR_STORE: put_store(p, c); break;
  case IR_PREFETCH: ir_text_printf(p->out, "// %s is read ahead", c->buf->name); break;
  case IR_BARRIER: put(p, "__syncthreads();"); break;
  case IR_COMMENT: ir_text_printf(p->out, "// %s", c->text); break;
  }
  put(p, "\n");
}

static void put_block(cg_printer *p, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) put_code(p, block->codes.at[i]);
}

void cg_print_indent(const cg_printer *p) { indent(p); }

void cg_print_expr(const cg_printer *p, const ir_expr *e) { put_expr(p, e, ALONE); }

void cg_print_block(cg_printer *p, const ir_block *block) { put_block(p, block); }

const char *cg_print_buffer(const cg_printer *p, const ir_buf *buf) { return buffer_name(p, buf); }

/* ---- functions ------------------------------------------------------------------------------- */
static void put_buffers(cg_printer *p) {
  for (int i = 0; i < p->func->bufs.count; i++) {
    const ir_buf *buf = p->func->bufs.at[i];
    if (brought_name(p, buf)) continue;
    const char *type = ir_dtype_rows[buf->dtype].cuda;
    const char *constant = ir_block_stores(&p->func->body, buf) ? "" : "const ";
    indent(p);
    ir_text_printf(p->out, "%s%s *%s = (%s%s *)args.buf[%d];\n", constant, type,
                   buffer_name(p, buf), constant, type, cg_buffer_number(p->launch, buf));
  }
}

typedef struct dims {
  const ir_dim *at[64];
  int count;
} dims;

static bool note_dim(void *user, ir_expr *e) {
  dims *d = user;
  if (e->kind != IR_DIM) return true;
  for (int i = 0; i < d->count; i++)
    if (d->at[i] == e->dim) return true;
  if (d->count < IR_COUNT(d->at)) d->at[d->count++] = e->dim;
  return true;
}

static void find_dims(const ir_block *block, dims *d) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *c = block->codes.at[i];
    ir_expr *parts[] = {c->lo, c->hi, c->step, c->cond, c->value, c->offset};
    for (int k = 0; k < IR_COUNT(parts); k++)
      if (parts[k]) ir_expr_walk(parts[k], note_dim, d);
    find_dims(&c->body, d);
    find_dims(&c->orelse, d);
  }
}

static void put_sizes(cg_printer *p) {
  dims d = {.count = 0};
  find_dims(&p->func->body, &d);
  if (p->func->result) ir_expr_walk(p->func->result, note_dim, &d);
  for (int i = 0; i < d.count; i++) {
    indent(p);
    put(p, "const long long ");
    put_dim(p, d.at[i]);
    if (d.at[i]->value >= 0) ir_text_printf(p->out, " = %lld;\n", (long long)d.at[i]->value); /* divisions by it are multiplications */
    else ir_text_printf(p->out, " = args.size[%d];\n", d.at[i]->number);
  }
}

void cg_print_fragment(cg_printer *p) {
  put_buffers(p);
  put_sizes(p);
  put_block(p, &p->func->body);
  indent(p);
  put(p, "return ");
  put_expr(p, p->func->result, ALONE);
  put(p, ";\n");
}

static bool has_thread_loop(const ir_func *func) {
  for (int i = 0; i < func->body.codes.count; i++) {
    const ir_code *c = func->body.codes.at[i];
    if (c->kind == IR_FOR && (c->run == IR_RUN_THREAD || c->run == IR_RUN_TEAM || c->run == IR_RUN_COLUMNS || c->run == IR_RUN_PARALLEL)) return true;
  }
  return false;
}

/* A loop of lanes, or of a thread's steps: team.cuh has several elements under way. */
static bool asks_ahead(const ir_code *c, const void *what) {
  (void)what;
  return c->kind == IR_FOR && (c->run == IR_RUN_LANES || (c->run == IR_RUN_UNROLL && c->width > 1));
}

static bool is_run(const ir_code *c, const void *run) { return c->kind == IR_FOR && c->run == *(const ir_run *)run; }

static bool runs(const ir_func *func, ir_run run) { return ir_block_any(&func->body, is_run, &run); }

static bool has_f64(const ir_func *func) {
  for (int i = 0; i < func->vars.count; i++)
    if (func->vars.at[i]->dtype == IR_F64) return true;
  return false;
}

/* Left alone the assembler keeps to 32 registers, so that as many threads as can be run side by side, each with one load under
 * way: 128 where there are to be several, 64 where columns are, whose sums are words. */
static void put_bounds(ir_text *out, const cg_launch *launch) {
  const int threads_a_unit = runs(launch->func, IR_RUN_COLUMNS) && !has_f64(launch->func) ? 1024 : 512;
  if (ir_block_any(&launch->func->body, asks_ahead, NULL) && launch->threads < threads_a_unit)
    ir_text_printf(out, "__launch_bounds__(%d, %d)", launch->threads, threads_a_unit / launch->threads);
  else ir_text_printf(out, "__launch_bounds__(%d)", launch->threads);
  if (launch->cluster) ir_text_printf(out, " __cluster_dims__(%d)", launch->cluster);
}

void cg_loop_print(ir_arena *arena, const ir_kernel *kernel, const cg_launch *launch,
                   ir_text *out) {
  cg_printer p = {.out = out, .func = launch->func, .launch = launch, .depth = 1};
  bool columns = runs(launch->func, IR_RUN_COLUMNS);
  ir_text_printf(out, "#include \"spc/%s.cuh\"\n\n", columns ? "columns" : "team");
  if (!has_thread_loop(launch->func))
    ir_text_put(out, "// No parallel loop: one thread runs it in order.\n");
  ir_text_put(out, "extern \"C\" __global__ void ");
  put_bounds(out, launch);
  ir_text_printf(out, "\n%s(const __grid_constant__ spc_args args) {\n%s  ptx_%s_grid();\n", launch->entry, cg_leaves_to_front(arena, launch), launch->holds ? "wait" : "follow");
  if (launch->buf_verdict >= 0)
    ir_text_printf(out, "  if (spc_not_meant(args, args.buf[%d], %s, %d)) return;\n", launch->buf_verdict,
                   launch->stage->when.above ? "true" : "false", cg_list_number(kernel, launch->stage->when.list));
  put_buffers(&p);
  put_sizes(&p);
  put_block(&p, &launch->func->body);
  ir_text_put(out, "}\n");
}
