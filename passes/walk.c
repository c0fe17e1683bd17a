/* walk.c - what it takes a GPU to walk the entries of one stored operand of a product.
 *
 *     y[r,c] = sum[k] S[r,k]*D[k,c]
 *
 * Where the levels of S meet r before k, warps take a row and consecutive columns each (gpu_columns.c): every
 * entry costs the line of D that it meets, from the shared cache.  Where they meet k first (csc, or csr read
 * across), an element's sum is kept in memory and only columns run side by side: an entry costs a thread the
 * way there and back. */
#include <math.h>

#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/storage.h"

typedef struct stored_walk {
  const ir_expr *stored, *other;
  double rows, columns, k, visits; /* visits: elements of the stored operand that are looked at */
  bool across;                     /* k is met first */
} stored_walk;

static const ir_expr *bare_factor(const ir_expr *e) {
  while (e->kind == IR_CAST) e = e->args[0];
  return e->kind == IR_ACCESS && e->arg_count <= 2 && pass_bare_access(e) ? e : NULL;
}

/* A tile of a bitmap is looked at bit by bit. */
static double visits_of(pass_context *context, const ir_tensor *tensor, double elements) {
  for (int l = 0; l < tensor->format->level_count; l++)
    if (tensor->format->level[l].kind == IR_LEVEL_BITMAP) return elements;
  return elements * pass_zeros_of(context, tensor).likely;
}

static bool read_walk(pass_context *context, const pass_sum *sum, stored_walk *w) {
  *w = (stored_walk){.rows = 1, .columns = 1};
  for (int i = 0; i < sum->factors.count; i++) {
    const ir_expr *e = bare_factor(sum->factors.at[i]);
    bool sparse = e && pass_tensor_is_sparse(e->tensor);
    if ((!e && pass_expr_reads_sparse(sum->factors.at[i])) || (sparse && w->stored)) return false;
    if (sparse) w->stored = e;
    if (e && !sparse && sum->k && pass_dim_of(e, sum->k) >= 0 && (!w->other || e->arg_count == 2)) w->other = e;
  }
  if (!w->stored || !w->other || !sum->k || w->stored->arg_count != 2) return false;
  int k = pass_dim_of(w->stored, sum->k);
  if (k < 0) return false;
  const ir_index *row = w->stored->args[1 - k]->index;
  w->k = pass_index_assumed(context, sum->k);
  w->rows = pass_index_assumed(context, row);
  for (int i = 0; i < sum->stmt->free.count; i++)
    if (sum->stmt->free.at[i] != row) w->columns *= pass_index_assumed(context, sum->stmt->free.at[i]);
  w->visits = visits_of(context, w->stored->tensor, w->rows * w->k);
  w->across = w->stored->tensor->format && w->stored->tensor->format->level[0].dim == k;
  return true;
}

static double across_cost(const pass_profile *p, const stored_walk *w) {
  const double threads_a_unit = 1024;
  double turns = fmax(1, w->columns / (p->units * threads_a_unit));
  return 2 * p->launch_us + w->visits * turns * p->step_ns / 1e3;
}

typedef struct share_search {
  pass_context *context;
  double density;
} share_search;

static bool see_share(void *user, ir_expr *node) {
  share_search *s = user;
  if (node->kind == IR_ACCESS && pass_tensor_is_sparse(node->tensor)) s->density = fmin(s->density, pass_zeros_of(s->context, node->tensor).likely);
  return true;
}

double pass_stored_share(pass_context *context, const ir_expr *e) {
  share_search s = {context, 1};
  ir_expr_walk((ir_expr *)e, see_share, &s);
  return s.density;
}

/* The entries of a row, or all of them, follow one another. */
static bool see_rows(void *user, ir_expr *node) {
  bool *rows = user;
  if (node->kind != IR_ACCESS || !pass_tensor_is_sparse(node->tensor)) return true;
  const ir_format *f = ir_tensor_owner(node->tensor)->format;
  for (int l = 0; f && l < f->level_count; l++) *rows = *rows && f->level[l].map == IR_MAP_WHOLE;
  ir_level_kind last = f && f->level_count ? f->level[f->level_count - 1].kind : IR_LEVEL_DENSE;
  *rows = *rows && (last == IR_LEVEL_COMPRESSED || last == IR_LEVEL_SINGLETON);
  return true;
}

