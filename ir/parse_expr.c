/* parse_expr.c - expressions of IR text.
 *
 *     expr := conj ("or" conj)*      conj := neg ("and" neg)*     neg  := ["not"] cmp
 *     cmp  := sum [("<"|...) sum]    sum  := term (("+"|"-") term)*
 *     term := unary (("*"|"/"|"%") unary)*     unary := ["-"] primary
 * as in `.spx`; primaries are listed at their readers.  Types follow from the operands; only casts
 * and numbers state theirs.  A minus before a number is part of the number. */
#include <math.h>

#include "ir/parse.h"

static ir_expr *nothing(ir_reader *r) { return ir_int(r->arena, 0); }

/* Sets the height of a node made of parts whose greatest height is `below`. */
static void rise(ir_reader *r, int below) {
  r->height = below + 1;
  if (r->height > IR_MOST_HEIGHT)
    ir_read_fail(r, r->token.span, "an expression with more than %d operations in a row",
                 IR_MOST_HEIGHT);
}

static ir_span span_from(const ir_reader *r, ir_span begin) {
  return (ir_span){r->file, begin.begin, r->token.span.begin};
}

static ir_expr *placed(const ir_reader *r, ir_expr *e, ir_span begin) {
  e->span = span_from(r, begin);
  return e;
}

/* ---- numbers ------------------------------------------------------------------------------- */
/* 12  0.5_f32  1_i32x8  -3  true  inf_bf16 */
static ir_expr *constant(ir_reader *r, ir_dtype dtype, int lanes, double f, uint64_t whole,
                         bool negative) {
  ir_expr *e = ir_node_new(r->arena, IR_CONST, dtype, lanes, 0);
  if (ir_dtype_is_float(dtype))
    e->f = negative ? -f : f;
  else
    e->i = negative ? (int64_t)(0 - whole) : (int64_t)whole;
  r->height = 1;
  return e;
}

static ir_expr *read_number(ir_reader *r, bool negative) {
  ir_token t = r->token;
  ir_dtype dtype = t.suffix ? t.suffix : IR_I64;
  bool is_float = ir_dtype_is_float(dtype);
  if (t.kind == IR_TOKEN_FLOAT && !is_float)
    ir_read_fail(r, t.span, "a number with a fraction states its type, as in `%s_f32`", t.text);
  if (!is_float && t.whole > (uint64_t)INT64_MAX + negative)
    ir_read_fail(r, t.span, "this number does not fit 64 bits");
  ir_read_token(r);
  return constant(r, dtype, t.lanes, t.number, t.whole, negative);
}

static bool at_special(const ir_reader *r) {
  const char *text = r->token.text;
  if (r->token.kind != IR_TOKEN_NAME) return false;
  if (strncmp(text, "inf", 3) && strncmp(text, "nan", 3)) return false;
  return text[3] == '_' || text[3] == 0;
}

static ir_expr *read_special(ir_reader *r, bool negative) {
  const char *text = r->token.text;
  ir_dtype dtype = IR_NONE;
  int lanes = 1;
  if (text[3] != '_' || !ir_parse_type(text + 4, &dtype, &lanes) || !ir_dtype_is_float(dtype))
    ir_read_fail(r, r->token.span, "`%.3s` states its float type, as in `%.3s_f32`", text, text);
  double value = text[0] == 'i' ? (double)INFINITY : (double)NAN;
  ir_read_token(r);
  return constant(r, dtype ? dtype : IR_F32, lanes, value, 0, negative);
}

static bool at_number(const ir_reader *r) {
  return r->token.kind == IR_TOKEN_INT || r->token.kind == IR_TOKEN_FLOAT || at_special(r);
}

static ir_expr *read_signed(ir_reader *r, bool negative) {
  return at_special(r) ? read_special(r, negative) : read_number(r, negative);
}

/* ---- calls --------------------------------------------------------------------------------- */
/* relu(x)  min(x, y)  where(c, x, y) */
static ir_expr *read_op_call(ir_reader *r, ir_op op) {
  ir_expr *args[3] = {nothing(r), nothing(r), nothing(r)};
  int arity = ir_op_rows[op].arity, height = 0;
  ir_read_expect(r, "(");
  for (int i = 0; i < arity; i++) {
    if (i) ir_read_expect(r, ",");
    args[i] = ir_read_expr(r);
    if (r->height > height) height = r->height;
  }
  ir_read_expect(r, ")");
  rise(r, height);
  return ir_op_new(r->arena, op, args, arity);
}

static ir_expr *read_wrapped(ir_reader *r) {
  ir_read_expect(r, "(");
  ir_expr *e = ir_read_expr(r);
  rise(r, r->height);
  return e;
}

/* cast[f32](x)  cast[f32x8](x) */
static ir_expr *read_cast(ir_reader *r) {
  int lanes = 1;
  ir_read_expect(r, "[");
  ir_dtype dtype = ir_read_type(r, &lanes);
  ir_read_expect(r, "]");
  ir_expr *e = ir_node_new(r->arena, IR_CAST, dtype, lanes, 1);
  e->args[0] = read_wrapped(r);
  ir_read_expect(r, ")");
  return e;
}

