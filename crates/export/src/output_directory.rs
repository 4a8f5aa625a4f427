//! The output directory: written under a hidden name, renamed when it is complete.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
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
pub struct OutputDirectory {
    path: PathBuf,
    is_published: bool,
}

impl OutputDirectory {
    /// Creates the hidden directory in the parent of `out`, so that publishing is one rename.
    pub fn create_for(out: &Path) -> Result<Self, Failure> {
        let name = out.file_name().ok_or_else(|| {
            Failure::usage(format!("--out {} names no directory", out.display())).remedy("name a new one")
        })?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".unfinished-{}", std::process::id()));
        let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let path = parent.join(hidden);
        let made = fs::create_dir_all(parent).and_then(|()| DirBuilder::new().mode(DIRECTORY_MODE).create(&path));
        made.map_err(|error| cannot_write(&path, &error))?;
        Ok(OutputDirectory { path, is_published: false })
    }

    /// Returns the path of the hidden directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the directory to `out`.
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

/// Returns the failure for an I/O error at `path`.
pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
        .remedy("name a place with --out that has room and that you may write to")
}

#[cfg(test)]
mod tests {
    use super::*;

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
