//! The commands after a snapshot, group by group, for a replay.

use crate::records::{DecodeError, Group, JournalPosition, decode_command};
use crate::{OutputHash, Storage};
use pitwire_model::{Seq, SequencedCommand};

use crate::{
    LogPlace, OpenError, Recovery,
    error::while_doing,
    names::Listing,
    walk::{LogWalk, OpenSegment, WalkStep},
};

/// One group of the tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailGroup {
    pub end: GroupEnd,
    /// Commands after the snapshot, in order.
    pub commands: Vec<SequencedCommand>,
}

/// Properties of a group besides its commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEnd {
    pub place: LogPlace,
    /// Rule version under which the commands were first applied.
    pub rule_version: u16,
    /// The output chain after the last command, as first computed. Missing only in a group that was
    /// sealed because it was full, in the middle of a commit.
    pub output: Option<OutputHash>,
}

/// Iterates over the groups of the tail. Memory is bounded by the largest group.
pub struct Tail<'a> {
    /// `None` if the log ends where the tail starts.
    walk: Option<LogWalk<'a>>,
    /// Number of the group before which to stop.
    end_group: u64,
    base: Seq,
}

impl<'a> Tail<'a> {
    pub(crate) fn new(storage: &'a dyn Storage, recovery: &Recovery) -> Result<Self, OpenError> {
        let end_group = recovery.end.group;
        let walk = if recovery.start.group < end_group {
            Some(LogWalk::new(storage, recovery.last_segment, recovery.start)?)
        } else {
            None
        };
        Ok(Self { walk, end_group, base: recovery.base() })
    }

    /// Appends the commands of the next group to `commands`. `None` at the end and after an error.
    pub fn next_onto(&mut self, commands: &mut Vec<SequencedCommand>) -> Option<Result<GroupEnd, OpenError>> {
        let before = commands.len();
        let next = self.read_next(commands).transpose();
        if matches!(next, Some(Err(_))) {
            commands.truncate(before);
            self.walk = None;
        }
        next
    }

    fn read_next(&mut self, commands: &mut Vec<SequencedCommand>) -> Result<Option<GroupEnd>, OpenError> {
        let Some(walk) = self.walk.as_mut().filter(|walk| walk.position().group < self.end_group) else {
            return Ok(None);
        };
        let base = self.base;
        match walk.step()? {
            WalkStep::Group(place, group) => decode_group(place, &group, base, commands).map(Some),
            WalkStep::End => Ok(None),
            // The group was whole when the log was inspected a moment ago.
            WalkStep::Fault(place, fault) => {
                Err(OpenError::DamagedBelowWatermark { place, next: base, watermark: base, fault })
            }
        }
    }
}

impl Iterator for Tail<'_> {
    type Item = Result<TailGroup, OpenError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut commands = Vec::new();
        let end = self.next_onto(&mut commands)?;
        Some(end.map(|end| TailGroup { end, commands }))
    }
}

/// Appends the records of a group after `base` and checks them against the numbers in its header.
pub(crate) fn decode_group(
    place: LogPlace,
    group: &Group<'_>,
    base: Seq,
    commands: &mut Vec<SequencedCommand>,
) -> Result<GroupEnd, OpenError> {
    let mut payload = group.payload;
    let mut expected = group.header.first;
    for _ in 0..group.header.commands {
        let (stamped, length) = decode_command(payload).map_err(|why| OpenError::BadRecord { place, why })?;
        if stamped.seq != expected {
            return Err(bad_record(place, "sequence number"));
        }
        expected = expected.next();
        payload = payload.get(length..).unwrap_or_default();
        if stamped.seq > base {
            commands.push(stamped);
        }
    }
    if !payload.is_empty() {
        return Err(bad_record(place, "bytes after the last record"));
    }
    let rule_version = group.header.rule_version;
    Ok(GroupEnd { place, rule_version, output: group.header.output.map(OutputHash) })
}

fn bad_record(place: LogPlace, what: &'static str) -> OpenError {
    OpenError::BadRecord { place, why: DecodeError::BadValue { what, at: 0 } }
}

/// Visits every command from `from` to `last`. They are durable and end at `end`.
pub(crate) fn follow(
    storage: &dyn Storage,
    from: Seq,
    end: JournalPosition,
    visit: &mut dyn FnMut(SequencedCommand),
) -> Result<(), OpenError> {
    let from = from.max(Seq(1));
    let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
    let Some(start) = position_before(storage, &Listing::new(names), from, end)? else { return Ok(()) };
    let mut walk = LogWalk::new(storage, end.segment, start)?;
    let before = Seq(from.0.saturating_sub(1));
    let mut commands = Vec::new();
    while walk.position().group < end.group {
        match walk.step()? {
            WalkStep::Group(place, group) => {
                decode_group(place, &group, before, &mut commands)?;
                commands.drain(..).for_each(&mut *visit);
            }
            WalkStep::End => break,
            WalkStep::Fault(place, fault) => {
                return Err(OpenError::DamagedBelowWatermark { place, next: from, watermark: from, fault });
            }
        }
    }
    Ok(())
}

/// Returns the start of the last segment that starts at or before a command; `None` for an empty
/// log.
fn position_before(
    storage: &dyn Storage,
    listing: &Listing,
    from: Seq,
    end: JournalPosition,
) -> Result<Option<JournalPosition>, OpenError> {
    let mut oldest = None;
    for segment in listing.segments.iter().copied().filter(|number| *number <= end.segment).rev() {
        let Some(header) = OpenSegment::open(storage, segment)?.first_header()? else { continue };
        let position =
            JournalPosition { segment, offset: 0, group: header.number, next: header.first, previous: header.previous };
        if header.first <= from {
            return Ok(Some(position));
        }
        oldest = Some(segment);
    }
    match oldest {
        Some(segment) => Err(OpenError::MissingSegment { segment: segment.saturating_sub(1) }),
        None => Ok(None),
    }
}

impl Recovery {
    /// Returns the commands after the snapshot, group by group, each with the output chain to
    /// compare with.
    ///
    /// # Errors
    ///
    /// Returns an I/O error, or damage with its segment and offset.
    pub fn tail<'a>(&self, storage: &'a dyn Storage) -> Result<Tail<'a>, OpenError> {
        Tail::new(storage, self)
    }
}
