/* parse_name.c - names of IR text to the things that they name. */
#include "ir/parse.h"

bool ir_read_room(ir_reader *r, int count) {
  if (count < IR_MOST_DECLARATIONS) return true;
  ir_read_fail(r, r->token.span, "more than %d declarations of one kind", IR_MOST_DECLARATIONS);
  return false;
}

/* ---- the nearest known names ---------------------------------------------------------------- */
typedef struct known {
  IR_VEC(const char *) names;
} known;

#define ADD_NAMES(r, k, vec)                                                                       \
  for (int i_ = 0; i_ < (vec).count; i_++) IR_PUSH((r)->arena, &(k)->names, (vec).at[i_]->name)

static void unknown(ir_reader *r, ir_span span, const char *what, const char *name,
                    const known *k) {
  ir_read_unknown(r, span, what, name, k->names.at, k->names.count);
}

/* ---- one of each --------------------------------------------------------------------------- */
ir_tensor *ir_read_tensor(ir_reader *r) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  ir_tensor *tensor = ir_tensor_named(r->kernel, name);
  if (tensor || r->failed) return tensor;
  known k = {0};
  ADD_NAMES(r, &k, r->kernel->tensors);
  unknown(r, span, "tensor", name, &k);
  return NULL;
}

ir_index *ir_read_index(ir_reader *r) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  ir_index *index = ir_index_named(r->kernel, name);
  if (index || r->failed) return index;
  known k = {0};
  ADD_NAMES(r, &k, r->kernel->indices);
  unknown(r, span, "index", name, &k);
  return NULL;
}

ir_list *ir_read_list_name(ir_reader *r) {
  ir_span span = r->token.span;
  const char *name = ir_read_name(r);
  known k = {0};
  ir_list *list = ir_table_find(&r->lists, name);
  if (list) return list;
  ADD_NAMES(r, &k, r->kernel->lists);
  unknown(r, span, "list", name, &k);
  return NULL;
}

static ir_buf *buf_named(ir_buf *const *bufs, int count, const char *name) {
  for (int i = count - 1; i >= 0; i--)
    if (!strcmp(bufs[i]->name, name)) return bufs[i];
  return NULL;
}

ir_buf *ir_read_buf(ir_reader *r) {
  ir_span span = r->token.span;
  ir_read_expect(r, "@");
  const char *name = ir_read_name(r);
  ir_buf *buf = NULL;
  if (r->failed) return NULL;
  if (r->func) buf = buf_named(r->func->locals.at, r->func->locals.count, name);
  if (!buf && r->func) buf = buf_named(r->func->bufs.at, r->func->bufs.count, name);
  if (!buf && !r->func) buf = ir_table_find(&r->workspaces, name);
  if (buf) return buf;
  known k = {0};
  ADD_NAMES(r, &k, r->kernel->workspaces);
  if (r->func) ADD_NAMES(r, &k, r->func->bufs);
  if (r->func) ADD_NAMES(r, &k, r->func->locals);
  unknown(r, span, r->func ? "buffer of this function" : "workspace", name, &k);
  return NULL;
}

ir_var *ir_read_var(ir_reader *r) {
  ir_span span = r->token.span;
  ir_read_expect(r, "%");
  const char *name = ir_read_name(r);
  if (r->failed) return NULL;
  known k = {0};
  if (r->func) {
    ir_var *var = ir_table_find(&r->locals, name);
    if (var) return var;
    ADD_NAMES(r, &k, r->func->vars);
    ADD_NAMES(r, &k, r->func->params);
  }
  unknown(r, span, "local of this function", name, &k);
  return NULL;
}

static ir_expr *at(ir_expr *e, ir_span span) {
  e->span = span;
  return e;
}

ir_expr *ir_read_reference(ir_reader *r, const char *name, ir_span span) {
  ir_index *index = r->kernel ? ir_index_named(r->kernel, name) : NULL;
  if (index) return at(ir_index_ref(r->arena, index), span);
  ir_dim *dim = ir_dim_named(r->program, name);
  if (dim) return at(ir_dim_ref(r->arena, dim), span);
  known k = {0};
  ADD_NAMES(r, &k, r->program->dims);
  if (r->kernel) ADD_NAMES(r, &k, r->kernel->indices);
  unknown(r, span, "index or dim", name, &k);
  return ir_int(r->arena, 0);
}

bool ir_read_is_new(ir_reader *r, const char *name, ir_span span) {
  bool taken = ir_dim_named(r->program, name) ||
               (r->kernel && (ir_tensor_named(r->kernel, name) || ir_index_named(r->kernel, name)));
  if (taken) ir_read_fail(r, span, "`%s` is declared twice", name);
  return !taken && !r->failed;
}

/* ---- names used before their declaration ---------------------------------------------------- */
void ir_read_later(ir_reader *r, int kind, void *owner) {
  ir_later later = {.owner = owner, .span = r->token.span};
  later.kind = kind;
  later.name = ir_read_name(r);
  if (!r->failed) IR_PUSH(r->arena, &r->later, later);
}

static void resolve_func(ir_reader *r, const ir_later *l) {
  ir_stage *stage = l->owner;
  known k = {0};
  ir_func *func = ir_table_find(&r->funcs, l->name);
  if (func) {
    IR_PUSH(r->arena, &stage->funcs, func);
    return;
  }
  ADD_NAMES(r, &k, r->kernel->funcs);
  unknown(r, l->span, "function", l->name, &k);
}

static void resolve_one(ir_reader *r, const ir_later *l) {
  known k = {0};
  if (l->kind == IR_LATER_FUNC) {
    resolve_func(r, l);
  } else if (l->kind == IR_LATER_LIKE) {
    ir_tensor *tensor = l->owner;
    tensor->like = ir_tensor_named(r->kernel, l->name);
    if (tensor->like) return;
    ADD_NAMES(r, &k, r->kernel->tensors);
    unknown(r, l->span, "tensor", l->name, &k);
  } else {
    ir_index *index = l->owner;
    index->segment = ir_index_named(r->kernel, l->name);
    if (index->segment) return;
    ADD_NAMES(r, &k, r->kernel->indices);
    unknown(r, l->span, "index", l->name, &k);
  }
}

void ir_read_resolve(ir_reader *r) {
  for (int i = 0; i < r->later.count && !r->failed; i++) resolve_one(r, &r->later.at[i]);
  r->later.count = 0;
}
