package dev.pitwire.sbe;

import java.math.BigDecimal;
import pitwire.sbe.DecimalEncoder;

/** Prices and quantities, which are whole numbers of 1e-8 in both protocols. */
final class Decimals {
    static final int PLACES = 8;
    static final long NONE = DecimalEncoder.mantissaNullValue();

    private Decimals() { }

    static long parse(String text) {
        return new BigDecimal(text).movePointRight(PLACES).longValueExact();
    }

    static String format(long mantissa) {
        return mantissa == NONE ? "none" : BigDecimal.valueOf(mantissa, PLACES).stripTrailingZeros().toPlainString();
    }
}
