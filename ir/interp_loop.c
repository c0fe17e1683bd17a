/* interp_loop.c - runs a function of the loop dialect as written: the code before machine code.
 *
 * The top-level parallel loop runs the iterations lo, lo + step, ... that fall into [begin, end),
 * as the CPU's entry convention says.  Local buffers start as NaN (floats) or -1, so that a read
 * before the first write shows.  Loops over grids and threads run one after the other, which is the
 * same program as long as no barrier stands inside a loop over threads: that is refused. */
#include "ir/interp_loop.h"

static void run_block(loop_run *r, const lblock *block, bool top);

static bool took_step(loop_run *r) {
  if (r->steps++ < r->limit) return true;
  if (!r->status) {
    loop_defect(r, "it did not end within %lld steps", (long long)r->limit);
    r->status = SPC_CAPACITY;
  }
  return false;
}

static void run_for(loop_run *r, const lcode *c, bool top) {
  int64_t lo = loop_int(r, c->lo), hi = loop_int(r, c->hi),
          step = c->step ? loop_int(r, c->step) : 1;
  bool part = top && c->code->run == IR_RUN_PARALLEL;
  bool threads = c->code->run == IR_RUN_THREAD;
  if (step <= 0) {
    loop_defect(r, "the loop over `%s` has a step of %lld", c->code->var->name, (long long)step);
    return;
  }
  if (part && r->begin > lo) lo += (r->begin - lo + step - 1) / step * step;
  if (part && r->end < hi) hi = r->end;
  r->threads += threads;
  for (int64_t i = lo; i < hi && !r->status && took_step(r); i += step) {
    c->var->i = i;
    run_block(r, &c->body, false);
    if (i > INT64_MAX - step) break;
  }
  r->threads -= threads;
}

static void run_while(loop_run *r, const lcode *c) {
  while (!r->status && loop_int(r, c->cond) && took_step(r)) run_block(r, &c->body, false);
}

static void run_set(loop_run *r, const lcode *c) {
  cell value[LOOP_MAX_LANES] = {{0}};
  int lanes = c->code->var->lanes > 0 ? c->code->var->lanes : 1;
  if (lanes > LOOP_MAX_LANES) lanes = LOOP_MAX_LANES;
  if (c->value) loop_eval_as(r, c->value, lanes, value);
  memcpy(c->var, value, sizeof(cell) * (size_t)lanes);
}

static void run_local(const lcode *c) {
  const ir_array *a = &c->memory->array;
  if (a->count) memset(a->data, 0xff, (size_t)a->count * ir_dtype_bytes(a->dtype));
}

static void write_cell(const memory *m, int64_t at, cell x) {
  if (ir_dtype_is_float(m->array.dtype))
    ir_dtype_store(m->array.dtype, m->array.data, at, x.f);
  else
    ir_dtype_store_int(m->array.dtype, m->array.data, at, x.i);
}

static void run_store(loop_run *r, const lcode *c) {
  cell at[LOOP_MAX_LANES], value[LOOP_MAX_LANES], mask[LOOP_MAX_LANES];
  int lanes = c->value->lanes > c->offset->lanes ? c->value->lanes : c->offset->lanes;
  ir_dtype t = c->memory->array.dtype;
  loop_eval(r, c->offset, at);
  loop_eval_as(r, c->value, lanes, value);
  if (c->cond) loop_eval_as(r, c->cond, lanes, mask);
  for (int l = 0, kept = 0; l < lanes && !r->status; l++) {
    int64_t offset = loop_lane(at, c->offset->lanes, l);
    if (c->cond && !mask[l].i) continue;
    if (c->code->compressed) offset = at[0].i + kept++;
    if (!loop_in_range(r, c->memory, offset, "writes")) return;
    cell x = value[l];
    if (c->code->combine != IR_OP_COUNT)
      x = loop_apply(&ir_op_rows[c->code->combine], t, t,
                     (cell[]){loop_read(c->memory, offset), x});
    write_cell(c->memory, offset, x);
  }
}

static void run_code(loop_run *r, const lcode *c, bool top) {
  if (!took_step(r)) return;
  switch (c->code->kind) {
  case IR_FOR: run_for(r, c, top); return;
  case IR_WHILE: run_while(r, c); return;
  case IR_IF: run_block(r, loop_int(r, c->cond) ? &c->body : &c->orelse, false); return;
  case IR_LET:
  case IR_SET: run_set(r, c); return;
  case IR_LOCAL: run_local(c); return;
  case IR_STORE: run_store(r, c); return;
  case IR_PREFETCH: loop_int(r, c->offset); return;
  case IR_BARRIER:
    if (r->threads) loop_defect(r, "a barrier inside a loop over threads cannot be interpreted");
    return;
  case IR_COMMENT: return;
  }
}

static void run_block(loop_run *r, const lblock *block, bool top) {
  for (int i = 0; i < block->count && !r->status; i++) run_code(r, &block->codes[i], top);
}

spc_status ir_interp_loop(ir_arena *arena, const ir_func *func, const int64_t *sizes,
                          ir_array *buffers, int64_t begin, int64_t end, int64_t max_steps,
                          ir_sink *sink) {
  loop_run r = {.arena = arena,
                .func = func,
                .sizes = sizes,
                .sink = sink,
                .begin = begin,
                .end = end,
                .limit = max_steps > 0 ? max_steps : INT64_MAX};
  for (int i = 0; i < func->bufs.count; i++) loop_memory_new(&r, func->bufs.at[i], buffers[i]);
  lblock body = loop_compile(&r, &func->body);
  if (!r.status) run_block(&r, &body, true);
  return r.status;
}
