import com.sun.management.GarbageCollectionNotificationInfo;
import com.sun.management.GcInfo;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import javax.management.NotificationEmitter;
import javax.management.openmbean.CompositeData;

/** The capture file: a thread that stores what the receive path has put into the ring. */
final class Capture implements Runnable {
    private static final int ROWS_MAX = 10_000;
    private static final long LOOK_MS = 50;
    private static final long SECOND_NS = 1_000_000_000L;

    /** The begin or the end of a connection. A begin has no reason. */
    private record Note(long connection, String reason, int code, long atNs) {}

    final Ring ring = new Ring();
    private final ConcurrentLinkedQueue<Note> notes = new ConcurrentLinkedQueue<>();
    /** Pauses of the garbage collector: begin and end. */
    private final ConcurrentLinkedQueue<long[]> pauses = new ConcurrentLinkedQueue<>();
    private final Map<String, String> settings = System.getenv();
    private final Connection file;
    private final PreparedStatement event;
    private final PreparedStatement payload;
    private final Runnable stop;
    private final Thread writer = new Thread(this, "capture");
    private long captured;
    private volatile boolean over;
    private volatile Exception failure;

    /** Creates the file and starts the writer. `stop` ends the receive path. */
    Capture(String library, String version, Runnable stop) throws Exception {
        this.stop = stop;
        Path path = Path.of(settings.get("LAB_CAPTURE"));
        Files.createFile(path);
        file = DriverManager.getConnection("jdbc:sqlite:" + path);
        String schema = Files.readString(Path.of(settings.get("LAB_SCHEMA"))).replaceAll("--[^\n]*", "");
        try (Statement statement = file.createStatement()) {
            for (String command : schema.split(";")) {
                if (!command.isBlank()) {
                    statement.execute(command);
                }
            }
        }
        event = file.prepareStatement("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
        payload = file.prepareStatement("INSERT INTO payload VALUES (?, ?)");
        for (String name : new String[] {"run", "connector", "exchange", "url", "subscribe"}) {
            fact(name, settings.getOrDefault("LAB_" + name.toUpperCase(), ""));
        }
        fact("contract", 1);
        fact("language", "Java");
        fact("library", library);
        fact("library_version", version);
        fact("runtime_version", System.getProperty("java.vm.name") + " " + System.getProperty("java.version"));
        fact("host", InetAddress.getLocalHost().getHostName());
        fact("started_ns", System.nanoTime());
        clock();
        watchCollections();
        writer.start();
    }

    /**
     * Notes each pause of the garbage collector. The virtual machine counts milliseconds from its
     * start.
     */
    private void watchCollections() {
        long startNs = System.nanoTime() - ManagementFactory.getRuntimeMXBean().getUptime() * 1_000_000;
        for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
            ((NotificationEmitter) collector).addNotificationListener((notification, handback) -> {
                var data = (CompositeData) notification.getUserData();
                GcInfo info = GarbageCollectionNotificationInfo.from(data).getGcInfo();
                long beginNs = startNs + info.getStartTime() * 1_000_000;
                pauses.add(new long[] {beginNs, beginNs + info.getDuration() * 1_000_000});
            }, null, null);
        }
    }

    void opened(long connection, long atNs) {
        notes.add(new Note(connection, null, 0, atNs));
    }

    void ended(long connection, String reason, int code, long atNs) {
        notes.add(new Note(connection, reason, code, atNs));
    }

