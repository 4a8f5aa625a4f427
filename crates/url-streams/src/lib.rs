//! Streams by URL in the forms of Binance, Bithumb Global and Gemini: names, payloads, snapshots. No sockets.
//!
//! Does        read what a URL or a message asks for; write what each stream tells of each event, once for all its readers;
//!             answer the REST requests that clients of these forms synchronise by.
//! Holds       1. equal streams, equal bytes: a message depends on the event and the stream, never on who reads it;
//!             2. numbers and times are public ones of the venue: nothing hidden shows.
//! Leaves out  sockets, rings, who has fallen behind, and when a message may leave.
//! Start at    [`Session::open`] for who comes, [`Streams::observe`] for what happens.

mod bars;
pub mod binance;
pub mod bithumb;
mod bithumb_rest;
mod feed;
pub mod gemini;
mod gemini_rest;
mod join;
mod key;
mod label;
mod market;
mod names;
mod rest;
mod session;
mod tell;
mod text;
mod url;

pub use binance::encode::{Stamps, combine};
pub use feed::{Here, Sink, StreamId, Streams};
pub use gemini::Numbered;
pub use key::{Cadence, Dress, Entries, Kind, KlineInterval, StreamKey};
pub use market::{Market, Touch};
pub use names::{Directory, Names};
pub use rest::{Answer, is_rest_path};
pub use session::{Opened, Refused, Said, Session, is_stream_path};
