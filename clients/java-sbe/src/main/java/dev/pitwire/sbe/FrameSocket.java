package dev.pitwire.sbe;

import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteOrder;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import pitwire.sbe.MessageHeaderDecoder;

/**
 * A connection that carries frames: a header of six bytes in big endian (length of the whole
 * frame, encoding type), then an SBE message.
 */
final class FrameSocket implements AutoCloseable {
    static final int HEADER_BYTES = 6;
    private static final short ENCODING = (short) 0xEB50;
    /** A book of both sides with all levels fits. */
    private static final int MAX_FRAME_BYTES = 2 << 20;

    private final ByteConnection connection;
    private final UnsafeBuffer received = new UnsafeBuffer(new byte[64 << 10]);
    /** The bytes from `start` to `end` are received and not yet read. */
    private int start;
    private int end;

    FrameSocket(Gateway gateway, int timeoutMs) throws IOException {
        connection = gateway.connect(timeoutMs);
    }

    /** Completes the frame in `buffer`, whose SBE message has `messageBytes`, and sends it. */
    void send(MutableDirectBuffer buffer, int messageBytes) throws IOException {
        int length = HEADER_BYTES + messageBytes;
        buffer.putInt(0, length, ByteOrder.BIG_ENDIAN);
        buffer.putShort(4, ENCODING, ByteOrder.BIG_ENDIAN);
        connection.write(buffer.byteArray(), 0, length);
    }

    /**
     * Waits for the next frame, and wraps its SBE message. The message is valid until the next
     * call.
     */
    void receive(UnsafeBuffer message) throws IOException {
        require(HEADER_BYTES);
        int length = received.getInt(start, ByteOrder.BIG_ENDIAN);
        short encoding = received.getShort(start + 4, ByteOrder.BIG_ENDIAN);
        if (encoding != ENCODING) {
            throw VenueException.malformed(connection,
                String.format("encoding type 0x%04X, expected 0x%04X", encoding & 0xFFFF, ENCODING & 0xFFFF));
        }
        if (length < HEADER_BYTES + MessageHeaderDecoder.ENCODED_LENGTH || length > MAX_FRAME_BYTES) {
            throw VenueException.malformed(connection,
                "a frame of " + Integer.toUnsignedString(length) + " bytes");
        }
        require(length);
        message.wrap(received, start + HEADER_BYTES, length - HEADER_BYTES);
        start += length;
    }

    /** Reads from the socket until `count` bytes are there. */
    private void require(int count) throws IOException {
        if (start == end) {
            start = end = 0;
        }
        if (start + count > received.capacity()) {
            byte[] bytes = received.byteArray();
            byte[] target = count > bytes.length ? new byte[count] : bytes;
            System.arraycopy(bytes, start, target, 0, end - start);
            received.wrap(target);
            end -= start;
            start = 0;
        }
        while (end - start < count) {
            int read = connection.read(received.byteArray(), end, received.capacity() - end);
            if (read < 0) {
                throw new EOFException("the server closed the connection");
            }
            end += read;
        }
    }

    @Override
    public void close() throws IOException {
        connection.close();
    }
}
