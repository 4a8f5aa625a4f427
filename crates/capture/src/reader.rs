//! Reads the packets of a capture file or pipe.
//!
//! Holds       1. a packet is visited as soon as it is read, so that a live pipe can be followed;
//!             2. the buffer has at most [`MAX_BUFFER_BYTES`];
//!             3. a file and a pipe with the same bytes have the same packets and the same end.
//! Start at    [`read_packets`].

use std::fmt;
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

const BUFFER_BYTES: usize = 256 * 1024;
/// A block of this length or more is not that of a network packet.
const MAX_BUFFER_BYTES: usize = 16 * 1024 * 1024;
const PCAP_HEADER_BYTES: usize = 24;
/// Bytes before each packet of pcap, and of its modified form.
const PACKET_HEADER_BYTES: usize = 16;
const MODIFIED_PACKET_HEADER_BYTES: usize = 24;
/// First bytes of pcapng: the block type, which is the same in both byte orders.
const PCAPNG_MAGIC: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
/// Byte order mark of a section of pcapng with big-endian numbers.
const BIG_ENDIAN_MARK: [u8; 4] = [0x1A, 0x2B, 0x3C, 0x4D];
/// Most bytes of the first block of pcapng, which describes the file.
const MAX_SECTION_HEADER_BYTES: usize = 64 * 1024;
/// Most interfaces of a capture.
const MAX_INTERFACES: usize = 65_536;
const MICROSECONDS: u64 = 1_000_000;

/// Why a capture cannot be read.
#[derive(Debug)]
pub enum CaptureError {
    Empty,
    /// The first bytes are neither pcap nor pcapng.
    NotACapture,
    /// A block after `packets` packets is not valid.
    Malformed {
        packets: u64,
    },
    Read(io::Error),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::Empty => f.write_str("the capture is empty"),
            CaptureError::NotACapture => f.write_str("the input is neither pcap nor pcapng"),
            CaptureError::Malformed { packets } => write!(f, "the capture is malformed after packet {packets}"),
            CaptureError::Read(error) => write!(f, "the capture cannot be read: {error}"),
        }
    }
}

impl std::error::Error for CaptureError {}

/// One packet of a capture.
pub(crate) struct CapturedPacket<'a> {
    /// Nanoseconds since 1970.
    pub at_ns: u64,
    pub link_type: Linktype,
    pub bytes: &'a [u8],
    /// Whether the capture has only the first bytes of the packet.
    pub is_cut: bool,
}

/// How a capture ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureEnd {
    Complete,
    /// The last block is not whole.
    CutOff,
    /// The visitor has stopped.
    Stopped,
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: Linktype,
    /// Units of a time stamp in one second.
    resolution: u64,
    offset_s: i64,
    snap_length: u32,
}

impl Interface {
    fn at_ns(self, units: u64) -> u64 {
        let ns = u128::from(units) * 1_000_000_000 / u128::from(self.resolution.max(1));
        let offset = i128::from(self.offset_s) * 1_000_000_000;
        i128::try_from(ns).ok().and_then(|ns| u64::try_from(ns + offset).ok()).unwrap_or(0)
    }
}

/// Visits all packets.
///
/// # Errors
///
/// Fails if the input is not a capture, or if a block is malformed.
pub(crate) fn read_packets(
    mut input: impl Read,
    visit: &mut dyn FnMut(&CapturedPacket<'_>) -> ControlFlow<()>,
) -> Result<CaptureEnd, CaptureError> {
    let header = read_header(&mut input)?;
    let is_pcapng = header.starts_with(&PCAPNG_MAGIC);
    let input = Cursor::new(header).chain(input);
    let mut packets = 0;
    let mut count = |packet: &CapturedPacket<'_>| {
        packets += 1;
        visit(packet)
    };
    let read = if is_pcapng {
        PcapNGReader::new(BUFFER_BYTES, input).map_err(|_| CaptureError::NotACapture).and_then(|mut reader| {
            let mut interfaces = Vec::new();
            read_blocks(&mut reader, &mut |block| pcapng_block(block, &mut interfaces, &mut count))
        })
    } else {
        LegacyPcapReader::new(BUFFER_BYTES, input).map_err(|_| CaptureError::NotACapture).and_then(|mut reader| {
            let mut interface = None;
            read_blocks(&mut reader, &mut |block| pcap_block(block, &mut interface, &mut count))
        })
    };
    match read {
        Err(CaptureError::Malformed { .. }) => Err(CaptureError::Malformed { packets }),
        read => read,
    }
}

