//! One instrument's flow: when something happens, and what.
//!
//! Holds       each desk has its own streams of chance: adding an instrument changes no other's event times.
//! Start at    [`Desk::event`].

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, InstrumentId, Side, VenueNanos};

use crate::config::DemoMarket;
use crate::error::FlowError;
use crate::kernel::Kernel;
use crate::maker::{Maker, Wish};
use crate::paper;
use crate::process::Process;
use crate::random::Random;
use crate::reference::Reference;
use crate::trader::{Proposal, Trader};

#[derive(Debug)]
pub struct Desk {
    pub instrument: InstrumentId,
    pub process: Process,
    pub random: Random,
    pub trade: Trade,
}

#[derive(Debug)]
pub enum Trade {
    Demo(Box<Demo>),
    Paper,
}

#[derive(Debug)]
pub struct Demo {
    pub maker: Maker,
    pub maker_account: AccountId,
    pub trader: Trader,
    pub reference: Reference,
    pub lifetime: f64,
    pub pause: f64,
    /// Flow orders on both sides that a fresh book gets; zero once it has got them.
    pub seeds: u32,
    /// When the maker looks next; a look scheduled for any other time has been replaced.
    pub next_look: VenueNanos,
}

/// What became of an event.
#[derive(Debug)]
pub enum Outcome {
    Order(Proposal),
    /// An order with something in it that the event's type does not allow, for want of anything that it does.
    Substituted(Proposal),
    /// The book leaves no room for it, or is closed.
    Infeasible,
}

/// Streams of chance: event times on the even numbers, all else on the odd.
fn streams(seed: u64, instrument: InstrumentId) -> (Random, Random) {
    let stream = 2 * u64::from(instrument.0);
    (Random::new(seed, stream), Random::new(seed, stream + 1))
}

impl Desk {
    pub fn paper(kernel: &Kernel, instrument: InstrumentId, seed: u64, start: VenueNanos) -> Result<Desk, FlowError> {
        let (times, random) = streams(seed, instrument);
        Ok(Desk { instrument, process: Process::new(kernel, start, times)?, random, trade: Trade::Paper })
    }

    pub fn demo(
        config: &DemoMarket,
        kernel: &Kernel,
        engine: &Engine,
        maker_account: AccountId,
        (seed, start): (u64, VenueNanos),
    ) -> Result<Desk, FlowError> {
        /// Mean depth of flow orders behind the touch, in the price's moves per second: about its moves per lifetime.
        const DEPTH_IN_MOVES: f64 = 12.0;
        const BASIS_POINT: f64 = 1e-4;
        let instrument = config.instrument;
        let unknown = FlowError::UnknownInstrument { instrument };
        let spec = &engine.market(instrument).ok_or(unknown.clone())?.spec;
        let (volatility, range) = (config.volatility_bps * BASIS_POINT, config.range_bps * BASIS_POINT);
        let move_ticks = volatility * spec.start_price.0 as f64;
        let (times, random) = streams(seed, instrument);
        let demo = Demo {
            maker: Maker::new(config.maker_levels, move_ticks, config.typical_lots),
            maker_account,
            trader: Trader::new(config.typical_lots, (DEPTH_IN_MOVES * move_ticks).max(3.0), spec.start_price),
            reference: Reference::new(engine, instrument, config.follows, (volatility, range), start).ok_or(unknown)?,
            lifetime: config.lifetime,
            pause: config.maker_pause,
            seeds: 2 * config.seeds_per_side,
            next_look: start,
        };
        let process = Process::new(&kernel.at_rate(config.events_per_second), start, times)?;
        Ok(Desk { instrument, process, random, trade: Trade::Demo(Box::new(demo)) })
    }

    /// What the upcoming event does to the market; the event after it is drawn. `None` stands for a closed market.
    pub fn event(&mut self, market: Option<&Market>) -> Outcome {
        let (_, kind) = self.process.upcoming();
        self.process.advance();
        let Some(market) = market else { return Outcome::Infeasible };
        match &self.trade {
            Trade::Demo(demo) => {
                let belief = demo.reference.ticks();
                demo.trader.propose(kind, market, belief, &mut self.random).map_or(Outcome::Infeasible, Outcome::Order)
            }
            Trade::Paper => match paper::propose(kind, market, &mut self.random) {
                Some((proposal, false)) => Outcome::Order(proposal),
                Some((proposal, true)) => Outcome::Substituted(proposal),
                None => Outcome::Infeasible,
            },
        }
    }

    /// What the upcoming event does while orders gather for one price; the published flow knows no calls.
    pub fn call_event(&mut self) -> Outcome {
        let (_, kind) = self.process.upcoming();
        self.process.advance();
        match &self.trade {
            Trade::Demo(demo) => Outcome::Order(demo.trader.gather(kind, demo.reference.ticks(), &mut self.random)),
            Trade::Paper => Outcome::Infeasible,
        }
    }

    /// The maker's look at its quotes.
    pub fn look(&mut self, at: VenueNanos, engine: &Engine, market: &Market, wishes: &mut Vec<Wish>) {
        let Trade::Demo(demo) = &mut self.trade else { return };
        let belief = demo.reference.at(at, engine, &mut self.random);
        demo.maker.look(engine, market, belief, &mut self.random, wishes);
    }

    /// One more order for a fresh book, on the side whose turn it is.
    pub fn seed(&mut self, left: u32, market: &Market) -> Option<Proposal> {
        let side = if left.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        match &self.trade {
            Trade::Demo(demo) => demo.trader.behind(side, market, demo.reference.ticks(), &mut self.random),
            Trade::Paper => {
                let turn = usize::try_from(left).unwrap_or(0);
                paper::SEEDS.iter().rev().nth(turn.wrapping_sub(1)).copied()
            }
        }
    }
}
