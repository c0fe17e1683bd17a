/* codegen_cpu_run.c - what the CPU back end's tests share. */
#include <criterion/criterion.h>
#include <math.h>

#include "codegen_cpu_run.h"

cpu_case cpu_case_new(void) {
  cpu_case c = {.arena = ir_arena_new()};
  c.sink = ir_sink_new(c.arena);
  c.program = ir_program_new(c.arena);
  c.kernel = ir_kernel_new(c.program, "k");
  c.stage = IR_NEW(c.arena, ir_stage);
  c.stage->name = "s";
  c.stage->row = "loop";
  IR_PUSH(c.arena, &c.kernel->stages, c.stage);
  c.func = ir_func_new(c.kernel, "k.s");
  IR_PUSH(c.arena, &c.stage->funcs, c.func);
  return c;
}

/* The function lives in an arena of its own, so its body's address is stable: a builder on demand.
 */
static void start(cpu_case *c) {
  if (!c->build.func) c->build = (ir_builder){c->arena, c->func, &c->func->body};
}

ir_buf *cpu_case_buf(cpu_case *c, const char *name, ir_dtype t) {
  start(c);
  ir_buf *buf = ir_buf_new(c->arena, name, IR_BUF_WORKSPACE, t);
  ir_func_use(c->func, buf);
  return buf;
}

ir_dim *cpu_case_dim(cpu_case *c, const char *name) {
  ir_dim *dim = ir_dim_new(c->program, name);
  dim->value = -1;
  return dim;
}

void cpu_case_compile(cpu_case *c, const char *mcpu) {
  cg_options options = {.target = ir_target_find("cpu"), .mcpu = mcpu};
  spc_status status = cg_cpu_compile(c->arena, c->kernel, &options, c->sink, &c->image);
  const char *why = c->sink->diags.count ? c->sink->diags.at[0]->text : "";
  cr_assert_eq(status, SPC_OK, "%s", why);
}

void cpu_case_call(cpu_case *c, void *const *buffers, const int64_t *sizes, int64_t begin,
                   int64_t end) {
  c->image->codes.at[0].cpu(buffers, sizes, begin, end);
}

void cpu_case_free(cpu_case *c) {
  if (c->image) c->image->release(c->image->owner);
  ir_arena_free(c->arena);
}

const char *cpu_case_text(cpu_case *c, const char *kind, const char *mcpu) {
  cg_options options = {.target = ir_target_find("cpu"), .mcpu = mcpu};
  ir_text text = ir_text_new(c->arena);
  cr_assert_eq(cg_cpu_text(c->arena, c->kernel, NULL, kind, &options, c->sink, &text), SPC_OK);
  return text.data;
}

ir_expr *cpu_case_load(cpu_case *c, ir_buf *buf, ir_expr *at, int lanes) {
  ir_expr *e = ir_load(c->arena, buf, at);
  e->lanes = lanes;
  return e;
}

ir_expr *cpu_case_cast(cpu_case *c, ir_dtype t, ir_expr *e) {
  ir_expr *cast = ir_cast(c->arena, t, e);
  cast->lanes = e->lanes;
  return cast;
}

double cpu_ulps(float got, double want) {
  if (isnan(got) && isnan(want)) return 0;
  if ((double)got == want || (double)got == (double)(float)want) return 0;
  if (isinf(got) || isinf((float)want) || isnan(got) || isnan(want)) return INFINITY;
  double place = ldexp(1, ilogb(want) < -126 ? -149 : ilogb(want) - 23);
  if (fabs(want) < 1e-37 && fabs((double)got - want) < 1e-42) return 1; /* denormals */
  return fabs((double)got - want) / place;
}
