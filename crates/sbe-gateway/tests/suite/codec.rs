//! The codec against the bytes of Java's sbe-tool, and against hostile bytes.

use pitwire_sbe_gateway::*;

use crate::frames;

/// Frames of sbe-tool.
const VECTORS: &str = include_str!("../sbe_tool/vectors.txt");

fn frame(name: &str) -> Vec<u8> {
    frames::named(VECTORS, name)
}

fn decimal(text: &str) -> Option<FixedDecimal> {
    Some(FixedDecimal::parse(text).unwrap())
}

/// The messages that `Vectors.java` encodes.
fn samples() -> Vec<(&'static str, SbeMessage)> {
    let level = |side, price, quantity| SbeLevel { side, price: decimal(price), quantity: decimal(quantity) };
    vec![
        (
            "Logon",
            Logon {
                client_id: Text::new("demo-a"),
                secret: Text::new("demo-a-secret"),
                next_sequence: 12,
                heartbeat_s: 30,
            }
            .into(),
        ),
        (
            "NewOrder",
            NewOrder {
                request_id: 7,
                client_order_id: Text::new("c-1"),
                instrument_id: 1,
                side: OrderSide::Sell,
                order_type: EntryType::StopLimit,
                time_in_force: EntryTimeInForce::Gtd,
                hidden: Flag::No,
                post_only: Flag::Yes,
                quantity: decimal("10"),
                price: decimal("3200.5"),
                trigger_price: decimal("3199"),
                display_quantity: None,
                minimum_quantity: None,
                expires: 20_261_231,
            }
            .into(),
        ),
        (
            "ExecutionReport",
            ExecutionReport {
                sequence: 3,
                execution_type: ExecutionType::Trade,
                status: OrderStatus::Open,
                side: OrderSide::Buy,
                liquidity: LiquidityFlag::Added,
                instrument_id: 1,
                order_id: 81,
                client_order_id: Text::new("c1"),
                price: decimal("3200"),
                quantity: decimal("10"),
                filled_quantity: decimal("4"),
                last_price: decimal("3200"),
                last_quantity: decimal("4"),
                trade_sequence: 1,
                transact_time_ms: 1_795_491_910_595,
                cancel_reason: Text::new(""),
            }
            .into(),
        ),
        (
            "Reject",
            Reject {
                sequence: 4,
                request_id: 8,
                template_id: 10,
                code: 10043,
                name: "price_wrong_tick".into(),
                reason: "3200.001 is not a multiple of 0.01".into(),
                remedy: "Round the price to tick_size.".into(),
            }
            .into(),
        ),
        (
            "Book",
            Book {
                sequence: 5,
                request_id: 9,
                instrument_id: 1,
                levels: vec![level(OrderSide::Buy, "3190", "8"), level(OrderSide::Sell, "3300.5", "1")],
            }
            .into(),
        ),
        ("CancelOrder", CancelOrder { request_id: 10, order_id: 81 }.into()),
    ]
}

fn encoded(message: &SbeMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

#[test]
fn bytes_equal_those_of_sbe_tool() {
    for (name, message) in samples() {
        assert_eq!(encoded(&message), frame(name), "{name}");
        assert_eq!(SbeMessage::decode(&frame(name)), Ok(message), "{name}");
    }
    assert_eq!(VECTORS.lines().count(), samples().len());
}

#[test]
fn frame_length_outside_its_bounds_is_refused() {
    let header = |bytes: u32, encoding: u16| {
        let mut header = [0; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(&bytes.to_be_bytes());
        header[4..].copy_from_slice(&encoding.to_be_bytes());
        header
    };
    assert_eq!(frame_length(header(30, 0xEB50), 1024), Ok(30));
    for bytes in [0, 13, 1025, u32::MAX] {
        assert!(matches!(frame_length(header(bytes, 0xEB50), 1024), Err(FrameError::Length { .. })), "{bytes}");
    }
    assert_eq!(frame_length(header(30, 0x5BE0), 1024), Err(FrameError::Encoding { encoding: 0x5BE0 }));
}

#[test]
fn malformed_message_is_refused_by_name() {
    let changed = |name: &str, at: usize, byte: u8| {
        let mut bytes = frame(name);
        bytes[at] = byte;
        SbeMessage::decode(&bytes)
    };
    // Behind the framing header: block length, template id, schema id, version.
    assert_eq!(changed("CancelOrder", 6, 17), Err(DecodeError::BlockLength { bytes: 17, expected: 16 }));
    assert_eq!(changed("CancelOrder", 6, 8), Err(DecodeError::BlockLength { bytes: 8, expected: 16 }));
    assert_eq!(changed("CancelOrder", 8, 99), Err(DecodeError::Template { id: 99 }));
    assert_eq!(changed("CancelOrder", 10, 0), Err(DecodeError::Schema { id: 7401 & 0xFF00, expected: 7401 }));
    assert_eq!(changed("CancelOrder", 12, 1), Err(DecodeError::Version { version: 1, expected: 0 }));
    // The side of the new order, behind two headers, the request id, the client's id and the
    // instrument.
    assert_eq!(changed("NewOrder", 14 + 8 + 64 + 4, 3), Err(DecodeError::Value { field: "side" }));
    // The number of levels of the book.
    assert_eq!(changed("Book", 14 + 20 + 2, 200), Err(DecodeError::Short));
    assert_eq!(changed("Book", 14 + 20 + 2, 1), Err(DecodeError::Trailing { bytes: 17 }));
    let cut = frame("CancelOrder");
    assert_eq!(SbeMessage::decode(&cut[..cut.len() - 1]), Err(DecodeError::Short));
}

#[test]
fn damaged_frame_is_refused_or_decoded_without_loss() {
    let frames: Vec<Vec<u8>> = samples().iter().map(|(name, _)| frame(name)).collect();
    frames::check_damaged(&frames, |bytes| SbeMessage::decode(bytes).ok().map(|message| encoded(&message)));
}
