/* plan.c - executes a compiled kernel stage by stage: host loops (machine code or interpreted) and CUDA launches.
 *
 * Statistics tell what really ran: the kernel's name of each stage, the measured cover of the list it
 * read, and whether the guard let it run. */
#include "runtime/plan.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/memory.h"

struct rt_plan {
  const ir_image *image;
  int64_t *sizes;
  rt_plan_options options;
  rt_cuda_module **modules; /* one a code, CUDA only */
};

typedef struct run_state {
  rt_plan *plan;
  rt_memory memory;
  void *device_status; /* the sticky word */
} run_state;

static const ir_program *program_of(const rt_plan *plan) { return plan->image->kernel->program; }

spc_status rt_plan_new(const ir_image *image, const int64_t *sizes, const rt_plan_options *options,
                       ir_sink *sink, rt_plan **out) {
  rt_plan *plan = calloc(1, sizeof *plan);
  size_t dims = (size_t)image->kernel->program->dims.count;
  if (!plan) return SPC_OUT_OF_MEMORY;
  plan->image = image;
  plan->options = *options;
  plan->sizes = calloc(dims + 1, sizeof(int64_t));
  plan->modules = calloc((size_t)image->codes.count + 1, sizeof *plan->modules);
  if (!plan->sizes || !plan->modules) {
    rt_plan_free(plan);
    return SPC_OUT_OF_MEMORY;
  }
  memcpy(plan->sizes, sizes, dims * sizeof(int64_t));
  for (int i = 0; image->cuda && i < image->codes.count; i++) {
    spc_status status = rt_cuda_load(options->cuda, &image->codes.at[i], &plan->modules[i]);
    if (status) {
      ir_diag_add(sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "loading kernel `%s`: %s",
                  image->codes.at[i].entry, rt_cuda_error(options->cuda));
      rt_plan_free(plan);
      return status;
    }
  }
  *out = plan;
  return SPC_OK;
}

void rt_plan_free(rt_plan *plan) {
  if (!plan) return;
  for (int i = 0; plan->modules && plan->image->cuda && i < plan->image->codes.count; i++)
    if (plan->modules[i]) rt_cuda_unload(plan->options.cuda, plan->modules[i]);
  free(plan->modules);
  free(plan->sizes);
  free(plan);
}

/* ---- one launch ---------------------------------------------------------------------------- */
typedef struct host_call {
  ir_cpu_function *function;
  void **buf;
  const int64_t *sizes;
} host_call;

static void host_part(void *user, int64_t begin, int64_t end) {
  const host_call *call = user;
  call->function(call->buf, call->sizes, begin, end);
}

static spc_status range_of(run_state *run, const ir_code_image *code, int64_t *lo, int64_t *hi) {
  *lo = 0;
  *hi = 1;
  if (!code->parallel_hi) return SPC_OK;
  if (ir_size_value(code->parallel_lo, run->plan->sizes, lo) &&
      ir_size_value(code->parallel_hi, run->plan->sizes, hi))
    return SPC_OK;
  ir_diag_add(run->memory.sink, IR_DIAG_INTERNAL, IR_NOWHERE,
              "the range of the parallel loop of `%s` is not an expression of sizes", code->entry);
  return SPC_INTERNAL;
}

static spc_status launch_host(run_state *run, const ir_code_image *code) {
  int count = code->func->bufs.count;
  ir_array *arrays = IR_NEW_ARRAY(run->memory.arena, ir_array, count + 1);
  void **pointers = IR_NEW_ARRAY(run->memory.arena, void *, count + 1);
  for (int i = 0; i < count; i++) {
    rt_slot *slot;
    SPC_TRY(rt_memory_buffer(&run->memory, code->func->bufs.at[i], &slot));
    arrays[i] = slot->host;
    pointers[i] = slot->host.data;
  }
  int64_t lo, hi;
  SPC_TRY(range_of(run, code, &lo, &hi));
  if (!code->cpu)
    return ir_interp_loop(run->memory.arena, code->func, run->plan->sizes, arrays, lo, hi,
                          run->memory.sink);
  host_call call = {code->cpu, pointers, run->plan->sizes};
  if (run->plan->options.pool && code->parallel_hi)
    rt_pool_for(run->plan->options.pool, lo, hi, 1, host_part, &call);
  else
    host_part(&call, lo, hi);
  return SPC_OK;
}

