/* ptx.h - PTX as the emulator keeps it: a module of kernels, a kernel as a list of instructions whose
 * operands are places in a warp's registers. */
#ifndef SPC_EMULATOR_PTX_H
#define SPC_EMULATOR_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EM_LANES = 32 };

/* Scalar types.  What PTX calls .b8 to .b64 are unsigned numbers here. */
typedef enum em_type {
  EM_NO_TYPE,
  EM_PRED,
  EM_U8,
  EM_U16,
  EM_U32,
  EM_U64,
  EM_S8,
  EM_S16,
  EM_S32,
  EM_S64,
  EM_F16,
  EM_BF16,
  EM_F32,
  EM_F64,
  EM_TF32,
  EM_F16X2,
  EM_BF16X2,
  EM_E4M3,
  EM_E5M2,
  EM_E4M3X2,
  EM_E5M2X2
} em_type;

typedef enum em_space {
  EM_GENERIC, /* global too: an address of the host */
  EM_SHARED,  /* of the own block, or of another of the cluster by its rank + 1 in the upper byte */
  EM_LOCAL,
  EM_PARAM
} em_space;

/* Generic addresses of the other spaces: which one stands in the upper bits. */
#define EM_SPACE_BIT 60
#define EM_GENERIC_BASE(SPACE) ((uint64_t)(SPACE) << EM_SPACE_BIT)

typedef enum em_operand_kind {
  EM_NOTHING, /* `_` */
  EM_REGISTER,
  EM_PREDICATE,
  EM_FIXED,   /* a number, the same in all lanes */
  EM_SPECIAL, /* %tid.x and its like */
  EM_LABEL
} em_operand_kind;

typedef enum em_special {
  EM_TID_X,
  EM_TID_Y,
  EM_TID_Z,
  EM_NTID_X,
  EM_NTID_Y,
  EM_NTID_Z,
  EM_CTAID_X,
  EM_CTAID_Y,
  EM_CTAID_Z,
  EM_NCTAID_X,
  EM_NCTAID_Y,
  EM_NCTAID_Z,
  EM_LANEID,
  EM_WARPID,
  EM_LANEMASK_LT,
  EM_LANEMASK_LE,
  EM_LANEMASK_GT,
  EM_LANEMASK_GE,
  EM_LANEMASK_EQ,
  EM_CLUSTER_CTARANK,
  EM_CLUSTER_NCTARANK,
  EM_CLOCK,
  EM_SPECIALS
} em_special;

typedef struct em_operand {
  em_operand_kind kind;
  bool negated;          /* !p, or -x of a number already folded */
  int slot;              /* register, predicate, special, or the instruction a label names */
  int64_t offset;        /* [slot + offset] */
  const uint64_t *fixed; /* EM_LANES equal values */
} em_operand;

/* One operand as it is written: {a, b, c} and [map, {x, y}] are several in a row. */
typedef struct em_group {
  int first, count;
  bool memory;
} em_group;

typedef struct em_warp em_warp;
typedef struct em_insn em_insn;

/* What an instruction leaves its lanes to do. */
typedef enum em_outcome {
  EM_NEXT,
  EM_JUMPED, /* the handler has set where to go on */
  EM_WAIT,   /* the same again, later */
  EM_YIELD,  /* done, but others come first: it has looked at memory that others write */
  EM_FAULT   /* the machine holds the reason */
} em_outcome;

typedef em_outcome em_handler(em_warp *warp, const em_insn *insn, uint32_t lanes);

struct em_insn {
  em_handler *run;
  const char *opcode; /* whole, as it is written */
  int guard;          /* predicate slot or -1 */
  bool guard_negated;
  bool all;           /* takes no lanes that another instruction is given: branches and exits look at `guard` themselves */
  em_type type, from; /* `from`: the source's of cvt and of mixed instructions */
  em_space space;
  int width;          /* of .v2 and .v4; 1 */
  int mode;           /* the handler's own: comparison, rounding, kind */
  int rounding;       /* as <fenv.h> has it */
  bool saturates, flushes, wide, high, cta_only;
  int size[3];        /* mNnNkN, or what else stands as a number in the opcode */
  em_group *groups;
  int group_count;
  em_operand *operands;
  int line;
};

typedef struct em_kernel {
  char *name;
  em_insn *code;
  int count;
  int registers, predicates;
  size_t parameter_bytes, shared_bytes, local_bytes; /* shared: what is declared, without `extern` */
  struct {
    size_t at, bytes;
  } parameters[16];
  int parameter_count;
  size_t dynamic_at; /* where `extern .shared` begins */
  int cluster[3], most_threads;
} em_kernel;

typedef struct em_module em_module;

/* NULL with the reason in `error` where the text holds something that the emulator does not know. */
em_module *em_module_parse(const char *text, char *error, size_t error_bytes);
void em_module_free(em_module *module);
em_kernel *em_module_kernel(em_module *module, const char *name);

/* decode.c: finds the handler of insn->opcode and reads what the opcode's parts say. */
bool em_decode(em_insn *insn);

/* fuse.c: products that are added at once, as ptxas would. */
void em_fuse(em_kernel *kernel);
#endif
