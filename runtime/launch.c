/* launch.c - one launch: a host function over its pool, or a CUDA kernel with its arguments.
 *
 * Preparing gives memory to every buffer and fills the arguments; enqueueing is one driver call and
 * nothing else, so that it can be captured into a graph. */
#include <stdatomic.h>

#include "runtime/run.h"

typedef struct host_call {
  ir_cpu_function *function;
  const int64_t *sizes;
  const rt_buffer_sets *buffers;
  atomic_llong work; /* ns, of all parts together */
} host_call;

static void call_function(host_call *call, int64_t begin, int64_t end) {
  const rt_buffer_sets *buffers = call->buffers;
  int set = 0;
  if (!buffers->used) {
    call->function(buffers->set[0], call->sizes, begin, end);
    return;
  }
  while (atomic_flag_test_and_set_explicit(&buffers->used[set], memory_order_acquire))
    set = (set + 1) % buffers->count;
  call->function(buffers->set[set], call->sizes, begin, end);
  atomic_flag_clear_explicit(&buffers->used[set], memory_order_release);
}

static void host_part(void *user, int64_t begin, int64_t end) {
  host_call *call = user;
  int64_t before = rt_now_ns();
  call_function(call, begin, end);
  atomic_fetch_add_explicit(&call->work, rt_now_ns() - before, memory_order_relaxed);
}

static spc_status range_of(const rt_plan *plan, const ir_code_image *code, ir_sink *sink,
                           int64_t *lo, int64_t *hi) {
  *lo = 0;
  *hi = 1;
  if (!code->parallel_hi) return SPC_OK;
  if (ir_count_value(code->parallel_lo, plan->sizes, lo) &&
      ir_count_value(code->parallel_hi, plan->sizes, hi))
    return SPC_OK;
  ir_diag_add(sink, IR_DIAG_IR_RULE, code->func->span,
              "the range of the parallel loop of `%s` cannot be computed at these sizes",
              code->entry);
  return SPC_INVALID_INPUT;
}

/* What a function took the last time says whether threads are woken for it; the first time they
 * are. */
spc_status rt_call_host(rt_plan *plan, const ir_code_image *code, const rt_buffer_sets *buffers,
                        ir_sink *sink) {
  int64_t lo, hi, *took = &plan->work_ns[code - plan->image->codes.at];
  rt_pool *pool = plan->options.pool;
  SPC_TRY(range_of(plan, code, sink, &lo, &hi));
  host_call call = {.function = code->cpu, .sizes = plan->sizes, .buffers = buffers};
  if (!pool || !code->parallel_hi) {
    call_function(&call, lo, hi);
    return SPC_OK;
  }
  atomic_init(&call.work, 0);
  if (*took && !rt_pool_pays(pool, *took))
    host_part(&call, lo, hi);
  else
    rt_pool_for(pool, lo, hi, 1, host_part, &call);
  *took = atomic_load_explicit(&call.work, memory_order_relaxed) + 1;
  return SPC_OK;
}

rt_buffer_sets rt_buffer_sets_new(ir_arena *arena, int count, int buffers) {
  rt_buffer_sets sets = {.count = count,
                         .set = IR_NEW_ARRAY(arena, void **, count),
                         .used = IR_NEW_ARRAY(arena, atomic_flag, count)};
  for (int i = 0; i < count; i++) {
    sets.set[i] = IR_NEW_ARRAY(arena, void *, buffers + 1);
    atomic_flag_clear(&sets.used[i]);
  }
  return sets;
}

bool rt_has_own_buffers(const ir_func *func) {
  for (int i = 0; i < func->bufs.count; i++)
    if (func->bufs.at[i]->each) return true;
  return false;
}

/* Further sets of buffers, with zeroed memory for those that are not shared. */
static void add_sets(rt_run *run, const ir_func *func, rt_buffer_sets *buffers) {
  void **first = buffers->set[0];
  *buffers = rt_buffer_sets_new(run->memory.arena, rt_pool_size(run->plan->options.pool),
                                func->bufs.count);
  for (int set = 0; set < buffers->count; set++)
    for (int i = 0; i < func->bufs.count; i++) {
      const ir_buf *buf = func->bufs.at[i];
      buffers->set[set][i] =
          set && buf->each ? rt_memory_each(&run->memory, buf, set, buffers->count) : first[i];
    }
}

