/* cuda_team.c - printing loops that the threads of a team share.
 *
 *     lanes 4 for j in 0 .. N { acc = acc + x.vals[i*N + j] }
 * becomes
 *     spc_share<32, 4>(0, N, [&](long long j, float spc_x_vals_0) {
 *       acc = acc + spc_x_vals_0;
 *     }, x_vals + (i * N));
 *     acc = spc_combine<32>(acc, [](float x, float y) { return x + y; });
 *
 * What every iteration loads, one element behind that of the iteration before, comes as a parameter: team.cuh loads
 * several at a time. */
#include "codegen/cuda.h"

static ir_arena *arena_of(const cg_printer *p) { return p->out->arena; }

/* ---- elements that come as parameters ---------------------------------------------------------- */
/* offset = var + the result, which does not change in the loop; NULL: it is not of that form. */
static ir_expr *start_of(const cg_printer *p, const ir_code *loop, ir_expr *offset) {
  if (offset->kind == IR_VAR && offset->var == loop->var) return ir_int(arena_of(p), 0);
  if (offset->kind != IR_OP || offset->op != IR_OP_ADD) return NULL;
  for (int i = 0; i < 2; i++) {
    ir_expr *with = offset->args[i], *rest = offset->args[1 - i];
    if (!ir_expr_uses_var(with, loop->var) || ir_expr_uses_var(rest, loop->var)) continue;
    ir_expr *start = start_of(p, loop, with);
    if (!start) return NULL;
    return start->kind == IR_CONST ? rest : ir_apply(arena_of(p), IR_OP_ADD, start, rest);
  }
  return NULL;
}

static bool is_steady(const ir_code *loop, const ir_expr *e) {
  if (e->kind == IR_VAR) return !ir_block_declares(&loop->body, e->var);
  for (int i = 0; i < e->arg_count; i++)
    if (!is_steady(loop, e->args[i])) return false;
  return true;
}

static void add_near(cg_printer *p, const ir_code *loop, const ir_expr *load) {
  for (int i = 0; i < p->near_count; i++)
    if (p->near[i].buf == load->buf && ir_expr_equal(p->near[i].offset, load->args[0])) return;
  bool fixed = !ir_expr_uses_var(load->args[0], loop->var); /* one element for all iterations */
  ir_expr *start = fixed ? load->args[0] : start_of(p, loop, load->args[0]);
  if (!start || !is_steady(loop, start) || p->near_count == CG_NEAR || load->args[0]->lanes > 1) return;
  if (ir_block_stores(&loop->body, load->buf)) return;
  const char *name = ir_format_text(arena_of(p), "spc_%s_%d", cg_cuda_name(arena_of(p), load->buf->name), p->near_count);
  p->near[p->near_count++] = (cg_near){load->buf, load->args[0], start, name, fixed};
}

/* where(a comparison of reals, ..): what is there does not depend on it, as it may on indices. */
static bool asks_for_values(const ir_expr *e) {
  return e->op == IR_OP_WHERE && e->args[0]->kind == IR_OP && e->args[0]->arg_count == 2 &&
         ir_dtype_is_float(e->args[0]->args[0]->dtype);
}

/* Only what is loaded whatever the values are: behind a condition an element need not be there. */
typedef void adding(cg_printer *p, const ir_code *loop, const ir_expr *load);

static void find_near(cg_printer *p, const ir_code *loop, const ir_expr *e, adding *add) {
  bool branches = e->kind == IR_OP && (e->op == IR_OP_AND || e->op == IR_OP_OR || e->op == IR_OP_WHERE);
  branches = branches && !asks_for_values(e);
  if (e->kind == IR_LOAD && e->arg_count == 1 && e->buf->kind != IR_BUF_LOCAL) add(p, loop, e);
  for (int i = 0; i < e->arg_count && (i == 0 || !branches) && e->kind != IR_LOAD; i++) find_near(p, loop, e->args[i], add);
}

