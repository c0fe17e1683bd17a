/* cpu_expr.c - expressions of the loop dialect to LLVM values.
 *
 * A product that feeds a sum is contracted to one multiply-add (f32 and f64), never across
 * statements.  `and`, `or` and `where` of scalars do not touch what they do not need: an operand
 * that reads memory is evaluated behind a branch.  Vectors have masks for that. */
#ifdef SPC_HAVE_LLVM
#include <assert.h>

#include "codegen/cpu.h"

/* ---- names ---------------------------------------------------------------------------------- */
static int slot_of(const cg_cpu_map *map, const void *key) {
  uint64_t hash = ((uint64_t)(uintptr_t)key >> 4) * 0x9e3779b97f4a7c15u;
  int at = (int)(hash >> 33) & (map->capacity - 1);
  while (map->at[at].key && map->at[at].key != key) at = (at + 1) & (map->capacity - 1);
  return at;
}

cg_cpu_bound *cg_cpu_find(const cg_cpu_map *map, const void *key) {
  if (!map->capacity) return NULL;
  cg_cpu_bound *found = &map->at[slot_of(map, key)];
  return found->key ? found : NULL;
}

static void grow(cg_cpu *c, cg_cpu_map *map) {
  cg_cpu_map bigger = {.capacity = map->capacity ? 2 * map->capacity : 64};
  bigger.at = IR_NEW_ARRAY(c->arena, cg_cpu_bound, bigger.capacity);
  for (int i = 0; i < map->capacity; i++)
    if (map->at[i].key) bigger.at[slot_of(&bigger, map->at[i].key)] = map->at[i];
  bigger.count = map->count;
  *map = bigger;
}

void cg_cpu_bind(cg_cpu *c, cg_cpu_map *map, cg_cpu_bound bound) {
  if (2 * (map->count + 1) > map->capacity) grow(c, map);
  cg_cpu_bound *at = &map->at[slot_of(map, bound.key)];
  if (!at->key) map->count++;
  *at = bound;
}

/* ---- leaves --------------------------------------------------------------------------------- */
static LLVMValueRef constant(cg_cpu *c, const ir_expr *e) {
  return ir_dtype_is_float(e->dtype) ? cg_cpu_const_f(c, e->dtype, e->lanes, e->f)
                                     : cg_cpu_const_i(c, e->dtype, e->lanes, e->i);
}

/* Read once, where the function begins: behind a store or a branch it would be read again. */
static LLVMValueRef read_size(cg_cpu *c, const ir_dim *d) {
  LLVMBasicBlockRef here = LLVMGetInsertBlock(c->builder);
  LLVMPositionBuilderAtEnd(c->builder, c->entry);
  LLVMValueRef size = cg_cpu_load(c, IR_I64, c->sizes, cg_cpu_i64(c, d->number), 1, NULL);
  LLVMSetValueName2(size, d->name, strlen(d->name));
  cg_cpu_bind(c, &c->names, (cg_cpu_bound){.key = d, .value = size});
  LLVMPositionBuilderAtEnd(c->builder, here);
  return size;
}

static LLVMValueRef dim(cg_cpu *c, const ir_dim *d) {
  if (d->value >= 0) return cg_cpu_i64(c, d->value);
  cg_cpu_bound *known = cg_cpu_find(&c->names, d);
  return known ? known->value : read_size(c, d);
}

static LLVMValueRef variable(cg_cpu *c, const ir_var *var) {
  const cg_cpu_bound *bound = cg_cpu_find(&c->names, var);
  assert(bound && "a local is used before it is declared");
  return bound->slot ? LLVMBuildLoad2(c->builder, bound->type, bound->value, "") : bound->value;
}

static bool lies_in_registers(const cg_cpu *c, const ir_expr *e) {
  const ir_buf *buf = e->buf;
  return buf->kind == IR_BUF_LOCAL && e->arg_count == 1 && e->args[0]->lanes > 1 &&
         buf->count->kind == IR_CONST &&
         cg_cpu_can_pick(c, buf->dtype, (int)buf->count->i, e->lanes);
}

static LLVMValueRef load(cg_cpu *c, const ir_expr *e) {
  const cg_cpu_bound *base = cg_cpu_find(&c->names, e->buf);
  assert(base && "a buffer is read that the function does not list");
  if (lies_in_registers(c, e))
    return cg_cpu_pick(c, base->value, (int)e->buf->count->i, cg_cpu_expr(c, e->args[0]));
  LLVMValueRef offset = cg_cpu_expr(c, e->args[0]);
  LLVMValueRef mask = e->arg_count > 1 ? cg_cpu_expr(c, e->args[1]) : NULL;
  return cg_cpu_load(c, e->buf->dtype, base->value, offset, e->lanes, mask);
}

