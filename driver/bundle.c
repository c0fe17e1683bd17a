/* bundle.c - a bundle as bytes: written in one go, read with every length checked. */
#include "driver/bundle.h"

static const char magic[16] = "spc bundle 1\n";
enum { FAMILY = 11, HEAD = 16 + RT_SHA256_BYTES }; /* "spc bundle "; the digest begins behind it */
enum { MOST = 4096 };                              /* targets, and codes of one: a sane bound */

/* ---- writing --------------------------------------------------------------------------------- */
static void put_number(ir_text *out, uint64_t value) {
  char bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (char)(value >> 8 * i);
  ir_text_putn(out, bytes, sizeof bytes);
}

static void put_bytes(ir_text *out, const void *data, size_t bytes) {
  put_number(out, bytes);
  ir_text_putn(out, data, bytes);
  ir_text_putn(out, "", 1);
}

static void put_target(ir_text *out, const bundle_target *t) {
  put_bytes(out, t->name, strlen(t->name));
  put_bytes(out, t->text, t->length);
  put_number(out, (uint64_t)t->codes.count);
  for (int i = 0; i < t->codes.count; i++) {
    const bundle_code *code = &t->codes.at[i];
    put_bytes(out, code->kernel, strlen(code->kernel));
    put_bytes(out, code->name, strlen(code->name));
    ir_text_putn(out, (const char *)code->digest, sizeof code->digest);
    put_bytes(out, code->data, code->bytes);
  }
}

static void digest_of(const void *data, size_t bytes, uint8_t *digest) {
  rt_sha256 hash;
  rt_sha256_start(&hash);
  rt_sha256_add(&hash, data, bytes);
  rt_sha256_end(&hash, digest);
}

void bundle_write(const bundle *b, ir_text *out) {
  ir_text body = ir_text_new(out->arena), all = ir_text_new(out->arena);
  uint8_t digest[RT_SHA256_BYTES];
  put_bytes(&body, b->name, strlen(b->name));
  put_bytes(&body, b->version, strlen(b->version));
  put_number(&body, (uint64_t)b->targets.count);
  for (int i = 0; i < b->targets.count; i++) put_target(&body, &b->targets.at[i]);
  put_number(&all, body.length);
  ir_text_putn(&all, body.data, body.length);
  digest_of(all.data, all.length, digest);
  ir_text_putn(out, magic, sizeof magic);
  ir_text_putn(out, (const char *)digest, sizeof digest);
  ir_text_putn(out, all.data, all.length);
}

/* ---- reading --------------------------------------------------------------------------------- */
typedef struct reader {
  const uint8_t *at;
  size_t left;
  bool bad; /* something left the bundle: everything read since is empty */
} reader;

static const void *take(reader *r, uint64_t bytes) {
  if (r->bad || bytes > r->left) {
    r->bad = true;
    return NULL;
  }
  const void *here = r->at;
  r->at += bytes;
  r->left -= (size_t)bytes;
  return here;
}

static uint64_t take_number(reader *r) {
  const uint8_t *bytes = take(r, 8);
  uint64_t value = 0;
  for (int i = 7; bytes && i >= 0; i--) value = value << 8 | bytes[i];
  return value;
}

static const void *take_bytes(reader *r, size_t *length) {
  uint64_t bytes = take_number(r);
  const char *data = take(r, bytes), *end = take(r, 1);
  if (end && *end) r->bad = true;
  *length = r->bad ? 0 : (size_t)bytes;
  return r->bad ? "" : data;
}

/* A text has no zero byte inside. */
static const char *take_text(reader *r) {
  size_t length;
  const char *text = take_bytes(r, &length);
  if (strlen(text) != length) r->bad = true;
  return text;
}

static int take_count(reader *r) {
  uint64_t count = take_number(r);
  if (count > MOST) r->bad = true;
  return r->bad ? 0 : (int)count;
}

static void take_target(ir_arena *arena, reader *r, bundle_target *out) {
  *out = (bundle_target){.name = take_text(r)};
  out->text = take_text(r);
  out->length = strlen(out->text);
  int count = take_count(r);
  for (int i = 0; i < count && !r->bad; i++) {
    bundle_code code = {.kernel = take_text(r)};
    code.name = take_text(r);
    const uint8_t *digest = take(r, sizeof code.digest);
    if (digest) memcpy(code.digest, digest, sizeof code.digest);
    code.data = take_bytes(r, &code.bytes);
    IR_PUSH(arena, &out->codes, code);
  }
}

bool bundle_looks_like(const void *data, size_t bytes) {
  return bytes >= FAMILY && !memcmp(data, magic, FAMILY);
}

/* Whether these are the bytes that were written. */
static const char *damage(const uint8_t *data, size_t bytes) {
  uint8_t digest[RT_SHA256_BYTES];
  reader r = {data + HEAD, bytes - HEAD, false};
  uint64_t follow = take_number(&r);
  if (follow != r.left) return follow > r.left ? "it is cut off" : "bytes follow its end";
  digest_of(data + HEAD, bytes - HEAD, digest);
  return memcmp(digest, data + sizeof magic, sizeof digest) ? "its bytes were changed" : NULL;
}

spc_status bundle_read(ir_arena *arena, const void *data, size_t bytes, bundle *out,
                       const char **why) {
  const char *begin = data;
  *out = (bundle){0};
  *why = "it is no bundle of spc's";
  if (!bundle_looks_like(data, bytes)) return SPC_IO;
  if (bytes < HEAD + 8) return *why = "it is cut off", SPC_IO;
  if (memcmp(data, magic, sizeof magic)) {
    int shown = (int)strcspn(ir_strndup(arena, begin + FAMILY, sizeof magic - FAMILY), "\n");
    *why = ir_format_text(arena, "its format is %.*s, and this library (spc %s) reads format 1",
                          shown, begin + FAMILY, SPC_VERSION);
    return SPC_UNAVAILABLE;
  }
  if ((*why = damage(data, bytes))) return SPC_IO;
  reader r = {(const uint8_t *)data + HEAD + 8, bytes - HEAD - 8, false};
  out->name = take_text(&r);
  out->version = take_text(&r);
  int count = take_count(&r);
  for (int i = 0; i < count && !r.bad; i++) {
    bundle_target target;
    take_target(arena, &r, &target);
    IR_PUSH(arena, &out->targets, target);
  }
  if (!r.bad && !r.left) return SPC_OK;
  *why = "its contents are malformed";
  return SPC_IO;
}

const char *bundle_target_names(ir_arena *arena, const bundle *b) {
  ir_text text = ir_text_new(arena);
  for (int i = 0; i < b->targets.count; i++)
    ir_text_printf(&text, "%s%s", i ? ", " : "", b->targets.at[i].name);
  return b->targets.count ? text.data : "no target";
}
