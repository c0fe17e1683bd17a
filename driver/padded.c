/* padded.c - operands that may lie with padding: --padded=x,y%8.
 *
 * How far places of such a tensor lie apart, row from row, matrix of a batch from matrix, are dims of their own that no
 * shape settles: the caller's tensors do.  Nothing changes for tensors that are not named. */
#include <stdlib.h>

#include "driver/driver.h"

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool can_be_padded(const ir_tensor *t) {
  bool callers = t->role == IR_ROLE_IN || t->role == IR_ROLE_OUT;
  return callers && t->rank >= 2 && t->dtype && !t->like &&
         (!t->format || ir_format_is_dense(t->format));
}

static void pad(ir_program *program, const ir_kernel *kernel, ir_tensor *t, int64_t multiple) {
  for (int l = 0; l + 1 < t->rank; l++) {
    int axis = t->format ? t->format->level[l].dim : l;
    const char *name = l + 2 < t->rank
                           ? ir_format_text(program->arena, "%s.%s.stride%d", kernel->name, t->name, axis)
                           : ir_format_text(program->arena, "%s.%s.pitch", kernel->name, t->name);
    ir_dim *dim = ir_dim_new(program, name);
    dim->multiple = multiple;
    t->pitch[l] = ir_dim_ref(program->arena, dim);
  }
}

/* In every kernel that has it and is not lowered yet; false: none has. */
static bool pad_named(ir_program *program, const char *name, int64_t multiple) {
  bool found = false;
  for (int k = 0; k < program->kernels.count; k++) {
    ir_kernel *kernel = program->kernels.at[k];
    ir_tensor *t = kernel->stages.count ? NULL : ir_tensor_named(kernel, name);
    if (!t || !can_be_padded(t)) continue;
    found = true;
    if (!t->pitch[0]) pad(program, kernel, t, multiple);
  }
  return found;
}

spc_status drv_set_padded(drv_session *s) {
  const char *at = s->options.padded;
  while (at && *at) {
    const char *first = at += strspn(at, ", ");
    while (is_name(*at)) at++;
    const char *name = ir_strndup(s->arena, first, (size_t)(at - first));
    int64_t multiple = 1;
    char *end = (char *)at;
    if (*at == '%') multiple = strtoll(at + 1, &end, 10);
    at = end;
    bool reads = *name && multiple > 0 && (!*at || *at == ',' || *at == ' ');
    if (reads && pad_named(s->program, name, multiple)) continue;
    ir_diag_add(s->sink, IR_DIAG_PADDED, IR_NOWHERE,
                reads ? "padded: `%s` is no dense input or output with rows, in any kernel"
                      : "padded: `%s` is not followed by `%%N`, a comma or the end",
                name);
    return SPC_INVALID_INPUT;
  }
  return SPC_OK;
}

void drv_forget_padded(ir_program *program) {
  for (int k = 0; k < program->kernels.count; k++)
    for (int i = 0; i < program->kernels.at[k]->tensors.count; i++)
      memset(program->kernels.at[k]->tensors.at[i]->pitch, 0, sizeof(ir_expr *[IR_MAX_RANK]));
}
