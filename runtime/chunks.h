/* chunks.h - runs of many rows, a bounded number of rows at a time.
 *
 * What lies between stages has a row for each row of the result: at 131,072 tokens two matrices of 5,632 columns are 3 GB.  Where rows
 * do not depend on each other (ir_chunk_dim) a run whose workspace would be larger than a limit is several runs, one behind the other on the
 * stream, each of so many rows as the limit takes, in one workspace; each has guards of its own. */
#ifndef SPC_RUNTIME_CHUNKS_H
#define SPC_RUNTIME_CHUNKS_H

#include "runtime/enqueue.h"

/* What runs take where nobody says: half a gigabyte, but never fewer rows than keep a GPU as busy as it was. */
enum { RT_CHUNK_ROWS = 16384 };
#define RT_CHUNK_BYTES ((size_t)512 << 20)

typedef struct rt_chunks rt_chunks;
/* limit: bytes of workspace; 0: RT_CHUNK_BYTES, but RT_CHUNK_ROWS rows at least; else 128 rows at least.  units: multiprocessors of a
 * GPU, 1 of a CPU.  Lives in `arena`, uses `ready`. */
rt_chunks *rt_chunks_new(rt_ready *ready, const ir_kernel *kernel, size_t limit, int units, ir_arena *arena);

/* As rt_ready_workspace and rt_ready_enqueue: bytes of a chunk, for as many rows as there may be. */
spc_status rt_chunks_workspace(rt_chunks *chunks, const int64_t *sizes, const rt_given *given, const rt_kept *kept, ir_sink *sink,
                               size_t *bytes);
spc_status rt_chunks_enqueue(rt_chunks *chunks, const int64_t *sizes, const rt_given *given, const rt_kept *kept, void *workspace,
                             size_t bytes, void *stream, ir_sink *sink, rt_need *need);

#endif
