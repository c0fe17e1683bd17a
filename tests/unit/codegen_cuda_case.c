/* codegen_cuda_case.c - see the header: builds tile IR by hand, as the passes would leave it. */
#include <stdlib.h>

#include "codegen_cuda_case.h"

/* Asked of every element of a result, and of every k: names are compared once. */
const ir_kernel_row *cuda_case_row(const product_case *p) {
  static const char *name;
  static const ir_kernel_row *row;
  if (p->row != name) row = ir_kernel_row_named(name = p->row);
  return row;
}

bool cuda_case_groups(const product_case *p) { return p->way == CASE_GROUPS || p->way == CASE_NAMED; }

bool cuda_case_is_packed(const product_case *p) { return p->way == CASE_PACKED || p->way == CASE_PACKED_PAIRS; }

bool cuda_case_samples(const product_case *p) {
  return ir_kernel_samples(cuda_case_row(p));
}

static bool row_is(const product_case *p, bool (*what)(const ir_kernel_row *)) {
  const ir_kernel_row *row = cuda_case_row(p);
  return row && what(row);
}

bool cuda_case_regroups(const product_case *p) { return row_is(p, ir_kernel_regroups); }

bool cuda_case_is_live(const product_case *p) { return row_is(p, ir_kernel_is_live); }

bool cuda_case_is_krows(const product_case *p) { return row_is(p, ir_kernel_is_krows); }

bool cuda_case_brings(const product_case *p) { return row_is(p, ir_kernel_packs); }

bool cuda_case_bsr(const product_case *p) { return row_is(p, ir_kernel_reads_bsr); }

bool cuda_case_sdd(const product_case *p) { return row_is(p, ir_kernel_writes_bsr); }

bool cuda_case_picks(const product_case *p) { return row_is(p, ir_kernel_n_blocks) || row_is(p, ir_kernel_spreads); }

bool cuda_case_fits(const product_case *p, const char *target) {
  const ir_kernel_row *row = cuda_case_row(p);
  const ir_target *t = ir_target_find(target);
  if (row && t && (t->arch < row->least_arch || (row->most_arch && t->arch > row->most_arch))) return false;
  return !row || row->multiply != IR_MULTIPLY_WGMMA || !strcmp(target, "sm_90a");
}

bool cuda_case_is_its_turn(int number) {
  const char *text = getenv("SPC_ALIKE");
  int first = 1, step = 1;
  return !text || sscanf(text, "%d/%d", &first, &step) != 2 || step < 2 || number % step == (first - 1) % step;
}

void cuda_cases_new(cuda_cases *c) {
  static const char *const names[] = {"M", "N", "K", "G"};
  c->arena = ir_arena_new();
  c->sink = ir_sink_new(c->arena);
  c->program = ir_program_new(c->arena);
  for (int d = 0; d < CASE_DIMS; d++) {
    c->dim[d] = ir_dim_new(c->program, names[d]);
    c->dim[d]->value = -1;
    c->dim[d]->multiple = 1;
  }
  c->kernel = ir_kernel_new(c->program, "cases");
}

void cuda_cases_free(cuda_cases *c) { ir_arena_free(c->arena); }

/* ---- parts ----------------------------------------------------------------------------------- */
static ir_expr *size(cuda_cases *c, int d) { return ir_dim_ref(c->arena, c->dim[d]); }

/* A dense format of `rank` dimensions whose last two are exchanged when the layout is 'c'. */
static const ir_format *layout_format(cuda_cases *c, int rank, char layout) {
  ir_format *f = IR_NEW(c->arena, ir_format);
  f->name = layout == 'r' ? "rows" : "columns";
  f->rank = f->level_count = rank;
  for (int l = 0; l < rank; l++) {
    int d = layout == 'c' && l >= rank - 2 ? 2 * rank - 3 - l : l;
    f->level[l] = (ir_level){.kind = IR_LEVEL_DENSE, .dim = d, .map = IR_MAP_WHOLE, .unique = true};
  }
  return f;
}

