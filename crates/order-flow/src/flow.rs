//! The flow: which command is due when, and what became of earlier ones.
//!
//! Does        merge the events, cancels, requotes and opening orders of all instruments into one
//!             stream, by time.
//! Holds       1. times never decrease;
//!             2. a call executes at most one scheduled action, so its cost is bounded;
//!             3. a cancel is returned only while its order is live, an entry only while its market
//!                accepts it.
//! Start at    [`Flow::next`].

use std::collections::VecDeque;

use pitwire_engine::{Engine, Market};
use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Label, Lots, NewOrder, OrderId, Phase, SequencedCommand, Side,
    TimeInForce, TradeKind, VenueNanos,
};

use crate::config::{FlowConfig, FlowStyle};
use crate::error::FlowError;
use crate::event_type::{EventType, ExpectedRate};
use crate::instrument_flow::{EventOutcome, InstrumentFlow, TradingStyle};
use crate::interevent::{IntereventMeter, IntereventTimes};
use crate::kernel::Kernel;
use crate::maker::{MakerAction, Quote};
use crate::number::later;
use crate::paper;
use crate::random::Random;
use crate::time_queue::TimeQueue;
use crate::trader::Proposal;
use crate::type_volume::TypeVolume;

/// Delay after which a market maker with an empty side quotes again.
const REACTION_SECONDS: f64 = 0.002;
/// Interval between two orders that fill a new book.
const SEED_PAUSE_SECONDS: f64 = 0.000_05;

/// The order flow of all instruments.
#[derive(Debug)]
pub struct Flow {
    house: HouseAccounts,
    flows: Vec<InstrumentFlow>,
    /// Index into `flows` by instrument id. Instrument ids are dense.
    flow_of: Vec<Option<usize>>,
    schedule: TimeQueue<DueAction>,
    /// Further commands of a requote, in order.
    ready: VecDeque<Command>,
    actions: Vec<MakerAction>,
    /// The event whose order [`Flow::next`] returned last, if volumes are measured: index into
    /// `flows`, and type. `observe` takes it.
    event_order: Option<(usize, usize)>,
    started_at: VenueNanos,
    now: VenueNanos,
    /// Draws the accounts of orders, and lifetimes in instruments without a flow.
    random: Random,
    counts: FlowCounts,
    tallies: Vec<TypeTally>,
    rate: f64,
    radius: f64,
}

/// Count of the event types with one name over all instruments.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeTally {
    pub name: Label,
    /// `None` if its events are on both sides.
    pub side: Option<Side>,
    pub events: u64,
    /// `None` if the book suppresses events of the flow, so that its rates have no closed form.
    pub expected: Option<ExpectedRate>,
}

/// Theoretical count of an event type over a time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectedCount {
    pub events: f64,
    pub variance: f64,
}

/// Counters of the flow since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Events of the mutually exciting processes, with or without a command.
    pub events: u64,
    /// Events without a command: the book was too thin or closed.
    pub infeasible: u64,
    /// Candidates of types that need a spread, while the spread was one tick. They do not count as
    /// events.
    pub suppressed: u64,
    /// Orders of the paper flow at the mean, because no draw fitted their type.
    pub substituted: u64,
    /// Commands returned.
    pub commands: u64,
}

/// A scheduled action. `flow` is an index into [`Flow::flows`].
#[derive(Clone, Copy, Debug)]
enum DueAction {
    Event { flow: usize },
    Requote { flow: usize, at: VenueNanos },
    Seed { flow: usize, left: u32 },
    Cancel { account: AccountId, order: OrderId },
}

/// The task of a house account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Maker,
    Trader,
}

/// The accounts of the flow, by role.
#[derive(Debug)]
struct HouseAccounts {
    makers: Vec<AccountId>,
    traders: Vec<AccountId>,
}

