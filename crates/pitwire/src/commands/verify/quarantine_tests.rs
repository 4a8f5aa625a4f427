//! Commands on which the engine panics, between other commands.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pitwire_configuration::demo;
use pitwire_engine::Engine;
use pitwire_explain::{Question, Viewer};
use pitwire_journal::records::image::encode_state;
use pitwire_journal::{Keep, LogError, OutputHash};
use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Reject, Seq, Side,
    Ticks, VenueNanos,
};
use pitwire_schedule::{ContinuousCalendar, TimerQueue};
use pitwire_venue::{
    EventQueue, POISON, RecoveredVenue, Retention, Venue, explain, recover, refusal, replicate_snapshot,
};

use super::Verify;

const KEEP_ALL: Retention = Retention { keep: Keep::All, may_drop: false };

const NPN: InstrumentId = InstrumentId(0);
const AGL: InstrumentId = InstrumentId(1);
const MEMBER: AccountId = AccountId(0);

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pitwire-quarantine-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts the venue without sockets. The second part holds the lock.
fn start(directory: &Path) -> (Venue, pitwire_disk::DirectoryLock) {
    let RecoveredVenue { sequencer, views, chain, lock, .. } = recover(directory).unwrap();
    let (is_fresh, now) = (sequencer.last() == Seq(0), sequencer.time());
    let timers = TimerQueue::starting(Box::new(ContinuousCalendar), sequencer.engine(), now, now);
    let mut venue = Venue::new(sequencer, views, chain, EventQueue::new(timers));
    if is_fresh {
        for command in demo().commands().unwrap() {
            venue.submit(VenueNanos(1), command, &mut ()).unwrap();
        }
        venue.commit().unwrap();
    }
    (venue, lock)
}

fn stop(mut venue: Venue) {
    venue.commit().unwrap();
    venue.close().unwrap();
}

fn buy(instrument: InstrumentId, price: i64, label: &str) -> Command {
    Command::Enter(NewOrder {
        account: MEMBER,
        instrument,
        side: Side::Buy,
        order_type: OrderType::Limit { price: Ticks(price) },
        lots: Lots(1),
        label: Label::new(label).unwrap(),
        ..NewOrder::PLAIN
    })
}

fn phase(venue: &Venue, instrument: InstrumentId) -> Phase {
    venue.engine().market(instrument).unwrap().phase()
}

/// Returns the state that a restart must restore, byte for byte.
fn state(venue: &Venue) -> (Vec<u8>, [u8; 32], [u8; 32]) {
    let mut bytes = Vec::new();
    encode_state(&venue.engine().image(), &venue.views().image(), &mut bytes);
    (bytes, venue.chain().tape(), venue.chain().output())
}

fn verify(directory: &Path) {
    Verify::of(directory.to_owned()).run().unwrap();
}

fn submit(venue: &mut Venue, command: Command) -> Seq {
    venue.submit(VenueNanos(5), command, &mut ()).unwrap()
}

#[test]
fn a_poison_command_is_refused_and_halts_its_instrument_alone() {
    let scratch = Scratch::new();
    let (mut venue, lock) = start(&scratch.0);
    let resting = submit(&mut venue, buy(NPN, 2_000, "before"));
    let live = venue.engine().live_orders();
    let poison = submit(&mut venue, buy(NPN, 3_000, POISON));
    let refused = Event::Rejected { order: OrderId(poison.0), account: MEMBER, reason: Reject::Quarantined };
    assert_eq!(venue.events(), [refused]);
    assert_eq!((phase(&venue, NPN), phase(&venue, AGL)), (Phase::Halted, Phase::Continuous));
    let engine = venue.engine();
    assert_eq!(engine.live_orders(), live, "what it did before it failed is undone");
    assert!(engine.order(OrderId(resting.0)).is_some(), "what stood before it stands");

    // Other instruments trade on. The halted one takes cancels and no orders.
    let other = submit(&mut venue, buy(AGL, 2_000, "after"));
    assert!(matches!(venue.events()[0], Event::Accepted { order, .. } if order.0 == other.0));
    submit(&mut venue, buy(NPN, 2_000, "halted"));
    assert!(matches!(venue.events()[..], [Event::Rejected { reason: Reject::NotOpen, .. }]));
    submit(&mut venue, Command::Cancel { account: MEMBER, order: OrderId(resting.0) });
    assert!(matches!(venue.events()[0], Event::Cancelled { .. }));
    // An operator opens it again.
    submit(&mut venue, Command::SetPhase { instrument: NPN, phase: Phase::Continuous });
    submit(&mut venue, buy(NPN, 2_000, "open again"));
    assert!(matches!(venue.events()[0], Event::Accepted { .. }));
    venue.commit().unwrap();

    let expected = state(&venue);
    let history = venue.journal().unwrap().history();
    stop(venue);
    drop(lock);
    verify(&scratch.0);
    let (venue, lock) = start(&scratch.0);
    assert_eq!(state(&venue), expected, "a replay from the first command");
    stop(venue);
    replicate_snapshot(&history, KEEP_ALL, |_| ()).unwrap();
    drop(lock);
    let (venue, _lock) = start(&scratch.0);
    assert_eq!(state(&venue), expected, "and from a snapshot");
    stop(venue);
    verify(&scratch.0);
}

