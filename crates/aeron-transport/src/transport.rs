//! Byte streams of clients over Aeron, through a media driver.
//!
//! Start at    [`AeronTransport::open`].

use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::time::{Duration, Instant};

use pitwire_failure::Failure;
use pitwire_net::event_loop::{LoopEvent, ReceiveOutcome, SendOutcome, Token};
use pitwire_net::{MessageTransport, TRANSPORT_LISTENER};
use rusteron_client::bindings::aeron_controlled_fragment_handler_action_t as Action;
use rusteron_client::{
    Aeron, AeronAsyncAddExclusivePublication, AeronCError, AeronContext, AeronErrorHandlerCallback,
    AeronExclusivePublication, AeronHeader, AeronOfferError, AeronSubscription, Handlers,
};
use slab::Slab;
use tracing::{info, warn};

use crate::channels::AeronChannels;

/// Stream ids of requests and answers: the id of the SBE schema, and the next one.
const REQUEST_STREAM: i32 = 7401;
const ANSWER_STREAM: i32 = 7402;
/// Largest number of open streams. The gateway serves as many.
const MAX_STREAMS: u32 = 256;
/// Longest wait for a subscription at the start, and for a client that does not receive its
/// answers.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest number of fragments that one poll takes from each subscription.
const FRAGMENTS_PER_POLL: usize = 64;
/// Largest offer in bytes. It fits one fragment of the smallest usual MTU, so Aeron divides none.
const OFFER_BYTES: usize = 1_024;
/// Unread bytes of a client from which its next fragments stay in Aeron, which then slows the
/// client down.
const MAX_INPUT_BYTES: usize = 64 * 1024;
/// Interval at which the transport looks for clients that have ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Index of the endpoint, and the session id of a client's publication on its request channel.
type SessionKey = (usize, i32);

/// The stream of answers to a client.
enum Answers {
    /// The media driver is adding the publication.
    Opening(AeronAsyncAddExclusivePublication),
    Open(AeronExclusivePublication),
    Closed,
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    /// The client has closed its publication. Bytes that arrived before are still read.
    Ended,
    Failed,
}

struct AeronStream {
    key: SessionKey,
    answers: Answers,
    input: Vec<u8>,
    /// Whether the client receives its answers: an offer has succeeded.
    has_joined: bool,
    /// Answers wait for room in the publication, or for the client to join.
    is_blocked: bool,
    end: Option<StreamEnd>,
    opened_at: Instant,
}

impl AeronStream {
    /// Returns whether waiting answers can be offered again. An offer fails if the client has left.
    fn can_go_on(&self) -> bool {
        match &self.answers {
            Answers::Open(answers) if answers.is_connected() => answers.position_limit() > answers.position(),
            Answers::Open(_) => self.has_joined,
            Answers::Opening(_) | Answers::Closed => false,
        }
    }

    /// Returns whether answers have waited too long for the client to begin to receive them.
    fn is_late(&self) -> bool {
        !self.has_joined && self.is_blocked && self.opened_at.elapsed() > PATIENCE
    }
}

/// A subscription to requests, and the channel of their answers.
struct Endpoint {
    requests: AeronSubscription,
    /// Beginning of the channel of the answers. The session id follows it.
    answers: String,
}

/// Logs errors of the Aeron client. Aeron's own handler ends the process.
struct ErrorLog;

impl AeronErrorHandlerCallback for ErrorLog {
    fn handle_aeron_error_handler(&mut self, code: i32, error: &str) {
        warn!(code, error, "Aeron reports an error");
    }
}

/// Streams over Aeron.
pub(crate) struct AeronTransport {
    // First in drop order: publications and subscriptions end before the client that made them.
    streams: Slab<AeronStream>,
    endpoints: Vec<Endpoint>,
    aeron: Aeron,
    by_key: BTreeMap<SessionKey, usize>,
    /// Sessions whose further requests are dropped, because their byte stream is incomplete.
    ended: Vec<SessionKey>,
    accepted: VecDeque<Token>,
    /// Buffer of the bytes that `receive` returned last.
    received: Vec<u8>,
    check_at: Instant,
    is_lost: bool,
}

impl AeronTransport {
    /// Connects to the media driver.
    ///
    /// # Errors
    /// Fails if the media driver does not answer, or if a channel is not valid.
    pub fn open(channels: &[AeronChannels], directory: Option<&str>) -> Result<AeronTransport, Failure> {
        let aeron = connect(directory).map_err(|error| {
            let place = directory.map_or_else(String::new, |directory| format!(" in {directory}"));
            Failure::new(format!("no media driver for Aeron answers{place}: {}", reason(&error)))
                .remedy("start a media driver, and name its directory with --sbe-aeron-directory")
        })?;
        let mut endpoints = Vec::new();
        for AeronChannels { requests, answers } in channels {
            let adding =
                aeron.async_add_subscription(&c_string(requests)?, REQUEST_STREAM, Handlers::NONE, Handlers::NONE);
            let subscription = adding.and_then(|adding| adding.poll_blocking(PATIENCE)).map_err(|error| {
                Failure::new(format!("cannot receive {requests} over Aeron: {}", reason(&error)))
                    .remedy("check the channel")
            })?;
            let separator = if answers.contains('?') { '|' } else { '?' };
            endpoints.push(Endpoint { requests: subscription, answers: format!("{answers}{separator}session-id=") });
        }
        Ok(AeronTransport {
            streams: Slab::new(),
            endpoints,
            aeron,
            by_key: BTreeMap::new(),
            ended: Vec::new(),
            accepted: VecDeque::new(),
            received: Vec::new(),
            check_at: Instant::now(),
            is_lost: false,
        })
    }

