/* rows.h - part of parts.c: lists of whole rows, and products of the rows that they have packed. */

static bool is_set(bench *b, const list_case *c, const array *v, int64_t m, int64_t n);

/* Rows of A that hold nothing, as a list says; the others packed by it. */
static void pack_rows(bench *b, const ir_list *l, const product_case *p) {
  array *A = find(b, "A"), *packed = array_of(b, l->packed);
  const int32_t *ids = array_of(b, l->ids)->host;
  const uint32_t *bits = array_of(b, l->bits)->host;
  int64_t K = b->size[CASE_K], count = ((int32_t *)array_of(b, l->counts)->host)[0];
  for (int64_t m = 0; m < b->size[CASE_M]; m++)
    for (int64_t k = 0; k < K && !(bits[m / 32] >> m % 32 & 1); k++) ir_dtype_store(p->in, A->host, m * K + k, 0);
  for (int64_t i = 0; i < count * K; i++)
    ir_dtype_store(p->in, packed->host, i, ir_dtype_load(p->in, A->host, ids[i / K] * K + i % K));
}

/* Some rows, or nearly all of them, hold nothing. */
static void empty_rows(bench *b, const list_case *c, array *v) {
  double keep = uniform(b) < 0.3 ? 0.02 : uniform(b);
  for (int64_t m = 0; m < b->size[CASE_M]; m++) {
    bool empty = uniform(b) >= keep;
    for (int64_t n = 0; n < b->size[CASE_N] && empty; n++)
      ir_dtype_store(c->dtype, v->host, element(b, c->layout, 0, m, n, CASE_M, CASE_N), n % 2 ? 0.0 : -0.0);
  }
}

/* The list of rows that hold anything, and what was packed; returns the share of them. */
static double check_rows(bench *b, const ir_stage *s, const list_case *c, bool counted) {
  const ir_list *l = s->detects;
  array *v = find(b, "V"), *packed = array_of(b, l->packed);
  const int32_t *ids = array_of(b, l->ids)->host;
  int64_t M = b->size[CASE_M], N = b->size[CASE_N], n = 0;
  for (int64_t m = 0; m < M; m++) {
    bool live = false;
    for (int64_t f = 0; f < N && !live; f++) live = is_set(b, c, v, m, f);
    if (!live) continue;
    if (!counted && ids[n] != m) fail(b, s, s->row, "id", (double)n, ids[n], (double)m);
    for (int64_t f = 0; f < N && !counted; f++) {
      double got = ir_dtype_load(c->dtype, packed->host, n * N + f);
      double want = ir_dtype_load(c->dtype, v->host, element(b, c->layout, 0, m, f, CASE_M, CASE_N));
      if (got != want && !(isnan(got) && isnan(want))) fail(b, s, s->row, "packed row", (double)m, got, want);
    }
    n++;
  }
  int32_t count = ((int32_t *)array_of(b, l->counts)->host)[0];
  if (!counted && count != n) fail(b, s, s->row, "count", 0, count, (double)n);
  return M ? (double)n / (double)M : 0;
}
