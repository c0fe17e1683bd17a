/* random_programs.c - random programs through the whole compiler against the reference interpreter.
 *
 *   random-programs [--seed N] [--count N] [--seconds N]    writes, runs, and makes failing
 * programs smaller random-programs FILE...                                 replays programs
 * (tests/fuzz/corpus/random)
 *
 * Every program runs in a process of its own, so that a crash or a hang is a finding too.  A
 * finding is made smaller (lines left out, brackets opened, sizes cut) and printed; its first line
 * says how it was run. What the language or a schedule refuses is counted, and no finding; an
 * internal error is one.  Results must have equal values, and sparse ones
 * must store the same entries. */
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/compare.h"
#include "passes/pass.h"
#include "runtime/plan.h"
#include "tests/fuzz/random_writer.h"
#include "tests/loop_image.h"

typedef enum verdict { AGREES, REFUSED, DIFFERS, INTERNAL, CRASHED, HANGS } verdict;
static const char *const verdict_names[] = {"agrees",         "refused", "differs",
                                            "internal error", "crashed", "hangs"};

typedef struct setup {
  char data[16], disable[48];
  bool cpu, strict_nan, reproducible, batch_invariant, wide;
  int guard;
} setup;

/* ---- the run line ---------------------------------------------------------------------------- */
static bool word_after(const char *text, const char *key, char *out, size_t room) {
  const char *end = strchr(text, '\n'), *at = strstr(text, key);
  size_t n = 0;
  out[0] = 0;
  if (!at || (end && at > end)) return false;
  for (at += strlen(key); at[n] && at[n] != ' ' && at[n] != '\n' && n + 1 < room; n++)
    out[n] = at[n];
  out[n] = 0;
  return true;
}

static int64_t size_after(const char *text, const char *dim) {
  char key[40], word[24];
  snprintf(key, sizeof key, " %.30s=", dim);
  return word_after(text, key, word, sizeof word) ? atoll(word) : 3;
}

static setup read_setup(const char *text) {
  setup s = {0};
  char word[24];
  word_after(text, " data=", s.data, sizeof s.data);
  word_after(text, " disable=", s.disable, sizeof s.disable);
  word_after(text, " backend=", word, sizeof word);
  s.cpu = !strcmp(word, "cpu") && cg_cpu_available();
  s.guard = (int)size_after(text, "guard") % 3;
  s.strict_nan = word_after(text, " strict_nan", word, sizeof word);
  s.reproducible = word_after(text, " reproducible", word, sizeof word);
  s.wide = word_after(text, " positions=i64", word, sizeof word);
  s.batch_invariant = word_after(text, " batch_invariant", word, sizeof word);
  return s;
}

/* ---- data ------------------------------------------------------------------------------------ */
static bool keeps(const setup *s, dice *d, const int64_t *at, bool stored) {
  if (!stored) return true;
  if (!strcmp(s->data, "zero")) return false;
  if (!strcmp(s->data, "full")) return true;
  if (!strcmp(s->data, "hub") && at[0] == 1) return true;
  return dice_roll(d, 3) == 0;
}

static double value_of(const setup *s, const ir_tensor *t, dice *d, bool stored) {
  int value = dice_roll(d, 7) - 3;
  if (!strcmp(s->data, "zero")) return 0;
  if (value == 0 && stored && strcmp(s->data, "explicit")) value = 1;
  if (!ir_dtype_is_float(t->dtype))
    return ir_dtype_rows[t->dtype].class_ == 'U' ? abs(value) : value;
  return value * 0.5;
}

/* Subscripts `g` and `p` point into N, now and then out of it; offsets `off` rise to R. */
static bool special_value(const ir_tensor *t, const int64_t *sizes, const ir_program *p, int64_t i,
                          int64_t count, dice *d, int64_t *before, int64_t *out) {
  int64_t n = 0, r = 0;
  for (int k = 0; k < p->dims.count; k++) {
    if (!strcmp(p->dims.at[k]->name, "N")) n = sizes[k];
    if (!strcmp(p->dims.at[k]->name, "R")) r = sizes[k];
  }
  if (!strcmp(t->name, "g") || !strcmp(t->name, "p"))
    return *out = dice_roll(d, (int)n + 2) - (dice_roll(d, 8) == 0), true;
  if (strcmp(t->name, "off")) return false;
  bool some_left = r % 3 == 2; /* rows in no segment, before the first and behind the last */
  if (i > 0 || some_left) *before += dice_roll(d, 5);
  if (*before > r || (i == count - 1 && !some_left)) *before = r;
  return *out = *before, true;
}

