/* api_stats.c - what a plan is made of and what its last run found, read without waiting. */
#include "driver/api.h"

static const ir_image *image_of(const spc_plan *plan) {
  return plan->program->images[plan->kernel_number];
}

/* Lists on whose cover a guard decides. */
static bool is_guard(const ir_list *list) { return list->verdict && list->threshold; }

/* The number of the guard that is list `list`; -1: it is none. */
static int guard_number(const ir_kernel *kernel, const ir_list *list) {
  int number = 0;
  for (int i = 0; list && i < kernel->lists.count; i++) {
    if (kernel->lists.at[i] == list) return is_guard(list) ? number : -1;
    number += is_guard(kernel->lists.at[i]);
  }
  return -1;
}

static int guard_count(const spc_plan *plan) {
  int count = 0;
  for (int i = 0; image_of(plan) && i < plan->kernel->lists.count; i++)
    count += is_guard(plan->kernel->lists.at[i]);
  return count;
}

static int nth_guard(const spc_plan *plan, int n) { /* as a list; -1: there is none */
  const ir_kernel *kernel = plan->kernel;
  for (int i = 0; n >= 0 && n < guard_count(plan) && i < kernel->lists.count; i++)
    if (is_guard(kernel->lists.at[i]) && n-- == 0) return i;
  return -1;
}

/* An older header's struct is shorter, a newer one's longer. */
static void give(void *to, const void *full, size_t size) {
  size_t given;
  memcpy(&given, to, sizeof given);
  memcpy((char *)to + sizeof given, (const char *)full + sizeof given,
         (given < size ? given : size) - sizeof given);
}

static spc_status not_valid(spc_error *err, const char *call, const char *what) {
  return drv_api_fail(err, SPC_INVALID_ARGUMENT, NULL, "%s: `%s` is not valid", call, what);
}

static bool is_valid(const void *info) { return info && *(const size_t *)info >= sizeof(size_t); }

/* Of all runs, whichever of its codes they took. */
static unsigned sticky_of(const spc_plan *plan) {
  unsigned sticky = rt_report_sticky(&plan->report);
  for (int i = 0; i < plan->sized_count; i++) sticky |= rt_report_sticky(&plan->sized[i]->report);
  return sticky;
}

spc_status spc_plan_describe(const spc_plan *plan, spc_plan_info *info, spc_error *err) {
  const spc_plan *whole = drv_plan_now(plan);
  plan = drv_plan_last(plan);
  if (!plan || !is_valid(info)) return not_valid(err, "spc_plan_describe", plan ? "info" : "plan");
  const ir_image *image = image_of(plan);
  unsigned sticky = sticky_of(whole);
  spc_plan_info full = {.kernel = plan->kernel->name,
                        .backend = spc_context_backend(plan->program->context),
                        .reproducible = plan->program->ir->reproducible,
                        .packed = !plan->program->ir->unpacked,
                        .usual = whole->sized_count ? whole->program->usual.size[plan->sized_at] : 0,
                        .batch_invariant = plan->program->ir->batch_invariant,
                        .launch_count = image ? image->codes.count : 0,
                        .guard_count = guard_count(plan),
                        .prepared = plan->prepared != NULL,
                        .overflow = (sticky & SPC_STICKY_CAPACITY) != 0,
                        .out_of_range = (sticky & SPC_STICKY_RANGE) != 0,
                        .not_enqueued = rt_ready_missing(image),
                        .reserved_bytes = whole->reserved,
                        .tier = drv_is_generic(plan->program) ? SPC_TIER_GENERIC : SPC_TIER_TUNED,
                        .tuned_ready = drv_is_generic(plan->program) && drv_tuned(plan->program)};
  give(info, &full, sizeof full);
  return SPC_OK;
}

spc_status spc_plan_launch(const spc_plan *plan, int i, spc_launch_info *info, spc_error *err) {
  plan = drv_plan_last(plan);
  const ir_image *image = plan ? image_of(plan) : NULL;
  bool there = image && i >= 0 && i < image->codes.count;
  if (!plan || !there || !is_valid(info))
    return not_valid(err, "spc_plan_launch", !plan ? "plan" : !there ? "i" : "info");
  const ir_code_image *code = &image->codes.at[i];
  const ir_guard *when = &code->stage->when;
  spc_launch_info full = {.stage = code->stage->name,
                          .kernel = code->label,
                          .entry = code->entry,
                          .guard = guard_number(plan->kernel, when->list),
                          .stands_in = code->stands_in,
                          .is_library = code->library != NULL,
                          .code_bytes = code->cubin_bytes,
                          .once = code->stage->once};
  full.branch = full.guard < 0 ? SPC_BRANCH_NONE
                : when->above  ? SPC_BRANCH_DENSE
                               : SPC_BRANCH_SPARSE;
  give(info, &full, sizeof full);
  return SPC_OK;
}

spc_status spc_plan_guard(const spc_plan *plan, int i, spc_guard_info *info, spc_error *err) {
  plan = drv_plan_last(plan);
  int number = plan ? nth_guard(plan, i) : -1;
  if (!plan || number < 0 || !is_valid(info))
    return not_valid(err, "spc_plan_guard", !plan ? "plan" : number < 0 ? "i" : "info");
  const ir_list *list = plan->kernel->lists.at[number];
  spc_guard_info full = {.tensor = list->tensor->name, .break_even = list->break_even};
  bool dense;
  for (int s = 0; s < plan->kernel->stages.count; s++)
    if (plan->kernel->stages.at[s]->when.list == list)
      full.break_even = plan->kernel->stages.at[s]->when.threshold;
  if (rt_report_read(&plan->report, number, &full.cover, &dense))
    full.branch = dense ? SPC_BRANCH_DENSE : SPC_BRANCH_SPARSE;
  give(info, &full, sizeof full);
  return SPC_OK;
}
