/* Faults: for each diagnostic of the front end at least one program, with the id, the place and the
 * fix.  A back-tick stands before the byte that the caret points at; it is no part of the program.
 */
#include "tests/unit/frontend_compile.h"

typedef struct fault {
  const char *text;
  ir_diag_id id;
  const char *fix; /* code of the fix, or NULL */
} fault;

#define N_ "spx 1; dim N: dyn; "
#define NMK "spx 1; dim N: dyn; dim M: dyn; dim K: dyn; "
#define IN_X "in x: f32[N]; "

static const fault faults[] = {
    /* syntax */
    {"`kernel k { }", IR_DIAG_VERSION, "spx 1;\n"},
    {"spx `2;", IR_DIAG_VERSION, "1"},
    {"spx 1; `out y = 1;", IR_DIAG_SYNTAX, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `= x[i]; }", IR_DIAG_SYNTAX, NULL},
    {N_ "kernel k { in x: f32[N`]\n out y[i] = x[i]; }", IR_DIAG_SYNTAX, ";"},
    {N_ "kernel k { " IN_X "out y[i] = x[i] < 1 `< 2; }", IR_DIAG_SYNTAX, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[`-1]; }", IR_DIAG_SYNTAX, NULL},
    {N_ "kernel k { in M: pattern[N,N]`; out y[i] = sum[j] M[i,j]; }", IR_DIAG_SYNTAX, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i];\n`dim M: dyn;", IR_DIAG_SYNTAX, NULL},
    {N_ "// \xc3\xa4 is fine, \n`\xe4 is not", IR_DIAG_ENCODING, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `2x[i]; }", IR_DIAG_NUMBER, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `.5*x[i]; }", IR_DIAG_NUMBER, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `1e999*x[i]; }", IR_DIAG_NUMBER, NULL},
    {"spx 1; dim N: dyn % `0;", IR_DIAG_NUMBER, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] `& 1; }", IR_DIAG_CHARACTER, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] * 1`.; }", IR_DIAG_CHARACTER, NULL},
    {N_ "kernel k { in `sum: f32[N]; out y[i] = 1 : f32[N]; }", IR_DIAG_RESERVED, NULL},
    {"spx 1; dim `f32 = 3;", IR_DIAG_RESERVED, NULL},
    {"spx 1; kernel `relu { }", IR_DIAG_RESERVED, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] as dense `: f32; }", IR_DIAG_CLAUSE_ORDER, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] : f32 `on i > 1; }", IR_DIAG_CLAUSE_ORDER, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; `grad y wrt x; }", IR_DIAG_GRAD, NULL},
    {"spx 1; dim N = `99999999999999999999;", IR_DIAG_OVERFLOW, NULL},
    {"spx 1; dim N = 4000000000; dim M = N`*4000000000;", IR_DIAG_OVERFLOW, NULL},
    {"spx 1; dim N = 4000000000; kernel k { in x: f32`[N,N]; out y[i] += x[i,j]; }",
     IR_DIAG_OVERFLOW, NULL},
    /* names, indices, sizes */
    {NMK "kernel k { in A: f32[N,M]; in w: f32[M]; out y[i] = 2 + A[i,`j]*w[j]; }",
     IR_DIAG_UNBOUND_INDEX, "sum[j] "},
    {NMK "kernel k { in A: f32[N,M,K]; out y[i] = relu(3*A[i,`j,k]); }", IR_DIAG_UNBOUND_INDEX,
     "sum[j,k] "},
    {NMK "kernel k { in A: f32[N,M]; out y[i] = softmax[`j](A[i,j]); }", IR_DIAG_UNBOUND_INDEX,
     NULL},
    {NMK "kernel k { in a: f32[N]; in b: f32[M]; out y[i] = a[i] + b[`i]; }", IR_DIAG_INDEX_SIZES,
     NULL},
    {NMK "kernel k { in a: f32[N]; out y[`i] = a[i] : f32[M]; }", IR_DIAG_INDEX_SIZES, NULL},
    {"spx 1; dim D = 6; kernel k { in a: f32[D]; in b: f32[7]; out y[i] = a[i] + b[`i]; }",
     IR_DIAG_INDEX_SIZES, NULL},
    {N_ "kernel k { " IN_X "out y[`i] = x[2*i]; }", IR_DIAG_INDEX_NO_SIZE, " : f32[N]"},
    {N_ "kernel k { " IN_X "out y[`i] = x[2*i] : bf16; }", IR_DIAG_INDEX_NO_SIZE, "[N]"},
    {N_ "kernel k { " IN_X "out y = sum[`i] x[2*i]; }", IR_DIAG_INDEX_NO_SIZE, NULL},
    {NMK "kernel k { in x: f32[N,M]; in W: f32[M]; out y[t] += relu(x[t,`d]*W[d]); }",
     IR_DIAG_HIDDEN_REDUCTION, "sum[d] "},
    {NMK "kernel k { in x: f32[N,M]; out y[t] max= abs(x[t,`d]); }", IR_DIAG_HIDDEN_REDUCTION,
     "sum[d] "},
    {N_ "kernel k { in weight: f32[N]; out y[i] = 2*`wieght[i]; }", IR_DIAG_UNKNOWN_NAME, "weight"},
    {"spx 1; dim Rows: dyn; kernel k { in x: f32[`Row]; out y[i] = x[i]; }", IR_DIAG_UNKNOWN_NAME,
     "Rows"},
    {N_ "kernel k { " IN_X "out y[i] = x[i] as like(`z); }", IR_DIAG_UNKNOWN_NAME, NULL},
    {N_ "kernel kern { " IN_X "out y[i] = x[i]; } schedule `kerm { stages 2; }",
     IR_DIAG_UNKNOWN_NAME, "kern"},
    {N_ "kernel k { " IN_X "in `N: f32[N]; out y[i] = x[i]; }", IR_DIAG_SHADOWING, NULL},
    {N_ "kernel k { " IN_X "out y[i] = sum[`i] x[i]; }", IR_DIAG_SHADOWING, NULL},
    {N_ "kernel k { " IN_X "out y = sum[k] x[k] * sum[`k] x[k]; }", IR_DIAG_SHADOWING, NULL},
    {N_ "kernel k { " IN_X "out y = sum[`x] x[x]; }", IR_DIAG_SHADOWING, NULL},
    {N_ "kernel k { " IN_X "out y[`N] = x[0]; }", IR_DIAG_SHADOWING, NULL},
    {N_ "kernel k { " IN_X "let h[i] = x[i]; out `i = sum[j] h[j]; }", IR_DIAG_SHADOWING, NULL},
    {N_ "kernel k { " IN_X "in p: i32[N]; out `y[p[i]] += x[i]; }", IR_DIAG_SCATTER_SHAPE,
     " : f32[N]"},
    {N_ "kernel k { " IN_X "in p: i32[N]; out y[p[i]] `= x[i] : f32[N]; }", IR_DIAG_SCATTER_ASSIGN,
     "+="},
    {N_ "kernel k { " IN_X "in p: i32[N]; out y[i] = x[p[`p[i]]]; }", IR_DIAG_GATHER_DEPTH, NULL},
    {N_ "kernel k { " IN_X "in p: i32[N]; in s: i32[]; out y = x[p[`s]]; }", IR_DIAG_GATHER_DEPTH,
     NULL},
    {"spx 1; dim N = 100; kernel k { in s: f32[`N/8]; out y[i] = s[i]; }", IR_DIAG_SIZE, NULL},
    {"spx 1; dim N = 3; dim M = `N-5;", IR_DIAG_SIZE, NULL},
    {"spx 1; dim N = 3; dim M = N`/0;", IR_DIAG_SIZE, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `x[i,0]; }", IR_DIAG_RANK, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] + `x; }", IR_DIAG_RANK, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] : f32`[N,N]; }", IR_DIAG_RANK, NULL},
    {N_ "kernel k { in x: f32`[N,N,N,N,N,N,N,N,N]; }", IR_DIAG_RANK, NULL},
    {"spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i32[S+1]; in x: f32[R]; in W: f32[S];\n"
     "ragged r in off[e]..off[e+1]; out y[r] = sum[`e] x[r]*W[e]; }",
     IR_DIAG_RAGGED_SEGMENT, NULL},
    {"spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i32[S+1]; in x: f32[R]; in W: f32[S];\n"
     "ragged r in off[e]..off[e+1]; out y = W[`e] * sum[r] x[r]; }",
     IR_DIAG_RAGGED_SEGMENT, NULL},
    {"spx 1; dim S: dyn; dim R: dyn; kernel k { in off: i32[S+1]; in x: f32[R]; ragged r in "
     "`off[e]..off[e]; out y = sum[r] x[r]; }",
     IR_DIAG_RAGGED_FORM, NULL},
    {"spx 1; dim S: dyn; dim R: dyn; kernel k { in off: f32[S+1]; in x: f32[R]; ragged r in "
     "`off[e]..off[e+1]; out y = sum[r] x[r]; }",
     IR_DIAG_RAGGED_FORM, NULL},
    {"spx 1; dim N = 8; kernel k { " IN_X "out y[i] = x[`i+1] : f32[N]; }", IR_DIAG_SUBSCRIPT_AXIS,
     NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[`i+1] : f32[N]; }", IR_DIAG_SUBSCRIPT_AXIS, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[`i-1] : f32[N]; }", IR_DIAG_SUBSCRIPT_AXIS, NULL},
    {N_ "kernel k { " IN_X "out y[`i+1] = x[i] : f32[N]; }", IR_DIAG_SUBSCRIPT_AXIS, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `z[i]; let z[i] = x[i]; }", IR_DIAG_USE_BEFORE, NULL},
    {N_ "kernel k { " IN_X "let z[i] = x[i] + `z[i]; out y[i] = x[i]; }", IR_DIAG_USE_BEFORE, NULL},
    {NMK "kernel k { in A: f32[N,M]; in B: b1[M]; out y[i] = sum[j] A[i,j] on B[`j]; }",
     IR_DIAG_COND_INDEX, NULL},
    {N_ "kernel k { " IN_X "out y = sum[i,j] x[i`*j]; }", IR_DIAG_SUBSCRIPT_FORM, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; let `y[i] = x[i]; }", IR_DIAG_REDEFINED, NULL},
    {"spx 1; dim N: dyn; dim `N = 3;", IR_DIAG_REDEFINED, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } kernel `k { " IN_X "out y[i] = x[i]; }",
     IR_DIAG_REDEFINED, NULL},
    {"spx 1; format `csr = [i,j] -> [ i: dense, j: compressed ];", IR_DIAG_REDEFINED, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } schedule k { stages 2; } schedule `k { stages 3; }",
     IR_DIAG_REDEFINED, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `pow(x[i]); }", IR_DIAG_ARGUMENTS, NULL},
    {NMK "kernel k { in A: f32[N,M]; out y = `argmax[i,j] A[i,j]; }", IR_DIAG_ARGUMENTS, NULL},
    {N_ "kernel k { " IN_X "out y[i] = `topk[i](x[i], 0); }", IR_DIAG_ARGUMENTS, NULL},
    /* tests */
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test `k { N=3; expect y ~= ref; }", IR_DIAG_TEST,
     NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test `k { x = iota; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test `k { N=3; x = iota; }", IR_DIAG_TEST, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test k { N=3; x = `rnd(0); expect y ~= ref; }",
     IR_DIAG_TEST, "rand"},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test k { N=3; x = `rand; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test k { x = [[1,2],`[3]]; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test k { x = `[[1,2],[3,4]]; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    {N_ "kernel k { " IN_X "out yes[i] = x[i]; } test k { N=3; x = iota; expect `yse ~= ref; }",
     IR_DIAG_TEST, "yes"},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test k { N=3, `Q=3; x = iota; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } test k { N=3, `N=4; x = iota; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    {"spx 1; dim N: dyn <= 4; kernel k { " IN_X
     "out y[i] = x[i]; } test k { N=`5; x = iota; expect y ~= ref; }",
     IR_DIAG_TEST, NULL},
    /* types */
    {N_ "kernel k { " IN_X "in n: i32[N]; out y[i] = n[i]`*x[i]; }", IR_DIAG_DTYPE_MISMATCH,
     "cast[f32](n[i])"},
    {N_ "kernel k { " IN_X "out y[i] = x[i]`*i; }", IR_DIAG_DTYPE_MISMATCH, "cast[f32](i)"},
    {N_ "kernel k { " IN_X "in c: b1[N]; out y[i] = `c[i]*x[i]; }", IR_DIAG_DTYPE_MISMATCH, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] : `i32; }", IR_DIAG_DTYPE_MISMATCH, NULL},
    {N_ "kernel k { in x: i32[N]; out y[i] = x[i] : `f32; }", IR_DIAG_DTYPE_MISMATCH, NULL},
    {N_ "kernel k { " IN_X "out y = sum[i] x[i] : f32 acc `f16; }", IR_DIAG_ACCUMULATOR, "f32"},
    {N_ "kernel k { " IN_X "out y = sum[i] x[i] : f32 acc `i32; }", IR_DIAG_ACCUMULATOR, "f32"},
    {N_ "kernel k { in x: i32[N]; out y[i] = `0.5*x[i]; }", IR_DIAG_FRACTION, NULL},
    {N_ "kernel k { in x: i32[N]; out y[i] = x[i] on i > 2 fill `-inf; }", IR_DIAG_FRACTION, NULL},
    {N_ "kernel k { in x: i32[N]; out y[i] = exp(`x[i]); }", IR_DIAG_NEEDS_FLOAT,
     "cast[f32](x[i])"},
    {N_ "kernel k { " IN_X "out y[i] = where(`x[i], 1, 0); }", IR_DIAG_NEEDS_BOOL, "(x[i] != 0)"},
    {N_ "kernel k { " IN_X "out y = any[i] `x[i]; }", IR_DIAG_NEEDS_BOOL, "(x[i] != 0)"},
    {N_ "kernel k { " IN_X "in p: f32[N]; out y[i] = x[`p[i]]; }", IR_DIAG_GATHER_DTYPE, NULL},
    /* sparsity */
    {NMK
     "kernel k { in A: f32[N,M] as csr; in B: f32[N,M]; out C[i,j] = A[i,j] + B[i,j] `as csr; }",
     IR_DIAG_SPARSE_OUTPUT, "as like(A)"},
    {NMK "kernel k { in A: f32[N,M] as csr; out C[i,j] = exp(A[i,j]) `as csr; }",
     IR_DIAG_SPARSE_OUTPUT, "as like(A)"},
    {NMK "kernel k { in B: f32[N,M]; out C[i,j] = relu(B[i,j]) `as csr; }", IR_DIAG_SPARSE_OUTPUT,
     "as dense"},
    {NMK "kernel k { in A: f32[N,M] as csr; in B: f32[N,M]; out C[i,j] = A[i,j] + B[i,j] `as "
         "like(A); }",
     IR_DIAG_LIKE, NULL},
    {NMK "kernel k { in A: f32[N,M] as csr; in B: f32[M,N]; out C[j,i] = B[j,i] as like(`A); }",
     IR_DIAG_LIKE, NULL},
    {NMK "kernel k { in A: f32[N,M] as csr; in B: f32[N,M]; let p[i,j] = B[i,j] on A[i,j] fill "
         "`-inf; out y[i] = sum[j] p[i,j]; }",
     IR_DIAG_FILL_IDENTITY, "0"},
    {NMK "kernel k { in A: f32[N,M] as csr; in B: f32[N,M]; let p[i,j] = B[i,j] on A[i,j] fill `1; "
         "out y[i] = max[j] 2*p[i,j]; }",
     IR_DIAG_FILL_IDENTITY, "-inf"},
    {NMK "kernel k { in A: f32[N,M] as csr; in B: f32[N,M]; let p[i,j] = B[i,j] on A[i,j] fill `0; "
         "out y[i,j] = softmax[j](p[i,j]); }",
     IR_DIAG_FILL_IDENTITY, "-inf"},
    {"spx 1; dim N = 6; kernel k { in A: f32[N,N] as `nm(2,4); out y[i] += A[i,j]; }",
     IR_DIAG_NM_AXIS, NULL},
    {"spx 1; format f(m) = [i,j] -> [ i/m: dense, `i%m: nm(2), j: dense ];", IR_DIAG_NM_AXIS, NULL},
    {N_ "kernel k { in A: f32[N,N] as `crs; out y[i] += A[i,j]; }", IR_DIAG_FORMAT_USE, "csr"},
    {N_ "kernel k { in A: f32[N] as `csr; out y = sum[i] A[i]; }", IR_DIAG_FORMAT_USE, NULL},
    {N_ "kernel k { in A: f32[N,N] as `bsr(4); out y[i] += A[i,j]; }", IR_DIAG_FORMAT_USE, NULL},
    {"spx 1; format f = [i,j] -> [ i: dense, `k: compressed ];", IR_DIAG_FORMAT_DEF, NULL},
    {"spx 1; format f = [i,j] -> [ i: dense, j: `compresed ];", IR_DIAG_FORMAT_DEF, "compressed"},
    {"spx 1; format f(b) = [i] -> [ i/`c: dense, i%b: dense ];", IR_DIAG_FORMAT_DEF, NULL},
    {"spx 1; format `f = [i,j] -> [ i: dense ];", IR_DIAG_FORMAT_DEF, NULL},
    {N_ "kernel k { in x: f32[N] ~ zeros(dynamic, density=`1.5); out y[i] = x[i]; }", IR_DIAG_HINT,
     NULL},
    {N_ "kernel k { " IN_X "out y[i] = relu(x[i]) ~ zeros(dynamic, axis=`j); }", IR_DIAG_HINT,
     NULL},
    {N_ "kernel k { in A: f32[N,N] as csr fill `1; out y[i] += A[i,j]; }", IR_DIAG_FILL_STORAGE,
     NULL},
    /* schedules */
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } schedule k { dense `x; }", IR_DIAG_DIRECTIVE, NULL},
    {N_ "kernel k { " IN_X "out yes[i] = x[i]; } schedule k { dense `yse; }", IR_DIAG_DIRECTIVE,
     "yes"},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } schedule k { tile y `j=4; }", IR_DIAG_DIRECTIVE,
     NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } schedule k { compact y axis=`j gran=1x4; }",
     IR_DIAG_DIRECTIVE, NULL},
    {N_
     "kernel k { " IN_X
     "let h[i] = x[i]; out y[i] = x[i] + 2*h[i]; out z[i] = y[i]; } schedule k { `fuse h into z; }",
     IR_DIAG_DIRECTIVE, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } schedule k { stages `0; }", IR_DIAG_DIRECTIVE, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i]; } schedule k for `sm90 { stages 2; }",
     IR_DIAG_SCHEDULE_TARGET, NULL},
    /* warnings */
    {"spx 1; dim N: dyn; dim `M: dyn; kernel k { " IN_X "out y[i] = x[i]; }", IR_DIAG_UNUSED, NULL},
    {N_ "kernel k { " IN_X "in `z: f32[N]; out y[i] = x[i]; }", IR_DIAG_UNUSED, NULL},
    {N_ "kernel k { " IN_X "let `z[i] = x[i]; out y[i] = x[i]; }", IR_DIAG_UNUSED, NULL},
    {N_ "kernel k { " IN_X "out y[i] = x[i] `order(fixed); }", IR_DIAG_RACE, NULL},
    {NMK "kernel k { in A: b1[N,M]; in B: f32[N,M]; in c: f32[K]; let p[i,j] = B[i,j] on A[i,j]; "
         "out y[i,j] = softmax[j](`p[i,j]); out z = sum[k] c[k]; }",
     IR_DIAG_SOFTMAX_FILL, NULL},
};

