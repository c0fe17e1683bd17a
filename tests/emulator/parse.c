/* parse.c - the text of PTX, as NVRTC writes it, to kernels. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator.h"

/* ---- names: what a scope declares ------------------------------------------------------------ */
typedef struct name {
  struct name *next;
  char *text;
  em_operand what; /* of a label that is not there yet: slot -1 */
  int scope;
} name;

enum { BUCKETS = 4096, MOST_OPERANDS = 512, MOST_GROUPS = 32, MOST_FUNCTIONS = 16, MOST_PARAMETERS = 8 };

typedef struct text_name {
  const char *at;
  size_t length;
} text_name;

/* A function that kernels call: its body is read at every call. */
typedef struct function {
  text_name name, results[MOST_PARAMETERS], parameters[MOST_PARAMETERS];
  int result_count, parameter_count, line;
  const char *body; /* behind its brace */
} function;

struct em_module {
  em_kernel **kernels;
  int kernel_count;
  size_t shared_bytes; /* declared outside of kernels */
  void **owned; /* what lives as long as the module */
  int owned_count, owned_room;
};

typedef struct parser {
  const char *at;
  int line, scope, scopes[64], depth;
  em_module *module;
  em_kernel *kernel;
  name *names[BUCKETS];
  function functions[MOST_FUNCTIONS];
  int function_count;
  em_operand *end; /* of the call whose body is read; NULL: none is */
  int code_room;
  char *error;
  size_t error_bytes;
  bool failed;
} parser;

static void *own(em_module *m, void *memory) {
  if (m->owned_count == m->owned_room) {
    m->owned_room = m->owned_room ? 2 * m->owned_room : 64;
    m->owned = realloc(m->owned, (size_t)m->owned_room * sizeof *m->owned);
  }
  return m->owned[m->owned_count++] = memory;
}

static void fail(parser *p, const char *format, ...) {
  va_list list;
  if (p->failed) return;
  p->failed = true;
  int length = snprintf(p->error, p->error_bytes, "PTX, line %d: ", p->line);
  va_start(list, format);
  vsnprintf(p->error + length, p->error_bytes - (size_t)length, format, list);
  va_end(list);
}

static unsigned hash(const char *text, size_t length) {
  unsigned h = 2166136261u;
  for (size_t i = 0; i < length; i++) h = (h ^ (unsigned char)text[i]) * 16777619u;
  return h % BUCKETS;
}

static em_operand *declare(parser *p, const char *text, size_t length, em_operand what) {
  name *n = own(p->module, calloc(1, sizeof *n));
  unsigned h = hash(text, length);
  n->text = own(p->module, strndup(text, length));
  n->what = what;
  n->scope = p->scopes[p->depth];
  n->next = p->names[h];
  p->names[h] = n;
  return &n->what;
}

/* The innermost declaration that is open. */
static em_operand *find(parser *p, const char *text, size_t length) {
  for (int d = p->depth; d >= 0; d--)
    for (name *n = p->names[hash(text, length)]; n; n = n->next)
      if (n->scope == p->scopes[d] && strlen(n->text) == length && !memcmp(n->text, text, length))
        return &n->what;
  return NULL;
}

/* ---- characters and words -------------------------------------------------------------------- */
static void skip(parser *p) {
  for (;;) {
    if (*p->at == '\n') p->line++, p->at++;
    else if (isspace((unsigned char)*p->at)) p->at++;
    else if (p->at[0] == '/' && p->at[1] == '/') p->at += strcspn(p->at, "\n");
    else if (p->at[0] == '/' && p->at[1] == '*') {
      const char *end = strstr(p->at, "*/");
      for (; end && p->at < end; p->at++) p->line += *p->at == '\n';
      p->at = end ? end + 2 : p->at + strlen(p->at);
    } else return;
  }
}

static bool take(parser *p, char c) {
  skip(p);
  if (*p->at != c) return false;
  p->at++;
  return true;
}

static void expect(parser *p, char c) {
  if (!take(p, c)) fail(p, "`%c` expected before `%.20s`", c, p->at);
}

static bool of_word(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.' || c == ':';
}

/* A word; a colon is part of it only where it is doubled (shared::cta). */
static size_t word(parser *p, const char **start) {
  skip(p);
  const char *at = p->at;
  *start = at;
  while (of_word(*at)) {
    if (*at == ':') {
      if (at[1] != ':') break;
      at++;
    }
    at++;
  }
  p->at = at;
  return (size_t)(at - *start);
}

