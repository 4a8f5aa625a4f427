//! Walks a log group by group and judges each group. It is the only reader of segments: recovery,
//! replay and verify use it.

use crate::records::{
    Group, GroupFault, GroupHeader, Hash, JournalPosition,
    group::{BLOCK_BYTES, SECTOR_BYTES, is_zero, read_group, read_header},
};
use crate::{File, Storage};
use pitwire_model::Seq;

use crate::{LogPlace, OpenError, archive::open_segment, error::while_doing};

const CHUNK_BYTES: usize = 1 << 20;
/// Bytes that are read at a time. A quiet venue writes one small group per command, and a system
/// call costs more than judging one.
const AHEAD_BYTES: usize = 256 << 10;

/// The next item of the walk.
pub(crate) enum WalkStep<'a> {
    /// A whole group that continues the chain. The walk has moved past it.
    Group(LogPlace, Group<'a>),
    /// Nothing was written from here on.
    End,
    /// Data that is not a group. The walk stays here.
    Fault(LogPlace, GroupFault),
}

pub(crate) struct LogWalk<'a> {
    storage: &'a dyn Storage,
    last_segment: u32,
    segment: OpenSegment,
    /// Where the next group must start, and the chain it must continue, if the segment has room.
    position: JournalPosition,
    window: Window,
}

impl<'a> LogWalk<'a> {
    /// Starts a walk. `last_segment` is the highest in the directory; all segments from the
    /// position on must exist.
    pub(crate) fn new(
        storage: &'a dyn Storage,
        last_segment: u32,
        position: JournalPosition,
    ) -> Result<Self, OpenError> {
        let segment = OpenSegment::open(storage, position.segment)?;
        Ok(Self { storage, last_segment, segment, position, window: Window::default() })
    }

    /// Position after the last group that was read.
    pub(crate) fn position(&self) -> JournalPosition {
        self.position
    }

    pub(crate) fn step(&mut self) -> Result<WalkStep<'_>, OpenError> {
        let mut offset = if self.segment.number == self.position.segment { self.position.offset } else { 0 };
        // The last empty place that had room for a group.
        let mut blank = None;
        loop {
            match self.look(offset)? {
                BlockState::Nothing if self.segment.number >= self.last_segment => return Ok(WalkStep::End),
                BlockState::Nothing => {
                    let left = LogPlace { segment: self.segment.number, offset };
                    let next = OpenSegment::open(self.storage, self.segment.number + 1)?;
                    // A segment that is shorter than the next one was truncated.
                    if offset < self.segment.bytes.max(next.bytes) {
                        blank = Some(left);
                    }
                    (self.segment, offset) = (next, 0);
                    self.window.close();
                }
                BlockState::Fault(fault) => {
                    return Ok(WalkStep::Fault(LogPlace { segment: self.segment.number, offset }, fault));
                }
                BlockState::Whole(header, hash) => {
                    return self.accept(LogPlace { segment: self.segment.number, offset }, header, hash, blank);
                }
            }
        }
    }

    /// Judges the data at an offset of the segment.
    fn look(&mut self, offset: u64) -> Result<BlockState, OpenError> {
        let seen = self.segment.look(offset, &mut self.window)?;
        if matches!(seen, BlockState::Whole(..)) || self.window.begins == offset {
            return Ok(seen);
        }
        // A running venue may have written this group since the window was read.
        self.window.close();
        self.segment.look(offset, &mut self.window)
    }

    /// Accepts a whole group at `place`, which the window holds. `blank` is an empty place before
    /// it.
    fn accept(
        &mut self,
        place: LogPlace,
        header: GroupHeader,
        hash: Hash,
        blank: Option<LogPlace>,
    ) -> Result<WalkStep<'_>, OpenError> {
        let continues = header.number == self.position.group
            && header.previous == self.position.previous
            && header.first == self.position.next;
        if !continues {
            let (expected_group, found_group) = (self.position.group, header.number);
            return Err(match blank {
                Some(blank) if found_group > expected_group => {
                    OpenError::MissingGroups { place: blank, next_segment: place.segment, expected_group, found_group }
                }
                _ => OpenError::BrokenChain { place, expected_group, found_group },
            });
        }
        self.position = JournalPosition {
            segment: place.segment,
            offset: place.offset + header.group_bytes as u64,
            group: header.number.saturating_add(1),
            next: header.last().next(),
            previous: hash,
        };
        let group = self.window.show(&self.segment, place.offset, header.group_bytes)?;
        Ok(match group.get(header.payload_range()) {
            Some(payload) => WalkStep::Group(place, Group { header, payload, hash }),
            None => WalkStep::Fault(place, GroupFault::BadFrame),
        })
    }
}

/// The part of the current segment that was read last.
#[derive(Default)]
struct Window {
    begins: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns `count` bytes from `offset`, or as many as exist. Reads ahead if the window does not
    /// hold them.
    fn show(&mut self, segment: &OpenSegment, offset: u64, count: usize) -> Result<&[u8], OpenError> {
        if self.get(offset, count).is_none() {
            // Stays empty if reading fails.
            let mut bytes = std::mem::take(&mut self.bytes);
            segment.read(offset, count.max(AHEAD_BYTES), &mut bytes)?;
            (self.begins, self.bytes) = (offset, bytes);
        }
        Ok(self.get(offset, count).unwrap_or(&self.bytes))
    }

