package dev.pitwire.sbe;

import java.io.IOException;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.HdrHistogram.Histogram;

/**
 * The time from an order to its acknowledgement: by SBE over TCP and Aeron, by JSON over a
 * WebSocket, and of a TCP ping-pong of the same sizes. The rounds of all transports alternate.
 */
final class Benchmark {
    static final long LOT = Decimals.parse("1");
    private static final double[] QUANTILES = {50, 90, 99, 99.9, 99.99};
    /** A quantile is printed only if this many values lie above it. */
    private static final int VALUES_ABOVE = 100;
    private static final int TIMEOUT_S = 120;

    /** The instrument of the orders, and a price at which they do not trade. */
    record Market(String name, long instrumentId, long price) { }

    private final int orders;
    private final int rate;
    /** Histograms of the rounds, by row of the table. */
    private final Map<String, List<Histogram>> rows = new LinkedHashMap<>();

    private Benchmark(int orders, int rate) {
        this.orders = orders;
        this.rate = rate;
    }

    static void run(String[] words) throws IOException, InterruptedException {
        Map<String, Gateway> gateways = new LinkedHashMap<>();
        for (String word : words[1].split(";")) {
            Gateway gateway = Gateway.parse(word);
            gateways.put(gateway.transport(), gateway);
        }
        URI url = URI.create(words[2]);
        var market = new Market(words[3], Long.parseLong(words[4]), Decimals.parse(words[5]));
        var benchmark = new Benchmark(Integer.parseInt(words[7]), Integer.parseInt(words[6]));
        int rounds = Integer.parseInt(words[8]);
        var accounts = Arrays.stream(words, 9, words.length).map(Main::credentials).toList();
        int perClient = gateways.size() + 1;
        if (accounts.size() % perClient != 0) {
            throw new IllegalArgumentException("expected as many accounts for JSON as for each gateway");
        }
        int clients = accounts.size() / perClient;
        String run = Long.toHexString(System.nanoTime());
        Map<String, List<Transport>> transports = new LinkedHashMap<>();
        transports.put("TCP ping-pong", new ArrayList<>());
        gateways.keySet().forEach(name -> transports.put(name, new ArrayList<>()));
        transports.put("JSON", new ArrayList<>());
        try {
            var next = accounts.iterator();
            for (int client = 0; client < clients; client++) {
                String prefix = run + "-" + client + "-";
                transports.get("TCP ping-pong").add(new Transport.Baseline());
                for (var entry : gateways.entrySet()) {
                    transports.get(entry.getKey()).add(
                        new Transport.Sbe(entry.getValue(), next.next(), market, prefix));
                }
                transports.get("JSON").add(new Transport.Json(url, next.next(), market, prefix));
            }
            // The first round warms up.
            for (int round = -1; round < rounds; round++) {
                var order = new ArrayList<>(transports.keySet());
                Collections.rotate(order, round);
                for (String name : order) {
                    benchmark.measure(name, transports.get(name), round >= 0);
                }
            }
        } finally {
            for (List<Transport> list : transports.values()) {
                for (Transport transport : list) {
                    transport.close();
                }
            }
        }
        benchmark.print();
        if (System.getProperty("histograms") != null) {
            benchmark.write(Path.of(System.getProperty("histograms")));
        }
    }

    /** Writes a histogram file of each row, with all rounds, in microseconds. */
    private void write(Path directory) throws IOException {
        Files.createDirectories(directory);
        for (var row : rows.entrySet()) {
            var all = new Histogram(3);
            row.getValue().forEach(all::add);
            String name = row.getKey().replace(" | ", "-").replace(' ', '-');
            try (var file = new PrintStream(directory.resolve(name + ".hgrm").toFile(), StandardCharsets.UTF_8)) {
                all.outputPercentileDistribution(file, 1e3);
            }
        }
    }

    private int firstNumber;