static bool word_is(const char *start, size_t length, const char *text) {
  return length == strlen(text) && !memcmp(start, text, length);
}

/* ---- operands -------------------------------------------------------------------------------- */
static em_operand number(parser *p, uint64_t value) {
  uint64_t *lanes = own(p->module, malloc(EM_LANES * sizeof *lanes));
  for (int i = 0; i < EM_LANES; i++) lanes[i] = value;
  return (em_operand){.kind = EM_FIXED, .fixed = lanes};
}

static uint64_t read_number(parser *p) {
  bool minus = take(p, '-');
  uint64_t value;
  char *end;
  if (p->at[0] == '0' && (p->at[1] == 'f' || p->at[1] == 'F' || p->at[1] == 'd' || p->at[1] == 'D')) {
    bool wide = tolower((unsigned char)p->at[1]) == 'd';
    char digits[17] = "";
    memcpy(digits, p->at + 2, wide ? 16 : 8);
    value = strtoull(digits, &end, 16);
    p->at += 2 + (end - digits);
    return minus ? value ^ (wide ? 1ull << 63 : 1ull << 31) : value;
  }
  value = strtoull(p->at, &end, 0);
  p->at = end;
  if (*p->at == 'U') p->at++;
  return minus ? 0 - value : value;
}

static const struct {
  const char *name;
  em_special what;
} specials[] = {{"%tid.x", EM_TID_X},
                {"%tid.y", EM_TID_Y},
                {"%tid.z", EM_TID_Z},
                {"%ntid.x", EM_NTID_X},
                {"%ntid.y", EM_NTID_Y},
                {"%ntid.z", EM_NTID_Z},
                {"%ctaid.x", EM_CTAID_X},
                {"%ctaid.y", EM_CTAID_Y},
                {"%ctaid.z", EM_CTAID_Z},
                {"%nctaid.x", EM_NCTAID_X},
                {"%nctaid.y", EM_NCTAID_Y},
                {"%nctaid.z", EM_NCTAID_Z},
                {"%laneid", EM_LANEID},
                {"%warpid", EM_WARPID},
                {"%lanemask_lt", EM_LANEMASK_LT},
                {"%lanemask_le", EM_LANEMASK_LE},
                {"%lanemask_gt", EM_LANEMASK_GT},
                {"%lanemask_ge", EM_LANEMASK_GE},
                {"%lanemask_eq", EM_LANEMASK_EQ},
                {"%cluster_ctarank", EM_CLUSTER_CTARANK},
                {"%cluster_nctarank", EM_CLUSTER_NCTARANK},
                {"%clock", EM_CLOCK},
                {"%clock64", EM_CLOCK},
                {"%globaltimer", EM_CLOCK}};

/* A register, number, symbol or label; a name that is nowhere yet is a label to come. */
static em_operand single(parser *p) {
  const char *start;
  bool negated = take(p, '!');
  skip(p);
  if (isdigit((unsigned char)*p->at) || *p->at == '-') return number(p, read_number(p));
  size_t length = word(p, &start);
  if (!length) {
    fail(p, "an operand expected before `%.20s`", p->at);
    return (em_operand){0};
  }
  if (word_is(start, length, "_")) return (em_operand){0};
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (word_is(start, length, specials[i].name))
      return (em_operand){.kind = EM_SPECIAL, .slot = (int)specials[i].what};
  em_operand *known = find(p, start, length);
  if (!known && *start == '%') fail(p, "`%.*s` is not known", (int)length, start);
  if (!known) known = declare(p, start, length, (em_operand){.kind = EM_LABEL, .slot = -1});
  em_operand out = *known;
  if (out.kind == EM_LABEL) out.fixed = (const void *)known; /* resolved at the kernel's end */
  out.negated = negated;
  return out;
}

typedef struct reading {
  em_operand operands[MOST_OPERANDS];
  em_group groups[MOST_GROUPS];
  int operand_count, group_count;
} reading;

static void add(parser *p, reading *r, em_operand o) {
  if (r->operand_count == MOST_OPERANDS) fail(p, "too many operands");
  else r->operands[r->operand_count++] = o;
}

static void braces(parser *p, reading *r) {
  do add(p, r, single(p));
  while (take(p, ','));
  expect(p, '}');
}

