package dev.pitwire.sbe;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** The connection to the recovery port: replays of missed messages, and snapshots of the books. */
final class Recovery implements AutoCloseable {
    private static final int TIMEOUT_MS = 15_000;
    private static final int MAX_REPLAY_MESSAGES = 65_535;
    private static final byte ACCEPTED = 'A';

    private final InetSocketAddress address;
    private final Socket socket = new Socket();
    private final InputStream input;
    private final UnsafeBuffer request = new UnsafeBuffer(new byte[64]);
    private final UnsafeBuffer unit = new UnsafeBuffer(new byte[Mitch.MAX_UNIT_BYTES]);

    /** Connects and logs in. */
    Recovery(InetSocketAddress address) throws IOException {
        this.address = address;
        try {
            socket.setSoTimeout(TIMEOUT_MS);
            socket.connect(address, TIMEOUT_MS);
            input = socket.getInputStream();
            Mitch.putRequest(request, Mitch.LOGIN_REQUEST, 16);
            int body = exchange(Mitch.LOGIN_RESPONSE, 1);
            if (unit.getByte(body) != ACCEPTED) {
                throw malformed("a refused login");
            }
        } catch (IOException | RuntimeException error) {
            socket.close();
            throw error;
        }
    }

    /** The books after message `newest`. */
    record Snapshot(Books books, long newest) { }

    /** Returns a snapshot, or null if the venue has too many requests for one. */
    Snapshot snapshot() throws IOException {
        Mitch.putRequest(request, Mitch.SNAPSHOT_REQUEST, 30);
        int body = exchange(Mitch.SNAPSHOT_RESPONSE, 9);
        if (unit.getByte(body + 8) != ACCEPTED) {
            return null;
        }
        long newest = Mitch.int32(unit, body);
        long orders = Mitch.int32(unit, body + 4);
        var books = new Books();
        // The unit of the answer has the first messages, too.
        while (!applySnapshotUnit(books)) {
            receive();
        }
        if (books.orderCount() != orders) {
            throw malformed("a snapshot of " + books.orderCount() + " orders that announced " + orders);
        }
        return new Snapshot(books, newest);
    }

    /** Applies the messages of the received unit. Returns whether the snapshot is complete. */
    private boolean applySnapshotUnit(Books books) {
        var isComplete = new boolean[1];
        Mitch.forEach(unit, 0, (number, type, buffer, body, bytes) -> {
            isComplete[0] |= type == Mitch.SNAPSHOT_COMPLETE;
            apply(books, type, buffer, body, bytes);
        });
        return isComplete[0];
    }

    private void apply(Books books, int type, DirectBuffer buffer, int body, int bodyBytes) {
        try {
            books.apply(type, buffer, body, bodyBytes);
        } catch (Books.MisfitException misfit) {
            throw malformed("a snapshot with " + misfit.getMessage());
        }
    }

    enum ReplayOutcome { COMPLETE, TRY_AGAIN, UNAVAILABLE }

    /** Requests messages, and passes on the units that have them. */
    ReplayOutcome replay(long first, long count, Consumer<DirectBuffer> consumer) throws IOException {
        int requestBody = Mitch.putRequest(request, Mitch.REPLAY_REQUEST, 7);
        Mitch.putReplayRange(request, requestBody, first, (int) Math.min(count, MAX_REPLAY_MESSAGES));
        int body = exchange(Mitch.REPLAY_RESPONSE, 8);
        byte status = unit.getByte(body + 7);
        if (status != ACCEPTED) {
            return status == 'O' ? ReplayOutcome.UNAVAILABLE : ReplayOutcome.TRY_AGAIN;
        }
        for (int left = Mitch.int16(unit, body + 5); left > 0; left -= Mitch.messageCount(unit)) {
            receive();
            consumer.accept(unit);
        }
        return ReplayOutcome.COMPLETE;
    }

    /**
     * Returns whether the venue still has the connection open. Its end means that the venue has
     * stopped.
     */
    boolean isOpen() {
        try {
            socket.setSoTimeout(1);
            return input.read() >= 0;
        } catch (SocketTimeoutException nothing) {
            return true;
        } catch (IOException reset) {
            return false;
        } finally {
            restoreTimeout();
        }
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }

    private void restoreTimeout() {
        try {
            socket.setSoTimeout(TIMEOUT_MS);
        } catch (IOException closed) {
            // The next request fails.
        }
    }

    /**
     * Sends the request and waits for its answer, whose body has at least `bytes`. Returns the
     * body's offset.
     */
    private int exchange(int answer, int bytes) throws IOException {
        socket.getOutputStream().write(request.byteArray(), 0, Mitch.unitBytes(request));
        receive();
        int[] found = {-1};
        Mitch.forEach(unit, 0, (number, type, buffer, body, bodyBytes) -> {
            if (type == answer && bodyBytes >= bytes) {
                found[0] = body;
            }
        });
        if (found[0] < 0) {
            throw malformed("something else than the answer to a request");
        }
        return found[0];
    }

    private void receive() throws IOException {
        read(0, Mitch.UNIT_HEADER_BYTES);
        int length = Mitch.unitBytes(unit);
        if (length < Mitch.UNIT_HEADER_BYTES) {
            throw malformed("a unit of " + length + " bytes");
        }
        read(Mitch.UNIT_HEADER_BYTES, length);
        if (!Mitch.isUnit(unit, length)) {
            throw malformed("a unit whose messages do not fit it");
        }
    }

    private void read(int from, int to) throws IOException {
        if (input.readNBytes(unit.byteArray(), from, to - from) < to - from) {
            throw new EOFException("the venue closed the recovery connection");
        }
    }

    private VenueException malformed(String what) {
        return VenueException.malformed(address, what);
    }
}
