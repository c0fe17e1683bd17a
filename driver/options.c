/* options.c - the option table and its parser: a mistyped option gets one line and a suggestion. */
#include <stdlib.h>

#include "driver/driver.h"

const drv_option_row drv_option_rows[] = {
#define SPC_OPTION(NAME, COMMANDS, KIND, FIELD, VALUE, MEANING)                                    \
  {NAME, COMMANDS, DRV_##KIND, offsetof(drv_options, FIELD), VALUE, MEANING},
#include "driver/options.def"
#undef SPC_OPTION
};
const int drv_option_count = IR_COUNT(drv_option_rows);

static bool takes(const drv_session *s, const drv_option_row *row) {
  return strchr(row->commands, s->command) != NULL;
}

/* A spelling may have two rows: then the one that this command takes. */
static const drv_option_row *find(const drv_session *s, const char *text, size_t length) {
  const drv_option_row *other = NULL;
  for (int i = 0; i < drv_option_count; i++) {
    const drv_option_row *row = &drv_option_rows[i];
    if (strlen(row->name) != length || strncmp(row->name, text, length)) continue;
    if (takes(s, row)) return row;
    other = row;
  }
  return other;
}

static spc_status unknown(drv_session *s, const char *name) {
  const char *known[IR_COUNT(drv_option_rows)];
  int count = 0;
  for (int i = 0; i < drv_option_count; i++)
    if (takes(s, &drv_option_rows[i])) known[count++] = drv_option_rows[i].name;
  const char *near = ir_nearest(name, known, count);
  if (near)
    drv_usage_error(s, "no option `%s` for `spc %s`; did you mean `%s`?", name, s->command_name,
                    near);
  else
    drv_usage_error(s, "no option `%s` for `spc %s`; `spc help %s` lists them", name,
                    s->command_name, s->command_name);
  return SPC_INVALID_ARGUMENT;
}

static spc_status set(drv_session *s, const drv_option_row *row, const char *value) {
  char *field = (char *)&s->options + row->field;
  switch (row->kind) {
  case DRV_FLAG: *(bool *)(void *)field = true; return SPC_OK;
  case DRV_TEXT: *(const char **)(void *)field = value; return SPC_OK;
  case DRV_LIST: {
    drv_list *list = (drv_list *)(void *)field;
    IR_PUSH(s->arena, &list->items, value);
    return SPC_OK;
  }
  case DRV_NUMBER: {
    char *end;
    long long n = strtoll(value, &end, 10);
    if (end == value || *end || n < 0) {
      drv_usage_error(s, "%s wants a non-negative integer, not `%s`", row->name, value);
      return SPC_INVALID_ARGUMENT;
    }
    *(int64_t *)(void *)field = n;
    return SPC_OK;
  }
  }
  return SPC_INTERNAL;
}

/* One option at argv[*i]; moves *i over a value that stands apart. */
static spc_status parse_one(drv_session *s, int argc, char **argv, int *i) {
  const char *text = argv[*i], *value = NULL;
  size_t length = strcspn(text, "=");
  if (text[0] == '-' && text[1] == 'D' && text[2])
    length = 2, value = text + 2;
  else if (text[1] == '-' && text[length] == '=')
    value = text + length + 1;
  else
    length = strlen(text);
  const drv_option_row *row = find(s, text, length);
  if (!row || !takes(s, row)) return unknown(s, ir_strndup(s->arena, text, length));
  if (row->kind == DRV_FLAG && value) {
    drv_usage_error(s, "%s takes no value", row->name);
    return SPC_INVALID_ARGUMENT;
  }
  if (row->kind != DRV_FLAG && !value) {
    if (*i + 1 >= argc) {
      drv_usage_error(s, "%s wants a value: %s", row->name, row->value);
      return SPC_INVALID_ARGUMENT;
    }
    value = argv[++*i];
  }
  return set(s, row, value);
}

spc_status drv_parse_options(drv_session *s, int argc, char **argv) {
  bool only_arguments = false;
  for (int i = 0; i < argc; i++) {
    if (!only_arguments && !strcmp(argv[i], "--"))
      only_arguments = true;
    else if (only_arguments || argv[i][0] != '-' || !argv[i][1])
      IR_PUSH(s->arena, &s->arguments.items, argv[i]);
    else
      SPC_TRY(parse_one(s, argc, argv, &i));
  }
  return SPC_OK;
}
