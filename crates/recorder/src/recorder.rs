//! A client that records what a feed sends, and when.
//!
//! Does        connects (ws, wss), logs in, and writes every message with its arrival time until
//!             the feed ends, a limit is reached or `stop` becomes readable.
//! Holds       the file is complete when this returns. If the process is killed, at most about the
//!             last second is missing.
//! Start at    [`record`], or [`follow`] to pass the messages to another sink.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pitwire_failure::without_password;
use pitwire_net::{ClientSocket, ClientSocketError, DialOptions, OpenConnection, ReadOutcome, WaitOutcome, dial, wait};
use pitwire_tls::{Tickets, Trust, client_config};
use pitwire_websocket::{Address, CloseCode, Decoder, IncomingMessage, MessageLimits, Opcode};

use crate::recording::{MESSAGE_MOST, RecordingWriter};

/// Time limit for connecting and the handshakes, in nanoseconds.
const CONNECT_NS: u64 = 10_000_000_000;
/// Interval at which `stop` and the limits are checked, in nanoseconds.
const GLANCE_NS: u64 = 100_000_000;

pub struct RecordOptions {
    pub url: String,
    /// Authorities to trust in addition to the system's.
    pub ca: Option<PathBuf>,
    /// Text messages sent first.
    pub greetings: Vec<String>,
    pub messages: Option<u64>,
    pub time: Option<Duration>,
}

pub struct RecordSummary {
    pub messages: u64,
    pub bytes: u64,
    pub seconds: f64,
    /// Why recording ended, unless by a close, a limit or `stop`.
    pub failure: Option<String>,
}

/// Why a recording ends.
enum RecordEnd {
    /// By a close, a limit or `stop`.
    Done,
    Lost(String),
    /// The file cannot be written.
    Unwritable(io::Error),
}

/// Takes the messages of a feed.
pub trait MessageSink {
    /// Takes a message that arrived `since_ns` after the connection opened.
    ///
    /// # Errors
    /// It cannot be stored.
    fn add(&mut self, since_ns: u64, is_binary: bool, body: &[u8]) -> io::Result<()>;

    /// Called several times per second.
    ///
    /// # Errors
    /// Earlier messages cannot be stored.
    fn tick(&mut self, _since_ns: u64) -> io::Result<()> {
        Ok(())
    }

    fn messages(&self) -> u64;
}

impl MessageSink for RecordingWriter<BufWriter<File>> {
    fn add(&mut self, since_ns: u64, is_binary: bool, body: &[u8]) -> io::Result<()> {
        RecordingWriter::add(self, since_ns, is_binary, body)
    }

    fn tick(&mut self, since_ns: u64) -> io::Result<()> {
        RecordingWriter::tick(self, since_ns)
    }

    fn messages(&self) -> u64 {
        RecordingWriter::messages(self)
    }
}

impl From<io::Error> for RecordEnd {
    fn from(error: io::Error) -> Self {
        RecordEnd::Unwritable(error)
    }
}

impl From<ClientSocketError<()>> for RecordEnd {
    fn from(error: ClientSocketError<()>) -> Self {
        RecordEnd::Lost(match error {
            ClientSocketError::Socket(error) => error.to_string(),
            ClientSocketError::Tls(error) => error.to_string(),
            ClientSocketError::Handler(()) => "its content was refused".into(),
        })
    }
}

/// Records into `file` until the end, or until `stop` becomes readable.
///
/// # Errors
/// The feed cannot be reached, or the file cannot be written.
pub fn record(wanted: &RecordOptions, file: File, stop: &impl AsFd) -> Result<RecordSummary, String> {
    let connection = connect(wanted, stop)?;
    let started = Instant::now();
    let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, nanos);
    let writing = |error: io::Error| format!("cannot write the recording: {error}");
    let writer = RecordingWriter::new(BufWriter::new(file), wall_ns, &wanted.url).map_err(writing)?;
    let (writer, failure) = follow_on(connection, wanted, writer, started, stop).map_err(writing)?;
    let (messages, seconds) = (writer.messages(), started.elapsed().as_secs_f64());
    let file = writer.finish().map_err(writing)?.into_inner().map_err(|error| writing(error.into_error()))?;
    file.sync_all().map_err(writing)?;
    let bytes = file.metadata().map_err(writing)?.len();
    Ok(RecordSummary { messages, bytes, seconds, failure })
}

/// Passes every message to `sink` until the end, or until `stop` becomes readable. Returns the
/// sink, and why the feed broke off.
///
/// # Errors
/// The feed cannot be reached, or the sink fails.
pub fn follow<S: MessageSink>(
    wanted: &RecordOptions,
    sink: S,
    stop: &impl AsFd,
) -> Result<(S, Option<String>), String> {
    let connection = connect(wanted, stop)?;
    follow_on(connection, wanted, sink, Instant::now(), stop).map_err(|error| error.to_string())
}

