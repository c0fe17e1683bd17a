/* lexer.h - `.spx` text to tokens.
 *
 * Tokens are byte ranges; comments are kept (the formatter needs them), white space is not.  Faults
 * leave an FE_T_BAD token and a message, which the parser reports when it comes to the token. */
#ifndef SPC_FRONTEND_LEXER_H
#define SPC_FRONTEND_LEXER_H

#include "ir/ir.h"

typedef enum fe_token_kind {
  FE_T_END,
  FE_T_BAD,
  FE_T_COMMENT,
  FE_T_NAME,
  FE_T_WORD,
  FE_T_INT,
  FE_T_NUMBER,
  FE_T_RXC,
  FE_T_SEMI,
  FE_T_COLON,
  FE_T_COMMA,
  FE_T_LPAREN,
  FE_T_RPAREN,
  FE_T_LBRACKET,
  FE_T_RBRACKET,
  FE_T_LBRACE,
  FE_T_RBRACE,
  FE_T_DOTS,
  FE_T_ARROW,
  FE_T_TILDE,
  FE_T_NEAR,
  FE_T_ASSIGN,
  FE_T_ADD_TO,
  FE_T_PLUS,
  FE_T_MINUS,
  FE_T_STAR,
  FE_T_SLASH,
  FE_T_PERCENT,
  FE_T_LT,
  FE_T_LE,
  FE_T_GT,
  FE_T_GE,
  FE_T_EQ,
  FE_T_NE
} fe_token_kind;

/* The reserved words of the grammar; dtypes, reducers and functions are reserved by their tables.
 */
typedef enum fe_word {
  FE_W_NONE,
#define SPC_WORD(NAME, TEXT) FE_W_##NAME,
#include "frontend/word.def"
#undef SPC_WORD
  FE_W_COUNT
} fe_word;

typedef struct fe_token {
  fe_token_kind kind;
  fe_word word; /* FE_T_WORD; FE_W_NONE: a dtype, a reducer, a function */
  uint32_t begin, end;
} fe_token;

typedef struct fe_tokens {
  IR_VEC(fe_token) list;
} fe_tokens;

typedef struct fe_lexical { /* a fault; its token begins where the span does */
  ir_diag_id id;
  ir_span span;
  const char *text;
} fe_lexical;
typedef struct fe_lexicals {
  IR_VEC(fe_lexical) list;
} fe_lexicals;

typedef struct fe_lex {
  ir_arena *arena;
  ir_sink *sink;
  uint32_t file;
  const char *text;
  uint32_t length;
  fe_tokens tokens;
  fe_lexicals faults;
  bool unreadable; /* not UTF-8: reported, no tokens */
} fe_lex;

void fe_lex_run(fe_lex *lex); /* fills lex->tokens; the last token is FE_T_END */
const char *fe_word_text(fe_word word);
ir_op fe_function_find(const char *text); /* FN of the grammar; IR_OP_COUNT when it is none */
const char *fe_function_name(int i);      /* NULL past the last */

#endif
