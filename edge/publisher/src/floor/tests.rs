//! Thousands of turns with sockets that take what they like, and what everybody has got in the end.

#![allow(clippy::cast_possible_truncation)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::programme::{Answer, Opening, Request, Said};
use crate::stream::{Lag, StreamSpec};

struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// `/0`, `/1`, `/2` is a stream, `/0,2` two of them; the query as everywhere.
struct Paths;

impl Programme for Paths {
    fn open(&self, request: &Request<'_>) -> Result<Opening, Answer> {
        let streams = request.path()[1..].split(',').map(|id| StreamId(id.parse().unwrap())).collect();
        let keys =
            request.parameter("symbols").map(|keys| keys.split(',').map(|key| key.as_bytes().to_vec()).collect());
        let enveloped = request.parameter("envelope").is_some();
        Ok(Opening { streams, keys, enveloped, ..Opening::default() })
    }

    fn said(&self, _: Tag, said: Said<'_>, reply: &mut Reply) {
        if let Said::Text(text) = said {
            reply.text(text.as_bytes());
        }
    }
}

const LAGS: [Lag; 3] = [Lag::Conflate, Lag::Close, Lag::Latest];
const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

struct World {
    floor: Floor,
    chance: Chance,
    /// Of each stream, the key of each message; message 1 is the first.
    told: [Vec<usize>; 3],
    peers: Vec<Peer>,
    now_ns: u64,
}

struct Peer {
    slot: u32,
    target: &'static str,
    /// The newest of each stream when it came.
    from: [u64; 3],
    got: Vec<u8>,
    /// Echoes and pongs that it may expect, in order.
    asked: Vec<String>,
    is_gone: bool,
    is_blocked: bool,
}

