//! How long a call takes: each order as it comes, and the uncross of all of them.
//!
//!     cargo run --release -p pitwire-engine --example uncross [orders] [levels] [rounds]
//!
//! Says, for calls in which some, all and hidden orders trade: entries per second with their
//! indicative prices, and the command that ends the call, its events thrown away and kept.

use pitwire_fixtures::share;
use pitwire_random::SplitMix64;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pitwire_engine::{Engine, EventSink};
use pitwire_model::{
    AccountId, AccountSettings, AccountSpec, Command, Credit, Currency, CurrencyId, Event, InstrumentId,
    InstrumentSpec, Lots, NewOrder, OrderId, OrderType, Phase, Seq, SequencedCommand, SessionReason, Side, Ticks,
    TimeInForce, VenueNanos,
};

const AUCTION: InstrumentId = InstrumentId(0);
const ACCOUNTS: u32 = 1_000;
const LOWEST: i64 = 10_000;

/// Counts and forgets.
#[derive(Default)]
struct EventCounts {
    trades: u64,
    events: u64,
}

impl EventSink for EventCounts {
    fn emit(&mut self, event: Event) {
        self.trades += u64::from(matches!(event, Event::Trade { .. }));
        self.events += 1;
        black_box(&event);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    /// Both sides over the same prices: about half of them cross.
    Some,
    /// Every bid above every offer.
    All,
    /// As `Some`, one order in ten an iceberg.
    Icebergs,
    /// As `Some`, a thousand hidden orders among them.
    Hidden,
}

struct Venue {
    engine: Engine,
    seq: u64,
}

impl Venue {
    fn open(orders: usize) -> Venue {
        let mut venue = Venue { engine: Engine::new(), seq: 0 };
        let currency = |id, name: &str| Currency { id: CurrencyId(id), name: name.to_owned(), decimals: 2 };
        venue.submit(Command::AddCurrency(currency(0, "NPN")));
        venue.submit(Command::AddCurrency(currency(1, "ZAR")));
        for id in 0..ACCOUNTS {
            let (name, settings) = (format!("member-{id}"), AccountSettings::default());
            let spec = AccountSpec { id: AccountId(id), name, credit: Credit::Unlimited, settings };
            venue.submit(Command::AddAccount(spec));
        }
        venue.submit(Command::AddInstrument(Box::new(InstrumentSpec {
            id: AUCTION,
            start_price: Ticks(LOWEST),
            max_resting_orders: 10_000_000,
            ..share()
        })));
        venue.engine.reserve(AUCTION, orders);
        venue
    }

    fn submit(&mut self, command: Command) -> EventCounts {
        let mut counted = EventCounts::default();
        self.submit_to(command, &mut counted);
        counted
    }

    fn submit_to(&mut self, command: Command, out: &mut impl EventSink) {
        self.seq += 1;
        self.engine.apply(&SequencedCommand { seq: Seq(self.seq), at: VenueNanos(self.seq), command }, out);
    }

    fn go(&mut self, to: Phase, out: &mut impl EventSink) {
        let (due, ends) = (VenueNanos(0), None);
        self.submit_to(
            Command::ChangeSession { instrument: AUCTION, to, reason: SessionReason::Scheduled, due, ends },
            out,
        );
    }

    fn enter(&mut self, order_type: OrderType, side: Side, lots: u64, display: Option<Lots>, random: &mut SplitMix64) {
        let account = AccountId(u32::try_from(random.below(u64::from(ACCOUNTS))).unwrap_or_default());
        let id = OrderId(self.seq + 1);
        let order = NewOrder {
            id,
            account,
            instrument: AUCTION,
            side,
            order_type,
            lots: Lots(lots),
            display,
            ..NewOrder::PLAIN
        };
        self.submit(Command::Enter(NewOrder { tif: TimeInForce::Day, ..order }));
    }
}

/// A call with so many orders; how long they took to come.
fn call(kind: Call, orders: usize, levels: u64, random: &mut SplitMix64) -> (Venue, Duration) {
    let mut venue = Venue::open(orders + 1);
    let ignored = &mut EventCounts::default();
    venue.go(Phase::Continuous, ignored);
    if kind == Call::Hidden {
        // Bids below all offers, so that none trades before the call.
        for at in 0..1_000_u64 {
            let (side, off) = if at % 2 == 0 { (Side::Buy, 0) } else { (Side::Sell, levels / 2) };
            let price = ticks(random.below(levels / 2) + off);
            let minimum_execution = Lots(1 + random.below(5_000));
            venue.enter(OrderType::Hidden { price, minimum_execution }, side, 5_000, None, random);
        }
    }
    venue.go(Phase::IntradayCall, ignored);
    let begin = Instant::now();
    for at in 0..orders {
        let side = if at % 2 == 0 { Side::Buy } else { Side::Sell };
        let price = match (kind, side) {
            (Call::All, Side::Buy) => ticks(levels / 2 + random.below(levels / 2)),
            (Call::All, Side::Sell) => ticks(random.below(levels / 2)),
            _ => ticks(random.below(levels)),
        };
        let lots = 1 + random.below(100);
        let display = (kind == Call::Icebergs && at % 10 < 2).then(|| Lots(1 + random.below(lots)));
        venue.enter(OrderType::Limit { price }, side, lots, display, random);
    }
    (venue, begin.elapsed())
}

fn ticks(above: u64) -> Ticks {
    Ticks(LOWEST + above.cast_signed())
}

fn main() {
    let mut words = std::env::args().skip(1);
    let mut number = |usual: usize| words.next().and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (orders, levels, rounds) = (number(500_000), number(5_000) as u64, number(3));
    println!("{orders} orders on {levels} levels, best of {rounds}");
    for kind in [Call::Some, Call::All, Call::Icebergs, Call::Hidden] {
        let mut random = SplitMix64::new(7);
        let (mut entry, mut thrown, mut kept) = (Duration::MAX, Duration::MAX, Duration::MAX);
        let mut counted = EventCounts::default();
        for _ in 0..rounds {
            let (mut venue, took) = call(kind, orders, levels, &mut random);
            entry = entry.min(took);
            counted = EventCounts::default();
            let begin = Instant::now();
            venue.go(Phase::Continuous, &mut counted);
            thrown = thrown.min(begin.elapsed());
            let (mut venue, _) = call(kind, orders, levels, &mut random);
            let mut events = Vec::with_capacity(2 * orders);
            let begin = Instant::now();
            venue.go(Phase::Continuous, &mut events);
            kept = kept.min(begin.elapsed());
            black_box(events.len());
        }
        println!(
            "{kind:?}: {} ns an entry; uncross {:.1} ms with {} trades, {} events ({:.1} ms with them kept)",
            entry.as_nanos() / orders as u128,
            thrown.as_secs_f64() * 1e3,
            counted.trades,
            counted.events,
            kept.as_secs_f64() * 1e3,
        );
    }
}
