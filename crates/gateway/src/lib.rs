//! Public channels over NATS: the venue's publisher, and the gateway that serves them elsewhere.
//!
//! Does        Publishes batches for the venue. For a gateway, receives and verifies them, asks the
//!             venue for missing ones, stores the newest, and serves channels to any number of
//!             clients.
//! Holds       1. Sequences and bytes are the venue's: every gateway sends a client the same.
//!             2. A message without the right MAC, a repeated one, or one of another start has no
//!                effect.
//!             3. The venue never waits for NATS, and a gateway's event loop never waits for the
//!                venue.
//!             4. A client gets every message of a channel after its snapshot, or a notice of the
//!                gap.
//! Leaves out  Client sockets: `crates/net` has the event loop. Private methods: only the venue
//!             serves them.
//! Start at    [`Node`], then [`Subscriptions`] and [`Follower`]. For the venue's side,
//!             [`VenuePublisher`].

mod bus_receiver;
mod channels;
mod client;
mod connections;
mod directory;
mod follower;
mod history;
mod merge_queue;
mod node;
mod pending;
pub mod protocol;
mod questions;
mod reminder;
mod sink;
mod subscriptions;
mod upstream;
mod venue_publisher;

pub use bus_receiver::{BusEvent, BusReceiver};
pub use follower::{Follower, FollowerCounts, FollowerProgress};
pub use history::History;
pub use node::Node;
pub use pitwire_delivery::ChannelId;
pub use sink::{Attachment, CatchUp, ClientSink, GatewayTime, NodeFigures, VenueCall};
pub use subscriptions::Subscriptions;
pub use venue_publisher::{VenuePublication, VenuePublisher};
/// Prefix of the channels on the bus that carry URL streams. A stream's label follows it.
pub const STREAM: &str = "stream/";

pub use upstream::{Answer, Upstream, VenueAnswer, VenueQuestion, WebAnswer, WebRequest};
