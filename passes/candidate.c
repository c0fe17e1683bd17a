/* candidate.c - one candidate: making it, its predicted time at any cover, the layouts it needs.
 *
 * A candidate's cost is computed from what it says (row, micro-tile, tiles) and nothing else, so
 * that a table read back from text costs the same. */
#include <math.h>

#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/storage.h"

const ir_target *pass_target_of(const pass_context *context) {
  if (context->options && context->options->target) return context->options->target;
  const ir_target *named =
      context->program->target ? ir_target_find(context->program->target) : NULL;
  return named ? named : ir_target_find("cpu");
}

void pass_context_prepare(pass_context *context) {
  if (!context->profile)
    context->profile = pass_profile_of(context->arena, pass_target_of(context));
}

ir_candidate *pass_candidate_new(pass_context *context, pass_ways *ways, const char *row) {
  ir_candidate *candidate = IR_NEW(context->arena, ir_candidate);
  candidate->target = ways->stmt->target;
  candidate->row = row;
  candidate->label = candidate->fusion = candidate->formats = candidate->why = "";
  candidate->density = candidate->cover = 1;
  candidate->verdict = IR_REJECTED;
  IR_PUSH(context->arena, &ways->list, ((pass_way){.candidate = candidate}));
  return candidate;
}

void pass_candidate_tile(pass_context *context, ir_candidate *candidate, ir_index *index,
                         int64_t size) {
  if (index) IR_PUSH(context->arena, &candidate->tiles, ((ir_tile_size){index, size}));
}

/* ---- cost ------------------------------------------------------------------------------------ */
typedef struct walk_cost {
  pass_context *context;
  double density; /* of the sparsest operand that is walked */
  double bytes;
  double extent;  /* of the indices bound inside */
  bool by_places; /* argmax: of a stored operand it is found by one thread */
  bool multiplies; /* floats are summed, which takes one instruction with their product */
} walk_cost;

static bool add_node(void *user, ir_expr *node) {
  walk_cost *walk = user;
  for (int i = 0; i < node->bound_count && node->kind == IR_REDUCE; i++)
    walk->extent *= pass_index_assumed(walk->context, node->bound[i]);
  if (node->kind == IR_REDUCE) walk->multiplies = node->reducer == IR_RED_SUM && ir_dtype_is_float(node->dtype);
  walk->by_places |= node->kind == IR_TOPK || (node->kind == IR_REDUCE && node->reducer == IR_RED_ARGMAX);
  if (node->kind != IR_ACCESS) return true;
  walk->bytes += pass_tensor_bytes(walk->context, node->tensor);
  if (pass_tensor_is_sparse(node->tensor))
    walk->density = fmin(walk->density, pass_zeros_of(walk->context, node->tensor).likely);
  return true;
}

/* Additions to one place are made in the order of this index. */
static bool waits_along(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->axes.count; i++)
    if (stmt->axes.at[i].index == index && !stmt->axes.at[i].invariant) return ir_is_scatter(stmt);
  return false;
}

static bool is_segment_of(const ir_stmt *stmt, const ir_index *index) {
  for (int i = 0; i < stmt->axes.count; i++)
    if (stmt->axes.at[i].index->offsets && stmt->axes.at[i].index->segment == index) return true;
  return false;
}

/* Dense operands, reduced on a CPU in vectors.  Where two indices of the result are met for each reduced one, what is loaded is used
 * often, from registers; else all of it comes from a cache. */
static double reduced_cost(pass_context *context, const ir_stmt *stmt, const walk_cost *walk, double iterations) {
  const double others = 2.5; /* instructions of another reducer, or of integers */
  const pass_profile *p = context->profile;
  ir_dtype dtype = stmt->acc != IR_NONE ? stmt->acc : stmt->target->dtype;
  double compute = pass_cost_multiply_adds(p, pass_target_of(context), iterations * (walk->multiplies ? 1 : others), dtype);
  double moved = stmt->free.count < 2 ? iterations * (double)ir_dtype_bytes(dtype) / (p->shared_gbs * 1e3) : 0;
  return p->launch_us + fmax(fmax(compute, moved), walk->bytes / (p->bandwidth_gbs * 1e3));
}

