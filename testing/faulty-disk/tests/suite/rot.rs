//! Flipped bits and truncated files: damage below the watermark is refused with its position, never
//! skipped.

use crate::common;
use crate::common::{Loss, Writer, judge, open, small};
use std::ops::Range;

use pitwire_faulty_disk::{Crash, FaultyStorage};
use pitwire_journal::Storage;
use pitwire_journal::{JournalConfig, OpenError, StartAt, inspect};
use pitwire_model::Seq;

const SEGMENT: &str = "journal-00000001.seg";
const BLOCK: usize = 4096;

/// Returns a closed journal of `commits` groups, and the end of each.
fn closed_journal(commits: u64) -> (FaultyStorage, Writer, Vec<usize>) {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 11).unwrap();
    let mut ends = Vec::new();
    for _ in 0..commits {
        writer.append(3).unwrap();
        writer.commit().unwrap();
        ends.push(usize::try_from(writer.journal.position().offset).unwrap());
    }
    writer.journal.write_superblock_if_due(1_000).unwrap();
    (disk, writer, ends)
}

/// Flips every single bit of 64 KiB of groups at or below the watermark: 524,288 starts with the
/// real recovery, each refused with the position of the damaged group.
#[test]
fn every_flipped_bit_of_64_kib_at_or_below_the_watermark_is_refused_with_its_place() {
    const STRETCH: usize = 64 << 10;
    let config = JournalConfig { segment_bytes: 128 << 10, ..small() };
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin_with(&disk, 11, config.clone()).unwrap();
    let mut ends = Vec::new();
    while ends.last().is_none_or(|end| *end < STRETCH) {
        writer.append(1 + ends.len() as u64 % 13).unwrap();
        writer.commit().unwrap();
        ends.push(usize::try_from(writer.journal.position().offset).unwrap());
    }
    writer.journal.write_superblock_if_due(1_000).unwrap();
    assert!(ends.len() >= 8, "one group would not be much of a log");
    // Each eighth of the bits has a disk and a thread.
    let refused_in = |bits: Range<usize>| {
        let disk = disk.copy();
        for bit in bits.clone() {
            let flip = |bytes: &mut Vec<u8>| bytes[bit / 8] ^= 1 << (bit % 8);
            disk.edit(SEGMENT, flip);
            let group = ends.iter().rfind(|end| **end <= bit / 8).copied().unwrap_or(0);
            match inspect(&disk, &config, StartAt::NewestSnapshot) {
                Err(OpenError::DamagedBelowWatermark { place, .. }) => {
                    assert_eq!((place.segment, place.offset), (1, group as u64), "bit {bit}");
                }
                other => panic!("bit {bit}: {other:?}"),
            }
            disk.edit(SEGMENT, flip);
        }
        inspect(&disk, &config, StartAt::NewestSnapshot).expect("as it was, it is whole");
        bits.len()
    };
    let eighths = (0..8).map(|eighth| STRETCH * eighth..STRETCH * (eighth + 1));
    let refused: usize = std::thread::scope(|scope| {
        let working: Vec<_> = eighths.map(|bits| scope.spawn(|| refused_in(bits))).collect();
        working.into_iter().map(|thread| thread.join().expect("refused them all")).sum()
    });
    println!("{refused} flipped bits refused");
    assert_eq!(refused, 524_288);
}

/// Flips bits before the snapshot that a start uses: one bit of every byte in the first sector of
/// each group.
#[test]
fn every_damaged_byte_before_the_snapshot_in_use_is_refused_with_its_place() {
    let (disk, seqs) = history_of_snapshots();
    let (_, whole) = open(&disk).unwrap();
    assert_eq!(whole.base(), seqs[2], "the newest is used");
    let config = small();
    let segments: Vec<String> = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".seg")).collect();
    assert!(segments.len() >= 3, "{segments:?}");
    let mut refused = 0;
    for name in &segments {
        let bytes = disk.bytes(name).unwrap();
        let starts = (0..bytes.len()).step_by(BLOCK).filter(|block| bytes[*block..].starts_with(b"PITWGRP"));
        for start in starts.collect::<Vec<_>>() {
            for byte in start..start + 512 {
                let flip = |bytes: &mut Vec<u8>| bytes[byte] ^= 1 << (byte % 8);
                disk.edit(name, flip);
                let error = inspect(&disk, &config, StartAt::NewestSnapshot).expect_err("refused");
                let place = format!("{name} at byte {start}: ");
                assert!(error.to_string().starts_with(&place), "byte {byte} of {name}: {error}");
                disk.edit(name, flip);
                refused += 1;
            }
        }
    }
    assert!(refused >= 512 * 20, "{refused}");
    inspect(&disk, &config, StartAt::NewestSnapshot).expect("as it was, it is whole");
}

