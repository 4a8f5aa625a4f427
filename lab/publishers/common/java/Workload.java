import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;

/** What every publisher in Java does alike, by contracts/lab-publisher.md. */
final class Workload {
  private Workload() {}

  /** Returns the name of the test. Ends the process with code 2 if it is not one of `offered`. */
  static String test(List<String> offered) {
    String test = System.getenv("LAB_TEST");
    if (!offered.contains(test)) {
      System.err.println("invalid LAB_TEST " + test + ": expected one of " + String.join(", ", offered));
      System.exit(2);
    }
    return test;
  }

  static int number(String name) {
    return Integer.parseInt(System.getenv(name));
  }

  /** Says that the publisher accepts connections on this port. */
  static void ready(int port) throws IOException {
    Path ready = Path.of(System.getenv("LAB_READY_FILE"));
    Path unfinished = Path.of(ready + ".unfinished");
    Files.writeString(unfinished, "{\"http\":\"" + System.getenv("LAB_HOST") + ":" + port + "\"}");
    Files.move(unfinished, ready, StandardCopyOption.ATOMIC_MOVE);
  }

  /** Publishes the messages of the test `fan-out` at their due times, without an end. */
  static void generate(Consumer<String> publish) {
    double rate = number("LAB_RATE");
    int bytes = number("LAB_BYTES");
    long start = System.nanoTime();
    Instant now = Instant.now();
    long startRealtime = now.getEpochSecond() * 1_000_000_000L + now.getNano();
    for (long n = 1; ; n++) {
      long due = (long) (n / rate * 1e9);
      while (System.nanoTime() - start < due) {
        LockSupport.parkNanos(due - (System.nanoTime() - start));
      }
      String head = "{\"seq\":" + n + ",\"ts_ns\":" + (startRealtime + due) + ",\"pad\":\"";
      publish.accept(head + "x".repeat(Math.max(0, bytes - head.length() - 2)) + "\"}");
    }
  }
}
