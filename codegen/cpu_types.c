/* cpu_types.c - dtypes as LLVM types; constants, intrinsics, loads and stores.
 *
 * One function for each question that depends on the dtype, so that the rest of the emitter does
 * not ask.  Memory is accessed at element alignment: buffers come from the caller. */
#ifdef SPC_HAVE_LLVM
#include "codegen/cpu.h"

/* ---- types ---------------------------------------------------------------------------------- */
LLVMTypeRef cg_cpu_scalar_type(cg_cpu *c, ir_dtype t) {
  if (t == IR_F64) return LLVMDoubleTypeInContext(c->context);
  if (t == IR_F32) return LLVMFloatTypeInContext(c->context);
  if (t == IR_B1) return LLVMInt1TypeInContext(c->context);
  return LLVMIntTypeInContext(c->context, 8 * (unsigned)ir_dtype_bytes(t));
}

static LLVMTypeRef with_lanes(LLVMTypeRef scalar, int lanes) {
  return lanes > 1 ? LLVMVectorType(scalar, (unsigned)lanes) : scalar;
}

LLVMTypeRef cg_cpu_type(cg_cpu *c, ir_dtype t, int lanes) {
  return with_lanes(cg_cpu_scalar_type(c, t), lanes);
}

LLVMTypeRef cg_cpu_int_type(cg_cpu *c, unsigned bits, int lanes) {
  return with_lanes(LLVMIntTypeInContext(c->context, bits), lanes);
}

LLVMTypeRef cg_cpu_memory_type(cg_cpu *c, ir_dtype t, int lanes) {
  return t == IR_B1 ? cg_cpu_int_type(c, 8, lanes) : cg_cpu_type(c, t, lanes);
}

int cg_cpu_lanes(LLVMValueRef v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  return LLVMGetTypeKind(type) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(type) : 1;
}

/* ---- constants and lanes -------------------------------------------------------------------- */
static LLVMValueRef repeat(cg_cpu *c, LLVMValueRef scalar, int lanes) {
  if (lanes == 1) return scalar;
  LLVMValueRef *all = IR_NEW_ARRAY(c->arena, LLVMValueRef, lanes);
  for (int i = 0; i < lanes; i++) all[i] = scalar;
  return LLVMConstVector(all, (unsigned)lanes);
}

LLVMValueRef cg_cpu_int(cg_cpu *c, unsigned bits, int lanes, uint64_t value) {
  return repeat(c, LLVMConstInt(LLVMIntTypeInContext(c->context, bits), value, 0), lanes);
}

LLVMValueRef cg_cpu_i64(cg_cpu *c, int64_t value) { return cg_cpu_int(c, 64, 1, (uint64_t)value); }

LLVMValueRef cg_cpu_const_f(cg_cpu *c, ir_dtype t, int lanes, double value) {
  if (t == IR_F64 || t == IR_F32)
    return repeat(
        c, LLVMConstReal(cg_cpu_scalar_type(c, t), t == IR_F32 ? (double)(float)value : value),
        lanes);
  uint16_t bits = 0;
  ir_dtype_store(t, &bits, 0, value);
  return cg_cpu_int(c, 8 * (unsigned)ir_dtype_bytes(t), lanes, bits);
}

LLVMValueRef cg_cpu_const_i(cg_cpu *c, ir_dtype t, int lanes, int64_t value) {
  if (ir_dtype_is_float(t)) return cg_cpu_const_f(c, t, lanes, (double)value);
  if (t == IR_B1) return cg_cpu_int(c, 1, lanes, value != 0);
  return cg_cpu_int(c, 8 * (unsigned)ir_dtype_bytes(t), lanes, (uint64_t)ir_dtype_wrap(t, value));
}

LLVMValueRef cg_cpu_like(cg_cpu *c, LLVMValueRef model, double value) {
  int lanes = cg_cpu_lanes(model);
  LLVMTypeRef type = LLVMTypeOf(model);
  return repeat(c, LLVMConstReal(lanes > 1 ? LLVMGetElementType(type) : type, value), lanes);
}

LLVMValueRef cg_cpu_splat(cg_cpu *c, LLVMValueRef scalar, int lanes) {
  if (lanes == 1 || cg_cpu_lanes(scalar) > 1) return scalar;
  if (LLVMIsConstant(scalar)) return repeat(c, scalar, lanes);
  LLVMTypeRef vector = LLVMVectorType(LLVMTypeOf(scalar), (unsigned)lanes);
  LLVMValueRef one = LLVMBuildInsertElement(c->builder, LLVMGetPoison(vector), scalar,
                                            cg_cpu_int(c, 32, 1, 0), "");
  return LLVMBuildShuffleVector(c->builder, one, LLVMGetPoison(vector),
                                LLVMConstNull(cg_cpu_int_type(c, 32, lanes)), "");
}

