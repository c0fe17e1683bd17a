/* aside.c - products in listed columns whose readers are elementwise.
 *
 *     u[t,f] = sum[d] x[t,d]*Wu[f,d]  on g[t,f]      columns of strips of g, side by side: `u.listed`, and no u
 *     h[t,f] = g[t,f]*u[t,f]          on g[t,f]      h, and what else is made of them, from these columns: one launch
 *
 * u would be spread over all of its places (ways_spread.c) and read there again by each of its readers.  Where all of these are
 * elementwise, at u's own places, and nowhere but where u's own condition holds, they take the place of the launch that spreads: it
 * reads what lies side by side and writes their results whole.  The guard's dense branch computes u and them as ever. */
#include <math.h>

#include "ir/beside.h"
#include "passes/choice.h"
#include "passes/contract.h"
#include "passes/expr.h"
#include "passes/stage.h"
#include "passes/storage.h"

/* Of a statement in the place of another: it stands in the same order of dimensions, both lie row by row, and all that is read of the
 * other one is at the own place. */
typedef struct place {
  const ir_stmt *reader;
  const ir_tensor *tensor;
  bool other; /* somewhere it is read elsewhere */
} place;

static bool note_place(void *user, ir_expr *e) {
  place *p = user;
  if (e->kind != IR_ACCESS || e->tensor != p->tensor) return true;
  for (int d = 0; d < e->arg_count; d++) p->other |= !ir_is_bare(e->args[d], p->reader->subs[d]->index);
  return true;
}

static bool lies_alike(const ir_stmt *reader, const ir_stmt *writer) {
  const ir_tensor *t = reader->target;
  bool plain = t->rank == 2 && reader->free.count == 2 && !ir_is_scatter(reader) && !reader->stores && !t->like && !t->by_value && !pass_tensor_is_sparse(t) &&
               pass_plain_subs(reader);
  return plain && t->dtype == writer->target->dtype && ir_last_dim(t) == ir_last_dim(writer->target);
}

/* Its chosen kernel is generated loops, whatever else could be. */
static bool is_loops(const ir_kernel *kernel, const ir_stmt *stmt) {
  const ir_candidate *chosen = pass_chosen(kernel, stmt->target);
  return !chosen || (!strcmp(chosen->row, "loop") && !chosen->operand);
}

/* And both or neither have a dense branch. */
static bool same_columns(const ir_kernel *kernel, const ir_candidate *a, const ir_candidate *b) {
  return a->operand == b->operand && a->strip == b->strip && a->axis == b->axis && a->strip_index == b->strip_index && !pass_dense_branch(kernel, a->target) == !pass_dense_branch(kernel, b->target);
}

/* Everything that it reads of columns lies over the same list, and one launch can read it all. */
static bool reads_alike(const ir_kernel *kernel, const ir_stmt *reader, const ir_candidate *columns) {
  int count = 0;
  for (int i = 0; i < kernel->candidates.count; i++) {
    const ir_candidate *other = kernel->candidates.at[i];
    if (other->verdict != IR_CHOSEN || !pass_is_spread(other) || other->target == reader->target || !pass_stmt_reads(reader, other->target)) continue;
    if (!same_columns(kernel, other, columns) || ++count > IR_MOST_BESIDE) return false;
  }
  return true;
}

static bool is_behind(pass_context *context, const ir_kernel *kernel, const ir_stmt *reader, const ir_candidate *columns) {
  const ir_stmt *writer = columns->target->def;
  if (!pass_is_elementwise(reader->value) || !lies_alike(reader, writer) || !is_loops(kernel, reader) || !reads_alike(kernel, reader, columns)) return false;
  place at = {reader, columns->target, false};
  (void)ir_expr_walk(reader->value, note_place, &at);
  if (at.other || !reader->cond || ir_expr_uses_tensor(reader->cond, columns->target)) return false;
  ir_index *from[] = {writer->subs[0]->index, writer->subs[1]->index};
  return pass_implies(context->arena, reader->cond, ir_expr_substitute(context->arena, writer->cond, from, reader->subs, 2));
}

