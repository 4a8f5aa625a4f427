//! Units: the packets that messages travel in. A unit has a header and whole messages.
//!
//! Holds       1. a unit has at most [`crate::MAX_UNIT_BYTES`], so that it fits one Ethernet frame;
//!             2. the number of a unit is that of its first message, and messages are numbered
//!                from 1 without gaps.

use std::fmt;

use crate::fields::{Letter, MitchField};
use crate::messages::{MessageError, MitchMessage, stated_length};
use crate::packet_buffer::PacketBuffer;

pub const UNIT_HEADER_BYTES: usize = 8;
/// The venue has one group of instruments.
pub const MARKET_DATA_GROUP: Letter = Letter(b'P');

/// The header of a unit. A header without messages is a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitHeader {
    /// Length with the header.
    pub length: u16,
    pub message_count: u8,
    pub market_data_group: Letter,
    /// Number of the first message. A heartbeat has the number of the next message.
    pub sequence_number: u32,
}

impl UnitHeader {
    pub fn write(&self, out: &mut Vec<u8>) {
        self.length.write(out);
        self.message_count.write(out);
        self.market_data_group.write(out);
        self.sequence_number.write(out);
    }

    fn read(mut bytes: &[u8]) -> Option<UnitHeader> {
        Some(UnitHeader {
            length: u16::read(&mut bytes)?,
            message_count: u8::read(&mut bytes)?,
            market_data_group: Letter::read(&mut bytes)?,
            sequence_number: u32::read(&mut bytes)?,
        })
    }
}

/// Why a unit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitError {
    /// Fewer bytes than a header.
    Short { bytes: usize },
    /// The length is not that of the packet.
    Length { stated: u16, bytes: usize },
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnitError::Short { bytes } => {
                write!(f, "unit of {bytes} bytes: expected at least {UNIT_HEADER_BYTES}")
            }
            UnitError::Length { stated, bytes } => {
                write!(f, "unit of {bytes} bytes states a length of {stated}")
            }
        }
    }
}

impl std::error::Error for UnitError {}

/// A unit that was received.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    pub header: UnitHeader,
    messages: &'a [u8],
}

impl<'a> Unit<'a> {
    /// Reads a packet that contains one unit.
    ///
    /// # Errors
    ///
    /// Fails if the packet has no whole header or if its length is not that of the header.
    pub fn read(packet: &'a [u8]) -> Result<Unit<'a>, UnitError> {
        let header = UnitHeader::read(packet).ok_or(UnitError::Short { bytes: packet.len() })?;
        if usize::from(header.length) != packet.len() {
            return Err(UnitError::Length { stated: header.length, bytes: packet.len() });
        }
        Ok(Unit { header, messages: packet.get(UNIT_HEADER_BYTES..).unwrap_or_default() })
    }

    /// Messages of the unit, in order.
    pub fn messages(&self) -> UnitMessages<'a> {
        UnitMessages { rest: self.messages }
    }
}

/// Messages one after the other. Ends after the first one whose end cannot be found.
#[derive(Clone, Copy, Debug)]
pub struct UnitMessages<'a> {
    rest: &'a [u8],
}

impl<'a> UnitMessages<'a> {
    /// Reads messages without a unit header, as the encoder writes them.
    pub fn of(messages: &'a [u8]) -> Self {
        UnitMessages { rest: messages }
    }
}

impl Iterator for UnitMessages<'_> {
    type Item = Result<MitchMessage, MessageError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let item = MitchMessage::read(self.rest);
        let bytes = match item {
            Ok(_) | Err(MessageError::Type { .. }) => stated_length(self.rest),
            Err(_) => self.rest.len(),
        };
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        Some(item)
    }
}

/// Packs messages into units.
#[derive(Debug)]
pub struct UnitWriter {
    unit: PacketBuffer,
    /// Whether the headers state the numbers. Otherwise they state 0.
    is_numbered: bool,
}

impl Default for UnitWriter {
    fn default() -> Self {
        UnitWriter { unit: PacketBuffer::new(UNIT_HEADER_BYTES, 1), is_numbered: true }
    }
}

impl UnitWriter {
    /// Creates a writer for units that are not part of the feed: requests, answers and snapshots.
    pub fn unnumbered() -> Self {
        UnitWriter { is_numbered: false, ..UnitWriter::default() }
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        self.unit.next_number()
    }

    /// Adds one encoded message. Calls `full` with each unit that has no room for it.
    pub fn add(&mut self, message: &[u8], full: impl FnMut(u64, &[u8])) {
        if self.unit.message_count() == u16::from(u8::MAX) || !self.unit.has_room(message.len()) {
            self.finish(full);
        }
        self.unit.add(&[], message);
    }

    /// Calls `full` with the number of the first message and the bytes of the last unit, if it has
    /// a message.
    pub fn finish(&mut self, full: impl FnMut(u64, &[u8])) {
        if self.unit.message_count() > 0 {
            let header = self.header();
            self.unit.finish(header, full);
        }
    }

    /// Returns a unit without messages.
    pub fn heartbeat(&self) -> Vec<u8> {
        debug_assert_eq!(self.unit.message_count(), 0, "a heartbeat follows whole units");
        self.header()
    }

    fn header(&self) -> Vec<u8> {
        let header = UnitHeader {
            length: u16::try_from(self.unit.len()).unwrap_or(u16::MAX),
            // A unit is full at 255 messages.
            message_count: u8::try_from(self.unit.message_count()).unwrap_or(u8::MAX),
            market_data_group: MARKET_DATA_GROUP,
            sequence_number: if self.is_numbered { wire_number(self.unit.first_number()) } else { 0 },
        };
        let mut bytes = Vec::with_capacity(UNIT_HEADER_BYTES);
        header.write(&mut bytes);
        bytes
    }
}

/// Returns the number of a message as it is in a unit header: the lowest 32 bits.
#[expect(clippy::cast_possible_truncation, reason = "the header has 32 bits; readers count the rest")]
pub fn wire_number(number: u64) -> u32 {
    number as u32
}

/// Returns the message number nearest to `near` whose lowest 32 bits are `wire`.
pub fn full_number(wire: u32, near: u64) -> u64 {
    let ahead = wire.wrapping_sub(wire_number(near));
    match i32::try_from(ahead) {
        Ok(_) => near.saturating_add(u64::from(ahead)),
        Err(_) => near.saturating_sub(u64::from(ahead.wrapping_neg())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_32_bits_continues_after_an_overflow() {
        let round = 1 << 32;
        for (near, number) in [(1, 1), (1, 70_000), (70_000, 1), (round - 1, round + 5), (round + 5, round - 1)] {
            assert_eq!(full_number(wire_number(number), near), number, "near {near}");
        }
        assert_eq!(full_number(u32::MAX, 3), 0, "before the first message");
    }

    #[test]
    fn a_unit_that_is_not_numbered_states_zero() {
        let mut writer = UnitWriter::unnumbered();
        let mut numbers = Vec::new();
        for _ in 0..3 {
            writer.add(&[7, 0, b'T', 0, 0, 0, 0], |_, _| panic!("there is room"));
            writer.finish(|_, unit| numbers.push(Unit::read(unit).unwrap().header.sequence_number));
        }
        assert_eq!(numbers, [0, 0, 0]);
    }
}
