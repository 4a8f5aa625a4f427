//! The disk behind the journal's storage trait: its operations, its faults, and images of it.

use pitwire_random::SplitMix64;
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use pitwire_journal::{File, Storage};

use crate::{
    Crash,
    disk::{DirectoryChange, Disk, Inode},
};

/// The faults of a disk, counted over operations that change it (writes, syncs, creations, name
/// changes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// The operation with this number, counted from 1, fails, and so do all after it. A failed
    /// write may arrive in part; a failed sync syncs nothing.
    pub fails_at: Option<u64>,
    /// Whether they fail because the disk is full rather than with a device error.
    pub is_full: bool,
    /// Bytes that all files may take together. A creation that would exceed it fails as on a full
    /// disk; writes into existing files work.
    pub capacity: Option<u64>,
    /// Duration of a file sync in nanoseconds of [`FaultyStorage::now_ns`].
    pub sync_ns: u64,
    /// From this operation on, file syncs report success and do nothing.
    pub lies_from: Option<u64>,
}

/// The disk right after one operation.
#[derive(Clone)]
pub struct Image {
    pub operation: u64,
    disk: Disk,
}

impl Image {
    /// Returns the disk that the next start would find after a crash at this image.
    pub fn crash(&self, crash: Crash, seed: u64) -> FaultyStorage {
        FaultyStorage::holding(self.disk.after(crash, &mut SplitMix64::new(seed)))
    }
}

#[derive(Default)]
struct World {
    disk: Disk,
    operations: u64,
    trouble: DiskFaults,
    now_ns: u64,
    images: Option<Vec<Image>>,
}

/// A directory in memory. Clones are handles to the same directory.
#[derive(Clone, Default)]
pub struct FaultyStorage {
    world: Arc<Mutex<World>>,
}

struct Handle {
    world: Arc<Mutex<World>>,
    inode: usize,
}

impl FaultyStorage {
    pub fn new() -> Self {
        Self::default()
    }

    fn holding(disk: Disk) -> Self {
        Self { world: Arc::new(Mutex::new(World { disk, ..World::default() })) }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        lock(&self.world)
    }

    pub fn give_trouble(&self, trouble: DiskFaults) {
        self.lock().trouble = trouble;
    }

    /// Number of operations that changed the disk, or tried to.
    pub fn operations(&self) -> u64 {
        self.lock().operations
    }

    /// The disk's own time in nanoseconds. Only slow operations and waiting advance it.
    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    pub fn wait_until(&self, ns: u64) {
        let mut world = self.lock();
        world.now_ns = world.now_ns.max(ns);
    }

    /// Starts to keep an image after every operation, for [`Self::take_images`].
    pub fn keep_images(&self) {
        self.lock().images = Some(Vec::new());
    }

    pub fn take_images(&self) -> Vec<Image> {
        self.lock().images.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the disk as it is now.
    pub fn image(&self) -> Image {
        let world = self.lock();
        Image { operation: world.operations, disk: world.disk.clone() }
    }

    /// Returns the disk that the next start would find after a crash now. This disk continues.
    pub fn crash(&self, crash: Crash, seed: u64) -> FaultyStorage {
        self.image().crash(crash, seed)
    }

    /// Returns an independent copy without faults.
    pub fn copy(&self) -> FaultyStorage {
        self.crash(Crash::Kill, 0)
    }

    /// Returns the bytes that a reader sees, if the file exists.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.lock();
        let inode = *world.disk.seen_names.get(name)?;
        Some(world.disk.inodes.get(inode)?.seen.to_vec())
    }

    /// Changes a file durably, behind the journal's back: rot, truncation, a restored copy.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut world = self.lock();
        let Some(inode) = world.disk.seen_names.get(name).copied() else { return };
        if let Some(inode) = world.disk.inodes.get_mut(inode) {
            change(Arc::make_mut(&mut inode.seen));
            inode.sync();
        }
    }
}

