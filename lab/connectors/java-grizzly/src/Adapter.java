import jakarta.websocket.ClientEndpointConfig;
import jakarta.websocket.CloseReason;
import jakarta.websocket.Endpoint;
import jakarta.websocket.EndpointConfig;
import jakarta.websocket.MessageHandler;
import jakarta.websocket.Session;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Set;
import org.glassfish.tyrus.client.ClientManager;
import org.glassfish.tyrus.client.ClientProperties;
import org.glassfish.tyrus.client.SslContextConfigurator;
import org.glassfish.tyrus.client.SslEngineConfigurator;
import org.glassfish.tyrus.container.grizzly.client.GrizzlyClientContainer;

/** Tyrus, the reference implementation of Jakarta WebSocket, on Grizzly. */
final class Adapter extends Library {
    private static final Set<Integer> VIOLATIONS = Set.of(1002, 1003, 1007, 1009);

    private ClientManager client;

    Adapter() {
        super("Tyrus on Grizzly", ClientManager.class);
    }

    @Override
    Link open(Target target, Events events) throws Exception {
        if (client == null) {
            client = ClientManager.createClient(GrizzlyClientContainer.class.getName());
            client.setDefaultMaxTextMessageBufferSize(MESSAGE_MOST);
            client.setDefaultMaxBinaryMessageBufferSize(MESSAGE_MOST);
            client.getProperties().put(ClientProperties.HANDSHAKE_TIMEOUT, OPEN_SECONDS * 1_000);
            client.getProperties().put(ClientProperties.INCOMING_BUFFER_SIZE, 4 * MESSAGE_MOST);
            if (target.trust() != null) {
                client.getProperties().put(ClientProperties.SSL_ENGINE_CONFIGURATOR,
                        new SslEngineConfigurator(target.trust()));
            }
        }
        Session session = client.connectToServer(new Receiver(events), ClientEndpointConfig.Builder.create().build(),
                target.url());
        return new Link() {
            @Override
            public void send(String text) throws IOException {
                session.getBasicRemote().sendText(text);
            }

            @Override
            public void stop() {
                try {
                    session.close(new CloseReason(CloseReason.CloseCodes.GOING_AWAY, "stopped"));
                } catch (IOException | IllegalStateException error) {
                    events.lost(error.toString());
                }
            }
        };
    }

    private static final class Receiver extends Endpoint {
        private final Events events;

        Receiver(Events events) {
            this.events = events;
        }

        @Override
        public void onOpen(Session session, EndpointConfig config) {
            events.opened();
            session.addMessageHandler(String.class, message -> events.text(message, System.nanoTime()));
            session.addMessageHandler(ByteBuffer.class, message -> events.binary(message, System.nanoTime()));
        }

        @Override
        public void onError(Session session, Throwable error) {
            System.err.println(error);
        }

        @Override
        public void onClose(Session session, CloseReason reason) {
            int code = reason.getCloseCode().getCode();
            if (code == 1006) {
                events.lost(reason.getReasonPhrase());
            } else if (VIOLATIONS.contains(code)) {
                // Tyrus does not say which side closed. Servers use these codes for violations of a
                // client.
                events.violated(reason.toString());
            } else {
                events.closed(code);
            }
        }
    }
}
