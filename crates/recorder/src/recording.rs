//! A recording: messages with their arrival times, in independent blocks.
//!
//! Does        writes and reads the format of docs/tape.md: a header, blocks with checksums, an
//!             index and a footer.
//! Holds       1. whatever happens to the writer, all complete blocks are readable;
//!             2. no file content makes a reader panic, or use more memory than one block.
//! Start at    [`RecordingWriter`], [`RecordingReader`].

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::trades::MessageSource;

const MAGIC: &[u8; 8] = b"PWTAPE1\n";
const BLOCK_MAGIC: u32 = 0x4B4C_4250;
const INDEX_MAGIC: u32 = 0x5844_4950;
const END_MAGIC: &[u8; 8] = b"PWTEND1\n";
const BLOCK_HEADER: usize = 40;
const FOOTER: usize = 32;
const INDEX_ENTRY: usize = 24;
/// A block is written when it has this many bytes or this age.
const BLOCK_BYTES: usize = 256 * 1024;
pub const BLOCK_NS: u64 = 1_000_000_000;
/// Longest message, which also bounds a block.
pub const MESSAGE_MOST: usize = 64 * 1024 * 1024;
const SOURCE_MOST: usize = 64 * 1024;

#[derive(Debug)]
pub struct RecordingError {
    /// Offset in the file.
    pub at: u64,
    pub what: String,
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.what)
    }
}

impl std::error::Error for RecordingError {}

pub struct RecordingWriter<W: Write> {
    out: W,
    at: u64,
    text: Vec<u8>,
    block_first_ns: u64,
    last_ns: u64,
    records: u32,
    before: u64,
    index: Vec<[u64; 3]>,
}

impl<W: Write> RecordingWriter<W> {
    /// Starts a recording. `start_ns` is since 1970; `source` is where the messages come from.
    ///
    /// # Errors
    /// The header cannot be written.
    pub fn new(mut out: W, start_ns: u64, source: &str) -> io::Result<Self> {
        let mut end = source.len().min(SOURCE_MOST);
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        let mut header = MAGIC.to_vec();
        header.extend_from_slice(&start_ns.to_le_bytes());
        header.extend_from_slice(&u32::try_from(end).unwrap_or(0).to_le_bytes());
        header.extend_from_slice(&source.as_bytes()[..end]);
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        out.write_all(&header)?;
        out.flush()?;
        let at = header.len() as u64;
        Ok(RecordingWriter {
            out,
            at,
            text: Vec::new(),
            block_first_ns: 0,
            last_ns: 0,
            records: 0,
            before: 0,
            index: Vec::new(),
        })
    }

