//! Finished bars on disk, as Parquet files that appear only when they are complete.
//!
//! Does        collects rows, writes them under a temporary name, syncs, renames; starts a new file
//!             at an interval.
//! Holds       1. one writer per directory, by a lock that ends with the process;
//!             2. a file with its final name is complete and on disk. The next start removes the
//!                files of a killed writer.
//! Start at    [`BarArchive::open`], [`BarArchive::push`].

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pitwire_tables::ParquetTable;

use crate::columns::{COLUMNS, cells};
use crate::shard::BarRow;

const LOCK: &str = "bars.lock";
const UNFINISHED: &str = ".part";

/// An error of the directory, with its remedy.
#[derive(Debug)]
pub struct ArchiveError {
    what: String,
    remedy: &'static str,
}

impl ArchiveError {
    fn new(path: &Path, error: &dyn fmt::Display, remedy: &'static str) -> Self {
        ArchiveError { what: format!("{}: {error}", path.display()), remedy }
    }

    pub fn remedy(&self) -> &'static str {
        self.remedy
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ArchiveError {}

const WRITABLE: &str = "give --out a directory that can be written, with room on its disk";

pub struct BarArchive {
    directory: PathBuf,
    every: Duration,
    open: Option<OpenFile>,
    files: u64,
    rows: u64,
    /// The lock, held as long as the archive exists.
    _lock: File,
}

/// The file that is being written.
struct OpenFile {
    since: Instant,
    name: String,
    table: ParquetTable<BufWriter<File>>,
}

impl BarArchive {
    /// Creates the directory if necessary, and locks it.
    ///
    /// # Errors
    /// The directory cannot be written, or another process writes there.
    pub fn open(directory: &Path, every: Duration) -> Result<BarArchive, ArchiveError> {
        fs::create_dir_all(directory).map_err(|error| ArchiveError::new(directory, &error, WRITABLE))?;
        let path = directory.join(LOCK);
        let lock = File::options().create(true).write(true).truncate(false).open(&path);
        let lock = lock.map_err(|error| ArchiveError::new(&path, &error, WRITABLE))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let cause = "another pitwire bars writes here";
                return Err(ArchiveError::new(
                    directory,
                    &cause,
                    "give each its own --out directory, or end the other one",
                ));
            }
            Err(TryLockError::Error(error)) => return Err(ArchiveError::new(&path, &error, WRITABLE)),
        }
        let archive =
            BarArchive { directory: directory.to_path_buf(), every, open: None, files: 0, rows: 0, _lock: lock };
        archive.remove_unfinished().map_err(|error| ArchiveError::new(directory, &error, WRITABLE))?;
        Ok(archive)
    }

    /// Adds finished bars.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn push(&mut self, rows: &[BarRow]) -> Result<(), ArchiveError> {
        for row in rows {
            self.push_one(row).map_err(|error| ArchiveError::new(&self.directory, &error, WRITABLE))?;
        }
        Ok(())
    }

    /// Returns when the open file must be closed, if there is one.
    pub fn due(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.since + self.every)
    }

    /// Closes the open file, which then gets its final name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn rotate(&mut self) -> Result<(), ArchiveError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        self.publish(open).map_err(|error| ArchiveError::new(&self.directory, &error, WRITABLE))
    }

    /// Returns the number of published files and of the rows in them.
    pub fn totals(&self) -> (u64, u64) {
        (self.files, self.rows)
    }

    fn push_one(&mut self, row: &BarRow) -> io::Result<()> {
        let open = match &mut self.open {
            Some(open) => open,
            None => self.open.insert(OpenFile::create(&self.directory)?),
        };
        open.table.push(&cells(row))
    }

    fn publish(&mut self, open: OpenFile) -> io::Result<()> {
        let OpenFile { name, table, .. } = open;
        let (rows, out) = table.close()?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(self.directory.join(format!("{name}{UNFINISHED}")), self.directory.join(name))?;
        File::open(&self.directory)?.sync_all()?;
        self.files += 1;
        self.rows += rows;
        Ok(())
    }

    fn remove_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("bars-") && name.ends_with(UNFINISHED) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl OpenFile {
    /// Creates a file named by the current second, and a number that makes the name unique.
    fn create(directory: &Path) -> io::Result<OpenFile> {
        let second = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
        let taken =
            |name: &str| directory.join(name).exists() || directory.join(format!("{name}{UNFINISHED}")).exists();
        let names = (1_u32..).map(|number| format!("bars-{second}-{number}.parquet"));
        let name = names.into_iter().find(|name| !taken(name)).ok_or_else(|| io::Error::other("no name is free"))?;
        let file = File::create_new(directory.join(format!("{name}{UNFINISHED}")))?;
        Ok(OpenFile { since: Instant::now(), name, table: ParquetTable::new(BufWriter::new(file), "bar", &COLUMNS)? })
    }
}
