/* planted.c - the emulated device has to be able to fail: kernels with one planted fault each, in PTX as it is, and the same
 * without it.  What a fault says is compared.
 *
 * Usage: emulated-planted LIBRARY (libemulated-cuda.so).  The last line is `N passed, N failed`. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda_driver.h"

enum { THREADS = 64, WORDS = 64 };

static rt_driver driver;
static int passed, failed;

#define HEAD                                                                                       \
  ".version 8.7\n.target sm_90a\n.address_size 64\n"                                               \
  ".extern .shared .align 1024 .b8 room[];\n"                                                      \
  ".visible .entry k(.param .u64 k_param_0)\n{\n"                                                  \
  ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n.reg .f32 %f<4>;\n"                     \
  "ld.param.u64 %rd1, [k_param_0];\ncvta.to.global.u64 %rd2, %rd1;\nmov.u32 %r1, %tid.x;\n"        \
  "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd4, %rd2, %rd3;\nmov.u32 %r2, room;\n"
#define TAIL "ret;\n}\n"
#define OWN_WORD "shl.b32 %r4, %r1, 2;\nadd.s32 %r4, %r2, %r4;\n" /* of shared memory */
#define FIRST "setp.ne.s32 %p1, %r1, 0;\n"
#define WAIT "again:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;\n@!%p2 bra again;\n"
#define OTHER_WORD /* what the thread of the other warp wrote */                                   \
  "xor.b32 %r5, %r1, 63;\nshl.b32 %r5, %r5, 2;\nadd.s32 %r5, %r2, %r5;\nld.shared.u32 %r3, [%r5];\nxor.b32 %r3, %r3, 63;\nst.global.u32 [%rd4], %r3;\n"
#define NEXT_WORD /* of the lane beside */                                                         \
  "xor.b32 %r5, %r1, 1;\nshl.b32 %r5, %r5, 2;\nadd.s32 %r5, %r2, %r5;\nld.shared.u32 %r3, [%r5];\nxor.b32 %r3, %r3, 1;\nst.global.u32 [%rd4], %r3;\n"
#define HANDED                                                                                     \
  FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2+512], 2;\nmade:\nbar.sync 0;\n" OWN_WORD "st.shared.u32 [%r4], %r1;\nand.b32 %r3, %r1, 31;\nsetp.ne.s32 %p3, %r3, 0;\n"
#define ARRIVES                                                                                    \
  "@!%p3 mbarrier.arrive.shared::cta.b64 _, [%r2+512];\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+512], 0;\n@!%p2 bra again;\n"
#define CALL /* %c ^ 5 */                                                                          \
  "{\n.param .b32 p0;\nst.param.b32 [p0+0], %c;\n.param .b32 r0;\ncall.uni (r0), \nother, \n(\np0\n);\nld.param.b32 %c, [r0+0];\n}\n"

