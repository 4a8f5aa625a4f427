//! Disk use of a data directory, and how long the disk lasts at the rate of the run.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A shorter time gives no meaningful rate.
const SHORTEST: Duration = Duration::from_secs(60);

/// Disk use of a data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Bytes of the journal and the snapshots.
    pub bytes: u64,
    /// Bytes that the disk has left.
    pub free_bytes: u64,
    /// Time in seconds until the disk is full, at the mean rate of the complete segments. `None`
    /// while they cover less than a minute.
    pub lasts_s: Option<u64>,
}

/// A segment of the journal, plain or compressed.
#[derive(Clone, Copy, Debug)]
struct SegmentFile {
    number: u32,
    bytes: u64,
    written: SystemTime,
}

/// Measures a data directory. Returns `None` if it has no journal.
///
/// # Errors
///
/// Returns an I/O error if the directory or its disk cannot be read.
pub fn disk_usage(directory: &Path) -> io::Result<Option<DiskUsage>> {
    let (mut bytes, mut segments) = (0, Vec::new());
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if !name.starts_with("journal-") && !name.starts_with("snapshot-") {
            continue;
        }
        // The venue may have removed the file in the meantime.
        let Ok(metadata) = entry.metadata() else { continue };
        bytes += metadata.len();
        let number = name.strip_prefix("journal-").and_then(|rest| rest.split('.').next()?.parse().ok());
        if let Some(number) = number {
            segments.push(SegmentFile { number, bytes: metadata.len(), written: metadata.modified()? });
        }
    }
    if segments.is_empty() {
        return Ok(None);
    }
    let disk = rustix::fs::statvfs(directory)?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    Ok(Some(DiskUsage { bytes, free_bytes, lasts_s: lasts_s(&segments, free_bytes) }))
}

/// Estimates how long the disk lasts. Segments that were prepared ahead do not count. The oldest
/// files do not count either: a restore, or the first compression, wrote them all at once.
fn lasts_s(segments: &[SegmentFile], free_bytes: u64) -> Option<u64> {
    let active = segments.iter().max_by_key(|segment| (segment.written, Reverse(segment.number)))?.number;
    let complete: Vec<&SegmentFile> = segments.iter().filter(|segment| segment.number < active).collect();
    let first = complete.iter().map(|segment| segment.written).min()?;
    let last = complete.iter().map(|segment| segment.written).max()?;
    let age = |written: SystemTime| written.duration_since(first).unwrap_or_default();
    let grown: u64 =
        complete.iter().filter(|segment| age(segment.written) >= SHORTEST).map(|segment| segment.bytes).sum();
    let seconds = u128::from(free_bytes) * age(last).as_millis() / 1_000 / u128::from((grown > 0).then_some(grown)?);
    Some(u64::try_from(seconds).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(files: &[(u32, u64, u64)]) -> Vec<SegmentFile> {
        let file = |&(number, bytes, at_s): &(u32, u64, u64)| SegmentFile {
            number,
            bytes,
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(at_s),
        };
        files.iter().map(file).collect()
    }

    #[test]
    fn the_disk_lasts_as_long_as_the_rate_of_complete_segments_says() {
        // 3,000 bytes in 3,000 s after the first segment; segment 5 is active, and 6 is prepared.
        let run =
            [(1, 1_000, 0), (2, 1_000, 1_000), (3, 1_000, 2_000), (4, 1_000, 3_000), (5, 9, 3_500), (6, 9, 3_400)];
        assert_eq!(lasts_s(&segments(&run), 24_000), Some(24_000));
        assert_eq!(lasts_s(&segments(&run), 0), Some(0));
        assert_eq!(lasts_s(&segments(&run), u64::MAX), Some(u64::MAX));
    }

    #[test]
    fn files_that_a_restore_wrote_at_once_are_not_growth() {
        let restored = [(1, 5_000, 0), (2, 5_000, 1), (3, 5_000, 2), (4, 1_000, 1_000), (5, 9, 1_500)];
        assert_eq!(lasts_s(&segments(&restored), 10_000), Some(10_000));
        assert_eq!(lasts_s(&segments(&restored[..3]), 10_000), None);
    }

    #[test]
    fn a_young_run_has_no_rate() {
        assert_eq!(lasts_s(&segments(&[(1, 16, 100), (2, 16, 3)]), 1_000), None);
        assert_eq!(lasts_s(&segments(&[(1, 16, 3), (2, 16, 62), (3, 16, 70)]), 1_000), None);
    }

    #[test]
    fn a_directory_without_a_journal_has_no_usage() {
        let directory = std::env::temp_dir().join(format!("pitwire-usage-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("other"), "12345").unwrap();
        assert_eq!(disk_usage(&directory).unwrap(), None);
        fs::write(directory.join("journal-00000001.seg"), "12345").unwrap();
        fs::write(directory.join("snapshot-00000000000000000007.snap"), "123").unwrap();
        assert_eq!(disk_usage(&directory).unwrap().unwrap().bytes, 8);
        fs::remove_dir_all(directory).unwrap();
    }
}
