//! Copies of a data directory: taken while the venue runs, verified, and restored.
//!
//! Does        copy the log up to one command, with the newest snapshots, the credentials, keys and
//!             settings; list every file with its hash; replay the copy.
//! Holds       1. a copy has its name only when it is complete, synced and verified;
//!             2. nothing that exists is overwritten;
//!             3. the sealed credentials are copied after the log, so no account lacks its own. A
//!                credential whose account is newer than the log is dropped by the start.
//! Leaves out  the key of the sealed credentials, which is kept elsewhere on purpose.
//! Start at    [`back_up`] and [`restore`].

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pitwire_disk::{DirectoryStorage, IrregularEntry, open_regular};
use pitwire_failure::Failure;
use pitwire_journal::{CopyPart, Recovery, StartAt, Storage, inspect};
use serde::{Deserialize, Serialize};

use crate::recovery::{inspect_settled, irregular, is_venue_file, journal_config};
use crate::replay::{Replay, ReplayProgress};

/// The list of a copy's files.
const MANIFEST: &str = "backup.json";
const FORMAT: u32 = 1;
/// Files of a running process, which no copy needs.
const LOCK: &str = "lock";
const TEMPORARY: &str = ".tmp";
/// The subdirectory of the venue's certificate authority.
const TLS: &str = "tls";
const CREDENTIALS: &str = "credentials.sealed";
/// Attempts to copy a directory from which the venue removes old files meanwhile.
const MOST_ATTEMPTS: u32 = 10;
const CHUNK_BYTES: usize = 1 << 20;

/// The content of a copy.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest {
    format: u32,
    /// Number of the last command in the copy.
    pub last_command: u64,
    pub files: Vec<ListedFile>,
}

/// A file of a copy.
#[derive(Debug, Serialize, Deserialize)]
pub struct ListedFile {
    /// Path relative to the copy.
    pub name: String,
    pub bytes: u64,
    /// BLAKE3 in hexadecimal.
    pub blake3: String,
}

impl Manifest {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Whether the copy has sealed credentials, which need their key file.
    pub fn has_credentials(&self) -> bool {
        self.files.iter().any(|file| file.name == CREDENTIALS)
    }
}

/// Copies the data directory `from` to the new directory `to`, and verifies the copy. A venue may
/// run in `from`. `progress` is that of the verification, which takes most of the time.
///
/// # Errors
///
/// Returns a failure if `to` has entries, if a file cannot be read or written, or if the log is
/// damaged. Then `to` does not exist.
pub fn back_up(from: &Path, to: &Path, progress: ReplayProgress<'_>) -> Result<Manifest, Failure> {
    let target = NewDirectory::beside(to)?;
    let mut attempt = 1;
    let last_command = loop {
        match copy_venue(from, target.path()) {
            Ok(last) => break last,
            Err(CopyError::Vanished) if attempt < MOST_ATTEMPTS => target.clear()?,
            Err(CopyError::Vanished) => {
                return Err(Failure::new(format!("files of {} disappear while they are copied", from.display()))
                    .remedy("check that nothing but its venue changes the directory, and try again"));
            }
            Err(CopyError::Failure(failure)) => return Err(failure),
        }
        attempt += 1;
    };
    let manifest = Manifest { format: FORMAT, last_command, files: list_files(target.path())? };
    verify(target.path(), last_command, progress)?;
    let text = serde_json::to_string_pretty(&manifest).map_err(|error| Failure::new(error.to_string()))?;
    let path = target.path().join(MANIFEST);
    write_new(&path, |file| file.write_all(text.as_bytes())).map_err(|error| cannot("write", &path, &error))?;
    target.publish(to)?;
    Ok(manifest)
}

