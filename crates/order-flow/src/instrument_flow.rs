//! The flow of one instrument: when an event happens, and what it does.
//!
//! Holds       each instrument has its own random streams: adding one does not change the event
//!             times of others.
//! Start at    [`InstrumentFlow::event`].

use std::sync::Arc;

use pitwire_engine::{Engine, Market};
use pitwire_model::{AccountId, InstrumentId, OrderId, Side, TimeInForce, VenueNanos};

use crate::config::DemoMarket;
use crate::error::FlowError;
use crate::event_type::{Act, EventType, ExpectedRate, FlowModel};
use crate::fair_value::FairValue;
use crate::interevent::IntereventMeter;
use crate::maker::{Maker, MakerAction, Quote};
use crate::metaorders::random_side;
use crate::number::{distance, seconds_between};
use crate::paper::{self, TopOfBook};
use crate::process::Process;
use crate::random::Random;
use crate::texture::Texture;
use crate::trader::{Proposal, Trader};
use crate::type_volume::TypeVolume;

/// The flow of one instrument.
#[derive(Debug)]
pub struct InstrumentFlow {
    pub instrument: InstrumentId,
    pub model: Arc<FlowModel>,
    pub process: Process,
    pub random: Random,
    pub style: TradingStyle,
    /// Whether the flow trades the instrument.
    pub is_running: bool,
    /// Measures the times between events, on request.
    pub meter: Option<IntereventMeter>,
    /// Index into the tallies of the flow for each event type.
    pub tally_of: Vec<usize>,
    /// Volumes by event type, if they are measured.
    pub volumes: Option<Vec<TypeVolume>>,
    /// Theoretical rates of the event types at pace 1; `None` if they have no closed form.
    pub expected: Option<Vec<ExpectedRate>>,
    /// Resting orders of the traders, for cancels by events. Some of them may be gone.
    resting: Vec<Quote>,
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
    /// `None` for the plain flow.
    pub texture: Option<Box<Texture>>,
    /// Mean lifetime of a flow order, in seconds.
    pub lifetime: f64,
    /// Mean time between two requotes, in seconds.
    pub pause: f64,
    /// Flow orders on both sides that a new book still gets.
    pub seeds: u32,
    /// Time of the next requote. A requote that is scheduled for another time was replaced.
    pub next_requote: VenueNanos,
}

impl DemoTrading {
    /// Returns the fair value in ticks.
    fn fair_value(&self) -> f64 {
        self.texture.as_ref().map_or_else(|| self.reference.ticks(), |texture| texture.ticks())
    }
}

/// Returns the largest of 1, 2, 5, 10, 20, 50, … that is at most a twelfth of a distance in ticks.
fn round_step(depth: f64) -> i64 {
    let (mut step, mut factors) = (1_i64, [2.0, 2.5, 2.0].into_iter().cycle());
    let mut wanted = 1.0;
    while let Some(factor) = factors.next().filter(|factor| wanted * factor * 12.0 <= depth && wanted < 1e6) {
        wanted *= factor;
        step = distance(wanted + 0.5);
    }
    step
}

/// Result of an event.
#[derive(Debug)]
pub enum EventOutcome {
    Order(Proposal),
    /// An order that does not fit its event type, because no draw did.
    Substituted(Proposal),
    Cancel {
        account: AccountId,
        order: OrderId,
    },
    /// The book is too thin or closed.
    Infeasible,
    /// The spread is too narrow for the event type, whose intensity is zero now.
    Suppressed,
}

/// Returns the random streams: event times have even numbers, everything else has odd ones.
fn streams(seed: u64, instrument: InstrumentId) -> (Random, Random) {
    let stream = 2 * u64::from(instrument.0);
    (Random::new(seed, stream), Random::new(seed, stream + 1))
}

impl InstrumentFlow {
    /// Creates a flow in the published style.
    ///
    /// # Errors
    /// [`FlowError`] if the kernel of the model is not stable.
    pub fn paper(
        model: &Arc<FlowModel>,
        instrument: InstrumentId,
        seed: u64,
        start: VenueNanos,
    ) -> Result<InstrumentFlow, FlowError> {
        let (times, random) = streams(seed, instrument);
        Ok(InstrumentFlow {
            instrument,
            model: Arc::clone(model),
            process: Process::new(&model.kernel, start, times)?,
            random,
            style: TradingStyle::Paper,
            is_running: true,
            meter: None,
            tally_of: Vec::new(),
            volumes: None,
            expected: None,
            resting: Vec::new(),
        })
    }

