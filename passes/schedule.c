/* schedule.c - what the user's schedule says, and holding the passes to it.
 *
 * A directive restricts the table of candidates: what does not fit it is refused with its reason,
 * and what is left is marked as asked for.  When nothing is left, that is an error that says what
 * there would have been. docs/schedule.md lists the directives. */
#include <math.h>

#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/storage.h"

void pass_schedule_rename(ir_kernel *kernel, const char *from, const char *to) {
  for (int i = 0; kernel->schedule && i < kernel->schedule->directives.count; i++) {
    ir_directive *d = &kernel->schedule->directives.at[i];
    bool shapes = d->kind == IR_DO_TILE || d->kind == IR_DO_SPLIT || d->kind == IR_DO_LIBRARY ||
                  d->kind == IR_DO_DENSE || d->kind == IR_DO_REGROUP;
    if (shapes && d->tensor && !strcmp(d->tensor, from)) d->tensor = to;
  }
}

ir_directive *pass_schedule_find(const ir_kernel *kernel, ir_directive_kind kind,
                                 const char *tensor) {
  for (int i = 0; kernel->schedule && i < kernel->schedule->directives.count; i++) {
    ir_directive *directive = &kernel->schedule->directives.at[i];
    if (directive->kind == kind &&
        (!tensor || (directive->tensor && !strcmp(directive->tensor, tensor))))
      return directive;
  }
  return NULL;
}

const ir_directive *pass_schedule_compact(const ir_kernel *kernel, const ir_tensor *tensor) {
  return pass_schedule_find(kernel, IR_DO_COMPACT, tensor->name);
}

/* Canonical form splits `y` into `y.0`, .. and itself; the name of a user's tensor has no dot. */
static bool is_of(const ir_tensor *target, const char *name) {
  size_t length = strlen(name);
  return !strncmp(target->name, name, length) &&
         (!target->name[length] || target->name[length] == '.');
}

static const ir_kernel *kernel_of(const ir_program *program, const ir_tensor *tensor) {
  for (int i = 0; i < program->kernels.count; i++)
    for (int t = 0; t < program->kernels.at[i]->tensors.count; t++)
      if (program->kernels.at[i]->tensors.at[t] == tensor) return program->kernels.at[i];
  return NULL;
}

ir_precision pass_schedule_precision(const ir_program *program, const ir_tensor *target) {
  const ir_kernel *kernel = kernel_of(program, target);
  for (int i = 0; kernel && kernel->schedule && i < kernel->schedule->directives.count; i++) {
    const ir_directive *d = &kernel->schedule->directives.at[i];
    if (d->kind == IR_DO_PRECISION && is_of(target, d->tensor)) return d->precision;
  }
  return IR_PRECISION_FULL;
}

/* The index names of a let or out are those of its definition. */
static int dim_named(const ir_tensor *tensor, const char *name) {
  for (int d = 0; tensor->def && d < tensor->rank; d++) {
    const ir_expr *sub = tensor->def->subs[d];
    if (sub->kind == IR_INDEX && !strcmp(sub->index->name, name)) return d;
  }
  return -1;
}

bool pass_compact_shape(const ir_directive *directive, const ir_tensor *tensor, int *axis_dim,
                        int64_t *strip, int64_t *gran) {
  *axis_dim = dim_named(tensor, directive->name[0]);
  if (*axis_dim < 0 || tensor->rank != 2) return false;
  int extents[2] = {directive->gran_rows, directive->gran_cols};
  *gran = extents[*axis_dim];
  *strip = extents[1 - *axis_dim];
  return *strip > 0 && *gran > 0;
}

/* ---- errors ---------------------------------------------------------------------------------- */
static spc_status refuse(pass_context *context, ir_diag_id id, const ir_directive *directive,
                         const char *why) {
  ir_diag_add(context->sink, id, directive->span, "%s", why);
  return SPC_INVALID_INPUT;
}

static spc_status no_such(pass_context *context, const ir_directive *directive, const char *what) {
  return refuse(
      context, IR_DIAG_DIRECTIVE_TARGET, directive,
      ir_format_text(context->arena, "`%s` is not %s of this kernel", directive->tensor, what));
}

