//! Which core the loop runs on, beside its peers.
//!
//! Does        say whether the peer that was heard last is on the loop's own core, and leave that core to peers that go on
//!             working there.
//! Holds       1. beside one that waits for its answer the loop stays: handing the core over is the quickest answer there is;
//!             2. peers that ask from several connections at once do not wait for each answer. The loop would be run when
//!                they let it, a tick of the kernel later; it steps aside, once in a while;
//!             3. to which cores the process is bound stays as it was found.
//! Start at    [`Place::beside`].

use std::net::IpAddr;

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
use socket2::SockRef;
use tracing::debug;

use crate::application::ConnectionId;
use crate::connection::Connection;

/// Steps aside are at least so far apart: one costs as much as some orders.
const STAY_NS: u64 = 5_000_000;
/// From so many connections at once nobody asks who waits for each answer.
const SEVERAL: u32 = 2;

/// A peer found on the loop's core is taken to be there still for so many turns: to ask costs it part of a microsecond of
/// every answer, since it waits for the core meanwhile.
const TAKEN_FOR: u8 = 8;

/// Where the other cores are wanted as well, a step aside is for the worse; after each such one it is longer to the next.
const STAY_AT_MOST_NS: u64 = 2_000_000_000;

#[derive(Debug, Default)]
pub(crate) struct Place {
    next_step_ns: u64,
    /// How long to stay after the next step that turns out badly.
    stay_ns: u64,
    was_driven_off: bool,
    /// Who was found where, and for how many turns more that goes.
    found: Option<(ConnectionId, usize)>,
    taken_for: u8,
}

/// Where the loop is, as a peer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// On a core of its own, or the peer's machine is another.
    Apart,
    /// On the peer's core.
    Shared,
    /// It was on the peer's core, and has left it.
    Left,
}

impl Place {
    /// The core that the loop is on is wanted by others, who have just had it.
    pub fn was_driven_off(&mut self, now_ns: u64) {
        self.was_driven_off = true;
        self.stay_ns = (4 * self.stay_ns).clamp(STAY_NS, STAY_AT_MOST_NS);
        self.next_step_ns = now_ns + self.stay_ns;
    }

    /// Where the loop goes on. The peer was heard last, of `heard` connections in one turn.
    pub fn beside(&mut self, peer: &Connection, heard: u32, now_ns: u64) -> Beside {
        let core = sched_getcpu();
        let is_found = self.taken_for > 0 && self.found == Some((peer.id, core));
        if is_found && heard < SEVERAL {
            self.taken_for -= 1;
            return Beside::Shared;
        }
        self.taken_for = 0;
        // Of another machine's peer it is the core that took the packet, which says nothing about the peer.
        let is_near = |from: &IpAddr| from.to_canonical().is_loopback();
        if !peer.counted.as_ref().is_some_and(is_near) {
            return Beside::Apart;
        }
        if !matches!(SockRef::from(&peer.link.stream).cpu_affinity(), Ok(theirs) if theirs == core) {
            return Beside::Apart;
        }
        (self.found, self.taken_for) = (Some((peer.id, core)), TAKEN_FOR);
        if heard < SEVERAL || now_ns < self.next_step_ns {
            return Beside::Shared;
        }
        if !std::mem::take(&mut self.was_driven_off) {
            self.stay_ns = STAY_NS;
        }
        self.next_step_ns = now_ns + STAY_NS;
        match leave(core) {
            Ok(true) => Beside::Left,
            Ok(false) => Beside::Shared,
            Err(error) => {
                debug!(%error, "cannot change cores");
                Beside::Shared
            }
        }
    }
}

/// How often this thread has had to leave its core while it could have gone on.
pub(crate) fn times_driven_off() -> i64 {
    let mut used = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `used` is a whole `rusage`, which the call fills; all zeros, which it stays on an error, are one as well.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, used.as_mut_ptr());
        used.assume_init().ru_nivcsw
    }
}

/// Goes on on another core, if there is one for this thread.
fn leave(core: usize) -> rustix::io::Result<bool> {
    let allowed = sched_getaffinity(None)?;
    let mut others = allowed;
    others.unset(core);
    if others.count() == 0 {
        return Ok(false);
    }
    sched_setaffinity(None, &others)?;
    // Bound to all but one it would go on as well.
    sched_setaffinity(None, &allowed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn being_driven_off_by_another_thread_is_counted() {
        let mut one = rustix::thread::CpuSet::new();
        one.set(sched_getcpu());
        let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let rival_is_over = std::sync::Arc::clone(&is_over);
        // Bound to the core of this test's thread until that has been driven off.
        let rival = std::thread::spawn(move || {
            sched_setaffinity(None, &one).unwrap();
            while !rival_is_over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let driven_off = std::thread::spawn(move || {
            sched_setaffinity(None, &one).unwrap();
            let before = times_driven_off();
            while times_driven_off() == before {
                std::hint::spin_loop();
            }
        });
        driven_off.join().unwrap();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        rival.join().unwrap();
    }

    #[test]
    fn leaving_a_core_leaves_the_binding_as_it_was() {
        let before = sched_getaffinity(None).unwrap();
        let has_left = leave(sched_getcpu()).unwrap();
        assert_eq!(has_left, before.count() > 1);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn a_thread_bound_to_one_core_stays() {
        std::thread::spawn(|| {
            let mut one = rustix::thread::CpuSet::new();
            one.set(sched_getcpu());
            sched_setaffinity(None, &one).unwrap();
            assert_eq!(leave(sched_getcpu()), Ok(false));
            assert_eq!(sched_getaffinity(None).unwrap(), one);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn steps_are_further_apart_each_time_the_loop_has_been_driven_off() {
        let mut place = Place::default();
        let mut after = || {
            place.was_driven_off(0);
            place.next_step_ns / 1_000_000
        };
        assert_eq!(
            [after(), after(), after(), after(), after(), after(), after()],
            [5, 20, 80, 320, 1_280, 2_000, 2_000]
        );
    }
}