    /// Creates a flow in the demo style.
    ///
    /// # Errors
    /// [`FlowError::UnknownInstrument`] if the engine lacks the instrument, or the one
    /// that `config.follows` names.
    pub fn demo(
        config: &DemoMarket,
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
        let texture = if config.is_lifelike {
            Some(Box::new(Texture::new(config, engine, (seed, start)).ok_or(unknown.clone())?))
        } else {
            None
        };
        let mut trader = Trader::new(config.typical_lots, (DEPTH_IN_MOVES * move_ticks).max(3.0), spec.start_price);
        if config.is_lifelike {
            trader.most_taken = 8.0;
            trader.round = round_step(trader.depth);
        }
        let demo = DemoTrading {
            maker: Maker::new(config.maker_levels, move_ticks, config.typical_lots),
            maker_account,
            trader,
            texture,
            reference: FairValue::new(engine, instrument, config.follows, (volatility, range), start).ok_or(unknown)?,
            lifetime: config.lifetime,
            pause: config.maker_pause,
            seeds: 2 * config.seeds_per_side,
            next_requote: start,
        };
        let process = Process::new(&config.model.kernel.at_rate(config.events_per_second), start, times)?;
        Ok(InstrumentFlow {
            instrument,
            model: Arc::clone(&config.model),
            process,
            random,
            style: TradingStyle::Demo(Box::new(demo)),
            is_running: config.is_running,
            meter: None,
            tally_of: Vec::new(),
            volumes: None,
            expected: None,
            resting: Vec::new(),
        })
    }

    /// Returns the venue time of the upcoming event.
    pub fn due(&mut self) -> VenueNanos {
        let (at, _) = self.process.upcoming();
        match self.texture_mut() {
            Some(texture) => texture.clock.venue_time(at),
            None => at,
        }
    }

    /// Returns the business seconds between two times.
    pub fn business_seconds(&self, start: VenueNanos, end: VenueNanos) -> f64 {
        let texture = match &self.style {
            TradingStyle::Demo(demo) => demo.texture.as_deref(),
            TradingStyle::Paper => None,
        };
        texture.map_or_else(|| seconds_between(start, end), |texture| texture.business_seconds(start, end))
    }

    pub fn texture_mut(&mut self) -> Option<&mut Texture> {
        match &mut self.style {
            TradingStyle::Demo(demo) => demo.texture.as_deref_mut(),
            TradingStyle::Paper => None,
        }
    }

    /// Returns the result of the upcoming event, at `now`, and draws the next event. `market` is
    /// `None` if it is closed. Cancels choose among the orders of `traders`.
    pub fn event(
        &mut self,
        now: VenueNanos,
        market: Option<&Market>,
        engine: &Engine,
        traders: &[AccountId],
    ) -> EventOutcome {
        let (_, kind) = self.process.upcoming();
        let model = Arc::clone(&self.model);
        let event_type = &model.types[kind];
        if event_type.needs_spread && market.is_some_and(|market| !market.phase().is_call() && is_narrow(market)) {
            self.process.skip();
            return EventOutcome::Suppressed;
        }
        self.process.advance();
        let Some(market) = market else { return EventOutcome::Infeasible };
        self.forget_gone_orders(market, engine);
        if let Some(texture) = self.texture_mut() {
            texture.advance(now, engine);
        }
        let (side, expected) = self.side(event_type);
        let outcome = match (event_type.act, market.phase().is_call()) {
            (Act::CancelBest, false) => self.cancel_best(side, market, engine, traders),
            (Act::CancelBest | Act::CancelBehind, _) => self.cancel_any(side, market, engine),
            (_, false) => self.order(event_type, side, market),
            (_, true) => self.call_order(event_type, side),
        };
        if let (EventOutcome::Order(order), Some(texture)) = (&outcome, self.texture_mut())
            && order.tif == TimeInForce::ImmediateOrCancel
        {
            texture.traded(side, expected);
        }
        outcome
    }

    /// Returns the side of an event, with the mean side that was expected.
    fn side(&mut self, event_type: &EventType) -> (Side, f64) {
        if let Some(side) = event_type.side {
            return (side, 0.0);
        }
        match self.texture_mut() {
            Some(texture) if event_type.act.is_eager() => texture.draw_side(),
            _ => (random_side(&mut self.random), 0.0),
        }
    }

    fn order(&mut self, event_type: &EventType, side: Side, market: &Market) -> EventOutcome {
        match &self.style {
            TradingStyle::Demo(demo) => {
                let fair_value = demo.fair_value();
                let edge = demo.texture.as_ref().map(|texture| texture.half_spread() / 2.0);
                Trader { edge, ..demo.trader.sized(event_type.size) }
                    .propose(event_type.act, side, market, fair_value, &mut self.random)
                    .map_or(EventOutcome::Infeasible, EventOutcome::Order)
            }
            TradingStyle::Paper => {
                match paper::propose(event_type.act, side, &TopOfBook::of(market), &mut self.random) {
                    Some((proposal, false)) => EventOutcome::Order(proposal),
                    Some((proposal, true)) => EventOutcome::Substituted(proposal),
                    None => EventOutcome::Infeasible,
                }
            }
        }
    }

