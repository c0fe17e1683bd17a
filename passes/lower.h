/* lower.h - what the files of pass `lower` share: the state of one stage, what is known about each
 * operand at a point of the loop nest, and the steps of the work.
 *
 * A statement is a nest over its indices.  Every distinct access of the statement has a cursor in
 * the environment: the levels of its format that are known at this point, the position they lead
 * to, and the condition under which that position exists.  Opening a loop on an index walks the
 * level that is next in the operands whose zeros let points be skipped; every other level is
 * located by its coordinate as soon as that is known.  The target of the statement is an access
 * like any other: its position is where the result goes. */
#ifndef SPC_PASSES_LOWER_H
#define SPC_PASSES_LOWER_H

#include "passes/pass.h"

typedef struct lower_access {
  const ir_expr *expr; /* IR_ACCESS; equal expressions are one access */
  const ir_format *format;
  ir_buf *buf; /* values in a workspace; NULL: the tensor's own */
  bool target;
} lower_access;

typedef struct lower_cursor {
  int next;         /* first level that is not known yet */
  ir_expr *pos;     /* position in the level before; NULL at the root (0) */
  ir_expr *end;     /* a level whose coordinates repeat: positions pos .. end; else NULL */
  ir_expr *present; /* NULL: always; else the condition under which pos exists */
  bool readable;    /* pos is a place of the values even where it does not exist here */
} lower_cursor;

/* The value of an index; for a split loop also its block and the place in it. */
typedef struct lower_bound {
  const ir_index *index;
  ir_expr *value, *block, *rest;
  int64_t factor;
} lower_bound;

/* A reduction or row op that was computed in an outer loop. */
typedef struct lower_memo {
  const ir_expr *node;
  ir_expr *value[2];
} lower_memo;

enum { LOWER_INDICES = 40 };

typedef struct lower_env {
  int bound_count, memo_count;
  lower_bound bound[LOWER_INDICES];
  lower_cursor *cursor; /* by number of access */
  lower_memo *memo;
  const ir_expr *holds;        /* a condition that the innermost walk has established; NULL: none */
  const ir_index *strip_index; /* the loop over strips that is open */
  int64_t strip;
  ir_expr *strip_lo, *strip_hi; /* its rows */
  ir_expr *strip_number;
} lower_env;

/* No loop is open around it. */
static inline bool pass_env_is_outermost(const lower_env *env) {
  return env->bound_count == 0 && !env->strip_index;
}

/* Strips of an index of the result over which a dense operand is packed (lower_strips.c). */
typedef struct lower_strips {
  const ir_index *index, *rows, *k; /* NULL: there are none */
  const ir_expr *packed;
  int column_dim; /* of packed */
  int64_t width;
  ir_buf *buf;
  ir_expr *number; /* of the strip whose loop is open */
} lower_strips;

typedef struct lower_state {
  pass_context *context;
  ir_kernel *kernel;
  ir_stage *stage;
  ir_stmt *stmt;
  ir_arena *arena;
  ir_builder b;
  IR_VEC(lower_access) accesses;
  int memo_room;
  int target;      /* number of the target's access */
  ir_tensor *sums; /* of combining stores that need a workspace; NULL: the output itself */
  ir_buf *sums_buf;
  const ir_index
      *part_index; /* an index that is cut into parallel parts, lo .. hi of the current one */
  ir_expr *part_lo, *part_hi;
  lower_strips strips;
  bool skipped; /* a loop over the left side's indices left points out */
} lower_state;

/* ---- offsets and conditions (lower_code.c): b1 expressions where NULL is true ---------------- */
ir_expr *pass_code_add(lower_state *s, ir_expr *x, ir_expr *y);
ir_expr *pass_code_sub(lower_state *s, ir_expr *x, ir_expr *y);
ir_expr *pass_code_mul(lower_state *s, ir_expr *x, ir_expr *y);
ir_expr *pass_code_op(lower_state *s, ir_op op, ir_expr *x, ir_expr *y);
ir_expr *pass_code_int(lower_state *s, int64_t value);
ir_expr *pass_code_bool(lower_state *s, bool value);
ir_expr *pass_code_and(lower_state *s, ir_expr *x, ir_expr *y);
ir_expr *pass_code_or(lower_state *s, ir_expr *x, ir_expr *y);
ir_expr *pass_code_where(lower_state *s, ir_expr *condition, ir_expr *x, ir_expr *y);
ir_expr *pass_code_cast(lower_state *s, ir_dtype t, ir_expr *x);
ir_expr *pass_code_load(lower_state *s, ir_buf *buf, ir_expr *offset, ir_expr *mask);
ir_expr *pass_code_load_int(lower_state *s, ir_buf *buf, ir_expr *offset, ir_expr *mask);
ir_expr *pass_code_ref(lower_state *s, ir_var *var);
ir_expr *pass_code_let(lower_state *s, const char *name, ir_expr *value); /* a reference to it */
ir_code *pass_code_store(lower_state *s, ir_buf *buf, ir_expr *offset, ir_expr *value);
void pass_code_fill(lower_state *s, const char *name, ir_buf *buf, ir_expr *count, ir_expr *value);
bool pass_code_is_false(const ir_expr *condition);
/* buf of an array of a tensor; one object a kernel. */
ir_buf *pass_code_buffer(lower_state *s, const ir_tensor *tensor, ir_buf_kind kind, int level);
ir_buf *pass_code_workspace(lower_state *s, const char *name, ir_dtype dtype, ir_expr *count);
/* A new function; it becomes the one that is built.  The suffix is NULL for the main one. */
ir_func *pass_code_function(lower_state *s, const char *suffix);

