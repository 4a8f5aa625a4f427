//! What a flow is made of: house accounts, a kernel, and how each instrument is traded.
//!
//! Does        choose sensible numbers for any instrument from its definition; check numbers given by others.
//! Start at    [`FlowConfig::demo`].

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, InstrumentId, InstrumentKind, Phase};

use crate::error::FlowError;
use crate::kernel::{Kernel, Reading};
use crate::number::float;

#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Accounts with unlimited credit; the first quarter of them make markets.
    pub house: Vec<AccountId>,
    /// Shapes and proportions of the event types; a demo market scales it to its own rate.
    pub kernel: Kernel,
    pub style: Style,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Style {
    /// Flow that can run for ever: lifetimes, a market maker, prices near a reference.
    Demo(Vec<DemoMarket>),
    /// The published simulation on one instrument, without cancels: for benchmarks and comparison.
    Paper { instrument: InstrumentId },
}

/// How the demo flow trades one instrument. Times in seconds, prices in parts of the price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DemoMarket {
    pub instrument: InstrumentId,
    /// Events of the mutually exciting process. Cancels and the maker come on top: about 1.5 commands per event.
    pub events_per_second: f64,
    /// Mean time after which a flow order that still rests is cancelled.
    pub lifetime: f64,
    /// Middling size of a flow order, in lots.
    pub typical_lots: f64,
    /// How far the reference moves in a second (standard deviation), in basis points.
    pub volatility_bps: f64,
    /// How far from the start price the reference lives (standard deviation over the long run), in basis points.
    pub range_bps: f64,
    /// An instrument whose mid is the reference instead.
    pub follows: Option<InstrumentId>,
    /// Price levels the maker keeps on each side.
    pub maker_levels: usize,
    /// Mean time between the maker's looks at its quotes.
    pub maker_pause: f64,
    /// Flow orders put on each side of a book found empty.
    pub seeds_per_side: u32,
}

/// Flow needs this many accounts, so that no one account is every other order's owner.
pub const LEAST_ACCOUNTS: usize = 8;

/// No time of the flow is shorter.
const LEAST_SECONDS: f64 = 1e-3;

/// Money in a middling order, by quote currency.
const TYPICAL_VALUE: [(&str, f64); 3] = [("ZAR", 50_000.0), ("USDC", 3_000.0), ("USD", 5_000.0)];
const TYPICAL_VALUE_ELSEWHERE: f64 = 10_000.0;

/// Instruments livelier or quieter than the rest, in events per second.
const LIVELINESS: [(&str, f64); 5] =
    [("BTC_USDC", 14.0), ("BTC-PERPETUAL", 14.0), ("ETH_USDC", 12.0), ("NPN_ZAR", 12.0), ("AUC_ZAR", 7.0)];
const LIVELINESS_ELSEWHERE: f64 = 9.0;

fn hint(table: &[(&str, f64)], name: &str, elsewhere: f64) -> f64 {
    table.iter().find(|(known, _)| *known == name).map_or(elsewhere, |(_, value)| *value)
}

impl FlowConfig {
    /// Flow for every instrument the engine has and has not deleted.
    pub fn demo(engine: &Engine, house: Vec<AccountId>) -> FlowConfig {
        let there = engine.markets().iter().filter(|market| market.phase() != Phase::Deleted);
        let markets = there.map(|market| DemoMarket::natural(engine, market)).collect();
        FlowConfig { house, kernel: Kernel::symmetric(), style: Style::Demo(markets) }
    }

    /// The same market in fast motion: everything happens `percent` times as often in a second, so that books stay as
    /// deep as they were. The published flow has one rate and stays as it is.
    pub fn at_rate(mut self, percent: u32) -> FlowConfig {
        let faster = f64::from(percent) / 100.0;
        if let Style::Demo(markets) = &mut self.style {
            for market in markets {
                market.events_per_second *= faster;
                market.lifetime = (market.lifetime / faster).max(LEAST_SECONDS);
                market.maker_pause = (market.maker_pause / faster).max(LEAST_SECONDS);
                market.volatility_bps *= faster.sqrt();
            }
        }
        self
    }