/* any and all ask no further than they must, but every element is there. */
static const ir_expr *combined_part(const ir_loop_sums *sums, const ir_code *c) {
  for (int i = 0; c->kind == IR_SET && i < sums->at.count; i++)
    if (sums->at.at[i].var == c->var && c->value->kind == IR_OP && c->value->arg_count == 2)
      return ir_expr_uses_var(c->value->args[0], c->var) ? c->value->args[1] : c->value->args[0];
  return c->value;
}

static void find_elements(cg_printer *p, const ir_code *loop, const ir_loop_sums *sums, adding *add) {
  for (int i = 0; i < loop->body.codes.count; i++) {
    const ir_code *c = loop->body.codes.at[i];
    if (c->kind == IR_LET || c->kind == IR_SET) find_near(p, loop, combined_part(sums, c), add);
    if (c->kind == IR_STORE && !c->cond) find_near(p, loop, c->value, add);
    if (c->kind == IR_IF) find_near(p, loop, c->cond, add);
    if (c->kind == IR_IF || c->kind == IR_WHILE || c->kind == IR_FOR) break; /* what it sets may decide */
  }
}

/* ---- sums -------------------------------------------------------------------------------------- */
static ir_expr *neutral(const cg_printer *p, ir_op op, ir_dtype t) {
  for (int r = 0; r < IR_RED_COUNT; r++) {
    if (ir_reducer_rows[r].combine != op) continue;
    return ir_dtype_is_float(t) ? ir_const_f(arena_of(p), t, ir_reducer_identity((ir_reducer)r, t))
                                : ir_const_i(arena_of(p), t, ir_reducer_identity_int((ir_reducer)r, t));
  }
  return ir_const_i(arena_of(p), t, 0);
}

static const char *name_of(const cg_printer *p, const ir_var *var) { return cg_cuda_name(arena_of(p), var->name); }

static void open_sum(cg_printer *p, const ir_loop_sum *sum) {
  const char *type = cg_value_type(sum->var->dtype), *name = name_of(p, sum->var);
  cg_print_indent(p);
  if (sum->best) {
    const char *best = name_of(p, sum->best), *value = cg_value_type(sum->best->dtype);
    ir_text_printf(p->out, "const spc_place<%s> spc_%s = {%s, %s};\n", value, name, best, name);
    cg_print_indent(p);
    ir_text_printf(p->out, "%s = -1;\n", name);
    return;
  }
  ir_text_printf(p->out, "const %s spc_%s = %s;\n", type, name, name);
  cg_print_indent(p);
  ir_text_printf(p->out, "%s = ", name);
  cg_print_expr(p, neutral(p, sum->combine, sum->var->dtype));
  ir_text_put(p->out, ";\n");
}

static ir_expr *named(const cg_printer *p, const char *name, ir_dtype t) {
  ir_var *var = IR_NEW(arena_of(p), ir_var);
  *var = (ir_var){name, t, 1};
  return ir_var_ref(arena_of(p), var);
}

static void close_best(cg_printer *p, const ir_loop_sum *sum) {
  const char *name = name_of(p, sum->var), *best = name_of(p, sum->best), *type = cg_value_type(sum->best->dtype);
  cg_print_indent(p);
  ir_text_printf(p->out, "const spc_place<%s> spc_all_%s = spc_better(spc_%s, spc_combine<%d>(spc_place<%s>{%s, %s}, "
                 "[](spc_place<%s> x, spc_place<%s> y) { return spc_better(x, y); }));\n",
                 type, name, name, p->team, type, best, name, type, type);
  cg_print_indent(p);
  ir_text_printf(p->out, "%s = spc_all_%s.value;\n", best, name);
  cg_print_indent(p);
  ir_text_printf(p->out, "%s = spc_all_%s.at;\n", name, name);
}