/* ---- statements of fewer indices (lower_joined.c) --------------------------------------------- */
/* The stage's statement with pairs of indices as one, over views of its tensors; itself where there are none. */
ir_stmt *pass_lower_joined(lower_state *s);

/* ---- environments and accesses (lower_access.c) ---------------------------------------------- */
int pass_access_add(lower_state *s, const ir_expr *access);
int pass_access_number(lower_state *s, const ir_expr *access);
void pass_access_collect(lower_state *s, const ir_expr *e); /* all in e, subscripts too */
lower_env *pass_env_new(lower_state *s);
lower_env *pass_env_copy(lower_state *s, const lower_env *env);
lower_bound *pass_env_find(lower_env *env, const ir_index *index);
void pass_env_bind(lower_env *env, const ir_index *index, ir_expr *value);
/* Forgets an index and what was known because of it: a reduction binds it anew. */
void pass_env_forget(lower_state *s, lower_env *env, const ir_index *index);
lower_memo *pass_env_memo(lower_env *env, const ir_expr *node);
void pass_env_keep(lower_env *env, lower_memo memo);
bool pass_env_closes(lower_state *s, lower_env *env,
                     const ir_expr *e); /* every free index of e is bound */

/* ---- levels (lower_level.c) ------------------------------------------------------------------ */
const ir_format *pass_level_format(lower_state *s, const ir_tensor *tensor);
ir_expr *pass_level_extent(lower_state *s, const lower_access *access, int level);
/* Positions lo .. hi of the level's children under the cursor; empty where it is not present. */
void pass_level_range(lower_state *s, const lower_access *access, const lower_cursor *c,
                      ir_expr **lo, ir_expr **hi);
/* A parent under packed(capacity,1) (format.h): its listed positions lo .. hi, none where it lies
 * in the rest (flag); there coordinate c has position first + c, and holds an entry where crd is
 * not negative. */
typedef struct lower_rest {
  ir_expr *lo, *hi, *flag, *first, *extent;
} lower_rest;
void pass_level_rest(lower_state *s, const lower_access *access, const lower_cursor *c,
                     lower_rest *out);
ir_expr *pass_level_coordinate(lower_state *s, const lower_access *access, int level, ir_expr *pos,
                               ir_expr *mask);
void pass_level_dense(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *at);
void pass_level_locate(lower_state *s, const lower_access *access, lower_cursor *c, ir_expr *at);
/* Bitmaps: whether bit `flat` of the tile sequence is set, and how many are before it in its tile.
 */
ir_expr *pass_level_bit(lower_state *s, const lower_access *access, int level, ir_expr *flat,
                        ir_expr *mask);
ir_expr *pass_level_rank(lower_state *s, const lower_access *access, int level, ir_expr *flat,
                         ir_expr *mask);
/* Locates every level whose coordinate is known: of one access, of all. */
void pass_level_finish(lower_state *s, lower_env *env, int number);
void pass_level_resolve(lower_state *s, lower_env *env);
/* Positions of the first levels of a format together: of none, the root's 1. */
ir_expr *pass_level_positions(lower_state *s, const lower_access *access, int levels);
ir_expr *pass_level_stored(lower_state *s,
                           const ir_tensor *tensor); /* how many values are stored */

/* ---- values (lower_expr.c), what zeros make of them (lower_fold.c) --------------------------- */
ir_dtype pass_value_dtype(lower_state *s, ir_dtype t); /* what t is computed in */
ir_expr *pass_value(lower_state *s, lower_env *env, const ir_expr *e);
ir_expr *pass_value_const(lower_state *s, ir_dtype t, double value);
ir_expr *pass_value_condition(lower_state *s, lower_env *env,
                              const ir_expr *e); /* b1; NULL: true */
