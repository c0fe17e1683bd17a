/* vectorise_panel.h - one product while it is blocked for the caches: its sums, what is packed, and
 * the block in work. */
#ifndef SPC_PASSES_VECTORISE_PANEL_H
#define SPC_PASSES_VECTORISE_PANEL_H

#include "passes/vectorise.h"

enum {
  PANEL_DEPTH = 512,
  PANEL_AHEAD = 8,              /* steps of k that a panel's lines are asked for before */
  PANEL_EARLY_ROWS = 64,        /* lines of so many rows of a result wait in the first cache */
  PANEL_MOST_ROWS = 516,        /* sums of a block: 129 KiB in AVX-512; tiles of 6 hold 512 rows */
  PANEL_MOST_PACKED_ROWS = 144, /* where rows are packed too */
  PANEL_FEW_ROWS = 16,          /* fewer are not packed for */
  PANEL_SCATTERED_ROWS = 96,    /* the same where columns are turned element by element */
  PANEL_FEWEST_ROWS = 4,        /* the same where they are all the rows there are */
  PANEL_DOT_ROWS = 4,           /* tiles of dot products, for few rows of turned operands */
  PANEL_DOT_COLUMNS = 2,
  PANEL_TURN = 128, /* steps of k that columns are turned for at once */
  PANEL_TURN_COLUMNS = 8,
  PANEL_FEW_STRIPS = 16, /* that few rows run over at once: 4 KiB of a line */
  PANEL_ONE_STRIPS = 64, /* the same of one row, where threads find enough */
  PANEL_FEW_STEPS = 8,   /* lines that they read side by side */
  PANEL_PARTS = 8,       /* at least so many blocks for threads, where the sizes allow it */
  PANEL_MOST_PACKED = 4,
  PANEL_MOST_SUMS = 2
};

typedef struct panel_packed {
  const ir_expr *e;
  ir_buf *buf;
  bool by_row;
  bool turned; /* by columns, but consecutive along k: packed column by column */
} panel_packed;

typedef struct panel_sum {
  const ir_code *let; /* declares it, with its initial value */
  ir_buf *buf;
} panel_sum;

typedef struct panel {
  vec_tile *t;
  ir_arena *a;
  const ir_code *k; /* the reduction */
  ir_block pre, post;
  int packed_count, sum_count;
  panel_packed packed[PANEL_MOST_PACKED];
  panel_sum sums[PANEL_MOST_SUMS];
  int64_t width, rows;
  const ir_var *slot; /* the row's place among the sums, where rows are clamped; else NULL */
  ir_expr *row_lo, *row_hi, *col_lo, *col_hi, *k_lo, *k_hi; /* of the block in work */
} panel;

static inline ir_expr *pass_panel_ref(panel *p, const ir_var *var) {
  return ir_var_ref(p->a, (ir_var *)var);
}
static inline ir_expr *pass_panel_op(panel *p, ir_op o, ir_expr *x, ir_expr *y) {
  return ir_apply(p->a, o, x, y);
}
static inline ir_expr *pass_panel_number(panel *p, int64_t n) { return ir_int(p->a, n); }

static inline ir_expr *pass_panel_let(panel *p, const char *name, ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM || e->kind == IR_VAR) return e;
  return pass_panel_ref(p, pass_vec_let(p->t->b, name, IR_I64, 1, e));
}

/* ---- vectorise_panel.c ---- */
bool pass_panel_suits(panel *p); /* the body has the form, and packing pays */
bool pass_panel_runs_along_k(const panel *p, const ir_expr *e);
ir_code pass_panel_limited(const ir_code *loop, ir_expr *lo, ir_expr *hi);
ir_expr *pass_panel_end(panel *p, const ir_code *loop, ir_expr *from, int64_t step, ir_expr *hi);
/* Rows row_lo .. row_hi of the columns col_lo .. col_hi, which are one panel wide. */
void pass_panel_strip(panel *p, ir_expr *k_lo, ir_expr *k_hi);
/* Rows row_lo .. row_hi, fewer than PANEL_FEWEST_ROWS, of up to p->width columns. */
void pass_panel_few(panel *p, ir_expr *k_lo, ir_expr *k_hi);

#endif
