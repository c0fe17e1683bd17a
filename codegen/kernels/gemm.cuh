// gemm.cuh - T = epilogue(A * B): the pipeline that the composed kernels share.
//
// One block computes one tile.  Its k tiles travel through a ring of `depth` slots in shared memory:
//
//     load 0 .. depth-2 | wait, load i+depth-1, multiply i | ... | epilogue: stage, detect, store
//
// An asynchronous multiply (wgmma) is issued first and runs under the loads and the next wait; the ring then
// loads one tile less ahead, because the multiply before still reads its slot.
// Parts: loaders (panel.cuh), multiply (multiply_*.cuh), epilogue (epilogue.cuh).  A k-gathering kernel reads A
// and B through one list per strip of `tile_m` or more rows; an empty list has no tiles and its sums are zero.  A that was
// written over the same list (Config::packed) is read in the list's order; a kernel whose list names columns of the
// result (Config::samples) reads those rows of B alone and writes T so.  Rows in ragged groups (Config::grouped): groups.cuh.
// The order of tiles: place.cuh.
#pragma once
#include "spc/epilogue.cuh"
#include "spc/guard.cuh"
#include "spc/panel.cuh"
#include "spc/place.cuh"

// `Plain`: of plain multiply-adds (plain.cuh).
template <class Config, bool Plain = false> struct spc_operands {
  static constexpr bool a_rows_are_k = Config::layout_a == 'c', b_rows_are_k = Config::layout_b == 'r';
  using A = typename Config::A;
  using B = typename Config::B;
  static_assert(!Config::gathers || (a_rows_are_k && b_rows_are_k),
                "a k list needs A stored [k][m] and B stored [k][n]: a row of the gather must be contiguous");
  static_assert(!Config::samples || !b_rows_are_k, "a list along n needs B stored [n][k]: a row of the gather must be contiguous");
  enum { whole, by_k, by_n, by_m }; // the rows of a panel: all, k's of a list, n's of a list, a group's m's
  template <class C, class T, int Rows, int Columns, bool RowsAreK, int Which> struct pick {
    using loader = spc_tile_loader<T, Rows, Columns, C::loaders, RowsAreK>;
  };
  template <class C, class T, int Rows, int Columns, bool RowsAreK> struct pick<C, T, Rows, Columns, RowsAreK, by_k> {
    using loader = spc_gather_loader<T, Rows, Columns, C::loaders, C::gran>;
  };
  template <class C, class T, int Rows, int Columns, bool RowsAreK> struct pick<C, T, Rows, Columns, RowsAreK, by_n> {
    using loader = spc_rows_loader<T, Rows, Columns, C::loaders, C::gran>;
  };
  template <class C, class T, int Rows, int Columns, bool RowsAreK> struct pick<C, T, Rows, Columns, RowsAreK, by_m> {
    using loader = spc_named_rows_loader<T, Rows, Columns, C::loaders, C>;
  };
  static_assert(!Config::grouped || !a_rows_are_k, "rows that come in groups are stored each contiguous");
  using loader_a = typename pick<Config, A, a_rows_are_k ? Config::tile_k : Config::tile_m,
                                 a_rows_are_k ? Config::tile_m : Config::tile_k, a_rows_are_k,
                                 Config::grouped                      ? by_m
                                 : Config::gathers && !Config::packed ? by_k
                                                                      : whole>::loader;
  using loader_b = typename pick<Config, B, b_rows_are_k ? Config::tile_k : Config::tile_n,
                                 b_rows_are_k ? Config::tile_n : Config::tile_k, b_rows_are_k,
                                 Config::gathers ? by_k : Config::samples ? by_n : whole>::loader;
  static constexpr int slot_bytes = loader_a::panel::bytes + loader_b::panel::bytes;
};

template <class Config, class Sums, class LoaderA, class LoaderB>
SPC_DEVICE void spc_pipeline(Sums &sums, LoaderA &a, LoaderB &b, int tiles, char *shared) {
  using panel_a = typename LoaderA::panel;
  using panel_b = typename LoaderB::panel;
  const int slot_bytes = spc_operands<Config>::slot_bytes;
  const int lag = Sums::asynchronous ? 2 : 1; // slots that a multiply may still read when the next load starts
  static_assert(Config::depth > lag, "the pipeline needs more slots than the multiply keeps busy");
#pragma unroll 1 // a loader is a lot of code
  for (int s = 0; s < Config::depth - lag; s++) {
    if (s < tiles) {
      a.load(shared + s * slot_bytes);
      b.load(shared + s * slot_bytes + panel_a::bytes);
    }
    ptx_copy_async_commit();
  }
  int read = 0, write = Config::depth - lag;
#pragma unroll 1
  for (int i = 0; i < tiles; i++) {
    const char *slot = shared + read * slot_bytes;
    ptx_copy_async_wait<Config::depth - lag - 1>();
    if constexpr (Sums::asynchronous) sums.publish();
    __syncthreads();
    if constexpr (Sums::asynchronous) sums.template issue<panel_a, panel_b>(slot, slot + panel_a::bytes, i == 0);
    if (i + Config::depth - lag < tiles) {
      a.load(shared + write * slot_bytes);
      b.load(shared + write * slot_bytes + panel_a::bytes);
    }
    ptx_copy_async_commit();
    if constexpr (Sums::asynchronous) sums.template retire<1>();
    else sums.template multiply<panel_a, panel_b>(slot, slot + panel_a::bytes);
    read = read + 1 == Config::depth ? 0 : read + 1;
    write = write + 1 == Config::depth ? 0 : write + 1;
  }
  if constexpr (Sums::asynchronous) sums.template retire<0>();
  if (Sums::asynchronous && tiles == 0) sums.clear();
  ptx_copy_async_wait<0>();
  __syncthreads();
}

