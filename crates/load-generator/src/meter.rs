//! Measurements of one worker of the messages that it receives.
//!
//! Does        sequence, latency, lateness and spread of published messages; order, size and
//!             latency of answers.
//! Holds       1. latency runs from the intended send to the read of the last byte;
//!             2. only messages that were due while measuring are timed; those that were due before
//!                may still be late;
//!             3. the first message of a connection is not timed, because a server may send it an
//!                old one.
//! Start at    [`Meter::start_message`], [`Meter::finish_message`].

use std::collections::VecDeque;

use crate::connection::{GeneratorConnection, NOTICE, PendingRequest, RareState, UNTIMED};
use crate::echo;
use crate::fields::{DueTime, FieldScanner};
use crate::plan::{LATE_NS, ReaderKind, Traffic};
use crate::report::LoadReport;
use crate::run_control::NEVER;
use crate::sequence::{SequenceStep, SequenceTracker};

/// A due time further away than this, in nanoseconds, belongs to another clock.
const FAR_NS: i64 = 3_600_000_000_000;

#[derive(Debug)]
pub struct Meter {
    pub report: LoadReport,
    fields: FieldScanner,
    traffic: Traffic,
    /// When measuring begins and ends, by the monotonic clock; [`NEVER`] if that is not known yet.
    pub start_ns: i64,
    pub end_ns: i64,
    /// Wall clock minus monotonic clock.
    pub wall_ns: i64,
    /// When the bytes that are being read reached the socket, by the monotonic clock, if the kernel
    /// says so.
    pub arrival_ns: Option<i64>,
    /// The newest sequence numbers of all connections with their due times, ascending.
    newest: VecDeque<(u64, i64)>,
    /// The first measured number.
    first: Option<u64>,
    /// The last number that was due more than [`LATE_NS`] ago.
    last_due: Option<u64>,
    /// Answers that have not arrived.
    pub outstanding: u64,
}

impl Meter {
    pub fn new(traffic: Traffic, sequence_field: &str) -> Self {
        Meter {
            report: LoadReport::default(),
            fields: FieldScanner::new(sequence_field),
            traffic,
            start_ns: NEVER,
            end_ns: NEVER,
            wall_ns: 0,
            arrival_ns: None,
            newest: VecDeque::new(),
            first: None,
            last_due: None,
            outstanding: 0,
        }
    }

    /// HOT. Notes the start of a message of `bytes` bytes. `head` is the part of it that is
    /// examined.
    #[inline]
    pub fn start_message(&mut self, one: &mut GeneratorConnection, head: &[u8], bytes: u32) {
        one.message_bytes = bytes;
        one.due_ns = match self.traffic {
            Traffic::Listen => self.published(&mut one.sequence, &mut one.extra, head),
            Traffic::Heartbeat { .. } => self.numbered_answer(&mut one.sequence, head),
            Traffic::Echo { .. } => self.echo(&mut one.extra, head),
        };
    }

    /// HOT. Notes that the last byte of the message was read.
    #[inline]
    pub fn finish_message(&mut self, one: &mut GeneratorConnection, now_ns: i64) {
        match self.traffic {
            Traffic::Listen => self.delivered(one, now_ns),
            Traffic::Heartbeat { .. } | Traffic::Echo { .. } => self.answered(one, now_ns),
        }
    }

    /// Checks one of several answers to a heartbeat: if they are numbered, the numbers must be
    /// consecutive.
    fn numbered_answer(&mut self, sequence: &mut SequenceTracker, head: &[u8]) -> i64 {
        if let Some(number) = self.fields.read(head).sequence
            && matches!(sequence.step(number), SequenceStep::Missing(_) | SequenceStep::Again)
        {
            self.report.counters.malformed += 1;
        }
        UNTIMED
    }

    /// Finds which of our messages came back. Those before it are lost.
    fn echo(&mut self, extra: &mut Option<Box<RareState>>, head: &[u8]) -> i64 {
        let Some(extra) = extra else { return UNTIMED };
        let waiting = extra.requests.len() as u64;
        match echo::missing(head, extra.next_echo) {
            Some(0) => {}
            Some(missing) if missing < waiting => {
                extra.requests.drain(..usize::try_from(missing).unwrap_or(0));
                extra.next_echo += missing;
                self.report.counters.lost += missing;
                self.outstanding = self.outstanding.saturating_sub(missing);
            }
            Some(_) | None => self.report.counters.malformed += 1,
        }
        extra.next_echo += 1;
        UNTIMED
    }

    /// Checks the sequence number. Returns when the message was due, [`UNTIMED`] or [`NOTICE`].
    #[inline]
    fn published(&mut self, sequence: &mut SequenceTracker, extra: &mut Option<Box<RareState>>, head: &[u8]) -> i64 {
        let fields = self.fields.read(head);
        let counters = &mut self.report.counters;
        match fields.sequence {
            Some(number) => match sequence.step(number) {
                SequenceStep::Next => {}
                SequenceStep::First => return UNTIMED,
                SequenceStep::Missing(missing) => counters.lost += missing,
                SequenceStep::Again => {
                    // Either the latest message of a gap that was just declared, or a duplicate.
                    if extra.as_ref().is_some_and(|extra| extra.is_in_gap(number)) {
                        counters.conflated = counters.conflated.saturating_sub(1);
                    } else {
                        counters.duplicated += 1;
                    }
                    return UNTIMED;
                }
            },
            None => match fields.gap {
                Some((from, to)) => {
                    self.gap(sequence, extra, from, to);
                    return NOTICE;
                }
                None => counters.unnumbered += 1,
            },
        }
        match fields.due {
            Some(DueTime::Monotonic(ns)) => ns,
            Some(DueTime::Real(ns)) => ns - self.wall_ns,
            None => UNTIMED,
        }
    }