    /// Adds a message that arrived `ns` after the start. A time before the last one counts as the
    /// last one.
    ///
    /// # Errors
    /// A full block cannot be written, or the message is too long.
    pub fn add(&mut self, ns: u64, is_binary: bool, payload: &[u8]) -> io::Result<()> {
        let ns = ns.max(self.last_ns);
        if self.records == 0 {
            self.block_first_ns = ns;
            self.last_ns = ns;
        }
        put_varint(&mut self.text, ns - self.last_ns);
        put_varint(&mut self.text, (payload.len() as u64) << 1 | u64::from(is_binary));
        self.text.extend_from_slice(payload);
        self.last_ns = ns;
        self.records += 1;
        if self.text.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the block if its first message is older than [`BLOCK_NS`] at `ns`.
    ///
    /// # Errors
    /// The block cannot be written.
    pub fn tick(&mut self, ns: u64) -> io::Result<()> {
        if self.records > 0 && ns.saturating_sub(self.block_first_ns) >= BLOCK_NS { self.flush() } else { Ok(()) }
    }

    pub fn messages(&self) -> u64 {
        self.before + u64::from(self.records)
    }

    pub fn bytes(&self) -> u64 {
        self.at
    }

    fn flush(&mut self) -> io::Result<()> {
        let packed = snap::raw::Encoder::new().compress_vec(&self.text).map_err(io::Error::other)?;
        let mut block = Vec::with_capacity(BLOCK_HEADER + packed.len());
        block.extend_from_slice(&BLOCK_MAGIC.to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&u32::try_from(packed.len()).map_err(io::Error::other)?.to_le_bytes());
        block.extend_from_slice(&u32::try_from(self.text.len()).map_err(io::Error::other)?.to_le_bytes());
        block.extend_from_slice(&self.records.to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&self.before.to_le_bytes());
        block.extend_from_slice(&self.block_first_ns.to_le_bytes());
        block.extend_from_slice(&packed);
        let sum = crc32c::crc32c(&block[8..]);
        block[4..8].copy_from_slice(&sum.to_le_bytes());
        self.out.write_all(&block)?;
        self.out.flush()?;
        self.index.push([self.at, self.before, self.block_first_ns]);
        self.at += block.len() as u64;
        self.before += u64::from(self.records);
        self.records = 0;
        self.text.clear();
        Ok(())
    }

    /// Writes the last block, the index and the footer.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        if self.records > 0 {
            self.flush()?;
        }
        let mut index = INDEX_MAGIC.to_le_bytes().to_vec();
        for value in self.index.iter().flatten() {
            index.extend_from_slice(&value.to_le_bytes());
        }
        let mut footer = self.at.to_le_bytes().to_vec();
        footer.extend_from_slice(&self.before.to_le_bytes());
        footer.extend_from_slice(&u32::try_from(self.index.len()).map_err(io::Error::other)?.to_le_bytes());
        footer.extend_from_slice(&crc32c::crc32c_append(crc32c::crc32c(&index), &footer).to_le_bytes());
        footer.extend_from_slice(END_MAGIC);
        self.out.write_all(&index)?;
        self.out.write_all(&footer)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// How a file ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileEnding {
    /// With index and footer: this many messages in this many blocks.
    Whole { messages: u64, blocks: u32 },
    /// The writer was killed. Everything before this offset is complete.
    Cut { at: u64 },
}

/// Reads the messages of a recording in order, one block at a time.
pub struct RecordingReader<R: Read + Seek> {
    file: R,
    at: u64,
    /// Where the blocks end.
    end: u64,
    pub source: String,
    pub start_ns: u64,
    pub ending: FileEnding,
    text: Vec<u8>,
    text_at: usize,
    left: u32,
    ns: u64,
    first_ns: Option<u64>,
    expected: u64,
    /// The next message, if it was read in advance.
    peeked: Option<PeekedMessage>,
}

/// Arrival time since the first message, whether the message is binary, and its payload.
pub type RecordedMessage<'a> = (u64, bool, &'a [u8]);

struct PeekedMessage {
    ns: u64,
    is_binary: bool,
    payload: std::ops::Range<usize>,
}

impl RecordingReader<File> {
    /// Opens a recording.
    ///
    /// # Errors
    ///
    /// Returns an error with the position if the file cannot be read or is not a recording.
    pub fn open(path: &std::path::Path) -> Result<Self, RecordingError> {
        let file = File::open(path).map_err(|error| RecordingError { at: 0, what: error.to_string() })?;
        RecordingReader::new(file)
    }
}

impl<R: Read + Seek> RecordingReader<R> {
    /// Reads the header and the index of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error with the position if the file cannot be read or is not a recording.
    pub fn new(mut file: R) -> Result<Self, RecordingError> {
        let failed = |error: io::Error| RecordingError { at: 0, what: error.to_string() };
        let size = file.seek(SeekFrom::End(0)).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let foreign = || RecordingError {
            at: 0,
            what: "this is no recording of pitwire tape (it does not begin with PWTAPE1)".into(),
        };
        let mut fixed = [0; 20];
        read_at(&mut file, &mut fixed, size, 0).map_err(|_| foreign())?;
        if fixed[..8] != *MAGIC {
            return Err(foreign());
        }
        let length = u32_of(&fixed[16..]) as usize;
        if length > SOURCE_MOST {
            return Err(RecordingError { at: 16, what: "the header's text is longer than any".into() });
        }
        let mut rest = vec![0; length + 4];
        read_at(&mut file, &mut rest, size, 20)?;
        let sum = crc32c::crc32c_append(crc32c::crc32c(&fixed), &rest[..length]);
        if sum != u32_of(&rest[length..]) {
            return Err(RecordingError { at: 0, what: "the header's checksum is wrong".into() });
        }
        let at = 20 + length as u64 + 4;
        let (ending, end) = ending(&mut file, size, at)?;
        file.seek(SeekFrom::Start(at)).map_err(failed)?;
        let source = String::from_utf8_lossy(&rest[..length]).into_owned();
        Ok(RecordingReader {
            file,
            at,
            end,
            source,
            start_ns: u64_of(&fixed[8..]),
            ending,
            text: Vec::new(),
            text_at: 0,
            left: 0,
            ns: 0,
            first_ns: None,
            expected: 0,
            peeked: None,
        })
    }

