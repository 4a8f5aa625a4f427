// The programs of this directory.
#include <iostream>
#include <sstream>

#include "programs.hpp"

namespace {

constexpr auto USAGE = R"(usage: pitwire-sbe COMMAND
  orders ADDRESS INSTRUMENT_ID PRICE CLIENT_ID:SECRET CLIENT_ID:SECRET
  feed LINE_A[,LINE_B] RECOVERY
  bench ADDRESS INSTRUMENT_ID PRICE RATE ORDERS ROUNDS CLIENT_ID:SECRET...
An address is HOST:PORT. RATE is in orders a second, over all clients.)";

int parseCount(const std::string &text) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos) {
        throw std::invalid_argument("number " + text + ": expected a whole number");
    }
    return std::stoi(text);
}

void run(const std::vector<std::string> &words) {
    const std::string command = words.empty() ? "none" : words[0];
    if (command == "orders" && words.size() == 6) {
        runOrders(Address(words[1]), parseCount(words[2]), parseDecimal(words[3]), Account(words[4]),
                  Account(words[5]));
    } else if (command == "feed" && words.size() == 3) {
        std::vector<Address> lines;
        std::istringstream list(words[1]);
        for (std::string line; std::getline(list, line, ',');) {
            lines.emplace_back(line);
        }
        runFeed(lines, Address(words[2]));
    } else if (command == "bench" && words.size() >= 8) {
        std::vector<Account> accounts(words.begin() + 7, words.end());
        runBenchmark(Address(words[1]), parseCount(words[2]), parseDecimal(words[3]), parseCount(words[4]),
                     parseCount(words[5]), parseCount(words[6]), accounts);
    } else {
        throw std::invalid_argument("command " + command + " with " + std::to_string(words.size()) + " words");
    }
}

} // namespace

int main(int count, char **words) {
    try {
        run({words + 1, words + count});
        return 0;
    } catch (const std::logic_error &error) {
        std::cerr << "error: invalid argument: " << error.what() << '\n' << USAGE << '\n';
        return 2;
    } catch (const std::runtime_error &error) {
        std::cerr << "error: " << error.what() << '\n';
        return 1;
    }
}
