//! Snapshots: each is whole or absent, the newest readable one is used, and only unneeded files are
//! removed.

use crate::common::{Writer, judge, meta, named_snapshot, open, payload, small, snapshot};
use pitwire_faulty_disk::{Crash, DiskFaults, FaultyStorage};
use pitwire_journal::records::{SNAPSHOT_VERSION, SnapshotFault, SnapshotMeta};
use pitwire_journal::{DamagedSnapshot, OpenError, RemovedFiles, StartAt, inspect, retain, write_snapshot};
use pitwire_journal::{Log, LogError, Storage};
use pitwire_model::Seq;

fn name(seq: Seq) -> String {
    format!("snapshot-{:020}.snap", seq.0)
}

/// A journal over several segments with a snapshot after every ten turns.
fn with_snapshots(count: u64) -> (FaultyStorage, Writer, Vec<Seq>) {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 21).unwrap();
    let mut seqs = Vec::new();
    for turn in 0..count * 10 + 5 {
        writer.turn(turn).unwrap();
        if turn % 10 == 9 {
            seqs.push(snapshot(&disk, &writer).unwrap());
        }
    }
    (disk, writer, seqs)
}

#[test]
fn the_newest_readable_snapshot_is_used() {
    let (disk, writer, seqs) = with_snapshots(3);
    let (_, recovery) = open(&disk).unwrap();
    let used = recovery.snapshot.as_ref().unwrap();
    assert_eq!((used.meta.seq, &used.payload), (seqs[2], &payload(seqs[2])));
    assert_eq!(used.meta.chain.commands, seqs[2].0);
    judge(&disk, writer.acked, &writer.appended).unwrap();

    let size = disk.bytes(&name(seqs[2])).unwrap().len();
    for byte in (0..size).step_by(7) {
        let damaged = disk.copy();
        damaged.edit(&name(seqs[2]), |bytes| bytes[byte] ^= 4);
        let (_, recovery) = open(&damaged).unwrap();
        assert_eq!(recovery.base(), seqs[1], "byte {byte}");
        assert_eq!(recovery.damaged_snapshots.iter().map(|d| &d.name).collect::<Vec<_>>(), [&name(seqs[2])]);
        judge(&damaged, writer.acked, &writer.appended).unwrap();
    }
    for length in (0..size).step_by(97) {
        let short = disk.copy();
        short.edit(&name(seqs[2]), |bytes| bytes.truncate(length));
        assert_eq!(open(&short).unwrap().1.base(), seqs[1], "length {length}");
    }
}

#[test]
fn without_any_snapshot_the_log_from_its_beginning_will_do() {
    let (disk, writer, seqs) = with_snapshots(2);
    for seq in &seqs {
        disk.edit(&name(*seq), |bytes| bytes[20] ^= 1);
    }
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.base(), recovery.damaged_snapshots.len()), (Seq(0), 2));
    judge(&disk, writer.acked, &writer.appended).unwrap();
    disk.remove("journal-00000001.seg").unwrap();
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(&refused, OpenError::NoUsableSnapshot { damaged, .. } if damaged.len() == 2), "{refused}");
}

/// Rewrites a snapshot as an earlier build would have left it: whole, in its own layout.
fn make_older(disk: &FaultyStorage, seq: Seq) {
    set_layout(disk, seq, SNAPSHOT_VERSION - 1);
}

/// Changes the version of a snapshot's layout, and makes the hash right again.
fn set_layout(disk: &FaultyStorage, seq: Seq, version: u16) {
    disk.edit(&name(seq), |bytes| {
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let end = bytes.len() - 32;
        let hash = blake3::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(hash.as_bytes());
    });
}

#[test]
fn a_snapshot_of_an_older_layout_is_passed_over_while_the_log_reaches_back() {
    let (disk, writer, seqs) = with_snapshots(3);
    make_older(&disk, seqs[2]);
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.base(), seqs[1], "a newer layout behind it is used all the same");
    let reports: Vec<String> = recovery.damaged_snapshots.iter().map(ToString::to_string).collect();
    let layout = format!("{} was passed over: its layout is version 3, and this build knows 4", name(seqs[2]));
    assert!(reports.len() == 1 && reports[0].starts_with(&layout), "{reports:?}");
    seqs[..2].iter().for_each(|seq| make_older(&disk, *seq));
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.base(), recovery.damaged_snapshots.len()), (Seq(0), 3));
    let verified = inspect(&disk, &small(), StartAt::Oldest).unwrap();
    assert_eq!((verified.base(), verified.later_snapshots.len()), (Seq(0), 0), "none is compared with");
    judge(&disk, writer.acked, &writer.appended).unwrap();
    assert_eq!(retain(&disk, &small(), 2).unwrap(), RemovedFiles::default(), "nothing can be spared yet");
}

