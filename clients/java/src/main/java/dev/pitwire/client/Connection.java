package dev.pitwire.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import dev.pitwire.client.PitwireException.NotSent;
import dev.pitwire.client.PitwireException.Refused;
import dev.pitwire.client.PitwireException.Unanswered;
import dev.pitwire.client.Settings.State;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * One logical connection. After a cut it reconnects with pauses, logs in, and resumes its channels.
 * Handlers run on one thread, in the order of the messages, and may make calls.
 */
class Connection implements AutoCloseable {
    /** The venue takes resume tokens of this many channels in one request. */
    private static final int CHANNELS_PER_REQUEST = 100;
    private static final long TOO_MANY_REQUESTS = 10028;
    /** Wrong credentials, an invalid token, a closed account: the next attempt fails as well. */
    private static final List<Long> FINAL_CODES = List.of(13004L, 13009L, 11042L);
    private static final int SILENT_HEARTBEATS = 3;

    final Settings settings;
    private final HttpClient http;
    private final ExecutorService handlers = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS,
        new LinkedBlockingQueue<>(), Connection::daemon, new ThreadPoolExecutor.DiscardPolicy());
    /** Threads of reconnections, repairs and the watch. */
    final ExecutorService workers = Executors.newCachedThreadPool(Connection::daemon);
    private final Object lock = new Object();
    // Everything below is guarded by the lock.
    private final Map<Long, PendingCall> pending = new HashMap<>();
    private final Map<String, Channel> channels = new LinkedHashMap<>();
    private Socket current;
    private boolean isReady;
    private String endCause;
    private long nextId = 1;
    private long clockOffsetMs;
    private long lastReceivedNs;

    private record PendingCall(String method, CompletableFuture<JsonNode> answer) { }

    Connection(Settings settings) {
        this.settings = settings;
        http = HttpClient.newBuilder().connectTimeout(settings.timeout()).executor(workers).build();
    }

    private static Thread daemon(Runnable work) {
        var thread = new Thread(work, "pitwire");
        thread.setDaemon(true);
        return thread;
    }

    /**
     * Returns the venue's wall clock in milliseconds since 1970, estimated from its last answer.
     */
    public long venueClockMs() {
        synchronized (lock) {
            return System.currentTimeMillis() + clockOffsetMs;
        }
    }

    /**
     * Sends a call and returns its result. After an answer `too_many_requests` the call waits as
     * long as the venue demands, and is repeated.
     *
     * @throws Refused the venue refused the call
     * @throws NotSent the call was not sent, so it had no effect
     * @throws Unanswered the venue may have executed the call
     */
    public JsonNode call(String method, Map<String, ?> parameters) {
        long deadlineNs = System.nanoTime() + settings.timeout().toNanos();
        var pause = new GrowingPause(Duration.ofMillis(100), Duration.ofSeconds(5));
        while (true) {
            Socket socket = awaitReady(method, deadlineNs);
            try {
                return send(socket, method, parameters, deadlineNs - System.nanoTime());
            } catch (Refused refusal) {
                long waitMs = Math.max(refusal.retryAfterMs() > 0 ? refusal.retryAfterMs() : pause.nextMs(), 1);
                boolean isTooLate = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(waitMs) >= deadlineNs;
                if (refusal.code() != TOO_MANY_REQUESTS || isTooLate || !sleep(waitMs)) {
                    throw refusal;
                }
            }
        }
    }

    /**
     * Subscribes to a channel. After a cut the venue sends the missed messages first. `onRestart`
     * is called if it cannot: messages may be missing or repeated, so query the state. Closing the
     * subscription unsubscribes.
     */
    public Subscription subscribe(String name, Consumer<JsonNode> onData, Consumer<Restart> onRestart) {
        Consumer<JsonNode> queueData = data -> handlers.execute(() -> onData.accept(data));
        Consumer<Restart> queueRestart = restart -> handlers.execute(() -> onRestart.accept(restart));
        var channel = new Channel(name, queueData, queueRestart);
        synchronized (lock) {
            // The channel is known before the answer, because a reconnection meanwhile must
            // subscribe it.
            if (channels.putIfAbsent(name, channel) != null) {
                throw new PitwireException("the connection has the channel " + name + " already",
                    "use that subscription");
            }
        }
        try {
            requestChannel(channel);
        } catch (PitwireException error) {
            synchronized (lock) {
                channels.remove(name);
            }
            throw error;
        }
        return () -> {
            synchronized (lock) {
                channels.remove(name);
            }
            call(channel.method("unsubscribe"), Map.of("channels", List.of(name)));
        };
    }

    /** A subscribed channel. */
    public interface Subscription extends AutoCloseable {
        @Override
        void close();
    }

    /** Asks the venue for the whole state of a channel again. */
    void restart(String name) {
        Channel channel;
        synchronized (lock) {
            channel = channels.get(name);
        }
        if (channel != null) {
            call(channel.method("unsubscribe"), Map.of("channels", List.of(name)));
            synchronized (lock) {
                channel.forgetPlace();
            }
            requestChannel(channel);
        }
    }

    private void requestChannel(Channel channel) {
        JsonNode granted = call(channel.method("subscribe"), subscription(List.of(channel)));
        if (granted.isEmpty()) {
            throw new PitwireException("the venue has no channel " + channel.name, "check its name");
        }
    }

    private Map<String, Object> subscription(List<Channel> some) {
        var tokens = new LinkedHashMap<String, String>();
        synchronized (lock) {
            some.forEach(channel -> tokens.put(channel.name, channel.token()));
        }
        return Map.of("channels", List.copyOf(tokens.keySet()), "resume", tokens);
    }

    /** Ends the connection. Calls without an answer fail. */
    @Override
    public void close() {
        end("it was closed by its user");
    }

    boolean hasEnded() {
        synchronized (lock) {
            return endCause != null;
        }
    }

    void open() {
        connect();
        workers.execute(this::watch);
    }

    private void connect() {
        var holder = new Socket[1];
        var socket = new Socket(text -> receive(holder[0], text), cause -> lose(holder[0], cause));
        holder[0] = socket;
        synchronized (lock) {
            current = socket;
            lastReceivedNs = System.nanoTime();
        }
        try {
            socket.open(http, settings.url(), settings.timeout());
            if (settings.clientId() != null && settings.clientSecret() != null) {
                // The answer has the venue's clock, so a wrong clock here does not spoil the
                // signature.
                ask(socket, "public/hello", Map.of("client_name", "pitwire-java", "client_version", "0.1.0"));
                ask(socket, "public/auth", signedLogin());
                if (settings.cancelOnDisconnect()) {
                    ask(socket, "private/enable_cancel_on_disconnect", Map.of("scope", "connection"));
                }
            }
            if (!settings.heartbeat().isZero()) {
                ask(socket, "public/set_heartbeat", Map.of("interval", Math.max(settings.heartbeat().toSeconds(), 10)));
            }
            resubscribe(socket);
            synchronized (lock) {
                if (socket != current || endCause != null) {
                    throw new NotSent("public/subscribe", "the connection is cut");
                }
                isReady = true;
                lock.notifyAll();
            }
        } catch (PitwireException error) {
            synchronized (lock) {
                drop(socket, "the connection could not be prepared");
            }
            throw error;
        }
        settings.onState().accept(State.READY, "");
    }

    private void resubscribe(Socket socket) {
        for (boolean isPrivate : new boolean[] {false, true}) {
            List<Channel> known;
            synchronized (lock) {
                known = channels.values().stream().filter(channel -> channel.isPrivate() == isPrivate).toList();
            }
            for (int start = 0; start < known.size(); start += CHANNELS_PER_REQUEST) {
                List<Channel> some = known.subList(start, Math.min(start + CHANNELS_PER_REQUEST, known.size()));
                var granted = new ArrayList<String>();
                ask(socket, some.get(0).method("subscribe"), subscription(some))
                    .forEach(name -> granted.add(name.asText()));
                for (Channel channel : some) {
                    if (!granted.contains(channel.name)) {
                        synchronized (lock) {
                            channels.remove(channel.name);
                        }
                        channel.refuse();
                    }
                }
            }
        }
    }

    /** Returns the parameters of a login by signature. They do not contain the secret. */
    private Map<String, Object> signedLogin() {
        long timestamp = venueClockMs();
        String nonce = Long.toHexString(ThreadLocalRandom.current().nextLong());
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(settings.clientSecret().getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
            byte[] signed = mac.doFinal((timestamp + "\n" + nonce + "\n").getBytes(StandardCharsets.UTF_8));
            return Map.of("grant_type", "client_signature", "client_id", settings.clientId(), "timestamp", timestamp,
                "nonce", nonce, "data", "", "signature", HexFormat.of().formatHex(signed));
        } catch (GeneralSecurityException error) {
            throw new PitwireException("the login cannot be signed: " + error, "use a Java with HmacSHA256");
        }
    }

    private JsonNode ask(Socket socket, String method, Map<String, ?> parameters) {
        return send(socket, method, parameters, settings.timeout().toNanos());
    }

    private JsonNode send(Socket socket, String method, Map<String, ?> parameters, long patienceNs) {
        var answer = new CompletableFuture<JsonNode>();
        long sentNs = System.nanoTime();
        long id;
        String text;
        synchronized (lock) {
            if (socket != current) {
                throw new NotSent(method, "the connection is cut");
            }
            id = nextId++;
            text = Json.write(Map.of("jsonrpc", "2.0", "id", id, "method", method, "params", parameters));
            pending.put(id, new PendingCall(method, answer));
        }
        socket.send(text);
        try {
            return answer.get(patienceNs, TimeUnit.NANOSECONDS);
        } catch (ExecutionException error) {
            throw (PitwireException) error.getCause();
        } catch (TimeoutException error) {
            boolean isSilent;
            synchronized (lock) {
                pending.remove(id);
                isSilent = lastReceivedNs - sentNs < 0;
            }
            if (isSilent) {
                lose(socket, "the venue sent nothing after a request");
            }
            throw new Unanswered(method, "nothing in " + Duration.ofNanos(patienceNs));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new Unanswered(method, "the thread was interrupted");
        }
    }

    /** Waits until calls can be sent. */
    private Socket awaitReady(String method, long deadlineNs) {
        synchronized (lock) {
            while (!isReady) {
                long leftNs = deadlineNs - System.nanoTime();
                if (endCause != null || leftNs <= 0) {
                    throw new NotSent(method, endCause != null ? endCause : "there is no connection");
                }
                try {
                    TimeUnit.NANOSECONDS.timedWait(lock, leftNs);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                    throw new NotSent(method, "the thread was interrupted");
                }
            }
            return current;
        }
    }

    private void receive(Socket socket, String text) {
        JsonNode message;
        try {
            message = Json.read(text);
        } catch (JsonProcessingException error) {
            lose(socket, "the venue sent a message that is not JSON");
            return;
        }
        synchronized (lock) {
            if (socket != current) {
                return;
            }
            lastReceivedNs = System.nanoTime();
            if (message.path("usOut").isNumber()) {
                clockOffsetMs = message.path("usOut").asLong() / 1000 - System.currentTimeMillis();
            }
            JsonNode parameters = message.path("params");
            Channel channel = channels.get(parameters.path("channel").asText());
            switch (message.path("method").asText()) {
                case "" -> answer(message);
                case "heartbeat" -> {
                    if (parameters.path("type").asText().equals("test_request")) {
                        Map<String, ?> test = Map.of("jsonrpc", "2.0", "id", nextId++, "method", "public/test");
                        socket.send(Json.write(test));
                    }
                }
                case "subscription" -> {
                    if (channel != null) {
                        channel.receive(parameters);
                    }
                }
                case "pitwire_resume" -> {
                    if (channel != null) {
                        channel.resume(parameters);
                    }
                }
                default -> { }
            }
        }
    }

    private void answer(JsonNode message) {
        PendingCall call = pending.remove(message.path("id").asLong());
        if (call != null && message.has("error")) {
            call.answer.completeExceptionally(new Refused(call.method, message.path("error")));
        } else if (call != null) {
            call.answer.complete(message.path("result"));
        }
    }

    private void lose(Socket socket, String cause) {
        synchronized (lock) {
            if (socket != current) {
                return;
            }
            boolean wasReady = isReady;
            drop(socket, cause);
            // While a connection is being prepared, its maker sees the failed call and tries again.
            if (!wasReady || endCause != null) {
                return;
            }
        }
        workers.execute(() -> reconnect(cause));
    }

    /** Forgets a socket. The venue may have executed the calls without an answer. */
    private void drop(Socket socket, String cause) {
        socket.abort();
        if (socket == current) {
            current = null;
            isReady = false;
            channels.values().forEach(Channel::cut);
            pending.values().forEach(call ->
                call.answer.completeExceptionally(new Unanswered(call.method, cause)));
            pending.clear();
        }
    }

    private void reconnect(String cause) {
        var pause = new GrowingPause(settings.firstPause(), settings.longestPause());
        String latest = cause;
        while (!hasEnded()) {
            settings.onState().accept(State.RECONNECTING, latest);
            if (!sleep(pause.nextMs()) || hasEnded()) {
                return;
            }
            try {
                connect();
                return;
            } catch (PitwireException error) {
                if (error instanceof Refused refusal && FINAL_CODES.contains(refusal.code())) {
                    end(error.getMessage());
                }
                latest = error.getMessage();
            }
        }
    }

    /** Finds a socket that has died without a word. */
    private void watch() {
        long limitNs = settings.heartbeat().toNanos() * SILENT_HEARTBEATS;
        while (!hasEnded() && limitNs > 0 && sleep(1000)) {
            Socket silent = null;
            synchronized (lock) {
                if (isReady && System.nanoTime() - lastReceivedNs > limitNs) {
                    silent = current;
                }
            }
            if (silent != null) {
                lose(silent, "the venue sent nothing for three heartbeats");
            }
        }
    }

    private void end(String cause) {
        synchronized (lock) {
            if (endCause != null) {
                return;
            }
            endCause = cause;
            if (current != null) {
                drop(current, cause);
            }
            lock.notifyAll();
        }
        handlers.shutdown();
        settings.onState().accept(State.ENDED, cause);
    }

    /** Returns false if the thread was interrupted. */
    static boolean sleep(long ms) {
        try {
            Thread.sleep(ms);
            return true;
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            return false;
        }
    }
}