static const struct {
  const char *name, *text, *says; /* says: NULL where all is well: thread t's word is then t */
} cases[] = {
    {"a store inside", "st.global.u32 [%rd4], %r1;\n", NULL},
    {"a store beyond the end", "st.global.u32 [%rd4+4], %r1;\n", "beyond the end of an allocation"},
    {"a load in front", "ld.global.u32 %r3, [%rd4+-4];\n", "in front of an allocation"},
    {"a null pointer", "mov.b64 %rd5, 0;\nld.global.u32 %r3, [%rd5];\n", "outside of all that is allocated"},
    {"an odd address", "ld.global.v2.u32 {%r3, %r4}, [%rd4];\n", "no multiple of 8"},
    {"shared memory beyond its end", "st.shared.u32 [%r2+1024], %r1;\n", "of shared memory, which has 0x400"},
    {"a word of shared memory that nobody wrote", "ld.shared.u32 %r3, [%r2];\nadd.s32 %r3, %r3, 1;\nadd.s32 %r3, %r3, %r1;\nst.global.u32 [%rd4], %r3;\n", NULL},
    {"an exchange by way of a barrier",
     OWN_WORD "st.shared.u32 [%r4], %r1;\nbar.sync 0;\nxor.b32 %r5, %r1, 63;\nshl.b32 %r5, %r5, 2;\nadd.s32 %r5, %r2, %r5;\n"
              "ld.shared.u32 %r3, [%r5];\nxor.b32 %r3, %r3, 63;\nst.global.u32 [%rd4], %r3;\n", NULL},
    {"a barrier that one warp does not reach", "setp.gt.u32 %p1, %r1, 31;\n@%p1 bra out;\nbar.sync 1, 64;\nout:\n", "deadlock"},
    {"a barrier that half a warp does not reach", "setp.gt.u32 %p1, %r1, 15;\n@%p1 bra out;\nbar.sync 0;\nbra.uni end;\nout:\nbar.sync 2;\nend:\n", "deadlock"},
    {"all arrive at an mbarrier",
     FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2], 64;\nmade:\nbar.sync 0;\nmbarrier.arrive.shared::cta.b64 _, [%r2];\n" WAIT
           "st.global.u32 [%rd4], %r1;\n", NULL},
    {"one does not arrive at an mbarrier",
     FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2], 64;\nmade:\nbar.sync 0;\n@%p1 mbarrier.arrive.shared::cta.b64 _, [%r2];\n" WAIT,
     "deadlock"},
    {"too many arrive at an mbarrier",
     FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2], 63;\nmade:\nbar.sync 0;\n@!%p1 mbarrier.expect_tx.shared::cta.b64 [%r2], 16;\nbar.sync 0;\n"
           "mbarrier.arrive.shared::cta.b64 _, [%r2];\n", "more than the 63"},
    {"bytes that no copy brings",
     FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 32;\n"
           "add.s32 %r3, %r2, 64;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 16, [%r2];\nmade:\nbar.sync 0;\n" WAIT,
     "deadlock"},
    {"an mbarrier that nobody made", WAIT, "no mbarrier was made"},
    {"an exchange without a barrier", OWN_WORD "st.shared.u32 [%r4], %r1;\n" OTHER_WORD, "a race: byte"},
    {"an exchange inside of warps that do not meet", OWN_WORD "st.shared.u32 [%r4], %r1;\n" NEXT_WORD, "a race: byte"},
    {"an exchange inside of warps", OWN_WORD "st.shared.u32 [%r4], %r1;\nbar.warp.sync -1;\n" NEXT_WORD, NULL},
    {"a word that is written over while others may read it",
     FIRST "@!%p1 st.shared.u32 [%r2], 0;\nbar.sync 0;\nld.shared.u32 %r3, [%r2];\n@!%p1 st.shared.u32 [%r2], 1;\n", "is written, and thread"},
    {"words that a lane hands over for its warp", HANDED "bar.warp.sync -1;\n" ARRIVES OTHER_WORD, NULL},
    {"words that a lane hands over before its warp has met", HANDED ARRIVES OTHER_WORD, "a race: byte"},
    {"a copy that is read before it is there",
     FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;\n"
           "add.s32 %r3, %r2, 64;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 16, [%r2];\nmade:\nbar.sync 0;\n"
           "ld.shared.u32 %r3, [%r2+64];\nst.global.u32 [%rd4], %r1;\n", "a copy of thread 0 has written it"},
    {"a copy that is waited for",
     FIRST "@%p1 bra made;\nmbarrier.init.shared::cta.b64 [%r2], 1;\nmbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;\n"
           "add.s32 %r3, %r2, 64;\ncp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd2], 16, [%r2];\nmade:\nbar.sync 0;\n" WAIT
           "ld.shared.u32 %r3, [%r2+64];\nst.global.u32 [%rd4], %r1;\n", NULL},
    {"a loop that waits for nobody's word", "spin:\nld.volatile.global.u32 %r3, [%rd2];\nsetp.eq.s32 %p1, %r3, -1;\n@%p1 bra spin;\n", "endless"},
    {"two calls of a function",
     ".reg .b32 %c;\nmov.u32 %c, %r1;\n" CALL CALL "st.global.u32 [%rd4], %c;\nret;\n}\n"
     ".func (.param .b32 out) other(.param .b32 in)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\nld.param.b32 %r1, [in];\nxor.b32 %r2, %r1, 5;\n"
     "st.param.b32 [out+0], %r2;\nsetp.lt.s32 %p1, %r1, 9;\n@%p1 bra few;\nret;\nfew:\n", NULL},
    {"a call of no function", "call.uni nobody;\n", "no function"},
    {"a step of nothing", "mov.u32 %r3, 0;\nmov.u32 %r4, 0;\nmore:\nadd.s32 %r4, %r4, 2;\nand.b32 %r4, %r4, 1022;\nadd.s32 %r3, %r3, 0;\n"
                          "setp.lt.s32 %p1, %r3, 7;\n@%p1 bra more;\n", "endless"},
    {"a long loop", "mov.u32 %r3, 0;\nmore:\nadd.s32 %r3, %r3, 1;\nsetp.lt.s32 %p1, %r3, 15000000;\n@%p1 bra more;\nst.global.u32 [%rd4], %r1;\n", NULL},
    {"a wrong result", "add.s32 %r3, %r1, 1;\nst.global.u32 [%rd4], %r3;\n", "wrong"},
    {"a trap", "trap;\n", "traps"},
    {"an instruction that is not known", "frobnicate.u32 %r3, %r1;\n", "does not know `frobnicate.u32`"},
};