fn follow_on<S: MessageSink>(
    connection: OpenConnection,
    wanted: &RecordOptions,
    sink: S,
    started: Instant,
    stop: &impl AsFd,
) -> io::Result<(S, Option<String>)> {
    let OpenConnection { channel, early } = connection;
    let decoder = Decoder::of_server(MessageLimits { message_bytes: MESSAGE_MOST, fragments: u32::MAX });
    let mut recorder = FeedRecorder { wanted, channel, decoder, received: early, writer: sink, started };
    let failure = match recorder.run(stop) {
        RecordEnd::Done => None,
        RecordEnd::Lost(cause) => Some(format!("the feed broke off: {cause}")),
        RecordEnd::Unwritable(error) => return Err(error),
    };
    Ok((recorder.writer, failure))
}

fn connect(wanted: &RecordOptions, stop: &impl AsFd) -> Result<OpenConnection, String> {
    let url = &wanted.url;
    let address = Address::parse(url).map_err(|error| {
        let shown = without_password(url);
        format!("{shown} is not the URL of a feed: {error}; give ws://HOST:PORT/… or wss://…")
    })?;
    let trust = wanted.ca.as_deref().map_or(Trust::System, Trust::SystemAnd);
    let tls = address.is_secure.then(|| client_config(trust, Tickets::Few)).transpose()?;
    let options = DialOptions { address: &address, tls: tls.as_ref(), patience_ns: CONNECT_NS, receive_buffer: None };
    dial(&options, stop).map_err(|error| format!("{error}; {}", error.remedy()))
}

/// A recording in progress.
struct FeedRecorder<'a, S> {
    wanted: &'a RecordOptions,
    channel: ClientSocket,
    decoder: Decoder,
    /// Received bytes that are not decoded.
    received: Vec<u8>,
    writer: S,
    started: Instant,
}

impl<S: MessageSink> FeedRecorder<'_, S> {
    fn run(&mut self, stop: &impl AsFd) -> RecordEnd {
        match self.follow(stop) {
            Err(end @ RecordEnd::Done) => {
                // The feed may already be gone.
                let _ = self.channel.send_frame(Opcode::Close, &(CloseCode::Normal as u16).to_be_bytes());
                end
            }
            Err(end) => end,
            Ok(()) => RecordEnd::Done,
        }
    }

    /// Reads to the end. Returns without an error if the feed has closed the connection.
    fn follow(&mut self, stop: &impl AsFd) -> Result<(), RecordEnd> {
        for greeting in &self.wanted.greetings {
            self.channel.send_frame(Opcode::Text, greeting.as_bytes())?;
        }
        let mut checked = self.started;
        loop {
            if self.decode()? {
                return Ok(());
            }
            if self.wanted.time.is_some_and(|most| self.started.elapsed() >= most) {
                return Err(RecordEnd::Done);
            }
            let received = &mut self.received;
            let outcome = self.channel.receive(None, |piece| {
                received.extend_from_slice(piece);
                Ok(())
            })?;
            let wait_ns = match outcome {
                ReadOutcome::Bytes(_) if nanos(checked.elapsed()) < GLANCE_NS => continue,
                ReadOutcome::Bytes(_) => 0,
                ReadOutcome::Nothing => GLANCE_NS,
                ReadOutcome::End => {
                    // The last content may have arrived together with the end.
                    if self.decode()? {
                        return Ok(());
                    }
                    return Err(RecordEnd::Lost("it ended the connection without a close frame".into()));
                }
            };
            let woken = wait(Some(self.channel.socket()), self.channel.has_unsent(), Some(stop), wait_ns)
                .map_err(|error| RecordEnd::Lost(error.to_string()))?;
            if woken == WaitOutcome::Stop {
                return Err(RecordEnd::Done);
            }
            checked = Instant::now();
            self.channel.flush().map_err(|error| RecordEnd::Lost(error.to_string()))?;
            self.writer.tick(nanos(self.started.elapsed()))?;
        }
    }

    /// Writes the messages that have arrived, and answers pings. Returns whether the feed has
    /// closed the connection.
    fn decode(&mut self) -> Result<bool, RecordEnd> {
        let ns = nanos(self.started.elapsed());
        let mut used = 0;
        let is_closed = loop {
            if self.wanted.messages.is_some_and(|most| self.writer.messages() >= most) {
                return Err(RecordEnd::Done);
            }
            let (bytes, incoming) = self
                .decoder
                .decode(&self.received[used..])
                .map_err(|error| RecordEnd::Lost(format!("it broke the WebSocket protocol: {error}")))?;
            match incoming {
                Some(IncomingMessage::Text(text)) => self.writer.add(ns, false, text.as_bytes())?,
                Some(IncomingMessage::Binary(body)) => self.writer.add(ns, true, body)?,
                Some(IncomingMessage::Ping(body)) => self.channel.send_frame(Opcode::Pong, body)?,
                Some(IncomingMessage::Close(code)) => {
                    let body = code.map(|code| code.to_be_bytes().to_vec()).unwrap_or_default();
                    // The connection is over, whether or not the frame arrives.
                    let _ = self.channel.send_frame(Opcode::Close, &body);
                    break true;
                }
                Some(IncomingMessage::Pong) | None => {}
            }
            if bytes == 0 {
                break false;
            }
            used += bytes;
        };
        self.received.drain(..used);
        Ok(is_closed)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
