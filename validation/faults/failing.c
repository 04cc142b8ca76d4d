/* A file system that fails at its n-th change of a folder, and a clock that jumps; for LD_PRELOAD.
 *
 * fault_arm(n, kind, folder): the n-th call that changes something under the folder (write, fsync,
 * rename, truncate, open to write) fails as kind says; n = 0 counts alone. fault_calls() counts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { NOTHING, KILL, TORN, FULL, BROKEN, READONLY, INTERRUPT, CLOCK };

static long at, calls, jumps;
static int kind;
static char home[PATH_MAX];

void fault_arm(long n, int how, const char *folder) {
  at = n, kind = how, calls = 0;
  strncpy(home, folder, sizeof home - 1);
}

long fault_calls(void) { return calls; }

static int inside(const char *path) { return *home && !strncmp(path, home, strlen(home)); }

static int is_ours(int fd) {
  char link[64], path[PATH_MAX];
  if (!*home) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return inside(path);
}

/* 0: go on; -1: fail with errno. A full or read-only disk stays so. */
static int fails(void) {
  calls++;
  if (!at || calls < at) return 0;
  if (kind == READONLY) return errno = EROFS, -1;
  if (kind == FULL) return errno = ENOSPC, -1;
  if (calls > at) return 0;
  if (kind == KILL || kind == TORN) kill(getpid(), SIGKILL);
  if (kind == INTERRUPT) raise(SIGINT);
  if (kind == BROKEN) return errno = EIO, -1;
  return 0;
}

#define NEXT(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t n) {
  ssize_t (*next)(int, const void *, size_t) = NEXT(ssize_t, write, int, const void *, size_t);
  if (is_ours(fd)) {
    int half = at && calls + 1 == at && (kind == TORN || kind == FULL) && n > 1;
    if (half) next(fd, data, n / 2);
    if (fails()) return -1;
  }
  return next(fd, data, n);
}

int fsync(int fd) {
  if (is_ours(fd) && fails()) return -1;
  return NEXT(int, fsync, int)(fd);
}

int ftruncate64(int fd, off64_t n) {
  if (is_ours(fd) && kind != FULL && fails()) return -1;
  return NEXT(int, ftruncate64, int, off64_t)(fd, n);
}

int rename(const char *from, const char *to) {
  if (inside(to) && fails()) return -1;
  return NEXT(int, rename, const char *, const char *)(from, to);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  int mode = va_arg(rest, int);
  va_end(rest);
  if (inside(path) && (flags & (O_CREAT | O_WRONLY | O_RDWR)) && fails()) return -1;
  return NEXT(int, open64, const char *, int, ...)(path, flags, mode);
}

int clock_gettime(clockid_t which, struct timespec *now) {
  int got = NEXT(int, clock_gettime, clockid_t, struct timespec *)(which, now);
  if (kind == CLOCK && which == CLOCK_REALTIME) now->tv_sec += (jumps++ % 2 ? 1 : -1) * 100000000L;
  return got;
}
