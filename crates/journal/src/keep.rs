//! The bound on the history of a venue, and the choice of segments to drop.

use std::fmt;
use std::str::FromStr;

use crate::Storage;
use pitwire_model::Seq;

use crate::{
    JournalConfig, OpenError,
    error::while_doing,
    names::{self, Listing},
    retention::{RemovedFiles, remove_all},
    snapshots,
};

/// Snapshots that are always kept: a start uses the second one if the newest is damaged.
pub(crate) const NEWEST_SNAPSHOTS: usize = 2;
/// A bounded history keeps a snapshot at about each eighth of the bound, because it can only be cut
/// at a snapshot.
const PARTS: u64 = 8;

/// How much of a run stays on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The whole run, from its first command.
    All,
    /// The history of this many nanoseconds of venue time, and up to an eighth more.
    Duration(u64),
    /// At most this many bytes on disk, but never less than the two newest snapshots need.
    Bytes(u64),
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text:?} is neither \"all\", nor a time such as 30m, 6h or 7d, nor a size such as 500MB or 20GB; the \
                 number must be at least 1"
            )
        };
        if text == "all" {
            return Ok(Keep::All);
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (factor, keep): (u64, fn(u64) -> Keep) = match unit {
            "s" => (1_000_000_000, Keep::Duration),
            "m" => (60_000_000_000, Keep::Duration),
            "h" => (3_600_000_000_000, Keep::Duration),
            "d" => (86_400_000_000_000, Keep::Duration),
            "MiB" => (1 << 20, Keep::Bytes),
            "GiB" => (1 << 30, Keep::Bytes),
            "TiB" => (1 << 40, Keep::Bytes),
            "MB" => (1_000_000, Keep::Bytes),
            "GB" => (1_000_000_000, Keep::Bytes),
            "TB" => (1_000_000_000_000, Keep::Bytes),
            _ => return Err(wrong()),
        };
        number.checked_mul(factor).filter(|count| *count > 0).map(keep).ok_or_else(wrong)
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Keep::All => write!(f, "the whole run"),
            Keep::Duration(ns) => {
                let seconds = ns / 1_000_000_000;
                match [(86_400, "d"), (3_600, "h"), (60, "m")].iter().find(|(unit, _)| seconds.is_multiple_of(*unit)) {
                    Some((unit, letter)) => write!(f, "{}{letter} of venue time", seconds / unit),
                    None => write!(f, "{seconds}s of venue time"),
                }
            }
            Keep::Bytes(bytes) => write!(f, "{} MB of segments", bytes / 1_000_000),
        }
    }
}

/// A readable snapshot.
#[derive(Clone, Copy)]
struct SnapshotPlace {
    seq: Seq,
    at_ns: u64,
    segment: u32,
}

/// The files that a [`Keep`] does not need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surplus {
    snapshots: Vec<String>,
    segments: Vec<String>,
    /// The last command that is dropped, if any.
    pub dropped_up_to: Option<Seq>,
}

impl Surplus {
    /// Removes the files. Snapshots go first: a snapshot without its segments would look like
    /// damage.
    ///
    /// # Errors
    ///
    /// Returns an I/O error; nothing that recovery needs has been removed.
    pub fn remove(self, storage: &dyn Storage) -> Result<RemovedFiles, OpenError> {
        remove_all(storage, &self.snapshots)?;
        remove_all(storage, &self.segments)?;
        Ok(RemovedFiles { snapshots: self.snapshots, segments: self.segments })
    }
}

/// Finds the files that `keep` does not need. May run on any thread while the journal is written.
/// With fewer than two readable snapshots there are none.
///
/// # Errors
///
/// Returns an I/O error.
pub fn surplus(storage: &dyn Storage, config: &JournalConfig, keep: Keep) -> Result<Surplus, OpenError> {
    let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
    let listing = Listing::new(names);
    let mut places = Vec::new();
    for seq in &listing.snapshots {
        if let Ok(snapshot) = snapshots::load(storage, *seq, config)? {
            let (at_ns, segment) = (snapshot.meta.at.0, snapshot.meta.position.segment);
            places.push(SnapshotPlace { seq: *seq, at_ns, segment });
        }
    }
    let Some(newest_from) = places.len().checked_sub(NEWEST_SNAPSHOTS) else { return Ok(Surplus::default()) };
    let reaches_back = places.first().is_some_and(|oldest| listing.reaches(1, oldest.segment));
    let sizes = sizes(storage, &listing)?;
    let base = base(keep, &places, newest_from, &sizes);
    // A log that does not reach back to its first command begins with the oldest snapshot.
    let first = base.or_else(|| (!reaches_back).then_some(0));
    let mut kept = Vec::new();
    let mut last_kept = None;
    for (at, place) in places.iter().enumerate() {
        let is_base = first == Some(at);
        let position = |place: &SnapshotPlace| match keep {
            Keep::All => 0,
            Keep::Duration(_) => place.at_ns,
            Keep::Bytes(_) => bytes_from(&sizes, 0).saturating_sub(bytes_from(&sizes, place.segment)),
        };
        let spacing = match keep {
            Keep::All => u64::MAX,
            Keep::Duration(bound) | Keep::Bytes(bound) => bound / PARTS,
        };
        let is_spaced = keep != Keep::All
            && at >= first.unwrap_or(0)
            && last_kept.is_none_or(|last| position(place).saturating_sub(last) >= spacing);
        if at >= newest_from || is_base || is_spaced {
            kept.push(place.seq);
            last_kept = Some(position(place));
        }
    }
    let oldest_of_newest = places[newest_from].seq;
    // A damaged snapshot among the newest ones stays as evidence.
    let is_surplus = |seq: &&Seq| **seq < oldest_of_newest && !kept.contains(seq);
    let snapshots = listing.snapshots.iter().filter(is_surplus).map(|seq| names::snapshot(*seq)).collect();
    let base = base.map(|at| places[at]);
    let is_dropped = |number: &u32| base.is_some_and(|base| *number < base.segment);
    let dropped: Vec<u32> = listing.segments.iter().copied().filter(is_dropped).collect();
    let dropped_up_to = base.filter(|_| !dropped.is_empty()).map(|base| base.seq);
    let segments = dropped.into_iter().flat_map(|number| listing.files_of(number)).collect();
    Ok(Surplus { snapshots, segments, dropped_up_to })
}

