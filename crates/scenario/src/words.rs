//! Spelling of model terms in scenario files.

use pitwire_model::{CancelReason, Derivation, OrderType, Phase};

pub(crate) const TIFS: [&str; 11] = ["day", "gtc", "gtd", "gtt", "ioc", "fok", "opg", "gfa", "gfx", "atc", "cpx"];
pub(crate) const TYPES: [&str; 6] = ["market", "limit", "hidden", "stop", "stop_limit", "iceberg"];

/// Cancel reasons that count as an expiry rather than as a cancel.
const EXPIRIES: [(CancelReason, &str); 13] = [
    (CancelReason::ImmediateRemainder, "immediate_remainder"),
    (CancelReason::FillOrKill, "fill_or_kill"),
    (CancelReason::DayEnded, "day_ended"),
    (CancelReason::TimeReached, "time_reached"),
    (CancelReason::DateReached, "date_reached"),
    (CancelReason::NinetyDays, "ninety_days"),
    (CancelReason::CallEnded, "auction_ended"),
    (CancelReason::PauseEnded, "pause_ended"),
    (CancelReason::CrossEnded, "cross_ended"),
    (CancelReason::BelowMinimumExecution, "below_minimum_execution"),
    (CancelReason::Breaker, "breaker"),
    (CancelReason::NothingExecutes, "nothing_executes"),
    (CancelReason::ReduceOnly, "reduce_only"),
];

/// Sessions that a scenario can change to.
pub(crate) fn sessions() -> impl Iterator<Item = Phase> {
    Phase::ALL.into_iter().filter(|phase| !matches!(phase, Phase::Closed | Phase::Deleted))
}

pub(crate) fn session_named(word: &str) -> Option<Phase> {
    sessions().find(|phase| phase.name() == word)
}

/// Returns the column of an order type in the contract tables. A limit order with a display
/// quantity is an iceberg.
pub fn type_word(order_type: OrderType, shows_a_part: bool) -> &'static str {
    match order_type {
        OrderType::Limit { .. } if shows_a_part => "iceberg",
        OrderType::Limit { .. } => "limit",
        OrderType::Market => "market",
        OrderType::Hidden { .. } => "hidden",
        OrderType::Stop { .. } => "stop",
        OrderType::StopLimit { .. } => "stop_limit",
    }
}

/// Returns the name of an expiry reason, or `None` if the reason is a cancel.
pub fn reason_of_leaving(reason: CancelReason) -> Option<&'static str> {
    EXPIRIES.iter().find(|(named, _)| *named == reason).map(|(_, word)| *word)
}

pub(crate) fn is_reason_of_leaving(word: &str) -> bool {
    EXPIRIES.iter().any(|(_, name)| *name == word)
}

pub(crate) fn is_derivation(word: &str) -> bool {
    Derivation::ALL.iter().any(|derivation| derivation.name() == word)
}
