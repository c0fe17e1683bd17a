/* spc.h - the public interface of the sparse kernel compiler.
 *
 * Three handles.  A context owns what programs share: the machine that was found, threads, the GPU.
 * A program is `.spx` text (or an IR dump), checked and compiled for one target; it is immutable and
 * may be shared by threads.  A plan binds the sizes of a kernel and is run again and again; one
 * thread uses a plan at a time, any number of plans may come from one program.
 *
 *     spc_error err = SPC_ERROR_INIT;
 *     spc_context *context;  spc_program *program;  spc_plan *plan;
 *     spc_context_new(NULL, &context, &err);
 *     spc_program_from_text(context, text, strlen(text), NULL, &program, &err);
 *     spc_plan_new(program, NULL, NULL, 0, &plan, &err);            // the only kernel, sizes from tensors
 *     spc_run(plan, tensors, 4, &err);                              // x, W1, W2 in; y out
 *
 * The library never exits, aborts or prints.  Every fallible call takes an optional spc_error as its
 * last argument, filled by value in the caller's memory; there is no last-error state.  A call that
 * fails leaves nothing half-built: its out parameter is NULL and nothing needs to be freed.
 *
 * spc_run takes tensors in host memory and copies them for each run on a GPU; spc_enqueue runs on the
 * caller's device memory and stream.  Everything below may still change before version 1. */
#ifndef SPC_H
#define SPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPC_VERSION_MAJOR 0
#define SPC_VERSION_MINOR 1
#define SPC_VERSION_PATCH 0
#define SPC_VERSION "0.1.0"
#define SPC_VERSION_NUMBER 100 /* major * 10000 + minor * 100 + patch */

#if defined(SPC_BUILDING) && defined(__GNUC__)
#define SPC_API __attribute__((visibility("default")))
#else
#define SPC_API
#endif

/* ---- status and errors ---------------------------------------------------------------------- */

/* What a call can answer.  The numbers are stable. */
typedef enum spc_status {
  SPC_OK = 0,
  SPC_INVALID_INPUT = 1,    /* errors in the program, or sizes, ranks and dtypes that do not fit */
  SPC_INVALID_ARGUMENT = 2, /* misuse of the interface: NULL, an unknown name, a wrong state */
  SPC_MISMATCH = 3,         /* a verification or a `test` block failed */
  SPC_UNAVAILABLE = 4,      /* target or tool chain not there: no GPU, no NVRTC, no LLVM */
  SPC_IO = 5,               /* a file is unreadable or malformed */
  SPC_CAPACITY = 6,         /* an output needs more room than the caller gave; sizes are in the tensor */
  SPC_OUT_OF_MEMORY = 7,
  SPC_INTERNAL = 70         /* a defect of the compiler; please report the message */
} spc_status;

/* "invalid input" and so on; never NULL.  Any thread. */
SPC_API const char *spc_status_name(spc_status status);

/* The library's version as SPC_VERSION_NUMBER: compare it with the header's. */
SPC_API int spc_version_number(void);

/* Detail of a failure, by value.  `message` is one line for a person; `diagnostics` is the rendered
 * text with source lines and carets where the fault is in the program, cut to fit. */
typedef struct spc_error {
  size_t struct_size; /* sizeof(spc_error), set by SPC_ERROR_INIT */
  spc_status status;
  char message[512];
  char diagnostics[4096];
} spc_error;
#define SPC_ERROR_INIT { sizeof(spc_error), SPC_OK, "", "" }

/* ---- context ---------------------------------------------------------------------------------- */
typedef struct spc_context spc_context;

/* All zero (or NULL for the whole struct) is the default. */
typedef struct spc_context_options {
  size_t struct_size;  /* sizeof(spc_context_options) */
  const char *backend; /* "cuda", "cpu" or "interp"; NULL: the best that is here */
  int threads;         /* CPU threads; 0: one a core */
} spc_context_options;

/* Looks for the back end and starts the threads.  SPC_UNAVAILABLE when a named back end is not here.
 * The context is used by one thread at a time and must outlive its programs. */
SPC_API spc_status spc_context_new(const spc_context_options *options, spc_context **context,
                                   spc_error *err);
SPC_API void spc_context_free(spc_context *context); /* NULL is allowed */
SPC_API const char *spc_context_backend(const spc_context *context); /* "cuda", "cpu", "interp" */

/* ---- program ---------------------------------------------------------------------------------- */
typedef struct spc_program spc_program;

/* A size for a dim, by name. */
typedef struct spc_size {
  const char *name;
  int64_t value;
} spc_size;

typedef struct spc_program_options {
  size_t struct_size;    /* sizeof(spc_program_options) */
  const spc_size *fixed; /* fixed dims to compile for another value */
  int fixed_count;
  int reproducible, batch_invariant, strict_nan; /* as the command's options of these names */
} spc_program_options;

/* Parses, checks and compiles every kernel for the context's back end.  `text` is UTF-8 and is not kept.
 * SPC_INVALID_INPUT: err->diagnostics has the messages with places. */
SPC_API spc_status spc_program_from_text(spc_context *context, const char *text, size_t length,
                                         const spc_program_options *options, spc_program **program,
                                         spc_error *err);
/* The same from a file; SPC_IO when it cannot be read. */
SPC_API spc_status spc_program_from_file(spc_context *context, const char *path,
                                         const spc_program_options *options, spc_program **program,
                                         spc_error *err);
SPC_API void spc_program_free(spc_program *program); /* after its plans; NULL is allowed */
SPC_API int spc_program_kernel_count(const spc_program *program);
SPC_API const char *spc_program_kernel_name(const spc_program *program, int i); /* NULL out of range */

/* ---- plan and run ------------------------------------------------------------------------------- */
typedef struct spc_plan spc_plan;

