/* run.c - one run of a plan in steps: memory, launches, results.
 *
 *     rt_run_new      binds the inputs                    rt_run_place    lends device memory to a
 * tensor rt_run_prepare  allocates, uploads, builds launches rt_run_enqueue  launches in order;
 * guards decide on the device rt_run_fetch    waits, downloads results and what statistics need
 * Where rt_run_only_launches holds, enqueueing neither allocates nor copies nor waits: it may be
 * captured into a CUDA graph, and replayed after rt_run_update has changed an input. */
#include "runtime/run.h"

#include <math.h>
#include <time.h>

/* ---- guards and statistics ------------------------------------------------------------------ */
spc_status rt_run_bytes(rt_run *run, const ir_buf *buf, rt_slot **slot) {
  SPC_TRY(rt_memory_buffer(&run->memory, buf, slot));
  return rt_slot_to_host(&run->memory, *slot);
}

double rt_verdict_cover(int32_t verdict) {
  double told = verdict > 0 ? verdict & SPC_VERDICT_COVER : -(double)verdict;
  return verdict ? (told - 1) / 65536 : 0;
}

static spc_status verdict_of(rt_run *run, const ir_list *list, int32_t *said) {
  rt_slot *verdict;
  SPC_TRY(rt_run_bytes(run, list->verdict, &verdict));
  *said = ((const int32_t *)verdict->host.data)[0];
  return SPC_OK;
}

/* Where a device's guard says dense, or that another list was meant, the list was not made: the verdict has the cover then, or nobody knows it.  So it has
 * where it stands alone. */
static spc_status cover_of_verdict(rt_run *run, const ir_list *list, double *cover, bool *made) {
  int32_t said;
  *cover = -1;
  *made = list->counts != NULL;
  if (!list->verdict || (list->counts && !run->plan->image->cuda)) return SPC_OK;
  SPC_TRY(verdict_of(run, list, &said));
  *made = *made && said <= 0;
  if (!*made && said != SPC_VERDICT_ELSEWHERE) *cover = rt_verdict_cover(said);
  return SPC_OK;
}

static spc_status cover_of(rt_run *run, const ir_list *list, double *cover) {
  rt_slot *counts;
  int64_t strips, capacity, sum = 0;
  bool made;
  SPC_TRY(cover_of_verdict(run, list, cover, &made));
  if (!made) return SPC_OK;
  SPC_TRY(rt_run_bytes(run, list->counts, &counts));
  if (!ir_size_value(list->strips, run->plan->sizes, &strips) ||
      !ir_size_value(list->capacity, run->plan->sizes, &capacity))
    return SPC_INTERNAL;
  const int32_t *count = (const int32_t *)counts->host.data + ir_list_first_count(list, strips);
  for (int64_t s = 0; s < ir_list_counts(list, strips, capacity); s++) sum += count[s];
  *cover = strips && capacity ? (double)sum / ((double)strips * (double)capacity) : 0;
  return SPC_OK;
}

double rt_plan_threshold(const rt_plan *plan, const ir_list *list) {
  if (plan->options.force_guard == 1) return INFINITY;
  if (plan->options.force_guard == 2) return -1;
  for (int i = 0; i < plan->image->kernel->stages.count; i++) {
    const ir_stage *stage = plan->image->kernel->stages.at[i];
    if (stage->when.list == list) return stage->when.threshold;
  }
  return INFINITY;
}

void rt_plan_weigh(const rt_plan *plan, const ir_code_image *code, spc_args *args) {
  args->threshold = code->weighs ? (float)rt_plan_threshold(plan, code->weighs) : 0;
  args->other_threshold = code->weighs_too ? (float)rt_plan_threshold(plan, code->weighs_too) : 0;
}

static spc_status set_thresholds(rt_run *run) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < kernel->lists.count; i++) {
    const ir_list *list = kernel->lists.at[i];
    if (!list->threshold) continue;
    rt_slot *slot;
    SPC_TRY(rt_memory_buffer(&run->memory, list->threshold, &slot));
    ((double *)slot->host.data)[0] = rt_plan_threshold(run->plan, list);
    slot->filled = true;
  }
  return SPC_OK;
}

