/* bsr.c - see bsr.h. */
#include "ir/bsr.h"

static bool is_level(const ir_level *l, ir_level_kind kind, ir_level_map map) { return l->kind == kind && l->map == map; }

bool ir_bsr_of(const ir_format *format, ir_bsr *out) {
  if (!format || format->rank != 2 || format->level_count != 4) return false;
  const ir_level *l = format->level;
  if (!is_level(&l[0], IR_LEVEL_DENSE, IR_MAP_DIV) || !is_level(&l[1], IR_LEVEL_COMPRESSED, IR_MAP_DIV)) return false;
  if (!is_level(&l[2], IR_LEVEL_DENSE, IR_MAP_MOD) || !is_level(&l[3], IR_LEVEL_DENSE, IR_MAP_MOD)) return false;
  *out = (ir_bsr){.outer_dim = l[0].dim, .last_dim = l[3].dim};
  for (int i = 0; i < 2; i++) out->factor[l[i].dim] = l[i].factor;
  return l[0].dim != l[1].dim && l[2].dim != l[3].dim;
}

typedef struct found {
  ir_expr *operand;
  int sparse; /* accesses of tensors that leave elements out */
} found;

static bool leaves_out(const ir_tensor *tensor) {
  const ir_format *format = ir_tensor_owner(tensor)->format;
  return format && ir_format_lists_entries(format);
}

static bool note_access(void *user, ir_expr *e) {
  found *f = user;
  if (e->kind != IR_ACCESS || !leaves_out(e->tensor)) return true;
  f->operand = e;
  f->sparse++;
  return true;
}

ir_expr *ir_bsr_operand(const ir_stmt *stmt, ir_bsr *out) {
  found f = {0};
  ir_expr_walk(stmt->value, note_access, &f);
  bool own = f.sparse == 1 && f.operand->tensor->role == IR_ROLE_IN && !f.operand->tensor->like; /* its blocks are its own, and there */
  return own && ir_bsr_of(f.operand->tensor->format, out) ? f.operand : NULL;
}

const char *ir_bsr_misfit(const ir_bsr *bsr, int k_dim) {
  for (int d = 0; d < 2; d++)
    if (bsr->factor[d] % IR_BSR_BOX) return "its blocks are no multiples of 64 x 64, which boxes of the copy engine are";
  return bsr->factor[k_dim] > IR_BSR_MOST ? "its blocks are longer than 2048" : NULL;
}

/* ---- results ----------------------------------------------------------------------------------- */
typedef struct asking {
  const ir_stmt *stmt;
  const ir_tensor *owner;
  bool alone, fits; /* alone: nothing else may be asked either */
} asking;

static bool ask_place(void *user, ir_expr *e) {
  asking *a = user;
  if (e->kind != IR_ACCESS) return true;
  if (!leaves_out(e->tensor)) return a->fits &= !a->alone, true;
  a->fits &= ir_tensor_owner(e->tensor) == a->owner && e->arg_count == 2;
  for (int d = 0; a->fits && d < 2; d++) a->fits = ir_expr_equal(e->args[d], a->stmt->subs[d]);
  return true;
}

static bool is_at_place(const ir_stmt *stmt, const ir_tensor *owner, ir_expr *e, bool alone) {
  asking a = {stmt, owner, alone, true};
  if (e) ir_expr_walk(e, ask_place, &a);
  return a.fits;
}

const ir_tensor *ir_bsr_result(const ir_stmt *stmt, ir_bsr *out) {
  const ir_tensor *owner = ir_tensor_owner(stmt->target);
  if (owner == stmt->target || owner->role != IR_ROLE_IN || !ir_bsr_of(owner->format, out)) return NULL;
  bool fits = is_at_place(stmt, owner, stmt->value, false) && is_at_place(stmt, owner, stmt->cond, false) &&
              is_at_place(stmt, owner, stmt->sample, true);
  return fits ? owner : NULL;
}
