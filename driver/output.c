/* output.c - results: files by `--out`, one summary line an output, statistics as JSON. */
#include <math.h>

#include "driver/driver.h"
#include "runtime/files.h"

typedef struct summary {
  const ir_view *view;
  int64_t nonzeros, visited;
  double min, max, squares;
} summary;

static bool visit(void *user, const int64_t *at, int64_t position) {
  summary *sum = user;
  (void)at;
  double v = ir_dtype_load(sum->view->dtype, sum->view->vals.data, position);
  sum->nonzeros += v != 0;
  sum->squares += v * v;
  sum->visited++;
  if (!isnan(sum->min) && !(v >= sum->min)) sum->min = v; /* the first NaN stays */
  if (!isnan(sum->max) && !(v <= sum->max)) sum->max = v;
  return true;
}

static void print_summary(drv_session *s, const ir_tensor *tensor, const ir_view *view) {
  summary sum = {.view = view, .min = INFINITY, .max = -INFINITY};
  ir_view_walk(view, visit, &sum);
  int64_t elements = ir_view_elements(view);
  if (sum.visited < elements && sum.min > 0) sum.min = 0;
  if (sum.visited < elements && sum.max < 0) sum.max = 0;
  ir_text line = ir_text_new(s->arena);
  ir_text_printf(&line, "%s: %s[", tensor->name, ir_dtype_text(view->dtype));
  for (int d = 0; d < view->rank; d++)
    ir_text_printf(&line, "%s%lld", d ? "," : "", (long long)view->dim[d]);
  ir_text_put(&line, "]");
  if (!ir_format_is_row_major(view->format)) {
    ir_text_put(&line, " as ");
    ir_format_print(view->format, &line);
  }
  ir_text_printf(&line, "  nonzeros %lld", (long long)sum.nonzeros);
  if (elements > 0)
    ir_text_printf(&line, " (%.3g %%)", 100.0 * (double)sum.nonzeros / (double)elements);
  if (elements > 0) ir_text_printf(&line, "  min %.6g  max %.6g", sum.min, sum.max);
  ir_text_printf(&line, "  norm %.6g", sqrt(sum.squares));
  puts(line.data);
}

static const ir_binding *result_of(const ir_bindings *bindings, const ir_tensor *tensor) {
  for (int i = 0; i < bindings->list.count; i++)
    if (!strcmp(bindings->list.at[i].tensor->name, tensor->name)) return &bindings->list.at[i];
  return NULL;
}

static bool has_ending(const char *path, const char *ending) {
  size_t n = strlen(path), m = strlen(ending);
  return n >= m && !strcmp(path + n - m, ending);
}

static bool is_dense_format(const ir_format *format) {
  for (int l = 0; format && l < format->level_count; l++)
    if (format->level[l].kind != IR_LEVEL_DENSE) return false;
  return true;
}

/* NAME=FILE of --out: an output of the kernel, and an ending that its format can be written under.
 */
static spc_status parse_out(drv_session *s, const ir_kernel *kernel, const char *text,
                            const ir_tensor **tensor, const char **path) {
  const char *name;
  if (!drv_split(s, text, &name, path) || !**path) {
    drv_usage_error(s, "--out wants NAME=FILE, not `%s`", text);
    return SPC_INVALID_ARGUMENT;
  }
  *tensor = ir_tensor_named(kernel, name);
  if (!*tensor || (*tensor)->role != IR_ROLE_OUT) {
    drv_usage_error(s, "kernel `%s` has no output `%s`", kernel->name, name);
    return SPC_INVALID_ARGUMENT;
  }
  if (!has_ending(*path, ".npy") && !has_ending(*path, ".npz")) {
    drv_usage_error(s, "--out %s: outputs are written as .npy or .npz", text);
    return SPC_INVALID_ARGUMENT;
  }
  if (has_ending(*path, ".npz") && is_dense_format((*tensor)->format)) {
    drv_usage_error(s, "--out %s: `%s` is dense and .npz holds sparse matrices; write .npy", text,
                    name);
    return SPC_INVALID_ARGUMENT;
  }
  return SPC_OK;
}

spc_status drv_check_outs(drv_session *s, const ir_kernel *kernel) {
  const ir_tensor *tensor;
  const char *path;
  for (int i = 0; i < s->options.outs.items.count; i++)
    SPC_TRY(parse_out(s, kernel, s->options.outs.items.at[i], &tensor, &path));
  return SPC_OK;
}

spc_status drv_write_outputs(drv_session *s, const ir_kernel *kernel, const ir_bindings *bindings) {
  if (!s->options.outs.items.count)
    for (int i = 0; i < bindings->list.count; i++)
      if (bindings->list.at[i].tensor->role == IR_ROLE_OUT)
        print_summary(s, bindings->list.at[i].tensor, &bindings->list.at[i].view);
  for (int i = 0; i < s->options.outs.items.count; i++) {
    const ir_tensor *tensor;
    const char *path;
    SPC_TRY(parse_out(s, kernel, s->options.outs.items.at[i], &tensor, &path));
    SPC_TRY(rt_file_write(s->arena, path, &result_of(bindings, tensor)->view, s->sink));
  }
  return SPC_OK;
}

