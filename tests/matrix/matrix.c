/* matrix.c - every expression in every mix of formats, dtypes and shape classes, on every back end
 * that is here, against the reference interpreter.  Usage: matrix [--groups N] [--seed S] [--only
 * NAME] [--target T] [--share I/N]
 *
 * A group is one program (expression, formats, dtype, result format, pipeline), compiled once; each
 * group runs over all shape classes.  Default: a pseudo-random choice of groups that covers every
 * pair (expression, format) first. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/compare.h"
#include "ir/interp.h"
#include "passes/pass.h"
#include "runtime/cublaslt.h"
#include "runtime/plan.h"
#include "tests/matrix/cases.h"

enum { MOST_OPERANDS = 4 };

typedef struct operand {
  char name[8], dims[32],
      places[8]; /* places: the size of the axis that it holds places of, or "" */
  int rank;
  const char *format;
} operand;

typedef struct group {
  const matrix_expr *expr;
  operand operands[MOST_OPERANDS];
  int operand_count;
  const char *dtype, *result; /* result format, "" dense */
  const char *forced;         /* format of `let h` by a schedule, "" none */
  unsigned wide;              /* operands with i64 positions, a bit each */
  int pipeline; /* 0 default, 1 no fusion, 2 strict_nan, 3 reproducible, 4 batch invariant */
} group;

typedef struct tally {
  long cases, failed, refused;
} tally;

static uint64_t state = 1;
static uint32_t random_u32(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 33);
}
static int pick(int n) { return (int)(random_u32() % (uint32_t)n); }

static void parse_operands(const char *text, group *g) {
  g->operand_count = 0;
  while (*text) {
    operand *o = &g->operands[g->operand_count++];
    int n = 0;
    sscanf(text, "%7[^:]:%31[^ :]%n", o->name, o->dims, &n);
    o->rank = 1;
    o->places[0] = 0;
    if (text[n] == ':') {
      text += n;
      sscanf(text, ":%7[^ ]%n", o->places, &n);
    }
    for (const char *c = o->dims; *c; c++) o->rank += *c == ',';
    text += n;
    while (*text == ' ') text++;
  }
}

static const char *choose_format(int rank, int i) {
  if (rank == 1) return matrix_formats1[i % IR_COUNT(matrix_formats1)];
  if (rank == 2) return matrix_formats2[i % IR_COUNT(matrix_formats2)];
  if (rank == 3) return matrix_formats3[i % IR_COUNT(matrix_formats3)];
  return matrix_formats4[i % IR_COUNT(matrix_formats4)];
}

/* The program as .spx text. */
static const char *program_text(ir_arena *arena, const group *g) {
  ir_text t = ir_text_new(arena);
  ir_text_put(&t, MATRIX_HEAD "kernel k {\n");
  for (int i = 0; i < g->operand_count; i++) {
    const operand *o = &g->operands[i];
    ir_text_printf(&t, "  in %s: %s[%s]%s%s;\n", o->name, o->places[0] ? "i32" : g->dtype, o->dims,
                   o->format[0] ? " as " : "", o->format);
  }
  ir_text_put(&t, "  ");
  for (const char *c = g->expr->text; *c; c++) {
    if (*c == '@')
      ir_text_put(&t, g->dtype);
    else if (*c != '$')
      ir_text_putn(&t, c, 1);
    else if (c++, g->result[0])
      ir_text_printf(&t, " as %s", g->result);
  }
  ir_text_put(&t, "\n}\n");
  if (g->forced[0]) ir_text_printf(&t, "schedule k { format h = %s; }\n", g->forced);
  return t.data;
}

/* ---- data ------------------------------------------------------------------------------------ */
static bool is_stored(const matrix_shape *shape, const int64_t *at, int rank, const int64_t *dims) {
  if (shape->special == 1 && rank >= 1 && at[0] == dims[0] / 2) return true;
  if (shape->special == 2) return rank < 2 || llabs((long long)(at[0] - at[1])) <= 1;
  return (double)(random_u32() % 1000) < shape->density * 1000;
}

