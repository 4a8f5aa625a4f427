//! One stream: its rings, its latest messages, who listens.
//!
//! Does        make each message into a frame once per class of subscribers, and keep the newest of each key.
//! Holds       a message is the same bytes for everybody of a class.
//! Start at    [`Stream::append`].

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use pitwire_websocket::Opcode;
use serde::de::IgnoredAny;

use crate::compressor::Compressor;
use crate::frame::{Frame, FrameHeader};
use crate::latest::Latest;
use crate::ring::{BYTES_PER_ENTRY, Cursor, Key, Ring, RingEntry};

/// Names a stream in all halls of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// What becomes of a reader that falls behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagPolicy {
    /// It is told what it missed, gets the newest of each key of that, and goes on with the present.
    Conflate,
    /// It gets the newest message and goes on: there is nothing to declare.
    Latest,
    /// It is closed with 1013.
    Close,
    /// The programme is asked what it has missed: see [`Programme::behind`](crate::Programme::behind). Messages may skip
    /// numbers; the first number is told by [`Publisher::begin`](crate::Publisher::begin). Not for halls with a reserve.
    Ask,
}

/// What a stream is.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    pub name: String,
    pub lag: LagPolicy,
    /// Of each hall's ring; a reader may fall behind by half of it.
    pub ring_bytes: usize,
    /// A joiner gets the newest of each key first.
    pub snapshot: bool,
    /// Rings are filled with nobody there, so that readers can come back for what they missed: the first from the
    /// beginning, each other form from its first reader on.
    pub keep: bool,
}

/// In which form a subscriber gets messages: bits.
pub const ENVELOPED: u8 = 1;
pub const DEFLATED: u8 = 2;
/// ... with a small window.
pub const NARROW: u8 = 4;
pub const CLASSES: usize = 8;

/// Longer names a reader may not make.
const NAME_MOST: usize = 128;
/// More keys than this are one: whoever publishes chooses them.
const KEYS_MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub slot: u32,
    /// Which of its subscriptions this is.
    pub item: u32,
}

/// One message, before it is anybody's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    pub seq: u64,
    pub key: Key,
    pub is_binary: bool,
    pub payload: &'a [u8],
}

/// What a message's frames need to know besides.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub epoch: u64,
    pub place: u64,
    pub at_ms: u32,
}

/// Messages `from` to `to` were shed; `missing` is the last of them that is not in the rings all the same, or 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingRange {
    pub from: u64,
    pub missing: u64,
    pub to: u64,
}

pub struct Stream {
    pub spec: StreamSpec,
    rings: [Option<Box<Ring>>; CLASSES],
    pub latest: Option<Latest>,
    keys: BTreeMap<Arc<[u8]>, Key>,
    pub listeners: Vec<Listener>,
    /// Of the newest message.
    pub last_seq: u64,
    /// What a full queue has shed, ascending, as far back as the rings go.
    holes: VecDeque<MissingRange>,
    /// Something was appended since the last sweep, and how much; with how much that began; and since it was last asked.
    pub is_dirty: bool,
    pub unswept: usize,
    pub swept: usize,
    pub grown: usize,
    /// Appended since the slow were last looked for.
    pub unchecked: usize,
    text: String,
    /// A message that is no JSON went into an envelope.
    pub has_quoted: bool,
}

impl Stream {
    /// `class` is that of most readers: what is kept is kept for them from the beginning.
    pub fn new(spec: StreamSpec, class: u8) -> Self {
        let has_latest = spec.snapshot || spec.lag == LagPolicy::Conflate;
        let keep = spec.keep;
        let mut stream = Stream {
            spec,
            rings: Default::default(),
            latest: has_latest.then(Latest::default),
            keys: BTreeMap::new(),
            listeners: Vec::new(),
            last_seq: 0,
            holes: VecDeque::new(),
            is_dirty: false,
            unswept: 0,
            swept: 0,
            grown: 0,
            unchecked: 0,
            text: String::new(),
            has_quoted: false,
        };
        if keep {
            stream.open_ring(class);
        }
        stream
    }

    /// The number of a key's name, a new one if it has none.
    pub fn key(&mut self, name: &[u8]) -> Key {
        if let Some(key) = self.keys.get(name) {
            return *key;
        }
        let key = Key(u32::try_from(self.keys.len().min(KEYS_MOST)).unwrap_or(0));
        if key.0 as usize != KEYS_MOST {
            self.keys.insert(name.into(), key);
        }
        key
    }

    /// The number of a name that a reader asks for. A new name gets one too, so that what comes under it later is found,
    /// but strangers may use up no more than half of the table; `None` beyond.
    pub fn key_asked(&mut self, name: &[u8]) -> Option<Key> {
        let is_new = !self.keys.contains_key(name);
        if is_new && (name.len() > NAME_MOST || self.keys.len() >= KEYS_MOST / 2) {
            return None;
        }
        Some(self.key(name))
    }

