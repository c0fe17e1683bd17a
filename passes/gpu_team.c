/* gpu_team.c - sums whose rows are long or few: teams of threads, and parts.
 *
 *     what lies along the summed loop         rows     a row is the work of
 *     contiguous, or nothing is               many     a team: 4 .. 32 threads of a warp, or a block, by its length
 *                                             few      blocks that make parts, then one that adds them up
 *     only what lies along the rows is        many     a thread
 *                                             few      blocks or clusters that share the sums of some columns; where these
 *                                                      are not read as words, threads that make parts, then one
 *
 * How many parts there are depends on the length of the sum alone, so a row's bits do not depend on how many rows
 * there are; they are added in a fixed order.  Lengths that sizes bound by a few thousand are not cut. */
#include <math.h>

#include "passes/gpu_map.h"

enum {
  BLOCK = 256,
  UNCUT = 16384,      /* iterations that a block may do alone */
  UNCUT_THREAD = 256, /* that a thread may */
  PART = 8192,        /* iterations of a part that a block makes */
  PART_THREAD = 16,
  MOST_PARTS = 1056, /* of a row: blocks that run at a time */
  MOST_THREAD_PARTS = 128,
  MANY_ROWS = 1024,
  LEAST_SHARED = 32, LONG_SHARED = 2048, /* iterations that threads of a block share, that those of a cluster do */
  ROWS_AHEAD = 16 /* loads that a thread has under way */
};

static ir_expr *number(const gpu_rows *r, int64_t value) { return ir_int(r->context->arena, value); }

static ir_expr *op(const gpu_rows *r, ir_op o, ir_expr *x, ir_expr *y) { return ir_apply(r->context->arena, o, x, y); }

bool gpu_is_bounded(const ir_code *loop, int64_t most) {
  int64_t bound;
  return gpu_is_size(loop->hi) && ir_size_bound(loop->hi, &bound) && bound <= most;
}

/* Of a size without dyn dims. */
static bool fixed_value(const ir_expr *e, double *value) {
  double x, y;
  if (e->kind == IR_CONST) return *value = (double)e->i, true;
  if (e->kind == IR_DIM) return *value = (double)e->dim->value, e->dim->value >= 0;
  if (e->kind != IR_OP || e->op != IR_OP_MUL) return false;
  return fixed_value(e->args[0], &x) && fixed_value(e->args[1], &y) && (*value = x * y, true);
}

bool gpu_has_rows(const gpu_rows *r, double least) {
  double value;
  return r->loop && fixed_value(r->loop->hi, &value) && value >= least;
}

/* Rows are numbered by sizes: each has its place among the parts. */
static bool can_be_cut(const gpu_rows *r) {
  return !r->loop || (r->loop->lo->kind == IR_CONST && r->loop->lo->i == 0 && gpu_is_size(r->loop->hi));
}

static int power_of_two(double least, int from, int most) {
  int n = from;
  while (n < most && n < least) n *= 2;
  return n;
}

/* ---- teams ------------------------------------------------------------------------------------ */
/* Elements that a thread takes at a time: 16 bytes of the narrowest; one, where it has a loop to do for each. */
static int run_of(const gpu_rows *r, const ir_code *loop, bool cut) {
  const int worth_it = 512; /* where the first element is not known to be aligned */
  int64_t bytes = gpu_strides_of(r, loop).bytes;
  bool aligned = cut || (loop->lo->kind == IR_CONST && loop->lo->i == 0);
  if (!bytes || bytes > 8 || ir_block_has_loop(&loop->body) || (!aligned && gpu_trips(r, loop) < worth_it)) return 1;
  return (int)(16 / bytes);
}

/* Each thread should have two runs to do.  A block's threads wait for each other: where there are rows enough for warps
 * on every multiprocessor, these do longer rows too. */
static int team_of(const gpu_rows *r, const ir_code *loop, int run) {
  const double few = 64, many = 256, warps_a_unit = 32;
  double threads = gpu_trips(r, loop) / (2.0 * run);
  if (threads > (r->rows >= warps_a_unit * r->context->profile->units ? many : few)) return BLOCK;
  return power_of_two(threads, 4, 32);
}

static void share(const gpu_rows *r) {
  for (int i = 0; i < r->shared.count; i++) {
    ir_code *loop = r->shared.at[i];
    loop->run = IR_RUN_LANES;
    loop->width = gpu_is_element_loop(loop) ? 1 : run_of(r, loop, false); /* 1: stores side by side, too */
  }
}

