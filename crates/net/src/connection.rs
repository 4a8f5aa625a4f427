//! One connection: what came in over it, what waits to go out, and how it ends.
//!
//! Does        reads, has the application act on every complete request or message, and writes.
//! Holds       1. the input is at most one unfinished request or message and one read; while the
//!                outbox is full, or complete input is left over, nothing more is read;
//!             2. the outbox holds at most 256 KiB and one answer above that in answers,
//!                and 1 MiB and one turn's worth of notices;
//!             3. a connection whose requests take long acts on one at a time, and counts as busy;
//!             4. a turn writes at most 128 KiB to a connection, and the rest in the next turns;
//!             5. an answer that the peer does not read ends the connection;
//!             6. requests that were acted on are answered before the connection ends, also when
//!                the peer ended it.
//! Leaves out  the order of the turns, and the commit between acting and writing.
//! Start at    [`Connection::read_and_act`], [`Connection::flush`].

mod input;
mod outbox;

use std::borrow::Cow;
use std::net::{IpAddr, TcpStream};

use pitwire_websocket::{CloseCode, Decoder, IncomingMessage, Opcode, write_close, write_frame};
use tracing::debug;

use crate::application::{Application, CloseReason, Refusal};
use crate::connection::input::{Backlog, Input, SHARE_NS};
use crate::connection::outbox::{OUTBOX_BYTES, Outbox, PUMP_BYTES, WRITE_BYTES};
use crate::connection_id::ConnectionId;
use crate::context::{TurnContext, TurnTimes};
use crate::event_loop::{EventLoop, SendOutcome};
use crate::handoff::Handoff;
use crate::http::{self, HttpParseResult, HttpRequest, HttpResponse};
use crate::limits::Limits;
use crate::notices::{NoticeKind, Notices};
use crate::origin::{PageOrigin, UnknownHost};
use crate::outbox_budget::OutboxMeter;
use crate::quota::ConnectionPermit;
use crate::stream::{Receipt, Stream};

pub(crate) use crate::connection::input::READ_BYTES;

/// Most requests or frames of one connection in one turn, however long the turn.
const FRAMES_PER_TURN: usize = 128;
/// How long a connection that we ended waits for the end of its peer, in nanoseconds.
const LINGER_NS: u64 = 2_000_000_000;

enum Protocol {
    Http,
    WebSocket(Box<Decoder>),
    /// The application finds the messages in the bytes.
    Stream,
}

/// How far a connection has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionStage {
    Open,
    /// Its last bytes are in the outbox. Times out when the peer takes none since `since`.
    Closing {
        since: u64,
    },
    /// Everything is written, and the peer knows it. Later input is thrown away: closing
    /// a socket with unread input makes the kernel drop undelivered output.
    Lingering {
        since: u64,
    },
    /// The application has the socket now.
    HandedOff,
    Gone,
}

/// Which limit a connection counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionClass {
    /// One of the connections that its address may have.
    Counted(IpAddr),
    /// One more than its address may have. It may ask once for the state of the server.
    Extra,
    /// It gets the response that there are too many connections, and ends.
    Refused,
    /// A byte stream. The application limits their number.
    Stream,
    /// A byte stream that the application has opened.
    Outgoing,
}

/// Where a connection stands in the list of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ListState {
    #[default]
    Unlisted,
    /// On the list of this turn or the next, or waiting for a place on it.
    Listed,
    /// On the list, and served in this turn.
    Served,
}

/// Which operations the socket allows, as the loop has reported.
struct Readiness {
    readable: bool,
    writable: bool,
    /// Something was reported since the connection was last written to.
    is_reported: bool,
}

/// Work of a connection in this turn.
#[derive(Default)]
struct TurnShare {
    /// Requests or frames acted on.
    frames: usize,
    /// Bytes of answers, which are still in the notices.
    answer_bytes: usize,
    /// Requests whose answers have not been written.
    answers: u32,
    /// When the last read returned.
    read_ns: u64,
}

/// See the module.
pub(crate) struct Connection {
    pub id: ConnectionId,
    pub stream: Stream,
    pub list_state: ListState,
    pub standing: AdmissionClass,
    /// Its place among all connections.
    _permit: Option<ConnectionPermit>,
    protocol: Protocol,
    stage: ConnectionStage,
    input: Input,
    outbox: Outbox,
    readiness: Readiness,
    share: TurnShare,
    /// When input last arrived.
    received_ns: u64,
    /// Since when the peer has owed us the rest of a request, handshake or message.
    unfinished_since: Option<u64>,
}

