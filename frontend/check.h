/* check.h - the checker's state and its parts; private to frontend/check*.c and lower*.c.
 *
 * Order for each kernel: names (binds every name, declares indices), sizes (of indices and
 * tensors), dtypes (of every expression), lowering, then what is easier to see in the IR: bounds of
 * subscripts and sparsity.  Symbols hold the IR's own declarations.  One fault is reported once: a
 * symbol or statement that took part in one is marked bad, and everything that depends on it stays
 * silent. */
#ifndef SPC_FRONTEND_CHECK_H
#define SPC_FRONTEND_CHECK_H

#include "frontend/ast.h"

typedef enum fe_symbol_kind { FE_SYM_DIM, FE_SYM_TENSOR, FE_SYM_INDEX } fe_symbol_kind;

struct fe_symbol {
  fe_symbol_kind kind;
  const char *name;
  ir_span span;        /* declaration, or first use of an index */
  bool bad;            /* a fault was reported: say nothing that follows from it */
  bool disagrees;      /* index: two sizes were reported */
  bool misused;        /* tensor: a wrong number of subscripts was reported */
  int uses;            /* reads, not counting the declaration */
  ir_expr *size;       /* dim: its value; index: its extent once known */
  ir_span size_span;   /* index: the access that gave the size */
  const char *size_of; /* index: what gave the size, for notes: "dimension 1 of `x`" */
  ir_dim *dim;         /* dim: the IR's dim; NULL for one derived from a dyn dim */
  ir_tensor *tensor;
  bool defined;    /* tensor: may be read from here on */
  bool shaped;     /* tensor: tensor->dim[] is known */
  const fe_in *in; /* tensor: its declaration */
  fe_stmt *stmt;   /* tensor: its statement */
  ir_index *index;
  fe_symbol *offsets; /* index: ragged */
  fe_symbol *segment; /* index: the segment of a ragged index */
  fe_symbol *counted; /* index: a segment; the offsets that it counts, which are one longer */
};

typedef struct fe_check {
  ir_arena *arena;
  ir_sink *sink;
  fe_file *file;
  const fe_options *options;
  ir_program *program;
  int errors;
  ir_table kernels_named, formats_named; /* items of the file: the first of each name */
  IR_VEC(fe_symbol *) dims;
  ir_table dims_named;
  IR_VEC(const char *) missed_dims; /* unknown names that were reported: said once */
  /* of the kernel at hand */
  const fe_kernel *syntax;
  ir_kernel *kernel;
  IR_VEC(fe_symbol *) symbols; /* tensors and indices */
  ir_table symbols_named;
  IR_VEC(const char *) missed; /* unknown names that were reported */
} fe_check;

/* check.c */
ir_diag *fe_error(fe_check *c, ir_diag_id id, ir_span span, const char *format, ...)
    IR_PRINTF(4, 5);
fe_symbol *fe_symbol_find(const fe_check *c, const char *name); /* kernel first, then dims */
fe_symbol *fe_symbol_new(fe_check *c, fe_symbol_kind kind, const char *name,
                         ir_span span); /* added to its table */
void fe_symbols_forget(fe_check *c);    /* those of the last kernel */
bool fe_is_lost(const fe_check *c,
                const char *name); /* its declaration may be among what did not parse */
void fe_suggest(fe_check *c, ir_diag *d, ir_span span, const char *name,
                unsigned kinds); /* 1 << fe_symbol_kind */
const fe_format_def *fe_format_find(const fe_check *c, const char *name);
ir_expr *fe_size_lower(fe_check *c, const fe_expr *e); /* a size; NULL after a fault */
const char *fe_size_text(fe_check *c, const ir_expr *size);

/* check_format.c */
const ir_format *fe_format_make(fe_check *c, const fe_fmt *fmt, int rank); /* NULL after a fault */
void fe_format_check_defs(fe_check *c);
void fe_format_check_multiple(fe_check *c, ir_tensor *tensor, ir_span span); /* sizes against n:m */

/* check_kernel.c */
void fe_kernel_check(fe_check *c, fe_kernel *kernel);
bool fe_pattern_make(fe_check *c, const fe_pat *pat, const fe_symbol *tensor, ir_pattern *out);

/* check_names.c */
void fe_names_check(fe_check *c, fe_stmt *stmt);
bool fe_is_bare_index(const fe_expr *sub);

/* check_implied.c: indices that the left side and the reducers do not name */
void fe_unbound_check(fe_check *c, fe_stmt *stmt); /* rule 1: faults, or `+=` made explicit */

/* check_sizes.c */
void fe_sizes_check(fe_check *c, fe_kernel *kernel);
bool fe_size_known(const ir_expr *size, int64_t *value); /* without dyn dims */
bool fe_size_same(const ir_expr *a, const ir_expr *b);
/* The difference a - b where it is the same for all sizes of dyn dims. */
bool fe_size_difference(const ir_expr *a, const ir_expr *b, int64_t *difference);

/* check_dtypes.c */
void fe_dtypes_check(fe_check *c, fe_stmt *stmt);

/* check_bounds.c, check_sparsity.c, check_fill.c: on the lowered statement */
void fe_bounds_check(fe_check *c, const fe_stmt *stmt);
void fe_sparsity_check(fe_check *c, fe_stmt *stmt);
void fe_fill_check(fe_check *c, const fe_stmt *stmt);

/* check_schedules.c, check_tests.c */
const ir_kernel *fe_kernel_of(fe_check *c, const char *name, ir_span span); /* NULL after a fault */
const fe_kernel *fe_kernel_syntax(const fe_check *c, const char *name);
bool fe_kernel_is_whole(const fe_kernel *k); /* all of it parsed and was lowered */
void fe_schedule_check(fe_check *c, const fe_schedule *schedule);
void fe_test_check(fe_check *c, const fe_test *test);

/* lower.c, lower_expr.c */
void fe_stmt_lower(fe_check *c, fe_stmt *stmt);
ir_expr *fe_expr_lower(fe_check *c, const fe_stmt *stmt, const fe_expr *e, ir_dtype want);
ir_expr *fe_sub_lower(fe_check *c, const fe_expr *sub);
ir_expr *fe_cond_lower(fe_check *c, const fe_stmt *stmt);

#endif
