/* build.c - making programs: declarations and expressions.
 *
 * Builders set the dtype of what they make; the operands must already agree (the front end inserts
 * casts).  i64 arithmetic is folded as it is built, so that offsets stay readable. */
#include "ir/ir.h"

/* ---- declarations -------------------------------------------------------------------------- */
ir_program *ir_program_new(ir_arena *arena) {
  ir_program *program = IR_NEW(arena, ir_program);
  program->arena = arena;
  return program;
}

ir_kernel *ir_kernel_new(ir_program *program, const char *name) {
  ir_kernel *kernel = IR_NEW(program->arena, ir_kernel);
  kernel->program = program;
  kernel->name = ir_strdup(program->arena, name);
  IR_PUSH(program->arena, &program->kernels, kernel);
  ir_table_add(program->arena, &program->kernels_named, kernel->name, kernel);
  return kernel;
}

ir_dim *ir_dim_new(ir_program *program, const char *name) {
  ir_dim *dim = IR_NEW(program->arena, ir_dim);
  *dim = (ir_dim){.name = ir_strdup(program->arena, name),
                  .number = program->dims.count,
                  .value = -1,
                  .multiple = 1};
  IR_PUSH(program->arena, &program->dims, dim);
  ir_table_add(program->arena, &program->dims_named, dim->name, dim);
  return dim;
}

ir_index *ir_index_new(ir_kernel *kernel, const char *name, ir_expr *extent) {
  ir_arena *arena = kernel->program->arena;
  ir_index *index = IR_NEW(arena, ir_index);
  *index = (ir_index){.name = ir_strdup(arena, name), .extent = extent};
  IR_PUSH(arena, &kernel->indices, index);
  ir_table_add(arena, &kernel->indices_named, index->name, index);
  return index;
}

ir_tensor *ir_tensor_new(ir_kernel *kernel, const char *name, ir_role role, ir_dtype dtype) {
  ir_arena *arena = kernel->program->arena;
  ir_tensor *tensor = IR_NEW(arena, ir_tensor);
  *tensor = (ir_tensor){.name = ir_strdup(arena, name), .role = role, .dtype = dtype};
  tensor->pattern = (ir_pattern){.density_low = -1, .density_high = -1, .axis = -1};
  IR_PUSH(arena, &kernel->tensors, tensor);
  ir_table_add(arena, &kernel->tensors_named, tensor->name, tensor);
  return tensor;
}

ir_tensor *ir_tensor_owner(const ir_tensor *tensor) {
  while (tensor->like) tensor = tensor->like;
  return (ir_tensor *)tensor;
}

ir_dtype ir_index_dtype(const ir_kernel *kernel, const ir_tensor *tensor) {
  tensor = ir_tensor_owner(tensor);
  bool wide = tensor->role == IR_ROLE_IN ? tensor->wide : kernel->wide;
  return wide ? IR_I64 : IR_I32;
}

void ir_widen(ir_kernel *kernel, ir_tensor *input) {
  kernel->wide = true;
  if (input) input->wide = true;
  for (int i = 0; !input && i < kernel->tensors.count; i++) {
    ir_tensor *t = kernel->tensors.at[i];
    t->wide = t->role == IR_ROLE_IN && t->format && !ir_format_is_dense(t->format);
  }
}

ir_stmt *ir_stmt_new(ir_kernel *kernel, ir_tensor *target) {
  ir_stmt *stmt = IR_NEW(kernel->program->arena, ir_stmt);
  stmt->target = target;
  stmt->combine = IR_RED_COUNT;
  stmt->acc = ir_dtype_rows[target->dtype].accumulator;
  target->def = stmt;
  return stmt;
}

/* ---- names ----------------------------------------------------------------------------------- */
static bool name_taken(const void *user, const char *name) {
  const ir_kernel *kernel = user;
  return ir_dim_named(kernel->program, name) || ir_tensor_named(kernel, name) ||
         ir_index_named(kernel, name);
}

const char *ir_fresh_name(ir_kernel *kernel, const char *stem) {
  ir_arena *arena = kernel->program->arena;
  return ir_stems_fresh(arena, &kernel->stems, ir_strdup(arena, stem), name_taken, kernel);
}

static bool is_gone(const ir_map *gone, const void *thing) {
  return ir_map_find(gone, thing, -1) >= 0;
}

static void free_name(ir_kernel *kernel, ir_table *named, const char *name, const void *thing) {
  if (ir_table_find(named, name) != thing) return;
  ir_table_remove(named, name);
  ir_stems_freed(kernel->program->arena, &kernel->stems, name);
}