/* Rows of all segments are as many as the ragged index has. */
static double indices_met(pass_context *context, const ir_stmt *stmt, double elements) {
  for (int i = 0; i < stmt->free.count; i++)
    if (is_segment_of(stmt, stmt->free.at[i])) elements /= pass_index_assumed(context, stmt->free.at[i]);
  return elements;
}

double pass_loops_cost(pass_context *context, const ir_stmt *stmt) {
  walk_cost walk = {context, 1, pass_tensor_bytes(context, stmt->target), 1, false, true};
  ir_expr_walk(stmt->value, add_node, &walk);
  if (stmt->sample || stmt->cond)
    ir_expr_walk(stmt->sample ? stmt->sample : stmt->cond, add_node, &walk);
  double elements = 1, side_by_side = 1, in_line = 0;
  for (int i = 0; i < stmt->free.count; i++) {
    double extent = pass_index_assumed(context, stmt->free.at[i]);
    elements *= extent;
    if (waits_along(stmt, stmt->free.at[i])) in_line += extent;
    else side_by_side *= extent;
  }
  bool cpu = pass_target_of(context)->kind == IR_TARGET_CPU;
  if (cpu) elements = indices_met(context, stmt, elements);
  if (cpu && walk.extent > 1 && walk.density == 1 && !walk.by_places && !ir_is_scatter(stmt))
    return reduced_cost(context, stmt, &walk, elements * walk.extent);
  bool alone = walk.by_places && walk.density < 1;
  if (pass_target_of(context)->kind == IR_TARGET_CUDA && walk.extent > 1 && !alone && !ir_is_scatter(stmt))
    return pass_cost_sums(context->profile, elements, walk.extent * walk.density, walk.density < 1, walk.bytes);
  double share = pass_thread_share(context->profile, pass_target_of(context), side_by_side);
  double iterations = walk.extent * elements * walk.density / share;
  double waits = in_line * context->profile->ordered_us;
  return waits + (walk.density < 1 ? pass_cost_loops(context->profile, 0, iterations, walk.bytes)
                                   : pass_cost_loops(context->profile, iterations, 0, walk.bytes));
}

static const ir_expr *factor_of(const pass_sum *sum, const ir_tensor *tensor) {
  for (int i = 0; i < sum->factors.count; i++)
    if (sum->factors.at[i]->kind == IR_ACCESS && sum->factors.at[i]->tensor == tensor)
      return sum->factors.at[i];
  return NULL;
}

static bool detects_in_producer(pass_context *context, const ir_tensor *operand) {
  pass_sum producer;
  return pass_target_of(context)->kind == IR_TARGET_CUDA && operand->def &&
         pass_sum_of(context, operand->def, &producer) && producer.matrices;
}

/* A dense row's tiling; turned: its m runs along the product's n. */
static pass_tiling whole_tiling(const ir_kernel_row *row, bool turned) {
  return (pass_tiling){.row = row,
                       .m = turned ? row->n : row->m,
                       .n = turned ? row->m : row->n,
                       .k = row->k,
                       .cover = 1};
}

double pass_dense_cost(pass_context *context, const pass_sum *sum, const ir_kernel_row *row,
                       bool turned) {
  pass_product q = pass_sum_product(sum, NULL);
  pass_tiling whole = whole_tiling(row, turned);
  return pass_cost_product(context->profile, pass_target_of(context), &q, &whole);
}

static double best_dense_row(pass_context *context, const pass_sum *sum) {
  const ir_target *target = pass_target_of(context);
  double best = INFINITY;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (ir_kernel_is_dense(row) && pass_row_fits(row, target, sum))
      best = fmin(best, pass_dense_cost(context, sum, row, false));
  }
  return isfinite(best) ? best : 0;
}

