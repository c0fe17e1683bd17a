/* matrix.c - 8 x 8 matrices between shared memory and registers, and the tensor cores' products.
 *
 * Sums are of f32 in the order of k: the hardware's order and width are its own, and what is compared has room for that.
 * Integers are exact.  A warp of a warpgroup computes its own 16 of the 64 rows, at once; `wgmma.wait_group` has nothing
 * left to wait for. */
#include <math.h>
#include <pthread.h>

#include "emulator.h"

#define HANDLER(NAME) em_outcome em_do_##NAME(em_warp *w, const em_insn *i, uint32_t lanes)
enum { CHUNK = 16, ROWS = 16, MOST_K = 32, MOST_COLUMNS = 256 };

/* ---- 8 x 8 matrices of 16 bits ----------------------------------------------------------------- */
/* Where the 8 rows of each matrix lie: lane 8 m + r says it of row r of matrix m. */
static bool rows_of(em_warp *w, const em_insn *i, int group, unsigned char *row[EM_LANES], bool writes) {
  const em_operand *o = em_operand_of(i, group, 0);
  const uint64_t *base = em_read(w, o);
  for (int l = 0; l < 8 * i->width; l++) {
    row[l] = em_place(w, i, l, EM_SHARED, base[l] + (uint64_t)o->offset, CHUNK, CHUNK);
    if (!row[l]) return false;
    for (int part = 0; part < 4; part++) /* whose elements they are */
      if (!i->mode && !em_races_touch(w, i, l % 8 * 4 + part, row[l] + 4 * part, 4, writes)) return false;
    for (int part = 0; part < 8 && i->mode; part++)
      if (!em_races_touch(w, i, part * 4 + l % 8 / 2, row[l] + 2 * part, 2, writes)) return false;
  }
  return true;
}

/* The two elements of matrix m that lane l holds. */
static uint16_t *element_at(unsigned char *row[EM_LANES], const em_insn *i, int m, int l, int half) {
  int along = 2 * (l % 4) + half, across = l / 4;
  int r = i->mode ? along : across, c = i->mode ? across : along;
  return (uint16_t *)(void *)(row[8 * m + r] + 2 * c);
}

HANDLER(ldmatrix) {
  unsigned char *row[EM_LANES];
  EM_MEET(w, lanes, ~0u);
  if (!rows_of(w, i, 1, row, false)) return EM_FAULT;
  for (int m = 0; m < i->width; m++)
    for (int l = 0; l < EM_LANES; l++)
      em_write(w, em_operand_of(i, 0, m))[l] =
          *element_at(row, i, m, l, 0) | (uint64_t)*element_at(row, i, m, l, 1) << 16;
  return EM_NEXT;
}
HANDLER(stmatrix) {
  unsigned char *row[EM_LANES];
  EM_MEET(w, lanes, ~0u);
  if (!rows_of(w, i, 0, row, true)) return EM_FAULT;
  for (int m = 0; m < i->width; m++)
    for (int l = 0; l < EM_LANES; l++) {
      uint64_t pair = em_read(w, em_operand_of(i, 1, m))[l];
      *element_at(row, i, m, l, 0) = (uint16_t)pair;
      *element_at(row, i, m, l, 1) = (uint16_t)(pair >> 16);
    }
  w->block->machine->events++;
  return EM_NEXT;
}

/* ---- elements of factors ----------------------------------------------------------------------- */
static float of_f16[1 << 16], of_e4m3[256], of_e5m2[256];
static pthread_once_t tables = PTHREAD_ONCE_INIT;

static void fill_tables(void) {
  for (uint32_t v = 0; v < 1 << 16; v++) of_f16[v] = em_small_to_f32(EM_F16, v);
  for (uint32_t v = 0; v < 256; v++) {
    of_e4m3[v] = em_small_to_f32(EM_E4M3, v);
    of_e5m2[v] = em_small_to_f32(EM_E5M2, v);
  }
}

static int factor_bytes(em_type t) {
  switch (t) {
    case EM_TF32: return 4;
    case EM_F16:
    case EM_BF16: return 2;
    case EM_S8:
    case EM_U8:
    case EM_E4M3:
    case EM_E5M2: return 1;
    default: return 0;
  }
}