#[test]
fn a_snapshot_of_an_older_layout_that_is_needed_is_refused_by_name() {
    let (disk, _, seqs) = with_snapshots(2);
    seqs.iter().for_each(|seq| make_older(&disk, *seq));
    disk.remove("journal-00000001.seg").unwrap();
    let before = disk.bytes(&name(seqs[1]));
    for refused in [open(&disk).err().expect("refused"), inspect(&disk, &small(), StartAt::Oldest).unwrap_err()] {
        assert!(matches!(&refused, OpenError::OlderSnapshot { found: 3, first_segment: 2, .. }), "{refused}");
        assert!(refused.to_string().starts_with(&name(seqs[1])), "{refused}");
        assert!(refused.remedy().contains("not damaged: restore the segments"), "{}", refused.remedy());
    }
    assert_eq!(disk.bytes(&name(seqs[1])), before, "and left as it is");
}

#[test]
fn a_snapshot_of_a_newer_layout_is_refused_with_the_versions_of_snapshots() {
    let (disk, _, seqs) = with_snapshots(2);
    set_layout(&disk, seqs[1], 9);
    for refused in [open(&disk).err().expect("refused"), inspect(&disk, &small(), StartAt::Oldest).unwrap_err()] {
        assert_eq!(refused.to_string(), format!("{} has format version 9; this build knows 4", name(seqs[1])));
        assert!(refused.remedy().starts_with("start the newer build"), "{}", refused.remedy());
    }
}

#[test]
fn a_verifier_starts_as_early_as_it_can_and_learns_of_every_snapshot() {
    let (disk, _, seqs) = with_snapshots(3);
    // The journal still reaches back to the first command, so even the oldest snapshot is verified.
    let proves_all = (Seq(0), &seqs[..]);
    let from_oldest = (seqs[0], &seqs[1..]);
    for (base, later) in [proves_all, from_oldest] {
        let recovery = inspect(&disk, &small(), StartAt::Oldest).unwrap();
        assert_eq!(recovery.base(), base);
        assert_eq!(recovery.later_snapshots.iter().map(|later| later.meta.seq).collect::<Vec<_>>(), later);
        let groups: Vec<_> = recovery.tail(&disk).unwrap().map(Result::unwrap).collect();
        assert_eq!(groups.first().unwrap().commands.first().unwrap().seq, base.next());
        assert_eq!(groups.last().unwrap().commands.last().unwrap().seq, recovery.last);
        if base == Seq(0) {
            disk.remove("journal-00000001.seg").unwrap();
        }
    }
}

/// A snapshot of a state ahead of its position: commands that it contains are not replayed again.
#[test]
fn snapshot_inside_a_group_skips_its_commands() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 22).unwrap();
    writer.turn(0).unwrap();
    let position = writer.journal.position();
    let durable = writer.acked;
    writer.append(4).unwrap();
    writer.commit().unwrap();
    let meta = SnapshotMeta { position, seq: Seq(durable + 2), ..meta(&writer) };
    write_snapshot(&disk, &meta, b"state").unwrap();
    let (_, recovery) = open(&disk).unwrap();
    let seqs: Vec<u64> =
        recovery.tail(&disk).unwrap().flat_map(|group| group.unwrap().commands).map(|stamped| stamped.seq.0).collect();
    assert_eq!(seqs, [durable + 3, durable + 4]);
}

