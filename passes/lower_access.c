/* lower_access.c - the distinct accesses of a statement, and environments: what is known about
 * indices and operands at one point of the nest.
 *
 * An environment is copied where a loop or a branch begins, so that what is learnt inside stays
 * inside. */
#include <assert.h>

#include "passes/lower.h"

/* ---- accesses -------------------------------------------------------------------------------- */
int pass_access_number(lower_state *s, const ir_expr *access) {
  for (int i = 0; i < s->accesses.count; i++)
    if (!s->accesses.at[i].target && ir_expr_equal(s->accesses.at[i].expr, access)) return i;
  return -1;
}

int pass_access_add(lower_state *s, const ir_expr *access) {
  int number = pass_access_number(s, access);
  if (number >= 0) return number;
  lower_access a = {.expr = access, .format = pass_level_format(s, access->tensor)};
  IR_PUSH(s->arena, &s->accesses, a);
  return s->accesses.count - 1;
}

static bool add_access(void *user, ir_expr *node) {
  if (node->kind == IR_ACCESS) pass_access_add(user, node);
  return true;
}

void pass_access_collect(lower_state *s, const ir_expr *e) {
  ir_expr_walk((ir_expr *)e, add_access, s);
}

bool pass_access_is_sparse(const lower_access *access) {
  return ir_format_lists_entries(access->format);
}

/* ---- environments ---------------------------------------------------------------------------- */
static lower_env *env_of(lower_state *s, const lower_env *from) {
  lower_env *env = IR_NEW(s->arena, lower_env);
  if (from) *env = *from;
  env->cursor = IR_NEW_ARRAY(s->arena, lower_cursor, s->accesses.count);
  env->memo = IR_NEW_ARRAY(s->arena, lower_memo, s->memo_room + 1);
  if (from) {
    memcpy(env->cursor, from->cursor, sizeof *env->cursor * (size_t)s->accesses.count);
    memcpy(env->memo, from->memo, sizeof *env->memo * (size_t)from->memo_count);
  }
  return env;
}

lower_env *pass_env_new(lower_state *s) { return env_of(s, NULL); }
lower_env *pass_env_copy(lower_state *s, const lower_env *env) { return env_of(s, env); }

lower_bound *pass_env_find(lower_env *env, const ir_index *index) {
  for (int i = 0; i < env->bound_count; i++)
    if (env->bound[i].index == index) return &env->bound[i];
  return NULL;
}

void pass_env_bind(lower_env *env, const ir_index *index, ir_expr *value) {
  lower_bound *bound = pass_env_find(env, index);
  assert(bound || env->bound_count < LOWER_INDICES);
  if (!bound) bound = &env->bound[env->bound_count++];
  *bound = (lower_bound){.index = index, .value = value};
}

/* The maximum and sum of a row do not depend on the index along the row. */
static bool outlives(const ir_expr *node, const ir_index *index) {
  return !ir_expr_depends_on(node, index) || (node->kind != IR_REDUCE && node->bound[0] == index);
}

void pass_env_forget(lower_state *s, lower_env *env, const ir_index *index) {
  lower_bound *bound = pass_env_find(env, index);
  if (!bound) return;
  *bound = env->bound[--env->bound_count];
  for (int i = 0; i < s->accesses.count; i++)
    if (ir_expr_uses_index(s->accesses.at[i].expr, index)) env->cursor[i] = (lower_cursor){0};
  int kept = 0;
  for (int i = 0; i < env->memo_count; i++)
    if (outlives(env->memo[i].node, index)) env->memo[kept++] = env->memo[i];
  env->memo_count = kept;
}

lower_memo *pass_env_memo(lower_env *env, const ir_expr *node) {
  for (int i = 0; i < env->memo_count; i++)
    if (ir_expr_equal(env->memo[i].node, node)) return &env->memo[i];
  return NULL;
}

void pass_env_keep(lower_env *env, lower_memo memo) { env->memo[env->memo_count++] = memo; }

/* ---- free indices ---------------------------------------------------------------------------- */
typedef struct scope {
  const lower_state *s;
  const ir_expr *node; /* a reduction */
  const struct scope *outer;
} scope;

/* Itself, or as the segment of its rows. */
static bool ranges_over(const lower_state *s, const ir_index *index) {
  for (int i = 0; s->stmt && i < s->stmt->free.count; i++)
    if (s->stmt->free.at[i] == index || s->stmt->free.at[i]->segment == index) return true;
  return false;
}

/* A reduction over a ragged index also runs over its segments, unless the statement does. */
static bool in_scope(const scope *sc, const ir_index *index) {
  for (; sc->node; sc = sc->outer)
    for (int i = 0; i < sc->node->bound_count; i++)
      if (sc->node->bound[i] == index ||
          (sc->node->bound[i]->segment == index && !ranges_over(sc->s, index)))
        return true;
  return false;
}

static bool closes(lower_env *env, const ir_expr *e, const scope *sc) {
  if (e->kind == IR_INDEX) return in_scope(sc, e->index) || pass_env_find(env, e->index);
  scope here = {sc->s, e, sc};
  for (int i = 0; i < e->bound_count; i++) {
    const ir_index *segment = e->bound[i]->segment;
    if (segment && ranges_over(sc->s, segment) && !pass_env_find(env, segment)) return false;
    if (e->kind != IR_REDUCE && !in_scope(sc, e->bound[i]) && !pass_env_find(env, e->bound[i]))
      return false;
  }
  for (int i = 0; i < e->arg_count; i++)
    if (!closes(env, e->args[i], e->kind == IR_REDUCE ? &here : sc)) return false;
  return true;
}

bool pass_env_closes(lower_state *s, lower_env *env, const ir_expr *e) {
  return closes(env, e, &(scope){.s = s});
}