LLVMValueRef cg_cpu_lane(cg_cpu *c, LLVMValueRef v, int lane) {
  if (cg_cpu_lanes(v) == 1) return v;
  return LLVMBuildExtractElement(c->builder, v, cg_cpu_int(c, 32, 1, (uint64_t)lane), "");
}

/* ---- intrinsics ----------------------------------------------------------------------------- */
LLVMValueRef cg_cpu_intrinsic(cg_cpu *c, const char *name, LLVMTypeRef *overloads,
                              int overload_count, LLVMValueRef *args, int count) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef f = LLVMGetIntrinsicDeclaration(c->module, id, overloads, (size_t)overload_count);
  LLVMTypeRef type = LLVMGlobalGetValueType(f);
  return LLVMBuildCall2(c->builder, type, f, args, (unsigned)count, "");
}

LLVMValueRef cg_cpu_unary(cg_cpu *c, const char *name, LLVMValueRef x) {
  LLVMTypeRef type = LLVMTypeOf(x);
  return cg_cpu_intrinsic(c, name, &type, 1, &x, 1);
}

LLVMValueRef cg_cpu_fma(cg_cpu *c, LLVMValueRef a, LLVMValueRef b, LLVMValueRef addend) {
  if (!c->machine.fused)
    return LLVMBuildFAdd(c->builder, LLVMBuildFMul(c->builder, a, b, ""), addend, "");
  LLVMTypeRef type = LLVMTypeOf(a);
  LLVMValueRef args[3] = {a, b, addend};
  return cg_cpu_intrinsic(c, "llvm.fma", &type, 1, args, 3);
}

LLVMValueRef cg_cpu_select(cg_cpu *c, LLVMValueRef cond, LLVMValueRef yes, LLVMValueRef no) {
  return LLVMBuildSelect(c->builder, cond, yes, no, "");
}

/* ---- memory --------------------------------------------------------------------------------- */
LLVMValueRef cg_cpu_from_memory(cg_cpu *c, ir_dtype t, LLVMValueRef raw) {
  if (t != IR_B1) return t == IR_I4 || t == IR_U4 ? cg_cpu_wrap(c, t, raw) : raw;
  return LLVMBuildICmp(c->builder, LLVMIntNE, raw, LLVMConstNull(LLVMTypeOf(raw)), "");
}

LLVMValueRef cg_cpu_to_memory(cg_cpu *c, ir_dtype t, LLVMValueRef value) {
  if (t != IR_B1) return value;
  return LLVMBuildZExt(c->builder, value, cg_cpu_int_type(c, 8, cg_cpu_lanes(value)), "");
}

LLVMValueRef cg_cpu_element(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset) {
  return LLVMBuildInBoundsGEP2(c->builder, cg_cpu_memory_type(c, t, 1), base, &offset, 1, "");
}

/* Masked intrinsics carry their alignment as an argument up to LLVM 21, as an attribute since:
 * without the attribute 22 assumes one byte, which is what the hardware needs here anyway. */
static LLVMValueRef masked_call(cg_cpu *c, const char *name, LLVMTypeRef data, LLVMTypeRef where,
                                LLVMValueRef *args, int count, int align_at, unsigned align) {
  LLVMValueRef all[4];
  int n = 0;
  for (int i = 0; i < count; i++) {
    if (LLVM_VERSION_MAJOR < 22 && i == align_at) all[n++] = cg_cpu_int(c, 32, 1, align);
    all[n++] = args[i];
  }
  LLVMTypeRef overloads[2] = {data, where};
  return cg_cpu_intrinsic(c, name, overloads, 2, all, n);
}

static LLVMValueRef all_true(cg_cpu *c, LLVMValueRef mask, int lanes) {
  return mask ? cg_cpu_splat(c, mask, lanes) : cg_cpu_int(c, 1, lanes, 1);
}

static LLVMValueRef load_vector(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset,
                                int lanes, LLVMValueRef mask) {
  LLVMTypeRef type = cg_cpu_memory_type(c, t, lanes);
  LLVMValueRef where = cg_cpu_element(c, t, base, offset);
  unsigned align = (unsigned)ir_dtype_bytes(t);
  bool gather = cg_cpu_lanes(offset) > 1;
  if (!gather && !mask) {
    LLVMValueRef load = LLVMBuildLoad2(c->builder, type, where, "");
    LLVMSetAlignment(load, align);
    return load;
  }
  LLVMValueRef args[3] = {where, all_true(c, mask, lanes), LLVMConstNull(type)};
  return masked_call(c, gather ? "llvm.masked.gather" : "llvm.masked.load", type, LLVMTypeOf(where),
                     args, 3, 1, align);
}

