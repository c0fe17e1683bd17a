/* What is decided for small programs: stages, kernels, formats, guards, and how a profile moves
 * that. */
#include <criterion/criterion.h>

#include "passes/cost.h"
#include "passes/explain.h"
#include "passes/stage.h"
#include "tests/unit/passes_a_run.h"

#define FFN(DTYPE, HINT)                                                                           \
  "spx 1; dim T: dyn <= 4096; dim D = 4096; dim F = 16384; kernel net { in x: " DTYPE              \
  "[T,D]; in W1: " DTYPE "[D,F]; in W2: " DTYPE                                                    \
  "[F,D]; let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : " DTYPE " acc f32 ~ zeros(dynamic" HINT       \
  "); out y[t,o] = sum[f] h[t,f]*W2[f,o] : " DTYPE " acc f32; } "

#define FFN_HEAD                                                                                   \
  "spx 1; dim T: dyn <= 4096; dim D = 4096; dim F = 16384; kernel net { in x: bf16[T,D]; in W1: "  \
  "bf16[D,F]; in W2: bf16[F,D]; "                                                                  \
  "let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic"
#define FFN_TAIL "); out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32; } "

static a_run compile(const char *text, const char *target, const pass_profile *profile) {
  pass_options options = {
      .target = ir_target_find(target), .profile = profile, .stop_after = "stage"};
  a_run run = a_run_with(text, &options);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  return run;
}

static const ir_stage *stage(const a_run *run, const char *name) {
  for (int i = 0; i < run->kernel->stages.count; i++)
    if (!strcmp(run->kernel->stages.at[i]->name, name)) return run->kernel->stages.at[i];
  return NULL;
}

static const char *stages(const a_run *run) {
  ir_text text = ir_text_new(run->arena);
  for (int i = 0; i < run->kernel->stages.count; i++)
    ir_text_printf(&text, "%s%s", i ? " " : "", run->kernel->stages.at[i]->name);
  return text.data;
}

static const char *format_of(const a_run *run, const char *tensor) {
  ir_text text = ir_text_new(run->arena);
  const ir_tensor *t = ir_tensor_named(run->kernel, tensor);
  if (t->like)
    ir_text_printf(&text, "like(%s)", t->like->name);
  else
    ir_format_print(t->format, &text);
  return text.data;
}

Test(passes_b_choice, ffn_on_the_cpu) {
  a_run run = compile(FFN("f32", ", density=0.02"), "cpu", NULL);
  cr_assert_str_eq(stages(&run), "h detect.h guard.h y y.dense");
  const ir_stage *y = stage(&run, "y"), *dense = stage(&run, "y.dense"),
                 *guard = stage(&run, "guard.h");
  cr_assert_eq(y->reads.count, 1);
  const ir_list *list = y->reads.at[0];
  cr_assert_str_eq(list->tensor->name, "h");
  cr_assert_str_eq(list->axis->name, "f");
  cr_assert_str_eq(list->strip_index->name, "t");
  cr_assert(list->strip_dim == 0 && list->axis_dim == 1 && list->gran == 1);
  cr_assert_eq(stage(&run, "detect.h")->detects, list);
  cr_assert_eq(guard->reads.at[0], list);
  cr_assert(list->verdict && list->threshold && list->counts && list->ids);
  cr_assert(y->when.list == list && !y->when.above && dense->when.list == list &&
            dense->when.above);
  cr_assert_eq(y->stmts.at[0], dense->stmts.at[0]);
  cr_assert(y->when.threshold > 0 && y->when.threshold < 1 &&
            y->when.threshold == dense->when.threshold);
  cr_assert_eq(dense->reads.count, 0);
  for (int i = 0; i < run.kernel->stages.count; i++)
    cr_assert_str_eq(run.kernel->stages.at[i]->row, "loop");
  a_free(&run);
}

Test(passes_b_choice, ffn_on_gpus) {
  static const char *const targets[] = {"sm_80", "sm_90a"};
  for (int i = 0; i < IR_COUNT(targets); i++) {
    a_run run = compile(FFN("bf16", ", density=0.002"), targets[i], NULL);
    cr_assert_str_eq(stages(&run), "h detect.h guard.h y y.dense", "%s", targets[i]);
    cr_assert_str_eq(format_of(&run, "h"), "dense_t");
    const ir_stage *h = stage(&run, "h"), *y = stage(&run, "y"), *dense = stage(&run, "y.dense");
    const ir_kernel_row *listed = ir_kernel_row_named(y->row);
    cr_assert(listed && ir_kernel_gathers(listed), "%s", y->row);
    cr_assert(ir_kernel_row_named(h->row) && ir_kernel_row_named(dense->row));
    cr_assert(ir_kernel_row_named(dense->row)->layout_a != 'r',
              "the dense branch reads h as it lies");
    cr_assert_eq(h->detects, y->reads.at[0]);
    cr_assert(y->reads.at[0]->fused && y->reads.at[0]->bits);
    cr_assert_str_eq(stage(&run, "detect.h")->row, "lists_from_bits");
    cr_assert_str_eq(stage(&run, "guard.h")->row, "guard");
    a_free(&run);
  }
}

