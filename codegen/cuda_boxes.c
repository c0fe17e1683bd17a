/* cuda_boxes.c - what a kernel that moves boxes by tensor map needs beside the others: the shape of
 * its boxes, how much shared memory they take, the maps, and which operands of the epilogue the
 * kernel brings along.
 *
 * The arithmetic of shared memory is that of kernels/boxes.cuh and store_tma.cuh, which assert it.
 */
#include "codegen/cuda.h"

enum { SHARED_LIMIT = 232448, LEAST_DEPTH = 3, GOOD_DEPTH = 4, WANTED_BOXES = 2, BOX_ROWS = 64 };

/* ---- panels of the operands ------------------------------------------------------------------ */
/* Elements along a box's contiguous side; rows are k where the layout says so. */
static int element_bytes(const cg_operand *o) { return (int)ir_dtype_bytes(o->tensor->dtype); }

static int panel_width(const cg_launch *l, const cg_operand *o, int free, bool rows_are_k) {
  return rows_are_k && l->narrow_slabs && free % 64 == 32 ? 32 : 128 / element_bytes(o);
}

/* 8-bit operands whose rows are k, and such a B of f32, are turned in shared memory, and a B of two
 * parts is split there (kernels/turned.cuh): a third barrier a slot. */
static int parts(const cg_launch *l) {
  return ir_kernel_precision(l->row) == IR_PRECISION_TF32X3 ? 2 : 1;
}

static int barrier_bytes(const cg_launch *l) {
  bool turns_a = element_bytes(&l->product.a) == 1 && l->product.a.layout == 'c';
  bool turns_b = element_bytes(&l->product.b) != 2 && l->product.b.layout == 'r';
  return turns_a || turns_b || parts(l) > 1 ? 24 : 16;
}

static int panel_bytes(const cg_launch *l, const cg_operand *o, int free, bool rows_are_k) {
  int width = panel_width(l, o, free, rows_are_k), k = l->row->k;
  return (rows_are_k ? (free + width - 1) / width * width : free) * k * element_bytes(o);
}

static int slot_bytes(const cg_launch *l) {
  const ir_kernel_row *row = l->row;
  return panel_bytes(l, &l->product.a, row->m, l->product.a.layout == 'c') +
         parts(l) * panel_bytes(l, &l->product.b, row->n, l->product.b.layout == 'r');
}

/* ---- boxes of the result --------------------------------------------------------------------- */
/* Columns that a warpgroup stores; where k is split a block stores a share of the tile. */
static int part_columns(const ir_kernel_row *row) {
  int m, n;
  ir_kernel_groups(row, &m, &n);
  return row->n / n / ir_kernel_keepers(row);
}

static int box_columns(const ir_kernel_row *row) {
  int columns = part_columns(row);
  return columns >= 64 ? 64 : columns >= 32 ? 32 : columns >= 16 ? 16 : 8;
}

static bool stores_boxes(const cg_launch *l) {
  bool rows = l->product.t.layout == 'r';
  return ir_dtype_bytes(l->product.t.tensor->dtype) == 2 && !l->krows &&
         (!rows || part_columns(l->row) % 16 == 0);
}

/* Boxes of one warpgroup's part of the tile. */
static int part_boxes(const ir_kernel_row *row) {
  int m, n, columns = part_columns(row), wide = box_columns(row);
  ir_kernel_groups(row, &m, &n);
  return row->m / m / BOX_ROWS * ((columns + wide - 1) / wide);
}

/* Vectors by column. */
static int vector_bytes(const cg_launch *l) {
  return ir_kernel_workers(l->row) / 128 * l->brought.columns * part_columns(l->row) * 4;
}

/* Where listed columns go to their places (kernels/inplace.cuh): which these are, of each warpgroup's part, and as many as may be of the same sixteen
 * on both sides; of each warp an image, and where its sixteens begin. */
static int in_place_bytes(const cg_launch *l) {
  const int beside = 32, sixteens = 8, image = 16 * sixteens * 32, workers = ir_kernel_workers(l->row);
  return l->in_place ? workers / 128 * (part_columns(l->row) + beside) * 4 + workers / 32 * (image + sixteens * 4) : 0;
}

/* Words of bits that detection leaves, for two tiles. */
static int word_bytes(const cg_launch *l) {
  if (!l->detects) return 0;
  int warps = ir_kernel_workers(l->row) / 32;
  return 2 * warps * (part_columns(l->row) / (32 * (int)l->stage->detects->gran)) * 4;
}