    pub fn ring(&self, class: u8) -> Option<&Ring> {
        self.rings.get(usize::from(class))?.as_deref()
    }

    /// Says under which number in the list.
    pub fn add_listener(&mut self, slot: u32, item: u32) -> u32 {
        self.listeners.push(Listener { slot, item });
        u32::try_from(self.listeners.len() - 1).unwrap_or(u32::MAX)
    }

    /// The ring of a class, from now on if there was none. Where something is kept, it is as nobody compressed it.
    pub fn open_ring(&mut self, class: u8) -> Cursor {
        let (bytes, plain, last_seq) = (self.spec.ring_bytes, class & ENVELOPED, self.last_seq);
        if self.spec.keep && plain != class {
            self.open_ring(plain);
        }
        match self.rings.get_mut(usize::from(class)) {
            Some(ring) => ring.get_or_insert_with(|| Box::new(Ring::new(bytes, last_seq))).head(),
            None => Cursor::default(),
        }
    }

    /// Nobody reads it, and what comes next comes behind this message.
    pub fn begin(&mut self, seq: u64) {
        self.last_seq = seq;
        self.holes.clear();
        self.rings.iter_mut().flatten().for_each(|ring| ring.begin(seq));
    }

    /// Rings that nobody reads are given back, but for those that are kept for whoever comes back: one of each form.
    pub fn close_rings(&mut self) {
        let kept = if self.spec.keep { usize::from(ENVELOPED) + 1 } else { 0 };
        self.rings.iter_mut().skip(kept).for_each(|ring| *ring = None);
    }

    pub fn append(&mut self, message: &Message<'_>, stamp: Stamp, compressor: &mut Compressor) {
        self.last_seq = message.seq;
        self.has_quoted = false;
        if let Some(latest) = &mut self.latest {
            latest.set(message.key, message.seq, message.is_binary, message.payload);
        }
        let entry = RingEntry { start: 0, seq: message.seq, place: stamp.place, key: message.key, at_ms: stamp.at_ms };
        for class in 0..CLASSES {
            let Some(mut ring) = self.rings[class].take() else { continue };
            let before = ring.head();
            #[allow(clippy::cast_possible_truncation)]
            self.append_as(class as u8, &mut ring, entry, message, stamp.epoch, compressor);
            self.grown(ring.head().0 - before.0);
            self.rings[class] = Some(ring);
        }
    }

    /// Into the envelope, where there is one, with `epoch`; without, as it is.
    fn append_as(
        &mut self,
        class: u8,
        ring: &mut Ring,
        entry: RingEntry,
        message: &Message<'_>,
        epoch: u64,
        compressor: &mut Compressor,
    ) {
        let parts = self.frame(class, message, epoch);
        if class & DEFLATED == 0 {
            ring.append(entry, &[parts.header.as_bytes(), parts.opening, parts.payload, parts.closing]);
        } else {
            let opcode = if message.is_binary { Opcode::Binary } else { Opcode::Text };
            ring.append(entry, &[compressor.frame(class & NARROW > 0, opcode, &parts)]);
        }
    }

    /// A frame for everybody that is no message: a ping, or a notice.
    pub fn append_notice(&mut self, opcode: Opcode, payload: &[u8], stamp: Stamp) {
        let header = FrameHeader::new(opcode, payload.len(), false);
        let next = self.last_seq + 1;
        let entry = RingEntry { start: 0, seq: next, place: stamp.place, key: Key::EVERYONE, at_ms: stamp.at_ms };
        for ring in self.rings.iter_mut().flatten() {
            ring.append(entry, &[header.as_bytes(), payload]);
        }
        self.grown((header.as_bytes().len() + payload.len()) as u64);
    }

    /// The rings have a notice of it in front of what was kept: whoever goes on within it has to be told by itself.
    pub fn note_hole(&mut self, hole: MissingRange) {
        let oldest = self.rings.iter().flatten().filter_map(|ring| ring.entries_from(ring.oldest()).next());
        let oldest = oldest.map(|entry| entry.seq).min().unwrap_or(u64::MAX);
        while self.holes.front().is_some_and(|hole| hole.to < oldest) {
            self.holes.pop_front();
        }
        self.holes.push_back(hole);
    }

    /// What is not there of what follows a message within a hole: the first and the last number.
    pub fn missing_behind(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.holes.partition_point(|hole| hole.to <= seq);
        let hole = self.holes.get(at).filter(|hole| (hole.from..hole.missing).contains(&seq))?;
        Some((seq + 1, hole.to))
    }

    /// Whether somebody who goes on behind a message lacks something shed, or meets a notice of it.
    pub fn has_hole_behind(&self, seq: u64) -> bool {
        self.holes.back().is_some_and(|hole| seq < hole.from || seq < hole.missing)
    }

