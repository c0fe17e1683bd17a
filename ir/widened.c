/* widened.c - see widened.h. */
#include "ir/widened.h"

typedef struct found {
  ir_expr *reduce;
  int heavy;
} found;

static bool note_heavy(void *user, ir_expr *node) {
  found *f = user;
  if (node->kind != IR_REDUCE && node->kind != IR_SOFTMAX && node->kind != IR_TOPK) return true;
  f->reduce = node->kind == IR_REDUCE ? node : NULL;
  f->heavy++;
  return false;
}

/* A conversion that loses nothing: a product may be formed in front of it or behind. */
static bool keeps_values(const ir_expr *cast) {
  ir_dtype from = cast->args[0]->dtype, to = cast->dtype;
  if (!ir_dtype_is_float(to)) return false;
  return from == IR_I8 || (ir_dtype_is_float(from) && ir_dtype_rows[to].bits > ir_dtype_rows[from].bits);
}

static bool is_scale(const ir_expr *access, const ir_index *k, int64_t *group) {
  int groups = 0;
  for (int d = 0; d < access->arg_count; d++) {
    const ir_expr *sub = access->args[d];
    if (sub->kind == IR_INDEX) {
      if (sub->index == k) return false;
      continue;
    }
    bool quotient = sub->kind == IR_OP && sub->op == IR_OP_DIV && ir_is_bare(sub->args[0], k) && sub->args[1]->kind == IR_CONST;
    if (!quotient || sub->args[1]->i <= 0) return false;
    *group = sub->args[1]->i;
    groups++;
  }
  return groups == 1;
}

static bool take_factor(ir_widened *w, ir_expr *e) {
  const ir_index *k = w->sum->bound[0];
  int64_t group = 0;
  if (e->kind != IR_ACCESS) return false;
  ir_dtype t = e->tensor->dtype;
  if (t == IR_I8) return w->wide ? false : (w->wide = e, true);
  if (!ir_dtype_is_float(t) || t == IR_F64) return false;
  if (!w->scale && is_scale(e, k, &group)) return w->scale = e, w->group = group, true;
  return !w->factor && (t == IR_BF16 || t == IR_F16) ? (w->factor = e, true) : false;
}

static bool take_factors(ir_widened *w, ir_expr *e) {
  for (; e->kind == IR_CAST; e = e->args[0])
    if (!keeps_values(e)) return false;
  if (e->kind != IR_OP || e->op != IR_OP_MUL) return take_factor(w, e);
  return take_factors(w, e->args[0]) && take_factors(w, e->args[1]);
}

bool ir_widened_of(const ir_stmt *stmt, ir_widened *out) {
  found f = {0};
  *out = (ir_widened){.group = 0};
  ir_expr_walk(stmt->value, note_heavy, &f);
  if (f.heavy != 1 || !f.reduce || f.reduce->reducer != IR_RED_SUM || f.reduce->bound_count != 1) return false;
  if (f.reduce->bound[0]->offsets) return false;
  out->sum = f.reduce;
  return take_factors(out, f.reduce->args[0]) && out->factor && out->wide;
}

int ir_widened_group_dim(const ir_widened *w) {
  for (int d = 0; w->scale && d < w->scale->arg_count; d++)
    if (w->scale->args[d]->kind != IR_INDEX) return d;
  return -1;
}

bool ir_widened_roles(const ir_stmt *stmt, const ir_widened *w, ir_roles *out) {
  if (!ir_roles_of(stmt, w->factor, w->wide, w->sum->bound, w->sum->bound_count, out)) return false;
  for (int d = 0; w->scale && d < w->scale->arg_count; d++) {
    const ir_expr *sub = w->scale->args[d];
    if (sub->kind != IR_INDEX) continue;
    bool own = out->n.count == 1 && out->n.at[0] == sub->index;
    if (!own && !ir_flat_has(&out->batch, sub->index)) return false;
  }
  return true;
}
