/* rates.h - part of parts.c: how fast the composed kernels run (not a test). */

static double milliseconds(bench *b, const ir_code_image *code) {
  enum { ROUNDS = 9, LAUNCHES = 4 };
  rt_cuda_module *module;
  double best[ROUNDS];
  if (rt_cuda_load(b->cuda, code, &module)) die(b, code->entry);
  for (int r = -1; r < ROUNDS; r++) {
    double ms = 0;
    rt_cuda_time_begin(b->cuda, NULL);
    for (int l = 0; l < LAUNCHES; l++) launch(b, code, module);
    if (rt_cuda_time_end(b->cuda, NULL, &ms)) die(b, "timing");
    if (r >= 0) best[r] = ms / LAUNCHES;
  }
  rt_cuda_unload(b->cuda, module);
  for (int i = 0; i < ROUNDS; i++)
    for (int j = i + 1; j < ROUNDS; j++)
      if (best[j] < best[i]) {
        double t = best[i];
        best[i] = best[j], best[j] = t;
      }
  return best[ROUNDS / 2];
}

static void time_case(bench *b, const product_case *p, int64_t extent, double keep) {
  cuda_cases_new(&b->cases);
  const ir_stage *s = cuda_case_product(&b->cases, p);
  memcpy(b->size, (int64_t[]){extent, extent, extent, 1}, sizeof b->size);
  compile(b);
  collect(b, s);
  fill_values(b, find(b, "A"));
  fill_rest(b);
  if (s->reads.count) {
    const ir_list *l = s->reads.at[0];
    int64_t strips = array_of(b, l->counts)->count, capacity = array_of(b, l->ids)->count / strips;
    if (l->pairs) fill_pairs(b, l, p, 2), strips = 0;
    for (int64_t t = 0; t < strips; t++) {
      int32_t n = 0;
      for (int64_t i = 0; i < capacity; i++)
        if (uniform(b) < keep)
          ((int32_t *)array_of(b, l->ids)->host)[t * capacity + n++] = (int32_t)i;
      ((int32_t *)array_of(b, l->counts)->host)[t] = n;
    }
  }
  for (int i = 0; i < b->array_count; i++) upload(b, &b->array[i]);
  int number = 0;
  while (b->image->codes.at[number].stage != s) number++;
  double ms = milliseconds(b, &b->image->codes.at[number]);
  double flops = 2.0 * (double)extent * (double)extent * (double)extent * keep;
  printf("%-30s %c%c%c %-5s %5lld^3 keep %4.2f  %8.3f ms  %7.1f useful TFLOP/s  %3d registers\n",
         p->row, p->layout_a, p->layout_b, p->layout_t, ir_dtype_text(p->in), (long long)extent,
         keep, ms, flops / ms * 1e-9, b->image->codes.at[number].registers);
  fflush(stdout);
  forget(b);
  cuda_cases_free(&b->cases);
}

static void time_rows(bench *b, const char *named) {
  static const double keeps[] = {1.0, 0.5, 0.25, 0.1, 0.05};
  b->shift = 0;
  for (int i = 0; i < cuda_product_case_count; i++) {
    product_case p = cuda_product_cases[i];
    if (p.batched || p.guard == 1 || !cuda_case_fits(&p, rt_cuda_arch(b->cuda))) continue;
    p.guard = 0;
    bool fma = cuda_case_row(&p)->multiply == IR_MULTIPLY_FMA;
    if (!strstr(p.row, named)) continue;
    for (int k = 0; k < (p.strip ? IR_COUNT(keeps) : 1); k++)
      time_case(b, &p, fma ? 2048 : 4096, keeps[k]);
  }
}
