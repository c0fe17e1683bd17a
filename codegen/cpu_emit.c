/* cpu_emit.c - statements of the loop dialect.
 *
 * Variables that are never `set` are plain values; the others, and local buffers, are stack slots
 * that SROA turns into registers.  Loops are emitted with their test at the bottom.  An `unroll`
 * loop of constant trips is written out, its variable a constant, so that every offset into a local
 * buffer is one too: that is what makes an array of accumulators a set of registers. */
#ifdef SPC_HAVE_LLVM
#include <assert.h>

#include "codegen/cpu.h"

enum { MOST_UNROLLED = 64 };

/* ---- blocks and slots ------------------------------------------------------------------------ */
LLVMBasicBlockRef cg_cpu_new_block(cg_cpu *c, const char *name) {
  return LLVMAppendBasicBlockInContext(c->context, c->function, name);
}

LLVMValueRef cg_cpu_slot(cg_cpu *c, LLVMTypeRef type, const char *name, unsigned align) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(c->builder);
  LLVMValueRef first = LLVMGetFirstInstruction(c->entry);
  if (first)
    LLVMPositionBuilderBefore(c->builder, first);
  else
    LLVMPositionBuilderAtEnd(c->builder, c->entry);
  LLVMValueRef slot = LLVMBuildAlloca(c->builder, type, name);
  if (align) LLVMSetAlignment(slot, align);
  LLVMPositionBuilderAtEnd(c->builder, here);
  return slot;
}

static void note_assigned(cg_cpu *c, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) {
    const ir_code *code = block->codes.at[i];
    if (code->kind == IR_SET) cg_cpu_bind(c, &c->assigned, (cg_cpu_bound){.key = code->var});
    note_assigned(c, &code->body);
    note_assigned(c, &code->orelse);
  }
}

/* ---- variables ------------------------------------------------------------------------------ */
static void set_value(cg_cpu *c, const ir_var *var, LLVMValueRef value) {
  const cg_cpu_bound *bound = cg_cpu_find(&c->names, var);
  assert(bound && bound->slot);
  LLVMBuildStore(c->builder, value, bound->value);
}

static LLVMValueRef value_for(cg_cpu *c, const ir_var *var, const ir_expr *e) {
  LLVMValueRef value =
      e ? cg_cpu_expr(c, e) : LLVMConstNull(cg_cpu_type(c, var->dtype, var->lanes));
  return cg_cpu_splat(c, value, var->lanes);
}

static void let(cg_cpu *c, const ir_code *code) {
  const ir_var *var = code->var;
  LLVMValueRef value = value_for(c, var, code->value);
  if (!cg_cpu_find(&c->assigned, var)) {
    cg_cpu_bind(c, &c->names, (cg_cpu_bound){.key = var, .value = value});
    return;
  }
  LLVMTypeRef type = cg_cpu_type(c, var->dtype, var->lanes);
  const cg_cpu_bound *before = cg_cpu_find(&c->names, var);
  LLVMValueRef slot = before ? before->value : cg_cpu_slot(c, type, var->name, 0);
  cg_cpu_bind(c, &c->names, (cg_cpu_bound){var, slot, type, true});
  LLVMBuildStore(c->builder, value, slot);
}

/* A loop variable: a value, or a slot where the body changes it. */
static void bind_loop_var(cg_cpu *c, const ir_var *var, LLVMValueRef value) {
  cg_cpu_bound bound = {.key = var, .value = value};
  if (cg_cpu_find(&c->assigned, var)) {
    bound = (cg_cpu_bound){var, cg_cpu_slot(c, LLVMTypeOf(value), var->name, 0), LLVMTypeOf(value),
                           true};
    LLVMBuildStore(c->builder, value, bound.value);
  }
  cg_cpu_bind(c, &c->names, bound);
}

static void local(cg_cpu *c, const ir_buf *buf) {
  if (cg_cpu_find(&c->names, buf)) return;
  int64_t count = 0;
  bool known = ir_size_value(buf->count, NULL, &count);
  assert(known && "a local buffer has a constant size");
  (void)known;
  LLVMTypeRef type = LLVMArrayType2(cg_cpu_memory_type(c, buf->dtype, 1), (uint64_t)count);
  LLVMValueRef slot = cg_cpu_slot(c, type, buf->name, 64);
  cg_cpu_bind(c, &c->names, (cg_cpu_bound){.key = buf, .value = slot});
}

