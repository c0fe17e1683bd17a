/* bench_side.c - one compiled program that is timed on the operands of a bench.
 *
 * A time is that of everything from the first stage to the last one: detection, lists, guards and
 * assembly count; compiling, binding and copies to the device do not, nor does what is made once
 * from const inputs: it is timed apart.  On a GPU the launches are replayed from a graph, between two
 * events, where the plan is launches alone; otherwise they are enqueued one by one. */
#include "driver/bench.h"
#include "passes/choice.h"

/* ---- compiling --------------------------------------------------------------------------------
 */
static spc_status compile(bench_side *side, const bench_want *want) {
  bench *b = side->b;
  drv_session session = *b->s;
  session.arena = side->arena;
  session.program = side->program;
  session.pin = want->pin;
  session.options.kernel = b->kernel->name;
  if (want->quiet) session.sink = ir_sink_new(side->arena);
  SPC_TRY(drv_run_passes(&session, b->target, b->sizes));
  side->kernel = ir_kernel_named(side->program, b->kernel->name);
  SPC_TRY(drv_codegen(&session, side->kernel, b->target, false, &side->image));
  rt_plan_options options = {.pool = b->pool, .cuda = b->cuda, .force_guard = want->pin ? 1 : 0};
  return rt_plan_new(side->image, b->sizes, &options, session.sink, &side->plan);
}

spc_status bench_side_open(bench *b, const bench_want *want, bench_side **out) {
  bench_side *side = IR_NEW(b->arena, bench_side);
  *out = NULL;
  *side = (bench_side){.b = b, .label = want->label, .densified = want->dense};
  side->arena = bench_arena(b);
  side->program = ir_clone(side->arena, b->s->program);
  spc_status status = side->program ? SPC_OK : SPC_INTERNAL;
  if (!status && want->dense) pass_densify(side->program);
  if (!status) status = compile(side, want);
  if (!status)
    *out = side;
  else
    bench_side_close(side);
  return status;
}

static void drop_run(bench_side *side) {
  if (side->graph) rt_cuda_graph_free(side->b->cuda, side->graph);
  rt_run_free(side->run);
  ir_arena_free(side->run_arena);
  side->graph = NULL;
  side->run = NULL;
  side->run_arena = NULL;
}

void bench_side_close(bench_side *side) {
  if (!side) return;
  drop_run(side);
  rt_plan_free(side->plan);
  if (side->image && side->image->release) side->image->release(side->image->owner);
  ir_arena_free(side->arena);
  *side = (bench_side){.b = side->b};
}

/* ---- binding ----------------------------------------------------------------------------------
 */
static bool takes_dense(const bench_side *side, const bench_operand *o, const ir_tensor *tensor) {
  return side->densified && o->copied && ir_format_is_row_major(tensor->format);
}

/* Another run is needed when level arrays changed, which only stored forms have. */
static bool is_fixed_size(const bench_side *side) {
  for (int i = 0; i < side->b->operands.count; i++) {
    const bench_operand *o = &side->b->operands.at[i];
    const ir_tensor *tensor = ir_tensor_named(side->kernel, o->tensor->name);
    if (o->kind != BENCH_FIXED && o->copied && !takes_dense(side, o, tensor)) return false;
  }
  return true;
}

static spc_status capture(bench_side *side) {
  bench *b = side->b;
  if (!b->cuda || !rt_run_only_launches(side->run)) return SPC_OK;
  if (rt_cuda_capture_begin(b->cuda, b->stream)) return SPC_OK; /* enqueued one by one then */
  spc_status status = rt_run_enqueue(side->run, b->stream, NULL);
  if (rt_cuda_capture_end(b->cuda, b->stream, &side->graph)) side->graph = NULL;
  return status;
}

spc_status bench_side_bind(bench_side *side) {
  bench *b = side->b;
  ir_bindings inputs = {0};
  drop_run(side);
  side->run_arena = bench_arena(b);
  for (int i = 0; i < b->operands.count; i++) {
    bench_operand *o = &b->operands.at[i];
    ir_binding binding = {.tensor = ir_tensor_named(side->kernel, o->tensor->name)};
    bool dense = takes_dense(side, o, binding.tensor);
    if (dense) SPC_TRY(bench_data_dense(b, o));
    binding.view = dense ? o->dense : o->stored;
    IR_PUSH(side->run_arena, &inputs.list, binding);
  }
  SPC_TRY(rt_run_new(side->plan, side->run_arena, &inputs, b->s->sink, &side->run));
  SPC_TRY(rt_run_prepare(side->run));
  rt_run_take(side->run, RT_EVERY_RUN); /* what const inputs give is made apart */
  return capture(side);
}

