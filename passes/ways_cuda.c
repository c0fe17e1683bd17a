/* ways_cuda.c - how a statement can run on a GPU: rows of the kernel table that take its dtypes and
 * layouts, with an index list or without, and generated loops.
 *
 * A listed row gathers both operands by one list: the listed one must have its strips contiguous in
 * memory, or a 2-byte gather along the contiguous axis would move a sector an element. */
#include <math.h>

#include "ir/beside.h"
#include "ir/image.h"
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/storage.h"

/* ---- which rows fit -------------------------------------------------------------------------- */
bool pass_row_fits(const ir_kernel_row *row, const ir_target *target, const pass_sum *sum) {
  ir_dtype dtype = sum->a->tensor->dtype;
  if (row->multiply == IR_MULTIPLY_NONE || !(row->dtypes & 1u << dtype)) return false;
  if (ir_kernel_precision(row) != sum->precision) return false;
  if (row->multiply == IR_MULTIPLY_WGMMA && strcmp(target->name, "sm_90a") != 0) return false;
  if (row->multiply == IR_MULTIPLY_WGMMA && !strchr(target->name, 'a')) return false;
  return target->arch >= row->least_arch && (!row->most_arch || target->arch <= row->most_arch);
}

/* What the size is a multiple of, whatever the dyn dims are. */
static int64_t known_multiple(const ir_expr *size) {
  if (size->kind == IR_CONST) return size->i;
  if (size->kind == IR_DIM) return size->dim->value >= 0 ? size->dim->value : size->dim->multiple;
  if (size->kind != IR_OP || size->arg_count != 2) return 1;
  int64_t x = known_multiple(size->args[0]), y = known_multiple(size->args[1]);
  if (size->op == IR_OP_MUL) return x * y;
  if (size->op != IR_OP_ADD && size->op != IR_OP_SUB) return 1;
  for (int64_t rest; y != 0; y = rest) rest = x % y, x = y;
  return x;
}

/* Contiguous extents can be multiples of the row's alignment: always where they are constants, at
 * some sizes where a dim without a multiple is dyn (the plan then looks at the size it has). */
static bool is_open(const ir_expr *extent) {
  if (extent->kind == IR_DIM) return extent->dim->value < 0;
  return extent->kind == IR_OP && extent->op == IR_OP_MUL && (is_open(extent->args[0]) || is_open(extent->args[1]));
}

static bool is_known_multiple(const ir_expr *extent, const ir_tensor *tensor, int align) {
  return known_multiple(extent) * (int64_t)ir_dtype_bytes(tensor->dtype) % align == 0;
}

static bool is_multiple(const ir_expr *extent, const ir_tensor *tensor, int align) {
  return is_open(extent) || is_known_multiple(extent, tensor, align);
}

/* Beside a row that wants aligned operands another one stands for those that are not, whose sums have another order.  The run
 * must not choose between them by how many rows there are (batch invariance): of what lies along a summed index, that is the
 * same for all rows; along another one it has to be known. */
static bool is_aligned(const pass_sum *sum, const ir_tensor *tensor, bool along_k, int align) {
  if (align <= 1 || !tensor->rank) return true;
  bool any_rows = sum->any_rows && !along_k;
  return (any_rows ? is_known_multiple : is_multiple)(tensor->dim[ir_last_dim(tensor)], tensor, align);
}

static bool lies_along_k(const pass_sum *sum, const ir_expr *access) {
  return sum->k && pass_contiguous_index(access, false) == sum->k;
}

bool pass_operands_aligned(const pass_sum *sum, int align) {
  return is_aligned(sum, sum->a->tensor, lies_along_k(sum, sum->a), align) &&
         is_aligned(sum, sum->b->tensor, lies_along_k(sum, sum->b), align);
}

const char *pass_alignment_why(const pass_context *context, const ir_kernel_row *row) {
  return ir_format_text(context->arena, context->program->batch_invariant
                                            ? "batch invariance: it needs rows that are multiples of %d bytes whatever the sizes are"
                                            : "it needs rows that are multiples of %d bytes",
                        row->align);
}

bool pass_rows_aligned(const pass_sum *sum, int align) {
  const ir_tensor *result = sum->stmt->target;
  return pass_operands_aligned(sum, align) &&
         (ir_dtype_bytes(result->dtype) != 2 || is_aligned(sum, result, false, align));
}

bool pass_beside_aligned(const pass_sum *sum, const ir_expr *stored, int align) {
  const ir_expr *other = stored == sum->a ? sum->b : sum->a;
  const ir_tensor *result = sum->stmt->target;
  return is_aligned(sum, other->tensor, lies_along_k(sum, other), align) &&
         (ir_dtype_bytes(result->dtype) != 2 || is_aligned(sum, result, false, align));
}