    /// Returns when the next message arrived since the first one, without taking it.
    ///
    /// # Errors
    ///
    /// Returns an error with the position of the damage.
    pub fn peek_ns(&mut self) -> Result<Option<u64>, RecordingError> {
        self.fetch()?;
        let first_ns = self.first_ns.unwrap_or(0);
        Ok(self.peeked.as_ref().map(|peeked| peeked.ns - first_ns))
    }

    /// Takes the next message.
    ///
    /// # Errors
    ///
    /// Returns an error with the position of the damage.
    pub fn next_message(&mut self) -> Result<Option<RecordedMessage<'_>>, RecordingError> {
        self.fetch()?;
        let first_ns = self.first_ns.unwrap_or(0);
        let text = &self.text;
        Ok(self.peeked.take().map(|peeked| (peeked.ns - first_ns, peeked.is_binary, &text[peeked.payload])))
    }

    fn fetch(&mut self) -> Result<(), RecordingError> {
        while self.peeked.is_none() {
            if self.left == 0 {
                if self.at >= self.end {
                    return self.all_there();
                }
                self.read_block()?;
                continue;
            }
            let bad = |at: u64| RecordingError { at, what: "a block's messages do not add up".into() };
            let mut rest = &self.text[self.text_at..];
            let before = rest.len();
            let block_at = self.at;
            let (Some(delta), Some(length)) = (take_varint(&mut rest), take_varint(&mut rest)) else {
                return Err(bad(block_at));
            };
            let bytes = usize::try_from(length >> 1).unwrap_or(usize::MAX);
            if bytes > rest.len() {
                return Err(bad(block_at));
            }
            let start = self.text_at + before - rest.len();
            self.ns = self.ns.checked_add(delta).ok_or_else(|| bad(block_at))?;
            self.first_ns.get_or_insert(self.ns);
            self.peeked =
                Some(PeekedMessage { ns: self.ns, is_binary: length & 1 == 1, payload: start..start + bytes });
            self.text_at = start + bytes;
            self.left -= 1;
        }
        Ok(())
    }

    fn all_there(&self) -> Result<(), RecordingError> {
        match self.ending {
            FileEnding::Whole { messages, .. } if messages != self.expected => Err(RecordingError {
                at: self.end,
                what: format!("{messages} messages are announced, {} are there", self.expected),
            }),
            _ => Ok(()),
        }
    }

    fn read_block(&mut self) -> Result<(), RecordingError> {
        let block = read_block(&mut self.file, self.at, self.end)?;
        let wrong = |what: &str| RecordingError { at: self.at, what: what.into() };
        if block.before != self.expected {
            return Err(wrong("a block is missing before this one"));
        }
        if block.first_ns < self.ns {
            return Err(wrong("times go back"));
        }
        self.expected += u64::from(block.records);
        self.ns = block.first_ns;
        self.left = block.records;
        self.text = block.text;
        self.text_at = 0;
        self.at = block.end;
        Ok(())
    }
}

struct RecordingBlock {
    text: Vec<u8>,
    records: u32,
    before: u64,
    first_ns: u64,
    end: u64,
}

