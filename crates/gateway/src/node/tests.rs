//! A node, with a venue whose answers the test writes.

mod attach;
mod lagging;
mod resuming;

use std::collections::{BTreeMap, BTreeSet};

use pitwire_websocket::{CloseCode, Opcode, write_frame};

use super::*;
use crate::channels::{ALIASES_MAX, PIECE_BYTES, REPLAYED_MAX};
use crate::connections::WAITING_MAX;
use crate::protocol::{BatchWriter, Reply, ReplyOutcome};
use crate::questions::KEEP_NS;
use crate::sink::{Attachment, CatchUp, ClientSink, GatewayTime, VenueCall};
use crate::subscriptions::{BEFORE_ATTACH_MAX, JOINS_MAX};
use crate::upstream::VenueQuestion;
use pitwire_delivery::ChannelId;

const BOOK: &str = "book.X.100ms";
const TRADES: &str = "trades.X.100ms";
const QUOTE: &str = "quote.X";

/// Records what each connection received, one entry per message, and plays the delivery thread:
/// attached connections by channel, and the last sequence of each channel.
#[derive(Default)]
struct SentTexts(Vec<(u64, String)>, BTreeMap<ChannelId, BTreeSet<u64>>, BTreeMap<ChannelId, u64>);

impl SentTexts {
    fn put(&mut self, to: u64, text: &[u8]) {
        self.0.push((to, String::from_utf8_lossy(text).into_owned()));
    }

    /// Takes the messages of one connection.
    fn take_of(&mut self, id: u64) -> Vec<String> {
        let answered = self.0.extract_if(.., |(to, _)| *to == id);
        answered.map(|(_, text)| text).collect()
    }

    fn take(&mut self) -> Vec<String> {
        self.0.drain(..).map(|(to, text)| format!("{to} {text}")).collect()
    }
}

impl ClientSink for SentTexts {
    fn reply(&mut self, to: u64, text: &[u8]) {
        self.put(to, text);
    }
    fn notify(&mut self, to: u64, text: &[u8]) {
        self.put(to, text);
    }
    fn close(&mut self, to: u64, code: CloseCode, _: &str) {
        self.1.values_mut().for_each(|seated| _ = seated.remove(&to));
        self.0.push((to, format!("!{}", code as u16)));
    }
    fn publish(&mut self, channel: ChannelId, seq: u64, payload: &[u8]) {
        assert!(self.2.insert(channel, seq) < Some(seq), "numbers grow, and begin where they are said to");
        for to in self.1.get(&channel).cloned().unwrap_or_default() {
            self.put(to, payload);
        }
    }
    fn send_frames(&mut self, to: u64, frames: Vec<u8>) {
        messages(frames).into_iter().for_each(|text| self.0.push((to, text)));
    }
    fn attach(&mut self, to: u64, channel: ChannelId, attachment: Attachment) {
        assert_eq!(
            attachment.ring_start.is_some(),
            self.1.get(&channel).is_none_or(BTreeSet::is_empty),
            "the channel had no subscriber"
        );
        if let Some(begins) = attachment.ring_start {
            self.2.insert(channel, begins);
        }
        assert!(self.1.entry(channel).or_default().insert(to), "seated twice");
        if attachment.read_to < self.2.get(&channel).copied().unwrap_or(0) {
            self.0.push((to, format!("at {}", attachment.read_to)));
        }
    }
    fn catch_up(&mut self, to: u64, _: ChannelId, read: u64, how: CatchUp) {
        let CatchUp::Frames(frames, seq) = how else { return self.0.push((to, format!("{read} {how:?}"))) };
        self.send_frames(to, frames);
        self.0.push((to, format!("at {seq}")));
    }
    fn detach(&mut self, to: u64, channel: ChannelId) {
        assert!(self.1.get_mut(&channel).is_some_and(|seated| seated.remove(&to)), "was not seated");
    }
}

fn messages(mut frames: Vec<u8>) -> Vec<String> {
    let mut messages = Vec::new();
    while frames.len() > 1 {
        let (header, len) = match frames[1] {
            126 => (4, usize::from(u16::from_be_bytes([frames[2], frames[3]]))),
            len => (2, usize::from(len)),
        };
        assert!(frames[1] < 127, "no very long ones");
        messages.push(String::from_utf8(frames[header..header + len].to_vec()).unwrap());
        frames.drain(..header + len);
    }
    messages
}

struct World {
    node: Node,
    sent: SentTexts,
    now: GatewayTime,
    next: u64,
    epoch: u64,
}

