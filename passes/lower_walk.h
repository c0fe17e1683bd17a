/* lower_walk.h - one loop over an index while it is made: its walkers, and the fingers they are
 * walked with. */
#ifndef SPC_PASSES_LOWER_WALK_H
#define SPC_PASSES_LOWER_WALK_H

#include "passes/lower.h"

enum { MOST_WALKED = 6 };

typedef enum lower_phase {
  PHASE_FIRST,
  PHASE_REST
} lower_phase; /* whole or blocks; the place in a block */

typedef struct lower_walker {
  int number, level; /* access, and its level that is walked */
  int64_t factor;    /* of blocks; 0: whole */
  bool steps; /* its level here leaves coordinates out (else only the one in the block does) */
  ir_var *p, *next; /* position; end of the run of equal coordinates */
  ir_var *place;    /* in the block, where blocks are walked element by element; else NULL */
  bool flat;
  ir_expr *end, *at, *flag;
} lower_walker;

typedef struct lower_walk {
  lower_nest *nest;
  lower_state *s;
  lower_env *env;
  int n;
  const ir_index *index;
  lower_phase phase;
  int64_t factor; /* of the loop: blocks of so many, or 0 */
  ir_expr *block, *lo, *hi;
  int count;
  lower_walker w[MOST_WALKED];
  int alike_count;
  struct {
    int number, of; /* an access, and the one that is walked in its place */
  } alike[MOST_WALKED];
  bool inside;                 /* every walker stands on an entry */
  bool placed;                 /* one is walked, the others are looked up */
  bool skip[1 << MOST_WALKED]; /* by set of present walkers */
  bool needed[MOST_WALKED];
} lower_walk;

static inline const lower_access *pass_walker_access(const lower_walk *k, const lower_walker *w) {
  return &k->s->accesses.at[w->number];
}
static inline const ir_level *pass_walker_level(const lower_walk *k, const lower_walker *w) {
  return &pass_walker_access(k, w)->format->level[w->level];
}
static inline lower_cursor *pass_walker_cursor(const lower_walk *k, const lower_walker *w) {
  return &k->env->cursor[w->number];
}

static inline const char *pass_walker_name(const lower_walk *k, const char *stem,
                                           const lower_walker *w) {
  return ir_format_text(k->s->arena, "%s_%s", stem, pass_walker_access(k, w)->expr->tensor->name);
}

static inline bool pass_walker_is_bitmap(const lower_walk *k, const lower_walker *w) {
  return pass_walker_level(k, w)->kind == IR_LEVEL_BITMAP;
}
/* Some positions hold no entry, marked by coordinate -1: padding behind the entries of a row, or
 * places between those of a slot in the rest. */
static inline bool pass_walker_is_padded(const lower_walk *k, const lower_walker *w) {
  return pass_walker_level(k, w)->kind == IR_LEVEL_PACKED;
}

/* The body at coordinate `at`, under the condition on the walkers' flags; some_is: at least one
 * walker is known to be present here.  `steady` step along in every loop. */
void pass_walk_body(lower_walk *k, lower_walker *steady, int steady_count, ir_expr *at,
                    bool some_is);
/* One walker that is present is enough for the body. */
bool pass_walk_any_will_do(const lower_walk *k);
const char *pass_walk_coordinate_name(const lower_walk *k);

/* ---- several walkers (lower_merge.c), of which all are needed (lower_place.c) ---------------- */
void pass_walk_several(lower_walk *k, lower_walker *steady, int steady_count);
bool pass_places_serve(const lower_walk *k);
ir_expr *pass_places_fit(lower_walk *k); /* a condition; NULL: always */
void pass_walk_places(lower_walk *k, lower_walker *steady, int steady_count);

/* What is read further on in this walk is fetched now (lower_ahead.c). */
void pass_walk_ahead(lower_walk *k, lower_walker *w);

/* ---- fingers (lower_finger.c): a position that follows the coordinates of the loop ----------- */
void pass_finger_start(lower_walk *k, lower_walker *w);
void pass_finger_bits(lower_walk *k,
                      lower_walker *w); /* of a bitmap: counts the bits that it passes */
ir_expr *pass_finger_inside(lower_walk *k, lower_walker *w);
/* The coordinate that the finger is on: of its level, or of the element in its block. */
ir_expr *pass_finger_coordinate(lower_walk *k, lower_walker *w, ir_expr *mask);
/* Sets w->flag: the finger is on `at`; and finds the run of equal coordinates. */
void pass_finger_flag(lower_walk *k, lower_walker *w, ir_expr *at);
void pass_finger_run(lower_walk *k, lower_walker *w, ir_expr *at);
void pass_finger_advance(lower_walk *k, lower_walker *w); /* behind `at`, where w->flag holds */

#endif
