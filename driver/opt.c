/* opt.c - `spc opt`: passes over a program, IR out. */
#include "driver/driver.h"

static int list_passes(drv_session *s) {
  ir_text text = ir_text_new(s->arena);
  for (int i = 0; i < pass_row_count; i++)
    ir_text_printf(&text, "%-4d %-10s %s\n", pass_rows[i].number, pass_rows[i].name,
                   pass_rows[i].meaning);
  return drv_finish(s, drv_write_file(s, s->options.output, text.data, text.length));
}

int drv_opt(drv_session *s) {
  if (s->options.list_passes) return list_passes(s);
  if (s->arguments.items.count != 1)
    return drv_usage_error(s, "opt wants one file; see `spc help opt`");
  ir_text text = ir_text_new(s->arena);
  spc_status status = drv_load(s, s->arguments.items.at[0]);
  const ir_target *target = status ? NULL : drv_target_of(s, DRV_CPU, NULL);
  if (!status && !target) status = SPC_INVALID_ARGUMENT;
  if (!status) status = drv_run_passes_defined(s, target);
  if (!status) {
    ir_print(s->program, &text);
    status = drv_write_file(s, s->options.output, text.data, text.length);
  }
  return drv_finish(s, status);
}
