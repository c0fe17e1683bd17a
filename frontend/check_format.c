/* check_format.c - storage formats: built-in ones, and the user's level maps with their parameters.
 */
#include "frontend/check.h"

enum { MOST_PARAMS = 4, PROBE = 4 };

/* ---- the user's own ------------------------------------------------------------------------ */
typedef struct binding {
  const fe_format_def *def;
  const int64_t *args;
} binding;

static int name_place(const fe_name *names, int count, const char *text) {
  for (int i = 0; i < count; i++)
    if (!strcmp(names[i].text, text)) return i;
  return -1;
}

static bool parameter_value(fe_check *c, const binding *b, const fe_expr *e, int64_t *value) {
  if (e->kind == FE_NUMBER) {
    *value = e->integer;
    return true;
  }
  int at = name_place(b->def->params.at, b->def->params.count, e->name);
  if (at >= 0) {
    *value = b->args[at];
    return true;
  }
  fe_error(c, IR_DIAG_FORMAT_DEF, e->at, "`%s` is not a parameter of the format `%s`", e->name,
           b->def->name.text);
  return false;
}

static ir_level_kind level_kind(const char *text) {
  for (int i = 0; i < IR_LEVEL_COUNT; i++)
    if (!strcmp(ir_level_rows[i].text, text)) return (ir_level_kind)i;
  return IR_LEVEL_COUNT;
}

static bool unknown_level(fe_check *c, const fe_level *level) {
  const char *known[IR_LEVEL_COUNT];
  for (int i = 0; i < IR_LEVEL_COUNT; i++) known[i] = ir_level_rows[i].text;
  ir_diag *d = fe_error(c, IR_DIAG_FORMAT_DEF, level->kind.span,
                        "there is no kind of level `%s`; there are dense, compressed, singleton, "
                        "bitmap, nm and packed",
                        level->kind.text);
  const char *nearest = ir_nearest(level->kind.text, known, IR_LEVEL_COUNT);
  if (nearest) ir_diag_fix(c->sink, d, level->kind.span, nearest, "did you mean `%s`?", nearest);
  return false;
}

static bool level_arguments(fe_check *c, const binding *b, const fe_level *level, ir_level *out) {
  bool nm = out->kind == IR_LEVEL_NM, packed = out->kind == IR_LEVEL_PACKED;
  int least = nm || packed, most = packed ? 2 : least;
  if (level->args.count < least || level->args.count > most) {
    fe_error(c, IR_DIAG_FORMAT_DEF, level->kind.span, "%s",
             nm       ? "write `nm(n)`: n of every m coordinates are kept"
             : packed ? "write `packed(capacity)`, or `packed(capacity,1)` to store counts"
                      : "this kind of level takes no arguments");
    return false;
  }
  int64_t counts = 0;
  if (least && !parameter_value(c, b, level->args.at[0], &out->parameter)) return false;
  if (level->args.count > 1 && !parameter_value(c, b, level->args.at[1], &counts)) return false;
  out->has_pos = counts != 0;
  return true;
}

static bool make_level(fe_check *c, const binding *b, const fe_level *level, ir_level *out) {
  out->dim = name_place(b->def->dims.at, b->def->dims.count, level->dim.text);
  out->map = level->map;
  out->kind = level_kind(level->kind.text);
  if (out->dim < 0) {
    fe_error(c, IR_DIAG_FORMAT_DEF, level->dim.span, "`%s` is not a dimension of the format `%s`",
             level->dim.text, b->def->name.text);
    return false;
  }
  if (out->kind == IR_LEVEL_COUNT) return unknown_level(c, level);
  if (level->factor && !parameter_value(c, b, level->factor, &out->factor)) return false;
  return level_arguments(c, b, level, out);
}

static bool nm_place_fault(fe_check *c, const fe_format_def *def, const ir_format *f, int k) {
  if (f->level[k].kind != IR_LEVEL_NM ||
      (f->level[k].dim == f->rank - 1 && k == def->levels.count - 1))
    return false;
  fe_error(c, IR_DIAG_NM_AXIS, def->levels.at[k].span,
           "`nm` stands on the last dimension, `%s`, as the innermost level",
           def->dims.at[f->rank - 1].text);
  return true;
}

static const ir_format *make_own(fe_check *c, const fe_format_def *def, const int64_t *args,
                                 ir_span span) {
  ir_format *f = IR_NEW(c->arena, ir_format);
  *f = (ir_format){
      .name = def->name.text, .rank = def->dims.count, .argument_count = def->params.count};
  if (f->rank > IR_MAX_RANK || def->levels.count > IR_MAX_LEVELS) {
    fe_error(c, IR_DIAG_FORMAT_DEF, def->name.span,
             "a format has at most %d dimensions and %d levels", IR_MAX_RANK, IR_MAX_LEVELS);
    return NULL;
  }
  for (int i = 0; i < def->params.count; i++) f->argument[i] = args[i];
  binding b = {def, args};
  for (int k = 0; k < def->levels.count; k++, f->level_count++)
    if (!make_level(c, &b, &def->levels.at[k], &f->level[k]) || nm_place_fault(c, def, f, k))
      return NULL;
  ir_format_settle(f);
  const char *fault = ir_format_fault(f);
  if (!fault) return f;
  fe_error(c, IR_DIAG_FORMAT_DEF, span, "`%s` is not a format: %s", def->name.text, fault);
  return NULL;
}

static const char *name_twice(const fe_name *names, int count) {
  for (int i = 1; i < count; i++)
    if (name_place(names, i, names[i].text) >= 0) return names[i].text;
  return NULL;
}

