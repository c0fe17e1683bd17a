/* format.h - storage formats as a list of levels (LANGUAGE section 5).
 *
 * A format maps the dimensions of a tensor to levels, outermost first.  A level takes a dimension
 * whole (`i`), its block number (`i/b`) or its place in the block (`i%b`).
 *
 *     csr          [i: dense, j: compressed]                     pos[1], crd[1], vals
 *     bsr(b,c)     [i/b: dense, j/c: compressed, i%b: dense, j%c: dense]
 *     nm(2,4)      [i: dense, j/4: dense, j%4: nm(2)]            crd[2] (u8), vals
 *     ell(w)       [i: dense, j: packed(w)]                      crd[1], padded with -1, vals
 *     bitmap(r,c)  [i/r: dense, j/c: dense, i%r: dense, j%c: bitmap]   pos[3] = start of each
 * tile's values, crd[3] = bits, r*c a tile, row-major, least significant first, whole bytes a tile
 *     twell(w,cap) [i: dense, j/w: dense, j%w: packed(cap,1)]    pos[2] = counts, crd[2], vals
 *
 * Position p of a level: dense p*extent + c; compressed, singleton: index into crd; nm p*n + slot;
 * packed p*capacity + slot; bitmap: index into vals.  The values' index is the last position.
 *
 * packed(capacity,1) stores counts, one a parent and then the number of slots R of the dense rest.
 * A parent whose entries do not fit its capacity lies in the rest whole: its count is -1 - slot,
 * and every coordinate c has a place, at position parents*capacity + slot*extent + c, behind the
 * places of all parents.  There crd is c for an entry and -1 for none, whose value is 0.  Slots are
 * distinct, in any order: whoever packs may take the next one, or the parent's own number. */
#ifndef SPC_IR_FORMAT_H
#define SPC_IR_FORMAT_H

#include "ir/dtype.h"

enum { IR_MAX_RANK = 8, IR_MAX_LEVELS = 12 };

typedef enum ir_level_kind {
#define SPC_LEVEL(NAME, TEXT, FULL, ORDERED, UNIQUE, COMPACT, POS, CRD, MEANING) IR_LEVEL_##NAME,
#include "ir/level.def"
#undef SPC_LEVEL
  IR_LEVEL_COUNT
} ir_level_kind;

typedef enum ir_level_array {
  IR_ARRAY_NONE,
  IR_ARRAY_POS,
  IR_ARRAY_OFFSETS,
  IR_ARRAY_COUNTS,
  IR_ARRAY_CRD,
  IR_ARRAY_BITS,
  IR_ARRAY_POSITIONS
} ir_level_array;

typedef struct ir_level_row {
  const char *text;
  bool full, ordered, unique, compact;
  ir_level_array pos, crd; /* which arrays a tensor view holds for such a level */
  const char *meaning;
} ir_level_row;
extern const ir_level_row ir_level_rows[IR_LEVEL_COUNT];

typedef enum ir_level_map { IR_MAP_WHOLE, IR_MAP_DIV, IR_MAP_MOD } ir_level_map;

typedef struct ir_level {
  ir_level_kind kind;
  int dim; /* which dimension of the tensor */
  ir_level_map map;
  int64_t factor;    /* block size of div and mod, else 0 */
  int64_t parameter; /* nm: n; packed: capacity; else 0 */
  bool unique;       /* false: coordinates may repeat (upper levels of coo) */
  bool has_pos;      /* packed: counts are stored, and there is a rest (twell); false for ell */
} ir_level;

typedef struct ir_format {
  const char *name; /* "csr", "bsr", a user's name */
  int rank;         /* dimensions it applies to */
  int argument_count;
  int64_t argument[4];
  int level_count;
  ir_level level[IR_MAX_LEVELS];
} ir_format;

/* The built-in `name` with its arguments for a tensor of this rank; NULL with *why set when the
 * name is unknown or the arguments or rank do not fit. */
const ir_format *ir_format_builtin(ir_arena *arena, const char *name, int rank,
                                   const int64_t *arguments, int argument_count, const char **why);
int ir_format_builtin_count(void);
const char *ir_format_builtin_name(int i); /* for fix-its and `spc show format` */

/* Why a list of levels is not a format (constant text), or NULL.  Every dimension is covered
 * exactly once, whole or as i/b outside i%b with one factor; singleton stands after compressed or
 * singleton; nm is over i%m with n <= m <= 256; packed has a capacity. */
const char *ir_format_fault(const ir_format *f);
/* Sets what follows from the list of levels: `unique` is false before a singleton, else true. */
void ir_format_settle(ir_format *f);

bool ir_format_equal(const ir_format *a, const ir_format *b); /* same levels; names may differ */
bool ir_format_is_dense(const ir_format *f);                  /* every level dense, none mapped */
bool ir_format_is_row_major(const ir_format *f);              /* dense, dimensions in order */
int64_t ir_format_extent(const ir_format *f, int level, const int64_t *dims); /* of one level */
/* Bits of one tile of a bitmap level: its extent times those of the i%b dense levels right before
 * it. */
int64_t ir_format_bitmap_tile(const ir_format *f, int level, const int64_t *dims);
/* Last level of the run of singletons after `level`; `level` itself when none follows. */
int ir_format_chain_end(const ir_format *f, int level);
static inline bool ir_level_has_rest(const ir_level *level) {
  return level->kind == IR_LEVEL_PACKED && level->has_pos;
}
/* Some level leaves elements out, so that what is stored is an entry, zeros included: an explicit
 * zero of csr, an element of a stored block, a slot of nm.  False for layouts that store every
 * element. */
bool ir_format_lists_entries(const ir_format *f);
void ir_format_print(const ir_format *f, ir_text *out); /* "bsr(64,64)", parses back */
void ir_format_print_map(
    const ir_format *f, ir_text *out); /* "[i,j] -> [ i/64: dense, ... ]"; packed(c,1) has a rest */

#endif
