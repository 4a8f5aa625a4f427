import cointossx.admin.AdminEncoder;
import cointossx.admin.AdminType;
import cointossx.admin.LobEncoder;
import cointossx.market.BestBidOfferEncoder;
import cointossx.market.MessageType;
import cointossx.market.OrderExecutedWithPriceSizeEncoder;
import cointossx.market.Printable;
import cointossx.trading.*;
import java.nio.ByteOrder;
import java.util.HexFormat;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Prints frames of the CoinTossX profile that the codecs of sbe-tool 1.38.1 encode, as
 * `Vectors.java` does for the other schema. The compID is 7 where the header has one.
 */
public final class CoinTossXVectors {
    private static final UnsafeBuffer BUFFER = new UnsafeBuffer(new byte[4096]);
    private static final int FRAME_HEADER = 6;
    private static final int COMP_ID = 7;
    private static final MessageHeaderEncoder HEADER = new MessageHeaderEncoder();
    private static final cointossx.admin.MessageHeaderEncoder ADMIN_HEADER = new cointossx.admin.MessageHeaderEncoder();
    private static final cointossx.market.MessageHeaderEncoder MARKET_HEADER =
        new cointossx.market.MessageHeaderEncoder();

    private static void print(String name, int headerLength, int encodedLength) {
        int bytes = FRAME_HEADER + headerLength + encodedLength;
        BUFFER.putInt(0, bytes, ByteOrder.BIG_ENDIAN);
        BUFFER.putShort(4, (short) 0xEB50, ByteOrder.BIG_ENDIAN);
        byte[] frame = new byte[bytes];
        BUFFER.getBytes(0, frame);
        System.out.println(name + " " + HexFormat.of().formatHex(frame));
    }

    private static String padded(String text, int length) {
        return String.format("%-" + length + "s", text);
    }

    public static void main(String[] args) {
        LogonEncoder logon = new LogonEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        HEADER.compID(COMP_ID);
        logon.compId(COMP_ID).password("test777777").newPassword(padded("", 10));
        print("Logon", HEADER.encodedLength(), logon.encodedLength());

        NewOrderEncoder order = new NewOrderEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        HEADER.compID(COMP_ID);
        order.clientOrderId(padded("c-1", 20)).securityId(1).traderMnemonic(padded("John", 17)).account("account123");
        order.orderType(OrderType.StopLimit).timeInForce(TimeInForce.Gfx).expireTime("20211230-23:00:00");
        order.side(Side.Sell).orderQuantity(1000).displayQuantity(100).minQuantity(50);
        order.limitPrice().mantissa(32_005_000);
        order.stopPrice().mantissa(31_990_000);
        order.capacity(Capacity.Agency).cancelOnDisconnect(CancelOnDisconnect.Cancel).orderBook(OrderBook.Regular);
        print("NewOrder", HEADER.encodedLength(), order.encodedLength());

        OrderCancelRequestEncoder cancel =
            new OrderCancelRequestEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        HEADER.compID(COMP_ID);
        cancel.clientOrderId(padded("c-2", 20)).origClientOrderId(padded("c-1", 20)).orderId(81).securityId(1);
        cancel.traderMnemonic(padded("John", 17)).side(Side.Sell).orderBook(OrderBook.Regular);
        cancel.limitPrice().mantissa(32_005_000);
        print("OrderCancelRequest", HEADER.encodedLength(), cancel.encodedLength());

        OrderCancelReplaceRequestEncoder replace =
            new OrderCancelReplaceRequestEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        HEADER.compID(COMP_ID);
        replace.clientOrderId(padded("c-3", 20)).origClientOrderId(padded("c-1", 20)).orderId(81).securityId(1);
        replace.traderMnemonic(padded("John", 17)).account("account123").orderType(OrderType.Limit);
        replace.timeInForce(TimeInForce.Day).expireTime(padded("", 17)).side(Side.Buy).orderQuantity(12);
        replace.displayQuantity(12).minQuantity(0);
        replace.limitPrice().mantissa(31_900_000);
        replace.stopPrice().mantissa(0);
        replace.orderBook(OrderBook.Regular);
        print("OrderCancelReplaceRequest", HEADER.encodedLength(), replace.encodedLength());

        ExecutionReportEncoder report = new ExecutionReportEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        HEADER.compID(COMP_ID);
        report.partitionId((short) 1).sequenceNumber(3).executionId(padded("1a-3", 21));
        report.clientOrderId(padded("c-1", 20)).orderId(81).executionType(ExecutionType.Trade);
        report.orderStatus(OrderStatus.PartiallyFilled).rejectCode(0).leavesQuantity(6).container(Container.Main);
        report.securityId(1).side(Side.Buy).traderMnemonic(padded("John", 17)).account("account123");
        report.isMarketOpsRequest((short) 0).transactTime(1_795_491_910_595L).orderBook(OrderBook.Regular);
        ExecutionReportEncoder.FillsGroupEncoder fills = report.fillsGroupCount(2);
        fills.next().fillPrice().mantissa(32_000_000);
        fills.fillQty(4);
        fills.next().fillPrice().mantissa(32_010_000);
        fills.fillQty(5);
        print("ExecutionReport", HEADER.encodedLength(), report.encodedLength());

        OrderExecutedWithPriceSizeEncoder execution =
            new OrderExecutedWithPriceSizeEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, MARKET_HEADER);
        execution.messageType(MessageType.OrderExecutedPriceSize).nanosecond(595_000_000).orderId(81);
        execution.executedQuantity(4).displayQuantity(6).tradeId(12).printable(Printable.Printable);
        execution.price().mantissa(32_000_000);
        execution.instrumentId(1).clientOrderId(0).executedTime(1_795_491_910_595L);
        print("OrderExecutedWithPriceSize", MARKET_HEADER.encodedLength(), execution.encodedLength());

        BestBidOfferEncoder best = new BestBidOfferEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, MARKET_HEADER);
        best.messageType(MessageType.BestBidAsk).instrumentId(1).bidQuantity(3).offerQuantity(2);
        best.bid().mantissa(31_000_000);
        best.offer().mantissa(33_005_000);
        print("BestBidOffer", MARKET_HEADER.encodedLength(), best.encodedLength());

        AdminEncoder admin = new AdminEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, ADMIN_HEADER);
        ADMIN_HEADER.compID(COMP_ID);
        admin.adminMessage(AdminType.EndMessage).securityId(1);
        print("Admin", ADMIN_HEADER.encodedLength(), admin.encodedLength());

        LobEncoder lob = new LobEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, ADMIN_HEADER);
        ADMIN_HEADER.compID(COMP_ID);
        LobEncoder.OrdersEncoder orders = lob.securityId(1).ordersCount(1);
        orders.next().orderId(81).orderQuantity(10).side(cointossx.admin.Side.Sell);
        orders.price().mantissa(33_005_000);
        orders.clientOrderId(padded("c-1", 20));
        print("Lob", ADMIN_HEADER.encodedLength(), lob.encodedLength());
    }
}
