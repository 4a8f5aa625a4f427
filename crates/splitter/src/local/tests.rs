//! Workers that stop, lag, close or write nonsense, on all transports; every object is accounted
//! for.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use memmap2::{MmapOptions, MmapRaw};
use pitwire_shard::{Consumer, StreamReader, area_name};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::*;
use crate::local::pipe::PipeChannel;
use crate::local::ring::RingChannel;
use crate::stream_checker::{StreamChecker, StreamCounts};
use crate::worker_ends::WorkerEnds;

const WORKERS: u32 = 4;

/// A worker's end, read by the test.
enum Side {
    Pipe(OwnedFd, Box<StreamReader>),
    Ring(Box<Consumer<MmapRaw>>),
}

impl Side {
    /// Reads at most `bytes` of a pipe, or everything of a ring.
    fn take(&mut self, most: usize, mut each: impl FnMut(&[u8])) -> usize {
        match self {
            Self::Pipe(pipe, intake) => {
                let mut left = most;
                while left > 0 {
                    let space = intake.space();
                    let wanted = space.len().min(left);
                    let Ok(read) = rustix::io::read(&*pipe, &mut space[..wanted]) else { break };
                    if read == 0 {
                        break;
                    }
                    intake.filled(read);
                    intake.take(&mut each).unwrap();
                    left -= read;
                }
                most - left
            }
            Self::Ring(ring) => usize::try_from(ring.take(each).unwrap()).unwrap(),
        }
    }
}

fn sides(ends: WorkerEnds) -> Vec<Side> {
    match ends {
        WorkerEnds::Pipes(pipes) => pipes
            .into_iter()
            .map(|pipe| {
                fcntl_setfl(&pipe, fcntl_getfl(&pipe).unwrap() | OFlags::NONBLOCK).unwrap();
                Side::Pipe(pipe, Box::new(StreamReader::new(1 << 16)))
            })
            .collect(),
        WorkerEnds::Rings(paths) => paths
            .into_iter()
            .map(|path| {
                let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
                let bytes = usize::try_from(file.metadata().unwrap().len()).unwrap();
                let mapping = MmapOptions::new().len(bytes).map_raw(&file).unwrap();
                let area = area_name(&mapping).unwrap().map(|name| {
                    let file = std::fs::File::open(path.with_file_name(name)).unwrap();
                    MmapOptions::new().map_raw_read_only(&file).unwrap()
                });
                Side::Ring(Box::new(Consumer::open_with(mapping, area).unwrap()))
            })
            .collect(),
    }
}

fn options(policy: SlowWorkerPolicy) -> TransportOptions {
    let mut options = TransportOptions::new(WORKERS);
    (options.policy, options.ring_bytes) = (policy, 1 << 16);
    options
}

/// Opens rings that refer to received bytes.
fn referring(policy: SlowWorkerPolicy) -> TransportOptions {
    let mut options = options(policy);
    options.area = Some(Arc::new(ring::open_area(&options).unwrap()));
    options
}

/// Places a frame as a read would. In a receive buffer it overwrites the old content, and the read
/// returned more.
fn deal<L: WorkerChannel>(channels: &mut LocalTransport<L>, text: &[u8], objects: &[Object]) {
    let Some(mut receive_buffer) = channels.receive_buffer() else { return channels.send_objects(text, objects) };
    let space = receive_buffer.space();
    space.fill(b'#');
    space[..text.len()].copy_from_slice(text);
    channels.commit_received(text.len() + 50_000);
    channels.send_objects(&space[..text.len()], objects);
}

/// A transport whose workers are read by the test.
fn by_hand<L: WorkerChannel>(options: TransportOptions) -> (LocalTransport<L>, Vec<Side>) {
    let (channels, ends) = L::open_all(&options, 0).unwrap();
    let segments = options.area.clone().map(|area| ReceiveSegments::new(area, WORKERS as usize));
    let mut channels = LocalTransport::with(options, channels, Supervisor::of(None, None));
    channels.segments = segments;
    (channels, sides(ends))
}

