/* cache_entry.c - one entry of the cache as a file.
 *
 *     data    the object or cubin as it is, so that objdump and nvdisasm open the file itself
 *     note    what the compiler said
 *     trailer magic[16]  data bytes[8]  note bytes[8]  digest of the key[32]  digest of all
 * else[32]
 *
 * Numbers are little-endian.  The last digest covers everything before it: a file that was cut,
 * changed in any byte, or is another entry under this name does not verify.  A file is written
 * under a name of its own and renamed when it is complete.  It is not synced: after a power cut an
 * entry may be empty or torn, which is a miss, and a sync costs more than most entries save. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/cache_file.h"

static const char magic[16] = "spc cache 1\n";
static const size_t largest = (size_t)1 << 30;

typedef struct trailer {
  char magic[16];
  uint8_t data_bytes[8], note_bytes[8], key[RT_SHA256_BYTES], all[RT_SHA256_BYTES];
} trailer;

static void put_u64(uint8_t *to, uint64_t value) {
  for (int i = 0; i < 8; i++) to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_u64(const uint8_t *from) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; i--) value = value << 8 | from[i];
  return value;
}

/* ---- names ----------------------------------------------------------------------------------- */
static void add_part(rt_sha256 *hash, const char *text) {
  uint8_t length[8];
  put_u64(length, strlen(text));
  rt_sha256_add(hash, length, sizeof length);
  rt_sha256_add(hash, text, strlen(text));
}

void rt_entry_identify(const ir_cache_key *key, rt_entry_id *out) {
  static const char digit[] = "0123456789abcdef";
  rt_sha256 hash;
  rt_sha256_start(&hash);
  rt_sha256_add(&hash, magic, sizeof magic);
  add_part(&hash, key->kind);
  for (int i = 0; i < key->count; i++) add_part(&hash, key->part[i] ? key->part[i] : "");
  rt_sha256_end(&hash, out->digest);
  for (int i = 0; i < RT_SHA256_BYTES; i++) {
    out->name[2 * i] = digit[out->digest[i] >> 4];
    out->name[2 * i + 1] = digit[out->digest[i] & 15];
  }
  out->name[RT_ENTRY_NAME] = 0;
}

bool rt_entry_path(char path[RT_CACHE_PATH], const char *folder, const char *name,
                   const char *ending) {
  int n = snprintf(path, RT_CACHE_PATH, "%s/%s%s%s", folder, name, *ending ? "." : "", ending);
  return n > 0 && n < RT_CACHE_PATH;
}

static void digest_of(const trailer *t, const void *body, size_t bytes, uint8_t *out) {
  rt_sha256 hash;
  rt_sha256_start(&hash);
  rt_sha256_add(&hash, body, bytes);
  rt_sha256_add(&hash, t, offsetof(trailer, all));
  rt_sha256_end(&hash, out);
}

