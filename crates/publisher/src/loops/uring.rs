//! The io_uring loop: sends in batches, with sockets that are not file descriptors of the process.
//!
//! The connections of a delivery thread are in the file table of its ring (direct descriptors). The
//! table may be as large as the limit on open files, and its entries do not count as open files. A
//! process can thus have as many connections as its number of threads times that limit.
//!
//! Holds       1. A send is tried when it is submitted and never waits in the kernel, because its
//!                pieces point into the rings. Unsent bytes stay there.
//!             2. Send results are recorded before any other completion is handled.
//!             3. A slot is free only when no request for its socket is pending and the socket is
//!                closed.
//! Leaves out  TLS: a thread with TLS uses epoll.
//! Start at    [`run`].

mod buffers;
mod ring;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

pub(crate) use ring::check;
use ring::{Answered, Asked, BATCH, Ring};
use tracing::warn;

use crate::counters::add;
use crate::delivery_core::Next;
use crate::handler::Answer;
use crate::loops::{MEANWHILE, PassTimer, ThreadSetup, mono_ns};

/// Accept requests pending at a time.
const DOORS: usize = 64;
/// Connections above the limit that may wait for their refusal.
const REFUSED_MOST: usize = 256;
const ACCEPT_AGAIN_NS: u64 = 100_000_000;
/// Longest sleep of a thread with connections, in nanoseconds. Equals the tick of the timer wheel.
const TICK_NS: u64 = 250_000_000;
/// Time limit for closing all connections at shutdown, in nanoseconds.
const DRAIN_NS: u64 = 2_500_000_000;
/// Error of a receive request when all buffers are in use. The request is repeated.
const NO_BUFFER: i32 = -libc::ENOBUFS;

/// Result of a slot's last send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SendOutcome {
    #[default]
    Nothing,
    /// All bytes were sent.
    All,
    /// The socket accepts no more bytes.
    Blocked,
    Broken,
}

/// Socket state of one slot.
#[derive(Default)]
struct SocketState {
    /// Index in the file table.
    file: u32,
    from: Option<IpAddr>,
    /// Whether a receive request is pending.
    is_receiving: bool,
    is_waiting: bool,
    is_shutting: bool,
    /// Whether the peer has ended or the socket is broken, so that nothing more is read.
    is_at_end: bool,
    /// Whether a receive request was made before.
    has_received: bool,
    is_closing: bool,
    is_closed: bool,
    wanted: usize,
    outcome: SendOutcome,
}

impl SocketState {
    /// Shuts the sending side. After the end of the input this is not needed, because the socket is
    /// closed soon.
    fn shut(&mut self, ring: &mut Ring, slot: u32) {
        if !self.is_at_end {
            self.is_shutting = true;
            ring.shut(slot, self.file);
        }
    }
}

struct DeliveryThread {
    task: ThreadSetup,
    ring: Ring,
    seats: Vec<Option<SocketState>>,
    /// Numbers of the accept requests to submit again.
    idle_doors: Vec<u32>,
    due: Vec<u32>,
    gone: Vec<u32>,
    arrivals: Vec<(u32, std::net::TcpStream)>,
    answered: Vec<Answered>,
    timer: PassTimer,
    accept_again_ns: Option<u64>,
    stopping_ns: Option<u64>,
    has_said_full: bool,
}

/// Serves connections until a stop was requested and all have closed.
pub(crate) fn run(task: ThreadSetup) -> io::Result<()> {
    let doors = if task.listener.is_some() { DOORS } else { 0 };
    let mut ring = Ring::new(doors)?;
    ring.listen_for_bell(task.inbox.bell());
    let timer = PassTimer::new(task.batching);
    let hall = DeliveryThread {
        task,
        ring,
        seats: Vec::new(),
        idle_doors: (0_u32..).take(doors).collect(),
        due: Vec::new(),
        gone: Vec::new(),
        arrivals: Vec::new(),
        answered: Vec::new(),
        timer,
        accept_again_ns: None,
        stopping_ns: None,
        has_said_full: false,
    };
    hall.serve_all()
}

impl DeliveryThread {
    fn serve_all(mut self) -> io::Result<()> {
        loop {
            let now = mono_ns();
            self.task.floor.set_now(now);
            let has_more = self.task.floor.take(&self.task.inbox);
            self.seat_arrivals()?;
            self.sweep(now)?;
            self.let_go();
            if self.is_over(now) {
                return Ok(());
            }
            self.open_doors(now);
            self.wait(has_more)?;
            self.task.floor.has_waited(mono_ns());
            self.hear();
            self.let_go();
        }
    }