static spc_status driver_failed(run_state *run, const char *what) {
  ir_diag_add(run->memory.sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "%s: %s", what,
              rt_cuda_error(run->plan->options.cuda));
  return SPC_INTERNAL;
}

static spc_status launch_cuda(run_state *run, const ir_code_image *code, rt_cuda_module *module,
                              double threshold) {
  spc_args args = {.threshold = (float)threshold, .status = run->device_status};
  args.flags = program_of(run->plan)->reproducible ? 1u : 0u;
  for (int i = 0; i < code->bufs.count; i++) {
    rt_slot *slot;
    SPC_TRY(rt_memory_buffer(&run->memory, code->bufs.at[i], &slot));
    SPC_TRY(rt_slot_to_device(&run->memory, slot));
    args.buf[i] = slot->device;
    slot->on_device = true;
  }
  for (int d = 0; d < program_of(run->plan)->dims.count; d++) args.size[d] = run->plan->sizes[d];
  int64_t grid[3] = {0, 1, 1};
  for (int d = 0; d < 3; d++)
    if (code->grid[d] && !ir_size_value(code->grid[d], run->plan->sizes, &grid[d]))
      return driver_failed(run, "the grid of a kernel is not an expression of sizes");
  if (code->grid[0] && (grid[0] <= 0 || grid[1] <= 0 || grid[2] <= 0)) return SPC_OK;
  if (rt_cuda_launch(run->plan->options.cuda, module, grid, &args, NULL))
    return driver_failed(run, ir_format_text(run->memory.arena, "launching `%s`", code->entry));
  return SPC_OK;
}

/* ---- guards and statistics ------------------------------------------------------------------ */
static spc_status host_bytes(run_state *run, const ir_buf *buf, rt_slot **slot) {
  SPC_TRY(rt_memory_buffer(&run->memory, buf, slot));
  return rt_slot_to_host(&run->memory, *slot);
}

static spc_status cover_of(run_state *run, const ir_list *list, double *cover) {
  rt_slot *counts;
  int64_t strips, capacity, sum = 0;
  SPC_TRY(host_bytes(run, list->counts, &counts));
  if (!ir_size_value(list->strips, run->plan->sizes, &strips) ||
      !ir_size_value(list->capacity, run->plan->sizes, &capacity))
    return SPC_INTERNAL;
  for (int64_t s = 0; s < strips; s++) sum += ((const int32_t *)counts->host.data)[s];
  *cover = strips && capacity ? (double)sum / ((double)strips * (double)capacity) : 0;
  return SPC_OK;
}

static double threshold_of(const rt_plan *plan, const ir_list *list) {
  if (plan->options.force_guard == 1) return INFINITY;
  if (plan->options.force_guard == 2) return -1;
  for (int i = 0; i < plan->image->kernel->stages.count; i++) {
    const ir_stage *stage = plan->image->kernel->stages.at[i];
    if (stage->when.list == list) return stage->when.threshold;
  }
  return INFINITY;
}

static spc_status set_thresholds(run_state *run) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < kernel->lists.count; i++) {
    const ir_list *list = kernel->lists.at[i];
    if (!list->threshold) continue;
    rt_slot *slot;
    SPC_TRY(rt_memory_buffer(&run->memory, list->threshold, &slot));
    ((double *)slot->host.data)[0] = threshold_of(run->plan, list);
  }
  return SPC_OK;
}

/* Whether the stage runs, by the verdict that its guard has written. */
static spc_status allowed(run_state *run, const ir_stage *stage, bool *runs) {
  *runs = true;
  if (!stage->when.list || !stage->when.list->verdict) return SPC_OK;
  rt_slot *verdict;
  SPC_TRY(host_bytes(run, stage->when.list->verdict, &verdict));
  bool dense = ((const int32_t *)verdict->host.data)[0] != 0;
  *runs = dense == stage->when.above;
  return SPC_OK;
}

/* ---- sparse results -------------------------------------------------------------------------- */
static const ir_buf *workspace_named(const ir_kernel *kernel, const char *tensor, const char *part) {
  size_t length = strlen(tensor);
  for (int i = 0; i < kernel->workspaces.count; i++) {
    const ir_buf *buf = kernel->workspaces.at[i];
    if (!strncmp(buf->name, tensor, length) && !strcmp(buf->name + length, part)) return buf;
  }
  return NULL;
}

