// A connector of the latency laboratory with Boost.Beast, by contracts/lab-connector.md.
#include <signal.h>

#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string_view>

#include "capture.hpp"

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using Socket = websocket::stream<asio::ip::tcp::socket>;

namespace {
constexpr int done = 0, usage = 2, remote_close = 3, connect_failure = 4, protocol_error = 5, capture_error = 6;
constexpr std::size_t message_most = 16 << 20, envelope_bytes = 108;
constexpr auto give_up = std::chrono::seconds(10);
// Longest wait before the stop flag is looked at, in milliseconds.
constexpr int look_ms = 50;

std::atomic<bool> stop{false};

std::string setting(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::int64_t number(std::string_view digits) {
    std::int64_t value = 0;
    for (char digit : digits) value = value * 10 + (digit - '0');
    return value;
}

class Receiver {
public:
    explicit Receiver(Capture& capture)
        : capture_(capture),
          has_envelope_(setting("LAB_ENVELOPE") == "text"),
          keeps_payload_(setting("LAB_PAYLOAD") == "all"),
          busy_wait_ns_(std::atoll(setting("LAB_BUSY_WAIT_NS").c_str())) {}

    // Receives until the feed or the run is over. Returns the exit code.
    int run() {
        std::unique_ptr<Socket> socket;
        try {
            socket = open();
        } catch (const boost::system::system_error& error) {
            std::cerr << "cannot connect to " << setting("LAB_URL") << ": " << error.what() << std::endl;
            return connect_failure;
        }
        for (;;) {
            ++connection_;
            capture_.put({.kind = Entry::Kind::Open, .connection = connection_, .at_ns = monotonic_ns()});
            const beast::error_code error = receive(*socket);
            Entry gap{.kind = Entry::Kind::Gap, .connection = connection_, .at_ns = monotonic_ns()};
            if (stop) return done;
            const int exit_code = judge(error, *socket, gap);
            if (exit_code == done) return done;
            std::cerr << "connection " << connection_ << " ended: " << error.message() << std::endl;
            capture_.put(std::move(gap));
            if (setting("LAB_RECONNECT") != "1") return exit_code;
            socket = reopen();
            if (!socket) return stop ? done : connect_failure;
        }
    }

private:
    std::unique_ptr<Socket> open() {
        const std::string url = setting("LAB_URL");
        const auto authority_at = url.find("://") + 3;
        const auto target_at = std::min(url.find('/', authority_at), url.size());
        const std::string authority = url.substr(authority_at, target_at - authority_at);
        const auto colon = authority.rfind(':');
        const std::string port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
        asio::ip::tcp::resolver resolver(context_);
        auto socket = std::make_unique<Socket>(context_);
        asio::connect(socket->next_layer(), resolver.resolve(authority.substr(0, colon), port));
        socket->next_layer().set_option(asio::ip::tcp::no_delay(true));
        socket->read_message_max(message_most);
        socket->handshake(authority, target_at < url.size() ? url.substr(target_at) : "/");
        if (const std::string text = setting("LAB_SUBSCRIBE"); !text.empty()) socket->write(asio::buffer(text));
        return socket;
    }

    // Tries again for ten seconds, at once and then every 50 to 200 ms.
    std::unique_ptr<Socket> reopen() {
        std::uniform_int_distribution<int> pause_ms(50, 200);
        const auto until = std::chrono::steady_clock::now() + give_up;
        while (std::chrono::steady_clock::now() < until && !stop) {
            try {
                return open();
            } catch (const boost::system::system_error&) {
                std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms(random_)));
            }
        }
        return nullptr;
    }

    // Receives messages until the connection ends or the run stops.
    beast::error_code receive(Socket& socket) {
        beast::flat_buffer buffer;
        beast::error_code error;
        while (!error && !stop) {
            socket.async_read(buffer, [&](beast::error_code result, std::size_t) {
                error = result;
                if (!error) take(socket, buffer);
            });
            context_.restart();
            while (context_.run_for(std::chrono::milliseconds(look_ms)) == 0 || !context_.stopped()) {
                if (stop) {
                    socket.next_layer().cancel();
                    context_.run();
                }
            }
        }
        return error;
    }

    void take(Socket& socket, beast::flat_buffer& buffer) {
        if (busy_wait_ns_ > 0)
            for (const auto until = monotonic_ns() + busy_wait_ns_; monotonic_ns() < until;) {}
        Entry entry;
        entry.at_ns = monotonic_ns();
        const std::string_view text(static_cast<const char*>(buffer.data().data()), buffer.size());
        entry.connection = connection_;
        entry.length = static_cast<std::int64_t>(text.size());
        entry.flags = socket.got_binary() ? 1 : 0;
        if (has_envelope_ && socket.got_text() && text.size() >= envelope_bytes && text.starts_with("{\"seq\":\"")) {
            entry.sequence = number(text.substr(8, 19));
            entry.due_ns = number(text.substr(39, 19));
            entry.sent_ns = number(text.substr(71, 19));
            entry.feed_connection = number(text.substr(100, 6));
        } else {
            entry.flags |= 2;
        }
        if (keeps_payload_) entry.body.emplace(text);
        capture_.put(std::move(entry));
        buffer.consume(buffer.size());
    }

    // Fills in why a connection ended. Returns the exit code.
    int judge(const beast::error_code& error, Socket& socket, Entry& gap) {
        if (error == websocket::error::closed) {
            gap.reason = "close";
            gap.close_code = socket.reason().code;
            return gap.close_code == websocket::close_code::normal ? done : remote_close;
        }
        // Beast has already sent the close frame that answers a violation.
        const bool is_violation = error == websocket::condition::protocol_violation ||
                                  error == websocket::error::message_too_big ||
                                  error == websocket::error::buffer_overflow;
        gap.reason = is_violation ? "protocol" : "lost";
        return is_violation ? protocol_error : remote_close;
    }

    asio::io_context context_{1};
    Capture& capture_;
    std::minstd_rand random_{std::random_device{}()};
    const bool has_envelope_, keeps_payload_;
    const std::int64_t busy_wait_ns_;
    std::int64_t connection_ = 0;
};

bool shake_hands() {
    for (std::string line; std::getline(std::cin, line);) {
        if (line == "clock") std::cout << "clock " << monotonic_ns() << std::endl;
        if (line == "go") return true;
    }
    return false;
}
}  // namespace

int main() {
    for (const char* name : {"URL", "CAPTURE", "SCHEMA", "EXIT_FILE", "RUN", "CONNECTOR", "EXCHANGE", "ENVELOPE", "PAYLOAD", "RECONNECT"}) {
        if (std::getenv((std::string("LAB_") + name).c_str())) continue;
        std::cerr << "the environment has no LAB_" << name << std::endl;
        return usage;
    }
    if (!shake_hands()) return usage;
    for (const int signal : {SIGTERM, SIGINT}) ::signal(signal, [](int) { stop = true; });
    int code = capture_error;
    std::uint64_t received = 0;
    try {
        Capture capture(stop);
        code = capture.finish(Receiver(capture).run());
        received = capture.received;
    } catch (const std::exception& error) {
        std::cerr << "cannot write " << setting("LAB_CAPTURE") << ": " << error.what() << std::endl;
    }
    std::cout << "done " << code << ' ' << received << std::endl;
    return code;
}