/* As f32, or the bits of an int32 for integers. */
static float factor(em_type t, uint32_t bits) {
  switch (t) {
    case EM_TF32: return em_f32(bits & 0xffffe000u);
    case EM_BF16: return em_f32(bits << 16);
    case EM_F16: return of_f16[bits & 0xffff];
    case EM_E4M3: return of_e4m3[bits & 0xff];
    case EM_E5M2: return of_e5m2[bits & 0xff];
    case EM_S8: return em_f32((uint32_t)(int32_t)(int8_t)bits);
    default: return em_f32(bits & 0xff);
  }
}

/* 16 bytes to elements `step` floats apart. */
static inline __attribute__((always_inline)) void unpack_as(em_type t, const int bytes, const unsigned char *from, float *to, int step) {
  for (int n = 0; n < CHUNK / bytes; n++) {
    uint32_t bits = 0;
    memcpy(&bits, from + n * bytes, (size_t)bytes);
    to[n * step] = factor(t, bits);
  }
}
static void unpack(em_type t, const unsigned char *from, float *to, int step) {
  switch (t) { /* each with a loop of its own: here most of the time of a product goes */
    case EM_BF16: unpack_as(EM_BF16, 2, from, to, step); break;
    case EM_F16: unpack_as(EM_F16, 2, from, to, step); break;
    default: unpack_as(t, factor_bytes(t), from, to, step);
  }
}

/* ---- one tile: sums += left * right ------------------------------------------------------------ */
typedef struct tile {
  float left[ROWS][MOST_K], right[MOST_K][MOST_COLUMNS], sums[ROWS][MOST_COLUMNS]; /* of integers: their bits */
} tile;

static void multiply(tile *t, int k, int columns) {
  for (int m = 0; m < ROWS; m++)
    for (int d = 0; d < k; d++) {
      float a = t->left[m][d];
      for (int n = 0; n < columns; n++) t->sums[m][n] += a * t->right[d][n];
    }
}

static void multiply_integers(tile *t, int k, int columns) {
  int32_t b[MOST_COLUMNS], c[MOST_COLUMNS], a[MOST_K];
  for (int m = 0; m < ROWS; m++) {
    memcpy(a, t->left[m], sizeof a);
    memcpy(c, t->sums[m], sizeof c);
    for (int d = 0; d < k; d++) {
      memcpy(b, t->right[d], sizeof b);
      for (int n = 0; n < columns; n++) c[n] = (int32_t)((uint32_t)c[n] + (uint32_t)(a[d] * b[n]));
    }
    memcpy(t->sums[m], c, sizeof c);
  }
}

/* Sums 4 j to 4 j + 3 of a lane are of columns 8 j + 2 (lane % 4) and the next, of row lane / 4 and row + 8. */
static float *sum_at(tile *t, int lane, int n) {
  return &t->sums[lane / 4 + (n & 2 ? 8 : 0)][n / 4 * 8 + lane % 4 * 2 + (n & 1)];
}

static void read_sums(em_warp *w, const em_insn *i, int group, tile *t) {
  for (int n = 0; n < i->groups[group].count; n++) {
    const uint64_t *from = em_read(w, em_operand_of(i, group, n));
    for (int l = 0; l < EM_LANES; l++) *sum_at(t, l, n) = em_f32(from[l]);
  }
}
static void write_sums(em_warp *w, const em_insn *i, tile *t) {
  for (int n = 0; n < i->groups[0].count; n++) {
    uint64_t *to = em_write(w, em_operand_of(i, 0, n));
    for (int l = 0; l < EM_LANES; l++) to[l] = em_f32_bits(*sum_at(t, l, n));
  }
}

/* Registers of the left factor: rows lane / 4 and + 8 by turns, then the next 16 bytes of k; a lane has 4 bytes. */
static void read_left(em_warp *w, const em_insn *i, int group, tile *t) {
  int each = 4 / factor_bytes(i->from), bits = 32 / each;
  for (int n = 0; n < i->groups[group].count; n++) {
    const uint64_t *from = em_read(w, em_operand_of(i, group, n));
    for (int l = 0; l < EM_LANES; l++)
      for (int e = 0; e < each; e++)
        t->left[l / 4 + 8 * (n & 1)][each * (l % 4) + 4 * each * (n / 2) + e] =
            factor(i->from, (uint32_t)from[l] >> (bits * e) & (uint32_t)(0xffffffffull >> (32 - bits)));
  }
}

