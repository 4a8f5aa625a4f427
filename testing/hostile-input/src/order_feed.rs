//! Hostile input for the order-by-order feed: units, messages and a book, and packets of ITCH.
//!
//! Does        read the input as a unit and as messages without a header, apply every message to a
//!             book and translate it to ITCH, read the input as a packet of MoldUDP64, and panic
//!             when a decoded message has other bytes than the input, or when a refused message
//!             changes the book.
//! Start at    [`run`].

use pitwire_order_feed::itch::{
    AddOrder, BigEndian, ItchMessage, ItchPrice, OrderDelete as ItchDelete, OrderExecuted, OrderReplace,
};
use pitwire_order_feed::{
    BookBuilder, ItchTranslator, Letter, MitchEncode, MitchMessage, MoldPacket, MoldWriter, OrderAdd, OrderDelete,
    OrderExecution, OrderModify, UnitMessages, UnitWriter,
};
use pitwire_order_feed::{LAYOUTS, MESSAGE_HEADER_BYTES, PricedExecution, Unit};

/// Longest input in bytes.
const BYTES_MAX: usize = 4_096;
/// Instrument of the book that is compared.
const INSTRUMENT: u32 = 7;

/// The first byte chooses between a unit, messages without a header and a packet of MoldUDP64.
pub fn run(input: &[u8]) {
    let [how, rest @ ..] = input else { return };
    let rest = &rest[..rest.len().min(BYTES_MAX)];
    let mut books = HostileBooks::default();
    match how % 3 {
        0 => {
            if let Ok(unit) = Unit::read(rest) {
                unit.messages().flatten().for_each(|message| books.apply(&message));
            }
        }
        1 => {
            check_bytes(rest);
            UnitMessages::of(rest).flatten().for_each(|message| books.apply(&message));
        }
        _ => check_mold_packet(rest),
    }
}

/// Checks that the parts of a packet have its messages, that decoded messages keep their content,
/// and that a message which does not fit leaves the book as it was.
fn check_mold_packet(input: &[u8]) {
    let Some(packet) = MoldPacket::read(input) else { return };
    let first = packet.header.sequence_number;
    let messages: Vec<&[u8]> = packet.messages().collect();
    let mut book = BookBuilder::default();
    for message in &messages {
        let Ok(message) = ItchMessage::decode(message) else { continue };
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(ItchMessage::decode(&written), Ok(message));
        let before = (book.order_count(), book.checksum(INSTRUMENT));
        if book.apply_itch(&message).is_err() {
            assert_eq!((book.order_count(), book.checksum(INSTRUMENT)), before, "a refused message changed the book");
        }
    }
    for skipped in 0..messages.len().min(20) {
        let Some(part) = packet.part(first.saturating_add(skipped as u64), 3) else { continue };
        let part = MoldPacket::read(&part).expect("a part is a packet");
        let kept: Vec<&[u8]> = part.messages().collect();
        assert!(messages[skipped..].starts_with(&kept), "a part has the messages of its packet");
    }
}

#[derive(Default)]
struct HostileBooks {
    book: BookBuilder,
    translator: ItchTranslator,
}

impl HostileBooks {
    fn apply(&mut self, message: &MitchMessage) {
        let HostileBooks { book, translator } = self;
        translator.translate(message, book, &mut |translated| {
            let mut bytes = Vec::new();
            translated.encode(&mut bytes);
            assert_eq!(ItchMessage::decode(&bytes), Ok(translated));
        });
        let before = (book.order_count(), book.checksum(INSTRUMENT));
        if book.apply(message).is_err() {
            assert_eq!((book.order_count(), book.checksum(INSTRUMENT)), before, "a refused message changed the book");
        }
    }
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

/// A life of an order as a unit and as messages, one message of each type with zeros, and packets
/// of MoldUDP64.
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
    let mut writer = MoldWriter::new(*b"0000000001");
    for (message_type, bytes) in ItchMessage::LENGTHS {
        let mut message = vec![0; *bytes];
        message[0] = *message_type;
        writer.add(&message, |_, _| {});
    }
    writer.finish(|_, packet| seeds.push([&[2], packet].concat()));
    seeds.push([&[2], writer.heartbeat().as_slice()].concat());
    seeds.push([&[2], itch_life().as_slice()].concat());
    seeds
}

/// A packet with the life of an order.
fn itch_life() -> Vec<u8> {
    let (stock_locate, order_reference) = (BigEndian(7), BigEndian(5));
    let (side, price) = (Letter(b'B'), ItchPrice(100));
    let (original_order_reference, new_order_reference) = (order_reference, BigEndian(6));
    let messages: [ItchMessage; 4] = [
        AddOrder { stock_locate, order_reference, side, shares: BigEndian(9), price, ..AddOrder::default() }.into(),
        OrderExecuted { order_reference, executed_shares: BigEndian(2), ..OrderExecuted::default() }.into(),
        OrderReplace {
            original_order_reference,
            new_order_reference,
            shares: BigEndian(4),
            price,
            ..OrderReplace::default()
        }
        .into(),
        ItchDelete { order_reference: new_order_reference, ..ItchDelete::default() }.into(),
    ];
    let (mut writer, mut packet) = (MoldWriter::new(*b"0000000001"), Vec::new());
    for message in messages {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        writer.add(&bytes, |_, _| {});
    }
    writer.finish(|_, bytes| packet.extend_from_slice(bytes));
    packet
}
