/* pack.c - sparse results whose pattern is computed: room for the entries, packing, conversions.
 *
 * These steps read what the device wrote (a count, the entries), so a run with one of them waits
 * for the device. */
#include "runtime/run.h"

static const ir_buf *workspace_named(const ir_kernel *kernel, const char *tensor,
                                     const char *part) {
  size_t length = strlen(tensor);
  for (int i = 0; i < kernel->workspaces.count; i++) {
    const ir_buf *buf = kernel->workspaces.at[i];
    if (!strncmp(buf->name, tensor, length) && !strcmp(buf->name + length, part)) return buf;
  }
  return NULL;
}

static spc_status fault(rt_run *run, const char *tensor, const char *why) {
  ir_diag_add(run->memory.sink, IR_DIAG_PACK, IR_NOWHERE, "packing `%s`: %s", tensor, why);
  return SPC_INVALID_INPUT;
}

static const ir_tensor *stage_result(const ir_stage *stage) {
  return stage->stmts.at[stage->stmts.count - 1]->target;
}

/* ---- level by level --------------------------------------------------------------------------
 */
/* What rows hold at most: there will be gaps between them. */
static const ir_buf *room_of(const rt_run *run, const ir_tensor *tensor) {
  return workspace_named(run->plan->image->kernel, tensor->name, ".room");
}

static const ir_buf *counts_of(const rt_run *run, const ir_tensor *tensor) {
  const ir_buf *room = room_of(run, tensor);
  return room ? room : workspace_named(run->plan->image->kernel, tensor->name, ".counts");
}

/* Where each part of a list starts, instead of how much it holds; returns the sum. */
static int64_t to_starts(int64_t *counts, int64_t parts) {
  int64_t sum = 0;
  for (int64_t i = 0; i < parts; i++) {
    int64_t here = counts[i];
    counts[i] = sum;
    sum += here;
  }
  return sum;
}

static ir_dtype index_of(const rt_run *run, const ir_tensor *tensor) {
  return ir_index_dtype(run->plan->image->kernel, tensor);
}

static spc_status check_index(rt_run *run, const ir_tensor *tensor, const char *what,
                              int64_t largest) {
  if (largest <= INT32_MAX || index_of(run, tensor) == IR_I64) return SPC_OK;
  return fault(run, tensor->name,
               ir_format_text(run->memory.arena,
                              "%s reach %lld, which does not fit in i32; ask for i64 positions",
                              what, (long long)largest));
}

bool rt_pack_counts(const rt_run *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  return counts_of(run, tensor) && !room_of(run, tensor);
}

/* An array of the result's that is written whole, or its length alone. */
static ir_array room_for(const rt_run *run, ir_dtype dtype, int64_t count) {
  ir_array length = {.count = dtype == IR_NONE ? 0 : count, .dtype = dtype};
  return run->counting ? length : ir_array_room(run->memory.arena, dtype, count);
}

/* Memory of one list and of the singletons behind it. */
static spc_status list_room(rt_run *run, const ir_tensor *tensor, ir_view *view, int level,
                            int64_t parents, int64_t count) {
  const char *positions =
      room_of(run, tensor) ? "by what the operands hold, positions" : "positions";
  ir_dtype index = index_of(run, tensor);
  SPC_TRY(check_index(run, tensor, positions, count));
  view->pos[level] = (ir_array){.count = parents + 1, .dtype = index}; /* 0 where no loop comes */
  if (!run->counting) view->pos[level] = ir_array_new(run->memory.arena, index, parents + 1);
  for (int l = level; l <= ir_format_chain_end(view->format, level); l++) {
    SPC_TRY(
        check_index(run, tensor, "coordinates", ir_format_extent(view->format, l, view->dim) - 1));
    view->crd[l] = room_for(run, index, count);
  }
  return SPC_OK;
}

