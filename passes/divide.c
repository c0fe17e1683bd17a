/* divide.c - pass `divide` (13): an index by whose quotient a product reads an operand becomes two.
 *
 * needs:  canon
 * keeps:  the meaning; names of tensors, their elements and order in memory
 * breaks: ranks: callers' tensors remember how they were declared (ir_declared)
 *
 *     before   out s[b,h,i,j] = sum[d] q[b,h,i,d]*k[b,h/4,j,d];
 *     after    out s[b,g,h,i,j] = sum[d] q[b,g,h,i,d]*k[b,g,j,d];      g: H/4, h: 4; callers know s as [B,H,I,J]
 *
 * Grouped heads: kernels of products want bare indices.  Of the two the first is a batch, and the second is a row like i, one
 * with it where they follow one another (ir/roles.h), so that an operand that a group shares is read once for all of it.
 * It is done where the operand has a fourth of the size for certain, and where all that has the index can have two: dimensions of
 * dense tensors that lie row by row, and whatever other statements call them.  The second keeps the name, and a schedule's tile. */
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/joint.h"
#include "passes/storage.h"

typedef struct division {
  ir_arena *arena;
  ir_kernel *kernel;
  ir_expr *by;          /* the members of a group: a number, or a dim */
  ir_expr *groups;      /* how many there are */
  pass_indices indices; /* those that become two; the first is what is read by its quotient */
  IR_VEC(ir_index *) group; /* of each of them, the new one */
  ir_map cut;           /* by tensor: bit d says that dimension d becomes two */
} division;

/* ---- where it helps --------------------------------------------------------------------------- */
/* What it is before a run; INT64_MAX: not known. */
static int64_t value_of(const ir_expr *by) {
  return by->kind == IR_CONST ? by->i : by->kind == IR_DIM && by->dim->value >= 0 ? by->dim->value : INT64_MAX;
}

/* `h / 4`, with h bare: the index, and *by; NULL: it is something else. */
static ir_index *divided_index(const ir_expr *sub, ir_expr **by) {
  if (sub->kind != IR_OP || sub->op != IR_OP_DIV || sub->args[0]->kind != IR_INDEX) return NULL;
  *by = sub->args[1];
  return ((*by)->kind == IR_CONST || (*by)->kind == IR_DIM) && value_of(*by) > 1 ? sub->args[0]->index : NULL;
}

/* The dimension of the access that is read by a quotient, all others being read by indices; -1: there is none. */
static int quotient_dim(const ir_expr *access) {
  int found = -1;
  ir_expr *by;
  for (int d = 0; d < access->arg_count; d++) {
    if (access->args[d]->kind == IR_INDEX) continue;
    if (!divided_index(access->args[d], &by)) return -1;
    found = d;
  }
  return found;
}

static bool reads_dense(const pass_operand *side) { return pass_side_is_access(side) && !pass_tensor_is_sparse(side->tensor); }

/* Nothing but quotients keeps it from being a product of two dense matrices. */
static bool is_product(const ir_stmt *stmt, const pass_contraction_info *info) {
  return !info->guard && !info->ragged && reads_dense(&info->a) && reads_dense(&info->b) && !ir_is_scatter(stmt) && pass_plain_subs(stmt) &&
         !pass_expr_reads_sparse(stmt->cond) && !pass_expr_reads_sparse(stmt->value) && !pass_tensor_is_sparse(stmt->target);
}

/* ---- whether it can be done ------------------------------------------------------------------- */
static bool is_exact(void *user, ir_expr *e) {
  (void)user;
  return e->kind != IR_OP || e->op != IR_OP_DIV || e->args[0]->kind != IR_OP || e->args[0]->op != IR_OP_ADD;
}

/* Whatever the dims are: sizes that are quotients are exact, but for those that are rounded up. */
static bool is_part(ir_arena *a, ir_expr *groups, ir_expr *by, const ir_expr *extent) {
  return ir_expr_walk(groups, is_exact, NULL) && ir_size_same(ir_apply(a, IR_OP_MUL, groups, by), extent);
}

static bool is_plain(const division *v, const ir_index *index) {
  for (int i = 0; i < v->kernel->indices.count; i++)
    if (v->kernel->indices.at[i]->segment == index) return false;
  return !index->offsets;
}

static bool binds_alone(const division *v, const ir_expr *e) {
  for (int i = 0; i < e->bound_count; i++)
    if (pass_indices_has(&v->indices, e->bound[i])) return e->kind != IR_REDUCE || e->reducer == IR_RED_ARGMAX;
  return false;
}

