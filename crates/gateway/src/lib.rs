//! Public channels on a bus: the venue's outlet to NATS, and what a gateway elsewhere makes of it.
//!
//! Does        on the venue's side send batches; on the gateway's receive and check them, fill what is missing from the venue,
//!             keep the newest, and serve them by channel to any number of clients.
//! Holds       1. numbers and bytes are the venue's: every gateway tells a client the same;
//!             2. what was not sealed with the key, was seen before, or is of another start changes nothing;
//!             3. nobody waits: not the venue for NATS, nor a gateway's loop for the venue;
//!             4. a client gets a channel whole from a point on, or is told that it did not.
//! Leaves out  client sockets: the loop is `crates/net`'s. Private methods: they are the venue's own.
//! Start at    [`Node`], then [`Follower`]; on the venue's side [`VenuePublisher`].

mod bus_receiver;
mod client;
mod follower;
mod history;
mod node;
pub mod protocol;
mod reminder;
mod upstream;
mod venue_publisher;

pub use bus_receiver::{BusEvent, BusReceiver};
pub use follower::{Counts, Follower, Progress};
pub use history::{ChannelId, History};
pub use node::{Call, Figures, GoOn, Instant, Mouth, Node, Seat};
pub use venue_publisher::{VenuePublication, VenuePublisher};
/// Before the label of a stream by URL, in the name of its channel on the bus.
pub const STREAM: &str = "stream/";

pub use upstream::{Answer, Ask, Told, Upstream, WebAnswer, WebRequest};
