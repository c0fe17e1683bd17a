/* print_names.c - names, strings, numbers and the words of enums in IR text.
 *
 * A name is printed bare where it is an identifier (dots allowed inside: `h.ids`) and no word of
 * the expression grammar; otherwise quoted.  So every name that a pass makes can be read back. */
#include "ir/number.h"
#include "ir/print.h"

const char *const ir_words_role[] = {"in", "let", "out", "temp", NULL};
const char *const ir_words_race[] = {"none", "fixed", "atomic", NULL};
const char *const ir_words_zeros[] = {"unknown", "dynamic", "static", NULL};
const char *const ir_words_directive[] = {"compact", "tile",    "fuse",   "format", "split",
                                          "dense",   "library", "stages", "warps",  "precision", "regroup",
                                          NULL};
const char *const ir_words_stage[] = {"compute", "detect", "convert", "guard", NULL};
const char *const ir_words_verdict[] = {"chosen", "instead", "runner_up", "rejected", NULL};
const char *const ir_words_buf[] = {"vals", "pos", "crd", "workspace", "local", NULL};
const char *const ir_words_run[] = {"sequential", "parallel", "vector", "unroll",
                                    "grid_x",     "grid_y",   "thread", "team",   "lanes", "columns", "shares", NULL};

/* ---- names and strings --------------------------------------------------------------------- */
static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_reserved(const char *name) {
  static const char *const words[] = {"true", "false", "inf",  "nan",     "not",
                                      "and",  "or",    "cast", "softmax", "topk"};
  for (int i = 0; i < IR_COUNT(words); i++)
    if (!strcmp(name, words[i])) return true;
  if (!strncmp(name, "inf_", 4) || !strncmp(name, "nan_", 4)) return true;
  return ir_op_find(name) != IR_OP_COUNT || ir_reducer_find(name) != IR_RED_COUNT;
}

bool ir_is_plain_name(const char *name) {
  if (!is_letter(name[0])) return false;
  for (const char *c = name + 1; *c; c++) {
    bool dot_inside = *c == '.' && (is_letter(c[1]) || is_digit(c[1]));
    if (!is_letter(*c) && !is_digit(*c) && !dot_inside) return false;
  }
  return !is_reserved(name);
}

void ir_put_string(ir_text *out, const char *text) {
  ir_text_put(out, "\"");
  for (const char *c = text; *c; c++) {
    unsigned char byte = (unsigned char)*c;
    if (byte == '"' || byte == '\\')
      ir_text_printf(out, "\\%c", byte);
    else if (byte == '\n')
      ir_text_put(out, "\\n");
    else if (byte < 0x20 || byte == 0x7f)
      ir_text_printf(out, "\\x%02x", byte);
    else
      ir_text_putn(out, c, 1);
  }
  ir_text_put(out, "\"");
}

void ir_put_name(ir_text *out, const char *name) {
  if (ir_is_plain_name(name))
    ir_text_put(out, name);
  else
    ir_put_string(out, name);
}

void ir_put_number(ir_text *out, double value) {
  char buffer[IR_NUMBER_BYTES];
  ir_text_put(out, ir_number_print(value, buffer));
}

void ir_put_type(ir_text *out, ir_dtype dtype, int lanes) {
  ir_text_put(out, ir_dtype_text(dtype));
  if (lanes != 1) ir_text_printf(out, "x%d", lanes);
}

/* ---- unique names -------------------------------------------------------------------------- */
ir_names *ir_names_new(ir_arena *arena, const ir_names *outer) {
  ir_names *names = IR_NEW(arena, ir_names);
  names->outer = outer;
  return names;
}

static bool is_taken(const void *user, const char *name) {
  const ir_names *names = user;
  return ir_table_find(&names->taken, name) || (names->outer && is_taken(names->outer, name));
}

void ir_names_add(ir_arena *arena, ir_names *names, const void *key, const char *name) {
  if (ir_names_of(names, key, NULL)) return;
  const char *unique = ir_stems_fresh(arena, &names->stems, name, is_taken, names);
  ir_table_add(arena, &names->taken, unique, names);
  ir_map_set(arena, &names->places, key, names->texts.count);
  IR_PUSH(arena, &names->texts, unique);
}

const char *ir_names_of(const ir_names *names, const void *key, const char *otherwise) {
  for (; names; names = names->outer) {
    int at = ir_map_find(&names->places, key, -1);
    if (at >= 0) return names->texts.at[at];
  }
  return otherwise;
}
