/* parse_format.c - storage formats and schedules of IR text.
 *
 * A format is named (`csr`, `bsr(64, 64)`, a declared one) or says its levels itself:
 * `odd [i,j] -> [ i/4: dense, j: compressed, i%4: dense ]`. */
#include "ir/parse.h"
#include "ir/print.h"

/* ---- levels -------------------------------------------------------------------------------- */
static int read_letter(ir_reader *r, const char *letters) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  const char *at = strlen(name) == 1 ? strchr(letters, name[0]) : NULL;
  if (!at) ir_read_fail(r, span, "expected one of the dimensions `%s`", letters);
  return at ? (int)(at - letters) : 0;
}

static int read_letters(ir_reader *r, char letters[IR_MAX_RANK + 1]) {
  int rank = 0;
  ir_read_expect(r, "[");
  while (!ir_read_done(r, "]")) {
    ir_span span = r->token.span;
    const char *name = ir_read_name(r);
    if (strlen(name) != 1 || rank == IR_MAX_RANK || strchr(letters, name[0]))
      ir_read_fail(r, span, "the dimensions of a format are at most %d different letters",
                   IR_MAX_RANK);
    else
      letters[rank++] = name[0];
    if (!ir_read_at(r, "]")) ir_read_expect(r, ",");
  }
  ir_read_expect(r, "]");
  return rank;
}

static ir_level_kind read_level_kind(ir_reader *r) {
  const char *words[IR_LEVEL_COUNT + 1] = {NULL};
  for (int i = 0; i < IR_LEVEL_COUNT; i++) words[i] = ir_level_rows[i].text;
  return (ir_level_kind)ir_read_word(r, words, "a level");
}

static ir_level read_level(ir_reader *r, const char *letters) {
  ir_level level = {.unique = true};
  level.dim = read_letter(r, letters);
  if (ir_read_if(r, "/"))
    level.map = IR_MAP_DIV;
  else if (ir_read_if(r, "%"))
    level.map = IR_MAP_MOD;
  if (level.map != IR_MAP_WHOLE) level.factor = ir_read_int(r, 1, INT32_MAX);
  ir_read_expect(r, ":");
  level.kind = read_level_kind(r);
  if (!ir_read_if(r, "(")) return level;
  level.parameter = ir_read_int(r, 1, INT32_MAX);
  if (ir_read_if(r, ",")) level.has_pos = ir_read_int(r, 0, 1) != 0;
  ir_read_expect(r, ")");
  return level;
}

static void read_map(ir_reader *r, ir_format *f) {
  char letters[IR_MAX_RANK + 1] = "";
  ir_span span = r->token.span;
  f->rank = read_letters(r, letters);
  ir_read_expect(r, "->");
  ir_read_expect(r, "[");
  while (!ir_read_done(r, "]")) {
    ir_level level = read_level(r, letters);
    if (f->level_count == IR_MAX_LEVELS)
      ir_read_fail(r, span, "more than %d levels", IR_MAX_LEVELS);
    else
      f->level[f->level_count++] = level;
    if (!ir_read_at(r, "]")) ir_read_expect(r, ",");
  }
  ir_read_expect(r, "]");
  ir_format_settle(f);
  const char *fault = r->failed ? NULL : ir_format_fault(f);
  if (fault) ir_read_fail(r, span, "no legal format: %s", fault);
}

/* ---- names --------------------------------------------------------------------------------- */
static ir_format *read_format_name(ir_reader *r) {
  ir_format *f = IR_NEW(r->arena, ir_format);
  f->name = ir_read_name(r);
  if (!ir_read_if(r, "(")) return f;
  while (!ir_read_done(r, ")")) {
    int64_t argument = ir_read_int(r, INT64_MIN, INT64_MAX);
    if (f->argument_count == IR_COUNT(f->argument))
      ir_read_fail(r, r->token.span, "a format has at most %d arguments", IR_COUNT(f->argument));
    else
      f->argument[f->argument_count++] = argument;
    if (!ir_read_at(r, ")")) ir_read_expect(r, ",");
  }
  ir_read_expect(r, ")");
  return f;
}

static bool same_name(const ir_format *a, const ir_format *b) {
  return a->argument_count == b->argument_count && !strcmp(a->name, b->name) &&
         !memcmp(a->argument, b->argument, sizeof a->argument);
}

