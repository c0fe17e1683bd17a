// team.cuh - threads that do a row together: a part of a warp, or a block.
//
// Teams of up to 32 threads lie in one warp and wait for nobody else; larger ones are whole blocks.  Which thread takes
// which iteration, and the order in which what they have is combined, depend on sizes alone: the same input gives the
// same bits, wherever it lies in memory.
#pragma once
#include "spc/loop.cuh"

template <int Team> SPC_DEVICE int spc_lane() { return (int)(threadIdx.x % Team); }
template <int Team> SPC_DEVICE long long spc_team() { return spc_first() / Team; }
template <int Team> SPC_DEVICE long long spc_teams() { return spc_stride() / Team; }

// ---- shared loops ----------------------------------------------------------------------------------------
// Elements at[0] .. at[Run - 1] in registers.
template <int Run, class T> struct spc_run { T at[Run]; };

template <int Bytes> struct spc_word { typedef unsigned char type; };
template <> struct spc_word<2> { typedef unsigned short type; };
template <> struct spc_word<4> { typedef unsigned int type; };
template <> struct spc_word<8> { typedef uint2 type; };
template <> struct spc_word<16> { typedef uint4 type; };

template <int Run, class T> constexpr int spc_word_bytes = Run * sizeof(T) < 16 ? (int)(Run * sizeof(T)) : 16;

template <int Run, class T> SPC_DEVICE bool spc_is_aligned(const T *at) {
  return ((spc_u64)at & (spc_word_bytes<Run, T> - 1)) == 0;
}

template <int Run, class T> SPC_DEVICE spc_run<Run, T> spc_load_run(const T *at) {
  constexpr int bytes = spc_word_bytes<Run, T>, words = (int)(Run * sizeof(T)) / bytes;
  typedef typename spc_word<bytes>::type word;
  union { word all[words]; spc_run<Run, T> run; } u;
#pragma unroll
  for (int w = 0; w < words; w++) u.all[w] = ((const word *)at)[w];
  return u.run;
}

template <int Run, class Body, class... T> SPC_DEVICE void spc_each(long long j, Body &body, const spc_run<Run, T> &...run) {
#pragma unroll
  for (int i = 0; i < Run; i++) body(j + i, run.at[i]...);
}

// Elements a team apart: as many under way as make 16 bytes of the narrowest, or four.
template <class... T> constexpr int spc_ahead = ((sizeof(T) <= 2) || ... || false) ? 8 : 4;

template <int Run, int Team, class T> SPC_DEVICE spc_run<Run, T> spc_load_far(const T *at) {
  spc_run<Run, T> run;
#pragma unroll
  for (int i = 0; i < Run; i++) run.at[i] = at[i * Team];
  return run;
}

template <int Run, int Team, class Body, class... T>
SPC_DEVICE void spc_each_far(long long j, Body &body, const spc_run<Run, T> &...run) {
#pragma unroll
  for (int i = 0; i < Run; i++) body(j + i * Team, run.at[i]...);
}

// Rows of Run elements, `step` apart: all loads before the first is used.
template <int Rows, int Run, class T> SPC_DEVICE auto spc_load_runs(const T *at, long long step) {
  struct { spc_run<Run, T> row[Rows]; } all;
#pragma unroll
  for (int k = 0; k < Rows; k++) all.row[k] = spc_load_run<Run>(at + k * step);
  return all;
}

// body(j, at[j]...) for all j in lo .. hi, shared by the team: a thread takes Run consecutive ones at a time, whose
// elements it loads as words where they are aligned.
template <int Team, int Run, class Body, class... T>
SPC_DEVICE void spc_share(long long lo, long long hi, Body body, const T *...at) {
  long long j = lo + spc_lane<Team>() * Run;
  if constexpr (Run > 1) {
    constexpr int ahead = 4, step = Team * Run;
    if ((spc_is_aligned<Run>(at + lo) && ...)) {
      auto four = [&](const auto &...runs) {
#pragma unroll
        for (int k = 0; k < ahead; k++) spc_each<Run>(j + k * step, body, runs.row[k]...);
      };
#pragma unroll 1
      for (; j + (ahead - 1) * step + Run <= hi; j += ahead * step) four(spc_load_runs<ahead, Run>(at + j, step)...);
#pragma unroll 1
      for (; j + Run <= hi; j += step) spc_each<Run>(j, body, spc_load_run<Run>(at + j)...);
    }
#pragma unroll 1
    for (; j < hi; j += step) {
#pragma unroll 4
      for (int i = 0; i < Run && j + i < hi; i++) body(j + i, at[j + i]...);
    }
  } else {
    constexpr int ahead = spc_ahead<T...>;
#pragma unroll 1
    for (; j + (ahead - 1) * Team < hi; j += ahead * Team)
      spc_each_far<ahead, Team>(j, body, spc_load_far<ahead, Team>(at + j)...);
#pragma unroll 1
    for (; j < hi; j += Team) body(j, at[j]...);
  }
}

