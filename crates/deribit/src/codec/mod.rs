//! The JSON-RPC dialect: requests in, exact decimals, objects out.
//!
//! Does        read requests from WebSocket texts, HTTP bodies and query strings; write every object of the dialect.
//! Holds       1. prices and amounts go from text to whole ticks and lots without ever being a float;
//!             2. integers go out without a decimal point, numbers never as strings, absent fields are absent;
//!             3. strict in what goes out, generous in what comes in (form, never meaning).
//! Leaves out  who may call what, and what it does: see `crates/deribit`.
//! Start at    [`Request::parse`], then [`Params`], then `objects`.

mod channel;
mod envelope;
mod error;
mod heartbeat;
mod json;
pub mod objects;
mod params;
mod plain;
mod request;
mod resume;
pub mod rules;

pub use channel::{Channel, Interval, PriceGroup, Resolution, Scope};
pub use envelope::{
    is_login, write_error, write_heartbeat, write_logout, write_notification, write_numbered, write_result,
};
pub use error::{ErrorEntry, RpcError, registry};
pub use heartbeat::Heartbeat;
pub use json::Json;
pub use params::Params;
pub use request::{Request, RequestId};
pub use resume::{CaughtUp, Token, Why, resumed, write_resumption};