int pass_lines_a_row(const ir_expr *access) {
  const ir_tensor *tensor = access->tensor;
  return tensor->rank && !is_multiple(tensor->dim[ir_last_dim(tensor)], tensor, PASS_LINE_BYTES) ? 2 : 1;
}

/* 'r': A[m][k], B[k][n];  'c': A[k][m], B[n][k].  The letter of an operand as it is stored. */
static char layout_of(const pass_sum *sum, const ir_expr *access, bool is_a) {
  bool k_last = pass_contiguous_index(access, false) == sum->k;
  return k_last == is_a ? 'r' : 'c';
}

static bool takes_layout(char row, char stored) { return row == '*' || row == stored; }

/* Turned, A[m][k] is the row's second factor and [n][k] of it, B[n][k] the first one. */
static bool takes_layouts(const pass_sum *sum, const ir_kernel_row *row, bool turned) {
  char a = layout_of(sum, sum->a, true), b = layout_of(sum, sum->b, false);
  if (!turned) return takes_layout(row->layout_a, a) && takes_layout(row->layout_b, b);
  return takes_layout(row->layout_a, b == 'c' ? 'r' : 'c') &&
         takes_layout(row->layout_b, a == 'r' ? 'c' : 'r');
}

/* ---- candidates ------------------------------------------------------------------------------ */
static void add_tiles(pass_context *context, const pass_sum *sum, const ir_kernel_row *row,
                      bool swapped, ir_candidate *candidate) {
  pass_candidate_tile(context, candidate, swapped ? sum->n_index : sum->m_index, row->m);
  pass_candidate_tile(context, candidate, swapped ? sum->m_index : sum->n_index, row->n);
  pass_candidate_tile(context, candidate, sum->k, row->k);
}

/* Hopper's mma.sync turns 8-bit floats into f16, exactly; other tensor cores keep 14 bits of sums.
 */
static bool sums_are_short(const ir_kernel_row *row, const ir_target *target, ir_dtype operand) {
  const int first_short = 120;
  return ir_dtype_is_float(operand) && ir_dtype_bytes(operand) == 1 &&
         (row->multiply == IR_MULTIPLY_WGMMA || target->arch >= first_short);
}

/* A row's sums are f64 where its operands are. */
static const char *sums_misfit(const pass_sum *sum) {
  return sum->stmt->acc == IR_F64 && sum->a->tensor->dtype != IR_F64
             ? "its sums are f32, and the statement's are f64"
             : NULL;
}

/* Sums in an order that the number of rows could have chosen. */
static const char *order_misfit(const pass_context *context, const ir_kernel_row *row) {
  bool splits = ir_kernel_split(row) > 1 || ir_kernel_streams(row);
  return context->program->batch_invariant && splits
             ? "batch invariance: whether k is split would be chosen by the number of rows"
             : NULL;
}

typedef struct beside_sum {
  const ir_stmt *stmt;
  const ir_tensor *found;
} beside_sum;

/* A vector, or the one matrix that is brought: 16 bits an element, as the result has. */
static bool turns_bring(void *user, ir_expr *node) {
  beside_sum *s = user;
  if (node->kind != IR_ACCESS || node->tensor->rank < 2) return true;
  const ir_tensor *t = node->tensor;
  bool halves = (t->dtype == IR_BF16 || t->dtype == IR_F16) && ir_dtype_bytes(s->stmt->target->dtype) == 2;
  if (!halves || (s->found && s->found != t) || !ir_lies_at_place(s->stmt, node) || (t->rank > 2 && ir_last_dim(t) != t->rank - 1)) return false;
  s->found = t;
  return true;
}

/* Where warpgroups take turns another matrix would be read element by element, which is more text than there is room for. */
static bool reads_what_turns_miss(pass_context *context, const pass_sum *sum, const ir_kernel_row *row) {
  if (!ir_kernel_takes_turns(row) || !sum->reduce) return false;
  beside_sum s = {sum->stmt, NULL};
  ir_expr *hole = ir_const_f(context->arena, sum->reduce->dtype, 0);
  if (!ir_expr_walk(pass_replace_node(context->arena, sum->stmt->value, sum->reduce, hole), turns_bring, &s)) return true;
  return s.found && (ir_tensor_is_inner(s.found) || ir_tensor_is_inner(sum->stmt->target)); /* whose layout may be settled later */
}