static const ir_candidate *chosen(const a_run *run, const char *target) {
  return pass_chosen(run->kernel, ir_tensor_named(run->kernel, target));
}

/* Independent zeros would fill every strip, but rows are often alike: the guard measures. */
Test(passes_b_choice, fine_zeros_are_measured) {
  static const char *const hints[] = {", density=0.05", ", density=0.02..0.15", ""};
  static const char *const targets[] = {"sm_80", "sm_90a", "cpu"};
  for (int h = 0; h < IR_COUNT(hints); h++)
    for (int t = 0; t < IR_COUNT(targets); t++) {
      char text[2048];
      snprintf(text, sizeof text, "%s%s%s", FFN_HEAD, hints[h], FFN_TAIL);
      a_run run = compile(text, targets[t], NULL);
      cr_assert_str_eq(stages(&run), "h detect.h guard.h y y.dense", "%s on %s", hints[h],
                       targets[t]);
      const ir_candidate *y = chosen(&run, "y"), *dense = pass_dense_branch(run.kernel, y->target);
      cr_assert(y->guarded && dense && y->break_even > 0.2, "%s on %s", hints[h], targets[t]);
      cr_assert_lt(y->expected, dense->expected);
      cr_assert_leq(y->microseconds_low, y->microseconds_high);
      cr_assert_lt(y->microseconds_high, dense->microseconds * 1.05, "looking is cheap");
      a_free(&run);
    }
}

/* The mean over densities and correlations lies between the best case and dense with a look in
 * vain. */
Test(passes_b_choice, what_is_expected_has_bounds) {
  a_run run = compile(FFN("bf16", ", density=0.05"), "sm_90a", NULL);
  const ir_candidate *y = chosen(&run, "y"), *dense = pass_dense_branch(run.kernel, y->target);
  cr_assert_gt(y->expected, dense->microseconds * 0.05);
  cr_assert_lt(y->expected, dense->microseconds + y->index_microseconds);
  cr_assert_float_eq(y->expected, y->microseconds_likely, 1e-9, "one density");
  cr_assert_eq(dense->expected, dense->microseconds);
  a_free(&run);
}

static a_run few_rows(int64_t tokens, const char *schedule) {
  int64_t sizes[] = {tokens, 4096, 16384};
  char text[1024];
  pass_options options = {
      .target = ir_target_find("sm_90a"), .sizes = sizes, .stop_after = "stage"};
  snprintf(text, sizeof text, "%s%s", FFN("bf16", ", density=0.05"), schedule);
  return a_run_with(text, &options);
}

static int count_of(const a_run *run, bool skips) {
  int count = 0;
  for (int i = 0; i < run->kernel->candidates.count; i++) {
    const ir_candidate *c = run->kernel->candidates.at[i];
    const ir_kernel_row *row = ir_kernel_row_named(c->row);
    if (!c->operand || !row || ir_kernel_skips(row) != skips) continue;
    cr_assert(skips == !c->axis, "%s", c->label);
    count++;
  }
  return count;
}

/* One token: its tile of 8 holds one row, so the cover is the density. */
Test(passes_b_choice, strips_hold_no_more_rows_than_there_are) {
  a_run run = few_rows(1, "");
  for (int i = 0; i < run.kernel->candidates.count; i++)
    if (run.kernel->candidates.at[i]->operand)
      cr_assert_float_eq(run.kernel->candidates.at[i]->cover, 0.05, 1e-9);
  cr_assert_gt(count_of(&run, true), 0);
  a_free(&run);
}

