//! `pitwire journal-bench`: how fast commands become durable, and how fast they come back.

mod flow;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use clap::Args;
use pitwire_disk::DirectoryStorage;
use pitwire_engine::Engine;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Journal, PreparedSegment};
use pitwire_journal::{Log, LogError, OutputHash, Storage};
use pitwire_model::{Command, Seq, VenueNanos};
use pitwire_projections::Views;
use pitwire_schedule::{TimerQueue, Unscheduled};
use pitwire_server::{ServiceOptions, VenueService};
use pitwire_venue::{EventQueue, LogBackend, Maintenance, Sequencer, Venue, capture_snapshot, journal_config, recover};

use crate::output::say;
use flow::Flow;
use pitwire_configuration::demo;
use pitwire_failure::Failure;

const EXAMPLES: &str = "Examples:
  pitwire journal-bench --data /tmp/bench                    ten million commands, five runs
  pitwire journal-bench --data /tmp/bench --commands 1000000 --runs 3 --json

Commands are 54 % limit orders near the touch, 40 % cancels and 6 % immediate orders, about 20,000 orders live, from
two members and twelve house accounts. `journal` is the journal alone: numbered commands in, on disk; `venue` is the
whole writer before it: engine, views, public channels, hash chains. A commit is one write and one sync.";

/// Journal commands in groups, then recover them; time both.
#[derive(Args)]
#[command(after_help = EXAMPLES, hide = true)]
pub struct JournalBench {
    /// An empty directory, or one that does not exist yet. Removed afterwards.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    commands: u64,
    /// Commands in one group commit.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    batch: u64,
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// In a hundred commands so many are members'; the others come from house accounts, which keep no history.
    #[arg(long, value_name = "PERCENT", default_value_t = 20)]
    members: u64,
    #[arg(long)]
    json: bool,
}

const LIVE: usize = 20_000;
const PAUSE_LIVE: usize = 120_000;
const PAUSE_COMMANDS: u64 = 600_000;

struct Pauses {
    live: usize,
    handing_us: f64,
    taking_us: f64,
}

/// Medians and everything else that was measured, in commands a second.
struct Figures {
    journal: Vec<f64>,
    venue: f64,
    recovery: Vec<f64>,
    /// Processor time of the fastest run of each, over all threads, in nanoseconds a command.
    cpu_ns: [f64; 2],
    pauses: Pauses,
}

impl JournalBench {
    pub fn run(self) -> Result<(), Failure> {
        let is_taken = self.data.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_taken {
            return Err(Failure::usage(format!("{} is not empty", self.data.display())));
        }
        let log = self.data.join("log");
        let pauses = self.pauses(&log)?;
        let mut cpu_ns = [f64::INFINITY; 2];
        let journal = (0..self.runs).map(|_| self.write_alone(&log, &mut cpu_ns[0])).collect::<Result<_, Failure>>()?;
        let venue = self.write_venue(&log)?;
        let recovery = (0..self.runs).map(|_| self.read_back(&log, &mut cpu_ns[1])).collect::<Result<_, Failure>>()?;
        std::fs::remove_dir_all(&self.data)?;
        self.report(Figures { journal, venue, recovery, cpu_ns, pauses });
        Ok(())
    }

    fn report(&self, mut figures: Figures) {
        let (journal, recovery) = (median(&mut figures.journal), median(&mut figures.recovery));
        let Figures { cpu_ns, pauses, .. } = &figures;
        let (commands, batch, runs, venue) = (self.commands, self.batch, self.runs, figures.venue);
        #[allow(clippy::cast_precision_loss)]
        let seconds = commands as f64 / recovery;
        if self.json {
            say(&format!(
                "{{\"commands\":{commands},\"batch\":{batch},\"runs\":{runs},\"journal_per_s\":{journal:.0},\
                 \"venue_per_s\":{venue:.0},\"recovery_per_s\":{recovery:.0},\"recovery_s\":{seconds:.3},\
                 \"journal_cpu_ns\":{:.1},\"recovery_cpu_ns\":{:.1},\"live_orders\":{},\"snapshot_pause_us\":{:.1},\
                 \"snapshot_on_the_spot_us\":{:.1}}}",
                cpu_ns[0], cpu_ns[1], pauses.live, pauses.handing_us, pauses.taking_us
            ));
            return;
        }
        say(&format!("commands        {commands}, {batch} a commit"));
        say(&format!("journal_per_s   {journal:.0} (median of {runs}: {})", spread(&figures.journal)));
        say(&format!("venue_per_s     {venue:.0}"));
        say(&format!("recovery_per_s  {recovery:.0} (median of {runs}: {})", spread(&figures.recovery)));
        say(&format!("recovery_s      {seconds:.3}"));
        say(&format!(
            "processor       {:.0} ns a command journaled, {:.0} recovered (all threads)",
            cpu_ns[0], cpu_ns[1]
        ));
        say(&format!(
            "snapshot pause  {:.0} us with {} orders live; {:.0} us if it were taken on the spot",
            pauses.handing_us, pauses.live, pauses.taking_us
        ));
    }

