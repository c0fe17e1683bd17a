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

/* What the library would say if it printed: which back end was taken and why, warnings and remarks on a
 * program, what was compiled and what was kept from before.  One line, without a line break; it lives as
 * long as the call. */
typedef enum spc_log_level { SPC_LOG_WARNING = 1, SPC_LOG_NOTE = 2 } spc_log_level;
typedef void spc_log_function(void *user, spc_log_level level, const char *text);

/* Where time goes, for a profiler's ranges: "parse" and "compile" of a program's text, "prepare", "run",
 * "count" and "enqueue" of a kernel; begins is 1, then 0, always in pairs.  Kernels on a GPU have names of
 * their own (spc_plan_launch). */
typedef void spc_trace_function(void *user, const char *phase, const char *name, int begins);

/* Where plans and runs take their memory; for engines that have pools of their own, or a budget.
 * Asked for: on a GPU all device memory that the library takes (what a plan keeps, the workspace that
 * spc_plan_reserve makes, the copies of spc_run), the pinned words that kernels report to, and on the host
 * plans, what they keep, and the scratch of spc_run and spc_count.  Not asked for: contexts, programs and what
 * compiles them (LLVM and NVRTC take memory by their own means), and what the driver and cuBLASLt keep for
 * themselves: loaded modules, streams, handles.  spc_enqueue calls neither function; a call of it that
 * fails may, for its message.
 *
 * Both are called on the thread that called spc, with `user`, and by several threads at once where plans
 * are used by several; they may not call spc.  On a GPU its context is current. */
typedef enum spc_memory {
  SPC_MEMORY_HOST = 0,
  SPC_MEMORY_DEVICE = 1, /* of the context's GPU; used on any stream that a plan is enqueued on */
  SPC_MEMORY_PINNED = 2  /* of the host, mapped for the GPU, as cuMemHostAlloc gives it */
} spc_memory;
typedef struct spc_allocator {
  size_t struct_size; /* sizeof(spc_allocator) */
  /* Memory of `bytes` (never 0) aligned to `alignment` (64, or 256 of workspaces and device memory); its contents are
   * of no matter.  NULL: there is none, which is SPC_OUT_OF_MEMORY of the call that wanted it; memory that is not
   * aligned is given back and counts as none. */
  void *(*allocate)(void *user, spc_memory kind, size_t bytes, size_t alignment);
  /* What `allocate` gave for this kind, once; never NULL.  Device memory: nothing of spc's uses it any more. */
  void (*release)(void *user, spc_memory kind, void *at);
  void *user;
} spc_allocator;

/* What is zero, and NULL for the whole struct, is the default. */
typedef struct spc_context_options {
  size_t struct_size;  /* sizeof(spc_context_options) */
  const char *backend; /* "cuda", "cpu" or "interp"; NULL: the best that is here */
  int threads;         /* CPU threads; 0: one a core */
  /* Called on the thread that calls spc, and on those of spc_program_begin, with `user`; they may not call spc.  NULL: none. */
  spc_log_function *log;
  spc_trace_function *trace;
  void *user;
  int load_only;       /* 1: for bundles (spc_program_from_bundle): neither LLVM nor NVRTC is looked for */
  int compile_threads; /* of spc_program_begin; 0: two, or one on a single core; at most 16 */
  const spc_allocator *allocator; /* copied; NULL: the C library's and the driver's memory */
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
  const char *positions; /* "i32" (or NULL) or "i64": positions and coordinates of sparse tensors in what is
                          * compiled; "i64" on the CPU and the interpreter only, else SPC_UNAVAILABLE */
  const char *padded; /* "x, y%8": dense inputs and outputs of two axes or more that may lie with padding when they are
                       * enqueued (spc_tensor.pitch and strides), those of y with strides that are multiples of 8
                       * elements; kernels are given these at each run, the others' code is what it is without.
                       * NULL: none */
  int tiered; /* 1: answers as soon as generic code is there, and compiles the tuned one in the background
               * (spc_program_tuned).  On CUDA what the cache has is tuned at once.  On the interpreter, in
               * jobs and of bundles it says nothing, nor where `reproducible` or `batch_invariant` is asked for: the
               * two codes add up in orders of their own */
  int packed; /* 1: const inputs are packed (spc_plan_pack) before runs, so that what is made of them, lists or a dense
               * copy of a stored weight, costs a run nothing and is chosen for that.  0: it counts in every run, and a
               * caller who packs nothing is not slower for it.  Either way both are right */
  int64_t workspace_limit; /* bytes.  A run that is enqueued and would take more workspace is enqueued as several, each of some
                            * of the rows, where the rows of all results have one dynamic size and do not depend on each other
                            * (tokens of a layer): what it computes is the same, guards decide for each by itself.  0: half a
                            * gigabyte, but 16,384 rows at least; else 128 rows at least.  INT64_MAX: never.  The one option
                            * that a bundle takes too */
  const char *profile; /* a file of figures for the cost model, as `spc tune -o FILE` writes one; SPC_IO when it cannot be read,
                        * SPC_INVALID_INPUT when it is none.  NULL: the built-in profile of the context's device */
  const spc_size *usual; /* sizes that one dynamic dim often has, 8 at most, in any order: T = 1, T = 64, T = 4096.  Code is
                          * compiled for each, and every call on a plan takes that of the nearest (by ratio; of two as near
                          * the larger) to what its inputs, or spc_plan_new, say: few rows and many want other kernels.
                          * Results are those of one code up to the order of sums.  Where no input has an axis of that size
                          * alone the largest is taken.  Compiling takes as many times as long, and no size compiles anything
                          * later.  Not with `tiered`; of `batch_invariant` one code is made whatever is said here.
                          * NULL: one code, for 2048 or the dim's bound */
  int usual_count;
} spc_program_options;

