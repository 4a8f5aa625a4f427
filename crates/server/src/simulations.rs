//! Simulations, which a venue runs in separate processes for its operators, and for its members if
//! its start says so.
//!
//! Does        start `pitwire sim` and `pitwire export` as child processes, follow their progress,
//!             keep their files in bounded space, and read parts of these files.
//! Holds       1. the venue thread waits for no disk and no process: threads of low priority do;
//!             2. there is at most one child process at a time;
//!             3. a member sees and ends only runs that it started;
//!             4. runs are bounded in number, age and bytes, and leave the disk free space;
//!             5. a child process whose venue has died ends at its next line of progress.
//! Start at    [`Simulations::answer`].

mod child_process;
mod file_reads;
mod run_record;
mod run_store;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use pitwire_configuration::PresetName;
use pitwire_deribit::{SimulationCall, SimulationCaller, SimulationOptions, SimulationRefusal};

use self::file_reads::{FileKey, FileReads};
use self::run_record::{RunRecord, RunState};
use self::run_store::RunStore;

pub use self::run_store::RunBounds;

/// The runs of a venue, and the thread that is at work on one of them.
pub struct Simulations {
    store: Arc<RunStore>,
    /// The `pitwire` program.
    program: PathBuf,
    worker: Option<SimulationThread>,
    reads: FileReads,
    /// Whether members may run simulations.
    is_for_members: bool,
}

/// A thread that runs a simulation or exports one.
struct SimulationThread {
    run: u64,
    stops: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

fn refusal(name: &'static str, param: Option<&'static str>, reason: impl Into<String>) -> SimulationRefusal {
    SimulationRefusal { name, param, reason: reason.into() }
}

impl Simulations {
    /// Finds the runs that `directory` keeps from before. It is created with the first run. A
    /// temporary directory is removed at the end.
    pub fn open(program: PathBuf, directory: &Path, bounds: RunBounds, is_temporary: bool) -> Simulations {
        let store = Arc::new(RunStore::open(directory, bounds, is_temporary));
        Simulations { store, program, worker: None, reads: FileReads::default(), is_for_members: false }
    }

    /// Says whether members may run simulations, too.
    #[must_use]
    pub fn for_members(mut self, is_for_members: bool) -> Simulations {
        self.is_for_members = is_for_members;
        self
    }

    /// Answers a request as JSON.
    ///
    /// # Errors
    ///
    /// Returns the reason of a refusal.
    pub fn answer(&mut self, by: &SimulationCaller, asked: SimulationCall) -> Result<String, SimulationRefusal> {
        let member = match by {
            SimulationCaller::Operator => None,
            SimulationCaller::Member(name) if self.is_for_members => Some(name.as_str()),
            SimulationCaller::Member(_) => {
                let reason = "this venue runs simulations for operators; `pitwire up --member-simulations` runs \
                              them for members, too";
                return Err(refusal("operator_only", None, reason));
            }
        };
        // The record of a finished run is the last thing that its thread changes, so this waits for
        // the end of a thread only.
        let is_finished =
            |worker: &mut SimulationThread| worker.thread.is_finished() || self.store.is_finished(worker.run);
        if let Some(worker) = self.worker.take_if(is_finished) {
            self.end(worker);
        }
        match asked {
            SimulationCall::Start(options) => self.start(member, options),
            SimulationCall::Stop(run) => self.stop(&self.found(member, run)?),
            SimulationCall::Delete(run) => self.delete(&self.found(member, run)?),
            SimulationCall::Export(run, format) => self.export(self.found(member, run)?, &format),
            SimulationCall::List => {
                let mut runs = self.store.newest_first();
                runs.retain(|record| record.is_visible_to(member));
                Ok(to_json(&runs))
            }
            SimulationCall::File { run, name, offset } => self.file(&self.found(member, run)?, name, offset),
        }
    }

    /// Waits for a thread that has ended or is about to. A panic leaves its run unfinished.
    fn end(&self, worker: SimulationThread) {
        if worker.thread.join().is_err() {
            self.store.change(worker.run, |record| {
                record.end(RunState::Failed, Some("the thread of the run panicked (report it with the log)".into()));
            });
        }
    }

    /// Returns a run that a member, or an operator without a name here, may see.
    fn found(&self, member: Option<&str>, run: u64) -> Result<RunRecord, SimulationRefusal> {
        let unknown = || refusal("unknown_simulation", Some("simulation_id"), format!("no simulation {run}"));
        self.store.record(run).filter(|record| record.is_visible_to(member)).ok_or_else(unknown)
    }