/* A[m][k], or T[m][n], in blocks of strip x gran. */
static const ir_format *blocks_format(cuda_cases *c, const product_case *p, char layout) {
  ir_format *f = IR_NEW(c->arena, ir_format);
  int outer = p->way == CASE_BY_K ? 1 : 0, last = layout == 'r' ? 1 : 0;
  int dims[] = {outer, 1 - outer, 1 - last, last};
  f->name = "blocks";
  f->rank = 2;
  f->level_count = 4;
  for (int l = 0; l < 4; l++)
    f->level[l] = (ir_level){.kind = l == 1 ? IR_LEVEL_COMPRESSED : IR_LEVEL_DENSE,
                             .dim = dims[l],
                             .map = l < 2 ? IR_MAP_DIV : IR_MAP_MOD,
                             .factor = dims[l] ? p->gran : p->strip,
                             .unique = true};
  return f;
}

static ir_tensor *tensor(cuda_cases *c, const char *name, ir_dtype t, char layout, int rank,
                         const int *dims) {
  ir_tensor *tensor = ir_tensor_new(
      c->kernel, ir_format_text(c->arena, "%s%d", name, c->kernel->stages.count), IR_ROLE_IN, t);
  tensor->rank = rank;
  for (int d = 0; d < rank; d++) tensor->dim[d] = size(c, dims[d]);
  tensor->format = layout_format(c, rank, rank > 1 ? layout : 'r');
  return tensor;
}

static ir_buf *workspace(cuda_cases *c, const char *name, ir_dtype t, ir_expr *count) {
  ir_buf *buf =
      ir_buf_new(c->arena, ir_format_text(c->arena, "%s%d", name, c->kernel->stages.count),
                 IR_BUF_WORKSPACE, t);
  buf->count = count;
  IR_PUSH(c->arena, &c->kernel->workspaces, buf);
  return buf;
}

static ir_list *list(cuda_cases *c, const char *name, ir_tensor *of, int strip, int gran,
                     ir_index *strips, int strip_dim, ir_index *axis, int axis_dim, bool bits) {
  ir_list *l = IR_NEW(c->arena, ir_list);
  ir_arena *a = c->arena;
  *l = (ir_list){.name = name,
                 .tensor = of,
                 .strip_index = strips,
                 .axis = axis,
                 .strip_dim = strip_dim,
                 .axis_dim = axis_dim,
                 .strip = strip,
                 .gran = gran};
  l->strips = strip_dim >= 0 ? ir_ceil_div(a, of->dim[strip_dim], strip) : ir_int(a, 1);
  l->capacity = ir_ceil_div(a, of->dim[axis_dim], gran);
  l->counts = workspace(c, ir_format_text(a, "%s.counts", name), IR_I32, l->strips);
  l->ids = workspace(c, ir_format_text(a, "%s.ids", name), IR_I32,
                     ir_apply(a, IR_OP_MUL, l->strips, l->capacity));
  if (bits)
    l->bits = workspace(c, ir_format_text(a, "%s.bits", name), IR_I32,
                        ir_apply(a, IR_OP_MUL, l->strips, ir_ceil_div(a, l->capacity, 32)));
  l->fused = bits;
  IR_PUSH(a, &c->kernel->lists, l);
  return l;
}

/* Two strips share a list (ir/tile.h). */
static void give_pairs(cuda_cases *c, ir_list *l) {
  ir_arena *a = c->arena;
  ir_expr *pairs = ir_ceil_div(a, l->strips, 2);
  l->pairs = true;
  l->counts->count = ir_apply(a, IR_OP_MUL, pairs, ir_int(a, 3));
  l->ids->count = ir_apply(a, IR_OP_MUL, pairs, l->capacity);
}

static void give_order(cuda_cases *c, ir_list *l) {
  ir_arena *a = c->arena;
  ir_expr *rows = l->tensor->dim[l->strip_dim];
  l->fused = false;
  l->marks = workspace(c, ir_format_text(a, "%s.marks", l->name), IR_I32,
                       ir_apply(a, IR_OP_MUL, rows, ir_ceil_div(a, l->capacity, 32)));
  l->order = workspace(c, ir_format_text(a, "%s.order", l->name), IR_I32, rows);
}

/* The listed rows, one after the other. */
static void give_rows(cuda_cases *c, ir_list *l) {
  l->fused = false;
  l->packed = workspace(c, ir_format_text(c->arena, "%s.packed", l->name), l->tensor->dtype,
                        ir_apply(c->arena, IR_OP_MUL, l->tensor->dim[0], l->tensor->dim[1]));
}

