/* Reader for a worker of `pitwire split`: records from a pipe, or from a ring in shared memory.
 *
 * One header for C11 and C++17 on Linux, without other dependencies. docs/splitter-formats.md has
 * the layout.
 *
 *     struct pitwire_shard shard;
 *     // A descriptor number, or the name of a ring.
 *     int status = pitwire_shard_open(&shard, argv[i]);
 *     while ((status = pitwire_shard_next(&shard, 1000, &record, &length)) >= 0)
 *         if (status == PITWIRE_RECORD) use(record, length); // PITWIRE_IDLE: nothing for 1000 ms
 *     // PITWIRE_ENDED is a normal end. Otherwise pitwire_shard_error(&shard, status) has the
 *     // cause and the remedy.
 *     pitwire_shard_close(&shard);
 *
 * The bytes of a record are valid until the next call of pitwire_shard_next. Use one thread per
 * shard. Invalid content gives PITWIRE_FAULT; nothing outside the ring or the buffer is accessed.
 */
#ifndef PITWIRE_SHARD_H
#define PITWIRE_SHARD_H

/* flock, futex and poll are not in ISO C: include this header first, or define _GNU_SOURCE. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PITWIRE_RECORD = 1, /* a record was read */
    PITWIRE_IDLE = 0,   /* nothing arrived within the caller's patience */
    PITWIRE_ENDED = -1, /* all records were read and no more will come */
    PITWIRE_DIED = -2,  /* as before, but the splitter was killed without ending the shard */
    PITWIRE_FAULT = -3, /* content that no splitter writes */
    PITWIRE_SYSTEM = -4 /* a system call failed: shard->system_error */
};

#define PITWIRE_SHARD_VERSION 1u
#define PITWIRE_SHARD_REFERRING 2u /* the ring may refer to records in an area */
#define PITWIRE_SHARD_REFERENCE 0x80000000u
#define PITWIRE_SHARD_AREA_NAME 256u
#define PITWIRE_SHARD_HEADER 4096u
#define PITWIRE_SHARD_WRAP 0xFFFFFFFFu
#define PITWIRE_SHARD_LONGEST (8u << 20) /* longest record of a pipe, in bytes */
#define PITWIRE_SHARD_BUFFER (256u << 10)
#define PITWIRE_SHARD_SILENCE_MS 200 /* interval at which a silent ring's splitter is checked for life */

struct pitwire_shard {
    int fd;
    int system_error;
    const char *fault;
    /* Ring: its mapping, and how far it has been read and released. */
    unsigned char *memory;
    size_t memory_bytes;
    uint64_t capacity;
    uint64_t position;
    uint64_t given_back;
    uint64_t head;
    uint64_t most_held; /* bytes read before they are released */
    /* The area of a ring of version 2; none in version 1. */
    const unsigned char *area;
    size_t area_bytes;
    /* Pipe: bytes read and not returned yet. */
    unsigned char *buffer;
    size_t buffer_bytes;
    size_t from;
    size_t to;
};

