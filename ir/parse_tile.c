/* parse_tile.c - candidates, workspaces, lists and stages of IR text: the tile dialect.
 *
 * Each is a block of `key value;` lines.  A table a block says what each key's value is and where
 * it goes; keys may come in any order, the last one counts. */
#include "ir/parse.h"
#include "ir/print.h"

typedef enum value_kind {
  VALUE_TEXT,
  VALUE_NAME,
  VALUE_INT,
  VALUE_DIM,
  VALUE_INT64,
  VALUE_NUMBER,
  VALUE_FLAG,
  VALUE_TENSOR,
  VALUE_INDEX,
  VALUE_LIST,
  VALUE_BUF,
  VALUE_EXPR,
  VALUE_TILES,
  VALUE_OTHER
} value_kind;

typedef struct field {
  const char *key;
  value_kind kind;
  size_t offset;
} field;

typedef void read_other(ir_reader *r, int key, void *into);

static void read_tiles(ir_reader *r, void *into) {
  IR_VEC(ir_tile_size) tiles = {0};
  while (!ir_read_done(r, ";")) {
    ir_tile_size size = {.index = ir_read_index(r)};
    ir_read_expect(r, "=");
    size.size = ir_read_int(r, 0, INT64_MAX);
    if (size.index && ir_read_room(r, tiles.count)) IR_PUSH(r->arena, &tiles, size);
  }
  memcpy(into, &tiles, sizeof tiles);
}

#define SET(type, value)                                                                           \
  do {                                                                                             \
    type value_ = (value);                                                                         \
    memcpy(at, &value_, sizeof value_);                                                            \
  } while (0)

static void read_value(ir_reader *r, value_kind kind, void *at) {
  switch (kind) {
  case VALUE_TEXT: SET(const char *, ir_read_string(r)); break;
  case VALUE_NAME: SET(const char *, ir_read_name(r)); break;
  case VALUE_INT: SET(int, (int)ir_read_int(r, 0, INT32_MAX)); break;
  case VALUE_DIM: SET(int, (int)ir_read_int(r, -1, IR_MAX_RANK - 1)); break;
  case VALUE_INT64: SET(int64_t, ir_read_int(r, 0, INT64_MAX)); break;
  case VALUE_NUMBER: SET(double, ir_read_number(r)); break;
  case VALUE_FLAG: SET(bool, true); break;
  case VALUE_TENSOR: SET(ir_tensor *, ir_read_tensor(r)); break;
  case VALUE_INDEX: SET(ir_index *, ir_read_index(r)); break;
  case VALUE_LIST: SET(ir_list *, ir_read_list_name(r)); break;
  case VALUE_BUF: SET(ir_buf *, ir_read_buf(r)); break;
  case VALUE_EXPR: SET(ir_expr *, ir_read_expr(r)); break;
  case VALUE_TILES: read_tiles(r, at); break;
  case VALUE_OTHER: break;
  }
}

static void unknown_key(ir_reader *r, const field *fields, int count) {
  const char **known = IR_NEW_ARRAY(r->arena, const char *, count);
  for (int i = 0; i < count; i++) known[i] = fields[i].key;
  ir_read_unknown(r, r->token.span, "field", r->token.text, known, count);
}

static void read_fields(ir_reader *r, const field *fields, int count, void *into,
                        read_other *other) {
  ir_read_expect(r, "{");
  while (!ir_read_done(r, "}")) {
    int key = 0;
    while (key < count && !ir_read_at(r, fields[key].key)) key++;
    if (key == count) {
      unknown_key(r, fields, count);
      return;
    }
    ir_read_token(r);
    if (fields[key].kind == VALUE_OTHER)
      other(r, key, into);
    else
      read_value(r, fields[key].kind, (char *)into + fields[key].offset);
    ir_read_expect(r, ";");
  }
  ir_read_expect(r, "}");
}

