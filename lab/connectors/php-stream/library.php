<?php
// A WebSocket client (RFC 6455) on a stream of PHP: no extension, no package.
declare(strict_types=1);

const NAME = 'own reader on stream_socket_client';
const VERSION = '1';

final class Reader
{
    /** Status code of the server's close frame, or null. */
    public ?int $closeCode = null;
    public bool $isBinary = false;
    /** @var resource */
    private $stream;
    private string $buffer = '';
    private int $at = 0;
    private ?string $message = null;
    private bool $isMessageBinary = false;

    public function __construct(string $url)
    {
        $parts = parse_url($url);
        $isTls = $parts['scheme'] === 'wss';
        $host = $parts['host'] . ':' . ($parts['port'] ?? ($isTls ? 443 : 80));
        $target = ($parts['path'] ?? '/') . (isset($parts['query']) ? '?' . $parts['query'] : '');
        $trust = getenv('LAB_CA') ? ['cafile' => getenv('LAB_CA')] : [];
        $context = stream_context_create(['socket' => ['tcp_nodelay' => true], 'ssl' => $trust]);
        $stream = @stream_socket_client(($isTls ? 'tls' : 'tcp') . "://$host", $number, $reason, 5, STREAM_CLIENT_CONNECT, $context);
        if (!$stream) {
            throw new ConnectFailure($reason ?: error_get_last()['message'] ?? 'no reason given');
        }
        $this->stream = $stream;
        stream_set_timeout($stream, 5);
        $key = base64_encode(random_bytes(16));
        fwrite($stream, "GET $target HTTP/1.1\r\nHost: $host\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            . "Sec-WebSocket-Key: $key\r\nSec-WebSocket-Version: 13\r\n\r\n");
        $head = '';
        while (($line = fgets($stream)) !== false && trim($line) !== '') {
            $head .= $line;
        }
        $accept = base64_encode(sha1($key . '258EAFA5-E914-47DA-95CA-C5AB0DC85B11', true));
        if (!str_starts_with($head, 'HTTP/1.1 101') || !str_contains($head, $accept)) {
            throw new ConnectFailure('the server does not upgrade: ' . strtok($head, "\r"));
        }
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
    }

    /** Waits for bytes, at most for $waitUs. False: none came. Null: the connection has ended. */
    public function fill(int $waitUs): ?bool
    {
        $read = [$this->stream];
        $none = null;
        // A signal interrupts this with a warning.
        if (!@stream_select($read, $none, $none, 0, $waitUs)) {
            return false;
        }
        $bytes = @fread($this->stream, 1 << 18);
        if ($bytes === '' || $bytes === false) {
            return feof($this->stream) ? null : false;
        }
        $this->buffer = $this->at === strlen($this->buffer) ? $bytes : substr($this->buffer, $this->at) . $bytes;
        $this->at = 0;
        return true;
    }

    /** The next whole message in the buffer, or null. Answers pings. */
    public function next(): ?string
    {
        while ($this->closeCode === null) {
            $have = strlen($this->buffer) - $this->at;
            if ($have < 2) {
                return null;
            }
            $first = ord($this->buffer[$this->at]);
            $length = ord($this->buffer[$this->at + 1]);
            $header = 2;
            if ($length >= 126) {
                $header = $length === 126 ? 4 : 10;
                if ($length > 127) {
                    throw new ProtocolError('the server masks a frame', 1002);
                }
                if ($have < $header) {
                    return null;
                }
                $length = unpack($length === 126 ? 'n' : 'J', $this->buffer, $this->at + 2)[1];
            }
            $opcode = $first & 0x0F;
            $this->check($first, $opcode, $length);
            if ($have < $header + $length) {
                return null;
            }
            $payload = substr($this->buffer, $this->at + $header, $length);
            $this->at += $header + $length;
            if ($opcode >= 8) {
                $this->control($opcode, $payload);
                continue;
            }
            if ($opcode !== 0) {
                $this->isMessageBinary = $opcode === 2;
            }
            if (!($first & 0x80)) {
                $this->message = ($this->message ?? '') . $payload;
                continue;
            }
            if ($this->message !== null) {
                $payload = $this->message . $payload;
                $this->message = null;
            }
            $this->isBinary = $this->isMessageBinary;
            if (!$this->isBinary && !preg_match('//u', $payload)) {
                throw new ProtocolError('a text message is not valid UTF-8', 1007);
            }
            return $payload;
        }
        return null;
    }

    public function sendText(string $text): void
    {
        $this->send(1, $text);
    }

    /** Sends one masked frame. */
    private function send(int $opcode, string $payload): void
    {
        $length = strlen($payload);
        $lengths = $length < 126 ? chr(0x80 | $length) : ($length < 65536 ? "\xFE" . pack('n', $length) : "\xFF" . pack('J', $length));
        $mask = random_bytes(4);
        $masked = $payload ^ str_repeat($mask, intdiv($length, 4) + 1);
        $frame = chr(0x80 | $opcode) . $lengths . $mask . $masked;
        stream_set_blocking($this->stream, true);
        @fwrite($this->stream, $frame);
        stream_set_blocking($this->stream, false);
    }

    public function close(?int $code = null): void
    {
        if ($code !== null) {
            $this->send(8, pack('n', $code));
        }
        fclose($this->stream);
    }

    private function check(int $first, int $opcode, int $length): void
    {
        $isData = $opcode <= 2;
        $wrong = match (true) {
            ($first & 0x70) !== 0 => 'a reserved bit is set',
            !$isData && ($opcode < 8 || $opcode > 10) => "opcode $opcode is reserved",
            !$isData && (!($first & 0x80) || $length > 125) => 'a control frame is fragmented or too long',
            $opcode === 0 && $this->message === null => 'a continuation has no beginning',
            $isData && $opcode !== 0 && $this->message !== null => 'a message begins inside another',
            default => null,
        };
        if ($wrong !== null) {
            throw new ProtocolError($wrong, 1002);
        }
        if ($length + strlen($this->message ?? '') > MESSAGE_MOST) {
            throw new ProtocolError('a message is longer than 16 MiB', 1009);
        }
    }

    private function control(int $opcode, string $payload): void
    {
        if ($opcode === 9) {
            $this->send(10, $payload);
        } elseif ($opcode === 8) {
            $this->closeCode = strlen($payload) >= 2 ? unpack('n', $payload)[1] : 1005;
            $this->send(8, substr($payload, 0, 2));
        }
    }
}
