//! Rebuilds the books of random days from the feed and compares them with the engine's.
//!
//! Does        play the random worlds of the engine's own tests: calls, halts, breakers, busts,
//!             icebergs, hidden orders, stops, batches, pro-rata, kills and deletions.
//! Holds       after the messages of every command, each rebuilt queue has the orders, prices,
//!             displayed quantities and places of the engine's; every trade is shown once; no
//!             message names a hidden order. The translation to ITCH has the same books and
//!             trades, for a reader that was written from the specification and for ours, and for a
//!             reader that began with a snapshot.
//! To repeat   `TEST_SEED=<seed> cargo test -p pitwire-order-feed --test suite rebuild`.
//!             `TEST_COMMANDS=1000000` plays longer.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::flow::Flow;
use crate::common::world::{NPN_ZAR, Stamper, currency, instrument, opening_commands};
use crate::common::{SplitMix64, test_seed};
use pitwire_engine::Engine;
use pitwire_model::{
    Command, Decimal, Event, InstrumentId, InstrumentSpec, OrderId, OrderType, Phase, Side, VenueNanos,
};
use pitwire_order_feed::itch::ItchMessage;
use pitwire_order_feed::{
    BookBuilder, ItchTranslator, Letter, MitchMessage, MitchPrice, OrderFeedEncoder, UnitMessages,
};

const COMMANDS: usize = 60_000;
/// Commands between two snapshots of ITCH.
const SNAPSHOT_COMMANDS: usize = 61;
/// Highest price of ITCH in units of 1e-8.
const PRICES_END: i64 = 42_949_672_950_000;
const FIXED_SEEDS: [u64; 2] = [20_260_105, 31_337];

/// Orders by their references in ITCH, in the order of arrival: instrument, side, price, quantity.
#[derive(Default)]
struct ItchBook {
    orders: Vec<(u64, u16, u8, u32, u32)>,
    references: BTreeSet<u64>,
}

impl ItchBook {
    /// Takes a message as the specification says. Returns the number of a trade that it prints.
    fn apply(&mut self, message: &ItchMessage) -> Option<u64> {
        match message {
            ItchMessage::AddOrder(add) => {
                let reference = add.order_reference.0;
                assert!(self.find(reference).is_none(), "{message:?}");
                self.orders.push((reference, add.stock_locate.0, add.side.0, add.price.0, add.shares.0));
            }
            ItchMessage::OrderExecuted(executed) => {
                self.reduce(executed.order_reference.0, executed.executed_shares.0);
                return Some(executed.match_number.0);
            }
            ItchMessage::OrderExecutedWithPrice(executed) => {
                self.reduce(executed.order_reference.0, executed.executed_shares.0);
                return (executed.printable == Letter(b'Y')).then_some(executed.match_number.0);
            }
            ItchMessage::OrderCancel(cancel) => {
                self.reduce(cancel.order_reference.0, cancel.cancelled_shares.0);
                assert!(self.find(cancel.order_reference.0).is_some(), "a cancel leaves a part: {message:?}");
            }
            ItchMessage::OrderDelete(delete) => {
                let at = self.find(delete.order_reference.0).unwrap_or_else(|| panic!("{message:?}"));
                self.orders.remove(at);
            }
            ItchMessage::OrderReplace(replace) => {
                let at = self.find(replace.original_order_reference.0).unwrap_or_else(|| panic!("{message:?}"));
                let (_, locate, side, _, _) = self.orders.remove(at);
                let reference = replace.new_order_reference.0;
                assert!(self.references.insert(reference), "the reference {reference} is new");
                self.orders.push((reference, locate, side, replace.price.0, replace.shares.0));
            }
            ItchMessage::Trade(trade) => return Some(trade.match_number.0),
            ItchMessage::CrossTrade(trade) => return Some(trade.match_number.0),
            _ => {}
        }
        None
    }

    fn find(&self, reference: u64) -> Option<usize> {
        self.orders.iter().position(|(known, ..)| *known == reference)
    }

