// strips.cuh - values to lists in one launch: the blocks of a cluster share a strip.
//
//     each block      finds the bits of its share of the strip's words, in shared memory
//     all of them     tell each other how many they found, and meet
//     each block      leaves its entries behind those of the blocks before it
//
// Where the axis is contiguous a block has a share of the strip's rows instead, whole lines of memory: all of them tell each other their words,
// and or them.  Long strips take several rounds.  Who reads the list decides, from the counts (guard.cuh): a sample alone is looked at here.
// Two strips that share a list (pairs.cuh) are found by one cluster, in one round: where an entry lies is known when all are counted.
// Who stores listed columns at their places is told how many of them hold in some of the strip's rows alone (inplace.cuh); where the axis is not contiguous
// nobody looks, and all are said to.
// Config names: those of detect.cuh; cluster (blocks that share a strip), pairs (two strips share a list), keeps_bits (somebody reads these too),
// tells_partial, partial.
#pragma once
#include "spc/cluster.cuh"
#include "spc/detect.cuh"
#include "spc/pairs.cuh"

template <class Config> struct spc_shared_strip {
  static constexpr int cluster = Config::cluster, warps = Config::threads / 32, most = 128; // words of a block in a round
  spc_u32 word[most];
  int found[2][cluster]; // by each block, in this round and the one before

  // Bits of so many words from `first` on, a warp a word.
  __device__ __forceinline__ void find(const spc_args &args, const spc_strip_runs<Config> &runs, int strip, int first, int share, int words) {
    for (int i = (int)threadIdx.x / 32; i < most; i += warps) {
      spc_u32 bits = i < share && first + i < words ? spc_word_of<Config>(args, runs, strip, first + i) : 0;
      if (runs.lane() == 0) word[i] = bits;
    }
  }
  // Entries before word i of these, by whole warps; i: the same for all lanes.
  __device__ __forceinline__ int before(int i) const {
    int lane = (int)threadIdx.x & 31, sum = 0;
#pragma unroll
    for (int j = 0; j < most / 32; j++) sum += j * 32 + lane < i ? __popc(word[j * 32 + lane]) : 0;
    return (int)__reduce_add_sync(~0u, (spc_u32)sum);
  }
  // Tells all blocks, this one included.
  __device__ __forceinline__ void tell(int parity, int rank, int count) {
    if (threadIdx.x < cluster) ptx_cluster_store(ptx_cluster_address(spc_shared_address(&found[parity][rank]), (int)threadIdx.x), count);
  }
  __device__ __forceinline__ void leave(int *ids, int first, int share) const {
    const int lane = (int)threadIdx.x & 31;
#pragma unroll 1
    for (int i = (int)threadIdx.x / 32; i < share; i += warps) {
      spc_u32 bits = word[i];
      int at = before(i) + __popc(bits & ptx_lanes_below());
      if (bits >> lane & 1) ids[at] = (first + i) * 32 + lane;
    }
  }
};

template <class Config> SPC_DEVICE void spc_find_strips(const spc_args &args, const spc_strip_runs<Config> &runs) {
  using shared_strip = spc_shared_strip<Config>;
  __shared__ shared_strip strip;
  const int cluster = Config::cluster, rank = ptx_cluster_rank();
  const int words = (int)((Config::capacity(args) + 31) / 32), strips = (int)Config::strips(args);
  const int share = min((words + cluster - 1) / cluster, (int)shared_strip::most);
  int parity = 0;
  bool met = false; // the others' shared memory is there when they have begun
#pragma unroll 1
  for (int s = (int)blockIdx.x / cluster; s < strips; s += (int)gridDim.x / cluster) {
    int *ids = Config::ids(args) + (long long)s * Config::capacity(args), count = 0;
#pragma unroll 1
    for (int first = rank * share; first - rank * share < words; first += cluster * share, parity ^= 1) {
      if (!met) ptx_cluster_arrive();
      strip.find(args, runs, s, first, share, words);
      __syncthreads();
      if (!met) ptx_cluster_wait(), met = true;
      strip.tell(parity, rank, strip.before(shared_strip::most));
      ptx_cluster_sync();
      int mine = count;
#pragma unroll
      for (int r = 0; r < cluster; r++) {
        int found = strip.found[parity][r];
        count += found, mine += r < rank ? found : 0;
      }
      strip.leave(ids + mine, first, share);
      if constexpr (Config::keeps_bits)
        for (int i = (int)threadIdx.x; i < share && first + i < words; i += Config::threads) Config::bits(args)[(long long)s * words + first + i] = strip.word[i];
      __syncthreads(); // before the words are found anew
    }
    if (rank == 0 && threadIdx.x == 0) Config::counts(args)[s] = count;
    if constexpr (Config::tells_partial)
      if (rank == 0 && threadIdx.x == 0) Config::partial(args)[s] = count;
  }
}

