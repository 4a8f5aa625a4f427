package dev.pitwire.sbe;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.collections.Int2ObjectHashMap;
import org.agrona.collections.Long2ObjectHashMap;

/** The books of all instruments, from the messages of the feed. */
final class Books {
    private static final int KEEPS_PLACE = 1;

    private final Int2ObjectHashMap<OrderBook> books = new Int2ObjectHashMap<>();
    private final Long2ObjectHashMap<OrderBook.Order> orders = new Long2ObjectHashMap<>();

    /** A message does not fit the books, so a message before it is missing. */
    static final class MisfitException extends RuntimeException {
        MisfitException(String what) {
            super(what);
        }
    }

    Collection<OrderBook> all() {
        return books.values();
    }

    int orderCount() {
        return orders.size();
    }

    /** Applies one message. Messages that do not change a book are ignored. */
    void apply(int type, DirectBuffer buffer, int body, int bodyBytes) {
        switch (type) {
            case 'R' -> {
                require(bodyBytes >= 387, "a short Symbol Directory");
                String name = buffer.getStringWithoutLengthAscii(body + 23, 25).strip();
                books.putIfAbsent((int) Mitch.int32(buffer, body + 4),
                    new OrderBook(name, Mitch.int64(buffer, body + 379)));
            }
            case 'A' -> {
                require(bodyBytes >= 32, "a short Add Order");
                OrderBook book = bookOf((int) Mitch.int32(buffer, body + 17));
                var order = new OrderBook.Order(Mitch.int64(buffer, body + 4), book, buffer.getByte(body + 12) == 'B',
                    Mitch.int64(buffer, body + 23), Mitch.int32(buffer, body + 13));
                require(orders.put(order.id, order) == null, "an Add Order with a known id");
                book.add(order);
            }
            case 'D' -> {
                require(bodyBytes >= 12, "a short Order Deleted");
                remove(orderOf(buffer, body));
            }
            case 'U' -> {
                require(bodyBytes >= 25, "a short Order Modified");
                modify(orderOf(buffer, body), Mitch.int32(buffer, body + 12), Mitch.int64(buffer, body + 16),
                    (buffer.getByte(body + 24) & KEEPS_PLACE) != 0);
            }
            case 'E' -> {
                require(bodyBytes >= 16, "a short Order Executed");
                OrderBook.Order order = orderOf(buffer, body);
                setQuantity(order, order.lots - Mitch.int32(buffer, body + 12));
            }
            case 'C' -> {
                require(bodyBytes >= 20, "a short Order Executed With Price/Size");
                setQuantity(orderOf(buffer, body), Mitch.int32(buffer, body + 16));
            }
            case 'y' -> {
                require(bodyBytes >= 8, "a short Order Book Clear");
                OrderBook book = bookOf((int) Mitch.int32(buffer, body + 4));
                book.clear();
                List<OrderBook.Order> all = new ArrayList<>(orders.values());
                all.stream().filter(order -> order.book == book).forEach(order -> orders.remove(order.id));
            }
            default -> { }
        }
    }

    private void modify(OrderBook.Order order, long lots, long price, boolean keepsPlace) {
        if (keepsPlace && price == order.price) {
            order.book.setQuantity(order, lots);
            return;
        }
        order.book.remove(order);
        order.price = price;
        order.lots = lots;
        order.book.add(order);
    }

    private void setQuantity(OrderBook.Order order, long lots) {
        require(lots >= 0, "an execution of more than the order has");
        if (lots == 0) {
            remove(order);
        } else {
            order.book.setQuantity(order, lots);
        }
    }

    private void remove(OrderBook.Order order) {
        order.book.remove(order);
        orders.remove(order.id);
    }

    private OrderBook.Order orderOf(DirectBuffer buffer, int body) {
        OrderBook.Order order = orders.get(Mitch.int64(buffer, body + 4));
        require(order != null, "an unknown order");
        return order;
    }

    private OrderBook bookOf(int instrument) {
        OrderBook book = books.get(instrument);
        require(book != null, "an unknown instrument");
        return book;
    }

    private static void require(boolean fits, String what) {
        if (!fits) {
            throw new MisfitException(what);
        }
    }
}
