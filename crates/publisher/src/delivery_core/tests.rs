//! Randomized tests of the delivery core: sockets accept random amounts, and all bytes are checked.

#![allow(clippy::cast_possible_truncation)]

mod ask;
mod lagging;
mod outbox;

use pitwire_random::SplitMix64;
use std::collections::BTreeMap;
use std::sync::Arc;

use pitwire_net::HttpResponse;
use pitwire_websocket::Inflater;

use super::*;
use crate::handler::{ClientMessage, Reply, Request, SubscriberSetup};
use crate::subscriber::WAITING_WEIGHT_MOST;
use pitwire_delivery::{LagPolicy, StreamSpec};

const NEVER_MS: u32 = u32::MAX / 4;

/// A handler whose paths name streams: `/0` is one, `/0,2` are two.
struct Paths;

impl DeliveryHandler for Paths {
    fn open(&self, request: &Request<'_>) -> Result<SubscriberSetup, HttpResponse> {
        let streams = request.path()[1..].split(',').map(|id| StreamId(id.parse().unwrap())).collect();
        let keys =
            request.parameter("symbols").map(|keys| keys.split(',').map(|key| key.as_bytes().to_vec()).collect());
        let enveloped = request.parameter("envelope").is_some();
        let from = request.parameter("from").and_then(|from| from.split_once(':'));
        let from = from.map(|(epoch, seq)| (epoch.parse().unwrap(), seq.parse().unwrap()));
        Ok(SubscriberSetup { streams, keys, enveloped, from, ..SubscriberSetup::default() })
    }

    fn received(&self, _: SubscriberId, message: ClientMessage<'_>, reply: &mut Reply) {
        if let ClientMessage::Text(text) = message {
            reply.text(text.as_bytes());
        }
    }
}

const LAGS: [LagPolicy; 3] = [LagPolicy::Conflate, LagPolicy::Close, LagPolicy::Latest];
const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

struct World {
    core: DeliveryCore,
    chance: SplitMix64,
    /// Key index of each message per stream, from message 1.
    key_log: [Vec<usize>; 3],
    /// Number of messages in all streams.
    all: u64,
    peers: Vec<Peer>,
    now_ns: u64,
    /// Whether some clients offer compression.
    is_offered: bool,
    /// Whether messages are also published during passes.
    is_meanwhile: bool,
}

struct Peer {
    slot: u32,
    target: &'static str,
    /// Newest number of each stream at the time it connected.
    from: [u64; 3],
    got: Vec<u8>,
    /// Expected echoes and pongs, in order.
    asked: Vec<String>,
    is_gone: bool,
    is_blocked: bool,
    /// Whether it disconnected by itself. Its bytes are not checked.
    has_left: bool,
}

fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode, 0x80 | u8::try_from(payload.len()).unwrap(), 1, 2, 3, 4];
    out.extend(payload.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}

impl World {
    fn new(seed: u64) -> Self {
        let settings = CoreSettings {
            handler: Arc::new(Paths),
            statistics: Arc::new(SharedStatistics::new(1, None, None)),
            thread: 0,
            limits: SubscriberLimits { ping_ms: 50, idle_ms: NEVER_MS, parting_ms: NEVER_MS, ..Default::default() },
            origins: OriginPolicy::new("127.0.0.1".parse().unwrap(), &[]),
            epoch: 1,
            answer: Arc::from([]),
            seed,
            enveloped: false,
        };
        let mut core = DeliveryCore::new(settings);
        for (at, lag) in LAGS.iter().enumerate() {
            core.fanout.context.statistics.add_stream();
            let spec =
                StreamSpec { name: format!("s{at}"), lag: *lag, ring_bytes: 8192, snapshot: false, keep: at == 0 };
            core.control(ControlMessage::Create(spec));
        }
        let chance = SplitMix64::new(seed);
        World {
            core,
            chance,
            key_log: Default::default(),
            all: 0,
            peers: Vec::new(),
            now_ns: 0,
            is_offered: false,
            is_meanwhile: false,
        }
    }

