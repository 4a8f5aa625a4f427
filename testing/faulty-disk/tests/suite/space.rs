//! A full disk and a slow disk: accepted commands and reports.

use crate::common;
use crate::common::{Writer, judge};
use pitwire_faulty_disk::{Crash, DiskFaults, FaultyStorage};
use pitwire_journal::JournalSpace;
use pitwire_journal::Storage;

const SEGMENT_BYTES: u64 = 32 << 10;

fn used(disk: &FaultyStorage) -> u64 {
    disk.list().unwrap().iter().filter_map(|name| disk.bytes(name)).map(|bytes| bytes.len() as u64).sum()
}

/// Prepares segments until no more are wanted or none can be made.
fn prepare(writer: &mut Writer) -> bool {
    while let Some(job) = writer.journal.segment_wanted() {
        if writer.journal.segment_ready(job.run()).is_err() {
            return false;
        }
    }
    true
}

/// One command and its commit, as for a single cancel.
fn one(writer: &mut Writer) {
    writer.append(1).unwrap();
    writer.commit().unwrap();
}

#[test]
fn a_full_disk_leaves_a_segment_for_cancels_and_gives_orders_back_with_the_space() {
    for (seed, crash) in (0..).zip(Crash::ALL) {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed).unwrap();
        assert!(prepare(&mut writer));
        assert_eq!(
            (writer.journal.space(), writer.journal.remaining_bytes()),
            (JournalSpace::Orders, 3 * SEGMENT_BYTES)
        );
        // Another program fills the disk. The journal notices when it prepares the next segment.
        disk.give_trouble(DiskFaults { capacity: Some(used(&disk)), ..DiskFaults::default() });
        let mut commands = 0;
        while prepare(&mut writer) {
            assert_eq!(writer.journal.space(), JournalSpace::Orders);
            one(&mut writer);
            commands += 1;
        }
        assert!(commands > 5, "the first segment had room for more than {commands}");
        assert_eq!(writer.journal.space(), JournalSpace::CancelsOnly);
        assert!(writer.journal.remaining_bytes() > SEGMENT_BYTES, "a whole segment is kept for cancels");
        let mut cancels = 0;
        while writer.journal.space() == JournalSpace::CancelsOnly {
            one(&mut writer);
            assert!(!prepare(&mut writer), "every turn tries again");
            cancels += 1;
        }
        assert!(cancels > 5);
        // The margin is for commands of the venue itself; they fit without another segment.
        assert_eq!(writer.journal.space(), JournalSpace::Nothing);
        one(&mut writer);
        judge(&disk.crash(crash, seed), writer.acked, &writer.appended).unwrap();
        disk.give_trouble(DiskFaults { capacity: Some(used(&disk) + SEGMENT_BYTES), ..DiskFaults::default() });
        let job = writer.journal.segment_wanted().unwrap();
        writer.journal.segment_ready(job.run()).unwrap();
        assert_eq!(writer.journal.space(), JournalSpace::CancelsOnly, "one segment is the cancels' segment");
        assert!(!prepare(&mut writer), "room for one more segment only");
        assert_eq!(writer.journal.space(), JournalSpace::CancelsOnly);
        disk.give_trouble(DiskFaults::default());
        assert!(prepare(&mut writer));
        assert_eq!(writer.journal.space(), JournalSpace::Orders, "without a restart");
        for turn in 0..30 {
            writer.turn(turn).unwrap();
        }
        judge(&disk.crash(crash, seed), writer.acked, &writer.appended).unwrap();
    }
}

/// A start on a full disk uses the segments that were kept.
#[test]
fn segments_made_ahead_outlive_the_process() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 1).unwrap();
    assert!(prepare(&mut writer));
    one(&mut writer);
    disk.give_trouble(DiskFaults { capacity: Some(0), ..DiskFaults::default() });
    writer.journal = common::open(&disk).unwrap().0;
    assert!(prepare(&mut writer), "none is wanted");
    assert_eq!(writer.journal.space(), JournalSpace::Orders);
    while writer.journal.space() != JournalSpace::Nothing {
        prepare(&mut writer);
        one(&mut writer);
    }
    assert_eq!(writer.journal.position().segment, 3);
    judge(&disk.crash(Crash::DropAll, 0), writer.acked, &writer.appended).unwrap();
}

struct LoadFigures {
    groups: u64,
    commands: u64,
    /// The longest time from arrival to answer, in nanoseconds of the disk's time.
    longest_ns: u64,
}

/// A server under a steady load: in each turn it takes everything that has arrived, commits, and
/// then answers.
fn serve(sync_ns: u64, gap_ns: u64, commands: u64) -> LoadFigures {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 9).unwrap();
    disk.give_trouble(DiskFaults { sync_ns, ..DiskFaults::default() });
    let begun = disk.now_ns();
    let arrival = |number: u64| begun + number * gap_ns;
    let mut served = LoadFigures { groups: 0, commands: 0, longest_ns: 0 };
    while served.commands < commands {
        disk.wait_until(arrival(served.commands + 1));
        let arrived = ((disk.now_ns() - begun) / gap_ns).min(commands) - served.commands;
        writer.append(arrived).unwrap();
        let syncing_from = disk.now_ns();
        writer.commit().unwrap();
        let answered = disk.now_ns();
        assert!(answered >= syncing_from + sync_ns, "no answer before its sync has ended");
        served.longest_ns = served.longest_ns.max(answered - arrival(served.commands + 1));
        served.commands += arrived;
        served.groups += 1;
        assert_eq!(writer.acked, served.commands);
        judge(&disk.crash(Crash::DropAll, 0), writer.acked, &writer.appended).unwrap();
        writer.journal.write_superblock_if_due(answered).unwrap();
        prepare(&mut writer);
    }
    served
}

/// Twenty times slower: the same load in fewer, larger groups. Every command waits for the disk and
/// none in a queue.
#[test]
fn a_disk_twenty_times_slower_makes_larger_groups_and_loses_nothing() {
    const SYNC_NS: u64 = 100_000;
    const GAP_NS: u64 = 50_000;
    let (usual, slow) = (serve(SYNC_NS, GAP_NS, 600), serve(20 * SYNC_NS, GAP_NS, 600));
    assert_eq!((usual.commands, slow.commands), (600, 600));
    assert!(usual.groups > 8 * slow.groups, "{} groups and {}", usual.groups, slow.groups);
    // At worst a command just misses a commit and shares the next one: with the writes of
    // superblock and segments a few syncs, however long the load lasts.
    assert!(slow.longest_ns <= 6 * 20 * SYNC_NS, "{} ns", slow.longest_ns);
    println!(
        "{} groups, then {}; longest wait {} and {} ns",
        usual.groups, slow.groups, usual.longest_ns, slow.longest_ns
    );
}
