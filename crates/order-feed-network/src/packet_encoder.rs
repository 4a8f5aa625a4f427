//! Packs the messages of the feed into the packets of its encoding.
//!
//! Start at    [`PacketEncoder::add`].

use std::time::{SystemTime, UNIX_EPOCH};

use pitwire_order_feed::{BookBuilder, FeedEncoding, ItchTranslator, MitchMessage, MoldWriter, TimeMark, UnitWriter};

use crate::snapshot;

/// Ten decimal digits.
const SESSIONS: u128 = 10_000_000_000;

/// The writer of one encoding.
pub(crate) enum PacketEncoder {
    Mitch(UnitWriter),
    Itch {
        writer: MoldWriter,
        translator: ItchTranslator,
        /// Kept for its memory.
        encoded: Vec<u8>,
    },
}

impl PacketEncoder {
    pub fn mitch() -> PacketEncoder {
        PacketEncoder::Mitch(UnitWriter::default())
    }

    /// Starts a session with another name than that of an earlier start: the time in milliseconds.
    pub fn itch() -> PacketEncoder {
        let ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() % SESSIONS;
        let mut session = [b'0'; 10];
        session.iter_mut().zip(format!("{ms:010}").bytes()).for_each(|(to, digit)| *to = digit);
        let writer = MoldWriter::new(session);
        PacketEncoder::Itch { writer, translator: ItchTranslator::default(), encoded: Vec::new() }
    }

    /// Adds one message. `encoded` are its bytes, and `books` is the state before it. Calls `full`
    /// with each packet that has no room for it.
    pub fn add(
        &mut self,
        message: &MitchMessage,
        encoded: &[u8],
        books: &BookBuilder,
        full: &mut impl FnMut(u64, &[u8]),
    ) {
        match self {
            PacketEncoder::Mitch(writer) => writer.add(encoded, full),
            PacketEncoder::Itch { writer, translator, encoded } => {
                translator.translate(message, books, &mut |translated| {
                    encoded.clear();
                    translated.encode(encoded);
                    writer.add(encoded, &mut *full);
                });
            }
        }
    }

    pub fn finish(&mut self, full: impl FnMut(u64, &[u8])) {
        match self {
            PacketEncoder::Mitch(writer) => writer.finish(full),
            PacketEncoder::Itch { writer, .. } => writer.finish(full),
        }
    }

    /// Returns the number of the next message.
    pub fn next_number(&self) -> u64 {
        match self {
            PacketEncoder::Mitch(writer) => writer.next_number(),
            PacketEncoder::Itch { writer, .. } => writer.next_number(),
        }
    }

    pub fn heartbeat(&mut self) -> Vec<u8> {
        match self {
            PacketEncoder::Mitch(writer) => writer.heartbeat(),
            PacketEncoder::Itch { writer, .. } => writer.heartbeat(),
        }
    }

    /// Returns the packet that ends the session, if the encoding has one.
    pub fn end(&self) -> Option<Vec<u8>> {
        match self {
            PacketEncoder::Mitch(_) => None,
            PacketEncoder::Itch { writer, .. } => Some(writer.end_of_session()),
        }
    }

    pub fn encoding(&self) -> FeedEncoding {
        match self {
            PacketEncoder::Mitch(_) => FeedEncoding::Mitch,
            PacketEncoder::Itch { .. } => FeedEncoding::Itch,
        }
    }

    /// Returns a snapshot of `books`, which is the state after the last message. `time` is the last
    /// time message.
    pub fn snapshot(&self, books: &BookBuilder, time: &TimeMark) -> Vec<u8> {
        match self {
            PacketEncoder::Mitch(writer) => snapshot::mitch(books, time, writer.next_number()),
            PacketEncoder::Itch { writer, translator, .. } => {
                snapshot::glimpse(books, translator, writer.session(), writer.next_number())
            }
        }
    }

    /// Returns the session of MoldUDP64.
    pub fn session(&self) -> Option<[u8; 10]> {
        match self {
            PacketEncoder::Mitch(_) => None,
            PacketEncoder::Itch { writer, .. } => Some(writer.session()),
        }
    }

    /// Returns how many prices were sent as the highest or lowest price of the format.
    pub fn clipped(&self) -> u64 {
        match self {
            PacketEncoder::Mitch(_) => 0,
            PacketEncoder::Itch { translator, .. } => translator.clipped,
        }
    }
}
