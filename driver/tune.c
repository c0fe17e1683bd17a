/* tune.c - `spc tune`: figures of the device profile, measured on this machine.
 *
 * A few programs (tune.def) are compiled and timed as `spc bench` times them.  Each settles a figure, or the rate of each kernel that it
 * can run: the value with which the cost model predicts what was measured, found by bisection, for a prediction only falls as a rate
 * rises.  So a figure means here what it means to the model, whatever that leaves out.  What a program hardly depends on, or what no
 * value explains, stays as it was, and is said.  The result is a profile's text, of what differs from the built-in one: `--profile`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "driver/bench.h"
#include "passes/cost.h"

enum { RUNS = 25, LEAST_RUNS = 7, STEPS = 40 };
static const double SECONDS = 0.5, REACH = 64; /* of one side; a value is looked for within so many times the built-in one */
static const double HARDLY = 0.9;              /* of the time is left with twice the rate: the program is bound by something else */

typedef struct tune_row {
  ir_target_kind where;
  const char *settles, *beside, *text, *what;
} tune_row;

static const tune_row rows[] = {
#define SPC_TUNE(WHERE, SETTLES, BESIDE, TEXT, WHAT) {IR_TARGET_##WHERE, SETTLES, BESIDE, TEXT, WHAT},
#include "driver/tune.def"
#undef SPC_TUNE
};

typedef struct tuning {
  bench *b;
  pass_profile *profile; /* what was found so far, over the built-in one */
  ir_text notes;         /* the profile's comments */
  ir_table done;         /* keys of rates */
  int found;
} tuning;

/* ---- predicting ------------------------------------------------------------------------------ */
static double figure_of(const tuning *t, const char *key) {
  double value = 100; /* TFLOP/s, of a row whose rate the profile does not have */
  pass_profile_get(t->profile, key, &value);
  return value;
}

static double stages_time(const ir_kernel *kernel) {
  double sum = 0;
  for (int i = 0; kernel && i < kernel->stages.count; i++) sum += kernel->stages.at[i]->microseconds;
  return sum;
}

/* What the program is predicted to take, its choice pinned; below 0: it does not compile. */
static double predicted(tuning *t, const pass_pin *pin, const char *key, double value) {
  bench *b = t->b;
  ir_arena *arena = bench_arena(b);
  pass_profile *profile = IR_NEW(arena, pass_profile);
  pass_profile_copy(arena, t->profile, profile);
  if (key) pass_profile_set(arena, profile, key, value);
  drv_session session = *b->s;
  session.arena = arena;
  session.program = ir_clone(arena, b->s->program);
  session.pin = pin;
  session.profile = profile;
  session.sink = ir_sink_new(arena);
  double time = -1;
  if (session.program && !drv_run_passes(&session, b->target, b->sizes)) time = stages_time(ir_kernel_named(session.program, b->kernel->name));
  ir_arena_free(arena);
  return time;
}

/* The least value of a figure with which no more than so long is predicted, within its reach. */
static double least(tuning *t, const pass_pin *pin, const char *key, double microseconds) {
  double now = figure_of(t, key), low = now / REACH, high = now * REACH;
  for (int i = 0; i < STEPS; i++) {
    double middle = sqrt(low * high);
    *(predicted(t, pin, key, middle) > microseconds ? &low : &high) = middle;
  }
  return high;
}

/* The value of a figure with which so long is predicted; 0: none, *why says it. */
static double solve(tuning *t, const pass_pin *pin, const char *key, double microseconds, const char **why) {
  double now = figure_of(t, key), high;
  if (predicted(t, pin, key, now * REACH) > microseconds) return *why = "even without it more is predicted", 0;
  if (predicted(t, pin, key, now / REACH) < microseconds) return *why = "no value of it explains so much", 0;
  high = least(t, pin, key, microseconds);
  if (predicted(t, pin, key, 2 * high) > HARDLY * microseconds) return *why = "something else binds it", 0;
  return high;
}