/* Parses, checks and compiles every kernel for the context's back end.  `text` is UTF-8 and is not kept.
 * SPC_INVALID_INPUT: err->diagnostics has the messages with places. */
SPC_API spc_status spc_program_from_text(spc_context *context, const char *text, size_t length,
                                         const spc_program_options *options, spc_program **program,
                                         spc_error *err);
/* The same from a file; SPC_IO when it cannot be read.  A bundle is recognised and loaded. */
SPC_API spc_status spc_program_from_file(spc_context *context, const char *path,
                                         const spc_program_options *options, spc_program **program,
                                         spc_error *err);
/* Of a tiered program: 1 when its tuned code is there, or will never be (the log says why): plans that are
 * made or prepared from then on run it; 0 when it is not after so many microseconds; 0 polls, a negative
 * number waits to the end.  1 for any other program, and for NULL.  Any thread.
 *
 *     spc_program_options o = {.struct_size = sizeof o, .tiered = 1};
 *     spc_program_from_text(context, text, length, &o, &program, &err);  // generic code, some ms
 *     spc_plan_new(program, NULL, NULL, 0, &plan, &err);
 *     ... prepare and run plan ...
 *     if (spc_program_tuned(program, 0)) spc_plan_prepare(plan, &err);   // between two requests, say
 *
 * Generic code computes the same: on the CPU without vectors and register tiles; on a GPU without lists of
 * zeros, by what compiles soonest: cuBLASLt where it knows the product, generated loops, small tiles.  What
 * runs changes in spc_plan_prepare and nowhere else, by one pointer: a graph that was captured stays as it
 * was, and what it launches stays loaded, until the plan is freed.  The threads that compile make no call of
 * the driver's: captures go on beside them. */
SPC_API int spc_program_tuned(spc_program *program, int64_t microseconds);
SPC_API void spc_program_free(spc_program *program); /* after its plans; NULL is allowed */
SPC_API int spc_program_kernel_count(const spc_program *program);
SPC_API const char *spc_program_kernel_name(const spc_program *program, int i); /* NULL out of range */

/* ---- programs without text ------------------------------------------------------------------------- */
/* A builder takes a program piece by piece, for engines that have it as data.  What is built is what the
 * text would say: the same checker, the same diagnostics, and spc_builder_text shows it.
 *
 *     spc_build_dyn(b, "N", 0, 0);
 *     spc_build_kernel(b, "twice");
 *     spc_expr N = spc_build_name(b, "N"), i = spc_build_name(b, "i"), x = spc_build_access(b, "x", &i, 1);
 *     spc_declaration in = {.struct_size = sizeof in, .name = "x", .dtype = "f32", .rank = 1, .shape = &N};
 *     spc_build_input(b, &in);                                       // in x: f32[N];
 *     spc_statement out = {.struct_size = sizeof out, .is_output = 1, .name = "y", .rank = 1,
 *                          .subscripts = &i, .value = spc_build_binary(b, "+", x, x)};
 *     spc_build_statement(b, &out);                                  // out y[i] = x[i] + x[i];
 *     spc_program_from_builder(b, NULL, &program, &err);
 *
 * Calls between do not fail: the first misuse (a name that is none, an expression of another builder, a
 * statement outside of a kernel) is kept, later calls do nothing, and spc_program_from_builder answers it.
 * Texts and arrays are copied.  One thread uses a builder at a time; it does not outlive its context. */
