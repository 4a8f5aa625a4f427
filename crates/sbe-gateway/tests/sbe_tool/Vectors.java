import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HexFormat;
import org.agrona.concurrent.UnsafeBuffer;
import pitwire.sbe.*;

/**
 * Prints frames that the codecs of sbe-tool 1.38.1 encode: one message per line, its name and its
 * bytes. `scripts/regenerate-sbe-vectors` runs it; the tests of this crate compare their bytes.
 */
public final class Vectors {
    private static final UnsafeBuffer BUFFER = new UnsafeBuffer(new byte[4096]);
    private static final int FRAME_HEADER = 6;
    private static final MessageHeaderEncoder HEADER = new MessageHeaderEncoder();

    private static void print(String name, int encodedLength) {
        int bytes = FRAME_HEADER + MessageHeaderEncoder.ENCODED_LENGTH + encodedLength;
        BUFFER.putInt(0, bytes, ByteOrder.BIG_ENDIAN);
        BUFFER.putShort(4, (short) 0xEB50, ByteOrder.BIG_ENDIAN);
        byte[] frame = new byte[bytes];
        BUFFER.getBytes(0, frame);
        System.out.println(name + " " + HexFormat.of().formatHex(frame));
    }

    public static void main(String[] args) {
        LogonEncoder logon = new LogonEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        logon.clientId("demo-a").secret("demo-a-secret").nextSequence(12).heartbeatS(30);
        print("Logon", logon.encodedLength());

        NewOrderEncoder order = new NewOrderEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        order.requestId(7).clientOrderId("c-1").instrumentId(1).side(OrderSide.Sell).orderType(EntryType.StopLimit);
        order.timeInForce(EntryTimeInForce.Gtd).hidden(Flag.No).postOnly(Flag.Yes).expires(20261231);
        order.quantity().mantissa(1_000_000_000L);
        order.price().mantissa(320_050_000_000L);
        order.triggerPrice().mantissa(319_900_000_000L);
        order.displayQuantity().mantissa(DecimalEncoder.mantissaNullValue());
        order.minimumQuantity().mantissa(DecimalEncoder.mantissaNullValue());
        print("NewOrder", order.encodedLength());

        ExecutionReportEncoder report = new ExecutionReportEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        report.sequence(3).executionType(ExecutionType.Trade).status(OrderStatus.Open).side(OrderSide.Buy);
        report.liquidity(LiquidityFlag.Added).instrumentId(1).orderId(81).clientOrderId("c1");
        report.price().mantissa(320_000_000_000L);
        report.quantity().mantissa(1_000_000_000L);
        report.filledQuantity().mantissa(400_000_000L);
        report.lastPrice().mantissa(320_000_000_000L);
        report.lastQuantity().mantissa(400_000_000L);
        report.tradeSequence(1).transactTimeMs(1_795_491_910_595L).cancelReason("");
        print("ExecutionReport", report.encodedLength());

        RejectEncoder reject = new RejectEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        reject.sequence(4).requestId(8).templateId(10).code(10043);
        reject.name("price_wrong_tick").reason("3200.001 is not a multiple of 0.01").remedy("Round the price to tick_size.");
        print("Reject", reject.encodedLength());

        BookEncoder book = new BookEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        book.sequence(5).requestId(9).instrumentId(1);
        BookEncoder.LevelsEncoder levels = book.levelsCount(2);
        levels.next().side(OrderSide.Buy).price().mantissa(319_000_000_000L);
        levels.quantity().mantissa(800_000_000L);
        levels.next().side(OrderSide.Sell).price().mantissa(330_050_000_000L);
        levels.quantity().mantissa(100_000_000L);
        print("Book", book.encodedLength());

        CancelOrderEncoder cancel = new CancelOrderEncoder().wrapAndApplyHeader(BUFFER, FRAME_HEADER, HEADER);
        cancel.requestId(10).orderId(81);
        print("CancelOrder", cancel.encodedLength());
    }
}
