/* api_build_expr.c - expressions of a program that is put together by calls, and how they are
 * written. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdlib.h>

#include "driver/builder.h"
#include "frontend/ast.h"

void drv_build_fault(spc_builder *b, spc_status status, const char *format, ...) {
  va_list args;
  if (b->status) return;
  b->status = status;
  va_start(args, format);
  vsnprintf(b->message, sizeof b->message, format, args);
  va_end(args);
}

static void fault(spc_builder *b, const char *call, const char *field, const char *what) {
  drv_build_fault(b, SPC_INVALID_ARGUMENT, "%s: `%s` %s", call, field, what);
}

bool drv_build_is_name(spc_builder *b, const char *call, const char *field, const char *text) {
  enum { MOST = 256 };
  bool good = text && (isalpha((unsigned char)text[0]) || text[0] == '_');
  size_t length = good ? strlen(text) : 0;
  for (size_t i = 0; i < length; i++)
    good = good && (isalnum((unsigned char)text[i]) || text[i] == '_');
  if (good && length < MOST) return true;
  if (!text)
    fault(b, call, field, "is NULL");
  else
    drv_build_fault(b, SPC_INVALID_ARGUMENT, "%s: `%s` is not a name: \"%.60s\"", call, field,
                    text);
  return false;
}

/* ---- trees ----------------------------------------------------------------------------------- */
static const build_node *node_of(const spc_builder *b, spc_expr e) {
  return e > 0 && e <= b->nodes.count ? &b->nodes.at[e - 1] : NULL;
}

static spc_expr add(spc_builder *b, const char *call, build_node node) {
  for (int i = 0; i < node.count; i++) {
    const build_node *arg = node_of(b, node.args[i]);
    if (!arg) {
      drv_build_fault(b, SPC_INVALID_ARGUMENT, "%s: operand %d is no expression of this builder",
                      call, i);
      return 0;
    }
    if (arg->height >= node.height) node.height = arg->height + 1;
  }
  if (node.height > FE_MOST_HEIGHT) {
    drv_build_fault(b, SPC_INVALID_ARGUMENT,
                    "%s: the expression nests deeper than %d levels; give parts of it a name", call,
                    FE_MOST_HEIGHT);
    return 0;
  }
  IR_PUSH(b->arena, &b->nodes, node);
  return b->nodes.count;
}

static bool take_args(spc_builder *b, const char *call, build_node *node, const spc_expr *args,
                      int count) {
  if (count < 0 || count > SPC_MAX_RANK || (count && !args)) {
    fault(b, call, "count", "is negative or too large, or there are no arguments");
    return false;
  }
  node->count = count;
  if (count) memcpy(node->args, args, sizeof *args * (size_t)count);
  return true;
}

spc_expr spc_build_name(spc_builder *b, const char *name) {
  BUILD_GUARD(b, 0);
  if (!drv_build_is_name(b, "spc_build_name", "name", name)) return 0;
  build_node node = {.kind = BUILD_ATOM, .text = ir_strdup(b->arena, name)};
  return add(b, "spc_build_name", node);
}

spc_expr spc_build_integer(spc_builder *b, int64_t value) {
  BUILD_GUARD(b, 0);
  build_node node = {.kind = BUILD_ATOM};
  if (value == INT64_MIN) {
    fault(b, "spc_build_integer", "value", "has no positive counterpart to write");
    return 0;
  }
  node.text = ir_format_text(b->arena, "%lld", (long long)(value < 0 ? -value : value));
  spc_expr e = add(b, "spc_build_integer", node);
  if (value >= 0) return e;
  build_node minus = {.kind = BUILD_PREFIX, .text = "-", .args = {e}, .count = 1};
  return add(b, "spc_build_integer", minus);
}

const char *drv_build_number(spc_builder *b, double value) {
  char text[40];
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  char *comma = strchr(text, ','); /* the caller's locale */
  if (comma) *comma = '.';
  return ir_strdup(b->arena, text);
}

