// A reader of lines A and B of the order-by-order feed: docs/order-feed.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net.hpp"
#include "order_book.hpp"

/// Units and messages of MITCH. A unit is one datagram; its header has 8 bytes.
namespace mitch {
constexpr std::size_t UNIT_HEADER = 8, MESSAGE_HEADER = 3, MAX_UNIT = 65'535;
constexpr char GROUP = 'P';
constexpr unsigned char LOGIN_REQUEST = 0x01, LOGIN_RESPONSE = 0x02, REPLAY_REQUEST = 0x03,
                        REPLAY_RESPONSE = 0x04, SNAPSHOT_REQUEST = 0x81, SNAPSHOT_RESPONSE = 0x82,
                        SNAPSHOT_COMPLETE = 0x83;

inline std::size_t length(std::string_view unit) { return read<std::uint16_t>(unit.data()); }
inline unsigned count(std::string_view unit) { return static_cast<unsigned char>(unit[2]); }
/// Number of the first message, or of the next one in a heartbeat.
inline std::uint64_t firstNumber(std::string_view unit) { return read<std::uint32_t>(unit.data() + 4); }

/// Returns whether the bytes are one whole unit of whole messages.
inline bool isUnit(std::string_view unit) {
    if (unit.size() < UNIT_HEADER || length(unit) != unit.size()) {
        return false;
    }
    auto rest = unit.substr(UNIT_HEADER);
    for (auto left = count(unit); left > 0; left--) {
        const std::size_t size = rest.size() < MESSAGE_HEADER ? 0 : read<std::uint16_t>(rest.data());
        if (size < MESSAGE_HEADER || size > rest.size()) {
            return false;
        }
        rest.remove_prefix(size);
    }
    return rest.empty();
}

/// Passes on type and body of the messages of a whole unit from number `from`.
template <typename Consumer> void forEach(std::string_view unit, std::uint64_t from, Consumer consumer) {
    auto number = firstNumber(unit);
    auto rest = unit.substr(UNIT_HEADER);
    for (auto left = count(unit); left > 0; left--, number++) {
        const std::size_t size = read<std::uint16_t>(rest.data());
        if (number >= from) {
            consumer(rest[2], rest.substr(MESSAGE_HEADER, size - MESSAGE_HEADER));
        }
        rest.remove_prefix(size);
    }
}

inline std::string request(unsigned char type, const std::string &body) {
    std::string unit(UNIT_HEADER + MESSAGE_HEADER, '\0');
    const std::uint16_t message = static_cast<std::uint16_t>(MESSAGE_HEADER + body.size());
    const std::uint16_t whole = static_cast<std::uint16_t>(UNIT_HEADER + message);
    std::memcpy(&unit[0], &whole, sizeof whole);
    unit[2] = 1;
    unit[3] = GROUP;
    std::memcpy(&unit[UNIT_HEADER], &message, sizeof message);
    unit[UNIT_HEADER + 2] = static_cast<char>(type);
    return unit + body;
}
} // namespace mitch

/// The connection to the recovery port: replays of missed messages, and snapshots of the books.
class Recovery {
public:
    /// Connects and logs in.
    explicit Recovery(const Address &address) : address_(address.text), socket_(address, TIMEOUT) {
        const auto login = mitch::request(mitch::LOGIN_REQUEST, std::string(16, ' '));
        const auto body = exchange(login, mitch::LOGIN_RESPONSE, 1);
        if (body[0] != ACCEPTED) {
            throw malformed("a refused login");
        }
    }

    struct Snapshot {
        Books books;
        std::uint64_t newest;
    };

    /// Returns the books after message `newest`, or nothing if the venue has too many requests.
    std::optional<Snapshot> snapshot() {
        const auto body =
            exchange(mitch::request(mitch::SNAPSHOT_REQUEST, std::string(30, '\0')), mitch::SNAPSHOT_RESPONSE, 9);
        if (body[8] != ACCEPTED) {
            return std::nullopt;
        }
        Snapshot snapshot{{}, read<std::uint32_t>(body.data())};
        const std::size_t orders = read<std::uint32_t>(body.data() + 4);
        // The unit of the answer has the first messages, too.
        while (!applySnapshotUnit(snapshot.books)) {
            receive();
        }
        if (snapshot.books.orderCount() != orders) {
            throw malformed("a snapshot with another number of orders than it announced");
        }
        return snapshot;
    }

    enum class Replay { Complete, TryAgain, Unavailable };

    /// Requests messages, and passes on the units that have them.
    template <typename Consumer> Replay replay(std::uint64_t first, std::uint64_t count, Consumer consumer) {
        const auto first32 = static_cast<std::uint32_t>(first);
        const auto count16 = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 65'535));
        std::string range(7, mitch::GROUP);
        std::memcpy(&range[1], &first32, sizeof first32);
        std::memcpy(&range[5], &count16, sizeof count16);
        const auto body = exchange(mitch::request(mitch::REPLAY_REQUEST, range), mitch::REPLAY_RESPONSE, 8);
        if (body[7] != ACCEPTED) {
            return body[7] == 'O' ? Replay::Unavailable : Replay::TryAgain;
        }
        for (int left = read<std::uint16_t>(body.data() + 5); left > 0;) {
            const auto unit = receive();
            left -= static_cast<int>(mitch::count(unit));
            consumer(unit);
        }
        return Replay::Complete;
    }

