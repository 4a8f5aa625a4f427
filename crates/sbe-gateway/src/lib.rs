//! Binary order entry: SBE sessions in the venue's event loop.
//!
//! Does        decodes SBE messages, executes them as typed requests of the dispatcher, and encodes
//!             the answers and the reports from the venue's state.
//! Holds       1. A request of a session has one answer. A session executes its requests one at a
//!                time, in order.
//!             2. Every message to the client that is not session traffic has a number. A session
//!                keeps the newest ones, and sends them again after a new logon.
//!             3. A malformed message gets a reject with a reason. A malformed frame ends the
//!                connection with a reason, because the next frame cannot be found.
//!             4. Memory is bounded: connections, frames and kept messages have a limit.
//! Leaves out  sockets. The event loop passes the bytes of its byte-stream listeners. Another
//!             transport must offer a byte stream in both directions; it runs outside of the venue
//!             thread and connects each of its sessions to such a listener by TCP. Encryption: the
//!             listeners have loopback addresses.
//! Start at    [`BinaryEntry::message`]; `docs/sbe.md` describes the protocol, and
//!             `docs/cointossx-profile.md` the second schema.

mod binary_entry;
mod codec;
mod cointossx;
mod entry_context;
mod entry_session;
mod execution_reports;
mod messages;
mod profile;
mod replay_log;
mod requests;
mod schema;
#[cfg(test)]
mod schema_file;

pub use binary_entry::{BinaryEntry, EntrySchema};
pub use codec::{DecodeError, FRAME_HEADER_BYTES, FixedDecimal, FrameError, Text, frame_length};
pub use cointossx::*;
pub use entry_context::{EntryContext, EntryEffects, EntryRecipient, FollowRequest, SessionKey};
pub use messages::*;
