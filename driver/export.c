/* export.c - `spc export`: kernels compiled ahead of time, for several targets, into a bundle or C.
 */
#include "driver/bundle.h"

typedef struct exporting {
  drv_session *s;
  const char *path;
  bundle made;
  ir_program *last; /* for the header: names, shapes and fixed sizes are those of every target */
} exporting;

/* ---- one target ------------------------------------------------------------------------------ */
/* Code for the CPU is made for a level, so that it is known where it runs. */
static const char *level_of(drv_session *s) {
  const char *mcpu = s->options.mcpu;
  if (mcpu && !bundle_is_level(mcpu)) {
    drv_usage_error(s,
                    "export makes CPU code for a level: --mcpu=x86-64-v2, x86-64-v3 or "
                    "x86-64-v4, not `%s`",
                    mcpu);
    return NULL;
  }
  for (int i = 0; !mcpu; i++)
    if (!cg_cpu_level(i) || cg_cpu_level_runs(cg_cpu_level(i)))
      return cg_cpu_level(i) ? cg_cpu_level(i) : "x86-64";
  return mcpu;
}

/* Warnings about the file were given with the first target. */
static spc_status load_again(exporting *e) {
  drv_session *s = e->s;
  ir_sink *sink = s->sink;
  if (e->made.targets.count) s->sink = ir_sink_new(s->arena);
  spc_status status = drv_load(s, e->path);
  s->sink = sink;
  return status;
}

static spc_status compile_kernels(exporting *e, const ir_target *target, bundle_target *out) {
  drv_session *s = e->s;
  for (int k = 0; k < s->program->kernels.count; k++) {
    ir_image *image = NULL;
    SPC_TRY(drv_codegen(s, s->program->kernels.at[k], target, false, &image));
    bundle_take(s->arena, s->program->kernels.at[k], image, out);
    if (image->release) image->release(image->owner);
  }
  return SPC_OK;
}

/* What is written is what loads here: a bundle that this library would refuse is our fault. */
static spc_status check(exporting *e, const bundle_target *target) {
  drv_session *s = e->s;
  ir_program *program;
  ir_image **images = NULL;
  spc_status status = bundle_restore(s->arena, target, s->sink, &program, &images);
  for (int k = 0; !status && k < program->kernels.count; k++)
    if (images[k] && images[k]->release) images[k]->release(images[k]->owner);
  return status ? SPC_INTERNAL : SPC_OK;
}

static spc_status add_target(exporting *e, const char *name) {
  drv_session *s = e->s;
  bool cpu = !strcmp(name, "cpu"), level = cpu || bundle_is_level(name);
  bundle_target made = {.name = cpu ? level_of(s) : name};
  if (!made.name) return SPC_INVALID_ARGUMENT;
  for (int i = 0; i < e->made.targets.count; i++)
    if (!strcmp(e->made.targets.at[i].name, made.name)) return SPC_OK;
  SPC_TRY(load_again(e));
  s->options.target = level ? "cpu" : name;
  s->options.mcpu = level ? made.name : NULL;
  const ir_target *target = drv_target_of(s, DRV_CPU, NULL);
  if (!target) return SPC_INVALID_ARGUMENT;
  s->program->strict_nan |= s->options.strict_nan;
  if (target->kind != IR_TARGET_INTERP) {
    SPC_TRY(drv_run_passes_defined(s, target));
    SPC_TRY(compile_kernels(e, target, &made));
  }
  ir_text text = ir_text_new(s->arena);
  ir_print(s->program, &text);
  made.text = text.data;
  made.length = text.length;
  SPC_TRY(check(e, &made));
  IR_PUSH(s->arena, &e->made.targets, made);
  e->last = s->program;
  return SPC_OK;
}