    fn grown(&mut self, bytes: u64) {
        // Of very small ones as many as the ring has room for in its index.
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(BYTES_PER_ENTRY);
        // Once per class is more than once; what counts is the most anybody has to be sent.
        self.grown = self.grown.saturating_add(bytes);
        self.unswept = self.unswept.saturating_add(bytes);
        self.unchecked = self.unchecked.saturating_add(bytes);
    }

    /// A message as a class of subscribers gets it, not compressed: they all can read it so too.
    pub fn frame<'a>(&'a mut self, class: u8, message: &Message<'a>, epoch: u64) -> Frame<'a> {
        let (opcode, payload) = (if message.is_binary { Opcode::Binary } else { Opcode::Text }, message.payload);
        if class & ENVELOPED == 0 {
            let header = FrameHeader::new(opcode, payload.len(), false);
            return Frame { header, opening: b"", payload, closing: b"" };
        }
        self.text.clear();
        let name = &self.spec.name;
        // Writing to memory does not fail. The name was checked to need no escapes.
        let _ = write!(self.text, r#"{{"channel":"{name}","epoch":{epoch},"seq":{},"data":"#, message.seq);
        let is_json = is_json(message);
        if !is_json {
            self.has_quoted = true;
            quote(payload, &mut self.text);
        }
        let payload = if is_json { payload } else { b"" };
        let header = FrameHeader::new(opcode, self.text.len() + payload.len() + 1, false);
        Frame { header, opening: self.text.as_bytes(), payload, closing: b"}" }
    }
}

/// Whether it can stand in an envelope as it is.
fn is_json(message: &Message<'_>) -> bool {
    let is_text = !message.is_binary || std::str::from_utf8(message.payload).is_ok();
    is_text && serde_json::from_slice::<IgnoredAny>(message.payload).is_ok()
}

/// The message as a JSON string: what is no text in base64.
fn quote(payload: &[u8], out: &mut String) {
    match std::str::from_utf8(payload) {
        Ok(text) => out.push_str(&serde_json::Value::from(text).to_string()),
        Err(_) => {
            out.push('"');
            BASE64.encode_string(payload, out);
            out.push('"');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_stands_in_an_envelope_as_a_string() {
        let spec =
            StreamSpec { name: "x".into(), lag: LagPolicy::Close, ring_bytes: 4096, snapshot: false, keep: false };
        let mut stream = Stream::new(spec, ENVELOPED);
        let mut told = |is_binary: bool, payload: &[u8]| {
            let (mut out, message) = (Vec::new(), Message { seq: 5, key: Key(0), is_binary, payload });
            let frame = stream.frame(ENVELOPED, &message, 7);
            for part in [frame.opening, frame.payload, frame.closing] {
                out.extend_from_slice(part);
            }
            let header = frame.header.as_bytes();
            assert_eq!(usize::from(header[1]), out.len(), "the header tells its length");
            assert_eq!(header[0] & 15, if is_binary { 2 } else { 1 });
            let text = String::from_utf8(out).unwrap();
            serde_json::from_str::<IgnoredAny>(&text).unwrap();
            let data = text.strip_prefix(r#"{"channel":"x","epoch":7,"seq":5,"data":"#).unwrap();
            (data.strip_suffix('}').unwrap().to_owned(), std::mem::take(&mut stream.has_quoted))
        };
        for json in [r#"{"a":[1,2.5e3,null]}"#, " 7 ", r#""text""#, "true"] {
            assert_eq!(told(false, json.as_bytes()), (json.to_owned(), false));
            assert_eq!(told(true, json.as_bytes()), (json.to_owned(), false));
        }
        for (other, expected) in [
            ("not json", r#""not json""#),
            (r#"{"a":1"#, r#""{\"a\":1""#),
            (r#"{"a":1}}"#, r#""{\"a\":1}}""#),
            ("7 8", r#""7 8""#),
            ("\u{1}\"\\\né", r#""\u0001\"\\\né""#),
            ("", r#""""#),
        ] {
            assert_eq!(told(false, other.as_bytes()), (expected.to_owned(), true), "{other:?}");
        }
        // RFC 4648's alphabet: 0xFB 0xFF is 111110 111111 1111(00).
        assert_eq!(told(true, &[0xFB, 0xFF]), (r#""+/8=""#.to_owned(), true));
    }

    #[test]
    fn what_strangers_ask_for_leaves_half_of_the_keys_to_the_publisher() {
        let mut stream = Stream::new(
            StreamSpec {
                name: "x".into(),
                lag: LagPolicy::Conflate,
                ring_bytes: 1 << 16,
                snapshot: false,
                keep: false,
            },
            0,
        );
        assert_eq!(stream.key_asked(&[b'x'; 129]), None);
        let asked = (0..KEYS_MOST).filter(|n| stream.key_asked(n.to_string().as_bytes()).is_some()).count();
        assert_eq!(asked, KEYS_MOST / 2);
        let published = stream.key(b"BTC");
        assert_ne!(published, stream.key(b"ETH"));
        assert_eq!(stream.key_asked(b"BTC"), Some(published), "what is there may be asked for");
    }
}
