package dev.pitwire.sbe;

import java.io.IOException;

/** A connection that carries bytes in order. Its text names the other end. */
interface ByteConnection extends AutoCloseable {
    /** Waits for bytes. Returns their number, or -1 at the end of the connection. */
    int read(byte[] target, int offset, int length) throws IOException;

    void write(byte[] source, int offset, int length) throws IOException;

    @Override
    void close() throws IOException;
}