/* The CPU, and the GPU that is here. */
static const char *usual_targets(drv_session *s) {
  rt_cuda *cuda = NULL;
  const char *why, *names = "cpu";
  if (rt_cuda_open(&cuda, &why) == SPC_OK && cg_nvrtc_found(rt_cache_face(s->cache)))
    names = cg_cpu_available() ? ir_format_text(s->arena, "cpu,%s", rt_cuda_arch(cuda))
                               : ir_strdup(s->arena, rt_cuda_arch(cuda));
  if (cuda) rt_cuda_close(cuda);
  return names;
}

static spc_status add_targets(exporting *e, const char *names, const char *mcpu) {
  while (*names) {
    size_t length = strcspn(names, ",");
    e->s->options.mcpu = mcpu;
    if (length) SPC_TRY(add_target(e, ir_strndup(e->s->arena, names, length)));
    names += length + (names[length] == ',');
  }
  if (e->made.targets.count) return SPC_OK;
  drv_usage_error(e->s, "--target wants names: --target=sm_90a,cpu");
  return SPC_INVALID_ARGUMENT;
}

/* ---- files ----------------------------------------------------------------------------------- */
static bool ends_in(const char *path, const char *ending) {
  size_t length = strlen(path), more = strlen(ending);
  return length > more && !strcmp(path + length - more, ending);
}

static spc_status write_c(exporting *e, const char *path, const ir_text *all) {
  drv_session *s = e->s;
  size_t stem = strlen(path) - (ends_in(path, ".c") || ends_in(path, ".h") ? 2 : 0);
  const char *name = bundle_c_name(s->arena, path);
  ir_text header = ir_text_new(s->arena), source = ir_text_new(s->arena);
  bundle_print_header(&e->made, e->last, name, &header);
  const char *base = path + stem;
  while (base > path && base[-1] != '/') base--;
  ir_text_printf(&source, "#include \"%.*s.h\"\n", (int)(path + stem - base), base);
  bundle_print_source(all->data, all->length, &e->made, name, &source);
  SPC_TRY(drv_write_file(s, ir_format_text(s->arena, "%.*s.h", (int)stem, path), header.data,
                         header.length));
  return drv_write_file(s, ir_format_text(s->arena, "%.*s.c", (int)stem, path), source.data,
                        source.length);
}

static void say(const exporting *e, const char *path, bool c, size_t bytes) {
  const char *stem = ends_in(path, ".c") || ends_in(path, ".h") ? "" : ".c and .h";
  int codes = 0;
  for (int i = 0; i < e->made.targets.count; i++) codes += e->made.targets.at[i].codes.count;
  printf("%s%s: %d kernel%s for %s, %d pieces of code, %.1f KiB\n", path, c ? stem : "",
         e->last->kernels.count, e->last->kernels.count == 1 ? "" : "s",
         bundle_target_names(e->s->arena, &e->made), codes, (double)bytes / 1024);
}

static spc_status write_files(exporting *e) {
  drv_session *s = e->s;
  const char *path = s->options.output;
  ir_text all = ir_text_new(s->arena);
  bundle_write(&e->made, &all);
  if (!path) path = bundle_c_name(s->arena, e->path);
  bool to_stdout = !strcmp(path, "-"), c = !to_stdout && !ends_in(path, ".spcb");
  SPC_TRY(c ? write_c(e, path, &all) : drv_write_file(s, path, all.data, all.length));
  if (!to_stdout) say(e, path, c, all.length);
  return SPC_OK;
}

int drv_export(drv_session *s) {
  if (s->arguments.items.count != 1 || !strcmp(s->arguments.items.at[0], "-"))
    return drv_usage_error(s, "export wants one file; see `spc help export`");
  exporting e = {.s = s, .path = s->arguments.items.at[0]};
  e.made.name = bundle_c_name(s->arena, e.path);
  e.made.version = SPC_VERSION;
  if (!s->options.packed) s->options.packed = "no"; /* engines pack where they say so */
  const char *targets = s->options.target ? s->options.target : usual_targets(s);
  spc_status status = add_targets(&e, targets, s->options.mcpu);
  if (!status) status = write_files(&e);
  return drv_finish(s, status);
}
