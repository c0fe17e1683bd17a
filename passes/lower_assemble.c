/* lower_assemble.c - sparse outputs whose pattern is computed: the same loops twice, first counting
 * the entries, then writing their coordinates and values.
 *
 *     C = A + B as csr     n = 0;  for i { merge over j { n = n + 1 } }                 C.count[0]
 * = n n = 0;  for i { merge over j { C.at[2n], C.at[2n+1] = i, j; C.value[n] = .. } }
 *
 * An entry is written where the pattern rule says, whatever its value; a product of sparse operands
 * writes one for every pair that meets, and the plan sums those of one place. */
#include "passes/expr.h"
#include "passes/lower.h"

typedef struct assembly {
  const ir_expr *value; /* of an entry */
  ir_buf *count, *at, *values;
  ir_var *n;
  bool fills;
} assembly;

static void write_entry(lower_state *s, lower_env *env, assembly *a) {
  int rank = s->stmt->target->rank;
  ir_expr *n = pass_code_ref(s, a->n), *base = pass_code_mul(s, n, pass_code_int(s, rank));
  ir_expr *value = pass_value(s, env, a->value);
  for (int d = 0; d < rank; d++)
    pass_code_store(s, a->at, pass_code_add(s, base, pass_code_int(s, d)),
                    pass_value_subscript(s, env, s->stmt->subs[d]));
  pass_code_store(s, a->values, n, value);
}

static ir_expr *within_target(lower_state *s, lower_env *env) {
  ir_expr *within = NULL;
  for (int d = 0; d < s->stmt->target->rank; d++) {
    if (s->stmt->subs[d]->kind == IR_INDEX) continue;
    ir_expr *at = pass_code_let(s, "at", pass_value_subscript(s, env, s->stmt->subs[d]));
    within = pass_code_and(s, within, pass_code_op(s, IR_OP_GE, at, pass_code_int(s, 0)));
    within = pass_code_and(s, within, pass_code_op(s, IR_OP_LT, at, s->stmt->target->dim[d]));
  }
  return within;
}

static void entry_leaf(lower_nest *nest, lower_env *env) {
  lower_state *s = nest->s;
  assembly *a = nest->user;
  ir_expr *stored = pass_value_stored(s, env, a->value);
  if (stored && env->holds && ir_expr_equal(stored, env->holds)) stored = NULL;
  if (s->stmt->cond) stored = pass_code_and(s, stored, pass_value_condition(s, env, s->stmt->cond));
  stored = pass_code_and(s, stored, within_target(s, env));
  ir_block *outer = NULL;
  if (stored) ir_open_if(&s->b, stored, &outer);
  if (a->fills) write_entry(s, stored ? pass_env_copy(s, env) : env, a);
  ir_set(&s->b, a->n, pass_code_add(s, pass_code_ref(s, a->n), pass_code_int(s, 1)));
  if (stored) ir_close(&s->b, outer);
}

/* ---- what an entry is ------------------------------------------------------------------------ */
/* The statement is a product around its sum: the factors can go inside, entries of one place add
 * up. */
static bool is_linear(const ir_expr *e, const ir_expr *hole) {
  if (e == hole) return hole->reducer == IR_RED_SUM;
  if (e->kind == IR_CAST)
    return ir_dtype_is_float(e->dtype) == ir_dtype_is_float(e->args[0]->dtype) &&
           is_linear(e->args[0], hole);
  if (e->kind != IR_OP || (e->op != IR_OP_MUL && e->op != IR_OP_NEG)) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (is_linear(e->args[i], hole)) return true;
  return false;
}

static bool needs_values(const ir_expr *e) {
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK) return true;
  if (e->kind == IR_OP && e->op == IR_OP_WHERE) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (needs_values(e->args[i])) return true;
  return false;
}

static void open_workspaces(lower_state *s, assembly *a) {
  const char *name = s->stmt->target->name;
  a->count = pass_code_workspace(s, ir_format_text(s->arena, "%s.count", name), IR_I64,
                                 pass_code_int(s, 1));
  a->at = pass_code_workspace(s, ir_format_text(s->arena, "%s.at", name), IR_I64, NULL);
  a->values = pass_code_workspace(s, ir_format_text(s->arena, "%s.value", name),
                                  pass_value_dtype(s, s->stmt->target->dtype), NULL);
}