fn lock(world: &Mutex<World>) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Counts an operation and returns its failure, if it must fail.
    fn begin(&mut self) -> Result<(), io::Error> {
        self.operations += 1;
        match self.trouble.fails_at {
            Some(at) if self.operations >= at && self.trouble.is_full => Err(io::ErrorKind::StorageFull.into()),
            Some(at) if self.operations >= at => Err(io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        }
    }

    fn end(&mut self) {
        let image = Image { operation: self.operations, disk: self.disk.clone() };
        if let Some(images) = &mut self.images {
            images.push(image);
        }
    }

    /// Bytes of all files except the one of this name, which would be replaced.
    fn used_bytes(&self, but: &str) -> u64 {
        let names = self.disk.seen_names.iter().filter(|(name, _)| *name != but);
        names.filter_map(|(_, inode)| self.disk.inodes.get(*inode)).map(|inode| inode.seen.len() as u64).sum()
    }

    fn lies(&self) -> bool {
        self.trouble.lies_from.is_some_and(|from| self.operations >= from)
    }

    fn name(&mut self, naming: DirectoryChange) -> io::Result<()> {
        self.begin()?;
        self.disk.change_name(naming);
        self.end();
        Ok(())
    }

    fn require(&self, name: &str) -> io::Result<usize> {
        self.disk.seen_names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Storage for FaultyStorage {
    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().disk.seen_names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn File>> {
        let inode = self.lock().require(name)?;
        Ok(Box::new(Handle { world: Arc::clone(&self.world), inode }))
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn File>> {
        let mut world = self.lock();
        world.begin()?;
        if world.trouble.capacity.is_some_and(|capacity| world.used_bytes(name) + bytes > capacity) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let inode = world.disk.inodes.len();
        world.disk.inodes.push(Inode::safe(Arc::new(vec![0; to_usize(bytes)?])));
        world.disk.change_name(DirectoryChange::Create { name: name.to_owned(), inode });
        world.end();
        Ok(Box::new(Handle { world: Arc::clone(&self.world), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.lock();
        world.require(from)?;
        world.name(DirectoryChange::Rename { from: from.to_owned(), to: to.to_owned() })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.lock();
        world.require(name)?;
        world.name(DirectoryChange::Remove { name: name.to_owned() })
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut world = self.lock();
        world.begin()?;
        world.disk.sync_names();
        world.end();
        Ok(())
    }
}

impl Handle {
    fn with<T>(&self, act: impl FnOnce(&mut World, usize) -> io::Result<T>) -> io::Result<T> {
        act(&mut lock(&self.world), self.inode)
    }
}

fn inode(world: &mut World, inode: usize) -> io::Result<&mut Inode> {
    world.disk.inodes.get_mut(inode).ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn to_usize(number: u64) -> io::Result<usize> {
    usize::try_from(number).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl File for Handle {
    fn len(&self) -> io::Result<u64> {
        self.with(|world, index| Ok(inode(world, index)?.seen.len() as u64))
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.with(|world, index| {
            let seen = &inode(world, index)?.seen;
            let from = to_usize(offset)?.min(seen.len());
            let count = into.len().min(seen.len() - from);
            into[..count].copy_from_slice(&seen[from..from + count]);
            Ok(count)
        })
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.with(|world, index| {
            let begun = world.begin();
            // Half of a failed write is on its way.
            let arrived = if begun.is_ok() { bytes } else { &bytes[..bytes.len() / 2] };
            inode(world, index)?.write(to_usize(offset)?, arrived);
            world.end();
            begun
        })
    }

    fn duplicate(&self) -> io::Result<Box<dyn File>> {
        Ok(Box::new(Handle { world: Arc::clone(&self.world), inode: self.inode }))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.with(|world, index| {
            world.begin()?;
            world.now_ns += world.trouble.sync_ns;
            if !world.lies() {
                inode(world, index)?.sync();
            }
            world.end();
            Ok(())
        })
    }
}
