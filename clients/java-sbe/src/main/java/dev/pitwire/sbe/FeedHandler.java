package dev.pitwire.sbe;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.Inet4Address;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * Reads lines A and B of the order-by-order feed, and keeps the books.
 *
 * <p>Each unit counts from the line that has it first. Units after a gap wait. If the other line
 * does not fill the gap in time, a replay over TCP does. A snapshot gives the books at the start,
 * when the venue has started again, and when it does not have the missing messages.
 */
public final class FeedHandler implements AutoCloseable {
    private static final long GAP_PATIENCE_NS = 20_000_000;
    private static final int RECEIVE_BUFFER_BYTES = 8 << 20;
    private static final int MAX_WAITING_UNITS = 20_000;
    private static final int BUSY_PAUSE_MS = 500;
    private static final int CONNECT_ATTEMPTS = 50;
    private static final int CONNECT_PAUSE_MS = 200;

    /** What happened so far. */
    public static final class Counts {
        long messages;
        long[] firstUnits;
        long duplicates;
        long invalid;
        long foreign;
        long replays;
        long snapshots;

        @Override
        public String toString() {
            return String.format("messages %d, first by line %s, duplicates %d, invalid %d, foreign %d, replays %d,"
                + " snapshots %d", messages, Arrays.toString(firstUnits), duplicates, invalid, foreign,
                replays, snapshots);
        }
    }

    private final InetSocketAddress recoveryAddress;
    private final Selector selector = Selector.open();
    private final ByteBuffer datagram = ByteBuffer.allocateDirect(Mitch.MAX_UNIT_BYTES);
    private final UnsafeBuffer unit = new UnsafeBuffer(datagram);
    /** Units after a gap, by the number of their first message. */
    private final TreeMap<Long, byte[]> waiting = new TreeMap<>();
    private final Counts counts = new Counts();
    private Recovery recovery;
    private Books books;
    /** Number of the next message to apply. */
    private long next;
    /** Number after the newest message that a line has announced. */
    private long announced;
    private long gapSinceNs;
    private boolean checksRecovery;

    private FeedHandler(List<InetSocketAddress> lines, InetSocketAddress recovery) throws IOException {
        recoveryAddress = recovery;
        counts.firstUnits = new long[lines.size()];
        for (int line = 0; line < lines.size(); line++) {
            open(lines.get(line)).register(selector, SelectionKey.OP_READ, line);
        }
    }

    /** Begins to receive the lines, and then takes a snapshot. */
    public static FeedHandler join(List<InetSocketAddress> lines, InetSocketAddress recovery)
            throws IOException, InterruptedException {
        var handler = new FeedHandler(lines, recovery);
        try {
            handler.recovery = new Recovery(recovery);
            handler.takeSnapshot();
        } catch (IOException error) {
            handler.close();
            throw new VenueException("cannot join the feed at " + recovery + ": " + error.getMessage(),
                "start the venue with --order-feed and --order-feed-recovery, and check the addresses");
        }
        return handler;
    }

    Books books() {
        return books;
    }

    /** Number of the newest message in the books. */
    long newest() {
        return next - 1;
    }

    public Counts counts() {
        return counts;
    }

    /** Takes the units that arrive within the timeout, and closes gaps. */
    public void poll(long timeoutMs) throws IOException, InterruptedException {
        try {
            selector.select(this::readLine, next < announced ? Math.min(timeoutMs, 5) : timeoutMs);
            if (checksRecovery) {
                checksRecovery = false;
                if (!recovery.isOpen()) {
                    rejoin();
                }
            }
            closeGap();
        } catch (Books.MisfitException misfit) {
            rejoin();
        } catch (UncheckedIOException error) {
            throw error.getCause();
        }
    }

    @Override
    public void close() throws IOException {
        for (SelectionKey key : selector.keys()) {
            key.channel().close();
        }
        selector.close();
        if (recovery != null) {
            recovery.close();
        }
    }

    private static DatagramChannel open(InetSocketAddress line) throws IOException {
        var channel = DatagramChannel.open(line.getAddress() instanceof Inet4Address
            ? StandardProtocolFamily.INET : StandardProtocolFamily.INET6);
        channel.setOption(StandardSocketOptions.SO_RCVBUF, RECEIVE_BUFFER_BYTES);
        channel.configureBlocking(false);
        try {
            if (line.getAddress().isMulticastAddress()) {
                channel.setOption(StandardSocketOptions.SO_REUSEADDR, true);
                channel.bind(new InetSocketAddress(line.getPort()));
                channel.join(line.getAddress(), multicastInterface());
            } else {
                channel.bind(line);
            }
        } catch (IOException error) {
            throw new VenueException("cannot receive at " + line + ": " + error.getMessage(),
                "name an address of this machine, or a multicast group, with a free port");
        }
        return channel;
    }

