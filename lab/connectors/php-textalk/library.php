<?php
// textalk/websocket.
declare(strict_types=1);

use WebSocket\Client;
use WebSocket\ConnectionException;

const NAME = 'textalk/websocket';
const VERSION = '1.5.5';
const VENDOR = __DIR__ . '/build/unpacked/usr/share/icingaweb2/modules/pdfexport/vendor/';

spl_autoload_register(function (string $name): void {
    $folders = ['WebSocket\\' => VENDOR . 'textalk/websocket/lib/', 'Psr\\Log\\' => VENDOR . 'psr/log/Psr/Log/'];
    foreach ($folders as $prefix => $folder) {
        if (str_starts_with($name, $prefix)) {
            require $folder . str_replace('\\', '/', substr($name, strlen($prefix))) . '.php';
        }
    }
});

/**
 * The client with access to its socket, so that the connector can wait for bytes and write in
 * between.
 */
final class SelectableClient extends Client
{
    public function open(): void
    {
        $this->connect();
    }

    public function isReadable(int $waitUs): bool
    {
        $read = [$this->socket];
        $none = null;
        // A signal interrupts this with a warning.
        return (bool) @stream_select($read, $none, $none, 0, $waitUs);
    }
}

final class Reader
{
    /** Status code of the server's close frame, or null. */
    public ?int $closeCode = null;
    public bool $isBinary = false;
    private bool $isLost = false;
    private readonly SelectableClient $client;

    public function __construct(string $url)
    {
        $trust = getenv('LAB_CA') ? ['cafile' => getenv('LAB_CA')] : [];
        $context = stream_context_create(['socket' => ['tcp_nodelay' => true], 'ssl' => $trust]);
        // With pings in the filter the library returns after each frame, so that it does not wait
        // for a message.
        $this->client = new SelectableClient($url, [
            'timeout' => 5, 'context' => $context, 'filter' => ['text', 'binary', 'ping', 'pong', 'close'],
        ]);
        try {
            $this->client->open();
        } catch (ConnectionException $error) {
            throw new ConnectFailure($error->getMessage());
        }
    }

    /**
     * Waits for bytes, at most for $waitUs. False: nothing came. Null: the connection has ended.
     */
    public function fill(int $waitUs): ?bool
    {
        return $this->isLost ? null : $this->client->isReadable($waitUs);
    }

    /** The next whole message, or null if no bytes are there. Answers pings. */
    public function next(): ?string
    {
        while ($this->closeCode === null && !$this->isLost && $this->client->isReadable(0)) {
            try {
                $message = $this->client->receive();
            } catch (ConnectionException $error) {
                if ($error->getCode() === ConnectionException::BAD_OPCODE) {
                    throw new ProtocolError($error->getMessage(), 1002);
                }
                $this->isLost = true;
                return null;
            }
            $opcode = $this->client->getLastOpcode();
            if ($opcode === 'close') {
                $this->closeCode = $this->client->getCloseStatus() ?? 1005;
                return null;
            }
            if ($opcode !== 'text' && $opcode !== 'binary') {
                continue;
            }
            $this->isBinary = $opcode === 'binary';
            // The library does not check texts.
            if (!$this->isBinary && !preg_match('//u', $message)) {
                throw new ProtocolError('a text message is not valid UTF-8', 1007);
            }
            return $message;
        }
        return null;
    }

    public function sendText(string $text): void
    {
        $this->client->text($text);
    }

    public function close(?int $code = null): void
    {
        try {
            if ($code !== null && $this->client->isConnected()) {
                $this->client->send(pack('n', $code), 'close');
            }
        } catch (ConnectionException) {
            // The server has closed the connection before.
        }
        $this->client->disconnect();
    }
}
