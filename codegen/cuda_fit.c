/* cuda_fit.c - the list that a product reads, as its kernel row wants it: m and n change places where it strips B's index.
 *
 * Each kind of row has one function: the words that say why the stage's list is none of its own, or NULL and the launch's flags. */
#include "codegen/cuda.h"
#include "ir/beside.h"

typedef struct fitting {
  ir_arena *arena;
  const ir_kernel *kernel;
  const ir_stage *stage;
  const ir_list *list; /* that the stage reads, or NULL: of a row that walks one it is there */
} fitting;

const ir_kernel_row *cg_spreading_row(void) { return ir_kernel_row_named("spread"); }

bool cg_stage_is_listed(const ir_stage *stage) {
  const ir_kernel_row *row = stage->row ? ir_kernel_row_named(stage->row) : NULL;
  return row && ir_kernel_spreads(row);
}

/* It was written over the list, by a stage that computes its listed columns alone: the indices of the list as the access names them. */
static bool is_packed(const fitting *s, const ir_list *list, const ir_tensor *tensor, ir_expr *const *subs, ir_index **axis,
                      ir_index **strip) {
  for (int i = 0; i < s->kernel->stages.count; i++) {
    const ir_stage *other = s->kernel->stages.at[i];
    const ir_kernel_row *row = other->row ? ir_kernel_row_named(other->row) : NULL;
    if (!row || !ir_kernel_samples(row) || !other->stmts.count || !other->reads.count) continue;
    const ir_stmt *stmt = ir_stage_stmt(other);
    if (stmt->target != tensor || other->reads.at[0] != list) continue;
    for (int d = 0; d < tensor->rank; d++) {
      if (ir_is_bare(stmt->subs[d], list->axis)) *axis = subs[d]->index;
      if (ir_is_bare(stmt->subs[d], list->strip_index)) *strip = subs[d]->index;
    }
    return true;
  }
  return false;
}

/* The list as the product sees it: m and n change places when it strips B's index. */
static const char *fit_strips(cg_launch *l, const ir_list *list, const ir_index *strip) {
  cg_product *p = &l->product;
  if (p->batch_count) return "a list has no batch index";
  if (strip == p->n) cg_product_swap(p);
  if (!strip || strip != p->m) return "its list has no strips along an index of the result";
  if (ir_list_rows(list) % l->row->m) return "a tile of the result does not lie in one strip of the list";
  if (list->pairs && !ir_kernel_pairs(l->row) && l->packed && (l->row->m > list->strip || ir_kernel_moves_boxes(l->row)))
    return "what one of two strips has no entry for was not written: it must tell them apart";
  if (ir_kernel_pairs(l->row) && (!list->pairs || 2 * list->strip != l->row->m))
    return "its list is not of two strips that are the halves of a tile";
  if (list->gran & (list->gran - 1)) return "the micro-tile's length is not a power of two";
  l->list = list;
  return NULL;
}

/* The list of a k gather: along k. */
static const char *fit_list(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  ir_index *axis = list->axis, *strip = list->strip_index;
  cg_product *p = &l->product;
  l->packed = is_packed(s, list, p->a.tensor, p->a.subs, &axis, &strip) ||
              is_packed(s, list, p->b.tensor, p->b.subs, &axis, &strip) || cg_reads_beside(s->arena, s->kernel, l, &axis, &strip);
  if (axis != p->k) return "its list is not along the reduced index";
  l->gathers = true;
  const char *why = fit_strips(l, list, strip);
  l->compacted = ir_kernel_packs(l->row);
  if (why || !l->compacted) return why;
  l->packed = true;
  return list->packed && list->tensor == p->a.tensor ? NULL : "its list does not bring what it names side by side";
}

/* T is then what lies side by side, of the product's m and n; its rows are where that goes. */
static void lie_beside(const fitting *s, cg_launch *l) {
  cg_operand *t = &l->product.t;
  l->pitch_whole = t->pitch;
  t->layout = 'c';
  t->stride_m = ir_int(s->arena, 1);
  t->stride_n = t->pitch = l->product.size_m;
}

/* The list of a sampled product: along an index of the result, which becomes n. */
static const char *fit_columns(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  const char *why = fit_strips(l, list, list->strip_index);
  if (why) return why;
  if (list->axis != l->product.n) return "its list is not along an index of the result";
  if (list->pairs && list->gran > 1) return "columns of two strips that are told apart are listed one by one";
  if (cg_stage_is_listed(s->stage)) lie_beside(s, l);
  if (l->product.t.layout != 'c') return "listed columns are stored one after the other, each contiguous";
  if (ir_dtype_bytes(l->product.t.tensor->dtype) != 2) return "listed columns are stored in 16 bits";
  l->samples = true;
  return NULL;
}

/* The same of a whole result, which lies row by row. */
static const char *fit_spread(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  const char *why = fit_strips(l, list, list->strip_index);
  const cg_operand *t = &l->product.t;
  if (why) return why;
  if (list->axis != l->product.n || !list->bits || list->pairs || list->gran != 1 || list->strip > cg_spreading_row()->m) return "its list, of bits, is not of single columns of the result";
  if (t->layout != 'r') return "the listed index is not the contiguous one of the result";
  if (ir_dtype_bytes(t->tensor->dtype) != 2) return "its result has 16 bits";
  if (s->stage->funcs.count < 2) return "its statement has no condition";
  if (!cg_spread_takes(s->stage, s->stage->funcs.at[1], 1)) return "its condition is no function of what lies side by side, what lies at the place, m and n";
  l->samples = true;
  l->in_place = ir_stage_stores_in_place(s->kernel, s->stage);
  if (l->in_place && !ir_kernel_moves_boxes(l->row)) return "its columns have no workspace";
  if (l->in_place) l->pitch_whole = t->pitch;
  else lie_beside(s, l);
  return NULL;
}

