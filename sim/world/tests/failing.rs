//! A device that fails at the N-th operation, for every N: no acknowledgement after it, and everything acknowledged
//! before it is found again.

mod common;

use common::{Writer, judge, open};
use pitwire_ports::{Log, LogError, OutputHash};
use pitwire_world::{Crash, FaultyStorage, Trouble};

const TURNS: u64 = 24;

/// Runs until the first error; returns whether there was one.
fn run_until_failure(writer: &mut Writer) -> bool {
    for turn in 0..TURNS {
        // An answer may have gone out although a chore after it failed.
        if let Err(error) = writer.turn(turn) {
            assert!(matches!(error, LogError::Io { .. }), "{error}");
            return true;
        }
    }
    false
}

#[test]
fn nothing_is_acknowledged_after_a_failed_operation() {
    for is_full in [false, true] {
        let mut failing = 0;
        loop {
            let disk = FaultyStorage::new();
            let mut writer = Writer::begin(&disk, 31).unwrap();
            failing += 1;
            let at = disk.operations() + failing;
            disk.give_trouble(Trouble { fails_at: Some(at), is_full, ..Trouble::default() });
            if !run_until_failure(&mut writer) {
                break;
            }
            let acked = writer.acked;
            // The device recovers; the journal must not trust it again.
            disk.give_trouble(Trouble::default());
            let was_preparing = writer.append(1).is_ok();
            match writer.commit() {
                Err(LogError::Poisoned) => assert_eq!(writer.journal.durable_position().0, acked),
                Ok(()) => assert!(was_preparing, "only a failed preparation leaves the journal healthy"),
                Err(other) => panic!("operation {failing}: {other}"),
            }
            for crash in Crash::ALL {
                judge(&disk.crash(crash, failing), writer.acked, &writer.appended).unwrap();
            }
        }
        assert!(failing > 60, "{failing}");
    }
}

#[test]
fn a_failed_commit_poisons_for_good() {
    for (after, what) in [(1, "write"), (2, "sync")] {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, 32).unwrap();
        let at = disk.operations() + after;
        disk.give_trouble(Trouble { fails_at: Some(at), ..Trouble::default() });
        writer.append(1).unwrap();
        match writer.commit() {
            Err(LogError::Io { doing, file, .. }) => {
                assert_eq!((doing, file.as_str()), (what, "journal-00000001.seg"));
            }
            other => panic!("{other:?}"),
        }
        disk.give_trouble(Trouble::default());
        assert!(matches!(writer.commit(), Err(LogError::Poisoned)));
        assert!(matches!(writer.append(1), Err(LogError::Poisoned)));
        assert!(matches!(writer.journal.write_superblock_if_due(99), Err(LogError::Poisoned)));
        assert!(writer.journal.segment_wanted().is_none());
        assert!(matches!(writer.journal.close(), Err(LogError::Poisoned)));
    }
}

/// No space for the next segment is not the end: the journal says so and goes on in what it has.
#[test]
fn no_space_while_preparing_is_survived() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 33).unwrap();
    let job = writer.journal.segment_wanted().unwrap();
    assert!(writer.journal.segment_wanted().is_none(), "one job at a time");
    disk.give_trouble(Trouble { fails_at: Some(disk.operations() + 1), is_full: true, ..Trouble::default() });
    let outcome = job.run();
    assert!(writer.journal.segment_ready(outcome).is_err());
    disk.give_trouble(Trouble::default());
    writer.append(3).unwrap();
    writer.commit().unwrap();
    let job = writer.journal.segment_wanted().expect("wanted again");
    let before = writer.journal.remaining_bytes();
    writer.journal.segment_ready(job.run()).unwrap();
    assert_eq!(writer.journal.remaining_bytes(), before + (32 << 10));
    judge(&disk.crash(Crash::DropAll, 0), 3, &writer.appended).unwrap();
}

/// A segment that was being prepared when the journal could wait no longer becomes the one after.
#[test]
fn a_preparation_that_comes_late_replaces_nothing() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 34).unwrap();
    let job = writer.journal.segment_wanted().unwrap();
    while writer.journal.position().segment < 3 {
        writer.append(5).unwrap();
        writer.commit().unwrap();
    }
    writer.journal.segment_ready(job.run()).unwrap();
    for turn in 0..20 {
        writer.turn(turn).unwrap();
    }
    for crash in Crash::ALL {
        judge(&disk.crash(crash, 0), writer.acked, &writer.appended).unwrap();
    }
}

#[test]
fn a_number_out_of_sequence_never_reaches_the_disk() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 35).unwrap();
    writer.append(2).unwrap();
    let repeated = writer.appended[0].clone();
    assert!(matches!(writer.journal.append(&repeated), Err(LogError::OutOfSequence { .. })));
    writer.commit().unwrap();
    judge(&disk.crash(Crash::DropAll, 0), 2, &writer.appended).unwrap();
}

/// A commit larger than a segment is split, and nothing of it is lost.
#[test]
fn a_commit_larger_than_a_segment_is_split() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 36).unwrap();
    writer.append(600).unwrap();
    assert!(writer.journal.needs_commit());
    writer.commit().unwrap();
    assert!(writer.journal.position().segment > 3);
    judge(&disk.crash(Crash::DropAll, 0), 600, &writer.appended).unwrap();
    let (_, recovery) = open(&disk).unwrap();
    let outputs: Vec<_> = recovery.tail(&disk).unwrap().map(|group| group.unwrap().output).collect();
    assert!(outputs.last().unwrap().is_some(), "the last group of a commit knows its output");
    assert_eq!(outputs.iter().flatten().count(), 1);
}

#[test]
fn an_empty_commit_touches_nothing() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 37).unwrap();
    let operations = disk.operations();
    assert_eq!(writer.journal.commit(OutputHash::default()).unwrap().0, 0);
    assert_eq!(disk.operations(), operations);
    // And a commit is one write and one sync.
    writer.append(5).unwrap();
    writer.commit().unwrap();
    assert_eq!(disk.operations(), operations + 2);
}
