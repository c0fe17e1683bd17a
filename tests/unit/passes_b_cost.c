/* The cost model: covers, the direction in which each figure of a profile moves a time, profile
 * text. */
#include <criterion/criterion.h>
#include <math.h>

#include "passes/cost.h"

static ir_arena *arena;
static void setup(void) { arena = ir_arena_new(); }
static void teardown(void) { ir_arena_free(arena); }
TestSuite(passes_b_cost, .init = setup, .fini = teardown);

static const ir_target *target(const char *name) { return ir_target_find(name); }

Test(passes_b_cost, cover_of_random_zeros) {
  pass_zeros fine = {.rows = 1, .cols = 1};
  cr_assert_float_eq(pass_cover(&fine, 0.1, 32, 1), 1 - pow(0.9, 32), 1e-12);
  cr_assert_float_eq(pass_cover(&fine, 0.1, 1, 1), 0.1, 1e-12);
  cr_assert_eq(pass_cover(&fine, 0, 64, 1), 0);
  cr_assert_eq(pass_cover(&fine, 1, 64, 1), 1);
  double before = 0;
  for (double strip = 1; strip <= 256; strip *= 2) {
    double cover = pass_cover(&fine, 0.02, strip, 1);
    cr_assert_gt(cover, before);
    before = cover;
  }
}

/* Blocks of 2x1 under strips of 4 touch two, of 16 touch eight: s^2 and s^8 stay zero. */
Test(passes_b_cost, cover_of_blocks) {
  pass_zeros blocks = {.rows = 2, .cols = 1};
  cr_assert_float_eq(1 - pass_cover(&blocks, 0.1, 4, 1), pow(0.9, 2), 1e-12);
  cr_assert_float_eq(1 - pass_cover(&blocks, 0.1, 16, 1), pow(0.9, 8), 1e-12);
  pass_zeros coarse = {.rows = 128, .cols = 64};
  cr_assert_float_eq(pass_cover(&coarse, 0.1, 64, 8), 0.1, 1e-12, "a micro-tile inside one block");
}

/* From the independent extreme down to the density itself. */
Test(passes_b_cost, cover_of_rows_that_are_alike) {
  pass_zeros fine = {.rows = 1, .cols = 1}, coarse = {.rows = 64, .cols = 1};
  double before = pass_cover(&fine, 0.05, 64, 1);
  cr_assert_eq(pass_cover_alike(&fine, 0.05, 64, 1, 0), before);
  cr_assert_float_eq(pass_cover_alike(&fine, 0.05, 64, 1, 1), 0.05, 1e-12);
  for (double correlation = 0.1; correlation <= 1; correlation += 0.1) {
    double cover = pass_cover_alike(&fine, 0.05, 64, 1, correlation);
    cr_assert_lt(cover, before);
    cr_assert_float_eq(pass_cover_alike(&coarse, 0.05, 64, 1, correlation), 0.05, 1e-12,
                       "inside one block");
    before = cover;
  }
}

Test(passes_b_cost, times_in_words) {
  static const struct {
    double us;
    const char *text;
  } cases[] = {{0.5, "0.50 us"},  {12.34, "12.3 us"}, {812.4, "812 us"},
               {1020, "1.02 ms"}, {34400, "34.4 ms"}, {2.1e6, "2.10 s"}};
  for (int i = 0; i < IR_COUNT(cases); i++)
    cr_assert_str_eq(pass_time_text(arena, cases[i].us), cases[i].text);
}

Test(passes_b_cost, cover_inverse) {
  pass_zeros zeros = {.rows = 4, .cols = 1};
  for (double density = 0.01; density < 0.5; density += 0.07) {
    double cover = pass_cover(&zeros, density, 64, 1);
    cr_assert_float_eq(pass_cover_inverse(&zeros, cover, 64, 1), density, 1e-9);
  }
}

static double product_time(const pass_profile *p, const char *row, double strip, double cover) {
  pass_product q = {.batch = 1, .m = 4096, .n = 4096, .k = 4096, .a = IR_BF16, .b = IR_BF16, .c = IR_BF16};
  const ir_kernel_row *r = ir_kernel_row_named(row);
  pass_tiling tiling = {
      .row = r, .m = r->m, .n = r->n, .k = r->k, .strip = strip, .gran = 1, .cover = cover};
  return pass_cost_product(p, target("sm_90a"), &q, &tiling);
}