static pass_ways *ways_of(pass_ways *all, int count, const char *target) {
  for (int s = 0; s < count; s++)
    if (!strcmp(all[s].stmt->target->name, target)) return &all[s];
  return NULL;
}

static bool stands(const pass_way *way) { return !*way->candidate->why && !way->struck; }

/* ---- compact --------------------------------------------------------------------------------- */
static bool lists_operand(const ir_candidate *candidate, const ir_tensor *tensor, int64_t strip,
                          int64_t gran) {
  return candidate->operand == tensor && candidate->axis && !pass_is_live(candidate) && !pass_is_krows(candidate) && candidate->strip == strip &&
         candidate->gran == gran;
}

static const char *refused_because(const pass_ways *ways, const ir_tensor *tensor) {
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *candidate = ways->list.at[i].candidate;
    if (candidate->operand == tensor && *candidate->why) return candidate->why;
  }
  return NULL;
}

static void note_strips(pass_context *context, ir_diag *diag, const pass_ways *ways,
                        const ir_tensor *tensor) {
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    if (c->operand == tensor && c->axis && !*c->why)
      ir_diag_note(context->sink, diag, IR_NOWHERE, "there is: %s", c->label);
  }
}

static spc_status no_list(pass_context *context, const ir_directive *d, const ir_tensor *tensor,
                          const pass_ways *ways) {
  const char *why = refused_because(ways, tensor);
  bool fixed = context->program->strict_nan || context->program->batch_invariant;
  if (why)
    return refuse(context, fixed ? IR_DIAG_DIRECTIVE_CONFLICT : IR_DIAG_DIRECTIVE_AXIS, d,
                  ir_format_text(context->arena, "`%s` cannot be compacted along %s for `%s`: %s",
                                 tensor->name, d->name[0], ways->stmt->target->name, why));
  ir_diag *diag = ir_diag_add(context->sink, IR_DIAG_DIRECTIVE_TILE, d->span,
                              "no kernel walks lists of `%s` in micro-tiles of %dx%d", tensor->name,
                              d->gran_rows, d->gran_cols);
  note_strips(context, diag, ways, tensor);
  return SPC_INVALID_INPUT;
}

/* Lists of the tensor say which columns of the statement's result are computed. */
static bool is_asked_by(pass_context *context, const ir_kernel *kernel, const pass_ways *ways,
                        const ir_tensor *tensor, int axis_dim) {
  pass_listed listed;
  bool alone = false, whole = false; /* they are all there is of it; they are spread over a whole one */
  for (int i = 0; i < ways->list.count; i++) {
    if (!stands(&ways->list.at[i])) continue;
    alone |= pass_is_sampled(ways->list.at[i].candidate);
    whole |= pass_is_spread(ways->list.at[i].candidate);
  }
  return ((alone && pass_columns_of(context, kernel, &ways->sum, &listed)) || (whole && pass_blocks_of(context, kernel, &ways->sum, &listed))) &&
         listed.access->tensor == tensor && listed.axis_dim == axis_dim;
}

static bool sums_over(const pass_ways *ways, const ir_tensor *tensor, int axis_dim) {
  if (!ways->is_sum || !ways->sum.k) return false;
  for (int i = 0; i < ways->sum.factors.count; i++) {
    const ir_expr *factor = ways->sum.factors.at[i];
    if (factor->kind == IR_ACCESS && factor->tensor == tensor &&
        pass_dim_of(factor, ways->sum.k) == axis_dim)
      return true;
  }
  return false;
}

static bool keep_lists(pass_ways *ways, const ir_tensor *tensor, int64_t strip, int64_t gran) {
  bool found = false;
  for (int i = 0; i < ways->list.count; i++) {
    ir_candidate *candidate = ways->list.at[i].candidate;
    if (!stands(&ways->list.at[i]) || !lists_operand(candidate, tensor, strip, gran)) continue;
    candidate->asked = found = true;
  }
  return found;
}

/* Strips that a tile of such a height has two of, told apart. */
static bool pairs_strips(const pass_ways *ways, const ir_tensor *tensor, int64_t strip, int64_t tile) {
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    if (stands(&ways->list.at[i]) && c->operand == tensor && pass_is_paired(c) && c->strip == strip && 2 * strip == tile) return true;
  }
  return false;
}