static int cut_of(const division *v, const ir_tensor *t) { return ir_map_find(&v->cut, t, 0); }

typedef struct spreading {
  division *v;
  bool more, fails;
} spreading;

/* An index that becomes two takes the dimension with it, and a dimension the index. */
static void spread_to(spreading *s, const ir_tensor *t, int d, const ir_expr *sub) {
  division *v = s->v;
  bool bare = sub->kind == IR_INDEX, cut = cut_of(v, t) >> d & 1;
  bool divided = bare && pass_indices_has(&v->indices, sub->index);
  if (!divided && !cut) return;
  s->fails |= !bare || !ir_size_same(sub->index->extent, t->dim[d]) || !is_plain(v, sub->index);
  if (s->fails || (divided && cut)) return;
  s->more = true;
  pass_indices_add(v->arena, &v->indices, sub->index);
  ir_map_set(v->arena, &v->cut, t, cut_of(v, t) | 1 << d);
}

static bool spread_in(void *user, ir_expr *e) {
  spreading *s = user;
  s->fails |= binds_alone(s->v, e);
  for (int d = 0; e->kind == IR_ACCESS && d < e->arg_count; d++) spread_to(s, e->tensor, d, e->args[d]);
  return !s->fails;
}

static bool spread(division *v) {
  spreading s = {.v = v, .more = true};
  while (s.more && !s.fails) {
    s.more = false;
    for (int i = 0; i < v->kernel->stmts.count; i++) {
      ir_stmt *stmt = v->kernel->stmts.at[i];
      ir_expr *const in[] = {stmt->value, stmt->cond, stmt->sample, stmt->support, stmt->stores};
      for (int d = 0; d < stmt->target->rank; d++) {
        spread_to(&s, stmt->target, d, stmt->subs[d]);
        (void)ir_expr_walk(stmt->subs[d], spread_in, &s);
      }
      for (size_t e = 0; e < sizeof in / sizeof *in; e++)
        if (in[e]) (void)ir_expr_walk(in[e], spread_in, &s);
    }
  }
  return !s.fails;
}

static int count_bits(int bits) {
  int count = 0;
  for (; bits; bits &= bits - 1) count++;
  return count;
}

/* Others lean on what becomes two: tensors like it, what must hold of a size. */
static bool is_leant_on(const division *v, const ir_tensor *t) {
  for (int i = 0; i < v->kernel->tensors.count; i++)
    if (v->kernel->tensors.at[i]->like == t) return true;
  for (int i = 0; i < v->kernel->needs.count; i++)
    if (cut_of(v, v->kernel->needs.at[i].tensor) >> v->kernel->needs.at[i].dim & 1 && v->kernel->needs.at[i].tensor == t) return true;
  return false;
}

static bool tensors_can(const division *v) {
  for (int i = 0; i < v->kernel->tensors.count; i++) {
    const ir_tensor *t = v->kernel->tensors.at[i];
    int cut = cut_of(v, t);
    if (cut && (!pass_lies_in_rows(t) || is_leant_on(v, t) || t->rank + count_bits(cut) > IR_MAX_RANK)) return false;
  }
  return true;
}

/* A schedule that speaks of the index means all of it, but for tiles: those are of rows. */
static bool is_scheduled(const division *v) {
  const ir_schedule *schedule = v->kernel->schedule;
  for (int i = 0; schedule && i < schedule->directives.count; i++) {
    const ir_directive *d = &schedule->directives.at[i];
    for (int n = 0; n < d->count && d->kind != IR_DO_TILE; n++)
      for (int x = 0; d->name[n] && x < v->indices.list.count; x++)
        if (!strcmp(d->name[n], v->indices.list.at[x]->name)) return true;
  }
  return false;
}

/* ---- finding ---------------------------------------------------------------------------------- */
/* One side is read by a quotient of what the other side and the result have bare. */
static bool start(division *v, ir_stmt *stmt, const pass_operand *side, const pass_operand *other) {
  int d = quotient_dim(side->access);
  ir_index *index = d < 0 ? NULL : divided_index(side->access->args[d], &v->by);
  bool bare = false;
  for (int t = 0; index && t < stmt->target->rank; t++) bare |= ir_is_bare(stmt->subs[t], index);
  if (!bare || pass_dim_of(other->access, index) < 0) return false;
  v->groups = side->access->tensor->dim[d];
  pass_indices_add(v->arena, &v->indices, index);
  return is_part(v->arena, v->groups, v->by, index->extent);
}

