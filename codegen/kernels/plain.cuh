// plain.cuh - panels of plain multiply-adds, and how they get from global to shared memory.
//
// Rows of a panel are k's, whichever way its operand lies, as they are: a warp that multiplies reads pieces of one row, so nothing
// need be swizzled, and a k lies at a constant distance.  Each row has 16 bytes of padding, for those who write down a column:
//
//     rows of the operand are k's      straight: 16 bytes at a time, 4 at edges and where a row is not aligned
//     they are m's, n's                turned: 4 bytes at a time; a warp takes sixteen k's, two sectors, of two rows
//
// A loader copies the k tiles in order, load<Whole>(panel, its first k): as a whole one up to that which begins at `whole`, all threads
// alike, and with zeros outside by the slow road.
#pragma once
#include "spc/gemm.cuh"

template <class T, int K, int Free> struct spc_plain_panel {
  static_assert(sizeof(T) == 4, "the operands must be f32");
  static constexpr int pitch = Free * 4 + 16, bytes = K * pitch;
};

// How threads share a panel whose rows are copied straight: `wide` side by side on a row, `slabs` steps along it.
template <class T, int K, int Free, int Threads> struct spc_straight_share {
  using panel = spc_plain_panel<T, K, Free>;
  static constexpr int chunks = Free / 4, wide = Threads / K < chunks ? Threads / K : chunks;
  static constexpr int pass_rows = Threads / wide, passes = K / pass_rows, slabs = chunks / wide;
  static constexpr int step = wide * 4; // elements from one of a thread's chunks in a row to the next
  static_assert(Threads % wide == 0 && K % pass_rows == 0 && chunks % wide == 0, "the threads must cover a panel in whole passes");
  SPC_DEVICE int first(int thread) { return thread / wide; }
  SPC_DEVICE int column(int thread) { return thread % wide * 4; }
  SPC_DEVICE int at(int thread) { return first(thread) * panel::pitch + column(thread) * 4; } // in the panel

  // A thread's chunks of one k, whole and aligned, or zeros.
  SPC_DEVICE void copy(spc_u32 to, const T *from, int bytes) {
#pragma unroll
    for (int s = 0; s < slabs; s++) ptx_copy_async_16(to + s * step * 4, from + s * step, bytes);
  }
  // The same element by element; `inside`: elements from the thread's first to the end of the row; `any` can be read.
  SPC_DEVICE void copy_edge(spc_u32 to, const T *from, int inside, const T *any) {
#pragma unroll 1
    for (int s = 0; s < slabs; s++, to += step * 4, from += step, inside -= step)
#pragma unroll
      for (int e = 0; e < 4; e++) ptx_copy_async_4(to + e * 4, e < inside ? from + e : any, e < inside ? 4 : 0);
  }
};

// Columns [free0, ...) of all rows.
template <class T, int K, int Free, int Threads> struct spc_straight_loader {
  using share = spc_straight_share<T, K, Free, Threads>;
  using panel = typename share::panel;

  spc_matrix<T> source;
  const T *from; // this thread's first element of the next tile
  spc_u32 at;    // its place in a panel
  int k, free, free0;
  int whole;

  __device__ __forceinline__ spc_straight_loader(spc_matrix<T> of, int extent_k, int extent_free, int at0, int thread)
      : source(of), from(of.origin + share::first(thread) * of.pitch + at0 + share::column(thread)), at(share::at(thread)),
        k(extent_k), free(extent_free), free0(at0) {
    whole = free0 + Free <= extent_free && spc_matrix<T>::is_aligned(of) ? extent_k - K : -1;
  }
  template <bool Whole> __device__ __forceinline__ void load(spc_u32 shared, int k0) {
    const spc_u32 to = shared + at;
    if constexpr (Whole) {
#pragma unroll
      for (int p = 0; p < share::passes; p++)
        share::copy(to + p * share::pass_rows * panel::pitch, from + p * share::pass_rows * source.pitch, 16);
    } else {
      const int thread = ptx_thread(), inside = free - free0 - share::column(thread);
#pragma unroll 1
      for (int p = 0; p < K; p += share::pass_rows)
        share::copy_edge(to + p * panel::pitch, from + p * source.pitch, k0 + share::first(thread) + p < k ? inside : 0, source.origin);
    }
    from += K * source.pitch;
  }
};

