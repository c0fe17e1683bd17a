/* codegen.h - loop and tile IR to code: the two back ends' interfaces.
 *
 * Both compile one kernel into an ir_image; both can print every stage of their work.  A back end
 * that is not there (no LLVM in this build, no NVRTC on this machine) answers SPC_UNAVAILABLE with
 * a diagnostic that says what is missing and how to get it. */
#ifndef SPC_CODEGEN_CODEGEN_H
#define SPC_CODEGEN_CODEGEN_H

#include "ir/image.h"
#include "ir/cache.h"
#include "ir/target.h"

typedef struct cg_options {
  const ir_target *target;
  const char *mcpu; /* --mcpu: "haswell", "skylake-avx512", NULL: this machine */
  bool line_info, keep_going;
  const char *override_dir; /* a file KERNEL.STAGE.cuda here replaces the emitted text */
  bool recall;              /* CUDA: what the cache has, or SPC_UNAVAILABLE; nothing is compiled */
  int threads;              /* of the compile pool; 0: by cores */
  bool keep_objects;        /* CPU: image->objects */
  bool alone;               /* for tests: no stand-in beside a row that wants aligned operands */
  const ir_cache *cache;    /* keeps what was compiled; NULL: nothing is kept */
} cg_options;

/* ---- CPU (cpu_*.c) ------------------------------------------------------------------------- */
bool cg_cpu_available(void);
const char *cg_cpu_version(void);         /* "LLVM 19.1.7 (static)", or why it is not there */
const char *cg_cpu_host(void);            /* host CPU name, "sapphirerapids"; "" without LLVM */
int cg_cpu_vector_bits(const char *mcpu); /* 512, 256 or 128 */
spc_status cg_cpu_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                          ir_sink *sink, ir_image **out);
/* The image of code that was made before, by stages' names; needs no LLVM. */
spc_status cg_cpu_restore(ir_arena *arena, const ir_kernel *kernel, const ir_piece *pieces,
                          int count, ir_sink *sink, ir_image **out);
/* The psABI's levels, best first: "x86-64-v4" and so on; NULL out of range (cpu_level.c). */
const char *cg_cpu_level(int i);
bool cg_cpu_level_runs(const char *level); /* on this machine; false for what is no level */
/* kind "llvm" or "asm": text of every function of the kernel, or of one stage (NULL: all). */
spc_status cg_cpu_text(ir_arena *arena, const ir_kernel *kernel, const ir_stage *stage,
                       const char *kind, const cg_options *options, ir_sink *sink, ir_text *out);

/* ---- CUDA (cuda_*.c) ----------------------------------------------------------------------- */
bool cg_nvrtc_available(void);
const char *cg_nvrtc_version(void); /* "NVRTC 13.0 (/path)", or why it is not there */
/* As cg_nvrtc_available; a cache that remembers the library saves loading it. */
bool cg_nvrtc_found(const ir_cache *cache);
spc_status cg_cuda_compile(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                           ir_sink *sink, ir_image **out); /* picks runners-up on a bad log */
/* CUDA C text of every launch, without NVRTC: fills codes[].source, cubin stays NULL. */
spc_status cg_cuda_emit(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                        ir_sink *sink, ir_image **out);
/* The image of cubins that were made before, by cg_code_name, without NVRTC.  The stages' rows say
 * which kernels stand; whether launches are what the cubins were made for the caller sees by
 * cg_launch_text. */
spc_status cg_cuda_restore(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                           const ir_piece *pieces, int count, ir_sink *sink, ir_image **out);
/* Everything that a cubin and its launch agree on: text, entry, buffers, grid, threads, maps. */
const char *cg_launch_text(ir_arena *arena, const ir_code_image *code);
/* "ffn.y", or "ffn.y-0" where the stage is several launches: what files of a code are named. */
const char *cg_code_name(ir_arena *arena, const ir_image *image, int i);
/* One source to "cubin" or "ptx"; log gets the compiler's words; registers and spills parsed from
 * it. */
typedef struct cg_nvrtc_result {
  void *data;
  size_t bytes;
  const char *log;
  int registers, spill_bytes, stack_bytes, shared_bytes;
  bool serialised; /* a C75xx note: wgmma serialised or setmaxnreg ignored */
} cg_nvrtc_result;
spc_status cg_nvrtc_compile(ir_arena *arena, const char *name, const char *source, const char *arch,
                            bool ptx, const cg_options *options, ir_sink *sink,
                            cg_nvrtc_result *out);

#endif
