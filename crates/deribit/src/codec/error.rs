//! Errors, from the registry in `contracts/errors.toml`.

use std::borrow::Cow;
use std::sync::LazyLock;

use pitwire_model::{Decimal, Reject};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct ErrorEntry {
    pub name: String,
    pub code: i32,
    pub wire: String,
    pub meaning: String,
    pub remedy: String,
    /// Where the rule is written: a page in `docs` and its section.
    pub rule: Option<String>,
}

#[derive(Deserialize)]
struct Registry {
    error: Vec<ErrorEntry>,
}

static REGISTRY: LazyLock<Vec<ErrorEntry>> = LazyLock::new(|| {
    // The file is compiled in and a test parses it, so an unreadable registry cannot ship.
    toml::from_str::<Registry>(include_str!("../../../../contracts/errors.toml")).map(|r| r.error).unwrap_or_default()
});

pub fn registry() -> &'static [ErrorEntry] {
    &REGISTRY
}

/// One error with the facts of this case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub name: &'static str,
    /// The cause in this case, for people.
    pub reason: String,
    pub param: Option<&'static str>,
    /// Boxed to keep results small: most errors have none.
    figures: Option<Box<ErrorFigures>>,
}

/// Numbers that a client may act on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ErrorFigures {
    limit: Option<Decimal>,
    retry_after_ms: Option<u64>,
    rule_id: Option<&'static str>,
}

impl RpcError {
    pub fn new(name: &'static str, reason: impl Into<String>) -> Self {
        RpcError { name, reason: reason.into(), param: None, figures: None }
    }

    pub fn param(name: &'static str, param: &'static str, reason: impl Into<String>) -> Self {
        RpcError { param: Some(param), ..Self::new(name, reason) }
    }

    /// Adds the largest or smallest value that would be accepted.
    pub fn with_limit(mut self, limit: Decimal) -> Self {
        self.figures.get_or_insert_default().limit = Some(limit);
        self
    }

    /// Adds the id of the rule that decided.
    pub fn with_rule(mut self, id: &'static str) -> Self {
        self.figures.get_or_insert_default().rule_id = Some(id);
        self
    }

    pub fn rule_id(&self) -> Option<&'static str> {
        self.figures.as_ref()?.rule_id
    }

    /// Adds the number of milliseconds after which the request may be sent again.
    pub fn with_retry(mut self, after_ms: u64) -> Self {
        self.figures.get_or_insert_default().retry_after_ms = Some(after_ms);
        self
    }

    pub fn limit(&self) -> Option<Decimal> {
        self.figures.as_ref()?.limit
    }

    pub fn retry_after_ms(&self) -> Option<u64> {
        self.figures.as_ref()?.retry_after_ms
    }

    /// Returns an error with the text of the registry.
    pub fn named(name: &'static str) -> Self {
        let meaning = registry().iter().find(|entry| entry.name == name).map(|entry| entry.meaning.clone());
        Self::new(name, meaning.unwrap_or_default())
    }

    /// Returns an error for a missing or malformed parameter.
    pub fn invalid(param: &'static str, reason: impl Into<String>) -> Self {
        Self::param("invalid_params", param, reason)
    }

    pub fn entry(&self) -> Option<&'static ErrorEntry> {
        registry().iter().find(|entry| entry.name == self.name)
    }

    /// Returns the remedy of the registry. It names the parameter that the client sent.
    pub fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = &self.entry()?.remedy;
        Some(match self.param {
            Some("max_show") => remedy.replace("display_amount", "max_show").into(),
            _ => remedy.into(),
        })
    }
}

impl From<Reject> for RpcError {
    fn from(reject: Reject) -> Self {
        RpcError { param: param_of(reject), ..RpcError::named(reject.name()) }
    }
}

/// The parameter that a reject of the engine is about.
fn param_of(reject: Reject) -> Option<&'static str> {
    match reject {
        Reject::UnknownInstrument | Reject::NotOpen | Reject::InstrumentDeleted => Some("instrument_name"),
        Reject::QuantityBelowReserve => Some("amount"),
        Reject::MinimumExecutionOutOfRange => Some("min_execution"),
        Reject::ExpiryPassed | Reject::ExpiryTooFar => Some("expires_at"),
        Reject::PriceOutsideBand => Some("price"),
        Reject::TifNotAllowedForType | Reject::TifNotAllowedInSession | Reject::NoAuctionScheduled => {
            Some("time_in_force")
        }
        Reject::TypeNotAllowedInSession => Some("type"),
        Reject::QuantityOutOfRange | Reject::AmountAlreadyFilled | Reject::QuantityAboveLimit => Some("amount"),
        Reject::NotEnoughFunds | Reject::NotionalAboveLimit => Some("amount"),
        Reject::PriceOutOfRange | Reject::PriceBelowCollar | Reject::PriceAboveCollar => Some("price"),
        Reject::UnknownOrder | Reject::NotOwner => Some("order_id"),
        Reject::UnknownCurrency => Some("currency"),
        Reject::UnknownTrade | Reject::AlreadyBusted => Some("trade_id"),
        Reject::PostOnlyWouldTrade | Reject::PostOnlyNoPlace | Reject::PostOnlyNotAllowed => Some("post_only"),
        Reject::DisplayOutOfRange => Some("display_amount"),
        Reject::NothingToReduce | Reject::ReduceOnlyNotAllowed => Some("reduce_only"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reject_has_a_number_a_rule_and_a_remedy() {
        for reject in Reject::ALL {
            let entry = RpcError::from(reject).entry().unwrap_or_else(|| panic!("{} is not registered", reject.name()));
            assert!(!entry.remedy.trim().is_empty() && !entry.meaning.trim().is_empty(), "{}", entry.name);
            assert!(entry.rule.as_ref().is_some_and(|rule| !rule.trim().is_empty()), "{} names no rule", entry.name);
        }
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = registry().iter().map(|entry| &entry.name).collect();
        let all = names.len();
        assert!(all > 20, "the registry did not parse");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
