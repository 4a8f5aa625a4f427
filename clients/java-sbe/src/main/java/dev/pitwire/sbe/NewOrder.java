package dev.pitwire.sbe;

import pitwire.sbe.EntryTimeInForce;
import pitwire.sbe.EntryType;
import pitwire.sbe.OrderSide;

/**
 * An order to enter. `clientOrderId` must be unique: the venue does not enter a repeated order with
 * the same one, so the session can send an order again whose answer was lost.
 */
public record NewOrder(String clientOrderId, long instrumentId, OrderSide side, EntryType type,
                       EntryTimeInForce timeInForce, long quantity, long price) {

    /** A limit order for the default time. */
    public static NewOrder limit(String clientOrderId, long instrumentId, OrderSide side, long quantity, long price) {
        return new NewOrder(clientOrderId, instrumentId, side, EntryType.Limit, EntryTimeInForce.Default, quantity,
            price);
    }
}