/* With what it was before the loop. */
static void put_combined(cg_printer *p, const ir_loop_sum *sum) {
  const char *name = name_of(p, sum->var);
  cg_print_indent(p);
  ir_text_printf(p->out, "%s = ", name);
  ir_expr *before = named(p, ir_format_text(arena_of(p), "spc_%s", name), sum->var->dtype);
  cg_print_expr(p, ir_apply(arena_of(p), sum->combine, before, ir_var_ref(arena_of(p), sum->var)));
  ir_text_put(p->out, ";\n");
}

static void close_sum(cg_printer *p, const ir_loop_sum *sum) {
  ir_dtype t = sum->var->dtype;
  const char *type = cg_value_type(t), *name = name_of(p, sum->var);
  if (sum->best) {
    close_best(p, sum);
    return;
  }
  cg_print_indent(p);
  ir_text_printf(p->out, "%s = spc_combine<%d>(%s, [](%s x, %s y) { return (%s)(", name, p->team, name, type, type, type);
  ir_expr *y = named(p, "y", t);
  cg_print_expr(p, ir_apply(arena_of(p), sum->combine, named(p, "x", t), y));
  ir_text_put(p->out, "); });\n");
  put_combined(p, sum);
}

/* ---- the loop ---------------------------------------------------------------------------------- */
/* Elements that are the same in all iterations, unless there are none. */
static void put_fixed(cg_printer *p, const ir_code *c) {
  int count = p->near_count;
  for (int i = 0; i < count; i++) {
    const char *type = ir_dtype_rows[p->near[i].buf->dtype].cuda;
    if (!p->near[i].fixed) continue;
    cg_print_indent(p);
    ir_text_printf(p->out, "%s %s = {};\n", type, p->near[i].name);
    cg_print_indent(p);
    ir_text_put(p->out, "if (");
    p->near_count = 0; /* what says where it is, is none */
    cg_print_expr(p, c->lo);
    ir_text_put(p->out, " < ");
    cg_print_expr(p, c->hi);
    ir_text_printf(p->out, ") %s = %s[", p->near[i].name, cg_print_buffer(p, p->near[i].buf));
    cg_print_expr(p, p->near[i].start);
    p->near_count = count;
    ir_text_put(p->out, "];\n");
  }
}

static int moving(const cg_printer *p) {
  int count = 0;
  for (int i = 0; i < p->near_count; i++) count += !p->near[i].fixed;
  return count;
}

/* Of a lambda that a team's threads share, behind its opening brace. */
static void put_shared_body(cg_printer *p, const ir_block *body) {
  p->depth++;
  p->shared++;
  cg_print_block(p, body);
  p->shared--;
  p->depth--;
  cg_print_indent(p);
  ir_text_put(p->out, "}");
}

static void put_share(cg_printer *p, const ir_code *c) {
  put_fixed(p, c);
  cg_print_indent(p);
  if (ir_block_has_loop(&c->body)) ir_text_printf(p->out, "spc_share_each<%d>(", p->team);
  else ir_text_printf(p->out, "spc_share<%d, %d>(", p->team, moving(p) ? c->width : 1);
  cg_print_expr(p, c->lo);
  ir_text_put(p->out, ", ");
  cg_print_expr(p, c->hi);
  ir_text_printf(p->out, ", [&](long long %s", name_of(p, c->var));
  for (int i = 0; i < p->near_count; i++)
    if (!p->near[i].fixed) ir_text_printf(p->out, ", %s %s", ir_dtype_rows[p->near[i].buf->dtype].cuda, p->near[i].name);
  ir_text_put(p->out, ") {\n");
  put_shared_body(p, &c->body);
  int count = p->near_count;
  p->near_count = 0; /* starts are not elements */
  for (int i = 0; i < count; i++) {
    if (p->near[i].fixed) continue;
    ir_text_printf(p->out, ", %s + (", cg_print_buffer(p, p->near[i].buf));
    cg_print_expr(p, p->near[i].start);
    ir_text_put(p->out, ")");
  }
  ir_text_put(p->out, ");\n");
}

typedef struct loads {
  const ir_buf *buf; /* NULL: any */
  bool found;
} loads;