// store(j, value(j)) for all j in lo .. hi, shared by the team: several values are on their way before the first is stored.
template <int Team, class Value, class Store> SPC_DEVICE void spc_share_stores(long long lo, long long hi, Value value, Store store) {
  constexpr int ahead = 8;
  long long j = lo + spc_lane<Team>();
#pragma unroll 1
  for (; j + (ahead - 1) * Team < hi; j += ahead * Team) {
    decltype(value(j)) v[ahead];
#pragma unroll
    for (int k = 0; k < ahead; k++) v[k] = value(j + k * Team);
#pragma unroll
    for (int k = 0; k < ahead; k++) store(j + k * Team, v[k]);
  }
#pragma unroll 1
  for (; j < hi; j += Team) store(j, value(j));
}

// body(j) for all j in lo .. hi, shared by the team, where a body is a loop: its text stands once.
template <int Team, class Body> SPC_DEVICE void spc_share_each(long long lo, long long hi, Body body) {
#pragma unroll 1
  for (long long j = lo + spc_lane<Team>(); j < hi; j += Team) body(j);
}

// Of a row one element, at(i)[0], for all that lies along it.
template <class At> struct spc_one { At at; };
template <class At> spc_one(At) -> spc_one<At>;

template <int Run, class At> SPC_DEVICE auto spc_load_row(const At &at, long long i, long long lo) {
  return spc_load_run<Run>(at(i) + lo);
}
template <int Run, class At> SPC_DEVICE auto spc_load_row(const spc_one<At> &one, long long i, long long) {
  return spc_load_run<1>(one.at(i));
}
template <int Run, class At> SPC_DEVICE bool spc_rows_are_aligned(const At &at, long long i, long long step, long long lo) {
  return spc_is_aligned<Run>(at(i) + lo) && spc_is_aligned<Run>(at(i + step) + lo);
}
template <int Run, class At> SPC_DEVICE bool spc_rows_are_aligned(const spc_one<At> &, long long, long long, long long) { return true; }
template <class At> SPC_DEVICE auto spc_row_at(const At &at, long long i, long long j) { return at(i)[j]; }
template <class At> SPC_DEVICE auto spc_row_at(const spc_one<At> &one, long long i, long long) { return one.at(i)[0]; }
template <int Run, class T> SPC_DEVICE T spc_of_run(const spc_run<Run, T> &run, int v) { return run.at[Run > 1 ? v : 0]; }

template <int Rows, int Run, class At> SPC_DEVICE auto spc_load_rows(At at, long long i, long long step, long long lo) {
  typedef decltype(spc_load_row<Run>(at, i, lo)) run;
  struct { run row[Rows]; } all;
#pragma unroll
  for (int k = 0; k < Rows; k++) all.row[k] = spc_load_row<Run>(at, i + k * step, lo);
  return all;
}

// body(i, j, at(i)[j]...) for i in first .. last by steps, for j in lo .. hi, at most Run of them: by one thread, with
// several i's under way.  What at gives moves on by the same distance from one i to the next.
template <int Run, int Ahead = 4, class Body, class... At>
SPC_DEVICE void spc_share_rows(long long first, long long last, long long step, long long lo, long long hi, Body body, At... at) {
  constexpr int ahead = Ahead;
  long long i = first;
  if (lo + Run <= hi && (spc_rows_are_aligned<Run>(at, first, step, lo) && ...)) {
    auto row = [&](long long r, const auto &...run) {
#pragma unroll
      for (int v = 0; v < Run; v++) body(r, lo + v, spc_of_run(run, v)...);
    };
    auto rows = [&](auto... some) { // rows of each operand
#pragma unroll
      for (int k = 0; k < ahead; k++) row(i + k * step, some.row[k]...);
    };
#pragma unroll 1
    for (; i + (ahead - 1) * step < last; i += ahead * step) rows(spc_load_rows<ahead, Run>(at, i, step, lo)...);
#pragma unroll 1
    for (; i < last; i += step) row(i, spc_load_row<Run>(at, i, lo)...);
  }
#pragma unroll 1
  for (; i < last; i += step) {
#pragma unroll
    for (int v = 0; v < Run; v++)
      if (lo + v < hi) body(i, lo + v, spc_row_at(at, i, lo + v)...);
  }
}

