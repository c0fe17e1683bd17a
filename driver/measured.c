/* measured.c - what `spc bench` measured, kept for `spc explain`: one text file, a record a line.
 *
 *     candidate  KEY  statement  label  cover  predicted  measured        microseconds
 *     point      KEY  density    RxC    spc    dense                      milliseconds
 *
 * Fields stand between tabs.  KEY is a hash of the program as the front end made it, the kernel,
 * the processor and the sizes, so a record never speaks of another program.  The file is
 * --measured, else `measured` in the folder of the cache (runtime/cache.h), as far as that one is
 * read and written.  It is replaced whole, by rename; what cannot be read is skipped and what
 * cannot be written is said and no more. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "driver/bench.h"
#include "passes/cost.h"

enum { MOST_BYTES = 8 << 20, FIELDS = 7 };

/* ---- the key --------------------------------------------------------------------------------- */
const char *drv_measured_program(drv_session *s, const ir_program *fresh) {
  ir_text text = ir_text_new(s->arena);
  ir_print(fresh, &text);
  return text.data;
}

/* sizes NULL: what the estimates took. */
static const char *key_of(drv_session *s, const char *text, const ir_program *program,
                          const char *kernel, const ir_target *target, const int64_t *sizes) {
  ir_text key = ir_text_new(s->arena);
  ir_text_printf(&key, "%s\n%s\n%s\n", text, kernel, target->name);
  if (target->kind == IR_TARGET_CPU)
    ir_text_put(&key, s->options.mcpu ? s->options.mcpu : cg_cpu_host());
  for (int d = 0; d < program->dims.count; d++) {
    const ir_dim *dim = program->dims.at[d];
    int64_t size = sizes ? sizes[d] : dim->value >= 0 ? dim->value : dim->assumed;
    ir_text_printf(&key, "\n%s=%lld", dim->name, (long long)size);
  }
  return ir_format_text(s->arena, "%016llx", (unsigned long long)ir_hash(0, key.data, key.length));
}

/* ---- the file -------------------------------------------------------------------------------- */
static const char *path_of(drv_session *s, bool to_write) {
  const char *state = rt_cache_state(s->cache), *folder = rt_cache_folder(s->cache);
  if (s->options.measured) return s->options.measured;
  if (!strcmp(state, "off") || (to_write && strcmp(state, "on")) || !*folder) return NULL;
  return ir_format_text(s->arena, "%s/measured", folder);
}

static void make_folders(drv_session *s, const char *path) {
  char *copy = ir_strdup(s->arena, path);
  for (char *at = strchr(copy + 1, '/'); at; at = strchr(at + 1, '/')) {
    *at = 0;
    (void)mkdir(copy, 0700); /* what is missing shows when the file is opened */
    *at = '/';
  }
}

static bool replace(drv_session *s, const char *path, const ir_text *text) {
  if (!s->options.measured) make_folders(s, path);
  const char *made = ir_format_text(s->arena, "%s.%ld", path, (long)getpid());
  FILE *file = fopen(made, "wb");
  bool good = file && fwrite(text->data, 1, text->length, file) == text->length;
  if (file && fclose(file)) good = false;
  if (good && !rename(made, path)) return true;
  int why = errno;
  if (file) (void)remove(made);
  errno = why;
  return false;
}

/* The next line of at most FIELDS fields, cut in place; false at the end. */
static bool next_record(char **at, char *field[FIELDS], int *count) {
  char *line = *at;
  if (!*line) return false;
  char *end = strchr(line, '\n');
  *at = end ? end + 1 : line + strlen(line);
  if (end) *end = 0;
  for (*count = 0; line && *count < FIELDS; ++*count) {
    field[*count] = line;
    line = strchr(line, '\t');
    if (line) *line++ = 0;
  }
  return true;
}

static char *old_text(drv_session *s, const char *path) {
  char *text;
  size_t length;
  struct stat info;
  if (stat(path, &info) || info.st_size > MOST_BYTES) return ir_strdup(s->arena, "");
  if (drv_read_file(s->arena, path, &text, &length)) return ir_strdup(s->arena, "");
  return text;
}