static inline uint32_t pitwire_load32(const unsigned char *at) {
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t pitwire_load64(const unsigned char *at) {
    return (uint64_t)pitwire_load32(at) | (uint64_t)pitwire_load32(at + 4) << 32;
}

/* Words that the splitter writes too. The numbers of a ring are little-endian, as on x86-64. */
static inline uint64_t pitwire_shared64(const struct pitwire_shard *shard, size_t at) {
    return __atomic_load_n((const uint64_t *)(const void *)(shard->memory + at), __ATOMIC_ACQUIRE);
}

static inline uint32_t pitwire_shared32(const struct pitwire_shard *shard, size_t at) {
    return __atomic_load_n((const uint32_t *)(const void *)(shard->memory + at), __ATOMIC_ACQUIRE);
}

static inline int pitwire_fault(struct pitwire_shard *shard, const char *what) {
    shard->fault = what;
    return PITWIRE_FAULT;
}

static inline int pitwire_system(struct pitwire_shard *shard) {
    shard->system_error = errno;
    return PITWIRE_SYSTEM;
}

static inline const char *pitwire_shard_error(const struct pitwire_shard *shard, int status) {
    switch (status) {
    case PITWIRE_ENDED:
        return "ended";
    case PITWIRE_DIED:
        return "the splitter died without saying that it ends; start it again";
    case PITWIRE_FAULT:
        return shard->fault ? shard->fault : "not a shard";
    case PITWIRE_SYSTEM:
        return strerror(shard->system_error);
    default:
        return "nothing is wrong";
    }
}

/* Head and position, read once and checked before use. */
static inline int pitwire_look(struct pitwire_shard *shard) {
    uint64_t head = pitwire_shared64(shard, 128);
    if (head < shard->position || head - shard->position > shard->capacity || ((head | shard->position) & 7u))
        return pitwire_fault(shard, "head and tail do not fit together; start splitter and workers again");
    shard->head = head;
    return 0;
}

/* The area that a ring of version 2 names, in the ring's directory. */
static inline int pitwire_open_area(struct pitwire_shard *shard, const char *ring) {
    const char *named = (const char *)shard->memory + 512, *slash = strrchr(ring, '/');
    size_t directory = slash ? (size_t)(slash - ring) + 1 : 0, length = strnlen(named, PITWIRE_SHARD_AREA_NAME);
    char name[PATH_MAX];
    if (length == 0 || length == PITWIRE_SHARD_AREA_NAME || memchr(named, '/', length) || directory + length >= sizeof name)
        return pitwire_fault(shard, "the ring's header names no area; start splitter and workers again");
    memcpy(name, ring, directory);
    memcpy(name + directory, named, length);
    name[directory + length] = 0;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    struct stat about;
    if (fd < 0)
        return pitwire_system(shard);
    void *area = MAP_FAILED;
    int status = fstat(fd, &about);
    if (status == 0)
        area = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
    int error = errno;
    close(fd);
    errno = error;
    if (area == MAP_FAILED)
        return pitwire_system(shard);
    shard->area = (const unsigned char *)area;
    shard->area_bytes = (size_t)about.st_size;
    if (shard->area_bytes < pitwire_load64(shard->memory + 40))
        return pitwire_fault(shard, "the ring's header gives an area that is not there; start splitter and workers again");
    return 0;
}

static inline int pitwire_open_ring(struct pitwire_shard *shard, const char *name) {
    struct stat about;
    shard->fd = open(name, O_RDWR | O_CLOEXEC);
    if (shard->fd < 0 || fstat(shard->fd, &about) != 0)
        return pitwire_system(shard);
    if (about.st_size < (off_t)PITWIRE_SHARD_HEADER)
        return pitwire_fault(shard, "not a ring: shorter than its header; give the names that pitwire split appended");
    shard->memory_bytes = (size_t)about.st_size;
    void *memory = mmap(NULL, shard->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shard->fd, 0);
    if (memory == MAP_FAILED)
        return pitwire_system(shard);
    shard->memory = (unsigned char *)memory;
    if (memcmp(shard->memory, "PWRING01", 8) != 0)
        return pitwire_fault(shard, "not a ring: it does not begin with PWRING01; give the names that pitwire split appended");
    uint32_t version = pitwire_load32(shard->memory + 8);
    if (version != PITWIRE_SHARD_VERSION && version != PITWIRE_SHARD_REFERRING)
        return pitwire_fault(shard, "a ring of another version; use the header that came with this splitter");
    shard->capacity = pitwire_load64(shard->memory + 16);
    uint64_t capacity = shard->capacity;
    if (pitwire_load32(shard->memory + 12) != PITWIRE_SHARD_HEADER || capacity < 4096 || capacity > (1ull << 32) ||
        (capacity & (capacity - 1)) || capacity > shard->memory_bytes - PITWIRE_SHARD_HEADER)
        return pitwire_fault(shard, "the ring's header gives a capacity that its memory does not have");
    shard->position = pitwire_shared64(shard, 256);
    shard->given_back = shard->position;
    shard->most_held = capacity / (version == PITWIRE_SHARD_REFERRING ? 64 : 8);
    int status = version == PITWIRE_SHARD_REFERRING ? pitwire_open_area(shard, name) : 0;
    return status ? status : pitwire_look(shard);
}

static inline int pitwire_open_pipe(struct pitwire_shard *shard, long number) {
    shard->fd = (int)number;
    if (fcntl(shard->fd, F_GETFD) < 0)
        return pitwire_system(shard);
    shard->buffer_bytes = PITWIRE_SHARD_BUFFER;
    shard->buffer = (unsigned char *)malloc(shard->buffer_bytes);
    return shard->buffer ? 0 : pitwire_system(shard);
}

/* Opens a descriptor (decimal number) or a ring (file name). Returns 0, PITWIRE_FAULT or
 * PITWIRE_SYSTEM. Close it in any case. */
static inline int pitwire_shard_open(struct pitwire_shard *shard, const char *name) {
    memset(shard, 0, sizeof *shard);
    shard->fd = -1;
    if (*name && strspn(name, "0123456789") == strlen(name)) {
        long number = strlen(name) < 10 ? strtol(name, NULL, 10) : -1;
        return pitwire_open_pipe(shard, number);
    }
    return pitwire_open_ring(shard, name);
}

static inline void pitwire_give_back(struct pitwire_shard *shard) {
    if (shard->given_back != shard->position) {
        shard->given_back = shard->position;
        __atomic_store_n((uint64_t *)(void *)(shard->memory + 256), shard->position, __ATOMIC_RELEASE);
    }
}

static inline void pitwire_shard_close(struct pitwire_shard *shard) {
    if (shard->memory) {
        munmap(shard->memory, shard->memory_bytes);
        shard->memory = NULL;
    }
    if (shard->area)
        munmap((void *)(uintptr_t)shard->area, shard->area_bytes);
    shard->area = NULL;
    free(shard->buffer);
    shard->buffer = NULL;
    if (shard->fd >= 0)
        close(shard->fd);
    shard->fd = -1;
}

/* The splitter holds an exclusive lock on its rings while it lives. */
static inline int pitwire_is_abandoned(const struct pitwire_shard *shard) {
    if (flock(shard->fd, LOCK_SH | LOCK_NB) != 0)
        return 0;
    flock(shard->fd, LOCK_UN);
    return 1;
}

/* Sleeps until the bell rings, at most for the given time. */
static inline void pitwire_sleep(struct pitwire_shard *shard, int patience_ms) {
    uint32_t *bell = (uint32_t *)(void *)(shard->memory + 136);
    uint32_t *sleeping = (uint32_t *)(void *)(shard->memory + 264);
    uint32_t rung = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
    __atomic_store_n(sleeping, 1u, __ATOMIC_RELAXED);
    /* Either the splitter sees that we sleep, or we see what it published. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (pitwire_shared64(shard, 128) == shard->position && pitwire_shared32(shard, 140) == 0) {
        struct timespec limit;
        limit.tv_sec = patience_ms / 1000;
        limit.tv_nsec = (long)(patience_ms % 1000) * 1000000L;
        syscall(SYS_futex, bell, 0 /* FUTEX_WAIT, shared */, rung, &limit, NULL, 0);
    }
    __atomic_store_n(sleeping, 0u, __ATOMIC_RELAXED);
}

