/* verify_tile.c - the rules of candidates, workspaces, lists and stages. */
#include <limits.h>
#include <math.h>

#include "ir/kernels.h"
#include "ir/verify.h"

static void enter(ir_checker *c, const char *kind, const char *name, ir_span span) {
  c->where = ir_format_text(c->arena, "%s `%s`", kind, name ? name : "?");
  c->span = span;
}

static void need_tensor(ir_checker *c, const ir_tensor *tensor, const char *what) {
  if (!tensor || !ir_owns(c, tensor))
    ir_fault(c, c->span, "%s is missing or not a tensor of the kernel", what);
}

static void allow_index(ir_checker *c, const ir_index *index, const char *what) {
  if (index && !ir_owns(c, index)) ir_fault(c, c->span, "%s is not an index of the kernel", what);
}

static void check_tiles(ir_checker *c, const ir_tile_size *tiles, int count) {
  for (int i = 0; i < count; i++) {
    if (!tiles[i].index) ir_fault(c, c->span, "a tile size has no index");
    allow_index(c, tiles[i].index, "what a tile cuts");
    if (tiles[i].size < 1) ir_fault(c, c->span, "a tile size is at least 1");
  }
}

static void check_row(ir_checker *c, const char *row) {
  if (!row || !strcmp(row, "loop") || !strcmp(row, "library") || ir_kernel_row_named(row)) return;
  const char **known = IR_NEW_ARRAY(c->arena, const char *, ir_kernel_row_count + 2);
  for (int i = 0; i < ir_kernel_row_count; i++) known[i] = ir_kernel_rows[i].name;
  known[ir_kernel_row_count] = "loop";
  known[ir_kernel_row_count + 1] = "library";
  const char *near = ir_nearest(row, known, ir_kernel_row_count + 2);
  ir_fault(c, c->span, "there is no kernel row `%s`%s", row,
           near ? ir_format_text(c->arena, "; did you mean `%s`?", near) : "");
}

/* ---- candidates ---------------------------------------------------------------------------- */
static void check_candidate(ir_checker *c, const ir_candidate *k) {
  enter(c, "candidate", k->label, k->target ? k->target->span : IR_NOWHERE);
  if (k->target) need_tensor(c, k->target, "its target");
  if (k->operand) need_tensor(c, k->operand, "its sparse operand");
  allow_index(c, k->axis, "its axis");
  allow_index(c, k->strip_index, "its strip index");
  check_tiles(c, k->tiles.at, k->tiles.count);
  check_row(c, k->row);
  if ((unsigned)k->verdict > IR_REJECTED) ir_fault(c, c->span, "its verdict is out of range");
}

/* ---- workspaces and lists ------------------------------------------------------------------ */
static void check_new(ir_checker *c, ir_table *names, const char *name) {
  if (!ir_table_add(c->arena, names, name, c)) ir_fault(c, c->span, "two have this name");
}

static void check_workspace(ir_checker *c, const ir_buf *buf, ir_table *names) {
  enter(c, "workspace", buf->name, IR_NOWHERE);
  check_new(c, names, buf->name);
  if (buf->kind != IR_BUF_WORKSPACE) ir_fault(c, c->span, "it is of another kind");
  if (buf->dtype <= IR_NONE || buf->dtype >= IR_DTYPE_COUNT)
    ir_fault(c, c->span, "it has no dtype");
  if (buf->tensor) need_tensor(c, buf->tensor, "its tensor");
  if (buf->count) ir_check_size(c, buf->count, "the size of a workspace");
}

static void check_list_buf(ir_checker *c, const ir_buf *buf, ir_dtype dtype, const char *what) {
  if (!buf) return;
  if (!ir_owns(c, buf))
    ir_fault(c, c->span, "its %s are no workspace of the kernel", what);
  else if (buf->dtype != dtype)
    ir_fault(c, c->span, "its %s must be %s", what, ir_dtype_text(dtype));
}

