/* api_enqueue.c - runs on the caller's arrays, workspace and stream.
 *
 * Everything a run needs beside those is made by spc_plan_prepare and kept: a run that succeeds
 * allocates nothing.  A run that fails may have left messages in the arena: it is renewed by the
 * next failure, so that a caller who fails for months does not grow. */
#include <setjmp.h>

#include "driver/api.h"
#include "runtime/chunks.h"

enum { DEVICE_ALIGN = 16 }; /* bytes: what kernels read at once */

struct api_prepared {
  ir_arena *arena, *talk; /* what is kept, and what failures say */
  ir_sink *sink;
  rt_plan *plan;
  rt_ready *ready;
  rt_chunks *chunks;
  int64_t *sizes, *checked; /* of this run; those that fitted last */
  bool fitted;
  ir_bindings bindings; /* one a tensor of the caller's, in the kernel's order */
  rt_given *arrays;     /* one a tensor of the kernel */
  /* What the last run has found, so that the next one looks nothing up that is as it was. */
  int *place;       /* by tensor of the kernel: its place among those given */
  int64_t (*steps)[SPC_MAX_RANK]; /* by tensor of the kernel, by level: of those that may be padded */
  int count;        /* of the tensors given, 0: places are not known */
  bool solved;      /* `sizes` are those of the shapes in `bindings` and of `steps` */
  void *workspace;  /* of spc_plan_reserve, NULL: there is none */
};

static const spc_allocator *allocator_of(const spc_plan *plan) {
  return plan->program->context->from;
}

static void workspace_free(const spc_plan *plan, void *workspace) {
  rt_cuda *cuda = plan->program->context->cuda;
  if (cuda)
    rt_cuda_release(cuda, workspace);
  else
    ir_give_back(allocator_of(plan), workspace);
}

static void prepared_free(const spc_plan *plan, api_prepared *p) {
  if (!p) return;
  workspace_free(plan, p->workspace);
  rt_ready_free(p->ready);
  rt_plan_free(p->plan);
  ir_arena_free(p->talk);
  ir_arena_free(p->arena);
  ir_give_back(allocator_of(plan), p);
}

void drv_unprepare(spc_plan *plan) {
  prepared_free(plan, plan->prepared);
  plan->prepared = NULL;
}

/* Room for what a failure says, before it is wanted.  False: there is none. */
static bool renew_talk(const spc_plan *plan, api_prepared *p) {
  jmp_buf out_of_memory;
  ir_arena_free(p->talk);
  p->sink = NULL;
  p->talk = ir_arena_new_from(allocator_of(plan));
  if (!p->talk || setjmp(out_of_memory)) return false;
  ir_arena_guard(p->talk, &out_of_memory);
  p->sink = ir_sink_new(p->talk);
  ir_arena_guard(p->talk, NULL);
  return true;
}

static bool is_callers(const ir_tensor *t) {
  return t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
}

