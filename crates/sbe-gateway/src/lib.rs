//! Binary order entry: SBE sessions over TCP in front of the JSON-RPC dialect.
//!
//! Does        decodes SBE messages, executes them as calls of the JSON-RPC dialect on a connection
//!             that is logged in as the same client, and encodes the answers and the reports.
//! Holds       1. A request of a session has one answer. A session executes its requests one at a
//!                time, in order.
//!             2. Every message to the client that is not session traffic has a number. The gateway
//!                keeps the newest ones, and sends them again after a new logon.
//!             3. A malformed message gets a reject with a reason. A malformed frame ends the
//!                connection with a reason, because the next frame cannot be found.
//!             4. Memory is bounded: connections, frames and kept messages have a limit.
//! Leaves out  encryption. The gateway listens on loopback addresses only.
//! Start at    [`SbeGateway::start`]; `docs/sbe.md` describes the protocol, and
//!             `docs/cointossx-profile.md` the second schema.

mod codec;
mod cointossx;
mod messages;
mod profile;
mod replay_log;
mod schema;
#[cfg(test)]
mod schema_file;
mod server;
mod session;
mod translate;

pub use codec::{DecodeError, FRAME_HEADER_BYTES, FixedDecimal, FrameError, Text, frame_length};
pub use cointossx::*;
pub use messages::*;
pub use server::{EntrySchema, SbeGateway, StartError};
