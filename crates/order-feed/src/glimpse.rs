//! The packets of GLIMPSE 5.0, which carry a snapshot of ITCH over TCP: messages of ITCH in packets
//! of SoupBinTCP. All numbers are big endian, or decimal digits.
//!
//! A packet has its length, its type and its content. The client sends a login; the venue answers
//! with its session, the messages of all books, and the number at which the feed continues.
//!
//! Start at    [`GlimpsePacket`] and [`GlimpseLogin`].

use std::fmt;

use crate::itch::ItchMessage;
use crate::messages::MessageError;
use crate::mold::MOLD_SESSION_BYTES;

/// Length, which includes the type, and type of a packet.
pub const SOUP_HEADER_BYTES: usize = 3;
/// Bytes of a number in decimal digits, with spaces before it.
const NUMBER_BYTES: usize = 20;
/// Username and password of a login.
const CREDENTIALS_BYTES: usize = 16;
const LOGIN_BYTES: usize = CREDENTIALS_BYTES + MOLD_SESSION_BYTES + NUMBER_BYTES;
const BLANK_SESSION: [u8; MOLD_SESSION_BYTES] = [b' '; MOLD_SESSION_BYTES];

const LOGIN_REQUEST: u8 = b'L';
const LOGIN_ACCEPTED: u8 = b'A';
const LOGIN_REJECTED: u8 = b'J';
const SEQUENCED_DATA: u8 = b'S';
const END_OF_SESSION: u8 = b'Z';
/// Type of the message that ends a snapshot.
const SNAPSHOT: u8 = b'G';

/// Reason of a rejected login: the session is not available.
pub const SESSION_NOT_AVAILABLE: u8 = b'S';

/// Why a packet is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlimpseError {
    /// The content does not have the length of its type.
    Length { packet_type: u8, bytes: usize },
    /// A field that is not a number from 1.
    Number,
    /// A message of ITCH is not valid.
    Message(MessageError),
}

impl fmt::Display for GlimpseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GlimpseError::Length { packet_type, bytes } => {
                write!(f, "packet {:?} has a content of {bytes} bytes", char::from(*packet_type))
            }
            GlimpseError::Number => f.write_str("a packet has no valid sequence number"),
            GlimpseError::Message(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GlimpseError {}

/// A client's request for a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlimpseLogin {
    /// Session of MoldUDP64. Spaces stand for the current one.
    pub session: [u8; MOLD_SESSION_BYTES],
}

impl Default for GlimpseLogin {
    fn default() -> Self {
        GlimpseLogin { session: BLANK_SESSION }
    }
}

impl GlimpseLogin {
    pub const BYTES: usize = SOUP_HEADER_BYTES + LOGIN_BYTES;
    /// First bytes of each login: the length and the type.
    pub const HEADER: [u8; SOUP_HEADER_BYTES] = [0, 47, LOGIN_REQUEST];

    /// Returns the packet, with blank credentials and the first sequence number.
    pub fn packet(&self) -> Vec<u8> {
        let content = [&[b' '; CREDENTIALS_BYTES][..], &self.session, &digits(1)].concat();
        let mut packet = Vec::with_capacity(Self::BYTES);
        write_packet(LOGIN_REQUEST, &content, &mut packet);
        packet
    }

    /// Reads a packet. `None` if it is not a login.
    pub fn read(packet: &[u8; Self::BYTES]) -> Option<GlimpseLogin> {
        let (header, content) = packet.split_first_chunk::<SOUP_HEADER_BYTES>()?;
        let session = content.get(CREDENTIALS_BYTES..)?.first_chunk()?;
        (*header == Self::HEADER).then_some(GlimpseLogin { session: *session })
    }

    /// Whether the login is for the session `current`.
    pub fn is_for(&self, current: [u8; MOLD_SESSION_BYTES]) -> bool {
        self.session == BLANK_SESSION || self.session == current
    }
}

/// A packet of the venue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GlimpsePacket {
    /// The snapshot belongs to this session of MoldUDP64.
    LoginAccepted {
        session: [u8; MOLD_SESSION_BYTES],
    },
    LoginRejected {
        reason: u8,
    },
    Message(ItchMessage),
    /// The snapshot is complete. The feed continues with the message `next_number`.
    Snapshot {
        next_number: u64,
    },
    EndOfSession,
    /// A packet or a message of another type.
    Unknown,
}

impl GlimpsePacket {
    /// Decodes the content of a packet.
    ///
    /// # Errors
    ///
    /// Fails if the content does not have the form of its type.
    pub fn decode(packet_type: u8, content: &[u8]) -> Result<GlimpsePacket, GlimpseError> {
        let wrong_length = GlimpseError::Length { packet_type, bytes: content.len() };
        Ok(match packet_type {
            LOGIN_ACCEPTED => {
                let (session, number) = content.split_first_chunk().ok_or(wrong_length)?;
                number_of(number)?;
                GlimpsePacket::LoginAccepted { session: *session }
            }
            LOGIN_REJECTED => {
                let [reason] = *content else { return Err(wrong_length) };
                GlimpsePacket::LoginRejected { reason }
            }
            SEQUENCED_DATA => match content.split_first() {
                Some((&SNAPSHOT, number)) => GlimpsePacket::Snapshot { next_number: number_of(number)? },
                _ => match ItchMessage::decode(content) {
                    Ok(message) => GlimpsePacket::Message(message),
                    Err(MessageError::Type { .. }) => GlimpsePacket::Unknown,
                    Err(error) => return Err(GlimpseError::Message(error)),
                },
            },
            END_OF_SESSION => GlimpsePacket::EndOfSession,
            _ => GlimpsePacket::Unknown,
        })
    }

