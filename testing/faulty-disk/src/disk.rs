//! The state of a disk: durable data, and writes on their way.

use std::{collections::BTreeMap, sync::Arc};

/// A file without its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    /// The content after a power cut.
    pub safe: Arc<Vec<u8>>,
    /// The content that a reader sees.
    pub seen: Arc<Vec<u8>>,
    /// The writes that make the difference, in order.
    pub unsynced: Vec<Write>,
}

#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub offset: usize,
    pub bytes: Arc<Vec<u8>>,
}

/// A change of the directory.
#[derive(Clone, Debug)]
pub(crate) enum DirectoryChange {
    Create { name: String, inode: usize },
    Rename { from: String, to: String },
    Remove { name: String },
}

/// Cheap to copy: contents are shared until one copy writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub inodes: Vec<Inode>,
    pub safe_names: BTreeMap<String, usize>,
    pub seen_names: BTreeMap<String, usize>,
    pub unsynced_names: Vec<DirectoryChange>,
}

impl Inode {
    pub(crate) fn safe(bytes: Arc<Vec<u8>>) -> Self {
        Self { safe: Arc::clone(&bytes), seen: bytes, unsynced: Vec::new() }
    }

    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        overwrite(Arc::make_mut(&mut self.seen), offset, bytes);
        self.unsynced.push(Write { offset, bytes: Arc::new(bytes.to_vec()) });
    }

    pub(crate) fn sync(&mut self) {
        self.safe = Arc::clone(&self.seen);
        self.unsynced.clear();
    }
}

/// Writes bytes, growing the file as needed.
pub(crate) fn overwrite(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

impl DirectoryChange {
    pub(crate) fn apply(&self, names: &mut BTreeMap<String, usize>) {
        match self {
            DirectoryChange::Create { name, inode } => {
                names.insert(name.clone(), *inode);
            }
            DirectoryChange::Rename { from, to } => {
                // In a crash the creation of `from` may be lost and its renaming not: then the file
                // is missing.
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
            DirectoryChange::Remove { name } => {
                names.remove(name);
            }
        }
    }
}

impl Disk {
    pub(crate) fn change_name(&mut self, naming: DirectoryChange) {
        naming.apply(&mut self.seen_names);
        self.unsynced_names.push(naming);
    }

    pub(crate) fn sync_names(&mut self) {
        self.safe_names = self.seen_names.clone();
        self.unsynced_names.clear();
    }
}