/// A venue whose old segments are lost may continue from the snapshot after them, as the remedy
/// says.
#[test]
fn damage_before_a_snapshot_may_be_dropped() {
    let (disk, seqs) = history_of_snapshots();
    let first = disk.bytes(SEGMENT).unwrap();
    disk.edit(SEGMENT, |bytes| bytes[5_000] ^= 1);
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(refused, OpenError::DamagedHistory { snapshot, .. } if snapshot == seqs[2]), "{refused}");
    assert!(refused.to_string().contains(&format!("before snapshot-{:020}.snap", seqs[2].0)), "{refused}");
    assert!(refused.remedy().contains("move the segments up to this one and the older snapshots elsewhere"));
    // Without the segments an older snapshot is useless and is not offered.
    disk.remove(SEGMENT).unwrap();
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.base(), seqs[2]);
    // A loss in the middle is damage for every start that reads it.
    let begins_in_first = disk.copy();
    begins_in_first.create(SEGMENT, first.len() as u64).unwrap().write_at(0, &first).unwrap();
    begins_in_first.edit("journal-00000002.seg", |bytes| bytes[5_000] ^= 1);
    assert!(matches!(open(&begins_in_first).err(), Some(OpenError::DamagedHistory { .. })));
}

/// Three snapshots over several segments, and a tail.
fn history_of_snapshots() -> (FaultyStorage, Vec<Seq>) {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 23).unwrap();
    let mut seqs = Vec::new();
    for turn in 0..60 {
        writer.turn(turn).unwrap();
        if turn % 20 == 15 {
            seqs.push(common::snapshot(&disk, &writer).unwrap());
        }
    }
    writer.journal.write_superblock_if_due(1_000_000).unwrap();
    (disk, seqs)
}

/// A group newer than the superblock is covered by the watermark in the next group's header.
#[test]
fn the_next_groups_header_stands_in_for_a_stale_superblock() {
    let (disk, _, ends) = closed_journal(3);
    let old = FaultyStorage::new();
    Writer::begin(&old, 11).unwrap();
    let fresh_superblock = old.bytes("superblock").unwrap();
    disk.edit("superblock", |bytes| *bytes = fresh_superblock);
    // Even if a sector looks as if it never arrived.
    disk.edit(SEGMENT, |bytes| bytes[ends[0]..ends[0] + 512].fill(0));
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(refused, OpenError::DamagedBelowWatermark { .. }), "{refused}");
    assert!(refused.to_string().contains(&format!("{SEGMENT} at byte {}", ends[0])), "{refused}");
}

/// The newest acknowledged command is alone in its group, and the group looks torn: still refused.
#[test]
fn the_watermark_includes_its_own_command() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 14).unwrap();
    let mut last = 0;
    for now in [10, 20] {
        last = usize::try_from(writer.journal.position().offset).unwrap();
        writer.append(1).unwrap();
        writer.commit().unwrap();
        writer.journal.write_superblock_if_due(now).unwrap();
    }
    disk.edit(SEGMENT, |bytes| bytes[last..last + 512].fill(0));
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(refused, OpenError::DamagedBelowWatermark { next: Seq(2), watermark: Seq(2), .. }), "{refused}");
}

/// A segment is started only after the previous one was synced, whatever the superblock says.
#[test]
fn a_later_segment_stands_in_for_a_stale_superblock() {
    let (disk, _) = long_journal();
    let fresh_superblock = {
        let other = FaultyStorage::new();
        open(&other).unwrap();
        other.bytes("superblock").unwrap()
    };
    disk.edit("superblock", |bytes| *bytes = fresh_superblock);
    let full = disk.bytes(SEGMENT).unwrap();
    let is_header = |block: &usize| full[*block..].starts_with(b"PITWGRP");
    let last_group = (0..full.len()).step_by(BLOCK).filter(is_header).max().unwrap();
    disk.edit(SEGMENT, |bytes| bytes[last_group..last_group + 512].fill(0));
    let refused = open(&disk).err().expect("refused");
    match refused {
        OpenError::DamagedBelowWatermark { place, .. } => assert_eq!(place.offset, last_group as u64),
        other => panic!("{other}"),
    }
}

