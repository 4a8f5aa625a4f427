package dev.pitwire.sbe;

import java.util.Collection;
import java.util.Comparator;
import java.util.TreeMap;

/** Orders of one instrument, by price and then by time. */
final class OrderBook {
    final String name;
    /** Amount of one lot in units of 1e-8. */
    final long lotSize;
    private final TreeMap<Long, Level> bids = new TreeMap<>(Comparator.reverseOrder());
    private final TreeMap<Long, Level> asks = new TreeMap<>();

    OrderBook(String name, long lotSize) {
        this.name = name;
        this.lotSize = lotSize;
    }

    /** Levels of bids or asks, best first. */
    Collection<Level> levels(boolean isBid) {
        return (isBid ? bids : asks).values();
    }

    /** Adds an order as the last one at its price. */
    void add(Order order) {
        (order.isBid ? bids : asks).computeIfAbsent(order.price, Level::new).append(order);
    }

    void remove(Order order) {
        var side = order.isBid ? bids : asks;
        Level level = side.get(order.price);
        level.unlink(order);
        if (level.first == null) {
            side.remove(order.price);
        }
    }

    void setQuantity(Order order, long lots) {
        Level level = (order.isBid ? bids : asks).get(order.price);
        level.lots += lots - order.lots;
        order.lots = lots;
    }

    void clear() {
        bids.clear();
        asks.clear();
    }

    /** One displayed order. It is a node of the queue at its price. */
    static final class Order {
        final long id;
        final OrderBook book;
        final boolean isBid;
        long price;
        long lots;
        private Order previous;
        private Order following;

        Order(long id, OrderBook book, boolean isBid, long price, long lots) {
            this.id = id;
            this.book = book;
            this.isBid = isBid;
            this.price = price;
            this.lots = lots;
        }
    }

    /** The queue of the orders at one price. */
    static final class Level {
        final long price;
        long lots;
        private Order first;
        private Order last;

        Level(long price) {
            this.price = price;
        }

        private void append(Order order) {
            order.previous = last;
            order.following = null;
            if (last == null) {
                first = order;
            } else {
                last.following = order;
            }
            last = order;
            lots += order.lots;
        }

        private void unlink(Order order) {
            if (order.previous == null) {
                first = order.following;
            } else {
                order.previous.following = order.following;
            }
            if (order.following == null) {
                last = order.previous;
            } else {
                order.following.previous = order.previous;
            }
            lots -= order.lots;
        }
    }
}
