//! The configuration of a flow: house accounts, and how each instrument is traded.
//!
//! Does        derive the parameters of an instrument from its definition; check parameters from a
//!             caller.
//! Start at    [`FlowConfig::demo`].

use std::sync::Arc;

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, FlowSetting, InstrumentId, InstrumentKind, Phase};

use crate::error::FlowError;
use crate::event_type::FlowModel;
use crate::kernel::ParameterSet;
use crate::market_model::market_model;
use crate::number::float;

/// The configuration of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Accounts with unlimited credit. The first quarter of them are market makers.
    pub house: Vec<AccountId>,
    pub style: FlowStyle,
}

/// How the flow trades.
#[derive(Clone, Debug, PartialEq)]
pub enum FlowStyle {
    /// Flow without an end: orders have lifetimes, a market maker quotes, prices stay near a fair
    /// value.
    Demo(Vec<DemoMarket>),
    /// The published simulation on one instrument, without cancels: for benchmarks and comparison.
    Paper { instrument: InstrumentId, model: Arc<FlowModel> },
}

/// How the demo flow trades one instrument. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct DemoMarket {
    pub instrument: InstrumentId,
    /// Its event types. The process is scaled to [`DemoMarket::events_per_second`].
    pub model: Arc<FlowModel>,
    /// Whether the flow trades this instrument. Its orders rest in the book while it does not.
    pub is_running: bool,
    /// Rate of the mutually exciting process. With cancels and the market maker there are about 1.5
    /// commands per event.
    pub events_per_second: f64,
    /// Mean time after which a resting flow order is cancelled.
    pub lifetime: f64,
    /// Typical size of a flow order, in lots.
    pub typical_lots: f64,
    /// Standard deviation of the fair value over one second, in basis points.
    pub volatility_bps: f64,
    /// Long-run standard deviation of the fair value around the start price, in basis points.
    pub range_bps: f64,
    /// Instrument whose mid is the fair value instead, if any.
    pub follows: Option<InstrumentId>,
    /// Price levels that the market maker quotes on each side. Zero leaves the market maker out.
    pub maker_levels: usize,
    /// Mean time between two requotes of the market maker.
    pub maker_pause: f64,
    /// Flow orders for each side of an empty book at the start.
    pub seeds_per_side: u32,
    /// Whether the market has the properties of real ones: busy and quiet times, a value that news
    /// and trades move, and sides with a long memory.
    pub is_lifelike: bool,
}

/// Least number of house accounts. With fewer, one account would own too large a share of the
/// orders.
pub const MIN_ACCOUNTS: usize = 8;

/// Lower bound of lifetimes and requote intervals, in seconds.
const MIN_SECONDS: f64 = 1e-3;

/// Least and greatest value of each parameter of a market, by its name in a flow file.
const RANGES: [(&str, f64, f64); 8] = [
    ("events_per_s", 1e-6, 1e6),
    ("lifetime_s", MIN_SECONDS, 1e9),
    ("typical_lots", 1e-6, 1e9),
    ("volatility_bps", 1e-9, 1e4),
    ("range_bps", 1e-6, 1e4),
    ("maker_pause_s", MIN_SECONDS, 1e6),
    ("maker_levels", 0.0, 100.0),
    ("seeds_per_side", 0.0, 1e5),
];

/// Value of a typical order, by quote currency.
const TYPICAL_VALUE: [(&str, f64); 3] = [("ZAR", 50_000.0), ("USDC", 3_000.0), ("USD", 5_000.0)];
const DEFAULT_VALUE: f64 = 10_000.0;

/// Event rates of instruments that differ from the default, in events per second.
const EVENT_RATE: [(&str, f64); 5] =
    [("BTC_USDC", 14.0), ("BTC-PERPETUAL", 14.0), ("ETH_USDC", 12.0), ("NPN_ZAR", 12.0), ("AUC_ZAR", 7.0)];
const DEFAULT_EVENT_RATE: f64 = 9.0;

fn lookup(table: &[(&str, f64)], name: &str, default: f64) -> f64 {
    table.iter().find(|(known, _)| *known == name).map_or(default, |(_, value)| *value)
}