/* Rows of blocks, in sections of so many. */
static void give_sections(cuda_cases *c, ir_list *l, int section) {
  ir_arena *a = c->arena;
  ir_expr *pitch = ir_apply(a, IR_OP_MUL, ir_ceil_div(a, l->capacity, IR_LIST_ROWS), ir_int(a, IR_LIST_ROWS));
  l->section = section;
  l->fused = false;
  l->counts->count = ir_apply(a, IR_OP_MUL, l->strips, ir_ceil_div(a, l->capacity, section));
  l->ids->count = ir_apply(a, IR_OP_MUL, l->strips, pitch);
  l->packed = workspace(c, ir_format_text(a, "%s.packed", l->name), l->tensor->dtype, ir_apply(a, IR_OP_MUL, l->ids->count, ir_int(a, l->strip)));
}

/* What blocks that make it tell each other lies behind the count. */
static void give_words_to_tell(cuda_cases *c, ir_list *l) {
  l->counts->count = ir_apply(c->arena, IR_OP_ADD, l->strips, ir_ceil_div(c->arena, l->capacity, 32));
}

/* Of each row what is listed, side by side. */
static void give_side_by_side(cuda_cases *c, ir_list *l) {
  bool fused = l->fused;
  give_rows(c, l);
  l->fused = fused;
}

static ir_stage *stage(cuda_cases *c, ir_stage_kind kind, const char *row) {
  ir_stage *s = IR_NEW(c->arena, ir_stage);
  s->number = c->kernel->stages.count;
  s->name = ir_format_text(c->arena, "s%d", s->number);
  s->kind = kind;
  s->row = row;
  s->why = "the test asks for it";
  IR_PUSH(c->arena, &c->kernel->stages, s);
  return s;
}

/* ---- fragments ------------------------------------------------------------------------------- */
static ir_var *param(cuda_cases *c, ir_func *f, const char *name, ir_dtype t) {
  ir_var *var = IR_NEW(c->arena, ir_var);
  *var = (ir_var){name, t, 1};
  IR_PUSH(c->arena, &f->params, var);
  return var;
}

ir_dtype cuda_case_operand(const product_case *p, bool is_a) {
  const ir_kernel_row *row = cuda_case_row(p);
  return row && (is_a ? row->load_a : row->load_b) == IR_LOADER_WIDE ? IR_I8 : p->in;
}

static ir_dtype sum_dtype(const product_case *p) {
  return p->in == IR_I8 ? IR_I32 : p->in == IR_F64 ? IR_F64 : IR_F32;
}

/* What the fragment computes in. */
static ir_dtype value_dtype(const product_case *p) { return p->in == IR_F64 ? IR_F64 : IR_F32; }

static ir_expr *extra(cuda_cases *c, ir_func *f, ir_dtype value, ir_tensor *of, ir_expr *offset) {
  ir_buf *buf =
      ir_buf_new(c->arena, ir_format_text(c->arena, "%s.vals", of->name), IR_BUF_VALS, of->dtype);
  buf->tensor = of;
  ir_func_use(f, buf);
  return ir_cast(c->arena, value, ir_load(c->arena, buf, offset));
}

