//! One logical stream: what comes next, when it is due, and how much was handed over.
//!
//! Does        fills a buffer with whole frames when they are due; counts and sums; takes back what
//!             a broken connection did not receive, so that the next one continues there.
//! Holds       1. a trade counts as sent when its last byte was handed over. It is never sent
//!                again; an unsent trade is sent first on the next connection;
//!             2. the stream's clock stops while no reader is connected.
//! Leaves out  sockets and clocks: the caller has both.
//! Start at    [`TapeStream::fill`].

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use pitwire_websocket::Opcode;

use crate::checksum::{content_term, sequence_term};
use crate::framing::{FramedMessage, MessageSizes, begin_frame, end_frame, messages, write_fragments};
use crate::objects::objects;
use crate::pace::Pace;
use crate::trades::{MessageSource, TradeSource};
use pitwire_random::SplitMix64;

/// Size in bytes at which a buffer is sent. Small enough to be in the second-level cache when the
/// kernel copies it.
pub const CHUNK: usize = 128 * 1024;

pub enum StreamSource {
    Trades(Box<dyn TradeSource>),
    Messages(Box<dyn MessageSource>),
}

/// The parameters of a stream.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    pub pace: Pace,
    pub sizes: MessageSizes,
    /// Size of a fragment in bytes, if messages are to be fragmented.
    pub fragment: Option<usize>,
    /// Trades (or messages, of a message source) after which the stream ends.
    pub trades: Option<u64>,
    pub disconnect_every: Option<u64>,
    /// Whether to compute the checksum of content.
    pub content: bool,
    pub seed: u64,
}

/// The stream's time and the wall-clock time.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamTime {
    pub stream_ns: u64,
    pub wall_ns: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillResult {
    /// The buffer is full.
    Send,
    /// Nothing more is due before this time of the stream.
    At(u64),
    Disconnect,
    End,
    /// The source failed.
    Failed(String),
}

/// Totals of the trades handed over.
pub struct StreamTally {
    pub trades: u64,
    pub messages: u64,
    pub content: u64,
    /// From when a message was due until its last byte was handed over.
    pub late_ns: Histogram<u64>,
}

pub struct TapeStream {
    source: StreamSource,
    config: StreamConfig,
    random: SplitMix64,
    /// Trades taken from the source.
    drawn: u64,
    /// Trades of the next message, drawn in advance.
    size: u64,
    carried: VecDeque<UnsentMessage>,
    on_connection: u64,
    marks: VecDeque<DueMark>,
    scratch: Vec<u8>,
    ends: Vec<usize>,
    /// Bytes to insert between the first two fragments of the next message.
    pub between: Vec<u8>,
    pub tally: StreamTally,
    /// The stream's time when the last connection ended.
    pub elapsed_ns: u64,
}

/// A message that a broken connection did not receive.
struct UnsentMessage {
    is_binary: bool,
    payload: Vec<u8>,
    trades: u64,
}

struct DueMark {
    end: usize,
    due_ns: u64,
}

enum NextMessage {
    Wait(u64),
    Go { trades: u64, due_ns: u64 },
}

impl TapeStream {
    pub fn new(source: StreamSource, config: StreamConfig) -> Self {
        let mut random = SplitMix64::new(config.seed ^ 0x0046_5241_4D45);
        let size = config.sizes.draw(&mut random);
        // Two digits suffice for the report. More than an hour late counts as an hour.
        let late_ns = Histogram::new_with_bounds(1, 3_600_000_000_000, 2).expect("these bounds are in order");
        TapeStream {
            source,
            config,
            random,
            drawn: 0,
            size,
            carried: VecDeque::new(),
            on_connection: 0,
            marks: VecDeque::new(),
            scratch: Vec::new(),
            ends: Vec::new(),
            between: Vec::new(),
            tally: StreamTally { trades: 0, messages: 0, content: 0, late_ns },
            elapsed_ns: 0,
        }
    }

    pub fn is_fragmenting(&self) -> bool {
        self.config.fragment.is_some()
    }

    /// Returns the checksum of the sequence numbers of everything handed over.
    pub fn checksum(&self) -> Option<u64> {
        let StreamSource::Trades(trades) = &self.source else { return None };
        let all = trades.checksum()?;
        let unsent = self.carried.iter().flat_map(|carried| {
            objects(&carried.payload).into_iter().map(|range| own_sequence_term(&carried.payload[range]))
        });
        Some(unsent.fold(all, u64::wrapping_sub))
    }

    pub fn content(&self) -> Option<u64> {
        self.config.content.then_some(self.tally.content)
    }

    /// Notes a new connection, and returns the source's first messages for it.
    pub fn connected(&mut self, target: &str, wall_ns: u64) -> Vec<Vec<u8>> {
        self.on_connection = 0;
        match &mut self.source {
            StreamSource::Trades(_) => Vec::new(),
            StreamSource::Messages(messages) => messages.greeting(target, wall_ns / 1_000_000),
        }
    }