    fn reduce(&mut self, reference: u64, shares: u32) {
        let at = self.find(reference).unwrap_or_else(|| panic!("{reference} is not in the book"));
        let left = self.orders[at].4.checked_sub(shares).expect("no more than displayed");
        self.orders[at].4 = left;
        if left == 0 {
            self.orders.remove(at);
        }
    }

    /// Prices and quantities of one side, in the order in which they trade. The format cannot tell
    /// prices from [`PRICES_END`] on apart, so their orders are left out.
    fn side(&self, locate: u32, side: u8) -> Vec<(i64, u32)> {
        let own = self.orders.iter().filter(|order| (u32::from(order.1), order.2) == (locate, side));
        let own = own.filter(|order| i64::from(order.3) * 10_000 < PRICES_END);
        let mut orders: Vec<(i64, u32)> = own.map(|order| (i64::from(order.3) * 10_000, order.4)).collect();
        orders.sort_by_key(|(price, _)| if side == b'B' { -price } else { *price });
        orders
    }
}

/// A venue, its feed and the books of three readers.
struct FeedWorld {
    engine: Engine,
    /// `None` before the feed starts.
    encoder: Option<OrderFeedEncoder>,
    reader: BookBuilder,
    translator: ItchTranslator,
    itch: ItchBook,
    itch_reader: BookBuilder,
    /// Begins anew with each snapshot.
    itch_joiner: BookBuilder,
    hidden: BTreeSet<OrderId>,
    /// Number of messages by name.
    counts: BTreeMap<String, u64>,
}

impl FeedWorld {
    fn read(&mut self, bytes: &[u8], expected_trades: &[u64]) {
        let (mut trades, mut itch_trades) = (Vec::new(), Vec::new());
        for message in UnitMessages::of(bytes) {
            let message = message.expect("a message of the table");
            let (named, trade) = match &message {
                MitchMessage::OrderAdd(add) => (Some(add.order_id), None),
                MitchMessage::OrderDelete(delete) => (Some(delete.order_id), None),
                MitchMessage::OrderModify(modify) => (Some(modify.order_id), None),
                MitchMessage::OrderExecution(shown) => (Some(shown.order_id), Some(shown.trade_id)),
                MitchMessage::PricedExecution(shown) => {
                    (Some(shown.order_id), (shown.printable == Letter(b'Y')).then_some(shown.trade_id))
                }
                MitchMessage::HiddenTrade(trade) => (None, Some(trade.trade_id)),
                MitchMessage::AuctionTrade(trade) => (None, Some(trade.trade_id)),
                _ => (None, None),
            };
            assert!(named.is_none_or(|id| !self.hidden.contains(&OrderId(id))), "hidden order in {message:?}");
            trades.extend(trade);
            let name = match &message {
                MitchMessage::OrderModify(modify) => format!("{} {}", message.name(), modify.flags),
                _ => message.name().to_owned(),
            };
            *self.counts.entry(name).or_default() += 1;
            let (itch, counts) = (&mut self.itch, &mut self.counts);
            let mut itch_readers = [&mut self.itch_reader, &mut self.itch_joiner];
            self.translator.translate(&message, &self.reader, &mut |translated| {
                let mut bytes = Vec::new();
                translated.encode(&mut bytes);
                assert_eq!(ItchMessage::decode(&bytes), Ok(translated));
                itch_trades.extend(itch.apply(&translated));
                for reader in &mut itch_readers {
                    reader.apply_itch(&translated).unwrap_or_else(|error| panic!("{error}: {translated:?}"));
                }
                *counts.entry(format!("ITCH {}", translated.name())).or_default() += 1;
            });
            self.reader.apply(&message).unwrap_or_else(|error| panic!("{error}: {message:?}"));
        }
        assert_eq!(trades, expected_trades, "every trade is shown once, in order");
        assert_eq!(itch_trades, expected_trades, "every trade is shown once, in order, by ITCH");
    }

    /// Replaces the books of the joiner by a snapshot.
    fn join(&mut self) {
        let mut books = BookBuilder::default();
        self.translator.snapshot(&self.reader, &mut |message| {
            books.apply_itch(&message).unwrap_or_else(|error| panic!("{error}: {message:?}"));
        });
        self.itch_joiner = books;
    }

