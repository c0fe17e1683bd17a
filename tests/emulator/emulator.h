/* emulator.h - the machine: memory, grids, blocks, warps, and what a handler of an instruction uses of them. */
#ifndef SPC_EMULATOR_H
#define SPC_EMULATOR_H

#include <string.h>

#include "ptx.h"

/* What stands for the place of `extern .shared` until it is known. */
#define EM_DYNAMIC_SHARED 0x5bc05bc05bc05bc0ull

enum { EM_TOUCHED = 4, EM_BARRIERS = 16, EM_MOST_CLUSTER = 16, EM_SHARED_RANK_SHIFT = 24, EM_GROUPS = 16, EM_GROUP_WARPS = 4 };

/* Lanes of a warp that are at the same instruction. */
typedef enum em_state {
  EM_READY,
  EM_MEETING, /* waits for the other lanes of its warp at this instruction */
  EM_ARRIVED  /* has been counted by a barrier, waits for its end */
} em_state;

typedef struct em_part {
  int at;
  uint32_t lanes;
  em_state state;
  bool tried;     /* in this slice; it waits, or lets others come first */
  unsigned phase; /* of the barrier, when it was counted */
} em_part;

typedef struct em_barrier {
  int arrived;
  unsigned phase;
  uint32_t gathered; /* of bar.red, so far */
  uint32_t result[2]; /* of the phase before, by its parity */
} em_barrier;

typedef struct em_block em_block;
typedef struct em_races em_races;

struct em_warp {
  em_block *block;
  int number;
  uint32_t alive;
  uint64_t *registers; /* [slot][lane] */
  uint32_t *predicates;
  unsigned char *local; /* [lane][bytes] */
  em_part parts[EM_LANES];
  int part_count, current;
  int jump; /* of EM_JUMPED: the taken lanes' target */
  uint32_t jumping;
  unsigned cluster_phase; /* behind the one that it arrived at last */
  unsigned products, groups, products_of[EM_GROUPS]; /* of wgmma, begun; committed, and how many products there were then */
  uint64_t tid[3][EM_LANES], scratch[4][EM_LANES];
  int scratch_used;
  uint64_t noted; /* its state in an earlier pass; round: it was in that once more, and nothing was stored between */
  bool round;
};

typedef struct em_cluster {
  em_block *blocks[EM_MOST_CLUSTER];
  int count;
  unsigned phase;
} em_cluster;

typedef struct em_machine em_machine;

struct em_block {
  em_machine *machine;
  em_cluster *cluster;
  int id[3], rank;
  unsigned char *shared;
  em_warp *warps;
  int warp_count, alive; /* threads */
  em_barrier barriers[EM_BARRIERS];
  em_races *races; /* NULL: nobody asks */
};

struct em_machine {
  const em_kernel *kernel;
  int grid[3], block[3];
  int cluster[3];
  size_t shared_bytes; /* `extern`; whole: with what is declared */
  size_t shared_whole;
  unsigned char *parameters;
  struct {
    uint64_t begin, end;
  } touched[EM_TOUCHED]; /* allocations lately (memory.c) */
  unsigned touched_generation, touched_next;
  uint64_t steps, events; /* instructions; those of them that another warp could wait for */
  bool failed;
  char error[600];
};

/* Runs a grid to its end.  False with the reason in `error`. */
bool em_run(em_machine *machine);

/* Keeps the first failure; answers EM_FAULT. */
em_outcome em_fail(em_warp *warp, const em_insn *insn, int lane, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- memory: what the device may touch (memory.c) -------------------------------------------- */
void *em_memory_allocate(size_t bytes, int poison); /* the byte that it is full of; NULL: there is none */
bool em_memory_release(void *memory);               /* false: it is none of ours */
bool em_memory_holds(uint64_t address, size_t bytes);

/* The host's address of `bytes` bytes at a multiple of `aligned`, a power of two.  NULL: the machine has failed. */
void *em_place(em_warp *warp, const em_insn *insn, int lane, em_space space, uint64_t address,
               size_t bytes, size_t aligned);

/* ---- races for shared memory (races.c): all of them do nothing where a block has no `races` ---- */
bool em_races_wanted(const em_machine *m);
em_races *em_races_new(const em_block *b); /* NULL: no memory */
void em_races_start(em_races *r);          /* nothing has happened yet */
void em_races_free(em_races *r);
void em_races_lanes_meet(em_warp *w, uint32_t lanes);
void em_races_arrive(em_warp *w, uint32_t lanes, int barrier); /* of the block */
void em_races_end(em_block *b, int barrier, unsigned phase);
void em_races_leave(em_warp *w, uint32_t lanes, int barrier, unsigned phase);
void em_races_product(em_warp *w, bool begins); /* a warp has begun a product of its four warps, or seen one end */
void em_races_count(em_warp *w, int lane, const void *mbarrier, bool engine); /* arrives, or the bytes of its copy do */
void em_races_phase(em_warp *w, const void *mbarrier);                        /* one has ended */
void em_races_seen(em_warp *w, int lane, const void *mbarrier);               /* by who waited for it */
bool em_races_touch(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes, bool writes); /* false: a race, and the machine has failed */
void em_races_copy(em_warp *w, int lane);
bool em_races_copies(em_warp *w, const em_insn *i, int lane, const void *at, size_t bytes); /* what it writes */

/* ---- operands -------------------------------------------------------------------------------- */
const uint64_t *em_special_value(em_warp *warp, int what);

static inline const em_operand *em_operand_of(const em_insn *i, int group, int n) {
  return &i->operands[i->groups[group].first + n];
}

static inline const uint64_t *em_read(em_warp *w, const em_operand *o) {
  switch (o->kind) {
    case EM_REGISTER: return w->registers + (size_t)o->slot * EM_LANES;
    case EM_FIXED: return o->fixed;
    default: return em_special_value(w, o->slot);
  }
}
static inline const uint64_t *em_source(em_warp *w, const em_insn *i, int group) {
  return em_read(w, em_operand_of(i, group, 0));
}
static inline uint64_t *em_write(em_warp *w, const em_operand *o) {
  return o->kind == EM_REGISTER ? w->registers + (size_t)o->slot * EM_LANES : w->scratch[3];
}
static inline uint64_t *em_target(em_warp *w, const em_insn *i, int group) {
  return em_write(w, em_operand_of(i, group, 0));
}
static inline uint32_t em_condition(em_warp *w, const em_operand *o) {
  uint32_t bits = o->kind == EM_PREDICATE ? w->predicates[o->slot] : o->kind == EM_FIXED && o->fixed[0] ? ~0u : 0;
  return o->negated ? ~bits : bits;
}
static inline void em_set_condition(em_warp *w, const em_operand *o, uint32_t lanes, uint32_t bits) {
  if (o->kind != EM_PREDICATE) return;
  uint32_t *p = &w->predicates[o->slot];
  *p = (*p & ~lanes) | (bits & lanes);
}

#define EM_EACH(lane, lanes)                                                                       \
  for (int lane = 0; lane < EM_LANES; lane++)                                                      \
    if (!((lanes) >> lane & 1)) {                                                                  \
    } else

static inline int em_first(uint32_t lanes) { return __builtin_ctz(lanes); }

static inline float em_f32(uint64_t bits) {
  uint32_t low = (uint32_t)bits;
  float f;
  memcpy(&f, &low, sizeof f);
  return f;
}
static inline uint64_t em_f32_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}
static inline double em_f64(uint64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}
static inline uint64_t em_f64_bits(double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return bits;
}

