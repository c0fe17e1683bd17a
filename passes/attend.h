/* attend.h - what passes ask of attention (ir/attend.h): which columns a row may see, what a kernel of it takes. */
#ifndef SPC_PASSES_ATTEND_H
#define SPC_PASSES_ATTEND_H

#include "ir/attend.h"
#include "passes/choice.h"

enum { PASS_ATTEND_BLOCK = 128 }; /* rows and columns that every kernel's tile divides, where a condition is of such blocks */

/* Of the condition `c`: row i sees columns j with first <= j < behind alone, each the most (least) of some expressions over i and
 * indices of batch, which do not fall as i rises. */
typedef struct pass_seen {
  IR_VEC(ir_expr *) first, behind; /* i64; none: 0, and all of them */
  ir_expr *rest;                   /* what else is asked of each of these; NULL: nothing */
  ir_expr *blocks;                 /* what is the same for so many rows and columns from a multiple of them on; NULL: nothing */
  int64_t block_m, block_n;        /* 0: for all of them */
  bool whole;                      /* they are multiples of PASS_ATTEND_BLOCK: who asks once a tile need not ask again */
  bool noted;                      /* the rest is asked by a launch before, which leaves a bit a pair and a note a tile */
  int64_t rest_m, rest_n;          /* it is the same for so many rows and columns from a multiple of them on; 1: it may differ anywhere; 0: nowhere */
} pass_seen;
pass_seen pass_seen_of(ir_arena *arena, const ir_attend *attend);
/* The share of all pairs of a row and a column that are seen, as far as sizes tell, where tiles are of so many columns. */
double pass_seen_share(const pass_context *context, const ir_attend *attend, double tile_m, double tile_n);

/* A statement that a chosen candidate of a later one computes on its way. */
bool pass_is_on_chip(pass_context *context, const ir_kernel *kernel, const ir_stmt *stmt);

#endif