static ir_func *fragment(cuda_cases *c, const product_case *p, ir_tensor *gate, ir_tensor *stored) {
  ir_arena *a = c->arena;
  ir_func *f = ir_func_new(c->kernel, "epilogue");
  f->kind = IR_FUNC_FRAGMENT;
  ir_expr *acc = ir_cast(a, value_dtype(p), ir_var_ref(a, param(c, f, "acc", sum_dtype(p)))),
          *m = ir_var_ref(a, param(c, f, "m", IR_I64));
  ir_expr *n = ir_var_ref(a, param(c, f, "n", IR_I64));
  ir_expr *batch = ir_var_ref(a, param(c, f, "batch", IR_I64));
  if (p->epilogue == CASE_PLACE || p->epilogue == CASE_PLACE_FLOATS) {
    ir_expr *at = ir_var_ref(a, param(c, f, "at", IR_I64));
    f->result = ir_apply(a, IR_OP_MUL, acc, extra(c, f, value_dtype(p), stored, at));
  } else if (p->epilogue == CASE_SCALES) {
    ir_tensor *scale = tensor(c, "scale", IR_F16, 'r', 1, (int[]){CASE_M});
    ir_tensor *bias = tensor(c, "bias", IR_F32, 'r', 1, (int[]){CASE_N});
    ir_expr *scaled = ir_apply(a, IR_OP_MUL, acc, extra(c, f, value_dtype(p), scale, m));
    f->result = ir_apply(a, IR_OP_ADD, scaled, extra(c, f, value_dtype(p), bias, n));
  } else if (p->epilogue == CASE_BIAS_RELU) {
    ir_tensor *bias = tensor(c, "bias", IR_F32, 'r', 1, (int[]){CASE_N});
    f->result = ir_apply(a, IR_OP_RELU, ir_apply(a, IR_OP_ADD, acc, extra(c, f, value_dtype(p), bias, n)), NULL);
  } else if (p->epilogue == CASE_GATE) {
    ir_expr *at = ir_apply(a, IR_OP_ADD, ir_apply(a, IR_OP_MUL, n, size(c, CASE_M)), m);
    f->result = ir_apply(a, IR_OP_MUL, acc, extra(c, f, value_dtype(p), gate, at));
  } else if (p->epilogue == CASE_MASK) {
    int rank = p->batched ? 3 : 2;
    ir_tensor *mask = tensor(c, "mask", IR_B1, p->layout_t, rank,
                             (int[]){CASE_BATCH, CASE_M, CASE_N} + (p->batched ? 0 : 1));
    bool rows = p->layout_t == 'r';
    ir_expr *slow = rows ? m : n, *fast = rows ? n : m;
    ir_expr *at = ir_apply(a, IR_OP_ADD, ir_apply(a, IR_OP_MUL, slow, size(c, rows ? CASE_N : CASE_M)), fast);
    ir_expr *area = ir_apply(a, IR_OP_MUL, size(c, CASE_M), size(c, CASE_N));
    if (p->batched) at = ir_apply(a, IR_OP_ADD, ir_apply(a, IR_OP_MUL, batch, area), at);
    f->result = ir_apply3(a, IR_OP_WHERE, extra(c, f, IR_B1, mask, at), acc,
                          ir_const_f(a, value_dtype(p), CASE_FILL));
  } else {
    ir_dtype dtype = p->epilogue == CASE_FLOATS ? IR_F32 : IR_BF16;
    ir_tensor *residual = tensor(c, "residual", dtype, 'r', 2, (int[]){CASE_M, CASE_N});
    ir_expr *at = ir_apply(a, IR_OP_ADD, ir_apply(a, IR_OP_MUL, m, size(c, CASE_N)), n);
    f->result = ir_apply(a, IR_OP_ADD, acc, extra(c, f, value_dtype(p), residual, at));
  }
  return f;
}

/* ---- stages ---------------------------------------------------------------------------------- */
static ir_expr *access2(cuda_cases *c, ir_tensor *of, ir_index *batch, ir_index *x, ir_index *y) {
  ir_expr *subs[3];
  int count = 0;
  if (batch) subs[count++] = ir_index_ref(c->arena, batch);
  subs[count++] = ir_index_ref(c->arena, x);
  subs[count++] = ir_index_ref(c->arena, y);
  return ir_access(c->arena, of, subs);
}

/* The stage that writes a packed A over its list: A[i,k] = sum[j] X[i,j]*Y[j,k] at listed k's. */
static void writer(cuda_cases *c, const product_case *p, ir_tensor *at, ir_index *i, ir_index *k,
                   ir_list *over) {
  ir_arena *a = c->arena;
  ir_tensor *x = tensor(c, "X", p->in, 'r', 2, (int[]){CASE_M, CASE_N});
  ir_tensor *y = tensor(c, "Y", p->in, 'c', 2, (int[]){CASE_N, CASE_K});
  ir_index *j = ir_index_new(c->kernel, "j", size(c, CASE_N));
  ir_stmt *stmt = ir_stmt_new(c->kernel, at);
  stmt->subs[0] = ir_index_ref(a, i);
  stmt->subs[1] = ir_index_ref(a, k);
  stmt->combine = IR_RED_COUNT;
  stmt->acc = IR_F32;
  IR_PUSH(a, &stmt->free, i);
  IR_PUSH(a, &stmt->free, k);
  ir_expr *product = ir_apply(a, IR_OP_MUL, ir_cast(a, IR_F32, access2(c, x, NULL, i, j)),
                              ir_cast(a, IR_F32, access2(c, y, NULL, j, k)));
  stmt->value = ir_reduce(a, IR_RED_SUM, &j, 1, product);
  ir_stage *s = stage(c, IR_STAGE_COMPUTE, "gemm_ngather_mma_128x128x32");
  IR_PUSH(a, &s->stmts, stmt);
  IR_PUSH(a, &s->reads, over);
}