/* ---- what may not be evaluated early --------------------------------------------------------- */
static bool reads_memory(const ir_expr *e) {
  if (e->kind == IR_LOAD && e->buf->kind != IR_BUF_LOCAL && e->arg_count < 2) return true;
  for (int i = 0; i < e->arg_count; i++)
    if (reads_memory(e->args[i])) return true;
  return false;
}

static LLVMValueRef joined(cg_cpu *c, LLVMValueRef *values, LLVMBasicBlockRef *blocks) {
  LLVMValueRef phi = LLVMBuildPhi(c->builder, LLVMTypeOf(values[0]), "");
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}

/* cond ? yes : no, each evaluated in a block of its own; NULL stands for the constant `otherwise`.
 */
static LLVMValueRef branch(cg_cpu *c, LLVMValueRef cond, const ir_expr *yes, const ir_expr *no,
                           bool otherwise) {
  LLVMBasicBlockRef block[2] = {cg_cpu_new_block(c, "then"), cg_cpu_new_block(c, "else")};
  LLVMBasicBlockRef join = cg_cpu_new_block(c, "join");
  const ir_expr *arm[2] = {yes, no};
  LLVMValueRef value[2];
  LLVMBuildCondBr(c->builder, cond, block[0], block[1]);
  for (int i = 0; i < 2; i++) {
    LLVMPositionBuilderAtEnd(c->builder, block[i]);
    value[i] = arm[i] ? cg_cpu_expr(c, arm[i]) : cg_cpu_int(c, 1, 1, otherwise);
    LLVMBuildBr(c->builder, join);
    block[i] = LLVMGetInsertBlock(c->builder);
  }
  LLVMPositionBuilderAtEnd(c->builder, join);
  return joined(c, value, block);
}

static bool is_lazy(const ir_expr *e) {
  if (e->lanes > 1) return false;
  if (e->op == IR_OP_WHERE) return reads_memory(e->args[1]) || reads_memory(e->args[2]);
  return (e->op == IR_OP_AND || e->op == IR_OP_OR) && reads_memory(e->args[1]);
}

static LLVMValueRef lazy(cg_cpu *c, const ir_expr *e) {
  LLVMValueRef cond = cg_cpu_expr(c, e->args[0]);
  if (e->op == IR_OP_WHERE) return branch(c, cond, e->args[1], e->args[2], false);
  if (e->op == IR_OP_AND) return branch(c, cond, e->args[1], NULL, false);
  return branch(c, cond, NULL, e->args[1], true);
}

/* ---- operators ------------------------------------------------------------------------------ */
static bool is_product(const ir_expr *e) { return e->kind == IR_OP && e->op == IR_OP_MUL; }

static LLVMValueRef operand(cg_cpu *c, const ir_expr *e, int lanes) {
  return cg_cpu_splat(c, cg_cpu_expr(c, e), lanes);
}

/* a*b + d, d + a*b, a*b - d, d - a*b */
static LLVMValueRef contracted(cg_cpu *c, const ir_expr *e) {
  int at = is_product(e->args[1]) ? 1 : 0;
  const ir_expr *product = e->args[at], *other = e->args[1 - at];
  LLVMValueRef a = operand(c, product->args[0], e->lanes);
  LLVMValueRef b = operand(c, product->args[1], e->lanes);
  LLVMValueRef addend = operand(c, other, e->lanes);
  if (e->op == IR_OP_SUB && at == 1) a = LLVMBuildFNeg(c->builder, a, "");
  if (e->op == IR_OP_SUB && at == 0) addend = LLVMBuildFNeg(c->builder, addend, "");
  return cg_cpu_fma(c, a, b, addend);
}

static bool can_contract(const cg_cpu *c, const ir_expr *e) {
  if (!c->machine.fused || (e->dtype != IR_F32 && e->dtype != IR_F64)) return false;
  return (e->op == IR_OP_ADD || e->op == IR_OP_SUB) &&
         (is_product(e->args[0]) || is_product(e->args[1]));
}

static LLVMValueRef apply(cg_cpu *c, const ir_expr *e) {
  if (can_contract(c, e)) return contracted(c, e);
  if (is_lazy(e)) return lazy(c, e);
  LLVMValueRef x[3] = {NULL, NULL, NULL};
  for (int i = 0; i < e->arg_count; i++) x[i] = operand(c, e->args[i], e->lanes);
  return cg_cpu_op(c, e->op, e->args[e->op == IR_OP_WHERE ? 1 : 0]->dtype, x);
}

