/* parse.c - the file: its header, its items, and recovery after a fault.
 *
 * An item that does not parse leaves its name in file->lost (or sets file->broken), so that nothing
 * more is said about uses of it: five unrelated errors are five reports. */
#include "frontend/parse.h"

enum { MOST_ERRORS = 200 };

bool fe_at_item(const fe_parser *p) {
  return fe_at_word(p, FE_W_DIM) || fe_at_word(p, FE_W_FORMAT) || fe_at_word(p, FE_W_KERNEL) ||
         fe_at_word(p, FE_W_SCHEDULE) || fe_at_word(p, FE_W_TEST);
}

/* ---- recovery ------------------------------------------------------------------------------ */
static bool at_member(const fe_parser *p) {
  static const fe_word starts[] = {FE_W_IN,      FE_W_LET,    FE_W_OUT,   FE_W_RAGGED, FE_W_GRAD,
                                   FE_W_COMPACT, FE_W_TILE,   FE_W_FUSE,  FE_W_SPLIT,  FE_W_DENSE,
                                   FE_W_LIBRARY, FE_W_STAGES, FE_W_WARPS, FE_W_PRECISION,
                                   FE_W_EXPECT};
  for (int i = 0; i < IR_COUNT(starts); i++)
    if (fe_at_word(p, starts[i])) return true;
  return false;
}

static void skip_block(fe_parser *p) {
  int open = 0;
  while (!fe_at(p, FE_T_END) && !(fe_at_item(p) && fe_first_on_line(p, fe_peek(p)))) {
    if (fe_at(p, FE_T_LBRACE)) open++;
    bool closes = fe_at(p, FE_T_RBRACE);
    fe_skip(p);
    if (closes && --open <= 0) return;
  }
}

static bool can_go_on(const fe_parser *p, bool in_block) {
  if (fe_at(p, FE_T_END)) return true;
  if (in_block && fe_at(p, FE_T_RBRACE)) return true;
  return fe_first_on_line(p, fe_peek(p)) && (fe_at_item(p) || (in_block && at_member(p)));
}

/* After a `;`: does something begin here that the grammar knows? A set of a test is NAME = . */
static bool at_start(const fe_parser *p, bool in_block) {
  if (can_go_on(p, in_block) || fe_at_item(p)) return true;
  if (!in_block) return false;
  return at_member(p) || (fe_at(p, FE_T_NAME) && fe_peek_next(p)->kind == FE_T_ASSIGN);
}

void fe_recover(fe_parser *p, bool in_block, int begin) {
  p->panic = false;
  if (p->at == begin && !fe_at(p, FE_T_LBRACE) && !fe_at(p, FE_T_SEMI) &&
      !(in_block && fe_at(p, FE_T_RBRACE)))
    fe_skip(p);
  while (!can_go_on(p, in_block)) {
    bool semi = fe_at(p, FE_T_SEMI);
    if (!fe_at(p, FE_T_LBRACE)) {
      fe_skip(p);
      if (semi && at_start(p, in_block)) return;
      continue;
    }
    skip_block(p);
    if (!in_block) return;
  }
}

/* ---- dim ----------------------------------------------------------------------------------- */
static bool parse_dyn(fe_parser *p, fe_dim *dim) {
  if (!fe_need_word(p, FE_W_DYN)) return false;
  if (fe_take(p, FE_T_PERCENT) &&
      !fe_need_int(p, "an integer", &dim->multiple, &dim->multiple_span))
    return false;
  if (fe_take(p, FE_T_LE) && !fe_need_int(p, "an integer", &dim->bound, &dim->bound_span))
    return false;
  ir_span wrong = dim->multiple_span.end && dim->multiple == 0 ? dim->multiple_span
                  : dim->bound_span.end && dim->bound == 0     ? dim->bound_span
                                                               : IR_NOWHERE;
  if (!wrong.end) return true;
  fe_fault(p, IR_DIAG_NUMBER, wrong, "this must be at least 1");
  return false;
}

static fe_dim *parse_dim(fe_parser *p, fe_name *name) {
  fe_dim *dim = IR_NEW(p->arena, fe_dim);
  if (!fe_need_name(p, "the name of a dim", name)) return NULL;
  dim->name = *name;
  if (fe_take(p, FE_T_ASSIGN)) {
    if (!(dim->value = fe_parse_size(p))) return NULL;
  } else if (!fe_need(p, FE_T_COLON, "`= size` or `: dyn`") || !parse_dyn(p, dim)) {
    return NULL;
  }
  return fe_need_semi(p, "a dim") ? dim : NULL;
}