    /// Compares all books. `cause` describes the last command.
    fn compare(&self, cause: &dyn std::fmt::Debug) {
        for market in self.engine.markets() {
            let InstrumentId(id) = market.spec.id;
            let tick = MitchPrice::of(market.spec.tick).expect("eight decimals").0;
            for side in Side::BOTH {
                let rebuilt = self.reader.orders(id, side).map(|order| (order.id, order.price.0, order.quantity));
                let venue = market.book().orders(side).map(|order| (order.id.0, order.price.0 * tick, order.open));
                let (rebuilt, venue): (Vec<_>, Vec<_>) = (rebuilt.collect(), venue.collect());
                assert_eq!(rebuilt, venue, "{side:?} of {} after {cause:#?}", market.spec.name);
                let venue = venue.into_iter().map(|(_, price, quantity)| (price, quantity));
                let venue: Vec<_> = venue.filter(|(price, _)| *price < PRICES_END).collect();
                let letter = if side == Side::Buy { b'B' } else { b'S' };
                let itch = self.itch.side(id, letter);
                assert_eq!(itch, venue, "ITCH, {side:?} of {} after {cause:#?}", market.spec.name);
                let itch = self.itch_reader.orders(id, side).map(|order| (order.price.0, order.quantity));
                let itch: Vec<_> = itch.filter(|(price, _)| *price < PRICES_END).collect();
                assert_eq!(itch, venue, "the reader of ITCH, {side:?} of {} after {cause:#?}", market.spec.name);
                // Orders at the highest price have no common order.
                let queue = |books: &BookBuilder| -> Vec<_> {
                    books.orders(id, side).filter(|order| order.price.0 < PRICES_END).collect()
                };
                let (joiner, reader) = (queue(&self.itch_joiner), queue(&self.itch_reader));
                assert_eq!(joiner, reader, "after a snapshot, {side:?} of {} after {cause:#?}", market.spec.name);
            }
        }
    }
}

/// Plays one world and returns its number of commands.
fn play(seed: u64, counts: &mut BTreeMap<String, u64>) -> usize {
    let (mut flow, mut random) = (Flow::new(seed), SplitMix64::new(seed));
    let steps = random.pick(&[200, 400, 800, 3_000]);
    // Some feeds start in the middle of a day, and some engines are replaced by their images.
    let (starts, replaces) = (random.pick(&[0, 0, 100]), random.pick(&[0, 97]));
    let mut world = FeedWorld {
        engine: Engine::new(),
        encoder: None,
        reader: BookBuilder::default(),
        translator: ItchTranslator::default(),
        itch: ItchBook::default(),
        itch_reader: BookBuilder::default(),
        itch_joiner: BookBuilder::default(),
        hidden: BTreeSet::new(),
        counts: std::mem::take(counts),
    };
    let mut opening = opening_commands(flow.most_resting, flow.wealth).into_iter();
    let mut stamper = Stamper::default();
    for step in 0..steps {
        if step == starts {
            let mut bytes = Vec::new();
            world.encoder = Some(OrderFeedEncoder::start(&world.engine, stamper.at, &mut bytes));
            world.read(&bytes, &[]);
        }
        stamper.at.0 += flow.wait();
        let next = stamper.seq.next();
        let at = VenueNanos(stamper.at.0 + 1000);
        let command = opening.next().unwrap_or_else(|| flow.command(next, at));
        let stamped = stamper.stamp(command);
        let mut events = Vec::new();
        world.engine.apply(&stamped, &mut events);
        flow.learn(&events);
        for event in &events {
            // The flow uses the ids of ended orders again.
            match event {
                Event::Accepted { order, order_type: OrderType::Hidden { .. }, .. } => world.hidden.insert(*order),
                Event::Accepted { order, .. } => world.hidden.remove(order),
                _ => false,
            };
        }
        let Some(encoder) = &mut world.encoder else { continue };
        let trades: Vec<u64> = events
            .iter()
            .filter_map(|event| match event {
                Event::Trade { trade_seq, .. } => Some(trade_seq.0),
                _ => None,
            })
            .collect();
        let mut bytes = Vec::new();
        encoder.observe(stamped.at, &events, &world.engine, &mut bytes);
        world.read(&bytes, &trades);
        world.compare(&(&stamped, &events, UnitMessages::of(&bytes).collect::<Vec<_>>()));
        if step % SNAPSHOT_COMMANDS == 0 {
            world.join();
        }
        if replaces > 0 && step % replaces == 96 {
            world.engine = Engine::from_image(world.engine.image()).expect("its own image");
            let mut bytes = Vec::new();
            world.encoder = Some(OrderFeedEncoder::start(&world.engine, stamped.at, &mut bytes));
            world.read(&bytes, &[]);
            world.compare(&"a new engine");
        }
    }
    *counts = world.counts;
    steps
}

