/* uses.c - see uses.h.  Rows of readers that went stale are taken out when a tensor is asked for
 * its readers, so that every change costs what the changed statement is long. */
#include "passes/uses.h"

#include <stdlib.h>

enum { GAP = 1 << 20 }; /* between places, for statements that are put in */

int pass_uses_row(const pass_uses *uses, const ir_tensor *tensor) {
  return ir_map_find(&uses->rows, tensor, -1);
}

pass_use *pass_use_of(const pass_uses *uses, const ir_tensor *tensor) {
  return &uses->list.at[pass_uses_row(uses, tensor)];
}

/* ---- what a statement reads ------------------------------------------------------------------ */
static void add_read(pass_uses *uses, int reader, int row) {
  pass_use *read = &uses->list.at[row];
  if (read->stamp == uses->stamp) return;
  read->stamp = uses->stamp;
  IR_PUSH(uses->arena, &uses->list.at[reader].reads, row);
}

static void collect(pass_uses *uses, int reader, const ir_expr *e) {
  if (!e) return;
  if (e->kind == IR_ACCESS) {
    int row = pass_uses_row(uses, e->tensor);
    if (row >= 0) add_read(uses, reader, row);
  }
  for (int i = 0; i < e->arg_count; i++) collect(uses, reader, e->args[i]);
}

static int measure(const ir_expr *e, int *size) {
  int height = 0;
  for (int i = 0; i < e->arg_count; i++) {
    int below = measure(e->args[i], size);
    height = below > height ? below : height;
  }
  *size += e->kind == IR_OP || pass_is_heavy(e);
  return height + 1;
}

static void look(pass_uses *uses, int row) {
  pass_use *use = &uses->list.at[row];
  const ir_stmt *stmt = use->tensor->def;
  uses->stamp++;
  use->reads.count = use->size = 0;
  use->height = measure(stmt->value, &use->size);
  collect(uses, row, stmt->value);
  collect(uses, row, stmt->cond);
  collect(uses, row, stmt->sample);
  collect(uses, row, stmt->stores);
  for (int d = 0; d < stmt->target->rank; d++) collect(uses, row, stmt->subs[d]);
}

/* Every read of the row is marked with the current stamp from here on. */
static void mark(pass_uses *uses, const int *rows, int count) {
  uses->stamp++;
  for (int i = 0; i < count; i++) uses->list.at[rows[i]].stamp = uses->stamp;
}

/* `reader` reads what stands behind it: nobody up to there can be said to depend on earlier ones
 * alone. */
static void reach_ahead(pass_uses *uses, int reader, int row) {
  int64_t place = uses->list.at[row].place;
  for (int at = reader; at >= 0 && uses->list.at[at].place < place; at = uses->list.at[at].behind) {
    pass_use *use = &uses->list.at[at];
    if (uses->list.at[use->ahead].place < place) use->ahead = row;
  }
}

static void start_reading(pass_uses *uses, int reader, int row) {
  pass_use *read = &uses->list.at[row];
  read->readers++;
  int last = read->read_by.count ? read->read_by.at[read->read_by.count - 1] : -1;
  read->in_order &= last < 0 || uses->list.at[last].place < uses->list.at[reader].place;
  IR_PUSH(uses->arena, &read->read_by, reader);
  if (read->place > uses->list.at[reader].place) reach_ahead(uses, reader, row);
}

void pass_uses_refresh(pass_uses *uses, const ir_stmt *stmt) {
  int row = pass_uses_row(uses, stmt->target);
  int count = uses->list.at[row].reads.count;
  int *before = IR_NEW_ARRAY(uses->arena, int, count + 1);
  for (int i = 0; i < count; i++) before[i] = uses->list.at[row].reads.at[i];
  look(uses, row);
  const pass_use *use = &uses->list.at[row];
  for (int i = 0; i < count; i++) /* what is marked is still read */
    if (uses->list.at[before[i]].stamp != uses->stamp) uses->list.at[before[i]].readers--;
  mark(uses, before, count);
  for (int i = 0; i < use->reads.count; i++)
    if (uses->list.at[use->reads.at[i]].stamp != uses->stamp)
      start_reading(uses, row, use->reads.at[i]);
}

