/* docs/formats.md lists arrays: each line of them is what packing gives. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/tensor.h"

static char *read_docs(void) {
  FILE *f = fopen(SPC_SOURCE_DIR "/docs/formats.md", "rb");
  cr_assert(f, "docs/formats.md");
  static char text[1 << 16];
  text[fread(text, 1, sizeof text - 1, f)] = 0;
  fclose(f);
  return text;
}

static void print_array(ir_text *out, const char *name, int level, const ir_array *a) {
  if (!a->data) return;
  if (level < 0)
    ir_text_printf(out, "%s =", name);
  else
    ir_text_printf(out, "%s[%d] (%s) =", name, level, ir_dtype_text(a->dtype));
  for (int64_t i = 0; i < a->count; i++)
    ir_text_printf(out, " %lld", (long long)ir_dtype_load_int(a->dtype, a->data, i));
  ir_text_put(out, "\n");
}

static const char *drawn(ir_arena *a, const char *name, const int64_t *args, int count,
                         const int64_t *dims, ir_entries *e) {
  const char *why = "";
  const ir_format *f = ir_format_builtin(a, name, e->rank, args, count, &why);
  ir_text out = ir_text_new(a);
  ir_view v;
  cr_assert(f, "%s", why);
  cr_assert_eq(ir_view_pack(a, IR_F32, dims, f, IR_I32, e, &v, &why), SPC_OK, "%s", why);
  ir_format_print(f, &out);
  ir_text_put(&out, "  ");
  ir_format_print_map(f, &out);
  ir_text_put(&out, "\n");
  for (int k = 0; k < f->level_count; k++) {
    print_array(&out, "pos", k, &v.pos[k]);
    print_array(&out, "crd", k, &v.crd[k]);
  }
  print_array(&out, "vals", -1, &v.vals);
  return out.data;
}

Test(ir_data_docs, formats_are_drawn_as_they_are_stored) {
  static const struct {
    const char *name;
    int count;
    int64_t args[2];
  } flat[] = {{"dense", 0, {0}},     {"dense_t", 0, {0}}, {"coo", 0, {0}}, {"csr", 0, {0}},
              {"csc", 0, {0}},       {"bsr", 2, {2, 2}},  {"ell", 1, {3}}, {"dcsr", 0, {0}},
              {"bitmap", 2, {2, 4}}, {"twell", 2, {4, 2}}};
  int64_t at[] = {0, 0, 0, 3, 2, 1, 3, 0, 3, 1, 3, 3}, dims[] = {4, 4};
  int64_t at3[] = {0, 0, 1, 0, 1, 0, 2, 1, 1}, dims3[] = {3, 2, 3};
  int64_t atn[] = {0, 1, 0, 3, 0, 4, 1, 6, 1, 7}, dimsn[] = {2, 8}, nm[] = {2, 4};
  double value[] = {1, 2, 3, 4, 5, 6};
  ir_entries e = {.rank = 2, .count = 6, .at = at, .value = value},
             e3 = {.rank = 3, .count = 3, .at = at3, .value = value};
  ir_entries en = {.rank = 2, .count = 5, .at = atn, .value = value};
  ir_arena *a = ir_arena_new();
  const char *docs = read_docs();
  for (int i = 0; i < IR_COUNT(flat); i++) {
    const char *text = drawn(a, flat[i].name, flat[i].args, flat[i].count, dims, &e);
    cr_assert(strstr(docs, text), "docs/formats.md lacks\n%s", text);
  }
  cr_assert(strstr(docs, drawn(a, "csf", NULL, 0, dims3, &e3)), "%s",
            drawn(a, "csf", NULL, 0, dims3, &e3));
  cr_assert(strstr(docs, drawn(a, "nm", nm, 2, dimsn, &en)), "%s",
            drawn(a, "nm", nm, 2, dimsn, &en));
  ir_arena_free(a);
}
