/* lower.c - a checked statement becomes an ir_stmt, its target's storage is settled. */
#include "frontend/check.h"

static ir_race race_of(const fe_stmt *stmt) {
  if (!stmt->scatter) return IR_RACE_NONE;
  return stmt->race == IR_RACE_ATOMIC ? IR_RACE_ATOMIC : IR_RACE_FIXED;
}

static ir_reducer combine_of(const fe_stmt *stmt) {
  if (!stmt->scatter) return IR_RED_COUNT;
  return stmt->combine == IR_RED_COUNT ? IR_RED_SUM
                                       : stmt->combine; /* `=` writes each element at most once */
}

/* Numbers alone and small integers stated as float take the target's dtype; a plain copy keeps its
 * own. */
static ir_dtype wanted(const fe_stmt *stmt) {
  ir_dtype target = stmt->symbol->tensor->dtype, value = stmt->value->dtype;
  bool to_float = ir_dtype_is_float(target) && !ir_dtype_is_float(value);
  bool copy = stmt->value->kind == FE_ACCESS && value == target;
  return value == IR_NONE || to_float || copy ? target : IR_NONE;
}

void fe_stmt_lower(fe_check *c, fe_stmt *stmt) {
  ir_tensor *target = stmt->symbol->tensor;
  ir_stmt *s = ir_stmt_new(c->kernel, target);
  for (int i = 0; i < target->rank; i++) s->subs[i] = fe_sub_lower(c, stmt->target->args.at[i]);
  for (int i = 0; i < stmt->free.count; i++) IR_PUSH(c->arena, &s->free, stmt->free.at[i]->index);
  s->combine = combine_of(stmt);
  s->race = race_of(stmt);
  s->acc = stmt->acc;
  s->value = fe_expr_lower(c, stmt, stmt->value, wanted(stmt));
  s->cond = stmt->cond ? fe_cond_lower(c, stmt) : NULL;
  s->fill = stmt->fill ? stmt->fill->number : 0;
  s->span = stmt->span;
  target->fill = s->cond ? s->fill : 0;
  stmt->lowered = s;
  IR_PUSH(c->arena, &c->kernel->stmts, s);
}