static spc_status levels_room(rt_run *run, const ir_tensor *tensor) {
  rt_slot *slot;
  SPC_TRY(rt_run_bytes(run, counts_of(run, tensor), &slot));
  ir_view view = {.dtype = tensor->dtype, .rank = tensor->rank, .format = tensor->format};
  const ir_format *f = view.format;
  int64_t lists = 0, positions = 1, *counts = slot->host.data;
  for (int d = 0; d < tensor->rank; d++)
    if (!ir_size_value(tensor->dim[d], run->plan->sizes, &view.dim[d])) return SPC_INTERNAL;
  for (int l = 0; l < f->level_count; l++) lists += f->level[l].kind == IR_LEVEL_COMPRESSED;
  int64_t parts = slot->host.count / (room_of(run, tensor) ? 2 : lists);
  for (int l = 0; l < f->level_count; l++) {
    if (f->level[l].kind == IR_LEVEL_DENSE) positions *= ir_format_extent(f, l, view.dim);
    if (f->level[l].kind != IR_LEVEL_COMPRESSED) continue;
    int64_t parents = positions;
    positions = to_starts(counts, parts);
    SPC_TRY(list_room(run, tensor, &view, l, parents, positions));
    counts += parts;
  }
  view.vals = room_for(run, tensor->dtype, positions);
  return rt_memory_bind(&run->memory, tensor, &view);
}

/* Parents that no loop visited have no children: they end where the one before them does. */
static void close_list(ir_array *pos, int64_t count) {
  int64_t most = 0;
  for (int64_t i = 0; i < pos->count; i++) {
    int64_t end = ir_array_int(pos, i);
    if (end > most) most = end;
    ir_array_put(pos, i, most);
  }
  if (pos->count > 1) ir_array_put(pos, pos->count - 1, count);
}

/* The plan's threads, woken where that pays for what the work takes, about. */
static void share(void *pool, int64_t count, int64_t ns, ir_crew_work work, void *user) {
  if (rt_pool_pays(pool, ns))
    rt_pool_for(pool, 0, count, 1, work, user);
  else
    work(user, 0, count);
}

/* Parts of a list that have filled less than they had room for, perhaps: each moves down behind
 * those before it, in the same memory, the first one first.  Groups of parts are moved side by
 * side: where a group's first parts go others may not have left yet, so these are set aside before.
 */
enum { MOST_GROUPS = 16 };
typedef struct gaps {
  const int64_t *starts, *ends; /* by part; it ended where it began, or at 0: nothing is there */
  int64_t *to;                  /* by part, and one more: where its entries go */
  int groups;
  int64_t bound[MOST_GROUPS + 1]; /* parts */
  int64_t kept[MOST_GROUPS];      /* by group: the first part that is not set aside */
  ir_array array[2];              /* coordinates, values */
} gaps;

static int64_t length_of(const gaps *g, int64_t part) { return g->to[part + 1] - g->to[part]; }

static char *at_of(const ir_array *array, int64_t position) {
  return (char *)array->data + (size_t)position * ir_dtype_bytes(array->dtype);
}

/* Entries from one position on, to another. */
static void move_entries(const ir_array *array, int64_t to, int64_t from, int64_t count) {
  if (array->data && count && to != from)
    memmove(at_of(array, to), at_of(array, from), (size_t)count * ir_dtype_bytes(array->dtype));
}

static void move_groups(void *user, int64_t begin, int64_t end) {
  const gaps *g = user;
  for (int64_t group = begin; group < end; group++)
    for (int64_t part = g->kept[group]; part < g->bound[group + 1]; part++)
      for (int a = 0; a < 2; a++)
        move_entries(&g->array[a], g->to[part], g->starts[part], length_of(g, part));
}

/* Rows begin where their part's entries go; a row lies in the first part that does not end before
 * it.  Returns how many entries there are. */
static int64_t close_rows(const gaps *g, ir_array *pos, int64_t parts) {
  int64_t part = 0, filled = 0;
  for (int64_t i = 0; i < parts; i++)
    g->to[i + 1] = g->to[i] + (g->ends[i] > g->starts[i] ? g->ends[i] - g->starts[i] : 0);
  for (int64_t row = 1; row < pos->count; row++) {
    int64_t end = ir_array_int(pos, row);
    if (end > filled) filled = end; /* else: no loop visited the row, or it is empty */
    while (part + 1 < parts && filled > g->ends[part]) part++;
    bool within =
        parts && filled > g->starts[part]; /* no part: no segment, though there are rows */
    ir_array_put(pos, row, g->to[part] + (within ? filled - g->starts[part] : 0));
  }
  return g->to[parts];
}

