//! The flow as the host sees it: what is due when, and the bookkeeping between commands and what came of them.
//!
//! Does        merge all instruments' events, cancels, maker's looks and seeds into one stream in order of time.
//! Holds       1. times never go back;
//!             2. each call does one scheduled thing at most, so its cost is bounded;
//!             3. a cancel is proposed only while its order lives, an entry only while its market takes it.
//! Start at    [`Flow::next`].

use std::collections::VecDeque;

use pitwire_engine::{Engine, Market};
use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Label, Lots, NewOrder, OrderId, Phase, Stamped, TimeInForce, VenueNanos,
};

use crate::config::{FlowConfig, Style};
use crate::desk::{Desk, Outcome, Trade};
use crate::error::FlowError;
use crate::kernel::TYPES;
use crate::maker::{Quote, Wish};
use crate::number::later;
use crate::paper;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::trader::Proposal;

/// A maker whose side is bare comes back this soon.
const REACTION_SECONDS: f64 = 0.002;
/// Between two orders that fill a fresh book.
const SEED_PAUSE_SECONDS: f64 = 0.000_05;

#[derive(Debug)]
pub struct Flow {
    house: House,
    desks: Vec<Desk>,
    /// By instrument; instruments are dense.
    desk_of: Vec<Option<usize>>,
    schedule: Schedule<Due>,
    /// The rest of a look: commands of one instant, in order.
    ready: VecDeque<Command>,
    wishes: Vec<Wish>,
    now: VenueNanos,
    /// Chooses owners, and lifetimes of orders in instruments without a desk.
    random: Random,
    counts: FlowCounts,
    tallies: [TypeTally; TYPES],
    rate: f64,
    radius: f64,
}

/// One of the eight types of event over all instruments: what came of it, and what theory says in the long run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TypeTally {
    pub events: u64,
    pub expected_per_s: f64,
    /// Of the count, per second.
    pub variance_per_s: f64,
}

/// What the flow has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Events of the mutually exciting processes, whatever came of them.
    pub events: u64,
    /// Events for which the book left no room or was closed: nothing was sent.
    pub infeasible: u64,
    /// Paper flow: orders sent at the mean because no draw fitted their type.
    pub substituted: u64,
    pub commands: u64,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    Event { desk: usize },
    Look { desk: usize, at: VenueNanos },
    Seed { desk: usize, left: u32 },
    Cancel { account: AccountId, order: OrderId },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Maker,
    Trader,
}

#[derive(Debug)]
struct House {
    makers: Vec<AccountId>,
    traders: Vec<AccountId>,
}

impl House {
    fn new(mut accounts: Vec<AccountId>) -> House {
        let traders = accounts.split_off(accounts.len().div_ceil(4));
        House { makers: accounts, traders }
    }

    /// A few accounts each: looking through them is quicker than hashing.
    fn role(&self, account: AccountId) -> Option<Role> {
        if self.traders.contains(&account) {
            return Some(Role::Trader);
        }
        self.makers.contains(&account).then_some(Role::Maker)
    }
}