/* m becomes the rows of the groups g. */
static void group_rows(cuda_cases *c, ir_index *m, ir_index *g) {
  ir_tensor *offsets = tensor(c, "offsets", IR_I32, 'r', 1, (int[]){CASE_BATCH});
  offsets->dim[0] = ir_apply(c->arena, IR_OP_ADD, size(c, CASE_BATCH), ir_int(c->arena, 1));
  m->offsets = offsets;
  m->segment = g;
}

static ir_expr *rows_of_a(cuda_cases *c, const product_case *p, ir_tensor *at, ir_index *g, ir_index *m, ir_index *k) {
  ir_arena *a = c->arena;
  if (p->way != CASE_NAMED) return access2(c, at, cuda_case_groups(p) ? NULL : g, m, k);
  ir_tensor *names = tensor(c, "names", IR_I32, 'r', 1, (int[]){CASE_M});
  ir_expr *row = ir_cast(a, IR_I64, ir_access(a, names, (ir_expr *[]){ir_index_ref(a, m)}));
  return ir_access(a, at, (ir_expr *[]){row, ir_index_ref(a, k)});
}

/* factors[free, k / group]: f32, a row of A or a column of B each. */
static ir_expr *factor_of_group(cuda_cases *c, const product_case *p, ir_index *own, ir_index *k) {
  ir_arena *a = c->arena;
  ir_tensor *t = tensor(c, "factors", IR_F32, 'r', 1, (int[]){cuda_case_operand(p, true) == IR_I8 ? CASE_M : CASE_N});
  t->rank = 2;
  t->dim[1] = ir_ceil_div(a, size(c, CASE_K), p->group);
  t->format = layout_format(c, 2, 'r');
  ir_expr *subs[] = {ir_index_ref(a, own), ir_apply(a, IR_OP_DIV, ir_index_ref(a, k), ir_int(a, p->group))};
  return ir_access(a, t, subs);
}

/* A mask is asked where the result is written, all else where it is computed. */
static void give_spread(cuda_cases *c, const product_case *p, ir_stage *s, ir_func *epilogue) {
  ir_func *kept = ir_func_new(c->kernel, "kept");
  kept->kind = IR_FUNC_FRAGMENT;
  if (p->epilogue == CASE_MASK) {
    for (int i = 0; i < 3; i++) IR_PUSH(c->arena, &kept->params, epilogue->params.at[i]); /* acc, m, n */
    for (int i = 0; i < epilogue->bufs.count; i++) ir_func_use(kept, epilogue->bufs.at[i]);
    kept->result = epilogue->result;
  } else {
    kept->result = ir_cast(c->arena, value_dtype(p), ir_var_ref(c->arena, param(c, kept, "acc", sum_dtype(p))));
    param(c, kept, "m", IR_I64), param(c, kept, "n", IR_I64);
  }
  IR_PUSH(c->arena, &s->funcs, kept);
  if (p->epilogue != CASE_MASK) IR_PUSH(c->arena, &s->funcs, epilogue);
  ir_buf *listed = workspace(c, "", p->out, ir_apply(c->arena, IR_OP_MUL, size(c, CASE_M), size(c, CASE_N)));
  listed->name = ir_format_text(c->arena, "%s.listed", s->stmts.at[0]->target->name);
}

