//! Going through a log group by group, judging each: the one reader of segments, for recovery, replay and verify.

use crate::records::{
    Group, GroupFault, GroupHeader, Hash, JournalPosition,
    group::{BLOCK_BYTES, SECTOR_BYTES, is_zero, read_group, read_header},
};
use crate::{File, Storage};
use pitwire_model::Seq;

use crate::{OpenError, Place, error::while_doing, names};

const CHUNK_BYTES: usize = 1 << 20;
/// How much is read at once of what is walked through: a venue with little to do writes a group a command, and a call of
/// the system costs more than judging one.
const AHEAD_BYTES: usize = 256 << 10;

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
    window: Window,
}

impl<'a> Walk<'a> {
    /// `last_segment` is the highest one in the directory; all from the position's on must be there.
    pub(crate) fn new(
        storage: &'a dyn Storage,
        last_segment: u32,
        position: JournalPosition,
    ) -> Result<Self, OpenError> {
        let segment = OpenSegment::open(storage, position.segment)?;
        Ok(Self { storage, last_segment, segment, position, window: Window::default() })
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
            match self.look(offset)? {
                Look::Nothing if self.segment.number >= self.last_segment => return Ok(Step::End),
                Look::Nothing => {
                    let left = Place { segment: self.segment.number, offset };
                    let next = OpenSegment::open(self.storage, self.segment.number + 1)?;
                    // One that is shorter than the next was longer once.
                    if offset < self.segment.bytes.max(next.bytes) {
                        blank = Some(left);
                    }
                    (self.segment, offset) = (next, 0);
                    self.window.close();
                }
                Look::Fault(fault) => {
                    return Ok(Step::Fault(Place { segment: self.segment.number, offset }, fault));
                }
                Look::Whole(header, hash) => {
                    return self.accept(Place { segment: self.segment.number, offset }, header, hash, blank);
                }
            }
        }
    }

    /// Judges what stands at an offset of the segment.
    fn look(&mut self, offset: u64) -> Result<Look, OpenError> {
        let seen = self.segment.look(offset, &mut self.window)?;
        if matches!(seen, Look::Whole(..)) || self.window.begins == offset {
            return Ok(seen);
        }
        // It was read with what stands before it, and a venue that runs may have written it since.
        self.window.close();
        self.segment.look(offset, &mut self.window)
    }

    /// A whole group at `place`, which the window holds. Before it nothing stands at `blank`.
    fn accept(
        &mut self,
        place: Place,
        header: GroupHeader,
        hash: Hash,
        blank: Option<Place>,
    ) -> Result<Step<'_>, OpenError> {
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
            Some(payload) => Step::Group(place, Group { header, payload, hash }),
            None => Step::Fault(place, GroupFault::BadFrame),
        })
    }
}

/// What was last read of the segment that is walked through.
#[derive(Default)]
struct Window {
    begins: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// `count` bytes from `offset`, or as many as there are; read, with more behind them, where they are not in it.
    fn show(&mut self, segment: &OpenSegment, offset: u64, count: usize) -> Result<&[u8], OpenError> {
        if self.get(offset, count).is_none() {
            // Empty if reading fails.
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
    /// A group whose checksums and framing are right.
    Whole(GroupHeader, Hash),
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

    fn look(&self, offset: u64, window: &mut Window) -> Result<Look, OpenError> {
        let block = window.show(self, offset, BLOCK_BYTES)?;
        let header = match read_header(block) {
            Ok(header) => header,
            // Zeros at the front: either nothing was written here, or the front of what was is lost.
            Err(_) if is_zero(block) => {
                return Ok(match self.last_written(offset)? {
                    None => Look::Nothing,
                    Some(_) => Look::Fault(GroupFault::LostSector { at: 0 }),
                });
            }
            Err(fault) => return Ok(Look::Fault(fault)),
        };
        // Asked before memory is sized by a number from the disk.
        if header.group_bytes as u64 > self.bytes.saturating_sub(offset) {
            return Ok(Look::Fault(GroupFault::Short));
        }
        Ok(match read_group(window.show(self, offset, header.group_bytes)?) {
            Ok(Group { header, hash, .. }) => Look::Whole(header, hash),
            Err(fault) => Look::Fault(fault),
        })
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
