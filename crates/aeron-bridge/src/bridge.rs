//! The bridge: one thread that polls Aeron and the connections to the venue.
//!
//! Start at    [`Bridge::run`].

use std::collections::HashMap;
use std::ffi::CString;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pitwire_failure::Failure;
use rusteron_client::{Aeron, AeronCError, AeronExclusivePublication, AeronOfferError, AeronSubscription, Handlers};

/// Stream ids of requests and answers: the id of the SBE schema, and the next one.
const REQUEST_STREAM: i32 = 7401;
const ANSWER_STREAM: i32 = 7402;
/// Most sessions at the same time, as the gateway has.
const MAX_SESSIONS: usize = 256;
/// Longest wait for the media driver, and for a connection to the venue.
const PATIENCE: Duration = Duration::from_secs(5);
/// Fragments taken before answers are sent.
const FRAGMENTS_PER_POLL: usize = 64;
/// Bytes of one offer. They fit a fragment of the shortest usual MTU, so no message is divided.
const OFFER_BYTES: usize = 1_024;
/// Most bytes of a client that wait for the venue.
const MAX_WAITING_BYTES: usize = 1024 * 1024;
/// Interval in which the bridge looks for clients that have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Rounds without work before the thread yields, and before it sleeps.
const SPINS: u32 = 2_000;
const YIELDS: u32 = 20_000;
const SLEEP: Duration = Duration::from_micros(50);

/// A client with its connection to the venue.
struct BridgedSession {
    /// Answers to the client, with the session id of its requests.
    answers: AeronExclusivePublication,
    venue: TcpStream,
    /// Bytes that the venue has not taken.
    to_venue: Vec<u8>,
    /// Bytes that the client has not taken.
    to_client: Vec<u8>,
    /// Whether the client has received the stream of its answers.
    has_joined: bool,
    opened_at: Instant,
}

/// Why a session ends.
struct SessionEnd(String);