static const ir_format *declared(const ir_reader *r, const ir_format *named, int rank) {
  for (int i = 0; i < r->program->formats.count; i++) {
    const ir_format *known = r->program->formats.at[i];
    if (known->rank == rank && same_name(known, named)) return known;
  }
  return NULL;
}

const ir_format *ir_read_format(ir_reader *r, int rank) {
  ir_span span = r->token.span;
  ir_format *f = read_format_name(r);
  if (ir_read_at(r, "[")) {
    read_map(r, f);
    if (f->rank != rank)
      ir_read_fail(r, span, "the format has %d dimensions, the tensor %d", f->rank, rank);
    return f;
  }
  const char *why = "";
  if (r->failed) return NULL;
  const ir_format *known = declared(r, f, rank);
  if (!known)
    known = ir_format_builtin(r->arena, f->name, rank, f->argument, f->argument_count, &why);
  if (!known) ir_read_fail(r, span, "`%s` cannot be used here: %s", f->name, why);
  return known;
}

void ir_read_format_declaration(ir_reader *r) {
  ir_format *f = read_format_name(r);
  ir_read_expect(r, "=");
  read_map(r, f);
  ir_read_expect(r, ";");
  if (ir_read_room(r, r->program->formats.count)) IR_PUSH(r->arena, &r->program->formats, f);
}

/* ---- schedules ----------------------------------------------------------------------------- */
static void read_sizes(ir_reader *r, ir_directive *d) {
  while (!r->failed && !ir_read_at(r, ";") && !ir_read_at(r, "applied")) {
    if (d->count == IR_COUNT(d->name)) {
      ir_read_fail(r, r->token.span, "at most %d sizes", IR_COUNT(d->name));
      return;
    }
    d->name[d->count] = ir_read_name(r);
    ir_read_expect(r, "=");
    d->size[d->count++] = ir_read_int(r, INT64_MIN, INT64_MAX);
  }
}

static void read_compact(ir_reader *r, ir_directive *d) {
  ir_read_expect(r, "axis");
  ir_read_expect(r, "=");
  d->name[0] = ir_read_name(r);
  d->count = 1;
  ir_read_expect(r, "gran");
  ir_read_expect(r, "=");
  ir_read_gran(r, &d->gran_rows, &d->gran_cols);
}

static void read_directive_format(ir_reader *r, ir_directive *d) {
  ir_read_expect(r, "rank");
  int rank = (int)ir_read_int(r, 0, IR_MAX_RANK);
  ir_read_expect(r, "=");
  d->format = ir_read_format(r, rank);
}

static void read_directive_rest(ir_reader *r, ir_directive *d) {
  if (d->kind == IR_DO_COMPACT) {
    read_compact(r, d);
  } else if (d->kind == IR_DO_FUSE) {
    ir_read_expect(r, "into");
    d->into = ir_read_name(r);
  } else if (d->kind == IR_DO_FORMAT) {
    read_directive_format(r, d);
  } else if (d->kind == IR_DO_PRECISION) {
    ir_read_expect(r, "=");
    d->precision = (ir_precision)ir_read_word(r, ir_words_precision, "a precision");
  } else {
    read_sizes(r, d);
  }
}

static ir_directive read_directive(ir_reader *r) {
  ir_directive d = {.span = r->token.span};
  d.kind = (ir_directive_kind)ir_read_word(r, ir_words_directive, "a directive");
  if (d.kind == IR_DO_STAGES || d.kind == IR_DO_WARPS) {
    d.number = ir_read_int(r, INT64_MIN, INT64_MAX);
  } else {
    d.tensor = ir_read_name(r);
    read_directive_rest(r, &d);
  }
  d.applied = ir_read_if(r, "applied");
  d.span.end = r->token.span.begin;
  ir_read_expect(r, ";");
  return d;
}

void ir_read_schedule(ir_reader *r) {
  ir_schedule *s = IR_NEW(r->arena, ir_schedule);
  s->span = r->token.span;
  s->kernel = ir_read_name(r);
  if (ir_read_if(r, "for")) s->target = ir_read_name(r);
  ir_read_expect(r, "{");
  while (!ir_read_done(r, "}")) {
    ir_directive d = read_directive(r);
    if (ir_read_room(r, s->directives.count)) IR_PUSH(r->arena, &s->directives, d);
  }
  ir_read_expect(r, "}");
  if (ir_read_room(r, r->program->schedules.count)) IR_PUSH(r->arena, &r->program->schedules, s);
}