#[test]
fn retention_removes_exactly_the_unneeded_segments() {
    let (disk, writer, seqs) = with_snapshots(4);
    let oldest_kept = inspect(&disk, &small(), StartAt::Oldest).unwrap().later_snapshots[2].meta.clone();
    assert_eq!(oldest_kept.seq, seqs[2]);
    let removed = retain(&disk, &small(), 2).unwrap();
    assert_eq!(removed.snapshots, [name(seqs[0]), name(seqs[1])]);
    let gone: Vec<String> = (1..oldest_kept.position.segment).map(|n| format!("journal-{n:08}.seg")).collect();
    assert!(gone.len() > 2);
    assert_eq!(removed.segments, gone);
    assert_eq!(retain(&disk, &small(), 2).unwrap(), Default::default());
    judge(&disk, writer.acked, &writer.appended).unwrap();
    let recovery = inspect(&disk, &small(), StartAt::Oldest).unwrap();
    assert_eq!(recovery.base(), seqs[2]);
    // Just enough is left: with the newest damaged, the other one and its segments are used.
    disk.edit(&name(seqs[3]), |bytes| bytes[0] ^= 1);
    judge(&disk, writer.acked, &writer.appended).unwrap();
    // A removed command cannot be followed, and the error says so.
    assert!(matches!(writer.journal.follow_from(Seq(1), &mut |_| {}), Err(LogError::Io { .. })));
}

#[test]
fn a_damaged_snapshot_does_not_count_as_kept() {
    let (disk, writer, seqs) = with_snapshots(3);
    disk.edit(&name(seqs[2]), |bytes| bytes[0] ^= 1);
    let removed = retain(&disk, &small(), 2).unwrap();
    assert!(removed.snapshots.is_empty(), "{removed:?}");
    judge(&disk, writer.acked, &writer.appended).unwrap();
    disk.edit(&name(seqs[1]), |bytes| bytes[0] ^= 1);
    assert_eq!(retain(&disk, &small(), 2).unwrap(), Default::default());
}

/// Writing and retention are interrupted after every operation: the earlier files suffice, and the
/// used ones are whole.
#[test]
fn a_crash_while_snapshots_come_and_go_loses_nothing() {
    let mut states = 0;
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 23).unwrap();
    for turn in 0..60 {
        writer.turn(turn).unwrap();
        if turn % 6 != 5 {
            continue;
        }
        disk.keep_images();
        snapshot(&disk, &writer).unwrap();
        retain(&disk, &small(), 2).unwrap();
        for image in disk.take_images() {
            for crash in Crash::ALL {
                let crashed = image.crash(crash, turn ^ states);
                judge(&crashed, writer.acked, &writer.appended).unwrap();
                let (_, recovery) = open(&crashed).unwrap();
                assert!(recovery.damaged_snapshots.is_empty(), "{crash:?} {:?}", recovery.damaged_snapshots);
                if let Some(used) = &recovery.snapshot {
                    assert_eq!(used.payload, payload(used.meta.seq));
                }
                // From the oldest snapshot as well: retention must not have removed the log after
                // it.
                inspect(&crashed, &small(), StartAt::Oldest).unwrap();
                assert!(!crashed.list().unwrap().iter().any(|name| name.ends_with(".new")), "left-overs are removed");
                states += 1;
            }
        }
    }
    println!("{states} crash states around snapshots");
}

#[test]
fn a_snapshot_that_cannot_be_written_leaves_the_old_one() {
    let (disk, writer, seqs) = with_snapshots(1);
    for failing in 1..=5 {
        let copy = disk.copy();
        copy.give_trouble(DiskFaults { fails_at: Some(failing), is_full: true, ..DiskFaults::default() });
        snapshot(&copy, &writer).unwrap_err();
        copy.give_trouble(DiskFaults::default());
        // The directory sync is the last step, so the name may be there already, and whole.
        let base = open(&copy).unwrap().1.base();
        assert!(base == seqs[0] || (failing == 5 && base.0 == writer.acked), "failing {failing}: {base}");
        judge(&copy, writer.acked, &writer.appended).unwrap();
    }
}

/// A segment that was truncated before the snapshot's position no longer matches the snapshot.
#[test]
fn a_segment_that_ends_before_the_snapshots_place_is_refused() {
    let (disk, mut writer, _) = with_snapshots(1);
    writer.append(1).unwrap();
    writer.commit().unwrap();
    snapshot(&disk, &writer).unwrap();
    let position = writer.journal.position();
    writer.journal.close().unwrap();
    let segment = format!("journal-{:08}.seg", position.segment);
    let end = usize::try_from(position.offset).unwrap();
    disk.edit(&segment, |bytes| bytes.truncate(end));
    open(&disk).unwrap();
    disk.edit(&segment, |bytes| bytes.truncate(end - 512));
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(refused, OpenError::EndsEarly { .. }), "{refused}");
}

