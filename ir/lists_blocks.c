/* lists_blocks.c - blocks become lists of their elements, and lists blocks.
 *
 * Blocks of a block row are in order, and so are the elements of each row in them: a row is read
 * from left to right, block by block.  The other way the entries of a block row say which blocks
 * there are; then each goes to its place in its block. */
#include "ir/lists_parts.h"

static int64_t up(int64_t n, int64_t d) { return n / d + (n % d != 0); }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- into lists ------------------------------------------------------------------------------ */
typedef struct unfolding {
  const ir_lists *l;
  int64_t high, wide; /* of a block */
  const int32_t *pos, *crd;
  const void *vals;
  const int32_t *start; /* where the entries of a block row begin */
} unfolding;

/* Elements of one row of block row b: all of its blocks', less what hangs over the edge. */
static int64_t row_length(const unfolding *k, int64_t b) {
  int64_t first = k->pos[b], last = k->pos[b + 1], wide = k->wide;
  if (first == last) return 0;
  int64_t over = (k->crd[last - 1] + 1) * wide - k->l->columns;
  return (last - first) * wide - (over > 0 ? over : 0);
}

/* The row's coordinates and values; `wide` is a constant where this is called with one. */
#define SIZED(BITS)                                                                                \
  static inline void unfold_row_##BITS(const unfolding *k, int64_t b, int64_t r, int64_t wide,     \
                                       int32_t *crd, uint##BITS##_t *y) {                          \
    const uint##BITS##_t *x = k->vals;                                                             \
    int64_t last = k->pos[b + 1], q = k->pos[b];                                                   \
    for (int64_t left = row_length(k, b); q < last; q++, crd += wide, y += wide, left -= wide) {   \
      int64_t n = left < wide ? left : wide;                                                       \
      const uint##BITS##_t *from = x + (q * k->high + r) * wide;                                   \
      if (n == wide)                                                                               \
        for (int64_t c = 0; c < wide; c++)                                                         \
          crd[c] = (int32_t)(k->crd[q] * wide + c), y[c] = from[c];                                \
      else                                                                                         \
        for (int64_t c = 0; c < n; c++) crd[c] = (int32_t)(k->crd[q] * wide + c), y[c] = from[c];  \
    }                                                                                              \
  }                                                                                                \
  static void unfold_##BITS(void *user, int64_t begin, int64_t end) {                              \
    const unfolding *k = user;                                                                     \
    for (int64_t b = begin; b < end; b++) {                                                        \
      int64_t rows = least(k->high, k->l->rows - b * k->high), length = row_length(k, b);          \
      for (int64_t r = 0; r < rows; r++) {                                                         \
        int64_t at = k->start[b] + r * length;                                                     \
        int32_t *crd = k->l->crd + at;                                                             \
        uint##BITS##_t *y = (uint##BITS##_t *)k->l->vals + at;                                     \
        k->l->pos[b * k->high + r] = (int32_t)at;                                                  \
        switch (k->wide) {                                                                         \
        case 4: unfold_row_##BITS(k, b, r, 4, crd, y); break;                                      \
        case 8: unfold_row_##BITS(k, b, r, 8, crd, y); break;                                      \
        case 16: unfold_row_##BITS(k, b, r, 16, crd, y); break;                                    \
        default: unfold_row_##BITS(k, b, r, k->wide, crd, y); break;                               \
        }                                                                                          \
      }                                                                                            \
    }                                                                                              \
  }
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
#undef SIZED

static void unfold(const unfolding *k, int64_t block_rows) {
  static const ir_crew_work by_size[] = {
      [1] = unfold_8, [2] = unfold_16, [4] = unfold_32, [8] = unfold_64};
  ir_crew_for(k->l->crew, block_rows, ir_lists_ns(k->l->count) / 2,
              by_size[ir_dtype_bytes(k->l->dtype)], (void *)k);
}

/* Where the entries of each block row begin; -1: more than can be numbered. */
static int64_t find_starts(const unfolding *k, int64_t block_rows, int32_t *start) {
  int64_t sum = 0;
  for (int64_t b = 0; b < block_rows; b++) {
    start[b] = (int32_t)sum;
    sum += row_length(k, b) * least(k->high, k->l->rows - b * k->high);
    if (sum >= INT32_MAX) return -1;
  }
  return sum;
}