ir_expr *pass_value_subscript(lower_state *s, lower_env *env, const ir_expr *sub);

typedef struct lower_fold {
  bool known;
  double value;
} lower_fold;
/* The value of e where the accesses with absent[number] read their fill; at: the index that is
 * being opened, or NULL. absent NULL: every sparse access of e is absent. */
lower_fold pass_fold(lower_state *s, lower_env *env, const ir_expr *e, const bool *absent,
                     const ir_index *at);
/* e with what folds in it replaced by constants. */
ir_expr *pass_fold_tree(lower_state *s, lower_env *env, const ir_expr *e, const bool *absent,
                        const ir_index *at);
bool pass_access_is_sparse(const lower_access *access);

/* ---- nests (lower_nest.c, lower_walk.c) ------------------------------------------------------ */
typedef struct lower_nest lower_nest;
struct lower_nest {
  lower_state *s;
  const ir_expr *root; /* whose points are visited */
  const ir_expr *only; /* where this is false, nothing is done; NULL: it is the root's value that
                          decides */
  bool skips;          /* points where root is `skip` need not be visited */
  double skip;
  const ir_expr *rest; /* value of root at the points that are left out, which the leaf's owner
                          adds; NULL: `skip` */
  int driver;          /* access that must be present at every visited point; -1: none */
  int target;          /* access that is stored to: outside it nothing is done; -1: none */
  ir_index **index;
  int count;
  bool parallel; /* the outermost loop may be */
  const struct lower_row
      *row;     /* what is summed by the leaf, a row at a time; NULL: no such thing */
  bool shallow; /* the leaf opens no loops: its code may be written twice */
  bool spatial; /* the left side's indices: outer loops compute what they can, skips are noted */
  void (*leaf)(lower_nest *nest, lower_env *env);
  /* Around the outermost loop's body, where it is parallel, else around that loop: part `number` of
   * `count` begins or ends.  NULL: nobody asks. */
  void (*part)(lower_nest *nest, ir_expr *number, ir_expr *count, bool begins);
  void *user;
};
void pass_nest(lower_nest *nest, lower_env *env);
bool pass_nest_skips(const lower_nest *nest, lower_env *env, const bool *absent,
                     const ir_index *at);
void pass_nest_from(lower_nest *nest, lower_env *env, int n); /* loops n and deeper */
/* Narrows lo .. hi of a loop by the predicates of the nest (lower_bounds.c); true when it did. */
bool pass_nest_bounds(const lower_nest *nest, lower_env *env, const ir_index *index, ir_expr **lo,
                      ir_expr **hi);
/* One loop over the coordinates of an index: the operands that can be walked decide how. */
void pass_walk(lower_nest *nest, lower_env *env, int n, ir_expr *lo, ir_expr *hi);

/* ---- rows of a sparse result that are summed in a workspace (lower_workspace.c) ----------------
 * One dense row of sums, and which of its places are taken: words of bits, words that say which
 * words are not empty, and once more.  Clean before and after each row. */
typedef struct lower_row lower_row;
struct lower_row {
  const ir_expr *hole;   /* the reduction */
  const ir_expr *points; /* its points where a place is taken */
  const ir_index *last;  /* the index along the row */
  ir_index **index;      /* the loops inside the row, outermost first */
  int index_count;
  ir_buf *sums, *seen, *bits[3];
  ir_buf *places; /* of a row whose words are all visited, before any of them is; NULL: one by one */
  ir_expr *deep;   /* whether the upper two of bits are kept; NULL: they are */
  ir_var *words;   /* a bit a word of bits[0] that holds something, of rows that are visited whole; NULL: nobody asks */
  bool values;     /* sums are made; else only places are taken */
  ir_var *counter; /* counts places as they are taken; NULL: nobody asks */
};
void pass_row_open(lower_state *s, lower_row *row); /* its workspaces */
void pass_row_accumulate(lower_state *s, lower_env *env, lower_row *row);
/* Visits the places in ascending order and leaves the row clean; entry NULL: only that. */
void pass_row_flush(lower_state *s, lower_env *env, lower_row *row,
                    void (*entry)(void *user, lower_env *env), void *user);

/* ---- room for a row of a sparse result that is not counted (lower_room.c) ----------------------
 */
bool pass_room_is_told(lower_state *s, const ir_expr *stores, const ir_index *last);
/* Entries that a row along `last` has at most, where all other indices are bound. */
ir_expr *pass_room(lower_state *s, lower_env *env, const ir_expr *stores, const ir_index *last);

