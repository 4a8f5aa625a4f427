package dev.pitwire.sbe;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.DataInputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import org.agrona.concurrent.UnsafeBuffer;
import pitwire.sbe.MessageHeaderEncoder;
import pitwire.sbe.NewOrderEncoder;
import pitwire.sbe.OrderAcceptedDecoder;
import pitwire.sbe.OrderSide;
import pitwire.sbe.OrderStatus;
import pitwire.sbe.RejectDecoder;

/** A connection that the benchmark measures. It cancels each order after its acknowledgement. */
abstract class Transport implements AutoCloseable {
    /** Receives the progress of the orders, on the thread that reads the connection. */
    interface Listener {
        void acknowledged(int number);

        void cancelled(int number);

        void failed(String cause);
    }

    private static final Listener IDLE = new Listener() {
        @Override
        public void acknowledged(int number) { }

        @Override
        public void cancelled(int number) { }

        @Override
        public void failed(String cause) { }
    };

    protected volatile Listener listener = IDLE;
    private volatile boolean isClosed;

    /** Sends an order. */
    abstract void enter(int number);

    void listen(Listener next) {
        listener = next;
    }

    @Override
    public void close() throws IOException {
        isClosed = true;
    }

    /** Starts the thread that reads the connection until it is closed. */
    protected void read(Reading reading) {
        var thread = new Thread(() -> {
            try {
                while (!isClosed) {
                    reading.next();
                }
            } catch (IOException | RuntimeException error) {
                if (!isClosed) {
                    listener.failed(error.getMessage());
                }
            }
        }, "transport");
        thread.setDaemon(true);
        thread.start();
    }

    interface Reading {
        void next() throws IOException;
    }

    /** Binary order entry. */
    static final class Sbe extends Transport implements MessageHandler {
        private final OrderSession session;
        private final String prefix;
        private final Benchmark.Market market;

        Sbe(Gateway gateway, Orders.Credentials account, Benchmark.Market market, String prefix) {
            this.market = market;
            this.prefix = prefix;
            session = OrderSession.logOn(gateway, account.clientId(), account.secret(), this);
            read(session::poll);
        }

        @Override
        void enter(int number) {
            session.enter(NewOrder.limit(prefix + number, market.instrumentId(), OrderSide.Buy, Benchmark.LOT,
                market.price()));
        }

        @Override
        public void onOrderAccepted(OrderAcceptedDecoder message) {
            boolean isEntry = message.status() == OrderStatus.Open;
            long order = message.orderId();
            int number = Integer.parseInt(message.clientOrderId().substring(prefix.length()));
            if (isEntry) {
                listener.acknowledged(number);
                session.cancel(order);
            } else {
                listener.cancelled(number);
            }
        }

        @Override
        public void onReject(RejectDecoder message) {
            listener.failed(message.name() + " " + message.reason());
        }

        @Override
        public void close() throws IOException {
            super.close();
            session.close();
        }
    }

    /** JSON-RPC over a WebSocket. It has the reports of own orders too, as a session of SBE has. */
    static final class Json extends Transport implements WebSocket.Listener {
        private static final ObjectMapper MAPPER = new ObjectMapper();
        private static final int LOGIN = -1;
        private static final int SUBSCRIPTION = -2;

        private final WebSocket socket;
        private final String prefix;
        private final Benchmark.Market market;
        private final StringBuilder text = new StringBuilder();
        private final CompletableFuture<Void> isReady = new CompletableFuture<>();
        /** The client library allows one send at a time. */
        private CompletableFuture<WebSocket> lastSend;

        Json(URI url, Orders.Credentials account, Benchmark.Market market, String prefix) {
            this.market = market;
            this.prefix = prefix;
            try {
                socket = HttpClient.newHttpClient().newWebSocketBuilder().buildAsync(url, this).join();
                lastSend = CompletableFuture.completedFuture(socket);
                send(LOGIN, "public/auth", String.format(
                    "{\"grant_type\":\"client_credentials\",\"client_id\":\"%s\",\"client_secret\":\"%s\"}",
                    account.clientId(), account.secret()));
                isReady.join();
            } catch (CompletionException error) {
                throw new VenueException("cannot log in at " + url + ": " + error.getCause().getMessage(),
                    "start the venue, and check that the URL is ws://HOST:PORT/ws/api/v2");
            }
        }

