/* strips.c - products on the CPU with an operand whose entries are walked row by row, because it is
 * stored so or because a list of each row was made: straight loops over the entries, and strips of
 * columns over which the dense operand is packed (lower_strips.c); whether strips fit, and what
 * both take.
 *
 * Every entry is met once a column of the other operand. What that takes is set by where the
 * column's elements come from: a strip that is packed stays in a core's own cache (near_gbs), a
 * matrix read in place comes from the shared one (shared_gbs), and elements that are not
 * consecutive come one by one (loop_gathered_gops). */
#include <math.h>

#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/storage.h"

static ir_expr *stored_factor(const pass_sum *sum) {
  ir_expr *found = NULL;
  for (int i = 0; i < sum->factors.count; i++) {
    ir_expr *e = sum->factors.at[i];
    if (e->kind != IR_ACCESS) return NULL;
    if (!pass_tensor_is_sparse(e->tensor)) continue;
    if (found) return NULL;
    found = e;
  }
  return found;
}

/* Entries are found row by row: the rows' levels are full, and one of them is the outermost. */
static bool walked_by_rows(const ir_expr *stored, const ir_index *rows) {
  const ir_format *format = stored->tensor->format;
  if (!format) return false;
  for (int l = 0; l < format->level_count; l++) {
    bool of_rows = ir_is_bare(stored->args[format->level[l].dim], rows);
    if (l == 0 ? !of_rows : false) return false;
    if (of_rows && !ir_level_rows[format->level[l].kind].full) return false;
  }
  return true;
}

static bool is_plain(const ir_stmt *stmt) {
  return !stmt->cond && !ir_is_scatter(stmt) && stmt->free.count == 2 && pass_plain_subs(stmt) &&
         !pass_tensor_is_sparse(stmt->target) && !stmt->target->like &&
         !stmt->free.at[0]->offsets && !stmt->free.at[1]->offsets;
}

typedef struct other {
  const ir_expr *stored;
  bool found;
} other;

static bool is_other(void *user, ir_expr *e) {
  other *o = user;
  if (e->kind == IR_ACCESS && e != o->stored) o->found |= pass_tensor_is_sparse(e->tensor);
  return !o->found;
}

/* Rows are cut into blocks: an operand that is walked beside the product would begin each block
 * with its first entry. */
static bool walks_another(const ir_stmt *stmt, const ir_expr *stored) {
  other o = {.stored = stored};
  (void)ir_expr_walk(stmt->value, is_other, &o);
  return o.found;
}

/* The factor that a list was made of; nothing else is sparse. */
static ir_expr *listed_factor(const pass_sum *sum, const ir_tensor *listed) {
  ir_expr *found = NULL;
  for (int i = 0; i < sum->factors.count; i++) {
    ir_expr *e = sum->factors.at[i];
    if (e->kind != IR_ACCESS || pass_tensor_is_sparse(e->tensor)) return NULL;
    if (e->tensor == listed && found) return NULL;
    if (e->tensor == listed) found = e;
  }
  return found;
}

/* The operands of a product of two matrices, one of them stored sparse or listed. */
static bool operands_fit(const pass_sum *sum, ir_index *columns, const ir_tensor *listed, pass_strips *out) {
  *out = (pass_strips){.columns = columns};
  if (!sum->k || sum->k->offsets || sum->factors.count != 2 || !is_plain(sum->stmt)) return false;
  out->rows = sum->stmt->free.at[sum->stmt->free.at[0] == columns];
  out->stored = listed ? listed_factor(sum, listed) : stored_factor(sum);
  if (!out->stored || out->stored->arg_count != 2) return false;
  out->packed = sum->factors.at[sum->factors.at[0] == out->stored];
  const ir_expr *e = out->packed;
  if (e->arg_count != 2 || (e->tensor->format && !ir_format_is_dense(e->tensor->format)))
    return false;
  for (int d = 0; d < 2; d++)
    if (ir_is_bare(e->args[d], columns) && ir_is_bare(e->args[1 - d], sum->k)) out->column_dim = d;
  int d = out->column_dim;
  bool pair = ir_is_bare(e->args[d], columns) && ir_is_bare(e->args[1 - d], sum->k);
  const ir_expr *const *at = (const ir_expr *const *)out->stored->args;
  bool both = (ir_is_bare(at[0], out->rows) && ir_goes_through(out->stored, 1, sum->k)) ||
              (ir_is_bare(at[1], out->rows) && ir_goes_through(out->stored, 0, sum->k));
  return pair && both && !walks_another(sum->stmt, out->stored);
}

bool pass_strips_fit(const pass_sum *sum, ir_index *columns, const ir_tensor *listed, pass_strips *out) {
  return operands_fit(sum, columns, listed, out) && (listed || walked_by_rows(out->stored, out->rows));
}

bool pass_stored_fit(const pass_sum *sum, pass_strips *out) {
  bool fits = false;
  for (int i = 0; i < sum->stmt->free.count && !fits; i++)
    fits = operands_fit(sum, sum->stmt->free.at[i], NULL, out) && out->stored->tensor->format;
  return fits;
}

/* Every block packs its strip anew: there is one, unless the strips alone are too few for all
 * cores. */
enum { LEAST_ROWS = 32, PARTS_A_CORE = 2 };

ir_expr *pass_strips_block(pass_context *context, const ir_index *rows, ir_expr *strips) {
  ir_arena *a = context->arena;
  int64_t parts = PARTS_A_CORE * (int64_t)fmax(1, context->profile->units);
  ir_expr *step = ir_apply(a, IR_OP_MUL, rows->extent, strips);
  step = ir_apply(a, IR_OP_DIV, step, ir_int(a, parts));
  return ir_apply(a, IR_OP_MAX, step, ir_int(a, LEAST_ROWS));
}