static bool is_builtin(const char *name) {
  for (int i = 0; i < ir_format_builtin_count(); i++)
    if (!strcmp(ir_format_builtin_name(i), name)) return true;
  return false;
}

/* A definition is tried with every parameter at a small value, so that its faults show where it
 * stands; what depends on the values shows where it is used. */
static void check_def(fe_check *c, fe_format_def *def) {
  static const int64_t probe[MOST_PARAMS] = {PROBE, PROBE, PROBE, PROBE};
  const char *twice = name_twice(def->params.at, def->params.count);
  if (!twice) twice = name_twice(def->dims.at, def->dims.count);
  int before = c->errors;
  if (is_builtin(def->name.text))
    fe_error(c, IR_DIAG_REDEFINED, def->name.span, "`%s` is a built-in format; choose another name",
             def->name.text);
  else if (def->bad)
    return; /* did not parse */
  else if (twice)
    fe_error(c, IR_DIAG_FORMAT_DEF, def->name.span, "the name `%s` occurs twice", twice);
  else if (def->params.count > MOST_PARAMS)
    fe_error(c, IR_DIAG_FORMAT_DEF, def->params.at[MOST_PARAMS].span,
             "a format has at most %d parameters", MOST_PARAMS);
  else
    make_own(c, def, probe, def->name.span);
  if (c->errors > before) def->bad = true;
}

void fe_format_check_defs(fe_check *c) {
  for (int i = 0; i < c->file->items.count; i++)
    if (c->file->items.at[i].kind == FE_ITEM_FORMAT) check_def(c, c->file->items.at[i].format);
}

/* ---- a use --------------------------------------------------------------------------------- */
static bool arguments_fit(fe_check *c, const fe_fmt *fmt, const fe_format_def *def, int rank) {
  if (fmt->args.count != def->params.count) {
    ir_diag *d =
        fe_error(c, IR_DIAG_FORMAT_USE, fmt->span, "`%s` takes %d number%s, not %d", def->name.text,
                 def->params.count, def->params.count == 1 ? "" : "s", fmt->args.count);
    ir_diag_note(c->sink, d, def->name.span, "it is defined here");
    return false;
  }
  if (rank != def->dims.count) {
    fe_error(c, IR_DIAG_FORMAT_USE, fmt->span, "`%s` stores %d dimension%s, this tensor has %d",
             def->name.text, def->dims.count, def->dims.count == 1 ? "" : "s", rank);
    return false;
  }
  for (int i = 0; i < fmt->args.count; i++)
    if (fmt->args.at[i] < 1 || fmt->args.at[i] > INT32_MAX) {
      fe_error(c, IR_DIAG_FORMAT_USE, fmt->span, "%lld is not a size from 1 to %d",
               (long long)fmt->args.at[i], INT32_MAX);
      return false;
    }
  return true;
}

static const ir_format *unknown_format(fe_check *c, const fe_fmt *fmt) {
  if (fe_is_lost(c, fmt->name.text)) return NULL;
  IR_VEC(const char *) known = {0};
  for (int i = 0; i < ir_format_builtin_count(); i++)
    IR_PUSH(c->arena, &known, ir_format_builtin_name(i));
  for (int i = 0; i < c->file->items.count; i++)
    if (c->file->items.at[i].kind == FE_ITEM_FORMAT)
      IR_PUSH(c->arena, &known, c->file->items.at[i].format->name.text);
  ir_diag *d = fe_error(c, IR_DIAG_FORMAT_USE, fmt->name.span, "there is no storage format `%s`",
                        fmt->name.text);
  const char *nearest = ir_nearest(fmt->name.text, known.at, known.count);
  if (nearest) ir_diag_fix(c->sink, d, fmt->name.span, nearest, "did you mean `%s`?", nearest);
  return NULL;
}

const ir_format *fe_format_make(fe_check *c, const fe_fmt *fmt, int rank) {
  const fe_format_def *def = fe_format_find(c, fmt->name.text);
  const char *why = NULL;
  if (def && !is_builtin(fmt->name.text)) {
    if (def->bad || !arguments_fit(c, fmt, def, rank)) return NULL;
    const ir_format *own = make_own(c, def, fmt->args.at, fmt->span);
    if (own) IR_PUSH(c->arena, &c->program->formats, own);
    return own;
  }
  if (!is_builtin(fmt->name.text)) return unknown_format(c, fmt);
  const ir_format *f =
      ir_format_builtin(c->arena, fmt->name.text, rank, fmt->args.at, fmt->args.count, &why);
  if (!f) fe_error(c, IR_DIAG_FORMAT_USE, fmt->span, "%s", why);
  return f;
}

/* ---- n:m ----------------------------------------------------------------------------------- */
void fe_format_check_multiple(fe_check *c, ir_tensor *tensor, ir_span span) {
  for (int k = 0; tensor->format && k < tensor->format->level_count; k++) {
    const ir_level *level = &tensor->format->level[k];
    int64_t size;
    if (level->kind != IR_LEVEL_NM || !tensor->dim[level->dim]) continue;
    if (fe_size_known(tensor->dim[level->dim], &size)) {
      if (size % level->factor)
        fe_error(
            c, IR_DIAG_NM_AXIS, span,
            "`%s` keeps n of every %lld, but its last dimension, %lld, is not a multiple of %lld",
            tensor->name, (long long)level->factor, (long long)size, (long long)level->factor);
    } else {
      ir_require need = {
          .tensor = tensor, .dim = level->dim, .multiple = level->factor, .span = span};
      IR_PUSH(c->arena, &c->kernel->needs, need);
    }
  }
}
