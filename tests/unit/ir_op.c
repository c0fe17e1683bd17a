/* The op table against its evaluators: zero rules, traits, integers beside floats; reducers. */
#include <criterion/criterion.h>
#include <math.h>

#include "ir/op.h"

static const double samples[] = {-7.5, -2, -1, -0.25, 0.25, 1, 2, 3, 7.5};

static double apply(const ir_op_row *row, double x, double y) {
  return row->eval((double[]){x, y, 0});
}

static bool allowed(const ir_op_row *row, double v) {
  return !(row->traits & IR_BOOL_ONLY) || v == 0 || v == 1;
}

/* What the table says comes out; false: it says nothing. */
static bool predicted(ir_zero rule, double x, double y, double *value) {
  if (rule == IR_ZERO_F) return false;
  *value = rule == IR_ZERO_Z ? 0 : rule == IR_ZERO_X ? x : y;
  return true;
}

static void check(const ir_op_row *row, ir_zero rule, double x, double y) {
  double value;
  if (!allowed(row, x) || !allowed(row, y) || !predicted(rule, x, y, &value)) return;
  cr_assert_eq(apply(row, x, y), value, "%s(%g, %g)", row->mnemonic, x, y);
}

Test(ir_op, zero_rules_agree_with_evaluators) {
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    if (row->arity > 2) continue;
    check(row, row->zero[0], 0, 0);
    for (int i = 0; i < IR_COUNT(samples) && row->arity == 2; i++) {
      check(row, row->zero[1], samples[i], 0);
      check(row, row->zero[2], 0, samples[i]);
    }
  }
}

/* A rule that says F although zero always comes out would densify for nothing. */
Test(ir_op, zero_rules_are_not_too_weak) {
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    if (row->arity > 2) continue;
    bool zero = apply(row, 0, 0) == 0;
    cr_assert_eq(zero, row->zero[0] == IR_ZERO_Z, "%s at zero", row->mnemonic);
    /* eq(x, 0) is 0 for every other x, but 1 at 0: that zero would not be kept anyhow. */
    for (int side = 1; side <= 2 && row->arity == 2 && zero; side++) {
      bool always = true;
      for (int i = 0; i < IR_COUNT(samples); i++) {
        if (!allowed(row, samples[i])) continue;
        double v = side == 1 ? apply(row, samples[i], 0) : apply(row, 0, samples[i]);
        always = always && v == 0;
      }
      cr_assert_eq(always, row->zero[side] == IR_ZERO_Z, "%s case %d", row->mnemonic, side);
    }
  }
}

Test(ir_op, traits_agree_with_evaluators) {
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    cr_assert_eq(row->eval_int == NULL, (row->traits & IR_FLOAT_ONLY) != 0, "%s", row->mnemonic);
    for (int i = 0; i < IR_COUNT(samples); i++)
      for (int k = 0; k < IR_COUNT(samples); k++) {
        double x = samples[i], y = samples[k];
        if (!allowed(row, x) || !allowed(row, y)) continue;
        if (row->traits & IR_COMMUTES) cr_assert_eq(apply(row, x, y), apply(row, y, x));
        if ((row->traits & IR_IDEMPOTENT) && row->arity == 2) cr_assert_eq(apply(row, x, x), x);
        if ((row->traits & IR_IDEMPOTENT) && row->arity == 1)
          cr_assert_eq(apply(row, apply(row, x, 0), 0), apply(row, x, 0));
      }
  }
}

/* Where both are defined on whole numbers, integers and floats say the same; division floors. */
Test(ir_op, integers_agree_with_floats) {
  for (int op = 0; op < IR_OP_COUNT; op++) {
    const ir_op_row *row = &ir_op_rows[op];
    if (!row->eval_int || row->spelled) continue; /* a spelling's own quotients floor */
    for (int64_t x = -4; x <= 4; x++)
      for (int64_t y = -4; y <= 4; y++) {
        if ((op == IR_OP_DIV || op == IR_OP_MOD) && y == 0) continue;
        if (!allowed(row, (double)x) || !allowed(row, (double)y)) continue;
        double f = row->eval((double[]){(double)x, (double)y, 2});
        int64_t i = row->eval_int((int64_t[]){x, y, 2});
        cr_assert_eq((double)i, op == IR_OP_DIV ? floor(f) : f, "%s(%d, %d)", row->mnemonic, (int)x,
                     (int)y);
      }
  }
}

