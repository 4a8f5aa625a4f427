//! From received bytes to objects with workers.
//!
//! Does        follow messages through their frames and arrays through their elements, hand plain objects to the scan
//!             and all others to the walk, and complete in a buffer of its own what a piece has cut.
//! Holds       what the sink sees does not depend on how the stream was cut.
//! Leaves out  frames (`crates/websocket`), the scan (`scan`), what an object is (`walk`).
//! Start at    [`ObjectReader::feed`].

use pitwire_websocket::{Checked, Control, Data, Frames, Peer, Piece, Utf8, Violation, close_body};

use crate::object::{FRAME_BYTES_MAX, Object};
use crate::scan::{PrefixCache, ROOM_OBJECTS, RUN_OBJECTS, ScanSpan, ScanStop, ScanTables, Scanner, SimdLevel};
use crate::symbol_router::SymbolRouter;
use crate::walk::{ObjectWalker, SymbolText, is_space, symbol};

/// A longer object is dropped and counted.
pub const OBJECT_BYTES_MAX: usize = 1 << 20;

/// What becomes of objects without a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingSymbol {
    Drop,
    Worker0,
}

/// Who gets what the reader finds, in the order of the stream.
pub trait ObjectSink {
    /// How many frames with payload of messages have begun since the start; said before each run of objects.
    fn frames(&mut self, _frames: u64) {}

    /// HOT. Objects of `text`, in order.
    fn objects(&mut self, text: &[u8], objects: &[Object]);

    /// To be answered by a pong with the same body.
    fn ping(&mut self, body: &[u8]);

    fn pong(&mut self, body: &[u8]);

    /// The server closes, and says nothing more: to be answered by a close frame.
    fn close(&mut self, code: Option<u16>, reason: &[u8]);
}

/// What has been seen since the start; reconnecting does not reset it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Frames with payload of messages.
    pub frames: u64,
    pub messages: u64,
    /// Objects handed to the sink.
    pub objects: u64,
    /// Objects that were not plain, or began as none before: they took the slow way.
    pub unusual: u64,
    /// Objects that lay in more than one piece.
    pub cut: u64,
    /// Objects without a symbol, whether dropped or not.
    pub no_sym: u64,
    /// Objects above [`OBJECT_BYTES_MAX`]: dropped.
    pub oversized: u64,
    /// Elements that are no objects, arrays and objects that the message ends in, text behind an array: passed over.
    pub malformed: u64,
    /// UniformMessages that are no arrays: passed over.
    pub not_arrays: u64,
}

/// Where in a message the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagePosition {
    BeforeArray,
    /// Behind `[`.
    FirstElement,
    /// Behind a comma.
    Element,
    AfterElement,
    /// In an object that a piece has cut; not kept when it has become too long.
    Object {
        is_kept: bool,
    },
    NonObject,
    AfterArray,
    /// Nothing more of this message matters.
    Ignored,
}

/// The receiving state of one connection.
#[derive(Debug)]
pub struct ObjectReader {
    frames: Frames,
    utf8: Utf8,
    place: MessagePosition,
    walker: ObjectWalker,
    /// The beginning of an object that a piece has cut.
    begun: Vec<u8>,
    decoded: Vec<u8>,
    scanner: Scanner,
    tables: ScanTables,
    no_sym: MissingSymbol,
    run: Box<[Object; RUN_OBJECTS]>,
    run_objects: usize,
    counters: ScanCounters,
    end: Option<Result<(), Violation>>,
}

impl ObjectReader {
    pub fn new(workers: u32, no_sym: MissingSymbol) -> Self {
        ObjectReader::with_simd(SimdLevel::detected(), workers, no_sym)
    }

