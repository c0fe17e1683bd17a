/* check.c - `spc check`: runs the `test` blocks of files, one line a block, and compares. */
#include "driver/driver.h"
#include "ir/compare.h"

typedef struct check_run {
  drv_session *s; /* a session of its own for this file, test and sizes */
  const fe_test *test;
  ir_kernel *kernel;
  int64_t *sizes;
  ir_bindings inputs, got, want;
  drv_backend backend;
  rt_cuda *cuda;
} check_run;

static spc_status literal_view(check_run *run, const ir_tensor *tensor, const fe_source *source,
                               ir_view *out) {
  drv_session *s = run->s;
  int64_t dims[IR_MAX_RANK];
  tensor = ir_declared(tensor);
  if (source->literal_rank != tensor->rank) {
    ir_diag_add(s->sink, IR_DIAG_BINDING, source->span,
                "`%s` has rank %d, but the literal has rank %d", tensor->name, tensor->rank,
                source->literal_rank);
    return SPC_INVALID_INPUT;
  }
  for (int d = 0; d < tensor->rank; d++) dims[d] = source->literal_dim[d];
  ir_view dense;
  const char *why = "";
  ir_dtype dtype = tensor->dtype == IR_NONE ? IR_B1 : tensor->dtype;
  ir_view_dense(s->arena, dtype, tensor->rank, dims, &dense);
  for (int64_t i = 0; i < dense.vals.count; i++) {
    if (ir_dtype_is_float(dtype))
      ir_dtype_store(dtype, dense.vals.data, i, source->literal[i]);
    else
      ir_dtype_store_int(dtype, dense.vals.data, i, (int64_t)source->literal[i]);
  }
  if (tensor->dtype != IR_NONE && (!tensor->format || ir_format_is_row_major(tensor->format))) {
    *out = dense;
    return SPC_OK;
  }
  if (ir_view_convert(s->arena, &dense, tensor->format, IR_I32, out, &why)) {
    ir_diag_add(s->sink, IR_DIAG_PACK, source->span, "the literal for `%s`: %s", tensor->name, why);
    return SPC_INVALID_INPUT;
  }
  if (tensor->dtype == IR_NONE) ir_view_drop_values(out);
  return SPC_OK;
}

static spc_status source_view(check_run *run, const ir_tensor *tensor, const fe_source *source,
                              ir_view *out) {
  if (!source->generator) return literal_view(run, tensor, source, out);
  return drv_generate(run->s, tensor, source->generator, source->args, source->arg_count,
                      run->sizes, out);
}

/* Literals settle sizes first; generators follow. */
static spc_status bind_test(check_run *run) {
  for (int literals = 1; literals >= 0; literals--) {
    for (int i = 0; i < run->test->sets.count; i++) {
      const fe_set *set = &run->test->sets.at[i];
      if (set->is_size || (set->source.generator == NULL) != (literals == 1)) continue;
      ir_binding binding = {.tensor = ir_tensor_named(run->kernel, set->name)};
      if (!binding.tensor) continue;
      SPC_TRY(source_view(run, binding.tensor, &set->source, &binding.view));
      IR_PUSH(run->s->arena, &run->inputs.list, binding);
    }
    SPC_TRY(ir_solve_sizes(run->kernel, &run->inputs, run->sizes, run->s->sink));
  }
  for (int i = 0; i < run->kernel->tensors.count; i++) {
    const ir_tensor *tensor = run->kernel->tensors.at[i];
    bool bound = tensor->role != IR_ROLE_IN;
    for (int b = 0; b < run->inputs.list.count; b++)
      bound = bound || run->inputs.list.at[b].tensor == tensor;
    if (bound) continue;
    ir_diag_add(run->s->sink, IR_DIAG_BINDING, run->test->span,
                "the test gives `%s` no value: add `%s = rand(0);`", tensor->name, tensor->name);
    return SPC_INVALID_INPUT;
  }
  return SPC_OK;
}

static spc_status run_reference(check_run *run) {
  ir_interp_options options = {.strict_nan = run->s->options.strict_nan};
  for (int i = 0; i < run->inputs.list.count; i++)
    IR_PUSH(run->s->arena, &run->want.list, run->inputs.list.at[i]);
  return ir_interp_ein(run->s->arena, run->kernel, run->sizes, &run->want, &options, run->s->sink);
}

static spc_status run_backend(check_run *run) {
  drv_session *s = run->s;
  if (run->backend == DRV_INTERP) {
    run->got = run->want;
    return SPC_OK;
  }
  const ir_target *target = drv_target_of(s, run->backend, run->cuda);
  ir_program *kept = s->program;
  if (!target) return SPC_INVALID_ARGUMENT;
  s->program = ir_clone(s->arena, kept);
  ir_kernel *kernel = ir_kernel_named(s->program, run->kernel->name);
  ir_image *image = NULL;
  rt_plan *plan = NULL;
  SPC_TRY(drv_run_passes(s, target, run->sizes));
  SPC_TRY(drv_codegen(s, kernel, target, false, &image));
  for (int i = 0; i < run->inputs.list.count; i++) {
    ir_binding binding = run->inputs.list.at[i];
    binding.tensor = ir_tensor_named(kernel, binding.tensor->name);
    IR_PUSH(s->arena, &run->got.list, binding);
  }
  rt_plan_options options = drv_plan_options(s, run->backend, run->cuda);
  spc_status status = rt_plan_new(image, run->sizes, &options, s->sink, &plan);
  if (!status) status = rt_plan_run(plan, s->arena, &run->got, NULL, s->sink);
  rt_plan_free(plan);
  rt_pool_free(options.pool);
  if (image->release) image->release(image->owner);
  s->program = kept;
  return status;
}

