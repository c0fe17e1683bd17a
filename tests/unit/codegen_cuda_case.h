/* codegen_cuda_case.h - stages for the tests of the composed CUDA kernels, one description each.
 *
 * Used by the compile tests (no GPU) and by tests/gpu/parts.c, which runs the same stages. */
#ifndef SPC_TESTS_CODEGEN_CUDA_CASE_H
#define SPC_TESTS_CODEGEN_CUDA_CASE_H

#include "codegen/codegen.h"
#include "ir/kernels.h"

typedef enum case_epilogue {
  CASE_PLAIN,
  CASE_BIAS_RELU, /* relu(acc + bias[n]) */
  CASE_RESIDUAL,  /* acc + residual[m][n] */
  CASE_FLOATS,    /* the same, of an f32 residual */
  CASE_SCALES,    /* acc * scale[m] + bias[n] */
  CASE_GATE,      /* acc * gate[m][n], which is stored transposed and says where T is asked for */
  CASE_MASK,      /* mask[m][n] ? acc : -3, a byte an element, which lies like T */
  CASE_PLACE,     /* acc * S[m][n], of the operand whose blocks T has */
  CASE_PLACE_FLOATS /* the same, of f32: it is not brought by box */
} case_epilogue;

typedef enum case_way {
  CASE_STRAIGHT,
  CASE_TURNED, /* the stage's tiles say that its n runs along the row's m */
  CASE_PACKED, /* A is in the order of its list: the stage before writes it so */
  CASE_PAIRS,  /* its list is of two strips that are told apart, though the row does not want that */
  CASE_PACKED_PAIRS, /* both */
  CASE_BOTH,   /* a stage behind it is the dense branch, with the same tile: one launch is both */
  CASE_ALONE,  /* the same, and the kernel decides: it walks bits, or has the counts of a list of k's */
  CASE_GROUPS, /* m is ragged, CASE_BATCH groups, each with a B of its own */
  CASE_NAMED,  /* the same, and a vector names the row of A for each m */
  CASE_BY_K    /* of a row that reads A in blocks: their outer level is k's */
} case_way;

/* T = epilogue(A * B) on M x N x K, optionally with a batch, a list of A along k, a list made of T.
 */
typedef struct product_case {
  const char *row;
  ir_dtype in, out;
  char layout_a, layout_b, layout_t;
  bool batched;
  int strip, gran;               /* of the list of A along k, or of T along n; 0: none.  Of a row that reads A in blocks their m and k, of one that writes T so m and n */
  int detect_strip, detect_gran; /* of the list made of T; 0: none */
  case_epilogue epilogue;
  int guard; /* 0: none; 1: the sparse branch; 2: the dense branch */
  case_way way;
  int group; /* of a row that widens: k's that share a factor; -1: there are none */
} product_case;

typedef enum list_way {
  LIST_LYING,
  LIST_REGROUPED, /* strips are made of rows that are alike */
  LIST_ALONE,     /* one kernel alone reads it, and decides; in one launch */
  LIST_ROWS,      /* whole rows along R, which are packed; strip and gran are 1 */
  LIST_KROWS,     /* of each `strip` values of F the rows that hold anything in them, in sections of `gran` rows, packed */
  LIST_PAIRS,     /* two strips share a list that tells them apart */
  LIST_BROUGHT,   /* what is listed of each row is brought side by side */
  LIST_BROUGHT_ALONE, /* that, and one kernel alone reads it, and decides; in one launch */
  LIST_BROUGHT_PAIRS, /* both of two strips that share a list */
  LIST_BROUGHT_PAIRS_ALONE
} list_way;

/* Lists of V[R][F]: strips of R (0: one strip), micro-tiles along F. */
typedef struct list_case {
  ir_dtype dtype;
  char layout; /* 'r' V[R][F] row-major, 'c' transposed */
  int strip, gran;
  bool bits;    /* through bits in memory */
  bool guarded; /* with a verdict: nothing reads the list where it is dense */
  list_way way;
} list_case;

enum { CASE_FILL = -3 }; /* what T is where no list of such a row names it */
enum { CASE_M, CASE_N, CASE_K, CASE_BATCH, CASE_DIMS };

typedef struct cuda_cases {
  ir_arena *arena;
  ir_program *program;
  ir_kernel *kernel;
  ir_sink *sink;
  ir_dim *dim[CASE_DIMS];
} cuda_cases;

void cuda_cases_new(cuda_cases *c);
void cuda_cases_free(cuda_cases *c);
ir_stage *cuda_case_product(cuda_cases *c, const product_case *p);
ir_stage *cuda_case_list(cuda_cases *c, const list_case *l); /* DETECT; R is CASE_M, F is CASE_N */
/* y[i] = op(x[i], z[i], w[i]) for i < M, operands of dtype t (b1 where the op wants it); NULL where
 * t has no such op. */
ir_stage *cuda_case_op(cuda_cases *c, ir_op op, ir_dtype t);

/* Of A or B: `in`, but where the row widens the operand. */
ir_dtype cuda_case_operand(const product_case *p, bool is_a);
const ir_kernel_row *cuda_case_row(const product_case *p); /* NULL: no such row, as of loops */
bool cuda_case_sdd(const product_case *p);     /* T has the stored blocks of S */
bool cuda_case_groups(const product_case *p);  /* its rows come in groups */
bool cuda_case_is_packed(const product_case *p);
bool cuda_case_samples(const product_case *p); /* its list names columns of T */
bool cuda_case_regroups(const product_case *p); /* its list has an order of rows */
bool cuda_case_is_live(const product_case *p); /* its list is of A's rows, and has packed them */
bool cuda_case_is_krows(const product_case *p); /* its list is of the rows that A's blocks of k hold anything in, and has packed these */
bool cuda_case_brings(const product_case *p); /* its list brings what it names of A side by side */
bool cuda_case_bsr(const product_case *p);     /* A is stored in blocks, in whose inside layout_a is meant */
bool cuda_case_picks(const product_case *p);   /* its list names runs of columns, or single ones; T is whole */
bool cuda_case_fits(const product_case *p, const char *target); /* wgmma rows: sm_90a only */
/* Of cases that are much alike SPC_ALIKE=I/N takes every Nth, from the Ith on; without it all are taken. */
bool cuda_case_is_its_turn(int number);

extern const product_case cuda_product_cases[];
extern const int cuda_product_case_count;
extern const list_case cuda_list_cases[];
extern const int cuda_list_case_count;

#endif
