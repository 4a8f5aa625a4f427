package dev.pitwire.client;

import java.math.BigDecimal;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * An order to enter. {@link #with} adds any parameter of the dialect; see docs/api-extensions.md.
 */
public record NewOrder(Side side, String instrument, Map<String, Object> parameters) {
    public enum Side { BUY, SELL }

    public static NewOrder limit(Side side, String instrument, BigDecimal amount, BigDecimal price) {
        return market(side, instrument, amount).with("type", "limit").with("price", price);
    }

    public static NewOrder market(Side side, String instrument, BigDecimal amount) {
        return new NewOrder(side, instrument, Map.of("instrument_name", instrument, "amount", amount,
            "type", "market"));
    }

    public NewOrder with(String parameter, Object value) {
        var more = new LinkedHashMap<>(parameters);
        more.put(parameter, value);
        return new NewOrder(side, instrument, more);
    }
}