/// Whether a connection was handed off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandoffOutcome {
    Done,
    NotYet,
    Refused,
}

/// Result of acting on the front of the input.
struct Progress {
    bytes: usize,
    /// It completed a request or a message, and not only a part of one.
    is_whole: bool,
}

impl Connection {
    /// Makes a connection whose handshake or first request has not arrived.
    pub fn new(
        id: ConnectionId,
        stream: Stream,
        standing: AdmissionClass,
        permit: Option<ConnectionPermit>,
        meter: OutboxMeter,
        now: u64,
    ) -> Self {
        Connection {
            id,
            stream,
            list_state: ListState::Unlisted,
            standing,
            _permit: permit,
            protocol: Protocol::Http,
            stage: ConnectionStage::Open,
            input: Input::default(),
            outbox: Outbox::new(meter),
            readiness: Readiness { readable: true, writable: true, is_reported: false },
            share: TurnShare { read_ns: now, ..TurnShare::default() },
            received_ns: now,
            unfinished_since: Some(now),
        }
    }

    /// Makes it the connection of a byte stream, accepted or outgoing.
    pub fn into_byte_stream(self) -> Self {
        // The application decides how long a client may be silent.
        Connection { protocol: Protocol::Stream, unfinished_since: None, ..self }
    }

    /// Adds plain bytes that arrived before the connection was made.
    pub fn push_input(&mut self, bytes: &[u8]) {
        self.input.bytes.extend_from_slice(bytes);
        if !self.input.bytes.is_empty() {
            self.input.backlog = Backlog::LeftOver;
        }
    }

    /// Gives the connection a response and ends it.
    pub fn refuse(&mut self, response: &HttpResponse, now: u64) {
        self.outbox.append(|out| response.write(out, false, false));
        self.stage = ConnectionStage::Closing { since: now };
    }

    /// Returns the address against whose limit the connection counts.
    pub fn counted_address(&self) -> Option<IpAddr> {
        match self.standing {
            AdmissionClass::Counted(address) => Some(address),
            AdmissionClass::Extra | AdmissionClass::Refused | AdmissionClass::Stream | AdmissionClass::Outgoing => None,
        }
    }

    fn is_websocket(&self) -> bool {
        matches!(self.protocol, Protocol::WebSocket(_))
    }

    /// Says whether the application knows the connection: it is a WebSocket or a byte stream.
    pub fn has_session(&self) -> bool {
        !matches!(self.protocol, Protocol::Http)
    }

    /// Says whether the connection asks more than fits into a turn.
    pub fn is_busy(&self) -> bool {
        self.input.is_busy()
    }

    /// Says whether it is busy, or its payer sends slow requests, perhaps over many connections.
    pub fn comes_last(&self) -> bool {
        self.is_busy() || self.outbox.meter.is_slow()
    }

    /// Makes everything that waits leave in the next turn.
    pub fn hold_back(&mut self) {
        // It waits in the outbox or with the application, and the next turn counts anew.
        (self.share.frames, self.share.answer_bytes) = (0, 0);
        self.outbox.is_held_back = true;
    }

    /// Says whether a turn has left something that the next one has to write.
    pub fn is_held_back(&self) -> bool {
        self.outbox.is_held_back
    }

    /// Says whether something was acted on in this turn, so that the peer waits for an answer.
    pub fn has_asked(&self) -> bool {
        self.share.frames > 0
    }

    /// Returns true if the next turn would handle new input, and the client is not flooding. A
    /// single slow request is not a flood: the machine may have been busy.
    pub fn may_ask(&self) -> bool {
        let is_free = !self.input.has_many_requests() && !self.input.awaits_response();
        self.stage == ConnectionStage::Open && is_free && self.has_room()
    }

    /// Says whether something was acted on in this turn and nothing is left over.
    pub fn is_done_with_little(&self) -> bool {
        self.share.frames > 0 && !self.comes_last()
    }

    /// Says whether there is more to act on in this turn, without reading.
    pub fn can_go_on(&self) -> bool {
        self.stage == ConnectionStage::Open
            && self.input.has_left_over()
            && self.share.frames < FRAMES_PER_TURN
            && self.has_room()
    }