static int64_t random_value(const matrix_shape *shape, int64_t places) {
  if (places >= 0) return places ? pick((int)places) : 0;
  int64_t value = pick(7) - 3;
  return value == 0 && shape->special != 3 ? 1 : value;
}

/* places: the size of the axis that the values are places of, or -1. */
static spc_status make_view(ir_arena *arena, const ir_tensor *tensor, const matrix_shape *shape,
                            const int64_t *sizes, int64_t places, ir_view *out, const char **why) {
  int64_t dims[IR_MAX_RANK], at[IR_MAX_RANK] = {0}, elements = 1;
  ir_entries e = {.rank = tensor->rank};
  for (int d = 0; d < tensor->rank; d++) {
    if (!ir_size_value(tensor->dim[d], sizes, &dims[d])) return SPC_INTERNAL;
    elements *= dims[d];
  }
  bool dense = ir_format_is_dense(tensor->format);
  e.at = IR_NEW_ARRAY(arena, int64_t, elements * tensor->rank + 1);
  e.value = IR_NEW_ARRAY(arena, double, elements + 1);
  e.int_value = IR_NEW_ARRAY(arena, int64_t, elements + 1);
  for (int64_t i = 0; i < elements; i++) {
    bool stored = places >= 0 || is_stored(shape, at, tensor->rank, dims);
    int64_t value = random_value(shape, places);
    if (stored || dense) {
      memcpy(e.at + e.count * tensor->rank, at, sizeof(int64_t) * (size_t)tensor->rank);
      e.value[e.count] = (double)(e.int_value[e.count] = stored ? value : 0);
      e.count++;
    }
    for (int d = tensor->rank; d-- > 0 && ++at[d] == dims[d];) at[d] = 0;
  }
  e.capacity = e.count;
  if (ir_dtype_is_float(tensor->dtype))
    e.int_value = NULL;
  else
    e.value = NULL;
  ir_dtype index = tensor->wide ? IR_I64 : IR_I32;
  return ir_view_pack(arena, tensor->dtype, dims, tensor->format, index, &e, out, why);
}

static void widen(const group *g, ir_kernel *kernel) {
  for (int i = 0; i < g->operand_count; i++)
    if (g->wide >> i & 1) ir_widen(kernel, ir_tensor_named(kernel, g->operands[i].name));
}

/* ---- one group ------------------------------------------------------------------------------- */
typedef struct compiled {
  ir_program *reference, *lowered;
  ir_image *image;
} compiled;

/* Where there is a GPU, two of the pipelines take the library's products too. */
static pass_options options_of(const group *g, const ir_target *target, const rt_cuda *cuda) {
  bool library = cuda && (g->pipeline == 1 || g->pipeline == 2);
  return (pass_options){.target = target,
                        .library_missing = library ? rt_cublaslt_missing : NULL,
                        .disable = g->pipeline == 1 ? "fuse" : NULL,
                        .strict_nan = g->pipeline == 2,
                        .reproducible = g->pipeline == 3,
                        .batch_invariant = g->pipeline == 4,
                        .verify_each = true};
}

static spc_status compile(ir_arena *arena, const group *g, const char *text,
                          const ir_target *target, const rt_cuda *cuda, ir_sink *sink,
                          compiled *out) {
  pass_options options = options_of(g, target, cuda);
  cg_options code = {.target = target};
  fe_options none = {0};
  SPC_TRY(fe_compile(arena, "case.spx", text, strlen(text), &none, sink, &out->reference));
  SPC_TRY(fe_compile(arena, "case.spx", text, strlen(text), &none, sink, &out->lowered));
  widen(g, out->reference->kernels.at[0]);
  widen(g, out->lowered->kernels.at[0]);
  SPC_TRY(pass_pipeline(out->lowered, &options, sink));
  ir_kernel *kernel = out->lowered->kernels.at[0];
  return target->kind == IR_TARGET_CUDA ? cg_cuda_compile(arena, kernel, &code, sink, &out->image)
                                        : cg_cpu_compile(arena, kernel, &code, sink, &out->image);
}

static const char *first_words(ir_arena *arena, ir_sink *sink) {
  ir_text t = ir_text_new(arena);
  ir_sink_render(sink, &t, false);
  return t.data;
}

