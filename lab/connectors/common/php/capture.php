<?php
// The ring and the capture file. PHP has one thread, so the receive loop says when to write.
declare(strict_types=1);

const RING_PLACES = 1 << 16;
const ROWS_MAX = 10_000;
const FLUSH_NS = 250_000_000;

final class Capture
{
    public int $received = 0;
    private int $captured = 0;
    private int $ringWaits = 0;
    /** @var list<array{int, ?int, ?int, ?int, ?int, int, int, int, ?string}> */
    private array $ring = [];
    private int $flushedNs;
    private int $nextSecondNs;
    private SQLite3 $file;
    private SQLite3Stmt $event;
    private SQLite3Stmt $payload;

    public function __construct(private readonly string $exitFile)
    {
        $path = getenv('LAB_CAPTURE');
        $created = @fopen($path, 'x');
        if (!$created) {
            throw new RuntimeException(error_get_last()['message'] ?? 'it cannot be created');
        }
        fclose($created);
        $this->file = new SQLite3($path);
        $this->file->enableExceptions(true);
        $this->file->exec(file_get_contents(getenv('LAB_SCHEMA')));
        $this->event = $this->file->prepare('INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)');
        $this->payload = $this->file->prepare('INSERT INTO payload VALUES (?, ?)');
        foreach (['run', 'connector', 'exchange', 'url', 'subscribe'] as $name) {
            $this->facts([$name => getenv('LAB_' . strtoupper($name)) ?: '']);
        }
        $this->facts(['contract' => 1, 'language' => 'PHP', 'library' => NAME]);
        $this->facts(['library_version' => VERSION, 'runtime_version' => 'PHP ' . PHP_VERSION . self::compiler(), 'host' => gethostname()]);
        $this->facts(['started_ns' => $this->flushedNs = hrtime(true)]);
        $this->nextSecondNs = $this->flushedNs + 1_000_000_000;
        $this->clock();
    }

    private static function compiler(): string
    {
        $status = function_exists('opcache_get_status') ? opcache_get_status(false) : false;
        return $status && $status['jit']['on'] ? ' with JIT' : '';
    }

    /** @param array{int, ?int, ?int, ?int, ?int, int, int, int, ?string} $event */
    public function put(array $event): void
    {
        $this->received++;
        if (count($this->ring) >= RING_PLACES) {
            $this->ringWaits++;
            $this->flush();
        }
        $this->ring[] = $event;
    }

    /** Writes if the socket is idle, the ring is three quarters full, or 250 ms have passed. */
    public function work(bool $isIdle): void
    {
        $now = hrtime(true);
        if ($isIdle || count($this->ring) >= RING_PLACES * 3 / 4 || $now - $this->flushedNs > FLUSH_NS) {
            $this->flush();
        }
        if ($now >= $this->nextSecondNs) {
            $this->nextSecondNs += 1_000_000_000;
            echo "alive $this->received $this->captured\n";
            $this->clock();
        }
    }

    public function isToStop(): bool
    {
        // The cache of PHP would hide a file that appears.
        clearstatcache(true, $this->exitFile);
        return file_exists($this->exitFile);
    }

    public function opened(int $id, int $atNs): void
    {
        echo "open $id $atNs\n";
        $this->insert('UPDATE gap SET to_ns = ? WHERE connection_id = ?', [$atNs, $id - 1]);
    }

    public function ended(int $id, string $reason, ?int $code, int $atNs): void
    {
        echo "gap $id $reason\n";
        $this->insert('INSERT INTO gap VALUES (?, ?, ?, ?, NULL)', [$id, $reason, $code, $atNs]);
    }

    public function finish(int $code): void
    {
        $this->facts(['ended_ns' => hrtime(true)]);
        $this->flush();
        $usage = getrusage();
        $cpuUs = ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) * 1_000_000 + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
        preg_match('/VmHWM:\s*(\d+)/', file_get_contents('/proc/self/status'), $peak);
        $collections = gc_status()['runs'];
        $this->facts(['exit_code' => $code, 'messages' => $this->received, 'ring_waits' => $this->ringWaits]);
        $this->facts(['cpu_us' => $cpuUs, 'peak_memory_kb' => $peak[1], 'gc_count' => $collections]);
        $this->event->close();
        $this->payload->close();
        $this->file->exec('PRAGMA wal_checkpoint(TRUNCATE)');
        $this->file->close();
    }

    private function flush(): void
    {
        $this->flushedNs = hrtime(true);
        foreach (array_chunk($this->ring, ROWS_MAX) as $batch) {
            $beginNs = hrtime(true);
            $this->file->exec('BEGIN');
            foreach ($batch as $event) {
                $this->event->bindValue(1, ++$this->captured, SQLITE3_INTEGER);
                for ($at = 0; $at < 8; $at++) {
                    $this->event->bindValue($at + 2, $event[$at]);
                }
                $this->event->execute();
                $this->event->reset();
                if ($event[8] !== null) {
                    $this->payload->bindValue(1, $this->captured, SQLITE3_INTEGER);
                    $this->payload->bindValue(2, $event[8], SQLITE3_BLOB);
                    $this->payload->execute();
                    $this->payload->reset();
                }
            }
            $this->file->exec('COMMIT');
            $this->insert('INSERT INTO flush VALUES (?, ?, ?)', [$beginNs, hrtime(true), count($batch)]);
        }
        $this->ring = [];
    }

    private function clock(): void
    {
        // microtime reads CLOCK_REALTIME in microseconds.
        $beforeNs = hrtime(true);
        [$fraction, $seconds] = explode(' ', microtime());
        $realtimeNs = (int) $seconds * 1_000_000_000 + (int) substr($fraction, 2, 6) * 1_000;
        $this->insert('INSERT INTO clock VALUES (?, ?, ?)', [$beforeNs, $realtimeNs, hrtime(true)]);
    }

    /** @param array<string, int|string> $facts */
    private function facts(array $facts): void
    {
        foreach ($facts as $name => $fact) {
            $this->insert('INSERT INTO run VALUES (?, ?)', [$name, (string) $fact]);
        }
    }

    /** @param list<int|string|null> $values */
    private function insert(string $statement, array $values): void
    {
        $prepared = $this->file->prepare($statement);
        foreach ($values as $at => $value) {
            $prepared->bindValue($at + 1, $value);
        }
        $prepared->execute();
        $prepared->close();
    }
}
