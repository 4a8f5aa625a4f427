//! The possible states of a disk after a power cut.

use pitwire_random::SplitMix64;
use std::sync::Arc;

use crate::disk::{DirectoryChange, Disk, Inode, Write, overwrite};

const SECTOR_BYTES: usize = 512;

/// How a run ends. Every mode except the first is a power cut, and everything left after it is
/// durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process dies and the machine lives on: all writes are visible, and unsynced ones stay
    /// unsynced.
    Kill,
    /// No unsynced write arrived.
    DropAll,
    /// Every write arrived.
    KeepAll,
    /// Each unsynced write or name change arrived or not, independently.
    EachWrite,
    /// A prefix of the sectors of every unsynced write arrived, and the first few name changes.
    TornPrefix,
    /// An arbitrary subset of the sectors of every unsynced write arrived.
    TornSectors,
    /// Unsynced writes arrived in another order, the last few not at all.
    Reordered,
    /// Up to three sectors of unsynced writes arrived in the place of other unsynced sectors of the
    /// same file, and not in their own.
    Misdirected,
}

impl Crash {
    pub const ALL: [Crash; 8] = [
        Crash::Kill,
        Crash::DropAll,
        Crash::KeepAll,
        Crash::EachWrite,
        Crash::TornPrefix,
        Crash::TornSectors,
        Crash::Reordered,
        Crash::Misdirected,
    ];
}

impl Disk {
    /// Returns the disk as the next start finds it.
    pub(crate) fn after(&self, crash: Crash, random: &mut SplitMix64) -> Disk {
        if crash == Crash::Kill {
            return self.clone();
        }
        let inodes = self.inodes.iter().map(|inode| Inode::safe(surviving_bytes(inode, crash, random))).collect();
        let mut names = self.safe_names.clone();
        for naming in surviving_names(&self.unsynced_names, crash, random) {
            naming.apply(&mut names);
        }
        Disk { inodes, safe_names: names.clone(), seen_names: names, unsynced_names: Vec::new() }
    }
}

fn surviving_bytes(inode: &Inode, crash: Crash, random: &mut SplitMix64) -> Arc<Vec<u8>> {
    if inode.unsynced.is_empty() {
        return Arc::clone(&inode.safe);
    }
    let mut bytes = inode.safe.to_vec();
    if crash == Crash::Misdirected {
        misdirect(&mut bytes, &inode.unsynced, random);
        return Arc::new(bytes);
    }
    let order = arrival(inode.unsynced.len(), crash, random);
    for write in order.iter().filter_map(|index| inode.unsynced.get(*index)) {
        arrive(&mut bytes, write, crash, random);
    }
    Arc::new(bytes)
}

/// Returns which of `count` pending changes arrive, in which order.
fn arrival(count: usize, crash: Crash, random: &mut SplitMix64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    match crash {
        Crash::DropAll => order.clear(),
        Crash::Kill | Crash::KeepAll | Crash::TornPrefix | Crash::TornSectors | Crash::Misdirected => {}
        Crash::EachWrite => order.retain(|_| random.coin()),
        Crash::Reordered => {
            for at in (1..count).rev() {
                order.swap(at, index_below(random, at + 1));
            }
            order.truncate(index_below(random, count + 1));
        }
    }
    order
}

fn arrive(file: &mut Vec<u8>, write: &Write, crash: Crash, random: &mut SplitMix64) {
    let sectors = sectors_of(write);
    let whole_up_to = match crash {
        Crash::TornPrefix => index_below(random, sectors.len() + 1),
        _ => sectors.len(),
    };
    for (index, (from, to)) in sectors.into_iter().enumerate() {
        let arrives = index < whole_up_to && (crash != Crash::TornSectors || random.coin());
        if arrives {
            overwrite(file, write.offset + from, &write.bytes[from..to]);
        }
    }
}

/// Lets every write arrive, but a few sectors at another place: over data that arrived there
/// before, or under data that arrives later.
fn misdirect(file: &mut Vec<u8>, writes: &[Write], random: &mut SplitMix64) {
    let sectors: Vec<(usize, &[u8])> = writes
        .iter()
        .flat_map(|write| sectors_of(write).into_iter().map(|(from, to)| (write.offset + from, &write.bytes[from..to])))
        .collect();
    let strays: Vec<usize> = (0..1 + random.below(3)).map(|_| index_below(random, sectors.len())).collect();
    let is_stray = |offset: usize| strays.iter().any(|stray| sectors[*stray].0 == offset);
    let places: Vec<usize> = sectors.iter().map(|(offset, _)| *offset).filter(|offset| !is_stray(*offset)).collect();
    let land = |file: &mut Vec<u8>, random: &mut SplitMix64| {
        for stray in &strays {
            if let Some(place) = places.get(index_below(random, places.len().max(1))) {
                overwrite(file, *place, sectors[*stray].1);
            }
        }
    };
    let is_early = random.coin();
    if is_early {
        land(file, random);
    }
    for (offset, bytes) in sectors.iter().filter(|(offset, _)| !is_stray(*offset)) {
        overwrite(file, *offset, bytes);
    }
    if !is_early {
        land(file, random);
    }
}

/// Splits a write at sector boundaries, as ranges of its bytes.
fn sectors_of(write: &Write) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    let mut from = 0;
    while from < write.bytes.len() {
        let to = ((write.offset + from) / SECTOR_BYTES + 1) * SECTOR_BYTES - write.offset;
        let to = to.min(write.bytes.len());
        ranges.push((from, to));
        from = to;
    }
    ranges
}

fn surviving_names<'a>(
    pending: &'a [DirectoryChange],
    crash: Crash,
    random: &mut SplitMix64,
) -> Vec<&'a DirectoryChange> {
    // A journalling file system keeps name changes in order; which independent ones arrive is open.
    let count = pending.len();
    let mut order = match crash {
        Crash::TornPrefix => (0..index_below(random, count + 1)).collect(),
        Crash::TornSectors => arrival(count, Crash::EachWrite, random),
        // The file system checks its own records, so a misdirected one counts as lost.
        Crash::Misdirected => arrival(count, Crash::EachWrite, random),
        _ => arrival(count, crash, random),
    };
    order.sort_unstable();
    order.into_iter().filter_map(|index| pending.get(index)).collect()
}

fn index_below(random: &mut SplitMix64, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}
