//! A command that makes the engine fail, in the midst of others.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use pitwire_explain::{Audience, Question};
use pitwire_journal::records::image::encode_state;
use pitwire_journal::{LogError, OutputHash};
use pitwire_model::{
    AccountId, Command, Event, InstrumentId, Label, Lots, NewOrder, OrderId, OrderType, Phase, Reject, Seq, Side,
    Stamped, Ticks, VenueNanos,
};
use pitwire_sequencer::guard::{POISON, refusal};
use pitwire_sequencer::{Sequencer, Timetable, Unscheduled};

use crate::commands::verify::Verify;
use crate::venue::chores::replicate;
use crate::venue::core::Core;
use crate::venue::inquiry::inquire;
use crate::venue::ledger::Ledger;
use crate::venue::preset;
use crate::venue::recovery::{Recovered, recover};

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

/// The venue without sockets, as a start makes it; the lock goes with the second part.
fn start(directory: &Path) -> (Core, pitwire_disk::DirectoryLock) {
    let Recovered { sequencer, views, chain, lock, .. } = recover(directory).unwrap();
    let (is_fresh, now) = (sequencer.last() == Seq(0), sequencer.time());
    let timetable = Timetable::starting(Box::new(Unscheduled), sequencer.engine(), now, now);
    let mut core = Core::new(sequencer, views, chain, timetable);
    if is_fresh {
        for command in preset::demo().commands().unwrap() {
            core.submit_at(VenueNanos(1), command).unwrap();
        }
        core.commit().unwrap();
    }
    (core, lock)
}

