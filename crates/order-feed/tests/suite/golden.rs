//! The bytes of each message and of a unit, worked out by hand from the table of
//! `docs/order-feed.md`.

use pitwire_order_feed::*;

/// Parses hexadecimal bytes. `00*28` means 28 zeros, `"text` means ASCII with `_` for a space.
fn bytes(parts: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts.split_whitespace() {
        if let Some(text) = part.strip_prefix('"') {
            out.extend(text.bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
        } else if let Some((byte, count)) = part.split_once('*') {
            let byte = u8::from_str_radix(byte, 16).unwrap();
            out.extend(vec![byte; count.parse().unwrap()]);
        } else {
            let digits: Vec<char> = part.chars().collect();
            out.extend(digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()));
        }
    }
    out
}

const NANOSECOND: u32 = 0x0403_0201;
const ORDER: u64 = 0x0807_0605_0403_0201;
/// 123.45 in units of 1e-8 is 12,345,000,000 = 0x0002_DFD1_C040.
const PRICE: MitchPrice = MitchPrice(12_345_000_000);

/// Every message with its bytes: length, type, then the fields in order.
#[rustfmt::skip]
fn samples() -> Vec<(MitchMessage, &'static str)> {
    let nanosecond = NANOSECOND;
    vec![
        (TimeMark { seconds: 86_399 }.into(), "0700 54 7f510100"),
        (SystemEvent { nanosecond, event_code: Letter(b'O') }.into(), r#"0800 53 01020304 "O"#),
        (
            SymbolDirectory {
                nanosecond,
                instrument_id: 7,
                symbol: Alpha::new("NPN_ZAR"),
                segment: Alpha::new("ZA01"),
                sub_book_flags: 3,
                contract_multiplier: MitchPrice(100_000_000),
                ..Default::default()
            }
            .into(),
            r#"a601 52 01020304 07000000 00*2 "_ 00*12
               4e504e5f5a4152 20*18 00*12 "ZA01__ 00*8 00*8 00*25 00*8 "_ 00*6 00*8 00*8 00 03 00*189
               00*25 00*25 00e1f50500000000 "_ 00*30 "_"#,
        ),
        (
            SymbolStatus {
                nanosecond,
                instrument_id: 7,
                trading_status: Letter(b'e'),
                session_change_reason: 5,
                new_end_time: Alpha::new("09:05:00.250"),
                book_type: 1,
                ..Default::default()
            }
            .into(),
            r#"2100 48 01020304 07000000 00*2 "e 00 20*4 05 "09:05:00.250 01"#,
        ),
        (
            OrderAdd {
                nanosecond,
                order_id: ORDER,
                side: Letter(b'B'),
                quantity: 500,
                instrument_id: 7,
                price: PRICE,
                flags: 0,
                ..Default::default()
            }
            .into(),
            r#"2d00 41 01020304 0102030405060708 "B f4010000 07000000 00*2 40c0d1df02000000 00 00*10"#,
        ),
        (OrderDelete { nanosecond, order_id: ORDER }.into(), "0f00 44 01020304 0102030405060708"),
        (
            OrderModify { nanosecond, order_id: ORDER, new_quantity: 500, new_price: PRICE, flags: 1 }.into(),
            "1c00 55 01020304 0102030405060708 f4010000 40c0d1df02000000 01",
        ),
        (
            BookClear { nanosecond, instrument_id: 7, sub_book: 1, book_type: 1 }.into(),
            "0d00 79 01020304 07000000 01 01",
        ),
        (
            OrderExecution {
                nanosecond,
                order_id: ORDER,
                executed_quantity: 500,
                trade_id: 9,
                ..Default::default()
            }
            .into(),
            "3700 45 01020304 0102030405060708 f4010000 0900000000000000 00*28",
        ),
        (
            PricedExecution {
                nanosecond,
                order_id: ORDER,
                executed_quantity: 500,
                display_quantity: 256,
                trade_id: 9,
                printable: Letter(b'N'),
                price: PRICE,
                ..Default::default()
            }
            .into(),
            r#"4400 43 01020304 0102030405060708 f4010000 00010000 0900000000000000 "N 40c0d1df02000000 00*28"#,
        ),
        (
            HiddenTrade {
                nanosecond,
                executed_quantity: 500,
                instrument_id: 7,
                price: PRICE,
                trade_id: 9,
                sub_book: 1,
                trade_sub_type: Alpha::new("0001"),
                ..Default::default()
            }
            .into(),
            r#"4b00 50 01020304 f4010000 07000000 00*2 40c0d1df02000000 0900000000000000 01 00 "0001
               00*28 20*4 20*4"#,
        ),
        (
            AuctionTrade {
                nanosecond,
                quantity: 500,
                instrument_id: 7,
                price: PRICE,
                trade_id: 9,
                auction_type: Letter(b'C'),
                ..Default::default()
            }
            .into(),
            r#"4600 51 01020304 f4010000 07000000 00*2 40c0d1df02000000 0900000000000000 "C
               00*24 20*4 20*4 00*4"#,
        ),
        (
            OffBookReport {
                nanosecond,
                executed_quantity: 500,
                instrument_id: 7,
                price: PRICE,
                trade_id: 9,
                off_book_trade_type: Alpha::new("4001"),
                trade_time: Alpha::new("09:05:00"),
                trade_date: Alpha::new("20261127"),
                ..Default::default()
            }
            .into(),
            r#"5100 78 01020304 f4010000 07000000 00*2 40c0d1df02000000 0900000000000000 "4001
               "09:05:00 "20261127 00*24 20*4"#,
        ),
        (
            RecoveryTrade {
                nanosecond,
                executed_quantity: 500,
                instrument_id: 7,
                price: PRICE,
                trade_id: 9,
                trade_time: Alpha::new("09:05:00"),
                trade_date: Alpha::new("20261127"),
                action_type: Letter(b'C'),
                sub_book: 1,
                ..Default::default()
            }
            .into(),
            r#"5d00 76 01020304 f4010000 07000000 00*2 40c0d1df02000000 0900000000000000 "_ 20*4
               "09:05:00 "20261127 "C 01 00 00*28 20*4 20*4"#,
        ),
        (
            AuctionInfo {
                nanosecond,
                paired_quantity: 500,
                imbalance_direction: Letter(b'S'),
                instrument_id: 7,
                price: PRICE,
                auction_type: Letter(b'O'),
                ..Default::default()
            }
            .into(),
            r#"1f00 49 01020304 f4010000 00*4 "S 07000000 00*2 40c0d1df02000000 "O"#,
        ),
        (
            PriceStatistic {
                nanosecond,
                instrument_id: 7,
                statistic_type: Letter(b'C'),
                price: PRICE,
                open_close_indicator: Letter(b'H'),
                sub_book: 1,
                ..Default::default()
            }
            .into(),
            r#"1800 77 01020304 07000000 00*2 "C 40c0d1df02000000 "H 01"#,
        ),
        (
            LoginRequest { username: Alpha::new("me"), password: Alpha::new("secret") }.into(),
            r#"1300 01 "me____ "secret____"#,
        ),
        (LoginResponse { status: Letter(b'A') }.into(), r#"0400 02 "A"#),
        (
            ReplayRequest { market_data_group: Letter(b'P'), first_message: 258, count: 3 }.into(),
            r#"0a00 03 "P 02010000 0300"#,
        ),
        (
            ReplayResponse {
                market_data_group: Letter(b'P'),
                first_message: 258,
                count: 3,
                status: Letter(b'A'),
            }
            .into(),
            r#"0b00 04 "P 02010000 0300 "A"#,
        ),
        (LogoutRequest {}.into(), "0300 05"),
        (
            SnapshotRequest { instrument_id: 7, request_id: 5, ..Default::default() }.into(),
            "2100 81 00*4 20*6 07000000 00*2 00 00 20*8 05000000",
        ),
        (
            SnapshotResponse {
                sequence_number: 258,
                order_count: 2,
                status: Letter(b'A'),
                snapshot_type: 0,
                request_id: 5,
            }
            .into(),
            r#"1100 82 02010000 02000000 "A 00 05000000"#,
        ),
        (
            SnapshotComplete {
                sequence_number: 258,
                instrument_id: 7,
                sub_book_flags: 1,
                trading_status: Letter(b'T'),
                ..Default::default()
            }
            .into(),
            r#"1500 83 02010000 20*6 07000000 00*2 01 "T"#,
        ),
    ]
}

#[test]
fn messages_have_the_bytes_of_the_format() {
    let samples = samples();
    for (message, expected) in &samples {
        let expected = bytes(expected);
        let mut written = Vec::new();
        message.encode(&mut written);
        assert_eq!(written, expected, "{}", message.name());
        assert_eq!(MitchMessage::decode(&expected), Ok((*message, expected.len())), "{}", message.name());
    }
    let covered = |layout: &MessageLayout| samples.iter().any(|(message, _)| message.name() == layout.name);
    assert!(LAYOUTS.iter().all(covered), "a message without a sample");
}

#[test]
fn unit_has_the_bytes_of_the_format() {
    let mut writer = UnitWriter::default();
    let (mut messages, mut units) = (Vec::new(), Vec::new());
    OrderDelete { nanosecond: NANOSECOND, order_id: ORDER }.encode(&mut messages);
    for _ in 0..2 {
        writer.add(&messages, |_, _| panic!("two short messages fit one unit"));
    }
    writer.finish(|first, unit| units.push((first, unit.to_vec())));
    let expected = bytes(r#"2600 02 "P 01000000 0f00 44 01020304 0102030405060708 0f00 44 01020304 0102030405060708"#);
    assert_eq!(units, [(1, expected)]);
    assert_eq!(writer.heartbeat(), bytes(r#"0800 00 "P 03000000"#));
}

#[test]
fn malformed_messages_are_refused_with_the_reason() {
    let cases = [
        ("", "a message needs more than the 0 bytes that are left"),
        ("0f00", "a message needs more than the 2 bytes that are left"),
        ("0f00 44 01020304", "a message needs more than the 7 bytes that are left"),
        ("0200 44 01020304", "message of type 0x44 has length 2: expected 3"),
        ("0e00 44 01020304 01020304050607", "message of type 0x44 has length 14: expected 15"),
        ("0500 47 0102", "unknown message type 0x47"),
    ];
    for (input, expected) in cases {
        let error = MitchMessage::decode(&bytes(input)).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
    let unit = |input: &str| Unit::read(&bytes(input)).map(|_| ()).unwrap_err().to_string();
    assert_eq!(unit("0800 00"), "unit of 3 bytes: expected at least 8");
    assert_eq!(unit("0900 00 50 01000000"), "unit of 8 bytes states a length of 9");
}

#[test]
fn reader_skips_unknown_types_and_stops_at_a_wrong_length() {
    let delete = "0f00 44 01020304 0102030405060708";
    let messages = bytes(&format!("{delete} 0500 47 0102 {delete} 0400 44 01 {delete}"));
    let kinds: Vec<_> = UnitMessages::of(&messages).map(|message| message.is_ok()).collect();
    assert_eq!(kinds, [true, false, true, false]);
}

#[test]
fn messages_that_do_not_fit_the_book_change_nothing() {
    let mut book = BookBuilder::default();
    let add = OrderAdd { order_id: 1, side: Letter(b'B'), quantity: 10, instrument_id: 7, ..Default::default() };
    let execution = OrderExecution { order_id: 1, executed_quantity: 11, ..Default::default() };
    book.apply(&add.into()).unwrap();
    let checksum = book.checksum(7);
    let refused: [(MitchMessage, BookError); 4] = [
        (add.into(), BookError::DuplicateOrder { order_id: 1 }),
        (OrderDelete { nanosecond: 0, order_id: 2 }.into(), BookError::UnknownOrder { order_id: 2 }),
        (execution.into(), BookError::ExcessQuantity { order_id: 1, displayed: 10, executed: 11 }),
        (OrderAdd { side: Letter(b'X'), order_id: 3, ..add }.into(), BookError::Side { order_id: 3, letter: b'X' }),
    ];
    for (message, error) in refused {
        assert_eq!(book.apply(&message), Err(error));
        assert_eq!(book.checksum(7), checksum);
    }
}