/* Where tiles of listed columns lie, a note a slot; what is reckoned from bits; where parts of tiles meet, which tiles there are. */
static int note_bytes(const cg_launch *l) {
  const int narrow_slots = l->row->depth / 2 * 16 + l->row->depth * 3 / 2 * 32; /* barriers of as many more, where all tiles are narrow; notes of all */
  const int more_slots = 128 + 16; /* of smaller tiles: their barriers; which rows a block is at */
  return (l->samples || l->bsr.tensor ? l->row->depth * 16 : 0) + (l->own_lists || l->own_verdict ? l->in_place ? 128 : 64 : 0) + (l->share_units ? 16 : 0) + (ir_kernel_narrow(l->row) ? 16 + narrow_slots : 0) + (l->live ? more_slots : 0);
}

/* What lies at the result's place is only asked whether it is zero. */
static bool place_is_flags(const cg_launch *l) { return l->brought.place >= 0 && l->bufs.at[l->brought.place]->dtype == IR_B1; }

/* Whether it may wait where the values are staged: boxes of as many bytes, or flags; and loads of k tiles by box. */
static bool can_stage_place(const cg_launch *l) {
  if (l->brought.place < 0 || element_bytes(&l->product.a) != 2 || l->detects) return false;
  bool flags = place_is_flags(l), runs = l->n_blocks && !(flags && ir_kernel_narrow(l->row)); /* of columns whose places no note tells */
  bool lists = l->gathers || l->samples || l->regroups || l->live || l->krows || l->k_blocks || runs || l->bsr.tensor || l->groups.segment;
  return !lists && (flags ? l->product.t.layout == 'r' : ir_dtype_bytes(l->bufs.at[l->brought.place]->dtype) == 2);
}

/* As many slots as the row wants, but fewer where the boxes wanted would not fit beside. */
static void share(cg_launch *l) {
  int groups = ir_kernel_workers(l->row) / 128, slot = slot_bytes(l);
  int slot_and_barriers = slot + barrier_bytes(l);
  int box = groups * BOX_ROWS * box_columns(l->row) * 2;
  int boxes = stores_boxes(l) && !l->in_place ? part_boxes(l->row) : 0;
  int wanted = boxes < WANTED_BOXES ? boxes : WANTED_BOXES;
  int fixed = word_bytes(l) + vector_bytes(l) + in_place_bytes(l) + note_bytes(l);
  if ((l->row->m > 64 * groups || l->samples) && wanted > 1) wanted = 1; /* the slots are large, or loads take long */
  const bool flags = place_is_flags(l);
  const int most = flags ? (boxes + 1) / 2 : boxes < WANTED_BOXES ? boxes : WANTED_BOXES; /* that it is worth it for */
  const int place_barriers = ir_kernel_takes_turns(l->row) ? groups * boxes * 8 : 16; /* at most */
  l->stages_place = can_stage_place(l) && l->row->depth >= GOOD_DEPTH &&
                    GOOD_DEPTH * slot_and_barriers + fixed + place_barriers + most * box <= SHARED_LIMIT;
  l->stages_flags = l->stages_place && flags;
  if (l->stages_place) {
    fixed += place_barriers;
    if (!flags && GOOD_DEPTH * slot_and_barriers + fixed + boxes * box <= SHARED_LIMIT) wanted = boxes;
    if (flags && wanted < most) wanted = most;
  }
  l->depth = l->row->depth;
  while (l->depth > LEAST_DEPTH && l->depth * slot_and_barriers + fixed + wanted * box > SHARED_LIMIT)
    l->depth--;
  int ring = l->depth * slot_and_barriers + fixed, fit = (SHARED_LIMIT - ring) / box;
  l->store_boxes = l->in_place ? 1 : boxes < fit ? boxes : fit;
  l->shared_bytes = ring + (l->in_place ? 0 : l->store_boxes * box);
}

/* A quarter or more of what slabs of 64 load is beside the operand's tile. */
static bool loads_in_vain(const cg_operand *o, int free, bool rows_are_k) {
  const int wide = 64, rest = free % wide;
  return rows_are_k && element_bytes(o) == 2 && rest == wide / 2 && 4 * (wide - rest) >= free + wide - rest;
}

