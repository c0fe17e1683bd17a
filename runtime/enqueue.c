/* enqueue.c - see enqueue.h.
 *
 * Every buffer of every launch has a place that is found once: an array of the caller's, a piece of
 * the workspace, or a constant of the plan's.  A run computes where the pieces lie at its sizes,
 * fills the pointers and launches.  What a run has found stays for the next: at the same sizes
 * nothing is computed again, and with the same arrays launches are as they were. */
#include "runtime/enqueue.h"

#include "runtime/settled.h"

/* What lies in the workspace: a buffer of the plan's own, or the values of a tensor between
 * stages. */
typedef struct piece {
  const ir_buf *buf;       /* NULL: */
  const ir_tensor *tensor; /* the values of this */
  int like;                /* number of the tensor whose pattern it shares; -1: dense */
  bool once;               /* made by stages that depend on const inputs alone */
  bool with, without;      /* stages use it that run where something is kept; where nothing is */
  const ir_list *asked;    /* written where its verdict is dense, which it never is at too many elements; NULL: always */
  size_t offset;           /* in the workspace, or in what is kept */
  size_t bytes;            /* of each of its copies: one, or one a thread (ir_buf.each) */
} piece;

typedef enum place_kind {
  IN_PIECE,
  IN_CONSTANTS,
  IN_VALUES,
  IN_POSITIONS,
  IN_COORDINATES
} place_kind;
typedef struct place {
  place_kind kind;
  int number; /* of the piece, the list, the tensor */
  int level;
} place;

typedef struct guarded_list {
  int list, counts, verdict; /* its number; pieces, of counts -1 where the verdict stands alone */
} guarded_list;

struct rt_ready {
  rt_plan *plan;
  IR_VEC(piece) pieces;
  place **places; /* one array a code */
  rt_buffer_sets alone,
      shared;   /* pointers of the launch that is being made: one set; one a thread */
  int *verdict; /* one a stage: the piece with its guard's verdict, -1: it runs always */
  IR_VEC(guarded_list) guards; /* on the CPU: whose covers go to the report */
  rt_launch *launches;
  rt_settled *settled;      /* calls of a library, NULL: there are none */
  rt_cublaslt_call **calls; /* of this run, by code; NULL: they are not settled for its sizes */
  void *constants;          /* a break-even a list */
  char *workspace, *kept;   /* kept NULL: everything lies in the workspace */
  const rt_given *given;
  bool checked; /* the lists, at the plan's sizes */
  /* What the last run has left. */
  rt_given *last; /* its arrays, one a tensor */
  rt_need need;
  bool laid, keeps; /* pieces lie as these sizes want; some of them in what is kept */
  bool sized, made; /* launches have these sizes; and these arrays */
  bool *no_blocks;  /* by code, at these sizes */
};

/* What a thread leaves behind for its next part must be zero the first time. */
static bool keeps_between_rows(const ir_func *func) {
  for (int i = 0; i < func->bufs.count; i++)
    if (func->bufs.at[i]->each && func->bufs.at[i]->zeroed) return true;
  return false;
}

const char *rt_ready_missing(const ir_image *image) {
  if (!image) return "the interpreter has no launches";
  for (int i = 0; i < image->kernel->stages.count; i++) {
    const ir_stage *stage = image->kernel->stages.at[i];
    if (stage->assembled)
      return "the pattern of a result is computed, so its size is not known before";
    if (stage->kind == IR_STAGE_CONVERT) return "an operand is converted, which allocates";
  }
  for (int i = 0; i < image->codes.count && !image->cuda; i++) {
    if (!image->codes.at[i].cpu) return "the interpreter has no launches";
    if (keeps_between_rows(image->codes.at[i].func))
      return "a stage keeps memory for each thread between its rows";
  }
  return NULL;
}

/* ---- places ---------------------------------------------------------------------------------- */
static int tensor_number(const ir_kernel *kernel, const ir_tensor *tensor) {
  for (int i = 0; i < kernel->tensors.count; i++)
    if (kernel->tensors.at[i] == tensor) return i;
  return -1;
}