/* A tile that is higher than the micro-tile merges the lists of those it covers, unless it tells them apart. */
static int64_t merged_strip(const ir_kernel *kernel, const pass_ways *ways, const ir_tensor *tensor,
                            int64_t strip) {
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, ways->stmt->target->name);
  for (int i = 0; tile && i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    for (int t = 0; c->operand == tensor && c->strip_index && t < tile->count; t++)
      if (!strcmp(tile->name[t], c->strip_index->name) && tile->size[t] % strip == 0)
        return pairs_strips(ways, tensor, strip, tile->size[t]) ? strip : tile->size[t];
  }
  return strip;
}

static spc_status do_compact(pass_context *context, ir_kernel *kernel, pass_ways *all, int count,
                             ir_directive *d) {
  ir_tensor *tensor = ir_tensor_named(kernel, d->tensor);
  int axis_dim, users = 0;
  int64_t strip, gran;
  if (!tensor || !tensor->def) return no_such(context, d, "a let or an output");
  if (pass_tensor_is_sparse(tensor))
    return refuse(
        context, IR_DIAG_DIRECTIVE_CONFLICT, d,
        ir_format_text(context->arena,
                       "`%s` is stored as %s: its readers walk the entries, and a list of "
                       "them is for zeros in dense bytes",
                       d->tensor, tensor->format ? tensor->format->name : "like another"));
  if (!pass_compact_shape(d, tensor, &axis_dim, &strip, &gran))
    return refuse(context, IR_DIAG_DIRECTIVE_TARGET, d,
                  ir_format_text(context->arena,
                                 "`%s` is not an index of `%s`, or `%s` is not a matrix: lists "
                                 "are made of matrices, along one of their two indices",
                                 d->name[0], d->tensor, d->tensor));
  for (int s = 0; s < count; s++) {
    if (!sums_over(&all[s], tensor, axis_dim) &&
        !is_asked_by(context, kernel, &all[s], tensor, axis_dim))
      continue;
    users++;
    if (pass_schedule_find(kernel, IR_DO_DENSE, all[s].stmt->target->name))
      return refuse(context, IR_DIAG_DIRECTIVE_CONFLICT, d,
                    ir_format_text(context->arena, "the schedule also says `dense %s`",
                                   all[s].stmt->target->name));
    int64_t merged = merged_strip(kernel, &all[s], tensor, strip);
    if (!keep_lists(&all[s], tensor, merged, gran)) return no_list(context, d, tensor, &all[s]);
  }
  if (!users)
    return refuse(context, IR_DIAG_DIRECTIVE_AXIS, d,
                  ir_format_text(context->arena,
                                 "no statement sums over %s of `%s`: there is no loop that a list "
                                 "of it would shorten",
                                 d->name[0], d->tensor));
  d->applied = true;
  return SPC_OK;
}

/* ---- dense, library -------------------------------------------------------------------------- */
static bool strike(pass_ways *ways, bool (*fits)(const ir_candidate *, const ir_directive *),
                   const ir_directive *d, const char *why) {
  bool left = false;
  for (int i = 0; i < ways->list.count; i++) {
    pass_way *way = &ways->list.at[i];
    if (!stands(way)) continue;
    if (fits(way->candidate, d))
      left = true;
    else
      way->struck = why;
  }
  return left;
}

static bool is_dense(const ir_candidate *candidate, const ir_directive *d) {
  (void)d;
  return !candidate->operand;
}

static bool does_not_list(const ir_candidate *candidate, const ir_directive *d) {
  return !candidate->operand || strcmp(candidate->operand->name, d->tensor) != 0;
}

static spc_status do_dense(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  pass_ways *ways = ways_of(all, count, d->tensor);
  if (!ways) return no_such(context, d, "a let or an output");
  strike(ways, is_dense, d, "the schedule asks for dense");
  for (int s = 0; s < count; s++)
    strike(&all[s], does_not_list, d, "the schedule asks for no lists of it");
  d->applied = true;
  return SPC_OK;
}

