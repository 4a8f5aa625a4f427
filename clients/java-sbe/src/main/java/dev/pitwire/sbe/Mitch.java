package dev.pitwire.sbe;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * Layout of the units and messages of the order-by-order feed; docs/order-feed.md has all fields.
 */
final class Mitch {
    static final int MAX_UNIT_BYTES = 65_535;
    static final int UNIT_HEADER_BYTES = 8;
    private static final int MESSAGE_HEADER_BYTES = 3;
    private static final byte GROUP = 'P';

    static final int LOGIN_REQUEST = 0x01;
    static final int LOGIN_RESPONSE = 0x02;
    static final int REPLAY_REQUEST = 0x03;
    static final int REPLAY_RESPONSE = 0x04;
    static final int SNAPSHOT_REQUEST = 0x81;
    static final int SNAPSHOT_RESPONSE = 0x82;
    static final int SNAPSHOT_COMPLETE = 0x83;

    private Mitch() { }

    /** Receives the messages of a unit. `body` is the offset of the first field. */
    interface MessageConsumer {
        void accept(long number, int type, DirectBuffer buffer, int body, int bodyBytes);
    }

    static int unitBytes(DirectBuffer unit) {
        return int16(unit, 0);
    }

    static int messageCount(DirectBuffer unit) {
        return unit.getByte(2) & 0xFF;
    }

    /** Number of the first message, or of the next one in a heartbeat. */
    static long firstNumber(DirectBuffer unit) {
        return int32(unit, 4);
    }

    static int int16(DirectBuffer buffer, int offset) {
        return buffer.getShort(offset, ByteOrder.LITTLE_ENDIAN) & 0xFFFF;
    }

    static long int32(DirectBuffer buffer, int offset) {
        return buffer.getInt(offset, ByteOrder.LITTLE_ENDIAN) & 0xFFFF_FFFFL;
    }

    static long int64(DirectBuffer buffer, int offset) {
        return buffer.getLong(offset, ByteOrder.LITTLE_ENDIAN);
    }

    /** Returns whether the bytes are one whole unit of whole messages. */
    static boolean isUnit(DirectBuffer unit, int bytes) {
        if (bytes < UNIT_HEADER_BYTES || unitBytes(unit) != bytes) {
            return false;
        }
        int at = UNIT_HEADER_BYTES;
        for (int left = messageCount(unit); left > 0; left--) {
            int length = at + MESSAGE_HEADER_BYTES <= bytes ? int16(unit, at) : 0;
            if (length < MESSAGE_HEADER_BYTES || at + length > bytes) {
                return false;
            }
            at += length;
        }
        return at == bytes;
    }

    /** Passes on the messages of a whole unit from number `from`. */
    static void forEach(DirectBuffer unit, long from, MessageConsumer consumer) {
        long number = firstNumber(unit);
        int at = UNIT_HEADER_BYTES;
        for (int left = messageCount(unit); left > 0; left--) {
            int length = int16(unit, at);
            if (number >= from) {
                consumer.accept(number, unit.getByte(at + 2) & 0xFF, unit, at + MESSAGE_HEADER_BYTES,
                    length - MESSAGE_HEADER_BYTES);
            }
            number++;
            at += length;
        }
    }

    /**
     * Writes a request of the recovery port with an empty body of `bodyBytes`. Returns the body's
     * offset.
     */
    static int putRequest(MutableDirectBuffer unit, int type, int bodyBytes) {
        int body = UNIT_HEADER_BYTES + MESSAGE_HEADER_BYTES;
        unit.setMemory(0, body + bodyBytes, (byte) 0);
        unit.putShort(0, (short) (body + bodyBytes), ByteOrder.LITTLE_ENDIAN);
        unit.putByte(2, (byte) 1);
        unit.putByte(3, GROUP);
        unit.putShort(UNIT_HEADER_BYTES, (short) (MESSAGE_HEADER_BYTES + bodyBytes), ByteOrder.LITTLE_ENDIAN);
        unit.putByte(UNIT_HEADER_BYTES + 2, (byte) type);
        return body;
    }

    static void putReplayRange(MutableDirectBuffer unit, int body, long first, int count) {
        unit.putByte(body, GROUP);
        unit.putInt(body + 1, (int) first, ByteOrder.LITTLE_ENDIAN);
        unit.putShort(body + 5, (short) count, ByteOrder.LITTLE_ENDIAN);
    }
}
