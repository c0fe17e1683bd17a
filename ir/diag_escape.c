/* diag_escape.c - user text made safe for a terminal.
 *
 * Printable UTF-8 stays.  Control characters, bytes that are no UTF-8, and the invisible marks that
 * reorder or hide text are shown as `\xNN` or `\u{NNNN}`, so that what is seen is what is there. */
#include "ir/diag_escape.h"

/* Length of the valid UTF-8 sequence at s, 0 when there is none. */
static int decode_utf8(const unsigned char *s, size_t length, uint32_t *code) {
  static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
  int n = s[0] < 0x80             ? 1
          : (s[0] & 0xe0) == 0xc0 ? 2
          : (s[0] & 0xf0) == 0xe0 ? 3
          : (s[0] & 0xf8) == 0xf0 ? 4
                                  : 0;
  if (n == 0 || (size_t)n > length) return 0;
  *code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
  for (int i = 1; i < n; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    *code = *code << 6 | (s[i] & 0x3fu);
  }
  bool surrogate = *code >= 0xd800 && *code < 0xe000;
  return *code < least[n] || *code > 0x10ffff || surrogate ? 0 : n;
}

static bool is_hidden(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

ir_shown ir_show_char(const char *text, size_t length) {
  ir_shown shown = {.bytes = 1, .columns = 1};
  uint32_t code = 0;
  int n = decode_utf8((const unsigned char *)text, length, &code);
  if (n == 1 && code == '\t') {
    shown.text[0] = ' ';
  } else if (n == 0 || (is_hidden(code) && n == 1)) {
    shown.columns = snprintf(shown.text, sizeof shown.text, "\\x%02x", (unsigned char)text[0]);
  } else if (is_hidden(code)) {
    shown.bytes = n;
    shown.columns = snprintf(shown.text, sizeof shown.text, "\\u{%04x}", (unsigned)code);
  } else {
    shown.bytes = n;
    memcpy(shown.text, text, (size_t)n);
  }
  return shown;
}

const char *ir_show_text(ir_arena *arena, const char *text, size_t most_bytes) {
  ir_text out = ir_text_new(arena);
  size_t length = strlen(text);
  for (size_t i = 0; i < length;) {
    if (out.length >= most_bytes) {
      ir_text_put(&out, "...");
      break;
    }
    ir_shown shown = ir_show_char(text + i, length - i);
    ir_text_put(&out, text[i] == '\n' ? "\n" : shown.text);
    i += (size_t)shown.bytes;
  }
  return out.data;
}
