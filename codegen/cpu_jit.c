/* cpu_jit.c - machine code in memory: the one file that knows ORC.
 *
 * An object made by our own target machine is added to an LLJIT of its own; functions are looked up
 * once and live until the image is released.  What the code may call is a fixed table, resolved
 * before the process's own symbols, so that it does not matter how libm was loaded.  ORC's C API is
 * not stable: the calls here exist unchanged from LLVM 16 to 22. */
#ifdef SPC_HAVE_LLVM
#include <llvm-c/Error.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <math.h>
#include <stdlib.h>

#include "codegen/cpu.h"

struct cg_cpu_jit {
  LLVMOrcLLJITRef jit;
};

/* ---- what emitted code may call -------------------------------------------------------------- */
typedef struct callee {
  const char *name;
  void (*address)(void);
} callee;
typedef void any(void);

static const callee callees[] = {
    {"exp", (any *)exp},       {"log", (any *)log},         {"tanh", (any *)tanh},
    {"erfc", (any *)erfc},     {"pow", (any *)pow},         {"powf", (any *)powf},
    {"floor", (any *)floor},   {"floorf", (any *)floorf},   {"memcpy", (any *)memcpy},
    {"memset", (any *)memset}, {"memmove", (any *)memmove},
};

bool cg_cpu_jit_takes(const char *entry) {
  for (int i = 0; i < IR_COUNT(callees); i++)
    if (!strcmp(callees[i].name, entry)) return false;
  return true;
}

static spc_status fault(ir_sink *sink, LLVMErrorRef error) {
  char *message = LLVMGetErrorMessage(error);
  ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "LLVM's JIT: %s", message);
  LLVMDisposeErrorMessage(message);
  return SPC_INTERNAL;
}

static LLVMErrorRef define_callees(LLVMOrcLLJITRef jit, LLVMOrcJITDylibRef library) {
  LLVMOrcCSymbolMapPair pairs[IR_COUNT(callees)];
  for (int i = 0; i < IR_COUNT(callees); i++) {
    pairs[i].Name = LLVMOrcLLJITMangleAndIntern(jit, callees[i].name);
    pairs[i].Sym.Address = (LLVMOrcExecutorAddress)(uintptr_t)callees[i].address;
    pairs[i].Sym.Flags = (LLVMJITSymbolFlags){
        LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0};
  }
  LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs, IR_COUNT(callees));
  LLVMErrorRef error = LLVMOrcJITDylibDefine(library, unit);
  if (error) LLVMOrcDisposeMaterializationUnit(unit);
  return error;
}

/* What the back end may call on its own for a CPU without some instruction. */
static LLVMErrorRef add_process_symbols(LLVMOrcLLJITRef jit, LLVMOrcJITDylibRef library) {
  LLVMOrcDefinitionGeneratorRef process;
  LLVMErrorRef error = LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(
      &process, LLVMOrcLLJITGetGlobalPrefix(jit), NULL, NULL);
  if (!error) LLVMOrcJITDylibAddGenerator(library, process);
  return error;
}

/* Takes the objects in every case. */
static LLVMErrorRef fill(LLVMOrcLLJITRef jit, LLVMMemoryBufferRef *objects, int count) {
  LLVMOrcJITDylibRef library = LLVMOrcLLJITGetMainJITDylib(jit);
  LLVMErrorRef error = define_callees(jit, library);
  if (!error) error = add_process_symbols(jit, library);
  for (int i = 0; i < count; i++) {
    if (!error)
      error = LLVMOrcLLJITAddObjectFile(jit, library, objects[i]);
    else
      LLVMDisposeMemoryBuffer(objects[i]);
  }
  return error;
}

static spc_status refuse(LLVMErrorRef error, LLVMMemoryBufferRef *objects, int count,
                         ir_sink *sink) {
  for (int i = 0; i < count; i++) LLVMDisposeMemoryBuffer(objects[i]);
  return error ? fault(sink, error) : SPC_OUT_OF_MEMORY;
}

spc_status cg_cpu_jit_new(LLVMMemoryBufferRef *objects, int count, ir_sink *sink,
                          cg_cpu_jit **out) {
  LLVMOrcLLJITRef jit;
  *out = NULL;
  cg_cpu_jit *made = malloc(sizeof *made);
  if (!made) return refuse(NULL, objects, count, sink);
  LLVMErrorRef error = LLVMOrcCreateLLJIT(&jit, NULL);
  if (error) {
    free(made);
    return refuse(error, objects, count, sink);
  }
  *made = (cg_cpu_jit){jit};
  error = fill(jit, objects, count);
  if (error) {
    cg_cpu_jit_free(made);
    return fault(sink, error);
  }
  *out = made;
  return SPC_OK;
}

ir_cpu_function *cg_cpu_jit_find(cg_cpu_jit *jit, const char *entry) {
  LLVMOrcExecutorAddress address = 0;
  LLVMErrorRef error = LLVMOrcLLJITLookup(jit->jit, &address, entry);
  if (error) {
    LLVMConsumeError(error);
    return NULL;
  }
  return (ir_cpu_function *)(uintptr_t)address;
}

void cg_cpu_jit_free(void *owner) {
  cg_cpu_jit *jit = owner;
  if (!jit) return;
  LLVMConsumeError(LLVMOrcDisposeLLJIT(jit->jit));
  free(jit);
}
#else
typedef int cg_cpu_jit_without_llvm;
#endif