/* ---- reading --------------------------------------------------------------------------------- */
static bool read_all(int file, char *to, size_t bytes) {
  while (bytes) {
    ssize_t got = read(file, to, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= (size_t)got;
  }
  return true;
}

/* The body (malloc'ed) of a file of that size, and the trailer behind it. */
static char *read_body(int file, size_t size, trailer *t) {
  if (size < sizeof *t || size > largest) return NULL;
  char *body = malloc(size - sizeof *t + 1);
  if (body && read_all(file, body, size - sizeof *t) && read_all(file, (char *)t, sizeof *t))
    return body;
  free(body);
  return NULL;
}

static bool verifies(const trailer *t, const rt_entry_id *id, const char *body, size_t bytes) {
  uint8_t digest[RT_SHA256_BYTES];
  uint64_t data = get_u64(t->data_bytes), note = get_u64(t->note_bytes);
  if (memcmp(t->magic, magic, sizeof magic) || memcmp(t->key, id->digest, sizeof id->digest))
    return false;
  if (data > bytes || note != bytes - data) return false;
  digest_of(t, body, bytes, digest);
  return !memcmp(digest, t->all, sizeof digest);
}

static bool take(const rt_entry_id *id, int file, size_t size, ir_cached *out) {
  trailer t;
  char *body = read_body(file, size, &t);
  if (!body) return false;
  size_t bytes = size - sizeof t;
  if (verifies(&t, id, body, bytes)) {
    size_t data = (size_t)get_u64(t.data_bytes);
    char *note = malloc(bytes - data + 1);
    if (note) {
      memcpy(note, body + data, bytes - data);
      note[bytes - data] = body[data] = 0; /* texts end with it */
      *out = (ir_cached){body, data, note};
      return true;
    }
  }
  free(body);
  return false;
}

/* Often used entries are not written to at every use. */
static void touch_file(int file, const struct stat *info) {
  if (time(NULL) - info->st_mtime > 60) futimens(file, NULL);
}

rt_entry_found rt_entry_read(const char *folder, const rt_entry_id *id, const char *kind,
                             bool touch, ir_cached *out) {
  char path[RT_CACHE_PATH];
  struct stat info;
  if (!rt_entry_path(path, folder, id->name, kind)) return RT_ENTRY_ABSENT;
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe of that name must not block */
  if (file < 0) return RT_ENTRY_ABSENT;
  bool whole = !fstat(file, &info) && S_ISREG(info.st_mode) && info.st_size > 0 &&
               rt_file_is_trusted(&info) && take(id, file, (size_t)info.st_size, out);
  if (whole && touch) touch_file(file, &info);
  close(file);
  return whole ? RT_ENTRY_WHOLE : RT_ENTRY_DAMAGED;
}

static uint8_t hex_digit(char digit) {
  return (uint8_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static const char *wrong_with(int file, const rt_entry_id *id) {
  struct stat info;
  ir_cached found;
  if (fstat(file, &info)) return "it cannot be read";
  if (!rt_file_is_trusted(&info)) return "others could have written it";
  if (info.st_size <= 0 || !take(id, file, (size_t)info.st_size, &found)) return "it is damaged";
  free(found.data);
  free(found.note);
  return NULL;
}

const char *rt_entry_verify(const char *folder, const char *name) {
  char path[RT_CACHE_PATH];
  rt_entry_id id;
  for (int i = 0; i < RT_SHA256_BYTES; i++)
    id.digest[i] = (uint8_t)(hex_digit(name[2 * i]) << 4 | hex_digit(name[2 * i + 1]));
  if (!rt_entry_path(path, folder, name, "")) return "its path is too long";
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return "it cannot be read";
  const char *wrong = wrong_with(file, &id);
  close(file);
  return wrong;
}

/* ---- writing --------------------------------------------------------------------------------- */
static bool write_all(int file, const void *data, size_t bytes) {
  const char *from = data;
  while (bytes) {
    ssize_t put = write(file, from, bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    from += put;
    bytes -= (size_t)put;
  }
  return true;
}

/* A file beyond this limit would not fail to be written: it would kill the process. */
static bool is_too_large(size_t bytes) {
  struct rlimit limit;
  return !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY &&
         bytes > limit.rlim_cur;
}

/* A new file in the folder under a name that no other process and thread has. */
static int open_part(const char *folder, char path[RT_CACHE_PATH]) {
  for (int attempt = 0; attempt < 100; attempt++) {
    struct timespec now;
    char name[64];
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(name, sizeof name, "part-%ld-%lx-%lx", (long)getpid(), (unsigned long)now.tv_sec,
             (unsigned long)now.tv_nsec + (unsigned long)attempt);
    if (!rt_entry_path(path, folder, name, "")) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

typedef struct piece {
  const void *data;
  size_t bytes;
} piece;

static int publish(const char *folder, const char *path, const piece *pieces, int count) {
  char part[RT_CACHE_PATH];
  size_t total = 0;
  for (int i = 0; i < count; i++) total += pieces[i].bytes;
  if (is_too_large(total)) return EFBIG;
  errno = 0;
  int file = open_part(folder, part);
  if (file < 0) return errno ? errno : EIO;
  bool good = true;
  for (int i = 0; i < count && good; i++) good = write_all(file, pieces[i].data, pieces[i].bytes);
  int fault = good ? 0 : errno ? errno : EIO;
  if (close(file) && !fault) fault = errno;
  if (!fault && rename(part, path)) fault = errno;
  if (fault) unlink(part);
  return fault;
}

int rt_entry_write(const char *folder, const rt_entry_id *id, const char *kind,
                   const ir_cached *what) {
  char path[RT_CACHE_PATH];
  trailer t;
  rt_sha256 hash;
  const char *said = what->note ? what->note : "";
  size_t note = strlen(said);
  if (!rt_entry_path(path, folder, id->name, kind)) return ENAMETOOLONG;
  memcpy(t.magic, magic, sizeof magic);
  memcpy(t.key, id->digest, sizeof t.key);
  put_u64(t.data_bytes, what->bytes);
  put_u64(t.note_bytes, note);
  rt_sha256_start(&hash);
  rt_sha256_add(&hash, what->data, what->bytes);
  rt_sha256_add(&hash, said, note);
  rt_sha256_add(&hash, &t, offsetof(trailer, all));
  rt_sha256_end(&hash, t.all);
  const piece pieces[] = {{what->data, what->bytes}, {said, note}, {&t, sizeof t}};
  return publish(folder, path, pieces, IR_COUNT(pieces));
}

int rt_entry_write_text(const char *folder, const rt_entry_id *id, const char *ending,
                        const char *text) {
  char path[RT_CACHE_PATH];
  if (!rt_entry_path(path, folder, id->name, ending)) return ENAMETOOLONG;
  if (!access(path, F_OK)) return 0;
  const piece all = {text, strlen(text)};
  return publish(folder, path, &all, 1);
}
