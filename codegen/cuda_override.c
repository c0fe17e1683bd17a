/* cuda_override.c - a kernel that somebody edited, in place of the text that was emitted.
 *
 * `--emit=cuda -o DIR/` writes DIR/KERNEL.STAGE.cuda; a file of that name (or ending in .cu) in the
 * override folder is what runs.  It is the user's text: the log gate does not replace it, and a
 * fault in it is the user's error.  Its first line says which kernel row it was emitted for, its
 * code for what launch: one that was emitted for other sizes, say, may want other blocks (a team of
 * 256 threads in a block of 128 never ends).  A text for another row or another launch is refused. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "codegen/cuda.h"

const char *cg_code_name(ir_arena *arena, const ir_image *image, int i) {
  const ir_code_image *code = &image->codes.at[i];
  int part = 0, parts = 0;
  for (int j = 0; j < image->codes.count; j++) {
    const ir_code_image *other = &image->codes.at[j];
    if (other->stage != code->stage || other->stands_in != code->stands_in) continue;
    parts++;
    part += j < i;
  }
  const char *kernel = image->kernel->name, *stage = code->stage->name;
  const char *way = code->stands_in ? "-unaligned" : "";
  return parts > 1 ? ir_format_text(arena, "%s.%s%s-%d", kernel, stage, way, part)
                   : ir_format_text(arena, "%s.%s%s", kernel, stage, way);
}

typedef struct overriding {
  ir_arena *arena;
  ir_image *image;
  const char *folder;
  ir_sink *sink;
} overriding;

static spc_status unfit(const overriding *o, const char *path, const char *why) {
  ir_diag_add(o->sink, IR_DIAG_OVERRIDE, IR_NOWHERE, "`%s` cannot run: %s", path, why);
  return SPC_INVALID_INPUT;
}

/* NULL text: there is no such file. */
static spc_status read_file(const overriding *o, const char *path, const char **out) {
  char part[4096];
  size_t got;
  ir_text text = ir_text_new(o->arena);
  *out = NULL;
  FILE *file = fopen(path, "rb");
  if (!file) return errno == ENOENT ? SPC_OK : unfit(o, path, strerror(errno));
  while ((got = fread(part, 1, sizeof part, file)) > 0) ir_text_putn(&text, part, got);
  const char *why = ferror(file)                      ? strerror(errno)
                    : strlen(text.data) < text.length ? "it is no text"
                                                      : NULL;
  fclose(file);
  if (why) return unfit(o, path, why);
  *out = text.data;
  return SPC_OK;
}

/* The first line of an emitted text names kernel, stage and row; an edit may have dropped it. */
static spc_status check_row(const overriding *o, const char *path, const char *own,
                            const char *emitted) {
  size_t length = strcspn(emitted, "\n"), written = strcspn(own, "\n");
  if (strncmp(own, "// ", 3) || !strstr(ir_strndup(o->arena, own, written), ", stage "))
    return SPC_OK;
  if (length == written && !strncmp(own, emitted, length)) return SPC_OK;
  return unfit(
      o, path,
      ir_format_text(o->arena,
                     "it was emitted for `%.*s`, and the stage's kernel is now `%.*s`; emit "
                     "it again and edit that",
                     (int)written - 3, own + 3, (int)length - 3, emitted + 3));
}

/* ---- what a text says of its launch ---------------------------------------------------------- */
/* The number behind the first such words; -1: there is none. */
static long number_behind(const char *text, const char *words) {
  const char *at = strstr(text, words);
  if (!at || !isdigit((unsigned char)at[strlen(words)])) return -1;
  return strtol(at + strlen(words), NULL, 10);
}

/* A composed kernel's attributes name constants of its Config. */
static long attribute(const char *text, const char *words, const char *constant) {
  long number = number_behind(text, words);
  return number >= 0 || !strstr(text, words) ? number : number_behind(text, constant);
}

static long threads_of(const char *text) { return attribute(text, "launch_bounds__(", " threads = "); }

static long cluster_of(const char *text) {
  if (!strstr(text, "cluster_dims__(")) return 1;
  long number = attribute(text, "cluster_dims__(", " cluster = ");
  return number >= 0 ? number : number_behind(text, " split = ");
}

/* x.vals = buf[0], ..; NULL: an edit has dropped the line */
static const char *arrays_of(ir_arena *arena, const char *text) {
  const char *first = strstr(text, " = buf[0]"), *line = first;
  while (line && line > text && line[-1] != '\n') line--;
  return line && !strncmp(line, "// ", 3) ? ir_strndup(arena, line + 3, strcspn(line + 3, "\n")) : NULL;
}

