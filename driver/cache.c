/* cache.c - `spc cache`: where compiled code is kept, how much there is, what; and away with it. */
#include "driver/driver.h"

static double mebibytes(int64_t bytes) { return (double)bytes / (1 << 20); }

static const char *size_text(ir_arena *arena, int64_t bytes) {
  if (bytes < 1024) return ir_format_text(arena, "%lld B", (long long)bytes);
  double kib = (double)bytes / 1024;
  return kib < 1024 ? ir_format_text(arena, "%.1f KiB", kib)
                    : ir_format_text(arena, "%.1f MiB", kib / 1024);
}

static const char *age_text(ir_arena *arena, double seconds) {
  static const struct {
    double each;
    const char *name;
  } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};
  for (int i = 0; i < IR_COUNT(units); i++) {
    long long count = (long long)(seconds / units[i].each);
    if (count)
      return ir_format_text(arena, "%lld %s%s", count, units[i].name, count > 1 ? "s" : "");
  }
  return "now";
}

static void put_item(void *user, const rt_cache_item *item) {
  ir_text *text = user;
  if (!text->length) ir_text_printf(text, "%10s  %-10s  %s\n", "size", "last used", "file");
  ir_text_printf(text, "%10s  %-10s  %s%s%s\n", size_text(text->arena, item->bytes),
                 age_text(text->arena, item->age), item->name, *item->about ? "  " : "",
                 item->about);
}

static void put_item_json(void *user, const rt_cache_item *item) {
  ir_text *text = user;
  ir_text_printf(text, "%s\n  {\"name\":", text->data[text->length - 1] == '[' ? "" : ",");
  ir_text_json(text, item->name);
  ir_text_put(text, ",\"kind\":");
  ir_text_json(text, item->kind);
  ir_text_put(text, ",\"about\":");
  ir_text_json(text, item->about);
  ir_text_printf(text, ",\"bytes\":%lld,\"age_seconds\":%.0f}", (long long)item->bytes, item->age);
}

static spc_status list(drv_session *s, ir_text *text) {
  if (s->options.json) ir_text_put(text, "[");
  bool good = rt_cache_list(s->cache, s->options.json ? put_item_json : put_item, text);
  if (s->options.json) ir_text_put(text, "]\n");
  return good ? SPC_OK : SPC_OUT_OF_MEMORY;
}

static void size(drv_session *s, ir_text *text) {
  rt_cache_size all = rt_cache_measure(s->cache);
  const char *folder = rt_cache_folder(s->cache), *why = rt_cache_why(s->cache);
  if (s->options.json) {
    ir_text_put(text, "{\"folder\":");
    ir_text_json(text, folder);
    ir_text_printf(text, ",\"state\":\"%s\",\"why\":", rt_cache_state(s->cache));
    ir_text_json(text, why);
    ir_text_printf(text, ",\"entries\":%lld,\"bytes\":%lld,\"limit\":%lld}\n",
                   (long long)all.entries, (long long)all.bytes, (long long)all.limit);
    return;
  }
  ir_text_printf(text, "%s  %lld entries, %.1f of %.0f MiB, %s%s%s\n", *folder ? folder : "-",
                 (long long)all.entries, mebibytes(all.bytes), mebibytes(all.limit),
                 rt_cache_state(s->cache), *why ? ": " : "", why);
}

static int no_folder(drv_session *s) {
  ir_diag_add(s->sink, IR_DIAG_FILE_READ, IR_NOWHERE, "the cache has no folder: %s",
              rt_cache_why(s->cache));
  return drv_finish(s, SPC_IO);
}

/* ---- what is wrong, what is too much ----------------------------------------------------------
 */
static void put_wrong(void *user, const char *file, const char *wrong) {
  ir_text_printf(user, "%s: %s\n", file, wrong);
}

static spc_status verify(drv_session *s, ir_text *text) {
  rt_cache_verified found;
  if (!rt_cache_verify(s->cache, false, &found, s->options.json ? NULL : put_wrong, text))
    return SPC_OUT_OF_MEMORY;
  if (s->options.json)
    ir_text_printf(text, "{\"entries\":%lld,\"wrong\":%lld}\n", (long long)found.entries,
                   (long long)found.wrong);
  else if (found.wrong)
    ir_text_printf(text, "%lld of %lld entries are not loaded; `spc cache prune` removes them\n",
                   (long long)found.wrong, (long long)found.entries);
  else
    ir_text_printf(text, "%lld entries, all whole\n", (long long)found.entries);
  return found.wrong ? SPC_MISMATCH : SPC_OK;
}

static spc_status prune(drv_session *s, const char *size, ir_text *text) {
  rt_cache_verified found;
  int64_t limit = -1;
  if (size && !rt_cache_size_read(size, &limit)) {
    drv_usage_error(s, "cache prune wants a size like 300M or 2G, not `%s`", size);
    return SPC_INVALID_ARGUMENT;
  }
  if (!rt_cache_verify(s->cache, true, &found, NULL, NULL)) return SPC_OUT_OF_MEMORY;
  int64_t gone = rt_cache_prune(s->cache, limit);
  rt_cache_size left = rt_cache_measure(s->cache);
  ir_text_printf(text, "%lld damaged and %lld old entries removed, %lld (%s) left\n",
                 (long long)found.wrong, (long long)gone, (long long)left.entries,
                 size_text(s->arena, left.bytes));
  return SPC_OK;
}

int drv_cache(drv_session *s) {
  static const char *const verbs[] = {"size", "path", "ls", "verify", "prune", "clear"};
  int count = s->arguments.items.count;
  const char *verb = count ? s->arguments.items.at[0] : "size";
  spc_status status = SPC_OK;
  ir_text text = ir_text_new(s->arena);
  if (count > (strcmp(verb, "prune") ? 1 : 2))
    return drv_usage_error(s, "cache wants one of path, size, ls, verify, prune [SIZE], clear");
  if (!strcmp(verb, "size")) {
    size(s, &text);
  } else if (!strcmp(verb, "path")) {
    if (!*rt_cache_folder(s->cache)) return no_folder(s);
    ir_text_printf(&text, "%s\n", rt_cache_folder(s->cache));
  } else if (!strcmp(verb, "ls")) {
    status = list(s, &text);
  } else if (!strcmp(verb, "verify")) {
    status = verify(s, &text);
  } else if (!strcmp(verb, "prune")) {
    status = prune(s, count > 1 ? s->arguments.items.at[1] : NULL, &text);
  } else if (!strcmp(verb, "clear")) {
    ir_text_printf(&text, "%lld entries removed\n", (long long)rt_cache_clear(s->cache));
  } else {
    const char *near = ir_nearest(verb, verbs, IR_COUNT(verbs));
    return drv_usage_error(
        s, "cache knows no `%s`%s%s%s; it is path, size, ls, verify, prune or clear", verb,
        near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
  }
  if (!status || status == SPC_MISMATCH) {
    spc_status written = drv_write_file(s, NULL, text.data, text.length);
    if (written) status = written;
  }
  return drv_finish(s, status);
}