    fn is_over(&mut self, now: u64) -> bool {
        if !self.task.floor.is_stopping() {
            return false;
        }
        if self.task.listener.take().is_some() {
            self.ring.close_doors();
        }
        let since = *self.stopping_ns.get_or_insert(now);
        self.task.floor.is_empty() || now >= since + DRAIN_NS
    }

    fn wait(&mut self, has_more: bool) -> io::Result<()> {
        let ThreadSetup { floor, inbox, .. } = &self.task;
        let (has_own, has_streams) = floor.has_due();
        let mut may_sleep = false;
        let wait_ns = if has_more || has_own || !self.answered.is_empty() {
            0
        } else if has_streams {
            // The batching policy delays the pass; a new message need not wake this thread.
            self.timer.wait_ns(mono_ns())
        } else {
            may_sleep = inbox.may_sleep();
            match (may_sleep, self.accept_again_ns, floor.is_empty() && !floor.is_stopping()) {
                (false, ..) => 0,
                (true, Some(again), _) => again.saturating_sub(mono_ns()).min(TICK_NS),
                (true, None, true) => u64::MAX,
                (true, None, false) => TICK_NS,
            }
        };
        let waited = self.ring.wait((wait_ns != u64::MAX).then_some(wait_ns));
        if may_sleep {
            self.task.inbox.is_awake();
        }
        waited
    }

    /// Takes the completions: records send results at once and queues the others.
    fn collect(&mut self) {
        let DeliveryThread { ring, answered, seats, task, .. } = self;
        ring.answers(|answer| match answer.asked {
            Asked::Send(slot) => {
                if let Some(Some(seat)) = seats.get_mut(slot as usize) {
                    seat.outcome = note_sent(task, slot, seat.wanted, answer.result);
                }
            }
            _ => answered.push(answer),
        });
    }

    fn hear(&mut self) {
        self.collect();
        let mut answered = std::mem::take(&mut self.answered);
        for answer in answered.drain(..) {
            self.act(&answer);
        }
        // Completions that arrived in the meantime are handled next time.
        answered.append(&mut self.answered);
        self.answered = answered;
    }

    fn act(&mut self, answer: &Answered) {
        match answer.asked {
            Asked::Bell => {
                if !answer.goes_on {
                    self.ring.listen_for_bell(self.task.inbox.bell());
                }
            }
            Asked::Door(number) => self.answer_door(number, answer.result),
            Asked::Receive(slot) => self.received(slot, answer),
            Asked::Writable(slot) => {
                if let Some(Some(seat)) = self.seats.get_mut(slot as usize) {
                    seat.is_waiting = false;
                    if !seat.is_closing {
                        self.task.floor.writable(slot);
                    }
                    self.close_if_quiet(slot);
                }
            }
            Asked::Shut(slot) => {
                if let Some(Some(seat)) = self.seats.get_mut(slot as usize) {
                    seat.is_shutting = false;
                    self.close_if_quiet(slot);
                }
            }
            Asked::Close(slot) => self.leave(slot),
            Asked::Send(_) | Asked::Nothing | Asked::Install => {}
        }
    }

    fn answer_door(&mut self, number: u32, result: i32) {
        self.idle_doors.push(number);
        if let Ok(file) = u32::try_from(result) {
            return self.admit(file, self.ring.caller(number));
        }
        // The error concerns a client that disconnected before it was accepted.
        if !matches!(-result, libc::EINTR | libc::EAGAIN | libc::ECONNABORTED | libc::EPROTO | libc::ECANCELED)
            && self.accept_again_ns.replace(mono_ns() + ACCEPT_AGAIN_NS).is_none()
        {
            warn!(error = %io::Error::from_raw_os_error(-result), "cannot accept connections; trying again until it works");
        }
    }

    /// Submits the idle accept requests again, unless accepting is paused.
    fn open_doors(&mut self, now: u64) {
        if self.accept_again_ns.is_some_and(|again| now < again) {
            return;
        }
        self.accept_again_ns = None;
        let Some(listener) = &self.task.listener else { return };
        for number in self.idle_doors.drain(..) {
            self.ring.accept(listener.as_fd(), number);
        }
    }

    /// Returns the number of connections to serve. The other table entries are for refusals.
    fn places(&self) -> usize {
        self.ring.files.saturating_sub(REFUSED_MOST + DOORS).max(1)
    }