impl BridgedSession {
    /// Forwards the bytes of both directions. Returns the number of bytes.
    fn forward(&mut self) -> Result<usize, SessionEnd> {
        let failed = |error: std::io::Error| SessionEnd(format!("the venue: {error}"));
        let mut done = 0;
        if !self.to_venue.is_empty() {
            match self.venue.write(&self.to_venue) {
                Ok(written) => {
                    self.to_venue.drain(..written);
                    done += written;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if self.to_client.is_empty() {
            let mut buffer = [0; OFFER_BYTES];
            match self.venue.read(&mut buffer) {
                Ok(0) => return Err(SessionEnd("the venue closed the connection".into())),
                Ok(read) => self.to_client.extend_from_slice(buffer.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if !self.to_client.is_empty() {
            match self.answers.offer(&self.to_client) {
                Ok(_) => {
                    done += self.to_client.len();
                    self.to_client.clear();
                    self.has_joined = true;
                }
                Err(AeronOfferError::NotConnected) if self.has_joined => {
                    return Err(SessionEnd("the client does not receive its answers any more".into()));
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => return Err(SessionEnd(error.to_string())),
            }
        }
        Ok(done)
    }

    /// Returns whether the client has not begun to receive its answers in time.
    fn is_late(&self) -> bool {
        !self.has_joined && !self.to_client.is_empty() && self.opened_at.elapsed() > PATIENCE
    }
}

/// The running bridge.
pub struct Bridge {
    aeron: Aeron,
    requests: AeronSubscription,
    answers: String,
    venue: SocketAddr,
    sessions: HashMap<i32, BridgedSession>,
    /// Sessions whose later requests are dropped, because their bytes are not whole any more.
    ended: Vec<i32>,
}

impl Bridge {
    /// Connects to the media driver and receives requests.
    ///
    /// # Errors
    ///
    /// Fails if the media driver does not answer, or if a channel is not valid.
    pub fn open(venue: SocketAddr, requests: &str, answers: &str, directory: Option<&str>) -> Result<Bridge, Failure> {
        let failed = |error: AeronCError| {
            Failure::new(format!("cannot receive {requests} by Aeron: {error} {}", Aeron::errmsg()))
                .remedy("start a media driver, and check its directory and the channel")
        };
        let aeron = Aeron::connect(directory).map_err(failed)?;
        let channel = channel(requests)?;
        let subscription = aeron
            .async_add_subscription(&channel, REQUEST_STREAM, Handlers::NONE, Handlers::NONE)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(failed)?;
        let answers = answers.to_owned();
        Ok(Bridge { aeron, requests: subscription, answers, venue, sessions: HashMap::new(), ended: Vec::new() })
    }

    /// Forwards sessions until `stop` is set.
    ///
    /// # Errors
    ///
    /// Fails if the media driver fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<(), Failure> {
        let (mut idle_rounds, mut check_at) = (0_u32, Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let mut work = self.take_requests()?;
            let mut ends = Vec::new();
            for (id, session) in &mut self.sessions {
                match session.forward() {
                    Ok(done) => work += done,
                    Err(SessionEnd(reason)) => ends.push((*id, reason)),
                }
            }
            if check_at <= Instant::now() {
                check_at = Instant::now() + CHECK_INTERVAL;
                ends.extend(self.find_ended());
            }
            for (id, reason) in ends {
                self.end(id, &reason);
            }
            idle_rounds = if work > 0 { 0 } else { idle_rounds.saturating_add(1) };
            match idle_rounds {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ => std::thread::sleep(SLEEP),
            }
        }
        Ok(())
    }

    /// Takes the requests that have arrived. Returns their number.
    fn take_requests(&mut self) -> Result<usize, Failure> {
        let mut arrived: Vec<(i32, Vec<u8>)> = Vec::new();
        let polled = self.requests.poll_fn(
            |bytes: &[u8], header| {
                if let Some(session) = header.session_id() {
                    arrived.push((session, bytes.to_vec()));
                }
            },
            FRAGMENTS_PER_POLL,
        );
        polled.map_err(|error| Failure::new(format!("the media driver failed: {error}")))?;
        let count = arrived.len();
        for (id, bytes) in arrived {
            if self.ended.contains(&id) {
                continue;
            }
            if !self.sessions.contains_key(&id) {
                match self.open_session(id) {
                    Ok(session) => drop(self.sessions.insert(id, session)),
                    Err(failure) => {
                        self.end(id, &failure.to_string());
                        continue;
                    }
                }
            }
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            session.to_venue.extend_from_slice(&bytes);
            if session.to_venue.len() > MAX_WAITING_BYTES {
                self.end(id, "the venue does not take its requests");
            }
        }
        Ok(count)
    }

    fn open_session(&self, id: i32) -> Result<BridgedSession, Failure> {
        if self.sessions.len() >= MAX_SESSIONS {
            return Err(Failure::new(format!("more than {MAX_SESSIONS} sessions")));
        }
        let separator = if self.answers.contains('?') { '|' } else { '?' };
        let channel = channel(&format!("{}{separator}session-id={id}", self.answers))?;
        let publication = self
            .aeron
            .async_add_exclusive_publication(&channel, ANSWER_STREAM)
            .and_then(|adding| adding.poll_blocking(PATIENCE))
            .map_err(|error| Failure::new(format!("no stream of answers: {error} {}", Aeron::errmsg())))?;
        let venue = TcpStream::connect_timeout(&self.venue, PATIENCE)?;
        venue.set_nodelay(true)?;
        venue.set_nonblocking(true)?;
        Ok(BridgedSession {
            answers: publication,
            venue,
            to_venue: Vec::new(),
            to_client: Vec::new(),
            has_joined: false,
            opened_at: Instant::now(),
        })
    }

    /// Finds sessions whose client has closed its publication, or does not receive its answers.
    fn find_ended(&mut self) -> Vec<(i32, String)> {
        let mut alive = Vec::new();
        self.requests.for_each_image(|image| {
            if let Ok(constants) = image.get_constants() {
                alive.push(constants.session_id());
            }
        });
        self.ended.retain(|id| alive.contains(id));
        let gone = self.sessions.iter().filter_map(|(id, session)| match alive.contains(id) {
            false => Some((*id, "the client closed its publication".to_owned())),
            true if session.is_late() => Some((*id, "the client does not receive its answers".to_owned())),
            true => None,
        });
        gone.collect()
    }

    /// Ends a session. The client sees the end of the stream of its answers.
    fn end(&mut self, id: i32, reason: &str) {
        eprintln!("session {id} ended: {reason}");
        self.ended.push(id);
        self.sessions.remove(&id);
    }
}

fn channel(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::usage(format!("invalid channel {text:?}: it contains a NUL")))
}
