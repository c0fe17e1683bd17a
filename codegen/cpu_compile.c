/* cpu_compile.c - the CPU back end's door: a kernel to an image, and to text.
 *
 * Every stage is a unit with an LLVM context, an arena and a sink of its own, so that units are
 * compiled on several threads; their objects go into one JIT.  An arena that runs out of memory
 * long-jumps back here, where the LLVM objects of the unit are released.  `llvm` is the IR after
 * LLVM's passes, `asm` what the object holds. */
#ifdef SPC_HAVE_LLVM
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "codegen/cpu.h"

enum { MOST_THREADS = 8 };

typedef struct unit {
  const ir_kernel *kernel;
  const ir_stage *stage; /* NULL: all of them in one module */
  const cg_options *options;
  const char *kind; /* of text; NULL: an object */
  ir_arena *arena;
  ir_sink *sink;
  cg_cpu c;
  LLVMMemoryBufferRef object; /* or text */
  spc_status status;
} unit;

/* ---- one unit -------------------------------------------------------------------------------- */
static spc_status finish(unit *u) {
  if (u->kind && strcmp(u->kind, "asm")) {
    char *text = LLVMPrintModuleToString(u->c.module);
    u->object = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "llvm");
    LLVMDisposeMessage(text);
    return SPC_OK;
  }
  return cg_cpu_emit(&u->c, u->kind ? LLVMAssemblyFile : LLVMObjectFile, &u->object);
}

static void compile_unit(unit *u) {
  jmp_buf no_memory;
  if (!u->arena) return;
  if (setjmp(no_memory)) {
    u->status = SPC_OUT_OF_MEMORY;
  } else {
    ir_arena_guard(u->arena, &no_memory);
    u->status = cg_cpu_module_new(u->arena, u->kernel, u->stage, u->options, u->sink, &u->c);
    if (u->status == SPC_OK) u->status = finish(u);
  }
  ir_arena_guard(u->arena, NULL);
  cg_cpu_module_free(&u->c);
}

static bool open_unit(unit *u) {
  u->arena = ir_arena_new();
  if (u->arena) u->sink = ir_sink_new(u->arena);
  return u->arena != NULL;
}

/* What the unit had to say goes to the caller's sink. */
static spc_status close_unit(unit *u, ir_sink *sink) {
  for (int i = 0; u->sink && i < u->sink->diags.count; i++) {
    const ir_diag *from = u->sink->diags.at[i];
    ir_diag *to = ir_diag_add(sink, from->id, from->span, "%s", from->text);
    for (int n = 0; n < from->notes.count; n++)
      ir_diag_note(sink, to, from->notes.at[n].span, "%s", from->notes.at[n].text);
  }
  ir_arena_free(u->arena);
  u->arena = NULL;
  return u->status;
}

/* ---- several units on several threads -------------------------------------------------------- */
typedef struct work {
  unit *units;
  int count;
  atomic_int next;
} work;

static void *take_units(void *user) {
  work *w = user;
  for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) compile_unit(&w->units[i]);
  return NULL;
}

static int thread_count(const cg_options *options, int units) {
  long cores = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
  int threads = cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (int)cores;
  return threads < units ? threads : units;
}