// The same, or a pipeline of their own: of plain multiply-adds (multiply_fma.cuh).
template <class Config, class Sums, class LoaderA, class LoaderB>
SPC_DEVICE void spc_multiply_tiles(Sums &sums, LoaderA &a, LoaderB &b, int tiles, char *shared) {
  if constexpr (Sums::plain) sums.multiply(a, b, tiles, shared);
  else spc_pipeline<Config>(sums, a, b, tiles, shared);
}

// Makes the two loaders of a tile, for thread number `thread` of those that load, and calls
// use(load_a, load_b, number of k tiles).
template <class Config, bool Plain = false, class Use>
SPC_DEVICE void spc_with_loaders(const spc_tile_place &place, int thread, const spc_args &args, Use use) {
  using operands = spc_operands<Config, Plain>;
  spc_matrix<typename Config::A> a = {Config::a(args, place.batch), Config::pitch_a(args)};
  spc_matrix<typename Config::B> b = {Config::b(args, place.batch), Config::pitch_b(args)};
  int k = (int)Config::k(args);
  if constexpr (Config::gathers) {
    static_assert(Config::strip % Config::tile_m == 0, "a tile must lie in one strip of the list");
    spc_list list = spc_list_of<Config>(args, place.m0 / Config::strip, k);
    int listed = list.count * Config::gran;
    typename operands::loader_b load_b(b, list, place.n, place.n0, thread);
    if constexpr (Config::packed) { // rows of A are positions of the list
      int begin = spc_own_begin<Config>(args, place.m0 / Config::strip) * Config::gran;
      a.origin += begin * a.pitch;
      typename operands::loader_a load_a(a, min(listed, k - begin), place.m, place.m0, thread);
      use(load_a, load_b, (listed + Config::tile_k - 1) / Config::tile_k);
    } else {
      typename operands::loader_a load_a(a, list, place.m, place.m0, thread);
      use(load_a, load_b, (listed + Config::tile_k - 1) / Config::tile_k);
    }
  } else if constexpr (Config::samples) {
    typename operands::loader_a load_a(a, k, place.m, place.m0, thread);
    typename operands::loader_b load_b(b, spc_list_of<Config>(args, place.m0 / Config::strip, Config::n(args)), k,
                                       place.n0, thread);
    use(load_a, load_b, (k + Config::tile_k - 1) / Config::tile_k);
  } else if constexpr (Config::grouped) {
    typename operands::loader_a load_a(a, args, k, place.m0, place.m, thread);
    typename operands::loader_b load_b(b, k, place.n, place.n0, thread);
    use(load_a, load_b, (k + Config::tile_k - 1) / Config::tile_k);
  } else {
    typename operands::loader_a load_a(a, k, place.m, place.m0, thread);
    typename operands::loader_b load_b(b, k, place.n, place.n0, thread);
    use(load_a, load_b, (k + Config::tile_k - 1) / Config::tile_k);
  }
}

// Number of k tiles, for threads that load nothing.
template <class Config> SPC_DEVICE int spc_k_tiles(const spc_tile_place &place, const spc_args &args, bool all = false) {
  long long k = Config::k(args);
  if constexpr (Config::gathers || Config::k_blocks)
    if constexpr (Config::own_lists) {
      if (!all) {
        int words = (int)Config::bit_words(args), count = 0;
        const spc_u32 *bits = Config::bits(args) + (spc_u64)(place.m0 / Config::strip) * (spc_u32)words;
#pragma unroll 4
        for (int w = 0; w < words; w++) count += __popc(__ldg(bits + w));
        k = (long long)count * Config::gran;
      }
    } else if (!Config::own_dense || !all) k = (long long)spc_count_of<Config>(args, place.m0 / Config::strip) * Config::gran;
  return (int)((k + Config::tile_k - 1) / Config::tile_k);
}

template <class Config, class Sums> SPC_DEVICE void spc_gemm(const spc_args &args) {
  using operands = spc_operands<Config, Sums::plain>;
  static_assert(Config::loaders == Config::threads && Config::workers == Config::threads,
                "every thread of this pipeline loads and multiplies");
  static_assert(Config::shared_bytes >= Config::depth * operands::slot_bytes &&
                    Config::shared_bytes >= spc_staged_tile<Config>::bytes,
                "shared_bytes is less than the pipeline or the staged tile needs");
  extern __shared__ __align__(1024) char spc_shared[];
  if (spc_not_meant<Config>(args)) return;
  spc_tile_place place = spc_place_tile<Config>(args, blockIdx.x);
  if constexpr (Config::samples) {
    int strip = place.m0 / Config::strip;
    place.n = spc_listed_columns<Config>(args, strip, Config::counts(args)[strip]);
    if (place.n0 >= place.n) return;
  }
  Sums sums;
  if (!Sums::asynchronous) sums.clear();
  spc_with_loaders<Config, Sums::plain>(place, (int)threadIdx.x, args, [&](auto &load_a, auto &load_b, int tiles) {
    spc_multiply_tiles<Config>(sums, load_a, load_b, tiles, spc_shared);
  });
  spc_stage_sums<Config>(spc_shared, sums);
  __syncthreads();
  spc_store_tile<Config>(spc_shared, place, args);
  if constexpr (Config::detects) {
    __syncthreads();
    spc_detect_tile<Config>(spc_shared, place, args);
  }
}
