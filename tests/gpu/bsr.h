/* bsr.h - of parts.c alone: an operand, or the result, that is stored in blocks, how many there are and what is in them. */
#ifndef SPC_TESTS_GPU_BSR_H
#define SPC_TESTS_GPU_BSR_H

/* Outer blocks, blocks along the listed dimension, and elements of one. */
typedef struct block_counts {
  int64_t outer, listed, elements;
} block_counts;

static block_counts blocks_of(const bench *b, const ir_tensor *t) {
  const ir_level *l = t->format->level;
  int64_t blocks[2] = {0, 0}, extent;
  for (int i = 0; i < 2; i++)
    if (ir_size_value(t->dim[l[i].dim], b->size, &extent)) blocks[i] = (extent + l[i].factor - 1) / l[i].factor;
  return (block_counts){blocks[0], blocks[1], l[0].factor * l[1].factor};
}

static bool is_in_blocks(const ir_tensor *t) { return t && t->format && t->format->level_count == 4; }

/* Room for all blocks, however many there are. */
static int64_t block_array_count(const bench *b, const ir_buf *buf) {
  block_counts n = blocks_of(b, buf->tensor);
  return buf->kind == IR_BUF_POS ? n.outer + 1 : buf->kind == IR_BUF_CRD ? n.outer * n.listed : n.outer * n.listed * n.elements;
}

static array *block_array(bench *b, ir_buf_kind kind) {
  for (int i = 0; i < b->array_count; i++)
    if (is_in_blocks(b->array[i].buf->tensor) && b->array[i].buf->kind == kind) return &b->array[i];
  return NULL;
}

static int32_t block_place[1 << 16]; /* by outer block and listed one: which of the stored, -1: none */
static int64_t block_listed;         /* how many listed ones an outer block has room for */

/* The element of A; what is not stored is 0. */
static double block_value(const product_case *p, const array *A, int64_t m, int64_t k) {
  int64_t block_m = m / p->strip, block_k = k / p->gran, outer = p->way == CASE_BY_K ? block_k : block_m, listed = p->way == CASE_BY_K ? block_m : block_k;
  int64_t r = m % p->strip, c = k % p->gran, at = p->layout_a == 'r' ? r * p->gran + c : c * p->strip + r;
  int32_t place = block_place[outer * block_listed + listed];
  return place < 0 ? 0 : A->real[(int64_t)place * p->strip * p->gran + at];
}

/* kind: some blocks and rows without any; none; all.  What hangs over an edge is zero, what is behind the last block NaN. */
static void fill_blocks(bench *b, const product_case *p, int kind) {
  array *A = block_array(b, IR_BUF_VALS);
  block_counts n = blocks_of(b, A->buf->tensor);
  block_listed = n.listed;
  int32_t *pos = block_array(b, IR_BUF_POS)->host, *crd = block_array(b, IR_BUF_CRD)->host, count = 0;
  for (int64_t o = 0; o < n.outer; o++) {
    double keep = kind == 1 ? 0 : kind == 2 ? 1 : uniform(b) < 0.2 ? 0 : uniform(b);
    pos[o] = count;
    for (int64_t l = 0; l < n.listed; l++) {
      block_place[o * n.listed + l] = -1;
      if (uniform(b) >= keep) continue;
      block_place[o * n.listed + l] = count;
      int64_t m0 = (p->way == CASE_BY_K ? l : o) * p->strip, k0 = (p->way == CASE_BY_K ? o : l) * p->gran;
      for (int64_t r = 0; r < p->strip; r++)
        for (int64_t c = 0; c < p->gran; c++)
          ir_dtype_store(A->buf->dtype, A->host, count * n.elements + (p->layout_a == 'r' ? r * p->gran + c : c * p->strip + r),
                         m0 + r < b->size[CASE_M] && k0 + c < b->size[CASE_K] ? value(b) : 0);
      crd[count++] = (int32_t)l;
    }
  }
  pos[n.outer] = count;
}

/* ---- the result -------------------------------------------------------------------------------- */
static const ir_tensor *stored_tensor(bench *b) { return block_array(b, IR_BUF_POS)->buf->tensor; }

/* NULL: nobody reads them. */
static array *stored_values(bench *b) {
  for (int i = 0; i < b->array_count; i++)
    if (b->array[i].buf->tensor == stored_tensor(b) && b->array[i].buf->kind == IR_BUF_VALS) return &b->array[i];
  return NULL;
}

/* kind: as fill_blocks has it.  S's values, where anybody reads them, hang over no edge. */
static void fill_stored(bench *b, const product_case *p, int kind) {
  array *pos = block_array(b, IR_BUF_POS), *crd = block_array(b, IR_BUF_CRD), *S = stored_values(b);
  block_counts n = blocks_of(b, stored_tensor(b));
  int32_t count = 0;
  block_listed = n.listed;
  for (int64_t o = 0; o < n.outer; o++) {
    double keep = kind == 1 ? 0 : kind == 2 ? 1 : uniform(b) < 0.2 ? 0 : uniform(b);
    ((int32_t *)pos->host)[o] = count;
    for (int64_t l = 0; l < n.listed; l++) {
      block_place[o * n.listed + l] = -1;
      if (uniform(b) >= keep) continue;
      block_place[o * n.listed + l] = count;
      for (int64_t i = 0; S && i < n.elements; i++) {
        int64_t m = o * p->strip + i / p->gran, column = l * p->gran + i % p->gran;
        ir_dtype_store(S->buf->dtype, S->host, count * n.elements + i, m < b->size[CASE_M] && column < b->size[CASE_N] ? value(b) : NAN);
      }
      ((int32_t *)crd->host)[count++] = (int32_t)l;
    }
  }
  ((int32_t *)pos->host)[n.outer] = count;
}

/* Where T's element lies; -1: it is not stored. */
static int64_t stored_at(const product_case *p, int64_t m, int64_t n) {
  int32_t place = block_place[m / p->strip * block_listed + n / p->gran];
  return place < 0 ? -1 : (int64_t)place * p->strip * p->gran + m % p->strip * p->gran + n % p->gran;
}

/* What hangs over an edge is zero; behind the last block nothing is written. */
static void check_stored(bench *b, const ir_stage *s, const product_case *p) {
  const array *T = find(b, "T");
  block_counts n = blocks_of(b, stored_tensor(b));
  int64_t rows = n.outer * p->strip, columns = n.listed * p->gran, stored = ((int32_t *)block_array(b, IR_BUF_POS)->host)[n.outer] * n.elements;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = r < b->size[CASE_M] ? b->size[CASE_N] : 0; c < columns; c++) {
      int64_t at = stored_at(p, r, c);
      double got = at < 0 ? 0 : ir_dtype_load(p->out, T->host, at);
      if (got != 0) fail(b, s, p->row, "T over the edge", (double)at, got, 0);
    }
  size_t element = ir_dtype_bytes(p->out);
  for (size_t i = (size_t)stored * element; i < T->bytes; i++)
    if (((unsigned char *)T->host)[i] != 0xff) {
      fail(b, s, p->row, "T behind the last block", (double)i, 0, 0);
      return;
    }
}

#endif
