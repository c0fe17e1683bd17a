/* vectorise_depend.c - what in a loop nest changes with its rows and columns, and what follows from
 * it: strides, whether iterations may run side by side, and what that would cost. */
#include "passes/vectorise.h"

/* ---- the table of locals --------------------------------------------------------------------- */
static int place_of(const vec_region *g, const ir_var *var) {
  uint64_t hash = ((uint64_t)(uintptr_t)var >> 4) * 0x9e3779b97f4a7c15u;
  int at = (int)(hash >> 40) & (g->capacity - 1);
  while (g->table[at].var && g->table[at].var != var) at = (at + 1) & (g->capacity - 1);
  return at;
}

const vec_local *pass_vec_local(const vec_region *g, const ir_var *var) {
  const vec_local *l = &g->table[place_of(g, var)];
  return l->var ? l : NULL;
}

static vec_local *local_of(vec_region *g, const ir_var *var) {
  if (2 * (g->count + 1) > g->capacity) {
    vec_region old = *g;
    g->capacity = old.capacity ? 2 * old.capacity : 64;
    g->table = IR_NEW_ARRAY(g->arena, vec_local, g->capacity);
    for (int i = 0; i < old.capacity; i++)
      if (old.table[i].var) g->table[place_of(g, old.table[i].var)] = old.table[i];
  }
  vec_local *l = &g->table[place_of(g, var)];
  if (!l->var) {
    l->var = var;
    g->count++;
  }
  return l;
}

/* ---- dependence ------------------------------------------------------------------------------ */
unsigned pass_vec_deps(const vec_region *g, const ir_expr *e) {
  unsigned deps = 0;
  if (e->kind == IR_VAR) {
    if (e->var == g->row) return VEC_ROW;
    if (e->var == g->col) return VEC_COL;
    const vec_local *l = pass_vec_local(g, e->var);
    return l ? l->deps : 0;
  }
  for (int i = 0; i < e->arg_count; i++) deps |= pass_vec_deps(g, e->args[i]);
  return deps;
}

static void declare(vec_region *g, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_LET || code->kind == IR_FOR) local_of(g, code->var)->inside = true;
    if (code->kind == IR_LET) local_of(g, code->var)->value = code->value;
    if (code->kind == IR_SET) local_of(g, code->var)->set = true;
    if (code->kind == IR_STORE) IR_PUSH(g->arena, &g->stores, code);
    if (code->kind == IR_LOCAL) IR_PUSH(g->arena, &g->locals, code->buf);
    declare(g, &code->body);
    declare(g, &code->orelse);
  }
}

static bool grow_deps(vec_region *g, const ir_var *var, unsigned deps) {
  vec_local *l = local_of(g, var);
  bool more = (deps & ~l->deps) != 0;
  l->deps |= deps;
  return more;
}

/* One sweep; `control` is what decides whether the block runs. */
static bool sweep(vec_region *g, const ir_block *block, unsigned control) {
  bool more = false;
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    unsigned inner = control;
    if (code->kind == IR_LET || code->kind == IR_SET) {
      unsigned deps = code->value ? pass_vec_deps(g, code->value) : 0;
      if (code->kind == IR_SET) deps |= control;
      more |= grow_deps(g, code->var, deps);
    } else if (code->kind == IR_FOR) {
      inner |= pass_vec_deps(g, code->lo) | pass_vec_deps(g, code->hi);
      if (code->step) inner |= pass_vec_deps(g, code->step);
      more |= grow_deps(g, code->var, inner & ~control);
    } else if (code->kind == IR_IF || code->kind == IR_WHILE) {
      inner |= pass_vec_deps(g, code->cond);
    }
    more |= sweep(g, &code->body, inner);
    more |= sweep(g, &code->orelse, inner);
  }
  return more;
}

vec_region *pass_vec_region(ir_arena *arena, const ir_var *row, const ir_var *col,
                            const ir_block *before, const ir_block *body) {
  vec_region *g = IR_NEW(arena, vec_region);
  *g = (vec_region){.arena = arena, .row = row, .col = col};
  local_of(g, col)->inside = true;
  if (before) declare(g, before);
  declare(g, body);
  bool more = true;
  while (more) {
    more = before && sweep(g, before, 0);
    more = sweep(g, body, 0) || more;
  }
  return g;
}