typedef struct marked {
  char *text;
  size_t length, at;
} marked;

static marked unmark(const char *text) {
  const char *mark = strchr(text, '`');
  cr_assert_not_null(mark, "no mark: %s", text);
  marked m = {.length = strlen(text) - 1, .at = (size_t)(mark - text)};
  m.text = malloc(m.length + 1);
  memcpy(m.text, text, m.at);
  strcpy(m.text + m.at, mark + 1);
  return m;
}

static void reject(const fault *f) {
  marked m = unmark(f->text);
  compiled c = compile_with(m.text, m.length, NULL, 0);
  cr_expect_eq(c.sink->diags.count, 1, "%s\n%s", m.text, messages(&c));
  cr_assert(c.sink->diags.count > 0);
  const ir_diag *d = c.sink->diags.at[0];
  cr_expect_eq(d->id, f->id, "%s\n%s", m.text, messages(&c));
  cr_expect_eq(c.status == SPC_OK, d->severity != IR_ERROR);
  cr_expect_eq(d->span.begin, m.at, "%s\nat %u, not %zu\n%s", m.text, d->span.begin, m.at,
               messages(&c));
  if (f->fix)
    cr_expect(d->fix_code && !strcmp(d->fix_code, f->fix), "%s\n%s", m.text, messages(&c));
  else
    cr_expect_null(d->fix_code, "%s\n%s", m.text, messages(&c));
  free(m.text);
  done(&c);
}

