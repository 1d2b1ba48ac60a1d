// Preloaded into a server: the first thread that opens a file of a shard's store
// waits SLOW_LOAD seconds first, as a load of that length would.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_flag waited = ATOMIC_FLAG_INIT;

static void MaybeWait(const char* path) {
  const char* seconds = getenv("SLOW_LOAD");
  if (seconds != NULL && strstr(path, "/shard-") != NULL &&
      !atomic_flag_test_and_set(&waited)) {
    for (unsigned left = (unsigned)atoi(seconds); left > 0;) {
      left = sleep(left);
    }
  }
}

static int Open(const char* name, const char* path, int flags, mode_t mode) {
  int (*real)(const char*, int, ...) =
      (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name);
  MaybeWait(path);
  return real(path, flags, mode);
}

#define WRAP(name)                                 \
  int name(const char* path, int flags, ...) {     \
    mode_t mode = 0;                               \
    if ((flags & (O_CREAT | O_TMPFILE)) != 0) {    \
      va_list rest;                                \
      va_start(rest, flags);                       \
      mode = va_arg(rest, mode_t);                 \
      va_end(rest);                                \
    }                                              \
    return Open(#name, path, flags, mode);         \
  }
WRAP(open)
WRAP(open64)