static int list_of_threshold(const ir_kernel *kernel, const ir_buf *buf) {
  for (int i = 0; i < kernel->lists.count; i++)
    if (kernel->lists.at[i]->threshold == buf) return i;
  return -1;
}

static int piece_of(rt_ready *r, ir_arena *arena, const ir_buf *buf, const ir_tensor *tensor) {
  const ir_tensor *root = tensor ? ir_tensor_owner(tensor) : NULL;
  for (int i = 0; i < r->pieces.count; i++)
    if (r->pieces.at[i].buf == buf && r->pieces.at[i].tensor == tensor) return i;
  int like = root == tensor ? -1 : tensor_number(r->plan->image->kernel, root);
  piece p = {.buf = buf, .tensor = tensor, .like = like};
  IR_PUSH(arena, &r->pieces, p);
  return r->pieces.count - 1;
}

static bool is_copy(const ir_stage *stage, const ir_tensor *tensor) {
  return tensor && stage->when.list && stage->when.above && stage->stmts.count && stage->stmts.at[0]->target == tensor &&
         tensor->role == IR_ROLE_TEMP;
}

static bool is_callers(const ir_tensor *tensor) {
  return tensor->role == IR_ROLE_IN || tensor->role == IR_ROLE_OUT;
}

static place place_of(rt_ready *r, ir_arena *arena, const ir_buf *buf) {
  const ir_kernel *kernel = r->plan->image->kernel;
  place p = {.level = buf->level};
  if (buf->kind == IR_BUF_WORKSPACE) {
    p.number = list_of_threshold(kernel, buf);
    p.kind = p.number >= 0 ? IN_CONSTANTS : IN_PIECE;
    if (p.kind == IN_PIECE) p.number = piece_of(r, arena, buf, NULL);
    return p;
  }
  const ir_tensor *tensor = buf->tensor;
  if (buf->kind == IR_BUF_VALS && !is_callers(tensor)) {
    p.kind = IN_PIECE;
    p.number = piece_of(r, arena, NULL, tensor);
    return p;
  }
  if (buf->kind != IR_BUF_VALS) tensor = ir_tensor_owner(tensor);
  p.kind = buf->kind == IR_BUF_VALS  ? IN_VALUES
           : buf->kind == IR_BUF_POS ? IN_POSITIONS
                                     : IN_COORDINATES;
  p.number = tensor_number(kernel, tensor);
  return p;
}

static void find_places(rt_ready *r, ir_arena *arena) {
  const ir_image *image = r->plan->image;
  int most = 0;
  r->places = IR_NEW_ARRAY(arena, place *, image->codes.count + 1);
  for (int i = 0; i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    int count = image->cuda ? code->bufs.count : code->func->bufs.count;
    ir_buf **bufs = image->cuda ? code->bufs.at : code->func->bufs.at;
    r->places[i] = IR_NEW_ARRAY(arena, place, count + 1);
    for (int b = 0; b < count; b++) {
      r->places[i][b] = place_of(r, arena, bufs[b]);
      if (r->places[i][b].kind != IN_PIECE) continue;
      piece *p = &r->pieces.at[r->places[i][b].number];
      if (is_copy(code->stage, p->tensor)) p->asked = code->stage->when.list;
      p->once |= code->stage->once;
      p->with |= !code->stage->unkept;
      p->without |= !code->stage->kept;
    }
    if (count > most) most = count;
  }
  r->alone = rt_buffer_sets_new(arena, 1, most);
  r->alone.used = NULL;
  r->shared = rt_buffer_sets_new(arena, rt_pool_size(r->plan->options.pool), most);
  r->verdict = IR_NEW_ARRAY(arena, int, image->kernel->stages.count + 1);
  for (int i = 0; i < image->kernel->stages.count; i++) {
    const ir_list *list = image->kernel->stages.at[i]->when.list;
    r->verdict[i] = list && list->verdict ? piece_of(r, arena, list->verdict, NULL) : -1;
  }
  for (int i = 0; i < image->kernel->lists.count && !image->cuda; i++) {
    const ir_list *list = image->kernel->lists.at[i];
    if (!list->verdict || !list->threshold || !r->plan->options.report) continue;
    guarded_list guard = {i, list->counts ? piece_of(r, arena, list->counts, NULL) : -1,
                          piece_of(r, arena, list->verdict, NULL)};
    IR_PUSH(arena, &r->guards, guard);
  }
}

