/* loop_image.h - a lowered kernel as an image whose codes the loop interpreter runs, for tests. */
#ifndef SPC_TESTS_LOOP_IMAGE_H
#define SPC_TESTS_LOOP_IMAGE_H

#include "ir/image.h"
#include "ir/loop.h"

/* The range that the runtime would split over threads. */
static inline void set_range(ir_code_image *code) {
  const ir_block *body = &code->func->body;
  for (int i = 0; i < body->codes.count; i++) {
    const ir_code *loop = body->codes.at[i];
    if (loop->kind != IR_FOR || loop->run != IR_RUN_PARALLEL) continue;
    code->parallel_lo = loop->lo;
    code->parallel_hi = loop->hi;
  }
}

static inline ir_image *loop_image(ir_arena *arena, const ir_kernel *kernel) {
  ir_image *image = IR_NEW(arena, ir_image);
  image->arena = arena;
  image->kernel = kernel;
  for (int i = 0; i < kernel->stages.count; i++)
    for (int f = 0; f < kernel->stages.at[i]->funcs.count; f++) {
      ir_code_image code = {.stage = kernel->stages.at[i],
                            .func = kernel->stages.at[i]->funcs.at[f],
                            .label = "loop"};
      code.entry = code.func->name;
      set_range(&code);
      IR_PUSH(arena, &image->codes, code);
    }
  return image;
}

#endif
