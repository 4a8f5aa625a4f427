package dev.pitwire.sbe;

import pitwire.sbe.BestPricesDecoder;
import pitwire.sbe.BookDecoder;
import pitwire.sbe.ExecutionReportDecoder;
import pitwire.sbe.InstrumentStatusDecoder;
import pitwire.sbe.MassCancelAcceptedDecoder;
import pitwire.sbe.OrderAcceptedDecoder;
import pitwire.sbe.RejectDecoder;
import pitwire.sbe.VwapDecoder;

/**
 * Receives the numbered messages of a session, each once and in order. A decoder is valid during
 * the call only, and its fields must be read in the order of the schema.
 */
public interface MessageHandler {
    default void onOrderAccepted(OrderAcceptedDecoder message) { }

    default void onMassCancelAccepted(MassCancelAcceptedDecoder message) { }

    default void onReject(RejectDecoder message) { }

    default void onExecutionReport(ExecutionReportDecoder message) { }

    default void onBestPrices(BestPricesDecoder message) { }

    default void onVwap(VwapDecoder message) { }

    default void onBook(BookDecoder message) { }

    default void onInstrumentStatus(InstrumentStatusDecoder message) { }

    /** Messages or reports are missing for good: query the orders. */
    default void onLost() { }
}
