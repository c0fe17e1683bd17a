// panel.cuh - loaders: how a tile of an operand gets from global to shared memory.
//
// A panel is `Rows` rows of `Columns` elements; a row is contiguous in global memory.  In shared memory it is cut
// into slabs of at most 128 bytes of a row, and a slab's 16-byte chunks are swizzled so that eight rows of one
// chunk column lie in eight different bank groups (the 128-byte swizzle of wgmma, its 64-byte one for short rows):
//
//     chunk c of row r of a slab is stored at chunk  c ^ swizzle(r)  of row r
//
//                      rows are      columns are
//     A layout 'r'     m             k                A[m][k]
//     A layout 'c'     k             m                A[k][m]
//     B layout 'r'     k             n                B[k][n]
//     B layout 'c'     n             k                B[n][k]
//
// Sizes and alignment are free: what lies outside is zero, a row start that is not 16-byte aligned is copied
// element by element.  A gathering loader takes its k rows, or its n rows, from an index list (sread): one list for A and B.
#pragma once
#include "spc/abi.h"
#include "spc/dtypes.cuh"

template <class T, int Rows, int Columns> struct spc_panel {
  static constexpr int per_chunk = 16 / (int)sizeof(T);
  static constexpr int chunks = Columns / per_chunk; // of a row
  static constexpr int width = chunks < 8 ? Columns : 8 * per_chunk; // of a slab, elements
  static constexpr int bytes = Rows * chunks * 16, slab_bytes = Rows * (chunks < 8 ? chunks : 8) * 16;
  static_assert(Columns % per_chunk == 0 && (chunks & (chunks - 1)) == 0,
                "a panel's row must be a power of two of 16-byte chunks");
  SPC_DEVICE int swizzle(int row) {
    return chunks >= 8 ? row & 7 : (row / (8 / chunks)) & (chunks - 1);
  }
  SPC_DEVICE int chunk_at(int row, int chunk) {
    if (chunks <= 8) return (row * chunks + (chunk ^ swizzle(row))) * 16;
    return ((chunk / 8 * Rows + row) * 8 + (chunk % 8 ^ swizzle(row))) * 16;
  }
  SPC_DEVICE int element_at(int row, int column) {
    return chunk_at(row, column / per_chunk) + column % per_chunk * (int)sizeof(T);
  }
};

// Where the operand lies: element (row r, column c) is at origin[r * pitch + c].
template <class T> struct spc_matrix {
  const T *origin;
  long long pitch;
  SPC_DEVICE bool is_aligned(const spc_matrix &x) {
    return (((spc_u64)x.origin | (spc_u64)x.pitch * sizeof(T)) & 15) == 0;
  }
};

// One chunk element by element: the slow road for rows that are not aligned.
template <class T> SPC_DEVICE void spc_copy_chunk_slowly(char *to, const T *from, int valid) {
  union { T element[16 / sizeof(T)]; uint4 whole; } chunk;
  chunk.whole = make_uint4(0, 0, 0, 0);
  for (int e = 0; e < 16 / (int)sizeof(T); e++)
    if (e < valid) chunk.element[e] = from[e];
  *(uint4 *)to = chunk.whole;
}

// How `Threads` threads share a panel: `wide` of them side by side on a row, as many rows at once as that leaves,
// `slabs` steps along a row.  A gathering thread so has few rows, and reads few list entries.
template <class T, int Rows, int Columns, int Threads> struct spc_share {
  using panel = spc_panel<T, Rows, Columns>;
  static constexpr int wide = panel::chunks <= 8 ? panel::chunks : Threads / 8 <= Rows ? 8 : Threads / Rows;
  static constexpr int pass_rows = Threads / wide, passes = Rows / pass_rows, slabs = panel::chunks / wide;
  static constexpr int step = wide * panel::per_chunk; // elements from one of a thread's chunks in a row to the next
  // Where chunk number s of a thread goes in pass p.
  SPC_DEVICE spc_u32 at(char *shared, int first, int chunk, int p, int s) {
    return spc_shared_address(shared + panel::chunk_at(first + p * pass_rows, chunk + s * wide));
  }
  // The same from the first one's address `to`: a constant distance where the swizzle repeats.
  SPC_DEVICE spc_u32 further(char *shared, spc_u32 to, int first, int chunk, int p, int s) {
    if (pass_rows % 8 || (s && wide != 8)) return at(shared, first, chunk, p, s);
    return to + panel::chunk_at(p * pass_rows, s * wide);
  }
  static_assert(Threads % wide == 0 && Rows % pass_rows == 0 && panel::chunks % wide == 0,
                "the threads that load must cover a panel in whole passes");
};

