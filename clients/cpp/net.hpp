// Sockets and errors.
#pragma once

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

/// An error that ends a program: what is wrong, and what to do.
struct VenueError : std::runtime_error {
    VenueError(const std::string &what, const std::string &remedy) : runtime_error(what + "; " + remedy) {}

    /// The server sent bytes that the protocol does not allow.
    static VenueError malformed(const std::string &from, const std::string &what) {
        return {"received " + what + " from " + from,
                "check the address, and that client and venue have the same schema"};
    }
};

/// A connection failed or ended.
struct ConnectionError : std::runtime_error {
    using runtime_error::runtime_error;
};

/// HOST:PORT, resolved.
struct Address {
    std::string text;
    sockaddr_in socket{};

    explicit Address(std::string given) : text(std::move(given)) {
        const auto colon = text.rfind(':');
        addrinfo hints{};
        hints.ai_family = AF_INET;
        addrinfo *found = nullptr;
        if (colon == std::string::npos || colon == 0 ||
            getaddrinfo(text.substr(0, colon).c_str(), text.substr(colon + 1).c_str(), &hints, &found) != 0) {
            throw std::invalid_argument("address " + text + ": expected HOST:PORT");
        }
        std::memcpy(&socket, found->ai_addr, sizeof socket);
        freeaddrinfo(found);
    }
};

/// A socket that is closed at the end of its life.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {
        if (number < 0) {
            throw ConnectionError(std::strerror(errno));
        }
    }
    Descriptor(Descriptor &&other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor &operator=(Descriptor &&other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) {
            close(number_);
        }
    }
    int get() const { return number_; }

private:
    int number_ = -1;
};

/// Waits until the socket is readable. Returns false after the timeout.
inline bool isReadable(int descriptor, std::chrono::nanoseconds timeout) {
    constexpr auto SECOND = std::chrono::nanoseconds(std::chrono::seconds(1)).count();
    const auto ns = std::max<std::int64_t>(timeout.count(), 0);
    const timespec limit{ns / SECOND, ns % SECOND};
    pollfd waiting{descriptor, POLLIN, 0};
    return ::ppoll(&waiting, 1, &limit, nullptr) > 0;
}

/// A TCP connection with blocking reads and a timeout.
class TcpSocket {
public:
    TcpSocket(const Address &address, std::chrono::seconds timeout)
        : socket_(::socket(AF_INET, SOCK_STREAM, 0)), timeout_(timeout) {
        const int on = 1;
        setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (connect(socket_.get(), reinterpret_cast<const sockaddr *>(&address.socket), sizeof address.socket) != 0) {
            throw ConnectionError(std::strerror(errno));
        }
    }
    TcpSocket(Descriptor accepted, std::chrono::seconds timeout)
        : socket_(std::move(accepted)), timeout_(timeout) {
        const int on = 1;
        setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }

    int descriptor() const { return socket_.get(); }

    void send(const char *bytes, std::size_t count) {
        while (count > 0) {
            const auto sent = ::send(socket_.get(), bytes, count, MSG_NOSIGNAL);
            if (sent < 0) {
                throw ConnectionError(std::strerror(errno));
            }
            bytes += sent;
            count -= static_cast<std::size_t>(sent);
        }
    }

    /// Reads between one and `most` bytes.
    std::size_t receive(char *bytes, std::size_t most) {
        if (!isReadable(socket_.get(), timeout_)) {
            throw ConnectionError("no message within " + std::to_string(timeout_.count()) + " s");
        }
        const auto read = ::recv(socket_.get(), bytes, most, 0);
        if (read <= 0) {
            throw ConnectionError(read == 0 ? "the server closed the connection" : std::strerror(errno));
        }
        return static_cast<std::size_t>(read);
    }

    void receiveExactly(char *bytes, std::size_t count) {
        while (count > 0) {
            const auto read = receive(bytes, count);
            bytes += read;
            count -= read;
        }
    }

private:
    Descriptor socket_;
    std::chrono::seconds timeout_;
};