    #[cold]
    fn gap(&mut self, sequence: &mut SequenceTracker, extra: &mut Option<Box<RareState>>, from: u64, to: u64) {
        let declared = sequence.declare(from, to);
        let counters = &mut self.report.counters;
        counters.gap_notices += 1;
        counters.conflated += declared.missing;
        counters.lost += declared.lost;
        if declared.missing > 0 {
            extra.get_or_insert_default().gap = Some((to - declared.missing + 1, to));
        }
    }

    #[inline]
    fn delivered(&mut self, one: &GeneratorConnection, now_ns: i64) {
        let due_ns = one.due_ns;
        if now_ns < self.start_ns || now_ns >= self.end_ns || due_ns == NOTICE {
            return;
        }
        let counters = &mut self.report.counters;
        counters.deliveries += 1;
        counters.bytes += u64::from(one.message_bytes);
        if one.reader != ReaderKind::Healthy {
            counters.slow_deliveries += 1;
            return;
        }
        let latency_ns = now_ns.wrapping_sub(due_ns);
        if due_ns == UNTIMED || !(-FAR_NS..FAR_NS).contains(&latency_ns) {
            counters.untimed += 1;
            return;
        }
        // A message that was due before measuring began can be late: the server was behind when it
        // began.
        counters.late += u64::from(latency_ns > LATE_NS);
        if due_ns < self.start_ns {
            return;
        }
        self.report.latencies.record(latency_ns);
        if let Some(arrival_ns) = self.arrival_ns {
            self.report.arrivals.record(arrival_ns - due_ns);
        }
        if let Some(number) = one.sequence.last() {
            self.report.spread.record(number, due_ns, now_ns);
            if self.newest.back().is_none_or(|(newest, _)| number > *newest) {
                self.first.get_or_insert(number);
                self.newest.push_back((number, due_ns));
                self.advance_last_due(now_ns);
            }
        }
    }

    /// Moves `last_due` forward, and forgets the numbers before it.
    fn advance_last_due(&mut self, now_ns: i64) {
        while let Some((number, due_ns)) = self.newest.front() {
            if *due_ns > now_ns - LATE_NS {
                break;
            }
            self.last_due = Some(*number);
            if self.newest.len() == 1 {
                break;
            }
            self.newest.pop_front();
        }
    }

    /// Returns the first and the last number that every connection should have received by
    /// `now_ns`.
    pub fn expected(&mut self, now_ns: i64) -> Option<(u64, u64)> {
        self.advance_last_due(now_ns);
        Some((self.first?, self.last_due?)).filter(|_| !self.report.spread.has_conflict())
    }

    /// Notes that a message was sent that expects `answers` answers.
    pub fn request_sent(&mut self, extra: &mut Option<Box<RareState>>, due_ns: i64, answers: u32) {
        self.report.counters.sent += 1;
        self.outstanding += u64::from(answers);
        extra.get_or_insert_default().requests.push_back(PendingRequest { due_ns, answers });
    }

    fn answered(&mut self, one: &mut GeneratorConnection, now_ns: i64) {
        let GeneratorConnection { sequence, extra, message_bytes, reader, .. } = one;
        let (bytes, reader) = (*message_bytes, *reader);
        let counters = &mut self.report.counters;
        let Some(request) = extra.as_mut().and_then(|extra| extra.requests.front_mut()) else {
            counters.duplicated += 1;
            return;
        };
        let (due_ns, is_last) = (request.due_ns, request.answers <= 1);
        request.answers = request.answers.saturating_sub(1);
        if is_last {
            *sequence = SequenceTracker::new();
            if let Some(extra) = extra {
                extra.requests.pop_front();
            }
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        let wanted = match self.traffic {
            Traffic::Heartbeat { expect, .. } => expect.bytes,
            Traffic::Echo { bytes } => bytes,
            Traffic::Listen => bytes,
        };
        counters.malformed += u64::from(bytes != wanted);
        counters.deliveries += 1;
        counters.bytes += u64::from(bytes);
        if reader != ReaderKind::Healthy {
            counters.slow_deliveries += 1;
            return;
        }
        counters.late += u64::from(now_ns - due_ns > LATE_NS);
        self.report.latencies.record(now_ns - due_ns);
    }

    /// Forgets the answers that can no longer arrive. Those to a healthy reader count as lost.
    pub fn abandon_requests(&mut self, extra: &mut Option<Box<RareState>>, reader: ReaderKind) {
        let Some(extra) = extra else { return };
        let missing: u64 = extra.requests.drain(..).map(|request| u64::from(request.answers)).sum();
        self.outstanding = self.outstanding.saturating_sub(missing);
        if reader == ReaderKind::Healthy {
            self.report.counters.lost += missing;
        }
    }
}