fn stop(mut core: Core) {
    core.commit().unwrap();
    if let Ledger::Disk(journal) = core.sequencer.into_log() {
        journal.close().unwrap();
    }
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

fn phase(core: &Core, instrument: InstrumentId) -> Phase {
    core.sequencer.engine().market(instrument).unwrap().phase()
}

/// Everything a restart must bring back, to the byte.
fn state(core: &Core) -> (Vec<u8>, [u8; 32], [u8; 32]) {
    let mut bytes = Vec::new();
    encode_state(&core.sequencer.engine().image(), &core.views.image(), &mut bytes);
    (bytes, core.chain.tape(), core.chain.output())
}

fn verify(directory: &Path) {
    Verify::of(directory.to_owned()).run().unwrap();
}

fn submit(core: &mut Core, command: Command) -> Seq {
    core.submit_at(VenueNanos(5), command).unwrap()
}

#[test]
fn a_poison_command_is_refused_and_halts_its_instrument_alone() {
    let scratch = Scratch::new();
    let (mut core, lock) = start(&scratch.0);
    let resting = submit(&mut core, buy(NPN, 2_000, "before"));
    let live = core.sequencer.engine().live_orders();
    let poison = submit(&mut core, buy(NPN, 3_000, POISON));
    let refused = Event::Rejected { order: OrderId(poison.0), account: MEMBER, reason: Reject::Quarantined };
    assert_eq!(core.events, [refused]);
    assert_eq!((phase(&core, NPN), phase(&core, AGL)), (Phase::Halted, Phase::Continuous));
    let engine = core.sequencer.engine();
    assert_eq!(engine.live_orders(), live, "what it did before it failed is undone");
    assert!(engine.order(OrderId(resting.0)).is_some(), "what stood before it stands");

    // Others are served on; its own instrument takes cancels and no orders.
    let other = submit(&mut core, buy(AGL, 2_000, "after"));
    assert!(matches!(core.events[0], Event::Accepted { order, .. } if order.0 == other.0));
    submit(&mut core, buy(NPN, 2_000, "halted"));
    assert!(matches!(core.events[..], [Event::Rejected { reason: Reject::NotOpen, .. }]));
    submit(&mut core, Command::Cancel { account: MEMBER, order: OrderId(resting.0) });
    assert!(matches!(core.events[0], Event::Cancelled { .. }));
    // Until it is opened again by hand.
    submit(&mut core, Command::SetPhase { instrument: NPN, phase: Phase::Continuous });
    submit(&mut core, buy(NPN, 2_000, "open again"));
    assert!(matches!(core.events[0], Event::Accepted { .. }));
    core.commit().unwrap();

    let expected = state(&core);
    let history = core.sequencer.log().journal().unwrap().history();
    stop(core);
    drop(lock);
    verify(&scratch.0);
    let (core, lock) = start(&scratch.0);
    assert_eq!(state(&core), expected, "a replay from the first command");
    stop(core);
    replicate(&history).unwrap();
    drop(lock);
    let (core, _lock) = start(&scratch.0);
    assert_eq!(state(&core), expected, "and from a snapshot");
    stop(core);
    verify(&scratch.0);
}

/// The process dies after the command is on the disk and before the record that names it.
#[test]
fn a_restart_finds_the_poison_once_and_does_not_loop() {
    let scratch = Scratch::new();
    let (mut core, lock) = start(&scratch.0);
    submit(&mut core, buy(NPN, 2_000, "before"));
    core.commit().unwrap();
    let (_, applied) = core.sequencer.submit_guarded(VenueNanos(5), buy(NPN, 3_000, POISON), &mut Vec::new()).unwrap();
    assert!(applied.is_err());
    let last = core.sequencer.last();
    // As `take_out` would have committed it.
    let mut chain = core.chain.clone();
    let stamped = Stamped { seq: last, at: VenueNanos(5), command: buy(NPN, 3_000, POISON) };
    chain.absorb(&stamped, &[refusal(&stamped)]);
    core.sequencer.commit(OutputHash(chain.seal())).unwrap();
    drop((core, lock));
    assert!(Verify::of(scratch.0.clone()).run().unwrap_err().to_string().contains("makes the engine fail"));

    // Whoever asks the log passes over it, as the start will.
    let question = Question::Order(OrderId(last.0));
    let answer = inquire(&scratch.0, question, Audience::Operator).unwrap_or_else(|failure| panic!("{failure}"));
    let reasons: Vec<_> = answer.notes.iter().map(|note| (note.what, note.numbers["reason"].as_str())).collect();
    assert_eq!((reasons, answer.last), (vec![("rejected", Some("quarantined"))], last));

    let (core, lock) = start(&scratch.0);
    assert_eq!(core.sequencer.last(), last.next(), "one record more");
    assert_eq!((phase(&core, NPN), phase(&core, AGL)), (Phase::Halted, Phase::Continuous));
    let expected = state(&core);
    stop(core);
    drop(lock);
    verify(&scratch.0);
    let (core, _lock) = start(&scratch.0);
    assert_eq!((core.sequencer.last(), state(&core)), (last.next(), expected), "and no more at the next start");
}

/// Poison after poison, among others, with restarts: always the state that a replay gives.
#[test]
fn many_poisons_are_taken_out_one_by_one() {
    let scratch = Scratch::new();
    for round in 0..3 {
        let (mut core, lock) = start(&scratch.0);
        for instrument in (0..4).map(InstrumentId) {
            submit(&mut core, Command::SetPhase { instrument, phase: Phase::Continuous });
            submit(&mut core, buy(instrument, 1_000 + round, "one"));
            submit(&mut core, buy(instrument, 1_000, POISON));
            submit(&mut core, buy(InstrumentId(8), 900, "other"));
        }
        core.commit().unwrap();
        let expected = state(&core);
        stop(core);
        drop(lock);
        let (core, _lock) = start(&scratch.0);
        assert_eq!(state(&core), expected, "round {round}");
        stop(core);
    }
    verify(&scratch.0);
}

#[test]
fn in_memory_there_is_nothing_to_build_the_engine_from() {
    let engine = pitwire_engine::Engine::new();
    let sequencer = Sequencer::resume(engine, Ledger::memory(), Seq(0), VenueNanos(0));
    let timetable = Timetable::starting(Box::new(Unscheduled), sequencer.engine(), VenueNanos(1), VenueNanos(1));
    let mut core = Core::new(
        sequencer,
        pitwire_projections::Views::new(),
        pitwire_journal::records::OutputChain::new(),
        timetable,
    );
    for command in preset::demo().commands().unwrap() {
        core.submit_at(VenueNanos(1), command).unwrap();
    }
    let error = core.submit_at(VenueNanos(5), buy(NPN, 3_000, POISON)).unwrap_err();
    assert!(matches!(error, LogError::Unquarantined { .. }));
    assert!(error.to_string().ends_with("with --durability memory there is no log to build the engine anew from"));
}

/// What was sent and what the log gives must be the same, whoever asks: a start, a replica, verify.
#[test]
fn a_log_that_gives_other_events_than_were_sent_is_refused() {
    let scratch = Scratch::new();
    let (mut core, lock) = start(&scratch.0);
    submit(&mut core, buy(NPN, 2_000, "before"));
    core.sequencer.commit(OutputHash([9; 32])).unwrap();
    let history = core.sequencer.log().journal().unwrap().history();
    drop((core, lock));
    let says = "gives other events than were sent";
    assert!(recover(&scratch.0).err().unwrap().to_string().contains(says));
    assert!(replicate(&history).unwrap_err().to_string().contains(says));
    assert!(Verify::of(scratch.0.clone()).run().unwrap_err().to_string().contains(says));
}
