//! A small and fast directory in memory for fuzzers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pitwire_journal::{File, Storage};

pub type Files = BTreeMap<String, Vec<u8>>;

/// A file keeps its bytes when its name changes.
type Inode = Arc<Mutex<Vec<u8>>>;

#[derive(Clone, Debug, Default)]
pub struct MemoryStorage {
    names: Arc<Mutex<BTreeMap<String, Inode>>>,
}

struct Handle(Inode);

impl MemoryStorage {
    pub fn holding(files: Files) -> Self {
        let inodes = files.into_iter().map(|(name, bytes)| (name, Arc::new(Mutex::new(bytes))));
        MemoryStorage { names: Arc::new(Mutex::new(inodes.collect())) }
    }

    pub fn files(&self) -> Files {
        lock(&self.names).iter().map(|(name, inode)| (name.clone(), lock(inode).clone())).collect()
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

fn place(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl Storage for MemoryStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.names).keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let inode = lock(&self.names).get(name).cloned().ok_or_else(missing)?;
        Ok(Box::new(Handle(inode)))
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>> {
        let inode = Arc::new(Mutex::new(vec![0; place(bytes)?]));
        lock(&self.names).insert(name.into(), Arc::clone(&inode));
        Ok(Box::new(Handle(inode)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut names = lock(&self.names);
        let inode = names.remove(from).ok_or_else(missing)?;
        names.insert(to.into(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lock(&self.names).remove(name).map(drop).ok_or_else(missing)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(())
    }
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let held = lock(&self.0);
        let rest = held.get(place(offset)?..).unwrap_or_default();
        let count = rest.len().min(into.len());
        if let (Some(from), Some(to)) = (rest.get(..count), into.get_mut(..count)) {
            to.copy_from_slice(from);
        }
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut held = lock(&self.0);
        let start = place(offset)?;
        let end = start.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        if held.len() < end {
            held.resize(end, 0);
        }
        if let Some(to) = held.get_mut(start..end) {
            to.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