/// Trades of some symbols per worker, numbered per symbol as `pitwire tape` does.
#[derive(Default)]
struct Feed {
    numbers: BTreeMap<(u32, u64), u64>,
    sent: [u64; WORKERS as usize],
    turn: u64,
}

impl Feed {
    /// Makes a frame of `trades` trades, of all workers in turn.
    fn frame(&mut self, trades: usize) -> (Vec<u8>, Vec<Object>) {
        let (mut text, mut objects) = (b"[".to_vec(), Vec::new());
        for _ in 0..trades {
            self.turn += 1;
            let worker = u32::try_from(self.turn % u64::from(WORKERS)).unwrap();
            let symbol = self.turn / 7 % 5;
            let number = self.numbers.entry((worker, symbol)).or_default();
            *number += 1;
            let trade = format!(
                "{{\"ev\":\"T\",\"sym\":\"W{worker}S{symbol}\",\"i\":\"{number:012}\",\"x\":4,\"p\":{}.25,\"s\":{},\"t\":1}}",
                self.turn % 90,
                1 + self.turn % 300
            );
            let start = u32::try_from(text.len()).unwrap();
            text.extend_from_slice(trade.as_bytes());
            objects.push(Object { start, end: u32::try_from(text.len()).unwrap(), worker });
            text.push(b',');
            self.sent[worker as usize] += 1;
        }
        text.push(b']');
        (text, objects)
    }
}

/// Worker 0 reads nothing while the others read everything; then it reads the rest.
fn one_stops<L: WorkerChannel>(options: TransportOptions) -> (Vec<StreamCounts>, TransportTotals, Feed) {
    let (mut channels, mut sides) = by_hand::<L>(options);
    let (mut feed, mut tallies) = (Feed::default(), Vec::new());
    tallies.resize_with(WORKERS as usize, || StreamChecker::new(1));
    for round in 0..3_000 {
        let (text, objects) = feed.frame(1 + round % 64);
        deal(&mut channels, &text, &objects);
        channels.hand_over();
        for (side, tally) in sides.iter_mut().zip(&mut tallies).skip(1) {
            side.take(usize::MAX, |record| tally.record(record));
        }
        for (worker, (tally, sent)) in tallies.iter().zip(feed.sent).enumerate().skip(1) {
            assert_eq!(tally.counted().trades, sent, "worker {worker} waits in round {round}");
        }
    }
    assert!(channels.has_pending());
    assert_eq!(channels.totals().behind, 1);
    drain(&mut channels, &mut sides, &mut tallies);
    // Afterwards it keeps up like the others.
    let (text, objects) = feed.frame(64);
    deal(&mut channels, &text, &objects);
    drain(&mut channels, &mut sides, &mut tallies);
    (tallies.iter().map(StreamChecker::counted).collect(), channels.totals(), feed)
}

fn drain<L: WorkerChannel>(channels: &mut LocalTransport<L>, sides: &mut [Side], tallies: &mut [StreamChecker]) {
    for _ in 0..10_000 {
        channels.hand_over();
        for (side, tally) in sides.iter_mut().zip(&mut *tallies) {
            // Odd sizes, so that records are cut anywhere.
            side.take(4_999, |record| tally.record(record));
        }
        if !channels.has_pending() && (0..WORKERS).all(|worker| channels.pending_bytes(worker) == 0) {
            return;
        }
    }
    panic!("never drained: {:?}", channels.totals());
}

/// Checks what holds under every policy: others exact, losses declared, order kept, each object
/// counted once.
fn judge(counted: &[StreamCounts], totals: TransportTotals, feed: &Feed) {
    for (worker, counted) in counted.iter().enumerate() {
        let named = format!("worker {worker}: {counted:?}");
        assert_eq!((counted.lost, counted.duplicated, counted.reordered, counted.faults), (0, 0, 0, 0), "{named}");
        assert_eq!(counted.trades + counted.dropped_declared, feed.sent[worker], "{named}");
        assert_eq!(counted.unnumbered, 0);
        if worker > 0 {
            assert_eq!((counted.trades, counted.gaps), (feed.sent[worker], 0), "{named}");
        }
    }
    let sent: u64 = feed.sent.iter().sum();
    assert_eq!(totals.handed + totals.dropped + totals.conflated + totals.spilled_now, sent, "{totals:?}");
    let all = StreamCounts::sum(counted);
    assert_eq!((all.dropped_declared, all.gaps), (totals.dropped, totals.gaps));
    assert_eq!(all.conflated_trades, totals.conflated);
    assert_eq!(totals.behind, 0);
}

