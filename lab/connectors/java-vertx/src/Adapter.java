import io.netty.handler.codec.CorruptedFrameException;
import io.netty.handler.codec.TooLongFrameException;
import io.vertx.core.Handler;
import io.vertx.core.Vertx;
import io.vertx.core.VertxOptions;
import io.vertx.core.buffer.Buffer;
import io.vertx.core.http.ClientWebSocket;
import io.vertx.core.http.WebSocket;
import io.vertx.core.http.WebSocketClient;
import io.vertx.core.http.WebSocketClientOptions;
import io.vertx.core.http.WebSocketConnectOptions;
import io.vertx.core.http.WebSocketFrame;
import io.vertx.core.net.PemTrustOptions;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** Vert.x. */
final class Adapter extends Library {
    private WebSocketClient client;

    Adapter() {
        super("Vert.x", Vertx.class);
    }

    @Override
    Link open(Target target, Events events) throws Exception {
        if (client == null) {
            // Without checks for blocked threads: their timer would disturb the measurement.
            Vertx vertx = Vertx.vertx(new VertxOptions().setEventLoopPoolSize(1).setBlockedThreadCheckInterval(3_600_000));
            WebSocketClientOptions options = new WebSocketClientOptions().setMaxFrameSize(MESSAGE_MOST)
                    .setMaxMessageSize(MESSAGE_MOST).setConnectTimeout(OPEN_SECONDS * 1_000).setTcpNoDelay(true)
                    .setClosingTimeout(0).setTryUsePerMessageCompression(target.compresses())
                    // By default Vert.x refuses a server that says it keeps no context.
                    .setCompressionAllowClientNoContext(true).setCompressionRequestServerNoContext(true);
            if (target.ca() != null) {
                options.setTrustOptions(new PemTrustOptions().addCertPath(target.ca().toString()));
            }
            client = vertx.createWebSocketClient(options);
        }
        ClientWebSocket socket = client.webSocket();
        socket.frameHandler(new Frames(socket, events));
        socket.exceptionHandler(error -> {
            if (error instanceof CorruptedFrameException || error instanceof TooLongFrameException) {
                events.violated(error.getMessage());
            }
        });
        socket.closeHandler(closed -> {
            Short code = socket.closeStatusCode();
            if (code == null || code == 1006) {
                events.lost("end of stream");
            } else {
                events.closed(code);
            }
        });
        WebSocketConnectOptions options = new WebSocketConnectOptions().setAbsoluteURI(target.url().toString())
                .setTimeout(OPEN_SECONDS * 1_000L);
        // The first message may follow the handshake in the same read.
        WebSocket open = socket.connect(options).onSuccess(connected -> events.opened()).toCompletionStage()
                .toCompletableFuture().get(OPEN_SECONDS + 1, TimeUnit.SECONDS);
        return new Link() {
            @Override
            public void send(String text) {
                open.writeTextMessage(text);
            }

            @Override
            public void stop() {
                open.close((short) 1001, "stopped");
            }
        };
    }

    /**
     * Joins fragments and checks texts, because a text handler of Vert.x replaces what is not
     * UTF-8.
     */
    private static final class Frames implements Handler<WebSocketFrame> {
        private final ClientWebSocket socket;
        private final Events events;
        private Buffer message;
        private boolean isText;

        Frames(ClientWebSocket socket, Events events) {
            this.socket = socket;
            this.events = events;
        }

        @Override
        public void handle(WebSocketFrame frame) {
            long receivedNs = System.nanoTime();
            if (frame.isText() || frame.isBinary()) {
                isText = frame.isText();
                message = frame.binaryData();
            } else if (frame.isContinuation() && message != null) {
                message.appendBuffer(frame.binaryData());
            } else {
                return;
            }
            if (frame.isFinal()) {
                Buffer whole = message;
                message = null;
                take(ByteBuffer.wrap(whole.getBytes()), receivedNs);
            }
        }

        private void take(ByteBuffer bytes, long receivedNs) {
            if (!isText) {
                events.binary(bytes, receivedNs);
                return;
            }
            try {
                events.text(StandardCharsets.UTF_8.newDecoder().decode(bytes).toString(), receivedNs);
            } catch (CharacterCodingException error) {
                events.violated("a text message is not valid UTF-8");
                socket.close((short) 1007);
            }
        }
    }
}
