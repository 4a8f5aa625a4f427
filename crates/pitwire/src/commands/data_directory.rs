//! A data directory that a command reads and does not change.

use std::path::Path;

use pitwire_disk::DirectoryStorage;
use pitwire_failure::Failure;
use pitwire_journal::Recovery;
use pitwire_venue::inspect_settled;

/// Opens the journal in a data directory for reading. A venue may run there.
///
/// # Errors
///
/// Returns a failure that names the directory if it cannot be read or has no journal.
pub fn open(directory: &Path) -> Result<(DirectoryStorage, Recovery), Failure> {
    let remedy = "name the data directory of a venue";
    let storage = DirectoryStorage::read_only(directory)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", directory.display())).remedy(remedy))?;
    let recovery = inspect_settled(&storage)?;
    if recovery.is_fresh {
        return Err(Failure::new(format!("{} has no journal", directory.display())).remedy(remedy));
    }
    Ok((storage, recovery))
}