    /// Appends the packet to `out`. An unknown packet has no bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            GlimpsePacket::LoginAccepted { session } => {
                write_packet(LOGIN_ACCEPTED, &[&session[..], &digits(1)].concat(), out);
            }
            GlimpsePacket::LoginRejected { reason } => write_packet(LOGIN_REJECTED, &[*reason], out),
            GlimpsePacket::Message(message) => {
                let start = out.len();
                out.extend([0; SOUP_HEADER_BYTES]);
                message.encode(out);
                let [high, low] = packet_length(out.len() - start - SOUP_HEADER_BYTES);
                out.splice(start..start + SOUP_HEADER_BYTES, [high, low, SEQUENCED_DATA]);
            }
            GlimpsePacket::Snapshot { next_number } => {
                write_packet(SEQUENCED_DATA, &[&[SNAPSHOT][..], &digits(*next_number)].concat(), out);
            }
            GlimpsePacket::EndOfSession => write_packet(END_OF_SESSION, &[], out),
            GlimpsePacket::Unknown => {}
        }
    }
}

fn write_packet(packet_type: u8, content: &[u8], out: &mut Vec<u8>) {
    out.extend(packet_length(content.len()));
    out.push(packet_type);
    out.extend_from_slice(content);
}

/// Returns the length field of a packet, which counts the type. Every content has less than 60
/// bytes.
fn packet_length(content_bytes: usize) -> [u8; 2] {
    u16::try_from(1 + content_bytes).unwrap_or(u16::MAX).to_be_bytes()
}

fn digits(number: u64) -> [u8; NUMBER_BYTES] {
    let mut field = [b' '; NUMBER_BYTES];
    let text = number.to_string();
    // The highest number has 20 digits.
    field.iter_mut().rev().zip(text.bytes().rev()).for_each(|(to, digit)| *to = digit);
    field
}

/// Reads a number. Spaces may be on either side.
fn number_of(field: &[u8]) -> Result<u64, GlimpseError> {
    let digits = field.trim_ascii();
    let is_number = field.len() == NUMBER_BYTES && digits.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(digits).ok().filter(|_| is_number);
    text.and_then(|text| text.parse().ok()).filter(|number| *number > 0).ok_or(GlimpseError::Number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::itch::{BigEndian, OrderDelete};

    #[test]
    fn packets_have_the_bytes_of_the_specification() {
        let order_reference = BigEndian(7);
        let delete = OrderDelete { order_reference, ..OrderDelete::default() };
        let message = [&b"\0\x14SD"[..], &[0; 17], &[7]].concat();
        let cases: [(GlimpsePacket, &[u8]); 5] = [
            (GlimpsePacket::LoginAccepted { session: *b"0000000007" }, b"\0\x1fA0000000007                   1"),
            (GlimpsePacket::LoginRejected { reason: SESSION_NOT_AVAILABLE }, b"\0\x02JS"),
            (GlimpsePacket::Message(delete.into()), &message),
            (GlimpsePacket::Snapshot { next_number: u64::MAX }, b"\0\x16SG18446744073709551615"),
            (GlimpsePacket::EndOfSession, b"\0\x01Z"),
        ];
        for (packet, expected) in cases {
            let mut bytes = Vec::new();
            packet.encode(&mut bytes);
            assert_eq!(bytes, expected, "{packet:?}");
            assert_eq!(GlimpsePacket::decode(bytes[2], &bytes[SOUP_HEADER_BYTES..]), Ok(packet));
        }
        let login = b"\0\x2fL                0000000007                   1";
        let session = *b"0000000007";
        assert_eq!(GlimpseLogin { session }.packet(), login);
        assert_eq!(GlimpseLogin::read(login), Some(GlimpseLogin { session }));
        assert!(GlimpseLogin::default().is_for(session) && !GlimpseLogin { session }.is_for(*b"0000000008"));
    }

    #[test]
    fn a_packet_without_the_form_of_its_type_is_refused() {
        let cases: [(u8, &[u8]); 9] = [
            (LOGIN_ACCEPTED, b"0000000007"),
            (LOGIN_ACCEPTED, b"0000000007                    "),
            (LOGIN_ACCEPTED, b"0000000007                  +1"),
            (LOGIN_REJECTED, b""),
            (SEQUENCED_DATA, b""),
            (SEQUENCED_DATA, b"D"),
            (SEQUENCED_DATA, b"G                   0"),
            (SEQUENCED_DATA, b"G18446744073709551616"),
            (SEQUENCED_DATA, b"G1"),
        ];
        for (packet_type, content) in cases {
            assert!(GlimpsePacket::decode(packet_type, content).is_err(), "{content:?}");
        }
        assert_eq!(GlimpsePacket::decode(b'H', b""), Ok(GlimpsePacket::Unknown));
        assert_eq!(GlimpsePacket::decode(SEQUENCED_DATA, b"Y"), Ok(GlimpsePacket::Unknown));
    }
}
