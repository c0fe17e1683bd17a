// fill_rows.cuh - rows of a result that nothing is added up for: e(0), a warp a row, 16 bytes a lane at a time.
//
// Who is asked for a row that no list names (gemm_live.cuh), or that lies in a strip whose list is empty (rows.cuh).
// Config names: t, pitch_t, m, n, epilogue and what it is brought of rows and columns.
#pragma once
#include "spc/epilogue.cuh"

template <class Config> struct spc_row_filler {
  using T = typename Config::T;
  static constexpr int chunk = 16 / (int)sizeof(T); // elements of a lane's store
  const spc_args &args;
  int n, whole; // columns; those before are stored by chunks
  long long pitch;

  __device__ __forceinline__ explicit spc_row_filler(const spc_args &a) : args(a), n((int)Config::n(a)), pitch(Config::pitch_t(a)) {
    const bool aligned = (((spc_u64)Config::t(args, 0) | (spc_u64)pitch * sizeof(T)) & 15) == 0;
    whole = aligned ? n / chunk * chunk : 0;
  }
  // By a whole warp.
  __device__ __forceinline__ void fill(int row) const {
    static_assert(!Config::fetches && !Config::reads_place, "nothing is brought from the result's own place");
    const int lane = (int)threadIdx.x & 31;
    T *to = Config::t(args, 0) + row * pitch;
    spc_brought brought = {};
#pragma unroll
    for (int i = 0; i < Config::rows_read; i++) brought.row[i] = Config::row(args, i, row);
    auto value = [&](int column) {
#pragma unroll
      for (int i = 0; i < Config::columns_read; i++) brought.column[i] = Config::column(args, i, column);
      return spc_put_as<T>::from(Config::epilogue(args, 0.0f, row, column, 0, brought));
    };
#pragma unroll 1
    for (int c = lane * chunk; c < whole; c += 32 * chunk) {
      alignas(16) T values[chunk];
#pragma unroll
      for (int e = 0; e < chunk; e++) values[e] = value(c + e);
      *(uint4 *)(to + c) = *(const uint4 *)values;
    }
#pragma unroll 1
    for (int c = whole + lane; c < n; c += 32) to[c] = value(c);
  }
};
