//! The fair value of an instrument: a mean-reverting path, or the price of another instrument.

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, VenueNanos};

use crate::math::exp;
use crate::number::{seconds_between, tick_ratio};
use crate::random::Random;

/// Largest distance of the fair value from the start price, as a share of it.
const MAX_DISTANCE: f64 = 0.15;

/// The price around which the market maker quotes.
#[derive(Clone, Debug)]
pub struct FairValue {
    /// Start price in ticks.
    start: f64,
    /// Distance from the start price, as a share of it.
    away: f64,
    /// Long-run standard deviation of `away`.
    range: f64,
    /// Rate of mean reversion, per second.
    reversion: f64,
    /// Instrument whose mid, times the ratio of ticks, is the fair value.
    follows: Option<(InstrumentId, f64)>,
    known_at: VenueNanos,
}

impl FairValue {
    /// Starts at the current price, so that a restarted venue does not jump. Volatility is a share
    /// of the price per square root of a second, `range` a share of the price.
    pub fn new(
        engine: &Engine,
        instrument: InstrumentId,
        follows: Option<InstrumentId>,
        (volatility, range): (f64, f64),
        start: VenueNanos,
    ) -> Option<FairValue> {
        let market = engine.market(instrument)?;
        let start_price = market.spec.start_price.0 as f64;
        Some(FairValue {
            start: start_price,
            away: (market.mid().0 as f64 / start_price - 1.0).clamp(-MAX_DISTANCE, MAX_DISTANCE),
            range,
            // Stationary variance of an Ornstein-Uhlenbeck process: volatility² / (2 · reversion).
            reversion: volatility * volatility / (2.0 * range * range),
            follows: follows.and_then(|other| Some((other, tick_ratio(market, engine.market(other)?)))),
            known_at: start,
        })
    }

    /// Advances to a later time and returns the fair value in ticks. The step has the exact
    /// distribution of the process over the elapsed time (Uhlenbeck and Ornstein 1930).
    pub fn at(&mut self, at: VenueNanos, engine: &Engine, random: &mut Random) -> f64 {
        let seconds = seconds_between(self.known_at, at);
        self.known_at = at;
        let away = match self.follows.and_then(|(other, ratio)| Some((engine.market(other)?.mid(), ratio))) {
            Some((mid, ratio)) => mid.0 as f64 * ratio / self.start - 1.0,
            None => {
                let kept = exp(-self.reversion * seconds);
                self.away * kept + self.range * (1.0 - kept * kept).max(0.0).sqrt() * random.normal()
            }
        };
        self.away = away.clamp(-MAX_DISTANCE, MAX_DISTANCE);
        self.ticks()
    }

    /// Returns the fair value in ticks.
    pub fn ticks(&self) -> f64 {
        self.start * (1.0 + self.away)
    }
}