    /// Returns whether the venue still has the connection open. Its end means that the venue has
    /// stopped.
    bool isOpen() const {
        char byte;
        return !isReadable(socket_.descriptor(), std::chrono::seconds(0)) || recv(socket_.descriptor(), &byte, 1, MSG_PEEK) > 0;
    }

private:
    static constexpr std::chrono::seconds TIMEOUT{15};
    static constexpr char ACCEPTED = 'A';

    VenueError malformed(const std::string &what) const { return VenueError::malformed(address_, what); }

    /// Applies the messages of the received unit. Returns whether the snapshot is complete.
    bool applySnapshotUnit(Books &books) const {
        bool isComplete = false;
        mitch::forEach(unit_, 0, [&](char type, std::string_view message) {
            isComplete |= static_cast<unsigned char>(type) == mitch::SNAPSHOT_COMPLETE;
            try {
                books.apply(type, message);
            } catch (const Misfit &misfit) {
                throw malformed(std::string("a snapshot with ") + misfit.what());
            }
        });
        return isComplete;
    }

    /// Sends a request, and returns the body of its answer, which has at least `bytes`.
    std::string exchange(const std::string &request, unsigned char answer, std::size_t bytes) {
        socket_.send(request.data(), request.size());
        std::string found;
        mitch::forEach(receive(), 0, [&](char type, std::string_view body) {
            if (static_cast<unsigned char>(type) == answer && body.size() >= bytes) {
                found = body;
            }
        });
        if (found.empty()) {
            throw malformed("something else than the answer to a request");
        }
        return found;
    }

    /// Returns the next unit, which is valid until the next call.
    std::string_view receive() {
        unit_.resize(mitch::UNIT_HEADER);
        socket_.receiveExactly(&unit_[0], mitch::UNIT_HEADER);
        const auto length = mitch::length(unit_);
        if (length < mitch::UNIT_HEADER) {
            throw malformed("a unit of " + std::to_string(length) + " bytes");
        }
        unit_.resize(length);
        socket_.receiveExactly(&unit_[mitch::UNIT_HEADER], length - mitch::UNIT_HEADER);
        if (!mitch::isUnit(unit_)) {
            throw malformed("a unit whose messages do not fit it");
        }
        return unit_;
    }

    const std::string address_;
    TcpSocket socket_;
    std::string unit_;
};

/// Keeps the books. Each unit counts from the line that has it first. Units after a gap wait. If
/// the other line does not fill the gap in time, a replay over TCP does. A snapshot gives the books
/// at the start, when the venue has started again, and when it does not have the missing messages.
class FeedHandler {
public:
    struct Counts {
        std::uint64_t messages = 0, duplicates = 0, invalid = 0, foreign = 0, replays = 0, snapshots = 0;
        std::vector<std::uint64_t> firstUnits;
    } counts;

    /// Begins to receive the lines, and then takes a snapshot.
    FeedHandler(const std::vector<Address> &lines, const Address &recovery)
        : recoveryAddress_(recovery), datagram_(mitch::MAX_UNIT, '\0') {
        for (const auto &line : lines) {
            lines_.push_back(open(line));
        }
        counts.firstUnits.resize(lines.size());
        try {
            recovery_.emplace(recovery);
            takeSnapshot();
        } catch (const ConnectionError &error) {
            throw VenueError("cannot join the feed at " + recovery.text + ": " + error.what(),
                             "start the venue with --order-feed and --order-feed-recovery, and check the addresses");
        }
    }

    const Books &books() const { return books_; }
    /// Number of the newest message in the books.
    std::uint64_t newest() const { return next_ - 1; }

    /// Takes the units that arrive within the timeout, and closes gaps.
    void poll(int timeoutMs) {
        std::vector<pollfd> waiting;
        for (const auto &line : lines_) {
            waiting.push_back({line.get(), POLLIN, 0});
        }
        ::poll(waiting.data(), waiting.size(), next_ < announced_ ? std::min(timeoutMs, 5) : timeoutMs);
        try {
            for (std::size_t line = 0; line < lines_.size(); line++) {
                readLine(line);
            }
            if (std::exchange(checksRecovery_, false) && !recovery_->isOpen()) {
                rejoin();
            }
            closeGap();
        } catch (const Misfit &) {
            rejoin();
        }
    }

private:
    using Clock = std::chrono::steady_clock;
    static constexpr auto GAP_PATIENCE = std::chrono::milliseconds(20);
    static constexpr int RECEIVE_BUFFER = 8 << 20;
    static constexpr std::size_t MAX_WAITING_UNITS = 20'000;
    static constexpr int BUSY_PAUSE_US = 500'000;
    static constexpr int CONNECT_ATTEMPTS = 50;
    static constexpr int CONNECT_PAUSE_US = 200'000;

