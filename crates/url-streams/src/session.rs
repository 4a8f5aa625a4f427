//! One client's side of a connection: what its URL asked for, what it says afterwards, what it is answered.
//!
//! Does        a URL or a text message in; answers, streams to join and streams to leave out.
//! Holds       1. a stream is joined once, however often it is asked for;
//!             2. a request that names an unknown stream changes nothing, and the refusal says what would have been right;
//!             3. a URL may name unknown instruments beside known ones, as clients with a list of another venue's markets do:
//!                they are passed over, and counted for the handshake's answer.
//! Leaves out  sockets, and joining itself.
//! Start at    [`Session::open`], [`Session::said`].

use std::collections::BTreeSet;

use crate::binance::grammar::{self, MOST_STREAMS};
use crate::binance::talk;
use crate::bithumb;
use crate::gemini;
use crate::key::{Dress, Entries, Kind, StreamKey};
use crate::names::Directory;
use crate::url::parameter;

/// A client and what it reads.
#[derive(Clone, Debug)]
pub struct Session {
    pub(crate) form: Form,
    /// In the order in which they were asked for.
    pub(crate) keys: Vec<StreamKey>,
    pub(crate) dress: Dress,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Binance,
    Bithumb,
    Gemini1,
    Gemini2,
}

/// A connection that is to be served.
#[derive(Clone, Debug)]
pub struct Opened {
    pub session: Session,
    /// Told before any stream.
    pub words: Vec<Vec<u8>>,
    pub join: Vec<StreamKey>,
    /// Names in the URL that are nobody's here.
    pub unknown: usize,
    /// Messages are numbered by the stream and not by the socket.
    pub by_stream: bool,
}

/// A connection that is not, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub status: u16,
    pub body: String,
}

/// What comes of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Told before anything of the streams joined.
    pub answers: Vec<Vec<u8>>,
    pub join: Vec<StreamKey>,
    pub leave: Vec<StreamKey>,
}

/// Whether a path is a stream's, in whatever form.
pub fn is_stream_path(path: &str) -> bool {
    grammar::is_path(path) || bithumb::is_path(path) || gemini::is_v1_path(path) || gemini::is_v2_path(path)
}

impl Session {
    fn new(form: Form, dress: Dress) -> Session {
        Session { form, keys: Vec::new(), dress }
    }

    /// What a connection is by its URL; `None` when the path is no stream's.
    pub fn open(path: &str, query: &str, directory: &Directory) -> Option<Result<Opened, Refused>> {
        if let Some(wish) = grammar::read_target(path, query) {
            return Some(open_binance(&wish, directory));
        }
        let dress = Dress { with_ns: parameter(query, "ts").is_some_and(|ts| ts == "ns"), ..Dress::default() };
        if bithumb::is_path(path) {
            return Some(open_bithumb(query, dress, directory));
        }
        if gemini::is_v2_path(path) {
            return Some(Ok(Opened::of(Session::new(Form::Gemini2, dress))));
        }
        gemini::read_target(path, query).map(|wish| open_gemini(&wish, dress, directory))
    }

    /// Acts on a text message.
    pub fn said(&mut self, text: &str, directory: &Directory) -> Said {
        match self.form {
            Form::Binance => talk::said(self, text, directory),
            Form::Bithumb => bithumb::said(self, text, directory),
            Form::Gemini1 => Said::default(),
            Form::Gemini2 => gemini::said(self, text, directory),
        }
    }

    pub fn streams(&self) -> &[StreamKey] {
        &self.keys
    }

    /// Takes streams on; gives those that are new.
    pub(crate) fn add(&mut self, keys: impl IntoIterator<Item = StreamKey>) -> Vec<StreamKey> {
        let mut known: BTreeSet<StreamKey> = self.keys.iter().copied().collect();
        let fresh: Vec<StreamKey> = keys.into_iter().filter(|key| known.insert(*key)).collect();
        self.keys.extend(&fresh);
        fresh
    }

    /// Lets streams go; gives those that were there.
    pub(crate) fn remove(&mut self, keys: &[StreamKey]) -> Vec<StreamKey> {
        let unwanted: BTreeSet<StreamKey> = keys.iter().copied().collect();
        let (gone, kept) = std::mem::take(&mut self.keys).into_iter().partition(|key| unwanted.contains(key));
        self.keys = kept;
        gone
    }