static bool is_stored(const ir_tensor *t) {
  return t->dtype == IR_NONE || (t->format && !ir_format_is_dense(t->format));
}

static spc_status make_view(ir_arena *arena, const setup *s, const ir_program *program,
                            ir_tensor *t, const int64_t *sizes, ir_view *out, const char **why) {
  int64_t dims[IR_MAX_RANK] = {0}, at[IR_MAX_RANK] = {0}, elements = 1, before = 0;
  ir_entries e = {.rank = t->rank};
  bool stored = is_stored(t);
  dice d = {ir_hash(7, t->name, strlen(t->name))};
  for (int k = 0; k < t->rank; k++) {
    if (!ir_size_value(t->dim[k], sizes, &dims[k])) return SPC_INTERNAL;
    elements *= dims[k];
  }
  e.at = IR_NEW_ARRAY(arena, int64_t, elements * t->rank + 1);
  e.value = IR_NEW_ARRAY(arena, double, elements + 1);
  e.int_value = IR_NEW_ARRAY(arena, int64_t, elements + 1);
  for (int64_t i = 0; i < elements; i++) {
    if (keeps(s, &d, at, stored)) {
      if (t->rank) memcpy(e.at + e.count * t->rank, at, sizeof *at * (size_t)t->rank);
      if (!special_value(t, sizes, program, i, elements, &d, &before, &e.int_value[e.count]))
        e.int_value[e.count] = (int64_t)(e.value[e.count] = value_of(s, t, &d, stored));
      e.count++;
    }
    for (int k = t->rank; k-- > 0 && ++at[k] == dims[k];) at[k] = 0;
  }
  e.capacity = e.count;
  if (ir_dtype_is_float(t->dtype))
    e.int_value = NULL;
  else
    e.value = NULL;
  const ir_format *format =
      t->format ? t->format : ir_format_builtin(arena, "dense", t->rank, NULL, 0, why);
  ir_dtype index = ir_index_dtype(program->kernels.at[0], t);
  return ir_view_pack(arena, t->dtype, dims, format, index, &e, out, why);
}

static spc_status bind_inputs(ir_arena *arena, const setup *s, const ir_program *program,
                              const int64_t *sizes, const ir_kernel *twin, ir_bindings *want,
                              ir_bindings *got, const char **why) {
  const ir_kernel *kernel = program->kernels.at[0];
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_binding b = {.tensor = kernel->tensors.at[i]};
    if (b.tensor->role != IR_ROLE_IN) continue;
    SPC_TRY(make_view(arena, s, program, b.tensor, sizes, &b.view, why));
    IR_PUSH(arena, &want->list, b);
    b.tensor = ir_tensor_named(twin, b.tensor->name);
    if (b.tensor) IR_PUSH(arena, &got->list, b);
  }
  return SPC_OK;
}

/* ---- one program, in this process ------------------------------------------------------------ */
static const char *messages(ir_arena *arena, ir_sink *sink) { /* the errors alone */
  ir_text t = ir_text_new(arena);
  int kept = 0;
  for (int i = 0; i < sink->diags.count; i++)
    if (sink->diags.at[i]->severity == IR_ERROR) sink->diags.at[kept++] = sink->diags.at[i];
  sink->diags.count = kept;
  ir_sink_render(sink, &t, false);
  return t.length ? t.data : "(no message)";
}

static const ir_view *view_named(const ir_bindings *b, const char *name) {
  for (int i = b->list.count; i-- > 0;)
    if (!strcmp(b->list.at[i].tensor->name, name)) return &b->list.at[i].view;
  return NULL;
}

static verdict differs_at(ir_arena *arena, const ir_tensor *t, const ir_view *got,
                          const ir_view *want, const char **detail) {
  ir_compare_result result;
  double atol = !ir_dtype_is_float(t->dtype)                ? 0
                : t->dtype == IR_BF16 || t->dtype == IR_F16 ? 0.05
                                                            : 5e-5;
  spc_status same = t->by_value ? ir_compare_values(got, want, 0, atol, &result)
                                : ir_compare(got, want, 0, atol, &result);
  if (!same) return AGREES;
  *detail = ir_format_text(arena, "%s: %s", t->name, ir_compare_text(arena, &result));
  return DIFFERS;
}

