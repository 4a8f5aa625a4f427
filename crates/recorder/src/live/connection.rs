//! One reader of a live feed: handshake, messages when they are due, faults, the end.
//!
//! Does        prepares each message before it is due, waits, stamps it and writes it.
//! Holds       memory is bounded: one message, or one batch up to 64 MiB, and those that a `delay`
//!             fault holds back.
//! Start at    [`LiveConnection::serve`].

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use pitwire_fault_script::{Direction, Fault, FaultKind, MessagePlace};
use pitwire_net::monotonic_ns;
use pitwire_websocket::{
    CloseCode, Decoder, Deflater, HandshakeAnswer, IncomingMessage, MessageLimits, Opcode, Policy, write_close,
    write_frame, write_header,
};

use super::arrivals::{ArrivalLaw, DueTimes, MessageTimes};
use super::compression::{self, RSV1, STORED_HEADER_BYTES};
use super::envelope;
use super::relay::RelayNext;
use super::shared::{STOP_CHECK, SharedFeed, late_histogram, nanos, realtime_ns};
use super::truth::{TruthRow, TruthWriter};
use crate::framing::write_fragments;
use crate::handshake;
use crate::server_socket::ServerSocket;
use crate::trades::MessageSource;

/// Time for the reader to end a connection that we have ended.
const LINGER: Duration = Duration::from_secs(2);
/// Shortest interval between two looks at what the reader sent.
const RECEIVE_INTERVAL_NS: u64 = 1_000_000;
/// Interval at which a relaying connection reads from its reader.
const RELAY_CHECK: Duration = Duration::from_millis(10);
/// Most bytes of a batch that are prepared before they are due.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Bytes of a batch in one write. One write per message would make the feed the limit.
const PIECE_BYTES: usize = 64 << 10;
/// Text of the `rubbish` fault.
const RUBBISH: &[u8] = b"<html>502 Bad Gateway</html>";
/// Body of the `bad-frame` fault: an UTF-8 sequence that ends too early.
const NOT_UTF8: &[u8] = b"{\"x\":\"\xC3\"}";

pub(super) struct LiveConnection<'a> {
    socket: ServerSocket,
    number: u32,
    shared: &'a SharedFeed,
    truth: Option<TruthWriter>,
    decoder: Decoder,
    /// Compresses messages, if the reader agreed to it.
    deflater: Option<Deflater>,
    incoming: Vec<u8>,
    received_at_ns: u64,
    has_subscribed: bool,
    tally: Tally,
}

/// Counts that this connection adds to the totals.
struct Tally {
    messages: u64,
    bytes: u64,
    late_ns: Histogram<u64>,
    faults: Vec<FaultKind>,
}

/// A message ready to be sent.
struct PreparedMessage {
    sequence: u64,
    due_ns: u64,
    frame: Vec<u8>,
    /// Where the envelope begins in `frame`, if there is one.
    envelope_at: Option<usize>,
    bytes: usize,
    fault: Option<FaultKind>,
}

impl PreparedMessage {
    /// Writes the sending time into the envelope, if there is one.
    fn stamp(&mut self, sent_ns: u64) {
        if let Some(at) = self.envelope_at {
            envelope::stamp(&mut self.frame[at..], sent_ns);
        }
    }
}

/// Why a connection ended.
enum EndReason {
    /// The feed sent its last message.
    Finished,
    Stopped,
    /// The reader closed the connection, or it broke.
    Gone,
    Fault(FaultKind),
    Failed(String),
}

impl From<io::Error> for EndReason {
    fn from(_: io::Error) -> Self {
        EndReason::Gone
    }
}

impl<'a> LiveConnection<'a> {
    pub(super) fn new(
        socket: ServerSocket,
        number: u32,
        shared: &'a SharedFeed,
        mut truth: Option<TruthWriter>,
    ) -> Self {
        if let Some(truth) = &mut truth {
            truth.connection = number;
        }
        let tally = Tally { messages: 0, bytes: 0, late_ns: late_histogram(), faults: Vec::new() };
        let decoder = Decoder::new(MessageLimits::default());
        LiveConnection {
            socket,
            number,
            shared,
            truth,
            decoder,
            deflater: None,
            incoming: Vec::new(),
            received_at_ns: 0,
            has_subscribed: false,
            tally,
        }
    }

