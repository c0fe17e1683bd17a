/* spc.h - the public interface of the sparse kernel compiler.
 *
 * Three handles: a context owns the settings that programs share (log, cache, threads, device);
 * a program is `.spx` text that was checked and compiled for one target, immutable and shared by
 * threads; a plan binds the sizes and can be run again and again.
 *
 *     spc_context *ctx;  spc_program *prog;  spc_plan *plan;  spc_error err = SPC_ERROR_INIT;
 *     spc_context_new(NULL, &ctx, &err);
 *     spc_program_from_text(ctx, text, strlen(text), NULL, &prog, &err);
 *     spc_plan_new(prog, NULL, 0, &plan, &err);
 *     spc_run(plan, bindings, n, workspace, bytes, stream, &err);
 *
 * The library never exits, aborts, prints or starts a thread that it does not own.  Every fallible
 * call takes an optional spc_error as its last argument, filled by value in the caller's memory;
 * there is no last-error state. */
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

#if defined(SPC_BUILDING) && defined(__GNUC__)
#define SPC_API __attribute__((visibility("default")))
#else
#define SPC_API
#endif

/* What a call can answer.  The numbers are stable. */
typedef enum spc_status {
  SPC_OK = 0,
  SPC_INVALID_INPUT = 1,   /* errors in the user's program, sizes, ranks or dtypes */
  SPC_INVALID_ARGUMENT = 2, /* misuse of the interface: NULL, unknown name, wrong state */
  SPC_MISMATCH = 3,        /* a verification or a `test` block failed */
  SPC_UNAVAILABLE = 4,     /* target or tool chain not there: no GPU, no NVRTC, no LLVM */
  SPC_IO = 5,              /* a file is unreadable or malformed */
  SPC_CAPACITY = 6,        /* an assembled output needs more room; sizes are in the result */
  SPC_OUT_OF_MEMORY = 7,
  SPC_INTERNAL = 70        /* a defect of the compiler; the message names a reproducer */
} spc_status;

SPC_API const char *spc_status_name(spc_status status);

/* Detail of a failure, by value.  `message` is one paragraph for a person; `diagnostics` is the
 * rendered text with source lines and carets where the fault is in the program, cut to fit. */
typedef struct spc_error {
  size_t struct_size; /* sizeof(spc_error), set by SPC_ERROR_INIT */
  spc_status status;
  char message[512];
  char diagnostics[4096];
} spc_error;
#define SPC_ERROR_INIT { sizeof(spc_error), SPC_OK, "", "" }

/* Fenced: the command line as a function.  The `spc` binary is this call and nothing else, so that
 * the compiler is linked once.  Returns the documented exit code; writes to stdout and stderr. */
SPC_API int spc_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
