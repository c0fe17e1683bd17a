/* format_builtin.c - the formats that the language knows by name (LANGUAGE section 5).
 *
 * One row a format: which ranks and how many arguments it takes, and a function that appends its
 * levels.  A new built-in format is one row and one such function. */
#include "ir/format.h"

static ir_level *add(ir_format *f, ir_level_kind kind, int dim) {
  ir_level *l = &f->level[f->level_count++];
  *l = (ir_level){.kind = kind, .dim = dim};
  return l;
}

static ir_level *add_div(ir_format *f, ir_level_kind kind, int dim, int64_t factor) {
  ir_level *l = add(f, kind, dim);
  l->map = IR_MAP_DIV;
  l->factor = factor;
  return l;
}

static ir_level *add_mod(ir_format *f, ir_level_kind kind, int dim, int64_t factor) {
  ir_level *l = add(f, kind, dim);
  l->map = IR_MAP_MOD;
  l->factor = factor;
  return l;
}

static void make_dense(ir_format *f) {
  for (int d = 0; d < f->rank; d++) add(f, IR_LEVEL_DENSE, d);
}

static void make_dense_t(ir_format *f) {
  for (int d = 0; d < f->rank - 2; d++) add(f, IR_LEVEL_DENSE, d);
  add(f, IR_LEVEL_DENSE, f->rank - 1);
  add(f, IR_LEVEL_DENSE, f->rank - 2);
}

static void make_coo(ir_format *f) {
  add(f, IR_LEVEL_COMPRESSED, 0);
  for (int d = 1; d < f->rank; d++) add(f, IR_LEVEL_SINGLETON, d);
}

static void make_csr(ir_format *f) {
  add(f, IR_LEVEL_DENSE, 0);
  add(f, IR_LEVEL_COMPRESSED, 1);
}

static void make_csc(ir_format *f) {
  add(f, IR_LEVEL_DENSE, 1);
  add(f, IR_LEVEL_COMPRESSED, 0);
}

static void make_bsr(ir_format *f) {
  add_div(f, IR_LEVEL_DENSE, 0, f->argument[0]);
  add_div(f, IR_LEVEL_COMPRESSED, 1, f->argument[1]);
  add_mod(f, IR_LEVEL_DENSE, 0, f->argument[0]);
  add_mod(f, IR_LEVEL_DENSE, 1, f->argument[1]);
}

static void make_ell(ir_format *f) {
  add(f, IR_LEVEL_DENSE, 0);
  add(f, IR_LEVEL_PACKED, 1)->parameter = f->argument[0];
}

static void make_csf(ir_format *f) {
  for (int d = 0; d < f->rank; d++) add(f, IR_LEVEL_COMPRESSED, d);
}

static void make_nm(ir_format *f) {
  int last = f->rank - 1;
  for (int d = 0; d < last; d++) add(f, IR_LEVEL_DENSE, d);
  add_div(f, IR_LEVEL_DENSE, last, f->argument[1]);
  add_mod(f, IR_LEVEL_NM, last, f->argument[1])->parameter = f->argument[0];
}

static void make_bitmap(ir_format *f) {
  add_div(f, IR_LEVEL_DENSE, 0, f->argument[0]);
  add_div(f, IR_LEVEL_DENSE, 1, f->argument[1]);
  add_mod(f, IR_LEVEL_DENSE, 0, f->argument[0]);
  add_mod(f, IR_LEVEL_BITMAP, 1, f->argument[1]);
}

static void make_twell(ir_format *f) {
  add(f, IR_LEVEL_DENSE, 0);
  add_div(f, IR_LEVEL_DENSE, 1, f->argument[0]);
  ir_level *packed = add_mod(f, IR_LEVEL_PACKED, 1, f->argument[0]);
  packed->parameter = f->argument[1];
  packed->has_pos = true;
}

typedef struct builtin {
  const char *name;
  int least_rank, most_rank, arguments;
  const char *usage;
  void (*make)(ir_format *f);
} builtin;