bool ir_lists_unfold(ir_lists *l, const ir_view *from) {
  const ir_level *level = from->format->level;
  unfolding k = {.l = l, .high = level[0].factor, .wide = level[1].factor, .vals = from->vals.data};
  ir_lists blocks = {.arena = l->arena, .crew = l->crew, .rows = up(l->rows, k.high)};
  k.pos = blocks.pos = from->pos[1].data;
  k.crd = blocks.crd = from->crd[1].data;
  blocks.columns = up(l->columns, k.wide);
  blocks.count = from->crd[1].count;
  if (l->dtype == IR_NONE || from->pos[1].count != blocks.rows + 1) return false;
  if (from->vals.count / (k.high * k.wide) < blocks.count || !ir_lists_in_order(&blocks))
    return false;
  int32_t *start = ir_lists_numbers(l, blocks.rows + 1);
  l->count = find_starts(&k, blocks.rows, start);
  if (l->count < 0) return false;
  k.start = start;
  l->pos = ir_lists_numbers(l, l->rows + 1);
  l->crd = ir_lists_numbers(l, l->count);
  l->vals = ir_array_room(l->arena, l->dtype, l->count).data;
  l->pos[l->rows] = (int32_t)l->count;
  l->owned = true;
  if (blocks.rows) unfold(&k, blocks.rows);
  return true;
}

/* ---- into blocks -----------------------------------------------------------------------------
 */
/* Block rows first .. last - 1, and what they are counted with.  Few blocks of many are there: bits
 * say which, and further bits which words of them, so that they are found in order. */
typedef struct folding_part {
  int64_t first, last;
  int32_t *place; /* by block column: the block row that was seen there last, then the place
                     of its block */
  uint64_t *bits, *of_bits; /* zero between block rows */
} folding_part;

typedef struct folding {
  const ir_lists *l;
  int64_t high, wide;
  int shift; /* of a coordinate, to its block; -1: `wide` is no power of two */
  int32_t *pos, *crd;
  void *vals;
  folding_part *part;
} folding;

static int shift_of(int64_t wide) {
  int shift = 0;
  while ((int64_t)1 << shift < wide) shift++;
  return (int64_t)1 << shift == wide ? shift : -1;
}

static inline int32_t block_of(const folding *k, int32_t c) {
  return k->shift >= 0 ? c >> k->shift : c / (int32_t)k->wide;
}

/* The entries of block row b. */
static int64_t begin_of(const folding *k, int64_t b) { return k->l->pos[b * k->high]; }
static int64_t end_of(const folding *k, int64_t b) {
  return k->l->pos[least((b + 1) * k->high, k->l->rows)];
}

static void count_part(const folding *k, const folding_part *part) {
  int32_t *seen = part->place;
  for (int64_t b = part->first; b < part->last; b++) {
    int32_t count = 0, mark = (int32_t)b + 1;
    for (int64_t p = begin_of(k, b); p < end_of(k, b); p++) {
      int32_t at = block_of(k, k->l->crd[p]);
      count += seen[at] != mark;
      seen[at] = mark;
    }
    k->pos[b + 1] = count;
  }
}

static void count_blocks(void *user, int64_t begin, int64_t end) {
  const folding *k = user;
  for (int64_t i = begin; i < end; i++) count_part(k, &k->part[i]);
}

/* Says that a block is there. */
static inline void set_bits(const folding_part *part, int32_t at) {
  part->bits[at >> 6] |= (uint64_t)1 << (at & 63);
  part->of_bits[at >> 12] |= (uint64_t)1 << (at >> 6 & 63);
}

static inline int take_lowest(uint64_t *word) {
  int bit = __builtin_ctzll(*word);
  *word &= *word - 1;
  return bit;
}

/* Gives the blocks of block row b their places, in order, and leaves the bits zero. */
static void place_blocks(const folding *k, const folding_part *part, int64_t b) {
  int64_t words = up(up(k->l->columns, k->wide), 4096);
  int32_t q = k->pos[b];
  for (int64_t p = begin_of(k, b); p < end_of(k, b); p++) set_bits(part, block_of(k, k->l->crd[p]));
  for (int64_t w = 0; w < words; w++)
    while (part->of_bits[w]) {
      int64_t at = w * 64 + take_lowest(&part->of_bits[w]);
      for (uint64_t *word = &part->bits[at]; *word; q++) {
        k->crd[q] = (int32_t)(at * 64 + take_lowest(word));
        part->place[k->crd[q]] = q;
      }
    }
}

