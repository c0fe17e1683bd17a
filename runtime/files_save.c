/* files_save.c - bytes to a file that is whole or not there.
 *
 * A regular file is written beside its place and renamed into it, so that a full disk or a kill
 * leaves what was there before and nothing half-written.  Devices and pipes are written as they
 * are; so is a file in a folder that takes no new ones. */
#define _XOPEN_SOURCE 700 /* realpath */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files.h"

static int write_all(int file, const char *data, size_t bytes) {
  while (bytes) {
    ssize_t n = write(file, data, bytes < (size_t)1 << 30 ? bytes : (size_t)1 << 30);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n ? errno : EIO;
    data += n;
    bytes -= (size_t)n;
  }
  return 0;
}

static int write_and_close(int file, const void *data, size_t bytes) {
  int fault = file < 0 ? errno : write_all(file, data, bytes);
  if (file >= 0 && close(file) && !fault) fault = errno;
  return fault;
}

static int save_in_place(const char *path, const void *data, size_t bytes) {
  return write_and_close(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666), data, bytes);
}

/* `place` is where the bytes shall stand; old: what stands there, NULL when nothing does. */
static int save_beside(const char *place, const struct stat *old, const void *data, size_t bytes) {
  size_t room = strlen(place) + 32;
  char *name = malloc(room);
  if (!name) return ENOMEM;
  snprintf(name, room, "%s.part%ld", place, (long)getpid());
  int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0666), fault = 0;
  bool closed_folder = file < 0 && old && (errno == EACCES || errno == EPERM || errno == EROFS);
  if (closed_folder) {
    fault = save_in_place(place, data, bytes);
  } else {
    if (file >= 0 && old) (void)fchmod(file, old->st_mode & 07777);
    fault = write_and_close(file, data, bytes);
    if (!fault && rename(name, place)) fault = errno;
    if (fault && file >= 0) (void)unlink(name);
  }
  free(name);
  return fault;
}

int rt_file_save(const char *path, const void *data, size_t bytes) {
  struct stat info;
  bool there = !stat(path, &info);
  if (there && !S_ISREG(info.st_mode)) return save_in_place(path, data, bytes);
  char *target = there ? realpath(path, NULL) : NULL; /* a link stays a link */
  int fault = save_beside(target ? target : path, there ? &info : NULL, data, bytes);
  free(target);
  return fault;
}
