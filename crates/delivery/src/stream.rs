//! One stream: its rings, the latest message of each key, and the list of its subscribers.
//!
//! Does        Encodes each message once per frame format and keeps the latest message of each key.
//! Holds       A message consists of the same bytes for every subscriber of a format.
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

/// Identifies a stream. The number is the same in all delivery threads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Policy for slow subscribers, that is, subscribers that are behind by more than half of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagPolicy {
    /// A gap notice, then the latest message of each key that it missed, then new messages.
    Conflate,
    /// The newest message, then new messages. No gap notice.
    Latest,
    /// A close frame with code 1013.
    Close,
    /// The stream's owner supplies the messages that the subscriber missed, for example merged into
    /// one. Message numbers may have gaps, so the owner names the first number
    /// before the first message.
    Ask,
}

/// Settings of a stream.
#[derive(Clone, Debug)]
pub struct StreamSpec {
    pub name: String,
    pub lag: LagPolicy,
    /// Capacity of each ring in bytes. A subscriber may be behind by half of it.
    pub ring_bytes: usize,
    /// Whether a new subscriber first gets the latest message of each key.
    pub snapshot: bool,
    /// Whether rings are filled without subscribers, so that a subscriber can resume. The ring of
    /// the main format is filled from the beginning, every other one from its first subscriber on.
    pub keep: bool,
}

/// Frame format bit: the message stands in an object with its channel, epoch and number.
pub const ENVELOPED: u8 = 1;
/// Frame format bit: the message is compressed.
pub const DEFLATED: u8 = 2;
/// Frame format bit: the message is compressed with the small window.
pub const NARROW: u8 = 4;
pub const CLASSES: usize = 8;

/// Maximum length of a key name that a subscriber may introduce, in bytes.
const NAME_MOST: usize = 128;
/// Maximum number of keys of a stream. Further key names share one key.
const KEYS_MOST: usize = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub slot: u32,
    /// Position of this stream among the subscriber's subscriptions.
    pub item: u32,
}

/// One message before encoding.
#[derive(Clone, Copy, Debug)]
pub struct StreamMessage<'a> {
    pub seq: u64,
    pub key: Key,
    pub is_binary: bool,
    pub payload: &'a [u8],
}

/// Metadata that the frames of a message carry.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub epoch: u64,
    pub place: u64,
    pub at_ms: u32,
}

/// The range of messages, `from` to `to`, that a full inbox dropped. `missing` is the newest
/// message of the range that is in no ring, or 0 if the rings hold them all.
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
    /// Number of the newest message.
    pub last_seq: u64,
    /// Ranges that full inboxes have shed, ascending, as far back as the rings go.
    holes: VecDeque<MissingRange>,
    /// Whether something was appended since the last delivery pass, and how many bytes; how many
    /// bytes the current pass began with; and bytes that the caller has not counted yet.
    pub is_dirty: bool,
    pub unswept: usize,
    pub swept: usize,
    pub grown: usize,
    /// Bytes appended since the last lag check.
    pub unchecked: usize,
    text: String,
    /// Whether a message that is not JSON was put into an envelope as a string.
    pub has_quoted: bool,
}

impl Stream {
    /// Makes a stream. `class` is the main frame format.
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

    /// Returns the key of a name, a new one if the name is new.
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

    /// Returns the key of a name that a subscriber asks for. A new name gets a key, so that later
    /// messages with that name are found. Returns `None` if the name is too long or subscribers
    /// have filled their half of the table.
    pub fn subscriber_key(&mut self, name: &[u8]) -> Option<Key> {
        let is_new = !self.keys.contains_key(name);
        if is_new && (name.len() > NAME_MOST || self.keys.len() >= KEYS_MOST / 2) {
            return None;
        }
        Some(self.key(name))
    }

    pub fn ring(&self, class: u8) -> Option<&Ring> {
        self.rings.get(usize::from(class))?.as_deref()
    }

    /// Adds a subscriber and returns its position in the list.
    pub fn add_listener(&mut self, slot: u32, item: u32) -> u32 {
        self.listeners.push(Listener { slot, item });
        u32::try_from(self.listeners.len() - 1).unwrap_or(u32::MAX)
    }

    /// Opens the ring of a format if it does not exist, and returns its head. A stream with `keep`
    /// also opens the uncompressed ring, from which subscribers resume.
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

    /// Restarts the stream: its next message follows number `seq`. Only for a stream without
    /// subscribers.
    pub fn begin(&mut self, seq: u64) {
        self.last_seq = seq;
        self.holes.clear();
        self.rings.iter_mut().flatten().for_each(|ring| ring.begin(seq));
    }

    /// Frees the rings of a stream without subscribers, except those from which subscribers may
    /// resume.
    pub fn close_rings(&mut self) {
        let kept = if self.spec.keep { usize::from(ENVELOPED) + 1 } else { 0 };
        self.rings.iter_mut().skip(kept).for_each(|ring| *ring = None);
    }

