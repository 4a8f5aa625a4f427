package dev.pitwire.sbe;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Arrays;

/** The programs of this package. */
public final class Main {
    private static final String USAGE = """
        usage: java -jar pitwire-sbe.jar COMMAND
          orders GATEWAY INSTRUMENT_ID PRICE CLIENT_ID:SECRET CLIENT_ID:SECRET
          feed LINE_A[,LINE_B] RECOVERY
          bench GATEWAY[;GATEWAY...] WS_URL INSTRUMENT_NAME INSTRUMENT_ID PRICE RATE ORDERS ROUNDS CLIENT_ID:SECRET...
          aeron-driver DIRECTORY
        An address is HOST:PORT. A gateway is HOST:PORT, or by Aeron REQUESTS,ANSWERS[,DIRECTORY]: two
        channels, and the directory of the media driver. RATE is in orders a second, over all clients.""";

    private Main() { }

    public static void main(String[] arguments) throws InterruptedException {
        try {
            run(arguments);
        } catch (IllegalArgumentException | ArithmeticException error) {
            System.err.println("error: invalid argument: " + error.getMessage());
            System.err.println(USAGE);
            System.exit(2);
        } catch (VenueException | IOException error) {
            System.err.println("error: " + error.getMessage());
            System.exit(1);
        }
    }

    private static void run(String[] words) throws IOException, InterruptedException {
        String command = words.length > 0 ? words[0] : "none";
        int least = switch (command) {
            case "orders" -> 6;
            case "feed" -> 3;
            case "bench" -> 10;
            case "aeron-driver" -> 2;
            default -> throw new IllegalArgumentException(
                "command " + command + ", expected orders, feed, bench or aeron-driver");
        };
        if (words.length < least) {
            throw new IllegalArgumentException(command + " has too few arguments");
        }
        switch (command) {
            case "orders" -> Orders.run(Gateway.parse(words[1]), Long.parseLong(words[2]), Decimals.parse(words[3]),
                credentials(words[4]), credentials(words[5]));
            case "feed" -> Feed.run(Arrays.stream(words[1].split(",")).map(Main::address).toList(), address(words[2]));
            case "aeron-driver" -> AeronDriver.run(words[1]);
            default -> Benchmark.run(words);
        }
    }

    static InetSocketAddress address(String text) {
        int colon = text.lastIndexOf(':');
        if (colon < 1) {
            throw new IllegalArgumentException("address " + text + ": expected HOST:PORT");
        }
        return new InetSocketAddress(text.substring(0, colon), Integer.parseInt(text.substring(colon + 1)));
    }

    static Orders.Credentials credentials(String text) {
        int colon = text.indexOf(':');
        if (colon < 1) {
            throw new IllegalArgumentException("expected CLIENT_ID:SECRET");
        }
        return new Orders.Credentials(text.substring(0, colon), text.substring(colon + 1));
    }
}
