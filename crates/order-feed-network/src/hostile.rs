//! Entry points of the fuzzers: what sockets feed, without sockets.
//!
//! Does        panic when a guarantee is broken.
//! Start at    `testing/hostile-input`, which calls these functions.

use std::io::{self, Read, Write};
use std::sync::Arc;

use pitwire_order_feed::{
    FeedEncoding, MitchEncode, MitchMessage, MoldHeader, MoldKind, MoldPacket, SystemEvent, TimeMark, Unit, full_number,
};

use crate::arbiter::{Deliver, FeedMessage, LineArbiter, MAX_WAITING_BYTES};
use crate::feed_state::FeedState;
use crate::glimpse_client;
use crate::packet_encoder::PacketEncoder;
use crate::recovery_client::{RecoveryClient, ReplayAnswer};

/// Messages of the feed that answers hostile requests.
const MESSAGES: u32 = 400;

/// Receives datagrams, each with its line. They are delivered in order, and few wait.
pub fn receive<'a>(encoding: FeedEncoding, datagrams: impl Iterator<Item = (usize, &'a [u8])>) {
    let (mut arbiter, mut order, mut now_ns) = (LineArbiter::new(encoding, 2), DeliveryOrder(0), 0);
    for (line, datagram) in datagrams {
        now_ns += 1_000_000;
        arbiter.receive(line % 2, now_ns, datagram, &mut order);
        if line % 4 == 3 {
            arbiter.replay(now_ns, datagram, &mut order);
        }
        assert!(order.0 < arbiter.next_number() && arbiter.waiting_bytes() <= MAX_WAITING_BYTES);
        if let Some((first, missing)) = arbiter.gap(now_ns) {
            assert!(first == arbiter.next_number() && missing > 0);
            arbiter.drop_waiting();
            assert_eq!((arbiter.missing(), arbiter.waiting_bytes()), (None, 0));
        }
    }
}

/// Number of the newest message.
struct DeliveryOrder(u64);

impl Deliver for DeliveryOrder {
    fn deliver(&mut self, number: u64, _: &FeedMessage) {
        assert!(number > self.0, "message {number} after message {}", self.0);
        self.0 = number;
    }
}

/// Logs in at a venue that sends these bytes, and requests a snapshot and a replay.
pub fn answers(bytes: &[u8]) {
    let Ok(mut client) = RecoveryClient::log_in(ScriptedVenue(bytes)) else { return };
    drop(client.snapshot());
    if let Ok(ReplayAnswer::Units(units)) = client.replay(7, 900) {
        assert!(units.iter().map(Vec::len).sum::<usize>() <= bytes.len(), "the units come from the venue");
    }
}

/// Requests a snapshot of ITCH from a venue that sends these bytes.
pub fn glimpse(bytes: &[u8]) {
    if let Ok(Some(snapshot)) = glimpse_client::read(ScriptedVenue(bytes)) {
        assert!(snapshot.next_number > 0 && snapshot.books.order_count() <= bytes.len() / 39, "39 bytes an order");
    }
}

/// Sends its bytes, and takes any request.
struct ScriptedVenue<'a>(&'a [u8]);

impl Read for ScriptedVenue<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for ScriptedVenue<'_> {
    fn write(&mut self, request: &[u8]) -> io::Result<usize> {
        Ok(request.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A feed with some messages, which answers requests.
pub struct RequestedFeed {
    mitch: FeedState,
    itch: FeedState,
}

impl Default for RequestedFeed {
    fn default() -> Self {
        let mut messages = Vec::new();
        for seconds in 0..MESSAGES {
            TimeMark { seconds }.encode(&mut messages);
            SystemEvent::default().encode(&mut messages);
        }
        let feed = |encoder| {
            let mut feed = FeedState::new(encoder, Vec::new(), Arc::default());
            feed.take(&messages);
            feed
        };
        RequestedFeed { mitch: feed(PacketEncoder::mitch()), itch: feed(PacketEncoder::itch()) }
    }
}

impl RequestedFeed {
    /// Answers a request of either encoding.
    pub fn request(&self, bytes: &[u8]) {
        if let Ok((MitchMessage::ReplayRequest(request), _)) = MitchMessage::decode(bytes) {
            let feed = &self.mitch;
            let first = full_number(request.first_message, feed.next_number());
            if let Some(replay) = feed.replay(first, request.count) {
                let counts =
                    replay.units.iter().map(|unit| Unit::read(unit).map_or(0, |unit| unit.header.message_count));
                assert_eq!(counts.map(u64::from).sum::<u64>(), u64::from(replay.count), "the units have the count");
                assert!(replay.first <= first && first < replay.first + u64::from(replay.count), "message {first}");
            }
        }
        if let Some(packet) = MoldPacket::read(bytes).filter(|packet| packet.kind == MoldKind::Request) {
            let feed = &self.itch;
            // A fuzzer cannot guess the session.
            let header = MoldHeader { session: feed.session(), ..packet.header };
            assert!(feed.repeat(&packet.header).is_none() || packet.header.session == header.session);
            if let Some(answer) = feed.repeat(&header) {
                let answer = MoldPacket::read(&answer).expect("an answer is a packet");
                assert_eq!(answer.header.sequence_number, header.sequence_number);
                assert!((1..=header.message_count).contains(&answer.header.message_count));
            }
        }
    }
}