#[test]
fn above_the_watermark_a_lost_sector_is_cut_and_anything_else_is_refused() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 12).unwrap();
    writer.append(3).unwrap();
    writer.commit().unwrap();
    writer.journal.write_superblock_if_due(1_000).unwrap();
    let from = usize::try_from(writer.journal.position().offset).unwrap();
    writer.append(3).unwrap();
    writer.commit().unwrap();
    let to = usize::try_from(writer.journal.position().offset).unwrap();
    for sector in (from..to).step_by(512) {
        let torn = disk.copy();
        torn.edit(SEGMENT, |bytes| bytes[sector..sector + 512].fill(0));
        let (_, recovery) = open(&torn).unwrap();
        let cut = recovery.torn.expect("cut");
        assert_eq!((cut.segment, cut.offset, recovery.last), (1, from as u64, Seq(3)));
        assert!(torn.bytes(SEGMENT).unwrap()[from..].iter().all(|byte| *byte == 0), "scrubbed");
        judge(&torn.crash(Crash::DropAll, 0), 3, &writer.appended).unwrap();
    }
    for byte in (from..to).step_by(41) {
        let damaged = disk.copy();
        damaged.edit(SEGMENT, |bytes| bytes[byte] ^= 0x10);
        let refused = open(&damaged).err().expect("refused");
        assert!(matches!(refused, OpenError::DamagedTail { .. }), "byte {byte}: {refused}");
    }
}

#[test]
fn a_segment_cut_short_anywhere_is_refused_or_loses_nothing() {
    let (disk, writer, ends) = closed_journal(3);
    let full = disk.bytes(SEGMENT).unwrap().len();
    for length in (0..=full).step_by(512) {
        let short = disk.copy();
        short.edit(SEGMENT, |bytes| bytes.truncate(length));
        match judge(&short, writer.acked, &writer.appended) {
            Ok(_) => assert!(length >= ends[2], "{length} bytes are too few to hold everything"),
            Err(Loss::Refused(why)) => assert!(length < ends[2], "{length}: {why}"),
            Err(other) => panic!("{length}: {other:?}"),
        }
    }
}

/// A truncated file is used as far as it reaches, and the log continues in the next segment.
#[test]
fn a_short_file_does_not_end_the_log() {
    let (disk, mut writer, ends) = closed_journal(3);
    disk.edit(SEGMENT, |bytes| bytes.truncate(ends[2] + 512));
    writer.journal = open(&disk).unwrap().0;
    for turn in 0..20 {
        writer.turn(turn).unwrap();
    }
    judge(&disk.crash(Crash::DropAll, 0), writer.acked, &writer.appended).unwrap();
}

fn long_journal() -> (FaultyStorage, Writer) {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 13).unwrap();
    for turn in 0..40 {
        writer.turn(turn).unwrap();
    }
    assert!(writer.journal.position().segment >= 4);
    (disk, writer)
}

#[test]
fn a_missing_segment_is_named() {
    let (disk, writer) = long_journal();
    let last = writer.journal.position().segment;
    for missing in 1..=last {
        let holed = disk.copy();
        holed.remove(&format!("journal-{missing:08}.seg")).unwrap();
        let refused = open(&holed).err().expect("refused");
        let names_it = match &refused {
            OpenError::MissingSegment { segment } => *segment == missing,
            // Without its start the log needs a snapshot; without its end it lacks acknowledged
            // commands.
            OpenError::NoUsableSnapshot { first_segment, .. } => missing == 1 && *first_segment == 2,
            OpenError::EndsEarly { .. } => missing == last,
            _ => false,
        };
        assert!(names_it, "{missing}: {refused}");
    }
}