    pub fn append(&mut self, message: &StreamMessage<'_>, stamp: Stamp, compressor: &mut Compressor) {
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

    /// Appends a message to the ring of one format.
    fn append_as(
        &mut self,
        class: u8,
        ring: &mut Ring,
        entry: RingEntry,
        message: &StreamMessage<'_>,
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

    /// Appends a ping or a notice to all rings.
    pub fn append_notice(&mut self, opcode: Opcode, payload: &[u8], stamp: Stamp) {
        let header = FrameHeader::new(opcode, payload.len(), false);
        let next = self.last_seq + 1;
        let entry = RingEntry { start: 0, seq: next, place: stamp.place, key: Key::EVERYONE, at_ms: stamp.at_ms };
        for ring in self.rings.iter_mut().flatten() {
            ring.append(entry, &[header.as_bytes(), payload]);
        }
        self.grown((header.as_bytes().len() + payload.len()) as u64);
    }

    /// Remembers a shed range. A subscriber that resumes inside it needs a separate gap notice.
    pub fn note_hole(&mut self, hole: MissingRange) {
        let oldest = self.rings.iter().flatten().filter_map(|ring| ring.entries_from(ring.oldest()).next());
        let oldest = oldest.map(|entry| entry.seq).min().unwrap_or(u64::MAX);
        while self.holes.front().is_some_and(|hole| hole.to < oldest) {
            self.holes.pop_front();
        }
        self.holes.push_back(hole);
    }

    /// Returns the first and the last missing number if `seq` lies inside a shed range.
    pub fn missing_behind(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.holes.partition_point(|hole| hole.to <= seq);
        let hole = self.holes.get(at).filter(|hole| (hole.from..hole.missing).contains(&seq))?;
        Some((seq + 1, hole.to))
    }

    /// Returns whether a subscriber that continues behind message `seq` misses a shed message or
    /// meets its notice.
    pub fn has_hole_behind(&self, seq: u64) -> bool {
        self.holes.back().is_some_and(|hole| seq < hole.from || seq < hole.missing)
    }

    fn grown(&mut self, bytes: u64) {
        // A tiny frame counts for at least the bytes of its index entry.
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(BYTES_PER_ENTRY);
        self.grown = self.grown.saturating_add(bytes);
        self.unswept = self.unswept.saturating_add(bytes);
        self.unchecked = self.unchecked.saturating_add(bytes);
    }

    /// Returns the frame of a message in one format, uncompressed.
    pub fn frame<'a>(&'a mut self, class: u8, message: &StreamMessage<'a>, epoch: u64) -> Frame<'a> {
        let (opcode, payload) = (if message.is_binary { Opcode::Binary } else { Opcode::Text }, message.payload);
        if class & ENVELOPED == 0 {
            let header = FrameHeader::new(opcode, payload.len(), false);
            return Frame { header, opening: b"", payload, closing: b"" };
        }
        self.text.clear();
        let name = &self.spec.name;
        // Writing to memory cannot fail. Stream names need no escapes.
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

/// Returns whether the payload is JSON and can stand in an envelope unchanged.
fn is_json(message: &StreamMessage<'_>) -> bool {
    let is_text = !message.is_binary || std::str::from_utf8(message.payload).is_ok();
    is_text && serde_json::from_slice::<IgnoredAny>(message.payload).is_ok()
}

/// Appends the payload as a JSON string; binary payload becomes base64.
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
    fn a_message_that_is_not_json_becomes_a_string_in_the_envelope() {
        let spec =
            StreamSpec { name: "x".into(), lag: LagPolicy::Close, ring_bytes: 4096, snapshot: false, keep: false };
        let mut stream = Stream::new(spec, ENVELOPED);
        let mut framed = |is_binary: bool, payload: &[u8]| {
            let (mut out, message) = (Vec::new(), StreamMessage { seq: 5, key: Key(0), is_binary, payload });
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
            assert_eq!(framed(false, json.as_bytes()), (json.to_owned(), false));
            assert_eq!(framed(true, json.as_bytes()), (json.to_owned(), false));
        }
        for (other, expected) in [
            ("not json", r#""not json""#),
            (r#"{"a":1"#, r#""{\"a\":1""#),
            (r#"{"a":1}}"#, r#""{\"a\":1}}""#),
            ("7 8", r#""7 8""#),
            ("\u{1}\"\\\né", r#""\u0001\"\\\né""#),
            ("", r#""""#),
        ] {
            assert_eq!(framed(false, other.as_bytes()), (expected.to_owned(), true), "{other:?}");
        }
        // RFC 4648's alphabet: 0xFB 0xFF is 111110 111111 1111(00).
        assert_eq!(framed(true, &[0xFB, 0xFF]), (r#""+/8=""#.to_owned(), true));
    }

    #[test]
    fn subscribers_may_introduce_at_most_half_of_the_keys() {
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
        assert_eq!(stream.subscriber_key(&[b'x'; 129]), None);
        let asked = (0..KEYS_MOST).filter(|n| stream.subscriber_key(n.to_string().as_bytes()).is_some()).count();
        assert_eq!(asked, KEYS_MOST / 2);
        let published = stream.key(b"BTC");
        assert_ne!(published, stream.key(b"ETH"));
        assert_eq!(stream.subscriber_key(b"BTC"), Some(published), "what is there may be asked for");
    }
}
