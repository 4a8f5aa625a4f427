package dev.pitwire.client;

import java.math.BigDecimal;

/** A trade of an own order. The timestamp is in milliseconds of venue time since 1970. */
public record Fill(
    String tradeId,
    String orderId,
    String instrumentName,
    String direction,
    BigDecimal price,
    BigDecimal amount,
    BigDecimal fee,
    String feeCurrency,
    String label,
    long timestamp) { }
