//! Plays a scenario on an engine: sets up the market, turns steps into commands and turns events
//! into happenings.
//!
//! Start at    [`play`], then `Stage::step`.

use std::collections::BTreeMap;

use pitwire_engine::{Engine, EngineImage, OrderImage, UndisplayedState};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, CancelReason, Command, Credit, Currency, CurrencyId, Decimal,
    Event, Expiry, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, MatchGroup, NewOrder, OrderId,
    OrderType, Phase, Priority, Reject, RemainingSessions, Seq, SequencedCommand, SessionReason, Side, Ticks,
    TimeInForce, Tolerance, TradingRules, VenueDay, VenueNanos,
};

use crate::calendar::SECONDS_A_DAY;
use crate::off_book_state::{OffBookState, named};
use crate::outcome::{Book, ClosingPrice, Outcome, Row, StepEvent, StepOutcome, TradeRow};
use crate::rules::Contracts;
use crate::script::{Amendment, Entry, Expires, Scenario, Setup, Step};
use crate::words::{reason_of_leaving, sessions};

/// The instrument of a scenario; in a perpetual scenario its index.
const SPOT: InstrumentId = InstrumentId(0);
/// The instrument of a perpetual scenario.
const PERPETUAL: InstrumentId = InstrumentId(1);
const NANOS: u64 = 1_000_000_000;
const NINE: u64 = 9 * 3600;
const SEVEN: u64 = 7 * 3600;

/// An engine that can play scenarios.
pub trait Machine {
    fn apply(&mut self, stamped: &SequencedCommand, out: &mut Vec<Event>);

    fn image(&self) -> EngineImage;

    /// Sets the reference prices of an instrument, as if it had traded before. A `None` clears that
    /// price.
    ///
    /// # Errors
    /// If the engine under test cannot set reference prices, or does not know the instrument.
    fn prime(&mut self, references: References) -> Result<(), String>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct References {
    pub instrument: InstrumentId,
    pub last: Option<Ticks>,
    pub static_reference: Option<Ticks>,
    pub dynamic_reference: Option<Ticks>,
    pub previous_close: Option<Ticks>,
}

/// Observer of a played scenario, for example an auditor or a counter.
pub trait Witness {
    /// Called once after the setup, with the state, the last sequence number and the venue time.
    fn begins(&mut self, image: &EngineImage, seq: Seq, at: VenueNanos);

    fn saw(&mut self, stamped: &SequencedCommand, events: &[Event]);
}

struct NoWitness;

impl Witness for NoWitness {
    fn begins(&mut self, _: &EngineImage, _: Seq, _: VenueNanos) {}

    fn saw(&mut self, _: &SequencedCommand, _: &[Event]) {}
}

/// Plays a scenario on a fresh engine.
///
/// # Errors
///
/// Fails if the engine refuses the setup or a step is impossible, for example a clock that goes
/// back.
pub fn play(machine: &mut impl Machine, scenario: &Scenario) -> Result<Outcome, String> {
    play_watched(machine, scenario, &mut NoWitness)
}

/// Plays a scenario and shows each command with its events to `witness`.
///
/// # Errors
///
/// Fails like [`play`].
pub fn play_watched(
    machine: &mut impl Machine,
    scenario: &Scenario,
    witness: &mut impl Witness,
) -> Result<Outcome, String> {
    let mut stage = Stage::new(machine, witness, &scenario.setup);
    stage.set_up(scenario)?;
    let mut steps = Vec::with_capacity(scenario.steps.len());
    for (at, step) in scenario.steps.iter().enumerate() {
        let events = stage.step(step).map_err(|what| format!("step {}: {what}", at + 1))?;
        steps.push(StepOutcome { events });
    }
    let mut outcome = stage.outcome(scenario, steps);
    outcome.pass = scenario.differences(&outcome).is_empty();
    Ok(outcome)
}

pub(crate) struct Stage<'a, M, W> {
    machine: &'a mut M,
    witness: &'a mut W,
    setup: &'a Setup,
    pub(crate) seq: Seq,
    day: u32,
    /// Seconds since midnight.
    clock: u64,
    phase: Phase,
    /// Maps a name in the scenario to the latest order with that name.
    orders: BTreeMap<String, OrderFacts>,
    names: BTreeMap<OrderId, String>,
    pub(crate) accounts: BTreeMap<String, AccountId>,
    pub(crate) reports: OffBookState,
    keys: BTreeMap<String, u32>,
    trades: Vec<TradeRow>,
    rejected: Vec<String>,
    price: Option<i64>,
    closing: Option<ClosingPrice>,
}