/* Whether the stage runs, by the verdict that its guard has written.  Of two lists dense is meant where the one that counts says so. */
static spc_status allowed(rt_run *run, const ir_stage *stage, bool *runs) {
  const ir_list *list = stage->when.list;
  int32_t said;
  *runs = true;
  if (!list || !list->verdict) return SPC_OK;
  SPC_TRY(verdict_of(run, list, &said));
  const ir_list *instead = stage->when.above ? ir_list_instead(run->plan->image->kernel, list) : NULL;
  if (said == SPC_VERDICT_ELSEWHERE && instead) SPC_TRY(verdict_of(run, instead, &said));
  *runs = said != SPC_VERDICT_ELSEWHERE && (said > 0) == stage->when.above;
  return SPC_OK;
}

static spc_status never_computed(rt_run *run, const ir_tensor *tensor) {
  ir_diag_add(run->memory.sink, IR_DIAG_PACK, IR_NOWHERE, "`%s` was never computed", tensor->name);
  return SPC_INVALID_INPUT;
}

spc_status rt_run_tensor(rt_run *run, const ir_tensor *tensor, ir_view *view) {
  rt_tensor_slots *t = rt_memory_tensor(&run->memory, tensor);
  bool there;
  SPC_TRY(rt_memory_need(&run->memory, tensor, &there));
  if (!there) return never_computed(run, tensor);
  SPC_TRY(rt_slot_to_host(&run->memory, t->vals));
  *view = t->view;
  return SPC_OK;
}

/* ---- before ---------------------------------------------------------------------------------- */
static spc_status short_list(ir_sink *sink, const ir_list *list, const char *what, int64_t have,
                             int64_t need) {
  ir_diag_add(sink, IR_DIAG_IR_RULE, list->span,
              "list `%s`: %s is %lld, and it takes %lld at these sizes", list->name, what,
              (long long)have, (long long)need);
  return SPC_INVALID_INPUT;
}

static spc_status unknown_list(ir_sink *sink, const ir_list *list) {
  ir_diag_add(sink, IR_DIAG_IR_RULE, list->span,
              "list `%s`: its strips or its capacity cannot be computed at these sizes",
              list->name);
  return SPC_INVALID_INPUT;
}

static spc_status check_list_buffer(const rt_plan *plan, ir_sink *sink, const ir_list *list,
                                    const ir_buf *buf, const char *what, int64_t need) {
  int64_t count;
  if (!buf || !buf->count || !ir_size_value(buf->count, plan->sizes, &count)) return SPC_OK;
  return count < need ? short_list(sink, list, what, count, need) : SPC_OK;
}

static int64_t tiles_of(int64_t extent, int64_t tile) { return extent / tile + !!(extent % tile); }

static int64_t product(int64_t a, int64_t b) { /* of sizes; the largest number when it overflows */
  return a > 0 && b > INT64_MAX / a ? INT64_MAX : a * b;
}

/* Generated code trusts a list's sizes; in an edited dump they can be any. */
static spc_status check_list(const rt_plan *plan, ir_sink *sink, const ir_list *list) {
  const int64_t *sizes = plan->sizes;
  const ir_tensor *tensor = list->tensor;
  int64_t strips, capacity, along, across = 1;
  if (!ir_size_value(list->strips, sizes, &strips) ||
      !ir_size_value(list->capacity, sizes, &capacity) ||
      !ir_size_value(ir_tensor_extent(tensor, list->axis_dim), sizes, &along) ||
      (list->strip_dim >= 0 && !ir_size_value(ir_tensor_extent(tensor, list->strip_dim), sizes, &across)))
    return unknown_list(sink, list);
  int64_t tiles = tiles_of(along, list->gran), rows = tiles_of(across, list->strip);
  const int64_t pitch = list->section ? product(tiles_of(capacity, IR_LIST_ROWS), IR_LIST_ROWS) : capacity;
  if (capacity < tiles) return short_list(sink, list, "its capacity", capacity, tiles);
  if (strips < rows) return short_list(sink, list, "its number of strips", strips, rows);
  SPC_TRY(check_list_buffer(plan, sink, list, list->counts, "the size of its counts",
                            ir_list_first_count(list, strips) + ir_list_counts(list, strips, capacity)));
  SPC_TRY(check_list_buffer(plan, sink, list, list->ids, "the size of its ids",
                            product(list->pairs ? tiles_of(strips, 2) : strips, pitch)));
  if (list->section)
    SPC_TRY(check_list_buffer(plan, sink, list, list->packed, "the size of its packed rows", product(strips, product(pitch, list->strip))));
  SPC_TRY(check_list_buffer(plan, sink, list, list->bits, "the size of its bits",
                            product(strips, tiles_of(capacity, 32))));
  SPC_TRY(check_list_buffer(plan, sink, list, list->marks, "the size of its marks",
                            product(across, tiles_of(capacity, 32))));
  SPC_TRY(check_list_buffer(plan, sink, list, list->order, "the size of its order", across));
  SPC_TRY(check_list_buffer(plan, sink, list, list->verdict, "the size of its verdict", 1));
  return check_list_buffer(plan, sink, list, list->threshold, "the size of its threshold", 1);
}

