package dev.pitwire.sbe;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * Follows the feed. Each line of the standard input prints the books, and its end ends the program.
 */
final class Feed {
    private static final String END = "end";

    private Feed() { }

    static void run(List<InetSocketAddress> lines, InetSocketAddress recovery)
            throws IOException, InterruptedException {
        BlockingQueue<String> commands = new LinkedBlockingQueue<>();
        try (var feed = FeedHandler.join(lines, recovery)) {
            System.out.println("joined after message " + feed.newest() + "; press Enter for the books");
            var input = new Thread(() -> readInput(commands), "input");
            input.setDaemon(true);
            input.start();
            String command;
            while ((command = commands.poll()) != END) {
                feed.poll(20);
                if (command != null) {
                    print(feed);
                }
            }
        }
    }

    private static void readInput(BlockingQueue<String> commands) {
        try (var input = new BufferedReader(new InputStreamReader(System.in))) {
            input.lines().forEach(commands::add);
        } catch (IOException closed) {
            // The same as the end of the input.
        }
        commands.add(END);
    }

    private static void print(FeedHandler feed) {
        feed.books().all().stream().sorted(Comparator.comparing(book -> book.name)).forEach(book -> {
            print(book, true);
            print(book, false);
        });
        System.out.println("books after message " + feed.newest() + "; " + feed.counts());
    }

    private static void print(OrderBook book, boolean isBid) {
        for (OrderBook.Level level : book.levels(isBid)) {
            System.out.printf("%s %s %s @ %s%n", book.name, isBid ? "bid" : "ask",
                Decimals.format(level.lots * book.lotSize), Decimals.format(level.price));
        }
    }
}
