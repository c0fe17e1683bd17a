/* page.h - what the files behind `spc explain --html` share: one page that needs nothing else, no
 * script, no font, no image, and reads well in light and dark.
 *
 *   explain_html.c  gathers what is shown, puts the sections in order    page_style.c  the style
 * sheet page_choice.c   stages as steps, candidates as a table with bars     page_plot.c roofline,
 * break-even page_mask.c     where a tensor is not zero                           page_ir.c     IR
 * before and after passes */
#ifndef SPC_DRIVER_PAGE_H
#define SPC_DRIVER_PAGE_H

#include "driver/driver.h"
#include "passes/cost.h"

typedef struct page_dump { /* the program after a pass */
  const char *title, *text;
} page_dump;

typedef struct page_mask {
  const ir_tensor *tensor;
  const char *kernel, *source;
  ir_view view;
} page_mask;

typedef struct page {
  drv_session *s;
  ir_arena *arena;
  ir_text out;
  const ir_target *target;
  const pass_profile *profile;
  const int64_t *sizes;
  IR_VEC(page_dump) dumps; /* the first: before any pass */
  IR_VEC(page_mask) masks;
  int plots; /* so far: for unique ids */
} page;

/* Text with what HTML gives a meaning replaced. */
void page_put(page *p, const char *text);
void page_putn(page *p, const char *text, size_t length);
#define page_raw(p, text) ir_text_put(&(p)->out, (text))
const char *page_time(page *p, double microseconds);

extern const char *const page_style[]; /* pieces, NULL at the end */
void page_choice(page *p, const ir_kernel *kernel);
void page_plots(page *p, const ir_kernel *kernel);
void page_masks(page *p, const ir_kernel *kernel);
void page_pipeline(page *p);

#endif