Test(passes_b_cost, cover_shortens_a_listed_product) {
  const pass_profile *p = pass_profile_of(arena, target("sm_90a"));
  double before = 0;
  for (double cover = 0; cover <= 1; cover += 0.125) {
    double time = product_time(p, "gemm_kgather_mma_128x128x32", 128, cover);
    cr_assert_geq(time, before);
    before = time;
  }
  cr_assert_lt(product_time(p, "gemm_kgather_mma_128x128x32", 128, 0.1),
               product_time(p, "gemm_mma_128x128x32", 0, 1) / 3);
}

/* Microseconds of the up projection of 16384 tokens, 2048 to 5632, at covers that bench/gpu.py gated
 * measured. */
typedef struct measured_cover {
  double cover, microseconds;
} measured_cover;

static void columns_as_measured(const char *name, const measured_cover *measured, int count) {
  const pass_profile *p = pass_profile_of(arena, target("sm_90a"));
  const ir_kernel_row *r = ir_kernel_row_named(name);
  pass_product q = {.batch = 1, .m = 16384, .n = 5632, .k = 2048, .a = IR_BF16, .b = IR_BF16, .c = IR_BF16};
  for (int i = 0; i < count; i++) {
    pass_tiling tiling = {.row = r, .m = r->m, .n = r->n, .k = r->k, .strip = r->m, .gran = 1};
    tiling.cover = measured[i].cover;
    tiling.columns = true;
    double time = pass_cost_product(p, target("sm_90a"), &q, &tiling), us = measured[i].microseconds;
    cr_expect_float_eq(time, us, 0.08 * us, "%s, cover %g: %g us, not %g", name, tiling.cover, time,
                       us);
  }
}

Test(passes_b_cost, listed_columns_as_measured) {
  const measured_cover tall[] = {{0.15, 125}, {0.25, 180}, {0.42, 290}, {0.64, 427}, {0.86, 540}};
  const measured_cover low[] = {{0.09, 107}, {0.15, 161}, {0.16, 163}, {0.28, 267}};
  columns_as_measured("gemm_ngather_tma_128x256x64", tall, IR_COUNT(tall));
  columns_as_measured("gemm_ngather_tma_64x256x64", low, IR_COUNT(low));
}

/* A profile with one figure changed. */
static const pass_profile *with(const char *key, double factor) {
  pass_profile *p = IR_NEW(arena, pass_profile);
  *p = *pass_profile_of(arena, target("sm_90a"));
  if (!strcmp(key, "bandwidth_gbs"))
    p->bandwidth_gbs *= factor;
  else if (!strcmp(key, "launch_us"))
    p->launch_us *= factor;
  else if (!strcmp(key, "gather_gbs"))
    p->gather_gbs *= factor;
  else
    cr_assert(false, "unknown figure %s", key);
  return p;
}

/* Products of whole rows: as measured at 4096^3 (an H200, shares of rows), and never dearer for fewer of them. */
Test(passes_b_cost, whole_rows_as_measured) {
  static const struct {
    double cover, microseconds;
  } measured[] = {{0.096, 32}, {0.008, 26}};
  const pass_profile *p = pass_profile_of(arena, target("sm_90a"));
  const ir_kernel_row *row = ir_kernel_row_named("gemm_live_tma_128x256x64");
  pass_product q = {.batch = 1, .m = 4096, .n = 4096, .k = 4096, .a = IR_BF16, .b = IR_BF16, .c = IR_BF16};
  pass_tiling tiling = {.row = row, .m = row->m, .n = row->n, .k = row->k, .strip = 1, .gran = 1};
  for (int i = 0; i < IR_COUNT(measured); i++) {
    tiling.cover = measured[i].cover;
    double time = pass_cost_product(p, target("sm_90a"), &q, &tiling), us = measured[i].microseconds;
    cr_expect_float_eq(time, us, 0.12 * us, "cover %g: %g us, not %g", tiling.cover, time, us);
  }
  double before = 0;
  for (int rows = 0; rows <= 4096; rows += 64) {
    tiling.cover = rows / 4096.0;
    double time = pass_cost_product(p, target("sm_90a"), &q, &tiling);
    cr_expect_geq(time, before, "%d rows", rows);
    before = time;
  }
}

