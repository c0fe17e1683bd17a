/* bare.c - see bare.h. */
#include "tests/gpu/bare.h"

#include <stdlib.h>
#include <string.h>

#include "ir/image.h"
#include "runtime/cuda_driver.h"

typedef struct bare_launch {
  cu_launch_config config;
  cu_launch_attribute attributes[2];
  cu_function *function;
  spc_args args;
  spc_tensor_maps *maps;
} bare_launch;

typedef cu_result launch_function(const cu_launch_config *, cu_function *, void **, void **);
struct bare_calls {
  rt_cuda *cuda;
  launch_function *launch; /* the driver's */
  bare_launch at[BARE_MOST];
  rt_cublaslt_call *library[BARE_MOST];
  void *memory[BARE_MOST * 6];
  int count, library_count, memory_count;
};

static bare_calls *listening;

static cu_result write_down(const cu_launch_config *config, cu_function *function,
                            void **parameters, void **extra) {
  bare_calls *c = listening;
  if (c->count < BARE_MOST) {
    bare_launch *l = &c->at[c->count++];
    l->config = *config;
    l->function = function;
    memcpy(l->attributes, config->attributes, sizeof *l->attributes * config->attribute_count);
    l->config.attributes = l->attributes;
    l->args = *(const spc_args *)parameters[0];
    if (parameters[1]) l->maps = aligned_alloc(64, sizeof *l->maps);
    if (l->maps) *l->maps = *(const spc_tensor_maps *)parameters[1];
  }
  return c->launch(config, function, parameters, extra);
}

bare_calls *bare_listen(rt_cuda *cuda) {
  listening = calloc(1, sizeof *listening);
  listening->cuda = cuda;
  listening->launch = cuda->driver.launch;
  cuda->driver.launch = write_down;
  return listening;
}

void bare_stop(bare_calls *c) { c->cuda->driver.launch = c->launch; }

void bare_add_library(bare_calls *c, const ir_image *image, const int64_t *sizes) {
  enum { BYTES = 64 << 20 };
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    void *buf[SPC_ARGS_BUFS] = {0};
    if (!code->library || c->library_count == BARE_MOST) continue;
    for (int b = 0; b < code->bufs.count && c->memory_count < BARE_MOST * 6; b++) {
      if (rt_cuda_alloc(c->cuda, BYTES, &buf[b])) return;
      c->memory[c->memory_count++] = buf[b];
    }
    (void)rt_cublaslt_settle(c->cuda, code->library, sizes, buf, &c->library[c->library_count]);
    if (c->library[c->library_count]) c->library_count++;
  }
}

int bare_count(const bare_calls *c) { return c->count + c->library_count; }

int bare_send(const bare_calls *c, void *stream) {
  int result = 0;
  for (int i = 0; i < c->count; i++) {
    void *parameters[] = {(void *)&c->at[i].args, c->at[i].maps};
    result |= c->launch(&c->at[i].config, c->at[i].function, parameters, NULL);
  }
  for (int i = 0; i < c->library_count; i++)
    result |= rt_cublaslt_run(c->cuda, c->library[i], stream) != SPC_OK;
  return result;
}

void bare_free(bare_calls *c) {
  for (int i = 0; i < c->count; i++) free(c->at[i].maps);
  for (int i = 0; i < c->library_count; i++) rt_cublaslt_free(c->library[i]);
  for (int i = 0; i < c->memory_count; i++) rt_cuda_release(c->cuda, c->memory[i]);
  free(c);
}