/* ---- measuring ------------------------------------------------------------------------------- */
static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static spc_status time_side(bench_side *side, double *microseconds) {
  double times[RUNS], begin = drv_now_ms();
  int count = 0;
  SPC_TRY(bench_side_bind(side));
  for (; count < RUNS && (count < LEAST_RUNS || drv_now_ms() - begin < 1e3 * SECONDS); count++) SPC_TRY(bench_side_time(side, &times[count]));
  qsort(times, (size_t)count, sizeof *times, by_size);
  *microseconds = 1e3 * times[count / 2];
  return SPC_OK;
}

/* after 0: as before, and why; else `why` is what else there is to say. */
static void say(tuning *t, const char *key, double before, double after, const char *what, double measured, double expected, const char *why) {
  ir_arena *arena = t->b->arena;
  ir_text line = ir_text_new(arena);
  ir_text_printf(&line, "%-22s %8.4g", key, before);
  if (after > 0) ir_text_printf(&line, " -> %-8.4g", after);
  else ir_text_put(&line, "    stays   ");
  ir_text_printf(&line, " %s takes %s, predicted %s", what, pass_time_text(arena, measured), pass_time_text(arena, expected));
  if (*why) ir_text_printf(&line, ": %s", why);
  fprintf(stderr, "%s\n", line.data);
  ir_text_printf(&t->notes, "# %s\n", line.data);
}

/* A machine may be faster than `beside` allows, whatever `key` is: it is raised until it binds no longer, to what the measurement shows
 * that it is at least. */
static void raise_beside(tuning *t, const pass_pin *pin, const char *key, const char *beside, const char *what, double microseconds) {
  double before = figure_of(t, beside), expected = predicted(t, pin, NULL, 0), own = figure_of(t, key), enough = HARDLY * HARDLY * microseconds;
  pass_profile_set(t->b->arena, t->profile, key, own * REACH);
  bool binds = predicted(t, pin, NULL, 0) > enough;
  double value = binds ? least(t, pin, beside, enough) : 0;
  bool suffices = binds && predicted(t, pin, beside, value) <= enough;
  pass_profile_set(t->b->arena, t->profile, key, own);
  if (!suffices) return;
  say(t, beside, before, value, what, microseconds, expected, "at least so much");
  pass_profile_set(t->b->arena, t->profile, beside, value);
  t->found++;
}

/* One side, timed; `key` is set to what explains it. */
static spc_status settle(tuning *t, const pass_pin *pin, const char *key, const char *beside, const char *what) {
  bench_want want = {.label = key, .pin = pin, .quiet = true};
  bench_side *side = NULL;
  double microseconds = 0;
  const char *why = "";
  if (bench_side_open(t->b, &want, &side)) {
    fprintf(stderr, "%-22s stays: %s does not compile\n", key, what);
    return SPC_OK;
  }
  spc_status status = time_side(side, &microseconds);
  bench_side_close(side);
  SPC_TRY(status);
  if (beside) raise_beside(t, pin, key, beside, what, microseconds);
  double before = figure_of(t, key), expected = predicted(t, pin, NULL, 0), value = solve(t, pin, key, microseconds, &why);
  say(t, key, before, value, what, microseconds, expected, why);
  if (value > 0) pass_profile_set(t->b->arena, t->profile, key, value), t->found++;
  return SPC_OK;
}

/* The rate of every dense kernel among the candidates, each once. */
static spc_status settle_rates(tuning *t, const char *what) {
  bench *b = t->b;
  bench_want want = {.label = "tune", .quiet = true};
  bench_side *all = NULL;
  SPC_TRY(bench_side_open(b, &want, &all));
  spc_status status = SPC_OK;
  for (int i = 0; i < all->kernel->candidates.count && !status; i++) {
    const ir_candidate *c = all->kernel->candidates.at[i];
    const ir_kernel_row *row = c->row ? ir_kernel_row_named(c->row) : NULL;
    if (!row || !*row->profile || !ir_kernel_is_dense(row) || ir_kernel_split(row) > 1) continue;
    const char *key = ir_format_text(b->arena, "rate %s", row->profile);
    if (!ir_table_add(b->arena, &t->done, key, t)) continue;
    pass_pin pin = {ir_strdup(b->arena, c->target->name), ir_strdup(b->arena, c->label)};
    status = settle(t, &pin, key, NULL, ir_format_text(b->arena, "%s, %s", what, row->name));
  }
  bench_side_close(all);
  return status;
}

