//! The edge-triggered epoll loop: one system call per subscriber and pass, and one per 512 events.
//!
//! Holds       1. The kernel reports readiness once. The loop remembers it until a call would
//!                block.
//!             2. A turn accepts a limited number of connections, so that a connection storm does
//!                not delay existing subscribers.
//!             3. A turn reads a limited number of bytes per connection, so that a flooding client
//!                does not delay others.
//!             4. Existing subscribers are served while the process has no free file descriptors.
//! Start at    [`run`].

use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::OwnedFd;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with, acceptfrom_with};
use tracing::warn;

use crate::counters::add;
use crate::delivery_core::Next;
use crate::handler::Answer;
use crate::loops::wire::Wire;
use crate::loops::{MEANWHILE, PassTimer, ThreadSetup, mono_ns};
use crate::tls::Moved;
use pitwire_tls::Session;

/// Most connections accepted in one turn.
const ACCEPTS: usize = 64;
/// Connections above the limit that may wait for their refusal.
const REFUSED_MOST: usize = 32;
const EVENTS: usize = 512;
const READ_BYTES: usize = 64 * 1024;
const ACCEPT_AGAIN_NS: u64 = 100_000_000;
/// Longest sleep of a thread with connections, in nanoseconds. Equals the tick of the timer wheel.
const TICK_NS: u64 = 250_000_000;
/// Time limit for closing all connections at shutdown, in nanoseconds.
const DRAIN_NS: u64 = 2_500_000_000;

const BELL: u64 = u64::MAX;
const DOOR: u64 = u64::MAX - 1;

/// Socket state of one slot.
struct SocketState {
    wire: Wire,
    from: Option<IpAddr>,
    /// Whether the socket may have bytes to read.
    is_readable: bool,
    /// Whether the kernel has reported the end of the input. Unread bytes may precede it.
    is_ending: bool,
    /// Whether the slot is in [`DeliveryThread::unread`].
    is_unread: bool,
}

struct DeliveryThread {
    task: ThreadSetup,
    epoll: OwnedFd,
    seats: Vec<Option<SocketState>>,
    due: Vec<u32>,
    gone: Vec<u32>,
    /// Slots with more input than one turn reads.
    unread: Vec<u32>,
    arrivals: Vec<(u32, std::net::TcpStream)>,
    buffer: Box<[u8]>,
    timer: PassTimer,
    accept_again_ns: Option<u64>,
    stopping_ns: Option<u64>,
}

/// Serves connections until a stop was requested and all have closed.
pub(crate) fn run(task: ThreadSetup) -> io::Result<()> {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, task.inbox.bell(), epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)?;
    if let Some(listener) = &task.listener {
        epoll::add(&epoll, listener, epoll::EventData::new_u64(DOOR), epoll::EventFlags::IN)?;
    }
    let timer = PassTimer::new(task.batching);
    let hall = DeliveryThread {
        task,
        epoll,
        seats: Vec::new(),
        due: Vec::new(),
        gone: Vec::new(),
        unread: Vec::new(),
        arrivals: Vec::new(),
        buffer: vec![0; READ_BYTES].into(),
        timer,
        accept_again_ns: None,
        stopping_ns: None,
    };
    hall.serve_all()
}

