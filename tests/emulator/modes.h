/* modes.h - words of opcodes that choose among kinds: their order is em_insn.mode. */
#ifndef SPC_EMULATOR_MODES_H
#define SPC_EMULATOR_MODES_H

#define EM_TEXT(NAME) #NAME,
#define EM_COMPARISONS(C)                                                                          \
  C(eq) C(ne) C(lt) C(le) C(gt) C(ge) C(lo) C(ls) C(hi) C(hs) C(equ) C(neu) C(ltu) C(leu) C(gtu) C(geu) C(num) C(nan)
#define EM_VOTES(V) V(ballot) V(any) V(all) V(uni)
#define EM_SHUFFLES(S) S(idx) S(up) S(down) S(bfly)
#define EM_ATOMICS(A) A(add) A(min) A(max) A(and) A(or) A(xor) A(exch) A(cas) A(inc) A(dec)

#define EM_ENUM_COMPARISON(NAME) EM_IS_##NAME,
#define EM_ENUM_VOTE(NAME) EM_VOTE_##NAME,
#define EM_ENUM_SHUFFLE(NAME) EM_SHUFFLE_##NAME,
#define EM_ENUM_ATOMIC(NAME) EM_ATOMIC_##NAME,
enum { EM_COMPARISONS(EM_ENUM_COMPARISON) };
enum { EM_VOTES(EM_ENUM_VOTE) };
enum { EM_SHUFFLES(EM_ENUM_SHUFFLE) };
enum { EM_ATOMICS(EM_ENUM_ATOMIC) };
#endif