/* ---- preparing ------------------------------------------------------------------------------- */
static spc_status prepare(spc_plan *plan, api_prepared *p) {
  const spc_context *context = plan->program->context;
  int dims = plan->program->ir->dims.count, tensors = plan->kernel->tensors.count;
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory)) return SPC_OUT_OF_MEMORY;
  ir_arena_guard(p->arena, &out_of_memory);
  p->sizes = IR_NEW_ARRAY(p->arena, int64_t, dims + 1);
  p->checked = IR_NEW_ARRAY(p->arena, int64_t, dims + 1);
  p->arrays = IR_NEW_ARRAY(p->arena, rt_given, tensors + 1);
  p->place = IR_NEW_ARRAY(p->arena, int, tensors + 1);
  p->steps = ir_alloc(p->arena, sizeof *p->steps * (size_t)(tensors + 1));
  for (int i = 0; i < tensors; i++)
    if (is_callers(plan->kernel->tensors.at[i]))
      IR_PUSH(p->arena, &p->bindings.list, (ir_binding){.tensor = plan->kernel->tensors.at[i]});
  p->sink = ir_sink_new(p->arena);
  rt_plan_options options = {
      .pool = context->pool, .cuda = context->cuda, .from = context->from, .report = &plan->report};
  SPC_TRY(rt_plan_new(plan->program->images[plan->kernel_number], plan->given, &options, p->sink,
                      &p->plan));
  SPC_TRY(rt_ready_new(p->plan, p->arena, p->sink, &p->ready));
  int units = context->cuda ? rt_cuda_multiprocessors(context->cuda) : 1;
  p->chunks = rt_chunks_new(p->ready, plan->kernel, plan->program->workspace_limit, units, p->arena);
  bool known = true; /* sizes: nothing is left to tensors */
  for (int d = 0; d < dims; d++) known = known && plan->given[d] >= 0;
  if (known) SPC_TRY(rt_ready_settle(p->ready, plan->given));
  ir_arena_guard(p->arena, NULL);
  return renew_talk(plan, p) ? SPC_OK : SPC_OUT_OF_MEMORY;
}

static spc_status prepare_now(spc_plan *plan, spc_error *err) {
  if (plan->prepared) return SPC_OK;
  const char *missing = rt_ready_missing(plan->program->images[plan->kernel_number]);
  if (missing)
    return drv_api_fail(err, SPC_UNAVAILABLE, NULL,
                        "spc_plan_prepare: `%s` cannot be enqueued: %s; spc_run runs it",
                        plan->kernel->name, missing);
  api_prepared *p = ir_take(allocator_of(plan), sizeof *p, IR_TAKE_ALIGN);
  if (p) p->arena = ir_arena_new_from(allocator_of(plan));
  drv_trace(plan->program->context, "prepare", plan->kernel->name, true);
  spc_status status = p && p->arena ? prepare(plan, p) : SPC_OUT_OF_MEMORY;
  drv_trace(plan->program->context, "prepare", plan->kernel->name, false);
  if (!status) {
    plan->prepared = p;
    return SPC_OK;
  }
  bool memory = status == SPC_OUT_OF_MEMORY;
  drv_api_fail(err, status, memory || !p ? NULL : p->sink, memory ? "no memory for a plan" : NULL);
  prepared_free(plan, p);
  return status;
}

/* The same plan of the tuned tier: it becomes the better one when all of it is there.  What the
 * plan had stays, for graphs that were captured. */
static void take_tuned(spc_plan *plan) {
  spc_program *tuned = drv_is_generic(plan->program) ? drv_tuned(plan->program) : NULL;
  spc_plan *made;
  spc_error err = SPC_ERROR_INIT;
  if (!tuned || drv_plan_now(plan) != plan) return;
  spc_status status = drv_plan_like(plan, tuned, &made, &err);
  if (!status && !rt_ready_missing(tuned->images[made->kernel_number]))
    status = prepare_now(made, &err);
  if (!status) {
    atomic_store_explicit(&plan->better, made, memory_order_release);
    return;
  }
  spc_plan_free(made);
  drv_log(tuned->context, SPC_LOG_WARNING, "`%s` stays generic: %s", plan->kernel->name,
          err.message);
}

spc_status spc_plan_prepare(spc_plan *plan, spc_error *err) {
  if (!plan)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_plan_prepare: `plan` is not valid");
  int mode = rt_cuda_relax(plan->program->context->cuda);
  take_tuned(plan);
  spc_status status = prepare_now(drv_plan_now(plan), err);
  for (int i = 0; i < plan->sized_count && !status; i++) status = prepare_now(plan->sized[i], err);
  rt_cuda_restore(plan->program->context->cuda, mode);
  return status;
}