impl DeliveryThread {
    fn serve_all(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            let now = mono_ns();
            self.task.floor.set_now(now);
            let has_more = self.task.floor.take(&self.task.inbox);
            self.seat_arrivals();
            self.sweep(now);
            self.let_go();
            if self.is_over(now) {
                return Ok(());
            }
            events.clear();
            self.wait(&mut events, has_more || !self.unread.is_empty())?;
            self.task.floor.has_waited(mono_ns());
            self.read_on();
            for event in &events {
                self.note(event);
            }
            self.let_go();
        }
    }

    fn is_over(&mut self, now: u64) -> bool {
        if !self.task.floor.is_stopping() {
            return false;
        }
        let since = *self.stopping_ns.get_or_insert(now);
        self.task.listener = None;
        self.task.floor.is_empty() || now >= since + DRAIN_NS
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>, has_more: bool) -> io::Result<()> {
        let ThreadSetup { floor, inbox, .. } = &self.task;
        let (has_own, has_streams) = floor.has_due();
        let now = mono_ns();
        let mut may_sleep = false;
        let wait_ns = if has_more || has_own {
            0
        } else if has_streams {
            // The batching policy delays the pass; a new message need not wake this thread.
            self.timer.wait_ns(mono_ns())
        } else {
            may_sleep = inbox.may_sleep();
            match (may_sleep, self.accept_again_ns, floor.is_empty() && !floor.is_stopping()) {
                (false, ..) => 0,
                (true, Some(again), _) => again.saturating_sub(now).min(TICK_NS),
                (true, None, true) => u64::MAX,
                (true, None, false) => TICK_NS,
            }
        };
        let timeout = (wait_ns != u64::MAX).then(|| timespec(wait_ns));
        let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), timeout.as_ref());
        if may_sleep {
            inbox.is_awake();
        }
        match waited {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn note(&mut self, event: &epoll::Event) {
        let (data, flags) = (event.data.u64(), event.flags);
        match data {
            BELL => {}
            DOOR => self.accept(),
            slot => {
                let Ok(slot) = u32::try_from(slot) else { return };
                let ending = epoll::EventFlags::RDHUP | epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                if let Some(Some(seat)) = self.seats.get_mut(slot as usize) {
                    seat.is_ending |= flags.intersects(ending);
                    seat.is_readable |= flags.intersects(epoll::EventFlags::IN | ending);
                }
                let takes = flags.intersects(epoll::EventFlags::OUT | ending);
                if takes && self.seats.get_mut(slot as usize).is_some_and(|seat| pushes(seat.as_mut())) {
                    self.task.floor.writable(slot);
                }
                self.read(slot);
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.task.listener else { return };
            match accept(listener, self.task.board.counts_addresses()) {
                Ok((socket, from)) => self.admit(socket, from),
                Err(Errno::AGAIN) => return,
                // The error concerns a client that disconnected before it was accepted.
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(error) => {
                    // Probably out of file descriptors. Stop watching the listener for a while, or
                    // poll would spin.
                    if self.accept_again_ns.replace(mono_ns() + ACCEPT_AGAIN_NS).is_none() {
                        warn!(%error, "cannot accept connections; trying again until it works");
                        let _ = epoll::delete(&self.epoll, listener);
                    }
                    return;
                }
            }
        }
    }

    fn admit(&mut self, socket: OwnedFd, from: Option<IpAddr>) {
        let most = self.task.connections_most;
        let connections = self.task.board.connections();
        let is_full = connections >= most;
        let is_one_too_many = !is_full && from.is_some_and(|from| !self.task.board.enter_address(from));
        if is_full || is_one_too_many {
            // A refused connection stays open until its refusal is sent, so their number is limited
            // too.
            if connections >= most.saturating_add(REFUSED_MOST) {
                return add(&self.task.board.counters(self.task.hall).refused_total, 1);
            }
        }
        let tls = match self.task.tls.as_ref().map(Session::new).transpose() {
            Ok(session) => session.map(Box::new),
            Err(error) => {
                if let Some(from) = from.filter(|_| !(is_full || is_one_too_many)) {
                    self.task.board.leave_address(from);
                }
                return warn!(%error, "no TLS for a connection");
            }
        };
        let slot = self.task.floor.enter();
        self.seat(slot, socket, tls, from.filter(|_| !(is_full || is_one_too_many)));
        if is_full {
            let answer = Answer::text(503, "too many connections; try again later");
            self.task.floor.refuse(slot, answer.retry_after(1 + self.spread_s()));
        } else if is_one_too_many {
            let answer = Answer::text(429, "too many connections from this address");
            self.task.floor.refuse(slot, answer.retry_after(5));
        }
    }

    /// Returns an extra delay of 0 to 3 seconds, so that refused clients do not all return in the
    /// same second.
    fn spread_s(&self) -> u32 {
        u32::try_from(mono_ns() / 1_000 % 4).unwrap_or(0)
    }

    fn seat(&mut self, slot: u32, socket: OwnedFd, tls: Option<Box<Session>>, from: Option<IpAddr>) {
        use epoll::EventFlags as Flags;
        let interest = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        if let Err(error) = epoll::add(&self.epoll, &socket, epoll::EventData::new_u64(u64::from(slot)), interest) {
            warn!(%error, "cannot watch a connection");
            self.task.floor.go(slot);
        }
        let at = slot as usize;
        if self.seats.len() <= at {
            self.seats.resize_with(at + 1, || None);
        }
        self.seats[at] = Some(SocketState {
            wire: Wire::new(socket, tls),
            from,
            is_readable: false,
            is_ending: false,
            is_unread: false,
        });
    }

    fn seat_arrivals(&mut self) {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.task.floor.take_arrivals(&mut arrivals);
        for (slot, socket) in arrivals.drain(..) {
            if socket.set_nonblocking(true).is_err() {
                self.task.floor.go(slot);
            }
            crate::publisher::prepare_socket(socket2::SockRef::from(&socket));
            let tls = self.task.floor.take_session(slot);
            self.seat(slot, socket.into(), tls, None);
        }
        self.arrivals = arrivals;
    }

    /// Reads the input that the last turn left.
    fn read_on(&mut self) {
        for slot in std::mem::take(&mut self.unread) {
            if let Some(Some(seat)) = self.seats.get_mut(slot as usize) {
                seat.is_unread = false;
                self.read(slot);
            }
        }
    }

    fn read(&mut self, slot: u32) {
        let mut taken = 0;
        while let Some(Some(seat)) = self.seats.get_mut(slot as usize)
            && seat.is_readable
            && self.task.floor.wants_input(slot)
        {
            if taken >= READ_BYTES {
                if !std::mem::replace(&mut seat.is_unread, true) {
                    self.unread.push(slot);
                }
                return;
            }
            let received = seat.wire.receive(&mut self.buffer);
            if seat.wire.has_just_opened() {
                self.task.floor.writable(slot);
            }
            match received {
                Moved::Bytes(0) => {
                    seat.is_readable = false;
                    self.task.floor.ended(slot);
                }
                Moved::Bytes(bytes) => {
                    // A short read means that the socket is empty, so save the call that would
                    // return EAGAIN. But read on if the end of the input was reported, because no
                    // other event will follow.
                    if bytes < self.buffer.len() && !seat.is_ending && !seat.wire.is_secure() {
                        seat.is_readable = false;
                    }
                    taken += seat.wire.drawn(bytes);
                    self.task.floor.received(slot, &self.buffer[..bytes]);
                }
                Moved::Blocked => seat.is_readable = false,
                Moved::Broken => {
                    seat.is_readable = false;
                    self.task.floor.go(slot);
                }
            }
        }
    }

    fn sweep(&mut self, now: u64) {
        if self.accept_again_ns.is_some_and(|again| now >= again) {
            self.accept_again_ns = None;
            if let Some(listener) = &self.task.listener {
                let _ = epoll::add(&self.epoll, listener, epoll::EventData::new_u64(DOOR), epoll::EventFlags::IN);
            }
        }
        let (has_own, has_streams) = self.task.floor.has_due();
        let with_streams = has_streams && (self.timer.may_begin(now) || self.task.floor.must_sweep());
        if !(has_own || with_streams) {
            return;
        }
        let sweep = self.timer.begin(now, with_streams);
        let mut due = std::mem::take(&mut self.due);
        self.task.floor.due(&mut due, sweep);
        for batch in due.chunks(MEANWHILE) {
            batch.iter().for_each(|slot| self.serve(*slot));
            if with_streams {
                self.task.floor.take_meanwhile(&self.task.inbox);
                self.seat_arrivals();
            }
        }
        self.due = due;
        if with_streams {
            add(&self.task.board.counters(self.task.hall).sweeps_total, 1);
            self.timer.end(now, mono_ns());
        }
    }

    fn serve(&mut self, slot: u32) {
        let Some(Some(seat)) = self.seats.get_mut(slot as usize) else { return };
        let floor = &mut self.task.floor;
        match seat.wire.push() {
            Moved::Bytes(_) => {}
            Moved::Blocked => {
                floor.unlist(slot);
                return floor.blocked(slot);
            }
            Moved::Broken => return floor.go(slot),
        }
        let mut sent = 0;
        loop {
            match floor.prepare(slot) {
                Next::Idle => break,
                Next::Shut => {
                    seat.wire.shut();
                    floor.shut(slot);
                    break;
                }
                Next::Send if sent >= floor.turn_bytes() => {
                    floor.again(slot);
                    break;
                }
                Next::Send => {}
            }
            let pieces = floor.gather(slot);
            let wanted = pieces.bytes();
            match seat.wire.send(&pieces) {
                Moved::Bytes(bytes) => {
                    sent += bytes;
                    floor.sent(slot, bytes);
                    // Stored encrypted bytes count as sent. The socket is not shut before they have
                    // gone.
                    if bytes < wanted || seat.wire.is_waiting() {
                        // The kernel reports an event when the socket has room again.
                        floor.blocked(slot);
                        break;
                    }
                }
                Moved::Blocked => {
                    floor.blocked(slot);
                    break;
                }
                Moved::Broken => {
                    floor.go(slot);
                    break;
                }
            }
        }
        add(&floor.counters().sends_total, 1);
        if seat.is_readable {
            self.read(slot);
        }
    }

    fn let_go(&mut self) {
        let mut gone = std::mem::take(&mut self.gone);
        self.task.floor.take_gone(&mut gone);
        for slot in gone.drain(..) {
            if let Some(Some(seat)) = self.seats.get_mut(slot as usize).map(Option::take)
                && let Some(from) = seat.from
            {
                self.task.board.leave_address(from);
            }
            self.task.floor.leave(slot);
        }
        self.gone = gone;
    }
}

/// Sends stored bytes of a connection. Returns whether its socket accepts more.
fn pushes(seat: Option<&mut SocketState>) -> bool {
    seat.is_some_and(|seat| seat.wire.push() != Moved::Blocked)
}

fn accept(listener: &TcpListener, with_address: bool) -> Result<(OwnedFd, Option<IpAddr>), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    if !with_address {
        return accept_with(listener, flags).map(|socket| (socket, None));
    }
    let (socket, address) = acceptfrom_with(listener, flags)?;
    let address = address.and_then(|address| std::net::SocketAddr::try_from(address).ok());
    Ok((socket, address.map(|address| address.ip())))
}

fn timespec(ns: u64) -> Timespec {
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: i64::try_from(rest).unwrap_or(0) }
}
