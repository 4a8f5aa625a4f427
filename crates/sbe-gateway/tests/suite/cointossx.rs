//! The codec of the CoinTossX profile against the bytes of Java's sbe-tool, and against hostile
//! bytes.

use pitwire_sbe_gateway::*;

use crate::frames;

/// Frames of sbe-tool.
const VECTORS: &str = include_str!("../sbe_tool/cointossx_vectors.txt");
const COMP_ID: i32 = 7;

fn frame(name: &str) -> Vec<u8> {
    frames::named(VECTORS, name)
}

/// The messages that `CoinTossXVectors.java` encodes.
fn samples() -> Vec<(&'static str, CtxMessage)> {
    let fill = |price, fill_qty| CtxFill { fill_price: CtxPrice(price), fill_qty };
    vec![
        (
            "Logon",
            CtxLogon { comp_id: COMP_ID, password: PaddedText::new("test777777"), new_password: PaddedText::new("") }
                .into(),
        ),
        (
            "NewOrder",
            CtxNewOrder {
                client_order_id: PaddedText::new("c-1"),
                security_id: 1,
                trader_mnemonic: PaddedText::new("John"),
                account: PaddedText::new("account123"),
                order_type: CtxOrderType::StopLimit,
                time_in_force: CtxTimeInForce::Gfx,
                expire_time: PaddedText::new("20211230-23:00:00"),
                side: CtxSide::Sell,
                order_quantity: 1000,
                display_quantity: 100,
                min_quantity: 50,
                limit_price: CtxPrice(32_005_000),
                stop_price: CtxPrice(31_990_000),
                capacity: 3,
                cancel_on_disconnect: 1,
                order_book: 1,
            }
            .into(),
        ),
        (
            "OrderCancelRequest",
            CtxOrderCancelRequest {
                client_order_id: PaddedText::new("c-2"),
                orig_client_order_id: PaddedText::new("c-1"),
                order_id: 81,
                security_id: 1,
                trader_mnemonic: PaddedText::new("John"),
                side: 2,
                order_book: 1,
                limit_price: CtxPrice(32_005_000),
            }
            .into(),
        ),
        (
            "OrderCancelReplaceRequest",
            CtxOrderCancelReplaceRequest {
                client_order_id: PaddedText::new("c-3"),
                orig_client_order_id: PaddedText::new("c-1"),
                order_id: 81,
                security_id: 1,
                trader_mnemonic: PaddedText::new("John"),
                account: PaddedText::new("account123"),
                order_type: CtxOrderType::Limit,
                time_in_force: 0,
                expire_time: PaddedText::new(""),
                side: 1,
                order_quantity: 12,
                display_quantity: 12,
                min_quantity: 0,
                limit_price: CtxPrice(31_900_000),
                stop_price: CtxPrice(0),
                order_book: 1,
            }
            .into(),
        ),
        (
            "ExecutionReport",
            CtxExecutionReport {
                partition_id: 1,
                sequence_number: 3,
                execution_id: PaddedText::new("1a-3"),
                client_order_id: PaddedText::new("c-1"),
                order_id: 81,
                execution_type: CtxExecutionType::Trade,
                order_status: CtxOrderStatus::PartiallyFilled,
                reject_code: 0,
                leaves_quantity: 6,
                container: CtxContainer::Main,
                security_id: 1,
                side: CtxSide::Buy,
                trader_mnemonic: PaddedText::new("John"),
                account: PaddedText::new("account123"),
                is_market_ops_request: 0,
                transact_time: 1_795_491_910_595,
                order_book: 1,
                fills_group: vec![fill(32_000_000, 4), fill(32_010_000, 5)],
            }
            .into(),
        ),
        (
            "OrderExecutedWithPriceSize",
            CtxOrderExecutedWithPriceSize {
                message_type: b'C',
                nanosecond: 595_000_000,
                order_id: 81,
                executed_quantity: 4,
                display_quantity: 6,
                trade_id: 12,
                printable: b'Y',
                price: CtxPrice(32_000_000),
                instrument_id: 1,
                client_order_id: 0,
                executed_time: 1_795_491_910_595,
            }
            .into(),
        ),
        (
            "BestBidOffer",
            CtxBestBidOffer {
                message_type: b'Z',
                instrument_id: 1,
                bid: CtxPrice(31_000_000),
                bid_quantity: 3,
                offer: CtxPrice(33_005_000),
                offer_quantity: 2,
            }
            .into(),
        ),
        ("Admin", CtxAdmin { admin_message: CtxAdminType::EndMessage, security_id: 1 }.into()),
        (
            "Lob",
            CtxLob {
                security_id: 1,
                orders: vec![CtxLobOrder {
                    order_id: 81,
                    price: CtxPrice(33_005_000),
                    order_quantity: 10,
                    side: CtxSide::Sell,
                    client_order_id: PaddedText::new("c-1"),
                }],
            }
            .into(),
        ),
    ]
}

fn encoded(comp_id: i32, message: &CtxMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(comp_id, &mut bytes);
    bytes
}

#[test]
fn bytes_equal_those_of_sbe_tool() {
    for (name, message) in samples() {
        assert_eq!(encoded(COMP_ID, &message), frame(name), "{name}");
        let comp_id = if name == "BestBidOffer" || name == "OrderExecutedWithPriceSize" { 0 } else { COMP_ID };
        assert_eq!(CtxMessage::decode(&frame(name)), Ok((comp_id, message)), "{name}");
    }
    assert_eq!(VECTORS.lines().count(), samples().len());
}

#[test]
fn group_count_that_lies_is_refused() {
    let changed = |name: &str, at: usize, byte: u8| {
        let mut bytes = frame(name);
        bytes[at] = byte;
        CtxMessage::decode(&bytes)
    };
    // The fills follow two headers and the block of 103 bytes: block length u16, count u8.
    assert_eq!(changed("ExecutionReport", 6 + 12 + 103 + 2, 200), Err(DecodeError::Short));
    assert_eq!(changed("ExecutionReport", 6 + 12 + 103 + 2, 1), Err(DecodeError::Trailing { bytes: 12 }));
    // The highest byte of the number of orders, an u32 behind the block of 4 bytes.
    assert_eq!(changed("Lob", 6 + 12 + 4 + 7, 0x7F), Err(DecodeError::Short));
    assert_eq!(changed("Admin", 18, 10), Err(DecodeError::Value { field: "admin_message" }));
}

#[test]
fn damaged_frame_is_refused_or_decoded_without_loss() {
    let frames: Vec<Vec<u8>> = samples().iter().map(|(name, _)| frame(name)).collect();
    frames::check_damaged(&frames, |bytes| {
        CtxMessage::decode(bytes).ok().map(|(comp_id, message)| encoded(comp_id, &message))
    });
}
