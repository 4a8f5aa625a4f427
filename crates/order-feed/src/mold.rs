//! The packets of MoldUDP64, which carry ITCH messages. All numbers are big endian.
//!
//! A packet has the session, the number of its first message and a count; then each message with
//! its length.
//!
//! Start at    [`MoldWriter`] and [`MoldPacket::read`].

use crate::packet_buffer::PacketBuffer;

pub const MOLD_HEADER_BYTES: usize = 20;
pub const MOLD_SESSION_BYTES: usize = 10;
/// Count of a packet that ends the session.
const END_OF_SESSION: u16 = u16::MAX;
const LENGTH_BYTES: usize = 2;

/// The header of a packet. A request for messages has the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoldHeader {
    pub session: [u8; MOLD_SESSION_BYTES],
    /// Number of the first message. Without messages, that of the next one.
    pub sequence_number: u64,
    pub message_count: u16,
}

impl MoldHeader {
    pub fn read(bytes: &[u8]) -> Option<MoldHeader> {
        let (session, rest) = bytes.split_first_chunk()?;
        let (number, rest) = rest.split_first_chunk()?;
        let (count, _) = rest.split_first_chunk()?;
        Some(MoldHeader {
            session: *session,
            sequence_number: u64::from_be_bytes(*number),
            message_count: u16::from_be_bytes(*count),
        })
    }

    /// Returns the header, which is also a whole request.
    pub fn bytes(&self) -> Vec<u8> {
        [&self.session[..], &self.sequence_number.to_be_bytes(), &self.message_count.to_be_bytes()].concat()
    }
}

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoldKind {
    Messages,
    Heartbeat,
    EndOfSession,
    /// A request of a reader for messages.
    Request,
}

/// A packet that was received.
#[derive(Clone, Copy, Debug)]
pub struct MoldPacket<'a> {
    pub header: MoldHeader,
    pub kind: MoldKind,
    blocks: &'a [u8],
}

impl<'a> MoldPacket<'a> {
    /// Reads a packet. `None` if its messages do not have the stated count and lengths, or if the
    /// session is not printable.
    pub fn read(packet: &'a [u8]) -> Option<MoldPacket<'a>> {
        let header = MoldHeader::read(packet)?;
        let blocks = packet.get(MOLD_HEADER_BYTES..)?;
        let kind = match header.message_count {
            0 if blocks.is_empty() => MoldKind::Heartbeat,
            END_OF_SESSION if blocks.is_empty() => MoldKind::EndOfSession,
            _ if blocks.is_empty() => MoldKind::Request,
            _ => MoldKind::Messages,
        };
        let packet = MoldPacket { header, kind, blocks };
        let has_count = kind != MoldKind::Messages || packet.block_lengths() == Some(header.message_count.into());
        (has_count && header.session.iter().all(|byte| (b' '..=b'~').contains(byte))).then_some(packet)
    }

    /// Returns the number of blocks. `None` if the last one is not whole.
    fn block_lengths(&self) -> Option<usize> {
        let (mut rest, mut count) = (self.blocks, 0);
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk()?;
            rest = after.get(usize::from(u16::from_be_bytes(*length))..)?;
            count += 1;
        }
        Some(count)
    }

    /// Messages of the packet, in order.
    pub fn messages(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.blocks;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first_chunk()?;
            let (message, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            rest = after;
            Some(message)
        })
    }

    /// Makes a packet with the messages from `first` on, at most `count`. `None` if this packet
    /// does not have `first`.
    pub fn part(&self, first: u64, count: u16) -> Option<Vec<u8>> {
        let skipped = first.checked_sub(self.header.sequence_number).and_then(|n| usize::try_from(n).ok())?;
        // A forged packet may have the highest numbers.
        first.checked_add(count.into())?;
        let mut writer = MoldWriter::starting_at(self.header.session, first);
        let mut packet = None;
        for message in self.messages().skip(skipped).take(usize::from(count)) {
            writer.add(message, |_, _| {});
        }
        writer.finish(|_, bytes| packet = Some(bytes.to_vec()));
        packet
    }
}