spc_status bench_side_update(bench_side *side) {
  bench *b = side->b;
  if (!side->run || !is_fixed_size(side)) return bench_side_bind(side);
  for (int i = 0; b->cuda && i < b->operands.count; i++) {
    const bench_operand *o = &b->operands.at[i];
    const ir_tensor *tensor = ir_tensor_named(side->kernel, o->tensor->name);
    if (o->kind != BENCH_FIXED) SPC_TRY(rt_run_update(side->run, tensor, o->dense.vals.data));
  }
  return SPC_OK; /* on the CPU the run reads the operands where they are */
}

/* ---- timing -----------------------------------------------------------------------------------
 */
static spc_status launch(bench_side *side) {
  bench *b = side->b;
  if (!side->graph) return rt_run_enqueue(side->run, b->stream, NULL);
  return rt_cuda_graph_launch(b->cuda, side->graph, b->stream) ? SPC_INTERNAL : SPC_OK;
}

static spc_status timed(bench_side *side, spc_status (*what)(bench_side *), double *milliseconds) {
  bench *b = side->b;
  bool events = b->cuda && rt_run_only_launches(side->run);
  double begin = drv_now_ms();
  if (events && rt_cuda_time_begin(b->cuda, b->stream)) return SPC_INTERNAL;
  SPC_TRY(what(side));
  if (events) return rt_cuda_time_end(b->cuda, b->stream, milliseconds) ? SPC_INTERNAL : SPC_OK;
  if (b->cuda && rt_cuda_synchronise(b->cuda, b->stream)) return SPC_INTERNAL;
  *milliseconds = drv_now_ms() - begin;
  return SPC_OK;
}

static spc_status enqueue(bench_side *side) {
  return rt_run_enqueue(side->run, side->b->stream, NULL);
}

/* What const inputs give, made before a run that is timed; its time is kept apart. */
static spc_status make_once(bench_side *side) {
  double milliseconds = 0;
  rt_run_take(side->run, RT_ONCE);
  spc_status status = timed(side, enqueue, &milliseconds);
  rt_run_take(side->run, RT_EVERY_RUN);
  if (!side->once_timed || milliseconds < side->once) side->once = milliseconds;
  side->once_timed = true;
  return status;
}

static bool makes_once(const bench_side *side) {
  for (int i = 0; i < side->kernel->stages.count; i++)
    if (side->kernel->stages.at[i]->once) return true;
  return false;
}

/* Everything that is kept in caches is pushed out by a buffer larger than the last of them. */
static spc_status evict(bench *b) {
  if (!b->cold) return SPC_OK;
  if (b->cuda) return rt_cuda_fill(b->cuda, b->evict, 1, b->evict_bytes, b->stream);
  for (size_t i = 0; i < b->evict_bytes; i += 64) ((volatile char *)b->evict)[i]++;
  return SPC_OK;
}

/* One run that does not count (memory is there, and caches are warm, after it), poison, one that
 * does. */
spc_status bench_side_time(bench_side *side, double *milliseconds) {
  if (makes_once(side)) SPC_TRY(make_once(side));
  SPC_TRY(launch(side));
  SPC_TRY(rt_run_poison(side->run));
  SPC_TRY(evict(side->b));
  return timed(side, launch, milliseconds);
}

spc_status bench_side_fetch(bench_side *side, ir_bindings *results, rt_stats *stats) {
  if (stats) {
    rt_run_take(side->run, RT_EVERY_STAGE);
    spc_status status = rt_run_enqueue(side->run, side->b->stream, stats);
    rt_run_take(side->run, RT_EVERY_RUN);
    SPC_TRY(status);
  }
  return rt_run_fetch(side->run, results, stats);
}

double bench_side_predicted(bench_side *side, const ir_candidate *candidate, double cover) {
  bench *b = side->b;
  pass_options options = {.target = b->target, .sizes = b->sizes};
  pass_context context = {side->program, side->arena, ir_sink_new(side->arena), &options, NULL};
  pass_context_prepare(&context);
  pass_sum sum;
  double index;
  bool is_sum = candidate->target->def && pass_sum_of(&context, candidate->target->def, &sum);
  if (!candidate->axis || cover < 0) return candidate->microseconds;
  return pass_candidate_cost(&context, is_sum ? &sum : NULL, candidate, cover, &index);
}