    /// Serves the connection from the first byte to the last.
    pub(super) fn serve(mut self) {
        let deflate = self.shared.config.compresses.then(Policy::default);
        match handshake::receive(&mut self.socket, &mut self.incoming, &self.shared.stop, deflate) {
            Ok((target, answer)) => {
                let over = self.run(&target, &answer).err().unwrap_or(EndReason::Finished);
                self.add_totals();
                self.end(over);
            }
            Err(Some(response)) => {
                self.shared.totals().refused += 1;
                let mut answer = Vec::new();
                response.write(&mut answer, false, false);
                self.write_last(&answer);
                self.linger();
            }
            Err(None) => {}
        }
    }

    fn run(&mut self, target: &str, answer: &HandshakeAnswer) -> Result<(), EndReason> {
        let mut source = (self.shared.source)().map_err(EndReason::Failed)?;
        self.deflater = answer.deflate.as_ref().map(compression::deflater);
        self.decoder = Decoder::new(MessageLimits::default()).with_deflate(answer.deflate.as_ref());
        let mut head = Vec::new();
        answer.write(&mut head);
        for greeting in source.greeting(target, realtime_ns() / 1_000_000) {
            write_frame(&mut head, Opcode::Text, &greeting);
        }
        self.write(&head)?;
        while self.shared.config.needs_subscription && !self.has_subscribed {
            self.wait_readable(STOP_CHECK);
            self.receive()?;
            self.answer()?;
            if self.shared.stop.load(Relaxed) {
                return Err(EndReason::Stopped);
            }
        }
        let LiveConnection { socket, incoming, shared, .. } = self;
        let started = shared.wait_for_start(&mut || !socket.read(incoming).unwrap_or(false));
        let Some((start_ns, offset_ns)) = started else { return Err(EndReason::Stopped) };
        if self.shared.config.relay.is_some() {
            self.relay_all()
        } else {
            self.send_all(&mut *source, start_ns, offset_ns)
        }
    }

    /// Sends the next messages of the upstream connection. A message is due when it arrives.
    fn relay_all(&mut self) -> Result<(), EndReason> {
        let mut sequence = self.shared.relayed.next_number();
        loop {
            match self.shared.relayed.wait_for(sequence, RELAY_CHECK) {
                RelayNext::Message(message) => {
                    let opcode = if message.is_binary { Opcode::Binary } else { Opcode::Text };
                    let fault = self.fault_of(sequence);
                    let kind = fault.map(|fault| fault.kind);
                    let prepared = self.prepare(sequence, Some(message.at_ns), &message.body, opcode, kind);
                    self.deliver(prepared, fault, &mut BTreeMap::new())?;
                    sequence += 1;
                }
                RelayNext::Nothing => {}
                // The reader is too slow. It may come back for the newest messages.
                RelayNext::Dropped => return Err(EndReason::Fault(FaultKind::Close)),
                RelayNext::Ended => return Ok(()),
            }
            if self.shared.stop.load(Relaxed) {
                return Err(EndReason::Stopped);
            }
            self.receive()?;
            self.answer()?;
        }
    }