/// Runs a test over pipes, rings, and rings with references.
fn one_stops_under(policy: SlowWorkerPolicy) -> [(StreamCounts, TransportTotals); 3] {
    let ways = [
        one_stops::<PipeChannel>(options(policy)),
        one_stops::<RingChannel>(options(policy)),
        one_stops::<RingChannel>(referring(policy)),
    ];
    ways.map(|(counted, totals, feed)| {
        judge(&counted, totals, &feed);
        (counted[0], totals)
    })
}

#[test]
fn spill_loses_nothing_within_its_limit() {
    for (slow, totals) in one_stops_under(SlowWorkerPolicy::default()) {
        assert_eq!((slow.gaps, totals.dropped), (0, 0));
        assert!(totals.spilled > 1_000);
    }
}

#[test]
fn spill_declares_the_records_above_its_limit() {
    let policy = SlowWorkerPolicy::Spill { bytes: 100_000 };
    for (slow, totals) in one_stops_under(policy) {
        assert_eq!(slow.gaps, 1, "one loss, one gap");
        assert!(totals.dropped > 1_000 && totals.spilled > 500, "{totals:?}");
    }
}

#[test]
fn drop_declares_how_many_objects_are_missing() {
    for (slow, totals) in one_stops_under(SlowWorkerPolicy::Drop) {
        assert_eq!(slow.gaps, 1);
        assert!(totals.dropped > 5_000);
    }
}

#[test]
fn conflate_sends_one_record_per_symbol() {
    for (slow, totals) in one_stops_under(SlowWorkerPolicy::Conflate) {
        assert_eq!((slow.gaps, totals.dropped, slow.conflated), (0, 0, 5));
        assert!(slow.conflated_trades > 5_000);
    }
}

/// A worker that reads a little at a time and never catches up.
fn one_lags<L: WorkerChannel>(options: TransportOptions) {
    let (mut channels, mut sides) = by_hand::<L>(options);
    let (mut feed, mut tallies) = (Feed::default(), Vec::new());
    tallies.resize_with(WORKERS as usize, || StreamChecker::new(1));
    for round in 0..4_000 {
        let (text, objects) = feed.frame(64);
        deal(&mut channels, &text, &objects);
        channels.hand_over();
        for (side, tally) in sides.iter_mut().zip(&mut tallies).skip(1) {
            side.take(usize::MAX, |record| tally.record(record));
        }
        if round % 97 == 0 {
            sides[0].take(30_011, |record| tallies[0].record(record));
        }
    }
    drain(&mut channels, &mut sides, &mut tallies);
    let counted: Vec<_> = tallies.iter().map(StreamChecker::counted).collect();
    judge(&counted, channels.totals(), &feed);
}

#[test]
fn a_lagging_worker_keeps_order_and_count() {
    for policy in [
        SlowWorkerPolicy::Spill { bytes: 50_000 },
        SlowWorkerPolicy::Spill { bytes: 1 },
        SlowWorkerPolicy::Drop,
        SlowWorkerPolicy::Conflate,
    ] {
        one_lags::<PipeChannel>(options(policy));
        one_lags::<RingChannel>(options(policy));
        one_lags::<RingChannel>(referring(policy));
    }
}

#[test]
fn spill_stays_within_its_limit() {
    let (mut channels, _sides) = by_hand::<RingChannel>(options(SlowWorkerPolicy::Spill { bytes: 10_000 }));
    let mut feed = Feed::default();
    for _ in 0..1_000 {
        let (text, objects) = feed.frame(64);
        deal(&mut channels, &text, &objects);
        channels.hand_over();
        assert!(channels.pending_bytes(0) <= 10_000 + (1 << 16));
    }
}

