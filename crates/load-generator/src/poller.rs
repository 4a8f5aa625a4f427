//! The epoll instance and the send timer of one worker.
//!
//! Does        registers sockets by slot and generation, arms the timer, waits for events.
//! Holds       an event carries the generation of its connection, so a late event of a closed
//!             socket is recognised.
//! Start at    [`Poller::wait`].

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime};

use crate::clock::timespec;
use crate::run_control::NEVER;

/// Interest of a healthy reader. Edge-triggered, to avoid repeated wake-ups.
pub const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);
/// Interest of a slow or stopped reader: only the end of the connection.
pub const HANGUP: EventFlags = EventFlags::RDHUP.union(EventFlags::ET);

/// Events taken from the kernel per wait.
const EVENTS: usize = 512;
/// The event data of the timer. The data of a socket is its generation and its slot.
const TIMER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollEvent {
    Timer,
    Socket { slot: u32, generation: u32, flags: EventFlags },
}

#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// When the timer fires, by the monotonic clock in nanoseconds; [`NEVER`] if it is not armed.
    timer_ns: i64,
}

impl Poller {
    /// # Errors
    /// The kernel refuses an epoll instance or a timer.
    pub fn new() -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN)?;
        Ok(Poller { epoll, timer, timer_ns: NEVER })
    }

    /// # Errors
    /// The kernel refuses another socket, for example because of its limit on watches.
    pub fn add(&self, socket: &OwnedFd, slot: u32, generation: u32, flags: EventFlags) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, event_data(slot, generation), flags)
    }

    /// Changes the interest of a registered socket. Re-arms edge-triggered events.
    pub fn modify(&self, socket: &OwnedFd, slot: u32, generation: u32, flags: EventFlags) {
        // The socket is registered from connect to close, so this cannot fail.
        let _ = epoll::modify(&self.epoll, socket, event_data(slot, generation), flags);
    }

    pub fn remove(&self, socket: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, socket);
    }

    /// Arms the timer for `due_ns` on the monotonic clock.
    pub fn set_timer(&mut self, due_ns: i64) {
        if self.timer_ns == due_ns {
            return;
        }
        let value = Itimerspec { it_interval: timespec(0), it_value: timespec(due_ns.max(1)) };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &value).is_ok() {
            self.timer_ns = due_ns;
        }
    }

    /// Waits at most `timeout_ns` and replaces `events` with what happened.
    ///
    /// # Errors
    /// The kernel refuses the wait. An interruption by a signal is not an error.
    pub fn wait(&mut self, timeout_ns: i64, events: &mut Vec<PollEvent>) -> Result<(), Errno> {
        events.clear();
        let mut raw = [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS];
        let count = match epoll::wait(&self.epoll, raw.as_mut_slice(), Some(&timespec(timeout_ns))) {
            Ok(count) => count,
            Err(Errno::INTR) => 0,
            Err(error) => return Err(error),
        };
        for event in raw.get(..count).unwrap_or_default() {
            events.push(self.decode(event.data.u64(), event.flags));
        }
        Ok(())
    }

    fn decode(&mut self, data: u64, flags: EventFlags) -> PollEvent {
        if data == TIMER {
            // Reading clears the event. The caller compares due times with the clock.
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
            self.timer_ns = NEVER;
            return PollEvent::Timer;
        }
        PollEvent::Socket { slot: (data & 0xFFFF_FFFF) as u32, generation: (data >> 32) as u32, flags }
    }
}

fn event_data(slot: u32, generation: u32) -> EventData {
    EventData::new_u64(u64::from(generation) << 32 | u64::from(slot))
}