/* sum[i, j](x); in functions sum[](x), over the lanes of a vector */
static ir_expr *read_reduce(ir_reader *r, ir_reducer reducer) {
  IR_VEC(ir_index *) bound = {0};
  ir_read_expect(r, "[");
  while (!ir_read_done(r, "]")) {
    ir_index *index = ir_read_index(r);
    if (index && ir_read_room(r, bound.count)) IR_PUSH(r->arena, &bound, index);
    if (!ir_read_at(r, "]")) ir_read_expect(r, ",");
  }
  ir_read_expect(r, "]");
  ir_expr *e = ir_reduce(r->arena, reducer, bound.at, bound.count, read_wrapped(r));
  ir_read_expect(r, ")");
  return e;
}

/* softmax[j](x)  topk[j](x, 5) */
static ir_expr *read_row_op(ir_reader *r, ir_kind kind) {
  ir_read_expect(r, "[");
  ir_index *along = ir_read_index(r);
  ir_read_expect(r, "]");
  ir_expr *body = read_wrapped(r);
  int64_t k = 0;
  if (kind == IR_TOPK) ir_read_expect(r, ",");
  if (kind == IR_TOPK) k = ir_read_int(r, 1, INT64_MAX);
  ir_read_expect(r, ")");
  return along ? ir_row_op(r->arena, kind, along, body, k) : body;
}

/* stored(x[i, j]) */
static ir_expr *read_stored(ir_reader *r) {
  ir_read_expect(r, "(");
  ir_expr *e = ir_node_new(r->arena, IR_STORED, IR_B1, 1, 1);
  e->args[0] = ir_read_expr(r);
  rise(r, r->height);
  ir_read_expect(r, ")");
  return e;
}

/* ---- memory -------------------------------------------------------------------------------- */
void ir_read_subs(ir_reader *r, int rank, ir_expr **subs, const char *of, ir_span span) {
  int count = 0, height = 0;
  ir_read_expect(r, "[");
  while (!ir_read_done(r, "]")) {
    ir_expr *sub = ir_read_expr(r);
    if (count < rank) subs[count] = sub;
    if (++count > IR_MAX_RANK) break;
    if (r->height > height) height = r->height;
    if (!ir_read_at(r, "]")) ir_read_expect(r, ",");
  }
  ir_read_expect(r, "]");
  if (count != rank)
    ir_read_fail(r, span, "`%s` has %d dimension%s, here are %d subscripts", of, rank,
                 rank == 1 ? "" : "s", count);
  for (int i = count; i < rank; i++) subs[i] = nothing(r);
  rise(r, height);
}

/* x[i, j] */
static ir_expr *read_access(ir_reader *r, const char *name, ir_span span) {
  ir_expr *subs[IR_MAX_RANK];
  ir_tensor *tensor = r->kernel ? ir_tensor_named(r->kernel, name) : NULL;
  if (!tensor) {
    int count = r->kernel ? r->kernel->tensors.count : 0;
    const char **known = IR_NEW_ARRAY(r->arena, const char *, count + 1);
    for (int i = 0; i < count; i++) known[i] = r->kernel->tensors.at[i]->name;
    ir_read_unknown(r, span, "tensor", name, known, count);
    return nothing(r);
  }
  ir_read_subs(r, tensor->rank, subs, name, span);
  return ir_access(r->arena, tensor, subs);
}

/* @b[o]  @b<8>[o]  @b[o, mask] */
static ir_expr *read_load(ir_reader *r) {
  int lanes = 0;
  ir_buf *buf = ir_read_buf(r);
  if (ir_read_if(r, "<")) {
    lanes = (int)ir_read_int(r, 1, IR_MOST_LANES);
    ir_read_expect(r, ">");
  }
  ir_read_expect(r, "[");
  ir_expr *offset = ir_read_expr(r);
  int height = r->height;
  ir_expr *mask = ir_read_if(r, ",") ? ir_read_expr(r) : NULL;
  ir_read_expect(r, "]");
  rise(r, r->height > height ? r->height : height);
  if (!buf) return nothing(r);
  ir_expr *load = ir_load(r->arena, buf, offset);
  if (lanes) load->lanes = lanes;
  if (mask) load->args[load->arg_count++] = mask;
  return load;
}

/* %v */
static ir_expr *read_local(ir_reader *r) {
  ir_var *var = ir_read_var(r);
  r->height = 1;
  return var ? ir_var_ref(r->arena, var) : nothing(r);
}

/* ---- primaries ----------------------------------------------------------------------------- */
static ir_expr *read_truth(ir_reader *r) {
  r->height = 1;
  bool value = ir_read_at(r, "true");
  ir_read_token(r);
  return ir_const_i(r->arena, IR_B1, value);
}

