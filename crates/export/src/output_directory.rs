//! The output directory: written under a hidden name, renamed when it is complete.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pitwire_failure::Failure;

/// Mode of the directory. It holds the orders of all accounts, so only its owner may read it.
const DIRECTORY_MODE: u32 = 0o700;

/// Checks that `out` does not exist or is an empty directory.
///
/// # Errors
///
/// Returns a failure if `out` is a file or a directory with entries.
pub fn check_free(out: &Path) -> Result<(), Failure> {
    let taken = match fs::read_dir(out) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(_) => true,
    };
    if taken {
        return Err(Failure::new(format!("{} exists and is not empty", out.display()))
            .remedy("name a new directory with --out, or remove that one"));
    }
    Ok(())
}

/// A hidden directory that is deleted on drop unless it was published.
///
/// A killed process leaves its directory behind without a lock. The next export to the same place
/// deletes it.
pub struct OutputDirectory {
    path: PathBuf,
    /// Locked while the process lives.
    _lock: File,
    is_published: bool,
}

impl OutputDirectory {
    /// Creates the hidden directory in the parent of `out`, so that publishing is one rename.
    ///
    /// # Errors
    ///
    /// Returns a failure if `out` names no directory or its parent cannot be written.
    pub fn create_for(out: &Path) -> Result<Self, Failure> {
        let name = out.file_name().ok_or_else(|| {
            Failure::usage(format!("--out {} names no directory", out.display())).remedy("name a new one")
        })?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".unfinished-");
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|error| cannot_write(parent, &error))?;
        delete_abandoned(parent, &hidden);
        hidden.push(std::process::id().to_string());
        let path = parent.join(hidden);
        let made = DirBuilder::new().mode(DIRECTORY_MODE).create(&path).and_then(|()| {
            let lock = File::open(&path)?;
            lock.try_lock()?;
            Ok(lock)
        });
        let lock = made.map_err(|error| cannot_write(&path, &error))?;
        Ok(OutputDirectory { path, _lock: lock, is_published: false })
    }

    /// Returns the path of the hidden directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the directory to `out`.
    ///
    /// # Errors
    ///
    /// Returns the error of the rename as a failure.
    pub fn publish(mut self, out: &Path) -> Result<(), Failure> {
        fs::rename(&self.path, out).map_err(|error| cannot_write(out, &error))?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        if !self.is_published {
            // If the removal fails, nothing better can be done.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

/// Deletes the directories of killed exports: those that begin with `hidden` and are not locked.
/// Errors are ignored, because a directory that stays does no harm.
fn delete_abandoned(parent: &Path, hidden: &OsStr) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.as_bytes().strip_prefix(hidden.as_bytes());
        let is_ours = rest.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let is_abandoned = File::open(entry.path()).is_ok_and(|lock| lock.try_lock().is_ok());
        if is_abandoned {
            drop(fs::remove_dir_all(entry.path()));
        }
    }
}

/// Returns the failure for an I/O error at `path`.
pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
        .remedy("name a place with --out that has room and that you may write to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_killed_exports_are_deleted_and_those_of_living_ones_stay() {
        let parent = std::env::temp_dir().join(format!("pitwire-killed-{}", std::process::id()));
        let out = parent.join("tables");
        let killed = parent.join(format!(".tables.unfinished-{}", std::process::id()));
        let other = parent.join(".tables.unfinished-notes");
        let living = parent.join(".tables.unfinished-1");
        for path in [&killed, &other, &living] {
            fs::create_dir_all(path).unwrap();
        }
        fs::write(killed.join("orders.csv"), "half a row").unwrap();
        let lock = File::open(&living).unwrap();
        lock.try_lock().unwrap();
        let made = OutputDirectory::create_for(&out).unwrap();
        assert_eq!(fs::read_dir(made.path()).unwrap().count(), 0);
        assert!(other.exists() && living.exists());
        drop(made);
        assert!(!killed.exists());
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn an_unpublished_directory_is_deleted() {
        let parent = std::env::temp_dir().join(format!("pitwire-export-{}", std::process::id()));
        let out = parent.join("tables");
        let dropped = OutputDirectory::create_for(&out).unwrap();
        fs::write(dropped.path().join("orders.csv"), "half a row").unwrap();
        drop(dropped);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        let finished = OutputDirectory::create_for(&out).unwrap();
        fs::write(finished.path().join("orders.csv"), "whole").unwrap();
        finished.publish(&out).unwrap();
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(out.join("orders.csv")).unwrap(), "whole");
        assert!(check_free(&out).is_err() && check_free(&parent.join("other")).is_ok());
        fs::remove_dir_all(parent).unwrap();
    }
}
