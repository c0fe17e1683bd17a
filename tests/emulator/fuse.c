/* fuse.c - products that are added at once, as one rounding.
 *
 * A `mul` and an `add` or `sub` that name no rounding may become one fused instruction, and ptxas makes it of them wherever it can;
 * what kernels compute on a device is that.  Here: in one basic block, where nothing else reads the product. */
#include <stdlib.h>

#include "emulator.h"

static bool is(const em_insn *i, const char *op) { return !strcmp(i->opcode, op); }
static bool multiplies(const em_insn *i) { return (is(i, "mul.f32") || is(i, "mul.f64")) && i->guard < 0; }
static bool adds(const em_insn *i) { return is(i, "add.f32") || is(i, "add.f64"); }
static bool subtracts(const em_insn *i) { return is(i, "sub.f32") || is(i, "sub.f64"); }

static bool names(const em_insn *i, int group, int slot) {
  const em_group *g = &i->groups[group];
  for (int n = 0; n < g->count; n++)
    if (i->operands[g->first + n].kind == EM_REGISTER && i->operands[g->first + n].slot == slot) return true;
  return false;
}

/* How often each register is named, and where jumps go. */
static void count_names(const em_kernel *k, int *named, bool *target) {
  for (int n = 0; n < k->count; n++)
    for (int g = 0; g < k->code[n].group_count; g++)
      for (int o = 0; o < k->code[n].groups[g].count; o++) {
        const em_operand *operand = &k->code[n].operands[k->code[n].groups[g].first + o];
        if (operand->kind == EM_REGISTER) named[operand->slot]++;
        if (operand->kind == EM_LABEL) target[operand->slot] = true;
      }
}

/* The sum of the product that `at` computes, in its block, before a factor changes; -1: none. */
static int sum_of(const em_kernel *k, int at, const bool *target) {
  const em_insn *product = &k->code[at];
  int slot = em_operand_of(product, 0, 0)->slot;
  for (int n = at + 1; n < k->count && !target[n]; n++) {
    const em_insn *i = &k->code[n];
    if (i->all) return -1;
    if (i->group_count > 2 && (names(i, 1, slot) || names(i, 2, slot))) return adds(i) || subtracts(i) ? n : -1;
    for (int g = 1; g <= 2 && i->group_count; g++) {
      const em_operand *factor = em_operand_of(product, g, 0);
      if (factor->kind == EM_REGISTER && names(i, 0, factor->slot)) return -1;
    }
  }
  return -1;
}

/* d = a * b + c, whose mode says what is negative: 1 the product, 2 the summand.  Room for one operand more was made. */
static void fuse(const em_insn *product, em_insn *sum) {
  bool left = names(sum, 1, em_operand_of(product, 0, 0)->slot);
  em_operand whole[4] = {*em_operand_of(sum, 0, 0), *em_operand_of(product, 1, 0), *em_operand_of(product, 2, 0),
                         *em_operand_of(sum, left ? 2 : 1, 0)};
  sum->mode = !subtracts(sum) ? 0 : left ? 2 : 1;
  sum->run = em_do_mad;
  sum->group_count = 4;
  for (int n = 0; n < 4; n++) {
    sum->operands[n] = whole[n];
    sum->groups[n] = (em_group){.first = n, .count = 1};
  }
}

void em_fuse(em_kernel *k) {
  int *named = calloc((size_t)k->registers + 1, sizeof *named);
  bool *target = calloc((size_t)k->count + 1, sizeof *target);
  if (named && target) {
    count_names(k, named, target);
    for (int n = 0; n < k->count; n++) {
      if (!multiplies(&k->code[n]) || named[em_operand_of(&k->code[n], 0, 0)->slot] != 2) continue;
      int at = sum_of(k, n, target);
      if (at >= 0 && k->code[at].type == k->code[n].type) fuse(&k->code[n], &k->code[at]);
    }
  }
  free(named);
  free(target);
}
