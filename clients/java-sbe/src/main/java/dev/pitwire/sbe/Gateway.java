package dev.pitwire.sbe;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;

/** A gateway of binary order entry, and how to reach it. */
public interface Gateway {
    /** Connects. A read waits for at most `timeoutMs`. */
    ByteConnection connect(int timeoutMs) throws IOException;

    /** Returns the name of the transport in the table of the benchmark. */
    String transport();

    /**
     * Reads HOST:PORT for TCP, or REQUESTS,ANSWERS[,DIRECTORY] for Aeron: two channels, and the
     * directory of the media driver.
     */
    static Gateway parse(String text) {
        if (text.startsWith("aeron:")) {
            String[] parts = text.split(",");
            if (parts.length < 2 || parts.length > 3) {
                throw new IllegalArgumentException("gateway " + text + ": expected REQUESTS,ANSWERS[,DIRECTORY]");
            }
            return new Aeron(parts[0], parts[1], parts.length == 3 ? parts[2] : null);
        }
        return new Tcp(Main.address(text));
    }

    record Tcp(InetSocketAddress address) implements Gateway {
        @Override
        public ByteConnection connect(int timeoutMs) throws IOException {
            return new TcpConnection(address, timeoutMs);
        }

        @Override
        public String toString() {
            return address.toString();
        }

        @Override
        public String transport() {
            return "SBE over TCP";
        }
    }

    record Aeron(String requests, String answers, String directory) implements Gateway {
        @Override
        public ByteConnection connect(int timeoutMs) throws IOException {
            return new AeronConnection(this, timeoutMs);
        }

        @Override
        public String toString() {
            return requests;
        }

        @Override
        public String transport() {
            return requests.startsWith("aeron:ipc") ? "SBE over Aeron IPC" : "SBE over Aeron UDP";
        }
    }

    /** A TCP connection. */
    final class TcpConnection implements ByteConnection {
        private final Socket socket = new Socket();
        private final InputStream input;

        TcpConnection(InetSocketAddress address, int timeoutMs) throws IOException {
            try {
                socket.setTcpNoDelay(true);
                socket.setSoTimeout(timeoutMs);
                socket.connect(address, timeoutMs);
                input = socket.getInputStream();
            } catch (IOException error) {
                socket.close();
                throw error;
            }
        }

        @Override
        public int read(byte[] target, int offset, int length) throws IOException {
            return input.read(target, offset, length);
        }

        @Override
        public void write(byte[] source, int offset, int length) throws IOException {
            socket.getOutputStream().write(source, offset, length);
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }

        @Override
        public String toString() {
            return String.valueOf(socket.getRemoteSocketAddress());
        }
    }
}
