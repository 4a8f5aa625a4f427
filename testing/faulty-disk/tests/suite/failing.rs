//! A device that fails at the N-th operation, for every N: nothing is acknowledged afterwards, and
//! everything acknowledged before is recovered.

use std::sync::Arc;

use crate::common::{Writer, judge, open, small};
use pitwire_faulty_disk::{Crash, DiskFaults, FaultyStorage};
use pitwire_journal::records::Superblock;
use pitwire_journal::{Journal, JournalConfig};
use pitwire_journal::{Log, LogError, OutputHash};

const TURNS: u64 = 24;

/// Runs until the first error. Returns whether there was one.
fn run_until_failure(writer: &mut Writer) -> bool {
    for turn in 0..TURNS {
        // An answer may have been sent although maintenance after it failed.
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
            disk.give_trouble(DiskFaults { fails_at: Some(at), is_full, ..DiskFaults::default() });
            if !run_until_failure(&mut writer) {
                break;
            }
            let acked = writer.acked;
            // The device recovers, but the journal must not trust it again.
            disk.give_trouble(DiskFaults::default());
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
        disk.give_trouble(DiskFaults { fails_at: Some(at), ..DiskFaults::default() });
        writer.append(1).unwrap();
        match writer.commit() {
            Err(LogError::Io { doing, file, .. }) => {
                assert_eq!((doing, file.as_str()), (what, "journal-00000001.seg"));
            }
            other => panic!("{other:?}"),
        }
        disk.give_trouble(DiskFaults::default());
        assert!(matches!(writer.commit(), Err(LogError::Poisoned)));
        assert!(matches!(writer.append(1), Err(LogError::Poisoned)));
        assert!(matches!(writer.journal.write_superblock_if_due(99), Err(LogError::Poisoned)));
        assert!(writer.journal.segment_wanted().is_none());
        assert!(matches!(writer.journal.close(), Err(LogError::Poisoned)));
    }
}

/// A failure to make the next segment is not fatal: the journal reports it and continues in its
/// remaining space.
#[test]
fn no_space_while_preparing_is_survived() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 33).unwrap();
    let job = writer.journal.segment_wanted().unwrap();
    assert!(writer.journal.segment_wanted().is_none(), "one job at a time");
    disk.give_trouble(DiskFaults { fails_at: Some(disk.operations() + 1), is_full: true, ..DiskFaults::default() });
    let outcome = job.run();
    assert!(writer.journal.segment_ready(outcome).is_err());
    disk.give_trouble(DiskFaults::default());
    writer.append(3).unwrap();
    writer.commit().unwrap();
    let job = writer.journal.segment_wanted().expect("wanted again");
    let before = writer.journal.remaining_bytes();
    writer.journal.segment_ready(job.run()).unwrap();
    assert_eq!(writer.journal.remaining_bytes(), before + (32 << 10));
    judge(&disk.crash(Crash::DropAll, 0), 3, &writer.appended).unwrap();
}

/// A segment whose preparation came too late becomes the one after.
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

/// Segments of an earlier setting are used as they are; a prepared one of the wrong size is
/// replaced when its turn comes.
#[test]
fn segments_may_change_their_size_between_starts() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 38).unwrap();
    for (size, turn) in [(16 << 10, 0), (64 << 10, 1), (8 << 10, 2), (32 << 10, 3)] {
        let config = JournalConfig { segment_bytes: size, ..small() };
        writer.journal = Journal::open(Arc::new(disk.clone()), config).unwrap().0;
        for _ in 0..14 {
            writer.turn(turn).unwrap();
        }
        if let Some(job) = writer.journal.segment_wanted() {
            writer.journal.segment_ready(job.run()).unwrap();
        }
        for crash in Crash::ALL {
            judge(&disk.crash(crash, turn), writer.acked, &writer.appended).unwrap();
        }
    }
    let sizes: Vec<usize> = (1..=writer.journal.position().segment)
        .map(|number| disk.bytes(&format!("journal-{number:08}.seg")).unwrap().len() >> 10)
        .collect();
    assert!(sizes.contains(&64) && sizes.contains(&8) && sizes.last() == Some(&32), "{sizes:?}");
}

#[test]
fn a_spare_of_another_size_is_not_used() {
    for (size, is_wanted) in [(32 << 10, false), (16 << 10, true)] {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, 39).unwrap();
        while let Some(job) = writer.journal.segment_wanted() {
            writer.journal.segment_ready(job.run()).unwrap();
        }
        let config = JournalConfig { segment_bytes: size, ..small() };
        let mut journal = Journal::open(Arc::new(disk.clone()), config).unwrap().0;
        assert_eq!(journal.segment_wanted().is_some(), is_wanted);
    }
}

#[test]
fn the_superblock_follows_the_watermark_at_its_pace() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 40).unwrap(); // rewritten at most every 3 ns
    let watermark = || Superblock::decode_file(&disk.bytes("superblock").unwrap()).unwrap().watermark.0;
    assert_eq!((writer.journal.superblock_due_ns(), watermark()), (None, 0));
    for (now, expected) in [(10, 1), (11, 1), (12, 1), (13, 4), (20, 5)] {
        writer.append(1).unwrap();
        writer.commit().unwrap();
        let was = watermark();
        assert_eq!(writer.journal.write_superblock_if_due(now).unwrap(), was != expected, "at {now}");
        assert_eq!(watermark(), expected, "at {now}");
        assert!(!writer.journal.write_superblock_if_due(now).unwrap(), "once is enough at {now}");
    }
    assert_eq!(writer.journal.superblock_due_ns(), None);
    writer.append(1).unwrap();
    writer.commit().unwrap();
    let acked = writer.acked;
    writer.journal.close().unwrap();
    assert_eq!(watermark(), acked, "a clean end leaves it up to date");
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

/// A commit larger than a segment is split without loss.
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
    let outputs: Vec<_> = recovery.tail(&disk).unwrap().map(|group| group.unwrap().end.output).collect();
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
    // A commit is one write and one sync.
    writer.append(5).unwrap();
    writer.commit().unwrap();
    assert_eq!(disk.operations(), operations + 2);
}
