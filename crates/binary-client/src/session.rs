//! A session of binary order entry.
//!
//! Start at    [`OrderEntrySession::log_on`].

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use pitwire_failure::Failure;
use pitwire_sbe_gateway::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A book of both sides with all levels fits.
const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;
const HEARTBEAT_S: u16 = 5;
/// The gateway is silent for three heartbeats: the connection is lost.
const PATIENCE: Duration = Duration::from_secs(3 * HEARTBEAT_S as u64);
const RECONNECT_ATTEMPTS: usize = 50;
const RECONNECT_PAUSE: Duration = Duration::from_millis(200);
/// Code of a logout after a logon with a wrong secret.
const WRONG_CREDENTIALS: i32 = 13004;

/// Client id and secret of an account.
#[derive(Clone)]
pub struct Login {
    pub client_id: String,
    pub secret: String,
}

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "few events wait, and a box would hide the message from patterns")]
pub enum EntryEvent {
    /// A numbered message.
    Message(SbeMessage),
    /// Messages or reports are missing for good: query the orders.
    Lost,
}

/// Why the session does not go on with this connection.
enum Interruption {
    /// The connection failed or ended. Another one may work.
    Cut(String),
    Failed(Failure),
}

impl From<io::Error> for Interruption {
    fn from(error: io::Error) -> Self {
        Interruption::Cut(match error.kind() {
            io::ErrorKind::UnexpectedEof => "the gateway closed the connection".into(),
            io::ErrorKind::WouldBlock => format!("no message within {} s", PATIENCE.as_secs()),
            _ => error.to_string(),
        })
    }
}

/// A client that is logged on.
pub struct OrderEntrySession {
    address: SocketAddr,
    login: Login,
    stream: BufReader<TcpStream>,
    /// Kept for its memory.
    frame: Vec<u8>,
    /// Identifies the numbering of the messages. It changes when the venue starts again.
    epoch: Option<u64>,
    /// Number of the first message that this session does not have.
    next: u64,
    /// Messages that came after a missing one, by number.
    early: BTreeMap<u64, SbeMessage>,
    events: VecDeque<EntryEvent>,
    requests: u64,
    /// Requests without an answer, by request id.
    unanswered: BTreeMap<u64, SbeMessage>,
    /// After a reconnection, the number after the last missed message. Until then no request is
    /// sent.
    missed_end: Option<u64>,
}

impl OrderEntrySession {
    /// Connects and logs on.
    ///
    /// # Errors
    ///
    /// Fails if the gateway does not answer as expected, or if it refuses the logon.
    pub fn log_on(address: SocketAddr, login: Login) -> Result<OrderEntrySession, Failure> {
        let stream = open(address).map_err(|error| unreachable_gateway(address, &error.to_string()))?;
        let mut session = OrderEntrySession {
            address,
            login,
            stream,
            frame: Vec::new(),
            epoch: None,
            next: 0,
            early: BTreeMap::new(),
            events: VecDeque::new(),
            requests: 0,
            unanswered: BTreeMap::new(),
            missed_end: None,
        };
        match session.send_logon() {
            Ok(()) => Ok(session),
            Err(Interruption::Cut(cause)) => Err(unreachable_gateway(address, &cause)),
            Err(Interruption::Failed(failure)) => Err(failure),
        }
    }

    /// Sends a request, and returns its number. `build` gets the number. If the connection is cut,
    /// the request is sent again, so an order must have its own client order id.
    pub fn request<M: Into<SbeMessage>>(&mut self, build: impl FnOnce(u64) -> M) -> u64 {
        self.requests += 1;
        let message = build(self.requests).into();
        if self.missed_end.is_none() {
            // After a cut, `poll` sends the request again.
            drop(self.send(&message));
        }
        self.unanswered.insert(self.requests, message);
        self.requests
    }

    pub fn is_answered(&self, request: u64) -> bool {
        !self.unanswered.contains_key(&request)
    }

    /// Returns whether [`OrderEntrySession::poll`] has an event without waiting.
    pub fn has_event(&self) -> bool {
        !self.events.is_empty()
    }