/* No epilogue makes bits for its list. */
static bool reads_values(const ir_candidate *candidate) { return pass_is_live(candidate) || pass_is_krows(candidate); }

bool pass_list_is_fused(pass_context *context, const ir_candidate *candidate) { return !reads_values(candidate) && detects_in_producer(context, candidate->operand); }

typedef struct looking {
  double epilogue, lists; /* what detection adds to the producing stage; lists and guard */
  bool fused;
} looking;

/* Vectors of 512 bits are compressed whole; narrower ones element by element. */
static bool compresses_rows(pass_context *context, const ir_candidate *candidate) {
  const ir_target *target = pass_target_of(context);
  return target->kind == IR_TARGET_CPU && target->vector_bits >= 512 && candidate->strip_index &&
         candidate->strip == 1 && candidate->gran == 1;
}

/* A kernel that moves boxes and alone reads a list of blocks, or of k's over wide strips, decides, and is the dense branch too: one launch
 * makes what it reads, and none leaves. */
static bool decides_alone(const ir_candidate *candidate, bool fused) {
  const int64_t wide = 128;
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && !fused && !candidate->regrouped && ir_kernel_moves_boxes(row) && !ir_kernel_packs(row) &&
         ((ir_kernel_gathers(row) && candidate->strip >= wide) || ir_kernel_k_blocks(row));
}

/* What is listed of rows is moved by the launch that has read them (kernels/compact_strips.cuh). */
static bool is_moved_at_once(const ir_candidate *candidate, bool fused) { return !fused && pass_is_packing(candidate) && candidate->strip * (pass_is_paired(candidate) ? 2 : 1) == IR_SEGMENT_ROWS; }

/* One launch makes the list: who alone reads it decides. */
static bool is_listed_at_once(const ir_candidate *candidate, bool fused) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return decides_alone(candidate, fused) || is_moved_at_once(candidate, fused) || reads_values(candidate) || (row && !fused && ir_kernel_moves_boxes(row) && ir_kernel_fills(row));
}

/* Or it is the dense branch alone: no launch leaves. */
static bool is_both(const ir_candidate *candidate, bool fused) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return decides_alone(candidate, fused) || (row && !fused && ((ir_kernel_gathers(row) && (ir_kernel_pairs(row) || ir_kernel_packs(row))) || ir_kernel_narrow(row)));
}

static double guard_cost(const pass_profile *p, const ir_candidate *candidate, bool fused) {
  return pass_cost_guard(p, is_both(candidate, fused) ? 0 : 1);
}

double pass_candidate_guard(pass_context *context, const ir_candidate *candidate) {
  return guard_cost(context->profile, candidate, pass_list_is_fused(context, candidate));
}

static looking looking_cost(pass_context *context, const ir_candidate *candidate, pass_covers covers) {
  const double cover = covers.one;
  const pass_profile *p = context->profile;
  const ir_tensor *x = candidate->operand;
  double elements = 1, cols = pass_index_assumed(context, candidate->axis);
  for (int d = 0; d < x->rank; d++) elements *= pass_size_assumed(context, x->dim[d]);
  bool live = pass_is_live(candidate);
  looking cost = {.fused = pass_list_is_fused(context, candidate)};
  cost.lists = pass_cost_detect(p, elements / cols, cols, x->dtype, live ? elements / cols : (double)candidate->strip,
                                (double)candidate->gran, cover, cost.fused) +
               guard_cost(p, candidate, cost.fused);
  if (is_listed_at_once(candidate, cost.fused)) cost.lists -= p->launch_us;
  if (reads_values(candidate)) cost.lists += pass_cost_pack(p, cover * elements * (double)ir_dtype_bytes(x->dtype));
  const double bytes = elements * (double)ir_dtype_bytes(x->dtype);
  if (pass_is_packing(candidate)) cost.lists += is_moved_at_once(candidate, cost.fused) ? pass_cost_move(p, bytes, covers.one, pass_is_paired(candidate)) : pass_cost_compact(p, bytes, covers.both);
  if (candidate->regrouped) cost.lists += p->launch_us + p->regroup_us;
  if (compresses_rows(context, candidate))
    cost.lists = pass_cost_compress(p, elements, x->dtype, cover) + pass_cost_guard(p, 1);
  pass_sum producer;
  if (cost.fused && pass_sum_of(context, x->def, &producer))
    cost.epilogue = p->fused_detect_share * best_dense_row(context, &producer);
  return cost;
}

