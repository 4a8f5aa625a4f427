import java.util.concurrent.atomic.AtomicLong;

/** A ring for one writer and one reader: the receive path and the capture thread. */
final class Ring {
    static final int PLACES = 1 << 16;
    static final int WIDTH = 8;

    /** Per message: connection, feed connection, sequence, due, sent, received, length, flags. */
    private final long[] cells = new long[PLACES * WIDTH];
    private final byte[][] bodies = new byte[PLACES][];
    private final AtomicLong written = new AtomicLong();
    private final AtomicLong read = new AtomicLong();
    private volatile boolean abandoned;
    private volatile long waits;

    interface Store {
        void store(long[] cells, int at, byte[] body) throws Exception;
    }

    /** Called by the receive path only. Waits if the ring is full. */
    void put(long connection, long feed, long sequence, long dueNs, long sentNs, long receivedNs, long length,
            long flags, byte[] body) {
        long number = written.get();
        if (number - read.get() >= PLACES) {
            waits++;
            while (number - read.get() >= PLACES && !abandoned) {
                Thread.onSpinWait();
            }
        }
        int place = (int) (number & (PLACES - 1));
        int at = place * WIDTH;
        cells[at] = connection;
        cells[at + 1] = feed;
        cells[at + 2] = sequence;
        cells[at + 3] = dueNs;
        cells[at + 4] = sentNs;
        cells[at + 5] = receivedNs;
        cells[at + 6] = length;
        cells[at + 7] = flags;
        bodies[place] = body;
        written.setRelease(number + 1);
    }

    /** Called by the capture thread only. Frees the places after the last message is stored. */
    int drain(int most, Store store) throws Exception {
        long from = read.get();
        int count = (int) Math.min(written.getAcquire() - from, most);
        for (long number = from; number < from + count; number++) {
            int place = (int) (number & (PLACES - 1));
            store.store(cells, place * WIDTH, bodies[place]);
            bodies[place] = null;
        }
        read.setRelease(from + count);
        return count;
    }

    long received() {
        return written.get();
    }

    long waits() {
        return waits;
    }

    /** The receive path no longer waits for space. */
    void abandon() {
        abandoned = true;
    }
}
