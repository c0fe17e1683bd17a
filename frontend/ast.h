/* ast.h - the syntax tree of a `.spx` file, as the parser leaves it and the checker annotates it.
 *
 * One node shape serves value expressions, subscripts and sizes.  Names are plain text with spans;
 * fields under "set by the checker" are empty until check_names has run.  A construct that did not
 * parse is absent, and `broken` tells that something is missing, so that later checks stay silent
 * about what it may have declared. */
#ifndef SPC_FRONTEND_AST_H
#define SPC_FRONTEND_AST_H

#include "frontend/frontend.h"
#include "frontend/lexer.h"

typedef struct fe_symbol fe_symbol; /* check.h */
typedef struct fe_expr fe_expr;

typedef struct fe_name {
  const char *text;
  ir_span span;
} fe_name;

typedef enum fe_expr_kind {
  FE_NUMBER, /* also inf and nan */
  FE_ACCESS, /* a name, with or without subscripts */
  FE_UNARY,  /* -x, not x */
  FE_BINARY,
  FE_REDUCE, /* sum[d] x */
  FE_CALL,   /* relu(x) */
  FE_SOFTMAX,
  FE_TOPK,
  FE_CAST
} fe_expr_kind;

struct fe_expr {
  fe_expr_kind kind;
  ir_op op;
  ir_reducer reducer;
  ir_dtype dtype;   /* FE_CAST: the target. Set by the checker for all others; IR_NONE: a number
                       that takes its neighbour's dtype, or a fault that was reported */
  bool is_integer;  /* FE_NUMBER without fraction and exponent */
  bool subscripted; /* FE_ACCESS with brackets */
  bool parens;      /* written in parentheses */
  double number;
  int64_t integer;        /* FE_NUMBER; k of FE_TOPK */
  const char *name;       /* FE_ACCESS */
  IR_VEC(fe_expr *) args; /* operands, or subscripts */
  IR_VEC(fe_name) bound;  /* FE_REDUCE, FE_SOFTMAX, FE_TOPK */
  int height;             /* of the tree below, for the nesting limit */
  ir_span span, at;       /* all of it; the token that names it (operator, function, name) */
  /* set by the checker */
  fe_symbol *symbol;        /* FE_ACCESS: what the name stands for; NULL: unknown, reported */
  IR_VEC(fe_symbol *) over; /* FE_REDUCE, FE_SOFTMAX, FE_TOPK: what bound[] stands for */
  bool fraction;            /* a number (or an expression of numbers) that needs a float */
};

typedef struct fe_fmt {
  fe_name name;
  IR_VEC(int64_t) args;
  ir_span span;
} fe_fmt;

typedef struct fe_pat {
  bool is_static;
  double low, high;   /* -1: not given */
  int64_t rows, cols; /* 0: not given */
  fe_name axis;       /* text NULL: not given */
  ir_span span, density_span, gran_span;
} fe_pat;

typedef struct fe_shape {
  IR_VEC(fe_expr *) dims;
  ir_span span;
} fe_shape;

typedef struct fe_in {
  fe_name name;
  bool is_pattern, constant;
  ir_dtype dtype;
  fe_shape shape;
  fe_fmt *format;
  fe_pat *pattern;
  fe_expr *fill;
} fe_in;

typedef struct fe_ragged {
  fe_name name;
  fe_expr *from, *to;
} fe_ragged;

typedef struct fe_grad {
  fe_name of;
  IR_VEC(fe_name) wrt;
  ir_span span;
} fe_grad;