static bool note_load(void *user, ir_expr *e) {
  loads *l = user;
  l->found |= e->kind == IR_LOAD && (!l->buf || e->buf == l->buf);
  return !l->found;
}

static bool loads_of(ir_expr *e, const ir_buf *buf) {
  loads l = {buf, false};
  ir_expr_walk(e, note_load, &l);
  return l.found;
}

/* One element is stored, of what is loaded elsewhere and not at a steady distance: values are asked for before stores. */
static bool only_stores(const cg_printer *p, const ir_code *c) {
  const ir_code *store = c->body.codes.count == 1 ? c->body.codes.at[0] : NULL;
  if (!store || p->near_count || store->kind != IR_STORE || store->cond || store->atomic || store->value->lanes > 1) return false;
  return store->combine == IR_OP_COUNT && !loads_of(store->value, store->buf) && loads_of(store->value, NULL) && !loads_of(store->offset, NULL);
}

static void put_stores(cg_printer *p, const ir_code *c) {
  ir_code store = *c->body.codes.at[0];
  ir_var value = {"spc_value", store.value->dtype, 1};
  ir_block body = {.codes = {0}};
  cg_print_indent(p);
  ir_text_printf(p->out, "spc_share_stores<%d>(", p->team);
  cg_print_expr(p, c->lo);
  ir_text_put(p->out, ", ");
  cg_print_expr(p, c->hi);
  ir_text_printf(p->out, ", [&](long long %s) { return ", name_of(p, c->var));
  cg_print_expr(p, store.value);
  ir_text_printf(p->out, "; }, [&](long long %s, %s %s) {\n", name_of(p, c->var), cg_value_type(value.dtype), value.name);
  store.value = ir_var_ref(arena_of(p), &value);
  IR_PUSH(arena_of(p), &body.codes, &store);
  put_shared_body(p, &body);
  ir_text_put(p->out, ");\n");
}

void cg_print_shared(cg_printer *p, const ir_code *c) {
  ir_loop_sums sums;
  if (!ir_loop_sums_of(arena_of(p), c, true, &sums)) {
    ir_text_put(p->out, "/* lanes share no sum */"); /* does not compile: a defect shows itself */
    return;
  }
  ir_text_put(p->out, "{\n");
  p->depth++;
  if (!ir_block_has_loop(&c->body)) find_elements(p, c, &sums, add_near);
  for (int i = 0; i < sums.at.count; i++) open_sum(p, &sums.at.at[i]);
  if (only_stores(p, c)) put_stores(p, c);
  else put_share(p, c);
  for (int i = 0; i < sums.at.count; i++) close_sum(p, &sums.at.at[i]);
  p->depth--;
  cg_print_indent(p);
  ir_text_put(p->out, "}");
}

/* ---- rows of lanes ------------------------------------------------------------------------------- */
/* e = a number of times var, and what does not change in the loop */
static bool is_affine(const ir_code *loop, const ir_expr *e) {
  if (!ir_expr_uses_var(e, loop->var)) return is_steady(loop, e);
  if (e->kind == IR_VAR) return true;
  if (e->kind != IR_OP || (e->op != IR_OP_MUL && e->op != IR_OP_ADD)) return false;
  bool both = ir_expr_uses_var(e->args[0], loop->var) && ir_expr_uses_var(e->args[1], loop->var);
  return !both && is_affine(loop, e->args[0]) && is_affine(loop, e->args[1]);
}

/* Elements that begin elsewhere in every row, at the same distance, and such as a row has one of; others stay where they are. */
static void find_row_elements(cg_printer *p, const ir_code *rows, const ir_code *lanes, const ir_loop_sums *sums) {
  find_elements(p, lanes, sums, add_near);
  int kept = 0;
  for (int i = 0; i < p->near_count; i++)
    if (is_affine(rows, p->near[i].start)) p->near[kept++] = p->near[i];
  p->near_count = kept;
}

