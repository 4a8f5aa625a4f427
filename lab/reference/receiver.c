// The reference receiver: the least that a program can do to receive a WebSocket message.
//
// It reads a socket, stamps when recv returns, and keeps the numbers in memory. It stores them
// after the last message. Its latency is the floor of the instrument: the share of kernel, loopback
// and feed. It follows contracts/lab-connector.md for timed runs. It does not reconnect, checks no
// UTF-8 and stores no payload, so it does not count as a connector.
#define _GNU_SOURCE // memmem
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, USAGE = 2, REMOTE_CLOSE = 3, CONNECT_FAILURE = 4, PROTOCOL_ERROR = 5, CAPTURE_ERROR = 6 };
enum { ENVELOPE_BYTES = 108, MESSAGE_MOST = 16 << 20, BUFFER_BYTES = MESSAGE_MOST + (1 << 20) };
enum { PLACES = 1 << 20, LOOK_MS = 100 };

typedef struct {
    int64_t feed, sequence, due_ns, sent_ns, received_ns;
    uint32_t length, flags;
} Event;

static volatile sig_atomic_t stopped = 0;
static Event *events;
static size_t held = 0;
static int64_t captured = 0, received = 0, waits = 0, busy_wait_ns = 0;
static bool has_envelope;
static sqlite3 *file;

static int64_t clock_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void stop(int number) {
    (void)number;
    stopped = 1;
}

static void check(int result) {
    if (result == SQLITE_OK || result == SQLITE_DONE || result == SQLITE_ROW) return;
    fprintf(stderr, "cannot write %s: %s\n", getenv("LAB_CAPTURE"), file ? sqlite3_errmsg(file) : "no memory");
    printf("done %d %lld\n", CAPTURE_ERROR, (long long)received);
    exit(CAPTURE_ERROR);
}

static void execute(const char *text) { check(sqlite3_exec(file, text, NULL, NULL, NULL)); }

static void insert(const char *text, int count, const int64_t *values) {
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v2(file, text, -1, &statement, NULL));
    for (int at = 0; at < count; at++) check(sqlite3_bind_int64(statement, at + 1, values[at]));
    check(sqlite3_step(statement));
    sqlite3_finalize(statement);
}

static void fact(const char *name, const char *value) {
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v2(file, "INSERT INTO run VALUES (?, ?)", -1, &statement, NULL));
    check(sqlite3_bind_text(statement, 1, name, -1, SQLITE_STATIC));
    check(sqlite3_bind_text(statement, 2, value, -1, SQLITE_STATIC));
    check(sqlite3_step(statement));
    sqlite3_finalize(statement);
}

static void number_fact(const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    fact(name, text);
}

static void store_clock(void) {
    const int64_t before = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME);
    insert("INSERT INTO clock VALUES (?, ?, ?)", 3, (int64_t[]){before, real, clock_ns(CLOCK_MONOTONIC)});
}

static void open_capture(void) {
    const char *path = getenv("LAB_CAPTURE");
    const int created = open(path, O_CREAT | O_EXCL | O_WRONLY, 0644);
    FILE *schema = fopen(getenv("LAB_SCHEMA"), "r");
    static char text[64 * 1024];
    if (created < 0 || !schema || fread(text, 1, sizeof text - 1, schema) == 0) {
        fprintf(stderr, "cannot write %s: %s\n", path, strerror(errno));
        printf("done %d 0\n", CAPTURE_ERROR);
        exit(CAPTURE_ERROR);
    }
    close(created);
    fclose(schema);
    check(sqlite3_open(path, &file));
    execute(text);
    static const char *const given[] = {"run", "LAB_RUN", "connector", "LAB_CONNECTOR", "exchange", "LAB_EXCHANGE",
                                        "url", "LAB_URL", "subscribe", "LAB_SUBSCRIBE"};
    for (size_t at = 0; at < sizeof given / sizeof *given; at += 2) {
        const char *value = getenv(given[at + 1]);
        fact(given[at], value ? value : "");
    }
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    fact("contract", "1");
    fact("language", "C");
    fact("library", "none");
    fact("library_version", "1");
    fact("runtime_version", "gcc " __VERSION__);
    fact("host", host);
    number_fact("started_ns", clock_ns(CLOCK_MONOTONIC));
    store_clock();
}