    /// Waits for one message of the gateway, which may be a heartbeat. Logs on again after a cut.
    ///
    /// # Errors
    ///
    /// Fails if the gateway sends something else than this protocol, if it cannot be reached again,
    /// and if the venue has started again.
    pub fn poll(&mut self) -> Result<Option<EntryEvent>, Failure> {
        if self.events.is_empty() {
            match self.take_message() {
                Ok(()) => {}
                Err(Interruption::Cut(cause)) => self.reconnect(cause)?,
                Err(Interruption::Failed(failure)) => return Err(failure),
            }
        }
        Ok(self.events.pop_front())
    }

    /// Returns whether [`OrderEntrySession::poll`] has something to do within the timeout.
    pub fn has_input(&self, timeout: Duration) -> bool {
        let is_ready = self.has_event() || !self.stream.buffer().is_empty() || self.missed_end.is_some();
        is_ready || is_readable(self.stream.get_ref(), timeout)
    }

    fn take_message(&mut self) -> Result<(), Interruption> {
        if self.missed_end.is_some_and(|end| self.next >= end) {
            self.missed_end = None;
            for message in self.unanswered.clone().into_values() {
                self.send(&message)?;
            }
        }
        match self.receive()? {
            SbeMessage::Heartbeat(heartbeat) => {
                if heartbeat.next_sequence > self.next {
                    self.request_missing(heartbeat.next_sequence - 1)?;
                }
                // The gateway sends one in each interval, so the answers arrive in time.
                self.send(&Heartbeat { next_sequence: 0 }.into())?;
            }
            SbeMessage::Logout(Logout { code, reason }) => {
                return Err(Interruption::Cut(format!("the gateway ended the session: {code} {reason}")));
            }
            // The gateway does not have the messages that are still missing.
            SbeMessage::RetransmitComplete(complete) => self.skip_to(complete.to_sequence.saturating_add(1)),
            message => self.take_numbered(message)?,
        }
        Ok(())
    }

    fn take_numbered(&mut self, message: SbeMessage) -> Result<(), Interruption> {
        let Some((sequence, _)) = numbers(&message) else {
            return Err(self.malformed(&format!("a message of template {} to a client", message.template_id())));
        };
        if sequence == self.next {
            self.deliver(message);
            self.deliver_early();
        } else if sequence > self.next {
            if self.early.is_empty() {
                self.request_missing(sequence - 1)?;
            }
            self.early.insert(sequence, message);
        }
        Ok(())
    }

    fn request_missing(&mut self, to_sequence: u64) -> io::Result<()> {
        self.send(&RetransmitRequest { from_sequence: self.next, to_sequence }.into())
    }

    /// Goes on with message `number` if the messages before it cannot be had.
    fn skip_to(&mut self, number: u64) {
        if number > self.next {
            self.next = number;
            self.events.push_back(EntryEvent::Lost);
            self.deliver_early();
        }
    }

    fn deliver_early(&mut self) {
        while let Some(first) = self.early.first_entry().filter(|first| *first.key() <= self.next) {
            let (sequence, message) = first.remove_entry();
            if sequence == self.next {
                self.deliver(message);
            }
        }
    }

    fn deliver(&mut self, message: SbeMessage) {
        self.next += 1;
        if let Some((_, Some(request))) = numbers(&message) {
            self.unanswered.remove(&request);
        }
        self.events.push_back(match message {
            SbeMessage::ReportsLost(_) => EntryEvent::Lost,
            message => EntryEvent::Message(message),
        });
    }

    fn reconnect(&mut self, mut cause: String) -> Result<(), Failure> {
        self.early.clear();
        for _ in 0..RECONNECT_ATTEMPTS {
            let logged_on = open(self.address).map_err(Interruption::from).and_then(|stream| {
                self.stream = stream;
                self.send_logon()
            });
            match logged_on {
                Ok(()) => return Ok(()),
                Err(Interruption::Cut(latest)) => cause = latest,
                Err(Interruption::Failed(failure)) => return Err(failure),
            }
            std::thread::sleep(RECONNECT_PAUSE);
        }
        Err(unreachable_gateway(self.address, &cause))
    }

