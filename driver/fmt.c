/* fmt.c - `spc fmt`: the canonical form of a file, to stdout or in place. */
#include "driver/driver.h"

#include <errno.h>

static spc_status format_one(drv_session *s, const char *path) {
  char *text;
  size_t length;
  fe_file *file;
  if (drv_read_file(s->arena, path, &text, &length)) {
    ir_diag_add(s->sink, IR_DIAG_FILE_READ, IR_NOWHERE, "cannot read `%s`: %s", path,
                strerror(errno));
    return SPC_IO;
  }
  SPC_TRY(fe_parse(s->arena, path, text, length, s->sink, &file));
  ir_text out = ir_text_new(s->arena);
  fe_format(file, text, &out);
  if (!s->options.in_place || !strcmp(path, "-"))
    return drv_write_file(s, s->options.output, out.data, out.length);
  if (out.length == length && !memcmp(out.data, text, length)) return SPC_OK;
  return drv_write_file(s, path, out.data, out.length);
}

int drv_fmt(drv_session *s) {
  spc_status worst = SPC_OK;
  if (!s->arguments.items.count)
    return drv_usage_error(s, "fmt wants files; `-` is standard input");
  for (int i = 0; i < s->arguments.items.count; i++) {
    spc_status status = format_one(s, s->arguments.items.at[i]);
    if (status) worst = status;
  }
  return drv_finish(s, worst);
}
