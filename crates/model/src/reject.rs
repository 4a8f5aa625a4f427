//! Reasons for which the engine refuses a command. `contracts/errors.toml` has their wire codes and
//! remedies.

use crate::coded_enum::coded_enum;

coded_enum! {
    /// Why a command is refused.
    Reject {
        UnknownInstrument = 1, "unknown_instrument";
        UnknownAccount = 2, "unknown_account";
        UnknownCurrency = 3, "unknown_currency";
        /// The session accepts no new orders or no amends.
        NotOpen = 4, "not_open";
        /// The quantity is zero or above the largest order.
        QuantityOutOfRange = 5, "quantity_out_of_range";
        /// The price is below one tick or above the highest price.
        PriceOutOfRange = 6, "price_out_of_range";
        /// Another live order has this id.
        DuplicateOrderId = 7, "duplicate_order_id";
        NotEnoughFunds = 8, "not_enough_funds";
        /// The instrument has reached its largest number of live orders.
        BookFull = 9, "book_full";
        /// No live order has this id.
        UnknownOrder = 10, "unknown_order";
        NotOwner = 11, "not_owner";
        /// The new total is not above the executed lots.
        AmountAlreadyFilled = 12, "amount_already_filled";
        /// The name or id exists already, or the id is not the next one.
        AlreadyExists = 13, "already_exists";
        /// The definition contradicts itself or refers to something that does not exist.
        BadDefinition = 14, "bad_definition";
        /// The balance would exceed the largest amount.
        AmountOverflow = 15, "amount_overflow";
        /// A post-only order would trade with the displayed book.
        PostOnlyWouldTrade = 16, "post_only_would_trade";
        /// No price is left for repricing the post-only order.
        PostOnlyNoPlace = 17, "post_only_no_place";
        /// Post-only was set on an order that cannot rest.
        PostOnlyNotAllowed = 18, "post_only_not_allowed";
        /// The peak is below the smallest display, above the quantity, or set on an order that
        /// cannot rest.
        DisplayOutOfRange = 19, "display_out_of_range";
        QuantityAboveLimit = 20, "quantity_above_limit";
        NotionalAboveLimit = 21, "notional_above_limit";
        PriceBelowCollar = 22, "price_below_collar";
        PriceAboveCollar = 23, "price_above_collar";
        TooManyOpenOrders = 24, "too_many_open_orders";
        /// The session, the account or the venue is killed.
        Killed = 25, "killed";
        ExecutionThrottle = 26, "execution_throttle";
        AccountClosed = 27, "account_closed";
        InstrumentDeleted = 28, "instrument_deleted";
        UnknownTrade = 29, "unknown_trade";
        AlreadyBusted = 30, "already_busted";
        /// The command made the engine panic and is skipped.
        Quarantined = 31, "quarantined";
        /// This order type never allows this time in force.
        TifNotAllowedForType = 32, "tif_not_allowed_for_type";
        TifNotAllowedInSession = 33, "tif_not_allowed_in_session";
        TypeNotAllowedInSession = 34, "type_not_allowed_in_session";
        /// The session of the order does not come any more today.
        NoAuctionScheduled = 35, "no_auction_scheduled";
        /// A hidden order is below the minimum reserve size of the instrument.
        QuantityBelowReserve = 36, "quantity_below_reserve";
        MinimumExecutionOutOfRange = 37, "minimum_execution_out_of_range";
        ExpiryPassed = 38, "expiry_passed";
        ExpiryTooFar = 39, "expiry_too_far";
        /// The price is too far from the static reference.
        PriceOutsideBand = 40, "price_outside_band";
        /// The amend changes a term that the order does not have or that never changes.
        NotAmendable = 41, "not_amendable";
        /// The current session cannot change to this one.
        SessionNotAllowed = 42, "session_not_allowed";
        /// The hours of trade reporting are closed.
        ReportingClosed = 43, "reporting_closed";
        /// Too many reports of the account wait in this instrument.
        TooManyReports = 44, "too_many_reports";
        /// No waiting report with this number concerns the account.
        UnknownReport = 45, "unknown_report";
        /// The reporter cannot confirm its own report.
        OwnReport = 46, "own_report";
        /// A reduce-only order was entered, and it would not bring the account's position nearer to
        /// zero.
        NothingToReduce = 47, "nothing_to_reduce";
        /// Reduce-only was set on an order that the rules do not allow to be reduce-only.
        ReduceOnlyNotAllowed = 48, "reduce_only_not_allowed";
    }
}
