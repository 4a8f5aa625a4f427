//! One connection's state: the streams of its URL, its requests, and their answers.
//!
//! Does        Takes a URL or a text message. Returns answers, streams to join and streams to
//!             leave.
//! Holds       1. A stream is joined once, however often it is requested.
//!             2. A request that names an unknown stream changes nothing, and its answer says what
//!                exists.
//!             3. A URL may name unknown instruments beside known ones, because clients come with
//!                another exchange's list. They are ignored, and counted for the handshake's
//!                answer.
//! Leaves out  Sockets, and joining itself.
//! Start at    [`StreamSession::open`], [`StreamSession::said`].

use crate::binance::grammar::{self, MOST_STREAMS};
use crate::binance::talk;
use crate::bithumb;
use crate::gemini;
use crate::key::{Entries, Kind, MessageForm, StreamKey};
use crate::names::Directory;
use crate::stream_set::{Dialect, MessageOutcome, StreamSession, instrument_key};
use crate::url::parameter;

/// A connection that is to be served.
#[derive(Clone, Debug)]
pub struct StreamConnection {
    pub session: StreamSession,
    /// Messages to send before any stream's.
    pub words: Vec<Vec<u8>>,
    pub join: Vec<StreamKey>,
    /// Number of unknown names in the URL.
    pub unknown: usize,
    /// Messages have the stream's numbers instead of the socket's.
    pub by_stream: bool,
}

/// Why a connection is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamRefusal {
    pub status: u16,
    pub body: String,
}

/// Whether a path belongs to a stream, in any dialect.
pub fn is_stream_path(path: &str) -> bool {
    grammar::is_path(path) || bithumb::is_path(path) || gemini::is_v1_path(path) || gemini::is_v2_path(path)
}

impl StreamSession {
    /// Opens the connection that a URL asks for. Returns `None` if the path belongs to no stream.
    pub fn open(path: &str, query: &str, directory: &Directory) -> Option<Result<StreamConnection, StreamRefusal>> {
        if let Some(wanted) = grammar::read_target(path, query) {
            return Some(open_binance(&wanted, directory));
        }
        let form =
            MessageForm { with_ns: parameter(query, "ts").is_some_and(|ts| ts == "ns"), ..MessageForm::default() };
        if bithumb::is_path(path) {
            return Some(open_bithumb(query, form, directory));
        }
        if gemini::is_v2_path(path) {
            return Some(Ok(StreamConnection::of(StreamSession::new(Dialect::Gemini2, form))));
        }
        gemini::read_target(path, query).map(|wanted| open_gemini(&wanted, form, directory))
    }

    /// Handles a text message.
    pub fn handle_message(&mut self, text: &str, directory: &Directory) -> MessageOutcome {
        match self.dialect {
            Dialect::Binance => talk::handle_message(self, text, directory),
            Dialect::Bithumb => bithumb::handle_message(self, text, directory),
            Dialect::Gemini1 => MessageOutcome::default(),
            Dialect::Gemini2 => gemini::handle_message(self, text, directory),
        }
    }
}

impl StreamConnection {
    fn of(session: StreamSession) -> StreamConnection {
        StreamConnection { session, words: Vec::new(), join: Vec::new(), unknown: 0, by_stream: false }
    }

    fn with(mut self, keys: Vec<StreamKey>, unknown: usize) -> StreamConnection {
        self.join = self.session.add(keys);
        self.unknown = unknown;
        self
    }
}

fn refused(body: String) -> StreamRefusal {
    StreamRefusal { status: 400, body }
}

fn open_binance(wanted: &grammar::StreamQuery, directory: &Directory) -> Result<StreamConnection, StreamRefusal> {
    let session = StreamSession::new(Dialect::Binance, wanted.form);
    if let Some(unit) = &wanted.unknown_unit {
        let shown: String = unit.chars().take(40).collect();
        return Err(refused(talk::error(2, &format!("no timeUnit {shown}: there are MILLISECOND and MICROSECOND"))));
    }
    if wanted.names.len() > MOST_STREAMS {
        return Err(refused(talk::error(2, &format!("at most {MOST_STREAMS} streams on one connection"))));
    }
    let (mut keys, mut unknown, mut first_unknown) = (Vec::new(), 0, None);
    for name in &wanted.names {
        let (symbol, kind) = grammar::read_name(name).map_err(|why| refused(talk::error(2, &why)))?;
        match instrument_key(symbol, kind, wanted.form, directory) {
            Some(key) => keys.push(key),
            None => {
                unknown += 1;
                first_unknown.get_or_insert(symbol);
            }
        }
    }
    match first_unknown.filter(|_| keys.is_empty()) {
        Some(symbol) => Err(refused(talk::error(-1121, &talk::unknown_symbol(symbol)))),
        None => Ok(StreamConnection::of(session).with(keys, unknown)),
    }
}

fn open_bithumb(query: &str, form: MessageForm, directory: &Directory) -> Result<StreamConnection, StreamRefusal> {
    let (mut keys, mut unknown) = (Vec::new(), 0);
    let topics = bithumb::read_target(query);
    for topic in &topics {
        let Some((symbol, kind)) = bithumb::read_topic(topic) else {
            return Err(refused(bithumb::refusal("10005", topic)));
        };
        match instrument_key(symbol, kind, form, directory) {
            Some(key) if key.instrument.is_some() => keys.push(key),
            _ => unknown += 1,
        }
    }
    match topics.first().filter(|_| keys.is_empty()) {
        Some(topic) => Err(refused(bithumb::refusal("10005", topic))),
        None => {
            let mut opened = StreamConnection::of(StreamSession::new(Dialect::Bithumb, form)).with(keys, unknown);
            opened.words.push(bithumb::connected());
            Ok(opened)
        }
    }
}

fn open_gemini(
    wanted: &gemini::FeedQuery,
    form: MessageForm,
    directory: &Directory,
) -> Result<StreamConnection, StreamRefusal> {
    let Entries { by_stream, .. } = wanted.entries;
    let kind = Kind::Market(wanted.entries);
    let of = |symbol: &String| instrument_key(symbol, kind, form, directory).filter(|key| key.instrument.is_some());
    let keys: Vec<StreamKey> = wanted.symbols.iter().filter_map(of).collect();
    if keys.is_empty() {
        let symbol = wanted.symbols.first().map_or("", String::as_str);
        return Err(refused(gemini::refusal(
            "InvalidSymbol",
            &format!("no instrument {symbol:?}; /v1/symbols lists them"),
        )));
    }
    let unknown = wanted.symbols.len() - keys.len();
    Ok(StreamConnection {
        by_stream,
        ..StreamConnection::of(StreamSession::new(Dialect::Gemini1, form)).with(keys, unknown)
    })
}