static verdict difference(ir_arena *arena, const ir_kernel *kernel, const ir_bindings *got,
                          const ir_bindings *want, const char **detail) {
  verdict worst = AGREES;
  for (int i = 0; i < kernel->tensors.count; i++) {
    const ir_tensor *t = kernel->tensors.at[i];
    if (t->role != IR_ROLE_OUT) continue;
    const ir_view *a = view_named(got, t->name), *b = view_named(want, t->name);
    if (!a || !b)
      return *detail = ir_format_text(arena, "%s: there is no result", t->name), DIFFERS;
    const char *text = NULL;
    verdict v = differs_at(arena, t, a, b, &text);
    if (v > worst) worst = v, *detail = text;
  }
  return worst;
}

static verdict failed(ir_arena *arena, spc_status status, ir_sink *sink, const char **detail) {
  *detail = messages(arena, sink);
  return status == SPC_INTERNAL ? INTERNAL : REFUSED;
}

static spc_status code_for(ir_arena *arena, const setup *s, ir_program *program, ir_sink *sink,
                           ir_image **image) {
  ir_target target = *ir_target_find("cpu");
  if (s->cpu) target.vector_bits = cg_cpu_vector_bits(NULL);
  pass_options options = {.target = &target,
                          .disable = s->disable[0] ? s->disable : NULL,
                          .strict_nan = s->strict_nan,
                          .reproducible = s->reproducible,
                          .batch_invariant = s->batch_invariant,
                          .force_guard = s->guard,
                          .verify_each = true};
  cg_options code = {.target = &target};
  SPC_TRY(pass_pipeline(program, &options, sink));
  if (s->cpu) return cg_cpu_compile(arena, program->kernels.at[0], &code, sink, image);
  *image = loop_image(arena, program->kernels.at[0]);
  return SPC_OK;
}

static verdict evaluate(ir_arena *arena, const char *text, const char **detail) {
  setup s = read_setup(text);
  ir_sink *sink = ir_sink_new(arena);
  ir_program *reference, *program;
  ir_image *image = NULL;
  rt_plan *plan = NULL;
  fe_options none = {0};
  int64_t sizes[64] = {0};
  ir_bindings want = {0}, got = {0};
  spc_status status = fe_compile(arena, "random.spx", text, strlen(text), &none, sink, &reference);
  if (!status) status = fe_compile(arena, "random.spx", text, strlen(text), &none, sink, &program);
  if (status || !program->kernels.count || program->dims.count > 60)
    return failed(arena, status, sink, detail);
  for (int i = 0; i < program->dims.count; i++)
    sizes[i] = program->dims.at[i]->value >= 0 ? program->dims.at[i]->value
                                               : size_after(text, program->dims.at[i]->name);
  if (s.wide) ir_widen(reference->kernels.at[0], NULL);
  if (s.wide) ir_widen(program->kernels.at[0], NULL);
  status = code_for(arena, &s, program, sink, &image);
  if (!status)
    status = bind_inputs(arena, &s, reference, sizes, program->kernels.at[0], &want, &got, detail);
  ir_interp_options interp = {.strict_nan = s.strict_nan, .max_steps = 40000000};
  if (!status) status = ir_interp_ein(arena, reference->kernels.at[0], sizes, &want, &interp, sink);
  rt_plan_options options = {.force_guard = s.guard};
  if (!status) status = rt_plan_new(image, sizes, &options, sink, &plan);
  if (!status) status = rt_plan_run(plan, arena, &got, NULL, sink);
  rt_plan_free(plan);
  if (status) return failed(arena, status, sink, detail);
  verdict v = difference(arena, reference->kernels.at[0], &got, &want, detail);
  if (image->release) image->release(image->owner);
  return v;
}

/* ---- in a process of its own ----------------------------------------------------------------- */
/* A sanitizer, the C library or a loader that gives up ends a process with a small number of its
 * own. */
enum { ANSWER = 100 };

