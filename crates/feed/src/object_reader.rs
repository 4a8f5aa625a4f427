//! From received bytes to objects with workers.
//!
//! Does        follows messages through frames and arrays through elements; passes plain objects to
//!             the vector scan and all others to the walk; completes objects that a read cut in
//!             two.
//! Holds       the sink receives the same objects however the stream was cut.
//! Leaves out  frames (`crates/websocket`), the scan (`scan`), and the definition of an object
//!             (`walk`).
//! Start at    [`ObjectReader::feed`].

use pitwire_websocket::{Control, Data, Frames, Peer, Piece, Utf8, ValidPart, Violation, close_body};

use crate::object::{FRAME_BYTES_MAX, Object};
use crate::scan::{PrefixCache, ROOM_OBJECTS, RUN_OBJECTS, ScanSpan, ScanStop, ScanTables, Scanner, SimdLevel};
use crate::symbol_router::SymbolRouter;
use crate::walk::{ObjectWalker, SymbolText, is_space, symbol};

/// Longest object in bytes. A longer one is dropped and counted.
pub const OBJECT_BYTES_MAX: usize = 1 << 20;

/// The treatment of objects without a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingSymbol {
    Drop,
    Worker0,
}

/// Receives objects and control frames, in stream order.
pub trait ObjectSink {
    /// Number of data frames since the start, sent before each run of objects.
    fn frames(&mut self, _frames: u64) {}

    /// HOT. A run of objects of `text`, in order.
    fn objects(&mut self, text: &[u8], objects: &[Object]);

    /// A ping. The caller answers with a pong that has the same body.
    fn ping(&mut self, body: &[u8]);

    fn pong(&mut self, body: &[u8]);

    /// A close frame, the last thing the server sends. The caller answers with a close frame.
    fn close(&mut self, code: Option<u16>, reason: &[u8]);
}

/// Counts since the start. Reconnecting does not reset them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounters {
    /// Data frames.
    pub frames: u64,
    pub messages: u64,
    /// Objects passed to the sink.
    pub objects: u64,
    /// Objects that the vector scan declined, or whose prefix was new.
    pub unusual: u64,
    /// Objects that were in more than one read.
    pub cut: u64,
    /// Objects without a symbol, whether dropped or not.
    pub no_sym: u64,
    /// Objects above [`OBJECT_BYTES_MAX`], which are dropped.
    pub oversized: u64,
    /// Skipped: elements that are not objects, unfinished arrays and objects, text behind an array.
    pub malformed: u64,
    /// Skipped messages that are not arrays.
    pub not_arrays: u64,
}

/// Position of the next byte in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MessagePosition {
    BeforeArray,
    /// After `[`.
    FirstElement,
    /// After a comma.
    Element,
    AfterElement,
    /// Inside an object that a read cut. Not kept if it is too long.
    Object {
        is_kept: bool,
    },
    NonObject,
    AfterArray,
    /// The rest of the message is ignored.
    Ignored,
}

/// Reads the objects of one connection.
#[derive(Debug)]
pub struct ObjectReader {
    frames: Frames,
    utf8: Utf8,
    place: MessagePosition,
    walker: ObjectWalker,
    /// The first part of an object that a read cut.
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

    /// Creates a reader for one instruction set, if the processor supports it.
    pub fn with_simd(simd: SimdLevel, workers: u32, no_sym: MissingSymbol) -> Self {
        ObjectReader {
            frames: Frames::endless(Peer::Server, FRAME_BYTES_MAX),
            utf8: Utf8::default(),
            place: MessagePosition::BeforeArray,
            walker: ObjectWalker::default(),
            begun: Vec::new(),
            decoded: Vec::new(),
            scanner: Scanner::new(simd),
            tables: ScanTables { prefixes: PrefixCache::new(), router: SymbolRouter::new(workers) },
            no_sym,
            run: Box::new([Object::default(); RUN_OBJECTS]),
            run_objects: 0,
            counters: ScanCounters::default(),
            end: None,
        }
    }

    /// Starts a new connection: forgets partial messages, keeps counts and learnt prefixes.
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

    /// HOT. Reads the next bytes of the connection. The sink receives every object that they
    /// complete.
    ///
    /// The text of an object is `received`, except for an object that a read cut. After a close
    /// frame everything is ignored.
    ///
    /// # Errors
    /// The server violated the protocol. Every later call returns the same violation.
    pub fn feed(&mut self, received: &[u8], sink: &mut impl ObjectSink) -> Result<(), Violation> {
        // Offsets have 32 bits, and a chunk of this size contains no object that is too long.
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

    /// HOT. Reads many small uniform messages at once. Returns whether it could.
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

    /// Empties the run if it is too full for the next scan.
    #[inline]
    fn make_room(&mut self, text: &[u8], sink: &mut impl ObjectSink) {
        if self.run.len() - self.run_objects < ROOM_OBJECTS {
            self.hand_on(text, sink);
        }
    }

    /// Passes the staged run to the sink.
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
            // Elements that are not objects were counted; the unfinished array was not.
            _ => self.counters.malformed += 1,
        }
        self.begun.clear();
        self.place = MessagePosition::BeforeArray;
    }

    /// Checks the rest of the payload for UTF-8 if that is required, and cuts off the invalid part.
    fn check(&mut self, text: &[u8], payload: &mut Payload) {
        let span = &mut payload.span;
        let from = span.at.max(span.checked);
        if from < span.end {
            if let ValidPart::Until(bytes) = self.utf8.check(&text[from..span.end]) {
                span.end = from + bytes;
                payload.is_broken = true;
            }
            span.checked = span.end;
        }
    }

    /// Processes one element, or the separator between two.
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
                // A trailing comma.
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

    /// Skips to the comma or bracket behind an element that is not an object.
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

    /// Processes all plain objects from this brace on, or this object alone if it is not plain.
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

    /// Processes one object that is not plain or not complete.
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

    /// Continues an object that a read cut.
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

    /// Returns the worker of an object, or `None` if it is dropped.
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

/// The unread part of a data piece.
#[derive(Debug)]
struct Payload {
    span: ScanSpan,
    /// The span ends where the text stops being UTF-8.
    is_broken: bool,
}

#[expect(clippy::cast_possible_truncation, reason = "offsets in what is at most OBJECT_BYTES_MAX long")]
fn located(start: usize, bytes: usize, worker: u32) -> Object {
    Object { start: start as u32, end: (start + bytes) as u32, worker }
}