/* Returns the record at the position, before the head. */
static inline int pitwire_ring_record(struct pitwire_shard *shard, const unsigned char **record, size_t *length) {
    while (shard->position < shard->head) {
        uint64_t left = shard->head - shard->position;
        uint64_t at = shard->position & (shard->capacity - 1);
        uint64_t to_end = shard->capacity - at;
        const unsigned char *place = shard->memory + PITWIRE_SHARD_HEADER + at;
        uint32_t found = *(const volatile uint32_t *)(const void *)place;
        if (found == PITWIRE_SHARD_WRAP) {
            if (to_end > left)
                return pitwire_fault(shard, "a wrap beyond the head; start splitter and workers again");
            shard->position += to_end;
            continue;
        }
        if (shard->area && (found & PITWIRE_SHARD_REFERENCE)) {
            uint32_t offset = *(const volatile uint32_t *)(const void *)(place + 4);
            found &= ~PITWIRE_SHARD_REFERENCE;
            if ((uint64_t)offset + found > shard->area_bytes)
                return pitwire_fault(shard, "a reference that leaves the area; start splitter and workers again");
            shard->position += 8;
            *record = shard->area + offset;
            *length = found;
            return PITWIRE_RECORD;
        }
        uint64_t bytes = ((uint64_t)found + 4 + 7) & ~(uint64_t)7;
        if (found > shard->capacity / 4 - 4 || bytes > to_end || bytes > left)
            return pitwire_fault(shard, "a record that leaves its place; start splitter and workers again");
        shard->position += bytes;
        *record = place + 4;
        *length = found;
        return PITWIRE_RECORD;
    }
    return PITWIRE_IDLE;
}