spc_expr spc_build_number(spc_builder *b, double value) {
  BUILD_GUARD(b, 0);
  build_node node = {.kind = BUILD_ATOM};
  double size = fabs(value);
  node.text = isnan(value) ? "nan" : isinf(value) ? "inf" : drv_build_number(b, size);
  if (!isnan(value) && !isinf(value) && !strpbrk(node.text, ".e"))
    node.text = ir_format_text(b->arena, "%s.0", node.text);
  spc_expr e = add(b, "spc_build_number", node);
  if (isnan(value) || !signbit(value)) return e;
  build_node minus = {.kind = BUILD_PREFIX, .text = "-", .args = {e}, .count = 1};
  return add(b, "spc_build_number", minus);
}

spc_expr spc_build_access(spc_builder *b, const char *name, const spc_expr *subscripts, int count) {
  BUILD_GUARD(b, 0);
  if (!drv_build_is_name(b, "spc_build_access", "name", name)) return 0;
  build_node node = {.kind = BUILD_ACCESS, .text = ir_strdup(b->arena, name)};
  if (!take_args(b, "spc_build_access", &node, subscripts, count)) return 0;
  return add(b, "spc_build_access", node);
}

spc_expr spc_build_unary(spc_builder *b, const char *op, spc_expr x) {
  BUILD_GUARD(b, 0);
  if (!op || (strcmp(op, "-") && strcmp(op, "not"))) {
    fault(b, "spc_build_unary", "op", "is `-` or `not`");
    return 0;
  }
  build_node node = {.kind = BUILD_PREFIX, .text = op[0] == '-' ? "-" : "not ", .count = 1};
  node.args[0] = x;
  return add(b, "spc_build_unary", node);
}

spc_expr spc_build_binary(spc_builder *b, const char *op, spc_expr x, spc_expr y) {
  static const char *const ops[] = {
      "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or"};
  BUILD_GUARD(b, 0);
  build_node node = {.kind = BUILD_INFIX, .count = 2, .args = {x, y}};
  for (int i = 0; op && i < IR_COUNT(ops); i++)
    if (!strcmp(op, ops[i])) node.text = ops[i];
  if (node.text) return add(b, "spc_build_binary", node);
  fault(b, "spc_build_binary", "op", "is one of + - * / % < <= > >= == != and or");
  return 0;
}

spc_expr spc_build_call(spc_builder *b, const char *function, const spc_expr *args, int count) {
  BUILD_GUARD(b, 0);
  if (!drv_build_is_name(b, "spc_build_call", "function", function)) return 0;
  build_node node = {.kind = BUILD_CALL, .text = ir_strdup(b->arena, function)};
  if (!take_args(b, "spc_build_call", &node, args, count)) return 0;
  return add(b, "spc_build_call", node);
}

spc_expr spc_build_reduce(spc_builder *b, const char *reducer, const char *const *indices,
                          int count, spc_expr x) {
  BUILD_GUARD(b, 0);
  if (!drv_build_is_name(b, "spc_build_reduce", "reducer", reducer)) return 0;
  if (count < 1 || !indices) {
    fault(b, "spc_build_reduce", "indices", "is empty");
    return 0;
  }
  ir_text text = ir_text_new(b->arena);
  ir_text_printf(&text, "%s[", reducer);
  for (int i = 0; i < count; i++) {
    if (!drv_build_is_name(b, "spc_build_reduce", "indices", indices[i])) return 0;
    ir_text_printf(&text, "%s%s", i ? "," : "", indices[i]);
  }
  ir_text_put(&text, "] ");
  build_node node = {.kind = BUILD_PREFIX, .text = text.data, .args = {x}, .count = 1};
  return add(b, "spc_build_reduce", node);
}

/* `function[name](x after)`; the calls are named alike, and `what` is the argument that has the
 * name. */
static spc_expr add_bracketed(spc_builder *b, const char *function, const char *what,
                              const char *name, spc_expr x, const char *after) {
  const char *call = ir_format_text(b->arena, "spc_build_%s", function);
  if (!drv_build_is_name(b, call, what, name)) return 0;
  build_node node = {.kind = BUILD_CALL, .args = {x}, .count = 1, .after = after};
  node.text = ir_format_text(b->arena, "%s[%s]", function, name);
  return add(b, call, node);
}

