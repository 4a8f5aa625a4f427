//! One reader of the feed: handshake, login, the stream until it ends.
//!
//! Does        sends the stream when it is due; answers pings and closes; ends with a close frame,
//!             or as `--disconnect` says.
//! Holds       memory is bounded whatever the reader does: one buffer out, one in. The next buffer
//!             is filled when the last one is sent.
//! Start at    [`ReaderConnection::serve`].

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pitwire_net::HttpResponse;
use pitwire_websocket::{
    CloseCode, Decoder, HandshakeAnswer, IncomingMessage, MessageLimits, Opcode, write_close, write_frame,
};

use crate::framing::frame_end;
use crate::handshake;
use crate::server_socket::ServerSocket;
use crate::server_state::{Disconnect, Hello, ServerState};
use crate::stream::{FillResult, StreamTime, TapeStream};

/// Time limits for the head of the request, and for the login with `--hello`.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
const LOGIN_PATIENCE: Duration = Duration::from_secs(30);
/// Time for the reader to end a connection that we have ended.
const LINGER: Duration = Duration::from_secs(2);
/// Longest wait before the stop flag is checked.
const GLANCE: Duration = Duration::from_millis(100);

pub struct ReaderConnection<'a> {
    socket: ServerSocket,
    state: &'a ServerState,
    decoder: Decoder,
    incoming: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// Where the stream's own messages begin in `out`. Answers and pings are before.
    stream_from: usize,
    /// Pongs and answers, which are sent first.
    replies: Vec<u8>,
    login: LoginState,
    next_ping: Option<Instant>,
    pings: u64,
    clock: StreamClock,
}

/// The stream's clock on this connection.
struct StreamClock {
    since: Instant,
    before_ns: u64,
}

impl StreamClock {
    fn ns(&self) -> u64 {
        self.before_ns + nanos(self.since.elapsed())
    }