typedef struct spc_builder spc_builder;
typedef int spc_expr; /* an expression of one builder; 0: none */

SPC_API spc_status spc_builder_new(spc_context *context, spc_builder **builder, spc_error *err);
SPC_API void spc_builder_free(spc_builder *builder); /* NULL is allowed; programs made of it stay */
/* The program as text, as far as it is built; lives as long as the builder.  NULL after a misuse. */
SPC_API const char *spc_builder_text(spc_builder *builder);
/* As spc_program_from_text; the builder stays as it is and may go on. */
SPC_API spc_status spc_program_from_builder(spc_builder *builder, const spc_program_options *options,
                                            spc_program **program, spc_error *err);

/* Expressions.  They may be used any number of times.  Subscripts and sizes are sums of products of names,
 * integers and (in subscripts) one gather, as in text. */
SPC_API spc_expr spc_build_name(spc_builder *b, const char *name); /* an index, a dim, a scalar */
SPC_API spc_expr spc_build_integer(spc_builder *b, int64_t value);
SPC_API spc_expr spc_build_number(spc_builder *b, double value); /* a float; inf and nan as well */
SPC_API spc_expr spc_build_access(spc_builder *b, const char *tensor, const spc_expr *subscripts,
                                  int count);
SPC_API spc_expr spc_build_unary(spc_builder *b, const char *op, spc_expr x); /* "-", "not" */
/* "+", "-", "*", "/", "%", "<", "<=", ">", ">=", "==", "!=", "and", "or" */
SPC_API spc_expr spc_build_binary(spc_builder *b, const char *op, spc_expr x, spc_expr y);
/* A function of docs/language.md: "relu", "exp", "max", "where". */
SPC_API spc_expr spc_build_call(spc_builder *b, const char *function, const spc_expr *args, int count);
/* "sum", "max", ... over indices */
SPC_API spc_expr spc_build_reduce(spc_builder *b, const char *reducer, const char *const *indices,
                                  int count, spc_expr x);
SPC_API spc_expr spc_build_cast(spc_builder *b, const char *dtype, spc_expr x);
SPC_API spc_expr spc_build_softmax(spc_builder *b, const char *index, spc_expr x);
SPC_API spc_expr spc_build_topk(spc_builder *b, const char *index, spc_expr x, int64_t k);

/* `dim NAME = size;` and `dim NAME: dyn % multiple <= most;` (0: not said). */
SPC_API void spc_build_dim(spc_builder *b, const char *name, spc_expr size);
SPC_API void spc_build_dyn(spc_builder *b, const char *name, int64_t multiple, int64_t most);
/* Opens a kernel: the members that follow are its own. */
SPC_API void spc_build_kernel(spc_builder *b, const char *name);

/* `~ zeros(dynamic, density=low..high, gran=RxC, axis=index)` */
typedef struct spc_hint {
  size_t struct_size; /* sizeof(spc_hint) */
  int is_static, has_density;
  double density_low, density_high;
  int64_t rows, columns; /* gran; 0: not said */
  const char *axis;      /* NULL: not said */
} spc_hint;

/* `in name: dtype[shape] as format(arguments) ~ hint fill fill const;` */
typedef struct spc_declaration {
  size_t struct_size; /* sizeof(spc_declaration) */
  const char *name;
  const char *dtype; /* NULL: a pattern, which wants a format */
  int rank;
  const spc_expr *shape; /* `rank` sizes */
  const char *format;    /* NULL: dense */
  const int64_t *format_arguments;
  int format_argument_count;
  const spc_hint *hint; /* NULL: none */
  spc_expr fill;        /* 0: none */
  int is_const;
} spc_declaration;
SPC_API void spc_build_input(spc_builder *b, const spc_declaration *declaration);
SPC_API void spc_build_ragged(spc_builder *b, const char *index, spc_expr from, spc_expr to);
SPC_API void spc_build_grad(spc_builder *b, const char *of, const char *const *wrt, int count);