/// Returns a reply to a join: the channel is at `last`, and `first` is its snapshot.
fn here(world: &World, last: u64, since: u64, channel: &str, first: &str) -> Reply {
    let conflates = channel == QUOTE;
    let (channel, first) = (channel.to_owned(), first.as_bytes().to_vec());
    Reply { epoch: world.epoch, last, oldest: 1, since, conflates, channel, first, ..Reply::default() }
}

impl World {
    /// Returns a node that follows start 7 of a venue from its beginning, with a history of this
    /// many bytes.
    fn with_room(bytes: usize) -> World {
        let node = Node::new("1", bytes);
        let now = GatewayTime { steady_ns: 1_000, wall_us: 5 };
        let mut world = World { node, sent: SentTexts::default(), now, next: 1, epoch: 7 };
        assert_eq!(world.node.next_question(1_000), Some(VenueQuestion::Status));
        world.answered(VenueQuestion::Status, Reply { epoch: 7, last: 0, oldest: 1, ..Reply::default() });
        assert_eq!(world.asks(), [VenueQuestion::Keep { names: vec![] }]);
        world
    }

    fn new() -> World {
        World::with_room(1 << 20)
    }

    /// Returns the due questions except those for instruments, which follow every keep-alive.
    fn asks(&mut self) -> Vec<VenueQuestion> {
        let asks = std::iter::from_fn(|| self.node.next_question(self.now.steady_ns));
        asks.filter(|ask| *ask != VenueQuestion::Instruments).collect()
    }

    fn answered(&mut self, ask: VenueQuestion, reply: Reply) {
        self.node.answered(&ask, Ok(reply), self.now, &mut self.sent);
    }

    /// Joins the book again at a sequence. Connection 1 learns of the gap since sequence 2.
    fn join_again(&mut self, seq: u64, since: u64) {
        let reply = here(self, seq, since, BOOK, "\"again\"");
        self.join(BOOK, reply);
        let gap = format!(r#"1 {{"type":"gap","from":2,"to":{seq},"epoch":7,"channel":"book.X.100ms"}}"#);
        let snapshot = format!(r#"1 {{"epoch":7,"seq":{seq},"snapshot":true,"message":"again"}}"#);
        assert_eq!(self.sent.take(), [gap, snapshot]);
    }

    fn join(&mut self, name: &str, reply: Reply) {
        assert_eq!(self.asks(), [VenueQuestion::Join { name: name.into() }]);
        self.answered(VenueQuestion::Join { name: name.into() }, reply);
    }

    /// Opens a connection. `target` is that of its handshake.
    fn open(&mut self, id: u64, target: &str) {
        self.node.connected(id);
        self.node.opened(id, target, self.now, &mut self.sent);
    }

    fn text(&mut self, id: u64, method: &str, params: &str) -> Option<VenueCall> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}","params":{params}}}"#);
        self.node.text(id, &text, self.now, &mut self.sent)
    }

    /// Publishes a message on each of these channels. Its text is the channel's first letter and
    /// the sequence.
    fn live(&mut self, channels: &[(&str, u64)]) {
        let mut writer = BatchWriter::new(self.epoch, self.next);
        for (channel, prev) in channels {
            let text = format!("\"{}{}\"", &channel[..1], writer.next());
            let put = |out: &mut Vec<u8>| {
                write_frame(out, Opcode::Text, text.as_bytes());
                Ok::<(), ()>(())
            };
            writer.push(*prev, channel, put).unwrap();
        }
        self.next = writer.next();
        self.node.subscriptions.batch(writer.finish(), &mut self.sent);
    }

    /// Publishes this text on a channel.
    fn live_text(&mut self, channel: &str, prev: u64, text: &str) {
        let mut writer = BatchWriter::new(self.epoch, self.next);
        let put = |out: &mut Vec<u8>| {
            write_frame(out, Opcode::Text, text.as_bytes());
            Ok::<(), ()>(())
        };
        writer.push(prev, channel, put).unwrap();
        self.next = writer.next();
        self.node.subscriptions.batch(writer.finish(), &mut self.sent);
    }

    /// Takes a channel off the bus.
    fn remove_channel(&mut self, channel: &str) {
        let mut writer = BatchWriter::new(self.epoch, self.next);
        writer.push_removal(self.next - 1, channel);
        self.next = writer.next();
        self.node.subscriptions.batch(writer.finish(), &mut self.sent);
    }