static void child(const char *text, int to) {
  ir_arena *arena = ir_arena_new();
  const char *detail = NULL;
  alarm(30);
  verdict v = evaluate(arena, text, &detail);
  if (detail && write(to, detail, strlen(detail)) < 0) v = CRASHED;
  ir_arena_free(arena);
  close(to);
  fflush(NULL);
  _exit(ANSWER + (int)v);
}

static verdict judge(const char *text, char *detail, size_t room) {
  int ends[2], state;
  size_t n = 0;
  ssize_t got;
  char rest[4096];
  if (pipe(ends)) exit(2);
  fflush(NULL);
  pid_t pid = fork();
  if (pid < 0) exit(2);
  if (pid == 0) close(ends[0]), child(text, ends[1]);
  close(ends[1]);
  while ((got = read(ends[0], n + 1 < room ? detail + n : rest,
                     n + 1 < room ? room - 1 - n : sizeof rest)) > 0)
    n += n + 1 < room ? (size_t)got : 0;
  detail[n] = 0;
  close(ends[0]);
  waitpid(pid, &state, 0);
  int answer = WIFEXITED(state) ? WEXITSTATUS(state) - ANSWER : -1;
  if (answer >= 0 && answer <= INTERNAL) return (verdict)answer;
  if (WIFEXITED(state)) snprintf(detail, room, "ended with %d", WEXITSTATUS(state));
  if (WIFSIGNALED(state)) snprintf(detail, room, "signal %d", WTERMSIG(state));
  return WIFSIGNALED(state) && WTERMSIG(state) == SIGALRM ? HANGS : CRASHED;
}

/* ---- smaller --------------------------------------------------------------------------------- */
static char *replaced(const char *text, size_t begin, size_t end, const char *with, size_t length) {
  size_t total = strlen(text);
  char *out = malloc(total + length + 1);
  memcpy(out, text, begin);
  memcpy(out + begin, with, length);
  memcpy(out + begin + length, text + end, total - end + 1);
  return out;
}

/* Takes over *text when the shorter one fails in the same way. */
static bool takes(char **text, char *shorter, verdict v) {
  char detail[256];
  bool same = strlen(shorter) < strlen(*text) && judge(shorter, detail, sizeof detail) == v;
  if (same) {
    free(*text);
    *text = shorter;
  } else {
    free(shorter);
  }
  return same;
}

static bool without_lines(char **text, verdict v) {
  bool any = false;
  for (size_t at = strcspn(*text, "\n") + 1; at < strlen(*text);) {
    size_t end = at + strcspn(*text + at, "\n") + 1;
    if (end <= strlen(*text) && takes(text, replaced(*text, at, end, "", 0), v))
      any = true;
    else
      at = end;
  }
  return any;
}

static size_t closing(const char *text, size_t open) {
  int depth = 0;
  for (size_t i = open; text[i]; i++) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0) return i;
  }
  return 0;
}

/* f(a op b) becomes a, or b. */
static bool opened_at(char **text, size_t open, verdict v) {
  size_t end = closing(*text, open), begin = open, from = open + 1;
  int depth = 0;
  if (!end) return false;
  while (begin > 0 && strchr("abcdefghijklmnopqrstuvwxyz0123456789[]", (*text)[begin - 1])) begin--;
  for (size_t i = open; i <= end; i++) {
    char c = (*text)[i];
    depth += (c == '(' || c == '[') - (c == ')' || c == ']');
    bool cut = (depth == 1 && (c == ' ' || c == ',')) || i == end;
    if (!cut) continue;
    if (i > from + 1 - (i == end) &&
        takes(text, replaced(*text, begin, end + 1, *text + from, i - from), v))
      return true;
    from = i + 1;
  }
  return false;
}

static bool with_brackets_opened(char **text, verdict v) {
  bool any = false;
  for (size_t at = strcspn(*text, "\n"); at < strlen(*text); at++)
    if ((*text)[at] == '(' && opened_at(text, at, v)) any = true, at--;
  return any;
}

