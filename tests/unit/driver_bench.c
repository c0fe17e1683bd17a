/* `spc bench`: operands with the zeros that are asked for, the dense twin, the check, break-even.
 * No time is tested. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/bench.h"

typedef struct fixture {
  ir_arena *arena;
  drv_session session;
  bench b;
  jmp_buf out_of_memory;
} fixture;

static void start(fixture *f, const char *path, const char *kernel, const char *const *defines) {
  *f = (fixture){.arena = ir_arena_new()};
  f->session = (drv_session){.arena = f->arena, .sink = ir_sink_new(f->arena), .command = 'b'};
  f->session.options.kernel = kernel;
  for (; *defines; defines++) IR_PUSH(f->arena, &f->session.options.defines.items, *defines);
  cr_assert_eq(drv_load(&f->session, path), SPC_OK);
  f->b = (bench){.s = &f->session,
                 .arena = f->arena,
                 .out_of_memory = &f->out_of_memory,
                 .backend = DRV_CPU,
                 .target = ir_target_find("cpu"),
                 .runs = 1,
                 .random = {7}};
  cr_assert_eq(drv_pick_kernel(&f->session, &f->b.kernel), SPC_OK);
  cr_assert_eq(bench_data_open(&f->b), SPC_OK);
}

static void stop(fixture *f) {
  bench_side_close(f->b.ours);
  bench_side_close(f->b.dense);
  bench_data_close(&f->b);
  ir_arena_free(f->arena);
}

static void fill(fixture *f, double density, int rows, int cols) {
  bench_mask mask = {density, rows, cols};
  const char *why = "";
  cr_assert_eq(bench_data_fill(&f->b, &mask, true, &why), SPC_OK, "%s", why);
}

static void open_side(fixture *f, bool dense, bench_side **side) {
  bench_want want = {.label = dense ? "dense" : "spc", .dense = dense, .quiet = true};
  cr_assert_eq(bench_side_open(&f->b, &want, side), SPC_OK);
  double milliseconds;
  cr_assert_eq(bench_side_bind(*side), SPC_OK);
  cr_assert_eq(bench_side_time(*side, &milliseconds), SPC_OK);
}

/* The share of rows x cols blocks with a value; every block is all or nothing. */
static double share_of_blocks(const ir_view *view, int64_t rows, int64_t cols) {
  double kept = 0, all = 0;
  for (int64_t r = 0; r < view->dim[0]; r += rows)
    for (int64_t c = 0; c < view->dim[1]; c += cols) {
      int64_t stored = 0, cells = 0;
      for (int64_t i = r; i < r + rows && i < view->dim[0]; i++)
        for (int64_t k = c; k < c + cols && k < view->dim[1]; k++) {
          stored += ir_dtype_load(view->dtype, view->vals.data, i * view->dim[1] + k) != 0;
          cells++;
        }
      cr_assert(stored == 0 || stored == cells, "block %lld,%lld holds %lld of %lld", (long long)r,
                (long long)c, (long long)stored, (long long)cells);
      kept += stored != 0;
      all++;
    }
  return kept / all;
}

static const ir_view *let_of(fixture *f, const char *name, ir_bindings *all) {
  for (int i = 0; i < f->b.operands.count; i++) {
    ir_binding binding = {f->b.operands.at[i].tensor, f->b.operands.at[i].stored};
    IR_PUSH(f->arena, &all->list, binding);
  }
  ir_interp_options options = {0};
  spc_status status =
      ir_interp_ein(f->arena, f->b.kernel, f->b.sizes, all, &options, f->session.sink);
  drv_render(&f->session);
  cr_assert_eq(status, SPC_OK);
  for (int i = 0; i < all->list.count; i++)
    if (!strcmp(all->list.at[i].tensor->name, name)) return &all->list.at[i].view;
  cr_assert_fail("no %s", name);
  return NULL;
}

#define EXAMPLE(NAME) SPC_SOURCE_DIR "/examples/" NAME
static const char *const ffn_sizes[] = {"T=64", "D=48", "F=256", NULL};
static const char *const spmm_sizes[] = {"I=96", "K=160", "N=24", NULL};