    /// Takes the requests that have arrived.
    ///
    /// # Errors
    /// Fails if the media driver is lost.
    fn take_requests(&mut self, events: &mut Vec<LoopEvent>) -> Result<(), AeronCError> {
        let mut unknown = Vec::new();
        let AeronTransport { streams, endpoints, by_key, ended, .. } = self;
        for (number, endpoint) in endpoints.iter().enumerate() {
            let take = |bytes: &[u8], header: AeronHeader| {
                let Some(session) = header.session_id() else { return Action::AERON_ACTION_CONTINUE };
                let key = (number, session);
                let Some(&at) = by_key.get(&key) else {
                    if ended.contains(&key) {
                        return Action::AERON_ACTION_CONTINUE;
                    }
                    if !unknown.contains(&key) {
                        unknown.push(key);
                    }
                    return Action::AERON_ACTION_ABORT;
                };
                match streams.get_mut(at) {
                    Some(stream) if matches!(stream.answers, Answers::Open(_)) => {
                        if stream.input.len() >= MAX_INPUT_BYTES {
                            return Action::AERON_ACTION_ABORT;
                        }
                        if stream.input.is_empty() {
                            events.push(readable(at));
                        }
                        stream.input.extend_from_slice(bytes);
                    }
                    Some(AeronStream { answers: Answers::Opening(_), .. }) => return Action::AERON_ACTION_ABORT,
                    // The stream of its answers is closed, so its requests are dropped.
                    _ => {}
                }
                Action::AERON_ACTION_CONTINUE
            };
            endpoint.requests.controlled_poll_fn(take, FRAGMENTS_PER_POLL)?;
        }
        for key in unknown {
            self.open_stream(key);
        }
        Ok(())
    }

    /// Begins to open the stream of a new client. Its requests stay in Aeron until it is open.
    fn open_stream(&mut self, key: SessionKey) {
        if self.streams.len() >= MAX_STREAMS as usize {
            return self.refuse(key, "too many clients");
        }
        let Some(endpoint) = self.endpoints.get(key.0) else { return };
        let channel = c_string(&format!("{}{}", endpoint.answers, key.1));
        let opening = channel.map_err(|failure| failure.to_string()).and_then(|channel| {
            self.aeron.async_add_exclusive_publication(&channel, ANSWER_STREAM).map_err(|error| reason(&error))
        });
        match opening {
            Ok(opening) => {
                let stream = AeronStream {
                    key,
                    answers: Answers::Opening(opening),
                    input: Vec::new(),
                    has_joined: false,
                    is_blocked: false,
                    end: None,
                    opened_at: Instant::now(),
                };
                self.by_key.insert(key, self.streams.insert(stream));
            }
            Err(reason) => self.refuse(key, &reason),
        }
    }

    fn refuse(&mut self, key: SessionKey, reason: &str) {
        warn!(session = key.1, reason, "refused an Aeron client");
        self.ended.push(key);
    }

    /// Reports streams that have opened, and streams that accept answers again.
    fn look_at_answers(&mut self, events: &mut Vec<LoopEvent>) {
        let mut refused = Vec::new();
        for (at, stream) in &mut self.streams {
            if let Answers::Opening(opening) = &stream.answers {
                match opening.poll() {
                    Ok(None) => {}
                    Ok(Some(answers)) => {
                        stream.answers = Answers::Open(answers);
                        self.accepted.push_back(token(at));
                        events.push(LoopEvent::Acceptable(TRANSPORT_LISTENER));
                    }
                    Err(error) => refused.push((at, reason(&error))),
                }
            } else if stream.is_blocked && stream.can_go_on() {
                stream.is_blocked = false;
                events.push(LoopEvent::Writable(token(at)));
            }
        }
        for (at, reason) in refused {
            if let Some(stream) = self.forget(at) {
                self.refuse(stream.key, &reason);
            }
        }
    }