static const builtin builtins[] = {
    {"dense", 0, IR_MAX_RANK, 0, "dense", make_dense},
    {"dense_t", 2, IR_MAX_RANK, 0, "dense_t", make_dense_t},
    {"coo", 1, IR_MAX_RANK, 0, "coo", make_coo},
    {"csr", 2, 2, 0, "csr", make_csr},
    {"csc", 2, 2, 0, "csc", make_csc},
    {"bsr", 2, 2, 2, "bsr(rows,cols)", make_bsr},
    {"ell", 2, 2, 1, "ell(width)", make_ell},
    {"dcsr", 2, 2, 0, "dcsr", make_csf},
    {"csf", 1, IR_MAX_RANK, 0, "csf", make_csf},
    {"nm", 1, IR_MAX_RANK, 2, "nm(n,m)", make_nm},
    {"bitmap", 2, 2, 2, "bitmap(rows,cols)", make_bitmap},
    {"twell", 2, 2, 2, "twell(width,capacity)", make_twell},
};

int ir_format_builtin_count(void) { return IR_COUNT(builtins); }
const char *ir_format_builtin_name(int i) { return builtins[i].name; }

static const builtin *find(const char *name) {
  for (int i = 0; i < IR_COUNT(builtins); i++)
    if (!strcmp(builtins[i].name, name)) return &builtins[i];
  return NULL;
}

static const char *rank_fault(ir_arena *arena, const builtin *b, int rank) {
  if (rank >= b->least_rank && rank <= b->most_rank) return NULL;
  if (b->least_rank == b->most_rank && rank > b->most_rank)
    return ir_format_text(arena,
                          "`%s` stores %d dimensions, this tensor has %d; for a batch of matrices "
                          "use `csf`, `coo` or a `format` of your own",
                          b->name, b->most_rank, rank);
  return ir_format_text(arena, "`%s` needs at least %d dimension%s, this tensor has %d", b->name,
                        b->least_rank, b->least_rank == 1 ? "" : "s", rank);
}

static const char *argument_fault(ir_arena *arena, const builtin *b, const int64_t *arguments,
                                  int count) {
  if (count != b->arguments)
    return ir_format_text(arena, "`%s` takes %d number%s, not %d: write `%s`", b->name,
                          b->arguments, b->arguments == 1 ? "" : "s", count, b->usage);
  for (int i = 0; i < count; i++)
    if (arguments[i] < 1 || arguments[i] > INT32_MAX)
      return ir_format_text(arena, "in `%s`, %lld is not a size from 1 to %d", b->usage,
                            (long long)arguments[i], INT32_MAX);
  return NULL;
}

/* What the general rules of ir_format_fault cannot say in this format's own words. */
static const char *value_fault(ir_arena *arena, const builtin *b, const int64_t *arguments) {
  if (!strcmp(b->name, "nm") && (arguments[0] > arguments[1] || arguments[1] > 256))
    return ir_format_text(arena, "`nm(%lld,%lld)` keeps n of every m: it needs n <= m <= 256",
                          (long long)arguments[0], (long long)arguments[1]);
  if (!strcmp(b->name, "twell") && arguments[1] > arguments[0])
    return ir_format_text(arena,
                          "`twell(%lld,%lld)`: a tile of %lld columns holds at most %lld entries",
                          (long long)arguments[0], (long long)arguments[1], (long long)arguments[0],
                          (long long)arguments[0]);
  return NULL;
}

const ir_format *ir_format_builtin(ir_arena *arena, const char *name, int rank,
                                   const int64_t *arguments, int argument_count, const char **why) {
  const builtin *b = find(name);
  const char *fault =
      b ? rank_fault(arena, b, rank) : ir_format_text(arena, "there is no format `%s`", name);
  if (!fault) fault = argument_fault(arena, b, arguments, argument_count);
  if (!fault) fault = value_fault(arena, b, arguments);
  if (!fault) {
    ir_format *f = IR_NEW(arena, ir_format);
    f->name = b->name;
    f->rank = rank;
    f->argument_count = argument_count;
    for (int i = 0; i < argument_count; i++) f->argument[i] = arguments[i];
    b->make(f);
    ir_format_settle(f);
    fault = ir_format_fault(f);
    if (!fault) return f;
  }
  if (why) *why = fault;
  return NULL;
}