    /// Says whether the server can forget the connection.
    pub fn is_gone(&self) -> bool {
        matches!(self.stage, ConnectionStage::Gone | ConnectionStage::HandedOff)
    }

    pub fn is_handed_off(&self) -> bool {
        self.stage == ConnectionStage::HandedOff
    }

    /// Says whether nothing more will be written.
    pub fn is_finished(&self) -> bool {
        matches!(self.stage, ConnectionStage::Lingering { .. }) || self.is_gone()
    }

    /// Says whether the connection can go on without waiting for the socket.
    pub fn wants_turn(&self) -> bool {
        self.outbox.is_held_back || self.readiness.is_reported || self.can_act()
    }

    /// Says whether there may be something to read or to act on.
    pub fn can_act(&self) -> bool {
        match self.stage {
            ConnectionStage::Open => {
                let may_act = self.has_room() && !self.input.awaits_response();
                may_act && (self.input.has_left_over() || self.readiness.readable)
            }
            ConnectionStage::Lingering { .. } => self.readiness.readable,
            ConnectionStage::Closing { .. } | ConnectionStage::HandedOff | ConnectionStage::Gone => false,
        }
    }

    fn has_room(&self) -> bool {
        // A server may read our requests only while we read its answers.
        if self.standing == AdmissionClass::Outgoing {
            return true;
        }
        self.outbox.pending() + self.share.answer_bytes < OUTBOX_BYTES && self.outbox.meter.has_room()
    }

    /// Says whether the application knows that the outbox has no room.
    pub fn is_full(&self) -> bool {
        self.outbox.is_full
    }

    /// The count of its unread bytes.
    pub fn meter(&mut self) -> &mut OutboxMeter {
        &mut self.outbox.meter
    }

    /// Ends the connection without a close frame, because its peer does not read.
    pub fn abandon(&mut self) {
        debug!(id = ?self.id, "closed a connection that does not read its answers");
        self.stage = ConnectionStage::Gone;
    }

    /// Notes that the socket may have input, or has ended.
    pub fn note_readable(&mut self) {
        (self.readiness.readable, self.readiness.is_reported) = (true, true);
    }

    /// Notes that the socket takes more.
    pub fn note_writable(&mut self) {
        (self.readiness.writable, self.readiness.is_reported) = (true, true);
    }

    /// Acts on some of what this connection has asked; others come before the rest.
    pub fn read_and_act<A: Application>(&mut self, turn: &mut TurnContext<'_, A>) {
        match self.stage {
            ConnectionStage::Open if self.has_room() && !self.input.awaits_response() => {
                if self.readiness.readable && !self.input.has_left_over() {
                    self.read(turn);
                }
                if self.stage == ConnectionStage::Open {
                    self.act(turn);
                }
            }
            ConnectionStage::Lingering { .. } if self.readiness.readable => {
                self.read(turn);
                self.input.bytes.clear();
                if self.input.is_at_end {
                    self.stage = ConnectionStage::Gone;
                }
            }
            _ => {}
        }
    }

    fn read<A>(&mut self, turn: &mut TurnContext<'_, A>) {
        self.discard_used();
        let mut taken = 0;
        while taken < READ_BYTES {
            let input = &mut self.input.bytes;
            match self.stream.receive(turn.net, &mut |bytes| input.extend_from_slice(bytes)) {
                Receipt::Bytes(bytes) => {
                    self.share.read_ns = turn.clock.monotonic_ns();
                    self.received_ns = turn.now;
                    turn.had_input = true;
                    taken += bytes;
                }
                Receipt::Pending => {
                    self.readiness.readable = false;
                    return;
                }
                Receipt::Ended => {
                    (self.readiness.readable, self.input.is_at_end) = (false, true);
                    return;
                }
                Receipt::Failed => {
                    self.stage = ConnectionStage::Gone;
                    return;
                }
            }
        }
    }

    /// Acts on complete requests in the input, while there is room for the answers and it is
    /// this connection's turn.
    fn act<A: Application>(&mut self, turn: &mut TurnContext<'_, A>) {
        let share = self.input.share();
        self.input.backlog = Backlog::None;
        if self.input.used < self.input.bytes.len() {
            let bytes = std::mem::take(&mut self.input.bytes);
            self.input.used += self.act_on(&bytes[self.input.used..], share, turn);
            self.input.bytes = bytes;
            if !self.input.has_left_over() {
                self.discard_used();
            }
        }
        if self.input.is_at_end && self.input.backlog == Backlog::None {
            turn.notices.end(self.id);
        }
    }