spc_status rt_plan_check_lists(const rt_plan *plan, ir_sink *sink) {
  for (int i = 0; i < plan->image->kernel->lists.count; i++)
    SPC_TRY(check_list(plan, sink, plan->image->kernel->lists.at[i]));
  return SPC_OK;
}

spc_status rt_run_new(rt_plan *plan, ir_arena *arena, const ir_bindings *inputs, ir_sink *sink,
                      rt_run **out) {
  rt_run *run = IR_NEW(arena, rt_run);
  rt_cuda *cuda = plan->image->cuda ? plan->options.cuda : NULL;
  run->plan = plan;
  if (cuda) run->before = *rt_cuda_count(cuda);
  rt_memory_new(&run->memory, arena, plan->image->kernel, plan->sizes, cuda, sink);
  run->memory.fenced = plan->options.fenced;
  *out = run;
  SPC_TRY(rt_plan_check_lists(plan, sink));
  for (int i = 0; i < inputs->list.count; i++)
    SPC_TRY(rt_memory_bind(&run->memory, inputs->list.at[i].tensor, &inputs->list.at[i].view));
  return SPC_OK;
}

spc_status rt_run_place(rt_run *run, const ir_tensor *tensor, void *device) {
  bool there;
  SPC_TRY(rt_memory_need(&run->memory, tensor, &there));
  if (!there) return never_computed(run, tensor);
  rt_slot *slot = rt_memory_tensor(&run->memory, tensor)->vals;
  slot->device = device;
  slot->lent = true;
  return SPC_OK;
}

bool rt_run_only_launches(const rt_run *run) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < kernel->stages.count; i++)
    if (kernel->stages.at[i]->assembled || kernel->stages.at[i]->kind == IR_STAGE_CONVERT)
      return false;
  return run->plan->image->cuda;
}

/* The plan's report, or words of the run's own (report.c). */
static spc_status new_status_words(rt_run *run) {
  rt_cuda *cuda = run->plan->options.cuda;
  size_t bytes = sizeof(unsigned) * (size_t)(1 + run->plan->image->kernel->lists.count);
  if (run->plan->options.report) {
    run->status = run->plan->options.report->device;
    return SPC_OK;
  }
  spc_status status = rt_cuda_alloc(cuda, bytes, &run->own_status);
  if (!status) status = rt_cuda_zero(cuda, run->own_status, bytes, NULL);
  if (status) (void)rt_run_driver_failed(run, "allocating the status words");
  SPC_TRY(status);
  run->status = run->own_status;
  return SPC_OK;
}

spc_status rt_run_prepare(rt_run *run) {
  const ir_image *image = run->plan->image;
  SPC_TRY(set_thresholds(run));
  if (!image->cuda) return SPC_OK;
  SPC_TRY(new_status_words(run));
  run->launches = IR_NEW_ARRAY(run->memory.arena, rt_launch, image->codes.count + 1);
  bool all = rt_run_only_launches(run);
  for (int i = 0; i < image->codes.count && all; i++) SPC_TRY(rt_launch_prepare(run, i));
  rt_launch_fronts(run->plan, run->launches, all);
  if (!all) return SPC_OK;
  /* Uploads and fills went through the default stream, which other streams need not wait for. */
  if (rt_cuda_synchronise(run->plan->options.cuda, NULL))
    return rt_run_driver_failed(run, "preparing a run");
  return SPC_OK;
}