/// A segment that is truncated or zeroed from a group on: the error names this segment, not the
/// next one.
#[test]
fn groups_missing_at_the_end_of_a_segment_are_missed_there() {
    let (disk, writer) = long_journal();
    for (segment, from) in [(1, 0), (1, BLOCK), (2, 0), (2, BLOCK)] {
        assert!(segment < writer.journal.position().segment);
        let name = format!("journal-{segment:08}.seg");
        // A block with the start of a group, from `from` on.
        let bytes = disk.bytes(&name).unwrap();
        let begins = |block: &usize| bytes[*block..].starts_with(b"PITWGRP");
        let start = (from..bytes.len()).step_by(BLOCK).find(begins).unwrap();
        for is_cut in [true, false] {
            let short = disk.copy();
            short.edit(&name, |bytes| if is_cut { bytes.truncate(start) } else { bytes[start..].fill(0) });
            let refused = open(&short).err().expect("refused");
            let place = format!("{name} at byte {start}: ");
            assert!(matches!(refused, OpenError::MissingGroups { .. }), "{refused}");
            assert!(refused.to_string().starts_with(&place), "{place}{refused}");
        }
    }
}

#[test]
fn a_group_that_belongs_elsewhere_breaks_the_chain() {
    let (disk, _) = long_journal();
    let other = disk.bytes("journal-00000003.seg").unwrap();
    disk.edit("journal-00000002.seg", |bytes| *bytes = other);
    let refused = open(&disk).err().expect("refused");
    assert!(matches!(refused, OpenError::BrokenChain { .. }), "{refused}");
}

/// Three groups of one command, each one block long.
fn short_history(seed: u64) -> FaultyStorage {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, seed).unwrap();
    for now in [10, 20, 30] {
        writer.append(1).unwrap();
        writer.commit().unwrap();
        writer.journal.write_superblock_if_due(now).unwrap();
    }
    assert_eq!(writer.journal.position().offset, 3 * BLOCK as u64);
    disk
}

/// A group with the right numbers and good checksums, but of another history.
#[test]
fn a_group_of_another_history_breaks_the_chain() {
    let (disk, other) = (short_history(1), short_history(2).bytes(SEGMENT).unwrap());
    disk.edit(SEGMENT, |bytes| bytes[..BLOCK].copy_from_slice(&other[..BLOCK]));
    match open(&disk).err().expect("refused") {
        OpenError::BrokenChain { place, .. } => assert_eq!(place.offset, BLOCK as u64),
        refused => panic!("{refused}"),
    }
}

/// Where no later group can contradict it, the superblock does.
#[test]
fn a_log_of_another_history_contradicts_the_superblock() {
    let (disk, other) = (short_history(1), short_history(2).bytes(SEGMENT).unwrap());
    disk.edit(SEGMENT, |bytes| *bytes = other);
    match open(&disk).err().expect("refused") {
        OpenError::BrokenChain { place, .. } => assert_eq!(place.offset, 2 * BLOCK as u64),
        refused => panic!("{refused}"),
    }
}

/// The other history has as many commands, but fewer groups than the superblock knows.
#[test]
fn a_log_of_another_history_with_fewer_groups_contradicts_the_superblock() {
    let (disk, other) = (short_history(1), FaultyStorage::new());
    let mut writer = Writer::begin(&other, 2).unwrap();
    for commands in [1, 2] {
        writer.append(commands).unwrap();
        writer.commit().unwrap();
    }
    let foreign = other.bytes(SEGMENT).unwrap();
    disk.edit(SEGMENT, |bytes| *bytes = foreign);
    match open(&disk).err().expect("refused") {
        OpenError::BrokenChain { expected_group, found_group, .. } => {
            assert_eq!(found_group, expected_group - 1);
        }
        refused => panic!("{refused}"),
    }
}

#[test]
fn a_superblock_with_one_bad_slot_is_good_and_with_two_is_not() {
    let (disk, writer, _) = closed_journal(3);
    for slot in [0, 1] {
        let damaged = disk.copy();
        damaged.edit("superblock", |bytes| bytes[slot * BLOCK + 100] ^= 1);
        judge(&damaged, writer.acked, &writer.appended).unwrap();
    }
    disk.edit("superblock", |bytes| bytes.fill(0x55));
    assert!(matches!(open(&disk), Err(OpenError::DamagedSuperblock)));
    disk.remove("superblock").unwrap();
    assert!(matches!(open(&disk), Err(OpenError::MissingSuperblock)));
}

