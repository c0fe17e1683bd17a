// Eigen behind plain functions, for bench/cpu.py: compiled there, for the machine that it runs on.
#include <Eigen/Dense>
#include <Eigen/Sparse>

using Dense = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Sparse = Eigen::SparseMatrix<float, Eigen::RowMajor, int>;
using Stored = Eigen::Map<const Sparse>;
using In = Eigen::Map<const Dense>;
using Out = Eigen::Map<Dense>;
using Line = Eigen::Map<const Eigen::VectorXf>;
using Array = Eigen::Map<const Eigen::ArrayXf>;

static Sparse kept; // the sparse result of the last call

extern "C" {
void eigen_threads(int n) { Eigen::setNbThreads(n); }

void eigen_gemm(long m, long n, long k, const float *a, const float *b, float *c) {
  Out(c, m, n).noalias() = In(a, m, k) * In(b, k, n);
}
void eigen_spmm(long m, long n, long k, long nnz, const int *pos, const int *crd, const float *vals, const float *b, float *c) {
  Out(c, m, n).noalias() = Stored(m, k, nnz, pos, crd, vals) * In(b, k, n);
}
void eigen_spmv(long m, long k, long nnz, const int *pos, const int *crd, const float *vals, const float *x, float *y) {
  Eigen::Map<Eigen::VectorXf>(y, m).noalias() = Stored(m, k, nnz, pos, crd, vals) * Line(x, k);
}
// which: 0 sum, 1 product of matrices, 2 product of elements
void eigen_sparse(int which, long m, long n, long k, long na, const int *pa, const int *ca, const float *va, long nb, const int *pb,
                  const int *cb, const float *vb) {
  Stored a(m, which == 1 ? k : n, na, pa, ca, va), b(which == 1 ? k : m, n, nb, pb, cb, vb);
  if (which == 0)
    kept = a + b;
  else if (which == 1)
    kept = a * b;
  else
    kept = a.cwiseProduct(b);
}
long eigen_result(const int **pos, const int **crd, const float **vals) {
  kept.makeCompressed();
  *pos = kept.outerIndexPtr();
  *crd = kept.innerIndexPtr();
  *vals = kept.valuePtr();
  return kept.nonZeros();
}
void eigen_fused(long n, const float *a, const float *b, const float *c, float *y) {
  Eigen::Map<Eigen::ArrayXf>(y, n) = (Array(a, n) * Array(b, n) + Array(c, n)).max(0.0f);
}
}