spc_expr spc_build_cast(spc_builder *b, const char *dtype, spc_expr x) {
  BUILD_GUARD(b, 0);
  return add_bracketed(b, "cast", "dtype", dtype, x, NULL);
}

spc_expr spc_build_softmax(spc_builder *b, const char *index, spc_expr x) {
  BUILD_GUARD(b, 0);
  return add_bracketed(b, "softmax", "index", index, x, NULL);
}

spc_expr spc_build_topk(spc_builder *b, const char *index, spc_expr x, int64_t k) {
  BUILD_GUARD(b, 0);
  if (k < 0) {
    fault(b, "spc_build_topk", "k", "is negative");
    return 0;
  }
  return add_bracketed(b, "topk", "index", index, x,
                       ir_format_text(b->arena, ", %lld", (long long)k));
}

/* ---- text ------------------------------------------------------------------------------------ */
static bool put_node(spc_builder *b, const build_node *node, bool is_value);

static bool put_args(spc_builder *b, const build_node *node, bool are_values) {
  for (int i = 0; i < node->count; i++) {
    if (i) ir_text_put(&b->out, ", ");
    if (!put_node(b, node_of(b, node->args[i]), are_values)) return false;
  }
  return true;
}

/* In values what is no primary stands in parentheses; subscripts and sizes have none. */
static bool put_operand(spc_builder *b, spc_expr e, bool is_value, bool bare) {
  const build_node *node = node_of(b, e);
  bool primary = node->kind != BUILD_INFIX && node->kind != BUILD_PREFIX;
  if (!is_value && !primary && !bare) return false;
  if (is_value && !primary) ir_text_put(&b->out, "(");
  if (!put_node(b, node, is_value)) return false;
  if (is_value && !primary) ir_text_put(&b->out, ")");
  return true;
}

static bool is_product(const build_node *n) {
  return n->kind == BUILD_INFIX && (n->text[0] == '*' || n->text[0] == '/' || n->text[0] == '%');
}

static bool put_infix(spc_builder *b, const build_node *node, bool is_value) {
  const build_node *left = node_of(b, node->args[0]), *right = node_of(b, node->args[1]);
  bool product = is_product(node);
  bool bare_left = left->kind == BUILD_INFIX && (!product || is_product(left));
  bool bare_right = is_product(right) && !product;
  if (!put_operand(b, node->args[0], is_value, bare_left)) return false;
  ir_text_printf(&b->out, " %s ", node->text);
  return put_operand(b, node->args[1], is_value, bare_right);
}

static bool put_node(spc_builder *b, const build_node *node, bool is_value) {
  switch (node->kind) {
  case BUILD_ATOM: ir_text_put(&b->out, node->text); return true;
  case BUILD_PREFIX:
    if (!is_value) return false;
    ir_text_put(&b->out, node->text);
    return put_operand(b, node->args[0], true, false);
  case BUILD_INFIX: return put_infix(b, node, is_value);
  case BUILD_ACCESS:
  case BUILD_CALL: break;
  }
  bool access = node->kind == BUILD_ACCESS;
  if (!is_value && !access) return false;
  ir_text_printf(&b->out, "%s%s", node->text, access ? "[" : "(");
  if (!put_args(b, node, is_value && !access)) return false;
  ir_text_printf(&b->out, "%s%s", node->after ? node->after : "", access ? "]" : ")");
  return true;
}

bool drv_build_put(spc_builder *b, const char *call, const char *field, spc_expr e, bool is_value) {
  const build_node *node = node_of(b, e);
  if (!node) {
    fault(b, call, field, "is no expression of this builder");
    return false;
  }
  if (put_node(b, node, is_value)) return true;
  fault(b, call, field,
        "is no subscript or size: those are sums of products of names, accesses and integers");
  return false;
}

bool drv_build_put_list(spc_builder *b, const char *call, const char *field, const spc_expr *list,
                        int count) {
  if (count < 0 || (count && !list)) {
    fault(b, call, field, "is NULL");
    return false;
  }
  ir_text_put(&b->out, "[");
  for (int i = 0; i < count; i++) {
    if (i) ir_text_put(&b->out, ",");
    if (!drv_build_put(b, call, field, list[i], false)) return false;
  }
  ir_text_put(&b->out, "]");
  return true;
}
