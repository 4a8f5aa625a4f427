//! Names of the files in a journal's directory.

use pitwire_model::Seq;

pub(crate) const SUPERBLOCK: &str = "superblock";
/// Suffix of files under construction. The next opening removes them.
pub(crate) const UNFINISHED: &str = ".new";

pub(crate) fn segment(number: u32) -> String {
    format!("journal-{number:08}.seg")
}

/// Name of a compressed segment.
pub(crate) fn archive(number: u32) -> String {
    format!("{}.zst", segment(number))
}

pub(crate) fn snapshot(seq: Seq) -> String {
    format!("snapshot-{:020}.snap", seq.0)
}

pub(crate) fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

pub(crate) fn parse_segment(name: &str) -> Option<u32> {
    let number = digits(name, "journal-", ".seg")?.parse().ok()?;
    (segment(number) == name).then_some(number)
}

pub(crate) fn parse_snapshot(name: &str) -> Option<Seq> {
    let seq = Seq(digits(name, "snapshot-", ".snap")?.parse().ok()?);
    (snapshot(seq) == name).then_some(seq)
}

fn digits<'a>(name: &'a str, before: &str, after: &str) -> Option<&'a str> {
    name.strip_prefix(before)?.strip_suffix(after)
}

/// Files of a directory by kind, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// All segments, plain or compressed.
    pub segments: Vec<u32>,
    pub plain: Vec<u32>,
    /// Compressed segments. After a crash a segment may be plain as well.
    pub archived: Vec<u32>,
    pub snapshots: Vec<Seq>,
    pub has_superblock: bool,
    pub unfinished: Vec<String>,
}

impl Listing {
    /// Sorts file names by kind. Other names are ignored.
    pub(crate) fn new(names: Vec<String>) -> Self {
        let mut listing = Listing::default();
        for name in names {
            if let Some(number) = parse_segment(&name) {
                listing.plain.push(number);
            } else if let Some(number) = name.strip_suffix(".zst").and_then(parse_segment) {
                listing.archived.push(number);
            } else if let Some(seq) = parse_snapshot(&name) {
                listing.snapshots.push(seq);
            } else if name == SUPERBLOCK {
                listing.has_superblock = true;
            } else if name.ends_with(UNFINISHED) {
                listing.unfinished.push(name);
            }
        }
        listing.segments.extend(listing.plain.iter().chain(&listing.archived));
        listing.plain.sort_unstable();
        listing.segments.sort_unstable();
        listing.segments.dedup();
        listing.snapshots.sort_unstable();
        listing
    }

    /// Returns whether every segment in a range exists.
    pub(crate) fn reaches(&self, first: u32, last: u32) -> bool {
        (first..=last).all(|number| self.segments.binary_search(&number).is_ok())
    }

    /// Returns the names of the files of a segment.
    pub(crate) fn files_of(&self, number: u32) -> Vec<String> {
        let plain = self.plain.contains(&number).then(|| segment(number));
        let archived = self.archived.contains(&number).then(|| archive(number));
        plain.into_iter().chain(archived).collect()
    }
}