/* ---- arrays ---------------------------------------------------------------------------------- */
typedef enum purpose { FOR_SIZES, FOR_PACKING, FOR_A_RUN } purpose;
typedef struct enqueue {
  spc_plan *plan;
  const void *reserved; /* the plan's own workspace; NULL: there is none */
  int sizes;            /* codes that what is packed is shared by; 0: one */
  api_prepared *p;
  api_tensors given;
  purpose purpose;
  rt_kept kept; /* what was packed, or where it goes */
} enqueue;

/* Whether a tensor's arrays are read or written, and so must be there. */
static bool takes_part(const enqueue *e, const ir_tensor *declared) {
  if (e->purpose == FOR_PACKING) return declared->constant && e->kept.data;
  return e->purpose == FOR_A_RUN;
}

static spc_status too_short(const enqueue *e, const spc_tensor *t, const char *array, int level,
                            int64_t have, int64_t need) {
  return drv_api_fail(e->given.err, SPC_INVALID_INPUT, NULL,
                      "%s: tensor `%s`: `%s[%d]` has %lld elements, its format takes %lld",
                      e->given.call, t->name, array, level, (long long)have, (long long)need);
}

static spc_status level_array(const enqueue *e, const spc_tensor *t, bool there, const char *name,
                              int level, int64_t need) {
  bool pos = name[0] == 'p';
  int64_t have = pos ? t->pos_count[level] : t->crd_count[level];
  if (have < need) return too_short(e, t, name, level, have, need);
  if (!there || !need || (pos ? t->pos[level] : t->crd[level])) return SPC_OK;
  return drv_api_fail(e->given.err, SPC_INVALID_ARGUMENT, NULL, "%s: tensor `%s`: `%s[%d]` is NULL",
                      e->given.call, t->name, name, level);
}

/* How many values a sparse tensor stores, from the lengths of its arrays (their contents may lie on
 * a device); where those do not say it, what the caller says. */
static spc_status stored_values(const enqueue *e, const spc_tensor *t, const ir_tensor *declared,
                                int64_t *count) {
  const ir_format *f = declared->format;
  bool there = takes_part(e, declared);
  int64_t parents = 1;
  *count = -1;
  for (int l = 0; l < f->level_count; l++) {
    int64_t extent = ir_format_extent(f, l, t->shape), n = f->level[l].parameter;
    switch (f->level[l].kind) {
    case IR_LEVEL_DENSE: parents *= extent; break;
    case IR_LEVEL_COMPRESSED:
      SPC_TRY(level_array(e, t, there, "pos", l, parents + 1));
      SPC_TRY(level_array(e, t, there, "crd", l, 0));
      parents = t->crd_count[l];
      if (there && parents && !t->crd[l]) return level_array(e, t, there, "crd", l, parents);
      break;
    case IR_LEVEL_SINGLETON: SPC_TRY(level_array(e, t, there, "crd", l, parents)); break;
    case IR_LEVEL_NM:
      parents *= n;
      SPC_TRY(level_array(e, t, there, "crd", l, parents));
      break;
    case IR_LEVEL_PACKED:
    case IR_LEVEL_BITMAP:
      SPC_TRY(level_array(e, t, there, "crd", l, 1));
      *count = t->value_count;
      return SPC_OK;
    case IR_LEVEL_COUNT: break;
    }
  }
  *count = parents;
  return SPC_OK;
}

/* The steps of a tensor that was compiled for padding, as sizes of this run. */
static void take_steps(const enqueue *e, const api_rows *rows, int64_t *steps) {
  for (int l = 0; l < rows->levels; l++) {
    if (steps[l] == rows->step[l]) continue;
    steps[l] = rows->step[l];
    e->p->solved = false;
  }
}

