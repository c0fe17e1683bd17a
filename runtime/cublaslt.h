/* cublaslt.h - NVIDIA's library of dense products, loaded at run time with our own prototypes.
 *
 * It takes 0.1 to 0.6 s to load: nothing asks for it but a choice that it would win, or a plan that
 * has one of its products.  A call is settled when a run's buffers are known (descriptors, the
 * library's own choice of algorithm), and serves later runs of the plan; running it is one call of
 * the library, which launches and nothing else: no allocation, its workspace is a buffer of the
 * plan's. */
#ifndef SPC_RUNTIME_CUBLASLT_H
#define SPC_RUNTIME_CUBLASLT_H

#include "runtime/cuda.h"

/* Why it cannot be used here; NULL when it can.  Loads it. */
const char *rt_cublaslt_missing(void);

typedef struct rt_cublaslt_call rt_cublaslt_call;
/* buf: the arrays of the code, in its order; NULL: they are aligned to RT_LIBRARY_ALIGN bytes, and
 * the call is aimed at them later.  *out stays NULL where the library is not there or has no
 * algorithm for these sizes and alignments: what stands in for the call is launched then. */
spc_status rt_cublaslt_settle(rt_cuda *cuda, const ir_library_call *call, const int64_t *sizes,
                              void *const *buf, rt_cublaslt_call **out);
enum { RT_LIBRARY_ALIGN = 16 };
/* Whether it is what would be settled for these sizes and arrays, at which it is aimed then. */
bool rt_cublaslt_again(rt_cublaslt_call *settled, const ir_library_call *call, const int64_t *sizes,
                       void *const *buf);
/* Other arrays of the same sizes; false where the library does not take them.  Allocates nothing.
 */
bool rt_cublaslt_aim(rt_cublaslt_call *settled, const ir_library_call *call, void *const *buf);
spc_status rt_cublaslt_run(rt_cuda *cuda, const rt_cublaslt_call *call, void *stream);
void rt_cublaslt_free(rt_cublaslt_call *call);

#endif