// The same of rows that a list names, read from it one tile ahead.
template <class T, int K, int Free, int Threads, int Gran> struct spc_straight_gather_loader {
  using share = spc_straight_share<T, K, Free, Threads>;
  using panel = typename share::panel;
  static_assert((Gran & (Gran - 1)) == 0, "micro-tiles along k must be a power of two long");

  const T *origin; // this thread's first column, in row 0
  spc_u32 pitch;   // bytes
  spc_list list;
  int position;            // in the list, in k's, of this thread's first row of the next tile but one
  int next[share::passes]; // rows of the next tile; -1: none, zeros
  spc_u32 at;
  int free, free0;
  int whole;

  __device__ __forceinline__ spc_straight_gather_loader(spc_matrix<T> from, spc_list of, int extent_free, int at0, int thread)
      : origin(from.origin + at0 + share::column(thread)), pitch((spc_u32)from.pitch * 4), list(of), position(share::first(thread)),
        at(share::at(thread)), free(extent_free), free0(at0) {
    whole = free0 + Free <= extent_free && spc_matrix<T>::is_aligned(from) ? 0x7fffffff : -1;
    look_ahead();
  }
  __device__ __forceinline__ void look_ahead() {
#pragma unroll
    for (int p = 0; p < share::passes; p++) next[p] = list.template at<Gran>(position + p * share::pass_rows);
    position += K;
  }
  template <bool Whole> __device__ __forceinline__ void load(spc_u32 shared, int) {
#pragma unroll
    for (int p = 0; p < share::passes; p++) {
      const T *from = (const T *)ptx_address((const char *)origin, max(next[p], 0), pitch);
      const spc_u32 to = shared + at + p * share::pass_rows * panel::pitch;
      if constexpr (Whole) {
        share::copy(to, from, next[p] >= 0 ? 16 : 0);
      } else {
        const int column = free0 + share::column(ptx_thread());
        share::copy_edge(to, from, next[p] >= 0 ? free - column : 0, origin - column);
      }
    }
    look_ahead();
  }
};

// How threads share a panel that is turned: sixteen side by side along k.
template <class T, int K, int Free, int Threads> struct spc_turned_share {
  using panel = spc_plain_panel<T, K, Free>;
  static constexpr int wide = 16, pass_rows = Threads / wide, passes = Free / pass_rows, steps = K / wide;
  static_assert(K % wide == 0 && Free % pass_rows == 0, "the threads must cover a panel in whole passes");
  SPC_DEVICE int first(int thread) { return thread / wide; }
  SPC_DEVICE int column(int thread) { return thread % wide; }
  SPC_DEVICE int at(int thread) { return column(thread) * panel::pitch + first(thread) * 4; }

  // A thread's elements of one row of the operand, `inside` of them from its first to the row's end.
  template <bool Whole> SPC_DEVICE void copy(spc_u32 to, const T *from, int inside, const T *any) {
#pragma unroll
    for (int s = 0; s < steps; s++) {
      const bool is = Whole || s * wide < inside;
      ptx_copy_async_4(to + s * wide * panel::pitch, is ? from + s * wide : any, is ? 4 : 0);
    }
  }
};

