// The shared part of the connectors in C++, by contracts/lab-connector.md. A connector implements
// Library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "capture.hpp"

constexpr std::size_t message_most = 16 << 20;
// Longest wait before the stop flag is looked at, in milliseconds.
constexpr int look_ms = 50;

// Value of an environment variable, or "".
std::string setting(const char* name);

// LAB_URL in parts. `authority` is the value of the Host header, `target` has path and query.
struct Url {
    bool is_secure;
    std::string host, port, authority, target;

    static Url read();
};

// Why a connection ended. `code` is the code of the server's close frame, or 0.
struct Ended {
    enum class Why { Stopped, Close, Lost, Protocol } why = Why::Lost;
    int code = 0;
    std::string text;
};

// Takes the messages of one run.
class Take {
public:
    explicit Take(Capture& capture);

    // Stamps a message that is whole, and puts it into the ring.
    void message(std::string_view payload, bool is_binary);
    bool is_stopped() const;

    std::int64_t connection = 0;

private:
    Capture& capture_;
    const bool has_envelope_, keeps_payload_;
    const std::int64_t busy_wait_ns_;
};

class Connection {
public:
    virtual ~Connection() = default;
    // Passes every message to `take` until the connection ends. Looks at `take.is_stopped()` every
    // `look_ms`.
    virtual Ended receive(Take& take) = 0;
};

class Library {
public:
    virtual ~Library() = default;
    virtual std::string name() const = 0;
    virtual std::string version() const = 0;
    // Opens a connection and sends LAB_SUBSCRIBE, if it is set. Throws std::exception if it cannot
    // be opened.
    virtual std::unique_ptr<Connection> open(const Url& url) = 0;
};

// The main function of a connector.
int run(Library& library);
