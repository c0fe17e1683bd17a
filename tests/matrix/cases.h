/* cases.h - what the matrix crosses: expressions, formats, dtypes, shape classes. */
#ifndef SPC_TESTS_MATRIX_CASES_H
#define SPC_TESTS_MATRIX_CASES_H

#include <stdbool.h>

/* Tables, one row a line. */
/* clang-format off */

/* One kernel.  `operands`: "A:N,M B:M,K" gives name and dims; $A in the text is replaced by the format of A
 * (" as csr" or nothing).  `result` is the output's name; `dims` its number of dimensions; `sparse`: the output may
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
};

/* Formats by the rank of the operand; capacities fit every shape class below. */
static const char *const matrix_formats1[] = {"", "coo"};
static const char *const matrix_formats2[] = {"", "dense_t", "csr", "csc", "coo", "dcsr", "bsr(2,3)", "csf", "ell(40)", "bitmap(4,4)", "twell(8,8)", "own(2)"};
static const char *const matrix_formats3[] = {"", "coo", "csf"};
static const char *const matrix_results[] = {"", "csr", "csc", "coo", "dcsr"};
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
