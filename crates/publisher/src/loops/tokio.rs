//! The loop on tokio: a runtime of one thread a hall, a task for each connection, and all that is due written in sweeps.
//!
//! Does        wait for each connection in a task of its own; write from the one task that sweeps, as the other loops do.
//! Holds       1. a connection's task and the sweep never hold the floor at once: nothing is awaited while it is held;
//!             2. a task ends when its slot is let go.
//! Leaves out  TLS: a hall with it runs on epoll.
//! Costs       a task and its wakers for each connection; it is here to be measured beside the other loops.
//! Start at    [`run`].

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tracing::warn;

use crate::counters::add;
use crate::floor::{Next, PIECES, TURN_BYTES};
use crate::loops::{Rhythm, Task, mono_ns};
use crate::programme::Answer;

/// Connections beyond the limit, while they are told so.
const REFUSED_MOST: usize = 32;
const READ_BYTES: usize = 64 * 1024;
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// The wheel's tick: a hall that has connections looks at least so often.
const TICK_NS: u64 = 250_000_000;
/// After a goodbye to everybody.
const DRAIN_NS: u64 = 2_500_000_000;

/// One slot's socket.
struct Seat {
    stream: Rc<TcpStream>,
    from: Option<IpAddr>,
    /// Something has changed that its task waits by.
    changed: Rc<Notify>,
    is_blocked: bool,
    /// Its task does not wait for input.
    is_paused: bool,
    is_at_end: bool,
}

struct Hall {
    task: Task,
    seats: Vec<Option<Seat>>,
    rhythm: Rhythm,
    buffer: Box<[u8]>,
    due: Vec<u32>,
    gone: Vec<u32>,
    arrivals: Vec<(u32, std::net::TcpStream)>,
    /// Seats whose tasks are to be begun.
    fresh: Vec<u32>,
    stopping_ns: Option<u64>,
}

/// Something a connection's task has done wants a sweep.
type Bell = Rc<Notify>;

/// Serves until it is told to stop and everybody has gone.
pub(crate) fn run(mut task: Task) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let listener = task.listener.take();
    let rhythm = Rhythm::new(&task);
    let hall = Rc::new(RefCell::new(Hall {
        task,
        seats: Vec::new(),
        rhythm,
        buffer: vec![0; READ_BYTES].into(),
        due: Vec::new(),
        gone: Vec::new(),
        arrivals: Vec::new(),
        fresh: Vec::new(),
        stopping_ns: None,
    }));
    LocalSet::new().block_on(&runtime, serve_all(hall, listener))
}

