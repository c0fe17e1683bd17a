/* cpu.h - shared by codegen/cpu_*.c only: the emitter of one LLVM module, and how files divide the
 * work.
 *
 *   cpu_target.c  CPU names, features, vector width        cpu_expr.c   expressions
 *   cpu_types.c   dtypes as LLVM types, memory accesses    cpu_emit.c   statements
 *   cpu_cast.c    conversions between dtypes               cpu_module.c functions, passes
 *   cpu_ops.c     one lowering an op, from ops.def         cpu_link.c   objects to addresses
 *   cpu_math.c    exp, log, tanh, gelu without calls       cpu_compile.c  the entry points, threads
 *   cpu_image.c   linked code to an image                  cpu_level.c   what this machine runs
 *   cpu_cache.c   the key of a stage's code                build_id.c   this build of the library
 *
 * Values: f64 and f32 are floating point; every smaller float travels as its bits (i16, i8) and is
 * widened to f32 where arithmetic happens; i4 and u4 are i8 kept in range; b1 is i1.  A vector of
 * the loop dialect is an LLVM vector of those.  In memory b1 is a byte that is 0 or 1. */
#ifndef SPC_CODEGEN_CPU_H
#define SPC_CODEGEN_CPU_H

#include "codegen/codegen.h"

/* What a --mcpu names, or what this machine is. */
typedef struct cg_cpu_machine {
  const char *cpu, *features; /* LLVM's strings */
  int vector_bits;
  bool half;  /* conversions of f16 in hardware */
  bool fused; /* multiply-add in one rounding */
} cg_cpu_machine;

spc_status cg_cpu_machine_find(ir_arena *arena, const char *mcpu, ir_sink *sink,
                               cg_cpu_machine *out);

/* ---- build_id.c ---- */
bool cg_build_id(char *text, size_t bytes); /* hexadecimal; false when the linker left none */

/* ---- cpu_link.c ---- */
typedef struct cg_cpu_code cg_cpu_code;
/* The object is not kept. */
spc_status cg_cpu_link(const void *object, size_t bytes, ir_sink *sink, cg_cpu_code **out);
ir_cpu_function *cg_cpu_code_find(const cg_cpu_code *code,
                                  const char *entry); /* NULL when it is not there */
void cg_cpu_code_free(cg_cpu_code *code);             /* NULL is allowed */
bool cg_cpu_link_takes(const char *entry); /* false: emitted code calls a function of that name */

/* ---- cpu_image.c ---- */
const char *cg_cpu_entry(ir_arena *arena, const ir_func *func); /* C symbol of func */
/* The top-level parallel loop of a function, or NULL: also when its range does not follow from
 * sizes alone, for then the plan cannot cut it into parts.  lo and hi, over dims only, may be NULL.
 */
const ir_code *cg_cpu_parallel(ir_arena *arena, const ir_func *func, ir_expr **lo, ir_expr **hi);

typedef struct cg_cpu_piece {
  const ir_stage *stage;
  cg_cpu_code *code; /* NULL: it did not compile */
  bool taken;        /* it is an image's */
} cg_cpu_piece;
/* Takes the code; sink NULL: nothing is said.  *out is set before anything that may end in the
 * arena's handler: its owner releases it then. */
spc_status cg_cpu_image(ir_arena *arena, const ir_kernel *kernel, cg_cpu_piece *pieces, int count,
                        ir_sink *sink, ir_image **out);
void cg_cpu_pieces_free(void *pieces); /* up to one without a stage: code that no image took */

#ifdef SPC_HAVE_LLVM
#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <llvm/Config/llvm-config.h>

/* A name of the loop dialect and its LLVM value: the value itself, or a stack slot of `type`. */
typedef struct cg_cpu_bound {
  const void *key;
  LLVMValueRef value;
  LLVMTypeRef type;
  bool slot;
} cg_cpu_bound;

typedef struct cg_cpu_map {
  cg_cpu_bound *at;
  int count, capacity; /* capacity is a power of two */
} cg_cpu_map;

typedef struct cg_cpu {
  ir_arena *arena;
  ir_sink *sink;
  cg_cpu_machine machine;
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMTargetMachineRef target;
  LLVMBuilderRef builder;
  LLVMTypeRef pointer;
  /* the function in work */
  const ir_func *func;
  LLVMValueRef function, sizes, begin, end;
  LLVMBasicBlockRef entry; /* stack slots live here */
  cg_cpu_map names;        /* variables and buffers */
  cg_cpu_map assigned;     /* variables that `set` changes: they get a slot */
} cg_cpu;

/* ---- cpu_types.c ---- */
LLVMTypeRef cg_cpu_scalar_type(cg_cpu *c, ir_dtype t); /* of a value */
LLVMTypeRef cg_cpu_type(cg_cpu *c, ir_dtype t, int lanes);
LLVMTypeRef cg_cpu_int_type(cg_cpu *c, unsigned bits, int lanes);
LLVMTypeRef cg_cpu_memory_type(cg_cpu *c, ir_dtype t, int lanes); /* of an element in memory */
int cg_cpu_lanes(LLVMValueRef v);
LLVMValueRef cg_cpu_splat(cg_cpu *c, LLVMValueRef scalar, int lanes);
LLVMValueRef cg_cpu_lane(cg_cpu *c, LLVMValueRef v, int lane);
/* Lanes of a local buffer of `count` elements at any places in it, by a permutation of registers. */
bool cg_cpu_can_pick(const cg_cpu *c, ir_dtype t, int count, int lanes);
LLVMValueRef cg_cpu_pick(cg_cpu *c, LLVMValueRef buf, int count, LLVMValueRef places);
/* The lanes that the mask keeps, one after the other. */
void cg_cpu_store_compressed(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset,
                             LLVMValueRef value, LLVMValueRef mask);
