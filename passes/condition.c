/* condition.c - conditions as conjunctions of terms. NULL is "true everywhere". */
#include "passes/expr.h"

void pass_terms_of(ir_arena *arena, ir_expr *condition, pass_terms *terms) {
  if (condition == NULL) return;
  if (condition->kind == IR_OP && condition->op == IR_OP_AND) {
    pass_terms_of(arena, condition->args[0], terms);
    pass_terms_of(arena, condition->args[1], terms);
    return;
  }
  for (int i = 0; i < terms->list.count; i++)
    if (ir_expr_equal(terms->list.at[i], condition)) return;
  IR_PUSH(arena, &terms->list, condition);
}

static ir_expr *join_terms(ir_arena *arena, const pass_terms *terms) {
  ir_expr *all = NULL;
  for (int i = 0; i < terms->list.count; i++) {
    ir_expr *term = terms->list.at[i];
    all = all == NULL ? term : ir_apply(arena, IR_OP_AND, all, term);
  }
  return all;
}

bool pass_is_false(const ir_expr *condition) {
  return condition != NULL && condition->kind == IR_CONST && condition->i == 0;
}

ir_expr *pass_false(ir_arena *arena) { return ir_const_i(arena, IR_B1, 0); }

/* ---- implication: complete for terms and disjunctions of them, sound for everything else ----- */
static bool is_op(const ir_expr *e, ir_op op) { return e->kind == IR_OP && e->op == op; }

static bool term_implies(ir_arena *arena, ir_expr *term, ir_expr *want) {
  if (ir_expr_equal(term, want)) return true;
  if (!is_op(term, IR_OP_OR)) return false;
  return pass_implies(arena, term->args[0], want) && pass_implies(arena, term->args[1], want);
}

/* Terms of `have` but number `without` imply the term `want`. */
static bool terms_imply(ir_arena *arena, const pass_terms *have, ir_expr *want, int without) {
  for (int i = 0; i < have->list.count; i++)
    if (i != without && term_implies(arena, have->list.at[i], want)) return true;
  if (is_op(want, IR_OP_OR))
    return terms_imply(arena, have, want->args[0], without) ||
           terms_imply(arena, have, want->args[1], without);
  return is_op(want, IR_OP_AND) && terms_imply(arena, have, want->args[0], without) &&
         terms_imply(arena, have, want->args[1], without);
}

bool pass_implies(ir_arena *arena, ir_expr *a, ir_expr *b) {
  pass_terms have = {0}, want = {0};
  if (pass_is_false(a)) return true;
  pass_terms_of(arena, a, &have);
  pass_terms_of(arena, b, &want);
  for (int i = 0; i < want.list.count; i++)
    if (!terms_imply(arena, &have, want.list.at[i], -1)) return false;
  return true;
}

ir_expr *pass_and(ir_arena *arena, ir_expr *a, ir_expr *b) {
  if (a == NULL) return b;
  if (b == NULL || pass_is_false(a)) return a;
  if (pass_is_false(b)) return b;
  pass_terms terms = {0};
  pass_terms_of(arena, a, &terms);
  pass_terms_of(arena, b, &terms);
  for (int i = terms.list.count - 1; i >= 0; i--) {
    if (!terms_imply(arena, &terms, terms.list.at[i], i)) continue;
    for (int j = i + 1; j < terms.list.count; j++) terms.list.at[j - 1] = terms.list.at[j];
    terms.list.count--;
  }
  return join_terms(arena, &terms);
}

ir_expr *pass_or(ir_arena *arena, ir_expr *a, ir_expr *b) {
  if (a == NULL || b == NULL) return NULL;
  if (pass_is_false(a) || pass_implies(arena, a, b)) return b;
  if (pass_is_false(b) || pass_implies(arena, b, a)) return a;
  return ir_apply(arena, IR_OP_OR, a, b);
}

ir_expr *pass_terms_within(ir_arena *arena, ir_expr *condition, const pass_indices *set) {
  pass_terms all = {0}, kept = {0};
  pass_terms_of(arena, condition, &all);
  for (int i = 0; i < all.list.count; i++) {
    pass_indices used = {0};
    bool inside = true;
    pass_indices_of(arena, all.list.at[i], &used);
    for (int j = 0; j < used.list.count; j++) inside &= pass_indices_has(set, used.list.at[j]);
    if (inside) IR_PUSH(arena, &kept.list, all.list.at[i]);
  }
  return join_terms(arena, &kept);
}
