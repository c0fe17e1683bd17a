/* settled.c - see settled.h.  The arrays of a run are aligned to 16 bytes, so an algorithm for that
 * is asked for and serves any of them. */
#include "runtime/settled.h"

typedef struct settled_sizes {
  int64_t *sizes;
  rt_cublaslt_call **calls;
  bool settled;
} settled_sizes;

struct rt_settled {
  const rt_plan *plan;
  int dims, codes, next; /* the next set to be settled takes that place */
  settled_sizes at[RT_SETTLED_SIZES];
};

rt_settled *rt_settled_new(const rt_plan *plan, ir_arena *arena) {
  const ir_image *image = plan->image;
  bool any = false;
  for (int i = 0; i < image->codes.count; i++) any = any || image->codes.at[i].library;
  if (!any) return NULL;
  rt_settled *s = IR_NEW(arena, rt_settled);
  s->plan = plan;
  s->dims = image->kernel->program->dims.count;
  s->codes = image->codes.count;
  for (int i = 0; i < RT_SETTLED_SIZES; i++) {
    s->at[i].sizes = IR_NEW_ARRAY(arena, int64_t, s->dims + 1);
    s->at[i].calls = IR_NEW_ARRAY(arena, rt_cublaslt_call *, s->codes + 1);
  }
  return s;
}

static void forget(const rt_settled *s, settled_sizes *one) {
  for (int i = 0; i < s->codes; i++) {
    rt_cublaslt_free(one->calls[i]);
    one->calls[i] = NULL;
  }
}

void rt_settled_free(rt_settled *s) {
  for (int i = 0; s && i < RT_SETTLED_SIZES; i++) forget(s, &s->at[i]);
}

rt_cublaslt_call **rt_settled_find(const rt_settled *s, const int64_t *sizes) {
  for (int i = 0; s && i < RT_SETTLED_SIZES; i++)
    if (s->at[i].settled && !memcmp(s->at[i].sizes, sizes, sizeof *sizes * (size_t)s->dims))
      return s->at[i].calls;
  return NULL;
}

spc_status rt_settled_add(rt_settled *s, const int64_t *sizes) {
  if (!s || rt_settled_find(s, sizes)) return SPC_OK;
  settled_sizes *one = &s->at[s->next];
  forget(s, one);
  one->settled = false;
  for (int i = 0; i < s->codes; i++) {
    const ir_library_call *call = s->plan->image->codes.at[i].library;
    if (call) SPC_TRY(rt_cublaslt_settle(s->plan->options.cuda, call, sizes, NULL, &one->calls[i]));
  }
  memcpy(one->sizes, sizes, sizeof *sizes * (size_t)s->dims);
  one->settled = true;
  s->next = (s->next + 1) % RT_SETTLED_SIZES;
  return SPC_OK;
}
