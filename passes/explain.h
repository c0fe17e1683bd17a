/* explain.h - why each kernel is what it is, in words, as data, and as a schedule to edit. */
#ifndef SPC_PASSES_EXPLAIN_H
#define SPC_PASSES_EXPLAIN_H

#include "ir/tile.h"

void pass_explain(const ir_program *program, const ir_kernel *kernel, ir_text *out);
void pass_explain_stages(const ir_kernel *kernel, ir_text *out); /* all but its first lines */
void pass_explain_json(const ir_program *program, const ir_kernel *kernel,
                       ir_text *out); /* one object */
const char *pass_explain_verdict(ir_verdict verdict); /* "chosen", "instead", "runner-up", "rejected" */
/* A `schedule` block that makes the same choices again. */
void pass_explain_schedule(const ir_program *program, const ir_kernel *kernel, ir_text *out);
/* One line, no newline: "ffn for sm_90a: h dense 128x256x64; y f lists of h, 128x1, .. below cover
 * 0.93, else dense 128x256x64; 720 us expected, dense 884 us (1.23x)". */
void pass_explain_line(const ir_program *program, const ir_kernel *kernel, ir_text *out);

/* ---- the kernel as a whole (explain_summary.c) ----------------------------------------------- */
/* Predicted microseconds of a run's stages.  Without lists every figure but `dense` is the same. */
typedef struct pass_summary {
  double expected;           /* the mean over the densities and their spread */
  double low, likely, high;  /* at the ends and in the middle of the range of densities */
  double dense;              /* every statement that has a choice by its dense kernel */
  double once;               /* of stages beside all these: what they make is kept between runs */
  int listed;                /* statements that read lists */
  const ir_candidate *first; /* the first of them, or NULL */
} pass_summary;
pass_summary pass_explain_summary(const ir_program *program, const ir_kernel *kernel);
double pass_explain_dense_time(const ir_kernel *kernel, const ir_candidate *chosen);
void pass_explain_head(const ir_program *program, const ir_kernel *kernel,
                       ir_text *out); /* the first lines */

#endif
