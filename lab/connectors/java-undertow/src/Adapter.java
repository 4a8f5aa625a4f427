import io.undertow.connector.ByteBufferPool;
import io.undertow.connector.PooledByteBuffer;
import io.undertow.server.DefaultByteBufferPool;
import io.undertow.websockets.WebSocketExtension;
import io.undertow.websockets.client.WebSocketClient;
import io.undertow.websockets.client.WebSocketClientNegotiation;
import io.undertow.websockets.core.AbstractReceiveListener;
import io.undertow.websockets.core.BufferedBinaryMessage;
import io.undertow.websockets.core.BufferedTextMessage;
import io.undertow.websockets.core.CloseMessage;
import io.undertow.websockets.core.WebSocketChannel;
import io.undertow.websockets.core.WebSocketException;
import io.undertow.websockets.core.WebSockets;
import io.undertow.websockets.extensions.PerMessageDeflateHandshake;
import java.io.IOException;
import java.io.UnsupportedEncodingException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.xnio.IoFuture;
import org.xnio.IoUtils;
import org.xnio.OptionMap;
import org.xnio.Options;
import org.xnio.Xnio;
import org.xnio.XnioWorker;

/** Undertow, on XNIO. */
final class Adapter extends Library {
    private static final int BUFFER_BYTES = 16 << 10;

    private final ByteBufferPool buffers = new DefaultByteBufferPool(true, BUFFER_BYTES);
    private XnioWorker worker;

    Adapter() {
        super("Undertow", WebSocketClient.class);
    }

    @Override
    Link open(Target target, Events events) throws Exception {
        if (worker == null) {
            OptionMap options = OptionMap.create(Options.WORKER_IO_THREADS, 1, Options.THREAD_DAEMON, true);
            worker = Xnio.getInstance().createWorker(options);
        }
        WebSocketClient.ConnectionBuilder builder = WebSocketClient.connectionBuilder(worker, buffers, target.url());
        if (target.compresses()) {
            WebSocketExtension deflate = new WebSocketExtension("permessage-deflate", List.of());
            builder.setClientNegotiation(new WebSocketClientNegotiation(List.of(), List.of(deflate)));
            builder.setClientExtensions(Set.of(new PerMessageDeflateHandshake(true)));
        }
        IoFuture<WebSocketChannel> opening = builder.connect();
        if (opening.await(OPEN_SECONDS, TimeUnit.SECONDS) == IoFuture.Status.WAITING) {
            opening.cancel();
            throw new IOException("no answer to the handshake within " + OPEN_SECONDS + " s");
        }
        WebSocketChannel channel = opening.get();
        channel.getReceiveSetter().set(new Receiver(events));
        // Later on the same thread, because a violation closes the channel before it is reported.
        channel.addCloseTask(closed -> closed.getIoThread().execute(() -> events.lost("end of stream")));
        events.opened();
        channel.resumeReceives();
        return new Link() {
            @Override
            public void send(String text) throws IOException {
                WebSockets.sendTextBlocking(text, channel);
            }

            @Override
            public void stop() {
                // Beside a read, a close drops messages that were read, and not only the last ones.
                channel.getIoThread().execute(() -> IoUtils.safeClose(channel));
            }
        };
    }

    private static final class Receiver extends AbstractReceiveListener {
        private final Events events;
        private boolean hasCloseFrame;

        Receiver(Events events) {
            this.events = events;
        }

        @Override
        protected void onFullTextMessage(WebSocketChannel channel, BufferedTextMessage message) {
            long receivedNs = System.nanoTime();
            events.text(message.getData(), receivedNs);
        }

        @Override
        protected void onFullBinaryMessage(WebSocketChannel channel, BufferedBinaryMessage message) {
            long receivedNs = System.nanoTime();
            try (var data = message.getData()) {
                events.binary(WebSockets.mergeBuffers(data.getResource()), receivedNs);
            }
        }

        @Override
        protected void onFullCloseMessage(WebSocketChannel channel, BufferedBinaryMessage message)
                throws IOException {
            hasCloseFrame = true;
            super.onFullCloseMessage(channel, message);
        }

        /** Undertow also calls this at an end of the stream without a close frame. */
        @Override
        protected void onCloseMessage(CloseMessage message, WebSocketChannel channel) {
            if (hasCloseFrame) {
                events.closed(message.getCode());
            }
        }

        @Override
        protected void onError(WebSocketChannel channel, Throwable error) {
            for (Throwable cause = error; cause != null; cause = cause.getCause()) {
                if (cause instanceof WebSocketException || cause instanceof UnsupportedEncodingException) {
                    events.violated(error.toString());
                }
            }
            events.lost(error.toString());
            super.onError(channel, error);
        }

        @Override
        protected long getMaxTextBufferSize() {
            return MESSAGE_MOST;
        }

        @Override
        protected long getMaxBinaryBufferSize() {
            return MESSAGE_MOST;
        }
    }
}