/* ---- small floating-point numbers (small.c) -------------------------------------------------- */
float em_small_to_f32(em_type type, uint32_t bits);
/* To nearest, ties to even; what is too large is infinite, or the largest where `saturates`. */
uint32_t em_f64_to_small(em_type type, double value, bool saturates);
static inline int em_type_bytes(em_type type) {
  static const unsigned char bytes[] = {
      [EM_NO_TYPE] = 4, [EM_PRED] = 4, [EM_U8] = 1,  [EM_U16] = 2,  [EM_U32] = 4,  [EM_U64] = 8,   [EM_S8] = 1,
      [EM_S16] = 2,     [EM_S32] = 4,  [EM_S64] = 8, [EM_F16] = 2,  [EM_BF16] = 2, [EM_F32] = 4,   [EM_F64] = 8,
      [EM_TF32] = 4,    [EM_F16X2] = 4, [EM_BF16X2] = 4, [EM_E4M3] = 1, [EM_E5M2] = 1, [EM_E4M3X2] = 2, [EM_E5M2X2] = 2};
  return bytes[type];
}

/* The warp's part that is running. */
static inline em_part *em_running(em_warp *w) { return &w->parts[w->current]; }

/* All lanes that must execute it together are here; EM_WAIT until they are. */
#define EM_MEET(WARP, LANES, NEEDED)                                                               \
  if (((NEEDED) & (WARP)->alive & ~(LANES)) != 0) {                                                \
    em_running(WARP)->state = EM_MEETING;                                                          \
    return EM_WAIT;                                                                                \
  }

/* ---- handlers -------------------------------------------------------------------------------- */
#define EM_HANDLERS(H)                                                                             \
  /* scalar.c */                                                                                   \
  H(add) H(sub) H(mul) H(mad) H(div) H(rem) H(min) H(max) H(neg) H(abs) H(and) H(or) H(xor) H(not) \
  H(shl) H(shr) H(shf) H(popc) H(clz) H(bfind) H(brev) H(bfe) H(bfi) H(prmt) H(lop3) H(dp4a)       \
  H(copysign) H(sqrt) H(rsqrt) H(rcp) H(ex2) H(lg2) H(sin) H(cos) H(tanh)                          \
  H(mov) H(selp) H(setp) H(cvt) H(cvta)                                                            \
  /* flow.c */                                                                                     \
  H(bra) H(exit) H(trap) H(nothing) H(bar) H(barred) H(warp_bar) H(shfl) H(vote) H(redux) H(match) \
  H(elect) H(activemask) H(cluster_arrive) H(cluster_wait) H(mapa) H(meeting)                      \
  /* memory.c, copies.c */                                                                         \
  H(ld) H(st) H(atom) H(cp_async) H(mbarrier_init) H(mbarrier_arrive) H(mbarrier_expect)           \
  H(mbarrier_wait) H(mbarrier_inval) H(bulk_load) H(bulk_store) H(tensor_load) H(tensor_store)     \
  /* matrix.c */                                                                                   \
  H(ldmatrix) H(stmatrix) H(mma) H(wgmma) H(wgmma_commit) H(wgmma_wait)
#define EM_DECLARE(NAME) em_outcome em_do_##NAME(em_warp *, const em_insn *, uint32_t);
EM_HANDLERS(EM_DECLARE)
#undef EM_DECLARE

/* ---- tensor maps: what lies in the 128 bytes ------------------------------------------------- */
typedef struct em_tensor_map {
  uint64_t base, stride[4]; /* bytes; of dimension i + 1 */
  uint32_t extent[5];
  uint16_t box[5];
  uint8_t rank, element, swizzle, nan_fill; /* swizzle: bytes of its span, 0 for none */
  uint32_t magic;
} em_tensor_map;
enum { EM_MAP_MAGIC = 0x7e4d6170 };

/* Multiprocessors: SPC_EMULATED_UNITS, or 132.  With few of them a block takes many tiles. */
int em_units(void);

#endif
