package dev.pitwire.client;

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;

/** One WebSocket. It joins fragments, and sends one message after another. */
final class Socket implements WebSocket.Listener {
    private final Consumer<String> onText;
    private final Consumer<String> onLost;
    private final StringBuilder text = new StringBuilder();
    private WebSocket webSocket;
    private CompletableFuture<?> lastSend = CompletableFuture.completedFuture(null);

    Socket(Consumer<String> onText, Consumer<String> onLost) {
        this.onText = onText;
        this.onLost = onLost;
    }

    void open(HttpClient http, String url, Duration timeout) {
        try {
            webSocket = http.newWebSocketBuilder().connectTimeout(timeout).buildAsync(URI.create(url), this)
                .get(timeout.toMillis(), TimeUnit.MILLISECONDS);
        } catch (ExecutionException error) {
            throw new PitwireException.ConnectionFailed(url, String.valueOf(error.getCause()));
        } catch (IllegalArgumentException error) {
            throw new PitwireException.ConnectionFailed(url, String.valueOf(error.getMessage()));
        } catch (TimeoutException error) {
            throw new PitwireException.ConnectionFailed(url, "nothing in " + timeout);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new PitwireException.ConnectionFailed(url, "the thread was interrupted");
        }
    }

    /** Queues a message. A failure is reported as the loss of the socket. */
    synchronized void send(String message) {
        lastSend = lastSend.thenCompose(sent -> webSocket.sendText(message, true));
        lastSend.exceptionally(error -> {
            onLost.accept(String.valueOf(error));
            return null;
        });
    }

    void abort() {
        if (webSocket != null) {
            webSocket.abort();
        }
    }

    @Override
    public CompletionStage<?> onText(WebSocket socket, CharSequence part, boolean isLast) {
        text.append(part);
        if (isLast) {
            String message = text.toString();
            text.setLength(0);
            onText.accept(message);
        }
        socket.request(1);
        return null;
    }

    @Override
    public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
        onLost.accept("closed with " + code + " " + reason);
        return null;
    }

    @Override
    public void onError(WebSocket socket, Throwable error) {
        onLost.accept(String.valueOf(error));
    }
}
