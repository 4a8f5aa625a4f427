//! After warm-up, entering, cancelling, amending and trading allocate nothing.
//!
//! Labels are empty: a label is the member's own text, made where it is read from the network, and
//! only passed on here. Room is reserved for as many orders as are ever live, and for events; the
//! event buffer is used again and again. Prices stay within the ladder's window of 4,096 levels; an
//! order thousands of ticks off the touch lies in a sorted map, which allocates.

mod common;

use common::world::{ACCOUNTS, INSTRUMENTS, START, opening_commands};
use common::{SplitMix64, test_seed};
use pitwire_counting_allocator::CountingAllocator;
use pitwire_engine::Engine;
use pitwire_model::{
    AccountId, Amend, Command, Event, InstrumentId, Lots, NewOrder, OrderId, OrderType, Priority, Seq,
    SequencedCommand, Side, Ticks, TimeInForce, VenueNanos,
};

#[global_allocator]
static MEMORY: CountingAllocator = CountingAllocator;

/// A mixed flow of commands. Its steps depend only on random numbers and on the ids of entered
/// orders, so that the flow itself allocates nothing while allocations are counted.
struct Flow {
    random: SplitMix64,
    /// The last ids entered, in a ring; some have filled since, some were cancelled.
    recent: Vec<OrderId>,
    entered: usize,
    seq: u64,
}

const REMEMBERED: usize = 4_096;
const WARM_UP: usize = 300_000;
const COUNTED: usize = 200_000;

impl Flow {
    fn next(&mut self) -> SequencedCommand {
        self.seq += 1;
        let oldest = std::mem::take(&mut self.recent[self.entered % REMEMBERED]);
        let command = match self.random.below(100) {
            // The ring never drops an order that may be live, so this is the largest number of live
            // orders.
            _ if oldest != OrderId::ZERO => Command::Cancel { account: account_of(oldest), order: oldest },
            0..=49 => self.enter(OrderType::Limit { price: Ticks::ZERO }, None),
            50..=55 => self.enter(OrderType::Limit { price: Ticks::ZERO }, Some(Lots(3))),
            56..=83 => {
                let (account, order) = self.pick();
                Command::Cancel { account, order }
            }
            84..=91 => {
                let (account, order) = self.pick();
                let priority = self.random.pick(&[Priority::KeepWhenReduced, Priority::AlwaysLose]);
                let side = self.side();
                let price = self.price(side);
                Command::Amend(Amend { account, order, price, lots: self.lots(), priority, ..Amend::PLAIN })
            }
            _ => self.enter(OrderType::Market, None),
        };
        SequencedCommand { seq: Seq(self.seq), at: VenueNanos(self.seq), command }
    }

    /// Mostly on its own side of the start price, some of it across.
    fn price(&mut self, side: Side) -> Ticks {
        let away = self.random.between_signed(-3, 40);
        Ticks(if side == Side::Buy { START.0 - away } else { START.0 + away })
    }

    fn side(&mut self) -> Side {
        if self.random.one_in(2) { Side::Buy } else { Side::Sell }
    }

    fn lots(&mut self) -> Lots {
        Lots(1 + self.random.below(20))
    }

    /// One of the last orders, with the account that entered it.
    fn pick(&mut self) -> (AccountId, OrderId) {
        let at = self.random.below(self.recent.len() as u64);
        let order = self.recent[usize::try_from(at).expect("a small ring")];
        (account_of(order), order)
    }

    fn enter(&mut self, order_type: OrderType, display: Option<Lots>) -> Command {
        let id = OrderId(self.seq);
        self.recent[self.entered % REMEMBERED] = id;
        self.entered += 1;
        let side = self.side();
        let order_type = match order_type {
            OrderType::Limit { .. } => OrderType::Limit { price: self.price(side) },
            other => other,
        };
        let tif = match order_type {
            _ if self.random.one_in(8) => TimeInForce::ImmediateOrCancel,
            OrderType::Market => TimeInForce::Day,
            _ => TimeInForce::GoodTillCancel,
        };
        let lots = self.lots();
        let (account, instrument) =
            (account_of(id), InstrumentId(u32::try_from(id.0 % u64::from(INSTRUMENTS)).expect("a handful")));
        Command::Enter(NewOrder { id, account, instrument, side, order_type, lots, tif, display, ..NewOrder::PLAIN })
    }
}

fn account_of(order: OrderId) -> AccountId {
    AccountId(u32::try_from(order.0 % u64::from(ACCOUNTS)).expect("a handful"))
}

/// Applies `steps` commands. Returns the number of allocations in the engine and the number of
/// trades.
fn run(engine: &mut Engine, flow: &mut Flow, events: &mut Vec<Event>, steps: usize) -> (u64, usize) {
    let (mut allocated, mut trades) = (0, 0);
    for _ in 0..steps {
        let command = flow.next();
        events.clear();
        let before = CountingAllocator::allocations_of_thread();
        engine.apply(&command, events);
        allocated += CountingAllocator::allocations_of_thread() - before;
        trades += events.iter().filter(|event| matches!(event, Event::Trade { .. })).count();
    }
    (allocated, trades)
}

#[test]
fn warm_engine_allocates_nothing() {
    let mut engine = Engine::new();
    // Room for the events of the largest sweep: it would otherwise grow with a record among them.
    let mut events = Vec::with_capacity(1 << 16);
    for (seq, command) in (0..).zip(opening_commands(1 << 20, 1_000_000)) {
        engine.apply(&SequencedCommand { seq: Seq(seq), at: VenueNanos(0), command }, &mut events);
    }
    for instrument in 0..INSTRUMENTS {
        engine.reserve(InstrumentId(instrument), REMEMBERED);
    }
    let seed = test_seed();
    let mut flow =
        Flow { random: SplitMix64::new(seed), recent: vec![OrderId::ZERO; REMEMBERED], entered: 0, seq: 1_000 };
    let (warming, _) = run(&mut engine, &mut flow, &mut events, WARM_UP);
    assert!(warming > 0, "TEST_SEED={seed}: the count is not connected");
    let (allocated, trades) = run(&mut engine, &mut flow, &mut events, COUNTED);
    assert!(trades > COUNTED / 20, "TEST_SEED={seed}: only {trades} trades");
    assert!(engine.live_orders() > 100, "TEST_SEED={seed}: only {} live orders", engine.live_orders());
    assert_eq!(allocated, 0, "TEST_SEED={seed}: allocations in {COUNTED} commands after {WARM_UP}");
}
