/* gpu_entries.c - a sum for each stored entry: teams of threads share its sum, whatever row it stands in.
 *
 *     for i in 0 .. I parallel {                            total = pos[I];  each = entries of a team, 4 .. 32
 *       for p in pos[i] .. pos[i + 1] {                     team for part in 0 .. total / each {
 *         j = crd[p];  acc = 0                                i = the row of the part's first entry, by bisection
 *         for k { acc += A[i*K + k]*B[j*K + k] }      ->      of each row i that has entries in the part:
 *         C.vals[p] = S.vals[p]*acc                             for p in them, maybe four at a time {
 *       }                                                         4 x j = crd[p];  lanes for k { 4 x acc += .. }
 *     }                                                           4 x C.vals[p] = .. }
 *                                                           }
 *
 * Rows may be as long as they like: teams take entries, not rows.  The threads of a team lie side by side along k, so an
 * entry's row of B is whole sectors, and a row of A may be loaded once for four.  How an entry's sum is cut follows from the
 * length of k alone, so its bits depend on nothing else. */
#include "passes/gpu_map.h"
#include "passes/gpu_walk.h"
#include "passes/vectorise.h"

enum { LEAST_EACH = 4, MOST_EACH = 32, WARP = 32 };

typedef struct entry_map {
  pass_context *context;
  ir_arena *arena;
  ir_func *func;
  ir_code *rows, *entries; /* the parallel loop, the loop over a row's entries */
  ir_code *sum;            /* along k, of an entry */
  int width;               /* elements that a thread loads at a time */
  int together;            /* entries of a row whose sums are made together; 1: each alone */
} entry_map;

static ir_expr *number(const entry_map *m, int64_t n) { return ir_int(m->arena, n); }

static ir_expr *apply(const entry_map *m, ir_op op, ir_expr *x, ir_expr *y) { return ir_apply(m->arena, op, x, y); }

static ir_expr *ref(const entry_map *m, ir_var *var) { return ir_var_ref(m->arena, var); }

/* Where the entries of a row begin: what is left out where rows are numbered by `row`. */
static ir_expr *start_of(const entry_map *m, ir_expr *row) { return gpu_with(m->arena, m->entries->lo, m->rows->var, row); }

/* ---- what is of this kind ----------------------------------------------------------------------- */
static const ir_expr *without_cast(const ir_expr *e) {
  while (e->kind == IR_CAST) e = e->args[0];
  return e;
}

/* The only loop of the block, all else of it lets, comments and, behind that, plain stores; NULL: it is something else. */
static ir_code *loop_among(const ir_block *block, bool stores) {
  ir_code *found = NULL;
  bool stored = false;
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    if (c->kind == IR_COMMENT || c->kind == IR_LET) continue;
    if (c->kind == IR_FOR && !found && gpu_steps_by_one(c)) {
      found = c;
    } else if (c->kind == IR_STORE && stores && found && c->combine == IR_OP_COUNT && !c->atomic && !c->cond && c->value->lanes == 1 &&
               c->buf->kind != IR_BUF_LOCAL) {
      stored = true;
    } else {
      return NULL;
    }
  }
  return stored == stores ? found : NULL;
}

/* What is done for an entry, behind the conditions that let it take part. */
static const ir_block *entry_body(const ir_block *block) {
  const ir_code *last = block->codes.count ? block->codes.at[block->codes.count - 1] : NULL;
  for (int i = 0; i + 1 < block->codes.count; i++)
    if (block->codes.at[i]->kind != IR_LET && block->codes.at[i]->kind != IR_COMMENT) return block;
  return last && last->kind == IR_IF && !last->orelse.codes.count ? entry_body(&last->body) : block;
}

/* pos[i] .. pos[i + 1], and nothing behind it. */
static bool is_segment(const entry_map *m) {
  const ir_expr *lo = without_cast(m->entries->lo);
  ir_expr *next = apply(m, IR_OP_ADD, ref(m, m->rows->var), number(m, 1));
  return lo->kind == IR_LOAD && lo->buf->kind == IR_BUF_POS && lo->args[0]->kind == IR_VAR && lo->args[0]->var == m->rows->var &&
         lo->arg_count == 1 && ir_expr_equal(m->entries->hi, start_of(m, next)) &&
         m->rows->body.codes.at[m->rows->body.codes.count - 1] == m->entries;
}

static bool stores_what_it_loads(const entry_map *m) {
  const ir_block *body = entry_body(&m->entries->body);
  for (int i = 0; i < body->codes.count; i++)
    if (body->codes.at[i]->kind == IR_STORE && gpu_block_loads(&m->rows->body, body->codes.at[i]->buf)) return true;
  return false;
}

static bool find(entry_map *m, const ir_stage *stage, gpu_rows *r) {
  ir_loop_sums sums;
  m->entries = loop_among(&m->rows->body, false);
  if (!m->entries || !is_segment(m)) return false;
  m->sum = loop_among(entry_body(&m->entries->body), true);
  if (!m->sum || !gpu_starts_at_zero(m->sum) || !gpu_is_size(m->sum->hi) || !gpu_is_leaf(&m->sum->body)) return false;
  if (!pass_gpu_stores_once(stage) || stores_what_it_loads(m)) return false;
  if (!ir_loop_sums_of(m->arena, m->sum, false, &sums) || !sums.at.count) return false;
  return gpu_strides_of(r, m->sum).bytes > 0;
}

