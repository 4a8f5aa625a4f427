//! Spelling of model terms in scenario files.

use pitwire_model::{CancelReason, Derivation, OrderType, Phase};

pub(crate) const TIFS: [&str; 11] = ["day", "gtc", "gtd", "gtt", "ioc", "fok", "opg", "gfa", "gfx", "atc", "cpx"];
pub(crate) const TYPES: [&str; 6] = ["market", "limit", "hidden", "stop", "stop_limit", "iceberg"];

/// Returns whether a cancel counts as an expiry.
const fn is_expiry(reason: CancelReason) -> bool {
    use CancelReason::{AccountClosed, Disconnected, InstrumentDeleted, Killed, Requested, SelfMatch};
    !matches!(reason, Requested | SelfMatch | Disconnected | Killed | InstrumentDeleted | AccountClosed)
}

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
    is_expiry(reason).then(|| reason.name())
}

pub(crate) fn is_reason_of_leaving(word: &str) -> bool {
    CancelReason::ALL.into_iter().any(|reason| is_expiry(reason) && reason.name() == word)
}

pub(crate) fn is_derivation(word: &str) -> bool {
    Derivation::ALL.iter().any(|derivation| derivation.name() == word)
}