// ---- tile: rows [row0, ...), columns [column0, ...) ------------------------------------------------------
template <class T, int Rows, int Columns, int Threads, bool RowsAreK> struct spc_tile_loader {
  using panel = spc_panel<T, Rows, Columns>;
  using share = spc_share<T, Rows, Columns, Threads>;

  spc_matrix<T> source;
  int rows, columns; // extent of the operand
  int row, column;   // this thread's first element in the next tile
  int first, chunk;  // and its place in the panel
  bool aligned;

  __device__ __forceinline__ spc_tile_loader(spc_matrix<T> from, int extent_k, int extent_free, int free0, int thread)
      : source(from), rows(RowsAreK ? extent_k : extent_free), columns(RowsAreK ? extent_free : extent_k),
        first(thread / share::wide), chunk(thread % share::wide) {
    row = first + (RowsAreK ? 0 : free0);
    column = chunk * panel::per_chunk + (RowsAreK ? free0 : 0);
    aligned = spc_matrix<T>::is_aligned(from);
  }
  // Elements of chunk number `slab` of this thread that lie inside.
  __device__ __forceinline__ int inside(int slab) const {
    return min(max(columns - column - slab * share::step, 0), panel::per_chunk);
  }
  __device__ __forceinline__ bool is_whole() const { // nothing of the tile lies outside
    return row - first + Rows <= rows && column - chunk * panel::per_chunk + Columns <= columns;
  }
  // Copies the next tile along k; call it once for every tile, in order.
  __device__ __forceinline__ void load(char *shared) {
    const T *from = source.origin + row * source.pitch + column;
    if (aligned && is_whole()) {
      spc_u32 to = spc_shared_address(shared + panel::chunk_at(first, chunk));
#pragma unroll 4
      for (int p = 0; p < share::passes; p++, from += share::pass_rows * source.pitch)
#pragma unroll
        for (int s = 0; s < share::slabs; s++)
          ptx_copy_async_16(share::further(shared, to, first, chunk, p, s), from + s * share::step, 16);
    } else if (aligned) {
      spc_u32 to = spc_shared_address(shared + panel::chunk_at(first, chunk));
#pragma unroll 2
      for (int p = 0; p < share::passes; p++, from += share::pass_rows * source.pitch)
#pragma unroll
        for (int s = 0; s < share::slabs; s++) {
          int bytes = row + p * share::pass_rows < rows ? inside(s) * (int)sizeof(T) : 0;
          ptx_copy_async_16(share::further(shared, to, first, chunk, p, s), bytes ? from + s * share::step : source.origin, bytes);
        }
    } else {
#pragma unroll 1
      for (int i = 0; i < share::passes * share::slabs; i++) {
        int p = i / share::slabs * share::pass_rows, s = i % share::slabs;
        spc_copy_chunk_slowly(shared + panel::chunk_at(first + p, chunk + s * share::wide),
                              from + p * source.pitch + s * share::step, row + p < rows ? inside(s) : 0);
      }
    }
    if (RowsAreK) row += Rows; else column += Columns;
  }
};

// ---- gather: rows that an ascending list of micro-tiles of Gran names ---------------------------------------
struct spc_list {
  const int *ids;
  int count;  // micro-tiles
  int extent; // of the listed axis: the last micro-tile may reach over it
  // What lies at a position of the list, counted in rows; -1: past the list.
  template <int Gran> __device__ __forceinline__ int at(int position) const {
    int row = position / Gran < count ? ids[position / Gran] * Gran + position % Gran : -1;
    return row < extent ? row : -1;
  }
  // The same in two: what is asked for early is looked at when it is wanted, for to look is to wait.
  template <int Gran> __device__ __forceinline__ int ask(int position) const { return position / Gran < count ? ids[position / Gran] : -1; }
  template <int Gran> __device__ __forceinline__ int row_of(int asked, int position) const {
    if (Gran == 1) return asked;
    int row = asked * Gran + position % Gran;
    return asked >= 0 && row < extent ? row : -1;
  }
};

