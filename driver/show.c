/* show.c - `spc show`: the tables, printed from the tables. */
#include <stdlib.h>

#include "driver/driver.h"
#include "ir/kernels.h"
#include "ir/tables.h"
#include "passes/cost.h"

static void show_passes(drv_session *s, ir_text *t) {
  (void)s;
  ir_text_put(t, "| # | pass | does | needs | keeps |\n|---|---|---|---|---|\n");
  for (int i = 0; i < pass_row_count; i++)
    ir_text_printf(t, "| %d | `%s` | %s | %s | %s |\n", pass_rows[i].number, pass_rows[i].name,
                   pass_rows[i].meaning, pass_rows[i].needs, pass_rows[i].keeps);
}

static void show_targets(drv_session *s, ir_text *t) {
  (void)s;
  ir_text_put(t, "| target | kind | note |\n|---|---|---|\n");
  for (int i = 0; i < ir_target_count(); i++) {
    const ir_target *target = ir_target_at(i);
    const char *kind = target->kind == IR_TARGET_CUDA  ? "cuda"
                       : target->kind == IR_TARGET_CPU ? "cpu"
                                                       : "interp";
    ir_text_printf(t, "| `%s` | %s | ", target->name, kind);
    if (target->shared_bytes)
      ir_text_printf(t, "%d KiB of shared memory a block", target->shared_bytes / 1024);
    ir_text_put(t, " |\n");
  }
}

static void show_kernels(drv_session *s, ir_text *t) {
  (void)s;
  ir_text_put(
      t, "| kernel | skeleton | tile m x n x k | depth | threads | operands | layouts | least |\n"
         "|---|---|---|---|---|---|---|---|\n");
  for (int i = 0; i < ir_kernel_row_count; i++) {
    const ir_kernel_row *row = &ir_kernel_rows[i];
    ir_text_printf(t, "| `%s` | %s.cuh | %dx%dx%d | %d | %d |", row->name, row->skeleton, row->m,
                   row->n, row->k, row->depth, row->threads);
    for (int d = 1; d < IR_DTYPE_COUNT; d++)
      if (row->dtypes >> d & 1) ir_text_printf(t, " %s", ir_dtype_text((ir_dtype)d));
    ir_text_printf(t, " | A %c, B %c | sm_%d |\n", row->layout_a ? row->layout_a : '-',
                   row->layout_b ? row->layout_b : '-', row->least_arch);
  }
}

static void show_env(drv_session *s, ir_text *t) {
  (void)s;
  ir_text_put(t, "| switch | value | meaning |\n|---|---|---|\n");
#define SPC_ENV(NAME, VALUES, MEANING)                                                             \
  ir_text_printf(t, "| `%s` | %s | %s |\n", NAME, VALUES, MEANING);
#include "ir/env.def"
#undef SPC_ENV
}

static void show_profile(drv_session *s, ir_text *t) {
  const ir_target *target = drv_target_of(s, DRV_CPU, NULL);
  if (target) pass_profile_print(pass_profile_of(s->arena, target), t);
}

static void show_ops(drv_session *s, ir_text *t) {
  (void)s;
  ir_print_op_table(t);
}
static void show_dtypes(drv_session *s, ir_text *t) {
  (void)s;
  ir_print_dtype_table(t);
}
static void show_levels(drv_session *s, ir_text *t) {
  (void)s;
  ir_print_level_table(t);
}
static void show_diagnostics(drv_session *s, ir_text *t) {
  (void)s;
  ir_print_diag_table(t);
}

/* `bsr(64,64)` with the rank it is drawn for. */
static const ir_format *parse_format(drv_session *s, const char *text) {
  int64_t arguments[4];
  int count = 0;
  size_t length = strcspn(text, "(");
  const char *at = text + length, *why = "";
  while (*at && *at != ')' && count < 4) arguments[count++] = strtoll(at + 1, (char **)&at, 10);
  const char *name = ir_strndup(s->arena, text, length);
  static const int64_t sample[] = {4, 4};
  for (int rank = 2; rank <= 3; rank++)
    for (int given = 0; given < 2; given++) {
      if (given && count) break;
      for (int n = given ? 1 : count; n <= (given ? 2 : count); n++) {
        const ir_format *f =
            ir_format_builtin(s->arena, name, rank, given ? sample : arguments, n, &why);
        if (f) return f;
      }
    }
  return NULL;
}

static int show_format(drv_session *s, const char *name) {
  ir_text t = ir_text_new(s->arena);
  for (int i = 0; i < ir_format_builtin_count(); i++) {
    const char *builtin = ir_format_builtin_name(i);
    const ir_format *f = parse_format(s, name ? name : builtin);
    if (!f) {
      const char *known[32];
      for (int k = 0; k < ir_format_builtin_count(); k++) known[k] = ir_format_builtin_name(k);
      const char *near = ir_nearest(name ? name : builtin, known, ir_format_builtin_count());
      return drv_usage_error(s, "no format `%s`%s%s%s", name ? name : builtin,
                             near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
    }
    ir_text line = ir_text_new(s->arena);
    ir_format_print(f, &line);
    ir_text_printf(&t, "%-14s ", line.data);
    ir_format_print_map(f, &t);
    ir_text_put(&t, "\n");
    if (name) break;
  }
  return drv_finish(s, drv_write_file(s, NULL, t.data, t.length));
}

typedef struct topic {
  const char *name;
  void (*show)(drv_session *, ir_text *);
} topic;
static const topic topics[] = {
    {"ops", show_ops},       {"passes", show_passes},   {"dtypes", show_dtypes},
    {"levels", show_levels}, {"kernels", show_kernels}, {"diagnostics", show_diagnostics},
    {"env", show_env},       {"targets", show_targets}, {"profile", show_profile}};

int drv_show(drv_session *s) {
  const char *known[IR_COUNT(topics) + 1] = {"format"};
  int count = s->arguments.items.count;
  const char *name = count ? s->arguments.items.at[0] : "";
  if (count >= 1 && count <= 2 && !strcmp(name, "format"))
    return show_format(s, count == 2 ? s->arguments.items.at[1] : NULL);
  for (int i = 0; i < IR_COUNT(topics); i++) {
    known[i + 1] = topics[i].name;
    if (count != 1 || strcmp(topics[i].name, name)) continue;
    ir_text t = ir_text_new(s->arena);
    topics[i].show(s, &t);
    if (!t.length) return drv_exit_code(SPC_INVALID_ARGUMENT); /* no such target: it was said */
    return drv_finish(s, drv_write_file(s, NULL, t.data, t.length));
  }
  const char *near = count ? ir_nearest(name, known, IR_COUNT(known)) : NULL;
  if (near) return drv_usage_error(s, "show knows no `%s`; did you mean `%s`?", name, near);
  return drv_usage_error(s, "show wants one of format, ops, passes, dtypes, levels, kernels, "
                            "diagnostics, env, targets, profile");
}
