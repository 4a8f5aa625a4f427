//! Replays a tape through the engine.
//!
//! Rules, in this order:
//! 1. Recorded events happen at their recorded times, orders of the user at theirs. At one time,
//!    recorded events come first.
//! 2. An order of the user joins the end of the queue at its price, and trades at once with
//!    recorded orders that it crosses.
//! 3. A recorded order that trades keeps its side, its limit and its quantity. It takes the first
//!    orders of the queue, those of the user included, so later recorded orders wait longer.
//! 4. A recorded order that rested may trade on arrival, if an order of the user or a recorded
//!    order that rests longer than on the tape is there to trade with.
//! 5. A recorded cancel of more than the open quantity of an order cancels the open quantity.
//!
//! Start at    [`Replay::run`].

use std::collections::HashMap;

use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, Command, Credit, Currency, CurrencyId, Decimal, Event,
    InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase,
    SelfMatch, Seq, SequencedCommand, Side, Ticks, TimeInForce, VenueNanos,
};
use serde::Serialize;

use crate::own_orders::OwnOrder;
use crate::tape::{RecordedTape, RecordedTrade, TapeAction, TapeStep};

const RECORDED: AccountId = AccountId(0);
const OWN: AccountId = AccountId(1);
const INSTRUMENT: InstrumentId = InstrumentId(0);
/// Resting orders that the book accepts.
const MOST_ORDERS: u32 = 4_000_000;

/// What became of the recorded trades, and of the orders of the user.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ReplayReport {
    pub recorded_trades: u64,
    /// Price of a tick and quantity of a lot, if the tape has decimals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<[String; 2]>,
    /// Recorded trades with the same resting order, price and lots.
    pub reproduced_trades: u64,
    /// Share of the recorded trades that the replay reproduced.
    pub reproduced_share: f64,
    /// Recorded trades of hidden orders, of crosses, or of orders that the replay does not support.
    pub hidden_trades: u64,
    /// Trades that differ although every order is known.
    pub other_trades: u64,
    /// Recorded events about orders from before the tape, or that are gone.
    pub unknown_orders: u64,
    pub unsupported: u64,
    /// Trades of the replay that were not recorded, those of the user included.
    pub new_trades: u64,
    pub own_orders: u64,
    pub own_fills: Vec<OwnFill>,
}

/// Steps between two reports of the progress.
const REPORT_EVERY: u64 = 4_096;

/// A trade of an order of the user.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnFill {
    pub at_ns: u64,
    /// Number of the order in the file, from 0 in order of time.
    pub order: usize,
    pub side: &'static str,
    pub price_ticks: i64,
    pub lots: u64,
    /// Whether the order rested when it traded.
    pub is_maker: bool,
}

/// Plays a tape through the engine.
pub struct Replay {
    engine: Engine,
    seq: Seq,
    events: Vec<Event>,
    /// Orders in the engine by their id on the tape, and the reverse.
    placed: HashMap<u64, OrderId>,
    recorded: HashMap<OrderId, u64>,
    /// Orders of the user by their id in the engine.
    own: HashMap<OrderId, usize>,
    report: ReplayReport,
}

