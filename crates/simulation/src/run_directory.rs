//! The directory of a run: a data directory like that of a venue, and the two files of the report.

use std::fs;
use std::path::Path;

use pitwire_disk::DirectoryLock;
use pitwire_failure::Failure;
use pitwire_journal::OutputHash;
use pitwire_journal::records::OutputChain;
use pitwire_model::Seq;
use pitwire_venue::{LogBackend, RecoveredVenue, Sequencer, recover};

use crate::report_page::page;
use crate::run_report::RunFigures;

/// Commands in one group of the journal. No client waits for a commit, so groups are large and
/// syncs few.
const GROUP: u64 = 4096;

/// Starts a new run. Returns its writer and the lock to hold while it writes.
///
/// # Errors
///
/// Returns a failure if the directory contains a run or cannot be opened.
pub fn begin(directory: &Path) -> Result<(Sequencer<LogBackend>, DirectoryLock), Failure> {
    let RecoveredVenue { sequencer, lock, .. } = recover(directory)?;
    if sequencer.last() == Seq(0) {
        return Ok((sequencer, lock));
    }
    Err(Failure::new(format!("{} holds a run already", directory.display()))
        .remedy("give --out a directory that is empty"))
}

/// Commits after every 4,096 commands if the run is on disk.
///
/// # Errors
///
/// Returns a failure if the journal cannot be written.
pub fn commit_full_group(sequencer: &mut Sequencer<LogBackend>, chain: &mut OutputChain) -> Result<(), Failure> {
    let is_full = sequencer.last().0.is_multiple_of(GROUP) && sequencer.log().journal().is_some();
    if is_full { commit(sequencer, chain) } else { Ok(()) }
}

fn commit(sequencer: &mut Sequencer<LogBackend>, chain: &mut OutputChain) -> Result<(), Failure> {
    let output = chain.seal();
    sequencer.commit(OutputHash(output))?;
    Ok(())
}

/// Commits the last group and closes the journal.
///
/// # Errors
///
/// Returns a failure if the journal cannot be written.
pub fn finish(mut sequencer: Sequencer<LogBackend>, chain: &mut OutputChain) -> Result<(), Failure> {
    commit(&mut sequencer, chain)?;
    if let LogBackend::Disk(journal) = sequencer.into_log() {
        journal.close()?;
    }
    Ok(())
}

/// Writes `report.json` and `report.html`.
///
/// # Errors
///
/// Returns a failure if a file cannot be written.
pub fn write_report(directory: &Path, title: &str, figures: &RunFigures) -> Result<(), Failure> {
    let failed = |error: String| {
        Failure::new(format!("cannot write the report to {}: {error}", directory.display())).remedy("look at --out")
    };
    let json = serde_json::to_string_pretty(figures).map_err(|error| failed(error.to_string()))?;
    let page = page(title, figures).map_err(|error| failed(error.to_string()))?;
    fs::write(directory.join("report.json"), json + "\n").map_err(|error| failed(error.to_string()))?;
    fs::write(directory.join("report.html"), page).map_err(|error| failed(error.to_string()))
}