static inline int pitwire_ring_next(struct pitwire_shard *shard, int patience_ms, const unsigned char **record, size_t *length) {
    /* The previous record is no longer needed, so a part of the ring can be released. */
    if (shard->position - shard->given_back >= shard->most_held)
        pitwire_give_back(shard);
    for (int round = 0;; round++) {
        int status = pitwire_ring_record(shard, record, length);
        if (status != PITWIRE_IDLE)
            return status;
        pitwire_give_back(shard);
        /* Checked before the head: what was published before the end is read with it. */
        int is_ended = pitwire_shared32(shard, 140) != 0;
        if ((status = pitwire_look(shard)) != 0)
            return status;
        if (shard->head != shard->position)
            continue;
        if (is_ended)
            return PITWIRE_ENDED;
        if (round == 0) {
            /* On a busy feed a short pause saves the splitter a wake-up. */
            struct timespec doze = {0, 100000};
            nanosleep(&doze, NULL);
            continue;
        }
        if (round > 1 && patience_ms <= 0)
            return PITWIRE_IDLE;
        int step = patience_ms < PITWIRE_SHARD_SILENCE_MS ? patience_ms : PITWIRE_SHARD_SILENCE_MS;
        if (step > 0)
            pitwire_sleep(shard, step);
        patience_ms -= step;
        if (pitwire_is_abandoned(shard)) {
            if ((status = pitwire_look(shard)) != 0)
                return status;
            if (shard->head == shard->position)
                return pitwire_shared32(shard, 140) != 0 ? PITWIRE_ENDED : PITWIRE_DIED;
        }
    }
}

static inline int pitwire_pipe_grow(struct pitwire_shard *shard, size_t wanted) {
    unsigned char *larger = (unsigned char *)realloc(shard->buffer, wanted);
    if (!larger)
        return pitwire_system(shard);
    shard->buffer = larger;
    shard->buffer_bytes = wanted;
    return 0;
}

static inline int pitwire_pipe_next(struct pitwire_shard *shard, int patience_ms, const unsigned char **record, size_t *length) {
    for (;;) {
        size_t held = shard->to - shard->from;
        size_t wanted = 4;
        if (held >= 4) {
            uint32_t found = pitwire_load32(shard->buffer + shard->from);
            if (found > PITWIRE_SHARD_LONGEST)
                return pitwire_fault(shard, "a record longer than any; start splitter and workers again");
            wanted = (size_t)found + 4;
            if (held >= wanted) {
                *record = shard->buffer + shard->from + 4;
                *length = found;
                shard->from += wanted;
                return PITWIRE_RECORD;
            }
        }
        memmove(shard->buffer, shard->buffer + shard->from, held);
        shard->from = 0;
        shard->to = held;
        if (wanted > shard->buffer_bytes && pitwire_pipe_grow(shard, wanted) != 0)
            return PITWIRE_SYSTEM;
        struct pollfd ready = {shard->fd, POLLIN, 0};
        int count = poll(&ready, 1, patience_ms);
        if (count == 0 || (count < 0 && errno == EINTR))
            return PITWIRE_IDLE;
        ssize_t bytes = count < 0 ? -1 : read(shard->fd, shard->buffer + held, shard->buffer_bytes - held);
        if (bytes < 0 && (errno == EINTR || errno == EAGAIN))
            return PITWIRE_IDLE;
        if (bytes < 0)
            return pitwire_system(shard);
        if (bytes == 0)
            return held ? PITWIRE_DIED : PITWIRE_ENDED; /* killed inside a record */
        shard->to += (size_t)bytes;
    }
}

/* Returns the next record. Waits at most `patience_ms` for it. */
static inline int pitwire_shard_next(struct pitwire_shard *shard, int patience_ms, const unsigned char **record, size_t *length) {
    if (shard->memory)
        return pitwire_ring_next(shard, patience_ms, record, length);
    return pitwire_pipe_next(shard, patience_ms, record, length);
}

#ifdef __cplusplus
}
#endif

#endif