static bool is_library(const ir_candidate *candidate, const ir_directive *d) {
  (void)d;
  return pass_is_library(candidate);
}

static spc_status do_library(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  pass_ways *ways = ways_of(all, count, d->tensor);
  if (!ways) return no_such(context, d, "a let or an output");
  const char *why = "it is not a plain product of dense matrices";
  for (int i = 0; i < ways->list.count; i++)
    if (is_library(ways->list.at[i].candidate, d) && *ways->list.at[i].candidate->why)
      why = ways->list.at[i].candidate->why;
  if (pass_target_of(context)->kind != IR_TARGET_CUDA) why = "there is none for this target";
  if (!strike(ways, is_library, d, "the schedule asks for the library"))
    return refuse(context, IR_DIAG_DIRECTIVE_LIBRARY, d,
                  ir_format_text(context->arena, "no library call for `%s`: %s", d->tensor, why));
  d->applied = true;
  return SPC_OK;
}

/* ---- tile, split, stages, warps -------------------------------------------------------------- */
static int64_t tile_of(const ir_candidate *candidate, const char *index) {
  for (int i = 0; i < candidate->tiles.count; i++)
    if (!strcmp(candidate->tiles.at[i].index->name, index)) return candidate->tiles.at[i].size;
  return 0;
}

static bool has_tile(const ir_candidate *candidate, const ir_directive *d) {
  for (int i = 0; i < d->count; i++)
    if (tile_of(candidate, d->name[i]) != d->size[i]) return false;
  return true;
}

static bool takes_tile(const pass_way *way, const ir_directive *d, bool compacted) {
  return stands(way) && has_tile(way->candidate, d) && (!compacted || way->candidate->asked);
}

/* How far a candidate's tile is from the one asked for, in doublings. */
static double tile_distance(const ir_candidate *candidate, const ir_directive *d) {
  const double no_tile = 64;
  double sum = 0;
  for (int i = 0; i < d->count; i++) {
    int64_t size = tile_of(candidate, d->name[i]);
    sum += size > 0 && d->size[i] > 0 ? fabs(log2((double)size / (double)d->size[i])) : no_tile;
  }
  return sum;
}

static void note_tile(pass_context *context, ir_diag *diag, const ir_candidate *c) {
  ir_text text = ir_text_new(context->arena);
  for (int t = 0; t < c->tiles.count; t++)
    ir_text_printf(&text, " %s=%lld", c->tiles.at[t].index->name, (long long)c->tiles.at[t].size);
  ir_diag_note(context->sink, diag, IR_NOWHERE, "%s has%s", c->label, text.data);
}

/* Who has the tile and is refused, and why; then the nearest of those that could be had. */
static void note_tiles(pass_context *context, ir_diag *diag, const pass_ways *ways, const ir_directive *d, bool compacted) {
  const int few = 4;
  for (int i = 0, noted = 0; i < ways->list.count && noted < few; i++) {
    const pass_way *way = &ways->list.at[i];
    if (stands(way) || !has_tile(way->candidate, d)) continue;
    ir_diag_note(context->sink, diag, IR_NOWHERE, "%s has it, but %s", way->candidate->label, *way->candidate->why ? way->candidate->why : way->struck);
    noted++;
  }
  for (int noted = 0, last = -1; noted < few; noted++) {
    int next = -1;
    for (int i = 0; i < ways->list.count; i++) {
      const pass_way *way = &ways->list.at[i];
      if (!stands(way) || !way->candidate->tiles.count || (compacted && !way->candidate->asked)) continue;
      double distance = tile_distance(way->candidate, d), before = last < 0 ? -1 : tile_distance(ways->list.at[last].candidate, d);
      if (distance < before || (distance == before && i <= last)) continue;
      if (next < 0 || distance < tile_distance(ways->list.at[next].candidate, d)) next = i;
    }
    if (next < 0) return;
    note_tile(context, diag, ways->list.at[next].candidate);
    last = next;
  }
}

