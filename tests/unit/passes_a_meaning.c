/* passes_a_meaning.c - a property of every pass here: the outputs stay what the interpreter says.
 *
 * Each program is interpreted as checked, then after canon, propagate, permute and fuse. What
 * propagate claims is put to the test by making it the condition of each statement: only sampled
 * elements are computed, and what has a support is zero elsewhere. Examples run at small sizes. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>

#include "frontend/frontend.h"
#include "ir/compare.h"
#include "ir/interp.h"
#include "passes/expr.h"
#include "tests/unit/passes_a_meaning.h"
#include "tests/unit/passes_a_run.h"

/* ---- inputs ---------------------------------------------------------------------------------- */
static bool is_offsets(const ir_kernel *kernel, const ir_tensor *t, const ir_index **ragged) {
  for (int i = 0; i < kernel->indices.count; i++)
    if (kernel->indices.at[i]->offsets == t) {
      *ragged = kernel->indices.at[i];
      return true;
    }
  return false;
}

static spc_status generate(const a_run *run, const ir_tensor *t, const int64_t *sizes, int seed,
                           ir_view *dense) {
  const ir_index *ragged;
  int64_t limit = 0;
  if (is_offsets(run->kernel, t, &ragged)) {
    ir_size_value(ragged->extent, sizes, &limit);
    return ir_generate(run->arena, "offsets", (double[]){seed}, 1, limit, dense);
  }
  if (t->dtype == IR_B1)
    return ir_generate(run->arena, "randint", (double[]){seed, 0, 1}, 3, 0, dense);
  if (ir_dtype_is_int(t->dtype))
    return ir_generate(run->arena, "randint", (double[]){seed, 0, 3}, 3, 0, dense);
  return ir_generate(run->arena, "rand", (double[]){seed}, 1, 0, dense);
}

/* Keeps about one element in `every`, at most every / 4 of four neighbours. */
static void thin_out(ir_view *dense, int every) {
  int64_t count = ir_view_elements(dense);
  for (int64_t i = 0; i < count; i++)
    if ((i * 7 + i / 5) % every != 0) ir_dtype_store(dense->dtype, dense->vals.data, i, 0);
}

static bool make_input(const a_run *run, ir_tensor *t, const int64_t *sizes, int seed,
                       ir_view *out) {
  int64_t dims[IR_MAX_RANK];
  for (int d = 0; d < t->rank; d++)
    if (!ir_size_value(t->dim[d], sizes, &dims[d])) return false;
  ir_dtype dtype = t->dtype != IR_NONE ? t->dtype : IR_F32;
  ir_view dense;
  ir_view_dense(run->arena, dtype, t->rank, dims, &dense);
  if (generate(run, t, sizes, seed, &dense) != SPC_OK) return false;
  bool sparse = t->format != NULL && !ir_format_is_dense(t->format);
  if (t->pattern.zeros != IR_ZEROS_UNKNOWN) thin_out(&dense, 3);
  *out = dense;
  for (int every = 2; sparse && every < 64; every *= 2) {
    const char *why;
    ir_view full = dense;
    thin_out(&full, every);
    spc_status status = ir_view_convert(run->arena, &full, t->format, IR_I32, out, &why);
    if (t->dtype == IR_NONE) {
      out->dtype = IR_NONE;
      out->vals = (ir_array){0};
    }
    if (status == SPC_OK) return true;
  }
  return !sparse;
}

/* ---- sizes ----------------------------------------------------------------------------------- */
static void choose_sizes(const ir_program *program, int64_t *sizes) {
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    int64_t some = 5 + i % 4;
    sizes[i] = dim->value >= 0 ? dim->value : dim->multiple > 1 ? dim->multiple : some;
    if (dim->value < 0 && dim->bound > 0 && sizes[i] > dim->bound) sizes[i] = dim->bound;
  }
}