spc_status rt_launch_host(rt_run *run, const ir_code_image *code) {
  int count = code->func->bufs.count;
  ir_array *arrays = IR_NEW_ARRAY(run->memory.arena, ir_array, count + 1);
  void **pointers = IR_NEW_ARRAY(run->memory.arena, void *, count + 1);
  for (int i = 0; i < count; i++) {
    rt_slot *slot;
    SPC_TRY(rt_memory_buffer(&run->memory, code->func->bufs.at[i], &slot));
    arrays[i] = slot->host;
    pointers[i] = slot->host.data;
  }
  bool in_parts = run->plan->options.pool && code->parallel_hi;
  rt_buffer_sets buffers = {.count = 1, .set = &pointers};
  int64_t lo, hi;
  if (in_parts && rt_has_own_buffers(code->func)) add_sets(run, code->func, &buffers);
  if (code->cpu) return rt_call_host(run->plan, code, &buffers, run->memory.sink);
  SPC_TRY(range_of(run->plan, code, run->memory.sink, &lo, &hi));
  return ir_interp_loop(run->memory.arena, code->func, run->plan->sizes, arrays, lo, hi,
                        run->plan->options.max_steps, run->memory.sink);
}

spc_status rt_driver_failed(const rt_plan *plan, ir_sink *sink, const char *what) {
  ir_diag_add(sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "%s: %s", what,
              rt_cuda_error(plan->options.cuda));
  return SPC_INTERNAL;
}

spc_status rt_run_driver_failed(rt_run *run, const char *what) {
  return rt_driver_failed(run->plan, run->memory.sink, what);
}

spc_status rt_launch_sizes(const rt_plan *plan, int number, rt_launch *launch, ir_sink *sink) {
  const ir_code_image *code = &plan->image->codes.at[number];
  const ir_program *program = plan->image->kernel->program;
  for (int d = 0; d < program->dims.count; d++) launch->args.size[d] = plan->sizes[d];
  launch->grid[0] = 0;
  launch->grid[1] = launch->grid[2] = 1;
  for (int d = 0; d < 3; d++)
    if (code->grid[d] && !ir_size_value(code->grid[d], plan->sizes, &launch->grid[d])) {
      ir_diag_add(sink, IR_DIAG_INTERNAL, IR_NOWHERE,
                  "the grid of `%s` is not an expression of sizes", code->entry);
      return SPC_INTERNAL;
    }
  launch->empty =
      code->grid[0] && (launch->grid[0] <= 0 || launch->grid[1] <= 0 || launch->grid[2] <= 0);
  return SPC_OK;
}

/* ---- tensor maps ----------------------------------------------------------------------------- */
static bool is_made(const rt_made_map *made, int code, int number, const void *device) {
  return made->code == code && made->number == number && made->device == device;
}

/* Encoding takes about a microsecond; a plan remembers the maps of the last few pointers. */
static spc_status made_map(rt_plan *plan, int code, int number, void *device, ir_sink *sink,
                           rt_made_map **out) {
  const ir_box_map *map = &plan->image->codes.at[code].maps.at[number];
  if (!plan->made) return SPC_OUT_OF_MEMORY;
  for (int i = 0; i < plan->made_count && i < RT_MADE_MAPS; i++)
    if (is_made(&plan->made[i], code, number, device)) return *out = &plan->made[i], SPC_OK;
  rt_made_map *made = &plan->made[plan->made_count % RT_MADE_MAPS];
  made->code = -1; /* nothing, should encoding fail */
  if (rt_cuda_map(plan->options.cuda, map, plan->sizes, device, &made->map, &made->fits))
    return rt_driver_failed(plan, sink, "encoding a tensor map");
  made->code = code;
  made->number = number;
  made->device = device;
  plan->made_count++;
  *out = made;
  return SPC_OK;
}

void rt_launch_room(rt_plan *plan, int number, ir_arena *arena, rt_launch *launch) {
  if (!plan->image->codes.at[number].maps.count || launch->maps) return;
  if (!plan->made)
    plan->made = ir_take(plan->options.from, sizeof *plan->made * RT_MADE_MAPS, IR_TAKE_ALIGN);
  char *room = ir_alloc(arena, sizeof(spc_tensor_maps) + 64); /* arenas know of 16 bytes */
  launch->maps = (spc_tensor_maps *)(void *)(room + (64 - (uintptr_t)room % 64) % 64);
}

spc_status rt_launch_maps(rt_plan *plan, int number, rt_launch *launch, ir_sink *sink) {
  const ir_code_image *code = &plan->image->codes.at[number];
  launch->unfit = false;
  for (int i = 0; i < code->maps.count && !launch->unfit; i++) {
    rt_made_map *made = NULL;
    if (code->maps.at[i].buf < 0) continue;
    SPC_TRY(made_map(plan, number, i, launch->args.buf[code->maps.at[i].buf], sink, &made));
    launch->maps->map[i] = made->map;
    launch->unfit = !made->fits;
  }
  return SPC_OK;
}

/* Other sizes, or pointers aligned otherwise, may want another algorithm; else the call of the run
 * before serves again. */