/* Few rows: kernels that look at zeros themselves instead of lists, unless lists are asked for. */
Test(passes_b_choice, few_rows_need_no_lists) {
  a_run few = few_rows(1, ""), many = few_rows(65, "");
  cr_assert(ir_kernel_skips(ir_kernel_row_named(chosen(&few, "y")->row)), "%s", chosen(&few, "y")->row);
  cr_assert_str_eq(stages(&few), "h y");
  cr_assert_eq(count_of(&few, false), 0);
  cr_assert_eq(count_of(&many, true), 0);
  cr_assert_gt(count_of(&many, false), 0);
  a_run asked = few_rows(1, " schedule net { compact h axis=f gran=64x1; }");
  cr_assert_not_null(chosen(&asked, "y")->axis);
  a_free(&few), a_free(&many), a_free(&asked);
}

/* A tile of 8 rows looks at zeros itself, whoever makes them: before each such kernel a sample is taken, and a dense one stands behind. */
Test(passes_b_choice, few_rows_have_dense_behind_them) {
  for (int64_t tokens = 2; tokens <= 64; tokens += 31) {
    a_run run = few_rows(tokens, " schedule net { tile y t=8 o=64 f=256; }");
    const ir_candidate *y = chosen(&run, "y"), *dense = pass_dense_branch(run.kernel, y->target);
    cr_assert_str_eq(stages(&run), "h guard.h y y.dense", "%d tokens", (int)tokens);
    cr_assert(y->guarded && dense && y->break_even > 0 && y->break_even < 1, "%d tokens: %g", (int)tokens, y->break_even);
    a_free(&run);
  }
}

/* Where even aligned zeros win less than looking costs, nobody looks. */
Test(passes_b_choice, looking_that_cannot_pay_is_left_out) {
  a_run full = compile(FFN("bf16", ", density=0.9"), "sm_90a", NULL);
  cr_assert_str_eq(stages(&full), "h y");
  a_free(&full);
  a_run tiny =
      compile("spx 1; dim N = 128; kernel net { in x: bf16[N,N]; in V: bf16[N,N]; in W: bf16[N,N]; "
              "let h[t,f] = relu(sum[d] x[t,d]*V[d,f]) ~ zeros(dynamic, density=0.05); "
              "out y[t,o] = sum[f] h[t,f]*W[f,o]; }",
              "sm_90a", NULL);
  cr_assert_str_eq(stages(&tiny), "h y");
  a_free(&tiny);
}

Test(passes_b_choice, every_candidate_has_a_reason) {
  a_run run = compile(FFN("bf16", ", density=0.01"), "sm_90a", NULL);
  int chosen = 0;
  for (int i = 0; i < run.kernel->candidates.count; i++) {
    const ir_candidate *c = run.kernel->candidates.at[i];
    cr_assert(*c->label && *c->why, "candidate %d", i);
    chosen += c->verdict == IR_CHOSEN;
  }
  cr_assert_eq(chosen, run.kernel->stmts.count);
  a_free(&run);
}

static double threshold(const char *text, const pass_profile *profile) {
  a_run run = compile(text, "sm_90a", profile);
  double at = 0;
  for (int i = 0; i < run.kernel->stages.count; i++)
    if (run.kernel->stages.at[i]->when.list) at = run.kernel->stages.at[i]->when.threshold;
  a_free(&run);
  return at;
}

/* Columns of 128, so that lists pay; the operand lies as a gather wants it and its values are read.
 */
#define MASKED(SIZE)                                                                               \
  "spx 1; dim M = " SIZE "; dim K = " SIZE                                                         \
  "; kernel net { in A: bf16[M,K] as dense_t ~ zeros(dynamic, density=0.05, gran=128x1); "         \
  "in B: bf16[K,M]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"

Test(passes_b_choice, a_profile_moves_the_break_even) {
  ir_arena *arena = ir_arena_new();
  pass_profile base = *pass_profile_of(arena, ir_target_find("sm_90a")), slow = base, narrow = base;
  slow.launch_us *= 10;
  narrow.bandwidth_gbs /= 10;
  double at = threshold(MASKED("4096"), NULL);
  cr_assert(at > 0.3 && at <= 1, "%g", at);
  cr_assert_float_eq(threshold(MASKED("4096"), &slow), at, 0.02, "one launch looks at the operand, whichever branch is meant");
  cr_assert_lt(threshold(MASKED("4096"), &narrow), at, "detection reads the operand");
  cr_assert_gt(threshold(MASKED("2048"), NULL), 0);
  cr_assert_eq(threshold(MASKED("2048"), &slow), 0, "not worth their launches any more: dense");
  ir_arena_free(arena);
}

static const char *row_of(const char *text, const pass_profile *profile) {
  a_run run = compile(text, "sm_90a", profile);
  const char *row = ir_kernel_row_named(stage(&run, "C")->row)->name; /* of the table: it stays */
  a_free(&run);
  return row;
}

