//! Rate limits.
//!
//! Does        keep allowances that refill with time: one of each class per account, and per
//!             connection without a login.
//! Holds       1. a refused request costs nothing, and its error says when it would pass;
//!             2. cancels have their own allowance, so a member that used up its orders can cancel;
//!             3. order rate limits follow seven-day volume tiers and only ever rise: see
//!                [`TIERS`];
//!             4. time is a steady clock, so setting the wall clock changes no allowance.
//! Start at    [`DialectLimits`], then [`Meter::take`].

use crate::codec::{Json, RpcError};

const NANOS: u64 = 1_000_000_000;

/// Credits that refill up to a pool. One request costs `cost` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub cost: u64,
    pub pool: u64,
    pub refill_per_s: u64,
}

/// Allowances of each account, or of each connection without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialectLimits {
    /// Requests that belong to no other class.
    pub requests: Allowance,
    pub orders: Allowance,
    pub cancels: Allowance,
    pub subscriptions: Allowance,
    pub instrument_lists: Allowance,
    /// Refusals that a connection may collect before it is closed.
    pub patience: Allowance,
}

/// Order rates by seven-day volume in US dollars ([`crate::volume`]): the dialect's table of orders
/// per second and burst.
pub const TIERS: [(u64, Allowance); 3] = [
    (1_000_000, Allowance { cost: 1, pool: 30, refill_per_s: 10 }),
    (5_000_000, Allowance { cost: 1, pool: 50, refill_per_s: 20 }),
    (25_000_000, Allowance { cost: 1, pool: 100, refill_per_s: 30 }),
];

impl DialectLimits {
    /// Most open orders of an account, unless the configuration or an operator sets another limit.
    /// The limit bounds the memory and the work that one account can cause.
    pub const MAX_OPEN_ORDERS: u32 = 10_000;
    /// Most stop orders of an account that wait for their trigger price, unless the configuration
    /// sets another limit. One trade may elect all of them, and the engine executes them in one
    /// command.
    pub const MAX_STOP_ORDERS: u32 = 1_000;
}

impl Default for DialectLimits {
    /// Returns the dialect's figures for the lowest tier.
    fn default() -> Self {
        let orders = Allowance { cost: 1, pool: 20, refill_per_s: 5 };
        DialectLimits {
            requests: Allowance { cost: 500, pool: 50_000, refill_per_s: 10_000 },
            orders,
            cancels: orders,
            subscriptions: Allowance { cost: 3_000, pool: 30_000, refill_per_s: 10_000 },
            instrument_lists: Allowance { cost: 1, pool: 50, refill_per_s: 1 },
            patience: Allowance { cost: 1, pool: 100, refill_per_s: 1 },
        }
    }
}

/// The class of a request. Each class has its own allowance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    Request,
    Order,
    Cancel,
    Subscription,
    InstrumentList,
}

impl RequestClass {
    pub fn of(method: &str) -> RequestClass {
        let name = method.split_once('/').map_or(method, |(_, name)| name);
        match name {
            "buy" | "sell" | "edit" | "edit_by_label" | "close_position" => RequestClass::Order,
            "pitwire_report_trade" | "pitwire_confirm_report" => RequestClass::Order,
            "get_instruments" => RequestClass::InstrumentList,
            "subscribe" | "unsubscribe" | "unsubscribe_all" => RequestClass::Subscription,
            _ if name == "cancel" || name.starts_with("cancel_") => RequestClass::Cancel,
            _ => RequestClass::Request,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            RequestClass::Request => "requests",
            RequestClass::Order => "orders and edits",
            RequestClass::Cancel => "cancels",
            RequestClass::Subscription => "subscriptions",
            RequestClass::InstrumentList => "lists of instruments",
        }
    }
}

impl Allowance {
    /// Returns the higher rate and the larger burst of both, in requests: the costs may differ.
    fn at_least(self, other: Allowance) -> Allowance {
        let credits = |theirs: u64| theirs.saturating_mul(self.cost) / other.cost.max(1);
        Allowance {
            cost: self.cost,
            pool: self.pool.max(credits(other.pool)),
            refill_per_s: self.refill_per_s.max(credits(other.refill_per_s)),
        }
    }
}