    /// The journal alone: commands are made outside the clock, a million at a time.
    fn write_alone(&self, directory: &Path, least_cpu_ns: &mut f64) -> Result<f64, Failure> {
        let _ = std::fs::remove_dir_all(directory);
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
        let (mut journal, _) = Journal::open(storage, journal_config())?;
        let mut segments = Segments::default();
        let (mut flow, mut seconds, mut done) = (Flow::new(self.seed, self.members, LIVE), 0.0, 0);
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
                segments.attend(&mut journal)?;
            }
            seconds += started.elapsed().as_secs_f64();
            cpu_s += cpu_seconds() - cpu_started;
        }
        segments.finish(&mut journal)?;
        journal.close()?;
        *least_cpu_ns = least_cpu_ns.min(per_command_ns(cpu_s, self.commands));
        #[allow(clippy::cast_precision_loss)]
        Ok(self.commands as f64 / seconds)
    }

    /// Everything the venue does with a command but sockets.
    fn write_venue(&self, directory: &Path) -> Result<f64, Failure> {
        let (service, seconds) = self.filled(directory, self.commands, LIVE)?;
        service.venue.close()?;
        #[allow(clippy::cast_precision_loss)]
        Ok(self.commands as f64 / seconds)
    }

    /// A venue that has just committed so many commands, and the time it was at work.
    fn filled(&self, directory: &Path, commands: u64, live: usize) -> Result<(VenueService, f64), Failure> {
        let _ = std::fs::remove_dir_all(directory);
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
        let (journal, _) = Journal::open(storage, journal_config())?;
        let start = VenueNanos(1_767_603_600_000_000_000);
        let sequencer = Sequencer::resume(Engine::new(), LogBackend::Disk(Box::new(journal)), Seq(0), start);
        let timers = TimerQueue::starting(Box::new(Unscheduled), sequencer.engine(), start, VenueNanos::ZERO);
        let venue = Venue::new(sequencer, Views::new(), OutputChain::new(), EventQueue::new(timers));
        let mut service = VenueService::new(venue, ServiceOptions::default());
        for command in demo().commands()?.into_iter().chain(flow::endowments()) {
            service.submit_at(start, command)?;
        }
        let (mut segments, mut flow) = (Segments::default(), Flow::new(self.seed, self.members, live));
        flow.skip_to(service.venue.last());
        let mut batch: Vec<Command> = Vec::new();
        let (mut seconds, mut done) = (0.0, 0);
        while done < commands {
            batch.clear();
            batch.extend((0..self.batch.min(commands - done)).map(|_| flow.stamped().command));
            done += batch.len() as u64;
            let started = Instant::now();
            for command in batch.drain(..) {
                service.submit_at(VenueNanos(start.0 + done), command)?;
                service.venue.clear_changes();
            }
            service.venue.commit()?;
            service.market_data.publisher.release();
            seconds += started.elapsed().as_secs_f64();
            if let Some(journal) = service.venue.journal_mut() {
                segments.attend(journal)?;
            }
        }
        if let Some(journal) = service.venue.journal_mut() {
            segments.finish(journal)?;
        }
        Ok((service, seconds))
    }

    /// How long a snapshot keeps the loop from its members: handing it to a replica, and, for comparison, taking it
    /// on the spot.
    fn pauses(&self, directory: &Path) -> Result<Pauses, Failure> {
        let (service, _) = self.filled(directory, PAUSE_COMMANDS, PAUSE_LIVE)?;
        let (mut handing, mut taking) = (Vec::new(), Vec::new());
        for _ in 0..self.runs {
            let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
            let mut maintenance = Maintenance::new(storage, Seq(0), 0);
            let started = Instant::now();
            maintenance.start_snapshot(&service.venue, 0);
            handing.push(started.elapsed().as_secs_f64() * 1e6);
            maintenance.wait_for_snapshot();
            let started = Instant::now();
            drop(capture_snapshot(&service.venue));
            taking.push(started.elapsed().as_secs_f64() * 1e6);
        }
        let live = service.venue.engine().live_orders();
        Ok(Pauses { live, handing_us: median(&mut handing), taking_us: median(&mut taking) })
    }

    /// A start without sockets, from the first command: no snapshot helps.
    fn read_back(&self, directory: &Path, least_cpu_ns: &mut f64) -> Result<f64, Failure> {
        let (started, cpu_started) = (Instant::now(), cpu_seconds());
        let recovered = recover(directory)?;
        let seconds = started.elapsed().as_secs_f64();
        *least_cpu_ns = least_cpu_ns.min(per_command_ns(cpu_seconds() - cpu_started, self.commands));
        let last = recovered.sequencer.last().0;
        if last < self.commands {
            return Err(Failure::new(format!("only {last} commands came back")));
        }
        #[allow(clippy::cast_precision_loss)]
        Ok(last as f64 / seconds)
    }
}

/// Of all threads of this process.
#[allow(clippy::cast_precision_loss)]
fn cpu_seconds() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

#[allow(clippy::cast_precision_loss)]
fn per_command_ns(seconds: f64, commands: u64) -> f64 {
    seconds * 1e9 / commands as f64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(sorted: &[f64]) -> String {
    let ends = sorted.first().zip(sorted.last());
    ends.map_or_else(String::new, |(least, most)| format!("{least:.0} to {most:.0}"))
}

/// Segments made on another thread, as the venue has them made.
struct Segments {
    report: Sender<Result<PreparedSegment, LogError>>,
    done: Receiver<Result<PreparedSegment, LogError>>,
    under_way: usize,
}

impl Default for Segments {
    fn default() -> Self {
        let (report, done) = channel();
        Segments { report, done, under_way: 0 }
    }
}

impl Segments {
    fn attend(&mut self, journal: &mut Journal) -> Result<(), LogError> {
        while let Ok(outcome) = self.done.try_recv() {
            self.under_way -= 1;
            journal.segment_ready(outcome)?;
        }
        if let Some(job) = journal.segment_wanted() {
            self.under_way += 1;
            let report = self.report.clone();
            thread::spawn(move || drop(report.send(job.run())));
        }
        Ok(())
    }

    fn finish(&mut self, journal: &mut Journal) -> Result<(), LogError> {
        while self.under_way > 0 {
            let Ok(outcome) = self.done.recv() else { break };
            self.under_way -= 1;
            journal.segment_ready(outcome)?;
        }
        Ok(())
    }
}
