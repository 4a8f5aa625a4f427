#include <algorithm>
#include <iostream>

#include "feed_handler.hpp"
#include "programs.hpp"

namespace {

template <typename Levels> void print(const OrderBook &book, const char *side, const Levels &levels) {
    for (const auto &[price, level] : levels) {
        std::cout << book.name << ' ' << side << ' ' << formatDecimal(level.lots * book.lotSize) << " @ "
                  << formatDecimal(price) << '\n';
    }
}

void print(const FeedHandler &feed) {
    for (const auto &[instrument, book] : feed.books().all()) {
        print(book, "bid", book.bids);
        print(book, "ask", book.asks);
    }
    const auto &counts = feed.counts;
    std::cout << "books after message " << feed.newest() << "; messages " << counts.messages << ", first by line";
    for (const auto units : counts.firstUnits) {
        std::cout << ' ' << units;
    }
    std::cout << ", duplicates " << counts.duplicates << ", invalid " << counts.invalid << ", foreign "
              << counts.foreign << ", replays " << counts.replays << ", snapshots " << counts.snapshots << std::endl;
}

} // namespace

void runFeed(const std::vector<Address> &lines, const Address &recovery) {
    FeedHandler feed(lines, recovery);
    std::cout << "joined after message " << feed.newest() << "; press Enter for the books" << std::endl;
    while (true) {
        feed.poll(20);
        if (isReadable(STDIN_FILENO, std::chrono::seconds(0))) {
            char input[256];
            const auto size = ::read(STDIN_FILENO, input, sizeof input);
            if (size <= 0) {
                return;
            }
            for (auto presses = std::count(input, input + size, '\n'); presses > 0; presses--) {
                print(feed);
            }
        }
    }
}
