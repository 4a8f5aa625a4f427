//! Sessions, login and the methods of the JSON-RPC dialect over the venue port.
//!
//! Does        turn a request of a session into commands and answers; tell sessions what happened to their orders.
//! Holds       1. one answer per request, in order of arrival;
//!             2. no private method works without a login whose scope covers it;
//!             3. another account's order is indistinguishable from one that does not exist.
//! Leaves out  sockets, and when an answer may leave: see `crates/net`. Public channels: see `crates/market-data`.
//! Start at    [`Dispatcher::answer`], then `methods`.

mod access;
mod account_objects;
mod auth;
mod call;
pub mod codec;
mod credential_store;
mod dispatcher;
mod limits;
mod methods;
mod notices;
mod replay_buffer;
mod resume;
mod secret;
mod session;
mod spent_signatures;
mod state;
mod subscription;
mod tokens;
mod venue;
mod volume;

pub use access::{Access, Level};
pub use auth::{Authorization, Credential, Login, SignedRequest};
pub use call::{Effect, RequestClock, Transport};
pub use credential_store::{CredentialStore, NoCredentialStore};
pub use dispatcher::{Dispatched, Dispatcher, RequestContext};
pub use limits::{Allowance, Limits};
pub use methods::channels::{ChannelName, channel_named};
pub use methods::connection::VERSION;
pub use methods::names as method_names;
pub use replay_buffer::RESUMABLE_NS;
pub use resume::RESUMED_BYTES;
pub use secret::Secret;
pub use session::Session;
pub use venue::{ExplainStatus, Venue, VenueStatus};