/// Stops one worker after another until no segment is free; then all continue.
#[test]
fn all_workers_get_copies_while_all_segments_are_held() {
    let (mut channels, mut sides) = by_hand::<RingChannel>(referring(SlowWorkerPolicy::default()));
    let (mut feed, mut tallies) = (Feed::default(), Vec::new());
    tallies.resize_with(WORKERS as usize, || StreamChecker::new(1));
    let mut found = [0; 5];
    for round in 0..3_500_usize {
        let (text, objects) = feed.frame(8);
        deal(&mut channels, &text, &objects);
        channels.hand_over();
        let standing = 1 + round / 700;
        for worker in standing..WORKERS as usize {
            sides[worker].take(usize::MAX, |record| tallies[worker].record(record));
            assert_eq!(tallies[worker].counted().trades, feed.sent[worker], "waits for who stands");
        }
        let held = if channels.receive_buffer().is_some() { channels.segments.as_ref().unwrap().held() } else { 64 };
        found[standing - 1] = held.max(found[standing - 1]);
    }
    // Each worker holds its referenced segments: 16, and up to two until that is noticed.
    // Four hold all.
    for (standing, held) in (1..=3).zip(found) {
        assert!((16 * standing..=18 * standing).contains(&held), "{found:?}");
    }
    assert_eq!(found[3..], [64, 64]);
    drain(&mut channels, &mut sides, &mut tallies);
    let (text, objects) = feed.frame(64);
    deal(&mut channels, &text, &objects);
    drain(&mut channels, &mut sides, &mut tallies);
    let counted: Vec<_> = tallies.iter().map(StreamChecker::counted).collect();
    assert!(counted.iter().all(|one| (one.gaps, one.lost, one.faults) == (0, 0, 0)), "{counted:?}");
    assert_eq!(counted.iter().map(|one| one.trades).collect::<Vec<_>>(), feed.sent);
    assert!(channels.receive_buffer().is_some() && channels.segments.as_ref().unwrap().held() <= 1, "given back");
}

/// Rings of two workers, of which the first reads nothing.
#[derive(Default)]
struct StalledWorker {
    heads: [u64; 2],
    is_new: bool,
}

impl ReferenceHolders for StalledWorker {
    fn head(&self, worker: usize) -> u64 {
        self.heads[worker]
    }

    fn has_taken(&mut self, worker: usize, head: u64) -> bool {
        worker == 1 || head == 0
    }

    fn refer(&mut self, worker: usize, _: bool) {
        assert!(worker == 0 && !self.is_new, "one that takes everything is always referred to");
    }
}

/// A restarted program has new rings: the segments that the old one held are free, and references
/// are allowed again.
#[test]
fn a_restarted_program_holds_no_segments() {
    let area = Arc::new(ring::open_area(&options(SlowWorkerPolicy::Restart)).unwrap());
    let (mut segments, mut rings) = (ReceiveSegments::new(area, 2), StalledWorker::default());
    let mut receive = |rings: &mut StalledWorker, times: usize| {
        for _ in 0..times {
            let space = segments.next(rings).expect("a segment").space().len();
            assert_eq!(space, 256 << 10);
            segments.commit_received(space);
            rings.heads = rings.heads.map(|head| head + 8);
        }
        let held = segments.held();
        if !rings.is_new && times > 30 {
            segments.release_all();
        }
        held
    };
    assert_eq!(receive(&mut rings, 10), 9);
    let held = receive(&mut rings, 100);
    assert!((16..=18).contains(&held), "{held}");
    let mut rings = StalledWorker { heads: [0; 2], is_new: true };
    assert_eq!(receive(&mut rings, 1), 0, "all are free again");
    assert_eq!(receive(&mut rings, 10), 10, "but the one being filled");
}