fn masked(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80 | opcode, 0x80 | u8::try_from(payload.len()).unwrap(), 1, 2, 3, 4];
    out.extend(payload.iter().zip([1, 2, 3, 4].iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}

impl World {
    fn new(seed: u64) -> Self {
        let setting = Setting {
            programme: Arc::new(Paths),
            board: Arc::new(Board::new(1, None, None)),
            hall: 0,
            limits: Limits { ping_ms: 50, idle_ms: u32::MAX / 4, parting_ms: u32::MAX / 4, ..Limits::default() },
            doors: Doors { bound: "127.0.0.1".parse().unwrap(), hosts: Vec::new(), origins: Vec::new() },
            epoch: 1,
            answer: Arc::from([]),
            seed,
        };
        let mut floor = Floor::new(setting);
        for (at, lag) in LAGS.iter().enumerate() {
            floor.board.add_stream();
            let spec =
                StreamSpec { name: format!("s{at}"), lag: *lag, ring_bytes: 8192, snapshot: false, keep: at == 0 };
            floor.run(Errand::Create(spec));
        }
        let chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        World { floor, chance, told: Default::default(), peers: Vec::new(), now_ns: 0 }
    }

    fn come(&mut self) {
        let targets = ["/0", "/1", "/2", "/0?symbols=b,d", "/0?envelope=1", "/0,2", "/2,0,1", "/0,1?envelope=1"];
        let target = targets[self.chance.below(8) as usize];
        let slot = self.floor.enter();
        let head = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        // In pieces, as it may come.
        let cut = self.chance.below(head.len() as u64) as usize;
        self.floor.received(slot, &head.as_bytes()[..cut]);
        self.floor.received(slot, &head.as_bytes()[cut..]);
        let from = [0, 1, 2].map(|at: usize| self.told[at].len() as u64);
        self.peers.push(Peer {
            slot,
            target,
            from,
            got: Vec::new(),
            asked: Vec::new(),
            is_gone: false,
            is_blocked: false,
        });
    }

    fn publish(&mut self) {
        let stream = self.chance.below(3) as usize;
        let key = self.chance.below(5) as usize;
        self.told[stream].push(key);
        let seq = self.told[stream].len() as u64;
        let pad = "x".repeat(self.chance.below(300) as usize);
        let text = format!(r#"{{"s":{stream},"n":{seq},"k":"{}","p":"{pad}"}}"#, KEYS[key]);
        self.floor.append(StreamId(stream as u32), KEYS[key].as_bytes(), seq, false, text.as_bytes());
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
        self.floor.received(peer.slot, &frame[..cut]);
        self.floor.received(peer.slot, &frame[cut..]);
    }

    /// One sweep; sockets take all, some or nothing.
    fn sweep(&mut self, generous: bool) {
        let mut due = Vec::new();
        self.floor.due(&mut due, true);
        for slot in due {
            let at = self.peers.iter().position(|peer| peer.slot == slot && !peer.is_gone).unwrap();
            loop {
                match self.floor.prepare(slot) {
                    Next::Idle => break,
                    Next::Shut => {
                        self.floor.shut(slot);
                        break;
                    }
                    Next::Send => {}
                }
                let pieces = self.floor.gather(slot);
                let all: Vec<u8> = pieces.as_slice().concat();
                assert!(!all.is_empty() && all.len() == pieces.bytes());
                let takes = match self.chance.below(4) {
                    _ if generous => all.len(),
                    0 => self.chance.below(all.len() as u64 + 1) as usize,
                    _ => all.len(),
                };
                self.peers[at].got.extend_from_slice(&all[..takes]);
                if takes > 0 {
                    self.floor.sent(slot, takes);
                }
                if takes < all.len() {
                    self.floor.blocked(slot);
                    self.peers[at].is_blocked = true;
                    break;
                }
            }
        }
        let mut gone = Vec::new();
        self.floor.take_gone(&mut gone);
        for slot in gone {
            self.peers.iter_mut().filter(|peer| peer.slot == slot).for_each(|peer| peer.is_gone = true);
            self.floor.leave(slot);
        }
    }

    fn unblock(&mut self, one_in: u64) {
        for peer in self.peers.iter_mut().filter(|peer| peer.is_blocked && !peer.is_gone) {
            if self.chance.below(one_in) == 0 {
                peer.is_blocked = false;
                self.floor.writable(peer.slot);
            }
        }
    }

    fn run(&mut self, turns: usize) {
        for _ in 0..turns {
            self.now_ns += 1_000_000 * (1 + self.chance.below(5));
            self.floor.set_now(self.now_ns);
            for _ in 0..self.chance.below(6) {
                if self.floor.must_sweep() {
                    break;
                }
                self.publish();
            }
            if self.peers.len() < 30 && self.chance.below(3) == 0 {
                self.come();
            }
            if !self.peers.is_empty() && self.chance.below(4) == 0 {
                self.ask();
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

/// What one reader of a stream must see.
struct Reading<'a> {
    told: &'a [usize],
    wanted: Option<&'a [usize]>,
    lag: Lag,
    /// The number that comes next, and the newest of each key that has come.
    next: u64,
    newest: BTreeMap<usize, u64>,
    gap_to: u64,
    in_gap: u64,
    gaps: usize,
}

impl Reading<'_> {
    fn wants(&self, seq: u64) -> bool {
        self.wanted.is_none_or(|keys| keys.contains(&self.told[seq as usize - 1]))
    }

    fn take(&mut self, seq: u64) {
        let key = self.told[seq as usize - 1];
        assert!(self.wants(seq), "not asked for");
        if seq >= self.next {
            if self.lag != Lag::Latest {
                assert!((self.next..seq).all(|other| !self.wants(other)), "{seq} came instead of {}", self.next);
            }
            self.next = seq + 1;
        } else {
            assert!(self.lag == Lag::Conflate && seq <= self.gap_to && seq > self.in_gap, "{seq} came twice");
            let later = self.told[seq as usize..self.gap_to as usize].iter().any(|other| *other == key);
            assert!(!later, "{seq} is not the newest of its key in the gap");
            self.in_gap = seq;
        }
        assert!(self.newest.insert(key, seq).is_none_or(|before| before < seq));
    }

    fn miss(&mut self, from: u64, to: u64) {
        assert_eq!(self.lag, Lag::Conflate);
        assert!(from <= to && to <= self.told.len() as u64);
        assert!(from >= self.next && (self.next..from).all(|other| !self.wants(other)), "{from} after {}", self.next);
        if self.gap_to + 1 != from {
            self.in_gap = from - 1;
        }
        (self.next, self.gap_to, self.gaps) = (to + 1, to, self.gaps + 1);
    }

    /// Everything has come: of each key the newest.
    fn end(&self, since: u64) {
        for key in 0..KEYS.len() {
            let newest = (since + 1..=self.told.len() as u64).rev().find(|seq| self.told[*seq as usize - 1] == key);
            let is_wanted = self.wanted.is_none_or(|keys| keys.contains(&key));
            if self.lag != Lag::Latest && is_wanted {
                assert_eq!(self.newest.get(&key).copied(), newest, "the newest of {}", KEYS[key]);
            }
        }
        if self.lag == Lag::Latest {
            let last = self.newest.values().max().copied().unwrap_or(since);
            assert_eq!(last, self.told.len() as u64);
        }
    }
}

fn number(text: &str, name: &str) -> Option<u64> {
    let at = text.find(&format!("\"{name}\":"))? + name.len() + 3;
    text[at..].split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// Checks all that one peer has got; says how many gaps there were, and whether it was closed for being slow.
fn judge(peer: &Peer, told: &[Vec<usize>; 3]) -> (usize, bool) {
    let streams: Vec<usize> =
        peer.target[1..].split('?').next().unwrap().split(',').map(|id| id.parse().unwrap()).collect();
    let is_enveloped = peer.target.contains("envelope");
    let mut readings: BTreeMap<usize, Reading<'_>> = BTreeMap::new();
    for at in &streams {
        let wanted: Option<&[usize]> = peer.target.contains("symbols").then_some(&[1, 3]);
        let (next, told) = (peer.from[*at] + 1, told[*at].as_slice());
        let (newest, lag) = (BTreeMap::new(), LAGS[*at]);
        readings.insert(*at, Reading { told, wanted, lag, next, newest, gap_to: 0, in_gap: 0, gaps: 0 });
    }
    let head = peer.got.windows(4).position(|four| four == b"\r\n\r\n").expect("an answer") + 4;
    assert!(peer.got.starts_with(b"HTTP/1.1 101"));
    let (mut bytes, mut asked, mut closed) = (&peer.got[head..], peer.asked.iter(), None);
    while let [first, second, rest @ ..] = bytes {
        assert!(closed.is_none(), "nothing follows a close frame");
        let (len, rest) = match second {
            126 => (u16::from_be_bytes([rest[0], rest[1]]) as usize, &rest[2..]),
            len => (usize::from(*len), rest),
        };
        assert!(rest.len() >= len, "a whole frame at the end");
        let (payload, behind) = rest.split_at(len);
        bytes = behind;
        let text = std::str::from_utf8(payload).unwrap_or("");
        match first {
            0x89 => assert!(payload.is_empty()),
            0x88 => closed = Some(u16::from_be_bytes([payload[0], payload[1]])),
            0x81 if text.starts_with("echo-") => assert_eq!(asked.next().map(String::as_str), Some(text)),
            0x81 if text.starts_with("{\"type\":\"gap\"") => {
                // Only stream 0 has them.
                let (from, to) = (number(text, "from").unwrap(), number(text, "to").unwrap());
                readings.get_mut(&0).unwrap().miss(from, to);
            }
            0x81 => {
                assert_eq!(text.starts_with("{\"channel\":"), is_enveloped);
                let (stream, seq) = (number(text, "s").unwrap() as usize, number(text, "n").unwrap());
                assert!(!is_enveloped || number(text, "seq") == Some(seq));
                readings.get_mut(&stream).unwrap().take(seq);
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
fn whatever_sockets_take_everything_comes_or_is_declared() {
    let first = std::env::var("TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let (mut gaps, mut closed, mut peers) = (0, 0, 0);
    for seed in first.map_or(1..60, |seed| seed..seed + 1) {
        println!("TEST_SEED={seed}");
        let mut world = World::new(seed);
        world.run(600);
        for peer in &world.peers {
            let (some, is_closed) = judge(peer, &world.told);
            gaps += some;
            closed += usize::from(is_closed);
            peers += 1;
        }
    }
    println!("{peers} readers, {gaps} gaps, {closed} closed");
    assert!(first.is_some() || (gaps > 200 && closed > 100), "{peers} readers, {gaps} gaps, {closed} closed");
}