impl Replay {
    /// Replays a tape with orders of the user, which are in order of time. `progress` is called
    /// from time to time with the steps that are done, and with all of them.
    ///
    /// # Errors
    ///
    /// Returns a failure if the tape has no order.
    pub fn run(
        tape: &RecordedTape,
        own: &[OwnOrder],
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<ReplayReport, Failure> {
        let first = tape.steps.iter().find_map(|step| match step.action {
            TapeAction::Enter { price: Some(price), .. } => Some(price),
            _ => None,
        });
        let first = first.ok_or_else(|| {
            Failure::new("the tape has no limit order").remedy("look at the instrument and at the format of the tape")
        })?;
        let mut replay = Replay::new(first);
        replay.report.hidden_trades = tape.hidden_trades;
        replay.report.recorded_trades = tape.hidden_trades;
        replay.report.unsupported = tape.unsupported;
        replay.report.units = tape.units.map(|units| units.map(|unit| unit.to_string()));
        let mut actions: Vec<(VenueNanos, usize, bool)> = Vec::new();
        for (number, order) in own.iter().enumerate() {
            actions.push((order.at, number, false));
            actions.extend(order.cancel_at.map(|at| (at.max(order.at), number, true)));
        }
        actions.sort_by_key(|(at, _, is_cancel)| (*at, *is_cancel));
        let mut actions = actions.into_iter().peekable();
        let steps = tape.steps.len() as u64;
        for (done, step) in (1..).zip(&tape.steps) {
            if done % REPORT_EVERY == 0 || done == steps {
                progress(done, steps);
            }
            while let Some((at, number, is_cancel)) = actions.next_if(|(at, ..)| *at < step.at) {
                replay.own(at, number, &own[number], is_cancel);
            }
            replay.step(step);
        }
        for (at, number, is_cancel) in actions {
            replay.own(at, number, &own[number], is_cancel);
        }
        let mut report = replay.report;
        #[allow(clippy::cast_precision_loss)]
        let share = report.reproduced_trades as f64 / report.recorded_trades.max(1) as f64;
        report.reproduced_share = share;
        report.own_orders = own.len() as u64;
        Ok(report)
    }

    fn new(start_price: Ticks) -> Replay {
        let mut replay = Replay {
            engine: Engine::new(),
            seq: Seq(0),
            events: Vec::new(),
            placed: HashMap::new(),
            recorded: HashMap::new(),
            own: HashMap::new(),
            report: ReplayReport::default(),
        };
        let (base, quote) = (CurrencyId(0), CurrencyId(1));
        let currency = |id, name: &str| Command::AddCurrency(Currency { id, name: name.into(), decimals: 0 });
        let account = |id, name: &str| {
            Command::AddAccount(AccountSpec {
                id,
                name: name.into(),
                credit: Credit::Unlimited,
                settings: AccountSettings { self_match: SelfMatch::Allow, ..AccountSettings::default() },
            })
        };
        let spec = InstrumentSpec {
            id: INSTRUMENT,
            name: "TAPE_UNIT".into(),
            kind: InstrumentKind::Spot { base, quote },
            tick: Decimal::new(1, 0),
            lot: Decimal::new(1, 0),
            start_price,
            max_resting_orders: MOST_ORDERS,
            limits: InstrumentLimits::default(),
            rules: None,
        };
        for command in [
            currency(base, "TAPE"),
            currency(quote, "UNIT"),
            Command::AddInstrument(Box::new(spec)),
            account(RECORDED, "recorded"),
            account(OWN, "own"),
            Command::SetPhase { instrument: INSTRUMENT, phase: Phase::Continuous },
        ] {
            replay.submit(VenueNanos(0), command);
        }
        replay
    }

    fn submit(&mut self, at: VenueNanos, mut command: Command) -> OrderId {
        self.seq = self.seq.next();
        let id = OrderId(self.seq.0);
        if let Command::Enter(order) = &mut command {
            order.id = id;
        }
        self.events.clear();
        self.engine.apply(&SequencedCommand { seq: self.seq, at, command }, &mut self.events);
        id
    }

    fn enter(
        &mut self,
        at: VenueNanos,
        account: AccountId,
        side: Side,
        price: Option<Ticks>,
        lots: Lots,
        rests: bool,
    ) -> OrderId {
        let order_type = price.map_or(OrderType::Market, |price| OrderType::Limit { price });
        let tif = if rests && price.is_some() { TimeInForce::GoodTillCancel } else { TimeInForce::ImmediateOrCancel };
        let order = NewOrder { account, instrument: INSTRUMENT, side, order_type, lots, tif, ..NewOrder::PLAIN };
        self.submit(at, Command::Enter(order))
    }

    fn step(&mut self, step: &TapeStep) {
        let at = step.at;
        self.report.recorded_trades += step.trades.len() as u64;
        match &step.action {
            TapeAction::Enter { id, side, price, lots, rests } => {
                let placed = self.enter(at, RECORDED, *side, *price, *lots, *rests);
                self.placed.insert(*id, placed);
                self.recorded.insert(placed, *id);
                self.compare(at, &step.trades);
            }
            TapeAction::Take { maker, side, price, lots } => {
                // The tape does not have the entry of an order from before its start.
                if !self.placed.contains_key(maker) {
                    self.report.unknown_orders += 1;
                    return;
                }
                self.enter(at, RECORDED, *side, Some(*price), *lots, false);
                self.compare(at, &step.trades);
            }
            TapeAction::Reduce { id, lots } => {
                let live = self.placed.get(id).and_then(|placed| self.engine.order(*placed));
                let Some((order, price, open, ordered)) =
                    live.map(|live| (live.id, live.price, live.open, live.ordered))
                else {
                    self.report.unknown_orders += 1;
                    return;
                };
                let command = if open > *lots {
                    let lots = Lots(ordered.0 - lots.0);
                    Command::Amend(Amend { account: RECORDED, order, price, lots, ..Amend::PLAIN })
                } else {
                    Command::Cancel { account: RECORDED, order }
                };
                self.submit(at, command);
            }
            TapeAction::Amend { id, price, lots } => match self.placed.get(id).copied() {
                Some(order) if self.engine.order(order).is_some() => {
                    let (price, lots) = (*price, *lots);
                    self.submit(at, Command::Amend(Amend { account: RECORDED, order, price, lots, ..Amend::PLAIN }));
                    self.compare(at, &step.trades);
                }
                _ => {
                    self.report.unknown_orders += 1;
                    self.report.other_trades += step.trades.len() as u64;
                }
            },
            TapeAction::Session { to } => {
                self.submit(at, Command::SetPhase { instrument: INSTRUMENT, phase: *to });
                self.compare(at, &step.trades);
            }
            TapeAction::Delete { id } => match self.placed.get(id).copied() {
                Some(order) if self.engine.order(order).is_some() => {
                    self.submit(at, Command::Cancel { account: RECORDED, order });
                }
                _ => self.report.unknown_orders += 1,
            },
        }
    }

    fn own(&mut self, at: VenueNanos, number: usize, order: &OwnOrder, is_cancel: bool) {
        if is_cancel {
            let placed = self.own.iter().find(|(_, own)| **own == number).map(|(placed, _)| *placed);
            if let Some(order) = placed.filter(|order| self.engine.order(*order).is_some()) {
                self.submit(at, Command::Cancel { account: OWN, order });
            }
            return;
        }
        // Registered first, because the fills of the order refer to it. The id is that of the
        // command.
        self.own.insert(OrderId(self.seq.next().0), number);
        self.enter(at, OWN, order.side, order.price, order.lots, true);
        self.compare(at, &[]);
    }

    /// Compares the trades of the last command with the recorded ones.
    fn compare(&mut self, at: VenueNanos, recorded: &[RecordedTrade]) {
        let mut expected = recorded.iter();
        let mut reproduced = 0;
        for event in std::mem::take(&mut self.events) {
            let Event::Trade { price, lots, maker, taker, taker_side, .. } = event else { continue };
            let found = self.recorded.get(&maker).map(|maker| RecordedTrade { maker: *maker, price, lots });
            if found.is_some() && found.as_ref() == expected.next() {
                reproduced += 1;
            } else {
                self.report.new_trades += 1;
            }
            for (order, side, is_maker) in [(maker, taker_side.opposite(), true), (taker, taker_side, false)] {
                if let Some(number) = self.own.get(&order) {
                    let side = match side {
                        Side::Buy => "Buy",
                        Side::Sell => "Sell",
                    };
                    let (price_ticks, lots, order) = (price.0, lots.0, *number);
                    self.report.own_fills.push(OwnFill { at_ns: at.0, order, side, price_ticks, lots, is_maker });
                }
            }
        }
        self.report.reproduced_trades += reproduced;
        self.report.other_trades += recorded.len() as u64 - reproduced;
    }
}
