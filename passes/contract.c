/* contract.c - recognises epilogue(sum[k] A*B), see contract.h.
 *
 * The factors of the sum's body are dealt to two sides. Every deal is scored by what it makes of
 * the indices, and the best one wins: a bound index on both sides (k) is what a contraction is
 * about, a free index on both sides (batch) costs reuse. Constants belong to neither side. */
#include <limits.h>

#include "passes/contract.h"

#include "passes/choice.h"
#include "passes/storage.h"

enum { MOST_FACTORS = 8 };

/* ---- shape ----------------------------------------------------------------------------------- */
static const ir_expr *heavy_in(const ir_expr *e) {
  if (pass_is_heavy(e)) return e;
  for (int i = 0; i < e->arg_count; i++) {
    const ir_expr *found = heavy_in(e->args[i]);
    if (found != NULL) return found;
  }
  return NULL;
}

pass_shape pass_shape_of(const ir_stmt *stmt) {
  int count = pass_count_heavy(stmt->value);
  if (count == 0) return PASS_ELEMENTWISE;
  const ir_expr *heavy = heavy_in(stmt->value);
  if (count > 1 || !pass_is_elementwise(heavy->args[0])) return PASS_COMPOUND;
  if (heavy->kind == IR_REDUCE) return PASS_REDUCTION;
  return heavy->kind == IR_TOPK && heavy == stmt->value ? PASS_TOPK : PASS_COMPOUND;
}

static ir_expr *find_reduce(ir_expr *e) {
  if (e->kind == IR_REDUCE) return e;
  for (int i = 0; i < e->arg_count; i++) {
    ir_expr *found = find_reduce(e->args[i]);
    if (found != NULL) return found;
  }
  return NULL;
}

ir_expr *pass_reduction_of(const ir_stmt *stmt) {
  return pass_shape_of(stmt) == PASS_REDUCTION ? find_reduce(stmt->value) : NULL;
}

bool pass_waits_in_line(const ir_stmt *stmt, const ir_expr *reduce) {
  return ir_is_scatter(stmt) && stmt->race != IR_RACE_ATOMIC && ir_dtype_is_float(stmt->target->dtype) && reduce &&
         reduce->kind == IR_REDUCE && reduce->reducer == IR_RED_SUM;
}

bool pass_reduce_guard(const ir_expr *reduce, ir_expr **guard, ir_expr **value) {
  ir_expr *body = reduce->args[0];
  *guard = NULL;
  *value = body;
  if (body->kind != IR_OP || body->op != IR_OP_WHERE || reduce->reducer == IR_RED_ARGMAX)
    return false;
  double otherwise;
  if (!ir_const_value(body->args[2], &otherwise)) return false;
  if (otherwise != ir_reducer_identity(reduce->reducer, body->dtype)) return false;
  *guard = body->args[0];
  *value = body->args[1];
  return true;
}

/* ---- factors --------------------------------------------------------------------------------- */
typedef struct factor_list {
  ir_expr *at[MOST_FACTORS];
  pass_indices indices[MOST_FACTORS];
  int count;
  ir_expr *constant;
  bool negative, overflow;
} factor_list;

static void add_factor(ir_arena *arena, ir_expr *e, factor_list *f) {
  pass_indices used = {0};
  pass_indices_of(arena, e, &used);
  if (used.list.count == 0 && e->kind == IR_CONST) {
    f->constant = f->constant == NULL ? e : ir_apply(arena, IR_OP_MUL, f->constant, e);
    return;
  }
  f->overflow |= f->count == MOST_FACTORS;
  if (f->overflow) return;
  f->indices[f->count] = used;
  f->at[f->count++] = e;
}

static void collect(ir_arena *arena, ir_expr *e, factor_list *f) {
  if (e->kind == IR_OP && e->op == IR_OP_MUL) {
    collect(arena, e->args[0], f);
    collect(arena, e->args[1], f);
  } else if (e->kind == IR_OP && e->op == IR_OP_NEG) {
    f->negative = !f->negative;
    collect(arena, e->args[0], f);
  } else {
    add_factor(arena, e, f);
  }
}

/* ---- dealing --------------------------------------------------------------------------------- */
typedef struct deal {
  const factor_list *factors;
  unsigned side_b; /* bit i: factor i is on side B */
} deal;

static bool carries(const deal *d, bool side_b, const ir_index *index) {
  for (int i = 0; i < d->factors->count; i++)
    if (((d->side_b >> i & 1) != 0) == side_b && pass_indices_has(&d->factors->indices[i], index))
      return true;
  return false;
}

/* Carried, or determined: a side with a ragged index knows its segment. */
static bool knows(const deal *d, bool side_b, const ir_index *index) {
  if (carries(d, side_b, index)) return true;
  for (int i = 0; i < d->factors->count; i++) {
    const pass_indices *used = &d->factors->indices[i];
    if (((d->side_b >> i & 1) != 0) != side_b) continue;
    for (int j = 0; j < used->list.count; j++)
      if (used->list.at[j]->segment == index) return true;
  }
  return false;
}