/* ---- who reads it ---------------------------------------------------------------------------- */
static bool still_reads(const pass_uses *uses, int reader, int row) {
  const pass_use *use = &uses->list.at[reader];
  for (int i = 0; !use->gone && i < use->reads.count; i++)
    if (use->reads.at[i] == row) return true;
  return false;
}

typedef struct placed {
  int64_t place;
  int row;
} placed;

static int compare_places(const void *a, const void *b) {
  const placed *x = a, *y = b;
  return (x->place > y->place) - (x->place < y->place);
}

static void sort_readers(pass_uses *uses, pass_use *use) {
  placed *all = IR_NEW_ARRAY(uses->arena, placed, use->read_by.count + 1);
  int kept = 0;
  for (int i = 0; i < use->read_by.count; i++)
    all[i] = (placed){uses->list.at[use->read_by.at[i]].place, use->read_by.at[i]};
  qsort(all, (size_t)use->read_by.count, sizeof *all, compare_places);
  for (int i = 0; i < use->read_by.count; i++)
    if (!i || all[i].row != all[i - 1].row) use->read_by.at[kept++] = all[i].row;
  use->read_by.count = kept;
  use->in_order = true;
}

const int *pass_readers_of(pass_uses *uses, const ir_tensor *tensor, int *count) {
  int row = pass_uses_row(uses, tensor), kept = 0;
  pass_use *use = &uses->list.at[row];
  if (use->read_by.count != use->readers) {
    for (int i = 0; i < use->read_by.count; i++)
      if (still_reads(uses, use->read_by.at[i], row)) use->read_by.at[kept++] = use->read_by.at[i];
    use->read_by.count = kept;
    use->in_order = false; /* one that stopped and started again is there twice */
  }
  if (!use->in_order) sort_readers(uses, use);
  *count = use->read_by.count;
  return use->read_by.at;
}

/* ---- dependence ------------------------------------------------------------------------------ */
/* The place of the furthest statement that the row can lead to. */
static int64_t furthest(const pass_uses *uses, int row) {
  while (uses->list.at[row].ahead != row) row = uses->list.at[row].ahead;
  return uses->list.at[row].place;
}

typedef struct search {
  pass_uses *uses;
  int wanted;
  IR_VEC(int) open; /* rows that were reached and not looked into */
} search;

static void reach(search *s, int row) {
  pass_use *use = &s->uses->list.at[row];
  if (use->stamp == s->uses->stamp) return;
  use->stamp = s->uses->stamp;
  if (furthest(s->uses, row) >= s->uses->list.at[s->wanted].place)
    IR_PUSH(s->uses->arena, &s->open, row);
}

static void reach_from(search *s, const ir_expr *e) {
  if (e->kind == IR_ACCESS) reach(s, pass_uses_row(s->uses, e->tensor));
  for (int i = 0; i < e->arg_count; i++) reach_from(s, e->args[i]);
}

bool pass_uses_depends(pass_uses *uses, const ir_expr *e, const ir_tensor *tensor) {
  search s = {.uses = uses, .wanted = pass_uses_row(uses, tensor)};
  uses->stamp++;
  reach_from(&s, e);
  while (s.open.count) {
    const pass_use *use = &uses->list.at[s.open.at[--s.open.count]];
    if (use->tensor == tensor) return true;
    for (int i = 0; i < use->reads.count; i++) reach(&s, use->reads.at[i]);
  }
  return false;
}

/* ---- order ----------------------------------------------------------------------------------- */
static void link_before(pass_uses *uses, int row, int behind) {
  pass_use *use = &uses->list.at[row];
  use->behind = behind;
  use->before = behind >= 0 ? uses->list.at[behind].before : uses->last;
  if (use->before >= 0)
    uses->list.at[use->before].behind = row;
  else
    uses->first = row;
  if (behind >= 0)
    uses->list.at[behind].before = row;
  else
    uses->last = row;
}

