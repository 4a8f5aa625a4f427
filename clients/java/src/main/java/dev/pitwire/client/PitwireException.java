package dev.pitwire.client;

import com.fasterxml.jackson.databind.JsonNode;

/** An error of this package: what is wrong, and what to do. */
public class PitwireException extends RuntimeException {
    private final String remedy;

    PitwireException(String what, String remedy) {
        super(remedy.isEmpty() ? what : what + "; " + remedy);
        this.remedy = remedy;
    }

    public String remedy() {
        return remedy;
    }

    /** The venue cannot be reached. */
    public static final class ConnectionFailed extends PitwireException {
        ConnectionFailed(String url, String cause) {
            super("cannot connect to " + url + ": " + cause,
                "start the venue (pitwire up), and check that the URL is ws://HOST:PORT/ws/api/v2");
        }
    }

    /** The call was not sent, so it had no effect. */
    public static final class NotSent extends PitwireException {
        NotSent(String method, String cause) {
            super(method + " was not sent: " + cause, "try again");
        }
    }

    /** The call was sent and its answer is missing. The venue may have executed it. */
    public static class Unanswered extends PitwireException {
        Unanswered(String method, String missing) {
            this(method, missing, "it may have been executed: query the state before you repeat it");
        }

        private Unanswered(String method, String missing, String remedy) {
            super(method + " has no answer: " + missing, remedy);
        }
    }

    /** The answer to an order is missing. Only a query tells whether the order exists. */
    public static final class OrderUnknown extends Unanswered {
        private final String label;

        OrderUnknown(String label, Unanswered cause) {
            super("the order " + label, cause.getMessage(), "it may exist: call resolve(label)");
            this.label = label;
            initCause(cause);
        }

        public String label() {
            return label;
        }
    }

    /** The venue refused the call. It had no effect. */
    public static final class Refused extends PitwireException {
        private final JsonNode error;

        Refused(String method, JsonNode error) {
            super(method + " was refused with " + error.path("code").asLong() + " " + error.path("message").asText()
                    + " " + error.path("data").path("reason").asText(),
                error.path("data").path("remedy").asText());
            this.error = error;
        }

        public long code() {
            return error.path("code").asLong();
        }

        /** Returns the error object of the venue, with `data.name`, `data.reason` and others. */
        public JsonNode error() {
            return error;
        }

        /** Returns the pause that the venue demands in milliseconds, or 0. */
        long retryAfterMs() {
            return error.path("data").path("retry_after_ms").asLong();
        }
    }
}
