/* profile.c - device profiles: the built-in ones, their text form, changed ones read from text.
 *
 * A profile is a flat list of figures, so its text form is lines of `name = number`; reading starts
 * from the built-in profile of the target, so a file holds only what it changes. */
#include <math.h>
#include <stdlib.h>

#include "passes/cost.h"

typedef struct figure {
  const char *name, *unit;
  size_t offset;
  double h200, cuda, cpu;
  const char *meaning;
} figure;

static const figure figures[] = {
#define PROFILE_FIGURE(NAME, UNIT, H200, CUDA, CPU, MEANING)                                       \
  {#NAME, UNIT, offsetof(pass_profile, NAME), H200, CUDA, CPU, MEANING},
#include "passes/profile.def"
};

static const pass_rate built_in_rates[] = {
#define PROFILE_RATE(KEY, TFLOPS) {KEY, TFLOPS},
#include "passes/profile.def"
};

static double *figure_at(pass_profile *profile, const figure *f) {
  return (double *)(void *)((char *)profile + f->offset);
}

const pass_profile *pass_profile_of(ir_arena *arena, const ir_target *target) {
  pass_profile *profile = IR_NEW(arena, pass_profile);
  bool cuda = target->kind == IR_TARGET_CUDA;
  bool hopper = cuda && target->arch >= 90;
  profile->name = hopper ? "h200" : cuda ? "cuda" : "cpu";
  for (int i = 0; i < IR_COUNT(figures); i++)
    *figure_at(profile, &figures[i]) = hopper ? figures[i].h200
                                       : cuda ? figures[i].cuda
                                              : figures[i].cpu;
  for (int i = 0; hopper && i < IR_COUNT(built_in_rates); i++)
    IR_PUSH(arena, &profile->rates, built_in_rates[i]);
  return profile;
}

static const double *value_at(const pass_profile *profile, const figure *f) {
  return (const double *)(const void *)((const char *)profile + f->offset);
}

/* Its place among the figures; -1: it is none. */
static int figure_named(const char *key) {
  for (int i = 0; i < IR_COUNT(figures); i++)
    if (!strcmp(figures[i].name, key)) return i;
  return -1;
}

/* What follows `rate`; NULL: something else does. */
static const char *rate_key(const char *key) { return strncmp(key, "rate ", 5) ? NULL : key + 5; }

static int rate_named(const pass_profile *profile, const char *key) {
  for (int i = 0; i < profile->rates.count; i++)
    if (!strcmp(profile->rates.at[i].key, key)) return i;
  return -1;
}

bool pass_profile_get(const pass_profile *profile, const char *key, double *value) {
  const char *rate = rate_key(key);
  int at = rate ? rate_named(profile, rate) : figure_named(key);
  if (at >= 0) *value = rate ? profile->rates.at[at].tflops : *value_at(profile, &figures[at]);
  return at >= 0;
}

void pass_profile_copy(ir_arena *arena, const pass_profile *from, pass_profile *to) {
  *to = *from;
  to->rates.at = NULL;
  to->rates.count = to->rates.capacity = 0;
  for (int i = 0; i < from->rates.count; i++) IR_PUSH(arena, &to->rates, from->rates.at[i]);
}

bool pass_profile_set(ir_arena *arena, pass_profile *profile, const char *key, double value) {
  const char *rate = rate_key(key);
  int at = rate ? rate_named(profile, rate) : figure_named(key);
  if (at < 0 && !rate) return false;
  if (!rate) *figure_at(profile, &figures[at]) = value;
  else if (at >= 0) profile->rates.at[at].tflops = value;
  else IR_PUSH(arena, &profile->rates, ((pass_rate){ir_strdup(arena, rate), value}));
  return true;
}

/* ---- text ------------------------------------------------------------------------------------ */
static const char *trimmed(ir_arena *arena, const char *begin, const char *end) {
  while (begin < end && (*begin == ' ' || *begin == '\t')) begin++;
  while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) end--;
  return ir_strndup(arena, begin, (size_t)(end - begin));
}

static const char *nearest_figure(const char *key) {
  const char *names[IR_COUNT(figures)];
  for (int i = 0; i < IR_COUNT(figures); i++) names[i] = figures[i].name;
  return ir_nearest(key, names, IR_COUNT(figures));
}

static spc_status bad_line(ir_sink *sink, ir_span span, const char *key) {
  const char *near = nearest_figure(key);
  ir_diag *diag =
      ir_diag_add(sink, IR_DIAG_PROFILE, span, "`%s` is not a figure of a device profile", key);
  if (near) ir_diag_note(sink, diag, IR_NOWHERE, "did you mean `%s`?", near);
  return SPC_INVALID_INPUT;
}

