//! Finds our messages in the packets of a capture.
//!
//! Holds       1. a datagram is ours if all of it is one valid unit or packet of MoldUDP64;
//!             2. a stream is ours from the first segment that begins with a valid header. After a
//!                gap or a malformed message the decoder looks for the next such segment.
//! Start at    [`decode`].

use std::collections::HashMap;
use std::io::Read;
use std::net::SocketAddr;
use std::ops::ControlFlow;

use pitwire_order_feed::itch::ItchMessage;
use pitwire_order_feed::{
    MARKET_DATA_GROUP, MAX_UNIT_BYTES, MessageError, MoldKind, MoldPacket, UNIT_HEADER_BYTES, Unit,
};
use pitwire_sbe_gateway::{FRAME_HEADER_BYTES, SbeMessage, frame_length};
use serde_json::{Map, Value};

use crate::message::{CapturedMessage, WireProtocol, feed_fields, sbe_fields};
use crate::packets::{OpenedPacket, PacketContent, SkipReason, open};
use crate::reader::{CaptureEnd, CaptureError, read_packets};
use crate::streams::{StreamEvent, TcpStream};

/// Most directions of TCP connections.
const MAX_STREAMS: usize = 65_536;
/// Most orders and instruments whose names are remembered.
const MAX_ORDERS: usize = 10_000_000;
const MAX_INSTRUMENTS: usize = 65_536;
/// Longest frame of binary order entry.
const MAX_FRAME_BYTES: usize = 1024 * 1024;

/// Counts of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    pub packets: u64,
    pub messages: u64,
    /// Packets with other traffic.
    pub foreign: u64,
    /// Packets of which the capture has only the first bytes.
    pub cut: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// Messages that begin as ours and are not valid.
    pub malformed: u64,
    /// TCP segments whose bytes were there before.
    pub repeated_segments: u64,
    /// Gaps in our TCP streams, and their bytes.
    pub gaps: u64,
    pub missing_bytes: u64,
    /// Whether the capture ends within a packet.
    pub is_cut_off: bool,
}