/* ---- candidates ---------------------------------------------------------------------------- */
#define FIELD(type, key, kind)                                                                     \
  { #key, VALUE_##kind, offsetof(type, key) }

static const field candidate_fields[] = {FIELD(ir_candidate, label, TEXT),
                                         FIELD(ir_candidate, row, NAME),
                                         FIELD(ir_candidate, fusion, TEXT),
                                         FIELD(ir_candidate, formats, TEXT),
                                         FIELD(ir_candidate, operand, TENSOR),
                                         FIELD(ir_candidate, axis, INDEX),
                                         FIELD(ir_candidate, strip_index, INDEX),
                                         FIELD(ir_candidate, strip, INT64),
                                         FIELD(ir_candidate, gran, INT64),
                                         {"tile", VALUE_TILES, offsetof(ir_candidate, tiles)},
                                         FIELD(ir_candidate, density, NUMBER),
                                         FIELD(ir_candidate, cover, NUMBER),
                                         FIELD(ir_candidate, microseconds, NUMBER),
                                         FIELD(ir_candidate, index_microseconds, NUMBER),
                                         FIELD(ir_candidate, expected, NUMBER),
                                         FIELD(ir_candidate, density_low, NUMBER),
                                         FIELD(ir_candidate, density_high, NUMBER),
                                         FIELD(ir_candidate, microseconds_low, NUMBER),
                                         FIELD(ir_candidate, microseconds_likely, NUMBER),
                                         FIELD(ir_candidate, microseconds_high, NUMBER),
                                         FIELD(ir_candidate, whole, FLAG),
                                         FIELD(ir_candidate, expanded, FLAG),
                                         FIELD(ir_candidate, regrouped, FLAG),
                                         FIELD(ir_candidate, asked, FLAG),
                                         FIELD(ir_candidate, guarded, FLAG),
                                         FIELD(ir_candidate, break_even, NUMBER),
                                         FIELD(ir_candidate, why, TEXT)};

/* candidate 0 for y chosen { ... } */
void ir_read_candidate(ir_reader *r) {
  int expected = r->kernel->candidates.count;
  ir_span span = r->token.span;
  if (!ir_read_room(r, expected)) return;
  if (ir_read_int(r, 0, INT32_MAX) != expected)
    ir_read_fail(r, span, "candidates are numbered in order: this one is %d", expected);
  ir_candidate *c = IR_NEW(r->arena, ir_candidate);
  if (ir_read_if(r, "for")) c->target = ir_read_tensor(r);
  c->verdict = (ir_verdict)ir_read_word(r, ir_words_verdict, "a verdict");
  read_fields(r, candidate_fields, IR_COUNT(candidate_fields), c, NULL);
  IR_PUSH(r->arena, &r->kernel->candidates, c);
}

/* ---- workspaces ---------------------------------------------------------------------------- */
ir_buf *ir_read_buf_rest(ir_reader *r, const char *name) {
  ir_read_expect(r, ":");
  ir_dtype dtype = ir_read_dtype(r);
  ir_buf *buf = ir_buf_new(r->arena, name, IR_BUF_WORKSPACE, dtype);
  ir_read_expect(r, "[");
  if (!ir_read_at(r, "]")) buf->count = ir_read_expr(r);
  ir_read_expect(r, "]");
  buf->kind = (ir_buf_kind)ir_read_word(r, ir_words_buf, "the kind of buffer");
  if (ir_read_if(r, "of")) buf->tensor = ir_read_tensor(r);
  if (ir_read_if(r, "level")) buf->level = (int)ir_read_int(r, 0, IR_MAX_LEVELS - 1);
  buf->zeroed = ir_read_if(r, "zeroed");
  buf->each = ir_read_if(r, "each");
  if (!ir_read_if(r, "life")) return buf;
  buf->first = (int)ir_read_int(r, -1, INT32_MAX);
  ir_read_expect(r, "..");
  buf->last = (int)ir_read_int(r, -1, INT32_MAX);
  return buf;
}

/* buf @h.counts : i32[(T + 63) / 64] workspace of h zeroed life 0..2; */
void ir_read_workspace(ir_reader *r) {
  ir_read_expect(r, "@");
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (!ir_read_room(r, r->kernel->workspaces.count)) return;
  if (ir_table_find(&r->workspaces, name))
    ir_read_fail(r, span, "the workspace `@%s` is declared twice", name);
  ir_buf *buf = ir_read_buf_rest(r, name);
  ir_read_expect(r, ";");
  IR_PUSH(r->arena, &r->kernel->workspaces, buf);
  ir_table_add(r->arena, &r->workspaces, name, buf);
}

/* ---- lists --------------------------------------------------------------------------------- */
static const field list_fields[] = {
    FIELD(ir_list, tensor, TENSOR), FIELD(ir_list, strip_index, INDEX),
    FIELD(ir_list, axis, INDEX),    FIELD(ir_list, strip_dim, DIM),
    FIELD(ir_list, axis_dim, DIM),  FIELD(ir_list, break_even, NUMBER),
    FIELD(ir_list, strip, INT64),   FIELD(ir_list, gran, INT64),
    FIELD(ir_list, section, INT64),
    FIELD(ir_list, strips, EXPR),   FIELD(ir_list, capacity, EXPR),
    FIELD(ir_list, counts, BUF),    FIELD(ir_list, ids, BUF),
    FIELD(ir_list, bits, BUF),      FIELD(ir_list, starts, BUF),
    FIELD(ir_list, vals, BUF),      FIELD(ir_list, marks, BUF),
    FIELD(ir_list, order, BUF),     FIELD(ir_list, packed, BUF),
    FIELD(ir_list, partial, BUF),
    FIELD(ir_list, sums, BUF),      FIELD(ir_list, arrived, BUF),
    FIELD(ir_list, verdict, BUF),   FIELD(ir_list, threshold, BUF),
    FIELD(ir_list, front, BUF),     FIELD(ir_list, replaces, LIST),
    FIELD(ir_list, most, INT64),
    FIELD(ir_list, fused, FLAG),    FIELD(ir_list, pairs, FLAG)};

void ir_read_list(ir_reader *r) {
  ir_list *list = IR_NEW(r->arena, ir_list);
  ir_span span = r->token.span;
  list->name = ir_read_name(r);
  list->span = span;
  if (!ir_read_room(r, r->kernel->lists.count)) return;
  if (!ir_table_add(r->arena, &r->lists, list->name, list))
    ir_read_fail(r, span, "the list `%s` is declared twice", list->name);
  read_fields(r, list_fields, IR_COUNT(list_fields), list, NULL);
  IR_PUSH(r->arena, &r->kernel->lists, list);
}

/* ---- stages -------------------------------------------------------------------------------- */
enum { STAGE_COMPUTES, STAGE_READS, STAGE_BESIDE, STAGE_WHEN, STAGE_RUNNERS_UP, STAGE_FUNCS };

static const field stage_fields[] = {[STAGE_COMPUTES] = {"computes", VALUE_OTHER, 0},
                                     [STAGE_READS] = {"reads", VALUE_OTHER, 0},
                                     [STAGE_BESIDE] = {"beside", VALUE_OTHER, 0},
                                     [STAGE_WHEN] = {"when", VALUE_OTHER, 0},
                                     [STAGE_RUNNERS_UP] = {"runners_up", VALUE_OTHER, 0},
                                     [STAGE_FUNCS] = {"funcs", VALUE_OTHER, 0},
                                     FIELD(ir_stage, row, NAME),
                                     {"tile", VALUE_TILES, offsetof(ir_stage, tiles)},
                                     FIELD(ir_stage, detects, LIST),
                                     FIELD(ir_stage, source, TENSOR),
                                     FIELD(ir_stage, dest, TENSOR),
                                     FIELD(ir_stage, whole, FLAG),
                                     FIELD(ir_stage, assembled, FLAG),
                                     FIELD(ir_stage, once, FLAG),
                                     FIELD(ir_stage, kept, FLAG),
                                     FIELD(ir_stage, unkept, FLAG),
                                     FIELD(ir_stage, strips, TENSOR),
                                     FIELD(ir_stage, full, TENSOR),
                                     FIELD(ir_stage, stages_deep, INT),
                                     FIELD(ir_stage, warps, INT),
                                     FIELD(ir_stage, microseconds, NUMBER),
                                     FIELD(ir_stage, why, TEXT)};

static void read_computes(ir_reader *r, ir_stage *s) {
  ir_span span = r->token.span;
  ir_tensor *target = ir_read_tensor(r);
  if (!target) return;
  if (!target->def)
    ir_read_fail(r, span, "no statement computes `%s`", target->name);
  else if (ir_read_room(r, s->stmts.count))
    IR_PUSH(r->arena, &s->stmts, target->def);
}

static void read_reads(ir_reader *r, ir_stage *s) {
  ir_list *list = ir_read_list_name(r);
  if (list && ir_read_room(r, s->reads.count)) IR_PUSH(r->arena, &s->reads, list);
}

static void read_beside(ir_reader *r, ir_stage *s) {
  ir_tensor *tensor = ir_read_tensor(r);
  if (tensor && ir_read_room(r, s->beside.count)) IR_PUSH(r->arena, &s->beside, tensor);
}

static void read_runner_up(ir_reader *r, ir_stage *s) {
  ir_span span = r->token.span;
  int n = (int)ir_read_int(r, 0, INT32_MAX);
  if (n >= r->kernel->candidates.count)
    ir_read_fail(r, span, "there are %d candidates, counted from 0", r->kernel->candidates.count);
  else if (ir_read_room(r, s->runners_up.count))
    IR_PUSH(r->arena, &s->runners_up, r->kernel->candidates.at[n]);
}

static void read_when(ir_reader *r, ir_stage *s) {
  static const char *const words[] = {"below", "above", NULL};
  s->when.list = ir_read_list_name(r);
  s->when.above = ir_read_word(r, words, "the side of the break-even");
  s->when.threshold = ir_read_number(r);
}

static void read_stage_field(ir_reader *r, int key, void *into) {
  if (key == STAGE_WHEN) {
    read_when(r, into);
    return;
  }
  do {
    if (key == STAGE_COMPUTES)
      read_computes(r, into);
    else if (key == STAGE_READS)
      read_reads(r, into);
    else if (key == STAGE_BESIDE)
      read_beside(r, into);
    else if (key == STAGE_RUNNERS_UP)
      read_runner_up(r, into);
    else
      ir_read_later(r, IR_LATER_FUNC, into);
  } while (ir_read_if(r, ","));
}

/* stage 2 y.dense compute { ... } */
void ir_read_stage(ir_reader *r) {
  ir_stage *s = IR_NEW(r->arena, ir_stage);
  if (!ir_read_room(r, r->kernel->stages.count)) return;
  s->span = r->token.span;
  s->number = (int)ir_read_int(r, 0, INT32_MAX);
  s->name = ir_read_name(r);
  s->kind = (ir_stage_kind)ir_read_word(r, ir_words_stage, "the kind of stage");
  read_fields(r, stage_fields, IR_COUNT(stage_fields), s, read_stage_field);
  IR_PUSH(r->arena, &r->kernel->stages, s);
}