/* ---- how it runs --------------------------------------------------------------------------------- */
/* What is done at entry `p` of row `row`.  What stands before a row's entries names what they share: it is asked for at each. */
static ir_block body_of(const entry_map *m, ir_expr *row) {
  ir_block body = {{NULL, 0, 0}};
  ir_code *at = IR_NEW(m->arena, ir_code);
  *at = (ir_code){.kind = IR_LET, .var = m->rows->var, .value = row, .combine = IR_OP_COUNT};
  IR_PUSH(m->arena, &body.codes, at);
  for (int i = 0; i + 1 < m->rows->body.codes.count; i++) IR_PUSH(m->arena, &body.codes, m->rows->body.codes.at[i]);
  for (int i = 0; i < m->entries->body.codes.count; i++) IR_PUSH(m->arena, &body.codes, m->entries->body.codes.at[i]);
  return body;
}

static bool can_be_several(const entry_map *m) {
  ir_block body = body_of(m, ref(m, m->rows->var));
  vec_region *g = pass_vec_region(m->arena, NULL, m->entries->var, NULL, &body);
  return pass_vec_legal(g, &body, false, false) && !pass_vec_branches(g, &body);
}

/* Lanes load 16 bytes at a time: four times each where k is long, so that these are under way together, once where it is short.
 * Four entries of a row together widen its row of A once, and have more under way than more threads would have; where rows are
 * short, or nothing is widened, more threads are faster (docs/kernels.md, "Entries"). */
static void share_sum(entry_map *m, gpu_rows *r, int *team) {
  const double ahead = 4, several = 4;
  int64_t bytes = gpu_strides_of(r, m->sum).bytes;
  m->width = bytes < 16 ? (int)(16 / bytes) : 1;
  double words = pass_size_assumed(m->context, m->sum->hi) / m->width;
  m->together = bytes <= 2 && words >= 4 * ahead && can_be_several(m) ? (int)several : 1;
  if (words >= 4 * ahead) words /= ahead;
  *team = 4;
  while (*team < WARP && *team < words) *team *= 2;
}

/* The row that entry `first` stands in: the last that begins no later.  Rows without entries begin where the next one does. */
static ir_var *find_row(const entry_map *m, ir_builder *b, ir_expr *first) {
  ir_block *outer, *inner;
  ir_var *row = ir_let(b, "row", IR_I64, m->rows->lo), *above = ir_let(b, "above", IR_I64, m->rows->hi);
  ir_expr *both = apply(m, IR_OP_ADD, ref(m, row), ref(m, above));
  ir_open_while(b, apply(m, IR_OP_LT, apply(m, IR_OP_ADD, ref(m, row), number(m, 1)), ref(m, above)), &outer);
  ir_var *middle = ir_let(b, "middle", IR_I64, apply(m, IR_OP_DIV, both, number(m, 2)));
  ir_code *test = ir_open_if(b, apply(m, IR_OP_LE, start_of(m, ref(m, middle)), first), &inner);
  ir_set(b, row, ref(m, middle));
  ir_open_else(b, test);
  ir_set(b, above, ref(m, middle));
  ir_close(b, inner);
  ir_close(b, outer);
  return row;
}

/* The sum's loop, wherever it was copied to. */
static void share_loops(const ir_block *block, int width) {
  for (int i = 0; i < block->codes.count; i++) {
    ir_code *c = block->codes.at[i];
    if (c->kind == IR_FOR) c->run = IR_RUN_LANES, c->width = width;
    share_loops(&c->body, width);
    share_loops(&c->orelse, width);
  }
}

static void write_entries(const entry_map *m, ir_builder *b, ir_expr *first, ir_expr *row, int count) {
  ir_block body = body_of(m, row), made = {{NULL, 0, 0}}, *outer = b->block;
  vec_region *g = pass_vec_region(m->arena, NULL, m->entries->var, NULL, &body);
  vec_copier k = {.g = g, .b = b, .arena = m->arena, .rows = 1, .cols = count, .lanes = 1, .apart = 1, .only_row = -1, .col_at = first};
  b->block = &made;
  pass_vec_block(&k, &body, NULL);
  b->block = outer;
  share_loops(&made, m->width);
  for (int i = 0; i < made.codes.count; i++) IR_PUSH(m->arena, &outer->codes, made.codes.at[i]);
}

/* From `row` on to the one that entry p stands in. */
static void go_on(const entry_map *m, ir_builder *b, ir_var *row, ir_expr *p) {
  ir_block *outer;
  ir_expr *next = apply(m, IR_OP_ADD, ref(m, row), number(m, 1));
  ir_open_while(b, apply(m, IR_OP_LE, start_of(m, next), p), &outer);
  ir_set(b, row, next);
  ir_close(b, outer);
}