static const ir_expr *definition(const vec_region *g, const ir_var *var) {
  const vec_local *l = pass_vec_local(g, var);
  return l && !l->set ? l->value : NULL;
}

static bool stride_of_product(const vec_region *g, const ir_expr *e, int64_t x, int64_t y,
                              int64_t *stride) {
  *stride = 0;
  if (x == 0 && y == 0) return true;
  if (e->args[0]->kind == IR_CONST)
    *stride = e->args[0]->i * y;
  else if (e->args[1]->kind == IR_CONST)
    *stride = e->args[1]->i * x;
  else
    return false;
  (void)g;
  return true;
}

bool pass_vec_stride(const vec_region *g, const ir_expr *e, int64_t *stride) {
  int64_t x, y;
  *stride = 0;
  if (!(pass_vec_deps(g, e) & VEC_COL)) return true;
  if (e->dtype != IR_I64 || e->lanes != 1) return false;
  if (e->kind == IR_VAR) {
    if (e->var == g->col) return *stride = 1, true;
    const ir_expr *value = definition(g, e->var);
    return value && pass_vec_stride(g, value, stride);
  }
  if (e->kind != IR_OP || e->arg_count != 2 || !pass_vec_stride(g, e->args[0], &x) ||
      !pass_vec_stride(g, e->args[1], &y))
    return false;
  if (e->op == IR_OP_MUL) return stride_of_product(g, e, x, y, stride);
  *stride = e->op == IR_OP_ADD ? x + y : x - y;
  return e->op == IR_OP_ADD || e->op == IR_OP_SUB;
}

bool pass_vec_reads(const ir_expr *e) {
  if (e->kind == IR_LOAD) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (pass_vec_reads(e->args[i])) return true;
  return false;
}

/* ---- legality -------------------------------------------------------------------------------- */
/* What is stored may be read back only at the place where it is stored. */
static bool reads_own_place(const vec_region *g, const ir_expr *load) {
  for (int i = 0; i < g->stores.count; i++) {
    const ir_code *store = g->stores.at[i];
    if (store->buf == load->buf && !ir_expr_equal(store->offset, load->args[0])) return false;
  }
  return true;
}

static bool is_declared_in(const vec_region *g, const ir_buf *buf) {
  for (int i = 0; i < g->locals.count; i++)
    if (g->locals.at[i] == buf) return true;
  return false;
}

static bool legal_expr(const vec_region *g, const ir_expr *e, bool lanes) {
  if (lanes && (e->lanes != 1 || e->kind == IR_REDUCE)) return false;
  if (e->kind == IR_LOAD) {
    bool own = e->buf->kind == IR_BUF_LOCAL && is_declared_in(g, e->buf);
    if (own ? lanes : !reads_own_place(g, e)) return false;
  }
  for (int i = 0; i < e->arg_count; i++)
    if (!legal_expr(g, e->args[i], lanes)) return false;
  return true;
}

/* Under a mask nothing is skipped: what is the same for all columns must be safe to read anyway. */
static bool safe_unmasked(const vec_region *g, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_FOR && (pass_vec_reads(code->lo) || pass_vec_reads(code->hi)))
      return false;
    if (code->kind == IR_LET && code->value && !(pass_vec_deps(g, code->value) & VEC_COL) &&
        pass_vec_reads(code->value))
      return false;
    if (!safe_unmasked(g, &code->body) || !safe_unmasked(g, &code->orelse)) return false;
  }
  return true;
}

static bool legal_store(const vec_region *g, const ir_code *code, bool lanes) {
  int64_t stride;
  if (code->buf->kind == IR_BUF_LOCAL) /* shared by all copies */
    return !lanes && !(pass_vec_deps(g, code->offset) | pass_vec_deps(g, code->value));
  bool straight = pass_vec_stride(g, code->offset, &stride);
  if (code->atomic || (straight && stride == 0)) return false;
  if (code->combine != IR_OP_COUNT && !straight) return false;
  return true;
}