/* ---- what is made once ----------------------------------------------------------------------- */
static spc_status make_constants(rt_ready *r, ir_arena *arena, ir_sink *sink) {
  const ir_kernel *kernel = r->plan->image->kernel;
  rt_cuda *cuda = r->plan->options.cuda;
  int count = kernel->lists.count;
  size_t bytes = sizeof(double) * (size_t)(count + 1);
  double *values = IR_NEW_ARRAY(arena, double, count + 1);
  for (int i = 0; i < count; i++) values[i] = rt_plan_threshold(r->plan, kernel->lists.at[i]);
  r->constants = values;
  if (!r->plan->image->cuda) return SPC_OK;
  r->constants = NULL;
  spc_status status = rt_cuda_alloc(cuda, bytes, &r->constants);
  if (!status) status = rt_cuda_upload_apart(cuda, r->constants, values, bytes);
  if (status) (void)rt_driver_failed(r->plan, sink, "preparing a plan");
  return status;
}

spc_status rt_ready_new(rt_plan *plan, ir_arena *arena, ir_sink *sink, rt_ready **out) {
  rt_ready *r = IR_NEW(arena, rt_ready);
  const ir_image *image = plan->image;
  r->plan = plan;
  *out = r;
  find_places(r, arena);
  r->settled = image->cuda ? rt_settled_new(plan, arena) : NULL;
  r->launches = IR_NEW_ARRAY(arena, rt_launch, image->codes.count + 1);
  r->no_blocks = IR_NEW_ARRAY(arena, bool, image->codes.count + 1);
  r->last = IR_NEW_ARRAY(arena, rt_given, image->kernel->tensors.count + 1);
  for (int i = 0; image->cuda && i < image->codes.count; i++)
    rt_launch_room(plan, i, arena, &r->launches[i]);
  return make_constants(r, arena, sink);
}

void rt_ready_free(rt_ready *r) {
  if (!r) return;
  rt_settled_free(r->settled);
  if (r->plan->image->cuda && r->constants) rt_cuda_release(r->plan->options.cuda, r->constants);
}

/* ---- the workspace --------------------------------------------------------------------------- */
static bool elements_of(const piece *p, const int64_t *sizes, const rt_given *given, int64_t *out) {
  *out = 1;
  if (p->buf) return p->buf->count && ir_size_value(p->buf->count, sizes, out) && *out >= 0;
  if (p->like >= 0) return *out = given[p->like].count, *out >= 0;
  int64_t dims[IR_MAX_RANK];
  const ir_format *format = p->tensor->format;
  for (int d = 0; d < p->tensor->rank; d++)
    if (!ir_size_value(p->tensor->dim[d], sizes, &dims[d]) || dims[d] < 0) return false;
  for (int l = 0; l < (format ? format->level_count : p->tensor->rank); l++) {
    int64_t extent = format ? ir_format_extent(format, l, dims) : dims[l];
    if (extent > 0 && *out > INT64_MAX / extent) return false;
    *out *= extent;
  }
  return true;
}

/* The guard's function says the same of its list's elements. */
static bool is_never_written(const piece *p, const int64_t *sizes) {
  int64_t strips, capacity;
  if (!p->asked || !p->asked->most || !ir_size_value(p->asked->strips, sizes, &strips) ||
      !ir_size_value(p->asked->capacity, sizes, &capacity))
    return false;
  return strips > 0 && capacity > p->asked->most / strips;
}

