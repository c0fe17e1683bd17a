/* fuse_rules.c - what may be merged, and the reason why not.
 *
 * Legality: the reader sees the same numbers (a let's rounding to a 16-bit float may be skipped,
 * LANGUAGE rule 3; other conversions stay as casts). Profit: nothing is computed more often than
 * before unless it is cheap, zeros that are skipped now stay skipped, a tensor whose zeros make
 * index lists stays a tensor. */
#include "passes/choice.h"
#include "passes/fuse.h"
#include "passes/storage.h"
#include "passes/stores.h"

enum {
  CHEAP_OPS = 4,
  MOST_OPS = 512,   /* of a statement: beyond it, a pass over memory is not what costs */
  MOST_HEIGHT = 256 /* nodes above one another: what the language itself allows in a row */
};

/* ---- counting -------------------------------------------------------------------------------- */
bool pass_schedule_names(const ir_kernel *kernel, const ir_tensor *tensor) {
  if (kernel->schedule == NULL) return false;
  for (int i = 0; i < kernel->schedule->directives.count; i++) {
    const ir_directive *d = &kernel->schedule->directives.at[i];
    if (d->kind == IR_DO_FUSE || d->tensor == NULL) continue;
    if (strcmp(d->tensor, tensor->name) == 0) return true;
  }
  return false;
}

static int cost_of(const ir_expr *e) {
  int cost = 0;
  for (int i = 0; i < e->arg_count; i++) cost += cost_of(e->args[i]);
  if (e->kind != IR_OP) return cost;
  bool dear = (ir_op_rows[e->op].traits & IR_FLOAT_ONLY) != 0 || e->op == IR_OP_DIV;
  return cost + (dear ? CHEAP_OPS + 1 : 1);
}

/* ---- index spaces ---------------------------------------------------------------------------- */
/* The first index of the reader, at the place of the use, that the use does not have. */
static const ir_index *repeated_over(ir_arena *arena, const pass_pair *p) {
  pass_indices used = {0};
  for (int i = 0; i < p->use->arg_count; i++) pass_indices_of(arena, p->use->args[i], &used);
  for (int i = 0; i < p->into->free.count; i++)
    if (!pass_indices_has(&used, p->into->free.at[i])) return p->into->free.at[i];
  const ir_expr *reduce = pass_reduction_of(p->into);
  if (reduce == NULL || pass_find_access(reduce->args[0], p->from->target) == NULL) return NULL;
  for (int i = 0; i < reduce->bound_count; i++)
    if (!pass_indices_has(&used, reduce->bound[i])) return reduce->bound[i];
  return NULL;
}

static bool reads_through_memory(const ir_expr *e) {
  for (int i = 0; i < e->arg_count; i++)
    if (e->args[i]->kind == IR_ACCESS || reads_through_memory(e->args[i])) return true;
  return false;
}

/* A ragged index of the producer must be the reader's own: its rows outside every segment are zero, and its segment is that of the
 * row, not one that the reader goes through (topk[e] of rows in segment e). */
static bool loses_segments(pass_context *c, const pass_pair *p) {
  pass_indices bound = {0};
  pass_indices_bound(c->arena, p->into->value, &bound);
  for (int d = 0; d < p->from->target->rank; d++) {
    const ir_index *index = p->from->subs[d]->index;
    if (index->offsets != NULL && (!ir_is_bare(p->use->args[d], index) || pass_indices_has(&bound, index->segment))) return true;
  }
  return false;
}

/* A sum along rows means those of the segment that the reader is in, or of all segments where it is in none. */
static bool moves_segments(const pass_pair *p) {
  return !pass_segments_stay(p->from, p->from->value, p->use) || !pass_segments_stay(p->from, p->from->cond, p->use);
}

/* ---- conditions ------------------------------------------------------------------------------ */
static ir_expr *seen(pass_context *c, const pass_pair *p, ir_expr *condition) {
  return pass_at_access(c->arena, p->from, condition, p->use);
}

static bool is_inside(pass_context *c, const pass_pair *p, ir_expr *outer, ir_expr *inner) {
  return pass_implies(c->arena, outer, seen(c, p, inner));
}

/* ---- contractions ---------------------------------------------------------------------------- */
bool pass_is_listed_by(ir_arena *arena, const pass_pair *p) {
  pass_contraction_info info;
  if (p->from->target->pattern.zeros == IR_ZEROS_UNKNOWN) return false;
  if (!pass_contraction(arena, p->into, &info)) return false;
  return pass_find_access(info.reduce->args[0], p->from->target) != NULL;
}