impl HouseAccounts {
    fn new(mut accounts: Vec<AccountId>) -> HouseAccounts {
        let traders = accounts.split_off(accounts.len().div_ceil(4));
        HouseAccounts { makers: accounts, traders }
    }

    /// Returns the role of an account. Both lists are short, so a search is faster than hashing.
    fn role(&self, account: AccountId) -> Option<Role> {
        if self.traders.contains(&account) {
            return Some(Role::Trader);
        }
        self.makers.contains(&account).then_some(Role::Maker)
    }
}

impl Flow {
    /// Starts the flow at `start`.
    ///
    /// It adopts the live orders of its accounts: those of market makers become their quotes, and
    /// every other order gets a new lifetime. A new lifetime is correct because an exponential
    /// lifetime has no memory of its age.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration does not fit the engine.
    pub fn new(config: FlowConfig, seed: u64, start: VenueNanos, engine: &Engine) -> Result<Flow, FlowError> {
        config.check(engine)?;
        let house = HouseAccounts::new(config.house);
        let mut flows = match &config.style {
            FlowStyle::Paper { instrument, model } => vec![InstrumentFlow::paper(model, *instrument, seed, start)?],
            FlowStyle::Demo(markets) => {
                let makers = house.makers.iter().cycle();
                let flow =
                    |(market, maker): (_, &AccountId)| InstrumentFlow::demo(market, engine, *maker, (seed, start));
                markets.iter().zip(makers).map(flow).collect::<Result<_, _>>()?
            }
        };
        let mut flow_of = vec![None; engine.markets().len()];
        for (at, flow) in flows.iter().enumerate() {
            flow_of[flow.instrument.0 as usize] = Some(at);
        }
        let rate = match &config.style {
            FlowStyle::Paper { model, .. } => model.kernel.total_rate(),
            FlowStyle::Demo(markets) => {
                markets.iter().filter(|market| market.is_running).map(|market| market.events_per_second).sum()
            }
        };
        let (tallies, radius) = tallies(&mut flows);
        let mut flow = Flow {
            house,
            flows,
            flow_of,
            schedule: TimeQueue::new(),
            ready: VecDeque::new(),
            actions: Vec::new(),
            event_order: None,
            started_at: start,
            now: start,
            random: Random::new(seed, u64::MAX),
            counts: FlowCounts::default(),
            tallies,
            rate,
            radius,
        };
        flow.begin(engine);
        Ok(flow)
    }