static void one_pass(lower_state *s, assembly *a, lower_nest *nest, bool fills) {
  pass_code_function(s, fills ? "fill" : "count");
  a->fills = fills;
  a->n = ir_let(&s->b, "n", IR_I64, pass_code_int(s, 0));
  s->hits = true;
  s->only_hits =
      !fills && !needs_values(a->value) && (!s->stmt->cond || pass_is_elementwise(s->stmt->cond));
  pass_nest(nest, pass_env_new(s));
  s->hits = s->only_hits = false;
  if (!fills) pass_code_store(s, a->count, pass_code_int(s, 0), pass_code_ref(s, a->n));
}

/* ---- sums that something follows ------------------------------------------------------------- */
/* relu(sum[k] A[i,k]*B[k,j]): entries of one place must be summed before the epilogue sees them.
 * The sum becomes a tensor and a stage of its own, in the same format; the statement is elementwise
 * from then on. */
static void split_sum(lower_state *s, const ir_expr *hole) {
  ir_stmt *stmt = s->stmt;
  const ir_tensor *target = stmt->target;
  const char *name = ir_fresh_name(s->kernel, ir_format_text(s->arena, "%s.sum", target->name));
  ir_tensor *sums = ir_tensor_new(s->kernel, name, IR_ROLE_TEMP, pass_value_dtype(s, hole->dtype));
  sums->rank = target->rank;
  memcpy(sums->dim, target->dim, sizeof sums->dim);
  sums->format = target->format;
  sums->format_why = "a sum of sparse products that an epilogue follows: assembled first";
  ir_stmt *first = ir_stmt_new(s->kernel, sums);
  memcpy(first->subs, stmt->subs, sizeof first->subs);
  first->free = stmt->free;
  first->acc = stmt->acc;
  first->value = (ir_expr *)hole;
  stmt->value =
      pass_replace_node(s->arena, stmt->value, hole, ir_access(s->arena, sums, stmt->subs));
  pass_lower_insert(s, first);
}

bool pass_assembled_splits(lower_state *s) {
  const ir_expr *hole = NULL;
  lower_loops order = {0};
  if (!pass_scatter_order(s, &hole, &order) || hole->reducer != IR_RED_SUM) return false;
  if (is_linear(s->stmt->value, hole)) return false;
  split_sum(s, hole);
  return true;
}

void pass_lower_assembled(lower_state *s) {
  assembly a = {.value = s->stmt->value};
  const ir_expr *hole = NULL;
  lower_loops order = {0}, gathered = {0};
  if (pass_scatter_order(s, &hole, &order) && is_linear(s->stmt->value, hole)) {
    a.value = pass_replace_node(s->arena, s->stmt->value, hole, hole->args[0]);
    s->accesses.count = 0;
    if (s->stmt->cond) pass_access_collect(s, s->stmt->cond);
    pass_access_collect(s, a.value);
  } else {
    pass_lower_open(s, &gathered);
    for (int i = 0; i < s->accesses.count; i++) pass_loops_access(&gathered, &s->accesses.at[i]);
    pass_loops_rows(&gathered, s->stmt->value);
    pass_loops_sort(&gathered);
    order = gathered;
  }
  open_workspaces(s, &a);
  ir_expr *root = (ir_expr *)a.value;
  if (s->stmt->cond)
    root =
        ir_apply3(s->arena, IR_OP_WHERE, s->stmt->cond, root, pass_value_const(s, root->dtype, 0));
  lower_nest nest = {.s = s,
                     .root = root,
                     .driver = -1,
                     .index = order.index,
                     .count = order.count,
                     .skips = true,
                     .skip = 0,
                     .spatial = true,
                     .target = -1,
                     .leaf = entry_leaf,
                     .user = &a};
  one_pass(s, &a, &nest, false);
  one_pass(s, &a, &nest, true);
}
