/* cpu_compile.c - the CPU back end's door: a kernel to an image, and to text.
 *
 * One module a kernel, one image entry a function, in order of execution.  `llvm` is the IR after
 * LLVM's passes, `asm` what the object holds. */
#ifdef SPC_HAVE_LLVM
#include "codegen/cpu.h"

static ir_image *new_image(ir_arena *arena, const ir_kernel *kernel) {
  ir_image *image = IR_NEW(arena, ir_image);
  *image = (ir_image){.arena = arena, .kernel = kernel, .release = cg_cpu_jit_free};
  return image;
}

static spc_status add_code(ir_image *image, const ir_stage *stage, const ir_func *func,
                           cg_cpu_jit *jit, ir_sink *sink) {
  ir_code_image code = {.stage = stage, .func = func, .label = "loop", .registers = -1, .spill_bytes = -1};
  code.entry = cg_cpu_entry(image->arena, func);
  code.cpu = cg_cpu_jit_find(jit, code.entry);
  if (!code.cpu) {
    ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "the code of `%s` did not link", func->name);
    return SPC_INTERNAL;
  }
  cg_cpu_parallel(image->arena, func, &code.parallel_lo, &code.parallel_hi);
  IR_PUSH(image->arena, &image->codes, code);
  return SPC_OK;
}

static spc_status fill_image(ir_image *image, cg_cpu_jit *jit, ir_sink *sink) {
  for (int s = 0; s < image->kernel->stages.count; s++) {
    const ir_stage *stage = image->kernel->stages.at[s];
    for (int i = 0; i < stage->funcs.count; i++)
      if (stage->funcs.at[i]->kind == IR_FUNC_KERNEL)
        SPC_TRY(add_code(image, stage, stage->funcs.at[i], jit, sink));
  }
  return SPC_OK;
}

static spc_status link_object(cg_cpu *c, cg_cpu_jit **jit) {
  LLVMMemoryBufferRef object;
  SPC_TRY(cg_cpu_emit(c, LLVMObjectFile, &object));
  return cg_cpu_jit_new(object, c->sink, jit);
}

spc_status cg_cpu_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                          ir_sink *sink, ir_image **out) {
  cg_cpu c;
  cg_cpu_jit *jit = NULL;
  *out = NULL;
  spc_status status = cg_cpu_module_new(arena, kernel, NULL, options, sink, &c);
  if (status == SPC_OK) status = link_object(&c, &jit);
  cg_cpu_module_free(&c);
  if (status != SPC_OK) return status;
  ir_image *image = new_image(arena, kernel);
  image->owner = jit;
  status = fill_image(image, jit, sink);
  if (status == SPC_OK) *out = image;
  else cg_cpu_jit_free(jit);
  return status;
}

static spc_status put_assembler(cg_cpu *c, ir_text *out) {
  LLVMMemoryBufferRef text;
  SPC_TRY(cg_cpu_emit(c, LLVMAssemblyFile, &text));
  ir_text_putn(out, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
  LLVMDisposeMemoryBuffer(text);
  return SPC_OK;
}

static void put_llvm(cg_cpu *c, ir_text *out) {
  char *text = LLVMPrintModuleToString(c->module);
  ir_text_put(out, text);
  LLVMDisposeMessage(text);
}

spc_status cg_cpu_text(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                       const char *kind, const cg_options *options, ir_sink *sink, ir_text *out) {
  cg_cpu c;
  spc_status status = cg_cpu_module_new(arena, kernel, stage, options, sink, &c);
  if (status == SPC_OK && !strcmp(kind, "asm")) status = put_assembler(&c, out);
  else if (status == SPC_OK) put_llvm(&c, out);
  cg_cpu_module_free(&c);
  return status;
}
#else
typedef int cg_cpu_compile_without_llvm;
#endif