    /// On these lanes, if the processor has them.
    pub fn with_simd(lanes: SimdLevel, workers: u32, no_sym: MissingSymbol) -> Self {
        ObjectReader {
            frames: Frames::endless(Peer::Server, FRAME_BYTES_MAX),
            utf8: Utf8::default(),
            place: MessagePosition::BeforeArray,
            walker: ObjectWalker::default(),
            begun: Vec::new(),
            decoded: Vec::new(),
            scanner: Scanner::new(lanes),
            tables: ScanTables { prefixes: PrefixCache::new(), router: SymbolRouter::new(workers) },
            no_sym,
            run: Box::new([Object::default(); RUN_OBJECTS]),
            run_objects: 0,
            counters: ScanCounters::default(),
            end: None,
        }
    }

    /// A new connection: what was begun is forgotten, what was counted and learnt is not.
    pub fn restart(&mut self) {
        self.frames.restart();
        self.utf8.restart();
        self.place = MessagePosition::BeforeArray;
        self.begun.clear();
        self.end = None;
    }

    pub fn counters(&self) -> ScanCounters {
        ScanCounters { frames: self.frames.data_frames(), ..self.counters }
    }

    /// HOT. Takes the next bytes of the connection; the sink sees every object that they complete.
    ///
    /// The text an object comes with is `received`, but for objects that a piece has cut. After a close frame what
    /// follows is ignored; after a violation every call returns it.
    pub fn feed(&mut self, received: &[u8], sink: &mut impl ObjectSink) -> Result<(), Violation> {
        // Offsets have 32 bits, and what is scanned at once holds no object that is too long.
        for text in received.chunks(OBJECT_BYTES_MAX) {
            if let Some(end) = self.end {
                return end;
            }
            let outcome = self.pieces(text, sink);
            self.hand_on(text, sink);
            if let Err(violation) = outcome {
                self.end = Some(Err(violation));
                return outcome;
            }
        }
        Ok(())
    }