static void give_to_teams(gpu_rows *r) {
  int team = 1;
  for (int i = 0; i < r->shared.count; i++) {
    const ir_code *loop = r->shared.at[i];
    const double elements = 4; /* of a thread, that it stores beside its neighbours' */
    int wanted = gpu_is_element_loop(loop) ? power_of_two(gpu_trips(r, loop) / elements, 4, 32) : team_of(r, loop, run_of(r, loop, false));
    if (wanted > team) team = wanted;
  }
  share(r);
  ir_builder b = {r->context->arena, r->func, NULL};
  ir_code *loop = r->loop;
  if (!loop) {
    ir_block *outer, row = *r->block, top = {{NULL, 0, 0}};
    b.block = &top;
    ir_open_for(&b, "row", number(r, 0), number(r, 1), IR_RUN_TEAM, &outer);
    *b.block = row;
    ir_close(&b, outer);
    r->func->body = top;
    loop = top.codes.at[0];
    team = BLOCK;
  }
  loop->run = IR_RUN_TEAM;
  loop->width = team;
}

/* ---- parts ------------------------------------------------------------------------------------ */
/* Where only the data tell how long it is: as for a row that is full, half of the most at most. */
static ir_expr *parts_of(const gpu_rows *r, const ir_code *loop, double part, int64_t most) {
  bool known = gpu_is_size(loop->hi) && gpu_is_size(loop->lo);
  ir_expr *length = !known                                             ? gpu_places(r, loop)
                    : loop->lo->kind == IR_CONST && loop->lo->i == 0 ? loop->hi
                                                                       : op(r, IR_OP_SUB, loop->hi, loop->lo);
  if (!known) most /= 2;
  if (!length) return number(r, most);
  ir_expr *parts = ir_ceil_div(r->context->arena, length, (int64_t)fmax(1, part));
  return op(r, IR_OP_MAX, number(r, 1), op(r, IR_OP_MIN, number(r, most), parts));
}

/* Of a nest the outer loop is cut where that gives enough parts.  Warps make parts whose threads have little to do one
 * after the other: they wait for nobody. */
static void cut_for_teams(gpu_rows *r, gpu_cut *cut) {
  ir_code *shared = r->shared.at[0];
  double enough = 4 * r->context->profile->units, rows = gpu_trips(r, cut->nest);
  bool outer = shared != cut->nest &&
               (rows >= enough || rows >= gpu_trips(r, shared) / BLOCK || !gpu_is_size(shared->hi));
  cut->loop = outer ? cut->nest : shared;
  double work = gpu_work(r, &cut->loop->body) * (cut->loop == cut->nest ? 1 : rows);
  int run = run_of(r, shared, !outer), team = outer ? team_of(r, shared, run) : BLOCK;
  cut->team = work > 1 && team > 32 ? 32 : team;
  cut->round = outer ? 1 : cut->team * run;
  int64_t smaller = BLOCK / cut->team;
  cut->parts = parts_of(r, cut->loop, (double)PART / (double)smaller / work, smaller * MOST_PARTS);
  cut->last_team = r->rows < r->context->profile->units ? BLOCK : 32;
  shared->run = IR_RUN_LANES;
  shared->width = run;
}

/* A row has one index, and nothing stands before its sum but where that begins. */
static bool can_be_wide(const gpu_rows *r, const gpu_cut *cut) {
  for (int i = 0; i < cut->at; i++) {
    const ir_code *c = r->block->codes.at[i];
    bool begins = false;
    for (int s = 0; s < cut->sums.at.count; s++) begins |= c->kind == IR_LET && c->var == cut->sums.at.at[s].var;
    if (c->kind != IR_COMMENT && !begins) return false;
  }
  for (int s = 0; s < cut->sums.at.count; s++)
    if (cut->sums.at.at[s].best) return false;
  return true;
}

/* Words, which the threads that share a column exchange, those of a block at once; nothing but stores follows the sum. */
static bool can_be_shared(const gpu_rows *r, const gpu_cut *cut) {
  const int room = 48 << 10, threads = 512;
  int bytes = 0; /* of a thread's sums of one row */
  for (int s = 0; s < cut->sums.at.count; s++) {
    int bits = ir_dtype_rows[cut->sums.at.at[s].var->dtype].bits;
    if (bits < 32) return false;
    bytes += bits / 8;
  }
  if (bytes * cut->wide * threads > room) return false;
  for (int i = cut->at + 1; i < r->block->codes.count; i++) {
    ir_code_kind kind = r->block->codes.at[i]->kind;
    if (kind != IR_COMMENT && kind != IR_LET && kind != IR_STORE) return false;
  }
  return gpu_trips(r, cut->nest) >= LEAST_SHARED;
}