template <class Config> struct spc_shared_rows {
  using axis = spc_axis_runs<Config>;
  static constexpr int cluster = Config::cluster, warps = Config::threads / 32;
  static constexpr bool fit = axis::sampled && axis::parts <= warps;
  static constexpr int most = fit ? warps * axis::load / axis::word : 1; // words of a round
  static_assert(most <= Config::threads && (warps & (warps - 1)) == 0, "a thread has a word, and loads side by side are whole words");
  static constexpr int fulls = Config::tells_partial ? most : 1;
  spc_u32 mine[most], word[most];
  spc_u32 found[2][cluster][most]; // by each block, in this round and the one before
  spc_u32 mine_full[fulls], full[fulls], found_full[2][cluster][fulls]; // the same of columns that hold in all rows

  // Loads of a warp side by side: as many as the rows are long, or as there are warps.
  SPC_DEVICE int beside(long long extent) {
    int loads = axis::parts;
    while (loads < warps && (long long)loads * axis::load < extent) loads *= 2;
    return loads;
  }
  // What the rows [first, last) hold from a column on, of so many loads side by side.
  __device__ __forceinline__ void find(const axis &runs, long long first, long long last, long long column, int loads) {
    const int batch = 8, warp = (int)threadIdx.x / 32, step = warps / loads, at = warp % loads * axis::load + axis::lane() * axis::chunk;
    uint4 sum = make_uint4(0, 0, 0, 0), all = make_uint4(~0u, ~0u, ~0u, ~0u);
    if ((int)threadIdx.x < most) mine[threadIdx.x] = 0;
    if (Config::tells_partial && (int)threadIdx.x < fulls) mine_full[threadIdx.x] = ~0u;
#pragma unroll 1
    for (long long r = first + warp / loads; r < last; r += batch * step) {
      uint4 v[batch];
#pragma unroll
      for (int i = 0; i < batch; i++) v[i] = runs.at(Config::tells_partial ? min(r + i * step, last - 1) : r + i * step, last, column + at);
#pragma unroll
      for (int i = 0; i < batch; i++) {
        sum = axis::both(sum, v[i]);
        if constexpr (Config::tells_partial) all = axis::full_too(all, v[i]);
      }
    }
    const spc_u32 bits = axis::bits(sum);
    const int tile = at / Config::gran;
    __syncthreads();
    if (bits) atomicOr(&mine[tile / 32], bits << tile % 32);
    if constexpr (Config::tells_partial) {
      const spc_u32 some = ~axis::full_bits(all) & ((1u << axis::each) - 1);
      if (some) atomicAnd(&mine_full[tile / 32], ~(some << tile % 32));
    }
    __syncthreads();
  }
  // Tells all blocks, this one included, a thread a word.
  __device__ __forceinline__ void tell(int parity, int rank, int words) {
    if ((int)threadIdx.x >= words) return;
    const spc_u32 here = spc_shared_address(&found[parity][rank][threadIdx.x]);
#pragma unroll
    for (int r = 0; r < cluster; r++) ptx_cluster_store(ptx_cluster_address(here, r), (int)mine[threadIdx.x]);
    if constexpr (Config::tells_partial) {
      const spc_u32 full_here = spc_shared_address(&found_full[parity][rank][threadIdx.x]);
#pragma unroll
      for (int r = 0; r < cluster; r++) ptx_cluster_store(ptx_cluster_address(full_here, r), (int)mine_full[threadIdx.x]);
    }
  }
  // What all have told.
  __device__ __forceinline__ void hear(int parity, int words) {
    if ((int)threadIdx.x < words) {
      spc_u32 all = 0;
#pragma unroll
      for (int r = 0; r < cluster; r++) all |= found[parity][r][threadIdx.x];
      word[threadIdx.x] = all;
    }
    if (Config::tells_partial && (int)threadIdx.x < words) {
      spc_u32 all = ~0u;
#pragma unroll
      for (int r = 0; r < cluster; r++) all &= found_full[parity][r][threadIdx.x];
      full[threadIdx.x] = all;
    }
    __syncthreads();
  }
  // Entries that hold in some rows alone, by whole warps.
  __device__ __forceinline__ int partials(int words) const {
    int sum = 0;
#pragma unroll 1
    for (int j = (int)threadIdx.x & 31; j < words; j += 32) sum += __popc(word[j] & ~full[j]);
    return (int)__reduce_add_sync(~0u, (spc_u32)sum);
  }
  // Entries before word i, by whole warps; i: the same for all lanes.
  __device__ __forceinline__ int before(int i) const {
    int sum = 0;
#pragma unroll 1
    for (int j = (int)threadIdx.x & 31; j < i; j += 32) sum += __popc(word[j]);
    return (int)__reduce_add_sync(~0u, (spc_u32)sum);
  }
};

