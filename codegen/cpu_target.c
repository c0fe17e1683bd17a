/* cpu_target.c - the machines the CPU back end makes code for: this one, or one of a table.
 *
 * The table is what --mcpu accepts: LLVM itself only prints a warning for a name that it does not
 * know, and a library does not print.  For this machine the feature string matters as much as the
 * name: a virtual machine may hide what the name implies (AMX). */
#include "codegen/cpu.h"

typedef struct known_cpu {
  const char *name;
  int vector_bits;
} known_cpu;

static const known_cpu known[] = {
    {"x86-64", 128},         {"x86-64-v2", 128},      {"nehalem", 128},        {"sandybridge", 128},
    {"x86-64-v3", 256},      {"haswell", 256},        {"broadwell", 256},      {"skylake", 256},
    {"alderlake", 256},      {"znver1", 256},         {"znver2", 256},         {"znver3", 256},
    {"x86-64-v4", 512},      {"skylake-avx512", 512}, {"cascadelake", 512},    {"cooperlake", 512},
    {"icelake-client", 512}, {"icelake-server", 512}, {"sapphirerapids", 512}, {"znver4", 512},
};

static const known_cpu *find(const char *name) {
  for (int i = 0; i < IR_COUNT(known); i++)
    if (!strcmp(known[i].name, name)) return &known[i];
  return NULL;
}

static spc_status unknown(const char *mcpu, ir_sink *sink) {
  const char *names[IR_COUNT(known)];
  for (int i = 0; i < IR_COUNT(known); i++) names[i] = known[i].name;
  ir_diag *diag = ir_diag_add(sink, IR_DIAG_CPU_UNKNOWN, IR_NOWHERE,
                              "--mcpu=%s names no CPU that is known here", mcpu);
  const char *near = ir_nearest(mcpu, names, IR_COUNT(known));
  if (near) ir_diag_note(sink, diag, IR_NOWHERE, "did you mean `%s`?", near);
  return SPC_INVALID_INPUT;
}

#ifdef SPC_HAVE_LLVM
static bool has(const char *features, const char *one) {
  size_t length = strlen(one);
  for (const char *at = strstr(features, one); at; at = strstr(at + 1, one))
    if (at[length] == ',' || !at[length]) return true;
  return false;
}

static int vector_bits_of(const char *features) {
  bool wide = has(features, "+avx512f") && has(features, "+avx512vl") &&
              has(features, "+avx512bw") && has(features, "+avx512dq");
  return wide ? 512 : has(features, "+avx2") ? 256 : 128;
}

static void drop_message(void *message) { LLVMDisposeMessage(message); }

static void this_machine(ir_arena *arena, cg_cpu_machine *out) {
  ir_deferred *name = ir_arena_defer(arena, drop_message);
  ir_deferred *features = ir_arena_defer(arena, drop_message);
  out->cpu = name->user = LLVMGetHostCPUName();
  out->features = features->user = LLVMGetHostCPUFeatures();
  out->vector_bits = vector_bits_of(out->features);
  out->half = has(out->features, "+f16c");
  out->fused = has(out->features, "+fma");
}

static bool is_this_machine(const char *mcpu) {
  return !mcpu || !*mcpu || !strcmp(mcpu, "host") || !strcmp(mcpu, "native");
}

spc_status cg_cpu_machine_find(ir_arena *arena, const char *mcpu, ir_sink *sink,
                               cg_cpu_machine *out) {
  if (is_this_machine(mcpu)) {
    this_machine(arena, out);
    return SPC_OK;
  }
  const known_cpu *cpu = find(mcpu);
  if (!cpu) return unknown(mcpu, sink);
  bool modern = cpu->vector_bits >= 256;
  *out = (cg_cpu_machine){ir_strdup(arena, mcpu), "", cpu->vector_bits, modern, modern};
  return SPC_OK;
}

bool cg_cpu_available(void) { return true; }

const char *cg_cpu_version(void) {
  return !strcmp(SPC_LLVM_MODE, "STATIC") ? "LLVM " SPC_LLVM_VERSION " (static)"
                                          : "LLVM " SPC_LLVM_VERSION " (shared)";
}

int cg_cpu_vector_bits(const char *mcpu) {
  const known_cpu *cpu = is_this_machine(mcpu) ? NULL : find(mcpu);
  if (!is_this_machine(mcpu)) return cpu ? cpu->vector_bits : 128;
  char *features = LLVMGetHostCPUFeatures();
  int bits = vector_bits_of(features);
  LLVMDisposeMessage(features);
  return bits;
}

/* The name stays for the life of the process; threads that race write the same bytes. */
const char *cg_cpu_host(void) {
  static const known_cpu others[] = {
      {"emeraldrapids", 512}, {"graniterapids", 512}, {"znver5", 512}, {"rocketlake", 512},
      {"tigerlake", 512},     {"raptorlake", 256},    {"generic", 128}};
  char *name = LLVMGetHostCPUName();
  const known_cpu *cpu = find(name);
  for (int i = 0; !cpu && i < IR_COUNT(others); i++)
    if (!strcmp(others[i].name, name)) cpu = &others[i];
  LLVMDisposeMessage(name);
  return cpu ? cpu->name : "this machine";
}
#else
static const char *const missing = "this build has no LLVM: install llvm-19-dev and libzstd-dev, "
                                   "then configure with -DSPC_LLVM=STATIC";

static spc_status unavailable(ir_sink *sink) {
  ir_diag_add(sink, IR_DIAG_NO_LLVM, IR_NOWHERE, "code for the CPU cannot be made: %s", missing);
  return SPC_UNAVAILABLE;
}

bool cg_cpu_available(void) { return false; }
const char *cg_cpu_version(void) { return missing; }
const char *cg_cpu_host(void) { return ""; }

int cg_cpu_vector_bits(const char *mcpu) {
  const known_cpu *cpu = mcpu ? find(mcpu) : NULL;
  return cpu ? cpu->vector_bits : 128;
}

spc_status cg_cpu_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                          ir_sink *sink, ir_image **out) {
  (void)arena, (void)kernel, *out = NULL;
  if (options->mcpu && !find(options->mcpu)) return unknown(options->mcpu, sink);
  return unavailable(sink);
}

spc_status cg_cpu_text(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                       const char *kind, const cg_options *options, ir_sink *sink, ir_text *out) {
  (void)arena, (void)kernel, (void)stage, (void)kind, (void)out;
  if (options->mcpu && !find(options->mcpu)) return unknown(options->mcpu, sink);
  return unavailable(sink);
}
#endif
