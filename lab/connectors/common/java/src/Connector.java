import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import sun.misc.Signal;

/**
 * A connector of the latency laboratory in Java, by contracts/lab-connector.md. `Adapter` is its
 * library.
 */
public final class Connector {
    private static final int DONE = 0, USAGE = 2, REMOTE_CLOSE = 3, CONNECT_FAILURE = 4, PROTOCOL_ERROR = 5,
            CAPTURE_ERROR = 6;
    private static final List<String> NEEDED = List.of("URL", "CAPTURE", "SCHEMA", "EXIT_FILE", "RUN", "CONNECTOR",
            "EXCHANGE", "ENVELOPE", "PAYLOAD", "RECONNECT");
    private static final long GIVE_UP_NS = 10_000_000_000L;
    /** How long a stopped library may deliver messages that it has read already. */
    private static final long STOP_MS = 500;

    private record Open(Library.Link link, Events events) {}

    private final Map<String, String> settings = System.getenv();
    private final Library library = new Adapter();
    private final Library.Target target;
    private final AtomicLong connections = new AtomicLong();
    private Capture capture;
    private volatile boolean stopping;
    private volatile Library.Link link;

    private Connector() throws IOException, GeneralSecurityException {
        String file = settings.getOrDefault("LAB_CA", "");
        URI url = URI.create(settings.get("LAB_URL"));
        boolean isTrusting = !file.isEmpty() && "wss".equals(url.getScheme());
        Path ca = isTrusting ? Path.of(file) : null;
        boolean compresses = "1".equals(settings.get("LAB_COMPRESS"));
        target = new Library.Target(url, ca, isTrusting ? Trust.of(ca) : null, compresses);
    }

    /** Opens a connection, or returns null. */
    private Open open() {
        Events events = new Events(capture, connections);
        try {
            Library.Link opened = library.open(target, events);
            link = opened;
            String subscription = settings.getOrDefault("LAB_SUBSCRIBE", "");
            if (!subscription.isEmpty()) {
                opened.send(subscription);
            }
            if (stopping) {
                opened.stop();
            }
            return new Open(opened, events);
        } catch (Exception error) {
            System.err.println("cannot connect to " + target.url() + ": " + error);
            // A connection that was open for a moment has ended. It is not one that could not be
            // opened.
            events.lost(error.toString());
            return events.wasOpened() ? new Open(null, events) : null;
        }
    }

    /** Tries again for ten seconds, at once and then every 50 to 200 ms. */
    private Open reopen() throws InterruptedException {
        long untilNs = System.nanoTime() + GIVE_UP_NS;
        while (System.nanoTime() < untilNs && !stopping) {
            Open opened = open();
            if (opened != null) {
                return opened;
            }
            Thread.sleep(ThreadLocalRandom.current().nextLong(50, 200));
        }
        return null;
    }

    /** Receives until the feed or the run is over. Returns the exit code. */
    private int run() throws Exception {
        Open current = open();
        while (current != null) {
            Events.Ended ended = end(current.events);
            if (stopping || ended.code() == 1000) {
                return DONE;
            }
            long id = current.events.connection();
            System.err.println("connection " + id + " ended: " + ended.reason() + " " + ended.code() + " " + ended.text());
            capture.ended(id, ended.reason(), ended.code(), ended.atNs());
            if (!"1".equals(settings.get("LAB_RECONNECT"))) {
                return ended.reason().equals("protocol") ? PROTOCOL_ERROR : REMOTE_CLOSE;
            }
            current = reopen();
        }
        return stopping ? DONE : CONNECT_FAILURE;
    }

    /** Waits for the end of a connection. A stopped one has half a second for it. */
    private Events.Ended end(Events events) throws InterruptedException, ExecutionException {
        while (true) {
            try {
                return events.ended.get(STOP_MS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException waiting) {
                if (stopping) {
                    return new Events.Ended("stopped", 0, "", System.nanoTime());
                }
            } finally {
                if (stopping || events.ended.isDone()) {
                    events.finish();
                }
            }
        }
    }

    private void stop() {
        stopping = true;
        Library.Link current = link;
        if (current != null) {
            current.stop();
        }
    }

    private int start() throws Exception {
        for (String name : new String[] {"TERM", "INT"}) {
            Signal.handle(new Signal(name), signal -> stop());
        }
        try {
            capture = new Capture(library.name, library.version, this::stop);
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