template <class Config> SPC_DEVICE void spc_find_rows(const spc_args &args, const spc_axis_runs<Config> &runs) {
  using shared_rows = spc_shared_rows<Config>;
  __shared__ shared_rows strip;
  const int cluster = Config::cluster, warps = shared_rows::warps, rank = ptx_cluster_rank(), lane = (int)threadIdx.x & 31;
  const int all = (int)((Config::capacity(args) + 31) / 32), strips = (int)Config::strips(args);
  const int loads = shared_rows::beside(runs.extent), round = loads * shared_rows::axis::load / shared_rows::axis::word; // words
  const long long rows = (Config::strip + cluster - 1) / cluster;
  int parity = 0;
  bool met = false; // the others' shared memory is there when they have begun
#pragma unroll 1
  for (int s = (int)blockIdx.x / cluster; s < strips; s += (int)gridDim.x / cluster) {
    int *ids = Config::ids(args) + (long long)s * Config::capacity(args), count = 0, partial = 0;
    const long long begin = (long long)s * Config::strip, first = begin + rank * rows, last = min(min(first + rows, begin + Config::strip), runs.rows);
#pragma unroll 1
    for (int at = 0; at < all; at += round, parity ^= 1) {
      const int words = min(round, all - at), share = (words + cluster - 1) / cluster, until = min((rank + 1) * share, words);
      if (!met) ptx_cluster_arrive();
      strip.find(runs, first, last, (long long)at * shared_rows::axis::word, loads);
      if (!met) ptx_cluster_wait(), met = true;
      strip.tell(parity, rank, words);
      ptx_cluster_sync();
      strip.hear(parity, words);
#pragma unroll 1
      for (int i = rank * share + (int)threadIdx.x / 32; i < until; i += warps) {
        const spc_u32 bits = strip.word[i];
        const int to = count + strip.before(i) + __popc(bits & ptx_lanes_below());
        if (bits >> lane & 1) ids[to] = (at + i) * 32 + lane;
        if constexpr (Config::keeps_bits)
          if (lane == 0) Config::bits(args)[(long long)s * all + at + i] = bits;
      }
      count += strip.before(words);
      if (Config::tells_partial) partial += strip.partials(words);
      __syncthreads(); // before the words are found anew
    }
    if (rank == 0 && threadIdx.x == 0) Config::counts(args)[s] = count;
    if constexpr (Config::tells_partial)
      if (rank == 0 && threadIdx.x == 0) Config::partial(args)[s] = partial;
  }
}

