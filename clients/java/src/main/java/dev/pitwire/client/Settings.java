package dev.pitwire.client;

import java.time.Duration;
import java.util.function.BiConsumer;

/**
 * Address of a venue, login and limits of one connection.
 *
 * @param url WebSocket URL, such as {@code ws://127.0.0.1:8080/ws/api/v2}
 * @param clientId login, or null: then only public methods work
 * @param clientSecret signs the login and is never sent
 * @param timeout longest wait for a connection, and for the answer to one call
 * @param validity the venue refuses an order that it reads later than this after the call
 * @param firstPause pauses between attempts to reconnect double from this one
 * @param longestPause bound of these pauses
 * @param heartbeat interval of the venue's heartbeats; a socket silent for three of them is dead
 * @param cancelOnDisconnect the venue cancels the orders of this connection when its socket closes
 * @param onState called with the state and its cause when the connection is made, lost or ended
 */
public record Settings(
    String url,
    String clientId,
    String clientSecret,
    Duration timeout,
    Duration validity,
    Duration firstPause,
    Duration longestPause,
    Duration heartbeat,
    boolean cancelOnDisconnect,
    BiConsumer<State, String> onState) {

    /** State of a connection. */
    public enum State { READY, RECONNECTING, ENDED }

    /**
     * Returns the defaults: 10 s timeout, 5 s validity, pauses from 100 ms to 10 s, heartbeats of
     * 30 s.
     */
    public static Settings of(String url) {
        return new Settings(url, null, null, Duration.ofSeconds(10), Duration.ofSeconds(5), Duration.ofMillis(100),
            Duration.ofSeconds(10), Duration.ofSeconds(30), false, (state, cause) -> { });
    }

    public Settings withLogin(String id, String secret) {
        return new Settings(url, id, secret, timeout, validity, firstPause, longestPause, heartbeat,
            cancelOnDisconnect, onState);
    }

    public Settings withTimeout(Duration limit) {
        return new Settings(url, clientId, clientSecret, limit, validity, firstPause, longestPause, heartbeat,
            cancelOnDisconnect, onState);
    }

    public Settings withOnState(BiConsumer<State, String> listener) {
        return new Settings(url, clientId, clientSecret, timeout, validity, firstPause, longestPause, heartbeat,
            cancelOnDisconnect, listener);
    }
}
