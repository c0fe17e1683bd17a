/* parse_schedule.c - schedules: one function a form of directive. */
#include "frontend/parse.h"

static bool parse_sizes(fe_parser *p, fe_directive *d) {
  do {
    fe_size size = {0};
    if (!fe_need_name(p, "an index", &size.name) || !fe_need(p, FE_T_ASSIGN, "`=`") ||
        !fe_need_int(p, "a size", &size.value, NULL))
      return false;
    IR_PUSH(p->arena, &d->sizes, size);
  } while (d->kind == IR_DO_TILE && !fe_at(p, FE_T_SEMI) && !p->panic);
  return true;
}

static bool parse_compact(fe_parser *p, fe_directive *d) {
  return fe_need_word(p, FE_W_AXIS) && fe_need(p, FE_T_ASSIGN, "`=`") &&
         fe_need_name(p, "an index", &d->axis) && fe_need_word(p, FE_W_GRAN) &&
         fe_need(p, FE_T_ASSIGN, "`=`") && fe_need_gran(p, &d->rows, &d->cols, &d->number_span);
}

static bool parse_rest(fe_parser *p, fe_directive *d) {
  if (d->kind == IR_DO_STAGES || d->kind == IR_DO_WARPS)
    return fe_need_int(p, "a number", &d->number, &d->number_span);
  if (!fe_need_name(p, "a `let` or `out`", &d->tensor)) return false;
  switch (d->kind) {
  case IR_DO_COMPACT: return parse_compact(p, d);
  case IR_DO_TILE:
  case IR_DO_SPLIT: return parse_sizes(p, d);
  case IR_DO_FUSE:
    return fe_need_word(p, FE_W_INTO) && fe_need_name(p, "a `let` or `out`", &d->into);
  case IR_DO_FORMAT: return fe_need(p, FE_T_ASSIGN, "`=`") && (d->format = fe_parse_fmt(p)) != NULL;
  case IR_DO_PRECISION:
    return fe_need(p, FE_T_ASSIGN, "`=`") &&
           fe_need_name(p, "`tf32`, `tf32x3` or `full`", &d->precision);
  case IR_DO_DENSE:
  case IR_DO_LIBRARY:
  case IR_DO_REGROUP:
  case IR_DO_STAGES:
  case IR_DO_WARPS: break;
  }
  return true;
}

static bool parse_kind(fe_parser *p, ir_directive_kind *kind) {
  static const struct {
    fe_word word;
    ir_directive_kind kind;
  } kinds[] = {
      {FE_W_COMPACT, IR_DO_COMPACT}, {FE_W_TILE, IR_DO_TILE},     {FE_W_FUSE, IR_DO_FUSE},
      {FE_W_FORMAT, IR_DO_FORMAT},   {FE_W_SPLIT, IR_DO_SPLIT},   {FE_W_DENSE, IR_DO_DENSE},
      {FE_W_LIBRARY, IR_DO_LIBRARY}, {FE_W_STAGES, IR_DO_STAGES}, {FE_W_WARPS, IR_DO_WARPS},
      {FE_W_PRECISION, IR_DO_PRECISION}, {FE_W_REGROUP, IR_DO_REGROUP}};
  for (int i = 0; i < IR_COUNT(kinds); i++)
    if (fe_take_word(p, kinds[i].word)) {
      *kind = kinds[i].kind;
      return true;
    }
  fe_expected(p, "a directive (compact, tile, fuse, format, split, dense, library, stages, warps, "
                 "precision, regroup) or `}`");
  return false;
}

static fe_directive *parse_directive(fe_parser *p) {
  fe_directive *d = IR_NEW(p->arena, fe_directive);
  ir_span begin = fe_token_span(p, fe_peek(p));
  if (!parse_kind(p, &d->kind) || !parse_rest(p, d)) return NULL;
  d->span = fe_span_since(p, begin);
  return fe_need_semi(p, "a directive") ? d : NULL;
}

/* The word `schedule` has been taken. */
fe_schedule *fe_parse_schedule(fe_parser *p) {
  fe_schedule *s = IR_NEW(p->arena, fe_schedule);
  if (!fe_need_name(p, "the name of a kernel", &s->kernel)) return NULL;
  if (fe_take_word(p, FE_W_FOR) &&
      !fe_need_name(p, "a target such as `sm_90` or `cpu`", &s->target))
    return NULL;
  if (!fe_need(p, FE_T_LBRACE, "`{`")) return NULL;
  while (!fe_at(p, FE_T_RBRACE) && !fe_at(p, FE_T_END)) {
    int begin = p->at;
    fe_directive *d = parse_directive(p);
    if (d)
      IR_PUSH(p->arena, &s->directives, d);
    else
      fe_recover(p, true, begin);
    if (fe_at_item(p) && !fe_at_word(p, FE_W_FORMAT) && fe_first_on_line(p, fe_peek(p))) break;
  }
  if (!fe_need(p, FE_T_RBRACE, "`}` to close the schedule")) p->panic = false;
  s->span = fe_span_since(p, s->kernel.span);
  return s;
}