    private void measure(String name, List<Transport> all, boolean isKept) throws InterruptedException {
        var counts = all.size() > 1 ? List.of(1, all.size()) : List.of(1);
        for (int clients : counts) {
            List<Transport> used = all.subList(0, clients);
            Histogram closed = new Measurement(used, firstNumber, orders).closedLoop();
            firstNumber += orders;
            Histogram open = new Measurement(used, firstNumber, orders).openLoop(rate);
            firstNumber += orders;
            if (isKept) {
                rows.computeIfAbsent(String.format("closed | %d | %s", clients, name), row -> new ArrayList<>())
                    .add(closed);
                rows.computeIfAbsent(String.format("open | %d | %s", clients, name), row -> new ArrayList<>())
                    .add(open);
            }
        }
    }

    /** Prints the medians of the rounds in microseconds. */
    private void print() {
        System.out.println("| loop | clients | transport | orders | p50 | p90 | p99 | p99.9 | p99.99 |");
        System.out.println("|---|---|---|---|---|---|---|---|---|");
        rows.entrySet().stream().sorted(Map.Entry.comparingByKey()).forEach(row -> {
            long count = row.getValue().stream().mapToLong(Histogram::getTotalCount).sum();
            var line = new StringBuilder("| " + row.getKey() + " | " + count);
            for (double quantile : QUANTILES) {
                double[] values = row.getValue().stream()
                    .mapToDouble(histogram -> histogram.getValueAtPercentile(quantile) / 1e3).sorted().toArray();
                boolean isKnown = count * (100 - quantile) / 100 >= VALUES_ABOVE;
                line.append(isKnown ? String.format(" | %.1f", values[values.length / 2]) : " | –");
            }
            System.out.println(line + " |");
        });
    }

    /** One measurement: so many orders over some connections. */
    private static final class Measurement {
        private final List<Transport> transports;
        private final int first;
        private final long[] startNs;
        private final AtomicInteger left;
        private final CompletableFuture<Void> end = new CompletableFuture<>();
        private final List<Histogram> histograms = new ArrayList<>();

        Measurement(List<Transport> transports, int first, int orders) {
            this.transports = transports;
            this.first = first;
            startNs = new long[orders];
            left = new AtomicInteger(orders);
        }

        /** Each connection sends its next order after the acknowledgement of the cancel before. */
        Histogram closedLoop() throws InterruptedException {
            int clients = transports.size();
            listen(true);
            for (int client = 0; client < Math.min(clients, startNs.length); client++) {
                enter(client, System.nanoTime());
            }
            return await();
        }

        /** The orders have fixed times, from which the latency counts. */
        Histogram openLoop(int rate) throws InterruptedException {
            listen(false);
            long begin = System.nanoTime();
            for (int index = 0; index < startNs.length; index++) {
                long due = begin + index * 1_000_000_000L / rate;
                while (System.nanoTime() < due) {
                    LockSupport.parkNanos(due - System.nanoTime());
                }
                enter(index, due);
            }
            return await();
        }

        private void enter(int index, long start) {
            startNs[index] = start;
            transports.get(index % transports.size()).enter(first + index);
        }

        private void listen(boolean isClosedLoop) {
            for (Transport transport : transports) {
                var histogram = new Histogram(3);
                histograms.add(histogram);
                transport.listen(new Transport.Listener() {
                    @Override
                    public void acknowledged(int number) {
                        histogram.recordValue(System.nanoTime() - startNs[number - first]);
                    }

                    @Override
                    public void cancelled(int number) {
                        int next = number - first + transports.size();
                        if (left.decrementAndGet() == 0) {
                            end.complete(null);
                        } else if (isClosedLoop && next < startNs.length) {
                            enter(next, System.nanoTime());
                        }
                    }

                    @Override
                    public void failed(String cause) {
                        end.completeExceptionally(new IOException(cause));
                    }
                });
            }
        }

        private Histogram await() throws InterruptedException {
            try {
                end.get(TIMEOUT_S, TimeUnit.SECONDS);
            } catch (ExecutionException error) {
                throw new VenueException("an order failed: " + error.getCause().getMessage(),
                    "the venue must have no order flow, and the price must not trade");
            } catch (TimeoutException silent) {
                throw new VenueException(left + " orders have no answer after " + TIMEOUT_S + " s",
                    "lower the rate or the number of orders");
            }
            var all = new Histogram(3);
            histograms.forEach(all::add);
            return all;
        }
    }
}