/* Sums of all of a tile, and a ring of steps: rows of A and their numbers, a block of B, a note and two barriers (kernels/gemm_krows.cuh). */
static void share_krows(cg_launch *l) {
  const int rows = 64, note_and_barriers = 32;
  l->narrow_slabs = l->row->n < rows;
  l->depth = l->row->depth;
  l->store_boxes = 0;
  int slot = rows * l->row->k * element_bytes(&l->product.a) + panel_bytes(l, &l->product.b, l->row->n, l->product.b.layout == 'r') + rows * 4 + note_and_barriers;
  l->shared_bytes = l->row->m * l->row->n * 4 + l->depth * slot;
}

/* Narrow slabs load nothing in vain but are slower: where the ring would be shallow without, or wide ones load much in vain. */
void cg_boxes_share(cg_launch *l) {
  if (l->krows) {
    share_krows(l);
    return;
  }
  share(l);
  int wide = l->depth;
  bool vain = loads_in_vain(&l->product.a, l->row->m, l->product.a.layout == 'c') || loads_in_vain(&l->product.b, l->row->n, l->product.b.layout == 'r');
  if (wide >= GOOD_DEPTH && !vain) return;
  l->narrow_slabs = true;
  share(l);
  if (l->depth > wide || vain) return;
  l->narrow_slabs = false;
  share(l);
}

/* ---- what is brought to the fragment --------------------------------------------------------- */
/* Offsets agree when they do for a few sizes and places that have nothing in common. */
typedef struct trial {
  const cg_launch *l;
  const int64_t *sizes;
  int64_t value[5]; /* of the fragment's parameters: acc (unused), m, n, batch, and of some the place */
} trial;

static bool value_of(const trial *t, const ir_expr *e, int64_t *out) {
  int64_t args[3];
  if (e->kind == IR_CONST || e->kind == IR_DIM) return ir_size_value(e, t->sizes, out);
  if (e->kind == IR_CAST && e->dtype == IR_I64) return value_of(t, e->args[0], out);
  if (e->kind == IR_VAR)
    for (int i = 1; i < t->l->func->params.count; i++)
      if (e->var == t->l->func->params.at[i]) return *out = t->value[i], true;
  if (e->kind != IR_OP || e->arg_count > 2 || !ir_op_rows[e->op].eval_int) return false;
  for (int i = 0; i < e->arg_count; i++)
    if (!value_of(t, e->args[i], &args[i])) return false;
  *out = ir_op_rows[e->op].eval_int(args);
  return true;
}

/* The fragment's parameter that is the kernel's m; its n is the other one. */
static int parameter_m(const cg_launch *l) { return l->product.swapped ? 2 : 1; }

/* Where the result's element lies. */
static bool place_value(const trial *t, int64_t *out) {
  const cg_product *p = &t->l->product;
  int64_t stride, extent, rest = t->value[3], at = 0;
  int m = parameter_m(t->l);
  if (t->l->sdd.tensor) return *out = t->value[4], true;
  if (!ir_size_value(p->t.stride_m, t->sizes, &stride)) return false;
  at += t->value[m] * stride;
  if (!ir_size_value(p->t.stride_n, t->sizes, &stride)) return false;
  at += t->value[3 - m] * stride;
  for (int i = p->batch_count - 1; i >= 0; i--) {
    if (!ir_size_value(p->t.stride_batch[i], t->sizes, &stride) ||
        !ir_size_value(p->batch[i]->extent, t->sizes, &extent) || extent <= 0)
      return false;
    at += rest % extent * stride;
    rest /= extent;
  }
  *out = at;
  return true;
}

enum way { AT_PLACE = 1, BY_COLUMN = 2, BY_ROW = 4, ANY_WAY = 7 };

static int ways_of(const trial *t, const ir_expr *offset) {
  int64_t at, place;
  int m = parameter_m(t->l), ways = 0;
  if (!value_of(t, offset, &at)) return 0;
  if (place_value(t, &place) && at == place) ways |= AT_PLACE;
  if (at == t->value[3 - m]) ways |= BY_COLUMN;
  if (at == t->value[m]) ways |= BY_ROW;
  return ways;
}

typedef struct finding {
  const cg_launch *l;
  const ir_buf *buf; /* asked about */
  int loads, ways;   /* ways that hold for all of them */
} finding;

