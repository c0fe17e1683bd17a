/* passes_lower_run.c - see passes_lower_run.h.  Data are small integers, halves for floats, so that
 * sums are exact in every dtype and any difference is a fault. */
#include <math.h>
#include <stdlib.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/target.h"
#include "passes_lower_run.h"
#include "runtime/plan.h"
#include "tests/loop_image.h"

/* ---- the program ----------------------------------------------------------------------------- */
static const char *filled_in(ir_arena *arena, const lower_case *c) {
  ir_text text = ir_text_new(arena);
  for (const char *p = c->text; *p; p++) {
    if (*p != '@') {
      ir_text_putn(&text, p, 1);
      continue;
    }
    p++;
    if (*p == 't')
      ir_text_put(&text, c->dtype ? c->dtype : "f32");
    else
      ir_text_put(&text, c->format[*p - 'A'] ? c->format[*p - 'A'] : "dense");
  }
  return text.data;
}

static const char *complaint(ir_arena *arena, ir_sink *sink, const char *what) {
  ir_text text = ir_text_new(arena);
  ir_text_printf(&text, "%s: ", what);
  ir_sink_render(sink, &text, false);
  return text.data;
}

static ir_program *compiled(ir_arena *arena, const lower_case *c, ir_sink *sink) {
  const char *text = filled_in(arena, c);
  ir_program *program = NULL;
  fe_options options = {0};
  if (fe_compile(arena, "case.spx", text, strlen(text), &options, sink, &program)) return NULL;
  return program;
}

void lower_stages_plainly(ir_kernel *kernel) {
  ir_arena *arena = kernel->program->arena;
  for (int i = 0; i < kernel->stmts.count; i++) {
    ir_stage *stage = IR_NEW(arena, ir_stage);
    stage->number = i;
    stage->name = kernel->stmts.at[i]->target->name;
    stage->row = "loop";
    IR_PUSH(arena, &stage->stmts, kernel->stmts.at[i]);
    IR_PUSH(arena, &kernel->stages, stage);
  }
}

static spc_status lowered(ir_arena *arena, const lower_case *c, ir_program *program,
                          ir_sink *sink) {
  pass_options options = {.target = ir_target_find("cpu")};
  if (c->pipeline || c->cpu) {
    options.stop_after = c->cpu ? NULL : "lower";
    options.force_guard = c->guard;
    return pass_pipeline(program, &options, sink);
  }
  pass_context context = {.program = program, .arena = arena, .sink = sink, .options = &options};
  lower_stages_plainly(program->kernels.at[0]);
  return pass_lower(&context, program->kernels.at[0]);
}

/* ---- running --------------------------------------------------------------------------------- */
static spc_status machine_code(ir_arena *arena, const ir_kernel *kernel, ir_sink *sink,
                               ir_image **image) {
  cg_options options = {.target = ir_target_find("cpu")};
  return cg_cpu_compile(arena, kernel, &options, sink, image);
}

static spc_status run_image(ir_arena *arena, ir_image *image, const int64_t *sizes,
                            ir_bindings *bindings, int guard, ir_sink *sink) {
  rt_plan *plan;
  rt_plan_options options = {.force_guard = guard};
  SPC_TRY(rt_plan_new(image, sizes, &options, sink, &plan));
  spc_status status = rt_plan_run(plan, arena, bindings, NULL, sink);
  rt_plan_free(plan);
  return status;
}

spc_status lower_run(ir_arena *arena, const ir_kernel *kernel, const int64_t *sizes,
                     ir_bindings *bindings, int guard, ir_sink *sink) {
  return run_image(arena, loop_image(arena, kernel), sizes, bindings, guard, sink);
}

static spc_status run_case(ir_arena *arena, const lower_case *c, const ir_kernel *kernel,
                           const int64_t *sizes, ir_bindings *bindings, ir_sink *sink) {
  if (!c->cpu) return lower_run(arena, kernel, sizes, bindings, c->guard, sink);
  ir_image *image;
  SPC_TRY(machine_code(arena, kernel, sink, &image));
  spc_status status = run_image(arena, image, sizes, bindings, c->guard, sink);
  if (image->release) image->release(image->owner);
  return status;
}