/* Groups of as many entries each; returns how many entries are set aside. */
static int64_t cut_groups(gaps *g, int64_t parts, int groups) {
  int64_t part = 0, limit = 0, aside = 0;
  g->groups = groups;
  g->bound[groups] = parts;
  for (int i = 0; i < groups; i++) {
    for (; part < parts && g->to[part] < g->to[parts] * i / groups; part++)
      if (g->ends[part] > limit) limit = g->ends[part];
    g->bound[i] = g->kept[i] = part;
    while (g->kept[i] < parts && g->to[g->kept[i]] < limit) g->kept[i]++;
    aside += g->to[g->kept[i]] - g->to[part];
  }
  for (int i = 0; i < groups; i++) /* all of it, at most */
    if (g->kept[i] > g->bound[i + 1]) g->kept[i] = g->bound[i + 1];
  return aside;
}

/* What a group sets aside, one part behind the other. */
static ir_array set_aside(rt_run *run, const gaps *g, int group, const ir_array *from) {
  int64_t first = g->to[g->bound[group]], count = g->to[g->kept[group]] - first;
  ir_array aside = {.dtype = from->dtype};
  if (!from->data || !count) return aside;
  aside = ir_array_room(run->memory.arena, from->dtype, count);
  for (int64_t part = g->bound[group]; part < g->kept[group]; part++)
    if (length_of(g, part))
      memcpy(at_of(&aside, g->to[part] - first), at_of(from, g->starts[part]),
             (size_t)length_of(g, part) * ir_dtype_bytes(from->dtype));
  return aside;
}

static void move_together(rt_run *run, gaps *g) {
  ir_array aside[MOST_GROUPS][2];
  for (int i = 0; i < g->groups; i++)
    for (int a = 0; a < 2; a++) aside[i][a] = set_aside(run, g, i, &g->array[a]);
  rt_pool_for(run->plan->options.pool, 0, g->groups, 1, move_groups, g);
  for (int i = 0; i < g->groups; i++)
    for (int a = 0; a < 2; a++)
      if (aside[i][a].count)
        memcpy(at_of(&g->array[a], g->to[g->bound[i]]), aside[i][a].data,
               (size_t)aside[i][a].count * ir_dtype_bytes(aside[i][a].dtype));
}

/* starts: where parts started, then where they ended (0: no loop reached the part). */
static void close_gaps(rt_run *run, ir_view *view, const int64_t *starts, int64_t parts) {
  int level = view->format->level_count - 1, threads = rt_pool_size(run->plan->options.pool);
  gaps g = {.starts = starts, .ends = starts + parts, .array = {view->crd[level], view->vals}};
  g.to = IR_NEW_ARRAY(run->memory.arena, int64_t, parts + 1);
  int64_t stored = close_rows(&g, &view->pos[level], parts);
  bool shared = stored < view->crd[level].count && rt_pool_pays(run->plan->options.pool, stored);
  if (!shared || cut_groups(&g, parts, threads < MOST_GROUPS ? threads : MOST_GROUPS) > stored / 4)
    (void)cut_groups(&g, parts, 1);
  move_together(run, &g);
  view->crd[level].count = view->vals.count = stored;
}

static spc_status levels_done(rt_run *run, const ir_tensor *tensor) {
  ir_view view = rt_memory_tensor(&run->memory, tensor)->view;
  const ir_buf *room = room_of(run, tensor);
  rt_slot *slot;
  if (room) {
    SPC_TRY(rt_run_bytes(run, room, &slot));
    close_gaps(run, &view, slot->host.data, slot->host.count / 2);
    return rt_memory_bind(&run->memory, tensor, &view);
  }
  for (int l = 0; l < view.format->level_count; l++)
    if (view.pos[l].data) close_list(&view.pos[l], view.crd[l].count);
  return SPC_OK;
}

