//! Commits in two steps: commands are appended while the sync of the commit before runs. Whatever
//! was acknowledged survives every crash and every failure.

use crate::common::{Writer, judge, output_after};
use pitwire_faulty_disk::{Crash, DiskFaults, FaultyStorage};
use pitwire_journal::{Log, LogError, OutputHash, SyncJob};
use pitwire_model::Seq;

const TURNS: u64 = 40;

/// A venue that appends the commands of a turn while the commit of the turn before is synced.
struct Overlapping {
    writer: Writer,
    sync: Option<SyncJob>,
}

impl Overlapping {
    fn begin(disk: &FaultyStorage, seed: u64) -> Self {
        Overlapping { writer: Writer::begin(disk, seed).unwrap(), sync: None }
    }

    fn start(&mut self) -> Result<(), LogError> {
        let last = Seq(self.writer.appended.len() as u64);
        self.sync = self.writer.journal.start_commit(output_after(last))?;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LogError> {
        let Some(job) = self.sync.take() else { return Ok(()) };
        self.writer.acked = self.writer.journal.finish_commit(job.run())?.0;
        Ok(())
    }

    fn turn(&mut self, number: u64) -> Result<(), LogError> {
        let count = 1 + self.writer.random.below(9);
        self.writer.append(count)?;
        self.finish()?;
        self.start()?;
        if number.is_multiple_of(4)
            && let Some(job) = self.writer.journal.segment_wanted()
        {
            self.writer.journal.segment_ready(job.run())?;
        }
        self.writer.journal.write_superblock_if_due(number)?;
        Ok(())
    }
}

#[test]
fn crash_during_a_sync_loses_nothing_acknowledged() {
    let mut lost = 0;
    for seed in 0..8 {
        let disk = FaultyStorage::new();
        let mut venue = Overlapping::begin(&disk, seed);
        for turn in 0..TURNS {
            venue.turn(turn).unwrap();
            let written = venue.writer.appended.len() as u64;
            for crash in Crash::ALL {
                let found = judge(&disk.crash(crash, turn), venue.writer.acked, &venue.writer.appended).unwrap();
                lost += written - found;
            }
        }
        assert!(venue.writer.journal.position().segment > 1, "segments end during the run");
    }
    // Otherwise an early acknowledgement would pass this test.
    assert!(lost > 1_000, "{lost}");
}

#[test]
fn nothing_is_acknowledged_after_a_failed_operation() {
    let mut failing = 0;
    loop {
        failing += 1;
        let disk = FaultyStorage::new();
        let mut venue = Overlapping::begin(&disk, 31);
        let at = disk.operations() + failing;
        disk.give_trouble(DiskFaults { fails_at: Some(at), ..DiskFaults::default() });
        let failed = (0..TURNS).find_map(|turn| venue.turn(turn).err());
        let Some(error) = failed else { break };
        assert!(matches!(error, LogError::Io { .. }), "{error}");
        disk.give_trouble(DiskFaults::default());
        // The end of a sync that ran during the failure still counts, but a failed one never does.
        let acked = venue.writer.acked;
        if venue.finish().is_err() {
            assert_eq!(venue.writer.journal.durable_position().0, acked);
        }
        for crash in Crash::ALL {
            judge(&disk.crash(crash, failing), venue.writer.acked, &venue.writer.appended).unwrap();
        }
    }
    assert!(failing > 60, "{failing}");
}

#[test]
fn failed_sync_poisons_for_good() {
    let disk = FaultyStorage::new();
    let mut venue = Overlapping::begin(&disk, 32);
    venue.writer.append(3).unwrap();
    venue.start().unwrap();
    disk.give_trouble(DiskFaults { fails_at: Some(disk.operations() + 1), ..DiskFaults::default() });
    assert!(matches!(venue.finish(), Err(LogError::Io { doing: "sync", .. })));
    disk.give_trouble(DiskFaults::default());
    let journal = &mut venue.writer.journal;
    assert_eq!(journal.durable_position(), Seq(0));
    assert!(matches!(journal.start_commit(OutputHash::default()), Err(LogError::Poisoned)));
    assert!(matches!(journal.commit(OutputHash::default()), Err(LogError::Poisoned)));
}

#[test]
fn second_commit_waits_for_the_first() {
    let disk = FaultyStorage::new();
    let mut venue = Overlapping::begin(&disk, 33);
    assert!(venue.writer.journal.start_commit(OutputHash::default()).unwrap().is_none(), "nothing was appended");
    venue.writer.append(3).unwrap();
    venue.start().unwrap();
    venue.writer.append(2).unwrap();
    let journal = &mut venue.writer.journal;
    assert_eq!(journal.durable_position(), Seq(0));
    assert!(matches!(journal.start_commit(output_after(Seq(5))), Err(LogError::Unfinished)));
    assert!(matches!(journal.commit(output_after(Seq(5))), Err(LogError::Unfinished)));
    venue.finish().unwrap();
    assert_eq!(venue.writer.acked, 3);
    venue.start().unwrap();
    venue.finish().unwrap();
    judge(&disk.crash(Crash::DropAll, 0), 5, &venue.writer.appended).unwrap();
}