static LLVMValueRef load_scalar(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset) {
  LLVMTypeRef type = cg_cpu_memory_type(c, t, 1);
  LLVMValueRef load = LLVMBuildLoad2(c->builder, type, cg_cpu_element(c, t, base, offset), "");
  LLVMSetAlignment(load, (unsigned)ir_dtype_bytes(t));
  return load;
}

/* Reads only when the mask holds: what is behind a false mask may be out of bounds. */
static LLVMValueRef load_if(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset,
                            LLVMValueRef mask) {
  LLVMBasicBlockRef from = LLVMGetInsertBlock(c->builder);
  LLVMBasicBlockRef read = cg_cpu_new_block(c, "read"), join = cg_cpu_new_block(c, "join");
  LLVMBuildCondBr(c->builder, mask, read, join);
  LLVMPositionBuilderAtEnd(c->builder, read);
  LLVMValueRef value = load_scalar(c, t, base, offset);
  LLVMBuildBr(c->builder, join);
  LLVMPositionBuilderAtEnd(c->builder, join);
  LLVMValueRef phi = LLVMBuildPhi(c->builder, LLVMTypeOf(value), "");
  LLVMValueRef values[2] = {LLVMConstNull(LLVMTypeOf(value)), value};
  LLVMBasicBlockRef blocks[2] = {from, read};
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}

LLVMValueRef cg_cpu_load(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset, int lanes,
                         LLVMValueRef mask) {
  LLVMValueRef raw = lanes > 1 ? load_vector(c, t, base, offset, lanes, mask)
                     : mask    ? load_if(c, t, base, offset, mask)
                               : load_scalar(c, t, base, offset);
  return cg_cpu_from_memory(c, t, raw);
}

/* Lane by lane in ascending order: a later lane wins where offsets meet. */
static void scatter(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset,
                    LLVMValueRef value, LLVMValueRef mask) {
  for (int i = 0; i < cg_cpu_lanes(offset); i++)
    cg_cpu_store(c, t, base, cg_cpu_lane(c, offset, i), cg_cpu_lane(c, value, i),
                 mask ? cg_cpu_lane(c, mask, i) : NULL);
}

static void store_plain(cg_cpu *c, ir_dtype t, LLVMValueRef where, LLVMValueRef raw) {
  LLVMSetAlignment(LLVMBuildStore(c->builder, raw, where), (unsigned)ir_dtype_bytes(t));
}

void cg_cpu_store(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset, LLVMValueRef value,
                  LLVMValueRef mask) {
  if (cg_cpu_lanes(offset) > 1) {
    scatter(c, t, base, offset, value, mask);
    return;
  }
  LLVMValueRef raw = cg_cpu_to_memory(c, t, value);
  if (!mask) {
    store_plain(c, t, cg_cpu_element(c, t, base, offset), raw);
  } else if (cg_cpu_lanes(value) > 1) {
    LLVMValueRef where = cg_cpu_element(c, t, base, offset);
    LLVMValueRef args[3] = {raw, where, all_true(c, mask, cg_cpu_lanes(value))};
    masked_call(c, "llvm.masked.store", LLVMTypeOf(raw), c->pointer, args, 3, 2,
                (unsigned)ir_dtype_bytes(t));
  } else {
    LLVMBasicBlockRef write = cg_cpu_new_block(c, "write"), join = cg_cpu_new_block(c, "join");
    LLVMBuildCondBr(c->builder, mask, write, join);
    LLVMPositionBuilderAtEnd(c->builder, write);
    store_plain(c, t, cg_cpu_element(c, t, base, offset), raw);
    LLVMBuildBr(c->builder, join);
    LLVMPositionBuilderAtEnd(c->builder, join);
  }
}

/* ---- out of registers ------------------------------------------------------------------------ */
static int picked_at_once(int count) { return count < 16 ? count : 16; }

bool cg_cpu_can_pick(const cg_cpu *c, ir_dtype t, int count, int lanes) {
  int bits = c->machine.vector_bits;
  bool fits = (count == 8 && bits >= 256) || ((count == 16 || count == 32) && bits >= 512);
  return t == IR_F32 && fits && lanes <= picked_at_once(count);
}

/* The lanes of v that there are, of `count`. */
static LLVMValueRef with_room(cg_cpu *c, LLVMValueRef v, int count) {
  LLVMValueRef which[16];
  for (int i = 0; i < count; i++)
    which[i] = cg_cpu_int(c, 32, 1, (uint64_t)(i < cg_cpu_lanes(v) ? i : 0));
  return LLVMBuildShuffleVector(c->builder, v, LLVMGetPoison(LLVMTypeOf(v)),
                                LLVMConstVector(which, (unsigned)count), "");
}