/// Order fields that an amend must repeat.
#[derive(Clone, Copy, Debug)]
struct OrderFacts {
    id: OrderId,
    account: AccountId,
    /// Limit price; zero for an order without one.
    price: Ticks,
    /// Total quantity, including the executed part.
    lots: Lots,
    is_gone: bool,
}

/// Subject of a command. It names the order and the rule if the engine refuses the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandSubject<'a> {
    pub id: &'a str,
    /// Time in force and order type of an entry; `None` for other commands.
    pub cell: Option<(&'static str, &'static str)>,
}

impl CommandSubject<'static> {
    pub const WITHOUT_ORDER: CommandSubject<'static> = CommandSubject { id: "", cell: None };
}

impl<'a, M: Machine, W: Witness> Stage<'a, M, W> {
    fn new(machine: &'a mut M, witness: &'a mut W, setup: &'a Setup) -> Self {
        Stage {
            machine,
            witness,
            setup,
            seq: Seq(0),
            day: setup.date,
            clock: NINE,
            phase: Phase::Closed,
            orders: BTreeMap::new(),
            names: BTreeMap::new(),
            accounts: BTreeMap::new(),
            reports: OffBookState::default(),
            keys: BTreeMap::new(),
            trades: Vec::new(),
            rejected: Vec::new(),
            price: None,
            closing: None,
        }
    }

    fn at(&self, day: u32, seconds: u64) -> VenueNanos {
        VenueNanos((u64::from(day) * SECONDS_A_DAY + seconds) * NANOS)
    }

    pub(crate) fn now(&self) -> VenueNanos {
        self.at(self.day, self.clock)
    }

    fn apply(&mut self, command: Command) -> Vec<Event> {
        self.seq = self.seq.next();
        let stamped = SequencedCommand { seq: self.seq, at: self.now(), command };
        let mut events = Vec::new();
        self.machine.apply(&stamped, &mut events);
        self.witness.saw(&stamped, &events);
        events
    }

    // --- setup

    fn set_up(&mut self, scenario: &Scenario) -> Result<(), String> {
        for command in self.opening(scenario) {
            let events = self.apply_quietly(command.clone());
            if let Some(Event::CommandRefused { reason }) = events.last() {
                return Err(format!("the setup is refused ({}): {command:?}", reason.name()));
            }
        }
        let ticks = |price: Option<i64>| price.map(Ticks);
        let setup = self.setup;
        self.machine.prime(References {
            instrument: self.market(),
            last: ticks(setup.last_price),
            static_reference: ticks(setup.static_reference),
            dynamic_reference: ticks(setup.dynamic_reference.or(setup.last_price)),
            previous_close: ticks(setup.closing_price),
        })?;
        self.phase = Phase::Continuous;
        self.witness.begins(&self.machine.image(), self.seq, self.now());
        Ok(())
    }

    /// Applies a command without calling the witness, which observes the market only after the
    /// setup.
    fn apply_quietly(&mut self, command: Command) -> Vec<Event> {
        self.seq = self.seq.next();
        let mut events = Vec::new();
        self.machine.apply(&SequencedCommand { seq: self.seq, at: self.now(), command }, &mut events);
        events
    }