/* ---- items --------------------------------------------------------------------------------- */
static bool parse_item(fe_parser *p, fe_item *item, fe_name *name) {
  if (fe_take_word(p, FE_W_DIM)) {
    item->kind = FE_ITEM_DIM;
    return (item->dim = parse_dim(p, name)) != NULL;
  }
  if (fe_take_word(p, FE_W_FORMAT)) {
    item->kind = FE_ITEM_FORMAT;
    return (item->format = fe_parse_format(p)) != NULL;
  }
  if (fe_take_word(p, FE_W_KERNEL)) {
    item->kind = FE_ITEM_KERNEL;
    return (item->kernel = fe_parse_kernel(p)) != NULL;
  }
  if (fe_take_word(p, FE_W_SCHEDULE)) {
    item->kind = FE_ITEM_SCHEDULE;
    *name = (fe_name){"", IR_NOWHERE};
    return (item->schedule = fe_parse_schedule(p)) != NULL;
  }
  if (fe_take_word(p, FE_W_TEST)) {
    item->kind = FE_ITEM_TEST;
    *name = (fe_name){"", IR_NOWHERE};
    return (item->test = fe_parse_test(p)) != NULL;
  }
  fe_expected(p, "`dim`, `format`, `kernel`, `schedule` or `test`");
  return false;
}

static void parse_items(fe_parser *p) {
  while (!fe_at(p, FE_T_END) && p->errors < MOST_ERRORS) {
    fe_item item = {0};
    fe_name name = {NULL, IR_NOWHERE};
    int begin = p->at;
    if (parse_item(p, &item, &name)) {
      IR_PUSH(p->arena, &p->file->items, item);
      if (item.kind == FE_ITEM_TEST) IR_PUSH(p->arena, &p->file->tests, item.test);
      if (!p->panic) continue;
    } else if (name.text) {
      IR_PUSH(p->arena, &p->file->lost, name.text);
    } else {
      p->file->broken = true;
    }
    fe_recover(p, false, begin);
  }
}

static void parse_header(fe_parser *p) {
  ir_span span;
  int begin = p->at;
  if (!fe_at_word(p, FE_W_SPX)) {
    ir_diag *d = fe_fault(p, IR_DIAG_VERSION, fe_token_span(p, fe_peek(p)),
                          "a file begins with the version of the language, `spx 1;`");
    ir_diag_fix(p->sink, d, (ir_span){p->file->id, 0, 0}, "spx 1;\n", "add it");
    p->panic = false;
    return;
  }
  fe_skip(p);
  if (fe_need_int(p, "the version of the language, 1", &p->file->version, &span) &&
      p->file->version != 1) {
    ir_diag *d = fe_fault(p, IR_DIAG_VERSION, span,
                          "this compiler reads version 1 of the language, not %lld",
                          (long long)p->file->version);
    ir_diag_fix(p->sink, d, span, "1", "write 1");
    p->panic = false;
  }
  if (!fe_need_semi(p, "the version")) fe_recover(p, false, begin);
}

static fe_file *file_new(ir_arena *arena, const char *name, const char *text, size_t length,
                         ir_sink *sink) {
  fe_file *file = IR_NEW(arena, fe_file);
  file->name = ir_strdup(arena, name);
  file->id = ir_sink_source(sink, name, text, length);
  file->text = ir_strndup(arena, text, length);
  file->length = length;
  file->first_diag = sink ? sink->diags.count : 0;
  return file;
}

static fe_token *without_comments(fe_parser *p) {
  const fe_tokens *all = &p->file->tokens;
  fe_token *kept = IR_NEW_ARRAY(p->arena, fe_token, all->list.count);
  int count = 0;
  for (int i = 0; i < all->list.count; i++)
    if (all->list.at[i].kind != FE_T_COMMENT) kept[count++] = all->list.at[i];
  return kept;
}

spc_status fe_parse(ir_arena *arena, const char *name, const char *text, size_t length,
                    ir_sink *sink, fe_file **out) {
  if (length > FE_MOST_BYTES) {
    ir_diag_add(sink, IR_DIAG_NESTING, IR_NOWHERE,
                "`%s` has %zu bytes; a source file has at most %d", name, length, FE_MOST_BYTES);
    return SPC_INVALID_INPUT;
  }
  fe_file *file = file_new(arena, name, text, length, sink);
  fe_lex lex = {.arena = arena,
                .sink = sink,
                .file = file->id,
                .text = file->text,
                .length = (uint32_t)length};
  fe_lex_run(&lex);
  file->tokens = lex.tokens;
  file->faults = lex.faults;
  fe_parser p = {.arena = arena, .sink = sink, .file = file, .errors = lex.unreadable};
  p.tokens = without_comments(&p);
  *out = file;
  if (!lex.unreadable) {
    parse_header(&p);
    parse_items(&p);
  }
  file->errors = p.errors;
  return p.errors ? SPC_INVALID_INPUT : SPC_OK;
}