#define SIZED(BITS)                                                                                \
  static void fill_row_##BITS(const folding *k, const folding_part *part, int64_t b) {             \
    const int32_t *pos = k->l->pos, *crd = k->l->crd;                                              \
    const uint##BITS##_t *x = k->l->vals;                                                          \
    uint##BITS##_t *y = k->vals;                                                                   \
    int64_t size = k->high * k->wide, blocks = k->pos[b + 1] - k->pos[b];                          \
    memset(y + k->pos[b] * size, 0, (size_t)(blocks * size) * sizeof *y);                          \
    for (int64_t r = 0; r < least(k->high, k->l->rows - b * k->high); r++)                         \
      for (int64_t p = pos[b * k->high + r]; p < pos[b * k->high + r + 1]; p++) {                  \
        int32_t at = block_of(k, crd[p]);                                                          \
        y[part->place[at] * size + (r - at) * k->wide + crd[p]] = x[p];                            \
      }                                                                                            \
  }                                                                                                \
  static void fill_##BITS(void *user, int64_t begin, int64_t end) {                                \
    const folding *k = user;                                                                       \
    for (int64_t i = begin; i < end; i++)                                                          \
      for (int64_t b = k->part[i].first; b < k->part[i].last; b++) {                               \
        place_blocks(k, &k->part[i], b);                                                           \
        fill_row_##BITS(k, &k->part[i], b);                                                        \
      }                                                                                            \
  }
SIZED(8)
SIZED(16)
SIZED(32)
SIZED(64)
#undef SIZED

/* As many parts as keep all threads busy; each has its own memory. */
static int cut(folding *k, int64_t block_rows) {
  const ir_lists *l = k->l;
  int64_t columns = up(l->columns, k->wide), parts = l->crew ? 4 * l->crew->threads : 1;
  if (parts > block_rows) parts = block_rows;
  k->part = IR_NEW_ARRAY(l->arena, folding_part, parts + 1);
  for (int64_t i = 0; i < parts; i++)
    k->part[i] = (folding_part){.first = block_rows * i / parts,
                                .last = block_rows * (i + 1) / parts,
                                .place = IR_NEW_ARRAY(l->arena, int32_t, columns + 1),
                                .bits = IR_NEW_ARRAY(l->arena, uint64_t, up(columns, 64) + 1),
                                .of_bits = IR_NEW_ARRAY(l->arena, uint64_t, up(columns, 4096) + 1)};
  return (int)parts;
}

bool ir_lists_fold(const ir_lists *l, ir_view *to) {
  static const ir_crew_work by_size[] = {[1] = fill_8, [2] = fill_16, [4] = fill_32, [8] = fill_64};
  const ir_level *level = to->format->level;
  folding k = {.l = l, .high = level[0].factor, .wide = level[1].factor};
  int64_t block_rows = up(l->rows, k.high), sum = 0, ns = 2 * ir_lists_ns(l->count);
  if (l->dtype == IR_NONE || k.wide > INT32_MAX / 2 || k.high > INT32_MAX / 2) return false;
  int parts = cut(&k, block_rows);
  k.shift = shift_of(k.wide);
  to->pos[1] = ir_array_new(l->arena, IR_I32, block_rows + 1);
  k.pos = to->pos[1].data;
  if (parts) ir_crew_for(l->crew, parts, ns, count_blocks, &k);
  for (int64_t b = 0; b < block_rows; b++) k.pos[b + 1] = (int32_t)(sum += k.pos[b + 1]);
  if (sum > INT32_MAX / (k.high * k.wide)) return false;
  to->crd[1] = ir_array_room(l->arena, IR_I32, sum);
  to->vals = ir_array_room(l->arena, l->dtype, sum * k.high * k.wide);
  k.crd = to->crd[1].data;
  k.vals = to->vals.data;
  if (parts) ir_crew_for(l->crew, parts, 2 * ns, by_size[ir_dtype_bytes(l->dtype)], &k);
  return true;
}