/// Packs messages into packets.
#[derive(Debug)]
pub struct MoldWriter {
    session: [u8; MOLD_SESSION_BYTES],
    packet: PacketBuffer,
}

impl MoldWriter {
    pub fn new(session: [u8; MOLD_SESSION_BYTES]) -> MoldWriter {
        MoldWriter::starting_at(session, 1)
    }

    fn starting_at(session: [u8; MOLD_SESSION_BYTES], next: u64) -> MoldWriter {
        MoldWriter { session, packet: PacketBuffer::new(MOLD_HEADER_BYTES, next) }
    }

    pub fn session(&self) -> [u8; MOLD_SESSION_BYTES] {
        self.session
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        self.packet.next_number()
    }

    /// Adds one message. Calls `full` with each packet that has no room for it.
    pub fn add(&mut self, message: &[u8], full: impl FnMut(u64, &[u8])) {
        if !self.packet.has_room(LENGTH_BYTES + message.len()) {
            self.finish(full);
        }
        // Every message of the table has less than 60 bytes.
        self.packet.add(&u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes(), message);
    }

    /// Ends the packet. Calls `full` with it if it has a message.
    pub fn finish(&mut self, full: impl FnMut(u64, &[u8])) {
        let message_count = self.packet.message_count();
        if message_count > 0 {
            let header = MoldHeader { sequence_number: self.packet.first_number(), ..self.header(message_count) };
            self.packet.finish(header.bytes(), full);
        }
    }

    /// Returns a packet without messages.
    pub fn heartbeat(&self) -> Vec<u8> {
        self.header(0).bytes()
    }

    /// Returns the packet that ends the session.
    pub fn end_of_session(&self) -> Vec<u8> {
        self.header(END_OF_SESSION).bytes()
    }

    /// Returns the header of a packet without messages.
    fn header(&self, message_count: u16) -> MoldHeader {
        MoldHeader { session: self.session, sequence_number: self.next_number(), message_count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet_buffer::MAX_UNIT_BYTES;

    const SESSION: [u8; 10] = *b"0000000007";

    #[test]
    fn packets_have_the_bytes_of_the_specification() {
        let mut writer = MoldWriter::new(SESSION);
        writer.add(b"ab", |_, _| panic!("there is room"));
        writer.add(b"c", |_, _| panic!("there is room"));
        let mut packets = Vec::new();
        writer.finish(|first, packet| packets.push((first, packet.to_vec())));
        let expected = b"0000000007\0\0\0\0\0\0\0\x01\0\x02\0\x02ab\0\x01c".to_vec();
        assert_eq!(packets, [(1, expected.clone())]);
        assert_eq!(writer.heartbeat(), b"0000000007\0\0\0\0\0\0\0\x03\0\0");
        assert_eq!(writer.end_of_session(), b"0000000007\0\0\0\0\0\0\0\x03\xff\xff");
        let packet = MoldPacket::read(&expected).unwrap();
        assert_eq!(packet.messages().collect::<Vec<_>>(), [&b"ab"[..], b"c"]);
        assert_eq!(packet.part(2, 9), Some(b"0000000007\0\0\0\0\0\0\0\x02\0\x01\0\x01c".to_vec()));
        assert_eq!(packet.part(1, 1), Some(b"0000000007\0\0\0\0\0\0\0\x01\0\x01\0\x02ab".to_vec()));
        assert_eq!((packet.part(3, 1), packet.part(0, 1)), (None, None));
        for cut in 0..expected.len() {
            assert!(MoldPacket::read(&expected[..cut]).is_none_or(|packet| packet.kind == MoldKind::Request), "{cut}");
        }
    }

    #[test]
    fn a_full_packet_fits_one_frame() {
        let (mut writer, mut packets) = (MoldWriter::new(SESSION), Vec::new());
        for _ in 0..100 {
            writer.add(&[7; 50], |first, packet| packets.push((first, packet.len())));
        }
        assert!(packets.iter().all(|(_, bytes)| *bytes <= MAX_UNIT_BYTES), "{packets:?}");
        let firsts: Vec<u64> = packets.iter().map(|(first, _)| *first).collect();
        assert_eq!(firsts, [1, 27, 53]);
    }
}