    /// Acts on at most `share` requests or frames and returns how many bytes they took.
    fn act_on<A: Application>(&mut self, bytes: &[u8], share: usize, turn: &mut TurnContext<'_, A>) -> usize {
        let (mut used, mut frames, mut completed) = (0, 0, false);
        let began_ns = turn.clock.monotonic_ns();
        let mut spent_ns = 0;
        while used < bytes.len() && !self.input.awaits_response() && !self.is_gone() && !turn.notices.is_ending(self.id)
        {
            if frames == share || spent_ns >= SHARE_NS || !self.has_room() {
                self.input.backlog = Backlog::LeftOver;
                break;
            }
            let bytes_before = turn.notices.bytes();
            let progress = match self.protocol {
                Protocol::Http => self.act_on_http(&bytes[used..], turn),
                Protocol::WebSocket(_) => self.act_on_websocket(&bytes[used..], turn),
                Protocol::Stream => self.act_on_stream(&bytes[used..], turn),
            };
            self.share.answer_bytes += turn.notices.bytes() - bytes_before;
            let Some(Progress { bytes, is_whole }) = progress else { break };
            used += bytes;
            frames += 1;
            completed |= is_whole;
            spent_ns = turn.clock.monotonic_ns() - began_ns;
        }
        self.share.frames += frames;
        self.input.note_acted_on(frames, spent_ns);
        if spent_ns >= SHARE_NS {
            self.outbox.meter.note_slow_request();
        }
        if turn.notices.is_ending(self.id) || self.is_gone() {
            self.input.backlog = Backlog::None;
            return bytes.len();
        }
        let unfinished = matches!(&self.protocol, Protocol::WebSocket(decoder) if decoder.is_unfinished());
        let owes = self.input.backlog == Backlog::None
            && (used < bytes.len() || unfinished)
            && !matches!(self.protocol, Protocol::Stream);
        let since = self.unfinished_since.filter(|_| !completed);
        self.unfinished_since = owes.then(|| since.unwrap_or(turn.now));
        used
    }

    fn discard_used(&mut self) {
        self.input.discard_used();
        if let Protocol::WebSocket(decoder) = &mut self.protocol {
            decoder.forget();
        }
    }

    fn act_on_http<A: Application>(&mut self, bytes: &[u8], turn: &mut TurnContext<'_, A>) -> Option<Progress> {
        let (mut request, used) = match http::parse(bytes) {
            HttpParseResult::NeedMore => return None,
            HttpParseResult::Refuse(response) => {
                self.answer_last(&response, false, turn.notices);
                return None;
            }
            HttpParseResult::Request { request, bytes } => (request, bytes),
        };
        (request.from, request.connection) = (self.counted_address(), self.id);
        let done = Some(Progress { bytes: used, is_whole: true });
        if self.standing == AdmissionClass::Extra {
            request.keep_alive = false;
            if request.is_upgrade() || !turn.app.answers_anybody(&request) {
                let response = turn.app.refusal(Refusal::TooManyConnections);
                self.answer_last(&response, request.method == "HEAD", turn.notices);
                return done;
            }
        }
        let judged = match turn.origins.judge_over(&request.headers, self.stream.is_secure()) {
            Ok(origin) => {
                request.is_foreign = origin == PageOrigin::Foreign;
                Ok(())
            }
            Err(UnknownHost) => Err(turn.app.refusal(Refusal::UnknownHost)),
        };
        if request.is_upgrade() && turn.app.takes_over(&request) {
            let judged = refuse_foreign_page(judged, request.is_foreign, turn.app);
            if let Err(response) = judged.and_then(|()| self.hand_over_handshake(&request, &bytes[used..], turn)) {
                self.answer_last(&response, false, turn.notices);
            }
        } else if request.is_upgrade() && turn.app.accepts_websocket(request.path()) {
            let judged = refuse_foreign_page(judged, request.is_foreign, turn.app);
            let judged = judged.and_then(|()| turn.app.refuses_handshake(&request).map_or(Ok(()), Err));
            match judged.and_then(|()| request.upgrade_response()) {
                Ok(response) => self.open_websocket(&request, &response, turn),
                Err(response) => self.answer_last(&response, false, turn.notices),
            }
        } else {
            self.answer_request(judged, &request, turn);
        }
        done
    }

