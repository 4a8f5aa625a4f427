//! Orders at a fixed rate, whatever the venue does.
//!
//! Holds       an order's time begins when it was due, not when it could be sent: a venue that holds its clients up
//!             does not make them forget what they wanted to send meanwhile.
//! Costs       one thread that never sleeps while it runs; it is the client's core that is spent, not the venue's. One that
//!             sleeps leaves the core to others, and its own waking is in every time it takes.
//! Start at    [`run`].

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::client::{Orders, Session, cancel_all};
use super::figures::{Latencies, us};
use pitwire_failure::Failure;

/// Most that is handed to one socket at a time.
const CHUNK: usize = 64 * 1024;
/// After the last order was due, answers may take so long to come.
const DRAIN: Duration = Duration::from_secs(10);
/// A book holds two million orders.
const MOST_ORDERS: u64 = 1_500_000;
/// A client that sleeps looks up this often when nothing is due any more.
const AWHILE: Duration = Duration::from_millis(10);

#[derive(Clone, Copy)]
pub struct Load {
    pub rate: u32,
    pub connections: u16,
    pub seconds: u32,
    pub wait: Wait,
}

/// How the client waits for the time of its next order, and for replies.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Wait {
    /// On a core of its own, all the time: the exact times.
    Awake,
    /// Asleep: a load beside which something else is measured.
    Asleep,
}

/// What became of one load.
pub struct Outcome {
    pub latencies: Latencies,
    /// From when an order was due to when the client turned to it.
    lateness: Latencies,
    pub due: u64,
    /// Results that arrived while orders were still due.
    pub accepted_in_time: u64,
    pub refused: u64,
    pub unanswered: u64,
    pub lasted: Duration,
}

struct Line {
    session: Session,
    /// When each order that waits for a reply was due, and each that waits to be sent.
    sent: VecDeque<u64>,
    due: VecDeque<u64>,
    out: Vec<u8>,
    written: usize,
}

pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub fn measure(venue: SocketAddr, load: &Load) -> Result<Value, Failure> {
    let outcome = run(venue, load, true)?;
    cancel_all(venue)?;
    Ok(outcome.figures(load))
}

/// Rates that grow by half until twice in a row fewer than 95 in 100 are accepted in time.
pub fn ramp(venue: SocketAddr, load: &Load) -> Result<Value, Failure> {
    let (mut steps, mut best, mut rate, mut failures) = (Vec::new(), 0, load.rate, 0);
    while failures < 2 && rate <= 5_000_000 {
        let load = Load { rate, ..*load };
        let outcome = run(venue, &load, true)?;
        cancel_all(venue)?;
        best = best.max(outcome.accepted_per_second());
        steps.push(outcome.figures(&load));
        if outcome.is_behind() {
            // Once may be the machine's fault.
            failures += 1;
        } else {
            failures = 0;
            rate += rate / 2;
        }
    }
    Ok(json!({ "saturates_at_per_s": best, "steps": steps }))
}

/// Sends what is due to connections in turn. Without `to_the_end` what is not sent when time is up never is.
pub fn run(venue: SocketAddr, load: &Load, to_the_end: bool) -> Result<Outcome, Failure> {
    if load.wait == Wait::Asleep {
        // As near to the due time as the machine can; otherwise it is 50 us later.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(std::io::Error::from)?;
    }
    let mut lines = Vec::new();
    for number in 0..usize::from(load.connections) {
        let session = Session::open(venue, number)?;
        session.stream.set_nonblocking(true)?;
        lines.push(Line { session, sent: VecDeque::new(), due: VecDeque::new(), out: Vec::new(), written: 0 });
    }
    let period_ns = 1_000_000_000 / u64::from(load.rate);
    let most = if to_the_end { MOST_ORDERS } else { u64::MAX };
    let total = (u64::from(load.rate) * u64::from(load.seconds)).min(most);
    let end_ns = total * 1_000_000_000 / u64::from(load.rate);
    let due_ns = |order: u64| order * 1_000_000_000 / u64::from(load.rate);
    let (mut orders, started, mut next) = (Orders::new(), Instant::now(), 0);
    let mut outcome = Outcome::new(total);
    loop {
        let now = nanoseconds(started.elapsed());
        while next < total && due_ns(next) <= now {
            let at = usize::try_from(next).unwrap_or(0) % lines.len();
            lines[at].due.push_back(due_ns(next));
            outcome.lateness.record(now - due_ns(next));
            next += 1;
        }
        let mut waiting = 0;
        for line in &mut lines {
            line.send(&mut orders)?;
            line.hear(&mut outcome, started, end_ns)?;
            if !to_the_end && now > end_ns {
                line.due.clear();
            }
            waiting += line.sent.len() + line.due.len();
        }
        if now > end_ns.max(period_ns) && (waiting == 0 || now > end_ns + nanoseconds(DRAIN)) {
            outcome.unanswered = waiting as u64;
            outcome.lasted = Duration::from_nanos(end_ns);
            return Ok(outcome);
        }
        if load.wait == Wait::Asleep {
            let until_ns = if next < total { due_ns(next) } else { now + nanoseconds(AWHILE) };
            sleep(&lines, until_ns.saturating_sub(nanoseconds(started.elapsed())))?;
        }
    }
}