// Stores the events in memory. The receive path calls it only if the memory is full.
static void store(void) {
    sqlite3_stmt *statement;
    check(sqlite3_prepare_v2(file, "INSERT INTO event VALUES (?, 1, ?, ?, ?, ?, ?, ?, ?)", -1, &statement, NULL));
    for (size_t at = 0; at < held;) {
        const int64_t begin_ns = clock_ns(CLOCK_MONOTONIC);
        const size_t until = at + 10000 < held ? at + 10000 : held;
        const size_t rows = until - at;
        execute("BEGIN");
        for (; at < until; at++) {
            const Event *event = &events[at];
            const int64_t numbers[] = {event->feed, event->sequence, event->due_ns, event->sent_ns};
            check(sqlite3_bind_int64(statement, 1, ++captured));
            for (int column = 0; column < 4; column++) {
                if (event->flags & 2) check(sqlite3_bind_null(statement, column + 2));
                else check(sqlite3_bind_int64(statement, column + 2, numbers[column]));
            }
            check(sqlite3_bind_int64(statement, 6, event->received_ns));
            check(sqlite3_bind_int64(statement, 7, event->length));
            check(sqlite3_bind_int64(statement, 8, event->flags));
            check(sqlite3_step(statement));
            check(sqlite3_reset(statement));
        }
        execute("COMMIT");
        const int64_t flush[] = {begin_ns, clock_ns(CLOCK_MONOTONIC), (int64_t)rows};
        insert("INSERT INTO flush VALUES (?, ?, ?)", 3, flush);
    }
    sqlite3_finalize(statement);
    held = 0;
}

static int64_t number(const uint8_t *digits, int count) {
    int64_t value = 0;
    for (int at = 0; at < count; at++) value = value * 10 + (digits[at] - '0');
    return value;
}

static void take(const uint8_t *first, uint64_t first_bytes, uint64_t bytes, bool is_binary, int64_t at_ns) {
    if (held == PLACES) {
        waits++;
        store();
    }
    Event *event = &events[held++];
    *event = (Event){.received_ns = at_ns, .length = (uint32_t)bytes, .flags = is_binary ? 3 : 2};
    received++;
    if (is_binary || !has_envelope || first_bytes < ENVELOPE_BYTES || memcmp(first, "{\"seq\":\"", 8) != 0) return;
    event->flags = 0;
    event->sequence = number(first + 8, 19);
    event->due_ns = number(first + 39, 19);
    event->sent_ns = number(first + 71, 19);
    event->feed = number(first + 100, 6);
}

// Opens the connection and sends the handshake. Returns the socket, or -1.
static int connect_to(const char *url) {
    char host[256], target[48 * 1024] = "/";
    int port = 80;
    if (sscanf(url, "ws://%255[^:/]:%d%49151s", host, &port, target) < 2) return -1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) return -1;
    const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    const struct timeval look = {.tv_usec = LOOK_MS * 1000};
    setsockopt(socket_fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    if (connect(socket_fd, (struct sockaddr *)&address, sizeof address) != 0) return -1;
    // The key proves nothing here: the feed is ours.
    dprintf(socket_fd,
            "GET %s HTTP/1.1\r\nHost: %s:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            target, host, port);
    return socket_fd;
}

// Sends a text message. Its mask is zero, so the payload stays as it is.
static bool send_text(int socket_fd, const char *text) {
    const size_t bytes = strlen(text);
    if (bytes > UINT16_MAX) {
        fprintf(stderr, "LAB_SUBSCRIBE has %zu bytes: expected at most %d\n", bytes, UINT16_MAX);
        return false;
    }
    static uint8_t frame[8 + UINT16_MAX];
    size_t header = 2;
    frame[0] = 0x81;
    frame[1] = 0x80 | (bytes < 126 ? (uint8_t)bytes : 126);
    if (bytes >= 126) {
        frame[header++] = (uint8_t)(bytes >> 8);
        frame[header++] = (uint8_t)bytes;
    }
    header += 4;
    memcpy(frame + header, text, bytes);
    return send(socket_fd, frame, header + bytes, MSG_NOSIGNAL) == (ssize_t)(header + bytes);
}

// Receives until the feed or the run is over. Returns the exit code.
static int receive(int socket_fd) {
    uint8_t *buffer = malloc(BUFFER_BYTES);
    const char *exit_file = getenv("LAB_EXIT_FILE"), *subscription = getenv("LAB_SUBSCRIBE");
    size_t from = 0, end = 0;
    uint64_t message_bytes = 0, first_bytes = 0;
    uint8_t envelope[ENVELOPE_BYTES];
    bool is_open = false, is_binary = false;
    while (!stopped && access(exit_file, F_OK) != 0) {
        const ssize_t got = recv(socket_fd, buffer + end, BUFFER_BYTES - end, 0);
        const int64_t at_ns = clock_ns(CLOCK_MONOTONIC);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got <= 0) return is_open ? REMOTE_CLOSE : CONNECT_FAILURE;
        end += (size_t)got;
        if (!is_open) {
            const uint8_t *head_end = memmem(buffer, end, "\r\n\r\n", 4);
            if (!head_end) continue;
            if (end < 12 || memcmp(buffer, "HTTP/1.1 101", 12) != 0) return CONNECT_FAILURE;
            from = (size_t)(head_end - buffer) + 4;
            is_open = true;
            printf("open 1 %lld\n", (long long)at_ns);
            fflush(stdout);
            if (subscription && *subscription && !send_text(socket_fd, subscription)) return CONNECT_FAILURE;
        }
        for (;;) {
            const uint8_t *frame = buffer + from;
            const size_t left = end - from;
            if (left < 2) break;
            const int code = frame[1] & 0x7F, opcode = frame[0] & 0x0F;
            const size_t header = code < 126 ? 2 : code == 126 ? 4 : 10;
            if (left < header) break;
            uint64_t bytes = (uint64_t)code;
            if (code >= 126) {
                bytes = 0;
                for (size_t at = 2; at < header; at++) bytes = bytes << 8 | frame[at];
            }
            if (frame[1] & 0x80 || bytes > MESSAGE_MOST || message_bytes + bytes > MESSAGE_MOST) return PROTOCOL_ERROR;
            if (left < header + bytes) break;
            const uint8_t *payload = frame + header;
            from += header + bytes;
            if (opcode == 8) {
                const int status = bytes >= 2 ? payload[0] << 8 | payload[1] : 1005;
                return status == 1000 ? DONE : REMOTE_CLOSE;
            }
            if (opcode == 9 && bytes < 126) {
                uint8_t pong[132] = {0x8A, (uint8_t)(0x80 | bytes)};
                memcpy(pong + 6, payload, bytes);
                if (send(socket_fd, pong, 6 + bytes, MSG_NOSIGNAL) < 0) return REMOTE_CLOSE;
            }
            if (opcode > 2) continue;
            if (opcode != 0) {
                is_binary = opcode == 2;
                first_bytes = bytes;
                message_bytes = 0;
                memcpy(envelope, payload, bytes < ENVELOPE_BYTES ? bytes : ENVELOPE_BYTES);
            }
            message_bytes += bytes;
            if (!(frame[0] & 0x80)) continue;
            int64_t stamp_ns = at_ns;
            if (busy_wait_ns > 0) {
                const int64_t begun_ns = clock_ns(CLOCK_MONOTONIC);
                while ((stamp_ns = clock_ns(CLOCK_MONOTONIC)) < begun_ns + busy_wait_ns) {}
            }
            take(envelope, first_bytes, message_bytes, is_binary, stamp_ns);
            message_bytes = 0;
        }
        if (from == end) from = end = 0;
        else if (end > BUFFER_BYTES - (64 << 10)) {
            memmove(buffer, buffer + from, end - from);
            end -= from;
            from = 0;
        }
    }
    return DONE;
}