    /** Stores the rest and closes the file. Returns the exit code. */
    int finish(int code) throws InterruptedException {
        long endedNs = System.nanoTime();
        over = true;
        writer.join();
        try {
            if (failure != null) {
                throw failure;
            }
            String status = Files.readString(Path.of("/proc/self/status"));
            var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
            long collections = 0;
            long pauseMs = 0;
            for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans()) {
                collections += collector.getCollectionCount();
                pauseMs += collector.getCollectionTime();
            }
            fact("ended_ns", endedNs);
            fact("exit_code", code);
            fact("messages", ring.received());
            fact("ring_waits", ring.waits());
            fact("cpu_us", system.getProcessCpuTime() / 1_000);
            fact("peak_memory_kb", status.replaceAll("(?s).*VmHWM:\\s*(\\d+).*", "$1"));
            fact("gc_count", collections);
            fact("gc_pause_ns", pauseMs * 1_000_000);
            execute("PRAGMA wal_checkpoint(TRUNCATE)");
            file.close();
            return code;
        } catch (Exception error) {
            System.err.println("cannot write the capture file: " + error.getMessage());
            return 6;
        }
    }

    @Override
    public void run() {
        long nextSecondNs = System.nanoTime() + SECOND_NS;
        Path exitFile = Path.of(settings.get("LAB_EXIT_FILE"));
        try {
            while (!over) {
                Thread.sleep(LOOK_MS);
                storeAll();
                if (Files.exists(exitFile)) {
                    stop.run();
                }
                if (System.nanoTime() >= nextSecondNs) {
                    nextSecondNs += SECOND_NS;
                    System.out.println("alive " + ring.received() + " " + captured);
                    clock();
                }
            }
            storeAll();
        } catch (Exception error) {
            failure = error;
            ring.abandon();
            stop.run();
        }
    }

    private void storeAll() throws Exception {
        for (long[] pause = pauses.poll(); pause != null; pause = pauses.poll()) {
            execute("INSERT INTO gc VALUES (?, ?)", pause[0], pause[1]);
        }
        for (Note note = notes.poll(); note != null; note = notes.poll()) {
            if (note.reason == null) {
                System.out.println("open " + note.connection + " " + note.atNs);
                execute("UPDATE gap SET to_ns = ? WHERE connection_id = ?", note.atNs, note.connection - 1);
            } else {
                System.out.println("gap " + note.connection + " " + note.reason);
                Integer code = note.code == 0 ? null : note.code;
                execute("INSERT INTO gap VALUES (?, ?, ?, ?, NULL)", note.connection, note.reason, code, note.atNs);
            }
        }
        while (storeBatch() > 0) {}
    }

    private int storeBatch() throws Exception {
        long beginNs = System.nanoTime();
        file.setAutoCommit(false);
        int rows = ring.drain(ROWS_MAX, this::store);
        event.executeBatch();
        payload.executeBatch();
        file.commit();
        file.setAutoCommit(true);
        if (rows > 0) {
            execute("INSERT INTO flush VALUES (?, ?, ?)", beginNs, System.nanoTime(), rows);
        }
        return rows;
    }

    private void store(long[] cells, int at, byte[] body) throws SQLException {
        event.setLong(1, ++captured);
        for (int column = 0; column < Ring.WIDTH; column++) {
            long value = cells[at + column];
            if (value < 0) {
                event.setNull(column + 2, Types.INTEGER);
            } else {
                event.setLong(column + 2, value);
            }
        }
        event.addBatch();
        if (body != null) {
            payload.setLong(1, captured);
            payload.setBytes(2, body);
            payload.addBatch();
        }
    }

    private void clock() throws SQLException {
        long beforeNs = System.nanoTime();
        Instant now = Instant.now();
        long realtimeNs = now.getEpochSecond() * SECOND_NS + now.getNano();
        execute("INSERT INTO clock VALUES (?, ?, ?)", beforeNs, realtimeNs, System.nanoTime());
    }

    private void fact(String name, Object value) throws SQLException {
        execute("INSERT INTO run VALUES (?, ?)", name, value.toString());
    }

    private void execute(String command, Object... values) throws SQLException {
        try (PreparedStatement statement = file.prepareStatement(command)) {
            for (int at = 0; at < values.length; at++) {
                statement.setObject(at + 1, values[at]);
            }
            statement.execute();
        }
    }
}
