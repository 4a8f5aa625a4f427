//! The value of an instrument in the market flow: news, trades and the night move it.
//!
//! Does        move the value by a random walk in business time, by news (jumps), by a surprise in
//!             each trade (Madhavan, Richardson and Roomans 1997), and overnight.
//! Holds       the value is a martingale for an observer of all sides, apart from a reversion over
//!             many days that keeps it near the start price.
//! Start at    [`MarketValue::at`].

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, Phase, VenueNanos};

use crate::math::exp;
use crate::number::{float, seconds_between};
use crate::random::Random;

/// Largest distance of the value from the start price, as a share of it.
const MAX_DISTANCE: f64 = 0.16;
/// Long-run standard deviation of the distance.
const RANGE: f64 = 0.06;
/// Share of the variance that comes from trades.
const IMPACT_SHARE: f64 = 0.35;
/// News per business second. The least size is in moves of a business second. Sizes have
/// a tail with exponent 3 (Gopikrishnan, Meyer, Amaral and Stanley 1998).
const NEWS_RATE: f64 = 1.0 / 2_400.0;
const LEAST_NEWS: f64 = 6.0;
const MOST_NEWS: f64 = 30.0;
/// Shocks beyond a tolerance per business second: one in four days of eight hours.
const SHOCK_RATE: f64 = 1.0 / 115_200.0;
/// Shocks ignore dynamic tolerances above this.
const MOST_TOLERANCE: f64 = 0.08;
/// Standard deviation of the move overnight, in moves of a business second.
const NIGHT: f64 = 110.0;
/// Time in which the distance from a followed instrument halves about, in seconds.
const PREMIUM_DECAY_S: f64 = 120.0;

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
        let follows = follows.and_then(|other| {
            let source = engine.market(other)?;
            Some((other, float(source.spec.tick) / float(market.spec.tick)))
        });
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
            known_at: start,
        })
    }

    /// Advances to a later business time and returns the value in ticks.
    pub fn at(&mut self, business: VenueNanos, engine: &Engine, random: &mut Random) -> f64 {
        let seconds = seconds_between(self.known_at, business);
        self.known_at = self.known_at.max(business);
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
        base * (1.0 + self.away)
    }
}

fn random_sign(random: &mut Random) -> f64 {
    if random.chance(0.5) { 1.0 } else { -1.0 }
}
