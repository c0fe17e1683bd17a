/* Fuzz target: bundles (driver/bundle.h).  What is read is restored for every target in it: the program's
 * text is parsed, launches are derived, machine code is linked, and nothing of it is run.
 *
 * A mutation gets the length and the digest of the whole mended, or none would come past them; the
 * digests of single pieces are of what they rely on, not of their bytes, and hold. */
#include <stdlib.h>

#include "driver/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

enum { MAGIC = 16, HEAD = MAGIC + RT_SHA256_BYTES, LENGTH = 8 };

static void restore(ir_arena *arena, const bundle_target *target) {
  ir_program *program = NULL;
  ir_image **images = NULL;
  ir_sink *sink = ir_sink_new(arena);
  if (bundle_restore(arena, target, sink, &program, &images)) {
    if (images) abort(); /* a failure leaves no code behind */
    return;
  }
  for (int k = 0; k < program->kernels.count; k++)
    if (images[k] && images[k]->release) images[k]->release(images[k]->owner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  ir_arena *arena = ir_arena_new();
  const char *why = NULL;
  bundle b;
  spc_status status = bundle_read(arena, data, size, &b, &why);
  if (status && !why) abort(); /* a refusal says why */
  for (int i = 0; !status && i < b.targets.count; i++) restore(arena, &b.targets.at[i]);
  ir_arena_free(arena);
  return 0;
}

static void mend(uint8_t *data, size_t size) {
  rt_sha256 hash;
  for (int i = 0; i < LENGTH; i++)
    data[HEAD + i] = (uint8_t)((uint64_t)(size - HEAD - LENGTH) >> 8 * i);
  rt_sha256_start(&hash);
  rt_sha256_add(&hash, data + HEAD, size - HEAD);
  rt_sha256_end(&hash, data + MAGIC);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 8 && size >= HEAD + LENGTH) {
    memcpy(data, "spc bundle 1\n\0\0", MAGIC);
    mend(data, size);
  }
  return size;
}
