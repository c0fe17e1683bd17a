/* cuda_spread.c - columns that lie side by side, spread over whole results: what a launch of spread.cuh reads and writes.
 *
 *     columns  T.listed, one array or several over the same list
 *     results  T = kept(T.listed) behind the product that has computed it; or of a stage of its own several, elementwise of them all */
#include "codegen/cuda.h"

/* ---- what there is to spread ----------------------------------------------------------------- */
static void add_result(ir_arena *arena, cg_launch *l, ir_stmt *stmt, const ir_func *func, ir_expr *pitch, ir_buf *columns) {
  cg_spread *s = &l->spread;
  s->func[s->results] = func;
  s->pitch[s->results] = pitch;
  s->fill[s->results] = (float)stmt->fill;
  s->buf_columns[s->results] = columns ? cg_buffer_use(arena, l, columns) : -1;
  s->columns += columns != NULL;
  s->buf[s->results++] = cg_buffer_use(arena, l, cg_values_buffer(arena, stmt->target));
  for (int i = 0; i < func->bufs.count; i++) cg_buffer_use(arena, l, func->bufs.at[i]);
}

static ir_expr *row_pitch(ir_arena *arena, const ir_tensor *tensor) {
  ir_expr *strides[IR_MAX_RANK];
  return cg_dense_strides(arena, tensor, strides) ? strides[1 - ir_last_dim(tensor)] : NULL;
}

/* What lies at the results' place. */
static void add_places(ir_arena *arena, cg_launch *l) {
  const ir_tensor *place[IR_MOST_BESIDE];
  cg_spread *s = &l->spread;
  s->places = ir_stage_places(l->stage, place);
  for (int i = 0; i < s->places; i++) {
    s->buf_place[i] = cg_buffer_use(arena, l, cg_values_buffer(arena, place[i]));
    s->pitch_place[i] = row_pitch(arena, place[i]);
    s->place_bytes[i] = (int)ir_dtype_bytes(place[i]->dtype);
  }
}

bool cg_spread_takes(const ir_stage *stage, const ir_func *func, int beside) {
  const ir_tensor *place[IR_MOST_BESIDE];
  return func->params.count == beside + ir_stage_places(stage, place) + 2;
}

void cg_spread_in_place(ir_arena *arena, cg_launch *l) {
  const ir_func *kept = l->stage->funcs.at[1];
  l->spread = (cg_spread){.arrays = 1, .results = 1, .func = {kept}};
  add_places(arena, l);
  for (int i = 0; i < kept->bufs.count; i++) cg_buffer_use(arena, l, kept->bufs.at[i]);
}

void cg_spread_behind(ir_arena *arena, const ir_kernel *kernel, const cg_launch *computes, cg_launch *l) {
  const cg_product *p = &computes->product;
  ir_buf *listed = ir_workspace_of(kernel, p->t.tensor, "listed");
  l->spreads = true;
  l->product = *p;
  l->list = computes->list;
  l->spread = (cg_spread){.arrays = 1, .filled = computes->buf_whole >= 0, .label = computes->row->name};
  l->spread.buf_listed[0] = cg_buffer_use(arena, l, listed);
  l->buf_bits = cg_buffer_use(arena, l, l->list->bits);
  add_places(arena, l);
  add_result(arena, l, l->stage->stmts.at[0], l->stage->funcs.at[1], computes->pitch_whole,
             ir_columns_are_read(kernel, p->t.tensor, l->list) ? listed : NULL);
}

/* Where the columns lie whole. */
static void add_whole(ir_arena *arena, const ir_kernel *kernel, cg_launch *l) {
  const ir_stage *stage = l->stage;
  cg_spread *s = &l->spread;
  s->whole = l->list->verdict && ir_beside_may_be_whole(kernel, stage);
  for (int i = 0; i < stage->beside.count && s->whole; i++) {
    s->buf_whole[i] = cg_buffer_use(arena, l, cg_values_buffer(arena, stage->beside.at[i]));
    s->pitch_whole[i] = row_pitch(arena, stage->beside.at[i]);
  }
  if (s->whole) l->buf_verdict = cg_buffer_use(arena, l, l->list->verdict);
}

/* The result's contiguous index is n, the other one m. */
static const char *read_places(ir_arena *arena, ir_stmt *stmt, cg_product *p) {
  const char *why = "its result is no matrix that lies row by row";
  ir_expr *strides[IR_MAX_RANK];
  if (stmt->target->rank != 2 || !cg_dense_strides(arena, stmt->target, strides)) return why;
  int last = strides[1]->kind == IR_CONST && strides[1]->i == 1 ? 1 : 0;
  if (strides[last]->kind != IR_CONST || strides[last]->i != 1 || stmt->subs[0]->kind != IR_INDEX || stmt->subs[1]->kind != IR_INDEX) return why;
  *p = (cg_product){.stmt = stmt, .m = stmt->subs[1 - last]->index, .n = stmt->subs[last]->index};
  p->size_m = p->m->extent;
  p->size_n = p->n->extent;
  return cg_operand_read(arena, p, stmt->target, stmt->subs, &p->t, &why) ? NULL : why;
}