Test(bench, a_mask_has_its_density_and_its_blocks) {
  fixture f;
  start(&f, EXAMPLE("spmm.spx"), "spmm", spmm_sizes);
  cr_assert(bench_sweeps(&f.b));
  static const bench_mask masks[] = {
      {0.1, 1, 1}, {0.3, 8, 1}, {0.3, 1, 8}, {0.5, 32, 32}, {1, 4, 4}};
  for (int i = 0; i < IR_COUNT(masks); i++) {
    fill(&f, masks[i].density, masks[i].rows, masks[i].cols);
    double share =
        share_of_blocks(&bench_operand_named(&f.b, "A")->dense, masks[i].rows, masks[i].cols);
    double blocks = 96.0 * 160 / (masks[i].rows * masks[i].cols);
    double spread = sqrt(masks[i].density * (1 - masks[i].density) / blocks);
    cr_assert_float_eq(share, masks[i].density, 5 * spread + 1e-12, "mask %d: %g", i, share);
  }
  stop(&f);
}

Test(bench, a_relu_gets_the_zeros_that_are_asked_for) {
  fixture f;
  start(&f, EXAMPLE("ffn.spx"), NULL, ffn_sizes);
  static const bench_mask masks[] = {
      {0.05, 1, 1}, {0.2, 8, 1}, {0.2, 1, 8}, {0.5, 16, 4}, {1, 1, 1}};
  for (int i = 0; i < IR_COUNT(masks); i++) {
    ir_bindings all = {0};
    fill(&f, masks[i].density, masks[i].rows, masks[i].cols);
    double share = share_of_blocks(let_of(&f, "h", &all), masks[i].rows, masks[i].cols);
    cr_assert_float_eq(share, masks[i].density, 0.1, "mask %d: %g", i, share);
  }
  stop(&f);
}

