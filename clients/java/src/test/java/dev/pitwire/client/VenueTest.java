package dev.pitwire.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.pitwire.client.NewOrder.Side;
import dev.pitwire.client.PitwireException.NotSent;
import dev.pitwire.client.PitwireException.OrderUnknown;
import dev.pitwire.client.PitwireException.Refused;
import java.math.BigDecimal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Runs against a venue without order flow, and against relays in front of it that inject one fault
 * each. tests/test_clients_packages.py starts them. Each variable has the URL of one of them.
 */
class VenueTest {
    private final List<Venue> venues = new ArrayList<>();
    private final List<String> states = new CopyOnWriteArrayList<>();

    private Venue connect(String variable, String account) {
        var settings = Settings.of(System.getenv(variable)).withLogin(account, account + "-secret")
            .withTimeout(Duration.ofSeconds(60)).withOnState((state, cause) -> states.add(state.name()));
        var venue = Venue.connect(settings);
        venues.add(venue);
        return venue;
    }

    @AfterEach
    void close() {
        venues.forEach(Venue::close);
    }

    private static void until(BooleanSupplier condition) {
        long deadlineNs = System.nanoTime() + Duration.ofMinutes(2).toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < deadlineNs, "the condition never held");
            Connection.sleep(10);
        }
    }

    private static NewOrder bid(String instrument, long price) {
        return NewOrder.limit(Side.BUY, instrument, new BigDecimal(3), new BigDecimal(price));
    }

    private static List<String> texts(List<OrderBook.Level> levels) {
        return levels.stream().map(level -> plain(level.price()) + "x" + plain(level.amount())).toList();
    }

    private static String plain(BigDecimal number) {
        return number.stripTrailingZeros().toPlainString();
    }

    @Test
    void ordersArePlacedAmendedCancelledAndRefusedAndOwnNoticesReportIt() {
        Venue venue = connect("PITWIRE_URL", "demo-a");
        Venue other = connect("PITWIRE_URL", "demo-b");
        var orders = new CopyOnWriteArrayList<Order>();
        var fills = new CopyOnWriteArrayList<Fill>();
        venue.followOwn(order -> {
            if (order.instrumentName().equals("NPN_ZAR")) {
                orders.add(order);
            }
        }, fills::add, restart -> { });

        OrderOutcome placed = venue.place(bid("NPN_ZAR", 3000));
        String id = placed.order().orderId();
        assertEquals("open", placed.order().orderState());
        OrderOutcome amended = venue.amend(id, new BigDecimal(2), new BigDecimal(3001));
        assertEquals("2 at 3001", plain(amended.order().amount()) + " at " + plain(amended.order().price()));
        var sale = NewOrder.limit(Side.SELL, "NPN_ZAR", BigDecimal.ONE, new BigDecimal(3001));
        assertEquals(1, other.place(sale).trades().size());
        assertEquals("1", plain(venue.order(id).filledAmount()));
        assertEquals("cancelled", venue.cancel(id).orderState());
        until(() -> !orders.isEmpty() && orders.get(orders.size() - 1).orderState().equals("cancelled"));
        assertEquals(List.of(id), fills.stream().map(Fill::orderId).toList());
        assertTrue(venue.openOrders().stream().noneMatch(order -> order.orderId().equals(id)));

        assertThrows(Refused.class, () -> venue.cancel(id));
        var refused = assertThrows(Refused.class, () -> venue.place(bid("NPN_ZAR", 3000).with("amount", -1)));
        assertTrue(refused.code() != 0 && !refused.remedy().isEmpty(), refused.getMessage());
    }

    @Test
    void wrongSecretIsRefusedAndWrongAddressIsNamed() {
        var settings = Settings.of(System.getenv("PITWIRE_URL"));
        assertThrows(Refused.class, () -> Venue.connect(settings.withLogin("demo-a", "wrong")));
        for (String url : List.of("ws://127.0.0.1:1/ws/api/v2", "nonsense")) {
            assertThrows(PitwireException.ConnectionFailed.class, () -> Venue.connect(Settings.of(url)));
        }
    }

    @Test
    void bookWithALostChangeIsFetchedAgain() {
        Venue venue = connect("PITWIRE_GAP", "demo-a");
        Venue maker = connect("PITWIRE_URL", "demo-b");
        var gaps = new CopyOnWriteArrayList<String>();
        var followed = venue.followBook("SBK_ZAR", "raw", changed -> {
            if (changed.changeId().isEmpty()) {
                gaps.add("gap");
            }
        });
        OrderBook book = followed.book();
        until(() -> book.changeId().isPresent());
        // The relay drops the message of the first change, so the second is no successor.
        maker.place(bid("SBK_ZAR", 150));
        maker.place(bid("SBK_ZAR", 151));
        until(() -> book.bids().size() == 2);
        maker.place(bid("SBK_ZAR", 149));
        until(() -> book.bids().size() == 3);
        assertEquals(List.of("gap"), gaps);
        assertEquals(List.of("151x3", "150x3", "149x3"), texts(book.bids()));
        followed.close();
    }

    @Test
    void repeatedChangeIsIgnoredAndAGapOrAnUnknownPriceEmptiesTheBook() throws Exception {
        var snapshot = "{'change_id':5,'bids':[['new',9,1],['new',10.5,3]],'asks':[['new',11,2]]}";
        var change = "{'change_id':9,'prev_change_id':5,'asks':[],'bids':[['change',10.50,4],['delete',9,0]]}";
        var book = new OrderBook();
        assertTrue(apply(book, snapshot));
        assertEquals(List.of("10.5x3", "9x1"), texts(book.bids()));
        assertTrue(apply(book, change));
        assertFalse(apply(book, change));
        assertEquals(List.of("10.5x4"), texts(book.bids()));
        for (String wrong : List.of("{'change_id':9,'prev_change_id':8,'asks':[],'bids':[]}",
                "{'change_id':9,'prev_change_id':5,'asks':[],'bids':[['delete',8,0]]}")) {
            assertTrue(apply(book, snapshot));
            assertThrows(OrderBook.Fault.class, () -> apply(book, wrong));
            assertEquals(OptionalLong.empty(), book.changeId());
            assertFalse(apply(book, change));
            assertEquals(List.of(), book.asks());
        }
    }

    private static boolean apply(OrderBook book, String text) throws Exception {
        return book.apply(Json.read(text.replace('\'', '"')));
    }

    @Test
    void orderWhoseAnswerIsLostIsUnknownUntilAQueryFindsIt() {
        Venue venue = connect("PITWIRE_LOST_ANSWER", "demo-a");
        var lost = assertThrows(OrderUnknown.class, () -> venue.place(bid("AGL_ZAR", 400)));
        Order order = venue.resolve(lost.label()).orElseThrow();
        assertEquals("open", order.orderState());
        var open = venue.openOrders().stream().filter(one -> one.instrumentName().equals("AGL_ZAR"));
        assertEquals(List.of(order.orderId()), open.map(Order::orderId).toList());
    }

    @Test
    void orderWhoseRequestIsLostWasNotEntered() {
        Venue venue = connect("PITWIRE_LOST_REQUEST", "demo-a");
        long validUntilMs = venue.venueClockMs() + 500;
        NewOrder order = bid("BHG_ZAR", 400).with("valid_until", validUntilMs);
        var lost = assertThrows(OrderUnknown.class, () -> venue.place(order));
        assertEquals(Optional.empty(), venue.resolve(lost.label()));
        assertTrue(venue.venueClockMs() > validUntilMs, "not found is believed only after valid_until");
    }

    @Test
    void afterACutTheMissedNoticesArriveOnceAndInOrder() {
        Venue trader = connect("PITWIRE_URL", "demo-a");
        Venue venue = connect("PITWIRE_CUT", "demo-a");
        var prices = new CopyOnWriteArrayList<Long>();
        var restarts = new CopyOnWriteArrayList<Restart>();
        venue.followOwn(order -> {
            if (order.instrumentName().equals("SOL_ZAR")) {
                prices.add(order.price().longValue());
            }
        }, fill -> { }, restarts::add);
        // The relay cuts the connection in place of a notice and refuses the next two connections.
        var expected = new ArrayList<Long>();
        for (long price = 100; price < 112; price++) {
            expected.add(price);
            trader.place(bid("SOL_ZAR", price));
        }
        until(() -> prices.size() >= expected.size());
        assertEquals(expected, prices);
        assertEquals(List.of(), restarts);
        long attempts = states.stream().filter("RECONNECTING"::equals).count();
        // The HTTP client of the JDK repeats a refused handshake once by itself.
        assertTrue(attempts >= 2, "it tried again after a refused connection: " + attempts);
        assertTrue(venue.call("public/test", Map.of()).has("version"));
    }

    @Test
    void closedVenueSendsNothing() {
        Venue venue = connect("PITWIRE_URL", "demo-a");
        venue.close();
        assertThrows(NotSent.class, venue::openOrders);
    }
}
