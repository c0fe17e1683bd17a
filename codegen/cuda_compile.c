/* cuda_compile.c - a whole kernel to an image: text of every launch, compiled by a pool, judged by
 * its log.
 *
 * A skeleton variant whose log shows a spill, a stack frame or a C75xx note is rejected, and the
 * stage's next runner-up is tried; when none is left the best that compiled is used and a remark
 * says so.  Generic kernels may keep local arrays in a stack frame.  Texts are kept beside the code
 * in every case. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "codegen/cuda.h"
#include "ir/beside.h"
#include "runtime/abi.h"

/* One stage and the variant of it that stands: candidate 0 is the stage's own row.  Beside a row
 * that wants its operands aligned stands one that does not. */
typedef struct variant {
  const ir_stage *stage;
  const char *row;
  int next; /* runner-up to try when this one is rejected */
  cg_launches launches, stand_ins;
  int first; /* its first code in the image; those of the stand-ins follow */
} variant;

typedef struct job {
  cg_nvrtc_job ask;
  cg_nvrtc_raw raw;
} job;

typedef struct pool {
  job *jobs;
  int count, next;
  const ir_cache *cache;
  const char *identity; /* of NVRTC */
  bool recall;
  pthread_mutex_t lock;
} pool;

typedef struct compilation {
  ir_arena *arena;
  const ir_kernel *kernel;
  const cg_options *options;
  ir_sink *sink;
  variant *variants;
  ir_image *image;
  const char *identity; /* of NVRTC */
} compilation;

/* ---- the pool -------------------------------------------------------------------------------- */
static void *work(void *user) {
  pool *p = user;
  for (;;) {
    pthread_mutex_lock(&p->lock);
    int i = p->next < p->count ? p->next++ : -1;
    pthread_mutex_unlock(&p->lock);
    if (i < 0) return NULL;
    if (!p->jobs[i].ask.source) continue; /* a library's */
    cg_cubin_make(&p->jobs[i].ask, p->identity, p->cache, p->recall, &p->jobs[i].raw);
  }
}

static void compile_all(job *jobs, int count, const char *identity, const cg_options *options) {
  enum { MOST_THREADS = 16 };
  pthread_t threads[MOST_THREADS];
  pool p = {.jobs = jobs,
            .count = count,
            .cache = options->cache,
            .identity = identity,
            .recall = options->recall};
  long wanted = options->threads > 0 ? options->threads : sysconf(_SC_NPROCESSORS_ONLN);
  int started = 0;
  pthread_mutex_init(&p.lock, NULL);
  while (started < MOST_THREADS && started < count - 1 && started < wanted - 1 &&
         !pthread_create(&threads[started], NULL, work, &p))
    started++;
  work(&p);
  for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
  pthread_mutex_destroy(&p.lock);
}

/* ---- text ------------------------------------------------------------------------------------ */
static void emit_launch(compilation *c, const cg_launch *launch, ir_code_image *code) {
  ir_text text = ir_text_new(c->arena);
  cg_launch_image(c->arena, launch, code);
  if (launch->library)
    cg_library_print(c->arena, launch, &text);
  else
    cg_config_print(c->arena, c->kernel, launch, &text);
  code->source = text.data;
}

/* Whether the epilogue that was chosen makes the bits that the stage makes a list of, or asks. */
static bool bits_are_made(const compilation *c, const ir_stage *reader) {
  const ir_list *list = reader->kind == IR_STAGE_DETECT ? reader->detects : cg_asked_list(reader);
  for (int i = 0; list && i < c->kernel->stages.count; i++) {
    const variant *v = &c->variants[i];
    if (v->stage && v->stage->kind == IR_STAGE_COMPUTE && v->stage->detects == list &&
        v->launches.at.count && v->launches.at.at[0].detects)
      return true;
  }
  return false;
}

/* wgmma exists in the architecture-specific target only. */
static bool runs_on(const ir_kernel_row *row, const ir_target *target) {
  if (row->multiply == IR_MULTIPLY_WGMMA && strcmp(target->name, "sm_90a")) return false;
  return target->arch >= row->least_arch && (!row->most_arch || target->arch <= row->most_arch);
}

/* Somebody reads the stage's columns where they lie side by side. */
static bool leaves_columns(const compilation *c, const ir_stage *stage) {
  return ir_stage_is_aside(c->kernel, stage) || ir_columns_are_read(c->kernel, ir_stage_stmt(stage)->target, stage->reads.at[0]);
}

/* Whether a row of any alignment computes what the chosen one (NULL: a dense call) does, its bits
 * included. */
