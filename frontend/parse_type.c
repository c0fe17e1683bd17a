/* parse_type.c - what stands to the right of a name: shapes, storage formats, value patterns; and
 * the definition of a format. */
#include "frontend/parse.h"

bool fe_parse_shape(fe_parser *p, fe_shape *shape) {
  ir_span begin = fe_token_span(p, fe_peek(p));
  if (!fe_need(p, FE_T_LBRACKET, "`[` and the shape")) return false;
  if (!fe_take(p, FE_T_RBRACKET)) {
    do {
      fe_expr *size = fe_parse_size(p);
      if (!size) return false;
      IR_PUSH(p->arena, &shape->dims, size);
    } while (fe_take(p, FE_T_COMMA));
    if (!fe_need(p, FE_T_RBRACKET, "`,` or `]`")) return false;
  }
  shape->span = fe_span_since(p, begin);
  if (shape->dims.count <= IR_MAX_RANK) return true;
  fe_fault(p, IR_DIAG_RANK, shape->span, "%d dimensions; a tensor has at most %d",
           shape->dims.count, IR_MAX_RANK);
  return false;
}

fe_fmt *fe_parse_fmt(fe_parser *p) {
  fe_fmt *fmt = IR_NEW(p->arena, fe_fmt);
  if (!fe_need_format_name(p, "a storage format", &fmt->name)) return NULL;
  if (fe_take(p, FE_T_LPAREN)) {
    do {
      int64_t value;
      if (!fe_need_int(p, "an integer", &value, NULL)) return NULL;
      IR_PUSH(p->arena, &fmt->args, value);
    } while (fe_take(p, FE_T_COMMA));
    if (!fe_need(p, FE_T_RPAREN, "`,` or `)`")) return NULL;
  }
  fmt->span = fe_span_since(p, fmt->name.span);
  return fmt;
}

/* ---- ~ zeros(...) -------------------------------------------------------------------------- */
static bool parse_density(fe_parser *p, fe_pat *pat) {
  ir_span begin = fe_token_span(p, fe_peek(p));
  if (!fe_need_number(p, "a density from 0 to 1", &pat->low)) return false;
  pat->high = pat->low;
  if (fe_take(p, FE_T_DOTS) && !fe_need_number(p, "the upper density", &pat->high)) return false;
  pat->density_span = fe_span_since(p, begin);
  if (pat->low <= pat->high && pat->high <= 1) return true;
  fe_fault(p, IR_DIAG_HINT, pat->density_span,
           "a density is the share of non-zeros, from 0 to 1, the smaller one first");
  return false;
}

static bool parse_hint(fe_parser *p, fe_pat *pat) {
  if (fe_take_word(p, FE_W_DENSITY)) return fe_need(p, FE_T_ASSIGN, "`=`") && parse_density(p, pat);
  if (fe_take_word(p, FE_W_GRAN))
    return fe_need(p, FE_T_ASSIGN, "`=`") &&
           fe_need_gran(p, &pat->rows, &pat->cols, &pat->gran_span);
  if (fe_take_word(p, FE_W_AXIS))
    return fe_need(p, FE_T_ASSIGN, "`=`") && fe_need_name(p, "an index", &pat->axis);
  fe_expected(p, "`density=`, `gran=` or `axis=`");
  return false;
}

fe_pat *fe_parse_pat(fe_parser *p) {
  fe_pat *pat = IR_NEW(p->arena, fe_pat);
  pat->span = fe_token_span(p, fe_peek(p));
  pat->low = pat->high = -1;
  if (!fe_need_word(p, FE_W_ZEROS) || !fe_need(p, FE_T_LPAREN, "`(`")) return NULL;
  pat->is_static = fe_take_word(p, FE_W_STATIC);
  if (!pat->is_static && !fe_take_word(p, FE_W_DYNAMIC)) {
    fe_expected(p, "`dynamic` or `static`");
    return NULL;
  }
  while (fe_take(p, FE_T_COMMA))
    if (!parse_hint(p, pat)) return NULL;
  if (!fe_need(p, FE_T_RPAREN, "`,` or `)`")) return NULL;
  pat->span = fe_span_since(p, pat->span);
  return pat;
}