static void group(parser *p, reading *r) {
  em_group *g = &r->groups[r->group_count++];
  *g = (em_group){.first = r->operand_count};
  if (r->group_count == MOST_GROUPS) fail(p, "too many operands");
  if (take(p, '{')) {
    braces(p, r);
  } else if (take(p, '[')) {
    g->memory = true;
    em_operand o = single(p);
    if (take(p, '+')) {
      uint64_t offset = read_number(p);
      o.offset = (int64_t)offset;
    }
    add(p, r, o);
    if (take(p, ',')) {
      expect(p, '{');
      braces(p, r);
    }
    expect(p, ']');
  } else {
    add(p, r, single(p));
    if (take(p, '|')) add(p, r, single(p));
    if (take(p, '+')) { /* symbol + offset */
      em_operand *last = &r->operands[r->operand_count - 1];
      uint64_t offset = read_number(p);
      if (last->kind == EM_FIXED) *last = number(p, last->fixed[0] + offset);
      else fail(p, "a sum of what is no symbol");
    }
  }
  g->count = r->operand_count - g->first;
}

/* ---- declarations ---------------------------------------------------------------------------- */
static size_t size_of_type(const char *text, size_t length) {
  size_t bits = 0;
  for (size_t i = 0; i < length; i++)
    if (isdigit((unsigned char)text[i])) bits = bits * 10 + (size_t)(text[i] - '0');
  return bits / 8;
}

/* .reg .b32 %r<10>, %x; */
static void registers(parser *p) {
  const char *type, *start;
  size_t type_length = word(p, &type), length;
  bool predicate = word_is(type, type_length, ".pred");
  do {
    length = word(p, &start);
    int count = 1;
    bool many = take(p, '<');
    if (many) {
      count = (int)read_number(p);
      expect(p, '>');
    }
    for (int i = 0; i < count; i++) {
      char text[128];
      int *next = predicate ? &p->kernel->predicates : &p->kernel->registers;
      int made = many ? snprintf(text, sizeof text, "%.*s%d", (int)length, start, i)
                      : snprintf(text, sizeof text, "%.*s", (int)length, start);
      declare(p, text, (size_t)made, (em_operand){.kind = predicate ? EM_PREDICATE : EM_REGISTER, .slot = (*next)++});
    }
  } while (take(p, ','));
  expect(p, ';');
}

/* .align 4 .b8 name[16] (= {…}); the place is given by the space. */
static void variable(parser *p, const char *space, size_t space_length, bool external) {
  const char *start;
  size_t length = word(p, &start), align = 1, size, count = 1;
  if (word_is(start, length, ".align")) {
    align = (size_t)read_number(p);
    length = word(p, &start);
  }
  size = size_of_type(start, length);
  if (align < size) align = size;
  length = word(p, &start);
  if (take(p, '[')) {
    skip(p);
    count = *p->at == ']' ? 0 : (size_t)read_number(p);
    expect(p, ']');
  }
  if (word_is(space, space_length, ".shared")) {
    if (external) { /* after all that is declared: its place is known at the kernel's end, and is a multiple of 1024 */
      declare(p, start, length, number(p, EM_DYNAMIC_SHARED));
    } else {
      size_t *bytes = p->kernel ? &p->kernel->shared_bytes : &p->module->shared_bytes;
      size_t at = (*bytes + align - 1) / align * align;
      *bytes = at + size * count;
      declare(p, start, length, number(p, at));
    }
  } else if (word_is(space, space_length, ".local") || word_is(space, space_length, ".param")) { /* the latter: of a call */
    em_kernel *k = p->kernel;
    size_t at = (k->local_bytes + align - 1) / align * align;
    k->local_bytes = at + size * count;
    declare(p, start, length, number(p, (space[1] == 'p' ? EM_GENERIC_BASE(EM_LOCAL) : 0) + at));
  } else {
    unsigned char *memory = em_memory_allocate(size * count > 0 ? size * count : 1, 0);
    own(p->module, memory);
    declare(p, start, length, number(p, (uint64_t)(uintptr_t)memory));
    if (take(p, '=')) {
      bool list = take(p, '{');
      size_t i = 0;
      do {
        uint64_t value = read_number(p);
        if (i < count) memcpy(memory + i++ * size, &value, size);
      } while (list && take(p, ','));
      if (list) expect(p, '}');
    }
  }
  expect(p, ';');
}

/* ---- instructions ---------------------------------------------------------------------------- */
static em_insn *new_insn(parser *p) {
  em_kernel *k = p->kernel;
  if (k->count == p->code_room) {
    p->code_room = p->code_room ? 2 * p->code_room : 256;
    k->code = realloc(k->code, (size_t)p->code_room * sizeof *k->code);
  }
  em_insn *i = &k->code[k->count++];
  *i = (em_insn){.guard = -1, .line = p->line, .width = 1};
  return i;
}

