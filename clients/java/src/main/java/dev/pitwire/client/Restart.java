package dev.pitwire.client;

/**
 * A channel that could not continue where it was cut. Messages may be missing or repeated.
 *
 * @param by what the venue sent instead: `history`, `snapshot` or `nothing`
 * @param reason `other_epoch`, `too_old` and others of docs/resume.md; `refused` if the channel
 *     ended
 */
public record Restart(String channel, String by, String reason) { }
