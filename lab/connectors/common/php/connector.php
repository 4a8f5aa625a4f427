<?php
// A connector of the latency laboratory in PHP, by contracts/lab-connector.md. It runs in the
// folder of one connector, whose library.php has the class Reader and the constants NAME and
// VERSION.
declare(strict_types=1);

require __DIR__ . '/capture.php';
require getcwd() . '/library.php';

const DONE = 0, USAGE = 2, REMOTE_CLOSE = 3, CONNECT_FAILURE = 4, PROTOCOL_ERROR = 5, CAPTURE_ERROR = 6;
const NEEDED = ['URL', 'CAPTURE', 'SCHEMA', 'EXIT_FILE', 'RUN', 'CONNECTOR', 'EXCHANGE', 'ENVELOPE', 'PAYLOAD', 'RECONNECT'];
const IDLE_US = 5_000;
const LOOK_NS = 100_000_000;
const GIVE_UP_NS = 10_000_000_000;
const MESSAGE_MOST = 16 << 20;

/** The server violates the protocol. The code of the exception is the close code to send. */
final class ProtocolError extends RuntimeException {}

/** The connection cannot be opened. */
final class ConnectFailure extends RuntimeException {}

final class Receiver
{
    public bool $isStopping = false;
    private int $connectionId = 0;
    private int $nextLookNs = 0;
    private readonly bool $hasEnvelope;
    private readonly bool $keepsPayload;

    public function __construct(private readonly Capture $capture)
    {
        $this->hasEnvelope = getenv('LAB_ENVELOPE') === 'text';
        $this->keepsPayload = getenv('LAB_PAYLOAD') === 'all';
    }

    /** Receives until the feed or the run is over. Returns the exit code. */
    public function run(): int
    {
        try {
            $reader = $this->open();
        } catch (ConnectFailure $failure) {
            fwrite(STDERR, 'cannot connect to ' . getenv('LAB_URL') . ": {$failure->getMessage()}\n");
            return CONNECT_FAILURE;
        }
        while ($reader) {
            $this->capture->opened(++$this->connectionId, hrtime(true));
            [$reason, $code] = $this->receive($reader);
            $atNs = hrtime(true);
            if ($this->isStopping || $code === 1000) {
                return DONE;
            }
            fwrite(STDERR, "connection $this->connectionId ended: $reason $code\n");
            $this->capture->ended($this->connectionId, $reason, $code, $atNs);
            if (getenv('LAB_RECONNECT') !== '1') {
                return $reason === 'protocol' ? PROTOCOL_ERROR : REMOTE_CLOSE;
            }
            $reader = $this->reopen();
        }
        return $this->isStopping ? DONE : CONNECT_FAILURE;
    }

    /** @return array{string, ?int} Why the connection ended, and the server's close code. */
    private function receive(Reader $reader): array
    {
        try {
            while (!$this->isStopping) {
                $filled = $reader->fill(IDLE_US);
                while (($message = $reader->next()) !== null) {
                    $this->take($message, $reader->isBinary, hrtime(true));
                }
                if ($reader->closeCode !== null || $filled === null) {
                    $reader->close();
                    return $reader->closeCode === null ? ['lost', null] : ['close', $reader->closeCode];
                }
                $this->capture->work($filled === false);
                $this->look();
            }
            $reader->close(1001);
            return ['stopped', null];
        } catch (ProtocolError $error) {
            fwrite(STDERR, $error->getMessage() . "\n");
            $reader->close($error->getCode());
            return ['protocol', null];
        }
    }

    private function take(string $message, bool $isBinary, int $receivedNs): void
    {
        $length = strlen($message);
        $body = $this->keepsPayload ? $message : null;
        if ($this->hasEnvelope && !$isBinary && $length >= 108 && str_starts_with($message, '{"seq":"')) {
            $numbers = [(int) substr($message, 100, 6), (int) substr($message, 8, 19), (int) substr($message, 39, 19), (int) substr($message, 71, 19)];
            $this->capture->put([$this->connectionId, ...$numbers, $receivedNs, $length, 0, $body]);
        } else {
            $flags = $isBinary ? 3 : 2;
            $this->capture->put([$this->connectionId, null, null, null, null, $receivedNs, $length, $flags, $body]);
        }
    }

    private function look(): void
    {
        if (hrtime(true) >= $this->nextLookNs) {
            $this->nextLookNs = hrtime(true) + LOOK_NS;
            $this->isStopping = $this->isStopping || $this->capture->isToStop();
        }
    }

    private function open(): Reader
    {
        $reader = new Reader(getenv('LAB_URL'));
        if ($subscription = getenv('LAB_SUBSCRIBE')) {
            $reader->sendText($subscription);
        }
        return $reader;
    }

    /** Tries again for ten seconds, at once and then every 50 to 200 ms. */
    private function reopen(): ?Reader
    {
        $untilNs = hrtime(true) + GIVE_UP_NS;
        while (hrtime(true) < $untilNs && !$this->isStopping) {
            try {
                return $this->open();
            } catch (ConnectFailure) {
                usleep(random_int(50_000, 200_000));
                $this->capture->work(true);
                $this->look();
            }
        }
        return null;
    }
}

function shakeHands(): void
{
    while (($line = fgets(STDIN)) !== false) {
        if (trim($line) === 'clock') {
            echo 'clock ' . hrtime(true) . "\n";
        } elseif (trim($line) === 'go') {
            return;
        }
    }
    exit(USAGE);
}

function main(): int
{
    foreach (NEEDED as $name) {
        if (getenv("LAB_$name") === false) {
            fwrite(STDERR, "the environment has no LAB_$name\n");
            return USAGE;
        }
    }
    if (getenv('LAB_BUSY_WAIT_NS')) {
        fwrite(STDERR, "this connector does not offer LAB_BUSY_WAIT_NS\n");
        return USAGE;
    }
    shakeHands();
    $capture = null;
    try {
        $capture = new Capture(getenv('LAB_EXIT_FILE'));
        $receiver = new Receiver($capture);
        pcntl_async_signals(true);
        foreach ([SIGTERM, SIGINT] as $number) {
            pcntl_signal($number, function () use ($receiver): void {
                $receiver->isStopping = true;
            });
        }
        $code = $receiver->run();
        $capture->finish($code);
    } catch (Exception $failure) {
        fwrite(STDERR, 'cannot write ' . getenv('LAB_CAPTURE') . ": {$failure->getMessage()}\n");
        $code = CAPTURE_ERROR;
    }
    echo "done $code " . ($capture?->received ?? 0) . "\n";
    return $code;
}

exit(main());