/* ---- the order of loops (lower_loops.c) ------------------------------------------------------ */
typedef struct lower_loops {
  int count;
  ir_index *index[LOWER_INDICES];
  bool before[LOWER_INDICES][LOWER_INDICES];
  bool walked[LOWER_INDICES]; /* a sparse operand has an opinion about it */
} lower_loops;
void pass_loops_index(lower_loops *o, ir_index *index); /* with its segment first; once */
void pass_loops_access(lower_loops *o, const lower_access *access);
void pass_loops_edge(lower_loops *o, const ir_index *first, const ir_index *second);
void pass_loops_lists(lower_loops *o, const ir_stage *stage);
void pass_loops_rows(lower_loops *o, const ir_expr *e); /* softmax and topk: innermost */
void pass_loops_sort(lower_loops *o);

/* ---- packed strips (lower_strips.c) ---------------------------------------------------------- */
/* Where the stage asks for strips: writes the packing function, makes the operand's access read
 * what it packs, and puts the strip's index inside. */
bool pass_strips_open(lower_state *s, lower_loops *order);
bool pass_lower_strips(lower_state *s);  /* the whole operand packed, where the stage is that copy */
void pass_strips_nest(lower_nest *nest); /* blocks of rows, strips, then the nest */
void pass_strips_columns(lower_nest *nest, lower_env *env, int n); /* the loop over a strip */

/* ---- heavy nodes (lower_reduce.c, lower_rowops.c) -------------------------------------------- */
ir_expr *pass_reduce_value(lower_state *s, lower_env *env, const ir_expr *e);
ir_expr *pass_reduce_combine(lower_state *s, ir_reducer r, ir_dtype t, ir_expr *x, ir_expr *y);
ir_expr *pass_reduce_identity(lower_state *s, ir_reducer r, ir_dtype t);
double pass_reduce_zero(ir_reducer r, ir_dtype t); /* the identity as the fold sees it */
/* prepare: what depends on the row alone, kept in env; value: of one element. */
void pass_softmax_prepare(lower_state *s, lower_env *env, const ir_expr *e);
void pass_topk_prepare(lower_state *s, lower_env *env, const ir_expr *e);
ir_expr *pass_softmax_value(lower_state *s, lower_env *env, const ir_expr *e);
ir_expr *pass_topk_value(lower_state *s, lower_env *env, const ir_expr *e);
void pass_hoist(lower_state *s, lower_env *env, const ir_expr *e); /* computes what is closed */

/* ---- whole stages ---------------------------------------------------------------------------- */
void pass_lower_gather(lower_state *s);    /* lower_gather.c: dense and like outputs */
void pass_lower_scatter(lower_state *s);   /* lower_scatter.c: combining stores */
void pass_lower_assembled(lower_state *s); /* lower_assemble.c: count and fill, level by level */
void pass_lower_tuples(lower_state *s);    /* lower_tuples.c: count and fill, as tuples */
bool pass_tuples_split(lower_state *s);    /* puts the sum of the statement in a stage before it */
void pass_lower_insert(lower_state *s, ir_stmt *stmt); /* a compute stage before the current one */
bool pass_scatter_order(lower_state *s, const ir_expr **hole, lower_loops *order);
void pass_scatter_reduction(lower_state *s, const ir_expr *hole, lower_loops *order);
ir_stmt *pass_lower_sampled(lower_state *s,
                            bool assembled); /* lower_sample.c: computed where it is wanted */
void pass_lower_detect(lower_state *s);      /* lower_list.c */
void pass_lower_guard(lower_state *s);
void pass_lower_fragment(lower_state *s);                 /* lower_fragment.c */
ir_expr *pass_fragment_parameter(lower_state *s, ir_func *func, const char *name, ir_dtype dtype);
struct ir_flat;
/* Takes the flattened number of a role apart, last index first. */
/* What the expression reads, and where its indices are bound; then its value at these is the function's result. */
lower_env *pass_fragment_open(lower_state *s, const ir_expr *root);
void pass_fragment_close(lower_state *s, lower_env *env, ir_func *func, ir_expr *root);
void pass_fragment_bind(lower_state *s, lower_env *env, const struct ir_flat *role, ir_expr *number);
struct pass_contraction_info;
/* The sum with its constant factors and sign. */
ir_expr *pass_finished_sum(lower_state *s, const struct pass_contraction_info *info, ir_expr *acc);
bool pass_lower_attend(lower_state *s); /* lower_attend.c: false where the stage is no attention */
void pass_lower_open(lower_state *s, lower_loops *order); /* accesses and order of the left side */
int pass_heavy_nodes(const ir_expr *e);   /* nested ones too; 0 of NULL: what may be remembered */
ir_expr *pass_lower_root(lower_state *s); /* where(cond, value, fill) */

#endif