ir_stage *cuda_case_product(cuda_cases *c, const product_case *p) {
  ir_arena *a = c->arena;
  bool grouped = cuda_case_groups(p);
  int rank = p->batched ? 3 : 2, skip = p->batched ? 0 : 1;
  ir_tensor *at =
      tensor(c, "A", cuda_case_operand(p, true), p->layout_a, rank, (int[]){CASE_BATCH, CASE_M, CASE_K} + skip);
  ir_tensor *bt =
      tensor(c, "B", cuda_case_operand(p, false), p->layout_b, grouped ? 3 : rank,
             (int[]){CASE_BATCH, CASE_K, CASE_N} + (grouped ? 0 : skip));
  ir_tensor *tt =
      tensor(c, "T", p->out, p->layout_t, rank, (int[]){CASE_BATCH, CASE_M, CASE_N} + skip);
  ir_tensor *stored = NULL;
  if (cuda_case_bsr(p)) at->format = blocks_format(c, p, p->layout_a);
  if (cuda_case_sdd(p)) {
    stored = tensor(c, "S", p->epilogue == CASE_PLACE_FLOATS ? IR_F32 : p->out, 'r', 2, (int[]){CASE_M, CASE_N});
    tt->like = stored;
    tt->format = stored->format = blocks_format(c, p, p->layout_t);
  }
  ir_index *g = p->batched || grouped ? ir_index_new(c->kernel, "g", size(c, CASE_BATCH)) : NULL;
  ir_index *m = ir_index_new(c->kernel, "i", size(c, CASE_M)),
           *n = ir_index_new(c->kernel, "j", size(c, CASE_N));
  ir_index *k = ir_index_new(c->kernel, "k", size(c, CASE_K));
  ir_stmt *stmt = ir_stmt_new(c->kernel, tt);
  if (grouped) group_rows(c, m, g);
  ir_expr *target = access2(c, tt, grouped ? NULL : g, m, n);
  for (int d = 0; d < rank; d++) stmt->subs[d] = target->args[d];
  stmt->combine = IR_RED_COUNT;
  stmt->acc = sum_dtype(p);
  if (p->batched) IR_PUSH(a, &stmt->free, g);
  IR_PUSH(a, &stmt->free, m);
  IR_PUSH(a, &stmt->free, n);
  ir_expr *product = ir_apply(a, IR_OP_MUL, ir_cast(a, stmt->acc, rows_of_a(c, p, at, g, m, k)),
                              ir_cast(a, stmt->acc, access2(c, bt, g, k, n)));
  if (p->group > 0) product = ir_apply(a, IR_OP_MUL, product, factor_of_group(c, p, cuda_case_operand(p, true) == IR_I8 ? m : n, k));
  stmt->value = ir_reduce(a, IR_RED_SUM, &k, 1, product);
  ir_tensor *gate = p->epilogue == CASE_GATE
                        ? tensor(c, "gate", IR_BF16, 'c', 2, (int[]){CASE_M, CASE_N})
                        : NULL;
  ir_func *epilogue = p->epilogue == CASE_PLAIN ? NULL : fragment(c, p, gate, stored);
  if (gate)
    stmt->support = ir_apply(a, IR_OP_NE, ir_cast(a, IR_F32, access2(c, gate, NULL, m, n)),
                             ir_const_f(a, IR_F32, 0));
  ir_list *read = NULL;
  if (cuda_case_picks(p)) stmt->fill = CASE_FILL;
  if (p->strip && (cuda_case_samples(p) || cuda_case_picks(p)))
    read = list(c, "L", tt, p->strip, p->gran, m, 0, n, 1, cuda_case_picks(p));
  else if (cuda_case_is_live(p))
    give_rows(c, read = list(c, "L", at, 1, 1, NULL, -1, m, 0, true));
  else if (cuda_case_is_krows(p))
    give_sections(c, read = list(c, "L", at, p->strip, 1, k, 1, m, 0, false), cuda_case_row(p)->m);
  else if (p->strip && !cuda_case_bsr(p) && !cuda_case_sdd(p))
    read = list(c, "L", at, p->strip, p->gran, m, 0, k, 1, p->way == CASE_ALONE);
  if (read && cuda_case_brings(p)) give_side_by_side(c, read);
  if (cuda_case_regroups(p)) give_order(c, read);
  if (read && (p->way == CASE_PAIRS || p->way == CASE_PACKED_PAIRS || ir_kernel_pairs(cuda_case_row(p)))) give_pairs(c, read);
  ir_list *made =
      p->detect_strip ? list(c, "D", tt, p->detect_strip, p->detect_gran, m, 0, n, 1, true) : NULL;
  bool both = p->way == CASE_BOTH || p->way == CASE_ALONE;
  ir_list *guarded = both                ? read
                     : p->guard          ? list(c, "W", at, 64, 1, m, 0, k, 1, false) : NULL;
  if (guarded) guarded->verdict = workspace(c, "W.verdict", IR_I32, ir_int(a, 1));
  if (p->way == CASE_ALONE) read->threshold = workspace(c, "W.threshold", IR_F64, ir_int(a, 1));
  if (p->way == CASE_ALONE) read->fused = false;
  if (cuda_case_is_packed(p)) writer(c, p, at, m, k, read);
  ir_stage *s = stage(c, IR_STAGE_COMPUTE, p->row);
  IR_PUSH(a, &s->stmts, stmt);
  if (epilogue) IR_PUSH(a, &s->funcs, epilogue);
  if (row_is(p, ir_kernel_spreads)) give_spread(c, p, s, epilogue);
  if (read) IR_PUSH(a, &s->reads, read);
  s->detects = made;
  if (guarded) s->when = (ir_guard){guarded, p->guard == 2, 0.5};
  const ir_kernel_row *row = cuda_case_row(p);
  if (p->way == CASE_TURNED) {
    IR_PUSH(a, &s->tiles, ((ir_tile_size){m, row->n}));
    IR_PUSH(a, &s->tiles, ((ir_tile_size){n, row->m}));
  }
  if (both) {
    ir_stage *twin = stage(c, IR_STAGE_COMPUTE, "gemm_tma_128x256x64"); /* the tile of all such rows */
    IR_PUSH(a, &twin->stmts, stmt);
    twin->when = (ir_guard){guarded, true, 0.5};
  }
  return s;
}

