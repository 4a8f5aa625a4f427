//! The test bench of CoinTossX: clients whose orders follow mutually exciting processes.
//!
//! The event times of the process order the events. The clients do not wait for them, as the
//! original does not: its published rate is above that of the process.
//!
//! Start at    [`HawkesBenchmark::run`].

mod in_process;
mod order_source;
mod plan;
mod published;
mod report;
mod venue_process;
mod wire_client;
mod wire_run;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use pitwire_benchmarks::BenchProgress;
use pitwire_failure::Failure;
use pitwire_venue::journal_config;

use crate::client_threads::{ClientThreads, ThreadModel};
pub use plan::{HawkesMode, Scenario};
use plan::{HawkesRow, RowPlan};
use report::HawkesReport;
use venue_process::VenueProcess;
use wire_run::WireLoad;

/// What to measure.
pub struct HawkesBenchmark {
    pub mode: HawkesMode,
    pub scenario: Scenario,
    pub rows: Vec<RowPlan>,
    pub seed: u64,
    /// Orders per second over all clients, in mode `pipelined`.
    pub rate: NonZeroU64,
    /// Fewest orders in one commit, in mode `inprocess`.
    pub group: usize,
    pub threads: ThreadModel,
    pub workers: usize,
    /// Program that starts the venue with `up`.
    pub program: PathBuf,
    /// `disk` or `memory`.
    pub durability: &'static str,
    /// Empty directory for the data of each row, which is removed afterwards.
    pub data: PathBuf,
    /// Counts orders over all rows.
    pub progress: Arc<BenchProgress>,
}

impl HawkesBenchmark {
    /// Runs all rows, each on a fresh venue.
    ///
    /// # Errors
    ///
    /// Fails if the directory is in use, or if a venue does not start or does not answer.
    pub fn run(self) -> Result<HawkesReport, Failure> {
        let is_used = self.data.read_dir().is_ok_and(|mut entries| entries.next().is_some());
        if is_used {
            return Err(Failure::usage(format!("{} is not empty", self.data.display()))
                .remedy("name an empty directory with --data"));
        }
        let mut rows = Vec::new();
        self.progress.plan(self.rows.iter().map(RowPlan::orders).sum());
        for plan in &self.rows {
            let row = self.run_row(*plan);
            let removed = std::fs::remove_dir_all(&self.data);
            rows.push(row?);
            removed?;
        }
        Ok(HawkesReport {
            mode: self.mode,
            scenario: self.scenario,
            seed: self.seed,
            rate: self.rate,
            durability: self.durability,
            threads: self.threads.name(),
            rows,
        })
    }

    fn run_row(&self, plan: RowPlan) -> Result<HawkesRow, Failure> {
        if self.mode == HawkesMode::Inprocess {
            return in_process::run(journal_config(), plan, self.seed, self.group, &self.data, &self.progress);
        }
        let venue = VenueProcess::start(&self.program, self.durability, &self.data)?;
        let threads = ClientThreads::new(self.threads, self.workers)?;
        let rate = (self.mode == HawkesMode::Pipelined).then_some(self.rate);
        let load = WireLoad { plan, seed: self.seed, rate, progress: Arc::clone(&self.progress) };
        threads.run(load.run(&threads, venue.url()))
    }
}
