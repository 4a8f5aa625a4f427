//! The flow of one instrument: when an event happens, and what it does.
//!
//! Holds       each instrument has its own random streams: adding one does not change the event
//!             times of others.
//! Start at    [`InstrumentFlow::event`].

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, InstrumentId, Side, VenueNanos};

use crate::config::DemoMarket;
use crate::error::FlowError;
use crate::fair_value::FairValue;
use crate::interevent::IntereventMeter;
use crate::kernel::Kernel;
use crate::maker::{Maker, MakerAction};
use crate::paper::{self, TopOfBook};
use crate::process::Process;
use crate::random::Random;
use crate::trader::{Proposal, Trader};

/// The flow of one instrument.
#[derive(Debug)]
pub struct InstrumentFlow {
    pub instrument: InstrumentId,
    pub process: Process,
    pub random: Random,
    pub style: TradingStyle,
    /// Whether the flow trades the instrument.
    pub is_running: bool,
    /// Measures the times between events, on request.
    pub meter: Option<IntereventMeter>,
}

/// How events become orders.
#[derive(Debug)]
pub enum TradingStyle {
    Demo(Box<DemoTrading>),
    Paper,
}

/// State of the demo style.
#[derive(Debug)]
pub struct DemoTrading {
    pub maker: Maker,
    pub maker_account: AccountId,
    pub trader: Trader,
    pub reference: FairValue,
    /// Mean lifetime of a flow order, in seconds.
    pub lifetime: f64,
    /// Mean time between two requotes, in seconds.
    pub pause: f64,
    /// Flow orders on both sides that a new book still gets.
    pub seeds: u32,
    /// Time of the next requote. A requote that is scheduled for another time was replaced.
    pub next_requote: VenueNanos,
}

/// Result of an event.
#[derive(Debug)]
pub enum EventOutcome {
    Order(Proposal),
    /// An order that does not fit its event type, because no draw did.
    Substituted(Proposal),
    /// The book is too thin or closed.
    Infeasible,
}

/// Returns the random streams: event times have even numbers, everything else has odd ones.
fn streams(seed: u64, instrument: InstrumentId) -> (Random, Random) {
    let stream = 2 * u64::from(instrument.0);
    (Random::new(seed, stream), Random::new(seed, stream + 1))
}

impl InstrumentFlow {
    /// Creates a flow in the published style.
    pub fn paper(
        kernel: &Kernel,
        instrument: InstrumentId,
        seed: u64,
        start: VenueNanos,
    ) -> Result<InstrumentFlow, FlowError> {
        let (times, random) = streams(seed, instrument);
        Ok(InstrumentFlow {
            instrument,
            process: Process::new(kernel, start, times)?,
            random,
            style: TradingStyle::Paper,
            is_running: true,
            meter: None,
        })
    }

    /// Creates a flow in the demo style.
    pub fn demo(
        config: &DemoMarket,
        kernel: &Kernel,
        engine: &Engine,
        maker_account: AccountId,
        (seed, start): (u64, VenueNanos),
    ) -> Result<InstrumentFlow, FlowError> {
        /// Mean distance of flow orders behind the best price, in price moves per second.
        const DEPTH_IN_MOVES: f64 = 12.0;
        const BASIS_POINT: f64 = 1e-4;
        let instrument = config.instrument;
        let unknown = FlowError::UnknownInstrument { instrument };
        let spec = &engine.market(instrument).ok_or(unknown.clone())?.spec;
        let (volatility, range) = (config.volatility_bps * BASIS_POINT, config.range_bps * BASIS_POINT);
        let move_ticks = volatility * spec.start_price.0 as f64;
        let (times, random) = streams(seed, instrument);
        let demo = DemoTrading {
            maker: Maker::new(config.maker_levels, move_ticks, config.typical_lots),
            maker_account,
            trader: Trader::new(config.typical_lots, (DEPTH_IN_MOVES * move_ticks).max(3.0), spec.start_price),
            reference: FairValue::new(engine, instrument, config.follows, (volatility, range), start).ok_or(unknown)?,
            lifetime: config.lifetime,
            pause: config.maker_pause,
            seeds: 2 * config.seeds_per_side,
            next_requote: start,
        };
        let process = Process::new(&kernel.at_rate(config.events_per_second), start, times)?;
        let (style, is_running) = (TradingStyle::Demo(Box::new(demo)), config.is_running);
        Ok(InstrumentFlow { instrument, process, random, style, is_running, meter: None })
    }

    /// Returns the order of the upcoming event and draws the next event. `None` stands for a closed
    /// market.
    pub fn event(&mut self, market: Option<&Market>) -> EventOutcome {
        let (_, kind) = self.process.upcoming();
        self.process.advance();
        let Some(market) = market else { return EventOutcome::Infeasible };
        match &self.style {
            TradingStyle::Demo(demo) => {
                let fair_value = demo.reference.ticks();
                demo.trader
                    .propose(kind, market, fair_value, &mut self.random)
                    .map_or(EventOutcome::Infeasible, EventOutcome::Order)
            }
            TradingStyle::Paper => match paper::propose(kind, &TopOfBook::of(market), &mut self.random) {
                Some((proposal, false)) => EventOutcome::Order(proposal),
                Some((proposal, true)) => EventOutcome::Substituted(proposal),
                None => EventOutcome::Infeasible,
            },
        }
    }

    /// Returns the order of the upcoming event during a call. The published flow has no orders for
    /// calls.
    pub fn call_event(&mut self) -> EventOutcome {
        let (_, kind) = self.process.upcoming();
        self.process.advance();
        match &self.style {
            TradingStyle::Demo(demo) => {
                EventOutcome::Order(demo.trader.gather(kind, demo.reference.ticks(), &mut self.random))
            }
            TradingStyle::Paper => EventOutcome::Infeasible,
        }
    }

    /// Lets the market maker update its quotes.
    pub fn requote(&mut self, at: VenueNanos, engine: &Engine, market: &Market, actions: &mut Vec<MakerAction>) {
        let TradingStyle::Demo(demo) = &mut self.style else { return };
        let fair_value = demo.reference.at(at, engine, &mut self.random);
        demo.maker.requote(engine, market, fair_value, &mut self.random, actions);
    }

    /// Returns one more order for a new book, on alternating sides.
    pub fn seed(&mut self, left: u32, market: &Market) -> Option<Proposal> {
        let side = if left.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        match &self.style {
            TradingStyle::Demo(demo) => demo.trader.behind(side, market, demo.reference.ticks(), &mut self.random),
            TradingStyle::Paper => {
                let turn = usize::try_from(left).unwrap_or(0);
                paper::SEEDS.iter().rev().nth(turn.wrapping_sub(1)).copied()
            }
        }
    }
}