static void check_list(ir_checker *c, const ir_list *list, ir_table *names) {
  enter(c, "list", list->name, list->span);
  check_new(c, names, list->name);
  need_tensor(c, list->tensor, "the tensor whose zeros it lists");
  if (c->faults) return;
  if (!list->axis) ir_fault(c, list->span, "it has no axis");
  allow_index(c, list->axis, "its axis");
  allow_index(c, list->strip_index, "its strip index");
  int rank = list->tensor ? list->tensor->rank : 0;
  if (list->axis_dim < 0 || list->axis_dim >= rank || list->strip_dim < -1 ||
      list->strip_dim >= rank)
    ir_fault(c, list->span, "its axis or strip is not a dimension of the tensor");
  if (list->strip < 1 || list->gran < 1)
    ir_fault(c, list->span, "its strip and gran are at least 1");
  ir_check_size(c, list->strips, "the number of strips");
  ir_check_size(c, list->capacity, "the capacity of a strip");
  if (!list->counts != !list->ids || (!list->ids && !list->bits && !list->verdict))
    ir_fault(c, list->span, "it has counts and ids, or bits alone, or of a sample a verdict alone");
  check_list_buf(c, list->counts, IR_I32, "counts");
  check_list_buf(c, list->ids, IR_I32, "ids");
  check_list_buf(c, list->bits, IR_I32, "bits");
  if (list->tensor) check_list_buf(c, list->vals, list->tensor->dtype, "values");
  check_list_buf(c, list->starts, IR_I64, "starts");
  check_list_buf(c, list->marks, IR_I32, "marks");
  check_list_buf(c, list->order, IR_I32, "order");
  if (list->tensor) check_list_buf(c, list->packed, list->tensor->dtype, "packed rows");
  if (list->section && (list->section < 0 || !list->strip_index || !list->packed || list->bits || list->gran != 1 || list->order || list->vals || list->pairs || list->fused || list->sums))
    ir_fault(c, list->span, "only a list that packs the rows of blocks, whose values are looked at, has sections");
  if (list->packed && !list->section && (list->gran != 1 || !list->bits || list->order || list->vals || ((list->fused || list->pairs) && !list->strip_index)))
    ir_fault(c, list->span, "only a list of single rows, whose values are looked at, or of single elements of strips packs them");
  check_list_buf(c, list->partial, IR_I32, "counts of columns that hold a zero too");
  if (list->partial && (!list->bits || !list->ids || !list->strip_index || list->gran != 1 || list->pairs || list->order || list->packed))
    ir_fault(c, list->span, "only a list, with bits, of single elements of strips says which of them hold everywhere");
  check_list_buf(c, list->sums, IR_F32, "sums of parts");
  check_list_buf(c, list->arrived, IR_I32, "counters");
  if (!list->sums != !list->arrived || (list->sums && (!list->ids || list->order || (list->packed && !list->strip_index) || list->sums->count->kind != IR_CONST || list->arrived->count->kind != IR_CONST)))
    ir_fault(c, list->span, "blocks that share a tile meet in sums and counters, of known numbers, of a list of strips that has no order");
  if (!list->marks != !list->order)
    ir_fault(c, list->span, "rows that are regrouped have marks and an order");
  if (list->order && (!list->strip_index || list->fused || list->vals || list->bits))
    ir_fault(c, list->span, "only strips of rows whose values are looked at can be regrouped");
  if (list->pairs && (!list->strip_index || !list->bits || !list->ids || list->order || list->vals))
    ir_fault(c, list->span, "only lists made of the bits of strips are shared by two");
  if (!list->vals != !list->starts)
    ir_fault(c, list->span, "compressed rows have starts and values");
  if (list->vals && (list->strip != 1 || list->gran != 1 || !list->strip_index))
    ir_fault(c, list->span, "only a list of single elements of single rows has values");
  check_list_buf(c, list->verdict, IR_I32, "verdicts");
  check_list_buf(c, list->threshold, IR_F64, "thresholds");
  check_list_buf(c, list->front, IR_I32, "words of a front");
  if (list->front && (!list->verdict || !list->threshold || list->fused || !list->front->count || list->front->count->kind != IR_CONST || list->front->count->i != 1 + IR_FRONT_BLOCKS))
    ir_fault(c, list->span, "a front has i32[%d], of a list that values are looked at for, with a verdict and a threshold", 1 + IR_FRONT_BLOCKS);
  const ir_list *first = list->replaces;
  if (first && !ir_owns(c, first))
    ir_fault(c, list->span, "it replaces no list of the kernel");
  else if (first && (first == list || first->replaces || first->tensor != list->tensor || !list->front || first->front != list->front))
    ir_fault(c, list->span, "it can replace another list of the same tensor, behind the same front, that replaces none");
}