/// Until a reply comes, a socket takes what it did not, or so long.
fn sleep(lines: &[Line], most_ns: u64) -> Result<(), Failure> {
    let mut sockets: Vec<PollFd<'_>> = lines.iter().filter_map(Line::awaited).collect();
    let most = Duration::from_nanos(most_ns);
    let most = Timespec { tv_sec: i64::try_from(most.as_secs()).unwrap_or(0), tv_nsec: most.subsec_nanos().into() };
    match poll(&mut sockets, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

impl Line {
    /// What of its socket is waited for, if anything.
    fn awaited(&self) -> Option<PollFd<'_>> {
        let reply = if self.sent.is_empty() { PollFlags::empty() } else { PollFlags::IN };
        let room = if self.written == self.out.len() { PollFlags::empty() } else { PollFlags::OUT };
        let awaited = reply | room;
        (!awaited.is_empty()).then(|| PollFd::new(&self.session.stream, awaited))
    }

    fn send(&mut self, orders: &mut Orders) -> Result<(), Failure> {
        while !(self.due.is_empty() && self.written == self.out.len()) {
            if self.written == self.out.len() {
                self.out.clear();
                self.written = 0;
            }
            while self.out.len() < CHUNK
                && let Some(due) = self.due.pop_front()
            {
                self.out.extend_from_slice(orders.next());
                self.sent.push_back(due);
            }
            match self.session.stream.write(&self.out[self.written..]) {
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn hear(&mut self, outcome: &mut Outcome, started: Instant, end_ns: u64) -> Result<(), Failure> {
        if self.sent.is_empty() {
            return Ok(());
        }
        let Line { session, sent, .. } = self;
        let mut now = None;
        session.drain(|is_result| {
            let now = *now.get_or_insert_with(|| nanoseconds(started.elapsed()));
            if let Some(due) = sent.pop_front() {
                outcome.latencies.record(now - due);
            }
            outcome.refused += u64::from(!is_result);
            outcome.accepted_in_time += u64::from(is_result && now <= end_ns);
        })?;
        Ok(())
    }
}

impl Outcome {
    fn new(due: u64) -> Self {
        let (latencies, lateness) = (Latencies::new(), Latencies::new());
        Outcome { latencies, lateness, due, accepted_in_time: 0, refused: 0, unanswered: 0, lasted: Duration::ZERO }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn accepted_per_second(&self) -> u64 {
        (self.accepted_in_time as f64 / self.lasted.as_secs_f64().max(1e-9)) as u64
    }

    fn is_behind(&self) -> bool {
        self.accepted_in_time * 100 < self.due * 95
    }

    fn figures(&self, load: &Load) -> Value {
        let mut figures = self.latencies.figures();
        figures["rate_per_s"] = json!(load.rate);
        figures["connections"] = json!(load.connections);
        figures["accepted_per_s"] = json!(self.accepted_per_second());
        figures["refused"] = json!(self.refused);
        figures["unanswered"] = json!(self.unanswered);
        figures["sent_late_p50_us"] = json!(us(self.lateness.at(0.5)));
        figures["sent_late_p99_us"] = json!(us(self.lateness.at(0.99)));
        figures
    }
}
