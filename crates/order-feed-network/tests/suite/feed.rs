//! Random days over UDP lines that lose datagrams: a reader's books equal the engine's, with MITCH
//! and with ITCH.
//!
//! Does        play the random worlds of the engine's own tests (calls, halts, breakers, busts,
//!             icebergs, hidden orders), send the feed over two lossy lines, and read it.
//! Holds       the reader gets each message once and in order; its books have the orders, prices,
//!             displayed quantities and places of the engine's; no message names a hidden order. A
//!             reader of ITCH has other ids of replaced orders.
//! To repeat   `TEST_SEED=<seed> cargo test -p pitwire-order-feed-network --test suite feed`. The
//!             lost datagrams differ.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::flow::Flow;
use crate::common::world::{Stamper, opening_commands};
use crate::common::{SplitMix64, test_seed};
use pitwire_engine::Engine;
use pitwire_model::{Event, InstrumentId, OrderId, OrderType, Side, VenueNanos};
use pitwire_order_feed::itch::{AddOrder, BigEndian, ItchMessage};
use pitwire_order_feed::{
    GlimpseLogin, GlimpsePacket, Letter, MitchEncode, MitchMessage, MitchPrice, MoldWriter, OrderDelete, UnitWriter,
};
use pitwire_order_feed_network::{
    FeedAddresses, FeedEncoding, FeedMessage, FeedReader, OrderFeed, ReaderOptions, RecoveryPort,
};