    fn moment(&self) -> StreamTime {
        StreamTime { stream_ns: self.ns(), wall_ns: wall_ns() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LoginState {
    WaitsForAuth,
    WaitsForSubscription,
    Done,
}

/// Why a connection ended.
enum EndReason {
    /// The stream ended, and the reader received all of it.
    Finished,
    Disconnect,
    /// The reader closed the connection.
    Closed,
    Gone,
    Stopped,
    Violation(CloseCode, String),
    Failed(String),
}

impl From<io::Error> for EndReason {
    fn from(_: io::Error) -> Self {
        EndReason::Gone
    }
}

impl<'a> ReaderConnection<'a> {
    pub fn new(socket: ServerSocket, state: &'a ServerState) -> Self {
        ReaderConnection {
            socket,
            state,
            decoder: Decoder::new(MessageLimits::default()),
            incoming: Vec::new(),
            out: Vec::new(),
            sent: 0,
            stream_from: 0,
            replies: Vec::new(),
            login: if state.protocol.hello == Hello::Polygon { LoginState::WaitsForAuth } else { LoginState::Done },
            next_ping: None,
            pings: 0,
            clock: StreamClock { since: Instant::now(), before_ns: 0 },
        }
    }

    /// Serves the connection from the first byte to the last.
    pub fn serve(mut self) {
        let (target, answer) = match handshake::receive(&mut self.socket, &mut self.incoming, &self.state.stop, None) {
            Ok(upgrade) => upgrade,
            Err(Some(response)) => return self.refuse(&response),
            Err(None) => return,
        };
        let Some(mut stream) = self.state.take_stream() else {
            let reason =
                "this feed is one stream and another connection reads it; come back, or serve with --per-client";
            return self.refuse(&HttpResponse::text(503, reason));
        };
        self.state.connected();
        let over = self.talk(&mut stream, &target, &answer);
        let state = self.state;
        self.end(over, &mut stream);
        state.give_back(stream);
    }

    fn refuse(mut self, response: &HttpResponse) {
        self.state.refused.fetch_add(1, Relaxed);
        let mut answer = Vec::new();
        response.write(&mut answer, false, false);
        // A refused client may not wait for the answer.
        let _ = self.push(&answer, LINGER);
        self.linger();
    }

    fn talk(&mut self, stream: &mut TapeStream, target: &str, answer: &HandshakeAnswer) -> EndReason {
        self.clock.before_ns = stream.elapsed_ns;
        self.clock.since = Instant::now();
        let over = self.run(stream, target, answer).err().unwrap_or(EndReason::Finished);
        stream.elapsed_ns = self.clock.ns();
        self.state.left();
        over
    }

    fn run(&mut self, stream: &mut TapeStream, target: &str, answer: &HandshakeAnswer) -> Result<(), EndReason> {
        let mut head = Vec::new();
        answer.write(&mut head);
        self.push(&head, HANDSHAKE_PATIENCE)?;
        if self.login != LoginState::Done {
            self.log_in()?;
        }
        let mut greetings = Vec::new();
        for greeting in stream.connected(target, wall_ns()) {
            write_frame(&mut greetings, Opcode::Text, &greeting);
        }
        self.replies.extend_from_slice(&greetings);
        // The stream's clock does not run during the login.
        self.clock.since = Instant::now();
        self.next_ping = self.state.protocol.ping_every.map(|every| Instant::now() + every);
        loop {
            if self.state.stop.load(Relaxed) {
                return Err(EndReason::Stopped);
            }
            self.handle_input(stream)?;
            if self.sent == self.out.len() {
                self.out.clear();
                self.sent = 0;
                self.out.append(&mut self.replies);
                self.ping(stream);
                self.stream_from = self.out.len();
                let next = stream.fill(self.clock.moment(), &mut self.out);
                if self.out.is_empty() {
                    self.pause(&next)?;
                    continue;
                }
            }
            match self.socket.write(&self.out[self.sent..])? {
                Some(bytes) => {
                    self.sent += bytes;
                    self.state.bytes.fetch_add(bytes as u64, Relaxed);
                    stream.handed_over(self.sent, self.clock.ns());
                }
                None => self.socket.wait(GLANCE)?,
            }
        }
    }

    /// Waits because nothing is due, or ends.
    fn pause(&mut self, next: &FillResult) -> Result<(), EndReason> {
        match next {
            FillResult::Send => Ok(()),
            FillResult::At(due_ns) => {
                self.socket.flush()?;
                let ping = self.next_ping.map_or(GLANCE, |at| at.saturating_duration_since(Instant::now()));
                let patience = Duration::from_nanos(due_ns.saturating_sub(self.clock.ns())).min(GLANCE).min(ping);
                Ok(self.socket.wait_for_input(patience)?)
            }
            // Sends what TLS still holds.
            FillResult::Disconnect | FillResult::End if !self.socket.flush()? => Ok(self.socket.wait(GLANCE)?),
            FillResult::Disconnect => Err(EndReason::Disconnect),
            FillResult::End => Err(EndReason::Finished),
            FillResult::Failed(reason) => Err(EndReason::Failed(reason.clone())),
        }
    }

    /// Adds a ping when one is due, between two fragments if there are any.
    fn ping(&mut self, stream: &mut TapeStream) {
        let (Some(every), Some(at)) = (self.state.protocol.ping_every, self.next_ping) else { return };
        if at > Instant::now() {
            return;
        }
        self.next_ping = Some(Instant::now() + every);
        // Bodies of 0 to 26 bytes in turn.
        let body = &b"abcdefghijklmnopqrstuvwxyz"[..usize::try_from(self.pings % 27).unwrap_or(0)];
        self.pings += 1;
        self.state.pings.fetch_add(1, Relaxed);
        let place = if stream.is_fragmenting() { &mut stream.between } else { &mut self.out };
        write_frame(place, Opcode::Ping, body);
    }

    /// Reads what the reader sent.
    fn handle_input(&mut self, stream: &mut TapeStream) -> Result<(), EndReason> {
        let is_open = self.receive()?;
        let mut texts = Vec::new();
        self.decode(&mut texts)?;
        for text in texts {
            if let Some(answer) = stream.answer(&text) {
                write_frame(&mut self.replies, Opcode::Text, &answer);
            }
        }
        // Bounds the memory for answers to a reader that does not read them.
        if self.replies.len() > 256 * 1024 {
            return Err(EndReason::Violation(CloseCode::Policy, "answers are asked for and not read".into()));
        }
        if is_open { Ok(()) } else { Err(EndReason::Gone) }
    }

    /// Decodes the received bytes. Returns the text messages.
    fn decode(&mut self, texts: &mut Vec<String>) -> Result<(), EndReason> {
        loop {
            let (used, message) = match self.decoder.decode(&self.incoming) {
                Ok(decoded) => decoded,
                Err(error) => return Err(EndReason::Violation(error.code, error.reason.to_owned())),
            };
            match message {
                Some(IncomingMessage::Text(text)) => texts.push(text.to_owned()),
                Some(IncomingMessage::Ping(body)) => write_frame(&mut self.replies, Opcode::Pong, body),
                Some(IncomingMessage::Close(_)) => return Err(EndReason::Closed),
                Some(IncomingMessage::Binary(_) | IncomingMessage::Pong) | None => {}
            }
            if used == 0 {
                return Ok(());
            }
            self.incoming.drain(..used);
        }
    }

    /// Reads from the socket. Returns false at the end.
    fn receive(&mut self) -> io::Result<bool> {
        self.socket.read(&mut self.incoming)
    }

    /// Sends the provider's greeting and waits for a key and a subscription.
    fn log_in(&mut self) -> Result<(), EndReason> {
        let deadline = Instant::now() + LOGIN_PATIENCE;
        self.status("connected", "Connected Successfully")?;
        while self.login != LoginState::Done {
            let mut texts = Vec::new();
            self.decode(&mut texts)?;
            for text in texts {
                self.order(&text)?;
            }
            let replies = std::mem::take(&mut self.replies);
            self.push(&replies, HANDSHAKE_PATIENCE)?;
            if self.login == LoginState::Done {
                break;
            }
            if self.state.stop.load(Relaxed) {
                return Err(EndReason::Stopped);
            }
            if Instant::now() >= deadline {
                return Err(EndReason::Violation(CloseCode::Policy, "no auth and subscribe within 30 seconds".into()));
            }
            self.socket.wait_for_input(GLANCE)?;
            if !self.receive()? {
                return Err(EndReason::Gone);
            }
        }
        Ok(())
    }

    /// Handles `{"action":"auth","params":KEY}` or `{"action":"subscribe","params":"T.*"}`.
    fn order(&mut self, text: &str) -> Result<(), EndReason> {
        let order: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let (action, params) = (order["action"].as_str(), order["params"].as_str().unwrap_or_default());
        match (action, self.login) {
            (Some("auth"), _) if self.state.protocol.auth.as_deref().is_some_and(|key| key != params) => {
                self.status("auth_failed", "authentication failed")?;
                Err(EndReason::Violation(CloseCode::Policy, "authentication failed".into()))
            }
            (Some("auth"), _) => {
                self.login = LoginState::WaitsForSubscription;
                self.status("auth_success", "authenticated")
            }
            (Some("subscribe"), LoginState::WaitsForAuth) => self.status("auth_required", "send auth first"),
            (Some("subscribe"), _) if params.split(',').any(|topic| topic.trim() == "T.*") => {
                self.login = LoginState::Done;
                self.status("success", "subscribed to: T.*")
            }
            (Some("subscribe"), _) => self.status("error", "this feed has all trades or nothing: subscribe to T.*"),
            _ => self.status("error", "unknown action: send auth, then subscribe"),
        }
    }

    fn status(&mut self, status: &str, message: &str) -> Result<(), EndReason> {
        let mut frame = Vec::new();
        let text = format!("[{{\"ev\":\"status\",\"status\":\"{status}\",\"message\":\"{message}\"}}]");
        write_frame(&mut frame, Opcode::Text, text.as_bytes());
        Ok(self.push(&frame, HANDSHAKE_PATIENCE)?)
    }

    /// Sends all of `bytes` within `patience`.
    fn push(&mut self, bytes: &[u8], patience: Duration) -> io::Result<()> {
        self.push_some(bytes, patience, &mut 0)
    }

    /// Like [`Self::push`], but `sent` counts the bytes handed over, even if the rest fails.
    fn push_some(&mut self, bytes: &[u8], patience: Duration, sent: &mut usize) -> io::Result<()> {
        let deadline = Instant::now() + patience;
        while *sent < bytes.len() || !self.socket.flush()? {
            match if *sent < bytes.len() { self.socket.write(&bytes[*sent..])? } else { None } {
                Some(more) => *sent += more,
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    self.socket.wait(left.min(GLANCE))?;
                }
            }
        }
        Ok(())
    }

    /// Ends the connection in the way that the reason requires, and returns the unsent part to
    /// the stream.
    fn end(mut self, over: EndReason, stream: &mut TapeStream) {
        let (code, reason) = match &over {
            EndReason::Disconnect => match self.state.protocol.disconnect {
                Disconnect::Close => (CloseCode::GoingAway, "come back: the stream goes on"),
                how @ (Disconnect::Cut | Disconnect::Reset) => return self.cut(how, stream),
            },
            EndReason::Gone => {
                self.take_back(stream, self.sent);
                self.state.broken.fetch_add(1, Relaxed);
                return;
            }
            EndReason::Finished => (CloseCode::Normal, "the end"),
            EndReason::Closed => (CloseCode::Normal, ""),
            EndReason::Stopped => (CloseCode::GoingAway, "the server ends"),
            EndReason::Violation(code, reason) => {
                self.state.violations.fetch_add(1, Relaxed);
                (*code, reason.as_str())
            }
            EndReason::Failed(reason) => (CloseCode::GoingAway, reason.as_str()),
        };
        // A close frame cannot be inside another frame, so the current frame is completed first.
        let end = frame_end(&self.out, self.sent);
        let rest = self.out[self.sent..end].to_vec();
        let mut more = 0;
        let whole = self.push_some(&rest, LINGER, &mut more).is_ok();
        self.take_back(stream, self.sent + more);
        if whole {
            let mut frame = Vec::new();
            write_close(&mut frame, code, reason);
            // The reader may be gone, so an error here is ignored.
            let _ = self.push(&frame, LINGER);
        }
        if let EndReason::Failed(reason) = over {
            self.state.fail(reason);
        } else if matches!(over, EndReason::Finished) {
            self.state.finished();
        } else if matches!(over, EndReason::Disconnect) {
            self.state.disconnects.fetch_add(1, Relaxed);
        }
        self.linger();
    }

    /// Returns everything of the stream behind the first `sent` bytes of `out` to the stream, for
    /// the next connection.
    fn take_back(&self, stream: &mut TapeStream, sent: usize) {
        stream.broken(&self.out[self.stream_from..], sent.saturating_sub(self.stream_from));
    }

    /// Ends the connection in the middle of a frame, as networks do: with an end, or with a reset
    /// that drops data in flight.
    fn cut(mut self, how: Disconnect, stream: &mut TapeStream) {
        self.state.disconnects.fetch_add(1, Relaxed);
        stream.connected("", 0);
        self.out.clear();
        self.stream_from = 0;
        while !self.state.stop.load(Relaxed) {
            let next = stream.fill(self.clock.moment(), &mut self.out);
            match next {
                FillResult::At(due_ns) if self.out.is_empty() => {
                    std::thread::sleep(Duration::from_nanos(due_ns.saturating_sub(self.clock.ns())).min(GLANCE));
                }
                _ => break,
            }
        }
        let first = frame_end(&self.out, 1);
        let half = self.out[..first / 2].to_vec();
        let mut sent = 0;
        // If the reader does not take it, the connection ends there.
        let _ = self.push_some(&half, LINGER, &mut sent);
        self.take_back(stream, sent);
        if how == Disconnect::Reset {
            // If that fails, the connection ends in the usual way.
            let _ = self.socket.reset();
        } else {
            self.linger();
        }
    }

    /// Shuts down sending and reads until the reader ends, so that a reset cannot drop data in
    /// flight.
    fn linger(&mut self) {
        self.socket.finish();
        let deadline = Instant::now() + LINGER;
        while Instant::now() < deadline {
            self.incoming.clear();
            let is_open = self.receive().unwrap_or(false);
            if !is_open || self.socket.wait_for_input(GLANCE).is_err() {
                return;
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn wall_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos)
}