/* The value is one stored operand times scales: no larger in memory than what it would replace. */
static bool is_dequantisation(const ir_stmt *from, const ir_expr *e, int *operands) {
  if (e->kind == IR_CONST) return true;
  if (e->kind == IR_ACCESS) {
    bool whole = e->tensor->rank == from->target->rank && pass_bare_access(e);
    bool smaller = ir_dtype_rows[e->tensor->dtype].bits < ir_dtype_rows[from->target->dtype].bits;
    if (whole && ++*operands > 1) return false;
    return !whole || smaller || pass_tensor_is_sparse(e->tensor);
  }
  if (e->kind != IR_CAST && (e->kind != IR_OP || (e->op != IR_OP_MUL && e->op != IR_OP_NEG)))
    return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!is_dequantisation(from, e->args[i], operands)) return false;
  return true;
}

typedef struct scales {
  pass_context *c;
  bool of_groups, enough;
} scales;

static bool find_groups(void *user, ir_expr *e) {
  const double share = 0.25; /* stored, from which all of it may lie there */
  scales *found = user;
  if (e->kind != IR_ACCESS) return true;
  found->of_groups |= !pass_bare_access(e);
  found->enough &= !pass_tensor_is_sparse(e->tensor) || pass_zeros_of(found->c, e->tensor).likely >= share;
  return true;
}

/* A processor meets scales of groups (`s[n,k/128]`) one by one, for every row again; once, written beside their operand, they cost
 * less than a single row does. */
static bool scales_groups(pass_context *c, const pass_pair *p) {
  scales found = {c, false, true};
  if (pass_target_of(c)->kind != IR_TARGET_CPU) return false;
  pass_context_prepare(c);
  ir_expr_walk(p->from->value, find_groups, &found);
  return found.of_groups && found.enough;
}

static const char *prologue_refusal(pass_context *c, const pass_pair *p, const ir_index *over) {
  pass_contraction_info info;
  int operands = 0;
  if (pass_contraction(c->arena, p->into, &info)) {
    if (is_dequantisation(p->from, p->from->value, &operands) && operands == 1 && !scales_groups(c, p)) return NULL;
    return ir_format_text(c->arena,
                          "`%s` reads it once for every %s: one pass over memory is cheaper",
                          p->into->target->name, over->name);
  }
  if (cost_of(p->from->value) <= CHEAP_OPS) return NULL;
  return ir_format_text(c->arena, "it would be computed again for every %s", over->name);
}

/* ---- the rules ------------------------------------------------------------------------------- */
static const char *storage_refusal(const pass_fusion *f, const pass_pair *p, bool forced) {
  const ir_tensor *t = p->from->target;
  const pass_use *use = pass_use_of(f->uses, t);
  if (t->role == IR_ROLE_OUT) return "it is an output";
  if (!pass_plain_subs(p->from))
    return "it is a scatter: all of it must be there before it is read";
  if (use->structural || use->sized) return "its arrays or sizes shape something else";
  if (t->like != NULL || t->format != NULL) return "its declaration says how it is stored";
  if (!forced && pass_schedule_names(f->kernel, t)) return "the schedule shapes its own stage";
  if (use->readers > 1)
    return ir_format_text(f->c->arena, "it is read by %d statements", use->readers);
  const pass_use *reader = pass_use_of(f->uses, p->into->target);
  if (use->size + reader->size > MOST_OPS || use->height + reader->height > MOST_HEIGHT)
    return ir_format_text(f->c->arena,
                          "together they would be more than %d operations, or %d in a row",
                          MOST_OPS, MOST_HEIGHT);
  if (pass_count_accesses(p->into->cond, t) > 0 || pass_count_accesses(p->into->value, t) == 0)
    return "its values decide what is computed";
  if (pass_stores_reads(p->into->stores, t)) return "its values decide what is stored";
  if (!pass_stores_can_inline(p->into->stores, p->from))
    return "where it stores is asked at computed positions";
  return NULL;
}

