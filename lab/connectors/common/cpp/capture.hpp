// The capture file: a thread that stores what the receive path puts into its ring.
#pragma once

#include <sqlite3.h>

#include <atomic>
#include <boost/lockfree/spsc_queue.hpp>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <variant>
#include <vector>

inline std::int64_t monotonic_ns() {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// An entry of the ring: a message, or the begin or end of a connection.
struct Entry {
    enum class Kind { Message, Open, Gap } kind = Kind::Message;
    std::int64_t connection = 0, at_ns = 0, length = 0, flags = 0;
    // Numbers of the envelope, or -1.
    std::int64_t sequence = -1, due_ns = -1, sent_ns = -1, feed_connection = -1;
    // Why a connection ended, and the server's close code or 0.
    const char* reason = "";
    int close_code = 0;
    std::optional<std::string> body;
};

using Value = std::variant<std::nullptr_t, std::int64_t, std::string>;

class Capture {
public:
    // Creates the file and starts the writer. Throws if the file exists or cannot be written.
    Capture(const std::string& library, const std::string& version, std::atomic<bool>& stop);
    ~Capture();

    // Called by the receive path only. Waits if the ring is full.
    void put(Entry&& entry);
    // Stores the rest and closes the file. Returns the exit code.
    int finish(int code);

    std::atomic<std::uint64_t> received{0};

private:
    void run();
    void drain();
    void store(std::vector<Entry>& batch);
    void note(const Entry& entry);
    void clock();
    void fact(const std::string& name, const Value& value);
    void insert(sqlite3_stmt* statement, std::initializer_list<Value> values);
    sqlite3_stmt* prepare(const char* text);
    void execute(const std::string& text);
    void check(int result);

    std::atomic<bool>& stop_;
    std::atomic<bool> over_{false}, failed_{false};
    boost::lockfree::spsc_queue<Entry> ring_{1 << 16};
    std::uint64_t ring_waits_ = 0;
    std::int64_t captured_ = 0;
    sqlite3* file_ = nullptr;
    sqlite3_stmt *event_, *payload_, *run_, *clock_, *gap_, *gap_end_, *flush_;
    std::thread writer_;
};