/* What looking in vain costs beyond the floor has to be saved several times, unless the list is far faster. */
#define FEW(DENSITY, LAYOUT)                                                                       \
  "spx 1; dim M = 512; dim K = 4096; kernel net { in A: bf16[M,K] " LAYOUT "~ zeros(dynamic, density=" DENSITY ", gran=128x1); " \
  "in B: bf16[K,K]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"

Test(passes_b_choice, looking_in_vain_keeps_to_the_floor) {
  ir_arena *arena = ir_arena_new();
  pass_profile base = *pass_profile_of(arena, ir_target_find("sm_90a")), careless = base, quick = base;
  careless.floor_odds = 0;
  quick.launch_us = quick.start_us = quick.sample_us = 0.1; /* lists take half of dense and less; looking is what it was */
  quick.in_vain_us = 4;
  cr_assert_eq(threshold(FEW("0.1", "as dense_t "), NULL), 0, "dense: 2 us are won, or 6 lost");
  cr_assert_eq(threshold(FEW("0.1", ""), NULL), 0);
  cr_assert_gt(threshold(FEW("0.1", "as dense_t "), &careless), 0);
  cr_assert_gt(threshold(FEW("0.01", "as dense_t "), &quick), 0, "far faster");
  cr_assert_gt(threshold(MASKED("4096"), NULL), 0, "3 %% of that are more than looking");
  ir_arena_free(arena);
}

/* Where blocks share tiles from a cover on, the time is no line: what the guard is told is where it first meets dense. */
Test(passes_b_choice, a_break_even_is_where_dense_is_first_met) {
  ir_arena *arena = ir_arena_new();
  pass_profile careless = *pass_profile_of(arena, ir_target_find("sm_90a"));
  careless.floor_odds = 0;
  double at = threshold(FEW("0.1", ""), &careless);
  cr_assert(at > 0.1 && at < 0.45, "%g; 46 us were measured at a half, and 26 of dense", at);
  ir_arena_free(arena);
}

#define STRIPS(GRAN)                                                                               \
  "spx 1; dim M = 4096; kernel net { in A: bf16[M,M] as dense_t ~ zeros(dynamic, density=0.3, gran=" GRAN "); " \
  "in B: bf16[M,M]; out C[m,n] = sum[k] A[m,k]*B[k,n] : bf16 acc f32; }"

Test(passes_b_choice, two_strips_are_told_apart_where_that_moves_less) {
  ir_arena *arena = ir_arena_new();
  pass_profile slow = *pass_profile_of(arena, ir_target_find("sm_90a")), slower = slow;
  slow.pair_gbs *= 0.9, slower.pair_gbs /= 2;
  slower.skipped_us = 0; /* launches that leave are a reason for strips of 128, which lose none */
  cr_assert_str_eq(row_of(STRIPS("64x1"), NULL), "gemm_kpair_tma_128x256x64");
  cr_assert_str_eq(row_of(STRIPS("128x1"), NULL), "gemm_kgather_tma_128x256x64", "there is nothing to tell apart");
  cr_assert_str_eq(row_of(STRIPS("64x1"), &slower), "gemm_kgather_tma_64x512x32");
  double at = threshold(STRIPS("64x1"), NULL), strips = threshold(STRIPS("64x1"), &slower);
  cr_assert(at > strips && at < 0.85, "%g, of strips alone %g", at, strips);
  cr_assert_lt(threshold(STRIPS("64x1"), &slow), at);
  ir_arena_free(arena);
}

Test(passes_b_choice, options_that_forbid_lists) {
  for (int i = 0; i < 2; i++) {
    pass_options options = {.target = ir_target_find("cpu"), .stop_after = "stage"};
    if (i == 0)
      options.strict_nan = true;
    else
      options.batch_invariant = true;
    a_run run = a_run_with(FFN("f32", ", density=0.01"), &options);
    cr_assert_eq(run.status, SPC_OK);
    cr_assert_str_eq(stages(&run), "h y", "%s", i ? "batch invariant" : "strict NaN");
    a_free(&run);
  }
}

Test(passes_b_choice, forced_verdicts) {
  for (int force = 1; force <= 2; force++) {
    pass_options options = {
        .target = ir_target_find("cpu"), .stop_after = "stage", .force_guard = force};
    a_run run = a_run_with(FFN("f32", ", density=0.01"), &options);
    double at = stage(&run, "y")->when.threshold;
    cr_assert(force == 1 ? at > 1 : at == 0, "%g", at);
    a_free(&run);
  }
}