    fn admit(&mut self, file: u32, from: Option<IpAddr>) {
        let ThreadSetup { board, floor, connections_most, hall, .. } = &self.task;
        if self.task.listener.is_none() {
            return self.ring.close(file, Asked::Nothing);
        }
        let from = from.filter(|_| board.counts_addresses());
        let (connections, is_hall_full) = (board.connections(), floor.len() >= self.places());
        let is_full = is_hall_full || connections >= *connections_most;
        let is_one_too_many = !is_full && from.is_some_and(|from| !board.enter_address(from));
        if is_full || is_one_too_many {
            // A refused connection stays open until its refusal is sent, so their number is limited
            // too.
            if connections >= connections_most.saturating_add(REFUSED_MOST)
                || floor.len() >= self.places() + REFUSED_MOST
            {
                add(&board.counters(*hall).refused_total, 1);
                return self.ring.close(file, Asked::Nothing);
            }
        }
        if is_hall_full && !std::mem::replace(&mut self.has_said_full, true) {
            warn!(
                places = self.places(),
                "a thread is full: each holds as many connections as the process may open files; start with more --threads, \
                 or raise the limit (ulimit -n)"
            );
        }
        let slot = self.task.floor.enter();
        self.seat(slot, file, from.filter(|_| !(is_full || is_one_too_many)));
        if is_full {
            // An extra delay of 0 to 3 seconds, so that refused clients do not all return in the
            // same second.
            let spread_s = u32::try_from(mono_ns() / 1_000 % 4).unwrap_or(0);
            let answer = Answer::text(503, "too many connections; try again later");
            self.task.floor.refuse(slot, answer.retry_after(1 + spread_s));
        } else if is_one_too_many {
            let answer = Answer::text(429, "too many connections from this address");
            self.task.floor.refuse(slot, answer.retry_after(5));
        }
    }

    fn seat(&mut self, slot: u32, file: u32, from: Option<IpAddr>) {
        let at = slot as usize;
        if self.seats.len() <= at {
            self.seats.resize_with(at + 1, || None);
        }
        self.seats[at] = Some(SocketState { file, from, ..SocketState::default() });
        self.receive(slot);
    }

    fn seat_arrivals(&mut self) -> io::Result<()> {
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.task.floor.take_arrivals(&mut arrivals);
        for (slot, socket) in arrivals.drain(..) {
            crate::publisher::prepare_socket(socket2::SockRef::from(&socket));
            match self.install(&OwnedFd::from(socket)) {
                Ok(file) => self.seat(slot, file, None),
                Err(error) => {
                    warn!(%error, "cannot take over a connection");
                    self.task.floor.go(slot);
                }
            }
        }
        self.arrivals = arrivals;
        Ok(())
    }

    fn install(&mut self, socket: &OwnedFd) -> io::Result<u32> {
        if self.task.floor.len() > self.places() {
            return Err(io::Error::other(
                "the table of files is full: more --threads, or a higher limit on open files",
            ));
        }
        self.ring.install(socket, &mut self.answered)
    }

    /// Submits a receive request, if the core wants input and none is pending.
    fn receive(&mut self, slot: u32) {
        if let Some(Some(seat)) = self.seats.get_mut(slot as usize)
            && !(seat.is_receiving || seat.is_at_end || seat.is_closing)
            && self.task.floor.wants_input(slot)
        {
            seat.is_receiving = true;
            self.ring.receive(slot, seat.file, !std::mem::replace(&mut seat.has_received, true));
        }
    }

    fn received(&mut self, slot: u32, answer: &Answered) {
        let seat = self.seats.get_mut(slot as usize).and_then(Option::as_mut);
        let is_for_it = seat.is_some_and(|seat| {
            seat.is_receiving = false;
            seat.is_at_end |= !matches!(answer.result, 1.. | NO_BUFFER);
            !seat.is_closing
        });
        match usize::try_from(answer.result) {
            Ok(0) if is_for_it => self.task.floor.ended(slot),
            Ok(bytes) if is_for_it => {
                let arrived = answer.buffer.map_or(&[][..], |buffer| self.ring.buffers.arrived(buffer, bytes));
                self.task.floor.received(slot, arrived);
            }
            Err(_) if is_for_it && answer.result != NO_BUFFER => self.task.floor.go(slot),
            _ => {}
        }
        if let Some(buffer) = answer.buffer {
            self.ring.buffers.give_back(buffer);
        }
        self.receive(slot);
        self.close_if_quiet(slot);
    }