impl FlowConfig {
    /// Returns a demo flow for every instrument that is not deleted.
    pub fn demo(engine: &Engine, house: Vec<AccountId>) -> FlowConfig {
        let model = Arc::new(FlowModel::symmetric());
        let there = engine.markets().iter().filter(|market| market.phase() != Phase::Deleted);
        let markets = there.map(|market| DemoMarket::natural(engine, market, Arc::clone(&model))).collect();
        FlowConfig { house, style: FlowStyle::Demo(markets) }
    }

    /// Returns a flow with the properties of real markets for every instrument that is not deleted.
    pub fn market(engine: &Engine, house: Vec<AccountId>) -> FlowConfig {
        /// Moves of the value over a business second, in basis points: 1.3 % in eight hours.
        const VOLATILITY_BPS: f64 = 0.9;
        /// A day of sessions is planned at a quarter of the rate, which halves the moves.
        const VOLATILITY_OF_SESSIONS_BPS: f64 = 1.8;
        /// Least move in ticks. With a smaller one the mid only bounces between two prices.
        const LEAST_MOVE_TICKS: f64 = 0.35;
        let model = Arc::new(market_model());
        let market = |market: &Market| {
            let has_sessions = market.phase() != Phase::Continuous || market.ends().is_some();
            let volatility_bps = if has_sessions { VOLATILITY_OF_SESSIONS_BPS } else { VOLATILITY_BPS };
            let least_bps = LEAST_MOVE_TICKS / market.spec.start_price.0 as f64 * 10_000.0;
            DemoMarket {
                volatility_bps: volatility_bps.max(least_bps),
                is_lifelike: true,
                ..DemoMarket::natural(engine, market, Arc::clone(&model))
            }
        };
        let there = engine.markets().iter().filter(|market| market.phase() != Phase::Deleted);
        FlowConfig { house, style: FlowStyle::Demo(there.map(market).collect()) }
    }

    /// Scales time: everything happens at `percent` of the rate, so books keep their depth. The
    /// published flow has a fixed rate and does not change.
    pub fn at_rate(self, percent: u32) -> FlowConfig {
        self.at_rates(percent, |_| FlowSetting::default())
    }

    /// As [`FlowConfig::at_rate`], with a setting of each instrument. The rate of an instrument is
    /// in percent of `percent`. The product is at most [`FlowSetting::MOST_RATE_PERCENT`].
    pub fn at_rates(mut self, percent: u32, setting_of: impl Fn(InstrumentId) -> FlowSetting) -> FlowConfig {
        if let FlowStyle::Demo(markets) = &mut self.style {
            for market in markets {
                let setting = setting_of(market.instrument);
                let product = f64::from(percent) * f64::from(setting.rate_percent) / 100.0;
                market.is_running = setting.running;
                market.scale_time(product.min(f64::from(FlowSetting::MOST_RATE_PERCENT)) / 100.0);
            }
        }
        self
    }

    /// Makes prices move as far in a second as at `percent` of the rate, although events come at
    /// `rate_percent` of it. Each trade then moves the price farther.
    pub fn moving_as_at(mut self, percent: u32, rate_percent: u32) -> FlowConfig {
        if let FlowStyle::Demo(markets) = &mut self.style {
            for market in markets {
                market.volatility_bps *= (f64::from(percent) / f64::from(rate_percent.max(1))).sqrt();
            }
        }
        self
    }

    /// Returns the published flow on one instrument.
    pub fn paper(instrument: InstrumentId, house: Vec<AccountId>, reading: ParameterSet) -> FlowConfig {
        FlowConfig { house, style: FlowStyle::Paper { instrument, model: Arc::new(FlowModel::published(reading)) } }
    }

