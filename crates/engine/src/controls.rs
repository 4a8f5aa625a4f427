//! Price controls: at which prices orders may execute, and which limit prices they may have.
//!
//! Does        test an execution price against the tolerances and a limit price against the price
//!             band; compute the price at which a hidden order trades.
//! Holds       nothing here changes anything; products are computed in 128 bits; without a
//!             reference there is no test.
//! Costs       constant.
//! Start at    [`References::test`].

use pitwire_model::{Event, InstrumentId, Reference, Side, Ticks, Tolerance};

/// The reference prices at the arrival of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReferencePrices {
    /// Price of the latest uncross of a call; the start price before the first one.
    pub fixed: Option<Ticks>,
    /// Last price.
    pub dynamic: Option<Ticks>,
}

/// An execution price that is too far from a reference price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    pub price: Ticks,
    pub reference: Ticks,
    pub against: Reference,
    /// The tolerance that the price reaches, in basis points.
    pub bps: u32,
}

impl Breach {
    pub fn event(self, instrument: InstrumentId) -> Event {
        let Breach { price, reference, against, bps } = self;
        Event::Breached { instrument, price, reference, against, bps }
    }
}

impl ReferencePrices {
    /// Returns the breach if an execution at `price` would reach a tolerance. Tests the static
    /// reference first.
    pub fn test(self, tolerance: Tolerance, price: Ticks) -> Option<Breach> {
        let fixed = (Reference::Static, self.fixed, tolerance.static_bps);
        let dynamic = (Reference::Dynamic, self.dynamic, tolerance.dynamic_bps);
        [fixed, dynamic].into_iter().find_map(|(against, reference, bps)| {
            let (reference, bps) = (reference?, bps?);
            reaches(price, reference, bps).then_some(Breach { price, reference, against, bps })
        })
    }
}

fn reaches(price: Ticks, reference: Ticks, bps: u32) -> bool {
    let distance = (i128::from(price.0) - i128::from(reference.0)).abs();
    distance * 10_000 >= i128::from(bps) * i128::from(reference.0)
}

/// Returns whether a limit price lies within `percent` of the static reference, edges included.
pub(crate) fn within_band(price: Ticks, reference: Ticks, percent: u32) -> bool {
    let distance = (i128::from(price.0) - i128::from(reference.0)).abs();
    distance * 100 <= i128::from(percent) * i128::from(reference.0)
}

/// The best displayed prices before the first fill of an incoming order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BestPrices {
    pub bid: Option<Ticks>,
    pub offer: Option<Ticks>,
}