/* ---- loops ---------------------------------------------------------------------------------- */
static bool unrolled(cg_cpu *c, const ir_code *code, LLVMValueRef lo, LLVMValueRef hi,
                     LLVMValueRef step) {
  if (code->run != IR_RUN_UNROLL || !LLVMIsAConstantInt(lo) || !LLVMIsAConstantInt(hi) ||
      !LLVMIsAConstantInt(step))
    return false;
  int64_t from = LLVMConstIntGetSExtValue(lo), to = LLVMConstIntGetSExtValue(hi);
  int64_t by = LLVMConstIntGetSExtValue(step);
  if (by <= 0 || (to - from) / by > MOST_UNROLLED) return false;
  for (int64_t i = from; i < to; i += by) {
    bind_loop_var(c, code->var, cg_cpu_i64(c, i));
    cg_cpu_block(c, &code->body);
  }
  return true;
}

static LLVMValueRef below(cg_cpu *c, LLVMValueRef a, LLVMValueRef b) {
  return LLVMBuildICmp(c->builder, LLVMIntSLT, a, b, "");
}

static void counted(cg_cpu *c, const ir_code *code, LLVMValueRef lo, LLVMValueRef hi,
                    LLVMValueRef step) {
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->builder);
  LLVMBasicBlockRef body = cg_cpu_new_block(c, code->var->name), done = cg_cpu_new_block(c, "done");
  LLVMBuildCondBr(c->builder, below(c, lo, hi), body, done);
  LLVMPositionBuilderAtEnd(c->builder, body);
  LLVMValueRef i = LLVMBuildPhi(c->builder, LLVMTypeOf(lo), code->var->name);
  bind_loop_var(c, code->var, i);
  cg_cpu_block(c, &code->body);
  LLVMValueRef next = LLVMBuildNSWAdd(c->builder, i, step, "");
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(c->builder);
  LLVMBuildCondBr(c->builder, below(c, next, hi), body, done);
  LLVMValueRef values[2] = {lo, next};
  LLVMBasicBlockRef blocks[2] = {before, latch};
  LLVMAddIncoming(i, values, blocks, 2);
  LLVMPositionBuilderAtEnd(c->builder, done);
}

static void loop(cg_cpu *c, const ir_code *code) {
  LLVMValueRef lo = cg_cpu_expr(c, code->lo), hi = cg_cpu_expr(c, code->hi);
  LLVMValueRef step = code->step ? cg_cpu_expr(c, code->step) : cg_cpu_i64(c, 1);
  if (!unrolled(c, code, lo, hi, step)) counted(c, code, lo, hi, step);
}

static LLVMValueRef larger(cg_cpu *c, LLVMValueRef a, LLVMValueRef b) {
  return cg_cpu_select(c, below(c, a, b), b, a);
}

/* Iterations lo, lo + step, ... that fall into [begin, end): a part may start between two of them.
 */
static void parallel(cg_cpu *c, const ir_code *code) {
  LLVMValueRef lo = cg_cpu_expr(c, code->lo), hi = cg_cpu_expr(c, code->hi);
  LLVMValueRef step = code->step ? cg_cpu_expr(c, code->step) : cg_cpu_i64(c, 1);
  LLVMValueRef skip = larger(c, LLVMBuildSub(c->builder, c->begin, lo, ""), cg_cpu_i64(c, 0));
  LLVMValueRef up =
      LLVMBuildAdd(c->builder, skip, LLVMBuildSub(c->builder, step, cg_cpu_i64(c, 1), ""), "");
  LLVMValueRef trips = LLVMBuildSDiv(c->builder, up, step, "");
  LLVMValueRef from = LLVMBuildAdd(c->builder, lo, LLVMBuildMul(c->builder, trips, step, ""), "");
  LLVMValueRef to = cg_cpu_select(c, below(c, c->end, hi), c->end, hi);
  counted(c, code, from, to, step);
}

static void while_loop(cg_cpu *c, const ir_code *code) {
  LLVMBasicBlockRef head = cg_cpu_new_block(c, "while"), body = cg_cpu_new_block(c, "do");
  LLVMBasicBlockRef done = cg_cpu_new_block(c, "done");
  LLVMBuildBr(c->builder, head);
  LLVMPositionBuilderAtEnd(c->builder, head);
  LLVMBuildCondBr(c->builder, cg_cpu_expr(c, code->cond), body, done);
  LLVMPositionBuilderAtEnd(c->builder, body);
  cg_cpu_block(c, &code->body);
  LLVMBuildBr(c->builder, head);
  LLVMPositionBuilderAtEnd(c->builder, done);
}

