/* cases.h - what the matrix crosses: expressions, formats, dtypes, shape classes. */
#ifndef SPC_TESTS_MATRIX_CASES_H
#define SPC_TESTS_MATRIX_CASES_H

#include <stdbool.h>

/* Tables, one row a line. */
/* clang-format off */

/* One kernel.  `let h` may have a format forced on it by a schedule; `~ zeros` lets a sparse result have dense operands.
 *  `operands`: "A:N,M B:M,K p:N:M" gives name and dims; p holds places of an axis of size M, in i32.
 * In the text @ stands for the dtype, $C for the format of the result (" as csr" or nothing).  `result` is the output's name; `dims` its number of dimensions; `sparse`: the output may
 * also be stored in a sparse format (its pattern can be determined from sparse operands). */
typedef struct matrix_expr {
  const char *name, *operands, *text, *result;
  int dims;
  bool sparse, floats; /* floats: a non-linear function needs a float dtype */
} matrix_expr;

static const matrix_expr matrix_exprs[] = {
    {"copy", "A:N,M", "out C[i,j] = A[i,j]$C;", "C", 2, true, false},
    {"scale", "A:N,M", "out C[i,j] = 2 * A[i,j]$C;", "C", 2, true, false},
    {"transpose", "A:N,M", "out C[j,i] = A[i,j]$C;", "C", 2, true, false},
    {"relu", "A:N,M", "out C[i,j] = relu(A[i,j])$C;", "C", 2, true, false},
    {"exp", "A:N,M", "out C[i,j] = exp(A[i,j]);", "C", 2, false, true},
    {"add", "A:N,M B:N,M", "out C[i,j] = A[i,j] + B[i,j]$C;", "C", 2, true, false},
    {"sub", "A:N,M B:N,M", "out C[i,j] = A[i,j] - B[i,j]$C;", "C", 2, true, false},
    {"mul", "A:N,M B:N,M", "out C[i,j] = A[i,j] * B[i,j]$C;", "C", 2, true, false},
    {"max", "A:N,M B:N,M", "out C[i,j] = max(A[i,j], B[i,j]);", "C", 2, false, false},
    {"add_transposed", "A:N,N B:N,N", "out C[i,j] = A[i,j] + B[j,i]$C;", "C", 2, true, false},
    {"add3", "A:N,M B:N,M D:N,M", "out C[i,j] = A[i,j] + B[i,j] + D[i,j]$C;", "C", 2, true, false},
    {"mul_add", "A:N,M B:N,M D:N,M", "out C[i,j] = A[i,j] * B[i,j] + D[i,j]$C;", "C", 2, true, false},
    {"sum_times_sum", "A:N,M B:N,M D:N,M", "out C[i,j] = (A[i,j] + B[i,j]) * (A[i,j] + B[i,j] + D[i,j])$C;", "C", 2, true, false},
    {"row_sums", "A:N,M", "out c[i] = sum[j] A[i,j];", "c", 1, false, false},
    {"column_sums", "A:N,M", "out c[j] = sum[i] A[i,j];", "c", 1, false, false},
    {"row_max", "A:N,M", "out c[i] = max[j] A[i,j];", "c", 1, false, false},
    {"row_argmax", "A:N,M", "out c[i] = argmax[j] A[i,j];", "c", 1, false, false},
    {"any_row", "A:N,M", "out c[i] = any[j] (A[i,j] > 1);", "c", 1, false, false},
    {"total", "A:N,M", "out c[] = sum[i,j] A[i,j];", "c", 0, false, false},
    {"matvec", "A:N,M x:M", "out c[i] = sum[j] A[i,j] * x[j];", "c", 1, false, false},
    {"matvec_transposed", "A:N,M x:N", "out c[j] = sum[i] A[i,j] * x[i];", "c", 1, false, false},
    {"matvec_add", "A:N,M x:M z:N", "out c[i] = 2 * z[i] + sum[j] A[i,j] * x[j];", "c", 1, false, false},
    {"matmul", "A:N,M B:M,K", "out C[i,k] = sum[j] A[i,j] * B[j,k]$C;", "C", 2, true, false},
    {"matmul_at", "A:M,N B:M,K", "out C[i,k] = sum[j] A[j,i] * B[j,k]$C;", "C", 2, true, false},
    {"matmul_bt", "A:N,M B:K,M", "out C[i,k] = sum[j] A[i,j] * B[k,j]$C;", "C", 2, true, false},
    {"gram", "A:N,M", "out C[i,k] = sum[j] A[j,i] * A[j,k]$C;", "C", 2, true, false},
    {"atda", "A:N,M d:N", "out C[i,k] = sum[j] A[j,i] * d[j] * A[j,k]$C;", "C", 2, true, false},
    {"matmul3", "A:N,M B:M,K D:K,N", "out C[i,l] = sum[j,k] A[i,j] * B[j,k] * D[k,l];", "C", 2, false, false},
    {"matmul_relu", "A:N,M B:M,K", "out C[i,k] = relu(sum[j] A[i,j] * B[j,k]);", "C", 2, false, false},
    {"sddmm", "A:N,M P:N,K Q:M,K", "out C[i,j] = A[i,j] * sum[k] P[i,k] * Q[j,k];", "C", 2, false, false},
    {"sddmm_like", "A:N,M P:N,K Q:M,K", "out C[i,j] = A[i,j] * sum[k] P[i,k] * Q[j,k] as like(A);", "C", 2, false, false},
    {"sampled", "A:N,M B:N,M", "out C[i,j] = B[i,j] on A[i,j] fill -1;", "C", 2, false, false},
    {"triangle", "A:N,M", "out C[i,j] = A[i,j] on j <= i;", "C", 2, false, false},
    {"softmax", "A:N,M", "out C[i,j] = softmax[j](A[i,j]);", "C", 2, false, true},
    {"topk", "A:N,M", "out C[i,j] = topk[j](A[i,j], 2);", "C", 2, false, false},
    {"window", "x:N+2 z:N", "out c[i] = 2*x[i+1] + x[i+2] - z[i];", "c", 1, false, false},
    {"blocks", "A:N,M s:N,M/3", "out C[i,j] = A[i,j] * s[i,j/3];", "C", 2, false, false},
    {"two_steps", "A:N,M B:M,K", "let h[i,k] = relu(sum[j] A[i,j] * B[j,k]); out C[i,j] = sum[k] h[i,k] * B[j,k];", "C", 2, false, false},
    {"normalise", "A:N,M", "let s[i] = sum[j] A[i,j] * A[i,j]; out C[i,j] = A[i,j] * s[i];", "C", 2, false, false},
    {"mttkrp", "T:N,M,K B:M,N D:K,N", "out C[i,r] = sum[j,k] T[i,j,k] * B[j,r] * D[k,r];", "C", 2, false, false},
    {"ttv", "T:N,M,K x:K", "out C[i,j] = sum[k] T[i,j,k] * x[k]$C;", "C", 2, true, false},
    {"add_3d", "T:N,M,K S:N,M,K", "out C[i,j,k] = T[i,j,k] + S[i,j,k];", "C", 3, false, false},
    {"ata_weighted", "A:M,N D:M,M", "out C[i,l] = sum[j,k] A[j,i] * D[j,k] * A[k,l]$C;", "C", 2, true, false},
    {"hard_sums_product", "A:N,N B:N,N D:N,N", "out C[i,k] = sum[j] (2*A[j,i] + B[j,i]) * (2*B[k,j] + D[j,k])$C;", "C", 2, true, false},
    {"matmul3_sparse", "A:N,M B:M,K D:K,N", "out C[i,l] = sum[j,k] A[i,j] * B[j,k] * D[k,l]$C;", "C", 2, true, false},
    {"sums_product", "A:N,N B:N,N D:N,N", "out C[i,k] = sum[j] (A[i,j] + B[i,j]) * (A[j,k] + B[j,k] + D[j,k])$C;", "C", 2, true, false},
    {"add_transposes3", "A:N,M B:M,N D:M,N", "out C[i,j] = A[i,j] + B[j,i] - 2 * D[j,i]$C;", "C", 2, true, false},
    {"product_by_steps", "A:N,M B:M,K D:K,N", "let t[i,k] = sum[j] A[i,j] * B[j,k]; out C[i,l] = sum[k] t[i,k] * D[k,l]$C;", "C", 2, true, false},
    {"masked_product", "A:N,M B:M,K D:N,K", "out C[i,k] = D[i,k] * sum[j] A[i,j] * B[j,k]$C;", "C", 2, true, false},
    {"product_plus", "A:N,M B:M,K D:N,K", "out C[i,k] = D[i,k] - sum[j] A[i,j] * B[j,k]$C;", "C", 2, true, false},
    {"product_relu", "A:N,M B:M,K", "out C[i,k] = relu(sum[j] A[i,j] * B[j,k])$C;", "C", 2, true, false},
    {"product_max", "A:N,M B:M,K", "out C[i,k] = max[j] A[i,j] * B[j,k]$C;", "C", 2, true, false},
    {"product_any", "A:N,M B:M,K", "out c[i,k] = any[j] (A[i,j] != 0 and B[j,k] != 0);", "c", 2, false, false},
    {"product_on", "A:N,M B:M,K D:N,K", "out C[i,k] = sum[j] A[i,j] * B[j,k] on D[i,k];", "C", 2, false, false},
    {"product_triangle", "A:N,M B:M,K", "out C[i,k] = sum[j] A[i,j] * B[j,k] on k <= i$C;", "C", 2, true, false},
    {"product_minus_product", "A:N,M B:M,K D:N,M E:M,K", "out C[i,k] = sum[j] A[i,j]*B[j,k] - sum[h] D[i,h]*E[h,k]$C;", "C", 2, true, false},
    {"triangles", "A:N,N", "out c[] = sum[i,j,k] A[i,j] * A[j,k] * A[i,k];", "c", 0, false, false},
    {"diagonal", "A:N,N", "out c[i] = A[i,i];", "c", 1, false, false},
    {"trace_product", "A:N,M B:M,N", "out c[] = sum[i,j] A[i,j] * B[j,i];", "c", 0, false, false},
    {"outer", "x:N z:M", "out C[i,j] = x[i] * z[j]$C;", "C", 2, true, false},
    {"scaled_rows_columns", "A:N,M x:N z:M", "out C[i,j] = x[i] * A[i,j] * z[j]$C;", "C", 2, true, false},
    {"row_prod", "A:N,M", "out c[i] = prod[j] A[i,j];", "c", 1, false, false},
    {"row_min", "A:N,M B:N,M", "out c[i] = min[j] A[i,j] * B[i,j];", "c", 1, false, false},
    {"all_column", "A:N,M", "out c[j] = all[i] (A[i,j] >= 0);", "c", 1, false, false},
    {"column_max", "A:N,M", "out c[j] = max[i] A[i,j];", "c", 1, false, false},
    {"scatter_rows", "A:N,M p:N:N", "out C[p[i],j] += A[i,j] : @[N,M];", "C", 2, false, false},
    {"scatter_max", "A:N,M p:N:M", "out c[p[i]] max= A[i,j] : @[M];", "c", 1, false, false},
    {"gather_rows", "A:N,M p:M:N", "out C[i,j] = A[p[i],j] : @[M,M];", "C", 2, false, false},
    {"gather_columns", "A:N,M p:N:M", "out c[i] = sum[k] A[k,p[i]];", "c", 1, false, false},
    {"gather_product", "A:N,M B:K,M p:M:K", "out C[i,k] = sum[j] A[i,j] * B[p[j],k];", "C", 2, false, false},
    {"window_rows", "A:N+2,M B:N,M", "out C[i,j] = A[i+2,j] - B[i,j]$C;", "C", 2, true, false},
    {"window_both", "A:N+1,M+2 B:N,M", "out C[i,j] = A[i+1,j+2] + 2 * B[i,j]$C;", "C", 2, true, false},
    {"stride_rows", "A:2*N,M x:M", "out c[i] = sum[j] A[2*i+1,j] * x[j] : @[N];", "c", 1, false, false},
    {"stride_columns", "A:N,3*K", "out C[i,k] = A[i,3*k+1] - A[i,3*k] : @[N,K]$C;", "C", 2, true, false},
    {"convolution", "x:N+4 w:5", "out c[i] = sum[q] x[i+q] * w[q] : @[N];", "c", 1, false, false},
    {"convolution2", "A:N+2,M+2 w:3,3", "out C[i,j] = sum[p,q] A[i+p,j+q] * w[p,q] : @[N,M];", "C", 2, false, false},
    {"block_sums", "A:N,3*K w:3", "out C[i,b] = sum[q] A[i,3*b+q] * w[q] : @[N,K];", "C", 2, false, false},
    {"ttm", "T:N,M,K B:K,N", "out C[i,j,l] = sum[k] T[i,j,k] * B[k,l]$C;", "C", 3, true, false},
    {"ttm_middle", "T:N,M,K B:M,N", "out C[i,l,k] = sum[j] T[i,j,k] * B[j,l]$C;", "C", 3, true, false},
    {"mttkrp_sparse", "T:N,M,K B:M,N D:K,N", "out C[i,r] = sum[j,k] T[i,j,k] * B[j,r] * D[k,r]$C;", "C", 2, true, false},
    {"mttkrp_last", "T:N,M,K B:M,N D:N,N", "out C[k,r] = sum[i,j] T[i,j,k] * B[j,r] * D[i,r]$C;", "C", 2, true, false},
    {"permuted_3d", "T:N,M,K", "out C[k,i,j] = T[i,j,k]$C;", "C", 3, true, false},
    {"add_permuted_3d", "T:N,M,K S:K,N,M", "out C[i,j,k] = T[i,j,k] + S[k,i,j]$C;", "C", 3, true, false},
    {"mul_3d", "T:N,M,K S:N,M,K", "out C[i,j,k] = T[i,j,k] * S[i,j,k]$C;", "C", 3, true, false},
    {"mul_slices", "T:N,M,K A:M,K", "out C[i,j,k] = T[i,j,k] * A[j,k]$C;", "C", 3, true, false},
    {"ttv_first", "T:N,M,K x:N", "out C[j,k] = sum[i] T[i,j,k] * x[i]$C;", "C", 2, true, false},
    {"inner_3d", "T:N,M,K S:N,M,K", "out c[] = sum[i,j,k] T[i,j,k] * S[i,j,k];", "c", 0, false, false},
    {"contract_3d", "T:N,M,K S:K,M,N", "out C[i,l] = sum[j,k] T[i,j,k] * S[k,j,l]$C;", "C", 2, true, false},
    {"slice_sums", "T:N,M,K", "out C[i,k] = sum[j] T[i,j,k]$C;", "C", 2, true, false},
    {"max_3d", "T:N,M,K", "out C[i,j] = max[k] T[i,j,k];", "C", 2, false, false},
    {"by_value", "A:N,M B:M,K", "out C[i,k] = relu(sum[j] A[i,j] * B[j,k])$C ~ zeros(dynamic);", "C", 2, true, false},
    {"by_value_on", "A:N,M B:N,M", "out C[i,j] = topk[j](A[i,j] - B[i,j], 2) on j <= i$C ~ zeros(dynamic);", "C", 2, true, false},
    {"by_value_step", "A:N,M B:M,K", "let h[i,k] = relu(sum[j] A[i,j] * B[j,k])$C ~ zeros(dynamic); out C[i,j] = sum[k] h[i,k] * B[j,k];", "C", 2, true, false},
    {"mttkrp_4d", "U:N,K,M,K B:K,N", "out C[i,r] = sum[j,k,l] U[i,j,k,l] * B[j,r] * B[l,r]$C;", "C", 2, true, false},
};

