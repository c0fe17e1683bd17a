/* image.h - what a code generator hands to the runtime: machine code per function, and how to
 * launch it.
 *
 * Plain data, so that codegen and runtime need not know each other.  Sizes in launch expressions
 * are i64 expressions over the program's dims. */
#ifndef SPC_IR_IMAGE_H
#define SPC_IR_IMAGE_H

#include "ir/loop.h"

typedef void ir_cpu_function(void *const *buf, const int64_t *size, int64_t begin, int64_t end);

/* A tensor map that a launch carries behind its arguments (runtime/abi.h): how boxes of a buffer's
 * tensor lie in memory.  Dimension 0 is contiguous; strides are elements, stride[0] is not used. */
enum { IR_MAP_RANK = 5, IR_MAP_BATCHES = IR_MAP_RANK - 2 }; /* a matrix, and indices of batch around it */
typedef struct ir_box_map {
  int buf; /* number in the launch's buffers; -1: this map is not used */
  ir_dtype dtype;
  int rank, box[IR_MAP_RANK];
  ir_expr *extent[IR_MAP_RANK], *stride[IR_MAP_RANK];
  bool rounds; /* f32 to the nearest tf32 number on the way in */
  int swizzle; /* bytes of a box's row as the copy engine swizzles it: 128, 64, 32, 0 */
} ir_box_map;

/* A product that a library computes in the place of a kernel (runtime/cublaslt.h): T, row-major,
 * = e(alpha A B [+ bias] [+ residual]).  Sizes and strides in elements; buf: number in the code's
 * buffers, -1: none. */
typedef struct ir_library_matrix {
  int buf;
  ir_dtype dtype;
  char layout; /* of A: 'r' [m][k], 'c' [k][m]; of B: 'r' [k][n], 'c' [n][k]; of T: 'r' */
  ir_expr *pitch, *batch_stride;
} ir_library_matrix;
typedef struct ir_library_call {
  ir_expr *m, *n, *k, *batch; /* batch NULL: one */
  ir_library_matrix a, b, t;
  int bias, residual, workspace; /* bias: along n */
  size_t workspace_bytes;
  double alpha;
  bool relu;
} ir_library_call;

typedef struct ir_code_image {
  const ir_stage *stage;
  const ir_func *func; /* generated function; for a skeleton its fragment or NULL */
  const char *label;   /* the row's name, or "loop": what statistics print */
  const char *entry;   /* symbol */
  /* CPU */
  ir_cpu_function *cpu;
  ir_expr *parallel_lo, *parallel_hi; /* range of the parallel loop; NULL: sequential */
  /* CUDA: buffers in launch order (as in func->bufs; a skeleton's own first, see abi.h) */
  const void *cubin;
  size_t cubin_bytes;
  const char *source; /* CUDA C, for --emit and the cache */
  const char *path;   /* of the file that replaced the emitted text; NULL: none did */
  IR_VEC(ir_buf *) bufs;
  ir_expr *grid[3]; /* blocks; grid[0] NULL: persistent, blocks_per_sm x SMs */
  bool capped;      /* grid[0] counts tiles: at most blocks_per_sm x SMs blocks share them */
  bool evenly;      /* of a third to three quarters as many tiles, too, there are blocks_per_sm x SMs blocks: it has some leave, all over the machine */
  IR_VEC(ir_box_map) maps;
  const ir_library_call *library; /* NULL: a kernel; else there is no cubin and no grid */
  bool stands_in; /* launched when the code before it cannot be: its maps do not fit the pointers */
  const ir_list *front, *behind; /* the list that it stands in front of; whose front it stands behind; NULL: none */
  const ir_list *weighs; /* the list whose break-even it is given; NULL: it decides nothing */
  const ir_list *weighs_too; /* of two that it weighs the second; NULL: there is none */
  bool clears; /* it does what the front that it would stand behind does: launched where that is not */
  int threads, blocks_per_sm, shared_bytes;
  int cluster; /* of a capped code: its blocks come by so many; 0: by one */
  int registers, spill_bytes; /* from the compiler's log; -1 unknown */
} ir_code_image;

/* A kernel that was compiled for a stage and left for another one. */
typedef struct ir_rejected {
  const ir_stage *stage;
  const char *label, *why;
  const char *taken; /* the row that was tried instead */
} ir_rejected;

/* Machine code of a stage (CPU) as it was linked. */
typedef struct ir_object {
  const ir_stage *stage;
  const void *data;
  size_t bytes;
} ir_object;

/* Code that was made before and comes back: an object by its stage's name, a cubin by its code's.
 */
typedef struct ir_piece {
  const char *name;
  const void *data;
  size_t bytes;
} ir_piece;

typedef struct ir_image {
  ir_arena *arena;
  const ir_kernel *kernel;
  bool cuda;
  IR_VEC(ir_code_image) codes; /* in order of execution */
  IR_VEC(ir_rejected) rejected;
  IR_VEC(ir_object) objects; /* CPU: where they were asked for */
  int compiled, cached;      /* pieces of code that were made now, and that were kept from before */
  void *owner;               /* of the code's memory (a JIT); freed by release(owner) */
  void (*release)(void *owner);
} ir_image;

#endif