/* T = V * B, behind a guard with its dense branch: who alone reads a list along F. */
static void alone_reader(cuda_cases *c, ir_list *read, ir_index *r, ir_index *f, const char *row) {
  ir_arena *a = c->arena;
  ir_tensor *b = tensor(c, "B", read->tensor->dtype, 'r', 2, (int[]){CASE_N, CASE_K});
  ir_tensor *t = tensor(c, "T", read->tensor->dtype, 'r', 2, (int[]){CASE_M, CASE_K});
  ir_index *n = ir_index_new(c->kernel, "n", size(c, CASE_K));
  ir_stmt *stmt = ir_stmt_new(c->kernel, t);
  ir_expr *target = access2(c, t, NULL, r, n);
  for (int d = 0; d < 2; d++) stmt->subs[d] = target->args[d];
  stmt->combine = IR_RED_COUNT;
  stmt->acc = IR_F32;
  IR_PUSH(a, &stmt->free, r);
  IR_PUSH(a, &stmt->free, n);
  stmt->value = ir_reduce(a, IR_RED_SUM, &f, 1,
                          ir_apply(a, IR_OP_MUL, ir_cast(a, IR_F32, access2(c, read->tensor, NULL, r, f)),
                                   ir_cast(a, IR_F32, access2(c, b, NULL, f, n))));
  for (int dense = 0; dense < 2; dense++) {
    ir_stage *s = stage(c, IR_STAGE_COMPUTE, dense ? "gemm_tma_128x256x64" : row);
    IR_PUSH(a, &s->stmts, stmt);
    if (!dense) IR_PUSH(a, &s->reads, read);
    s->when = (ir_guard){read, dense, 0.5};
  }
}

