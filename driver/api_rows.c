/* api_rows.c - dense tensors with padding: where the rows of a caller's tensor lie.
 *
 * `pitch` says how far apart rows are and leaves the axes around them as the shape says; `strides` say it of every
 * axis.  Both are of the caller's struct, which may be an older, smaller one. */
#include "driver/api.h"

static int64_t given_pitch(const spc_tensor *t) {
  return t->struct_size >= offsetof(spc_tensor, strides) ? t->pitch : 0;
}

/* NULL: none are given. */
static const int64_t *given_strides(const spc_tensor *t) {
  if (t->struct_size < sizeof(spc_tensor)) return NULL;
  for (int d = 0; d < t->rank && d < SPC_MAX_RANK; d++)
    if (t->strides[d]) return t->strides;
  return NULL;
}

static int axis_of(const ir_tensor *declared, int level) {
  return declared->format ? declared->format->level[level].dim : level;
}

static int64_t rounded_up(int64_t n, int64_t multiple) {
  return multiple > 1 ? (n + multiple - 1) / multiple * multiple : n;
}

/* The least step that holds what lies within, and is what the declaration promises. */
static int64_t step_kept(const ir_tensor *declared, int level, int64_t within) {
  const ir_expr *pitch = declared->pitch[level];
  return pitch ? rounded_up(within, pitch->dim->multiple) : within;
}

static void rows_of(const int64_t *shape, const int64_t *strides, int64_t pitch, bool kept,
                    const ir_tensor *declared, api_rows *rows) {
  int last = declared->rank - 1;
  rows->levels = last > 0 ? last : 0;
  rows->length = last >= 0 ? shape[axis_of(declared, last)] : 1;
  rows->count = 1;
  rows->padded = false;
  int64_t within = rows->length, whole = rows->length, span = rows->length;
  for (int l = last - 1; l >= 0; l--) {
    int axis = axis_of(declared, l);
    int64_t extent = shape[axis], step = within;
    if (kept || extent <= 1) /* of one place the step is of no matter */
      step = step_kept(declared, l, within);
    else if (strides)
      step = strides[axis];
    else if (l == last - 1 && pitch)
      step = pitch;
    rows->padded = rows->padded || (extent > 1 && step != whole);
    rows->extent[l] = extent;
    rows->step[l] = step;
    rows->count *= extent;
    span += (extent - 1) * step;
    within = step * (extent > 1 ? extent : 1);
    whole *= extent;
  }
  rows->span = rows->count && rows->length ? span : 0;
  if (!rows->span) rows->padded = false;
}

void drv_tensor_rows(const spc_tensor *t, const ir_tensor *declared, api_rows *rows) {
  rows_of(t->shape, given_strides(t), given_pitch(t), false, ir_declared(declared), rows);
}

void drv_rows_kept(const int64_t *shape, const ir_tensor *declared, api_rows *rows) {
  rows_of(shape, NULL, 0, true, ir_declared(declared), rows);
}

void drv_rows_copy(void *to, const api_rows *to_rows, const void *from, const api_rows *from_rows, size_t element) {
  if (!to_rows->padded && !from_rows->padded) {
    if (from_rows->span) memcpy(to, from, (size_t)from_rows->span * element);
    return;
  }
  for (int64_t i = 0; i < from_rows->count && from_rows->length; i++)
    memcpy((char *)to + (size_t)drv_rows_at(to_rows, i) * element,
           (const char *)from + (size_t)drv_rows_at(from_rows, i) * element, (size_t)from_rows->length * element);
}

int64_t drv_rows_at(const api_rows *rows, int64_t row) {
  int64_t at = 0;
  for (int l = rows->levels - 1; l >= 0; l--) {
    at += row % rows->extent[l] * rows->step[l];
    row /= rows->extent[l];
  }
  return at;
}

const char *drv_rows_text(const spc_tensor *t, const ir_tensor *declared, const api_rows *rows, char text[120]) {
  declared = ir_declared(declared);
  int64_t whole = rows->length;
  int l = rows->levels - 1;
  for (; l > 0 && (rows->extent[l] <= 1 || rows->step[l] == whole); l--) whole *= rows->extent[l];
  if (given_strides(t))
    snprintf(text, 120, "`strides[%d]` is %lld, %lld without padding", axis_of(declared, l), (long long)rows->step[l],
             (long long)whole);
  else
    snprintf(text, 120, "`pitch` is %lld and a row has %lld elements", (long long)given_pitch(t),
             (long long)rows->length);
  return text;
}