const char *cg_spread_beside(ir_arena *arena, const ir_kernel *kernel, cg_launch *l) {
  const ir_stage *stage = l->stage;
  const ir_list *list = stage->reads.count ? stage->reads.at[0] : NULL;
  if (!list || !list->bits || list->pairs || list->gran != 1 || list->strip % 8 || list->strip > l->row->m) return "its list, of bits, is not of single columns of strips";
  if (!stage->beside.count || stage->beside.count > IR_MOST_BESIDE || stage->stmts.count > IR_MOST_BESIDE) return "it reads no columns that lie side by side, or too many";
  if (stage->funcs.count != stage->stmts.count) return "its statements have no functions of an element";
  for (int i = 0; i < stage->funcs.count; i++)
    if (!cg_spread_takes(stage, stage->funcs.at[i], stage->beside.count)) return "a function is not of what it reads beside, what lies at the place, m and n";
  l->spreads = true;
  l->list = list;
  l->spread = (cg_spread){.label = l->row->name};
  for (int i = 0; i < stage->beside.count; i++) {
    ir_buf *listed = ir_workspace_of(kernel, stage->beside.at[i], "listed");
    if (!listed || stage->beside.at[i]->dtype != stage->stmts.at[0]->target->dtype) return "what it reads beside has no columns of its dtype";
    l->spread.buf_listed[l->spread.arrays++] = cg_buffer_use(arena, l, listed);
  }
  l->buf_bits = cg_buffer_use(arena, l, list->bits);
  add_places(arena, l);
  add_whole(arena, kernel, l);
  for (int i = 0; i < stage->stmts.count; i++) {
    cg_product p;
    const char *why = read_places(arena, stage->stmts.at[i], &p);
    if (why) return why;
    if (i == 0) l->product = p;
    if (stage->stmts.at[i]->target->dtype != stage->stmts.at[0]->target->dtype || ir_dtype_bytes(stage->stmts.at[i]->target->dtype) != 2) return "its results have 16 bits, all alike";
    add_result(arena, l, stage->stmts.at[i], stage->funcs.at[i], p.t.stride_m,
               ir_columns_are_read(kernel, stage->stmts.at[i]->target, list) ? ir_workspace_of(kernel, stage->stmts.at[i]->target, "listed") : NULL);
  }
  return NULL;
}

bool cg_reads_beside(ir_arena *arena, const ir_kernel *kernel, cg_launch *l, ir_index **axis, ir_index **strip) {
  cg_product *p = &l->product;
  cg_operand *const operands[] = {&p->a, &p->b};
  for (int i = 0; i < 2; i++) {
    cg_operand *o = operands[i];
    ir_buf *columns = ir_columns_beside(kernel, o->tensor, l->stage->reads.at[0]) ? ir_workspace_of(kernel, o->tensor, "listed") : NULL;
    if (!columns) continue;
    int last = ir_last_dim(o->tensor);
    *axis = o->subs[last]->index;
    *strip = o->subs[1 - last]->index;
    o->stride_k = o->tensor->dim[1 - last];
    *(i ? &o->stride_n : &o->stride_m) = ir_int(arena, 1);
    cg_take_layouts(p);
    l->columns = columns;
    return true;
  }
  return false;
}

/* ---- its text -------------------------------------------------------------------------------- */
int cg_spread_width(const cg_launch *l) {
  const int room = 40 << 10, bytes = 2, padding = 2;
  int columns = l->row->n, arrays = l->spread.arrays > l->spread.columns ? l->spread.arrays : l->spread.columns;
  while (columns > 32 && arrays * columns * ((int)l->list->strip + padding) * bytes > room) columns /= 2;
  return columns;
}

/* value number r, of an element: what lies side by side and at its place, its row and column. */
static void put_value(ir_arena *arena, const cg_launch *l, int r, ir_text *out) {
  const ir_func *f = l->spread.func[r];
  int values = l->spread.arrays + l->spread.places;
  ir_text_printf(out, "  SPC_DEVICE float value%d(const spc_args &args", r);
  for (int i = 0; i < values; i++) ir_text_printf(out, ", float %s", cg_cuda_name(arena, f->params.at[i]->name));
  ir_text_printf(out, ", long long %s, long long %s", cg_cuda_name(arena, f->params.at[values]->name), cg_cuda_name(arena, f->params.at[values + 1]->name));
  ir_text_put(out, ") {\n");
  cg_printer printer = {.out = out, .func = f, .launch = l, .depth = 2};
  cg_print_fragment(&printer);
  ir_text_put(out, "  }\n");
}

static void put_case(ir_text *out, int i, int count) {
  if (i + 1 < count) ir_text_printf(out, "i == %d ? ", i);
}

static void put_fill(float fill, const char *behind, ir_text *out) {
  uint32_t bits;
  memcpy(&bits, &fill, sizeof bits);
  ir_text_printf(out, "__uint_as_float(0x%08xu)%s", (unsigned)bits, behind);
}