    fn come(&mut self) {
        let targets = ["/0", "/1", "/2", "/0?symbols=b,d", "/0?envelope=1", "/0,2", "/2,0,1", "/0,1?envelope=1"];
        let target = targets[self.chance.below(8) as usize];
        let slot = self.core.insert();
        let offers = ["", "permessage-deflate", "permessage-deflate; server_max_window_bits=9"];
        let offer = if self.is_offered { offers[self.chance.below(8).saturating_sub(5) as usize] } else { "" };
        let extensions =
            if offer.is_empty() { String::new() } else { format!("Sec-WebSocket-Extensions: {offer}\r\n") };
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extensions}\r\n"
        );
        // Input may arrive in pieces.
        let cut = self.chance.below(head.len() as u64) as usize;
        self.core.received(slot, &head.as_bytes()[..cut]);
        self.core.received(slot, &head.as_bytes()[cut..]);
        let from = [0, 1, 2].map(|at: usize| self.key_log[at].len() as u64);
        self.peers.push(Peer {
            slot,
            target,
            from,
            got: Vec::new(),
            asked: Vec::new(),
            is_gone: false,
            is_blocked: false,
            has_left: false,
        });
    }

    fn publish(&mut self) {
        let stream = self.chance.below(3) as usize;
        let key = self.chance.below(5) as usize;
        self.key_log[stream].push(key);
        let seq = self.key_log[stream].len() as u64;
        let pad = "x".repeat(self.chance.below(300) as usize);
        self.all += 1;
        let text = format!(r#"{{"s":{stream},"n":{seq},"g":{},"k":"{}","p":"{pad}"}}"#, self.all, KEYS[key]);
        self.core.fanout.append(StreamId(stream as u32), KEYS[key].as_bytes(), seq, false, text.as_bytes());
    }

    fn ask(&mut self) {
        let at = self.chance.below(self.peers.len() as u64) as usize;
        let text = format!("echo-{}", self.chance.below(1_000_000));
        let peer = &mut self.peers[at];
        if peer.is_gone || peer.asked.len() > 20 {
            return;
        }
        let frame = masked(1, text.as_bytes());
        peer.asked.push(text);
        let cut = self.chance.below(frame.len() as u64) as usize;
        self.core.received(peer.slot, &frame[..cut]);
        self.core.received(peer.slot, &frame[cut..]);
    }

    /// Disconnects one random client.
    fn go(&mut self) {
        let at = self.chance.below(self.peers.len() as u64) as usize;
        if !self.peers[at].is_gone {
            self.peers[at].has_left = true;
            self.core.input_ended(self.peers[at].slot);
        }
    }

    /// Runs one pass. Sockets accept all, some or none of the bytes; all if `generous`.
    fn sweep(&mut self, generous: bool) {
        let mut due = Vec::new();
        let sweep = if self.chance.below(2) == 0 { PassKind::First } else { PassKind::Next };
        self.core.due(&mut due, sweep);
        for slot in due {
            if self.is_meanwhile && !generous && self.chance.below(8) == 0 && !self.core.must_serve() {
                self.publish();
            }
            let at = self.peers.iter().position(|peer| peer.slot == slot && !peer.is_gone).unwrap();
            loop {
                match self.core.prepare(slot) {
                    Next::Idle => break,
                    Next::Shut => {
                        self.core.shut(slot);
                        break;
                    }
                    Next::Send => {}
                }
                let pieces = self.core.gather(slot);
                let all: Vec<u8> = pieces.as_slice().concat();
                assert!(!all.is_empty() && all.len() == pieces.bytes());
                let takes = match self.chance.below(4) {
                    _ if generous => all.len(),
                    0 => self.chance.below(all.len() as u64 + 1) as usize,
                    _ => all.len(),
                };
                self.peers[at].got.extend_from_slice(&all[..takes]);
                if takes > 0 {
                    self.core.sent(slot, takes);
                }
                if takes < all.len() {
                    self.core.blocked(slot);
                    self.peers[at].is_blocked = true;
                    break;
                }
            }
        }
        let mut gone = Vec::new();
        self.core.take_finished(&mut gone);
        for slot in gone {
            self.peers.iter_mut().filter(|peer| peer.slot == slot).for_each(|peer| peer.is_gone = true);
            self.core.remove(slot);
        }
    }

    fn unblock(&mut self, one_in: u64) {
        for peer in self.peers.iter_mut().filter(|peer| peer.is_blocked && !peer.is_gone) {
            if self.chance.below(one_in) == 0 {
                peer.is_blocked = false;
                self.core.writable(peer.slot);
            }
        }
    }

    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now_ns += 1_000_000 * (1 + self.chance.below(5));
            self.core.set_now(self.now_ns);
            for _ in 0..self.chance.below(6) {
                if self.core.must_serve() {
                    break;
                }
                self.publish();
            }
            if self.peers.len() < 40 && self.chance.below(3) == 0 {
                self.come();
            }
            if !self.peers.is_empty() && self.chance.below(4) == 0 {
                self.ask();
            }
            if self.peers.len() > 10 && self.chance.below(30) == 0 {
                self.go();
            }
            self.unblock(40);
            self.sweep(false);
        }
        for _ in 0..200 {
            self.unblock(1);
            self.sweep(true);
        }
    }
}

