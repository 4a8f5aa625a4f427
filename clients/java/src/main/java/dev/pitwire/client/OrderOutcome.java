package dev.pitwire.client;

import java.util.List;

/** The answer to a new or amended order: its state and its trades on entry. */
public record OrderOutcome(Order order, List<Fill> trades) { }