    /// Checks that the configuration fits the engine.
    ///
    /// # Errors
    ///
    /// Returns an error if an account, an instrument or a parameter does not fit.
    pub fn check(&self, engine: &Engine) -> Result<(), FlowError> {
        if self.house.len() < MIN_ACCOUNTS {
            return Err(FlowError::TooFewAccounts { found: self.house.len(), needed: MIN_ACCOUNTS });
        }
        for &account in &self.house {
            let known = engine.account(account).ok_or(FlowError::UnknownAccount { account })?;
            if known.is_limited() {
                return Err(FlowError::LimitedCredit { account });
            }
        }
        match &self.style {
            FlowStyle::Paper { instrument, model } => {
                model.check()?;
                known_instrument(engine, *instrument)
            }
            FlowStyle::Demo(markets) => {
                for (at, market) in markets.iter().enumerate() {
                    market.check(engine)?;
                    if markets[..at].iter().any(|earlier| earlier.instrument == market.instrument) {
                        return Err(FlowError::Repeated { instrument: market.instrument });
                    }
                }
                Ok(())
            }
        }
    }
}

/// Checks a parameter of a market, by its name in a flow file. A name without a range has any
/// value.
///
/// # Errors
///
/// Returns an error if the value is out of range or not a number.
pub fn check_parameter(name: &str, value: f64) -> Result<(), FlowError> {
    let range = RANGES.iter().find(|(known, ..)| *known == name);
    match range {
        Some((_, least, most)) if !(*least..=*most).contains(&value) => {
            Err(FlowError::bad(name, value, format!("{least} to {most}")))
        }
        _ => Ok(()),
    }
}

fn known_instrument(engine: &Engine, instrument: InstrumentId) -> Result<(), FlowError> {
    engine.market(instrument).map(|_| ()).ok_or(FlowError::UnknownInstrument { instrument })
}

impl DemoMarket {
    /// Derives the parameters of a market. Sizes follow from the price and the quote currency.
    /// Volatility is half a tick per second at a price of 7,200 ticks and grows with the square
    /// root of the price, so that prices move visibly and books are dense at every price level.
    pub fn natural(engine: &Engine, market: &Market, model: Arc<FlowModel>) -> DemoMarket {
        const TICKS_WITH_HALF_A_TICK: f64 = 7_200.0;
        let spec = &market.spec;
        let start = spec.start_price.0 as f64;
        let move_ticks = (0.5 * (start / TICKS_WITH_HALF_A_TICK).sqrt()).max(0.2);
        let quote = engine.currency(spec.quote()).map_or("", |currency| currency.name.as_str());
        let value = lookup(&TYPICAL_VALUE, quote, DEFAULT_VALUE);
        let (value_of_a_lot, follows) = match spec.kind {
            InstrumentKind::Spot { .. } => (float(spec.lot) * float(spec.tick) * start, None),
            InstrumentKind::InversePerpetual { index, .. } => (float(spec.lot), Some(index)),
        };
        DemoMarket {
            instrument: spec.id,
            model,
            is_running: true,
            events_per_second: lookup(&EVENT_RATE, &spec.name, DEFAULT_EVENT_RATE),
            lifetime: 240.0,
            typical_lots: (value / value_of_a_lot).max(1.0),
            volatility_bps: move_ticks / start * 10_000.0,
            range_bps: 100.0,
            follows,
            maker_levels: 6,
            maker_pause: 0.7,
            seeds_per_side: 120,
            is_lifelike: false,
        }
    }

    /// Makes everything happen `faster` times as fast.
    fn scale_time(&mut self, faster: f64) {
        self.events_per_second *= faster;
        self.lifetime = (self.lifetime / faster).max(MIN_SECONDS);
        self.maker_pause = (self.maker_pause / faster).max(MIN_SECONDS);
        self.volatility_bps *= faster.sqrt();
    }

    fn check(&self, engine: &Engine) -> Result<(), FlowError> {
        self.model.check()?;
        known_instrument(engine, self.instrument)?;
        if let Some(followed) = self.follows {
            known_instrument(engine, followed)?;
        }
        [
            ("events_per_s", self.events_per_second),
            ("lifetime_s", self.lifetime),
            ("typical_lots", self.typical_lots),
            ("volatility_bps", self.volatility_bps),
            ("range_bps", self.range_bps),
            ("maker_pause_s", self.maker_pause),
            ("maker_levels", self.maker_levels as f64),
            ("seeds_per_side", f64::from(self.seeds_per_side)),
        ]
        .into_iter()
        .try_for_each(|(name, value)| check_parameter(name, value))
    }
}