    pub(crate) fn is_full(&self, more: usize) -> bool {
        self.keys.len().saturating_add(more) > MOST_STREAMS
    }
}

impl Opened {
    fn of(session: Session) -> Opened {
        Opened { session, words: Vec::new(), join: Vec::new(), unknown: 0, by_stream: false }
    }

    fn with(mut self, keys: Vec<StreamKey>, unknown: usize) -> Opened {
        self.join = self.session.add(keys);
        self.unknown = unknown;
        self
    }
}

fn refused(body: String) -> Refused {
    Refused { status: 400, body }
}

fn open_binance(wish: &grammar::Wish, directory: &Directory) -> Result<Opened, Refused> {
    let session = Session::new(Form::Binance, wish.dress);
    if let Some(unit) = &wish.unknown_unit {
        let shown: String = unit.chars().take(40).collect();
        return Err(refused(talk::error(2, &format!("no timeUnit {shown}: there are MILLISECOND and MICROSECOND"))));
    }
    if wish.names.len() > MOST_STREAMS {
        return Err(refused(talk::error(2, &format!("at most {MOST_STREAMS} streams on one connection"))));
    }
    let (mut keys, mut unknown, mut first_unknown) = (Vec::new(), 0, None);
    for name in &wish.names {
        let (symbol, kind) = grammar::read_name(name).map_err(|why| refused(talk::error(2, &why)))?;
        match instrument_key(symbol, kind, wish.dress, directory) {
            Some(key) => keys.push(key),
            None => {
                unknown += 1;
                first_unknown.get_or_insert(symbol);
            }
        }
    }
    match first_unknown.filter(|_| keys.is_empty()) {
        Some(symbol) => Err(refused(talk::error(-1121, &talk::unknown_symbol(symbol)))),
        None => Ok(Opened::of(session).with(keys, unknown)),
    }
}

/// The key of a stream by what the client calls its instrument; an empty symbol is all of them.
pub(crate) fn instrument_key(symbol: &str, kind: Kind, dress: Dress, directory: &Directory) -> Option<StreamKey> {
    let instrument = match symbol {
        "" => None,
        symbol => Some(directory.find(symbol)?),
    };
    Some(StreamKey { kind, instrument, dress })
}

fn open_bithumb(query: &str, dress: Dress, directory: &Directory) -> Result<Opened, Refused> {
    let (mut keys, mut unknown) = (Vec::new(), 0);
    let topics = bithumb::read_target(query);
    for topic in &topics {
        let Some((symbol, kind)) = bithumb::read_topic(topic) else {
            return Err(refused(bithumb::refusal("10005", topic)));
        };
        match instrument_key(symbol, kind, dress, directory) {
            Some(key) if key.instrument.is_some() => keys.push(key),
            _ => unknown += 1,
        }
    }
    match topics.first().filter(|_| keys.is_empty()) {
        Some(topic) => Err(refused(bithumb::refusal("10005", topic))),
        None => {
            let mut opened = Opened::of(Session::new(Form::Bithumb, dress)).with(keys, unknown);
            opened.words.push(bithumb::connected());
            Ok(opened)
        }
    }
}

fn open_gemini(wish: &gemini::Wish, dress: Dress, directory: &Directory) -> Result<Opened, Refused> {
    let Entries { by_stream, .. } = wish.entries;
    let kind = Kind::Market(wish.entries);
    let of = |symbol: &String| instrument_key(symbol, kind, dress, directory).filter(|key| key.instrument.is_some());
    let keys: Vec<StreamKey> = wish.symbols.iter().filter_map(of).collect();
    if keys.is_empty() {
        let symbol = wish.symbols.first().map_or("", String::as_str);
        return Err(refused(gemini::refusal(
            "InvalidSymbol",
            &format!("no instrument {symbol:?}; /v1/symbols lists them"),
        )));
    }
    let unknown = wish.symbols.len() - keys.len();
    Ok(Opened { by_stream, ..Opened::of(Session::new(Form::Gemini1, dress)).with(keys, unknown) })
}
