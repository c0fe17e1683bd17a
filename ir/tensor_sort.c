/* tensor_sort.c - entries into storage order: a stable radix sort over level coordinates.
 *
 * Consecutive levels whose extents fit together in 63 bits make one key; keys are sorted from the
 * innermost group to the outermost (LSD), 11 bits a pass, passes that change nothing are skipped.
 * Stability keeps duplicates in the order in which they came, so that their sums are fixed. */
#include "ir/tensor_pack.h"

typedef struct record {
  uint64_t key;
  int64_t entry;
} record;

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };

int64_t ir_level_coordinate(const ir_level *l, const int64_t *at) {
  return l->map == IR_MAP_WHOLE ? at[l->dim]
         : l->map == IR_MAP_DIV ? at[l->dim] / l->factor
                                : at[l->dim] % l->factor;
}

static void radix_pass(const record *from, record *to, int64_t count, int shift, int64_t *start) {
  memset(start, 0, sizeof(int64_t) * DIGITS);
  for (int64_t i = 0; i < count; i++) start[from[i].key >> shift & (DIGITS - 1)]++;
  int64_t sum = 0;
  for (int d = 0; d < DIGITS; d++) {
    int64_t here = start[d];
    start[d] = sum;
    sum += here;
  }
  for (int64_t i = 0; i < count; i++) to[start[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

/* Sorts by the bits in which keys differ; the result may lie in either array. */
static record *radix_sort(record *a, record *b, int64_t count, uint64_t differ, int64_t *start) {
  for (int shift = 0; shift < 64; shift += DIGIT_BITS) {
    if (!(differ >> shift & (DIGITS - 1))) continue;
    radix_pass(a, b, count, shift, start);
    record *swap = a;
    a = b;
    b = swap;
  }
  return a;
}

typedef struct group {
  int first, last; /* levels */
} group;

/* The outermost-reaching group of levels ending at `last` whose key fits in 63 bits. */
static group key_group(const ir_format *f, const int64_t *dims, int last) {
  uint64_t product = 1;
  int first = last + 1;
  while (first > 0) {
    uint64_t extent = (uint64_t)ir_format_extent(f, first - 1, dims);
    if (first <= last && extent && product > ((uint64_t)1 << 62) / extent) break;
    product *= extent ? extent : 1;
    first--;
  }
  return (group){first, last};
}

static uint64_t entry_key(const ir_format *f, const int64_t *extent, group g, const int64_t *at) {
  uint64_t key = 0;
  for (int k = g.first; k <= g.last; k++)
    key = key * (uint64_t)extent[k] + (uint64_t)ir_level_coordinate(&f->level[k], at);
  return key;
}

static void sort_order(ir_arena *arena, const ir_format *f, const int64_t *dims,
                       const ir_entries *entries, int64_t *order) {
  int64_t n = entries->count, extent[IR_MAX_LEVELS];
  record *a = NULL, *b = NULL;
  int64_t *start = NULL;
  for (int k = 0; k < f->level_count; k++) extent[k] = ir_format_extent(f, k, dims);
  for (int last = f->level_count - 1; last >= 0;) {
    group g = key_group(f, dims, last);
    uint64_t before = 0, differ = 0;
    bool sorted = true;
    if (!a) a = IR_NEW_ARRAY(arena, record, n);
    for (int64_t i = 0; i < n; i++) {
      uint64_t key = entry_key(f, extent, g, entries->at + order[i] * entries->rank);
      a[i] = (record){key, order[i]};
      sorted &= key >= before;
      differ |= i ? key ^ before : 0;
      before = key;
    }
    if (!sorted) {
      if (!b) b = IR_NEW_ARRAY(arena, record, n);
      if (!start) start = IR_NEW_ARRAY(arena, int64_t, DIGITS);
      record *done = radix_sort(a, b, n, differ, start);
      for (int64_t i = 0; i < n; i++) order[i] = done[i].entry;
    }
    last = g.first - 1;
  }
}

static int first_change(const ir_format *f, const int64_t *a, const int64_t *b) {
  int k = 0;
  while (k < f->level_count &&
         ir_level_coordinate(&f->level[k], a) == ir_level_coordinate(&f->level[k], b))
    k++;
  return k;
}

void ir_entries_sort(ir_arena *arena, const ir_format *format, const int64_t *dims,
                     const ir_entries *entries, ir_sorted *out) {
  int64_t n = entries->count;
  *out = (ir_sorted){n, IR_NEW_ARRAY(arena, int64_t, n), IR_NEW_ARRAY(arena, uint8_t, n)};
  for (int64_t i = 0; i < n; i++) out->order[i] = i;
  if (n) sort_order(arena, format, dims, entries, out->order);
  for (int64_t i = 1; i < n; i++)
    out->change[i] = (uint8_t)first_change(format, entries->at + out->order[i - 1] * entries->rank,
                                           entries->at + out->order[i] * entries->rank);
}