static void instruction(parser *p, const char *start, size_t length, em_operand guard) {
  reading r = {.operand_count = 0};
  em_insn *i = new_insn(p);
  i->opcode = own(p->module, strndup(start, length));
  if (guard.kind == EM_PREDICATE) i->guard = guard.slot, i->guard_negated = guard.negated;
  skip(p);
  if (p->end && !strncmp(i->opcode, "ret", 3)) {
    i->opcode = "bra";
    r.groups[r.group_count++] = (em_group){.first = 0, .count = 1};
    add(p, &r, (em_operand){.kind = EM_LABEL, .slot = -1, .fixed = (const void *)p->end});
  } else if (*p->at != ';') {
    do group(p, &r);
    while (take(p, ',') && !p->failed);
  }
  expect(p, ';');
  i->operands = own(p->module, calloc((size_t)r.operand_count + 1, /* one more: fuse.c */
                                      sizeof *i->operands));
  memcpy(i->operands, r.operands, (size_t)r.operand_count * sizeof *i->operands);
  i->groups = own(p->module, calloc((size_t)r.group_count + 1, sizeof *i->groups));
  memcpy(i->groups, r.groups, (size_t)r.group_count * sizeof *i->groups);
  i->group_count = r.group_count;
  if (!em_decode(i)) fail(p, "the emulator does not know `%s`", i->opcode);
}

/* ---- calls ----------------------------------------------------------------------------------- */
static void body(parser *p);

/* (a, b): how many */
static int names(parser *p, text_name *out) {
  int count = 0;
  if (!take(p, '(')) return 0;
  while (!take(p, ')') && !p->failed) {
    text_name n;
    n.length = word(p, &n.at);
    if (count == MOST_PARAMETERS || !n.length) fail(p, "not expected: `%.20s`", p->at);
    else out[count++] = n;
    take(p, ',');
  }
  return count;
}

static void give(parser *p, const text_name *inside, int count, const em_operand *what) {
  for (int i = 0; i < count; i++) declare(p, inside[i].at, inside[i].length, what[i]);
}

static void take_operands(parser *p, const text_name *outside, int count, int wanted, em_operand *out) {
  if (count != wanted) fail(p, "a call with %d for %d", count, wanted);
  for (int i = 0; i < count && !p->failed; i++) {
    const em_operand *known = find(p, outside[i].at, outside[i].length);
    if (known) out[i] = *known;
    else fail(p, "`%.*s` is not known", (int)outside[i].length, outside[i].at);
  }
}

/* call.uni (result), name, (a, b);   is the function's body, with its own names for what it is given */
static void call(parser *p) {
  text_name result[MOST_PARAMETERS], given[MOST_PARAMETERS], called;
  em_operand results[MOST_PARAMETERS], parameters[MOST_PARAMETERS], *outer = p->end;
  const function *f = NULL;
  int result_count = names(p, result), given_count;
  take(p, ',');
  called.length = word(p, &called.at);
  take(p, ',');
  given_count = names(p, given);
  expect(p, ';');
  for (int i = 0; i < p->function_count; i++)
    if (p->functions[i].name.length == called.length && !memcmp(p->functions[i].name.at, called.at, called.length)) f = &p->functions[i];
  if (!f) fail(p, "`%.*s` is no function of this text", (int)called.length, called.at);
  if (!f || p->depth > 32) return;
  take_operands(p, result, result_count, f->result_count, results);
  take_operands(p, given, given_count, f->parameter_count, parameters);
  if (p->failed) return;
  const char *at = p->at;
  int line = p->line;
  p->scopes[++p->depth] = ++p->scope;
  give(p, f->results, result_count, results);
  give(p, f->parameters, given_count, parameters);
  p->end = declare(p, "$end", 4, (em_operand){.kind = EM_LABEL, .slot = -1});
  p->at = f->body;
  p->line = f->line;
  em_operand *end = p->end;
  body(p);
  end->slot = p->kernel->count;
  if (p->failed) return; /* its line is said */
  p->end = outer;
  p->at = at;
  p->line = line;
}

