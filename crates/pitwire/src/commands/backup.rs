//! `pitwire backup` and `pitwire restore`: copies of a data directory.

use std::path::PathBuf;

use clap::Args;
use pitwire_failure::Failure;
use pitwire_venue::{Manifest, ReplayProgress, back_up, restore};

use pitwire_terminal::command_progress::CommandProgress;
use pitwire_terminal::output::say;

const BACKUP_EXAMPLES: &str = "Examples:
  pitwire backup pitwire-data backups/monday
      copy and verify the data directory of a venue, which may run meanwhile
  rsync -a backups/monday elsewhere: && pitwire backup pitwire-data backups/tuesday
      keep the copies on another machine";

const RESTORE_EXAMPLES: &str = "Examples:
  pitwire restore backups/monday pitwire-data
      check the backup and make it a data directory again
  pitwire restore backups/monday trial && pitwire up --data trial --http 127.0.0.1:8081
      try a backup beside the running venue";

/// Copy a data directory, also while its venue runs, and verify the copy.
///
/// The copy has the log up to one command, snapshots, sealed credentials, settings, the bus key and
/// the certificate authority. It does not have the key file of the credentials (--key-file of up):
/// keep a copy of that file in another place.
#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct Backup {
    /// The data directory of a venue.
    dir: PathBuf,
    /// The new directory of the copy.
    to: PathBuf,
}

/// Make a data directory from a backup, after checking every file and replaying the log.
///
/// Nothing is overwritten: the data directory must not exist, or be empty. Start the venue there
/// with the key file of the credentials (--key-file of up).
#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct Restore {
    /// A directory that pitwire backup made.
    from: PathBuf,
    /// The new data directory.
    dir: PathBuf,
}

impl Backup {
    /// Copies a data directory and verifies the copy.
    ///
    /// # Errors
    /// If a directory cannot be read or written, the log is damaged, or the target has entries.
    pub fn run(self) -> Result<(), Failure> {
        let copy = |show: ReplayProgress<'_>| back_up(&self.dir, &self.to, show);
        report("verifying the copy", copy, &format!("backed up to {}", self.to.display()))
    }
}

impl Restore {
    /// Verifies a backup and makes it a data directory again.
    ///
    /// # Errors
    /// If the backup is damaged or incomplete, or the target has entries.
    pub fn run(self) -> Result<(), Failure> {
        let copy = |show: ReplayProgress<'_>| restore(&self.from, &self.dir, show);
        report("verifying the backup", copy, &format!("restored to {}", self.dir.display()))
    }
}

/// Runs a copy with a progress bar, then prints a summary.
fn report(
    doing: &'static str,
    copy: impl FnOnce(ReplayProgress<'_>) -> Result<Manifest, Failure>,
    done: &str,
) -> Result<(), Failure> {
    let progress = CommandProgress::new(doing);
    let manifest = copy(&mut |done, total| progress.show(done, total))?;
    drop(progress);
    let (files, bytes) = (manifest.files.len(), manifest.bytes());
    say(&format!("{done}: {files} files, {bytes} bytes, verified up to command {}", manifest.last_command));
    if manifest.has_credentials() {
        say("the sealed credentials need their key file (pitwire up --key-file), which is not in the backup");
    }
    Ok(())
}