static spc_status check_launch(const overriding *o, const char *path, const char *own, const char *emitted) {
  const struct {
    const char *is, *has;
    long own, now;
    bool less_will_do;
  } all[] = {{"it is made for blocks of %ld threads", "has %ld a block", threads_of(own), threads_of(emitted), false},
             {"it is made for clusters of %ld", "has clusters of %ld", cluster_of(own), cluster_of(emitted), false},
             {"it takes %ld bytes of shared memory", "gives it %ld", number_behind(own, " shared_bytes = "),
              number_behind(emitted, " shared_bytes = "), true}};
  for (int i = 0; i < IR_COUNT(all); i++) {
    if (all[i].own < 0 || all[i].now < 0 || all[i].own == all[i].now || (all[i].less_will_do && all[i].own < all[i].now)) continue;
    ir_text why = ir_text_new(o->arena);
    ir_text_printf(&why, all[i].is, all[i].own);
    ir_text_put(&why, ", and the stage's launch now ");
    ir_text_printf(&why, all[i].has, all[i].now);
    ir_text_put(&why, "; emit it again and edit that");
    return unfit(o, path, why.data);
  }
  const char *arrays = arrays_of(o->arena, own), *now = arrays_of(o->arena, emitted);
  if (!arrays || !now || !strcmp(arrays, now)) return SPC_OK;
  return unfit(o, path, ir_format_text(o->arena, "it was emitted for the arrays `%s`, and the stage's launch now has `%s`; emit it again and edit that",
                                       arrays, now));
}

static spc_status override_one(const overriding *o, int i, int *found) {
  static const char *const endings[] = {"cuda", "cu"};
  ir_code_image *code = &o->image->codes.at[i];
  if (code->library) return SPC_OK;
  for (int e = 0; e < IR_COUNT(endings); e++) {
    const char *own, *path = ir_format_text(o->arena, "%s/%s.%s", o->folder,
                                            cg_code_name(o->arena, o->image, i), endings[e]);
    SPC_TRY(read_file(o, path, &own));
    if (!own) continue;
    *found += 1;
    if (!strcmp(own, code->source)) return SPC_OK; /* emitted, not edited */
    SPC_TRY(check_row(o, path, own, code->source));
    SPC_TRY(check_launch(o, path, own, code->source));
    code->source = own;
    code->path = path;
    ir_diag_add(o->sink, IR_DIAG_OVERRIDDEN, IR_NOWHERE,
                "stage `%s`: `%s` runs instead of the emitted text", code->stage->name, path);
    return SPC_OK;
  }
  return SPC_OK;
}

static void say_what_is_missing(const overriding *o) {
  ir_text names = ir_text_new(o->arena);
  for (int i = 0; i < o->image->codes.count; i++)
    if (!o->image->codes.at[i].library)
      ir_text_printf(&names, "%s%s.cuda", i ? ", " : "", cg_code_name(o->arena, o->image, i));
  ir_diag_add(o->sink, IR_DIAG_OVERRIDDEN, IR_NOWHERE,
              "`%s` has nothing for kernel `%s`; its files would be %s", o->folder,
              o->image->kernel->name, names.data);
}

spc_status cg_override(ir_arena *arena, ir_image *image, const char *folder, ir_sink *sink) {
  const overriding o = {arena, image, folder, sink};
  struct stat info;
  int found = 0;
  if (stat(folder, &info) || !S_ISDIR(info.st_mode))
    return unfit(&o, folder, "it is no folder of edited kernels");
  for (int i = 0; i < image->codes.count; i++) SPC_TRY(override_one(&o, i, &found));
  if (!found && image->codes.count) say_what_is_missing(&o);
  return SPC_OK;
}

spc_status cg_override_failed(const ir_code_image *code, const char *arch, const char *log,
                              ir_sink *sink) {
  size_t length = strlen(log);
  ir_diag_add(sink, IR_DIAG_OVERRIDE, IR_NOWHERE,
              "`%s` cannot run: it does not compile for %s:\n%s", code->path, arch,
              length > 1500 ? log + length - 1500 : log);
  return SPC_INVALID_INPUT;
}

/* A kernel that was renamed would only be missed when the driver looks for it. */
spc_status cg_override_check(const ir_code_image *code, const char *fault, ir_sink *sink) {
  size_t length = strlen(code->entry);
  const char *at = code->cubin, *end = at + code->cubin_bytes;
  while (at + length < end && (at = memchr(at, code->entry[0], (size_t)(end - at) - length)))
    if (!memcmp(at++, code->entry, length)) break;
  if (!at || at + length >= end) {
    ir_diag_add(sink, IR_DIAG_OVERRIDE, IR_NOWHERE,
                "`%s` cannot run: it has no kernel `%s`, declared extern \"C\"", code->path,
                code->entry);
    return SPC_INVALID_INPUT;
  }
  if (fault)
    ir_diag_add(sink, IR_DIAG_OVERRIDDEN, IR_NOWHERE,
                "stage `%s`: %s in `%s`; it runs all the same", code->stage->name, fault,
                code->path);
  return SPC_OK;
}
