package dev.pitwire.client;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** Pauses that double up to a bound. A random half keeps clients from returning all at once. */
final class GrowingPause {
    private final long longestMs;
    private long nextMs;

    GrowingPause(Duration first, Duration longest) {
        nextMs = Math.max(first.toMillis(), 1);
        longestMs = Math.max(longest.toMillis(), nextMs);
    }

    long nextMs() {
        long bound = nextMs;
        nextMs = Math.min(bound * 2, longestMs);
        return bound / 2 + ThreadLocalRandom.current().nextLong(bound / 2 + 1);
    }
}
