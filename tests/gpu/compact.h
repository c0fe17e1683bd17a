/* compact.h - part of parts.c: what a list names of each row, side by side. */

/* Of row m: its own entries among its list's, which it takes, and what else is written up to multiples of IR_LIST_PACKED, zeros.  What lies outside nobody reads. */
typedef struct taken {
  int64_t written, begin, end, written_end;
} taken;

static taken taken_by(bench *b, const ir_list *l, int64_t m) {
  const int32_t *counts = array_of(b, l->counts)->host;
  int64_t strip = m / l->strip, all = counts[list_of(l, strip)], own = l->pairs ? counts[lists_there(b, l) + strip] : all;
  int64_t begin = strip % 2 && l->pairs ? all - own : 0, end = begin + own;
  if (l->pairs && own == 0) return (taken){0, 0, 0, 0};
  return (taken){begin / IR_LIST_PACKED * IR_LIST_PACKED, begin, end, (end + IR_LIST_PACKED - 1) / IR_LIST_PACKED * IR_LIST_PACKED};
}

/* Row m of A, whose rows have so many elements, at place i. */
static double side_by_side(bench *b, const ir_list *l, ir_dtype t, array *rows, int64_t wide, int64_t m, int64_t i, const taken *own) {
  const int32_t *ids = array_of(b, l->ids)->host;
  return i >= own->begin && i < own->end ? ir_dtype_load(t, rows->host, m * wide + ids[strip_of(b, l, m) * room_of(b, l) + i]) : 0;
}

static void bring_side_by_side(bench *b, const ir_list *l, const product_case *p) {
  array *A = find(b, "A"), *packed = array_of(b, l->packed);
  int64_t K = b->size[CASE_K];
  for (int64_t m = 0; m < b->size[CASE_M]; m++) {
    const taken own = taken_by(b, l, m);
    for (int64_t i = 0; i < K; i++)
      ir_dtype_store(p->in, packed->host, m * K + i, i >= own.written && i < own.written_end ? side_by_side(b, l, p->in, A, K, m, i, &own) : NAN);
  }
}

/* The same of what a launch has written; rows of no whole words are left to another kernel, which takes them as they lie. */
static void check_side_by_side(bench *b, const ir_stage *s, const list_case *c) {
  const ir_list *l = s->detects;
  array *V = find(b, "V"), *packed = array_of(b, l->packed);
  int64_t N = b->size[CASE_N];
  for (int64_t m = 0; m < b->size[CASE_M] && N % 2 == 0; m++) {
    const taken own = taken_by(b, l, m);
    for (int64_t i = own.written; i < own.written_end && i < N; i++) {
      double got = ir_dtype_load(c->dtype, packed->host, m * N + i), want = side_by_side(b, l, c->dtype, V, N, m, i, &own);
      if (got != want && !(isnan(got) && isnan(want))) fail(b, s, s->row, "element side by side", (double)(m * N + i), got, want);
    }
  }
}