/// A snapshot proves how far the log reached.
#[test]
fn a_log_shorter_than_its_snapshot_is_refused() {
    let (disk, writer, _) = with_snapshots(1);
    let meta = SnapshotMeta { seq: Seq(writer.acked + 5), ..meta(&writer) };
    write_snapshot(&disk, &meta, b"from the future").unwrap();
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(refused, OpenError::EndsEarly { watermark, .. } if watermark == meta.seq), "{refused}");
}

/// As [`with_snapshots`], and the superblock names every snapshot.
fn with_named_snapshots(count: u64) -> (FaultyStorage, Writer, Vec<Seq>) {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 24).unwrap();
    let mut seqs = Vec::new();
    for turn in 0..count * 10 + 5 {
        writer.turn(turn).unwrap();
        if turn % 10 == 9 {
            seqs.push(named_snapshot(&disk, &mut writer).unwrap());
        }
    }
    (disk, writer, seqs)
}

/// Changes the payload of a snapshot and makes its hash right again.
fn forge(disk: &FaultyStorage, seq: Seq) {
    disk.edit(&name(seq), |bytes| {
        let end = bytes.len() - 32;
        bytes[end - 1] ^= 1;
        let hash = blake3::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(hash.as_bytes());
    });
}

#[test]
fn forged_snapshot_is_not_used() {
    let (disk, writer, seqs) = with_named_snapshots(3);
    assert_eq!(open(&disk.copy()).unwrap().1.base(), seqs[2]);
    for (forged, base) in [(seqs[2], seqs[1]), (seqs[1], Seq(0))] {
        forge(&disk, forged);
        let (_, recovery) = open(&disk.copy()).unwrap();
        assert_eq!(recovery.base(), base, "the oldest snapshot is not named, so the log is read from its start");
        let reports: Vec<String> = recovery.damaged_snapshots.iter().map(ToString::to_string).collect();
        let expected = format!("{} was not used: its hash is not the one that the superblock names", name(forged));
        assert!(reports.iter().any(|line| line.starts_with(&expected)), "{reports:?}");
        judge(&disk.copy(), writer.acked, &writer.appended).unwrap();
    }
    disk.remove("journal-00000001.seg").unwrap();
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(&refused, OpenError::NoUsableSnapshot { damaged, .. } if damaged.len() == 3), "{refused}");
}

#[test]
fn snapshot_that_the_superblock_does_not_name_is_not_used() {
    let (disk, mut writer, seqs) = with_named_snapshots(2);
    writer.append(1).unwrap();
    writer.commit().unwrap();
    snapshot(&disk, &writer).unwrap();
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.base(), seqs[1]);
    assert_eq!(recovery.damaged_snapshots[0].fault, SnapshotFault::Unnamed);
    judge(&disk, writer.acked, &writer.appended).unwrap();
}

/// An earlier build named no snapshots. The first start trusts them, and names them for the next.
#[test]
fn snapshots_of_an_earlier_build_are_named_at_the_first_start() {
    let (disk, writer, seqs) = with_snapshots(3);
    assert_eq!(open(&disk).unwrap().1.base(), seqs[2]);
    forge(&disk, seqs[2]);
    assert_eq!(open(&disk).unwrap().1.base(), seqs[1]);
    judge(&disk, writer.acked, &writer.appended).unwrap();
}

/// Writing, naming and retention are interrupted after every operation: a start finds a named
/// snapshot or the log that it needs.
#[test]
fn crash_while_snapshots_are_named_loses_nothing() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 25).unwrap();
    for turn in 0..36 {
        writer.turn(turn).unwrap();
        if turn % 6 != 5 {
            continue;
        }
        disk.keep_images();
        named_snapshot(&disk, &mut writer).unwrap();
        retain(&disk, &small(), 2).unwrap();
        for image in disk.take_images() {
            for crash in Crash::ALL {
                let crashed = image.crash(crash, turn);
                judge(&crashed, writer.acked, &writer.appended).unwrap();
                let (_, recovery) = open(&crashed).unwrap();
                let unnamed = |damaged: &DamagedSnapshot| damaged.fault == SnapshotFault::Unnamed;
                assert!(recovery.damaged_snapshots.iter().all(unnamed), "{:?}", recovery.damaged_snapshots);
                if let Some(used) = &recovery.snapshot {
                    assert_eq!(used.payload, payload(used.meta.seq));
                }
            }
        }
    }
}