impl DialectLimits {
    /// Returns the limits of an account with this seven-day volume in US dollars.
    #[must_use]
    pub fn of_volume(mut self, dollars: u64) -> DialectLimits {
        for (_, tier) in TIERS.into_iter().filter(|(above, _)| dollars > *above) {
            self.orders = self.orders.at_least(tier);
            self.cancels = self.cancels.at_least(tier);
        }
        self
    }

    pub(crate) fn of(&self, sort: RequestClass) -> Allowance {
        match sort {
            RequestClass::Request => self.requests,
            RequestClass::Order => self.orders,
            RequestClass::Cancel => self.cancels,
            RequestClass::Subscription => self.subscriptions,
            RequestClass::InstrumentList => self.instrument_lists,
        }
    }

    /// Writes the figures by which clients pace themselves.
    pub(crate) fn write(&self, j: &mut Json<'_>, enforced: bool) {
        j.object(|j| {
            j.key("enforced").bool(enforced).key("limits_per_currency").bool(false);
            for (key, allowance) in [
                ("non_matching_engine", self.requests),
                ("matching_engine", self.orders),
                ("cancels", self.cancels),
                ("subscriptions", self.subscriptions),
                ("get_instruments", self.instrument_lists),
            ] {
                j.key(key).object(|j| {
                    j.key("rate").uint(allowance.refill_per_s / allowance.cost.max(1));
                    j.key("burst").uint(allowance.pool / allowance.cost.max(1));
                });
            }
        });
    }
}

/// Credits of one caller, in billionths of a credit, so that a nanosecond adds a whole number.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    billionths: u64,
    at_ns: u64,
}

impl Bucket {
    /// Takes the cost of one request.
    ///
    /// # Errors
    ///
    /// Returns the number of milliseconds until the request would pass.
    fn take(bucket: &mut Option<Bucket>, allowance: Allowance, now_ns: u64) -> Result<(), u64> {
        let full = allowance.pool.saturating_mul(NANOS);
        let bucket = bucket.get_or_insert(Bucket { billionths: full, at_ns: now_ns });
        let gained = now_ns.saturating_sub(bucket.at_ns).saturating_mul(allowance.refill_per_s);
        bucket.billionths = bucket.billionths.saturating_add(gained).min(full);
        bucket.at_ns = now_ns;
        let cost = allowance.cost.saturating_mul(NANOS);
        match bucket.billionths.checked_sub(cost) {
            Some(left) => {
                bucket.billionths = left;
                Ok(())
            }
            None => {
                let missing = cost - bucket.billionths;
                Err(missing.div_ceil(allowance.refill_per_s.max(1)).div_ceil(1_000_000))
            }
        }
    }
}

/// Remaining credits of one caller, by class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter([Option<Bucket>; 5]);

impl Meter {
    /// Takes one request of a class from its allowance.
    ///
    /// # Errors
    /// `too_many_requests` with the time to wait, if the allowance is used up.
    pub fn take(&mut self, limits: &DialectLimits, sort: RequestClass, now_ns: u64) -> Result<(), RpcError> {
        Bucket::take(&mut self.0[sort as usize], limits.of(sort), now_ns).map_err(|retry_after_ms| {
            let error = RpcError::new("too_many_requests", format!("more {} than the limits allow", sort.name()));
            error.with_retry(retry_after_ms)
        })
    }
}

/// Refusals that a connection may still collect.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RefusalBudget(Option<Bucket>);

