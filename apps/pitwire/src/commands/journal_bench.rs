//! `pitwire journal-bench`: how fast commands become durable, and how fast they come back.

mod flow;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use clap::Args;
use pitwire_engine::Engine;
use pitwire_host::DirectoryStorage;
use pitwire_journal::{Journal, PreparedSegment};
use pitwire_log::OutputChain;
use pitwire_model::{Command, Seq, VenueNanos};
use pitwire_ports::{Log, LogError, OutputHash, Storage};
use pitwire_sequencer::{Sequencer, Timetable};
use pitwire_views::Views;

use crate::failure::Failure;
use crate::output::say;
use crate::venue::core::Core;
use crate::venue::ledger::Ledger;
use crate::venue::preset;
use crate::venue::recovery::{journal_config, recover};
use flow::Flow;

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

/// Medians and everything else that was measured, in commands a second.
struct Figures {
    journal: Vec<f64>,
    venue: f64,
    recovery: Vec<f64>,
}

impl JournalBench {
    pub fn run(self) -> Result<(), Failure> {
        let is_taken = self.data.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_taken {
            return Err(Failure::usage(format!("{} is not empty", self.data.display())));
        }
        let log = self.data.join("log");
        let journal = (0..self.runs).map(|_| self.write_alone(&log)).collect::<Result<_, _>>()?;
        let venue = self.write_venue(&log)?;
        let recovery = (0..self.runs).map(|_| self.read_back(&log)).collect::<Result<_, _>>()?;
        std::fs::remove_dir_all(&self.data)?;
        self.report(Figures { journal, venue, recovery });
        Ok(())
    }

    fn report(&self, mut figures: Figures) {
        let (journal, recovery) = (median(&mut figures.journal), median(&mut figures.recovery));
        let (commands, batch, runs, venue) = (self.commands, self.batch, self.runs, figures.venue);
        #[allow(clippy::cast_precision_loss)]
        let seconds = commands as f64 / recovery;
        if self.json {
            say(&format!(
                "{{\"commands\":{commands},\"batch\":{batch},\"runs\":{runs},\"journal_per_s\":{journal:.0},\
                 \"venue_per_s\":{venue:.0},\"recovery_per_s\":{recovery:.0},\"recovery_s\":{seconds:.3}}}"
            ));
            return;
        }
        say(&format!("commands        {commands}, {batch} a commit"));
        say(&format!("journal_per_s   {journal:.0} (median of {runs}: {})", spread(&figures.journal)));
        say(&format!("venue_per_s     {venue:.0}"));
        say(&format!("recovery_per_s  {recovery:.0} (median of {runs}: {})", spread(&figures.recovery)));
        say(&format!("recovery_s      {seconds:.3}"));
    }

    /// The journal alone: commands are made outside the clock, a million at a time.
    fn write_alone(&self, directory: &Path) -> Result<f64, Failure> {
        let _ = std::fs::remove_dir_all(directory);
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
        let (mut journal, _) = Journal::open(storage, journal_config())?;
        let mut segments = Segments::default();
        let (mut flow, mut seconds, mut done) = (Flow::new(self.seed, self.members), 0.0, 0);
        let mut stamped = Vec::new();
        while done < self.commands {
            stamped.clear();
            stamped.extend((0..1_000_000.min(self.commands - done)).map(|_| flow.stamped()));
            done += stamped.len() as u64;
            let started = Instant::now();
            for group in stamped.chunks(usize::try_from(self.batch).unwrap_or(4096).max(1)) {
                for command in group {
                    journal.append(command)?;
                }
                journal.commit(OutputHash([7; 32]))?;
                segments.attend(&mut journal)?;
            }
            seconds += started.elapsed().as_secs_f64();
        }
        segments.finish(&mut journal)?;
        journal.close()?;
        #[allow(clippy::cast_precision_loss)]
        Ok(self.commands as f64 / seconds)
    }

    /// Everything the venue does with a command but sockets.
    fn write_venue(&self, directory: &Path) -> Result<f64, Failure> {
        let _ = std::fs::remove_dir_all(directory);
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
        let (journal, _) = Journal::open(storage, journal_config())?;
        let ledger = Ledger::Disk(Box::new(journal));
        let start = VenueNanos(1_767_603_600_000_000_000);
        let sequencer = Sequencer::resume(Engine::new(), ledger, Seq(0), start);
        let timetable = Timetable::starting(start, VenueNanos::ZERO);
        let mut core = Core::new(sequencer, Views::new(), OutputChain::new(), timetable);
        for command in preset::demo().commands()?.into_iter().chain(flow::endowments()) {
            core.submit_at(start, command)?;
        }
        let mut segments = Segments::default();
        let mut flow = Flow::new(self.seed, self.members);
        flow.skip_to(core.sequencer.last());
        let mut commands: Vec<Command> = Vec::new();
        let (mut seconds, mut done) = (0.0, 0);
        while done < self.commands {
            commands.clear();
            commands.extend((0..self.batch.min(self.commands - done)).map(|_| flow.stamped().command));
            done += commands.len() as u64;
            let started = Instant::now();
            for command in commands.drain(..) {
                core.submit_at(VenueNanos(start.0 + done), command)?;
                core.changes.clear();
            }
            core.commit()?;
            core.publisher.release();
            seconds += started.elapsed().as_secs_f64();
            if let Some(journal) = core.sequencer.log_mut().journal_mut() {
                segments.attend(journal)?;
            }
        }
        if let Ledger::Disk(mut journal) = core.sequencer.into_log() {
            segments.finish(&mut journal)?;
            journal.close()?;
        }
        #[allow(clippy::cast_precision_loss)]
        Ok(self.commands as f64 / seconds)
    }

    /// A start without sockets, from the first command: no snapshot helps.
    fn read_back(&self, directory: &Path) -> Result<f64, Failure> {
        let started = Instant::now();
        let recovered = recover(directory)?;
        let seconds = started.elapsed().as_secs_f64();
        let last = recovered.sequencer.last().0;
        if last < self.commands {
            return Err(Failure::new(format!("only {last} commands came back")));
        }
        #[allow(clippy::cast_precision_loss)]
        Ok(last as f64 / seconds)
    }
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
