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
                                          "dense",   "library", "stages", "warps",  NULL};
const char *const ir_words_stage[] = {"compute", "detect", "convert", "guard", NULL};
const char *const ir_words_verdict[] = {"chosen", "runner_up", "rejected", NULL};
const char *const ir_words_buf[] = {"vals", "pos", "crd", "workspace", "local", NULL};
const char *const ir_words_run[] = {"sequential", "parallel", "vector", "unroll",
                                    "grid_x",     "grid_y",   "thread", NULL};

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
ir_names *ir_names_new(ir_arena *arena) { return IR_NEW(arena, ir_names); }

static int slot_of(const ir_names *names, const void *key) {
  uintptr_t bits = (uintptr_t)key;
  int at = (int)((bits >> 4 ^ bits >> 16) & (uintptr_t)(names->capacity - 1));
  while (names->keys[at] && names->keys[at] != key) at = (at + 1) & (names->capacity - 1);
  return at;
}

/* Where the text `name` is or would be; free slots hold 0, others 1 + the position in texts. */
static int text_slot(const ir_names *names, const char *name) {
  int at = (int)(ir_hash(0, name, strlen(name)) & (uint64_t)(names->capacity - 1));
  while (names->by_text[at] && strcmp(names->texts.at[names->by_text[at] - 1], name))
    at = (at + 1) & (names->capacity - 1);
  return at;
}

static void grow(ir_arena *arena, ir_names *names) {
  ir_names old = *names;
  names->capacity = old.capacity ? old.capacity * 2 : 64;
  names->keys = IR_NEW_ARRAY(arena, const void *, names->capacity);
  names->values = IR_NEW_ARRAY(arena, int, names->capacity);
  names->by_text = IR_NEW_ARRAY(arena, int, names->capacity);
  for (int i = 0; i < names->texts.count; i++)
    names->by_text[text_slot(names, names->texts.at[i])] = i + 1;
  for (int i = 0; i < old.capacity; i++) {
    if (!old.keys[i]) continue;
    int at = slot_of(names, old.keys[i]);
    names->keys[at] = old.keys[i];
    names->values[at] = old.values[i];
  }
}

void ir_names_add(ir_arena *arena, ir_names *names, const void *key, const char *name) {
  if ((names->texts.count + 1) * 2 > names->capacity) grow(arena, names);
  int at = slot_of(names, key);
  if (names->keys[at]) return;
  const char *unique = name;
  for (int n = 2; names->by_text[text_slot(names, unique)]; n++)
    unique = ir_format_text(arena, "%s_%d", name, n);
  names->keys[at] = key;
  names->values[at] = names->texts.count;
  int slot = text_slot(names, unique);
  IR_PUSH(arena, &names->texts, unique);
  names->by_text[slot] = names->texts.count;
}

const char *ir_names_of(const ir_names *names, const void *key, const char *otherwise) {
  if (!names || !names->capacity) return otherwise;
  int at = slot_of(names, key);
  return names->keys[at] ? names->texts.at[names->values[at]] : otherwise;
}