static void check(const char *name, bool good, const char *what) {
  if (good) passed++;
  else failed++;
  if (!good) printf("FAIL %s: %s\n", name, what);
}

/* What the driver says of it; "" where all is well, "wrong" where a word is not its thread's number. */
static void run(const char *body, cu_address words, char *said, size_t room) {
  char text[4096];
  uint32_t got[WORDS];
  cu_module *module = NULL;
  cu_function *function = NULL;
  const char *why = "";
  snprintf(text, sizeof text, "%s%s%s", HEAD, body, TAIL);
  *said = 0;
  cu_result result = driver.module_load(&module, text);
  if (!result) result = driver.module_function(&function, module, "k");
  if (!result) {
    cu_launch_config config = {.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .shared_bytes = 1024};
    result = driver.launch(&config, function, (void *[]){&words}, NULL);
  }
  if (result) driver.error_text(result, &why);
  snprintf(said, room, "%s", why);
  if (!result) result = driver.download(got, words, sizeof got);
  for (uint32_t t = 0; t < WORDS && !result; t++)
    if (got[t] != t) snprintf(said, room, "wrong");
  if (module) driver.module_unload(module);
}

/* Memory that was given back: the same kernel as the first case. */
static void check_given_back(void) {
  cu_address words = 0;
  char said[600];
  driver.allocate(&words, WORDS * 4);
  driver.release(words);
  run(cases[0].text, words, said, sizeof said);
  check("memory that was given back", strstr(said, "given back") != NULL, said);
}

static bool open_driver(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
#define FIND(FIELD, NAME, PARAMETERS)                                                              \
  {                                                                                                \
    void *symbol = dlsym(library, NAME);                                                           \
    if (!symbol) return false;                                                                     \
    memcpy(&driver.FIELD, &symbol, sizeof symbol);                                                 \
  }
  RT_DRIVER_FUNCTIONS(FIND)
#undef FIND
  return true;
}

int main(int argc, char **argv) {
  cu_context *context = NULL;
  setenv("SPC_EMULATED_RACES", "1", 1);
  if (argc < 2 || !open_driver(argv[1])) {
    printf("FAIL the emulated driver does not load: %s\n0 passed, 1 failed\n", argc < 2 ? "which?" : argv[1]);
    return 1;
  }
  cu_address words = 0;
  check("memory without a context", driver.allocate(&words, 4) == 201, "is given");
  driver.context_retain(&context, 0);
  driver.context_set(context);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    char said[600];
    driver.allocate(&words, WORDS * 4);
    run(cases[c].text, words, said, sizeof said);
    check(cases[c].name, cases[c].says ? strstr(said, cases[c].says) != NULL : !*said, *said ? said : "nothing was said");
    driver.release(words);
  }
  check_given_back();
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