static const char *unknown_index(const pass_ways *ways, const ir_directive *d) {
  for (int i = 0; i < d->count; i++) {
    bool known = ways->is_sum && ways->sum.k && !strcmp(ways->sum.k->name, d->name[i]);
    for (int f = 0; f < ways->stmt->free.count; f++)
      known |= !strcmp(ways->stmt->free.at[f]->name, d->name[i]);
    if (!known) return d->name[i];
  }
  return NULL;
}

static spc_status do_tile(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  pass_ways *ways = ways_of(all, count, d->tensor);
  if (!ways) return no_such(context, d, "a let or an output");
  const char *unknown = unknown_index(ways, d);
  if (unknown)
    return refuse(
        context, IR_DIAG_DIRECTIVE_TARGET, d,
        ir_format_text(context->arena, "`%s` is not an index of `%s`", unknown, d->tensor));
  bool compacted = false, any = false;
  for (int i = 0; i < ways->list.count; i++) compacted |= ways->list.at[i].candidate->asked;
  for (int i = 0; i < ways->list.count; i++) any |= takes_tile(&ways->list.at[i], d, compacted);
  if (!any) {
    ir_diag *diag = ir_diag_add(context->sink, IR_DIAG_DIRECTIVE_TILE, d->span,
                                "no kernel for `%s` has this tile%s", d->tensor,
                                compacted ? " and does what the schedule asks for besides" : "");
    note_tiles(context, diag, ways, d, compacted);
    return SPC_INVALID_INPUT;
  }
  /* The dense branch beside a list keeps its own tile. */
  for (int i = 0; i < ways->list.count; i++) {
    pass_way *way = &ways->list.at[i];
    way->candidate->asked = takes_tile(way, d, compacted);
  }
  d->applied = true;
  return SPC_OK;
}

static spc_status do_split(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  if (!ways_of(all, count, d->tensor)) return no_such(context, d, "a let or an output");
  return refuse(context, IR_DIAG_DIRECTIVE_TILE, d,
                ir_format_text(context->arena,
                               "no kernel splits the sum of `%s`: every result has one writer",
                               d->tensor));
}

static bool has_depth(const ir_kernel_row *row, const ir_directive *d) {
  return d->kind == IR_DO_STAGES ? row->depth == d->number : row->threads == 32 * d->number;
}

static bool fits_depth(const ir_candidate *candidate, const ir_directive *d) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return !row || has_depth(row, d);
}

static spc_status do_depth(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  const char *what = d->kind == IR_DO_STAGES ? "pipeline stages" : "warps";
  if (pass_target_of(context)->kind != IR_TARGET_CUDA)
    return refuse(context, IR_DIAG_DIRECTIVE_DEVICE, d,
                  ir_format_text(context->arena, "%s have no meaning on this target", what));
  bool any = false;
  for (int s = 0; s < count; s++) {
    strike(&all[s], fits_depth, d, "the schedule asks for another depth or block size");
    for (int i = 0; i < all[s].list.count; i++) {
      const pass_way *way = &all[s].list.at[i];
      any |= stands(way) && ir_kernel_row_named(way->candidate->row) != NULL;
    }
  }
  if (!any)
    return refuse(context, IR_DIAG_DIRECTIVE_TILE, d,
                  ir_format_text(context->arena, "no kernel for these statements has %lld %s",
                                 (long long)d->number, what));
  d->applied = true;
  return SPC_OK;
}

/* ---- precision ------------------------------------------------------------------------------- */
static bool is_precise(const ir_candidate *candidate, const ir_directive *d) {
  const ir_kernel_row *row = ir_kernel_row_named(candidate->row);
  return row && ir_kernel_precision(row) == d->precision;
}