static bool note_load(void *user, ir_expr *e) {
  enum { TRIALS = 3 };
  finding *f = user;
  if (e->kind != IR_LOAD || e->buf != f->buf) return true;
  const ir_program *program = f->l->program;
  int64_t *sizes = IR_NEW_ARRAY(program->arena, int64_t, program->dims.count + 1);
  for (int n = 0; n < TRIALS; n++) {
    trial t = {f->l, sizes, {0, 3 + 100019 * n, 11 + 70001 * n, n, 1000003 + 7 * n}}; /* far ones tell a flattened number from its last index */
    for (int d = 0; d < program->dims.count; d++) {
      int64_t fixed = program->dims.at[d]->value;
      sizes[d] = fixed >= 0 ? fixed : ir_size_sample(d, n);
    }
    f->ways &= e->arg_count == 1 ? ways_of(&t, e->args[0]) : 0; /* a masked load may lie outside */
  }
  f->loads++;
  return true;
}

/* A thread has registers for a box's share of it beside its sums (operands of 16 bits take none), and boxes are rows of 64
 * columns. */
static bool can_fetch(const cg_launch *l) {
  const ir_kernel_row *row = l->row;
  return element_bytes(&l->product.a) == 2 && stores_boxes(l) && l->product.t.layout == 'r' && box_columns(row) == BOX_ROWS &&
         part_columns(row) % BOX_ROWS == 0 && row->m * row->n <= 128 * ir_kernel_workers(row) &&
         ir_kernel_split(row) == 1 && !l->gathers && !l->samples && !l->regroups && !l->live && !l->krows && !l->n_blocks;
}

static bool bring(cg_launch *l, const ir_buf *buf, int ways) {
  cg_brought *b = &l->brought;
  bool halves = buf->dtype == IR_BF16 || buf->dtype == IR_F16;
  bool bytes = (buf->dtype == IR_B1 || buf->dtype == IR_U8) && !l->samples &&
               !ir_kernel_takes_turns(l->row) && box_columns(l->row) == BOX_ROWS;
  bool floats = ir_dtype_is_float(buf->dtype) && buf->dtype != IR_F64;
  int number = cg_buffer_number(l, buf);
  if ((ways & AT_PLACE) && (halves || bytes) && b->place < 0 && stores_boxes(l) && !l->gathers && !l->regroups && !l->live && !l->krows &&
      !l->groups.segment && barrier_bytes(l) == 16 && ir_kernel_split(l->row) == 1 && !l->in_place)
    return b->place = number, true;
  if ((ways & AT_PLACE) && floats && b->fetched < 0 && can_fetch(l)) return b->fetched = number, true;
  if ((ways & BY_COLUMN) && floats && b->columns < CG_VECTORS)
    return b->column[b->columns++] = number, true;
  if ((ways & BY_ROW) && floats && b->rows < CG_VECTORS) return b->row[b->rows++] = number, true;
  return false;
}

/* A fragment of lets and a result, whose loads can all be seen. */
static bool is_simple(const ir_func *f) {
  for (int i = 0; i < f->body.codes.count; i++)
    if (f->body.codes.at[i]->kind != IR_COMMENT && f->body.codes.at[i]->kind != IR_LET)
      return false;
  return f->params.count >= 4;
}

void cg_boxes_bring(cg_launch *l) {
  const ir_func *f = l->func;
  bool simple = f && is_simple(f);
  for (int i = 0; f && i < f->bufs.count; i++) {
    finding found = {.l = l, .buf = f->bufs.at[i], .ways = simple ? ANY_WAY : 0};
    for (int c = 0; simple && c < f->body.codes.count; c++)
      if (f->body.codes.at[c]->kind == IR_LET)
        ir_expr_walk(f->body.codes.at[c]->value, note_load, &found);
    if (simple) ir_expr_walk(f->result, note_load, &found);
    if ((!simple || found.loads) && !bring(l, found.buf, found.ways)) l->brought.reads_more = true;
  }
}

/* ---- maps ------------------------------------------------------------------------------------ */
static void add_map(ir_arena *arena, const cg_launch *l, const cg_operand *o, int buf,
                    ir_dtype dtype, ir_expr *fast, ir_expr *slow, int wide, int tall,
                    ir_code_image *out) {
  const cg_product *p = &l->product;
  ir_box_map map = {.buf = buf, .dtype = dtype, .rank = 2, .box = {wide, tall}};
  int bytes = wide * (int)ir_dtype_bytes(dtype);
  map.swizzle = bytes >= 128 ? 128 : bytes >= 32 ? bytes : 0;
  map.rounds = l->row && dtype == IR_F32 && ir_kernel_precision(l->row) == IR_PRECISION_TF32 &&
               (buf == l->buf_a || buf == l->buf_b);
  map.extent[0] = fast;
  map.extent[1] = slow;
  map.stride[1] = o->pitch;
  for (int i = 0; i < o->batches; i++, map.rank++) {
    map.extent[map.rank] = p->batch[i]->extent;
    map.stride[map.rank] = o->stride_batch[i];
    map.box[map.rank] = 1;
  }
  IR_PUSH(arena, &out->maps, map);
}

