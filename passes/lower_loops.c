/* lower_loops.c - the order of loops: what sparse levels, segments and lists ask for.
 *
 * A level that leaves coordinates out is walked after the levels above it are known.  Requests are
 * taken in the order of their importance; one that contradicts earlier ones is dropped, and that
 * operand is then read by locating its elements.  Among indices that may come next, the first one
 * listed does. */
#include <assert.h>

#include "passes/lower.h"

static int place_of(const lower_loops *o, const ir_index *index) {
  for (int i = 0; i < o->count; i++)
    if (o->index[i] == index) return i;
  return -1;
}

void pass_loops_index(lower_loops *o, ir_index *index) {
  if (place_of(o, index) >= 0) return;
  if (index->segment) pass_loops_index(o, index->segment);
  assert(o->count < LOWER_INDICES);
  o->index[o->count++] = index;
  if (index->segment) pass_loops_edge(o, index->segment, index);
}

static void add_edge(lower_loops *o, int a, int b) {
  for (int i = 0; i < o->count; i++)
    for (int j = 0; j < o->count; j++)
      if ((i == a || o->before[i][a]) && (j == b || o->before[b][j])) o->before[i][j] = true;
}

void pass_loops_edge(lower_loops *o, const ir_index *first, const ir_index *second) {
  int a = place_of(o, first), b = place_of(o, second);
  if (a >= 0 && b >= 0 && a != b && !o->before[b][a]) add_edge(o, a, b);
}

/* The level is walked: it leaves coordinates out, or the place in its blocks does. */
static bool is_walked(const ir_format *f, int level) {
  if (!ir_level_rows[f->level[level].kind].full) return true;
  if (f->level[level].map != IR_MAP_DIV) return false;
  for (int k = level + 1; k < f->level_count; k++)
    if (f->level[k].dim == f->level[level].dim) return !ir_level_rows[f->level[k].kind].full;
  return false;
}

static int place_of_level(const lower_loops *o, const lower_access *access, int level) {
  const ir_expr *sub = access->expr->args[access->format->level[level].dim];
  return sub->kind == IR_INDEX ? place_of(o, sub->index) : -1;
}

/* Visits the pairs (above, walked level); false when one contradicts what is asked already. */
static bool each_pair(lower_loops *o, const lower_access *access, bool add) {
  for (int l = 0; l < access->format->level_count; l++) {
    int b = place_of_level(o, access, l);
    if (b < 0 || !is_walked(access->format, l)) continue;
    if (add) o->walked[b] = true;
    for (int k = 0; k < l; k++) {
      int a = place_of_level(o, access, k);
      if (a < 0 || a == b) continue;
      if (access->format->level[l].map == IR_MAP_MOD && o->before[b][a]) continue;
      if (add)
        add_edge(o, a, b);
      else if (o->before[b][a])
        return false;
    }
  }
  return true;
}

void pass_loops_access(lower_loops *o, const lower_access *access) {
  if (each_pair(o, access, false)) each_pair(o, access, true);
  for (int l = 0; l < access->format->level_count; l++) {
    int a = place_of_level(o, access, l);
    if (a >= 0 && pass_access_is_sparse(access)) o->walked[a] = true;
  }
}

void pass_loops_lists(lower_loops *o, const ir_stage *stage) {
  for (int i = 0; i < stage->reads.count; i++)
    if (stage->reads.at[i]->ids && stage->reads.at[i]->strip_index)
      pass_loops_edge(o, stage->reads.at[i]->strip_index, stage->reads.at[i]->axis);
}

void pass_loops_rows(lower_loops *o, const ir_expr *e) {
  if (e->kind == IR_SOFTMAX || e->kind == IR_TOPK)
    for (int i = 0; i < o->count; i++) pass_loops_edge(o, o->index[i], e->bound[0]);
  for (int i = 0; i < e->arg_count; i++) pass_loops_rows(o, e->args[i]);
}

static bool is_ready(const lower_loops *o, const bool *done, int i) {
  for (int j = 0; j < o->count; j++)
    if (!done[j] && o->before[j][i]) return false;
  return !done[i];
}

void pass_loops_sort(lower_loops *o) {
  lower_loops sorted = {0};
  bool done[LOWER_INDICES] = {false};
  int from[LOWER_INDICES];
  for (int n = 0; n < o->count; n++) {
    int i = 0;
    while (i < o->count && !is_ready(o, done, i)) i++;
    assert(i < o->count);
    done[i] = true;
    from[n] = i;
    sorted.index[n] = o->index[i];
    sorted.walked[n] = o->walked[i];
  }
  sorted.count = o->count;
  for (int a = 0; a < o->count; a++)
    for (int b = 0; b < o->count; b++) sorted.before[a][b] = o->before[from[a]][from[b]];
  *o = sorted;
}