/* Before the counting function: parts that no loop reaches hold nothing. */
spc_status rt_pack_begin(rt_run *run, const ir_stage *stage) {
  const ir_buf *counts = counts_of(run, stage_result(stage));
  rt_slot *slot;
  if (!counts) return SPC_OK;
  SPC_TRY(rt_memory_buffer(&run->memory, counts, &slot));
  if (slot->host.count) memset(slot->host.data, 0, (size_t)slot->host.count * sizeof(int64_t));
  return SPC_OK;
}

/* ---- as tuples --------------------------------------------------------------------------------
 */
/* After the counting function: room for the entries. */
spc_status rt_pack_room(rt_run *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  const ir_kernel *kernel = run->plan->image->kernel;
  if (counts_of(run, tensor)) return levels_room(run, tensor);
  const ir_buf *count = workspace_named(kernel, tensor->name, ".count");
  const ir_buf *at = workspace_named(kernel, tensor->name, ".at");
  const ir_buf *value = workspace_named(kernel, tensor->name, ".value");
  rt_slot *slot;
  if (!count || !at) return fault(run, tensor->name, "its workspaces are missing");
  SPC_TRY(rt_run_bytes(run, count, &slot));
  int64_t entries = ((const int64_t *)slot->host.data)[0];
  SPC_TRY(rt_memory_workspace(&run->memory, at, entries * tensor->rank, &slot));
  return value ? rt_memory_workspace(&run->memory, value, entries, &slot) : SPC_OK;
}

/* After the filling function: tuples are sorted, summed where they meet, and packed into the
 * tensor's format. */
spc_status rt_pack_entries(rt_run *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  const ir_kernel *kernel = run->plan->image->kernel;
  rt_slot *count, *at, *value = NULL;
  if (counts_of(run, tensor)) return levels_done(run, tensor);
  SPC_TRY(rt_run_bytes(run, workspace_named(kernel, tensor->name, ".count"), &count));
  SPC_TRY(rt_run_bytes(run, workspace_named(kernel, tensor->name, ".at"), &at));
  const ir_buf *value_buf = workspace_named(kernel, tensor->name, ".value");
  if (value_buf) SPC_TRY(rt_run_bytes(run, value_buf, &value));
  ir_arena *arena = run->memory.arena;
  ir_entries entries = {.rank = tensor->rank, .count = ((const int64_t *)count->host.data)[0]};
  entries.capacity = entries.count;
  entries.at = at->host.data;
  bool floats = ir_dtype_is_float(tensor->dtype);
  if (value && floats) entries.value = IR_NEW_ARRAY(arena, double, entries.count + 1);
  if (value && !floats) entries.int_value = IR_NEW_ARRAY(arena, int64_t, entries.count + 1);
  for (int64_t e = 0; value && e < entries.count; e++) {
    if (floats)
      entries.value[e] = ir_dtype_load(value->host.dtype, value->host.data, e);
    else
      entries.int_value[e] = ir_dtype_load_int(value->host.dtype, value->host.data, e);
  }
  ir_view view;
  const char *why = "";
  int64_t dims[IR_MAX_RANK];
  for (int d = 0; d < tensor->rank; d++)
    if (!ir_size_value(tensor->dim[d], run->plan->sizes, &dims[d])) return SPC_INTERNAL;
  if (ir_view_pack(arena, tensor->dtype, dims, tensor->format, index_of(run, tensor), &entries,
                   &view, &why))
    return fault(run, tensor->name, why);
  return rt_memory_bind(&run->memory, tensor, &view);
}

/* ---- conversions ----------------------------------------------------------------------------- */
spc_status rt_pack_convert(rt_run *run, const ir_stage *stage) {
  ir_view from, to;
  const char *why = "";
  SPC_TRY(rt_run_tensor(run, stage->source, &from));
  rt_pool *pool = run->plan->options.pool;
  ir_crew crew = {.threads = rt_pool_size(pool), .share = share, .pool = pool};
  if (ir_view_convert_by(run->memory.arena, pool ? &crew : NULL, &from, stage->dest->format,
                         index_of(run, stage->dest), &to, &why))
    return fault(run, stage->dest->name, why);
  return rt_memory_bind(&run->memory, stage->dest, &to);
}