    fn get(&self, offset: u64, count: usize) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.begins)?).ok()?;
        self.bytes.get(at..at.checked_add(count)?)
    }

    fn close(&mut self) {
        self.bytes.clear();
    }
}

/// A segment that is being read.
pub(crate) struct OpenSegment {
    number: u32,
    name: String,
    file: Box<dyn File>,
    bytes: u64,
}

enum BlockState {
    /// Zeros from here to the end of the segment.
    Nothing,
    /// A group whose checksums and framing are right.
    Whole(GroupHeader, Hash),
    Fault(GroupFault),
}

impl OpenSegment {
    pub(crate) fn open(storage: &dyn Storage, number: u32) -> Result<Self, OpenError> {
        let (name, file) = open_segment(storage, number)?;
        let bytes = file.len().map_err(while_doing("measure", &name))?;
        Ok(Self { number, name, file, bytes })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Header of the first group; `None` if nothing was written.
    pub(crate) fn first_header(&self) -> Result<Option<GroupHeader>, OpenError> {
        let mut buffer = Vec::new();
        self.read(0, BLOCK_BYTES, &mut buffer)?;
        match read_header(&buffer) {
            Ok(header) => Ok(Some(header)),
            Err(_) if is_zero(&buffer) => Ok(None),
            Err(fault) => {
                let place = LogPlace { segment: self.number, offset: 0 };
                Err(OpenError::DamagedBelowWatermark { place, next: Seq(0), watermark: Seq(0), fault })
            }
        }
    }

    fn look(&self, offset: u64, window: &mut Window) -> Result<BlockState, OpenError> {
        let block = window.show(self, offset, BLOCK_BYTES)?;
        let header = match read_header(block) {
            Ok(header) => header,
            // Zeros at the front: nothing was written here, or its front was lost.
            Err(_) if is_zero(block) => {
                return Ok(match self.last_written(offset)? {
                    None => BlockState::Nothing,
                    Some(_) => BlockState::Fault(GroupFault::LostSector { at: 0 }),
                });
            }
            Err(fault) => return Ok(BlockState::Fault(fault)),
        };
        // Checked before memory is allocated by a size from the disk.
        if header.group_bytes as u64 > self.bytes.saturating_sub(offset) {
            return Ok(BlockState::Fault(GroupFault::Short));
        }
        Ok(match read_group(window.show(self, offset, header.group_bytes)?) {
            Ok(Group { header, hash, .. }) => BlockState::Whole(header, hash),
            Err(fault) => BlockState::Fault(fault),
        })
    }

    /// Fills the buffer with up to `count` bytes from `offset`; fewer at the end of the file.
    fn read(&self, offset: u64, count: usize, buffer: &mut Vec<u8>) -> Result<(), OpenError> {
        buffer.resize(count, 0);
        let got = self.file.read_at(offset, buffer).map_err(while_doing("read", &self.name))?;
        buffer.truncate(got);
        Ok(())
    }

    /// Returns the end of the last block from `offset` on that is not zero.
    pub(crate) fn last_written(&self, offset: u64) -> Result<Option<u64>, OpenError> {
        let (mut at, mut end) = (offset, None);
        let mut buffer = Vec::new();
        while at < self.bytes {
            self.read(at, CHUNK_BYTES, &mut buffer)?;
            if buffer.is_empty() {
                break;
            }
            if let Some(block) = buffer.chunks(BLOCK_BYTES).rposition(|block| !is_zero(block)) {
                end = Some((at + ((block + 1) * BLOCK_BYTES) as u64).min(self.bytes));
            }
            at += buffer.len() as u64;
        }
        Ok(end)
    }

    /// Whether a sector between the two offsets was never written. Whole groups have no such
    /// sector.
    pub(crate) fn has_lost_sector(&self, from: u64, to: u64) -> Result<bool, OpenError> {
        let mut at = from;
        let mut buffer = Vec::new();
        while at < to {
            let count = usize::try_from(to - at).unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
            self.read(at, count, &mut buffer)?;
            if buffer.is_empty() || buffer.chunks(SECTOR_BYTES).any(is_zero) {
                return Ok(!buffer.is_empty());
            }
            at += buffer.len() as u64;
        }
        Ok(false)
    }

    /// Returns the highest watermark in any readable header after `offset`, which proves how much
    /// was durable.
    pub(crate) fn later_watermark(&self, offset: u64) -> Result<Seq, OpenError> {
        let mut highest = Seq(0);
        let mut at = offset + BLOCK_BYTES as u64;
        let mut buffer = Vec::new();
        while at < self.bytes {
            self.read(at, CHUNK_BYTES, &mut buffer)?;
            if buffer.is_empty() {
                break;
            }
            for block in buffer.chunks(BLOCK_BYTES) {
                highest = highest.max(read_header(block).map_or(Seq(0), |header| header.watermark));
            }
            at += buffer.len() as u64;
        }
        Ok(highest)
    }
}
