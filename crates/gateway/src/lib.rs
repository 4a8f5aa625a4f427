//! Public channels on a bus: the venue's outlet to NATS, and what a gateway elsewhere makes of it.
//!
//! Does        on the venue's side send batches; on the gateway's receive and check them, fill what is missing from the venue,
//!             keep the newest, and serve them by channel to any number of clients.
//! Holds       1. numbers and bytes are the venue's: every gateway tells a client the same;
//!             2. what was not sealed with the key, was seen before, or is of another start changes nothing;
//!             3. nobody waits: not the venue for NATS, nor a gateway's loop for the venue;
//!             4. a client gets a channel whole from a point on, or is told that it did not.
//! Leaves out  client sockets: the loop is `crates/net`'s. Private methods: they are the venue's own.
//! Start at    [`Node`], then [`Follower`]; on the venue's side [`Outlet`].

mod client;
mod follower;
mod history;
mod inlet;
mod nats;
mod node;
mod outlet;
pub mod protocol;
mod reminder;
mod upstream;

pub use follower::{Counts, Follower, Progress};
pub use history::{ChannelId, History};
pub use inlet::{Inlet, News};
pub use nats::{Failure, check, without_password};
pub use node::{Call, Figures, GoOn, Instant, Mouth, Node, Seat};
pub use outlet::{Outlet, Publication};
/// Before the label of a stream by URL, in the name of its channel on the bus.
pub const STREAM: &str = "stream/";

pub use upstream::{Answer, Ask, Told, Upstream, WebAnswer, WebRequest};