typedef struct fe_stmt {
  bool is_out;
  fe_expr *target;
  ir_reducer combine; /* IR_RED_COUNT: `=` */
  ir_span assign;     /* the `=`, `+=` */
  fe_expr *value, *cond, *fill;
  ir_dtype dtype; /* IR_NONE: not stated */
  ir_span dtype_span;
  bool has_shape;
  fe_shape shape;
  ir_dtype acc; /* IR_NONE: not stated */
  ir_span acc_span;
  fe_fmt *format;
  fe_name like;    /* text NULL: none */
  ir_span as_span; /* `as` and what follows it */
  fe_pat *pattern;
  ir_race race;
  ir_span race_span, span;
  uint32_t value_end; /* byte after the value, the condition and its fill: where `: f32[N]` goes */
  /* set by the checker */
  bool bad; /* a fault was reported: not lowered */
  fe_symbol *symbol;
  IR_VEC(fe_symbol *) free; /* indices of the left side */
  bool scatter;
  ir_stmt *lowered;
} fe_stmt;

typedef enum fe_member_kind { FE_IN, FE_RAGGED, FE_GRAD, FE_STMT } fe_member_kind;
typedef struct fe_member {
  fe_member_kind kind;
  union {
    fe_in *in;
    fe_ragged *ragged;
    fe_grad *grad;
    fe_stmt *stmt;
  };
} fe_member;

typedef struct fe_kernel {
  fe_name name;
  IR_VEC(fe_member) members;
  IR_VEC(const char *) lost; /* names whose declaration did not parse */
  IR_VEC(ir_span) lost_text; /* the text of those members */
  bool broken;               /* a member was lost that may have declared anything */
  ir_span span;
} fe_kernel;

typedef struct fe_dim {
  fe_name name;
  fe_expr *value;          /* NULL: dyn */
  int64_t multiple, bound; /* 0: not given */
  ir_span multiple_span, bound_span;
} fe_dim;

typedef struct fe_level {
  fe_name dim;
  ir_level_map map;
  fe_expr *factor; /* a number or a parameter's name */
  fe_name kind;
  IR_VEC(fe_expr *) args;
  ir_span span;
} fe_level;

typedef struct fe_format_def {
  fe_name name;
  IR_VEC(fe_name) params, dims;
  IR_VEC(fe_level) levels;
  ir_span span;
  bool bad; /* a fault was reported */
} fe_format_def;

typedef struct fe_size {
  fe_name name;
  int64_t value;
} fe_size;
typedef struct fe_directive {
  ir_directive_kind kind;
  fe_name tensor, into, axis;
  IR_VEC(fe_size) sizes;
  int64_t rows, cols, number;
  fe_fmt *format;
  fe_name precision;
  ir_span span, number_span;
} fe_directive;

typedef struct fe_schedule {
  fe_name kernel, target; /* target.text NULL: every target */
  IR_VEC(fe_directive *) directives;
  ir_span span;
} fe_schedule;

typedef enum fe_item_kind {
  FE_ITEM_DIM,
  FE_ITEM_FORMAT,
  FE_ITEM_KERNEL,
  FE_ITEM_SCHEDULE,
  FE_ITEM_TEST
} fe_item_kind;
typedef struct fe_item {
  fe_item_kind kind;
  union {
    fe_dim *dim;
    fe_format_def *format;
    fe_kernel *kernel;
    fe_schedule *schedule;
    fe_test *test;
  };
} fe_item;

struct fe_file {
  const char *name;
  uint32_t id; /* of the sink's sources; 0 without a sink */
  const char *text;
  size_t length;
  fe_tokens tokens; /* comments included, for the formatter */
  fe_lexicals faults;
  int64_t version;
  IR_VEC(fe_item) items;
  IR_VEC(fe_test *) tests;
  IR_VEC(const char *) lost; /* dims, formats and kernels whose declaration did not parse */
  bool broken;               /* an item was lost that may have declared anything */
  int errors;
  int first_diag; /* diagnostics of the sink before this file */
};

/* Limits that are stated in messages and in docs/language.md. */
enum { FE_MOST_HEIGHT = 256, FE_MOST_BYTES = 16 << 20 };

fe_expr *fe_expr_new(ir_arena *arena, fe_expr_kind kind, ir_span at);
ir_span fe_span_join(ir_span a, ir_span b);
bool fe_is_zero(const fe_expr *e);                  /* the number 0 */
void fe_print_expr(const fe_expr *e, ir_text *out); /* one line, for messages and --emit=ast */

#endif