static spc_status parse_line(ir_arena *arena, pass_profile *profile, const char *begin,
                             const char *end, ir_span span, ir_sink *sink) {
  const char *hash = memchr(begin, '#', (size_t)(end - begin));
  if (hash) end = hash;
  const char *equals = memchr(begin, '=', (size_t)(end - begin));
  if (!*trimmed(arena, begin, end)) return SPC_OK;
  if (!equals) {
    ir_diag_add(sink, IR_DIAG_PROFILE, span, "expected `name = number`");
    return SPC_INVALID_INPUT;
  }
  const char *key = trimmed(arena, begin, equals), *text = trimmed(arena, equals + 1, end);
  char *rest = NULL;
  double value = strtod(text, &rest);
  if (rest == text || *rest || !isfinite(value) || value < 0) {
    ir_diag_add(sink, IR_DIAG_PROFILE, span,
                "`%s` is not a figure for `%s`: a number of at least 0 is", text, key);
    return SPC_INVALID_INPUT;
  }
  return pass_profile_set(arena, profile, key, value) ? SPC_OK : bad_line(sink, span, key);
}

spc_status pass_profile_parse(ir_arena *arena, const ir_target *target, const char *name,
                              const char *text, size_t length, ir_sink *sink,
                              const pass_profile **out) {
  pass_profile *profile = IR_NEW(arena, pass_profile);
  *profile = *pass_profile_of(arena, target);
  profile->name = ir_strdup(arena, name);
  uint32_t file = sink ? ir_sink_source(sink, name, text, length) : 0;
  spc_status status = SPC_OK;
  for (size_t at = 0; at < length;) {
    const char *newline = memchr(text + at, '\n', length - at);
    size_t end = newline ? (size_t)(newline - text) : length;
    ir_span span = {file, (uint32_t)at, (uint32_t)end};
    spc_status line = parse_line(arena, profile, text + at, text + end, span, sink);
    if (line) status = line;
    at = end + 1;
  }
  *out = profile;
  return status;
}

/* Rates that cores have each for itself.  Memory's is not among them: one core alone takes nearly all
 * that the figure says. */
const pass_profile *pass_profile_for_cores(ir_arena *arena, const pass_profile *profile, double cores) {
  pass_profile *scaled = IR_NEW(arena, pass_profile);
  double *const own[] = {&scaled->gather_gbs,         &scaled->near_gbs,     &scaled->shared_gbs,
                         &scaled->loop_gops,          &scaled->random_gbs,   &scaled->scan_gtiles,
                         &scaled->loop_gathered_gops, &scaled->gathered_gops, &scaled->list_gids};
  *scaled = *profile;
  for (int i = 0; profile->units > 0 && i < IR_COUNT(own); i++) *own[i] *= cores / profile->units;
  scaled->units = cores;
  return scaled;
}

static void print_figure(const pass_profile *profile, const figure *f, int digits, ir_text *out) {
  ir_text_printf(out, "%s = %.*g  # %s%s%s\n", f->name, digits, *value_at(profile, f), f->unit, *f->unit ? ", " : "", f->meaning);
}

static void print_rate(const pass_rate *rate, int digits, ir_text *out) {
  ir_text_printf(out, "rate %s = %.*g  # TFLOP/s\n", rate->key, digits, rate->tflops);
}

enum { ALL_DIGITS = 9, MEASURED_DIGITS = 4 };

void pass_profile_print(const pass_profile *profile, ir_text *out) {
  ir_text_printf(out, "# device profile %s\n", profile->name);
  for (int i = 0; i < IR_COUNT(figures); i++) print_figure(profile, &figures[i], ALL_DIGITS, out);
  for (int i = 0; i < profile->rates.count; i++) print_rate(&profile->rates.at[i], ALL_DIGITS, out);
}

void pass_profile_print_changes(const pass_profile *profile, const pass_profile *before, ir_text *out) {
  for (int i = 0; i < IR_COUNT(figures); i++)
    if (*value_at(profile, &figures[i]) != *value_at(before, &figures[i])) print_figure(profile, &figures[i], MEASURED_DIGITS, out);
  for (int i = 0; i < profile->rates.count; i++) {
    int was = rate_named(before, profile->rates.at[i].key);
    if (was < 0 || before->rates.at[was].tflops != profile->rates.at[i].tflops) print_rate(&profile->rates.at[i], MEASURED_DIGITS, out);
  }
}
