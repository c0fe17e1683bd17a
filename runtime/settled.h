/* settled.h - a plan's calls of the dense library, settled for some sizes and aimed at the arrays
 * of each run: settling allocates, aiming does not. */
#ifndef SPC_RUNTIME_SETTLED_H
#define SPC_RUNTIME_SETTLED_H

#include "runtime/run.h"

enum { RT_SETTLED_SIZES = 8 }; /* the oldest make room */
typedef struct rt_settled rt_settled;

/* NULL where the image calls no library.  Lives in `arena`. */
rt_settled *rt_settled_new(const rt_plan *plan, ir_arena *arena);
void rt_settled_free(rt_settled *settled);
/* The calls at these sizes, by code; NULL: they are not settled. */
rt_cublaslt_call **rt_settled_find(const rt_settled *settled, const int64_t *sizes);
/* A call that the library has no algorithm for stays NULL. */
spc_status rt_settled_add(rt_settled *settled, const int64_t *sizes);

#endif
