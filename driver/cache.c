/* cache.c - `spc cache`: where compiled code is kept, how much there is, what; and away with it. */
#include "driver/driver.h"

static double mebibytes(int64_t bytes) { return (double)bytes / (1 << 20); }

static void put_item(void *user, const rt_cache_item *item) {
  ir_text_printf(user, "%10lld  %8.1f h  %s\n", (long long)item->bytes, item->age / 3600,
                 item->name);
}

static void put_item_json(void *user, const rt_cache_item *item) {
  ir_text *text = user;
  ir_text_printf(text, "%s\n  {\"name\":", text->data[text->length - 1] == '[' ? "" : ",");
  ir_text_json(text, item->name);
  ir_text_put(text, ",\"kind\":");
  ir_text_json(text, item->kind);
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

int drv_cache(drv_session *s) {
  static const char *const verbs[] = {"size", "path", "ls", "clear"};
  int count = s->arguments.items.count;
  const char *verb = count ? s->arguments.items.at[0] : "size";
  spc_status status = SPC_OK;
  ir_text text = ir_text_new(s->arena);
  if (count > 1) return drv_usage_error(s, "cache wants one of path, size, ls, clear");
  if (!strcmp(verb, "size")) {
    size(s, &text);
  } else if (!strcmp(verb, "path")) {
    if (!*rt_cache_folder(s->cache)) return no_folder(s);
    ir_text_printf(&text, "%s\n", rt_cache_folder(s->cache));
  } else if (!strcmp(verb, "ls")) {
    status = list(s, &text);
  } else if (!strcmp(verb, "clear")) {
    ir_text_printf(&text, "%lld entries removed\n", (long long)rt_cache_clear(s->cache));
  } else {
    const char *near = ir_nearest(verb, verbs, IR_COUNT(verbs));
    return drv_usage_error(s, "cache knows no `%s`%s%s%s; it is path, size, ls or clear", verb,
                           near ? "; did you mean `" : "", near ? near : "", near ? "`?" : "");
  }
  if (!status) status = drv_write_file(s, NULL, text.data, text.length);
  return drv_finish(s, status);
}
