//! Why orders are cancelled.

/// Why an order was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CancelReason {
    /// The account's owner cancelled it, alone or with others.
    Requested = 0,
    /// The remainder of an immediate or market order.
    ImmediateRemainder = 1,
    /// A DAY order at the end of the venue day.
    DayEnded = 2,
    /// A fill-or-kill order that could not be filled completely.
    FillOrKill = 3,
    /// Self-match prevention.
    SelfMatch = 4,
    /// Its session ended with cancel on disconnect enabled.
    Disconnected = 5,
    /// An operator's kill.
    Killed = 6,
    InstrumentDeleted = 7,
    AccountClosed = 8,
    /// A GTT order whose time has come.
    TimeReached = 9,
    /// A GTD order whose date has passed.
    DateReached = 10,
    /// A GTC order that is ninety days old.
    NinetyDays = 11,
    CallEnded = 12,
    PauseEnded = 13,
    CrossEnded = 14,
    /// The remainder of a hidden order is below its minimum execution size.
    BelowMinimumExecution = 15,
    /// The price at which the order would have traded breached a tolerance.
    Breaker = 16,
    /// An elected immediate order in a session that does not match on entry.
    NothingExecutes = 17,
    /// A reduce-only order that has nothing left to reduce, or whose continuous trading has ended.
    ReduceOnly = 18,
}

impl CancelReason {
    pub const ALL: [CancelReason; 19] = [
        CancelReason::Requested,
        CancelReason::ImmediateRemainder,
        CancelReason::DayEnded,
        CancelReason::FillOrKill,
        CancelReason::SelfMatch,
        CancelReason::Disconnected,
        CancelReason::Killed,
        CancelReason::InstrumentDeleted,
        CancelReason::AccountClosed,
        CancelReason::TimeReached,
        CancelReason::DateReached,
        CancelReason::NinetyDays,
        CancelReason::CallEnded,
        CancelReason::PauseEnded,
        CancelReason::CrossEnded,
        CancelReason::BelowMinimumExecution,
        CancelReason::Breaker,
        CancelReason::NothingExecutes,
        CancelReason::ReduceOnly,
    ];
}
