/* plan.h - a compiled kernel bound to sizes: workspace, launches, statistics.
 *
 * rt_plan_new loads the code; rt_plan_run executes the stages in order, on the CPU's pool or on the
 * default CUDA stream: host views in, host views out (the command line's path).  The same run in
 * steps (rt_run_*) is for callers with device memory, streams and graphs of their own. */
#ifndef SPC_RUNTIME_PLAN_H
#define SPC_RUNTIME_PLAN_H

#include <stdatomic.h>

#include "ir/image.h"
#include "ir/interp.h"
#include "runtime/cuda.h"

typedef struct rt_plan rt_plan;
typedef struct rt_pool rt_pool; /* threads.h */

typedef struct rt_stage_stats {
  const char *stage, *kernel; /* "y", "gemm_kgather_mma_64x128x32" or "loop" */
  bool ran;                   /* false: the guard said no */
  double cover;               /* of the list it reads, -1 where it has none */
  double milliseconds;
} rt_stage_stats;

typedef struct rt_stats {
  const char *backend; /* "cpu", "cuda", "interp" */
  IR_VEC(rt_stage_stats) stages;
  int64_t bytes_to_device, bytes_to_host, workspace_bytes;
  unsigned sticky;
} rt_stats;

/* What runs leave behind about themselves, readable at any time by any thread (report.c). */
typedef struct rt_report {
  atomic_uint *words;
  void *device; /* the same words as the device sees them; NULL on the CPU */
  rt_cuda *cuda;
  const spc_allocator *from;
} rt_report;
/* cuda NULL: CPU, whose words are of `from` (NULL: the C library). */
spc_status rt_report_new(rt_cuda *cuda, const spc_allocator *from, const ir_kernel *kernel,
                         rt_report *out);
void rt_report_free(rt_report *report);
unsigned rt_report_sticky(const rt_report *report); /* SPC_STICKY_* */
void rt_report_guard(rt_report *report, int list, double cover, bool dense);
/* False, and a cover of -1: no run has measured it. */
bool rt_report_read(const rt_report *report, int list, double *cover, bool *dense);

typedef struct rt_plan_options {
  rt_pool *pool;   /* CPU: NULL runs on the calling thread */
  rt_cuda *cuda;   /* CUDA images need it */
  int force_guard; /* 1: always sparse, 2: always dense (a debug switch) */
  int64_t
      max_steps; /* interpreted code: statements that one launch may run, 0: any (for fuzzing) */
  const spc_allocator *from; /* of the plan's own memory; NULL: the C library */
  rt_report *report;         /* filled by every run; NULL: none is kept */
  bool fenced; /* a debug switch, CUDA: what nothing has written holds 0xff bytes (NaN), and every
                * array stands between canaries that rt_run_fetch checks */
} rt_plan_options;

/* An image without machine code: the plan interprets every function of the loop dialect. */
ir_image *rt_image_interpreted(ir_arena *arena, const ir_kernel *kernel);

/* *out is set before anything that may end in the arena's handler (base.h): the owner frees it
 * then. */
spc_status rt_plan_new(const ir_image *image, const int64_t *sizes, const rt_plan_options *options,
                       ir_sink *sink, rt_plan **out);
/* bindings: every input; outputs are appended, arrays from `arena`. */
spc_status rt_plan_run(rt_plan *plan, ir_arena *arena, ir_bindings *bindings, rt_stats *stats,
                       ir_sink *sink);
/* What outputs of computed patterns need: they are appended with the counts of their arrays, which
 * may be NULL.  Runs what that takes and no more; writes nothing of the caller's. */
spc_status rt_plan_count(rt_plan *plan, ir_arena *arena, ir_bindings *bindings, ir_sink *sink);
void rt_plan_free(rt_plan *plan);

/* Which stages run: all that a run by itself needs, those that depend on const inputs alone
 * (ir_stage.once), or the others, after those; or all that a run by itself needs but for what an earlier one left in the same
 * workspace that depends on const inputs alone. */
typedef enum rt_share { RT_EVERY_STAGE, RT_ONCE, RT_EVERY_RUN, RT_AGAIN } rt_share;
static inline bool rt_takes(rt_share share, const ir_stage *stage) {
  if (share == RT_EVERY_STAGE) return !stage->kept;
  if (share == RT_AGAIN) return !stage->kept && !stage->once;
  return stage->once == (share == RT_ONCE) && !stage->unkept;
}

/* One run in steps.  It lives in `arena`, refers to the plan and to the inputs' arrays, and is used
 * by one thread at a time; rt_run_free also after a failure of any step, rt_run_new included. */
typedef struct rt_run rt_run;
spc_status rt_run_new(rt_plan *plan, ir_arena *arena, const ir_bindings *inputs, ir_sink *sink,
                      rt_run **out);
/* Before rt_run_prepare: the caller's device memory for a dense tensor, inputs included (CUDA). */
spc_status rt_run_place(rt_run *run, const ir_tensor *tensor, void *device);
spc_status rt_run_prepare(rt_run *run);        /* allocates and uploads */
void rt_run_take(rt_run *run, rt_share share); /* in what is enqueued from now on; a new run: all */
/* Any number of times.  With stats it waits after every stage. */
spc_status rt_run_enqueue(rt_run *run, void *stream, rt_stats *stats);
spc_status rt_run_fetch(rt_run *run, ir_bindings *outputs, rt_stats *stats);
void rt_run_free(rt_run *run);
/* Whether enqueueing is launches alone: no result of computed pattern, no conversion. */
bool rt_run_only_launches(const rt_run *run);
/* 0xff bytes into the values of every output: what a later run does not write stays a NaN (a bench
 * and its checks want that). */
spc_status rt_run_poison(rt_run *run);
/* Other values of a bound input, in the arrays that the run has. */
spc_status rt_run_update(rt_run *run, const ir_tensor *tensor, const void *values);

/* Threads (threads.c). */
rt_pool *rt_pool_new(int threads); /* 0: one a core */
void rt_pool_free(rt_pool *pool);
int rt_pool_size(const rt_pool *pool);
/* Whether work that takes one thread so long is done sooner by all of them, by what waking them has
 * taken lately. */
bool rt_pool_pays(rt_pool *pool, int64_t work_ns);
int64_t rt_now_ns(void); /* of a clock that only goes forward */
/* Calls work(user, begin, end) over parts of [lo, hi); returns when all are done. */
void rt_pool_for(rt_pool *pool, int64_t lo, int64_t hi, int64_t least,
                 void (*work)(void *user, int64_t begin, int64_t end), void *user);

#endif
