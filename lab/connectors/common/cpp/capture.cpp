#include "capture.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace {
constexpr std::size_t rows_max = 10'000;
constexpr auto look = std::chrono::milliseconds(20);

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

Value or_null(std::int64_t number) { return number < 0 ? Value(nullptr) : Value(number); }
}  // namespace

Capture::Capture(const std::string& library, const std::string& version, std::atomic<bool>& stop) : stop_(stop) {
    const std::string path = environment("LAB_CAPTURE");
    const int created = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
    if (created < 0) throw std::runtime_error(std::strerror(errno));
    ::close(created);
    check(sqlite3_open(path.c_str(), &file_));
    std::ifstream schema(environment("LAB_SCHEMA"));
    execute(std::string(std::istreambuf_iterator<char>(schema), {}));
    event_ = prepare("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
    payload_ = prepare("INSERT INTO payload VALUES (?, ?)");
    run_ = prepare("INSERT INTO run VALUES (?, ?)");
    clock_ = prepare("INSERT INTO clock VALUES (?, ?, ?)");
    gap_ = prepare("INSERT INTO gap VALUES (?, ?, ?, ?, NULL)");
    gap_end_ = prepare("UPDATE gap SET to_ns = ? WHERE connection_id = ?");
    flush_ = prepare("INSERT INTO flush VALUES (?, ?, ?)");
    for (std::string name : {"run", "connector", "exchange", "url", "subscribe"}) {
        std::string variable = "LAB_";
        for (char letter : name) variable += static_cast<char>(std::toupper(letter));
        fact(name, environment(variable.c_str()));
    }
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    fact("contract", "1");
    fact("language", "C++");
    fact("library", library);
    fact("library_version", version);
    fact("runtime_version", "g++ " __VERSION__);
    fact("host", host);
    fact("started_ns", monotonic_ns());
    clock();
    writer_ = std::thread([this] { run(); });
}

Capture::~Capture() {
    over_ = true;
    if (writer_.joinable()) writer_.join();
}

void Capture::put(Entry&& entry) {
    if (entry.kind == Entry::Kind::Message) received.fetch_add(1, std::memory_order_relaxed);
    if (ring_.push(std::move(entry))) return;
    ++ring_waits_;
    while (!failed_ && !ring_.push(std::move(entry))) std::this_thread::yield();
}

int Capture::finish(int code) {
    const std::int64_t ended_ns = monotonic_ns();
    over_ = true;
    writer_.join();
    if (failed_) return 6;
    try {
        rusage usage{};
        ::getrusage(RUSAGE_SELF, &usage);
        const auto us = [](const timeval& time) { return std::int64_t{time.tv_sec} * 1'000'000 + time.tv_usec; };
        std::ifstream status("/proc/self/status");
        std::string word, peak = "0";
        while (status >> word)
            if (word == "VmHWM:") status >> peak;
        fact("ended_ns", ended_ns);
        fact("exit_code", std::int64_t{code});
        fact("messages", static_cast<std::int64_t>(received.load()));
        fact("ring_waits", static_cast<std::int64_t>(ring_waits_));
        fact("cpu_us", us(usage.ru_utime) + us(usage.ru_stime));
        fact("peak_memory_kb", peak);
        for (auto* statement : {event_, payload_, run_, clock_, gap_, gap_end_, flush_}) sqlite3_finalize(statement);
        execute("PRAGMA wal_checkpoint(TRUNCATE)");
        check(sqlite3_close(file_));
        return code;
    } catch (const std::exception& error) {
        std::cerr << "cannot write the capture file: " << error.what() << std::endl;
        return 6;
    }
}

void Capture::run() try {
    auto next_second_ns = monotonic_ns() + 1'000'000'000;
    const std::string exit_file = environment("LAB_EXIT_FILE");
    while (!over_) {
        drain();
        if (std::filesystem::exists(exit_file)) stop_ = true;
        if (monotonic_ns() >= next_second_ns) {
            next_second_ns += 1'000'000'000;
            std::cout << "alive " << received << ' ' << captured_ << std::endl;
            clock();
        }
        std::this_thread::sleep_for(look);
    }
    drain();
} catch (const std::exception& error) {
    std::cerr << "cannot write the capture file: " << error.what() << std::endl;
    failed_ = stop_ = true;
}

// Stores everything in the ring, in transactions of at most `rows_max` messages.
void Capture::drain() {
    std::vector<Entry> batch;
    Entry entry;
    while (ring_.pop(entry)) {
        if (entry.kind != Entry::Kind::Message) {
            note(entry);
            continue;
        }
        batch.push_back(std::move(entry));
        if (batch.size() == rows_max) store(batch);
    }
    store(batch);
}

void Capture::store(std::vector<Entry>& batch) {
    if (batch.empty()) return;
    const auto begin_ns = monotonic_ns();
    execute("BEGIN");
    for (Entry& entry : batch) {
        insert(event_, {++captured_, entry.connection, or_null(entry.feed_connection), or_null(entry.sequence),
                        or_null(entry.due_ns), or_null(entry.sent_ns), entry.at_ns, entry.length, entry.flags});
        if (!entry.body) continue;
        check(sqlite3_bind_int64(payload_, 1, captured_));
        check(sqlite3_bind_blob64(payload_, 2, entry.body->data(), entry.body->size(), SQLITE_STATIC));
        insert(payload_, {});
    }
    execute("COMMIT");
    insert(flush_, {begin_ns, monotonic_ns(), static_cast<std::int64_t>(batch.size())});
    batch.clear();
}

void Capture::note(const Entry& entry) {
    if (entry.kind == Entry::Kind::Open) {
        std::cout << "open " << entry.connection << ' ' << entry.at_ns << std::endl;
        insert(gap_end_, {entry.at_ns, entry.connection - 1});
    } else {
        std::cout << "gap " << entry.connection << ' ' << entry.reason << std::endl;
        const auto code = or_null(entry.close_code ? entry.close_code : -1);
        insert(gap_, {entry.connection, std::string(entry.reason), code, entry.at_ns});
    }
}

void Capture::clock() {
    timespec real{};
    const auto before_ns = monotonic_ns();
    ::clock_gettime(CLOCK_REALTIME, &real);
    insert(clock_, {before_ns, std::int64_t{real.tv_sec} * 1'000'000'000 + real.tv_nsec, monotonic_ns()});
}

void Capture::fact(const std::string& name, const Value& value) {
    const auto* number = std::get_if<std::int64_t>(&value);
    insert(run_, {name, number ? Value(std::to_string(*number)) : value});
}

void Capture::insert(sqlite3_stmt* statement, std::initializer_list<Value> values) {
    int at = 0;
    for (const Value& value : values) {
        ++at;
        if (const auto* number = std::get_if<std::int64_t>(&value)) check(sqlite3_bind_int64(statement, at, *number));
        else if (const auto* text = std::get_if<std::string>(&value))
            check(sqlite3_bind_text(statement, at, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT));
        else check(sqlite3_bind_null(statement, at));
    }
    if (sqlite3_step(statement) != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(file_));
    check(sqlite3_reset(statement));
}

sqlite3_stmt* Capture::prepare(const char* text) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(file_, text, -1, &statement, nullptr));
    return statement;
}

void Capture::execute(const std::string& text) { check(sqlite3_exec(file_, text.c_str(), nullptr, nullptr, nullptr)); }

void Capture::check(int result) {
    if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(file_));
}