/* ---- running --------------------------------------------------------------------------------- */
static spc_status interpret(const a_run *run, const int64_t *sizes, ir_bindings *bindings) {
  *bindings = (ir_bindings){0};
  for (int i = 0, seed = 1; i < run->kernel->tensors.count; i++) {
    ir_tensor *t = run->kernel->tensors.at[i];
    ir_binding binding = {.tensor = t};
    if (t->role != IR_ROLE_IN) continue;
    if (!make_input(run, t, sizes, seed++, &binding.view)) return SPC_INVALID_ARGUMENT;
    IR_PUSH(run->arena, &bindings->list, binding);
  }
  ir_interp_options options = {.strict_nan = run->program->strict_nan};
  return ir_interp_ein(run->arena, run->kernel, sizes, bindings, &options, run->sink);
}

static const ir_view *result(const ir_bindings *bindings, const char *name) {
  for (int i = 0; i < bindings->list.count; i++)
    if (strcmp(bindings->list.at[i].tensor->name, name) == 0) return &bindings->list.at[i].view;
  return NULL;
}

/* Makes the claims of propagate part of the program. */
static void apply_claims(a_run *run) {
  for (int i = 0; i < run->kernel->stmts.count; i++) {
    ir_stmt *stmt = run->kernel->stmts.at[i];
    stmt->cond = pass_and(run->arena, stmt->cond, stmt->sample);
    if (stmt->fill == 0 && !ir_is_scatter(stmt) && stmt->support != NULL &&
        pass_is_elementwise(stmt->support))
      stmt->cond = pass_and(run->arena, stmt->cond, stmt->support);
  }
}

static double tolerance(ir_dtype t) {
  return ir_dtype_rows[t].bits >= 64 ? 1e-6 : ir_dtype_rows[t].bits >= 32 ? 1e-4 : 3e-2;
}

static double program_tolerance(const ir_kernel *kernel, ir_dtype t) {
  double most = tolerance(t);
  for (int i = 0; i < kernel->tensors.count; i++)
    if (ir_dtype_is_float(kernel->tensors.at[i]->dtype) &&
        tolerance(kernel->tensors.at[i]->dtype) > most)
      most = tolerance(kernel->tensors.at[i]->dtype);
  return most;
}

static int compare_outputs(const a_run *run, const ir_bindings *got, const ir_bindings *want,
                           const char *title) {
  int compared = 0;
  for (int i = 0; i < run->kernel->tensors.count; i++) {
    const ir_tensor *t = run->kernel->tensors.at[i];
    ir_compare_result verdict;
    if (t->role != IR_ROLE_OUT) continue;
    const ir_view *a = result(got, t->name), *b = result(want, t->name);
    cr_assert(a != NULL && b != NULL, "%s: %s", title, t->name);
    double rtol = program_tolerance(run->kernel, t->dtype);
    ir_compare(a, b, rtol, rtol / 10, &verdict);
    cr_expect(verdict.differing == 0 && verdict.shape_fault == NULL, "%s: %s: %s\n%s", title,
              t->name, ir_compare_text(run->arena, &verdict), a_stmt(run, t->name));
    compared++;
  }
  return compared;
}

static a_run compile(const char *text, int64_t fixed, const char *kernel) {
  a_run run = {.arena = ir_arena_new()};
  run.sink = ir_sink_new(run.arena);
  fe_options none = {0}, options = {0};
  run.status = fe_compile(run.arena, "test.spx", text, strlen(text), &none, run.sink, &run.program);
  if (run.status == SPC_OK && fixed > 0) {
    fe_define *defines = IR_NEW_ARRAY(run.arena, fe_define, run.program->dims.count + 1);
    for (int i = 0; i < run.program->dims.count; i++)
      if (run.program->dims.at[i]->value > fixed)
        defines[options.define_count++] =
            (fe_define){.name = run.program->dims.at[i]->name, .value = fixed};
    options.defines = defines;
    run.status =
        fe_compile(run.arena, "test.spx", text, strlen(text), &options, run.sink, &run.program);
  }
  if (run.status != SPC_OK) return run;
  run.kernel = kernel != NULL ? ir_kernel_named(run.program, kernel) : run.program->kernels.at[0];
  return run;
}

static const char *const steps[] = {"canon", "propagate", "permute", "fuse"};