impl BestPrices {
    /// Returns the price at which a hidden order on `side` trades with an incoming order: its
    /// limit, or, if the limit is beyond the best opposite price, `improvement` ticks short of that
    /// price, but no worse than the best price of its own side.
    pub fn price_of_hidden(self, side: Side, limit: Ticks, improvement: Ticks) -> Ticks {
        match side {
            Side::Buy => match self.offer {
                Some(offer) if limit > offer => {
                    let short = offer.0.saturating_sub(improvement.0);
                    Ticks(short.max(self.bid.map_or(1, |bid| bid.0)).max(1))
                }
                _ => limit,
            },
            Side::Sell => match self.bid {
                Some(bid) if limit < bid => {
                    let short = bid.0.saturating_add(improvement.0);
                    let most = Ticks::MAX_PRICE.0;
                    Ticks(short.min(self.offer.map_or(most, |offer| offer.0)).min(most))
                }
                _ => limit,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(price: i64) -> Option<Ticks> {
        Some(Ticks(price))
    }

    fn tolerance(static_bps: Option<u32>, dynamic_bps: Option<u32>) -> Tolerance {
        Tolerance { static_bps, dynamic_bps }
    }

    #[test]
    fn price_at_the_tolerance_breaches_and_one_tick_less_does_not() {
        let references = ReferencePrices { fixed: at(10_000), dynamic: at(10_900) };
        let ten_and_three = tolerance(Some(1_000), Some(300));
        // 10 % of 10,000 is 1,000; 3 % of 10,900 is 327.
        let breach = Breach { price: Ticks(11_000), reference: Ticks(10_000), against: Reference::Static, bps: 1_000 };
        assert_eq!(references.test(ten_and_three, Ticks(11_000)), Some(breach));
        assert_eq!(references.test(ten_and_three, Ticks(10_999)), None);
        let breach = Breach { price: Ticks(10_573), reference: Ticks(10_900), against: Reference::Dynamic, bps: 300 };
        assert_eq!(references.test(ten_and_three, Ticks(10_573)), Some(breach));
        assert_eq!(references.test(ten_and_three, Ticks(10_574)), None);
        // The price breaches both: the static reference is reported.
        let both = references.test(ten_and_three, Ticks(9_000)).map(|breach| breach.against);
        assert_eq!(both, Some(Reference::Static));
    }

    #[test]
    fn missing_references_and_tolerances_are_not_tested() {
        let far = Ticks(Ticks::MAX_PRICE.0);
        let references = ReferencePrices { fixed: at(1), dynamic: None };
        assert_eq!(references.test(tolerance(None, Some(1)), far), None);
        assert_eq!(ReferencePrices::default().test(tolerance(Some(1), Some(1)), far), None);
        assert!(references.test(tolerance(Some(u32::MAX), None), Ticks(1)).is_none());
        assert!(
            references.test(tolerance(Some(0), None), Ticks(1)).is_some(),
            "every price reaches a tolerance of zero"
        );
    }

    #[test]
    fn band_includes_its_edges() {
        // 90 % of 10,000: 1,000 to 19,000; 33 % of 101 is 33.33.
        for (price, reference, percent, inside) in [
            (1_000, 10_000, 90, true),
            (19_000, 10_000, 90, true),
            (999, 10_000, 90, false),
            (19_001, 10_000, 90, false),
            (134, 101, 33, true),
            (135, 101, 33, false),
            (68, 101, 33, true),
            (67, 101, 33, false),
            (Ticks::MAX_PRICE.0, Ticks::MAX_PRICE.0, 0, true),
        ] {
            assert_eq!(within_band(Ticks(price), Ticks(reference), percent), inside, "{price} of {reference}");
        }
    }

    #[test]
    fn hidden_order_trades_at_its_limit_or_short_of_the_opposite_best() {
        let quote = |bid: i64, offer: i64| BestPrices {
            bid: (bid > 0).then_some(Ticks(bid)),
            offer: (offer > 0).then_some(Ticks(offer)),
        };
        let max = Ticks::MAX_PRICE.0;
        for (side, limit, bid, offer, improvement, price) in [
            // The limit does not pass the opposite best: the order trades at its limit.
            (Side::Buy, 104, 100, 105, 1, 104),
            (Side::Buy, 105, 100, 105, 1, 105),
            (Side::Buy, 106, 100, 105, 1, 104),
            (Side::Buy, 106, 100, 105, 50, 100),
            (Side::Buy, 106, 0, 105, 50, 55),
            (Side::Buy, 106, 0, 105, 200, 1),
            (Side::Buy, 106, 0, 0, 1, 106),
            (Side::Sell, 101, 100, 105, 1, 101),
            (Side::Sell, 100, 100, 105, 1, 100),
            (Side::Sell, 99, 100, 105, 1, 101),
            (Side::Sell, 99, 100, 105, 50, 105),
            (Side::Sell, 99, 100, 0, 50, 150),
            (Side::Sell, 99, max - 1, 0, 50, max),
            (Side::Sell, 99, 0, 105, 1, 99),
            // Crossed best prices cannot occur; even so, nothing overflows.
            (Side::Buy, max, 1, 2, i64::MAX, 1),
            (Side::Sell, 1, 2, max, i64::MAX, max),
        ] {
            let got = quote(bid, offer).price_of_hidden(side, Ticks(limit), Ticks(improvement));
            assert_eq!(got, Ticks(price), "{side:?} {limit} at {bid}/{offer}, improvement {improvement}");
        }
    }
}
