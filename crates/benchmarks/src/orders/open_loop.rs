//! Orders at a fixed rate, independent of the replies of the venue (an open loop).
//!
//! Holds       latency counts from when an order was due, not from when it was sent. A venue that
//!             stalls its clients cannot hide the orders that they could not send (coordinated
//!             omission).
//! Costs       one thread. Awake, it uses a whole core and its times are exact. Asleep, it leaves
//!             the core to others, and its own wake-up latency is part of every time.
//! Start at    [`run`].

use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use super::latencies::{Latencies, nanoseconds, us};
use super::session::{BenchSession, BenchTarget, OrderFrames, cancel_all};
use crate::BenchProgress;
use pitwire_failure::Failure;

/// Most bytes that one write gets.
const CHUNK: usize = 64 * 1024;
/// How long to wait for replies after the last order was due.
const DRAIN: Duration = Duration::from_secs(10);
/// Most orders of a load. A book holds two million.
const MAX_ORDERS: u64 = 1_500_000;
/// Length of a step of the progress, in nanoseconds.
const STEP_NS: u64 = 100_000_000;
/// Highest rate of a ramp, in orders per second.
const RAMP_MAX: u32 = 5_000_000;
/// Wake-up interval of a sleeping client when nothing is due any more.
const IDLE_INTERVAL: Duration = Duration::from_millis(10);

/// A load at a fixed rate.
#[derive(Clone, Copy)]
pub struct Load {
    /// Orders per second over all connections.
    pub rate: u32,
    pub connections: u16,
    /// Length of the load.
    pub seconds: u32,
    pub wait: Wait,
}

impl Load {
    /// Returns the steps of the progress that a load has.
    pub fn steps(&self) -> u64 {
        u64::from(self.seconds) * 1_000_000_000 / STEP_NS
    }
}

/// How the client waits for its next order and for replies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Polls without sleeping, for exact times. This occupies one core.
    Awake,
    /// Sleeps, for a load next to which something else is measured.
    Asleep,
}

/// Result of one load.
pub struct LoadResult {
    pub latencies: Latencies,
    /// Delay of the client itself: from when an order was due to when the client handled it.
    lateness: Latencies,
    pub due: u64,
    /// Results that arrived before the end of the load.
    pub accepted_in_time: u64,
    pub refused: u64,
    pub unanswered: u64,
    pub lasted: Duration,
}

/// A connection of the load.
struct LoadConnection {
    session: BenchSession,
    /// Due times of the orders that wait for a reply, in nanoseconds from the start.
    sent: VecDeque<u64>,
    /// Due times of the orders that wait to be sent.
    due: VecDeque<u64>,
    out: Vec<u8>,
    written: usize,
}

/// Runs one load to its end and cancels its orders.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached or closes a connection.
pub fn measure(venue: &BenchTarget, load: &Load, progress: &BenchProgress) -> Result<Value, Failure> {
    progress.plan(load.steps());
    let outcome = run(venue, load, true, progress)?;
    cancel_all(venue)?;
    Ok(outcome.figures(load))
}

/// Raises the rate by half until the venue accepts less than 95 % in time, twice in a row.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached or closes a connection.
pub fn ramp(venue: &BenchTarget, load: &Load, progress: &BenchProgress) -> Result<Value, Failure> {
    let (mut steps, mut best, mut rate, mut failures) = (Vec::new(), 0, load.rate, 0);
    // The venue decides when the ramp ends, so the plan is only ever the load that runs.
    while failures < 2 && rate <= RAMP_MAX {
        let load = Load { rate, ..*load };
        progress.plan(load.steps());
        let outcome = run(venue, &load, true, progress)?;
        cancel_all(venue)?;
        best = best.max(outcome.accepted_per_second());
        steps.push(outcome.figures(&load));
        if outcome.is_behind() {
            // The machine may cause one failure: stop after two in a row.
            failures += 1;
        } else {
            failures = 0;
            rate += rate / 2;
        }
    }
    Ok(json!({ "saturates_at_per_s": best, "steps": steps }))
}