static const char *dense_misfit(pass_context *context, const pass_sum *sum,
                                const ir_kernel_row *row, bool turned) {
  if (sums_misfit(sum)) return sums_misfit(sum);
  if (order_misfit(context, row)) return order_misfit(context, row);
  if (!takes_layouts(sum, row, turned)) return "an operand is stored the other way round";
  if (reads_what_turns_miss(context, sum, row)) return "where warpgroups take turns one matrix alone is brought, of 16 bits, laid out as the result is";
  if (!pass_rows_aligned(sum, row->align))
    return pass_alignment_why(context, row);
  if (sums_are_short(row, pass_target_of(context), sum->a->tensor->dtype) &&
      ir_dtype_bytes(sum->stmt->target->dtype) > 2)
    return "tensor cores keep 14 bits of such sums: enough for results of 16 bits, not for this "
           "one";
  if (ir_kernel_moves_boxes(row) && sum->batches > IR_MAP_BATCHES)
    return ir_format_text(context->arena, "it takes %d batch indices at most", IR_MAP_BATCHES);
  return "";
}

static double best_dense(pass_context *context, const pass_sum *sum, bool boxes_alone) {
  const ir_target *target = pass_target_of(context);
  double best = INFINITY;
  for (int i = 0; i < 2 * ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i / 2];
    bool turned = i % 2, boxes = ir_kernel_moves_boxes(row);
    if (ir_kernel_is_dense(row) && (boxes || (!turned && !boxes_alone)) && pass_row_fits(row, target, sum) &&
        !*dense_misfit(context, sum, row, turned))
      best = fmin(best, pass_dense_cost(context, sum, row, turned));
  }
  return best;
}

double pass_dense_best(pass_context *context, const pass_sum *sum) { return best_dense(context, sum, false); }
double pass_boxes_best(pass_context *context, const pass_sum *sum) { return best_dense(context, sum, true); }

double pass_matrix_cost(pass_context *context, const pass_sum *sum) {
  double own = pass_dense_best(context, sum);
  bool known = context->options && context->options->library_missing;
  bool free = !context->program->reproducible && !context->program->batch_invariant;
  return known && free && isfinite(own) ? fmin(own, pass_library_cost(context, sum)) : own;
}

static const char *dense_label(pass_context *context, const ir_kernel_row *row, bool turned) {
  int split = ir_kernel_split(row);
  const char *label = ir_format_text(context->arena, "dense %dx%dx%d%s", turned ? row->n : row->m,
                                     turned ? row->m : row->n, row->k,
                                     ir_kernel_takes_turns(row)   ? " boxes by turns"
                                     : ir_kernel_moves_boxes(row) ? " boxes"
                                     : ir_kernel_streams(row)   ? " streamed"
                                                                : "");
  return split > 1 ? ir_format_text(context->arena, "%s, k split in %d", label, split) : label;
}

/* The intermediate that must stay row-major for a row that reads the factor one way round alone; NULL: none. */
static ir_tensor *held(const ir_kernel *kernel, const pass_sum *sum, const ir_kernel_row *row, bool turned, bool is_a) {
  ir_tensor *factor = is_a ? sum->a->tensor : sum->b->tensor;
  return (is_a != turned ? row->layout_a : row->layout_b) != '*' && pass_layout_is_free(kernel, factor) ? factor : NULL;
}

static void add_dense(pass_context *context, const ir_kernel *kernel, pass_ways *ways, const ir_kernel_row *row,
                      bool turned) {
  const pass_sum *sum = &ways->sum;
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  pass_way *way = &ways->list.at[ways->list.count - 1];
  candidate->label = dense_label(context, row, turned);
  add_tiles(context, sum, row, turned, candidate);
  candidate->why = dense_misfit(context, sum, row, turned);
  way->turned = held(kernel, sum, row, turned, true), way->beside = held(kernel, sum, row, turned, false);
  if (way->turned || way->beside) candidate->formats = ir_format_text(context->arena, "%s=dense", (way->turned ? way->turned : way->beside)->name);
  pass_candidate_estimate(context, sum, candidate);
}

/* ---- a row and the way round it is taken --------------------------------------------------------
 */
typedef struct box_way {
  const ir_kernel_row *row;
  bool turned;
  double microseconds;
} box_way;

static bool is_held(const ir_kernel *kernel, const pass_sum *sum, const box_way *way) {
  return held(kernel, sum, way->row, way->turned, true) || held(kernel, sum, way->row, way->turned, false);
}

static void insert(box_way *best, int count, box_way way) {
  for (int i = 0; i < count; i++)
    if (!best[i].row || way.microseconds < best[i].microseconds) {
      box_way pushed = best[i];
      best[i] = way;
      if (!pushed.row) return;
      way = pushed;
    }
}