Test(frontend_reject, each_fault_once_at_its_place) {
  for (int i = 0; i < IR_COUNT(faults); i++) reject(&faults[i]);
}

/* Every fix that can be applied removes the fault that it is for. */
Test(frontend_reject, fixes_fix) {
  for (int i = 0; i < IR_COUNT(faults); i++) {
    const fault *f = &faults[i];
    if (!f->fix) continue;
    marked m = unmark(f->text);
    compiled c = compile_with(m.text, m.length, NULL, 0);
    const ir_diag *d = c.sink->diags.at[0];
    ir_text fixed = ir_text_new(c.arena);
    ir_text_putn(&fixed, m.text, d->fix_span.begin);
    ir_text_put(&fixed, d->fix_code);
    ir_text_put(&fixed, m.text + d->fix_span.end);
    compiled again = compile_with(fixed.data, fixed.length, NULL, 0);
    for (int k = 0; k < again.sink->diags.count; k++) {
      bool same = again.sink->diags.at[k]->id == f->id && f->id != IR_DIAG_HIDDEN_REDUCTION;
      cr_assert(!same, "%s\n%s", fixed.data, messages(&again));
    }
    free(m.text);
    done(&again);
    done(&c);
  }
}

/* Each row of the table that the front end owns is provoked above or in the tests named here. */
Test(frontend_reject, every_row_is_provoked) {
  static const ir_diag_id elsewhere[] = {IR_DIAG_NESTING, IR_DIAG_DEFINE};
  for (int id = 0; id < IR_DIAG_COUNT; id++) {
    const char *code = ir_diag_rows[id].code;
    bool ours = (code[0] == 'E' && code[1] == '0' && code[2] >= '1' && code[2] <= '4') ||
                id == IR_DIAG_DIRECTIVE || id == IR_DIAG_SCHEDULE_TARGET || id == IR_DIAG_UNUSED;
    bool found = false;
    for (int i = 0; i < IR_COUNT(faults); i++) found = found || (int)faults[i].id == id;
    for (int i = 0; i < IR_COUNT(elsewhere); i++) found = found || (int)elsewhere[i] == id;
    cr_assert(found || !ours, "%s %s is never provoked", code, ir_diag_rows[id].name);
    cr_assert(!ours || strlen(ir_diag_rows[id].help) > 80, "%s has no help", code);
  }
}
