//! Slows down guessing: counts refused logins by address and by client id.
//!
//! Does        allow a burst of failures, then one per second. A login above the budget is refused
//!             without a look at its secret.
//! Holds       1. after a client id has logged in from an address, failures of that id from that
//!                address have a separate budget, so that strangers cannot lock the member out;
//!             2. memory is bounded: above [`MOST_BUDGETS`] the entry with the most allowance goes.

use core::net::{IpAddr, Ipv6Addr};
use std::collections::BTreeMap;

use crate::codec::RpcError;

/// Failures that one address, or one client id, may make at once.
const BURST: u64 = 50;
/// Time in nanoseconds that gives one more failure.
const REFILL_NS: u64 = 1_000_000_000;
const MOST_BUDGETS: usize = 10_000;
/// Most pairs of an address and a client id that have a separate budget.
const MOST_KNOWN: usize = 10_000;

/// A place from which logins come: an IPv4 address, or the 64 bits of an IPv6 network. `None` for a
/// connection whose address the server does not count.
type Place = Option<IpAddr>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FailureKey {
    Place(Place),
    Client(String),
    Known(Place, String),
}

/// Steady time in nanoseconds at which the whole burst is available again.
type FullAtNs = u64;

#[derive(Default)]
pub(crate) struct LoginFailures {
    budgets: BTreeMap<FailureKey, FullAtNs>,
    /// Pairs that have logged in, with the number of the login.
    known: BTreeMap<(Place, String), u64>,
    logins: u64,
    pub counts: FailureCounts,
}

/// Numbers of refused logins since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// Logins with an unknown client id, a wrong secret or a wrong signature.
    pub failed: u64,
    /// Logins that were refused without a look, because too many had failed.
    pub slowed: u64,
}

fn place(address: Option<IpAddr>) -> Place {
    match address.map(|address| address.to_canonical())? {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
        }
        v4 @ IpAddr::V4(_) => Some(v4),
    }
}

impl LoginFailures {
    /// Checks whether a login may be tried now.
    ///
    /// # Errors
    ///
    /// `too_many_requests` with the time to wait.
    pub fn check(&mut self, client_id: &str, from: Option<IpAddr>, now_ns: u64) -> Result<(), RpcError> {
        let waits = self.keys(client_id, from).into_iter().map(|key| self.wait_ns(&key, now_ns));
        let Some(wait_ns) = waits.max().filter(|wait_ns| *wait_ns > 0) else { return Ok(()) };
        self.counts.slowed += 1;
        let reason = "too many failed logins from this address or with this client id";
        Err(RpcError::new("too_many_requests", reason).with_retry(wait_ns.div_ceil(1_000_000)))
    }

    /// Counts a failed login.
    pub fn failed(&mut self, client_id: &str, from: Option<IpAddr>, now_ns: u64) {
        self.counts.failed += 1;
        for key in self.keys(client_id, from) {
            let full_at_ns = self.budgets.get(&key).copied().unwrap_or(0).max(now_ns);
            self.make_room(&key);
            self.budgets.insert(key, full_at_ns.saturating_add(REFILL_NS));
        }
    }

    /// Records that a client id has logged in from an address.
    pub fn succeeded(&mut self, client_id: &str, from: Option<IpAddr>) {
        self.logins += 1;
        let pair = (place(from), client_id.to_owned());
        if self.known.len() >= MOST_KNOWN
            && !self.known.contains_key(&pair)
            && let Some(oldest) = self.known.iter().min_by_key(|(_, login)| **login).map(|(pair, _)| pair.clone())
        {
            self.known.remove(&oldest);
        }
        self.known.insert(pair, self.logins);
    }

    /// Returns the budgets that a login uses.
    fn keys(&self, client_id: &str, from: Option<IpAddr>) -> Vec<FailureKey> {
        let pair = (place(from), client_id.to_owned());
        if self.known.contains_key(&pair) {
            return vec![FailureKey::Known(pair.0, pair.1)];
        }
        vec![FailureKey::Place(pair.0), FailureKey::Client(pair.1)]
    }

