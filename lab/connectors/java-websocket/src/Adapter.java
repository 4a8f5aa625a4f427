import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.java_websocket.client.WebSocketClient;
import org.java_websocket.drafts.Draft_6455;
import org.java_websocket.extensions.IExtension;
import org.java_websocket.extensions.permessage_deflate.PerMessageDeflateExtension;
import org.java_websocket.handshake.ServerHandshake;
import org.java_websocket.protocols.IProtocol;
import org.java_websocket.protocols.Protocol;

/** Java-WebSocket. */
final class Adapter extends Library {
    private static final Set<Integer> VIOLATIONS = Set.of(1002, 1003, 1007, 1009);

    Adapter() {
        super("Java-WebSocket", WebSocketClient.class);
    }

    @Override
    Link open(Target target, Events events) throws Exception {
        Client client = new Client(target, events);
        client.connectBlocking(OPEN_SECONDS, TimeUnit.SECONDS);
        if (!events.wasOpened()) {
            throw client.failure == null ? new IllegalStateException("no answer") : client.failure;
        }
        return client;
    }

    private static final class Client extends WebSocketClient implements Link {
        private final Events events;
        private volatile Exception failure;

        Client(Target target, Events events) {
            super(target.url(), new Draft_6455(extensions(target), List.<IProtocol>of(new Protocol("")), MESSAGE_MOST),
                    null, OPEN_SECONDS * 1_000);
            this.events = events;
            setTcpNoDelay(true);
            if (target.trust() != null) {
                setSocketFactory(target.trust().getSocketFactory());
            }
            // No keep-alive pings: their timer would disturb the measurement.
            setConnectionLostTimeout(0);
        }

        private static List<IExtension> extensions(Target target) {
            return target.compresses() ? List.of(new PerMessageDeflateExtension()) : List.of();
        }

        @Override
        public void stop() {
            closeConnection(1001, "stopped");
        }

        @Override
        public void onOpen(ServerHandshake handshake) {
            events.opened();
        }

        @Override
        public void onMessage(String message) {
            events.text(message, System.nanoTime());
        }

        @Override
        public void onMessage(ByteBuffer message) {
            events.binary(message, System.nanoTime());
        }

        @Override
        public void onClose(int code, String reason, boolean isRemote) {
            if (!isRemote && VIOLATIONS.contains(code)) {
                events.violated(code + " " + reason);
            } else if (code == 1006 || code == -1) {
                events.lost(reason);
            } else {
                events.closed(code);
            }
        }

        @Override
        public void onError(Exception error) {
            failure = error;
        }
    }
}
