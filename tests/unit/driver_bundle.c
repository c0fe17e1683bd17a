/* Bundles: what is written is read, and loads; what was cut, changed or made up is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "driver/bundle.h"

static const char *const scale =
    "spx 1; dim N: dyn; kernel k { in x: f32[N]; in a: f32[]; out y[i] = a * x[i]; }";

typedef struct made {
  ir_arena *arena;
  ir_text bytes;
} made;

/* A bundle of the program for the interpreter and, where LLVM is, for this machine. */
static made bundle_of(const char *text) {
  made m = {.arena = ir_arena_new()};
  bundle b = {.name = "k", .version = SPC_VERSION};
  const char *targets[] = {"interp", "x86-64"};
  for (int t = 0; t < 1 + cg_cpu_available(); t++) {
    drv_session s = {.arena = m.arena, .sink = ir_sink_new(m.arena), .command = 'p'};
    fe_options options = {0};
    bundle_target target = {.name = targets[t]};
    s.options.mcpu = t ? targets[t] : NULL;
    cr_assert_eq(
        fe_compile(m.arena, "k", text, strlen(text), &options, s.sink, &s.program), SPC_OK);
    if (t) {
      const ir_target *cpu = drv_target_of(&s, DRV_CPU, NULL);
      ir_image *image;
      cr_assert_eq(drv_run_passes(&s, cpu, NULL), SPC_OK);
      cr_assert_eq(drv_codegen(&s, s.program->kernels.at[0], cpu, false, &image), SPC_OK);
      bundle_take(m.arena, s.program->kernels.at[0], image, &target);
      cr_expect_gt(target.codes.count, 0);
      image->release(image->owner);
    }
    ir_text ir = ir_text_new(m.arena);
    ir_print(s.program, &ir);
    target.text = ir.data;
    target.length = ir.length;
    IR_PUSH(m.arena, &b.targets, target);
  }
  m.bytes = ir_text_new(m.arena);
  bundle_write(&b, &m.bytes);
  return m;
}

static spc_context *context_of(const char *backend) {
  spc_context *context = NULL;
  spc_error err = SPC_ERROR_INIT;
  spc_context_options options = {.struct_size = sizeof options, .backend = backend, .load_only = 1};
  cr_assert_eq(spc_context_new(&options, &context, &err), SPC_OK, "%s", err.message);
  return context;
}

/* The status, after a run when it loads. */
static spc_status load(spc_context *context, const void *data, size_t bytes, spc_error *err) {
  spc_program *program = NULL;
  spc_status status = spc_program_from_bundle(context, data, bytes, &program, err);
  cr_expect_eq(!program, status != SPC_OK);
  spc_program_free(program);
  return status;
}

static spc_tensor vector(const char *name, float *values, int64_t count, int rank) {
  return (spc_tensor){.struct_size = sizeof(spc_tensor),
                      .name = name,
                      .dtype = "f32",
                      .rank = rank,
                      .shape = {count},
                      .values = values,
                      .value_count = count};
}

Test(driver_bundle, what_is_written_loads_and_runs) {
  made m = bundle_of(scale);
  const char *backends[] = {"interp", "cpu"};
  for (int b = 0; b < 1 + cg_cpu_available(); b++) {
    spc_context *context = context_of(backends[b]);
    spc_program *program = NULL;
    spc_plan *plan = NULL;
    spc_error err = SPC_ERROR_INIT;
    float x[5] = {1, 2, 3, 4, 5}, y[5] = {0}, a = 3;
    spc_tensor t[3] = {vector("x", x, 5, 1),
                       vector("a", &a, 1, 0),
                       vector("y", y, 5, 1)};
    cr_assert_eq(spc_program_from_bundle(context, m.bytes.data, m.bytes.length, &program, &err),
                 SPC_OK, "%s %s", err.message, err.diagnostics);
    cr_assert_eq(spc_plan_new(program, "k", NULL, 0, &plan, &err), SPC_OK);
    cr_assert_eq(spc_run(plan, t, 3, &err), SPC_OK, "%s", err.message);
    for (int i = 0; i < 5; i++) cr_expect_eq(y[i], 3 * x[i]);
    spc_plan_free(plan);
    spc_program_free(program);
    spc_context_free(context);
  }
  ir_arena_free(m.arena);
}

Test(driver_bundle, misuse_and_damage_are_refused) {
  made m = bundle_of(scale);
  spc_context *context = context_of(cg_cpu_available() ? "cpu" : "interp");
  spc_program *program = NULL;
  spc_error err = SPC_ERROR_INIT;
  size_t bytes = m.bytes.length;
  cr_expect_eq(spc_program_from_bundle(NULL, m.bytes.data, bytes, &program, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "`context`"));
  cr_expect_eq(spc_program_from_bundle(context, NULL, bytes, &program, &err), SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "`bundle`"));
  cr_expect_eq(spc_program_from_bundle(context, m.bytes.data, bytes, NULL, &err),
               SPC_INVALID_ARGUMENT);
  cr_expect(strstr(err.message, "`program`"));
  cr_expect_eq(load(context, "spx 1;", 6, &err), SPC_IO);
  cr_expect(strstr(err.message, "no bundle"));
  for (size_t cut = 0; cut < bytes; cut += 1 + bytes / 200) {
    char *part = malloc(cut + 1); /* so that a sanitizer sees a read behind it */
    memcpy(part, m.bytes.data, cut);
    cr_expect_eq(load(context, part, cut, &err), SPC_IO, "cut to %zu", cut);
    free(part);
  }
  for (size_t at = 0; at < bytes; at += 1 + bytes / 200) {
    m.bytes.data[at] ^= 4;
    spc_status status = load(context, m.bytes.data, bytes, &err);
    cr_expect(status == SPC_IO || (at < 16 && status == SPC_UNAVAILABLE), "changed at %zu", at);
    m.bytes.data[at] ^= 4;
  }
  cr_expect_eq(load(context, m.bytes.data, bytes, &err), SPC_OK);
  spc_context_free(context);
  ir_arena_free(m.arena);
}

/* The hash is right, the contents are not: 2000 of them. */
Test(driver_bundle, made_up_contents_load_or_are_refused) {
  made m = bundle_of(scale);
  spc_context *context = context_of(cg_cpu_available() ? "cpu" : "interp");
  const size_t head = 16 + RT_SHA256_BYTES;
  unsigned seed = 5;
  int refused = 0;
  for (int n = 0; n < 2000; n++) {
    char *copy = malloc(m.bytes.length);
    memcpy(copy, m.bytes.data, m.bytes.length);
    for (int k = 0; k <= n % 3; k++) {
      seed = seed * 1664525 + 1013904223;
      size_t at = head + 8 + (seed >> 3) % (m.bytes.length - head - 8);
      copy[at] = (char)(n % 5 ? seed >> 24 : 0xff);
    }
    rt_sha256 hash;
    rt_sha256_start(&hash);
    rt_sha256_add(&hash, copy + head, m.bytes.length - head);
    rt_sha256_end(&hash, (uint8_t *)copy + 16);
    refused += load(context, copy, m.bytes.length, NULL) != SPC_OK;
    free(copy);
  }
  cr_expect(refused > 200 && refused < 2000, "%d", refused);
  spc_context_free(context);
  ir_arena_free(m.arena);
}
