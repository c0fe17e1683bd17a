/* Dumps of the real pipeline: after every pass, on every kind of target, what is printed reads back
 * to the same text, and a clone prints the same.  A field that a pass sets and the text loses fails
 * here. */
#include <criterion/criterion.h>

#include "frontend/frontend.h"
#include "ir/target.h"
#include "passes/pass.h"

static const char *const sources[] = {
    "spx 1; dim T: dyn <= 4096; dim D = 256; dim F = 1024;\n"
    "kernel ffn { in x: bf16[T,D]; in W1: bf16[D,F]; in W2: bf16[F,D] const;\n"
    "  let h[t,f] = relu(sum[d] x[t,d]*W1[d,f]) : bf16 acc f32 ~ zeros(dynamic, "
    "density=0.02..0.15);\n"
    "  out y[t,o] = sum[f] h[t,f]*W2[f,o] : bf16 acc f32; }\n"
    "schedule ffn for sm_90 { dense y; }",
    "spx 1; dim I: dyn; dim J: dyn; dim K: dyn;\n"
    "kernel sddmm { in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K];\n"
    "  out C[i,j] = S[i,j] * sum[k] A[i,k]*B[j,k] as like(S); }\n"
    "kernel spgemm { in A: f32[I,K] as csr; in B: f32[K,J] as csr; out C[i,j] = sum[k] "
    "A[i,k]*B[k,j] as csr; }",
    "spx 1; dim T: dyn; dim D = 32; dim E = 4; dim R: dyn;\n"
    "kernel moe { in x: f32[T,D]; in off: i32[E+1]; in perm: i32[R]; in w: f32[R]; in W: "
    "f32[E,D,D];\n"
    "  ragged r in off[e]..off[e+1];\n"
    "  out y[perm[r],o] += w[r] * sum[d] silu(x[perm[r],d])*W[e,d,o] : f32[T,D] acc f32 "
    "order(fixed); }",
    "spx 1; dim N = 64; dim Q: dyn;\n"
    "format blocks(b) = [i,j] -> [ i/b: dense, j/b: compressed, i%b: dense, j%b: dense ];\n"
    "kernel att { in p: f32[Q,N]; in M: pattern[Q,N] as blocks(8);\n"
    "  let a[i,j] = 0.125*p[i,j] on M[i,j] and j <= i fill -inf;\n"
    "  out s[i,j] = softmax[j](a[i,j]); out k[i,j] = topk[j](p[i,j], 4); out b[i] = argmax[j] "
    "p[i,j]; }"};

static void check_dump(void *user, const char *title, const char *text) {
  ir_arena *arena = ir_arena_new();
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = NULL;
  ir_text again = ir_text_new(arena), clone = ir_text_new(arena), messages = ir_text_new(arena);
  const char *begin = strstr(text, "spc.ir");
  cr_assert_not_null(begin, "%s", title);
  spc_status status = ir_parse(arena, title, begin, strlen(begin), sink, &program);
  ir_sink_render(sink, &messages, false);
  cr_assert_eq(status, SPC_OK, "%s: %s", title, messages.data);
  ir_print(program, &again);
  cr_assert_str_eq(again.data, begin, "%s", title);
  ir_print(ir_clone(arena, program), &clone);
  cr_assert_str_eq(clone.data, begin, "%s", title);
  ++*(int *)user;
  ir_arena_free(arena);
}

static void run_pipeline(const char *source, const char *target) {
  ir_arena *arena = ir_arena_new();
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = NULL;
  int dumps = 0;
  ir_text messages = ir_text_new(arena);
  pass_options options = {.target = ir_target_find(target),
                          .print_after = "all",
                          .verify_each = true,
                          .print = check_dump,
                          .print_user = &dumps};
  spc_status status = fe_compile(arena, "t.spx", source, strlen(source), NULL, sink, &program);
  if (status == SPC_OK) status = pass_pipeline(program, &options, sink);
  ir_sink_render(sink, &messages, false);
  cr_assert_eq(status, SPC_OK, "%s: %s", target, messages.data);
  cr_assert_geq(dumps, 9);
  ir_arena_free(arena);
}

Test(ir_dumps, every_pass_prints_what_reads_back) {
  static const char *const targets[] = {"cpu", "sm_80", "sm_90a"};
  for (int i = 0; i < IR_COUNT(sources); i++)
    for (int k = 0; k < IR_COUNT(targets); k++) run_pipeline(sources[i], targets[k]);
}