/* ---- what loops hand to team.cuh ------------------------------------------------------------------ */
static void put_range(cg_printer *p, const ir_code *c) {
  cg_print_expr(p, c->lo);
  ir_text_put(p->out, ", ");
  cg_print_expr(p, c->hi);
  ir_text_put(p->out, ", ");
  cg_print_expr(p, c->step ? c->step : ir_int(arena_of(p), 1));
}

static void put_element_params(cg_printer *p, int count) {
  for (int i = 0; i < count; i++)
    ir_text_printf(p->out, ", %s %s", ir_dtype_rows[p->near[i].buf->dtype].cuda, p->near[i].name);
}

/* Where each element begins, by iteration.  Starts are not elements themselves: the caller's count is told apart. */
static void put_starts(cg_printer *p, const ir_code *c, int count) {
  p->near_count = 0;
  for (int i = 0; i < count; i++) {
    const cg_near *e = &p->near[i];
    ir_text_printf(p->out, ", %s[&](long long %s) { return %s + (", e->fixed ? "spc_one{" : "", name_of(p, c->var),
                   cg_print_buffer(p, e->buf));
    cg_print_expr(p, e->start);
    ir_text_printf(p->out, "); }%s", e->fixed ? "}" : "");
  }
  ir_text_put(p->out, ");");
}

bool cg_is_rows_of_lanes(const cg_printer *p, const ir_code *c) {
  return p->team == 1 && c->run == IR_RUN_SEQUENTIAL && c->body.codes.count == 1 &&
         c->body.codes.at[0]->kind == IR_FOR && c->body.codes.at[0]->run == IR_RUN_LANES;
}

/* Behind the range of rows. */
static void put_rows_of_lanes(cg_printer *p, const ir_code *c, const ir_code *lanes, const ir_loop_sums *sums) {
  find_row_elements(p, c, lanes, sums);
  cg_print_expr(p, lanes->lo);
  ir_text_put(p->out, ", ");
  cg_print_expr(p, lanes->hi);
  ir_text_printf(p->out, ", [&](long long %s, long long %s", name_of(p, c->var), name_of(p, lanes->var));
  put_element_params(p, p->near_count);
  ir_text_put(p->out, ") {\n");
  put_shared_body(p, &lanes->body);
  put_starts(p, c, p->near_count);
}

void cg_print_rows_of_lanes(cg_printer *p, const ir_code *c) {
  const ir_code *lanes = c->body.codes.at[0];
  ir_loop_sums sums;
  if (!ir_loop_sums_of(arena_of(p), lanes, true, &sums) || sums.at.count) {
    ir_text_put(p->out, "/* a team of one sums in arrays */"); /* does not compile: a defect shows itself */
    return;
  }
  ir_text_printf(p->out, "spc_share_rows<%d>(", lanes->width);
  put_range(p, c);
  ir_text_put(p->out, ", ");
  put_rows_of_lanes(p, c, lanes, &sums);
}

/* ---- columns ------------------------------------------------------------------------------------- */
static void put_shape(const cg_printer *p) {
  ir_text_printf(p->out, "spc_columns<%d, %d>::", p->columns->width, ir_shape_of_columns(p->columns).shares->width);
}

/* Threads past the last column do what those of the last one do, for others wait for them, and store nothing. */
static void open_columns(cg_printer *p, const ir_code *c) {
  const char *name = name_of(p, c->var);
  bool once = cg_grid_covers(c) && !p->launch->cluster; /* nothing is kept in registers for a next turn */
  p->columns = c;
  ir_text_printf(p->out, "%s (%slong long spc_base = ", once ? "if" : "for", once ? "const " : "");
  cg_print_expr(p, c->lo);
  ir_text_put(p->out, " + ");
  put_shape(p);
  ir_text_put(p->out, "first(); spc_base < (");
  cg_print_expr(p, c->hi);
  if (!once) {
    ir_text_put(p->out, "); spc_base += ");
    put_shape(p);
    ir_text_put(p->out, "step()");
  } else {
    ir_text_put(p->out, ")");
  }
  ir_text_put(p->out, ") {\n");
  p->depth++;
  cg_print_indent(p);
  ir_text_printf(p->out, "const long long spc_end = ");
  cg_print_expr(p, c->hi);
  ir_text_printf(p->out, ", %s = spc_min(spc_base + ", name);
  put_shape(p);
  ir_text_put(p->out, "lane(), spc_end - 1);\n");
  cg_print_indent(p);
  ir_text_put(p->out, "const bool spc_stores = ");
  put_shape(p);
  ir_text_put(p->out, "stores(spc_base + ");
  put_shape(p);
  ir_text_put(p->out, "lane() < spc_end);\n");
}

