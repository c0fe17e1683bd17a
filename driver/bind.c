/* bind.c - `--bind NAME=SOURCE`: files and generators to tensors in the declared dtype and format.
 *
 * Files first, since they settle sizes; then generators, whose sizes follow from files and -D. */
#include <errno.h>
#include <stdlib.h>

#include "driver/driver.h"
#include "runtime/files.h"

typedef struct source {
  ir_tensor *tensor;
  const char *text;
  const char *generator; /* NULL: a file */
  double args[4];
  int arg_count;
} source;

static const char *const generators[] = {"rand", "randint", "sparse", "offsets",
                                         "iota", "eye",     "zeros"};

static const char *generator_of(const char *text) {
  size_t length = strcspn(text, ":");
  for (int i = 0; i < IR_COUNT(generators); i++)
    if (strlen(generators[i]) == length && !strncmp(generators[i], text, length))
      return generators[i];
  return NULL;
}

static spc_status bad_source(drv_session *s, const source *src, const char *form) {
  drv_usage_error(s, "--bind %s=%s: a %s source is written %s", src->tensor->name, src->text,
                  src->generator, form);
  return SPC_INVALID_ARGUMENT;
}

static const char *form_of(const char *generator) {
  if (!strcmp(generator, "zeros")) return "zeros:DENSITY:RxC:SEED";
  if (!strcmp(generator, "sparse")) return "sparse:SEED:DENSITY";
  if (!strcmp(generator, "randint")) return "randint:SEED:LO:HI";
  if (!strcmp(generator, "iota") || !strcmp(generator, "eye")) return "iota or eye";
  return "rand:SEED or offsets:SEED";
}

static int wanted_args(const char *generator) {
  if (!strcmp(generator, "zeros")) return 4;
  if (!strcmp(generator, "randint")) return 3;
  if (!strcmp(generator, "sparse")) return 2;
  return !strcmp(generator, "iota") || !strcmp(generator, "eye") ? 0 : 1;
}

/* `:`-separated numbers; RxC counts as two. */
static spc_status parse_args(drv_session *s, source *src) {
  const char *at = src->text + strlen(src->generator);
  while (*at) {
    char *end;
    double value = strtod(at + 1, &end);
    if (end == at + 1 || src->arg_count == 4) return bad_source(s, src, form_of(src->generator));
    src->args[src->arg_count++] = value;
    if (*end && *end != ':' && *end != 'x') return bad_source(s, src, form_of(src->generator));
    at = end;
  }
  if (src->arg_count != wanted_args(src->generator))
    return bad_source(s, src, form_of(src->generator));
  bool seed_last = !strcmp(src->generator, "zeros");
  if (src->arg_count) src->args[seed_last ? 3 : 0] += (double)s->options.seed;
  return SPC_OK;
}

static spc_status unknown_input(drv_session *s, const ir_kernel *kernel, const char *name) {
  const char *known[64];
  int count = 0;
  for (int i = 0; i < kernel->tensors.count && count < 64; i++)
    if (kernel->tensors.at[i]->role == IR_ROLE_IN) known[count++] = kernel->tensors.at[i]->name;
  const char *near = ir_nearest(name, known, count);
  drv_usage_error(s, "kernel `%s` has no input `%s`%s%s%s", kernel->name, name,
                  near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
  return SPC_INVALID_ARGUMENT;
}

static spc_status parse_source(drv_session *s, const ir_kernel *kernel, const char *text,
                               source *out) {
  const char *name, *value;
  if (!drv_split(s, text, &name, &value) || !*value) {
    drv_usage_error(s, "--bind wants NAME=SOURCE, not `%s`", text);
    return SPC_INVALID_ARGUMENT;
  }
  ir_tensor *tensor = ir_tensor_named(kernel, name);
  if (!tensor || tensor->role != IR_ROLE_IN) return unknown_input(s, kernel, name);
  *out = (source){.tensor = tensor, .text = value, .generator = generator_of(value)};
  return out->generator ? parse_args(s, out) : SPC_OK;
}

static source *source_of(source *sources, int count, const ir_tensor *tensor) {
  for (int i = count; i-- > 0;)
    if (sources[i].tensor == tensor) return &sources[i];
  return NULL;
}

static spc_status check_bound_once(drv_session *s, const source *sources, int count) {
  for (int i = 0; i < count; i++)
    for (int k = 0; k < i; k++)
      if (sources[i].tensor == sources[k].tensor) {
        drv_usage_error(s, "`%s` is bound twice: to `%s` and to `%s`", sources[i].tensor->name,
                        sources[k].text, sources[i].text);
        return SPC_INVALID_ARGUMENT;
      }
  return SPC_OK;
}

static spc_status check_all_bound(drv_session *s, const ir_kernel *kernel, source *sources,
                                  int count) {
  ir_text missing = ir_text_new(s->arena);
  int holes = 0;
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *t = kernel->tensors.at[i];
    if (t->role == IR_ROLE_IN && !source_of(sources, count, t))
      ir_text_printf(&missing, "%s`%s`", holes++ ? ", " : "", t->name);
  }
  if (!holes) return SPC_OK;
  drv_usage_error(s, "kernel `%s`: nothing is bound to %s; give --bind NAME=FILE or NAME=rand:SEED",
                  kernel->name, missing.data);
  return SPC_INVALID_ARGUMENT;
}

