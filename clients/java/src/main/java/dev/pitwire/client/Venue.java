package dev.pitwire.client;

import com.fasterxml.jackson.databind.JsonNode;
import dev.pitwire.client.PitwireException.OrderUnknown;
import dev.pitwire.client.PitwireException.Unanswered;
import java.math.BigDecimal;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;

/** A connection to a venue with the calls of a trader. Threads may share it. */
public final class Venue extends Connection {
    /**
     * Time after `valid_until` before "not found" is believed. It covers the error of the clock.
     */
    private static final long CLOCK_MARGIN_MS = 1000;
    private static final long QUERY_PAUSE_MS = 250;
    private static final int HISTORY_COUNT = 1000;
    /** Trade ids that are remembered to drop repeated fills. */
    private static final int TRADE_IDS_MAX = 10_000;

    private final Map<String, UnknownOrder> unknown = new ConcurrentHashMap<>();
    private final String labelPrefix = "pw-" + Integer.toHexString(ThreadLocalRandom.current().nextInt()) + "-";
    private final AtomicLong nextLabel = new AtomicLong(1);

    private record UnknownOrder(String instrument, long validUntilMs) { }

    private Venue(Settings settings) {
        super(settings);
    }

    /** Connects, and logs in if the settings have credentials. */
    public static Venue connect(Settings settings) {
        var venue = new Venue(settings);
        try {
            venue.open();
        } catch (PitwireException error) {
            venue.close();
            throw error;
        }
        return venue;
    }

    /**
     * Enters an order. If the answer is lost it throws OrderUnknown: the order may exist, and
     * {@link #resolve} finds out. Any other exception says that the order was not entered.
     */
    public OrderOutcome place(NewOrder order) {
        var parameters = new LinkedHashMap<>(order.parameters());
        parameters.putIfAbsent("label", labelPrefix + nextLabel.getAndIncrement());
        parameters.putIfAbsent("valid_until", venueClockMs() + settings.validity().toMillis());
        String label = parameters.get("label").toString();
        try {
            String method = order.side() == NewOrder.Side.BUY ? "private/buy" : "private/sell";
            return Json.convert(call(method, parameters), OrderOutcome.class);
        } catch (Unanswered lost) {
            long validUntilMs = Long.parseLong(parameters.get("valid_until").toString());
            unknown.put(label, new UnknownOrder(order.instrument(), validUntilMs));
            throw new OrderUnknown(label, lost);
        }
    }

    /**
     * Finds out whether an order exists whose answer was lost. Returns nothing if it does not: this
     * is certain only after `valid_until`, because until then the venue may still read the request.
     */
    public Optional<Order> resolve(String label) {
        UnknownOrder order = unknown.get(label);
        if (order == null) {
            throw new PitwireException("no order is unknown by the label " + label, "resolve an OrderUnknown");
        }
        while (true) {
            long askedMs = venueClockMs();
            Optional<Order> found = find(label, "private/get_open_orders_by_instrument",
                Map.of("instrument_name", order.instrument));
            if (found.isEmpty()) {
                // An order that closes between the two queries is in the history.
                found = find(label, "private/get_order_history_by_instrument", Map.of("instrument_name",
                    order.instrument, "count", HISTORY_COUNT, "include_unfilled", true));
            }
            if (found.isPresent() || askedMs > order.validUntilMs + CLOCK_MARGIN_MS) {
                unknown.remove(label);
                return found;
            }
            if (!sleep(QUERY_PAUSE_MS)) {
                throw new PitwireException("the thread was interrupted", "resolve the order again");
            }
        }
    }

    private Optional<Order> find(String label, String method, Map<String, ?> parameters) {
        return Json.list(call(method, parameters), Order.class).stream()
            .filter(order -> label.equals(order.label())).findFirst();
    }

    /** Changes the total amount and the price of an order. After Unanswered query the order. */
    public OrderOutcome amend(String orderId, BigDecimal amount, BigDecimal price) {
        Map<String, ?> parameters = Map.of("order_id", orderId, "amount", amount, "price", price, "valid_until",
            venueClockMs() + settings.validity().toMillis());
        return Json.convert(call("private/edit", parameters), OrderOutcome.class);
    }

    /** Cancels an order. After Unanswered query the order. */
    public Order cancel(String orderId) {
        return Json.convert(call("private/cancel", Map.of("order_id", orderId)), Order.class);
    }

    /** Cancels all orders of the account and returns their number. */
    public int cancelAll() {
        return call("private/cancel_all", Map.of()).asInt();
    }

    public Order order(String orderId) {
        return Json.convert(call("private/get_order_state", Map.of("order_id", orderId)), Order.class);
    }

    public List<Order> openOrders() {
        return Json.list(call("private/get_open_orders", Map.of()), Order.class);
    }

    /**
     * Follows the own orders and trades. Each fill is delivered once, before the state of its
     * order. `onRestart` says that notices may be missing after a cut: query open orders and
     * trades.
     */
    public Subscription followOwn(Consumer<Order> onOrder, Consumer<Fill> onFill, Consumer<Restart> onRestart) {
        Set<String> seen = Collections.newSetFromMap(new LinkedHashMap<>() {
            @Override
            protected boolean removeEldestEntry(Map.Entry<String, Boolean> eldest) {
                return size() > TRADE_IDS_MAX;
            }
        });
        return subscribe("user.changes.any.any.raw", data -> {
            Json.list(data.path("trades"), Fill.class).stream().filter(fill -> seen.add(fill.tradeId())).forEach(onFill);
            Json.list(data.path("orders"), Order.class).forEach(onOrder);
        }, onRestart);
    }

    /** A followed book. */
    public record BookSubscription(OrderBook book, Subscription subscription) implements AutoCloseable {
        @Override
        public void close() {
            subscription.close();
        }
    }

    /**
     * Follows a book. `onChange` is called when the book is complete and after each change. After a
     * gap the book is empty until the venue has sent a new snapshot.
     *
     * @param interval `raw`, `100ms` or `agg2`
     */
    public BookSubscription followBook(String instrument, String interval, Consumer<OrderBook> onChange) {
        var book = new OrderBook();
        var isFollowed = new AtomicBoolean(true);
        var isRepairing = new AtomicBoolean();
        String channel = "book." + instrument + "." + interval;
        Consumer<JsonNode> apply = data -> {
            try {
                if (book.apply(data)) {
                    onChange.accept(book);
                }
            } catch (OrderBook.Fault fault) {
                onChange.accept(book);
                if (isRepairing.compareAndSet(false, true)) {
                    workers.execute(() -> {
                        repair(channel, book, isFollowed);
                        isRepairing.set(false);
                    });
                }
            }
        };
        Subscription subscription = subscribe(channel, apply, restart -> { });
        return new BookSubscription(book, () -> {
            isFollowed.set(false);
            subscription.close();
        });
    }

    /**
     * Asks for a snapshot until it is there: the request or the snapshot may be lost in another
     * cut.
     */
    private void repair(String channel, OrderBook book, AtomicBoolean isFollowed) {
        var pause = new GrowingPause(settings.firstPause(), settings.longestPause());
        while (isFollowed.get() && book.changeId().isEmpty() && !hasEnded()) {
            try {
                restart(channel);
            } catch (PitwireException error) {
                // The next attempt may succeed; the pause keeps a faulty venue from many requests.
            }
            if (!sleep(pause.nextMs())) {
                return;
            }
        }
    }
}