fn notes<L: WorkerChannel>() {
    let note = br#"{"ev":"gap","sym":"","conn":1,"at_ns":5}"#;
    for policy in [SlowWorkerPolicy::default(), SlowWorkerPolicy::Drop, SlowWorkerPolicy::Conflate] {
        let (mut channels, mut sides) = by_hand::<L>(options(policy));
        let mut feed = Feed::default();
        let mut found: Vec<Vec<u8>> = Vec::new();
        let (text, objects) = feed.frame(8);
        channels.send_objects(&text, &objects[..4]);
        channels.send_note(1, note);
        channels.send_objects(&text, &objects[4..]);
        channels.hand_over();
        sides[1].take(usize::MAX, |record| found.push(record.to_vec()));
        let mine: Vec<&[u8]> = objects
            .iter()
            .filter(|object| object.worker == 1)
            .map(|object| &text[object.start as usize..object.end as usize])
            .collect();
        assert_eq!(found, [mine[0], note, mine[1]], "{policy}");
    }
}

#[test]
fn a_note_keeps_its_position() {
    notes::<PipeChannel>();
    notes::<RingChannel>();
}

/// A note for a worker that is behind keeps its position in the queue, or is merged into the gap
/// record.
fn late_notes<L: WorkerChannel>(policy: SlowWorkerPolicy) {
    let (mut channels, mut sides) = by_hand::<L>(options(policy));
    let (mut feed, mut tally) = (Feed::default(), StreamChecker::new(1));
    let flood = |channels: &mut LocalTransport<L>, feed: &mut Feed| {
        for _ in 0..1_500 {
            let (text, objects) = feed.frame(64);
            deal(channels, &text, &objects);
            channels.hand_over();
        }
    };
    flood(&mut channels, &mut feed);
    channels.connected(2);
    channels.send_note(0, br#"{"ev":"gap","sym":"","conn":1,"at_ns":5}"#);
    flood(&mut channels, &mut feed);
    let mut gap_records = Vec::new();
    for _ in 0..10_000 {
        channels.hand_over();
        sides[0].take(usize::MAX, |record| {
            tally.record(record);
            if record.starts_with(b"{\"ev\":\"gap\"") {
                gap_records.push(String::from_utf8(record.to_vec()).unwrap());
            }
        });
    }
    assert!(
        gap_records.iter().any(|gap| gap.contains("\"conn\":1,") || gap.contains("\"conn\":2,")),
        "{policy}: {gap_records:?}"
    );
    let counted = tally.counted();
    assert_eq!(counted.trades + counted.dropped_declared, feed.sent[0], "{policy}: {counted:?}");
    assert_eq!(counted.lost, 0);
}

#[test]
fn a_note_for_a_slow_worker_is_not_lost() {
    for policy in [
        SlowWorkerPolicy::default(),
        SlowWorkerPolicy::Spill { bytes: 10_000 },
        SlowWorkerPolicy::Drop,
        SlowWorkerPolicy::Conflate,
    ] {
        late_notes::<PipeChannel>(policy);
        late_notes::<RingChannel>(policy);
    }
}

#[test]
fn losses_are_counted_without_gap_records() {
    let mut wanted = options(SlowWorkerPolicy::Drop);
    wanted.gap_records = false;
    let (counted, totals, feed) = one_stops::<RingChannel>(wanted);
    assert_eq!((counted[0].gaps, totals.gaps), (0, 0));
    assert_eq!(counted[0].trades + totals.dropped, feed.sent[0]);
}

fn closes<L: WorkerChannel>(policy: SlowWorkerPolicy) {
    let (mut channels, mut sides) = by_hand::<L>(options(policy));
    let (mut feed, mut tallies) = (Feed::default(), Vec::new());
    tallies.resize_with(WORKERS as usize, || StreamChecker::new(1));
    drop(sides.remove(0));
    tallies.remove(0);
    for _ in 0..200 {
        let (text, objects) = feed.frame(64);
        deal(&mut channels, &text, &objects);
        channels.hand_over();
        for (side, tally) in sides.iter_mut().zip(&mut tallies) {
            side.take(usize::MAX, |record| tally.record(record));
        }
    }
    for (worker, tally) in tallies.iter().enumerate() {
        assert_eq!(tally.counted().trades, feed.sent[worker + 1]);
    }
    let totals = channels.totals();
    assert_eq!(totals.handed + totals.dropped, feed.sent.iter().sum::<u64>());
    assert!(totals.dropped > 2_000, "{totals:?}");
}

#[test]
fn a_worker_that_closes_its_pipe_costs_others_nothing() {
    for policy in
        [SlowWorkerPolicy::default(), SlowWorkerPolicy::Drop, SlowWorkerPolicy::Conflate, SlowWorkerPolicy::Block]
    {
        closes::<PipeChannel>(policy);
    }
}

fn blocks<L: WorkerChannel>() {
    let (mut channels, sides) = by_hand::<L>(options(SlowWorkerPolicy::Block));
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            let mut sides = sides;
            let mut tallies: Vec<StreamChecker> = (0..WORKERS).map(|_| StreamChecker::new(1)).collect();
            loop {
                let last = stop.load(Ordering::Acquire);
                let mut taken = 0;
                for (side, tally) in sides.iter_mut().zip(&mut tallies) {
                    taken += side.take(10_007, |record| tally.record(record));
                }
                if last && taken == 0 {
                    return tallies.iter().map(StreamChecker::counted).collect::<Vec<_>>();
                }
                std::thread::yield_now();
            }
        })
    };
    let mut feed = Feed::default();
    for round in 0..4_000 {
        let (text, objects) = feed.frame(64);
        deal(&mut channels, &text, &objects);
        // Rarely, so that more than a ring holds arrives in between.
        if round % 100 == 0 {
            channels.hand_over();
        }
    }
    channels.hand_over();
    while channels.has_pending() {
        channels.hand_over();
    }
    stop.store(true, Ordering::Release);
    let counted = reader.join().unwrap();
    judge(&counted, channels.totals(), &feed);
    assert_eq!((StreamCounts::sum(&counted).gaps, channels.totals().dropped), (0, 0));
}

