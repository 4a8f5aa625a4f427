//! Inspection of a directory without changing it: the basis of recovery, and all that `verify`
//! does.

use crate::Storage;
use crate::records::{
    FORMAT_VERSION, GroupFault, JournalPosition, SnapshotFault, Superblock,
    command::{QUARANTINE_KIND, kind_of_record, records},
    decode_command,
};
use pitwire_model::{Command, Seq};

use crate::{
    DamagedSnapshot, JournalConfig, LogPlace, OpenError, Recovery, StartAt, TornTail,
    error::while_doing,
    names::{self, Listing},
    snapshots::{self, Choice},
    superblock,
    walk::{LogWalk, OpenSegment, WalkStep},
};

/// Reads and judges everything from a snapshot on. It changes nothing and needs no lock, but the
/// venue must not run.
///
/// # Errors
///
/// Returns the first damage that recovery must not repair.
pub fn inspect(storage: &dyn Storage, config: &JournalConfig, from: StartAt) -> Result<Recovery, OpenError> {
    config.check()?;
    let names = storage.list().map_err(while_doing("list", "the journal's directory"))?;
    let listing = Listing::new(names);
    if !listing.has_superblock {
        // The superblock is created, and its name synced, before any other file.
        let is_fresh = listing.segments.is_empty() && listing.snapshots.is_empty();
        return if is_fresh { Ok(Recovery::fresh()) } else { Err(OpenError::MissingSuperblock) };
    }
    let superblock = superblock::read(storage)?;
    let mut choice = snapshots::choose(storage, &listing, config, from, &superblock.snapshots)?;
    if from == StartAt::Oldest {
        choice.prefer_the_beginning(&listing);
    }
    if superblock.watermark == Seq(0) && listing.segments.is_empty() && choice.used.is_none() {
        return Ok(Recovery { superblock: Some(superblock), ..Recovery::fresh() });
    }
    let start = choice.used.as_ref().map_or(JournalPosition::START, |used| used.meta.position);
    let last_segment = check_segments(&listing, start, &choice)?;
    let recovery = judge_log(storage, config, superblock, choice, last_segment)?;
    if from == StartAt::NewestSnapshot
        && let Some(begin) = oldest_start(storage, config, &listing, &recovery)?
    {
        judge_history(storage, begin, &recovery)?;
    }
    Ok(recovery)
}

/// Returns where the log before the used snapshot is judged from: its first command, or else the
/// oldest readable snapshot after which every segment is plain. Compressed segments were compared
/// when they were made, so a start does not take longer with a longer history. `verify` judges
/// them.
fn oldest_start(
    storage: &dyn Storage,
    config: &JournalConfig,
    listing: &Listing,
    recovery: &Recovery,
) -> Result<Option<JournalPosition>, OpenError> {
    let reaches_from = |first: u32| (first..=recovery.start.segment).all(|number| listing.plain.contains(&number));
    if recovery.snapshot.is_none() {
        return Ok(None);
    }
    if reaches_from(1) {
        return Ok(Some(JournalPosition::START));
    }
    for seq in listing.snapshots.iter().filter(|seq| **seq < recovery.base()) {
        if let Ok(older) = snapshots::load(storage, *seq, config)?
            && reaches_from(older.meta.position.segment)
        {
            return Ok(Some(older.meta.position));
        }
    }
    Ok(None)
}

/// Judges the log before the used snapshot. It was acknowledged too, and an older snapshot or
/// `verify` would need it, although this start replays none of it.
fn judge_history(storage: &dyn Storage, begin: JournalPosition, recovery: &Recovery) -> Result<(), OpenError> {
    let (start, snapshot) = (recovery.start, recovery.base());
    let mut walk = LogWalk::new(storage, start.segment, begin)?;
    while walk.position().next < start.next {
        match walk.step()? {
            WalkStep::Group(..) => {}
            WalkStep::End => {
                let JournalPosition { segment, offset, next, .. } = walk.position();
                let last = Seq(next.0.saturating_sub(1));
                return Err(OpenError::EndsEarly { place: LogPlace { segment, offset }, last, watermark: snapshot });
            }
            WalkStep::Fault(place, fault) => {
                return Err(OpenError::DamagedHistory { place, snapshot, start_segment: start.segment, fault });
            }
        }
    }
    let end = walk.position();
    if (end.next, end.group, end.previous) != (start.next, start.group, start.previous) {
        let place = LogPlace { segment: end.segment, offset: end.offset };
        return Err(OpenError::BrokenChain { place, expected_group: start.group, found_group: end.group });
    }
    Ok(())
}

/// Checks that every segment from the start on exists. Older segments may reappear, because a power
/// cut can undo their removal.
fn check_segments(listing: &Listing, start: JournalPosition, choice: &Choice) -> Result<u32, OpenError> {
    let needed: Vec<u32> = listing.segments.iter().copied().filter(|number| *number >= start.segment).collect();
    let first = needed.first().copied().unwrap_or(0);
    if first != start.segment {
        if choice.used.is_none() && first > start.segment {
            if let Some((file, found)) = choice.damaged.iter().find_map(of_older_layout) {
                return Err(OpenError::OlderSnapshot { file, found, first_segment: first });
            }
            let damaged = choice.damaged.iter().map(|damaged| damaged.name.clone()).collect();
            return Err(OpenError::NoUsableSnapshot { first_segment: first, damaged });
        }
        return Err(OpenError::MissingSegment { segment: start.segment });
    }
    let gap = needed.iter().zip(start.segment..).find(|(found, expected)| **found != *expected);
    match gap {
        Some((_, expected)) => Err(OpenError::MissingSegment { segment: expected }),
        None => Ok(needed.last().copied().unwrap_or(start.segment)),
    }
}