static const ir_view *view_named(const ir_bindings *bindings, const char *name) {
  for (int i = bindings->list.count; i-- > 0;)
    if (!strcmp(bindings->list.at[i].tensor->name, name)) return &bindings->list.at[i].view;
  return NULL;
}

static spc_status compare_one(check_run *run, const fe_expect *expect) {
  drv_session *s = run->s;
  const ir_view *got = view_named(&run->got, expect->name),
                *want = view_named(&run->want, expect->name);
  ir_tensor *tensor = ir_tensor_named(run->kernel, expect->name);
  ir_view literal;
  if (!got) { /* a `let` that the back end fused away: only outputs can be compared there */
    if (run->backend != DRV_INTERP) return SPC_OK;
    return SPC_INTERNAL;
  }
  if (!expect->against_ref) {
    SPC_TRY(source_view(run, tensor, &expect->source, &literal));
    want = &literal;
  }
  ir_compare_result result = {0};
  double rtol = expect->rtol > 0 ? expect->rtol : 0;
  spc_status status = tensor && tensor->by_value ? ir_compare_values(got, want, rtol, 0, &result)
                                                 : ir_compare(got, want, rtol, 0, &result);
  if (status == SPC_MISMATCH) {
    ir_diag_add(s->sink, IR_DIAG_TEST_FAILED, expect->span, "`%s` differs: %s", expect->name,
                ir_compare_text(s->arena, &result));
  }
  return status;
}

static spc_status run_test(check_run *run) {
  drv_session *s = run->s;
  run->kernel = ir_kernel_named(s->program, run->test->kernel);
  if (!run->kernel) return SPC_INTERNAL;
  s->options.kernel = run->kernel->name;
  run->sizes = IR_NEW_ARRAY(s->arena, int64_t, s->program->dims.count + 1);
  for (int d = 0; d < s->program->dims.count; d++) run->sizes[d] = s->program->dims.at[d]->value;
  for (int i = 0; i < run->test->sets.count; i++)
    for (int d = 0; run->test->sets.at[i].is_size && d < s->program->dims.count; d++)
      if (!strcmp(s->program->dims.at[d]->name, run->test->sets.at[i].name))
        run->sizes[d] = run->test->sets.at[i].size;
  SPC_TRY(bind_test(run));
  SPC_TRY(ir_check_sizes(run->kernel, run->sizes, s->sink));
  if (s->options.check_inputs) SPC_TRY(drv_check_inputs(s, run->kernel, &run->inputs));
  SPC_TRY(run_reference(run));
  SPC_TRY(run_backend(run));
  spc_status worst = SPC_OK;
  for (int i = 0; i < run->test->expects.count; i++) {
    spc_status status = compare_one(run, &run->test->expects.at[i]);
    if (status) worst = status;
  }
  return worst;
}

/* The file again with the test's sizes in place of its fixed dims: the kernel is compiled for them.
 */
static spc_status program_for(drv_session *s, const fe_test *test) {
  fe_define *defines = IR_NEW_ARRAY(s->arena, fe_define, test->sets.count + 1);
  fe_options options = {.defines = defines};
  fe_file *file;
  for (int i = 0; i < test->sets.count; i++)
    if (test->sets.at[i].is_size)
      defines[options.define_count++] = (fe_define){test->sets.at[i].name, test->sets.at[i].size};
  int before = s->sink->diags.count;
  SPC_TRY(fe_parse(s->arena, s->path, s->text, s->length, s->sink, &file));
  spc_status status = fe_lower(s->arena, file, &options, s->sink, &s->program);
  if (!status) s->sink->diags.count = before; /* warnings were given at the first reading */
  return status;
}

static spc_status check_file(drv_session *s, const char *path, drv_backend backend, rt_cuda *cuda,
                             int *passed, int *failed) {
  SPC_TRY(drv_load(s, path));
  if (!s->file) {
    drv_usage_error(s, "check wants .spx files; `%s` is IR", path);
    return SPC_INVALID_ARGUMENT;
  }
  const char *only = s->options.kernel;
  spc_status worst = SPC_OK;
  for (int i = 0; i < fe_test_count(s->file); i++) {
    check_run run = {.s = s, .test = fe_test_at(s->file, i), .backend = backend, .cuda = cuda};
    if (only && strcmp(only, run.test->kernel)) continue;
    spc_status status = program_for(s, run.test);
    if (!status) status = run_test(&run);
    printf("%s  %s: test %d of %s\n", status ? "FAIL" : "ok  ", path, i + 1, run.test->kernel);
    drv_render(s);
    *(status ? failed : passed) += 1;
    if (status && worst != SPC_MISMATCH) worst = status;
    s->options.kernel = only;
  }
  return worst;
}

int drv_check(drv_session *s) {
  drv_backend backend = DRV_INTERP;
  rt_cuda *cuda = NULL;
  int passed = 0, failed = 0;
  if (!s->arguments.items.count)
    return drv_usage_error(s, "check wants files; see `spc help check`");
  spc_status worst = drv_pick_backend(s, &backend, &cuda);
  for (int i = 0; !worst && i < s->arguments.items.count; i++) {
    spc_status status = check_file(s, s->arguments.items.at[i], backend, cuda, &passed, &failed);
    if (status) worst = status;
  }
  if (passed + failed) printf("%d passed, %d failed\n", passed, failed);
  if (cuda) rt_cuda_close(cuda);
  return drv_finish(s, worst);
}