    /// Answers a plain request, or notes that the application answers later.
    fn answer_request<A: Application>(
        &mut self,
        judged: Result<(), HttpResponse>,
        request: &HttpRequest<'_>,
        turn: &mut TurnContext<'_, A>,
    ) {
        let response = match judged {
            Ok(()) => turn.app.request(request, turn.notices),
            Err(response) => response,
        };
        if response.is_later() {
            self.input.backlog = Backlog::AwaitsResponse;
            return;
        }
        let (keep_alive, head_only) = (request.keep_alive, request.method == "HEAD");
        turn.notices.answer(self.id, |out| response.write(out, keep_alive, head_only));
        if !keep_alive {
            turn.notices.end(self.id);
        }
    }

    /// Answers and ends the connection.
    fn answer_last(&self, response: &HttpResponse, head_only: bool, notices: &mut Notices) {
        notices.answer(self.id, |out| response.write(out, false, head_only));
        notices.end(self.id);
    }

    fn open_websocket<A: Application>(
        &mut self,
        request: &HttpRequest<'_>,
        response: &[u8],
        turn: &mut TurnContext<'_, A>,
    ) {
        turn.notices.answer(self.id, |out| out.extend_from_slice(response));
        self.protocol = Protocol::WebSocket(Box::new(Decoder::new(turn.limits.messages)));
        turn.app.connected(self.id, self.counted_address());
        turn.app.opened(self.id, request.target, turn.notices);
    }

    /// Gives the socket of a handshake to the application, with the answer that has to be sent.
    /// `rest` are the bytes received behind the request.
    fn hand_over_handshake<A: Application>(
        &mut self,
        request: &HttpRequest<'_>,
        rest: &[u8],
        turn: &mut TurnContext<'_, A>,
    ) -> Result<(), HttpResponse> {
        let handshake = request.upgrade_response()?;
        // Answers to earlier requests would have to leave first. No client sends a handshake so.
        let is_quiet = self.outbox.pending() == 0 && self.share.answer_bytes == 0 && self.stream.is_flushed();
        let taken = if is_quiet { self.take_socket(rest, turn.net) } else { None };
        let taken = taken.ok_or_else(|| HttpResponse::text(503, "connect again, and send nothing before"))?;
        let mut taken = Some(Handoff { handshake, ..taken });
        let answer = turn.app.take_over(request, &mut taken);
        match &answer {
            Ok(()) => self.stage = ConnectionStage::Gone,
            Err(_) => self.stream.restore_session(taken.and_then(|taken| taken.session)),
        }
        answer
    }

    /// Duplicates the socket for the application. `rest` are received bytes not acted on.
    fn take_socket(&mut self, rest: &[u8], net: &mut dyn EventLoop) -> Option<Handoff> {
        let detached = net.duplicate(self.stream.token()).ok()?;
        let mut rest = rest.to_vec();
        // An error of the session shows again when the peer sends more.
        let _ = self.stream.open(detached.received, &mut |bytes| rest.extend_from_slice(bytes));
        let session = self.stream.take_session();
        Some(Handoff { socket: TcpStream::from(detached.socket), session, handshake: Vec::new(), rest })
    }

    fn act_on_websocket<A: Application>(&mut self, bytes: &[u8], turn: &mut TurnContext<'_, A>) -> Option<Progress> {
        let TurnContext { app, notices, .. } = turn;
        let Protocol::WebSocket(decoder) = &mut self.protocol else { return None };
        let (used, incoming) = match decoder.decode(bytes) {
            Ok((0, _)) => return None,
            Ok(decoded) => decoded,
            Err(error) => {
                notices.close(self.id, error.code, error.reason);
                return None;
            }
        };
        let is_control = !matches!(incoming, None | Some(IncomingMessage::Text(_) | IncomingMessage::Binary(_)));
        let is_message = matches!(incoming, Some(IncomingMessage::Text(_) | IncomingMessage::Binary(_)));
        match incoming {
            None | Some(IncomingMessage::Pong) => {}
            Some(IncomingMessage::Text(text)) => {
                self.share.answers += 1;
                app.text(self.id, text, notices);
                if notices.take_put_off(self.id) {
                    self.input.backlog = Backlog::AwaitsResponse;
                }
            }
            Some(IncomingMessage::Ping(body)) => notices.answer(self.id, |out| write_frame(out, Opcode::Pong, body)),
            Some(IncomingMessage::Binary(bytes)) => app.binary(self.id, bytes, notices),
            Some(IncomingMessage::Close(code)) => notices.echo_close(self.id, code),
        }
        // Pings in between do not finish a fragmented message.
        let is_whole = is_message || (is_control && !decoder.is_mid_message());
        Some(Progress { bytes: used, is_whole })
    }