static double index_cost(pass_context *context, const ir_candidate *candidate, pass_covers covers) {
  looking cost = looking_cost(context, candidate, covers);
  return cost.epilogue + cost.lists;
}

/* It moves boxes, a block a multiprocessor: all of its blocks are there at once, and say that they have computed. */
static bool can_stand_in_front(const ir_candidate *dense) {
  const ir_kernel_row *row = dense ? ir_kernel_row_named(dense->row) : NULL;
  return row && ir_kernel_is_dense(row) && ir_kernel_moves_boxes(row) && ir_kernel_split(row) == 1 && !ir_kernel_is_grouped(row);
}

bool pass_has_front(pass_context *context, const ir_candidate *candidate, const ir_candidate *dense) {
  const pass_profile *p = context->profile;
  bool many = pass_is_spread(candidate) || pass_is_packing(candidate) || reads_values(candidate) || candidate->regrouped; /* launches that would leave */
  return many && !pass_is_quick(context) && can_stand_in_front(dense) && p->sample_us > 0 && p->front_us > 0 && dense->microseconds >= p->front_us &&
         !pass_list_is_fused(context, candidate);
}

/* One kernel is both branches.  dense NULL: so it is taken to be. */
static bool is_twin(const ir_candidate *candidate, const ir_candidate *dense) {
  return !dense || ir_kernel_is_twin(ir_kernel_row_named(candidate->row), ir_kernel_row_named(dense->row));
}

double pass_candidate_look(pass_context *context, const ir_candidate *candidate, const ir_candidate *dense) {
  looking cost = looking_cost(context, candidate, (pass_covers){1, 1});
  if (pass_has_front(context, candidate, dense)) return fmin(cost.lists, pass_cost_front(context->profile, pass_is_spread(candidate) ? 3 : 1)); /* of single columns many rows are looked at */
  bool both = is_both(candidate, cost.fused) && is_twin(candidate, dense);
  int leave = both ? 0 : pass_goes_in_place(context, candidate) ? 2 : pass_is_spread(candidate) ? 4 : candidate->regrouped ? 2 : 1; /* product and spread leave in 2.9 and 3.7 us (an H100): as four others */
  if (!cost.fused && !is_listed_at_once(candidate, false) && !pass_is_paired(candidate)) leave++;
  if (is_moved_at_once(candidate, cost.fused)) leave++; /* who clears what blocks tell each other */
  return cost.epilogue + pass_cost_look(context->profile, cost.lists, cost.fused, leave);
}

double pass_candidate_behind(pass_context *context, const ir_candidate *candidate, const ir_candidate *dense) {
  bool apart = is_both(candidate, pass_list_is_fused(context, candidate)) && !is_twin(candidate, dense) && !pass_has_front(context, candidate, dense);
  return apart ? context->profile->skipped_us : 0;
}

static bool is_turned(const pass_sum *sum, const ir_candidate *candidate,
                      const ir_kernel_row *row) {
  for (int i = 0; i < candidate->tiles.count; i++)
    if (candidate->tiles.at[i].index == sum->m_index)
      return row->m != row->n && candidate->tiles.at[i].size == row->n;
  return false;
}

static bool rows_are_whole(const pass_context *context, const ir_candidate *candidate);