static void put_number(ir_text *t, double value) {
  if (value < 0 || !isfinite(value))
    ir_text_put(t, "null");
  else
    ir_text_printf(t, "%.9g", value);
}

static const char *verdict_of(const ir_kernel *kernel, const rt_stats *stats, const ir_list *list) {
  for (int i = 0; i < kernel->stages.count && i < stats->stages.count; i++)
    if (kernel->stages.at[i]->when.list == list && stats->stages.at[i].ran)
      return kernel->stages.at[i]->when.above ? "dense" : "sparse";
  return "sparse";
}

static void put_cache(drv_session *s, ir_text *t, const ir_image *image) {
  ir_text_printf(t, "\"compilations\":%d,\"cache\":{\"hits\":%d,\"damaged\":%d,\"state\":\"%s\",",
                 image ? image->compiled : 0, image ? image->cached : 0, rt_cache_damaged(s->cache),
                 rt_cache_state(s->cache));
  ir_text_put(t, "\"why\":");
  ir_text_json(t, rt_cache_why(s->cache));
  ir_text_put(t, "},\n ");
}

/* What was compiled for a GPU: every launch with its registers, and kernels that were left. */
static void put_codes(ir_text *t, const ir_image *image) {
  ir_text_put(t, "\"codes\":[");
  for (int i = 0; image && image->cuda && i < image->codes.count; i++) {
    const ir_code_image *code = &image->codes.at[i];
    ir_text_put(t, i ? ",\n  {\"stage\":" : "\n  {\"stage\":");
    ir_text_json(t, code->stage->name);
    ir_text_put(t, ",\"kernel\":");
    ir_text_json(t, code->label);
    ir_text_printf(t, ",\"registers\":%d,\"spill_bytes\":%d,\"edited\":", code->registers,
                   code->spill_bytes);
    ir_text_json(t, code->path ? code->path : "");
    ir_text_put(t, "}");
  }
  ir_text_put(t, "],\n \"rejected\":[");
  for (int i = 0; image && i < image->rejected.count; i++) {
    const ir_rejected *r = &image->rejected.at[i];
    ir_text_put(t, i ? ",{\"stage\":" : "{\"stage\":");
    ir_text_json(t, r->stage->name);
    ir_text_put(t, ",\"kernel\":");
    ir_text_json(t, r->label);
    ir_text_put(t, ",\"why\":");
    ir_text_json(t, r->why);
    ir_text_put(t, "}");
  }
  ir_text_put(t, "],\n ");
}

spc_status drv_write_stats(drv_session *s, const ir_kernel *kernel, const rt_stats *stats,
                           const ir_image *image) {
  ir_text t = ir_text_new(s->arena);
  ir_text_put(&t, "{\"kernel\":");
  ir_text_json(&t, kernel->name);
  ir_text_put(&t, ",\"backend\":");
  ir_text_json(&t, stats->backend);
  ir_text_put(&t, ",\n \"stages\":[");
  for (int i = 0; i < stats->stages.count; i++) {
    const rt_stage_stats *row = &stats->stages.at[i];
    ir_text_put(&t, i ? ",\n  " : "\n  ");
    ir_text_put(&t, "{\"stage\":");
    ir_text_json(&t, row->stage);
    ir_text_put(&t, ",\"backend\":");
    ir_text_json(&t, stats->backend);
    ir_text_put(&t, ",\"kernel\":");
    ir_text_json(&t, row->kernel ? row->kernel : "convert");
    ir_text_printf(&t, ",\"ran\":%s,\"cover\":", row->ran ? "true" : "false");
    put_number(&t, row->cover);
    ir_text_put(&t, ",\"milliseconds\":");
    put_number(&t, row->milliseconds);
    ir_text_put(&t, "}");
  }
  ir_text_put(&t, "],\n \"guards\":[");
  for (int i = 0, first = 1; i < kernel->lists.count; i++) {
    const ir_list *list = kernel->lists.at[i];
    if (!list->verdict) continue;
    ir_text_put(&t, first ? "" : ",");
    ir_text_put(&t, "{\"list\":");
    ir_text_json(&t, list->name);
    ir_text_put(&t, ",\"verdict\":");
    ir_text_json(&t, verdict_of(kernel, stats, list));
    ir_text_put(&t, "}");
    first = 0;
  }
  ir_text_put(&t, "],\n ");
  put_codes(&t, image);
  put_cache(s, &t, image);
  ir_text_printf(&t,
                 "\"packings\":0,\"bytes_to_device\":%lld,\"bytes_to_host\":%lld,"
                 "\"workspace_bytes\":%lld,\"overflow\":%s,\"out_of_range\":%s}\n",
                 (long long)stats->bytes_to_device, (long long)stats->bytes_to_host,
                 (long long)stats->workspace_bytes,
                 stats->sticky & SPC_STICKY_CAPACITY ? "true" : "false",
                 stats->sticky & SPC_STICKY_RANGE ? "true" : "false");
  return drv_write_file(s, s->options.stats, t.data, t.length);
}