/// Checks the copy `from` and makes it the data directory `to`. `progress` is that of the
/// verification.
///
/// # Errors
///
/// Returns a failure if a file is missing or differs from the list, if the log is damaged, or if
/// `to` has entries. Then `to` does not exist.
pub fn restore(from: &Path, to: &Path, progress: ReplayProgress<'_>) -> Result<Manifest, Failure> {
    let path = from.join(MANIFEST);
    let no_copy = |what: String| {
        Failure::new(format!("{} is not a backup: {what}", from.display()))
            .remedy("name a directory that pitwire backup made")
    };
    let mut text = Vec::new();
    open_regular(&path)
        .and_then(|mut file| file.read_to_end(&mut text))
        .map_err(|error| no_copy(format!("{MANIFEST}: {error}")))?;
    let manifest: Manifest = serde_json::from_slice(&text).map_err(|error| no_copy(format!("{MANIFEST}: {error}")))?;
    if manifest.format != FORMAT {
        return Err(no_copy(format!("its format is {}, and this build knows {FORMAT}", manifest.format)));
    }
    let target = NewDirectory::beside(to)?;
    for file in &manifest.files {
        let name = checked_name(&file.name).ok_or_else(|| no_copy(format!("it lists {:?}", file.name)))?;
        copy_whole(&from.join(&name), &target.path().join(&name))
            .map_err(|error| cannot("copy", &from.join(&name), &error))?;
    }
    let copied = list_files(target.path())?;
    for (file, found) in manifest.files.iter().zip(&copied) {
        if (&file.name, file.bytes, &file.blake3) != (&found.name, found.bytes, &found.blake3) {
            return Err(Failure::new(format!("{} differs from what was backed up", from.join(&file.name).display()))
                .remedy("restore another backup"));
        }
    }
    verify(target.path(), manifest.last_command, progress)?;
    target.publish(to)?;
    Ok(manifest)
}

enum CopyError {
    /// The venue removed a file between listing and copying.
    Vanished,
    Failure(Failure),
}

impl From<Failure> for CopyError {
    fn from(failure: Failure) -> Self {
        CopyError::Failure(failure)
    }
}

/// Copies a directory in which a venue may run. Returns the last command.
fn copy_venue(from: &Path, to: &Path) -> Result<u64, CopyError> {
    let storage = DirectoryStorage::read_only(from).map_err(|error| cannot("read", from, &error))?;
    let copy = |name: &str, part: CopyPart| match copy_part(&from.join(name), &to.join(name), part) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CopyError::Vanished),
        Err(error) => Err(cannot("copy", &from.join(name), &error).into()),
        Ok(()) => Ok(()),
    };
    check_entries(&storage)?;
    let names = storage.list().map_err(|error| cannot("read", from, &error))?;
    if !names.iter().any(|name| name == Recovery::FIRST_COPIED) {
        return Err(Failure::new(format!("{} has no journal", from.display()))
            .remedy("name the data directory of a venue")
            .into());
    }
    copy(Recovery::FIRST_COPIED, CopyPart::Everything)?;
    let recovery = inspect_settled(&storage).map_err(Failure::from)?;
    let mut names = storage.list().map_err(|error| cannot("read", from, &error))?;
    names.retain(|name| name != LOCK && !name.ends_with(TEMPORARY));
    // The log first: an account without its credential would be locked out.
    names.sort_by_key(|name| name == CREDENTIALS);
    for name in &names {
        match (copy(name, recovery.copy_part(name)), Recovery::compressed_name(name)) {
            // The venue has compressed this segment since the listing.
            (Err(CopyError::Vanished), Some(compressed)) if names.contains(&compressed) => {}
            (Err(CopyError::Vanished), Some(compressed)) => copy(&compressed, CopyPart::Everything)?,
            (copied, _) => copied?,
        }
    }
    let authority = from.join(TLS);
    if authority.is_dir() {
        let entries = fs::read_dir(&authority).map_err(|error| cannot("read", &authority, &error))?;
        for entry in entries {
            let entry = entry.map_err(|error| cannot("read", &authority, &error))?;
            if let Ok(name) = entry.file_name().into_string() {
                copy(&format!("{TLS}/{name}"), CopyPart::Everything)?;
            }
        }
    }
    Ok(recovery.last.0)
}

/// Refuses an entry that would be missing in the copy. Directories are not copied, except that of
/// the authority, which may be a link.
fn check_entries(storage: &DirectoryStorage) -> Result<(), Failure> {
    let entries = storage.list_irregular().map_err(|error| cannot("read", storage.path(), &error))?;
    for (name, entry) in entries {
        let path = storage.path().join(&name);
        let is_directory = entry == IrregularEntry::Directory || (name == TLS && path.is_dir());
        if !is_directory || is_venue_file(&name) {
            return Err(irregular(&path, entry));
        }
    }
    Ok(())
}

fn copy_part(from: &Path, to: &Path, part: CopyPart) -> io::Result<()> {
    match part {
        CopyPart::Nothing => Ok(()),
        CopyPart::Everything => copy_whole(from, to),
        CopyPart::ZerosFrom(offset) => {
            let source = open_regular(from)?;
            let rest = source.metadata()?.len().saturating_sub(offset);
            write_new(to, |file| {
                io::copy(&mut source.take(offset), file)?;
                // Written rather than left as a hole, so that later syncs change no file system
                // structures.
                io::copy(&mut io::repeat(0).take(rest), file).map(drop)
            })
        }
    }
}