/* Stored entries say which elements there are, and both factors lie along the sum: teams take entries (gpu_entries.c).  Their number,
 * as assumed; 0: it is nothing of that kind. */
static double entries_of_teams(pass_context *context, const pass_sum *sum) {
  const ir_expr *asked = sum->stmt->sample;
  bool rows = true;
  if (pass_target_of(context)->kind != IR_TARGET_CUDA || !sum->k || !asked || !pass_expr_reads_sparse(asked) || sum->factors.count != 2) return 0;
  for (int i = 0; i < sum->factors.count; i++) {
    const ir_expr *e = sum->factors.at[i];
    while (e->kind == IR_CAST) e = e->args[0];
    if (e->kind != IR_ACCESS || pass_tensor_is_sparse(e->tensor) || pass_contiguous_index(e, false) != sum->k) return 0;
  }
  ir_expr_walk((ir_expr *)asked, see_rows, &rows);
  double entries = rows ? pass_stored_share(context, asked) : 0;
  for (int i = 0; i < sum->stmt->free.count; i++) entries *= pass_index_assumed(context, sum->stmt->free.at[i]);
  return entries;
}

bool pass_teams_take_entries(pass_context *context, const pass_sum *sum) { return entries_of_teams(context, sum) > 0; }

double pass_walk_cost(pass_context *context, const pass_sum *sum) {
  const pass_profile *p = context->profile;
  stored_walk w;
  double entries = entries_of_teams(context, sum);
  if (entries > 0) return pass_cost_entries(p, entries, pass_index_assumed(context, sum->k), pass_tensor_bytes(context, sum->stmt->target));
  if (!read_walk(context, sum, &w) || (w.columns < 2 && !w.across)) return pass_loops_cost(context, sum->stmt);
  if (w.across) return across_cost(p, &w);
  const double warp = 32;
  double element = (double)ir_dtype_bytes(w.other->tensor->dtype);
  const ir_expr *turned = pass_turns(context, sum);
  bool along = turned || pass_contiguous_index(w.other, false) != sum->k;
  double lanes = along && w.columns >= warp ? warp : 1; /* that share an entry */
  double line = fmax(32, lanes * element) / lanes;      /* bytes from the shared cache a product */
  double share = pass_thread_share(p, pass_target_of(context), w.rows * w.columns);
  double products = w.visits * w.columns / share;
  double walk = fmax(products * line / (p->walk_gbs * 1e3), products / (p->walk_gops * 1e3));
  double bytes = pass_tensor_bytes(context, w.stored->tensor) + pass_tensor_bytes(context, sum->stmt->target) +
                 pass_tensor_bytes(context, w.other->tensor);
  double turn = turned ? pass_turn_cost(context, turned->tensor) : 0;
  return p->launch_us + fmax(walk, bytes / (p->bandwidth_gbs * 1e3)) + turn;
}

/* ---- the other operand, turned --------------------------------------------------------------- */
double pass_turn_cost(pass_context *context, const ir_tensor *tensor) {
  const pass_profile *p = context->profile;
  double bytes = pass_tensor_bytes(context, tensor);
  return p->launch_us + 2 * bytes / (p->bandwidth_gbs * 1e3) +
         bytes / (double)ir_dtype_bytes(tensor->dtype) / (p->loop_gathered_gops * 1e3);
}

const ir_expr *pass_turns(pass_context *context, const pass_sum *sum) {
  const double least = 64; /* columns that fill lanes, two a lane */
  stored_walk w;
  if (pass_target_of(context)->kind != IR_TARGET_CUDA || sum->matrices || isfinite(pass_bsr_best(context, sum)) || sum->factors.count != 2) return NULL;
  if (sum->stmt->target->like || pass_tensor_is_sparse(sum->stmt->target) || ir_is_scatter(sum->stmt)) return NULL;
  if (!read_walk(context, sum, &w) || w.across || w.columns < least || w.other->arg_count != 2) return NULL;
  if (w.other->tensor->format && !ir_format_is_dense(w.other->tensor->format)) return NULL;
  if (w.other->tensor->dtype == IR_NONE || pass_contiguous_index(w.other, false) != sum->k) return NULL;
  double element = (double)ir_dtype_bytes(w.other->tensor->dtype), sector = 32;
  double lost = w.visits * w.columns * (sector - element) / (context->profile->walk_gbs * 1e3);
  return lost > pass_turn_cost(context, w.other->tensor) ? w.other : NULL;
}