/* How many threads share a column depends on the length of the sum alone, and so do its bits (but for columns that are threads enough).
 * How many columns lie side by side depends on how many there are: a block a multiprocessor is wanted, which reads long pieces of a row.
 * Clusters share long sums, large ones where their blocks all find room at once. */
static void share_columns(const gpu_rows *r, gpu_cut *cut, bool many) {
  const double length = gpu_trips(r, cut->nest), units = r->context->profile->units, runs = r->rows / cut->wide;
  const int block = 512, most = 128, usual = 64, least = 8, most_columns = 32, least_columns = 4;
  bool clusters = r->context->options->target->arch >= 90;
  cut->shares = many ? least : length >= LONG_SHARED ? most : length >= usual ? usual : usual / 2;
  cut->columns = most_columns;
  if (cut->shares == most && clusters) {
    if (runs * cut->shares / block > units) cut->columns = 8; /* of two blocks */
    return;
  }
  while (cut->columns > least_columns && (cut->columns * cut->shares > block || runs / cut->columns < 0.9 * units)) cut->columns /= 2;
}

static void cut_for_threads(gpu_rows *r, gpu_cut *cut, bool many) {
  cut->rows_inner = true; /* what they read lies side by side */
  cut->rows_last = r->rows >= MANY_ROWS;
  cut->loop = cut->nest;
  int64_t bytes = gpu_strides_of(r, cut->nest).row_bytes;
  cut->wide = cut->rows_last && bytes && bytes <= 8 && can_be_wide(r, cut) ? (int)(bytes < 2 ? 8 : 16 / bytes) : 1;
  cut->loop->run = cut->wide > 1 ? IR_RUN_SEQUENTIAL : IR_RUN_UNROLL;
  cut->loop->width = cut->wide > 1 ? 0 : ROWS_AHEAD;
  cut->team = cut->round = 1;
  cut->parts = parts_of(r, cut->loop, PART_THREAD, cut->rows_last ? MOST_THREAD_PARTS : 4096);
  cut->last_team = cut->rows_last ? 1 : r->rows < r->context->profile->units ? BLOCK : 32;
  if (cut->wide > 1 && can_be_shared(r, cut)) share_columns(r, cut, many);
}

/* ---- the rule --------------------------------------------------------------------------------- */
bool gpu_map_rows(gpu_rows *r) {
  const double warp = 32, units = r->context->profile->units, of_a_unit = 1024;
  if (r->stage->assembled || !gpu_find_shared(r)) return false; /* its functions count, then fill: they are two */
  gpu_cut cut = {0};
  cut.nest = r->shared.count == 1 ? gpu_only_sum(r, &cut.at, &cut.sums) : NULL;
  ir_code *first = r->shared.at[0];
  gpu_strides strides = gpu_strides_of(r, first);
  bool by_rows = strides.along_rows && r->rows >= warp && (!strides.along_loop || r->rows >= units * of_a_unit / 2);
  if (by_rows) {
    bool can = cut.nest && cut.nest == first && can_be_cut(r) && gpu_is_size(first->hi), many = gpu_has_rows(r, units * of_a_unit);
    if (can) cut_for_threads(r, &cut, many);
    if (!can || (!cut.columns && (many || gpu_is_bounded(first, UNCUT_THREAD)))) {
      if (r->shared.count == 1) first->run = IR_RUN_UNROLL, first->width = ROWS_AHEAD;
      return false;
    }
    gpu_cut_rows(r, &cut);
    return true;
  }
  if (r->shared.count == 1 && cut.nest == first && gpu_is_bounded(first, 8)) return false;
  bool cuts = cut.nest && can_be_cut(r) && !gpu_has_rows(r, 2 * units) &&
              (gpu_is_size(cut.nest->hi) || !r->loop || cut.nest != first) &&
              !(cut.nest == first ? gpu_is_bounded(first, UNCUT) : gpu_is_bounded(cut.nest, 8) && gpu_is_bounded(first, UNCUT / 8));
  if (!cuts) {
    give_to_teams(r);
    return true;
  }
  cut_for_teams(r, &cut);
  gpu_cut_rows(r, &cut);
  return true;
}