void ir_tensor_free_name(ir_kernel *kernel, const ir_tensor *tensor) {
  free_name(kernel, &kernel->tensors_named, tensor->name, tensor);
}

void ir_tensors_drop(ir_kernel *kernel, const ir_map *gone) {
  int kept = 0;
  for (int i = 0; i < kernel->tensors.count; i++) {
    ir_tensor *tensor = kernel->tensors.at[i];
    if (is_gone(gone, tensor))
      ir_tensor_free_name(kernel, tensor);
    else
      kernel->tensors.at[kept++] = tensor;
  }
  kernel->tensors.count = kept;
  kept = 0;
  for (int i = 0; i < kernel->needs.count; i++)
    if (!is_gone(gone, kernel->needs.at[i].tensor)) kernel->needs.at[kept++] = kernel->needs.at[i];
  kernel->needs.count = kept;
}

void ir_indices_drop(ir_kernel *kernel, const ir_map *gone) {
  int kept = 0;
  for (int i = 0; i < kernel->indices.count; i++) {
    ir_index *index = kernel->indices.at[i];
    if (is_gone(gone, index))
      free_name(kernel, &kernel->indices_named, index->name, index);
    else
      kernel->indices.at[kept++] = index;
  }
  kernel->indices.count = kept;
}

/* ---- leaves -------------------------------------------------------------------------------- */
ir_expr *ir_node_new(ir_arena *a, ir_kind kind, ir_dtype dtype, int lanes, int arg_count) {
  ir_expr *e = IR_NEW(a, ir_expr);
  *e = (ir_expr){.kind = kind,
                 .dtype = dtype,
                 .lanes = lanes,
                 .op = IR_OP_COUNT,
                 .reducer = IR_RED_COUNT,
                 .arg_count = arg_count};
  if (arg_count) e->args = IR_NEW_ARRAY(a, ir_expr *, arg_count);
  return e;
}

ir_expr *ir_const_i(ir_arena *a, ir_dtype t, int64_t value) {
  if (ir_dtype_is_float(t)) return ir_const_f(a, t, (double)value);
  ir_expr *e = ir_node_new(a, IR_CONST, t, 1, 0);
  e->i = ir_dtype_wrap(t, value);
  return e;
}

ir_expr *ir_const_f(ir_arena *a, ir_dtype t, double value) {
  if (!ir_dtype_is_float(t)) return ir_const_i(a, t, (int64_t)value);
  ir_expr *e = ir_node_new(a, IR_CONST, t, 1, 0);
  e->f = value;
  return e;
}

ir_expr *ir_int(ir_arena *a, int64_t value) { return ir_const_i(a, IR_I64, value); }

ir_expr *ir_dim_ref(ir_arena *a, ir_dim *dim) {
  ir_expr *e = ir_node_new(a, IR_DIM, IR_I64, 1, 0);
  e->dim = dim;
  return e;
}

ir_expr *ir_index_ref(ir_arena *a, ir_index *index) {
  ir_expr *e = ir_node_new(a, IR_INDEX, IR_I64, 1, 0);
  e->index = index;
  return e;
}

ir_expr *ir_access(ir_arena *a, ir_tensor *tensor, ir_expr **subs) {
  ir_expr *e = ir_node_new(a, IR_ACCESS, tensor->dtype ? tensor->dtype : IR_B1, 1, tensor->rank);
  for (int i = 0; i < tensor->rank; i++) e->args[i] = subs[i];
  e->tensor = tensor;
  return e;
}

/* ---- ops ----------------------------------------------------------------------------------- */
static bool is_int(const ir_expr *e) {
  return e && e->kind == IR_CONST && e->dtype == IR_I64 && e->lanes == 1;
}

static bool is_value(const ir_expr *e, int64_t value) { return is_int(e) && e->i == value; }

/* Folds i64: two constants, x+0, 0+x, x-0, x*1, 1*x, x/1, x*0.  NULL: nothing to fold. */
static ir_expr *fold(ir_arena *a, ir_op op, ir_expr *x, ir_expr *y) {
  if (x->dtype != IR_I64 || x->lanes != 1 || (y && y->lanes != 1)) return NULL;
  const ir_op_row *row = &ir_op_rows[op];
  if (is_int(x) && (!y || is_int(y)) && row->result == IR_RESULT_SAME && row->eval_int)
    return ir_int(a, row->eval_int((int64_t[]){x->i, y ? y->i : 0}));
  if (op == IR_OP_ADD && is_value(x, 0)) return y;
  if ((op == IR_OP_ADD || op == IR_OP_SUB) && is_value(y, 0)) return x;
  if (op == IR_OP_MUL && (is_value(x, 1) || is_value(y, 0))) return y;
  if (op == IR_OP_MUL && (is_value(y, 1) || is_value(x, 0))) return x;
  if (op == IR_OP_DIV && is_value(y, 1)) return x;
  return NULL;
}

