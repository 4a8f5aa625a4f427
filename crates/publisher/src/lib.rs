//! One stream to very many subscribers: rings of ready frames, cursors, halls that serve them.
//!
//! Does        serve WebSocket subscribers from threads of its own, each with its own copy of the streams: a message is
//!             encoded once, appended once, and sent straight from the ring to everybody.
//! Holds       1. whoever publishes never waits;
//!             2. what is missed is declared, or its reader closed: see [`LagPolicy`];
//!             3. memory is bounded by the streams and by the number of subscribers, not by how slowly they read.
//! Leaves out  where messages come from, and what a path means: [`Programme`].
//! Start at    [`Publisher::start`]; inside, [`floor`] without sockets and [`loops`] with them.

mod board;
mod channels;
mod counters;
mod field;
pub(crate) mod floor;
mod hall;
mod inbox;
mod loops;
mod press;
mod programme;
mod request;
mod subscriber;
mod synthetic;
mod tls;
mod wheel;

pub use board::{Board, counted};
pub use channels::{Channels, Hearing};
pub use counters::{Counters, text as metrics};
pub use field::field;
pub use floor::Limits;
pub use hall::{Batch, Options, Publisher};
pub use loops::{BatchingPolicy, Kind, mono_ns as monotonic_ns};
pub use pitwire_delivery::{LagPolicy, StreamId, StreamSpec};
pub use pitwire_websocket::CloseCode;
pub use press::{CHANNEL_FIELD, Press};
pub use programme::{Answer, GoOn, Opening, Programme, Reply, Request, Said, Tag, weight};
pub use synthetic::Synthetic;