/* ---- stages -------------------------------------------------------------------------------- */
/* Who walks strips of regrouped rows takes them in that order. */
static void check_regrouped(ir_checker *c, const ir_stage *s) {
  const ir_kernel_row *row = s->row ? ir_kernel_row_named(s->row) : NULL;
  bool regroups = row && ir_kernel_regroups(row);
  for (int i = 0; i < s->reads.count && s->kind == IR_STAGE_COMPUTE; i++)
    if (!s->reads.at[i]->order == regroups)
      ir_fault(c, s->span, regroups ? "its kernel takes rows in a list's order, and the list has none"
                                    : "its list is of regrouped rows, and its kernel takes rows as they lie");
  if (s->detects && s->detects->order && (!row || strcmp(row->name, "detect_values")))
    ir_fault(c, s->span, "rows are regrouped by `detect_values` alone");
}

/* Who multiplies what a list names finds it packed. */
static void check_side_by_side(ir_checker *c, const ir_stage *s) {
  const ir_kernel_row *row = s->row ? ir_kernel_row_named(s->row) : NULL;
  bool computes = row && s->kind == IR_STAGE_COMPUTE, live = computes && ir_kernel_is_live(row), packs = computes && ir_kernel_packs(row), krows = computes && ir_kernel_is_krows(row);
  const ir_list *read = s->reads.count == 1 ? s->reads.at[0] : NULL;
  if ((live || packs) && (!read || !read->packed || !read->strip_index != live))
    ir_fault(c, s->span, live ? "its kernel multiplies rows that a list has packed, and it reads no such list"
                              : "its kernel multiplies elements of rows that a list has packed, and it reads no such list");
  if (krows && (!read || read->section != row->m || read->strip != row->k))
    ir_fault(c, s->span, "its kernel multiplies blocks of k with the rows that a list names for each, in sections of %d, and it reads no such list", row->m);
  for (int i = 0; i < s->reads.count && s->kind == IR_STAGE_COMPUTE && !krows; i++)
    if (s->reads.at[i]->section) ir_fault(c, s->span, "its list is of the rows of blocks of k, and its kernel walks another kind");
  if (s->detects && (ir_list_is_of_rows(s->detects) || s->detects->section) && (!row || strcmp(row->name, "detect_values")))
    ir_fault(c, s->span, "rows are packed by `detect_values` alone");
}

static void check_kind(ir_checker *c, const ir_stage *s) {
  switch (s->kind) {
  case IR_STAGE_COMPUTE:
    if (!s->stmts.count) ir_fault(c, s->span, "it computes nothing");
    break;
  case IR_STAGE_DETECT:
    if (!s->detects) ir_fault(c, s->span, "it detects no list");
    break;
  case IR_STAGE_CONVERT:
    need_tensor(c, s->source, "the source of a conversion");
    need_tensor(c, s->dest, "the destination of a conversion");
    break;
  case IR_STAGE_GUARD:
    if (!s->reads.count && !s->detects) ir_fault(c, s->span, "it guards no list");
    break;
  }
}