/// Expected state of one reader of a stream.
struct ReaderModel<'a> {
    key_log: &'a [usize],
    wanted: Option<&'a [usize]>,
    lag: LagPolicy,
    /// Next expected number, and the newest received number of each key.
    next: u64,
    newest: BTreeMap<usize, u64>,
    gap_to: u64,
    in_gap: u64,
    gaps: usize,
}

impl ReaderModel<'_> {
    fn wants(&self, seq: u64) -> bool {
        self.wanted.is_none_or(|keys| keys.contains(&self.key_log[seq as usize - 1]))
    }

    fn take(&mut self, seq: u64) {
        let key = self.key_log[seq as usize - 1];
        assert!(self.wants(seq), "not asked for");
        if seq >= self.next {
            if self.lag != LagPolicy::Latest {
                assert!((self.next..seq).all(|other| !self.wants(other)), "{seq} came instead of {}", self.next);
            }
            self.next = seq + 1;
        } else {
            assert!(self.lag == LagPolicy::Conflate && seq <= self.gap_to && seq > self.in_gap, "{seq} came twice");
            let later = self.key_log[seq as usize..self.gap_to as usize].contains(&key);
            assert!(!later, "{seq} is not the newest of its key in the gap");
            self.in_gap = seq;
        }
        assert!(self.newest.insert(key, seq).is_none_or(|before| before < seq));
    }

    fn miss(&mut self, from: u64, to: u64) {
        assert_eq!(self.lag, LagPolicy::Conflate);
        assert!(from <= to && to <= self.key_log.len() as u64);
        // It fell behind again before the messages after a notice were complete. The rest is
        // declared once more.
        let is_again = self.gap_to + 1 == self.next && (self.in_gap + 1..self.next).contains(&from);
        let is_next = from >= self.next && (self.next..from).all(|other| !self.wants(other));
        assert!(is_again || is_next, "{from} after {}", self.next);
        if self.gap_to + 1 != from && !is_again {
            self.in_gap = from - 1;
        }
        (self.next, self.gap_to, self.gaps) = (to + 1, to, self.gaps + 1);
    }

    /// Checks at the end that the newest message of each key has arrived.
    fn end(&self, since: u64) {
        for (key, name) in KEYS.iter().enumerate() {
            let newest =
                (since + 1..=self.key_log.len() as u64).rev().find(|seq| self.key_log[*seq as usize - 1] == key);
            let is_wanted = self.wanted.is_none_or(|keys| keys.contains(&key));
            if self.lag != LagPolicy::Latest && is_wanted {
                assert_eq!(self.newest.get(&key).copied(), newest, "the newest of {name}");
            }
        }
        if self.lag == LagPolicy::Latest {
            let last = self.newest.values().max().copied().unwrap_or(since);
            assert_eq!(last, self.key_log.len() as u64);
        }
    }
}