    fn act_on_stream<A: Application>(&mut self, bytes: &[u8], turn: &mut TurnContext<'_, A>) -> Option<Progress> {
        let TurnContext { app, notices, .. } = turn;
        let used = app.stream_message(self.id, bytes, notices)?;
        self.share.answers += 1;
        if notices.take_put_off(self.id) {
            self.input.backlog = Backlog::AwaitsResponse;
        }
        Some(Progress { bytes: used.min(bytes.len()), is_whole: true })
    }

    /// Hands an open WebSocket to the application, if it stands between messages and everything
    /// that was sent to it is written.
    pub fn hand_off<A: Application>(&mut self, app: &mut A, net: &mut dyn EventLoop) -> HandoffOutcome {
        let Protocol::WebSocket(decoder) = &self.protocol else { return HandoffOutcome::Refused };
        if self.stage != ConnectionStage::Open || self.input.is_at_end {
            return HandoffOutcome::Refused;
        }
        if self.outbox.pending() > 0 || !self.stream.is_flushed() || decoder.is_unfinished() {
            return HandoffOutcome::NotYet;
        }
        if !app.may_leave(self.id) {
            return HandoffOutcome::Refused;
        }
        let rest = self.input.rest().to_vec();
        let Some(taken) = self.take_socket(&rest, net) else { return HandoffOutcome::NotYet };
        self.stage = ConnectionStage::HandedOff;
        app.take_open(self.id, taken);
        HandoffOutcome::Done
    }

    /// Queues an answer or a notice for this connection, after the commit.
    pub fn take(&mut self, kind: NoticeKind, bytes: Cow<'_, [u8]>, now: u64) {
        if self.stage != ConnectionStage::Open {
            return;
        }
        self.outbox.compact();
        match kind {
            NoticeKind::Answer => self.outbox.push_answer(bytes, now),
            NoticeKind::LateResponse => {
                self.outbox.push_answer(bytes, now);
                self.end_put_off();
            }
            // A notice that is newer than an answer waits until the answer is sent. A byte stream
            // needs no wait: its numbered messages leave in order.
            NoticeKind::Notice if self.input.awaits_response() && self.is_websocket() => {
                self.outbox.defer_notice(&bytes);
            }
            NoticeKind::Notice => self.outbox.push_notice(&bytes),
            NoticeKind::End => {
                if self.is_websocket() {
                    self.outbox.append(|out| out.extend_from_slice(&bytes));
                }
                self.stage = ConnectionStage::Closing { since: now };
            }
        }
        self.outbox.settle();
    }

    fn end_put_off(&mut self) {
        // What came behind the request, if only the end of the peer, is next.
        let has_rest = !self.input.rest().is_empty() || self.input.is_at_end;
        self.input.backlog = if has_rest { Backlog::LeftOver } else { Backlog::None };
        self.outbox.release_notices();
    }

    /// Writes the outbox, then the frames that the application publishes, until the socket
    /// takes no more or has taken the share of the turn. Returns how many bytes it took.
    pub fn flush(&mut self, app: &mut impl Application, net: &mut dyn EventLoop, times: &TurnTimes<'_>) -> usize {
        let now = times.now;
        let mut taken = 0;
        (self.share.frames, self.share.answer_bytes) = (0, 0);
        (self.outbox.is_held_back, self.readiness.is_reported) = (false, false);
        let mut answers = std::mem::take(&mut self.share.answers);
        while self.readiness.writable && !self.is_finished() {
            match self.stream.flush(net) {
                SendOutcome::Bytes(_) => {}
                SendOutcome::Blocked => {
                    self.readiness.writable = false;
                    break;
                }
                SendOutcome::Failed => {
                    self.stage = ConnectionStage::Gone;
                    break;
                }
            }
            if taken >= WRITE_BYTES {
                self.outbox.is_held_back = true;
                break;
            }
            if !self.refill(app, net, now) {
                break;
            }
            let sent_ns = if answers > 0 { times.clock.monotonic_ns() } else { 0 };
            let front = self.outbox.front(WRITE_BYTES - taken);
            let sent = self.stream.send(net, if front[1].is_empty() { &front[..1] } else { &front });
            if answers > 0 {
                app.answered(&times.server_latency(std::mem::take(&mut answers), self.share.read_ns, sent_ns));
            }
            match sent {
                SendOutcome::Bytes(0) | SendOutcome::Failed => self.stage = ConnectionStage::Gone,
                SendOutcome::Bytes(bytes) => {
                    taken += bytes;
                    self.outbox.note_written(bytes, now);
                    if let ConnectionStage::Closing { since } = &mut self.stage {
                        *since = now;
                    }
                }
                SendOutcome::Blocked => self.readiness.writable = false,
            }
        }
        // The peer cannot read bytes that this turn holds back.
        if self.outbox.is_unread() && !self.outbox.is_held_back {
            debug!(id = ?self.id, "closed a connection that does not read its notices");
            self.close(CloseCode::TryAgainLater, "too slow: notices are not being read", now);
        }
        self.outbox.settle();
        if let Some(has_room) = self.outbox.room_change() {
            app.outbox_changed(self.id, has_room);
        }
        taken
    }