template <class Config> struct spc_shared_pair {
  static constexpr int cluster = Config::cluster, warps = Config::threads / 32, most = 256; // words of a strip that a block has
  spc_u32 word[2][most];
  int found[2][cluster][3]; // by each block, of this pair and the one before

  __device__ __forceinline__ void find(const spc_args &args, const spc_strip_runs<Config> &runs, int pair, int first, int share, int words) {
    for (int i = (int)threadIdx.x / 32; i < 2 * share; i += warps) {
      const int strip = 2 * pair + i % 2, at = first + i / 2;
      spc_u32 bits = at < words && strip < (int)runs.strips ? spc_word_of<Config>(args, runs, strip, at) : 0;
      if (runs.lane() == 0) word[i % 2][i / 2] = bits;
    }
  }
  // Entries before word i, by whole warps; i: the same for all lanes.
  __device__ __forceinline__ spc_pair_sums before(int i) const {
    spc_pair_sums sums = {};
#pragma unroll 1
    for (int j = (int)threadIdx.x & 31; j < i; j += 32) sums.add(word[0][j], word[1][j]);
#pragma unroll
    for (int c = 0; c < 3; c++) sums.at[c] = (int)__reduce_add_sync(~0u, (spc_u32)sums.at[c]);
    return sums;
  }
  // Tells all blocks, this one included.
  __device__ __forceinline__ void tell(int parity, int rank, const spc_pair_sums &sums) {
    if (threadIdx.x >= cluster) return;
    spc_u32 there = ptx_cluster_address(spc_shared_address(found[parity][rank]), (int)threadIdx.x);
#pragma unroll
    for (int c = 0; c < 3; c++) ptx_cluster_store(there + c * 4, sums.at[c]);
  }
  // begin: where this block's entries of each kind begin.
  __device__ __forceinline__ void leave(int *ids, const int (&begin)[3], int first, int share) const {
    const int lane = (int)threadIdx.x & 31;
#pragma unroll 1
    for (int i = (int)threadIdx.x / 32; i < share; i += warps) {
      const spc_pair_sums sums = before(i);
      const spc_u32 a = word[0][i], b = word[1][i], kind[3] = {a & ~b, a & b, b & ~a};
#pragma unroll
      for (int c = 0; c < 3; c++)
        if (kind[c] >> lane & 1) ids[begin[c] + sums.at[c] + __popc(kind[c] & ptx_lanes_below())] = (first + i) * 32 + lane;
    }
  }
};

template <class Config> SPC_DEVICE void spc_find_pairs(const spc_args &args, const spc_strip_runs<Config> &runs) {
  __shared__ spc_shared_pair<Config> strips;
  const int cluster = Config::cluster, rank = ptx_cluster_rank();
  const int words = (int)((Config::capacity(args) + 31) / 32), pairs = (int)((Config::strips(args) + 1) / 2);
  const int share = min((words + cluster - 1) / cluster, (int)strips.most), first = rank * share; // capacity is no more than they hold
  int parity = 0;
  bool met = false; // the others' shared memory is there when they have begun
#pragma unroll 1
  for (int pair = (int)blockIdx.x / cluster; pair < pairs; pair += (int)gridDim.x / cluster, parity ^= 1) {
    if (!met) ptx_cluster_arrive();
    strips.find(args, runs, pair, first, share, words);
    __syncthreads();
    if (!met) ptx_cluster_wait(), met = true;
    strips.tell(parity, rank, strips.before(share));
    ptx_cluster_sync();
    int all[3] = {}, begin[3] = {};
#pragma unroll
    for (int c = 0; c < 3; c++)
#pragma unroll
      for (int r = 0; r < cluster; r++) {
        const int found = strips.found[parity][r][c];
        all[c] += found, begin[c] += r < rank ? found : 0;
      }
    begin[1] += all[0], begin[2] += all[0] + all[1];
    strips.leave(Config::ids(args) + (long long)pair * Config::capacity(args), begin, first, share);
    if (rank == 0 && threadIdx.x == 0) {
      int *counts = Config::counts(args);
      counts[pair] = all[0] + all[1] + all[2];
      counts[pairs + 2 * pair] = all[0] + all[1], counts[pairs + 2 * pair + 1] = all[1] + all[2];
    }
    __syncthreads(); // before the words are found anew
  }
}

template <class Config> SPC_DEVICE void spc_detect_strips(const spc_args &args) {
  spc_clear_counters<Config>(args);
  if constexpr (Config::decides)
    if (spc_asks_first<Config>(args, [&] { return spc_sample_values<Config>(args); })) return;
  if constexpr (!Config::pairs && spc_shared_rows<Config>::fit) {
    spc_axis_runs<Config> along(args);
    if (along.aligned) {
      spc_find_rows<Config>(args, along);
      return;
    }
  }
  spc_strip_runs<Config> runs(args);
  if constexpr (Config::pairs) spc_find_pairs<Config>(args, runs);
  else spc_find_strips<Config>(args, runs);
}
