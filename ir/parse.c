/* parse.c - IR text to a program: header, dims and the items of kernels.
 *
 * A text that was read is verified before it is handed out, so that nothing behind this door meets
 * a program that breaks the rules.  docs/ir.md specifies the form. */
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"

/* ---- header -------------------------------------------------------------------------------- */
static void read_version(ir_reader *r) {
  ir_read_expect(r, "spc.ir");
  ir_span span = r->token.span;
  int64_t version = ir_read_int(r, 0, INT32_MAX);
  if (version != 1) ir_read_fail(r, span, "this compiler reads version 1 of the IR text");
  ir_read_expect(r, ";");
}

static bool read_flag(ir_reader *r, const char *word, bool *flag) {
  if (!ir_read_if(r, word)) return false;
  *flag = true;
  ir_read_expect(r, ";");
  return true;
}

static bool read_header_line(ir_reader *r) {
  ir_program *program = r->program;
  if (ir_read_if(r, "target")) {
    program->target = ir_read_name(r);
    ir_read_expect(r, ";");
    return true;
  }
  if (ir_read_if(r, "after")) {
    program->after = (int)ir_read_int(r, 1, INT32_MAX);
    if (!ir_read_at(r, ";")) program->after_name = ir_read_name(r);
    ir_read_expect(r, ";");
    return true;
  }
  return read_flag(r, "strict_nan", &program->strict_nan) ||
         read_flag(r, "reproducible", &program->reproducible) ||
         read_flag(r, "batch_invariant", &program->batch_invariant) ||
         read_flag(r, "unpacked", &program->unpacked);
}

/* dim T : dyn % 8 <= 4096;   dim D = 64; */
static void read_dim(ir_reader *r) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (!ir_read_is_new(r, name, span) || !ir_read_room(r, r->program->dims.count)) return;
  ir_dim *dim = ir_dim_new(r->program, name);
  dim->span = span;
  if (ir_read_if(r, "=")) {
    dim->value = ir_read_int(r, 0, INT64_MAX);
  } else {
    ir_read_expect(r, ":");
    ir_read_expect(r, "dyn");
    if (ir_read_if(r, "%")) dim->multiple = ir_read_int(r, 1, INT64_MAX);
    if (ir_read_if(r, "<=")) dim->bound = ir_read_int(r, 0, INT64_MAX);
  }
  ir_read_expect(r, ";");
}

/* ---- kernels ------------------------------------------------------------------------------- */
static void read_kernel_schedule(ir_reader *r) {
  ir_span span = r->token.span;
  int64_t n = ir_read_int(r, 0, INT32_MAX);
  ir_read_expect(r, ";");
  if (n < r->program->schedules.count)
    r->kernel->schedule = r->program->schedules.at[n];
  else
    ir_read_fail(r, span, "there are %d schedules, counted from 0", r->program->schedules.count);
}

static void read_item(ir_reader *r) {
  static const char *const words[] = {"in",   "let",       "out",   "temp",     "index",
                                      "stmt", "candidate", "buf",   "list",     "stage",
                                      "func", "fragment",  "needs", "schedule", NULL};
  switch (ir_read_word(r, words, "a line of a kernel")) {
  case 0: ir_read_tensor_line(r, IR_ROLE_IN); break;
  case 1: ir_read_tensor_line(r, IR_ROLE_LET); break;
  case 2: ir_read_tensor_line(r, IR_ROLE_OUT); break;
  case 3: ir_read_tensor_line(r, IR_ROLE_TEMP); break;
  case 4: ir_read_index_line(r); break;
  case 5: ir_read_stmt(r); break;
  case 6: ir_read_candidate(r); break;
  case 7: ir_read_workspace(r); break;
  case 8: ir_read_list(r); break;
  case 9: ir_read_stage(r); break;
  case 10: ir_read_func(r, IR_FUNC_KERNEL); break;
  case 11: ir_read_func(r, IR_FUNC_FRAGMENT); break;
  case 12: ir_read_need(r); break;
  default: read_kernel_schedule(r); break;
  }
}

static void read_kernel(ir_reader *r) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  if (r->failed || !ir_read_room(r, r->program->kernels.count)) return;
  if (ir_kernel_named(r->program, name))
    ir_read_fail(r, span, "the kernel `%s` is declared twice", name);
  r->kernel = ir_kernel_new(r->program, name);
  r->kernel->span = span;
  r->workspaces = r->lists = r->funcs = r->bufs = (ir_table){0};
  r->kernel->wide = ir_read_if(r, "positions");
  if (r->kernel->wide) ir_read_expect(r, "i64");
  ir_read_expect(r, "{");
  while (!ir_read_done(r, "}")) read_item(r);
  ir_read_expect(r, "}");
  ir_read_resolve(r);
  r->kernel = NULL;
}

static void read_program(ir_reader *r) {
  static const char *const words[] = {"dim", "format", "schedule", "kernel", NULL};
  read_version(r);
  while (read_header_line(r)) {}
  while (r->token.kind != IR_TOKEN_END) {
    int item = ir_read_word(r, words, "a line of a program");
    if (r->failed) return;
    if (item == 0)
      read_dim(r);
    else if (item == 1)
      ir_read_format_declaration(r);
    else if (item == 2)
      ir_read_schedule(r);
    else
      read_kernel(r);
  }
}

/* ---- the door ------------------------------------------------------------------------------ */
static const char header[] = "spc.ir";

bool ir_looks_like_ir(const char *text, size_t length) {
  size_t at = 0;
  while (at < length) {
    bool comment = length - at >= 2 && text[at] == '/' && text[at + 1] == '/';
    bool space = strchr(" \t\r\n", text[at]) && text[at];
    if (!comment && !space) break;
    while (comment && at < length && text[at] != '\n') at++;
    at += at < length;
  }
  return length - at >= sizeof header - 1 && !memcmp(text + at, header, sizeof header - 1);
}

static ir_program *read_text(ir_arena *arena, const char *name, const char *text, size_t length,
                             ir_sink *sink) {
  ir_reader r = {.arena = arena, .sink = sink, .text = text, .length = length};
  r.file = ir_sink_source(sink, name, text, length);
  r.program = ir_program_new(arena);
  r.token.kind = IR_TOKEN_END;
  if (length > IR_MOST_TEXT) ir_read_fail(&r, IR_NOWHERE, "a text of more than 64 MB");
  ir_read_token(&r);
  read_program(&r);
  return r.failed ? NULL : r.program;
}

spc_status ir_parse(ir_arena *arena, const char *name, const char *text, size_t length,
                    ir_sink *sink, ir_program **out) {
  ir_program *program = read_text(arena, name, text, length, sink);
  if (!program) return SPC_INVALID_INPUT;
  if (ir_verify_as(program, IR_DIAG_IR_RULE, sink) != SPC_OK) return SPC_INVALID_INPUT;
  *out = program;
  return SPC_OK;
}

ir_program *ir_clone(ir_arena *arena, const ir_program *program) {
  ir_text text = ir_text_new(arena);
  ir_print(program, &text);
  ir_program *copy = read_text(arena, "", text.data, text.length, NULL);
  if (copy) ir_copy_spans(copy, program);
  return copy;
}
