/* cpu_image.c - linked code to an image, and objects that were made before to linked code: what of
 * the CPU back end needs no LLVM. */
#include <stdlib.h>

#include "codegen/cpu.h"

/* ---- names and ranges ------------------------------------------------------------------------ */
/* The function's name, dots and all: `k.y_2` and `k.y.2` are two functions. */
const char *cg_cpu_entry(ir_arena *arena, const ir_func *func) {
  char *name = ir_strdup(arena, func->name);
  for (char *at = name; *at; at++)
    if (!((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
          *at == '.'))
      *at = '_';
  return name;
}

/* e with the `let`s before the loop put in; NULL when that is not an expression of dims. */
static ir_expr *over_dims(ir_arena *arena, const ir_func *func, ir_expr *e) {
  if (e->kind == IR_CONST || e->kind == IR_DIM) return e;
  if (e->kind == IR_VAR) {
    for (int i = 0; i < func->body.codes.count; i++) {
      const ir_code *code = func->body.codes.at[i];
      if (code->kind == IR_LET && code->var == e->var && code->value)
        return over_dims(arena, func, code->value);
    }
    return NULL;
  }
  if (e->kind != IR_OP || e->arg_count != 2 || e->dtype != IR_I64) return NULL;
  ir_expr *args[2];
  for (int i = 0; i < 2; i++)
    if (!(args[i] = over_dims(arena, func, e->args[i]))) return NULL;
  return ir_copy_with(arena, e, args);
}

const ir_code *cg_cpu_parallel(ir_arena *arena, const ir_func *func, ir_expr **lo, ir_expr **hi) {
  const ir_code *loop = NULL;
  for (int i = 0; i < func->body.codes.count; i++) {
    const ir_code *code = func->body.codes.at[i];
    if (code->kind == IR_COMMENT) continue;
    if (loop) return NULL;
    if (code->kind == IR_FOR && code->run == IR_RUN_PARALLEL)
      loop = code;
    else if (code->kind != IR_LET && code->kind != IR_LOCAL)
      return NULL;
  }
  if (!loop) return NULL;
  ir_expr *from = over_dims(arena, func, loop->lo), *to = over_dims(arena, func, loop->hi);
  if (!from || !to) return NULL;
  if (lo) *lo = from;
  if (hi) *hi = to;
  return loop;
}

/* ---- an image -------------------------------------------------------------------------------- */
/* Of the code's memory. */
typedef struct owner {
  int count;
  cg_cpu_code *code[];
} owner;

static void release(void *user) {
  owner *own = user;
  for (int i = 0; own && i < own->count; i++) cg_cpu_code_free(own->code[i]);
  free(own);
}

/* Takes the pieces' code, unless it fails. */
static owner *take_code(cg_cpu_piece *pieces, int count) {
  owner *own = malloc(sizeof *own + (size_t)count * sizeof *own->code);
  if (own) own->count = count;
  for (int i = 0; own && i < count; i++) {
    own->code[i] = pieces[i].code;
    pieces[i].taken = true;
  }
  return own;
}

static spc_status add_code(ir_image *image, const cg_cpu_piece *piece, const ir_func *func,
                           ir_sink *sink) {
  ir_code_image code = {
      .stage = piece->stage, .func = func, .label = "loop", .registers = -1, .spill_bytes = -1};
  code.entry = cg_cpu_entry(image->arena, func);
  code.cpu = piece->code ? cg_cpu_code_find(piece->code, code.entry) : NULL;
  if (!code.cpu) {
    if (sink)
      ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "the code of `%s` did not link",
                  func->name);
    return SPC_INTERNAL;
  }
  cg_cpu_parallel(image->arena, func, &code.parallel_lo, &code.parallel_hi);
  IR_PUSH(image->arena, &image->codes, code);
  return SPC_OK;
}

static spc_status fill(ir_image *image, const cg_cpu_piece *pieces, int count, ir_sink *sink) {
  for (int p = 0; p < count; p++)
    for (int i = 0; i < pieces[p].stage->funcs.count; i++)
      if (pieces[p].stage->funcs.at[i]->kind == IR_FUNC_KERNEL)
        SPC_TRY(add_code(image, &pieces[p], pieces[p].stage->funcs.at[i], sink));
  return SPC_OK;
}

spc_status cg_cpu_image(ir_arena *arena, const ir_kernel *kernel, cg_cpu_piece *pieces, int count,
                        ir_sink *sink, ir_image **out) {
  *out = NULL;
  ir_image *image = IR_NEW(arena, ir_image);
  owner *own = take_code(pieces, count);
  if (!own) return SPC_OUT_OF_MEMORY;
  *image = (ir_image){.arena = arena, .kernel = kernel, .release = release, .owner = own};
  *out = image; /* the owner's from here on: what follows may end in the arena's handler */
  spc_status status = fill(image, pieces, count, sink);
  if (status == SPC_OK) return SPC_OK;
  *out = NULL;
  release(own);
  return status;
}

void cg_cpu_pieces_free(void *user) {
  cg_cpu_piece *pieces = user;
  for (int i = 0; pieces[i].stage; i++) {
    if (!pieces[i].taken) cg_cpu_code_free(pieces[i].code);
    pieces[i].code = NULL;
  }
}

/* ---- from objects ---------------------------------------------------------------------------- */
static const ir_piece *piece_of(const ir_piece *given, int count, const ir_stage *stage) {
  for (int i = 0; i < count; i++)
    if (!strcmp(given[i].name, stage->name)) return &given[i];
  return NULL;
}

static spc_status link_stage(const ir_stage *stage, const ir_piece *given, int count, ir_sink *sink,
                             cg_cpu_piece *out) {
  const ir_piece *piece = piece_of(given, count, stage);
  out->stage = stage;
  if (piece) return cg_cpu_link(piece->data, piece->bytes, sink, &out->code);
  ir_diag_add(sink, IR_DIAG_CPU_COMPILE, IR_NOWHERE, "there is no code of stage `%s`", stage->name);
  return SPC_INVALID_INPUT;
}

spc_status cg_cpu_restore(ir_arena *arena, const ir_kernel *kernel, const ir_piece *given,
                          int count, ir_sink *sink, ir_image **out) {
  *out = NULL;
  cg_cpu_piece *pieces = IR_NEW_ARRAY(arena, cg_cpu_piece, kernel->stages.count + 1);
  spc_status status = SPC_OK;
  int made = 0;
  ir_arena_defer(arena, cg_cpu_pieces_free)->user = pieces;
  for (int s = 0; s < kernel->stages.count && status == SPC_OK; s++)
    if (kernel->stages.at[s]->funcs.count)
      status = link_stage(kernel->stages.at[s], given, count, sink, &pieces[made++]);
  return status ? status : cg_cpu_image(arena, kernel, pieces, made, sink, out);
}
