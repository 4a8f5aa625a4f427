//! Power cuts at every operation: acknowledged commands are there, and the others are a prefix,
//! each whole or absent.

use crate::common::{Loss, Writer, judge, open, test_seed};
use pitwire_faulty_disk::{Crash, DiskFaults, FaultyStorage};
use pitwire_journal::Log;
use pitwire_random::SplitMix64;

/// Crashes after each operation of one turn, in every mode, and judges the result. `before` is the
/// number of commands acknowledged before the turn.
fn crash_everywhere(disk: &FaultyStorage, writer: &Writer, before: u64, seed: u64) -> Result<u64, Loss> {
    let images = disk.take_images();
    let mut states = 0;
    for image in &images {
        // Which of the turn's operations follow the acknowledgement is unknown here; the last image
        // does.
        for crash in Crash::ALL {
            judge(&image.crash(crash, seed ^ states), before, &writer.appended)?;
            states += 1;
        }
    }
    for crash in Crash::ALL {
        judge(&disk.crash(crash, seed ^ states), writer.acked, &writer.appended)?;
        states += 1;
    }
    Ok(states)
}

fn run(seed: u64, turns: u64, trouble: DiskFaults) -> Result<(u64, u64), Loss> {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, seed).map_err(|error| Loss::Refused(error.to_string()))?;
    disk.give_trouble(trouble);
    disk.keep_images();
    let (mut states, mut boundaries) = (0, 0);
    for turn in 0..turns {
        let before = writer.acked;
        // First the bare commit, so that its boundary is judged alone, then a whole turn with
        // maintenance.
        let count = writer.random.below(30);
        writer.append(count).unwrap();
        writer.commit().unwrap();
        states += crash_everywhere(&disk, &writer, before, seed ^ turn)?;
        let before = writer.acked;
        writer.turn(turn).unwrap();
        states += crash_everywhere(&disk, &writer, before, seed ^ turn)?;
        boundaries += 2;
    }
    Ok((states, boundaries))
}

#[test]
fn nothing_acknowledged_is_lost_at_any_boundary() {
    let seed = test_seed();
    let (mut states, mut boundaries) = (0, 0);
    for round in 0..52 {
        let (s, b) = run(seed ^ (round << 32), 20, DiskFaults::default())
            .unwrap_or_else(|loss| panic!("TEST_SEED={seed} round {round}: {loss:?}"));
        states += s;
        boundaries += b;
    }
    println!("{boundaries} acknowledgement boundaries, {states} crash states");
    assert!(boundaries >= 2000);
}

