/* emit.h - what the files behind `spc compile --emit` share. */
#ifndef SPC_DRIVER_EMIT_H
#define SPC_DRIVER_EMIT_H

#include "driver/driver.h"

/* One kind of text or code on its way to a folder, a file or stdout. */
typedef struct drv_artefact {
  drv_session *s;
  const char *kind; /* "cuda", "cubin", ...: the ending of files in a folder */
  bool is_folder;
  ir_text all; /* what goes to one file or to stdout */
  int pieces;
} drv_artefact;

/* name: "ffn", "ffn.y"; of the file in a folder, without its ending. */
spc_status drv_put_artefact(drv_artefact *a, const char *name, const void *data, size_t bytes);
spc_status drv_emit(drv_session *s);
/* cuda, ptx, cubin, sass (emit_cuda.c): one piece a launch. */
spc_status drv_emit_cuda(drv_artefact *a, const ir_target *target);

#endif
