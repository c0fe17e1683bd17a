/* beside.c - see beside.h. */
#include "ir/beside.h"
#include "ir/kernels.h"
#include "ir/loop.h"

bool ir_stage_is_aside(const ir_kernel *kernel, const ir_stage *stage) {
  for (int i = 0; i < kernel->stages.count && stage->reads.count; i++) {
    const ir_stage *reader = kernel->stages.at[i];
    for (int n = 0; n < reader->beside.count; n++)
      if (reader->beside.at[n] == ir_stage_stmt(stage)->target) return true;
  }
  return false;
}

bool ir_stage_stores_in_place(const ir_kernel *kernel, const ir_stage *stage) {
  const ir_kernel_row *row = stage->row ? ir_kernel_row_named(stage->row) : NULL;
  return row && ir_kernel_spreads(row) && !ir_workspace_of(kernel, ir_stage_stmt(stage)->target, "listed");
}

bool ir_columns_beside(const ir_kernel *kernel, const ir_tensor *tensor, const ir_list *list) {
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    const ir_kernel_row *row = stage->row ? ir_kernel_row_named(stage->row) : NULL;
    bool has = stage->reads.count && stage->reads.at[0] == list && (stage->beside.count || (row && ir_kernel_spreads(row)));
    for (int n = 0; has && n < stage->stmts.count; n++)
      if (stage->stmts.at[n]->target == tensor) return true;
  }
  return false;
}

bool ir_columns_are_read(const ir_kernel *kernel, const ir_tensor *tensor, const ir_list *list) {
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *stage = kernel->stages.at[i];
    const ir_kernel_row *row = stage->row ? ir_kernel_row_named(stage->row) : NULL;
    bool gathers = row && ir_kernel_gathers(row) && !ir_kernel_packs(row) && stage->reads.count && stage->reads.at[0] == list;
    if (gathers && ir_expr_uses_tensor(ir_stage_stmt(stage)->value, tensor)) return true;
  }
  return false;
}

bool ir_beside_may_be_whole(const ir_kernel *kernel, const ir_stage *stage) {
  for (int i = 0; i < kernel->stages.count; i++) {
    const ir_stage *dense = kernel->stages.at[i];
    if (dense->kind == IR_STAGE_COMPUTE && dense->when.list == stage->reads.at[0] && dense->when.above && ir_stage_stmt(dense)->target == stage->beside.at[0]) return true;
  }
  return false;
}

/* ---- what lies at the place ------------------------------------------------------------------ */
bool ir_lies_at_place(const ir_stmt *stmt, const ir_expr *access) {
  const ir_tensor *t = access->tensor, *result = stmt->target;
  bool alike = t->rank == result->rank && (!t->format || ir_format_is_dense(t->format)) && ir_last_dim(t) == ir_last_dim(result);
  for (int d = 0; d < t->rank && alike; d++) alike = stmt->subs[d]->kind == IR_INDEX && ir_is_bare(access->args[d], stmt->subs[d]->index);
  return alike;
}

bool ir_reads_at_place(const ir_stmt *stmt, const ir_expr *access) {
  if (access->kind != IR_ACCESS) return false;
  const ir_tensor *t = access->tensor, *result = stmt->target;
  bool dtype = t->dtype == result->dtype || t->dtype == IR_U8 || t->dtype == IR_B1;
  return t->rank == 2 && dtype && !t->like && !t->by_value && ir_lies_at_place(stmt, access);
}

typedef struct search {
  const ir_stage *stage;
  const ir_stmt *stmt;
  const ir_tensor **out;
  int count;
} search;

static bool is_there(const search *s, const ir_tensor *tensor) {
  for (int i = 0; i < s->stage->beside.count; i++)
    if (s->stage->beside.at[i] == tensor) return true;
  for (int i = 0; i < s->count; i++)
    if (s->out[i] == tensor) return true;
  return s->count == IR_MOST_BESIDE;
}

static bool note_place(void *user, ir_expr *e) {
  search *s = user;
  if (e->kind == IR_ACCESS && ir_reads_at_place(s->stmt, e) && !is_there(s, e->tensor)) s->out[s->count++] = e->tensor;
  return true;
}

int ir_stage_places(const ir_stage *stage, const ir_tensor *out[IR_MOST_BESIDE]) {
  search s = {.stage = stage, .out = out};
  for (int i = 0; i < stage->stmts.count; i++) {
    s.stmt = stage->stmts.at[i];
    (void)ir_expr_walk(s.stmt->value, note_place, &s);
    if (s.stmt->cond) (void)ir_expr_walk(s.stmt->cond, note_place, &s);
  }
  return s.count;
}