LLVMValueRef cg_cpu_pick(cg_cpu *c, LLVMValueRef buf, int count, LLVMValueRef places) {
  int lanes = cg_cpu_lanes(places), width = picked_at_once(count);
  LLVMValueRef at = LLVMBuildTrunc(c->builder, places, cg_cpu_int_type(c, 32, lanes), "");
  LLVMValueRef args[3] = {cg_cpu_load(c, IR_F32, buf, cg_cpu_i64(c, 0), width, NULL),
                          with_room(c, at, width), NULL};
  if (count > width) args[2] = cg_cpu_load(c, IR_F32, buf, cg_cpu_i64(c, width), width, NULL);
  const char *name = count > width ? "llvm.x86.avx512.vpermi2var.ps.512"
                     : width == 16 ? "llvm.x86.avx512.permvar.sf.512"
                                   : "llvm.x86.avx2.permps";
  LLVMValueRef picked = cg_cpu_intrinsic(c, name, NULL, 0, args, count > width ? 3 : 2);
  return with_room(c, picked, lanes);
}

/* ---- compressed stores ----------------------------------------------------------------------- */
static LLVMValueRef kept_lanes(cg_cpu *c, LLVMValueRef mask) {
  LLVMTypeRef bits = LLVMIntTypeInContext(c->context, (unsigned)cg_cpu_lanes(mask));
  LLVMValueRef word = LLVMBuildBitCast(c->builder, mask, bits, "");
  return LLVMBuildZExt(c->builder, cg_cpu_unary(c, "llvm.ctpop", word),
                       LLVMInt64TypeInContext(c->context), "");
}

/* The first `kept` lanes. */
static LLVMValueRef first_lanes(cg_cpu *c, LLVMValueRef kept, int lanes) {
  LLVMValueRef number[64];
  for (int i = 0; i < lanes; i++) number[i] = cg_cpu_int(c, 16, 1, (uint64_t)i);
  LLVMTypeRef type = LLVMInt16TypeInContext(c->context);
  LLVMValueRef most = cg_cpu_splat(c, LLVMBuildTrunc(c->builder, kept, type, ""), lanes);
  return LLVMBuildICmp(c->builder, LLVMIntULT, LLVMConstVector(number, (unsigned)lanes), most, "");
}

/* A register of 512 bits is compressed, then stored under a mask: a compressing store to memory is
 * many times slower on some machines. */
static void store_register(cg_cpu *c, ir_dtype t, LLVMValueRef where, LLVMValueRef raw,
                           LLVMValueRef mask) {
  LLVMTypeRef type = LLVMTypeOf(raw), wide = type;
  int lanes = cg_cpu_lanes(raw), bits = 8 * (int)ir_dtype_bytes(t);
  if (bits < 32) {
    LLVMTypeRef narrow = cg_cpu_int_type(c, (unsigned)bits, lanes);
    wide = cg_cpu_int_type(c, 32, lanes);
    raw = LLVMBuildZExt(c->builder, LLVMBuildBitCast(c->builder, raw, narrow, ""), wide, "");
  }
  LLVMValueRef args[3] = {raw, LLVMConstNull(wide), mask};
  raw = cg_cpu_intrinsic(c, "llvm.x86.avx512.mask.compress", &wide, 1, args, 3);
  if (bits < 32) {
    raw = LLVMBuildTrunc(c->builder, raw, cg_cpu_int_type(c, (unsigned)bits, lanes), "");
    raw = LLVMBuildBitCast(c->builder, raw, type, "");
  }
  LLVMValueRef store[3] = {raw, where, first_lanes(c, kept_lanes(c, mask), lanes)};
  masked_call(c, "llvm.masked.store", type, c->pointer, store, 3, 2, (unsigned)ir_dtype_bytes(t));
}

void cg_cpu_store_compressed(cg_cpu *c, ir_dtype t, LLVMValueRef base, LLVMValueRef offset,
                             LLVMValueRef value, LLVMValueRef mask) {
  int lanes = cg_cpu_lanes(value), bytes = (int)ir_dtype_bytes(t);
  int width = lanes * (bytes < 4 ? 4 : bytes);
  bool whole = c->machine.vector_bits >= 512 && (width == 64 || width == 32);
  if (whole) {
    LLVMValueRef raw = cg_cpu_to_memory(c, t, value);
    store_register(c, t, cg_cpu_element(c, t, base, offset), raw, mask);
    return;
  }
  for (int i = 0; i < lanes; i++) {
    LLVMValueRef keep = cg_cpu_lane(c, mask, i);
    cg_cpu_store(c, t, base, offset, cg_cpu_lane(c, value, i), keep);
    offset =
        LLVMBuildAdd(c->builder, offset,
                     LLVMBuildZExt(c->builder, keep, LLVMInt64TypeInContext(c->context), ""), "");
  }
}
#else
typedef int cg_cpu_types_without_llvm; /* a translation unit is not empty */
#endif