static void check_kernel(const char *title, const char *text, int64_t fixed, const char *kernel,
                         bool claims, bool strict) {
  a_run run = compile(text, fixed, kernel);
  if (run.status != SPC_OK) {
    cr_expect(fixed > 0, "%s: %s", title, a_rendered(&run));
    a_free(&run);
    return;
  }
  int64_t *sizes = IR_NEW_ARRAY(run.arena, int64_t, run.program->dims.count + 1);
  ir_bindings want, got;
  choose_sizes(run.program, sizes);
  run.program->strict_nan = strict;
  spc_status status = interpret(&run, sizes, &want);
  cr_assert_eq(status, SPC_OK, "%s: %s", title, a_rendered(&run));
  for (int i = 0; i < IR_COUNT(steps); i++) {
    pass_options options = {
        .target = ir_target_find("cpu"), .passes = steps[i], .verify_each = true};
    status = pass_pipeline(run.program, &options, run.sink);
    cr_assert_eq(status, SPC_OK, "%s: %s: %s", title, steps[i], a_rendered(&run));
    if (i == IR_COUNT(steps) - 1 && claims) apply_claims(&run);
    status = interpret(&run, sizes, &got);
    cr_assert_eq(status, SPC_OK, "%s: %s: %s", title, steps[i], a_rendered(&run));
    compare_outputs(&run, &got, &want, ir_format_text(run.arena, "%s after %s", title, steps[i]));
  }
  a_free(&run);
}

void a_check_meaning(const char *title, const char *text, bool claims, bool strict_nan) {
  check_kernel(title, text, 0, NULL, claims, strict_nan);
}