    fn pieces(&mut self, text: &[u8], sink: &mut impl ObjectSink) -> Result<(), Violation> {
        let mut at = 0;
        loop {
            while self.messages(text, &mut at, sink) {}
            let Some(piece) = self.frames.next(text, &mut at)? else { return Ok(()) };
            match piece {
                Piece::Data(data) => self.data(text, data, sink)?,
                Piece::Control(control) => {
                    self.hand_on(text, sink);
                    let body = self.frames.control_body();
                    match control {
                        Control::Ping => sink.ping(body),
                        Control::Pong => sink.pong(body),
                        Control::Close => {
                            let (code, reason) = close_body(body)?;
                            sink.close(code, reason.as_bytes());
                            self.end = Some(Ok(()));
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// HOT. Many small messages at once, if they are as usual; whether they were.
    #[inline]
    fn messages(&mut self, text: &[u8], at: &mut usize, sink: &mut impl ObjectSink) -> bool {
        let next = |at| self.frames.peek(text, at);
        let out = &mut self.run[self.run_objects..];
        let Some(found) = self.scanner.messages(text, *at, next, &self.tables, out) else { return false };
        self.frames.pass(found.messages);
        self.counters.messages += found.messages;
        self.counters.objects += found.objects as u64;
        self.run_objects += found.objects;
        *at = found.end;
        self.make_room(text, sink);
        true
    }

    /// What looks for many objects at once needs room for them.
    #[inline]
    fn make_room(&mut self, text: &[u8], sink: &mut impl ObjectSink) {
        if self.run.len() - self.run_objects < ROOM_OBJECTS {
            self.hand_on(text, sink);
        }
    }

    /// The staged run goes to the sink.
    fn hand_on(&mut self, text: &[u8], sink: &mut impl ObjectSink) {
        if self.run_objects > 0 {
            sink.frames(self.frames.data_frames());
            sink.objects(text, &self.run[..self.run_objects]);
            self.run_objects = 0;
        }
    }

    fn data(&mut self, text: &[u8], data: Data, sink: &mut impl ObjectSink) -> Result<(), Violation> {
        if data.begins_message {
            self.place = MessagePosition::BeforeArray;
            self.utf8.restart();
        }
        let checked = if data.is_text { data.start } else { data.end };
        let mut payload = Payload { span: ScanSpan { at: data.start, end: data.end, checked }, is_broken: false };
        if self.utf8.is_mid_character() {
            self.check(text, &mut payload);
        }
        while payload.span.at < payload.span.end {
            self.step(text, &mut payload, sink);
        }
        if payload.is_broken || data.ends_message && self.utf8.is_mid_character() {
            return Err(Violation::NotUtf8);
        }
        if data.ends_message {
            self.end_message();
        }
        Ok(())
    }

    fn end_message(&mut self) {
        self.counters.messages += 1;
        match self.place {
            MessagePosition::BeforeArray => self.counters.not_arrays += 1,
            MessagePosition::AfterArray | MessagePosition::Ignored => {}
            // NonObject has been counted; the array that does not end has not.
            _ => self.counters.malformed += 1,
        }
        self.begun.clear();
        self.place = MessagePosition::BeforeArray;
    }

    /// Makes sure that all of the payload up to its end is UTF-8, if it has to be; what is not is cut off.
    fn check(&mut self, text: &[u8], payload: &mut Payload) {
        let span = &mut payload.span;
        let from = span.at.max(span.checked);
        if from < span.end {
            if let Checked::Until(bytes) = self.utf8.check(&text[from..span.end]) {
                span.end = from + bytes;
                payload.is_broken = true;
            }
            span.checked = span.end;
        }
    }

    /// One element, or what stands between two.
    fn step(&mut self, text: &[u8], payload: &mut Payload, sink: &mut impl ObjectSink) {
        let byte = text[payload.span.at];
        match self.place {
            MessagePosition::FirstElement | MessagePosition::Element if byte == b'{' => {
                return self.objects(text, payload, sink);
            }
            MessagePosition::Object { is_kept } => return self.go_on_with_object(is_kept, text, payload, sink),
            MessagePosition::NonObject => return self.non_object(text, payload),
            MessagePosition::Ignored => return self.pass(text, payload),
            _ if is_space(byte) => {}
            MessagePosition::BeforeArray if byte == b'[' => self.place = MessagePosition::FirstElement,
            MessagePosition::BeforeArray => {
                self.counters.not_arrays += 1;
                self.place = MessagePosition::Ignored;
                return;
            }
            MessagePosition::FirstElement | MessagePosition::AfterElement if byte == b']' => {
                self.place = MessagePosition::AfterArray
            }
            MessagePosition::AfterElement if byte == b',' => self.place = MessagePosition::Element,
            MessagePosition::Element if byte == b']' => {
                // A comma too many.
                self.counters.malformed += 1;
                self.place = MessagePosition::AfterArray;
            }
            MessagePosition::AfterArray => {
                self.counters.malformed += 1;
                self.place = MessagePosition::Ignored;
                return;
            }
            MessagePosition::FirstElement | MessagePosition::Element | MessagePosition::AfterElement => {
                self.counters.malformed += 1;
                self.walker = ObjectWalker::default();
                self.place = MessagePosition::NonObject;
                return;
            }
        }
        payload.span.at += 1;
    }

    fn pass(&mut self, text: &[u8], payload: &mut Payload) {
        self.check(text, payload);
        payload.span.at = payload.span.end;
    }

    /// Up to the comma or the bracket that ends what is no object.
    fn non_object(&mut self, text: &[u8], payload: &mut Payload) {
        self.check(text, payload);
        let span = &mut payload.span;
        match self.walker.end_of_non_object(&text[span.at..span.end]) {
            Some(bytes) => {
                span.at += bytes;
                self.place = MessagePosition::AfterElement;
            }
            None => span.at = span.end,
        }
    }

    /// From the brace of an object: all plain ones that follow, or this one if it is not.
    fn objects(&mut self, text: &[u8], payload: &mut Payload, sink: &mut impl ObjectSink) {
        let scanned = self.scanner.run(text, payload.span, &mut self.tables, &mut self.run[self.run_objects..]);
        self.run_objects += scanned.objects;
        self.counters.objects += scanned.objects as u64;
        payload.span.at = scanned.at;
        self.make_room(text, sink);
        match scanned.stop {
            ScanStop::Behind => self.place = MessagePosition::AfterElement,
            ScanStop::Object => self.object(text, payload, sink),
            ScanStop::Unchecked => {
                self.check(text, payload);
                self.place = MessagePosition::Element;
            }
        }
    }

    /// One object that is not plain, or not whole.
    fn object(&mut self, text: &[u8], payload: &mut Payload, sink: &mut impl ObjectSink) {
        self.check(text, payload);
        let span = &mut payload.span;
        let rest = &text[span.at..span.end];
        self.walker = ObjectWalker::default();
        match self.walker.end(rest) {
            Some(bytes) => {
                self.counters.unusual += 1;
                self.place = MessagePosition::AfterElement;
                if let Some(worker) = self.worker_of(&rest[..bytes]) {
                    self.counters.objects += 1;
                    self.run[self.run_objects] = located(span.at, bytes, worker);
                    self.run_objects += 1;
                }
                span.at += bytes;
                self.make_room(text, sink);
            }
            None => {
                self.begun.clear();
                self.begun.extend_from_slice(rest);
                self.place = MessagePosition::Object { is_kept: true };
                span.at = span.end;
            }
        }
    }

    /// The rest, or more, of an object that a piece has cut.
    fn go_on_with_object(&mut self, is_kept: bool, text: &[u8], payload: &mut Payload, sink: &mut impl ObjectSink) {
        self.check(text, payload);
        let span = &mut payload.span;
        let rest = &text[span.at..span.end];
        let end = self.walker.end(rest);
        let bytes = end.unwrap_or(rest.len());
        let is_kept = is_kept && self.begun.len() + bytes <= OBJECT_BYTES_MAX;
        if is_kept {
            self.begun.extend_from_slice(&rest[..bytes]);
        } else {
            self.begun.clear();
        }
        span.at += bytes;
        self.place = MessagePosition::Object { is_kept };
        if end.is_some() {
            self.place = MessagePosition::AfterElement;
            self.counters.cut += 1;
            if is_kept {
                self.hand_on(text, sink);
                self.hand_on_completed(sink);
            } else {
                self.counters.oversized += 1;
            }
        }
    }

    fn hand_on_completed(&mut self, sink: &mut impl ObjectSink) {
        let object = std::mem::take(&mut self.begun);
        if let Some(worker) = self.worker_of(&object) {
            self.counters.objects += 1;
            sink.frames(self.frames.data_frames());
            sink.objects(&object, &[located(0, object.len(), worker)]);
        }
        self.begun = object;
        self.begun.clear();
    }

    /// Whose an object is; `None` when it is dropped.
    fn worker_of(&mut self, object: &[u8]) -> Option<u32> {
        match symbol(object, &mut self.decoded) {
            SymbolText::Plain(text) => {
                self.tables.prefixes.learn(&object[..text.start]);
                Some(self.tables.router.worker_of(&object[text]))
            }
            SymbolText::Decoded => Some(self.tables.router.worker_of(&self.decoded)),
            SymbolText::Missing => {
                self.counters.no_sym += 1;
                (self.no_sym == MissingSymbol::Worker0).then_some(0)
            }
        }
    }
}

/// What is still to be read of a piece.
#[derive(Debug)]
struct Payload {
    span: ScanSpan,
    /// The end of the span is where it stops being UTF-8.
    is_broken: bool,
}

#[expect(clippy::cast_possible_truncation, reason = "offsets in what is at most OBJECT_BYTES_MAX long")]
fn located(start: usize, bytes: usize, worker: u32) -> Object {
    Object { start: start as u32, end: (start + bytes) as u32, worker }
}