/* ---- data ------------------------------------------------------------------------------------ */
typedef struct dice {
  uint64_t state;
} dice;
static unsigned roll(dice *d, unsigned sides) {
  d->state = d->state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(d->state >> 33) % sides;
}

static double a_value(dice *d, ir_dtype t) {
  int n = (int)roll(d, 7) - 3;
  if (t == IR_B1) return 1;
  if (!ir_dtype_is_float(t))
    return ir_dtype_rows[t].class_ == 'U' ? (int)roll(d, 3) + 1 : n ? n : 2;
  return n ? n * 0.5 : 1;
}

static bool is_kept(const lower_case *c, dice *d, const int64_t *at, bool sparse) {
  if (c->data == LOWER_ZERO) return false;
  if (c->data == LOWER_FULL || !sparse) return true;
  if (c->data == LOWER_HUB) return at[0] == 1 || roll(d, 8) == 0;
  return roll(d, 3) == 0;
}

static void add_entry(ir_arena *arena, ir_entries *entries, const int64_t *at, double value) {
  if (entries->count == entries->capacity) {
    int64_t more = entries->capacity ? entries->capacity * 2 : 64;
    int64_t *places = IR_NEW_ARRAY(arena, int64_t, more * (entries->rank + 1));
    double *values = IR_NEW_ARRAY(arena, double, more);
    int64_t *ints = IR_NEW_ARRAY(arena, int64_t, more);
    if (entries->count) {
      memcpy(places, entries->at, sizeof *places * (size_t)(entries->count * entries->rank));
      memcpy(values, entries->value, sizeof *values * (size_t)entries->count);
      memcpy(ints, entries->int_value, sizeof *ints * (size_t)entries->count);
    }
    entries->at = places, entries->value = values, entries->int_value = ints,
    entries->capacity = more;
  }
  if (entries->rank)
    memcpy(entries->at + entries->count * entries->rank, at, sizeof *at * (size_t)entries->rank);
  entries->value[entries->count] = value;
  entries->int_value[entries->count++] = (int64_t)value;
}

/* n:m and packed formats hold so many of a group: the rest of the group is left out. */
static bool has_room(const ir_format *f, const int64_t *at, int64_t *group, int64_t *used) {
  for (int l = 0; l < f->level_count; l++) {
    const ir_level *level = &f->level[l];
    if (level->kind != IR_LEVEL_NM && level->kind != IR_LEVEL_PACKED) continue;
    int64_t here = at[level->dim] / (level->factor ? level->factor : INT64_MAX);
    for (int d = 0; d < f->rank; d++)
      if (d != level->dim) here = here * 1000 + at[d];
    if (here != *group) *group = here, *used = 0;
    return (*used)++ < level->parameter;
  }
  return true;
}

static void random_entries(ir_arena *arena, const lower_case *c, const ir_tensor *tensor,
                           const ir_format *format, const int64_t *dims, dice *d,
                           ir_entries *entries) {
  int64_t at[IR_MAX_RANK] = {0}, total = 1, group = -1, used = 0;
  bool sparse = false;
  for (int l = 0; l < format->level_count; l++)
    sparse = sparse || !ir_level_rows[format->level[l].kind].full;
  for (int i = 0; i < tensor->rank; i++) total *= dims[i];
  for (int64_t n = 0; n < total; n++) {
    int64_t rest = n;
    for (int i = tensor->rank - 1; i >= 0; i--) at[i] = rest % dims[i], rest /= dims[i];
    if (!is_kept(c, d, at, sparse || tensor->dtype == IR_NONE) ||
        !has_room(format, at, &group, &used))
      continue;
    bool zero = c->data == LOWER_EXPLICIT && roll(d, 3) == 0;
    if (!sparse && c->data != LOWER_FULL && roll(d, 3) == 0) zero = true;
    add_entry(arena, entries, at, zero ? 0 : a_value(d, tensor->dtype));
  }
}

