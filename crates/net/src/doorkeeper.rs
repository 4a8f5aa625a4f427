//! The door for TLS: a thread that finishes handshakes, so that nobody's order waits for somebody else's signature.
//!
//! Does        accepts, counts by address, answers handshakes, and hands links that are open to the loop.
//! Holds       1. a handshake takes as long as any unfinished request may, and no more; it has one of the places that all
//!                connections share;
//!             2. what the loop has not fetched is bounded: then nobody is let in until it comes.
//! Start at    [`Doorkeeper::start`].

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use pitwire_tls::ServerConfig;
use slab::Slab;
use tracing::{debug, warn};

use crate::limits::{Addresses, Place, Places};
use crate::link::Link;

/// Open links that wait for the loop.
const WAITING_MOST: usize = 1_024;
/// Accepted before handshakes go on.
const ACCEPTS: usize = 64;
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
const SWEEP: Duration = Duration::from_secs(1);

const LISTENER: Token = Token(usize::MAX);
const BELL: Token = Token(usize::MAX - 1);

/// What the loop has of it. The thread ends with this.
pub(crate) struct Doorkeeper {
    /// Readable when somebody waits.
    pub bell: mio::net::UnixStream,
    open: Receiver<(Link, IpAddr)>,
    thread: Option<JoinHandle<()>>,
}

/// What holds at the door.
pub(crate) struct House {
    pub config: Arc<ServerConfig>,
    /// Everybody's, at any door; whoever is let in has been counted.
    pub addresses: Addresses,
    pub per_address: Option<u32>,
    pub unfinished: Duration,
    pub places: Places,
}

impl Doorkeeper {
    pub fn start(listener: std::net::TcpListener, house: House) -> io::Result<Doorkeeper> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(listener);
        let mut bell = mio::net::UnixStream::from_std(theirs);
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut bell, BELL, Interest::READABLE)?;
        let (out, open) = sync_channel(WAITING_MOST);
        let door = Door {
            house,
            poll,
            listener,
            bell,
            out,
            knocking: Slab::new(),
            is_somebody_there: false,
            accept_again: None,
            cannot_accept: false,
            next_sweep: Instant::now(),
        };
        let thread = std::thread::Builder::new().name("doorkeeper".into()).spawn(move || door.keep())?;
        Ok(Doorkeeper { bell: mio::net::UnixStream::from_std(ours), open, thread: Some(thread) })
    }

    /// Whoever has waited longest.
    pub fn next(&self) -> Option<(Link, IpAddr)> {
        self.open.try_recv().ok()
    }

    pub fn answer_bell(&mut self) {
        let mut rings = [0; 256];
        while matches!(self.bell.read(&mut rings), Ok(count) if count > 0) {}
    }
}

