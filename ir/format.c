/* format.c - formats as data: the level rows, what makes a list of levels legal, how a format is
 * compared, measured and printed.
 *
 * Invariant of a legal format: every dimension is covered exactly once, whole or as i/b outside
 * i%b with one factor, so that level coordinates and tensor coordinates determine each other. */
#include "ir/format.h"

const ir_level_row ir_level_rows[IR_LEVEL_COUNT] = {
#define SPC_LEVEL(NAME, TEXT, FULL, ORDERED, UNIQUE, COMPACT, POS, CRD, MEANING)                   \
  [IR_LEVEL_##                                                                                     \
      NAME] = {TEXT, FULL, ORDERED, UNIQUE, COMPACT, IR_ARRAY_##POS, IR_ARRAY_##CRD, MEANING},
#include "ir/level.def"
#undef SPC_LEVEL
};

/* ---- legality -------------------------------------------------------------------------- */
static const char *level_fault(const ir_format *f, int k) {
  const ir_level *level = &f->level[k];
  if ((unsigned)level->kind >= IR_LEVEL_COUNT) return "a level has an unknown kind";
  if (level->dim < 0 || level->dim >= f->rank)
    return "a level names a dimension that the format does not have";
  if (level->map == IR_MAP_WHOLE && level->factor != 0)
    return "a whole dimension takes no block size";
  if (level->map != IR_MAP_WHOLE && level->factor < 1) return "a block size must be at least 1";
  if (level->kind == IR_LEVEL_SINGLETON) {
    if (k == 0) return "a singleton level needs a compressed or singleton level before it";
    ir_level_kind before = f->level[k - 1].kind;
    if (before != IR_LEVEL_COMPRESSED && before != IR_LEVEL_SINGLETON)
      return "a singleton level stands directly after a compressed or another singleton level";
  }
  if (level->kind == IR_LEVEL_NM) {
    if (level->map != IR_MAP_MOD)
      return "an nm level stores the place in a block of m: write `j%m: nm(n)`";
    if (level->parameter < 1 || level->parameter > level->factor)
      return "nm(n) over blocks of m needs 1 <= n <= m";
    if (level->factor > 256) return "nm positions take one byte: m is at most 256";
  } else if (level->kind == IR_LEVEL_PACKED) {
    if (level->parameter < 1)
      return "a packed level needs a capacity of at least 1: packed(capacity)";
  } else if (level->parameter != 0) {
    return "only nm and packed levels take a number";
  }
  if (level->has_pos && level->kind != IR_LEVEL_PACKED)
    return "only packed levels may choose to store counts";
  return NULL;
}

static const char *cover_fault(const ir_format *f, int dim) {
  int whole = 0, div = -1, mod = -1;
  for (int k = 0; k < f->level_count; k++) {
    if (f->level[k].dim != dim) continue;
    if (f->level[k].map == IR_MAP_WHOLE)
      whole++;
    else if (f->level[k].map == IR_MAP_DIV && div < 0)
      div = k;
    else if (f->level[k].map == IR_MAP_MOD && mod < 0)
      mod = k;
    else
      return "a dimension is split twice";
  }
  if (whole > 1 || (whole && (div >= 0 || mod >= 0))) return "a dimension is stored twice";
  if (whole) return NULL;
  if (div < 0 && mod < 0) return "a dimension has no level";
  if (div < 0 || mod < 0) return "a split dimension needs both i/b and i%b";
  if (f->level[div].factor != f->level[mod].factor)
    return "i/b and i%b must have the same block size b";
  return div < mod ? NULL
                   : "the block number i/b stands outside (before) the place in the block i%b";
}

const char *ir_format_fault(const ir_format *f) {
  if (f->rank < 0 || f->rank > IR_MAX_RANK) return "a format has at most 8 dimensions";
  if (f->level_count < 0 || f->level_count > IR_MAX_LEVELS) return "a format has at most 12 levels";
  for (int k = 0; k < f->level_count; k++) {
    const char *fault = level_fault(f, k);
    if (fault) return fault;
  }
  for (int d = 0; d < f->rank; d++) {
    const char *fault = cover_fault(f, d);
    if (fault) return fault;
  }
  return NULL;
}

void ir_format_settle(ir_format *f) {
  for (int k = 0; k < f->level_count; k++)
    f->level[k].unique = !(k + 1 < f->level_count && f->level[k + 1].kind == IR_LEVEL_SINGLETON);
}

/* ---- asking ---------------------------------------------------------------------------- */
static bool level_equal(const ir_level *a, const ir_level *b) {
  return a->kind == b->kind && a->dim == b->dim && a->map == b->map && a->factor == b->factor &&
         a->parameter == b->parameter && a->unique == b->unique && a->has_pos == b->has_pos;
}

bool ir_format_equal(const ir_format *a, const ir_format *b) {
  if (a == b) return true;
  if (!a || !b || a->rank != b->rank || a->level_count != b->level_count) return false;
  for (int k = 0; k < a->level_count; k++)
    if (!level_equal(&a->level[k], &b->level[k])) return false;
  return true;
}

bool ir_format_is_dense(const ir_format *f) {
  for (int k = 0; k < f->level_count; k++)
    if (f->level[k].kind != IR_LEVEL_DENSE || f->level[k].map != IR_MAP_WHOLE) return false;
  return true;
}

bool ir_format_is_row_major(const ir_format *f) {
  if (!ir_format_is_dense(f)) return false;
  for (int k = 0; k < f->level_count; k++)
    if (f->level[k].dim != k) return false;
  return true;
}

int64_t ir_format_extent(const ir_format *f, int level, const int64_t *dims) {
  const ir_level *l = &f->level[level];
  int64_t dim = dims[l->dim];
  if (l->map == IR_MAP_MOD) return l->factor;
  if (l->map == IR_MAP_DIV) return dim / l->factor + (dim % l->factor != 0);
  return dim;
}

int64_t ir_format_bitmap_tile(const ir_format *f, int level, const int64_t *dims) {
  int64_t bits = ir_format_extent(f, level, dims);
  for (int k = level - 1;
       k >= 0 && f->level[k].kind == IR_LEVEL_DENSE && f->level[k].map == IR_MAP_MOD; k--)
    bits *= f->level[k].factor;
  return bits;
}

int ir_format_chain_end(const ir_format *f, int level) {
  while (level + 1 < f->level_count && f->level[level + 1].kind == IR_LEVEL_SINGLETON) level++;
  return level;
}

bool ir_format_lists_entries(const ir_format *f) {
  for (int k = 0; k < f->level_count; k++)
    if (!ir_level_rows[f->level[k].kind].full) return true;
  return false;
}

/* ---- text ------------------------------------------------------------------------------ */
void ir_format_print(const ir_format *f, ir_text *out) {
  ir_text_put(out, f->name);
  for (int i = 0; i < f->argument_count; i++)
    ir_text_printf(out, "%s%lld", i ? "," : "(", (long long)f->argument[i]);
  if (f->argument_count) ir_text_put(out, ")");
}

static void print_level(const ir_level *l, ir_text *out) {
  ir_text_printf(out, "%c", "ijklmnop"[l->dim]);
  if (l->map != IR_MAP_WHOLE)
    ir_text_printf(out, "%c%lld", l->map == IR_MAP_DIV ? '/' : '%', (long long)l->factor);
  ir_text_printf(out, ": %s", ir_level_rows[l->kind].text);
  if (l->parameter)
    ir_text_printf(out, "(%lld%s)", (long long)l->parameter, l->has_pos ? ",1" : "");
}

void ir_format_print_map(const ir_format *f, ir_text *out) {
  ir_text_put(out, "[");
  for (int d = 0; d < f->rank; d++) ir_text_printf(out, "%s%c", d ? "," : "", "ijklmnop"[d]);
  ir_text_put(out, "] -> [");
  for (int k = 0; k < f->level_count; k++) {
    ir_text_put(out, k ? ", " : " ");
    print_level(&f->level[k], out);
  }
  ir_text_put(out, " ]");
}