static ir_expr *read_named(ir_reader *r) {
  ir_token t = r->token;
  const char *name = ir_read_name(r);
  bool word = t.kind == IR_TOKEN_NAME;
  if (word && ir_read_at(r, "(")) {
    ir_op op = ir_op_find(name);
    if (op != IR_OP_COUNT) return read_op_call(r, op);
    if (!strcmp(name, "stored")) return read_stored(r);
  }
  if (word && ir_read_at(r, "[")) {
    ir_reducer reducer = ir_reducer_find(name);
    if (reducer != IR_RED_COUNT) return read_reduce(r, reducer);
    if (!strcmp(name, "cast")) return read_cast(r);
    if (!strcmp(name, "softmax")) return read_row_op(r, IR_SOFTMAX);
    if (!strcmp(name, "topk")) return read_row_op(r, IR_TOPK);
  }
  if (ir_read_at(r, "[")) return read_access(r, name, t.span);
  r->height = 1;
  return ir_read_reference(r, name, t.span);
}

static ir_expr *read_primary(ir_reader *r) {
  ir_span begin = r->token.span;
  if (at_number(r)) return placed(r, read_signed(r, false), begin);
  if (ir_read_at(r, "true") || ir_read_at(r, "false")) return placed(r, read_truth(r), begin);
  if (ir_read_at(r, "%")) return placed(r, read_local(r), begin);
  if (ir_read_at(r, "@")) return placed(r, read_load(r), begin);
  if (ir_read_if(r, "(")) {
    ir_expr *e = ir_read_expr(r);
    ir_read_expect(r, ")");
    return e;
  }
  return placed(r, read_named(r), begin);
}

static ir_expr *read_unary(ir_reader *r) {
  ir_span begin = r->token.span;
  if (!ir_read_if(r, "-")) return read_primary(r);
  if (at_number(r)) return placed(r, read_signed(r, true), begin);
  ir_expr *operand = read_primary(r);
  rise(r, r->height);
  return placed(r, ir_op_new(r->arena, IR_OP_NEG, &operand, 1), begin);
}

/* ---- infix --------------------------------------------------------------------------------- */
typedef struct infix {
  const char *mark;
  ir_op op;
} infix;
typedef ir_expr *reader(ir_reader *r);

static const infix terms[] = {
    {"*", IR_OP_MUL}, {"/", IR_OP_DIV}, {"%", IR_OP_MOD}, {NULL, IR_OP_COUNT}};
static const infix sums[] = {{"+", IR_OP_ADD}, {"-", IR_OP_SUB}, {NULL, IR_OP_COUNT}};
static const infix compares[] = {{"<", IR_OP_LT},    {"<=", IR_OP_LE}, {">", IR_OP_GT},
                                 {">=", IR_OP_GE},   {"==", IR_OP_EQ}, {"!=", IR_OP_NE},
                                 {NULL, IR_OP_COUNT}};
static const infix conjunction[] = {{"and", IR_OP_AND}, {NULL, IR_OP_COUNT}};
static const infix disjunction[] = {{"or", IR_OP_OR}, {NULL, IR_OP_COUNT}};

static ir_op take_infix(ir_reader *r, const infix *known) {
  while (known->mark && !ir_read_if(r, known->mark)) known++;
  return known->op;
}

static ir_expr *read_chain(ir_reader *r, reader *part, const infix *known, int most) {
  ir_span begin = r->token.span;
  ir_expr *left = part(r);
  for (int n = 0; n < most; n++) {
    int height = r->height;
    ir_op op = take_infix(r, known);
    if (op == IR_OP_COUNT) break;
    ir_expr *right = part(r);
    rise(r, r->height > height ? r->height : height);
    left = placed(r, ir_op_new(r->arena, op, (ir_expr *[]){left, right}, 2), begin);
    if (r->failed) break;
  }
  return left;
}

static ir_expr *read_term(ir_reader *r) {
  return read_chain(r, read_unary, terms, IR_MOST_HEIGHT + 1);
}
static ir_expr *read_sum(ir_reader *r) {
  return read_chain(r, read_term, sums, IR_MOST_HEIGHT + 1);
}
static ir_expr *read_compare(ir_reader *r) { return read_chain(r, read_sum, compares, 1); }

static ir_expr *read_not(ir_reader *r) {
  ir_span begin = r->token.span;
  if (!ir_read_if(r, "not")) return read_compare(r);
  ir_expr *operand = read_compare(r);
  rise(r, r->height);
  return placed(r, ir_op_new(r->arena, IR_OP_NOT, &operand, 1), begin);
}

static ir_expr *read_and(ir_reader *r) {
  return read_chain(r, read_not, conjunction, IR_MOST_HEIGHT + 1);
}

ir_expr *ir_read_expr(ir_reader *r) {
  ir_read_enter(r);
  ir_expr *e = read_chain(r, read_and, disjunction, IR_MOST_HEIGHT + 1);
  ir_read_leave(r);
  return e;
}
