/* abi.h - layouts shared by host and device code; plain C that CUDA reads too (NVRTC gets it from
 * memory).
 *
 * Every kernel, generated or composed, takes one argument: spc_args by value.  buf[] in the order
 * of the launch's buffer list, size[] by dim number.  A skeleton's config names what it needs
 * (`lda(args)`, `m(args)`) as expressions over size[], so that the host fills nothing but pointers
 * and sizes. A stage with a guard reads *verdict first: a non-zero word with bit `verdict_bit`
 * clear means "not you". */
#ifndef SPC_RUNTIME_ABI_H
#define SPC_RUNTIME_ABI_H

enum { SPC_ARGS_BUFS = 32, SPC_ARGS_SIZES = 32 };

typedef struct spc_args {
  void *buf[SPC_ARGS_BUFS];
  long long size[SPC_ARGS_SIZES];
  float threshold; /* break-even of the guard that the launch decides for, a run-time argument */
  unsigned flags;  /* SPC_FLAG_* */
  unsigned
      *status; /* sticky flags (SPC_STICKY_*), then what each list's guard found: see report.c */
  float other_threshold; /* of a front that two lists may be made behind: the second one's */
} spc_args;

/* A tensor map: how the copy engine of Hopper finds the boxes of an operand.  The driver encodes
 * it, the kernel's parameters carry it behind spc_args, nobody else looks inside. */
enum { SPC_MAPS = 5 };
#ifdef __cplusplus
typedef struct alignas(64) spc_tensor_map {
  unsigned long long opaque[16];
} spc_tensor_map;
#else
typedef struct spc_tensor_map {
  _Alignas(64) unsigned long long opaque[16];
} spc_tensor_map;
#endif
typedef struct spc_tensor_maps {
  spc_tensor_map
      map[SPC_MAPS]; /* A, B, T, what is read at T's place, and B in larger boxes, as far as they are used */
} spc_tensor_maps;

/* Behind a front (kernels/front.cuh), that was launched too; and the last launch there. */
enum { SPC_FLAG_REPRODUCIBLE = 1, SPC_FLAG_BEHIND = 2, SPC_FLAG_LAST = 4 };
/* A verdict has 1 + a cover in 65536ths, and beside it, where it is for dense, that the front has computed, or that blocks which make the list have not found
 * room together (kernels/compact_strips.cuh).  Or the other one of two lists counts. */
enum { SPC_VERDICT_COVER = (1 << 17) - 1, SPC_VERDICT_VAIN = 1 << 17, SPC_VERDICT_ELSEWHERE = 1 << 18, SPC_VERDICT_FRONT = 1 << 20 };
enum { SPC_STICKY_RANGE = 1, SPC_STICKY_CAPACITY = 2 };

#ifdef __cplusplus
static_assert(sizeof(spc_args) == 8 * SPC_ARGS_BUFS + 8 * SPC_ARGS_SIZES + 24,
              "layout of spc_args");
#else
_Static_assert(sizeof(spc_args) == 8 * SPC_ARGS_BUFS + 8 * SPC_ARGS_SIZES + 24,
               "layout of spc_args");
#endif

#endif
