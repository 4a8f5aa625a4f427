//! The value of an instrument in the market flow: news, trades and the night move it.
//!
//! Does        move the value by a random walk in business time, by news (jumps), by a surprise in
//!             each trade (Madhavan, Richardson and Roomans 1997), overnight, and by the orders of
//!             members.
//! Holds       1. without members, the value is a martingale for an observer of all sides, apart
//!                from a reversion over many days that keeps it near the start price;
//!             2. members move it by the square root of their net volume, bought less sold, which
//!                decays with time. One order and slices of it at one time move it equally far
//!                (tests: `split_orders_move_the_value_as_one_order` and
//!                `the_impact_of_members_decays`).
//! Start at    [`MarketValue::at`].

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, Phase, VenueNanos};

use crate::math::exp;
use crate::number::{seconds_between, tick_ratio};
use crate::random::Random;

/// Largest distance of the value from the start price, as a share of it.
const MAX_DISTANCE: f64 = 0.16;
/// Long-run standard deviation of the distance.
const RANGE: f64 = 0.06;
/// Share of the variance that comes from trades.
const IMPACT_SHARE: f64 = 0.35;
/// Rate of news per business second.
const NEWS_RATE: f64 = 1.0 / 2_400.0;
/// Smallest and largest jump by news, in standard deviations of the value over a business second.
/// Sizes have a tail with exponent 3 (Gopikrishnan, Meyer, Amaral and Stanley 1998).
const LEAST_NEWS: f64 = 6.0;
const MOST_NEWS: f64 = 30.0;
/// Rate of jumps beyond the dynamic tolerance per business second: one in four days of eight hours.
const SHOCK_RATE: f64 = 1.0 / 115_200.0;
/// An instrument with a dynamic tolerance above this share of the price has no such jumps.
const MOST_TOLERANCE: f64 = 0.08;
/// Standard deviation of the move overnight, in standard deviations over a business second.
const NIGHT: f64 = 110.0;
/// Seconds in which the distance from a followed instrument decays to 1/e.
const PREMIUM_DECAY_S: f64 = 120.0;
/// Move by the volume of members, as a share of the move by a trade of the flow. It is below 1,
/// because an order of a member that trades also takes orders from the book.
const MEMBER_SHARE: f64 = 0.5;
/// Business seconds in which the volume of members decays to 1/e. Their impact, its square root,
/// takes twice as long.
const VOLUME_DECAY_S: f64 = 600.0;

/// The value of one instrument.
#[derive(Clone, Debug)]
pub struct MarketValue {
    /// Start price in ticks.
    start: f64,
    /// Distance from the start price, or from the followed instrument, as a share of the price.
    away: f64,
    /// Value of the followed instrument in ticks.
    anchor: f64,
    /// Standard deviation of the value over a business second, as a share of the price.
    volatility: f64,
    /// Move by a surprise of 1 in the side of a trade, as a share of the price.
    impact: f64,
    /// Dynamic tolerance of continuous trading, if shocks shall breach it.
    tolerance: Option<f64>,
    /// Instrument that the value follows, with the ratio of ticks.
    follows: Option<(InstrumentId, f64)>,
    /// Lots that members bought less lots that they sold, in typical orders, with decay.
    member_volume: f64,
    /// Business time of the value.
    known_at: VenueNanos,
}

impl MarketValue {
    /// Starts at the current price. `trades_per_s` is the rate of market orders in business time.
    pub fn new(
        engine: &Engine,
        instrument: InstrumentId,
        follows: Option<InstrumentId>,
        (volatility, trades_per_s): (f64, f64),
        start: VenueNanos,
    ) -> Option<MarketValue> {
        let market = engine.market(instrument)?;
        let start_price = market.spec.start_price.0 as f64;
        let follows = follows.and_then(|other| Some((other, tick_ratio(market, engine.market(other)?))));
        let bps = market.rules().tolerance(Phase::Continuous).dynamic_bps;
        let tolerance = bps.map(|bps| f64::from(bps) / 10_000.0).filter(|share| *share <= MOST_TOLERANCE);
        let away = (market.mid().0 as f64 / start_price - 1.0).clamp(-MAX_DISTANCE, MAX_DISTANCE);
        Some(MarketValue {
            start: start_price,
            away: if follows.is_some() { 0.0 } else { away },
            anchor: start_price,
            volatility,
            impact: volatility * (IMPACT_SHARE / trades_per_s.max(1e-9)).sqrt(),
            tolerance,
            follows,
            member_volume: 0.0,
            known_at: start,
        })
    }

