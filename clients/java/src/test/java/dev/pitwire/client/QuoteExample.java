package dev.pitwire.client;

import dev.pitwire.client.PitwireException.OrderUnknown;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.concurrent.CompletableFuture;

/** Quotes a tenth below the best bid, prints what happens to the order, and cancels it. */
public final class QuoteExample {
    private QuoteExample() { }

    public static void main(String[] arguments) {
        String url = arguments.length > 0 ? arguments[0] : "ws://127.0.0.1:8080/ws/api/v2";
        var settings = Settings.of(url).withLogin("demo-a", "demo-a-secret")
            .withOnState((state, cause) -> System.out.println("connection: " + state + " " + cause));
        try (Venue venue = Venue.connect(settings)) {
            var isDone = new CompletableFuture<Void>();
            venue.followOwn(
                order -> {
                    System.out.println("order " + order.orderId() + " at " + order.price() + ": " + order.orderState());
                    if (!order.orderState().equals("open")) {
                        isDone.complete(null);
                    }
                },
                fill -> System.out.println("traded " + fill.amount() + " at " + fill.price()),
                restart -> System.out.println("notices may be missing: " + restart.reason()));
            // Wait until the book is complete and has a bid.
            var best = new CompletableFuture<BigDecimal>();
            venue.followBook("BTC_USDC", "100ms", changed ->
                changed.bids().stream().findFirst().ifPresent(level -> best.complete(level.price())));
            BigDecimal price = best.join().multiply(new BigDecimal("0.9")).setScale(0, RoundingMode.DOWN);
            try {
                var order = NewOrder.limit(NewOrder.Side.BUY, "BTC_USDC", new BigDecimal("0.01"), price);
                OrderOutcome placed = venue.place(order.with("post_only", true));
                venue.cancel(placed.order().orderId());
                isDone.join();
            } catch (OrderUnknown lost) {
                System.out.println(venue.resolve(lost.label())
                    .map(order -> "order " + order.orderId() + " was entered").orElse("the order was not entered"));
            }
        }
    }
}
