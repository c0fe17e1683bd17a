/* text.c - strings in arenas, the text builder, JSON quoting, the content hash. */
#include "ir/base.h"

char *ir_strndup(ir_arena *arena, const char *text, size_t length) {
  char *copy = ir_alloc(arena, length + 1);
  if (length) memcpy(copy, text, length);
  return copy;
}

char *ir_strdup(ir_arena *arena, const char *text) { return ir_strndup(arena, text, strlen(text)); }

char *ir_format_text(ir_arena *arena, const char *format, ...) {
  ir_text text = ir_text_new(arena);
  va_list args;
  va_start(args, format);
  ir_text_vprintf(&text, format, args);
  va_end(args);
  return text.data;
}

ir_text ir_text_new(ir_arena *arena) {
  return (ir_text){.arena = arena, .data = ir_alloc(arena, 64), .capacity = 64};
}

static void reserve(ir_text *text, size_t more) {
  if (text->length + more + 1 <= text->capacity) return;
  size_t capacity = text->capacity * 2;
  while (capacity < text->length + more + 1) capacity *= 2;
  char *data = ir_alloc(text->arena, capacity);
  memcpy(data, text->data, text->length + 1);
  text->data = data;
  text->capacity = capacity;
}

void ir_text_putn(ir_text *text, const char *s, size_t length) {
  if (!length) return;
  reserve(text, length);
  memcpy(text->data + text->length, s, length);
  text->length += length;
  text->data[text->length] = 0;
}

void ir_text_put(ir_text *text, const char *s) { ir_text_putn(text, s, strlen(s)); }

void ir_text_vprintf(ir_text *text, const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, args);
  if (length > 0) {
    reserve(text, (size_t)length);
    vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
    text->length += (size_t)length;
  }
  va_end(again);
}

void ir_text_printf(ir_text *text, const char *format, ...) {
  va_list args;
  va_start(args, format);
  ir_text_vprintf(text, format, args);
  va_end(args);
}

void ir_text_json(ir_text *text, const char *s) {
  ir_text_put(text, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      ir_text_printf(text, "\\%c", c);
    else if (c == '\n')
      ir_text_put(text, "\\n");
    else if (c < 0x20)
      ir_text_printf(text, "\\u%04x", c);
    else
      ir_text_putn(text, s, 1);
  }
  ir_text_put(text, "\"");
}

uint64_t ir_hash(uint64_t seed, const void *data, size_t length) {
  const unsigned char *p = data;
  uint64_t h = seed ^ 0xcbf29ce484222325u;
  for (size_t i = 0; i < length; i++) h = (h ^ p[i]) * 0x100000001b3u;
  h ^= h >> 32;
  return h * 0x9e3779b97f4a7c15u;
}