impl Drop for Doorkeeper {
    fn drop(&mut self) {
        // Which the thread sees, whether it waits for sockets or for room in the channel.
        drop(self.bell.shutdown(std::net::Shutdown::Both));
        self.open = sync_channel(0).1;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Knocking {
    link: Link,
    from: IpAddr,
    since: Instant,
}

struct Door {
    house: House,
    poll: Poll,
    listener: TcpListener,
    bell: mio::net::UnixStream,
    out: SyncSender<(Link, IpAddr)>,
    knocking: Slab<Knocking>,
    is_somebody_there: bool,
    accept_again: Option<Instant>,
    /// And that has been said.
    cannot_accept: bool,
    next_sweep: Instant,
}

/// The loop is gone.
struct Closed;

impl Door {
    fn keep(mut self) {
        // Of this thread alone: where cores are scarce, orders go before signatures.
        let _ = rustix::process::nice(10);
        let mut events = Events::with_capacity(256);
        while self.turn(&mut events).is_ok() {}
    }

    fn turn(&mut self, events: &mut Events) -> Result<(), Closed> {
        match self.poll.poll(events, self.timeout()) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                warn!(%error, "the door for TLS is shut");
                return Err(Closed);
            }
            _ => {}
        }
        for event in &*events {
            match event.token() {
                LISTENER => self.is_somebody_there = true,
                BELL => self.is_loop_there()?,
                Token(at) => self.shake(at)?,
            }
        }
        let now = Instant::now();
        self.is_somebody_there |= self.accept_again.take_if(|again| now >= *again).is_some();
        if self.is_somebody_there && self.accept_again.is_none() {
            self.accept(now)?;
        }
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            self.sweep(now);
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        if self.is_somebody_there && self.accept_again.is_none() {
            return Some(Duration::ZERO);
        }
        let sweep = (!self.knocking.is_empty()).then_some(self.next_sweep);
        let next = [sweep, self.accept_again].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(now))
    }

    /// It never says anything; its end is told.
    fn is_loop_there(&mut self) -> Result<(), Closed> {
        match self.bell.read(&mut [0; 16]) {
            Ok(0) => Err(Closed),
            Err(error) if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Err(Closed)
            }
            _ => Ok(()),
        }
    }

    fn accept(&mut self, now: Instant) -> Result<(), Closed> {
        for _ in 0..ACCEPTS {
            let Some(place) = self.house.places.enter() else {
                // Somebody will be through, or be sent away, before long.
                self.accept_again = Some(now + ACCEPT_AGAIN);
                return Ok(());
            };
            match self.listener.accept() {
                Ok((stream, from)) => {
                    self.cannot_accept = false;
                    self.greet(stream, from.ip(), place, now)?;
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => {
                        self.is_somebody_there = false;
                        return Ok(());
                    }
                    // A peer that gave up while it waited says nothing about the next one.
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        if !std::mem::replace(&mut self.cannot_accept, true) {
                            warn!(%error, "cannot accept TLS connections; trying again until it works");
                        }
                        self.accept_again = Some(now + ACCEPT_AGAIN);
                        return Ok(());
                    }
                },
            }
        }
        Ok(())
    }

    fn greet(&mut self, stream: TcpStream, from: IpAddr, place: Place, now: Instant) -> Result<(), Closed> {
        // Saying why it may not come in would cost a handshake, which is what it must not have.
        if !self.house.addresses.enter(from, self.house.per_address) {
            return Ok(());
        }
        let at = self.knocking.vacant_key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let link = Link::secure(stream, &self.house.config).and_then(|mut link| {
            link.place = Some(place);
            link.stream.set_nodelay(true)?;
            self.poll.registry().register(&mut link.stream, Token(at), interest)?;
            Ok(link)
        });
        match link {
            Ok(link) => {
                self.knocking.insert(Knocking { link, from, since: now });
                self.shake(at)
            }
            Err(error) => {
                warn!(%error, "no TLS for a connection");
                self.house.addresses.leave(from);
                Ok(())
            }
        }
    }

    fn shake(&mut self, at: usize) -> Result<(), Closed> {
        let Some(knocking) = self.knocking.get_mut(at) else { return Ok(()) };
        match knocking.link.shake() {
            Ok(false) => Ok(()),
            Ok(true) => self.let_in(at),
            Err(error) => {
                debug!(%error, "a TLS handshake failed");
                self.send_away(at);
                Ok(())
            }
        }
    }

    fn let_in(&mut self, at: usize) -> Result<(), Closed> {
        let mut knocking = self.knocking.remove(at);
        let from = knocking.from;
        if let Err(error) = self.poll.registry().deregister(&mut knocking.link.stream) {
            debug!(%error, "a connection that cannot be let go");
            self.house.addresses.leave(from);
            return Ok(());
        }
        self.out.send((knocking.link, from)).map_err(|_| Closed)?;
        // A full bell has been rung.
        drop(self.bell.write(&[0]));
        Ok(())
    }

    fn send_away(&mut self, at: usize) {
        let knocking = self.knocking.remove(at);
        self.house.addresses.leave(knocking.from);
    }

    fn sweep(&mut self, now: Instant) {
        let is_late = |knocking: &Knocking| now.duration_since(knocking.since) >= self.house.unfinished;
        let late: Vec<usize> = self.knocking.iter().filter(|(_, one)| is_late(one)).map(|(at, _)| at).collect();
        late.into_iter().for_each(|at| self.send_away(at));
    }
}
