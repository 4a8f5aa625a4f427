//! The full engine: accounts, balances and every rule, over the same operations.

use std::mem::ManuallyDrop;

use pitwire_engine::{Engine, EventSink};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, CancelReason, Command, Credit, Currency, CurrencyId, Decimal,
    Event, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, MatchGroup, NewOrder, OrderId,
    OrderType, Phase, Priority, Reject, Seq, Stamped, Ticks, TimeInForce, VenueNanos,
};

use super::Matcher;
use super::book::{expected, narrow};
use super::operations::{Kind, Operation};
use super::reports::{Reports, Type};

const HERE: InstrumentId = InstrumentId(0);
const ACCOUNTS: u64 = 64;

pub struct Venue {
    engine: Engine,
}

impl Venue {
    pub fn new(operations: usize) -> Self {
        let mut engine = Engine::new();
        let mut ignored = Vec::new();
        for command in definitions() {
            engine.apply(&Stamped { seq: Seq(0), at: VenueNanos(0), command }, &mut ignored);
        }
        engine.reserve(HERE, operations.min(1 << 15));
        Venue { engine }
    }
}

/// One spot instrument with a tick and a lot of 1, 64 accounts with unlimited credit, continuous trading. Self-match
/// prevention is on, with one group per order, so that nobody ever meets their own.
fn definitions() -> Vec<Command> {
    let currency =
        |id, name: &str| Command::AddCurrency(Currency { id: CurrencyId(id), name: name.into(), decimals: 0 });
    let instrument = InstrumentSpec {
        id: HERE,
        name: "BENCH".into(),
        kind: InstrumentKind::Spot { base: CurrencyId(0), quote: CurrencyId(1) },
        tick: Decimal::new(1, 0),
        lot: Decimal::new(1, 0),
        start_price: Ticks(1),
        max_resting_orders: u32::MAX - 1,
        limits: InstrumentLimits::default(),
        rules: None,
    };
    let mut commands = vec![currency(0, "BASE"), currency(1, "QUOTE"), Command::AddInstrument(Box::new(instrument))];
    commands.extend((0..64).map(|id| {
        let name = format!("member-{id}");
        Command::AddAccount(AccountSpec {
            id: AccountId(id),
            name,
            credit: Credit::Unlimited,
            settings: AccountSettings::default(),
        })
    }));
    commands.push(Command::SetPhase { instrument: HERE, phase: Phase::Continuous });
    commands
}

impl Matcher for Venue {
    #[inline]
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>) {
        self.engine.look_ahead(|n| coming(n).map(|operation| expected(HERE, operation)));
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    fn apply(&mut self, seq: u32, op: &Operation, reports: &mut Reports) {
        let order = OrderId(op.id);
        let account = AccountId((op.id % ACCOUNTS) as u32);
        let price = Ticks(i64::from(op.price));
        let lots = Lots(u64::from(op.quantity));
        let command = match op.kind {
            Kind::Cancel => Command::Cancel { account, order },
            Kind::Replace => {
                Command::Amend(Amend { account, order, price, lots, priority: Priority::AlwaysLose, ..Amend::PLAIN })
            }
            kind => Command::Enter(NewOrder {
                id: order,
                account,
                instrument: HERE,
                side: op.side,
                order_type: if kind == Kind::Market { OrderType::Market } else { OrderType::Limit { price } },
                lots,
                tif: match kind {
                    Kind::Immediate => TimeInForce::ImmediateOrCancel,
                    Kind::Market => TimeInForce::Day,
                    _ => TimeInForce::GoodTillCancel,
                },
                match_group: MatchGroup::Order,
                ..NewOrder::PLAIN
            }),
        };
        // Without a label a command owns no memory: there is nothing to drop, which the compiler cannot see.
        let stamped = ManuallyDrop::new(Stamped { seq: Seq(u64::from(seq)), at: VenueNanos(u64::from(seq)), command });
        self.engine.apply(&stamped, &mut Translate { seq, reports });
    }

    fn live(&self) -> usize {
        self.engine.live_orders()
    }
}

/// Events to reports.
struct Translate<'a> {
    seq: u32,
    reports: &'a mut Reports,
}

/// Quantities come from 32-bit fields, so this never cuts.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn quantity(lots: Lots) -> u32 {
    lots.0 as u32
}

impl EventSink for Translate<'_> {
    /// HOT. Always inlined: each place that emits knows which event it is, so nothing is built only to be taken apart.
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        let Translate { seq, reports } = self;
        let seq = *seq;
        // Nor do the events that operations lead to.
        match *ManuallyDrop::new(event) {
            Event::Accepted { order, side, order_type, lots, .. } => {
                let price = order_type.limit_price().map_or(0, narrow);
                reports.order(Type::Accepted, seq, side, order.0, price, quantity(lots));
            }
            Event::Trade { price, lots, maker, taker, .. } => {
                reports.trade(seq, narrow(price), quantity(lots), maker.0, taker.0);
            }
            Event::Cancelled { order, side, price, reason, .. } => {
                debug_assert!(reason != CancelReason::DayEnded, "no day ends here");
                reports.order(Type::Cancelled, seq, side, order.0, narrow(price), 0);
            }
            Event::Amended { order, side, price, open, .. } => {
                reports.order(Type::Replaced, seq, side, order.0, narrow(price), quantity(open));
            }
            Event::CancelRefused { order, .. } => reports.refused(Type::CancelRefused, seq, order.0),
            Event::AmendRefused { order, .. } => reports.refused(Type::ReplaceRefused, seq, order.0),
            Event::Rejected { reason: Reject::DuplicateOrderId, .. } => {
                reports.duplicate.get_or_insert(seq);
            }
            _ => {}
        }
    }
}