static void check_stage_parts(ir_checker *c, const ir_stage *s) {
  for (int i = 0; i < s->stmts.count; i++)
    if (!ir_owns(c, s->stmts.at[i])) ir_fault(c, s->span, "it computes no statement of the kernel");
  for (int i = 0; i < s->reads.count; i++)
    if (!ir_owns(c, s->reads.at[i])) ir_fault(c, s->span, "it reads no list of the kernel");
  for (int i = 0; i < s->runners_up.count; i++)
    if (!ir_owns(c, s->runners_up.at[i]))
      ir_fault(c, s->span, "a runner-up is no candidate of the kernel");
  for (int i = 0; i < s->funcs.count; i++)
    if (!ir_owns(c, s->funcs.at[i])) ir_fault(c, s->span, "it runs no function of the kernel");
  if (s->detects && !ir_owns(c, s->detects))
    ir_fault(c, s->span, "it detects no list of the kernel");
  if (s->when.list && !ir_owns(c, s->when.list))
    ir_fault(c, s->span, "it is guarded by no list of the kernel");
  if (isnan(s->when.threshold)) ir_fault(c, s->span, "its break-even is no number");
  if (s->strips) need_tensor(c, s->strips, "the copy that it walks");
  if (s->full) need_tensor(c, s->full, "the copy that it reads");
  if (s->kept && s->unkept) ir_fault(c, s->span, "it runs neither with what is kept nor without");
}

/* ---- packed results ------------------------------------------------------------------------- */
/* The list that a stage writes its result over: what is not listed is not written. */
static const ir_list *written_over(const ir_stage *s) {
  const ir_kernel_row *row = s->row ? ir_kernel_row_named(s->row) : NULL;
  bool samples = row && ir_kernel_samples(row) && s->stmts.count == 1 && s->reads.count;
  return samples ? s->reads.at[0] : NULL;
}

static bool uses(const ir_stage *s, const ir_tensor *tensor) {
  for (int i = 0; i < s->stmts.count; i++) {
    const ir_stmt *stmt = s->stmts.at[i];
    if (stmt->target == tensor) continue;
    if (stmt->value && ir_expr_uses_tensor(stmt->value, tensor)) return true;
    if (stmt->cond && ir_expr_uses_tensor(stmt->cond, tensor)) return true;
    for (int d = 0; d < stmt->target->rank; d++)
      if (ir_expr_uses_tensor(stmt->subs[d], tensor)) return true;
  }
  return s->source == tensor;
}

static bool is_below(const ir_guard *guard, const ir_list *list) {
  return !guard->list || (guard->list == list && !guard->above);
}

/* Who uses it walks that list, or runs where the guard has had it computed whole. */
static bool takes_packed(const ir_stage *reader, const ir_stage *writer, const ir_list *list,
                         bool whole_beside) {
  const ir_kernel_row *row = reader->row ? ir_kernel_row_named(reader->row) : NULL;
  bool walks = row && ir_kernel_gathers(row) && reader->reads.count && reader->reads.at[0] == list;
  if (walks) return !writer->when.list || (reader->when.list && is_below(&reader->when, list));
  return whole_beside && reader->when.list == list && reader->when.above;
}

static void check_packed(ir_checker *c, const ir_stage *writer, const ir_list *list) {
  const ir_tensor *tensor = writer->stmts.at[0]->target;
  bool whole_beside = false;
  enter(c, "stage", writer->name, writer->span);
  if (!is_below(&writer->when, list))
    ir_fault(c, c->span, "it computes the columns of a list where the list's guard says dense");
  for (int i = 0; i < c->kernel->stages.count; i++) {
    const ir_stage *s = c->kernel->stages.at[i];
    bool same = s != writer && s->kind == IR_STAGE_COMPUTE && s->stmts.count == 1 &&
                s->stmts.at[0]->target == tensor;
    whole_beside |= same && !written_over(s) && s->when.list == list && s->when.above;
  }
  for (int i = 0; i < c->kernel->stages.count; i++) {
    const ir_stage *s = c->kernel->stages.at[i];
    if (s->kind == IR_STAGE_GUARD || s->kind == IR_STAGE_DETECT || !uses(s, tensor)) continue;
    if (!takes_packed(s, writer, list, whole_beside))
      ir_fault(c, c->span,
               "it writes the listed columns of `%s` alone, and stage `%s` reads others: it walks "
               "another list, or none",
               tensor->name, s->name);
  }
}

