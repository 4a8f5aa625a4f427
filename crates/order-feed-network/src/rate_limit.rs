//! Limits the requests of each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Most addresses with a used allowance. Above it, requests of other addresses are refused.
const MAX_ADDRESSES: usize = 4_096;

/// Allows `burst` requests at once, and one more in each interval.
#[derive(Debug)]
pub(crate) struct RateLimit {
    interval: Duration,
    burst: u32,
    /// When the allowance of an address is whole again.
    whole_at: HashMap<IpAddr, Instant>,
}

impl RateLimit {
    pub fn new(interval: Duration, burst: u32) -> Self {
        RateLimit { interval, burst, whole_at: HashMap::new() }
    }

    /// Takes one request from the allowance of an address. Returns false if it is used up.
    pub fn take(&mut self, address: IpAddr, now: Instant) -> bool {
        if self.whole_at.len() >= MAX_ADDRESSES {
            self.whole_at.retain(|_, whole_at| *whole_at > now);
        }
        let is_full = self.whole_at.len() >= MAX_ADDRESSES;
        let known = self.whole_at.get(&address).copied();
        if is_full && known.is_none() {
            return false;
        }
        let whole_at = known.unwrap_or(now).max(now) + self.interval;
        let is_allowed = whole_at <= now + self.interval * self.burst;
        if is_allowed {
            self.whole_at.insert(address, whole_at);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_burst_and_then_one_request_in_each_interval() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut limit = RateLimit::new(second, 3);
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let taken: Vec<bool> = (0..5).map(|_| limit.take(one, start)).collect();
        assert_eq!(taken, [true, true, true, false, false]);
        assert!(limit.take(other, start));
        assert!(!limit.take(one, start + second / 2));
        assert!(limit.take(one, start + second));
        assert!(!limit.take(one, start + second));
    }

    #[test]
    fn a_flood_of_addresses_is_refused_until_allowances_are_whole() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut limit = RateLimit::new(second, 3);
        let address = |number: usize| IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
        assert!((0..MAX_ADDRESSES).all(|number| limit.take(address(number), start)));
        assert!(!limit.take(address(MAX_ADDRESSES), start));
        assert!(limit.take(address(MAX_ADDRESSES), start + second));
        assert_eq!(limit.whole_at.len(), 1);
    }
}
