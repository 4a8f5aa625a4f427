//! Delivery threads: each serves its own WebSocket subscribers from its own copy of the streams.
//!
//! Does        Encodes a message once per thread and frame format and sends it from the ring to
//!             every subscriber.
//! Holds       1. The publishing thread never waits.
//!             2. A missed message is declared to its subscriber, or the subscriber is closed: see
//!                [`LagPolicy`].
//!             3. Memory is bounded by the streams and the number of subscribers, not by how slowly
//!                they read.
//! Leaves out  The source of the messages and the meaning of a path: see [`DeliveryHandler`].
//! Start at    [`Publisher::start`]; inside, [`delivery_core`] without sockets and
//!             [`delivery_thread`] with them.

mod channels;
mod counters;
pub(crate) mod delivery_core;
mod delivery_thread;
mod field;
mod handler;
mod inbox;
mod ingest;
mod pass_timer;
mod publisher;
mod request;
mod statistics;
mod subscriber;
mod subscriber_table;
mod synthetic;
mod timer_wheel;

pub use channels::{Channels, IncomingMessages};
pub use counters::{Counters, text as metrics};
pub use delivery_core::SubscriberLimits;
pub use field::field;
pub use handler::{
    ClientMessage, DeliveryHandler, LagAnswer, OUTBOX_REPORT_BYTES, OutboxReport, Reply, Request, SubscriberId,
    SubscriberSetup, weight,
};
pub use ingest::{CHANNEL_FIELD, Ingest};
pub use pass_timer::BatchingPolicy;
pub use pitwire_delivery::{LagPolicy, StreamId, StreamSpec};
pub use pitwire_net::event_loop::LoopKind;
pub use pitwire_websocket::CloseCode;
pub use publisher::{MessageBatch, Options, Publisher};
pub use statistics::{SharedStatistics, counted};
pub use synthetic::SyntheticSource;