Test(ir_op, integers_never_trap) {
  static const int64_t edges[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX};
  for (int op = 0; op < IR_OP_COUNT; op++)
    for (int i = 0; i < IR_COUNT(edges) && ir_op_rows[op].eval_int; i++)
      for (int k = 0; k < IR_COUNT(edges); k++)
        ir_op_rows[op].eval_int((int64_t[]){edges[i], edges[k], 0});
  cr_assert_eq(ir_op_rows[IR_OP_DIV].eval_int((int64_t[]){5, 0}), 0);
  cr_assert_eq(ir_op_rows[IR_OP_MOD].eval_int((int64_t[]){5, 0}), 0);
  cr_assert_eq(ir_op_rows[IR_OP_MOD].eval_int((int64_t[]){-7, 4}), 1);
}

Test(ir_op, nan_spreads) {
  static const ir_op ops[] = {IR_OP_RELU, IR_OP_RELU2, IR_OP_MIN, IR_OP_MAX, IR_OP_ADD, IR_OP_SIGN};
  for (int i = 0; i < IR_COUNT(ops); i++) {
    const ir_op_row *row = &ir_op_rows[ops[i]];
    cr_assert(isnan(apply(row, NAN, 1)), "%s", row->mnemonic);
    if (row->arity == 2) cr_assert(isnan(apply(row, 1, NAN)), "%s", row->mnemonic);
  }
  cr_assert_eq(apply(&ir_op_rows[IR_OP_NE], NAN, NAN), 1);
  cr_assert_eq(apply(&ir_op_rows[IR_OP_LT], NAN, 1), 0);
}

Test(ir_op, pattern_rules) {
  cr_assert_eq(ir_op_rule(IR_OP_MUL), IR_RULE_INTERSECT);
  cr_assert_eq(ir_op_rule(IR_OP_ADD), IR_RULE_UNION);
  cr_assert_eq(ir_op_rule(IR_OP_MAX), IR_RULE_UNION);
  cr_assert_eq(ir_op_rule(IR_OP_DIV), IR_RULE_LEFT);
  cr_assert_eq(ir_op_rule(IR_OP_EXP), IR_RULE_DENSE);
  cr_assert_eq(ir_op_rule(IR_OP_RELU), IR_RULE_KEEP);
  cr_assert_eq(ir_op_rule(IR_OP_LE), IR_RULE_DENSE);
}

Test(ir_op, names) {
  for (int op = 0; op < IR_OP_COUNT; op++) cr_assert_eq(ir_op_find(ir_op_rows[op].mnemonic), op);
  for (int r = 0; r < IR_RED_COUNT; r++) cr_assert_eq(ir_reducer_find(ir_reducer_rows[r].text), r);
  cr_assert_eq(ir_op_find("relu3"), IR_OP_COUNT);
  cr_assert_eq(ir_reducer_find("mean"), IR_RED_COUNT);
}

Test(ir_op, identities) {
  for (int r = 0; r < IR_RED_COUNT; r++) {
    if (r == IR_RED_ARGMAX) continue;
    const ir_op_row *row = &ir_op_rows[ir_reducer_rows[r].combine];
    double identity = ir_reducer_identity((ir_reducer)r, IR_F32);
    for (int i = 0; i < IR_COUNT(samples); i++)
      if (allowed(row, samples[i])) cr_assert_eq(apply(row, identity, samples[i]), samples[i]);
  }
  cr_assert_eq(ir_reducer_identity_int(IR_RED_MAX, IR_I8), -128);
  cr_assert_eq(ir_reducer_identity_int(IR_RED_MIN, IR_U8), 255);
  cr_assert_eq(ir_reducer_identity_int(IR_RED_MAX, IR_I64), INT64_MIN);
  cr_assert_eq(ir_reducer_identity_int(IR_RED_MIN, IR_I64), INT64_MAX);
  cr_assert_eq(ir_reducer_identity_int(IR_RED_ALL, IR_B1), 1);
}