    fn start(&mut self, member: Option<&str>, options: SimulationOptions) -> Result<String, SimulationRefusal> {
        if PresetName::named(&options.preset).is_none() {
            let known = PresetName::names().collect::<Vec<_>>().join(", ");
            let reason = format!("no preset {:?}: expected one of {known}", options.preset);
            return Err(refusal("invalid_params", Some("preset"), reason));
        }
        self.check_idle()?;
        let record = self.store.begin(&options, member);
        let run = record.simulation_id;
        let program = self.program.clone();
        self.spawn(run, move |store, stops| child_process::simulate(store, run, &program, &options, stops))?;
        Ok(to_json(&record))
    }

    fn export(&mut self, record: RunRecord, format: &str) -> Result<String, SimulationRefusal> {
        let run = record.simulation_id;
        self.check_idle()?;
        if record.state != RunState::Done {
            let reason = format!("simulation {run} did not come to its end");
            return Err(refusal("simulation_without_tables", Some("simulation_id"), reason));
        }
        let program = self.program.clone();
        let wanted = format.to_owned();
        self.store.change(run, |record| record.begin_export());
        self.spawn(run, move |store, stops| child_process::export(store, run, &program, &wanted, stops))?;
        Ok(to_json(&self.store.record(run).unwrap_or(record)))
    }

    fn check_idle(&self) -> Result<(), SimulationRefusal> {
        match &self.worker {
            Some(worker) => {
                Err(refusal("simulation_running", None, format!("simulation {} is not finished", worker.run)))
            }
            None => Ok(()),
        }
    }

    fn spawn(
        &mut self,
        run: u64,
        work: impl FnOnce(&RunStore, &AtomicBool) + Send + 'static,
    ) -> Result<(), SimulationRefusal> {
        let (store, stops) = (Arc::clone(&self.store), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&stops);
        let work = move || {
            let _ = rustix::process::nice(10);
            work(&store, &flag);
        };
        match thread::Builder::new().name("simulation".into()).spawn(work) {
            Ok(thread) => {
                self.worker = Some(SimulationThread { run, stops, thread });
                Ok(())
            }
            Err(error) => {
                let what = format!("cannot start a thread: {error}");
                self.store.change(run, |record| record.end(RunState::Failed, Some(what.clone())));
                Err(refusal("internal_error", None, what))
            }
        }
    }

    fn stop(&mut self, record: &RunRecord) -> Result<String, SimulationRefusal> {
        let run = record.simulation_id;
        match self.worker.as_ref().filter(|worker| worker.run == run) {
            Some(worker) => worker.stops.store(true, Ordering::Relaxed),
            None => {
                let reason = format!("simulation {run} has ended already");
                return Err(refusal("simulation_finished", Some("simulation_id"), reason));
            }
        }
        Ok(to_json(record))
    }

    fn delete(&mut self, record: &RunRecord) -> Result<String, SimulationRefusal> {
        let run = record.simulation_id;
        if !record.is_finished() {
            return Err(refusal(
                "simulation_running",
                Some("simulation_id"),
                format!("simulation {run} is not finished"),
            ));
        }
        let (store, deleted) = (Arc::clone(&self.store), self.store.forget(run));
        let work = move || store.remove_files(&deleted);
        let failed = |error: io::Error| refusal("internal_error", None, format!("cannot start a thread: {error}"));
        thread::Builder::new().name("simulation".into()).spawn(work).map_err(failed)?;
        Ok("\"ok\"".into())
    }

    fn file(&mut self, record: &RunRecord, name: String, offset: u64) -> Result<String, SimulationRefusal> {
        let run = record.simulation_id;
        // Only names of the list are opened, so that no request reaches another file.
        let known = record.files.iter().find(|file| file.name == name);
        let unknown = || refusal("unknown_simulation", Some("name"), format!("simulation {run} has no file {name:?}"));
        let file = known.ok_or_else(unknown)?;
        let key = FileKey { path: self.store.directory_of(run).join(&file.name), offset };
        let failed = |error: io::Error| refusal("internal_error", None, format!("cannot read {name:?}: {error}"));
        self.reads.ask(key).map(|part| to_json(&part)).map_err(failed)
    }
}

impl Drop for Simulations {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stops.store(true, Ordering::Relaxed);
            self.end(worker);
        }
        self.store.close();
    }
}

fn to_json(value: &impl serde::Serialize) -> String {
    // The types have text keys and finite numbers only, so this cannot fail.
    serde_json::to_string(value).unwrap_or_else(|_| "null".into())
}

#[cfg(all(test, unix))]
mod tests;