static bool stands_in(compilation *c, variant *v, const ir_kernel_row *row) {
  const ir_kernel_row *chosen = v->launches.at.at[0].row;
  bool blocks = chosen && (ir_kernel_k_blocks(chosen) || ir_kernel_n_blocks(chosen) || ir_kernel_is_live(chosen) || ir_kernel_is_krows(chosen) || ir_kernel_packs(chosen) || ir_kernel_spreads(chosen));
  bool dense = !chosen || ir_kernel_is_dense(chosen) || blocks; /* who computes all is right too */
  bool reads = chosen && ir_kernel_reads_bsr(chosen), writes = chosen && ir_kernel_writes_bsr(chosen); /* stored blocks */
  if (row && (reads != ir_kernel_reads_bsr(row) || writes != ir_kernel_writes_bsr(row))) return false;
  ir_precision precision = chosen ? ir_kernel_precision(chosen) : IR_PRECISION_FULL;
  bool listed = chosen && ir_kernel_spreads(chosen) && leaves_columns(c, v->stage); /* its columns too, where they are looked for */
  if (listed && row && !ir_kernel_samples(row)) return false;
  if (!row || row->align || row->multiply == IR_MULTIPLY_NONE || (ir_kernel_is_dense(row) != dense && !listed) ||
      ir_kernel_precision(row) != precision || !runs_on(row, c->options->target) ||
      cg_select_stage(c->arena, c->kernel, v->stage, row->name, false, NULL, &v->stand_ins))
    return false;
  for (int i = 0; i < v->stand_ins.at.count; i++) v->stand_ins.at.at[i].entry = ir_format_text(c->arena, "%s_unaligned", v->stand_ins.at.at[i].entry);
  cg_launch *other = &v->stand_ins.at.at[0];
  return other->detects == v->launches.at.at[0].detects;
}

static bool loops_stand_in(compilation *c, variant *v) {
  if (!v->stage->funcs.count || v->stage->funcs.at[0]->kind != IR_FUNC_KERNEL) return false;
  return !cg_select_stage(c->arena, c->kernel, v->stage, "loop", false, NULL, &v->stand_ins);
}

/* The first of the runners-up that does, else of the table. */
static spc_status select_stand_in(compilation *c, variant *v, const char *row) {
  if (loops_stand_in(c, v)) return SPC_OK;
  for (int i = 0; i < v->stage->runners_up.count; i++)
    if (stands_in(c, v, ir_kernel_row_named(v->stage->runners_up.at[i]->row))) return SPC_OK;
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (stands_in(c, v, &ir_kernel_rows[i])) return SPC_OK;
  ir_diag_add(c->sink, IR_DIAG_KERNEL_UNFIT, IR_NOWHERE,
              "stage `%s` names the kernel `%s`, beside which none takes unaligned operands",
              v->stage->name, row);
  return SPC_INVALID_INPUT;
}

static spc_status select_variant(compilation *c, int i) {
  variant *v = &c->variants[i];
  const ir_kernel_row *row = v->row ? ir_kernel_row_named(v->row) : NULL;
  v->stand_ins = (cg_launches){{0}};
  if (row && !runs_on(row, c->options->target)) {
    ir_diag_add(c->sink, IR_DIAG_KERNEL_UNFIT, IR_NOWHERE,
                "stage `%s` names the kernel `%s`, which does not run on %s", v->stage->name,
                v->row, c->options->target->name);
    return SPC_INVALID_INPUT;
  }
  SPC_TRY(cg_select_stage(c->arena, c->kernel, v->stage, v->row,
                          bits_are_made(c, v->stage), c->sink, &v->launches));
  bool picky = (row && row->align) || (v->launches.at.count && v->launches.at.at[0].library);
  return picky && !c->options->alone ? select_stand_in(c, v, v->row) : SPC_OK;
}

static spc_status select_all(compilation *c) {
  for (int i = 0; i < c->kernel->stages.count; i++) {
    variant *v = &c->variants[i];
    if (!v->stage)
      *v = (variant){.stage = c->kernel->stages.at[i], .row = c->kernel->stages.at[i]->row};
    SPC_TRY(select_variant(c, i));
  }
  /* A dense branch that the launch before it takes too; what stands in for either stays. */
  for (int i = 0; i + 1 < c->kernel->stages.count; i++)
    if (c->variants[i].launches.at.count && c->variants[i].launches.at.at[0].own_dense)
      c->variants[i + 1].launches = (cg_launches){{0}};
  for (int i = 0; i + 1 < c->kernel->stages.count; i++)
    if (!c->variants[i].stand_ins.at.count && !c->variants[i + 1].stand_ins.at.count)
      cg_join(c->arena, &c->variants[i].launches, &c->variants[i + 1].launches);
  return SPC_OK;
}

static void emit_launches(compilation *c, const ir_stage *stage, const cg_launches *launches, bool stand_in) {
  for (int n = 0; n < launches->at.count; n++) {
    ir_code_image code;
    emit_launch(c, &launches->at.at[n], &code);
    code.stage = stage; /* whose it is, of a dense branch in front of a list too */
    code.stands_in = stand_in;
    IR_PUSH(c->arena, &c->image->codes, code);
  }
}

