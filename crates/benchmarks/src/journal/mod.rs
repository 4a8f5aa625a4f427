//! The journal: how fast commands become durable, and how fast they are recovered.
//!
//! Does        write commands through the journal alone and through the whole venue, recover them,
//!             and time the pause that a snapshot causes.
//! Start at    [`JournalBenchmark::run`].

mod command_flow;
mod sync_thread;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use pitwire_configuration::demo;
use pitwire_disk::DirectoryStorage;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Journal, Keep, Log, LogError, OutputHash, PreparedSegment, Storage};
use pitwire_model::{Command, Seq, VenueNanos};
use pitwire_projections::Views;
use pitwire_schedule::{ContinuousCalendar, TimerQueue};
use pitwire_server::{ServiceOptions, VenueService};
use pitwire_venue::{EventQueue, LogBackend, Maintenance, Sequencer, Venue, capture_snapshot, journal_config, recover};

use crate::BenchProgress;
use command_flow::CommandFlow;
pub use sync_thread::SyncThread;

/// Live orders during the throughput runs.
const LIVE: usize = 20_000;
/// Live orders when a snapshot is timed.
const SNAPSHOT_LIVE: usize = 120_000;
/// Commands before a snapshot is timed.
const SNAPSHOT_COMMANDS: u64 = 600_000;

/// What to measure.
pub struct JournalBenchmark {
    /// A directory that is empty or does not exist. It is removed afterwards.
    pub data: PathBuf,
    pub commands: u64,
    /// Commands in one group commit.
    pub batch: u64,
    pub runs: u64,
    pub seed: u64,
    /// Percentage of commands that come from members. The others come from house accounts, which
    /// have no history.
    pub members: u64,
    /// Counts commands, of each run and each recovery.
    pub progress: BenchProgress,
}

/// Time for which a snapshot stops the venue thread.
pub struct SnapshotPauses {
    /// Live orders in the snapshot.
    pub live: usize,
    /// With a copy of the state on another thread, in microseconds.
    pub replica_us: f64,
    /// With the snapshot taken on the venue thread, in microseconds.
    pub in_place_us: f64,
}

/// Everything that was measured. Rates are commands per second.
pub struct JournalFigures {
    pub journal: Vec<f64>,
    pub venue: f64,
    pub recovery: Vec<f64>,
    /// CPU time of the fastest journal run over all threads, in nanoseconds per command.
    pub journal_cpu_ns: f64,
    /// CPU time of the fastest recovery over all threads, in nanoseconds per command.
    pub recovery_cpu_ns: f64,
    pub pauses: SnapshotPauses,
}

impl JournalBenchmark {
    /// Runs all measurements and removes the directory.
    ///
    /// # Errors
    ///
    /// Returns a usage failure if the directory is not empty, and a failure if it cannot be written
    /// or read.
    pub fn run(&self) -> Result<JournalFigures, Failure> {
        let is_used = self.data.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_used {
            return Err(Failure::usage(format!("{} is not empty", self.data.display())));
        }
        let log = self.data.join("log");
        self.progress.plan(SNAPSHOT_COMMANDS + self.commands * (2 * self.runs + 1));
        let pauses = self.pauses(&log)?;
        let (mut journal_cpu_ns, mut recovery_cpu_ns) = (f64::INFINITY, f64::INFINITY);
        let journal =
            (0..self.runs).map(|_| self.write_alone(&log, &mut journal_cpu_ns)).collect::<Result<_, Failure>>()?;
        let venue = self.write_venue(&log)?;
        let recovery =
            (0..self.runs).map(|_| self.recover(&log, &mut recovery_cpu_ns)).collect::<Result<_, Failure>>()?;
        std::fs::remove_dir_all(&self.data)?;
        Ok(JournalFigures { journal, venue, recovery, journal_cpu_ns, recovery_cpu_ns, pauses })
    }

    /// Writes through the journal alone. Commands are made outside the clock, a million at a time.
    fn write_alone(&self, directory: &Path, min_cpu_ns: &mut f64) -> Result<f64, Failure> {
        let _ = std::fs::remove_dir_all(directory);
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
        let (mut journal, _) = Journal::open(storage, journal_config())?;
        let mut segments = SegmentMaker::default();
        let (mut flow, mut seconds, mut done) = (CommandFlow::new(self.seed, self.members, LIVE), 0.0, 0);
        let (mut stamped, mut cpu_s) = (Vec::new(), 0.0);
        while done < self.commands {
            stamped.clear();
            stamped.extend((0..1_000_000.min(self.commands - done)).map(|_| flow.stamped()));
            done += stamped.len() as u64;
            let (started, cpu_started) = (Instant::now(), cpu_seconds());
            for group in stamped.chunks(usize::try_from(self.batch).unwrap_or(4096).max(1)) {
                for command in group {
                    journal.append(command)?;
                }
                journal.commit(OutputHash([7; 32]))?;
                segments.start_wanted(&mut journal)?;
            }
            seconds += started.elapsed().as_secs_f64();
            cpu_s += cpu_seconds() - cpu_started;
            self.progress.add(stamped.len() as u64);
        }
        segments.finish(&mut journal)?;
        journal.close()?;
        *min_cpu_ns = min_cpu_ns.min(per_command_ns(cpu_s, self.commands));
        #[allow(clippy::cast_precision_loss)]
        Ok(self.commands as f64 / seconds)
    }

    /// Writes through the whole venue, without sockets.
    fn write_venue(&self, directory: &Path) -> Result<f64, Failure> {
        let (service, seconds) = self.filled_venue(directory, self.commands, LIVE)?;
        service.venue.close()?;
        #[allow(clippy::cast_precision_loss)]
        Ok(self.commands as f64 / seconds)
    }