#[test]
fn block_waits_and_loses_nothing() {
    blocks::<PipeChannel>();
    blocks::<RingChannel>();
}

#[test]
fn block_ends_with_the_run() {
    let wanted = options(SlowWorkerPolicy::Block);
    wanted.stop.store(true, Ordering::Relaxed);
    let (mut channels, _sides) = by_hand::<RingChannel>(wanted);
    let mut feed = Feed::default();
    for _ in 0..2_000 {
        let (text, objects) = feed.frame(64);
        deal(&mut channels, &text, &objects);
        channels.hand_over();
    }
    assert!(channels.totals().dropped > 0);
}

#[test]
fn an_object_too_long_for_its_ring_is_declared() {
    let (mut channels, mut sides) = by_hand::<RingChannel>(options(SlowWorkerPolicy::default()));
    let long = format!("{{\"sym\":\"W1\",\"x\":\"{}\"}}", "y".repeat(1 << 20));
    let text = format!("{{\"n\":1}}{long}{{\"n\":2}}").into_bytes();
    let end = u32::try_from(long.len()).unwrap() + 7;
    let object = |start, end| Object { start, end, worker: 1 };
    channels.send_objects(&text, &[object(0, 7), object(7, end), object(end, end + 7)]);
    channels.hand_over();
    let mut found = Vec::new();
    sides[1].take(usize::MAX, |record| found.push(String::from_utf8(record.to_vec()).unwrap()));
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[1].starts_with("{\"ev\":\"gap\"") && found[1].ends_with(",\"dropped\":1}"), "{found:?}");
    assert_eq!(channels.totals().dropped, 1);
}

