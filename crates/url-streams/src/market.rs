//! An instrument as encoders need it: its units, names, best prices and day statistics.

use pitwire_model::{Decimal, InstrumentSpec, Lots, Side, Ticks, VenueNanos};

use crate::bars::Bar;
use crate::names::Names;

/// A price and its quantity.
pub(crate) type Level = (Ticks, Lots);

/// An instrument and its names.
#[derive(Clone, Copy)]
pub struct Market<'a> {
    pub spec: &'a InstrumentSpec,
    pub names: &'a Names,
}

impl Market<'_> {
    pub(crate) fn price(&self, price: Ticks) -> Decimal {
        self.spec.price(price)
    }

    pub(crate) fn amount(&self, lots: Lots) -> Decimal {
        self.spec.amount(lots)
    }

    /// Returns price × quantity in quote currency. Saturates at the largest decimal.
    pub(crate) fn value(&self, tick_lots: u128) -> Decimal {
        let Decimal { mantissa: tick, scale: tick_scale } = self.spec.tick;
        let Decimal { mantissa: lot, scale: lot_scale } = self.spec.lot;
        let count = i128::try_from(tick_lots).unwrap_or(i128::MAX);
        Decimal::new(count.saturating_mul(tick).saturating_mul(lot), tick_scale.saturating_add(lot_scale))
    }

    /// Returns the average price, rounded down to `places` more decimals than the tick has.
    pub(crate) fn average(&self, tick_lots: u128, lots: u64, places: u8) -> Option<Decimal> {
        let Decimal { mantissa: tick, scale } = self.spec.tick;
        let ten = 10_i128.checked_pow(u32::from(places))?;
        let sum = i128::try_from(tick_lots).ok()?.checked_mul(tick)?.checked_mul(ten)?;
        Some(Decimal::new(sum.checked_div(i128::from(lots))?, scale.saturating_add(places)))
    }
}

/// Best bid and best ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    pub bid: Option<Level>,
    pub ask: Option<Level>,
}

impl Touch {
    pub fn of(market: &pitwire_engine::Market) -> Touch {
        Touch { bid: market.best(Side::Buy), ask: market.best(Side::Sell) }
    }
}

/// Statistics of the last 24 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Day {
    pub bar: Bar,
    /// The last close before them.
    pub before: Option<Ticks>,
    pub last_lots: Lots,
    pub now: VenueNanos,
    pub touch: Touch,
}

/// Returns a time in milliseconds, or in microseconds.
pub(crate) fn stamp(at: VenueNanos, in_micros: bool) -> u64 {
    if in_micros { at.0 / 1_000 } else { at.as_millis() }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use pitwire_fixtures::share;
    use pitwire_model::{TradeKind, TradeSeq};
    use pitwire_projections::{PublicTrade, TickDirection};

    /// NPN_ZAR as in the demo: a tick of a cent, a lot of one share.
    pub(crate) struct Fixture {
        spec: InstrumentSpec,
        names: Names,
    }

    impl Fixture {
        pub fn market(&self) -> Market<'_> {
            Market { spec: &self.spec, names: &self.names }
        }
    }

    pub(crate) fn fixture() -> Fixture {
        let spec = InstrumentSpec { start_price: Ticks(1), max_resting_orders: 10, ..share() };
        let names = Names {
            joined: "NPNZAR".into(),
            lower: "npnzar".into(),
            dashed: "NPN-ZAR".into(),
            base: "NPN".into(),
            quote: "ZAR".into(),
        };
        Fixture { spec, names }
    }

    pub(crate) fn level(price: i64, lots: u64) -> Level {
        (Ticks(price), Lots(lots))
    }

    pub(crate) fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    pub(crate) fn trade_of(seq: u64, at: VenueNanos, price: i64, lots: u64, taker_side: Side) -> PublicTrade {
        PublicTrade {
            seq: TradeSeq(seq),
            price: Ticks(price),
            lots: Lots(lots),
            taker_side,
            kind: TradeKind::Continuous,
            at,
            direction: TickDirection::Plus,
            index: Ticks(0),
            mark: Ticks(0),
            busted: false,
        }
    }

    #[test]
    fn values_and_averages_are_exact() {
        let fixture = fixture();
        let market = fixture.market();
        assert_eq!(market.value(30_300).to_string(), "303.00");
        assert_eq!(market.average(100, 3, 6).map(|average| average.to_string()).as_deref(), Some("0.33333333"));
        assert_eq!(market.average(100, 0, 6), None);
        assert_eq!(market.value(u128::MAX).mantissa, i128::MAX);
    }
}