    /// The published flow on one instrument.
    pub fn paper(instrument: InstrumentId, house: Vec<AccountId>, reading: Reading) -> FlowConfig {
        FlowConfig { house, kernel: Kernel::published(reading), style: Style::Paper { instrument } }
    }

    pub(crate) fn check(&self, engine: &Engine) -> Result<(), FlowError> {
        self.kernel.check()?;
        if self.house.len() < LEAST_ACCOUNTS {
            return Err(FlowError::TooFewAccounts { found: self.house.len(), needed: LEAST_ACCOUNTS });
        }
        for &account in &self.house {
            let known = engine.account(account).ok_or(FlowError::UnknownAccount { account })?;
            if known.is_limited() {
                return Err(FlowError::LimitedCredit { account });
            }
        }
        match &self.style {
            Style::Paper { instrument } => known_instrument(engine, *instrument),
            Style::Demo(markets) => {
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

fn known_instrument(engine: &Engine, instrument: InstrumentId) -> Result<(), FlowError> {
    engine.market(instrument).map(|_| ()).ok_or(FlowError::UnknownInstrument { instrument })
}

impl DemoMarket {
    /// Sizes from the price and the quote currency; volatility so that prices of any number of ticks look alive and
    /// books of any number of ticks look dense: a move per second of half a tick at 7,200 ticks, growing with the
    /// square root of the price.
    pub fn natural(engine: &Engine, market: &Market) -> DemoMarket {
        const TICKS_WITH_HALF_A_TICK: f64 = 7_200.0;
        let spec = &market.spec;
        let start = spec.start_price.0 as f64;
        let move_ticks = (0.5 * (start / TICKS_WITH_HALF_A_TICK).sqrt()).max(0.2);
        let quote = engine.currency(spec.quote()).map_or("", |currency| currency.name.as_str());
        let value = hint(&TYPICAL_VALUE, quote, TYPICAL_VALUE_ELSEWHERE);
        let (value_of_a_lot, follows) = match spec.kind {
            InstrumentKind::Spot { .. } => (float(spec.lot) * float(spec.tick) * start, None),
            InstrumentKind::InversePerpetual { index, .. } => (float(spec.lot), Some(index)),
        };
        DemoMarket {
            instrument: spec.id,
            events_per_second: hint(&LIVELINESS, &spec.name, LIVELINESS_ELSEWHERE),
            lifetime: 240.0,
            typical_lots: (value / value_of_a_lot).max(1.0),
            volatility_bps: move_ticks / start * 10_000.0,
            range_bps: 100.0,
            follows,
            maker_levels: 6,
            maker_pause: 0.7,
            seeds_per_side: 120,
        }
    }

    fn check(&self, engine: &Engine) -> Result<(), FlowError> {
        known_instrument(engine, self.instrument)?;
        if let Some(followed) = self.follows {
            known_instrument(engine, followed)?;
        }
        for (name, value, least, most) in [
            ("events_per_second", self.events_per_second, 1e-6, 1e6),
            ("lifetime", self.lifetime, LEAST_SECONDS, 1e9),
            ("typical_lots", self.typical_lots, 1e-6, 1e9),
            ("volatility_bps", self.volatility_bps, 1e-9, 1e4),
            ("range_bps", self.range_bps, 1e-6, 1e4),
            ("maker_pause", self.maker_pause, LEAST_SECONDS, 1e6),
            ("maker_levels", self.maker_levels as f64, 1.0, 100.0),
            ("seeds_per_side", f64::from(self.seeds_per_side), 0.0, 1e5),
        ] {
            // Written so that not-a-number is refused too.
            if !(value >= least && value <= most) {
                return Err(FlowError::BadParameter { name });
            }
        }
        Ok(())
    }
}
