/* api.h - what stands behind the three public handles. */
#ifndef SPC_DRIVER_API_H
#define SPC_DRIVER_API_H

#include <stdatomic.h>

#include "driver/driver.h"
#include "runtime/enqueue.h"

typedef struct api_compiler api_compiler; /* api_compile.c */

struct spc_context {
  spc_allocator allocator;
  const spc_allocator *from; /* the above, or NULL: the C library */
  drv_backend backend;
  rt_cuda *cuda;
  rt_pool *pool;
  rt_cache *cache;
  spc_log_function *log; /* NULL: none */
  spc_trace_function *trace;
  void *user; /* of both */
  int compile_threads;
  api_compiler *compiler; /* NULL until something is compiled in the background */
};

typedef enum api_tier {
  API_TUNED,    /* the only one, or the second */
  API_GENERIC,  /* the first of two */
  API_RECALLED, /* the second, without a compile: from the cache, or it is not made */
} api_tier;

enum { API_MOST_USUAL = 8 };
/* The sizes of a dynamic dim that a text is compiled for (api_sizes.c), ascending.  count 0: as estimates assume, 1: one. */
typedef struct api_usual {
  const char *name; /* the caller's, while the program is made */
  int count, dim;   /* its number */
  int64_t size[API_MOST_USUAL];
  spc_program *program[API_MOST_USUAL]; /* but for the last, which is the program itself; freed with it */
} api_usual;

struct spc_program {
  spc_context *context;
  ir_arena *arena;
  ir_sink *sink;
  ir_program *ir;    /* after the pipeline; checked statements for interp */
  ir_image **images; /* one a kernel; NULL entries for interp */
  bool strict_nan;
  size_t workspace_limit; /* of enqueued runs; 0: as the runtime says */
  api_tier tier;
  _Atomic(spc_program *) tuned; /* the second, when it has come; freed with this one */
  spc_job *tuning;              /* NULL: none is on its way */
  api_usual usual;
};

typedef struct api_prepared api_prepared; /* api_enqueue.c */
struct spc_plan {
  spc_program *program;
  ir_kernel *kernel;
  int kernel_number;
  int64_t *given;                   /* sizes that the caller gave, by dim number; -1 unknown */
  _Atomic(api_prepared *) prepared; /* whether there is one is asked by any thread */
  atomic_size_t reserved; /* bytes of the workspace that spc_plan_reserve made; likewise */
  rt_report report;       /* what its runs leave behind */
  _Atomic(spc_plan *)
      better; /* the same of the tuned tier, once it was prepared; freed with this one */
  spc_plan *sized[API_MOST_USUAL]; /* by usual size; the last is this one, the others are freed with it */
  int sized_count, sized_at;       /* 0: one code; which of the sizes this one is for */
  const char *shown_by;            /* the input that shows a run's size, and on which axis; NULL: none does */
  int shown_axis;
  _Atomic(spc_plan *) last; /* the one of `sized` that ran last; NULL: none has */
};

/* What runs: every call on a plan begins with it. */
static inline spc_plan *drv_plan_now(const spc_plan *plan) {
  spc_plan *better =
      plan ? atomic_load_explicit(&((spc_plan *)plan)->better, memory_order_acquire) : NULL;
  return better ? better : (spc_plan *)plan;
}
static inline spc_program *drv_tuned(const spc_program *program) {
  return atomic_load_explicit(&((spc_program *)program)->tuned, memory_order_acquire);
}
/* ---- several sizes (api_sizes.c) --------------------------------------------------------------
 */
spc_status drv_usual_take(const spc_program_options *given, api_usual *usual, spc_error *err); /* what is asked for, in order */
spc_status drv_usual_fits(const spc_program *program, api_usual *usual, spc_error *err);
/* What estimates take for granted, by dim number; usual NULL: NULL. */
const int64_t *drv_usual_sizes(ir_arena *arena, const ir_program *ir, const spc_size *usual);
spc_status drv_plan_sizes(spc_plan *plan, const spc_size *sizes, int size_count, spc_error *err);
void drv_plan_sizes_free(spc_plan *plan);
int drv_sized_for(const spc_plan *plan, const spc_tensor *tensors, int count); /* which of `sized`, where there are some */
spc_plan *drv_plan_for(spc_plan *plan, const spc_tensor *tensors, int count);  /* what runs with these; NULL for NULL */
const spc_plan *drv_plan_last(const spc_plan *plan);                           /* what ran last, or would */

/* Compiles the text again in the background, for the program; false: it stays as it is. */
bool drv_tune(spc_program *program, const char *text, size_t length,
              const spc_program_options *options);

/* Fills *err from a status and what the sink holds; returns the status. */
spc_status drv_api_fail(spc_error *err, spc_status status, ir_sink *sink, const char *format, ...)
    IR_PRINTF(4, 5);

/* What the caller's struct holds of a struct of options; NULL: nothing.  what: "spc_call:
 * `options`". */
spc_status drv_take_options(const char *what, const void *given, void *full, size_t size,
                            spc_error *err);

void drv_log(const spc_context *context, spc_log_level level, const char *format, ...)
    IR_PRINTF(3, 4);