static LLVMValueRef cast(cg_cpu *c, const ir_expr *e) {
  LLVMValueRef v = cg_cpu_expr(c, e->args[0]);
  return cg_cpu_splat(c, cg_cpu_cast(c, e->args[0]->dtype, e->dtype, v), e->lanes);
}

static LLVMValueRef half_of(cg_cpu *c, LLVMValueRef v, int from, int count) {
  if (count == 1) return cg_cpu_lane(c, v, from);
  LLVMValueRef *which = IR_NEW_ARRAY(c->arena, LLVMValueRef, count);
  for (int i = 0; i < count; i++) which[i] = cg_cpu_int(c, 32, 1, (uint64_t)(from + i));
  return LLVMBuildShuffleVector(c->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(which, (unsigned)count), "");
}

/* Over the lanes of a vector: halves are combined until one is left; what is odd comes last. */
/* How many lanes of a mask are set. */
static bool counts_lanes(const ir_expr *e) {
  const ir_expr *x = e->args[0];
  return e->reducer == IR_RED_SUM && x->kind == IR_CAST && ir_dtype_is_int(x->dtype) &&
         x->args[0]->dtype == IR_B1 && x->lanes == x->args[0]->lanes && x->lanes > 1;
}

static LLVMValueRef lanes_set(cg_cpu *c, const ir_expr *e) {
  LLVMValueRef mask = cg_cpu_expr(c, e->args[0]->args[0]);
  LLVMTypeRef bits = LLVMIntTypeInContext(c->context, (unsigned)cg_cpu_lanes(mask));
  LLVMValueRef word = LLVMBuildBitCast(c->builder, mask, bits, "");
  return LLVMBuildIntCast2(c->builder, cg_cpu_unary(c, "llvm.ctpop", word),
                           cg_cpu_type(c, e->dtype, 1), false, "");
}

/* Any of a mask's lanes: its bits as a number. */
static LLVMValueRef any_set(cg_cpu *c, const ir_expr *e) {
  LLVMValueRef mask = cg_cpu_expr(c, e->args[0]);
  LLVMTypeRef bits = LLVMIntTypeInContext(c->context, (unsigned)cg_cpu_lanes(mask));
  LLVMValueRef word = LLVMBuildBitCast(c->builder, mask, bits, "");
  return LLVMBuildICmp(c->builder, LLVMIntNE, word, LLVMConstInt(bits, 0, false), "");
}

static LLVMValueRef over_lanes(cg_cpu *c, const ir_expr *e) {
  if (counts_lanes(e)) return lanes_set(c, e);
  if (e->reducer == IR_RED_ANY && e->dtype == IR_B1 && e->args[0]->lanes > 1) return any_set(c, e);
  ir_op op = ir_reducer_rows[e->reducer].combine;
  LLVMValueRef v = cg_cpu_expr(c, e->args[0]), odd = NULL;
  assert(op < IR_OP_COUNT && e->bound_count == 0);
  for (int lanes = cg_cpu_lanes(v); lanes > 1; lanes /= 2) {
    if (lanes % 2) {
      LLVMValueRef last[2] = {cg_cpu_lane(c, v, lanes - 1), odd};
      odd = odd ? cg_cpu_op(c, op, e->dtype, last) : last[0];
    }
    LLVMValueRef x[2] = {half_of(c, v, 0, lanes / 2), half_of(c, v, lanes / 2, lanes / 2)};
    v = cg_cpu_op(c, op, e->dtype, x);
  }
  LLVMValueRef x[2] = {v, odd};
  return odd ? cg_cpu_op(c, op, e->dtype, x) : v;
}

LLVMValueRef cg_cpu_expr(cg_cpu *c, const ir_expr *e) {
  switch (e->kind) {
  case IR_CONST: return constant(c, e);
  case IR_DIM: return dim(c, e->dim);
  case IR_VAR: return variable(c, e->var);
  case IR_LOAD: return load(c, e);
  case IR_CAST: return cast(c, e);
  case IR_OP: return apply(c, e);
  case IR_REDUCE: return over_lanes(c, e);
  case IR_INDEX:
  case IR_ACCESS:
  case IR_SOFTMAX:
  case IR_TOPK:
  case IR_STORED: break;
  }
  assert(false && "not an expression of the loop dialect");
  return cg_cpu_i64(c, 0);
}
#else
typedef int cg_cpu_expr_without_llvm;
#endif
