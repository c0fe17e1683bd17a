/* codegen_cpu_link.c - objects into memory: whole ones run, broken ones are errors; keys of code.
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <math.h>
#include <stdlib.h>

#include "codegen/cpu.h"
#include "codegen_cpu_run.h"

#define SKIP_WITHOUT_LLVM()                                                                        \
  if (!cg_cpu_available()) cr_skip_test("%s", cg_cpu_version())

/* A cache of one entry, in memory. */
typedef struct shelf {
  ir_cache face;
  ir_cached held;
  char *key;
  int finds, hits, keeps;
} shelf;

static char *joined(const ir_cache_key *key) {
  char *all = calloc(1 << 20, 1);
  for (int i = 0; i < key->count; i++) strcat(strcat(all, key->part[i]), "|");
  return all;
}

static bool find(void *user, const ir_cache_key *key, ir_cached *out) {
  shelf *s = user;
  char *wanted = joined(key);
  bool hit = s->key && !strcmp(wanted, s->key);
  free(wanted);
  s->finds++;
  if (!hit) return false;
  s->hits++;
  out->data = malloc(s->held.bytes);
  memcpy(out->data, s->held.data, s->held.bytes);
  out->bytes = s->held.bytes;
  out->note = calloc(1, 1);
  return true;
}

static void keep(void *user, const ir_cache_key *key, const ir_cached *what, const char *source,
                 const char *ending) {
  shelf *s = user;
  (void)source, (void)ending;
  free(s->key);
  free(s->held.data);
  s->key = joined(key);
  s->held = *what;
  s->held.data = malloc(what->bytes);
  memcpy(s->held.data, what->data, what->bytes);
  s->keeps++;
}

static shelf *shelf_new(void) {
  shelf *s = calloc(1, sizeof *s);
  s->face = (ir_cache){s, find, keep};
  return s;
}

static void shelf_free(shelf *s) {
  free(s->key);
  free(s->held.data);
  free(s);
}

/* out[0] = pow(x[0], N) + 0.5: a call to outside, a constant in memory, a size. */
static cpu_case power(void) {
  cpu_case k = cpu_case_new();
  ir_buf *x = cpu_case_buf(&k, "x", IR_F64), *out = cpu_case_buf(&k, "out", IR_F64);
  ir_expr *n = ir_cast(k.arena, IR_F64, ir_dim_ref(k.arena, cpu_case_dim(&k, "N")));
  ir_expr *value = ir_apply(k.arena, IR_OP_POW, ir_load(k.arena, x, ir_int(k.arena, 0)), n);
  ir_store(&k.build, out, ir_int(k.arena, 0),
           ir_apply(k.arena, IR_OP_ADD, value, ir_const_f(k.arena, IR_F64, 0.5)));
  return k;
}

static spc_status compile(cpu_case *k, shelf *s, const char *mcpu) {
  cg_options options = {.target = ir_target_find("cpu"), .mcpu = mcpu, .cache = &s->face};
  return cg_cpu_compile(k->arena, k->kernel, &options, k->sink, &k->image);
}

static double call(ir_cpu_function *f) {
  double x = 3, out = 0;
  void *buffers[] = {&x, &out};
  int64_t sizes[] = {4};
  f(buffers, sizes, 0, 1);
  return out;
}

static const char *last_message(const cpu_case *k) {
  return k->sink->diags.count ? k->sink->diags.at[k->sink->diags.count - 1]->text : "";
}

/* ---- keys ------------------------------------------------------------------------------------ */
Test(codegen_cpu_link, the_second_compile_is_found) {
  SKIP_WITHOUT_LLVM();
  shelf *s = shelf_new();
  for (int i = 0; i < 2; i++) {
    cpu_case k = power();
    cr_assert_eq(compile(&k, s, NULL), SPC_OK, "%s", last_message(&k));
    cr_expect_float_eq(call(k.image->codes.at[0].cpu), 81.5, 0);
    cr_expect_eq(k.image->cached, i);
    cr_expect_eq(k.image->compiled, 1 - i);
    cpu_case_free(&k);
  }
  cr_expect(s->keeps == 1 && s->hits == 1);
  shelf_free(s);
}

Test(codegen_cpu_link, what_changes_the_code_changes_the_key) {
  SKIP_WITHOUT_LLVM();
  shelf *s = shelf_new();
  cpu_case k = power();
  cr_assert_eq(compile(&k, s, "haswell"), SPC_OK);
  cpu_case_free(&k);
  k = power();
  cr_assert_eq(compile(&k, s, "x86-64-v2"), SPC_OK);
  cr_expect_eq(k.image->cached, 0, "another CPU");
  cpu_case_free(&k);
  k = power();
  k.program->dims.at[0]->number = 1;
  cr_assert_eq(compile(&k, s, "x86-64-v2"), SPC_OK);
  cr_expect_eq(k.image->cached, 0, "another number of a dim");
  cpu_case_free(&k);
  k = power();
  k.func->bufs.at[1]->dtype = IR_F32;
  cr_assert_eq(compile(&k, s, "x86-64-v2"), SPC_OK, "%s", last_message(&k));
  cr_expect_eq(k.image->cached, 0, "another type of a buffer");
  cpu_case_free(&k);
  shelf_free(s);
}