/* Rows further apart than the shape says: what was compiled for it, and what kernels can read. */
static spc_status take_rows(const enqueue *e, const spc_tensor *t, const ir_tensor *declared,
                            int64_t *span, int64_t *steps) {
  api_rows rows;
  char text[120];
  int64_t bytes = (int64_t)ir_dtype_bytes(declared->dtype);
  drv_tensor_rows(t, declared, &rows);
  *span = rows.span;
  if (declared->pitch[0]) take_steps(e, &rows, steps);
  if (declared->role == IR_ROLE_IN && takes_part(e, declared)) SPC_TRY(drv_rows_there(&e->given, t, &rows));
  if (!rows.padded) return SPC_OK;
  if (!declared->pitch[0])
    return drv_api_fail(e->given.err, SPC_INVALID_INPUT, NULL,
                        "%s: tensor `%s`: %s: name it in spc_program_options.padded, or use spc_run, which copies "
                        "padded rows",
                        e->given.call, t->name, drv_rows_text(t, declared, &rows, text));
  SPC_TRY(drv_rows_apart(&e->given, t, declared, &rows));
  if (!e->plan->program->context->cuda || rows.length * bytes % DEVICE_ALIGN == 0) return SPC_OK;
  return drv_api_fail(e->given.err, SPC_INVALID_INPUT, NULL,
                      "%s: tensor `%s`: %s: on a GPU padded rows hold a multiple of 16 bytes, %d elements of %s; "
                      "spc_run copies others",
                      e->given.call, t->name, drv_rows_text(t, declared, &rows, text), (int)(DEVICE_ALIGN / bytes),
                      ir_dtype_text(declared->dtype));
}

static spc_status take_arrays(const enqueue *e, const spc_tensor *t, const ir_tensor *declared,
                              rt_given *out, int64_t *steps) {
  declared = ir_declared(declared);
  bool shared = declared->like != NULL; /* its pattern is its model's */
  int64_t count = 1;
  ir_dtype index = ir_index_dtype(e->plan->kernel, declared);
  if (!shared && drv_tensor_index(&e->given, t, declared) != index)
    return drv_api_fail(e->given.err, SPC_INVALID_INPUT, NULL,
                        "%s: tensor `%s`: the program was compiled for positions of %s; spc_run "
                        "converts them, or see spc_program_options",
                        e->given.call, t->name, ir_dtype_text(index));
  for (int d = 0; d < t->rank; d++) {
    if (t->shape[d] && count > INT64_MAX / t->shape[d])
      return drv_tensor_misuse(&e->given, t, "its `shape` has too many elements");
    count *= t->shape[d];
  }
  if (declared->format && !ir_format_is_dense(declared->format) && !shared)
    SPC_TRY(stored_values(e, t, declared, &count));
  if (!shared && ir_format_is_dense(declared->format) && declared->dtype != IR_NONE)
    SPC_TRY(take_rows(e, t, declared, &count, steps));
  bool output = declared->role == IR_ROLE_OUT,
       sparse = shared || !ir_format_is_dense(declared->format);
  out->vals = t->values;
  out->count = count;
  for (int l = 0; l < SPC_MAX_LEVELS; l++) {
    out->pos[l] = t->pos[l];
    out->crd[l] = t->crd[l];
  }
  if (!takes_part(e, declared) || declared->dtype == IR_NONE) return SPC_OK;
  if ((output || sparse) && !shared && t->value_count < count)
    return drv_api_fail(e->given.err, SPC_INVALID_INPUT, NULL,
                        "%s: tensor `%s`: `value_count` is %lld, %lld elements are %s",
                        e->given.call, t->name, (long long)t->value_count, (long long)count,
                        output ? "written" : "read");
  if (count && !t->values) return drv_tensor_misuse(&e->given, t, "`values` is NULL");
  if (e->plan->program->context->cuda && (uintptr_t)t->values % DEVICE_ALIGN)
    return drv_tensor_misuse(&e->given, t, "`values` is not aligned to 16 bytes");
  return SPC_OK;
}

/* Of what is packed each code has as much, one behind the other. */
static size_t share_of(size_t bytes, int sizes) { return sizes > 1 ? bytes / (size_t)sizes / RT_WORKSPACE_ALIGN * RT_WORKSPACE_ALIGN : bytes; }

