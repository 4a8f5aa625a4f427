//! A blocking NATS client: one subscription, or one publisher with a bounded queue.
//!
//! Does        Checks addresses and subjects, connects, subscribes, publishes from a thread of its
//!             own, and reconnects after the server was away.
//! Holds       1. Error texts and log lines never contain a password.
//!             2. [`NatsPublisher::push`] never blocks; its queue has a fixed capacity.
//!             3. The tokio runtime stays inside this crate: callers see blocking functions only.
//! Leaves out  JetStream and delivery guarantees. Core NATS delivers at most once, and keeps
//!             nothing for a subscriber that is away.
//! Start at    [`NatsSubscription`] and [`NatsPublisher`].

mod address;
mod connection;
mod publisher;
mod reconnect_delay;
mod subscription;

pub use address::{Wildcards, check_address, check_subject};
pub use connection::{FirstConnection, LinkState, NatsOptions};
pub use publisher::{NatsMessage, NatsPublisher, PendingBatches, Publication};
pub use subscription::{MESSAGE_BYTES_MAX, NatsSubscription, ReceiveOutcome};