    private static NetworkInterface multicastInterface() throws IOException {
        var all = NetworkInterface.networkInterfaces().toList();
        for (var candidate : all) {
            if (candidate.isUp() && candidate.supportsMulticast() && !candidate.isLoopback()) {
                return candidate;
            }
        }
        return all.get(0);
    }

    private void readLine(SelectionKey key) {
        int line = (Integer) key.attachment();
        try {
            while (true) {
                datagram.clear();
                var sender = (InetSocketAddress) ((DatagramChannel) key.channel()).receive(datagram);
                if (sender == null) {
                    return;
                }
                if (!sender.getAddress().equals(recoveryAddress.getAddress())) {
                    counts.foreign++;
                } else if (!Mitch.isUnit(unit, datagram.position())) {
                    counts.invalid++;
                } else if (Mitch.messageCount(unit) == 0) {
                    onHeartbeat();
                } else if (take(unit)) {
                    counts.firstUnits[line]++;
                } else {
                    counts.duplicates++;
                }
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void onHeartbeat() {
        checksRecovery = true;
        announced = Math.max(announced, Mitch.firstNumber(unit));
    }

    /**
     * Applies a unit, or keeps it if a message before it is missing. Returns whether it was new.
     */
    private boolean take(DirectBuffer unit) {
        long first = Mitch.firstNumber(unit);
        long end = first + Mitch.messageCount(unit);
        announced = Math.max(announced, end);
        if (end <= next || waiting.containsKey(first)) {
            return false;
        }
        if (first > next) {
            if (waiting.size() < MAX_WAITING_UNITS) {
                var copy = new byte[Mitch.unitBytes(unit)];
                unit.getBytes(0, copy);
                waiting.put(first, copy);
            }
            return true;
        }
        apply(unit);
        applyWaiting();
        return true;
    }

    private void applyWaiting() {
        while (!waiting.isEmpty() && waiting.firstKey() <= next) {
            apply(new UnsafeBuffer(waiting.pollFirstEntry().getValue()));
        }
    }

    private void apply(DirectBuffer unit) {
        Mitch.forEach(unit, next, (number, type, buffer, body, bodyBytes) -> {
            books.apply(type, buffer, body, bodyBytes);
            counts.messages++;
        });
        next = Math.max(next, Mitch.firstNumber(unit) + Mitch.messageCount(unit));
    }

    private void closeGap() throws IOException, InterruptedException {
        if (next >= announced) {
            gapSinceNs = 0;
            return;
        }
        long now = System.nanoTime();
        if (gapSinceNs == 0) {
            gapSinceNs = now;
        } else if (now - gapSinceNs >= GAP_PATIENCE_NS) {
            gapSinceNs = 0;
            counts.replays++;
            long end = waiting.isEmpty() ? announced : waiting.firstKey();
            try {
                if (recovery.replay(next, end - next, this::take) == Recovery.ReplayOutcome.UNAVAILABLE) {
                    takeSnapshot();
                }
            } catch (IOException ended) {
                rejoin();
            }
        }
    }

    /** Replaces the books. Messages after the snapshot come from the lines or from a replay. */
    private void takeSnapshot() throws IOException, InterruptedException {
        Recovery.Snapshot snapshot = recovery.snapshot();
        while (snapshot == null) {
            Thread.sleep(BUSY_PAUSE_MS);
            snapshot = recovery.snapshot();
        }
        counts.snapshots++;
        books = snapshot.books();
        next = snapshot.newest() + 1;
        announced = next;
        waiting.clear();
    }

    /** Connects again and takes a snapshot, also from a venue that has started again. */
    private void rejoin() throws IOException, InterruptedException {
        recovery.close();
        for (int attempt = 0; attempt < CONNECT_ATTEMPTS; attempt++) {
            try {
                recovery = new Recovery(recoveryAddress);
                takeSnapshot();
                return;
            } catch (IOException notYet) {
                Thread.sleep(CONNECT_PAUSE_MS);
            }
        }
        throw new VenueException("the venue at " + recoveryAddress + " has stopped", "start it, and join again");
    }
}