static int64_t places_of(const group *g, const char *name, const matrix_shape *shape) {
  for (int i = 0; i < g->operand_count; i++)
    if (!strcmp(g->operands[i].name, name) && g->operands[i].places[0])
      return g->operands[i].places[0] == 'N'   ? shape->n
             : g->operands[i].places[0] == 'M' ? shape->m
                                               : shape->k;
  return -1;
}

static spc_status run_shape(ir_arena *arena, const group *g, const compiled *c,
                            const matrix_shape *shape, rt_cuda *cuda, const char **detail) {
  const ir_kernel *reference = c->reference->kernels.at[0], *lowered = c->lowered->kernels.at[0];
  int64_t sizes[4] = {shape->n, shape->m, shape->k, 0};
  ir_bindings want = {0}, got = {0};
  ir_sink *sink = ir_sink_new(arena);
  ir_interp_options interp = {.strict_nan = g->pipeline == 2};
  for (int i = 0; i < reference->tensors.count; i++) {
    ir_tensor *t = reference->tensors.at[i];
    ir_binding b = {.tensor = t};
    if (t->role != IR_ROLE_IN) continue;
    spc_status packed =
        make_view(arena, t, shape, sizes, places_of(g, t->name, shape), &b.view, detail);
    if (packed) return packed;
    IR_PUSH(arena, &want.list, b);
    b.tensor = ir_tensor_named(lowered, t->name);
    if (b.tensor) IR_PUSH(arena, &got.list, b);
  }
  rt_plan *plan = NULL;
  rt_plan_options options = {.cuda = cuda, .fenced = cuda != NULL};
  spc_status status = ir_interp_ein(arena, reference, sizes, &want, &interp, sink);
  if (!status) status = rt_plan_new(c->image, sizes, &options, sink, &plan);
  if (!status) status = rt_plan_run(plan, arena, &got, NULL, sink);
  rt_plan_free(plan);
  if (status) {
    *detail = first_words(arena, sink);
    return status;
  }
  const ir_view *a = NULL, *b = NULL;
  for (int i = 0; i < want.list.count; i++)
    if (!strcmp(want.list.at[i].tensor->name, g->expr->result)) b = &want.list.at[i].view;
  for (int i = 0; i < got.list.count; i++)
    if (!strcmp(got.list.at[i].tensor->name, g->expr->result)) a = &got.list.at[i].view;
  ir_compare_result result;
  if (!a || !b) return *detail = "there is no result", SPC_INTERNAL;
  status = ir_compare(a, b, 0, 0, &result);
  if (status) *detail = ir_compare_text(arena, &result);
  return status;
}

static void report(const group *g, const char *backend, const char *shape, const char *text,
                   const char *detail) {
  printf("FAIL %s on %s, shape %s, pipeline %d, i64 positions of %x\n%s     %s\n", g->expr->name,
         backend, shape, g->pipeline, g->wide, text, detail);
}

static void run_group(const group *g, const ir_target *target, rt_cuda *cuda, tally *t) {
  ir_arena *arena = ir_arena_new();
  ir_sink *sink = ir_sink_new(arena);
  const char *text = program_text(arena, g), *detail = "";
  compiled c = {0};
  spc_status status = compile(arena, g, text, target, cuda, sink, &c);
  if (status) {
    t->cases++, t->failed++, t->refused++;
    report(g, target->name, "(compiling)", text, first_words(arena, sink));
  }
  for (int s = 0; !status && s < IR_COUNT(matrix_shapes); s++) {
    ir_arena *scratch = ir_arena_new();
    spc_status ran = run_shape(scratch, g, &c, &matrix_shapes[s], cuda, &detail);
    t->cases++;
    if (ran) {
      t->failed++;
      report(g, target->name, matrix_shapes[s].name, text, detail);
    }
    ir_arena_free(scratch);
    if (ran) break;
  }
  if (c.image && c.image->release) c.image->release(c.image->owner);
  ir_arena_free(arena);
}