#[test]
fn rebuilt_books_equal_the_engines_after_every_command() {
    let wanted = std::env::var("TEST_COMMANDS").map_or(COMMANDS, |text| text.parse().expect("a number"));
    let fresh = test_seed();
    println!("TEST_SEED={fresh}");
    let fixed = if std::env::var("TEST_SEED").is_ok() { &[][..] } else { &FIXED_SEEDS };
    let seeds: Vec<u64> = fixed.iter().copied().chain([fresh]).collect();
    let mut counts = BTreeMap::new();
    for seed in &seeds {
        let (mut worlds, mut commands) = (SplitMix64::new(*seed), 0);
        while commands < wanted / seeds.len() {
            let world = worlds.next();
            println!("world {world}");
            commands += play(world, &mut counts);
        }
    }
    println!("{counts:?}");
    let expected = [
        "Add Order",
        "Auction Info",
        "Auction Trade",
        "ITCH Add Order",
        "ITCH Broken Trade",
        "ITCH Cross Trade",
        "ITCH Net Order Imbalance Indicator",
        "ITCH Order Cancel",
        "ITCH Order Delete",
        "ITCH Order Executed",
        "ITCH Order Executed With Price",
        "ITCH Order Replace",
        "ITCH Stock Directory",
        "ITCH Stock Trading Action",
        "ITCH System Event",
        "ITCH Trade",
        "Off-Book Trade",
        "Order Book Clear",
        "Order Deleted",
        "Order Executed",
        "Order Executed With Price/Size",
        "Order Modified 0",
        "Order Modified 1",
        "Recovery Trade",
        "Statistics",
        "Symbol Directory",
        "Symbol Status",
        "System Event",
        "Time",
        "Trade",
    ];
    for name in expected {
        assert!(counts.contains_key(name), "TEST_SEED={fresh}: no message {name:?}");
    }
}

#[test]
fn an_instrument_with_finer_ticks_than_the_format_is_left_out() {
    let known = InstrumentSpec { id: InstrumentId(0), ..instrument(NPN_ZAR, 10) };
    let spec = InstrumentSpec { tick: Decimal::new(1, 9), lot: Decimal::new(10, 0), ..known.clone() };
    assert!(OrderFeedEncoder::includes(&known) && !OrderFeedEncoder::includes(&spec));
    let currencies = (0..4).map(|id| Command::AddCurrency(currency(id, &format!("C{id}"), 8)));
    let open = Command::SetPhase { instrument: spec.id, phase: Phase::Continuous };
    let (mut engine, mut stamper, mut messages) = (Engine::new(), Stamper::default(), Vec::new());
    let mut encoder = OrderFeedEncoder::start(&engine, VenueNanos(1), &mut messages);
    let mut has_opened = false;
    for command in currencies.chain([Command::AddInstrument(Box::new(spec)), open]) {
        let (stamped, mut events) = (stamper.stamp(command), Vec::new());
        engine.apply(&stamped, &mut events);
        encoder.observe(stamped.at, &events, &engine, &mut messages);
        has_opened |= events.iter().any(|event| matches!(event, Event::PhaseChanged { .. }));
    }
    encoder.restart(&engine, VenueNanos(9), &mut messages);
    assert!(has_opened && messages.is_empty(), "{messages:?}");
}