impl Flow {
    /// Begins at `start`. Live orders of the house are adopted: the maker's become its quotes, and any other gets a
    /// fresh lifetime, which changes nothing, as an exponential lifetime does not remember its age.
    pub fn new(config: FlowConfig, seed: u64, start: VenueNanos, engine: &Engine) -> Result<Flow, FlowError> {
        config.check(engine)?;
        let house = House::new(config.house);
        let desks = match &config.style {
            Style::Paper { instrument } => vec![Desk::paper(&config.kernel, *instrument, seed, start)?],
            Style::Demo(markets) => {
                let makers = house.makers.iter().cycle();
                let desk = |(market, maker): (_, &AccountId)| {
                    Desk::demo(market, &config.kernel, engine, *maker, (seed, start))
                };
                markets.iter().zip(makers).map(desk).collect::<Result<_, _>>()?
            }
        };
        let mut desk_of = vec![None; engine.markets().len()];
        for (at, desk) in desks.iter().enumerate() {
            desk_of[desk.instrument.0 as usize] = Some(at);
        }
        let rate = match &config.style {
            Style::Paper { .. } => config.kernel.total_rate(),
            Style::Demo(markets) => markets.iter().map(|market| market.events_per_second).sum(),
        };
        // Speed scales counts and their variances alike, so that all instruments together are one kernel at the sum of
        // their rates.
        let whole = config.kernel.at_rate(rate);
        let (expected, variances) = (whole.stationary_rates(), whole.count_variances());
        let tallies = std::array::from_fn(|kind| TypeTally {
            events: 0,
            expected_per_s: expected[kind],
            variance_per_s: variances[kind],
        });
        let mut flow = Flow {
            house,
            desks,
            desk_of,
            schedule: Schedule::new(),
            ready: VecDeque::new(),
            wishes: Vec::new(),
            now: start,
            random: Random::new(seed, u64::MAX),
            counts: FlowCounts::default(),
            tallies,
            rate,
            radius: config.kernel.radius(),
        };
        flow.begin(engine);
        Ok(flow)
    }

    fn begin(&mut self, engine: &Engine) {
        for at in 0..self.desks.len() {
            let desk = &self.desks[at];
            let (due, _) = desk.process.upcoming();
            let empty = engine.market(desk.instrument).is_some_and(|market| market.book().resting_orders() == 0);
            match &desk.trade {
                Trade::Demo(_) => self.schedule.push(self.now, Due::Look { desk: at, at: self.now }),
                Trade::Paper if empty => {
                    let left = u32::try_from(paper::SEEDS.len()).unwrap_or(0);
                    self.schedule.push(self.now, Due::Seed { desk: at, left });
                }
                Trade::Paper => {}
            }
            self.schedule.push(due, Due::Event { desk: at });
        }
        let mut accounts: Vec<AccountId> = self.house.makers.iter().chain(&self.house.traders).copied().collect();
        accounts.sort_unstable();
        accounts.dedup();
        for account in accounts {
            for order in engine.orders_of(account) {
                self.adopt(order.instrument, Quote { order: order.id, account, side: order.side, price: order.price });
            }
        }
    }

    /// When the next thing is due: its own time, or the latest time seen if that has passed it.
    pub fn next_due(&self) -> Option<VenueNanos> {
        if self.ready.is_empty() { self.schedule.next_due().map(|due| due.max(self.now)) } else { Some(self.now) }
    }

    /// Takes the next due thing, judging by the engine as it stands just before it. `None` means that it came to
    /// nothing (the order to cancel has filled; the event found no room): ask [`Flow::next_due`] again.
    pub fn next(&mut self, engine: &Engine) -> Option<(VenueNanos, Command)> {
        let command = match self.ready.pop_front() {
            Some(command) => Some(command),
            None => {
                let (at, due) = self.schedule.pop()?;
                self.now = self.now.max(at);
                self.act(due, engine)
            }
        };
        let command = command.filter(|command| makes_sense(command, engine))?;
        self.counts.commands += 1;
        Some((self.now, command))
    }

    fn act(&mut self, due: Due, engine: &Engine) -> Option<Command> {
        match due {
            Due::Cancel { account, order } => Some(Command::Cancel { account, order }),
            Due::Event { desk } => self.event(desk, engine),
            Due::Seed { desk, left } => {
                let market = open_market(engine, self.desks[desk].instrument)?;
                if left > 1 {
                    let at = later(self.now, SEED_PAUSE_SECONDS);
                    self.schedule.push(at, Due::Seed { desk, left: left - 1 });
                }
                let proposal = self.desks[desk].seed(left, market)?;
                Some(self.trader_order(desk, proposal))
            }
            Due::Look { desk, at } => {
                self.look(desk, at, engine);
                self.ready.pop_front()
            }
        }
    }