static inline void drv_trace(const spc_context *context, const char *phase, const char *name,
                             bool begins) {
  if (context->trace) context->trace(context->user, phase, name, begins);
}

/* From text under a name for diagnostics; arguments are valid.  cancelled (NULL: nothing) ends the
 * compile between two kernels, and makes it use one thread: for those in the background. */
spc_status drv_program_new(spc_context *context, const char *name, const char *text, size_t length,
                           const spc_program_options *options, const atomic_bool *cancelled,
                           spc_program **out, spc_error *err);
/* The program answers with the first of two tiers. */
static inline bool drv_is_generic(const spc_program *program) {
  return program->tier == API_GENERIC;
}

/* ---- tensors of one call (api_tensor.c) -------------------------------------------------------
 */
/* Fields are added at the end: callers of another header have smaller or larger elements. */
enum { DRV_LEAST_TENSOR = offsetof(spc_tensor, index_dtype) };
typedef struct api_tensors {
  const char *call; /* "spc_run": for messages */
  const ir_kernel *kernel;
  spc_tensor *tensors; /* written by spc_run alone */
  int count;
  spc_error *err;
  bool takes_packed; /* one of them may be SPC_PACKED */
} api_tensors;
spc_status drv_tensor_misuse(const api_tensors *given, const spc_tensor *t, const char *what);
spc_tensor *drv_tensor_at(const api_tensors *given, int i);               /* i < count */
spc_tensor *drv_tensor_given(const api_tensors *given, const char *name); /* NULL: it is not */
/* What the caller says of its positions; those of the kernel where it says nothing. */
ir_dtype drv_tensor_index(const api_tensors *given, const spc_tensor *t, const ir_tensor *declared);
/* A dense tensor as rows of `length` elements that follow one another; around them `levels` axes, from the slowest of
 * its format to the fastest, whose places lie `step` elements apart. */
typedef struct api_rows {
  int64_t count, length;
  int64_t span; /* elements from the first to behind the last */
  int levels;
  int64_t extent[SPC_MAX_RANK], step[SPC_MAX_RANK];
  bool padded; /* something lies between two rows, or they lie in another order */
} api_rows;
/* Whether its pitch or its strides are given in a way that its shape and its format allow. */
spc_status drv_tensor_check_rows(const api_tensors *given, const spc_tensor *t, const ir_tensor *declared);
/* Of a tensor that was checked. */
void drv_tensor_rows(const spc_tensor *t, const ir_tensor *declared, api_rows *rows);
/* As compiled code finds it in the memory of spc_run: without padding, but for what the declaration promises of pitches. */
void drv_rows_kept(const int64_t *shape, const ir_tensor *declared, api_rows *rows);
/* Of the same shape; what lies between rows is not written. */
void drv_rows_copy(void *to, const api_rows *to_rows, const void *from, const api_rows *from_rows, size_t element);
/* Of an input: SPC_INVALID_INPUT where its array is said to be shorter. */
spc_status drv_rows_there(const api_tensors *given, const spc_tensor *t, const api_rows *rows);
/* SPC_INVALID_INPUT where two elements have one place. */
spc_status drv_rows_apart(const api_tensors *given, const spc_tensor *t, const ir_tensor *declared,
                          const api_rows *rows);
/* Where row number `row` begins, counted in the order of the format. */
int64_t drv_rows_at(const api_rows *rows, int64_t row);
/* "`pitch` is 16 and a row has 13 elements": the first thing that is not as the shape says. */
const char *drv_rows_text(const spc_tensor *t, const ir_tensor *declared, const api_rows *rows, char text[120]);
spc_status drv_tensor_names(const api_tensors *given); /* each one is an input or an output */
/* Where the one that is declared so stands; its rank, dtype, shape and pitch fit the declaration.
 */
spc_status drv_tensor_place(const api_tensors *given, const ir_tensor *declared, int *place);
spc_status drv_tensor_check(const api_tensors *given, const spc_tensor *t,
                            const ir_tensor *declared);
/* Both; its struct was checked (drv_tensor_names). */
spc_status drv_tensor_find(const api_tensors *given, const ir_tensor *declared, spc_tensor **out);
void drv_tensor_view(const api_tensors *given, const spc_tensor *t, const ir_tensor *declared,
                     ir_view *view);

/* Room for results (api_results.c).  Before a run: each one is there, has the result's shape, and
 * room where that is known; the counts of those that lack it are set. */
spc_status drv_results_expect(const api_tensors *given, const ir_bindings *inputs,
                              const int64_t *sizes);
/* Writes all of them, or none and SPC_CAPACITY; their counts are set to what was needed. */
spc_status drv_results_write(const api_tensors *given, const ir_bindings *bindings);
spc_status drv_results_count(const api_tensors *given, const ir_bindings *bindings);

/* A plan of another program for the same kernel at the same sizes. */
spc_status drv_plan_like(const spc_plan *plan, spc_program *program, spc_plan **out,
                         spc_error *err);

void drv_unprepare(spc_plan *plan);

void drv_compiler_free(api_compiler *compiler); /* NULL is allowed */

/* A bundle's program (api_bundle.c); `name`: of the call or the file, for messages. */
spc_status drv_program_load(spc_context *context, const char *name, const void *data, size_t bytes,
                            spc_program **out, spc_error *err);

#endif