fn of_older_layout(snapshot: &DamagedSnapshot) -> Option<(String, u16)> {
    match snapshot.fault {
        SnapshotFault::OlderFormat { found } => Some((snapshot.name.clone(), found)),
        _ => None,
    }
}

fn judge_log(
    storage: &dyn Storage,
    config: &JournalConfig,
    superblock: Superblock,
    choice: Choice,
    last_segment: u32,
) -> Result<Recovery, OpenError> {
    let start = choice.used.as_ref().map_or(JournalPosition::START, |used| used.meta.position);
    let mut recovery = Recovery {
        is_fresh: false,
        last: Seq(start.next.0.saturating_sub(1)),
        // A snapshot contains only durable commands, so each one proves a watermark.
        watermark: superblock.watermark.max(choice.newest_seq),
        start,
        snapshot: choice.used,
        damaged_snapshots: choice.damaged,
        later_snapshots: choice.later,
        last_segment,
        superblock: Some(superblock),
        ..Recovery::fresh()
    };
    let mut walk = LogWalk::new(storage, last_segment, start)?;
    loop {
        match walk.step()? {
            WalkStep::Group(place, group) => recovery.take_group(config, place, &group)?,
            WalkStep::End => break,
            WalkStep::Fault(place, fault) => {
                recovery.torn = Some(recovery.judge_fault(storage, place, fault)?);
                break;
            }
        }
    }
    recovery.end = walk.position();
    recovery.check_end(storage)?;
    Ok(recovery)
}

/// Returns the commands that a payload of records says to skip. An unreadable record ends the
/// search; the replay will report it.
fn quarantines(payload: &[u8]) -> impl Iterator<Item = Seq> {
    records(payload).filter(|record| kind_of_record(record) == Some(QUARANTINE_KIND)).filter_map(|record| {
        match decode_command(record).ok()?.0.command {
            Command::Quarantine { seq, .. } => Some(seq),
            _ => None,
        }
    })
}

impl Recovery {
    fn take_group(
        &mut self,
        config: &JournalConfig,
        place: LogPlace,
        group: &crate::records::Group<'_>,
    ) -> Result<(), OpenError> {
        let header = &group.header;
        if header.rule_version > config.rule_version {
            let file = names::segment(place.segment);
            return Err(OpenError::NewerRules { file, found: header.rule_version, known: config.rule_version });
        }
        // The superblock keeps the hash of the newest group that it knows, outside the log.
        if self.superblock.is_some_and(|known| known.group == header.number && known.hash != group.hash) {
            return Err(OpenError::BrokenChain { place, expected_group: header.number, found_group: header.number });
        }
        if self.rule_versions.last() != Some(&header.rule_version) {
            self.rule_versions.push(header.rule_version);
        }
        self.quarantined.extend(quarantines(group.payload));
        self.last = header.last();
        self.watermark = self.watermark.max(header.watermark);
        Ok(())
    }

    /// Decides whether a fault is a torn tail or damage, by the rules at the head of the crate.
    fn judge_fault(&self, storage: &dyn Storage, place: LogPlace, fault: GroupFault) -> Result<TornTail, OpenError> {
        let file = || names::segment(place.segment);
        match fault {
            GroupFault::NewerFormat { found } => {
                return Err(OpenError::NewerFormat { file: file(), found, known: FORMAT_VERSION });
            }
            GroupFault::OlderFormat { found } => return Err(OpenError::OlderFormat { file: file(), found }),
            _ => {}
        }
        let segment = OpenSegment::open(storage, place.segment)?;
        let next = self.last.next();
        let watermark = self.watermark.max(segment.later_watermark(place.offset)?);
        // The next segment is started only after this one was synced.
        let is_followed = self.anything_after(storage, place.segment)?;
        if watermark >= next || is_followed {
            return Err(OpenError::DamagedBelowWatermark { place, next, watermark, fault });
        }
        let end = segment.last_written(place.offset)?.unwrap_or(place.offset);
        // A misdirected sector damages the place where it landed and leaves zeros in its own place.
        if !fault.is_torn() && !segment.has_lost_sector(place.offset, end)? {
            return Err(OpenError::DamagedTail { place, next, watermark, fault });
        }
        let bytes = end.saturating_sub(place.offset);
        Ok(TornTail { segment: place.segment, offset: place.offset, bytes, fault })
    }

    fn anything_after(&self, storage: &dyn Storage, segment: u32) -> Result<bool, OpenError> {
        for number in segment.saturating_add(1)..=self.last_segment {
            if OpenSegment::open(storage, number)?.last_written(0)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks that the log does not end before an acknowledged command.
    fn check_end(&self, storage: &dyn Storage) -> Result<(), OpenError> {
        let end = self.end;
        let segment = OpenSegment::open(storage, end.segment)?;
        let is_cut_short = end.offset > segment.bytes();
        if self.last < self.watermark || is_cut_short {
            let offset = end.offset.min(segment.bytes());
            let place = LogPlace { segment: end.segment, offset };
            return Err(OpenError::EndsEarly { place, last: self.last, watermark: self.watermark });
        }
        // A log of another history may hold as many commands in fewer groups. The group whose hash
        // would contradict it is then missing.
        if let Some(known) = self.superblock
            && known.group >= end.group
        {
            let place = LogPlace { segment: end.segment, offset: end.offset };
            let found_group = end.group.saturating_sub(1);
            return Err(OpenError::BrokenChain { place, expected_group: known.group, found_group });
        }
        Ok(())
    }
}
