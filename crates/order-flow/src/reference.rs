//! What the market maker believes an instrument is worth: a mean-reverting path, or another instrument's price.

use pitwire_engine::Engine;
use pitwire_model::{InstrumentId, VenueNanos};

use crate::math::exp;
use crate::number::{float, seconds_between};
use crate::random::Random;

/// The furthest the belief goes from the start price, as a share of it.
const FURTHEST: f64 = 0.15;

#[derive(Clone, Debug)]
pub struct Reference {
    /// In ticks.
    start: f64,
    /// Distance from the start as a share of it.
    away: f64,
    /// Standard deviation of `away` over the long run, and how fast it forgets, per second.
    range: f64,
    reversion: f64,
    /// Another instrument whose mid, times the ratio of ticks, is the price.
    follows: Option<(InstrumentId, f64)>,
    known_at: VenueNanos,
}

impl Reference {
    /// Begins where the market stands, so that a venue that comes back does not jump.
    /// Volatility is in parts of the price per square root of a second, `range` in parts of the price.
    pub fn new(
        engine: &Engine,
        instrument: InstrumentId,
        follows: Option<InstrumentId>,
        (volatility, range): (f64, f64),
        start: VenueNanos,
    ) -> Option<Reference> {
        let market = engine.market(instrument)?;
        let start_price = market.spec.start_price.0 as f64;
        let ratio = |other: InstrumentId| {
            let source = engine.market(other)?;
            Some((other, float(source.spec.tick) / float(market.spec.tick)))
        };
        Some(Reference {
            start: start_price,
            away: (market.mid().0 as f64 / start_price - 1.0).clamp(-FURTHEST, FURTHEST),
            range,
            // Stationary variance of an Ornstein-Uhlenbeck process: volatility² / (2 · reversion).
            reversion: volatility * volatility / (2.0 * range * range),
            follows: follows.and_then(ratio),
            known_at: start,
        })
    }

    /// The belief at a later time, in ticks. The step is the process's exact law over the time that passed (Uhlenbeck
    /// and Ornstein 1930), however long that was.
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
        self.away = away.clamp(-FURTHEST, FURTHEST);
        self.ticks()
    }

    pub fn ticks(&self) -> f64 {
        self.start * (1.0 + self.away)
    }
}
