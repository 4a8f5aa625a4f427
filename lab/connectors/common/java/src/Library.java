import java.net.URI;
import java.nio.file.Path;
import javax.net.ssl.SSLContext;

/** A WebSocket library. Each connector has one class `Adapter` that extends it. */
abstract class Library {
    static final int MESSAGE_MOST = 16 << 20;
    static final int OPEN_SECONDS = 5;

    final String name;
    final String version;

    /** The version is in the name of the file that contains `type`. */
    Library(String name, Class<?> type) {
        this.name = name;
        version = Text.versionOfFile(type);
    }

    /**
     * Where to connect. `trust` and its file `ca` are null for a plain connection and for the
     * system's certificates. `compresses`: offer permessage-deflate.
     */
    record Target(URI url, Path ca, SSLContext trust, boolean compresses) {}

    /** An open connection. Both methods may be called by any thread. */
    interface Link {
        void send(String text) throws Exception;

        /** Ends the connection at once. */
        void stop();
    }

    /**
     * Opens a connection, or throws within a few seconds. The adapter calls `events.opened` before
     * the first message, and reads the clock as its first action for a message.
     */
    abstract Link open(Target target, Events events) throws Exception;
}
