/* manager.c - runs one pass at a time under the developer's switches.
 *
 * Around every pass: are its needs met, does a switch leave it out, dumps before and after, the
 * verifier, the clock.  When a pass leaves IR that does not verify, or answers SPC_INTERNAL, the
 * program as it was before goes to a reproducer: a file whose last line says how to run it again.
 * program->after is the number of the last pass that ran; a dump of it resumes there. */
#include <stdlib.h>
#include <time.h>

#include "passes/pass.h"

/* ---- switches -------------------------------------------------------------------------------- */
/* Calls visit for each name of a comma-separated list. */
static bool each_name(ir_arena *arena, const char *list, bool (*visit)(void *, const char *),
                      void *user) {
  while (list != NULL && *list != '\0') {
    size_t length = strcspn(list, ",");
    const char *begin = list + strspn(list, " ");
    size_t trimmed = length - (size_t)(begin - list);
    while (trimmed > 0 && begin[trimmed - 1] == ' ') trimmed--;
    if (trimmed > 0 && !visit(user, ir_strndup(arena, begin, trimmed))) return false;
    list += length + (list[length] == ',');
  }
  return true;
}

static bool differs(void *user, const char *name) { return strcmp(name, user) != 0; }

static bool names(ir_arena *arena, const char *list, const char *name) {
  return list != NULL && !each_name(arena, list, differs, (void *)(uintptr_t)name);
}

static bool names_or_all(ir_arena *arena, const char *list, const char *name) {
  return names(arena, list, "all") || names(arena, list, name);
}

typedef struct name_check {
  ir_sink *sink;
  const char *option;
  bool all_allowed;
} name_check;

static bool is_pass(void *user, const char *name) {
  name_check *check = user;
  if (pass_find(name) != NULL || (check->all_allowed && strcmp(name, "all") == 0)) return true;
  const char *known[32];
  int count = 0;
  for (; count < pass_row_count && count < IR_COUNT(known); count++)
    known[count] = pass_rows[count].name;
  const char *near = ir_nearest(name, known, count);
  ir_diag *diag = ir_diag_add(check->sink, IR_DIAG_UNKNOWN_PASS, IR_NOWHERE,
                              "`%s` names no pass `%s`", check->option, name);
  if (near != NULL) ir_diag_note(check->sink, diag, IR_NOWHERE, "did you mean `%s`?", near);
  return false;
}

static bool check_names(pass_context *c, const char *option, const char *list, bool all_allowed) {
  name_check check = {c->sink, option, all_allowed};
  return each_name(c->arena, list, is_pass, &check);
}

static bool check_switches(pass_context *c) {
  const pass_options *o = c->options;
  return check_names(c, "--passes", o->passes, false) &&
         check_names(c, "--start-at", o->start_at, false) &&
         check_names(c, "--stop-after", o->stop_after, false) &&
         check_names(c, "--disable-pass", o->disable, false) &&
         check_names(c, "--print-ir-before", o->print_before, true) &&
         check_names(c, "--print-ir-after", o->print_after, true);
}

/* ---- opening --------------------------------------------------------------------------------- */
/* How well a schedule fits: 0 not at all, 1 it names no target, 2 it names this one. `for sm_90`
 * covers sm_90a. */
static int schedule_fit(const ir_schedule *schedule, const ir_kernel *kernel, const char *target) {
  if (strcmp(schedule->kernel, kernel->name) != 0) return 0;
  if (schedule->target == NULL) return 1;
  if (target == NULL) return 0;
  size_t length = strlen(schedule->target);
  if (strncmp(schedule->target, target, length) != 0) return 0;
  const char *rest = target + length;
  return *rest == '\0' || strcmp(rest, "a") == 0 ? 2 : 0;
}

static void choose_schedules(ir_program *program, bool ignore) {
  for (int k = 0; k < program->kernels.count; k++) {
    ir_kernel *kernel = program->kernels.at[k];
    int best = 0;
    kernel->schedule = NULL;
    for (int s = 0; s < program->schedules.count && !ignore; s++) {
      int fit = schedule_fit(program->schedules.at[s], kernel, program->target);
      if (fit > best) kernel->schedule = program->schedules.at[s];
      if (fit > best) best = fit;
    }
  }
}