LLVMValueRef cg_cpu_int(cg_cpu *c, unsigned bits, int lanes, uint64_t value);
LLVMValueRef cg_cpu_i64(cg_cpu *c, int64_t value);
LLVMValueRef cg_cpu_const_f(cg_cpu *c, ir_dtype t, int lanes, double value);
LLVMValueRef cg_cpu_const_i(cg_cpu *c, ir_dtype t, int lanes, int64_t value);
LLVMValueRef cg_cpu_like(cg_cpu *c, LLVMValueRef model, double value); /* f32 or f64, same lanes */
LLVMValueRef cg_cpu_intrinsic(cg_cpu *c, const char *name, LLVMTypeRef *overloads,
                              int overload_count, LLVMValueRef *args, int count);
LLVMValueRef cg_cpu_unary(cg_cpu *c, const char *name, LLVMValueRef x); /* overloaded on x */
LLVMValueRef cg_cpu_fma(cg_cpu *c, LLVMValueRef a, LLVMValueRef b, LLVMValueRef addend);
LLVMValueRef cg_cpu_select(cg_cpu *c, LLVMValueRef cond, LLVMValueRef yes, LLVMValueRef no);
/* Memory: scalars and consecutive lanes; a vector of offsets gathers or scatters.  mask may be
 * NULL. */
LLVMValueRef cg_cpu_load(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset, int lanes,
                         LLVMValueRef mask);
void cg_cpu_store(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset, LLVMValueRef value,
                  LLVMValueRef mask);
LLVMValueRef cg_cpu_from_memory(cg_cpu *c, ir_dtype t, LLVMValueRef raw);
LLVMValueRef cg_cpu_to_memory(cg_cpu *c, ir_dtype t, LLVMValueRef value);
LLVMValueRef cg_cpu_element(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset);

/* ---- cpu_cast.c ---- */
LLVMValueRef cg_cpu_cast(cg_cpu *c, ir_dtype from, ir_dtype to, LLVMValueRef v);
LLVMValueRef cg_cpu_wrap(cg_cpu *c, ir_dtype t, LLVMValueRef v); /* i4, u4 back into range */

/* ---- cpu_ops.c, cpu_math.c ---- */
LLVMValueRef cg_cpu_op(cg_cpu *c, ir_op op, ir_dtype t, LLVMValueRef *x); /* t: of the operands */
LLVMValueRef cg_cpu_exp(cg_cpu *c, LLVMValueRef x);
LLVMValueRef cg_cpu_log(cg_cpu *c, LLVMValueRef x);
LLVMValueRef cg_cpu_tanh(cg_cpu *c, LLVMValueRef x);
LLVMValueRef cg_cpu_gelu(cg_cpu *c, LLVMValueRef x);
LLVMValueRef cg_cpu_pow(cg_cpu *c, LLVMValueRef x, LLVMValueRef y);

/* ---- cpu_expr.c, cpu_emit.c ---- */
LLVMValueRef cg_cpu_expr(cg_cpu *c, const ir_expr *e);
void cg_cpu_block(cg_cpu *c, const ir_block *block);
/* The range of a top-level parallel loop comes from the arguments begin and end. */
void cg_cpu_body(cg_cpu *c, const ir_func *func);
LLVMBasicBlockRef cg_cpu_new_block(cg_cpu *c, const char *name);
LLVMValueRef cg_cpu_slot(cg_cpu *c, LLVMTypeRef type, const char *name, unsigned align);
cg_cpu_bound *cg_cpu_find(const cg_cpu_map *map, const void *key);
void cg_cpu_bind(cg_cpu *c, cg_cpu_map *map, cg_cpu_bound bound);

/* ---- cpu_module.c ---- */
/* A module with every function of the kernel (of `stage` when given), verified and optimised.
 * *target is made when it is NULL, and serves any number of modules for the machine, one at a time:
 * reading the features of a CPU takes LLVM longer than compiling a small function. */
spc_status cg_cpu_module_new(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                             const cg_cpu_machine *machine, LLVMTargetMachineRef *target,
                             ir_sink *sink, cg_cpu *out);
void cg_cpu_module_free(cg_cpu *c); /* but for the target */
void cg_cpu_start(void);            /* registers LLVM's back end for this machine; any thread */
/* The object or assembler text; the caller disposes it. */
spc_status cg_cpu_emit(cg_cpu *c, LLVMCodeGenFileType kind, LLVMMemoryBufferRef *out);
/* ---- cpu_cache.c ---- */
/* false: this build cannot tell itself from others, so nothing is kept. */
bool cg_cpu_key(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                const cg_cpu_machine *machine, ir_cache_key *out);
#endif

#endif