/* ---- results that lie side by side alone ---------------------------------------------------- */
static bool reads_beside(const ir_stage *s, const ir_tensor *tensor) {
  for (int i = 0; i < s->beside.count; i++)
    if (s->beside.at[i] == tensor) return true;
  return false;
}

/* A stage before it has left the columns of its list there, or has had them computed whole; whoever else reads the tensor runs where that says dense. */
static void check_beside(ir_checker *c, const ir_stage *s, const ir_tensor *tensor) {
  const ir_list *list = s->reads.count == 1 ? s->reads.at[0] : NULL;
  bool left = false;
  enter(c, "stage", s->name, s->span);
  need_tensor(c, tensor, "what it reads side by side");
  for (int i = 0; i < c->kernel->stages.count && list; i++) {
    const ir_stage *other = c->kernel->stages.at[i];
    const ir_kernel_row *row = other->row ? ir_kernel_row_named(other->row) : NULL;
    left |= row && ir_kernel_spreads(row) && other->number < s->number && other->reads.count && other->reads.at[0] == list &&
            is_below(&other->when, list) && other->stmts.count == 1 && other->stmts.at[0]->target == tensor;
    if (other->kind == IR_STAGE_COMPUTE && uses(other, tensor) && !reads_beside(other, tensor) && !(other->when.list == list && other->when.above))
      ir_fault(c, c->span, "`%s` lies side by side alone, and stage `%s` reads it whole", tensor->name, other->name);
  }
  if (!list || strcmp(s->row ? s->row : "", "spread"))
    ir_fault(c, c->span, "only a stage of the kernel `spread`, of one list, reads what lies side by side");
  else if (!left)
    ir_fault(c, c->span, "no stage before it leaves the columns of `%s` side by side over its list", tensor->name);
}

/* below: the number of the stage before it. */
static void check_stage(ir_checker *c, const ir_stage *s, int below, ir_table *names) {
  enter(c, "stage", s->name, s->span);
  check_new(c, names, s->name);
  if (s->number <= below) ir_fault(c, s->span, "numbers of stages ascend");
  if ((unsigned)s->kind > IR_STAGE_GUARD) {
    ir_fault(c, s->span, "its kind is out of range");
    return;
  }
  check_row(c, s->row);
  check_tiles(c, s->tiles.at, s->tiles.count);
  check_stage_parts(c, s);
  if (!c->faults) check_kind(c, s);
  if (!c->faults) check_regrouped(c, s);
  if (!c->faults) check_side_by_side(c, s);
  if (s->assembled && s->funcs.count && s->funcs.count != 2)
    ir_fault(c, s->span, "an assembled stage has two functions: count and fill");
}

void ir_check_tile(ir_checker *c) {
  const ir_kernel *kernel = c->kernel;
  ir_table workspaces = {0}, lists = {0}, stages = {0};
  int below = INT_MIN;
  for (int i = 0; i < kernel->candidates.count; i++) check_candidate(c, kernel->candidates.at[i]);
  for (int i = 0; i < kernel->workspaces.count; i++)
    check_workspace(c, kernel->workspaces.at[i], &workspaces);
  for (int i = 0; i < kernel->lists.count; i++) check_list(c, kernel->lists.at[i], &lists);
  for (int i = 0; i < kernel->stages.count && c->faults < IR_MOST_FAULTS; i++) {
    check_stage(c, kernel->stages.at[i], below, &stages);
    below = kernel->stages.at[i]->number;
  }
  for (int i = 0; i < kernel->stages.count && !c->faults; i++) {
    const ir_list *list = written_over(kernel->stages.at[i]);
    if (list) check_packed(c, kernel->stages.at[i], list);
  }
  for (int i = 0; i < kernel->stages.count && !c->faults; i++)
    for (int n = 0; n < kernel->stages.at[i]->beside.count && !c->faults; n++) check_beside(c, kernel->stages.at[i], kernel->stages.at[i]->beside.at[n]);
}
