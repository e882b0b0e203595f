/* Loaded before the C library (LD_PRELOAD): the time of day of this process is so much later as the file says whose
   name is in SIMULATED_TIME. The file holds nanoseconds as one 64-bit number, which may grow while the process runs.
   Clocks that measure durations (CLOCK_MONOTONIC) are as they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *later;
static int (*read_clock)(clockid_t, struct timespec *);

static int64_t now(void) {
    struct timespec at;
    if (!read_clock)
        read_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    read_clock(CLOCK_REALTIME, &at);
    return at.tv_sec * SECOND + at.tv_nsec + (later ? *later : 0);
}

__attribute__((constructor)) static void open_file(void) {
    const char *name = getenv("SIMULATED_TIME");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *later, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        later = mapped;
    if (file >= 0)
        close(file);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) {
        if (!read_clock)
            read_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        return read_clock(clock, at);
    }
    int64_t found = now();
    at->tv_sec = found / SECOND;
    at->tv_nsec = found % SECOND;
    return 0;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    (void)zone;
    int64_t found = now();
    at->tv_sec = found / SECOND;
    at->tv_usec = found % SECOND / 1000;
    return 0;
}

time_t time(time_t *at) {
    time_t found = now() / SECOND;
    if (at)
        *at = found;
    return found;
}
