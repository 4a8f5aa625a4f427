import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;

/** What happens on one connection. The library's thread calls it: this is the receive path. */
final class Events {
    /**
     * Reason as in the table `gap`, the close code or 0, a text for the log, and when it was
     * noticed.
     */
    record Ended(String reason, int code, String text, long atNs) {}

    private static final int ENVELOPE_BYTES = 108;
    private static final boolean HAS_ENVELOPE = "text".equals(System.getenv("LAB_ENVELOPE"));
    private static final boolean KEEPS_PAYLOAD = "all".equals(System.getenv("LAB_PAYLOAD"));

    final CompletableFuture<Ended> ended = new CompletableFuture<>();
    private final Capture capture;
    private final AtomicLong connections;
    private volatile long connection;
    private volatile boolean over;

    Events(Capture capture, AtomicLong connections) {
        this.capture = capture;
        this.connections = connections;
    }

    void opened() {
        connection = connections.incrementAndGet();
        capture.opened(connection, System.nanoTime());
    }

    boolean wasOpened() {
        return connection > 0;
    }

    long connection() {
        return connection;
    }

    void text(String message, long receivedNs) {
        if (over) {
            return;
        }
        byte[] body = KEEPS_PAYLOAD ? message.getBytes(StandardCharsets.UTF_8) : null;
        long length = Text.utf8Length(message);
        if (HAS_ENVELOPE && message.length() >= ENVELOPE_BYTES && message.startsWith("{\"seq\":\"")) {
            capture.ring.put(connection, Text.number(message, 100, 106), Text.number(message, 8, 27),
                    Text.number(message, 39, 58), Text.number(message, 71, 90), receivedNs, length, 0, body);
        } else {
            capture.ring.put(connection, -1, -1, -1, -1, receivedNs, length, 2, body);
        }
    }

    void binary(ByteBuffer message, long receivedNs) {
        if (over) {
            return;
        }
        int length = message.remaining();
        byte[] body = null;
        if (KEEPS_PAYLOAD) {
            body = new byte[length];
            message.get(body);
        }
        capture.ring.put(connection, -1, -1, -1, -1, receivedNs, length, 3, body);
    }

    /** The server sent a close frame. 1005: without a code. */
    void closed(int code) {
        end("close", code, "close frame");
    }

    void violated(String what) {
        end("protocol", 0, what);
    }

    void lost(String what) {
        end("lost", 0, what);
    }

    /** Messages that come after this call are ignored. */
    void finish() {
        over = true;
    }

    /**
     * The first reason counts: libraries report an error and then the close that follows from it.
     */
    private void end(String reason, int code, String text) {
        ended.complete(new Ended(reason, code, text, System.nanoTime()));
    }
}