/* `let|out name[subscripts] = value on condition fill fill : dtype[shape] acc accumulator
 *      as format(arguments)|like(X) ~ hint atomic|order(fixed);`  What is 0 or NULL is not said. */
typedef struct spc_statement {
  size_t struct_size; /* sizeof(spc_statement) */
  int is_output;      /* `out`, else `let` */
  const char *name;
  int rank;
  const spc_expr *subscripts; /* `rank` of them */
  const char *assign;         /* "=" (NULL), "+=", "max=", "min=" */
  spc_expr value, condition, fill;
  const char *dtype, *accumulator;
  const spc_expr *shape; /* `rank` sizes */
  const char *format, *like;
  const int64_t *format_arguments;
  int format_argument_count;
  const spc_hint *hint;
  int is_atomic, is_ordered;
} spc_statement;
SPC_API void spc_build_statement(spc_builder *b, const spc_statement *statement);

/* Opens a schedule of a kernel (target NULL: for every target): the directives that follow are its own. */
SPC_API void spc_build_schedule(spc_builder *b, const char *kernel, const char *target);
/* `compact tensor axis=A gran=RxC`, `tile tensor i=64 j=32`, `fuse tensor into T`, `format tensor = F`,
 * `split tensor k=4`, `dense tensor`, `library tensor`, `stages N`, `warps N`, `regroup tensor`, `precision tensor = tf32` (as a format). */
typedef struct spc_directive {
  size_t struct_size; /* sizeof(spc_directive) */
  const char *kind, *tensor, *into, *axis;
  int64_t rows, columns;
  const spc_size *sizes;
  int size_count;
  const char *format;
  const int64_t *format_arguments;
  int format_argument_count;
  int64_t number;
} spc_directive;
SPC_API void spc_build_directive(spc_builder *b, const spc_directive *directive);

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
 * coordinates are of `index_dtype`.  The caller owns every array; inputs are only read.
 * Inputs: `value_count` is how many elements `values` has; 0 of a dense one says nothing of it.
 * Outputs: dense ones, and those `as like(X)`, are written to `values` (room in `value_count` elements);
 * any other sparse output is written to the arrays given, whose rooms stand in pos_count, crd_count and
 * value_count; after a run these are what was needed.
 * Elements of an array of tensors stand struct_size bytes apart; it is the same for all of them. */
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
  const char *index_dtype; /* of pos and crd (but bits and places of n:m, which are bytes): "i32" or "i64"; NULL: as
                            * the program was compiled (spc_program_options.positions), which costs no conversion */
  int64_t pitch; /* of a dense tensor whose rows are padded: elements from one row to the next (of dense_t, from one
                  * column); 0: what the shape says.  Padding is neither read nor written.  spc_run copies such rows;
                  * spc_enqueue takes them where the program was compiled for it (spc_program_options.padded) */
  int64_t strides[SPC_MAX_RANK]; /* of a dense tensor, in the place of pitch: elements from one place of each axis to
                                  * the next, for batches that lie apart, heads between the columns of a projection, any
                                  * order of the axes around the rows.  1 along the rows (of dense_t, the columns), of an
                                  * axis of one place anything; elements share no place, but in inputs of spc_run.  All
                                  * 0: what shape and pitch say */
} spc_tensor;

/* Runs once: every input and every output of the kernel, by name, in any order.  Returns when the
 * results are in the caller's arrays.  SPC_INVALID_INPUT names the tensors and sizes that disagree.
 * Room: outputs that are missing, of another shape, or too small by what shapes tell, are found before
 * anything is computed; computed patterns are known after.  Too little room anywhere is SPC_CAPACITY:
 * no result is written, not even one that had room, and the counts of all that are known (after the
 * computation: of all) are set to what is needed. */
SPC_API spc_status spc_run(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err);

/* What results of computed patterns need, with these inputs: sets rank, shape and the counts of such
 * outputs among `tensors`; other outputs stay as they are (spc_plan_shapes), no array is written, and
 * outputs may be left out.  The inputs are all given, with their arrays: this runs what the patterns
 * depend on and, where a format is counted list by list, writes no entries.  Counts are those that
 * spc_run will report for the same inputs. */
