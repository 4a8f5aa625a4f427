package dev.pitwire.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;

/** A subscribed channel and its place in it, from which it resumes after a cut. */
final class Channel {
    /** Reasons of a channel that misses nothing. */
    private static final List<String> SETTLED = List.of("new", "already_subscribed");

    final String name;
    private final Consumer<JsonNode> onData;
    private final Consumer<Restart> onRestart;
    /** The last message as EPOCH:NUMBER; null if the next subscription begins with the state. */
    private String token;
    private String epoch = "";
    /** Messages of a private channel that wait for the token which completes them. */
    private List<JsonNode> held = new ArrayList<>();

    Channel(String name, Consumer<JsonNode> onData, Consumer<Restart> onRestart) {
        this.name = name;
        this.onData = onData;
        this.onRestart = onRestart;
    }

    boolean isPrivate() {
        return name.startsWith("user.") || name.startsWith("drop_copy.");
    }

    String method(String verb) {
        return (isPrivate() ? "private/" : "public/") + verb;
    }

    String token() {
        return token;
    }

    void receive(JsonNode parameters) {
        JsonNode data = parameters.path("data");
        if (!isPrivate()) {
            JsonNode number = data.isArray() ? data.path(data.size() - 1).path("trade_seq") : data.path("change_id");
            if (!epoch.isEmpty() && number.isNumber()) {
                token = epoch + ":" + number.asText();
            }
            onData.accept(data);
            return;
        }
        held.add(data);
        // Messages without a token belong to the next one with a token. After a cut all of them
        // return.
        if (!parameters.has("token") && token != null) {
            return;
        }
        token = parameters.path("token").asText(null);
        release();
    }

    /** Takes the notice that follows the missed messages. */
    void resume(JsonNode notice) {
        release();
        if (notice.has("token")) {
            token = notice.path("token").asText();
            epoch = token.substring(0, Math.max(token.indexOf(':'), 0));
        }
        String by = notice.path("by").asText();
        String reason = notice.path("reason").asText();
        if (!by.equals("messages") && !SETTLED.contains(reason)) {
            onRestart.accept(new Restart(name, by, reason));
        }
    }

    void refuse() {
        onRestart.accept(new Restart(name, "nothing", "refused"));
    }

    /** Makes the next subscription begin with the state. */
    void forgetPlace() {
        token = null;
    }

    /** Forgets the messages that the venue will repeat. */
    void cut() {
        held = new ArrayList<>();
    }

    private void release() {
        List<JsonNode> complete = held;
        held = new ArrayList<>();
        complete.forEach(onData);
    }
}