    /// Detects the loss of the media driver. Otherwise detects clients that have closed their
    /// publication or do not receive their answers.
    fn check(&mut self, events: &mut Vec<LoopEvent>) {
        if self.aeron.is_closed() {
            return self.lose("the media driver does not answer", events);
        }
        let mut alive = Vec::new();
        for (number, endpoint) in self.endpoints.iter().enumerate() {
            endpoint.requests.for_each_image(|image| {
                if let Ok(constants) = image.get_constants()
                    && !image.is_end_of_stream()
                {
                    alive.push((number, constants.session_id()));
                }
            });
        }
        self.ended.retain(|key| alive.contains(key));
        for (at, stream) in &mut self.streams {
            let session = stream.key.1;
            let end = if !alive.contains(&stream.key) {
                StreamEnd::Ended
            } else if stream.is_late() {
                StreamEnd::Failed
            } else {
                continue;
            };
            if stream.end.is_none() {
                match end {
                    StreamEnd::Ended => info!(session, "an Aeron client has closed its publication"),
                    StreamEnd::Failed => warn!(session, "closed an Aeron client that does not receive its answers"),
                }
                stream.end = Some(end);
                events.push(readable(at));
            }
        }
    }

    /// Ends all streams. The server continues without them.
    fn lose(&mut self, reason: &str, events: &mut Vec<LoopEvent>) {
        warn!(reason, "lost Aeron; to serve its clients again, start a media driver, then the venue");
        self.is_lost = true;
        for (at, stream) in &mut self.streams {
            stream.end = Some(StreamEnd::Failed);
            events.push(readable(at));
        }
    }

    fn forget(&mut self, at: usize) -> Option<AeronStream> {
        let stream = self.streams.try_remove(at)?;
        self.by_key.remove(&stream.key);
        Some(stream)
    }
}

impl MessageTransport for AeronTransport {
    fn capacity(&self) -> u32 {
        MAX_STREAMS
    }

    fn poll(&mut self, events: &mut Vec<LoopEvent>) {
        if self.is_lost {
            return;
        }
        if let Err(error) = self.take_requests(events) {
            return self.lose(&reason(&error), events);
        }
        self.look_at_answers(events);
        let now = Instant::now();
        if now >= self.check_at {
            self.check_at = now + CHECK_INTERVAL;
            self.check(events);
        }
    }

    fn accept(&mut self) -> Option<Token> {
        self.accepted.pop_front()
    }

    fn receive(&mut self, token: Token) -> ReceiveOutcome<'_> {
        let Some(stream) = self.streams.get_mut(token.index()) else { return ReceiveOutcome::Failed };
        if !stream.input.is_empty() {
            self.received.clear();
            std::mem::swap(&mut self.received, &mut stream.input);
            return ReceiveOutcome::Bytes(&mut self.received);
        }
        match stream.end {
            None => ReceiveOutcome::Pending,
            Some(StreamEnd::Ended) => ReceiveOutcome::Ended,
            Some(StreamEnd::Failed) => ReceiveOutcome::Failed,
        }
    }

    fn send(&mut self, token: Token, parts: &[&[u8]]) -> SendOutcome {
        let Some(stream) = self.streams.get_mut(token.index()) else { return SendOutcome::Failed };
        let Answers::Open(answers) = &stream.answers else { return SendOutcome::Failed };
        let mut sent = 0;
        for bytes in parts.iter().flat_map(|part| part.chunks(OFFER_BYTES)) {
            match answers.offer(bytes) {
                Ok(_) => {
                    stream.has_joined = true;
                    sent += bytes.len();
                }
                Err(AeronOfferError::NotConnected) if stream.has_joined => return SendOutcome::Failed,
                Err(error) if error.is_retryable() => {
                    stream.is_blocked = true;
                    return if sent > 0 { SendOutcome::Bytes(sent) } else { SendOutcome::Blocked };
                }
                Err(_) => return SendOutcome::Failed,
            }
        }
        SendOutcome::Bytes(sent)
    }

    fn shutdown(&mut self, token: Token) {
        if let Some(stream) = self.streams.get_mut(token.index()) {
            // The client still receives the offered bytes, then sees the end.
            stream.answers = Answers::Closed;
        }
    }

    fn close(&mut self, token: Token) {
        if let Some(stream) = self.forget(token.index()) {
            self.ended.push(stream.key);
        }
    }
}

fn connect(directory: Option<&str>) -> Result<Aeron, AeronCError> {
    let context = AeronContext::new()?;
    if let Some(directory) = directory {
        context.set_dir(&CString::new(directory).unwrap_or_default())?;
    }
    context.set_error_handler(Some(ErrorLog))?;
    let aeron = Aeron::new(&context)?;
    aeron.start()?;
    Ok(aeron)
}

/// Returns the message of an error in one line, without the locations in Aeron's source.
fn reason(error: &AeronCError) -> String {
    let message = error.get_last_err_message();
    message.lines().filter(|line| !line.starts_with('[') && *line != "]").collect::<Vec<_>>().join(": ")
}

fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::usage(format!("invalid channel {text:?}: it contains a NUL")))
}

/// Returns the token of a stream: its index, which is below `MAX_STREAMS`.
fn token(at: usize) -> Token {
    Token(u32::try_from(at).unwrap_or(u32::MAX))
}

fn readable(at: usize) -> LoopEvent {
    LoopEvent::Readable(token(at))
}