/* More is better: shared k first, then free indices on one side only, some on each, then few factors apart. */
static int score(const deal *d, const pass_indices *free, const ir_expr *reduce) {
  int value = 0, on_b = 0, alone[2] = {0, 0};
  for (int i = 0; i < reduce->bound_count; i++)
    value += carries(d, false, reduce->bound[i]) && carries(d, true, reduce->bound[i]) ? 10000 : 0;
  for (int i = 0; i < free->list.count; i++) {
    bool a = knows(d, false, free->list.at[i]), b = knows(d, true, free->list.at[i]);
    alone[0] += a && !b;
    alone[1] += b && !a;
  }
  value += 100 * (alone[0] + alone[1]) + (alone[0] && alone[1] ? 50 : 0);
  for (int i = 0; i < d->factors->count; i++) on_b += (d->side_b >> i & 1) != 0;
  int apart = 2 * on_b - d->factors->count;
  return value - (apart < 0 ? -apart : apart);
}

/* Factor 0 stays on side A: the mirror image of a deal is the same deal. */
static deal best_deal(const factor_list *f, const pass_indices *free, const ir_expr *reduce) {
  deal best = {f, 0};
  int best_score = INT_MIN; /* a deal with nothing in common scores below 0 */
  for (unsigned bits = 2; bits < 1u << f->count; bits += 2) {
    deal d = {f, bits};
    int value = score(&d, free, reduce);
    if (value > best_score) best = d;
    if (value > best_score) best_score = value;
  }
  return best;
}

/* ---- sides ----------------------------------------------------------------------------------- */
static ir_expr *main_access(ir_expr *factor) {
  if (factor->kind == IR_ACCESS) return factor;
  if (factor->kind == IR_CAST) return main_access(factor->args[0]);
  if (factor->kind != IR_OP) return NULL;
  ir_expr *best = NULL;
  for (int i = 0; i < factor->arg_count; i++) {
    ir_expr *access = main_access(factor->args[i]);
    if (access != NULL && (best == NULL || access->tensor->rank > best->tensor->rank))
      best = access;
  }
  return best;
}

static int weight(const ir_expr *access) {
  if (access == NULL) return -1;
  const ir_tensor *t = access->tensor;
  return 2 * t->rank + pass_bare_access(access) + (pass_tensor_is_sparse(t) ? 200 : 0) +
         (t->pattern.zeros != IR_ZEROS_UNKNOWN ? 100 : 0);
}

static bool is_gathered(const ir_expr *e) {
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i]->kind == IR_ACCESS || is_gathered(e->args[i])) return true;
  return false;
}

static ir_expr *times(ir_arena *arena, ir_expr *a, ir_expr *b) {
  return a == NULL ? b : ir_apply(arena, IR_OP_MUL, a, b);
}

bool pass_side_is_access(const pass_operand *side) {
  const ir_expr *f = side->prologue;
  return side->factor_count == 1 && (!f || (f->kind == IR_CAST && f->args[0] == side->access));
}

static void make_side(ir_arena *arena, const deal *d, bool side_b, pass_operand *out) {
  int main = -1, best = -2;
  for (int i = 0; i < d->factors->count; i++) {
    if (((d->side_b >> i & 1) != 0) != side_b) continue;
    ir_expr *e = d->factors->at[i];
    int w = weight(main_access(e));
    if (w > best) main = i;
    if (w > best) best = w;
    out->factor_count++;
    out->value = times(arena, out->value, e);
    for (int j = 0; j < d->factors->indices[i].list.count; j++)
      pass_indices_add(arena, &out->indices, d->factors->indices[i].list.at[j]);
  }
  for (int i = 0; i < d->factors->count; i++)
    if (((d->side_b >> i & 1) != 0) == side_b && i != main)
      out->scale = times(arena, out->scale, d->factors->at[i]);
  out->access = main_access(d->factors->at[main]);
  if (out->access == NULL) return;
  out->tensor = out->access->tensor;
  out->prologue = d->factors->at[main] != out->access ? d->factors->at[main] : NULL;
  out->gathered = is_gathered(out->access);
}

static void classify(ir_arena *arena, const deal *d, const pass_indices *free,
                     pass_contraction_info *out) {
  for (int i = 0; i < free->list.count; i++) {
    ir_index *index = free->list.at[i];
    bool a = knows(d, false, index), b = knows(d, true, index);
    if (a && b) pass_indices_add(arena, &out->batch, index);
    if (a && !b) pass_indices_add(arena, &out->m, index);
    if (b && !a) pass_indices_add(arena, &out->n, index);
    bool other =
        index->segment != NULL && (carries(d, false, index) ? carries(d, true, index->segment)
                                                            : carries(d, false, index->segment));
    if (other && a != b) out->ragged = index;
  }
  for (int i = 0; i < out->reduce->bound_count; i++)
    pass_indices_add(arena, &out->k, out->reduce->bound[i]);
}

/* Side A has the first free index that is not batch, so that m comes before n in the output. */
static bool is_mirrored(const deal *d, const pass_indices *free) {
  for (int i = 0; i < free->list.count; i++) {
    bool a = knows(d, false, free->list.at[i]), b = knows(d, true, free->list.at[i]);
    if (a != b) return b;
  }
  return false;
}

