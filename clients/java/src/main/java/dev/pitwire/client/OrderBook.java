package dev.pitwire.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.util.Comparator;
import java.util.List;
import java.util.NavigableMap;
import java.util.OptionalLong;
import java.util.TreeMap;

/** A copy of a venue's book. Each change must name the change before it. Threads may share it. */
public final class OrderBook {
    private final NavigableMap<BigDecimal, BigDecimal> bids = new TreeMap<>(Comparator.reverseOrder());
    private final NavigableMap<BigDecimal, BigDecimal> asks = new TreeMap<>();
    private OptionalLong changeId = OptionalLong.empty();

    public record Level(BigDecimal price, BigDecimal amount) { }

    /** The book cannot follow its channel any more. A new snapshot is necessary. */
    static final class Fault extends Exception {
        Fault(String what) {
            super("the book cannot follow its channel: " + what);
        }
    }

    /** Returns the bids, best price first. */
    public synchronized List<Level> bids() {
        return levels(bids);
    }

    /** Returns the offers, best price first. */
    public synchronized List<Level> asks() {
        return levels(asks);
    }

    /** Returns the number of the last change. It is empty while the book waits for a snapshot. */
    public synchronized OptionalLong changeId() {
        return changeId;
    }

    /**
     * Applies the data of a message of `book.INSTRUMENT.INTERVAL`. Returns false if the book has
     * the change already or waits for a snapshot. After a fault the book is empty.
     */
    synchronized boolean apply(JsonNode message) throws Fault {
        long id = message.path("change_id").asLong();
        if (!message.has("prev_change_id")) {
            clear();
        } else {
            long previous = message.path("prev_change_id").asLong();
            if (changeId.isEmpty() || id <= changeId.getAsLong()) {
                return false;
            }
            if (previous != changeId.getAsLong()) {
                throw fault("expected a change after " + changeId.getAsLong() + ", not " + previous);
            }
        }
        changeId = OptionalLong.of(id);
        change(bids, message.path("bids"));
        change(asks, message.path("asks"));
        return true;
    }

    private void change(NavigableMap<BigDecimal, BigDecimal> side, JsonNode levels) throws Fault {
        for (JsonNode level : levels) {
            String action = level.path(0).asText();
            BigDecimal price = level.path(1).decimalValue();
            if (!action.equals("new") && !side.containsKey(price)) {
                throw fault(action + " of the unknown price " + price);
            }
            if (action.equals("delete")) {
                side.remove(price);
            } else {
                side.put(price, level.path(2).decimalValue());
            }
        }
    }

    private Fault fault(String what) {
        clear();
        return new Fault(what);
    }

    private void clear() {
        bids.clear();
        asks.clear();
        changeId = OptionalLong.empty();
    }

    private static List<Level> levels(NavigableMap<BigDecimal, BigDecimal> side) {
        return side.entrySet().stream().map(entry -> new Level(entry.getKey(), entry.getValue())).toList();
    }
}
