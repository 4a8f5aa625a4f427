#include <algorithm>
#include <array>
#include <chrono>
#include <iomanip>
#include <iostream>
#include <memory>
#include <set>
#include <thread>

#include "programs.hpp"

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t nowNs() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// A connection that is measured. It cancels each order after its acknowledgement.
class Transport {
public:
    virtual ~Transport() = default;
    virtual void enter(int number) = 0;
    virtual void poll() = 0;
    virtual bool hasInput(std::chrono::nanoseconds timeout) const = 0;

    /// Sends `orders` orders, at fixed times if there is an interval and otherwise one after the
    /// other. Appends the latency of each, from its due time, in nanoseconds.
    void measure(int orders, std::int64_t intervalNs, std::vector<std::int64_t> &latencies) {
        startNs_.assign(static_cast<std::size_t>(orders), 0);
        latencies_ = &latencies;
        cancelled_ = 0;
        const auto begin = nowNs();
        int entered = 0;
        while (cancelled_ < orders) {
            const auto due = intervalNs == 0 ? nowNs() : begin + entered * intervalNs;
            const bool isNext = entered < orders && (intervalNs > 0 || cancelled_ == entered);
            if (isNext && nowNs() >= due) {
                startNs_[static_cast<std::size_t>(entered)] = due;
                enter(entered++);
            } else if (hasInput(isNext ? std::chrono::nanoseconds(due - nowNs()) : std::chrono::seconds(1))) {
                poll();
            }
        }
    }

protected:
    void acknowledged(int number) { latencies_->push_back(nowNs() - startNs_[static_cast<std::size_t>(number)]); }
    void cancelled() { cancelled_++; }

private:
    std::vector<std::int64_t> startNs_;
    std::vector<std::int64_t> *latencies_ = nullptr;
    int cancelled_ = 0;
};

class SbeTransport : public Transport, private MessageHandler {
public:
    SbeTransport(const Address &address, const Account &account, std::uint32_t instrument, std::int64_t price)
        : instrument_(instrument), price_(price), session_(address, account.clientId, account.secret, *this) {}

    void enter(int number) override {
        const auto id = std::to_string(nowNs()) + "-" + std::to_string(number);
        numbers_[session_.enterLimit(id, instrument_, sbe::OrderSide::Buy, LOT, price_)] = number;
    }
    void poll() override { session_.poll(); }
    bool hasInput(std::chrono::nanoseconds timeout) const override { return session_.hasInput(timeout); }

private:
    using MessageHandler::on;
    void on(sbe::OrderAccepted &message) override {
        if (const auto entered = numbers_.find(message.requestId()); entered != numbers_.end()) {
            acknowledged(entered->second);
            numbers_.erase(entered);
            session_.cancel(message.orderId());
        } else {
            cancelled();
        }
    }
    void on(sbe::Reject &message) override {
        throw VenueError("an order failed: " + message.getNameAsString(),
                         "the venue must have no order flow, and the price must not trade");
    }

    const std::uint32_t instrument_;
    const std::int64_t price_;
    std::map<std::uint64_t, int> numbers_;
    OrderSession session_;
};

/// A TCP ping-pong with the sizes of an order and its acknowledgement, without a venue.
class BaselineTransport : public Transport {
public:
    BaselineTransport() {
        Descriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
        Address address("127.0.0.1:0");
        socklen_t length = sizeof address.socket;
        const auto name = reinterpret_cast<sockaddr *>(&address.socket);
        if (bind(listener.get(), name, length) != 0 || listen(listener.get(), 1) != 0 ||
            getsockname(listener.get(), name, &length) != 0) {
            throw ConnectionError(std::strerror(errno));
        }
        socket_ = std::make_unique<TcpSocket>(address, TIMEOUT);
        TcpSocket accepted(Descriptor(accept(listener.get(), nullptr, nullptr)), std::chrono::hours(24));
        server_ = std::thread([accepted = std::move(accepted)]() mutable {
            std::array<char, REQUEST> request;
            try {
                while (true) {
                    accepted.receiveExactly(request.data(), request.size());
                    accepted.send(request.data(), ANSWER);
                }
            } catch (const ConnectionError &) {
                // The end of the benchmark.
            }
        });
    }
    ~BaselineTransport() override {
        socket_.reset();
        server_.join();
    }

