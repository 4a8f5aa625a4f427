//! Accepts connections and starts a thread for each.
//!
//! Start at    [`accept_until`].

use std::io;
use std::net::TcpListener;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::Duration;

use pitwire_net::event_loop::{LoopEvent, LoopKind, LoopOptions};

/// Longest wait for a connection before the end is checked.
const GLANCE: Duration = Duration::from_millis(100);
/// Pause before accepting again when that failed.
const ACCEPT_AGAIN: Duration = Duration::from_millis(10);
/// The wake source of `stop`.
const STOP: u32 = 0;
/// The loop of a listener receives nothing itself.
const OPTIONS: LoopOptions = LoopOptions { receive_bytes: 64, detaches: true };

/// Passes each connection to `admit`, which starts a thread for it, until `stop` becomes readable
/// or `is_over` returns true for the threads that run. Returns these threads.
///
/// # Errors
/// Waiting for connections fails.
pub(crate) fn accept_until(
    listener: TcpListener,
    stop: BorrowedFd<'_>,
    is_over: &dyn Fn(&[JoinHandle<()>]) -> bool,
    admit: &dyn Fn(OwnedFd) -> Option<JoinHandle<()>>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut net = LoopKind::Epoll.open(OPTIONS)?;
    let listener = net.add_listener(listener)?;
    net.add_wake_source(stop.try_clone_to_owned()?, STOP)?;
    let (mut events, mut threads) = (Vec::new(), Vec::new());
    while !is_over(&threads) {
        net.wait(Some(GLANCE), &mut events)?;
        if events.contains(&LoopEvent::Woken(STOP)) {
            break;
        }
        threads.retain(|thread: &JoinHandle<()>| !thread.is_finished());
        loop {
            let accepted = net
                .accept(listener)
                .and_then(|accepted| accepted.map(|accepted| net.detach(accepted.token)).transpose());
            match accepted {
                Ok(Some(detached)) => threads.extend(admit(detached.socket)),
                Ok(None) => break,
                // No descriptor is left. The open connections go on, and the next round tries
                // again.
                Err(_) => {
                    std::thread::sleep(ACCEPT_AGAIN);
                    break;
                }
            }
        }
    }
    Ok(threads)
}
