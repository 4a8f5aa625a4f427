//! Encodes snapshots of all books: MITCH in units, and GLIMPSE for a feed of ITCH.
//!
//! Start at    [`mitch`] and [`glimpse`].

use pitwire_model::Side;
use pitwire_order_feed::{
    BookBuilder, GlimpsePacket, ItchTranslator, Letter, MOLD_SESSION_BYTES, MitchEncode, OrderAdd, SnapshotComplete,
    SnapshotResponse, TimeMark, UnitWriter, wire_number,
};

/// Returns the answer to a Snapshot Request. `next_number` is that of the next message of the feed.
pub(crate) fn mitch(books: &BookBuilder, time: &TimeMark, next_number: u64) -> Vec<u8> {
    let mut out = SnapshotWriter::default();
    let sequence_number = wire_number(next_number - 1);
    let order_count = u32::try_from(books.order_count()).unwrap_or(u32::MAX);
    out.send(&SnapshotResponse { sequence_number, order_count, status: Letter(b'A'), ..Default::default() });
    out.send(time);
    for (instrument_id, state) in books.instruments() {
        state.directory.iter().for_each(|directory| out.send(directory));
        state.status.iter().for_each(|status| out.send(status));
        for (side, letter) in [(Side::Buy, b'B'), (Side::Sell, b'S')] {
            for order in books.orders(instrument_id, side) {
                out.send(&OrderAdd {
                    order_id: order.id,
                    side: Letter(letter),
                    quantity: order.quantity,
                    instrument_id,
                    price: order.price,
                    ..OrderAdd::default()
                });
            }
        }
    }
    out.send(&SnapshotComplete { sequence_number, ..SnapshotComplete::default() });
    out.finish()
}

/// Returns the answer to a login of GLIMPSE.
pub(crate) fn glimpse(
    books: &BookBuilder,
    translator: &ItchTranslator,
    session: [u8; MOLD_SESSION_BYTES],
    next_number: u64,
) -> Vec<u8> {
    let mut out = Vec::new();
    GlimpsePacket::LoginAccepted { session }.encode(&mut out);
    translator.snapshot(books, &mut |message| GlimpsePacket::Message(message).encode(&mut out));
    GlimpsePacket::Snapshot { next_number }.encode(&mut out);
    GlimpsePacket::EndOfSession.encode(&mut out);
    out
}

/// Packs the messages of a snapshot into units, one after the other.
struct SnapshotWriter {
    units: UnitWriter,
    message: Vec<u8>,
    bytes: Vec<u8>,
}

impl Default for SnapshotWriter {
    fn default() -> Self {
        SnapshotWriter { units: UnitWriter::unnumbered(), message: Vec::new(), bytes: Vec::new() }
    }
}

impl SnapshotWriter {
    fn send(&mut self, message: &impl MitchEncode) {
        self.message.clear();
        message.encode(&mut self.message);
        self.units.add(&self.message, |_, unit| self.bytes.extend_from_slice(unit));
    }

    fn finish(mut self) -> Vec<u8> {
        self.units.finish(|_, unit| self.bytes.extend_from_slice(unit));
        self.bytes
    }
}
