/* sha256.c - SHA-256 as FIPS 180-4 writes it down: section 6.2, names of section 4.1.2. */
#include "runtime/sha256.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, int n) { return x >> n | x << (32 - n); }

static uint32_t big_endian(const uint8_t *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* One step of section 6.2.2; the caller renames a..h instead of moving them. */
static inline void step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                        uint32_t g, uint32_t *h, uint32_t kw) {
  uint32_t t1 = *h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + kw;
  *d += t1;
  *h = t1 + (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

static void schedule(uint32_t w[64], const uint8_t *block) {
  for (int t = 0; t < 16; t++) w[t] = big_endian(block + 4 * t);
  for (int t = 16; t < 64; t++) {
    uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
    uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
}

static void take_block(rt_sha256 *hash, const uint8_t *block) {
  uint32_t w[64], *s = hash->state;
  uint32_t a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
  schedule(w, block);
  for (int t = 0; t < 64; t += 8) {
    step(a, b, c, &d, e, f, g, &h, K[t] + w[t]);
    step(h, a, b, &c, d, e, f, &g, K[t + 1] + w[t + 1]);
    step(g, h, a, &b, c, d, e, &f, K[t + 2] + w[t + 2]);
    step(f, g, h, &a, b, c, d, &e, K[t + 3] + w[t + 3]);
    step(e, f, g, &h, a, b, c, &d, K[t + 4] + w[t + 4]);
    step(d, e, f, &g, h, a, b, &c, K[t + 5] + w[t + 5]);
    step(c, d, e, &f, g, h, a, &b, K[t + 6] + w[t + 6]);
    step(b, c, d, &e, f, g, h, &a, K[t + 7] + w[t + 7]);
  }
  const uint32_t last[8] = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) s[i] += last[i];
}

void rt_sha256_start(rt_sha256 *hash) {
  static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  memcpy(hash->state, first, sizeof first);
  hash->bytes = 0;
}

void rt_sha256_add(rt_sha256 *hash, const void *data, size_t bytes) {
  const uint8_t *at = data;
  size_t held = hash->bytes % sizeof hash->block;
  hash->bytes += bytes;
  if (held) {
    size_t room = sizeof hash->block - held, part = bytes < room ? bytes : room;
    memcpy(hash->block + held, at, part);
    if (part < room) return;
    take_block(hash, hash->block);
    at += part;
    bytes -= part;
  }
  for (; bytes >= sizeof hash->block; at += sizeof hash->block, bytes -= sizeof hash->block)
    take_block(hash, at);
  if (bytes) memcpy(hash->block, at, bytes);
}

void rt_sha256_end(rt_sha256 *hash, uint8_t digest[RT_SHA256_BYTES]) {
  static const uint8_t padding[64] = {0x80};
  uint64_t bits = hash->bytes * 8;
  uint8_t length[8];
  for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
  rt_sha256_add(hash, padding, 1 + (119 - hash->bytes % 64) % 64);
  rt_sha256_add(hash, length, sizeof length);
  for (int i = 0; i < RT_SHA256_BYTES; i++)
    digest[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}