static spc_status fault(run_state *run, const char *tensor, const char *why) {
  ir_diag_add(run->memory.sink, IR_DIAG_PACK, IR_NOWHERE, "packing `%s`: %s", tensor, why);
  return SPC_INVALID_INPUT;
}

static const ir_tensor *stage_result(const ir_stage *stage) {
  return stage->stmts.at[stage->stmts.count - 1]->target;
}

/* After the counting function: room for the entries. */
static spc_status room_for_entries(run_state *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  const ir_kernel *kernel = run->plan->image->kernel;
  const ir_buf *count = workspace_named(kernel, tensor->name, ".count");
  const ir_buf *at = workspace_named(kernel, tensor->name, ".at");
  const ir_buf *value = workspace_named(kernel, tensor->name, ".value");
  rt_slot *slot;
  if (!count || !at) return fault(run, tensor->name, "its workspaces are missing");
  SPC_TRY(host_bytes(run, count, &slot));
  int64_t entries = ((const int64_t *)slot->host.data)[0];
  SPC_TRY(rt_memory_workspace(&run->memory, at, entries * tensor->rank, &slot));
  return value ? rt_memory_workspace(&run->memory, value, entries, &slot) : SPC_OK;
}

/* After the filling function: sort, sum duplicates, pack into the tensor's format. */
static spc_status pack_entries(run_state *run, const ir_stage *stage) {
  const ir_tensor *tensor = stage_result(stage);
  const ir_kernel *kernel = run->plan->image->kernel;
  rt_slot *count, *at, *value = NULL;
  SPC_TRY(host_bytes(run, workspace_named(kernel, tensor->name, ".count"), &count));
  SPC_TRY(host_bytes(run, workspace_named(kernel, tensor->name, ".at"), &at));
  const ir_buf *value_buf = workspace_named(kernel, tensor->name, ".value");
  if (value_buf) SPC_TRY(host_bytes(run, value_buf, &value));
  ir_arena *arena = run->memory.arena;
  ir_entries entries = {.rank = tensor->rank, .count = ((const int64_t *)count->host.data)[0]};
  entries.capacity = entries.count;
  entries.at = at->host.data;
  bool floats = ir_dtype_is_float(tensor->dtype);
  if (value && floats) entries.value = IR_NEW_ARRAY(arena, double, entries.count + 1);
  if (value && !floats) entries.int_value = IR_NEW_ARRAY(arena, int64_t, entries.count + 1);
  for (int64_t e = 0; value && e < entries.count; e++) {
    if (floats) entries.value[e] = ir_dtype_load(value->host.dtype, value->host.data, e);
    else entries.int_value[e] = ir_dtype_load_int(value->host.dtype, value->host.data, e);
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

static spc_status tensor_to_host(run_state *run, const ir_tensor *tensor, ir_view *view) {
  rt_tensor_slots *t = rt_memory_tensor(&run->memory, tensor);
  bool there;
  SPC_TRY(rt_memory_need(&run->memory, tensor, &there));
  if (!there) return fault(run, tensor->name, "it was never computed");
  SPC_TRY(rt_slot_to_host(&run->memory, t->vals));
  *view = t->view;
  return SPC_OK;
}

static spc_status convert(run_state *run, const ir_stage *stage) {
  ir_view from, to;
  const char *why = "";
  SPC_TRY(tensor_to_host(run, stage->source, &from));
  if (ir_view_convert(run->memory.arena, &from, stage->dest->format, IR_I32, &to, &why))
    return fault(run, stage->dest->name, why);
  return rt_memory_bind(&run->memory, stage->dest, &to);
}

/* ---- stages ---------------------------------------------------------------------------------- */
static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static spc_status run_codes(run_state *run, const ir_stage *stage, const char **label) {
  const ir_image *image = run->plan->image;
  int launch = 0;
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    if (code->stage != stage) continue;
    if (stage->assembled && launch == 1) SPC_TRY(room_for_entries(run, stage));
    double threshold = stage->when.list ? threshold_of(run->plan, stage->when.list) : 0;
    SPC_TRY(image->cuda ? launch_cuda(run, code, run->plan->modules[i], threshold)
                        : launch_host(run, code));
    *label = code->label;
    launch++;
  }
  return stage->assembled ? pack_entries(run, stage) : SPC_OK;
}

static spc_status run_stage(run_state *run, const ir_stage *stage, rt_stats *stats) {
  rt_stage_stats row = {.stage = stage->name, .kernel = stage->row, .ran = true, .cover = -1};
  double begin = now_ms();
  if (run->plan->image->cuda ? false : stage->when.list != NULL)
    SPC_TRY(allowed(run, stage, &row.ran));
  if (stage->kind == IR_STAGE_CONVERT) SPC_TRY(convert(run, stage));
  else if (row.ran) SPC_TRY(run_codes(run, stage, &row.kernel));
  row.milliseconds = now_ms() - begin;
  if (stats) IR_PUSH(run->memory.arena, &stats->stages, row);
  return SPC_OK;
}

/* After everything ran: covers and, on CUDA, the verdicts that the device took. */
static spc_status complete_stats(run_state *run, rt_stats *stats) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < stats->stages.count && i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    rt_stage_stats *row = &stats->stages.at[i];
    const ir_list *list = stage->reads.count ? stage->reads.at[0]
                          : stage->detects   ? stage->detects
                                             : stage->when.list;
    if (stage->when.list) SPC_TRY(allowed(run, stage, &row->ran));
    if (list && list->counts) SPC_TRY(cover_of(run, list, &row->cover));
  }
  stats->workspace_bytes = run->memory.workspace_bytes;
  return SPC_OK;
}

