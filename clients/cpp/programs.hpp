// What the commands share.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "order_session.hpp"

constexpr int PLACES = 8;

/// Prices and quantities have eight decimals.
inline std::int64_t parseDecimal(const std::string &text) {
    const auto point = text.find('.');
    auto digits = text.substr(0, point);
    auto fraction = point == std::string::npos ? "" : text.substr(point + 1);
    if (fraction.size() > PLACES || (digits + fraction).find_first_not_of("0123456789") != std::string::npos) {
        throw std::invalid_argument("number " + text + ": expected at most eight decimals");
    }
    fraction.resize(PLACES, '0');
    return std::stoll(digits + fraction);
}

inline std::string formatDecimal(std::int64_t mantissa) {
    if (mantissa == NONE) {
        return "none";
    }
    auto digits = std::to_string(mantissa < 0 ? -mantissa : mantissa);
    if (digits.size() <= PLACES) {
        digits.insert(0, PLACES + 1 - digits.size(), '0');
    }
    digits.insert(digits.size() - PLACES, ".");
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') {
        digits.pop_back();
    }
    return (mantissa < 0 ? "-" : "") + digits;
}

constexpr std::int64_t LOT = 100'000'000;

struct Account {
    std::string clientId, secret;

    explicit Account(const std::string &text) : clientId(text.substr(0, text.find(':'))) {
        if (clientId.empty() || clientId.size() == text.size()) {
            throw std::invalid_argument("expected CLIENT_ID:SECRET");
        }
        secret = text.substr(clientId.size() + 1);
    }
};

/// Runs the life of an order, with two accounts that trade with each other.
void runOrders(const Address &address, std::uint32_t instrument, std::int64_t price, const Account &maker,
               const Account &taker);
/// Follows the feed. Each line of the standard input prints the books, and its end ends the
/// program.
void runFeed(const std::vector<Address> &lines, const Address &recovery);
/// Measures the time from an order to its acknowledgement.
void runBenchmark(const Address &address, std::uint32_t instrument, std::int64_t price, int rate, int orders,
                  int rounds, const std::vector<Account> &accounts);