ir_stage *cuda_case_list(cuda_cases *c, const list_case *l) {
  ir_tensor *v = tensor(c, "V", l->dtype, l->layout, l->strip ? 2 : 1,
                        (int[]){CASE_M, CASE_N} + (l->strip ? 0 : 1));
  ir_index *r = ir_index_new(c->kernel, "r", size(c, CASE_M)),
           *f = ir_index_new(c->kernel, "f", size(c, CASE_N));
  ir_list *made = l->way == LIST_ROWS  ? list(c, "V", v, 1, 1, NULL, -1, r, 0, true)
                  : l->way == LIST_KROWS ? list(c, "V", v, l->strip, 1, f, 1, r, 0, false)
                           : list(c, "V", v, l->strip, l->gran, l->strip ? r : NULL, l->strip ? 0 : -1, f,
                                  l->strip ? 1 : 0, l->bits);
  made->fused = false;
  if (l->way == LIST_ROWS) give_rows(c, made), give_words_to_tell(c, made), v->pattern.gran_rows = 1; /* told: else a sample does not trust rows that hold little */
  if (l->way == LIST_KROWS) give_sections(c, made, l->gran);
  if (l->way == LIST_REGROUPED) give_order(c, made);
  const bool pairs = l->way == LIST_BROUGHT_PAIRS || l->way == LIST_BROUGHT_PAIRS_ALONE;
  if (l->way == LIST_PAIRS || pairs) give_pairs(c, made);
  if (l->way == LIST_BROUGHT || l->way == LIST_BROUGHT_ALONE || pairs) give_side_by_side(c, made);
  if (l->guarded) {
    made->verdict = workspace(c, "V.verdict", IR_I32, ir_int(c->arena, 1));
    made->threshold = workspace(c, "V.threshold", IR_F64, ir_int(c->arena, 1));
  }
  ir_stage *s = stage(c, IR_STAGE_DETECT, "detect_values");
  s->detects = made;
  if (l->way == LIST_ALONE) alone_reader(c, made, r, f, "gemm_kgather_tma_128x256x64");
  if (l->way == LIST_BROUGHT_ALONE) alone_reader(c, made, r, f, "gemm_kpack_tma_128x256x64");
  if (l->way == LIST_BROUGHT_PAIRS_ALONE) alone_reader(c, made, r, f, "gemm_kpackpair_tma_128x256x64");
  return s;
}

/* ---- ops ------------------------------------------------------------------------------------- */
static bool op_takes(ir_op op, ir_dtype t) {
  unsigned traits = ir_op_rows[op].traits;
  if (traits & IR_BOOL_ONLY) return t == IR_B1;
  if (traits & IR_WORD_ONLY) return t == IR_I64;
  if (t == IR_B1) return op == IR_OP_WHERE || op == IR_OP_EQ || op == IR_OP_NE;
  return !(traits & IR_FLOAT_ONLY) || ir_dtype_is_float(t);
}

/* What an operand is computed in: narrow floats in f32. */
static ir_dtype arithmetic(ir_dtype t) { return ir_dtype_is_float(t) && t != IR_F64 ? IR_F32 : t; }

static ir_expr *operand(cuda_cases *c, ir_func *f, const char *name, ir_dtype t, ir_expr *at) {
  ir_buf *buf = ir_buf_new(c->arena, name, IR_BUF_VALS, t);
  buf->tensor = tensor(c, name, t, 'r', 1, (int[]){CASE_M});
  ir_func_use(f, buf);
  ir_expr *value = ir_load(c->arena, buf, at);
  return arithmetic(t) == t ? value : ir_cast(c->arena, arithmetic(t), value);
}

ir_stage *cuda_case_op(cuda_cases *c, ir_op op, ir_dtype t) {
  if (!op_takes(op, t)) return NULL;
  static const char *const names[] = {"x", "z", "w"};
  ir_func *f = ir_func_new(
      c->kernel, ir_format_text(c->arena, "%s.%s", ir_op_rows[op].mnemonic, ir_dtype_text(t)));
  ir_builder b = {c->arena, f, &f->body};
  ir_block *outer;
  ir_var *i = ir_open_for(&b, "i", ir_int(c->arena, 0), size(c, CASE_M), IR_RUN_THREAD, &outer);
  ir_expr *args[3], *at = ir_var_ref(c->arena, i);
  for (int n = 0; n < ir_op_rows[op].arity; n++)
    args[n] = operand(c, f, names[n], op == IR_OP_WHERE && n == 0 ? IR_B1 : t, at);
  ir_expr *value = ir_op_rows[op].arity == 3
                       ? ir_apply3(c->arena, op, args[0], args[1], args[2])
                       : ir_apply(c->arena, op, args[0], ir_op_rows[op].arity > 1 ? args[1] : NULL);
  ir_dtype result = ir_op_rows[op].result == IR_RESULT_BOOL ? IR_B1 : t;
  ir_buf *y = ir_buf_new(c->arena, "y", IR_BUF_VALS, result);
  y->tensor = tensor(c, "y", result, 'r', 1, (int[]){CASE_M});
  ir_func_use(f, y);
  ir_store(&b, y, at, value->dtype == result ? value : ir_cast(c->arena, result, value));
  ir_close(&b, outer);
  ir_stage *s = stage(c, IR_STAGE_COMPUTE, "loop");
  IR_PUSH(c->arena, &s->funcs, f);
  return s;
}