/* ---- mma.sync ---------------------------------------------------------------------------------- */
static void read_right(em_warp *w, const em_insn *i, tile *t) {
  int each = 4 / factor_bytes(i->from), bits = 32 / each;
  for (int n = 0; n < i->groups[2].count; n++) {
    const uint64_t *from = em_read(w, em_operand_of(i, 2, n));
    for (int l = 0; l < EM_LANES; l++)
      for (int e = 0; e < each; e++)
        t->right[each * (l % 4) + 4 * each * n + e][l / 4] =
            factor(i->from, (uint32_t)from[l] >> (bits * e) & (uint32_t)(0xffffffffull >> (32 - bits)));
  }
}

static void multiply_doubles(em_warp *w, const em_insn *i) {
  double left[ROWS][8] = {{0}}, right[8][8] = {{0}};
  for (int l = 0; l < EM_LANES; l++) {
    for (int n = 0; n < i->groups[1].count; n++)
      left[l / 4 + 8 * (n & 1)][l % 4 + 4 * (n / 2)] = em_f64(em_read(w, em_operand_of(i, 1, n))[l]);
    for (int n = 0; n < i->groups[2].count; n++)
      right[l % 4 + 4 * n][l / 4] = em_f64(em_read(w, em_operand_of(i, 2, n))[l]);
  }
  for (int n = 0; n < i->groups[0].count; n++) {
    const uint64_t *from = em_read(w, em_operand_of(i, 3, n));
    uint64_t *to = em_write(w, em_operand_of(i, 0, n));
    for (int l = 0; l < EM_LANES; l++) {
      double sum = em_f64(from[l]);
      for (int d = 0; d < i->size[2]; d++)
        sum = fma(left[l / 4 + (n & 2 ? 8 : 0)][d], right[d][l % 4 * 2 + (n & 1)], sum);
      to[l] = em_f64_bits(sum);
    }
  }
}

HANDLER(mma) {
  EM_MEET(w, lanes, ~0u);
  pthread_once(&tables, fill_tables);
  if (i->type == EM_F64) {
    multiply_doubles(w, i);
    return EM_NEXT;
  }
  if ((i->type != EM_F32 && i->type != EM_S32) || !factor_bytes(i->from) || i->size[0] != ROWS || i->size[1] != 8)
    return em_fail(w, i, 0, "no such product is emulated");
  tile t;
  memset(t.right, 0, sizeof t.right[0] * (size_t)i->size[2]);
  read_sums(w, i, 3, &t);
  read_left(w, i, 1, &t);
  read_right(w, i, &t);
  if (i->type == EM_S32) multiply_integers(&t, i->size[2], 8);
  else multiply(&t, i->size[2], 8);
  write_sums(w, i, &t);
  return EM_NEXT;
}

/* ---- wgmma: factors in shared memory, by their descriptors --------------------------------------- */
typedef struct factor_place {
  uint64_t start, leading, stride; /* bytes */
  int span;                        /* of the swizzle: bytes of a row; 0: none */
} factor_place;

static factor_place place_of(uint64_t descriptor) {
  static const int spans[] = {0, 128, 64, 32};
  return (factor_place){(descriptor & 0x3fff) << 4, (descriptor >> 16 & 0x3fff) << 4, (descriptor >> 32 & 0x3fff) << 4,
                        spans[descriptor >> 62]};
}

static uint64_t swizzled(const factor_place *p, uint64_t address) {
  uint64_t bits = p->span == 128 ? 7 : p->span == 64 ? 3 : p->span == 32 ? 1 : 0;
  return address ^ (address >> 7 & bits) << 4;
}

/* 16 bytes along k of a row (an m or n). */
static uint64_t along_k(const factor_place *p, int row, int chunk) {
  uint64_t at = p->start + (uint64_t)(row / 8) * p->stride;
  if (!p->span) return at + (uint64_t)chunk * p->leading + (uint64_t)(row % 8 * CHUNK);
  return swizzled(p, at + (uint64_t)(row % 8 * p->span + chunk * CHUNK));
}
/* 16 bytes along the rows from `row` on, of one k. */
static uint64_t along_rows(const factor_place *p, int row, int k) {
  int each = p->span / 2;
  return swizzled(p, p->start + (uint64_t)(row / each) * p->leading + (uint64_t)(k / 8) * p->stride +
                         (uint64_t)(k % 8 * p->span + row % each * 2));
}

