import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.util.Collections;
import java.util.List;
import org.java_websocket.WebSocket;
import org.java_websocket.handshake.ClientHandshake;
import org.java_websocket.server.WebSocketServer;

/**
 * Java-WebSocket: one selector thread and a worker thread per core. The queue of a connection has
 * no bound, so a slow subscriber costs memory and misses nothing.
 */
public final class Publisher extends WebSocketServer {
  private final String test;
  private final List<String> replies;

  private Publisher(InetSocketAddress address, String test) {
    super(address);
    this.test = test;
    this.replies = Collections.nCopies(Workload.number("LAB_MESSAGES"), "x".repeat(Workload.number("LAB_BYTES")));
    setTcpNoDelay(true);
    // A run may be longer than the keep-alive timer, whose pings would be part of the measurement.
    setConnectionLostTimeout(0);
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
      Workload.ready(getPort());
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

  public static void main(String[] arguments) {
    String test = Workload.test(List.of("echo", "heartbeat", "fan-out"));
    var publisher = new Publisher(new InetSocketAddress(System.getenv("LAB_HOST"), Workload.number("LAB_PORT")), test);
    publisher.start();
    if (test.equals("fan-out")) {
      Workload.generate(publisher::broadcast);
    }
  }
}