Test(bench, a_bias_inside_the_relu_does_not_matter) {
  static const char text[] =
      "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; kernel k { in x: f32[T,D]; in W: f32[F,D]; in b: "
      "f32[F]; let h[t,f] = relu(b[f] + sum[d] W[f,d]*x[t,d]); out y[t] = sum[f] h[t,f]; }";
  static const char *const sizes[] = {"T=64", "D=32", "F=200", NULL};
  fixture f;
  ir_bindings all = {0};
  char path[] = "/tmp/spc-bench-XXXXXX";
  int file = mkstemp(path);
  cr_assert(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
  close(file);
  start(&f, path, NULL, sizes);
  unlink(path);
  fill(&f, 0.2, 4, 1);
  double share = share_of_blocks(let_of(&f, "h", &all), 4, 1);
  cr_assert_float_eq(share, 0.2, 0.1, "%g", share);
  stop(&f);
}

Test(bench, repetitions_have_other_masks) {
  fixture f;
  start(&f, EXAMPLE("ffn.spx"), NULL, ffn_sizes);
  bench_operand *x = bench_operand_named(&f.b, "x"), *W1 = bench_operand_named(&f.b, "W1");
  cr_assert_eq(x->kind, BENCH_ROWS);
  cr_assert_eq(W1->kind, BENCH_COLS);
  fill(&f, 0.1, 1, 1);
  size_t bytes = (size_t)x->dense.vals.count * 2;
  void *before = ir_alloc(f.arena, bytes);
  memcpy(before, x->dense.vals.data, bytes);
  bench_mask mask = {0.1, 1, 1};
  const char *why = "";
  cr_assert_eq(bench_data_fill(&f.b, &mask, false, &why), SPC_OK);
  cr_assert_neq(memcmp(before, x->dense.vals.data, bytes), 0);
  stop(&f);
}

/* ---- the check and the twin --------------------------------------------------------------------
 */
static const struct {
  const char *path, *kernel;
  const char *define[6];
  int rows, cols;
} programs[] = {
    {EXAMPLE("ffn.spx"), NULL, {"T=17", "D=40", "F=72", NULL}, 1, 1},
    {EXAMPLE("gated_ffn.spx"), NULL, {"T=9", "D=24", "F=40", NULL}, 1, 1},
    {EXAMPLE("spmm.spx"), "spmm", {"I=33", "K=45", "N=20", NULL}, 1, 1},
    {EXAMPLE("spmm.spx"), "spmv", {"I=33", "K=45", NULL}, 1, 1},
    {EXAMPLE("sddmm.spx"), NULL, {"I=21", "J=18", "K=12", NULL}, 1, 1},
    {EXAMPLE("bsr_linear.spx"), NULL, {"T=5", "O=37", "K=71", NULL}, 16, 32},
    {EXAMPLE("qlin24.spx"), NULL, {"T=5", "J=19", "K=128", NULL}, 1, 1},
    {EXAMPLE("bsattn.spx"), NULL, {"B=1", "H=2", "S=128", NULL}, 64, 64},
    {EXAMPLE("moe.spx"), NULL, {"T=11", "D=12", "F=8", "E=4", "R=16", NULL}, 1, 1},
};

Test(bench, both_sides_are_what_the_interpreter_says) {
  if (!cg_cpu_available()) cr_skip_test("no LLVM in this build");
  for (int i = 0; i < IR_COUNT(programs); i++) {
    fixture f;
    start(&f, programs[i].path, programs[i].kernel, programs[i].define);
    fill(&f, 0.3, programs[i].rows, programs[i].cols);
    for (int dense = 0; dense < 2; dense++) {
      bench_verdict verdict = {0};
      open_side(&f, dense == 1, &f.b.ours);
      cr_assert_eq(bench_check(&f.b, &verdict), SPC_OK);
      cr_assert(verdict.done && verdict.right, "%s, %s: %s", programs[i].path,
                dense ? "dense" : "spc", verdict.why);
      bench_side_close(f.b.ours);
      f.b.ours = NULL;
    }
    stop(&f);
  }
}

/* What no run has written is poison, and the check sees it. */
Test(bench, the_check_can_fail) {
  if (!cg_cpu_available()) cr_skip_test("no LLVM in this build");
  fixture f;
  bench_verdict good = {0}, bad = {0};
  start(&f, EXAMPLE("spmm.spx"), "spmm", spmm_sizes);
  fill(&f, 0.2, 1, 1);
  open_side(&f, false, &f.b.ours);
  cr_assert_eq(bench_check(&f.b, &good), SPC_OK);
  cr_assert(good.done && good.right, "%s", good.why);
  cr_assert_eq(rt_run_poison(f.b.ours->run), SPC_OK);
  cr_assert_eq(bench_check(&f.b, &bad), SPC_OK);
  cr_assert(bad.done && !bad.right);
  stop(&f);
}

/* Too large for the interpreter: some rows are compared, and a fault in every row is seen. */
Test(bench, large_kernels_are_checked_by_rows) {
  if (!cg_cpu_available()) cr_skip_test("no LLVM in this build");
  static const char *const sizes[] = {"I=400", "K=300", "N=300", NULL};
  fixture f;
  bench_verdict good = {0}, bad = {0};
  start(&f, EXAMPLE("spmm.spx"), "spmm", sizes);
  fill(&f, 0.02, 1, 1);
  open_side(&f, false, &f.b.ours);
  cr_assert_eq(bench_check(&f.b, &good), SPC_OK);
  cr_assert(good.done && good.right, "%s", good.why);
  cr_assert(strstr(good.how, "rows of I") != NULL, "%s", good.how);
  cr_assert_eq(rt_run_poison(f.b.ours->run), SPC_OK);
  cr_assert_eq(bench_check(&f.b, &bad), SPC_OK);
  cr_assert(bad.done && !bad.right);
  stop(&f);
}

/* ---- break-even --------------------------------------------------------------------------------
 */
static double even(const double *ours, int count) {
  static const double at[] = {0.01, 0.1, 0.25, 0.5, 1};
  bench b = {0};
  ir_arena *arena = ir_arena_new();
  for (int i = 0; i < count; i++) {
    bench_point p = {.mask = {at[i], 1, 1}, .swept = true};
    p.ours = (bench_timing){.runs = 1, .median = ours[i]};
    p.dense = (bench_timing){.runs = 1, .median = 1};
    IR_PUSH(arena, &b.points, p);
  }
  double found = bench_break_even(&b, 1, 1);
  ir_arena_free(arena);
  return found;
}

Test(bench, break_even) {
  static const double crosses[] = {0.1, 0.5, 2, 4, 8}, never[] = {1.1, 1.2, 1.01, 2, 3},
                      always[] = {0.1, 0.2, 0.3, 0.4, 0.5}, guarded[] = {0.1, 0.5, 0.99, 1.01, 1},
                      noisy[] = {0.1, 1.2, 0.5, 1.02, 0.99};
  cr_assert_float_eq(even(crosses, 5), sqrt(0.1 * 0.25), 1e-9); /* half way in both logarithms */
  cr_assert_float_eq(even(never, 5), 0, 0);
  cr_assert_float_eq(even(always, 5), 1, 0);
  cr_assert_float_eq(even(guarded, 5), 0.25, 1e-9);
  cr_assert(even(noisy, 5) > 0.25);
  cr_assert_float_eq(even(always, 0), 0, 0);
}