static bool legal_code(const vec_region *g, const ir_code *code, bool lanes, bool reduction) {
  const ir_expr *const exprs[] = {code->lo,   code->hi,    code->step,
                                  code->cond, code->value, code->offset};
  for (int i = 0; i < IR_COUNT(exprs); i++)
    if (exprs[i] && !legal_expr(g, exprs[i], lanes)) return false;
  unsigned jammed = VEC_COL | (g->row ? VEC_ROW : 0);
  switch (code->kind) {
  case IR_FOR: {
    unsigned deps = pass_vec_deps(g, code->lo) | pass_vec_deps(g, code->hi);
    if (code->step) deps |= pass_vec_deps(g, code->step);
    return code->run != IR_RUN_PARALLEL && !(deps & jammed) &&
           pass_vec_legal(g, &code->body, lanes, reduction);
  }
  case IR_IF:
    if (lanes && pass_vec_deps(g, code->cond) & VEC_COL &&
        (!safe_unmasked(g, &code->body) || !safe_unmasked(g, &code->orelse)))
      return false;
    return pass_vec_legal(g, &code->body, lanes, reduction) &&
           pass_vec_legal(g, &code->orelse, lanes, reduction);
  case IR_SET: return reduction || pass_vec_local(g, code->var)->inside;
  case IR_STORE: return legal_store(g, code, lanes);
  case IR_LOCAL: return !lanes;
  case IR_LET:
  case IR_COMMENT: return true;
  case IR_WHILE:
  case IR_PREFETCH:
  case IR_BARRIER: return false;
  }
  return false;
}

bool pass_vec_legal(const vec_region *g, const ir_block *body, bool lanes, bool reduction) {
  for (int i = 0; i < body->codes.count; i++)
    if (!legal_code(g, body->codes.at[i], lanes, reduction)) return false;
  return true;
}

bool pass_vec_branches(const vec_region *g, const ir_block *body) {
  for (int i = 0; i < body->codes.count; i++) {
    const ir_code *code = body->codes.at[i];
    if (code->kind == IR_IF && pass_vec_deps(g, code->cond) & VEC_COL) return true;
    if (pass_vec_branches(g, &code->body) || pass_vec_branches(g, &code->orelse)) return true;
  }
  return false;
}

/* ---- cost ------------------------------------------------------------------------------------ */
enum { USUAL_TRIPS = 16, GATHER_PENALTY = 1 };

/* The value of e when it does not depend on the run. */
static bool fixed(const ir_expr *e, int64_t *value) {
  int64_t x, y;
  if (e->kind == IR_CONST) return *value = e->i, true;
  if (e->kind == IR_DIM) return *value = e->dim->value, *value >= 0;
  if (e->kind != IR_OP || e->arg_count != 2 || e->dtype != IR_I64) return false;
  if (!fixed(e->args[0], &x) || !fixed(e->args[1], &y)) return false;
  *value = ir_op_rows[e->op].eval_int((int64_t[]){x, y});
  return true;
}

/* hi = lo + constant, for any lo */
static bool fixed_span(const ir_code *loop, int64_t *span) {
  int64_t lo, hi;
  if (fixed(loop->lo, &lo) && fixed(loop->hi, &hi)) return *span = hi - lo, true;
  const ir_expr *e = loop->hi;
  return e->kind == IR_OP && e->op == IR_OP_ADD && ir_expr_equal(e->args[0], loop->lo) &&
         fixed(e->args[1], span);
}

int64_t pass_vec_trips(const ir_code *loop, int64_t otherwise) {
  int64_t span, step = 1;
  if (!fixed_span(loop, &span) || (loop->step && !fixed(loop->step, &step))) return otherwise;
  return span > 0 && step > 0 ? (span + step - 1) / step : 0;
}

static bool is_multiple(const ir_expr *e, int64_t n) {
  int64_t value;
  if (fixed(e, &value)) return value % n == 0;
  if (e->kind == IR_DIM) return e->dim->multiple % n == 0;
  if (e->kind != IR_OP) return false;
  if (e->op == IR_OP_MUL) return is_multiple(e->args[0], n) || is_multiple(e->args[1], n);
  return (e->op == IR_OP_ADD || e->op == IR_OP_SUB) && is_multiple(e->args[0], n) &&
         is_multiple(e->args[1], n);
}