/// Sends the due orders to the connections in turn. Without `to_the_end`, orders that are not sent
/// when the time is up are dropped.
///
/// # Errors
///
/// Returns a failure if the venue cannot be reached or closes a connection.
pub fn run(
    venue: &BenchTarget,
    load: &Load,
    to_the_end: bool,
    progress: &BenchProgress,
) -> Result<LoadResult, Failure> {
    if load.wait == Wait::Asleep {
        // The default timer slack would wake the thread 50 us late.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1)).map_err(std::io::Error::from)?;
    }
    let mut connections = Vec::new();
    for number in 0..usize::from(load.connections) {
        let session = BenchSession::open(venue, number)?;
        session.stream.set_nonblocking(true)?;
        connections.push(LoadConnection {
            session,
            sent: VecDeque::new(),
            due: VecDeque::new(),
            out: Vec::new(),
            written: 0,
        });
    }
    let period_ns = 1_000_000_000 / u64::from(load.rate);
    let most = if to_the_end { MAX_ORDERS } else { u64::MAX };
    let total = (u64::from(load.rate) * u64::from(load.seconds)).min(most);
    let end_ns = total * 1_000_000_000 / u64::from(load.rate);
    let due_ns = |order: u64| order * 1_000_000_000 / u64::from(load.rate);
    let (mut orders, started, mut next) = (OrderFrames::new(), Instant::now(), 0);
    let mut outcome = LoadResult::new(total);
    let mut step_ends_ns = STEP_NS;
    loop {
        let now = nanoseconds(started.elapsed());
        if now >= step_ends_ns && step_ends_ns <= end_ns {
            progress.add(1);
            step_ends_ns += STEP_NS;
        }
        while next < total && due_ns(next) <= now {
            let at = usize::try_from(next).unwrap_or(0) % connections.len();
            connections[at].due.push_back(due_ns(next));
            outcome.lateness.record(now - due_ns(next));
            next += 1;
        }
        let mut waiting = 0;
        for connection in &mut connections {
            connection.send(&mut orders)?;
            connection.receive(&mut outcome, started, end_ns)?;
            if !to_the_end && now > end_ns {
                connection.due.clear();
            }
            waiting += connection.sent.len() + connection.due.len();
        }
        if now > end_ns.max(period_ns) && (waiting == 0 || now > end_ns + nanoseconds(DRAIN)) {
            outcome.unanswered = waiting as u64;
            outcome.lasted = Duration::from_nanos(end_ns);
            return Ok(outcome);
        }
        if load.wait == Wait::Asleep {
            let until_ns = if next < total { due_ns(next) } else { now + nanoseconds(IDLE_INTERVAL) };
            sleep_until_ready(&connections, until_ns.saturating_sub(nanoseconds(started.elapsed())))?;
        }
    }
}

/// Sleeps until a reply arrives, a socket becomes writable, or `most_ns` have passed.
fn sleep_until_ready(connections: &[LoadConnection], most_ns: u64) -> Result<(), Failure> {
    let mut sockets: Vec<PollFd<'_>> = connections.iter().filter_map(LoadConnection::awaited_events).collect();
    let most = Duration::from_nanos(most_ns);
    let most = Timespec { tv_sec: i64::try_from(most.as_secs()).unwrap_or(0), tv_nsec: most.subsec_nanos().into() };
    match poll(&mut sockets, Some(&most)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(std::io::Error::from(error).into()),
    }
}

impl LoadConnection {
    /// Returns the socket events that this connection waits for, if any.
    fn awaited_events(&self) -> Option<PollFd<'_>> {
        let reply = if self.sent.is_empty() { PollFlags::empty() } else { PollFlags::IN };
        let room = if self.written == self.out.len() { PollFlags::empty() } else { PollFlags::OUT };
        let awaited = reply | room;
        (!awaited.is_empty()).then(|| PollFd::new(&self.session.stream, awaited))
    }

    fn send(&mut self, orders: &mut OrderFrames) -> Result<(), Failure> {
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

    fn receive(&mut self, outcome: &mut LoadResult, started: Instant, end_ns: u64) -> Result<(), Failure> {
        if self.sent.is_empty() {
            return Ok(());
        }
        let LoadConnection { session, sent, .. } = self;
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

impl LoadResult {
    fn new(due: u64) -> Self {
        let (latencies, lateness) = (Latencies::new(), Latencies::new());
        LoadResult { latencies, lateness, due, accepted_in_time: 0, refused: 0, unanswered: 0, lasted: Duration::ZERO }
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
    pub fn accepted_per_second(&self) -> u64 {
        (self.accepted_in_time as f64 / self.lasted.as_secs_f64().max(1e-9)) as u64
    }

    /// Returns whether the venue accepted less than 95 % in time.
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