    pub fn answer(&mut self, text: &str) -> Option<Vec<u8>> {
        match &mut self.source {
            StreamSource::Trades(_) => None,
            StreamSource::Messages(messages) => messages.answer(text),
        }
    }

    /// Appends whole frames to `out`, which must be empty at each call.
    pub fn fill(&mut self, now: StreamTime, out: &mut Vec<u8>) -> FillResult {
        self.marks.clear();
        while out.len() < CHUNK {
            let quota = self.config.disconnect_every.map_or(u64::MAX, |every| every.saturating_sub(self.on_connection));
            if quota == 0 {
                return FillResult::Disconnect;
            }
            if let Some(carried) = self.carried.pop_front() {
                self.resend(&carried, out);
                continue;
            }
            let left = self.left().min(quota);
            if left == 0 {
                return FillResult::End;
            }
            match self.plan(left, now.stream_ns) {
                NextMessage::Wait(until) => return FillResult::At(until),
                NextMessage::Go { trades, due_ns } => {
                    let late_ns = if self.is_paced() { now.stream_ns.saturating_sub(due_ns) } else { 0 };
                    match self.emit(trades, now.wall_ns.saturating_sub(late_ns) / 1_000_000, out) {
                        Ok(true) => {}
                        Ok(false) => return FillResult::End,
                        Err(reason) => return FillResult::Failed(reason),
                    }
                    if self.is_paced() {
                        self.marks.push_back(DueMark { end: out.len(), due_ns });
                    }
                }
            }
        }
        FillResult::Send
    }