/// Reads the header of pcap or the first block of pcapng. The parsers need it in one read.
fn read_header(input: &mut impl Read) -> Result<Vec<u8>, CaptureError> {
    let mut header = vec![0; PCAP_HEADER_BYTES];
    let mut length = fill(input, &mut header)?;
    if length == 0 {
        return Err(CaptureError::Empty);
    }
    if let [a, b, c, d, e, f, g, h, order, ..] = header[..]
        && [a, b, c, d] == PCAPNG_MAGIC
    {
        let bytes = [e, f, g, h];
        let stated = if order == 0x1A { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        let stated = usize::try_from(stated).unwrap_or(usize::MAX);
        if !(PCAP_HEADER_BYTES..=MAX_SECTION_HEADER_BYTES).contains(&stated) {
            return Err(CaptureError::NotACapture);
        }
        header.resize(stated, 0);
        length += fill(input, &mut header[length..])?;
    }
    header.truncate(length);
    Ok(header)
}

/// Reads until `buffer` is full or the input ends. Returns the number of bytes.
fn fill(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize, CaptureError> {
    let mut length = 0;
    while length < buffer.len() {
        match input.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CaptureError::Read(error)),
        }
    }
    Ok(length)
}

/// Where a block states its length.
#[derive(Clone, Copy)]
enum BlockFormat {
    /// A packet states its length without this header.
    Pcap {
        header_bytes: usize,
        is_big_endian: bool,
    },
    Pcapng {
        is_big_endian: bool,
    },
}

impl BlockFormat {
    /// Takes the format from the header of a file or of a section.
    fn learn(&mut self, block: &PcapBlockOwned<'_>) {
        match block {
            // The modified form always has little-endian packet headers.
            PcapBlockOwned::LegacyHeader(header) if header.is_modified_format() => {
                *self = BlockFormat::Pcap { header_bytes: MODIFIED_PACKET_HEADER_BYTES, is_big_endian: false };
            }
            PcapBlockOwned::LegacyHeader(header) => {
                let is_big_endian = header.is_bigendian();
                *self = BlockFormat::Pcap { header_bytes: PACKET_HEADER_BYTES, is_big_endian };
            }
            PcapBlockOwned::NG(Block::SectionHeader(section)) => {
                *self = BlockFormat::Pcapng { is_big_endian: section.big_endian() };
            }
            _ => {}
        }
    }

    /// Returns the length that the block at the start of `data` states. `None` if `data` does not
    /// have this field yet.
    fn stated_length(self, data: &[u8]) -> Option<usize> {
        let (field, header_bytes, is_big_endian) = match self {
            BlockFormat::Pcap { header_bytes, is_big_endian } => (data.get(8..12)?, header_bytes, is_big_endian),
            // A new section states its own byte order.
            BlockFormat::Pcapng { .. } if data.starts_with(&PCAPNG_MAGIC) => {
                (data.get(4..8)?, 0, *data.get(8..12)? == BIG_ENDIAN_MARK)
            }
            BlockFormat::Pcapng { is_big_endian } => (data.get(4..8)?, 0, is_big_endian),
        };
        let field = field.try_into().ok()?;
        let stated = if is_big_endian { u32::from_be_bytes(field) } else { u32::from_le_bytes(field) };
        Some(usize::try_from(stated).unwrap_or(usize::MAX).saturating_add(header_bytes))
    }
}

fn read_blocks(
    reader: &mut impl PcapReaderIterator,
    take: &mut dyn FnMut(PcapBlockOwned<'_>) -> ControlFlow<()>,
) -> Result<CaptureEnd, CaptureError> {
    const MALFORMED: CaptureError = CaptureError::Malformed { packets: 0 };
    let mut capacity = BUFFER_BYTES;
    let mut format = BlockFormat::Pcapng { is_big_endian: false };
    loop {
        let has_ended = match reader.next() {
            Ok((bytes, block)) => {
                format.learn(&block);
                if take(block).is_break() {
                    return Ok(CaptureEnd::Stopped);
                }
                reader.consume(bytes);
                continue;
            }
            Err(PcapError::Eof) => return Ok(CaptureEnd::Complete),
            Err(PcapError::UnexpectedEof) => true,
            Err(PcapError::Incomplete(_) | PcapError::BufferTooSmall) => false,
            Err(_) => return Err(MALFORMED),
        };
        // How much the parser asks for depends on how the input was cut, but the stated length does
        // not. A block that is whole and still asks for more is malformed too.
        let data = reader.data();
        let stated = format.stated_length(data).unwrap_or(0);
        if stated >= MAX_BUFFER_BYTES || (stated > 0 && stated <= data.len()) {
            return Err(MALFORMED);
        }
        if has_ended {
            return Ok(CaptureEnd::CutOff);
        }
        if stated >= capacity {
            capacity = (stated + 1).next_power_of_two();
            reader.grow(capacity);
        }
        // The parser hides the cause of a failed read.
        reader.refill().map_err(|_| CaptureError::Read(io::Error::other("the input failed")))?;
    }
}

fn pcap_block(
    block: PcapBlockOwned<'_>,
    interface: &mut Option<Interface>,
    visit: &mut dyn FnMut(&CapturedPacket<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let resolution = if header.is_nanosecond_precision() { 1_000_000_000 } else { MICROSECONDS };
            let (link_type, snap_length) = (header.network, header.snaplen);
            *interface = Some(Interface { link_type, resolution, offset_s: 0, snap_length });
            ControlFlow::Continue(())
        }
        PcapBlockOwned::Legacy(packet) => {
            let Some(interface) = interface else { return ControlFlow::Continue(()) };
            let units = u64::from(packet.ts_sec) * interface.resolution + u64::from(packet.ts_usec);
            visit(&CapturedPacket {
                at_ns: interface.at_ns(units),
                link_type: interface.link_type,
                bytes: packet.data,
                is_cut: packet.caplen < packet.origlen,
            })
        }
        PcapBlockOwned::NG(_) => ControlFlow::Continue(()),
    }
}

