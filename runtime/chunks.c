/* chunks.c - see chunks.h.
 *
 * The limit says how many rows fit; a run of no more rows is one run, and needs no more than they do, so that no smaller run takes
 * more than a larger one.  Chunks of a run are as even as steps allow: of 128 rows, the most that a tile has, for each multiprocessor
 * where so many fit, which is whole turns of tiles whatever their number in a row; else of 128. */
#include "runtime/chunks.h"

enum { STEP = 128 };

struct rt_chunks {
  rt_ready *ready;
  const ir_kernel *kernel;
  const ir_dim *dim; /* NULL: a run is one run */
  size_t limit;
  int64_t step, least, turn; /* rows: chunks are multiples of a step, where they can be of a turn of the machine's */
  int64_t *sizes, *known; /* of a chunk; of the run whose rows were found last */
  rt_given *arrays, *counted; /* of a chunk; counts of that run's */
  bool found, keeps;
  int64_t fit;  /* rows of a chunk at most */
  size_t bytes; /* of them */
};

static int64_t divisor_of(int64_t a, int64_t b) { return b ? divisor_of(b, a % b) : a; }

rt_chunks *rt_chunks_new(rt_ready *ready, const ir_kernel *kernel, size_t limit, int units, ir_arena *arena) {
  rt_chunks *c = IR_NEW(arena, rt_chunks);
  int dims = kernel->program->dims.count, tensors = kernel->tensors.count;
  *c = (rt_chunks){.ready = ready, .kernel = kernel, .dim = ir_chunk_dim(kernel), .limit = limit ? limit : RT_CHUNK_BYTES};
  if (!c->dim) return c;
  int64_t multiple = c->dim->multiple > 0 ? c->dim->multiple : 1;
  c->step = multiple / divisor_of(multiple, STEP) * STEP;
  c->turn = c->step * (units > 1 ? units : 1);
  c->least = limit ? c->step : (RT_CHUNK_ROWS - 1) / c->turn * c->turn + c->turn;
  c->sizes = IR_NEW_ARRAY(arena, int64_t, dims + 1);
  c->known = IR_NEW_ARRAY(arena, int64_t, dims + 1);
  c->arrays = IR_NEW_ARRAY(arena, rt_given, tensors + 1);
  c->counted = IR_NEW_ARRAY(arena, rt_given, tensors + 1);
  return c;
}

static void set_rows(rt_chunks *c, const int64_t *sizes, int64_t rows) {
  memcpy(c->sizes, sizes, sizeof *sizes * (size_t)c->kernel->program->dims.count);
  c->sizes[c->dim->number] = rows;
}

static spc_status need_of(rt_chunks *c, const int64_t *sizes, int64_t rows, const rt_given *given, const rt_kept *kept,
                          ir_sink *sink, size_t *bytes) {
  set_rows(c, sizes, rows);
  return rt_ready_need(c->ready, c->sizes, given, kept, sink, bytes);
}

/* The same but for the number of rows, as which the last run's fit was found. */
static bool is_known(const rt_chunks *c, const int64_t *sizes, const rt_given *given, bool keeps) {
  if (!c->found || c->keeps != keeps) return false;
  for (int d = 0; d < c->kernel->program->dims.count; d++)
    if (d != c->dim->number && sizes[d] != c->known[d]) return false;
  for (int i = 0; i < c->kernel->tensors.count; i++) {
    const ir_tensor *t = c->kernel->tensors.at[i];
    bool rows = t->rank && t->dim[0]->kind == IR_DIM && t->dim[0]->dim == c->dim;
    if (!rows && given[i].count != c->counted[i].count) return false;
  }
  return true;
}

/* How many rows fit the limit: each takes the same.  What is kept does not count, so that a run that is given it takes no more than
 * one that is not. */
static spc_status find_fit(rt_chunks *c, const int64_t *sizes, const rt_given *given, const rt_kept *kept, ir_sink *sink) {
  const double most = 1e12; /* rows: as good as any number of them */
  const rt_kept nothing = {0};
  size_t few, more;
  if (is_known(c, sizes, given, kept->data != NULL)) return SPC_OK;
  c->found = false;
  SPC_TRY(need_of(c, sizes, c->least, given, &nothing, sink, &few));
  SPC_TRY(need_of(c, sizes, 2 * c->least, given, &nothing, sink, &more));
  c->fit = c->least;
  double rows = few >= c->limit ? 0 : more <= few ? most : (double)(c->limit - few) * (double)c->least / (double)(more - few);
  if (rows < most) {
    c->fit += (int64_t)rows / c->step * c->step;
    SPC_TRY(need_of(c, sizes, c->fit, given, kept, sink, &c->bytes));
  } else {
    c->fit = INT64_MAX;
  }
  memcpy(c->known, sizes, sizeof *sizes * (size_t)c->kernel->program->dims.count);
  memcpy(c->counted, given, sizeof *given * (size_t)c->kernel->tensors.count);
  c->keeps = kept->data != NULL;
  c->found = true;
  return SPC_OK;
}

