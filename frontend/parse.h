/* parse.h - the parser's state and what its files share; private to frontend/parse*.c.
 *
 * LL(1) by recursive descent.  After a fault the parser is in panic: it reports nothing more and
 * every function returns NULL or false until parse_recover has skipped to a place where the grammar
 * can go on. */
#ifndef SPC_FRONTEND_PARSE_H
#define SPC_FRONTEND_PARSE_H

#include "frontend/ast.h"

typedef struct fe_parser {
  ir_arena *arena;
  ir_sink *sink;
  fe_file *file;
  fe_token *tokens; /* without comments */
  int at, errors, depth;
  bool panic;
  IR_VEC(const char *) misnamed; /* reserved words that were used as names: said once */
} fe_parser;

/* parse_token.c */
const fe_token *fe_peek(const fe_parser *p);
const fe_token *fe_peek_next(const fe_parser *p);
ir_span fe_token_span(const fe_parser *p, const fe_token *t);
ir_span fe_span_since(const fe_parser *p, ir_span begin); /* up to the last token taken */
bool fe_at(const fe_parser *p, fe_token_kind kind);
bool fe_at_word(const fe_parser *p, fe_word word);
bool fe_take(fe_parser *p, fe_token_kind kind); /* takes it when it is there */
bool fe_take_word(fe_parser *p, fe_word word);
bool fe_need(fe_parser *p, fe_token_kind kind, const char *what); /* fault when it is not */
bool fe_need_word(fe_parser *p, fe_word word);
bool fe_need_name(fe_parser *p, const char *what, fe_name *name);
bool fe_need_format_name(fe_parser *p, const char *what, fe_name *name); /* `dense` is one too */
bool fe_need_int(fe_parser *p, const char *what, int64_t *value, ir_span *span);
bool fe_need_number(fe_parser *p, const char *what, double *value); /* INT or NUMBER */
bool fe_need_dtype(fe_parser *p, ir_dtype *dtype, ir_span *span);
bool fe_need_gran(fe_parser *p, int64_t *rows, int64_t *cols, ir_span *span);
bool fe_need_semi(fe_parser *p, const char *after);
const char *fe_token_text(const fe_parser *p, const fe_token *t);
ir_diag *fe_fault(fe_parser *p, ir_diag_id id, ir_span span, const char *format, ...)
    IR_PRINTF(4, 5);
void fe_expected(fe_parser *p, const char *what); /* "expected WHAT, found ..." at the next token */
bool fe_first_on_line(const fe_parser *p, const fe_token *t);
void fe_skip(fe_parser *p);

/* parse_expr.c */
fe_expr *fe_parse_expr(fe_parser *p);
fe_expr *fe_parse_access(fe_parser *p);
fe_expr *fe_parse_size(fe_parser *p);  /* iexpr */
fe_expr *fe_parse_const(fe_parser *p); /* const */

/* parse_type.c */
fe_fmt *fe_parse_fmt(fe_parser *p);
fe_pat *fe_parse_pat(fe_parser *p);
bool fe_parse_shape(fe_parser *p, fe_shape *shape);
fe_format_def *fe_parse_format(fe_parser *p);

/* parse_kernel.c, parse_schedule.c, parse_test.c */
fe_kernel *fe_parse_kernel(fe_parser *p);
fe_schedule *fe_parse_schedule(fe_parser *p);
fe_test *fe_parse_test(fe_parser *p);
bool fe_at_item(const fe_parser *p); /* a word that only an item of the file can begin with */
void fe_recover(fe_parser *p, bool in_block,
                int begin); /* leaves panic; skips at least one token since `begin` */

#endif