static bool can(division *v) { return spread(v) && tensors_can(v) && !is_scheduled(v); }

/* By the least number first: h / 8 is then a quotient of h / 4. */
static bool find(division *best) {
  pass_contraction_info info;
  for (int i = 0; i < best->kernel->stmts.count; i++) {
    ir_stmt *stmt = best->kernel->stmts.at[i];
    if (!pass_contraction(best->arena, stmt, &info) || !is_product(stmt, &info)) continue;
    for (int side = 0; side < 2; side++) {
      division v = {.arena = best->arena, .kernel = best->kernel};
      bool starts = side ? start(&v, stmt, &info.b, &info.a) : start(&v, stmt, &info.a, &info.b);
      if (starts && (!best->by || value_of(v.by) < value_of(best->by)) && can(&v)) *best = v;
    }
  }
  return best->by != NULL;
}

/* ---- doing it --------------------------------------------------------------------------------- */
static int number_of(const division *v, const ir_index *index) {
  for (int i = 0; i < v->indices.list.count; i++)
    if (v->indices.list.at[i] == index) return i;
  return -1;
}

static ir_expr *group_ref(const division *v, int number) { return ir_index_ref(v->arena, v->group.at[number]); }

/* h / 4, h / 8 and h % 4 are the two, or of one of them; else h is what they make. */
static ir_expr *from_two(const division *v, ir_expr *e) {
  int number = e->kind == IR_INDEX ? number_of(v, e->index) : -1;
  if (number >= 0) return ir_apply(v->arena, IR_OP_ADD, ir_apply(v->arena, IR_OP_MUL, group_ref(v, number), v->by), e);
  if (e->kind != IR_OP || e->arg_count != 2 || e->args[0]->kind != IR_INDEX || (number = number_of(v, e->args[0]->index)) < 0) return NULL;
  if (ir_size_same(e->args[1], v->by)) return e->op == IR_OP_MOD ? e->args[0] : e->op == IR_OP_DIV ? group_ref(v, number) : NULL;
  int64_t by = value_of(e->args[1]), members = value_of(v->by);
  if (e->op != IR_OP_DIV || e->args[1]->kind != IR_CONST || members == INT64_MAX || by <= 0 || by % members) return NULL;
  return ir_apply(v->arena, IR_OP_DIV, group_ref(v, number), ir_int(v->arena, by / members));
}

static ir_expr *divided(const division *v, ir_expr *e);

/* Subscripts of a tensor, of which some become two. */
static int divided_subs(const division *v, const ir_tensor *t, ir_expr *const *subs, int count, ir_expr **out) {
  int made = 0, cut = cut_of(v, t);
  for (int d = 0; d < count; d++) {
    bool two = cut >> d & 1;
    if (two) out[made++] = group_ref(v, number_of(v, subs[d]->index));
    out[made++] = two ? subs[d] : divided(v, subs[d]);
  }
  return made;
}

static void divide_bound(const division *v, ir_expr *e) {
  ir_index **bound = IR_NEW_ARRAY(v->arena, ir_index *, 2 * e->bound_count + 1);
  int count = 0;
  for (int i = 0; i < e->bound_count; i++) {
    int number = number_of(v, e->bound[i]);
    if (number >= 0) bound[count++] = v->group.at[number];
    bound[count++] = e->bound[i];
  }
  e->bound = bound;
  e->bound_count = count;
}

static ir_expr *divided(const division *v, ir_expr *e) {
  ir_expr *made = e ? from_two(v, e) : NULL;
  if (made || !e || (!e->arg_count && !e->bound_count)) return made ? made : e;
  ir_expr **args = IR_NEW_ARRAY(v->arena, ir_expr *, 2 * e->arg_count + 1);
  int count = e->arg_count;
  if (e->kind == IR_ACCESS) count = divided_subs(v, e->tensor, e->args, e->arg_count, args);
  else
    for (int i = 0; i < count; i++) args[i] = divided(v, e->args[i]);
  made = ir_copy_with(v->arena, e, args);
  made->args = args;
  made->arg_count = count;
  if (e->bound_count) divide_bound(v, made);
  return made;
}

