/* explain_html.c - `spc explain --html`: what is known of a file's kernels as one page. */
#include "driver/page.h"

/* ---- text ------------------------------------------------------------------------------------ */
void page_putn(page *p, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '<')
      page_raw(p, "&lt;");
    else if (c == '>')
      page_raw(p, "&gt;");
    else if (c == '&')
      page_raw(p, "&amp;");
    else if (c == '"')
      page_raw(p, "&quot;");
    else if (c >= ' ' || c == '\t')
      ir_text_putn(&p->out, text + i, 1);
  }
}

void page_put(page *p, const char *text) { page_putn(p, text, strlen(text)); }

const char *page_time(page *p, double microseconds) {
  return pass_time_text(p->arena, microseconds);
}

/* ---- what is shown --------------------------------------------------------------------------- */
static void keep_dump(void *user, const char *title, const char *text) {
  page *p = user;
  page_dump dump = {ir_strdup(p->arena, title), ir_strdup(p->arena, text)};
  IR_PUSH(p->arena, &p->dumps, dump);
}

static const ir_kernel *kernel_with(const ir_program *program, const char *only, const char *name,
                                    size_t length) {
  for (int k = 0; k < program->kernels.count; k++) {
    const ir_kernel *kernel = program->kernels.at[k];
    if (only && strcmp(only, kernel->name)) continue;
    for (int i = 0; i < kernel->tensors.count; i++)
      if (!strncmp(kernel->tensors.at[i]->name, name, length) &&
          !kernel->tensors.at[i]->name[length])
        return kernel;
  }
  return NULL;
}

/* Files settle the sizes that -D leaves open. */
static spc_status read_mask(page *p, const char *text, int64_t *sizes) {
  drv_session *s = p->s;
  page_mask m = {.source = text + strcspn(text, "=") + (strchr(text, '=') != NULL)};
  ir_tensor *tensor;
  const ir_kernel *kernel = kernel_with(s->program, s->options.kernel, text, strcspn(text, "="));
  if (!kernel) kernel = s->program->kernels.at[0]; /* which has no such tensor, and says so */
  SPC_TRY(drv_view_of(s, kernel, text, sizes, &tensor, &m.view));
  m.tensor = tensor;
  m.kernel = kernel->name;
  const ir_tensor *declared = ir_declared(tensor);
  for (int d = 0; d < declared->rank; d++)
    if (declared->dim[d]->kind == IR_DIM && sizes[declared->dim[d]->dim->number] < 0)
      sizes[declared->dim[d]->dim->number] = m.view.dim[d];
  IR_PUSH(p->arena, &p->masks, m);
  return SPC_OK;
}

static spc_status gather(page *p, const ir_target *target, int64_t *sizes) {
  drv_session *s = p->s;
  ir_text fresh = ir_text_new(p->arena);
  for (int i = 0; i < s->options.binds.items.count; i++)
    SPC_TRY(read_mask(p, s->options.binds.items.at[i], sizes));
  p->target = target;
  p->sizes = sizes;
  p->profile = pass_profile_of(p->arena, target);
  ir_print(s->program, &fresh);
  keep_dump(p, "before any pass", fresh.data);
  s->print_pass = keep_dump;
  s->print_user = p;
  s->options.print_after = "all";
  spc_status status = drv_run_passes(s, target, sizes);
  s->print_pass = NULL;
  s->options.print_after = NULL;
  return status;
}

/* ---- the page -------------------------------------------------------------------------------- */
static void put_head(page *p) {
  page_raw(
      p,
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width,initial-scale=1\">\n<title>");
  page_put(p, p->s->path);
  page_raw(p, " explained</title>\n<style>\n");
  for (int i = 0; page_style[i]; i++) page_raw(p, page_style[i]);
  page_raw(p, "</style></head>\n<body><main>\n<header><h1>");
  page_put(p, p->s->path);
  page_raw(p, "</h1>\n<p class=\"soft\">explained for <b>");
  page_put(p, p->target->name);
  page_raw(p, "</b>, by the profile <b>");
  page_put(p, p->profile->name);
  page_raw(p, "</b>");
  for (int d = 0; d < p->s->program->dims.count; d++) {
    const ir_dim *dim = p->s->program->dims.at[d];
    bool here = p->sizes[d] >= 0 && !p->s->program->batch_invariant; /* whose estimates hear of no sizes */
    int64_t size = dim->value >= 0 ? dim->value : here ? p->sizes[d] : dim->assumed;
    ir_text_printf(&p->out, "%s", d ? ", " : "; ");
    page_put(p, dim->name);
    ir_text_printf(&p->out, "&#160;=&#160;%lld%s", (long long)size,
                   dim->value >= 0 ? ""
                   : here          ? " (here)"
                                   : " (assumed)");
  }
  page_raw(p, "</p>\n<nav>");
}

static bool is_shown(const page *p, const ir_kernel *kernel) {
  return !p->s->options.kernel || !strcmp(p->s->options.kernel, kernel->name);
}

static void put_page(page *p) {
  const ir_program *program = p->s->program;
  put_head(p);
  for (int k = 0; k < program->kernels.count; k++) {
    if (!is_shown(p, program->kernels.at[k])) continue;
    ir_text_printf(&p->out, "<a href=\"#kernel-%d\">", k);
    page_put(p, program->kernels.at[k]->name);
    page_raw(p, "</a>\n");
  }
  page_raw(p, "<a href=\"#pipeline\">the pipeline</a></nav></header>\n");
  for (int k = 0; k < program->kernels.count; k++) {
    if (!is_shown(p, program->kernels.at[k])) continue;
    ir_text_printf(&p->out, "<section id=\"kernel-%d\"><h2>Kernel <code>", k);
    page_put(p, program->kernels.at[k]->name);
    page_raw(p, "</code></h2>\n");
    page_choice(p, program->kernels.at[k]);
    page_plots(p, program->kernels.at[k]);
    page_masks(p, program->kernels.at[k]);
    page_raw(p, "</section>\n");
  }
  page_pipeline(p);
  ir_text_printf(
      &p->out,
      "<footer>spc %s. Times are predictions of the cost model unless a column says measured "
      "(<code>spc bench</code>).</footer>\n</main></body></html>\n",
      SPC_VERSION);
}

spc_status drv_explain_html(drv_session *s, const ir_target *target, int64_t *sizes,
                            const char *fresh) {
  page p = {.s = s, .arena = s->arena, .out = ir_text_new(s->arena)};
  SPC_TRY(gather(&p, target, sizes));
  for (int k = 0; fresh && k < s->program->kernels.count; k++)
    (void)drv_measured_recall(s, fresh, s->program->kernels.at[k], target);
  put_page(&p);
  return drv_write_file(s, s->options.output, p.out.data, p.out.length);
}