/* Other rows of the table are no candidates any more: what is struck are loops and the library. */
static spc_status do_precision(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  bool any = d->precision == IR_PRECISION_FULL, known = any;
  for (int s = 0; s < count && d->precision != IR_PRECISION_FULL; s++) {
    if (!is_of(all[s].stmt->target, d->tensor)) continue;
    bool precise = false;
    for (int i = 0; i < all[s].list.count; i++)
      precise |= stands(&all[s].list.at[i]) && is_precise(all[s].list.at[i].candidate, d);
    if (precise) strike(&all[s], is_precise, d, "the schedule asks for another precision");
    any |= precise;
    known = true;
  }
  if (!known) return no_such(context, d, "a let or an output");
  if (pass_target_of(context)->kind != IR_TARGET_CUDA && !any)
    return refuse(context, IR_DIAG_DIRECTIVE_DEVICE, d,
                  ir_format_text(context->arena, "%s is what tensor cores do: it has no meaning on "
                                 "this target", ir_precision_text(d->precision)));
  if (!any)
    return refuse(context, IR_DIAG_DIRECTIVE_TILE, d,
                  ir_format_text(context->arena,
                                 "no kernel of this target computes `%s` in %s: it multiplies two "
                                 "dense f32 matrices", d->tensor, ir_precision_text(d->precision)));
  d->applied = true;
  return SPC_OK;
}

/* ---- regroup ------------------------------------------------------------------------------- */
/* Rows are those of an order, or of a list: the cheaper way of the two serves. */
static bool moves_rows(const ir_candidate *candidate) { return candidate->regrouped || pass_is_live(candidate); }

static const char *not_regrouped(const pass_ways *ways) {
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    if (!moves_rows(way->candidate)) continue;
    if (*way->candidate->why) return way->candidate->why;
    if (way->struck) return way->struck;
  }
  return "no kernel of this target walks blocks of a factor whose zeros are known at run time";
}

static spc_status do_regroup(pass_context *context, pass_ways *all, int count, ir_directive *d) {
  pass_ways *ways = ways_of(all, count, d->tensor);
  if (!ways) return no_such(context, d, "a let or an output");
  if (pass_target_of(context)->kind != IR_TARGET_CUDA)
    return refuse(context, IR_DIAG_DIRECTIVE_DEVICE, d,
                  "rows are regrouped where strips of them share a list: on this target each has its own");
  bool any = false;
  for (int i = 0; i < ways->list.count; i++) {
    const pass_way *way = &ways->list.at[i];
    if (!moves_rows(way->candidate) || !stands(way)) continue;
    way->candidate->asked = any = true;
  }
  if (!any)
    return refuse(context, IR_DIAG_DIRECTIVE_TILE, d,
                  ir_format_text(context->arena, "rows cannot be regrouped for `%s`: %s", d->tensor,
                                 not_regrouped(ways)));
  d->applied = true;
  return SPC_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */
static spc_status restrict_by(pass_context *context, ir_kernel *kernel, pass_ways *all, int count,
                              ir_directive *d) {
  switch (d->kind) {
  case IR_DO_COMPACT: return do_compact(context, kernel, all, count, d);
  case IR_DO_TILE: return do_tile(context, all, count, d);
  case IR_DO_SPLIT: return do_split(context, all, count, d);
  case IR_DO_DENSE: return do_dense(context, all, count, d);
  case IR_DO_LIBRARY: return do_library(context, all, count, d);
  case IR_DO_STAGES:
  case IR_DO_WARPS: return do_depth(context, all, count, d);
  case IR_DO_PRECISION: return do_precision(context, all, count, d);
  case IR_DO_REGROUP: return do_regroup(context, all, count, d);
  case IR_DO_FUSE:
  case IR_DO_FORMAT: return SPC_OK;
  }
  return SPC_OK;
}

/* Narrowing directives first, then the ones that pick among what is left. */
static const ir_directive_kind order[] = {IR_DO_PRECISION,
                                          IR_DO_DENSE,   IR_DO_LIBRARY, IR_DO_STAGES, IR_DO_WARPS,
                                          IR_DO_REGROUP, IR_DO_COMPACT, IR_DO_TILE,    IR_DO_SPLIT};

spc_status pass_schedule_restrict(pass_context *context, ir_kernel *kernel, pass_ways *all,
                                  int count) {
  spc_status status = SPC_OK;
  for (int k = 0; kernel->schedule && k < IR_COUNT(order); k++)
    for (int i = 0; i < kernel->schedule->directives.count; i++) {
      ir_directive *directive = &kernel->schedule->directives.at[i];
      if (directive->kind != order[k]) continue;
      spc_status one = restrict_by(context, kernel, all, count, directive);
      if (one) status = one;
    }
  return status;
}