static spc_status take_packed(enqueue *e) {
  bool none = e->given.count == e->p->bindings.list.count; /* each of the kernel's is there */
  const spc_tensor *t = none ? NULL : drv_tensor_given(&e->given, SPC_PACKED);
  if (!t || e->purpose == FOR_PACKING) return SPC_OK;
  if (t->value_count < 0) return drv_tensor_misuse(&e->given, t, "`value_count` is negative");
  if (t->value_count && !t->values) return drv_tensor_misuse(&e->given, t, "`values` is NULL");
  if ((uintptr_t)t->values % RT_WORKSPACE_ALIGN)
    return drv_tensor_misuse(&e->given, t, "`values` is not aligned to 256 bytes");
  size_t share = share_of((size_t)t->value_count, e->sizes);
  e->kept = (rt_kept){t->values, share};
  if (e->sizes > 1 && t->values) e->kept.data = (char *)t->values + share * (size_t)e->plan->sized_at;
  return SPC_OK;
}

/* A result `like` X has as many values as X. */
static spc_status take_model(const enqueue *e, int number) {
  const ir_kernel *kernel = e->plan->kernel;
  const ir_tensor *tensor = kernel->tensors.at[number], *root = ir_tensor_owner(tensor);
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i] == root) e->p->arrays[number].count = e->p->arrays[i].count;
  const spc_tensor *t = drv_tensor_given(&e->given, tensor->name);
  int64_t count = e->p->arrays[number].count;
  if (!takes_part(e, tensor) || t->value_count >= count) return SPC_OK;
  return drv_api_fail(e->given.err, SPC_INVALID_INPUT, NULL,
                      "%s: tensor `%s`: `value_count` is %lld, %lld elements are written",
                      e->given.call, t->name, (long long)t->value_count, (long long)count);
}

/* ---- sizes ----------------------------------------------------------------------------------- */
/* The names stand where they stood. */
static bool places_hold(const enqueue *e) {
  const ir_kernel *kernel = e->plan->kernel;
  if (!e->given.count || e->given.count != e->p->count ||
      e->given.count != e->p->bindings.list.count ||
      e->given.tensors->struct_size < DRV_LEAST_TENSOR)
    return false;
  for (int i = 0; i < kernel->tensors.count; i++) {
    if (!is_callers(kernel->tensors.at[i])) continue;
    const spc_tensor *t = drv_tensor_at(&e->given, e->p->place[i]);
    if (t->struct_size != e->given.tensors->struct_size || !t->name ||
        strcmp(t->name, kernel->tensors.at[i]->name) != 0)
      return false;
  }
  return true;
}

static spc_status find_places(const enqueue *e) {
  const ir_kernel *kernel = e->plan->kernel;
  if (places_hold(e)) return SPC_OK;
  e->p->count = 0;
  SPC_TRY(drv_tensor_names(&e->given));
  for (int i = 0; i < kernel->tensors.count; i++) {
    if (!is_callers(kernel->tensors.at[i])) continue;
    SPC_TRY(drv_tensor_place(&e->given, kernel->tensors.at[i], &e->p->place[i]));
  }
  e->p->count = e->given.count;
  return SPC_OK;
}

/* A shape that is not the last one's is bound anew. */
static void bind_shape(const enqueue *e, const spc_tensor *t, ir_binding *binding) {
  size_t bytes = sizeof *t->shape * (size_t)t->rank;
  if (e->p->solved && !memcmp(binding->view.dim, t->shape, bytes)) return;
  e->p->solved = false;
  drv_tensor_view(&e->given, t, binding->tensor, &binding->view);
}

