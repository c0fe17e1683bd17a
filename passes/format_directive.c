#include "passes/storage.h"
spc_status pass_format_directives(pass_context *context, ir_kernel *kernel) { (void)context; (void)kernel; return SPC_OK; }
