/* storage.h - questions about storage that the deciding passes share: which operands store only
 * some of their elements, what a statement's support says about its pattern, and in which order
 * levels nest. */
#ifndef SPC_PASSES_STORAGE_H
#define SPC_PASSES_STORAGE_H

#include "passes/pass.h"

/* Some level leaves coordinates out.  A tensor whose format is not chosen yet is not sparse. */
bool pass_tensor_is_sparse(const ir_tensor *tensor);
bool pass_stmt_is_assembled(const ir_stmt *stmt); /* its pattern is computed: count, fill, pack */
/* Every level can be appended to by loops that run in its order: dense ones outside, then lists. */
bool pass_format_appends(const ir_format *format);
/* An assembled statement whose loops may write the levels of its result themselves (CPU): a plain
 * assignment whose pattern comes out the same in every function.  ..appends: in its format. */
bool pass_stmt_by_levels(const pass_context *context, const ir_stmt *stmt);
bool pass_stmt_appends(const pass_context *context, const ir_stmt *stmt);
/* The reduction of an assembled statement whose rows may be summed in a workspace: a place is taken
 * where `points` holds at one of the reduction's points, and stored where `rest` holds too. */
typedef struct pass_row_sum {
  ir_expr *reduce, *points;
  ir_expr *rest; /* NULL: true */
} pass_row_sum;
bool pass_row_sum_of(ir_arena *arena, const ir_stmt *stmt, pass_row_sum *row);
/* `copy[i,j] = source[i,j]` between storage formats and nothing else: the source, or NULL. */
ir_tensor *pass_stmt_converts(const ir_stmt *stmt);

/* A sparse tensor S such that the support implies S[subs of the target]; NULL when there is none.
 */
ir_tensor *pass_support_like(const ir_stmt *stmt);
/* Every index of the result is bounded by stored entries of sparse operands: no axis is full. */
bool pass_support_is_sparse(const ir_stmt *stmt);
bool pass_expr_reads_sparse(const ir_expr *e); /* NULL reads nothing */

/* ---- the order of levels (format_order.c) ---------------------------------------------------- */
typedef struct pass_before {
  const ir_index *first, *second;
} pass_before; /* first is an outer loop of second */
typedef struct pass_order {
  ir_arena *arena;
  IR_VEC(pass_before) edges;
} pass_order;

/* Adds what iterating `access` asks of the loops; false, and nothing is added, when that
 * contradicts. */
bool pass_order_add(pass_order *order, const ir_expr *access);
/* A format with the same levels for dimensions in an order that the loops allow; NULL: none. */
const ir_format *pass_order_format(const pass_order *order, const ir_expr *access);

/* What a result that is written level by level asks of its loops (format_result.c). */
void pass_order_result(pass_order *order, const ir_stmt *stmt);
/* Sparse results that cannot be written as they are stored are written as lists and converted. */
void pass_format_results(pass_context *context, ir_kernel *kernel);
spc_status pass_format_orders(pass_context *context,
                              ir_kernel *kernel); /* copies where orders contradict */
spc_status pass_format_directives(pass_context *context, ir_kernel *kernel);
/* Splits statements whose result is stored by value: computed dense, then packed
 * (format_value.c). */
void pass_format_by_value(pass_context *context, ir_kernel *kernel);
/* `copy[i,j] = source[i,j]`, with indices of its own that range over the source's dimensions;
 * becomes copy->def, is put nowhere. */
ir_stmt *pass_format_copy(pass_context *context, ir_kernel *kernel, ir_tensor *source,
                          ir_tensor *copy);
/* Every part of the statement reads the copy in the place of `access`. */
void pass_format_read(ir_arena *arena, ir_stmt *stmt, const ir_expr *access, ir_tensor *copy);
/* Dense copies of stored operands that a GPU reads faster whole (format_whole.c). */
void pass_format_whole(pass_context *context, ir_kernel *kernel);
/* Dense operands that walks over entries meet across their rows, turned in front (format_turn.c). */
void pass_format_turn(pass_context *context, ir_kernel *kernel);
/* Operands in which indices that are summed together lie apart, copied for a GPU (format_joined.c). */
void pass_format_joined(pass_context *context, ir_kernel *kernel);
/* Dense matrices whose rows are no multiples of 16 bytes, copied for a GPU to rows that are (format_padded.c). */
void pass_format_padded(pass_context *context, ir_kernel *kernel);
/* The statement writes NAME_suffix, stored so, and a copy behind it makes what was its result; returns NAME_suffix. */
ir_tensor *pass_format_write_as(pass_context *context, ir_kernel *kernel, int at, const char *suffix, const ir_format *format, const char *why);
/* Dense results of products that are zero outside an input's stored blocks, in blocks first (format_blocks.c). */
void pass_format_blocks(pass_context *context, ir_kernel *kernel);
void pass_format_insert(ir_arena *arena, ir_kernel *kernel, int at, ir_stmt *stmt);

#endif