static bool has_tile(const ir_directive *tile, const pass_sum *sum, const box_way *way) {
  for (int i = 0; i < tile->count; i++) {
    int64_t size = 0;
    if (!strcmp(tile->name[i], sum->m_index->name)) size = way->turned ? way->row->n : way->row->m;
    if (!strcmp(tile->name[i], sum->n_index->name)) size = way->turned ? way->row->m : way->row->n;
    if (!strcmp(tile->name[i], sum->k->name)) size = way->row->k;
    if (size != tile->size[i]) return false;
  }
  return true;
}

/* ---- rows that stream an operand ---------------------------------------------------------------
 * They read it once a tile of the other one's rows: candidates where these are few, and where the
 * schedule names their tile.  The way round that is predicted to be the faster one. */
static void add_streamed(pass_context *context, const ir_kernel *kernel, pass_ways *ways) {
  const pass_sum *sum = &ways->sum;
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, sum->stmt->target->name);
  box_way best = {NULL, false, 0};
  for (int i = 0; i < 2 * ir_kernel_row_count; i++) {
    box_way way = {.row = &ir_kernel_rows[i / 2], .turned = i % 2};
    if (!ir_kernel_streams(way.row) || !takes_layouts(sum, way.row, way.turned) ||
        !pass_row_fits(way.row, pass_target_of(context), sum))
      continue;
    const double few = way.row->layout_b == 'c' ? 4 : 1; /* tiles */
    if (tile ? !has_tile(tile, sum, &way) : (way.turned ? sum->n : sum->m) > few * way.row->m) continue;
    way.microseconds = pass_dense_cost(context, sum, way.row, way.turned);
    insert(&best, 1, way);
  }
  if (best.row) add_dense(context, kernel, ways, best.row, best.turned);
}

/* ---- tiles of the rows that move boxes ---------------------------------------------------------
 * They differ in the tile alone, either way round: the table gets the few that are predicted to be
 * the fastest, and those that the schedule names. */

static bool is_read(const ir_kernel *kernel, const ir_tensor *tensor) {
  for (int i = 0; i < kernel->stmts.count; i++)
    if (pass_stmt_reads(kernel->stmts.at[i], tensor)) return true;
  return false;
}

/* The bits of a result's zeros are made in its epilogue by some tiles only.  Who reads few rows looks at
 * their zeros itself. */
static bool makes_bits(pass_context *context, const ir_kernel *kernel, const pass_sum *sum,
                       const box_way *way) {
  const int64_t least_strip = 64;
  const ir_tensor *result = sum->stmt->target;
  bool hinted = result->pattern.zeros != IR_ZEROS_UNKNOWN && is_read(kernel, result) && !pass_readers_look(context, sum);
  bool wanted = hinted || pass_schedule_compact(kernel, result) != NULL;
  return !wanted || (!way->turned && ir_kernel_detects(way->row, least_strip, 1));
}

static void add_boxes(pass_context *context, const ir_kernel *kernel, pass_ways *ways) {
  enum { SHOWN = 3 };
  const pass_sum *sum = &ways->sum;
  box_way best[SHOWN] = {{NULL, false, 0}}, either = {NULL, false, 0}; /* that takes intermediates as they come */
  for (int i = 0; i < 2 * ir_kernel_row_count; i++) {
    box_way way = {.row = &ir_kernel_rows[i / 2], .turned = i % 2};
    if (!ir_kernel_is_dense(way.row) || !ir_kernel_moves_boxes(way.row) ||
        (way.turned && way.row->m == way.row->n) || order_misfit(context, way.row) || !takes_layouts(sum, way.row, way.turned) || reads_what_turns_miss(context, sum, way.row) ||
        !pass_row_fits(way.row, pass_target_of(context), sum))
      continue;
    way.microseconds = pass_dense_cost(context, sum, way.row, way.turned);
    if (way.turned && takes_layouts(sum, way.row, false) && way.microseconds >= pass_dense_cost(context, sum, way.row, false)) continue;
    if (!makes_bits(context, kernel, sum, &way)) continue;
    insert(best, SHOWN, way);
    if (!is_held(kernel, sum, &way)) insert(&either, 1, way);
  }
  bool shown = !either.row;
  for (int i = 0; i < SHOWN && best[i].row; i++) {
    shown |= !is_held(kernel, sum, &best[i]);
    add_dense(context, kernel, ways, best[i].row, best[i].turned);
  }
  if (!shown) add_dense(context, kernel, ways, either.row, either.turned); /* behind a guard whose list has one turned */
}

/* A directive names a tile that the table has: of a dense kernel, or of a list it also asks for (an
 * input's hint does). */
static bool is_there(const ir_kernel *kernel, const pass_ways *ways, const ir_directive *tile) {
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    int found = 0;
    for (int t = 0; t < c->tiles.count; t++)
      for (int n = 0; n < tile->count; n++)
        found += !strcmp(c->tiles.at[t].index->name, tile->name[n]) &&
                 c->tiles.at[t].size == tile->size[n];
    bool asked = !c->operand || !c->operand->def || pass_schedule_compact(kernel, c->operand);
    if (found == tile->count && asked) return true;
  }
  return false;
}