/* Blocks of a large product whose tiles are neighbours share a way to memory if they lie side by side, as they do when all come at
 * once; where they come one by one, as others leave, they lie anywhere and take 2 to 4 % longer. */
static bool wants_all_units(const cg_launch *launch) {
  const ir_kernel_row *row = launch->row;
  return row && row->multiply != IR_MULTIPLY_NONE && ir_kernel_moves_boxes(row) && row->m * row->n >= CG_LARGE_TILE;
}

/* A dense branch behind a kernel of few rows that knows, before it lets this one come, which of them is meant: from a launch before it, or because it lets nobody come sooner.
 * (To wait for its own sample before it does would save 0.3 us where the branch leaves, and cost 1 where it is meant.) */
static bool is_informed(const cg_launch *before, const cg_launch *launch) {
  const ir_guard *when = &launch->stage->when, *other = &before->stage->when;
  if (!before->row || !ir_kernel_skips(before->row) || !launch->row || !ir_kernel_is_dense(launch->row)) return false;
  bool branches = when->list && when->list == other->list && when->above && !other->above;
  bool known = !before->decides, late = wants_all_units(launch) || ir_kernel_brings_rows(before->row);
  return branches && (known || late);
}

/* What a launch has to know of the one before it, and of the one behind. */
static void tell_neighbours(compilation *c) {
  cg_launch *before = NULL;
  bool replaced = false; /* something may stand in for the one before */
  for (int i = 0; i < c->kernel->stages.count; i++)
    for (int n = 0; n < c->variants[i].launches.at.count; n++) {
      cg_launch *launch = &c->variants[i].launches.at.at[n];
      launch->announces = false;
      launch->informed = before && !replaced && is_informed(before, launch);
      if (before) before->announces = launch->informed && wants_all_units(launch);
      replaced = c->variants[i].stand_ins.at.count > 0;
      launch->holds = false;
      if (before) before->holds = wants_all_units(launch) || (before->list && before->cluster); /* or its blocks would come one by one as the clusters leave */
      launch->heeded = false;
      launch->heeds = before && before->holds && !before->fronted && launch->own_dense && launch->weighs && before->weighs == launch->weighs; /* by a sample, and by what is listed */
      if (before) before->heeded = launch->heeds; /* all of its blocks have left when the first one here begins */
      before = launch;
    }
}

static spc_status emit_all(compilation *c) {
  c->image->codes.count = 0;
  tell_neighbours(c);
  for (int i = 0; i < c->kernel->stages.count; i++) {
    variant *v = &c->variants[i];
    v->first = c->image->codes.count;
    emit_launches(c, v->stage, &v->launches, false);
    emit_launches(c, v->stage, &v->stand_ins, true);
  }
  const char *folder = c->options->override_dir;
  return folder ? cg_override(c->arena, c->image, folder, c->sink) : SPC_OK;
}

/* Every launch takes the sizes of all dims. */
static spc_status check_dims(const compilation *c) {
  int count = c->kernel->program->dims.count;
  if (count <= SPC_ARGS_SIZES) return SPC_OK;
  ir_diag_add(c->sink, IR_DIAG_KERNEL_UNFIT, c->kernel->span,
              "the file has %d dims, and a CUDA launch takes %d: fold fixed sizes into numbers, or "
              "put kernels into files of their own",
              count, SPC_ARGS_SIZES);
  return SPC_INVALID_INPUT;
}

static spc_status start(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                        ir_sink *sink, compilation *c) {
  *c = (compilation){arena, kernel, options, sink, NULL, NULL, NULL};
  SPC_TRY(check_dims(c));
  c->variants = IR_NEW_ARRAY(arena, variant, kernel->stages.count + 1);
  c->image = IR_NEW(arena, ir_image);
  *c->image = (ir_image){.arena = arena, .kernel = kernel, .cuda = true};
  SPC_TRY(select_all(c));
  return emit_all(c);
}

spc_status cg_cuda_emit(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                        ir_sink *sink, ir_image **out) {
  compilation c;
  SPC_TRY(start(arena, kernel, options, sink, &c));
  *out = c.image;
  return SPC_OK;
}

/* ---- judging --------------------------------------------------------------------------------- */
static const char *fault_of(const cg_launch *launch, const cg_nvrtc_result *r) {
  if (!launch->row) return NULL;
  if (r->serialised) return "tensor core work was serialised";
  if (r->spill_bytes > 0) return "registers were spilled";
  if (r->stack_bytes > 0) return "it uses a stack frame";
  return NULL;
}