async fn serve_all(hall: Rc<RefCell<Hall>>, listener: Option<std::net::TcpListener>) -> io::Result<()> {
    let mut listener = listener.map(TcpListener::from_std).transpose()?;
    let bell = Bell::default();
    let inbox = std::sync::Arc::clone(&hall.borrow().task.inbox);
    // SAFETY: the descriptor is the guard's own and open for as long as it is.
    let rung = unsafe { AsyncFd::register_with_interest(inbox.bell().try_clone_to_owned()?, Interest::READABLE) }?;
    loop {
        let (fresh, wait_ns, may_sleep) = {
            let mut held = hall.borrow_mut();
            let now = mono_ns();
            let has_more = held.turn(now)?;
            if held.is_over(now) {
                return Ok(());
            }
            if held.task.floor.is_stopping() {
                listener = None;
            }
            let (wait_ns, may_sleep) = held.wait_ns(has_more);
            (std::mem::take(&mut held.fresh), wait_ns, may_sleep)
        };
        for slot in fresh {
            tokio::task::spawn_local(attend(Rc::clone(&hall), slot, Rc::clone(&bell)));
        }
        if wait_ns == 0 {
            tokio::task::yield_now().await;
        } else {
            tokio::select! {
                guard = rung.readable(), if may_sleep => guard?.clear_ready(),
                () = bell.notified() => {}
                accepted = accept(listener.as_ref()) => hall.borrow_mut().accepted(accepted),
                () = tokio::time::sleep(Duration::from_nanos(wait_ns)), if wait_ns != u64::MAX => {}
            }
        }
        if may_sleep {
            inbox.is_awake();
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, IpAddr)> {
    let Some(listener) = listener else { return std::future::pending().await };
    match listener.accept().await {
        Ok((stream, address)) => Ok((stream, address.ip())),
        Err(error) => {
            // Out of descriptors, most likely: those who are in go on being served.
            tokio::time::sleep(ACCEPT_AGAIN).await;
            Err(error)
        }
    }
}

/// Waits for what one connection does, and for room in its socket when there was none.
async fn attend(hall: Rc<RefCell<Hall>>, slot: u32, bell: Bell) {
    let Some((stream, changed)) =
        hall.borrow().seat(slot).map(|seat| (Rc::clone(&seat.stream), Rc::clone(&seat.changed)))
    else {
        return;
    };
    loop {
        let (wants_input, is_blocked) = {
            let mut held = hall.borrow_mut();
            let wants_input = held.task.floor.wants_input(slot);
            let Some(seat) = held.seat_mut(slot).filter(|seat| Rc::ptr_eq(&seat.stream, &stream)) else { return };
            seat.is_paused = !wants_input;
            (!seat.is_at_end && wants_input, seat.is_blocked)
        };
        let mut has_more = false;
        tokio::select! {
            _ = stream.readable(), if wants_input => has_more = hall.borrow_mut().read(slot),
            _ = stream.writable(), if is_blocked => hall.borrow_mut().writable(slot),
            () = changed.notified() => continue,
        }
        bell.notify_one();
        if has_more {
            // Whoever sends without end is one among many.
            tokio::task::yield_now().await;
        }
    }
}

impl Hall {
    fn seat(&self, slot: u32) -> Option<&Seat> {
        self.seats.get(slot as usize)?.as_ref()
    }

    fn seat_mut(&mut self, slot: u32) -> Option<&mut Seat> {
        self.seats.get_mut(slot as usize)?.as_mut()
    }

    fn turn(&mut self, now: u64) -> io::Result<bool> {
        self.task.floor.set_now(now);
        let has_more = self.task.floor.take(&self.task.inbox);
        let mut arrivals = std::mem::take(&mut self.arrivals);
        self.task.floor.take_arrivals(&mut arrivals);
        for (slot, socket) in arrivals.drain(..) {
            crate::hall::prepare_socket(socket2::SockRef::from(&socket));
            socket.set_nonblocking(true)?;
            self.sit(slot, TcpStream::from_std(socket)?, None);
        }
        self.arrivals = arrivals;
        self.sweep(now);
        self.let_go();
        Ok(has_more)
    }

    fn is_over(&mut self, now: u64) -> bool {
        if !self.task.floor.is_stopping() {
            return false;
        }
        let since = *self.stopping_ns.get_or_insert(now);
        self.task.floor.is_empty() || now >= since + DRAIN_NS
    }

    /// How long there is nothing to do, and whether the inbox has been told to ring.
    fn wait_ns(&self, has_more: bool) -> (u64, bool) {
        let (has_own, has_streams) = self.task.floor.has_due();
        if has_more || has_own {
            return (0, false);
        }
        if has_streams {
            return (self.rhythm.rest_ns(), false);
        }
        if !self.task.inbox.may_sleep() {
            return (0, false);
        }
        (if self.task.floor.is_empty() && !self.task.floor.is_stopping() { u64::MAX } else { TICK_NS }, true)
    }

    fn accepted(&mut self, accepted: io::Result<(TcpStream, IpAddr)>) {
        let (stream, from) = match accepted {
            Ok((stream, from)) => (stream, Some(from).filter(|_| self.task.board.counts_addresses())),
            Err(error) => return warn!(%error, "cannot accept connections; trying again until it works"),
        };
        self.task.floor.has_waited(mono_ns());
        let (connections, most) = (self.task.board.connections(), self.task.connections_most);
        let refusal = if connections >= most {
            Some(Answer::text(503, "too many connections; try again later").retry_after(2))
        } else if from.is_some_and(|from| !self.task.board.enter_address(from)) {
            Some(Answer::text(429, "too many connections from this address").retry_after(5))
        } else {
            None
        };
        // Who is told why has to be kept until it has heard: not without end either.
        if connections >= most.saturating_add(REFUSED_MOST) {
            return add(&self.task.board.counters(self.task.hall).refused_total, 1);
        }
        let slot = self.task.floor.enter();
        self.sit(slot, stream, from.filter(|_| refusal.is_none()));
        if let Some(answer) = refusal {
            self.task.floor.refuse(slot, answer);
        }
    }

    fn sit(&mut self, slot: u32, stream: TcpStream, from: Option<IpAddr>) {
        let at = slot as usize;
        if self.seats.len() <= at {
            self.seats.resize_with(at + 1, || None);
        }
        let (stream, changed) = (Rc::new(stream), Rc::default());
        self.seats[at] = Some(Seat { stream, from, changed, is_blocked: false, is_paused: false, is_at_end: false });
        self.fresh.push(slot);
    }

    /// Reads what there is, within reason. Says whether there may be more.
    fn read(&mut self, slot: u32) -> bool {
        let mut taken = 0;
        while self.task.floor.wants_input(slot) {
            if taken >= READ_BYTES {
                return true;
            }
            let Hall { seats, task, buffer, .. } = self;
            let Some(Some(seat)) = seats.get_mut(slot as usize) else { return false };
            match seat.stream.try_read(buffer) {
                Ok(0) => {
                    seat.is_at_end = true;
                    task.floor.ended(slot);
                    return false;
                }
                Ok(bytes) => {
                    taken += bytes;
                    task.floor.received(slot, &buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    seat.is_at_end = true;
                    task.floor.go(slot);
                    return false;
                }
            }
        }
        false
    }

    fn writable(&mut self, slot: u32) {
        if let Some(seat) = self.seat_mut(slot) {
            seat.is_blocked = false;
            self.task.floor.writable(slot);
        }
    }

    fn sweep(&mut self, now: u64) {
        let (has_own, has_streams) = self.task.floor.has_due();
        let with_streams = has_streams && (self.rhythm.may_begin(now) || self.task.floor.must_sweep());
        if !(has_own || with_streams) {
            return;
        }
        let sweep = self.rhythm.begin(now, with_streams);
        let mut due = std::mem::take(&mut self.due);
        self.task.floor.due(&mut due, sweep);
        for slot in &due {
            self.serve(*slot);
        }
        self.due = due;
        if with_streams {
            add(&self.task.board.counters(self.task.hall).sweeps_total, 1);
            let messages = self.task.floor.counters().messages_total.load(Ordering::Relaxed);
            self.rhythm.end(now, messages);
        }
    }

    fn serve(&mut self, slot: u32) {
        let Hall { seats, task, .. } = self;
        let Some(Some(seat)) = seats.get_mut(slot as usize) else { return };
        let mut sent = 0;
        loop {
            match task.floor.prepare(slot) {
                Next::Idle => break,
                Next::Shut => {
                    // A socket that is gone already needs no telling.
                    let _ = socket2::SockRef::from(&*seat.stream).shutdown(std::net::Shutdown::Write);
                    task.floor.shut(slot);
                    break;
                }
                Next::Send if sent >= TURN_BYTES => {
                    task.floor.again(slot);
                    break;
                }
                Next::Send => {}
            }
            let pieces = task.floor.gather(slot);
            let wanted = pieces.bytes();
            let mut slices = [IoSlice::new(&[]); PIECES];
            let count = pieces.as_slice().len().min(PIECES);
            slices.iter_mut().zip(pieces.as_slice()).for_each(|(slice, piece)| *slice = IoSlice::new(piece));
            match seat.stream.try_write_vectored(&slices[..count]) {
                Ok(bytes) => {
                    sent += bytes;
                    task.floor.sent(slot, bytes);
                    if bytes == wanted {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    task.floor.go(slot);
                    break;
                }
            }
            task.floor.blocked(slot);
            seat.is_blocked = true;
            break;
        }
        add(&task.floor.counters().sends_total, 1);
        // Its task is woken only for a reason: its input is wanted again, or room in its socket.
        if seat.is_blocked || seat.is_paused && task.floor.wants_input(slot) {
            seat.changed.notify_one();
        }
    }

    fn let_go(&mut self) {
        let mut gone = std::mem::take(&mut self.gone);
        self.task.floor.take_gone(&mut gone);
        for slot in gone.drain(..) {
            if let Some(Some(seat)) = self.seats.get_mut(slot as usize).map(Option::take) {
                seat.changed.notify_one();
                if let Some(from) = seat.from {
                    self.task.board.leave_address(from);
                }
            }
            self.task.floor.leave(slot);
        }
        self.gone = gone;
    }
}