/* What a pin or the schedule names, and the few that were shown do not hold. */
static bool is_pinned(pass_context *context, const pass_ways *ways, const box_way *way) {
  const pass_pin *pin = context->options ? context->options->pin : NULL;
  return pin && !strcmp(pin->target, ways->sum.stmt->target->name) &&
         !strcmp(pin->label, dense_label(context, way->row, way->turned));
}

static bool is_shown(const pass_ways *ways, const char *label) {
  for (int i = 0; i < ways->list.count; i++)
    if (!strcmp(ways->list.at[i].candidate->label, label)) return true;
  return false;
}

static void add_named_boxes(pass_context *context, const ir_kernel *kernel, pass_ways *ways) {
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, ways->sum.stmt->target->name);
  if (tile && is_there(kernel, ways, tile)) tile = NULL;
  for (int i = 0; i < 2 * ir_kernel_row_count; i++) {
    box_way way = {.row = &ir_kernel_rows[i / 2], .turned = i % 2};
    bool pinned = is_pinned(context, ways, &way);
    if (ir_kernel_is_dense(way.row) && ir_kernel_moves_boxes(way.row) &&
        ((tile && has_tile(tile, &ways->sum, &way)) || pinned) &&
        pass_row_fits(way.row, pass_target_of(context), &ways->sum) &&
        !(pinned && is_shown(ways, dense_label(context, way.row, way.turned))))
      add_dense(context, kernel, ways, way.row, way.turned);
  }
}

static const ir_expr *other_operand(const pass_sum *sum, const pass_listed *operand) { return operand->access == sum->a ? sum->b : sum->a; }

static const char *other_operand_fits(const pass_sum *sum, const pass_listed *operand) {
  return pass_contiguous_index(other_operand(sum, operand), false) == sum->k
             ? "the other operand has the summed axis contiguous: its rows cannot be gathered"
             : NULL;
}

/* Of the operand whose rows lists would name: what the sum runs along is contiguous. */
static void missed_other_layout(pass_context *context, const pass_listed *operand, const ir_expr *other) {
  const ir_index *free = other->args[0]->index == operand->axis ? other->args[1]->index : other->args[0]->index;
  ir_diag_add(context->sink, IR_DIAG_LAYOUT_MISSED, other->tensor->span,
              "lists of `%s` along %s take rows of `%s`, whose %s axis would have to be contiguous; it is stored with %s contiguous. `as dense_t` would allow them",
              operand->access->tensor->name, operand->axis->name, other->tensor->name, free->name, operand->axis->name);
}

static void missed_layout(pass_context *context, const pass_listed *operand) {
  const ir_tensor *tensor = operand->access->tensor;
  ir_diag_add(
      context->sink, IR_DIAG_LAYOUT_MISSED, tensor->span,
      "lists of `%s` along %s need its %s axis contiguous; it is stored with %s contiguous. "
      "`as dense_t` would allow them",
      tensor->name, operand->axis->name, operand->strip_index->name, operand->axis->name);
}

static void settle_layout(pass_context *context, ir_kernel *kernel, const pass_listed *operand,
                          pass_way *way) {
  ir_tensor *tensor = operand->access->tensor;
  bool strip_last = pass_contiguous_index(operand->access, false) == operand->strip_index;
  if (pass_layout_is_free(kernel, tensor)) {
    way->turned = tensor;
    way->strip_last = (pass_is_packing(way->candidate) ? operand->axis_dim : operand->strip_dim) == 0;
    way->candidate->formats = ir_format_text(context->arena, "%s=%s", tensor->name, way->strip_last ? "dense_t" : "dense");
  } else if (!strip_last && !pass_is_packing(way->candidate)) {
    if (tensor->def) way->candidate->formats = ir_format_text(context->arena, "%s=%s", tensor->name, operand->strip_dim == 0 ? "dense_t" : "dense");
    way->candidate->why = ir_format_text(
        context->arena,
        "`%s` is stored with the listed axis contiguous: a gather would move a sector an element",
        tensor->name);
  }
}

/* Rows along the listed axis, of a tensor that is stored so for good, or that another statement may want so: a gather would move a sector an
 * element, so what is listed of each is brought side by side.  What a product makes is turned by its epilogue, for nothing. */