    fn send_all(&mut self, source: &mut dyn MessageSource, start_ns: u64, offset_ns: u64) -> Result<(), EndReason> {
        let mut times = self.shared.config.times.start();
        let joined_ns = monotonic_ns();
        let mut delayed: BTreeMap<u64, PreparedMessage> = BTreeMap::new();
        let mut body = Vec::new();
        let mut stalled_until_ns = 0;
        let in_batches = matches!(self.shared.config.times, MessageTimes::Law { law: ArrivalLaw::Batches(_), .. });
        let (mut batch, mut batch_bytes) = (Vec::new(), 0);
        for sequence in 1..=self.shared.config.messages.unwrap_or(u64::MAX) {
            let due_ns = self.due_ns(&mut times, source, start_ns);
            body.clear();
            let wall_ms = due_ns.unwrap_or_else(monotonic_ns).saturating_add(offset_ns) / 1_000_000;
            let Some(is_binary) = source.take(wall_ms, &mut body).map_err(EndReason::Failed)? else { break };
            if due_ns.is_some_and(|due_ns| due_ns < joined_ns) {
                continue;
            }
            let fault = self.fault_of(sequence);
            if let Some(fault) = fault.filter(|fault| fault.kind == FaultKind::Stall) {
                stalled_until_ns = due_ns.unwrap_or_else(monotonic_ns) + nanos(fault.duration);
            }
            let opcode = if is_binary { Opcode::Binary } else { Opcode::Text };
            let message = self.prepare(sequence, due_ns, &body, opcode, fault.map(|fault| fault.kind));
            let joins_batch = in_batches && fault.is_none() && delayed.is_empty() && stalled_until_ns == 0;
            let is_next = batch.last().is_some_and(|last: &PreparedMessage| last.due_ns != message.due_ns);
            if !joins_batch || is_next || batch_bytes > BATCH_BYTES_MAX {
                self.send_batch(&mut batch)?;
                batch_bytes = 0;
            }
            if joins_batch {
                batch_bytes += message.frame.len();
                batch.push(message);
                continue;
            }
            while let Some(held) = delayed.first_entry() {
                if due_ns.is_some_and(|due_ns| *held.key() > due_ns) {
                    break;
                }
                let (at_ns, held) = held.remove_entry();
                self.wait_until(at_ns.max(stalled_until_ns))?;
                self.send(held)?;
            }
            self.wait_until(due_ns.unwrap_or(0).max(stalled_until_ns))?;
            self.deliver(message, fault, &mut delayed)?;
        }
        self.send_batch(&mut batch)?;
        for (at_ns, held) in delayed {
            self.wait_until(at_ns)?;
            self.send(held)?;
        }
        Ok(())
    }

    fn fault_of(&self, sequence: u64) -> Option<Fault> {
        let connection = u64::from(self.number);
        self.shared.config.faults.find(MessagePlace { connection, direction: Direction::FromVenue, message: sequence })
    }

    /// Returns when the next message is due; `None`: at once.
    fn due_ns(&self, times: &mut DueTimes, source: &mut dyn MessageSource, start_ns: u64) -> Option<u64> {
        times.next(|| source.due_ns()).map(|since_ns| start_ns.saturating_add(since_ns))
    }

    fn prepare(
        &mut self,
        sequence: u64,
        due_ns: Option<u64>,
        body: &[u8],
        opcode: Opcode,
        fault: Option<FaultKind>,
    ) -> PreparedMessage {
        let due_ns = due_ns.unwrap_or_else(monotonic_ns);
        let mut payload = Vec::with_capacity(body.len() + envelope::ENVELOPE_BYTES);
        let has_envelope = match fault {
            Some(FaultKind::Rubbish) => {
                payload.extend_from_slice(RUBBISH);
                false
            }
            Some(FaultKind::BadFrame) => {
                payload.extend_from_slice(NOT_UTF8);
                false
            }
            Some(FaultKind::OmitTime) => {
                payload.extend_from_slice(body);
                false
            }
            _ if self.shared.config.has_envelope => envelope::wrap(&mut payload, body, sequence, due_ns, self.number),
            _ => {
                payload.extend_from_slice(body);
                false
            }
        };
        let bytes = payload.len();
        let stored = if has_envelope { envelope::ENVELOPE_BYTES } else { 0 };
        let compressed = self.deflater.as_mut().and_then(|it| compression::compress(it, &payload, stored));
        let is_compressed = compressed.is_some();
        let payload = compressed.unwrap_or(payload);
        let most = self.shared.config.fragment_bytes.unwrap_or(usize::MAX);
        let mut frame = Vec::with_capacity(payload.len() + 10);
        // The envelope is in the first frame, behind its header.
        write_header(&mut frame, opcode, payload.len().min(most));
        let block_header = if is_compressed { STORED_HEADER_BYTES } else { 0 };
        let envelope_at = has_envelope.then_some(frame.len() + block_header);
        frame.clear();
        write_fragments(&mut frame, opcode, &payload, most, &[]);
        if is_compressed {
            frame[0] |= RSV1;
        }
        PreparedMessage { sequence, due_ns, frame, envelope_at, bytes, fault }
    }

