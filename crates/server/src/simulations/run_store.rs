//! The runs of a venue and their directories.
//!
//! Holds       1. a directory has at most [`RunBounds::runs`] runs, none older than
//!                [`RunBounds::age`], and the older ones have at most [`RunBounds::bytes`];
//!             2. the lock is held for moments only, never while a file is read or written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use pitwire_deribit::SimulationOptions;
use tracing::warn;

use super::run_record::{RunFile, RunRecord, RunState, wall_ms};

const RECORD: &str = "run.json";
/// The journal of a run, in its directory.
pub const JOURNAL: &str = "journal";

/// Bounds of the runs that are kept.
#[derive(Clone, Copy, Debug)]
pub struct RunBounds {
    /// Most runs.
    pub runs: usize,
    /// Most runs of one member.
    pub member_runs: usize,
    /// Longest work on a run of a member, and on its export.
    pub member_time: Duration,
    /// Most address space of the process for a member, in bytes.
    pub member_memory_bytes: u64,
    pub age: Duration,
    /// Most bytes of all runs when another one starts.
    pub bytes: u64,
    /// Most bytes of one run with its tables.
    pub run_bytes: u64,
    /// Bytes that the disk must have left.
    pub free_bytes: u64,
}

impl Default for RunBounds {
    fn default() -> Self {
        RunBounds {
            runs: 20,
            member_runs: 5,
            member_time: Duration::from_secs(600),
            member_memory_bytes: 2 << 30,
            age: Duration::from_secs(7 * 86_400),
            bytes: 4 << 30,
            run_bytes: 2 << 30,
            free_bytes: 1 << 30,
        }
    }
}

pub struct RunStore {
    directory: PathBuf,
    pub bounds: RunBounds,
    is_temporary: bool,
    /// Oldest first.
    runs: Mutex<Vec<RunRecord>>,
    /// Number of the newest run. A number is used once, also if its run is deleted.
    last: AtomicU64,
}

/// Returns the numbers of the directories of runs.
fn numbers(directory: &Path) -> Vec<u64> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut numbers: Vec<u64> = directories.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Reads the record of the run in a directory.
fn read_record(directory: &Path, number: u64) -> io::Result<RunRecord> {
    let record: RunRecord = serde_json::from_slice(&fs::read(directory.join(RECORD))?)?;
    if record.simulation_id != number {
        return Err(io::Error::other(format!("it is that of simulation {}", record.simulation_id)));
    }
    Ok(record)
}