/// An object that never fits, for a worker that is behind, does not hold up what follows, whatever
/// the policy.
#[test]
fn an_object_too_long_for_the_ring_of_a_slow_worker_holds_up_nothing() {
    for policy in [SlowWorkerPolicy::default(), SlowWorkerPolicy::Drop, SlowWorkerPolicy::Conflate] {
        let (mut channels, mut sides) = by_hand::<RingChannel>(options(policy));
        let (mut feed, mut tallies) = (Feed::default(), Vec::new());
        tallies.resize_with(WORKERS as usize, || StreamChecker::new(1));
        while !channels.workers[0].is_behind {
            let (text, objects) = feed.frame(64);
            deal(&mut channels, &text, &objects);
        }
        let long = format!("{{\"sym\":\"W0\",\"x\":\"{}\"}}", "y".repeat(1 << 20));
        channels
            .send_objects(long.as_bytes(), &[Object { start: 0, end: u32::try_from(long.len()).unwrap(), worker: 0 }]);
        feed.sent[0] += 1;
        let (text, objects) = feed.frame(64);
        deal(&mut channels, &text, &objects);
        drain(&mut channels, &mut sides, &mut tallies);
        let all = StreamCounts::sum(&tallies.iter().map(StreamChecker::counted).collect::<Vec<_>>());
        let totals = channels.totals();
        assert!(totals.dropped >= 1 && totals.dropped == all.dropped_declared, "{policy}: {totals:?}");
        assert_eq!(totals.handed + totals.dropped + totals.conflated, feed.sent.iter().sum::<u64>(), "{policy}");
    }
}

#[test]
fn an_object_of_one_mebibyte_passes_a_pipe() {
    let (mut channels, mut sides) = by_hand::<PipeChannel>(options(SlowWorkerPolicy::default()));
    let long = format!("{{\"sym\":\"W1\",\"x\":\"{}\"}}", "y".repeat(1 << 20));
    let end = u32::try_from(long.len()).unwrap();
    let mut lengths = Vec::new();
    for _ in 0..5 {
        channels.send_objects(long.as_bytes(), &[Object { start: 0, end, worker: 1 }]);
    }
    for _ in 0..1_000 {
        channels.hand_over();
        sides[1].take(100_003, |record| lengths.push(record.len()));
    }
    assert_eq!(lengths, [long.len(); 5]);
}

/// Objects that no object reader makes: outside the text, or for a worker that does not exist.
#[test]
fn impossible_objects_are_counted() {
    let (mut channels, _sides) = by_hand::<PipeChannel>(options(SlowWorkerPolicy::default()));
    let object = |start, end, worker| Object { start, end, worker };
    channels.send_objects(b"{}", &[object(0, 2, 4), object(0, 3, 0), object(2, 1, 0), object(u32::MAX, u32::MAX, 1)]);
    channels.hand_over();
    assert_eq!(channels.totals().dropped, 4);
}

#[test]
fn stale_rings_are_removed_and_live_ones_stay() {
    let directory = std::env::temp_dir().join(format!("pitwire-left-overs-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let (dead, foreign) = (directory.join("pitwire-split-1-2-0-0"), directory.join("another"));
    std::fs::write(&dead, b"x").unwrap();
    std::fs::write(&foreign, b"x").unwrap();
    let mut wanted = options(SlowWorkerPolicy::Drop);
    wanted.ring_directory.clone_from(&directory);
    let count = || std::fs::read_dir(&directory).unwrap().count();
    let (living, _) = by_hand::<RingChannel>(wanted.clone());
    assert!(!dead.exists() && foreign.exists());
    assert_eq!(count(), 1 + WORKERS as usize);
    let (second, _) = by_hand::<RingChannel>(wanted);
    assert_eq!(count(), 1 + 2 * WORKERS as usize, "the living one's rings stay");
    drop((living, second));
    assert_eq!(count(), 1, "files go with their splitter");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_ring_that_cannot_be_made_is_reported_with_its_remedy() {
    let mut wanted = options(SlowWorkerPolicy::Drop);
    wanted.ring_bytes = 5000;
    let failure = open_shm(wanted.clone()).err().unwrap();
    assert!(failure.what.contains("cannot make the ring") && failure.remedy.contains("--transport pipe"), "{failure}");
    wanted.ring_directory = "/nonexistent".into();
    assert!(open_shm(wanted).is_err());
}

#[test]
fn restart_needs_a_program() {
    let failure = open_pipe(options(SlowWorkerPolicy::Restart)).err().unwrap();
    assert!(failure.what.contains("without a program"), "{failure}");
}