/// Reads the block at `at`. The file's blocks end at `end`.
fn read_block<R: Read + Seek>(file: &mut R, at: u64, end: u64) -> Result<RecordingBlock, RecordingError> {
    let wrong = |what: &str| RecordingError { at, what: what.into() };
    let mut header = [0; BLOCK_HEADER];
    read_at(file, &mut header, end, at)?;
    if u32_of(&header) != BLOCK_MAGIC {
        return Err(wrong("no block begins here"));
    }
    let (packed, text) = (u32_of(&header[8..]) as usize, u32_of(&header[12..]) as usize);
    if (BLOCK_HEADER + packed) as u64 > end - at || text > MESSAGE_MOST + BLOCK_BYTES + 32 {
        return Err(wrong("a block says it is longer than it can be"));
    }
    let mut body = vec![0; packed];
    read_at(file, &mut body, end, at + BLOCK_HEADER as u64)?;
    if crc32c::crc32c_append(crc32c::crc32c(&header[8..]), &body) != u32_of(&header[4..]) {
        return Err(wrong("a block's checksum is wrong"));
    }
    if snap::raw::decompress_len(&body).ok() != Some(text) {
        return Err(wrong("a block's length is not what it says"));
    }
    let text = snap::raw::Decoder::new().decompress_vec(&body).map_err(|_| wrong("a block cannot be unpacked"))?;
    let end = at + (BLOCK_HEADER + packed) as u64;
    Ok(RecordingBlock {
        text,
        records: u32_of(&header[16..]),
        before: u64_of(&header[24..]),
        first_ns: u64_of(&header[32..]),
        end,
    })
}

/// Finds how the file ends and where its blocks end. Without a footer it walks the blocks up to the
/// first incomplete one.
fn ending<R: Read + Seek>(file: &mut R, size: u64, first: u64) -> Result<(FileEnding, u64), RecordingError> {
    let mut footer = [0; FOOTER];
    let footer_at = size.saturating_sub(FOOTER as u64);
    if footer_at >= first && read_at(file, &mut footer, size, footer_at).is_ok() && footer[24..] == *END_MAGIC {
        let (index_at, messages, blocks) = (u64_of(&footer), u64_of(&footer[8..]), u32_of(&footer[16..]));
        let length = 4 + u64::from(blocks) * INDEX_ENTRY as u64;
        if index_at < first || index_at.checked_add(length) != Some(footer_at) {
            return Err(RecordingError { at: footer_at, what: "the footer does not fit the file".into() });
        }
        let mut index = vec![0; usize::try_from(length).unwrap_or(0)];
        read_at(file, &mut index, footer_at, index_at)?;
        if crc32c::crc32c_append(crc32c::crc32c(&index), &footer[..20]) != u32_of(&footer[20..]) {
            return Err(RecordingError { at: index_at, what: "the index's checksum is wrong".into() });
        }
        return Ok((FileEnding::Whole { messages, blocks }, index_at));
    }
    let mut at = first;
    while let Ok(block) = read_block(file, at, size) {
        at = block.end;
    }
    Ok((FileEnding::Cut { at }, at))
}

/// A recording as a message source.
pub struct Recording<R: Read + Seek>(RecordingReader<R>);

impl<R: Read + Seek> Recording<R> {
    pub fn new(reader: RecordingReader<R>) -> Self {
        Recording(reader)
    }
}

impl<R: Read + Seek + Send> MessageSource for Recording<R> {
    fn take(&mut self, _wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<bool>, String> {
        let next = self.0.next_message().map_err(|error| format!("the recording is damaged at {error}"))?;
        Ok(next.map(|(_, is_binary, payload)| {
            out.extend_from_slice(payload);
            is_binary
        }))
    }

    fn due_ns(&mut self) -> Option<u64> {
        // Damage is reported when the message is taken.
        self.0.peek_ns().ok().flatten()
    }
}

fn read_at<R: Read + Seek>(file: &mut R, into: &mut [u8], end: u64, at: u64) -> Result<(), RecordingError> {
    let failed = |error: io::Error| RecordingError { at, what: error.to_string() };
    if at + into.len() as u64 > end {
        return Err(RecordingError { at: end, what: "the file ends in the middle of something".into() });
    }
    file.seek(SeekFrom::Start(at)).map_err(failed)?;
    file.read_exact(into).map_err(failed)
}

/// Writes seven bits per byte, the lowest first. The top bit says that more follow.
fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(0x80 | low_bits(value));
        value >>= 7;
    }
    out.push(low_bits(value));
}

fn low_bits(value: u64) -> u8 {
    u8::try_from(value & 0x7F).unwrap_or(0)
}

fn take_varint(text: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = text.split_first()?;
        *text = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn u32_of(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests;