    fn event(&mut self, at: usize, engine: &Engine) -> Option<Command> {
        let desk = &mut self.desks[at];
        let (_, kind) = desk.process.upcoming();
        self.tallies[kind].events += 1;
        let outcome = match engine.market(desk.instrument) {
            Some(market) if market.phase().is_call() => desk.call_event(),
            _ => desk.event(open_market(engine, desk.instrument)),
        };
        let (due, _) = desk.process.upcoming();
        self.schedule.push(due, Due::Event { desk: at });
        self.counts.events += 1;
        match outcome {
            Outcome::Order(proposal) => Some(self.trader_order(at, proposal)),
            Outcome::Substituted(proposal) => {
                self.counts.substituted += 1;
                Some(self.trader_order(at, proposal))
            }
            Outcome::Infeasible => {
                self.counts.infeasible += 1;
                None
            }
        }
    }

    fn look(&mut self, index: usize, scheduled: VenueNanos, engine: &Engine) {
        let desk = &mut self.desks[index];
        let Trade::Demo(demo) = &mut desk.trade else { return };
        if demo.next_look != scheduled {
            return; // an earlier look has taken its place
        }
        demo.next_look = later(self.now, desk.random.exponential(demo.pause)).max(VenueNanos(self.now.0 + 1));
        self.schedule.push(demo.next_look, Due::Look { desk: index, at: demo.next_look });
        let Some(market) = open_market(engine, desk.instrument) else { return };
        if demo.seeds > 0 {
            let (left, first) = (demo.seeds, later(self.now, SEED_PAUSE_SECONDS));
            demo.seeds = 0;
            if market.book().resting_orders() < left {
                self.schedule.push(first, Due::Seed { desk: index, left });
            }
        }
        let (account, instrument) = (demo.maker_account, desk.instrument);
        let mut wishes = std::mem::take(&mut self.wishes);
        desk.look(self.now, engine, market, &mut wishes);
        self.ready.extend(wishes.drain(..).map(|wish| match wish {
            Wish::Pull(command) => command,
            Wish::Quote(proposal) => enter(account, instrument, proposal),
        }));
        self.wishes = wishes;
    }

    fn trader_order(&mut self, desk: usize, proposal: Proposal) -> Command {
        let traders = &self.house.traders;
        let turn = usize::try_from(self.random.below(traders.len() as u64)).unwrap_or(0);
        let account = traders.get(turn).copied().unwrap_or_default();
        enter(account, self.desks[desk].instrument, proposal)
    }

    /// Shows the flow a command and what came of it: its own and everyone else's, in order.
    pub fn observe(&mut self, stamped: &Stamped, events: &[Event]) {
        self.now = self.now.max(stamped.at);
        if let Command::Enter(order) = &stamped.command {
            self.entered(OrderId(stamped.seq.0), order, events);
        }
        for event in events {
            match event {
                Event::Trade { instrument, maker, maker_account, maker_open: Lots(0), .. }
                    if self.house.makers.contains(maker_account) =>
                {
                    self.quote_filled(*instrument, *maker);
                }
                Event::PhaseChanged { instrument, phase: Phase::Continuous }
                | Event::SessionChanged { instrument, to: Phase::Continuous, .. } => {
                    if let Some(desk) = self.desk(*instrument) {
                        self.hasten_look(desk, self.now);
                    }
                }
                _ => {}
            }
        }
    }

    fn entered(&mut self, id: OrderId, order: &NewOrder, events: &[Event]) {
        let Some(price) = order.order_type.limit_price() else { return };
        let rests = order.tif != TimeInForce::ImmediateOrCancel && !open_after(id, order.lots, events).is_zero();
        if rests && self.house.role(order.account).is_some() {
            self.adopt(order.instrument, Quote { order: id, account: order.account, side: order.side, price });
        }
    }