static void branch(cg_cpu *c, const ir_code *code) {
  LLVMBasicBlockRef yes = cg_cpu_new_block(c, "then"), done = cg_cpu_new_block(c, "done");
  LLVMBasicBlockRef no = code->orelse.codes.count ? cg_cpu_new_block(c, "else") : done;
  LLVMBuildCondBr(c->builder, cg_cpu_expr(c, code->cond), yes, no);
  LLVMPositionBuilderAtEnd(c->builder, yes);
  cg_cpu_block(c, &code->body);
  LLVMBuildBr(c->builder, done);
  if (no != done) {
    LLVMPositionBuilderAtEnd(c->builder, no);
    cg_cpu_block(c, &code->orelse);
    LLVMBuildBr(c->builder, done);
  }
  LLVMPositionBuilderAtEnd(c->builder, done);
}

/* ---- stores --------------------------------------------------------------------------------- */
static LLVMValueRef combined(cg_cpu *c, const ir_code *code, LLVMValueRef old, LLVMValueRef value) {
  LLVMValueRef x[2] = {old, value};
  return cg_cpu_op(c, code->combine, code->buf->dtype, x);
}

/* The general atomic: read, combine, exchange if nothing came between. */
static void exchange_loop(cg_cpu *c, const ir_code *code, LLVMValueRef where, LLVMValueRef value) {
  ir_dtype t = code->buf->dtype;
  LLVMTypeRef word = cg_cpu_int_type(c, 8 * (unsigned)ir_dtype_bytes(t), 1);
  LLVMTypeRef memory = cg_cpu_memory_type(c, t, 1);
  LLVMValueRef first = LLVMBuildLoad2(c->builder, word, where, "");
  LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
  LLVMSetAlignment(first, (unsigned)ir_dtype_bytes(t));
  LLVMBasicBlockRef before = LLVMGetInsertBlock(c->builder);
  LLVMBasicBlockRef again = cg_cpu_new_block(c, "exchange"), done = cg_cpu_new_block(c, "done");
  LLVMBuildBr(c->builder, again);
  LLVMPositionBuilderAtEnd(c->builder, again);
  LLVMValueRef seen = LLVMBuildPhi(c->builder, word, "");
  LLVMValueRef old = cg_cpu_from_memory(c, t, LLVMBuildBitCast(c->builder, seen, memory, ""));
  LLVMValueRef wanted = cg_cpu_to_memory(c, t, combined(c, code, old, value));
  wanted = LLVMBuildBitCast(c->builder, wanted, word, "");
  LLVMValueRef pair = LLVMBuildAtomicCmpXchg(
      c->builder, where, seen, wanted, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, 0);
  LLVMValueRef values[2] = {first, LLVMBuildExtractValue(c->builder, pair, 0, "")};
  LLVMBasicBlockRef blocks[2] = {before, LLVMGetInsertBlock(c->builder)};
  LLVMAddIncoming(seen, values, blocks, 2);
  LLVMBuildCondBr(c->builder, LLVMBuildExtractValue(c->builder, pair, 1, ""), done, again);
  LLVMPositionBuilderAtEnd(c->builder, done);
}

static void atomic_one(cg_cpu *c, const ir_code *code, LLVMValueRef base, LLVMValueRef offset,
                       LLVMValueRef value, LLVMValueRef mask) {
  ir_dtype t = code->buf->dtype;
  LLVMBasicBlockRef done = NULL;
  if (mask) {
    LLVMBasicBlockRef write = cg_cpu_new_block(c, "write");
    done = cg_cpu_new_block(c, "done");
    LLVMBuildCondBr(c->builder, mask, write, done);
    LLVMPositionBuilderAtEnd(c->builder, write);
  }
  LLVMValueRef where = cg_cpu_element(c, t, base, offset);
  bool whole = ir_dtype_is_int(t) && ir_dtype_rows[t].bits >= 8;
  if (code->combine == IR_OP_ADD && whole)
    LLVMBuildAtomicRMW(c->builder, LLVMAtomicRMWBinOpAdd, where, value, LLVMAtomicOrderingMonotonic,
                       0);
  else
    exchange_loop(c, code, where, value);
  if (!mask) return;
  LLVMBuildBr(c->builder, done);
  LLVMPositionBuilderAtEnd(c->builder, done);
}