static void body(parser *p) {
  const int first = p->depth;
  while (!p->failed) {
    const char *start;
    skip(p);
    if (!*p->at) {
      fail(p, "the text ends inside of a kernel");
    } else if (take(p, '{')) {
      p->scopes[++p->depth] = ++p->scope;
    } else if (take(p, '}')) {
      if (p->depth-- == first) return;
    } else if (take(p, ';')) {
    } else if (*p->at == '@') {
      p->at++;
      em_operand guard = single(p);
      size_t length = word(p, &start);
      if (!strncmp(start, "call", 4)) fail(p, "a call behind a condition");
      instruction(p, start, length, guard);
    } else {
      size_t length = word(p, &start);
      if (!length) {
        fail(p, "not expected: `%.20s`", p->at);
      } else if (*p->at == ':') { /* a label, perhaps named before */
        p->at++;
        em_operand *known = find(p, start, length);
        if (!known || known->kind != EM_LABEL) known = declare(p, start, length, (em_operand){.kind = EM_LABEL});
        known->slot = p->kernel->count;
      } else if (word_is(start, length, ".reg")) {
        registers(p);
      } else if (word_is(start, length, ".shared") || word_is(start, length, ".local") || word_is(start, length, ".param")) {
        variable(p, start, length, false);
      } else if (word_is(start, length, "call") || word_is(start, length, "call.uni")) {
        call(p);
      } else if (*start == '.') { /* .pragma, .loc */
        p->at += strcspn(p->at, ";\n");
        take(p, ';');
      } else {
        instruction(p, start, length, (em_operand){0});
      }
    }
  }
}

/* Jumps get their targets; what lies behind what is declared of shared memory, its place. */
static void finish(parser *p) {
  em_kernel *k = p->kernel;
  uint64_t dynamic = (k->shared_bytes + 1023) / 1024 * 1024;
  em_insn *end = new_insn(p);
  end->opcode = "exit";
  end->operands = own(p->module, calloc(1, sizeof *end->operands));
  end->groups = own(p->module, calloc(1, sizeof *end->groups));
  em_decode(end);
  k->dynamic_at = (size_t)dynamic;
  for (int i = 0; i < k->count; i++)
    for (int g = 0; g < k->code[i].group_count; g++)
      for (int o = 0; o < k->code[i].groups[g].count; o++) {
        em_operand *operand = &k->code[i].operands[k->code[i].groups[g].first + o];
        if (operand->kind == EM_FIXED && operand->fixed[0] == EM_DYNAMIC_SHARED) {
          em_operand placed = number(p, dynamic);
          operand->fixed = placed.fixed;
        }
        if (operand->kind == EM_LABEL) {
          operand->slot = ((const em_operand *)(const void *)operand->fixed)->slot;
          if (operand->slot < 0) fail(p, "a label of `%s` is nowhere", k->code[i].opcode);
        }
      }
}

/* .param .align 4 .b8 name[16] */
static text_name parameter(parser *p, size_t *align, size_t *bytes) {
  text_name n;
  size_t count = 1, size, length = word(p, &n.at); /* .param */
  *align = 1;
  length = word(p, &n.at);
  if (word_is(n.at, length, ".align")) {
    *align = (size_t)read_number(p);
    length = word(p, &n.at);
  }
  size = size_of_type(n.at, length);
  if (*align < size) *align = size;
  n.length = word(p, &n.at);
  if (take(p, '[')) {
    count = (size_t)read_number(p);
    expect(p, ']');
  }
  *bytes = size * count;
  return n;
}

static int parameters(parser *p, text_name *out) {
  size_t align, bytes;
  int count = 0;
  if (!take(p, '(')) return 0;
  while (!take(p, ')') && !p->failed) {
    if (count == MOST_PARAMETERS) fail(p, "too many parameters");
    else out[count++] = parameter(p, &align, &bytes);
    take(p, ',');
  }
  return count;
}

/* .func (result) name (a, b) { .. }, or ; in place of the body. */
static void note_function(parser *p) {
  function f = {.result_count = 0};
  int depth = 0;
  f.result_count = parameters(p, f.results);
  f.name.length = word(p, &f.name.at);
  f.parameter_count = parameters(p, f.parameters);
  while (*p->at && *p->at != '{' && !take(p, ';')) skip(p), p->at += *p->at != '{' && *p->at != ';';
  if (*p->at != '{' || p->failed) return;
  f.body = p->at + 1;
  f.line = p->line;
  if (p->function_count == MOST_FUNCTIONS) fail(p, "too many functions");
  else p->functions[p->function_count++] = f;
  do {
    depth += (*p->at == '{') - (*p->at == '}');
    p->line += *p->at == '\n';
  } while (*++p->at && depth);
}

