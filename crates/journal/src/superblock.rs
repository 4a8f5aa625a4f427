//! The superblock's file: two slots, written in turn. Each write is synced before the next one
//! starts.

use std::io;

use crate::records::{FORMAT_VERSION, Superblock, SuperblockFault, superblock::FILE_BYTES};
use crate::{File, FileIdentity, LogError, Storage};

use crate::{
    OpenError,
    error::while_doing,
    names::{self, SUPERBLOCK},
    spare::displaced,
};

pub(crate) fn read(storage: &dyn Storage) -> Result<Superblock, OpenError> {
    let file = storage.open(SUPERBLOCK).map_err(while_doing("open", SUPERBLOCK))?;
    let mut bytes = vec![0; FILE_BYTES];
    let got = file.read_at(0, &mut bytes).map_err(while_doing("read", SUPERBLOCK))?;
    bytes.truncate(got);
    Superblock::decode_file(&bytes).map_err(|fault| match fault {
        SuperblockFault::Damaged => OpenError::DamagedSuperblock,
        SuperblockFault::NewerFormat { found } => {
            OpenError::NewerFormat { file: SUPERBLOCK.to_owned(), found, known: FORMAT_VERSION }
        }
        SuperblockFault::OlderFormat { found } => OpenError::OlderFormat { file: SUPERBLOCK.to_owned(), found },
    })
}

pub(crate) struct SuperblockFile {
    file: Box<dyn File>,
    identity: FileIdentity,
    current: Superblock,
    written_at_ns: Option<u64>,
}

impl SuperblockFile {
    /// Creates the file before any other, so that a directory with a log always has one.
    pub(crate) fn create(storage: &dyn Storage) -> Result<Self, OpenError> {
        let unfinished = names::unfinished(SUPERBLOCK);
        let mut file = storage.create(&unfinished, FILE_BYTES as u64).map_err(while_doing("create", &unfinished))?;
        let current = Superblock { generation: 1, ..Superblock::default() };
        write_slot(file.as_mut(), &current).map_err(while_doing("write", &unfinished))?;
        storage.rename(&unfinished, SUPERBLOCK).map_err(while_doing("rename", &unfinished))?;
        storage.sync_directory().map_err(while_doing("sync the directory of", SUPERBLOCK))?;
        let identity = file.identity().map_err(while_doing("identify", SUPERBLOCK))?;
        Ok(Self { file, identity, current, written_at_ns: None })
    }

    /// Opens the file of which `current` was read. It is synced first: the slot just read may not
    /// be on disk yet, and the other one is about to be overwritten.
    pub(crate) fn open(storage: &dyn Storage, current: Superblock) -> Result<Self, OpenError> {
        let mut file = storage.open(SUPERBLOCK).map_err(while_doing("open", SUPERBLOCK))?;
        file.sync().map_err(while_doing("sync", SUPERBLOCK))?;
        let identity = file.identity().map_err(while_doing("identify", SUPERBLOCK))?;
        Ok(Self { file, identity, current, written_at_ns: None })
    }

    pub(crate) fn check_in_place(&self, storage: &dyn Storage) -> Result<(), LogError> {
        storage.check_in_place(SUPERBLOCK, self.identity).map_err(displaced(SUPERBLOCK))
    }

    pub(crate) fn current(&self) -> &Superblock {
        &self.current
    }

    /// When the next write is allowed, on the clock of the caller, in nanoseconds.
    pub(crate) fn due_ns(&self, interval_ns: u64) -> u64 {
        self.written_at_ns.map_or(0, |written| written.saturating_add(interval_ns))
    }

    pub(crate) fn write(&mut self, next: Superblock, now_ns: Option<u64>) -> Result<(), LogError> {
        let next = Superblock { generation: self.current.generation + 1, ..next };
        write_slot(self.file.as_mut(), &next).map_err(|source| LogError::Io {
            doing: "write",
            file: SUPERBLOCK.to_owned(),
            source,
        })?;
        self.current = next;
        self.written_at_ns = now_ns.or(self.written_at_ns);
        Ok(())
    }
}

fn write_slot(file: &mut dyn File, superblock: &Superblock) -> io::Result<()> {
    file.write_at(superblock.slot_offset(), &superblock.encode())?;
    file.sync()
}
