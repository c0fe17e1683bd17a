/* pack.c - sparse results whose pattern is computed: room for the entries, packing, conversions.
 *
 * These steps read what the device wrote (a count, the entries), so a run with one of them waits
 * for the device. */
#include "ir/rows.h"
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

/* After the counting function: room for the entries. */
spc_status rt_pack_room(rt_run *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  const ir_kernel *kernel = run->plan->image->kernel;
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

/* After the filling function: sort, sum duplicates, pack into the tensor's format. */
spc_status rt_pack_entries(rt_run *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  const ir_kernel *kernel = run->plan->image->kernel;
  rt_slot *count, *at, *value = NULL;
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
  if (ir_view_pack(arena, tensor->dtype, dims, tensor->format, IR_I32, &entries, &view, &why))
    return fault(run, tensor->name, why);
  return rt_memory_bind(&run->memory, tensor, &view);
}

/* ---- conversions ----------------------------------------------------------------------------- */
static void count_rows(void *rows, int64_t begin, int64_t end) { ir_rows_count(rows, begin, end); }
static void fill_rows(void *rows, int64_t begin, int64_t end) { ir_rows_fill(rows, begin, end); }

/* Dense rows on all threads; false: the general way. */
static bool convert_rows(rt_run *run, const ir_view *from, const ir_format *format, ir_view *to) {
  enum { LEAST = 1 << 15 }; /* values that are worth another thread */
  rt_pool *pool = run->plan->options.pool;
  ir_rows rows;
  if (!ir_rows_begin(run->memory.arena, from, format, IR_I32, &rows)) return false;
  int64_t least = LEAST / (rows.length + 1) + 1;
  rt_pool_for(pool, 0, rows.count, least, count_rows, &rows);
  if (!ir_rows_room(run->memory.arena, &rows)) return false;
  rt_pool_for(pool, 0, rows.count, least, fill_rows, &rows);
  *to = rows.to;
  return true;
}

spc_status rt_pack_convert(rt_run *run, const ir_stage *stage) {
  ir_view from, to;
  const char *why = "";
  SPC_TRY(rt_run_tensor(run, stage->source, &from));
  if (convert_rows(run, &from, stage->dest->format, &to))
    return rt_memory_bind(&run->memory, stage->dest, &to);
  if (ir_view_convert(run->memory.arena, &from, stage->dest->format, IR_I32, &to, &why))
    return fault(run, stage->dest->name, why);
  return rt_memory_bind(&run->memory, stage->dest, &to);
}