/* ---- format NAME(...) = [...] -> [...] ----------------------------------------------------- */
static fe_expr *parse_parameter(fe_parser *p) {
  ir_span at = fe_token_span(p, fe_peek(p));
  fe_expr *e = fe_expr_new(p->arena, FE_NUMBER, at);
  fe_name name;
  if (fe_at(p, FE_T_INT)) return fe_need_int(p, "a number", &e->integer, NULL) ? e : NULL;
  if (!fe_need_name(p, "a number or a parameter of the format", &name)) return NULL;
  e->kind = FE_ACCESS;
  e->name = name.text;
  return e;
}

static bool parse_level(fe_parser *p, fe_level *level) {
  level->span = fe_token_span(p, fe_peek(p));
  if (!fe_need_name(p, "a dimension of the format", &level->dim)) return false;
  level->map = fe_at(p, FE_T_SLASH)     ? IR_MAP_DIV
               : fe_at(p, FE_T_PERCENT) ? IR_MAP_MOD
                                        : IR_MAP_WHOLE;
  if (level->map != IR_MAP_WHOLE) {
    fe_skip(p);
    if (!(level->factor = parse_parameter(p))) return false;
  }
  if (!fe_need(p, FE_T_COLON, "`:` and a kind of level") ||
      !fe_need_format_name(p, "a kind of level", &level->kind))
    return false;
  if (fe_take(p, FE_T_LPAREN)) {
    do {
      fe_expr *arg = parse_parameter(p);
      if (!arg) return false;
      IR_PUSH(p->arena, &level->args, arg);
    } while (fe_take(p, FE_T_COMMA));
    if (!fe_need(p, FE_T_RPAREN, "`,` or `)`")) return false;
  }
  level->span = fe_span_since(p, level->span);
  return true;
}

static bool parse_params(fe_parser *p, fe_format_def *def) {
  if (!fe_take(p, FE_T_LPAREN)) return true;
  do {
    fe_name name;
    if (!fe_need_name(p, "a parameter", &name)) return false;
    IR_PUSH(p->arena, &def->params, name);
  } while (fe_take(p, FE_T_COMMA));
  return fe_need(p, FE_T_RPAREN, "`,` or `)`");
}

static bool parse_dims(fe_parser *p, fe_format_def *def) {
  if (!fe_need(p, FE_T_LBRACKET, "`[` and the dimensions")) return false;
  do {
    fe_name name;
    if (!fe_need_name(p, "a dimension", &name)) return false;
    IR_PUSH(p->arena, &def->dims, name);
  } while (fe_take(p, FE_T_COMMA));
  return fe_need(p, FE_T_RBRACKET, "`,` or `]`");
}

static bool parse_levels(fe_parser *p, fe_format_def *def) {
  if (!fe_need(p, FE_T_LBRACKET, "`[` and the levels")) return false;
  do {
    fe_level level = {0};
    if (!parse_level(p, &level)) return false;
    IR_PUSH(p->arena, &def->levels, level);
  } while (fe_take(p, FE_T_COMMA));
  return fe_need(p, FE_T_RBRACKET, "`,` or `]`");
}

/* The word `format` has been taken. The result is NULL only where not even the name was there. */
fe_format_def *fe_parse_format(fe_parser *p) {
  fe_format_def *def = IR_NEW(p->arena, fe_format_def);
  if (!fe_need_name(p, "the name of a format", &def->name)) return NULL;
  def->bad =
      !(parse_params(p, def) && fe_need(p, FE_T_ASSIGN, "`=`") && parse_dims(p, def) &&
        fe_need(p, FE_T_ARROW, "`->`") && parse_levels(p, def) && fe_need_semi(p, "a format"));
  def->span = fe_span_since(p, def->name.span);
  return def;
}
