/* dtype.h - element types and how their bytes become numbers. */
#ifndef SPC_IR_DTYPE_H
#define SPC_IR_DTYPE_H

#include "ir/base.h"

typedef enum ir_dtype {
  IR_NONE = 0, /* no dtype: pattern tensors, not yet inferred */
#define SPC_DTYPE(NAME, TEXT, BITS, CLASS, ACC, C, CUDA, NPY, MEANING) IR_##NAME,
#include "ir/dtype.def"
#undef SPC_DTYPE
  IR_DTYPE_COUNT
} ir_dtype;

/* How products of f32 operands are formed: as f32 says, or by tensor cores that read 11 bits of a
 * factor (tf32), once or of each factor's two parts (tf32x3, about 22 bits). */
typedef enum ir_precision {
  IR_PRECISION_FULL,
  IR_PRECISION_TF32,
  IR_PRECISION_TF32X3
} ir_precision;
extern const char *const ir_words_precision[]; /* NULL ends them */
static inline const char *ir_precision_text(ir_precision p) { return ir_words_precision[p]; }

typedef struct ir_dtype_row {
  const char *text;
  int bits, bytes;
  char class_; /* 'F', 'S', 'U', 'B' */
  ir_dtype accumulator;
  const char *c, *cuda, *npy, *meaning;
} ir_dtype_row;
extern const ir_dtype_row ir_dtype_rows[IR_DTYPE_COUNT]; /* [IR_NONE] is "none", 0 bits */

ir_dtype ir_dtype_find(const char *text); /* IR_NONE when unknown */
static inline const char *ir_dtype_text(ir_dtype t) { return ir_dtype_rows[t].text; }
static inline size_t ir_dtype_bytes(ir_dtype t) { return (size_t)ir_dtype_rows[t].bytes; }
static inline bool ir_dtype_is_float(ir_dtype t) { return ir_dtype_rows[t].class_ == 'F'; }
static inline bool ir_dtype_is_int(ir_dtype t) {
  return ir_dtype_rows[t].class_ == 'S' || ir_dtype_rows[t].class_ == 'U';
}
/* LANGUAGE rule 3: the dtype of `a op b`; IR_NONE when a cast is needed. */
ir_dtype ir_dtype_join(ir_dtype a, ir_dtype b);

/* One element at `index` of an array.  Floats round to nearest even once (f8e4m3, which has no
 * infinity, saturates); integers wrap.  A float stored to an integer is truncated towards zero and
 * saturates, NaN gives 0. */
double ir_dtype_load(ir_dtype t, const void *array, int64_t index);
int64_t ir_dtype_load_int(ir_dtype t, const void *array, int64_t index);
void ir_dtype_store(ir_dtype t, void *array, int64_t index, double value);
void ir_dtype_store_int(ir_dtype t, void *array, int64_t index, int64_t value);
double ir_dtype_round(ir_dtype t, double value);  /* the nearest value of float type t */
int64_t ir_dtype_wrap(ir_dtype t, int64_t value); /* wrapped to the width of integer type t */
double ir_dtype_epsilon(ir_dtype t);              /* unit roundoff; 0 for integers */

#endif