/// Returns the time of the last change of a directory, in milliseconds since 1970; 0 if it is
/// unknown.
fn changed_ms(directory: &Path) -> u64 {
    let changed = fs::metadata(directory).and_then(|metadata| metadata.modified());
    let since = changed.ok().and_then(|changed| changed.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

impl RunStore {
    pub fn open(directory: &Path, bounds: RunBounds, is_temporary: bool) -> RunStore {
        let read = |number: u64| {
            let path = directory.join(number.to_string());
            read_record(&path, number).unwrap_or_else(|error| {
                warn!(directory = %path.display(), %error, "cannot read the record of a simulation");
                let error = format!("the record of the run cannot be read: {error} (delete the run)");
                RunRecord { bytes: bytes_below(&path), ..RunRecord::unreadable(number, changed_ms(&path), error) }
            })
        };
        let mut runs: Vec<RunRecord> = numbers(directory).into_iter().map(read).collect();
        for record in &mut runs {
            match record.state {
                // The journal is whole. The tables may not be.
                RunState::Exporting => {
                    record.end(RunState::Done, Some("the venue ended during the export (export again)".into()));
                }
                _ if !record.is_finished() => {
                    record.end(RunState::Failed, Some("the venue ended before the run (start it again)".into()));
                }
                _ => {}
            }
        }
        let last = AtomicU64::new(numbers(directory).last().copied().unwrap_or(0));
        RunStore { directory: directory.to_owned(), bounds, is_temporary, runs: Mutex::new(runs), last }
    }

    fn runs(&self) -> MutexGuard<'_, Vec<RunRecord>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn directory_of(&self, run: u64) -> PathBuf {
        self.directory.join(run.to_string())
    }

    pub fn newest_first(&self) -> Vec<RunRecord> {
        self.runs().iter().rev().cloned().collect()
    }

    pub fn record(&self, run: u64) -> Option<RunRecord> {
        self.runs().iter().find(|record| record.simulation_id == run).cloned()
    }

    /// Whether a run has ended, or is not in the list any more.
    pub fn is_finished(&self, run: u64) -> bool {
        self.runs().iter().find(|record| record.simulation_id == run).is_none_or(RunRecord::is_finished)
    }

    /// Adds a run that is about to start.
    pub fn begin(&self, options: &SimulationOptions, member: Option<&str>) -> RunRecord {
        let record = RunRecord::new(self.last.fetch_add(1, Ordering::Relaxed) + 1, options, member);
        self.runs().push(record.clone());
        record
    }

    pub fn change(&self, run: u64, change: impl FnOnce(&mut RunRecord)) {
        if let Some(record) = self.runs().iter_mut().find(|record| record.simulation_id == run) {
            change(record);
        }
    }

    /// Changes the record of a run, writes it to the directory of the run, and only then shows it.
    pub fn change_and_save(&self, run: u64, change: impl FnOnce(&mut RunRecord)) {
        let Some(mut record) = self.record(run) else { return };
        change(&mut record);
        let directory = self.directory_of(run);
        let temporary = directory.join("run.json.new");
        let written = serde_json::to_vec(&record)
            .map_err(io::Error::other)
            .and_then(|json| fs::write(&temporary, json))
            .and_then(|()| fs::rename(&temporary, directory.join(RECORD)));
        if let Err(error) = written {
            warn!(run, %error, "cannot write the record of a simulation; it is lost when the venue ends");
        }
        self.change(run, |shown| *shown = record);
    }

    /// Removes a run from the list. Returns its directory, whose files are left.
    pub fn forget(&self, run: u64) -> PathBuf {
        self.runs().retain(|record| record.simulation_id != run);
        self.directory_of(run)
    }

    pub fn remove_files(&self, directory: &Path) {
        if let Err(error) = fs::remove_dir_all(directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(directory = %directory.display(), %error, "cannot delete the files of a simulation");
        }
    }

    /// Deletes the oldest runs until one more fits the bounds, and checks the free space. A run of
    /// a member replaces no run of an operator.
    pub fn make_room(&self, run: u64) -> Result<(), String> {
        let oldest_ms = wall_ms().saturating_sub(u64::try_from(self.bounds.age.as_millis()).unwrap_or(u64::MAX));
        loop {
            let runs = self.runs();
            let others = || runs.iter().filter(|record| record.simulation_id != run);
            let bytes: u64 = others().map(|record| record.bytes).sum();
            let is_full = others().count() >= self.bounds.runs || bytes > self.bounds.bytes;
            let member = runs.iter().find(|record| record.simulation_id == run).and_then(|own| own.member.as_deref());
            let own = || others().filter(|record| record.is_visible_to(member));
            let has_enough = member.is_some() && own().count() >= self.bounds.member_runs;
            let outdated = others().find(|record| record.started_ms < oldest_ms);
            let oldest = outdated.or_else(|| match (has_enough, is_full) {
                (true, _) => own().next(),
                (false, true) => others().find(|record| member.is_none() || record.member.is_some()),
                (false, false) => None,
            });
            let Some(oldest) = oldest.map(|record| record.simulation_id) else {
                if is_full {
                    let what = "the venue keeps as many simulations as it may (ask an operator to delete some)";
                    return Err(what.into());
                }
                break;
            };
            drop(runs);
            let directory = self.forget(oldest);
            self.remove_files(&directory);
        }
        fs::create_dir_all(&self.directory)
            .map_err(|error| format!("cannot create {} ({error}; check the disk)", self.directory.display()))?;
        self.check_space()
    }

    /// Checks that the disk keeps its free space.
    pub fn check_space(&self) -> Result<(), String> {
        let Ok(disk) = rustix::fs::statvfs(&self.directory) else { return Ok(()) };
        let (free, wanted) = (disk.f_bavail.saturating_mul(disk.f_frsize), self.bounds.free_bytes);
        if free >= wanted {
            return Ok(());
        }
        let (free, wanted) = (free >> 20, wanted >> 20);
        Err(format!("the disk has {free} MiB left, and the venue needs {wanted} MiB (delete runs or other files)"))
    }

    /// Lists the files of a run that operators may read, and counts the bytes of all its files.
    pub fn measure(&self, run: u64) {
        let directory = self.directory_of(run);
        let mut files = Vec::new();
        for name in ["report.html", "report.json", super::run_record::FLOW_FILE] {
            let Ok(metadata) = fs::metadata(directory.join(name)) else { continue };
            files.push(RunFile { name: name.into(), bytes: metadata.len() });
        }
        for format in ["csv", "parquet"] {
            let mut tables: Vec<RunFile> = fs::read_dir(directory.join(format))
                .into_iter()
                .flatten()
                .flatten()
                .filter_map(|entry| {
                    let name = format!("{format}/{}", entry.file_name().to_str()?);
                    Some(RunFile { name, bytes: entry.metadata().ok()?.len() })
                })
                .collect();
            tables.sort_by(|one, other| one.name.cmp(&other.name));
            files.extend(tables);
        }
        let bytes = bytes_below(&directory);
        self.change(run, |record| (record.files, record.bytes) = (files, bytes));
    }

    /// Removes a temporary directory at the end of the venue.
    pub fn close(&self) {
        if self.is_temporary {
            self.remove_files(&self.directory);
        }
    }
}

/// Returns the bytes of the files in a directory and in those below it.
pub fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    };
    entries.map(bytes).sum()
}
