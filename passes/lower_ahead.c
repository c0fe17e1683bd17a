/* lower_ahead.c - reading ahead: rows that a walk will reach soon.
 *
 *     for p in A.pos1[i] .. A.pos1[i+1] { j = A.crd1[p];  for q in B.pos1[j] .. { .. } }
 *
 * visits rows of B in the order in which A names them: three cache misses a row, one waiting for
 * the other, and behind each a branch that nobody can predict.  What A names 16 entries further is
 * known now, so the bounds of that row are fetched, and the first entries of the row 8 entries
 * ahead, whose bounds have arrived. */
#include "passes/lower_walk.h"

enum { BOUNDS_AHEAD = 16, ENTRIES_AHEAD = 8 };

/* The coordinate that stands `ahead` entries behind p; the last one of the array at its end. */
static ir_expr *coordinate_ahead(lower_walk *k, lower_walker *w, ir_expr *last, int64_t ahead) {
  lower_state *s = k->s;
  ir_expr *p = pass_code_add(s, pass_code_ref(s, w->p), pass_code_int(s, ahead));
  p = pass_code_op(s, IR_OP_MIN, p, last);
  return pass_level_coordinate(s, pass_walker_access(k, w), w->level, p, NULL);
}

/* A dense level on the index, with lists below it. */
static bool leads_to_list(const lower_access *access, const lower_cursor *c,
                          const ir_index *index) {
  const ir_format *f = access->format;
  if (access->target || c->present || c->next + 1 >= f->level_count) return false;
  const ir_level *l = &f->level[c->next];
  return l->kind == IR_LEVEL_DENSE && l->map == IR_MAP_WHOLE &&
         ir_is_bare(access->expr->args[l->dim], index) &&
         f->level[c->next + 1].kind == IR_LEVEL_COMPRESSED;
}

static ir_expr *position_at(lower_state *s, const lower_access *access, const lower_cursor *c,
                            ir_expr *coordinate) {
  lower_cursor there = *c;
  pass_level_dense(s, access, &there, coordinate);
  return there.pos;
}

static void fetch_row(lower_walk *k, lower_walker *w, int number, ir_expr *last) {
  lower_state *s = k->s;
  const lower_access *access = &s->accesses.at[number];
  const lower_cursor *c = &k->env->cursor[number];
  const ir_tensor *tensor = access->expr->tensor;
  int list = c->next + 1;
  ir_buf *pos = pass_code_buffer(s, tensor, IR_BUF_POS, list);
  ir_expr *later = position_at(s, access, c, coordinate_ahead(k, w, last, BOUNDS_AHEAD));
  ir_prefetch(&s->b, pos, later);
  ir_expr *soon = position_at(s, access, c, coordinate_ahead(k, w, last, ENTRIES_AHEAD));
  ir_expr *first = pass_code_let(s, "soon", pass_code_load_int(s, pos, soon, NULL));
  ir_buf *crd = pass_code_buffer(s, tensor, IR_BUF_CRD, list);
  ir_func_use(s->b.func, crd);
  ir_prefetch(&s->b, crd, first);
  if (!k->nest->row->values || list + 1 < access->format->level_count || !tensor->dtype) return;
  ir_buf *vals = pass_code_buffer(s, tensor, IR_BUF_VALS, 0);
  ir_func_use(s->b.func, vals);
  ir_prefetch(&s->b, vals, first);
}

void pass_walk_ahead(lower_walk *k, lower_walker *w) {
  lower_state *s = k->s;
  if (!k->nest->row || pass_walker_level(k, w)->kind != IR_LEVEL_COMPRESSED) return;
  ir_expr *last = NULL;
  for (int i = 0; i < s->accesses.count; i++) {
    if (i == w->number || !leads_to_list(&s->accesses.at[i], &k->env->cursor[i], k->index))
      continue;
    if (!last) {
      ir_expr *stored = pass_level_positions(s, pass_walker_access(k, w), w->level + 1);
      last = pass_code_let(s, "last", pass_code_sub(s, stored, pass_code_int(s, 1)));
    }
    fetch_row(k, w, i, last);
  }
}