/* The list of blocks along k: whole k tiles of it. */
static const char *fit_k_blocks(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  if (list->axis != l->product.k) return "its list is not along the reduced index";
  if (list->gran % l->row->k) return "a micro-tile of the list is not whole k tiles";
  l->k_blocks = true;
  return fit_strips(l, list, list->strip_index);
}

/* The same over rows in the list's order: they are stored row by row. */
static const char *fit_regrouped(const fitting *s, cg_launch *l) {
  const char *why = fit_k_blocks(s, l);
  if (why) return why;
  if (!s->list->order) return "its list has no order of rows";
  if (l->product.t.layout != 'r') return "the rows of the result are not contiguous";
  l->regroups = true;
  return NULL;
}

/* The list of rows that hold anything, and these rows. */
static const char *fit_live(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  cg_product *p = &l->product;
  if (p->batch_count) return "a list has no batch index";
  if (list->axis == p->n) cg_product_swap(p);
  if (list->axis != p->m || list->tensor != p->a.tensor || !list->packed)
    return "its list does not pack the rows of a factor";
  if (p->t.layout != 'r') return "the rows of the result are not contiguous";
  l->list = list;
  l->live = true;
  return NULL;
}

/* The list of the rows that hold anything in a block of k, and what they hold there. */
static const char *fit_krows(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  cg_product *p = &l->product;
  if (p->batch_count) return "a list has no batch index";
  if (list->axis == p->n) cg_product_swap(p);
  if (list->axis != p->m || list->strip_index != p->k || list->tensor != p->a.tensor || list->section != l->row->m || list->strip != l->row->k)
    return "its list does not pack the rows that a factor has in its blocks of k";
  if (p->t.layout != 'r') return "the rows of the result are not contiguous";
  l->list = list;
  l->krows = true;
  return NULL;
}

/* The list of blocks of the result: runs of its contiguous index, whole boxes. */
static const char *fit_n_blocks(const fitting *s, cg_launch *l) {
  const ir_list *list = s->list;
  const char *why = fit_strips(l, list, list->strip_index);
  if (why) return why;
  if (list->axis != l->product.n || !list->bits) return "its list, of bits, is not along an index of the result";
  if (list->gran % 64) return "a micro-tile of the list is not whole boxes";
  if (l->product.t.layout != 'r') return "the listed index is not the contiguous one of the result";
  if (ir_dtype_bytes(l->product.t.tensor->dtype) != 2) return "its result has 16 bits";
  l->n_blocks = true;
  return NULL;
}

/* A row that skips k's looks at A, whose k's lie side by side then, or at bits that its stage reads. */
static const char *fit_bits(const fitting *s, cg_launch *l) {
  const cg_product *p = &l->product;
  const ir_list *list = s->list;
  if (!list) return p->a.layout == 'r' ? NULL : "where it looks at values, k is contiguous in A";
  if (!list->bits || list->tensor != p->a.tensor || list->axis != p->k || list->strip_index != p->m ||
      list->gran != 1 || list->strip % l->row->m)
    return "its list has no bits of its tiles' rows and single k's";
  l->noted = list;
  return NULL;
}

/* A row that looks at zeros itself: what it asks, and where. */
static const char *fit_skipping(const fitting *s, cg_launch *l) {
  if (l->product.batch_count) return "it takes no batch index";
  if (!ir_kernel_skips_columns(l->row)) return fit_bits(s, l);
  if (s->stage->stmts.at[0]->fill != 0) return "what it does not compute is zero";
  return cg_product_asked(s->arena, &l->product, &l->asked)
             ? NULL
             : "no matrix of the result's indices says where it is asked for";
}

/* Of a row that walks a list; NULL: it walks none. */
typedef const char *(*fit_of)(const fitting *s, cg_launch *l);
static fit_of fit_for(const ir_kernel_row *row) {
  if (ir_kernel_gathers(row)) return fit_list;
  if (ir_kernel_samples(row)) return fit_columns;
  if (ir_kernel_spreads(row)) return fit_spread;
  if (ir_kernel_regroups(row)) return fit_regrouped;
  if (ir_kernel_is_live(row)) return fit_live;
  if (ir_kernel_is_krows(row)) return fit_krows;
  if (ir_kernel_k_blocks(row)) return fit_k_blocks;
  return ir_kernel_n_blocks(row) ? fit_n_blocks : NULL;
}

const char *cg_fit_lists(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage, cg_launch *l) {
  const fitting fit = {arena, kernel, stage, stage->reads.count ? stage->reads.at[0] : NULL};
  if (ir_kernel_skips(l->row)) return fit_skipping(&fit, l);
  fit_of walks = fit_for(l->row);
  if (!walks) return NULL;
  return fit.list ? walks(&fit, l) : "it reads no list";
}