/* ---- choosing -------------------------------------------------------------------------------- */
static void fill_group(group *g, int expr, int number) {
  *g = (group){.expr = &matrix_exprs[expr], .result = "", .forced = "", .dtype = "f32"};
  parse_operands(g->expr->operands, g);
  for (int i = 0; i < g->operand_count; i++)
    g->operands[i].format = choose_format(
        g->operands[i].rank,
        number < IR_COUNT(matrix_formats2) && i == number % g->operand_count ? number : pick(64));
  for (int i = 0; i < g->operand_count; i++)
    if (g->operands[i].places[0]) g->operands[i].format = "";
  if (strstr(g->expr->text, "like(A)"))
    while (!g->operands[0].format[0] || !strcmp(g->operands[0].format, "dense_t"))
      g->operands[0].format = choose_format(2, pick(64));
  if (pick(3) == 0) g->dtype = matrix_dtypes[pick(g->expr->floats ? 4 : IR_COUNT(matrix_dtypes))];
  bool all_sparse = true, by_value = strstr(g->expr->text, "~ zeros") != NULL;
  for (int i = 0; i < g->operand_count; i++)
    all_sparse = all_sparse && g->operands[i].format[0] && strcmp(g->operands[i].format, "dense_t");
  if (g->expr->sparse && (all_sparse || by_value) && g->expr->dims == 2)
    g->result = matrix_results2[pick(IR_COUNT(matrix_results2))];
  if (g->expr->sparse && all_sparse && g->expr->dims == 3)
    g->result = matrix_results3[pick(IR_COUNT(matrix_results3))];
  if (strstr(g->expr->text, "let h[") && !by_value)
    g->forced = matrix_results2[pick(IR_COUNT(matrix_results2))];
  g->pipeline = pick(2) ? 0 : pick(5);
  g->wide = pick(4) ? 0 : random_u32() >> 16;
  /* With strict NaN an intermediate sum is dense, and what a sparse result then stores is open. */
  const char *sum = strstr(g->expr->text, "sum[");
  if (g->pipeline == 2 && g->result[0] && sum && strstr(sum + 1, "sum[")) g->pipeline = 0;
}

int main(int argc, char **argv) {
  int groups = 500, share = 1, shares = 1;
  const char *only = NULL, *target_name = "cpu";
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--groups")) groups = atoi(argv[i + 1]);
    if (!strcmp(argv[i], "--seed")) state = (uint64_t)atoll(argv[i + 1]);
    if (!strcmp(argv[i], "--only")) only = argv[i + 1];
    if (!strcmp(argv[i], "--target")) target_name = argv[i + 1];
    if (!strcmp(argv[i], "--share") &&
        (sscanf(argv[i + 1], "%d/%d", &share, &shares) != 2 || share < 1 || share > shares)) {
      printf("a share is I/N with I from 1 to N, not %s\n", argv[i + 1]);
      return 2;
    }
  }
  ir_target target = *ir_target_find(target_name);
  rt_cuda *cuda = NULL;
  const char *why = "";
  if (target.kind == IR_TARGET_CUDA && rt_cuda_open(&cuda, &why)) {
    printf("skip: matrix on %s: %s\n0 passed, 0 failed, 1 skipped\n", target_name, why);
    return 0;
  }
  if (target.kind == IR_TARGET_CPU && !cg_cpu_available()) {
    printf("skip: matrix on the cpu: %s\n0 passed, 0 failed, 1 skipped\n", cg_cpu_version());
    return 0;
  }
  if (target.kind == IR_TARGET_CPU) target.vector_bits = cg_cpu_vector_bits(NULL);
  tally t = {0};
  int exprs = IR_COUNT(matrix_exprs);
  uint64_t seed = state;
  for (int n = 0; n < groups; n++) {
    group g;
    state = (seed + (uint64_t)n) * 0x9e3779b97f4a7c15u; /* a group is the same in whatever share it runs */
    fill_group(&g, n % exprs, n / exprs);
    if (target.kind == IR_TARGET_CUDA) g.wide = 0; /* refused there: E0716 */
    if (n % shares != share - 1 || (only && strcmp(only, g.expr->name))) continue;
    run_group(&g, &target, cuda, &t);
  }
  if (cuda) rt_cuda_close(cuda);
  printf("%ld passed, %ld failed\n", t.cases - t.failed, t.failed);
  return t.failed != 0;
}