/// Bound of every wait. A test that passes does not come near it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Highest price of ITCH in units of 1e-8. It stands for all higher prices.
const ITCH_PRICES_END: i64 = 42_949_672_950_000;

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Forwards datagrams to a reader and loses some of them.
struct LossyLine {
    address: SocketAddr,
    readers: Sender<SocketAddr>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl LossyLine {
    fn start(lost_percent: u64, seed: u64) -> LossyLine {
        let socket = UdpSocket::bind(local(0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let address = socket.local_addr().unwrap();
        let (readers, joining) = channel();
        let stops = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stops);
        let thread = thread::spawn(move || {
            let (mut random, mut targets, mut buffer) = (SplitMix64::new(seed), Vec::new(), [0; 2_000]);
            while !stop.load(Ordering::SeqCst) {
                let Ok(length) = socket.recv(&mut buffer) else { continue };
                targets.extend(joining.try_iter());
                for target in &targets {
                    if random.next() % 100 >= lost_percent {
                        socket.send_to(&buffer[..length], target).unwrap();
                    }
                }
            }
        });
        LossyLine { address, readers, stops, thread: Some(thread) }
    }
}

impl Drop for LossyLine {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn join(recovery: SocketAddr, encoding: FeedEncoding, lines: &[LossyLine]) -> FeedReader {
    let options =
        ReaderOptions { lines: vec![local(0); lines.len()], recovery, encoding, source: None, interface: None };
    let reader = FeedReader::join(options).unwrap();
    for (line, address) in lines.iter().zip(reader.addresses()) {
        line.readers.send(*address).unwrap();
    }
    reader
}

/// Returns the first difference between the books of a reader and those of the engine.
fn difference(engine: &Engine, encoding: FeedEncoding, reader: &FeedReader) -> Option<String> {
    let is_itch = encoding == FeedEncoding::Itch;
    for market in engine.markets().iter().filter(|market| encoding.includes(&market.spec)) {
        let InstrumentId(id) = market.spec.id;
        let tick = MitchPrice::of(market.spec.tick).unwrap().0;
        for side in Side::BOTH {
            let rebuilt = reader.books().orders(id, side).map(|order| (order.id, order.price.0, order.quantity));
            let venue = market.book().orders(side).map(|order| (order.id.0, order.price.0 * tick, order.open));
            // ITCH has references instead of ids.
            let shown = |(id, price, quantity)| (if is_itch { 0 } else { id }, price, quantity);
            let fits = |(_, price, _): &(u64, i64, u32)| !is_itch || *price < ITCH_PRICES_END;
            let (rebuilt, venue): (Vec<_>, Vec<_>) =
                (rebuilt.map(shown).filter(fits).collect(), venue.map(shown).filter(fits).collect());
            if rebuilt != venue {
                return Some(format!("{side:?} of {}: reader {rebuilt:?}, engine {venue:?}", market.spec.name));
            }
        }
    }
    None
}

fn order_of(message: &FeedMessage) -> Option<OrderId> {
    let id = match message {
        FeedMessage::Mitch(MitchMessage::OrderAdd(add)) => add.order_id,
        FeedMessage::Mitch(MitchMessage::OrderDelete(delete)) => delete.order_id,
        FeedMessage::Mitch(MitchMessage::OrderModify(modify)) => modify.order_id,
        FeedMessage::Mitch(MitchMessage::OrderExecution(execution)) => execution.order_id,
        FeedMessage::Mitch(MitchMessage::PricedExecution(execution)) => execution.order_id,
        FeedMessage::Itch(ItchMessage::AddOrder(add)) => add.order_reference.0,
        FeedMessage::Itch(ItchMessage::OrderDelete(delete)) => delete.order_reference.0,
        FeedMessage::Itch(ItchMessage::OrderReplace(replace)) => replace.original_order_reference.0,
        FeedMessage::Itch(ItchMessage::OrderCancel(cancel)) => cancel.order_reference.0,
        FeedMessage::Itch(ItchMessage::OrderExecuted(execution)) => execution.order_reference.0,
        FeedMessage::Itch(ItchMessage::OrderExecutedWithPrice(execution)) => execution.order_reference.0,
        _ => return None,
    };
    Some(OrderId(id))
}

/// Reads until the books of the reader equal the engine's. Checks the numbers of the messages.
fn catch_up(engine: &Engine, encoding: FeedEncoding, reader: &mut FeedReader, hidden: &BTreeSet<OrderId>) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut expected = reader.next_number();
        let mut visit = |number, message: &FeedMessage| {
            assert_eq!(number, expected, "each message once and in order");
            expected += 1;
            let named = order_of(message);
            assert!(named.is_none_or(|id| !hidden.contains(&id)), "hidden order in {message:?}");
        };
        reader.poll(Duration::from_millis(20), &mut visit).unwrap();
        let Some(difference) = difference(engine, encoding, reader) else { return };
        assert!(Instant::now() < deadline, "{difference}; {:?}", reader.counts());
    }
}

fn recovery_port(encoding: FeedEncoding) -> RecoveryPort {
    match encoding {
        FeedEncoding::Mitch => TcpListener::bind(local(0)).unwrap().into(),
        FeedEncoding::Itch => RecoveryPort::open_itch(local(0)).unwrap(),
    }
}

/// A snapshot of the feed is at most so old.
const SNAPSHOT_AGE: Duration = Duration::from_millis(250);

/// Plays one world over lines that lose `lost_percent` of the datagrams.
fn play(seed: u64, encoding: FeedEncoding, lost_percent: u64) -> (FeedReader, FeedReader) {
    println!("TEST_SEED={seed}, {lost_percent} % lost");
    let (mut flow, mut random) = (Flow::new(seed), SplitMix64::new(seed));
    let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
    let (mut hidden, mut displayed) = (BTreeSet::new(), BTreeSet::new());
    let mut opening = opening_commands(flow.most_resting, flow.wealth).into_iter();
    let lines: Vec<LossyLine> = (0..2).map(|line| LossyLine::start(lost_percent, seed + line)).collect();
    let addresses =
        FeedAddresses { lines: lines.iter().map(|line| line.address).collect(), recovery: recovery_port(encoding) };
    let mut feed = OrderFeed::start(addresses, &engine, VenueNanos(0)).unwrap();
    let mut first = join(feed.recovery_address(), encoding, &lines);
    let mut late = None;
    for step in 0..6_000 {
        stamper.at.0 += flow.wait();
        let next = stamper.seq.next();
        let at = VenueNanos(stamper.at.0 + 1000);
        let stamped = stamper.stamp(opening.next().unwrap_or_else(|| flow.command(next, at)));
        let mut events = Vec::new();
        engine.apply(&stamped, &mut events);
        flow.learn(&events);
        for event in &events {
            // The flow uses the ids of ended orders again.
            match event {
                Event::Accepted { order, order_type: OrderType::Hidden { .. }, .. } if !displayed.contains(order) => {
                    hidden.insert(*order);
                }
                Event::Accepted { order, .. } => {
                    displayed.insert(*order);
                    hidden.remove(order);
                }
                _ => {}
            }
        }
        feed.observe(stamped.at, &events, &engine);
        if random.next() % 3 > 0 {
            feed.release(&engine, stamped.at);
        }
        if step == 3_000 {
            // The feed thread has sent all, and encodes the next snapshot anew.
            while feed.queued_bytes() > 0 {
                thread::yield_now();
            }
            thread::sleep(SNAPSHOT_AGE);
            late = Some(join(feed.recovery_address(), encoding, &lines));
        }
        if step % 1_000 == 999 {
            feed.release(&engine, stamped.at);
            catch_up(&engine, encoding, &mut first, &hidden);
        }
    }
    let mut late = late.unwrap();
    catch_up(&engine, encoding, &mut late, &hidden);
    assert_eq!(first.counts().snapshots, 1, "the first reader does not start anew");
    (first, late)
}

#[test]
fn everything_arrives_with_one_percent_lost_on_each_line() {
    let (first, late) = play(test_seed(), FeedEncoding::Mitch, 1);
    for reader in [&first, &late] {
        let counts = reader.counts();
        assert_eq!((counts.misfits, counts.dropped), (0, 0), "{counts:?}");
        let lines = [0, 1].map(|line| reader.line_counts(line));
        assert!(lines.iter().all(|line| line.units > 0 && line.invalid == 0 && line.foreign == 0), "{lines:?}");
    }
    let lost: u64 = [0, 1].iter().map(|line| first.line_counts(*line).gaps).sum();
    assert!(lost > 0 && first.counts().duplicates > 0, "the lines lose datagrams, and each fills the other's gaps");
    assert!(!first.line_delays().is_empty());
}

#[test]
fn replays_fill_what_both_lines_have_lost() {
    let (first, _) = play(test_seed(), FeedEncoding::Mitch, 25);
    let counts = first.counts();
    assert!(counts.replays > 0 && counts.replayed_messages > 0, "{counts:?}");
    assert_eq!((counts.misfits, counts.dropped), (0, 0), "{counts:?}");
}

#[test]
fn readers_of_itch_join_by_snapshots_and_get_everything_from_lossy_lines() {
    let (first, late) = play(test_seed(), FeedEncoding::Itch, 10);
    // A market that halts leaves the late reader too few messages to lose one on both lines.
    assert!(first.counts().replays > 0 && first.counts().replayed_messages > 0, "{:?}", first.counts());
    for reader in [&first, &late] {
        let counts = reader.counts();
        assert_eq!((counts.misfits, counts.dropped, counts.snapshots), (0, 0, 1), "{counts:?}");
    }
    let [first, late] = [first, late].map(|reader| reader.next_number() - reader.counts().messages);
    assert!(first < late, "the second snapshot stands for more messages: {first}, {late}");
}

fn wait_for(reader: &mut FeedReader, what: &str, is_there: impl Fn(&FeedReader) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_there(reader) {
        drop(reader.poll(Duration::from_millis(20), &mut |_, _| {}));
        assert!(Instant::now() < deadline, "{what}: {:?}", reader.counts());
    }
}

fn start_feed(recovery: RecoveryPort, lines: &[LossyLine], engine: &Engine) -> OrderFeed {
    let lines = lines.iter().map(|line| line.address).collect();
    OrderFeed::start(FeedAddresses { lines, recovery }, engine, VenueNanos(0)).unwrap()
}

fn world() -> (Engine, Stamper) {
    let (mut engine, mut stamper) = (Engine::new(), Stamper::default());
    for command in opening_commands(1_000, 100) {
        engine.apply(&stamper.stamp(command), &mut Vec::new());
    }
    (engine, stamper)
}

#[test]
fn a_reader_joins_again_when_the_venue_starts_again() {
    let (engine, _) = world();
    for encoding in [FeedEncoding::Mitch, FeedEncoding::Itch] {
        let lines = [LossyLine::start(0, 1)];
        let feed = start_feed(recovery_port(encoding), &lines, &engine);
        let recovery = feed.recovery_address();
        let mut reader = join(recovery, encoding, &lines);
        wait_for(&mut reader, "the first start", |reader| reader.counts().snapshots == 1 && reader.is_joined());
        drop(feed);
        let again = match encoding {
            FeedEncoding::Mitch => TcpListener::bind(recovery).unwrap().into(),
            FeedEncoding::Itch => RecoveryPort::open_itch(recovery).unwrap(),
        };
        let _feed = start_feed(again, &lines, &engine);
        wait_for(&mut reader, "a second start", |reader| {
            reader.counts().snapshots == 2 && reader.is_joined() && difference(&engine, encoding, reader).is_none()
        });
    }
}

/// A venue whose snapshots have one order and continue with message 9.
fn send_snapshots(listener: &TcpListener, session: [u8; 10]) {
    let mut answer = Vec::new();
    let order = AddOrder { side: Letter(b'B'), shares: BigEndian(5), ..AddOrder::default() };
    for packet in [
        GlimpsePacket::LoginAccepted { session },
        GlimpsePacket::Message(order.into()),
        GlimpsePacket::Snapshot { next_number: 9 },
    ] {
        packet.encode(&mut answer);
    }
    for socket in listener.incoming() {
        let mut socket = socket.unwrap();
        socket.read_exact(&mut [0; GlimpseLogin::BYTES]).unwrap();
        socket.write_all(&answer).unwrap();
    }
}

#[test]
fn a_reader_of_itch_joins_again_when_missing_messages_do_not_come() {
    let session = *b"0000000001";
    let RecoveryPort::Itch { requests: silent, snapshots } = RecoveryPort::open_itch(local(0)).unwrap() else {
        panic!("a port of ITCH")
    };
    // The thread ends with the process.
    thread::spawn(move || send_snapshots(&snapshots, session));
    let (lines, recovery) = (vec![local(0)], silent.local_addr().unwrap());
    let options = ReaderOptions { lines, recovery, encoding: FeedEncoding::Itch, source: None, interface: None };
    let mut reader = FeedReader::join(options).unwrap();
    assert_eq!((reader.next_number(), reader.books().order_count()), (9, 1));
    // The lowest byte of the number: three messages precede the heartbeat.
    let mut heartbeat = MoldWriter::new(session).heartbeat();
    heartbeat[17] = 12;
    silent.send_to(&heartbeat, reader.addresses()[0]).unwrap();
    wait_for(&mut reader, "a second snapshot", |reader| reader.counts().snapshots == 2);
    assert_eq!((reader.next_number(), reader.books().order_count()), (9, 1));
    assert!(reader.is_joined() && reader.counts().replays == 60, "{:?}", reader.counts());
}

#[test]
fn packets_of_a_forged_session_change_nothing() {
    let (engine, _) = world();
    let lines = [LossyLine::start(0, 1)];
    let feed = start_feed(recovery_port(FeedEncoding::Itch), &lines, &engine);
    let mut reader = join(feed.recovery_address(), FeedEncoding::Itch, &lines);
    let forger = UdpSocket::bind(local(0)).unwrap();
    let mut forged = MoldWriter::new(*b"9999999999").heartbeat();
    forged[17] = 200;
    forger.send_to(&forged, reader.addresses()[0]).unwrap();
    wait_for(&mut reader, "a second snapshot", |reader| reader.counts().snapshots == 2 && reader.is_joined());
    forger.send_to(&forged, reader.addresses()[0]).unwrap();
    wait_for(&mut reader, "a foreign packet", |reader| reader.line_counts(0).foreign == 1);
    wait_for(&mut reader, "the books", |reader| difference(&engine, FeedEncoding::Itch, reader).is_none());
    assert_eq!(reader.counts().snapshots, 2);
}

#[test]
fn forged_datagrams_change_nothing_and_are_counted() {
    let (engine, _) = world();
    let lines = [LossyLine::start(0, 1)];
    let feed = start_feed(recovery_port(FeedEncoding::Mitch), &lines, &engine);
    let mut reader = join(feed.recovery_address(), FeedEncoding::Mitch, &lines);
    let target = reader.addresses()[0];
    let mut message = Vec::new();
    OrderDelete { nanosecond: 0, order_id: 1 }.encode(&mut message);
    let mut writer = UnitWriter::default();
    for _ in 0..10_000 {
        writer.add(&message, |_, _| {});
    }
    let mut far_ahead = Vec::new();
    writer.finish(|_, unit| far_ahead.extend_from_slice(unit));
    let foreign = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    let neighbour = UdpSocket::bind(local(0)).unwrap();
    foreign.send_to(&far_ahead, target).unwrap();
    for datagram in [&b""[..], b"short", &far_ahead[1..], &[far_ahead.as_slice(), &[0]].concat(), &[255; 1_400]] {
        neighbour.send_to(datagram, target).unwrap();
    }
    neighbour.send_to(&far_ahead, target).unwrap();
    let before = reader.next_number();
    wait_for(&mut reader, "all forged datagrams", |reader| {
        let line = reader.line_counts(0);
        line.foreign == 1 && line.invalid == 5 && reader.counts().dropped == 1
    });
    assert_eq!(reader.next_number(), before, "the venue was asked, and it did not send these messages");
    assert_eq!((reader.counts().snapshots, reader.counts().misfits), (1, 0));
    assert_eq!(difference(&engine, FeedEncoding::Mitch, &reader), None);
}

/// Returns a free port of a multicast group, and the address from which this host sends to it.
/// `None` if the system has no route to multicast groups.
fn multicast_line() -> Option<(SocketAddr, IpAddr)> {
    let group = Ipv4Addr::new(239, 255, 77, 1);
    let port = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| socket.local_addr()).ok()?.port();
    let probe = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    probe.join_multicast_v4(&group, &Ipv4Addr::UNSPECIFIED).ok()?;
    probe.connect((group, port)).ok()?;
    probe.send(b"probe").ok()?;
    Some(((group, port).into(), probe.local_addr().ok()?.ip()))
}