static void put_kept(const cg_launch *l, ir_text *out) {
  const cg_spread *s = &l->spread;
  ir_text_put(out, "  SPC_DEVICE float kept(const spc_args &args, int i, const float *values, long long m, long long n) {\n    return ");
  for (int r = 0; r < s->results; r++) {
    put_case(out, r, s->results);
    ir_text_printf(out, "value%d(args", r);
    for (int i = 0; i < s->arrays + s->places; i++) ir_text_printf(out, ", values[%d]", i);
    ir_text_put(out, ", m, n)");
    ir_text_put(out, r + 1 < s->results ? "\n           : " : ";\n  }\n");
  }
}

/* One of several pointers, and how far its rows are apart. */
static void put_arrays(ir_arena *arena, const char *name, const char *type, const int *buf, ir_expr *const *pitch, int count, ir_text *out) {
  ir_text_printf(out, "  SPC_DEVICE %s *%s(const spc_args &args, int i) { return (%s *)args.buf[", type, name, type);
  for (int i = 0; i < count; i++) put_case(out, i, count), ir_text_printf(out, i + 1 < count ? "%d : " : "%d", buf[i]);
  ir_text_put(out, count ? "]; }\n" : "0]; }\n");
  if (!pitch) return;
  ir_text_printf(out, "  SPC_DEVICE long long pitch_%s(const spc_args &args, int i) { return ", name);
  for (int i = 0; i < count; i++) {
    put_case(out, i, count);
    cg_print_size(arena, pitch[i], out);
    if (i + 1 < count) ir_text_put(out, " : ");
  }
  ir_text_put(out, count ? "; }\n" : "0; }\n");
}

/* Results whose columns stay side by side, by number; -1: they do not. */
static void put_columns(const cg_spread *s, ir_text *out) {
  ir_text_put(out, "  SPC_DEVICE constexpr int column_of(int i) { return ");
  for (int i = 0, n = 0; i < s->results; i++) put_case(out, i, s->results), ir_text_printf(out, i + 1 < s->results ? "%d : " : "%d; }\n", s->buf_columns[i] < 0 ? -1 : n++);
  ir_text_put(out, "  SPC_DEVICE T *columns_t(const spc_args &args, int i) { return (T *)args.buf[");
  for (int i = 0, n = 0; i < s->results; i++)
    if (s->buf_columns[i] >= 0) put_case(out, n, s->columns), ir_text_printf(out, "%d%s", s->buf_columns[i], n + 1 < s->columns ? " : " : ""), n++;
  ir_text_put(out, s->columns ? "]; }\n" : "0]; }\n");
}

/* What lies at the results' place. */
static void put_places(ir_arena *arena, const cg_spread *s, ir_text *out) {
  put_arrays(arena, "place", "const void", s->buf_place, s->pitch_place, s->places, out);
  ir_text_put(out, "  SPC_DEVICE constexpr int place_bytes(int i) { return "); /* of an element */
  for (int i = 0; i < s->places; i++) put_case(out, i, s->places), ir_text_printf(out, i + 1 < s->places ? "%d : " : "%d", s->place_bytes[i]);
  ir_text_put(out, s->places ? "; }\n" : "0; }\n");
}

static void put_counts(const cg_spread *s, ir_text *out) {
  ir_text_printf(out, "  static constexpr int arrays = %d, places = %d, results = %d; // columns that lie side by side, what lies at the place, what is made of them\n", s->arrays, s->places, s->results);
}

void cg_spread_print_in_place(ir_arena *arena, const cg_launch *l, ir_text *out) {
  put_counts(&l->spread, out);
  put_places(arena, &l->spread, out);
  put_value(arena, l, 0, out);
  put_kept(l, out);
}

void cg_spread_print(ir_arena *arena, const cg_launch *l, ir_text *out) {
  const cg_spread *s = &l->spread;
  put_counts(s, out);
  ir_text_printf(out, "  static constexpr int kept_columns = %d; // of what is made so many stay side by side too\n", s->columns);
  ir_text_printf(out, "  static constexpr bool fills = %s; // the launch before has filled what no listed column touches\n", s->filled ? "true" : "false");
  ir_text_printf(out, "  static constexpr bool whole = %s; // the arrays lie whole where dense is meant\n", s->whole ? "true" : "false");
  if (s->whole) ir_text_printf(out, "  SPC_DEVICE const int *meant(const spc_args &args) { return (const int *)args.buf[%d]; }\n", l->buf_verdict);
  else ir_text_put(out, "  SPC_DEVICE const int *meant(const spc_args &) { return nullptr; }\n");
  put_columns(s, out);
  put_arrays(arena, "listed", "const T", s->buf_listed, NULL, s->arrays, out);
  put_places(arena, s, out);
  put_arrays(arena, "array", "const T", s->buf_whole, s->pitch_whole, s->whole ? s->arrays : 0, out);
  put_arrays(arena, "t", "T", s->buf, s->pitch, s->results, out);
  ir_text_put(out, "  SPC_DEVICE float fill(int i) { return ");
  for (int i = 0; i < s->results; i++) put_case(out, i, s->results), put_fill(s->fill[i], i + 1 < s->results ? " : " : "; }\n", out);
  for (int r = 0; r < s->results; r++) put_value(arena, l, r, out);
  put_kept(l, out);
}