static pass_tiling tiling_of(const pass_context *context, const pass_sum *sum, const ir_candidate *candidate,
                             pass_covers covers) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  if (row && !candidate->operand) return whole_tiling(row, is_turned(sum, candidate, row));
  pass_tiling tiling = {.row = row, .m = 64, .n = 64, .k = 1, .cover = covers.one, .both = covers.both};
  if (row) {
    tiling.m = row->m;
    tiling.n = row->n;
    tiling.k = row->k;
  } else if (candidate->operand) {
    tiling.m = (double)candidate->strip;
  }
  tiling.whole = row && ir_kernel_n_blocks(row);
  tiling.columns = pass_is_sampled(candidate) || pass_is_spread(candidate) || tiling.whole;
  tiling.strip = candidate->operand ? (double)candidate->strip : 0;
  tiling.pairs = pass_is_paired(candidate);
  tiling.gran = (double)candidate->gran;
  tiling.scattered = candidate->regrouped;
  tiling.rows = candidate->regrouped && rows_are_whole(context, candidate);
  tiling.noted = row && ir_kernel_skips(row) && !ir_kernel_skips_columns(row) && candidate->operand->def &&
                 ir_asked_matrix(candidate->operand->def) && (row->m > 1 || sum->m <= 1); /* as pass `stage` has it */
  tiling.seeks = candidate->operand && pass_samples_itself(candidate) && !tiling.noted;
  return tiling;
}

/* On 16-bit operands that boxes can be made of our own fastest tile is as fast: measured over 63
 * products, the geometric mean is 1.00.  Their times are the same, and ours goes first.  But where rows are
 * no whole memory lines: its blocks share what they load, ours do not. */
double pass_library_cost(pass_context *context, const pass_sum *sum) {
  const double crooked = 1.05; /* what that costs it: 1.03 to 1.05 measured */
  pass_product q = pass_sum_product(sum, NULL);
  double time = pass_cost_library(context->profile, &q), own = pass_boxes_best(context, sum);
  if (isfinite(own) && (q.lines_a > 1 || q.lines_b > 1)) return fmin(own, crooked * time);
  return isfinite(own) ? fmax(time, own) : time;
}

/* The columns of its strips, where a stored operand is walked over strips of them. */
static ir_index *strip_columns(const ir_candidate *candidate) {
  bool strips =
      !candidate->operand && candidate->tiles.count == 1 && !strcmp(candidate->row, "loop");
  return strips ? candidate->tiles.at[0].index : NULL;
}

double pass_stored_cost(pass_context *context, const pass_sum *sum, const ir_candidate *candidate, double density) {
  pass_strips strips;
  ir_index *columns = strip_columns(candidate);
  if (columns && pass_strips_fit(sum, columns, NULL, &strips))
    return pass_strips_cost(context, sum, &strips, candidate->tiles.at[0].size, density);
  if (!pass_stored_fit(sum, &strips)) return pass_loops_cost(context, sum->stmt);
  return candidate->expanded ? pass_expanded_cost(context, sum, &strips, density) : pass_straight_cost(context, sum, &strips, density);
}

/* As the hint says, or the lack of one. */
static double stored_cost(pass_context *context, const pass_sum *sum, const ir_candidate *candidate) {
  const ir_expr *stored = pass_stored_operand(sum);
  return pass_stored_cost(context, sum, candidate, stored ? pass_zeros_of(context, stored->tensor).likely : 1);
}

/* A list of single rows is walked as a stored operand is; negative: it is not one of those. */
static double rows_cost(pass_context *context, const pass_sum *sum, const ir_candidate *candidate,
                        double cover) {
  pass_strips strips;
  if (candidate->strip != 1 || candidate->gran != 1) return -1;
  for (int i = 0; i < candidate->tiles.count; i++) {
    const ir_tile_size *tile = &candidate->tiles.at[i];
    if (tile->index != candidate->strip_index &&
        pass_strips_fit(sum, tile->index, candidate->operand, &strips))
      return pass_strips_cost(context, sum, &strips, tile->size, cover);
  }
  for (int i = 0; i < sum->stmt->free.count; i++)
    if (sum->stmt->free.at[i] != candidate->strip_index &&
        pass_strips_fit(sum, sum->stmt->free.at[i], candidate->operand, &strips))
      return pass_straight_cost(context, sum, &strips, cover);
  return -1;
}

