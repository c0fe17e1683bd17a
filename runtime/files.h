/* files.h - arrays on disk: .npy, .npz (scipy.sparse), .mtx, .smtx, .tns, safetensors.
 *
 * Readers never trust a count in a file: every size is checked against the file's length and
 * against overflow before memory is taken.  An unreadable or malformed file is SPC_IO with a
 * diagnostic that says what was expected and what was found; an array that does not fit a
 * declaration is SPC_INVALID_INPUT. */
#ifndef SPC_RUNTIME_FILES_H
#define SPC_RUNTIME_FILES_H

#include "ir/tensor.h"

/* What a declaration wants of a file: dtype (IR_NONE: a pattern), rank, format. */
typedef struct rt_wanted {
  const char *name; /* of the tensor, for messages */
  ir_dtype dtype;
  int rank;
  const ir_format *format;
  ir_dtype index_dtype; /* of positions and coordinates: IR_I32, IR_I64; IR_NONE: as the file has
                           them, i64 also where i32 does not reach */
} rt_wanted;

/* Reads PATH (or FILE.safetensors:TENSOR) into `out` in the wanted dtype and format (bf16 from
 * uint16 bits or float32, f8 from uint8 bits or float32, i4/u4 from int8/uint8 in range, b1 from
 * bool or uint8, C and Fortran order; a sparse operand from any sparse file or a dense .npy, with a
 * remark). */
spc_status rt_file_read(ir_arena *arena, const char *path, const rt_wanted *wanted, ir_sink *sink,
                        ir_view *out);
/* The same from the bytes of a file; the ending of `path` says of what kind it is. */
spc_status rt_file_decode(ir_arena *arena, const char *path, const void *data, size_t bytes,
                          const rt_wanted *wanted, ir_sink *sink, ir_view *out);
/* Writes by the ending of PATH: .npy dense (a sparse view is written dense), .npz in scipy's form
 * of the view's format (a format scipy lacks: coo). */
spc_status rt_file_write(ir_arena *arena, const char *path, const ir_view *view, ir_sink *sink);

/* Writes bytes to PATH, whole or not at all: what was there stays until the new file is complete.
 * 0, or the errno that says why not. */
int rt_file_save(const char *path, const void *data, size_t bytes);

/* An array as a file holds it: kind 'f', 'i', 'u', 'b', 'h' (bfloat16), 'e' (f8e4m3), 'g' (f8e5m2),
 * 'S', 'U'. */
typedef struct rt_raw {
  char kind;
  int bytes; /* of an element */
  int rank;
  int64_t dim[IR_MAX_RANK], count;
  bool fortran;
  const unsigned char
      *data; /* inside the file's bytes, or inflated into the arena; may be unaligned */
} rt_raw;

/* A file's contents: a dense array or entries. */
typedef struct rt_contents {
  bool sparse, integer; /* integer: values are int_value */
  bool pattern;         /* no values */
  bool wide;            /* its indices are of 64 bits */
  int rank;
  int64_t dim[IR_MAX_RANK];
  ir_entries entries;
  char kind; /* dtype of sparse values as in rt_raw; 't': text, which fits every numeric dtype */
  int bytes;
  rt_raw dense;
} rt_contents;

/* The parsers themselves, over memory: what the fuzz targets call.  `why` is set (arena text) on
 * SPC_IO. */
spc_status rt_npy_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_raw *out);
spc_status rt_npz_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_contents *out);
spc_status rt_mtx_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_contents *out);
spc_status rt_smtx_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                         rt_contents *out);
spc_status rt_tns_parse(ir_arena *arena, const void *data, size_t bytes, const char **why,
                        rt_contents *out);
spc_status rt_safetensors_parse(ir_arena *arena, const void *data, size_t bytes, const char *tensor,
                                const char **why, rt_raw *out);

/* One element of a raw array, by linear index in storage order. */
double rt_raw_float(const rt_raw *raw, int64_t i);
int64_t rt_raw_int(const rt_raw *raw, int64_t i);

#endif