bool pass_vec_divides(const ir_code *loop, int64_t step) {
  int64_t span;
  if (fixed_span(loop, &span)) return span % step == 0;
  return is_multiple(loop->lo, step) && is_multiple(loop->hi, step);
}

/* An access that is neither the same for all columns nor consecutive costs as much as without
 * lanes. */
static double access_cost(const vec_region *g, const ir_expr *offset, int lanes) {
  int64_t stride;
  bool straight = pass_vec_stride(g, offset, &stride);
  return straight && (stride == 0 || stride == 1) ? 1.0 / lanes : GATHER_PENALTY;
}

static double expr_cost(const vec_region *g, const ir_expr *e, int lanes) {
  int64_t stride;
  if (e->kind == IR_CONST || e->kind == IR_VAR || e->kind == IR_DIM) return 0;
  if (e->dtype == IR_I64 && e->kind == IR_OP && pass_vec_stride(g, e, &stride)) return 0.1 / lanes;
  double cost = e->kind == IR_LOAD ? access_cost(g, e->args[0], lanes) : 1.0 / lanes;
  for (int i = 0; i < e->arg_count; i++) cost += expr_cost(g, e->args[i], lanes);
  return cost;
}

double pass_vec_cost(const vec_region *g, const ir_block *body, int lanes) {
  double cost = 0;
  for (int i = 0; i < body->codes.count; i++) {
    const ir_code *code = body->codes.at[i];
    if (code->value) cost += expr_cost(g, code->value, lanes);
    if (code->cond) cost += expr_cost(g, code->cond, lanes);
    if (code->kind == IR_STORE)
      cost += access_cost(g, code->offset, lanes) + expr_cost(g, code->offset, lanes);
    double weight = code->kind == IR_FOR ? (double)pass_vec_trips(code, USUAL_TRIPS) : 1;
    cost += (weight > 64 ? 64 : weight) * pass_vec_cost(g, &code->body, lanes);
    cost += pass_vec_cost(g, &code->orelse, lanes);
  }
  return cost;
}

/* A coordinate as it is read: a gather takes it in its own width. */
static bool is_coordinate(const ir_expr *e) {
  return e->kind == IR_CAST && e->dtype == IR_I64 && e->args[0]->kind == IR_LOAD &&
         ir_dtype_is_int(e->args[0]->dtype);
}

static int expr_bits(const vec_region *g, const ir_expr *e) {
  int64_t stride;
  if (!(pass_vec_deps(g, e) & VEC_COL)) return 0;
  if (e->dtype == IR_I64 && pass_vec_stride(g, e, &stride)) return 0;
  if (is_coordinate(e)) return expr_bits(g, e->args[0]);
  int bits = ir_dtype_rows[e->dtype].bits;
  for (int i = 0; i < e->arg_count; i++) {
    if (e->kind == IR_LOAD && i == 0) continue;
    int other = expr_bits(g, e->args[i]);
    if (other > bits) bits = other;
  }
  return bits;
}

int pass_vec_bits(const vec_region *g, const ir_block *body) {
  int bits = 32;
  for (int i = 0; i < body->codes.count; i++) {
    const ir_code *code = body->codes.at[i];
    int here[3] = {code->value ? expr_bits(g, code->value) : 0, pass_vec_bits(g, &code->body),
                   pass_vec_bits(g, &code->orelse)};
    for (int n = 0; n < 3; n++)
      if (here[n] > bits) bits = here[n];
  }
  return bits;
}

static int sets_in(const ir_block *block) {
  int count = 0;
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    count += code->kind == IR_SET;
    count += sets_in(&code->body) + sets_in(&code->orelse);
  }
  return count;
}

int pass_vec_accumulators(const ir_block *body) {
  int most = 0;
  for (int i = 0; i < body->codes.count; i++) {
    const ir_code *code = body->codes.at[i];
    int count = code->kind == IR_FOR
                    ? sets_in(&code->body)
                    : pass_vec_accumulators(&code->body) + pass_vec_accumulators(&code->orelse);
    if (count > most) most = count;
  }
  return most;
}