/// The process dies after the command is on disk and before its quarantine record is.
#[test]
fn a_restart_finds_the_poison_once_and_does_not_loop() {
    let scratch = Scratch::new();
    let (mut venue, lock) = start(&scratch.0);
    submit(&mut venue, buy(NPN, 2_000, "before"));
    stop(venue);
    drop(lock);
    // The process stops between the command and the record that quarantines it.
    let RecoveredVenue { mut sequencer, mut chain, lock, .. } = recover(&scratch.0).unwrap();
    let (stamped, applied) = sequencer.submit_guarded(VenueNanos(5), buy(NPN, 3_000, POISON), &mut Vec::new()).unwrap();
    assert!(applied.is_err());
    let last = sequencer.last();
    chain.absorb(&stamped, &[refusal(&stamped)]);
    sequencer.commit(OutputHash(chain.seal())).unwrap();
    drop((sequencer, lock));
    assert!(Verify::of(scratch.0.clone()).run().unwrap_err().to_string().contains("makes the engine fail"));

    // Readers of the journal skip it, as the start does.
    let question = Question::Order(OrderId(last.0));
    let answer = explain(&scratch.0, question, Viewer::Operator, false, &mut |_, _| {})
        .unwrap_or_else(|failure| panic!("{failure}"));
    let reasons: Vec<_> = answer.notes.iter().map(|note| (note.what, note.numbers["reason"].as_str())).collect();
    assert_eq!((reasons, answer.last), (vec![("rejected", Some("quarantined"))], last));

    let (venue, lock) = start(&scratch.0);
    assert_eq!(venue.last(), last.next(), "one record more");
    assert_eq!((phase(&venue, NPN), phase(&venue, AGL)), (Phase::Halted, Phase::Continuous));
    let expected = state(&venue);
    stop(venue);
    drop(lock);
    verify(&scratch.0);
    let (venue, _lock) = start(&scratch.0);
    assert_eq!((venue.last(), state(&venue)), (last.next(), expected), "and no more at the next start");
}

/// Several failing commands between others, with restarts: the state equals that of a replay.
#[test]
fn many_poisons_are_taken_out_one_by_one() {
    let scratch = Scratch::new();
    for round in 0..3 {
        let (mut venue, lock) = start(&scratch.0);
        for instrument in (0..4).map(InstrumentId) {
            submit(&mut venue, Command::SetPhase { instrument, phase: Phase::Continuous });
            submit(&mut venue, buy(instrument, 1_000 + round, "one"));
            submit(&mut venue, buy(instrument, 1_000, POISON));
            submit(&mut venue, buy(InstrumentId(8), 900, "other"));
        }
        venue.commit().unwrap();
        let expected = state(&venue);
        stop(venue);
        drop(lock);
        let (venue, _lock) = start(&scratch.0);
        assert_eq!(state(&venue), expected, "round {round}");
        stop(venue);
    }
    verify(&scratch.0);
}

#[test]
fn in_memory_there_is_nothing_to_build_the_engine_from() {
    let timers = TimerQueue::starting(Box::new(ContinuousCalendar), &Engine::new(), VenueNanos(1), VenueNanos(1));
    let mut venue = Venue::in_memory(EventQueue::new(timers));
    for command in demo().commands().unwrap() {
        venue.submit(VenueNanos(1), command, &mut ()).unwrap();
    }
    let error = venue.submit(VenueNanos(5), buy(NPN, 3_000, POISON), &mut ()).unwrap_err();
    assert!(matches!(error, LogError::Unquarantined { .. }));
    assert!(error.to_string().ends_with("with --durability memory there is no log to build the engine anew from"));
}

/// A start, a replica and verify must get the same events as the clients did.
#[test]
fn a_log_that_gives_other_events_than_were_sent_is_refused() {
    let scratch = Scratch::new();
    let (venue, lock) = start(&scratch.0);
    stop(venue);
    drop(lock);
    let RecoveredVenue { mut sequencer, lock, .. } = recover(&scratch.0).unwrap();
    sequencer.submit(VenueNanos(5), buy(NPN, 2_000, "before"), &mut Vec::new()).unwrap();
    sequencer.commit(OutputHash([9; 32])).unwrap();
    let history = sequencer.log().journal().unwrap().history();
    drop((sequencer, lock));
    let says = "gives other events than were sent";
    assert!(recover(&scratch.0).err().unwrap().to_string().contains(says));
    assert!(replicate_snapshot(&history, KEEP_ALL, |_| ()).unwrap_err().to_string().contains(says));
    assert!(Verify::of(scratch.0.clone()).run().unwrap_err().to_string().contains(says));
}
