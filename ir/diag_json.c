/* diag_json.c - the diagnostics of a sink for a machine: one JSON object a line, nothing cut.
 *
 *     {"code":"E0201","name":"UNBOUND_INDEX","severity":"error","message":"...",
 *      "file":"ffn.spx","line":4,"column":21,"end_line":4,"end_column":27,"begin":80,"end":86,
 *      "notes":[{"message":"..."}],"fix":{"message":"...","code":"sum[d] ", place}}
 * A diagnostic, note or fix without a place has no place members.  Columns count bytes, from 1. */
#include "ir/diag.h"
#include "ir/diag_escape.h"

static const char *const severity_names[] = {"error", "warning", "remark", "missed"};

static void put_string(ir_text *out, const char *text) {
  ir_text_json(out, ir_show_text(out->arena, text, SIZE_MAX));
}

static void put_member(ir_text *out, const char *key, const char *value) {
  ir_text_printf(out, ",\"%s\":", key);
  put_string(out, value);
}

static void put_place(const ir_sink *sink, ir_span span, ir_text *out) {
  const char *file;
  int line, column, end_line, end_column;
  ir_span_place(sink, span, &file, &line, &column);
  if (!file) return;
  put_member(out, "file", file);
  ir_span_place(sink, (ir_span){span.file, span.end, span.end}, &file, &end_line, &end_column);
  ir_text_printf(out, ",\"line\":%d,\"column\":%d,\"end_line\":%d,\"end_column\":%d", line, column,
                 end_line, end_column);
  ir_text_printf(out, ",\"begin\":%u,\"end\":%u", (unsigned)span.begin, (unsigned)span.end);
}

static void put_notes(const ir_sink *sink, const ir_diag *diag, ir_text *out) {
  ir_text_put(out, ",\"notes\":[");
  for (int i = 0; i < diag->notes.count; i++) {
    ir_text_put(out, i ? ",{\"message\":" : "{\"message\":");
    put_string(out, diag->notes.at[i].text);
    put_place(sink, diag->notes.at[i].span, out);
    ir_text_put(out, "}");
  }
  ir_text_put(out, "]");
}

static void put_fix(const ir_sink *sink, const ir_diag *diag, ir_text *out) {
  ir_text_put(out, ",\"fix\":{\"message\":");
  put_string(out, diag->fix_text);
  put_member(out, "code", diag->fix_code);
  put_place(sink, diag->fix_span, out);
  ir_text_put(out, "}");
}

static void put_diag(const ir_sink *sink, const ir_diag *diag, ir_text *out) {
  ir_text_printf(out, "{\"code\":\"%s\",\"name\":\"%s\",\"severity\":\"%s\"",
                 ir_diag_rows[diag->id].code, ir_diag_rows[diag->id].name,
                 severity_names[diag->severity]);
  put_member(out, "message", diag->text);
  put_place(sink, diag->span, out);
  put_notes(sink, diag, out);
  if (diag->fix_code) put_fix(sink, diag, out);
  ir_text_put(out, "}\n");
}

void ir_sink_render_json(const ir_sink *sink, ir_text *out) {
  if (!sink) return;
  for (int i = 0; i < sink->diags.count; i++) put_diag(sink, sink->diags.at[i], out);
}
