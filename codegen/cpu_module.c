/* cpu_module.c - an LLVM module for a kernel: functions, their attributes, passes, machine code.
 *
 * Each function of the loop dialect becomes two: a body whose buffers are `noalias` parameters, and
 * the entry of the calling convention (ir/loop.h), which unpacks the array of buffers and calls it.
 * Different buffers are different memory: inputs may share bytes, but nothing writes those.
 *
 * The pass list is short on purpose.  Vectors, register tiles and unrolling are pass `vectorise`'s
 * work; what is left for LLVM is registers for slots, redundancy, and moving what does not change
 * out of loops. */
#ifdef SPC_HAVE_LLVM
#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>

#include "codegen/cpu.h"

static const char *const passes =
    "function(sroa,early-cse,simplifycfg,loop-mssa(licm),early-cse,instsimplify)";

static spc_status fault(ir_sink *sink, const char *what, char *message) {
  ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "%s: %s", what,
              message ? message : "no reason given");
  if (message) LLVMDisposeMessage(message);
  return SPC_INTERNAL;
}

/* ---- functions ------------------------------------------------------------------------------ */
static void attribute(cg_cpu *c, LLVMValueRef f, unsigned at, const char *name) {
  unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
  LLVMAddAttributeAtIndex(f, at, LLVMCreateEnumAttribute(c->context, kind, 0));
}

static void text_attribute(cg_cpu *c, LLVMValueRef f, const char *name, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(c->context, name, (unsigned)strlen(name), value,
                                                 (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, a);
}

static void describe(cg_cpu *c, LLVMValueRef f) {
  const char *bits = ir_format_text(c->arena, "%d", c->machine.vector_bits);
  attribute(c, f, (unsigned)LLVMAttributeFunctionIndex, "nounwind");
  text_attribute(c, f, "prefer-vector-width", bits);
  text_attribute(c, f, "min-legal-vector-width", bits);
  text_attribute(c, f, "target-cpu", c->machine.cpu);
  if (*c->machine.features) text_attribute(c, f, "target-features", c->machine.features);
  text_attribute(c, f, "denormal-fp-math", "ieee,ieee");
}

/* body(buffers..., sizes, begin, end) */
static LLVMValueRef new_body(cg_cpu *c, const ir_func *func, const char *entry) {
  unsigned count = (unsigned)func->bufs.count;
  LLVMTypeRef *params = IR_NEW_ARRAY(c->arena, LLVMTypeRef, count + 3);
  for (unsigned i = 0; i <= count; i++) params[i] = c->pointer;
  params[count + 1] = params[count + 2] = LLVMInt64TypeInContext(c->context);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->context), params, count + 3, 0);
  LLVMValueRef f = LLVMAddFunction(c->module, ir_format_text(c->arena, "%s.body", entry), type);
  LLVMSetLinkage(f, LLVMInternalLinkage);
  describe(c, f);
  attribute(c, f, (unsigned)LLVMAttributeFunctionIndex, "noinline");
  for (unsigned i = 0; i <= count; i++) attribute(c, f, i + 1, "noalias");
  return f;
}

static void emit_body(cg_cpu *c, const ir_func *func, LLVMValueRef f) {
  unsigned count = (unsigned)func->bufs.count;
  c->func = func;
  c->function = f;
  c->names = c->assigned = (cg_cpu_map){0};
  c->sizes = LLVMGetParam(f, count);
  c->begin = LLVMGetParam(f, count + 1);
  c->end = LLVMGetParam(f, count + 2);
  for (unsigned i = 0; i < count; i++) {
    const ir_buf *buf = func->bufs.at[i];
    LLVMSetValueName2(LLVMGetParam(f, i), buf->name, strlen(buf->name));
    cg_cpu_bind(c, &c->names, (cg_cpu_bound){.key = buf, .value = LLVMGetParam(f, i)});
  }
  c->entry = cg_cpu_new_block(c, "slots");
  LLVMBasicBlockRef start = cg_cpu_new_block(c, "start");
  LLVMPositionBuilderAtEnd(c->builder, start);
  cg_cpu_body(c, func);
  LLVMBuildRetVoid(c->builder);
  LLVMPositionBuilderAtEnd(c->builder, c->entry);
  LLVMBuildBr(c->builder, start);
}

