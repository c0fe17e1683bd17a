/* decode.c - an opcode's parts: which handler, which types, which of the words that change the meaning.  Words that
 * change speed alone (cache hints, .relaxed) are passed over; any other that is not known is refused. */
#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>

#include "emulator.h"
#include "modes.h"

enum { MOST_WORDS = 16 };

typedef struct words {
  char text[MOST_WORDS][40];
  int count;
  bool used[MOST_WORDS];
} words;

static bool split(const char *opcode, words *w) {
  w->count = 0;
  memset(w->used, 0, sizeof w->used);
  while (*opcode) {
    size_t length = strcspn(opcode, ".");
    if (w->count == MOST_WORDS || length >= sizeof w->text[0]) return false;
    memcpy(w->text[w->count], opcode, length);
    w->text[w->count++][length] = 0;
    opcode += length + (opcode[length] == '.');
  }
  return w->count > 0;
}

static bool has(words *w, const char *text) {
  for (int i = 1; i < w->count; i++)
    if (!strcmp(w->text[i], text)) {
      w->used[i] = true;
      return true;
    }
  return false;
}

static em_type type_of(const char *t) {
  static const struct {
    const char *name;
    em_type type;
  } types[] = {{"pred", EM_PRED}, {"b8", EM_U8},   {"b16", EM_U16},   {"b32", EM_U32},     {"b64", EM_U64},
               {"u8", EM_U8},     {"u16", EM_U16}, {"u32", EM_U32},   {"u64", EM_U64},     {"s8", EM_S8},
               {"s16", EM_S16},   {"s32", EM_S32}, {"s64", EM_S64},   {"f16", EM_F16},     {"bf16", EM_BF16},
               {"f32", EM_F32},   {"f64", EM_F64}, {"tf32", EM_TF32}, {"f16x2", EM_F16X2}, {"bf16x2", EM_BF16X2},
               {"e4m3", EM_E4M3}, {"e5m2", EM_E5M2}, {"e4m3x2", EM_E4M3X2}, {"e5m2x2", EM_E5M2X2}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (!strcmp(types[i].name, t)) return types[i].type;
  return EM_NO_TYPE;
}

static void read_types(words *w, em_insn *i) {
  for (int n = 1; n < w->count; n++) {
    em_type type = type_of(w->text[n]);
    if (!type) continue;
    w->used[n] = true;
    if (!i->type) i->type = type;
    else if (!i->from) i->from = type;
  }
}

static void read_space(words *w, em_insn *i) {
  for (int n = 1; n < w->count; n++) {
    if (!strncmp(w->text[n], "shared", 6)) i->space = EM_SHARED;
    else if (!strcmp(w->text[n], "local")) i->space = EM_LOCAL;
    else if (!strcmp(w->text[n], "param") || !strncmp(w->text[n], "param::", 7)) i->space = EM_PARAM;
    else if (strcmp(w->text[n], "global") && strcmp(w->text[n], "const")) continue;
    w->used[n] = true;
    return;
  }
}

static void read_rounding(words *w, em_insn *i) {
  i->rounding = has(w, "rz") || has(w, "rzi")   ? FE_TOWARDZERO
                : has(w, "rm") || has(w, "rmi") ? FE_DOWNWARD
                : has(w, "rp") || has(w, "rpi") ? FE_UPWARD
                                                : FE_TONEAREST;
  has(w, "rn");
  has(w, "rna");
  i->flushes = has(w, "ftz");
  i->saturates = has(w, "sat") || has(w, "satfinite");
  has(w, "approx");
  has(w, "full");
  for (int n = 1; n < w->count; n++) /* cvt.rni: to a whole number, whatever the types */
    if (!strcmp(w->text[n], "rni") || !strcmp(w->text[n], "rzi") || !strcmp(w->text[n], "rmi") ||
        !strcmp(w->text[n], "rpi"))
      w->used[n] = i->wide = true;
}

/* m64n256k16 */
static bool read_shape(words *w, em_insn *i) {
  for (int n = 1; n < w->count; n++)
    if (sscanf(w->text[n], "m%dn%dk%d", &i->size[0], &i->size[1], &i->size[2]) == 3) return w->used[n] = true;
  return false;
}

static bool read_mode(words *w, em_insn *i, const char *const *list) {
  for (int m = 0; list[m]; m++)
    if (has(w, list[m])) {
      i->mode = m;
      return true;
    }
  return false;
}

static const char *const comparisons[] = {EM_COMPARISONS(EM_TEXT) NULL};
static const char *const votes[] = {EM_VOTES(EM_TEXT) NULL};
static const char *const shuffles[] = {EM_SHUFFLES(EM_TEXT) NULL};
static const char *const atomics[] = {EM_ATOMICS(EM_TEXT) NULL};

static bool all_used(const words *w) {
  static const char *const of_speed[] = {
      "sync",  "aligned", "volatile", "relaxed", "weak",    "gpu",    "sys",    "cta",      "cluster", "nc",
      "uni",   "global",  "lu",       "cs",      "cg",      "ca",     "cv",     "wb",       "wt",      "acquire",
      "release", "L1::no_allocate", "L1::evict_last", "L1::evict_first", "L2::128B", "L2::256B", "L2::64B", "tile"};
  for (int n = 1; n < w->count; n++) {
    bool known = w->used[n];
    for (size_t k = 0; !known && k < sizeof of_speed / sizeof *of_speed; k++) known = !strcmp(w->text[n], of_speed[k]);
    if (!known) return false;
  }
  return true;
}

/* ---- one family each ------------------------------------------------------------------------- */
static bool decode_scalar(words *w, em_insn *i) {
  static const struct {
    const char *name;
    em_handler *run;
  } table[] = {{"add", em_do_add},     {"sub", em_do_sub},   {"mul", em_do_mul},           {"mad", em_do_mad},
               {"fma", em_do_mad},     {"div", em_do_div},   {"rem", em_do_rem},           {"min", em_do_min},
               {"max", em_do_max},     {"neg", em_do_neg},   {"abs", em_do_abs},           {"and", em_do_and},
               {"or", em_do_or},       {"xor", em_do_xor},   {"not", em_do_not},           {"shl", em_do_shl},
               {"shr", em_do_shr},     {"shf", em_do_shf},   {"popc", em_do_popc},         {"clz", em_do_clz},
               {"bfind", em_do_bfind}, {"brev", em_do_brev}, {"bfe", em_do_bfe},           {"bfi", em_do_bfi},
               {"prmt", em_do_prmt},   {"lop3", em_do_lop3}, {"dp4a", em_do_dp4a},         {"copysign", em_do_copysign},
               {"sqrt", em_do_sqrt},   {"rsqrt", em_do_rsqrt}, {"rcp", em_do_rcp},         {"ex2", em_do_ex2},
               {"lg2", em_do_lg2},     {"sin", em_do_sin},   {"cos", em_do_cos},           {"tanh", em_do_tanh},
               {"mov", em_do_mov},     {"selp", em_do_selp}, {"setp", em_do_setp},         {"cvt", em_do_cvt}};
  for (size_t n = 0; n < sizeof table / sizeof *table; n++) {
    if (strcmp(w->text[0], table[n].name)) continue;
    i->run = table[n].run;
    read_types(w, i);
    read_rounding(w, i);
    i->high = has(w, "hi");
    has(w, "lo");
    if (has(w, "wide")) i->wide = true;
    if (i->run == em_do_setp) {
      if (!read_mode(w, i, comparisons)) return false;
      i->size[0] = has(w, "and") ? 1 : has(w, "or") ? 2 : has(w, "xor") ? 3 : 0;
    }
    if (i->run == em_do_min || i->run == em_do_max) i->mode = has(w, "NaN");
    if (i->run == em_do_bfind) i->mode = has(w, "shiftamt");
    if (i->run == em_do_shf) {
      i->mode = has(w, "l") ? 1 : (has(w, "r"), 0);
      i->size[0] = has(w, "wrap") ? 1 : (has(w, "clamp"), 0);
    }
    return i->type != EM_NO_TYPE;
  }
  return false;
}

static bool decode_flow(words *w, em_insn *i) {
  const char *base = w->text[0];
  if (!strcmp(base, "bra")) i->run = em_do_bra, i->all = true;
  else if (!strcmp(base, "ret") || !strcmp(base, "exit")) i->run = em_do_exit, i->all = true;
  else if (!strcmp(base, "trap")) i->run = em_do_trap;
  else if (!strcmp(base, "elect")) i->run = em_do_elect;
  else if (!strcmp(base, "activemask")) i->run = em_do_activemask, read_types(w, i);
  else if (!strcmp(base, "mapa")) i->run = em_do_mapa, read_types(w, i), read_space(w, i);
  else if (!strcmp(base, "redux")) {
    i->run = em_do_redux;
    read_types(w, i);
    return read_mode(w, i, atomics);
  } else if (!strcmp(base, "match")) {
    i->run = em_do_match;
    read_types(w, i);
    i->mode = has(w, "all");
    has(w, "any");
  } else if (!strcmp(base, "vote")) {
    i->run = em_do_vote;
    read_types(w, i);
    return read_mode(w, i, votes);
  } else if (!strcmp(base, "shfl")) {
    i->run = em_do_shfl;
    read_types(w, i);
    return read_mode(w, i, shuffles);
  } else if (!strcmp(base, "bar") || !strcmp(base, "barrier")) {
    if (has(w, "cluster")) i->run = has(w, "arrive") ? em_do_cluster_arrive : has(w, "wait") ? em_do_cluster_wait : NULL;
    else if (has(w, "warp")) i->run = em_do_warp_bar;
    else if (has(w, "red")) {
      i->run = em_do_barred;
      i->mode = has(w, "popc") ? 0 : has(w, "and") ? 1 : (has(w, "or"), 2);
      read_types(w, i);
    } else {
      i->run = em_do_bar;
      i->mode = has(w, "arrive");
    }
  } else return false;
  return i->run != NULL;
}

static bool decode_nothing(const char *opcode) {
  static const char *const nothing[] = {"griddepcontrol.", "fence.",    "membar.",          "setmaxnreg.", "prefetch",
                                        "nanosleep",       "discard.",  "applypriority.",   "pmevent",     "cp.async.commit_group",
                                        "cp.async.wait_",  "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
                                        "cp.async.bulk.prefetch"};
  for (size_t n = 0; n < sizeof nothing / sizeof *nothing; n++)
    if (!strncmp(opcode, nothing[n], strlen(nothing[n]))) return true;
  return false;
}

static bool decode_memory(words *w, em_insn *i) {
  const char *base = w->text[0];
  if (!strcmp(base, "ld") || !strcmp(base, "ldu") || !strcmp(base, "st")) {
    i->run = *base == 's' ? em_do_st : em_do_ld;
    i->mode = has(w, "volatile") || has(w, "acquire") || has(w, "relaxed");
    read_types(w, i);
    read_space(w, i);
    i->width = has(w, "v2") ? 2 : has(w, "v4") ? 4 : has(w, "v8") ? 8 : 1;
    return i->type != EM_NO_TYPE;
  }
  if (!strcmp(base, "cvta")) {
    i->run = em_do_cvta;
    i->mode = has(w, "to");
    read_types(w, i);
    read_space(w, i);
    return true;
  }
  if (!strcmp(base, "atom") || !strcmp(base, "red")) {
    i->run = em_do_atom;
    i->size[0] = *base == 'r'; /* without the old value */
    read_types(w, i);
    read_space(w, i);
    has(w, "noftz");
    return read_mode(w, i, atomics);
  }
  if (!strcmp(base, "mbarrier")) {
    i->run = has(w, "init")                                ? em_do_mbarrier_init
             : has(w, "arrive")                            ? em_do_mbarrier_arrive
             : has(w, "expect_tx")                         ? em_do_mbarrier_expect
             : has(w, "try_wait") || has(w, "test_wait")   ? em_do_mbarrier_wait
             : has(w, "inval")                             ? em_do_mbarrier_inval
                                                           : NULL;
    i->mode = i->run == em_do_mbarrier_arrive ? has(w, "expect_tx") : has(w, "parity");
    i->size[0] = has(w, "test_wait");
    has(w, "try_wait");
    has(w, "b64");
    read_space(w, i);
    return i->run != NULL && !has(w, "noComplete");
  }
  return false;
}

static bool decode_copy(words *w, em_insn *i) { /* cp.async… */
  if (strcmp(w->text[0], "cp") || !has(w, "async")) return false;
  i->space = EM_SHARED;
  if (has(w, "mbarrier")) { /* cp.async.mbarrier.arrive.noinc */
    i->run = em_do_mbarrier_arrive;
    i->mode = 0;
    has(w, "shared::cta");
    has(w, "shared");
    has(w, "b64");
    return has(w, "arrive") && has(w, "noinc");
  }
  if (!has(w, "bulk")) {
    i->run = em_do_cp_async;
    has(w, "shared");
    has(w, "shared::cta");
    return true;
  }
  bool tensor = has(w, "tensor"), stores = has(w, "bulk_group");
  for (int n = 1; n <= 5 && tensor; n++) {
    char dims[4] = {(char)('0' + n), 'd', 0};
    if (has(w, dims)) i->size[0] = n;
  }
  has(w, "shared::cluster");
  has(w, "shared::cta");
  has(w, "mbarrier::complete_tx::bytes");
  i->mode = has(w, "multicast::cluster");
  i->run = tensor ? (stores ? em_do_tensor_store : em_do_tensor_load) : stores ? em_do_bulk_store : em_do_bulk_load;
  return true;
}

static bool decode_matrix(words *w, em_insn *i) {
  const char *base = w->text[0];
  if (!strcmp(base, "ldmatrix") || !strcmp(base, "stmatrix")) {
    i->run = *base == 's' ? em_do_stmatrix : em_do_ldmatrix;
    i->width = has(w, "x4") ? 4 : has(w, "x2") ? 2 : 1;
    has(w, "x1");
    i->mode = has(w, "trans");
    read_space(w, i);
    return has(w, "m8n8") && has(w, "b16");
  }
  if (!strcmp(base, "mma") || !strcmp(base, "wgmma")) {
    if (*base == 'w' && !has(w, "mma_async")) {
      i->run = has(w, "commit_group") ? em_do_wgmma_commit : has(w, "wait_group") ? em_do_wgmma_wait : em_do_meeting;
      return i->run != em_do_meeting || has(w, "fence");
    }
    i->run = *base == 'w' ? em_do_wgmma : em_do_mma;
    has(w, "row");
    has(w, "col");
    bool shaped = read_shape(w, i);
    read_types(w, i); /* of sums, of the left operand */
    for (int n = 1; n < w->count; n++) w->used[n] |= type_of(w->text[n]) != EM_NO_TYPE;
    return shaped;
  }
  return false;
}

bool em_decode(em_insn *i) {
  words w;
  if (decode_nothing(i->opcode)) {
    i->run = em_do_nothing;
    return true;
  }
  if (!split(i->opcode, &w)) return false;
  bool known = decode_copy(&w, i) || decode_scalar(&w, i) || decode_flow(&w, i) || decode_memory(&w, i) ||
               decode_matrix(&w, i);
  return known && all_used(&w);
}
