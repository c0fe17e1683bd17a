/* groups.h - of parts.c alone: rows in groups, their offsets and names, and what their products are in float64. */
#ifndef SPC_TESTS_GPU_GROUPS_H
#define SPC_TESTS_GPU_GROUPS_H

/* Offsets that ascend, with gaps before and behind, empty groups, and ends that are out of range. */
static void fill_groups(bench *b) {
  array *offsets = find(b, "offsets"), *names = find(b, "names");
  int64_t rows = b->size[CASE_M], at = (int64_t)(uniform(b) * 9) - 4;
  for (int64_t g = 0; offsets && g < offsets->count; g++) {
    ((int32_t *)offsets->host)[g] = (int32_t)at;
    if (uniform(b) < 0.7) at += (int64_t)(uniform(b) * (double)(2 * rows) / (double)offsets->count) + 1;
  }
  for (int64_t m = 0; names && m < names->count; m++)
    ((int32_t *)names->host)[m] = (int32_t)(uniform(b) * (double)(rows + 4)) - 2;
}

/* -1: in none. */
static int64_t group_of(bench *b, int64_t m) {
  array *offsets = find(b, "offsets");
  for (int64_t g = 0; g + 1 < offsets->count; g++)
    if (m >= ((int32_t *)offsets->host)[g] && m < ((int32_t *)offsets->host)[g + 1]) return g;
  return -1;
}

static sums group_reference(bench *b, const product_case *p, int64_t m, int64_t n) {
  array *A = find(b, "A"), *B = find(b, "B"), *names = find(b, "names");
  int64_t g = group_of(b, m), row = names ? ((int32_t *)names->host)[m] : m;
  sums s = {0, 0};
  for (int64_t k = 0; row >= 0 && row < b->size[CASE_M] && k < b->size[CASE_K]; k++) {
    double x = A->real[element(b, p->layout_a, 0, row, k, CASE_M, CASE_K)];
    double y = B->real[element(b, p->layout_b, g, k, n, CASE_K, CASE_N)];
    s.sum += x * y;
    s.magnitude += fabs(x * y);
  }
  return s;
}

#endif