static double blocks_of(const pass_profile *p, double rows, double strips) {
  return ceil(rows / fmax(LEAST_ROWS, floor(rows * strips / (PARTS_A_CORE * fmax(1, p->units)))));
}

/* ---- what it takes --------------------------------------------------------------------------- */
typedef struct sizes {
  double rows, columns, k, entries, bytes; /* bytes: of an element of the packed operand */
} sizes;

static sizes sizes_of(pass_context *context, const pass_sum *sum, const pass_strips *strips,
                      double density) {
  sizes z = {.rows = pass_index_assumed(context, strips->rows),
             .columns = pass_index_assumed(context, strips->columns),
             .k = pass_index_assumed(context, sum->k)};
  z.entries = z.rows * z.k * density;
  z.bytes = fmax(4, (double)ir_dtype_bytes(strips->packed->tensor->dtype));
  return z;
}

/* More than 64 columns at once are read at this share of the rate: measured, 0.8 to 0.9. */
#define WIDE_SHARE 0.85
enum { WIDE = 64 };

static double us(double bytes, double gbs) { return bytes / (gbs * 1e3); }

static bool is_contiguous(const ir_expr *access, const ir_index *index) {
  return pass_contiguous_index(access, false) == index;
}

double pass_stored_density(pass_context *context, const pass_strips *strips) {
  return pass_zeros_of(context, strips->stored->tensor).likely;
}

/* Columns one by one: an entry is read with its coordinate, in order, and what lies at the
 * coordinate from near. */
static double column_cost(const pass_profile *p, const sizes *z, const ir_tensor *stored) {
  double entry = (double)ir_dtype_bytes(stored->dtype) + 4;
  double near = z->entries * z->columns / (p->gathered_gops * 1e3);
  return fmax(near, us(z->entries * entry * z->columns, p->bandwidth_gbs));
}

/* Entries that do not fit a core's own cache beside a strip come from the shared one, once a strip: wide strips read them less often. */
static double far_entries(const pass_profile *p, const sizes *z, const ir_tensor *stored, double count, double strip) {
  double bytes = z->entries * ((double)ir_dtype_bytes(stored->dtype) + 4);
  double far = bytes + strip - p->near_kb * 1024;
  return far > 0 ? us(fmin(far, bytes) * count, p->gather_gbs) : 0;
}

double pass_strips_cost(pass_context *context, const pass_sum *sum, const pass_strips *strips,
                        int64_t width, double density) {
  const pass_profile *p = context->profile;
  const ir_stmt *stmt = sum->stmt;
  sizes z = sizes_of(context, sum, strips, density);
  double count = ceil(z.columns / (double)width), strip = z.k * (double)width * z.bytes;
  double whole = count * strip, read = z.entries * count * (double)width * z.bytes;
  bool near = strip <= p->near_kb * 1024 / 2;
  double rate = near ? p->near_gbs * (width > WIDE ? WIDE_SHARE : 1) : p->shared_gbs;
  double packed = whole * blocks_of(p, z.rows, count), pack = us(packed, p->bandwidth_gbs);
  if (!is_contiguous(strips->packed, strips->columns)) pack += us(packed, p->random_gbs);
  double walk = us(read, rate) + z.entries * count * p->entry_ns / (1e3 * p->units) + far_entries(p, &z, strips->stored->tensor, count, strip);
  if (width == 1) walk = column_cost(p, &z, strips->stored->tensor);
  const ir_expr *target = ir_access(context->arena, stmt->target, (ir_expr **)stmt->subs);
  double store = is_contiguous(target, strips->columns)
                     ? us(z.rows * z.columns * 4, p->bandwidth_gbs)
                     : z.rows * z.columns / (p->loop_gathered_gops * 1e3);
  return p->launch_us + pack + walk + store;
}

double pass_expanded_cost(pass_context *context, const pass_sum *sum, const pass_strips *strips, double density) {
  const pass_profile *p = context->profile;
  const ir_target *target = pass_target_of(context);
  sizes z = sizes_of(context, sum, strips, density);
  const ir_tensor *stored = strips->stored->tensor, *packed = strips->packed->tensor;
  pass_product q = {.batch = 1,
                    .m = z.columns,
                    .n = z.rows,
                    .k = z.k,
                    .a = packed->dtype,
                    .b = stored->dtype,
                    .c = sum->stmt->target->dtype};
  const pass_tiling whole = {.m = 64, .n = 64, .k = 1, .cover = 1};
  double all = z.rows * z.k * (double)ir_dtype_bytes(stored->dtype);
  double write =
      us(all + z.entries * 8, p->bandwidth_gbs) + z.entries * p->entry_ns / (1e3 * p->units);
  return p->launch_us + write + pass_cost_product(p, target, &q, &whole);
}

/* Whether the entries of a row come one after the other; else its sums are fetched and stored for each. */
static bool comes_by_rows(const ir_expr *stored, const ir_index *rows) {
  const ir_format *format = stored->tensor->format;
  return !format || !format->level_count || ir_is_bare(stored->args[format->level[0].dim], rows);
}

double pass_straight_cost(pass_context *context, const pass_sum *sum, const pass_strips *strips,
                          double density) {
  const pass_profile *p = context->profile;
  sizes z = sizes_of(context, sum, strips, density);
  double products = z.entries * z.columns;
  double walk = products / (p->loop_gathered_gops * 1e3);
  if (is_contiguous(strips->packed, strips->columns))
    walk = us(products * z.bytes * (comes_by_rows(strips->stored, strips->rows) ? 1 : 2), p->shared_gbs) + z.entries * p->entry_ns / (1e3 * p->units);
  return p->launch_us + walk + us(z.entries * 8 + z.rows * z.columns * 4, p->bandwidth_gbs);
}