/* Of the whole text, before the kernels that call them. */
static void note_functions(parser *p) {
  const char *text = p->at;
  for (const char *at = strstr(text, ".func"); at && !p->failed; at = strstr(p->at, ".func")) {
    for (; p->at < at; p->at++) p->line += *p->at == '\n';
    p->at = at + 5;
    note_function(p);
  }
  p->at = text;
  p->line = 1;
}

static void entry(parser *p) {
  const char *start;
  size_t length = word(p, &start);
  em_kernel *k = own(p->module, calloc(1, sizeof *k));
  p->kernel = k;
  p->code_room = 0;
  k->name = own(p->module, strndup(start, length));
  k->shared_bytes = p->module->shared_bytes;
  p->scopes[++p->depth] = ++p->scope;
  if (take(p, '(')) {
    while (!take(p, ')') && !p->failed) {
      size_t align, bytes;
      text_name n = parameter(p, &align, &bytes);
      size_t at = (k->parameter_bytes + align - 1) / align * align;
      k->parameters[k->parameter_count].at = at;
      k->parameters[k->parameter_count++].bytes = bytes;
      k->parameter_bytes = at + bytes;
      declare(p, n.at, n.length, number(p, EM_GENERIC_BASE(EM_PARAM) + at));
      take(p, ',');
    }
  }
  while (!take(p, '{') && !p->failed) {
    length = word(p, &start);
    int numbers[3] = {1, 1, 1}, count = 0;
    skip(p);
    while (isdigit((unsigned char)*p->at) && count < 3) {
      numbers[count++] = (int)read_number(p);
      if (!take(p, ',')) break;
      skip(p);
    }
    if (word_is(start, length, ".maxntid") || word_is(start, length, ".reqntid"))
      k->most_threads = numbers[0] * numbers[1] * numbers[2];
    if (word_is(start, length, ".reqnctapercluster")) memcpy(k->cluster, numbers, sizeof k->cluster);
    if (!length) fail(p, "not expected: `%.20s`", p->at);
  }
  if (!k->cluster[0]) k->cluster[0] = k->cluster[1] = k->cluster[2] = 1;
  body(p);
  if (!p->failed) finish(p);
  if (!p->failed) em_fuse(k);
  em_module *m = p->module;
  p->kernel = NULL;
  m->kernels = realloc(m->kernels, (size_t)(m->kernel_count + 1) * sizeof *m->kernels);
  m->kernels[m->kernel_count++] = k;
}

static void top(parser *p) {
  const char *start;
  size_t length = word(p, &start);
  if (word_is(start, length, ".visible") || word_is(start, length, ".weak")) return;
  if (word_is(start, length, ".version") || word_is(start, length, ".target") || word_is(start, length, ".address_size") ||
      word_is(start, length, ".file") || word_is(start, length, ".explicitcluster")) {
    p->at += strcspn(p->at, "\n");
  } else if (word_is(start, length, ".extern")) {
    length = word(p, &start);
    variable(p, start, length, true);
  } else if (word_is(start, length, ".global") || word_is(start, length, ".const") || word_is(start, length, ".shared")) {
    variable(p, start, length, false);
  } else if (word_is(start, length, ".entry")) {
    entry(p);
  } else if (word_is(start, length, ".func")) {
    int known = p->function_count;
    note_function(p); /* it was noted before */
    p->function_count = known;
  } else {
    fail(p, "not known at this place: `%.*s`", length ? (int)length : 20, start);
  }
}

em_module *em_module_parse(const char *text, char *error, size_t error_bytes) {
  em_module *m = calloc(1, sizeof *m);
  parser *p = calloc(1, sizeof *p);
  *p = (parser){.at = text, .line = 1, .module = m, .error = error, .error_bytes = error_bytes};
  note_functions(p);
  for (skip(p); *p->at && !p->failed; skip(p)) top(p);
  bool failed = p->failed;
  free(p);
  if (!failed) return m;
  em_module_free(m);
  return NULL;
}

void em_module_free(em_module *m) {
  if (!m) return;
  for (int i = 0; i < m->kernel_count; i++) free(m->kernels[i]->code);
  free(m->kernels);
  for (int i = 0; i < m->owned_count; i++)
    if (!em_memory_release(m->owned[i])) free(m->owned[i]);
  free(m->owned);
  free(m);
}

em_kernel *em_module_kernel(em_module *m, const char *name) {
  for (int i = 0; i < m->kernel_count; i++)
    if (!strcmp(m->kernels[i]->name, name)) return m->kernels[i];
  return NULL;
}
