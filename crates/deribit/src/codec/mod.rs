//! The codec of the JSON-RPC dialect.
//!
//! Does        read requests from WebSocket texts, HTTP bodies and query strings; write every
//!             object of the dialect.
//! Holds       1. prices and amounts become whole ticks and lots without passing through a float;
//!             2. integers are written without a decimal point, numbers never as strings, and
//!                absent fields are absent;
//!             3. output is strict; input is lenient in form, never in meaning.
//! Leaves out  access and effects of methods: see the rest of this crate.
//! Start at    [`Request::parse`], then [`Params`], then `objects`.

mod channel;
mod envelope;
mod error;
mod heartbeat;
mod ignored;
mod json;
pub mod objects;
mod params;
mod plain;
mod request;
mod resume;
pub mod rules;
mod unique_names;

pub use channel::{Channel, Interval, PriceGroup, Resolution, Scope};
pub(crate) use envelope::{begin_result, end_result};
pub use envelope::{
    is_login, notification, numbered_notification, write_error, write_heartbeat, write_logout, write_notification,
    write_result, write_result_with,
};
pub use error::{ErrorEntry, RpcError, registry};
pub use heartbeat::Heartbeat;
pub use ignored::{IgnoredChannel, IgnoredChannels, in_right_case, shown, why_ignored};
pub use json::Json;
pub use params::Params;
pub use request::{Request, RequestId};
pub use resume::{CatchUpSource, ResumeReason, Token, resumed, write_resumption};
