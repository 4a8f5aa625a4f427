//! A run that is kept: a data directory like a venue's, which every command that reads one reads.

use std::fs;
use std::path::Path;

use pitwire_disk::DirectoryLock;
use pitwire_journal::OutputHash;
use pitwire_journal::records::OutputChain;
use pitwire_model::Seq;

use super::report::Figures;
use pitwire_failure::Failure;
use pitwire_venue::{LogBackend, Recovered, Sequencer, recover};

/// Commands of one group in the journal. Nobody waits for an answer, so groups are large and syncs few.
const GROUP: u64 = 4096;

/// The writer of a new run, and the lock that must be held as long as it writes.
pub fn begin(directory: &Path) -> Result<(Sequencer<LogBackend>, DirectoryLock), Failure> {
    let Recovered { sequencer, lock, .. } = recover(directory)?;
    if sequencer.last() == Seq(0) {
        return Ok((sequencer, lock));
    }
    Err(Failure::new(format!("{} holds a run already", directory.display()))
        .remedy("give --out a directory that is empty"))
}

/// Puts what has come together on disk, if this run is kept and it is time.
pub fn commit_group(sequencer: &mut Sequencer<LogBackend>, chain: &mut OutputChain) -> Result<(), Failure> {
    let is_time = sequencer.last().0.is_multiple_of(GROUP) && sequencer.log().journal().is_some();
    if is_time { commit(sequencer, chain) } else { Ok(()) }
}

fn commit(sequencer: &mut Sequencer<LogBackend>, chain: &mut OutputChain) -> Result<(), Failure> {
    let output = chain.seal();
    sequencer.commit(OutputHash(output))?;
    Ok(())
}

/// The end of a run.
pub fn finish(mut sequencer: Sequencer<LogBackend>, chain: &mut OutputChain) -> Result<(), Failure> {
    commit(&mut sequencer, chain)?;
    if let LogBackend::Disk(journal) = sequencer.into_log() {
        journal.close()?;
    }
    Ok(())
}

/// Writes the report's two files.
pub fn write_report(directory: &Path, title: &str, figures: &Figures) -> Result<(), Failure> {
    let failed = |error: String| {
        Failure::new(format!("cannot write the report to {}: {error}", directory.display())).remedy("look at --out")
    };
    let json = serde_json::to_string_pretty(figures).map_err(|error| failed(error.to_string()))?;
    let page = super::page::page(title, figures).map_err(|error| failed(error.to_string()))?;
    fs::write(directory.join("report.json"), json + "\n").map_err(|error| failed(error.to_string()))?;
    fs::write(directory.join("report.html"), page).map_err(|error| failed(error.to_string()))
}