/* A candidate of the stage that can run here and has not been tried. */
static const ir_candidate *next_runner_up(const compilation *c, variant *v) {
  while (v->next < v->stage->runners_up.count) {
    const ir_candidate *candidate = v->stage->runners_up.at[v->next++];
    cg_launches trial;
    const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
    if (row && runs_on(row, c->options->target) &&
        !cg_select_stage(c->arena, c->kernel, v->stage, candidate->row, false, NULL, &trial))
      return candidate;
  }
  return NULL;
}

static spc_status rejected_text(const compilation *c, const ir_code_image *code, const char *log) {
  size_t length = strlen(log);
  if (code->path) return cg_override_failed(code, c->options->target->name, log, c->sink);
  ir_diag_add(c->sink, IR_DIAG_INTERNAL, IR_NOWHERE, "NVRTC rejects the text of `%s` for %s:\n%s",
              code->entry, c->options->target->name, length > 1500 ? log + length - 1500 : log);
  return SPC_INTERNAL;
}

/* A stand-in has no runner-up: as it is it is right, and seldom run. */
static spc_status take_result(compilation *c, variant *v, int n, job *j, bool *again) {
  ir_code_image *code = &c->image->codes.at[v->first + n];
  cg_nvrtc_result r = {0};
  if (code->library) return SPC_OK;
  cg_nvrtc_read_log(j->raw.log, &r);
  if (j->raw.failed && c->options->recall) return SPC_UNAVAILABLE;
  *(j->raw.cached ? &c->image->cached : &c->image->compiled) += 1;
  if (j->raw.failed) return rejected_text(c, code, j->raw.log ? j->raw.log : "no memory");
  void *copy = ir_alloc(c->arena, j->raw.bytes + 1);
  memcpy(copy, j->raw.data, j->raw.bytes);
  code->cubin = copy;
  code->cubin_bytes = j->raw.bytes;
  code->registers = r.registers;
  code->spill_bytes = r.spill_bytes;
  const char *fault = code->stands_in ? NULL : fault_of(&v->launches.at.at[n], &r);
  if (code->path) return cg_override_check(code, fault, c->sink);
  if (!fault) return SPC_OK;
  const ir_candidate *other = next_runner_up(c, v);
  ir_diag_add(c->sink, IR_DIAG_VARIANT_REJECTED, IR_NOWHERE, "stage `%s`: %s in `%s`; %s%s",
              v->stage->name, fault, code->label,
              other ? "trying " : "no other candidate is left, so it stays",
              other ? other->row : "");
  if (!other) return SPC_OK;
  ir_rejected left = {v->stage, code->label, fault, other->row};
  IR_PUSH(c->arena, &c->image->rejected, left);
  v->row = other->row;
  *again = true;
  return SPC_OK;
}

static spc_status judge(compilation *c, job *jobs, bool *again) {
  *again = false;
  for (int i = 0; i < c->kernel->stages.count; i++) {
    variant *v = &c->variants[i];
    for (int n = 0; n < v->launches.at.count + v->stand_ins.at.count; n++)
      SPC_TRY(take_result(c, v, n, &jobs[v->first + n], again));
  }
  return SPC_OK;
}

static spc_status compile_round(compilation *c, bool *again) {
  int count = c->image->codes.count;
  job *jobs = IR_NEW_ARRAY(c->arena, job, count + 1);
  for (int i = 0; i < count; i++)
    jobs[i].ask = (cg_nvrtc_job){
        .name = c->image->codes.at[i].path
                    ? c->image->codes.at[i].path
                    : ir_format_text(c->arena, "%s.cu", c->image->codes.at[i].entry),
        .source = c->image->codes.at[i].library ? NULL : c->image->codes.at[i].source,
        .arch = c->options->target->name,
        .line_info = c->options->line_info};
  compile_all(jobs, count, c->identity, c->options);
  spc_status status = judge(c, jobs, again);
  for (int i = 0; i < count; i++) {
    free(jobs[i].raw.data);
    free(jobs[i].raw.log);
  }
  return status;
}

spc_status cg_cuda_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                           ir_sink *sink, ir_image **out) {
  compilation c;
  bool again = true;
  const char *identity = cg_nvrtc_identity(arena, options->cache);
  if (!identity && options->recall) return SPC_UNAVAILABLE;
  if (!identity) {
    ir_diag_add(sink, IR_DIAG_NO_NVRTC, IR_NOWHERE, "%s", cg_nvrtc_version());
    return SPC_UNAVAILABLE;
  }
  SPC_TRY(start(arena, kernel, options, sink, &c));
  c.identity = identity;
  while (again) {
    SPC_TRY(compile_round(&c, &again));
    if (again) {
      SPC_TRY(select_all(&c));
      SPC_TRY(emit_all(&c));
    }
  }
  *out = c.image;
  return SPC_OK;
}
