/* api_bundle.c - programs that were compiled before: spc_program_from_bundle. */
#include <setjmp.h>
#include <stdlib.h>

#include "driver/api.h"
#include "driver/bundle.h"

/* ---- which target ---------------------------------------------------------------------------- */
/* A cubin runs on its own architecture; without the letter, on that with the letter too. */
static int fitness(const spc_context *context, const char *target) {
  if (context->backend == DRV_INTERP) return !strcmp(target, "interp");
  if (context->backend == DRV_CPU) {
    for (int i = 0; cg_cpu_level(i); i++)
      if (!strcmp(cg_cpu_level(i), target)) return cg_cpu_level_runs(target) ? 10 - i : 0;
    return 0;
  }
  const char *mine = rt_cuda_arch(context->cuda);
  size_t length = strlen(target);
  if (!strcmp(mine, target)) return 2;
  return !strncmp(mine, target, length) && !strcmp(mine + length, "a");
}

static const char *machine_of(const spc_context *context) {
  if (context->backend == DRV_CUDA) return rt_cuda_arch(context->cuda);
  if (context->backend == DRV_INTERP) return "interp";
  for (int i = 0; cg_cpu_level(i); i++)
    if (cg_cpu_level_runs(cg_cpu_level(i))) return cg_cpu_level(i);
  return "another processor than x86-64";
}

static const bundle_target *choose(const spc_context *context, const bundle *b) {
  const bundle_target *best = NULL;
  int most = 0;
  for (int i = 0; i < b->targets.count; i++) {
    int fits = fitness(context, b->targets.at[i].name);
    if (fits <= most) continue;
    most = fits;
    best = &b->targets.at[i];
  }
  return best;
}

/* ---- a program ------------------------------------------------------------------------------- */
typedef struct loading {
  const char *call;
  const void *data;
  size_t bytes;
  spc_error *err;
} loading;

static spc_status load(const loading *l, spc_program *p) {
  bundle b;
  const char *why;
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory))
    return drv_api_fail(l->err, SPC_OUT_OF_MEMORY, NULL, "no memory for a program");
  ir_arena_guard(p->arena, &out_of_memory);
  p->sink = ir_sink_new(p->arena);
  spc_status status = bundle_read(p->arena, l->data, l->bytes, &b, &why);
  if (status) return drv_api_fail(l->err, status, NULL, "%s: %s", l->call, why);
  const bundle_target *target = choose(p->context, &b);
  if (!target)
    return drv_api_fail(l->err, SPC_UNAVAILABLE, NULL,
                        "%s: `%s` is compiled for %s, and this context runs %s", l->call, b.name,
                        bundle_target_names(p->arena, &b), machine_of(p->context));
  status = bundle_restore(p->arena, target, p->sink, &p->ir, &p->images);
  if (status) return drv_api_fail(l->err, status, p->sink, NULL);
  p->strict_nan = p->ir->strict_nan;
  ir_arena_guard(p->arena, NULL);
  return SPC_OK;
}

static spc_status program_load(const loading *l, spc_context *context, spc_program **out) {
  spc_program *p = calloc(1, sizeof *p);
  if (!p || !(p->arena = ir_arena_new())) {
    free(p);
    return drv_api_fail(l->err, SPC_OUT_OF_MEMORY, NULL, "no memory for a program");
  }
  p->context = context;
  spc_status status = load(l, p);
  if (!status) {
    *out = p;
    return SPC_OK;
  }
  spc_program_free(p); /* with code that was linked where no memory ended it midway */
  return status;
}

spc_status drv_program_load(spc_context *context, const char *path, const void *data, size_t bytes,
                            spc_program **out, spc_error *err) {
  loading l = {path, data, bytes, err};
  return program_load(&l, context, out);
}

spc_status spc_program_from_bundle(spc_context *context, const void *data, size_t bytes,
                                   spc_program **program, spc_error *err) {
  if (program) *program = NULL;
  if (!context || !data || !program)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_program_from_bundle: `%s` is NULL",
                        !context ? "context"
                        : !data  ? "bundle"
                                 : "program");
  return drv_program_load(context, "spc_program_from_bundle", data, bytes, program, err);
}
