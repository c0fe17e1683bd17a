/* fuse.h - the parts of pass `fuse`: rules, and the two ways of merging. */
#ifndef SPC_PASSES_FUSE_H
#define SPC_PASSES_FUSE_H

#include "passes/contract.h"
#include "passes/pass.h"
#include "passes/queue.h"

/* The kernel while its statements are merged. */
typedef struct pass_mentions { /* rows of statements whose sample or support looks at a tensor */
  IR_VEC(int) rows;
} pass_mentions;
typedef struct pass_fusion {
  pass_context *c;
  ir_kernel *kernel;
  pass_uses *uses;
  pass_queue waiting;              /* statements that are to be tried */
  IR_VEC(pass_mentions) mentioned; /* by row of the tensor */
} pass_fusion;

/* A producer, its only reader, and where it is read. */
typedef struct pass_pair {
  ir_stmt *from, *into;
  ir_expr *use; /* the first access of from->target in into->value */
} pass_pair;

/* fuse_rules.c: NULL when the merge is legal, else the rule against it, in one line. `forced`
 * leaves out what is only a question of profit. */
const char *pass_fuse_refusal(const pass_fusion *f, const pass_pair *pair, bool forced);
const char *pass_absorb_refusal(const pass_fusion *f, const pass_pair *pair);
bool pass_is_listed_by(ir_arena *arena,
                       const pass_pair *pair); /* dynamic zeros that the reader contracts over */
bool pass_schedule_names(const ir_kernel *kernel, const ir_tensor *tensor);

/* fuse_merge.c */
void pass_fusion_open(pass_fusion *f, pass_context *c, ir_kernel *kernel);
void pass_fuse_inline(pass_fusion *f, const pass_pair *pair);
/* `into` multiplies the producer by other factors over the same indices: their product becomes one
 * statement, the producer with those factors as its epilogue. Returns it. */
ir_stmt *pass_fuse_absorb(pass_fusion *f, const pass_pair *pair);
/* Factors beside the use in the sum of `into` whose indices the use has. */
void pass_partners(ir_arena *arena, const pass_pair *pair, pass_terms *partners,
                   pass_terms *others);

#endif