/// Writes another format's number over the second group's.
fn journal_of_format(version: u8) -> FaultyStorage {
    let (disk, _, ends) = closed_journal(2);
    disk.edit(SEGMENT, |bytes| {
        let header = &mut bytes[ends[0]..ends[0] + 128];
        header[8] = version;
        let checksum = crc32c::crc32c(&header[..120]);
        header[124..].copy_from_slice(&checksum.to_le_bytes());
    });
    disk
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let refused = open(&journal_of_format(9)).err().expect("refused");
    assert!(matches!(&refused, OpenError::NewerFormat { file, found: 9, .. } if file == SEGMENT), "{refused}");
    let known = pitwire_journal::records::FORMAT_VERSION;
    assert_eq!(refused.to_string(), format!("journal-00000001.seg has format version 9; this build knows {known}"));
    assert!(refused.remedy().starts_with("start the newer build that wrote it"));
}

/// The superblock is read first, whatever else is in the directory.
#[test]
fn a_directory_of_another_format_is_refused_by_name() {
    let known = pitwire_journal::records::FORMAT_VERSION;
    for (version, remedy) in
        [(known + 1, "start the newer build that wrote it"), (known - 1, "it was made by an earlier build")]
    {
        let (disk, _, _) = closed_journal(2);
        disk.edit("superblock", |bytes| {
            for slot in bytes.chunks_mut(BLOCK).filter(|slot| slot[0] != 0) {
                slot[8..10].copy_from_slice(&version.to_le_bytes());
                slot[12..16].fill(0);
                let checksum = crc32c::crc32c(slot);
                slot[12..16].copy_from_slice(&checksum.to_le_bytes());
            }
        });
        let before = disk.bytes("superblock");
        let refused = open(&disk).err().expect("refused");
        let text = format!("superblock has format version {version}; this build knows {known}");
        assert_eq!(refused.to_string(), text);
        assert!(refused.remedy().starts_with(remedy), "{}", refused.remedy());
        assert_eq!(disk.bytes("superblock"), before, "and left as it is");
    }
}

#[test]
fn a_journal_from_before_this_format_is_refused_by_name() {
    let refused = open(&journal_of_format(1)).err().expect("refused");
    assert!(matches!(&refused, OpenError::OlderFormat { file, found: 1 } if file == SEGMENT), "{refused}");
    assert_eq!(refused.to_string(), "journal-00000001.seg has format version 1; this build knows 2");
    assert!(refused.remedy().contains("an earlier build") && refused.remedy().contains("fresh --data directory"));
}

#[test]
fn newer_rules_are_refused_by_name() {
    let (disk, _, _) = closed_journal(1);
    let older_build = JournalConfig { rule_version: 0, ..small() };
    let refused = inspect(&disk, &older_build, StartAt::NewestSnapshot).unwrap_err();
    assert!(matches!(refused, OpenError::NewerRules { found: 1, known: 0, .. }), "{refused}");
}

/// `verify` changes nothing, whatever it finds.
#[test]
fn inspecting_changes_nothing() {
    let (disk, _, ends) = closed_journal(2);
    disk.edit(SEGMENT, |bytes| bytes[ends[1]..ends[1] + 100].fill(0xEE));
    disk.edit(SEGMENT, |bytes| bytes[..8].copy_within(.., 0));
    let before: Vec<_> = disk.list().unwrap().iter().map(|name| disk.bytes(name)).collect();
    let operations = disk.operations();
    let _ = inspect(&disk, &small(), StartAt::Oldest);
    let torn = disk.copy();
    torn.edit(SEGMENT, |bytes| {
        bytes[ends[1]..].fill(0);
        bytes[ends[1] + 600] = 1;
    });
    let recovery = inspect(&torn, &small(), StartAt::Oldest).unwrap();
    assert_eq!(recovery.torn.map(|torn| (torn.offset, torn.bytes)), Some((ends[1] as u64, 4096)));
    assert_eq!((torn.operations(), torn.bytes(SEGMENT).unwrap()[ends[1] + 600]), (0, 1));
    let after: Vec<_> = disk.list().unwrap().iter().map(|name| disk.bytes(name)).collect();
    assert_eq!((disk.operations(), after), (operations, before));
    let empty = FaultyStorage::new();
    let recovery = inspect(&empty, &small(), StartAt::Oldest).unwrap();
    assert!(recovery.is_fresh && recovery.tail(&empty).unwrap().next().is_none());
    assert_eq!(empty.operations(), 0);
}
