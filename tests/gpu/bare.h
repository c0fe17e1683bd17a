/* bare.h - the calls that a run makes, made again with nothing of the library between: what is left
 * of a run's host time is the library's own. */
#ifndef SPC_TESTS_GPU_BARE_H
#define SPC_TESTS_GPU_BARE_H

#include "runtime/cublaslt.h"
#include "runtime/cuda.h"

enum { BARE_MOST = 16 };
typedef struct bare_calls bare_calls;

/* From here on launches are written down as they go to the driver; one at a time. */
bare_calls *bare_listen(rt_cuda *cuda);
void bare_stop(bare_calls *calls);
/* Calls of cuBLASLt with an algorithm that is settled, on memory of their own. */
void bare_add_library(bare_calls *calls, const ir_image *image, const int64_t *sizes);
int bare_count(const bare_calls *calls);
/* All of them once; 0: well. */
int bare_send(const bare_calls *calls, void *stream);
void bare_free(bare_calls *calls);

#endif
