/* A worker in C: counts the records of its shards, and checks the numbers in `i` per symbol.
 *
 *     cc -std=c11 -O2 -pthread -o count clients/c/count.c
 *     pitwire split ws://127.0.0.1:8080/ --workers 4 --transport shm -- ./count
 *
 * One thread per shard. At the end it prints one JSON object per shard: records, bytes, gaps, a
 * checksum that does not depend on order (the sum of FNV-1a of every record), and how many numbers
 * did not follow their predecessor.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "pitwire_shard.h"

#define SYMBOLS 65536u /* slots; a power of two */

struct symbol {
    uint64_t hash;
    uint64_t last;
};

struct count {
    const char *name;
    struct pitwire_shard shard;
    struct symbol *symbols;
    uint64_t records, bytes, gaps, checksum, broken;
    int status;
};

static volatile sig_atomic_t stopped;

static void stop(int signal) {
    (void)signal;
    stopped = 1;
}

static uint64_t fnv1a(const unsigned char *bytes, size_t length) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* The text after `"key":"`, up to the next quote; NULL if there is none. */
static const unsigned char *quoted(const unsigned char *record, size_t length, const char *key, size_t *found) {
    size_t key_length = strlen(key);
    const unsigned char *at = (const unsigned char *)memmem(record, length, key, key_length);
    if (!at)
        return NULL;
    at += key_length;
    const unsigned char *end = (const unsigned char *)memchr(at, '"', length - (size_t)(at - record));
    if (!end)
        return NULL;
    *found = (size_t)(end - at);
    return at;
}

static void check_number(struct count *count, const unsigned char *record, size_t length) {
    size_t symbol_length, number_length;
    const unsigned char *symbol = quoted(record, length, "\"sym\":\"", &symbol_length);
    const unsigned char *number = quoted(record, length, "\"i\":\"", &number_length);
    if (!symbol || !number)
        return;
    uint64_t value = 0;
    for (size_t i = 0; i < number_length; i++) {
        if (number[i] < '0' || number[i] > '9')
            return;
        value = value * 10 + (uint64_t)(number[i] - '0');
    }
    uint64_t hash = fnv1a(symbol, symbol_length) | 1;
    struct symbol *slot = NULL;
    for (uint64_t step = 0; step < SYMBOLS; step++) {
        slot = &count->symbols[(hash + step) & (SYMBOLS - 1)];
        if (slot->hash == hash || slot->hash == 0)
            break;
    }
    if (slot->hash == hash && value != slot->last + 1)
        count->broken++;
    if (slot->hash == hash || slot->hash == 0) {
        slot->hash = hash;
        slot->last = value;
    }
}

static void *run(void *argument) {
    struct count *count = (struct count *)argument;
    const unsigned char *record;
    size_t length;
    count->status = pitwire_shard_open(&count->shard, count->name);
    if (count->status < 0)
        return NULL;
    for (;;) {
        int status = pitwire_shard_next(&count->shard, 200, &record, &length);
        if (status < 0 || (status == PITWIRE_IDLE && stopped)) {
            count->status = status < 0 ? status : PITWIRE_ENDED;
            return NULL;
        }
        if (status == PITWIRE_IDLE)
            continue;
        count->records++;
        count->bytes += length;
        count->checksum += fnv1a(record, length);
        if (length > 11 && memcmp(record, "{\"ev\":\"gap\",", 12) == 0)
            count->gaps++;
        else
            check_number(count, record, length);
    }
}

int main(int argc, char **argv) {
    int shards = argc - 1, failed = 0;
    if (shards < 1) {
        fprintf(stderr, "count: no shards; start it as a worker: pitwire split URL --workers 4 -- ./count\n");
        return 2;
    }
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    struct count *counts = (struct count *)calloc((size_t)shards, sizeof *counts);
    pthread_t *threads = (pthread_t *)calloc((size_t)shards, sizeof *threads);
    if (!counts || !threads)
        return 1;
    for (int i = 0; i < shards; i++) {
        counts[i].name = argv[i + 1];
        counts[i].symbols = (struct symbol *)calloc(SYMBOLS, sizeof *counts[i].symbols);
        if (!counts[i].symbols || pthread_create(&threads[i], NULL, run, &counts[i]) != 0) {
            fprintf(stderr, "count: no memory or no thread for shard %s\n", argv[i + 1]);
            return 1;
        }
    }
    for (int i = 0; i < shards; i++) {
        struct count *count = &counts[i];
        pthread_join(threads[i], NULL);
        printf("{\"shard\":%d,\"records\":%llu,\"bytes\":%llu,\"gaps\":%llu,\"broken\":%llu,\"checksum\":\"%016llx\",\"end\":\"%s\"}\n",
               i, (unsigned long long)count->records, (unsigned long long)count->bytes, (unsigned long long)count->gaps,
               (unsigned long long)count->broken, (unsigned long long)count->checksum,
               count->status == PITWIRE_ENDED ? "ended" : count->status == PITWIRE_DIED ? "died" : "failed");
        if (count->status != PITWIRE_ENDED) {
            fprintf(stderr, "count: %s: %s\n", count->name, pitwire_shard_error(&count->shard, count->status));
            failed = 1;
        }
        pitwire_shard_close(&count->shard);
        free(count->symbols);
    }
    free(threads);
    free(counts);
    return failed;
}