/* ---- programs -------------------------------------------------------------------------------- */
#define DIMS "spx 1; dim I: dyn; dim J: dyn; dim K: dyn; kernel t { "
static const char *const programs[] = {
    DIMS
    "in x: bf16[I,K]; in W: bf16[K,J]; in V: bf16[J,I]; let h[i,j] = relu(sum[k] x[i,k]*W[k,j]); "
    "out y[i,o] = sum[j] h[i,j]*V[j,o]; }",
    DIMS "in x: bf16[I,K]; in Wg: bf16[K,J]; in Wu: bf16[K,J]; in V: bf16[J,I]; "
         "let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]); let u[t,f] = sum[d] x[t,d]*Wu[d,f]; "
         "out y[t,o] = sum[f] g[t,f]*u[t,f]*V[f,o]; }",
    DIMS "in x: f32[I,K]; in Wg: f32[K,J]; in Wu: f32[K,J]; in V: f32[J,I]; "
         "let u[t,f] = sum[d] x[t,d]*Wu[d,f]; let g[t,f] = relu(sum[d] x[t,d]*Wg[d,f]); "
         "out y[t,o] = sum[f] u[t,f]*g[t,f]*V[f,o]; }",
    DIMS "in x: bf16[I,K]; in Wg: bf16[K,J]; in Wu: bf16[K,J]; in V: bf16[J,I]; "
         "out y[t,o] = sum[f] silu(sum[d] x[t,d]*Wg[d,f]) * (sum[d] x[t,d]*Wu[d,f]) * V[f,o]; }",
    DIMS "in Q: f32[I,K]; in Kx: f32[J,K]; in V: f32[J,K]; in M: pattern[I,J] as csr; "
         "let p[i,j] = 0.3 * (sum[d] Q[i,d]*Kx[j,d]) on M[i,j] and j <= i fill -inf; "
         "let a[i,j] = softmax[j](p[i,j]); out O[i,d] = sum[j] a[i,j]*V[j,d]; }",
    DIMS "in Q: f32[I,K]; in Kx: f32[J,K]; in M: pattern[I,J] as csr; "
         "out a[i,j] = softmax[j](0.3 * sum[d] Q[i,d]*Kx[j,d]) on M[i,j]; }",
    DIMS
    "in Q: f32[I,K]; in Kx: f32[J,K]; in V: f32[J,K]; "
    "out O[i,d] = sum[j] softmax[j](where(j <= i, sum[d2] Q[i,d2]*Kx[j,d2], -inf)) * V[j,d]; }",
    DIMS "in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K]; out C[i,j] = S[i,j] * sum[k] "
         "A[i,k]*B[j,k] as like(S); }",
    DIMS
    "in S: f32[I,J] as csr; in A: f32[I,K]; in B: f32[J,K]; let u[i,j] = sum[k] A[i,k]*B[j,k]; "
    "out C[i,j] = S[i,j] * u[i,j] as like(S); out z[i] = sum[j] S[i,j] * exp(u[i,j]); }",
    DIMS "in S: f32[I,K] as csr; in R: f32[K,J] as csr; out C[i,j] = sum[k] S[i,k]*R[k,j] as csr; "
         "out D[i,j] = sum[k] R[k,j]*S[i,k]; }",
    DIMS "in S: f32[I,J] as csr; in R: f32[I,J] as csr; let u[i,j] = S[i,j] + R[i,j]; let v[i,j] = "
         "u[i,j] * 2; "
         "out y[i] = sum[j] v[i,j] * v[i,j]; out m[i] = max[j] v[i,j]; }",
    DIMS "in x: f32[I,K]; let m[i] = (sum[k] x[i,k]*x[i,k]) / 7; out y[i,k] = x[i,k] * rsqrt(m[i] "
         "+ 0.001); }",
    DIMS "in x: f32[I,K]; out y[i,k] = x[i,k] / (sum[l] abs(x[i,l])) + (max[l] x[i,l]) - (min[l] "
         "x[i,l]); }",
    DIMS "in x: f32[I,K]; in W: f32[K,J]; let h[i,j] = topk[j](relu(sum[k] x[i,k]*W[k,j]), 2); "
         "out y[i] = sum[j] h[i,j] * 3; out b[i] = argmax[j] h[i,j]; }",
    DIMS "in x: f32[I,K]; in W: f32[K,J]; let h[i,j] = topk[j](sum[k] x[i,k]*W[k,j], 2) + 1; out "
         "y[j,i] = h[i,j]; }",
    DIMS "in x: i8[I,K]; in W: i8[K,J]; in s: f32[J]; let a[i,j] = sum[k] x[i,k]*W[k,j] : i32; "
         "out y[i,j] = cast[f32](a[i,j]) * s[j]; }",
    DIMS "in x: i8[I,K]; in W: i8[K,J]; let a[i,j] = sum[k] 3 * x[i,k]*W[k,j] : i8; out y[i,j] = "
         "a[i,j] * 100 : i8; "
         "out z[i,j] = max(a[i,j], 0) : i32; }",
    DIMS "in x: i32[I,K]; in c: i32[I]; out y[i] = sum[k] c[i] * 1000003 * x[i,k] : i32; }",
    "spx 1; dim N: dyn; kernel t { in A: f32[N,N]; in B: f32[N,N]; let u[i,k] = sum[j] "
    "A[i,j]*B[j,k]; out y[i,j] = u[j,i] + 1; }",
    DIMS "in x: f32[J,K]; in p: i32[I]; in w: f32[I]; out y[p[i],k] += w[i] * sum[j] x[j,k] : "
         "f32[J,K] order(fixed); }",
    DIMS "in x: f32[J,K]; in p: i32[I]; let g[i,k] = relu(x[p[i],k]); out y[i] = sum[k] "
         "g[i,k]*g[i,k]; }",
    DIMS "in A: f32[I,J] ~ zeros(dynamic); in B: f32[I,J] ~ zeros(dynamic); let u[i,j] = "
         "exp(A[i,j]) - 1; "
         "let v[i,j] = A[i,j] * u[i,j]; out y[i] = sum[j] v[i,j] * B[i,j]; }",
    DIMS "in A: f32[I,J]; let a[i,j] = relu(A[i,j]); let b[i,j] = relu(0 - A[i,j]); let c[i,j] = "
         "a[i,j] + b[i,j]; "
         "out y[i] = sum[j] a[i,j]*c[i,j]; out z[i] = sum[j] b[i,j]*c[i,j]; }",
    DIMS "in A: f32[I,J]; in M: pattern[I,J] as csr; let u[i,j] = A[i,j] * 2 on M[i,j] fill 3; "
         "out y[i,j] = u[i,j] + 1; out z[i,j] = u[i,j] * 2 on M[i,j]; }",
    DIMS "in A: f32[I,J]; in M: pattern[I,J] as csr; let u[i,j] = A[i,j] * 2 on M[i,j] fill -inf; "
         "out y[i] = max[j] u[i,j]; }",
    DIMS "in A: f32[I,J]; in M: pattern[I,J] as csr; let u[i,j] = A[i,j] + 1 on M[i,j]; out y[i,j] "
         "= topk[j](u[i,j], 2) on M[i,j]; }",
    DIMS "in A: bf16[I,J]; let u[i,j] = A[i,j] * 3 : f8e4m3; out y[i,j] = cast[f32](u[i,j]) * 2; }",
    "spx 1; dim E = 3; dim R: dyn; dim D: dyn; dim F: dyn; kernel t { in x: f32[R,D]; in off: "
    "i32[E+1]; in W: f32[E,D,F]; "
    "in b: f32[E,F]; ragged r in off[e]..off[e+1]; let h[r,f] = silu((sum[d] x[r,d]*W[e,d,f]) + "
    "b[e,f]) * (sum[d] x[r,d]*W[e,d,f]); "
    "out y[r] = sum[f] h[r,f] : f32[R]; }",
    "spx 1; dim E = 3; dim R: dyn; dim F: dyn; kernel t { in h: f32[R,F]; in off: i32[E+1]; ragged "
    "r in off[e]..off[e+1]; "
    "out s[e,f] = (sum[r] h[r,f]) / (1 + sum[r] abs(h[r,f])); }",
    "spx 1; dim T: dyn; dim K = 128; dim J: dyn; kernel t { in x: f32[T,K]; in q: i8[J,K] as "
    "nm(2,4); in s: f32[J,K/32]; in b: f32[J]; "
    "let W[j,k] = s[j,k/32] * q[j,k]; out y[t,j] = b[j] + sum[k] x[t,k]*W[j,k]; }",
    "spx 1; dim N: dyn; dim Q: dyn; kernel t { in x: f32[N+Q]; in w: f32[Q]; out y[i] = "
    "relu(sum[q] x[i+q]*w[q]) : f32[N]; }",
};