    static Descriptor open(const Address &line) {
        Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
        const int on = 1;
        setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &RECEIVE_BUFFER, sizeof RECEIVE_BUFFER);
        const bool isMulticast = IN_MULTICAST(ntohl(line.socket.sin_addr.s_addr));
        if (isMulticast) {
            setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
            const ip_mreq group{line.socket.sin_addr, {htonl(INADDR_ANY)}};
            setsockopt(socket.get(), IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group);
        }
        if (bind(socket.get(), reinterpret_cast<const sockaddr *>(&line.socket), sizeof line.socket) != 0) {
            throw VenueError("cannot receive at " + line.text + ": " + std::strerror(errno),
                             "name an address of this machine, or a multicast group, with a free port");
        }
        return socket;
    }

    void readLine(std::size_t line) {
        while (true) {
            sockaddr_in sender{};
            socklen_t senderLength = sizeof sender;
            const auto size = recvfrom(lines_[line].get(), &datagram_[0], datagram_.size(), 0,
                                       reinterpret_cast<sockaddr *>(&sender), &senderLength);
            if (size < 0) {
                return;
            }
            const std::string_view unit(datagram_.data(), static_cast<std::size_t>(size));
            if (sender.sin_addr.s_addr != recoveryAddress_.socket.sin_addr.s_addr) {
                counts.foreign++;
            } else if (!mitch::isUnit(unit)) {
                counts.invalid++;
            } else if (mitch::count(unit) == 0) {
                announced_ = std::max(announced_, mitch::firstNumber(unit));
                checksRecovery_ = true;
            } else if (take(unit)) {
                counts.firstUnits[line]++;
            } else {
                counts.duplicates++;
            }
        }
    }

    /// Applies a unit, or keeps it if a message before it is missing. Returns whether it was new.
    bool take(std::string_view unit) {
        const auto first = mitch::firstNumber(unit), end = first + mitch::count(unit);
        announced_ = std::max(announced_, end);
        if (end <= next_ || waiting_.count(first) > 0) {
            return false;
        }
        if (first > next_) {
            if (waiting_.size() < MAX_WAITING_UNITS) {
                waiting_.emplace(first, unit);
            }
            return true;
        }
        apply(unit);
        while (!waiting_.empty() && waiting_.begin()->first <= next_) {
            apply(waiting_.extract(waiting_.begin()).mapped());
        }
        return true;
    }

    void apply(std::string_view unit) {
        mitch::forEach(unit, next_, [&](char type, std::string_view body) {
            books_.apply(type, body);
            counts.messages++;
        });
        next_ = std::max(next_, mitch::firstNumber(unit) + mitch::count(unit));
    }

    void closeGap() {
        const auto now = Clock::now();
        if (next_ >= announced_) {
            gapSince_.reset();
        } else if (!gapSince_) {
            gapSince_ = now;
        } else if (now - *gapSince_ >= GAP_PATIENCE) {
            gapSince_.reset();
            counts.replays++;
            const auto end = waiting_.empty() ? announced_ : waiting_.begin()->first;
            try {
                const auto outcome =
                    recovery_->replay(next_, end - next_, [&](std::string_view unit) { take(unit); });
                if (outcome == Recovery::Replay::Unavailable) {
                    takeSnapshot();
                }
            } catch (const ConnectionError &) {
                rejoin();
            }
        }
    }

    /// Replaces the books. Messages after the snapshot come from the lines or from a replay.
    void takeSnapshot() {
        auto snapshot = recovery_->snapshot();
        while (!snapshot) {
            usleep(BUSY_PAUSE_US);
            snapshot = recovery_->snapshot();
        }
        counts.snapshots++;
        books_ = std::move(snapshot->books);
        next_ = announced_ = snapshot->newest + 1;
        waiting_.clear();
    }

    /// Connects again and takes a snapshot, also from a venue that has started again.
    void rejoin() {
        for (int attempt = 0; attempt < CONNECT_ATTEMPTS; attempt++) {
            try {
                recovery_.emplace(recoveryAddress_);
                return takeSnapshot();
            } catch (const ConnectionError &) {
                usleep(CONNECT_PAUSE_US);
            }
        }
        throw VenueError("the venue at " + recoveryAddress_.text + " has stopped", "start it, and join again");
    }

    const Address recoveryAddress_;
    std::vector<Descriptor> lines_;
    std::string datagram_;
    std::optional<Recovery> recovery_;
    Books books_;
    /// Number of the next message to apply.
    std::uint64_t next_ = 0;
    /// Number after the newest message that a line has announced.
    std::uint64_t announced_ = 0;
    /// Units after a gap, by the number of their first message.
    std::map<std::uint64_t, std::string> waiting_;
    std::optional<Clock::time_point> gapSince_;
    bool checksRecovery_ = false;
};
