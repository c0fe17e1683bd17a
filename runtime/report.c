/* report.c - what the runs of a plan leave behind about themselves, for a host that does not wait.
 *
 *     words[0]      sticky flags, or'ed by every run
 *     words[1 + i]  list number i, where a guard decides: the branch taken (bit 31: dense) and
 *                   1 + its cover in 65536ths; 0: no run has measured it
 *
 * On CUDA the words lie in host memory that the device sees: the kernel that decides stores its
 * word (kernels/detect.cuh) and nobody waits for it.  A word is written at once, so that a reader
 * finds the cover and the branch of one run. */
#include "runtime/plan.h"

enum { UNIT = 65536 };
#define DENSE 0x80000000u

_Static_assert(sizeof(atomic_uint) == sizeof(unsigned), "words are shared with a device");

spc_status rt_report_new(rt_cuda *cuda, const spc_allocator *from, const ir_kernel *kernel,
                         rt_report *out) {
  size_t bytes = sizeof(unsigned) * (size_t)(1 + kernel->lists.count);
  *out = (rt_report){.cuda = cuda, .from = from};
  if (cuda) {
    void *host;
    SPC_TRY(rt_cuda_alloc_mapped(cuda, bytes, &host, &out->device));
    out->words = host;
  } else {
    out->words = ir_take(from, bytes, IR_TAKE_ALIGN);
    if (!out->words) return SPC_OUT_OF_MEMORY;
  }
  for (int i = 0; i <= kernel->lists.count; i++) atomic_init(&out->words[i], 0);
  return SPC_OK;
}

void rt_report_free(rt_report *report) {
  if (!report->words) return;
  if (report->cuda)
    rt_cuda_release_mapped(report->cuda, report->words);
  else
    ir_give_back(report->from, report->words);
  report->words = NULL;
}

unsigned rt_report_sticky(const rt_report *report) {
  return atomic_load_explicit(&report->words[0], memory_order_relaxed);
}

void rt_report_guard(rt_report *report, int list, double cover, bool dense) {
  unsigned part = 1 + (unsigned)(UNIT * (cover < 0 ? 0 : cover > 1 ? 1 : cover));
  atomic_store_explicit(&report->words[1 + list], part | (dense ? DENSE : 0), memory_order_relaxed);
}

bool rt_report_read(const rt_report *report, int list, double *cover, bool *dense) {
  unsigned word = atomic_load_explicit(&report->words[1 + list], memory_order_relaxed);
  *cover = word ? (double)((word & ~DENSE) - 1) / UNIT : -1;
  *dense = (word & DENSE) != 0;
  return word != 0;
}