/* What stands before the kernel. */
#define MATRIX_HEAD                                                                                  \
  "spx 1;\ndim N: dyn;  dim M: dyn;  dim K: dyn;\n"                                                 \
  "format own(b) = [i,j] -> [ j/b: compressed, i: compressed, j%b: dense ];\n"                      \
  "format own3 = [i,j,k] -> [ k: dense, i: compressed, j: compressed ];\n"                          \
  "format own3b(b) = [i,j,k] -> [ i/b: compressed, j: compressed, i%b: dense, k: compressed ];\n"

/* Formats by the rank of the operand; capacities fit every shape class below. */
static const char *const matrix_formats1[] = {"", "coo"};
static const char *const matrix_formats2[] = {"", "dense_t", "csr", "csc", "coo", "dcsr", "bsr(2,3)", "csf", "ell(40)", "bitmap(4,4)", "twell(8,2)", "own(2)"};
static const char *const matrix_formats3[] = {"", "coo", "csf", "own3", "own3b(2)"};
static const char *const matrix_formats4[] = {"", "coo", "csf"};
static const char *const matrix_results2[] = {"", "csr", "csc", "coo", "dcsr", "own(2)", "bsr(2,3)", "twell(4,1)", "twell(16,3)"};
static const char *const matrix_results3[] = {"", "coo", "csf", "own3"};
static const char *const matrix_dtypes[] = {"f32", "f64", "bf16", "f16", "i32", "i64", "i8"};

/* M is a multiple of 3 in every class (K/3 subscripts); nothing else is a multiple of anything. */
typedef struct matrix_shape {
  const char *name;
  int n, m, k;
  double density; /* of random non-zeros */
  int special;    /* 1: one full row; 2: band; 3: explicit zeros among the stored */
} matrix_shape;
static const matrix_shape matrix_shapes[] = {
    {"small", 7, 9, 5, 0.3, 0},   {"one row", 1, 15, 4, 0.4, 0}, {"one column", 11, 3, 1, 0.3, 0},
    {"empty", 0, 6, 3, 0.5, 0},   {"no columns", 5, 0, 3, 0.5, 0}, {"all zero", 6, 12, 7, 0.0, 0},
    {"full", 5, 9, 6, 1.0, 0},    {"hub row", 13, 21, 10, 0.05, 1}, {"banded", 19, 18, 9, 0.0, 2},
    {"explicit zeros", 9, 12, 8, 0.4, 3}, {"wide", 3, 39, 33, 0.1, 0}};

/* clang-format on */
#endif