        @Override
        void enter(int number) {
            send(2 * number, "private/buy", "{\"instrument_name\":\"" + market.name()
                + "\",\"amount\":1,\"type\":\"limit\",\"price\":" + Decimals.format(market.price())
                + ",\"client_order_id\":\"" + prefix + number + "\"}");
        }

        private synchronized void send(int id, String method, String parameters) {
            String request = "{\"jsonrpc\":\"2.0\",\"id\":" + id + ",\"method\":\"" + method + "\",\"params\":"
                + parameters + "}";
            lastSend = lastSend.thenCompose(ready -> ready.sendText(request, true));
        }

        @Override
        public CompletionStage<?> onText(WebSocket from, CharSequence part, boolean isLast) {
            text.append(part);
            if (isLast) {
                String message = text.toString();
                text.setLength(0);
                try {
                    onMessage(MAPPER.readTree(message));
                } catch (IOException malformed) {
                    listener.failed(malformed.getMessage());
                }
            }
            from.request(1);
            return null;
        }

        private void onMessage(JsonNode message) {
            if (!message.has("id")) {
                return; // A report.
            }
            int id = message.get("id").asInt();
            if (message.has("error")) {
                listener.failed(message.get("error").toString());
                isReady.completeExceptionally(new IOException(message.get("error").toString()));
            } else if (id == LOGIN) {
                send(SUBSCRIPTION, "private/subscribe", "{\"channels\":[\"user.changes.any.any.raw\"]}");
            } else if (id == SUBSCRIPTION) {
                isReady.complete(null);
            } else if (id % 2 == 0) {
                listener.acknowledged(id / 2);
                String order = message.path("result").path("order").path("order_id").asText();
                send(id + 1, "private/cancel", "{\"order_id\":\"" + order + "\"}");
            } else {
                listener.cancelled(id / 2);
            }
        }

        @Override
        public void onError(WebSocket from, Throwable error) {
            listener.failed(error.toString());
            isReady.completeExceptionally(error);
        }

        @Override
        public void close() throws IOException {
            super.close();
            socket.abort();
        }
    }

    /** A TCP ping-pong with the sizes of an order and its acknowledgement, without a venue. */
    static final class Baseline extends Transport {
        private static final int HEADERS = FrameSocket.HEADER_BYTES + MessageHeaderEncoder.ENCODED_LENGTH;
        private static final int REQUEST_BYTES = HEADERS + NewOrderEncoder.BLOCK_LENGTH;
        private static final int ANSWER_BYTES = HEADERS + OrderAcceptedDecoder.BLOCK_LENGTH;

        private final ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        private final Socket socket = new Socket(server.getInetAddress(), server.getLocalPort());
        private final byte[] answer = new byte[ANSWER_BYTES];

        Baseline() throws IOException {
            Socket accepted = server.accept();
            accepted.setTcpNoDelay(true);
            socket.setTcpNoDelay(true);
            var requests = new DataInputStream(accepted.getInputStream());
            var request = new byte[REQUEST_BYTES];
            read(() -> {
                requests.readFully(request);
                accepted.getOutputStream().write(request, 0, ANSWER_BYTES);
            });
            var answers = new DataInputStream(socket.getInputStream());
            read(() -> {
                answers.readFully(answer);
                int number = new UnsafeBuffer(answer).getInt(0);
                if (number % 2 == 0) {
                    listener.acknowledged(number / 2);
                    send(number + 1);
                } else {
                    listener.cancelled(number / 2);
                }
            });
        }

        @Override
        void enter(int number) {
            send(2 * number);
        }

        private void send(int number) {
            var request = new byte[REQUEST_BYTES];
            new UnsafeBuffer(request).putInt(0, number);
            try {
                synchronized (socket) {
                    socket.getOutputStream().write(request);
                }
            } catch (IOException error) {
                listener.failed(error.getMessage());
            }
        }

        @Override
        public void close() throws IOException {
            super.close();
            socket.close();
            server.close();
        }
    }
}