// Rows [free0, ...).
template <class T, int Free, int K, int Threads> struct spc_turned_loader {
  using share = spc_turned_share<T, K, Free, Threads>;
  using panel = typename share::panel;

  spc_matrix<T> source;
  const T *from;
  spc_u32 at;
  int k, free, free0;
  int whole;

  __device__ __forceinline__ spc_turned_loader(spc_matrix<T> of, int extent_k, int extent_free, int at0, int thread)
      : source(of), from(of.origin + (at0 + share::first(thread)) * of.pitch + share::column(thread)), at(share::at(thread)),
        k(extent_k), free(extent_free), free0(at0) {
    whole = free0 + Free <= extent_free ? extent_k - K : -1;
  }
  template <bool Whole> __device__ __forceinline__ void load(spc_u32 shared, int k0) {
    const spc_u32 to = shared + at;
    if constexpr (Whole) {
      const T *row = from;
#pragma unroll
      for (int p = 0; p < share::passes; p++) {
        share::template copy<true>(to + p * share::pass_rows * 4, row, K, row);
        row = ptx_kept(row + share::pass_rows * source.pitch);
      }
    } else {
      const int thread = ptx_thread(), rows = free - free0 - share::first(thread), inside = k - k0 - share::column(thread);
#pragma unroll 1
      for (int p = 0; p < Free; p += share::pass_rows)
        share::template copy<false>(to + p * 4, from + p * source.pitch, p < rows ? inside : 0, source.origin);
    }
    from += K;
  }
};

// Rows are m's of a group, from m0 up to m_end, each wherever Config::row says: no tile is known to be whole.
template <class T, int Free, int K, int Threads, class Config> struct spc_turned_named_loader {
  using share = spc_turned_share<T, K, Free, Threads>;
  using panel = typename share::panel;

  spc_matrix<T> source;
  int column, k;
  int next[share::passes]; // rows of this thread; -1: none, zeros
  int whole;
  spc_u32 at;

  __device__ __forceinline__ spc_turned_named_loader(spc_matrix<T> from, const spc_args &args, int extent_k, int m0, int m_end,
                                                     int thread)
      : source(from), column(share::column(thread)), k(extent_k), whole(extent_k - K), at(share::at(thread)) {
#pragma unroll
    for (int p = 0; p < share::passes; p++) {
      int m = m0 + share::first(thread) + p * share::pass_rows;
      next[p] = m < m_end ? Config::row(args, m) : -1;
    }
  }
  template <bool Whole> __device__ __forceinline__ void load(spc_u32 shared, int k0) {
#pragma unroll
    for (int p = 0; p < share::passes; p++) {
      const T *from = source.origin + max(next[p], 0) * source.pitch + k0 + column;
      share::template copy<false>(shared + at + p * share::pass_rows * 4, from, next[p] < 0 ? 0 : Whole ? K : k - k0 - column,
                                  source.origin);
    }
  }
};

template <class Config> struct spc_operands<Config, true> {
  static constexpr bool a_rows_are_k = Config::layout_a == 'c', b_rows_are_k = Config::layout_b == 'r';
  static_assert(!Config::gathers || (a_rows_are_k && b_rows_are_k),
                "a k list needs A stored [k][m] and B stored [k][n]: a row of the gather must be contiguous");
  static_assert(!Config::grouped || !a_rows_are_k, "rows that come in groups are stored each contiguous");
  static_assert(!Config::samples, "plain multiply-adds compute all columns");
  enum { straight, by_k, turned, by_m };
  template <class C, class T, int Free, int Which> struct pick {
    using loader = spc_straight_loader<T, C::tile_k, Free, C::loaders>;
  };
  template <class C, class T, int Free> struct pick<C, T, Free, by_k> {
    using loader = spc_straight_gather_loader<T, C::tile_k, Free, C::loaders, C::gran>;
  };
  template <class C, class T, int Free> struct pick<C, T, Free, turned> {
    using loader = spc_turned_loader<T, Free, C::tile_k, C::loaders>;
  };
  template <class C, class T, int Free> struct pick<C, T, Free, by_m> {
    using loader = spc_turned_named_loader<T, Free, C::tile_k, C::loaders, C>;
  };
  using loader_a = typename pick<Config, typename Config::A, Config::tile_m,
                                 Config::grouped                      ? by_m
                                 : Config::gathers && !Config::packed ? by_k
                                 : a_rows_are_k                       ? straight
                                                                      : turned>::loader;
  using loader_b = typename pick<Config, typename Config::B, Config::tile_n,
                                 Config::gathers ? by_k
                                 : b_rows_are_k  ? straight
                                                 : turned>::loader;
  static constexpr int slot_bytes = loader_a::panel::bytes + loader_b::panel::bytes;
};