    /// Sends a message that is due, or does what its fault says.
    fn deliver(
        &mut self,
        message: PreparedMessage,
        fault: Option<Fault>,
        delayed: &mut BTreeMap<u64, PreparedMessage>,
    ) -> Result<(), EndReason> {
        let Some(fault) = fault else { return self.send(message) };
        self.tally.faults.push(fault.kind);
        match fault.kind {
            // The parser accepts the last three only for a relay.
            FaultKind::Stall
            | FaultKind::Rubbish
            | FaultKind::OmitTime
            | FaultKind::Reorder
            | FaultKind::Cut
            | FaultKind::Refuse => self.send(message),
            FaultKind::Drop => {
                self.log(&message, None, None);
                Ok(())
            }
            FaultKind::Delay => {
                let mut at_ns = message.due_ns + nanos(fault.duration);
                while delayed.contains_key(&at_ns) {
                    at_ns += 1;
                }
                delayed.insert(at_ns, message);
                Ok(())
            }
            FaultKind::Duplicate => {
                let again = PreparedMessage { frame: message.frame.clone(), ..message };
                self.send(message)?;
                self.send(again)
            }
            FaultKind::Close => {
                self.send(message)?;
                Err(EndReason::Fault(FaultKind::Close))
            }
            FaultKind::Reset => {
                self.log(&message, None, None);
                Err(EndReason::Fault(FaultKind::Reset))
            }
            FaultKind::BadFrame => {
                self.log(&message, None, None);
                let frame = message.frame;
                self.write(&frame)?;
                Err(EndReason::Fault(FaultKind::BadFrame))
            }
            FaultKind::Silence => {
                self.log(&message, None, None);
                // Pings are still answered until the reader or the server ends the connection.
                self.wait_until(u64::MAX)
            }
        }
    }

    fn send(&mut self, mut message: PreparedMessage) -> Result<(), EndReason> {
        let sent_ns = monotonic_ns();
        message.stamp(sent_ns);
        let written = self.write(&message.frame);
        self.count(&message, sent_ns, written.is_ok().then(monotonic_ns));
        written
    }