fn pcapng_block(
    block: PcapBlockOwned<'_>,
    interfaces: &mut Vec<Interface>,
    visit: &mut dyn FnMut(&CapturedPacket<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let PcapBlockOwned::NG(block) = block else { return ControlFlow::Continue(()) };
    match block {
        // Interfaces are numbered anew in each section.
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(found) if interfaces.len() < MAX_INTERFACES => interfaces.push(Interface {
            link_type: found.linktype,
            resolution: found.ts_resolution().unwrap_or(MICROSECONDS),
            offset_s: found.ts_offset(),
            snap_length: found.snaplen,
        }),
        Block::EnhancedPacket(packet) => {
            let at = usize::try_from(packet.if_id).ok();
            if let Some(interface) = at.and_then(|at| interfaces.get(at)) {
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                return visit(&CapturedPacket {
                    at_ns: interface.at_ns(units),
                    link_type: interface.link_type,
                    bytes: packet.packet_data(),
                    is_cut: packet.caplen < packet.origlen,
                });
            }
        }
        Block::SimplePacket(packet) => {
            if let Some(interface) = interfaces.first() {
                let is_cut = interface.snap_length > 0 && packet.origlen > interface.snap_length;
                return visit(&CapturedPacket {
                    at_ns: 0,
                    link_type: interface.link_type,
                    bytes: packet.packet_data(),
                    is_cut,
                });
            }
        }
        _ => {}
    }
    ControlFlow::Continue(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe that gives one byte at a time.
    struct Bytewise<'a>(&'a [u8]);

    impl Read for Bytewise<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = buffer.len().min(1);
            self.0.read(&mut buffer[..bytes])
        }
    }

    /// Returns the lengths of the packets and the end, which are the same for a file and a pipe.
    fn read(capture: &[u8]) -> (Vec<usize>, String) {
        let read_from = |input: &mut dyn Read| {
            let mut lengths = Vec::new();
            let end = read_packets(input, &mut |packet| {
                lengths.push(packet.bytes.len());
                ControlFlow::Continue(())
            });
            (lengths, format!("{end:?}"))
        };
        let mut file = capture;
        let of_file = read_from(&mut file);
        assert_eq!(of_file, read_from(&mut Bytewise(capture)), "a pipe gives what a file gives");
        of_file
    }

    fn words(words: &[u32], is_big_endian: bool) -> Vec<u8> {
        words.iter().flat_map(|word| if is_big_endian { word.to_be_bytes() } else { word.to_le_bytes() }).collect()
    }

    /// Returns a capture with two packets. The first has its eight bytes. The second states that it
    /// has `length` bytes, and the capture ends after four of them.
    fn capture(is_pcapng: bool, is_big_endian: bool, length: u32) -> Vec<u8> {
        let numbers = if is_pcapng {
            // The section, an interface, and simple packets.
            let start = [0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28, 1, 20, 101, 0, 20];
            [&start[..], &[3, 24, 8, 1, 2, 24], &[3, length, 8, 1]].concat()
        } else {
            [&[0xA1B2_C3D4, 0x0002_0004, 0, 0, 262_144, 101][..], &[1, 2, 8, 8, 1, 2], &[1, 2, length, length, 1]]
                .concat()
        };
        words(&numbers, is_big_endian)
    }

    #[test]
    fn a_block_that_states_too_much_is_malformed_and_a_short_one_is_cut_off() {
        let malformed = "Err(Malformed { packets: 1 })";
        for (is_pcapng, is_big_endian) in [(false, false), (false, true), (true, false), (true, true)] {
            for (length, end) in [
                (24, "Ok(CutOff)"),
                (300_000, "Ok(CutOff)"),
                (16 * 1024 * 1024 - 100, "Ok(CutOff)"),
                (16 * 1024 * 1024, malformed),
                (u32::MAX, malformed),
            ] {
                let found = read(&capture(is_pcapng, is_big_endian, length));
                assert_eq!(found, (vec![8], end.into()), "pcapng {is_pcapng}, big-endian {is_big_endian}, {length}");
            }
        }
    }

    #[test]
    fn a_block_larger_than_the_buffer_is_read() {
        for (is_pcapng, length, packet) in [(false, 600_000, 600_000), (true, 600_016, 600_000)] {
            let mut file = capture(is_pcapng, false, length);
            if is_pcapng {
                let at = file.len() - 8;
                file[at..at + 4].copy_from_slice(&600_000_u32.to_le_bytes());
            }
            file.resize(file.len() + 600_000 - 4, 7);
            if is_pcapng {
                file.extend(length.to_le_bytes());
            }
            assert_eq!(read(&file), (vec![8, packet], "Ok(Complete)".into()), "pcapng {is_pcapng}");
        }
    }
}