static int64_t size_named(const ir_program *program, const int64_t *sizes, const char *name) {
  for (int i = 0; i < program->dims.count; i++)
    if (!strcmp(program->dims.at[i]->name, name)) return sizes[i];
  return 0;
}

/* Offsets (`off`): monotone from 0 to R with an empty segment.  Subscripts (`perm`, `idx`): places
 * in T. */
static bool index_entries(ir_arena *arena, const ir_tensor *tensor, const int64_t *sizes,
                          const ir_program *program, int64_t count, dice *d, ir_entries *entries) {
  if (!strcmp(tensor->name, "off")) {
    int64_t limit = size_named(program, sizes, "R"), here = 0;
    for (int64_t i = 0; i < count; i++) {
      add_entry(arena, entries, &i, (double)here);
      if (i != 1) here += roll(d, 4);
      if (here > limit || i == count - 2) here = limit;
    }
    return true;
  }
  if (strcmp(tensor->name, "perm") && strcmp(tensor->name, "idx")) return false;
  int64_t limit = size_named(program, sizes, "T");
  for (int64_t i = 0; i < count; i++)
    add_entry(arena, entries, &i, (double)(limit ? roll(d, (unsigned)(limit + (i == 2))) : 0));
  return true;
}

static const char *bind_input(ir_arena *arena, const lower_case *c, const ir_kernel *kernel,
                              ir_tensor *tensor, const int64_t *sizes, dice *d,
                              ir_bindings *bindings) {
  int64_t dims[IR_MAX_RANK] = {0};
  const char *why = "";
  for (int i = 0; i < tensor->rank; i++)
    if (!ir_size_value(tensor->dim[i], sizes, &dims[i])) return "a size is unknown";
  const ir_format *format = tensor->format
                                ? tensor->format
                                : ir_format_builtin(arena, "dense", tensor->rank, NULL, 0, &why);
  ir_entries entries = {.rank = tensor->rank};
  if (!index_entries(arena, tensor, sizes, kernel->program, dims[0], d, &entries))
    random_entries(arena, c, tensor, format, dims, d, &entries);
  if (ir_dtype_is_float(tensor->dtype))
    entries.int_value = NULL;
  else
    entries.value = NULL;
  ir_binding binding = {.tensor = tensor};
  if (ir_view_pack(arena, tensor->dtype, dims, format, IR_I32, &entries, &binding.view, &why))
    return ir_format_text(arena, "packing %s: %s", tensor->name, why);
  IR_PUSH(arena, &bindings->list, binding);
  return NULL;
}

static void read_sizes(const lower_case *c, const ir_program *program, int64_t *sizes) {
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    sizes[i] = dim->value;
    size_t length = strlen(dim->name);
    for (const char *p = c->sizes; p && (p = strstr(p, dim->name)); p++)
      if (p[length] == '=' && (p == c->sizes || p[-1] == ' ')) sizes[i] = atoll(p + length + 1);
  }
}

/* ---- comparing ------------------------------------------------------------------------------- */
static const char *place(ir_arena *arena, const int64_t *at, int rank) {
  ir_text text = ir_text_new(arena);
  for (int d = 0; d < rank; d++) ir_text_printf(&text, "%s%lld", d ? "," : "", (long long)at[d]);
  return text.data ? text.data : "";
}

static bool same(double a, double b, double tolerance) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b)) return a == b;
  return fabs(a - b) <= tolerance * (1 + fabs(b));
}

static const char *difference(ir_arena *arena, const ir_tensor *tensor, const ir_view *got,
                              const ir_view *want) {
  int64_t at[IR_MAX_RANK] = {0}, total = ir_view_elements(want);
  double tolerance = ir_dtype_is_float(tensor->dtype) ? 16 * ir_dtype_epsilon(tensor->dtype) : 0;
  for (int64_t n = 0; n < total; n++) {
    int64_t rest = n;
    for (int i = tensor->rank - 1; i >= 0; i--) at[i] = rest % want->dim[i], rest /= want->dim[i];
    double g = ir_view_value(got, at), w = ir_view_value(want, at);
    if (!same(g, w, tolerance))
      return ir_format_text(arena, "%s[%s] is %.9g, not %.9g", tensor->name,
                            place(arena, at, tensor->rank), g, w);
  }
  return NULL;
}