SPC_API spc_status spc_count(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err);

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
  const char *dims[SPC_MAX_RANK]; /* the dim that an axis has the size of; NULL: a number, an expression */
  int level_axis[SPC_MAX_LEVELS]; /* the axis that a level is of, or a part of: {1, 0} for dense_t and csc */
} spc_tensor_info;

/* Inputs and outputs of the plan's kernel, in order of declaration. */
SPC_API int spc_plan_tensor_count(const spc_plan *plan);
SPC_API spc_status spc_plan_tensor(const spc_plan *plan, int i, spc_tensor_info *info, spc_error *err);

/* The sizes of results: from the shapes of all inputs (no array is read) to `rank` and `shape` of the outputs among
 * `tensors`, and to `value_count` of the dense ones and of those that share a pattern. */
SPC_API spc_status spc_plan_shapes(spc_plan *plan, spc_tensor *tensors, int count, spc_error *err);

/* ---- DLPack ----------------------------------------------------------------------------------------- */
/* The layouts of DLPack's structs under names of our own, so that this header needs no other and stands
 * beside dlpack.h: cast a `DLTensor *` (that of a DLManagedTensor is &managed->dl_tensor) to
 * `spc_dl_tensor *`.  Nothing is taken over: deleters stay the caller's business. */
typedef struct spc_dl_device {
  int32_t device_type, device_id; /* 1 host, 2 CUDA, 3 pinned host, 13 managed */
} spc_dl_device;
typedef struct spc_dl_dtype {
  uint8_t code, bits; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 10 float8_e4m3fn, 12 float8_e5m2 */
  uint16_t lanes;
} spc_dl_dtype;
typedef struct spc_dl_tensor {
  void *data;
  spc_dl_device device;
  int32_t ndim;
  spc_dl_dtype dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} spc_dl_tensor;
typedef struct spc_dl_level { /* the arrays of one level of a format; NULL where it has none */
  const spc_dl_tensor *pos, *crd;
} spc_dl_level;

/* Which call a tensor is for: spc_run takes host memory, spc_enqueue memory of the plan's device. */
typedef enum spc_use { SPC_FOR_RUN = 0, SPC_FOR_ENQUEUE = 1 } spc_use;

/* *tensor becomes input or output `name` of the plan's kernel on the memory of a DLPack tensor, which
 * must outlive it; nothing is copied.  The caller sets tensor->struct_size.  Checked: rank, dtype, device,
 * alignment, `data` (NULL only where nothing is stored), and strides: 1 along the axis that the declared format has last
 * (rows of `dense`, columns of `dense_t`), any that are not negative along the others: what is not as the shape says
 * becomes tensor->pitch, or tensor->strides.  Sizes of 1 may have any stride.  i4 and u4 are 8-bit integers.
 * SPC_INVALID_INPUT names the tensor, the field and the axis; *tensor is not written then.  Whether sizes
 * agree between tensors is what spc_run and spc_enqueue check. */
SPC_API spc_status spc_tensor_from_dlpack(const spc_plan *plan, const char *name, spc_use use,
                                          const spc_dl_tensor *values, spc_tensor *tensor,
                                          spc_error *err);

/* The same for a tensor in a sparse format: its shape, its values (NULL: a pattern), and the arrays of
 * each level of the format (see spc_plan_tensor); of one `as like(X)`: no levels.  Every array is
 * contiguous; pos and crd are int32, or all int64; crd of bitmap and nm levels uint8.  A value array may have any rank:
 * blocks of bsr as [n][r][c]. */
SPC_API spc_status spc_tensor_from_dlpack_levels(const spc_plan *plan, const char *name, spc_use use,
                                                 int rank, const int64_t *shape,
                                                 const spc_dl_tensor *values,
                                                 const spc_dl_level *levels, int level_count,
                                                 spc_tensor *tensor, spc_error *err);

/* An array of a tensor as a DLPack tensor: the values (of a dense format in its shape and strides, else
 * flat), or pos or crd of a level.  It points into *view and into the tensor's memory: *view is not
 * moved while it is used, and owns nothing.  Counts are the tensor's own: after spc_run, what was written. */