    /// Notes that the first `upto` bytes of the buffer were handed over at `stream_ns`.
    pub fn handed_over(&mut self, upto: usize, stream_ns: u64) {
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.end <= upto) {
            self.tally.late_ns.saturating_record(stream_ns.saturating_sub(mark.due_ns));
        }
    }

    /// Takes back the unsent part when the connection ended after `sent` bytes of `out`.
    pub fn broken(&mut self, out: &[u8], sent: usize) {
        let is_trades = matches!(self.source, StreamSource::Trades(_));
        let unsent =
            messages(out).into_iter().filter(|message| message.places.last().is_some_and(|last| *last >= sent));
        let mut back: Vec<UnsentMessage> = Vec::new();
        for message in unsent {
            if message.places.first().is_some_and(|first| *first >= sent) {
                self.tally.messages -= 1;
            }
            back.extend(if is_trades { unsent_trades(&message, sent) } else { Some(whole(message)) });
        }
        for carried in &back {
            self.tally.trades -= carried.trades;
            self.tally.content = self.tally.content.wrapping_sub(self.content_of(carried));
        }
        for carried in back.into_iter().rev() {
            self.carried.push_front(carried);
        }
        self.marks.clear();
    }

    fn is_paced(&self) -> bool {
        !matches!(self.config.pace, Pace::Max)
    }

    fn left(&self) -> u64 {
        let wanted = self.config.trades.map_or(u64::MAX, |trades| trades - self.drawn);
        match &self.source {
            StreamSource::Trades(trades) => wanted.min(trades.remaining()),
            StreamSource::Messages(_) => wanted,
        }
    }

    /// Returns the number of trades in the next message, and when it is due.
    fn plan(&mut self, left: u64, now_ns: u64) -> NextMessage {
        if let StreamSource::Messages(messages) = &mut self.source {
            let due_ns = match &self.config.pace {
                pace @ Pace::Recorded { .. } => pace.scale(messages.due_ns().unwrap_or(0)),
                pace => pace.time_of(self.drawn),
            };
            return if due_ns > now_ns { NextMessage::Wait(due_ns) } else { NextMessage::Go { trades: 1, due_ns } };
        }
        let (trades, due_ns) = match self.config.sizes {
            MessageSizes::Between { .. } => {
                let trades = self.size.min(left);
                (trades, self.due(trades - 1))
            }
            MessageSizes::Cutoff { ns } if self.is_paced() => self.gather(ns, left),
            MessageSizes::Cutoff { .. } => (self.size.min(left), 0),
        };
        if due_ns > now_ns { NextMessage::Wait(due_ns) } else { NextMessage::Go { trades, due_ns } }
    }

    /// Gathers everything due within `ns` of the next trade. It is sent when that time has passed,
    /// as live feeds do.
    fn gather(&self, ns: u64, left: u64) -> (u64, u64) {
        let end_ns = self.due(0).saturating_add(ns);
        let most = self.size.min(left);
        let within = match (&self.source, &self.config.pace) {
            (StreamSource::Trades(_), Pace::Recorded { .. }) => {
                (1..most).find(|ahead| self.due(*ahead) > end_ns).unwrap_or(most)
            }
            _ => (self.config.pace.due_by(end_ns) - self.drawn).min(most),
        };
        if within == most { (within, self.due(within - 1)) } else { (within, end_ns) }
    }

    /// Returns when the trade `ahead` of the next one is due.
    fn due(&self, ahead: u64) -> u64 {
        match (&self.config.pace, &self.source) {
            (Pace::Recorded { .. }, StreamSource::Trades(trades)) => {
                self.config.pace.scale(trades.due_ns(ahead).unwrap_or(0))
            }
            _ => self.config.pace.time_of(self.drawn + ahead),
        }
    }

    fn emit(&mut self, trades: u64, wall_ms: u64, out: &mut Vec<u8>) -> Result<bool, String> {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let done = match self.config.fragment {
            None => {
                let start = begin_frame(out);
                let opcode = self.payload(trades, wall_ms, out);
                if let Ok(Some(opcode)) = opcode {
                    end_frame(out, start, opcode);
                } else {
                    out.truncate(start);
                }
                opcode
            }
            Some(most) => {
                let opcode = self.payload(trades, wall_ms, &mut scratch);
                if let Ok(Some(opcode)) = opcode {
                    write_fragments(out, opcode, &scratch, most, &std::mem::take(&mut self.between));
                }
                opcode
            }
        };
        self.scratch = scratch;
        done.map(|opcode| opcode.is_some())
    }

    /// Appends one message's payload from the source. `None` at its end.
    fn payload(&mut self, trades: u64, wall_ms: u64, out: &mut Vec<u8>) -> Result<Option<Opcode>, String> {
        let body = out.len();
        let (taken, opcode) = match &mut self.source {
            StreamSource::Trades(source) => {
                out.push(b'[');
                self.ends.clear();
                let ends = self.config.content.then_some(&mut self.ends);
                let wanted = usize::try_from(trades).unwrap_or(usize::MAX);
                let taken = source.take(wanted, wall_ms, out, ends) as u64;
                if let (Some(last), true) = (out.last_mut(), taken > 0) {
                    *last = b']';
                }
                (taken, Opcode::Text)
            }
            StreamSource::Messages(source) => match source.take(wall_ms, out)? {
                None => (0, Opcode::Text),
                Some(is_binary) => {
                    self.ends.clear();
                    self.ends.push(out.len());
                    (1, if is_binary { Opcode::Binary } else { Opcode::Text })
                }
            },
        };
        if taken == 0 {
            return Ok(None);
        }
        if self.config.content {
            let first = body + usize::from(matches!(self.source, StreamSource::Trades(_)));
            self.add_content(&out[..], first);
        }
        self.count(taken);
        self.drawn += taken;
        self.size = self.config.sizes.draw(&mut self.random);
        Ok(Some(opcode))
    }

    fn add_content(&mut self, out: &[u8], first: usize) {
        let mut start = first;
        for end in &self.ends {
            self.tally.content = self.tally.content.wrapping_add(content_term(&out[start..*end]));
            start = end + 1;
        }
    }

    fn count(&mut self, trades: u64) {
        self.tally.trades += trades;
        self.tally.messages += 1;
        self.on_connection += trades;
    }

    fn resend(&mut self, carried: &UnsentMessage, out: &mut Vec<u8>) {
        let opcode = if carried.is_binary { Opcode::Binary } else { Opcode::Text };
        let most = self.config.fragment.unwrap_or(usize::MAX);
        write_fragments(out, opcode, &carried.payload, most, &std::mem::take(&mut self.between));
        self.tally.content = self.tally.content.wrapping_add(self.content_of(carried));
        self.count(carried.trades);
    }

    fn content_of(&self, carried: &UnsentMessage) -> u64 {
        match (&self.source, self.config.content) {
            (_, false) => 0,
            (StreamSource::Messages(_), true) => content_term(&carried.payload),
            (StreamSource::Trades(_), true) => {
                let config = objects(&carried.payload).into_iter().map(|range| content_term(&carried.payload[range]));
                config.fold(0, u64::wrapping_add)
            }
        }
    }
}

/// Makes a message of the trades whose last byte was not sent.
fn unsent_trades(message: &FramedMessage, sent: usize) -> Option<UnsentMessage> {
    let ranges = objects(&message.payload).into_iter();
    let unsent: Vec<&[u8]> =
        ranges.filter(|range| message.places[range.end - 1] >= sent).map(|range| &message.payload[range]).collect();
    let trades = unsent.len() as u64;
    let payload = [b"[".as_slice(), &unsent.join(b",".as_slice()), b"]"].concat();
    (trades > 0).then_some(UnsentMessage { is_binary: message.is_binary, payload, trades })
}

fn whole(message: FramedMessage) -> UnsentMessage {
    UnsentMessage { is_binary: message.is_binary, payload: message.payload, trades: 1 }
}

/// Returns the sequence term of an object that we wrote.
fn own_sequence_term(object: &[u8]) -> u64 {
    let (symbol, sequence) = (field(object, b"\"sym\":\""), field(object, b"\"i\":\""));
    let number = sequence.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit.wrapping_sub(b'0')));
    sequence_term(symbol, number)
}

fn field<'a>(object: &'a [u8], name: &[u8]) -> &'a [u8] {
    let start = object.windows(name.len()).position(|window| window == name).map_or(object.len(), |at| at + name.len());
    let length = object[start..].iter().position(|byte| *byte == b'"').unwrap_or(0);
    &object[start..start + length]
}
