import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import javax.net.ssl.SSLContext;
import org.java_websocket.client.WebSocketClient;
import org.java_websocket.drafts.Draft_6455;
import org.java_websocket.extensions.IExtension;
import org.java_websocket.handshake.ServerHandshake;
import org.java_websocket.protocols.IProtocol;
import org.java_websocket.protocols.Protocol;
import sun.misc.Signal;

/** A connector of the latency laboratory with Java-WebSocket, by contracts/lab-connector.md. */
public final class Connector {
    private static final int DONE = 0, USAGE = 2, REMOTE_CLOSE = 3, CONNECT_FAILURE = 4, PROTOCOL_ERROR = 5,
            CAPTURE_ERROR = 6;
    private static final List<String> NEEDED = List.of("URL", "CAPTURE", "SCHEMA", "EXIT_FILE", "RUN", "CONNECTOR",
            "EXCHANGE", "ENVELOPE", "PAYLOAD", "RECONNECT");
    private static final int MESSAGE_MOST = 16 << 20;
    private static final int ENVELOPE_BYTES = 108;
    private static final long GIVE_UP_NS = 10_000_000_000L;

    private final Map<String, String> settings = System.getenv();
    private final boolean hasEnvelope = "text".equals(settings.get("LAB_ENVELOPE"));
    private final boolean keepsPayload = "all".equals(settings.get("LAB_PAYLOAD"));
    /** Trusts the certificates of LAB_CA. Null: plain, or those of the system. */
    private final SSLContext trust;
    private Capture capture;
    private long connectionId;
    private volatile boolean stopping;
    private volatile Client client;

    /** One connection. Its callbacks are the receive path. */
    private final class Client extends WebSocketClient {
        private final CountDownLatch ended = new CountDownLatch(1);
        private volatile int closeCode;
        private volatile boolean wasOpen, isRemote;
        private volatile long endedNs;
        private volatile Exception failure;

        Client() {
            super(URI.create(settings.get("LAB_URL")), new Draft_6455(List.<IExtension>of(),
                    List.<IProtocol>of(new Protocol("")), MESSAGE_MOST), null, 5_000);
            setTcpNoDelay(true);
            if (trust != null) {
                setSocketFactory(trust.getSocketFactory());
            }
            // No keep-alive pings: their timer would disturb the measurement.
            setConnectionLostTimeout(0);
        }

        @Override
        public void onOpen(ServerHandshake handshake) {
            wasOpen = true;
            connectionId++;
            capture.opened(connectionId, System.nanoTime());
            String subscription = settings.getOrDefault("LAB_SUBSCRIBE", "");
            if (!subscription.isEmpty()) {
                send(subscription);
            }
        }

        @Override
        public void onMessage(String message) {
            long receivedNs = System.nanoTime();
            byte[] body = keepsPayload ? message.getBytes(StandardCharsets.UTF_8) : null;
            if (hasEnvelope && message.length() >= ENVELOPE_BYTES && message.startsWith("{\"seq\":\"")) {
                capture.ring.put(connectionId, Text.number(message, 100, 106), Text.number(message, 8, 27),
                        Text.number(message, 39, 58), Text.number(message, 71, 90), receivedNs, Text.utf8Length(message), 0, body);
            } else {
                capture.ring.put(connectionId, -1, -1, -1, -1, receivedNs, Text.utf8Length(message), 2, body);
            }
        }

        @Override
        public void onMessage(ByteBuffer message) {
            long receivedNs = System.nanoTime();
            int length = message.remaining();
            byte[] body = null;
            if (keepsPayload) {
                body = new byte[length];
                message.get(body);
            }
            capture.ring.put(connectionId, -1, -1, -1, -1, receivedNs, length, 3, body);
        }

        @Override
        public void onClose(int code, String reason, boolean remote) {
            endedNs = System.nanoTime();
            closeCode = code;
            isRemote = remote;
            ended.countDown();
        }

        @Override
        public void onError(Exception error) {
            failure = error;
        }
    }

    private Connector() throws IOException, GeneralSecurityException {
        String file = settings.getOrDefault("LAB_CA", "");
        trust = file.isEmpty() || !settings.get("LAB_URL").startsWith("wss:") ? null : Trust.of(Path.of(file));
    }

    /** Opens a connection, or returns null. */
    private Client open() throws InterruptedException {
        Client opened = new Client();
        client = opened;
        opened.connectBlocking(5, TimeUnit.SECONDS);
        // The connection may already be closed again.
        if (!opened.wasOpen) {
            System.err.println("cannot connect to " + settings.get("LAB_URL") + ": " + opened.failure);
            return null;
        }
        return opened;
    }

    /** Tries again for ten seconds, at once and then every 50 to 200 ms. */
    private Client reopen() throws InterruptedException {
        long untilNs = System.nanoTime() + GIVE_UP_NS;
        while (System.nanoTime() < untilNs && !stopping) {
            Client opened = open();
            if (opened != null) {
                return opened;
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(50, 200));
        }
        return null;
    }

    /** Receives until the feed or the run is over. Returns the exit code. */
    private int run() throws InterruptedException {
        Client current = open();
        while (current != null) {
            if (stopping) {
                current.closeConnection(1001, "stopped");
            }
            current.ended.await();
            if (stopping || (current.closeCode == 1000 && current.isRemote)) {
                return DONE;
            }
            boolean isProtocol = !current.isRemote && List.of(1002, 1003, 1007, 1009).contains(current.closeCode);
            String reason = isProtocol ? "protocol" : List.of(1006, -1).contains(current.closeCode) ? "lost" : "close";
            System.err.println("connection " + connectionId + " ended: " + reason + " " + current.closeCode);
            capture.ended(connectionId, reason, reason.equals("close") ? current.closeCode : 0, current.endedNs);
            if (!"1".equals(settings.get("LAB_RECONNECT"))) {
                return isProtocol ? PROTOCOL_ERROR : REMOTE_CLOSE;
            }
            current = reopen();
        }
        return stopping ? DONE : CONNECT_FAILURE;
    }

    private void stop() {
        stopping = true;
        if (client != null) {
            client.closeConnection(1001, "stopped");
        }
    }

    private int start() throws InterruptedException {
        for (String name : new String[] {"TERM", "INT"}) {
            Signal.handle(new Signal(name), signal -> stop());
        }
        try {
            capture = new Capture("Java-WebSocket", Text.versionOfFile(WebSocketClient.class), this::stop);
        } catch (Exception error) {
            System.err.println("cannot write " + settings.get("LAB_CAPTURE") + ": " + error);
            System.out.println("done " + CAPTURE_ERROR + " 0");
            return CAPTURE_ERROR;
        }
        int code = capture.finish(run());
        System.out.println("done " + code + " " + capture.ring.received());
        return code;
    }

    private static boolean shakeHands() throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("clock")) {
                System.out.println("clock " + System.nanoTime());
            } else if (line.equals("go")) {
                return true;
            }
        }
        return false;
    }

    public static void main(String[] arguments) throws Exception {
        for (String name : NEEDED) {
            if (System.getenv("LAB_" + name) == null) {
                System.err.println("the environment has no LAB_" + name);
                System.exit(USAGE);
            }
        }
        if (!System.getenv().getOrDefault("LAB_BUSY_WAIT_NS", "").isEmpty()) {
            System.err.println("this connector does not offer LAB_BUSY_WAIT_NS");
            System.exit(USAGE);
        }
        System.exit(shakeHands() ? new Connector().start() : USAGE);
    }
}