bool pass_stays_aside(pass_context *context, const ir_kernel *kernel, const ir_candidate *columns) {
  int readers = 0;
  if (!columns || !pass_is_spread(columns) || !ir_tensor_is_inner(columns->target)) return false;
  for (int i = 0; i < kernel->stmts.count; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target == columns->target || !pass_stmt_reads(stmt, columns->target)) continue;
    if (!is_behind(context, kernel, stmt, columns)) return false;
    readers++;
  }
  return readers > 0;
}

int pass_aside_of(pass_context *context, const ir_kernel *kernel, const ir_stmt *reader, const ir_candidate **out) {
  int count = 0;
  for (int i = 0; i < kernel->candidates.count && count < IR_MOST_BESIDE; i++) {
    const ir_candidate *c = kernel->candidates.at[i];
    if (c->verdict == IR_CHOSEN && c->target != reader->target && pass_is_spread(c) && pass_stmt_reads(reader, c->target) &&
        pass_stays_aside(context, kernel, c))
      out[count++] = c;
  }
  return count;
}

/* ---- who reads columns again ----------------------------------------------------------------
 * Of what such a statement makes, or of a product whose columns are spread as ever: they stay where they are, and who sums over them reads them
 * there. */
const ir_candidate *pass_aside_writer(pass_context *context, const ir_kernel *kernel, const ir_candidate *reader) {
  const ir_candidate *columns[IR_MOST_BESIDE];
  const ir_kernel_row *row = reader->row ? ir_kernel_row_named(reader->row) : NULL;
  const ir_tensor *x = reader->operand;
  int axis, strip;
  if (!row || !x || !x->def || x->def->fill != 0 || !ir_kernel_gathers(row) || ir_kernel_pairs(row) || ir_kernel_packs(row) || reader->gran != 1) return NULL;
  columns[0] = pass_chosen(kernel, x);
  if (!columns[0] || !pass_is_spread(columns[0])) columns[0] = pass_aside_of(context, kernel, x->def, columns) ? columns[0] : NULL;
  if (!columns[0] || columns[0]->strip != reader->strip) return NULL;
  if (pass_list_dims(reader->target->def, x, reader->axis, reader->strip_index, &axis, &strip) != 1 || axis != ir_last_dim(x)) return NULL;
  return columns[0];
}

/* Beside what was chosen a list of the same columns, which would want the operand turned: nothing has to be turned or listed where its columns
 * stay side by side. */
static ir_candidate *better(pass_context *context, const ir_kernel *kernel, const ir_candidate *chosen) {
  ir_candidate *best = NULL;
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *c = kernel->candidates.at[i];
    if (c->target != chosen->target || c->verdict == IR_CHOSEN || !c->formats || !*c->formats || !pass_aside_writer(context, kernel, c)) continue;
    double time = c->expected - c->index_microseconds;
    if (time < (best ? best->expected - best->index_microseconds : chosen->expected)) best = c;
  }
  return best;
}

void pass_aside_settle(pass_context *context, ir_kernel *kernel) {
  for (int i = 0; i < kernel->candidates.count; i++) {
    ir_candidate *was = kernel->candidates.at[i], *now = was->verdict == IR_CHOSEN ? better(context, kernel, was) : NULL;
    if (!now) continue;
    now->verdict = IR_CHOSEN;
    now->microseconds -= now->index_microseconds;
    now->expected -= now->index_microseconds;
    now->index_microseconds = 0;
    now->formats = "";
    now->why = ir_format_text(context->arena, "the columns of `%s` stay side by side: no list is made, and nothing is turned; %s expected, against %s for %s", now->operand->name,
                              pass_time_text(context->arena, now->expected), pass_time_text(context->arena, was->expected), was->label);
    was->verdict = was->operand || pass_is_library(was) ? IR_REJECTED : IR_RUNNER_UP;
    was->why = ir_format_text(context->arena, "%s, %.2f times the chosen one", pass_time_text(context->arena, was->expected), was->expected / fmax(1e-9, now->expected));
  }
}