static void put_meeting(cg_printer *p, const ir_array_sum *sum) {
  ir_dtype t = sum->buf->dtype;
  const char *type = cg_value_type(t);
  ir_text_put(p->out, "\n");
  cg_print_indent(p);
  put_shape(p);
  ir_text_printf(p->out, "meet(%s, [](%s x, %s y) { return (%s)(", cg_print_buffer(p, sum->buf), type, type, type);
  cg_print_expr(p, ir_apply(arena_of(p), sum->combine, named(p, "x", t), named(p, "y", t)));
  ir_text_put(p->out, "); });");
}

/* Shares that are rows of lanes, and combine in arrays. */
static void put_wide_shares(cg_printer *p, const ir_code *c, const ir_array_sums *arrays) {
  const ir_code *lanes = c->body.codes.count == 1 ? c->body.codes.at[0] : NULL;
  ir_loop_sums sums;
  if (!lanes || lanes->run != IR_RUN_LANES || !ir_loop_sums_of(arena_of(p), lanes, true, &sums) || sums.at.count) {
    ir_text_put(p->out, "/* shares are rows of lanes */"); /* does not compile: a defect shows itself */
    return;
  }
  ir_text_printf(p->out, "spc_share_rows<%d, 8>(", lanes->width);
  cg_print_expr(p, c->lo);
  ir_text_put(p->out, " + ");
  put_shape(p);
  ir_text_put(p->out, "share(), ");
  cg_print_expr(p, c->hi);
  ir_text_printf(p->out, ", %dll, ", c->width);
  put_rows_of_lanes(p, c, lanes, &sums);
  for (int i = 0; i < arrays->at.count; i++) put_meeting(p, &arrays->at.at[i]);
}

/* Sums of one type and op meet at once. */
static void meet_variables(cg_printer *p, const ir_loop_sums *sums, int first) {
  const ir_loop_sum *sum = &sums->at.at[first];
  ir_dtype t = sum->var->dtype;
  const char *type = cg_value_type(t);
  cg_print_indent(p);
  put_shape(p);
  if (t == IR_B1 && sum->combine == IR_OP_OR) {
    ir_text_put(p->out, "meet_any(");
  } else {
    ir_text_printf(p->out, "meet_all([](%s x, %s y) { return (%s)(", type, type, type);
    cg_print_expr(p, ir_apply(arena_of(p), sum->combine, named(p, "x", t), named(p, "y", t)));
    ir_text_put(p->out, "); }, ");
  }
  for (int i = first; i < sums->at.count; i++)
    if (sums->at.at[i].var->dtype == t && sums->at.at[i].combine == sum->combine)
      ir_text_printf(p->out, "%s%s", i > first ? ", " : "", name_of(p, sums->at.at[i].var));
  ir_text_put(p->out, ");\n");
}

static bool met_before(const ir_loop_sums *sums, int at) {
  for (int i = 0; i < at; i++)
    if (sums->at.at[i].var->dtype == sums->at.at[at].var->dtype && sums->at.at[i].combine == sums->at.at[at].combine) return true;
  return false;
}