    fn opening(&mut self, scenario: &Scenario) -> Vec<Command> {
        let currency = |id, name: &str| Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 0 };
        let mut commands = vec![
            self.begin_day(),
            Command::AddCurrency(currency(0, "GOODS")),
            Command::AddCurrency(currency(1, "MONEY")),
        ];
        for funds in &self.setup.funds {
            let limited = Credit::Limited;
            let account = self.add_account(&mut commands, named(&funds.account), limited);
            for (currency, units) in [(CurrencyId(0), funds.goods), (CurrencyId(1), funds.money)] {
                if units > 0 {
                    commands.push(Command::Deposit { account, currency, units: units.into() });
                }
            }
        }
        for step in &scenario.steps {
            for party in step.parties() {
                self.add_account(&mut commands, party, Credit::Unlimited);
            }
            let Step::Enter(entry) = step else { continue };
            self.add_account(&mut commands, account_of(entry), Credit::Unlimited);
            if let Some(key) = &entry.smp_key {
                let next = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
                self.keys.entry(key.clone()).or_insert(next);
            }
        }
        if self.setup.perpetual {
            let kind = InstrumentKind::Spot { base: CurrencyId(0), quote: CurrencyId(1) };
            let index = InstrumentSpec { id: SPOT, name: "INDEX".to_owned(), kind, rules: None, ..self.instrument() };
            commands.push(Command::AddInstrument(Box::new(index)));
        }
        commands.push(Command::AddInstrument(Box::new(self.instrument())));
        commands.push(self.change_session(Phase::Continuous));
        commands.push(self.set_remaining());
        commands
    }

    /// Adds a command that creates the account, unless the account exists already. Returns its id.
    fn add_account(&mut self, commands: &mut Vec<Command>, called: String, credit: Credit) -> AccountId {
        let own = self.setup.accounts.iter().find(|setup| named(&setup.account) == called);
        let self_match = own.map_or(self.setup.self_match, |setup| setup.self_match);
        let settings = AccountSettings { self_match, ..AccountSettings::default() };
        let next = u32::try_from(self.accounts.len()).unwrap_or(u32::MAX);
        let id = *self.accounts.entry(called).or_insert(AccountId(next));
        if id.0 == next {
            commands.push(Command::AddAccount(AccountSpec { id, name: format!("account {next}"), credit, settings }));
        }
        id
    }

    /// Returns the instrument that the scenario trades.
    pub(crate) fn market(&self) -> InstrumentId {
        if self.setup.perpetual { PERPETUAL } else { SPOT }
    }

    fn instrument(&self) -> InstrumentSpec {
        let setup = self.setup;
        let (base, quote) = (CurrencyId(0), CurrencyId(1));
        let kind = match setup.perpetual {
            true => InstrumentKind::InversePerpetual { base, quote, index: SPOT, max_leverage: 50 },
            false => InstrumentKind::Spot { base, quote },
        };
        let start = setup.static_reference.or(setup.last_price).or(setup.closing_price).unwrap_or(100);
        InstrumentSpec {
            id: self.market(),
            name: "SCENARIO".to_owned(),
            kind,
            tick: Decimal::new(i128::from(setup.tick), 0),
            lot: Decimal::new(i128::from(setup.lot), 0),
            start_price: Ticks(start),
            max_resting_orders: 1_000_000,
            limits: InstrumentLimits {
                collar_bps: setup.collar_pct.map(|percent| percent * 100),
                ..InstrumentLimits::default()
            },
            rules: Some(Box::new(self.trading_rules())),
        }
    }

    fn trading_rules(&self) -> TradingRules {
        let setup = self.setup;
        let tolerance = Tolerance {
            static_bps: setup.static_tolerance_pct.map(|percent| percent * 100),
            dynamic_bps: setup.dynamic_tolerance_pct.map(|percent| percent * 100),
        };
        TradingRules {
            minimum_reserve: setup.mrs.filter(|mrs| *mrs > 0).map(Lots),
            improvement: Ticks(setup.improvement),
            band_pct: setup.price_band_pct,
            min_display_pct: setup.min_display_pct,
            tolerances: [tolerance; 7],
            allocation: setup.allocation,
            ..TradingRules::default()
        }
    }

    fn begin_day(&self) -> Command {
        Command::BeginDay { day: VenueDay(self.day), closes: self.at(self.day + 1, 0) }
    }

    fn change_session(&self, to: Phase) -> Command {
        let (reason, due) = (SessionReason::Scheduled, self.now());
        Command::ChangeSession { instrument: self.market(), to, reason, due, ends: None }
    }

    fn set_remaining(&self) -> Command {
        let mut counts = [0_u8; 16];
        let mut count = |phase: Phase| {
            if let Some(count) = counts.get_mut(phase as usize) {
                *count = count.saturating_add(1);
            }
        };
        match &self.setup.remaining_sessions {
            Some(sessions) => sessions.iter().for_each(|phase| count(*phase)),
            None => sessions().for_each(count),
        }
        Command::SetRemaining { instrument: self.market(), remaining: RemainingSessions { counts } }
    }

    // --- steps

    fn step(&mut self, step: &Step) -> Result<Vec<StepEvent>, String> {
        let without_order = CommandSubject::WITHOUT_ORDER;
        match step {
            Step::Session { to } => Ok(self.run(self.change_session(*to), without_order)),
            Step::Enter(entry) => Ok(self.enter(entry)),
            Step::Amend(amendment) => Ok(self.amend(amendment)),
            Step::Cancel { id } => {
                let known = self.known(id);
                Ok(self.run(
                    Command::Cancel { account: known.account, order: known.id },
                    CommandSubject { id, cell: None },
                ))
            }
            Step::Reporting { open } => Ok(self.turn_reporting(*open)),
            Step::Report(report) => Ok(self.report(report)),
            Step::Answer(answer) => Ok(self.answer(answer)),
            Step::Timer => {
                let batches = self.setup.allocation == pitwire_model::Allocation::FrequentBatch;
                Ok(self.run(
                    match batches && self.phase == Phase::Continuous {
                        true => Command::RunBatch { instrument: self.market() },
                        false => Command::FilterHidden { instrument: self.market() },
                    },
                    without_order,
                ))
            }
            Step::Clock { to } => {
                if u64::from(*to) < self.clock {
                    return Err("the clock goes back; venue time never does".to_owned());
                }
                Ok(self.pass_time(u64::from(*to)))
            }
            Step::EndOfDay => {
                let mut happenings = self.run(Command::EndDay, without_order);
                self.day += 1;
                self.clock = SEVEN;
                self.closing = None;
                let starts = (self.phase != Phase::StartOfTrading).then(|| self.change_session(Phase::StartOfTrading));
                for command in [self.begin_day(), self.set_remaining()].into_iter().chain(starts) {
                    happenings.extend(self.run(command, without_order));
                }
                Ok(happenings)
            }
        }
    }

    /// Advances the clock. Time passes at each expiry on the way, as in the venue (rulebook 6).
    fn pass_time(&mut self, to: u64) -> Vec<StepEvent> {
        let mut happenings = Vec::new();
        while let Some(expiry) = self.next_expiry().filter(|expiry| *expiry < to) {
            self.clock = expiry;
            happenings.extend(self.run(Command::PassTime, CommandSubject::WITHOUT_ORDER));
        }
        self.clock = to;
        happenings.extend(self.run(Command::PassTime, CommandSubject::WITHOUT_ORDER));
        happenings
    }

    /// Returns the earliest time later than the clock at which a live order expires, in seconds
    /// since midnight.
    fn next_expiry(&self) -> Option<u64> {
        let image = self.machine.image();
        let orders = image.markets.iter().flat_map(|market| &market.orders);
        let times = orders.filter_map(|order| match order.tif {
            TimeInForce::GoodTillTime { at } if at > self.now() => Some(at.0 / NANOS % SECONDS_A_DAY),
            _ => None,
        });
        times.min()
    }

    fn enter(&mut self, entry: &Entry) -> Vec<StepEvent> {
        let account = self.accounts.get(&account_of(entry)).copied().unwrap_or_default();
        // Reuses the order id if the name belongs to a live order, so that the engine refuses the
        // duplicate.
        let live = self.orders.get(&entry.id).filter(|known| !known.is_gone).map(|known| known.id);
        let id = live.unwrap_or(OrderId(self.seq.0 + 1));
        let order_type = order_type(entry);
        let order = NewOrder {
            id,
            account,
            instrument: self.market(),
            side: entry.side,
            order_type,
            lots: Lots(entry.qty),
            tif: self.time_in_force(entry),
            display: entry.display.map(Lots),
            post_only: entry.post_only,
            reduce_only: entry.reduce_only,
            match_group: match &entry.smp_key {
                Some(key) => MatchGroup::Key(self.keys.get(key).copied().unwrap_or_default()),
                None => MatchGroup::Account,
            },
            ..NewOrder::PLAIN
        };
        if live.is_none() {
            let price = order_type.limit_price().unwrap_or(Ticks::ZERO);
            self.names.insert(id, entry.id.clone());
            let known = OrderFacts { id, account, price, lots: Lots(entry.qty), is_gone: false };
            self.orders.insert(entry.id.clone(), known);
        }
        let happenings =
            self.run(Command::Enter(order), CommandSubject { id: &entry.id, cell: Some((entry.tif, entry.kind)) });
        if live.is_none()
            && matches!(happenings.first(), Some(StepEvent::Rejected { .. }))
            && let Some(known) = self.orders.get_mut(&entry.id)
        {
            known.is_gone = true;
        }
        happenings
    }

    fn time_in_force(&self, entry: &Entry) -> TimeInForce {
        match (entry.tif, entry.expires) {
            ("gtt", Some(Expires::Time(seconds))) => {
                TimeInForce::GoodTillTime { at: self.at(self.day, u64::from(seconds)) }
            }
            ("gtd", Some(Expires::Day(day))) => TimeInForce::GoodTillDate { day: VenueDay(day) },
            ("gtc", _) => TimeInForce::GoodTillCancel,
            ("ioc", _) => TimeInForce::ImmediateOrCancel,
            ("fok", _) => TimeInForce::FillOrKill,
            ("opg", _) => TimeInForce::OpeningCall,
            ("gfa", _) => TimeInForce::AnyCall,
            ("gfx", _) => TimeInForce::IntradayCall,
            ("atc", _) => TimeInForce::ClosingCall,
            ("cpx", _) => TimeInForce::ClosingCross,
            _ => TimeInForce::Day,
        }
    }

    /// Looks up an order by name. An unknown name gets an order id that does not exist.
    fn known(&self, id: &str) -> OrderFacts {
        let unknown =
            OrderFacts { id: OrderId(u64::MAX), account: AccountId(0), price: Ticks(1), lots: Lots(1), is_gone: true };
        self.orders.get(id).copied().unwrap_or(unknown)
    }

    fn amend(&mut self, amendment: &Amendment) -> Vec<StepEvent> {
        let known = self.known(&amendment.id);
        let expiry = amendment.expires.map(|expires| match expires {
            Expires::Time(seconds) => Expiry::Time(self.at(self.day, u64::from(seconds))),
            Expires::Day(day) => Expiry::Day(VenueDay(day)),
        });
        let amend = Amend {
            account: known.account,
            order: known.id,
            price: amendment.price.map_or(known.price, Ticks),
            lots: amendment.qty.map_or(known.lots, Lots),
            priority: Priority::KeepWhenReduced,
            display: amendment.display.map(Lots),
            stop: amendment.stop.map(Ticks),
            minimum_execution: amendment.mes.map(Lots),
            expiry,
            post_only: amendment.post_only,
        };
        let asked = CommandSubject { id: &amendment.id, cell: None };
        if !amendment.asks_the_fixed {
            return self.run(Command::Amend(amend), asked);
        }
        // A command cannot change these fields. A quantity of zero makes the engine refuse the
        // amend after its
        // earlier checks; the code below then replaces the reason.
        let mut happenings = self.run(Command::Amend(Amend { lots: Lots::ZERO, ..amend }), asked);
        if let Some(StepEvent::Rejected { reason, rule, .. }) = happenings.first_mut()
            && ![Reject::UnknownOrder, Reject::NotOwner, Reject::NotOpen]
                .iter()
                .any(|earlier| earlier.name() == *reason)
        {
            *reason = Reject::NotAmendable.name();
            *rule = Contracts::get().rule_of(reason).to_owned();
        }
        happenings
    }

    // --- results

    pub(crate) fn run(&mut self, command: Command, asked: CommandSubject<'_>) -> Vec<StepEvent> {
        // A refusal cites the session at the time of the order. The command may change
        // `self.phase`.
        let session = self.phase;
        let events = self.apply(command);
        events.iter().filter_map(|event| self.translate(event, asked, session)).collect()
    }

    fn name(&self, order: OrderId) -> String {
        self.names.get(&order).cloned().unwrap_or_else(|| format!("order {order}"))
    }

    fn refused(&mut self, reason: Reject, asked: CommandSubject<'_>, session: Phase) -> StepEvent {
        let contracts = Contracts::get();
        let rule = match asked.cell {
            Some((tif, kind)) => contracts.cited(reason.name(), session.name(), tif, kind),
            None => contracts.rule_of(reason.name()),
        };
        let id = (!asked.id.is_empty()).then(|| asked.id.to_owned());
        self.rejected.extend(id.clone());
        StepEvent::Rejected { id, reason: reason.name(), rule: rule.to_owned() }
    }

    fn left(&mut self, order: OrderId) -> String {
        let name = self.name(order);
        if let Some(known) = self.orders.get_mut(&name) {
            known.is_gone = true;
        }
        name
    }

    fn translate(&mut self, event: &Event, asked: CommandSubject<'_>, session: Phase) -> Option<StepEvent> {
        Some(match *event {
            Event::Accepted { order, order_type, lots, .. } => {
                let id = self.name(order);
                if let Some(known) = self.orders.get_mut(&id) {
                    // Post-only may have moved the price, and reduce-only may have cut the
                    // quantity.
                    known.price = order_type.limit_price().unwrap_or(known.price);
                    known.lots = lots;
                }
                StepEvent::Accepted { id }
            }
            Event::Rejected { reason, .. }
            | Event::AmendRefused { reason, .. }
            | Event::CancelRefused { reason, .. }
            | Event::CommandRefused { reason } => self.refused(reason, asked, session),
            Event::Parked { order, open, .. } => StepEvent::Parked { id: self.name(order), qty: open.0 },
            Event::Injected { order, .. } => StepEvent::Injected { id: self.name(order) },
            Event::Triggered { order, .. } => StepEvent::Triggered { id: self.name(order) },
            Event::Trade { price, lots, taker_side, maker, maker_open, taker, taker_open, .. } => {
                let [buyer, seller] = match taker_side {
                    Side::Buy => [(taker, taker_open), (maker, maker_open)],
                    Side::Sell => [(maker, maker_open), (taker, taker_open)],
                };
                let mut name = |(order, open): (OrderId, Lots)| match open.is_zero() {
                    true => self.left(order),
                    false => self.name(order),
                };
                let (buy, sell) = (name(buyer), name(seller));
                let row = TradeRow { buy, sell, qty: lots.0, price: price.0 };
                self.trades.push(row.clone());
                StepEvent::Trade(row)
            }
            Event::Cancelled { order, open, reason, .. } => self.ended(order, open, reason),
            Event::Amended { order, price, lots, kept_priority, .. } => {
                let id = self.name(order);
                if let Some(known) = self.orders.get_mut(&id) {
                    (known.price, known.lots) = (price, lots);
                }
                StepEvent::Amended { id, price: (price.0 > 0).then_some(price.0), qty: lots.0, kept_priority }
            }
            Event::Indicative { price, volume, imbalance, .. } => {
                StepEvent::Indicative { price: price.map(Ticks::get), volume: volume.0, imbalance }
            }
            Event::SessionChanged { to, .. } => {
                self.phase = to;
                StepEvent::Session { to: to.name() }
            }
            Event::Breached { price, .. } => StepEvent::Breaker { price: price.0 },
            Event::Uncrossed { price, .. } => {
                self.price = Some(price.0);
                return None;
            }
            Event::ClosingPriceSet { price, derivation, .. } => {
                self.closing = Some(ClosingPrice { price: price.0, derivation: derivation.name().to_owned() });
                return None;
            }
            _ => return self.translate_off_book(event),
        })
    }

    fn ended(&mut self, order: OrderId, open: Lots, reason: CancelReason) -> StepEvent {
        let (id, qty) = (self.left(order), open.0);
        match reason_of_leaving(reason) {
            Some(reason) => StepEvent::Expired { id, qty, reason },
            None => StepEvent::Cancelled { id, qty },
        }
    }

    fn outcome(self, scenario: &Scenario, steps: Vec<StepOutcome>) -> Outcome {
        let image = self.machine.image();
        let names = |ids: Vec<OrderId>| ids.into_iter().map(|id| self.name(id)).collect();
        let (book, parked, unelected) = self.standing(&image);
        let off_book = scenario.reports_trades().then(|| self.off_book_outcome(&image));
        Outcome {
            name: scenario.name.clone(),
            pass: false,
            steps,
            book,
            parked: names(parked),
            unelected: names(unelected),
            trades: self.trades,
            rejected: self.rejected,
            price: self.price,
            closing: self.closing,
            off_book,
        }
    }
}

