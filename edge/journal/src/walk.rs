//! Going through a log group by group, judging each: the one reader of segments, for recovery, replay and verify.

use pitwire_log::{
    Group, GroupFault, GroupHeader, JournalPosition,
    group::{BLOCK_BYTES, SECTOR_BYTES, is_zero, read_group, read_header},
};
use pitwire_model::Seq;
use pitwire_ports::{File, Storage};

use crate::{OpenError, Place, error::while_doing, names};

const CHUNK_BYTES: usize = 1 << 20;

/// What stands at the walker's place.
pub(crate) enum Step<'a> {
    /// A whole group that continues the chain. The walker has moved past it.
    Group(Place, Group<'a>),
    /// Nothing was written from here on.
    End,
    /// Something stands here that is no group. The walker stays.
    Fault(Place, GroupFault),
}

pub(crate) struct Walk<'a> {
    storage: &'a dyn Storage,
    last_segment: u32,
    segment: OpenSegment,
    /// Where the next group must begin and what it must name, if the segment has room for it.
    position: JournalPosition,
    buffer: Vec<u8>,
}

impl<'a> Walk<'a> {
    /// `last_segment` is the highest one in the directory; all from the position's on must be there.
    pub(crate) fn new(
        storage: &'a dyn Storage,
        last_segment: u32,
        position: JournalPosition,
    ) -> Result<Self, OpenError> {
        let segment = OpenSegment::open(storage, position.segment)?;
        Ok(Self { storage, last_segment, segment, position, buffer: Vec::new() })
    }

    /// Behind the last group that was read.
    pub(crate) fn position(&self) -> JournalPosition {
        self.position
    }

    pub(crate) fn step(&mut self) -> Result<Step<'_>, OpenError> {
        let mut offset = if self.segment.number == self.position.segment { self.position.offset } else { 0 };
        // The last place at which nothing stood but there was room.
        let mut blank = None;
        loop {
            match self.segment.look(offset, &mut self.buffer)? {
                Look::Nothing if self.segment.number >= self.last_segment => return Ok(Step::End),
                Look::Nothing => {
                    let left = Place { segment: self.segment.number, offset };
                    let next = OpenSegment::open(self.storage, self.segment.number + 1)?;
                    // One that is shorter than the next was longer once.
                    if offset < self.segment.bytes.max(next.bytes) {
                        blank = Some(left);
                    }
                    (self.segment, offset) = (next, 0);
                }
                Look::Fault(fault) => {
                    return Ok(Step::Fault(Place { segment: self.segment.number, offset }, fault));
                }
                Look::Whole => break,
            }
        }
        self.accept(Place { segment: self.segment.number, offset }, blank)
    }

    /// The buffer holds all the bytes that the header asks for. Before it nothing stands at `blank`.
    fn accept(&mut self, place: Place, blank: Option<Place>) -> Result<Step<'_>, OpenError> {
        let group = match read_group(&self.buffer) {
            Ok(group) => group,
            Err(fault) => return Ok(Step::Fault(place, fault)),
        };
        let header = &group.header;
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
            previous: group.hash,
        };
        Ok(Step::Group(place, group))
    }
}

/// A segment being read.
pub(crate) struct OpenSegment {
    number: u32,
    name: String,
    file: Box<dyn File>,
    bytes: u64,
}

enum Look {
    /// Zeros from here to the end of the segment.
    Nothing,
    /// The buffer holds what a readable header asks for.
    Whole,
    Fault(GroupFault),
}

impl OpenSegment {
    pub(crate) fn open(storage: &dyn Storage, number: u32) -> Result<Self, OpenError> {
        let name = names::segment(number);
        let file = storage.open(&name).map_err(while_doing("open", &name))?;
        let bytes = file.len().map_err(while_doing("measure", &name))?;
        Ok(Self { number, name, file, bytes })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Of the group at its beginning; `None` when nothing was written.
    pub(crate) fn first_header(&self) -> Result<Option<GroupHeader>, OpenError> {
        let mut buffer = Vec::new();
        self.read(0, BLOCK_BYTES, &mut buffer)?;
        match read_header(&buffer) {
            Ok(header) => Ok(Some(header)),
            Err(_) if is_zero(&buffer) => Ok(None),
            Err(fault) => {
                let place = Place { segment: self.number, offset: 0 };
                Err(OpenError::DamagedBelowWatermark { place, next: Seq(0), watermark: Seq(0), fault })
            }
        }
    }

    fn look(&self, offset: u64, buffer: &mut Vec<u8>) -> Result<Look, OpenError> {
        self.read(offset, BLOCK_BYTES, buffer)?;
        let header = match read_header(buffer) {
            Ok(header) => header,
            // Zeros at the front: either nothing was written here, or the front of what was is lost.
            Err(_) if is_zero(buffer) => {
                return Ok(match self.last_written(offset)? {
                    None => Look::Nothing,
                    Some(_) => Look::Fault(GroupFault::LostSector { at: 0 }),
                });
            }
            Err(fault) => return Ok(Look::Fault(fault)),
        };
        // Asked before the buffer is sized by a number from the disk.
        if header.group_bytes as u64 > self.bytes.saturating_sub(offset) {
            return Ok(Look::Fault(GroupFault::Short));
        }
        self.read(offset, header.group_bytes, buffer)?;
        Ok(Look::Whole)
    }

    /// Fills the buffer with up to `count` bytes from `offset`; fewer at the end of the file.
    fn read(&self, offset: u64, count: usize, buffer: &mut Vec<u8>) -> Result<(), OpenError> {
        buffer.resize(count, 0);
        let got = self.file.read_at(offset, buffer).map_err(while_doing("read", &self.name))?;
        buffer.truncate(got);
        Ok(())
    }

    /// The end of the last block from `offset` on in which anything stands.
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

    /// Whether a sector between the two offsets was never written. Whole groups have none.
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

    /// The highest watermark that any readable header after `offset` carries: a witness of what was durable.
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