Test(meaning, programs) {
  for (int i = 0; i < IR_COUNT(programs); i++) {
    check_kernel(programs[i], programs[i], 0, NULL, false, false);
    check_kernel(programs[i], programs[i], 0, NULL, true, false);
    check_kernel(programs[i], programs[i], 0, NULL, true, true);
  }
}

static char *read_whole(ir_arena *arena, const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return NULL;
  ir_text text = ir_text_new(arena);
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) ir_text_putn(&text, part, n);
  fclose(file);
  return text.data;
}

/* Fixed dims are cut to the smallest size at which the file still checks. */
static void check_file(ir_arena *arena, const char *path) {
  static const int64_t sizes[] = {8, 16, 64, 128, 256};
  char *text = read_whole(arena, path);
  cr_assert_not_null(text, "%s", path);
  for (int i = 0; i < IR_COUNT(sizes); i++) {
    a_run run = compile(text, sizes[i], NULL);
    bool ok = run.status == SPC_OK;
    for (int k = 0; ok && k < run.program->kernels.count; k++) {
      const char *name = run.program->kernels.at[k]->name;
      check_kernel(ir_format_text(arena, "%s: %s", path, name), text, sizes[i], name, true, false);
    }
    a_free(&run);
    if (ok) return;
  }
}

Test(meaning, examples) {
  const char *folder =
      getenv("SPC_EXAMPLES") != NULL ? getenv("SPC_EXAMPLES") : SPC_SOURCE_DIR "/examples";
  DIR *dir = opendir(folder);
  cr_assert_not_null(dir, "%s", folder);
  ir_arena *arena = ir_arena_new();
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
    if (strstr(entry->d_name, ".spx") != NULL)
      check_file(arena, ir_format_text(arena, "%s/%s", folder, entry->d_name));
  closedir(dir);
  ir_arena_free(arena);
}