impl<M: Machine, W: Witness> Stage<'_, M, W> {
    /// Returns the book in priority order, then the ids of the parked and of the unelected orders
    /// in ascending order.
    fn standing(&self, image: &EngineImage) -> (Book, Vec<OrderId>, Vec<OrderId>) {
        let orders: Vec<&OrderImage> = image.markets.iter().flat_map(|market| &market.orders).collect();
        let numbers = |place: UndisplayedState| {
            let there = orders.iter().filter(|order| order.place == Some(place));
            let mut numbers: Vec<OrderId> = there.map(|order| order.id).collect();
            numbers.sort_unstable();
            numbers
        };
        let queue = |side: Side| {
            let stands = |order: &&OrderImage| {
                order.side == side
                    && matches!(
                        order.place,
                        None | Some(UndisplayedState::Hidden | UndisplayedState::Unpriced | UndisplayedState::Elected)
                    )
            };
            let mut queue: Vec<&OrderImage> = orders.iter().copied().filter(stands).collect();
            queue.sort_by_key(|order| priority(order));
            queue.into_iter().map(|order| self.row(order)).collect()
        };
        let book = Book { bids: queue(Side::Buy), offers: queue(Side::Sell) };
        (book, numbers(UndisplayedState::Parked), numbers(UndisplayedState::Unelected))
    }

    fn row(&self, order: &OrderImage) -> Row {
        Row {
            id: self.name(order.id),
            qty: order.open.into(),
            price: order.order_type.limit_price().map(Ticks::get),
            hidden: order.place == Some(UndisplayedState::Hidden),
        }
    }
}

