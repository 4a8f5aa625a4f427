//! What one thread measures of the messages that come.
//!
//! Does        sequence, latency, lateness, spread of published messages; order, size and latency of answers.
//! Holds       a message is timed from when it should have been sent to when its last byte was read; only messages that were
//!             due while it lasted are timed (those due before may still be late); the first of a connection is neither
//!             (it may be the past, told to a newcomer).
//! Start at    [`Gauge::begun`], [`Gauge::ended`].

use std::collections::VecDeque;

use crate::connection::{Asked, Connection, Extra};
use crate::echo;
use crate::numbers::{Due, Numbers};
use crate::plan::{LATE_NS, Reader, Traffic};
use crate::report::Report;
use crate::sequence::{Sequence, Step};

/// No time: it is not measured.
pub const UNTIMED: i64 = i64::MIN;
/// Not a message of the stream: nothing is counted.
pub const NOTICE: i64 = i64::MIN + 1;
/// A time further away is of another clock.
const FAR_NS: i64 = 3_600_000_000_000;

#[derive(Debug)]
pub struct Gauge {
    pub report: Report,
    numbers: Numbers,
    traffic: Traffic,
    /// When measuring begins and ends, by the monotonic clock.
    pub start_ns: i64,
    pub end_ns: i64,
    /// Wall clock less monotonic clock.
    pub wall_ns: i64,
    /// When what is being read had come to the socket, if that is known.
    pub came_ns: Option<i64>,
    /// The newest numbers that any connection here has seen, with their due times, ascending.
    newest: VecDeque<(u64, i64)>,
    /// The first and the last number whose second is over.
    first: Option<u64>,
    settled: Option<u64>,
    /// Answers that are still to come.
    pub outstanding: u64,
}

impl Gauge {
    pub fn new(traffic: Traffic, sequence_field: &str) -> Self {
        Gauge {
            report: Report::default(),
            numbers: Numbers::new(sequence_field),
            traffic,
            start_ns: i64::MAX,
            end_ns: i64::MAX,
            wall_ns: 0,
            came_ns: None,
            newest: VecDeque::new(),
            first: None,
            settled: None,
            outstanding: 0,
        }
    }

    /// HOT. A message of so many bytes has begun to come; `head` is what may be looked at.
    #[inline]
    pub fn begun(&mut self, one: &mut Connection, head: &[u8], bytes: u32) {
        one.bytes = bytes;
        one.due_ns = match self.traffic {
            Traffic::Listen => self.published(&mut one.sequence, &mut one.extra, head),
            Traffic::Heartbeat { .. } => self.numbered(&mut one.sequence, head),
            Traffic::Echo { .. } => self.echoed(&mut one.extra, head),
        };
    }

    /// HOT. Its last byte has come.
    #[inline]
    pub fn ended(&mut self, one: &mut Connection, now_ns: i64) {
        match self.traffic {
            Traffic::Listen => self.delivered(one.due_ns, one.sequence.last(), one.bytes, one.reader, now_ns),
            Traffic::Heartbeat { .. } | Traffic::Echo { .. } => self.answered(one, now_ns),
        }
    }

    /// One of several answers: where they are numbered, they go up by one.
    fn numbered(&mut self, sequence: &mut Sequence, head: &[u8]) -> i64 {
        if let Some(number) = self.numbers.read(head).sequence
            && matches!(sequence.step(number), Step::Missing(_) | Step::Again)
        {
            self.report.tally.malformed += 1;
        }
        UNTIMED
    }

    /// Which of ours has come back: those before it will not.
    fn echoed(&mut self, extra: &mut Option<Box<Extra>>, head: &[u8]) -> i64 {
        let Some(extra) = extra else { return UNTIMED };
        let waiting = extra.asked.len() as u64;
        match echo::missing(head, extra.echoed) {
            Some(0) => {}
            Some(missing) if missing < waiting => {
                extra.asked.drain(..usize::try_from(missing).unwrap_or(0));
                extra.echoed += missing;
                self.report.tally.lost += missing;
                self.outstanding = self.outstanding.saturating_sub(missing);
            }
            Some(_) | None => self.report.tally.malformed += 1,
        }
        extra.echoed += 1;
        UNTIMED
    }

    /// When a message of the stream was due, [`UNTIMED`] or [`NOTICE`].
    #[inline]
    fn published(&mut self, sequence: &mut Sequence, extra: &mut Option<Box<Extra>>, head: &[u8]) -> i64 {
        let said = self.numbers.read(head);
        let tally = &mut self.report.tally;
        match said.sequence {
            Some(number) => match sequence.step(number) {
                Step::Next => {}
                Step::First => return UNTIMED,
                Step::Missing(missing) => tally.lost += missing,
                Step::Again => {
                    // The latest of what a gap notice has just declared, or a message that came before.
                    if extra.as_ref().is_some_and(|extra| extra.is_in_gap(number)) {
                        tally.conflated = tally.conflated.saturating_sub(1);
                    } else {
                        tally.duplicated += 1;
                    }
                    return UNTIMED;
                }
            },
            None => match said.gap {
                Some((from, to)) => {
                    self.gap(sequence, extra, from, to);
                    return NOTICE;
                }
                None => tally.unnumbered += 1,
            },
        }
        match said.due {
            Some(Due::Monotonic(ns)) => ns,
            Some(Due::Real(ns)) => ns - self.wall_ns,
            None => UNTIMED,
        }
    }