    /// Returns a venue that has just committed `commands`, and the seconds that it took.
    fn filled_venue(&self, directory: &Path, commands: u64, live: usize) -> Result<(VenueService, f64), Failure> {
        let _ = std::fs::remove_dir_all(directory);
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
        let (journal, _) = Journal::open(storage, journal_config())?;
        let start = VenueNanos(1_767_603_600_000_000_000);
        let sequencer = Sequencer::resume(Engine::new(), LogBackend::Disk(Box::new(journal)), Seq(0), start);
        let timers = TimerQueue::starting(Box::new(ContinuousCalendar), sequencer.engine(), start, VenueNanos::ZERO);
        let venue = Venue::new(sequencer, Views::new(), OutputChain::new(), EventQueue::new(timers));
        let mut service = VenueService::new(venue, ServiceOptions::default());
        for command in demo().commands()?.into_iter().chain(command_flow::deposits()) {
            service.submit_at(start, command)?;
        }
        let (mut segments, mut flow) = (SegmentMaker::default(), CommandFlow::new(self.seed, self.members, live));
        flow.skip_to(service.venue.last());
        let mut batch: Vec<Command> = Vec::new();
        let (mut seconds, mut done) = (0.0, 0);
        while done < commands {
            batch.clear();
            batch.extend((0..self.batch.min(commands - done)).map(|_| flow.stamped().command));
            let batched = batch.len() as u64;
            done += batched;
            let started = Instant::now();
            for command in batch.drain(..) {
                service.submit_at(VenueNanos(start.0 + done), command)?;
                service.venue.clear_changes();
            }
            service.venue.commit()?;
            service.market_data.publisher.release();
            seconds += started.elapsed().as_secs_f64();
            self.progress.add(batched);
            if let Some(journal) = service.venue.journal_mut() {
                segments.start_wanted(journal)?;
            }
        }
        if let Some(journal) = service.venue.journal_mut() {
            segments.finish(journal)?;
        }
        Ok((service, seconds))
    }

    /// Times the pause of a snapshot: with a replica on another thread, and in place for
    /// comparison.
    fn pauses(&self, directory: &Path) -> Result<SnapshotPauses, Failure> {
        let (mut service, _) = self.filled_venue(directory, SNAPSHOT_COMMANDS, SNAPSHOT_LIVE)?;
        let (mut replica, mut in_place) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
            let mut maintenance = Maintenance::new(storage, Keep::All, Seq(0), 0);
            let started = Instant::now();
            maintenance.start_snapshot(&service.venue, 0);
            replica.push(started.elapsed().as_secs_f64() * 1e6);
            maintenance.wait_for_snapshot(&mut service.venue);
            let started = Instant::now();
            drop(capture_snapshot(&service.venue));
            in_place.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let live = service.venue.engine().live_orders();
        Ok(SnapshotPauses { live, replica_us: median(&mut replica), in_place_us: median(&mut in_place) })
    }

    /// Recovers all commands from the first one, without a snapshot.
    fn recover(&self, directory: &Path, min_cpu_ns: &mut f64) -> Result<f64, Failure> {
        let (started, cpu_started) = (Instant::now(), cpu_seconds());
        let recovered = recover(directory)?;
        let seconds = started.elapsed().as_secs_f64();
        *min_cpu_ns = min_cpu_ns.min(per_command_ns(cpu_seconds() - cpu_started, self.commands));
        self.progress.add(self.commands);
        let last = recovered.sequencer.last().0;
        if last < self.commands {
            return Err(Failure::new(format!("only {last} commands came back")));
        }
        #[allow(clippy::cast_precision_loss)]
        Ok(last as f64 / seconds)
    }
}

/// Returns the CPU time of all threads of this process.
#[allow(clippy::cast_precision_loss)]
pub fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

#[allow(clippy::cast_precision_loss)]
fn per_command_ns(seconds: f64, commands: u64) -> f64 {
    seconds * 1e9 / commands as f64
}

/// Returns the median of the samples and sorts them.
pub fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Prepares journal segments on another thread, as the venue does.
pub struct SegmentMaker {
    report: Sender<Result<PreparedSegment, LogError>>,
    done: Receiver<Result<PreparedSegment, LogError>>,
    in_progress: usize,
}

impl Default for SegmentMaker {
    fn default() -> Self {
        let (report, done) = channel();
        SegmentMaker { report, done, in_progress: 0 }
    }
}

impl SegmentMaker {
    /// Starts a segment if the journal wants one, and hands over finished ones.
    ///
    /// # Errors
    ///
    /// Returns an error if a segment could not be made.
    pub fn start_wanted(&mut self, journal: &mut Journal) -> Result<(), LogError> {
        while let Ok(outcome) = self.done.try_recv() {
            self.in_progress -= 1;
            journal.segment_ready(outcome)?;
        }
        if let Some(job) = journal.segment_wanted() {
            self.in_progress += 1;
            let report = self.report.clone();
            thread::spawn(move || drop(report.send(job.run())));
        }
        Ok(())
    }

    /// Waits until no segment is in preparation.
    ///
    /// # Errors
    ///
    /// As [`SegmentMaker::start_wanted`].
    pub fn finish(&mut self, journal: &mut Journal) -> Result<(), LogError> {
        while self.in_progress > 0 {
            let Ok(outcome) = self.done.recv() else { break };
            self.in_progress -= 1;
            journal.segment_ready(outcome)?;
        }
        Ok(())
    }
}