/* Lane by lane: offsets of a vector may meet, and consecutive lanes are consecutive elements. */
static void store_lanes(cg_cpu *c, const ir_code *code, LLVMValueRef base, LLVMValueRef offset,
                        LLVMValueRef value, LLVMValueRef mask) {
  int lanes = cg_cpu_lanes(value);
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef at = cg_cpu_lanes(offset) > 1
                          ? cg_cpu_lane(c, offset, i)
                          : LLVMBuildAdd(c->builder, offset, cg_cpu_i64(c, i), "");
    LLVMValueRef one = cg_cpu_lane(c, value, i), keep = mask ? cg_cpu_lane(c, mask, i) : NULL;
    if (code->atomic) {
      atomic_one(c, code, base, at, one, keep);
      continue;
    }
    LLVMValueRef old = cg_cpu_load(c, code->buf->dtype, base, at, 1, keep);
    cg_cpu_store(c, code->buf->dtype, base, at, combined(c, code, old, one), keep);
  }
}

static void store(cg_cpu *c, const ir_code *code) {
  const cg_cpu_bound *base = cg_cpu_find(&c->names, code->buf);
  assert(base && "a buffer is written that the function does not list");
  LLVMValueRef target = base->value, offset = cg_cpu_expr(c, code->offset);
  int lanes = code->value->lanes > code->offset->lanes ? code->value->lanes : code->offset->lanes;
  LLVMValueRef value = cg_cpu_splat(c, cg_cpu_expr(c, code->value), lanes);
  LLVMValueRef mask = code->cond ? cg_cpu_splat(c, cg_cpu_expr(c, code->cond), lanes) : NULL;
  if (code->compressed) {
    cg_cpu_store_compressed(c, code->buf->dtype, target, offset, value, mask);
  } else if (code->combine == IR_OP_COUNT) {
    cg_cpu_store(c, code->buf->dtype, target, offset, value, mask);
  } else if (code->atomic || cg_cpu_lanes(offset) > 1) {
    store_lanes(c, code, target, offset, value, mask);
  } else {
    LLVMValueRef old = cg_cpu_load(c, code->buf->dtype, target, offset, lanes, mask);
    cg_cpu_store(c, code->buf->dtype, target, offset, combined(c, code, old, value), mask);
  }
}

static void prefetch(cg_cpu *c, const ir_code *code) {
  const cg_cpu_bound *base = cg_cpu_find(&c->names, code->buf);
  LLVMValueRef offset = cg_cpu_expr(c, code->offset);
  LLVMTypeRef memory = cg_cpu_memory_type(c, code->buf->dtype, 1);
  LLVMValueRef where = LLVMBuildGEP2(c->builder, memory, base->value, &offset, 1, "");
  LLVMTypeRef pointer = LLVMTypeOf(where);
  LLVMValueRef args[4] = {where, cg_cpu_int(c, 32, 1, 0), cg_cpu_int(c, 32, 1, code->early ? 2 : 3),
                          cg_cpu_int(c, 32, 1, 1)}; /* to read, in the second cache or all, data */
  cg_cpu_intrinsic(c, "llvm.prefetch", &pointer, 1, args, 4);
}

/* ---- one statement, a block, a body ---------------------------------------------------------- */
static void statement(cg_cpu *c, const ir_code *code) {
  switch (code->kind) {
  case IR_FOR: loop(c, code); break;
  case IR_WHILE: while_loop(c, code); break;
  case IR_IF: branch(c, code); break;
  case IR_LET: let(c, code); break;
  case IR_SET: set_value(c, code->var, value_for(c, code->var, code->value)); break;
  case IR_LOCAL: local(c, code->buf); break;
  case IR_STORE: store(c, code); break;
  case IR_PREFETCH: prefetch(c, code); break;
  case IR_BARRIER: break; /* one thread runs the function */
  case IR_COMMENT: break;
  }
}

void cg_cpu_block(cg_cpu *c, const ir_block *block) {
  for (int i = 0; i < block->codes.count; i++) statement(c, block->codes.at[i]);
}

void cg_cpu_body(cg_cpu *c, const ir_func *func) {
  const ir_code *outer = cg_cpu_parallel(c->arena, func, NULL, NULL);
  note_assigned(c, &func->body);
  for (int i = 0; i < func->body.codes.count; i++) {
    if (func->body.codes.at[i] == outer)
      parallel(c, outer);
    else
      statement(c, func->body.codes.at[i]);
  }
}
#else
typedef int cg_cpu_emit_without_llvm;
#endif
