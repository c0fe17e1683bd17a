/* compact.h - part of parts.c: what a list names of each row, side by side. */

/* Row m of A at the ids of its list, then zeros up to a multiple of IR_LIST_PACKED; what lies behind is not written. */
static void bring_side_by_side(bench *b, const ir_list *l, const product_case *p) {
  array *A = find(b, "A"), *packed = array_of(b, l->packed);
  const int32_t *ids = array_of(b, l->ids)->host, *counts = array_of(b, l->counts)->host;
  int64_t K = b->size[CASE_K];
  for (int64_t m = 0; m < b->size[CASE_M]; m++) {
    int64_t list = strip_of(b, l, m), count = counts[list], end = (count + IR_LIST_PACKED - 1) / IR_LIST_PACKED * IR_LIST_PACKED;
    for (int64_t i = 0; i < K; i++) {
      double outside = i < end ? 0 : NAN; /* nobody may read that */
      ir_dtype_store(p->in, packed->host, m * K + i, i < count ? ir_dtype_load(p->in, A->host, m * K + ids[list * room_of(b, l) + i]) : outside);
    }
  }
}

/* The same of what a launch has written; rows of no whole words are left to another kernel, which takes them as they lie. */
static void check_side_by_side(bench *b, const ir_stage *s, const list_case *c) {
  const ir_list *l = s->detects;
  array *V = find(b, "V"), *packed = array_of(b, l->packed);
  const int32_t *ids = array_of(b, l->ids)->host, *counts = array_of(b, l->counts)->host;
  int64_t N = b->size[CASE_N];
  for (int64_t m = 0; m < b->size[CASE_M] && N % 2 == 0; m++) {
    int64_t list = strip_of(b, l, m), count = counts[list], end = (count + IR_LIST_PACKED - 1) / IR_LIST_PACKED * IR_LIST_PACKED;
    for (int64_t i = 0; i < end && i < N; i++) {
      double got = ir_dtype_load(c->dtype, packed->host, m * N + i);
      double want = i < count ? ir_dtype_load(c->dtype, V->host, m * N + ids[list * room_of(b, l) + i]) : 0;
      if (got != want && !(isnan(got) && isnan(want))) fail(b, s, s->row, "element side by side", (double)(m * N + i), got, want);
    }
  }
}