spc_status pass_manager_open(pass_manager *m, ir_program *program, const pass_options *options,
                             ir_sink *sink) {
  *m = (pass_manager){.context = {.program = program,
                                  .arena = program->arena,
                                  .sink = sink,
                                  .options = options,
                                  .profile = options->profile}};
  if (!check_switches(&m->context)) return SPC_INVALID_ARGUMENT;
  if (options->target != NULL) program->target = options->target->name;
  program->strict_nan |= options->strict_nan;
  program->reproducible |= options->reproducible;
  program->batch_invariant |= options->batch_invariant;
  program->unpacked |= options->unpacked;
  choose_schedules(program, options->ignore_schedule);
  m->started = options->start_at == NULL;
  m->resumed_after = program->after;
  return SPC_OK;
}

/* ---- which passes run ------------------------------------------------------------------------ */
static bool wanted(pass_manager *m, const pass_row *row) {
  const pass_options *o = m->context.options;
  if (m->stopped) return false;
  if (!m->started && strcmp(o->start_at, row->name) == 0) m->started = true;
  if (!m->started || names(m->context.arena, o->disable, row->name)) return false;
  if (o->passes != NULL) return names(m->context.arena, o->passes, row->name);
  return o->start_at != NULL || row->number > m->context.program->after;
}

static bool has_run(const pass_manager *m, const pass_row *row) {
  for (int i = 0; i < m->records.count; i++)
    if (m->records.at[i].row == row) return true;
  return row->number <= m->resumed_after;
}

typedef struct need_check {
  const pass_manager *m;
  const pass_row *row;
} need_check;

static bool is_met(void *user, const char *name) {
  need_check *check = user;
  const pass_row *need = pass_find(name);
  if (need == NULL || has_run(check->m, need)) return true;
  const pass_options *o = check->m->context.options;
  bool disabled = names(check->m->context.arena, o->disable, name);
  ir_diag_add(check->m->context.sink, IR_DIAG_PASS_NEEDS, IR_NOWHERE,
              "pass `%s` needs `%s`, which %s; %s", check->row->name, name,
              disabled ? "is disabled" : "has not run on this program",
              disabled ? "disable both, or stop before" : "run it first");
  return false;
}

static bool needs_met(pass_manager *m, const pass_row *row) {
  need_check check = {m, row};
  return each_name(m->context.arena, row->needs, is_met, &check);
}

/* ---- dumps and reproducers ------------------------------------------------------------------- */
static const char *printed(const pass_context *c) {
  ir_text text = ir_text_new(c->arena);
  ir_print(c->program, &text);
  return text.data;
}

static void dump(const pass_context *c, const char *when, const pass_row *row, const char *text) {
  if (c->options->print == NULL) return;
  const char *title = ir_format_text(c->arena, "%s %s (%d)", when, row->name, row->number);
  c->options->print(c->options->print_user, title, text != NULL ? text : printed(c));
}

/* Where the program before the pass was kept; NULL when no folder was given or it cannot be
 * written. */
static const char *write_reproducer(const pass_context *c, const pass_row *row,
                                    const char *before) {
  if (before == NULL || c->options->reproducer_dir == NULL) return NULL;
  unsigned long long hash = (unsigned long long)ir_hash(0, before, strlen(before));
  const char *path =
      ir_format_text(c->arena, "%s/%s-%016llx.ir", c->options->reproducer_dir, row->name, hash);
  FILE *file = fopen(path, "w");
  if (file == NULL) return NULL;
  fprintf(file, "%s\n// run again: spc opt %s --passes=%s%s%s\n", before, path, row->name,
          c->program->target != NULL ? " --target=" : "",
          c->program->target != NULL ? c->program->target : "");
  bool ok = ferror(file) == 0;
  return fclose(file) == 0 && ok ? path : NULL;
}

