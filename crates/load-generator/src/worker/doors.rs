//! Connections opened and ended.
//!
//! Does        the way from a place in the queue to an open WebSocket, and every way out; storms.
//! Start at    [`Worker::open_more`].

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::net::sockopt::socket_error;

use super::{READING, Storm, Worker, talk};
use crate::connection::{Connection, Phase};
use crate::control::NEVER;
use crate::plan::Reader;
use crate::refusal::Refusal;
use crate::tls::Session;
use crate::{socket, stamp};

/// After a refusal in a storm, about so long until the next attempt.
const RETRY_NS: i64 = 100_000_000;
/// The connection ended without a close frame.
pub const NO_CLOSE: u16 = 1006;

impl Worker<'_> {
    fn place(&mut self, place: u32) -> Option<&mut Connection> {
        self.connections.get_mut(place as usize)
    }

    /// How many may be opening at a time.
    fn wave(&self) -> u32 {
        if let Storm::Raging { .. } = self.storm {
            return u32::MAX;
        }
        if self.control.opened.load(Ordering::Relaxed) == 0 {
            return u32::from(self.is_scout);
        }
        let part = u64::from(self.plan.wave) * u64::from(self.share.count) / u64::from(self.share.total.max(1));
        u32::try_from(part).unwrap_or(u32::MAX).max(1)
    }

    pub(super) fn open_more(&mut self) {
        while self.opening_now < self.wave()
            && self.queue.front().is_some_and(|(_, not_before_ns)| *not_before_ns <= self.now_ns)
        {
            if let Some(arriving) = &mut self.arriving {
                if self.arriving_from_ns.saturating_add(arriving.due_ns()) > self.now_ns {
                    return;
                }
                arriving.take();
            }
            let Some((place, _)) = self.queue.pop_front() else { return };
            self.begin(place);
        }
    }

    fn begin(&mut self, place: u32) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let number = self.share.first + place;
        one.reset();
        let (generation, reader) = (one.generation, one.reader);
        let begun = socket::begin(self.plan.server, self.sources, number, reader).and_then(|socket| {
            epoll::add(&self.epoll, &socket, event(place, generation), EventFlags::OUT)?;
            Ok(socket)
        });
        match begun {
            Ok(socket) => {
                one.socket = Some(socket);
                one.phase = Phase::Connecting;
                self.opening_now += 1;
                let patience_ns = i64::try_from(self.plan.patience.as_nanos()).unwrap_or(NEVER);
                self.patience.push_back((place, generation, self.now_ns.saturating_add(patience_ns)));
            }
            Err(error) => {
                let refusal = at_once(&error, self.plan.server);
                self.failed(place, refusal);
            }
        }
    }

    /// An event of a connection.
    pub(super) fn ready(&mut self, place: u32, flags: EventFlags) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        match one.phase {
            Phase::Absent => {}
            Phase::Connecting => self.connected(place),
            Phase::Opening | Phase::Open => {
                if flags.contains(EventFlags::OUT) {
                    self.flush(place);
                }
                let ends = flags.intersects(EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP);
                let Some(one) = self.connections.get_mut(place as usize) else { return };
                match (one.phase, one.reader) {
                    (Phase::Open, Reader::Stopped) if ends => self.ended(place, NO_CLOSE),
                    (Phase::Open, Reader::Slow) if ends => {
                        // It reads on in its own time, and the kernel need not repeat itself.
                        if let Some(socket) = &one.socket {
                            let _ = epoll::delete(&self.epoll, socket);
                        }
                    }
                    (Phase::Open, Reader::Stopped | Reader::Slow) | (Phase::Absent, _) => {}
                    _ if ends || flags.contains(EventFlags::IN) => self.read_all(place, ends),
                    _ => {}
                }
            }
        }
    }

    fn connected(&mut self, place: u32) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let Some(socket) = &one.socket else { return };
        match socket_error(socket) {
            Ok(Ok(())) => {}
            Ok(Err(error)) | Err(error) => {
                let cause = std::io::Error::from(error);
                return self.refused(place, Refusal::Connect(format!("{}: {cause}", self.plan.server)));
            }
        }
        one.phase = Phase::Opening;
        if let Some(config) = &self.plan.tls {
            match Session::open(config, &self.plan.address.host) {
                Ok(session) => one.extra.get_or_insert_default().tls = Some(Box::new(session)),
                Err(error) => return self.refused(place, Refusal::Tls(error.to_string())),
            }
        }
        self.interest(place, READING);
        if self.plan.tls.is_some() {
            // The hello; the request follows when the handshake is done.
            self.send(place, &[]);
        } else {
            self.request(place);
        }
    }

    pub(super) fn request(&mut self, place: u32) {
        let request = self.opening.request().to_vec();
        self.send(place, &request);
    }

    pub(super) fn interest(&mut self, place: u32, flags: EventFlags) {
        let Some(one) = self.connections.get(place as usize) else { return };
        if let Some(socket) = &one.socket {
            // It was added when the connection began, and goes when the socket is closed.
            let _ = epoll::modify(&self.epoll, socket, event(place, one.generation), flags);
        }
    }

    /// The answer was the right one.
    pub(super) fn opened(&mut self, place: u32, is_compressed: bool) {
        let Some(one) = self.place(place) else { return };
        one.phase = Phase::Open;
        one.frames.may_compress = is_compressed;
        let reader = one.reader;
        if let Some(socket) = one.socket.as_ref().filter(|_| talk::is_stamped(place, Phase::Open)) {
            stamp::ask(socket);
        }
        self.opening_now -= 1;
        self.gauge.report.tally.opened += 1;
        if let Storm::Raging { since_ns, missing } = &mut self.storm {
            *missing = missing.saturating_sub(1);
            if *missing == 0 {
                let took_ns = u64::try_from(self.now_ns - *since_ns).unwrap_or(0);
                self.gauge.report.storm_ns = Some(took_ns);
                self.storm = Storm::Over;
            }
        } else {
            self.control.opened.fetch_add(1, Ordering::Relaxed);
            self.gauge.report.opening_ns = u64::try_from(self.now_ns - self.began_ns).unwrap_or(0);
        }
        if reader != Reader::Healthy {
            self.interest(place, EventFlags::RDHUP | EventFlags::ET);
        }
        if let Some(text) = self.plan.subscribe.clone() {
            self.send_text(place, text.as_bytes());
        }
    }

    /// While it was being opened.
    pub(super) fn refused(&mut self, place: u32, refusal: Refusal) {
        self.opening_now = self.opening_now.saturating_sub(1);
        if let Some(one) = self.place(place) {
            one.reset();
        }
        self.failed(place, refusal);
    }

    fn failed(&mut self, place: u32, refusal: Refusal) {
        if let Storm::Raging { .. } = self.storm {
            self.gauge.report.tally.storm_retries += 1;
            let jitter_ns = (self.random.next() % RETRY_NS.unsigned_abs()).cast_signed();
            self.queue.push_back((place, self.now_ns + RETRY_NS / 2 + jitter_ns));
            return;
        }
        self.gauge.report.tally.failed += 1;
        self.gauge.report.failed(&refusal);
        self.control.failed.fetch_add(1, Ordering::Relaxed);
        if self.control.opened.load(Ordering::Relaxed) == 0 {
            self.control.give_up(refusal);
        }
    }

    /// An open connection has come to its end; `code` of the server's close frame, if there was one.
    pub(super) fn ended(&mut self, place: u32, code: u16) {
        let Some(one) = self.connections.get_mut(place as usize) else { return };
        let reader = one.reader;
        self.gauge.given_up(&mut one.extra, reader);
        one.reset();
        let report = &mut self.gauge.report;
        report.closed(code);
        match reader {
            Reader::Healthy => report.tally.ended_early += 1,
            Reader::Slow | Reader::Stopped => report.tally.faulty_ended += 1,
        }
    }

    pub(super) fn lose_patience(&mut self) {
        while let Some((place, generation, until_ns)) = self.patience.front().copied() {
            let is_opening = self.connections.get(place as usize).is_some_and(|one| {
                one.generation == generation && matches!(one.phase, Phase::Connecting | Phase::Opening)
            });
            if is_opening && self.now_ns < until_ns {
                return;
            }
            self.patience.pop_front();
            if is_opening {
                self.refused(place, Refusal::Silent);
            }
        }
    }

    pub(super) fn storm(&mut self) {
        let Some(after) = self.plan.storm.filter(|_| self.storm == Storm::Due) else { return };
        let after_ns = i64::try_from(after.as_nanos()).unwrap_or(NEVER);
        if self.gauge.start_ns == NEVER || self.now_ns < self.gauge.start_ns.saturating_add(after_ns) {
            return;
        }
        // Nobody waits for his turn any more.
        self.arriving = None;
        let mut missing = 0;
        for (place, one) in (0_u32..).zip(&mut self.connections) {
            if one.is_open() {
                // Whoever is cut off does not wait for answers.
                self.gauge.given_up(&mut one.extra, Reader::Stopped);
                one.reset();
                self.queue.push_back((place, 0));
                missing += 1;
            }
        }
        self.storm = if missing > 0 { Storm::Raging { since_ns: self.now_ns, missing } } else { Storm::Over };
        self.open_more();
    }
}

fn event(place: u32, generation: u32) -> EventData {
    EventData::new_u64(u64::from(generation) << 32 | u64::from(place))
}

/// Why not even an attempt was possible.
fn at_once(error: &std::io::Error, server: SocketAddr) -> Refusal {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => Refusal::Machine("too many open files; raise it: ulimit -n".into()),
        Some(Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => Refusal::Machine(error.to_string()),
        Some(Errno::ADDRNOTAVAIL) => Refusal::Machine("all ports to that address are taken".into()),
        _ => Refusal::Connect(format!("{server}: {error}")),
    }
}