Test(passes_b_choice, sparse_storage_is_never_made_dense) {
  a_run run = compile(
      "spx 1; dim I: dyn; dim J: dyn; dim K: dyn; kernel t { in A: f32[I,K] as csr; in B: f32[K,J] "
      "as csr; "
      "in v: f32[J]; let C[i,j] = sum[k] A[i,k]*B[k,j]; out y[i] = sum[j] C[i,j]*v[j] + v[0]; }",
      "cpu", NULL);
  for (int i = 0; i < run.kernel->stmts.count; i++) {
    const ir_tensor *t = run.kernel->stmts.at[i]->target;
    if (t->rank == 2) cr_assert_str_eq(format_of(&run, t->name), "csr");
  }
  a_free(&run);
}

Test(passes_b_choice, assembled_outputs_have_their_workspaces) {
  a_run run = compile(
      "spx 1; dim I: dyn; dim J: dyn; kernel t { in A: f32[I,J] as csr; in B: f32[I,J] as csr; "
      "out C[i,j] = A[i,j] + B[i,j] as csr; }",
      "sm_90a", NULL);
  static const char *const parts[] = {"C.count", "C.at", "C.value"};
  cr_assert(stage(&run, "C")->assembled);
  cr_assert_eq(run.kernel->workspaces.count, 3);
  for (int i = 0; i < 3; i++) {
    const ir_buf *buf = run.kernel->workspaces.at[i];
    cr_assert_str_eq(buf->name, parts[i]);
    cr_assert_eq(buf->count != NULL, i == 0);
    cr_assert(buf->first == 0 && buf->last == 0);
  }
  a_free(&run);
}

Test(passes_b_choice, sampled_values_take_the_structure_of_the_sample) {
  a_run run = compile(
      "spx 1; dim I: dyn; dim J: dyn; dim K: dyn; kernel t { in S: f32[I,J] as csr; in A: "
      "f32[I,K]; in B: f32[J,K]; "
      "in v: f32[J]; let C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k]; let E[i,j] = relu(C[i,j]); "
      "out y[i] = sum[j] E[i,j]*v[j]; }",
      "cpu", NULL);
  for (int i = 0; i < run.kernel->stmts.count; i++) {
    const ir_tensor *t = run.kernel->stmts.at[i]->target;
    if (t->rank == 2) cr_assert_str_eq(format_of(&run, t->name), "like(S)");
  }
  a_free(&run);
}

Test(passes_b_choice, contradicting_level_orders_read_a_copy) {
  a_run run = compile("spx 1; dim N: dyn; kernel t { in A: f32[N,N] as csr; in B: f32[N,N] as csr; "
                      "out C[i,j] = A[i,j] * B[j,i] as csr; }",
                      "cpu", NULL);
  cr_assert_eq(run.kernel->stages.count, 2);
  const ir_stage *convert = run.kernel->stages.at[0];
  cr_assert_eq(convert->kind, IR_STAGE_CONVERT);
  cr_assert_str_eq(convert->source->name, "B");
  cr_assert_str_eq(format_of(&run, convert->dest->name), "csc");
  cr_assert(a_says(&run, "R0410"));
  a_free(&run);
}

/* Another name for everything gives the same decisions. */
Test(passes_b_choice, names_do_not_matter) {
  a_run one = compile(FFN("bf16", ", density=0.002"), "sm_90a", NULL);
  a_run two = compile("spx 1; dim A: dyn <= 4096; dim B = 4096; dim C = 16384; kernel other { in "
                      "W2: bf16[C,B]; in p: bf16[A,B]; "
                      "in q: bf16[B,C]; let r[a,b] = relu(sum[c] p[a,c]*q[c,b]) : bf16 acc f32 ~ "
                      "zeros(dynamic, density=0.002); "
                      "out s[a,d] = sum[b] r[a,b]*W2[b,d] : bf16 acc f32; }",
                      "sm_90a", NULL);
  cr_assert_eq(one.kernel->stages.count, two.kernel->stages.count);
  for (int i = 0; i < one.kernel->stages.count; i++) {
    const ir_stage *a = one.kernel->stages.at[i], *b = two.kernel->stages.at[i];
    cr_assert_str_eq(a->row, b->row);
    cr_assert_eq(a->microseconds, b->microseconds);
    cr_assert_eq(a->when.threshold, b->when.threshold);
  }
  a_free(&one);
  a_free(&two);
}
