/* cache_trust.c - whose folder and files these are: code from the cache is executed, so nothing is
 * taken from where anybody else could have put it.
 *
 * The folder is this user's or root's, and no group and no other user may write to it; nor may
 * every user exchange a folder above it.  A file is judged when it is open, so that a folder that
 * changes hands later changes nothing. */
#define _XOPEN_SOURCE 700 /* realpath, S_ISVTX */
#include <stdlib.h>
#include <unistd.h>

#include "runtime/cache_file.h"

static bool is_own(const struct stat *info) {
  return info->st_uid == geteuid() || info->st_uid == 0;
}

bool rt_file_is_trusted(const struct stat *info) {
  return is_own(info) && !(info->st_mode & (S_IWGRP | S_IWOTH));
}

/* Whether every user may rename what lies in a folder above; with the sticky bit (/tmp) not. */
static bool stands_open(const char *folder, char path[RT_CACHE_PATH]) {
  char *at = realpath(folder, NULL);
  bool open = false;
  for (char *slash = at ? strrchr(at, '/') : NULL; slash && !open; slash = strrchr(at, '/')) {
    struct stat info;
    *slash = 0;
    const char *above = *at ? at : "/";
    open = !stat(above, &info) && (info.st_mode & S_IWOTH) && !(info.st_mode & S_ISVTX);
    if (open) snprintf(path, RT_CACHE_PATH, "%s", above);
  }
  free(at);
  return open;
}

bool rt_folder_is_trusted(const char *folder, char *why, size_t bytes) {
  struct stat info;
  char path[RT_CACHE_PATH];
  if (stat(folder, &info)) return true; /* not there yet: it will be ours */
  if (!S_ISDIR(info.st_mode))
    snprintf(why, bytes, "its place is taken by something that is no folder");
  else if (!is_own(&info))
    snprintf(why, bytes,
             "its folder belongs to another user (%ld), so its code is not trusted; set "
             "SPC_CACHE_DIR to one of your own",
             (long)info.st_uid);
  else if (info.st_mode & S_IWOTH)
    snprintf(why, bytes,
             "every user may write to its folder, so its code is not trusted; chmod go-w it");
  else if (info.st_mode & S_IWGRP)
    snprintf(why, bytes,
             "its group may write to its folder, so its code is not trusted; chmod go-w it");
  else if (stands_open(folder, path))
    snprintf(why, bytes,
             "every user may write to `%.150s` above its folder, so its code is not trusted", path);
  else
    return true;
  return false;
}
