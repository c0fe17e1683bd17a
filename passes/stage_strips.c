/* stage_strips.c - a const operand that a product packs over strips of columns, packed once.
 *
 *     W2 : f32[F,D] const                                  stage W2_strips     once, kept
 *     y = sum[f] h*W2                                        W2_strips[f,o] = W2[f,o]   [o/64, f, o%64]
 *     candidate y: rows of h, strips of 64 o, W2 packed    stage y             unkept: packs every strip itself
 *                                                          stage y.kept        kept: walks W2_strips
 *
 * Packing reads all of W2 in short pieces that lie a row apart, which takes as long as walking a
 * twentieth of its products.  Who hands over what spc_plan_pack made reads strips as they lie; a run
 * that keeps nothing would only write the copy and read it again, so it packs a strip at a time into
 * its core's cache, as without const. */
#include "passes/choice.h"
#include "passes/expr.h"
#include "passes/stage.h"
#include "passes/storage.h"

static ir_level dense_level(int dim, ir_level_map map, int64_t factor) {
  return (ir_level){
      .kind = IR_LEVEL_DENSE, .dim = dim, .map = map, .factor = factor, .unique = true};
}

/* [o/64: dense, f: dense, o%64: dense] */
static const ir_format *strip_format(ir_arena *arena, int column_dim, int64_t width) {
  ir_format *format = IR_NEW(arena, ir_format);
  *format = (ir_format){.name = "strips", .rank = 2, .level_count = 3};
  format->level[0] = dense_level(column_dim, IR_MAP_DIV, width);
  format->level[1] = dense_level(1 - column_dim, IR_MAP_WHOLE, 0);
  format->level[2] = dense_level(column_dim, IR_MAP_MOD, width);
  return format;
}

static const ir_expr *packed_of(pass_context *context, ir_stmt *stmt, const ir_candidate *candidate,
                                const ir_tile_size *tile, int *column_dim) {
  pass_sum sum;
  pass_strips fit;
  const ir_tensor *listed = candidate->operand;
  if (tile->index == candidate->strip_index || tile->size <= 1) return NULL;
  if (!pass_sum_of(context, stmt, &sum) || !pass_strips_fit(&sum, tile->index, listed, &fit))
    return NULL;
  *column_dim = fit.column_dim;
  return fit.packed;
}

/* What is computed in another type is converted on the way into its strip: a copy of it would be larger. */
static bool is_worth_a_copy(const ir_tensor *tensor) {
  return tensor->role == IR_ROLE_IN && tensor->constant && !tensor->pitch[0] &&
         (tensor->dtype == IR_F32 || tensor->dtype == IR_F64);
}

static ir_tensor *strips_there(const ir_kernel *kernel, const ir_tensor *source,
                               const ir_format *format, int at) {
  for (int i = 0; i < at; i++) {
    const ir_stmt *stmt = kernel->stmts.at[i];
    if (stmt->target->role == IR_ROLE_TEMP && pass_stmt_converts(stmt) == source &&
        ir_format_equal(stmt->target->format, format))
      return stmt->target;
  }
  return NULL;
}

static ir_tensor *strips_of(pass_context *context, ir_kernel *kernel, const ir_tensor *source,
                            const ir_format *format) {
  const char *stem = ir_format_text(context->arena, "%s_strips", source->name);
  ir_tensor *copy = ir_tensor_new(kernel, ir_fresh_name(kernel, stem), IR_ROLE_TEMP, source->dtype);
  copy->rank = source->rank;
  memcpy(copy->dim, source->dim, sizeof copy->dim);
  copy->format = format;
  copy->constant = true;
  copy->format_why =
      ir_format_text(context->arena, "`%s` as strips are walked, for runs that keep it", source->name);
  return copy;
}

int pass_stage_strips(pass_context *context, ir_kernel *kernel, int at,
                      const ir_candidate *candidate, ir_tensor **out) {
  *out = NULL;
  bool cpu = pass_target_of(context)->kind == IR_TARGET_CPU;
  if (!cpu || kernel->program->unpacked || !candidate || candidate->expanded || strcmp(candidate->row, "loop")) return 0;
  for (int i = 0; i < candidate->tiles.count; i++) {
    const ir_tile_size *tile = &candidate->tiles.at[i];
    int column_dim;
    const ir_expr *packed = packed_of(context, kernel->stmts.at[at], candidate, tile, &column_dim);
    if (!packed || !is_worth_a_copy(packed->tensor)) continue;
    const ir_format *format = strip_format(context->arena, column_dim, tile->size);
    ir_tensor *source = packed->tensor;
    *out = strips_there(kernel, source, format, at);
    if (*out) return 0;
    *out = strips_of(context, kernel, source, format);
    pass_format_insert(context->arena, kernel, at, pass_format_copy(context, kernel, source, *out));
    return 1;
  }
  return 0;
}
