// turned.cuh - the loading warpgroup of a persistent kernel whose factors are not in memory what wgmma reads (sm_90a).
//
// The tensor cores read 2-byte operands whichever way they lie; of 1 and 4 bytes only with k contiguous.  An operand whose rows
// are k comes by box as it is, and the warpgroup turns it where it lies, slab by slab: 128 bytes of m or n by 128 bytes of
// k's become as many rows of k's, in the same place.  (An A of f32 is not turned: it goes through registers.)
//
//     f32    32 x 32, a warp:        a lane reads its column, writes it as a row
//     8 bits 128 x 128, two warps:   ldmatrix turns pairs, a byte permutation puts four k's together, stmatrix
//
// Both ways every access of a warp touches each bank once.  Where a factor is the sum of two tf32 numbers (Config::parts) what
// the tensor cores read of it, its upper 19 bits, is the first; the second is what that leaves out, of B in a panel of its own.
// Half of the warpgroup takes every other k tile, so that two are under way:
//
//     one thread of a half   wait empty[s], start the boxes of a k tile                 (raw[s])
//     the half               wait raw[s], turn, split, arrive at full[s]
#pragma once
#include "spc/barrier.cuh"
#include "spc/boxes.cuh"

// Whether there is anything to do, and how many k tiles the boxes are ahead of it: an even number.
template <class Config> struct spc_prepares {
  static constexpr bool turns_a = sizeof(typename Config::A) == 1 && Config::layout_a == 'c';
  static constexpr bool turns_b = sizeof(typename Config::B) != 2 && Config::layout_b == 'r';
  static constexpr bool any = turns_a || turns_b || Config::parts > 1;
  static constexpr int ahead = (Config::depth - 1) / 2 * 2;
};

SPC_DEVICE uint4 ptx_load_shared_128(spc_u32 from) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(from) : "memory");
  return v;
}
SPC_DEVICE spc_u32 ptx_load_shared_32(spc_u32 from) {
  spc_u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(from) : "memory");
  return v;
}
SPC_DEVICE void ptx_store_shared_128(spc_u32 to, spc_u32 a, spc_u32 b, spc_u32 c, spc_u32 d) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

template <class Config, class Panel> struct spc_turner {
  static constexpr int parts = Config::parts, rest_at = Panel::bytes; // of the second parts

  // f32: this warp's slabs, every other, two at once where there are.
  template <bool Turns> SPC_DEVICE void words(spc_u32 panel, int thread) {
    const int slabs = Panel::bytes / 4096, at_once = 1;
    static_assert(slabs % 2 == 0, "two warps share whole slabs");
    int lane = thread % 32;
#pragma unroll 1
    for (spc_u32 slab = panel + thread / 32 * at_once * 4096; slab < panel + Panel::bytes; slab += 2 * at_once * 4096) {
      spc_u32 v[at_once][32];
#pragma unroll
      for (int i = 0; i < 32 * at_once; i++) {
        spc_u32 from = slab + i / 32 * 4096;
        int k = i % 32;
        if constexpr (Turns) {
          v[i / 32][k] = ptx_load_shared_32(from + k * 128 + ((lane / 4 ^ k % 8) * 16 + lane % 4 * 4));
        } else if (k % 4 == 0) {
          uint4 w = ptx_load_shared_128(from + lane * 128 + (k / 4 ^ lane % 8) * 16);
          v[i / 32][k] = w.x, v[i / 32][k + 1] = w.y, v[i / 32][k + 2] = w.z, v[i / 32][k + 3] = w.w;
        }
      }
      __syncwarp();
#pragma unroll
      for (int i = 0; i < 8 * at_once; i++) {
        spc_u32 to = slab + i / 8 * 4096 + lane * 128 + (i % 8 ^ lane % 8) * 16, *w = v[i / 8] + i % 8 * 4;
        if constexpr (Turns) ptx_store_shared_128(to, w[0], w[1], w[2], w[3]);
        if constexpr (parts > 1)
          ptx_store_shared_128(to + rest_at, spc_rest_of_tf32(w[0]), spc_rest_of_tf32(w[1]), spc_rest_of_tf32(w[2]),
                              spc_rest_of_tf32(w[3]));
      }
    }
  }
  // 8 bits.  A matrix of ldmatrix has eight rows of k's; turned, a lane (g = lane / 4, t = lane % 4) holds of rows 2t and 2t + 1
  // the pair of columns 2g and 2g + 1.  Rows are taken so that two matrices give a lane the four k's from 4t on, and
  // that their chunks lie in different banks; so are the rows of n that a matrix is stored to: even ones of its upper half,
  // odd ones of the lower, then the other way round.
  SPC_DEVICE void bytes(spc_u32 panel, int thread, int half) {
    int lane = thread % 32, warp = thread / 32, g = lane / 4, t = lane % 4, q = lane / 8, r = lane % 8;
    int from_k = q / 2 * 16 + r / 2 * 4 + r % 2 + ((q & 1) ^ r / 4) * 2; // of the row that this lane names
    int to_n = 2 * r + (r / 4 ^ (q & 1));
    spc_u32 even = t < 2 ? 0x6420 : 0x2064, odd = t < 2 ? 0x7531 : 0x3175, first = g < 4 ? even : odd, second = g < 4 ? odd : even;
#pragma unroll 1
    for (spc_u32 slab = panel; slab < panel + Panel::bytes; slab += 128 * 128) {
      spc_u32 v[4][4][4];
#pragma unroll
      for (int c = 0; c < 4; c++)
#pragma unroll
        for (int k = 0; k < 4; k++)
          ptx_load_matrix_transposed(v[c][k], slab + (k * 32 + from_k) * 128 + ((warp * 4 + c) ^ from_k % 8) * 16);
      asm volatile("bar.sync %0, 64;" ::"r"(1 + Config::workers / 128 + half) : "memory");
#pragma unroll
      for (int c = 0; c < 4; c++)
#pragma unroll
        for (int k = 0; k < 4; k++) {
          const spc_u32 *p = v[c][k];
          spc_u32 w[4] = {__byte_perm(p[0], p[1], first), __byte_perm(p[0], p[1], second), __byte_perm(p[2], p[3], first),
                          __byte_perm(p[2], p[3], second)};
          ptx_store_matrix(slab + ((warp * 4 + c) * 16 + to_n) * 128 + ((k * 2 + q / 2) ^ to_n % 8) * 16, w);
        }
    }
  }
  template <bool Turns, bool Splits> SPC_DEVICE void run(spc_u32 panel, int thread, int half) {
    if constexpr (sizeof(typename Config::A) == 4) {
      if constexpr (Turns || Splits) words<Turns>(panel, thread);
    } else if constexpr (Turns) {
      bytes(panel, thread, half);
    }
  }
};
