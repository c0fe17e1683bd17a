/* cpu_compile.c - the CPU back end's door: a kernel to an image, and to text.
 *
 * Every stage is a unit with an LLVM context, an arena and a sink of its own, so that units are
 * compiled and linked on several threads.  A unit whose object is in the cache never touches LLVM.
 * An arena that runs out of memory long-jumps back here, where what the unit holds is released.
 * `llvm` is the IR after LLVM's passes, `asm` what the object holds. */
#ifdef SPC_HAVE_LLVM
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "codegen/cpu.h"

enum { MOST_THREADS = 8 };

typedef struct unit {
  const ir_kernel *kernel;
  const ir_stage *stage; /* NULL: all of them in one module */
  int64_t size;          /* statements of its functions */
  const cg_options *options;
  const cg_cpu_machine *machine;
  const char *kind; /* of text; NULL: code */
  ir_arena *arena;
  ir_sink *sink;
  LLVMTargetMachineRef *target; /* of the thread that compiles it */
  cg_cpu c;
  LLVMMemoryBufferRef made; /* the text, or the object until it is linked */
  ir_cached kept;           /* the object as it was found */
  bool cached;
  cg_cpu_code *code;
  spc_status status;
} unit;

/* ---- one unit -------------------------------------------------------------------------------- */
static spc_status finish(unit *u) {
  if (u->kind && strcmp(u->kind, "asm")) {
    char *text = LLVMPrintModuleToString(u->c.module);
    u->made = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "llvm");
    LLVMDisposeMessage(text);
    return SPC_OK;
  }
  return cg_cpu_emit(&u->c, u->kind ? LLVMAssemblyFile : LLVMObjectFile, &u->made);
}

static spc_status make(unit *u) {
  cg_cpu_start();
  SPC_TRY(cg_cpu_module_new(u->arena, u->kernel, u->stage, u->machine, u->target, u->sink, &u->c));
  return finish(u);
}

/* The object from the cache, else from LLVM and into the cache; then linked. */
static spc_status make_code(unit *u) {
  const ir_cache *cache = u->options->cache;
  ir_cache_key key;
  bool keyed = cache && cg_cpu_key(u->arena, u->kernel, u->stage, u->machine, &key);
  if (keyed && (u->cached = cache->find(cache->user, &key, &u->kept)))
    return cg_cpu_link(u->kept.data, u->kept.bytes, u->sink, &u->code);
  SPC_TRY(make(u));
  ir_cached object = {(void *)(uintptr_t)LLVMGetBufferStart(u->made), LLVMGetBufferSize(u->made),
                      NULL};
  if (keyed) cache->keep(cache->user, &key, &object, NULL, NULL);
  return cg_cpu_link(object.data, object.bytes, u->sink, &u->code);
}

static void compile_unit(unit *u) {
  jmp_buf no_memory;
  if (!u->arena) return;
  if (setjmp(no_memory)) {
    u->status = SPC_OUT_OF_MEMORY;
  } else {
    ir_arena_guard(u->arena, &no_memory);
    u->sink = ir_sink_new(u->arena);
    u->status = u->kind ? make(u) : make_code(u);
  }
  ir_arena_guard(u->arena, NULL);
  cg_cpu_module_free(&u->c);
}

static bool open_unit(unit *u) { return (u->arena = ir_arena_new()) != NULL; }

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
/* Threads take the largest units first, so that none is left with one at the end. */
typedef struct work {
  unit **units;
  int count;
  atomic_int next;
} work;

static int64_t size_of(const ir_block *block) {
  int64_t size = block->codes.count;
  for (int i = 0; i < block->codes.count; i++)
    size += size_of(&block->codes.at[i]->body) + size_of(&block->codes.at[i]->orelse);
  return size;
}

static int by_size(const void *x, const void *y) {
  const unit *a = *(unit *const *)x, *b = *(unit *const *)y;
  return a->size != b->size ? (a->size < b->size) - (a->size > b->size) : (a > b) - (a < b);
}

static void *take_units(void *user) {
  work *w = user;
  LLVMTargetMachineRef target = NULL;
  for (int i; (i = atomic_fetch_add(&w->next, 1)) < w->count;) {
    w->units[i]->target = &target;
    compile_unit(w->units[i]);
  }
  if (target) LLVMDisposeTargetMachine(target);
  return NULL;
}

static int thread_count(const cg_options *options, int units) {
  long cores = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
  int threads = cores < 1 ? 1 : cores > MOST_THREADS ? MOST_THREADS : (int)cores;
  return threads < units ? threads : units;
}

