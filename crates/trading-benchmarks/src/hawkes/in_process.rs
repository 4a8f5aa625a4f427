//! The orders in this process: engine, hash of its events, and journal.
//!
//! Does        execute orders while the disk syncs the orders before them.
//! Holds       the latency of an order ends when its commit is durable.
//! Start at    [`run`].

use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use pitwire_benchmarks::BenchProgress;
use pitwire_benchmarks::journal::{SegmentMaker, SyncThread};
use pitwire_benchmarks::orders::{Latencies, nanoseconds};
use pitwire_disk::DirectoryStorage;
use pitwire_engine::Engine;
use pitwire_failure::Failure;
use pitwire_journal::records::OutputChain;
use pitwire_journal::{Journal, JournalConfig, LogError, OutputHash, Storage};
use pitwire_model::{Event, Seq};
use pitwire_venue::Sequencer;

use super::order_source::{OrderSource, START};
use super::plan::{HawkesRow, RowPlan};

/// Orders that are made at a time, before they are timed. The clock runs until the last commit of a
/// chunk is durable.
const CHUNK: u64 = 262_144;
/// Orders between two looks at the running sync.
const LOOK_EVERY: usize = 64;
/// Orders in one commit at most, as a multiple of the fewest. Then the clock waits for the sync.
const LARGEST_COMMIT: usize = 4;

/// Runs one row with its journal in `directory`. A commit has at least `group` orders, and more if
/// the sync of the one before takes longer.
///
/// # Errors
///
/// Fails if the journal cannot be written.
pub fn run(
    config: JournalConfig,
    plan: RowPlan,
    seed: u64,
    group: usize,
    directory: &Path,
    progress: &BenchProgress,
) -> Result<HawkesRow, Failure> {
    let mut source = OrderSource::new(plan, seed)?;
    let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(directory)?);
    let (journal, _) = Journal::open(storage, config)?;
    let mut sequencer = Sequencer::resume(Engine::new(), journal, Seq(0), START);
    let (mut chain, mut events) = (OutputChain::new(), Vec::new());
    for command in source.take_setup() {
        let stamped = sequencer.submit(START, command, &mut events)?;
        chain.absorb(&stamped, &events);
        events.clear();
    }
    sequencer.commit(OutputHash(chain.seal()))?;
    let mut commits = Commits::new(group);
    // A running venue has prepared its next segment. Later ones are prepared during the run.
    commits.segments.start_wanted(sequencer.log_mut())?;
    commits.segments.finish(sequencer.log_mut())?;
    let total = plan.orders();
    let (mut seconds, mut refused, mut done) = (0.0, 0, 0);
    while done < total {
        let orders = source.make(CHUNK.min(total - done))?;
        done += orders.len() as u64;
        let begun = Instant::now();
        for (number, order) in (1..).zip(&orders) {
            commits.entered_at.push(Instant::now());
            let stamped = sequencer.submit(order.at, order.command(), &mut events)?;
            chain.absorb(&stamped, &events);
            refused += u64::from(events.iter().any(|event| matches!(event, Event::Rejected { .. })));
            events.clear();
            if number % LOOK_EVERY == 0 {
                commits.advance(sequencer.log_mut(), &mut chain)?;
            }
        }
        commits.finish_all(sequencer.log_mut(), &mut chain)?;
        seconds += begun.elapsed().as_secs_f64();
        progress.add(orders.len() as u64);
    }
    let mut journal = sequencer.into_log();
    commits.segments.finish(&mut journal)?;
    journal.close()?;
    Ok(HawkesRow { plan, orders: total, refused, seconds, latencies: commits.latencies })
}

/// The commits of a row: the sync of one runs while the orders of the next are executed.
struct Commits {
    sync: SyncThread,
    segments: SegmentMaker,
    /// Fewest orders in a commit.
    group: usize,
    /// Entry times of the orders whose commit has not begun.
    entered_at: Vec<Instant>,
    /// Entry times of the orders whose sync runs.
    syncing: Vec<Instant>,
    is_syncing: bool,
    latencies: Latencies,
}

impl Commits {
    fn new(group: usize) -> Self {
        Commits {
            sync: SyncThread::default(),
            segments: SegmentMaker::default(),
            group,
            entered_at: Vec::new(),
            syncing: Vec::new(),
            is_syncing: false,
            latencies: Latencies::new(),
        }
    }

    /// Takes the end of a sync, and begins the next commit if it has enough orders.
    fn advance(&mut self, journal: &mut Journal, chain: &mut OutputChain) -> Result<(), LogError> {
        if self.is_syncing {
            let is_full = self.entered_at.len() / LARGEST_COMMIT >= self.group;
            let outcome = if is_full { Some(self.sync.wait()) } else { self.sync.poll() };
            let Some(outcome) = outcome else { return Ok(()) };
            journal.finish_commit(outcome)?;
            self.acknowledge();
            self.segments.start_wanted(journal)?;
        }
        if self.entered_at.len() >= self.group { self.begin(journal, chain) } else { Ok(()) }
    }

    fn begin(&mut self, journal: &mut Journal, chain: &mut OutputChain) -> Result<(), LogError> {
        if let Some(job) = journal.start_commit(OutputHash(chain.seal()))? {
            self.sync.start(job)?;
            self.is_syncing = true;
            mem::swap(&mut self.entered_at, &mut self.syncing);
        }
        Ok(())
    }

    /// Records the orders of a commit that has become durable.
    fn acknowledge(&mut self) {
        self.is_syncing = false;
        let durable_at = Instant::now();
        let latencies = &mut self.latencies;
        self.syncing.drain(..).for_each(|entered| latencies.record(nanoseconds(durable_at - entered)));
    }

    /// Waits until every order is durable.
    fn finish_all(&mut self, journal: &mut Journal, chain: &mut OutputChain) -> Result<(), LogError> {
        loop {
            if self.is_syncing {
                journal.finish_commit(self.sync.wait())?;
                self.acknowledge();
            }
            if self.entered_at.is_empty() {
                return Ok(());
            }
            self.begin(journal, chain)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use pitwire_journal::Log;
    use pitwire_model::{Command, SequencedCommand};
    use pitwire_order_flow::SEEDS;
    use pitwire_venue::journal_config;

    use super::*;

    #[test]
    fn journal_has_every_order_and_every_order_a_latency() {
        let directory = std::env::temp_dir().join(format!("pitwire-in-process-{}", std::process::id()));
        let plan = RowPlan { clients: 2, stocks: 2, orders_per_client: 1_000 };
        // Commits of 7 orders and more: most of them wait for the sync before. Segments end often.
        let config = JournalConfig { segment_bytes: 64 << 10, group_bytes: 32 << 10, ..journal_config() };
        let row = run(config.clone(), plan, 7, 7, &directory, &BenchProgress::default()).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(DirectoryStorage::open_or_create(&directory).unwrap());
        let (journal, _) = Journal::open(storage, config).unwrap();
        let mut orders = 0;
        let mut count = |entry: SequencedCommand| orders += u64::from(matches!(entry.command, Command::Enter(_)));
        journal.follow_from(Seq(1), &mut count).unwrap();
        std::fs::remove_dir_all(&directory).unwrap();
        let seeds = (plan.stocks * SEEDS.len()) as u64;
        assert_eq!((orders, row.orders, row.latencies.histogram().len()), (2_000 + seeds, 2_000, 2_000));
    }
}
