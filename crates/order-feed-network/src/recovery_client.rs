//! A reader's connection to the recovery port.
//!
//! The connection stays open: it ends when the venue ends, and a venue that starts again numbers
//! its messages anew. So message numbers have one meaning as long as a connection lives.
//!
//! Start at    [`RecoveryClient::connect`].

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use pitwire_order_feed::{
    BookBuilder, Letter, LoginRequest, MARKET_DATA_GROUP, MAX_UNIT_BYTES, MitchEncode, MitchMessage, ReplayRequest,
    SnapshotRequest, UNIT_HEADER_BYTES, Unit, UnitWriter, wire_number,
};

/// Longest wait for each part of an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest time for an answer as a whole.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(60);

/// The answer to a request for missed messages.
pub(crate) enum ReplayAnswer {
    /// Units with the messages.
    Units(Vec<Vec<u8>>),
    /// The venue does not have the first of the messages. Its oldest one has this number.
    OutOfRange { oldest: u32 },
    /// Too many requests: try again later.
    Limited,
}

pub(crate) struct RecoveryClient<S = TcpStream> {
    socket: S,
    deadline: Instant,
}

impl RecoveryClient {
    /// Connects and logs in.
    pub fn connect(address: SocketAddr) -> io::Result<RecoveryClient> {
        RecoveryClient::log_in(connect(address)?)
    }

    /// Returns whether the venue has closed the connection.
    pub fn is_closed(&self) -> bool {
        let peek = self.socket.set_nonblocking(true).and_then(|()| self.socket.peek(&mut [0]));
        let is_open = match peek {
            Ok(bytes) => bytes > 0,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        self.socket.set_nonblocking(false).is_err() || !is_open
    }
}

impl<S: Read + Write> RecoveryClient<S> {
    pub fn log_in(socket: S) -> io::Result<RecoveryClient<S>> {
        let mut client = RecoveryClient { socket, deadline: Instant::now() + ANSWER_PATIENCE };
        client.request(&LoginRequest::default())?;
        match client.message()? {
            MitchMessage::LoginResponse(response) if response.status == Letter(b'A') => Ok(client),
            other => Err(unexpected("Login Response", &other)),
        }
    }

    /// Requests `count` messages from `first`.
    pub fn replay(&mut self, first: u64, count: u16) -> io::Result<ReplayAnswer> {
        let (market_data_group, first_message) = (MARKET_DATA_GROUP, wire_number(first));
        self.request(&ReplayRequest { market_data_group, first_message, count })?;
        let response = match self.message()? {
            MitchMessage::ReplayResponse(response) => response,
            other => return Err(unexpected("Replay Response", &other)),
        };
        match response.status {
            Letter(b'A') => {}
            Letter(b'O') => return Ok(ReplayAnswer::OutOfRange { oldest: response.first_message }),
            Letter(b'D') => return Ok(ReplayAnswer::Limited),
            Letter(other) => return Err(refused("replay", other)),
        }
        let (mut units, mut left) = (Vec::new(), response.count);
        while left > 0 {
            let unit = self.unit()?;
            let messages = Unit::read(&unit).map_or(0, |unit| unit.header.message_count);
            left = left.checked_sub(u16::from(messages.max(1))).ok_or_else(|| invalid("more messages than stated"))?;
            units.push(unit);
        }
        Ok(ReplayAnswer::Units(units))
    }

    /// Requests a snapshot. Returns the books and the number of the newest message in them. `None`
    /// if there were too many requests.
    pub fn snapshot(&mut self) -> io::Result<Option<(u32, BookBuilder)>> {
        self.request(&SnapshotRequest::default())?;
        let mut books = BookBuilder::default();
        let mut newest = None;
        loop {
            let unit = self.unit()?;
            let unit = Unit::read(&unit).map_err(|error| invalid(&error.to_string()))?;
            for message in unit.messages() {
                match message.map_err(|error| invalid(&error.to_string()))? {
                    MitchMessage::SnapshotResponse(response) => match response.status {
                        Letter(b'A') => newest = Some(response.sequence_number),
                        Letter(b'b' | b'c') => return Ok(None),
                        Letter(other) => return Err(refused("snapshot", other)),
                    },
                    MitchMessage::SnapshotComplete(_) => {
                        return newest
                            .map(|newest| Some((newest, books)))
                            .ok_or_else(|| invalid("a snapshot without its response"));
                    }
                    message => books.apply(&message).map_err(|error| invalid(&error.to_string()))?,
                }
            }
        }
    }

    fn request(&mut self, message: &impl MitchEncode) -> io::Result<()> {
        self.deadline = Instant::now() + ANSWER_PATIENCE;
        let mut encoded = Vec::new();
        message.encode(&mut encoded);
        let mut units = UnitWriter::unnumbered();
        let mut sent = Ok(());
        units.add(&encoded, |_, _| {});
        units.finish(|_, unit| sent = self.socket.write_all(unit));
        sent
    }

    fn message(&mut self) -> io::Result<MitchMessage> {
        let unit = self.unit()?;
        let unit = Unit::read(&unit).map_err(|error| invalid(&error.to_string()))?;
        let message = unit.messages().next().ok_or_else(|| invalid("an answer without a message"))?;
        message.map_err(|error| invalid(&error.to_string()))
    }

    fn unit(&mut self) -> io::Result<Vec<u8>> {
        if Instant::now() > self.deadline {
            return Err(late());
        }
        let mut unit = vec![0; UNIT_HEADER_BYTES];
        self.socket.read_exact(&mut unit)?;
        let length = usize::from(u16::from_le_bytes([unit[0], unit[1]]));
        if !(UNIT_HEADER_BYTES..=MAX_UNIT_BYTES).contains(&length) {
            return Err(invalid(&format!("a unit states a length of {length} bytes")));
        }
        unit.resize(length, 0);
        self.socket.read_exact(&mut unit[UNIT_HEADER_BYTES..])?;
        Ok(unit)
    }
}

/// Connects to a recovery port. Each read and write has a limit of time.
pub(crate) fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

pub(crate) fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "an answer took longer than 60 s")
}

pub(crate) fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn unexpected(expected: &str, message: &MitchMessage) -> io::Error {
    invalid(&format!("expected a {expected}, not {}", message.name()))
}

pub(crate) fn refused(what: &str, status: u8) -> io::Error {
    io::Error::other(format!("the venue refuses the {what} with status {:?}", char::from(status)))
}
