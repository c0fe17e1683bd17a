/* lower_tuples.c - sparse outputs whose pattern is computed, as a list of tuples: the same loops
 * twice, first counting the entries, then writing their coordinates and values in any order.  The
 * way of the generic CUDA kernels, of results that are not a plain assignment, and of those where
 * rounding decides what is stored.
 *
 *     C = A + B as csr     n = 0;  for i { merge over j { n = n + 1 } }             C.count[0] = n
 *                          n = 0;  for i { merge over j { C.at[2n], C.at[2n+1] = i, j
 *                                                         C.value[n] = ..;  n = n + 1 } }
 *
 * An entry is written where the statement stores one (`stores`: stored(A[i,j]) or stored(B[i,j])),
 * whatever its value; a sum of products whose order of loops has the sum outside writes one for
 * every product, and the plan sums those of one place.  Where values decide what is stored, both
 * functions evaluate them, and rounding may differ: then the second one stops at the count of the
 * first, and leaves its own. */
#include "passes/expr.h"
#include "passes/lower.h"
#include "passes/stores.h"

typedef struct assembly {
  const ir_expr *value; /* of an entry */
  ir_expr *stores;      /* NULL: everywhere */
  ir_buf *count, *at, *values;
  ir_var *n;
  ir_expr *room; /* filling: entries that there is room for; NULL: as many as are found */
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
  ir_expr *here = a->stores ? pass_value_condition(s, env, a->stores) : NULL;
  if (here && env->holds && ir_expr_equal(here, env->holds)) here = NULL;
  here = pass_code_and(s, here, within_target(s, env));
  if (a->room)
    here = pass_code_and(s, here, pass_code_op(s, IR_OP_LT, pass_code_ref(s, a->n), a->room));
  ir_block *outer = NULL;
  if (here) ir_open_if(&s->b, here, &outer);
  if (a->fills) write_entry(s, here ? pass_env_copy(s, env) : env, a);
  ir_set(&s->b, a->n, pass_code_add(s, pass_code_ref(s, a->n), pass_code_int(s, 1)));
  if (here) ir_close(&s->b, outer);
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
  bool limits = fills && a->stores && pass_stores_round(a->stores);
  a->room = limits
                ? pass_code_let(s, "room", pass_code_load(s, a->count, pass_code_int(s, 0), NULL))
                : NULL;
  pass_nest(nest, pass_env_new(s));
  if (!fills || limits) pass_code_store(s, a->count, pass_code_int(s, 0), pass_code_ref(s, a->n));
}

/* ---- sums that something follows ------------------------------------------------------------- */
/* relu(sum[k] A[i,k]*B[k,j]): entries of one place must be summed before the epilogue sees them.
 * The sum becomes a tensor and a stage of its own, in the same format; the statement is elementwise
 * from then on. */
static ir_tensor *tensor_of_sums(lower_state *s, const ir_expr *hole) {
  const ir_tensor *target = s->stmt->target;
  const char *name = ir_fresh_name(s->kernel, ir_format_text(s->arena, "%s.sum", target->name));
  ir_tensor *sums = ir_tensor_new(s->kernel, name, IR_ROLE_TEMP, pass_value_dtype(s, hole->dtype));
  sums->rank = target->rank;
  memcpy(sums->dim, target->dim, sizeof sums->dim);
  sums->format = target->format;
  sums->format_why = "a sum of sparse products that an epilogue follows: assembled first";
  return sums;
}

static void split_sum(lower_state *s, const ir_expr *hole) {
  ir_stmt *stmt = s->stmt;
  ir_tensor *sums = tensor_of_sums(s, hole);
  ir_stmt *first = ir_stmt_new(s->kernel, sums);
  memcpy(first->subs, stmt->subs, sizeof first->subs);
  first->free = stmt->free;
  first->acc = stmt->acc;
  first->value = (ir_expr *)hole;
  first->stores = ir_stores_of(s->arena, hole);
  ir_expr *access = ir_access(s->arena, sums, stmt->subs);
  stmt->stores =
      pass_stores_replace_sum(s->arena, ir_stores_of_stmt(s->arena, stmt), hole, pass_stores_at(s->arena, access));
  stmt->value = pass_replace_node(s->arena, stmt->value, hole, access);
  pass_lower_insert(s, first);
}

bool pass_tuples_split(lower_state *s) {
  const ir_expr *hole = NULL;
  lower_loops order = {0};
  if (!pass_scatter_order(s, &hole, &order) || hole->reducer != IR_RED_SUM) return false;
  ir_expr *any = pass_stores_points(s->arena, hole), *yes = pass_code_bool(s, true);
  if (is_linear(s->stmt->value, hole) || !any) return false;
  if (!pass_stores_replace_sum(s->arena, ir_stores_of_stmt(s->arena, s->stmt), hole, yes)) return false;
  split_sum(s, hole);
  return true;
}

/* Entries for products, not for sums: what the sum stores is asked of each product. */
static bool take_products(lower_state *s, const ir_expr *hole, assembly *a) {
  ir_expr *any = pass_stores_points(s->arena, hole);
  if (!any || !is_linear(s->stmt->value, hole)) return false;
  ir_expr *stores = pass_stores_replace(s->arena, a->stores, any, any->args[0]);
  if (!stores) return false;
  a->stores = stores;
  a->value = pass_replace_node(s->arena, s->stmt->value, hole, hole->args[0]);
  return true;
}

static void collect_accesses(lower_state *s, const assembly *a) {
  s->accesses.count = 0;
  if (a->stores) pass_access_collect(s, a->stores);
  pass_access_collect(s, a->value);
  for (int d = 0; d < s->stmt->target->rank; d++) pass_access_collect(s, s->stmt->subs[d]);
}

static void order_gathered(lower_state *s, const assembly *a, lower_loops *order) {
  *order = (lower_loops){0};
  pass_lower_open(s, order);
  collect_accesses(s, a);
  for (int i = 0; i < s->accesses.count; i++) pass_loops_access(order, &s->accesses.at[i]);
  pass_loops_rows(order, a->value);
  if (a->stores) pass_loops_rows(order, a->stores);
  pass_loops_sort(order);
}

void pass_lower_tuples(lower_state *s) {
  assembly a = {.value = s->stmt->value, .stores = ir_stores_of_stmt(s->arena, s->stmt)};
  const ir_expr *hole = NULL;
  lower_loops order = {0};
  if (pass_scatter_order(s, &hole, &order) && take_products(s, hole, &a))
    collect_accesses(s, &a);
  else
    order_gathered(s, &a, &order);
  s->memo_room = pass_heavy_nodes(a.value) + pass_heavy_nodes(a.stores);
  open_workspaces(s, &a);
  ir_expr *value = (ir_expr *)a.value, *zero = pass_value_const(s, value->dtype, 0);
  const ir_expr *root = a.stores ? ir_apply3(s->arena, IR_OP_WHERE, a.stores, value, zero) : value;
  lower_nest nest = {.s = s,
                     .root = a.stores,
                     .only = a.stores,
                     .driver = -1,
                     .index = order.index,
                     .count = order.count,
                     .skips = a.stores != NULL,
                     .skip = 0,
                     .spatial = true,
                     .target = -1,
                     .leaf = entry_leaf,
                     .user = &a};
  if (!a.stores) nest.root = pass_code_bool(s, true);
  one_pass(s, &a, &nest, false);
  nest.root = root;
  one_pass(s, &a, &nest, true);
}