/* Words of the run line, clauses up to the next word or `;`. */
static bool without_words(char **text, verdict v) {
  static const char *const words[] = {
      " as ",        " on ",          " fill ",           " ~ zeros(dynamic)",
      " strict_nan", " reproducible", " batch_invariant", " positions=i64",
      " disable=",   " guard=2",      " guard=1",         " data=sparse"};
  bool any = false;
  for (int i = 0; i < IR_COUNT(words); i++)
    for (const char *at = strstr(*text, words[i]); at; at = strstr(at + 1, words[i])) {
      size_t begin = (size_t)(at - *text), end = begin + strlen(words[i]);
      bool on = words[i][1] == 'o';
      while ((*text)[end] && !strchr(on ? ":;\n" : " ;\n", (*text)[end])) end++;
      if (!takes(text, replaced(*text, begin, end, on ? " " : "", on), v)) continue;
      any = true;
      at = *text + begin;
    }
  return any;
}

static bool with_smaller_sizes(char **text, verdict v) {
  bool any = false;
  for (const char *c = "NMKER"; *c; c++) {
    char key[] = {' ', *c, '=', 0}, *at = strstr(*text, key);
    if (!at || (size_t)(at - *text) > strcspn(*text, "\n")) continue;
    size_t begin = (size_t)(at - *text) + 3, end = begin + strspn(*text + begin, "0123456789");
    int value = atoi(*text + begin);
    for (int n = value < 12 ? 1 : 4; n < value; n++) {
      char number[12], detail[256];
      snprintf(number, sizeof number, "%d", n);
      char *smaller = replaced(*text, begin, end, number, strlen(number));
      if (judge(smaller, detail, sizeof detail) == v) {
        free(*text);
        *text = smaller;
        any = true;
        break;
      }
      free(smaller);
    }
  }
  return any;
}

static void report(const char *text, verdict v, const char *title) {
  char detail[4000], *small = replaced(text, 0, 0, "", 0);
  bool going = true;
  for (int round = 0; going && round < 6; round++) {
    going = without_lines(&small, v);
    going |= with_brackets_opened(&small, v);
    going |= without_words(&small, v);
    going |= with_smaller_sizes(&small, v);
  }
  judge(small, detail, sizeof detail);
  printf("FAIL %s: %s\n%s%s\n\n", title, verdict_names[v], small, detail);
  fflush(stdout);
  free(small);
}

/* ---- many ------------------------------------------------------------------------------------ */
static int replay(int count, char **paths) {
  int failed_count = 0;
  static char text[200000], detail[4000];
  for (int i = 0; i < count; i++) {
    FILE *file = fopen(paths[i], "rb");
    size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[n] = 0;
    verdict v = n ? judge(text, detail, sizeof detail) : CRASHED;
    if (v == AGREES) continue;
    failed_count++;
    printf("FAIL %s: %s\n%s\n", paths[i], verdict_names[v], detail);
  }
  printf("%d passed, %d failed\n", count - failed_count, failed_count);
  return failed_count != 0;
}

static int explore(uint64_t seed, long count, double seconds) {
  long tally[HANGS + 1] = {0}, found;
  time_t begin = time(NULL);
  bool tell = getenv("SPC_RANDOM_REFUSED") != NULL;
  for (long n = 0; n < count && (seconds <= 0 || difftime(time(NULL), begin) < seconds);
       n++, seed++) {
    char detail[1000], title[40];
    ir_arena *arena = ir_arena_new();
    const char *text = random_program(arena, seed);
    verdict v = judge(text, detail, sizeof detail);
    tally[v]++;
    snprintf(title, sizeof title, "seed %llu", (unsigned long long)seed);
    if (v > REFUSED) report(text, v, title);
    if (v == REFUSED && tell)
      printf("refused %s: %.*s\n", title, (int)strcspn(detail, "\n"), detail);
    ir_arena_free(arena);
  }
  found = tally[DIFFERS] + tally[INTERNAL] + tally[CRASHED] + tally[HANGS];
  printf("%ld refused\n%ld passed, %ld failed\n", tally[REFUSED], tally[AGREES], found);
  return found != 0;
}

int main(int argc, char **argv) {
  uint64_t seed = 1;
  long count = 200;
  double seconds = 0;
  if (argc > 1 && strncmp(argv[1], "--", 2) != 0) return replay(argc - 1, argv + 1);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--seed")) seed = strtoull(argv[i + 1], NULL, 10);
    if (!strcmp(argv[i], "--count")) count = atol(argv[i + 1]);
    if (!strcmp(argv[i], "--seconds")) seconds = atof(argv[i + 1]), count = 1L << 40;
  }
  return explore(seed, count, seconds);
}