typedef enum spc_part { SPC_PART_VALUES = 0, SPC_PART_POS = 1, SPC_PART_CRD = 2 } spc_part;
typedef struct spc_dl_view {
  spc_dl_tensor tensor;
  int64_t shape[SPC_MAX_RANK], strides[SPC_MAX_RANK];
} spc_dl_view;
SPC_API spc_status spc_tensor_to_dlpack(const spc_plan *plan, const spc_tensor *tensor, spc_use use,
                                        spc_part part, int level, spc_dl_view *view, spc_error *err);

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

/* A capture of another thread's goes on beside this, spc_plan_new, spc_workspace, spc_plan_reserve and spc_plan_free, in whatever
 * mode it was begun; beside spc_run, which uses the default stream, only where captures allow that.
 *
 * Makes what runs need and keeps it until spc_plan_free: loads the kernels, uploads break-evens, settles
 * library calls where every size is known (see spc_workspace).  Done twice it does nothing, unless the
 * program is tiered and its tuned code has come: the plan runs that from then on.  Its workspace is another
 * (spc_workspace, spc_plan_reserve), and what spc_plan_pack made is made again. */
SPC_API spc_status spc_plan_prepare(spc_plan *plan, spc_error *err);

/* What depends on `const` inputs alone is the same in every run: lists of the zeros of weights, tables,
 * weights that were scaled or turned.  This makes it once, in the caller's memory; runs that are handed
 * that memory leave out the stages that made it (`spc explain` says which: "once").
 *
 *     size_t bytes;
 *     spc_plan_pack(plan, tensors, 4, NULL, &bytes, NULL, &err);    // how much; 0: there is nothing to keep
 *     spc_plan_pack(plan, tensors, 4, packed, &bytes, stream, &err);
 *     tensors[4] = spc_packed(packed, bytes);                       // beside the others, in every run
 *     spc_workspace(plan, tensors, 5, &less, &err);
 *     spc_enqueue(plan, tensors, 5, workspace, less, stream, &err);
 *
 * `tensors`: every input and output, as for spc_workspace; of const inputs the arrays are read too.
 * `bytes`: in, the room at `packed` (aligned to 256 bytes; device memory on a GPU); out, what it takes,
 * which follows from the sizes of const inputs.  SPC_CAPACITY: the room is too small.
 * The contents belong to this plan's program and to these values and sizes of the const inputs: pack again
 * after a change of any, and keep one buffer for each set of weights.  Runs with it still read the const
 * inputs themselves.  Programs of which const inputs are packed are best compiled for it (spc_program_options.packed).
 * The caller owns the buffer; it is read by runs, so pack on their stream, or wait.
 * Like a run it may be captured. */
#define SPC_PACKED "(packed)" /* the name that stands for it among tensors */
SPC_API spc_status spc_plan_pack(spc_plan *plan, const spc_tensor *tensors, int count, void *packed,
                                 size_t *bytes, void *stream, spc_error *err);
static inline spc_tensor spc_packed(void *packed, size_t bytes) {
  spc_tensor tensor = {sizeof(spc_tensor), SPC_PACKED, 0, 0, {0}, 0, 0, {0}, {0}, {0}, {0}, 0, 0, {0}};
  tensor.values = packed;
  tensor.value_count = (int64_t)bytes;
  return tensor;
}

/* Bytes of workspace that runs with tensors of these shapes, `value_count`, `pos_count` and `crd_count`
 * take; pointers may be NULL.  No smaller run takes more.
 * Where the plan calls cuBLASLt, this also settles its calls for these sizes, which allocates: runs of the
 * last 8 sizes that were asked about call the library, at other sizes the kernel beside it runs.  Beside a
 * capture of a plan's own runs only at sizes that it does not use. */
SPC_API spc_status spc_workspace(spc_plan *plan, const spc_tensor *tensors, int count, size_t *bytes,
                                 spc_error *err);

/* Makes a workspace for tensors of these shapes and keeps it until spc_plan_free: runs that are enqueued
 * without one (workspace NULL, bytes 0) use it, whatever smaller sizes they have.  Settles library calls as
 * spc_workspace does.  Asked for less than it has it keeps what it has; else what it had is freed: no run
 * of the plan may be under way, and graphs that were captured with it are void.  For plans of which one run
 * at a time is under way.  SPC_OUT_OF_MEMORY: the plan is as it was. */