    /// Returns the order of an event during a call. The published flow has no orders for calls.
    fn call_order(&mut self, event_type: &EventType, side: Side) -> EventOutcome {
        match &self.style {
            TradingStyle::Demo(demo) => {
                let trader = demo.trader.sized(event_type.size);
                EventOutcome::Order(trader.gather(event_type.act, side, demo.fair_value(), &mut self.random))
            }
            TradingStyle::Paper => EventOutcome::Infeasible,
        }
    }

    /// Cancels a random order of the traders at the best price.
    fn cancel_best(&mut self, side: Side, market: &Market, engine: &Engine, traders: &[AccountId]) -> EventOutcome {
        /// Orders of the level that take part in the draw.
        const MOST_ORDERS: usize = 64;
        let Some((best, _)) = market.best(side) else { return EventOutcome::Infeasible };
        let own: Vec<(AccountId, OrderId)> = market
            .book()
            .orders(side)
            .take_while(|order| order.price == best)
            .take(MOST_ORDERS)
            .filter_map(|order| Some((engine.order(order.id)?.account, order.id)))
            .filter(|(account, _)| traders.contains(account))
            .collect();
        let turn = usize::try_from(self.random.below(own.len() as u64)).unwrap_or(0);
        own.get(turn).map_or(EventOutcome::Infeasible, |&(account, order)| EventOutcome::Cancel { account, order })
    }

    /// Cancels a random order of the traders on one side that is behind the best price. In a call,
    /// every price counts as behind.
    fn cancel_any(&mut self, side: Side, market: &Market, engine: &Engine) -> EventOutcome {
        /// Draws before the event counts as infeasible. Half of the orders are on the other side.
        const MOST_DRAWS: usize = 32;
        let best = if market.phase().is_call() { None } else { market.best(side).map(|(price, _)| price) };
        for _ in 0..MOST_DRAWS {
            let turn = usize::try_from(self.random.below(self.resting.len() as u64)).unwrap_or(0);
            let Some(&Quote { order, account, side: own, price }) = self.resting.get(turn) else { break };
            if engine.order(order).is_none_or(|live| live.account != account) {
                self.resting.swap_remove(turn);
            } else if own == side && Some(price) != best {
                self.resting.swap_remove(turn);
                return EventOutcome::Cancel { account, order };
            }
        }
        EventOutcome::Infeasible
    }

    /// Adds a resting order of a trader.
    pub fn rested(&mut self, quote: Quote) {
        if self.model.has_cancels() {
            self.resting.push(quote);
        }
    }

    /// Forgets orders that are gone, if they could be many.
    fn forget_gone_orders(&mut self, market: &Market, engine: &Engine) {
        const SPARE: usize = 1024;
        let live = usize::try_from(market.book().resting_orders()).unwrap_or(usize::MAX);
        if self.resting.len() > live.saturating_mul(2).saturating_add(SPARE) {
            self.resting.retain(|quote| engine.order(quote.order).is_some());
        }
    }

    /// Lets the market maker update its quotes.
    pub fn requote(&mut self, at: VenueNanos, engine: &Engine, market: &Market, actions: &mut Vec<MakerAction>) {
        let TradingStyle::Demo(demo) = &mut self.style else { return };
        let fair_value = match &mut demo.texture {
            Some(texture) => {
                let value = texture.advance(at, engine);
                demo.maker.half_spread = texture.half_spread();
                value
            }
            None => demo.reference.at(at, engine, &mut self.random),
        };
        demo.maker.requote(engine, market, fair_value, &mut self.random, actions);
    }

    /// Returns one more order for a new book, on alternating sides.
    pub fn seed(&mut self, left: u32, market: &Market) -> Option<Proposal> {
        let side = if left.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        match &self.style {
            TradingStyle::Demo(demo) => demo.trader.behind(side, market, demo.fair_value(), &mut self.random),
            TradingStyle::Paper => {
                let turn = usize::try_from(left).unwrap_or(0);
                paper::SEEDS.iter().rev().nth(turn.wrapping_sub(1)).copied()
            }
        }
    }
}

/// Returns whether the spread is one tick. A one-sided book is not narrow.
fn is_narrow(market: &Market) -> bool {
    let (bid, ask) = (market.best(Side::Buy), market.best(Side::Sell));
    bid.zip(ask).is_some_and(|((bid, _), (ask, _))| ask.0 - bid.0 <= 1)
}