/* A plan of a kernel (NULL: the only one).  `sizes` gives dims that no tensor settles; sizes that
 * tensors settle are read from them at each run. */
SPC_API spc_status spc_plan_new(spc_program *program, const char *kernel, const spc_size *sizes,
                                int size_count, spc_plan **plan, spc_error *err);
SPC_API void spc_plan_free(spc_plan *plan); /* NULL is allowed */

enum { SPC_MAX_RANK = 8, SPC_MAX_LEVELS = 12 };

/* A tensor in host memory, row-major in the format that its declaration names.  Dense: `values` alone.
 * Sparse: the arrays of each level of the format, as docs/formats.md draws them; positions and
 * coordinates are int32.  The caller owns every array; inputs are only read.
 * Outputs: dense ones, and those `as like(X)`, are written to `values` (room in `value_count` elements);
 * any other sparse output is written to the arrays given, whose rooms stand in pos_count, crd_count and
 * value_count; these are set to what was needed, and too little room is SPC_CAPACITY, nothing written. */
typedef struct spc_tensor {
  size_t struct_size; /* sizeof(spc_tensor) */
  const char *name;   /* as declared */
  const char *dtype;  /* "f32", "bf16", ...: must be the declared one; NULL for a pattern */
  int rank;
  int64_t shape[SPC_MAX_RANK];
  void *values;
  int64_t value_count;
  void *pos[SPC_MAX_LEVELS], *crd[SPC_MAX_LEVELS];
  int64_t pos_count[SPC_MAX_LEVELS], crd_count[SPC_MAX_LEVELS];
} spc_tensor;

/* Runs once: every input and every output of the kernel, by name, in any order.  Returns when the
 * results are in the caller's arrays.  SPC_INVALID_INPUT names the tensors and sizes that disagree. */
SPC_API spc_status spc_run(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err);

/* ---- what a kernel takes and gives ----------------------------------------------------------------- */
typedef struct spc_tensor_info {
  size_t struct_size; /* sizeof(spc_tensor_info), set by the caller */
  const char *name;   /* as declared; texts live as long as the program */
  const char *dtype;  /* NULL: a pattern, entries without values */
  const char *format; /* "dense", "csr", "bsr", ... or the program's own name (docs/formats.md) */
  int64_t format_arguments[4];
  int format_argument_count; /* bsr(16,32): two */
  int rank;
  int is_output;
  int level_count; /* of the format; spc_tensor.pos and crd have an element a level */
  const char *levels[SPC_MAX_LEVELS]; /* "dense", "compressed", "singleton", "bitmap", "nm", "packed" */
  const char *pattern_of; /* of an output `as like(X)`: X, in whose order values alone are written; else NULL */
} spc_tensor_info;

/* Inputs and outputs of the plan's kernel, in order of declaration. */
SPC_API int spc_plan_tensor_count(const spc_plan *plan);
SPC_API spc_status spc_plan_tensor(const spc_plan *plan, int i, spc_tensor_info *info, spc_error *err);

/* The sizes of results: from the shapes of all inputs (no array is read) to `rank` and `shape` of the outputs among
 * `tensors`, and to `value_count` of the dense ones and of those that share a pattern. */
SPC_API spc_status spc_plan_shapes(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err);

/* ---- runs on the caller's stream ------------------------------------------------------------------ */
/* What an engine calls: its arrays, its workspace, its stream; on a GPU arrays and workspace are device
 * memory.  A run that succeeds allocates nothing, copies nothing, takes no lock on one thread and waits
 * for nothing (on the CPU it returns with the results); other sizes, arrays and masks change none of
 * that, so it may be captured into a CUDA graph and replayed.
 *
 *     size_t bytes;
 *     spc_plan_prepare(plan, &err);                                 // once, before any capture
 *     spc_workspace(plan, largest, 4, &bytes, &err);                // largest: only shapes and counts matter
 *     spc_enqueue(plan, tensors, 4, workspace, bytes, stream, &err);
 *
 * Kernels whose results have a computed pattern, or whose operands are converted first, cannot be run
 * this way, nor can the interpreter's: spc_plan_prepare answers SPC_UNAVAILABLE with the reason, and
 * spc_run runs them. */

/* Makes what runs need and keeps it until spc_plan_free: loads the kernels, uploads break-evens.  Done
 * twice it does nothing. */
SPC_API spc_status spc_plan_prepare(spc_plan *plan, spc_error *err);

/* Bytes of workspace that runs with tensors of these shapes, `value_count`, `pos_count` and `crd_count`
 * take; pointers may be NULL.  No smaller run takes more. */
SPC_API spc_status spc_workspace(spc_plan *plan, const spc_tensor *tensors, int count, size_t *bytes,
                                 spc_error *err);

/* Every input and every output by name, in any order; names, dtypes, ranks, sizes and array lengths are
 * checked, the contents of positions and coordinates are trusted.  `value_count` is the room of an
 * output; for a packed or bitmap input also the number of its values.  On a GPU `values` is aligned to
 * 16 bytes.  Arrays must not overlap what is written.  `workspace`: aligned to 256 bytes, in no use by
 * another run on another stream; its contents are of no matter before and after.  `stream`: a CUstream,
 * NULL the default one; ignored on the CPU.  SPC_CAPACITY: the workspace is too small, the message says
 * how large it must be. */
SPC_API spc_status spc_enqueue(spc_plan *plan, const spc_tensor *tensors, int count, void *workspace,
                               size_t bytes, void *stream, spc_error *err);

/* ---- fenced ------------------------------------------------------------------------------------- */
/* The command line as a function.  The `spc` binary is this call and nothing else, so that the
 * compiler is linked once.  Returns the documented exit code; writes to stdout and stderr. */
SPC_API int spc_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
