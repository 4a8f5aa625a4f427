/* Preloaded into the venue: adds CLOCK_OFFSET_S seconds to the wall clock, and to no other. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    long failed = syscall(SYS_clock_gettime, clock, now);
    const char *offset = getenv("CLOCK_OFFSET_S");
    if (failed == 0 && clock == CLOCK_REALTIME && offset != NULL) {
        now->tv_sec += strtoll(offset, NULL, 10);
    }
    return (int)failed;
}
