//! Parts of files, read by a thread.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::thread::{self, JoinHandle};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

/// Bytes of one part. Its Base64 form leaves room in the outbox of a connection.
const PART_BYTES: usize = 96 * 1024;
/// Most parts that wait to be collected.
const READY_MAX: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileKey {
    pub path: PathBuf,
    pub offset: u64,
}

/// The answer to a request for a part of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum FilePart {
    /// The part is being read; ask again.
    Working,
    Done {
        /// Bytes of the whole file.
        bytes: u64,
        offset: u64,
        /// `None` after the last part.
        next_offset: Option<u64>,
        /// Base64.
        data: String,
    },
}

/// Reads one part at a time, and the part behind it in advance.
#[derive(Default)]
pub struct FileReads {
    thread: Option<(FileKey, JoinHandle<io::Result<FilePart>>)>,
    ready: VecDeque<(FileKey, io::Result<FilePart>)>,
}

fn read(key: &FileKey) -> io::Result<FilePart> {
    let mut file = File::open(&key.path)?;
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(key.offset))?;
    let mut part = Vec::with_capacity(PART_BYTES);
    file.take(PART_BYTES as u64).read_to_end(&mut part)?;
    let next = key.offset.saturating_add(part.len() as u64);
    let next_offset = (!part.is_empty() && next < bytes).then_some(next);
    Ok(FilePart::Done { bytes, offset: key.offset, next_offset, data: STANDARD.encode(&part) })
}

impl FileReads {
    /// Returns the part if it has been read, otherwise [`FilePart::Working`].
    ///
    /// # Errors
    ///
    /// Returns an I/O error if the file cannot be read.
    pub fn ask(&mut self, key: FileKey) -> io::Result<FilePart> {
        if let Some((read, thread)) = self.thread.take_if(|(_, thread)| thread.is_finished()) {
            let part = thread.join().unwrap_or_else(|_| Err(io::Error::other("the reading thread panicked")));
            if self.ready.len() == READY_MAX {
                self.ready.pop_front();
            }
            self.ready.push_back((read, part));
        }
        let at = self.ready.iter().position(|(read, _)| *read == key);
        let found = at.and_then(|at| self.ready.remove(at)).map(|(_, part)| part).transpose()?;
        match found {
            Some(part) => {
                if let FilePart::Done { next_offset: Some(offset), .. } = &part {
                    self.begin(FileKey { offset: *offset, ..key })?;
                }
                Ok(part)
            }
            None => {
                self.begin(key)?;
                Ok(FilePart::Working)
            }
        }
    }

    fn begin(&mut self, key: FileKey) -> io::Result<()> {
        if self.thread.is_none() {
            let wanted = key.clone();
            let work = move || read(&wanted);
            self.thread = Some((key, thread::Builder::new().name("simulation file".into()).spawn(work)?));
        }
        Ok(())
    }
}