static bool can_pack(pass_context *context, const ir_kernel *kernel, const pass_ways *ways, const pass_listed *operand) {
  const ir_tensor *tensor = operand->access->tensor;
  pass_sum producer;
  bool free = pass_layout_is_free(kernel, tensor), turns = free && pass_sum_of(context, tensor->def, &producer) && producer.matrices;
  if (turns || (free && tensor->role == IR_ROLE_TEMP) || (!free && pass_contiguous_index(operand->access, false) != operand->axis)) return false;
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (ir_kernel_packs(&ir_kernel_rows[i]) && pass_row_fits(&ir_kernel_rows[i], pass_target_of(context), &ways->sum)) return true;
  return false;
}

/* Two strips share a list of what is brought side by side where the launch that has read their rows makes it: its blocks wait for each other (kernels/compact_strips.cuh). */
static const char *pair_misfit(pass_context *context, const ir_kernel *kernel, const ir_candidate *candidate) {
  int64_t columns;
  if (context->program->reproducible) return "blocks that make a list of two strips wait for each other, and where they find no room dense is computed: `reproducible` keeps to what values alone decide";
  if (pass_list_is_fused(context, candidate)) return "an epilogue has made the bits: two strips share a list where their values are looked at";
  if (!pass_reads_alone(kernel, candidate)) return "two strips share a list that one product alone reads";
  if (!ir_size_bound(candidate->axis->extent, &columns) || columns > IR_PAIR_COLUMNS)
    return ir_format_text(context->arena, "two strips share a list of rows of at most %d elements: all blocks that make it are there at once", IR_PAIR_COLUMNS);
  return NULL;
}

/* A strip may be several tiles high: they share its list. */
static void add_list(pass_context *context, ir_kernel *kernel, pass_ways *ways,
                     const pass_listed *operand, const ir_kernel_row *row, int64_t strip,
                     int64_t gran) {
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->operand = operand->access->tensor;
  candidate->axis = operand->axis;
  candidate->strip_index = operand->strip_index;
  candidate->strip = strip;
  candidate->gran = gran;
  candidate->label = ir_format_text(context->arena, "%s lists of %s, %lldx%lld%s%s, tile %dx%dx%d%s",
                                    operand->axis->name, candidate->operand->name, (long long)strip,
                                    (long long)gran, ir_kernel_pairs(row) ? " in pairs" : "", ir_kernel_packs(row) ? " side by side" : "", row->m, row->n, row->k,
                                    ir_kernel_moves_boxes(row) ? " boxes" : "");
  add_tiles(context, &ways->sum, row, operand->access == ways->sum.b, candidate);
  const char *misfit = other_operand_fits(&ways->sum, operand);
  if (sums_misfit(&ways->sum)) misfit = sums_misfit(&ways->sum);
  if (gran & (gran - 1)) misfit = "a gathered run is a power of two long";
  if (ir_kernel_packs(row) && gran > 1) misfit = "what is brought side by side is single elements";
  if (ir_kernel_packs(row) && ir_kernel_pairs(row) && !misfit) misfit = pair_misfit(context, kernel, candidate);
  if (ir_kernel_packs(row) && !pass_rows_aligned(&ways->sum, row->align)) misfit = pass_alignment_why(context, row);
  const ir_tensor *result = ways->stmt->target;
  if (ir_dtype_bytes(result->dtype) == 2 && !is_aligned(&ways->sum, result, false, row->align))
    misfit = pass_alignment_why(context, row);
  if (misfit)
    candidate->why = misfit;
  else
    settle_layout(context, kernel, operand, &ways->list.at[ways->list.count - 1]);
  pass_candidate_estimate(context, &ways->sum, candidate);
}

static void refuse(pass_context *context, pass_ways *ways, const ir_tensor *tensor,
                   const char *why) {
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->label = ir_format_text(context->arena, "lists of %s", tensor->name);
  candidate->why = why;
}

/* A strip that is asked for spans several tiles where no row is as high, or where the schedule has
 * such a tile. */
static bool spans_tiles(const pass_context *context, const ir_kernel *kernel, const pass_ways *ways,
                        const pass_listed *operand, const ir_kernel_row *row, int64_t strip) {
  const ir_directive *tile = pass_schedule_find(kernel, IR_DO_TILE, ways->stmt->target->name);
  for (int i = 0; tile && i < tile->count; i++)
    if (!strcmp(tile->name[i], operand->strip_index->name) && tile->size[i] == row->m) return true;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *other = &ir_kernel_rows[i];
    bool fits = ir_kernel_gathers(other) &&
                pass_row_fits(other, pass_target_of(context), &ways->sum);
    if (fits && other->m == strip) return false;
  }
  return true;
}

