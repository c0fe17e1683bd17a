/* sha256.h - the hash that names and verifies what the cache holds (FIPS 180-4). */
#ifndef SPC_RUNTIME_SHA256_H
#define SPC_RUNTIME_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { RT_SHA256_BYTES = 32 };

typedef struct rt_sha256 {
  uint32_t state[8];
  uint64_t bytes; /* taken so far */
  uint8_t block[64];
} rt_sha256;

void rt_sha256_start(rt_sha256 *hash);
void rt_sha256_add(rt_sha256 *hash, const void *data, size_t bytes);
void rt_sha256_end(rt_sha256 *hash, uint8_t digest[RT_SHA256_BYTES]);

#endif