/// Returns the index of the snapshot with which the history begins. `None` drops nothing.
fn base(keep: Keep, places: &[SnapshotPlace], newest_from: usize, sizes: &[(u32, u64)]) -> Option<usize> {
    let newest_ns = places.last().map_or(0, |place| place.at_ns);
    match keep {
        Keep::All => None,
        Keep::Duration(ns) => {
            let cutoff = newest_ns.saturating_sub(ns);
            places.iter().take(newest_from + 1).rposition(|place| place.at_ns <= cutoff)
        }
        Keep::Bytes(bound) if bytes_from(sizes, 0) <= bound => None,
        Keep::Bytes(bound) => places
            .iter()
            .take(newest_from + 1)
            .position(|place| bytes_from(sizes, place.segment) <= bound)
            .or(Some(newest_from)),
    }
}

/// Returns the bytes of each segment on disk.
fn sizes(storage: &dyn Storage, listing: &Listing) -> Result<Vec<(u32, u64)>, OpenError> {
    let mut sizes = Vec::new();
    for number in &listing.segments {
        for name in listing.files_of(*number) {
            let bytes = storage.open(&name).and_then(|file| file.len()).map_err(while_doing("measure", &name))?;
            sizes.push((*number, bytes));
        }
    }
    Ok(sizes)
}

fn bytes_from(sizes: &[(u32, u64)], segment: u32) -> u64 {
    sizes.iter().filter(|(number, _)| *number >= segment).map(|(_, bytes)| bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_with_their_units() {
        for (text, expected) in [
            ("all", Keep::All),
            ("30m", Keep::Duration(1_800_000_000_000)),
            ("7d", Keep::Duration(604_800_000_000_000)),
            ("500MB", Keep::Bytes(500_000_000)),
            ("2GB", Keep::Bytes(2_000_000_000)),
            ("64MiB", Keep::Bytes(67_108_864)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in ["", "0h", "5", "m", "-1h", "1.5h", "10 GB", "99999999999999TB", "everything"] {
            assert!(text.parse::<Keep>().unwrap_err().contains("30m"), "{text}");
        }
    }

    #[test]
    fn a_bound_is_shown_in_its_largest_whole_unit() {
        for (text, shown) in [("7d", "7d"), ("36h", "36h"), ("90m", "90m"), ("3600s", "1h"), ("61s", "61s")] {
            assert_eq!(text.parse::<Keep>().unwrap().to_string(), format!("{shown} of venue time"));
        }
    }

    #[test]
    fn the_history_begins_at_the_snapshot_that_the_bound_allows() {
        let place = |n: u32| SnapshotPlace { seq: Seq(u64::from(n)), at_ns: u64::from(n) * 100, segment: n };
        let places: Vec<SnapshotPlace> = (1..=6).map(place).collect();
        let sizes: Vec<(u32, u64)> = (1..=7).map(|number| (number, 10)).collect();
        for (keep, expected) in [
            (Keep::All, None),
            // Snapshots at 100, 200, ... 600 ns: the history must reach back to 600 - 250 = 350 ns.
            (Keep::Duration(250), Some(2)),
            (Keep::Duration(1), Some(4)),
            (Keep::Duration(599), None),
            (Keep::Bytes(70), None),
            (Keep::Bytes(69), Some(1)),
            (Keep::Bytes(35), Some(4)),
            (Keep::Bytes(1), Some(4)),
        ] {
            assert_eq!(base(keep, &places, 4, &sizes), expected, "{keep:?}");
        }
    }
}