static void compile_units(ir_arena *arena, unit *units, int count, const cg_options *options) {
  work w = {.units = IR_NEW_ARRAY(arena, unit *, count + 1), .count = count};
  for (int i = 0; i < count; i++) {
    w.units[i] = &units[i];
    for (int f = 0; f < units[i].stage->funcs.count; f++)
      units[i].size += size_of(&units[i].stage->funcs.at[f]->body);
  }
  if (count) qsort(w.units, (size_t)count, sizeof(unit *), by_size);
  pthread_t thread[MOST_THREADS];
  int started = 0, wanted = thread_count(options, count) - 1;
  atomic_init(&w.next, 0);
  while (started < wanted && !pthread_create(&thread[started], NULL, take_units, &w)) started++;
  take_units(&w);
  for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* What units hold; done twice it does nothing. */
static void units_free(void *user) {
  unit *units = user;
  for (int i = 0; units[i].kernel; i++) {
    unit *u = &units[i];
    ir_arena_free(u->arena);
    if (u->made) LLVMDisposeMemoryBuffer(u->made);
    free(u->kept.data);
    free(u->kept.note);
    cg_cpu_code_free(u->code);
    u->arena = NULL;
    u->made = NULL;
    u->kept = (ir_cached){0};
    u->code = NULL;
  }
}

static unit *units_of(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                      const cg_cpu_machine *machine, int *count) {
  unit *units = IR_NEW_ARRAY(arena, unit, kernel->stages.count + 1);
  ir_arena_defer(arena, units_free)->user = units;
  *count = 0;
  for (int s = 0; s < kernel->stages.count; s++) {
    if (!kernel->stages.at[s]->funcs.count) continue;
    unit *u = &units[(*count)++];
    *u = (unit){
        .kernel = kernel, .stage = kernel->stages.at[s], .options = options, .machine = machine};
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
  return status;
}

static ir_object *objects_of(ir_arena *arena, const unit *units, int count) {
  ir_object *objects = IR_NEW_ARRAY(arena, ir_object, count + 1);
  for (int i = 0; i < count; i++) {
    const unit *u = &units[i];
    const void *data = u->made ? LLVMGetBufferStart(u->made) : u->kept.data;
    size_t bytes = u->made ? LLVMGetBufferSize(u->made) : u->kept.bytes;
    void *copy = ir_alloc(arena, bytes + 1);
    if (data) memcpy(copy, data, bytes);
    objects[i] = (ir_object){u->stage, copy, bytes};
  }
  return objects;
}

/* Names of the compiler's own functions have a dot; one of an edited dump may be any. */
static spc_status check_names(ir_arena *arena, const ir_kernel *kernel, ir_sink *sink) {
  for (int s = 0; s < kernel->stages.count; s++)
    for (int i = 0; i < kernel->stages.at[s]->funcs.count; i++) {
      const ir_func *func = kernel->stages.at[s]->funcs.at[i];
      if (cg_cpu_link_takes(cg_cpu_entry(arena, func))) continue;
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
/* What was linked goes to the image, also when it fails. */
static spc_status image_of(ir_arena *arena, const ir_kernel *kernel, unit *units, int count,
                           ir_sink *sink, ir_image **out) {
  cg_cpu_piece *pieces = IR_NEW_ARRAY(arena, cg_cpu_piece, count + 1);
  ir_arena_defer(arena, cg_cpu_pieces_free)->user = pieces;
  for (int i = 0; i < count; i++) {
    pieces[i] = (cg_cpu_piece){.stage = units[i].stage, .code = units[i].code};
    units[i].code = NULL;
  }
  SPC_TRY(cg_cpu_image(arena, kernel, pieces, count, sink, out));
  for (int i = 0; i < count; i++) *(units[i].cached ? &(*out)->cached : &(*out)->compiled) += 1;
  return SPC_OK;
}

/* The objects that were linked, in memory of the image's. */
static void keep_objects(ir_image *image, const ir_object *objects, int count) {
  for (int i = 0; i < count; i++) IR_PUSH(image->arena, &image->objects, objects[i]);
}

spc_status cg_cpu_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                          ir_sink *sink, ir_image **out) {
  int count;
  cg_cpu_machine machine;
  *out = NULL;
  SPC_TRY(cg_cpu_machine_find(arena, options->mcpu, sink, &machine));
  SPC_TRY(check_names(arena, kernel, sink));
  unit *units = units_of(arena, kernel, options, &machine, &count);
  compile_units(arena, units, count, options);
  ir_object *objects = options->keep_objects ? objects_of(arena, units, count) : NULL;
  spc_status status = close_units(units, count, sink), made;
  made = image_of(arena, kernel, units, count, status ? NULL : sink, out);
  if (status == SPC_OK) status = made;
  if (status == SPC_OK && objects) keep_objects(*out, objects, count);
  if (status != SPC_OK && *out) {
    (*out)->release((*out)->owner);
    *out = NULL;
  }
  units_free(units); /* now, and not with the arena */
  return status;
}

/* ---- text ------------------------------------------------------------------------------------ */
spc_status cg_cpu_text(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                       const char *kind, const cg_options *options, ir_sink *sink, ir_text *out) {
  cg_cpu_machine machine;
  LLVMTargetMachineRef target = NULL;
  SPC_TRY(cg_cpu_machine_find(arena, options->mcpu, sink, &machine));
  unit u = {.kernel = kernel,
            .stage = stage,
            .options = options,
            .machine = &machine,
            .kind = kind,
            .target = &target};
  if (!open_unit(&u)) return SPC_OUT_OF_MEMORY;
  compile_unit(&u);
  if (target) LLVMDisposeTargetMachine(target);
  spc_status status = close_unit(&u, sink);
  if (u.made && status == SPC_OK)
    ir_text_putn(out, LLVMGetBufferStart(u.made), LLVMGetBufferSize(u.made));
  if (u.made) LLVMDisposeMemoryBuffer(u.made);
  return status;
}
#else
typedef int cg_cpu_compile_without_llvm;
#endif
