//! Hostile input for the order-by-order feed: units, messages and a book.
//!
//! Does        read the input as a unit and as messages without a header, apply every message to a
//!             book, and panic when a decoded message has other bytes than the input, or when a
//!             refused message changes the book.
//! Start at    [`run`].

use pitwire_order_feed::{
    BookBuilder, Letter, MitchEncode, MitchMessage, OrderAdd, OrderDelete, OrderExecution, OrderModify, UnitMessages,
    UnitWriter,
};
use pitwire_order_feed::{LAYOUTS, MESSAGE_HEADER_BYTES, PricedExecution, Unit};

/// Longest input in bytes.
const BYTES_MAX: usize = 4_096;
/// Instrument of the book that is compared.
const INSTRUMENT: u32 = 7;

/// The first byte chooses between a unit and messages without a header.
pub fn run(input: &[u8]) {
    let [how, rest @ ..] = input else { return };
    let rest = &rest[..rest.len().min(BYTES_MAX)];
    let mut book = BookBuilder::default();
    if how.is_multiple_of(2) {
        if let Ok(unit) = Unit::read(rest) {
            unit.messages().flatten().for_each(|message| apply(&mut book, &message));
        }
        return;
    }
    check_bytes(rest);
    UnitMessages::of(rest).flatten().for_each(|message| apply(&mut book, &message));
}

/// Checks that the first message has the bytes of the input, except where the format has unused
/// bytes.
fn check_bytes(input: &[u8]) {
    let Ok((message, length)) = MitchMessage::decode(input) else { return };
    let mut written = Vec::new();
    message.encode(&mut written);
    assert_eq!(written.len(), length);
    let (again, _) = MitchMessage::decode(&written).expect("an encoded message is decoded");
    assert_eq!(again, message);
    let layout = LAYOUTS.iter().find(|layout| layout.name == message.name()).expect("a message of the table");
    let mut at = MESSAGE_HEADER_BYTES;
    for field in layout.fields {
        let range = at..at + field.bytes;
        if field.kind != pitwire_order_feed::FieldKind::FillerBytes {
            assert_eq!(written[range.clone()], input[range], "{} of {}", field.name, layout.name);
        }
        at += field.bytes;
    }
}

fn apply(book: &mut BookBuilder, message: &MitchMessage) {
    let before = (book.order_count(), book.checksum(INSTRUMENT));
    if book.apply(message).is_err() {
        assert_eq!((book.order_count(), book.checksum(INSTRUMENT)), before, "a refused message changed the book");
    }
}

/// A life of an order as a unit and as messages, and one message of each type with zeros.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    let (nanosecond, order_id, side) = (1, 5, Letter(b'B'));
    let add = OrderAdd { nanosecond, order_id, side, quantity: 9, instrument_id: INSTRUMENT, ..OrderAdd::default() };
    add.encode(&mut messages);
    OrderModify { nanosecond, order_id, new_quantity: 8, flags: 1, ..OrderModify::default() }.encode(&mut messages);
    OrderExecution { nanosecond, order_id, executed_quantity: 3, ..OrderExecution::default() }.encode(&mut messages);
    PricedExecution { nanosecond, order_id, display_quantity: 2, ..PricedExecution::default() }.encode(&mut messages);
    OrderDelete { nanosecond, order_id }.encode(&mut messages);
    let mut writer = UnitWriter::default();
    for message in UnitMessages::of(&messages).flatten() {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        writer.add(&bytes, |_, _| {});
    }
    let mut seeds = vec![[&[1], messages.as_slice()].concat()];
    writer.finish(|_, unit| seeds.push([&[0], unit].concat()));
    for layout in LAYOUTS {
        let mut message = vec![0; layout.bytes];
        message[..2].copy_from_slice(&u16::try_from(layout.bytes).unwrap_or(u16::MAX).to_le_bytes());
        message[2] = layout.message_type;
        seeds.push([&[1], message.as_slice()].concat());
    }
    seeds
}