    /// Takes charge of a resting order of the house.
    fn adopt(&mut self, instrument: InstrumentId, quote: Quote) {
        let role = self.house.role(quote.account);
        let lifetime = match self.desk(instrument).map(|desk| &mut self.desks[desk]) {
            Some(Desk { trade: Trade::Paper, .. }) => return,
            Some(Desk { trade: Trade::Demo(demo), .. }) if role == Some(Role::Maker) => {
                demo.maker.rested(quote);
                return;
            }
            Some(Desk { trade: Trade::Demo(demo), random, .. }) => random.exponential(demo.lifetime),
            None => {
                const MEAN_SECONDS: f64 = 60.0;
                self.random.exponential(MEAN_SECONDS)
            }
        };
        let due = Due::Cancel { account: quote.account, order: quote.order };
        self.schedule.push(later(self.now, lifetime), due);
    }

    fn quote_filled(&mut self, instrument: InstrumentId, order: OrderId) {
        let Some(at) = self.desk(instrument) else { return };
        let Trade::Demo(demo) = &mut self.desks[at].trade else { return };
        if demo.maker.filled(order) {
            self.hasten_look(at, later(self.now, REACTION_SECONDS));
        }
    }

    fn hasten_look(&mut self, at: usize, when: VenueNanos) {
        let Trade::Demo(demo) = &mut self.desks[at].trade else { return };
        if when < demo.next_look {
            demo.next_look = when;
            self.schedule.push(when, Due::Look { desk: at, at: when });
        }
    }

    fn desk(&self, instrument: InstrumentId) -> Option<usize> {
        self.desk_of.get(instrument.0 as usize).copied().flatten()
    }

    pub fn counts(&self) -> FlowCounts {
        self.counts
    }

    /// By type, in the order of [`crate::kernel`].
    pub fn tallies(&self) -> &[TypeTally; TYPES] {
        &self.tallies
    }

    /// What theory expects of the processes in the long run, in events per second over all instruments.
    pub fn expected_events_per_second(&self) -> f64 {
        self.rate
    }

    /// Spectral radius of the branching matrix: the share of events that others caused.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Things waiting for their time. Bounded by the orders entered within a few lifetimes.
    pub fn scheduled(&self) -> usize {
        self.schedule.len() + self.ready.len()
    }
}

fn enter(account: AccountId, instrument: InstrumentId, proposal: Proposal) -> Command {
    Command::Enter(NewOrder {
        id: OrderId::ZERO,
        account,
        instrument,
        side: proposal.side,
        order_type: proposal.order_type,
        lots: proposal.lots,
        tif: proposal.tif,
        label: Label::default(),
        ..NewOrder::PLAIN
    })
}

fn open_market(engine: &Engine, instrument: InstrumentId) -> Option<&Market> {
    engine.market(instrument).filter(|market| market.phase() == Phase::Continuous)
}

/// Where an order can go now: anything where trading is continuous, in a call what rests.
fn market_for<'e>(order: &NewOrder, engine: &'e Engine) -> Option<&'e Market> {
    let rests = order.order_type.limit_price().is_some() && order.tif.rests();
    let market = engine.market(order.instrument)?;
    let takes = market.phase() == Phase::Continuous || rests && market.phase().is_call();
    takes.then_some(market)
}

/// Time has passed, or the command waited its turn: what it was meant for may be gone.
fn makes_sense(command: &Command, engine: &Engine) -> bool {
    match command {
        Command::Cancel { account, order } => engine.order(*order).is_some_and(|live| live.account == *account),
        Command::Enter(order) => market_for(order, engine)
            .is_some_and(|market| market.book().resting_orders() < market.spec.max_resting_orders),
        _ => true,
    }
}

/// What an entered order still has open once its events are over.
fn open_after(id: OrderId, lots: Lots, events: &[Event]) -> Lots {
    events.iter().fold(lots, |open, event| match event {
        Event::Trade { taker, taker_open, .. } if *taker == id => *taker_open,
        Event::Rejected { order, .. } | Event::Cancelled { order, .. } if *order == id => Lots::ZERO,
        _ => open,
    })
}