spc_status rt_run_update(rt_run *run, const ir_tensor *tensor, const void *values) {
  rt_tensor_slots *t = rt_memory_tensor(&run->memory, tensor);
  if (!t || !t->ready) return never_computed(run, tensor);
  size_t bytes = (size_t)t->vals->host.count * ir_dtype_bytes(t->vals->host.dtype);
  if (!t->vals->device) {
    memcpy(t->vals->host.data, values, bytes);
    return SPC_OK;
  }
  if (rt_cuda_upload(run->memory.cuda, t->vals->device, values, bytes) ||
      rt_cuda_synchronise(run->memory.cuda, NULL))
    return rt_run_driver_failed(run, "updating an input");
  return SPC_OK;
}

spc_status rt_run_poison(rt_run *run) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < kernel->tensors.count; i++) {
    const rt_tensor_slots *t = rt_memory_tensor(&run->memory, kernel->tensors.at[i]);
    if (kernel->tensors.at[i]->role != IR_ROLE_OUT || !t || !t->ready || !t->vals) continue;
    size_t bytes = (size_t)t->vals->host.count * ir_dtype_bytes(t->vals->host.dtype);
    if (t->vals->host.data) memset(t->vals->host.data, 0xff, bytes);
    if (t->vals->device &&
        rt_cuda_fill(run->memory.cuda, t->vals->device, 0xff, bytes, run->stream))
      return rt_run_driver_failed(run, "poisoning an output");
  }
  return SPC_OK;
}

/* ---- stages ---------------------------------------------------------------------------------- */
static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static spc_status run_code(rt_run *run, int number) {
  if (!run->plan->image->cuda) return rt_launch_host(run, &run->plan->image->codes.at[number]);
  if (!rt_run_only_launches(run)) SPC_TRY(rt_launch_prepare(run, number));
  return rt_launch_enqueue(run, number, run->stream);
}

static spc_status run_codes(rt_run *run, const ir_stage *stage, const char **label) {
  const ir_image *image = run->plan->image;
  int launch = 0;
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    if (code->stage != stage) continue;
    if (stage->assembled && launch == 0) SPC_TRY(rt_pack_begin(run, stage));
    if (stage->assembled && launch == 1) SPC_TRY(rt_pack_room(run, stage));
    if (run->counting && launch == 1) return SPC_OK;
    SPC_TRY(run_code(run, i));
    if (!image->cuda || !run->launches[i].empty) *label = code->label;
    launch++;
  }
  return stage->assembled ? rt_pack_entries(run, stage) : SPC_OK;
}

static spc_status run_stage(rt_run *run, const ir_stage *stage, rt_stage_stats *row) {
  *row = (rt_stage_stats){.stage = stage->name, .kernel = stage->row, .ran = true, .cover = -1};
  if (!run->plan->image->cuda && stage->when.list) SPC_TRY(allowed(run, stage, &row->ran));
  if (stage->kind == IR_STAGE_CONVERT) return rt_pack_convert(run, stage);
  return row->ran ? run_codes(run, stage, &row->kernel) : SPC_OK;
}

/* A stage between two events of its stream; stages that wait for the device are timed by the clock.
 */
static spc_status run_stage_timed(rt_run *run, const ir_stage *stage, rt_stage_stats *row) {
  rt_cuda *cuda = run->plan->options.cuda;
  bool events = run->plan->image->cuda && !stage->assembled && stage->kind != IR_STAGE_CONVERT;
  double begin = now_ms();
  if (events && rt_cuda_time_begin(cuda, run->stream))
    return rt_run_driver_failed(run, "timing a stage");
  SPC_TRY(run_stage(run, stage, row));
  row->milliseconds = now_ms() - begin;
  if (events && rt_cuda_time_end(cuda, run->stream, &row->milliseconds))
    return rt_run_driver_failed(run, ir_format_text(run->memory.arena, "stage `%s`", stage->name));
  return SPC_OK;
}

void rt_run_take(rt_run *run, rt_share share) { run->share = share; }

spc_status rt_run_enqueue(rt_run *run, void *stream, rt_stats *stats) {
  const ir_kernel *kernel = run->plan->image->kernel;
  rt_stage_stats row;
  run->stream = stream;
  for (int i = 0; i < kernel->stages.count; i++) {
    if (run->left_out && run->left_out[i]) continue;
    if (!rt_takes(run->share, kernel->stages.at[i])) {
      row = (rt_stage_stats){.stage = kernel->stages.at[i]->name, .kernel = "", .cover = -1};
      if (stats) IR_PUSH(run->memory.arena, &stats->stages, row);
      continue;
    }
    run->counting = run->counted && run->counted[i] && rt_pack_counts(run, kernel->stages.at[i]);
    SPC_TRY(stats ? run_stage_timed(run, kernel->stages.at[i], &row)
                  : run_stage(run, kernel->stages.at[i], &row));
    if (stats) IR_PUSH(run->memory.arena, &stats->stages, row);
  }
  return SPC_OK;
}