static void number_places(pass_uses *uses) {
  int64_t place = 0;
  for (int row = uses->first; row >= 0; row = uses->list.at[row].behind)
    uses->list.at[row].place = place += GAP;
}

static int add_row(pass_uses *uses, ir_tensor *tensor) {
  int row = uses->list.count;
  pass_use use = {.tensor = tensor, .before = -1, .behind = -1, .ahead = row, .in_order = true};
  ir_map_set(uses->arena, &uses->rows, tensor, row);
  IR_PUSH(uses->arena, &uses->list, use);
  return row;
}

void pass_uses_insert(pass_uses *uses, ir_stmt *stmt, const ir_stmt *before) {
  int row = add_row(uses, stmt->target), behind = pass_uses_row(uses, before->target);
  link_before(uses, row, behind);
  pass_use *use = &uses->list.at[row];
  int64_t low = use->before >= 0 ? uses->list.at[use->before].place : 0;
  int64_t high = uses->list.at[behind].place;
  use->place = low + (high - low) / 2;
  if (use->place == low) number_places(uses);
  if (use->before >= 0 && furthest(uses, use->before) > use->place)
    use->ahead = uses->list.at[use->before].ahead;
  pass_uses_refresh(uses, stmt);
}

void pass_uses_drop(pass_uses *uses, const ir_stmt *stmt) {
  int row = pass_uses_row(uses, stmt->target);
  pass_use *use = &uses->list.at[row];
  use->gone = true;
  if (use->tensor->like) pass_use_of(uses, use->tensor->like)->structural--;
  for (int i = 0; i < use->reads.count; i++) uses->list.at[use->reads.at[i]].readers--;
  if (use->before >= 0)
    uses->list.at[use->before].behind = use->behind;
  else
    uses->first = use->behind;
  if (use->behind >= 0)
    uses->list.at[use->behind].before = use->before;
  else
    uses->last = use->before;
  ir_tensor_free_name(uses->kernel, use->tensor);
}

void pass_uses_settle(pass_uses *uses) {
  ir_kernel *kernel = uses->kernel;
  ir_map gone = {0};
  kernel->stmts.count = 0;
  for (int row = uses->first; row >= 0; row = uses->list.at[row].behind)
    IR_PUSH(uses->arena, &kernel->stmts, uses->list.at[row].tensor->def);
  for (int i = 0; i < uses->list.count; i++)
    if (uses->list.at[i].gone) ir_map_set(uses->arena, &gone, uses->list.at[i].tensor, 0);
  if (gone.used) ir_tensors_drop(kernel, &gone);
}

/* ---- a kernel -------------------------------------------------------------------------------- */
static void mark_kept(pass_uses *uses) {
  const ir_kernel *kernel = uses->kernel;
  for (int i = 0; i < kernel->indices.count; i++)
    if (kernel->indices.at[i]->offsets)
      pass_use_of(uses, kernel->indices.at[i]->offsets)->structural++;
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->like) pass_use_of(uses, kernel->tensors.at[i]->like)->structural++;
  for (int i = 0; i < kernel->needs.count; i++)
    pass_use_of(uses, kernel->needs.at[i].tensor)->sized = true;
}

pass_uses *pass_uses_new(ir_arena *arena, ir_kernel *kernel) {
  pass_uses *uses = IR_NEW(arena, pass_uses);
  *uses = (pass_uses){.arena = arena, .kernel = kernel, .first = -1, .last = -1};
  for (int i = 0; i < kernel->tensors.count; i++) add_row(uses, kernel->tensors.at[i]);
  mark_kept(uses);
  for (int i = 0; i < kernel->stmts.count; i++)
    link_before(uses, pass_uses_row(uses, kernel->stmts.at[i]->target), -1);
  number_places(uses);
  for (int i = 0; i < kernel->stmts.count; i++) pass_uses_refresh(uses, kernel->stmts.at[i]);
  return uses;
}
