// A wall clock that can be shifted, for LD_PRELOAD: it adds the microseconds that the mapped file $CLK holds, as an int64,
// to CLOCK_REALTIME and what is read from it. The monotonic clock stays as it is.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *shift;
static int tried;

static long long shifted(void) {
  if (!shift && !tried) {
    tried = 1;
    char *path = getenv("CLK");
    int file = path ? open(path, O_RDONLY) : -1;
    if (file >= 0) {
      void *mem = mmap(0, 4096, PROT_READ, MAP_SHARED, file, 0);
      if (mem != MAP_FAILED) shift = mem;
      close(file);
    }
  }
  return shift ? *shift : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  int r = syscall(SYS_clock_gettime, clock, t);
  if (!r && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    long long ns = (long long)t->tv_sec * 1000000000LL + t->tv_nsec + shifted() * 1000;
    t->tv_sec = ns / 1000000000LL;
    t->tv_nsec = ns % 1000000000LL;
  }
  return r;
}

int gettimeofday(struct timeval *tv, void *zone) {
  struct timespec t;
  int r = clock_gettime(CLOCK_REALTIME, &t);
  if (tv) {
    tv->tv_sec = t.tv_sec;
    tv->tv_usec = t.tv_nsec / 1000;
  }
  return r;
}

time_t time(time_t *p) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (p) *p = t.tv_sec;
  return t.tv_sec;
}