static spc_status sticky_new(run_state *run) {
  rt_cuda *cuda = run->plan->options.cuda;
  if (!run->plan->image->cuda) return SPC_OK;
  if (rt_cuda_alloc(cuda, sizeof(unsigned), &run->device_status) ||
      rt_cuda_zero(cuda, run->device_status, sizeof(unsigned), NULL))
    return driver_failed(run, "allocating the status word");
  return SPC_OK;
}

static spc_status execute(run_state *run, ir_bindings *bindings, rt_stats *stats) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < bindings->list.count; i++)
    SPC_TRY(rt_memory_bind(&run->memory, bindings->list.at[i].tensor, &bindings->list.at[i].view));
  SPC_TRY(sticky_new(run));
  SPC_TRY(set_thresholds(run));
  for (int i = 0; i < kernel->stages.count; i++)
    SPC_TRY(run_stage(run, kernel->stages.at[i], stats));
  if (run->plan->image->cuda) {
    if (rt_cuda_synchronise(run->plan->options.cuda, NULL))
      return driver_failed(run, "a kernel failed");
    unsigned sticky = 0;
    if (rt_cuda_download(run->plan->options.cuda, &sticky, run->device_status, sizeof sticky))
      return driver_failed(run, "reading the status word");
    if (stats) stats->sticky = sticky;
  }
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *tensor = kernel->tensors.at[i];
    if (tensor->role != IR_ROLE_OUT) continue;
    ir_binding result = {.tensor = tensor};
    SPC_TRY(tensor_to_host(run, tensor, &result.view));
    IR_PUSH(run->memory.arena, &bindings->list, result);
  }
  return stats ? complete_stats(run, stats) : SPC_OK;
}

spc_status rt_plan_run(rt_plan *plan, ir_arena *arena, ir_bindings *bindings, rt_stats *stats,
                       ir_sink *sink) {
  run_state run = {.plan = plan};
  rt_cuda *cuda = plan->image->cuda ? plan->options.cuda : NULL;
  rt_cuda_counters before = cuda ? *rt_cuda_count(cuda) : (rt_cuda_counters){0};
  rt_memory_new(&run.memory, arena, plan->image->kernel, plan->sizes, cuda, sink);
  if (stats)
    stats->backend = cuda ? "cuda" : plan->image->codes.count && plan->image->codes.at[0].cpu ? "cpu" : "interp";
  spc_status status = execute(&run, bindings, stats);
  if (cuda && stats) {
    stats->bytes_to_device = rt_cuda_count(cuda)->to_device_bytes - before.to_device_bytes;
    stats->bytes_to_host = rt_cuda_count(cuda)->to_host_bytes - before.to_host_bytes;
  }
  if (cuda && run.device_status) rt_cuda_release(cuda, run.device_status);
  rt_memory_release(&run.memory);
  return status;
}