static spc_status defect(const pass_context *c, const pass_row *row, const char *before,
                         const char *what) {
  const char *path = write_reproducer(c, row, before);
  ir_diag *diag = ir_diag_add(c->sink, IR_DIAG_INTERNAL, IR_NOWHERE, "pass `%s` (%d) %s", row->name,
                              row->number, what);
  if (path != NULL)
    ir_diag_note(c->sink, diag, IR_NOWHERE, "reproducer: %s", path);
  else
    ir_diag_note(c->sink, diag, IR_NOWHERE,
                 "no reproducer was written; ask for one with "
                 "`--reproducer=DIR`");
  return SPC_INTERNAL;
}

/* ---- running --------------------------------------------------------------------------------- */
static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static spc_status run_kernels(pass_context *c, const pass_row *row) {
  for (int k = 0; k < c->program->kernels.count; k++)
    SPC_TRY(row->run(c, c->program->kernels.at[k]));
  return SPC_OK;
}

static bool verifies(const pass_context *c) {
#ifdef NDEBUG
  if (!c->options->verify_each) return true;
#endif
  return ir_verify(c->program, c->sink) == SPC_OK;
}

static void dump_after(pass_manager *m, const pass_row *row, const char *before) {
  pass_context *c = &m->context;
  const pass_options *o = c->options;
  pass_record *record = &m->records.at[m->records.count - 1];
  const char *now = o->print_after_change ? printed(c) : NULL;
  if (now != NULL) record->changed = strcmp(now, before) != 0;
  if (row->number > c->program->after) {
    c->program->after = row->number;
    c->program->after_name = row->name;
  }
  if (names_or_all(c->arena, o->print_after, row->name) || (now != NULL && record->changed))
    dump(c, "after", row, NULL);
}

spc_status pass_manager_run(pass_manager *m, const char *name) {
  pass_context *c = &m->context;
  const pass_options *o = c->options;
  const pass_row *row = pass_find(name);
  if (!wanted(m, row)) return SPC_OK;
  if (!needs_met(m, row)) return SPC_INVALID_ARGUMENT;
  bool keep = o->reproducer_dir != NULL || o->print_after_change;
  const char *before = keep ? printed(c) : NULL;
  if (names_or_all(c->arena, o->print_before, name)) dump(c, "before", row, before);
  double start = milliseconds();
  spc_status status = run_kernels(c, row);
  IR_PUSH(c->arena, &m->records, ((pass_record){row, milliseconds() - start, false}));
  if (status == SPC_INTERNAL) return defect(c, row, before, "failed");
  if (status != SPC_OK) return status;
  if (!verifies(c)) return defect(c, row, before, "left IR that does not verify");
  dump_after(m, row, before);
  m->stopped = o->stop_after != NULL && strcmp(o->stop_after, name) == 0;
  return SPC_OK;
}

/* ---- the report ------------------------------------------------------------------------------ */
void pass_report(const pass_manager *m, ir_text *out) {
  double total = 0;
  for (int i = 0; i < m->records.count; i++) total += m->records.at[i].milliseconds;
  ir_text_printf(out, "%6s  %-10s %12s %7s\n", "number", "pass", "ms", "share");
  for (int i = 0; i < m->records.count; i++) {
    const pass_record *r = &m->records.at[i];
    ir_text_printf(out, "%6d  %-10s %12.3f %6.1f%%\n", r->row->number, r->row->name,
                   r->milliseconds, total > 0 ? 100 * r->milliseconds / total : 0.0);
  }
  ir_text_printf(out, "%6s  %-10s %12.3f %6.1f%%\n", "", "total", total, 100.0);
}

spc_status pass_manager_close(pass_manager *m) {
  const pass_options *o = m->context.options;
  if (!o->time_report || o->print == NULL) return SPC_OK;
  ir_text text = ir_text_new(m->context.arena);
  pass_report(m, &text);
  o->print(o->print_user, "time", text.data);
  return SPC_OK;
}