/* 1024^3 on a CPU takes twice as long on half of its cores (as measured: 14.4 and 7.3 ms); memory stays what it is. */
Test(passes_b_cost, fewer_cores) {
  const ir_target *cpu = target("cpu");
  const pass_profile *two = pass_profile_of(arena, cpu), *one = pass_profile_for_cores(arena, two, 1);
  pass_product q = {.batch = 1, .m = 1024, .n = 1024, .k = 1024, .a = IR_F32, .b = IR_F32, .c = IR_F32};
  pass_tiling tiling = {.m = 64, .n = 64, .k = 1, .cover = 1};
  double by_two = pass_cost_product(two, cpu, &q, &tiling), by_one = pass_cost_product(one, cpu, &q, &tiling);
  cr_expect_float_eq(by_one, 2 * by_two, 0.1 * by_one, "%g us, and %g by two", by_one, by_two);
  cr_expect_eq(one->bandwidth_gbs, two->bandwidth_gbs);
  cr_expect_eq(one->near_gbs, two->near_gbs / 2);
  cr_expect_eq(one->units, 1);
}

Test(passes_b_cost, directions) {
  const pass_profile *p = with("bandwidth_gbs", 1), *narrow = with("bandwidth_gbs", 0.1);
  const pass_profile *slow = with("launch_us", 10), *far = with("gather_gbs", 0.1);
  double detect = pass_cost_detect(p, 4096, 4096, IR_BF16, 64, 1, 0.3, false);
  cr_assert_gt(pass_cost_detect(narrow, 4096, 4096, IR_BF16, 64, 1, 0.3, false), 5 * detect);
  cr_assert_gt(pass_cost_detect(slow, 4096, 4096, IR_BF16, 64, 1, 0.3, false), detect + 20);
  cr_assert_gt(pass_cost_look(slow, 1000, false, 1), pass_cost_look(p, 1000, false, 1) + 20);
  cr_assert_lt(pass_cost_look(p, 1000, false, 1), detect, "a sample is not all of the operand");
  const char *row = "gemm_kgather_mma_64x128x32";
  cr_assert_gt(product_time(far, row, 64, 0.5), 3 * product_time(p, row, 64, 0.5));
  cr_assert_lt(pass_cost_detect(p, 4096, 4096, IR_BF16, 64, 1, 0.3, true), detect,
               "bits are 16 times less than values");
  double t = 4096.0 * 4096 * 2, w = t / 2, none = pass_cost_spread(p, t, w, 0), few = pass_cost_spread(p, t, w, 0.01), half = pass_cost_spread(p, t, w, 0.5);
  cr_expect_float_eq(none, p->launch_us + p->spread_us, 1e-9, "what is not listed is filled while the product runs");
  cr_expect_lt(few - none, 0.2 * (half - none), "of one column in a hundred 15 %% of sixteen are written");
  cr_expect_gt(half - none, pass_cost_beside(p, 1.4 * t + w) - p->launch_us, "of half of them all");
}

/* Few tiles and a long k: two blocks that share a tile win as long as their exchange is cheap; a streamed operand is as
 * fast as memory, and as what one unit takes from it. */
