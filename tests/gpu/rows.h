/* rows.h - part of parts.c: lists of whole rows, or of the rows of blocks, and products of the rows that they have packed. */

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

/* ---- rows of blocks ------------------------------------------------------------------------------ */
enum { PIECE = 64, CHUNK = 8 }; /* elements */

/* Where element e of what is number `at` of a section's list lies: chunks of 16 bytes are swizzled. */
static int64_t piece_at(int64_t begin, int64_t at, int64_t e) { return (begin + at) * PIECE + ((e / CHUNK) ^ (at % 8)) * CHUNK + e % CHUNK; }

static int64_t rows_up(int64_t rows) { return (rows + IR_LIST_ROWS - 1) / IR_LIST_ROWS * IR_LIST_ROWS; }

/* Some pieces of rows, nearly all of them or none, hold nothing. */
static void empty_pieces(bench *b, ir_dtype t, char layout, array *v, int columns, double keep) {
  for (int64_t m = 0; m < b->size[CASE_M]; m++)
    for (int64_t n = 0, empty = 0; n < b->size[columns]; n++) {
      if (n % PIECE == 0) empty = uniform(b) >= keep;
      if (empty) ir_dtype_store(t, v->host, element(b, layout, 0, m, n, CASE_M, columns), n % 2 ? 0.0 : -0.0);
    }
}

/* The list of A's pieces, and they. */
static void list_pieces(bench *b, const ir_list *l, const product_case *p, int kind) {
  array *A = find(b, "A"), *packed = array_of(b, l->packed);
  int32_t *counts = array_of(b, l->counts)->host, *ids = array_of(b, l->ids)->host;
  const int64_t M = b->size[CASE_M], K = b->size[CASE_K], blocks = (K + PIECE - 1) / PIECE, pitch = rows_up(M);
  empty_pieces(b, p->in, 'r', A, CASE_K, kind == 0 ? 0.3 : kind == 1 ? 0 : 1);
  for (int64_t section = 0; section * l->section < M; section++)
    for (int64_t j = 0; j < blocks; j++) {
      const int64_t begin = j * pitch + section * l->section;
      int32_t n = 0;
      for (int64_t m = section * l->section; m < M && m < (section + 1) * l->section; m++) {
        bool live = false;
        for (int64_t k = j * PIECE; k < K && k < (j + 1) * PIECE; k++) live |= ir_dtype_load(p->in, A->host, m * K + k) != 0;
        for (int64_t e = 0; e < PIECE && live; e++)
          ir_dtype_store(p->in, packed->host, piece_at(begin, n, e), j * PIECE + e < K ? ir_dtype_load(p->in, A->host, m * K + j * PIECE + e) : 0);
        if (live) ids[begin + n++] = (int32_t)(m - section * l->section);
      }
      counts[section * blocks + j] = n;
    }
}

/* What is listed of V's pieces and packed; returns the share of them. */
static double check_pieces(bench *b, const ir_stage *s, const list_case *c, bool counted) {
  const ir_list *l = s->detects;
  array *v = find(b, "V"), *packed = array_of(b, l->packed);
  const int32_t *counts = array_of(b, l->counts)->host, *ids = array_of(b, l->ids)->host;
  const int64_t M = b->size[CASE_M], N = b->size[CASE_N], blocks = (N + PIECE - 1) / PIECE, pitch = rows_up(M);
  int64_t all = 0;
  for (int64_t section = 0; section * l->section < M; section++)
    for (int64_t j = 0; j < blocks; j++) {
      const int64_t begin = j * pitch + section * l->section;
      int32_t n = 0;
      for (int64_t m = section * l->section; m < M && m < (section + 1) * l->section; m++) {
        bool live = false;
        for (int64_t f = j * PIECE; f < N && f < (j + 1) * PIECE && !live; f++) live = is_set(b, c, v, m, f);
        if (!live) continue;
        if (!counted && ids[begin + n] != m - section * l->section) fail(b, s, s->row, "id", (double)(begin + n), ids[begin + n], (double)(m - section * l->section));
        for (int64_t e = 0; e < PIECE && !counted; e++) {
          double got = ir_dtype_load(c->dtype, packed->host, piece_at(begin, n, e));
          double want = j * PIECE + e < N ? ir_dtype_load(c->dtype, v->host, element(b, c->layout, 0, m, j * PIECE + e, CASE_M, CASE_N)) : 0;
          if (got != want && !(isnan(got) && isnan(want))) fail(b, s, s->row, "packed element", (double)m, got, want);
        }
        n++;
      }
      if (!counted && counts[section * blocks + j] != n) fail(b, s, s->row, "count", (double)(section * blocks + j), counts[section * blocks + j], n);
      all += n;
    }
  return M && N ? (double)all / (double)(M * blocks) : 0;
}
