/* bundle.h - compiled kernels in one piece of memory: what `spc export` writes and a program is
 * loaded from.
 *
 * A bundle has the program as IR text after every pass, once a target, and the machine code of each
 * launch or stage.  Loading it parses the text, derives the launches from it as a compile does, and
 * puts the code in its place: no pass is run, and neither LLVM nor NVRTC is there or needed.  Code
 * comes with a digest of everything that it relies on (cg_launch_text), so that a library which
 * would launch it otherwise refuses it.
 *
 *     magic[16]  digest[32] of all that follows  bytes[8] that follow
 *     name  version  count of targets
 *       target  IR text  count of codes
 *         kernel  name  digest[32]  machine code
 *
 * Numbers are 8 bytes, little-endian; a text or code is its length, its bytes, and a zero byte. */
#ifndef SPC_DRIVER_BUNDLE_H
#define SPC_DRIVER_BUNDLE_H

#include "driver/driver.h"
#include "runtime/sha256.h"

typedef struct bundle_code {
  const char *kernel, *name; /* of the launch (CUDA), of the stage (CPU) */
  uint8_t digest[RT_SHA256_BYTES];
  const void *data;
  size_t bytes;
} bundle_code;

typedef struct bundle_target {
  const char *name; /* "sm_90a", "x86-64-v3", "interp" */
  const char *text; /* the program */
  size_t length;
  IR_VEC(bundle_code) codes;
} bundle_target;

typedef struct bundle {
  const char *name, *version; /* of what it was made from; of the spc that made it */
  IR_VEC(bundle_target) targets;
} bundle;

/* ---- the file (bundle.c) --------------------------------------------------------------------- */
void bundle_write(const bundle *b, ir_text *out);
bool bundle_looks_like(const void *data, size_t bytes); /* begins with the magic of any format */
/* Refers to `data`.  SPC_IO: no bundle, cut or changed; SPC_UNAVAILABLE: of another format. */
spc_status bundle_read(ir_arena *arena, const void *data, size_t bytes, bundle *out,
                       const char **why);
const char *bundle_target_names(ir_arena *arena, const bundle *b); /* "sm_90a, x86-64-v3" */

/* ---- code in and out (bundle_code.c) --------------------------------------------------------- */
bool bundle_is_level(const char *target);
/* Adds the code of a kernel that was compiled, and settles in the kernel which rows stand. */
void bundle_take(ir_arena *arena, ir_kernel *kernel, const ir_image *image, bundle_target *out);
/* The program and one image a kernel (NULL for interp).  Fails as parsing does, and with
 * SPC_UNAVAILABLE where this library would launch the code otherwise. */
spc_status bundle_restore(ir_arena *arena, const bundle_target *target, ir_sink *sink,
                          ir_program **program, ir_image ***images);

/* ---- C (export_c.c) -------------------------------------------------------------------------- */
const char *bundle_c_name(ir_arena *arena, const char *path); /* "out/my ffn.c": my_ffn */
void bundle_print_header(const bundle *b, const ir_program *program, const char *name,
                         ir_text *out);
void bundle_print_source(const void *data, size_t bytes, const bundle *b, const char *name,
                         ir_text *out);

#endif
