/* stores.h - where sparse results store an entry, carried through the passes (ir/stores.c says what
 * it is).
 *
 * Pass `canon` writes it down while the program stands as it was written.  From then on it is data
 * like a value: it follows what is renamed, merged and fused, and pass `format` settles what is
 * asked of a let whose storage does not tell. */
#ifndef SPC_PASSES_STORES_H
#define SPC_PASSES_STORES_H

#include "passes/pass.h"

/* Of every statement whose pattern a sparse result depends on. */
void pass_stores_note(pass_context *c, ir_kernel *kernel);
/* e holds `stored(T[..])`; reads values of T elsewhere than there. */
bool pass_stores_asks(const ir_expr *e, const ir_tensor *tensor);
bool pass_stores_reads(const ir_expr *e, const ir_tensor *tensor);
bool pass_stores_any(const ir_expr *e); /* some `stored(..)` stands in it */

/* Where operands store what the condition asks about, whatever dense values say: it holds wherever
 * the condition does.  NULL: everywhere. */
ir_expr *pass_stores_of_condition(ir_arena *arena, ir_expr *condition);
ir_expr *pass_stores_at(ir_arena *arena, ir_expr *access); /* stored(access) */
/* Puts `stored(access)` into stmt->stores in place of what a temporary for `value` stores; returns
 * that, or NULL where it does not occur, or the access means nothing there. */
ir_expr *pass_stores_name(ir_arena *arena, ir_stmt *stmt, const ir_expr *value, ir_expr *access);
/* any[k] of where the reduction's body stores: the part of what the reduction stores that is asked
 * of each of its points.  NULL: none is told apart. */
ir_expr *pass_stores_points(ir_arena *arena, const ir_expr *reduce);
/* What is said of the sum's own entries, by `to`: its whole pattern, or the points that it goes through where nothing else in e goes
 * through the same.  NULL: e does not have it, or another sum has the same. */
ir_expr *pass_stores_replace_sum(ir_arena *arena, ir_expr *e, const ir_expr *reduce, ir_expr *to);
/* e with `to` in place of what is alike `from`; NULL where there is none (or no e). */
ir_expr *pass_stores_replace(ir_arena *arena, ir_expr *e, const ir_expr *from, ir_expr *to);
/* Numbers that are computed decide: two functions may round them differently. */
bool pass_stores_round(const ir_expr *e);
/* What the let stores can be said in a reader's indices, wherever e asks. */
bool pass_stores_can_inline(const ir_expr *e, const ir_stmt *def);
ir_expr *pass_stores_inline(ir_arena *arena, ir_kernel *kernel, ir_expr *e, const ir_stmt *def);
/* After formats are chosen: asks only what levels tell; statements for the rest. */
void pass_stores_settle(pass_context *c, ir_kernel *kernel);

#endif