    /// Returns how long a login must wait, in nanoseconds.
    fn wait_ns(&self, key: &FailureKey, now_ns: u64) -> u64 {
        let full_at_ns = self.budgets.get(key).copied().unwrap_or(0);
        full_at_ns.saturating_sub(now_ns).saturating_sub((BURST - 1) * REFILL_NS)
    }

    fn make_room(&mut self, key: &FailureKey) {
        if self.budgets.len() < MOST_BUDGETS || self.budgets.contains_key(key) {
            return;
        }
        if let Some(fullest) =
            self.budgets.iter().min_by_key(|(_, full_at_ns)| **full_at_ns).map(|(key, _)| key.clone())
        {
            self.budgets.remove(&fullest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(text: &str) -> Option<IpAddr> {
        text.parse().ok()
    }

    /// Fails as often as it is allowed, and returns how often.
    fn guesses(failures: &mut LoginFailures, client_id: &str, from: Option<IpAddr>, now_ns: u64) -> u64 {
        let mut tried = 0;
        while failures.check(client_id, from, now_ns).is_ok() && tried < 1_000 {
            failures.failed(client_id, from, now_ns);
            tried += 1;
        }
        tried
    }

    #[test]
    fn a_guesser_gets_a_burst_and_then_one_try_per_second() {
        let mut failures = LoginFailures::default();
        assert_eq!(guesses(&mut failures, "a", at("10.0.0.1"), SECOND), BURST);
        assert_eq!(guesses(&mut failures, "b", at("10.0.0.1"), SECOND), 0, "another id, the same address");
        assert_eq!(guesses(&mut failures, "a", at("10.0.0.2"), SECOND), 0, "another address, the same id");
        assert_eq!(guesses(&mut failures, "b", at("10.0.0.2"), SECOND), BURST);
        assert_eq!(guesses(&mut failures, "a", at("10.0.0.1"), 11 * SECOND), 10);
        let error = failures.check("a", at("10.0.0.1"), 11 * SECOND).unwrap_err();
        assert_eq!((error.name, error.retry_after_ms()), ("too_many_requests", Some(1_000)));
        assert_eq!(failures.counts.failed, 2 * BURST + 10);
    }

    #[test]
    fn strangers_do_not_lock_a_member_out() {
        let mut failures = LoginFailures::default();
        failures.succeeded("a", at("10.0.0.1"));
        for last in 2..200 {
            guesses(&mut failures, "a", at(&format!("10.0.0.{last}")), SECOND);
        }
        assert!(failures.check("a", at("10.0.0.1"), SECOND).is_ok());
        assert!(failures.check("a", at("10.0.0.250"), SECOND).is_err());
        assert_eq!(guesses(&mut failures, "a", at("10.0.0.1"), SECOND), BURST, "a known address has a budget as well");
    }

    #[test]
    fn an_ipv6_network_is_one_place() {
        let mut failures = LoginFailures::default();
        assert_eq!(guesses(&mut failures, "a", at("2001:db8::1"), SECOND), BURST);
        assert_eq!(guesses(&mut failures, "b", at("2001:db8::ffff:2"), SECOND), 0);
        assert_eq!(guesses(&mut failures, "b", at("2001:db8:0:1::1"), SECOND), BURST);
    }

    #[test]
    fn memory_is_bounded() {
        let mut failures = LoginFailures::default();
        for n in 0..u32::try_from(MOST_BUDGETS).unwrap() {
            let from = Some(IpAddr::from(n.to_be_bytes()));
            failures.failed(&n.to_string(), from, u64::from(n));
            failures.succeeded(&n.to_string(), from);
        }
        failures.succeeded("one more", None);
        assert!(failures.budgets.len() <= MOST_BUDGETS && failures.known.len() <= MOST_KNOWN);
    }
}