static void shake_hands(void) {
    for (char line[64]; fgets(line, sizeof line, stdin);) {
        if (strcmp(line, "go\n") == 0) return;
        if (strcmp(line, "clock\n") == 0) {
            printf("clock %lld\n", (long long)clock_ns(CLOCK_MONOTONIC));
            fflush(stdout);
        }
    }
    exit(USAGE);
}

int main(void) {
    static const char *const needed[] = {"LAB_URL",       "LAB_CAPTURE",  "LAB_SCHEMA",   "LAB_EXIT_FILE", "LAB_RUN",
                                         "LAB_CONNECTOR", "LAB_EXCHANGE", "LAB_ENVELOPE", "LAB_PAYLOAD",   "LAB_RECONNECT"};
    for (size_t at = 0; at < sizeof needed / sizeof *needed; at++) {
        if (getenv(needed[at])) continue;
        fprintf(stderr, "the environment has no %s\n", needed[at]);
        return USAGE;
    }
    has_envelope = strcmp(getenv("LAB_ENVELOPE"), "text") == 0;
    if (getenv("LAB_BUSY_WAIT_NS")) busy_wait_ns = atoll(getenv("LAB_BUSY_WAIT_NS"));
    shake_hands();
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    open_capture();
    // The pages are mapped before the first message, so that no message waits for one.
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    events = mmap(NULL, PLACES * sizeof *events, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (events == MAP_FAILED) {
        perror("cannot map the memory for the events");
        return CAPTURE_ERROR;
    }
    const int socket_fd = connect_to(getenv("LAB_URL"));
    const int code = socket_fd < 0 ? CONNECT_FAILURE : receive(socket_fd);
    if (code == CONNECT_FAILURE) fprintf(stderr, "cannot connect to %s\n", getenv("LAB_URL"));
    const int64_t ended_ns = clock_ns(CLOCK_MONOTONIC);
    if (socket_fd >= 0) close(socket_fd);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    store();
    store_clock();
    number_fact("ended_ns", ended_ns);
    number_fact("exit_code", code);
    number_fact("messages", received);
    number_fact("ring_waits", waits);
    number_fact("cpu_us", ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec +
                              usage.ru_stime.tv_usec);
    number_fact("peak_memory_kb", usage.ru_maxrss);
    execute("PRAGMA wal_checkpoint(TRUNCATE)");
    check(sqlite3_close(file));
    printf("done %d %lld\n", code, (long long)received);
    return code;
}