/// Sort key of an order; a smaller key has priority. Market orders come first, then price, visible
/// before hidden, time.
fn priority(order: &OrderImage) -> (bool, i64, bool, u32) {
    let price = order.order_type.limit_price();
    let distance = price.map_or(0, |price| match order.side {
        Side::Buy => -price.0,
        Side::Sell => price.0,
    });
    (price.is_some(), distance, order.place == Some(UndisplayedState::Hidden), order.rank)
}

fn account_of(entry: &Entry) -> String {
    // An order without an account gets an account that no other order uses. The prefix prevents a
    // collision with a named account.
    entry.account.clone().map_or_else(|| format!("of order {}", entry.id), |name| named(&name))
}

fn order_type(entry: &Entry) -> OrderType {
    let (price, stop) = (Ticks(entry.price), Ticks(entry.stop));
    match entry.kind {
        "market" => OrderType::Market,
        "hidden" => OrderType::Hidden { price, minimum_execution: Lots(entry.mes) },
        "stop" => OrderType::Stop { stop },
        "stop_limit" => OrderType::StopLimit { stop, price },
        _ => OrderType::Limit { price },
    }
}

impl Machine for Engine {
    fn apply(&mut self, stamped: &SequencedCommand, out: &mut Vec<Event>) {
        Engine::apply(self, stamped, out);
    }

    fn image(&self) -> EngineImage {
        Engine::image(self)
    }

    fn prime(&mut self, references: References) -> Result<(), String> {
        let mut image = Engine::image(self);
        let at = references.instrument.0 as usize;
        let market = image.markets.get_mut(at).ok_or("there is no such instrument")?;
        let References { last, static_reference, dynamic_reference, previous_close, .. } = references;
        market.last = last;
        market.session.static_reference = static_reference;
        market.session.dynamic_reference = dynamic_reference.filter(|dynamic| Some(*dynamic) != last);
        market.session.previous_close = previous_close;
        *self = Engine::from_image(image).map_err(|error| error.0.to_owned())?;
        Ok(())
    }
}