    /// Returns the messages that a connection would read now.
    fn read(&mut self, id: u64) -> Vec<String> {
        let mut out = Vec::new();
        if let Err((code, _)) = self.node.subscriptions.read(id, &mut out, 1 << 16) {
            return vec![format!("!{}", code as u16)];
        }
        messages(out)
    }
}

fn place_of_first(sent: &[String]) -> Vec<&str> {
    sent.iter().map(|text| text.split_once(' ').map_or("", |(_, text)| text)).collect()
}

#[test]
fn snapshot_and_messages_join_in_any_order_of_arrival() {
    // The answer is at sequence 2. Messages arrive before it or after it, or the answer is ahead of
    // the bus.
    for before in 0..=3 {
        let mut world = World::new();
        world.open(1, &format!("/ws/api/v2?channels={BOOK}"));
        (0..before).for_each(|_| world.live(&[(BOOK, 0)]));
        let reply = here(&world, 2, 0, BOOK, "\"first\"");
        world.join(BOOK, reply);
        (before..5).for_each(|_| world.live(&[(BOOK, 0)]));
        assert_eq!(world.sent.take(), ["1 \"first\""]);
        assert_eq!(world.read(1), ["\"b3\"", "\"b4\"", "\"b5\""], "{before} before");
        assert_eq!(world.read(1), Vec::<String>::new());
    }
}

