//! Reads the packets of a capture file or pipe.
//!
//! Holds       1. a packet is visited as soon as it is read, so that a live pipe can be followed;
//!             2. the buffer has at most [`MAX_BUFFER_BYTES`].
//! Start at    [`read_packets`].

use std::fmt;
use std::io::{self, Cursor, Read};
use std::ops::ControlFlow;

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, LegacyPcapReader, Linktype, PcapBlockOwned, PcapError, PcapNGReader};

const BUFFER_BYTES: usize = 256 * 1024;
/// A larger block is not that of a network packet.
const MAX_BUFFER_BYTES: usize = 16 * 1024 * 1024;
const PCAP_HEADER_BYTES: usize = 24;
/// First bytes of pcapng: the block type, which is the same in both byte orders.
const PCAPNG_MAGIC: [u8; 4] = [0x0A, 0x0D, 0x0D, 0x0A];
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

fn read_blocks(
    reader: &mut impl PcapReaderIterator,
    take: &mut dyn FnMut(PcapBlockOwned<'_>) -> ControlFlow<()>,
) -> Result<CaptureEnd, CaptureError> {
    let mut capacity = BUFFER_BYTES;
    loop {
        let is_full = match reader.next() {
            Ok((bytes, block)) => {
                if take(block).is_break() {
                    return Ok(CaptureEnd::Stopped);
                }
                reader.consume(bytes);
                continue;
            }
            Err(PcapError::Eof) => return Ok(CaptureEnd::Complete),
            Err(PcapError::UnexpectedEof) => return Ok(CaptureEnd::CutOff),
            Err(PcapError::Incomplete(_)) => false,
            Err(PcapError::BufferTooSmall) if capacity < MAX_BUFFER_BYTES => true,
            Err(_) => return Err(CaptureError::Malformed { packets: 0 }),
        };
        if is_full {
            capacity *= 2;
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