SPC_API spc_status spc_plan_reserve(spc_plan *plan, const spc_tensor *tensors, int count, spc_error *err);

/* Every input and every output by name, in any order, and SPC_PACKED where there is one; names, dtypes, ranks,
 * sizes and array lengths are checked, the contents of positions and coordinates are trusted.  `value_count` is the room of an
 * output; for a packed or bitmap input also the number of its values.  On a GPU `values` is aligned to
 * 16 bytes.  Arrays must not overlap what is written.  `workspace`: aligned to 256 bytes, in no use by
 * another run on another stream; its contents are of no matter before and after; NULL: that of
 * spc_plan_reserve.  `stream`: a CUstream,
 * NULL the default one; ignored on the CPU.  SPC_CAPACITY: the workspace is too small, the message says
 * how large it must be. */
SPC_API spc_status spc_enqueue(spc_plan *plan, const spc_tensor *tensors, int count, void *workspace,
                               size_t bytes, void *stream, spc_error *err);

/* ---- what ran --------------------------------------------------------------------------------------- */
/* These three may be called by any thread at any time, a run under way included: nothing waits, nothing
 * is copied from a device.  The structs' struct_size is set by the caller; texts live as long as the
 * program.  Of a program for several sizes (spc_program_options.usual) they tell of the code that ran last,
 * before any run of that for the largest; flags are those of all. */

typedef enum spc_tier { SPC_TIER_TUNED = 0, SPC_TIER_GENERIC = 1 } spc_tier;

/* What a plan is, and the flags that its runs have raised. */
typedef struct spc_plan_info {
  size_t struct_size; /* sizeof(spc_plan_info) */
  const char *kernel, *backend;
  int reproducible;    /* the same inputs give the same bits: it was asked for (spc_program_options) */
  int batch_invariant; /* a row's bits do not depend on other rows: it was asked for */
  int launch_count, guard_count;
  int prepared;
  int overflow;     /* a run had more entries than a list has room for.  Lists have exact capacities:
                       no kernel of this version can raise it */
  int out_of_range; /* a kernel met an index outside of its tensor; likewise */
  const char *not_enqueued; /* why spc_enqueue cannot run it; NULL: it can */
  size_t reserved_bytes;    /* of the workspace that spc_plan_reserve made */
  spc_tier tier;            /* of what runs: generic until spc_plan_prepare has found tuned code */
  int tuned_ready;          /* it would find some now */
  int packed; /* the choice of kernels assumes spc_plan_pack: it was asked for (spc_program_options) */
  int64_t usual; /* the size, of spc_program_options.usual, that the code which all this is of was compiled for; 0: there is one code */
} spc_plan_info;
SPC_API spc_status spc_plan_describe(const spc_plan *plan, spc_plan_info *info, spc_error *err);

typedef enum spc_branch {
  SPC_BRANCH_NONE = 0, /* of a guard: no run has measured, or the last one made another list; of a launch: no guard stands before it */
  SPC_BRANCH_SPARSE = 1,
  SPC_BRANCH_DENSE = 2
} spc_branch;

/* One piece of code that a run may launch, in order of execution.  The interpreter has none. */
typedef struct spc_launch_info {
  size_t struct_size; /* sizeof(spc_launch_info) */
  const char *stage;  /* the statement or list that it is for: "h", "detect.h", "y.dense" */
  const char *kernel; /* its row in docs/kernels.md, "loop" for generated code, "library" */
  const char *entry;  /* the symbol that profilers show */
  int guard;          /* number of the guard that decides whether it does anything; -1: always */
  spc_branch branch;  /* the branch of the guard that it belongs to */
  int is_library;     /* a call of cuBLASLt */
  int stands_in;      /* launched only when the one before it cannot be */
  size_t code_bytes;  /* of its cubin; 0 on the CPU */
  int once;           /* depends on const inputs alone: runs with SPC_PACKED leave it out */
} spc_launch_info;
SPC_API spc_status spc_plan_launch(const spc_plan *plan, int i, spc_launch_info *info, spc_error *err);

/* A place where the measured zeros of a tensor decide between a sparse and a dense way.  Cover: the share
 * of micro-tiles that hold a non-zero, in 65536ths; where a sample decided, of the sample.  It is that of
 * the last run that got as far: spc_run, spc_enqueue or a replayed graph.  On a GPU the deciding kernel
 * writes it to host memory of the plan's; of runs on several streams at once any may be the last. */
