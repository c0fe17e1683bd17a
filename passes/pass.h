/* pass.h - the pass table, the manager, and what a pass is given. */
#ifndef SPC_PASSES_PASS_H
#define SPC_PASSES_PASS_H

#include "ir/loop.h"
#include "ir/target.h"

typedef struct pass_profile pass_profile; /* cost.h: rates of a device */

/* One way of a statement, whatever the estimates say: how `spc bench` runs every candidate. */
typedef struct pass_pin {
  const char *target, *label; /* as the table of candidates has them */
} pass_pin;

/* What the user asked for; all fields zero is the default. */
typedef struct pass_options {
  const ir_target *target;
  const pass_profile *profile; /* NULL: the built-in one of the target */
  const int64_t
      *sizes; /* by dim->number, -1 unknown; for estimates only, never a key; NULL: none */
  bool strict_nan, reproducible, batch_invariant;
  bool unpacked; /* as ir_program.unpacked */
  bool ignore_schedule;
  bool quick; /* CUDA: kernels that compile soonest, whatever the schedule asks for; the CPU's quick
               * code is what comes without pass `vectorise` */
  const pass_pin *pin; /* NULL: none */
  /* Why the library of dense products cannot be called here, NULL when it can; asked only where it
   * would be chosen.  NULL: nobody knows, so it is no candidate. */
  const char *(*library_missing)(void);
  int force_guard; /* 0: by cost; 1: always sparse; 2: always dense (a debug switch) */
  /* the developer's switches */
  const char *passes; /* "canon,propagate": exactly these; NULL: the pipeline */
  const char *start_at, *stop_after;
  const char *disable;                    /* comma-separated names */
  const char *print_before, *print_after; /* names, comma-separated, or "all" */
  bool print_after_change, verify_each, time_report;
  const char *reproducer_dir; /* NULL: none is written */
  void (*print)(void *user, const char *title, const char *text);
  void *print_user;
} pass_options;

typedef struct pass_context {
  ir_program *program;
  ir_arena *arena; /* the program's */
  ir_sink *sink;
  const pass_options *options;
  const pass_profile *profile;
} pass_context;

typedef spc_status pass_function(pass_context *context, ir_kernel *kernel);

typedef enum pass_for { PASS_FOR_ANY, PASS_FOR_CPU, PASS_FOR_CUDA } pass_for;

typedef struct pass_row {
  int number;
  const char *name;
  pass_function *run;
  pass_for target;
  const char *needs, *keeps, *meaning;
} pass_row;
extern const pass_row pass_rows[];
extern const int pass_row_count;
const pass_row *pass_find(const char *name); /* NULL when unknown */
const pass_row *
pass_next(int number,
          ir_target_kind kind); /* of the target's rows, the first above number; or NULL */

/* The whole compiler between the front end and the code generators (pipeline.c). */
spc_status pass_pipeline(ir_program *program, const pass_options *options, ir_sink *sink);

/* A program fresh from the front end with all sparsity off: formats, hints, skipping of zeros. */
void pass_densify(ir_program *program);

/* The manager (manager.c): runs single passes under the developer's switches, checks their needs,
 * verifies what they leave, times them and keeps what a reproducer needs. */
typedef struct pass_record {
  const pass_row *row;
  double milliseconds;
  bool changed; /* known only when a dump after change was asked for */
} pass_record;

typedef struct pass_manager {
  pass_context context;
  IR_VEC(pass_record) records; /* passes that ran, in order */
  int resumed_after;           /* what the program had seen when it came */
  bool started;                /* start_at has been met */
  bool stopped;                /* stop_after has run */
} pass_manager;

/* Prepares the program for the target: its name, modes and each kernel's schedule. Refuses unknown
 * pass names in the switches. */
spc_status pass_manager_open(pass_manager *m, ir_program *program, const pass_options *options,
                             ir_sink *sink);
spc_status pass_manager_run(pass_manager *m, const char *name); /* unless a switch leaves it out */
spc_status pass_manager_close(pass_manager *m);        /* the report, when it was asked for */
void pass_report(const pass_manager *m, ir_text *out); /* a line a pass: milliseconds, share */

#define SPC_PASS(NUMBER, NAME, FUNCTION, TARGET, NEEDS, KEEPS, MEANING) pass_function FUNCTION;
#include "passes/pass.def"
#undef SPC_PASS

#endif
