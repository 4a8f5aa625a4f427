//! Hostile input for both ends of the order-by-order feed: datagrams of two lines, answers of the
//! recovery port, and requests to it.
//!
//! Does        cut the input into datagrams or requests, and pass them to what the sockets feed,
//!             which panics when a message is delivered twice or out of order, when too much waits,
//!             or when an answer does not have what was requested.
//! Start at    [`run`].

use std::cell::OnceCell;

use pitwire_order_feed::{
    FeedEncoding, GlimpsePacket, Letter, LoginResponse, MARKET_DATA_GROUP, MitchEncode, MitchMessage, MoldHeader,
    MoldWriter, OrderDelete, ReplayRequest, ReplayResponse, SnapshotComplete, SnapshotResponse, UnitWriter, itch,
};
use pitwire_order_feed_network::hostile::{RequestedFeed, answers, glimpse, receive};

/// Longest input in bytes.
const BYTES_MAX: usize = 16_384;
const SESSION: &[u8; 10] = b"0000000001";

thread_local! {
    static FEED: OnceCell<RequestedFeed> = const { OnceCell::new() };
}

/// The first byte chooses: datagrams of MITCH or of ITCH, answers, requests, or a snapshot of ITCH.
pub fn run(input: &[u8]) {
    let [how, rest @ ..] = input else { return };
    let rest = &rest[..rest.len().min(BYTES_MAX)];
    match how % 5 {
        0 => receive(FeedEncoding::Mitch, datagrams(rest)),
        1 => receive(FeedEncoding::Itch, datagrams(rest)),
        2 => answers(rest),
        3 => glimpse(rest),
        _ => FEED.with(|feed| {
            let feed = feed.get_or_init(RequestedFeed::default);
            datagrams(rest).for_each(|(_, request)| feed.request(request));
        }),
    }
}

/// Datagrams of the input. A byte with the line and two bytes with the length precede each.
fn datagrams(mut rest: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let ([line, low, high], after) = rest.split_first_chunk()?;
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (datagram, after) = after.split_at(length);
        rest = after;
        Some((usize::from(*line), datagram))
    })
}

fn datagram(line: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    [&[line], &length.to_le_bytes()[..], bytes].concat()
}

/// Returns a unit with these messages, as the recovery port sends it.
fn unit_of(messages: &[MitchMessage]) -> Vec<u8> {
    let (mut writer, mut unit) = (UnitWriter::unnumbered(), Vec::new());
    for message in messages {
        let mut encoded = Vec::new();
        message.encode(&mut encoded);
        writer.add(&encoded, |_, _| {});
    }
    writer.finish(|_, bytes| unit.extend_from_slice(bytes));
    unit
}

/// Two lines that lose a unit each, in both encodings; a login with a snapshot and a replay; a
/// snapshot of ITCH; and requests.
pub fn seeds() -> Vec<Vec<u8>> {
    let (mut units, mut packets) = (Vec::new(), Vec::new());
    let (mut unit_writer, mut mold_writer) = (UnitWriter::default(), MoldWriter::new(*SESSION));
    for order_id in 1..=12 {
        let (mut mitch, mut encoded) = (Vec::new(), Vec::new());
        OrderDelete { nanosecond: 0, order_id }.encode(&mut mitch);
        let order_reference = itch::BigEndian(order_id);
        itch::ItchMessage::from(itch::OrderDelete { order_reference, ..Default::default() }).encode(&mut encoded);
        unit_writer.add(&mitch, |_, _| {});
        mold_writer.add(&encoded, |_, _| {});
        if order_id % 3 == 0 {
            unit_writer.finish(|_, unit| units.push(unit.to_vec()));
            mold_writer.finish(|_, packet| packets.push(packet.to_vec()));
        }
    }
    units.push(unit_writer.heartbeat().to_vec());
    packets.push(mold_writer.heartbeat());
    packets.push(mold_writer.end_of_session());
    let lines = |how: u8, all: &[Vec<u8>]| {
        let mut input = vec![how];
        for (at, bytes) in all.iter().enumerate() {
            for line in [0, 1] {
                // Line 0 loses the second datagram, and line 1 the third; 3 also repeats one.
                if at != line + 1 {
                    input.extend(datagram(if at == 3 { 3 } else { u8::try_from(line).unwrap_or(0) }, bytes));
                }
            }
        }
        input
    };
    let accepted = Letter(b'A');
    let login = unit_of(&[LoginResponse { status: accepted }.into()]);
    let snapshot = unit_of(&[
        SnapshotResponse { sequence_number: 6, status: accepted, ..SnapshotResponse::default() }.into(),
        SnapshotComplete::default().into(),
    ]);
    let market_data_group = MARKET_DATA_GROUP;
    let replay = ReplayResponse { market_data_group, first_message: 7, count: 3, status: accepted };
    let replay = unit_of(&[replay.into()]);
    let third = units.get(2).cloned().unwrap_or_default();
    let order_reference = itch::BigEndian(7);
    let order = itch::AddOrder { order_reference, side: Letter(b'B'), ..Default::default() };
    let cancel = itch::OrderCancel { order_reference, ..Default::default() };
    let mut snapshot_of_itch = vec![3];
    for packet in [
        GlimpsePacket::LoginAccepted { session: *SESSION },
        GlimpsePacket::Message(order.into()),
        GlimpsePacket::Message(cancel.into()),
        GlimpsePacket::Snapshot { next_number: 4 },
        GlimpsePacket::EndOfSession,
    ] {
        packet.encode(&mut snapshot_of_itch);
    }
    let mut request = Vec::new();
    ReplayRequest { market_data_group: MARKET_DATA_GROUP, first_message: 5, count: 100 }.encode(&mut request);
    let mold_request = MoldHeader { session: *SESSION, sequence_number: 9, message_count: 4 }.bytes();
    vec![
        lines(0, &units),
        lines(1, &packets),
        [&[2], login.as_slice(), &snapshot, &replay, &third].concat(),
        snapshot_of_itch,
        [&[4], datagram(0, &request).as_slice(), &datagram(1, &mold_request)].concat(),
    ]
}
