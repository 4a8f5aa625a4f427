import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import org.java_websocket.WebSocket;
import org.java_websocket.handshake.ClientHandshake;
import org.java_websocket.server.WebSocketServer;

/**
 * Java-WebSocket: one selector thread and a worker thread per core. The queue of a connection has no bound, so a slow
 * subscriber costs memory and misses nothing.
 */
public final class Publisher extends WebSocketServer {
  private final String test;
  private final List<String> replies;

  private Publisher(InetSocketAddress address, String test) {
    super(address);
    this.test = test;
    this.replies = Collections.nCopies(number("LAB_MESSAGES"), "x".repeat(number("LAB_BYTES")));
    setTcpNoDelay(true);
    // A run may be longer than the keep-alive timer, whose pings would be part of the measurement.
    setConnectionLostTimeout(0);
  }

  private static int number(String name) {
    return Integer.parseInt(System.getenv(name));
  }

  @Override
  public void onMessage(WebSocket socket, String message) {
    if (test.equals("echo")) {
      socket.send(message);
    } else if (test.equals("heartbeat")) {
      replies.forEach(socket::send);
    }
  }

  @Override
  public void onStart() {
    try {
      Path ready = Path.of(System.getenv("LAB_READY_FILE"));
      Path unfinished = Path.of(ready + ".unfinished");
      Files.writeString(unfinished, "{\"http\":\"" + System.getenv("LAB_HOST") + ":" + getPort() + "\"}");
      Files.move(unfinished, ready, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  @Override
  public void onOpen(WebSocket socket, ClientHandshake handshake) {}

  @Override
  public void onClose(WebSocket socket, int code, String reason, boolean remote) {}

  @Override
  public void onError(WebSocket socket, Exception error) {
    if (socket == null) {
      System.err.println("the server failed: " + error);
      System.exit(1);
    }
  }

  private void generate(double rate, int bytes) {
    long start = System.nanoTime();
    Instant now = Instant.now();
    long startRealtime = now.getEpochSecond() * 1_000_000_000L + now.getNano();
    for (long n = 1; ; n++) {
      long due = (long) (n / rate * 1e9);
      while (System.nanoTime() - start < due) {
        LockSupport.parkNanos(due - (System.nanoTime() - start));
      }
      String head = "{\"seq\":" + n + ",\"ts_ns\":" + (startRealtime + due) + ",\"pad\":\"";
      broadcast(head + "x".repeat(Math.max(0, bytes - head.length() - 2)) + "\"}");
    }
  }

  public static void main(String[] arguments) {
    String test = System.getenv("LAB_TEST");
    if (!List.of("echo", "heartbeat", "fan-out").contains(test)) {
      System.err.println("invalid LAB_TEST " + test + ": expected echo, heartbeat or fan-out");
      System.exit(2);
    }
    var publisher = new Publisher(new InetSocketAddress(System.getenv("LAB_HOST"), number("LAB_PORT")), test);
    publisher.start();
    if (test.equals("fan-out")) {
      publisher.generate(number("LAB_RATE"), number("LAB_BYTES"));
    }
  }
}
