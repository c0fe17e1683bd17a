/* Every directive: honoured, or refused with its code; the printed schedule makes the same choices
 * again. */
#include <criterion/criterion.h>

#include "passes/explain.h"
#include "passes/stage.h"
#include "tests/unit/passes_a_run.h"

static const char *const net =
    "spx 1; dim T: dyn <= 4096; dim D = 4096; dim F = 16384; kernel net { in x: bf16[T,D]; in W1: "
    "bf16[D,F]; in W2: bf16[F,D]; "
    "let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, density=0.002); "
    "out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32; } ";

static a_run with_schedule(const char *program, const char *directives, const char *target) {
  char text[4096];
  snprintf(text, sizeof text, "%s schedule net { %s }", program, directives);
  pass_options options = {.target = ir_target_find(target), .stop_after = "stage"};
  return a_run_with(text, &options);
}

static const ir_stage *stage(const a_run *run, const char *name) {
  for (int i = 0; i < run->kernel->stages.count; i++)
    if (!strcmp(run->kernel->stages.at[i]->name, name)) return run->kernel->stages.at[i];
  return NULL;
}

Test(passes_b_schedule, honoured) {
  a_run run = with_schedule(net, "compact h axis=f gran=64x1;", "sm_90a");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert_eq(stage(&run, "y")->reads.at[0]->strip, 64);
  a_free(&run);

  run = with_schedule(net, "compact h axis=f gran=16x1;", "cpu");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert_eq(stage(&run, "y")->reads.at[0]->strip, 16);
  a_free(&run);

  run = with_schedule(net, "dense y;", "sm_90a");
  cr_assert(run.status == SPC_OK && run.kernel->lists.count == 0, "%s", a_rendered(&run));
  a_free(&run);

  run = with_schedule(net, "dense h;", "cpu");
  cr_assert(run.status == SPC_OK && run.kernel->lists.count == 0, "%s", a_rendered(&run));
  a_free(&run);

  run = with_schedule(net, "tile h t=64 f=64 d=32;", "sm_90a");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert_str_eq(stage(&run, "h")->row, "gemm_mma_64x64x32");
  a_free(&run);

  static const char *const packed[] = {"csr", "twell(256,8)", "coo", "csc", "bsr(8,8)", "ell(64)"};
  for (int i = 0; i < IR_COUNT(packed); i++)
    for (int gpu = 0; gpu < 2; gpu++) {
      char directives[96];
      snprintf(directives, sizeof directives, "format h = %s;%s", packed[i],
               gpu ? " tile h t=64 f=64 d=32;" : "");
      run = with_schedule(net, directives, gpu ? "sm_90a" : "cpu");
      cr_assert_eq(run.status, SPC_OK, "%s: %s", directives, a_rendered(&run));
      for (int l = 0; l < run.kernel->lists.count; l++)
        cr_assert_null(run.kernel->lists.at[l]->counts, "%s: all there is is a verdict by how much of it is stored", directives);
      cr_assert_eq(stage(&run, "convert.h.computed")->dest, ir_tensor_named(run.kernel, "h"));
      if (gpu) cr_assert_str_eq(stage(&run, "h.computed")->row, "gemm_mma_64x64x32");
      a_free(&run);
    }

  run = with_schedule(net, "dense y; format h = dense_t;", "cpu");
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_assert(!ir_format_is_row_major(ir_tensor_named(run.kernel, "h")->format));
  a_free(&run);
}

typedef struct refusal {
  const char *target, *directives, *code;
} refusal;

Test(passes_b_schedule, refused) {
  static const refusal cases[] = {
      {"sm_90a", "compact h axis=f gran=48x1;", "E0513"},
      {"cpu", "compact h axis=t gran=1x64;", "E0511"},
      {"cpu", "compact y axis=o gran=8x1;", "E0511"},
      {"cpu", "compact h axis=f gran=8x1; dense y;", "E0515"},
      {"sm_90a", "tile y t=128 o=256 f=512;", "E0513"},
      {"cpu", "tile y t=7;", "E0513"},
      {"sm_90a", "split y f=4;", "E0513"},
      {"sm_90a", "library y;", "E0514"},
      {"cpu", "library h;", "E0514"},
      {"cpu", "stages 4;", "E0516"},
      {"cpu", "warps 8;", "E0516"},
      {"sm_90a", "stages 17;", "E0513"},
      {"cpu", "format h = csr; compact h axis=f gran=8x1;", "E0515"},
      {"cpu", "format y = csr;", "E0512"},
  };
  for (int i = 0; i < IR_COUNT(cases); i++) {
    a_run run = with_schedule(net, cases[i].directives, cases[i].target);
    cr_expect_eq(run.status, SPC_INVALID_INPUT, "%s", cases[i].directives);
    cr_expect(a_says(&run, cases[i].code), "%s: wants %s, says %s", cases[i].directives,
              cases[i].code, a_rendered(&run));
    a_free(&run);
  }
}

Test(passes_b_schedule, an_option_forbids_what_a_directive_asks_for) {
  char text[4096];
  snprintf(text, sizeof text, "%s schedule net { compact h axis=f gran=8x1; }", net);
  pass_options options = {.target = ir_target_find("cpu"), .strict_nan = true};
  a_run run = a_run_with(text, &options);
  cr_assert_eq(run.status, SPC_INVALID_INPUT);
  cr_assert(a_says(&run, "E0515"), "%s", a_rendered(&run));
  a_free(&run);
}

static const char *tile_text(const a_run *run) {
  ir_text text = ir_text_new(run->arena);
  ir_print(run->program, &text);
  const char *at = strstr(text.data, "candidate");
  return at ? at : text.data;
}

Test(passes_b_schedule, printed_and_fed_back) {
  static const char *const targets[] = {"cpu", "sm_80", "sm_90a", "cpu"};
  for (int i = 0; i < IR_COUNT(targets); i++) {
    a_run one = with_schedule(net, i == 3 ? "format h = twell(256,8);" : "", targets[i]);
    cr_assert_eq(one.status, SPC_OK, "%s", a_rendered(&one));
    ir_text schedule = ir_text_new(one.arena);
    pass_explain_schedule(one.program, one.kernel, &schedule);
    char text[8192];
    snprintf(text, sizeof text, "%s %s", net, schedule.data);
    pass_options options = {.target = ir_target_find(targets[i]), .stop_after = "stage"};
    a_run two = a_run_with(text, &options);
    cr_assert_eq(two.status, SPC_OK, "%s\n%s", schedule.data, a_rendered(&two));
    cr_assert_str_eq(tile_text(&one), tile_text(&two), "%s", schedule.data);
    a_free(&one);
    a_free(&two);
  }
}
