/* cpu_level.c - the levels of the x86-64 psABI, and which of them this machine runs: for code that
 * was made elsewhere, without LLVM.
 *
 * Bits by Intel's manual (CPUID leaves 1, 7 and 0x80000001); AVX and AVX-512 also want the system
 * to keep their registers (XCR0). */
#include "codegen/codegen.h"

static const char *const levels[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64"};

const char *cg_cpu_level(int i) { return i >= 0 && i < IR_COUNT(levels) ? levels[i] : NULL; }

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };
typedef struct bits {
  unsigned leaf;
  int in;
  unsigned all;
} bits;

/* SSE3, SSSE3, CX16, SSE4.1, SSE4.2, POPCNT; LAHF */
static const bits v2[] = {{1, ECX, 1u << 0 | 1u << 9 | 1u << 13 | 1u << 19 | 1u << 20 | 1u << 23},
                          {0x80000001u, ECX, 1u << 0}};
/* FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT */
static const bits v3[] = {{1, ECX, 1u << 12 | 1u << 22 | 1u << 27 | 1u << 28 | 1u << 29},
                          {7, EBX, 1u << 3 | 1u << 5 | 1u << 8},
                          {0x80000001u, ECX, 1u << 5}};
/* AVX-512 F, DQ, CD, BW, VL */
static const bits v4[] = {{7, EBX, 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31}};

static bool has(const bits *rows, int count) {
  for (int i = 0; i < count; i++) {
    unsigned r[4];
    if (!__get_cpuid_count(rows[i].leaf, 0, &r[EAX], &r[EBX], &r[ECX], &r[EDX])) return false;
    if ((r[rows[i].in] & rows[i].all) != rows[i].all) return false;
  }
  return true;
}

/* After OSXSAVE was seen. */
static bool keeps(unsigned states) {
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & states) == states;
}

static int best(void) {
  if (!has(v2, IR_COUNT(v2))) return 3;
  if (!has(v3, IR_COUNT(v3)) || !keeps(0x6)) return 2;
  return has(v4, IR_COUNT(v4)) && keeps(0xe6) ? 0 : 1;
}
#else
static int best(void) { return IR_COUNT(levels); }
#endif

bool cg_cpu_level_runs(const char *level) {
  for (int i = best(); i < IR_COUNT(levels); i++)
    if (!strcmp(levels[i], level)) return true;
  return false;
}