/* As the file has them, where nothing else was asked for and no loops read them already. */
static ir_dtype wanted_index(const drv_session *s, const ir_kernel *kernel,
                             const ir_tensor *tensor) {
  bool open = !s->options.positions || !strcmp(s->options.positions, "auto");
  return open && !kernel->funcs.count ? IR_NONE : ir_index_dtype(kernel, tensor);
}

static spc_status read_source(drv_session *s, const ir_kernel *kernel, const source *src,
                              ir_view *view) {
  rt_wanted wanted = {.name = src->tensor->name,
                      .dtype = src->tensor->dtype,
                      .rank = ir_declared(src->tensor)->rank,
                      .format = ir_declared(src->tensor)->format,
                      .index_dtype = wanted_index(s, kernel, src->tensor)};
  return rt_file_read(s->arena, src->text, &wanted, s->sink, view);
}

/* The size of the ragged axis that `offsets` bounds: the last value of the array. */
static int64_t ragged_limit(const ir_kernel *kernel, const ir_tensor *offsets,
                            const int64_t *sizes) {
  int64_t limit = 0;
  for (int i = 0; i < kernel->indices.count; i++)
    if (kernel->indices.at[i]->offsets == offsets)
      (void)ir_size_value(kernel->indices.at[i]->extent, sizes, &limit);
  return limit;
}

static spc_status unknown_size(drv_session *s, const ir_tensor *tensor, int axis) {
  ir_text size = ir_text_new(s->arena);
  ir_print_expr(tensor->dim[axis], &size);
  ir_diag_add(
      s->sink, IR_DIAG_SIZE_UNKNOWN, tensor->span,
      "the size `%s` of `%s` (axis %d) is not known: give it with -D, or bind a file that has it",
      size.data, tensor->name, axis);
  return SPC_INVALID_INPUT;
}

