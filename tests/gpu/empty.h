/* empty.h - launches of a kernel that does nothing: what a run's host time is compared with. */
#ifndef SPC_TESTS_GPU_EMPTY_H
#define SPC_TESTS_GPU_EMPTY_H

#include "runtime/cuda.h"

typedef struct empty_kernel empty_kernel;

/* Its parameters: none, or as many bytes as a kernel of ours has, with tensor maps or without; and as
 * much shared memory.  NULL: it cannot be made here. */
enum { EMPTY_PLAIN = -1, EMPTY_ARGS = 0, EMPTY_MAPS = 1 };
empty_kernel *empty_new(rt_cuda *cuda, int parameters, int shared_bytes);
/* One driver call with the attributes of our launches; 0: well. */
int empty_launch(const empty_kernel *kernel, void *stream);
void empty_free(empty_kernel *kernel);

#endif