    fn sweep(&mut self, now: u64) -> io::Result<()> {
        let (has_own, has_streams) = self.task.floor.has_due();
        let with_streams = has_streams && (self.timer.may_begin(now) || self.task.floor.must_sweep());
        if !(has_own || with_streams) {
            return Ok(());
        }
        let sweep = self.timer.begin(now, with_streams);
        let mut due = std::mem::take(&mut self.due);
        self.task.floor.due(&mut due, sweep);
        for batch in due.chunks(MEANWHILE.min(BATCH)) {
            self.serve(batch)?;
            if with_streams {
                self.task.floor.take_meanwhile(&self.task.inbox);
                self.seat_arrivals()?;
            }
        }
        self.due = due;
        if with_streams {
            add(&self.task.board.counters(self.task.hall).sweeps_total, 1);
            self.timer.end(now, mono_ns());
        }
        Ok(())
    }

    fn serve(&mut self, batch: &[u32]) -> io::Result<()> {
        for slot in batch {
            self.offer(*slot);
        }
        // All sends of the batch happen in this call.
        self.ring.submit()?;
        self.collect();
        for slot in batch {
            self.follow_up(*slot);
        }
        Ok(())
    }

    /// Prepares one send, if the slot has bytes to send.
    fn offer(&mut self, slot: u32) {
        let DeliveryThread { seats, task, ring, .. } = self;
        let Some(Some(seat)) = seats.get_mut(slot as usize) else { return };
        seat.outcome = SendOutcome::Nothing;
        match task.floor.prepare(slot) {
            Next::Idle => {}
            Next::Shut => {
                seat.shut(ring, slot);
                task.floor.shut(slot);
            }
            Next::Send => {
                let pieces = task.floor.gather(slot);
                seat.wanted = pieces.bytes();
                // If no completion arrives, the send is tried again.
                seat.outcome = SendOutcome::All;
                // SAFETY: until `submit`, the core is changed only by `prepare` and `shut` for
                // other slots. Neither moves rings, outbound queues or subscribers.
                unsafe { ring.send(slot, seat.file, &pieces) };
            }
        }
    }

    fn follow_up(&mut self, slot: u32) {
        let DeliveryThread { seats, task, ring, .. } = self;
        let Some(Some(seat)) = seats.get_mut(slot as usize) else { return };
        match seat.outcome {
            SendOutcome::Nothing => {}
            SendOutcome::All => {
                add(&task.floor.counters().sends_total, 1);
                match task.floor.prepare(slot) {
                    Next::Idle => {}
                    Next::Send => task.floor.again(slot),
                    Next::Shut => {
                        seat.shut(ring, slot);
                        task.floor.shut(slot);
                    }
                }
            }
            SendOutcome::Blocked => {
                task.floor.blocked(slot);
                if !std::mem::replace(&mut seat.is_waiting, true) {
                    ring.tell_writable(slot, seat.file);
                }
            }
            SendOutcome::Broken => {
                seat.is_at_end = true;
                task.floor.go(slot);
            }
        }
        self.receive(slot);
    }

    /// Closes finished connections as soon as no request for their sockets is pending.
    fn let_go(&mut self) {
        let mut gone = std::mem::take(&mut self.gone);
        self.task.floor.take_gone(&mut gone);
        for slot in gone.drain(..) {
            let Some(Some(seat)) = self.seats.get_mut(slot as usize) else {
                // Its socket could not be adopted, so it has no socket state.
                self.task.floor.leave(slot);
                continue;
            };
            seat.is_closing = true;
            if seat.is_receiving {
                self.ring.cancel(Asked::Receive(slot));
            }
            if seat.is_waiting {
                self.ring.cancel(Asked::Writable(slot));
            }
            self.close_if_quiet(slot);
        }
        self.gone = gone;
    }

    fn close_if_quiet(&mut self, slot: u32) {
        if let Some(Some(seat)) = self.seats.get_mut(slot as usize)
            && seat.is_closing
            && !(seat.is_receiving || seat.is_waiting || seat.is_shutting || seat.is_closed)
        {
            seat.is_closed = true;
            self.ring.close(seat.file, Asked::Close(slot));
        }
    }

    fn leave(&mut self, slot: u32) {
        if let Some(Some(seat)) = self.seats.get_mut(slot as usize).map(Option::take)
            && let Some(from) = seat.from
        {
            self.task.board.leave_address(from);
        }
        self.task.floor.leave(slot);
    }
}

/// Records how many of the offered bytes were sent.
fn note_sent(task: &mut ThreadSetup, slot: u32, wanted: usize, result: i32) -> SendOutcome {
    match usize::try_from(result) {
        Ok(bytes) => {
            task.floor.sent(slot, bytes);
            if bytes < wanted { SendOutcome::Blocked } else { SendOutcome::All }
        }
        Err(_) if result == -libc::EAGAIN => SendOutcome::Blocked,
        Err(_) if result == -libc::EINTR => SendOutcome::All,
        Err(_) => SendOutcome::Broken,
    }
}