/// Visits the messages of a capture in the order of their packets.
///
/// # Errors
///
/// Fails if the input is not a capture, or if a block is malformed. Messages before that block have
/// been visited.
pub fn decode(
    input: impl Read,
    visit: &mut dyn FnMut(&CapturedMessage) -> ControlFlow<()>,
) -> (CaptureCounts, Result<(), CaptureError>) {
    let mut decoder = Decoder { counts: CaptureCounts::default(), names: Names::default(), stops: false, visit };
    let mut streams = HashMap::new();
    let read = read_packets(input, &mut |packet| {
        decoder.counts.packets += 1;
        match open(packet) {
            Ok(opened) => decoder.take(packet.at_ns, &opened, &mut streams),
            Err(SkipReason::Foreign) => decoder.counts.foreign += 1,
            Err(SkipReason::Fragment) => decoder.counts.fragments += 1,
            Err(SkipReason::Cut) => decoder.counts.cut += 1,
        }
        if decoder.stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut rest: Vec<_> = streams.into_iter().collect();
    rest.sort_unstable_by_key(|(ends, _)| *ends);
    for ((source, destination), mut stream) in rest {
        let packet = PacketFacts { at_ns: stream.newest_ns, source, destination };
        let CapturedStream { tcp, content, .. } = &mut stream;
        tcp.finish(&mut |event| decoder.take_event(packet, content, &event));
    }
    decoder.counts.is_cut_off = matches!(read, Ok(CaptureEnd::CutOff));
    (decoder.counts, read.map(|_| ()))
}

#[derive(Clone, Copy)]
struct PacketFacts {
    at_ns: u64,
    source: SocketAddr,
    destination: SocketAddr,
}

type StreamEnds = (SocketAddr, SocketAddr);

#[derive(Default)]
struct CapturedStream {
    tcp: TcpStream,
    content: StreamContent,
    newest_ns: u64,
}

/// Bytes of a stream that are not a whole message yet.
#[derive(Default)]
struct StreamContent {
    /// `None` until a segment begins with a valid header.
    protocol: Option<WireProtocol>,
    bytes: Vec<u8>,
    /// Whether a message of ours was found.
    is_ours: bool,
}

/// Instruments of orders, and names of instruments, as earlier messages state them.
#[derive(Default)]
struct Names {
    orders: HashMap<(WireProtocol, u64), u32>,
    instruments: HashMap<u32, String>,
}

impl Names {
    /// Learns from a message. Returns its instrument.
    fn learn(&mut self, protocol: WireProtocol, fields: &Map<String, Value>) -> Option<u32> {
        let number = |name| fields.get(name).and_then(Value::as_u64);
        let order = number("order_id");
        // A System Event has the locate 0 and no instrument.
        let locate = number("stock_locate").filter(|_| !fields.contains_key("event_code"));
        let stated = number("instrument_id").or(locate).and_then(|id| u32::try_from(id).ok());
        let Some(instrument) = stated else {
            return order.and_then(|order| self.orders.get(&(protocol, order)).copied());
        };
        if let Some(order) = order
            && self.orders.len() < MAX_ORDERS
        {
            self.orders.insert((protocol, order), instrument);
        }
        // ITCH cuts names, so a name of MITCH stays.
        let symbol = fields.get("symbol").and_then(Value::as_str);
        let stock = fields.get("stock").filter(|_| !self.instruments.contains_key(&instrument)).and_then(Value::as_str);
        if let Some(name) = symbol.or(stock)
            && self.instruments.len() < MAX_INSTRUMENTS
        {
            self.instruments.insert(instrument, name.to_owned());
        }
        Some(instrument)
    }

    /// All protocols use the venue's ids of instruments.
    fn name(&self, instrument: u32) -> Option<String> {
        self.instruments.get(&instrument).cloned()
    }
}

struct Decoder<'a> {
    counts: CaptureCounts,
    names: Names,
    stops: bool,
    visit: &'a mut dyn FnMut(&CapturedMessage) -> ControlFlow<()>,
}

impl Decoder<'_> {
    fn take(&mut self, at_ns: u64, opened: &OpenedPacket<'_>, streams: &mut HashMap<StreamEnds, CapturedStream>) {
        let OpenedPacket { source, destination, .. } = *opened;
        let packet = PacketFacts { at_ns, source, destination };
        self.counts.cut += u64::from(opened.is_cut);
        match opened.content {
            PacketContent::Datagram(_) if opened.is_cut => {}
            PacketContent::Datagram(bytes) => self.take_datagram(packet, bytes),
            PacketContent::Segment { sequence, is_first, bytes } => {
                let ends = (source, destination);
                if !streams.contains_key(&ends) && streams.len() >= MAX_STREAMS {
                    self.counts.foreign += 1;
                    return;
                }
                let CapturedStream { tcp, content, newest_ns } = streams.entry(ends).or_default();
                *newest_ns = at_ns;
                let is_repeated =
                    tcp.take(sequence, is_first, bytes, &mut |event| self.take_event(packet, content, &event));
                self.counts.repeated_segments += u64::from(is_repeated);
                if is_first && !is_repeated {
                    *content = StreamContent::default();
                }
                if !content.is_ours && !bytes.is_empty() && content.bytes.is_empty() {
                    self.counts.foreign += 1;
                }
            }
        }
    }

    fn take_datagram(&mut self, packet: PacketFacts, bytes: &[u8]) {
        match Unit::read(bytes) {
            Ok(unit) if unit.header.market_data_group == MARKET_DATA_GROUP => self.take_unit(packet, &unit),
            _ => match MoldPacket::read(bytes) {
                Some(mold) => self.take_mold_packet(packet, &mold),
                None => self.counts.foreign += 1,
            },
        }
    }

    fn take_mold_packet(&mut self, packet: PacketFacts, mold: &MoldPacket<'_>) {
        let (protocol, first) = (WireProtocol::Itch, mold.header.sequence_number);
        let name = match mold.kind {
            MoldKind::Messages => None,
            MoldKind::Heartbeat => Some("Heartbeat"),
            MoldKind::EndOfSession => Some("End of Session"),
            MoldKind::Request => Some("Request"),
        };
        if let Some(name) = name {
            let count = [("count".to_owned(), Value::from(mold.header.message_count))];
            let fields = if mold.kind == MoldKind::Request { Map::from_iter(count) } else { Map::new() };
            return self.send(packet, protocol, Some(first), (String::new(), name), fields);
        }
        for (message, at) in mold.messages().zip(0..) {
            // Any host can send a packet with the highest number.
            let number = first.saturating_add(at);
            match ItchMessage::decode(message) {
                Ok(message) => {
                    let kind = (type_text(message.message_type()), message.name());
                    self.send(packet, protocol, Some(number), kind, feed_fields(message.fields()));
                }
                Err(MessageError::Type { message_type, .. }) => {
                    self.send(packet, protocol, Some(number), (type_text(message_type), "Unknown"), Map::new());
                }
                Err(_) => self.counts.malformed += 1,
            }
        }
    }

    fn take_unit(&mut self, packet: PacketFacts, unit: &Unit<'_>) {
        let protocol = WireProtocol::Mitch;
        let first = Some(u64::from(unit.header.sequence_number)).filter(|number| *number > 0);
        if unit.header.message_count == 0 {
            return self.send(packet, protocol, first, (String::new(), "Heartbeat"), Map::new());
        }
        for (message, number) in unit.messages().zip(0..) {
            let number = first.map(|first| first + number);
            match message {
                Ok(message) => {
                    let kind = (type_text(message.message_type()), message.name());
                    self.send(packet, protocol, number, kind, feed_fields(message.fields()));
                }
                Err(MessageError::Type { message_type, .. }) => {
                    self.send(packet, protocol, number, (type_text(message_type), "Unknown"), Map::new());
                }
                Err(_) => self.counts.malformed += 1,
            }
        }
    }

    fn send(
        &mut self,
        packet: PacketFacts,
        protocol: WireProtocol,
        number: Option<u64>,
        (message_type, name): (String, &'static str),
        fields: Map<String, Value>,
    ) {
        if self.stops {
            return;
        }
        self.counts.messages += 1;
        let instrument_id = self.names.learn(protocol, &fields);
        let PacketFacts { at_ns, source, destination } = packet;
        let message = CapturedMessage {
            at_ns,
            source,
            destination,
            protocol,
            number,
            message_type,
            name,
            instrument_id,
            instrument_name: instrument_id.and_then(|id| self.names.name(id)),
            fields,
        };
        self.stops = (self.visit)(&message).is_break();
    }

    fn take_event(&mut self, packet: PacketFacts, content: &mut StreamContent, event: &StreamEvent<'_>) {
        match event {
            StreamEvent::Gap(missing) => {
                content.bytes.clear();
                let Some(protocol) = content.protocol.take() else { return };
                self.counts.gaps += 1;
                self.counts.missing_bytes += missing;
                let fields = Map::from_iter([("missing_bytes".to_owned(), Value::from(*missing))]);
                let messages = self.counts.messages;
                self.send(packet, protocol, None, (String::new(), "TCP Gap"), fields);
                // A gap does not count as a message.
                self.counts.messages = messages;
            }
            StreamEvent::Bytes(bytes) => {
                content.bytes.extend_from_slice(bytes);
                let taken = self.take_messages(packet, content);
                content.bytes.drain(..taken.min(content.bytes.len()));
            }
        }
    }

    /// Decodes the whole messages of a stream. Returns the number of bytes that are done with.
    fn take_messages(&mut self, packet: PacketFacts, content: &mut StreamContent) -> usize {
        let mut done = 0;
        loop {
            let rest = content.bytes.get(done..).unwrap_or_default();
            let Some(header) = rest.first_chunk::<UNIT_HEADER_BYTES>() else { return done };
            let Some((protocol, length)) = message_length(*header) else {
                self.counts.malformed += u64::from(content.protocol.take().is_some());
                return content.bytes.len();
            };
            content.protocol = Some(protocol);
            let Some(message) = rest.get(..length) else { return done };
            done += length;
            content.is_ours = true;
            match protocol {
                // ITCH has no stream.
                WireProtocol::Mitch | WireProtocol::Itch => match Unit::read(message) {
                    Ok(unit) => self.take_unit(packet, &unit),
                    Err(_) => self.counts.malformed += 1,
                },
                WireProtocol::Sbe => match SbeMessage::decode(message) {
                    Ok(message) => {
                        let (kind, fields) =
                            ((message.template_id().to_string(), message.name()), sbe_fields(&message));
                        let number = fields.get("sequence").and_then(Value::as_u64);
                        self.send(packet, protocol, number, kind, fields);
                    }
                    Err(_) => self.counts.malformed += 1,
                },
            }
        }
    }
}

/// Returns the protocol of a stream and the length of the message that begins with these bytes.
fn message_length(header: [u8; UNIT_HEADER_BYTES]) -> Option<(WireProtocol, usize)> {
    let frame_header: [u8; FRAME_HEADER_BYTES] = *header.first_chunk()?;
    if let Ok(length) = frame_length(frame_header, MAX_FRAME_BYTES) {
        return Some((WireProtocol::Sbe, length));
    }
    let [low, high, _, group, ..] = header;
    let length = usize::from(u16::from_le_bytes([low, high]));
    let is_unit = (UNIT_HEADER_BYTES..=MAX_UNIT_BYTES).contains(&length) && group == MARKET_DATA_GROUP.0;
    is_unit.then_some((WireProtocol::Mitch, length))
}

fn type_text(message_type: u8) -> String {
    if message_type.is_ascii_graphic() { char::from(message_type).to_string() } else { format!("{message_type:#04x}") }
}
