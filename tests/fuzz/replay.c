/* Runs each file given through a fuzz target, as the fuzzer would; the target aborts on a fault. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Targets with a mutator of their own ask for libFuzzer's; replaying mutates nothing. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most) {
  (void)data;
  (void)most;
  return size;
}

static int replay(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) return 1;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
  size_t got = data && size > 0 ? fread(data, 1, (size_t)size, file) : 0;
  fclose(file);
  if (data) LLVMFuzzerTestOneInput(data, got);
  free(data);
  return !data || (long)got != size;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++) failed |= replay(argv[i]);
  return failed;
}
