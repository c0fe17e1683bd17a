/* cuda_join.c - two stages in one launch: what a block of the second needs of the first's result is what the same block
 * of the first has written.
 *
 *     g[t,f] = relu(sum[d] x[t,d]*Wg[d,f])          a block streams 8 x 16 of g from memory ...
 *     u[t,f] = e(sum[d] x[t,d]*Wu[d,f]) on g[t,f]   ... and goes on with those of its 16 columns that g asks for
 *
 * Both stages stay in the tile program; a pass that gives them the same tile gets one launch for both, an edited tile
 * parts them again.  Saved are a launch and the wait for the slowest block of the first. */
#include "codegen/cuda.h"
#include "runtime/abi.h"

static bool is_simple(const cg_launches *launches) {
  if (launches->at.count != 1) return false;
  const cg_launch *l = &launches->at.at[0];
  return l->row && l->row->multiply != IR_MULTIPLY_NONE && !l->list && !l->library &&
         !l->stage->when.list && !l->product.batch_count && !l->product.swapped && !l->next;
}

static bool same_tiles(const cg_launch *a, const cg_launch *b) {
  return a->row->m == b->row->m && a->row->n == b->row->n && a->row->threads == b->row->threads &&
         ir_expr_equal(a->product.size_m, b->product.size_m) &&
         ir_expr_equal(a->product.size_n, b->product.size_n);
}

typedef struct reading {
  const cg_launch *first, *second;
  bool elsewhere;
} reading;

/* The element of the first's result at a place of its own tile. */
static bool is_own(const reading *r, ir_expr *const *subs) {
  const ir_stmt *made = r->first->product.stmt;
  for (int d = 0; d < made->target->rank; d++) {
    const ir_index *made_by = made->subs[d]->index;
    const ir_index *index = made_by == r->first->product.m ? r->second->product.m : r->second->product.n;
    if (!ir_is_bare(subs[d], index)) return false;
  }
  return true;
}

static bool note(void *user, ir_expr *node) {
  reading *r = user;
  if (node->kind == IR_ACCESS && node->tensor == r->first->product.t.tensor && !is_own(r, node->args))
    r->elsewhere = true;
  return !r->elsewhere;
}

static bool reads_own_alone(const cg_launch *first, const cg_launch *second) {
  reading r = {first, second, false};
  const ir_stmt *stmt = second->product.stmt;
  ir_expr *const parts[] = {stmt->value, stmt->cond, stmt->sample, stmt->support};
  for (int i = 0; i < IR_COUNT(parts); i++)
    if (parts[i]) ir_expr_walk(parts[i], note, &r);
  return !r.elsewhere;
}

bool cg_join(ir_arena *arena, cg_launches *first, cg_launches *second) {
  if (!is_simple(first) || !is_simple(second)) return false;
  cg_launch *a = &first->at.at[0], *b = &second->at.at[0];
  if (a->detects || !ir_kernel_streams(a->row) || !ir_kernel_skips_columns(b->row) || b->asked.tensor != a->product.t.tensor ||
      a->stage->once != b->stage->once || !same_tiles(a, b) || !reads_own_alone(a, b) ||
      a->bufs.count + b->bufs.count > SPC_ARGS_BUFS)
    return false;
  const int from = a->bufs.count;
  for (int i = 0; i < b->bufs.count; i++) IR_PUSH(arena, &a->bufs, b->bufs.at[i]);
  b->bufs = a->bufs;
  b->buf_a += from, b->buf_b += from, b->buf_t += from, b->buf_asked += from;
  if (b->buf_bits >= 0) b->buf_bits += from;
  if (b->buf_asked_bits >= 0) b->buf_asked_bits += from;
  if (a->shared_bytes < b->shared_bytes) a->shared_bytes = b->shared_bytes;
  b->shared_bytes = a->shared_bytes;
  a->next = IR_NEW(arena, cg_launch);
  *a->next = *b;
  a->next->joined = true;
  *second = (cg_launches){{0}};
  return true;
}