// body(i, at(i)[0]...) for i in lo .. hi by steps: by one thread, with Ahead of them under way.  (Of a loop that is unrolled
// the assembler moves each load to its use.)
template <int Ahead, class Body, class... At>
SPC_DEVICE void spc_take_steps(long long lo, long long hi, long long step, Body body, At... at) {
  long long i = lo;
  auto some = [&](const auto &...of) {
#pragma unroll
    for (int k = 0; k < Ahead; k++) body(i + k * step, of.row[k].at[0]...);
  };
#pragma unroll 1
  for (; i + (Ahead - 1) * step < hi; i += Ahead * step) some(spc_load_rows<Ahead, 1>(at, i, step, 0)...);
  constexpr int rest = 4;
  auto few = [&](const auto &...of) {
#pragma unroll
    for (int k = 0; k < rest; k++) body(i + k * step, of.row[k].at[0]...);
  };
#pragma unroll 1
  for (; i + (rest - 1) * step < hi; i += rest * step) few(spc_load_rows<rest, 1>(at, i, step, 0)...);
#pragma unroll 1
  for (; i < hi; i += step) body(i, at(i)[0]...);
}

// ---- what the threads of a team have, combined -------------------------------------------------------------
template <int Team> SPC_DEVICE spc_u32 spc_team_mask() {
  if (Team >= 32) return 0xffffffffu;
  return ((1u << (Team % 32)) - 1) << (threadIdx.x % 32 / Team * Team);
}

template <int Team, class T> SPC_DEVICE T spc_from_lane(T x, int lane) {
  return __shfl_sync(spc_team_mask<Team>(), x, lane, Team < 32 ? Team : 32);
}
template <int Team, class T> SPC_DEVICE T spc_from_behind(T x, int by) {
  return __shfl_down_sync(spc_team_mask<Team>(), x, by, Team < 32 ? Team : 32);
}
template <int Team> SPC_DEVICE bool spc_from_lane(bool x, int lane) { return spc_from_lane<Team>((int)x, lane) != 0; }
template <int Team> SPC_DEVICE bool spc_from_behind(bool x, int by) { return spc_from_behind<Team>((int)x, by) != 0; }
template <int Team> SPC_DEVICE signed char spc_from_lane(signed char x, int lane) {
  return (signed char)spc_from_lane<Team>((int)x, lane);
}
template <int Team> SPC_DEVICE signed char spc_from_behind(signed char x, int by) {
  return (signed char)spc_from_behind<Team>((int)x, by);
}
template <int Team> SPC_DEVICE unsigned char spc_from_lane(unsigned char x, int lane) {
  return (unsigned char)spc_from_lane<Team>((int)x, lane);
}
template <int Team> SPC_DEVICE unsigned char spc_from_behind(unsigned char x, int by) {
  return (unsigned char)spc_from_behind<Team>((int)x, by);
}
template <int Team> SPC_DEVICE short spc_from_lane(short x, int lane) { return (short)spc_from_lane<Team>((int)x, lane); }
template <int Team> SPC_DEVICE short spc_from_behind(short x, int by) { return (short)spc_from_behind<Team>((int)x, by); }

// Every thread gets combine over all of them, in the order of a tree; Width: how many parts there are.
template <int Width, class T, class Combine> SPC_DEVICE T spc_combine_warp(T x, Combine combine) {
#pragma unroll
  for (int by = Width / 2; by > 0; by /= 2) x = combine(x, spc_from_behind<Width>(x, by));
  return spc_from_lane<Width>(x, 0);
}

template <int Team, class T, class Combine> SPC_DEVICE T spc_combine(T x, Combine combine) {
  if constexpr (Team <= 32) {
    return spc_combine_warp<Team>(x, combine);
  } else {
    __shared__ T part[Team / 32];
    x = spc_combine_warp<32>(x, combine);
    __syncthreads(); // what was combined here before has been read
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int w = 1; w < Team / 32; w++) x = combine(x, part[w]);
    return x;
  }
}

// ---- the place of the largest ------------------------------------------------------------------------------
template <class T> struct spc_place {
  T value;
  long long at; // -1: none
};

// The larger value, the first of equal ones; NaN is larger than all others.
template <class T> SPC_DEVICE spc_place<T> spc_better(spc_place<T> x, spc_place<T> y) {
  if (y.at < 0) return x;
  if (x.at < 0) return y;
  const bool x_nan = x.value != x.value, y_nan = y.value != y.value;
  const bool equal = x.value == y.value || (x_nan && y_nan);
  if (equal) return y.at < x.at ? y : x;
  return !x_nan && (y_nan || y.value > x.value) ? y : x;
}

template <int Team, class T> SPC_DEVICE spc_place<T> spc_from_behind(spc_place<T> x, int by) {
  return {spc_from_behind<Team>(x.value, by), spc_from_behind<Team>(x.at, by)};
}
template <int Team, class T> SPC_DEVICE spc_place<T> spc_from_lane(spc_place<T> x, int lane) {
  return {spc_from_lane<Team>(x.value, lane), spc_from_lane<Team>(x.at, lane)};
}
