#include "passes/cost.h"
spc_status pass_microtile(pass_context *context, ir_kernel *kernel) { (void)context; (void)kernel; return SPC_OK; }