/* Pieces made of const inputs come first, so that they lie where they lay at other sizes of the rest. */
static spc_status place_piece(rt_ready *r, piece *p, const int64_t *sizes, const rt_given *given, bool keeps, ir_sink *sink,
                              size_t *end) {
  enum { MOST = 1 << 30 }; /* units of alignment: 256 GiB */
  int64_t count, element = (int64_t)ir_dtype_bytes(p->buf ? p->buf->dtype : p->tensor->dtype);
  bool good = elements_of(p, sizes, given, &count) && count <= (int64_t)MOST * RT_WORKSPACE_ALIGN / (element ? element : 1);
  if (is_never_written(p, sizes)) good = true, count = 0;
  if (!good) {
    ir_diag_add(sink, IR_DIAG_BUFFER_SIZE, IR_NOWHERE, "the size of `%s` is unknown or too large for memory at the sizes given",
                p->buf ? p->buf->name : p->tensor->name);
    return SPC_INVALID_INPUT;
  }
  size_t size = (size_t)(count * element + RT_WORKSPACE_ALIGN - 1) / RT_WORKSPACE_ALIGN;
  p->offset = *end * RT_WORKSPACE_ALIGN;
  if (p->with != p->without && !(keeps ? p->with : p->without)) size = 0;
  p->bytes = size * RT_WORKSPACE_ALIGN;
  *end += size * (size_t)(p->buf && p->buf->each ? r->shared.count : 1);
  return SPC_OK;
}

static spc_status lay_out(rt_ready *r, const int64_t *sizes, const rt_given *given, bool keeps,
                          ir_sink *sink, rt_need *need) {
  size_t units[2] = {0, 0}; /* of the workspace, of what is kept */
  r->laid = false;
  for (int once = 1; once >= 0; once--)
    for (int i = 0; i < r->pieces.count; i++)
      if (r->pieces.at[i].once == once) SPC_TRY(place_piece(r, &r->pieces.at[i], sizes, given, keeps, sink, &units[keeps && once]));
  *need = (rt_need){units[0] * RT_WORKSPACE_ALIGN, units[1] * RT_WORKSPACE_ALIGN};
  return SPC_OK;
}

spc_status rt_ready_need(rt_ready *r, const int64_t *sizes, const rt_given *given, const rt_kept *kept, ir_sink *sink,
                         size_t *bytes) {
  rt_need need;
  SPC_TRY(lay_out(r, sizes, given, kept->data != NULL, sink, &need));
  *bytes = need.workspace;
  return SPC_OK;
}

spc_status rt_ready_workspace(rt_ready *r, const int64_t *sizes, const rt_given *given,
                              const rt_kept *kept, ir_sink *sink, size_t *bytes) {
  SPC_TRY(rt_ready_need(r, sizes, given, kept, sink, bytes));
  return rt_ready_settle(r, sizes);
}

spc_status rt_ready_settle(rt_ready *r, const int64_t *sizes) {
  r->laid = false; /* other calls may be forgotten for these */
  return rt_settled_add(r->settled, sizes);
}

/* ---- a run ----------------------------------------------------------------------------------- */
static void *piece_at(const rt_ready *r, int number) {
  const piece *p = &r->pieces.at[number];
  return (p->once && r->kept ? r->kept : r->workspace) + p->offset;
}

static void *pointer_at(const rt_ready *r, const place *p) {
  switch (p->kind) {
  case IN_PIECE: return piece_at(r, p->number);
  case IN_CONSTANTS: return (double *)r->constants + p->number;
  case IN_VALUES: return r->given[p->number].vals;
  case IN_POSITIONS: return r->given[p->number].pos[p->level];
  case IN_COORDINATES: return r->given[p->number].crd[p->level];
  }
  return NULL;
}

/* Settling a call allocates: where it is not settled, what stands in for it runs. */
static void aim(rt_ready *r, const ir_code_image *code, int number) {
  rt_launch *launch = &r->launches[number];
  launch->call = r->calls ? r->calls[number] : NULL;
  if (launch->call && !rt_cublaslt_aim(launch->call, code->library, launch->args.buf))
    launch->call = NULL;
  launch->unfit = !launch->call;
}