/* ---- keeping --------------------------------------------------------------------------------- */
static void put_old(drv_session *s, const char *path, const bench *b, const char *key,
                    ir_text *out) {
  char *at = old_text(s, path), *field[FIELDS];
  int count;
  while (next_record(&at, field, &count)) {
    bool candidate = count == 7 && !strcmp(field[0], "candidate"),
         point = count == 6 && !strcmp(field[0], "point");
    if (!candidate && !point) continue;
    if (!strcmp(field[1], key) && (candidate ? b->rows.count : b->points.count)) continue;
    for (int i = 0; i < count; i++) ir_text_printf(out, "%s%s", i ? "\t" : "", field[i]);
    ir_text_put(out, "\n");
  }
}

static void put_new(const bench *b, const char *key, ir_text *out) {
  for (int i = 0; i < b->points.count; i++) {
    const bench_point *p = &b->points.at[i];
    if (!p->swept || p->left_out) continue;
    ir_text_printf(out, "point\t%s\t%.9g\t%dx%d\t%.9g\t%.9g\n", key, p->mask.density, p->mask.rows,
                   p->mask.cols, p->ours.median, p->dense.median);
  }
  for (int i = 0; i < b->rows.count; i++) {
    const bench_row *r = &b->rows.at[i];
    if (r->left_out) continue;
    ir_text_printf(out, "candidate\t%s\t%s\t%s\t%.6g\t%.9g\t%.9g\n", key,
                   r->candidate->target->name, r->candidate->label, r->cover, r->predicted,
                   r->measured);
  }
}

void drv_measured_keep(drv_session *s, const bench *b) {
  const char *path = path_of(s, true);
  if (!path) return;
  const char *text = drv_measured_program(s, s->program);
  const char *key = key_of(s, text, s->program, b->kernel->name, b->target, b->sizes);
  ir_text out = ir_text_new(s->arena);
  put_old(s, path, b, key, &out);
  put_new(b, key, &out);
  if (replace(s, path, &out))
    printf("  kept in %s: `spc explain` shows it beside its estimates at these sizes\n", path);
  else
    printf("  not kept: cannot write %s: %s\n", path, strerror(errno));
}

/* ---- recalling ------------------------------------------------------------------------------- */
typedef struct nearest {
  double distance, density, ours, dense;
  char gran[32];
} nearest;

static void recall_candidate(ir_kernel *kernel, char *const field[FIELDS]) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *c = kernel->candidates.at[i];
    if (!strcmp(c->target->name, field[2]) && !strcmp(c->label, field[3]))
      c->measured = strtod(field[6], NULL);
  }
}

static void recall_point(double wanted, char *const field[FIELDS], nearest *best) {
  double density = strtod(field[2], NULL), ours = strtod(field[4], NULL);
  if (!(density > 0) || !(ours > 0)) return;
  double distance = fabs(log(density / wanted));
  if (best->ours > 0 && distance >= best->distance) return;
  *best = (nearest){distance, density, ours, strtod(field[5], NULL), ""};
  snprintf(best->gran, sizeof best->gran, "%s", field[3]);
}

/* The density that the estimates took. */
static double likely_density(const ir_kernel *kernel) {
  for (int i = 0; i < kernel->candidates.count; i++)
    if (kernel->candidates.at[i]->operand && kernel->candidates.at[i]->axis)
      return kernel->candidates.at[i]->density;
  return 0.1;
}

const char *drv_measured_recall(drv_session *s, const char *fresh, ir_kernel *kernel,
                                const ir_target *target) {
  const char *path = path_of(s, false);
  if (!path) return "";
  const char *key = key_of(s, fresh, kernel->program, kernel->name, target, NULL);
  char *at = old_text(s, path), *field[FIELDS];
  nearest best = {0};
  int count;
  while (next_record(&at, field, &count)) {
    if (count < 6 || strcmp(field[1], key)) continue;
    if (count == 7 && !strcmp(field[0], "candidate")) recall_candidate(kernel, field);
    if (count == 6 && !strcmp(field[0], "point"))
      recall_point(likely_density(kernel), field, &best);
  }
  if (!(best.ours > 0)) return "";
  ir_text text = ir_text_new(s->arena);
  ir_text_printf(&text, "  measured: %s at density %.3g, zeros of %s",
                 pass_time_text(s->arena, 1e3 * best.ours), best.density, best.gran);
  if (best.dense > 0)
    ir_text_printf(&text, "; dense %s (%.2fx)", pass_time_text(s->arena, 1e3 * best.dense),
                   best.dense / best.ours);
  ir_text_put(&text, "\n");
  return text.data;
}
