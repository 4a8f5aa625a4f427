//! All tables or none: they are written beside the place where they are wanted, and moved there when whole.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use pitwire_failure::Failure;

/// Everybody's orders are in it: for the owner's eyes, as the journal is.
const DIRECTORY_MODE: u32 = 0o700;

/// The place must be free: nothing there, or an empty directory.
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

/// A directory that disappears unless it is finished.
pub struct Unfinished {
    path: PathBuf,
    is_finished: bool,
}

impl Unfinished {
    /// In the same parent, so that finishing is one rename.
    pub fn beside(out: &Path) -> Result<Self, Failure> {
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
        Ok(Unfinished { path, is_finished: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn finish(mut self, out: &Path) -> Result<(), Failure> {
        fs::rename(&self.path, out).map_err(|error| cannot_write(out, &error))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nothing better can be done about a directory that does not go away.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

pub fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
        .remedy("name a place with --out that has room and that you may write to")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finished_leaves_nothing_behind() {
        let parent = std::env::temp_dir().join(format!("pitwire-export-{}", std::process::id()));
        let out = parent.join("tables");
        let unfinished = Unfinished::beside(&out).unwrap();
        fs::write(unfinished.path().join("orders.csv"), "half a row").unwrap();
        drop(unfinished);
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        let finished = Unfinished::beside(&out).unwrap();
        fs::write(finished.path().join("orders.csv"), "whole").unwrap();
        finished.finish(&out).unwrap();
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(out.join("orders.csv")).unwrap(), "whole");
        assert!(check_free(&out).is_err() && check_free(&parent.join("other")).is_ok());
        fs::remove_dir_all(parent).unwrap();
    }
}
