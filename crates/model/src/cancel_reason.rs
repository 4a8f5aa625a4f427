//! Why orders are cancelled.

use crate::coded_enum::coded_enum;

coded_enum! {
    /// Why an order was cancelled.
    CancelReason {
        /// The account's owner cancelled it, alone or with others.
        Requested = 0, "requested";
        /// The remainder of an immediate or market order.
        ImmediateRemainder = 1, "immediate_remainder";
        /// A DAY order at the end of the venue day.
        DayEnded = 2, "day_ended";
        /// A fill-or-kill order that could not be filled completely.
        FillOrKill = 3, "fill_or_kill";
        /// Self-match prevention.
        SelfMatch = 4, "self_match";
        /// Its session ended with cancel on disconnect enabled.
        Disconnected = 5, "disconnected";
        /// An operator's kill.
        Killed = 6, "killed";
        InstrumentDeleted = 7, "instrument_deleted";
        AccountClosed = 8, "account_closed";
        /// A GTT order that reached its time.
        TimeReached = 9, "time_reached";
        /// A GTD order whose date has passed.
        DateReached = 10, "date_reached";
        /// A GTC order that is ninety days old.
        NinetyDays = 11, "ninety_days";
        CallEnded = 12, "auction_ended";
        PauseEnded = 13, "pause_ended";
        CrossEnded = 14, "cross_ended";
        /// The remainder of a hidden order is below its minimum execution size.
        BelowMinimumExecution = 15, "below_minimum_execution";
        /// The price at which the order would have traded breached a tolerance.
        Breaker = 16, "breaker";
        /// An elected immediate order in a session that does not match on entry.
        NothingExecutes = 17, "nothing_executes";
        /// A reduce-only order that has nothing left to reduce, or whose continuous trading has
        /// ended.
        ReduceOnly = 18, "reduce_only";
    }
}