static spc_status make_launch(rt_ready *r, int number, ir_sink *sink) {
  const ir_code_image *code = &r->plan->image->codes.at[number];
  rt_launch *launch = &r->launches[number];
  launch->args.status = r->plan->options.report ? r->plan->options.report->device : NULL;
  rt_plan_weigh(r->plan, code, &launch->args);
  launch->args.flags = r->plan->image->kernel->program->reproducible ? SPC_FLAG_REPRODUCIBLE : 0;
  for (int b = 0; b < code->bufs.count; b++)
    launch->args.buf[b] = pointer_at(r, &r->places[number][b]);
  if (!r->sized) {
    SPC_TRY(rt_launch_sizes(r->plan, number, launch, sink));
    r->no_blocks[number] = launch->empty;
  }
  SPC_TRY(rt_launch_maps(r->plan, number, launch, sink));
  if (code->library) aim(r, code, number);
  launch->empty = r->no_blocks[number] || rt_launch_left_out(r->plan, r->launches, number);
  return SPC_OK;
}

static spc_status make_launches(rt_ready *r, ir_sink *sink) {
  if (!r->sized) r->calls = rt_settled_find(r->settled, r->plan->sizes);
  for (int i = 0; i < r->plan->image->codes.count; i++) SPC_TRY(make_launch(r, i, sink));
  rt_launch_fronts(r->plan, r->launches, true);
  return SPC_OK;
}

static spc_status run_device(rt_ready *r, rt_share share, void *stream, ir_sink *sink) {
  if (!r->made) SPC_TRY(make_launches(r, sink));
  r->sized = r->made = true;
  if (rt_cuda_enter(r->plan->options.cuda)) return rt_driver_failed(r->plan, sink, "launching");
  for (int i = 0; i < r->plan->image->codes.count; i++) {
    const rt_launch *launch = &r->launches[i];
    if (launch->empty || launch->spared || !rt_takes(share, r->plan->image->codes.at[i].stage)) continue;
    SPC_TRY(rt_launch_send(r->plan, i, launch, stream, sink));
  }
  return SPC_OK;
}

static bool is_allowed(const rt_ready *r, const ir_stage *stage, int verdict) {
  if (verdict < 0) return true;
  const int32_t *dense = piece_at(r, verdict);
  return (*dense > 0) == stage->when.above;
}

static void report_guard(rt_ready *r, const guarded_list *guard) {
  const ir_list *list = r->plan->image->kernel->lists.at[guard->list];
  const void *verdict = piece_at(r, guard->verdict);
  if (guard->counts < 0) {
    int32_t told = *(const int32_t *)verdict;
    rt_report_guard(r->plan->options.report, guard->list, rt_verdict_cover(told), told > 0);
    return;
  }
  const void *counts = piece_at(r, guard->counts);
  int64_t strips = 0, capacity = 0, sum = 0;
  if (!ir_size_value(list->strips, r->plan->sizes, &strips) ||
      !ir_size_value(list->capacity, r->plan->sizes, &capacity))
    return;
  const int32_t *count = (const int32_t *)counts + ir_list_first_count(list, strips);
  for (int64_t s = 0; s < strips; s++) sum += count[s];
  double all = (double)strips * (double)capacity;
  rt_report_guard(r->plan->options.report, guard->list, all > 0 ? (double)sum / all : 0,
                  *(const int32_t *)verdict > 0);
}

/* One set where all buffers are shared. */
static const rt_buffer_sets *buffers_of(rt_ready *r, const ir_code_image *code, int number) {
  const ir_func *func = code->func;
  rt_buffer_sets *buffers = rt_has_own_buffers(func) ? &r->shared : &r->alone;
  for (int set = 0; set < buffers->count; set++)
    for (int b = 0; b < func->bufs.count; b++) {
      const place *p = &r->places[number][b];
      char *at = pointer_at(r, p);
      if (func->bufs.at[b]->each) at += (size_t)set * r->pieces.at[p->number].bytes;
      buffers->set[set][b] = at;
    }
  return buffers;
}

static spc_status run_host(rt_ready *r, rt_share share, ir_sink *sink) {
  const ir_image *image = r->plan->image;
  for (int s = 0; s < image->kernel->stages.count; s++) {
    const ir_stage *stage = image->kernel->stages.at[s];
    bool runs = rt_takes(share, stage) && is_allowed(r, stage, r->verdict[s]);
    for (int i = 0; runs && i < image->codes.count; i++) {
      const ir_code_image *code = &image->codes.at[i];
      if (code->stage != stage) continue;
      SPC_TRY(rt_call_host(r->plan, code, buffers_of(r, code, i), sink));
    }
  }
  for (int i = 0; share != RT_ONCE && i < r->guards.count; i++) report_guard(r, &r->guards.at[i]);
  return SPC_OK;
}