static spc_status take_tensors(enqueue *e) {
  const ir_kernel *kernel = e->plan->kernel;
  api_prepared *p = e->p;
  int bound = 0;
  SPC_TRY(find_places(e));
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *declared = kernel->tensors.at[i];
    if (!is_callers(declared)) continue;
    const spc_tensor *t = drv_tensor_at(&e->given, p->place[i]);
    SPC_TRY(drv_tensor_check(&e->given, t, declared));
    SPC_TRY(take_arrays(e, t, declared, &p->arrays[i], p->steps[i]));
    bind_shape(e, t, &p->bindings.list.at[bound++]);
  }
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i]->role == IR_ROLE_OUT && kernel->tensors.at[i]->like)
      SPC_TRY(take_model(e, i));
  return SPC_OK;
}

static spc_status solve(enqueue *e) {
  const ir_kernel *kernel = e->plan->kernel;
  api_prepared *p = e->p;
  size_t bytes = sizeof(int64_t) * (size_t)e->plan->program->ir->dims.count;
  if (p->solved) return SPC_OK;
  memcpy(p->sizes, e->plan->given, bytes);
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    for (int l = 0; l + 1 < t->rank && t->pitch[0]; l++)
      p->sizes[t->pitch[l]->dim->number] = p->steps[i][l];
  }
  SPC_TRY(ir_solve_sizes(kernel, &p->bindings, p->sizes, p->sink));
  if (!p->fitted || memcmp(p->sizes, p->checked, bytes) != 0)
    SPC_TRY(ir_check_sizes(kernel, p->sizes, p->sink));
  memcpy(p->checked, p->sizes, bytes);
  p->fitted = p->solved = true;
  return SPC_OK;
}

/* ---- calls ----------------------------------------------------------------------------------- */
static spc_status begin(enqueue *e) {
  api_prepared *p = e->plan->prepared;
  if (!p)
    return drv_api_fail(e->given.err, SPC_INVALID_ARGUMENT, NULL,
                        "%s: the plan is not prepared; call spc_plan_prepare first (before a "
                        "capture begins)",
                        e->given.call);
  e->p = p;
  if (p->sink || renew_talk(e->plan, p)) return SPC_OK;
  return drv_api_fail(e->given.err, SPC_OUT_OF_MEMORY, NULL, "%s: no memory", e->given.call);
}

static spc_status end(enqueue *e, spc_status status) {
  api_prepared *p = e->p;
  if (!status) return SPC_OK;
  if (p->sink->diags.count) drv_api_fail(e->given.err, status, p->sink, NULL);
  (void)renew_talk(e->plan, p); /* where it fails, the next call tries again */
  return status;
}

static spc_status too_small(const enqueue *e, const char *what, size_t have, size_t need,
                            const char *help) {
  return drv_api_fail(e->given.err, SPC_CAPACITY, NULL,
                      "%s: %s has %zu bytes, these sizes take %zu%s", e->given.call, what, have,
                      need, help);
}

static spc_status guarded(enqueue *e, void *workspace, size_t bytes, void *stream, size_t *need) {
  jmp_buf out_of_memory; /* of a message */
  if (setjmp(out_of_memory))
    return drv_api_fail(e->given.err, SPC_OUT_OF_MEMORY, NULL, "no memory for a message");
  ir_arena_guard(e->p->talk, &out_of_memory);
  SPC_TRY(take_tensors(e));
  SPC_TRY(take_packed(e));
  SPC_TRY(solve(e));
  const api_prepared *p = e->p;
  if (e->purpose == FOR_PACKING) {
    spc_status status =
        rt_ready_keep(p->ready, p->sizes, p->arrays, &e->kept, stream, p->sink, need);
    return status == SPC_CAPACITY ? too_small(e, "`packed`", e->kept.bytes, *need, "") : status;
  }
  if (e->purpose == FOR_SIZES)
    return rt_chunks_workspace(p->chunks, p->sizes, p->arrays, &e->kept, p->sink, need);
  rt_need both;
  spc_status status = rt_chunks_enqueue(p->chunks, p->sizes, p->arrays, &e->kept, workspace, bytes, stream, p->sink, &both);
  if (status != SPC_CAPACITY) return status;
  if (e->kept.bytes < both.kept)
    return too_small(e, "tensor `" SPC_PACKED "`", e->kept.bytes, both.kept, "");
  bool own = workspace && workspace == e->reserved;
  return too_small(e, own ? "the plan's workspace" : "the workspace", bytes, both.workspace,
                   own || !workspace ? "; spc_plan_reserve makes one" : "");
}