/* Each takes every so many of the iterations: one, where there are as many as shares. */
static void put_shares_by_turns(cg_printer *p, const ir_code *c, const ir_loop_sums *sums) {
  const char *name = name_of(p, c->var);
  bool one = c->lo->kind == IR_CONST && c->lo->i == 0 && c->hi->kind == IR_CONST && c->hi->i == c->width;
  ir_text_put(p->out, "{\n");
  p->depth++;
  for (int i = 0; i < sums->at.count; i++) open_sum(p, &sums->at.at[i]);
  cg_print_indent(p);
  ir_text_printf(p->out, one ? "if (const long long %s = " : "for (long long %s = ", name);
  cg_print_expr(p, c->lo);
  ir_text_put(p->out, " + ");
  put_shape(p);
  ir_text_put(p->out, "share()");
  if (one) {
    ir_text_printf(p->out, "; %s < %d) {\n", name, c->width);
  } else {
    ir_text_put(p->out, ", spc_last = ");
    cg_print_expr(p, c->hi);
    ir_text_printf(p->out, "; %s < spc_last; %s += %d) {\n", name, name, c->width);
  }
  put_shared_body(p, &c->body);
  ir_text_put(p->out, "\n");
  for (int i = 0; i < sums->at.count; i++)
    if (!met_before(sums, i)) meet_variables(p, sums, i);
  for (int i = 0; i < sums->at.count; i++) put_combined(p, &sums->at.at[i]);
  p->depth--;
  cg_print_indent(p);
  ir_text_put(p->out, "}");
}

static void put_shares(cg_printer *p, const ir_code *c) {
  ir_array_sums arrays;
  ir_loop_sums sums;
  if (ir_array_sums_of(arena_of(p), c, &arrays) && arrays.at.count) {
    put_wide_shares(p, c, &arrays);
    return;
  }
  if (ir_shares_fit(arena_of(p), c) && ir_loop_sums_of(arena_of(p), c, true, &sums)) put_shares_by_turns(p, c, &sums);
  else ir_text_put(p->out, "/* shares combine no values */"); /* does not compile: a defect shows itself */
}

void cg_print_columns(cg_printer *p, const ir_code *c) {
  if (c->run == IR_RUN_SHARES) {
    put_shares(p, c);
    return;
  }
  if (!ir_shape_of_columns(c).shares) {
    ir_text_put(p->out, "/* columns without shares that fit */"); /* does not compile: a defect shows itself */
    return;
  }
  open_columns(p, c);
  cg_print_block(p, &c->body);
  p->depth--;
  p->columns = NULL;
  cg_print_indent(p);
  ir_text_put(p->out, "}");
}

/* ---- steps of a thread ---------------------------------------------------------------------------- */
/* Elements that lie at the same distance from one iteration to the next. */
static void add_step(cg_printer *p, const ir_code *loop, const ir_expr *load) {
  ir_expr *offset = load->args[0];
  for (int i = 0; i < p->near_count; i++)
    if (p->near[i].buf == load->buf && ir_expr_equal(p->near[i].offset, offset)) return;
  if (!ir_expr_uses_var(offset, loop->var) || !is_affine(loop, offset) || p->near_count == CG_NEAR || offset->lanes > 1) return;
  if (ir_block_stores(&loop->body, load->buf)) return;
  const char *name = ir_format_text(arena_of(p), "spc_%s_%d", cg_cuda_name(arena_of(p), load->buf->name), p->near_count);
  p->near[p->near_count++] = (cg_near){load->buf, offset, offset, name, false};
}

bool cg_print_steps(cg_printer *p, const ir_code *c) {
  ir_loop_sums sums;
  if (c->run != IR_RUN_UNROLL || c->width < 2 || p->near_count || !ir_loop_sums_of(arena_of(p), c, true, &sums)) return false;
  find_elements(p, c, &sums, add_step);
  int count = p->near_count;
  if (!count) return false;
  p->near_count = 0;
  ir_text_printf(p->out, "spc_take_steps<%d>(", c->width);
  put_range(p, c);
  ir_text_printf(p->out, ", [&](long long %s", name_of(p, c->var));
  put_element_params(p, count);
  ir_text_put(p->out, ") {\n");
  p->near_count = count;
  put_shared_body(p, &c->body);
  put_starts(p, c, count);
  return true;
}