/* ---- broken objects -------------------------------------------------------------------------- */
static shelf *with_object(void) {
  shelf *s = shelf_new();
  cpu_case k = power();
  cr_assert_eq(compile(&k, s, NULL), SPC_OK, "%s", last_message(&k));
  cpu_case_free(&k);
  return s;
}

/* Linked, or refused in words; never a fault. */
static bool links(const void *object, size_t bytes, char why[400]) {
  ir_arena *arena = ir_arena_new();
  ir_sink *sink = ir_sink_new(arena);
  cg_cpu_code *code;
  spc_status status = cg_cpu_link(object, bytes, sink, &code);
  cr_expect((status == SPC_OK) == (code != NULL));
  if (status == SPC_INTERNAL) cr_expect_eq(sink->diags.count, 1);
  snprintf(why, 400, "%s", sink->diags.count ? sink->diags.at[0]->text : "");
  cg_cpu_code_free(code);
  ir_arena_free(arena);
  return status == SPC_OK;
}

Test(codegen_cpu_link, torn_objects) {
  SKIP_WITHOUT_LLVM();
  shelf *s = with_object();
  char why[400];
  cr_expect(links(s->held.data, s->held.bytes, why));
  for (size_t bytes = 0; bytes < s->held.bytes; bytes++) {
    void *part = malloc(bytes + 1); /* a sanitizer sees a step beyond */
    memcpy(part, s->held.data, bytes);
    cr_expect(!links(part, bytes, why), "%zu bytes", bytes);
    free(part);
  }
  shelf_free(s);
}

Test(codegen_cpu_link, changed_objects) {
  SKIP_WITHOUT_LLVM();
  shelf *s = with_object();
  uint8_t *object = s->held.data;
  char why[400];
  int refused = 0;
  for (size_t at = 0; at < s->held.bytes; at++)
    for (int bit = 0; bit < 8; bit++) {
      object[at] ^= (uint8_t)(1 << bit);
      refused += !links(object, s->held.bytes, why);
      object[at] ^= (uint8_t)(1 << bit);
    }
  cr_expect(refused > 100, "%d", refused);
  shelf_free(s);
}

/* The nth relocation of the object. */
static uint8_t *relocation(uint8_t *object, size_t n) {
  Elf64_Ehdr h;
  memcpy(&h, object, sizeof h);
  for (int i = 0; i < h.e_shnum; i++) {
    Elf64_Shdr s;
    memcpy(&s, object + h.e_shoff + (size_t)i * sizeof s, sizeof s);
    if (s.sh_type == SHT_RELA && n < s.sh_size / sizeof(Elf64_Rela))
      return object + s.sh_offset + n * sizeof(Elf64_Rela);
  }
  return NULL;
}

Test(codegen_cpu_link, an_unknown_relocation_and_a_missing_function) {
  SKIP_WITHOUT_LLVM();
  shelf *s = with_object();
  char why[400];
  uint8_t *r = relocation(s->held.data, 0);
  cr_assert_not_null(r);
  uint8_t kept = r[offsetof(Elf64_Rela, r_info)];
  r[offsetof(Elf64_Rela, r_info)] = R_X86_64_TPOFF64;
  cr_expect(!links(s->held.data, s->held.bytes, why));
  cr_expect(strstr(why, "relocation"), "%s", why);
  r[offsetof(Elf64_Rela, r_info)] = kept;
  char *object = s->held.data;
  for (size_t at = 0; at + 5 < s->held.bytes; at++)
    if (!memcmp(object + at, "\0pow", 5)) object[at + 3] = 'q';
  cr_expect(!links(s->held.data, s->held.bytes, why));
  cr_expect(strstr(why, "`poq`"), "%s", why);
  shelf_free(s);
}

/* Pages of code are not written to, pages of constants are not executed. */
Test(codegen_cpu_link, no_page_is_written_and_executed) {
  SKIP_WITHOUT_LLVM();
  cpu_case k = power();
  shelf *s = shelf_new();
  cr_assert_eq(compile(&k, s, NULL), SPC_OK);
  uintptr_t address = (uintptr_t)k.image->codes.at[0].cpu;
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[500], rights[5];
  unsigned long from, to;
  bool found = false;
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3 && address >= from && address < to) {
      found = true;
      cr_expect_str_eq(rights, "r-xp");
    }
  cr_expect(found || !maps);
  if (maps) fclose(maps);
  cpu_case_free(&k);
  shelf_free(s);
}
