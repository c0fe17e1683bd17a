/* api.h - what stands behind the three public handles. */
#ifndef SPC_DRIVER_API_H
#define SPC_DRIVER_API_H

#include "driver/driver.h"

struct spc_context {
  drv_backend backend;
  rt_cuda *cuda;
  rt_pool *pool;
  rt_cache *cache;
};

struct spc_program {
  spc_context *context;
  ir_arena *arena;
  ir_sink *sink;
  ir_program *ir;    /* after the pipeline; checked statements for interp */
  ir_image **images; /* one a kernel; NULL entries for interp */
  bool strict_nan;
};

struct spc_plan {
  spc_program *program;
  ir_kernel *kernel;
  int kernel_number;
  int64_t *given; /* sizes that the caller gave, by dim number; -1 unknown */
};

/* Fills *err from a status and what the sink holds; returns the status. */
spc_status drv_api_fail(spc_error *err, spc_status status, ir_sink *sink, const char *format, ...)
    IR_PRINTF(4, 5);

#endif
