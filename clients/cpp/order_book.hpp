// The books of all instruments, from the messages of the order-by-order feed: docs/order-feed.md.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>

/// Reads a little-endian number. The machine must be little endian, too.
template <typename T> T read(const char *bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

/// A message does not fit the books, so a message before it is missing.
struct Misfit : std::runtime_error {
    using runtime_error::runtime_error;
};

struct Order {
    std::uint64_t id;
    std::int64_t lots;
};

/// The queue of the orders at one price, first in time first.
struct Level {
    std::list<Order> orders;
    std::int64_t lots = 0;
};

using Bids = std::map<std::int64_t, Level, std::greater<>>;
using Asks = std::map<std::int64_t, Level>;

/// Orders of one instrument, by price and then by time.
struct OrderBook {
    std::string name;
    /// Amount of one lot in units of 1e-8.
    std::int64_t lotSize;
    Bids bids;
    Asks asks;
};

class Books {
public:
    Books() = default;
    /// The places of the orders point into the books, which a move keeps and a copy would not.
    Books(Books &&) = default;
    Books &operator=(Books &&) = default;

    const std::map<std::uint32_t, OrderBook> &all() const { return books_; }
    std::size_t orderCount() const { return places_.size(); }

    /// Applies one message. Messages that do not change a book are ignored.
    void apply(char type, std::string_view body) {
        const char *at = body.data();
        switch (type) {
        case 'R': {
            require(body.size() >= 387, "a short Symbol Directory");
            std::string name(at + 23, 25);
            name.erase(name.find_last_not_of(' ') + 1);
            books_.try_emplace(read<std::uint32_t>(at + 4), OrderBook{name, read<std::int64_t>(at + 379), {}, {}});
            break;
        }
        case 'A': {
            require(body.size() >= 32, "a short Add Order");
            const auto id = read<std::uint64_t>(at + 4);
            const auto known = books_.find(read<std::uint32_t>(at + 17));
            require(known != books_.end(), "an unknown instrument");
            require(places_.count(id) == 0, "an Add Order with a known id");
            add({&known->second, at[12] == 'B', read<std::int64_t>(at + 23), {}}, {id, read<std::uint32_t>(at + 13)});
            break;
        }
        case 'D':
            require(body.size() >= 12, "a short Order Deleted");
            remove(find(at));
            break;
        case 'U': {
            require(body.size() >= 25, "a short Order Modified");
            const auto found = find(at);
            const std::int64_t lots = read<std::uint32_t>(at + 12);
            const auto price = read<std::int64_t>(at + 16);
            const bool keepsPlace = (at[24] & 1) != 0;
            if (keepsPlace && price == found->second.price) {
                setLots(found, lots);
            } else {
                auto place = found->second;
                const Order order{found->first, lots};
                remove(found);
                place.price = price;
                add(place, order);
            }
            break;
        }
        case 'E': {
            require(body.size() >= 16, "a short Order Executed");
            const auto found = find(at);
            setLots(found, found->second.order->lots - read<std::uint32_t>(at + 12));
            break;
        }
        case 'C':
            require(body.size() >= 20, "a short Order Executed With Price/Size");
            setLots(find(at), read<std::uint32_t>(at + 16));
            break;
        case 'y': {
            require(body.size() >= 8, "a short Order Book Clear");
            const auto known = books_.find(read<std::uint32_t>(at + 4));
            require(known != books_.end(), "an unknown instrument");
            for (auto place = places_.begin(); place != places_.end();) {
                place = place->second.book == &known->second ? places_.erase(place) : std::next(place);
            }
            known->second.bids.clear();
            known->second.asks.clear();
            break;
        }
        }
    }

private:
    /// Where an order is. The pointers stay valid: maps and lists do not move their elements.
    struct Place {
        OrderBook *book;
        bool isBid;
        std::int64_t price;
        std::list<Order>::iterator order;
    };
    using Found = std::unordered_map<std::uint64_t, Place>::iterator;

    static void require(bool fits, const char *what) {
        if (!fits) {
            throw Misfit(what);
        }
    }

    Found find(const char *body) {
        const auto found = places_.find(read<std::uint64_t>(body + 4));
        require(found != places_.end(), "an unknown order");
        return found;
    }

    static Level &level(const Place &place) {
        return place.isBid ? place.book->bids[place.price] : place.book->asks[place.price];
    }

    /// Adds an order as the last one at its price.
    void add(Place place, Order order) {
        Level &queue = level(place);
        place.order = queue.orders.insert(queue.orders.end(), order);
        queue.lots += order.lots;
        places_.emplace(order.id, place);
    }

    void remove(Found found) {
        const Place &place = found->second;
        Level &queue = level(place);
        queue.lots -= place.order->lots;
        queue.orders.erase(place.order);
        if (queue.orders.empty()) {
            place.isBid ? place.book->bids.erase(place.price) : place.book->asks.erase(place.price);
        }
        places_.erase(found);
    }

    void setLots(Found found, std::int64_t lots) {
        require(lots >= 0, "an execution of more than the order has");
        if (lots == 0) {
            return remove(found);
        }
        Order &order = *found->second.order;
        level(found->second).lots += lots - order.lots;
        order.lots = lots;
    }

    std::map<std::uint32_t, OrderBook> books_;
    std::unordered_map<std::uint64_t, Place> places_;
};
