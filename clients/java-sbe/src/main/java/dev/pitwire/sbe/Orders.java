package dev.pitwire.sbe;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import pitwire.sbe.BestPricesDecoder;
import pitwire.sbe.BookDecoder;
import pitwire.sbe.ExecutionReportDecoder;
import pitwire.sbe.ExecutionType;
import pitwire.sbe.InstrumentStatusDecoder;
import pitwire.sbe.MassCancelAcceptedDecoder;
import pitwire.sbe.OrderAcceptedDecoder;
import pitwire.sbe.OrderSide;
import pitwire.sbe.QuerySubject;
import pitwire.sbe.RejectDecoder;
import pitwire.sbe.VwapDecoder;

/** The life of an order, with two accounts that trade with each other. */
final class Orders {
    private static final long LOT = Decimals.parse("1");

    private Orders() { }

    static void run(Gateway gateway, long instrument, long price, Credentials maker, Credentials taker) {
        var makerLog = new Printer(maker.clientId());
        var takerLog = new Printer(taker.clientId());
        try (var a = OrderSession.logOn(gateway, maker.clientId(), maker.secret(), makerLog);
             var b = OrderSession.logOn(gateway, taker.clientId(), taker.secret(), takerLog)) {
            String run = Long.toHexString(System.nanoTime());
            long entered = a.enter(NewOrder.limit(run + "-1", instrument, OrderSide.Buy, 10 * LOT, price));
            long order = makerLog.orderOf(a, entered);
            b.awaitAnswer(b.enter(NewOrder.limit(run + "-2", instrument, OrderSide.Sell, 4 * LOT, price)));
            makerLog.awaitReport(a, order, ExecutionType.Trade);

            a.awaitAnswer(a.amend(order, 12 * LOT, price));
            for (var subject : new QuerySubject[] {
                QuerySubject.BestPrices, QuerySubject.Book, QuerySubject.Vwap, QuerySubject.Status}) {
                a.awaitAnswer(a.query(instrument, subject, 10));
            }
            a.awaitAnswer(a.cancel(order));
            makerLog.awaitReport(a, order, ExecutionType.Cancelled);
            a.awaitAnswer(a.cancel(order)); // The venue rejects it: the order has ended.

            a.enter(NewOrder.limit(run + "-3", instrument, OrderSide.Buy, LOT, price));
            a.enter(NewOrder.limit(run + "-4", instrument, OrderSide.Buy, LOT, price));
            a.awaitAnswer(a.massCancel(instrument));
        }
    }

    record Credentials(String clientId, String secret) { }

    /** Prints every message, and remembers orders and reports. */
    private static final class Printer implements MessageHandler {
        private final String name;
        private final Map<Long, Long> orders = new HashMap<>();
        private final Set<String> reports = new HashSet<>();

        Printer(String name) {
            this.name = name;
        }

        /** Returns the order id in the answer to a new order. */
        long orderOf(OrderSession session, long requestId) {
            session.awaitAnswer(requestId);
            Long order = orders.get(requestId);
            if (order == null) {
                throw new VenueException("the venue did not accept the order", "see the reject above");
            }
            return order;
        }

        void awaitReport(OrderSession session, long order, ExecutionType type) {
            while (!reports.contains(order + " " + type)) {
                session.poll();
            }
        }

        private void print(String format, Object... values) {
            System.out.printf(name + " " + format + "%n", values);
        }

        @Override
        public void onOrderAccepted(OrderAcceptedDecoder message) {
            orders.put(message.requestId(), message.orderId());
            print("accepted order %d %s quantity %s filled %s", message.orderId(), message.status(),
                Decimals.format(message.quantity().mantissa()), Decimals.format(message.filledQuantity().mantissa()));
        }

        @Override
        public void onExecutionReport(ExecutionReportDecoder message) {
            reports.add(message.orderId() + " " + message.executionType());
            print("report order %d %s %s %s price %s filled %s last %s @ %s", message.orderId(),
                message.executionType(), message.status(), message.side(),
                Decimals.format(message.price().mantissa()), Decimals.format(message.filledQuantity().mantissa()),
                Decimals.format(message.lastQuantity().mantissa()), Decimals.format(message.lastPrice().mantissa()));
        }

        @Override
        public void onReject(RejectDecoder message) {
            print("reject %d %s: %s; %s", message.code(), message.name(), message.reason(), message.remedy());
        }

        @Override
        public void onMassCancelAccepted(MassCancelAcceptedDecoder message) {
            print("cancelled %d orders", message.cancelled());
        }

        @Override
        public void onBestPrices(BestPricesDecoder message) {
            print("best bid %s @ %s ask %s @ %s", Decimals.format(message.bidQuantity().mantissa()),
                Decimals.format(message.bidPrice().mantissa()), Decimals.format(message.askQuantity().mantissa()),
                Decimals.format(message.askPrice().mantissa()));
        }

        @Override
        public void onVwap(VwapDecoder message) {
            print("vwap trades %s bid %s ask %s", Decimals.format(message.trades().mantissa()),
                Decimals.format(message.bid().mantissa()), Decimals.format(message.ask().mantissa()));
        }

        @Override
        public void onBook(BookDecoder message) {
            for (BookDecoder.LevelsDecoder level : message.levels()) {
                print("level %s %s @ %s", level.side(), Decimals.format(level.quantity().mantissa()),
                    Decimals.format(level.price().mantissa()));
            }
        }

        @Override
        public void onInstrumentStatus(InstrumentStatusDecoder message) {
            print("status %s %s", message.session(), message.state());
        }

        @Override
        public void onLost() {
            print("lost messages: query the orders");
        }
    }
}