static const char *heavy_refusal(pass_context *c, const pass_pair *p) {
  ir_tensor *t = p->from->target;
  if (p->from->value->kind == IR_TOPK) return "topk needs a whole row of it";
  if (pass_shape_of(p->into) != PASS_ELEMENTWISE)
    return ir_format_text(c->arena, "`%s` has a reduction of its own", p->into->target->name);
  if (pass_waits_in_line(p->into, pass_reduction_of(p->from)))
    return ir_format_text(c->arena, "additions of `%s` to one place wait for one another, its sums need not",
                          p->into->target->name);
  if (pass_count_accesses(p->into->value, t) > 1)
    return "it is read more than once in the statement";
  if (!pass_bare_access(p->use)) return "it is read at computed positions";
  const ir_index *over = repeated_over(c->arena, p);
  if (over != NULL)
    return ir_format_text(c->arena, "it would be summed again for every %s", over->name);
  if (p->from->cond != NULL && !is_inside(c, p, p->into->cond, p->from->cond))
    return "it has a condition that the reader does not have";
  if (!is_inside(c, p, p->into->sample, p->from->sample))
    return "what is skipped there would have to be computed here";
  return NULL;
}

/* One element that the reader looks at. */
static const char *use_refusal(pass_context *c, const pass_pair *p, bool forced) {
  if (loses_segments(c, p)) return "its rows are ragged and the reader's are not";
  if (moves_segments(p)) return "it sums along rows of segments, and the reader has other segments";
  if (!is_inside(c, p, p->into->sample, p->from->sample) && !pass_is_finite_sampled(p->from->value))
    return "what is skipped there would make an infinity here";
  if (!pass_is_elementwise(p->from->value)) return NULL; /* read once, at bare indices */
  if (reads_through_memory(p->use)) return "it is read through a gather, whose misses are zeros";
  const ir_index *over = repeated_over(c->arena, p);
  return over == NULL || forced ? NULL : prologue_refusal(c, p, over);
}

/* Of the first use in e that cannot be replaced. */
static const char *uses_refusal(pass_context *c, const pass_pair *p, ir_expr *e, bool forced) {
  const char *why = NULL;
  pass_pair here = *p;
  here.use = e;
  if (e->kind == IR_ACCESS && e->tensor == p->from->target) return use_refusal(c, &here, forced);
  for (int i = 0; i < e->arg_count && why == NULL; i++)
    why = uses_refusal(c, p, e->args[i], forced);
  return why;
}

const char *pass_fuse_refusal(const pass_fusion *f, const pass_pair *p, bool forced) {
  pass_context *c = f->c;
  const char *why = storage_refusal(f, p, forced);
  if (why != NULL) return why;
  if (pass_is_listed_by(c->arena, p))
    return ir_format_text(c->arena,
                          "its zeros are known at run time only: `%s` skips them by an index list",
                          p->into->target->name);
  why = uses_refusal(c, p, p->into->value, forced);
  if (why != NULL) return why;
  if (!pass_is_elementwise(p->from->value)) return heavy_refusal(c, p);
  bool dear = cost_of(p->from->value) > CHEAP_OPS;
  return dear && pass_count_accesses(p->into->value, p->from->target) > 1
             ? "it would be computed once for each of its uses"
             : NULL;
}

/* A product of 16-bit values is kept in the same 16 bits as one of them: bf16 has f32's range, f16
 * has not. */
static bool product_fits(ir_dtype t) { return t == IR_F32 || t == IR_F64 || t == IR_BF16; }

const char *pass_absorb_refusal(const pass_fusion *f, const pass_pair *p) {
  pass_context *c = f->c;
  pass_terms partners = {0}, others = {0};
  const char *why = storage_refusal(f, p, false);
  if (why != NULL) return why;
  if (pass_reduction_of(p->from) == NULL) return "it is no reduction";
  ir_expr *reduce = pass_reduction_of(p->into);
  if (reduce == NULL || reduce->reducer != IR_RED_SUM) return "the reader is no sum of products";
  if (!pass_bare_access(p->use) || loses_segments(c, p) || moves_segments(p)) return "it is read at computed positions";
  if (pass_count_accesses(p->into->value, p->from->target) > 1) return "it is read more than once";
  pass_partners(c->arena, p, &partners, &others);
  if (partners.list.count == 0) return "no other factor has its indices alone";
  if (others.list.count == 0) return "nothing is left to contract with";
  if (p->from->cond != NULL && p->from->fill != 0) return "it has a fill";
  ir_dtype t = p->from->target->dtype;
  for (int i = 0; i < partners.list.count; i++) t = ir_dtype_join(t, partners.list.at[i]->dtype);
  if (!product_fits(t))
    return ir_format_text(c->arena, "a product of two %s could overflow %s", ir_dtype_text(t),
                          ir_dtype_text(t));
  return NULL;
}
