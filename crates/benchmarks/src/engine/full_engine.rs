//! The full engine on the same operations: accounts, balances and every rule.

use std::mem::ManuallyDrop;

use pitwire_engine::{Engine, EventSink};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Amend, CancelReason, Command, Credit, Currency, CurrencyId, Decimal,
    Event, InstrumentId, InstrumentKind, InstrumentLimits, InstrumentSpec, Lots, MatchGroup, NewOrder, OrderId,
    OrderType, Phase, Priority, Reject, Seq, SequencedCommand, Ticks, TimeInForce, VenueNanos,
};

use super::bare_book::{expected, narrow};
use super::matcher::Matcher;
use super::operations::{Operation, OperationKind};
use super::reports::{ReportType, Reports};

const ONLY_INSTRUMENT: InstrumentId = InstrumentId(0);
/// Number of accounts. An order belongs to the account of its id modulo this number.
const ACCOUNTS: u64 = 64;

/// An engine with one spot instrument and 64 accounts.
pub struct FullEngine {
    engine: Engine,
}

impl FullEngine {
    /// Creates the engine with memory for at most 32,768 resting orders.
    pub fn new(operations: usize) -> Self {
        let mut engine = Engine::new();
        let mut ignored = Vec::new();
        for command in definitions() {
            engine.apply(&SequencedCommand { seq: Seq(0), at: VenueNanos(0), command }, &mut ignored);
        }
        engine.reserve(ONLY_INSTRUMENT, operations.min(1 << 15));
        FullEngine { engine }
    }
}

/// Returns the commands that define the market: one spot instrument with a tick and a lot of 1, 64
/// accounts with unlimited credit, continuous trading. Self-match prevention is on with one group
/// per order, so that its check runs and never cancels anything.
pub(crate) fn definitions() -> Vec<Command> {
    let currency =
        |id, name: &str| Command::AddCurrency(Currency { id: CurrencyId(id), name: name.into(), decimals: 0 });
    let instrument = InstrumentSpec {
        id: ONLY_INSTRUMENT,
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
    commands.push(Command::SetPhase { instrument: ONLY_INSTRUMENT, phase: Phase::Continuous });
    commands
}

/// Returns the command of an operation.
#[inline]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn command(op: &Operation) -> Command {
    let order = OrderId(op.id);
    let account = AccountId((op.id % ACCOUNTS) as u32);
    let price = Ticks(i64::from(op.price));
    let lots = Lots(u64::from(op.quantity));
    match op.kind {
        OperationKind::Cancel => Command::Cancel { account, order },
        OperationKind::Replace => {
            Command::Amend(Amend { account, order, price, lots, priority: Priority::AlwaysLose, ..Amend::PLAIN })
        }
        kind => Command::Enter(NewOrder {
            id: order,
            account,
            instrument: ONLY_INSTRUMENT,
            side: op.side,
            order_type: if kind == OperationKind::Market { OrderType::Market } else { OrderType::Limit { price } },
            lots,
            tif: match kind {
                OperationKind::Immediate => TimeInForce::ImmediateOrCancel,
                OperationKind::Market => TimeInForce::Day,
                _ => TimeInForce::GoodTillCancel,
            },
            match_group: MatchGroup::Order,
            ..NewOrder::PLAIN
        }),
    }
}

impl Matcher for FullEngine {
    #[inline]
    fn look_ahead<'a>(&mut self, coming: impl Fn(usize) -> Option<&'a Operation>) {
        self.engine.look_ahead(|n| coming(n).map(|operation| expected(ONLY_INSTRUMENT, operation)));
    }

    #[inline]
    fn apply(&mut self, seq: u32, op: &Operation, reports: &mut Reports) {
        let command = command(op);
        // A command without a label owns no memory. The compiler cannot see that nothing needs to
        // be dropped.
        let stamped =
            ManuallyDrop::new(SequencedCommand { seq: Seq(u64::from(seq)), at: VenueNanos(u64::from(seq)), command });
        self.engine.apply(&stamped, &mut ReportWriter { seq, reports });
    }

    fn live(&self) -> usize {
        self.engine.live_orders()
    }
}

/// Turns events into reports.
struct ReportWriter<'a> {
    seq: u32,
    reports: &'a mut Reports,
}

/// Converts a quantity back to 32 bits. Quantities come from 32-bit fields, so nothing is lost.
#[inline]
#[allow(clippy::cast_possible_truncation)]
fn quantity(lots: Lots) -> u32 {
    lots.0 as u32
}

impl EventSink for ReportWriter<'_> {
    /// HOT. Always inlined: each call site knows its event, so the event is never built in memory.
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        let ReportWriter { seq, reports } = self;
        let seq = *seq;
        // These events own no memory either.
        match *ManuallyDrop::new(event) {
            Event::Accepted { order, side, order_type, lots, .. } => {
                let price = order_type.limit_price().map_or(0, narrow);
                reports.order(ReportType::Accepted, seq, side, order.0, price, quantity(lots));
            }
            Event::Trade { price, lots, maker, taker, .. } => {
                reports.trade(seq, narrow(price), quantity(lots), maker.0, taker.0);
            }
            Event::Cancelled { order, side, price, reason, .. } => {
                debug_assert!(reason != CancelReason::DayEnded, "no day ends here");
                reports.order(ReportType::Cancelled, seq, side, order.0, narrow(price), 0);
            }
            Event::Amended { order, side, price, open, .. } => {
                reports.order(ReportType::Replaced, seq, side, order.0, narrow(price), quantity(open));
            }
            Event::CancelRefused { order, .. } => reports.refused(ReportType::CancelRefused, seq, order.0),
            Event::AmendRefused { order, .. } => reports.refused(ReportType::ReplaceRefused, seq, order.0),
            Event::Rejected { reason: Reject::DuplicateOrderId, .. } => {
                reports.duplicate.get_or_insert(seq);
            }
            _ => {}
        }
    }
}
