//! Sessions, login and the methods of the JSON-RPC dialect over the venue port.
//!
//! Does        turn a request of a session into commands and answers; tell sessions what happened to their orders.
//! Holds       1. one answer per request, in order of arrival;
//!             2. no private method works without a login whose scope covers it;
//!             3. another account's order is indistinguishable from one that does not exist.
//! Leaves out  sockets, and when an answer may leave: see `crates/net`. Public channels: see `crates/market-data`.
//! Start at    [`Desk::answer`], then `methods`.

mod access;
mod auth;
pub mod codec;
mod desk;
mod diary;
mod limits;
mod methods;
mod notices;
mod replays;
mod resume;
mod secret;
mod session;
mod tokens;
mod vault;
mod venue;
mod volume;

pub use access::{Access, Level};
pub use auth::{Authorization, Credential, Login, SignedRequest};
pub use desk::{Answer, Clock, Desk, Effect, Entrance, Visit};
pub use limits::{Allowance, Limits};
pub use methods::channels::{ChannelName, channel_named};
pub use methods::connection::VERSION;
pub use methods::names as method_names;
pub use resume::{RESUMABLE_NS, RESUMED_BYTES};
pub use secret::Secret;
pub use session::Session;
pub use vault::{Forgetful, Vault};
pub use venue::{Explained, Standing, Venue};