// The rows of a panel, wherever in the operand they lie.
template <class T, int Rows, int Columns, int Threads> struct spc_listed_rows {
  using panel = spc_panel<T, Rows, Columns>;
  using share = spc_share<T, Rows, Columns, Threads>;

  spc_matrix<T> source;
  int columns, column;      // extent along a row; this thread's first element
  int first, chunk;
  int next[share::passes];  // rows of this thread; -1: none, zeros
  bool aligned;

  __device__ __forceinline__ spc_listed_rows(spc_matrix<T> from, int extent, int column0, int thread)
      : source(from), columns(extent), first(thread / share::wide), chunk(thread % share::wide) {
    column = chunk * panel::per_chunk + column0;
    aligned = spc_matrix<T>::is_aligned(from);
  }
  __device__ __forceinline__ int inside(int slab) const {
    return min(max(columns - column - slab * share::step, 0), panel::per_chunk);
  }
  __device__ __forceinline__ void copy(char *shared) {
    if (aligned && column - chunk * panel::per_chunk + Columns <= columns) {
      spc_u32 to = spc_shared_address(shared + panel::chunk_at(first, chunk));
#pragma unroll
      for (int p = 0; p < share::passes; p++) {
        const T *from = source.origin + max(next[p], 0) * source.pitch + column;
        int bytes = next[p] >= 0 ? 16 : 0;
#pragma unroll
        for (int s = 0; s < share::slabs; s++)
          ptx_copy_async_16(share::further(shared, to, first, chunk, p, s), from + s * share::step, bytes);
      }
    } else {
#pragma unroll 1
      for (int p = 0; p < share::passes; p++) copy_edge(shared, p, take_next());
    }
  }
  // The first of `next`, which goes behind the others: registers have no numbers.
  __device__ __forceinline__ int take_next() {
    int row = next[0];
#pragma unroll
    for (int p = 0; p + 1 < share::passes; p++) next[p] = next[p + 1];
    return next[share::passes - 1] = row;
  }
  // Chunks of a row that may lie partly outside, or is not aligned.
  __device__ __forceinline__ void copy_edge(char *shared, int p, int row) const {
    const T *from = source.origin + max(row, 0) * source.pitch + column;
#pragma unroll 1
    for (int s = 0; s < share::slabs; s++, from += share::step) {
      int valid = row >= 0 ? inside(s) : 0;
      if (aligned)
        ptx_copy_async_16(share::at(shared, first, chunk, p, s), valid ? from : source.origin, valid * (int)sizeof(T));
      else
        spc_copy_chunk_slowly(shared + panel::chunk_at(first + p * share::pass_rows, chunk + s * share::wide), from, valid);
    }
  }
};

// Rows are k's: other ones in every tile, read from the list one tile ahead.
template <class T, int Rows, int Columns, int Threads, int Gran>
struct spc_gather_loader : spc_listed_rows<T, Rows, Columns, Threads> {
  using rows = spc_listed_rows<T, Rows, Columns, Threads>;
  static_assert((Gran & (Gran - 1)) == 0, "micro-tiles along k must be a power of two long");
  spc_list list;
  int position; // in the list, in k's, of this thread's first row of the next tile

  __device__ __forceinline__ spc_gather_loader(spc_matrix<T> from, spc_list of, int extent_free, int free0, int thread)
      : rows(from, extent_free, free0, thread), list(of), position(thread / rows::share::wide) {
    look_ahead();
  }
  __device__ __forceinline__ void look_ahead() {
#pragma unroll
    for (int p = 0; p < rows::share::passes; p++)
      this->next[p] = list.template at<Gran>(position + p * rows::share::pass_rows);
    position += Rows;
  }
  __device__ __forceinline__ void load(char *shared) {
    this->copy(shared);
    look_ahead();
  }
};

// Rows are m's of a group, from m0 up to m_end, each wherever Config::row says: the same ones in every tile, which goes
// along k.
template <class T, int Rows, int Columns, int Threads, class Config>
struct spc_named_rows_loader : spc_listed_rows<T, Rows, Columns, Threads> {
  using rows = spc_listed_rows<T, Rows, Columns, Threads>;

  __device__ __forceinline__ spc_named_rows_loader(spc_matrix<T> from, const spc_args &args, int extent_k, int m0, int m_end,
                                                   int thread)
      : rows(from, extent_k, 0, thread) {
#pragma unroll
    for (int p = 0; p < rows::share::passes; p++) {
      int m = m0 + rows::first + p * rows::share::pass_rows;
      this->next[p] = m < m_end ? Config::row(args, m) : -1;
    }
  }
  __device__ __forceinline__ void load(char *shared) {
    this->copy(shared);
    this->column += Columns;
  }
};

// Rows are n's, from position `at0` of the list on: the same ones in every tile, which goes along k.
template <class T, int Rows, int Columns, int Threads, int Gran>
struct spc_rows_loader : spc_listed_rows<T, Rows, Columns, Threads> {
  using rows = spc_listed_rows<T, Rows, Columns, Threads>;
  static_assert((Gran & (Gran - 1)) == 0, "micro-tiles along n must be a power of two long");

  __device__ __forceinline__ spc_rows_loader(spc_matrix<T> from, spc_list of, int extent_k, int at0, int thread)
      : rows(from, extent_k, 0, thread) {
#pragma unroll
    for (int p = 0; p < rows::share::passes; p++)
      this->next[p] = of.template at<Gran>(at0 + rows::first + p * rows::share::pass_rows);
  }
  __device__ __forceinline__ void load(char *shared) {
    this->copy(shared);
    this->column += Columns;
  }
};