static spc_status take_sizes(rt_ready *r, const int64_t *sizes, ir_sink *sink) {
  size_t dims = (size_t)r->plan->image->kernel->program->dims.count * sizeof *sizes;
  if (r->checked && !memcmp(r->plan->sizes, sizes, dims)) return SPC_OK;
  r->checked = false;
  memcpy(r->plan->sizes, sizes, dims);
  r->plan->made_count = 0; /* maps know the sizes */
  memset(r->plan->work_ns, 0, (size_t)r->plan->image->codes.count * sizeof *r->plan->work_ns);
  SPC_TRY(rt_plan_check_lists(r->plan, sink));
  r->checked = true;
  return SPC_OK;
}

static spc_status run_share(rt_ready *r, rt_share share, void *stream, ir_sink *sink) {
  return r->plan->image->cuda ? run_device(r, share, stream, sink) : run_host(r, share, sink);
}

spc_status rt_ready_keep(rt_ready *r, const int64_t *sizes, const rt_given *given,
                         const rt_kept *kept, void *stream, ir_sink *sink, size_t *need) {
  rt_need both;
  SPC_TRY(lay_out(r, sizes, given, true, sink, &both));
  *need = both.kept;
  if (!kept->data || !both.kept) return SPC_OK;
  if (kept->bytes < both.kept) return SPC_CAPACITY;
  SPC_TRY(take_sizes(r, sizes, sink));
  r->sized = r->made = false;
  r->workspace = NULL;
  r->kept = kept->data;
  r->given = given;
  return run_share(r, RT_ONCE, stream, sink);
}

static bool same_counts(const rt_ready *r, const rt_given *given) {
  for (int i = 0; i < r->plan->image->kernel->tensors.count; i++)
    if (given[i].count != r->last[i].count) return false;
  return true;
}

/* Where the last run's pieces, sizes and arrays are not this one's, they become it. */
static spc_status take_run(rt_ready *r, const int64_t *sizes, const rt_given *given,
                           const rt_kept *kept, void *workspace, size_t bytes, ir_sink *sink) {
  const ir_kernel *kernel = r->plan->image->kernel;
  size_t dims = (size_t)kernel->program->dims.count * sizeof *sizes;
  size_t arrays = (size_t)kernel->tensors.count * sizeof *given;
  bool keeps = kept->data != NULL, same_arrays = !memcmp(r->last, given, arrays);
  bool same_sizes = r->laid && r->keeps == keeps && r->checked &&
                    !memcmp(r->plan->sizes, sizes, dims) && (same_arrays || same_counts(r, given));
  if (!same_sizes) {
    r->sized = false;
    SPC_TRY(lay_out(r, sizes, given, keeps, sink, &r->need));
  }
  if (bytes < r->need.workspace || kept->bytes < r->need.kept) return SPC_CAPACITY;
  if (!same_sizes) SPC_TRY(take_sizes(r, sizes, sink));
  r->made =
      r->made && r->sized && same_arrays && r->workspace == workspace && r->kept == kept->data;
  r->laid = true;
  r->keeps = keeps;
  r->workspace = workspace;
  r->kept = kept->data;
  memcpy(r->last, given, arrays);
  r->given = r->last;
  return SPC_OK;
}

spc_status rt_ready_enqueue(rt_ready *r, const int64_t *sizes, const rt_given *given,
                            const rt_kept *kept, void *workspace, size_t bytes, bool again, void *stream,
                            ir_sink *sink, rt_need *need) {
  spc_status status = take_run(r, sizes, given, kept, workspace, bytes, sink);
  *need = r->need;
  SPC_TRY(status);
  return run_share(r, kept->data ? RT_EVERY_RUN : again ? RT_AGAIN : RT_EVERY_STAGE, stream, sink);
}