#[test]
fn stored_snapshot_serves_others_until_it_is_too_old() {
    let mut world = World::new();
    world.open(1, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.live(&[(BOOK, 0), (BOOK, 1)]);
    world.open(2, &format!("/?channels={BOOK}"));
    assert_eq!(world.sent.take(), ["1 \"first\"", "2 \"first\""]);
    assert_eq!(world.read(2), ["\"b1\"", "\"b2\""]);
    (0..REPLAYED_MAX).for_each(|_| world.live(&[(BOOK, 0)]));
    world.open(3, &format!("/?channels={BOOK}"));
    let last = world.next - 1;
    let reply = here(&world, last, 0, BOOK, "\"second\"");
    world.join(BOOK, reply);
    assert_eq!((world.sent.take(), world.read(3)), (vec!["3 \"second\"".into()], vec![]));
    // The earlier client does not get the snapshot again.
    assert_eq!(world.read(1).len(), 2 + REPLAYED_MAX);
}

#[test]
fn snapshot_is_renewed_when_later_messages_were_dropped() {
    let mut world = World::with_room(150);
    world.open(1, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    (0..6).for_each(|prev| world.live(&[(BOOK, prev)]));
    world.open(2, &format!("/?channels={BOOK}"));
    let reply = here(&world, 6, 0, BOOK, "\"second\"");
    world.join(BOOK, reply);
    assert_eq!((world.sent.take().pop(), world.read(2)), (Some("2 \"second\"".into()), vec![]));
}

#[test]
fn questions_caused_by_a_hostile_client_are_bounded() {
    let mut world = World::new();
    world.answered(VenueQuestion::Instruments, Reply { epoch: 7, names: vec!["X".into()], ..Reply::default() });
    world.open(1, "/");
    let names = |from: usize, form: &str| {
        let names: Vec<String> =
            (from..from + 500).map(|n| format!("\"{}\"", form.replace('#', &n.to_string()))).collect();
        format!(r#"{{"channels":[{}]}}"#, names.join(","))
    };
    // The venue is not asked for unknown instruments.
    world.text(1, "public/subscribe", &names(0, "book.NO#.100ms"));
    assert_eq!(world.asks(), []);
    assert!(world.sent.take()[0].contains("\"result\":[]"));
    for round in 0..10 {
        world.text(1, "public/subscribe", &names(round * 500, "trades.spot.C#.100ms"));
    }
    assert_eq!(world.asks().len(), JOINS_MAX / 500 * 500);
    assert!(world.sent.take()[0].contains("\"code\":10028"));
}

#[test]
fn many_aliases_do_not_evict_pending_names() {
    let mut world = World::new();
    world.open(1, "/");
    world.text(1, "public/subscribe", &format!(r#"{{"channels":["{BOOK}","{TRADES}"]}}"#));
    let asks = world.asks();
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.answered(asks[0].clone(), reply);
    for round in 0..2 {
        for n in 0..ALIASES_MAX {
            let reply = here(&world, 0, 0, QUOTE, "");
            world.answered(VenueQuestion::Join { name: format!("{round} {n}") }, reply);
        }
        assert!(world.node.subscriptions.channels.name_count() <= ALIASES_MAX + 2, "they are forgotten");
    }
    let reply = here(&world, 0, 0, TRADES, "");
    world.answered(asks[1].clone(), reply);
    let sent = world.sent.take();
    assert!(sent[0].contains(&format!(r#""result":["{BOOK}","{TRADES}"]"#)), "{sent:?}");
    world.live(&[(BOOK, 0), (TRADES, 0)]);
    assert_eq!(world.read(1), ["\"b1\"", "\"t2\""]);
}

#[test]
fn many_channels_need_several_keep_alive_questions() {
    let mut world = World::new();
    for n in 0..1_100 {
        let name = format!("trades.spot.C{n}.100ms");
        world.open(n, &format!("/?channels={name}"));
        let reply = here(&world, 0, 0, &name, "");
        world.join(&name, reply);
    }
    world.now.steady_ns += KEEP_NS;
    let kept: Vec<usize> = world
        .asks()
        .iter()
        .map(|ask| if let VenueQuestion::Keep { names } = ask { names.len() } else { panic!("{ask:?}") })
        .collect();
    assert_eq!(kept, [500, 500, 100]);
}

#[test]
fn reply_precedes_snapshots_and_lists_existing_channels() {
    let mut world = World::new();
    world.open(1, "/");
    assert_eq!(
        world.text(1, "public/subscribe", &format!(r#"{{"channels":["{BOOK}","book.NO.100ms","nonsense"]}}"#)),
        None
    );
    let names: Vec<VenueQuestion> = world.asks();
    assert_eq!(
        names,
        [VenueQuestion::Join { name: "book.NO.100ms".into() }, VenueQuestion::Join { name: BOOK.into() }]
    );
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.answered(names[1].clone(), reply);
    assert!(world.sent.0.is_empty(), "one is still asked for");
    let nothing = Reply { epoch: 7, outcome: ReplyOutcome::NotHere, ..Reply::default() };
    world.answered(names[0].clone(), nothing);
    let sent = world.sent.take();
    assert!(sent[0].starts_with(r#"1 {"jsonrpc":"2.0","id":9,"result":["book.X.100ms"],"#), "{sent:?}");
    assert_eq!(sent[1..], ["1 \"first\""]);
    let form = "no channel has this form; docs/dialect.md lists the channels and their intervals";
    let absent = "the kind, currency or index in this name does not exist here";
    let ignored = format!(
        r#""data":{{"ignored":[{{"channel":"nonsense","reason":"{form}"}},{{"channel":"book.NO.100ms","reason":"{absent}"}}]}}"#
    );
    assert!(sent[0].contains(&ignored), "{}", sent[0]);
}

#[test]
fn names_in_the_wrong_case_are_left_out_with_the_right_one() {
    let mut directory = crate::directory::InstrumentDirectory::default();
    directory.set(&["BTC-PERPETUAL".into(), "NPN_ZAR".into()]);
    for (name, reason) in [
        ("BOOK.npn_zar.100MS", "names are case-sensitive: book.NPN_ZAR.100ms"),
        ("trades.btc-perpetual.100ms", "names are case-sensitive: trades.BTC-PERPETUAL.100ms"),
        ("trades.spot.zar.100ms", "names are case-sensitive: trades.spot.ZAR.100ms"),
        ("book.NO.100ms", "no instrument is named \"NO\"; public/get_instruments lists them"),
        (
            "deribit_volatility_index.btc_usd",
            "this version does not serve this channel; docs/dialect.md lists those that it serves",
        ),
        ("nonsense", "no channel has this form; docs/dialect.md lists the channels and their intervals"),
    ] {
        assert_eq!(directory.why_ignored(name), reason, "{name}");
    }
}

#[test]
fn client_from_another_gateway_continues_at_its_position() {
    let mut world = World::new();
    world.live(&[(BOOK, 0), (TRADES, 0), (BOOK, 1), (BOOK, 3)]);
    world.open(1, &format!("/?envelope&channels={BOOK}&from=7:2"));
    let reply = here(&world, 4, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.live(&[(BOOK, 4)]);
    assert_eq!(world.sent.take(), Vec::<String>::new(), "no beginning");
    let wrapped = [(3, 1), (4, 3), (5, 4)]
        .map(|(seq, prev)| format!(r#"{{"epoch":7,"seq":{seq},"prev":{prev},"message":"b{seq}"}}"#));
    assert_eq!(world.read(1), wrapped);
    // A position that this gateway has not reached yet, which the venue confirms.
    world.open(2, &format!("/?envelope&channels={BOOK}&from=7:6"));
    let reply = here(&world, 6, 0, BOOK, "\"later\"");
    world.join(BOOK, reply);
    world.live(&[(BOOK, 5), (BOOK, 6)]);
    assert_eq!(world.sent.take(), Vec::<String>::new());
    assert_eq!(world.read(2), [r#"{"epoch":7,"seq":7,"prev":6,"message":"b7"}"#]);
}

#[test]
fn unknown_position_gets_a_gap_and_a_snapshot() {
    for (from, gap) in [
        // Positions before the channel was on the bus, in another start, and beyond the newest
        // message.
        ("7:1", Some(r#"1 {"type":"gap","from":2,"to":4,"epoch":7,"channel":"book.X.100ms"}"#)),
        ("6:1", None),
        ("7:99", None),
    ] {
        let mut world = World::new();
        world.live(&[(BOOK, 0), (TRADES, 0), (BOOK, 1), (BOOK, 3)]);
        world.open(1, &format!("/?envelope&channels={BOOK}&from={from}"));
        let reply = here(&world, 4, 3, BOOK, "\"first\"");
        world.join(BOOK, reply);
        let mut expected: Vec<String> = gap.into_iter().map(str::to_owned).collect();
        expected.push(r#"1 {"epoch":7,"seq":4,"snapshot":true,"message":"first"}"#.into());
        assert_eq!(world.sent.take(), expected, "{from}");
        world.live(&[(BOOK, 4)]);
        assert_eq!(world.read(1), [r#"{"epoch":7,"seq":5,"prev":4,"message":"b5"}"#]);
    }
}

#[test]
fn channels_keep_the_venues_order_and_states_are_conflated() {
    let mut world = World::new();
    world.open(1, &format!("/?channels={BOOK},{TRADES},{QUOTE}"));
    let asks = world.asks();
    for (ask, (name, first)) in asks.into_iter().zip([(BOOK, "\"B\""), (QUOTE, "\"Q\""), (TRADES, "")]) {
        assert_eq!(ask, VenueQuestion::Join { name: name.into() });
        let reply = here(&world, 0, 0, name, first);
        world.answered(ask, reply);
    }
    assert_eq!(world.sent.take(), ["1 \"B\"", "1 \"Q\""]);
    world.live(&[(QUOTE, 0), (TRADES, 0), (BOOK, 0), (QUOTE, 1)]);
    world.live(&[(BOOK, 3), (QUOTE, 4), (TRADES, 2)]);
    assert_eq!(world.read(1), ["\"t2\"", "\"b3\"", "\"b5\"", "\"q6\"", "\"t7\""]);
    // A new subscriber of a state begins with the newest message, not with an old snapshot.
    world.open(2, &format!("/?channels={QUOTE}"));
    assert_eq!((world.sent.take(), world.read(2)), (vec![], vec!["\"q6\"".into()]));
    world.text(1, "public/unsubscribe", &format!(r#"{{"channels":["{BOOK}"]}}"#));
    world.live(&[(BOOK, 5), (TRADES, 7)]);
    assert_eq!(world.read(1), ["\"t9\""]);
}

#[test]
fn restart_closes_plain_clients_and_notifies_enveloped_ones() {
    let mut world = World::new();
    world.open(1, &format!("/?channels={BOOK}"));
    world.open(2, &format!("/?envelope&channels={BOOK}"));
    world.open(3, "/");
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.live(&[(BOOK, 0)]);
    world.sent.take();
    (world.epoch, world.next) = (8, 1);
    world.live(&[(BOOK, 0)]);
    assert_eq!(world.asks(), [VenueQuestion::Status]);
    assert_eq!(world.sent.take(), Vec::<String>::new(), "a batch alone says nothing");
    world.answered(VenueQuestion::Status, Reply { epoch: 8, last: 1, oldest: 1, ..Reply::default() });
    assert_eq!(world.sent.take(), [r#"2 {"type":"epoch","epoch":8}"#, "1 !1013"]);
    world.now.steady_ns += 10_000_000_000;
    let asks = world.asks();
    assert_eq!(asks, [VenueQuestion::From { epoch: 8, seq: 1 }, VenueQuestion::Join { name: BOOK.into() }]);
    let reply = here(&world, 1, 0, BOOK, "\"anew\"");
    world.answered(asks[1].clone(), reply);
    assert_eq!(world.sent.take(), [r#"2 {"epoch":8,"seq":1,"snapshot":true,"message":"anew"}"#]);
}

#[test]
fn lagging_reader_is_closed_or_gets_a_gap() {
    let mut world = World::with_room(300);
    world.open(1, &format!("/?channels={BOOK}"));
    world.open(2, &format!("/?envelope&channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.live(&[(BOOK, 0)]);
    assert_eq!((world.read(1).len(), world.read(2).len()), (1, 1));
    world.sent.take();
    (1..30).for_each(|prev| world.live(&[(BOOK, prev)]));
    assert_eq!(world.read(1), ["!1013"]);
    assert_eq!(world.read(2), Vec::<String>::new());
    let reply = here(&world, 30, 0, BOOK, "\"again\"");
    world.join(BOOK, reply);
    assert_eq!(
        place_of_first(&world.sent.take()),
        [
            r#"{"type":"gap","from":2,"to":30,"epoch":7,"channel":"book.X.100ms"}"#,
            r#"{"epoch":7,"seq":30,"snapshot":true,"message":"again"}"#
        ]
    );
    world.live(&[(BOOK, 30)]);
    assert_eq!(world.read(2), [r#"{"epoch":7,"seq":31,"prev":30,"message":"b31"}"#]);
}

#[test]
fn dropped_channel_starts_again() {
    let mut world = World::new();
    world.open(1, &format!("/?envelope&channels={BOOK}"));
    world.open(2, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.live(&[(BOOK, 0)]);
    world.read(1);
    world.sent.take();
    world.now.steady_ns += KEEP_NS;
    let keep = VenueQuestion::Keep { names: vec![BOOK.into()] };
    assert_eq!(world.asks(), std::slice::from_ref(&keep));
    world.answered(keep, Reply { epoch: 7, last: 1, oldest: 1, names: vec![BOOK.into()], ..Reply::default() });
    assert_eq!(world.sent.take(), ["2 !1013"]);
    world.join_again(5, 5);
}

#[test]
fn channel_that_left_and_returned_starts_again() {
    let mut world = World::new();
    for (id, target) in [(1, "/?envelope&channels="), (2, "/?channels=")] {
        world.open(id, &format!("{target}{BOOK}"));
    }
    let reply = here(&world, 1, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.sent.take();
    // Another gateway's join has put the channel back. A second answer with the same `since`
    // changes nothing.
    for (since, sent) in [(0, vec![]), (5, vec!["2 !1013", "gap", "again"])] {
        let reply = here(&world, 5, since, BOOK, "\"again\"");
        world.answered(VenueQuestion::Join { name: BOOK.into() }, reply);
        let answered = world.sent.take();
        assert_eq!(answered.len(), sent.len(), "{answered:?}");
        assert!(answered.iter().zip(sent).all(|(text, part)| text.contains(part)), "{answered:?}");
    }
}

#[test]
fn channel_returned_by_another_gateway_starts_again() {
    // The answer to this gateway's own join may overtake the removal on the bus, or not arrive at
    // all.
    for has_joined_since in [false, true] {
        let mut world = World::new();
        world.open(1, &format!("/?envelope&channels={BOOK}"));
        world.open(2, &format!("/?channels={BOOK}"));
        world.open(3, &format!("/?channels={TRADES}"));
        let asks = world.asks();
        for (ask, name) in asks.into_iter().zip([BOOK, TRADES]) {
            assert_eq!(ask, VenueQuestion::Join { name: name.into() });
            let reply = here(&world, 0, 0, name, "\"first\"");
            world.answered(ask, reply);
        }
        world.live(&[(BOOK, 0)]);
        assert_eq!((world.read(1).len(), world.read(2)), (1, vec!["\"b1\"".into()]));
        world.sent.take();
        if has_joined_since {
            let reply = here(&world, 2, 2, BOOK, "\"again\"");
            world.answered(VenueQuestion::Join { name: BOOK.into() }, reply);
            assert_eq!(world.sent.take().len(), 3);
        }
        world.remove_channel(BOOK);
        // The channel is back on the bus by another gateway's join.
        world.live(&[(BOOK, 0), (TRADES, 0)]);
        if has_joined_since {
            assert_eq!(world.sent.take(), Vec::<String>::new(), "it was known");
            assert_eq!(world.read(1), [r#"{"epoch":7,"seq":3,"prev":0,"message":"b3"}"#]);
            continue;
        }
        assert_eq!(world.sent.take(), ["2 !1013"]);
        assert_eq!((world.read(1), world.read(2)), (vec![], vec![]));
        assert_eq!(world.read(3), ["\"t4\""]);
        world.join_again(4, 2);
    }
}

#[test]
fn failed_question_fails_the_waiting_requests() {
    let mut world = World::new();
    world.open(1, "/");
    world.text(1, "public/subscribe", &format!(r#"{{"channels":["{BOOK}"]}}"#));
    let ask = VenueQuestion::Join { name: BOOK.into() };
    assert_eq!(world.asks(), std::slice::from_ref(&ask));
    world.node.answered(&ask, Err("it is away".into()), world.now, &mut world.sent);
    let sent = world.sent.take();
    assert!(sent[0].contains("\"code\":10040") && sent[0].contains("it is away"), "{sent:?}");
    assert!(!world.node.is_venue_up);
    // The next request asks again.
    world.text(1, "public/subscribe", &format!(r#"{{"channels":["{BOOK}"]}}"#));
    assert_eq!(world.asks(), [ask]);
}

#[test]
fn waiting_requests_are_bounded_and_login_allows_raw_channels() {
    let mut world = World::new();
    world.open(1, "/");
    let call = world.text(1, "public/auth", "{}").unwrap();
    assert!(call.is_login);
    let bodies = [
        &br#"{"id":9,"error":{"code":13004}}"#[..],
        br#"{"id":{"access_token":1,"result":{"access_token":1}},"error":{"code":13004}}"#,
        br#"{"id":9,"result":{"access_token":"x"}}"#,
    ];
    for body in bodies {
        world.text(1, "public/subscribe", r#"{"channels":["book.X.raw"]}"#);
        assert!(world.sent.take()[0].contains("\"code\":13778"));
        world.node.call_answered(1, &call, Ok(body), world.now, &mut world.sent);
        assert_eq!(world.sent.take(), [format!("1 {}", String::from_utf8_lossy(body))]);
    }
    world.text(1, "public/subscribe", r#"{"channels":["book.X.raw"]}"#);
    assert_eq!(world.asks(), [VenueQuestion::Join { name: "book.X.raw".into() }]);
    let mut asked = 1;
    while world.text(1, "public/get_time", "{}").is_some() {
        asked += 1;
    }
    assert_eq!(asked, WAITING_MAX);
    assert!(world.sent.take()[0].contains("\"code\":10028"));
    world.node.call_answered(1, &call, Ok(b"{}"), world.now, &mut world.sent);
    assert!(world.text(1, "public/get_time", "{}").is_some());
}

#[test]
fn position_of_an_earlier_start_does_not_move_the_venue() {
    let mut node = Node::new("1", 1 << 20);
    assert!(node.may_follow(1));
    node.venue_epoch = 6;
    assert_eq!([5, 6, 7].map(|epoch| node.may_follow(epoch)), [false, true, true]);
    let world = World::new();
    assert_eq!([6, 7, 8].map(|epoch| world.node.may_follow(epoch)), [false, true, true]);
}

#[test]
fn unused_channels_leave_the_bus_after_a_while() {
    let mut world = World::new();
    world.open(1, &format!("/?channels={BOOK}"));
    let reply = here(&world, 0, 0, BOOK, "\"first\"");
    world.join(BOOK, reply);
    world.node.disconnected(1);
    for seconds in [15, 30, 45, 60, 75] {
        world.now.steady_ns = 1_000 + seconds * 1_000_000_000;
        let names = if seconds < 60 { vec![BOOK.to_owned()] } else { vec![] };
        assert_eq!(world.asks(), [VenueQuestion::Keep { names }], "{seconds}");
    }
    world.open(2, &format!("/?channels={BOOK}"));
    assert_eq!(
        world.asks(),
        [VenueQuestion::Join { name: BOOK.into() }],
        "its messages may not have been on the bus meanwhile"
    );
}

#[test]
fn heartbeats_go_to_subscribers_only() {
    let mut world = World::new();
    world.open(1, "/");
    world.text(1, "public/set_heartbeat", r#"{"interval":10}"#);
    world.sent.take();
    let beat = |world: &mut World, seconds: u64| {
        world.node.beat(1_000 + seconds * 1_000_000_000, &mut world.sent);
        world.sent.take().len()
    };
    assert_eq!((beat(&mut world, 9), beat(&mut world, 10)), (0, 2));
    world.text(1, "public/test", "{}");
    world.sent.take();
    assert_eq!(beat(&mut world, 20), 2);
    world.node.beat(1_000 + 30_000_000_000, &mut world.sent);
    assert_eq!(world.sent.take()[1], "1 !1008");
}

#[test]
fn url_streams_are_channels_of_the_bus() {
    let mut world = World::new();
    world.answered(VenueQuestion::Instruments, Reply { epoch: 7, names: vec!["NPN_ZAR".into()], ..Reply::default() });
    world.open(1, "/ws/npnzar@trade/npnzar@bookTicker");
    let (trade, touch) = ("stream/npnzar@trade", "stream/npnzar@bookTicker");
    let asks = world.asks();
    assert_eq!(asks, [VenueQuestion::Join { name: touch.into() }, VenueQuestion::Join { name: trade.into() }]);
    for (ask, (name, conflates)) in asks.into_iter().zip([(touch, true), (trade, false)]) {
        let reply = Reply { conflates, ..here(&world, 0, 0, name, "") };
        world.answered(ask, reply);
    }
    world.live(&[(trade, 0), (touch, 0), (trade, 1), (touch, 2)]);
    assert_eq!(world.read(1), ["\"s1\"", "\"s3\"", "\"s4\""]);
    let sent = |world: &mut World, text: &str| {
        world.node.text(1, text, world.now, &mut world.sent);
        world.sent.take()
    };
    assert_eq!(
        sent(&mut world, r#"{"method":"UNSUBSCRIBE","params":["npnzar@trade"],"id":5}"#),
        [r#"1 {"result":null,"id":5}"#]
    );
    world.live(&[(trade, 3), (touch, 4)]);
    assert_eq!(world.read(1), ["\"s6\""]);
    for (target, status) in [
        ("/ws/npnzar@trade", None),
        ("/ws/agl@trade", Some(400)),
        ("/v1/marketdata/npnzar", None),
        ("/v1/marketdata/npnzar?study=1", None),
        ("/ws/api/v2", None),
    ] {
        assert_eq!(world.node.refusal(target).map(|refused| refused.status), status, "{target}");
    }
}

#[test]
fn socket_numbers_start_at_zero() {
    let mut world = World::new();
    let names = vec!["NPN_ZAR".into(), "AGL_ZAR".into()];
    world.answered(VenueQuestion::Instruments, Reply { epoch: 7, names, ..Reply::default() });
    let text = |number: u64, rest: &str| format!(r#"{{"eventId":9,"socket_sequence":{number},{rest}}}"#);
    // One connection has two streams under one count. Another has the first stream with the
    // stream's numbers, a third has envelopes.
    world.open(1, "/v1/multimarketdata?symbols=NPNZAR,AGLZAR&trades=true");
    world.open(2, "/v1/multimarketdata?symbols=NPNZAR&trades=true&study=1");
    world.open(3, "/v1/multimarketdata?symbols=NPNZAR&trades=true&envelope");
    let (npn, agl) = ("stream/gemini/v1/npnzar?tsn", "stream/gemini/v1/aglzar?tsn");
    let asks = world.asks();
    assert_eq!(
        asks,
        [VenueQuestion::Join { name: agl.into() }, VenueQuestion::Join { name: npn.into() }],
        "one stream for all of them"
    );
    for (ask, (name, number)) in asks.into_iter().zip([(agl, 40), (npn, 700)]) {
        let reply = here(&world, 0, 0, name, &text(number, r#""events":[]"#));
        world.answered(ask, reply);
    }
    // Text inside a message is never taken for its number.
    let events = r#""events":["\"socket_sequence\":5"]"#;
    world.live_text(npn, 0, &text(701, events));
    world.live_text(agl, 0, &text(41, events));
    let wrap = |text: String| format!(r#"{{"epoch":7,"seq":1,"prev":0,"message":{text}}}"#);
    let first = |to: u64, number: u64| format!("{to} {}", text(number, r#""events":[]"#));
    let mut sent = world.sent.take();
    sent.retain(|text| !text.starts_with('3'));
    sent.sort_unstable();
    assert_eq!(sent, [first(1, 0), first(1, 1), first(2, 700)]);
    assert_eq!(world.read(1), [text(2, events), text(3, events)]);
    assert_eq!(world.read(2), [text(701, events)]);
    assert_eq!(world.read(3), [wrap(text(1, events))]);
    world.live_text(agl, 2, &text(42, events));
    assert_eq!(world.read(1), [text(4, events)]);
}
