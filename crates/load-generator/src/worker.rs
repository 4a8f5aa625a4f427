//! One thread and its connections: an event loop of its own.
//!
//! Does        open them in waves, read what comes, send what is due, cut them all when the storm comes.
//! Holds       1. what comes is read into one buffer that all connections share, once for each time the kernel says so;
//!             2. what we send goes when it is due, whatever has come back.
//! Costs       64 bytes a connection; nothing is allocated for a message.
//! Start at    [`Worker::run`].

mod doors;
mod talk;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use pitwire_random::SplitMix64;
use pitwire_websocket::{Offer, Opening};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use crate::clock::{Spent, mono_ns, timespec, wall_ns};
use crate::connection::Connection;
use crate::control::{Control, NEVER};
use crate::gauge::Gauge;

use crate::plan::{Plan, Reader, Share, Traffic};
use crate::report::{Generator, Report};
use crate::schedule::Schedule;
use crate::socket::Sources;

/// Nothing is remembered from message to message: one inflater serves every connection.
const DEFLATE: Offer = Offer { keeps_context: false };
const BUFFER_BYTES: usize = 256 * 1024;
const EVENTS: usize = 512;
/// Nothing that is not an event needs to be noticed sooner.
const TICK_NS: i64 = 20_000_000;
/// Answers to what was sent while it lasted may come so long after.
const GRACE_NS: i64 = 2_000_000_000;
/// Messages of ours in one go, before the sockets are looked at again.
const MOST_SENDS: usize = 256;
/// The event of the timer; a connection's are its generation and its place.
const TIMER: u64 = u64::MAX;
/// How a slow reader reads.
const SLOW_EVERY_NS: i64 = 500_000_000;
const SLOW_BYTES: usize = 4 * 1024;

/// Told once of what has come: whoever is told again and again is asked again and again.
const READING: epoll::EventFlags = epoll::EventFlags::IN.union(epoll::EventFlags::RDHUP).union(epoll::EventFlags::ET);

/// Everything of one thread.
pub struct Worker<'a> {
    plan: &'a Plan,
    share: Share,
    control: &'a Control,
    /// The first thread tries one connection before anybody opens another.
    is_scout: bool,
    epoll: OwnedFd,
    timer: OwnedFd,
    timer_ns: i64,
    connections: Vec<Connection>,
    opening: Opening,
    sources: Sources,
    gauge: Gauge,
    random: SplitMix64,
    buffer: Vec<u8>,
    plain: Vec<u8>,
    frame: Vec<u8>,
    inflation: Option<talk::Inflation>,
    /// Places whose connections are to be opened, and not before when.
    queue: VecDeque<(u32, i64)>,
    /// Arrivals of connections, where we only listen.
    arriving: Option<Schedule>,
    arriving_from_ns: i64,
    /// Being opened: place, generation, until when. Those that are done stay until then.
    patience: VecDeque<(u32, u32, i64)>,
    opening_now: u32,
    sending: Option<Schedule>,
    slow: Vec<u32>,
    slow_next_ns: i64,
    storm: Storm,
    began_ns: i64,
    spent: Spent,
    told: Told,
    tell_next_ns: i64,
    now_ns: i64,
}

/// All connections cut and opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Storm {
    None,
    Due,
    /// Since when, and how many are not back.
    Raging {
        since_ns: i64,
        missing: u32,
    },
    Over,
}

/// What was last told to whoever leads the run.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    deliveries: u64,
    late: u64,
    lost: u64,
}

/// What a thread brings home.
pub struct Outcome {
    pub report: Report,
    /// The first and the last number that every connection should have.
    pub expected: Option<(u64, u64)>,
    /// The last number of each healthy connection that was open at the end; 0 where none came.
    pub lasts: Vec<u64>,
}