static void compile_units(unit *units, int count, const cg_options *options) {
  work w = {.units = units, .count = count};
  pthread_t thread[MOST_THREADS];
  int started = 0, wanted = thread_count(options, count) - 1;
  atomic_init(&w.next, 0);
  cg_cpu_start();
  while (started < wanted && !pthread_create(&thread[started], NULL, take_units, &w)) started++;
  take_units(&w);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

static unit *units_of(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                      int *count) {
  unit *units = IR_NEW_ARRAY(arena, unit, kernel->stages.count + 1);
  *count = 0;
  for (int s = 0; s < kernel->stages.count; s++) {
    if (!kernel->stages.at[s]->funcs.count) continue;
    unit *u = &units[(*count)++];
    *u = (unit){.kernel = kernel, .stage = kernel->stages.at[s], .options = options};
    if (!open_unit(u)) u->status = SPC_OUT_OF_MEMORY;
  }
  return units;
}

static spc_status close_units(unit *units, int count, ir_sink *sink) {
  spc_status status = SPC_OK;
  for (int i = 0; i < count; i++) {
    spc_status one = close_unit(&units[i], sink);
    if (status == SPC_OK) status = one;
  }
  for (int i = 0; status != SPC_OK && i < count; i++)
    if (units[i].object) LLVMDisposeMemoryBuffer(units[i].object);
  return status;
}

/* Names of the compiler's own functions have a dot; one of an edited dump may be any. */
static spc_status check_names(ir_arena *arena, const ir_kernel *kernel, ir_sink *sink) {
  for (int s = 0; s < kernel->stages.count; s++)
    for (int i = 0; i < kernel->stages.at[s]->funcs.count; i++) {
      const ir_func *func = kernel->stages.at[s]->funcs.at[i];
      if (cg_cpu_jit_takes(cg_cpu_entry(arena, func))) continue;
      ir_diag *d = ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE,
                               "no function can have the name `%s`: emitted code calls the C "
                               "library's function of that name",
                               func->name);
      ir_diag_note(sink, d, IR_NOWHERE,
                   "name it `%s.%s`, say: no function of C has a dot in its name", kernel->name,
                   func->name);
      return SPC_INVALID_INPUT;
    }
  return SPC_OK;
}

/* ---- an image -------------------------------------------------------------------------------- */
static spc_status add_code(ir_image *image, const ir_stage *stage, const ir_func *func,
                           cg_cpu_jit *jit, ir_sink *sink) {
  ir_code_image code = {
      .stage = stage, .func = func, .label = "loop", .registers = -1, .spill_bytes = -1};
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

/* Takes the objects. */
static spc_status link_units(ir_arena *arena, unit *units, int count, ir_sink *sink,
                             cg_cpu_jit **jit) {
  LLVMMemoryBufferRef *objects = IR_NEW_ARRAY(arena, LLVMMemoryBufferRef, count + 1);
  for (int i = 0; i < count; i++) objects[i] = units[i].object;
  return cg_cpu_jit_new(objects, count, sink, jit);
}

spc_status cg_cpu_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                          ir_sink *sink, ir_image **out) {
  int count;
  cg_cpu_jit *jit = NULL;
  cg_cpu_machine machine;
  *out = NULL;
  SPC_TRY(cg_cpu_machine_find(arena, options->mcpu, sink, &machine));
  SPC_TRY(check_names(arena, kernel, sink));
  ir_image *image = IR_NEW(arena, ir_image);
  unit *units = units_of(arena, kernel, options, &count);
  compile_units(units, count, options);
  SPC_TRY(close_units(units, count, sink));
  SPC_TRY(link_units(arena, units, count, sink, &jit));
  *image = (ir_image){.arena = arena, .kernel = kernel, .owner = jit, .release = cg_cpu_jit_free};
  spc_status status = fill_image(image, jit, sink);
  if (status == SPC_OK)
    *out = image;
  else
    cg_cpu_jit_free(jit);
  return status;
}

/* ---- text ------------------------------------------------------------------------------------ */
spc_status cg_cpu_text(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                       const char *kind, const cg_options *options, ir_sink *sink, ir_text *out) {
  unit u = {.kernel = kernel, .stage = stage, .options = options, .kind = kind};
  (void)arena;
  if (!open_unit(&u)) return SPC_OUT_OF_MEMORY;
  cg_cpu_start();
  compile_unit(&u);
  spc_status status = close_unit(&u, sink);
  if (u.object && status == SPC_OK)
    ir_text_putn(out, LLVMGetBufferStart(u.object), LLVMGetBufferSize(u.object));
  if (u.object) LLVMDisposeMemoryBuffer(u.object);
  return status;
}
#else
typedef int cg_cpu_compile_without_llvm;
#endif
