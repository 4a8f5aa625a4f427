#include "connector.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <random>
#include <utility>

namespace {
constexpr int done = 0, usage = 2, remote_close = 3, connect_failure = 4, protocol_error = 5, capture_error = 6;
constexpr std::size_t envelope_bytes = 108;
constexpr auto give_up = std::chrono::seconds(10);
std::atomic<bool> stop{false};

std::int64_t number(std::string_view digits) {
    std::int64_t value = 0;
    for (char digit : digits) value = value * 10 + (digit - '0');
    return value;
}

// Tries again for ten seconds, at once and then every 50 to 200 ms.
std::unique_ptr<Connection> reopen(Library& library, const Url& url) {
    static std::minstd_rand random{std::random_device{}()};
    std::uniform_int_distribution<int> pause_ms(50, 200);
    const auto until = std::chrono::steady_clock::now() + give_up;
    while (std::chrono::steady_clock::now() < until && !stop) {
        try {
            return library.open(url);
        } catch (const std::exception&) {
            std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms(random)));
        }
    }
    return nullptr;
}

// Receives until the feed or the run is over. Returns the exit code.
int receive(Library& library, Capture& capture) {
    const Url url = Url::read();
    Take take(capture);
    std::unique_ptr<Connection> connection;
    try {
        connection = library.open(url);
    } catch (const std::exception& error) {
        std::cerr << "cannot connect to " << setting("LAB_URL") << ": " << error.what() << std::endl;
        return connect_failure;
    }
    for (;;) {
        ++take.connection;
        capture.put({.kind = Entry::Kind::Open, .connection = take.connection, .at_ns = monotonic_ns()});
        const Ended ended = connection->receive(take);
        Entry gap{.kind = Entry::Kind::Gap, .connection = take.connection, .at_ns = monotonic_ns()};
        if (stop || ended.code == 1000) return done;
        const bool is_violation = ended.why == Ended::Why::Protocol;
        gap.reason = is_violation ? "protocol" : ended.why == Ended::Why::Close ? "close" : "lost";
        gap.close_code = ended.why == Ended::Why::Close ? ended.code : 0;
        std::cerr << "connection " << take.connection << " ended: " << ended.text << std::endl;
        capture.put(std::move(gap));
        if (setting("LAB_RECONNECT") != "1") return is_violation ? protocol_error : remote_close;
        connection = nullptr;
        connection = reopen(library, url);
        if (!connection) return stop ? done : connect_failure;
    }
}

bool shake_hands() {
    for (std::string line; std::getline(std::cin, line);) {
        if (line == "clock") std::cout << "clock " << monotonic_ns() << std::endl;
        if (line == "go") return true;
    }
    return false;
}
}  // namespace

std::string setting(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

Url Url::read() {
    const std::string url = setting("LAB_URL");
    const auto authority_at = url.find("://") + 3;
    const auto target_at = std::min(url.find('/', authority_at), url.size());
    Url found{.is_secure = url.starts_with("wss:"), .host = {}, .port = {}, .authority = {}, .target = "/"};
    found.authority = url.substr(authority_at, target_at - authority_at);
    const auto colon = found.authority.rfind(':');
    found.host = found.authority.substr(0, colon);
    found.port = colon == std::string::npos ? (found.is_secure ? "443" : "80") : found.authority.substr(colon + 1);
    if (target_at < url.size()) found.target = url.substr(target_at);
    return found;
}

Take::Take(Capture& capture)
    : capture_(capture),
      has_envelope_(setting("LAB_ENVELOPE") == "text"),
      keeps_payload_(setting("LAB_PAYLOAD") == "all"),
      busy_wait_ns_(std::atoll(setting("LAB_BUSY_WAIT_NS").c_str())) {}

bool Take::is_stopped() const { return stop; }

void Take::message(std::string_view payload, bool is_binary) {
    if (busy_wait_ns_ > 0)
        for (const auto until = monotonic_ns() + busy_wait_ns_; monotonic_ns() < until;) {}
    Entry entry;
    entry.at_ns = monotonic_ns();
    entry.connection = connection;
    entry.length = static_cast<std::int64_t>(payload.size());
    entry.flags = is_binary ? 1 : 0;
    if (has_envelope_ && !is_binary && payload.size() >= envelope_bytes && payload.starts_with("{\"seq\":\"")) {
        entry.sequence = number(payload.substr(8, 19));
        entry.due_ns = number(payload.substr(39, 19));
        entry.sent_ns = number(payload.substr(71, 19));
        entry.feed_connection = number(payload.substr(100, 6));
    } else {
        entry.flags |= 2;
    }
    if (keeps_payload_) entry.body.emplace(payload);
    capture_.put(std::move(entry));
}

int run(Library& library) {
    for (const char* name : {"URL", "CAPTURE", "SCHEMA", "EXIT_FILE", "RUN", "CONNECTOR", "EXCHANGE", "ENVELOPE", "PAYLOAD", "RECONNECT"}) {
        if (std::getenv((std::string("LAB_") + name).c_str())) continue;
        std::cerr << "the environment has no LAB_" << name << std::endl;
        return usage;
    }
    if (!shake_hands()) return usage;
    for (const int signal : {SIGTERM, SIGINT}) ::signal(signal, [](int) { stop = true; });
    ::signal(SIGPIPE, SIG_IGN);
    int code = capture_error;
    std::uint64_t received = 0;
    try {
        Capture capture(library.name(), library.version(), stop);
        code = capture.finish(receive(library, capture));
        received = capture.received;
    } catch (const std::exception& error) {
        std::cerr << "cannot write " << setting("LAB_CAPTURE") << ": " << error.what() << std::endl;
    }
    std::cout << "done " << code << ' ' << received << std::endl;
    return code;
}