static void add_operand(ir_arena *arena, const cg_launch *l, const cg_operand *o, int buf, int free,
                        ir_expr *extent, bool rows_are_k, ir_code_image *out) {
  ir_expr *k = l->product.size_k;
  add_map(arena, l, o, buf, o->tensor->dtype, rows_are_k ? extent : k, rows_are_k ? k : extent,
          panel_width(l, o, free, rows_are_k), rows_are_k ? l->row->k : free, out);
}

/* Blocks of tall x wide elements follow one another: a matrix as wide as a block's contiguous side, with room for as many as there may be.  How many
 * there are nobody asks: what is not stored is not asked for. */
static void add_blocks(ir_arena *arena, const cg_launch *l, const cg_operand *o, int buf, ir_dtype dtype, ir_expr *most, int64_t tall, int64_t wide,
                       ir_code_image *out) {
  add_map(arena, l, o, buf, dtype, ir_int(arena, wide), ir_apply(arena, IR_OP_MUL, most, ir_int(arena, tall)), BOX_ROWS, BOX_ROWS, out);
}

static ir_expr *most_blocks(ir_arena *arena, ir_expr *rows, int64_t tall, ir_expr *columns, int64_t wide) {
  return ir_apply(arena, IR_OP_MUL, ir_ceil_div(arena, rows, tall), ir_ceil_div(arena, columns, wide));
}

static void add_a(ir_arena *arena, const cg_launch *l, ir_code_image *out) {
  const cg_product *p = &l->product;
  const cg_bsr *b = &l->bsr;
  bool k_last = p->a.layout == 'r';
  /* A row that gathers does not use the maps of what it gathers; that they fit says that rows are
   * aligned. */
  if (!b->tensor)
    add_operand(arena, l, &p->a, l->buf_a, l->live || l->krows || (ir_kernel_pairs(l->row) && !l->compacted) ? BOX_ROWS : l->row->m, p->size_m, p->a.layout == 'c', out);
  else
    add_blocks(arena, l, &p->a, l->buf_a, b->tensor->dtype, most_blocks(arena, p->size_m, b->block_m, p->size_k, b->block_k), k_last ? b->block_m : b->block_k,
               k_last ? b->block_k : b->block_m, out);
}

/* The result's, or of what lies at its place. */
static void add_result(ir_arena *arena, const cg_launch *l, int buf, ir_code_image *out) {
  const cg_product *p = &l->product;
  const cg_sdd *b = &l->sdd;
  bool rows = p->t.layout == 'r';
  int share = box_columns(l->row);
  ir_dtype dtype = buf < 0 ? p->t.tensor->dtype : l->bufs.at[buf]->dtype;
  if (b->tensor)
    add_blocks(arena, l, &p->t, buf, dtype, most_blocks(arena, p->size_m, b->block_m, p->size_n, b->block_n), b->block_m, b->block_n, out);
  else
    add_map(arena, l, &p->t, buf, dtype, rows ? p->size_n : p->size_m, rows ? p->size_m : p->size_n, rows ? share : BOX_ROWS, rows ? BOX_ROWS : share, out);
}

void cg_boxes_maps(ir_arena *arena, const cg_launch *l, ir_code_image *out) {
  const cg_product *p = &l->product;
  add_a(arena, l, out);
  add_operand(arena, l, &p->b, l->buf_b, l->n_blocks || l->live ? BOX_ROWS : l->row->n, p->size_n,
              p->b.layout == 'r', out);
  add_result(arena, l, stores_boxes(l) && !l->in_place ? l->buf_t : -1, out);
  add_result(arena, l, l->brought.place, out);
  if (l->n_blocks && l->own_dense) add_operand(arena, l, &p->b, l->buf_b, l->row->n, p->size_n, p->b.layout == 'r', out); /* as it lies */
  if (!l->live && !l->compacted) return;
  out->maps.count--; /* nothing is read at T's place */
  add_operand(arena, l, &p->a, l->buf_packed, l->live || ir_kernel_pairs(l->row) ? BOX_ROWS : l->row->m, p->size_m, false, out); /* of halves: each for itself */
  if (l->compacted) out->maps.at[out->maps.count - 1].stride[1] = p->size_k;
}