    fn begin(&mut self, engine: &Engine) {
        for at in 0..self.flows.len() {
            let flow = &mut self.flows[at];
            if !flow.is_running {
                continue;
            }
            let due = flow.due();
            let empty = engine.market(flow.instrument).is_some_and(|market| market.book().resting_orders() == 0);
            match &flow.style {
                TradingStyle::Demo(_) => self.schedule.push(self.now, DueAction::Requote { flow: at, at: self.now }),
                TradingStyle::Paper if empty => {
                    let left = u32::try_from(paper::SEEDS.len()).unwrap_or(0);
                    self.schedule.push(self.now, DueAction::Seed { flow: at, left });
                }
                TradingStyle::Paper => {}
            }
            self.schedule.push(due, DueAction::Event { flow: at });
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

    /// Returns the time of the next action, but not less than the latest time seen.
    pub fn next_due(&self) -> Option<VenueNanos> {
        if self.ready.is_empty() { self.schedule.next_due().map(|due| due.max(self.now)) } else { Some(self.now) }
    }

    /// Executes the next due action against the current engine and returns its command.
    ///
    /// Returns `None` if the action has no command, for example because the order to cancel has
    /// filled. Call [`Flow::next_due`] again.
    pub fn next(&mut self, engine: &Engine) -> Option<(VenueNanos, Command)> {
        self.event_order = None;
        let command = match self.ready.pop_front() {
            Some(command) => Some(command),
            None => {
                let (at, due) = self.schedule.pop()?;
                self.now = self.now.max(at);
                self.act(due, engine)
            }
        };
        let Some(command) = command.filter(|command| is_executable(command, engine)) else {
            self.event_order = None;
            return None;
        };
        self.counts.commands += 1;
        Some((self.now, command))
    }

    fn act(&mut self, due: DueAction, engine: &Engine) -> Option<Command> {
        match due {
            DueAction::Cancel { account, order } => Some(Command::Cancel { account, order }),
            DueAction::Event { flow } => self.event(flow, engine),
            DueAction::Seed { flow, left } => {
                let market = open_market(engine, self.flows[flow].instrument)?;
                if left > 1 {
                    let at = later(self.now, SEED_PAUSE_SECONDS);
                    self.schedule.push(at, DueAction::Seed { flow, left: left - 1 });
                }
                let proposal = self.flows[flow].seed(left, market)?;
                Some(self.trader_order(flow, proposal, Label::default()))
            }
            DueAction::Requote { flow, at } => {
                self.requote(flow, at, engine);
                self.ready.pop_front()
            }
        }
    }

    fn event(&mut self, at: usize, engine: &Engine) -> Option<Command> {
        let flow = &mut self.flows[at];
        let (due, kind) = flow.process.upcoming();
        let market = engine
            .market(flow.instrument)
            .filter(|market| market.phase().is_call() || market.phase() == Phase::Continuous);
        let outcome = flow.event(self.now, market, engine, &self.house.traders);
        let is_event = !matches!(outcome, EventOutcome::Suppressed);
        if let Some(meter) = &mut flow.meter {
            meter.observe(due, is_event.then_some(kind));
        }
        let next = flow.due();
        self.schedule.push(next, DueAction::Event { flow: at });
        if is_event {
            self.tallies[flow.tally_of[kind]].events += 1;
            self.counts.events += 1;
        }
        let label = if flow.model.has_labels { flow.model.types[kind].name.clone() } else { Label::default() };
        if flow.volumes.is_some() && matches!(outcome, EventOutcome::Order(_) | EventOutcome::Substituted(_)) {
            self.event_order = Some((at, kind));
        }
        match outcome {
            EventOutcome::Order(proposal) => Some(self.trader_order(at, proposal, label)),
            EventOutcome::Substituted(proposal) => {
                self.counts.substituted += 1;
                Some(self.trader_order(at, proposal, label))
            }
            EventOutcome::Cancel { account, order } => Some(Command::Cancel { account, order }),
            EventOutcome::Infeasible => {
                self.counts.infeasible += 1;
                None
            }
            EventOutcome::Suppressed => {
                self.counts.suppressed += 1;
                None
            }
        }
    }

    fn requote(&mut self, index: usize, scheduled: VenueNanos, engine: &Engine) {
        let flow = &mut self.flows[index];
        let TradingStyle::Demo(demo) = &mut flow.style else { return };
        if demo.next_requote != scheduled {
            return; // an earlier requote has replaced this one
        }
        demo.next_requote = later(self.now, flow.random.exponential(demo.pause)).max(VenueNanos(self.now.0 + 1));
        self.schedule.push(demo.next_requote, DueAction::Requote { flow: index, at: demo.next_requote });
        let Some(market) = open_market(engine, flow.instrument) else { return };
        if demo.seeds > 0 {
            let (left, first) = (demo.seeds, later(self.now, SEED_PAUSE_SECONDS));
            demo.seeds = 0;
            if market.book().resting_orders() < left {
                self.schedule.push(first, DueAction::Seed { flow: index, left });
            }
        }
        let (account, instrument) = (demo.maker_account, flow.instrument);
        let mut actions = std::mem::take(&mut self.actions);
        flow.requote(self.now, engine, market, &mut actions);
        self.ready.extend(actions.drain(..).map(|action| match action {
            MakerAction::Cancel(command) => command,
            MakerAction::Enter(proposal) => enter(account, instrument, proposal, Label::default()),
        }));
        self.actions = actions;
    }

    fn trader_order(&mut self, flow: usize, proposal: Proposal, label: Label) -> Command {
        let traders = &self.house.traders;
        let turn = usize::try_from(self.random.below(traders.len() as u64)).unwrap_or(0);
        let account = traders.get(turn).copied().unwrap_or_default();
        enter(account, self.flows[flow].instrument, proposal, label)
    }

    /// Takes a command of any account with its events. Commands come in order.
    pub fn observe(&mut self, stamped: &SequencedCommand, events: &[Event]) {
        self.now = self.now.max(stamped.at);
        let event_order = self.event_order.take();
        if let Command::Enter(order) = &stamped.command {
            let id = OrderId(stamped.seq.0);
            if let Some((at, kind)) = event_order
                && let Some(volumes) = &mut self.flows[at].volumes
            {
                volumes[kind].add(id, events);
            }
            self.entered(id, order, events);
        }
        for event in events {
            match event {
                Event::Trade { instrument, maker, maker_account, maker_open: Lots(0), .. }
                    if self.house.makers.contains(maker_account) =>
                {
                    self.quote_filled(*instrument, *maker);
                }
                Event::PhaseChanged { instrument, phase } => self.session_began(*instrument, *phase, None),
                Event::SessionChanged { instrument, to, ends, .. } => self.session_began(*instrument, *to, *ends),
                _ => {}
            }
        }
        self.members_traded(events);
    }

    fn session_began(&mut self, instrument: InstrumentId, to: Phase, ends: Option<VenueNanos>) {
        let Some(at) = self.flow_index(instrument) else { return };
        if let Some(texture) = self.flows[at].texture_mut() {
            texture.session(to, self.now, ends);
        }
        if to == Phase::Continuous {
            self.hasten_requote(at, self.now);
        }
    }

    /// Shows the lots that an order of a member took to the value of its instrument.
    fn members_traded(&mut self, events: &[Event]) {
        let mut taken: Option<(InstrumentId, Side, Lots)> = None;
        for event in events {
            if let Event::Trade { instrument, taker_side, taker_account, lots, kind: TradeKind::Continuous, .. } = event
                && self.house.role(*taker_account).is_none()
            {
                let before = taken.map_or(0, |(_, _, lots)| lots.0);
                taken = Some((*instrument, *taker_side, Lots(before.saturating_add(lots.0))));
            }
        }
        let Some((instrument, side, lots)) = taken else { return };
        if let Some(texture) = self.flow_index(instrument).and_then(|at| self.flows[at].texture_mut()) {
            texture.member_traded(side, lots);
        }
    }

    fn entered(&mut self, id: OrderId, order: &NewOrder, events: &[Event]) {
        let Some(price) = order.order_type.limit_price() else { return };
        let rests = order.tif != TimeInForce::ImmediateOrCancel && !open_after(id, order.lots, events).is_zero();
        if rests && self.house.role(order.account).is_some() {
            self.adopt(order.instrument, Quote { order: id, account: order.account, side: order.side, price });
        }
    }

    /// Starts to manage a resting order of a house account.
    fn adopt(&mut self, instrument: InstrumentId, quote: Quote) {
        let role = self.house.role(quote.account);
        let lifetime = match self.flow_index(instrument).map(|flow| &mut self.flows[flow]) {
            // Orders of a stopped instrument rest, as they do if the whole flow stops.
            Some(InstrumentFlow { is_running: false, .. } | InstrumentFlow { style: TradingStyle::Paper, .. }) => {
                return;
            }
            Some(InstrumentFlow { style: TradingStyle::Demo(demo), .. }) if role == Some(Role::Maker) => {
                demo.maker.rested(quote);
                return;
            }
            Some(flow) => {
                flow.rested(quote);
                let TradingStyle::Demo(demo) = &flow.style else { return };
                flow.random.exponential(demo.lifetime)
            }
            None => {
                const MEAN_SECONDS: f64 = 60.0;
                self.random.exponential(MEAN_SECONDS)
            }
        };
        let due = DueAction::Cancel { account: quote.account, order: quote.order };
        self.schedule.push(later(self.now, lifetime), due);
    }

    fn quote_filled(&mut self, instrument: InstrumentId, order: OrderId) {
        let Some(at) = self.flow_index(instrument) else { return };
        let TradingStyle::Demo(demo) = &mut self.flows[at].style else { return };
        if demo.maker.filled(order) {
            self.hasten_requote(at, later(self.now, REACTION_SECONDS));
        }
    }

    fn hasten_requote(&mut self, at: usize, when: VenueNanos) {
        if !self.flows[at].is_running {
            return;
        }
        let TradingStyle::Demo(demo) = &mut self.flows[at].style else { return };
        if when < demo.next_requote {
            demo.next_requote = when;
            self.schedule.push(when, DueAction::Requote { flow: at, at: when });
        }
    }

    fn flow_index(&self, instrument: InstrumentId) -> Option<usize> {
        self.flow_of.get(instrument.0 as usize).copied().flatten()
    }

    /// Returns the counters.
    pub fn counts(&self) -> FlowCounts {
        self.counts
    }

    /// Returns the counts by event type, in the order of the first instrument with the type.
    pub fn tallies(&self) -> &[TypeTally] {
        &self.tallies
    }

    /// Returns the measured volumes of the event types in one instrument, in the order of the
    /// kernel's rows.
    pub fn type_volumes(&self, instrument: InstrumentId) -> &[TypeVolume] {
        self.flow_index(instrument).and_then(|at| self.flows[at].volumes.as_deref()).unwrap_or_default()
    }

    /// Returns the theoretical counts of the tallies from the start of the flow to `end`. Busy time
    /// has more events than a quiet one, as the pace of each instrument says. `None` as in
    /// [`TypeTally::expected`].
    pub fn expected_counts(&self, end: VenueNanos) -> Vec<Option<ExpectedCount>> {
        let mut counts = vec![Some(ExpectedCount::default()); self.tallies.len()];
        for flow in &self.flows {
            let seconds = flow.business_seconds(self.started_at, end);
            for (kind, at) in flow.tally_of.iter().enumerate() {
                let rate = flow.expected.as_ref().map(|expected| expected[kind]);
                counts[*at] = counts[*at].zip(rate).map(|(sum, rate)| ExpectedCount {
                    events: sum.events + rate.per_s * seconds,
                    variance: sum.variance + rate.variance_per_s * seconds,
                });
            }
        }
        counts
    }

    /// Measures the times between events and the volumes of the event types from now on. Call this
    /// before the first event, at the time `start` at which the flow was started. Each command of
    /// [`Flow::next`] must be executed before any other command.
    pub fn measure(&mut self, start: VenueNanos) {
        for flow in &mut self.flows {
            let volumes = flow.model.types.iter().map(|kind| TypeVolume::new(kind.name.clone(), kind.side));
            flow.volumes = Some(volumes.collect());
            flow.meter = Some(IntereventMeter::new(&flow.process.kernel(), start));
        }
    }

    /// Returns the times between the events of the same instrument, over all instruments.
    pub fn interevent_times(&self) -> IntereventTimes {
        let mut times = IntereventTimes::default();
        self.flows.iter().filter_map(|flow| flow.meter.as_ref()).for_each(|meter| times.add(&meter.times));
        times
    }

    /// Returns the theoretical long-run rate over all instruments, in events per second.
    pub fn expected_events_per_second(&self) -> f64 {
        self.rate
    }

    /// Returns the largest spectral radius of a branching matrix: the share of events that other
    /// events cause.
    pub fn radius(&self) -> f64 {
        self.radius
    }

    /// Returns the number of scheduled actions. It is bounded by the orders of a few lifetimes.
    pub fn scheduled(&self) -> usize {
        self.schedule.len() + self.ready.len()
    }
}

/// Returns the tallies of all instruments, whose types with equal names are counted together, and
/// the largest spectral radius. Sets [`InstrumentFlow::tally_of`].
fn tallies(flows: &mut [InstrumentFlow]) -> (Vec<TypeTally>, f64) {
    let (mut tallies, mut radius): (Vec<TypeTally>, f64) = (Vec::new(), 0.0);
    for flow in flows {
        let kernel = flow.process.kernel();
        radius = radius.max(kernel.radius());
        let expected = expected_rates(&kernel, flow);
        let place = |kind: &EventType| {
            tallies.iter().position(|tally| tally.name == kind.name).unwrap_or_else(|| {
                let (name, expected) = (kind.name.clone(), Some(ExpectedRate::default()));
                tallies.push(TypeTally { name, side: kind.side, events: 0, expected });
                tallies.len() - 1
            })
        };
        flow.tally_of = flow.model.types.iter().map(place).collect();
        for (kind, at) in flow.tally_of.iter().enumerate() {
            let rates = tallies[*at].expected.zip(expected.as_ref().map(|expected| expected[kind]));
            tallies[*at].expected = rates.map(|(sum, more)| ExpectedRate {
                per_s: sum.per_s + more.per_s,
                variance_per_s: sum.variance_per_s + more.variance_per_s,
            });
        }
        flow.expected = expected;
    }
    (tallies, radius)
}

/// Returns the theoretical rates of a flow; zero if it does not run.
fn expected_rates(kernel: &Kernel, flow: &InstrumentFlow) -> Option<Vec<ExpectedRate>> {
    if !flow.is_running {
        return Some(vec![ExpectedRate::default(); kernel.types()]);
    }
    if flow.model.is_constrained() {
        return None;
    }
    let pairs = kernel.stationary_rates().into_iter().zip(kernel.count_variances());
    Some(pairs.map(|(per_s, variance_per_s)| ExpectedRate { per_s, variance_per_s }).collect())
}

fn enter(account: AccountId, instrument: InstrumentId, proposal: Proposal, label: Label) -> Command {
    Command::Enter(NewOrder {
        id: OrderId::ZERO,
        account,
        instrument,
        side: proposal.side,
        order_type: proposal.order_type,
        lots: proposal.lots,
        tif: proposal.tif,
        label,
        ..NewOrder::PLAIN
    })
}

fn open_market(engine: &Engine, instrument: InstrumentId) -> Option<&Market> {
    engine.market(instrument).filter(|market| market.phase() == Phase::Continuous)
}

/// Returns the market of an order if it accepts the order now: any order in continuous trading,
/// resting orders in a call.
fn market_for<'e>(order: &NewOrder, engine: &'e Engine) -> Option<&'e Market> {
    let rests = order.order_type.limit_price().is_some() && order.tif.rests();
    let market = engine.market(order.instrument)?;
    let takes = market.phase() == Phase::Continuous || rests && market.phase().is_call();
    takes.then_some(market)
}

/// Returns whether a command still makes sense. It may have waited, and its order or its market may
/// be gone.
fn is_executable(command: &Command, engine: &Engine) -> bool {
    match command {
        Command::Cancel { account, order } => engine.order(*order).is_some_and(|live| live.account == *account),
        Command::Enter(order) => market_for(order, engine)
            .is_some_and(|market| market.book().resting_orders() < market.spec.max_resting_orders),
        _ => true,
    }
}

/// Returns the open quantity of a new order after its events.
fn open_after(id: OrderId, lots: Lots, events: &[Event]) -> Lots {
    events.iter().fold(lots, |open, event| match event {
        Event::Trade { taker, taker_open, .. } if *taker == id => *taker_open,
        Event::Rejected { order, .. } | Event::Cancelled { order, .. } if *order == id => Lots::ZERO,
        _ => open,
    })
}