    /// Advances to a later business time and returns the value in ticks.
    pub fn at(&mut self, business: VenueNanos, engine: &Engine, random: &mut Random) -> f64 {
        let seconds = seconds_between(self.known_at, business);
        self.known_at = self.known_at.max(business);
        self.member_volume *= exp(-seconds / VOLUME_DECAY_S);
        if let Some((other, ratio)) = self.follows {
            if let Some(market) = engine.market(other) {
                self.anchor = market.mid().0 as f64 * ratio;
            }
            self.away *= exp(-seconds / PREMIUM_DECAY_S);
            return self.ticks();
        }
        let reversion = self.volatility * self.volatility / (2.0 * RANGE * RANGE);
        let diffusion = self.volatility * ((1.0 - IMPACT_SHARE) * seconds).sqrt();
        self.away = self.away * exp(-reversion * seconds) + diffusion * random.normal();
        if random.chance(1.0 - exp(-NEWS_RATE * seconds)) {
            const TAIL: f64 = 3.0;
            let size = (LEAST_NEWS * exp(random.exponential(1.0 / TAIL))).min(MOST_NEWS);
            self.away += random_sign(random) * size * self.volatility;
        }
        if let Some(tolerance) = self.tolerance
            && random.chance(1.0 - exp(-SHOCK_RATE * seconds))
        {
            self.away += random_sign(random) * tolerance * (1.05 + 0.5 * random.unit());
        }
        self.clamp();
        self.ticks()
    }

    /// Moves the value by a trade. `surprise` is its side, 1 or -1, less the expected side.
    pub fn traded(&mut self, surprise: f64) {
        self.away += self.impact * surprise;
        self.clamp();
    }

    /// Moves the value by an order of a member. `volume` is the signed size in typical orders.
    ///
    /// The impact of members is proportional to the square root of their net volume (Tóth,
    /// Lempérière, Deremble, de Lataillade, Kockelkoren and Bouchaud 2011), and that volume decays.
    /// Slices of an order move the value as far as the whole order. Because the volume decays, and
    /// not the impact, no round trip earns money on average (Alfonsi and Schied 2010).
    pub fn member_traded(&mut self, volume: f64) {
        self.member_volume += volume;
    }

    /// Moves the value by the news of a night.
    pub fn overnight(&mut self, random: &mut Random) {
        if self.follows.is_none() {
            // The product of two draws has fat tails.
            self.away += NIGHT * self.volatility * random.normal() * random.heavy_tailed(0.4, 4.0);
            self.clamp();
        }
    }

    fn clamp(&mut self) {
        self.away = self.away.clamp(-MAX_DISTANCE, MAX_DISTANCE);
    }

    /// Returns the value in ticks.
    pub fn ticks(&self) -> f64 {
        let base = if self.follows.is_some() { self.anchor } else { self.start };
        let of_members = MEMBER_SHARE * self.impact * self.member_volume.abs().sqrt().copysign(self.member_volume);
        base * (1.0 + (self.away + of_members).clamp(-MAX_DISTANCE, MAX_DISTANCE))
    }
}

fn random_sign(random: &mut Random) -> f64 {
    if random.chance(0.5) { 1.0 } else { -1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that nothing but members moves.
    fn still_value() -> MarketValue {
        MarketValue {
            start: 100_000.0,
            away: 0.0,
            anchor: 100_000.0,
            volatility: 0.0,
            impact: 4e-5,
            tolerance: None,
            follows: None,
            member_volume: 0.0,
            known_at: VenueNanos(0),
        }
    }

    fn distance(value: &MarketValue) -> f64 {
        value.ticks() - 100_000.0
    }

    #[test]
    fn split_orders_move_the_value_as_one_order() {
        for sign in [1.0, -1.0] {
            let (mut whole, mut split, mut double) = (still_value(), still_value(), still_value());
            whole.member_traded(sign * 40.0);
            (0..40).for_each(|_| split.member_traded(sign));
            double.member_traded(sign * 80.0);
            assert!((sign * distance(&whole) - 2.0 * 40_f64.sqrt()).abs() < 1e-6, "{}", distance(&whole));
            assert!((distance(&split) - distance(&whole)).abs() < 1e-6, "{}", distance(&split));
            assert!((distance(&double) / distance(&whole) - 2_f64.sqrt()).abs() < 1e-9);
            split.member_traded(-sign * 40.0);
            assert!(distance(&split).abs() < 1e-6, "a round trip returns");
        }
    }

    #[test]
    fn the_impact_of_members_decays() {
        let engine = Engine::new();
        let (mut value, mut random) = (still_value(), Random::new(1, 1));
        value.member_traded(36.0);
        let at_once = distance(&value);
        value.at(VenueNanos(600 * 1_000_000_000), &engine, &mut random);
        let later = distance(&value) / at_once;
        assert!((later - exp(-0.5)).abs() < 1e-9, "{later}");
    }

    #[test]
    fn members_cannot_move_the_value_beyond_its_bound() {
        let mut value = still_value();
        value.member_traded(-1e18);
        assert!((distance(&value) + MAX_DISTANCE * 100_000.0).abs() < 1e-6, "{}", distance(&value));
    }
}