static int most_lanes(ir_expr *const *args, int count) {
  int lanes = 1;
  for (int i = 0; i < count; i++)
    if (args[i]->lanes > lanes) lanes = args[i]->lanes;
  return lanes;
}

static ir_dtype result_dtype(ir_op op, ir_expr *const *args) {
  ir_result result = ir_op_rows[op].result;
  return result == IR_RESULT_BOOL ? IR_B1 : args[result == IR_RESULT_RIGHT]->dtype;
}

ir_expr *ir_op_new(ir_arena *a, ir_op op, ir_expr *const *args, int count) {
  ir_expr *e = ir_node_new(a, IR_OP, result_dtype(op, args), most_lanes(args, count), count);
  e->op = op;
  for (int i = 0; i < count; i++) e->args[i] = args[i];
  return e;
}

ir_expr *ir_apply(ir_arena *a, ir_op op, ir_expr *x, ir_expr *y) {
  ir_expr *folded = fold(a, op, x, y);
  return folded ? folded : ir_op_new(a, op, (ir_expr *[]){x, y}, y ? 2 : 1);
}

ir_expr *ir_apply3(ir_arena *a, ir_op op, ir_expr *x, ir_expr *y, ir_expr *z) {
  return ir_op_new(a, op, (ir_expr *[]){x, y, z}, 3);
}

ir_expr *ir_ceil_div(ir_arena *a, ir_expr *x, int64_t divisor) {
  return ir_apply(a, IR_OP_DIV, ir_apply(a, IR_OP_ADD, x, ir_int(a, divisor - 1)),
                  ir_int(a, divisor));
}

ir_expr *ir_round_up(ir_arena *a, ir_expr *x, int64_t step) {
  ir_expr *sum = ir_op_new(a, IR_OP_ADD, (ir_expr *[]){x, ir_int(a, step - 1)}, 2);
  ir_expr *steps = ir_op_new(a, IR_OP_DIV, (ir_expr *[]){sum, ir_int(a, step)}, 2);
  return ir_op_new(a, IR_OP_MUL, (ir_expr *[]){steps, ir_int(a, step)}, 2);
}

ir_expr *ir_cast(ir_arena *a, ir_dtype t, ir_expr *x) {
  if (x->dtype == t) return x;
  ir_expr *e = ir_node_new(a, IR_CAST, t, 1, 1);
  e->args[0] = x;
  e->lanes = x->lanes;
  return e;
}

/* ---- reductions and row ops ---------------------------------------------------------------- */
static ir_dtype reduced_dtype(ir_reducer r, ir_dtype body) {
  if (r == IR_RED_ARGMAX) return IR_I64;
  return ir_op_rows[ir_reducer_rows[r].combine].result == IR_RESULT_BOOL ? IR_B1 : body;
}

static void set_bound(ir_arena *a, ir_expr *e, ir_index *const *bound, int count) {
  e->bound = IR_NEW_ARRAY(a, ir_index *, count);
  e->bound_count = count;
  for (int i = 0; i < count; i++) e->bound[i] = bound[i];
}

ir_expr *ir_reduce(ir_arena *a, ir_reducer r, ir_index **bound, int count, ir_expr *body) {
  ir_expr *e = ir_node_new(a, IR_REDUCE, reduced_dtype(r, body->dtype), 1, 1);
  e->reducer = r;
  e->args[0] = body;
  set_bound(a, e, bound, count);
  return e;
}

ir_expr *ir_row_op(ir_arena *a, ir_kind softmax_or_topk, ir_index *along, ir_expr *body,
                   int64_t k) {
  ir_expr *e = ir_node_new(a, softmax_or_topk, body->dtype, 1, 1);
  e->args[0] = body;
  e->i = k;
  set_bound(a, e, &along, 1);
  return e;
}

ir_expr *ir_copy_with(ir_arena *a, const ir_expr *e, ir_expr **args) {
  ir_expr *copy = IR_NEW(a, ir_expr);
  *copy = *e;
  if (e->arg_count) copy->args = IR_NEW_ARRAY(a, ir_expr *, e->arg_count);
  for (int i = 0; i < e->arg_count; i++) copy->args[i] = args[i];
  return copy;
}