/* Its zeros come in blocks that are listed as they lie, or over rows that are regrouped and may be alike. */
static bool blocks_serve(const pass_context *context, const pass_ways *ways,
                         const ir_tensor *tensor) {
  const double most_cover = 0.5;
  pass_zeros zeros = pass_zeros_of(context, tensor);
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    const ir_kernel_row *row = ir_kernel_row_named(c->row);
    if (row && ir_kernel_k_blocks(row) && c->operand == tensor && !*c->why &&
        pass_candidate_cover(context, c, &zeros, zeros.likely, c->regrouped ? 0.5 : 0) < most_cover)
      return true;
  }
  return false;
}

static bool is_packed(const pass_ways *ways, const ir_tensor *tensor) {
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    if (pass_is_packing(c) && c->operand == tensor && !*c->why) return true;
  }
  return false;
}

static void lists_of(pass_context *context, ir_kernel *kernel, pass_ways *ways, ir_expr *factor) {
  const ir_target *target = pass_target_of(context);
  pass_listed operand = pass_listed_of(context, &ways->sum, factor);
  if (operand.cannot) {
    refuse(context, ways, factor->tensor, operand.cannot);
    return;
  }
  const ir_directive *asked = pass_schedule_compact(kernel, factor->tensor);
  int64_t strip = 0, gran = 1;
  int axis_dim, found = 0;
  if (asked) pass_compact_shape(asked, factor->tensor, &axis_dim, &strip, &gran);
  bool packs = can_pack(context, kernel, ways, &operand), gathers = !packs || factor->tensor->def;
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    if (!ir_kernel_gathers(row) || !pass_row_fits(row, target, &ways->sum)) continue;
    if (ir_kernel_packs(row) ? !packs : !gathers) continue;
    bool whole = asked && !ir_kernel_pairs(row) && strip > row->m && strip % row->m == 0 &&
                 spans_tiles(context, kernel, ways, &operand, row, strip);
    add_list(context, kernel, ways, &operand, row, whole ? strip : ir_kernel_strip(row), asked ? gran : 1);
    found++;
  }
  pass_ways_k_blocks(context, ways, &operand);
  pass_ways_rows(context, kernel, ways, &operand);
  pass_ways_krows(context, kernel, ways, &operand);
  bool strip_last = pass_contiguous_index(factor, false) == operand.strip_index;
  const ir_expr *other = other_operand(&ways->sum, &operand);
  bool turns = pass_layout_is_free(kernel, factor->tensor), across = !strip_last && !turns && !is_packed(ways, factor->tensor);
  bool crossed = other_operand_fits(&ways->sum, &operand) && (packs || strip_last || turns) && other->tensor->role == IR_ROLE_IN && other->tensor->rank == 2;
  if (!found)
    refuse(context, ways, factor->tensor,
           "no kernel of this target gathers operands of this dtype");
  else if ((crossed || across) && !blocks_serve(context, ways, factor->tensor)) {
    if (crossed) missed_other_layout(context, &operand, other);
    else missed_layout(context, &operand);
  }
}

/* ---- lists of the columns that are asked for ---------------------------------------------------
 */
/* What lies at the result's own place is gathered with it: its strips must be contiguous too. */
static void settle_beside(pass_context *context, ir_kernel *kernel, const pass_listed *listed,
                          pass_way *way) {
  ir_tensor *asked = listed->access->tensor;
  const ir_tensor *target = way->candidate->target;
  bool last = target->def->subs[0]->index == listed->strip_index;
  way->turned = target->def->target;
  way->strip_last = last;
  way->candidate->formats =
      ir_format_text(context->arena, "%s=%s", target->name, last ? "dense_t" : "dense");
  if (pass_layout_is_free(kernel, asked)) {
    way->beside = asked;
    way->beside_last = listed->strip_dim == 0;
    way->candidate->formats =
        ir_format_text(context->arena, "%s, %s=%s", way->candidate->formats, asked->name,
                       listed->strip_dim == 0 ? "dense_t" : "dense");
  } else if (pass_contiguous_index(listed->access, false) != listed->strip_index) {
    way->candidate->why = ir_format_text(
        context->arena,
        "`%s` is stored with the listed axis contiguous: a gather would move a sector an element",
        asked->name);
  }
}

static void add_columns(pass_context *context, ir_kernel *kernel, pass_ways *ways,
                        const pass_listed *listed, const ir_kernel_row *row) {
  const pass_sum *sum = &ways->sum;
  ir_candidate *candidate = pass_candidate_new(context, ways, row->name);
  candidate->operand = listed->access->tensor;
  candidate->axis = listed->axis;
  candidate->strip_index = listed->strip_index;
  candidate->strip = ir_kernel_strip(row);
  candidate->gran = 1;
  candidate->label =
      ir_format_text(context->arena, "only %s where %s is not 0, %dx1%s, tile %dx%dx%d%s",
                     listed->axis->name, candidate->operand->name, (int)candidate->strip,
                     ir_kernel_pairs(row) ? " in pairs" : "", row->m, row->n, row->k,
                     ir_kernel_moves_boxes(row) ? " boxes" : "");
  add_tiles(context, sum, row, listed->axis == sum->m_index, candidate);
  if (listed->cannot)
    candidate->why = listed->cannot;
  else if (!pass_rows_aligned(sum, row->align))
    candidate->why = pass_alignment_why(context, row);
  else
    settle_beside(context, kernel, listed, &ways->list.at[ways->list.count - 1]);
  pass_candidate_estimate(context, sum, candidate);
}