spc_status drv_generate(drv_session *s, const ir_tensor *tensor, const char *kind,
                        const double *args, int count, const int64_t *sizes, ir_view *out) {
  int64_t dims[IR_MAX_RANK], elements = 1;
  const ir_tensor *whole = tensor;
  tensor = ir_declared(tensor);
  for (int d = 0; d < tensor->rank; d++) {
    if (!ir_size_value(tensor->dim[d], sizes, &dims[d])) return unknown_size(s, tensor, d);
    if (dims[d] < 0 || (dims[d] && elements > ((int64_t)1 << 34) / dims[d])) {
      ir_diag_add(s->sink, IR_DIAG_BUFFER_SIZE, tensor->span,
                  "`%s` is too large to be generated element by element; bind a file",
                  tensor->name);
      return SPC_INVALID_INPUT;
    }
    elements *= dims[d];
  }
  ir_view dense;
  ir_dtype dtype = tensor->dtype == IR_NONE ? IR_B1 : tensor->dtype;
  ir_view_dense(s->arena, dtype, tensor->rank, dims, &dense);
  ir_kernel *kernel = s->options.kernel ? ir_kernel_named(s->program, s->options.kernel)
                                        : s->program->kernels.at[0];
  int64_t limit = ragged_limit(kernel, whole, sizes);
  if (ir_generate(s->arena, kind, args, count, limit, &dense)) {
    const char *wants = ir_generator_wants(kind);
    drv_usage_error(s, "`%s` cannot make data for `%s`%s%s", kind, tensor->name, wants ? "; it is " : "", wants ? wants : "");
    return SPC_INVALID_ARGUMENT;
  }
  const char *why = "";
  if (tensor->dtype != IR_NONE && ir_format_is_row_major(tensor->format)) {
    *out = dense;
    return SPC_OK;
  }
  if (ir_view_convert(s->arena, &dense, tensor->format, ir_index_dtype(kernel, tensor), out,
                      &why)) {
    ir_diag_add(s->sink, IR_DIAG_PACK, tensor->span, "generated data for `%s`: %s", tensor->name,
                why);
    return SPC_INVALID_INPUT;
  }
  if (tensor->dtype == IR_NONE) ir_view_drop_values(out);
  return SPC_OK;
}

static spc_status bind(drv_session *s, const ir_kernel *kernel, bool all, int64_t *sizes,
                       ir_bindings *out) {
  int count = s->options.binds.items.count;
  source *sources = IR_NEW_ARRAY(s->arena, source, count + 1);
  for (int i = 0; i < count; i++)
    SPC_TRY(parse_source(s, kernel, s->options.binds.items.at[i], &sources[i]));
  SPC_TRY(check_bound_once(s, sources, count));
  if (all) SPC_TRY(check_all_bound(s, kernel, sources, count));
  for (int files = 1; files >= 0; files--) {
    for (int i = 0; i < kernel->tensors.count; i++) {
      ir_tensor *tensor = kernel->tensors.at[i];
      source *src = tensor->role == IR_ROLE_IN ? source_of(sources, count, tensor) : NULL;
      if (!src || (src->generator == NULL) != (files == 1)) continue;
      ir_binding binding = {.tensor = tensor};
      SPC_TRY(files ? read_source(s, kernel, src, &binding.view)
                    : drv_generate(s, tensor, src->generator, src->args, src->arg_count, sizes,
                                   &binding.view));
      IR_PUSH(s->arena, &out->list, binding);
    }
    SPC_TRY(ir_solve_sizes(kernel, out, sizes, s->sink));
  }
  return SPC_OK;
}

spc_status drv_bind_inputs(drv_session *s, const ir_kernel *kernel, int64_t *sizes,
                           ir_bindings *out) {
  return bind(s, kernel, true, sizes, out);
}

spc_status drv_bind_given(drv_session *s, const ir_kernel *kernel, int64_t *sizes,
                          ir_bindings *out) {
  return bind(s, kernel, false, sizes, out);
}

spc_status drv_view_of(drv_session *s, const ir_kernel *kernel, const char *text,
                       const int64_t *sizes, ir_tensor **tensor, ir_view *view) {
  const char *name, *value;
  *tensor = drv_split(s, text, &name, &value) ? ir_tensor_named(kernel, name) : NULL;
  if (!*tensor) {
    drv_usage_error(s, "--bind %s: kernel `%s` has no tensor of that name", text, kernel->name);
    return SPC_INVALID_ARGUMENT;
  }
  ir_tensor plain = *ir_declared(*tensor);
  source src = {.tensor = &plain, .text = value, .generator = generator_of(value)};
  const char *why;
  if (plain.role != IR_ROLE_IN)
    plain.format = ir_format_builtin(s->arena, "dense", plain.rank, NULL, 0, &why);
  if (!src.generator) return read_source(s, kernel, &src, view);
  SPC_TRY(parse_args(s, &src));
  return drv_generate(s, &plain, src.generator, src.args, src.arg_count, sizes, view);
}

/* ---- --check-inputs -------------------------------------------------------------------------- */
typedef struct gather_check {
  drv_session *s;
  const ir_bindings *bindings;
  const int64_t *sizes;
  spc_status status;
} gather_check;

