//! URL streams in the dialects of Binance, Bithumb Global and Gemini: names, payloads, snapshots.
//! No sockets.
//!
//! Does        Parses subscriptions in URLs and messages. Writes each stream's messages once for
//!             all its readers. Answers the REST requests by which clients of these dialects
//!             synchronise.
//! Holds       1. Equal streams have equal bytes: a message depends on the event and the stream,
//!                never on the reader.
//!             2. Numbers and times are the venue's public ones and reveal nothing hidden.
//! Leaves out  Sockets, rings, lagging readers, and when a message may be sent.
//! Start at    [`StreamSession::open`] for connections, [`Streams::observe`] for events.

mod bars;
pub mod binance;
pub mod bithumb;
mod bithumb_rest;
mod feed;
pub mod gemini;
mod gemini_rest;
mod instrument_encoder;
mod join;
mod key;
mod label;
mod market;
mod names;
mod rest;
mod rest_request;
mod session;
mod state;
mod stream_set;
mod text;
mod unserved;
mod url;

pub use binance::encode::{Stamps, combine};
pub use gemini::NumberPosition;
pub use key::{Cadence, Entries, Kind, KlineInterval, MessageForm, StreamKey};
pub use market::{Market, Touch};
pub use names::{Directory, Names};
pub use rest_request::RestAnswer;
pub use session::{StreamConnection, StreamRefusal, is_stream_path};
pub use state::{Sink, StreamId, Streams, VenueMoment};
pub use stream_set::{MessageOutcome, StreamSession};
pub use unserved::{is_rest_path, unserved};