impl<'a> Worker<'a> {
    pub fn new(plan: &'a Plan, share: Share, control: &'a Control, index: usize) -> Result<Self, String> {
        let failed = |error: Errno| format!("cannot set up an event loop: {error}");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed)?;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), epoll::EventFlags::IN).map_err(failed)?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let opening = Opening::new(&plan.address, nonce, plan.subprotocol.as_deref(), plan.deflate.then_some(DEFLATE));
        let readers = (0..share.count).map(|place| plan.faults.of(share.first + place, share.total));
        let connections: Vec<Connection> = readers.map(Connection::new).collect();
        let places = || (0_u32..).zip(&connections);
        let slow = places().filter(|(_, one)| one.reader == Reader::Slow).map(|(place, _)| place).collect();
        let period_ns = match plan.traffic {
            Traffic::Heartbeat { period, .. } => period.as_nanos() as f64,
            Traffic::Echo { .. } | Traffic::Listen => 1e9,
        };
        let schedule = |arrivals| Schedule::new(share, period_ns, arrivals, plan.seed);
        let listens = plan.traffic == Traffic::Listen;
        Ok(Worker {
            plan,
            share,
            control,
            is_scout: index == 0,
            epoll,
            timer,
            timer_ns: NEVER,
            queue: (0..share.count).map(|place| (place, 0)).collect(),
            connections,
            opening,
            sources: Sources::new(plan.server, share.total, plan.sources),
            gauge: Gauge::new(plan.traffic, &plan.sequence_field),
            random: SplitMix64::new(u64::from_ne_bytes([
                nonce[0], nonce[1], nonce[2], nonce[3], nonce[4], nonce[5], nonce[6], nonce[7],
            ])),
            buffer: vec![0; BUFFER_BYTES],
            plain: Vec::new(),
            frame: Vec::new(),
            inflation: plan.deflate.then(talk::Inflation::new),
            arriving: plan.arrivals.filter(|_| listens).map(|arrivals| schedule(Some(arrivals))),
            arriving_from_ns: 0,
            patience: VecDeque::new(),
            opening_now: 0,
            sending: (!listens && share.count > 0).then(|| schedule(plan.arrivals)),
            slow,
            slow_next_ns: 0,
            storm: if plan.storm.is_some() { Storm::Due } else { Storm::None },
            began_ns: 0,
            spent: Spent::default(),
            told: Told::default(),
            tell_next_ns: 0,
            now_ns: 0,
        })
    }

    /// From the first connection to the end of the measurement.
    pub fn run(mut self) -> Result<Outcome, String> {
        let mut events =
            vec![epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; EVENTS];
        self.look_at_clock();
        self.tell();
        self.began_ns = self.now_ns;
        self.arriving_from_ns = self.now_ns;
        while !self.is_over() {
            let wait = self.wait_ns();
            let count = match epoll::wait(&self.epoll, events.as_mut_slice(), Some(&wait)) {
                Ok(count) => count,
                Err(Errno::INTR) => 0,
                Err(error) => return Err(format!("cannot wait for events: {error}")),
            };
            self.look_at_clock();
            for event in events.get(..count).unwrap_or_default() {
                self.event(event.data.u64(), event.flags);
            }
            self.housekeeping();
        }
        Ok(self.finish())
    }

    fn look_at_clock(&mut self) {
        self.now_ns = mono_ns();
    }

    fn event(&mut self, data: u64, flags: epoll::EventFlags) {
        if data == TIMER {
            let mut expirations = [0; 8];
            // It is read to be silent; when it fired is looked up on the clock.
            let _ = rustix::io::read(&self.timer, &mut expirations);
            self.timer_ns = NEVER;
            self.send_due();
            return;
        }
        let (generation, place) = ((data >> 32) as u32, (data & 0xFFFF_FFFF) as u32);
        let is_current = self.connections.get(place as usize).is_some_and(|one| one.generation == generation);
        if is_current {
            self.ready(place, flags);
        }
    }

    /// What is not an event.
    fn housekeeping(&mut self) {
        self.begin_measuring();
        self.send_due();
        self.open_more();
        self.lose_patience();
        self.read_slowly();
        self.storm();
        if self.now_ns >= self.tell_next_ns {
            self.tell_next_ns = self.now_ns + TICK_NS;
            self.tell();
        }
    }

    fn begin_measuring(&mut self) {
        if self.gauge.start_ns != NEVER {
            if self.now_ns >= self.gauge.start_ns && self.spent.cpu_ns == 0 {
                self.spent = Spent::now();
            }
            return;
        }
        let start_ns = self.control.start_ns();
        if start_ns != NEVER {
            self.gauge.start_ns = start_ns;
            let lasts_ns = i64::try_from(self.plan.lasts.as_nanos()).unwrap_or(NEVER);
            self.gauge.end_ns = start_ns.saturating_add(lasts_ns);
        }
    }

    fn is_over(&self) -> bool {
        if self.control.is_stopped() {
            return true;
        }
        let end_ns = self.gauge.end_ns;
        if end_ns == NEVER || self.now_ns < end_ns {
            return false;
        }
        self.gauge.outstanding == 0 || self.now_ns >= end_ns.saturating_add(GRACE_NS)
    }

    /// Until something is to be done that no event announces.
    fn wait_ns(&self) -> Timespec {
        let sends = self.sending.as_ref().filter(|_| self.gauge.start_ns != NEVER);
        let is_behind = sends.is_some_and(|schedule| {
            let due_ns = self.gauge.start_ns.saturating_add(schedule.due_ns());
            due_ns <= self.now_ns && due_ns < self.gauge.end_ns
        });
        timespec(if is_behind { 0 } else { TICK_NS })
    }

    /// Has the timer fire when the next message of ours is due.
    fn set_timer(&mut self, due_ns: i64) {
        if self.timer_ns == due_ns {
            return;
        }
        let zero = timespec(0);
        let value = Itimerspec { it_interval: zero, it_value: timespec(due_ns.max(1)) };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value).is_ok() {
            self.timer_ns = due_ns;
        }
    }

    fn read_slowly(&mut self) {
        if self.now_ns < self.slow_next_ns {
            return;
        }
        self.slow_next_ns = self.now_ns + SLOW_EVERY_NS;
        for at in 0..self.slow.len() {
            if let Some(place) = self.slow.get(at).copied()
                && self.connections.get(place as usize).is_some_and(Connection::is_open)
            {
                self.read(place, SLOW_BYTES);
            }
        }
    }

    fn tell(&mut self) {
        self.gauge.wall_ns = wall_ns();
        let tally = &self.gauge.report.tally;
        let now = Told { deliveries: tally.deliveries, late: tally.late, lost: tally.lost };
        self.control.deliveries.fetch_add(now.deliveries - self.told.deliveries, Ordering::Relaxed);
        self.control.late.fetch_add(now.late - self.told.late, Ordering::Relaxed);
        self.control.lost.fetch_add(now.lost - self.told.lost, Ordering::Relaxed);
        self.told = now;
    }

    #[allow(clippy::cast_precision_loss)]
    fn finish(mut self) -> Outcome {
        self.look_at_clock();
        self.tell();
        self.say_goodbye();
        let ended_ns = self.now_ns.min(self.gauge.end_ns);
        let expected = self.gauge.expected(ended_ns);
        let mut lasts = Vec::new();
        for one in self.connections.iter_mut().filter(|one| one.is_open()) {
            self.gauge.given_up(&mut one.extra, one.reader);
            if one.reader == Reader::Healthy {
                lasts.push(one.sequence.last().unwrap_or(0));
                self.gauge.report.tally.silent += u64::from(one.bytes == 0 && one.sequence.last().is_none());
            }
        }
        let mut report = self.gauge.report;
        let start_ns = self.gauge.start_ns;
        if start_ns < self.now_ns {
            let took_ns = (self.now_ns - start_ns) as f64;
            let spent = Spent::now().since(self.spent);
            let part = |ns: u64| (ns as f64 / took_ns).min(1.0);
            let (busy, waiting) = (part(spent.cpu_ns), part(spent.waiting_ns));
            report.generator = Generator { threads: 1, cpu_ns: spent.cpu_ns, busy, waiting, wanting: busy + waiting };
            report.lasted_ns = u64::try_from(ended_ns - start_ns).unwrap_or(0);
            report.end_ns = ended_ns;
        }
        if let Storm::Raging { .. } = self.storm {
            report.storm_ns = None;
        }
        Outcome { report, expected, lasts }
    }
}
