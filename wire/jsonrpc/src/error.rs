//! Refusals, by the registry in `contracts/errors.toml`.

use std::sync::LazyLock;

use pitwire_model::Reject;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub struct ErrorEntry {
    pub name: String,
    pub code: i32,
    pub wire: String,
    pub meaning: String,
    pub remedy: String,
}

#[derive(Deserialize)]
struct Registry {
    error: Vec<ErrorEntry>,
}

static REGISTRY: LazyLock<Vec<ErrorEntry>> = LazyLock::new(|| {
    // The file is compiled in and a test parses it, so an unreadable registry cannot ship.
    toml::from_str::<Registry>(include_str!("../../../contracts/errors.toml")).map(|r| r.error).unwrap_or_default()
});

pub fn registry() -> &'static [ErrorEntry] {
    &REGISTRY
}

/// One refusal, with the facts of this case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    pub name: &'static str,
    /// What was wrong this time, for people.
    pub reason: String,
    pub param: Option<&'static str>,
}

impl RpcError {
    pub fn new(name: &'static str, reason: impl Into<String>) -> Self {
        RpcError { name, reason: reason.into(), param: None }
    }

    pub fn param(name: &'static str, param: &'static str, reason: impl Into<String>) -> Self {
        RpcError { name, reason: reason.into(), param: Some(param) }
    }

    /// For cases that the registry's own words say well enough.
    pub fn named(name: &'static str) -> Self {
        let meaning = registry().iter().find(|entry| entry.name == name).map(|entry| entry.meaning.clone());
        Self::new(name, meaning.unwrap_or_default())
    }

    /// A missing or unreadable parameter.
    pub fn invalid(param: &'static str, reason: impl Into<String>) -> Self {
        Self::param("invalid_params", param, reason)
    }

    pub fn entry(&self) -> Option<&'static ErrorEntry> {
        registry().iter().find(|entry| entry.name == self.name)
    }
}

impl From<Reject> for RpcError {
    fn from(reject: Reject) -> Self {
        RpcError::named(reject.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reject_has_a_number_and_a_remedy() {
        for reject in Reject::ALL {
            let entry =
                RpcError::from(*reject).entry().unwrap_or_else(|| panic!("{} is not registered", reject.name()));
            assert!(!entry.remedy.trim().is_empty() && !entry.meaning.trim().is_empty(), "{}", entry.name);
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