/* The share of elements that a condition lets through: of the tensors that it asks about. */
static bool find_share(void *user, ir_expr *node) {
  walk_cost *walk = user;
  if (node->kind == IR_ACCESS && node->tensor->pattern.zeros != IR_ZEROS_UNKNOWN)
    walk->density = fmin(walk->density, pass_zeros_of(walk->context, node->tensor).likely);
  return true;
}

/* Sums of single elements: nothing that was loaded is used twice. */
static double conditional_cost(pass_context *context, const pass_sum *sum) {
  const double unknown = 0.5;
  ir_expr *asked = sum->stmt->cond ? sum->stmt->cond : sum->stmt->sample;
  walk_cost walk = {context, 1, 0, 1, false, true};
  ir_expr_walk(asked, find_share, &walk);
  double share = walk.density < 1 ? walk.density : unknown;
  return pass_cost_loops(context->profile, 0, share * sum->batch * sum->m * sum->n * sum->k_size,
                         pass_tensor_bytes(context, sum->stmt->target));
}

/* Rows of the other operand that lie along the listed axis are met element by element: what is left of
 * vectors is the strip, where that is contiguous. */
static bool is_scattered(const pass_sum *sum, const ir_candidate *candidate) {
  const ir_expr *other = factor_of(sum, candidate->operand) == sum->a ? sum->b : sum->a;
  return other && pass_contiguous_index(other, false) == candidate->axis;
}

static double scattered_cost(pass_context *context, const pass_sum *sum,
                             const ir_candidate *candidate, double cover) {
  const ir_expr *operand = factor_of(sum, candidate->operand);
  const ir_target *target = pass_target_of(context);
  double lanes = fmax(1, target->vector_bits / (8.0 * (double)ir_dtype_bytes(sum->a->tensor->dtype)));
  double strip = (double)candidate->strip;
  bool vectors = pass_contiguous_index(operand, false) == candidate->strip_index;
  double visits = vectors ? ceil(strip / lanes) / strip : 1; /* an element of the result */
  return pass_cost_loops(context->profile, 0, cover * sum->batch * sum->m * sum->n * sum->k_size * visits,
                         pass_tensor_bytes(context, candidate->operand));
}

static double spread_cost(pass_context *context, const pass_sum *sum, const ir_candidate *candidate, double cover) {
  bool in_place = pass_goes_in_place(context, candidate);
  if (in_place) return pass_cost_in_place(context->profile, sum->m, sum->n, cover);
  return pass_cost_spread(context->profile, pass_tensor_bytes(context, sum->stmt->target), pass_tensor_bytes(context, candidate->operand), cover);
}

double pass_candidate_spread(pass_context *context, const ir_candidate *candidate, double cover) {
  pass_sum sum;
  return pass_sum_of(context, candidate->target->def, &sum) ? spread_cost(context, &sum, candidate, cover) : 0;
}

double pass_candidate_cost(pass_context *context, const pass_sum *sum,
                           const ir_candidate *candidate, double cover, double *index) {
  pass_covers covers = {cover, pass_is_paired(candidate) ? cover * (2 - cover) : cover};
  return pass_candidate_time(context, sum, candidate, covers, index);
}

