package dev.pitwire.client;

import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import java.math.BigDecimal;

/**
 * An order as the venue reports it, under the dialect's names.
 *
 * @param orderState such as `open`, `filled`, `cancelled` or `untriggered`
 * @param price null for a stop that becomes a market order
 * @param queueAhead visible amount that trades before this order at its price, or null
 * @param lastUpdateTimestamp milliseconds of venue time since 1970
 */
public record Order(
    String orderId,
    String instrumentName,
    String direction,
    String orderState,
    String orderType,
    BigDecimal amount,
    BigDecimal filledAmount,
    @JsonDeserialize(using = Json.PriceOrNull.class) BigDecimal price,
    String label,
    String timeInForce,
    BigDecimal queueAhead,
    long lastUpdateTimestamp) { }