fn number(text: &str, name: &str) -> Option<u64> {
    let at = text.find(&format!("\"{name}\":"))? + name.len() + 3;
    text[at..].split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Checks all bytes that one client received. Returns the number of gaps, and whether it was closed
/// as slow. Shed messages arrive stream by stream, so then the order across streams is not checked.
fn judge(peer: &Peer, key_log: &[Vec<usize>; 3], is_shed: bool) -> (usize, bool) {
    let streams: Vec<usize> =
        peer.target[1..].split('?').next().unwrap().split(',').map(|id| id.parse().unwrap()).collect();
    let is_enveloped = peer.target.contains("envelope");
    let mut readings: BTreeMap<usize, ReaderModel<'_>> = BTreeMap::new();
    for at in &streams {
        let wanted: Option<&[usize]> = peer.target.contains("symbols").then_some(&[1, 3]);
        let (next, key_log) = (peer.from[*at] + 1, key_log[*at].as_slice());
        let (newest, lag) = (BTreeMap::new(), LAGS[*at]);
        readings.insert(*at, ReaderModel { key_log, wanted, lag, next, newest, gap_to: 0, in_gap: 0, gaps: 0 });
    }
    let head = peer.got.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer") + 4;
    assert!(peer.got.starts_with(b"HTTP/1.1 101"));
    let is_deflating = String::from_utf8_lossy(&peer.got[..head]).contains("permessage-deflate");
    let (mut bytes, mut asked, mut closed) = (&peer.got[head..], peer.asked.iter(), None);
    let mut newest = 0;
    while let [first, second, rest @ ..] = bytes {
        assert!(closed.is_none(), "nothing follows a close frame");
        let (len, rest) = match second {
            126 => (u16::from_be_bytes([rest[0], rest[1]]) as usize, &rest[2..]),
            len => (usize::from(*len), rest),
        };
        assert!(rest.len() >= len, "a whole frame at the end");
        let (payload, behind) = rest.split_at(len);
        bytes = behind;
        let mut inflated = Vec::new();
        let (first, payload) = match first {
            0xC1 => {
                assert!(is_deflating);
                Inflater::new(15).inflate_whole(payload, &mut inflated, 1 << 20).unwrap();
                (&0x81, inflated.as_slice())
            }
            first => (first, payload),
        };
        let text = std::str::from_utf8(payload).unwrap_or("");
        match first {
            0x89 => assert!(payload.is_empty()),
            0x88 => closed = Some(u16::from_be_bytes([payload[0], payload[1]])),
            0x81 if text.starts_with("echo-") => assert_eq!(asked.next().map(String::as_str), Some(text)),
            0x81 if text.starts_with("{\"type\":\"gap\"") => {
                // Only stream 0 sends gap notices.
                let (from, to) = (number(text, "from").unwrap(), number(text, "to").unwrap());
                readings.get_mut(&0).unwrap().miss(from, to);
            }
            0x81 => {
                assert_eq!(text.starts_with("{\"channel\":"), is_enveloped);
                let (stream, seq) = (number(text, "s").unwrap() as usize, number(text, "n").unwrap());
                assert!(!is_enveloped || number(text, "seq") == Some(seq));
                let reading = readings.get_mut(&stream).unwrap();
                if seq >= reading.next {
                    // Streams are merged in the order of publication, except within a gap.
                    let all = number(text, "g").unwrap();
                    assert!(all > newest || is_shed, "message {all} after {newest}");
                    newest = all;
                }
                reading.take(seq);
            }
            other => panic!("a frame that begins with {other:#x}"),
        }
    }
    match closed {
        None => {
            assert!(asked.next().is_none(), "everything is answered");
            readings.iter().for_each(|(at, reading)| reading.end(peer.from[*at]));
        }
        Some(code) => assert!(code == 1013 && streams.contains(&1), "only slow readers of deltas are closed: {code}"),
    }
    (readings.values().map(|reading| reading.gaps).sum(), closed.is_some())
}

#[test]
fn every_message_is_delivered_or_declared_missing() {
    let first = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut gaps, mut closed, mut peers) = (0, 0, 0);
    for seed in first.map_or(1..60, |seed| seed..seed + 1) {
        println!("TEST_SEED={seed}");
        let mut world = World::new(seed);
        world.is_meanwhile = seed % 2 == 0;
        world.run(600);
        for peer in world.peers.iter().filter(|peer| !peer.has_left) {
            let (some, is_closed) = judge(peer, &world.key_log, false);
            gaps += some;
            closed += usize::from(is_closed);
            peers += 1;
        }
    }
    println!("{peers} readers, {gaps} gaps, {closed} closed");
    assert!(first.is_some() || (gaps > 200 && closed > 100), "{peers} readers, {gaps} gaps, {closed} closed");
}