static void write_run(const entry_map *m, ir_builder *b, ir_expr *from, ir_expr *to, ir_var *row, int count) {
  ir_block *outer;
  ir_expr *p = ref(m, ir_open_for(b, "entry", from, to, IR_RUN_SEQUENTIAL, &outer));
  if (count > 1) outer->codes.at[outer->codes.count - 1]->step = number(m, count);
  write_entries(m, b, p, ref(m, row), count);
  ir_close(b, outer);
}

/* Row by row: as many as are done together, then the others. */
static void write_rows(const entry_map *m, ir_builder *b, ir_var *at, ir_expr *end, ir_var *row) {
  ir_block *outer;
  ir_open_while(b, apply(m, IR_OP_LT, ref(m, at), end), &outer);
  go_on(m, b, row, ref(m, at));
  ir_expr *behind = start_of(m, apply(m, IR_OP_ADD, ref(m, row), number(m, 1)));
  ir_expr *stop = ref(m, ir_let(b, "stop", IR_I64, apply(m, IR_OP_MIN, end, behind)));
  ir_expr *runs = apply(m, IR_OP_DIV, apply(m, IR_OP_SUB, stop, ref(m, at)), number(m, m->together));
  ir_expr *rest = apply(m, IR_OP_ADD, ref(m, at), apply(m, IR_OP_MUL, runs, number(m, m->together)));
  rest = ref(m, ir_let(b, "rest", IR_I64, rest));
  write_run(m, b, ref(m, at), rest, row, m->together);
  write_run(m, b, rest, stop, row, 1);
  ir_set(b, at, stop);
  ir_close(b, outer);
}

static void write_part(const entry_map *m, ir_builder *b, ir_expr *part, ir_expr *each, ir_expr *total) {
  ir_block *outer;
  ir_var *at = ir_let(b, "at", IR_I64, apply(m, IR_OP_MUL, part, each));
  ir_expr *end = ref(m, ir_let(b, "end", IR_I64, apply(m, IR_OP_MIN, apply(m, IR_OP_ADD, ref(m, at), each), total)));
  ir_var *row = find_row(m, b, ref(m, at));
  if (m->together > 1) {
    write_rows(m, b, at, end, row);
    return;
  }
  ir_expr *p = ref(m, ir_open_for(b, "entry", ref(m, at), end, IR_RUN_SEQUENTIAL, &outer));
  go_on(m, b, row, p);
  write_entries(m, b, p, ref(m, row), 1);
  ir_close(b, outer);
}

/* Entries of a team: as many as give every team that runs at a time a part, no fewer than pay for finding their row. */
static ir_expr *entries_of_team(const entry_map *m, ir_expr *total, int team) {
  const int64_t threads_a_unit = m->together > 1 ? 512 : 1024; /* that find registers */
  int64_t teams = (int64_t)m->context->profile->units * threads_a_unit / team;
  return apply(m, IR_OP_MAX, number(m, LEAST_EACH), apply(m, IR_OP_MIN, number(m, MOST_EACH), ir_ceil_div(m->arena, total, teams)));
}

bool pass_gpu_entries(pass_context *context, const ir_stage *stage, ir_func *func, ir_code *rows) {
  entry_map m = {.context = context, .arena = context->arena, .func = func, .rows = rows};
  gpu_rows r = {.context = context, .func = func, .loop = rows, .block = &rows->body, .rows = 1};
  if (!find(&m, stage, &r)) return false;
  ir_code *outer = IR_NEW(m.arena, ir_code);
  *outer = *rows;
  outer->body = (ir_block){{NULL, 0, 0}};
  ir_block body = {{NULL, 0, 0}};
  ir_builder b = {m.arena, func, &body};
  for (int i = 0; i < func->body.codes.count; i++) {
    ir_code *c = func->body.codes.at[i];
    if (c != rows) {
      IR_PUSH(m.arena, &body.codes, c);
      continue;
    }
    int team;
    share_sum(&m, &r, &team);
    ir_expr *total = ref(&m, ir_let(&b, "total", IR_I64, start_of(&m, rows->hi)));
    ir_expr *each = ref(&m, ir_let(&b, "each", IR_I64, entries_of_team(&m, total, team)));
    outer->var = IR_NEW(m.arena, ir_var);
    *outer->var = (ir_var){"part", IR_I64, 1};
    for (int n = 2; ir_func_has_name(func, outer->var->name); n++) outer->var->name = ir_format_text(m.arena, "part_%d", n);
    IR_PUSH(m.arena, &func->vars, outer->var);
    outer->lo = number(&m, 0);
    outer->hi = apply(&m, IR_OP_DIV, apply(&m, IR_OP_SUB, apply(&m, IR_OP_ADD, total, each), number(&m, 1)), each);
    outer->run = IR_RUN_TEAM;
    outer->width = team;
    IR_PUSH(m.arena, &body.codes, outer);
    ir_block *kept = b.block;
    b.block = &outer->body;
    write_part(&m, &b, ref(&m, outer->var), each, total);
    b.block = kept;
  }
  func->body = body;
  return true;
}
