//! The JSON-RPC dialect: codec, sessions, login and methods over the venue trait.
//!
//! Does        turn a session's requests into commands and answers; notify sessions of changes to
//!             their orders.
//! Holds       1. each request gets one answer, in order of arrival, except for a [`LongAnswer`]:
//!                the server acts on nothing more of that connection before it;
//!             2. no private method works without a login whose scope covers it;
//!             3. another account's order looks like an order that does not exist.
//! Leaves out  sockets, and when an answer may be sent: see `crates/net`.
//! Start at    [`Dispatcher::answer`], then `methods`.

mod access;
mod account_events;
mod account_objects;
mod auth;
mod call;
pub mod channels;
pub mod codec;
mod credential_store;
mod dispatcher;
mod ended_logins;
mod limits;
mod login;
mod login_failures;
mod long_answer;
mod methods;
mod notice_texts;
mod notices;
mod order_filter;
mod replay_buffer;
mod request_clock;
mod resume;
mod secret;
mod session;
mod simulation_call;
mod spent_signatures;
mod state;
mod subscription;
mod tokens;
mod venue;
mod volume;

pub use access::{Access, AccessLevel};
pub use account_events::{AccountEvent, AccountEventKind, account_events};
pub use auth::{Authorization, Credential, FailedLogin, SignedRequest};
pub use call::{Effect, Transport};
pub use credential_store::{CredentialStore, NoCredentialStore};
pub use dispatcher::{DispatchOutcome, Dispatcher, RequestContext};
pub use ended_logins::EndedLogins;
pub use limits::{Allowance, DialectLimits};
pub use login::Login;
pub use login_failures::FailureCounts;
pub use long_answer::{AnswerProgress, LongAnswer};
pub use methods::channels::{ChannelName, channel_named};
pub use methods::connection::VERSION;
pub use methods::market::book_depth;
pub use methods::names as method_names;
pub use methods::typed::{
    AmendRequest, OrderRequest, RequestedTif, RequestedType, TypedAnswer, TypedOutcome, TypedRequest,
};
pub use notice_texts::NoticeTexts;
pub use replay_buffer::RESUMABLE_NS;
pub use request_clock::RequestClock;
pub use resume::RESUMED_BYTES;
pub use secret::Secret;
pub use session::Session;
pub use simulation_call::{SimulationCall, SimulationCaller, SimulationOptions, SimulationRefusal};
pub use venue::{ExplainStatus, Venue, VenueStatus};