Test(passes_b_cost, few_tiles) {
  const ir_target *gpu = target("sm_90a");
  pass_profile p = *pass_profile_of(arena, gpu);
  pass_product q = {.batch = 1, .m = 64, .n = 2048, .k = 5632, .a = IR_BF16, .b = IR_BF16, .c = IR_BF16};
  pass_tiling whole = {
      .row = ir_kernel_row_named("gemm_tma_64x64x128"), .m = 64, .n = 64, .k = 128, .cover = 1};
  pass_tiling split = whole;
  split.row = ir_kernel_row_named("gemm_tma_64x64x128_split2");
  cr_assert_lt(pass_cost_product(&p, gpu, &q, &split), pass_cost_product(&p, gpu, &q, &whole));
  q.k = 512;
  cr_assert_gt(pass_cost_product(&p, gpu, &q, &split), pass_cost_product(&p, gpu, &q, &whole));
  q.k = 5632;
  pass_product few = q;
  few.m = 16;
  pass_tiling narrow = {.row = ir_kernel_row_named("gemm_tma_64x16x128"), .m = 16, .n = 64, .k = 128, .cover = 1}, four = narrow;
  four.row = ir_kernel_row_named("gemm_tma_64x16x128_split4");
  cr_expect_lt(pass_cost_product(&p, gpu, &few, &four), pass_cost_product(&p, gpu, &few, &narrow), "32 clusters of four go at once");
  few.n = 4096, few.k = 14336;
  cr_expect_gt(pass_cost_product(&p, gpu, &few, &four), pass_cost_product(&p, gpu, &few, &narrow), "64 are two waves");
  p.exchange_us *= 10;
  cr_assert_gt(pass_cost_product(&p, gpu, &q, &split), pass_cost_product(&p, gpu, &q, &whole));
  pass_tiling stream = {
      .row = ir_kernel_row_named("gemm_stream_8x16x256"), .m = 8, .n = 16, .k = 256, .cover = 1};
  q.m = 1;
  double before = pass_cost_product(&p, gpu, &q, &stream);
  cr_assert_lt(before, pass_cost_product(&p, gpu, &q, &whole));
  p.unit_gbs /= 4;
  cr_assert_gt(pass_cost_product(&p, gpu, &q, &stream), before);
  p.unit_gbs *= 4;
  q.m = 64;
  cr_assert_gt(pass_cost_product(&p, gpu, &q, &stream), 2 * before, "B is read again for every eight rows");
  p = *pass_profile_of(arena, gpu);
  pass_tiling eight = {.row = ir_kernel_row_named("gemm_tma_64x8x128_split4"), .m = 8, .n = 64, .k = 128, .cover = 1};
  q.m = 8, q.n = 1024;
  for (q.k = 2048; q.k <= 8192; q.k *= 4)
    cr_expect_eq(pass_cost_product(&p, gpu, &q, &stream) > pass_cost_product(&p, gpu, &q, &eight), q.k == 8192, "of a long k a block of a stream waits for load after load");
}

Test(passes_b_cost, break_even) {
  cr_assert_float_eq(pass_break_even(10, 110, 60), 0.5, 1e-12);
  cr_assert_eq(pass_break_even(70, 110, 60), 0, "never");
  cr_assert_eq(pass_break_even(10, 50, 60), 1, "always");
}

Test(passes_b_cost, profile_text_round_trip) {
  for (int i = 0; i < ir_target_count(); i++) {
    const pass_profile *p = pass_profile_of(arena, ir_target_at(i)), *again;
    ir_text text = ir_text_new(arena), second = ir_text_new(arena);
    pass_profile_print(p, &text);
    cr_assert_eq(
        pass_profile_parse(arena, ir_target_at(i), p->name, text.data, text.length, NULL, &again),
        SPC_OK);
    pass_profile_print(again, &second);
    cr_assert_str_eq(text.data, second.data);
  }
}

Test(passes_b_cost, profile_text_changes_one_figure) {
  const char *text = "# half the memory\nbandwidth_gbs = 2000 # GB/s\nrate mma_128x128 = 321\n";
  const pass_profile *p;
  cr_assert_eq(pass_profile_parse(arena, target("sm_90a"), "mine", text, strlen(text), NULL, &p),
               SPC_OK);
  cr_assert_eq(p->bandwidth_gbs, 2000);
  cr_assert_eq(p->launch_us, pass_profile_of(arena, target("sm_90a"))->launch_us);
}

Test(passes_b_cost, profile_text_faults) {
  static const char *const faults[] = {"bandwith_gbs = 1\n", "launch_us\n",
                                       "launch_us = fast\n", "launch_us = -1\n",
                                       "launch_us = inf\n",  "= 3\n"};
  for (int i = 0; i < IR_COUNT(faults); i++) {
    ir_sink *sink = ir_sink_new(arena);
    const pass_profile *p;
    spc_status status =
        pass_profile_parse(arena, target("cpu"), "bad", faults[i], strlen(faults[i]), sink, &p);
    cr_assert_eq(status, SPC_INVALID_INPUT, "%s", faults[i]);
    cr_assert_eq(sink->errors, 1, "%s", faults[i]);
  }
}