/* ---- after ----------------------------------------------------------------------------------- */
/* Covers and, on CUDA, the verdicts that the device took. */
static spc_status complete_stats(rt_run *run, rt_stats *stats) {
  const ir_image *image = run->plan->image;
  const ir_kernel *kernel = image->kernel;
  for (int i = 0; i < stats->stages.count && i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    rt_stage_stats *row = &stats->stages.at[i];
    const ir_list *list = stage->reads.count ? stage->reads.at[0]
                          : stage->detects   ? stage->detects
                                             : stage->when.list;
    if (stage->when.list) SPC_TRY(allowed(run, stage, &row->ran));
    bool told = list && (list->counts || list->verdict);
    if (told) SPC_TRY(cover_of(run, list, &row->cover));
  }
  stats->workspace_bytes = run->memory.workspace_bytes;
  stats->backend = image->cuda                                    ? "cuda"
                   : image->codes.count && image->codes.at[0].cpu ? "cpu"
                                                                  : "interp";
  if (!image->cuda) return SPC_OK;
  stats->bytes_to_device =
      rt_cuda_count(run->memory.cuda)->to_device_bytes - run->before.to_device_bytes;
  stats->bytes_to_host = rt_cuda_count(run->memory.cuda)->to_host_bytes - run->before.to_host_bytes;
  return SPC_OK;
}

static spc_status wait_for_device(rt_run *run, unsigned *sticky) {
  rt_cuda *cuda = run->plan->options.cuda;
  if (rt_cuda_synchronise(cuda, run->stream)) return rt_run_driver_failed(run, "a kernel failed");
  if (run->plan->options.report)
    *sticky = rt_report_sticky(run->plan->options.report);
  else if (rt_cuda_download(cuda, sticky, run->own_status, sizeof *sticky))
    return rt_run_driver_failed(run, "reading the status words");
  return run->memory.fenced ? rt_memory_check_fences(&run->memory) : SPC_OK;
}

/* A device writes its words itself. */
static spc_status write_report(rt_run *run) {
  const ir_kernel *kernel = run->plan->image->kernel;
  for (int i = 0; i < kernel->lists.count; i++) {
    const ir_list *list = kernel->lists.at[i];
    if (!list->verdict || !list->threshold) continue;
    int32_t said;
    double cover;
    SPC_TRY(cover_of(run, list, &cover));
    SPC_TRY(verdict_of(run, list, &said));
    rt_report_guard(run->plan->options.report, i, cover, said > 0);
  }
  return SPC_OK;
}

spc_status rt_run_fetch(rt_run *run, ir_bindings *outputs, rt_stats *stats) {
  const ir_kernel *kernel = run->plan->image->kernel;
  unsigned sticky = 0;
  if (run->plan->image->cuda)
    SPC_TRY(wait_for_device(run, &sticky));
  else if (run->plan->options.report)
    SPC_TRY(write_report(run));
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *tensor = kernel->tensors.at[i];
    if (tensor->role != IR_ROLE_OUT) continue;
    ir_binding result = {.tensor = tensor};
    SPC_TRY(rt_run_tensor(run, tensor, &result.view));
    (void)ir_view_as_declared(tensor, run->plan->sizes, &result.view); /* its own sizes were known */
    IR_PUSH(run->memory.arena, &outputs->list, result);
  }
  if (!stats) return SPC_OK;
  stats->sticky = sticky;
  return complete_stats(run, stats);
}

void rt_run_free(rt_run *run) {
  if (!run) return;
  for (int i = 0; run->launches && i < run->plan->image->codes.count; i++) {
    rt_cublaslt_call **kept = &run->plan->kept[i], *call = run->launches[i].call;
    if (call && *kept) rt_cublaslt_free(*kept);
    if (call) *kept = call;
  }
  if (run->own_status) rt_cuda_release(run->memory.cuda, run->own_status);
  rt_memory_release(&run->memory);
}
