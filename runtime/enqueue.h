/* enqueue.h - a plan run on the caller's arrays, workspace and stream: launches, and nothing else.
 *
 * rt_ready_new does once what costs (tables, room for arguments, break-evens on the device);
 * rt_ready_enqueue then allocates nothing, copies nothing and waits for nothing, whatever the sizes
 * and the arrays: it may be captured into a CUDA graph.  On the CPU it returns when the results are
 * there.  One thread at a time uses a plan. */
#ifndef SPC_RUNTIME_ENQUEUE_H
#define SPC_RUNTIME_ENQUEUE_H

#include "runtime/plan.h"

/* The arrays of one tensor: device memory on CUDA, host memory on the CPU. */
typedef struct rt_given {
  void *vals, *pos[IR_MAX_LEVELS], *crd[IR_MAX_LEVELS];
  int64_t count; /* elements of vals; of a pattern: that vals would have */
} rt_given;

typedef struct rt_ready rt_ready;

/* Why runs of this image need more than launches (a sentence's end); NULL when they do not. */
const char *rt_ready_missing(const ir_image *image);

/* Lives in `arena` and refers to the plan, whose sizes it sets.  *out is to be freed, whatever
 * comes of it. */
spc_status rt_ready_new(rt_plan *plan, ir_arena *arena, ir_sink *sink, rt_ready **out);
void rt_ready_free(rt_ready *ready); /* NULL is allowed */

/* What the stages make that depend on `const` inputs alone (ir_stage.once), in memory of the caller's.
 * A run that is given it leaves those stages out and needs that much less workspace. */
typedef struct rt_kept {
  void *data; /* NULL: nothing is kept, every stage runs; aligned like a workspace */
  size_t bytes;
} rt_kept;
/* Runs those stages and no others; of `given` the arrays of const inputs are read.  data NULL: only
 * says how many bytes it takes, 0 where there is no such stage. */
spc_status rt_ready_keep(rt_ready *ready, const int64_t *sizes, const rt_given *given,
                         const rt_kept *kept, void *stream, ir_sink *sink, size_t *need);

/* given: one a tensor of the kernel, in its order; counts alone are read here.  Calls of a library
 * are settled for these sizes: at others, and at more than the last RT_SETTLED_SIZES, what stands
 * in for them runs. */
spc_status rt_ready_workspace(rt_ready *ready, const int64_t *sizes, const rt_given *given,
                              const rt_kept *kept, ir_sink *sink, size_t *bytes);
spc_status rt_ready_settle(rt_ready *ready, const int64_t *sizes); /* that part alone */
spc_status rt_ready_need(rt_ready *ready, const int64_t *sizes, const rt_given *given, const rt_kept *kept, ir_sink *sink,
                         size_t *bytes); /* the other part */
/* workspace: aligned to RT_WORKSPACE_ALIGN; SPC_CAPACITY when it or what is kept is smaller
 * than `need` says.  again: the last run was given this workspace too, and all const inputs are as they were. */
enum { RT_WORKSPACE_ALIGN = 256 };
typedef struct rt_need {
  size_t workspace, kept;
} rt_need;
spc_status rt_ready_enqueue(rt_ready *ready, const int64_t *sizes, const rt_given *given,
                            const rt_kept *kept, void *workspace, size_t bytes, bool again, void *stream,
                            ir_sink *sink, rt_need *need);

#endif
