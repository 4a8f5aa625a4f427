import java.nio.ByteBuffer;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.client.transport.HttpClientTransportOverHTTP;
import org.eclipse.jetty.io.ClientConnector;
import org.eclipse.jetty.util.ssl.SslContextFactory;
import org.eclipse.jetty.websocket.api.Callback;
import org.eclipse.jetty.websocket.api.Session;
import org.eclipse.jetty.websocket.api.exceptions.CloseException;
import org.eclipse.jetty.websocket.client.ClientUpgradeRequest;
import org.eclipse.jetty.websocket.client.WebSocketClient;

/** Jetty. */
final class Adapter extends Library {
    private WebSocketClient client;

    Adapter() {
        super("Jetty", WebSocketClient.class);
    }

    @Override
    Link open(Target target, Events events) throws Exception {
        if (client == null) {
            ClientConnector connector = new ClientConnector();
            SslContextFactory.Client trust = new SslContextFactory.Client();
            trust.setSslContext(target.trust());
            connector.setSslContextFactory(trust);
            client = new WebSocketClient(new HttpClient(new HttpClientTransportOverHTTP(connector)));
            client.setMaxTextMessageSize(MESSAGE_MOST);
            client.setMaxBinaryMessageSize(MESSAGE_MOST);
            client.setMaxFrameSize(MESSAGE_MOST);
            client.setConnectTimeout(OPEN_SECONDS * 1_000);
            client.start();
        }
        Receiver receiver = new Receiver(events);
        // The future of `connect` ends after the thread has read what is there. A busy server never
        // lets it end.
        ClientUpgradeRequest request = new ClientUpgradeRequest(target.url());
        if (target.compresses()) {
            request.addExtensions("permessage-deflate");
        }
        client.connect(receiver, request).whenComplete((session, error) -> {
            if (error != null) {
                receiver.opened.completeExceptionally(error);
            }
        });
        Session session = receiver.opened.get(OPEN_SECONDS, TimeUnit.SECONDS);
        return new Link() {
            @Override
            public void send(String text) {
                session.sendText(text, Callback.NOOP);
            }

            @Override
            public void stop() {
                session.disconnect();
            }
        };
    }

    /** Public, because Jetty calls it by a method handle. */
    public static final class Receiver extends Session.Listener.AbstractAutoDemanding {
        private final Events events;
        private final CompletableFuture<Session> opened = new CompletableFuture<>();

        Receiver(Events events) {
            this.events = events;
        }

        @Override
        public void onWebSocketOpen(Session session) {
            events.opened();
            opened.complete(session);
            // Asks for the first message.
            super.onWebSocketOpen(session);
        }

        @Override
        public void onWebSocketText(String message) {
            events.text(message, System.nanoTime());
        }

        @Override
        public void onWebSocketBinary(ByteBuffer message, Callback callback) {
            long receivedNs = System.nanoTime();
            events.binary(message, receivedNs);
            callback.succeed();
        }

        @Override
        public void onWebSocketError(Throwable error) {
            System.err.println(error);
            // The reason that Jetty gives in the close frame which it sends.
            if (error instanceof CloseException) {
                events.violated(error.toString());
            }
        }

        @Override
        public void onWebSocketClose(int code, String reason, Callback callback) {
            if (code == 1006) {
                events.lost(reason);
            } else {
                events.closed(code);
            }
            callback.succeed();
        }
    }
}