#[test]
fn two_readers_of_a_host_receive_a_multicast_group() {
    let Some((line, source)) = multicast_line() else {
        println!("skipped two_readers_of_a_host_receive_a_multicast_group: no route to multicast groups");
        return;
    };
    let (mut engine, mut stamper) = world();
    let addresses = FeedAddresses { lines: vec![line], recovery: TcpListener::bind(local(0)).unwrap().into() };
    let mut feed = OrderFeed::start(addresses, &engine, VenueNanos(0)).unwrap();
    let (recovery, encoding) = (feed.recovery_address(), FeedEncoding::Mitch);
    let options = ReaderOptions { lines: vec![line], recovery, encoding, source: Some(source), interface: None };
    let mut readers = [0, 1].map(|_| FeedReader::join(options.clone()).unwrap());
    let mut flow = Flow::new(7);
    for _ in 0..500 {
        stamper.at.0 += flow.wait();
        let next = stamper.seq.next();
        let stamped = stamper.stamp(flow.command(next, VenueNanos(stamper.at.0 + 1000)));
        let mut events = Vec::new();
        engine.apply(&stamped, &mut events);
        flow.learn(&events);
        feed.observe(stamped.at, &events, &engine);
    }
    feed.release(&engine, stamper.at);
    for reader in &mut readers {
        catch_up(&engine, encoding, reader, &BTreeSet::new());
        let counts = reader.line_counts(0);
        assert!(counts.units > 0 && counts.foreign == 0, "{counts:?}");
    }
}