/* The candidate that is chosen, so that another value does not choose another. */
static spc_status settle_chosen(tuning *t, const char *key, const char *beside, const char *what) {
  bench *b = t->b;
  bench_want want = {.label = "tune", .quiet = true};
  bench_side *side = NULL;
  pass_pin pin = {NULL, NULL};
  SPC_TRY(bench_side_open(b, &want, &side));
  for (int i = 0; i < side->kernel->candidates.count; i++) {
    const ir_candidate *c = side->kernel->candidates.at[i];
    if (c->verdict == IR_CHOSEN) pin = (pass_pin){ir_strdup(b->arena, c->target->name), ir_strdup(b->arena, c->label)};
  }
  bench_side_close(side);
  return settle(t, pin.label ? &pin : NULL, key, beside, what);
}

static spc_status run_row(tuning *t, const tune_row *row) {
  bench *b = t->b;
  SPC_TRY(drv_load_text(b->s, "<tune>", row->text));
  b->kernel = b->s->program->kernels.at[0];
  spc_status status = bench_data_open(b);
  if (status) /* said */;
  else if (!strcmp(row->settles, "rates")) status = settle_rates(t, row->what);
  else if (strcmp(row->settles, "fma")) status = settle_chosen(t, row->settles, row->beside, row->what);
  else status = settle_chosen(t, ir_format_text(b->arena, "fma%d_gflops", b->target->vector_bits), row->beside, row->what);
  bench_data_close(b);
  return status;
}

/* ---- the command ------------------------------------------------------------------------------ */
/* How many units there are is known; a CPU's own rates follow their number. */
static void begin_with(tuning *t) {
  bench *b = t->b;
  const pass_profile *own = pass_profile_of(b->arena, b->target);
  int units = b->cuda ? rt_cuda_multiprocessors(b->cuda) : rt_pool_size(b->pool);
  if (!b->cuda) own = pass_profile_for_cores(b->arena, own, units);
  t->profile = IR_NEW(b->arena, pass_profile);
  pass_profile_copy(b->arena, own, t->profile);
  pass_profile_set(b->arena, t->profile, "units", units);
}

static spc_status write_profile(tuning *t) {
  bench *b = t->b;
  ir_text out = ir_text_new(b->arena);
  ir_text_printf(&out, "# %s (%s), %g units: what `spc tune` found; all else is the built-in profile's\n", b->cuda ? rt_cuda_name(b->cuda) : cg_cpu_host(),
                 b->target->name, t->profile->units);
  ir_text_put(&out, t->notes.data);
  pass_profile_print_changes(t->profile, pass_profile_of(b->arena, b->target), &out);
  SPC_TRY(drv_write_file(b->s, b->s->options.output, out.data, out.length));
  if (b->s->options.output && strcmp(b->s->options.output, "-"))
    fprintf(stderr, "%d figures; use them with --profile=%s\n", t->found, b->s->options.output);
  return SPC_OK;
}

static spc_status guarded(bench *b) {
  jmp_buf out_of_memory;
  if (setjmp(out_of_memory)) {
    fputs("spc: out of memory\n", stderr);
    return SPC_OUT_OF_MEMORY;
  }
  b->out_of_memory = &out_of_memory;
  b->random.state = 0x5bc0ffee;
  SPC_TRY(bench_open_machine(b));
  tuning t = {.b = b, .notes = ir_text_new(b->arena)};
  begin_with(&t);
  b->s->profile = t.profile;
  for (int i = 0; i < IR_COUNT(rows); i++)
    if (rows[i].where == b->target->kind) SPC_TRY(run_row(&t, &rows[i]));
  return write_profile(&t);
}

int drv_tuning(drv_session *s) {
  if (s->arguments.items.count) return drv_usage_error(s, "tune takes no file: it measures this machine; see `spc help tune`");
  bench *b = IR_NEW(s->arena, bench);
  b->s = s;
  b->arena = s->arena;
  spc_status status = guarded(b);
  bench_close_machine(b);
  return drv_finish(s, status);
}