/* Rows first to first + count of a factor to to[row * row_step + k * k_step]. */
static bool read_shared(em_warp *w, const em_insn *i, uint64_t descriptor, bool turned, int first, int count, float *to,
                        int row_step, int k_step) {
  factor_place p = place_of(descriptor);
  int bytes = factor_bytes(i->from), each = CHUNK / bytes, chunks = i->size[2] * bytes / CHUNK;
  if (turned && (!p.span || bytes != 2)) return em_fail(w, i, 0, "no such descriptor is emulated"), false;
  for (int r = 0; r < count; r += turned ? each : 1)
    for (int c = 0; c < (turned ? i->size[2] : chunks); c++) {
      uint64_t at = turned ? along_rows(&p, first + r, c) : along_k(&p, first + r, c);
      const unsigned char *from = em_place(w, i, 0, EM_SHARED, at, CHUNK, CHUNK);
      if (!from) return false;
      if (turned) unpack(i->from, from, to + r * row_step + c * k_step, row_step);
      else unpack(i->from, from, to + r * row_step + c * each * k_step, k_step);
    }
  return true;
}

static int fixed_of(const em_insn *i, int group, int otherwise) {
  return group < i->group_count ? (int)em_operand_of(i, group, 0)->fixed[0] : otherwise;
}

/* {sums}, left, right, whether they go on, signs of the factors, whether the factors are turned */
HANDLER(wgmma) {
  tile t;
  int columns = i->size[1], k = i->size[2], row = w->number % 4 * ROWS;
  EM_MEET(w, lanes, ~0u);
  pthread_once(&tables, fill_tables);
  bool registers = i->groups[1].count > 1, integers = i->type == EM_S32;
  int turn_right = registers ? 6 : 7;
  if ((i->type != EM_F32 && !integers) || !factor_bytes(i->from) || k * factor_bytes(i->from) != 2 * CHUNK)
    return em_fail(w, i, 0, "no such product is emulated");
  uint64_t right = em_source(w, i, 2)[0];
  if (registers) read_left(w, i, 1, &t);
  else if (!read_shared(w, i, em_source(w, i, 1)[0], fixed_of(i, 6, 0) == 1, row, ROWS, t.left[0], MOST_K, 1)) return EM_FAULT;
  if (!read_shared(w, i, right, fixed_of(i, turn_right, 0) == 1, 0, columns, t.right[0], 1, MOST_COLUMNS)) return EM_FAULT;
  if (fixed_of(i, 4, 1) * fixed_of(i, 5, 1) < 0)
    for (int m = 0; m < ROWS; m++)
      for (int d = 0; d < k; d++) t.left[m][d] = -t.left[m][d];
  if (em_condition(w, em_operand_of(i, 3, 0)) & 1) read_sums(w, i, 0, &t);
  else memset(t.sums, 0, sizeof t.sums);
  if (integers) multiply_integers(&t, k, columns);
  else multiply(&t, k, columns);
  write_sums(w, i, &t);
  w->products++;
  w->block->machine->events++;
  em_races_product(w, true);
  return EM_NEXT;
}
HANDLER(wgmma_commit) {
  (void)i;
  EM_MEET(w, lanes, ~0u);
  w->products_of[w->groups++ % EM_GROUPS] = w->products;
  return EM_NEXT;
}
/* No product of four warps ends before all of them have begun it. */
HANDLER(wgmma_wait) {
  unsigned pending = (unsigned)em_source(w, i, 0)[em_first(lanes)];
  EM_MEET(w, lanes, ~0u);
  if (pending >= EM_GROUPS) return em_fail(w, i, em_first(lanes), "%u groups under way are more than are kept", pending);
  if (w->groups <= pending) return EM_NEXT;
  unsigned needed = w->products_of[(w->groups - pending - 1) % EM_GROUPS];
  for (int n = w->number / EM_GROUP_WARPS * EM_GROUP_WARPS, end = n + EM_GROUP_WARPS; n < end && n < w->block->warp_count; n++)
    if (w->block->warps[n].alive && w->block->warps[n].products < needed) return EM_WAIT;
  em_races_product(w, false);
  return EM_NEXT;
}
