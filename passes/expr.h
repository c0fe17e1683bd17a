/* expr.h - what several passes ask of expressions: which indices they use, rewriting from the
 * leaves up, and conditions as conjunctions.
 *
 * Conditions are b1 expressions where NULL means "true everywhere". */
#ifndef SPC_PASSES_EXPR_H
#define SPC_PASSES_EXPR_H

#include "ir/ir.h"

typedef struct pass_indices {
  IR_VEC(ir_index *) list;
} pass_indices;
bool pass_indices_has(const pass_indices *set, const ir_index *index);
void pass_indices_add(ir_arena *arena, pass_indices *set, ir_index *index);
/* Adds the indices that e uses and does not bind; softmax and topk leave theirs free. */
void pass_indices_of(ir_arena *arena, const ir_expr *e, pass_indices *set);
/* Adds every index that a reduction, softmax or topk in e binds. */
void pass_indices_bound(ir_arena *arena, const ir_expr *e, pass_indices *set);

/* Rebuilds e from the leaves up: `change` gets a node whose arguments are rewritten and returns it
 * or its replacement. Subscripts are rewritten too. Nodes above a replacement of a wider dtype
 * are retyped (LANGUAGE rule 3): siblings are converted, constants take the new dtype. */
typedef ir_expr *pass_change(void *user, ir_expr *node);
ir_expr *pass_rewrite(ir_arena *arena, ir_expr *e, pass_change *change, void *user);
ir_expr *pass_with_args(ir_arena *arena, ir_expr *e, ir_expr **args); /* one node, retyped */
/* e with the node `from` (by address) replaced by `to`. */
ir_expr *pass_replace_node(ir_arena *arena, ir_expr *e, const ir_expr *from, ir_expr *to);
/* The definition of a tensor, or a condition over its indices, as seen by the access `use` of it:
 * free indices of `def` become the subscripts of the use. */
ir_expr *pass_at_access(ir_arena *arena, const ir_stmt *def, const ir_expr *e, const ir_expr *use);
/* True when a reduction in e binds an index that the subscripts of `use` mean otherwise: rename
 * first. */
bool pass_captures(ir_arena *arena, const ir_expr *e, const ir_expr *use);
/* What e sums along rows of a segment, e of the statement `def`, is the same at `use`: the use is of that segment too.  False also
 * where e goes through the rows of all segments: a reader may be in one. */
bool pass_segments_stay(const ir_stmt *def, const ir_expr *e, const ir_expr *use);
/* e with every reduction over indices that nothing else in the kernel uses. */
ir_expr *pass_fresh_bound(ir_arena *arena, ir_kernel *kernel, ir_expr *e);
/* e in dtype t, for an operand of an op: constants are rewritten, others cast. */
ir_expr *pass_as_dtype(ir_arena *arena, ir_dtype t, ir_expr *e);

bool pass_is_heavy(const ir_expr *e);       /* a reduction, softmax or topk node */
int pass_count_heavy(const ir_expr *e);     /* such nodes, not looking inside them */
bool pass_is_elementwise(const ir_expr *e); /* no heavy node at all */
bool pass_is_number(const ir_expr *e, double value);
int pass_count_accesses(const ir_expr *e, const ir_tensor *tensor);
/* The first access of tensor in e, or NULL. */
ir_expr *pass_find_access(ir_expr *e, const ir_tensor *tensor);
/* Subscripts of the statement's target are distinct bare indices: it is a plain assignment. */
bool pass_plain_subs(const ir_stmt *stmt);
/* The subscripts of an access are distinct bare indices, each as long as its dimension; of a
 * temporary, whose padding holds zeros, also shorter ones. */
bool pass_bare_access(const ir_expr *access);

/* Whether e is finite when every tensor for which `absent` holds reads as 0 and the others as
 * something finite (finite.c). */
typedef bool pass_absent(const void *user, const ir_tensor *tensor);
bool pass_stays_finite(const ir_expr *e, pass_absent *absent, const void *user);
bool pass_is_finite_sampled(const ir_expr *e); /* every tensor with a sample reads as 0 */

/* ---- conditions ------------------------------------------------------------------------------ */
typedef struct pass_terms {
  IR_VEC(ir_expr *) list;
} pass_terms;
void pass_terms_of(ir_arena *arena, ir_expr *condition, pass_terms *terms); /* its conjuncts */
ir_expr *pass_and(ir_arena *arena, ir_expr *a, ir_expr *b); /* repeated terms once */
ir_expr *pass_or(ir_arena *arena, ir_expr *a, ir_expr *b);
bool pass_implies(ir_arena *arena, ir_expr *a, ir_expr *b); /* each term of b is one of a's */
bool pass_is_false(const ir_expr *condition);
ir_expr *pass_false(ir_arena *arena);
/* The terms of `condition` that use only indices of `set`; NULL when none does. */
ir_expr *pass_terms_within(ir_arena *arena, ir_expr *condition, const pass_indices *set);

#endif