static void emit_entry(cg_cpu *c, const ir_func *func, const char *entry, LLVMValueRef body) {
  LLVMTypeRef i64 = LLVMInt64TypeInContext(c->context);
  LLVMTypeRef params[4] = {c->pointer, c->pointer, i64, i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(c->context), params, 4, 0);
  LLVMValueRef f = LLVMAddFunction(c->module, entry, type);
  describe(c, f);
  c->function = f;
  LLVMPositionBuilderAtEnd(c->builder, cg_cpu_new_block(c, "start"));
  int count = func->bufs.count;
  LLVMValueRef *args = IR_NEW_ARRAY(c->arena, LLVMValueRef, count + 3);
  for (int i = 0; i < count; i++) {
    LLVMValueRef at = cg_cpu_i64(c, i);
    LLVMValueRef where =
        LLVMBuildInBoundsGEP2(c->builder, c->pointer, LLVMGetParam(f, 0), &at, 1, "");
    args[i] = LLVMBuildLoad2(c->builder, c->pointer, where, "");
  }
  for (int i = 0; i < 3; i++) args[count + i] = LLVMGetParam(f, (unsigned)i + 1);
  LLVMBuildCall2(c->builder, LLVMGlobalGetValueType(body), body, args, (unsigned)count + 3, "");
  LLVMBuildRetVoid(c->builder);
}

static void emit_stage(cg_cpu *c, const ir_stage *stage) {
  for (int i = 0; i < stage->funcs.count; i++) {
    const ir_func *func = stage->funcs.at[i];
    const char *entry = cg_cpu_entry(c->arena, func);
    if (func->kind != IR_FUNC_KERNEL || LLVMGetNamedFunction(c->module, entry)) continue;
    LLVMValueRef body = new_body(c, func, entry);
    emit_body(c, func, body);
    emit_entry(c, func, entry, body);
  }
}

/* ---- a module -------------------------------------------------------------------------------- */
static void register_target(void) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
}

void cg_cpu_start(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_target);
}

static spc_status new_target(cg_cpu *c, LLVMTargetMachineRef *out) {
  char *triple = LLVMGetDefaultTargetTriple(), *message = NULL;
  LLVMTargetRef target;
  if (LLVMGetTargetFromTriple(triple, &target, &message)) {
    LLVMDisposeMessage(triple);
    return fault(c->sink, "LLVM does not know this machine", message);
  }
  *out = LLVMCreateTargetMachine(target, triple, c->machine.cpu, c->machine.features,
                                 LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMDisposeMessage(triple);
  return *out ? SPC_OK : fault(c->sink, "LLVM refused the CPU", LLVMCreateMessage(c->machine.cpu));
}

static spc_status open_target(cg_cpu *c, LLVMTargetMachineRef *shared) {
  if (!*shared) SPC_TRY(new_target(c, shared));
  c->target = *shared;
  char *triple = LLVMGetTargetMachineTriple(c->target);
  LLVMSetTarget(c->module, triple);
  LLVMDisposeMessage(triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(c->target);
  LLVMSetModuleDataLayout(c->module, layout);
  LLVMDisposeTargetData(layout);
  return SPC_OK;
}

static spc_status check(cg_cpu *c) {
  char *message = NULL;
  if (LLVMVerifyModule(c->module, LLVMReturnStatusAction, &message))
    return fault(c->sink, "the LLVM IR made for this kernel does not verify", message);
  LLVMDisposeMessage(message);
  return SPC_OK;
}

static spc_status optimise(cg_cpu *c) {
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(c->module, passes, c->target, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return SPC_OK;
  char *message = LLVMGetErrorMessage(error);
  ir_diag_add(c->sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "LLVM's passes failed: %s", message);
  LLVMDisposeErrorMessage(message);
  return SPC_INTERNAL;
}

spc_status cg_cpu_module_new(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                             const cg_cpu_machine *machine, LLVMTargetMachineRef *target,
                             ir_sink *sink, cg_cpu *out) {
  *out = (cg_cpu){.arena = arena, .sink = sink, .machine = *machine};
  out->context = LLVMContextCreate();
  out->module = LLVMModuleCreateWithNameInContext(kernel->name, out->context);
  out->builder = LLVMCreateBuilderInContext(out->context);
  out->pointer = LLVMPointerTypeInContext(out->context, 0);
  SPC_TRY(open_target(out, target));
  for (int i = 0; i < kernel->stages.count; i++)
    if (!stage || stage == kernel->stages.at[i]) emit_stage(out, kernel->stages.at[i]);
  SPC_TRY(check(out));
  return optimise(out);
}

void cg_cpu_module_free(cg_cpu *c) {
  if (c->builder) LLVMDisposeBuilder(c->builder);
  if (c->module) LLVMDisposeModule(c->module);
  if (c->context) LLVMContextDispose(c->context);
  *c = (cg_cpu){0};
}

spc_status cg_cpu_emit(cg_cpu *c, LLVMCodeGenFileType kind, LLVMMemoryBufferRef *out) {
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(c->target, c->module, kind, &message, out))
    return fault(c->sink, "LLVM made no machine code", message);
  return SPC_OK;
}
#else
typedef int cg_cpu_module_without_llvm;
#endif