impl RefusalBudget {
    /// Counts one refusal. Returns true if the connection has exceeded its budget.
    pub fn ends(&mut self, limits: &DialectLimits, now_ns: u64) -> bool {
        Bucket::take(&mut self.0, limits.patience, now_ns).is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = NANOS;

    /// Returns how many of `tries` pass at one instant.
    fn passes(meter: &mut Meter, limits: &DialectLimits, sort: RequestClass, tries: u32, now_ns: u64) -> u32 {
        (0..tries).map(|_| u32::from(meter.take(limits, sort, now_ns).is_ok())).sum()
    }

    /// Burst and rate figures of the dialect's table.
    #[test]
    fn the_dialects_figures() {
        let limits = DialectLimits::default();
        for (sort, burst, in_ten_seconds) in [
            (RequestClass::Request, 100, 100),
            (RequestClass::Order, 20, 20),
            (RequestClass::Cancel, 20, 20),
            (RequestClass::Subscription, 10, 10),
            (RequestClass::InstrumentList, 50, 10),
        ] {
            let mut meter = Meter::default();
            assert_eq!(passes(&mut meter, &limits, sort, 1_000, 7), burst, "{sort:?} at once");
            assert_eq!(passes(&mut meter, &limits, sort, 1_000, 7 + 10 * SECOND), in_ten_seconds, "{sort:?} later");
        }
        let mut meter = Meter::default();
        assert_eq!(passes(&mut meter, &limits, RequestClass::Request, 1_000, 0), 100);
        assert_eq!(passes(&mut meter, &limits, RequestClass::Request, 1_000, SECOND), 20, "20 a second");
        assert_eq!(passes(&mut meter, &limits, RequestClass::Order, 1_000, SECOND), 20, "and sorts do not share");
    }

    #[test]
    fn a_refusal_says_when_it_would_pass() {
        let limits = DialectLimits::default();
        let mut meter = Meter::default();
        passes(&mut meter, &limits, RequestClass::Order, 20, 0);
        let retry_after_ms =
            meter.take(&limits, RequestClass::Order, 50_000_000).unwrap_err().retry_after_ms().unwrap();
        assert_eq!(retry_after_ms, 150, "five a second are 200 ms each, and 50 have passed");
        let then_ns = 50_000_000 + retry_after_ms * 1_000_000;
        assert!(meter.take(&limits, RequestClass::Order, then_ns - 1).is_err());
        assert!(meter.take(&limits, RequestClass::Order, then_ns).is_ok());
    }

    /// Tiers of the dialect's table: 10/s and burst 30 above a million dollars, 20/s and 50 above
    /// five, 30/s and 100 above 25.
    #[test]
    fn volume_above_tier_grants_its_rate() {
        for (dollars, rate, burst) in [
            (0, 5, 20),
            (1_000_000, 5, 20),
            (1_000_001, 10, 30),
            (5_000_000, 10, 30),
            (5_000_001, 20, 50),
            (25_000_001, 30, 100),
            (u64::MAX, 30, 100),
        ] {
            let limits = DialectLimits::default().of_volume(dollars);
            for sort in [RequestClass::Order, RequestClass::Cancel] {
                let mut meter = Meter::default();
                assert_eq!(passes(&mut meter, &limits, sort, 1_000, 0), burst, "{dollars} {sort:?} at once");
                assert_eq!(passes(&mut meter, &limits, sort, 1_000, SECOND), rate, "{dollars} {sort:?} in a second");
            }
            assert_eq!(limits.requests, DialectLimits::default().requests, "of orders alone");
        }
        let fast = Allowance { cost: 2, pool: 400, refill_per_s: 30 };
        let own = DialectLimits { orders: fast, ..DialectLimits::default() }.of_volume(6_000_000);
        assert_eq!(own.orders, Allowance { cost: 2, pool: 400, refill_per_s: 40 }, "never slower than the venue says");
    }

    #[test]
    fn patience_ends_with_sustained_abuse_only() {
        let limits = DialectLimits::default();
        let mut patience = RefusalBudget::default();
        assert_eq!((0..500).position(|_| patience.ends(&limits, 0)), Some(100));
        let mut patience = RefusalBudget::default();
        assert!(!(0..500).any(|n| patience.ends(&limits, n * SECOND)), "one a second for ever");
    }

    #[test]
    fn every_method_is_of_its_sort() {
        for (method, sort) in [
            ("private/buy", RequestClass::Order),
            ("private/edit_by_label", RequestClass::Order),
            ("private/cancel", RequestClass::Cancel),
            ("private/cancel_all_by_currency", RequestClass::Cancel),
            ("public/get_instruments", RequestClass::InstrumentList),
            ("public/get_instrument", RequestClass::Request),
            ("public/subscribe", RequestClass::Subscription),
            ("private/get_open_orders", RequestClass::Request),
            ("nonsense", RequestClass::Request),
        ] {
            assert_eq!(RequestClass::of(method), sort, "{method}");
        }
    }
}
