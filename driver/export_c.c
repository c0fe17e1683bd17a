/* export_c.c - a bundle as C: a header with the function that loads it, a source with its bytes. */
#include <ctype.h>

#include "driver/bundle.h"

const char *bundle_c_name(ir_arena *arena, const char *path) {
  const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  size_t length = strcspn(base, ".");
  bool letter = length && (isalpha((unsigned char)base[0]) || base[0] == '_');
  char *name = ir_format_text(arena, "%s%.*s", letter ? "" : "spc_", (int)length, base);
  for (char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at) || (unsigned char)*at > 127) *at = '_';
  return name;
}

/* ---- the header ------------------------------------------------------------------------------ */
static void put_tensor(const ir_tensor *t, ir_text *out) {
  t = ir_declared(t);
  ir_text_printf(out, "%s: %s[", t->name,
                 t->dtype == IR_NONE ? "pattern" : ir_dtype_text(t->dtype));
  for (int d = 0; d < t->rank; d++) {
    if (d) ir_text_put(out, ",");
    ir_print_expr(t->dim[d], out);
  }
  ir_text_put(out, "]");
  if (ir_format_is_dense(t->format)) return;
  ir_text_put(out, " as ");
  ir_format_print(t->format, out);
}

static void put_tensors(const ir_kernel *kernel, ir_role role, ir_text *out) {
  int count = 0;
  for (int i = 0; i < kernel->tensors.count; i++) {
    if (kernel->tensors.at[i]->role != role) continue;
    if (count++) ir_text_put(out, ", ");
    put_tensor(kernel->tensors.at[i], out);
  }
}

static void put_sizes(const ir_program *program, const char *name, ir_text *out) {
  for (int i = 0; i < program->dims.count; i++) {
    const ir_dim *dim = program->dims.at[i];
    if (dim->value >= 0 && dim->value <= INT32_MAX)
      ir_text_printf(out, "enum { %s_%s = %lld };\n", name, dim->name, (long long)dim->value);
  }
}

void bundle_print_header(const bundle *b, const ir_program *program, const char *name,
                         ir_text *out) {
  ir_text_printf(out, "/* %s.h - kernels compiled by spc %s for %s.\n *\n", name, b->version,
                 bundle_target_names(out->arena, b));
  for (int k = 0; k < program->kernels.count; k++) {
    const ir_kernel *kernel = program->kernels.at[k];
    ir_text_printf(out, " *     %s(", kernel->name);
    put_tensors(kernel, IR_ROLE_IN, out);
    ir_text_put(out, ") -> ");
    put_tensors(kernel, IR_ROLE_OUT, out);
    ir_text_put(out, "\n");
  }
  ir_text_printf(
      out,
      " *\n * Compile %s.c and link libspc; neither LLVM nor NVRTC is needed to run. */\n"
      "#ifndef SPC_EXPORT_%s_H\n#define SPC_EXPORT_%s_H\n\n#include <spc.h>\n\n"
      "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
      name, name, name);
  put_sizes(program, name, out);
  ir_text_printf(
      out,
      "/* The program, as spc_program_from_bundle: SPC_UNAVAILABLE where it has no code "
      "for the machine. */\n"
      "spc_status %s_load(spc_context *context, spc_program **program, spc_error *err);\n"
      "\n#ifdef __cplusplus\n}\n#endif\n#endif\n",
      name);
}

/* ---- the source ------------------------------------------------------------------------------ */
static void put_bytes(const uint8_t *data, size_t bytes, ir_text *out) {
  char line[200];
  for (size_t i = 0; i < bytes;) {
    int n = 0;
    for (int k = 0; k < 30 && i < bytes; k++, i++)
      n += snprintf(line + n, sizeof line - (size_t)n, "%u,", data[i]);
    line[n++] = '\n';
    ir_text_putn(out, line, (size_t)n);
  }
}

void bundle_print_source(const void *data, size_t bytes, const bundle *b, const char *name,
                         ir_text *out) {
  ir_text_printf(out, "/* made by `spc export` (spc %s) for %s */\n", b->version,
                 bundle_target_names(out->arena, b));
  ir_text_put(out, "static const unsigned char bundle[] = {\n");
  put_bytes(data, bytes, out);
  ir_text_printf(out,
                 "};\n\nspc_status %s_load(spc_context *context, spc_program **program, spc_error "
                 "*err) {\n  return spc_program_from_bundle(context, bundle, sizeof bundle, "
                 "program, err);\n}\n",
                 name);
}
