//! The history of a run: compressed segments are read like plain ones, a crash while they are made
//! loses nothing, and only what `Keep` allows is dropped.

use crate::common::{Writer, judge, small, snapshot};
use pitwire_faulty_disk::{Crash, DiskFaults, FaultyStorage};
use pitwire_journal::{Keep, OpenError, StartAt, Storage, compress_segments, inspect, surplus};
use pitwire_model::{Seq, SequencedCommand};

/// A journal over several segments with a snapshot after every ten turns, and where the second
/// newest snapshot begins.
fn with_snapshots(count: u64) -> (FaultyStorage, Writer, u32) {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 31).unwrap();
    let mut places = Vec::new();
    for turn in 0..count * 10 + 5 {
        writer.turn(turn).unwrap();
        if turn % 10 == 9 {
            places.push(writer.journal.position().segment);
            snapshot(&disk, &writer).unwrap();
        }
    }
    let before = places[places.len() - 2];
    (disk, writer, before)
}

/// Every command that is kept, read as `verify` reads it.
fn kept(disk: &FaultyStorage) -> Vec<SequencedCommand> {
    let recovery = inspect(disk, &small(), StartAt::Oldest).unwrap();
    recovery.tail(disk).unwrap().flat_map(|group| group.unwrap().commands).collect()
}

fn compressed(disk: &FaultyStorage) -> usize {
    disk.list().unwrap().iter().filter(|name| name.ends_with(".seg.zst")).count()
}

#[test]
fn a_whole_run_stays_readable_and_its_old_segments_are_compressed() {
    let (disk, writer, before) = with_snapshots(4);
    let all = kept(&disk);
    surplus(&disk, &small(), Keep::All).unwrap().remove(&disk).unwrap();
    let count = compress_segments(&disk, &small(), || true).unwrap();
    assert!(count > 2, "{count}");
    assert_eq!((compressed(&disk), count), (count, usize::try_from(before - 1).unwrap()));
    assert_eq!(kept(&disk), all, "from the first command");
    assert_eq!(all.first().map(|stamped| stamped.seq), Some(Seq(1)));
    judge(&disk, writer.acked, &writer.appended).unwrap();
    // A second pass finds nothing to do.
    assert_eq!(compress_segments(&disk, &small(), || true).unwrap(), 0);
    assert_eq!(surplus(&disk, &small(), Keep::All).unwrap(), Default::default());
}

#[test]
fn a_crash_while_segments_are_compressed_loses_nothing() {
    let (disk, writer, before) = with_snapshots(3);
    let all = kept(&disk);
    disk.keep_images();
    surplus(&disk, &small(), Keep::All).unwrap().remove(&disk).unwrap();
    compress_segments(&disk, &small(), || true).unwrap();
    let mut states = 0;
    for image in disk.take_images() {
        for crash in Crash::ALL {
            let crashed = image.crash(crash, states);
            judge(&crashed, writer.acked, &writer.appended).unwrap();
            let (whole, found) = (all.len(), kept(&crashed));
            assert!(found.len() <= whole && found == all[..found.len()], "{crash:?}");
            assert!(found.len() as u64 >= writer.acked, "{crash:?}");
            // The next pass completes the work.
            compress_segments(&crashed, &small(), || true).unwrap();
            assert_eq!(compressed(&crashed), usize::try_from(before - 1).unwrap());
            states += 1;
        }
    }
    assert!(states > 20);
}

#[test]
fn a_damaged_compressed_segment_is_named_and_a_start_does_not_need_it() {
    let (disk, writer, _) = with_snapshots(3);
    compress_segments(&disk, &small(), || true).unwrap();
    let name = "journal-00000001.seg.zst";
    let size = disk.bytes(name).unwrap().len();
    for byte in (0..size).step_by(size / 40) {
        let damaged = disk.copy();
        damaged.edit(name, |bytes| bytes[byte] ^= 0x55);
        let refused = inspect(&damaged, &small(), StartAt::Oldest).unwrap_err();
        assert!(matches!(refused, OpenError::DamagedArchive { segment: 1, .. }), "byte {byte}: {refused}");
        assert!(refused.to_string().contains(name) && refused.remedy().contains("restore"), "{refused}");
        judge(&damaged, writer.acked, &writer.appended).unwrap();
    }
    let short = disk.copy();
    short.edit(name, |bytes| bytes.truncate(size / 2));
    assert!(inspect(&short, &small(), StartAt::Oldest).unwrap_err().to_string().contains(name));
    // The remedy: without the file and those before it, the history begins at the oldest snapshot.
    short.remove(name).unwrap();
    let left = kept(&short);
    assert!(left[0].seq > Seq(1) && left.len() as u64 + left[0].seq.0 > writer.acked);
}

#[test]
fn a_full_disk_leaves_the_segments_as_they_are() {
    let (disk, writer, _) = with_snapshots(3);
    let (all, before) = (kept(&disk), disk.list().unwrap());
    disk.give_trouble(DiskFaults { capacity: Some(1), ..DiskFaults::default() });
    assert!(compress_segments(&disk, &small(), || true).is_err());
    disk.give_trouble(DiskFaults::default());
    assert_eq!(disk.list().unwrap(), before);
    assert_eq!(kept(&disk), all);
    judge(&disk, writer.acked, &writer.appended).unwrap();
}

#[test]
fn time_bound_drops_only_older_segments() {
    let (disk, writer, _) = with_snapshots(6);
    let last_ns = writer.acked * 10;
    compress_segments(&disk, &small(), || true).unwrap();
    let wanted_ns = last_ns / 2;
    let found = surplus(&disk, &small(), Keep::Duration(wanted_ns)).unwrap();
    let dropped = found.dropped_up_to.unwrap();
    let removed = found.remove(&disk).unwrap();
    assert!(removed.segments.iter().all(|name| name.ends_with(".seg.zst")) && !removed.segments.is_empty());
    let left = kept(&disk);
    assert_eq!(left.first().map(|stamped| stamped.seq), Some(dropped.next()));
    // Snapshots cut the history, so at least the wanted time is left.
    assert!(left[0].at.0 <= last_ns - wanted_ns, "{} of {last_ns}", left[0].at.0);
    judge(&disk, writer.acked, &writer.appended).unwrap();
    // A run that is shorter than the bound stays whole.
    let (disk, ..) = with_snapshots(3);
    assert_eq!(surplus(&disk, &small(), Keep::Duration(u64::MAX)).unwrap().dropped_up_to, None);
}

#[test]
fn a_bound_of_bytes_is_kept_but_two_snapshots_stay() {
    let (disk, writer, _) = with_snapshots(6);
    compress_segments(&disk, &small(), || true).unwrap();
    let bytes = |disk: &FaultyStorage| -> u64 {
        let names = disk.list().unwrap();
        let segments = names.iter().filter(|name| name.starts_with("journal-"));
        segments.map(|name| disk.bytes(name).unwrap().len() as u64).sum()
    };
    let whole = bytes(&disk);
    assert_eq!(surplus(&disk, &small(), Keep::Bytes(whole)).unwrap().dropped_up_to, None);
    surplus(&disk, &small(), Keep::Bytes(whole - 1)).unwrap().remove(&disk).unwrap();
    assert!(bytes(&disk) < whole);
    surplus(&disk, &small(), Keep::Bytes(1)).unwrap().remove(&disk).unwrap();
    assert_eq!(disk.list().unwrap().iter().filter(|name| name.starts_with("snapshot-")).count(), 2);
    judge(&disk, writer.acked, &writer.appended).unwrap();
    assert!(!kept(&disk).is_empty());
}
