/* The cache of compiled code: the hash, entries as files, damage, eviction, threads. */
#define _GNU_SOURCE /* mkdtemp, nftw */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cache_file.h"

static char folder[64];

static void open_folder(void) {
  strcpy(folder, "/tmp/spc-cache-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
  setenv("SPC_CACHE_DIR", folder, 1);
  unsetenv("SPC_CACHE");
  unsetenv("SPC_CACHE_SIZE");
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at) {
  (void)info, (void)kind, (void)at;
  return remove(path);
}
static void close_folder(void) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

TestSuite(runtime_cache, .init = open_folder, .fini = close_folder);

static ir_cache_key key_of(const char *what) {
  return (ir_cache_key){.kind = "cubin", .part = {"sm_90a", what}, .count = 2};
}

static void keep(rt_cache *cache, const char *what, const char *data, const char *note) {
  ir_cache_key key = key_of(what);
  ir_cached entry = {(void *)(uintptr_t)data, strlen(data), (char *)(uintptr_t)note};
  const ir_cache *face = rt_cache_face(cache);
  face->keep(face->user, &key, &entry, "// source", "cu");
}

/* The data, or NULL; freed by the next call. */
static const char *find(rt_cache *cache, const char *what) {
  static ir_cached entry;
  ir_cache_key key = key_of(what);
  const ir_cache *face = rt_cache_face(cache);
  free(entry.data);
  free(entry.note);
  entry = (ir_cached){0};
  return face->find(face->user, &key, &entry) ? entry.data : NULL;
}

static void path_of(char path[RT_CACHE_PATH], const char *what, const char *ending) {
  ir_cache_key key = key_of(what);
  rt_entry_id id;
  rt_entry_identify(&key, &id);
  cr_assert(rt_entry_path(path, folder, id.name, ending));
}

static void hex(const uint8_t digest[RT_SHA256_BYTES], char out[65]) {
  for (int i = 0; i < RT_SHA256_BYTES; i++) snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* FIPS 180-4's examples; the last one in pieces of every size. */
Test(runtime_cache, hash) {
  static const struct {
    const char *text, *digest;
  } known[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
  };
  uint8_t digest[RT_SHA256_BYTES];
  char text[65];
  rt_sha256 hash;
  for (int i = 0; i < IR_COUNT(known); i++) {
    rt_sha256_start(&hash);
    rt_sha256_add(&hash, known[i].text, strlen(known[i].text));
    rt_sha256_end(&hash, digest);
    hex(digest, text);
    cr_expect_str_eq(text, known[i].digest);
  }
  static char million[1000000];
  memset(million, 'a', sizeof million);
  for (size_t step = 1; step < 200; step += 33) {
    rt_sha256_start(&hash);
    for (size_t at = 0; at < sizeof million; at += step)
      rt_sha256_add(&hash, million + at, at + step > sizeof million ? sizeof million - at : step);
    rt_sha256_end(&hash, digest);
    hex(digest, text);
    cr_expect_str_eq(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

/* "a" + "bc" is not "ab" + "c", and a kind is a part of the key. */
Test(runtime_cache, parts_of_a_key_are_apart) {
  ir_cache_key keys[] = {{"o", {"a", "bc"}, 2}, {"o", {"ab", "c"}, 2}, {"o", {"abc"}, 1},
                         {"o", {"abc", ""}, 2}, {"cubin", {"abc"}, 1}, {"o", {"a", "bd"}, 2}};
  rt_entry_id id[IR_COUNT(keys)];
  for (int i = 0; i < IR_COUNT(keys); i++) rt_entry_identify(&keys[i], &id[i]);
  for (int i = 0; i < IR_COUNT(keys); i++)
    for (int j = 0; j < i; j++) cr_expect_str_neq(id[i].name, id[j].name, "%d %d", i, j);
}

Test(runtime_cache, what_is_kept_is_found) {
  rt_cache *cache = rt_cache_open();
  cr_assert_str_eq(rt_cache_state(cache), "on");
  cr_expect_null(find(cache, "k"));
  keep(cache, "k", "cubin of k", "ptxas info: 168 registers");
  cr_expect_str_eq(find(cache, "k"), "cubin of k");
  cr_expect_null(find(cache, "l"));
  keep(cache, "empty", "", NULL);
  cr_expect_str_eq(find(cache, "empty"), "");
  rt_cache_close(cache);
  cache = rt_cache_open(); /* another process */
  cr_expect_str_eq(find(cache, "k"), "cubin of k");
  cr_expect_eq(rt_cache_measure(cache).entries, 2);
  cr_expect_eq(rt_cache_damaged(cache), 0);
  char source[RT_CACHE_PATH];
  path_of(source, "k", "cu");
  cr_expect_eq(access(source, R_OK), 0, "the source lies beside");
  cr_expect_eq(rt_cache_clear(cache), 2);
  cr_expect_null(find(cache, "k"));
  rt_cache_close(cache);
}

/* ---- damage ---------------------------------------------------------------------------------- */
static void damage(const char *path, off_t at, off_t length) {
  int file = open(path, O_RDWR);
  unsigned char byte;
  cr_assert(file >= 0);
  if (at < 0) {
    cr_assert_eq(ftruncate(file, length), 0);
  } else {
    cr_assert_eq(pread(file, &byte, 1, at), 1);
    byte ^= 0x10;
    cr_assert_eq(pwrite(file, &byte, 1, at), 1);
  }
  close(file);
}

/* Every byte in turn, and every length: a miss, and the next compile replaces it. */
Test(runtime_cache, damaged_and_torn_entries_are_misses) {
  rt_cache *cache = rt_cache_open();
  char path[RT_CACHE_PATH];
  struct stat info;
  keep(cache, "k", "cubin of k", "log");
  path_of(path, "k", "cubin");
  cr_assert_eq(stat(path, &info), 0);
  for (off_t at = 0; at < info.st_size; at++) {
    damage(path, at, 0);
    cr_expect_null(find(cache, "k"), "byte %d", (int)at);
    keep(cache, "k", "cubin of k", "log");
    cr_expect_str_eq(find(cache, "k"), "cubin of k");
  }
  for (off_t length = 0; length < info.st_size + 3; length++) {
    if (length == info.st_size) continue;
    damage(path, -1, length);
    cr_expect_null(find(cache, "k"), "length %d", (int)length);
    keep(cache, "k", "cubin of k", "log");
    cr_expect_str_eq(find(cache, "k"), "cubin of k");
  }
  cr_expect_eq(rt_cache_damaged(cache), 2 * (int)info.st_size + 2);
  rt_cache_close(cache);
}

/* A whole entry under another entry's name; a folder and a pipe in its place. */
Test(runtime_cache, foreign_entries_are_misses) {
  rt_cache *cache = rt_cache_open();
  char one[RT_CACHE_PATH], other[RT_CACHE_PATH];
  keep(cache, "k", "cubin of k", "log");
  path_of(one, "k", "cubin");
  path_of(other, "l", "cubin");
  cr_assert_eq(link(one, other), 0);
  cr_expect_null(find(cache, "l"));
  unlink(other);
  cr_assert_eq(mkdir(other, 0700), 0);
  cr_expect_null(find(cache, "l"));
  rmdir(other);
  cr_assert_eq(mkfifo(other, 0600), 0);
  cr_expect_null(find(cache, "l"));
  keep(cache, "l", "cubin of l", "log");
  cr_expect_str_eq(find(cache, "l"), "cubin of l");
  rt_cache_close(cache);
}

/* ---- where and whether -------------------------------------------------------------------------
 */
Test(runtime_cache, switches) {
  setenv("SPC_CACHE", "off", 1);
  rt_cache *cache = rt_cache_open();
  cr_expect_str_eq(rt_cache_state(cache), "off");
  cr_expect_null(rt_cache_face(cache));
  rt_cache_close(cache);
  setenv("SPC_CACHE", "on", 1);
  cache = rt_cache_open();
  keep(cache, "k", "cubin of k", "log");
  rt_cache_close(cache);
  setenv("SPC_CACHE", "readonly", 1);
  cache = rt_cache_open();
  cr_expect_str_eq(rt_cache_state(cache), "readonly");
  cr_expect_str_eq(find(cache, "k"), "cubin of k");
  keep(cache, "l", "cubin of l", "log");
  cr_expect_null(find(cache, "l"));
  rt_cache_close(cache);
}

Test(runtime_cache, places) {
  char expected[100];
  unsetenv("SPC_CACHE_DIR");
  setenv("XDG_CACHE_HOME", "relative", 1); /* the specification says: to be ignored */
  setenv("HOME", folder, 1);
  rt_cache *cache = rt_cache_open();
  snprintf(expected, sizeof expected, "%s/.cache/spc", folder);
  cr_expect_str_eq(rt_cache_folder(cache), expected);
  keep(cache, "k", "cubin of k", "log"); /* makes the folders */
  cr_expect_str_eq(find(cache, "k"), "cubin of k");
  rt_cache_close(cache);
  setenv("XDG_CACHE_HOME", folder, 1);
  cache = rt_cache_open();
  snprintf(expected, sizeof expected, "%s/spc", folder);
  cr_expect_str_eq(rt_cache_folder(cache), expected);
  rt_cache_close(cache);
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  cache = rt_cache_open();
  cr_expect_str_eq(rt_cache_state(cache), "off");
  cr_expect(strstr(rt_cache_why(cache), "HOME"));
  rt_cache_close(cache);
}

static void expect_distrust(const char *words) {
  rt_cache *cache = rt_cache_open();
  cr_expect_str_eq(rt_cache_state(cache), "off", "%s", words);
  cr_expect(strstr(rt_cache_why(cache), words), "%s: %s", words, rt_cache_why(cache));
  cr_expect_null(rt_cache_face(cache));
  rt_cache_close(cache);
}

static void expect_trust(void) {
  rt_cache *cache = rt_cache_open();
  cr_expect_str_eq(rt_cache_state(cache), "on", "%s", rt_cache_why(cache));
  cr_expect_str_eq(find(cache, "k"), "cubin of k");
  rt_cache_close(cache);
}

Test(runtime_cache, a_folder_that_others_may_write_to_is_not_trusted) {
  rt_cache *cache = rt_cache_open();
  keep(cache, "k", "cubin of k", "log");
  rt_cache_close(cache);
  cr_assert_eq(chmod(folder, 0777), 0);
  expect_distrust("every user may write");
  cr_assert_eq(chmod(folder, 0775), 0);
  expect_distrust("its group may write");
  cr_assert_eq(chmod(folder, 0755), 0);
  expect_trust();
  if (geteuid() == 0) {
    cr_assert_eq(chown(folder, 12345, (gid_t)-1), 0);
    expect_distrust("another user (12345)");
    cr_assert_eq(chown(folder, 0, (gid_t)-1), 0);
  }
  expect_trust();
}

Test(runtime_cache, nor_is_one_below_a_folder_that_is_open) {
  char below[sizeof folder + 10];
  snprintf(below, sizeof below, "%s/below", folder);
  cr_assert_eq(mkdir(below, 0700), 0);
  setenv("SPC_CACHE_DIR", below, 1);
  rt_cache *cache = rt_cache_open();
  keep(cache, "k", "cubin of k", "log");
  rt_cache_close(cache);
  expect_trust();
  cr_assert_eq(chmod(folder, 0777), 0);
  expect_distrust("above its folder");
  cr_assert_eq(chmod(folder, 01777), 0); /* sticky: what lies in it stays its owner's */
  expect_trust();
}

static int64_t wrong_entries(rt_cache *cache, bool removes) {
  rt_cache_verified found;
  cr_assert(rt_cache_verify(cache, removes, &found, NULL, NULL));
  return found.wrong;
}

Test(runtime_cache, a_file_that_others_may_write_to_is_a_miss_and_goes_when_pruned) {
  char path[RT_CACHE_PATH];
  rt_cache *cache = rt_cache_open();
  keep(cache, "k", "cubin of k", "log");
  keep(cache, "l", "cubin of l", "log");
  path_of(path, "k", "cubin");
  cr_expect_eq(wrong_entries(cache, false), 0);
  cr_assert_eq(chmod(path, 0620), 0);
  cr_expect_null(find(cache, "k"));
  cr_expect_eq(wrong_entries(cache, false), 1);
  cr_assert_eq(chmod(path, 0644), 0);
  cr_expect_str_eq(find(cache, "k"), "cubin of k");
  if (geteuid() == 0) {
    cr_assert_eq(chown(path, 12345, (gid_t)-1), 0);
    cr_expect_null(find(cache, "k"), "another user's file");
    cr_expect_eq(wrong_entries(cache, false), 1);
    cr_assert_eq(chown(path, 0, (gid_t)-1), 0);
  }
  FILE *file = fopen(path, "r+b");
  fputc('C', file);
  fclose(file);
  cr_expect_eq(wrong_entries(cache, true), 1, "a changed byte");
  cr_expect_eq(wrong_entries(cache, false), 0, "it is gone");
  cr_expect_str_eq(find(cache, "l"), "cubin of l");
  cr_expect_eq(rt_cache_prune(cache, 1), 1, "down to a byte");
  cr_expect_null(find(cache, "l"));
  rt_cache_close(cache);
}

Test(runtime_cache, a_folder_that_cannot_be_made) {
  char file[100];
  snprintf(file, sizeof file, "%s/file", folder);
  close(open(file, O_CREAT | O_WRONLY, 0600));
  setenv("SPC_CACHE_DIR", strcat(file, "/cache"), 1);
  rt_cache *cache = rt_cache_open();
  keep(cache, "k", "cubin of k", "log");
  cr_expect_str_eq(rt_cache_state(cache), "readonly");
  cr_expect(strstr(rt_cache_why(cache), "cannot be made"), "%s", rt_cache_why(cache));
  cr_expect_null(find(cache, "k"));
  rt_cache_close(cache);
}

/* ---- eviction -------------------------------------------------------------------------------- */
static void make_old(const char *what, int hours) {
  char path[RT_CACHE_PATH];
  struct timespec times[2] = {{time(NULL) - 3600 * hours, 0}, {time(NULL) - 3600 * hours, 0}};
  static const char *const endings[] = {"cubin", "cu"};
  for (int i = 0; i < 2; i++) {
    path_of(path, what, endings[i]);
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
  }
}

/* Ten entries of 2 KiB, a bound of 10 KiB: what was used longest ago goes, with its source. */
Test(runtime_cache, evicts_what_was_used_longest_ago) {
  static char data[2001];
  char name[2] = "0", path[RT_CACHE_PATH], foreign[100];
  memset(data, 'x', sizeof data - 1);
  rt_cache *cache = rt_cache_open();
  for (int i = 0; i < 10; i++, name[0]++) keep(cache, name, data, "log");
  for (int i = 0; i < 10; i++) make_old((char[]){(char)('0' + i), 0}, 20 - i);
  cr_expect_str_eq(find(cache, "1"), data); /* a hit makes it young */
  rt_cache_close(cache);
  snprintf(foreign, sizeof foreign, "%s/notes.txt", folder);
  close(open(foreign, O_CREAT | O_WRONLY, 0600));
  snprintf(foreign, sizeof foreign, "%s/part-1-2-3", folder); /* a writer that died long ago */
  close(open(foreign, O_CREAT | O_WRONLY, 0600));
  struct timespec old[2] = {{time(NULL) - 7200, 0}, {time(NULL) - 7200, 0}};
  utimensat(AT_FDCWD, foreign, old, 0);
  setenv("SPC_CACHE_SIZE", "10K", 1);
  cache = rt_cache_open();
  keep(cache, "new", data, "log");
  rt_cache_close(cache);
  cache = rt_cache_open();
  rt_cache_size size = rt_cache_measure(cache);
  cr_expect(size.bytes <= size.limit && size.entries >= 3, "%lld bytes, %lld entries",
            (long long)size.bytes, (long long)size.entries);
  cr_expect_not_null(find(cache, "new"));
  cr_expect_not_null(find(cache, "1"));
  cr_expect_not_null(find(cache, "9"));
  cr_expect_null(find(cache, "0"));
  cr_expect_null(find(cache, "2"));
  path_of(path, "2", "cu");
  cr_expect_neq(access(path, F_OK), 0, "a source outlives its entry");
  cr_expect_neq(access(foreign, F_OK), 0, "a dead writer's file stays");
  rt_cache_clear(cache);
  snprintf(foreign, sizeof foreign, "%s/notes.txt", folder);
  cr_expect_eq(access(foreign, F_OK), 0, "somebody's file is gone");
  rt_cache_close(cache);
}

/* ---- threads --------------------------------------------------------------------------------- */
static void *keep_and_find(void *user) {
  const ir_cache *face = user;
  for (int i = 0; i < 200; i++) {
    char data[20];
    snprintf(data, sizeof data, "entry %d", i % 7);
    ir_cache_key key = key_of(data);
    ir_cached entry = {data, strlen(data), NULL}, got;
    face->keep(face->user, &key, &entry, NULL, NULL);
    if (!face->find(face->user, &key, &got)) return (void *)1;
    bool same = !strcmp(got.data, data);
    free(got.data);
    free(got.note);
    if (!same) return (void *)1;
  }
  return NULL;
}

Test(runtime_cache, threads_share_it) {
  rt_cache *cache = rt_cache_open();
  pthread_t threads[8];
  for (int i = 0; i < 8; i++)
    pthread_create(&threads[i], NULL, keep_and_find,
                   (void *)(uintptr_t)(const void *)rt_cache_face(cache));
  for (int i = 0; i < 8; i++) {
    void *bad;
    pthread_join(threads[i], &bad);
    cr_expect_null(bad);
  }
  cr_expect_eq(rt_cache_damaged(cache), 0);
  cr_expect_eq(rt_cache_measure(cache).entries, 7);
  rt_cache_close(cache);
}