    fn send_logon(&mut self) -> Result<(), Interruption> {
        let (client_id, secret) = (Text::new(&self.login.client_id), Text::new(&self.login.secret));
        self.send(&Logon { client_id, secret, next_sequence: self.next, heartbeat_s: HEARTBEAT_S }.into())?;
        let accepted = match self.receive()? {
            SbeMessage::LogonAccepted(accepted) => accepted,
            SbeMessage::Logout(Logout { code, reason }) => {
                let refusal =
                    format!("the gateway refused the logon of {} with {code}: {reason}", self.login.client_id);
                return Err(if code == WRONG_CREDENTIALS {
                    Interruption::Failed(Failure::new(refusal).remedy("check the client id and its secret"))
                } else {
                    // For example, the gateway has not noticed the end of the old connection yet.
                    Interruption::Cut(refusal)
                });
            }
            other => {
                let what = format!("a message of template {} as the answer to a logon", other.template_id());
                return Err(self.malformed(&what));
            }
        };
        match self.epoch {
            None => {
                self.epoch = Some(accepted.epoch);
                self.next = accepted.next_sequence;
            }
            Some(epoch) if epoch == accepted.epoch => self.missed_end = Some(accepted.next_sequence),
            Some(_) => {
                let failure = Failure::new("the venue has started again, so the message numbers have no meaning");
                return Err(Interruption::Failed(failure.remedy("query the orders, and log on anew")));
            }
        }
        self.skip_to(accepted.oldest_sequence);
        Ok(())
    }

    fn send(&mut self, message: &SbeMessage) -> io::Result<()> {
        self.frame.clear();
        message.encode(&mut self.frame);
        self.stream.get_mut().write_all(&self.frame)
    }

    fn receive(&mut self) -> Result<SbeMessage, Interruption> {
        let mut header = [0; FRAME_HEADER_BYTES];
        self.stream.read_exact(&mut header)?;
        let bytes = frame_length(header, MAX_FRAME_BYTES).map_err(|error| self.malformed(&format!("a {error}")))?;
        self.frame.clear();
        self.frame.extend_from_slice(&header);
        self.frame.resize(bytes, 0);
        self.stream.read_exact(&mut self.frame[FRAME_HEADER_BYTES..])?;
        SbeMessage::decode(&self.frame).map_err(|error| {
            // The block length and then the template follow the header of the frame.
            let template = u16::from_le_bytes([self.frame[8], self.frame[9]]);
            self.malformed(&format!("a message of template {template} that is not valid ({error})"))
        })
    }

    fn malformed(&self, what: &str) -> Interruption {
        let failure = Failure::new(format!("received {what} from {}", self.address));
        Interruption::Failed(failure.remedy("check the address, and that client and venue have the same schema"))
    }
}

impl Drop for OrderEntrySession {
    /// Logs out. The orders stay in the market.
    fn drop(&mut self) {
        // The connection is closed in any case.
        drop(self.send(&Logout { code: 0, reason: String::new() }.into()));
    }
}

/// A limit order without options.
pub fn limit_order(
    request_id: u64,
    client_order_id: &str,
    instrument_id: u32,
    side: OrderSide,
    quantity: FixedDecimal,
    price: FixedDecimal,
) -> NewOrder {
    NewOrder {
        request_id,
        client_order_id: Text::new(client_order_id),
        instrument_id,
        side,
        order_type: EntryType::Limit,
        time_in_force: EntryTimeInForce::Default,
        hidden: Flag::No,
        post_only: Flag::No,
        quantity: Some(quantity),
        price: Some(price),
        trigger_price: None,
        display_quantity: None,
        minimum_quantity: None,
        expires: 0,
    }
}

/// Returns the number of a message, and the number of the request that it answers.
fn numbers(message: &SbeMessage) -> Option<(u64, Option<u64>)> {
    Some(match message {
        SbeMessage::OrderAccepted(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::MassCancelAccepted(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::Reject(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::BestPrices(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::Vwap(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::Book(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::InstrumentStatus(answer) => (answer.sequence, Some(answer.request_id)),
        SbeMessage::ExecutionReport(report) => (report.sequence, None),
        SbeMessage::ReportsLost(lost) => (lost.sequence, None),
        _ => return None,
    })
}

fn open(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}

/// Returns whether a socket has bytes, or has ended, within the timeout.
pub(crate) fn is_readable(stream: &TcpStream, timeout: Duration) -> bool {
    let timeout = Timespec::try_from(timeout).ok();
    poll(&mut [PollFd::new(stream, PollFlags::IN)], timeout.as_ref()).is_ok_and(|ready| ready > 0)
}

fn unreachable_gateway(address: SocketAddr, cause: &str) -> Failure {
    Failure::new(format!("cannot log on at {address}: {cause}"))
        .remedy("start the venue with --sbe, and check the address")
}