    /// Adds the frames that the application publishes behind unsent answers, so that one write
    /// sends both. Returns false if there is nothing to write.
    fn refill(&mut self, app: &mut impl Application, net: &mut dyn EventLoop, now: u64) -> bool {
        if self.outbox.pending() == 0 {
            self.outbox.reset();
            if let ConnectionStage::Closing { .. } = self.stage {
                self.stream.end(net);
                let lingering = ConnectionStage::Lingering { since: now };
                self.stage = if self.input.is_at_end { ConnectionStage::Gone } else { lingering };
                return false;
            }
        }
        if self.stage == ConnectionStage::Open
            && self.is_websocket()
            && !self.input.awaits_response()
            && let Some(bytes) = self.outbox.unsent_bytes()
            && let Err(CloseReason { code, reason }) = app.pump(self.id, bytes, PUMP_BYTES)
        {
            self.close(code, &reason, now);
        }
        self.outbox.pending() > 0
    }

    fn close(&mut self, code: CloseCode, reason: &str, now: u64) {
        if self.stage == ConnectionStage::Open {
            if self.is_websocket() {
                self.outbox.append(|out| write_close(out, code, reason));
            }
            self.stage = ConnectionStage::Closing { since: now };
        }
    }

    /// Ends a connection that has been silent or unfinished for too long.
    pub fn check_timeouts(&mut self, notices: &mut Notices, limits: &Limits, now: u64) {
        if self.outbox.answer_unread_since().is_some_and(|since| now > since + limits.unread_ns) {
            return self.abandon();
        }
        match self.stage {
            ConnectionStage::Open => {}
            ConnectionStage::Closing { since } if now <= since + limits.unfinished_ns => return,
            ConnectionStage::Lingering { since } if now <= since + LINGER_NS => return,
            ConnectionStage::HandedOff => return,
            _ => {
                self.stage = ConnectionStage::Gone;
                return;
            }
        }
        let is_queued = self.list_state != ListState::Unlisted && self.readiness.readable && !self.has_session();
        if self.input.has_left_over() || !self.has_room() || is_queued {
            // We paused reading, so do not time this peer out: it may have sent the rest long ago.
            self.unfinished_since = self.unfinished_since.map(|_| now);
        }
        let idle = match self.protocol {
            Protocol::Http => limits.keep_alive_ns,
            Protocol::WebSocket(_) => limits.idle_ns,
            Protocol::Stream => return,
        };
        if self.unfinished_since.is_some_and(|since| now > since + limits.unfinished_ns) {
            let reason = format!("not finished within {} s", limits.unfinished_ns / 1_000_000_000);
            notices.close(self.id, CloseCode::Policy, reason);
        } else if now > self.received_ns + idle {
            notices.close(self.id, CloseCode::Policy, "nothing received for too long");
        }
    }
}

/// Refuses a handshake on behalf of a foreign page.
fn refuse_foreign_page<A: Application>(
    judged: Result<(), HttpResponse>,
    is_foreign: bool,
    app: &mut A,
) -> Result<(), HttpResponse> {
    judged.and_then(|()| if is_foreign { Err(app.refusal(Refusal::ForeignOrigin)) } else { Ok(()) })
}

#[cfg(test)]
mod tests;
