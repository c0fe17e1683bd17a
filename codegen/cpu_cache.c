/* cpu_cache.c - the key of a stage's machine code: everything that it is made from.
 *
 * The text of the stage's functions with the types of their buffers, the numbers of the dims they
 * read, the CPU and its features, LLVM's version, and which build of this library makes the code.
 */
#ifdef SPC_HAVE_LLVM
#include "codegen/cpu.h"
#include "ir/loop.h"

static const char *text_of(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage) {
  ir_text text = ir_text_new(arena);
  for (int i = 0; i < kernel->program->dims.count; i++) {
    const ir_dim *dim = kernel->program->dims.at[i];
    ir_text_printf(&text, "dim %d %s %lld\n", dim->number, dim->name, (long long)dim->value);
  }
  for (int i = 0; i < stage->funcs.count; i++) ir_print_func(kernel, stage->funcs.at[i], &text);
  return text.data;
}

bool cg_cpu_key(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                const cg_cpu_machine *machine, ir_cache_key *out) {
  char build[64];
  if (!cg_build_id(build, sizeof build)) return false;
  *out = (ir_cache_key){.kind = "o",
                        .part = {ir_strdup(arena, build), cg_cpu_version(), machine->cpu,
                                 machine->features, text_of(arena, kernel, stage)},
                        .count = 5};
  return true;
}
#else
typedef int cg_cpu_cache_without_llvm;
#endif