typedef struct spc_guard_info {
  size_t struct_size; /* sizeof(spc_guard_info) */
  const char *tensor; /* whose zeros */
  double break_even;  /* dense from this cover on */
  double cover;       /* -1: no run has measured it */
  spc_branch branch;  /* what the run did */
} spc_guard_info;
SPC_API spc_status spc_plan_guard(const spc_plan *plan, int i, spc_guard_info *info, spc_error *err);

/* ---- compiled before ------------------------------------------------------------------------------ */
/* A program from a bundle: kernels that `spc export` compiled, for one target or several, here or on
 * another machine.  Nothing is compiled, and neither LLVM nor NVRTC is needed (say load_only in the
 * context's options, or the context asks for them); plans and runs are as ever.  The target is the
 * best of the bundle's that runs here: the GPU's architecture, or the highest level of x86-64.
 *
 * `bundle` is not kept.  SPC_UNAVAILABLE: the bundle has no code for this machine (the message lists
 * what it has), or was made by an spc that calls its code in another way.  SPC_IO: it is none, it was
 * cut, or its bytes were changed.  Its hash finds accidents, not ill will: a bundle is machine code,
 * load it from where you would load a library.  One context a thread, as for the other programs. */
SPC_API spc_status spc_program_from_bundle(spc_context *context, const void *bundle, size_t bytes,
                                           spc_program **program, spc_error *err);

/* ---- compiled meanwhile --------------------------------------------------------------------------- */
/* Compiles in the background, by a few threads of the context (compile_threads) that start with the
 * first job and end with the context.  Give a list at start-up and everything is warm when it is
 * asked for; give one text while another program serves.
 *
 *     spc_job *job;
 *     spc_source source = {text, strlen(text), NULL};
 *     spc_program_begin(context, &source, 1, &job, &err);
 *     while (!spc_job_wait(job, 0)) serve_with(old_plan);            // polls; takes a microsecond
 *     if (!spc_job_take(job, &program, &err)) ...                    // plans of it as ever
 *     spc_job_free(job);
 *
 * Each thread holds the memory of one compile, uses one core, and shares the cache with all others.
 * Until a program is taken nothing that runs is touched: what is ready is picked up by the caller,
 * so a captured graph never changes under its feet. */
typedef struct spc_job spc_job;

typedef struct spc_source {
  const char *text; /* UTF-8, or an IR dump; copied */
  size_t length;
  const spc_program_options *options; /* copied; NULL: the default */
} spc_source;

/* Queues `count` texts, in this order, and sets as many handles; all or none.  For the context's
 * thread.  SPC_CAPACITY: more than 1024 texts would wait.  What is wrong with a text is said by
 * spc_job_take. */
SPC_API spc_status spc_program_begin(spc_context *context, const spc_source *sources, int count,
                                     spc_job **jobs, spc_error *err);

/* 1 when the compile is over (done, failed or cancelled), 0 when it is not after so many
 * microseconds; 0 polls, a negative number waits to the end.  Any thread.  NULL is over. */
SPC_API int spc_job_wait(spc_job *job, int64_t microseconds);

/* A job that waits is over at once; one that compiles ends before its next kernel; one that is over
 * stays as it is.  Returns without waiting.  Any thread. */
SPC_API void spc_job_cancel(spc_job *job);

/* The program, once: it belongs to the caller, as from spc_program_from_text, whose status and error
 * this answers.  SPC_INVALID_ARGUMENT: the job is not over, or was taken before.  SPC_UNAVAILABLE: it
 * was cancelled. */
SPC_API spc_status spc_job_take(spc_job *job, spc_program **program, spc_error *err);

/* Cancels what is not over, without waiting, and lets go of the handle; what was not taken is freed.
 * Before the context is freed, which waits for the compiles that run.  NULL is allowed. */
SPC_API void spc_job_free(spc_job *job);

/* ---- fenced ------------------------------------------------------------------------------------- */
/* The command line as a function.  The `spc` binary is this call and nothing else, so that the
 * compiler is linked once.  Returns the documented exit code; writes to stdout and stderr. */
SPC_API int spc_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