/* What one code packs, at `packed`. */
static spc_status pack(spc_plan *plan, const spc_tensor *tensors, int count, void *packed, size_t *bytes, void *stream, spc_error *err) {
  enqueue e = {.plan = plan, .purpose = FOR_PACKING, .kept = {packed, packed ? *bytes : 0}};
  e.given = (api_tensors){"spc_plan_pack", plan->kernel, (spc_tensor *)tensors, count, err, true};
  SPC_TRY(begin(&e));
  if (packed) drv_trace(plan->program->context, "pack", plan->kernel->name, true);
  spc_status status = end(&e, guarded(&e, NULL, 0, stream, bytes));
  if (packed) drv_trace(plan->program->context, "pack", plan->kernel->name, false);
  return status;
}

/* The same of every code: as many bytes for each as the one takes that takes most. */
static spc_status pack_sizes(const spc_plan *plan, const spc_tensor *tensors, int count, void *packed, size_t *bytes, void *stream, spc_error *err) {
  const size_t share = share_of(*bytes, plan->sized_count);
  size_t most = 0;
  spc_status status = SPC_OK;
  for (int i = 0; i < plan->sized_count && !status; i++) {
    size_t need = packed ? share : 0;
    status = pack(plan->sized[i], tensors, count, packed ? (char *)packed + share * (size_t)i : NULL, &need, stream, err);
    if (need > most) most = need;
  }
  *bytes = (most + RT_WORKSPACE_ALIGN - 1) / RT_WORKSPACE_ALIGN * RT_WORKSPACE_ALIGN * (size_t)plan->sized_count;
  return status;
}

spc_status spc_plan_pack(spc_plan *plan, const spc_tensor *tensors, int count, void *packed,
                         size_t *bytes, void *stream, spc_error *err) {
  plan = drv_plan_now(plan);
  bool aligned = (uintptr_t)packed % RT_WORKSPACE_ALIGN == 0;
  if (!plan || !bytes || count < 0 || (count && !tensors) || !aligned)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_plan_pack: `%s` is %s",
                        !plan      ? "plan"
                        : !bytes   ? "bytes"
                        : !aligned ? "packed"
                                   : "tensors",
                        plan && bytes && !aligned ? "not aligned to 256 bytes" : "not valid");
  return plan->sized_count ? pack_sizes(plan, tensors, count, packed, bytes, stream, err) : pack(plan, tensors, count, packed, bytes, stream, err);
}

/* Settles calls of the library on the way. */
static spc_status sizes_needed(enqueue *e, size_t *bytes) {
  rt_cuda *cuda = e->plan->program->context->cuda;
  int mode = rt_cuda_relax(cuda);
  spc_status status = end(e, guarded(e, NULL, 0, NULL, bytes));
  rt_cuda_restore(cuda, mode);
  return status;
}

/* What runs of these sizes take, and smaller ones, whichever code is theirs.  call: for messages. */
static spc_status most_needed(const char *call, spc_plan *plan, const spc_tensor *tensors, int count, size_t *bytes, spc_error *err) {
  const int codes = plan->sized_count ? drv_sized_for(plan, tensors, count) + 1 : 1;
  for (int i = codes - 1; i >= 0; i--) {
    size_t need = 0;
    enqueue e = {.plan = plan->sized_count ? plan->sized[i] : plan, .sizes = plan->sized_count, .purpose = FOR_SIZES};
    e.given = (api_tensors){call, e.plan->kernel, (spc_tensor *)tensors, count, err, true};
    SPC_TRY(begin(&e));
    SPC_TRY(sizes_needed(&e, &need));
    if (need > *bytes) *bytes = need;
  }
  return SPC_OK;
}