/* *rows: of a chunk; all of them where the run is one. */
static spc_status chunk_rows(rt_chunks *c, const int64_t *sizes, const rt_given *given, const rt_kept *kept, ir_sink *sink,
                             int64_t *rows) {
  int64_t all = c->dim ? sizes[c->dim->number] : 0;
  *rows = all;
  if (!c->dim || all <= c->least) return SPC_OK;
  SPC_TRY(find_fit(c, sizes, given, kept, sink));
  if (all <= c->fit) return SPC_OK;
  int64_t step = c->fit < c->turn ? c->step : c->turn, most = c->fit / step * step;
  int64_t count = (all - 1) / most + 1, even = (all - 1) / count + 1;
  *rows = ((even - 1) / step + 1) * step;
  return SPC_OK;
}

spc_status rt_chunks_workspace(rt_chunks *c, const int64_t *sizes, const rt_given *given, const rt_kept *kept, ir_sink *sink,
                               size_t *bytes) {
  int64_t rows, all = c->dim ? sizes[c->dim->number] : 0;
  SPC_TRY(chunk_rows(c, sizes, given, kept, sink, &rows));
  if (rows >= all) return rt_ready_workspace(c->ready, sizes, given, kept, sink, bytes);
  *bytes = c->bytes;
  if (all % rows) { /* the last chunk's */
    set_rows(c, sizes, all % rows);
    SPC_TRY(rt_ready_settle(c->ready, c->sizes));
  }
  set_rows(c, sizes, rows);
  return rt_ready_settle(c->ready, c->sizes);
}

/* ---- arrays ---------------------------------------------------------------------------------- */
/* Elements from a row to the next. */
static bool row_elements(const ir_tensor *t, const int64_t *sizes, int64_t *elements) {
  if (t->pitch[0]) return ir_size_value(t->pitch[0], sizes, elements);
  *elements = 1;
  for (int d = 1; d < t->rank; d++) {
    int64_t extent;
    if (!ir_size_value(t->dim[d], sizes, &extent)) return false;
    *elements *= extent;
  }
  return true;
}

/* Of every array with rows, those from `first` on. */
static spc_status move_on(rt_chunks *c, const rt_given *given, const int64_t *sizes, int64_t first, int64_t rows, ir_sink *sink) {
  for (int i = 0; i < c->kernel->tensors.count; i++) {
    const ir_tensor *t = c->kernel->tensors.at[i];
    int64_t elements;
    c->arrays[i] = given[i];
    if (!t->rank || t->dim[0]->kind != IR_DIM || t->dim[0]->dim != c->dim) continue;
    if (!row_elements(t, sizes, &elements)) {
      ir_diag_add(sink, IR_DIAG_BUFFER_SIZE, IR_NOWHERE, "the size of a row of `%s` is unknown", t->name);
      return SPC_INVALID_INPUT;
    }
    c->arrays[i].count = rows * elements;
    if (given[i].vals) c->arrays[i].vals = (char *)given[i].vals + first * elements * (int64_t)ir_dtype_bytes(t->dtype);
  }
  return SPC_OK;
}

spc_status rt_chunks_enqueue(rt_chunks *c, const int64_t *sizes, const rt_given *given, const rt_kept *kept, void *workspace,
                             size_t bytes, void *stream, ir_sink *sink, rt_need *need) {
  int64_t rows, all = c->dim ? sizes[c->dim->number] : 0;
  SPC_TRY(chunk_rows(c, sizes, given, kept, sink, &rows));
  if (rows >= all) return rt_ready_enqueue(c->ready, sizes, given, kept, workspace, bytes, false, stream, sink, need);
  *need = (rt_need){.workspace = c->bytes};
  if (bytes < c->bytes) return SPC_CAPACITY;
  for (int64_t first = 0; first < all; first += rows) {
    int64_t here = all - first < rows ? all - first : rows;
    set_rows(c, sizes, here);
    SPC_TRY(move_on(c, given, c->sizes, first, here, sink));
    SPC_TRY(rt_ready_enqueue(c->ready, c->sizes, c->arrays, kept, workspace, bytes, first > 0, stream, sink, need));
  }
  return SPC_OK;
}
