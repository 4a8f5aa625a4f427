package dev.pitwire.sbe;

import io.aeron.Aeron;
import io.aeron.ChannelUriStringBuilder;
import io.aeron.ExclusivePublication;
import io.aeron.Publication;
import io.aeron.Subscription;
import io.aeron.exceptions.AeronException;
import java.io.IOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.agrona.ExpandableArrayBuffer;
import org.agrona.concurrent.BackoffIdleStrategy;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * A connection over Aeron: a publication of requests, and a subscription of answers that has the
 * same session id. `pitwire up --sbe-aeron` is at the other end.
 */
final class AeronConnection implements ByteConnection {
    static final int REQUEST_STREAM = 7401;
    static final int ANSWER_STREAM = 7402;
    private static final int FRAGMENTS = 16;

    private final Gateway.Aeron gateway;
    private final long timeoutNs;
    private final Aeron aeron;
    private ExclusivePublication requests;
    private Subscription answers;
    private boolean hasJoined;
    /** The bytes from `start` to `end` are received and not yet read. */
    private final ExpandableArrayBuffer received = new ExpandableArrayBuffer(64 << 10);
    private int start;
    private int end;

    AeronConnection(Gateway.Aeron gateway, int timeoutMs) throws IOException {
        this.gateway = gateway;
        timeoutNs = TimeUnit.MILLISECONDS.toNanos(timeoutMs);
        var context = new Aeron.Context();
        if (gateway.directory() != null) {
            context.aeronDirectoryName(gateway.directory());
        }
        try {
            aeron = Aeron.connect(context);
        } catch (AeronException error) {
            throw new IOException("no media driver: " + error.getMessage(), error);
        }
        try {
            requests = aeron.addExclusivePublication(gateway.requests(), REQUEST_STREAM);
            String channel = new ChannelUriStringBuilder(gateway.answers()).sessionId(requests.sessionId()).build();
            answers = aeron.addSubscription(channel, ANSWER_STREAM);
            await(requests::isConnected, "no venue receives " + gateway.requests());
        } catch (AeronException error) {
            close();
            throw new IOException(error.getMessage(), error);
        } catch (IOException error) {
            close();
            throw error;
        }
    }

    /** Waits for a condition, first in a spin and then with pauses. */
    private void await(BooleanSupplier condition, String failure) throws IOException {
        var idle = new BackoffIdleStrategy(10_000, 1_000, 1_000, 50_000);
        long deadline = System.nanoTime() + timeoutNs;
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > deadline) {
                throw new SocketTimeoutException(failure);
            }
            idle.idle();
        }
    }

    @Override
    public int read(byte[] target, int offset, int length) throws IOException {
        if (start == end) {
            start = end = 0;
            await(() -> poll() || hasEnded(), "no message arrived in time");
            if (start == end) {
                return -1;
            }
        }
        int count = Math.min(length, end - start);
        received.getBytes(start, target, offset, count);
        start += count;
        return count;
    }

    private boolean poll() {
        answers.poll((buffer, at, length, header) -> {
            received.putBytes(end, buffer, at, length);
            end += length;
        }, FRAGMENTS);
        hasJoined |= answers.isConnected();
        return end > start;
    }

    private boolean hasEnded() {
        return (hasJoined && !answers.isConnected()) || !requests.isConnected();
    }

    @Override
    public void write(byte[] source, int offset, int length) throws IOException {
        var bytes = new UnsafeBuffer(source, offset, length);
        await(() -> {
            long position = requests.offer(bytes);
            if (position == Publication.CLOSED || position == Publication.NOT_CONNECTED) {
                throw new AeronException("the venue has closed the connection");
            }
            return position > 0;
        }, "the venue does not take requests");
    }

    @Override
    public void close() {
        aeron.close();
    }

    @Override
    public String toString() {
        return gateway.toString();
    }
}
