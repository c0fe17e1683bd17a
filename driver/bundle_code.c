/* bundle_code.c - a compiled kernel into a bundle, and back from it. */
#include "driver/bundle.h"

bool bundle_is_level(const char *target) {
  for (int i = 0; cg_cpu_level(i); i++)
    if (!strcmp(cg_cpu_level(i), target)) return true;
  return false;
}

static void digest_text(const char *text, uint8_t *digest) {
  rt_sha256 hash;
  rt_sha256_start(&hash);
  rt_sha256_add(&hash, text, strlen(text));
  rt_sha256_end(&hash, digest);
}

/* What the object of a stage relies on: its functions, buffers in their order and all. */
static const char *stage_text(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage) {
  ir_text text = ir_text_new(arena);
  ir_text_put(&text, "entry(buffers, sizes, begin, end)\n");
  for (int i = 0; i < kernel->program->dims.count; i++)
    ir_text_printf(&text, "dim %d %s\n", i, kernel->program->dims.at[i]->name);
  for (int i = 0; i < stage->funcs.count; i++) ir_print_func(kernel, stage->funcs.at[i], &text);
  return text.data;
}

/* ---- in -------------------------------------------------------------------------------------- */
/* The log gate may have taken another row than the passes chose. */
static void settle_rows(ir_kernel *kernel, const ir_image *image) {
  for (int i = 0; i < image->rejected.count; i++)
    for (int s = 0; s < kernel->stages.count; s++)
      if (kernel->stages.at[s] == image->rejected.at[i].stage)
        kernel->stages.at[s]->row = image->rejected.at[i].taken;
}

static void take_cubins(ir_arena *arena, ir_kernel *kernel, const ir_image *image,
                        bundle_target *out) {
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *from = &image->codes.at[i];
    if (from->library) continue;
    bundle_code code = {.kernel = kernel->name,
                        .name = cg_code_name(arena, image, i),
                        .data = from->cubin,
                        .bytes = from->cubin_bytes};
    digest_text(cg_launch_text(arena, from), code.digest);
    IR_PUSH(arena, &out->codes, code);
  }
}

void bundle_take(ir_arena *arena, ir_kernel *kernel, const ir_image *image, bundle_target *out) {
  settle_rows(kernel, image);
  if (image->cuda) {
    take_cubins(arena, kernel, image, out);
    return;
  }
  for (int i = 0; i < image->objects.count; i++) {
    const ir_object *from = &image->objects.at[i];
    bundle_code code = {.kernel = kernel->name,
                        .name = from->stage->name,
                        .data = from->data,
                        .bytes = from->bytes};
    digest_text(stage_text(arena, kernel, from->stage), code.digest);
    IR_PUSH(arena, &out->codes, code);
  }
}

/* ---- out ------------------------------------------------------------------------------------- */
typedef struct restoring {
  ir_arena *arena;
  const bundle_target *from;
  const ir_kernel *kernel;
  ir_sink *sink;
} restoring;

static spc_status disagree(const restoring *r, const char *name) {
  ir_diag_add(r->sink, IR_DIAG_BUNDLE, IR_NOWHERE,
              "the code of `%s` was made by an spc that calls it in another way than this one "
              "(%s): export it again",
              name, SPC_VERSION);
  return SPC_UNAVAILABLE;
}

static spc_status check_digest(const restoring *r, const char *name, const char *text) {
  uint8_t digest[RT_SHA256_BYTES];
  digest_text(text, digest);
  for (int i = 0; i < r->from->codes.count; i++) {
    const bundle_code *code = &r->from->codes.at[i];
    if (!strcmp(code->kernel, r->kernel->name) && !strcmp(code->name, name))
      return memcmp(code->digest, digest, sizeof digest) ? disagree(r, name) : SPC_OK;
  }
  return disagree(r, name);
}

static spc_status check_cubins(const restoring *r, const ir_image *image) {
  for (int i = 0; i < image->codes.count; i++)
    if (!image->codes.at[i].library)
      SPC_TRY(check_digest(r, cg_code_name(r->arena, image, i),
                           cg_launch_text(r->arena, &image->codes.at[i])));
  return SPC_OK;
}

static spc_status check_objects(const restoring *r) {
  for (int s = 0; s < r->kernel->stages.count; s++) {
    const ir_stage *stage = r->kernel->stages.at[s];
    if (stage->funcs.count)
      SPC_TRY(check_digest(r, stage->name, stage_text(r->arena, r->kernel, stage)));
  }
  return SPC_OK;
}

static spc_status restore_kernel(const restoring *r, const ir_target *target, ir_image **out) {
  IR_VEC(ir_piece) pieces = {0};
  for (int i = 0; i < r->from->codes.count; i++) {
    const bundle_code *code = &r->from->codes.at[i];
    if (strcmp(code->kernel, r->kernel->name)) continue;
    ir_piece piece = {code->name, code->data, code->bytes};
    IR_PUSH(r->arena, &pieces, piece);
  }
  if (target->kind == IR_TARGET_CPU) {
    SPC_TRY(check_objects(r)); /* before anything of it becomes executable */
    return cg_cpu_restore(r->arena, r->kernel, pieces.at, pieces.count, r->sink, out);
  }
  cg_options options = {.target = target};
  SPC_TRY(cg_cuda_restore(r->arena, r->kernel, &options, pieces.at, pieces.count, r->sink, out));
  return check_cubins(r, *out);
}

static void release_images(ir_image **images, int count) {
  for (int k = 0; k < count; k++)
    if (images[k] && images[k]->release) images[k]->release(images[k]->owner);
}

spc_status bundle_restore(ir_arena *arena, const bundle_target *from, ir_sink *sink,
                          ir_program **program, ir_image ***images) {
  const ir_target *target = ir_target_find(bundle_is_level(from->name) ? "cpu" : from->name);
  spc_status status = SPC_OK;
  *images = NULL;
  if (!target) return SPC_UNAVAILABLE;
  SPC_TRY(ir_parse(arena, "<bundle>", from->text, from->length, sink, program));
  int count = (*program)->kernels.count;
  *images = IR_NEW_ARRAY(arena, ir_image *, count + 1);
  for (int k = 0; k < count && target->kind != IR_TARGET_INTERP && !status; k++) {
    restoring r = {arena, from, (*program)->kernels.at[k], sink};
    status = restore_kernel(&r, target, &(*images)[k]);
  }
  if (!status) return SPC_OK;
  release_images(*images, count);
  *images = NULL;
  return status;
}
