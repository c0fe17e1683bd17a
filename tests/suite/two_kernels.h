/* two_kernels.h - what allocator.c and nomemory.c run: a layer whose zeros lists skip, and a sum of sparse matrices
 * whose pattern is computed; their arrays, and whether a result is right.
 *
 * X_PITCH, set before: elements from one row of x to the next. */
#ifndef SPC_TESTS_TWO_KERNELS_H
#define SPC_TESTS_TWO_KERNELS_H

#include <stdint.h>

#include "spc.h"

enum { T = 9, D = 8, F = 16, N = 5 };
#ifndef X_PITCH
#define X_PITCH D
#endif

/* STRIP: rows of a micro-tile, a literal: which there can be is the back end's. */
#define TWO_KERNELS(STRIP)                                                                         \
  "spx 1; dim T: dyn; dim D: dyn; dim F: dyn; dim N: dyn;"                                         \
  " kernel layer { in x: f32[T,D]; in W: f32[D,F]; in V: f32[F,D];"                                \
  " let h[t,f] = relu(sum[d] x[t,d]*W[d,f]) ~ zeros(dynamic, density=0.02..0.3);"                  \
  " out y[t,o] = sum[f] h[t,f]*V[f,o]; } schedule layer { compact h axis=f gran=" STRIP "x1; }"    \
  " kernel add { in A: f32[N,N] as csr; in B: f32[N,N] as csr; out C[i,j] = A[i,j] + B[i,j] as csr; }"

static float x[T * X_PITCH], W[D * F], V[F * D], y[T * D], values[N], sums[N];
static int32_t pos[N + 1], crd[N], sum_pos[N + 1], sum_crd[N];

static spc_tensor tensor(const char *name, int64_t rows, int64_t columns, float *at, int64_t room) {
  spc_tensor t = {.struct_size = sizeof t, .name = name, .dtype = "f32", .rank = 2};
  t.shape[0] = rows;
  t.shape[1] = columns;
  t.values = at;
  t.value_count = room;
  return t;
}

static spc_tensor csr(const char *name, int32_t *positions, int32_t *columns, float *at) {
  spc_tensor t = tensor(name, N, N, at, N);
  t.pos[1] = positions;
  t.crd[1] = columns;
  t.pos_count[1] = N + 1;
  t.crd_count[1] = N;
  return t;
}

/* Each product has its own weights, so that a wrong row shows. */
static void fill(void) {
  for (int i = 0; i < T * X_PITCH; i++) x[i] = (float)(i % 5);
  for (int i = 0; i < D * F; i++) W[i] = (float)(i % F % 3 ? -1 : i % 4);
  for (int i = 0; i < F * D; i++) V[i] = (float)(i % 7 - 3);
  for (int i = 0; i < N; i++) pos[i + 1] = i + 1, crd[i] = i, values[i] = (float)(i + 1);
}

static int layer_is_right(void) {
  for (int t = 0; t < T; t++)
    for (int o = 0; o < D; o++) {
      float want = 0;
      for (int f = 0; f < F; f++) {
        float h = 0;
        for (int d = 0; d < D; d++) h += x[t * X_PITCH + d] * W[d * F + f];
        if (h > 0) want += h * V[f * D + o];
      }
      if (y[t * D + o] != want) return 0;
    }
  return 1;
}

#endif