    #[cold]
    fn gap(&mut self, sequence: &mut Sequence, extra: &mut Option<Box<Extra>>, from: u64, to: u64) {
        let declared = sequence.declare(from, to);
        let tally = &mut self.report.tally;
        tally.gap_notices += 1;
        tally.conflated += declared.missing;
        tally.lost += declared.lost;
        if declared.missing > 0 {
            extra.get_or_insert_default().gap = Some((to - declared.missing + 1, to));
        }
    }

    #[inline]
    fn delivered(&mut self, due_ns: i64, number: Option<u64>, bytes: u32, reader: Reader, now_ns: i64) {
        if now_ns < self.start_ns || now_ns >= self.end_ns || due_ns == NOTICE {
            return;
        }
        let tally = &mut self.report.tally;
        tally.deliveries += 1;
        tally.bytes += u64::from(bytes);
        if reader != Reader::Healthy {
            tally.slow_deliveries += 1;
            return;
        }
        let waited_ns = now_ns.wrapping_sub(due_ns);
        if due_ns == UNTIMED || !(-FAR_NS..FAR_NS).contains(&waited_ns) {
            tally.untimed += 1;
            return;
        }
        // Late is late, also when it was due before: a server that was behind when measuring began is behind.
        tally.late += u64::from(waited_ns > LATE_NS);
        if due_ns < self.start_ns {
            return;
        }
        self.report.latencies.record(waited_ns);
        if let Some(came_ns) = self.came_ns {
            self.report.arrivals.record(came_ns - due_ns);
        }
        if let Some(number) = number {
            self.report.spread.came(number, due_ns, now_ns);
            if self.newest.back().is_none_or(|(newest, _)| number > *newest) {
                self.newest(number, due_ns, now_ns);
            }
        }
    }

    fn newest(&mut self, number: u64, due_ns: i64, now_ns: i64) {
        self.first.get_or_insert(number);
        self.newest.push_back((number, due_ns));
        self.settle(now_ns);
    }

    /// Forgets numbers whose second is over, but the last.
    fn settle(&mut self, now_ns: i64) {
        while let Some((number, due_ns)) = self.newest.front() {
            if *due_ns > now_ns - LATE_NS {
                break;
            }
            self.settled = Some(*number);
            if self.newest.len() == 1 {
                break;
            }
            self.newest.pop_front();
        }
    }

    /// The first number that was measured, and the last that every connection should have had by `now_ns`.
    pub fn expected(&mut self, now_ns: i64) -> Option<(u64, u64)> {
        self.settle(now_ns);
        Some((self.first?, self.settled?)).filter(|_| !self.report.spread.is_torn())
    }

    /// A message was sent that so many answer.
    pub fn asked(&mut self, extra: &mut Option<Box<Extra>>, due_ns: i64, answers: u32) {
        self.report.tally.sent += 1;
        self.outstanding += u64::from(answers);
        extra.get_or_insert_default().asked.push_back(Asked { due_ns, answers });
    }

    fn answered(&mut self, one: &mut Connection, now_ns: i64) {
        let Connection { sequence, extra, bytes, reader, .. } = one;
        let (bytes, reader) = (*bytes, *reader);
        let tally = &mut self.report.tally;
        let Some(asked) = extra.as_mut().and_then(|extra| extra.asked.front_mut()) else {
            tally.duplicated += 1;
            return;
        };
        let (due_ns, is_done) = (asked.due_ns, asked.answers <= 1);
        asked.answers = asked.answers.saturating_sub(1);
        if is_done {
            *sequence = Sequence::new();
            if let Some(extra) = extra {
                extra.asked.pop_front();
            }
        }
        self.outstanding = self.outstanding.saturating_sub(1);
        let wanted = match self.traffic {
            Traffic::Heartbeat { expect, .. } => expect.bytes,
            Traffic::Echo { bytes } => bytes,
            Traffic::Listen => bytes,
        };
        tally.malformed += u64::from(bytes != wanted);
        tally.deliveries += 1;
        tally.bytes += u64::from(bytes);
        if reader != Reader::Healthy {
            tally.slow_deliveries += 1;
            return;
        }
        tally.late += u64::from(now_ns - due_ns > LATE_NS);
        self.report.latencies.record(now_ns - due_ns);
    }

    /// Answers that will not come any more: of a healthy reader they are lost.
    pub fn given_up(&mut self, extra: &mut Option<Box<Extra>>, reader: Reader) {
        let Some(extra) = extra else { return };
        let missing: u64 = extra.asked.drain(..).map(|asked| u64::from(asked.answers)).sum();
        self.outstanding = self.outstanding.saturating_sub(missing);
        if reader == Reader::Healthy {
            self.report.tally.lost += missing;
        }
    }
}