static pass_indices free_of(ir_arena *arena, const ir_stmt *stmt, const factor_list *f,
                            const ir_expr *reduce) {
  pass_indices free = {0};
  for (int i = 0; i < stmt->free.count; i++) pass_indices_add(arena, &free, stmt->free.at[i]);
  for (int i = 0; i < f->count; i++)
    for (int j = 0; j < f->indices[i].list.count; j++) {
      ir_index *index = f->indices[i].list.at[j];
      bool bound = false;
      for (int k = 0; k < reduce->bound_count; k++) bound |= reduce->bound[k] == index;
      if (!bound) pass_indices_add(arena, &free, index);
    }
  return free;
}

bool pass_contraction(ir_arena *arena, const ir_stmt *stmt, pass_contraction_info *out) {
  *out = (pass_contraction_info){0};
  ir_expr *reduce = pass_reduction_of(stmt), *body;
  factor_list f = {0};
  if (reduce == NULL || reduce->reducer != IR_RED_SUM) return false;
  pass_reduce_guard(reduce, &out->guard, &body);
  collect(arena, body, &f);
  if (f.overflow || f.count < 2) return false;
  pass_indices free = free_of(arena, stmt, &f, reduce);
  deal d = best_deal(&f, &free, reduce);
  if (is_mirrored(&d, &free)) d.side_b = ~d.side_b & ((1u << f.count) - 1);
  out->reduce = reduce;
  out->epilogue = stmt->value;
  out->bare = stmt->value == reduce;
  out->negative = f.negative;
  out->factor = f.constant;
  make_side(arena, &d, false, &out->a);
  make_side(arena, &d, true, &out->b);
  if (out->a.access == NULL || out->b.access == NULL) return false;
  classify(arena, &d, &free, out);
  for (int i = 0; i < reduce->bound_count; i++)
    if (carries(&d, false, reduce->bound[i]) && carries(&d, true, reduce->bound[i])) return true;
  return false;
}

/* ---- asking ---------------------------------------------------------------------------------- */
ir_expr *pass_epilogue_with(ir_arena *arena, const pass_contraction_info *info, ir_expr *value) {
  return pass_replace_node(arena, info->epilogue, info->reduce, value);
}

int pass_dim_of(const ir_expr *access, const ir_index *index) {
  for (int i = 0; i < access->arg_count; i++)
    if (ir_is_bare(access->args[i], index)) return i;
  return -1;
}

bool pass_operand_carries(const pass_operand *operand, const ir_index *index) {
  return pass_indices_has(&operand->indices, index);
}

/* ---- tiles ------------------------------------------------------------------------------------ */
static int levels_of(const ir_tensor *t) { return t->format && t->format->level_count ? t->format->level_count : t->rank; }

static const ir_expr *stored_sub(const ir_stmt *stmt, int level) {
  const ir_format *format = stmt->target->format;
  return stmt->subs[format && format->level_count ? format->level[level].dim : level];
}

static int last_level_of(const ir_stmt *stmt, const pass_indices *side) {
  int l = levels_of(stmt->target) - 1;
  while (l >= 0 && !(stored_sub(stmt, l)->kind == IR_INDEX && pass_indices_has(side, stored_sub(stmt, l)->index))) l--;
  return l;
}

static int64_t length_at(const ir_stmt *stmt, int level) {
  int64_t bound;
  return ir_size_bound(stored_sub(stmt, level)->index->extent, &bound) ? bound : INT64_MAX;
}

/* The last one, or, where that has too few elements for a tile and memory does not run along it, the last that has enough; without
 * any, the longest. */
static int tile_level_of(const ir_stmt *stmt, const pass_indices *side) {
  const int64_t enough = 16;
  int last = last_level_of(stmt, side), best = last;
  if (last < 0 || last == levels_of(stmt->target) - 1) return last;
  for (int l = last - 1; l >= 0 && length_at(stmt, best) < enough; l--)
    if (stored_sub(stmt, l)->kind == IR_INDEX && pass_indices_has(side, stored_sub(stmt, l)->index) && length_at(stmt, l) > length_at(stmt, best)) best = l;
  return best;
}

static bool runs_along(const ir_expr *access, const ir_index *index) {
  return access && access->kind == IR_ACCESS && pass_contiguous_index(access, false) == index;
}

bool pass_tile_of(const ir_stmt *stmt, const pass_contraction_info *info, const ir_index **row, const ir_index **column) {
  int m = tile_level_of(stmt, &info->m), n = tile_level_of(stmt, &info->n), last = levels_of(stmt->target) - 1;
  if (m < 0 || n < 0) return false;
  const ir_index *batch = last_level_of(stmt, &info->batch) == last ? stored_sub(stmt, last)->index : NULL;
  if (batch && runs_along(info->a.access, batch) && runs_along(info->b.access, batch)) return false;
  *row = stored_sub(stmt, m < n ? m : n)->index;
  *column = stored_sub(stmt, m < n ? n : m)->index;
  return true;
}
