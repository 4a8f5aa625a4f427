//! What makes the flow of an instrument lifelike: its pace, its value and the sides of its orders.
//!
//! Start at    [`Texture::advance`].

use pitwire_engine::Engine;
use pitwire_model::{Lots, Phase, Side, VenueNanos};

use crate::activity::{ActivityClock, DayShape};
use crate::config::DemoMarket;
use crate::market_model::MARKET_SHARE;
use crate::market_value::MarketValue;
use crate::metaorders::{Metaorders, sign};
use crate::number::seconds_between;
use crate::random::Random;

/// A session that is shorter has no shape of a day.
const SHORTEST_DAY_NS: u64 = 2 * 3_600 * 1_000_000_000;
/// Streams of random numbers of textures, apart from those of events and orders.
const FIRST_STREAM: u64 = 1 << 40;

/// The state of a lifelike flow.
#[derive(Clone, Debug)]
pub struct Texture {
    pub clock: ActivityClock,
    value: MarketValue,
    metaorders: Metaorders,
    random: Random,
    /// Current pace of business time.
    pace: f64,
    /// Move of the value in a business second, in ticks.
    move_ticks: f64,
    typical_lots: f64,
}

impl Texture {
    /// Starts at `start`. Returns `None` if the instrument does not exist.
    pub fn new(config: &DemoMarket, engine: &Engine, (seed, start): (u64, VenueNanos)) -> Option<Texture> {
        let market = engine.market(config.instrument)?;
        let shape = match (market.phase(), market.ends()) {
            (Phase::Continuous, None) => DayShape::AroundTheClock,
            _ => DayShape::Flat,
        };
        let volatility = config.volatility_bps / 10_000.0;
        let trades_per_s = config.events_per_second * MARKET_SHARE;
        let stream = FIRST_STREAM + 2 * u64::from(config.instrument.0);
        let mut random = Random::new(seed, stream);
        let metaorders = Metaorders::new(&mut random);
        let value = MarketValue::new(engine, config.instrument, config.follows, (volatility, trades_per_s), start)?;
        Some(Texture {
            clock: ActivityClock::new(shape, start, Random::new(seed, stream + 1)),
            value,
            metaorders,
            random,
            pace: 1.0,
            move_ticks: volatility * market.spec.start_price.0 as f64,
            typical_lots: config.typical_lots,
        })
    }

    /// Advances the value to `now` and returns it in ticks.
    pub fn advance(&mut self, now: VenueNanos, engine: &Engine) -> f64 {
        self.clock.forget_before(now);
        let (business, pace) = self.clock.business_time(now);
        self.pace = pace;
        self.value.at(business, engine, &mut self.random)
    }

    /// Returns the value in ticks.
    pub fn ticks(&self) -> f64 {
        self.value.ticks()
    }

    /// Returns half the spread that a market maker quotes, in ticks. It covers the moves until the
    /// next quote, so it is wide in busy times (Wyart, Bouchaud, Kockelkoren, Potters, Vettorazzo
    /// 2008).
    pub fn half_spread(&self) -> f64 {
        const LEAST: f64 = 0.45;
        const MOVES: f64 = 0.6;
        LEAST + MOVES * self.move_ticks * self.pace.sqrt()
    }

    /// Draws the side of a market order, with the mean side that was expected.
    pub fn draw_side(&mut self) -> (Side, f64) {
        self.metaorders.draw(&mut self.random)
    }

    /// Moves the value by a market order of the flow.
    pub fn traded(&mut self, side: Side, expected: f64) {
        self.value.traded(sign(side) - expected);
    }

    /// Moves the value by an order of a member.
    pub fn member_traded(&mut self, side: Side, lots: Lots) {
        self.value.member_traded(sign(side) * lots.0 as f64 / self.typical_lots);
    }

    /// Takes the start of a session.
    pub fn session(&mut self, to: Phase, now: VenueNanos, ends: Option<VenueNanos>) {
        if to == Phase::OpeningCall {
            self.value.overnight(&mut self.random);
        }
        let (Phase::Continuous, Some(closes)) = (to, ends) else { return };
        let is_same_day = matches!(self.clock.shape, DayShape::Session { closes: known, .. } if now < known);
        if !is_same_day && closes.0.saturating_sub(now.0) >= SHORTEST_DAY_NS {
            self.clock.shape = DayShape::Session { opens: now, closes };
        }
    }

    /// Returns the business seconds of the instrument from the start of its flow to `end`.
    pub fn business_seconds(&self, start: VenueNanos, end: VenueNanos) -> f64 {
        seconds_between(start, self.clock.known_business_time(end))
    }
}