/// A reader of 600 keys. Its walk through the latest messages takes many turns while more messages
/// are published.
#[test]
fn interrupted_catch_up_of_many_keys_loses_nothing() {
    const MANY: u64 = 600;
    let mut gaps = 0;
    for seed in 1..20 {
        let mut world = World::new(seed);
        let spec = StreamSpec {
            name: "many".into(),
            lag: LagPolicy::Conflate,
            ring_bytes: 16_384,
            snapshot: true,
            keep: true,
        };
        world.core.fanout.context.statistics.add_stream();
        world.core.control(ControlMessage::Create(spec));
        let mut key_log: Vec<u64> = Vec::new();
        let pad = "x".repeat(300);
        let say = |world: &mut World, key_log: &mut Vec<u64>| {
            let key = if key_log.len() < MANY as usize { key_log.len() as u64 } else { world.chance.below(MANY) };
            key_log.push(key);
            let text = format!(r#"{{"n":{},"k":{key},"p":"{pad}"}}"#, key_log.len());
            world.core.fanout.append(
                StreamId(3),
                key.to_string().as_bytes(),
                key_log.len() as u64,
                false,
                text.as_bytes(),
            );
        };
        for _ in 0..MANY {
            say(&mut world, &mut key_log);
            world.sweep(true);
        }
        let slot = world.core.insert();
        let head = "GET /3 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        world.core.received(slot, head.as_bytes());
        let mut got = Vec::new();
        for turn in 0..2_000 {
            // With odd seeds, publish so rarely that it keeps up during its walk.
            if turn < 1_800 && (seed % 2 == 0 || turn % 40 == 0) {
                say(&mut world, &mut key_log);
            }
            let mut due = Vec::new();
            world.core.due(&mut due, PassKind::First);
            // The socket accepts bytes now and then, and all of them in the end.
            let takes = if turn >= 1_800 { usize::MAX } else { 3_000 * usize::from(world.chance.below(20) == 0) };
            world.core.writable(slot);
            while takes > 0 && world.core.prepare(slot) == Next::Send {
                let all: Vec<u8> = world.core.gather(slot).as_slice().concat();
                let count = all.len().min(takes);
                got.extend_from_slice(&all[..count]);
                world.core.sent(slot, count);
                if count < all.len() {
                    break;
                }
            }
            world.core.blocked(slot);
        }
        gaps += judge_walk(&got, &key_log);
    }
    assert!(gaps > 10, "{gaps} gaps");
}

/// Checks that numbers rise except within a gap, that every message is received or declared, and
/// that the newest of each key has arrived.
fn judge_walk(got: &[u8], key_log: &[u64]) -> usize {
    let mut bytes = &got[got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4..];
    let (mut newest, mut gaps): (BTreeMap<u64, u64>, usize) = (BTreeMap::new(), 0);
    // It connected at message 600, so its snapshot is everything before.
    let (mut next, mut until, mut walked) = (601, 600, 0);
    while let [first, second, rest @ ..] = bytes {
        let (len, rest) = match second {
            126 => (u16::from_be_bytes([rest[0], rest[1]]) as usize, &rest[2..]),
            len => (usize::from(*len), rest),
        };
        bytes = &rest[len..];
        let text = std::str::from_utf8(&rest[..len]).unwrap();
        if *first == 0x89 {
            continue;
        }
        if text.starts_with("{\"type\":\"gap\"") {
            let (from, to) = (number(text, "from").unwrap(), number(text, "to").unwrap());
            assert!(from == next && to >= from);
            (next, until, gaps) = (to + 1, to, gaps + 1);
            continue;
        }
        let (seq, key) = (number(text, "n").unwrap(), number(text, "k").unwrap());
        assert_eq!(key_log[seq as usize - 1], key);
        if seq == next {
            next += 1;
            walked = seq;
        } else {
            assert!(seq <= until && seq > walked, "{seq} out of turn: {next} was next, {walked} walked");
            assert!(!key_log[seq as usize..until as usize].contains(&key), "{seq} is not the newest of its key");
            walked = seq;
        }
        assert!(newest.insert(key, seq).is_none_or(|before| before < seq));
    }
    assert_eq!(next, key_log.len() as u64 + 1);
    let mut expected = BTreeMap::new();
    for (seq, key) in (1_u64..).zip(key_log) {
        expected.insert(*key, seq);
    }
    assert_eq!(newest, expected, "of each key the newest");
    gaps
}

const HEAD: &str = "GET /0 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Takes all pending bytes of a subscriber.
fn take_bytes(core: &mut DeliveryCore, slot: u32) -> Vec<u8> {
    let mut got = Vec::new();
    core.writable(slot);
    while core.prepare(slot) == Next::Send {
        let all: Vec<u8> = core.gather(slot).as_slice().concat();
        core.sent(slot, all.len());
        got.extend_from_slice(&all);
    }
    got
}

/// Takes all pending bytes of a subscriber. Returns the frames as text, separated by bars.
fn take_all(core: &mut DeliveryCore, slot: u32) -> String {
    let got = take_bytes(core, slot);
    let head = got.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
    let (mut bytes, mut out) = (&got[head..], Vec::new());
    while let [_, len, rest @ ..] = bytes {
        let (payload, behind) = rest.split_at(usize::from(*len));
        out.push(String::from_utf8_lossy(payload).into_owned());
        bytes = behind;
    }
    out.join("|")
}

/// Takes all pending bytes of a subscriber. Returns the opcodes of the frames.
fn opcodes(core: &mut DeliveryCore, slot: u32) -> Vec<u8> {
    let got = take_bytes(core, slot);
    let (mut bytes, mut out) = (&got[..], Vec::new());
    while let [first, second, rest @ ..] = bytes {
        let (len, rest) = match second {
            126 => (usize::from(u16::from_be_bytes([rest[0], rest[1]])), &rest[2..]),
            len => (usize::from(*len), rest),
        };
        out.push(first & 15);
        bytes = &rest[len..];
    }
    out
}

/// Publishes one message per letter. The letter is its key.
fn put(inbox: &crate::inbox::Inbox, stream: StreamId, first: u64, keys: &str) {
    let (mut bytes, mut messages) = (Vec::new(), Vec::new());
    for (seq, key) in (first..).zip(keys.bytes()) {
        let start = bytes.len();
        let text = format!("{}{seq}", char::from(key));
        bytes.push(key);
        bytes.extend_from_slice(text.as_bytes());
        messages.push(QueuedMessage { stream, seq, start, key_len: 1, len: text.len(), is_binary: false });
    }
    inbox.put(&messages, &bytes);
}

fn come(core: &mut DeliveryCore, target: &str) -> u32 {
    let slot = core.insert();
    core.received(slot, HEAD.replacen("/0", target, 1).as_bytes());
    slot
}

#[test]
fn shed_messages_are_declared_to_all_readers() {
    let inbox = crate::inbox::Inbox::new(64);
    let mut world = World::new(1);
    let core = &mut world.core;
    let readers = [core.insert(), core.insert()];
    readers.iter().for_each(|slot| core.received(*slot, HEAD.as_bytes()));
    let put = |first, keys| put(&inbox, StreamId(0), first, keys);
    // The first batch is accepted at any size. It exceeds the 64 bytes of the queue.
    put(1, "aaaaaaaaaaaaaaaaaaa");
    put(20, "abcabcabc");
    put(29, "b");
    assert!(!core.take(&inbox));
    put(30, "c");
    assert!(!core.take(&inbox));
    let before: Vec<String> = (1..20).map(|seq| format!("a{seq}")).collect();
    let expected = before.join("|") + r#"|{"type":"gap","from":20,"to":29}|a26|c28|b29|c30"#;
    for slot in readers {
        assert_eq!(take_all(core, slot), expected);
    }
    assert_eq!(crate::statistics::counted(&core.fanout.context.statistics, "shed_total"), 10);
}

#[test]
fn reader_blocked_beyond_lag_ms_is_slow_at_any_byte_count() {
    let mut world = World::new(1);
    let core = &mut world.core;
    core.fanout.context.limits.lag_ms = 1_000;
    core.fanout.context.limits.ping_ms = 0;
    core.set_now(0);
    let (quick, slow) = (core.insert(), core.insert());
    [quick, slow].iter().for_each(|slot| core.received(*slot, HEAD.as_bytes()));
    assert_eq!((take_all(core, quick), take_all(core, slow)), (String::new(), String::new()));
    core.fanout.append(StreamId(0), b"k", 1, false, b"one");
    assert_eq!(core.prepare(slow), Next::Send);
    // Two of the frame's five bytes are sent, then the socket blocks.
    core.sent(slow, 2);
    core.blocked(slow);
    core.fanout.append(StreamId(0), b"k", 2, false, b"two");
    core.set_now(900_000_000);
    core.fanout.append(StreamId(0), b"k", 3, false, b"three");
    assert_eq!(take_all(core, quick), "one|two|three");
    core.set_now(1_400_000_000);
    core.fanout.append(StreamId(0), b"k", 4, false, b"four");
    core.writable(slow);
    // First the rest of the partly sent frame, then the missed messages.
    let rest: Vec<u8> = core.gather(slow).as_slice().concat();
    assert_eq!(rest, b"one");
    core.sent(slow, 3);
    assert_eq!(take_all(core, slow), r#"{"type":"gap","from":2,"to":4}|four"#);
    assert_eq!(take_all(core, quick), "four");
}

#[test]
fn shed_messages_are_declared_to_resuming_readers() {
    let inbox = crate::inbox::Inbox::new(64);
    let mut world = World::new(1);
    let core = &mut world.core;
    let reader = come(core, "/1");
    put(&inbox, StreamId(1), 1, "aaaaaaaaaaaaaaaaaaa");
    put(&inbox, StreamId(1), 20, "abcabcabc");
    assert!(!core.take(&inbox));
    let got = take_all(core, reader);
    // Close code 1013 is 0x03F5.
    assert!(got.starts_with("\u{3}\u{fffd}the publisher was too busy"), "{got}");
    put(&inbox, StreamId(1), 29, "d");
    assert!(!core.take(&inbox));
    // A reader from before the hole gets the notice. A reader of a kept message gets the rest.
    let behind = r#"{"type":"gap","from":20,"to":28}|a26|b27|c28|d29"#;
    for (from, expected) in [("1:18", format!("a19|{behind}")), ("1:19", behind.into()), ("1:26", "b27|c28|d29".into())]
    {
        let back = come(core, &format!("/1?from={from}"));
        assert_eq!(take_all(core, back), expected, "{from}");
    }
}

#[test]
fn subscriber_with_lost_frames_is_closed_after_earlier_frames() {
    let inbox = crate::inbox::Inbox::new(64);
    let mut world = World::new(1);
    let core = &mut world.core;
    let readers = [come(core, "/0"), come(core, "/0")];
    let tags = readers.map(|slot| core.fanout.subscribers.get(slot).unwrap().id);
    readers.iter().for_each(|slot| drop(take_all(core, *slot)));
    for _ in 0..2_000 {
        let frames = [&[0x82, 126, 0xC3, 0x50][..], &[0; 50_000]].concat();
        inbox.control(ControlMessage::Frames { to: SubscriberId(77), frames });
    }
    inbox.control(ControlMessage::Frames { to: tags[0], frames: vec![0x81, 0] });
    inbox
        .control(ControlMessage::Frames { to: tags[0], frames: [&[0x82, 126, 0xC3, 0x50][..], &[0; 50_000]].concat() });
    inbox.control(ControlMessage::Frames { to: tags[0], frames: vec![0x81, 0] });
    assert!(!core.take(&inbox));
    inbox.control(ControlMessage::Frames { to: tags[0], frames: vec![0x81, 0] });
    inbox.control(ControlMessage::Frames { to: tags[1], frames: vec![0x81, 0] });
    assert!(!core.take(&inbox));
    assert_eq!(readers.map(|slot| opcodes(core, slot)), [vec![1, 8], vec![1]]);
}

/// A resumed reader of a stored stream, after the time for which unread rings are kept.
#[test]
fn resumed_enveloped_reader_gets_missed_messages() {
    for (most, targets) in [(0, ["/0", "/0?envelope=1"]), (ENVELOPED, ["/0?envelope=1", "/0?envelope=1"])] {
        let mut world = World::new(1);
        world.core.fanout.streams.class = most;
        world.core.fanout.streams.clear();
        let spec =
            StreamSpec { name: "s".into(), lag: LagPolicy::Conflate, ring_bytes: 8192, snapshot: false, keep: true };
        world.core.control(ControlMessage::Create(spec));
        let core = &mut world.core;
        let say = |core: &mut DeliveryCore, seq: u64| {
            core.fanout.append(StreamId(0), b"k", seq, false, seq.to_string().as_bytes())
        };
        say(core, 1);
        // The default frame format is stored from the start, others from their first reader on.
        let readers = targets.map(|target| come(core, target));
        readers.iter().for_each(|slot| drop(take_all(core, *slot)));
        say(core, 2);
        for slot in readers {
            assert!(take_all(core, slot).contains('2'));
            core.remove(slot);
        }
        core.set_now(60_000_000_000);
        say(core, 3);
        core.set_now(120_000_000_000);
        say(core, 4);
        let data = |target: &str, numbers: &[u64]| match target.contains("envelope") {
            true => numbers.iter().map(|n| format!(r#"{{"channel":"s","epoch":1,"seq":{n},"data":{n}}}"#)).collect(),
            false => numbers.iter().map(u64::to_string).collect::<Vec<String>>(),
        };
        for target in targets {
            let back = come(core, &format!("{target}{}from=1:2", if target.contains('?') { "&" } else { "?" }));
            assert_eq!(take_all(core, back), data(target, &[3, 4]).join("|"), "{target}");
        }
        let all = come(core, &format!("{}{}from=1:0", targets[0], if most == 0 { "?" } else { "&" }));
        assert!(take_all(core, all).starts_with(&data(targets[0], &[1, 2]).join("|")));
    }
}

#[test]
fn paused_reading_does_not_time_out_a_message() {
    let mut world = World::new(1);
    let core = &mut world.core;
    core.fanout.context.limits.ping_ms = 0;
    core.set_now(0);
    let reader = come(core, "/1");
    take_all(core, reader);
    // Send part of a message, reach the limit for unprocessed messages, then send the rest.
    let mut fragment = masked(1, b"echo-");
    fragment[0] &= 0x7F;
    core.received(reader, &fragment);
    core.blocked(reader);
    core.fanout.subscribers.get_mut(reader).unwrap().input.waiting_weight = WAITING_WEIGHT_MOST;
    core.received(reader, &masked(0, b"1"));
    assert!(!core.wants_input(reader));
    (1..=30).for_each(|second| core.set_now(second * 1_000_000_000));
    core.processed(reader, WAITING_WEIGHT_MOST);
    assert_eq!(take_all(core, reader), "echo-1");
    // Now the client does not send the rest of a message.
    core.received(reader, &fragment);
    (31..=40).for_each(|second| core.set_now(second * 1_000_000_000));
    assert_eq!(opcodes(core, reader), [8]);
}