spc_status spc_workspace(spc_plan *plan, const spc_tensor *tensors, int count, size_t *bytes,
                         spc_error *err) {
  plan = drv_plan_now(plan);
  if (bytes) *bytes = 0;
  if (!plan || !bytes || count < 0 || (count && !tensors))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_workspace: `%s` is not valid",
                        !plan    ? "plan"
                        : !bytes ? "bytes"
                                 : "tensors");
  return most_needed("spc_workspace", plan, tensors, count, bytes, err);
}

/* As large as `bytes`; what there was is kept until the new one is there. */
static spc_status reserve(spc_plan *plan, size_t bytes, spc_error *err) {
  api_prepared *p = plan->prepared;
  rt_cuda *cuda = plan->program->context->cuda;
  void *made = NULL;
  if (bytes <= plan->reserved) return SPC_OK;
  if (cuda)
    SPC_TRY(rt_cuda_alloc(cuda, bytes, &made) == SPC_OK
                ? SPC_OK
                : drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL, "spc_plan_reserve: %s",
                               rt_cuda_error(cuda)));
  else
    made = ir_take(allocator_of(plan), bytes, RT_WORKSPACE_ALIGN);
  if (!made)
    return drv_api_fail(err, SPC_OUT_OF_MEMORY, NULL,
                        "spc_plan_reserve: no memory for a workspace of %zu bytes", bytes);
  workspace_free(plan, p->workspace);
  p->workspace = made;
  plan->reserved = bytes;
  return SPC_OK;
}

spc_status spc_plan_reserve(spc_plan *plan, const spc_tensor *tensors, int count, spc_error *err) {
  plan = drv_plan_now(plan);
  size_t bytes = 0;
  if (!plan || count < 0 || (count && !tensors))
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_plan_reserve: `%s` is not valid",
                        !plan ? "plan" : "tensors");
  SPC_TRY(most_needed("spc_plan_reserve", plan, tensors, count, &bytes, err));
  int mode = rt_cuda_relax(plan->program->context->cuda);
  spc_status status = reserve(plan, bytes, err);
  rt_cuda_restore(plan->program->context->cuda, mode);
  return status;
}

spc_status spc_enqueue(spc_plan *plan, const spc_tensor *tensors, int count, void *workspace,
                       size_t bytes, void *stream, spc_error *err) {
  spc_plan *home = drv_plan_now(plan); /* has what was reserved, whichever code runs */
  plan = drv_plan_for(home, tensors, count);
  size_t need;
  bool aligned = (uintptr_t)workspace % RT_WORKSPACE_ALIGN == 0;
  if (!plan || count < 0 || (count && !tensors) || (bytes && !workspace) || !aligned)
    return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "spc_enqueue: `%s` is %s",
                        !plan                              ? "plan"
                        : count < 0 || (count && !tensors) ? "tensors"
                                                           : "workspace",
                        aligned ? "not valid" : "not aligned to 256 bytes");
  enqueue e = {.plan = plan, .sizes = home->sized_count, .purpose = FOR_A_RUN};
  e.given = (api_tensors){"spc_enqueue", plan->kernel, (spc_tensor *)tensors, count, err, true};
  SPC_TRY(begin(&e));
  void *reserved = home->prepared ? home->prepared->workspace : NULL;
  e.reserved = reserved;
  if (!workspace) workspace = reserved, bytes = home->reserved;
  drv_trace(plan->program->context, "enqueue", plan->kernel->name, true);
  spc_status status = end(&e, guarded(&e, workspace, bytes, stream, &need));
  drv_trace(plan->program->context, "enqueue", plan->kernel->name, false);
  return status;
}