    /// Waits until the messages of a batch are due, and writes them in large pieces.
    fn send_batch(&mut self, batch: &mut Vec<PreparedMessage>) -> Result<(), EndReason> {
        let mut rest = batch.as_mut_slice();
        let mut buffer = Vec::new();
        while let Some(first) = rest.first() {
            self.wait_until(first.due_ns)?;
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|message| {
                bytes += message.frame.len();
                bytes <= PIECE_BYTES
            });
            let messages = fitting.count().max(1);
            let (piece, after) = std::mem::take(&mut rest).split_at_mut(messages);
            rest = after;
            let sent_ns = monotonic_ns();
            buffer.clear();
            for message in &mut *piece {
                message.stamp(sent_ns);
                buffer.extend_from_slice(&message.frame);
            }
            let written = self.write(&buffer);
            let done_ns = written.is_ok().then(monotonic_ns);
            for message in &*piece {
                self.count(message, sent_ns, done_ns);
            }
            written?;
        }
        batch.clear();
        Ok(())
    }

    /// Logs a message, and adds it to the totals if the kernel has all of it.
    fn count(&mut self, message: &PreparedMessage, sent_ns: u64, done_ns: Option<u64>) {
        self.log(message, Some(sent_ns), done_ns);
        if done_ns.is_some() {
            self.tally.messages += 1;
            self.tally.bytes += message.bytes as u64;
            self.tally.late_ns.saturating_record(sent_ns.saturating_sub(message.due_ns));
        }
    }

    fn log(&mut self, message: &PreparedMessage, sent_ns: Option<u64>, done_ns: Option<u64>) {
        let PreparedMessage { sequence, due_ns, bytes, fault, .. } = *message;
        if let Some(truth) = &mut self.truth {
            truth.add(TruthRow { sequence, due_ns, sent_ns, done_ns, bytes, fault });
        }
    }

    /// Waits until `at_ns`. Sleeps first, answers the reader meanwhile, and spins at the end.
    fn wait_until(&mut self, at_ns: u64) -> Result<(), EndReason> {
        let spin_ns = nanos(self.shared.config.spin);
        loop {
            if self.shared.stop.load(Relaxed) {
                return Err(EndReason::Stopped);
            }
            let now_ns = monotonic_ns();
            let sleep_ns = at_ns.saturating_sub(spin_ns).saturating_sub(now_ns);
            if sleep_ns > 0 {
                self.wait_readable(Duration::from_nanos(sleep_ns).min(STOP_CHECK));
            } else if now_ns < self.received_at_ns + RECEIVE_INTERVAL_NS {
                while monotonic_ns() < at_ns {
                    std::hint::spin_loop();
                }
                return Ok(());
            }
            self.received_at_ns = now_ns;
            self.receive()?;
            self.answer()?;
        }
    }

    /// Waits until the reader sent something, at most for `patience`.
    fn wait_readable(&mut self, patience: Duration) {
        // After an error the next read reports it.
        let _ = self.socket.wait_for_input(patience);
    }

    /// Takes what the reader sent, without waiting.
    fn receive(&mut self) -> io::Result<()> {
        if self.socket.read(&mut self.incoming)? { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Answers pings. Text is a subscription, which gets no answer.
    fn answer(&mut self) -> Result<(), EndReason> {
        let mut replies = Vec::new();
        loop {
            let Ok((used, message)) = self.decoder.decode(&self.incoming) else { return Err(EndReason::Gone) };
            match message {
                Some(IncomingMessage::Ping(body)) => write_frame(&mut replies, Opcode::Pong, body),
                Some(IncomingMessage::Close(_)) => return Err(EndReason::Gone),
                Some(IncomingMessage::Text(_)) => self.has_subscribed = true,
                _ => {}
            }
            if used == 0 {
                break;
            }
            self.incoming.drain(..used);
        }
        if replies.is_empty() { Ok(()) } else { self.write(&replies) }
    }

    /// Writes all of `bytes`, unless the server stops.
    fn write(&mut self, bytes: &[u8]) -> Result<(), EndReason> {
        let shared = self.shared;
        self.write_unless(bytes, &|| shared.stop.load(Relaxed))
    }

    /// Writes the last bytes of the connection. The reader may be gone, or may not read.
    fn write_last(&mut self, bytes: &[u8]) {
        let deadline = Instant::now() + LINGER;
        let _ = self.write_unless(bytes, &|| Instant::now() >= deadline);
    }

    /// Writes all of `bytes` to the kernel, unless it takes nothing and `is_over` returns true.
    fn write_unless(&mut self, bytes: &[u8], is_over: &dyn Fn() -> bool) -> Result<(), EndReason> {
        let mut sent = 0;
        while sent < bytes.len() || !self.socket.flush()? {
            match if sent < bytes.len() { self.socket.write(&bytes[sent..])? } else { None } {
                Some(more) => sent += more,
                None if is_over() => return Err(EndReason::Stopped),
                None => self.socket.wait(STOP_CHECK)?,
            }
        }
        Ok(())
    }

    fn add_totals(&mut self) {
        let mut totals = self.shared.totals();
        totals.messages += self.tally.messages;
        totals.bytes += self.tally.bytes;
        // Both histograms have the same bounds, so adding cannot fail.
        let _ = totals.late_ns.add(&self.tally.late_ns);
        for (kind, count) in &mut totals.faults {
            *count += self.tally.faults.iter().filter(|injected| *injected == kind).count() as u64;
        }
    }

    fn end(mut self, over: EndReason) {
        let (code, reason) = match over {
            EndReason::Finished => (CloseCode::Normal, "the end"),
            EndReason::Stopped => (CloseCode::GoingAway, "the feed stops"),
            EndReason::Fault(FaultKind::Close) => (CloseCode::GoingAway, "come back"),
            EndReason::Fault(FaultKind::Reset) => {
                // If that fails, the connection ends in the usual way.
                let _ = self.socket.reset();
                return;
            }
            // The reader has to close after a bad frame. It gets the time for it.
            EndReason::Fault(_) => return self.linger(),
            EndReason::Gone => return,
            EndReason::Failed(reason) => {
                self.shared.fail(reason);
                (CloseCode::GoingAway, "the feed failed")
            }
        };
        let mut frame = Vec::new();
        write_close(&mut frame, code, reason);
        self.write_last(&frame);
        self.linger();
    }

    /// Shuts down sending and reads until the reader ends, so that a reset cannot drop data in
    /// flight.
    fn linger(&mut self) {
        self.socket.finish();
        let deadline = Instant::now() + LINGER;
        while Instant::now() < deadline && self.receive().is_ok() {
            self.incoming.clear();
            self.wait_readable(STOP_CHECK);
        }
    }
}