/* ---- checks ---------------------------------------------------------------------------------- */
static spc_status check_pitch(const api_tensors *run, const spc_tensor *t, const ir_tensor *declared) {
  int axis = axis_of(declared, declared->rank - 1);
  if (given_pitch(t) >= t->shape[axis]) return SPC_OK;
  return drv_api_fail(run->err, SPC_INVALID_INPUT, NULL,
                      "%s: tensor `%s`: `pitch` is %lld, and a row has %lld elements (axis %d)", run->call, t->name,
                      (long long)given_pitch(t), (long long)t->shape[axis], axis);
}

static spc_status check_strides(const api_tensors *run, const spc_tensor *t, const ir_tensor *declared) {
  int row = axis_of(declared, declared->rank - 1);
  for (int d = 0; d < t->rank; d++) {
    bool fits = d == row ? t->strides[d] == 1 : t->strides[d] >= 0;
    if (t->shape[d] <= 1 || fits) continue;
    return drv_api_fail(run->err, SPC_INVALID_INPUT, NULL,
                        "%s: tensor `%s`: `strides[%d]` is %lld%s", run->call, t->name, d, (long long)t->strides[d],
                        d == row ? ": elements of a row follow one another (1)" : "");
  }
  return SPC_OK;
}

/* Whether the last element's place is a number. */
static bool is_countable(const spc_tensor *t, const ir_tensor *declared) {
  const int64_t *strides = given_strides(t);
  int64_t natural = t->shape[axis_of(declared, declared->rank - 1)], last = natural;
  for (int l = declared->rank - 2; l >= 0; l--) {
    int axis = axis_of(declared, l);
    int64_t extent = t->shape[axis], step = strides ? strides[axis] : natural;
    if (!strides && l == declared->rank - 2) step = given_pitch(t);
    if (extent <= 1) continue;
    if (step > INT64_MAX / 2 / extent || last > INT64_MAX / 2 - (extent - 1) * step) return false;
    last += (extent - 1) * step;
    natural = step * extent;
  }
  return true;
}

spc_status drv_tensor_check_rows(const api_tensors *run, const spc_tensor *t, const ir_tensor *declared) {
  bool strides = given_strides(t) != NULL, pitch = given_pitch(t) != 0;
  declared = ir_declared(declared);
  if (!strides && !pitch) return SPC_OK;
  if (declared->like || !ir_format_is_dense(declared->format) || declared->rank < 1)
    return drv_tensor_misuse(run, t,
                             pitch ? "`pitch` is given, and it has no rows: it is not dense"
                                   : "`strides` are given, and it has no rows: it is not dense");
  if (strides && pitch) return drv_tensor_misuse(run, t, "`pitch` and `strides` are given: one of them says it");
  SPC_TRY(strides ? check_strides(run, t, declared) : check_pitch(run, t, declared));
  if (is_countable(t, declared)) return SPC_OK;
  return drv_tensor_misuse(run, t,
                           pitch ? "its `shape` and `pitch` have too many elements"
                                 : "its `shape` and `strides` have too many elements");
}

spc_status drv_rows_there(const api_tensors *run, const spc_tensor *t, const api_rows *rows) {
  if (!t->value_count || t->value_count >= rows->span) return SPC_OK;
  return drv_api_fail(run->err, SPC_INVALID_INPUT, NULL,
                      "%s: tensor `%s`: `value_count` is %lld, %lld elements are read", run->call, t->name,
                      (long long)t->value_count, (long long)rows->span);
}

/* Rows of axes from the nearest to the furthest: each holds the one before it. */
spc_status drv_rows_apart(const api_tensors *run, const spc_tensor *t, const ir_tensor *declared,
                          const api_rows *rows) {
  int64_t span = rows->length, done = 0;
  declared = ir_declared(declared);
  for (int n = 0; rows->padded && n < rows->levels; n++) {
    int next = -1;
    for (int l = 0; l < rows->levels; l++)
      if (!(done >> l & 1) && (next < 0 || rows->step[l] < rows->step[next])) next = l;
    done |= (int64_t)1 << next;
    if (rows->extent[next] <= 1) continue;
    if (rows->step[next] < span)
      return drv_api_fail(run->err, SPC_INVALID_INPUT, NULL,
                          "%s: tensor `%s`: `strides[%d]` is %lld, and elements of different places are one: %s",
                          run->call, t->name, axis_of(declared, next), (long long)rows->step[next],
                          declared->role == IR_ROLE_OUT ? "a result has one for each"
                                                        : "spc_run copies such an input");
    span += (rows->extent[next] - 1) * rows->step[next];
  }
  return SPC_OK;
}