static const ir_view *view_of(const ir_bindings *bindings, const ir_tensor *tensor) {
  for (int i = 0; i < bindings->list.count; i++)
    if (bindings->list.at[i].tensor == tensor) return &bindings->list.at[i].view;
  return NULL;
}

static const ir_expr *strip_cast(const ir_expr *e) {
  while (e->kind == IR_CAST) e = e->args[0];
  return e;
}

/* x[perm[r], ..]: every value of perm must be a place of that axis. */
static bool check_gather(void *user, ir_expr *e) {
  gather_check *check = user;
  if (e->kind != IR_ACCESS) return true;
  for (int a = 0; a < e->arg_count; a++) {
    const ir_expr *sub = strip_cast(e->args[a]);
    const ir_view *view = sub->kind == IR_ACCESS ? view_of(check->bindings, sub->tensor) : NULL;
    int64_t extent;
    if (!view || !ir_size_value(e->tensor->dim[a], check->sizes, &extent)) continue;
    for (int64_t i = 0; i < view->vals.count; i++) {
      int64_t value = ir_dtype_load_int(view->dtype, view->vals.data, i);
      if (value >= 0 && value < extent) continue;
      ir_diag_add(check->s->sink, IR_DIAG_SUBSCRIPT_RANGE, sub->span,
                  "`%s` holds %lld at element %lld, but axis %d of `%s` has the size %lld",
                  sub->tensor->name, (long long)value, (long long)i, a, e->tensor->name,
                  (long long)extent);
      check->status = SPC_INVALID_INPUT;
      break;
    }
  }
  return true;
}

static spc_status check_offsets(drv_session *s, const ir_index *index, const ir_bindings *bindings,
                                const int64_t *sizes) {
  const ir_view *view = view_of(bindings, index->offsets);
  int64_t extent, last = 0;
  if (!view || !ir_size_value(index->extent, sizes, &extent)) return SPC_OK;
  for (int64_t i = 0; i < view->vals.count; i++) {
    int64_t value = ir_dtype_load_int(view->dtype, view->vals.data, i);
    if (value < last || value > extent) {
      ir_diag_add(s->sink, IR_DIAG_OFFSETS, index->offsets->span,
                  "`%s` must be monotone and within 0..%lld: element %lld is %lld after %lld",
                  index->offsets->name, (long long)extent, (long long)i, (long long)value,
                  (long long)last);
      return SPC_INVALID_INPUT;
    }
    last = value;
  }
  return SPC_OK;
}

static spc_status check_formats(drv_session *s, const ir_bindings *bindings) {
  for (int i = 0; i < bindings->list.count; i++) {
    const ir_binding *b = &bindings->list.at[i];
    const char *why = "";
    if (ir_view_check(s->arena, &b->view, &why)) {
      ir_diag_add(s->sink, IR_DIAG_STORAGE, b->tensor->span,
                  "the arrays of `%s` break its format: %s", b->tensor->name, why);
      return SPC_INVALID_INPUT;
    }
  }
  return SPC_OK;
}

spc_status drv_check_inputs(drv_session *s, const ir_kernel *kernel, const ir_bindings *bindings) {
  int64_t *sizes = IR_NEW_ARRAY(s->arena, int64_t, s->program->dims.count + 1);
  ir_bindings copy = *bindings;
  SPC_TRY(check_formats(s, bindings));
  SPC_TRY(drv_sizes_from_defines(s, sizes));
  SPC_TRY(ir_solve_sizes(kernel, &copy, sizes, s->sink));
  for (int i = 0; i < kernel->indices.count; i++)
    if (kernel->indices.at[i]->offsets)
      SPC_TRY(check_offsets(s, kernel->indices.at[i], bindings, sizes));
  gather_check check = {s, bindings, sizes, SPC_OK};
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stmt *stmt = kernel->stmts.at[i];
    ir_expr *target = ir_access(s->arena, stmt->target, stmt->subs);
    (void)ir_expr_walk(target, check_gather, &check);
    (void)ir_expr_walk(stmt->value, check_gather, &check);
  }
  return check.status;
}