/// Tests the judge: a disk that reports a sync too early makes the journal acknowledge too early.
#[test]
fn an_acknowledgement_before_the_sync_is_caught() {
    for seed in 1..=10 {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed).unwrap();
        writer.append(5).unwrap();
        writer.commit().unwrap();
        disk.give_trouble(DiskFaults { lies_from: Some(disk.operations()), ..DiskFaults::default() });
        writer.append(5).unwrap();
        writer.commit().unwrap();
        match judge(&disk.crash(Crash::DropAll, 0), writer.acked, &writer.appended) {
            Err(Loss::Acknowledged { acked: 10, found: 5 }) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

/// The same fault is found by the whole search. Here the journal itself may notice first.
#[test]
fn search_finds_a_disk_that_reports_syncs_too_early() {
    for seed in 1..=10 {
        match run(seed, 20, DiskFaults { lies_from: Some(30), ..DiskFaults::default() }) {
            Err(Loss::Acknowledged { .. } | Loss::Refused(_)) => {}
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

/// A killed process leaves its unsynced commit in the page cache. Once a start has shown it to a
/// client, it must survive a power cut.
#[test]
fn state_shown_by_a_start_survives_the_next_power_cut() {
    for seed in 0..20 {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed).unwrap();
        disk.keep_images();
        for turn in 0..15 {
            writer.turn(turn).unwrap();
            for image in disk.take_images() {
                let killed = image.crash(Crash::Kill, 0);
                let seen = judge(&killed, 0, &writer.appended).unwrap();
                for crash in Crash::ALL {
                    judge(&killed.crash(crash, turn), seen, &writer.appended).unwrap();
                }
            }
        }
    }
}

/// A kill at any moment, a start, and then a power cut at any moment: data that the page cache
/// still held at the first start must not break the second one.
#[test]
fn a_kill_and_then_a_power_cut_lose_nothing() {
    for seed in 0..6 {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed).unwrap();
        disk.keep_images();
        for turn in 0..8 {
            writer.turn(turn * 10).unwrap();
            for image in disk.take_images() {
                let killed = image.crash(Crash::Kill, 0);
                let found = judge(&killed.copy(), 0, &writer.appended).unwrap();
                let mut next = Writer::begin(&killed, turn).unwrap();
                next.appended = writer.appended[..usize::try_from(found).unwrap()].to_vec();
                killed.keep_images();
                next.append(2).unwrap();
                next.commit().unwrap();
                next.journal.write_superblock_if_due(1_000).unwrap();
                for (index, image) in (0..).zip(killed.take_images()) {
                    for crash in Crash::ALL {
                        for salt in 0..3 {
                            judge(&image.crash(crash, turn ^ (index << 8) ^ (salt << 16)), found, &next.appended)
                                .unwrap_or_else(|loss| panic!("seed {seed} turn {turn} {crash:?}: {loss:?}"));
                        }
                    }
                }
            }
        }
    }
}

/// Recovery is interrupted after each of its operations, and the next recovery finds the same.
#[test]
fn recovery_can_be_interrupted_anywhere() {
    let seed = test_seed();
    let mut random = SplitMix64::new(seed);
    let mut torn = 0;
    for round in 0..40 {
        let disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed ^ round).unwrap();
        for turn in 0..random.below(8) {
            writer.turn(turn).unwrap();
        }
        let acked = writer.acked;
        writer.append(30).unwrap();
        disk.keep_images();
        writer.commit().unwrap();
        for image in disk.take_images() {
            let crashed = image.crash(Crash::TornSectors, random.next());
            let recovering = crashed.copy();
            recovering.keep_images();
            let (_, recovery) = open(&recovering).unwrap();
            if let Some(cut) = recovery.torn {
                torn += 1;
                let name = format!("journal-{:08}.seg", cut.segment);
                let (from, bytes) = (usize::try_from(cut.offset).unwrap(), recovering.crash(Crash::DropAll, 0));
                let is_scrubbed = bytes.bytes(&name).unwrap()[from..].iter().all(|byte| *byte == 0);
                assert!(is_scrubbed, "TEST_SEED={seed} round {round}: scrubbed for good before anything is appended");
            }
            let first = recovery.last.0;
            for cut_off in recovering.take_images() {
                for crash in Crash::ALL {
                    let found = judge(&cut_off.crash(crash, random.next()), acked, &writer.appended)
                        .unwrap_or_else(|loss| panic!("TEST_SEED={seed} round {round}: {loss:?}"));
                    assert_eq!(found, first, "TEST_SEED={seed} round {round}");
                }
            }
        }
    }
    assert!(torn >= 20, "only {torn} torn tails: this test tests little");
}

/// An interrupted first start leaves nothing that breaks the second one.
#[test]
fn a_first_start_can_be_interrupted_anywhere() {
    let disk = FaultyStorage::new();
    disk.keep_images();
    let (journal, recovery) = open(&disk).unwrap();
    assert!(recovery.is_fresh);
    journal.close().unwrap();
    let mut states = 0;
    for image in disk.take_images() {
        for crash in Crash::ALL {
            for seed in 0..32 {
                let crashed = image.crash(crash, seed);
                let mut writer = Writer::begin(&crashed, seed).unwrap();
                writer.append(3).unwrap();
                writer.commit().unwrap();
                judge(&crashed.crash(Crash::DropAll, seed), 3, &writer.appended).unwrap();
                states += 1;
            }
        }
    }
    assert!(states > 1000);
}

/// Crash, recover, continue, crash again: a scrubbed tail must not come back, and numbers must
/// continue without a gap.
#[test]
fn commands_continue_without_a_gap_after_a_crash() {
    let seed = test_seed();
    for round in 0..24 {
        let mut disk = FaultyStorage::new();
        let mut writer = Writer::begin(&disk, seed ^ round).unwrap();
        for generation in 0..12_u64 {
            for turn in 0..3 {
                writer.turn(turn).unwrap();
            }
            let (acked, crash) = (writer.acked, Crash::ALL[usize::try_from(writer.random.below(8)).unwrap()]);
            let lost = writer.random.below(20);
            writer.append(lost).unwrap();
            disk.keep_images();
            writer.commit().unwrap();
            let images = disk.take_images();
            let image = images.first().cloned().unwrap_or_else(|| disk.image());
            disk = image.crash(crash, seed ^ generation);
            let found = judge(&disk, acked, &writer.appended)
                .unwrap_or_else(|loss| panic!("TEST_SEED={seed} round {round} {crash:?}: {loss:?}"));
            let (journal, _) = open(&disk).unwrap();
            writer.journal = journal;
            writer.appended.truncate(usize::try_from(found).unwrap());
            writer.acked = found;
        }
    }
}

#[test]
fn the_log_can_be_followed_from_any_command() {
    let disk = FaultyStorage::new();
    let mut writer = Writer::begin(&disk, 5).unwrap();
    for turn in 0..40 {
        writer.turn(turn).unwrap();
    }
    writer.append(3).unwrap(); // not durable, so not followed
    for from in 0..=writer.acked + 1 {
        let mut followed = Vec::new();
        writer.journal.follow_from(pitwire_model::Seq(from), &mut |stamped| followed.push(stamped)).unwrap();
        let expected: Vec<_> =
            writer.appended.iter().filter(|s| (from..=writer.acked).contains(&s.seq.0)).cloned().collect();
        assert_eq!(followed, expected);
    }
}