    void enter(int number) override { send(2 * number); }
    bool hasInput(std::chrono::nanoseconds timeout) const override {
        return isReadable(socket_->descriptor(), timeout);
    }
    void poll() override {
        std::array<char, ANSWER> answer;
        socket_->receiveExactly(answer.data(), answer.size());
        int number;
        std::memcpy(&number, answer.data(), sizeof number);
        if (number % 2 == 0) {
            acknowledged(number / 2);
            send(number + 1);
        } else {
            cancelled();
        }
    }

private:
    static constexpr std::size_t HEADERS = 14;
    static constexpr std::size_t REQUEST = HEADERS + sbe::NewOrder::SBE_BLOCK_LENGTH;
    static constexpr std::size_t ANSWER = HEADERS + sbe::OrderAccepted::SBE_BLOCK_LENGTH;
    static constexpr std::chrono::seconds TIMEOUT{15};

    void send(int number) {
        std::array<char, REQUEST> request{};
        std::memcpy(request.data(), &number, sizeof number);
        socket_->send(request.data(), request.size());
    }

    std::unique_ptr<TcpSocket> socket_;
    std::thread server_;
};

using Transports = std::vector<std::unique_ptr<Transport>>;

/// Measures some transports at once, each on a thread.
std::vector<std::int64_t> measure(const Transports &transports, std::size_t clients, int orders, int rate) {
    std::vector<std::vector<std::int64_t>> latencies(clients);
    std::vector<std::exception_ptr> errors(clients);
    std::vector<std::thread> threads;
    const auto interval = rate == 0 ? 0 : 1'000'000'000 * static_cast<std::int64_t>(clients) / rate;
    for (std::size_t client = 0; client < clients; client++) {
        threads.emplace_back([&, client] {
            try {
                transports[client]->measure(orders / static_cast<int>(clients), interval, latencies[client]);
            } catch (...) {
                errors[client] = std::current_exception();
            }
        });
    }
    std::vector<std::int64_t> all;
    for (std::size_t client = 0; client < clients; client++) {
        threads[client].join();
        all.insert(all.end(), latencies[client].begin(), latencies[client].end());
    }
    for (const auto &error : errors) {
        if (error) {
            std::rethrow_exception(error);
        }
    }
    std::sort(all.begin(), all.end());
    return all;
}

} // namespace

void runBenchmark(const Address &address, std::uint32_t instrument, std::int64_t price, int rate, int orders,
                  int rounds, const std::vector<Account> &accounts) {
    Transports baseline, binary;
    for (const auto &account : accounts) {
        baseline.push_back(std::make_unique<BaselineTransport>());
        binary.push_back(std::make_unique<SbeTransport>(address, account, instrument, price));
    }
    const std::array<double, 5> quantiles{0.5, 0.9, 0.99, 0.999, 0.9999};
    // Values of the rounds, by row of the table and quantile.
    std::map<std::string, std::array<std::vector<double>, 5>> rows;
    // The first round warms up.
    for (int round = -1; round < rounds; round++) {
        for (const auto clients : std::set<std::size_t>{1, accounts.size()}) {
            for (const int atRate : {0, rate}) {
                for (const auto &[name, transports] :
                     {std::pair{"TCP ping-pong", &baseline}, std::pair{"SBE", &binary}}) {
                    const auto sorted = measure(*transports, clients, orders, atRate);
                    for (std::size_t at = 0; round >= 0 && at < quantiles.size(); at++) {
                        const auto index = static_cast<std::size_t>(quantiles[at] * static_cast<double>(sorted.size()));
                        const std::string loop = atRate == 0 ? "closed | " : "open | ";
                        const auto row = loop + std::to_string(clients) + " | " + name;
                        rows[row][at].push_back(static_cast<double>(sorted[std::min(index, sorted.size() - 1)]) / 1e3);
                    }
                }
            }
        }
    }
    std::cout << "| loop | clients | transport | p50 | p90 | p99 | p99.9 | p99.99 |\n|---|---|---|---|---|---|---|---|\n"
              << std::fixed << std::setprecision(1);
    for (auto &[row, values] : rows) {
        std::cout << "| " << row;
        for (std::size_t at = 0; at < quantiles.size(); at++) {
            auto &sorted = values[at];
            std::sort(sorted.begin(), sorted.end());
            // A quantile is printed only if 100 values lie above it.
            const bool isKnown = (1 - quantiles[at]) * orders * rounds >= 100;
            isKnown ? std::cout << " | " << sorted[sorted.size() / 2] : std::cout << " | –";
        }
        std::cout << " |\n";
    }
}
