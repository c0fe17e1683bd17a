/* run.h - shared by plan.c, run.c, count.c, enqueue.c, launch.c and pack.c only: a plan, one run of
 * it, its launches.
 *
 * A run of a CUDA image whose stages are all plain launches (rt_run_only_launches) builds every
 * launch once, in rt_run_prepare; enqueueing it then is one driver call a launch.  Other runs build
 * a launch when its turn comes, because the sizes of packed results are known only then. */
#ifndef SPC_RUNTIME_RUN_H
#define SPC_RUNTIME_RUN_H

#include "runtime/cublaslt.h"
#include "runtime/memory.h"

/* A tensor map that was made before, for one map of one code: sizes are the plan's. */
typedef struct rt_made_map {
  spc_tensor_map map;
  void *device;
  int code, number;
  bool fits;
} rt_made_map;
enum { RT_MADE_MAPS = 32 };

struct rt_plan {
  const ir_image *image;
  int64_t *sizes;
  rt_plan_options options;
  rt_cuda_module **modules; /* one a code, CUDA only */
  rt_made_map
      *made; /* RT_MADE_MAPS of them, the oldest is replaced; NULL where no launch was prepared */
  int made_count;
  rt_cublaslt_call **kept; /* one a code, CUDA only: of the last run, for the next one; NULL: none */
  int64_t *work_ns; /* one a code, CPU: what all parts of its last run took together; 0: none was */
  rt_run *running;  /* of rt_plan_run and rt_plan_count: freed with the plan where no memory ends it
                       midway */
};

/* Everything that one launch hands to the driver. */
typedef struct rt_launch {
  spc_args args;
  spc_tensor_maps *maps; /* NULL where the code has none */
  int64_t grid[3];
  rt_cublaslt_call *call; /* of a library's product */
  bool empty;             /* no blocks at these sizes */
  bool spared;            /* a front that this run does without, or what does its clearing where it has one (rt_launch_fronts) */
  bool unfit; /* its maps do not fit, or the library has no algorithm: the codes that stand in for
                 it are launched */
} rt_launch;

struct rt_run {
  rt_plan *plan;
  rt_memory memory;
  rt_launch *launches;       /* one a code; NULL until prepared */
  void *status, *own_status; /* the words of report.c on the device; own: released with the run */
  void *stream;              /* of the last enqueue: what fetching waits for */
  rt_cuda_counters before;
  bool *left_out, *counted; /* by stage: it does not run; its result is counted and not written.
                               NULL: the run is a whole one (count.c) */
  bool counting;            /* the stage at hand is counted */
  rt_share share;           /* the stages that are enqueued */
};

static inline const ir_program *rt_run_program(const rt_run *run) {
  return run->plan->image->kernel->program;
}

/* One function of the loop dialect on the host, now. */
spc_status rt_launch_host(rt_run *run, const ir_code_image *code);
/* Memory and arguments of a launch; may allocate and upload. */
spc_status rt_launch_prepare(rt_run *run, int code);
/* One driver call. */
spc_status rt_launch_enqueue(rt_run *run, int code, void *stream);
spc_status rt_run_driver_failed(rt_run *run, const char *what);

/* The parts of these, for the plan's sizes. */
/* A function's buffers; a set for each thread where some are not shared (ir_buf.each), in use by
 * one part at a time. */
typedef struct rt_buffer_sets {
  int count;
  void ***set;
  atomic_flag *used; /* by set; NULL: there is one, for all parts */
} rt_buffer_sets;
rt_buffer_sets rt_buffer_sets_new(ir_arena *arena, int count, int buffers);
bool rt_has_own_buffers(const ir_func *func);
spc_status rt_call_host(rt_plan *plan, const ir_code_image *code, const rt_buffer_sets *buffers,
                        ir_sink *sink);
void rt_launch_room(rt_plan *plan, int code, ir_arena *arena, rt_launch *launch);
spc_status rt_launch_sizes(const rt_plan *plan, int code, rt_launch *launch, ir_sink *sink);
spc_status rt_launch_maps(rt_plan *plan, int code, rt_launch *launch, ir_sink *sink);
/* What stands behind a front that is launched too may leave without waiting for it, and the last of it waits until it has computed.
 * taken: false where launches are prepared one by one, and who is the last is not known: fronts are spared then. */
void rt_launch_fronts(const rt_plan *plan, rt_launch *launches, bool taken);
bool rt_launch_left_out(const rt_plan *plan, const rt_launch *launches, int code);
spc_status rt_launch_send(const rt_plan *plan, int code, const rt_launch *launch, void *stream,
                          ir_sink *sink);
spc_status rt_driver_failed(const rt_plan *plan, ir_sink *sink, const char *what);

/* Generated code trusts the sizes of lists; in an edited dump they can be any. */
spc_status rt_plan_check_lists(const rt_plan *plan, ir_sink *sink);

/* The break-even cover that the plan's guards compare with. */
/* What a verdict that stands alone tells beside its sign (ir/tile.h). */
double rt_verdict_cover(int32_t verdict);
double rt_plan_threshold(const rt_plan *plan, const ir_list *list);
/* Those of the lists that a launch weighs, into its arguments; 0 where it weighs none. */
void rt_plan_weigh(const rt_plan *plan, const ir_code_image *code, spc_args *args);

/* The newest bytes of a buffer on the host. */
spc_status rt_run_bytes(rt_run *run, const ir_buf *buf, rt_slot **slot);
spc_status rt_run_tensor(rt_run *run, const ir_tensor *tensor, ir_view *view);

/* An assembled result between counting and filling, and after filling; a conversion (pack.c). */
/* Whether the counting function of an assembled stage says what each list of its result will hold.
 */
bool rt_pack_counts(const rt_run *run, const ir_stage *stage);
spc_status rt_pack_begin(rt_run *run, const ir_stage *stage);
spc_status rt_pack_room(rt_run *run, const ir_stage *stage);
spc_status rt_pack_entries(rt_run *run, const ir_stage *stage);
spc_status rt_pack_convert(rt_run *run, const ir_stage *stage);

#endif