/* Where nothing else forbids the lists. */
static void missed_columns(pass_context *context, const pass_ways *ways,
                           const pass_listed *listed) {
  const ir_expr *across = pass_columns_across(&ways->sum, listed);
  const ir_program *program = context->program;
  if (!across || across->tensor->role != IR_ROLE_IN || program->strict_nan ||
      program->batch_invariant)
    return;
  ir_diag_add(
      context->sink, IR_DIAG_LAYOUT_MISSED, across->tensor->span,
      "`%s` is needed only where `%s` is not zero: that takes columns of `%s` along %s, and "
      "%s",
      ways->stmt->target->name, listed->access->tensor->name, across->tensor->name,
      ways->sum.k->name, listed->cannot);
}

/* Few rows whose kernel looks at the zeros itself: lists are made where the schedule asks for them. */
static bool needs_no_list(const ir_kernel *kernel, const pass_ways *ways, const ir_tensor *tensor) {
  for (int i = 0; i < ways->list.count; i++) {
    const ir_candidate *c = ways->list.at[i].candidate;
    const ir_kernel_row *row = ir_kernel_row_named(c->row);
    if (c->operand == tensor && row && ir_kernel_skips(row) && !*c->why)
      return !pass_schedule_compact(kernel, tensor);
  }
  return false;
}

static void columns_of(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  pass_listed listed;
  bool found = false;
  if (!pass_columns_of(context, kernel, &ways->sum, &listed)) return;
  if (needs_no_list(kernel, ways, listed.access->tensor)) return;
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (ir_kernel_samples(&ir_kernel_rows[i]) &&
        pass_row_fits(&ir_kernel_rows[i], pass_target_of(context), &ways->sum))
      add_columns(context, kernel, ways, &listed, &ir_kernel_rows[i]), found = true;
  if (found) missed_columns(context, ways, &listed);
}

static void add_loops(pass_context *context, pass_ways *ways) {
  ir_candidate *candidate = pass_candidate_new(context, ways, "loop");
  candidate->label = "generated loops";
  pass_candidate_estimate(context, ways->is_sum ? &ways->sum : NULL, candidate);
}

void pass_ways_cuda(pass_context *context, ir_kernel *kernel, pass_ways *ways) {
  const ir_target *target = pass_target_of(context);
  add_loops(context, ways);
  if (ways->is_sum && ways->sum.grouped) pass_ways_groups(context, ways);
  if (!ways->is_sum) pass_ways_scatter(context, ways);
  if (ways->is_sum && ways->sum.widened) pass_ways_widen(context, ways);
  if (ways->is_sum && ways->sum.bsr) pass_ways_bsr(context, ways);
  if (ways->is_sum && ways->sum.sdd) pass_ways_sdd(context, ways);
  pass_ways_missed(context, ways);
  if (!ways->is_sum || !ways->sum.matrices || !ways->sum.m_index || !ways->sum.n_index) return;
  for (int i = 0; i < ir_kernel_row_count; i++)
    if (ir_kernel_is_dense(&ir_kernel_rows[i]) && !ir_kernel_moves_boxes(&ir_kernel_rows[i]) &&
        !ir_kernel_streams(&ir_kernel_rows[i]) &&
        pass_row_fits(&ir_kernel_rows[i], target, &ways->sum))
      add_dense(context, kernel, ways, &ir_kernel_rows[i], false);
  add_streamed(context, kernel, ways);
  add_boxes(context, kernel, ways);
  pass_ways_library(context, kernel, ways);
  if (!ways->sum.flattened) pass_ways_skip(context, kernel, ways);
  for (int i = 0; i < ways->sum.factors.count; i++)
    if (pass_factor_dynamic(kernel, ways->sum.factors.at[i]) &&
        !needs_no_list(kernel, ways, ways->sum.factors.at[i]->tensor))
      lists_of(context, kernel, ways, ways->sum.factors.at[i]);
  if (!ways->sum.flattened) columns_of(context, kernel, ways);
  if (!ways->sum.flattened) pass_ways_n_blocks(context, kernel, ways);
  if (!ways->sum.flattened) pass_ways_spread(context, kernel, ways);
  add_named_boxes(context, kernel, ways);
}
