//! Hostile input for the codecs of binary order entry: the schema of the venue and those of
//! CoinTossX.
//!
//! Does        decode the input as a frame, and panic when a decoded message has other bytes than
//!             the input, or when an encoded frame is refused.
//! Start at    [`run`].

use pitwire_sbe_gateway::*;

/// Longest input in bytes.
const BYTES_MAX: usize = 16_384;
/// Frames that Java's `sbe-tool` and the classes of CoinTossX have encoded.
const VECTORS: [&str; 2] = [
    include_str!("../../../crates/sbe-gateway/tests/sbe_tool/vectors.txt"),
    include_str!("../../../crates/sbe-gateway/tests/sbe_tool/cointossx_vectors.txt"),
];

/// The first byte chooses the schema.
pub fn run(input: &[u8]) {
    let [how, rest @ ..] = input else { return };
    let frame = &rest[..rest.len().min(BYTES_MAX)];
    let mut written = Vec::new();
    if how % 2 == 0 {
        let Ok(message) = SbeMessage::decode(frame) else { return };
        message.encode(&mut written);
    } else {
        let Ok((comp_id, message)) = CtxMessage::decode(frame) else { return };
        message.encode(comp_id, &mut written);
    }
    let (header, message) = written.split_first_chunk().expect("an encoded frame has a header");
    assert_eq!(frame_length(*header, BYTES_MAX), Ok(written.len()), "an encoded frame is accepted");
    // The server reads the header of the frame before it decodes the message.
    assert_eq!(Some(message), frame.get(FRAME_HEADER_BYTES..), "a decoded message keeps its bytes");
}

fn framed(message: impl Into<SbeMessage>) -> Vec<u8> {
    let mut input = vec![0];
    message.into().encode(&mut input);
    input
}

/// The vectors of both codecs, and further requests and answers.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (schema, vectors) in (0..).zip(VECTORS) {
        let frames = vectors.lines().filter_map(|line| hex::decode(line.split_once(' ')?.1).ok());
        seeds.extend(frames.map(|frame| [&[schema], frame.as_slice()].concat()));
    }
    let (sequence, request_id, instrument_id, order_id) = (7, 3, 1, 81);
    let price = Some(FixedDecimal(320_000_000_000));
    seeds.extend([
        framed(LogonAccepted { epoch: 5, next_sequence: 9, oldest_sequence: 1 }),
        framed(Logout { code: 13_004, reason: "wrong".into() }),
        framed(Heartbeat { next_sequence: 9 }),
        framed(RetransmitRequest { from_sequence: 1, to_sequence: 9 }),
        framed(RetransmitComplete { from_sequence: 1, to_sequence: 9, missing: 2 }),
        framed(AmendOrder {
            request_id,
            order_id,
            quantity: price,
            price,
            trigger_price: None,
            display_quantity: None,
            minimum_quantity: None,
        }),
        framed(MassCancel { request_id, scope: MassCancelScope::All, instrument_id }),
        framed(MarketQuery { request_id, instrument_id, subject: QuerySubject::Book, depth: 10 }),
        framed(MassCancelAccepted { sequence, request_id, cancelled: 2 }),
        framed(Vwap { sequence, request_id, instrument_id, trades: price, bid: None, ask: price }),
        framed(ReportsLost { sequence, count: 1 }),
    ]);
    seeds
}