fn copy_whole(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = open_regular(from)?;
    write_new(to, |file| io::copy(&mut source, file).map(drop))
}

/// Creates a file that only its owner can read, lets `write` fill it, and syncs it.
fn write_new(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    write(&mut file)?;
    file.sync_all()
}

/// Returns the name if it is that of a file in a copy: a plain name, or one in the directory of the
/// authority.
fn checked_name(name: &str) -> Option<PathBuf> {
    let plain = name.strip_prefix("tls/").unwrap_or(name);
    (!plain.is_empty() && !plain.starts_with('.') && !plain.contains('/')).then(|| PathBuf::from(name))
}

/// Lists the files of a copy in the order of their names.
fn list_files(directory: &Path) -> Result<Vec<ListedFile>, Failure> {
    let mut files = Vec::new();
    for (prefix, path) in [("", directory.to_owned()), ("tls/", directory.join(TLS))] {
        if !path.is_dir() {
            continue;
        }
        let storage = DirectoryStorage::read_only(&path).map_err(|error| cannot("read", &path, &error))?;
        for name in storage.list().map_err(|error| cannot("read", &path, &error))? {
            let file = path.join(&name);
            let (bytes, blake3) = hash_file(&file).map_err(|error| cannot("read", &file, &error))?;
            files.push(ListedFile { name: format!("{prefix}{name}"), bytes, blake3 });
        }
    }
    Ok(files)
}

fn hash_file(path: &Path) -> io::Result<(u64, String)> {
    let (mut file, mut hasher, mut total) = (File::open(path)?, blake3::Hasher::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            return Ok((total, hasher.finalize().to_hex().to_string()));
        }
        hasher.update(chunk.get(..count).unwrap_or_default());
        total += count as u64;
    }
}

/// Replays a copy from its oldest snapshot, or from its first command, and compares the events with
/// those that were sent.
fn verify(directory: &Path, last_command: u64, progress: ReplayProgress<'_>) -> Result<(), Failure> {
    let storage = DirectoryStorage::read_only(directory).map_err(|error| cannot("read", directory, &error))?;
    let recovery = inspect(&storage, &journal_config(), StartAt::Oldest)?;
    let replay = Replay::whole_with_progress(&recovery, &storage, progress)?;
    // A start would use the newest snapshot.
    inspect(&storage, &journal_config(), StartAt::NewestSnapshot)?;
    if replay.last.0 != last_command {
        let text = format!("the copy ends with command {} instead of {last_command}", replay.last);
        return Err(Failure::new(text).remedy("make another backup"));
    }
    Ok(())
}

/// A directory under construction, removed on drop unless it was published.
struct NewDirectory {
    path: PathBuf,
    is_published: bool,
}

impl NewDirectory {
    /// Creates the hidden directory beside `to`, so that publishing is one rename.
    fn beside(to: &Path) -> Result<Self, Failure> {
        let to = std::path::absolute(to)?;
        let taken = match fs::read_dir(&to) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        let (Some(parent), Some(name), false) = (to.parent(), to.file_name(), taken) else {
            return Err(Failure::new(format!("{} exists and is not an empty directory", to.display()))
                .remedy("name a new directory; nothing is overwritten"));
        };
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".unfinished-{}", std::process::id()));
        let path = parent.join(hidden);
        let directory = NewDirectory { path, is_published: false };
        directory.create().map_err(|error| cannot("create", &directory.path, &error))?;
        Ok(directory)
    }

    fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn clear(&self) -> Result<(), Failure> {
        fs::remove_dir_all(&self.path)
            .and_then(|()| self.create())
            .map_err(|error| cannot("create", &self.path, &error))
    }

    /// Syncs the names of all files and renames the directory to `to`.
    fn publish(mut self, to: &Path) -> Result<(), Failure> {
        let to = std::path::absolute(to)?;
        let publish = || {
            let authority = self.path.join(TLS);
            if authority.is_dir() {
                File::open(authority)?.sync_all()?;
            }
            File::open(&self.path)?.sync_all()?;
            fs::rename(&self.path, &to)?;
            to.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
        };
        publish().map_err(|error| cannot("create", &to, &error))?;
        self.is_published = true;
        Ok(())
    }
}

impl Drop for NewDirectory {
    fn drop(&mut self) {
        if !self.is_published {
            // If the removal fails, nothing better can be done.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}

fn cannot(verb: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("cannot {verb} {}: {error}", path.display()))
        .remedy("check that it is a regular file or a directory, its permissions, and the space there")
}