double pass_candidate_time(pass_context *context, const pass_sum *sum, const ir_candidate *candidate, pass_covers covers, double *index) {
  const double cover = covers.one;
  bool listed = candidate->operand && candidate->axis;
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  if (row && ir_kernel_scatters(row)) return *index = 0, pass_scatter_cost(context, candidate->target->def, row);
  if (sum && sum->grouped && row) return *index = 0, pass_groups_cost(context, sum, row);
  if (sum && sum->widened) return *index = 0, pass_widen_cost(context, sum, row);
  if (sum && sum->sdd && row) return *index = 0, pass_sdd_cost(context, sum, row);
  if (sum && sum->bsr && row) return *index = 0, pass_bsr_cost(context, sum, row);
  if (pass_is_library(candidate) && sum && sum->matrices)
    return *index = 0, pass_library_cost(context, sum);
  *index = listed ? index_cost(context, candidate, covers) : 0;
  bool cpu = pass_target_of(context)->kind == IR_TARGET_CPU;
  if (sum && !sum->matrices && !listed && cpu) return stored_cost(context, sum, candidate);
  if (sum && !sum->matrices && !listed) return pass_walk_cost(context, sum);
  if (!sum || !sum->matrices)
    return *index + (listed ? cover : 1) * pass_loops_cost(context, candidate->target->def);
  if (cpu && !listed && !candidate->whole && (sum->stmt->cond || sum->stmt->sample))
    return conditional_cost(context, sum);
  double rows = cpu && listed ? rows_cost(context, sum, candidate, cover) : -1;
  if (rows >= 0) return *index + rows;
  if (cpu && listed && is_scattered(sum, candidate))
    return *index + scattered_cost(context, sum, candidate, cover);
  pass_tiling tiling = tiling_of(context, sum, candidate, covers);
  const ir_expr *across = listed ? factor_of(sum, candidate->operand) : NULL;
  if (tiling.columns) across = candidate->axis == sum->m_index ? sum->b : NULL;
  pass_product q = pass_sum_product(sum, across);
  double spread = pass_is_spread(candidate) ? spread_cost(context, sum, candidate, covers.one) : 0;
  return *index + spread + pass_cost_product(context->profile, pass_target_of(context), &q, &tiling);
}

double pass_candidate_joined(pass_context *context, const pass_sum *sum, const ir_candidate *candidate) {
  pass_tiling tiling = tiling_of(context, sum, candidate, (pass_covers){candidate->cover, candidate->cover});
  pass_product q = pass_sum_product(sum, NULL);
  tiling.joined = true;
  return pass_cost_product(context->profile, pass_target_of(context), &q, &tiling);
}

typedef struct axis_search {
  const ir_candidate *candidate;
  bool first; /* the listed axis is the operand's first dimension: strips run along its columns */
} axis_search;

static bool find_axis(void *user, ir_expr *node) {
  axis_search *search = user;
  const ir_candidate *candidate = search->candidate;
  if (node->kind == IR_ACCESS && node->tensor == candidate->operand && node->arg_count == 2)
    search->first |= ir_is_bare(node->args[0], candidate->axis);
  return true;
}

pass_zeros pass_zeros_across(const ir_candidate *candidate, const pass_zeros *zeros) {
  axis_search search = {candidate, false};
  const ir_stmt *stmt = candidate->target ? candidate->target->def : NULL;
  ir_expr *parts[] = {stmt ? stmt->value : NULL, stmt ? stmt->cond : NULL,
                      stmt ? stmt->sample : NULL};
  for (int i = 0; i < IR_COUNT(parts); i++)
    if (parts[i]) ir_expr_walk(parts[i], find_axis, &search);
  pass_zeros seen = *zeros;
  if (search.first) seen.rows = zeros->cols, seen.cols = zeros->rows;
  return seen;
}

/* Of single rows that are not alike where they lie, so much of the way to all alike is found elsewhere;
 * blocks of rows lie side by side already. */
static double alike_regrouped(const pass_zeros *zeros, double correlation) {
  const double found = 0.42; /* of independent blocks of 1x64 at 5 and 1 %, measured */
  return zeros->rows > 1 ? correlation : correlation + found * (1 - correlation);
}

/* A hint says that zeros come in whole rows: a regrouped strip has all of k, or none. */
static bool rows_are_whole(const pass_context *context, const ir_candidate *candidate) {
  pass_zeros of = pass_zeros_of(context, candidate->operand), zeros = pass_zeros_across(candidate, &of);
  return zeros.rows <= 1 && zeros.cols >= pass_index_assumed(context, candidate->axis);
}