static bool count_entry(void *user, const int64_t *coordinates, int64_t position) {
  (void)coordinates, (void)position;
  ++*(int64_t *)user;
  return true;
}

static const char *pattern_difference(ir_arena *arena, const ir_tensor *tensor, const ir_view *got,
                                      const ir_view *want) {
  int64_t g = 0, w = 0;
  if (!got->format || !want->format || !ir_format_equal(got->format, want->format)) return NULL;
  ir_view_walk(got, count_entry, &g);
  ir_view_walk(want, count_entry, &w);
  return g == w ? NULL
                : ir_format_text(arena, "%s stores %lld entries, not %lld", tensor->name,
                                 (long long)g, (long long)w);
}

static const char *compare(ir_arena *arena, const ir_kernel *kernel, const ir_bindings *got,
                           const ir_bindings *want) {
  for (int i = 0; i < got->list.count; i++) {
    const ir_tensor *tensor = got->list.at[i].tensor;
    if (tensor->role != IR_ROLE_OUT) continue;
    for (int j = 0; j < want->list.count; j++) {
      if (strcmp(want->list.at[j].tensor->name, tensor->name)) continue;
      const char *why = difference(arena, tensor, &got->list.at[i].view, &want->list.at[j].view);
      if (!why)
        why = pattern_difference(arena, tensor, &got->list.at[i].view, &want->list.at[j].view);
      if (why) return why;
    }
  }
  (void)kernel;
  return NULL;
}

/* ---- the check ------------------------------------------------------------------------------- */
static const char *with_text(ir_arena *arena, const ir_program *program, const char *why) {
  ir_text text = ir_text_new(arena);
  ir_print(program, &text);
  return ir_format_text(arena, "%s\n%s", why, text.data);
}

const char *lower_text(ir_arena *arena, const lower_case *c) {
  ir_sink *sink = ir_sink_new(arena);
  ir_program *program = compiled(arena, c, sink);
  if (!program) return complaint(arena, sink, "compile");
  if (lowered(arena, c, program, sink)) return complaint(arena, sink, "lower");
  return with_text(arena, program, "");
}

const char *lower_check(ir_arena *arena, const lower_case *c) {
  ir_sink *sink = ir_sink_new(arena);
  ir_program *reference = compiled(arena, c, sink),
             *program = reference ? compiled(arena, c, sink) : NULL;
  if (!program) return complaint(arena, sink, "compile");
  if (lowered(arena, c, program, sink)) return complaint(arena, sink, "lower");
  int64_t sizes[64] = {0};
  read_sizes(c, reference, sizes);
  ir_bindings want = {0}, got = {0};
  ir_kernel *first = reference->kernels.at[0], *kernel = program->kernels.at[0];
  dice d = {c->seed * 77u + 5u}, again = d;
  for (int i = 0; i < first->tensors.count; i++) {
    if (first->tensors.at[i]->role != IR_ROLE_IN) continue;
    const char *why = bind_input(arena, c, first, first->tensors.at[i], sizes, &d, &want);
    ir_tensor *twin = ir_tensor_named(kernel, first->tensors.at[i]->name);
    if (!why && twin) why = bind_input(arena, c, kernel, twin, sizes, &again, &got);
    if (why) return why;
    again = d;
  }
  ir_interp_options options = {0};
  if (ir_interp_ein(arena, first, sizes, &want, &options, sink))
    return complaint(arena, sink, "interpreter");
  if (run_case(arena, c, kernel, sizes, &got, sink))
    return with_text(arena, program, complaint(arena, sink, "loops"));
  const char *why = compare(arena, kernel, &got, &want);
  return why ? with_text(arena, program, why) : NULL;
}