static void divide_stmt(const division *v, ir_stmt *stmt) {
  ir_expr *subs[IR_MAX_RANK];
  int rank = divided_subs(v, stmt->target, stmt->subs, stmt->target->rank, subs);
  for (int d = 0; d < rank; d++) stmt->subs[d] = subs[d];
  IR_VEC(ir_index *) free = {0};
  for (int i = 0; i < stmt->free.count; i++) {
    int number = number_of(v, stmt->free.at[i]);
    if (number >= 0) IR_PUSH(v->arena, &free, v->group.at[number]);
    IR_PUSH(v->arena, &free, stmt->free.at[i]);
  }
  stmt->free.at = free.at;
  stmt->free.count = free.count;
  stmt->free.capacity = free.capacity;
  ir_expr **const in[] = {&stmt->value, &stmt->cond, &stmt->sample, &stmt->support, &stmt->stores};
  for (size_t e = 0; e < sizeof in / sizeof *in; e++) *in[e] = divided(v, *in[e]);
}

static void divide_tensor(const division *v, ir_tensor *t) {
  int cut = cut_of(v, t), rank = 0, axis = t->pattern.axis;
  ir_expr *dim[IR_MAX_RANK];
  bool callers = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  const char *why;
  if (!cut) return;
  if (callers && !t->declared) t->declared = ir_declare(v->arena, t, t->rank, t->dim);
  for (int d = 0; d < t->rank; d++) {
    bool two = cut >> d & 1;
    if (d == t->pattern.axis) axis = two ? -1 : rank;
    if (two) dim[rank++] = v->groups;
    dim[rank++] = two ? v->by : t->dim[d];
  }
  t->pattern.axis = axis;
  t->rank = rank;
  for (int d = 0; d < rank; d++) t->dim[d] = dim[d];
  if (t->format || callers) t->format = ir_format_builtin(v->arena, "dense", rank, NULL, 0, &why);
}

/* What ranges over nothing where the index did is now the group; dimensions have moved. */
static void divide_needs(const division *v) {
  for (int i = 0; i < v->kernel->needs.count; i++) {
    ir_require *need = &v->kernel->needs.at[i];
    need->dim += count_bits(cut_of(v, need->tensor) & ((1 << need->dim) - 1));
    for (int x = 0; x < need->over.count; x++) {
      int number = number_of(v, need->over.at[x]);
      if (number >= 0) need->over.at[x] = v->group.at[number];
    }
  }
}

static void divide(division *v) {
  ir_kernel *kernel = v->kernel;
  for (int i = 0; i < v->indices.list.count; i++) {
    const char *name = ir_format_text(v->arena, "%s_group", v->indices.list.at[i]->name);
    IR_PUSH(v->arena, &v->group, ir_index_new(kernel, ir_fresh_name(kernel, name), v->groups));
    v->group.at[i]->span = v->indices.list.at[i]->span;
  }
  for (int i = 0; i < kernel->stmts.count; i++) divide_stmt(v, kernel->stmts.at[i]);
  for (int i = 0; i < kernel->tensors.count; i++) divide_tensor(v, kernel->tensors.at[i]);
  for (int i = 0; i < v->indices.list.count; i++) v->indices.list.at[i]->extent = v->by;
  divide_needs(v);
}

spc_status pass_divide(pass_context *context, ir_kernel *kernel) {
  for (;;) {
    division v = {.arena = context->arena, .kernel = kernel};
    if (!find(&v)) return SPC_OK;
    divide(&v);
  }
}

/* ---- in words --------------------------------------------------------------------------------- */
static const char *text_of(ir_arena *arena, const ir_expr *e) {
  ir_text text = ir_text_new(arena);
  ir_print_expr(e, &text);
  return text.data;
}

const char *pass_quotient_why(pass_context *context, const ir_expr *access) {
  ir_expr *by;
  int d = access && access->kind == IR_ACCESS ? quotient_dim(access) : -1;
  if (d < 0) return NULL;
  const ir_index *index = divided_index(access->args[d], &by);
  const char *name = index->name, *why;
  if (is_part(context->arena, access->tensor->dim[d], by, index->extent))
    why = ir_format_text(context->arena, "what else has %s keeps it from being two indices", name);
  else
    why = ir_format_text(context->arena, "%s times its size there is not for certain the size of %s", text_of(context->arena, by), name);
  return ir_format_text(context->arena, "`%s` is read by %s / %s, and %s", access->tensor->name, name, text_of(context->arena, by), why);
}