/* Of the operand, across the listed axis. */
static double row_length(const pass_context *context, const ir_candidate *candidate) {
  double length = 1;
  for (int d = 0; d < candidate->operand->rank; d++) length *= pass_size_assumed(context, candidate->operand->dim[d]);
  return length / fmax(1, pass_index_assumed(context, candidate->axis));
}

/* A strip that is higher than the operand holds no more rows than there are.  Who names blocks knows of none that are higher:
 * what lies above one another in such a strip is less alike than where nothing is said. */
static double cover_of(const pass_context *context, const ir_candidate *candidate, const pass_zeros *of, double density, double correlation,
                       double strip) {
  pass_zeros seen = pass_zeros_across(candidate, of), *zeros = &seen;
  if (pass_is_live(candidate)) strip = row_length(context, candidate);
  if (pass_is_live(candidate)) correlation = 0; /* a hint says how long blocks along a row are */
  if (candidate->strip_index)
    strip = fmin(strip, pass_index_assumed(context, candidate->strip_index));
  if (candidate->regrouped && rows_are_whole(context, candidate)) return density;
  if (of->known && zeros->rows <= 1 && zeros->cols > 1 && strip > 1) correlation /= 2; /* who names runs of single rows knows of none that are alike */
  if (candidate->regrouped) correlation = alike_regrouped(zeros, correlation);
  else if (candidate->gran == 1 && zeros->rows > 1 && strip > zeros->rows) correlation /= 2;
  return pass_cover_alike(zeros, density, strip, (double)candidate->gran, correlation);
}

double pass_candidate_cover(const pass_context *context, const ir_candidate *candidate,
                            const pass_zeros *zeros, double density, double correlation) {
  return cover_of(context, candidate, zeros, density, correlation, (double)candidate->strip);
}

pass_covers pass_candidate_covers(const pass_context *context, const ir_candidate *candidate,
                                  const pass_zeros *zeros, double density, double correlation) {
  double one = pass_candidate_cover(context, candidate, zeros, density, correlation);
  if (!pass_is_paired(candidate)) return (pass_covers){one, one};
  return (pass_covers){one, cover_of(context, candidate, zeros, density, correlation, 2 * (double)candidate->strip)};
}

void pass_candidate_estimate(pass_context *context, const pass_sum *sum, ir_candidate *candidate) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  pass_covers covers = {candidate->cover, candidate->cover};
  if (candidate->operand && (candidate->axis || (row && ir_kernel_skips(row)))) {
    pass_zeros zeros = pass_zeros_of(context, candidate->operand);
    candidate->density = zeros.likely;
    /* Behind a guard rows may be as alike as they like; where there is none they are not. */
    double alike = candidate->axis ? 0.5 : 0;
    covers = pass_candidate_covers(context, candidate, &zeros, zeros.likely, alike);
    candidate->cover = covers.one;
  }
  candidate->microseconds = pass_candidate_time(context, sum, candidate, covers, &candidate->index_microseconds);
}

/* ---- layouts --------------------------------------------------------------------------------- */
bool pass_layout_is_free(const ir_kernel *kernel, const ir_tensor *tensor) {
  if (!ir_tensor_is_inner(tensor) || !tensor->def || tensor->like || !tensor->format_why || tensor->rank != 2)
    return false;
  if (tensor->format && !ir_format_is_dense(tensor->format)) return false;
  if (ir_last_dim(tensor) != tensor->rank - 1) return false;
  return !pass_schedule_find(kernel, IR_DO_FORMAT, tensor->name);
}

ir_index *pass_contiguous_index(const ir_expr *access, bool turned) {
  const ir_tensor *tensor = access->tensor;
  int dim = ir_last_dim(tensor);
  if (turned) dim = tensor->rank - 1 - dim;
  const ir_expr *sub = tensor->rank ? access->args[dim] : NULL;
  return sub && sub->kind == IR_INDEX ? sub->index : NULL;
}
