/* stage.h - making the parts of the tile program: stages, lists and their workspaces. */
#ifndef SPC_PASSES_STAGE_H
#define SPC_PASSES_STAGE_H

#include "passes/pass.h"

ir_stage *pass_stage_new(pass_context *context, ir_kernel *kernel, ir_stage_kind kind,
                         const char *name);
ir_buf *pass_workspace_new(pass_context *context, ir_kernel *kernel, const char *name,
                           ir_dtype dtype, ir_expr *count);
/* What the candidate asks to have written out: the statements that do it stand before this one
 * then, which reads their results; returns how many there are. */
int pass_stage_expand(pass_context *context, ir_kernel *kernel, int at,
                      const ir_candidate *candidate);
/* A copy of the stored operand, written out where the list's verdict asks for it, or always; returns how many statements stand
 * before this one now. */
int pass_stage_full(pass_context *context, ir_kernel *kernel, int at, const ir_expr *stored, const ir_list *list, ir_tensor **out);
/* A copy of the const operand that the candidate packs over strips, laid out so: made once, for runs
 * that keep it.  *out: the copy, NULL where there is none to make; returns how many statements stand
 * before this one now. */
int pass_stage_strips(pass_context *context, ir_kernel *kernel, int at,
                      const ir_candidate *candidate, ir_tensor **out);
/* Bits alone of the reader's operand, a bit an element of `axis` and `strip` rows. */
ir_list *pass_bits_new(pass_context *context, ir_kernel *kernel, const ir_candidate *reader,
                       ir_index *axis, int64_t strip);
void pass_list_add_bits(pass_context *context, ir_kernel *kernel, ir_list *list); /* words for a bit a micro-tile */
/* A list of which nothing is made but a verdict, by the kernel that asks there, from a sample. */
ir_list *pass_sample_new(pass_context *context, ir_kernel *kernel, const ir_candidate *asks, ir_index *axis);
/* A list with its buffers for the micro-tiles that a candidate walks. */
ir_list *pass_list_new(pass_context *context, ir_kernel *kernel, const ir_candidate *candidate,
                       bool bits);
/* The same of the operand that is stored sparse: its share that is stored decides. */
ir_list *pass_stored_list_new(pass_context *context, ir_kernel *kernel, const ir_candidate *chosen, const ir_expr *stored);
/* Where the stage puts listed columns of a whole result side by side: the workspace `TARGET.listed`. */
void pass_listed_new(pass_context *context, ir_kernel *kernel, const ir_tensor *target);
bool pass_weighs_store(const ir_list *list); /* it is one of those */
/* Marks stages that depend on `const` inputs alone. */
void pass_stage_once(pass_context *context, ir_kernel *kernel);
/* Lists whose tiles may be fewer than blocks, and which are made in every run, get what those that share a tile meet in. */
void pass_stage_shares(pass_context *context, ir_kernel *kernel);
/* A dense branch stands in front of a list where that pays (stage_front.c). */
void pass_stage_fronts(pass_context *context, ir_kernel *kernel);
bool pass_can_be_sampled(pass_context *context, const ir_tensor *values); /* by one */
void pass_stage_lifetimes(ir_kernel *kernel); /* first and last stage of every workspace */

/* The chosen candidate for the statement that defines `target`; NULL before microtile or without
 * one. */
const ir_candidate *pass_chosen(const ir_kernel *kernel, const ir_tensor *target);
/* The one by a list that may be made in place of the chosen one's; NULL: there is none. */
const ir_candidate *pass_instead(const ir_kernel *kernel, const ir_tensor *target);
/* The one that the stage computes by: either of the two. */
const ir_candidate *pass_candidate_of(const ir_kernel *kernel, const ir_stage *stage);
/* The least time first; those of one time keep their order. */
void pass_rank(ir_candidate **candidates, int count, double (*time)(const ir_candidate *));
/* The dense candidate that runs when the guard of a list says dense: the best runner-up without a
 * list. */
ir_candidate *pass_dense_branch(const ir_kernel *kernel, const ir_tensor *target);

#endif