static spc_status settle_call(rt_run *run, int number, rt_launch *launch) {
  const rt_plan *plan = run->plan;
  const ir_library_call *call = plan->image->codes.at[number].library;
  if (!launch->call) {
    launch->call = plan->kept[number];
    plan->kept[number] = NULL;
  }
  launch->unfit = false;
  if (launch->call && rt_cublaslt_again(launch->call, call, plan->sizes, launch->args.buf))
    return SPC_OK;
  rt_cublaslt_free(launch->call);
  launch->call = NULL;
  SPC_TRY(rt_cublaslt_settle(plan->options.cuda, call, plan->sizes, launch->args.buf,
                             &launch->call));
  launch->unfit = !launch->call;
  return SPC_OK;
}

/* A code whose maps do not fit is not launched, nor is what its stage has behind it; codes that stand in are, then and only then: for those before
 * them, which may be another stage's that is both branches. */
bool rt_launch_left_out(const rt_plan *plan, const rt_launch *launches, int number) {
  const ir_code_image *codes = plan->image->codes.at;
  bool unfit = false;
  int own = number;
  if (codes[number].front) return launches[number].unfit;
  while (own > 0 && codes[own].stands_in) own--;
  for (int i = own; i >= 0 && codes[i].stage == codes[own].stage; i--) unfit |= !codes[i].stands_in && !codes[i].front && launches[i].unfit;
  return unfit != codes[number].stands_in;
}

static rt_launch *last_behind(const rt_plan *plan, rt_launch *launches, const ir_list *front) {
  for (int i = plan->image->codes.count - 1; i >= 0; i--) {
    const ir_code_image *code = &plan->image->codes.at[i];
    if (code->behind == front && code->stage->kind == IR_STAGE_COMPUTE && !launches[i].empty) return &launches[i];
  }
  return NULL;
}

void rt_launch_fronts(const rt_plan *plan, rt_launch *launches, bool taken) {
  const ir_code_image *codes = plan->image->codes.at;
  for (int f = 0; f < plan->image->codes.count; f++) {
    if (!codes[f].front) continue;
    rt_launch *last = last_behind(plan, launches, codes[f].front);
    launches[f].spared = !taken || !last;
    bool there = !launches[f].spared && !launches[f].empty;
    for (int i = f + 1; i < plan->image->codes.count; i++) {
      if (codes[i].behind != codes[f].front) continue;
      launches[i].args.flags &= ~(unsigned)(SPC_FLAG_BEHIND | SPC_FLAG_LAST);
      launches[i].spared = there && codes[i].clears;
      if (there) launches[i].args.flags |= &launches[i] == last ? SPC_FLAG_BEHIND | SPC_FLAG_LAST : SPC_FLAG_BEHIND;
    }
  }
}

spc_status rt_launch_prepare(rt_run *run, int number) {
  const ir_code_image *code = &run->plan->image->codes.at[number];
  rt_launch *launch = &run->launches[number];
  spc_args *args = &launch->args;
  *args = (spc_args){.status = run->status,
                     .flags = rt_run_program(run)->reproducible ? SPC_FLAG_REPRODUCIBLE : 0};
  rt_plan_weigh(run->plan, code, args);
  for (int i = 0; i < code->bufs.count; i++) {
    rt_slot *slot;
    SPC_TRY(rt_memory_buffer(&run->memory, code->bufs.at[i], &slot));
    SPC_TRY(rt_slot_to_device(&run->memory, slot));
    args->buf[i] = slot->device;
    slot->on_device = true;
  }
  rt_launch_room(run->plan, number, run->memory.arena, launch);
  SPC_TRY(rt_launch_sizes(run->plan, number, launch, run->memory.sink));
  SPC_TRY(rt_launch_maps(run->plan, number, launch, run->memory.sink));
  if (code->library) SPC_TRY(settle_call(run, number, launch));
  launch->empty = launch->empty || rt_launch_left_out(run->plan, run->launches, number);
  return SPC_OK;
}

spc_status rt_launch_send(const rt_plan *plan, int number, const rt_launch *launch, void *stream,
                          ir_sink *sink) {
  if (launch->call) {
    if (!rt_cublaslt_run(plan->options.cuda, launch->call, stream)) return SPC_OK;
  } else if (!rt_cuda_launch(plan->options.cuda, plan->modules[number], launch->grid, &launch->args,
                             launch->maps, stream)) {
    return SPC_OK;
  }
  return rt_driver_failed(
      plan, sink,
      ir_format_text(sink->arena, "launching `%s`", plan->image->codes.at[number].entry));
}

spc_status rt_launch_enqueue(rt_run *run, int number, void *stream) {
  if (run->launches[number].empty || run->launches[number].spared) return SPC_OK;
  if (rt_cuda_enter(run->plan->options.cuda)) return rt_run_driver_failed(run, "launching");
  return rt_launch_send(run->plan, number, &run->launches[number], stream, run->memory.sink);
}
